//! The caller's arrays for the boxes of a rank.

use crate::error::{Error, Result, collected, push, zeroed};
use crate::ffi::spaces::{Extent, Primary, Rows, check_apart, check_array, check_on_host, list_of, ordinal_of};
use crate::grid::boxes::GridBox;
use crate::grid::levels::Grid;
use crate::options::Memory;
use crate::solver::boxes::{Given, Taken};

/// For errors.
const BOXES: &str = "boxes of ranks";

/// The caller's arrays for the boxes of this rank.
#[derive(Clone)]
pub struct BoxArrays<T> {
    pub name: &'static str,
    /// One a box.
    pub arrays: Vec<T>,
}

impl BoxArrays<*mut f64> {
    /// The same, to be read.
    pub fn as_read(&self) -> BoxArrays<*const f64> {
        BoxArrays { name: self.name, arrays: self.arrays.iter().map(|array| array.cast_const()).collect() }
    }
}

/// Where arrays of boxes may lie: on the host, or on a device, too, where the system is solved on one.
#[derive(Clone, Copy)]
pub struct Places {
    /// What the caller promised, where devices are among them.
    pub memory: Option<Memory>,
    /// Of the caller, which may still be about to make values on a device.
    pub stream: usize,
}

impl Places {
    /// The device with an array; none: it lies on the host.
    pub fn ordinal_of(&self, name: &'static str, address: usize) -> Result<Option<i32>> {
        self.memory.map_or(Ok(None), |memory| ordinal_of(name, address, memory))
    }
}

/// Where values of the boxes of a rank stand: (ny - 1) * ld + nx of each.
pub fn leading_dimensions(boxes: &[GridBox], given: &[i64]) -> Result<Vec<usize>> {
    let mut found = zeroed(0, BOXES)?;
    for (k, b) in boxes.iter().enumerate() {
        let Grid { nx, ny } = b.extents();
        let ld = given.get(k).copied().unwrap_or(nx as i64);
        if ld < nx as i64 {
            return Err(Error::Argument(format!("leading_dimensions[{k}] must be at least nx = {nx}, got {ld}")));
        }
        let len = (ny as i64 - 1).checked_mul(ld).and_then(|n| n.checked_add(nx as i64));
        if len.is_none_or(|len| len > isize::MAX as i64 / size_of::<f64>() as i64) {
            return Err(Error::Dimension(format!("(ny - 1) * leading_dimensions[{k}] + nx overflows")));
        }
        push(&mut found, ld as usize, BOXES)?;
    }
    Ok(found)
}

/// Values of a box.
fn len(b: &GridBox, ld: usize) -> usize {
    let Grid { nx, ny } = b.extents();
    (ny - 1) * ld + nx
}

/// Checks arrays of boxes: aligned, where they may lie, and what is written apart from all others.
pub fn check(
    boxes: &[GridBox],
    ld: &[usize],
    read: &[BoxArrays<*const f64>],
    written: Option<&BoxArrays<*mut f64>>,
    places: &Places,
) -> Result<()> {
    let read = read.iter().map(|one| (one.name, one.arrays.clone(), false));
    let written = written.map(|one| (one.name, one.arrays.iter().map(|array| array.cast_const()).collect(), true));
    let is_written = written.is_some();
    let mut extents = Vec::new();
    for (name, arrays, is_written) in read.chain(written) {
        for ((&array, b), &ld) in arrays.iter().zip(boxes).zip(ld) {
            match places.memory {
                None => check_on_host(name, array as usize)?,
                Some(_) => drop(places.ordinal_of(name, array as usize)?),
            }
            push(&mut extents, Extent::new(name, array, len(b, ld), is_written)?, BOXES)?;
        }
    }
    if is_written { check_apart(&mut extents) } else { Ok(()) }
}

/// Copies on the host of those arrays of boxes that lie on a device.
#[derive(Default)]
pub struct Staged(Vec<Option<Vec<f64>>>);

impl Staged {
    /// `read`: with the values of the arrays.
    ///
    /// # Safety
    /// The arrays were checked, and hold the values of their boxes.
    pub unsafe fn new(
        boxes: &[GridBox],
        ld: &[usize],
        BoxArrays { name, arrays }: &BoxArrays<*const f64>,
        places: &Places,
        read: bool,
    ) -> Result<Self> {
        let mut staged = Vec::new();
        for ((&array, b), &ld) in arrays.iter().zip(boxes).zip(ld) {
            let Some(ordinal) = places.ordinal_of(name, array as usize)? else {
                push(&mut staged, None, BOXES)?;
                continue;
            };
            let Grid { nx, ny } = b.extents();
            let mut values: Vec<f64> = zeroed(nx * ny, BOXES)?;
            if read {
                let primary = Primary::of(ordinal)?;
                primary.settle(places.stream)?;
                let to = Rows { address: values.as_mut_ptr() as u64, ld: nx };
                // SAFETY: as our caller promised; the copy has nx values in each of ny rows.
                unsafe { primary.copy_rows(to, Rows { address: array as u64, ld }, nx, ny)? };
                primary.wait()?;
            }
            push(&mut staged, Some(values), BOXES)?;
        }
        Ok(Self(staged))
    }

    /// Values back to the arrays.
    ///
    /// # Safety
    /// As for `new`, and nobody else may use them.
    pub unsafe fn write_back(
        &self,
        boxes: &[GridBox],
        ld: &[usize],
        BoxArrays { name, arrays }: &BoxArrays<*mut f64>,
        places: &Places,
    ) -> Result<()> {
        for ((staged, (&array, b)), &ld) in self.0.iter().zip(arrays.iter().zip(boxes)).zip(ld) {
            let Some(values) = staged else { continue };
            let Some(ordinal) = places.ordinal_of(name, array as usize)? else { continue };
            let Grid { nx, ny } = b.extents();
            let from = Rows { address: values.as_ptr() as u64, ld: nx };
            let primary = Primary::of(ordinal)?;
            // SAFETY: as our caller promised; the copy has nx values in each of ny rows.
            unsafe { primary.copy_rows(Rows { address: array as u64, ld }, from, nx, ny)? };
            primary.wait()?;
        }
        Ok(())
    }
}

/// Arrays that are read, after [`check`], as the host has them.
///
/// # Safety
/// They must hold the values of their boxes for as long as they are used.
pub unsafe fn given<'a>(
    boxes: &[GridBox],
    ld: &[usize],
    arrays: &[*const f64],
    staged: &'a Staged,
) -> Result<Vec<Given<'a>>> {
    let of = |(k, ((&array, b), &ld)): (usize, ((&*const f64, &GridBox), &usize))| match staged.0.get(k) {
        Some(Some(values)) => Given { values, ld: b.extents().nx },
        // SAFETY: not NULL and aligned, as was checked, and on the host; of that many values, as our caller promised.
        _ => Given { values: unsafe { std::slice::from_raw_parts(array, len(b, ld)) }, ld },
    };
    collected(arrays.iter().zip(boxes).zip(ld).enumerate().map(of), BOXES)
}

/// Arrays that are written, after [`check`].
///
/// # Safety
/// As for `given`, and nobody else may use them.
pub unsafe fn taken<'a>(
    boxes: &[GridBox],
    ld: &[usize],
    arrays: &[*mut f64],
    staged: &'a mut Staged,
) -> Result<Vec<Taken<'a>>> {
    let mut copies = staged.0.iter_mut();
    let of = |((&array, b), &ld): ((&*mut f64, &GridBox), &usize)| match copies.next() {
        Some(Some(values)) => Taken { values, ld: b.extents().nx },
        // SAFETY: not NULL, aligned and apart from all others, as was checked, and on the host; of that many values.
        _ => Taken { values: unsafe { std::slice::from_raw_parts_mut(array, len(b, ld)) }, ld },
    };
    collected(arrays.iter().zip(boxes).zip(ld).map(of), BOXES)
}

/// The arrays of a list with one for each of `count` boxes.
///
/// # Safety
/// The list must be NULL or hold that many pointers.
pub unsafe fn arrays_of<T: Copy>(name: &'static str, list: *const T, count: usize) -> Result<BoxArrays<T>> {
    if count > 0 {
        check_array(name, list)?;
    }
    // SAFETY: as our caller promised; not NULL where it has any.
    let arrays = unsafe { list_of(name, (count > 0).then_some(list), count)? };
    Ok(BoxArrays { name, arrays: collected(arrays.iter().copied(), BOXES)? })
}
