//! Constant 7- and 27-point stencils in three dimensions, and the exact inverses of their diagonal blocks
//! (docs/theory/smoother.md, "Exact block inverses").
//!
//! A_b is the matrix of a block of bx x by x bz cells: the stencil without the entries that connect cells of the block
//! to cells outside. Suppose that a diagonal scaling d_x^i d_y^j d_z^k makes the stencil even in x, y and z. Then the
//! scaled A_b is a polynomial in the commuting matrices tridiag(1, 0, 1) of the three directions, so that
//!
//! ```text
//! A_b = D S Lambda S^-1 D^-1,   S = sine transforms,   S_pq = sin(p q pi / (n + 1)),   S^-1 = 2 / (n + 1) S,
//! Lambda = sum over a, b, c in {0, 1} of t(a, b, c) (2 cos p pi/(bx+1))^a (2 cos q pi/(by+1))^b (2 cos r pi/(bz+1))^c
//! ```
//!
//! where D is the scaling, and t is the scaled stencil. The diagonal entries of Lambda have the indices p, q and r,
//! which count from 1 to bx, by and bz. For a transform along x, y or z, n is bx, by or bz. A 7-point stencil with
//! entries l and u at the offsets -1 and 1 of a direction, where l u > 0, has the scaling d = sqrt(l / u) in this
//! direction. Stencils of finite elements and of the Mehrstellen scheme have d = 1. A dense inverse is used if the
//! stencil has no such scaling, or if the scaling is ill-conditioned on a block.

use crate::error::{Error, Result, collected, zeroed};

/// Stencil entries by offset: `entries[(c+1)*9 + (b+1)*3 + a+1]` is the coefficient of u at (i + a, j + b, k + c) in
/// the equation of cell (i, j, k).
#[derive(Clone, Debug, PartialEq)]
pub struct Stencil {
    /// All 27 entries; entries outside the stencil are zero.
    pub entries: [f64; 27],
    /// Number of points, 7 or 27.
    pub point_count: usize,
}

/// Returns the index of the entry at offset (a, b, c).
pub const fn entry_index(a: i64, b: i64, c: i64) -> usize {
    ((c + 1) * 9 + (b + 1) * 3 + a + 1) as usize
}

/// Indices of the entries of a 7-point stencil in the order of the API: center, west, east, south, north, bottom, top.
pub const SEVEN_POINT_INDICES: [usize; 7] = [
    entry_index(0, 0, 0),
    entry_index(-1, 0, 0),
    entry_index(1, 0, 0),
    entry_index(0, -1, 0),
    entry_index(0, 1, 0),
    entry_index(0, 0, -1),
    entry_index(0, 0, 1),
];

impl Stencil {
    /// Creates a stencil from 7 values (center, west, east, south, north, bottom, top) or 27 values (the cube, x
    /// fastest).
    pub fn new(values: &[f64]) -> Self {
        let mut entries = [0.0; 27];
        if values.len() == 7 {
            for (&index, &value) in SEVEN_POINT_INDICES.iter().zip(values) {
                entries[index] = value;
            }
        } else {
            entries.copy_from_slice(values);
        }
        Self { entries, point_count: values.len() }
    }

    /// Returns the entry of A between a cell and the cell at offset (a, b, c).
    pub fn entry(&self, a: i64, b: i64, c: i64) -> f64 {
        self.entries[entry_index(a, b, c)]
    }

    fn norm1(&self) -> f64 {
        self.entries.iter().map(|value| value.abs()).sum()
    }
}

/// Cells of a block in x, y and z; the edge of a patch may truncate the block.
pub type BlockShape = [usize; 3];

/// A block counts as singular if the absolute value of a pivot of `dense_inverse`, or of an eigenvalue of A_b, is at
/// most this fraction of the stencil's 1-norm. The fraction corresponds to the rounding errors of a few hundred
/// operations. A block also counts as singular if the reciprocal of a pivot or an eigenvalue, or an entry of the
/// inverse, overflows.
const SINGULAR_TOLERANCE: f64 = 1e-13;

/// Largest difference between mirror entries that counts as rounding of the input, relative to the stencil's 1-norm.
/// Mirror entries are entries whose offsets differ only in signs. Sine transforms use the mean of mirror entries. A
/// dense inverse would not be more accurate, because its relative error is similar.
const ROUNDING_TOLERANCE: f64 = 4.0 * f64::EPSILON;

pub use crate::options::limits::{MAX_PERMITTED_SCALING_CONDITION, MAX_SCALING_CONDITION};

/// A stencil in the form that sine transforms diagonalize: the diagonal scaling and the scaled even stencil.
#[derive(Clone, Debug, PartialEq)]
pub struct SeparableStencil {
    /// Scaling factors d_x, d_y, d_z.
    pub scaling: [f64; 3],
    /// Entries t(a, b, c) of the scaled stencil for a, b, c in {0, 1}, at index c * 4 + b * 2 + a.
    even_entries: [f64; 8],
    /// 1-norm of the original stencil.
    norm1: f64,
}

impl SeparableStencil {
    /// Converts `stencil` to this form. Returns `None` if the stencil has no such form, or if a scaled entry overflows.
    /// Mirror entries that differ by rounding are replaced by their mean.
    pub fn of(stencil: &Stencil) -> Option<Self> {
        let mirror_entries = |a: i64, b: i64, c: i64| (stencil.entry(-a, -b, -c), stencil.entry(a, b, c));
        let rounding_limit = ROUNDING_TOLERANCE * stencil.norm1();
        let mut scaling = [1.0f64; 3];
        for (d, (lower, upper)) in
            [mirror_entries(1, 0, 0), mirror_entries(0, 1, 0), mirror_entries(0, 0, 1)].into_iter().enumerate()
        {
            // Equal entries need no scaling. With 7 points, a scaling exists if the two entries at opposite offsets
            // have the same sign. With 27 points, entries that differ only by rounding are not scaled either, because
            // their mean is used below.
            if lower == upper || (stencil.point_count == 27 && (lower - upper).abs() <= rounding_limit) {
                continue;
            }
            let ratio = lower / upper;
            if !(ratio > 0.0 && ratio.is_finite()) {
                return None;
            }
            scaling[d] = ratio.sqrt();
        }
        // Factor by which the scaling multiplies the entry at offset (a, b, c).
        let scaling_factor =
            |a: i64, b: i64, c: i64| scaling[0].powi(a as i32) * scaling[1].powi(b as i32) * scaling[2].powi(c as i32);
        let mut even_entries = [0.0; 8];
        for (index, t) in even_entries.iter_mut().enumerate() {
            let (a, b, c) = ((index & 1) as i64, (index >> 1 & 1) as i64, (index >> 2) as i64);
            let mirror_offsets: [(i64, i64, i64); 8] = std::array::from_fn(|signs| {
                let sign = |bit: usize| 1 - 2 * (signs >> bit & 1) as i64;
                (sign(0) * a, sign(1) * b, sign(2) * c)
            });
            // Zero entries are not multiplied by the factor, which may overflow at their offset.
            let scaled_entries = mirror_offsets.map(|(x, y, z)| match stencil.entry(x, y, z) {
                0.0 => 0.0,
                v => v * scaling_factor(x, y, z),
            });
            // The mean is computed pair by pair, so that the mean of equal values is exact.
            let mean = |signs: [f64; 2]| signs[0] + 0.5 * (signs[1] - signs[0]);
            let [p, q, r, signs] = [0, 2, 4, 6].map(|k| mean([scaled_entries[k], scaled_entries[k + 1]]));
            *t = mean([mean([p, q]), mean([r, signs])]);
            if !t.is_finite() {
                return None;
            }
            for ((x, y, z), value) in mirror_offsets.into_iter().zip(scaled_entries) {
                // The bound covers three rounding errors in each of the three powers, and the rounding of the entry
                // itself.
                if (value - *t).abs() > 16.0 * f64::EPSILON * t.abs() + rounding_limit * scaling_factor(x, y, z) {
                    return None;
                }
            }
        }
        Some(Self { scaling, even_entries, norm1: stencil.norm1() })
    }

    /// Returns the condition number of D on a block: the product of max(d, 1/d)^(n-1) over the directions, where n is
    /// the number of cells of the block in a direction.
    pub fn scaling_condition(&self, shape: BlockShape) -> f64 {
        (0..3).map(|d| self.scaling[d].max(1.0 / self.scaling[d]).powi(shape[d] as i32 - 1)).product()
    }

    /// Computes the reciprocals of the diagonal entries of Lambda, times the factors 2 / (n + 1) of the three inverse
    /// transforms (n = bx, by and bz). Entry (p, q, r), counted from 0, is at index `(r*by + q)*bx + p`. Returns an
    /// error if the block is singular.
    pub fn reciprocals(&self, shape: BlockShape) -> Result<Vec<f64>> {
        let [bx, by, bz] = shape;
        let cosine = |p: usize, b: usize| 2.0 * cos_pi(p + 1, b + 1);
        let transform_weight = 8.0 / ((bx + 1) * (by + 1) * (bz + 1)) as f64;
        let mut values = zeroed(bx * by * bz, "eigenvalues")?;
        for r in 0..bz {
            for q in 0..by {
                for p in 0..bx {
                    let (x, y, z) = (cosine(p, bx), cosine(q, by), cosine(r, bz));
                    let t = &self.even_entries;
                    let plane_sum = |c: usize| (t[c] + t[c + 1] * x) + (t[c + 2] + t[c + 3] * x) * y;
                    let lambda = plane_sum(0) + plane_sum(4) * z;
                    if lambda.abs() <= SINGULAR_TOLERANCE * self.norm1 || !(1.0 / lambda).is_finite() {
                        return Err(singular_error(shape));
                    }
                    values[(r * by + q) * bx + p] = transform_weight / lambda;
                }
            }
        }
        Ok(values)
    }

    /// Computes the diagonals of D^-1 and D on a block. The entry of cell (i, j, k) is at index `(k*by + j)*bx + i`.
    /// Returns `None` if D is the identity.
    pub fn scalings(&self, shape: BlockShape) -> Result<Option<(Vec<f64>, Vec<f64>)>> {
        if self.scaling == [1.0; 3] {
            return Ok(None);
        }
        let [bx, by, bz] = shape;
        let (mut inverse_diagonal, mut diagonal) =
            (zeroed(bx * by * bz, "scalings")?, zeroed(bx * by * bz, "scalings")?);
        // The exponent is zero in the middle of the block. This choice minimizes the range of the powers.
        let scaling_power = |d: usize, i: usize, b: usize| self.scaling[d].powf(i as f64 - (b - 1) as f64 / 2.0);
        for k in 0..bz {
            for j in 0..by {
                for i in 0..bx {
                    let d = scaling_power(0, i, bx) * scaling_power(1, j, by) * scaling_power(2, k, bz);
                    inverse_diagonal[(k * by + j) * bx + i] = 1.0 / d;
                    diagonal[(k * by + j) * bx + i] = d;
                }
            }
        }
        Ok(Some((inverse_diagonal, diagonal)))
    }
}

/// Computes cos(p pi / n); the result is exactly 0 for 2 p = n.
fn cos_pi(p: usize, n: usize) -> f64 {
    if 2 * p == n { 0.0 } else { (std::f64::consts::PI * p as f64 / n as f64).cos() }
}

/// Computes sin(p pi / n) for p >= 0. Arguments are reduced to the first quarter of the period, so that equal sines are
/// bitwise identical.
pub fn sin_pi(p: usize, n: usize) -> f64 {
    let p = p % (2 * n);
    if p > n {
        return -sin_pi(p - n, n);
    }
    let p = p.min(n - p);
    if p == 0 { 0.0 } else { (std::f64::consts::PI * p as f64 / n as f64).sin() }
}

fn singular_error(shape: BlockShape) -> Error {
    // `Smoother::add_inverses` adds the location of a block of this shape to the message.
    let [x, y, z] = shape;
    Error::Matrix { reason: format!("the block of {x} x {y} x {z} cells"), location: None, text_after: " is singular" }
}

/// Assembles A_b for a block of this shape. The matrix is dense and stored by rows.
fn assemble_block(stencil: &Stencil, shape: BlockShape) -> Result<Vec<f64>> {
    let [bx, by, bz] = shape.map(|b| b as i64);
    let n = (bx * by * bz) as usize;
    let mut matrix = zeroed(n * n, "a block")?;
    for row in 0..n as i64 {
        let (i, j, k) = (row % bx, row / bx % by, row / bx / by);
        for c in -1..=1 {
            for b in -1..=1 {
                for a in -1..=1 {
                    let (x, y, z) = (i + a, j + b, k + c);
                    if (0..bx).contains(&x) && (0..by).contains(&y) && (0..bz).contains(&z) {
                        matrix[row as usize * n + ((z * by + y) * bx + x) as usize] = stencil.entry(a, b, c);
                    }
                }
            }
        }
    }
    Ok(matrix)
}

/// Computes the inverse of A_b for a block of this shape, as a dense matrix stored by rows. Returns an error if A_b is
/// singular. The cost is 2 n^3 flops, where n is the number of cells of the block.
pub fn dense_inverse(stencil: &Stencil, shape: BlockShape) -> Result<Vec<f64>> {
    let n: usize = shape.iter().product();
    let mut a = assemble_block(stencil, shape)?;
    // Gauss-Jordan elimination in place with row exchanges. A row exchange of the matrix is a column exchange of its
    // inverse.
    let mut exchanged_rows = collected(0..n, "a block")?;
    for p in 0..n {
        let pivot_row = (p..n).max_by(|&r, &s| a[r * n + p].abs().total_cmp(&a[s * n + p].abs())).unwrap_or(p);
        if a[pivot_row * n + p].abs() <= SINGULAR_TOLERANCE * stencil.norm1() {
            return Err(singular_error(shape));
        }
        exchanged_rows[p] = pivot_row;
        if pivot_row != p {
            for c in 0..n {
                a.swap(p * n + c, pivot_row * n + c);
            }
        }
        let pivot = 1.0 / a[p * n + p];
        if !pivot.is_finite() {
            return Err(singular_error(shape));
        }
        a[p * n + p] = 1.0;
        for v in &mut a[p * n..][..n] {
            *v *= pivot;
        }
        let (rows_above, rows_from_pivot) = a.split_at_mut(p * n);
        let (pivot_values, rows_below) = rows_from_pivot.split_at_mut(n);
        for row in rows_above.chunks_exact_mut(n).chain(rows_below.chunks_exact_mut(n)) {
            let factor = std::mem::replace(&mut row[p], 0.0);
            if factor != 0.0 {
                for (v, q) in row.iter_mut().zip(&*pivot_values) {
                    *v -= factor * q;
                }
            }
        }
    }
    for p in (0..n).rev() {
        let q = exchanged_rows[p];
        if q != p {
            for r in 0..n {
                a.swap(r * n + p, r * n + q);
            }
        }
    }
    if a.iter().any(|v| !v.is_finite()) {
        return Err(singular_error(shape));
    }
    Ok(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes A_b^-1 r by the formula of the module documentation, term by term.
    fn apply_by_sine_transforms(form: &SeparableStencil, shape: BlockShape, r: &[f64]) -> Vec<f64> {
        let [bx, by, bz] = shape;
        let n = bx * by * bz;
        let cell_at = |p: usize| (p % bx, p / bx % by, p / bx / by);
        let s = |p: usize, q: usize| {
            let ((i, j, k), (x, y, z)) = (cell_at(p), cell_at(q));
            sin_pi((i + 1) * (x + 1), bx + 1) * sin_pi((j + 1) * (y + 1), by + 1) * sin_pi((k + 1) * (z + 1), bz + 1)
        };
        let reciprocals = form.reciprocals(shape).unwrap();
        let scalings = form.scalings(shape).unwrap().unwrap_or((vec![1.0; n], vec![1.0; n]));
        let transformed: Vec<f64> =
            (0..n).map(|p| reciprocals[p] * (0..n).map(|q| s(p, q) * scalings.0[q] * r[q]).sum::<f64>()).collect();
        (0..n).map(|p| scalings.1[p] * (0..n).map(|q| s(p, q) * transformed[q]).sum::<f64>()).collect()
    }

    fn finite_element_stencil() -> Stencil {
        let (stiffness, mass) = ([-1.0, 2.0, -1.0], [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0]);
        let mut values = [0.0; 27];
        for (p, v) in values.iter_mut().enumerate() {
            let (a, b, c) = (p % 3, p / 3 % 3, p / 9);
            *v = stiffness[a] * mass[b] * mass[c] + mass[a] * stiffness[b] * mass[c] + mass[a] * mass[b] * stiffness[c];
        }
        Stencil::new(&values)
    }

    #[test]
    fn dense_and_transform_inverses_invert_blocks() {
        let stencils = [
            Stencil::new(&[6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]),
            Stencil::new(&[2.22, -1.0, -1.0, -0.1, -0.1, -0.01, -0.01]),
            Stencil::new(&[6.0, -1.5, -0.5, -1.25, -0.75, -1.0, -1.0]),
            finite_element_stencil(),
        ];
        for stencil in &stencils {
            for shape in [[1, 1, 1], [2, 2, 2], [4, 2, 3], [5, 1, 4], [7, 3, 2], [4, 4, 4]] {
                let n: usize = shape.iter().product();
                let a = assemble_block(stencil, shape).unwrap();
                let inverse = dense_inverse(stencil, shape).unwrap();
                let form = SeparableStencil::of(stencil).expect("diagonalizable");
                for column in 0..n {
                    let e: Vec<f64> = (0..n).map(|p| f64::from(u8::from(p == column))).collect();
                    let x = apply_by_sine_transforms(&form, shape, &e);
                    for row in 0..n {
                        let product: f64 = (0..n).map(|q| a[row * n + q] * inverse[q * n + column]).sum();
                        // Tolerance: rounding error times a condition number below 100.
                        assert!((product - e[row]).abs() < 1e-13, "{shape:?} {product}");
                        assert!((x[row] - inverse[row * n + column]).abs() < 1e-13, "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn stencils_without_diagonal_form_are_rejected() {
        // Upwind differences, entries of opposite sign, and a mixed derivative.
        assert!(SeparableStencil::of(&Stencil::new(&[4.0, -2.0, 0.0, -1.0, -1.0, -1.0, -1.0])).is_none());
        assert!(SeparableStencil::of(&Stencil::new(&[4.0, -2.0, 0.5, -1.0, -1.0, -1.0, -1.0])).is_none());
        let mut mixed_derivative = finite_element_stencil();
        mixed_derivative.entries[entry_index(1, 1, 0)] += 0.1;
        mixed_derivative.entries[entry_index(-1, -1, 0)] += 0.1;
        assert!(SeparableStencil::of(&mixed_derivative).is_none());
        // Mirror entries that differ by a thousand rounding errors are not averaged: the stencil is not even.
        let mut skew_stencil = finite_element_stencil();
        skew_stencil.entries[entry_index(1, 1, 1)] *= 1.0 + 1e-11;
        assert!(SeparableStencil::of(&skew_stencil).is_none());
        // With strong convection the scaling exists, but is ill-conditioned.
        let strong_convection =
            SeparableStencil::of(&Stencil::new(&[6.0, -1.99, -0.01, -1.0, -1.0, -1.0, -1.0])).unwrap();
        assert!(
            strong_convection.scaling_condition([8; 3]) > MAX_PERMITTED_SCALING_CONDITION
                && strong_convection.scaling_condition([2; 3]) < MAX_SCALING_CONDITION
        );
        // `SeparableStencil::of` returns `None` if the even part of the stencil overflows.
        let mut overflowing = [0.0; 27];
        (overflowing[13], overflowing[26]) = (1e151, -1e-5);
        for (lower, upper) in [(12, 14), (10, 16), (4, 22)] {
            (overflowing[lower], overflowing[upper]) = (-1e150, -1e-150);
        }
        assert!(SeparableStencil::of(&Stencil::new(&overflowing)).is_none());
        overflowing[26] = 0.0;
        assert!(SeparableStencil::of(&Stencil::new(&overflowing)).is_some());
    }

    /// Stencils whose entries are even up to rounding are replaced by their even part, which is diagonalized. The
    /// neglected odd part changes the inverse by less than 1e-13, also for blocks of 8^3 cells.
    #[test]
    fn rounding_errors_of_a_stencil_do_not_count_as_asymmetry() {
        let mut perturbed_face = finite_element_stencil();
        perturbed_face.entries[entry_index(1, 0, 0)] = 1e-17;
        let mut opposite_signs = finite_element_stencil();
        (opposite_signs.entries[entry_index(1, 0, 0)], opposite_signs.entries[entry_index(-1, 0, 0)]) = (3e-17, -1e-17);
        let mut perturbed_corner = finite_element_stencil();
        perturbed_corner.entries[entry_index(-1, 1, 1)] *= 1.0 + 1e-14;
        for stencil in [perturbed_face, opposite_signs, perturbed_corner] {
            let form = SeparableStencil::of(&stencil).expect("diagonalizable");
            assert_eq!(form.scaling, [1.0; 3]);
            for (shape, column_step) in [([4, 2, 3], 1), ([8, 8, 8], 73)] {
                let n: usize = shape.iter().product();
                let inverse = dense_inverse(&stencil, shape).unwrap();
                for column in (0..n).step_by(column_step) {
                    let e: Vec<f64> = (0..n).map(|p| f64::from(u8::from(p == column))).collect();
                    let x = apply_by_sine_transforms(&form, shape, &e);
                    for row in 0..n {
                        assert!((x[row] - inverse[row * n + column]).abs() <= 1e-13, "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn overflowing_reciprocals_are_rejected() {
        let tiny_stencil = Stencil::new(&[6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0].map(|v| v * 1e-310));
        let small_stencil = Stencil::new(&[6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0].map(|v| v * 1e-300));
        for shape in [[1, 1, 1], [3, 2, 2]] {
            assert_eq!(dense_inverse(&tiny_stencil, shape).unwrap_err(), singular_error(shape));
            assert_eq!(
                SeparableStencil::of(&tiny_stencil).unwrap().reciprocals(shape).unwrap_err(),
                singular_error(shape)
            );
            assert!(
                dense_inverse(&small_stencil, shape).is_ok()
                    && SeparableStencil::of(&small_stencil).unwrap().reciprocals(shape).is_ok()
            );
        }
    }

    #[test]
    fn both_inverses_detect_singular_blocks() {
        let zero_center_stencil = Stencil::new(&[0.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
        for shape in [[1, 1, 1], [3, 1, 1]] {
            assert_eq!(dense_inverse(&zero_center_stencil, shape).unwrap_err(), singular_error(shape));
            assert_eq!(
                SeparableStencil::of(&zero_center_stencil).unwrap().reciprocals(shape).unwrap_err(),
                singular_error(shape)
            );
        }
        assert!(dense_inverse(&zero_center_stencil, [2, 1, 1]).is_ok());
        assert!(SeparableStencil::of(&zero_center_stencil).unwrap().reciprocals([2, 1, 1]).is_ok());
    }
}
