//! Where arrays of a call may lie, and that those that are written overlap no other; here alone the boundary reaches
//! for memory on devices.

pub use crate::backend::cuda::driver::{HANDLE, Handed, Opened, Plain, Primary, Rows};

use crate::backend::cuda::driver::{Space, device_count, is_open_to_others, space_of};
use crate::error::{Error, Name, Result};
use crate::options::{Devices, Memory};

/// Whether the array at an address lies on a handle's device, of this ordinal, or on one beside it; else it must be on
/// the host, or may not be where it is. The option `memory` says what the caller promised.
pub fn on_device(name: Name, address: usize, device: i64, others: Devices, memory: Memory) -> Result<bool> {
    let several = others.ordinals().nth(1).is_some();
    let own = || if several { format!("devices {others}") } else { format!("device {device}") };
    if memory == Memory::Host {
        return Ok(false);
    }
    match space_of(address)? {
        Space::Device(ordinal) if i64::from(ordinal) == device || others.contains(ordinal.into()) => {
            if several && !is_open_to_others(address) {
                return Err(Error::Unsupported(format!(
                    "{name} is from a memory pool (cudaMallocAsync) or mapped by the program, and other devices \
                     cannot read it: with several devices, use cudaMalloc or host memory"
                )));
            }
            Ok(true)
        }
        // Without a device, the call that makes the core will say so.
        Space::Host if memory == Memory::Auto || device_count() == 0 => Ok(false),
        Space::Host => Err(elsewhere(name, Space::Host, format!("on {} (memory=device)", own()))),
        space => Err(elsewhere(name, space, format!("on {} or on the host", own()))),
    }
}

/// The device on which an array lies, none for one on the host; what the caller promised of it by the option `memory`
/// must be true. For systems that are solved on devices of another process.
pub fn ordinal_of(name: &'static str, address: usize, memory: Memory) -> Result<Option<i32>> {
    if memory == Memory::Host {
        return Ok(None);
    }
    match space_of(address)? {
        Space::Device(ordinal) => Ok(Some(ordinal)),
        Space::Host if memory == Memory::Auto => Ok(None),
        Space::Host => Err(elsewhere(name.into(), Space::Host, "on a device (memory=device)".to_owned())),
    }
}

/// An array that is the host's whatever the option `memory` is.
pub fn check_on_host(name: impl Into<Name>, address: usize) -> Result<()> {
    match space_of(address)? {
        Space::Host => Ok(()),
        space => Err(elsewhere(name.into(), space, "on the host".to_owned())),
    }
}

/// An array that lies elsewhere.
pub fn elsewhere(name: Name, space: Space, allowed: String) -> Error {
    let place = match space {
        Space::Device(ordinal) => format!("an array on device {ordinal}"),
        Space::Host => "an array on the host".to_owned(),
    };
    Error::range(name, place, format!("be {allowed}"))
}

/// An array of values of 8 or 4 bytes: not NULL, and not astray between two values.
pub fn check_array<T>(name: impl Into<Name>, array: *const T) -> Result<()> {
    if array.is_null() {
        return Err(Error::Null(name.into()));
    }
    if array.is_aligned() { Ok(()) } else { Err(Error::Alignment(name.into(), align_of::<T>())) }
}

/// A list of the caller, checked as `check_array` does; empty where there is none.
///
/// # Safety
/// It must be NULL or hold `count` values for as long as the call.
pub unsafe fn list_of<'a, T>(name: &'static str, list: Option<*const T>, count: usize) -> Result<&'a [T]> {
    let Some(list) = list else { return Ok(&[]) };
    check_array(name, list)?;
    // SAFETY: not NULL, aligned, and as our caller promised.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Addresses of one array.
#[derive(Clone, Copy)]
pub struct Extent {
    name: Name,
    start: usize,
    end: usize,
    written: bool,
}

impl Extent {
    /// An array of `len` doubles, which may be written; checked as `check_array` does.
    pub fn new(name: impl Into<Name>, array: *const f64, len: usize, written: bool) -> Result<Self> {
        let (name, start) = (name.into(), array as usize);
        check_array(name, array)?;
        Ok(Self { name, start, end: start.saturating_add(len * size_of::<f64>()), written })
    }

    /// An error where it overlaps another.
    pub fn check_apart(&self, other: &Self) -> Result<()> {
        if self.start < other.end && other.start < self.end {
            return Err(Error::Overlap(self.name, other.name));
        }
        Ok(())
    }
}

/// No array that is written overlaps another. They are sorted by address.
pub fn check_apart(extents: &mut [Extent]) -> Result<()> {
    extents.sort_unstable_by_key(|e| e.start);
    // Of those before, the one that ends last, and the written one that ends last.
    let (mut last, mut last_written): (Option<Extent>, Option<Extent>) = (None, None);
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
