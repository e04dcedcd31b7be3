//! A matrix in a storage format: its products, each by its own arrays, and these arrays for a caller.

use super::index::Index;
use std::ops::Range;

/// A matrix in a format.
pub trait Stored: Send + Sync {
    /// How several threads make y = A x, or A' x.
    fn by(&self, transposed: bool) -> By<'_>;
    /// The same with one thread.
    fn multiply_by(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        match self.by(transposed) {
            By::Rows(a) => a.multiply_rows(0..y.len(), x, y),
            By::Parts(a) => {
                y.fill(0.0);
                a.add_transposed(0..x.len(), x, 0, y);
            }
            By::One(a, transposed) => a.multiply_whole(transposed, x, y),
        }
    }
    /// y = A x.
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        self.multiply_by(false, x, y);
    }
    /// Its arrays, as docs/theory/sparse.md lists them; `to` has the lengths of the format's [`Size`].
    fn write(&self, to: &mut Arrays);
}

/// How several threads make a product.
#[derive(Clone, Copy)]
pub enum By<'a> {
    /// Each some of the values of y.
    Rows(&'a dyn ByRows),
    /// Each of some of the values of x.
    Parts(&'a dyn ByParts),
    /// One of them does it: A x, or A' x.
    One(&'a dyn ByOne, bool),
}

/// Products by one thread alone.
pub trait ByOne: Sync {
    /// y = A x, or A' x.
    fn multiply_whole(&self, transposed: bool, x: &[f64], y: &mut [f64]);
}

/// Computes y = A x, or A' x, from the entries (row, column, value) in their order.
pub fn products_of(entries: impl Iterator<Item = (usize, usize, f64)>, transposed: bool, x: &[f64], y: &mut [f64]) {
    y.fill(0.0);
    if transposed {
        entries.for_each(|(i, j, a)| y[j] += a * x[i]);
    } else {
        entries.for_each(|(i, j, a)| y[i] += a * x[j]);
    }
}

/// Products of some of the rows, for several threads.
pub trait ByRows: Sync {
    /// Rows between two places where the product may be cut.
    fn grain(&self) -> usize {
        1
    }
    /// y = these rows of A x. They begin at a multiple of `grain`, and end at one or with the matrix.
    /// A row has the same bits whatever rows are asked for.
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]);
}

/// Products with A' of some of the rows of A, for several threads.
pub trait ByParts: Sync {
    /// Rows between two places where they may be cut.
    fn grain(&self) -> usize {
        1
    }
    /// Columns from the first to the last with an entry in these rows, or more.
    fn columns(&self, rows: Range<usize>) -> Range<usize>;
    /// y = y + A' x of these rows, cut as those of [`ByRows`]: x has their values alone, y those of their columns,
    /// from `first` on.
    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first: usize, y: &mut [f64]);
}

/// The least range with all of these places.
pub fn span<I: Index>(places: &[I]) -> Range<usize> {
    let Some(first) = places.first() else { return 0..0 };
    let ends = |(least, most): (I, I), &place: &I| (least.min(place), most.max(place));
    let (least, most) = places.iter().fold((*first, *first), ends);
    least.at()..most.at() + 1
}

/// The least range with all of these.
pub fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let join = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
    ranges.filter(|range| !range.is_empty()).reduce(join).unwrap_or(0..0)
}

/// Arrays of a caller that are written.
pub struct Arrays<'a> {
    pub i0: Places<'a>,
    pub i1: Places<'a>,
    pub i2: Places<'a>,
    pub values: &'a mut [f64],
}

/// An array of places.
pub struct Places<'a>(pub &'a mut [i64]);

impl Places<'_> {
    pub fn put(&mut self, places: impl IntoIterator<Item = usize>) {
        self.put_signed(places.into_iter().map(|place| place as i64));
    }

    pub fn put_signed(&mut self, places: impl IntoIterator<Item = i64>) {
        self.0.iter_mut().zip(places).for_each(|(to, place)| *to = place);
    }
}

/// Arrays of a caller that are read, with the lengths that the caller says.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub i0: &'a [i64],
    pub i1: &'a [i64],
    pub i2: &'a [i64],
    pub values: &'a [f64],
}

/// What the arrays of a format take. Wide numbers: padding can pass every limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// Lengths of the arrays of places, and bytes of each place inside.
    pub places: [(u128, u128); 3],
    /// Values, padding included.
    pub values: u128,
    /// Values and bytes of rows that are kept apart.
    pub apart: (u128, u128),
}

impl Size {
    /// From arrays of places, in order, and values.
    pub fn new<const N: usize>(places: [(usize, usize); N], values: u128) -> Self {
        let mut size = Self { values, ..Self::default() };
        for (to, (len, width)) in size.places.iter_mut().zip(places) {
            *to = (len as u128, width as u128);
        }
        size
    }

    pub fn lengths(&self) -> [u128; 4] {
        let [i0, i1, i2] = self.places.map(|(len, _)| len);
        [i0, i1, i2, self.values]
    }

    /// Values, padding included.
    pub fn stored(&self) -> u128 {
        self.values + self.apart.0
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u128 {
        self.places.iter().map(|(len, width)| len * width).sum::<u128>() + 8 * self.values + self.apart.1
    }
}

/// Bytes of a pointer or an offset.
pub const POINTER: usize = size_of::<usize>();
