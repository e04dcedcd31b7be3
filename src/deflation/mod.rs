//! Coarse matrix E = Z^T A Z of deflation, and solvers for systems with E (Tang, Nabben, Vuik and Erlangga 2009;
//! docs/theory/dpcg.md).
//!
//! ```text
//! P = I - A Z E^-1 Z^T,   E_rs = sum over cells i in r, j in s of a_ij
//! ```
//!
//! Each deflation vector is a column of Z. It is one on a region and zero elsewhere. E therefore depends only on the
//! entries a_ij between cells of different regions, and on the row sums e_i = sum_j a_ij of A, which are zero in
//! singular components:
//!
//! ```text
//! E_rs = sum over i in r, j in s of a_ij   (r != s),
//! E_rr = sum over i in r of e_i - sum over i in r, j not in r of a_ij.
//! ```
//!
//! E is stored in row-sum form. Row r of E has the row sum (sum over i in r of e_i) - (sum over i in r and cells j
//! without region of a_ij).
//!
//! If all deflation vectors are kept and some of them add up to a null vector of A, E is singular. The vector u that is
//! one for these deflation vectors and zero for the others is a null vector of E. E + c u u^T replaces E, and results
//! in the same projection P. With several null vectors, one such term is added for each (`NullVectorShift`).

mod assembly;
pub mod cpu;
pub mod regions;

pub use assembly::{BLOCK_COUNT, Contribution, assemble_block};

use crate::base::isa::for_each_isa;
use crate::base::reduce::{dot, max_abs};
use crate::deflation::regions::Regions;
use crate::direct::couplings::Couplings;
use crate::direct::solver::{DirectSolver, envelope_order};
use crate::error::{Error, Result, collected, reset, zeroed};
use assembly::{COARSE_MATRIX_NAME, multiply, sum_contributions};

/// Largest condition number (max_r E_rr) (max_rs |E^-1_rs|) at which the inverse of E is used. If E is singular, the
/// matrix E + c u u^T replaces E in this formula. A product with the inverse increases the rounding error of
/// A Z E^-1 Z^T v by up to the condition number: from 1e-16 to at most about 1e-8. A solve with the factorization
/// L D L^T does not increase this error. The limit is exceeded if row sums of E are nonzero but tiny. It is also
/// exceeded if the couplings of the two phases differ by more than a factor of 1e6, and bubbles are divided into
/// several regions.
pub const MAX_CONDITION_NUMBER: f64 = 1e8;

/// Method that solves systems with E.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// Product with the dense inverse, which has k^2 entries for k deflation vectors. If the condition number exceeds
    /// `MAX_CONDITION_NUMBER`, the factorization L D L^T is used instead.
    Inverse,
    /// Factorization L D L^T within the envelope of E.
    Cholesky,
    /// Conjugate gradients, preconditioned with the diagonal of E.
    Cg,
}

/// E, and a solver for systems with E.
pub struct CoarseMatrix {
    matrix: Couplings,
    shift: NullVectorShift,
    method: SolverState,
}

#[expect(clippy::large_enum_variant, reason = "one per handle")]
enum SolverState {
    Inverse(Vec<f64>),
    Cholesky(DirectSolver),
    Cg { inverse_diagonal: Vec<f64>, tolerance: f64 },
}

/// Workspace of `solve`. With conjugate gradients, each of the `vectors` has one entry per deflation vector; with other
/// methods, they are empty. Each of the `means` has one entry per null vector u.
pub struct SolveScratch {
    vectors: [Vec<f64>; 3],
    means: [Vec<f64>; 2],
}

impl CoarseMatrix {
    /// Assembles E and prepares `solver`.
    ///
    /// - `entries` contains the results of `assemble_block` for all blocks, in any order. They are sorted and summed in
    ///   place.
    /// - `tolerance` is the relative tolerance of conjugate gradients: |g - E t| <= tolerance |g|.
    ///
    /// With `Solver::Inverse`, this function only computes L D L^T. The caller then computes the inverse with
    /// `inverse_columns` and `invert`. Returns an error if E is not positive semidefinite; with `Solver::Cg`, this is
    /// not checked.
    pub fn factorize(entries: &mut [Contribution], regions: &Regions, solver: Solver, tolerance: f64) -> Result<Self> {
        let matrix = sum_contributions(entries, regions.count)?;
        let shift = NullVectorShift::new(&matrix, regions)?;
        let method = match solver {
            Solver::Cg => SolverState::Cg {
                inverse_diagonal: {
                    let invert_diagonal = |d: f64| if d > 0.0 { 1.0 / d } else { 0.0 };
                    collected(
                        (0..matrix.rows()).map(|r| invert_diagonal(shift.shifted_diagonal(&matrix, r))),
                        COARSE_MATRIX_NAME,
                    )?
                },
                tolerance,
            },
            Solver::Cholesky | Solver::Inverse => SolverState::Cholesky(factorize_matrix(&matrix)?),
        };
        Ok(Self { matrix, shift, method })
    }

    /// Computes those columns of the inverse that belong to `thread`, one of `threads` threads, from the factorization
    /// L D L^T. Returns no columns if the method is conjugate gradients.
    pub fn inverse_columns(&self, thread: usize, threads: usize) -> Result<Vec<f64>> {
        let mut columns = Vec::new();
        if let SolverState::Cholesky(factor) = &self.method {
            let groups = factor.groups();
            factor.append_columns(groups * thread / threads..groups * (thread + 1) / threads, &mut columns)?;
        }
        Ok(columns)
    }

    /// Replaces the factorization by the inverse. `columns` contains the columns of all threads in order. If the
    /// condition number of E exceeds `MAX_CONDITION_NUMBER`, the factorization remains in use. Does nothing if the
    /// method is conjugate gradients.
    pub fn invert<'a>(&mut self, columns: impl Iterator<Item = &'a [f64]>) -> Result<()> {
        if let SolverState::Cholesky(factor) = &self.method {
            let mut inverse = factor.inverse(columns)?;
            self.shift.complete_inverse(&mut inverse)?;
            let largest_diagonal =
                (0..self.count()).map(|r| self.shift.shifted_diagonal(&self.matrix, r)).fold(0.0, f64::max);
            if largest_diagonal * max_abs(&inverse) <= MAX_CONDITION_NUMBER {
                self.method = SolverState::Inverse(inverse);
            }
        }
        Ok(())
    }

    /// Returns the number of deflation vectors.
    pub fn count(&self) -> usize {
        self.matrix.rows()
    }

    /// Returns the method in use. It is `Cholesky` instead of `Inverse` before `invert`, and if the condition number
    /// exceeds `MAX_CONDITION_NUMBER`.
    pub fn solver(&self) -> Solver {
        match self.method {
            SolverState::Inverse(_) => Solver::Inverse,
            SolverState::Cholesky(_) => Solver::Cholesky,
            SolverState::Cg { .. } => Solver::Cg,
        }
    }

    /// Returns the inverse by rows; `None` if another method is in use.
    pub fn inverse(&self) -> Option<&[f64]> {
        if let SolverState::Inverse(inverse) = &self.method { Some(inverse) } else { None }
    }

    /// Computes g = E t, without the shift c u u^T.
    #[cfg(test)]
    pub fn multiply(&self, t: &[f64], g: &mut [f64]) {
        multiply(&self.matrix, t, g);
    }

    /// Allocates the workspace of `solve`.
    pub fn scratch(&self) -> Result<SolveScratch> {
        let vector_lengths = match self.method {
            SolverState::Inverse(_) | SolverState::Cholesky(_) => [0; 3],
            SolverState::Cg { .. } => [self.count(); 3],
        };
        let mut vectors = [const { Vec::new() }; 3];
        for (vector, n) in vectors.iter_mut().zip(vector_lengths) {
            reset(vector, n, COARSE_MATRIX_NAME)?;
        }
        let null_vector_count = self.shift.norm2.len();
        Ok(SolveScratch {
            vectors,
            means: [zeroed(null_vector_count, COARSE_MATRIX_NAME)?, zeroed(null_vector_count, COARSE_MATRIX_NAME)?],
        })
    }

    /// Computes t = E^-1 g, or t = (E + c u u^T)^-1 g if E is singular. With conjugate gradients, t is accurate to the
    /// tolerance of `factorize`.
    pub fn solve(&self, g: &[f64], t: &mut [f64], scratch: &mut SolveScratch) {
        match &self.method {
            SolverState::Inverse(inverse) => multiply_rows(inverse, g, t),
            SolverState::Cholesky(factor) => {
                t.copy_from_slice(g);
                let [means_of_g, means_of_t] = &mut scratch.means;
                self.shift.remove_means(t, means_of_g);
                factor.solve(t);
                self.shift.remove_means(t, means_of_t);
                self.shift.add_inverse_shift(t, means_of_g);
            }
            SolverState::Cg { inverse_diagonal, tolerance } => {
                self.conjugate_gradients(inverse_diagonal, *tolerance, g, t, scratch);
            }
        }
    }

    /// Solves (E + c u u^T) t = g by conjugate gradients (Hestenes and Stiefel 1952), preconditioned with the diagonal
    /// D, from t = 0. Stops if the residual r satisfies |r| <= tolerance |g|, if the step length is not finite, or
    /// after 2 k + 1 iterations for k deflation vectors.
    fn conjugate_gradients(
        &self,
        inverse_diagonal: &[f64],
        tolerance: f64,
        g: &[f64],
        t: &mut [f64],
        scratch: &mut SolveScratch,
    ) {
        let [r, p, q] = &mut scratch.vectors;
        t.fill(0.0);
        r.copy_from_slice(g);
        let stop_norm2 = tolerance * tolerance * dot(g, g);
        let mut previous_rho = 0.0;
        // In exact arithmetic, k iterations suffice; rounding errors may require more.
        for iteration in 0..=2 * g.len() {
            if dot(r, r) <= stop_norm2 {
                break;
            }
            // z = D^-1 r is stored in q.
            for ((z, r), d) in q.iter_mut().zip(&*r).zip(inverse_diagonal) {
                *z = d * r;
            }
            let rho = dot(r, q);
            let beta = if iteration == 0 { 0.0 } else { rho / previous_rho };
            for (p, z) in p.iter_mut().zip(&*q) {
                *p = z + beta * if iteration == 0 { 0.0 } else { *p };
            }
            multiply(&self.matrix, p, q);
            self.shift.add_shift_product(p, q, &mut scratch.means[0]);
            let alpha = rho / dot(p, q);
            if !alpha.is_finite() {
                break;
            }
            for (((t, r), p), q) in t.iter_mut().zip(&mut *r).zip(&*p).zip(&*q) {
                *t += alpha * p;
                *r -= alpha * q;
            }
            previous_rho = rho;
        }
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let state_bytes = match &self.method {
            SolverState::Inverse(values) | SolverState::Cg { inverse_diagonal: values, .. } => 8 * values.capacity(),
            SolverState::Cholesky(factor) => factor.bytes(),
        };
        self.matrix.bytes() + self.shift.bytes() + state_bytes
    }
}

/// Factorizes E, without the shifts. A pivot whose absolute value is at most 1e-14 times the diagonal entry is a
/// rounding error: its deflation vector depends linearly on the others. The entry of this vector in every solution is
/// then set to zero. Any other pivot that is not positive and finite is an error.
fn factorize_matrix(matrix: &Couplings) -> Result<DirectSolver> {
    const NEGLIGIBLE: f64 = 1e-14;
    DirectSolver::of(matrix, envelope_order(matrix)?, None, |vector, d| match matrix.diagonal[vector] {
        diagonal if d.abs() <= NEGLIGIBLE * diagonal => Ok(0.0),
        _ if d > 0.0 && d.is_finite() => Ok(1.0 / d),
        diagonal => Err(nonpositive_pivot_error(d, diagonal, vector)),
    })
}

fn nonpositive_pivot_error(d: f64, diagonal: f64, vector: usize) -> Error {
    let reason = format!(
        "the coarse matrix of deflation is not positive definite: pivot {d:e} where its diagonal is {diagonal:e}, \
         vector {vector}; the matrix is indefinite, or its coefficients differ too much for double precision"
    );
    Error::Matrix { reason, location: None, text_after: "" }
}

for_each_isa! {
    /// Computes t_r = sum_s inverse_rs g_s for all rows r of t.
    fn multiply_rows(inverse: &[f64], g: &[f64], t: &mut [f64]) {
        for (t, row) in t.iter_mut().zip(inverse.chunks_exact(g.len().max(1))) {
            *t = dot(row, g);
        }
    }
}

/// Shifts c u u^T, one for each null vector u of E. The entries of u are 1 for the deflation vectors whose sum is a
/// null vector of A, and 0 for all others. No deflation vector belongs to two null vectors. With the pseudo-inverse E^+
/// and k = u^T u,
///
/// ```text
/// (E + c u u^T)^-1 g = E^+ (g - u u^T g / k) + u u^T g / (c k^2).
/// ```
///
/// E^+ is applied only to vectors v orthogonal to u. With the factor, E y = v is solved with one entry of y fixed at
/// zero, because its pivot is zero. Then the mean of y over those entries for which u is one is subtracted from these
/// entries. If u is one for a single deflation vector, the row of E and the column of A Z that belong to this vector
/// are zero. Then c is zero, and the entry of this vector in every solution is set to zero.
#[derive(Default)]
struct NullVectorShift {
    /// For each deflation vector, the number (from 1) of the null vector u whose entry for this vector is 1; 0: none.
    null_vector_of: Vec<u32>,
    /// k = u^T u of each null vector.
    norm2: Vec<f64>,
    /// Factor c of the shift for each null vector.
    c: Vec<f64>,
}

impl NullVectorShift {
    fn new(matrix: &Couplings, regions: &Regions) -> Result<Self> {
        let null_vector_count = regions.surplus_vectors.len();
        let mut shift = Self {
            null_vector_of: collected(regions.null_vector_of.iter().copied(), COARSE_MATRIX_NAME)?,
            norm2: zeroed(null_vector_count, COARSE_MATRIX_NAME)?,
            c: zeroed(null_vector_count, COARSE_MATRIX_NAME)?,
        };
        for (r, &null_vector) in shift.null_vector_of.iter().enumerate() {
            if null_vector > 0 {
                shift.norm2[null_vector as usize - 1] += 1.0;
                shift.c[null_vector as usize - 1] += matrix.diagonal[r];
            }
        }
        // c is the mean of E_rr over the k deflation vectors of u, divided by k. c u u^T and E then have similar
        // magnitude.
        shift.c.iter_mut().zip(&shift.norm2).for_each(|(c, k)| *c /= k * k);
        Ok(shift)
    }

    /// Returns 1 / (c k) for a null vector; zero if c is zero, that is, if the null vector is a single deflation
    /// vector.
    fn inverse_ck(&self, null_vector: usize) -> f64 {
        let c = self.c[null_vector] * self.norm2[null_vector];
        if c > 0.0 { 1.0 / c } else { 0.0 }
    }

    /// Returns the diagonal entry of row r of E + c u u^T.
    fn shifted_diagonal(&self, matrix: &Couplings, r: usize) -> f64 {
        let c = self
            .null_vector_of
            .get(r)
            .map_or(0.0, |&null_vector| if null_vector > 0 { self.c[null_vector as usize - 1] } else { 0.0 });
        matrix.diagonal[r] + c
    }

    /// Computes the mean u^T v / k of v for each null vector u.
    fn compute_means(&self, v: &[f64], means: &mut [f64]) {
        means.fill(0.0);
        for (v, &null_vector) in v.iter().zip(&self.null_vector_of) {
            if null_vector > 0 {
                means[null_vector as usize - 1] += v;
            }
        }
        for (mean, k) in means.iter_mut().zip(&self.norm2) {
            *mean /= k;
        }
    }

    /// Adds `factor_of(u)` times u to v for each null vector u.
    fn add_multiples(&self, v: &mut [f64], factor_of: impl Fn(usize) -> f64) {
        for (v, &null_vector) in v.iter_mut().zip(&self.null_vector_of) {
            if null_vector > 0 {
                *v += factor_of(null_vector as usize - 1);
            }
        }
    }

    /// Computes v = v - u u^T v / k. Stores the subtracted means in `means`.
    fn remove_means(&self, v: &mut [f64], means: &mut [f64]) {
        self.compute_means(v, means);
        self.add_multiples(v, |null_vector| -means[null_vector]);
    }

    /// Computes t = t + u u^T g / (c k^2). `means` contains the means of g.
    fn add_inverse_shift(&self, t: &mut [f64], means: &[f64]) {
        self.add_multiples(t, |null_vector| means[null_vector] * self.inverse_ck(null_vector));
    }

    /// Computes q = q + c u u^T p.
    fn add_shift_product(&self, p: &[f64], q: &mut [f64], means: &mut [f64]) {
        self.compute_means(p, means);
        self.add_multiples(q, |null_vector| self.c[null_vector] * self.norm2[null_vector] * means[null_vector]);
    }

    /// Replaces G = `inverse` by (I - u u^T / k) G (I - u u^T / k) + u u^T / (c k^2). G is the inverse computed with
    /// the factor; for each null vector u, the row and the column of one deflation vector are zero in G.
    fn complete_inverse(&self, inverse: &mut [f64]) -> Result<()> {
        let n = self.null_vector_of.len();
        let mut means = zeroed(self.norm2.len(), COARSE_MATRIX_NAME)?;
        // Each pass subtracts the means from the rows and transposes the matrix.
        for _ in 0..if n > 0 { 2 } else { 0 } {
            for row in inverse.chunks_exact_mut(n) {
                self.remove_means(row, &mut means);
            }
            for r in 0..n {
                (0..r).for_each(|s| inverse.swap(r * n + s, s * n + r));
            }
        }
        for (row, &null_vector) in
            inverse.chunks_exact_mut(n.max(1)).zip(&self.null_vector_of).filter(|(_, null_vector)| **null_vector > 0)
        {
            let shift_value = self.inverse_ck(null_vector as usize - 1) / self.norm2[null_vector as usize - 1];
            row.iter_mut()
                .zip(&self.null_vector_of)
                .filter(|(_, other_null_vector)| **other_null_vector == null_vector)
                .for_each(|(value, _)| *value += shift_value);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        4 * self.null_vector_of.capacity() + 8 * (self.norm2.capacity() + self.c.capacity())
    }
}

#[cfg(test)]
mod tests;
