//! Copies between the host and a device, in the order of a stream.

use super::library::check;
use super::memory::Pinned;
use super::stream::Stream;
use crate::error::Result;
use bytemuck::{AnyBitPattern, NoUninit};
use cudarc::driver::sys;
use std::ffi::c_void;

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

impl Stream {
    /// Sets bytes.
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<()> {
        let stream = self.alone()?;
        if !self.note(&[address, bytes as u64], &value)? {
            return Ok(());
        }
        // SAFETY: addresses come from `Memory` values that live as long as their user.
        check(unsafe { sys::cuMemsetD8Async(address, value, bytes, stream) }, "clearing device memory")
    }

    /// Copies values to the device. Of pinned memory, `values` must stay as it is until the stream was waited for.
    pub fn send<T: NoUninit>(&self, to: u64, values: &[T]) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: the slice is readable, each of its bytes; the address as in `fill`. Every method that sends waits
        // before it returns, or sends from a `Pinned` that is changed after a wait only.
        check(
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, values.as_ptr().cast(), size_of_val(values), stream) },
            "a copy to the device",
        )
    }

    /// Copies values from the device, to be read after `wait`.
    pub fn fetch<T: AnyBitPattern>(&self, values: &mut [T], from: u64) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: the slice is writable, with any bytes, and waited for before it is given back.
        check(
            unsafe { sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), from, size_of_val(values), stream) },
            "a copy from the device",
        )
    }

    /// Copies `count` doubles between addresses of any space, the host's and the caller's among them, to be read or
    /// changed after `wait`.
    pub fn copy_values(&self, to: u64, from: u64, count: usize) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: addresses as in `fill`, or of the caller's arrays, whose size the caller promised and which are its
        // own again after the call, which waits; the driver knows which space an address is of.
        check(unsafe { sys::cuMemcpyAsync(to, from, count * size_of::<f64>(), stream) }, "a copy of patches")
    }

    /// Copies the start of what a pinned value holds to the device.
    pub fn send_start<T: NoUninit>(&self, to: u64, from: &Pinned<T>, bytes: usize) -> Result<()> {
        let stream = self.alone()?;
        assert!(bytes <= size_of::<T>());
        // SAFETY: inside the value, as just checked.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.value.cast(), bytes, stream) }, "a copy to the device")
    }

    /// Fills the start of a pinned value from the device, to be read after `wait`.
    pub fn fetch_start<T: AnyBitPattern>(&self, to: &mut Pinned<T>, from: u64, bytes: usize) -> Result<()> {
        let stream = self.alone()?;
        assert!(bytes <= size_of::<T>());
        // SAFETY: inside the value, as just checked.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.value.cast(), from, bytes, stream) }, "a copy from the device")
    }

    /// Copies `count` values of page-locked memory to the device.
    ///
    /// # Safety
    /// They are there, and stay as they are until the copy is done.
    pub unsafe fn send_locked(&self, to: u64, from: *const f64, count: usize) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: as the caller promised; the address as in `fill`.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), 8 * count, stream) }, "a copy to the device")
    }

    /// The reverse.
    ///
    /// # Safety
    /// There is room, which nobody uses until the copy is done.
    pub unsafe fn fetch_locked(&self, to: *mut f64, from: u64, count: usize) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: as the caller promised; the address as in `fill`.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, 8 * count, stream) }, "a copy from the device")
    }

    /// Copies `rows` rows of `nx` values that lie `ld` apart on the host to a plain array on the device.
    pub fn send_rows(&self, to: u64, values: &[f64], ld: usize, nx: usize, rows: usize) -> Result<()> {
        let stream = self.alone()?;
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.send(to, &values[..rows * nx]);
        }
        let host = (values.as_ptr().cast_mut().cast(), 8 * ld);
        let c = rows_of(host, (to, 8 * nx), (8 * nx, rows), true);
        // SAFETY: inside the slice, as just checked; the address as in `fill`.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&c, stream) }, "a copy to the device")
    }

    /// The reverse; what lies between the rows stays.
    pub fn fetch_rows(&self, values: &mut [f64], from: u64, ld: usize, nx: usize, rows: usize) -> Result<()> {
        let stream = self.alone()?;
        assert!(rows > 0 && values.len() >= (rows - 1) * ld + nx);
        if ld == nx {
            return self.fetch(&mut values[..rows * nx], from);
        }
        let host = (values.as_mut_ptr().cast(), 8 * ld);
        let c = rows_of(host, (from, 8 * nx), (8 * nx, rows), false);
        // SAFETY: inside the slice, as just checked.
        check(unsafe { sys::cuMemcpy2DAsync_v2(&c, stream) }, "a copy from the device")
    }
}
