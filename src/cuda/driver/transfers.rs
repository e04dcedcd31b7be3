//! Copies between the host and a device, in stream order.

use super::library::check;
use super::memory::Pinned;
use super::stream::Stream;
use crate::error::Result;
use bytemuck::{AnyBitPattern, NoUninit};
use cudarc::driver::sys;
use std::ffi::c_void;

/// Describes a copy of `height` rows of `width` bytes between the host and the device. `host` and `device` are pairs of
/// an address and a pitch in bytes.
fn describe_rows(
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

impl Stream {
    /// Sets `bytes` bytes from `address` on to `value`.
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        if !self.record_launch(&[address, bytes as u64], &value)? {
            return Ok(());
        }
        // SAFETY: the address belongs to a `Memory` value, which is dropped only after the work that uses it has ended.
        check(unsafe { sys::cuMemsetD8Async(address, value, bytes, stream) }, "clearing device memory")
    }

    /// Copies values to the device. Values in pinned memory must not change until the host has waited for the stream.
    pub fn send<T: NoUninit>(&self, target: u64, values: &[T]) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: all bytes of the slice are readable; the address is as in `fill`. Every caller waits before it
        // returns, or passes a `Pinned` that changes only after a wait.
        check(
            unsafe { sys::cuMemcpyHtoDAsync_v2(target, values.as_ptr().cast(), size_of_val(values), stream) },
            "a copy to the device",
        )
    }

    /// Copies values from the device. The caller may read them after `wait`.
    pub fn fetch<T: AnyBitPattern>(&self, values: &mut [T], source: u64) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: the slice is writable and accepts any bytes; the caller waits before it returns the slice.
        check(
            unsafe { sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), source, size_of_val(values), stream) },
            "a copy from the device",
        )
    }

    /// Copies `count` doubles between addresses of any memory space, including addresses of the caller. The values at
    /// both addresses may be read or changed after `wait`.
    pub fn copy_values(&self, target: u64, source: u64, count: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: the addresses are as in `fill`, or belong to arrays of the caller, who guarantees their size. The
        // library waits for the copy before control returns to the caller. The driver knows the memory space of an
        // address.
        check(unsafe { sys::cuMemcpyAsync(target, source, count * size_of::<f64>(), stream) }, "a copy of values")
    }

    /// Copies the first `bytes` bytes of a pinned value to the device. The bytes must not change until the host has
    /// waited for the stream.
    pub fn send_prefix<T: NoUninit>(&self, target: u64, source: &Pinned<T>, bytes: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        assert!(bytes <= size_of::<T>());
        // SAFETY: the bytes are within the value, as just checked.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(target, source.value.cast(), bytes, stream) }, "a copy to the device")
    }

    /// Copies `bytes` bytes from the device to the start of a pinned value. The caller may read the bytes after `wait`.
    pub fn fetch_prefix<T: AnyBitPattern>(&self, target: &mut Pinned<T>, source: u64, bytes: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        assert!(bytes <= size_of::<T>());
        // SAFETY: the bytes are within the value, as just checked.
        check(
            unsafe { sys::cuMemcpyDtoHAsync_v2(target.value.cast(), source, bytes, stream) },
            "a copy from the device",
        )
    }

    /// Copies `count` values from page-locked memory to the device.
    ///
    /// # Safety
    /// The values must be valid and must not change until the copy is complete.
    pub unsafe fn send_locked(&self, target: u64, source: *const f64, count: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: the caller guarantees valid values; the address is as in `fill`.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(target, source.cast(), 8 * count, stream) }, "a copy to the device")
    }

    /// Copies `count` values from the device to page-locked memory.
    ///
    /// # Safety
    /// The memory must be valid, and no thread may use it until the copy is complete.
    pub unsafe fn fetch_locked(&self, target: *mut f64, source: u64, count: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: the caller guarantees valid memory; the address is as in `fill`.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(target.cast(), source, 8 * count, stream) }, "a copy from the device")
    }

    /// Copies `rows` rows of `nx` values from host rows at a distance of `ld` values to a contiguous array on the
    /// device.
    pub fn send_rows(&self, target: u64, values: &[f64], ld: usize, nx: usize, rows: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.send(target, &values[..rows * nx]);
        }
        let host = (values.as_ptr().cast_mut().cast(), 8 * ld);
        let copy = describe_rows(host, (target, 8 * nx), (8 * nx, rows), true);
        // SAFETY: the rows are within the slice, as just checked; the address is as in `fill`.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }, "a copy to the device")
    }

    /// Copies a contiguous array on the device to host rows at a distance of `ld` values. Values between the rows stay
    /// unchanged.
    pub fn fetch_rows(&self, values: &mut [f64], source: u64, ld: usize, nx: usize, rows: usize) -> Result<()> {
        let stream = self.after_all_devices()?;
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.fetch(&mut values[..rows * nx], source);
        }
        let host = (values.as_mut_ptr().cast(), 8 * ld);
        let copy = describe_rows(host, (source, 8 * nx), (8 * nx, rows), false);
        // SAFETY: the rows are within the slice, as just checked.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }, "a copy from the device")
    }
}
