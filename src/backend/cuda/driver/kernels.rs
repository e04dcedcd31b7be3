//! The kernels on a device: the module that has them, what the device says of them, and their launch.

use super::device::Device;
use super::library::check;
use super::stream::Stream;
use crate::error::{Error, Result, reserve};
use bytemuck::{AnyBitPattern, Pod};
use cudarc::driver::sys;
use std::ffi::{CString, c_void};

/// The kernels of a family.
pub struct Module {
    /// Machine code for the architectures of build.rs, and PTX; empty in a build without kernels.
    pub image: &'static [u8],
    /// In the order of their numbers.
    pub kernels: &'static [&'static [Kernel]],
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
        Err(Error::Internal(format!("kernel {name} takes a structure of {bytes} bytes, but the library has {given}")))
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

impl Device {
    /// Loads them into its context, which is current.
    pub(super) fn load_kernels(&mut self, Module { image, kernels }: &Module) -> Result<()> {
        // SAFETY: the context is current; the image is a fatbin that nvcc wrote.
        check(unsafe { sys::cuModuleLoadData(&mut self.module, image.as_ptr().cast()) }, "loading the kernels")?;
        reserve(&mut self.functions, kernels.iter().map(|list| list.len()).sum(), "the list of kernels")?;
        let parameter = parameter_info();
        for kernel in kernels.iter().copied().flatten() {
            let mut function = std::ptr::null_mut();
            let name =
                CString::new(kernel.name).map_err(|_| Error::Internal("a kernel's name holds NUL".to_owned()))?;
            // SAFETY: a loaded module and a name that ends with NUL.
            let found = unsafe { sys::cuModuleGetFunction(&mut function, self.module, name.as_ptr()) };
            check(found, &format!("kernel {}", name.to_string_lossy()))?;
            if let Some(parameter) = parameter {
                let (mut offset, mut bytes) = (0, 0);
                // SAFETY: a function of the loaded module, which takes one structure; the numbers outlive the call.
                let asked = unsafe { parameter(function, 0, &mut offset, &mut bytes) };
                check(asked, &format!("what kernel {} takes", kernel.name))?;
                kernel.must_take(bytes)?;
            }
            self.functions.push(function);
        }
        Ok(())
    }

    /// Lets a kernel take so much shared memory that it names at launch; false: the device has less.
    pub(in crate::backend::cuda) fn allow_shared(&self, kernel: usize, bytes: u32) -> bool {
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of the loaded module.
        unsafe { sys::cuFuncSetAttribute(self.functions[kernel], most, bytes as i32) == sys::CUresult::CUDA_SUCCESS }
    }

    /// The architecture whose PTX the loaded code of a kernel comes from: 90 for compute_90. Code for an older one runs
    /// on a newer device too, but was compiled without what that one has.
    pub(in crate::backend::cuda) fn architecture(&self, kernel: usize) -> i32 {
        let mut version = 0;
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
        // SAFETY: a function of the loaded module; the number outlives the call.
        let asked = unsafe { sys::cuFuncGetAttribute(&mut version, which, self.functions[kernel]) };
        if asked == sys::CUresult::CUDA_SUCCESS { version } else { 0 }
    }

    /// Blocks of a kernel that run at once in clusters of so many; 0: such clusters are not to be had. More than eight
    /// to a cluster are more than every such device promises.
    pub fn together_in_clusters(&self, kernel: usize, threads: u32, cluster: u32, shared: u32) -> u32 {
        let function = self.functions[kernel];
        let large = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        let mut attributes = Together { blocks: cluster, cluster, shared, further: 0 }.attributes();
        let config = sys::CUlaunchConfig {
            gridDimX: cluster,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: std::ptr::null_mut(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let mut clusters = 0;
        // SAFETY: a function of this device; the structures outlive the calls.
        let asked = unsafe {
            if cluster > 8 && sys::cuFuncSetAttribute(function, large, 1) != sys::CUresult::CUDA_SUCCESS {
                return 0;
            }
            sys::cuOccupancyMaxActiveClusters(&mut clusters, function, &config)
        };
        if asked == sys::CUresult::CUDA_SUCCESS { clusters.max(0) as u32 * cluster } else { 0 }
    }

    /// Blocks of a kernel that run at once; 0 where the device does not promise to start them together.
    pub fn together(&self, kernel: usize, threads: u32) -> Result<u32> {
        use sys::CUdevice_attribute_enum as A;
        let (mut offered, mut processors, mut each) = (0, 0, 0);
        // SAFETY: the device is there; the pointers outlive the calls; a function of this device.
        unsafe {
            let ask = |to: &mut i32, what| check(sys::cuDeviceGetAttribute(to, what, self.device), "the device");
            ask(&mut offered, A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)?;
            ask(&mut processors, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            let (function, threads) = (self.functions[kernel], threads as i32);
            let asked = sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut each, function, threads, 0);
            check(asked, "the device")?;
        }
        Ok(if offered == 0 { 0 } else { (processors * each).max(0) as u32 })
    }
}

/// Blocks that run at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// How many; 0: there is no such kernel.
    pub blocks: u32,
    /// Blocks of a cluster; 1: there are none.
    pub cluster: u32,
    /// Bytes of shared memory that the launch names.
    pub shared: u32,
    /// Further blocks, for work of another kind.
    pub further: u32,
}

impl Together {
    fn attributes(self) -> [sys::CUlaunchAttribute; 2] {
        use sys::CUlaunchAttributeID_enum as A;
        let of = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let size = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 };
        [
            of(A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, sys::CUlaunchAttributeValue { cooperative: 1 }),
            of(A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, sys::CUlaunchAttributeValue { clusterDim: size }),
        ]
    }
}

impl Stream {
    /// Launches a kernel that takes one structure. `behind`: where the device can, it may begin while the kernel before
    /// it on the stream ends, and waits for that one itself (`wait_for_previous` of the smoother's kernels).
    ///
    /// # Safety
    /// `arguments` must be the structure that the kernel takes, with addresses it may use at the given shape.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::backend::cuda) unsafe fn launch<A: Argument>(
        &self,
        kernel: usize,
        blocks: u32,
        block: (u32, u32),
        shared_bytes: u32,
        behind: bool,
        arguments: &A,
        name: &str,
    ) -> Result<()> {
        let mut pointers = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let function = self.device.functions[kernel];
        // SAFETY: all zero is a valid value of this plain structure.
        let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: block.0,
            blockDimY: block.1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: self.stream,
            attrs: &mut attribute,
            numAttrs: u32::from(behind && self.device.overlaps),
        };
        // SAFETY: as the caller promised; the driver copies both structures before it returns.
        let result = unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        check(result, name)
    }

    /// The same with blocks that wait for one another: the driver starts all at once, or none.
    ///
    /// # Safety
    /// As for `launch`.
    pub(in crate::backend::cuda) unsafe fn launch_together<A: Argument>(
        &self,
        kernel: usize,
        together: Together,
        block: (u32, u32),
        arguments: &A,
        name: &str,
    ) -> Result<()> {
        let mut pointers = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let function = self.device.functions[kernel];
        if together.cluster > 1 {
            let mut attributes = together.attributes();
            let config = sys::CUlaunchConfig {
                gridDimX: together.blocks + together.further,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: block.0,
                blockDimY: block.1,
                blockDimZ: 1,
                sharedMemBytes: together.shared,
                hStream: self.stream,
                attrs: attributes.as_mut_ptr(),
                numAttrs: attributes.len() as u32,
            };
            // SAFETY: as the caller promised; the driver copies the structures before it returns.
            let result =
                unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
            return check(result, name);
        }
        // SAFETY: as the caller promised; the driver copies the structure before it returns.
        let result = unsafe {
            sys::cuLaunchCooperativeKernel(
                function,
                together.blocks + together.further,
                1,
                1,
                block.0,
                block.1,
                1,
                0,
                self.stream,
                pointers.as_mut_ptr(),
            )
        };
        check(result, name)
    }
}
