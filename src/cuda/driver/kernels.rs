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
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        unsafe {
            sys::cuFuncSetAttribute(self.functions[kernel], attribute, bytes as i32) == sys::CUresult::CUDA_SUCCESS
        }
    }

    /// Returns the virtual architecture from whose PTX a kernel was compiled: 90 for compute_90.
    ///
    /// Code for an older architecture also runs on a newer device, but does not use the instructions of the newer
    /// architecture. Returns 0 if the driver does not report the architecture.
    pub(crate) fn ptx_architecture(&self, kernel: usize) -> i32 {
        let mut version = 0;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
        // SAFETY: the function belongs to the loaded module; the number outlives the call.
        let status = unsafe { sys::cuFuncGetAttribute(&mut version, attribute, self.functions[kernel]) };
        if status == sys::CUresult::CUDA_SUCCESS { version } else { 0 }
    }

    /// Returns the largest number of blocks of a kernel that the device can execute at once in clusters of
    /// `cluster_blocks` blocks. A block has `threads` threads and `shared_bytes` bytes of dynamic shared memory.
    ///
    /// Returns 0 if the device cannot run such clusters. Clusters of more than 8 blocks need a function attribute,
    /// because not all devices support them. This function sets the attribute.
    pub fn max_resident_blocks_in_clusters(
        &self,
        kernel: usize,
        threads: u32,
        cluster_blocks: u32,
        shared_bytes: u32,
    ) -> u32 {
        let function = self.functions[kernel];
        let allow_large_clusters = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        let mut attributes =
            CooperativeLaunch { blocks: cluster_blocks, cluster: cluster_blocks, shared_bytes, extra_blocks: 0 }
                .attributes();
        let config = config(std::ptr::null_mut(), cluster_blocks, (threads, 1), shared_bytes, &mut attributes);
        let mut clusters = 0;
        // SAFETY: the function belongs to this device; the structures outlive the calls.
        let status = unsafe {
            if cluster_blocks > 8
                && sys::cuFuncSetAttribute(function, allow_large_clusters, 1) != sys::CUresult::CUDA_SUCCESS
            {
                return 0;
            }
            sys::cuOccupancyMaxActiveClusters(&mut clusters, function, &config)
        };
        if status == sys::CUresult::CUDA_SUCCESS { clusters.max(0) as u32 * cluster_blocks } else { 0 }
    }

    /// Returns the largest number of blocks of a kernel that the device can execute at once, or 0 if the device does
    /// not support cooperative launches. A block has `threads` threads and no dynamic shared memory.
    pub fn max_resident_blocks(&self, kernel: usize, threads: u32) -> Result<u32> {
        use sys::CUdevice_attribute_enum as A;
        let (mut has_cooperative_launch, mut multiprocessors, mut blocks_per_processor) = (0, 0, 0);
        // SAFETY: the device exists; the pointers outlive the calls; the function belongs to this device.
        unsafe {
            let query =
                |to: &mut i32, attribute| check(sys::cuDeviceGetAttribute(to, attribute, self.device), "the device");
            query(&mut has_cooperative_launch, A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)?;
            query(&mut multiprocessors, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            let (function, threads) = (self.functions[kernel], threads as i32);
            let status =
                sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks_per_processor, function, threads, 0);
            check(status, "the device")?;
        }
        Ok(if has_cooperative_launch == 0 { 0 } else { (multiprocessors * blocks_per_processor).max(0) as u32 })
    }
}

/// Number of blocks of a launch on each device, and whether the kernel runs on all devices that share the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub count: u32,
    pub is_divided: bool,
}

impl From<u32> for Blocks {
    fn from(count: u32) -> Self {
        Self { count, is_divided: false }
    }
}

/// Shape of a cooperative launch, whose blocks are all resident at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CooperativeLaunch {
    /// Number of blocks without `extra_blocks`; 0 if the kernel cannot be used on this device.
    pub blocks: u32,
    /// Blocks per cluster; 1 means no clusters.
    pub cluster: u32,
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Number of additional blocks for other work in the same launch.
    pub extra_blocks: u32,
}

impl CooperativeLaunch {
    fn attributes(self) -> [sys::CUlaunchAttribute; 2] {
        use sys::CUlaunchAttributeID_enum as A;
        let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let size = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 };
        [
            attribute(A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, sys::CUlaunchAttributeValue { cooperative: 1 }),
            attribute(A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, sys::CUlaunchAttributeValue { clusterDim: size }),
        ]
    }
}

impl Stream {
    /// Launches a kernel that takes one structure, with `block` threads per block in x and y. The kernel runs on the
    /// device of this stream, or on all devices of the stream if `Blocks::is_divided` is set. If launches are only
    /// recorded, nothing is launched. `name` is used in error messages.
    ///
    /// With `follows_kernel`, the kernel may begin while the previous kernel on the stream ends, if the device supports
    /// programmatic dependent launch. The kernel itself must then wait for the previous kernel
    /// (`wait_for_previous_kernel` of the smoother's kernels).
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
        let Blocks { count, is_divided } = blocks.into();
        let shape = [kernel as u64, count.into(), block.0.into(), block.1.into(), shared_bytes.into()];
        if !self.record_launch(&shape, arguments)? {
            return Ok(());
        }
        let launch_on = |stream: &Self| {
            // SAFETY: guaranteed by the caller.
            unsafe {
                stream.launch_on_this_device(kernel, (count, block, shared_bytes), follows_kernel, arguments, name)
            }
        };
        if is_divided {
            return self
                .on_all_devices()?
                .try_for_each(|stream| stream.device.enter().and_then(|_entered| launch_on(stream)));
        }
        self.after_all_devices()?;
        launch_on(self)
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
        let CooperativeLaunch { blocks, cluster, shared_bytes, extra_blocks } = cooperative;
        let shape =
            [kernel as u64, blocks.into(), cluster.into(), shared_bytes.into(), extra_blocks.into(), block.0.into()];
        if !self.record_launch(&shape, arguments)? {
            return Ok(());
        }
        let mut pointers = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let function = self.device.functions[kernel];
        let mut attributes = cooperative.attributes();
        let attributes = &mut attributes[..if cooperative.cluster > 1 { 2 } else { 1 }];
        let config = config(
            self.stream,
            cooperative.blocks + cooperative.extra_blocks,
            block,
            cooperative.shared_bytes,
            attributes,
        );
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
    shared_bytes: u32,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: block.0,
        blockDimY: block.1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}
