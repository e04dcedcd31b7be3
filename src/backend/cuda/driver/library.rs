//! The library of the driver: whether it is there, and what its results say.

use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::ffi::CStr;
use std::sync::OnceLock;

/// Whether this build of the library has kernels.
pub const HAS_KERNELS: bool = cfg!(rrbsolver_kernels);

/// The oldest driver whose interface is used: CUDA 13.0, r580.
const OLDEST_DRIVER: i32 = 13000;

/// The driver's sentence for a result.
fn text(result: sys::CUresult) -> String {
    let mut pointer = std::ptr::null();
    // SAFETY: `pointer` outlives the call.
    let known = unsafe { sys::cuGetErrorString(result, &mut pointer) };
    if known != sys::CUresult::CUDA_SUCCESS || pointer.is_null() {
        return format!("error {}", result as u32);
    }
    // SAFETY: not NULL; the driver gives a text that ends with NUL and lives as long as the program.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// An error of the driver as one of the library's.
pub(super) fn check(result: sys::CUresult, what: &str) -> Result<()> {
    use sys::CUresult as R;
    match result {
        R::CUDA_SUCCESS => Ok(()),
        R::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::Memory(format!("not enough device memory for {what}"))),
        R::CUDA_ERROR_NO_DEVICE => Err(Error::NoDevice(format!("{what}: {}", text(result)))),
        _ => Err(Error::Device(format!("{what}: {}", text(result)))),
    }
}

/// Starts the driver, once; why it cannot be used stays the same for the life of the program.
pub(super) fn driver() -> Result<i32> {
    static STARTED: OnceLock<Result<i32>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: asks the loader for a library; its initializers are the driver's own.
            if !unsafe { sys::is_culib_present() } {
                return Err(Error::NoDevice("backend=cuda: no CUDA driver (libcuda.so) on this machine".to_owned()));
            }
            let (mut version, mut count) = (0, 0);
            // SAFETY: the library is there; the pointers outlive the calls.
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

/// Devices that can be used; 0 without a driver or without kernels.
pub fn device_count() -> i32 {
    // The reason that `driver` gives for none takes memory, and a driver does not come or go while a program runs.
    static COUNT: OnceLock<i32> = OnceLock::new();
    if HAS_KERNELS { *COUNT.get_or_init(|| driver().unwrap_or(0)) } else { 0 }
}
