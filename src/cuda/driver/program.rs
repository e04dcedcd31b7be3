//! Arrays of the host program in device memory: copies of their rows, and sharing of their memory with other processes
//! of this host (CUDA IPC).

use super::device::{EnteredContext, was_reset};
use super::library::{check, initialize_driver};
use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::sync::Arc;

/// Primary context of a device, in which host programs allocate their memory.
pub struct PrimaryContext {
    ordinal: i32,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Identifier of the context. It changes when the host program resets the device.
    context_id: u64,
    /// Private stream for copies.
    stream: sys::CUstream,
}

// SAFETY: contexts and streams of the driver may be used from any thread.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; no field changes after construction.
unsafe impl Sync for PrimaryContext {}

/// Rows of doubles in any memory space: address of the first value, and distance of consecutive rows in values.
#[derive(Clone, Copy)]
pub struct Rows {
    pub address: u64,
    pub ld: usize,
}

/// Memory that another process may open: IPC handle of the allocation, and offset in bytes of the exported address from
/// the start of the allocation.
#[derive(Clone, Copy)]
pub struct ExportedMemory {
    pub handle: [u8; HANDLE_BYTES],
    pub offset: u64,
}

/// Row distance in bytes from which on the driver refuses two-dimensional copies.
const PITCH_LIMIT: usize = 1 << 31;

/// Size of an IPC handle in bytes.
pub const HANDLE_BYTES: usize = size_of::<sys::CUipcMemHandle>();

impl PrimaryContext {
    /// Retains the primary context of a device, and creates the stream for copies.
    pub fn of(ordinal: i32) -> Result<Arc<Self>> {
        let count = initialize_driver()?;
        if ordinal < 0 || ordinal >= count {
            let message = format!(
                "device={ordinal} does not exist: this machine has {count} CUDA devices, \
                                    numbered from 0"
            );
            return Err(Error::NoDevice(message));
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is loaded; the pointers outlive the calls.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal), "the CUDA device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "the device's primary context")?;
        }
        // If a later call fails, dropping `retained` releases the context.
        let mut retained = Self { ordinal, device, context, context_id: 0, stream: std::ptr::null_mut() };
        // SAFETY: the context was just retained; the pointer outlives the call.
        check(unsafe { sys::cuCtxGetId(context, &mut retained.context_id) }, "the device's context")?;
        let entered = retained.enter()?;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer outlives the call.
        check(unsafe { sys::cuStreamCreate(&mut retained.stream, flags) }, "a stream")?;
        drop(entered);
        Ok(Arc::new(retained))
    }

    /// Returns the CUDA ordinal of the device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Returns whether the host program has reset the device. The resources of this value are then invalid and must not
    /// be used.
    pub fn was_reset(&self) -> bool {
        was_reset(self.device, self.context, self.context_id)
    }

    fn enter(&self) -> Result<EnteredContext> {
        if self.was_reset() {
            return Err(Error::Device(format!("device {} was reset (cudaDeviceReset)", self.ordinal)));
        }
        // SAFETY: this value has retained the context.
        unsafe { EnteredContext::push(self.context) }
    }

    /// Waits for all work of a stream of the host program; 0 is the default stream.
    pub fn wait_for_stream(&self, stream: usize) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller declared the stream with `rrb_set_stream`.
        check(unsafe { sys::cuStreamSynchronize(stream as sys::CUstream) }, "the stream of the program")
    }

    /// Queues a copy of rows of `nx` values between any memory spaces. The copy is complete after `wait`.
    ///
    /// # Safety
    /// Both addresses must be valid for these rows. No other thread may change the rows until `wait` returns.
    pub unsafe fn copy_rows(&self, to: Rows, from: Rows, nx: usize, rows: usize) -> Result<()> {
        let _entered = self.enter()?;
        if 8 * to.ld.max(from.ld) >= PITCH_LIMIT {
            return (0..rows as u64).try_for_each(|j| {
                let [to, from] = [to, from].map(|rows| rows.address + 8 * j * rows.ld as u64);
                // SAFETY: the caller guarantees valid rows.
                check(unsafe { sys::cuMemcpyAsync(to, from, 8 * nx, self.stream) }, "rows of another rank")
            });
        }
        use sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED as UNIFIED;
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: UNIFIED,
            srcHost: std::ptr::null(),
            srcDevice: from.address,
            srcArray: std::ptr::null_mut(),
            srcPitch: 8 * from.ld,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: UNIFIED,
            dstHost: std::ptr::null_mut(),
            dstDevice: to.address,
            dstArray: std::ptr::null_mut(),
            dstPitch: 8 * to.ld,
            WidthInBytes: 8 * nx,
            Height: rows,
        };
        // SAFETY: the caller guarantees valid rows.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&copy, self.stream) }, "rows of another rank")
    }

    /// Waits for the queued copies.
    pub fn wait(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the stream was created by `of`.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "rows of another rank")
    }

    /// Allocates memory for `values` doubles, which other processes can open. It contains zeros after `wait`.
    pub fn allocate_zeroed(self: &Arc<Self>, values: usize) -> Result<ExportableMemory> {
        let _entered = self.enter()?;
        let mut address = 0;
        // SAFETY: the pointer outlives the call.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, 8 * values) }, "rows of all ranks")?;
        let memory = ExportableMemory { context: self.clone(), address, bytes: 8 * values };
        // SAFETY: the memory was just allocated with this size.
        check(unsafe { sys::cuMemsetD8Async(address, 0, memory.bytes, self.stream) }, "clearing device memory")?;
        Ok(memory)
    }

    /// Exports the device memory at an address, so that another process of this host can open it.
    pub fn export(&self, address: u64) -> Result<ExportedMemory> {
        let _entered = self.enter()?;
        let (mut base, mut bytes) = (0, 0);
        let mut handle = sys::CUipcMemHandle { reserved: [0; HANDLE_BYTES] };
        // SAFETY: the pointers outlive the calls; the driver refuses addresses that it did not allocate.
        unsafe {
            check(sys::cuMemGetAddressRange_v2(&mut base, &mut bytes, address), "an array of the program")?;
            check(sys::cuIpcGetMemHandle(&mut handle, base), "an array for another process")?;
        }
        Ok(ExportedMemory { handle: handle.reserved.map(|c| c as u8), offset: address - base })
    }

    /// Opens memory that another process exported.
    pub fn open(self: &Arc<Self>, exported: &ExportedMemory) -> Result<ImportedMemory> {
        let _entered = self.enter()?;
        let handle = sys::CUipcMemHandle { reserved: exported.handle.map(|c| c as _) };
        let mut base = 0;
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the pointer outlives the call; the driver refuses handles that it did not issue.
        check(unsafe { sys::cuIpcOpenMemHandle_v2(&mut base, handle, flags) }, "an array of another process")?;
        Ok(ImportedMemory { context: self.clone(), base, address: base + exported.offset })
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        if let Ok(_entered) = self.enter()
            && !self.stream.is_null()
        {
            // SAFETY: `of` created the stream, and it is destroyed once. The users of the copies have waited for them.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
        // SAFETY: `of` retained the context once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Device memory allocated with `cuMemAlloc`, as host programs allocate theirs.
pub struct ExportableMemory {
    context: Arc<PrimaryContext>,
    pub address: u64,
    pub bytes: usize,
}

impl Drop for ExportableMemory {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: `allocate_zeroed` allocated the memory, and it is freed once. If the device was reset after the
            // allocation, `enter` has failed above.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Memory of another process, which stays open until this value is dropped.
pub struct ImportedMemory {
    context: Arc<PrimaryContext>,
    base: u64,
    /// Address of the exported memory in this process.
    pub address: u64,
}

impl Drop for ImportedMemory {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: `PrimaryContext::open` opened the memory, and it is closed once.
            let _ = unsafe { sys::cuIpcCloseMemHandle(self.base) };
        }
    }
}
