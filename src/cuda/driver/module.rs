//! Compiled kernels of a family: their names and the structures that are their arguments.

use super::library::check;
use crate::error::{Error, Result, reserve};
use bytemuck::{AnyBitPattern, Pod, Zeroable};
use cudarc::driver::sys;
use std::ffi::CString;

/// All kernels of a family. The number of a kernel is its index in the concatenation of the lists in `shared_kernels`
/// and `kernels`.
pub struct Module {
    /// Fatbin with machine code for the architectures of build.rs, and PTX; empty in a build without kernels.
    pub fatbin: &'static [u8],
    /// Prefix of the names of shared kernels in this module, without the underscore that follows.
    pub shared_prefix: &'static str,
    /// Smallest major compute capability of the devices that these kernels run on; 0 means all supported devices.
    pub min_compute_capability: i32,
    /// Kernels that several families have. They come first, so that their numbers are equal in all families.
    pub shared_kernels: &'static [&'static [Kernel]],
    /// Kernels of this family alone, in the order of their numbers.
    pub kernels: &'static [&'static [Kernel]],
}

/// Index of a device among the `count` devices that share a grid; see kernels/rrb/divided.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Share {
    pub index: i32,
    pub count: i32,
}

impl Share {
    /// One device that owns all rows.
    pub const ALL: Self = Self { index: 0, count: 1 };
}

/// Name of a kernel, and the size in bytes of its only argument, a structure.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    name: &'static str,
    argument_bytes: usize,
}

impl Kernel {
    /// Entry for a shared kernel that the module of a family does not contain. With such entries, the other shared
    /// kernels have the same numbers in all modules.
    pub(crate) const ABSENT: Self = Self { name: "", argument_bytes: 0 };

    /// Declares the kernel with this name, whose argument is an `A`.
    pub(crate) const fn of<A: Argument>(name: &'static str) -> Self {
        Self { name, argument_bytes: size_of::<A>() }
    }

    /// Returns an error unless `bytes`, the size that the loaded module reports for the argument, is the size of the
    /// library's structure.
    fn check_argument_size(&self, bytes: usize) -> Result<()> {
        let Self { name, argument_bytes: library_bytes } = self;
        if bytes == *library_bytes {
            return Ok(());
        }
        Err(Error::Internal(format!(
            "kernel {name} expects a structure of {bytes} bytes, but the library passes \
                                     {library_bytes}"
        )))
    }
}

/// A structure that is the argument of kernels.
///
/// # Safety
/// The type must have C layout. No kernel may read padding bytes, because the driver copies them uninitialized.
pub(crate) unsafe trait Argument: AnyBitPattern {}

// SAFETY: a `Pod` type has C layout and no padding.
unsafe impl<T: Pod> Argument for T {}

/// Type of `cuFuncGetParamInfo`: function, index of the parameter, its offset and its size.
type ParameterInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> sys::CUresult;

/// Returns `cuFuncGetParamInfo` (CUDA 12.4 and newer), or `None` if the driver lacks this function, as an emulated
/// driver may. The sizes of arguments are then not compared.
fn parameter_info() -> Option<ParameterInfo> {
    // SAFETY: the library is loaded, because a device is in use; the type is that of cuda.h.
    unsafe { sys::culib().get::<ParameterInfo>(b"cuFuncGetParamInfo\0") }.ok().map(|call| *call)
}

impl Module {
    /// Loads the kernels into the current context.
    pub(super) fn load(&self) -> Result<sys::CUmodule> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the context is current; the image is a fatbin that nvcc wrote.
        check(unsafe { sys::cuModuleLoadData(&mut module, self.fatbin.as_ptr().cast()) }, "loading the kernels")?;
        Ok(module)
    }

    /// Stores `share` in the kernels' variable `rrb_share`, in a module of the current context.
    pub(super) fn set_share(&self, module: sys::CUmodule, share: Share) -> Result<()> {
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, and the name ends with NUL; the numbers outlive the call.
        let status = unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"rrb_share".as_ptr()) };
        check(status, "the share of a device")?;
        assert_eq!(bytes, size_of::<Share>(), "kernels and library differ");
        // SAFETY: the module has room for a `Share`, as just checked; the copy is complete when the call returns.
        let status = unsafe { sys::cuMemcpyHtoD_v2(address, std::ptr::from_ref(&share).cast(), bytes) };
        check(status, "the share of a device")
    }

    /// Returns the kernels of the loaded module, in the order of their numbers. Returns an error if a kernel is
    /// missing, or expects a structure of another size.
    pub(super) fn functions(&self, module: sys::CUmodule) -> Result<Vec<sys::CUfunction>> {
        let mut functions = Vec::new();
        let count_kernels = |lists: &[&[Kernel]]| lists.iter().map(|list| list.len()).sum::<usize>();
        reserve(
            &mut functions,
            count_kernels(self.shared_kernels) + count_kernels(self.kernels),
            "the list of kernels",
        )?;
        let get_parameter_info = parameter_info();
        let shared_kernels = self
            .shared_kernels
            .iter()
            .copied()
            .flatten()
            .map(|kernel| (kernel, format!("{}_{}", self.shared_prefix, kernel.name)));
        let family_kernels = self.kernels.iter().copied().flatten().map(|kernel| (kernel, kernel.name.to_owned()));
        for (kernel, name) in shared_kernels.chain(family_kernels) {
            let mut function = std::ptr::null_mut();
            if kernel.name.is_empty() {
                functions.push(function);
                continue;
            }
            let name = CString::new(name).map_err(|_| Error::Internal("a kernel's name holds NUL".to_owned()))?;
            // SAFETY: the module is loaded, and the name ends with NUL.
            let status = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
            check(status, &format!("kernel {}", name.to_string_lossy()))?;
            if let Some(get_parameter_info) = get_parameter_info {
                let (mut offset, mut bytes) = (0, 0);
                // SAFETY: the function belongs to the loaded module and has one parameter; the numbers outlive the
                // call.
                let status = unsafe { get_parameter_info(function, 0, &mut offset, &mut bytes) };
                check(status, &format!("parameters of kernel {}", kernel.name))?;
                kernel.check_argument_size(bytes)?;
            }
            functions.push(function);
        }
        Ok(functions)
    }
}
