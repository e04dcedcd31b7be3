//! Conversion of the caller's arrays to slices.

use crate::abi::spaces::{caller_list, check_array, check_on_host};
use crate::base::index::Indices;
use crate::error::{Error, Result};
use libc::c_void;

/// Exclusive upper bound of array lengths, since larger arrays of 8-byte values are not addressable.
const MAX_LEN: i64 = isize::MAX as i64 / 8;

/// Checks a length that the caller passes.
pub fn check_count(name: &'static str, value: i64) -> Result<usize> {
    if !(0..MAX_LEN).contains(&value) {
        return Err(Error::Dimension(format!("{name} must be at least 0 and below 2^60, got {value}")));
    }
    Ok(value as usize)
}

/// Returns an input array as a slice. NULL is allowed for `count` = 0.
///
/// # Safety
/// The array must be NULL or hold `count` values for the duration of the call.
pub unsafe fn input_slice<'a, T>(name: &'static str, array: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(name, array)?;
    check_on_host(name, array as usize)?;
    // SAFETY: guaranteed by the caller.
    unsafe { caller_list(name, Some(array), count) }
}

/// Returns an output array as a slice. NULL is allowed for `count` = 0.
///
/// # Safety
/// As for `input_slice`, and no other thread or slice may use the array at the same time.
pub unsafe fn output_slice<'a, T>(name: &'static str, array: *mut T, count: usize) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(name, array)?;
    check_on_host(name, array as usize)?;
    // SAFETY: not NULL, aligned and on the host, as checked; the caller guarantees the length.
    Ok(unsafe { std::slice::from_raw_parts_mut(array, count) })
}

/// Returns an input array of indices. `index_bytes` must be 4 or 8.
///
/// If an array of 8-byte indices is misaligned, it probably contains 4-byte indices; the error message suggests this.
///
/// # Safety
/// As for `input_slice`.
pub unsafe fn index_slice<'a>(
    name: &'static str,
    array: *const c_void,
    count: usize,
    index_bytes: i32,
) -> Result<Indices<'a>> {
    // SAFETY: guaranteed by the caller.
    Ok(unsafe {
        match index_bytes {
            4 => Indices::Int32(input_slice(name, array.cast(), count)?),
            8 => Indices::Int64(input_slice(name, array.cast(), count).map_err(|error| match error {
                Error::Alignment(..) => {
                    Error::Argument(format!("{error}; if its integers have 4 bytes, index_bytes is 4"))
                }
                other => other,
            })?),
            other => return Err(Error::range("index_bytes", other, "be 4 or 8")),
        }
    })
}
