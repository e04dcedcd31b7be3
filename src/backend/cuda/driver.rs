//! The CUDA driver as this backend uses it: devices with their primary context and our kernels, streams, memory, graphs.
//! Everything is owned by a value that frees it, and every call is checked.
//!
//! The driver is looked for when a program first asks for it; a machine without one loses nothing. The context is the
//! primary one, shared with the host program and made current for the length of a call only. Nothing goes to the default
//! stream. Pointers of the caller are addresses here: nothing owns them.

use crate::error::{Error, Result, push, reserve};
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The kernels, as machine code for the architectures of build.rs and PTX; empty in a build without them.
static KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

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
fn check(result: sys::CUresult, what: &str) -> Result<()> {
    use sys::CUresult as R;
    match result {
        R::CUDA_SUCCESS => Ok(()),
        R::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::Memory(format!("no device memory for {what}"))),
        R::CUDA_ERROR_NO_DEVICE => Err(Error::NoDevice(format!("{what}: {}", text(result)))),
        _ => Err(Error::Device(format!("{what}: {}", text(result)))),
    }
}

/// Starts the driver, once; why it cannot be used stays the same for the life of the program.
fn driver() -> Result<i32> {
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
                check(sys::cuInit(0), "the CUDA driver does not start")?;
                check(sys::cuDriverGetVersion(&mut version), "the CUDA driver's version")?;
                check(sys::cuDeviceGetCount(&mut count), "the number of CUDA devices")?;
            }
            if version < OLDEST_DRIVER {
                return Err(Error::NoDevice(format!(
                    "backend=cuda: the CUDA driver is for CUDA {}.{}, but 13.0 (r580) or newer is needed",
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

/// Where an address of the caller lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In host memory, pinned or not.
    Host,
    /// On the device with this ordinal.
    Device(i32),
}

/// Asks the driver; without one all memory is the host's.
pub fn space_of(address: usize) -> Result<Space> {
    if device_count() == 0 || address == 0 {
        return Ok(Space::Host);
    }
    let (mut kind, mut ordinal) = (0u32, 0i32);
    // SAFETY: the driver is there; the attributes are a `CUmemorytype` (32 bits) and an int; any address may be asked for.
    unsafe {
        let ask = |to: *mut c_void, attribute| sys::cuPointerGetAttribute(to, attribute, address as u64);
        let found =
            ask(std::ptr::from_mut(&mut kind).cast(), sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        if found != sys::CUresult::CUDA_SUCCESS || kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 {
            // Unknown to the driver, or pinned.
            return Ok(Space::Host);
        }
        let result =
            ask(std::ptr::from_mut(&mut ordinal).cast(), sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
        check(result, "the device of an array")?;
    }
    Ok(Space::Device(ordinal))
}

/// Whether an address of the caller is one of page-locked host memory.
pub fn is_page_locked(address: usize) -> bool {
    let mut kind = 0u32;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: the driver is there, since a device is in use; as in `space_of`.
    let found = unsafe { sys::cuPointerGetAttribute(std::ptr::from_mut(&mut kind).cast(), attribute, address as u64) };
    found == sys::CUresult::CUDA_SUCCESS && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
}

/// One device: its primary context and our kernels in it. Shared by all handles on it, and kept for those to come.
pub struct Device {
    /// CUDA ordinal.
    pub ordinal: i32,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Of the context: another one after the host program has reset it.
    id: u64,
    module: sys::CUmodule,
    /// A kernel can begin while the one before ends.
    overlaps: bool,
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

impl Drop for Entered {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: pops what `enter` pushed on this thread: the guard is not sent elsewhere, see its marker below.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
    }
}

impl Device {
    /// The device with this ordinal, with the kernels of `names`, always the same ones. Loading them takes a tenth of a
    /// second, so that a device once opened stays open as long as it can be used.
    pub fn open(ordinal: i64, names: &[&str]) -> Result<Arc<Self>> {
        // Never dropped: at the end of a program the driver may be gone before us.
        static OPEN: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
        if !HAS_KERNELS {
            return Err(Error::Unsupported(
                "backend=cuda: this library was built without CUDA kernels (RRBSOLVER_CUDA=off): use backend=cpu or auto".to_owned(),
            ));
        }
        let count = driver()?;
        if ordinal >= i64::from(count) {
            return Err(Error::NoDevice(format!(
                "device={ordinal} is not there: this machine has {count} CUDA devices, from 0"
            )));
        }
        let ordinal = ordinal as i32;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // One that failed or was reset stays with the handles that have it, until they end.
        open.retain(|d| d.ordinal != ordinal || d.works());
        if let Some(device) = open.iter().find(|d| d.ordinal == ordinal) {
            return Ok(device.clone());
        }
        let device = Arc::new(Self::new(ordinal, names)?);
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

    fn new(ordinal: i32, names: &[&str]) -> Result<Self> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is there; the pointers outlive the calls.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal), "the CUDA device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "the device's primary context")?;
        }
        Self::of_context(ordinal, device, context, names).inspect_err(|_| {
            // SAFETY: retained above; nobody keeps it.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
        })
    }

    /// With the kernels, in a context that was retained for it.
    fn of_context(ordinal: i32, device: sys::CUdevice, context: sys::CUcontext, names: &[&str]) -> Result<Self> {
        let mut module = std::ptr::null_mut();
        let attribute = |wanted| {
            let mut value = 0;
            // SAFETY: as above.
            check(unsafe { sys::cuDeviceGetAttribute(&mut value, wanted, device) }, "the device").map(|()| value)
        };
        use sys::CUdevice_attribute as A;
        let overlaps = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? >= 9;
        let processors = attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        let cache = attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize;
        let functions = Vec::new();
        let mut made = Self { ordinal, device, context, id: 0, module, overlaps, processors, cache, functions };
        // SAFETY: retained above; the pointer outlives the call.
        check(unsafe { sys::cuCtxGetId(context, &mut made.id) }, "the device's context")?;
        let entered = made.enter()?;
        // SAFETY: the context is current; the image is a fatbin that nvcc wrote.
        check(unsafe { sys::cuModuleLoadData(&mut module, KERNELS.as_ptr().cast()) }, "loading the kernels")?;
        made.module = module;
        reserve(&mut made.functions, names.len(), "the list of kernels")?;
        for name in names {
            let mut function = std::ptr::null_mut();
            let name = CString::new(*name).map_err(|_| Error::Internal("a kernel's name holds NUL".to_owned()))?;
            // SAFETY: a loaded module and a name that ends with NUL.
            let found = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
            check(found, &format!("kernel {}", name.to_string_lossy()))?;
            made.functions.push(function);
        }
        drop(entered);
        Ok(made)
    }

    /// Lets a kernel take so much shared memory that it names at launch; false: the device has less.
    pub(super) fn allow_shared(&self, kernel: usize, bytes: u32) -> bool {
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of the loaded module.
        unsafe { sys::cuFuncSetAttribute(self.functions[kernel], most, bytes as i32) == sys::CUresult::CUDA_SUCCESS }
    }

    /// The architecture whose PTX the loaded code of a kernel comes from: 90 for compute_90. Code for an older one runs on a
    /// newer device too, but was compiled without what that one has.
    pub(super) fn architecture(&self, kernel: usize) -> i32 {
        let mut version = 0;
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
        // SAFETY: a function of the loaded module; the number outlives the call.
        let asked = unsafe { sys::cuFuncGetAttribute(&mut version, which, self.functions[kernel]) };
        if asked == sys::CUresult::CUDA_SUCCESS { version } else { 0 }
    }

    /// Whether the device has clusters of blocks.
    pub fn has_clusters(&self) -> bool {
        let mut offered = 0;
        let which = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
        // SAFETY: the device is there; the pointer outlives the call.
        let asked = unsafe { sys::cuDeviceGetAttribute(&mut offered, which, self.device) };
        asked == sys::CUresult::CUDA_SUCCESS && offered != 0
    }

    /// Blocks of a kernel that run at once in clusters of so many; 0: such clusters are not to be had. More than eight to a
    /// cluster are more than every such device promises.
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

    /// Whether the host program has reset it: what lay there is gone, and addresses may be those of others.
    pub fn was_reset(&self) -> bool {
        let (mut flags, mut active, mut id) = (0, 0, 0);
        // SAFETY: the device is there; the pointers outlive the calls. The context is asked for its number only while the
        // driver keeps one, which is retained by this value.
        let same = unsafe {
            sys::cuDevicePrimaryCtxGetState(self.device, &mut flags, &mut active) == sys::CUresult::CUDA_SUCCESS
                && active != 0
                && sys::cuCtxGetId(self.context, &mut id) == sys::CUresult::CUDA_SUCCESS
                && id == self.id
        };
        !same
    }

    /// Makes its context current, unless it was reset.
    pub fn enter(&self) -> Result<Entered> {
        if self.was_reset() {
            return Err(Error::Device(format!(
                "the program has reset device {} (cudaDeviceReset): what this handle had there is gone, factorize again",
                self.ordinal
            )));
        }
        // SAFETY: retained by this value.
        check(unsafe { sys::cuCtxPushCurrent_v2(self.context) }, "the device's context")?;
        Ok(Entered { _here: std::marker::PhantomData })
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

/// Device memory.
pub struct Memory {
    device: Arc<Device>,
    /// Its address.
    pub address: u64,
    /// Its length.
    pub bytes: usize,
}

impl Memory {
    /// `bytes` of zeros, for `what`.
    pub fn zeroed(device: &Arc<Device>, stream: &Stream, bytes: usize, what: &str) -> Result<Self> {
        let _entered = device.enter()?;
        let (mut address, mut free, mut total) = (0, 0, 0);
        // SAFETY: the context is current; the pointers outlive the calls.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) };
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            // SAFETY: as above.
            let _ = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
            return Err(Error::Memory(format!(
                "no device memory for {bytes} bytes of {what}: {free} of {total} bytes are free on device {}",
                device.ordinal
            )));
        }
        check(result, what)?;
        let memory = Self { device: device.clone(), address, bytes };
        stream.fill(address, 0, bytes)?;
        // The next work may come on another stream.
        stream.wait()?;
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: allocated by us; the driver waits for work that uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Page-locked host memory that holds a `T`, for copies that do not wait and for kernels.
pub struct Pinned<T> {
    device: Arc<Device>,
    value: *mut T,
}

// SAFETY: owns its memory as a Box does.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Copy> Pinned<T> {
    /// Holds `value`.
    pub fn new(device: &Arc<Device>, value: T) -> Result<Self> {
        let _entered = device.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call. The driver aligns to pages.
        check(unsafe { sys::cuMemHostAlloc(&mut pointer, size_of::<T>(), 0) }, "page-locked memory")?;
        let value_at: *mut T = pointer.cast();
        // SAFETY: room for a T, as just asked for.
        unsafe { value_at.write(value) };
        Ok(Self { device: device.clone(), value: value_at })
    }

    /// Its address, which with unified addressing is the same there.
    pub fn on_device(&mut self) -> u64 {
        self.value as u64
    }
}

impl<T> std::ops::Deref for Pinned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: written in `new`; every copy and every kernel that writes it is waited for, by stream or event, before this.
        unsafe { &*self.value }
    }
}

impl<T> std::ops::DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.value }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: allocated by us.
            let _ = unsafe { sys::cuMemFreeHost(self.value.cast()) };
        }
    }
}

/// Page-locked host memory for doubles that threads share: who uses which part of it when is decided in `staging`.
pub struct Locked {
    device: Arc<Device>,
    values: *mut f64,
}

// SAFETY: owns its memory as a Box does, and hands out its address alone.
unsafe impl Send for Locked {}

impl Locked {
    /// Room for `count` doubles.
    pub fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        let _entered = device.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call. The driver aligns to pages.
        check(unsafe { sys::cuMemHostAlloc(&mut pointer, 8 * count, 0) }, "page-locked memory")?;
        Ok(Self { device: device.clone(), values: pointer.cast() })
    }

    /// Where it lies.
    pub fn address(&self) -> *mut f64 {
        self.values
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: allocated by us; copies from and to it were waited for, or are by the driver.
            let _ = unsafe { sys::cuMemFreeHost(self.values.cast()) };
        }
    }
}

/// A moment in a stream's work that the host can wait for.
pub struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// It has come.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuEventCreate(&mut event, flags) }, "an event")?;
        Ok(Self { device: device.clone(), event })
    }

    /// It comes after what is queued now.
    pub fn note(&self, stream: &Stream) -> Result<()> {
        // SAFETY: a live event and stream.
        check(unsafe { sys::cuEventRecord(self.event, stream.stream) }, "an event")
    }

    /// Whether it has come.
    pub fn has_come(&self) -> Result<bool> {
        // SAFETY: a live event.
        match unsafe { sys::cuEventQuery(self.event) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check(result, "the device's work").map(|()| true),
        }
    }

    /// Waits until it has.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a live event.
        check(unsafe { sys::cuEventSynchronize(self.event) }, "the device's work")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: made by us.
            let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}

/// A copy of rows between the host (address, pitch) and the device.
fn rows_of(
    host: (*mut c_void, usize),
    device: (u64, usize),
    (width, height): (usize, usize),
    to_device: bool,
) -> sys::CUDA_MEMCPY2D {
    use sys::CUmemorytype::{CU_MEMORYTYPE_DEVICE as DEVICE, CU_MEMORYTYPE_HOST as HOST};
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: if to_device { HOST } else { DEVICE },
        srcHost: host.0,
        srcDevice: device.0,
        srcArray: std::ptr::null_mut(),
        srcPitch: if to_device { host.1 } else { device.1 },
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: if to_device { DEVICE } else { HOST },
        dstHost: host.0,
        dstDevice: device.0,
        dstArray: std::ptr::null_mut(),
        dstPitch: if to_device { device.1 } else { host.1 },
        WidthInBytes: width,
        Height: height,
    }
}

/// A stream: ours, or borrowed from the caller.
pub struct Stream {
    device: Arc<Device>,
    stream: sys::CUstream,
    owned: bool,
}

// SAFETY: streams may be used from any thread, one at a time, as handles are.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of our own, which does not wait for the default stream.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "a stream")?;
        Ok(Self { device: device.clone(), stream, owned: true })
    }

    /// The caller's.
    pub fn borrowed(device: &Arc<Device>, stream: usize) -> Result<Self> {
        let _entered = device.enter()?;
        let mut context = std::ptr::null_mut();
        let stream = stream as sys::CUstream;
        // SAFETY: `rrb_set_stream` asks for a stream.
        check(unsafe { sys::cuStreamGetCtx(stream, &mut context) }, "the caller's stream")?;
        if context != device.context {
            return Err(Error::Device(format!(
                "the caller's stream (set_stream) does not belong to the primary context of device {}",
                device.ordinal
            )));
        }
        Ok(Self { device: device.clone(), stream, owned: false })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "the device's work")
    }

    /// Sets bytes.
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<()> {
        // SAFETY: addresses come from `Memory` values that live as long as their user.
        check(unsafe { sys::cuMemsetD8Async(address, value, bytes, self.stream) }, "clearing device memory")
    }

    /// Copies values to the device. Of pinned memory, `values` must stay as it is until the stream was waited for.
    pub fn send<T: Copy>(&self, to: u64, values: &[T]) -> Result<()> {
        // SAFETY: the slice is readable; the address as in `fill`. Every method that sends waits before it returns, or
        // sends from a `Pinned` that is changed after a wait only.
        check(
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, values.as_ptr().cast(), size_of_val(values), self.stream) },
            "a copy to the device",
        )
    }

    /// Copies values from the device, to be read after `wait`.
    pub fn fetch<T: Copy>(&self, values: &mut [T], from: u64) -> Result<()> {
        // SAFETY: the slice is writable, and waited for before it is given back.
        check(
            unsafe { sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), from, size_of_val(values), self.stream) },
            "a copy from the device",
        )
    }

    /// Copies `count` doubles between addresses of any space, the host's and the caller's among them, to be read or changed
    /// after `wait`.
    pub fn copy_values(&self, to: u64, from: u64, count: usize) -> Result<()> {
        // SAFETY: addresses as in `fill`, or of the caller's arrays, whose size the caller promised and which are its own
        // again after the call, which waits; the driver knows which space an address is of.
        check(unsafe { sys::cuMemcpyAsync(to, from, count * size_of::<f64>(), self.stream) }, "a copy of patches")
    }

    /// Copies the start of what a pinned value holds to the device.
    pub fn send_start<T: Copy>(&self, to: u64, from: &Pinned<T>, bytes: usize) -> Result<()> {
        assert!(bytes <= size_of::<T>());
        // SAFETY: inside the value, as just checked.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.value.cast(), bytes, self.stream) }, "a copy to the device")
    }

    /// Fills the start of a pinned value from the device, to be read after `wait`.
    pub fn fetch_start<T: Copy>(&self, to: &mut Pinned<T>, from: u64, bytes: usize) -> Result<()> {
        assert!(bytes <= size_of::<T>());
        // SAFETY: inside the value, as just checked.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.value.cast(), from, bytes, self.stream) }, "a copy from the device")
    }

    /// Copies `count` values of page-locked memory to the device.
    ///
    /// # Safety
    /// They are there, and stay as they are until the copy is done.
    pub unsafe fn send_locked(&self, to: u64, from: *const f64, count: usize) -> Result<()> {
        // SAFETY: as the caller promised; the address as in `fill`.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), 8 * count, self.stream) }, "a copy to the device")
    }

    /// The reverse.
    ///
    /// # Safety
    /// There is room, which nobody uses until the copy is done.
    pub unsafe fn fetch_locked(&self, to: *mut f64, from: u64, count: usize) -> Result<()> {
        // SAFETY: as the caller promised; the address as in `fill`.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, 8 * count, self.stream) }, "a copy from the device")
    }

    /// Copies `rows` rows of `nx` values that lie `ld` apart on the host to a plain array on the device.
    pub fn send_rows(&self, to: u64, values: &[f64], ld: usize, nx: usize, rows: usize) -> Result<()> {
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.send(to, &values[..rows * nx]);
        }
        let host = (values.as_ptr().cast_mut().cast(), 8 * ld);
        let c = rows_of(host, (to, 8 * nx), (8 * nx, rows), true);
        // SAFETY: inside the slice, as just checked; the address as in `fill`.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&c, self.stream) }, "a copy to the device")
    }

    /// The reverse; what lies between the rows stays.
    pub fn fetch_rows(&self, values: &mut [f64], from: u64, ld: usize, nx: usize, rows: usize) -> Result<()> {
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.fetch(&mut values[..rows * nx], from);
        }
        let host = (values.as_mut_ptr().cast(), 8 * ld);
        let c = rows_of(host, (from, 8 * nx), (8 * nx, rows), false);
        // SAFETY: inside the slice, as just checked.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&c, self.stream) }, "a copy from the device")
    }

    /// Launches a kernel that takes one structure. `behind`: where the device can, it may begin while the kernel before it on
    /// the stream ends, and waits for that one itself (`wait_for_previous` of kernels/block_smoother.cu).
    ///
    /// # Safety
    /// `arguments` must be the structure that the kernel takes, with addresses it may use at the given shape.
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn launch<A>(
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
    pub unsafe fn launch_together<A>(
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

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_entered) = self.device.enter()
        {
            // SAFETY: made by us.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}

/// A recorded loop: a graph of one WHILE node, whose body is run again until a kernel in it clears the condition.
pub struct Loop {
    device: Arc<Device>,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: graphs may be used from any thread, one at a time, as handles are.
unsafe impl Send for Loop {}

impl Loop {
    /// Records what `body` launches on the stream it is given; it gets the handle of the condition.
    pub fn record(device: &Arc<Device>, body: impl FnOnce(&Stream, u64) -> Result<()>) -> Result<Self> {
        let stream = Stream::new(device)?;
        let _entered = device.enter()?;
        let mut recorded =
            Self { device: device.clone(), graph: std::ptr::null_mut(), executable: std::ptr::null_mut() };
        let (mut handle, mut node) = (0, std::ptr::null_mut());
        // SAFETY: the context is current; the pointers outlive the calls. The node's parameters are those of a WHILE node.
        let inner = unsafe {
            check(sys::cuGraphCreate(&mut recorded.graph, 0), "a graph")?;
            // Set again at each launch of the graph.
            const ASSIGN_DEFAULT: u32 = 1;
            let made =
                sys::cuGraphConditionalHandleCreate(&mut handle, recorded.graph, device.context, 1, ASSIGN_DEFAULT);
            check(made, "the condition of a loop")?;
            let mut parameters: sys::CUgraphNodeParams = std::mem::zeroed();
            parameters.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            parameters.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
                handle,
                type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
                size: 1,
                phGraph_out: std::ptr::null_mut(),
                ctx: device.context,
            };
            let none = (std::ptr::null(), std::ptr::null());
            let added = sys::cuGraphAddNode_v2(&mut node, recorded.graph, none.0, none.1, 0, &mut parameters);
            check(added, "the node of a loop")?;
            let inner = *parameters.__bindgen_anon_1.conditional.phGraph_out;
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            let began = sys::cuStreamBeginCaptureToGraph(stream.stream, inner, none.0, none.1, 0, mode);
            check(began, "recording a loop")?;
            inner
        };
        let result = body(&stream, handle);
        let mut captured = inner;
        // SAFETY: ends the capture that began above, whatever became of the body.
        let ended = unsafe { sys::cuStreamEndCapture(stream.stream, &mut captured) };
        result?;
        check(ended, "recording a loop")?;
        // SAFETY: a complete graph.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&mut recorded.executable, recorded.graph, 0) };
        check(made, "instantiating a graph")?;
        Ok(recorded)
    }

    /// Starts it.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: instantiated in `record`; the arrays it names live as long as the handle.
        check(unsafe { sys::cuGraphLaunch(self.executable, stream.stream) }, "launching a graph")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: made by us, each destroyed once.
            unsafe {
                if !self.executable.is_null() {
                    let _ = sys::cuGraphExecDestroy(self.executable);
                }
                if !self.graph.is_null() {
                    let _ = sys::cuGraphDestroy(self.graph);
                }
            }
        }
    }
}

/// Two moments in a stream's work.
pub struct Watch {
    device: Arc<Device>,
    events: [sys::CUevent; 2],
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Watch {}

impl Watch {
    /// Not started.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut watch = Self { device: device.clone(), events: [std::ptr::null_mut(); 2] };
        for event in &mut watch.events {
            // SAFETY: the context is current; the pointer outlives the call.
            check(unsafe { sys::cuEventCreate(event, 0) }, "an event")?;
        }
        Ok(watch)
    }

    /// Notes the first (0) or second (1) moment.
    pub fn note(&self, which: usize, stream: &Stream) -> Result<()> {
        // SAFETY: a live event and stream.
        check(unsafe { sys::cuEventRecord(self.events[which], stream.stream) }, "an event")
    }

    /// Seconds between, after the stream was waited for.
    pub fn seconds(&self) -> Result<f64> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both were recorded.
        let result = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.events[0], self.events[1]) };
        check(result, "the time between events")?;
        Ok(1e-3 * f64::from(milliseconds))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            for event in self.events {
                if !event.is_null() {
                    // SAFETY: made by us.
                    let _ = unsafe { sys::cuEventDestroy_v2(event) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels are loaded once for all handles, those after the last one included.
    #[test]
    fn a_device_stays_open() {
        if device_count() == 0 {
            eprintln!("skipped: no CUDA device");
            return;
        }
        let first = Device::open(0, &["rrb_store_f64"]).unwrap();
        let address = Arc::as_ptr(&first);
        drop(first);
        assert_eq!(Arc::as_ptr(&Device::open(0, &["rrb_store_f64"]).unwrap()), address);
    }
}
