//! GMRES(m) for general matrices: minimizes the residual over a Krylov space of up to m dimensions, then restarts.
//!
//! Source: Saad and Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems,
//! SIAM J. Sci. Stat. Comput. 7 (1986). With right preconditioning, r is the residual of A x = b.

use super::{State, may_divide_by};
use crate::base::number::hypot;
use crate::error::{Result, reserve, zeroed};
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId};
use crate::report::StopReason;

/// Returns the number of vectors in addition to x, b and r: `restart` + 1 basis vectors, and z.
pub const fn gmres_vectors(restart: usize) -> usize {
    restart + 2
}

/// Scalars of GMRES, one instance per thread. The caller allocates all instances before the threads start, so that an
/// allocation cannot fail on one thread while the other threads continue.
pub struct GmresScalars {
    restart: usize,
    /// R of the QR factorization of the Hessenberg matrix H, by columns. Column j begins at index j (restart + 1). The
    /// newest column is a column of H until `rotate` transforms it.
    r: Vec<f64>,
    /// Rotated right-hand side of the least-squares problem.
    g: Vec<f64>,
    /// Cosine and sine of each Givens rotation.
    rotations: Vec<(f64, f64)>,
    /// Inner products <v_i, w> of one Gram-Schmidt pass.
    products: Vec<f64>,
    basis_ids: Vec<VectorId>,
    terms: Vec<(f64, VectorId)>,
}

impl GmresScalars {
    /// Allocates the scalars for cycles of `restart` iterations (at least 1).
    ///
    /// # Errors
    /// Returns `Error::NoMemory` if an allocation fails.
    pub fn new(restart: usize) -> Result<Self> {
        let allocation_name = "the Hessenberg matrix of gmres";
        let (restart, rows) = (restart.max(1), restart.max(1) + 1);
        let (mut basis_ids, mut terms) = (Vec::new(), Vec::new());
        reserve(&mut basis_ids, rows, allocation_name)?;
        reserve(&mut terms, rows, allocation_name)?;
        Ok(Self {
            restart,
            r: zeroed(restart * rows, allocation_name)?,
            g: zeroed(rows, allocation_name)?,
            rotations: zeroed(restart, allocation_name)?,
            products: zeroed(rows, allocation_name)?,
            basis_ids,
            terms,
        })
    }

    fn column(&mut self, j: usize) -> &mut [f64] {
        let rows = self.restart + 1;
        &mut self.r[j * rows..(j + 1) * rows]
    }

    /// Applies rotations 0 .. j - 1 to column j. Computes rotation j, which makes the last entry of the column zero,
    /// and applies it to g. Returns false if the diagonal entry of R is zero or not finite.
    fn rotate(&mut self, j: usize) -> bool {
        for i in 0..j {
            let (c, s) = self.rotations[i];
            let column = self.column(j);
            let (a, b) = (column[i], column[i + 1]);
            (column[i], column[i + 1]) = (c * a + s * b, c * b - s * a);
        }
        let column = self.column(j);
        let (a, b) = (column[j], column[j + 1]);
        let rotated_length = hypot(a, b);
        if !may_divide_by(rotated_length) {
            return false;
        }
        (column[j], column[j + 1]) = (rotated_length, 0.0);
        let (c, s) = (a / rotated_length, b / rotated_length);
        self.rotations[j] = (c, s);
        let g = self.g[j];
        (self.g[j], self.g[j + 1]) = (c * g, -s * g);
        true
    }

    /// Computes y = R^-1 g, where R and g are restricted to the first `k` rows and columns. Stores y in g, and the
    /// terms y_i v_i of V y in `terms`.
    fn back_substitute(&mut self, k: usize) {
        let rows = self.restart + 1;
        for i in (0..k).rev() {
            let mut sum = self.g[i];
            for j in i + 1..k {
                sum -= self.r[j * rows + i] * self.g[j];
            }
            self.g[i] = sum / self.r[i * rows + i];
        }
        self.terms.clear();
        self.terms.extend((0..k).map(|i| (self.g[i], basis_vector(i))));
    }
}

fn basis_vector(k: usize) -> VectorId {
    VectorId::work(k)
}

/// Runs GMRES from x and r = b - A x with v_0 = r / norm(r). Iteration j = 0, 1, ... of a cycle computes
///
/// ```text
/// w = A M^-1 v_j
/// twice: h_ij = h_ij + <v_i, w>,   w = w - sum_i <v_i, w> v_i,   for i = 0 .. j, starting from h_ij = 0
/// h_j+1,j = norm(w),   v_j+1 = w / h_j+1,j
/// ```
///
/// Givens rotations transform H to R. They also transform g, at first norm(r) e_0, to the right-hand side of R y = g.
/// The magnitude of the last entry of g is the norm of the residual. At the end of a cycle, x = x + M^-1 V y, where V
/// has the columns v_i, and r is computed as b - A x. The product with A in this residual does not count as an
/// iteration.
///
/// Cost of iteration j: one product with A, one application of M^-1, and j + 1 inner products in each of two passes.
/// Returns `Stagnated` if a diagonal entry of R is zero or not finite, or if w = 0 and the test is not satisfied.
pub fn gmres<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State, scalars: &mut GmresScalars) -> Result<StopReason> {
    loop {
        let (columns, stop_reason) = run_cycle(s, state, scalars);
        scalars.back_substitute(columns);
        update_x(s, columns, scalars);
        let norm = s.residual(Iterate::X).sqrt();
        if let Some(stop_reason) = stop_reason {
            return Ok(stop_reason);
        }
        state.norm = norm;
        if norm <= state.test.threshold || !norm.is_finite() {
            return Ok(state.reason_to_stop().unwrap_or(StopReason::Stagnated));
        }
    }
}

/// Runs one cycle. Returns the number of computed columns of R, and the stop reason if the run ends.
fn run_cycle<S: KrylovSteps + ?Sized>(
    s: &mut S,
    state: &mut State,
    scalars: &mut GmresScalars,
) -> (usize, Option<StopReason>) {
    let z = basis_vector(scalars.restart + 1);
    scalars.g[0] = state.norm;
    s.combine(basis_vector(0), 0.0, &[(1.0 / state.norm, VectorId::R)]);
    for j in 0..scalars.restart {
        let direction = if s.is_unpreconditioned() { basis_vector(j) } else { z };
        if direction == z {
            s.precondition_vector(basis_vector(j), z);
        }
        s.multiply_vector(direction, basis_vector(j + 1));
        let norm = orthogonalize(s, j, scalars);
        if !scalars.rotate(j) {
            return (j, Some(StopReason::Stagnated));
        }
        if let Some(stop_reason) = state.observe(s, scalars.g[j + 1].abs()) {
            return (j + 1, Some(stop_reason));
        }
        if norm == 0.0 {
            return (j + 1, Some(StopReason::Stagnated));
        }
        s.combine(basis_vector(j + 1), 1.0 / norm, &[]);
    }
    (scalars.restart, None)
}

/// Orthogonalizes v_j+1 against v_0 .. v_j by two passes of classical Gram-Schmidt. The second pass makes the vectors
/// orthogonal up to rounding. Stores column j of H, and returns the last entry of this column, norm(v_j+1).
fn orthogonalize<S: KrylovSteps + ?Sized>(s: &mut S, j: usize, scalars: &mut GmresScalars) -> f64 {
    scalars.column(j).fill(0.0);
    scalars.basis_ids.clear();
    scalars.basis_ids.extend((0..=j).map(basis_vector));
    let mut norm2 = 0.0;
    for _ in 0..2 {
        s.inner_products(basis_vector(j + 1), &scalars.basis_ids, &mut scalars.products[..=j]);
        scalars.terms.clear();
        for i in 0..=j {
            let product = scalars.products[i];
            scalars.column(j)[i] += product;
            scalars.terms.push((-product, basis_vector(i)));
        }
        norm2 = s.combine_norm2(basis_vector(j + 1), 1.0, &scalars.terms);
    }
    scalars.column(j)[j + 1] = norm2.sqrt();
    norm2.sqrt()
}

/// Computes x = x + M^-1 V y from the terms of V y in `GmresScalars::terms`. May overwrite r.
fn update_x<S: KrylovSteps + ?Sized>(s: &mut S, columns: usize, scalars: &GmresScalars) {
    if columns == 0 {
        return;
    }
    if s.is_unpreconditioned() {
        s.combine(VectorId::X, 1.0, &scalars.terms);
        return;
    }
    let z = basis_vector(scalars.restart + 1);
    s.combine(VectorId::R, 0.0, &scalars.terms);
    s.precondition_vector(VectorId::R, z);
    s.combine(VectorId::X, 1.0, &[(1.0, z)]);
}
