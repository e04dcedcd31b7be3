//! Relaxation of one block, or of several that lie in a row, compiled for each instruction set:
//! u_b + omega A_b^-1 (f - A u)_b with A_b^-1 by sine transforms or as a dense matrix.
//!
//! Sums of products are rounded once where the machine can, so that last bits depend on the instruction set; they depend
//! on nothing else: not on what is done side by side, nor on who does it.
//!
//! A tile has up to 64 rows of eight values, row k*by + j for the cells (., j, k) of as many blocks as eight values hold.
//! Transforms along y and z work on rows; for those along x rows and values are turned. The transform of length 8 takes
//! 28 operations: sums and differences of mirror images, then twice the 3-point convolution hidden in
//! sin 20 + sin 40 = sin 80 degrees, all divided by sin 60.
//!
//! Memory traffic of a sweep in place: u read and written, f read: 24 bytes a cell; 8 x 8 x 8 blocks take
//! 6 * 28 / 8 + 8 + 2 = 31 operations a cell.

#![allow(clippy::needless_range_loop)] // index loops, since closures are compiled without the instruction set

use super::lanes::{Lanes, Portable};
use crate::backend::blocks::Inverse;
use crate::error::{Result, zeroed};
use crate::grid::block_inverse::{SEVEN, Shape, Stencil, sin_pi};
use crate::isa::{Isa, isa};
use std::mem::MaybeUninit;

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
    form: Form,
}

enum Form {
    Dense(Vec<f64>),
    Diagonal {
        /// 1 / Lambda by tile row; turned for 8 x 8 x 8.
        reciprocals: Vec<Row>,
        /// D^-1 and D by tile row.
        scalings: Option<[Vec<Row>; 2]>,
    },
}

/// The form of a tile in which lines along x have been turned into rows: plane by plane.
fn is_cube(shape: Shape) -> bool {
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
    seven: Option<[f64; 7]>,
    /// Nonzero legs as steps in x, rows and planes, with minus their values.
    legs: Vec<([isize; 3], f64)>,
    /// sin((p+1)(q+1) pi / (b+1)) at `[b][p * 8 + q]`; for b = 8 over sin(60 degrees).
    sines: [[f64; 64]; 9],
}

impl Operator {
    /// Of this stencil.
    pub fn new(stencil: &Stencil) -> Self {
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
        Self { seven, legs: legs.collect(), sines }
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

/// Cells to be fetched into the cache while a task runs: what the next row of blocks reads and writes, plane by plane in
/// the order in which it lies in memory, so that the machine's own prefetching takes the hint and runs ahead. Blocks alone
/// are too short for it.
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

    /// The part that belongs to plane k of a task with so many rows in it.
    #[inline(always)]
    fn fetch<V: Lanes>(&self, rows: usize, k: usize) {
        for a in &self.of {
            let mut i = 0;
            while i < rows * a.chunk {
                V::prefetch(a.first.wrapping_add(k * a.plane + i));
                i += 8;
            }
        }
    }
}

/// Compiles a function of `Lanes` once for each instruction set, and one that calls the chosen one.
macro_rules! for_each_lanes {
    ($($(#[$doc:meta])* unsafe fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $text:ident;)*) => {$(
        $(#[$doc])*
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                use super::lanes::{Avx2, Avx512};
                #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
                unsafe fn avx512($($argument: $type),*) $(-> $result)? {
                    // SAFETY: as our caller promised.
                    unsafe { $text::<Avx512>($($argument),*) }
                }
                #[target_feature(enable = "avx2")]
                unsafe fn avx2($($argument: $type),*) $(-> $result)? {
                    // SAFETY: as our caller promised.
                    unsafe { $text::<Avx2>($($argument),*) }
                }
                match isa() {
                    // SAFETY: as our caller promised; `isa` names only what this machine was seen to have.
                    Isa::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { avx2($($argument),*) },
                    Isa::Portable => {}
                }
            }
            // SAFETY: as our caller promised.
            unsafe { $text::<Portable>($($argument),*) }
        }
    )*};
}

for_each_lanes! {
    /// Relaxes the blocks of a task by sine transforms.
    ///
    /// # Safety
    /// The cells of the task's blocks may be read in u and f and written in out, and the layer around them (with what
    /// lies between two of the task's blocks) may be read in u.
    unsafe fn relax(task: &Task, solver: &Solver, a: &Operator) = relax_text;

    /// Relaxes at most `BATCH` tasks of one block each by their dense inverse; `alone`: there is one task, and always is,
    /// so that sums may be taken in another order.
    ///
    /// # Safety
    /// As for `relax`; no two tasks write a cell that the other reads.
    unsafe fn relax_dense(tasks: &[Task], solver: &Solver, a: &Operator, scratch: &mut [f64], alone: bool) = relax_dense_text;

    /// r = f - A u on a row of n cells that begin at u and f; returns the sum of squares in a fixed order.
    ///
    /// # Safety
    /// n values of f and r, and n cells of u with the layer around them, may be read; r, if not NULL, may be written.
    unsafe fn residual_row(u: *const f64, f: *const f64, r: *mut f64, n: usize, strides: (usize, usize), a: &Operator) -> f64 = residual_row_text;
}

/// f - A u of the first n cells from u on, n <= 8.
///
/// # Safety
/// They, and the cells around them, may be read.
#[inline(always)]
unsafe fn residual<V: Lanes>(u: *const f64, f: *const f64, n: usize, (row, plane): (usize, usize), a: &Operator) -> V {
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

/// Plane k of an 8 x 8 x 8 block: with 7 points f minus what the cells outside of the block contribute to A u, else f - A u.
///
/// # Safety
/// Its cells, and the cells around them, may be read.
#[inline(always)]
unsafe fn plane_right_side<V: Lanes>(
    u: *const f64,
    f: *const f64,
    k: usize,
    strides: (usize, usize),
    f_row: usize,
    a: &Operator,
) -> [V; 8] {
    let mut rows = [V::splat(0.0); 8];
    let Some([_, w, e, s, n, b, t]) = a.seven else {
        for j in 0..8 {
            // SAFETY: as the caller promised.
            rows[j] = unsafe { residual(u.add(j * strides.0), f.add(j * f_row), 8, strides, a) };
        }
        return rows;
    };
    let (row, plane) = (strides.0, strides.1 as isize);
    // SAFETY: as the caller promised; eight values.
    unsafe {
        let west_east = V::load([w, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, e].as_ptr());
        for j in 0..8 {
            let u = u.add(j * row);
            rows[j] = west_east.mul_add(V::load_ends(u.sub(1), u.add(8)), V::load(f.add(j * f_row)));
        }
        rows[0] = V::splat(s).mul_add(V::load(u.sub(row)), rows[0]);
        rows[7] = V::splat(n).mul_add(V::load(u.add(8 * row)), rows[7]);
        let (leg, beyond) = match k {
            0 => (b, -plane),
            7 => (t, plane),
            _ => return rows,
        };
        for j in 0..8 {
            rows[j] = V::splat(leg).mul_add(V::load(u.add(j * row).offset(beyond)), rows[j]);
        }
    }
    rows
}

/// The sine transform of length B: out_p = sum over q of sin((p+1)(q+1) pi/(B+1)) v_q.
#[inline(always)]
fn transform<V: Lanes, const B: usize>(v: &mut [V; B], sines: &[f64; 64]) {
    let half = B / 2;
    let mut sums = *v;
    let mut differences = *v;
    for q in 0..half {
        sums[q] = v[q].add(v[B - 1 - q]);
        differences[q] = v[q].sub(v[B - 1 - q]);
    }
    // Row p is symmetric about the middle for even p, else antisymmetric.
    for p in 0..B {
        let (from, count) = if p % 2 == 0 { (&sums, B - half) } else { (&differences, half) };
        let mut sum = V::splat(sines[p * 8]).mul(from[0]);
        for q in 1..count {
            sum = V::splat(sines[p * 8 + q]).mul_add(from[q], sum);
        }
        v[p] = sum;
    }
}

/// The same for B = 8, divided by s_3, in 28 operations: `sines` holds r_k = s_k / s_3, s_k = sin(20 k degrees), and
/// s_4 = s_1 + s_2. `Solver::new` makes up for the divisions.
#[inline(always)]
fn transform8<V: Lanes>(v: &mut [V; 8], sines: &[f64; 64]) {
    let (r1, r2, r4, minus_r4) = (V::splat(sines[0]), V::splat(sines[1]), V::splat(sines[3]), V::splat(-sines[3]));
    // Symmetric part: outputs 1, 3, 5, 7 (counted from 1).
    let (p1, p2, p3, p4) = (v[0].add(v[7]), v[1].add(v[6]), v[2].add(v[5]), v[3].add(v[4]));
    let (m1, m2, m3, m4) = (v[0].sub(v[7]), v[1].sub(v[6]), v[2].sub(v[5]), v[3].sub(v[4]));
    let (a, b) = (p1.add(p4), p2.add(p4));
    v[0] = r1.mul_add(a, r2.mul_add(b, p3));
    v[2] = p1.add(p2).sub(p4);
    v[4] = r4.mul_sub(a, r1.mul_add(b, p3));
    v[6] = r2.mul_add(a, minus_r4.mul_add(b, p3));
    // Antisymmetric part: outputs 2, 4, 6, 8.
    let (a, b) = (m1.add(m2), m2.add(m4));
    v[1] = r2.mul_add(a, r1.mul_add(b, m3));
    v[3] = r4.mul_sub(a, r2.mul_add(b, m3));
    v[5] = m1.sub(m2).add(m4);
    v[7] = r1.mul_add(a, minus_r4.mul_add(b, m3));
}

/// tile[start], tile[start + stride], ..: written out, since closures are compiled without the instruction set.
#[inline(always)]
fn eight<V: Lanes>(tile: &[V], start: usize, stride: usize) -> [V; 8] {
    let t = |q: usize| tile[start + q * stride];
    [t(0), t(1), t(2), t(3), t(4), t(5), t(6), t(7)]
}

/// Transforms tile[start], tile[start + stride], ..: b of them.
#[inline(always)]
fn transform_lines<V: Lanes>(tile: &mut [V], start: usize, stride: usize, b: usize, a: &Operator) {
    #[inline(always)]
    fn line<V: Lanes, const B: usize>(tile: &mut [V], start: usize, stride: usize, a: &Operator) {
        let mut v = [V::splat(0.0); B];
        for q in 0..B {
            v[q] = tile[start + q * stride];
        }
        transform(&mut v, &a.sines[B]);
        for q in 0..B {
            tile[start + q * stride] = v[q];
        }
    }
    match b {
        // sin(90 degrees).
        1 => {}
        2 => line::<V, 2>(tile, start, stride, a),
        3 => line::<V, 3>(tile, start, stride, a),
        4 => line::<V, 4>(tile, start, stride, a),
        5 => line::<V, 5>(tile, start, stride, a),
        6 => line::<V, 6>(tile, start, stride, a),
        7 => line::<V, 7>(tile, start, stride, a),
        _ => {
            let mut v = eight(tile, start, stride);
            transform8(&mut v, &a.sines[8]);
            for q in 0..8 {
                tile[start + q * stride] = v[q];
            }
        }
    }
}

#[inline(always)]
unsafe fn relax_text<V: Lanes>(task: &Task, solver: &Solver, a: &Operator) {
    let Form::Diagonal { reciprocals, scalings } = &solver.form else { return };
    let scalings = scalings.as_ref().map(|[before, after]| (&before[..], &after[..]));
    if is_cube(solver.shape) {
        // SAFETY: as our caller promised.
        unsafe { relax_cube::<V>(task, reciprocals, scalings, a) };
    } else {
        // SAFETY: as above.
        unsafe { relax_any::<V>(task, solver.shape, reciprocals, scalings, a) };
    }
}

type Scalings<'a> = Option<(&'a [Row], &'a [Row])>;

#[inline(always)]
fn row<V: Lanes>(rows: &[Row], r: usize) -> V {
    // SAFETY: a row has eight values.
    unsafe { V::load(rows[r].0.as_ptr()) }
}

/// Eight of the 64 rows of a tile: `start`, `start + stride`, ..
///
/// # Safety
/// They must have been written.
#[inline(always)]
unsafe fn read_rows<V: Lanes>(tile: *const Row, start: usize, stride: usize) -> [V; 8] {
    let mut rows = [V::splat(0.0); 8];
    for q in 0..8 {
        // SAFETY: as the caller promised.
        rows[q] = unsafe { V::load(tile.add(start + q * stride).cast()) };
    }
    rows
}

/// # Safety
/// The tile must have these rows.
#[inline(always)]
unsafe fn write_rows<V: Lanes>(tile: *mut Row, start: usize, stride: usize, rows: [V; 8]) {
    for q in 0..8 {
        // SAFETY: as the caller promised.
        unsafe { rows[q].store(tile.add(start + q * stride).cast()) };
    }
}

/// One block of 8 x 8 x 8: two turns a plane and way. Passes are short, so that the machine has several of them in work.
///
/// With 7 points A_b u_b is taken out of the residual: u_b + omega A_b^-1 (f - A u)_b = (1 - omega) u_b +
/// omega A_b^-1 (f_b - what comes from outside), and with omega = 1 nothing of u_b is read.
#[inline(always)]
unsafe fn relax_cube<V: Lanes>(task: &Task, reciprocals: &[Row], scalings: Scalings, a: &Operator) {
    let mut tile = MaybeUninit::<[Row; 64]>::uninit();
    let tile: *mut Row = tile.as_mut_ptr().cast();
    let ((u_row, u_plane), (f_row, f_plane)) = (task.strides, task.f_strides);
    let reciprocals = &reciprocals[..64];
    let sines = &a.sines[8];
    for k in 0..8 {
        task.ahead.fetch::<V>(8, k);
        // SAFETY: as our caller promised: cells (0, 0 .. 7, k).
        let mut rows: [V; 8] =
            unsafe { plane_right_side(task.u.add(k * u_plane), task.f.add(k * f_plane), k, task.strides, f_row, a) };
        if let Some((before, _)) = scalings {
            for j in 0..8 {
                rows[j] = rows[j].mul(row(before, k * 8 + j));
            }
        }
        transform8(&mut rows, sines);
        // SAFETY: rows of plane k.
        unsafe { write_rows(tile, 8 * k, 1, rows) };
    }
    for k in 0..8 {
        // SAFETY: all rows are written above.
        let mut rows: [V; 8] = unsafe { read_rows(tile, 8 * k, 1) };
        V::transpose(&mut rows);
        transform8(&mut rows, sines);
        // SAFETY: rows of plane k.
        unsafe { write_rows(tile, 8 * k, 1, rows) };
    }
    for x in 0..8 {
        // SAFETY: all rows are written above.
        let mut line: [V; 8] = unsafe { read_rows(tile, x, 8) };
        transform8(&mut line, sines);
        for k in 0..8 {
            line[k] = line[k].mul(row(reciprocals, k * 8 + x));
        }
        transform8(&mut line, sines);
        // SAFETY: rows of the tile.
        unsafe { write_rows(tile, x, 8, line) };
    }
    let kept = if a.seven.is_some() { 1.0 - task.omega } else { 1.0 };
    let (omega, kept_factor) = (V::splat(task.omega), V::splat(kept));
    for k in 0..8 {
        // SAFETY: all rows are written above.
        let mut rows: [V; 8] = unsafe { read_rows(tile, 8 * k, 1) };
        transform8(&mut rows, sines);
        V::transpose(&mut rows);
        transform8(&mut rows, sines);
        if let Some((_, after)) = scalings {
            for j in 0..8 {
                rows[j] = rows[j].mul(row(after, k * 8 + j));
            }
        }
        if kept != 0.0 {
            for j in 0..8 {
                // SAFETY: as our caller promised.
                let u: V = unsafe { V::load(task.u.add(k * u_plane + j * u_row)) };
                rows[j] = omega.mul_add(rows[j], kept_factor.mul(u));
            }
        }
        for j in 0..8 {
            // SAFETY: as our caller promised.
            unsafe { rows[j].store(task.out.add(k * u_plane + j * u_row)) };
        }
    }
}

/// Cells of a tile row that are side by side in memory, or not.
struct Lines {
    /// Values used.
    used: usize,
    /// Cells from the first to the last of them.
    span: usize,
    /// Where each is.
    places: [usize; 8],
}

impl Lines {
    #[inline(always)]
    fn new(task: &Task, bx: usize) -> Self {
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
unsafe fn tile_residual<V: Lanes>(lines: &Lines, task: &Task, j: usize, k: usize, a: &Operator) -> V {
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
unsafe fn tile_update<V: Lanes>(lines: &Lines, task: &Task, j: usize, k: usize, v: V) {
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

/// Transforms along x: eight rows at a time are turned, whatever they are.
#[inline(always)]
fn along_x<V: Lanes>(tile: &mut [V; 64], blocks: usize, [bx, by, bz]: Shape, a: &Operator) {
    if bx == 1 {
        return;
    }
    for first in (0..by * bz).step_by(8) {
        let mut turned = eight(tile, first, 1);
        V::transpose(&mut turned);
        for block in 0..blocks {
            transform_lines(&mut turned, block * bx, 1, bx, a);
        }
        V::transpose(&mut turned);
        tile[first..first + 8].copy_from_slice(&turned);
    }
}

/// Blocks of any shape.
#[inline(always)]
unsafe fn relax_any<V: Lanes>(task: &Task, shape: Shape, reciprocals: &[Row], scalings: Scalings, a: &Operator) {
    let [bx, by, bz] = shape;
    // Rows behind the last stay zero: turning takes eight at a time.
    let mut tile = [V::splat(0.0); 64];
    let lines = Lines::new(task, bx);
    for k in 0..bz {
        task.ahead.fetch::<V>(by, k);
        for j in 0..by {
            // SAFETY: as our caller promised.
            let v: V = unsafe { tile_residual(&lines, task, j, k, a) };
            tile[k * by + j] = scalings.map_or(v, |(before, _)| v.mul(row(before, k * by + j)));
        }
        transform_lines(&mut tile, k * by, 1, by, a);
    }
    along_x(&mut tile, task.blocks, shape, a);
    for j in 0..by {
        transform_lines(&mut tile, j, by, bz, a);
        for k in 0..bz {
            let r = k * by + j;
            tile[r] = tile[r].mul(row(reciprocals, r));
        }
        transform_lines(&mut tile, j, by, bz, a);
    }
    along_x(&mut tile, task.blocks, shape, a);
    for k in 0..bz {
        transform_lines(&mut tile, k * by, 1, by, a);
        for j in 0..by {
            let v = scalings.map_or(tile[k * by + j], |(_, after)| tile[k * by + j].mul(row(after, k * by + j)));
            // SAFETY: as our caller promised.
            unsafe { tile_update(&lines, task, j, k, v) };
        }
    }
}

/// The block's cells as tile rows, row by row with the place of the first cell of each.
#[inline(always)]
fn tile_rows([bx, by, bz]: Shape) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..by * bz).map(move |r| (r * bx, r % by, r / by))
}

#[inline(always)]
unsafe fn relax_dense_text<V: Lanes>(tasks: &[Task], solver: &Solver, a: &Operator, scratch: &mut [f64], alone: bool) {
    let Form::Dense(inverse) = &solver.form else { return };
    let [bx, by, bz] = solver.shape;
    let n = bx * by * bz;
    let inverse = &inverse[..n * n];
    let (r, z) = scratch[..SCRATCH].split_at_mut(SCRATCH / 2);
    // One block: values one after the other. More: value t of task b at r[t * BATCH + b].
    let step = if alone { 1 } else { BATCH };
    for (b, task) in tasks.iter().enumerate() {
        let lines = Lines::new(task, bx);
        for (first, j, k) in tile_rows(solver.shape) {
            let mut values = [0.0; 8];
            // SAFETY: as our caller promised; eight values.
            unsafe { tile_residual::<V>(&lines, task, j, k, a).store(values.as_mut_ptr()) };
            for (i, v) in values.into_iter().enumerate().take(bx) {
                r[(first + i) * step + b] = v;
            }
        }
    }
    if alone {
        for (z, row) in z.iter_mut().zip(inverse.chunks_exact(n)) {
            *z = dense_dot::<V>(row, &r[..n]);
        }
    } else {
        dense_product::<V>(inverse, n, r, z);
    }
    for (b, task) in tasks.iter().enumerate() {
        let lines = Lines::new(task, bx);
        for (first, j, k) in tile_rows(solver.shape) {
            let values: [f64; 8] = std::array::from_fn(|i| if i < bx { z[(first + i) * step + b] } else { 0.0 });
            // SAFETY: as our caller promised; eight values.
            unsafe { tile_update(&lines, task, j, k, V::load(values.as_ptr())) };
        }
    }
}

/// <a, b> in eight lanes.
#[inline(always)]
fn dense_dot<V: Lanes>(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let mut sum = V::splat(0.0);
    for t in (0..n).step_by(8) {
        let here = (n - t).min(8);
        // SAFETY: t + here <= n.
        sum = unsafe { V::load_first(a.as_ptr().add(t), here).mul_add(V::load_first(b.as_ptr().add(t), here), sum) };
    }
    let mut lanes = [0.0; 8];
    // SAFETY: eight values.
    unsafe { sum.store(lanes.as_mut_ptr()) };
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// z = inverse r for `BATCH` columns: eight rows by two vectors at a time.
#[inline(always)]
fn dense_product<V: Lanes>(inverse: &[f64], n: usize, r: &[f64], z: &mut [f64]) {
    const ROWS: usize = 8;
    let (r, z) = (&r[..n * BATCH], &mut z[..n * BATCH]);
    for first in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - first);
        let mut sums = [[V::splat(0.0); 2]; ROWS];
        if rows == ROWS {
            let matrix = &inverse[first * n..(first + ROWS) * n];
            for t in 0..n {
                // SAFETY: t < n, and r has n rows of two vectors.
                let columns: [V; 2] =
                    unsafe { [V::load(r.as_ptr().add(t * BATCH)), V::load(r.as_ptr().add(t * BATCH + 8))] };
                for (q, sums) in sums.iter_mut().enumerate() {
                    let entry = V::splat(matrix[q * n + t]);
                    *sums = [entry.mul_add(columns[0], sums[0]), entry.mul_add(columns[1], sums[1])];
                }
            }
        } else {
            for (q, sums) in sums.iter_mut().enumerate().take(rows) {
                for t in 0..n {
                    let entry = V::splat(inverse[(first + q) * n + t]);
                    for (h, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: t < n, and r has n rows of two vectors.
                        *sum = entry.mul_add(unsafe { V::load(r.as_ptr().add(t * BATCH + 8 * h)) }, *sum);
                    }
                }
            }
        }
        for (q, sums) in sums.into_iter().enumerate().take(rows) {
            for (h, sum) in sums.into_iter().enumerate() {
                // SAFETY: first + q < n, and z has n rows of two vectors.
                unsafe { sum.store(z.as_mut_ptr().add((first + q) * BATCH + 8 * h)) };
            }
        }
    }
}

#[inline(always)]
unsafe fn residual_row_text<V: Lanes>(
    u: *const f64,
    f: *const f64,
    r: *mut f64,
    n: usize,
    strides: (usize, usize),
    a: &Operator,
) -> f64 {
    let mut squares = V::splat(0.0);
    for i in (0..n).step_by(8) {
        let here = (n - i).min(8);
        // SAFETY: as our caller promised; i + here <= n.
        unsafe {
            let v: V = residual(u.add(i), f.add(i), here, strides, a);
            squares = v.mul_add(v, squares);
            if !r.is_null() {
                v.store_first(r.add(i), here);
            }
        }
    }
    let mut lanes = [0.0; 8];
    // SAFETY: eight values.
    unsafe { squares.store(lanes.as_mut_ptr()) };
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}
