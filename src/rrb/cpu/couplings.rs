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
use crate::base::workers::{Workers, divide_range};
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::error::{Result, zeroed};
use crate::rrb::cpu::conversion::{colours_of_row, load_natural_row, merge_by_parity};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Border of a row on either side, in values: S1 couples nodes at distance two.
const ROW_BORDER: usize = 2;
/// Index of the first diagonal coupling in [`ScaledRow::a`]. The axis couplings precede it.
const FIRST_DIAGONAL: usize = 4;
/// Bytes per node of A with 9 points: one center and four couplings, each stored once.
const BYTES_PER_NODE: usize = 40;

/// Numbering of the unknowns of CG by rows of the grid: all nodes, or the black nodes.
#[derive(Clone, Copy)]
pub struct Numbering {
    grid: Grid,
    /// Distance between consecutive unknowns in a row: 1 or 2 columns.
    spacing: usize,
    /// First column with an unknown in row 0.
    first_column: usize,
}

impl Numbering {
    pub fn new(grid: Grid, uses_schur: bool) -> Self {
        let (spacing, first_column) =
            if uses_schur { (2, (grid.kept_column_parity() + grid.kept_row_parity()) % 2) } else { (1, 0) };
        Self { grid, spacing, first_column }
    }

    /// Returns the first column with an unknown in row j.
    fn first_column_of(&self, j: usize) -> usize {
        (j + self.first_column) % self.spacing
    }

    /// Returns the columns with unknowns in row j.
    pub fn columns(&self, j: usize) -> impl Iterator<Item = usize> + use<> {
        (self.first_column_of(j)..self.grid.nx).step_by(self.spacing)
    }

    /// Returns the number of unknowns before row j.
    fn unknowns_before(&self, j: usize) -> usize {
        let unknowns_in_row = |j: usize| (self.grid.nx + self.spacing - 1 - self.first_column_of(j)) / self.spacing;
        j / 2 * (unknowns_in_row(0) + unknowns_in_row(1)) + j % 2 * unknowns_in_row(0)
    }

    /// Returns the index of the unknown at node (i, j).
    fn index_of(&self, i: usize, j: usize) -> usize {
        self.unknowns_before(j) + i / self.spacing
    }

    /// Returns the colour of each unknown for multicolour Gauss-Seidel sweeps: 0, 1, 2 or 3. Unknowns of equal colour
    /// are not coupled with each other. These colours are independent of r1, r2, b1 and b2.
    pub fn colours(&self) -> impl Iterator<Item = u32> + use<> {
        let numbering = *self;
        let colour_of = move |(i, j): (usize, usize)| match numbering.spacing {
            1 => 2 * (j % 2) + i % 2,
            _ => 2 * (j % 2) + (i + j).div_ceil(2) % 2,
        };
        self.nodes().map(move |node| colour_of(node) as u32)
    }

    /// Returns the nodes (i, j) of all unknowns in the order of their indices.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let numbering = *self;
        (0..self.grid.ny).flat_map(move |j| numbering.columns(j).map(move |i| (i, j)))
    }
}

/// One grid row of A, multiplied by `scale`. Column i has index i + `ROW_BORDER`; the border is zero.
struct ScaledRow {
    /// Magnitudes -a_ij to the west, east, south and north. With 9 points, the magnitudes to the southwest, southeast,
    /// northwest and northeast follow.
    a: Vec<Vec<f64>>,
    row_sum: Vec<f64>,
    /// 1 / (`scale` c) of each node, where c is the center.
    inverse_center: Vec<f64>,
}

impl ScaledRow {
    fn zeroed(nx: usize, couplings: usize) -> Result<Self> {
        let zero_row = || zeroed(nx + 2 * ROW_BORDER, ALLOCATION_NAME);
        let a = (0..couplings).map(|_| zero_row()).collect::<Result<_>>()?;
        Ok(Self { a, row_sum: zero_row()?, inverse_center: zero_row()? })
    }
}

/// The matrix A, and the parameters for its conversion to couplings and row sums.
pub struct CouplingSource<'a> {
    pub matrix: &'a Matrix,
    pub layout: &'a Layout,
    /// Whether CG runs on S1.
    pub uses_schur: bool,
    /// A row sum whose magnitude is at most this fraction of the center is set to zero.
    pub zero_row_sum: f64,
    /// Power of two by which couplings and row sums are multiplied.
    pub scale: f64,
}

impl CouplingSource<'_> {
    /// Returns the couplings and row sums of the matrix on which CG runs.
    ///
    /// # Safety
    /// No thread may write A meanwhile.
    pub unsafe fn couplings(&self, workers: &mut Workers) -> Result<Couplings> {
        let grid = self.layout.grid;
        let row_ranges = divide_range(grid.ny, workers.piece_count(BYTES_PER_NODE * grid.nodes()).min(grid.ny));
        Couplings::concatenate(row_ranges, workers, |rows| {
            // SAFETY: by the safety contract of this function.
            unsafe { self.couplings_of_rows(rows) }
        })
    }

    /// Returns the couplings and row sums of the unknowns in some rows of the grid.
    ///
    /// # Safety
    /// As for `couplings`.
    unsafe fn couplings_of_rows(&self, rows: Range<usize>) -> Result<Couplings> {
        let numbering = Numbering::new(self.layout.grid, self.uses_schur);
        let unknown_count = numbering.unknowns_before(rows.end) - numbering.unknowns_before(rows.start);
        let mut c = Couplings::with_capacity(unknown_count, 8 * unknown_count)?;
        let new_row = || {
            ScaledRow::zeroed(
                self.layout.grid.nx,
                if self.matrix.has_nine_points { 2 * FIRST_DIAGONAL } else { FIRST_DIAGONAL },
            )
        };
        let (mut south, mut current_row, mut north) = (new_row()?, new_row()?, new_row()?);
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.load_row(rows.start.checked_sub(1), &mut current_row);
            self.load_row(Some(rows.start), &mut north);
        }
        for j in rows {
            std::mem::swap(&mut south, &mut current_row);
            std::mem::swap(&mut current_row, &mut north);
            // SAFETY: by the safety contract of this function.
            unsafe { self.load_row(Some(j + 1), &mut north) };
            match self.uses_schur {
                true => add_schur_row(&mut c, numbering, j, [&south, &current_row, &north]),
                false => add_row(&mut c, numbering, j, &current_row),
            }
        }
        Ok(c)
    }

    /// Reads natural row j into `row`. Sets `row` to zero if j is `None` or beyond the last row of the grid.
    ///
    /// # Safety
    /// As for `couplings`.
    unsafe fn load_row(&self, j: Option<usize>, row: &mut ScaledRow) {
        let ScaledRow { a, row_sum, inverse_center } = row;
        let nx = self.layout.grid.nx;
        let Some(j) = j.filter(|&j| j < self.layout.grid.ny) else {
            a.iter_mut().chain([row_sum, inverse_center]).for_each(|values| values.fill(0.0));
            return;
        };
        let row = (j + self.layout.shift_y) / 2;
        let (even, odd) = colours_of_row(self.layout, j);
        // SAFETY: by the safety contract of this function.
        let (axis, diagonal) = unsafe {
            let axis_couplings_of = |colour: Colour| self.matrix.axis_couplings.couplings(colour, row);
            let diagonal_couplings_of = |colour: Colour| self.matrix.corners.couplings(colour, row);
            (
                (axis_couplings_of(even), axis_couplings_of(odd)),
                (a.len() > FIRST_DIAGONAL).then(|| (diagonal_couplings_of(even), diagonal_couplings_of(odd))),
            )
        };
        for k in 0..FIRST_DIAGONAL {
            merge_by_parity(self.layout, (axis.0[k], axis.1[k]), &mut a[k][ROW_BORDER..ROW_BORDER + nx]);
            if let Some(diagonal) = &diagonal {
                merge_by_parity(
                    self.layout,
                    (diagonal.0[k], diagonal.1[k]),
                    &mut a[FIRST_DIAGONAL + k][ROW_BORDER..ROW_BORDER + nx],
                );
            }
        }
        // SAFETY: by the safety contract of this function.
        unsafe { load_natural_row(self.layout, j, &self.matrix.center, &mut row_sum[ROW_BORDER..ROW_BORDER + nx]) };
        for i in ROW_BORDER..ROW_BORDER + nx {
            let center = row_sum[i];
            let sum: f64 = a.iter().map(|a| a[i]).sum();
            row_sum[i] += sum;
            if row_sum[i].abs() <= self.zero_row_sum * center {
                row_sum[i] = 0.0;
            }
            row_sum[i] *= self.scale;
            a.iter_mut().for_each(|a| a[i] *= -self.scale);
            inverse_center[i] = (row_sum[i] - self.scale * sum).recip();
        }
    }
}

/// Appends the rows of A for the nodes in row j of the grid.
fn add_row(c: &mut Couplings, numbering: Numbering, j: usize, current_row: &ScaledRow) {
    const COUPLING_ORDER: [usize; 8] = [
        FIRST_DIAGONAL + SOUTHWEST,
        SOUTH,
        FIRST_DIAGONAL + SOUTHEAST,
        WEST,
        EAST,
        FIRST_DIAGONAL + NORTHWEST,
        NORTH,
        FIRST_DIAGONAL + NORTHEAST,
    ];
    for i in numbering.columns(j) {
        let offsets = [(-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1)];
        for (k, offset) in COUPLING_ORDER.into_iter().zip(offsets) {
            if let Some(a) = current_row.a.get(k) {
                push_coupling(c, numbering, (i, j), offset, a[i + ROW_BORDER]);
            }
        }
        c.end_row(current_row.row_sum[i + ROW_BORDER]);
    }
}

/// Appends the rows of S1 for the black nodes in row j of the grid.
fn add_schur_row(c: &mut Couplings, numbering: Numbering, j: usize, [south, current_row, north]: [&ScaledRow; 3]) {
    for i in numbering.columns(j) {
        let p = i + ROW_BORDER;
        // Returns a_rp / d_r for the red neighbour r of node p in direction k.
        let weight = |k: usize, row: &ScaledRow, r: usize| current_row.a[k][p] * row.inverse_center[r];
        let (w, e) = (weight(WEST, current_row, p - 1), weight(EAST, current_row, p + 1));
        let (s, n) = (weight(SOUTH, south, p), weight(NORTH, north, p));
        for (offset, a) in [
            ((0, -2), s * south.a[SOUTH][p]),
            ((-1, -1), w * current_row.a[SOUTH][p - 1] + s * south.a[WEST][p]),
            ((1, -1), e * current_row.a[SOUTH][p + 1] + s * south.a[EAST][p]),
            ((-2, 0), w * current_row.a[WEST][p - 1]),
            ((2, 0), e * current_row.a[EAST][p + 1]),
            ((-1, 1), w * current_row.a[NORTH][p - 1] + n * north.a[WEST][p]),
            ((1, 1), e * current_row.a[NORTH][p + 1] + n * north.a[EAST][p]),
            ((0, 2), n * north.a[NORTH][p]),
        ] {
            push_coupling(c, numbering, (i, j), offset, a);
        }
        let from_eliminated = w * current_row.row_sum[p - 1]
            + e * current_row.row_sum[p + 1]
            + s * south.row_sum[p]
            + n * north.row_sum[p];
        c.end_row(current_row.row_sum[p] + from_eliminated);
    }
}

/// Appends the coupling a of node (i, j) to the node (i + `east`, j + `north`), unless a is zero. Couplings that point
/// out of the grid are zero.
fn push_coupling(
    c: &mut Couplings,
    numbering: Numbering,
    (i, j): (usize, usize),
    (east, north): (isize, isize),
    a: f64,
) {
    if a != 0.0 {
        c.push(numbering.index_of(i.wrapping_add_signed(east), j.wrapping_add_signed(north)), a);
    }
}
