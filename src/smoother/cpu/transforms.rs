//! Relaxation of blocks by sine transforms on tiles of up to 64 rows of eight values (see `kernels`). The forward
//! transforms run along y, x and z, the inverse transforms along z, x and y. Formula: docs/theory/smoother.md, "Sine
//! transforms".

#![allow(clippy::needless_range_loop)] // index loops: closures would be compiled without the target features

use super::kernels::{
    BlockInverse, InverseForm, Operator, Task, TileRow, TileRowLayout, compute_residual, compute_tile_row_residual,
    is_cube, update_tile_row,
};
use crate::base::lanes::Lanes;
use crate::smoother::block_inverse::BlockShape;
use std::mem::MaybeUninit;

/// Relaxes the blocks of a task by sine transforms. `V` is the type of the vectors of eight values.
///
/// # Safety
/// The conditions of `relax::relax` hold.
#[inline(always)]
pub unsafe fn relax_generic<V: Lanes>(task: &Task, block_inverse: &BlockInverse, a: &Operator) {
    let InverseForm::SineTransforms { reciprocals, scalings } = &block_inverse.form else { return };
    let scalings = scalings.as_ref().map(|[inverse_diagonal, diagonal]| (&inverse_diagonal[..], &diagonal[..]));
    if is_cube(block_inverse.shape) {
        // SAFETY: the caller guarantees the conditions of `relax::relax`.
        unsafe { relax_cube::<V>(task, reciprocals, scalings, a) };
    } else {
        // SAFETY: the caller guarantees the conditions of `relax::relax`.
        unsafe { relax_any_shape::<V>(task, block_inverse.shape, reciprocals, scalings, a) };
    }
}

/// Computes the sine transform of length B: out_p = sum_q sin((p+1)(q+1) pi/(B+1)) v_q.
#[inline(always)]
fn transform_line<V: Lanes, const B: usize>(v: &mut [V; B], sines: &[f64; 64]) {
    let half_len = B / 2;
    let mut sums = *v;
    let mut differences = *v;
    for q in 0..half_len {
        sums[q] = v[q].add(v[B - 1 - q]);
        differences[q] = v[q].sub(v[B - 1 - q]);
    }
    // Row p of the sine matrix is symmetric about its middle for even p, and antisymmetric for odd p.
    for p in 0..B {
        let (mirrored, term_count) = if p % 2 == 0 { (&sums, B - half_len) } else { (&differences, half_len) };
        let mut sum = V::splat(sines[p * 8]).mul(mirrored[0]);
        for q in 1..term_count {
            sum = V::splat(sines[p * 8 + q]).mul_add(mirrored[q], sum);
        }
        v[p] = sum;
    }
}

/// Computes the sine transform of length 8, divided by sin 60 (degrees), in 28 operations. Let s_k = sin(20 k degrees);
/// then s_4 = s_1 + s_2. `sines` contains the ratios r_k = s_k / s_3. `BlockInverse::new` compensates for the division.
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

/// Returns tile[start + q * stride] for q = 0 .. 7. `std::array::from_fn` is not used, because it could be compiled as
/// a function without the target features.
#[inline(always)]
fn load_eight_rows<V: Lanes>(tile: &[V], start: usize, stride: usize) -> [V; 8] {
    let row = |q: usize| tile[start + q * stride];
    [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]
}

/// Transforms the b rows tile[start + q * stride], q = 0 .. b - 1, in place.
#[inline(always)]
fn transform_lines<V: Lanes>(tile: &mut [V], start: usize, stride: usize, b: usize, a: &Operator) {
    #[inline(always)]
    fn transform_strided<V: Lanes, const B: usize>(tile: &mut [V], start: usize, stride: usize, a: &Operator) {
        let mut v = [V::splat(0.0); B];
        for q in 0..B {
            v[q] = tile[start + q * stride];
        }
        transform_line(&mut v, &a.sines[B]);
        for q in 0..B {
            tile[start + q * stride] = v[q];
        }
    }
    match b {
        // For b = 1 the matrix is sin(90 degrees) = 1.
        1 => {}
        2 => transform_strided::<V, 2>(tile, start, stride, a),
        3 => transform_strided::<V, 3>(tile, start, stride, a),
        4 => transform_strided::<V, 4>(tile, start, stride, a),
        5 => transform_strided::<V, 5>(tile, start, stride, a),
        6 => transform_strided::<V, 6>(tile, start, stride, a),
        7 => transform_strided::<V, 7>(tile, start, stride, a),
        _ => {
            let mut v = load_eight_rows(tile, start, stride);
            transform8(&mut v, &a.sines[8]);
            for q in 0..8 {
                tile[start + q * stride] = v[q];
            }
        }
    }
}

/// Computes the right-hand side in plane k of an 8 x 8 x 8 block. With a 7-point stencil this is f minus the
/// contribution of the cells outside the block to A u. With other stencils it is f - A u.
///
/// # Safety
/// The cells of the plane, and in u the cells around them, may be read.
#[inline(always)]
unsafe fn compute_plane_rhs<V: Lanes>(
    u: *const f64,
    f: *const f64,
    k: usize,
    strides: (usize, usize),
    f_row: usize,
    a: &Operator,
) -> [V; 8] {
    let mut rows = [V::splat(0.0); 8];
    let Some([_, w, e, s, n, b, t]) = a.negated_seven_entries else {
        for j in 0..8 {
            // SAFETY: the caller guarantees that the cells of the plane and the layer around it may be read.
            rows[j] = unsafe { compute_residual(u.add(j * strides.0), f.add(j * f_row), 8, strides, a) };
        }
        return rows;
    };
    let (row, plane) = (strides.0, strides.1 as isize);
    // SAFETY: the caller guarantees access to the cells around the plane; each load reads eight values.
    unsafe {
        let west_east = V::load([w, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, e].as_ptr());
        for j in 0..8 {
            let u = u.add(j * row);
            rows[j] = west_east.mul_add(V::load_ends(u.sub(1), u.add(8)), V::load(f.add(j * f_row)));
        }
        rows[0] = V::splat(s).mul_add(V::load(u.sub(row)), rows[0]);
        rows[7] = V::splat(n).mul_add(V::load(u.add(8 * row)), rows[7]);
        let (entry, neighbour_offset) = match k {
            0 => (b, -plane),
            7 => (t, plane),
            _ => return rows,
        };
        for j in 0..8 {
            rows[j] = V::splat(entry).mul_add(V::load(u.add(j * row).offset(neighbour_offset)), rows[j]);
        }
    }
    rows
}

type Scalings<'a> = Option<(&'a [TileRow], &'a [TileRow])>;

#[inline(always)]
fn load_tile_row<V: Lanes>(rows: &[TileRow], r: usize) -> V {
    // SAFETY: a `TileRow` holds eight values.
    unsafe { V::load(rows[r].0.as_ptr()) }
}

/// Reads the eight rows `start + q * stride`, q = 0 .. 7, of a tile of 64 rows.
///
/// # Safety
/// The rows have been written.
#[inline(always)]
unsafe fn read_rows<V: Lanes>(tile: *const TileRow, start: usize, stride: usize) -> [V; 8] {
    let mut rows = [V::splat(0.0); 8];
    for q in 0..8 {
        // SAFETY: the caller guarantees that the rows have been written.
        rows[q] = unsafe { V::load(tile.add(start + q * stride).cast()) };
    }
    rows
}

/// Writes the eight rows `start + q * stride`, q = 0 .. 7, of a tile.
///
/// # Safety
/// The tile has these rows.
#[inline(always)]
unsafe fn write_rows<V: Lanes>(tile: *mut TileRow, start: usize, stride: usize, rows: [V; 8]) {
    for q in 0..8 {
        // SAFETY: the caller guarantees that the tile has these rows.
        unsafe { rows[q].store(tile.add(start + q * stride).cast()) };
    }
}

/// Relaxes one block of 8 x 8 x 8 cells in four loops: forward transforms along y, plane by plane; forward transforms
/// along x, plane by plane; both transforms along z, column by column; inverse transforms along x and y, plane by
/// plane. The loop bodies are short, so that the CPU executes several of them at the same time.
///
/// With a 7-point stencil, the right-hand side is g_b: f_b minus the contribution of the cells outside the block to
/// (A u)_b. The result is (1 - omega) u_b + omega A_b^-1 g_b, which equals u_b + omega A_b^-1 (f - A u)_b. If omega is
/// 1, u_b is not read.
///
/// # Safety
/// The conditions of `relax::relax` hold.
#[inline(always)]
unsafe fn relax_cube<V: Lanes>(task: &Task, reciprocals: &[TileRow], scalings: Scalings, a: &Operator) {
    let mut tile = MaybeUninit::<[TileRow; 64]>::uninit();
    let tile: *mut TileRow = tile.as_mut_ptr().cast();
    let ((u_row, u_plane), (f_row, f_plane)) = (task.strides, task.f_strides);
    let reciprocals = &reciprocals[..64];
    let sines = &a.sines[8];
    for k in 0..8 {
        task.prefetch.prefetch_quarter::<V>(8, k / 4, k % 4);
        // SAFETY: the caller guarantees access to the cells (0, 0 .. 7, k) and to the cells around them.
        let mut rows: [V; 8] =
            unsafe { compute_plane_rhs(task.u.add(k * u_plane), task.f.add(k * f_plane), k, task.strides, f_row, a) };
        if let Some((inverse_diagonal, _)) = scalings {
            for j in 0..8 {
                rows[j] = rows[j].mul(load_tile_row(inverse_diagonal, k * 8 + j));
            }
        }
        transform8(&mut rows, sines);
        // SAFETY: the tile has 64 rows; plane k has the rows 8 k .. 8 k + 7.
        unsafe { write_rows(tile, 8 * k, 1, rows) };
    }
    for k in 0..8 {
        task.prefetch.prefetch_quarter::<V>(8, 2 + k / 4, k % 4);
        // SAFETY: the loop above has written all rows.
        let mut rows: [V; 8] = unsafe { read_rows(tile, 8 * k, 1) };
        V::transpose(&mut rows);
        transform8(&mut rows, sines);
        // SAFETY: the tile has 64 rows; plane k has the rows 8 k .. 8 k + 7.
        unsafe { write_rows(tile, 8 * k, 1, rows) };
    }
    for x in 0..8 {
        task.prefetch.prefetch_quarter::<V>(8, 4 + x / 4, x % 4);
        // SAFETY: the loop above has written all rows.
        let mut line: [V; 8] = unsafe { read_rows(tile, x, 8) };
        transform8(&mut line, sines);
        for k in 0..8 {
            line[k] = line[k].mul(load_tile_row(reciprocals, k * 8 + x));
        }
        transform8(&mut line, sines);
        // SAFETY: x + 8 q < 64, so these are rows of the tile.
        unsafe { write_rows(tile, x, 8, line) };
    }
    let u_factor = if a.negated_seven_entries.is_some() { 1.0 - task.omega } else { 1.0 };
    let (omega, u_factors) = (V::splat(task.omega), V::splat(u_factor));
    for k in 0..8 {
        task.prefetch.prefetch_quarter::<V>(8, 6 + k / 4, k % 4);
        // SAFETY: the loop above has written all rows.
        let mut rows: [V; 8] = unsafe { read_rows(tile, 8 * k, 1) };
        transform8(&mut rows, sines);
        V::transpose(&mut rows);
        transform8(&mut rows, sines);
        if let Some((_, diagonal)) = scalings {
            for j in 0..8 {
                rows[j] = rows[j].mul(load_tile_row(diagonal, k * 8 + j));
            }
        }
        if u_factor != 0.0 {
            for j in 0..8 {
                // SAFETY: the caller guarantees access to the cells of the block.
                let u: V = unsafe { V::load(task.u.add(k * u_plane + j * u_row)) };
                rows[j] = omega.mul_add(rows[j], u_factors.mul(u));
            }
        }
        for j in 0..8 {
            // SAFETY: the caller guarantees that the cells of the block may be written in out.
            unsafe { rows[j].store(task.out.add(k * u_plane + j * u_row)) };
        }
    }
}

/// Applies the transforms along x. The rows are transposed in groups of eight; a group may contain rows of several
/// planes.
#[inline(always)]
fn transform_along_x<V: Lanes>(tile: &mut [V; 64], block_count: usize, [bx, by, bz]: BlockShape, a: &Operator) {
    if bx == 1 {
        return;
    }
    for first_row in (0..by * bz).step_by(8) {
        let mut transposed = load_eight_rows(tile, first_row, 1);
        V::transpose(&mut transposed);
        for block in 0..block_count {
            transform_lines(&mut transposed, block * bx, 1, bx, a);
        }
        V::transpose(&mut transposed);
        tile[first_row..first_row + 8].copy_from_slice(&transposed);
    }
}

/// Relaxes blocks of any shape.
///
/// # Safety
/// The conditions of `relax::relax` hold.
#[inline(always)]
unsafe fn relax_any_shape<V: Lanes>(
    task: &Task,
    shape: BlockShape,
    reciprocals: &[TileRow],
    scalings: Scalings,
    a: &Operator,
) {
    let [bx, by, bz] = shape;
    // All 64 rows are initialized: `transform_along_x` transposes eight rows at a time, and may read rows after the
    // last row of the block.
    let mut tile = [V::splat(0.0); 64];
    let layout = TileRowLayout::new(task, bx);
    for k in 0..bz {
        for quarter in 0..4 {
            task.prefetch.prefetch_quarter::<V>(by, k, quarter);
        }
        for j in 0..by {
            // SAFETY: the caller guarantees the conditions of `relax::relax`.
            let v: V = unsafe { compute_tile_row_residual(&layout, task, j, k, a) };
            tile[k * by + j] =
                scalings.map_or(v, |(inverse_diagonal, _)| v.mul(load_tile_row(inverse_diagonal, k * by + j)));
        }
        transform_lines(&mut tile, k * by, 1, by, a);
    }
    transform_along_x(&mut tile, task.block_count, shape, a);
    for j in 0..by {
        transform_lines(&mut tile, j, by, bz, a);
        for k in 0..bz {
            let r = k * by + j;
            tile[r] = tile[r].mul(load_tile_row(reciprocals, r));
        }
        transform_lines(&mut tile, j, by, bz, a);
    }
    transform_along_x(&mut tile, task.block_count, shape, a);
    for k in 0..bz {
        transform_lines(&mut tile, k * by, 1, by, a);
        for j in 0..by {
            let v = scalings
                .map_or(tile[k * by + j], |(_, diagonal)| tile[k * by + j].mul(load_tile_row(diagonal, k * by + j)));
            // SAFETY: the caller guarantees the conditions of `relax::relax`.
            unsafe { update_tile_row(&layout, task, j, k, v) };
        }
    }
}
