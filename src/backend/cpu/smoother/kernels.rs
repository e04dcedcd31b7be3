//! Relaxation of one block, or of several that lie in a row, compiled for each instruction set:
//! u_b + omega A_b^-1 (f - A u)_b with A_b^-1 by sine transforms or as a dense matrix.
//!
//! Sums of products are rounded once where the machine can, so that last bits depend on the instruction set; they
//! depend on nothing else: not on what is done side by side, nor on who does it.
//!
//! A tile has up to 64 rows of eight values, row k*by + j for the cells (., j, k) of as many blocks as eight values
//! hold. Transforms along y and z work on rows; for those along x rows and values are turned. The transform of length 8
//! takes 28 operations: sums and differences of mirror images, then twice the 3-point convolution hidden in sin 20 +
//! sin 40 = sin 80 degrees, all divided by sin 60.
//!
//! Memory traffic of a sweep in place: u read and written, f read: 24 bytes a cell; 8 x 8 x 8 blocks and 7 points take
//! 6 * 28 / 8 + 2.5 = 23.5 operations a cell, two more where omega is not 1.

#![allow(clippy::needless_range_loop)] // index loops, since closures are compiled without the instruction set

use crate::backend::steps::smoother::Inverse;
use crate::error::{Result, collected, zeroed};
use crate::grid::block_inverse::{SEVEN, Shape, Stencil, sin_pi};
use crate::runtime::lanes::Lanes;

/// Eight values on a cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Default)]
pub struct Row(pub [f64; 8]);

/// Blocks that a dense inverse is applied to at once: two vectors, so that each matrix entry serves 32 flops.
pub const BATCH: usize = 16;

/// Values that a batch needs as scratch: residuals, then corrections.
pub const SCRATCH: usize = 2 * 512 * BATCH;

/// A_b^-1 of one shape.
pub struct Solver {
    /// Cells.
    pub shape: Shape,
    /// How it is kept.
    pub form: Form,
}

/// How it is kept.
pub enum Form {
    /// Row by row.
    Dense(Vec<f64>),
    /// Of sine transforms.
    Diagonal {
        /// 1 / Lambda by tile row; turned for 8 x 8 x 8.
        reciprocals: Vec<Row>,
        /// D^-1 and D by tile row.
        scalings: Option<[Vec<Row>; 2]>,
    },
}

/// Where a shape stands in a list of all of them.
pub fn place_of([x, y, z]: Shape) -> usize {
    ((z - 1) * 8 + y - 1) * 8 + x - 1
}

/// The form of a tile in which lines along x have been turned into rows: plane by plane.
pub fn is_cube(shape: Shape) -> bool {
    shape == [8; 3]
}

impl Solver {
    /// From what `grid` computed.
    pub fn new(shape: Shape, inverse: Inverse) -> Result<Self> {
        let form = match inverse {
            Inverse::Dense(values) => Form::Dense(values),
            Inverse::Diagonal { reciprocals, scalings } => {
                let scalings = match scalings {
                    None => None,
                    Some((before, after)) => Some([rows(shape, &before, false)?, rows(shape, &after, false)?]),
                };
                let mut reciprocals = rows(shape, &reciprocals, is_cube(shape))?;
                // Transforms of length 8 are divided by sin(60 degrees), there and back.
                let divided = 0.75f64.powi(shape.iter().filter(|&&b| b == 8).count() as i32);
                reciprocals.iter_mut().flat_map(|row| &mut row.0).for_each(|v| *v *= divided);
                Form::Diagonal { reciprocals, scalings }
            }
        };
        Ok(Self { shape, form })
    }

    /// Whether blocks should come in batches.
    pub fn is_dense(&self) -> bool {
        matches!(self.form, Form::Dense(_))
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Dense(values) => size_of_val(&values[..]),
            Form::Diagonal { reciprocals, scalings } => {
                size_of_val(&reciprocals[..]) * if scalings.is_some() { 3 } else { 1 }
            }
        }
    }
}

/// Values of a block as tile rows, repeated for the blocks side by side.
fn rows(shape: Shape, values: &[f64], turned: bool) -> Result<Vec<Row>> {
    let [bx, by, bz] = shape;
    let mut rows: Vec<Row> = zeroed(by * bz, "block inverses")?;
    for (r, row) in rows.iter_mut().enumerate() {
        for (l, v) in row.0.iter_mut().enumerate().take(8 / bx * bx) {
            *v = if turned { values[(r / 8 * by + l) * bx + r % 8] } else { values[r * bx + l % bx] };
        }
    }
    Ok(rows)
}

/// The stencil, and the matrices of the sine transforms.
pub struct Operator {
    /// Minus the legs of a 7-point stencil: center, west, east, south, north, bottom, top.
    pub seven: Option<[f64; 7]>,
    /// Nonzero legs as steps in x, rows and planes, with minus their values.
    legs: Vec<([isize; 3], f64)>,
    /// sin((p+1)(q+1) pi / (b+1)) at `[b][p * 8 + q]`; for b = 8 over sin(60 degrees).
    pub sines: [[f64; 64]; 9],
}

impl Operator {
    /// Of this stencil.
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
        let offsets = |q: usize| [q as isize % 3 - 1, q as isize / 3 % 3 - 1, q as isize / 9 - 1];
        let legs = stencil.legs.iter().enumerate().filter(|(_, v)| **v != 0.0).map(|(q, v)| (offsets(q), -*v));
        let seven = (stencil.points == 7).then(|| SEVEN.map(|place| -stencil.legs[place]));
        Ok(Self { seven, legs: collected(legs, "legs of the stencil")?, sines })
    }
}

/// Blocks of one shape in a row, to be relaxed together.
#[derive(Clone, Copy)]
pub struct Task {
    /// First cell of the first block in the array that is read; the layer of cells around each block is read too.
    pub u: *const f64,
    /// The same in the array that is written.
    pub out: *mut f64,
    /// The same in f.
    pub f: *const f64,
    /// From one row, one plane to the next: u and out.
    pub strides: (usize, usize),
    /// The same for f.
    pub f_strides: (usize, usize),
    /// Blocks, at most 8 / bx.
    pub blocks: usize,
    /// Cells from one of them to the next along x: bx, or 2 bx.
    pub pitch: usize,
    /// Relaxation.
    pub omega: f64,
    /// What will be worked on later.
    pub ahead: Ahead,
}

/// Cells to be fetched into the cache while a task runs: what the next row of blocks reads and writes, plane by plane
/// in the order in which it lies in memory, so that the machine's own prefetching takes the hint and runs ahead. Blocks
/// alone are too short for it.
#[derive(Clone, Copy)]
pub struct Ahead {
    /// u, f, and the array that is written where that is another.
    pub of: [AheadOf; 3],
}

/// The part of one array.
#[derive(Clone, Copy)]
pub struct AheadOf {
    /// First cell of this task's part; any address, since it is only a hint.
    pub first: *const f64,
    /// From one plane to the next.
    pub plane: usize,
    /// Cells in each plane for each row of the task; 0: nothing.
    pub chunk: usize,
}

impl Ahead {
    /// Nothing.
    pub const NOTHING: Self = Self { of: [AheadOf { first: std::ptr::null(), plane: 0, chunk: 0 }; 3] };

    /// The part of task number `task`, whose blocks have `rows` rows.
    pub fn of_task(&self, task: usize, rows: usize) -> Self {
        let of = |a: AheadOf| AheadOf { first: a.first.wrapping_add(task * rows * a.chunk), ..a };
        Self { of: self.of.map(of) }
    }

    /// Part `part` of four of what belongs to plane k of a task with so many rows in it. A core has few places for
    /// lines that are on their way, so that requests should be spread over the task.
    #[inline(always)]
    pub fn fetch<V: Lanes>(&self, rows: usize, k: usize, part: usize) {
        for a in &self.of {
            let lines = (rows * a.chunk).div_ceil(8);
            let mut line = lines * part / 4;
            while line < lines * (part + 1) / 4 {
                V::prefetch(a.first.wrapping_add(k * a.plane + 8 * line));
                line += 1;
            }
        }
    }
}

/// f - A u of the first n cells from u on, n <= 8.
///
/// # Safety
/// They, and the cells around them, may be read.
#[inline(always)]
pub unsafe fn residual<V: Lanes>(
    u: *const f64,
    f: *const f64,
    n: usize,
    (row, plane): (usize, usize),
    a: &Operator,
) -> V {
    // SAFETY: as the caller promised; every offset is a leg of the stencil.
    let at = |q: *const f64| unsafe { if n == 8 { V::load(q) } else { V::load_first(q, n) } };
    let (row, plane) = (row as isize, plane as isize);
    let f = at(f);
    if let Some([c, w, e, s, n, b, t]) = a.seven {
        // SAFETY: as above.
        let u = |d: isize| at(unsafe { u.offset(d) });
        let first = V::splat(e).mul_add(u(1), V::splat(w).mul_add(u(-1), V::splat(c).mul_add(u(0), f)));
        let y = V::splat(n).mul_add(u(row), V::splat(s).mul(u(-row)));
        return first.add(V::splat(t).mul_add(u(plane), V::splat(b).mul_add(u(-plane), y)));
    }
    let mut r = f;
    for &([x, y, z], v) in &a.legs {
        // SAFETY: as above.
        r = V::splat(v).mul_add(at(unsafe { u.offset(x + y * row + z * plane) }), r);
    }
    r
}

/// Cells of a tile row that are side by side in memory, or not.
pub struct Lines {
    /// Values used.
    used: usize,
    /// Cells from the first to the last of them.
    span: usize,
    /// Where each is.
    places: [usize; 8],
}

impl Lines {
    #[inline(always)]
    pub fn new(task: &Task, bx: usize) -> Self {
        Self {
            used: task.blocks * bx,
            span: (task.blocks - 1) * task.pitch + bx,
            places: std::array::from_fn(|l| l / bx * task.pitch + l % bx),
        }
    }

    #[inline(always)]
    fn together(&self) -> bool {
        self.used == self.span
    }
}

/// The residual of a tile row.
///
/// # Safety
/// As for `relax`.
#[inline(always)]
pub unsafe fn tile_residual<V: Lanes>(lines: &Lines, task: &Task, j: usize, k: usize, a: &Operator) -> V {
    // SAFETY: as the caller promised: cell (0, j, k), and the cells between blocks.
    let (u, f) = unsafe {
        (task.u.add(k * task.strides.1 + j * task.strides.0), task.f.add(k * task.f_strides.1 + j * task.f_strides.0))
    };
    if lines.together() {
        // SAFETY: as above.
        return unsafe { residual(u, f, lines.used, task.strides, a) };
    }
    let mut all = [0.0; 16];
    let first = lines.span.min(8);
    // SAFETY: as above; the span is at most 15 cells.
    unsafe {
        residual::<V>(u, f, first, task.strides, a).store(all.as_mut_ptr());
        if lines.span > 8 {
            let rest = residual::<V>(u.add(8), f.add(8), lines.span - 8, task.strides, a);
            rest.store(all.as_mut_ptr().add(8));
        }
    }
    let mut picked = [0.0; 8];
    for (l, v) in picked.iter_mut().enumerate().take(lines.used) {
        *v = all[lines.places[l]];
    }
    // SAFETY: eight values.
    unsafe { V::load(picked.as_ptr()) }
}

/// out = u + omega v on a tile row.
///
/// # Safety
/// As for `relax`.
#[inline(always)]
pub unsafe fn tile_update<V: Lanes>(lines: &Lines, task: &Task, j: usize, k: usize, v: V) {
    let place = k * task.strides.1 + j * task.strides.0;
    let omega = V::splat(task.omega);
    // SAFETY: as the caller promised: cell (0, j, k).
    let (u, out) = unsafe { (task.u.add(place), task.out.add(place)) };
    if lines.together() {
        // SAFETY: as above.
        unsafe { omega.mul_add(v, V::load_first(u, lines.used)).store_first(out, lines.used) };
        return;
    }
    let mut values = [0.0; 8];
    // SAFETY: the places of the blocks' cells; eight values.
    unsafe {
        for l in 0..lines.used {
            values[l] = *u.add(lines.places[l]);
        }
        omega.mul_add(v, V::load(values.as_ptr())).store(values.as_mut_ptr());
        for l in 0..lines.used {
            *out.add(lines.places[l]) = values[l];
        }
    }
}
