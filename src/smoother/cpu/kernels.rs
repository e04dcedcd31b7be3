//! Data and functions for the relaxation of one block, or of several blocks in a row: tasks, inverses, and the residual
//! and the update of one row of a tile. The modules `transforms` and `dense` use these functions and apply A_b^-1. The
//! module `relax` compiles both for each instruction set.
//!
//! For a block b the kernels compute u_b <- u_b + omega A_b^-1 (f - A u)_b. A_b^-1 is applied by sine transforms or as
//! a dense matrix (docs/theory/smoother.md, "Exact block inverses").
//!
//! With AVX-512, each product is fused with the following addition. The last bits of the results therefore depend on
//! the instruction set. The results depend neither on the number of blocks that are relaxed together nor on the thread.
//!
//! A tile has up to 64 rows of eight values. Row k*by + j holds the cells (., j, k) of as many blocks as fit in eight
//! values. The transforms along y and z combine rows. For the transforms along x, groups of eight rows are transposed.
//! A transform of length 8 takes 28 operations: sums and differences of mirror images, then two transforms of length 4.
//! The transforms of length 4 use the identity sin 20 + sin 40 = sin 80 (degrees). All results of a transform of length
//! 8 are divided by sin 60. The reciprocals of Lambda compensate for this factor.
//!
//! A sweep in place reads u and f and writes u: 24 bytes per cell. With blocks of 8 x 8 x 8 cells and a 7-point
//! stencil, a sweep takes 6 * 28 / 8 + 2.5 = 23.5 operations per cell: six transforms, one multiplication by a
//! reciprocal, and 1.5 operations for the values outside the block. If omega is not 1, a sweep takes two more
//! operations per cell.

#![allow(clippy::needless_range_loop)] // index loops: closures would be compiled without the target features

use crate::base::lanes::Lanes;
use crate::error::{Result, collected, zeroed};
use crate::smoother::block_inverse::{BlockShape, SEVEN_POINT_INDICES, Stencil, sin_pi};
use crate::smoother::steps::Inverse;

/// Eight values, aligned to a cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Default)]
pub struct TileRow(pub [f64; 8]);

/// Largest number of blocks to which a dense inverse is applied at once. A batch fills two vectors, so that each matrix
/// entry is used for 32 flops.
pub const BATCH_BLOCKS: usize = 16;

/// Number of values in the scratch array of a batch: residuals, then corrections, of blocks of up to 512 cells.
pub const SCRATCH_VALUES: usize = 2 * 512 * BATCH_BLOCKS;

/// Inverse A_b^-1 of the blocks of one shape.
pub struct BlockInverse {
    /// Cells of the block in x, y and z.
    pub shape: BlockShape,
    /// Representation of the inverse.
    pub form: InverseForm,
}

/// Representation of A_b^-1.
pub enum InverseForm {
    /// Dense matrix, stored by rows.
    Dense(Vec<f64>),
    /// Sine transforms: A_b^-1 = D S Lambda^-1 S^-1 D^-1.
    SineTransforms {
        /// Reciprocals of the diagonal entries of Lambda, times the factors 2 / (n + 1) of the inverse transforms of
        /// length n, by tile row. For each direction of length 8, an additional factor of sin^2 60 (degrees)
        /// compensates for the division by sin 60 in each of the two transforms. For blocks of 8 x 8 x 8 cells, x and y
        /// are exchanged in each plane.
        reciprocals: Vec<TileRow>,
        /// Diagonals of D^-1 and D by tile row; `None` if D is the identity.
        scalings: Option<[Vec<TileRow>; 2]>,
    },
}

/// Returns the index of a shape in a list of all 512 shapes.
pub fn shape_index([x, y, z]: BlockShape) -> usize {
    ((z - 1) * 8 + y - 1) * 8 + x - 1
}

/// Returns whether `transforms::relax_cube` relaxes blocks of this shape. That function multiplies by the reciprocals
/// while the planes of the tile are transposed, so the reciprocals are also stored with transposed planes.
pub fn is_cube(shape: BlockShape) -> bool {
    shape == [8; 3]
}

impl BlockInverse {
    /// Converts the inverse that `smoother::block_inverse` computed into the layout of the kernels.
    pub fn new(shape: BlockShape, inverse: Inverse) -> Result<Self> {
        let form = match inverse {
            Inverse::Dense(values) => InverseForm::Dense(values),
            Inverse::SineTransforms { reciprocals, scalings } => {
                let scalings = match scalings {
                    None => None,
                    Some((inverse_diagonal, diagonal)) => {
                        Some([to_tile_rows(shape, &inverse_diagonal, false)?, to_tile_rows(shape, &diagonal, false)?])
                    }
                };
                let mut reciprocals = to_tile_rows(shape, &reciprocals, is_cube(shape))?;
                // Each transform of length 8 divides by sin 60 (degrees). There are two transforms per direction, so
                // the reciprocals are multiplied by sin^2 60 = 0.75 for each direction of length 8.
                let compensation = 0.75f64.powi(shape.iter().filter(|&&b| b == 8).count() as i32);
                reciprocals.iter_mut().flat_map(|row| &mut row.0).for_each(|v| *v *= compensation);
                InverseForm::SineTransforms { reciprocals, scalings }
            }
        };
        Ok(Self { shape, form })
    }

    /// Returns whether the inverse is dense, so that blocks are processed in batches.
    pub fn is_dense(&self) -> bool {
        matches!(self.form, InverseForm::Dense(_))
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        match &self.form {
            InverseForm::Dense(values) => size_of_val(&values[..]),
            InverseForm::SineTransforms { reciprocals, scalings } => {
                size_of_val(&reciprocals[..]) * if scalings.is_some() { 3 } else { 1 }
            }
        }
    }
}

/// Stores the values of a block as tile rows. The values are repeated for each block that fits in a row of eight
/// values. With `is_transposed`, which requires 8 x 8 x 8 cells, x and y are exchanged in each plane.
fn to_tile_rows(shape: BlockShape, values: &[f64], is_transposed: bool) -> Result<Vec<TileRow>> {
    let [bx, by, bz] = shape;
    let mut rows: Vec<TileRow> = zeroed(by * bz, "block inverses")?;
    for (r, row) in rows.iter_mut().enumerate() {
        for (l, v) in row.0.iter_mut().enumerate().take(8 / bx * bx) {
            *v = if is_transposed { values[(r / 8 * by + l) * bx + r % 8] } else { values[r * bx + l % bx] };
        }
    }
    Ok(rows)
}

/// Stencil entries and matrices of the sine transforms.
pub struct Operator {
    /// The entries of a 7-point stencil, each multiplied by -1: center, west, east, south, north, bottom, top. `None`
    /// for a 27-point stencil.
    pub negated_seven_entries: Option<[f64; 7]>,
    /// For each nonzero entry of the stencil, its offset in x, y and z, and the entry multiplied by -1.
    negated_entries: Vec<([isize; 3], f64)>,
    /// For the transforms of length b, sin((p+1)(q+1) pi / (b+1)) at `[b][p * 8 + q]`. For b = 8, the values are
    /// divided by sin 60 (degrees).
    pub sines: [[f64; 64]; 9],
}

impl Operator {
    /// Tabulates the stencil entries and the sines.
    pub fn new(stencil: &Stencil) -> Result<Self> {
        let mut sines = [[0.0; 64]; 9];
        for (b, table) in sines.iter_mut().enumerate().skip(1) {
            for p in 0..b {
                for q in 0..b {
                    let divisor = if b == 8 { sin_pi(3, 9) } else { 1.0 };
                    table[p * 8 + q] = sin_pi((p + 1) * (q + 1), b + 1) / divisor;
                }
            }
        }
        let entry_offset = |q: usize| [q as isize % 3 - 1, q as isize / 3 % 3 - 1, q as isize / 9 - 1];
        let entries =
            stencil.entries.iter().enumerate().filter(|(_, v)| **v != 0.0).map(|(q, v)| (entry_offset(q), -*v));
        let negated_seven_entries =
            (stencil.point_count == 7).then(|| SEVEN_POINT_INDICES.map(|index| -stencil.entries[index]));
        Ok(Self { negated_seven_entries, negated_entries: collected(entries, "entries of the stencil")?, sines })
    }
}

/// Blocks of one shape in one row of blocks, which are relaxed together.
#[derive(Clone, Copy)]
pub struct Task {
    /// First cell of the first block in the array that is read. The layer of cells around each block is read, too.
    pub u: *const f64,
    /// First cell of the first block in the array that is written.
    pub out: *mut f64,
    /// First cell of the first block in f.
    pub f: *const f64,
    /// Distances between rows and between planes in u and out, in values.
    pub strides: (usize, usize),
    /// Distances between rows and between planes in f, in values.
    pub f_strides: (usize, usize),
    /// Number of blocks, at most 8 / bx.
    pub block_count: usize,
    /// Distance between the blocks along x in cells: bx, or 2 bx if only one colour is relaxed.
    pub pitch: usize,
    /// Relaxation factor, dimensionless.
    pub omega: f64,
    /// Cells to prefetch while the task runs.
    pub prefetch: Prefetch,
}

/// Cells to prefetch while a task runs: the values that the next row of blocks reads and writes. The cells are
/// requested plane by plane in memory order, so that the hardware prefetcher recognizes the sequence and continues it.
/// A single block is too short for the hardware prefetcher.
#[derive(Clone, Copy)]
pub struct Prefetch {
    /// u, f, and the array that is written, unless this array is u.
    pub arrays: [ArrayPrefetch; 3],
}

/// Cells to prefetch in one array.
#[derive(Clone, Copy)]
pub struct ArrayPrefetch {
    /// First cell to prefetch. Any address is allowed, since a prefetch never faults.
    pub first_cell: *const f64,
    /// Distance between planes, in values.
    pub plane_stride: usize,
    /// Number of cells to prefetch per plane and row of cells of the task; 0 disables the prefetch.
    pub cells_per_row: usize,
}

impl Prefetch {
    /// Prefetches nothing.
    pub const NOTHING: Self =
        Self { arrays: [ArrayPrefetch { first_cell: std::ptr::null(), plane_stride: 0, cells_per_row: 0 }; 3] };

    /// Returns the cells that task number `task` prefetches, if the blocks of each task have `row_count` rows per
    /// plane.
    pub fn of_task(&self, task: usize, row_count: usize) -> Self {
        let shift_array = |a: ArrayPrefetch| ArrayPrefetch {
            first_cell: a.first_cell.wrapping_add(task * row_count * a.cells_per_row),
            ..a
        };
        Self { arrays: self.arrays.map(shift_array) }
    }

    /// Prefetches quarter number `quarter` (0 to 3) of the cells for plane k of a task with `row_count` rows per plane.
    /// A core has few line fill buffers, so the requests are spread over the task.
    #[inline(always)]
    pub fn prefetch_quarter<V: Lanes>(&self, row_count: usize, k: usize, quarter: usize) {
        for a in &self.arrays {
            let lines = (row_count * a.cells_per_row).div_ceil(8);
            let mut line = lines * quarter / 4;
            while line < lines * (quarter + 1) / 4 {
                V::prefetch(a.first_cell.wrapping_add(k * a.plane_stride + 8 * line));
                line += 1;
            }
        }
    }
}

/// Computes r = f - A u for n <= 8 contiguous cells. The pointers u and f point to the values of the first cell.
///
/// # Safety
/// These cells, and in u the layer of cells around them, may be read.
#[inline(always)]
pub unsafe fn compute_residual<V: Lanes>(
    u: *const f64,
    f: *const f64,
    n: usize,
    (row, plane): (usize, usize),
    a: &Operator,
) -> V {
    // SAFETY: the caller guarantees that the cells and the layer around them may be read; every offset is that of a
    // stencil entry.
    let load = |q: *const f64| unsafe { if n == 8 { V::load(q) } else { V::load_first(q, n) } };
    let (row, plane) = (row as isize, plane as isize);
    let f = load(f);
    if let Some([c, w, e, s, n, b, t]) = a.negated_seven_entries {
        // SAFETY: d is the offset of a stencil entry, as above.
        let u = |d: isize| load(unsafe { u.offset(d) });
        let x_sum = V::splat(e).mul_add(u(1), V::splat(w).mul_add(u(-1), V::splat(c).mul_add(u(0), f)));
        let y_sum = V::splat(n).mul_add(u(row), V::splat(s).mul(u(-row)));
        return x_sum.add(V::splat(t).mul_add(u(plane), V::splat(b).mul_add(u(-plane), y_sum)));
    }
    let mut r = f;
    for &([x, y, z], v) in &a.negated_entries {
        // SAFETY: the offset is that of a stencil entry, as above.
        r = V::splat(v).mul_add(load(unsafe { u.offset(x + y * row + z * plane) }), r);
    }
    r
}

/// Positions in x of the cells of a tile row, relative to the first cell.
pub struct TileRowLayout {
    /// Number of values in use, counted from the start of the tile row.
    used_count: usize,
    /// Number of cells from the first to the last cell in use.
    span: usize,
    /// Position of each value.
    positions: [usize; 8],
}

impl TileRowLayout {
    #[inline(always)]
    pub fn new(task: &Task, bx: usize) -> Self {
        Self {
            used_count: task.block_count * bx,
            span: (task.block_count - 1) * task.pitch + bx,
            positions: std::array::from_fn(|l| l / bx * task.pitch + l % bx),
        }
    }

    #[inline(always)]
    fn is_contiguous(&self) -> bool {
        self.used_count == self.span
    }
}

/// Computes f - A u for the tile row of the cells (., j, k).
///
/// # Safety
/// The conditions of `relax::relax` hold.
#[inline(always)]
pub unsafe fn compute_tile_row_residual<V: Lanes>(
    layout: &TileRowLayout,
    task: &Task,
    j: usize,
    k: usize,
    a: &Operator,
) -> V {
    // SAFETY: the caller guarantees access to cell (0, j, k) and to the cells between the blocks.
    let (u, f) = unsafe {
        (task.u.add(k * task.strides.1 + j * task.strides.0), task.f.add(k * task.f_strides.1 + j * task.f_strides.0))
    };
    if layout.is_contiguous() {
        // SAFETY: the cells are contiguous, and the caller guarantees access to them.
        return unsafe { compute_residual(u, f, layout.used_count, task.strides, a) };
    }
    let mut span_values = [0.0; 16];
    let first_len = layout.span.min(8);
    // SAFETY: the caller guarantees access; the span is at most 15 cells, and `span_values` has room for 16.
    unsafe {
        compute_residual::<V>(u, f, first_len, task.strides, a).store(span_values.as_mut_ptr());
        if layout.span > 8 {
            let last_values = compute_residual::<V>(u.add(8), f.add(8), layout.span - 8, task.strides, a);
            last_values.store(span_values.as_mut_ptr().add(8));
        }
    }
    let mut used_values = [0.0; 8];
    for (l, v) in used_values.iter_mut().enumerate().take(layout.used_count) {
        *v = span_values[layout.positions[l]];
    }
    // SAFETY: `used_values` holds eight values.
    unsafe { V::load(used_values.as_ptr()) }
}

/// Computes out = u + omega v for the tile row of the cells (., j, k).
///
/// # Safety
/// The conditions of `relax::relax` hold.
#[inline(always)]
pub unsafe fn update_tile_row<V: Lanes>(layout: &TileRowLayout, task: &Task, j: usize, k: usize, v: V) {
    let index = k * task.strides.1 + j * task.strides.0;
    let omega = V::splat(task.omega);
    // SAFETY: the caller guarantees access to cell (0, j, k).
    let (u, out) = unsafe { (task.u.add(index), task.out.add(index)) };
    if layout.is_contiguous() {
        // SAFETY: the first `used_count` cells are contiguous and belong to the task's blocks.
        unsafe { omega.mul_add(v, V::load_first(u, layout.used_count)).store_first(out, layout.used_count) };
        return;
    }
    let mut values = [0.0; 8];
    // SAFETY: `positions` holds positions of cells of the task's blocks; `values` holds eight values.
    unsafe {
        for l in 0..layout.used_count {
            values[l] = *u.add(layout.positions[l]);
        }
        omega.mul_add(v, V::load(values.as_ptr())).store(values.as_mut_ptr());
        for l in 0..layout.used_count {
            *out.add(layout.positions[l]) = values[l];
        }
    }
}
