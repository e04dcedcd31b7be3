//! Memory of the device, page-locked memory of the host, and where an address of the caller lies.

use super::device::Device;
use super::library::{check, device_count};
use super::stream::Stream;
use crate::error::{Error, Result};
use bytemuck::Pod;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::Arc;

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
    // SAFETY: the driver is there; the attributes are a `CUmemorytype` (32 bits) and an int; any address may be
    // asked for.
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
    pub(super) value: *mut T,
}

// SAFETY: owns its memory as a Box does.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Pod> Pinned<T> {
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
        // SAFETY: written in `new`; every copy and every kernel that writes it is waited for, by stream or event,
        // before this.
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
