//! The kernels of a family, as they are compiled into the library: their names, and what each takes.

use super::library::check;
use crate::error::{Error, Result, reserve};
use bytemuck::{AnyBitPattern, Pod, Zeroable};
use cudarc::driver::sys;
use std::ffi::CString;

/// The kernels of a family.
pub struct Module {
    /// Machine code for the architectures of build.rs, and PTX; empty in a build without kernels.
    pub image: &'static [u8],
    /// What the names of shared kernels begin with here.
    pub family: &'static str,
    /// Of devices that it runs on, the first number of their compute capability at least; 0: all that the library is
    /// for.
    pub oldest: i32,
    /// Kernels that other families have too, which come first: they have the same numbers everywhere.
    pub shared: &'static [&'static [Kernel]],
    /// In the order of their numbers.
    pub kernels: &'static [&'static [Kernel]],
}

/// A device's place among `count` that go in step: kernels/rrb/divided.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Share {
    pub place: i32,
    pub count: i32,
}

impl Share {
    /// All rows.
    pub const ALL: Self = Self { place: 0, count: 1 };
}

/// A kernel's name, and the bytes of the one structure that it is given.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    name: &'static str,
    bytes: usize,
}

impl Kernel {
    /// The kernel with this name, which takes an `A`.
    pub(in crate::backend::cuda) const fn of<A: Argument>(name: &'static str) -> Self {
        Self { name, bytes: size_of::<A>() }
    }

    /// Whether what the module says of it fits.
    fn must_take(&self, bytes: usize) -> Result<()> {
        let Self { name, bytes: given } = self;
        if bytes == *given {
            return Ok(());
        }
        Err(Error::Internal(format!(
            "kernel {name} expects a structure of {bytes} bytes, but the library passes \
                                     {given}"
        )))
    }
}

/// A structure that kernels take.
///
/// # Safety
/// It is laid out as in C, and no kernel reads a byte that none of its fields fills: the driver copies all of them.
pub(in crate::backend::cuda) unsafe trait Argument: AnyBitPattern {}

// SAFETY: its fields fill all bytes; what derives `Pod` is laid out as in C.
unsafe impl<T: Pod> Argument for T {}

/// `cuFuncGetParamInfo`: function, number of the parameter, its offset, its size.
type ParameterInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> sys::CUresult;

/// Drivers before CUDA 12.4 have no such call, and an emulated one need not: then nothing is compared.
fn parameter_info() -> Option<ParameterInfo> {
    // SAFETY: the library is there, since a device is in use; the type is that of cuda.h.
    unsafe { sys::culib().get::<ParameterInfo>(b"cuFuncGetParamInfo\0") }.ok().map(|call| *call)
}

impl Module {
    /// Loads it into the current context.
    pub(super) fn load(&self) -> Result<sys::CUmodule> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the context is current; the image is a fatbin that nvcc wrote.
        check(unsafe { sys::cuModuleLoadData(&mut module, self.image.as_ptr().cast()) }, "loading the kernels")?;
        Ok(module)
    }

    /// Tells the kernels of a module of the current context which device they run on.
    pub(super) fn set_share(&self, module: sys::CUmodule, share: Share) -> Result<()> {
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: a loaded module, a name that ends with NUL; the numbers outlive the call.
        let found = unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"rrb_share".as_ptr()) };
        check(found, "the share of a device")?;
        assert_eq!(bytes, size_of::<Share>(), "kernels and library differ");
        // SAFETY: the module has room for it, as just checked, and the copy is done when the call is.
        let sent = unsafe { sys::cuMemcpyHtoD_v2(address, std::ptr::from_ref(&share).cast(), bytes) };
        check(sent, "the share of a device")
    }

    /// The kernels of the loaded module, in the order of their numbers.
    pub(super) fn functions(&self, module: sys::CUmodule) -> Result<Vec<sys::CUfunction>> {
        let mut functions = Vec::new();
        let count = |lists: &[&[Kernel]]| lists.iter().map(|list| list.len()).sum::<usize>();
        reserve(&mut functions, count(self.shared) + count(self.kernels), "the list of kernels")?;
        let parameter = parameter_info();
        let shared =
            self.shared.iter().copied().flatten().map(|kernel| (kernel, format!("{}_{}", self.family, kernel.name)));
        let own = self.kernels.iter().copied().flatten().map(|kernel| (kernel, kernel.name.to_owned()));
        for (kernel, name) in shared.chain(own) {
            let mut function = std::ptr::null_mut();
            let name = CString::new(name).map_err(|_| Error::Internal("a kernel's name holds NUL".to_owned()))?;
            // SAFETY: a loaded module and a name that ends with NUL.
            let found = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
            check(found, &format!("kernel {}", name.to_string_lossy()))?;
            if let Some(parameter) = parameter {
                let (mut offset, mut bytes) = (0, 0);
                // SAFETY: a function of the loaded module, which takes one structure; the numbers outlive the call.
                let asked = unsafe { parameter(function, 0, &mut offset, &mut bytes) };
                check(asked, &format!("parameters of kernel {}", kernel.name))?;
                kernel.must_take(bytes)?;
            }
            functions.push(function);
        }
        Ok(functions)
    }
}
