//! Constant 7- and 27-point stencils in three dimensions, and the exact inverses of their diagonal blocks
//! (docs/theory/smoother.md, "Exact block inverses").
//!
//! A_b is the matrix of a block of bx x by x bz cells: the stencil without the entries that connect cells of the block
//! to cells outside. Suppose that a diagonal scaling d_x^i d_y^j d_z^k makes the stencil even in x, y and z. Then the
//! scaled A_b is a polynomial in the commuting matrices tridiag(1, 0, 1) of the three directions, so that
//!
//! ```text
//! A_b = D S Lambda S^-1 D^-1,   S = sine transforms,   S_pq = sin(p q pi / (b + 1)),   S^-1 = 2 / (b + 1) S,
//! Lambda = sum over a, b, c in {0, 1} of t(a, b, c) (2 cos p pi/(bx+1))^a (2 cos q pi/(by+1))^b (2 cos r pi/(bz+1))^c
//! ```
//!
//! where D is the scaling, t is the scaled stencil and (p, q, r) = 1 .. (bx, by, bz) are the indices of the diagonal
//! entries of Lambda. A 7-point stencil with entries l and u at the offsets -1 and 1 of a direction, where l u > 0, has
//! the scaling d = sqrt(l / u) in this direction. Stencils of finite elements and of the Mehrstellen scheme have d = 1.
//! A dense inverse is used for stencils without such a scaling, or with one that is ill-conditioned on a block.

use crate::error::{Error, Result, collected, zeroed};

/// Stencil entries by offset: `entries[(c+1)*9 + (b+1)*3 + a+1]` is the coefficient of u at (i + a, j + b, k + c).
#[derive(Clone, Debug, PartialEq)]
pub struct Stencil {
    /// All 27 entries; entries outside the stencil are zero.
    pub entries: [f64; 27],
    /// Number of points, 7 or 27.
    pub points: usize,
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
            for (&place, &v) in SEVEN_POINT_INDICES.iter().zip(values) {
                entries[place] = v;
            }
        } else {
            entries.copy_from_slice(values);
        }
        Self { entries, points: values.len() }
    }

    /// Returns the entry of A between a cell and the cell at offset (a, b, c).
    pub fn at(&self, a: i64, b: i64, c: i64) -> f64 {
        self.entries[entry_index(a, b, c)]
    }

    fn norm1(&self) -> f64 {
        self.entries.iter().map(|v| v.abs()).sum()
    }
}

/// Cells of a block in x, y and z; the edge of a patch may truncate the block.
pub type Shape = [usize; 3];

/// A block counts as singular if the absolute value of a pivot of `dense_inverse`, or of an eigenvalue of A_b, is at
/// most this fraction of the stencil's 1-norm. The fraction corresponds to the rounding errors of a few hundred
/// operations. A block also counts as singular if the reciprocal of a pivot or an eigenvalue, or an entry of the
/// inverse, overflows.
const SINGULAR_TOLERANCE: f64 = 1e-13;

/// Largest difference between mirror entries, whose offsets differ only in signs, that counts as rounding of the input.
/// It is relative to the stencil's 1-norm. A dense inverse has a similar relative error, so it would not be more
/// accurate than sine transforms with the mean of the entries.
const ROUNDING_TOLERANCE: f64 = 4.0 * f64::EPSILON;

pub use crate::options::limits::{MOST_SCALING_CONDITION, PERMITTED_SCALING_CONDITION};

/// A stencil in the form that sine transforms diagonalize: the diagonal scaling and the scaled even stencil.
#[derive(Clone, Debug, PartialEq)]
pub struct Separable {
    /// Scaling factors d_x, d_y, d_z.
    pub scaling: [f64; 3],
    /// Scaled stencil t(|a|, |b|, |c|) at `|c| * 4 + |b| * 2 + |a|`.
    even: [f64; 8],
    /// 1-norm of the original stencil.
    norm1: f64,
}

impl Separable {
    /// Converts `stencil` to this form, or returns `None` if it has no such form or if a scaled entry overflows. Mirror
    /// entries that differ by rounding are replaced by their mean.
    pub fn of(stencil: &Stencil) -> Option<Self> {
        let pair = |a: i64, b: i64, c: i64| (stencil.at(-a, -b, -c), stencil.at(a, b, c));
        let rounding = ROUNDING_TOLERANCE * stencil.norm1();
        let mut scaling = [1.0f64; 3];
        for (d, (lower, upper)) in [pair(1, 0, 0), pair(0, 1, 0), pair(0, 0, 1)].into_iter().enumerate() {
            // Equal entries need no scaling. With 7 points, a scaling exists for any two opposite entries of the same
            // sign. With 27 points, entries that differ only by rounding are not scaled either: their mean is used
            // below.
            if lower == upper || (stencil.points == 27 && (lower - upper).abs() <= rounding) {
                continue;
            }
            let ratio = lower / upper;
            if !(ratio > 0.0 && ratio.is_finite()) {
                return None;
            }
            scaling[d] = ratio.sqrt();
        }
        // Factor by which the scaling multiplies the entry at offset (a, b, c).
        let factor =
            |a: i64, b: i64, c: i64| scaling[0].powi(a as i32) * scaling[1].powi(b as i32) * scaling[2].powi(c as i32);
        let mut even = [0.0; 8];
        for (place, t) in even.iter_mut().enumerate() {
            let (a, b, c) = ((place & 1) as i64, (place >> 1 & 1) as i64, (place >> 2) as i64);
            let images: [(i64, i64, i64); 8] = std::array::from_fn(|s| {
                let sign = |bit: usize| 1 - 2 * (s >> bit & 1) as i64;
                (sign(0) * a, sign(1) * b, sign(2) * c)
            });
            // Zero entries are not multiplied by the factor, which may overflow at their offset.
            let scaled = images.map(|(x, y, z)| match stencil.at(x, y, z) {
                0.0 => 0.0,
                v => v * factor(x, y, z),
            });
            // The mean is computed pair by pair, so that the mean of equal values is exact.
            let mean = |s: [f64; 2]| s[0] + 0.5 * (s[1] - s[0]);
            let [p, q, r, s] = [0, 2, 4, 6].map(|k| mean([scaled[k], scaled[k + 1]]));
            *t = mean([mean([p, q]), mean([r, s])]);
            if !t.is_finite() {
                return None;
            }
            for ((x, y, z), value) in images.into_iter().zip(scaled) {
                // The bound covers three rounding errors in each of the three powers, and the rounding of the entry
                // itself.
                if (value - *t).abs() > 16.0 * f64::EPSILON * t.abs() + rounding * factor(x, y, z) {
                    return None;
                }
            }
        }
        Some(Self { scaling, even, norm1: stencil.norm1() })
    }

    /// Returns the condition number of D on a block: the product of max(d, 1/d)^(b-1) over the directions.
    pub fn scaling_condition(&self, shape: Shape) -> f64 {
        (0..3).map(|d| self.scaling[d].max(1.0 / self.scaling[d]).powi(shape[d] as i32 - 1)).product()
    }

    /// Computes Lambda^-1 times the factors 2 / (b + 1) of the three inverse transforms, at `(r*by + q)*bx + p`, where
    /// p, q and r count from 0. Returns an error if the block is singular.
    pub fn reciprocals(&self, shape: Shape) -> Result<Vec<f64>> {
        let [bx, by, bz] = shape;
        let cosine = |p: usize, b: usize| 2.0 * cos_pi(p + 1, b + 1);
        let weight = 8.0 / ((bx + 1) * (by + 1) * (bz + 1)) as f64;
        let mut values = zeroed(bx * by * bz, "eigenvalues")?;
        for r in 0..bz {
            for q in 0..by {
                for p in 0..bx {
                    let (x, y, z) = (cosine(p, bx), cosine(q, by), cosine(r, bz));
                    let t = &self.even;
                    let plane = |c: usize| (t[c] + t[c + 1] * x) + (t[c + 2] + t[c + 3] * x) * y;
                    let lambda = plane(0) + plane(4) * z;
                    if lambda.abs() <= SINGULAR_TOLERANCE * self.norm1 || !(1.0 / lambda).is_finite() {
                        return Err(singular_error(shape));
                    }
                    values[(r * by + q) * bx + p] = weight / lambda;
                }
            }
        }
        Ok(values)
    }

    /// Computes the diagonals of D^-1 and D on a block, at `(k*by + j)*bx + i`; returns `None` if D is the identity.
    pub fn scalings(&self, shape: Shape) -> Result<Option<(Vec<f64>, Vec<f64>)>> {
        if self.scaling == [1.0; 3] {
            return Ok(None);
        }
        let [bx, by, bz] = shape;
        let (mut before, mut after) = (zeroed(bx * by * bz, "scalings")?, zeroed(bx * by * bz, "scalings")?);
        // The exponent is zero in the middle of the block. This choice minimizes the range of the powers.
        let power = |d: usize, i: usize, b: usize| self.scaling[d].powf(i as f64 - (b - 1) as f64 / 2.0);
        for k in 0..bz {
            for j in 0..by {
                for i in 0..bx {
                    let d = power(0, i, bx) * power(1, j, by) * power(2, k, bz);
                    before[(k * by + j) * bx + i] = 1.0 / d;
                    after[(k * by + j) * bx + i] = d;
                }
            }
        }
        Ok(Some((before, after)))
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

fn singular_error(shape: Shape) -> Error {
    // The caller adds the location of a block of this shape to the message.
    let [x, y, z] = shape;
    Error::Matrix { reason: format!("the block of {x} x {y} x {z} cells"), place: None, then: " is singular" }
}

/// Assembles A_b for a shape, stored by rows.
fn block_matrix(stencil: &Stencil, shape: Shape) -> Result<Vec<f64>> {
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
                        matrix[row as usize * n + ((z * by + y) * bx + x) as usize] = stencil.at(a, b, c);
                    }
                }
            }
        }
    }
    Ok(matrix)
}

/// Computes the dense inverse of the block of a shape, stored by rows. Returns an error if the block is singular. Cost:
/// 2 n^3 flops for n = bx by bz.
pub fn dense_inverse(stencil: &Stencil, shape: Shape) -> Result<Vec<f64>> {
    let n: usize = shape.iter().product();
    let mut a = block_matrix(stencil, shape)?;
    // Gauss-Jordan elimination in place with row exchanges. A row exchange of the matrix is a column exchange of its
    // inverse.
    let mut exchanged = collected(0..n, "a block")?;
    for p in 0..n {
        let pivot_row = (p..n).max_by(|&r, &s| a[r * n + p].abs().total_cmp(&a[s * n + p].abs())).unwrap_or(p);
        if a[pivot_row * n + p].abs() <= SINGULAR_TOLERANCE * stencil.norm1() {
            return Err(singular_error(shape));
        }
        exchanged[p] = pivot_row;
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
        let (above, rest) = a.split_at_mut(p * n);
        let (pivot_values, below) = rest.split_at_mut(n);
        for row in above.chunks_exact_mut(n).chain(below.chunks_exact_mut(n)) {
            let factor = std::mem::replace(&mut row[p], 0.0);
            if factor != 0.0 {
                for (v, q) in row.iter_mut().zip(&*pivot_values) {
                    *v -= factor * q;
                }
            }
        }
    }
    for p in (0..n).rev() {
        let q = exchanged[p];
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
    fn apply_by_sine_transforms(form: &Separable, shape: Shape, r: &[f64]) -> Vec<f64> {
        let [bx, by, bz] = shape;
        let n = bx * by * bz;
        let at = |p: usize| (p % bx, p / bx % by, p / bx / by);
        let s = |p: usize, q: usize| {
            let ((i, j, k), (x, y, z)) = (at(p), at(q));
            sin_pi((i + 1) * (x + 1), bx + 1) * sin_pi((j + 1) * (y + 1), by + 1) * sin_pi((k + 1) * (z + 1), bz + 1)
        };
        let reciprocals = form.reciprocals(shape).unwrap();
        let scalings = form.scalings(shape).unwrap().unwrap_or((vec![1.0; n], vec![1.0; n]));
        let hat: Vec<f64> =
            (0..n).map(|p| reciprocals[p] * (0..n).map(|q| s(p, q) * scalings.0[q] * r[q]).sum::<f64>()).collect();
        (0..n).map(|p| scalings.1[p] * (0..n).map(|q| s(p, q) * hat[q]).sum::<f64>()).collect()
    }

    fn finite_element_stencil() -> Stencil {
        let (k, m) = ([-1.0, 2.0, -1.0], [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0]);
        let mut values = [0.0; 27];
        for (p, v) in values.iter_mut().enumerate() {
            let (a, b, c) = (p % 3, p / 3 % 3, p / 9);
            *v = k[a] * m[b] * m[c] + m[a] * k[b] * m[c] + m[a] * m[b] * k[c];
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
                let a = block_matrix(stencil, shape).unwrap();
                let inverse = dense_inverse(stencil, shape).unwrap();
                let form = Separable::of(stencil).expect("diagonalizable");
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
        assert!(Separable::of(&Stencil::new(&[4.0, -2.0, 0.0, -1.0, -1.0, -1.0, -1.0])).is_none());
        assert!(Separable::of(&Stencil::new(&[4.0, -2.0, 0.5, -1.0, -1.0, -1.0, -1.0])).is_none());
        let mut mixed = finite_element_stencil();
        mixed.entries[entry_index(1, 1, 0)] += 0.1;
        mixed.entries[entry_index(-1, -1, 0)] += 0.1;
        assert!(Separable::of(&mixed).is_none());
        // Mirror entries that differ by a thousand rounding errors are not averaged: the stencil is not even.
        let mut skew = finite_element_stencil();
        skew.entries[entry_index(1, 1, 1)] *= 1.0 + 1e-11;
        assert!(Separable::of(&skew).is_none());
        // With strong convection the scaling exists, but is ill-conditioned.
        let strong = Separable::of(&Stencil::new(&[6.0, -1.99, -0.01, -1.0, -1.0, -1.0, -1.0])).unwrap();
        assert!(
            strong.scaling_condition([8; 3]) > PERMITTED_SCALING_CONDITION
                && strong.scaling_condition([2; 3]) < MOST_SCALING_CONDITION
        );
        // A stencil whose even part overflows has no form.
        let mut wild = [0.0; 27];
        (wild[13], wild[26]) = (1e151, -1e-5);
        for (low, high) in [(12, 14), (10, 16), (4, 22)] {
            (wild[low], wild[high]) = (-1e150, -1e-150);
        }
        assert!(Separable::of(&Stencil::new(&wild)).is_none());
        wild[26] = 0.0;
        assert!(Separable::of(&Stencil::new(&wild)).is_some());
    }

    /// Stencils whose entries are even up to rounding are replaced by their even part, which is diagonalized. The
    /// neglected odd part changes the inverse by less than 1e-13, also for blocks of 8^3 cells.
    #[test]
    fn rounding_errors_of_a_stencil_do_not_count_as_asymmetry() {
        let mut face = finite_element_stencil();
        face.entries[entry_index(1, 0, 0)] = 1e-17;
        let mut signs = finite_element_stencil();
        (signs.entries[entry_index(1, 0, 0)], signs.entries[entry_index(-1, 0, 0)]) = (3e-17, -1e-17);
        let mut corner = finite_element_stencil();
        corner.entries[entry_index(-1, 1, 1)] *= 1.0 + 1e-14;
        for stencil in [face, signs, corner] {
            let form = Separable::of(&stencil).expect("diagonalizable");
            assert_eq!(form.scaling, [1.0; 3]);
            for (shape, stride) in [([4, 2, 3], 1), ([8, 8, 8], 73)] {
                let n: usize = shape.iter().product();
                let inverse = dense_inverse(&stencil, shape).unwrap();
                for column in (0..n).step_by(stride) {
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
    fn reciprocals_are_finite() {
        let tiny = Stencil::new(&[6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0].map(|v| v * 1e-310));
        let small = Stencil::new(&[6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0].map(|v| v * 1e-300));
        for shape in [[1, 1, 1], [3, 2, 2]] {
            assert_eq!(dense_inverse(&tiny, shape).unwrap_err(), singular_error(shape));
            assert_eq!(Separable::of(&tiny).unwrap().reciprocals(shape).unwrap_err(), singular_error(shape));
            assert!(dense_inverse(&small, shape).is_ok() && Separable::of(&small).unwrap().reciprocals(shape).is_ok());
        }
    }

    #[test]
    fn both_inverses_detect_singular_blocks() {
        let zero = Stencil::new(&[0.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
        for shape in [[1, 1, 1], [3, 1, 1]] {
            assert_eq!(dense_inverse(&zero, shape).unwrap_err(), singular_error(shape));
            assert_eq!(Separable::of(&zero).unwrap().reciprocals(shape).unwrap_err(), singular_error(shape));
        }
        assert!(dense_inverse(&zero, [2, 1, 1]).is_ok());
        assert!(Separable::of(&zero).unwrap().reciprocals([2, 1, 1]).is_ok());
    }
}
