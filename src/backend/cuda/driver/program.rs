//! Memory of the host program on a device: copies of rows of it, and the handing over to another process of this host.

use super::device::{Entered, was_reset};
use super::library::{check, driver};
use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::sync::Arc;

/// The primary context of a device, in which programs have their memory.
pub struct Primary {
    ordinal: i32,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Of the context: another one after the host program has reset the device.
    id: u64,
    /// Of its own, for copies.
    stream: sys::CUstream,
}

// SAFETY: contexts and streams of the driver may be used from any thread.
unsafe impl Send for Primary {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Primary {}

/// Rows of doubles at an address of any space, so many values apart.
#[derive(Clone, Copy)]
pub struct Rows {
    pub address: u64,
    pub ld: usize,
}

/// Memory that another process may open: what the driver says of it, and bytes from its begin.
#[derive(Clone, Copy)]
pub struct Handed {
    pub handle: [u8; HANDLE],
    pub offset: u64,
}

/// Rows that lie so many bytes apart the driver does not copy in one call.
const PITCH_LIMIT: usize = 1 << 31;

/// Bytes of a handle.
pub const HANDLE: usize = size_of::<sys::CUipcMemHandle>();

impl Primary {
    /// That of this device.
    pub fn of(ordinal: i32) -> Result<Arc<Self>> {
        let count = driver()?;
        if ordinal < 0 || ordinal >= count {
            let sentence = format!(
                "device={ordinal} does not exist: this machine has {count} CUDA devices, \
                                    numbered from 0"
            );
            return Err(Error::NoDevice(sentence));
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is there; the pointers outlive the calls.
        unsafe {
            check(sys::cuDeviceGet(&mut device, ordinal), "the CUDA device")?;
            check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "the device's primary context")?;
        }
        // Releases the context from here on.
        let mut primary = Self { ordinal, device, context, id: 0, stream: std::ptr::null_mut() };
        // SAFETY: retained just now; the pointer outlives the call.
        check(unsafe { sys::cuCtxGetId(context, &mut primary.id) }, "the device's context")?;
        let entered = primary.enter()?;
        let apart = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer outlives the call.
        check(unsafe { sys::cuStreamCreate(&mut primary.stream, apart) }, "a stream")?;
        drop(entered);
        Ok(Arc::new(primary))
    }

    /// CUDA ordinal of its device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Whether the host program has reset the device: what is left here is of no use, and is not touched.
    pub fn was_reset(&self) -> bool {
        was_reset(self.device, self.context, self.id)
    }

    fn enter(&self) -> Result<Entered> {
        if self.was_reset() {
            return Err(Error::Device(format!("device {} was reset (cudaDeviceReset)", self.ordinal)));
        }
        // SAFETY: retained by this value.
        unsafe { Entered::into(self.context) }
    }

    /// Waits for what a stream of the program was given; 0: the default one.
    pub fn settle(&self, stream: usize) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the program's stream, as it said with `rrb_set_stream`.
        check(unsafe { sys::cuStreamSynchronize(stream as sys::CUstream) }, "the stream of the program")
    }

    /// Copies rows of `nx` values between addresses of any space, to be there after `wait`.
    ///
    /// # Safety
    /// There are so many values at both, which nobody else changes until then.
    pub unsafe fn copy_rows(&self, to: Rows, from: Rows, nx: usize, rows: usize) -> Result<()> {
        let _entered = self.enter()?;
        if 8 * to.ld.max(from.ld) >= PITCH_LIMIT {
            return (0..rows as u64).try_for_each(|j| {
                let [to, from] = [to, from].map(|rows| rows.address + 8 * j * rows.ld as u64);
                // SAFETY: as our caller promised.
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
        // SAFETY: as our caller promised.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&copy, self.stream) }, "rows of another rank")
    }

    /// Waits for copies.
    pub fn wait(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: made by us.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "rows of another rank")
    }

    /// `values` zeros, to which other devices may be let.
    pub fn zeros(self: &Arc<Self>, values: usize) -> Result<Plain> {
        let _entered = self.enter()?;
        let mut address = 0;
        // SAFETY: the pointer outlives the call.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, 8 * values) }, "rows of all ranks")?;
        let plain = Plain { primary: self.clone(), address, bytes: 8 * values };
        // SAFETY: taken just now, of that size.
        check(unsafe { sys::cuMemsetD8Async(address, 0, plain.bytes, self.stream) }, "clearing device memory")?;
        Ok(plain)
    }

    /// Memory of this device at an address, for another process of this host to open.
    pub fn hand_over(&self, address: u64) -> Result<Handed> {
        let _entered = self.enter()?;
        let (mut base, mut bytes) = (0, 0);
        let mut handle = sys::CUipcMemHandle { reserved: [0; HANDLE] };
        // SAFETY: the pointers outlive the calls; the driver refuses what it has not given.
        unsafe {
            check(sys::cuMemGetAddressRange_v2(&mut base, &mut bytes, address), "an array of the program")?;
            check(sys::cuIpcGetMemHandle(&mut handle, base), "an array for another process")?;
        }
        Ok(Handed { handle: handle.reserved.map(|c| c as u8), offset: address - base })
    }

    /// Opens memory of another process.
    pub fn open(self: &Arc<Self>, handed: &Handed) -> Result<Opened> {
        let _entered = self.enter()?;
        let handle = sys::CUipcMemHandle { reserved: handed.handle.map(|c| c as _) };
        let mut base = 0;
        let peers = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the pointer outlives the call; the driver refuses a handle that it has not given.
        check(unsafe { sys::cuIpcOpenMemHandle_v2(&mut base, handle, peers) }, "an array of another process")?;
        Ok(Opened { primary: self.clone(), base, address: base + handed.offset })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        if let Ok(_entered) = self.enter()
            && !self.stream.is_null()
        {
            // SAFETY: made by us, and destroyed once; who copies waits.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
        // SAFETY: retained once by us.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Memory of a device, as a program would take it.
pub struct Plain {
    primary: Arc<Primary>,
    pub address: u64,
    pub bytes: usize,
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Ok(_entered) = self.primary.enter() {
            // SAFETY: taken by us, and freed once; the device was not reset since, or it could not be entered.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Memory of another process, until it is dropped.
pub struct Opened {
    primary: Arc<Primary>,
    base: u64,
    /// What was handed over.
    pub address: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Ok(_entered) = self.primary.enter() {
            // SAFETY: opened by us, and closed once.
            let _ = unsafe { sys::cuIpcCloseMemHandle(self.base) };
        }
    }
}
