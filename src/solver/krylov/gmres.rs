//! GMRES(m): the least residual over a Krylov space of up to m dimensions, then again from there.
//!
//! Source: Saad and Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems,
//! SIAM J. Sci. Stat. Comput. 7 (1986); preconditioned from the right, so that r is that of A x = b.

use super::{State, divides};
use crate::backend::steps::vectors::{KrylovSteps, VectorId};
use crate::error::{Result, reserve, zeroed};
use crate::report::StopReason;
use crate::runtime::number::hypot;

/// Vectors beside x, b and r: the basis, and z.
pub const fn gmres_vectors(restart: usize) -> usize {
    restart + 2
}

/// Numbers of a member beside vectors. The caller makes one for each member before the members start: none may find
/// that memory is out while the others go on.
pub struct GmresRoom {
    restart: usize,
    /// R of the Hessenberg matrix, column j at j (restart + 1); the last column is the one in work.
    r: Vec<f64>,
    /// Right-hand side of the least squares problem, rotated.
    g: Vec<f64>,
    /// Cosines and sines.
    rotations: Vec<(f64, f64)>,
    /// <v_i, w> of a pass.
    products: Vec<f64>,
    ids: Vec<VectorId>,
    terms: Vec<(f64, VectorId)>,
}

impl GmresRoom {
    /// For a basis of `restart` vectors (at least 1).
    ///
    /// # Errors
    /// `Error::NoMemory`.
    pub fn new(restart: usize) -> Result<Self> {
        let what = "the Hessenberg matrix of gmres";
        let (restart, rows) = (restart.max(1), restart.max(1) + 1);
        let (mut ids, mut terms) = (Vec::new(), Vec::new());
        reserve(&mut ids, rows, what)?;
        reserve(&mut terms, rows, what)?;
        Ok(Self {
            restart,
            r: zeroed(restart * rows, what)?,
            g: zeroed(rows, what)?,
            rotations: zeroed(restart, what)?,
            products: zeroed(rows, what)?,
            ids,
            terms,
        })
    }

    fn column(&mut self, j: usize) -> &mut [f64] {
        let rows = self.restart + 1;
        &mut self.r[j * rows..(j + 1) * rows]
    }

    /// Rotations 0 .. j - 1 of column j, and rotation j, which makes its last entry zero. False where the column is
    /// zero then, or not finite.
    fn rotate(&mut self, j: usize) -> bool {
        for i in 0..j {
            let (c, s) = self.rotations[i];
            let column = self.column(j);
            let (a, b) = (column[i], column[i + 1]);
            (column[i], column[i + 1]) = (c * a + s * b, c * b - s * a);
        }
        let column = self.column(j);
        let (a, b) = (column[j], column[j + 1]);
        let length = hypot(a, b);
        if !divides(length) {
            return false;
        }
        (column[j], column[j + 1]) = (length, 0.0);
        let (c, s) = (a / length, b / length);
        self.rotations[j] = (c, s);
        let g = self.g[j];
        (self.g[j], self.g[j + 1]) = (c * g, -s * g);
        true
    }

    /// y = R^-1 g of the first `k` columns, as the terms of V y.
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
        self.terms.extend((0..k).map(|i| (self.g[i], v(i))));
    }
}

fn v(k: usize) -> VectorId {
    VectorId::own(k)
}

/// GMRES from x and r = b - A x, v_0 = r / norm(r). Iteration j of a cycle:
///
/// w = A M^-1 v_j, h_ij = <v_i, w> and w = w - V h, twice, h_j+1,j = norm(w), v_j+1 = w / h_j+1,j;
/// Givens rotations take H to R; their right-hand side g ends with the norm of the residual.
///
/// At the end of a cycle x = x + M^-1 V y with R y = g, and r = b - A x, a product that is not counted. An iteration
/// is a product with A, M^-1 and j + 1 inner products in each of two passes. Ends as stagnated where R is singular.
pub fn gmres<S: KrylovSteps + ?Sized>(s: &mut S, at: &mut State, room: &mut GmresRoom) -> Result<StopReason> {
    loop {
        let (columns, end) = cycle(s, at, room);
        room.back_substitute(columns);
        advance(s, columns, room);
        let norm = s.residual().sqrt();
        if let Some(end) = end {
            return Ok(end);
        }
        at.norm = norm;
        if norm <= at.test.threshold || !norm.is_finite() {
            return Ok(at.over().unwrap_or(StopReason::Stagnated));
        }
    }
}

/// A cycle: the columns of R made, and the end if it ends the run.
fn cycle<S: KrylovSteps + ?Sized>(s: &mut S, at: &mut State, room: &mut GmresRoom) -> (usize, Option<StopReason>) {
    let z = v(room.restart + 1);
    room.g[0] = at.norm;
    s.combine(v(0), 0.0, &[(1.0 / at.norm, VectorId::R)]);
    for j in 0..room.restart {
        let from = if s.is_unpreconditioned() { v(j) } else { z };
        if from == z {
            s.precondition_vector(v(j), z);
        }
        s.product(from, v(j + 1));
        let norm = orthogonalize(s, j, room);
        if !room.rotate(j) {
            return (j, Some(StopReason::Stagnated));
        }
        if let Some(end) = at.observe(s, room.g[j + 1].abs()) {
            return (j + 1, Some(end));
        }
        if norm == 0.0 {
            return (j + 1, Some(StopReason::Stagnated));
        }
        s.combine(v(j + 1), 1.0 / norm, &[]);
    }
    (room.restart, None)
}

/// Classical Gram-Schmidt of v_j+1 against v_0 .. v_j, twice: orthogonal to rounding (Giraud, Langou, Rozloznik 2005).
/// Column j of H; returns its last entry.
fn orthogonalize<S: KrylovSteps + ?Sized>(s: &mut S, j: usize, room: &mut GmresRoom) -> f64 {
    room.column(j).fill(0.0);
    room.ids.clear();
    room.ids.extend((0..=j).map(v));
    let mut norm2 = 0.0;
    for _ in 0..2 {
        s.inners(v(j + 1), &room.ids, &mut room.products[..=j]);
        room.terms.clear();
        for i in 0..=j {
            let product = room.products[i];
            room.column(j)[i] += product;
            room.terms.push((-product, v(i)));
        }
        norm2 = s.combine_norm2(v(j + 1), 1.0, &room.terms);
    }
    room.column(j)[j + 1] = norm2.sqrt();
    norm2.sqrt()
}

/// x = x + M^-1 V y; r is spent.
fn advance<S: KrylovSteps + ?Sized>(s: &mut S, columns: usize, room: &GmresRoom) {
    if columns == 0 {
        return;
    }
    if s.is_unpreconditioned() {
        s.combine(VectorId::X, 1.0, &room.terms);
        return;
    }
    let z = v(room.restart + 1);
    s.combine(VectorId::R, 0.0, &room.terms);
    s.precondition_vector(VectorId::R, z);
    s.combine(VectorId::X, 1.0, &[(1.0, z)]);
}
