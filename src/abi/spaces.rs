//! Memory spaces of the arrays of a call, and the check that written arrays overlap no other array. Among
//! the entry points, only this module uses device memory functions of the CUDA driver.

pub use crate::cuda::driver::{ExportableMemory, ExportedMemory, HANDLE_BYTES, ImportedMemory, PrimaryContext, Rows};

use crate::cuda::driver::{Space, device_count, is_peer_accessible, space_of};
use crate::error::{Error, Name, Result};
use crate::options::{Devices, Memory};

/// Returns true if an array resides on the handle's device `device` or on one of the devices `others`, and false if it
/// resides in host memory. With `memory=host`, returns false without a query of the driver.
///
/// The option `memory` states which memory spaces are allowed. An array in another memory space is an error. With
/// several devices, an array that not all of them can read is also an error.
pub fn on_device(name: Name, address: usize, device: i64, others: Devices, memory: Memory) -> Result<bool> {
    let several = others.ordinals().nth(1).is_some();
    let own = || if several { format!("devices {others}") } else { format!("device {device}") };
    if memory == Memory::Host {
        return Ok(false);
    }
    match space_of(address)? {
        Space::Device(ordinal) if i64::from(ordinal) == device || others.contains(ordinal.into()) => {
            if several && !is_peer_accessible(address) {
                return Err(Error::Unsupported(format!(
                    "{name} is from a memory pool (cudaMallocAsync) or mapped by the program, and other devices \
                     cannot read it: with several devices, use cudaMalloc or host memory"
                )));
            }
            Ok(true)
        }
        // Without a device, the call that creates the core reports the error.
        Space::Host if memory == Memory::Auto || device_count() == 0 => Ok(false),
        Space::Host => Err(wrong_space(name, Space::Host, format!("on {} (memory=device)", own()))),
        space => Err(wrong_space(name, space, format!("on {} or on the host", own()))),
    }
}

/// Returns the ordinal of the device that stores an array, or `None` for an array in host memory. If `memory=host` is
/// set, returns `None` without a query of the driver. If `memory=device` is set, an array in host memory is an error.
/// Used for systems that another process solves on devices.
pub fn ordinal_of(name: &'static str, address: usize, memory: Memory) -> Result<Option<i32>> {
    if memory == Memory::Host {
        return Ok(None);
    }
    match space_of(address)? {
        Space::Device(ordinal) => Ok(Some(ordinal)),
        Space::Host if memory == Memory::Auto => Ok(None),
        Space::Host => Err(wrong_space(name.into(), Space::Host, "on a device (memory=device)".to_owned())),
    }
}

/// Checks that an array is in host memory. Used for arrays to which the option `memory` does not apply.
pub fn check_on_host(name: impl Into<Name>, address: usize) -> Result<()> {
    match space_of(address)? {
        Space::Host => Ok(()),
        space => Err(wrong_space(name.into(), space, "on the host".to_owned())),
    }
}

/// Creates the error for an array in a memory space that is not allowed.
pub fn wrong_space(name: Name, space: Space, allowed: String) -> Error {
    let place = match space {
        Space::Device(ordinal) => format!("an array on device {ordinal}"),
        Space::Host => "an array on the host".to_owned(),
    };
    Error::range(name, place, format!("be {allowed}"))
}

/// Checks that an array is not NULL and is aligned.
pub fn check_array<T>(name: impl Into<Name>, array: *const T) -> Result<()> {
    if array.is_null() {
        return Err(Error::Null(name.into()));
    }
    if array.is_aligned() { Ok(()) } else { Err(Error::Alignment(name.into(), align_of::<T>())) }
}

/// Returns a list of the caller after `check_array`, or an empty list for `None`.
///
/// # Safety
/// The list must be NULL or hold `count` values for the duration of the call.
pub unsafe fn list_of<'a, T>(name: &'static str, list: Option<*const T>, count: usize) -> Result<&'a [T]> {
    let Some(list) = list else { return Ok(&[]) };
    check_array(name, list)?;
    // SAFETY: not NULL and aligned, as checked; the caller guarantees the length.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Address range of an array.
#[derive(Clone, Copy)]
pub struct AddressRange {
    name: Name,
    start: usize,
    end: usize,
    written: bool,
}

impl AddressRange {
    /// Creates the range of an array of `len` doubles, checked as by `check_array`.
    pub fn new(name: impl Into<Name>, array: *const f64, len: usize, written: bool) -> Result<Self> {
        let (name, start) = (name.into(), array as usize);
        check_array(name, array)?;
        Ok(Self { name, start, end: start.saturating_add(len * size_of::<f64>()), written })
    }

    /// Returns an error if this range overlaps another.
    pub fn check_apart(&self, other: &Self) -> Result<()> {
        if self.start < other.end && other.start < self.end {
            return Err(Error::Overlap(self.name, other.name));
        }
        Ok(())
    }
}

/// Checks that no written array overlaps another array, in one pass over the ranges in order of their start.
pub fn check_apart(extents: &mut [AddressRange]) -> Result<()> {
    extents.sort_unstable_by_key(|e| e.start);
    // The range with the largest end so far, and the written range with the largest end so far.
    let (mut last, mut last_written): (Option<AddressRange>, Option<AddressRange>) = (None, None);
    for e in extents.iter() {
        let other = if e.written { last } else { last_written };
        if let Some(other) = other.filter(|o| o.end > e.start) {
            return Err(Error::Overlap(other.name, e.name));
        }
        for slot in [Some(&mut last), e.written.then_some(&mut last_written)].into_iter().flatten() {
            if slot.is_none_or(|s| s.end < e.end) {
                *slot = Some(*e);
            }
        }
    }
    Ok(())
}
