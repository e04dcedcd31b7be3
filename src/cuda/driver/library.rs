//! Loads the CUDA driver library, and converts its result codes to errors.

use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::ffi::CStr;
use std::sync::OnceLock;

/// Whether this build of the library contains CUDA kernels.
pub const HAS_KERNELS: bool = cfg!(rrbsolver_kernels);

/// Oldest supported version of the driver API: CUDA 13.0 (r580).
const OLDEST_DRIVER: i32 = 13000;

/// Returns the driver's message for a result code.
fn error_text(result: sys::CUresult) -> String {
    let mut pointer = std::ptr::null();
    // SAFETY: `pointer` outlives the call.
    let status = unsafe { sys::cuGetErrorString(result, &mut pointer) };
    if status != sys::CUresult::CUDA_SUCCESS || pointer.is_null() {
        return format!("error {}", result as u32);
    }
    // SAFETY: the pointer is not NULL. The driver returns a NUL-terminated string that lives as long as the program.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Converts a result code of the driver to a result of this library. The error message begins with `subject`, or ends
/// with it if memory is lacking.
pub(super) fn check(result: sys::CUresult, subject: &str) -> Result<()> {
    use sys::CUresult as R;
    match result {
        R::CUDA_SUCCESS => Ok(()),
        R::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::Memory(format!("not enough device memory for {subject}"))),
        R::CUDA_ERROR_NO_DEVICE => Err(Error::NoDevice(format!("{subject}: {}", error_text(result)))),
        _ => Err(Error::Device(format!("{subject}: {}", error_text(result)))),
    }
}

/// Initializes the driver on the first call, and returns the number of devices. Returns an error if there is no driver,
/// if it is older than `OLDEST_DRIVER`, or if there is no device. Later calls return the same result.
pub(super) fn initialize_driver() -> Result<i32> {
    static DEVICE_COUNT: OnceLock<Result<i32>> = OnceLock::new();
    DEVICE_COUNT
        .get_or_init(|| {
            // SAFETY: the call tries to load the driver library, whose initializers are safe to run.
            if !unsafe { sys::is_culib_present() } {
                return Err(Error::NoDevice("backend=cuda: no CUDA driver (libcuda.so) on this machine".to_owned()));
            }
            let (mut version, mut count) = (0, 0);
            // SAFETY: the library is loaded; the pointers outlive the calls.
            unsafe {
                check(sys::cuInit(0), "failed to initialize the CUDA driver")?;
                check(sys::cuDriverGetVersion(&mut version), "the version of the CUDA driver")?;
                check(sys::cuDeviceGetCount(&mut count), "the number of CUDA devices")?;
            }
            if version < OLDEST_DRIVER {
                return Err(Error::NoDevice(format!(
                    "backend=cuda: the CUDA driver supports CUDA {}.{}, but 13.0 (r580) or newer is required",
                    version / 1000,
                    version % 1000 / 10
                )));
            }
            if count == 0 {
                Err(Error::NoDevice("backend=cuda: the CUDA driver finds no device".to_owned()))
            } else {
                Ok(count)
            }
        })
        .clone()
}

/// Returns the number of devices; 0 if `initialize_driver` fails or this build has no kernels.
pub fn device_count() -> i32 {
    // Only the count is cached, because returning a copy of the error of `initialize_driver` would allocate memory. A
    // driver does not appear or disappear while the program runs.
    static COUNT: OnceLock<i32> = OnceLock::new();
    if HAS_KERNELS { *COUNT.get_or_init(|| initialize_driver().unwrap_or(0)) } else { 0 }
}
