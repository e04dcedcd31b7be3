//! Memory spaces of the arrays of a call, and the check that written arrays overlap no other array. In `src/abi`, only
//! this module uses device memory functions of the CUDA driver.

pub use crate::cuda::driver::{ExportableMemory, ExportedMemory, HANDLE_BYTES, ImportedMemory, PrimaryContext, Rows};

use crate::cuda::driver::{MemorySpace, device_count, is_peer_accessible, memory_space_of};
use crate::error::{ArgumentName, Error, Result};
use crate::options::{Devices, Memory};

/// Returns true if an array resides on the handle's device `device` or on one of the devices `other_devices`, and false
/// if it resides in host memory. With `memory=host`, returns false without a query of the driver.
///
/// The option `memory` states which memory spaces are allowed. An array in another memory space is an error. With
/// several devices, an array that not all of them can read is also an error.
pub fn is_on_device(
    name: ArgumentName,
    address: usize,
    device: i64,
    other_devices: Devices,
    memory: Memory,
) -> Result<bool> {
    let has_several_devices = other_devices.ordinals().nth(1).is_some();
    let devices_text =
        || if has_several_devices { format!("devices {other_devices}") } else { format!("device {device}") };
    if memory == Memory::Host {
        return Ok(false);
    }
    match memory_space_of(address)? {
        MemorySpace::Device(ordinal) if i64::from(ordinal) == device || other_devices.contains(ordinal.into()) => {
            if has_several_devices && !is_peer_accessible(address) {
                return Err(Error::Unsupported(format!(
                    "{name} is from a memory pool (cudaMallocAsync) or mapped by the program, and other devices \
                     cannot read it: with several devices, use cudaMalloc or host memory"
                )));
            }
            Ok(true)
        }
        // If there is no device, the call that creates the solver object reports the error.
        MemorySpace::Host if memory == Memory::Auto || device_count() == 0 => Ok(false),
        MemorySpace::Host => {
            Err(wrong_space(name, MemorySpace::Host, format!("on {} (memory=device)", devices_text())))
        }
        space => Err(wrong_space(name, space, format!("on {} or on the host", devices_text()))),
    }
}

/// Returns the ordinal of the device that stores an array, or `None` for an array in host memory. If `memory=host` is
/// set, returns `None` without a query of the driver. If `memory=device` is set, an array in host memory is an error.
/// Used for systems that another process solves on devices.
pub fn ordinal_of(name: &'static str, address: usize, memory: Memory) -> Result<Option<i32>> {
    if memory == Memory::Host {
        return Ok(None);
    }
    match memory_space_of(address)? {
        MemorySpace::Device(ordinal) => Ok(Some(ordinal)),
        MemorySpace::Host if memory == Memory::Auto => Ok(None),
        MemorySpace::Host => Err(wrong_space(name.into(), MemorySpace::Host, "on a device (memory=device)".to_owned())),
    }
}

/// Checks that an array is in host memory. Used for arrays to which the option `memory` does not apply.
pub fn check_on_host(name: impl Into<ArgumentName>, address: usize) -> Result<()> {
    match memory_space_of(address)? {
        MemorySpace::Host => Ok(()),
        space => Err(wrong_space(name.into(), space, "on the host".to_owned())),
    }
}

/// Creates the error for an array in a memory space that is not allowed.
pub fn wrong_space(name: ArgumentName, space: MemorySpace, allowed: String) -> Error {
    let location = match space {
        MemorySpace::Device(ordinal) => format!("an array on device {ordinal}"),
        MemorySpace::Host => "an array on the host".to_owned(),
    };
    Error::range(name, location, format!("be {allowed}"))
}

/// Checks that an array is not NULL and is aligned.
pub fn check_array<T>(name: impl Into<ArgumentName>, array: *const T) -> Result<()> {
    if array.is_null() {
        return Err(Error::Null(name.into()));
    }
    if array.is_aligned() { Ok(()) } else { Err(Error::Alignment(name.into(), align_of::<T>())) }
}

/// Checks an array of the caller with `check_array`, and returns its `count` values; no values for `None`.
///
/// # Safety
/// `pointer` must be `None`, NULL, or point to `count` values for the duration of the call.
pub unsafe fn caller_list<'a, T>(name: &'static str, pointer: Option<*const T>, count: usize) -> Result<&'a [T]> {
    let Some(pointer) = pointer else { return Ok(&[]) };
    check_array(name, pointer)?;
    // SAFETY: not NULL and aligned, as checked; the caller guarantees the length.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Address range of an array.
#[derive(Clone, Copy)]
pub struct AddressRange {
    name: ArgumentName,
    start: usize,
    end: usize,
    is_written: bool,
}

impl AddressRange {
    /// Creates the range of an array of `len` doubles, checked as by `check_array`.
    pub fn new(name: impl Into<ArgumentName>, array: *const f64, len: usize, is_written: bool) -> Result<Self> {
        let (name, start) = (name.into(), array as usize);
        check_array(name, array)?;
        Ok(Self { name, start, end: start.saturating_add(len * size_of::<f64>()), is_written })
    }

    /// Returns an error if this range overlaps another.
    pub fn check_no_overlap(&self, other: &Self) -> Result<()> {
        if self.start < other.end && other.start < self.end {
            return Err(Error::Overlap(self.name, other.name));
        }
        Ok(())
    }
}

/// Checks that no written array overlaps another array, in one pass over the ranges in order of their start.
pub fn check_no_overlap(ranges: &mut [AddressRange]) -> Result<()> {
    ranges.sort_unstable_by_key(|range| range.start);
    // Among the ranges so far: the range with the largest end, and the written range with the largest end.
    let (mut furthest, mut furthest_written): (Option<AddressRange>, Option<AddressRange>) = (None, None);
    for range in ranges.iter() {
        let earlier = if range.is_written { furthest } else { furthest_written };
        if let Some(earlier) = earlier.filter(|o| o.end > range.start) {
            return Err(Error::Overlap(earlier.name, range.name));
        }
        for candidate in [Some(&mut furthest), range.is_written.then_some(&mut furthest_written)].into_iter().flatten()
        {
            if candidate.is_none_or(|s| s.end < range.end) {
                *candidate = Some(*range);
            }
        }
    }
    Ok(())
}
