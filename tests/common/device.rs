//! Test programs that need a device, or that run their tests on several backends.
//!
//! Without a device, the tests that need one are reported as ignored. With `RRBSOLVER_REQUIRE_DEVICE=1`, they fail.

// Each program uses only a part of this module.
#![allow(dead_code, unused_imports, unused_macros)]

use cudarc::driver::sys;
use libtest_mimic::{Arguments, Trial};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Options of `libtest_mimic` that take a value.
const VALUED: [&str; 5] = ["--color", "--format", "--logfile", "--skip", "--test-threads"];

/// Returns the arguments of the program, and all test names among them. The standard harness accepts several names, but
/// `libtest_mimic` accepts one.
fn arguments() -> (Arguments, Vec<String>) {
    let (mut options, mut names, mut valued) = (Vec::new(), Vec::new(), false);
    for argument in std::env::args() {
        let is_name = !options.is_empty() && !valued && !argument.starts_with('-');
        valued = VALUED.contains(&&*argument);
        if is_name { &mut names } else { &mut options }.push(argument);
    }
    (Arguments::from_iter(options), names)
}

/// A test.
pub struct Case {
    pub name: String,
    pub needs_device: bool,
    /// Whether the test would take minutes on an emulated device.
    pub is_long: bool,
    pub body: Box<dyn FnOnce() + Send>,
}

/// A backend and the options that select it.
pub struct Backend {
    pub name: &'static str,
    pub options: &'static str,
}

impl Backend {
    pub fn on_device(&self) -> bool {
        self.options.contains("cuda")
    }

    /// Returns `full`, or `small` if the backend is an emulated device.
    pub fn size<T>(&self, full: T, small: T) -> T {
        if self.on_device() && emulated() { small } else { full }
    }
}

/// A check with its name.
pub type Check = (&'static str, fn(&Backend));

/// Creates one test for each check on each backend.
pub fn suite(backends: &'static [Backend], checks: &'static [Check]) -> Vec<Case> {
    let case = |backend: &'static Backend, (name, check): Check| Case {
        name: format!("{name} on {}", backend.name),
        needs_device: backend.on_device(),
        is_long: false,
        body: Box::new(move || check(backend)),
    };
    checks.iter().flat_map(|&check| backends.iter().map(move |backend| case(backend, check))).collect()
}

/// Creates one test on the host for each listed function. If a function is not listed, the compiler reports it as dead
/// code.
macro_rules! on_host {
    ($($test:ident)*) => {
        vec![$(crate::device::Case {
            name: stringify!($test).to_owned(),
            needs_device: false,
            is_long: false,
            body: Box::new($test),
        }),*]
    };
}
pub(crate) use on_host;

/// Rows of a table that are all checked. Failures are reported together at the end.
#[derive(Default)]
pub struct Rows {
    failed: Vec<String>,
}

impl Rows {
    /// Checks one row.
    pub fn row(&mut self, name: &str, body: impl FnOnce()) {
        // Unwinding is safe: rows share only data that they read or overwrite completely.
        if let Err(thrown) = catch_unwind(AssertUnwindSafe(body)) {
            let text = thrown.downcast_ref::<String>().map(|text| &**text);
            let text = text.or_else(|| thrown.downcast_ref::<&str>().copied()).unwrap_or("no words");
            self.failed.push(format!("{name}: {text}"));
        }
    }

    /// Fails if a row failed.
    #[track_caller]
    pub fn end(self) {
        assert!(self.failed.is_empty(), "{} rows failed\n{}", self.failed.len(), self.failed.join("\n"));
    }
}

/// Runs the tests that the command line selects.
pub fn run(devices: i32, tests: Vec<Case>) -> ! {
    let (arguments, names) = arguments();
    let has = |test: &str, name: &str| if arguments.exact { name == test } else { test.contains(name) };
    // The program ends with an error if a name matches no test, so that a misspelt name is noticed.
    let unknown: Vec<_> = names.iter().filter(|name| !tests.iter().any(|test| has(&test.name, name))).collect();
    assert!(unknown.is_empty(), "no test has a name with {unknown:?}");
    let required = std::env::var("RRBSOLVER_REQUIRE_DEVICE").is_ok_and(|value| value == "1");
    let trial = |Case { name, needs_device, is_long, body }: Case| {
        let missing = needs_device && devices == 0;
        let body = move || match missing {
            true => Err("this test needs a CUDA device, and none is found".into()),
            false => {
                body();
                Ok(())
            }
        };
        Trial::test(name, body).with_ignored_flag(missing && !required || is_long && devices > 0 && emulated())
    };
    let is_asked = |test: &Case| names.is_empty() || names.iter().any(|name| has(&test.name, name));
    let asked = tests.into_iter().filter(is_asked);
    libtest_mimic::run(&arguments, asked.map(trial).collect()).exit()
}

/// Returns whether the device is emulated by tests/emulator. The emulator needs a second for a millisecond of device
/// work, so tests use fewer rows, smaller boxes or fewer iterations on it.
pub fn emulated() -> bool {
    use cudarc::driver::sys::*;
    let (mut device, mut name) = (0, [0; 32]);
    // SAFETY: the driver was initialized when the device was found; the array has the length passed.
    unsafe {
        assert_eq!(cuDeviceGet(&mut device, 0), CUresult::CUDA_SUCCESS);
        assert_eq!(cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device), CUresult::CUDA_SUCCESS);
    }
    name.iter().take_while(|&&c| c != 0).map(|&c| c as u8).eq(*b"emulated device")
}

/// A CUDA stream that belongs to the test.
pub struct Queue(pub cudarc::driver::sys::CUstream);

impl Queue {
    pub fn new() -> Queue {
        use cudarc::driver::sys::*;
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a device exists and the library has initialized the driver; the pointers outlive the calls.
        unsafe {
            assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), CUresult::CUDA_SUCCESS);
            assert_eq!(cuCtxPushCurrent_v2(context), CUresult::CUDA_SUCCESS);
            assert_eq!(cuStreamCreate(&mut stream, 1), CUresult::CUDA_SUCCESS);
            assert_eq!(cuCtxPopCurrent_v2(&mut context), CUresult::CUDA_SUCCESS);
        }
        Queue(stream)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: created above. The library no longer uses the stream, which is what the test checks.
        unsafe { cudarc::driver::sys::cuStreamDestroy_v2(self.0) };
    }
}

/// An array on the device.
pub struct DeviceArray(pub u64);

impl DeviceArray {
    pub fn new(values: &[f64]) -> Self {
        let mut address = 0;
        in_context(|| {
            // SAFETY: the context is current; the array has as many values.
            unsafe {
                ok(sys::cuMemAlloc_v2(&mut address, size_of_val(values)));
                ok(sys::cuMemcpyHtoDAsync_v2(
                    address,
                    values.as_ptr().cast(),
                    size_of_val(values),
                    std::ptr::null_mut(),
                ));
                ok(sys::cuStreamSynchronize(std::ptr::null_mut()));
            }
        });
        Self(address)
    }

    pub fn read(&self, len: usize) -> Vec<f64> {
        let mut values = vec![0.0; len];
        in_context(|| {
            // SAFETY: as above.
            unsafe {
                ok(sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), self.0, 8 * len, std::ptr::null_mut()));
                ok(sys::cuStreamSynchronize(std::ptr::null_mut()));
            }
        });
        values
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`.
        in_context(|| ok(unsafe { sys::cuMemFree_v2(self.0) }));
    }
}

fn ok(result: sys::CUresult) {
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
}

fn in_context(f: impl FnOnce()) {
    let mut context = std::ptr::null_mut();
    // SAFETY: a device exists and the library has initialized the driver; the pointers outlive the calls.
    unsafe {
        ok(sys::cuDevicePrimaryCtxRetain(&mut context, 0));
        ok(sys::cuCtxPushCurrent_v2(context));
        f();
        ok(sys::cuCtxPopCurrent_v2(&mut context));
    }
}

/// Defines `main` for the listed test functions, which all need a device. If a function is not listed, the compiler
/// reports it as dead code.
macro_rules! device_tests {
    ($devices:expr; $($test:ident)* $(; not on an emulated device: $($long:ident)*)?) => {
        fn main() {
            let case = |is_long: bool| {
                move |name: &str, test: fn()| crate::device::Case {
                    name: name.to_owned(),
                    needs_device: true,
                    is_long,
                    body: Box::new(test),
                }
            };
            let tests = vec![$(case(false)(stringify!($test), $test)),* $($(, case(true)(stringify!($long), $long))*)?];
            crate::device::run($devices, tests)
        }
    };
}
pub(crate) use device_tests;
