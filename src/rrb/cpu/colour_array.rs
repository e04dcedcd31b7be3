//! Arrays that contain the values of one colour of a grid. Threads share them under the rules of `base::shared`.

use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::error::Result;
use crate::rrb::layout::{Colour, Layout};
use std::ops::Index;

/// Array of one colour of a grid (see [`Layout`]); an absent array has no memory. Between two rows is a border of
/// `border_width` values, which is the right border of one row and the left border of the next row. A clone refers to
/// the same memory.
///
/// Most fields have 32 bits, because a grid has hundreds of arrays and is built on the stack.
#[derive(Clone)]
pub struct ColourArray<T = f64> {
    values: Shared<T>,
    stride: u32,
    cx: u32,
    /// Border width in values.
    border_width: u32,
    /// Bits of J that select the stored row: all bits, or the low bits for a ring of rows (see
    /// [`ColourArray::as_row_ring`]).
    row_mask: i32,
    /// Index in `values` of entry (0, J) for every J with J & `row_mask` = 0.
    origin: isize,
}

/// Number of rows in a ring, a power of two. At least three rows are needed: after a factorization has computed the red
/// pivots of row J, the next formulas read rows J - 2 to J.
pub const RING_ROWS: usize = 4;

impl<T: Number> ColourArray<T> {
    /// Allocates an array of zeros.
    pub fn zeroed(layout: &Layout) -> Result<Self> {
        let (stride, border_width) = (layout.cx + layout.compute_block, layout.compute_block);
        let values = Shared::zeroed((layout.end_row - layout.first_row + 2) * stride + border_width)?;
        let origin = (1 - layout.first_row as isize) * stride as isize + border_width as isize;
        let [stride, border_width, cx] = [stride, border_width, layout.cx].map(|n| n as u32);
        Ok(Self { values, stride, cx, border_width, row_mask: -1, origin })
    }

    /// Allocates an array of zeros if `is_present`; otherwise returns an absent array.
    pub fn zeroed_if(layout: &Layout, is_present: bool) -> Result<Self> {
        if is_present { Self::zeroed(layout) } else { Self::absent() }
    }

    /// Returns an array without memory. It replaces an array that the current options do not need.
    pub fn absent() -> Result<Self> {
        Ok(Self { values: Shared::zeroed(0)?, stride: 0, cx: 0, border_width: 0, row_mask: -1, origin: 0 })
    }

    /// Returns an array in which row J uses the memory of row `first_row` + J mod [`RING_ROWS`] of this array. Of all
    /// rows, the array therefore holds only the [`RING_ROWS`] rows that were written last, and these rows stay in
    /// cache.
    pub fn as_row_ring(&self, first_row: usize) -> Self {
        let origin = self.start_index(first_row as isize, 0) as isize;
        Self { row_mask: RING_ROWS as i32 - 1, origin, ..self.clone() }
    }

    #[inline(always)]
    fn start_index(&self, row: isize, shift: isize) -> usize {
        let start = (row & self.row_mask as isize) * self.stride as isize + self.origin + shift;
        // The border consists of the rows -1 and cy and of `border_width` columns on either side.
        debug_assert!(start >= 0);
        start as usize
    }

    /// Returns the same memory with another number type, or `None` if the sizes of the types differ. Generic code uses
    /// this function to test whether the arrays of a storage format are doubles.
    pub fn of_type<U: Number>(&self) -> Option<ColourArray<U>> {
        let Self { stride, cx, border_width, row_mask, origin, .. } = *self;
        Some(ColourArray { values: self.values.of_type()?, stride, cx, border_width, row_mask, origin })
    }

    /// Returns the index of the value (I, J) in the array.
    pub fn index_of(&self, row: usize, column: usize) -> usize {
        self.start_index(row as isize, column as isize)
    }

    /// Returns the value at the index that [`ColourArray::index_of`] returns.
    ///
    /// # Safety
    /// No thread may write this value meanwhile.
    pub unsafe fn get(&self, index: usize) -> T {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice(index, 1)[0] }
    }

    /// Writes the value at the index that [`ColourArray::index_of`] returns.
    ///
    /// # Safety
    /// No other thread may use this value meanwhile.
    pub unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice_mut(index, 1)[0] = value };
    }

    /// Returns the cx values of row J from column I = shift on.
    ///
    /// # Safety
    /// No thread may write this row while the slice is used.
    #[inline(always)]
    pub unsafe fn row(&self, row: usize, shift: isize) -> &[T] {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice(self.start_index(row as isize, shift), self.cx as usize) }
    }

    /// Returns the cx values of row J - 1 from column I = shift on.
    ///
    /// # Safety
    /// No thread may write row J - 1 while the slice is used.
    #[inline(always)]
    pub unsafe fn row_below(&self, row: usize, shift: isize) -> &[T] {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice(self.start_index(row as isize - 1, shift), self.cx as usize) }
    }

    /// Returns the first cx + 1 values of row J: the compute area and one value of the right border.
    ///
    /// # Safety
    /// No thread may write this row or the border to its right while the slice is used.
    pub unsafe fn row_with_border(&self, row: usize) -> &[T] {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice(self.start_index(row as isize, 0), self.cx as usize + 1) }
    }

    /// Returns the cx values of row J from column I = shift on, for writing.
    ///
    /// # Safety
    /// No other thread may read or write this row while the slice is used. With a nonzero shift, the slice reaches into
    /// a border, which also belongs to the previous row (shift < 0) or to the next row (shift > 0). No other thread may
    /// use this border either.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint rows")]
    pub unsafe fn row_mut(&self, row: usize, shift: isize) -> &mut [T] {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice_mut(self.start_index(row as isize, shift), self.cx as usize) }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }

    /// Sets all values to zero, including padding and border.
    ///
    /// # Safety
    /// No thread may use the values meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.clear() };
    }

    /// Sets row J to `value`, including padding and border. If J is the first stored row, also sets the border row
    /// below row J. If J is the last stored row, `end_row` - 1, also sets the border row above row J.
    ///
    /// # Safety
    /// No other thread may use these rows meanwhile.
    pub unsafe fn fill_row(&self, row: usize, end_row: usize, value: T) {
        let (stride, row_start) = (self.stride as usize, self.start_index(row as isize, -(self.border_width as isize)));
        let fill_start = if row_start == stride { 0 } else { row_start };
        // The right border of a row is filled as the left border of the next row; the last row fills both.
        let fill_end = row_start + if row + 1 == end_row { 2 * stride + self.border_width as usize } else { stride };
        // SAFETY: by the safety contract of this function.
        unsafe { self.values.slice_mut(fill_start, fill_end - fill_start) }.fill(value);
    }
}

impl<R: Real + Number> ColourArray<R> {
    /// Returns whether the left and the right border of row J contain only zeros.
    ///
    /// # Safety
    /// No thread may write this border meanwhile.
    pub unsafe fn border_is_clear(&self, row: usize) -> bool {
        if self.values.len() == 0 {
            return true;
        }
        let (start, border_width) = (self.start_index(row as isize, 0), self.border_width as usize);
        // SAFETY: by the safety contract of this function.
        let borders = unsafe {
            [
                self.values.slice(start - border_width, border_width),
                self.values.slice(start + self.cx as usize, border_width),
            ]
        };
        borders.iter().all(|border| border.iter().all(|v| v.to_f64() == 0.0))
    }
}

/// Calls `make_array` four times, and returns the four arrays in the order of the calls.
pub fn four_arrays<T>(mut make_array: impl FnMut() -> Result<ColourArray<T>>) -> Result<[ColourArray<T>; 4]> {
    Ok([make_array()?, make_array()?, make_array()?, make_array()?])
}

/// One value per node, in one array per colour. Arrays may be absent.
#[derive(Clone)]
pub struct FourColours<T = f64> {
    /// Red, between two kept nodes of a row.
    pub r1: ColourArray<T>,
    /// Red, between two kept nodes of a column.
    pub r2: ColourArray<T>,
    /// Black, eliminated by the even level.
    pub b1: ColourArray<T>,
    /// Black, kept: the nodes of the next grid.
    pub b2: ColourArray<T>,
}

impl<T: Number> FourColours<T> {
    /// Calls `make_array` once per colour, in the order r1, r2, b1, b2.
    pub fn of(make_array: impl FnMut() -> Result<ColourArray<T>>) -> Result<Self> {
        let [r1, r2, b1, b2] = four_arrays(make_array)?;
        Ok(Self { r1, r2, b1, b2 })
    }

    /// Allocates zeros on the black nodes and, if `has_reds` is set, on the red nodes.
    pub fn zeroed(layout: &Layout, has_reds: bool) -> Result<Self> {
        let new_red_array = || ColourArray::zeroed_if(layout, has_reds);
        Ok(Self {
            r1: new_red_array()?,
            r2: new_red_array()?,
            b1: ColourArray::zeroed(layout)?,
            b2: ColourArray::zeroed(layout)?,
        })
    }

    /// Allocates zeros on the nodes that are eliminated on a grid: b1, and the red nodes if `has_reds` is set.
    pub fn zeroed_eliminated(layout: &Layout, has_reds: bool) -> Result<Self> {
        let new_red_array = || ColourArray::zeroed_if(layout, has_reds);
        Ok(Self {
            r1: new_red_array()?,
            r2: new_red_array()?,
            b1: ColourArray::zeroed(layout)?,
            b2: ColourArray::absent()?,
        })
    }

    /// Returns four arrays without memory.
    pub fn absent() -> Result<Self> {
        Self::of(ColourArray::absent)
    }

    /// See [`ColourArray::of_type`].
    pub fn of_type<U: Number>(&self) -> Option<FourColours<U>> {
        let Self { r1, r2, b1, b2 } = self;
        Some(FourColours { r1: r1.of_type()?, r2: r2.of_type()?, b1: b1.of_type()?, b2: b2.of_type()? })
    }

    /// See [`ColourArray::as_row_ring`].
    pub fn as_row_ring(&self, first_row: usize) -> Self {
        let [r1, r2, b1, b2] = [&self.r1, &self.r2, &self.b1, &self.b2].map(|array| array.as_row_ring(first_row));
        Self { r1, r2, b1, b2 }
    }

    /// Sets all values to zero, including padding and border.
    ///
    /// # Safety
    /// No thread may use the values meanwhile.
    pub unsafe fn clear(&self) {
        for array in [&self.r1, &self.r2, &self.b1, &self.b2] {
            // SAFETY: by the safety contract of this function.
            unsafe { array.clear() };
        }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.r1.bytes() + self.r2.bytes() + self.b1.bytes() + self.b2.bytes()
    }
}

impl<T> Index<Colour> for FourColours<T> {
    type Output = ColourArray<T>;

    fn index(&self, colour: Colour) -> &ColourArray<T> {
        match colour {
            Colour::R1 => &self.r1,
            Colour::R2 => &self.r2,
            Colour::B1 => &self.b1,
            Colour::B2 => &self.b2,
        }
    }
}
