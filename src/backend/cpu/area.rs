//! Arrays that the members of a team share. Members write rows of their own and read rows that nobody writes
//! between two barriers; the borrow checker cannot see this, so access is unsafe and every step says why it
//! is right.

use crate::error::{Error, Result};
use crate::grid::layout::{Colour, Layout};
use std::ops::Index;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One cache line of values.
#[repr(align(64))]
#[derive(Clone, Copy, Default)]
#[expect(dead_code, reason = "read through a pointer to its first value")]
struct Line([f64; 8]);

/// Cache lines of a page: sets of a first-level cache way on most machines.
const SETS: usize = 64;

/// Values shared by a team, on cache line boundaries, zero at first.
pub struct Shared {
    lines: Vec<Line>,
    data: *mut f64,
    len: usize,
}

// SAFETY: the values are plain numbers; who may touch which of them when is the contract of the unsafe
// functions below.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Result<Self> {
        // Arrays begin in different cache sets: stages read the same row of some twenty of them at once, and large
        // blocks of memory all begin at the same place of a page.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let skip = if len > SETS * 8 { MADE.fetch_add(1, Ordering::Relaxed) * 11 % SETS } else { 0 };
        let mut lines = Vec::new();
        let count = len.div_ceil(8) + skip;
        lines
            .try_reserve_exact(count)
            .map_err(|_| Error::Memory(format!("no memory for {} bytes of the solver's arrays", 64 * count as u128)))?;
        lines.resize(count, Line::default());
        let data = lines[skip..].as_mut_ptr().cast();
        Ok(Self { lines, data, len })
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes, without the lines skipped.
    pub fn bytes(&self) -> usize {
        64 * self.len.div_ceil(8)
    }

    /// All zero again.
    pub fn clear(&mut self) {
        self.lines.fill(Line::default());
    }

    /// Values start .. start + len.
    ///
    /// # Safety
    /// Nobody may write these values while the slice is used.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &[f64] {
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not written meanwhile, as the caller promised.
        unsafe { std::slice::from_raw_parts(self.data.add(start), len) }
    }

    /// Values start .. start + len, to write.
    ///
    /// # Safety
    /// Nobody else may read or write these values while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by members that write disjoint parts")]
    pub unsafe fn slice_mut(&self, start: usize, len: usize) -> &mut [f64] {
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), len) }
    }
}

/// The array of one colour of a grid (see [`Layout`]); an absent one has no memory.
pub struct Area {
    values: Shared,
    stride: usize,
    block: usize,
    cx: usize,
}

impl Area {
    /// Zeros.
    pub fn zeroed(layout: &Layout) -> Result<Self> {
        Ok(Self { values: Shared::zeroed(layout.len())?, stride: layout.stride(), block: layout.block, cx: layout.cx })
    }

    /// None, where a method does not need it.
    pub fn absent() -> Result<Self> {
        Ok(Self { values: Shared::zeroed(0)?, stride: 0, block: 0, cx: 0 })
    }

    fn start(&self, row: isize, shift: isize) -> usize {
        let start = (row + 1) * self.stride as isize + self.block as isize + shift;
        // Rows -1 and cy and `block` columns on either side are border.
        debug_assert!(start >= 0);
        start as usize
    }

    /// The cx values of row J from I = shift on.
    ///
    /// # Safety
    /// Nobody may write this row while the slice is used.
    pub unsafe fn row(&self, row: usize, shift: isize) -> &[f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.start(row as isize, shift), self.cx) }
    }

    /// The same of row J - 1.
    ///
    /// # Safety
    /// Nobody may write that row while the slice is used.
    pub unsafe fn below(&self, row: usize, shift: isize) -> &[f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.start(row as isize - 1, shift), self.cx) }
    }

    /// The cx values of row J from I = shift on, to write.
    ///
    /// # Safety
    /// Nobody else may read or write this row while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by members that write disjoint rows")]
    pub unsafe fn row_mut(&self, row: usize, shift: isize) -> &mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.start(row as isize, shift), self.cx) }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }

    /// All zero again, padding and border too.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

/// A value per node, by colour; red areas may be absent.
pub struct Four {
    /// Between kept nodes of a row.
    pub r1: Area,
    /// Between kept nodes of a column.
    pub r2: Area,
    /// Eliminated by the even level.
    pub b1: Area,
    /// Kept.
    pub b2: Area,
}

impl Four {
    /// On all nodes, or on black ones alone.
    pub fn zeroed(layout: &Layout, reds: bool) -> Result<Self> {
        let red = || if reds { Area::zeroed(layout) } else { Area::absent() };
        Ok(Self { r1: red()?, r2: red()?, b1: Area::zeroed(layout)?, b2: Area::zeroed(layout)? })
    }

    /// All zero again, padding and border too.
    pub fn clear(&mut self) {
        for area in [&mut self.r1, &mut self.r2, &mut self.b1, &mut self.b2] {
            area.clear();
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.r1.bytes() + self.r2.bytes() + self.b1.bytes() + self.b2.bytes()
    }
}

impl Index<Colour> for Four {
    type Output = Area;

    fn index(&self, colour: Colour) -> &Area {
        match colour {
            Colour::R1 => &self.r1,
            Colour::R2 => &self.r2,
            Colour::B1 => &self.b1,
            Colour::B2 => &self.b2,
        }
    }
}
