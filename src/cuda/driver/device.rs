//! A CUDA device, its primary context and the loaded kernels of one family.

use super::library::{HAS_KERNELS, check, initialize_driver};
use super::module::{Module, Share};
use crate::error::{Error, Result, push};
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError};

/// A device with its primary context and the kernels of one family. All handles of the family that use this device with
/// the same `share` use the same value of this type. The device stays open after the last of these handles is
/// destroyed.
pub struct Device {
    /// CUDA ordinal.
    pub ordinal: i32,
    pub(super) device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    /// Identifier of the context (`cuCtxGetId`). It changes when the host program resets the device.
    context_id: u64,
    /// Family whose kernels are loaded.
    family: &'static Module,
    /// Index of this device among the devices that share a grid, and the number of these devices.
    share: Share,
    pub(super) module: sys::CUmodule,
    /// Whether a kernel can begin while the previous kernel on the stream ends (compute capability 9.0 or newer).
    pub(super) supports_dependent_launch: bool,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Size of the L2 cache in bytes.
    pub l2_cache_bytes: usize,
    /// Kernels, in the order of their numbers.
    pub(super) functions: Vec<sys::CUfunction>,
}

// SAFETY: contexts, modules and functions of the driver may be used from any thread.
unsafe impl Send for Device {}
// SAFETY: as above; no field changes after construction.
unsafe impl Sync for Device {}

/// Guard that keeps a context current on this thread. Dropping the guard restores the previous context.
pub struct EnteredContext {
    /// Makes the guard `!Send`, because the stack of contexts belongs to a thread.
    _not_send: std::marker::PhantomData<*mut ()>,
}

/// Returns whether the host program has reset the device since its primary context had the identifier `id`. A reset
/// frees the memory of the old context, and its addresses may have been reused. Also returns true if the driver does
/// not report the state of the context.
pub(super) fn was_reset(device: sys::CUdevice, context: sys::CUcontext, id: u64) -> bool {
    let (mut flags, mut active, mut current_id) = (0, 0, 0);
    // SAFETY: the device exists, and the pointers outlive the calls. `cuCtxGetId` is called only while the primary
    // context is active, and the caller has retained this context.
    let is_same_context = unsafe {
        sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == sys::CUresult::CUDA_SUCCESS
            && active != 0
            && sys::cuCtxGetId(context, &mut current_id) == sys::CUresult::CUDA_SUCCESS
            && current_id == id
    };
    !is_same_context
}

impl EnteredContext {
    /// Makes the context current.
    ///
    /// # Safety
    /// The caller must have retained the context.
    pub(super) unsafe fn push(context: sys::CUcontext) -> Result<Self> {
        // SAFETY: by the contract of this function.
        check(unsafe { sys::cuCtxPushCurrent_v2(context) }, "the device's context")?;
        Ok(Self { _not_send: std::marker::PhantomData })
    }
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: pops the context that `push` pushed on this thread. The field `_not_send` keeps the guard on its
        // thread.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
    }
}

impl Device {
    /// Opens the device with this ordinal and loads the kernels of a family. Returns an open device instead, if there
    /// is one with these kernels and this share.
    ///
    /// Loading takes about 0.1 s, so an open device stays open as long as it is usable.
    pub fn open(ordinal: i64, family: &'static Module, share: Share) -> Result<Arc<Self>> {
        // The list is never dropped, because the driver may already be unloaded when the static destructors of the
        // program run.
        static OPEN_DEVICES: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
        if !HAS_KERNELS {
            return Err(Error::Unsupported(
                "backend=cuda: this library was built without CUDA kernels (RRBSOLVER_CUDA=off): \
                 use backend=cpu or auto"
                    .to_owned(),
            ));
        }
        let count = initialize_driver()?;
        if ordinal >= i64::from(count) {
            return Err(Error::NoDevice(format!(
                "device={ordinal} does not exist: this machine has {count} CUDA devices, numbered from 0"
            )));
        }
        let ordinal = ordinal as i32;
        let mut open_devices = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // A device that failed or was reset is removed from the list. The handles that use it still own it.
        open_devices.retain(|d| d.ordinal != ordinal || d.is_usable());
        let is_requested = |d: &&Arc<Self>| d.ordinal == ordinal && std::ptr::eq(d.family, family) && d.share == share;
        if let Some(device) = open_devices.iter().find(is_requested) {
            return Ok(device.clone());
        }
        let device = Arc::new(Self::new(ordinal, family, share)?);
        push(&mut open_devices, device.clone(), "the list of devices")?;
        Ok(device)
    }

    /// Returns whether the device was not reset and its context has no unrecoverable error. The test creates an event,
    /// which fails after such an error.
    fn is_usable(&self) -> bool {
        let Ok(_entered) = self.enter() else { return false };
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call; the event is destroyed once.
        unsafe {
            sys::cuEventCreate(&mut event, 0) == sys::CUresult::CUDA_SUCCESS
                && sys::cuEventDestroy_v2(event) == sys::CUresult::CUDA_SUCCESS
        }
    }

    pub(super) fn new(ordinal: i32, family: &'static Module, share: Share) -> Result<Self> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is loaded; the pointers outlive the calls.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal), "the CUDA device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "the device's primary context")?;
        }
        // If a later call fails, dropping `opened` releases the context.
        let (module, functions) = (std::ptr::null_mut(), Vec::new());
        let (supports_dependent_launch, multiprocessors, l2_cache_bytes) = (false, 0, 0);
        let mut opened = Self {
            ordinal,
            device,
            context,
            context_id: 0,
            family,
            share,
            module,
            supports_dependent_launch,
            multiprocessors,
            l2_cache_bytes,
            functions,
        };
        // SAFETY: the context was retained above; the pointer outlives the call.
        check(unsafe { sys::cuCtxGetId(context, &mut opened.context_id) }, "the device's context")?;
        let attribute = |attribute_id| {
            let mut value = 0;
            // SAFETY: as above.
            check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute_id, device) }, "the device").map(|()| value)
        };
        use sys::CUdevice_attribute as A;
        let major_capability = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        if major_capability < family.min_compute_capability {
            return Err(Error::Unsupported(format!(
                "devices={ordinal}: devices that share grids need compute capability {}.0 or newer, this one has \
                 {major_capability}: use device={ordinal}",
                family.min_compute_capability
            )));
        }
        opened.supports_dependent_launch = major_capability >= 9;
        opened.multiprocessors = attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        opened.l2_cache_bytes = attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize;
        let entered = opened.enter()?;
        opened.module = family.load()?;
        opened.functions = family.functions(opened.module)?;
        if share != Share::ALL {
            family.set_share(opened.module, share)?;
        }
        drop(entered);
        Ok(opened)
    }

    /// Enables direct access of this device to the memory of `other`. Returns an error if the link between the two
    /// devices does not support direct access and atomic operations.
    pub fn enable_peer_access(&self, other: &Self) -> Result<()> {
        use sys::CUdevice_P2PAttribute_enum as A;
        for attribute in
            [A::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, A::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED]
        {
            let mut is_supported = 0;
            // SAFETY: both devices exist; the number outlives the call.
            let status =
                unsafe { sys::cuDeviceGetP2PAttribute(&mut is_supported, attribute, self.device, other.device) };
            check(status, "the link of two devices")?;
            if is_supported == 0 {
                return Err(Error::Unsupported(format!(
                    "devices {} and {} cannot access each other's memory (no peer access such as NVLink): use one \
                     of them",
                    self.ordinal, other.ordinal
                )));
            }
        }
        let _entered = self.enter()?;
        // SAFETY: the context of this device is current. `other` retains its context as long as it is open.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => check(result, "the memory of another device"),
        }
    }

    /// Returns whether the device supports thread block clusters.
    pub fn has_clusters(&self) -> bool {
        let mut is_supported = 0;
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
        // SAFETY: the device exists; the pointer outlives the call.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut is_supported, attribute, self.device) };
        status == sys::CUresult::CUDA_SUCCESS && is_supported != 0
    }

    /// Returns whether the host program has reset the device, which invalidates all its memory and addresses.
    pub fn was_reset(&self) -> bool {
        was_reset(self.device, self.context, self.context_id)
    }

    /// Returns an error if the host program has reset the device.
    pub fn check(&self) -> Result<()> {
        if self.was_reset() {
            return Err(Error::Device(format!(
                "device {} was reset (cudaDeviceReset), which deleted the data of this handle: factorize again",
                self.ordinal
            )));
        }
        Ok(())
    }

    /// Makes the context of the device current. Returns an error if the device was reset.
    pub fn enter(&self) -> Result<EnteredContext> {
        self.check()?;
        // SAFETY: this value has retained the context.
        unsafe { EnteredContext::push(self.context) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Ok(entered) = self.enter() {
            if !self.module.is_null() {
                // SAFETY: the module was loaded by `new`, and no handle uses it any more.
                let _ = unsafe { sys::cuModuleUnload(self.module) };
            }
            drop(entered);
        }
        // SAFETY: `new` retained the context once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
