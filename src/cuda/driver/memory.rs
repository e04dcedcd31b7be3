//! Device memory, page-locked host memory, and the memory space of the caller's addresses.

use super::device::Device;
use super::library::{check, device_count};
use super::stream::Stream;
use crate::error::{Error, Result, reserve};
use bytemuck::Pod;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::Arc;

/// Memory space of an address of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySpace {
    /// Host memory, pinned or pageable.
    Host,
    /// Memory of the device with this ordinal.
    Device(i32),
}

/// Returns the memory space of an address. An address that the driver does not know is in host memory. If there is no
/// usable device, all memory is host memory.
pub fn memory_space_of(address: usize) -> Result<MemorySpace> {
    if device_count() == 0 || address == 0 {
        return Ok(MemorySpace::Host);
    }
    let (mut kind, mut ordinal) = (0u32, 0i32);
    // SAFETY: the driver is loaded; the attributes are a `CUmemorytype` (32 bits) and an int; the driver accepts any
    // address.
    unsafe {
        let query = |to: *mut c_void, attribute| sys::cuPointerGetAttribute(to, attribute, address as u64);
        let status =
            query(std::ptr::from_mut(&mut kind).cast(), sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        if status != sys::CUresult::CUDA_SUCCESS || kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 {
            // The driver does not know the address, or it is in pinned host memory.
            return Ok(MemorySpace::Host);
        }
        let result = query(
            std::ptr::from_mut(&mut ordinal).cast(),
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        );
        check(result, "the device of an array")?;
    }
    Ok(MemorySpace::Device(ordinal))
}

/// Returns whether an address of the caller is in page-locked host memory.
pub fn is_page_locked(address: usize) -> bool {
    let mut kind = 0u32;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: the driver is loaded, because a device is in use; otherwise as in `memory_space_of`.
    let status = unsafe { sys::cuPointerGetAttribute(std::ptr::from_mut(&mut kind).cast(), attribute, address as u64) };
    status == sys::CUresult::CUDA_SUCCESS && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
}

/// Returns whether devices with peer access can read the memory at an address.
///
/// This holds for memory from cudaMalloc or cudaMallocManaged. Returns false for other memory. To memory from a pool,
/// or memory that the program maps, only the program itself can grant access.
pub fn is_peer_accessible(address: usize) -> bool {
    use sys::CUpointer_attribute as A;
    [A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, A::CU_POINTER_ATTRIBUTE_IS_MANAGED].into_iter().any(
        |attribute| {
            let mut value = 0i32;
            // SAFETY: the driver is loaded, because a device is in use; the attributes are booleans not larger than an
            // int.
            let status =
                unsafe { sys::cuPointerGetAttribute(std::ptr::from_mut(&mut value).cast(), attribute, address as u64) };
            status == sys::CUresult::CUDA_SUCCESS && value != 0
        },
    )
}

/// Device memory, which is freed when the value is dropped.
pub struct Memory {
    device: Arc<Device>,
    /// Device address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: usize,
    /// For memory that is divided among devices, the number of bytes from `address` on that are mapped; else `None`.
    mapped_bytes: Option<usize>,
}

/// Granularity in bytes of memory that is mapped from several devices into one address range.
pub const GRANULE_BYTES: usize = 1 << 21;

impl Memory {
    /// Allocates `bytes` zeroed bytes. `name` is the name of the allocation in error messages.
    pub fn zeroed(device: &Arc<Device>, stream: &Stream, bytes: usize, name: &str) -> Result<Self> {
        let _entered = device.enter()?;
        let mut address = 0;
        // SAFETY: the context is current, and `address` outlives the call.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) };
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(out_of_memory_error(device, bytes, name));
        }
        check(result, name)?;
        let memory = Self { device: device.clone(), address, bytes, mapped_bytes: None };
        memory.clear(stream)?;
        Ok(memory)
    }

    fn clear(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.address, 0, self.bytes)?;
        // Another stream may use the memory next, so the zeros must be complete.
        stream.wait()
    }

    /// Allocates zeroed memory in one address range. Granule g, the g-th `GRANULE_BYTES` bytes, resides on device
    /// number `owner(g)` of the stream. The size is rounded up to whole granules.
    ///
    /// All devices of the stream can read and write the whole range at the same addresses. The caller must drop the
    /// value only when no device uses it.
    pub fn divided(stream: &Stream, bytes: usize, owner: impl Fn(usize) -> usize, name: &'static str) -> Result<Self> {
        let devices = stream.devices()?;
        let _entered = devices[0].enter()?;
        let granules = bytes.div_ceil(GRANULE_BYTES).max(1);
        let mut memory =
            Self { device: devices[0].clone(), address: 0, bytes: granules * GRANULE_BYTES, mapped_bytes: Some(0) };
        // SAFETY: the context is current; the pointer outlives the call.
        let status = unsafe { sys::cuMemAddressReserve(&mut memory.address, memory.bytes, GRANULE_BYTES, 0, 0) };
        check(status, name)?;
        let mut first_granule = 0;
        while first_granule < granules {
            let device_index = owner(first_granule);
            let end_granule =
                (first_granule..granules).find(|granule| owner(*granule) != device_index).unwrap_or(granules);
            memory.map(&devices[device_index], (end_granule - first_granule) * GRANULE_BYTES, name)?;
            first_granule = end_granule;
        }
        let mut access: Vec<sys::CUmemAccessDesc> = Vec::new();
        reserve(&mut access, devices.len(), name)?;
        access.extend(devices.iter().map(|device| sys::CUmemAccessDesc {
            location: device_location(device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }));
        // SAFETY: memory is mapped to all of these addresses; the list outlives the call.
        let status = unsafe { sys::cuMemSetAccess(memory.address, memory.bytes, access.as_ptr(), access.len()) };
        check(status, name)?;
        memory.clear(stream)?;
        Ok(memory)
    }

    /// Maps new memory of a device to the next unmapped addresses.
    fn map(&mut self, device: &Device, bytes: usize, name: &str) -> Result<()> {
        let offset = self.mapped_bytes.unwrap_or(0);
        // SAFETY: all zero is a valid value of this plain structure.
        let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = device_location(device);
        let mut handle = 0;
        // SAFETY: the structure and the handle outlive the call.
        let status = unsafe { sys::cuMemCreate(&mut handle, bytes, &properties, 0) };
        if status == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(out_of_memory_error(device, bytes, name));
        }
        check(status, name)?;
        // SAFETY: these addresses are reserved and unmapped. A mapping keeps its memory alive after the handle is
        // released.
        let status = unsafe {
            let status = sys::cuMemMap(self.address + offset as u64, bytes, 0, handle, 0);
            let _ = sys::cuMemRelease(handle);
            status
        };
        check(status, name)?;
        self.mapped_bytes = Some(offset + bytes);
        Ok(())
    }
}

fn out_of_memory_error(device: &Device, bytes: usize, name: &str) -> Error {
    let (mut free, mut total) = (0, 0);
    if let Ok(_entered) = device.enter() {
        // SAFETY: the context is current; the numbers outlive the call.
        let _ = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
    }
    Error::Memory(format!(
        "failed to allocate {bytes} bytes of device memory for {name}: {free} of {total} bytes are free on device {}",
        device.ordinal
    ))
}

fn device_location(device: &Device) -> sys::CUmemLocation {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut device_location: sys::CUmemLocation = unsafe { std::mem::zeroed() };
    device_location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    device_location.id = device.ordinal;
    device_location
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(mapped) = self.mapped_bytes {
            // SAFETY: only addresses that `divided` reserved and mapped are unmapped, and these calls need no live
            // context. The owner of the value has waited for all work.
            unsafe {
                if mapped > 0 {
                    let _ = sys::cuMemUnmap(self.address, mapped);
                }
                if self.address != 0 {
                    let _ = sys::cuMemAddressFree(self.address, self.bytes);
                }
            }
        } else if let Ok(_entered) = self.device.enter() {
            // SAFETY: `zeroed` allocated the memory, and the driver waits for work that uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Page-locked host memory that holds a `T`, for asynchronous copies and for access by kernels.
pub struct Pinned<T> {
    device: Arc<Device>,
    pub(super) value: *mut T,
}

// SAFETY: the value owns its memory, as a Box does.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// Allocates the memory and stores `value` in it.
    pub fn new(device: &Arc<Device>, value: T) -> Result<Self> {
        let _entered = device.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call. The driver aligns the memory to pages.
        check(unsafe { sys::cuMemHostAlloc(&mut pointer, size_of::<T>(), 0) }, "page-locked memory")?;
        let pointer_to_value: *mut T = pointer.cast();
        // SAFETY: the memory just allocated has room for a T.
        unsafe { pointer_to_value.write(value) };
        Ok(Self { device: device.clone(), value: pointer_to_value })
    }

    /// Returns the device address, which equals the host address under unified addressing.
    pub fn device_address(&mut self) -> u64 {
        self.value as u64
    }
}

impl<T> std::ops::Deref for Pinned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` has initialized the value. Before the host reads the value, it waits, for the stream or for an
        // event, until every copy and kernel that writes the value has ended.
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
            // SAFETY: `new` allocated the memory.
            let _ = unsafe { sys::cuMemFreeHost(self.value.cast()) };
        }
    }
}

/// Page-locked host memory for doubles, which several threads use. The module `staging` assigns parts of the array to
/// threads.
pub struct PageLockedArray {
    device: Arc<Device>,
    values: *mut f64,
}

// SAFETY: the value owns its memory, as a Box does, and exposes only its address.
unsafe impl Send for PageLockedArray {}

impl PageLockedArray {
    /// Allocates `count` doubles, uninitialized.
    pub fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        let _entered = device.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call. The driver aligns the memory to pages.
        check(unsafe { sys::cuMemHostAlloc(&mut pointer, 8 * count, 0) }, "page-locked memory")?;
        Ok(Self { device: device.clone(), values: pointer.cast() })
    }

    /// Returns the address of the first value.
    pub fn address(&self) -> *mut f64 {
        self.values
    }
}

impl Drop for PageLockedArray {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: `new` allocated the memory. Copies that use it have ended, or the driver waits for them here.
            let _ = unsafe { sys::cuMemFreeHost(self.values.cast()) };
        }
    }
}
