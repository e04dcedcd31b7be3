//! Attributes of kernels on a device, and kernel launches.

use super::device::Device;
use super::library::check;
use super::module::Argument;
use super::stream::Stream;
use crate::error::Result;
use cudarc::driver::sys;
use std::ffi::c_void;

impl Device {
    /// Allows a kernel to use `bytes` of dynamic shared memory per block. Returns false if the device has less.
    pub(crate) fn allow_shared(&self, kernel: usize, bytes: u32) -> bool {
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        unsafe { sys::cuFuncSetAttribute(self.functions[kernel], most, bytes as i32) == sys::CUresult::CUDA_SUCCESS }
    }

    /// Returns the virtual architecture from whose PTX a kernel was compiled: 90 for compute_90.
    ///
    /// Code for an older architecture also runs on a newer device, but does not use the instructions of the newer
    /// architecture. Returns 0 if the driver does not report the architecture.
    pub(crate) fn architecture(&self, kernel: usize) -> i32 {
        let mut version = 0;
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
        // SAFETY: the function belongs to the loaded module; the number outlives the call.
        let asked = unsafe { sys::cuFuncGetAttribute(&mut version, which, self.functions[kernel]) };
        if asked == sys::CUresult::CUDA_SUCCESS { version } else { 0 }
    }

    /// Returns the largest number of blocks of a kernel that the device can execute at once in clusters of `cluster`
    /// blocks. A block has `threads` threads and `shared` bytes of dynamic shared memory.
    ///
    /// Returns 0 if the device cannot run such clusters. Clusters of more than 8 blocks need a function attribute,
    /// because not all devices support them. This function sets the attribute.
    pub fn most_resident_in_clusters(&self, kernel: usize, threads: u32, cluster: u32, shared: u32) -> u32 {
        let function = self.functions[kernel];
        let large = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        let mut attributes = CooperativeLaunch { blocks: cluster, cluster, shared, further: 0 }.attributes();
        let config = config(std::ptr::null_mut(), cluster, (threads, 1), shared, &mut attributes);
        let mut clusters = 0;
        // SAFETY: the function belongs to this device; the structures outlive the calls.
        let asked = unsafe {
            if cluster > 8 && sys::cuFuncSetAttribute(function, large, 1) != sys::CUresult::CUDA_SUCCESS {
                return 0;
            }
            sys::cuOccupancyMaxActiveClusters(&mut clusters, function, &config)
        };
        if asked == sys::CUresult::CUDA_SUCCESS { clusters.max(0) as u32 * cluster } else { 0 }
    }

    /// Returns the largest number of blocks of a kernel that the device can execute at once, or 0 if it does not
    /// support cooperative launches. A block has `threads` threads and no dynamic shared memory.
    pub fn most_resident_blocks(&self, kernel: usize, threads: u32) -> Result<u32> {
        use sys::CUdevice_attribute_enum as A;
        let (mut offered, mut processors, mut each) = (0, 0, 0);
        // SAFETY: the device exists; the pointers outlive the calls; the function belongs to this device.
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

/// Number of blocks of a launch on each device, and whether the kernel runs on all devices that share the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub count: u32,
    pub divided: bool,
}

impl From<u32> for Blocks {
    fn from(count: u32) -> Self {
        Self { count, divided: false }
    }
}

/// Shape of a cooperative launch, whose blocks are all resident at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CooperativeLaunch {
    /// Number of blocks without `further`; 0 if the kernel cannot be used on this device.
    pub blocks: u32,
    /// Blocks per cluster; 1 means no clusters.
    pub cluster: u32,
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
    /// Number of additional blocks for other work in the same launch.
    pub further: u32,
}

impl CooperativeLaunch {
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
    /// Launches a kernel that takes one structure, with `block` threads per block in x and y. The kernel runs on the
    /// device of this stream, or on all devices of the stream if `blocks` is divided. If launches are only recorded,
    /// nothing is launched. `name` is used in error messages.
    ///
    /// With `follows_kernel`, the kernel may begin while the previous kernel on the stream ends, if the device supports
    /// programmatic dependent launch. The kernel itself must then wait for the previous kernel (`wait_for_previous` of
    /// the smoother's kernels).
    ///
    /// # Safety
    /// `arguments` must be the structure that the kernel takes. Its addresses must be valid for a launch of this shape.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn launch<A: Argument>(
        &self,
        kernel: usize,
        blocks: impl Into<Blocks>,
        block: (u32, u32),
        shared_bytes: u32,
        follows_kernel: bool,
        arguments: &A,
        name: &str,
    ) -> Result<()> {
        let Blocks { count, divided } = blocks.into();
        let shape = [kernel as u64, count.into(), block.0.into(), block.1.into(), shared_bytes.into()];
        if !self.record_launch(&shape, arguments)? {
            return Ok(());
        }
        let begin = |stream: &Self| {
            // SAFETY: guaranteed by the caller.
            unsafe {
                stream.launch_on_this_device(kernel, (count, block, shared_bytes), follows_kernel, arguments, name)
            }
        };
        if divided {
            return self
                .on_all_devices()?
                .try_for_each(|stream| stream.device.enter().and_then(|_entered| begin(stream)));
        }
        self.after_all_devices()?;
        begin(self)
    }

    /// Launches a kernel on the device of this stream.
    ///
    /// # Safety
    /// As for `launch`.
    unsafe fn launch_on_this_device<A: Argument>(
        &self,
        kernel: usize,
        (blocks, block, shared_bytes): (u32, (u32, u32), u32),
        follows_kernel: bool,
        arguments: &A,
        name: &str,
    ) -> Result<()> {
        let mut pointers = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let function = self.device.functions[kernel];
        // SAFETY: all zero is a valid value of this plain structure.
        let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let attributes = &mut [attribute][..usize::from(follows_kernel && self.device.supports_dependent_launch)];
        let config = config(self.stream, blocks, block, shared_bytes, attributes);
        // SAFETY: guaranteed by the caller; the driver copies both structures before it returns.
        let result = unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        check(result, name)
    }

    /// Launches a kernel whose blocks wait for one another (cooperative launch): the driver starts all blocks or none.
    /// The kernel runs on the device of this stream. If launches are only recorded, nothing is launched.
    ///
    /// # Safety
    /// As for `launch`.
    pub(crate) unsafe fn launch_cooperative<A: Argument>(
        &self,
        kernel: usize,
        cooperative: CooperativeLaunch,
        block: (u32, u32),
        arguments: &A,
        name: &str,
    ) -> Result<()> {
        self.after_all_devices()?;
        let CooperativeLaunch { blocks, cluster, shared, further } = cooperative;
        let shape = [kernel as u64, blocks.into(), cluster.into(), shared.into(), further.into(), block.0.into()];
        if !self.record_launch(&shape, arguments)? {
            return Ok(());
        }
        let mut pointers = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let function = self.device.functions[kernel];
        let mut attributes = cooperative.attributes();
        let attributes = &mut attributes[..if cooperative.cluster > 1 { 2 } else { 1 }];
        let config =
            config(self.stream, cooperative.blocks + cooperative.further, block, cooperative.shared, attributes);
        // SAFETY: guaranteed by the caller; the driver copies the structures before it returns.
        let result = unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        check(result, name)
    }
}

/// Returns the launch configuration of a one-dimensional grid of `blocks` blocks.
fn config(
    stream: sys::CUstream,
    blocks: u32,
    block: (u32, u32),
    shared: u32,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: block.0,
        blockDimY: block.1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}
