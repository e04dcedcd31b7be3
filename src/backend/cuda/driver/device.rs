//! A device and its primary context.

use super::library::{HAS_KERNELS, check, driver};
use super::module::{Module, Share};
use crate::error::{Error, Result, push};
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError};

/// One device: its primary context and the kernels of a family in it. Shared by all handles of the family on it, and
/// kept for those to come.
pub struct Device {
    /// CUDA ordinal.
    pub ordinal: i32,
    pub(super) device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    /// Of the context: another one after the host program has reset it.
    id: u64,
    /// Whose kernels these are.
    family: &'static Module,
    /// Its part of grids that several devices have rows of.
    share: Share,
    pub(super) module: sys::CUmodule,
    /// A kernel can begin while the one before ends.
    pub(super) overlaps: bool,
    /// Its multiprocessors.
    pub processors: u32,
    /// Bytes of its L2 cache.
    pub cache: usize,
    pub(super) functions: Vec<sys::CUfunction>,
}

// SAFETY: contexts, modules and functions of the driver may be used from any thread.
unsafe impl Send for Device {}
// SAFETY: as above; nothing in it changes after it was made.
unsafe impl Sync for Device {}

/// Makes the device's context current on this thread until it is dropped; what was current before is so again then.
pub struct Entered {
    /// Stays on its thread.
    _here: std::marker::PhantomData<*mut ()>,
}

/// Whether the host program has reset a device since its primary context had this number: what lay there is gone, and
/// addresses may be those of others.
pub(super) fn was_reset(device: sys::CUdevice, context: sys::CUcontext, id: u64) -> bool {
    let (mut flags, mut active, mut now) = (0, 0, 0);
    // SAFETY: the device is there; the pointers outlive the calls. The context is asked for its number only while the
    // driver keeps one, which is retained by who has it.
    let same = unsafe {
        sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == sys::CUresult::CUDA_SUCCESS
            && active != 0
            && sys::cuCtxGetId(context, &mut now) == sys::CUresult::CUDA_SUCCESS
            && now == id
    };
    !same
}

impl Entered {
    /// Makes this context current.
    ///
    /// # Safety
    /// It must be retained by the caller.
    pub(super) unsafe fn into(context: sys::CUcontext) -> Result<Self> {
        // SAFETY: as the caller promised.
        check(unsafe { sys::cuCtxPushCurrent_v2(context) }, "the device's context")?;
        Ok(Self { _here: std::marker::PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: pops what `enter` pushed on this thread: the guard is not sent elsewhere, see its marker below.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
    }
}

impl Device {
    /// The device with this ordinal, with the kernels of a family, which are loaded when the first handle asks for
    /// them. That takes a tenth of a second, so that a device once opened stays open as long as it can be used.
    pub fn open(ordinal: i64, family: &'static Module, share: Share) -> Result<Arc<Self>> {
        // Never dropped: at the end of a program the driver may be gone before us.
        static OPEN: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
        if !HAS_KERNELS {
            return Err(Error::Unsupported(
                "backend=cuda: this library was built without CUDA kernels (RRBSOLVER_CUDA=off): \
                 use backend=cpu or auto"
                    .to_owned(),
            ));
        }
        let count = driver()?;
        if ordinal >= i64::from(count) {
            return Err(Error::NoDevice(format!(
                "device={ordinal} does not exist: this machine has {count} CUDA devices, numbered from 0"
            )));
        }
        let ordinal = ordinal as i32;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // One that failed or was reset stays with the handles that have it, until they end.
        open.retain(|d| d.ordinal != ordinal || d.works());
        let wanted = |d: &&Arc<Self>| d.ordinal == ordinal && std::ptr::eq(d.family, family) && d.share == share;
        if let Some(device) = open.iter().find(wanted) {
            return Ok(device.clone());
        }
        let device = Arc::new(Self::new(ordinal, family, share)?);
        push(&mut open, device.clone(), "the list of devices")?;
        Ok(device)
    }

    /// Not reset, and without one of the errors that a context does not recover from.
    fn works(&self) -> bool {
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
        // SAFETY: the driver is there; the pointers outlive the calls.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal), "the CUDA device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "the device's primary context")?;
        }
        // Releases the context from here on, whatever fails.
        let (module, functions) = (std::ptr::null_mut(), Vec::new());
        let (overlaps, processors, cache) = (false, 0, 0);
        let mut made =
            Self { ordinal, device, context, id: 0, family, share, module, overlaps, processors, cache, functions };
        // SAFETY: retained above; the pointer outlives the call.
        check(unsafe { sys::cuCtxGetId(context, &mut made.id) }, "the device's context")?;
        let attribute = |wanted| {
            let mut value = 0;
            // SAFETY: as above.
            check(unsafe { sys::cuDeviceGetAttribute(&mut value, wanted, device) }, "the device").map(|()| value)
        };
        use sys::CUdevice_attribute as A;
        let generation = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        if generation < family.oldest {
            return Err(Error::Unsupported(format!(
                "devices={ordinal}: devices that share grids need compute capability {}.0 or newer, this one has \
                 {generation}: use device={ordinal}",
                family.oldest
            )));
        }
        made.overlaps = generation >= 9;
        made.processors = attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        made.cache = attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize;
        let entered = made.enter()?;
        made.module = family.load()?;
        made.functions = family.functions(made.module)?;
        if share != Share::ALL {
            family.set_share(made.module, share)?;
        }
        drop(entered);
        Ok(made)
    }

    /// Lets this device read and write all memory of another, or says why it cannot.
    pub fn reach(&self, other: &Self) -> Result<()> {
        use sys::CUdevice_P2PAttribute_enum as A;
        for wanted in [A::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, A::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED]
        {
            let mut offered = 0;
            // SAFETY: both devices are there; the number outlives the call.
            let asked = unsafe { sys::cuDeviceGetP2PAttribute(&mut offered, wanted, self.device, other.device) };
            check(asked, "the link of two devices")?;
            if offered == 0 {
                return Err(Error::Unsupported(format!(
                    "devices {} and {} cannot access each other's memory (no peer access such as NVLink): use one \
                     of them",
                    self.ordinal, other.ordinal
                )));
            }
        }
        let _entered = self.enter()?;
        // SAFETY: a context that is kept as long as its device is open.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => check(result, "the memory of another device"),
        }
    }

    /// Whether the device has clusters of blocks.
    pub fn has_clusters(&self) -> bool {
        let mut offered = 0;
        let which = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
        // SAFETY: the device is there; the pointer outlives the call.
        let asked = unsafe { sys::cuDeviceGetAttribute(&mut offered, which, self.device) };
        asked == sys::CUresult::CUDA_SUCCESS && offered != 0
    }

    /// Whether the host program has reset it: what lay there is gone, and addresses may be those of others.
    pub fn was_reset(&self) -> bool {
        was_reset(self.device, self.context, self.id)
    }

    /// An error where the host program has reset it.
    pub fn check(&self) -> Result<()> {
        if self.was_reset() {
            return Err(Error::Device(format!(
                "device {} was reset (cudaDeviceReset), which deleted the data of this handle: factorize again",
                self.ordinal
            )));
        }
        Ok(())
    }

    /// Makes its context current, unless it was reset.
    pub fn enter(&self) -> Result<Entered> {
        self.check()?;
        // SAFETY: retained by this value.
        unsafe { Entered::into(self.context) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Ok(entered) = self.enter() {
            if !self.module.is_null() {
                // SAFETY: loaded by us, and nobody uses it any more.
                let _ = unsafe { sys::cuModuleUnload(self.module) };
            }
            drop(entered);
        }
        // SAFETY: retained once by us.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
