//! Couplings and row sums of the matrix on which CG runs, as input of aggregation (docs/theory/aggregation.md, section
//! "Hierarchy"). The matrix is A, or S1 of a 5-point matrix. For S1, each red node r adds nonnegative terms for its
//! black neighbours p, q:
//!
//! ```text
//!     a_pq <- a_pq + a_rp a_rq / d_r,    e_p <- e_p + a_rp e_r / d_r
//! ```
//!
//! Here a_pq > 0 is the magnitude of a coupling, e_p a row sum, and d_r a center. Sums of nonnegative terms lose no
//! digits by cancellation, so small row sums stay accurate.

use super::neighbours::{EAST, NORTH, NORTHEAST, NORTHWEST, SOUTH, SOUTHEAST, SOUTHWEST, WEST};
use super::system::Matrix;
use crate::base::workers::{Workers, cut};
use crate::direct::couplings::{Couplings, WHAT};
use crate::error::{Result, zeroed};
use crate::rrb::cpu::conversion::{collect, colours_of_row, join};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Border of a row on either side, in values: S1 couples nodes at distance two.
const PAD: usize = 2;
/// Index of the first diagonal coupling in [`Row::a`]. The straight couplings precede it.
const DIAGONAL: usize = 4;
/// Bytes per node of A with 9 points: one center and four couplings, each stored once.
const BYTES: usize = 40;

/// Numbering of the unknowns of CG by rows of the grid: all nodes, or the black nodes.
#[derive(Clone, Copy)]
pub struct Numbers {
    grid: Grid,
    /// Distance between consecutive unknowns in a row: 1 or 2 columns.
    spacing: usize,
    /// First column with an unknown in row 0.
    first: usize,
}

impl Numbers {
    pub fn new(grid: Grid, schur: bool) -> Self {
        let (spacing, first) =
            if schur { (2, (grid.kept_column_parity() + grid.kept_row_parity()) % 2) } else { (1, 0) };
        Self { grid, spacing, first }
    }

    /// Returns the first column with an unknown in row j.
    fn start(&self, j: usize) -> usize {
        (j + self.first) % self.spacing
    }

    /// Returns the columns with unknowns in row j.
    pub fn columns(&self, j: usize) -> impl Iterator<Item = usize> + use<> {
        (self.start(j)..self.grid.nx).step_by(self.spacing)
    }

    /// Returns the number of unknowns before row j.
    fn before(&self, j: usize) -> usize {
        let of_row = |j: usize| (self.grid.nx + self.spacing - 1 - self.start(j)) / self.spacing;
        j / 2 * (of_row(0) + of_row(1)) + j % 2 * of_row(0)
    }

    /// Returns the index of the unknown at node (i, j).
    fn of(&self, i: usize, j: usize) -> usize {
        self.before(j) + i / self.spacing
    }

    /// Returns one of four colours for each unknown; unknowns of one colour are not coupled.
    pub fn colours(&self) -> impl Iterator<Item = u32> + use<> {
        let all = *self;
        let of = move |(i, j): (usize, usize)| match all.spacing {
            1 => 2 * (j % 2) + i % 2,
            _ => 2 * (j % 2) + (i + j).div_ceil(2) % 2,
        };
        self.nodes().map(move |node| of(node) as u32)
    }

    /// Returns the nodes (i, j) of all unknowns in the order of their indices.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let all = *self;
        (0..self.grid.ny).flat_map(move |j| all.columns(j).map(move |i| (i, j)))
    }
}

/// One grid row of A, multiplied by `scale`. Column i has index i + `PAD`; the border is zero.
struct Row {
    /// Magnitudes -a_ij to the west, east, south and north. With 9 points, the magnitudes to the southwest, southeast,
    /// northwest and northeast follow.
    a: Vec<Vec<f64>>,
    row_sum: Vec<f64>,
    /// 1 / (`scale` c) of each node, where c is the center.
    inverse: Vec<f64>,
}

impl Row {
    fn zeroed(nx: usize, couplings: usize) -> Result<Self> {
        let row = || zeroed(nx + 2 * PAD, WHAT);
        let a = (0..couplings).map(|_| row()).collect::<Result<_>>()?;
        Ok(Self { a, row_sum: row()?, inverse: row()? })
    }
}

/// The matrix A, and the parameters for its conversion to couplings and row sums.
pub struct Source<'a> {
    pub matrix: &'a Matrix,
    pub layout: &'a Layout,
    /// Whether CG runs on S1.
    pub schur: bool,
    /// A row sum of at most this fraction of the center is set to zero.
    pub zero_row_sum: f64,
    /// Power of two by which couplings and row sums are multiplied.
    pub scale: f64,
}

impl Source<'_> {
    /// Returns the couplings and row sums of the matrix on which CG runs.
    ///
    /// # Safety
    /// No thread may write A meanwhile.
    pub unsafe fn couplings(&self, workers: &mut Workers) -> Result<Couplings> {
        let grid = self.layout.grid;
        let pieces = cut(grid.ny, workers.pieces(BYTES * grid.nodes()).min(grid.ny));
        Couplings::in_pieces(pieces, workers, |rows| {
            // SAFETY: by the safety contract of this function.
            unsafe { self.rows(rows) }
        })
    }

    /// Returns the couplings and row sums of the unknowns in some rows of the grid.
    ///
    /// # Safety
    /// As for `couplings`.
    unsafe fn rows(&self, rows: Range<usize>) -> Result<Couplings> {
        let numbers = Numbers::new(self.layout.grid, self.schur);
        let count = numbers.before(rows.end) - numbers.before(rows.start);
        let mut c = Couplings::with_capacity(count, 8 * count)?;
        let row = || Row::zeroed(self.layout.grid.nx, if self.matrix.nine_points { 2 * DIAGONAL } else { DIAGONAL });
        let (mut south, mut own, mut north) = (row()?, row()?, row()?);
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.read(rows.start.checked_sub(1), &mut own);
            self.read(Some(rows.start), &mut north);
        }
        for j in rows {
            std::mem::swap(&mut south, &mut own);
            std::mem::swap(&mut own, &mut north);
            // SAFETY: by the safety contract of this function.
            unsafe { self.read(Some(j + 1), &mut north) };
            match self.schur {
                true => add_schur_row(&mut c, numbers, j, [&south, &own, &north]),
                false => add_row(&mut c, numbers, j, &own),
            }
        }
        Ok(c)
    }

    /// Reads natural row j into `row`. Sets `row` to zero if j is `None` or beyond the last row of the grid.
    ///
    /// # Safety
    /// As for `couplings`.
    unsafe fn read(&self, j: Option<usize>, row: &mut Row) {
        let Row { a, row_sum, inverse } = row;
        let nx = self.layout.grid.nx;
        let Some(j) = j.filter(|&j| j < self.layout.grid.ny) else {
            a.iter_mut().chain([row_sum, inverse]).for_each(|values| values.fill(0.0));
            return;
        };
        let row = (j + self.layout.shift_y) / 2;
        let (even, odd) = colours_of_row(self.layout, j);
        // SAFETY: by the safety contract of this function.
        let (straight, diagonal) = unsafe {
            let of = |colour: Colour| self.matrix.straight.couplings(colour, row);
            let corners = |colour: Colour| self.matrix.corners.couplings(colour, row);
            ((of(even), of(odd)), (a.len() > DIAGONAL).then(|| (corners(even), corners(odd))))
        };
        for k in 0..DIAGONAL {
            join(self.layout, (straight.0[k], straight.1[k]), &mut a[k][PAD..PAD + nx]);
            if let Some(diagonal) = &diagonal {
                join(self.layout, (diagonal.0[k], diagonal.1[k]), &mut a[DIAGONAL + k][PAD..PAD + nx]);
            }
        }
        // SAFETY: by the safety contract of this function.
        unsafe { collect(self.layout, j, &self.matrix.center, &mut row_sum[PAD..PAD + nx]) };
        for i in PAD..PAD + nx {
            let center = row_sum[i];
            let sum: f64 = a.iter().map(|a| a[i]).sum();
            row_sum[i] += sum;
            if row_sum[i].abs() <= self.zero_row_sum * center {
                row_sum[i] = 0.0;
            }
            row_sum[i] *= self.scale;
            a.iter_mut().for_each(|a| a[i] *= -self.scale);
            inverse[i] = (row_sum[i] - self.scale * sum).recip();
        }
    }
}

/// Appends the rows of A for the nodes in row j of the grid.
fn add_row(c: &mut Couplings, numbers: Numbers, j: usize, own: &Row) {
    const ORDER: [usize; 8] = [
        DIAGONAL + SOUTHWEST,
        SOUTH,
        DIAGONAL + SOUTHEAST,
        WEST,
        EAST,
        DIAGONAL + NORTHWEST,
        NORTH,
        DIAGONAL + NORTHEAST,
    ];
    for i in numbers.columns(j) {
        let neighbours = [(-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1)];
        for (k, offset) in ORDER.into_iter().zip(neighbours) {
            if let Some(a) = own.a.get(k) {
                push(c, numbers, (i, j), offset, a[i + PAD]);
            }
        }
        c.end_row(own.row_sum[i + PAD]);
    }
}

/// Appends the rows of S1 for the black nodes in row j of the grid.
fn add_schur_row(c: &mut Couplings, numbers: Numbers, j: usize, [south, own, north]: [&Row; 3]) {
    for i in numbers.columns(j) {
        let p = i + PAD;
        // a_rp / d_r for the red neighbour r of node p in one direction.
        let part = |k: usize, row: &Row, r: usize| own.a[k][p] * row.inverse[r];
        let (w, e) = (part(WEST, own, p - 1), part(EAST, own, p + 1));
        let (s, n) = (part(SOUTH, south, p), part(NORTH, north, p));
        for (offset, a) in [
            ((0, -2), s * south.a[SOUTH][p]),
            ((-1, -1), w * own.a[SOUTH][p - 1] + s * south.a[WEST][p]),
            ((1, -1), e * own.a[SOUTH][p + 1] + s * south.a[EAST][p]),
            ((-2, 0), w * own.a[WEST][p - 1]),
            ((2, 0), e * own.a[EAST][p + 1]),
            ((-1, 1), w * own.a[NORTH][p - 1] + n * north.a[WEST][p]),
            ((1, 1), e * own.a[NORTH][p + 1] + n * north.a[EAST][p]),
            ((0, 2), n * north.a[NORTH][p]),
        ] {
            push(c, numbers, (i, j), offset, a);
        }
        let from_eliminated =
            w * own.row_sum[p - 1] + e * own.row_sum[p + 1] + s * south.row_sum[p] + n * north.row_sum[p];
        c.end_row(own.row_sum[p] + from_eliminated);
    }
}

/// Appends the coupling of node (i, j) to the node (i + `east`, j + `north`). Zero couplings are skipped; they include
/// those that point out of the grid.
fn push(c: &mut Couplings, numbers: Numbers, (i, j): (usize, usize), (east, north): (isize, isize), a: f64) {
    if a != 0.0 {
        c.push(numbers.of(i.wrapping_add_signed(east), j.wrapping_add_signed(north)), a);
    }
}
