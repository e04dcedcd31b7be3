//! Arrays of a colour of a grid, shared as `runtime::shared` says.

use crate::error::Result;
use crate::grid::layout::{Colour, Layout};
use crate::runtime::number::Real;
use crate::runtime::shared::{Number, Shared};
use std::ops::Index;

/// The array of one colour of a grid (see [`Layout`]); an absent one has no memory. Here the border between two rows is
/// one block wide, right of the one and left of the other. A clone is the same array under another name.
#[derive(Clone)]
pub struct Area<T = f64> {
    values: Shared<T>,
    stride: usize,
    cx: usize,
    /// 32 bits for both: a grid has hundreds of areas, and is made on the stack.
    block: u32,
    /// The first row that is stored.
    from: u32,
}

impl<T: Number> Area<T> {
    /// Zeros.
    pub fn zeroed(layout: &Layout) -> Result<Self> {
        let stride = layout.cx + layout.block;
        let values = Shared::zeroed((layout.to - layout.from + 2) * stride + layout.block)?;
        Ok(Self { values, stride, block: layout.block as u32, cx: layout.cx, from: layout.from as u32 })
    }

    /// Zeros, or none.
    pub fn made(layout: &Layout, present: bool) -> Result<Self> {
        if present { Self::zeroed(layout) } else { Self::absent() }
    }

    /// None, where a method does not need it.
    pub fn absent() -> Result<Self> {
        Ok(Self { values: Shared::zeroed(0)?, stride: 0, block: 0, cx: 0, from: 0 })
    }

    fn start(&self, row: isize, shift: isize) -> usize {
        let start = (row + 1 - self.from as isize) * self.stride as isize + self.block as isize + shift;
        // Rows -1 and cy and `block` columns on either side are border.
        debug_assert!(start >= 0);
        start as usize
    }

    /// The same array as one of another type: `None` where numbers of it have another size, so that in one number
    /// format arrays are doubles and in another not.
    pub fn of_type<U: Number>(&self) -> Option<Area<U>> {
        let Self { stride, cx, block, from, .. } = *self;
        Some(Area { values: self.values.of_type()?, stride, cx, block, from })
    }

    /// Where the value of (I, J) stands.
    pub fn place(&self, row: usize, column: usize) -> usize {
        self.start(row as isize, column as isize)
    }

    /// The value at a place.
    ///
    /// # Safety
    /// Nobody may write it meanwhile.
    pub unsafe fn at(&self, place: usize) -> T {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(place, 1)[0] }
    }

    /// Writes the value at a place.
    ///
    /// # Safety
    /// Nobody may use it meanwhile.
    pub unsafe fn set(&self, place: usize, value: T) {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(place, 1)[0] = value };
    }

    /// The cx values of row J from I = shift on.
    ///
    /// # Safety
    /// Nobody may write this row while the slice is used.
    pub unsafe fn row(&self, row: usize, shift: isize) -> &[T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.start(row as isize, shift), self.cx) }
    }

    /// The same of row J - 1.
    ///
    /// # Safety
    /// Nobody may write that row while the slice is used.
    pub unsafe fn below(&self, row: usize, shift: isize) -> &[T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.start(row as isize - 1, shift), self.cx) }
    }

    /// The values of row J from I = 0 on, and the one behind them.
    ///
    /// # Safety
    /// Nobody may write this row, and the border that it shares with the next one, while the slice is used.
    pub unsafe fn longer_row(&self, row: usize) -> &[T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.start(row as isize, 0), self.cx + 1) }
    }

    /// The cx values of row J from I = shift on, to write.
    ///
    /// # Safety
    /// Nobody else may read or write this row while the slice is used. With a shift that is not 0 the slice reaches
    /// into a border, which is that of the row before (shift < 0) or after (shift > 0) too: nobody may use that one
    /// either.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint rows")]
    pub unsafe fn row_mut(&self, row: usize, shift: isize) -> &mut [T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.start(row as isize, shift), self.cx) }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }

    /// All zero again, padding and border too.
    ///
    /// # Safety
    /// Nobody may use the values meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: as the caller promised.
        unsafe { self.values.clear() };
    }

    /// Row J with its padding and border `value`, the border row below the first and above the last stored one too;
    /// `to`: the row behind that.
    ///
    /// # Safety
    /// Nobody else may use these rows meanwhile.
    pub unsafe fn fill_row(&self, row: usize, to: usize, value: T) {
        let place = row - self.from as usize;
        let (first, last) = (place + usize::from(place > 0), place + 1 + usize::from(row + 1 == to));
        // What stands right of a row is the border of the next one.
        let behind = if row + 1 == to { self.block as usize } else { 0 };
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(first * self.stride, (last + 1 - first) * self.stride + behind) }.fill(value);
    }
}

impl<R: Real + Number> Area<R> {
    /// Whether nothing but zeros stands on either side of row J.
    ///
    /// # Safety
    /// Nobody may write there meanwhile.
    pub unsafe fn border_is_clear(&self, row: usize) -> bool {
        if self.values.len() == 0 {
            return true;
        }
        let (start, block) = (self.start(row as isize, 0), self.block as usize);
        // SAFETY: as the caller promised.
        let sides = unsafe { [self.values.slice(start - block, block), self.values.slice(start + self.cx, block)] };
        sides.iter().all(|side| side.iter().all(|v| v.wide() == 0.0))
    }
}

/// Four areas, one after the other.
pub fn four<T>(mut next: impl FnMut() -> Result<Area<T>>) -> Result<[Area<T>; 4]> {
    Ok([next()?, next()?, next()?, next()?])
}

/// A value per node, by colour; red areas may be absent.
#[derive(Clone)]
pub struct Four<T = f64> {
    /// Between kept nodes of a row.
    pub r1: Area<T>,
    /// Between kept nodes of a column.
    pub r2: Area<T>,
    /// Eliminated by the even level.
    pub b1: Area<T>,
    /// Kept.
    pub b2: Area<T>,
}

impl<T: Number> Four<T> {
    /// In the order of colours.
    pub fn of(next: impl FnMut() -> Result<Area<T>>) -> Result<Self> {
        let [r1, r2, b1, b2] = four(next)?;
        Ok(Self { r1, r2, b1, b2 })
    }

    /// On all nodes, or on black ones alone.
    pub fn zeroed(layout: &Layout, reds: bool) -> Result<Self> {
        let red = || Area::made(layout, reds);
        Ok(Self { r1: red()?, r2: red()?, b1: Area::zeroed(layout)?, b2: Area::zeroed(layout)? })
    }

    /// On the nodes that a grid eliminates: b1, and reds where they are wanted.
    pub fn eliminated(layout: &Layout, reds: bool) -> Result<Self> {
        let red = || Area::made(layout, reds);
        Ok(Self { r1: red()?, r2: red()?, b1: Area::zeroed(layout)?, b2: Area::absent()? })
    }

    /// None.
    pub fn absent() -> Result<Self> {
        Self::of(Area::absent)
    }

    /// See [`Area::of_type`].
    pub fn of_type<U: Number>(&self) -> Option<Four<U>> {
        let Self { r1, r2, b1, b2 } = self;
        Some(Four { r1: r1.of_type()?, r2: r2.of_type()?, b1: b1.of_type()?, b2: b2.of_type()? })
    }

    /// All zero again, padding and border too.
    ///
    /// # Safety
    /// Nobody may use the values meanwhile.
    pub unsafe fn clear(&self) {
        for area in [&self.r1, &self.r2, &self.b1, &self.b2] {
            // SAFETY: as the caller promised.
            unsafe { area.clear() };
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.r1.bytes() + self.r2.bytes() + self.b1.bytes() + self.b2.bytes()
    }
}

impl<T> Index<Colour> for Four<T> {
    type Output = Area<T>;

    fn index(&self, colour: Colour) -> &Area<T> {
        match colour {
            Colour::R1 => &self.r1,
            Colour::R2 => &self.r2,
            Colour::B1 => &self.b1,
            Colour::B2 => &self.b2,
        }
    }
}
