//! Factors of ssor, and incomplete factorizations without fill: ILU(0) on the pattern of A, and IC(0) on the pattern of
//! its lower triangle.
//!
//! Sources: Meijerink and van der Vorst, Math. Comp. 31 (1977) 148-162; Saad 2003, algorithm 10.4; for the shifts,
//! Manteuffel, Math. Comp. 34 (1980) 473-497.

use super::backend::Preconditioning;
use super::colours::permuted;
use super::preconditioning::WHAT;
use super::split::{Part, Split};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result, reserve, written, zeroed};
use crate::options::Preconditioner as Kind;

/// First shift that is tried; each following shift is twice the previous one.
const FIRST_SHIFT: f64 = 1e-3;

/// The search ends after the first shift above this value. The shifted diagonal then dominates all other entries,
/// unless these exceed the diagonal entries by a factor of about 1e16, the inverse of the rounding error of f64.
const LAST_SHIFT: f64 = 1e16;

/// Marks a column without an entry in the current row.
const NONE: usize = usize::MAX;

/// Computes ILU(0), row by row (IKJ variant). For row i, w starts as a copy of the row. For each k < i with an entry
/// a_ik:
///
/// ```text
/// l_ik = w_k / d_k,   w_j = w_j - l_ik u_kj for all j > k with an entry a_ij
/// ```
///
/// Then d_i = w_i, and u_ij = w_j for j > i. Up to dropped entries, A = (I + L) (D + U_D), where U_D contains the u_ij.
/// In the form of [`Split`], U = D^-1 U_D and G = D^-1.
pub fn ilu0<I: Index>(a: &Csr<I>) -> Result<Split<I>> {
    let rows = a.rows();
    let below = a.entries().filter(|&(i, j, _)| j < i).count();
    let (mut lower, mut upper) = (Part::with_room(rows, below)?, Part::with_room(rows, a.val.len() - below)?);
    let (mut pivots, mut position): (Vec<f64>, Vec<usize>) = (zeroed(rows, WHAT)?, zeroed(rows, WHAT)?);
    position.fill(NONE);
    let mut w = Vec::new();
    reserve(&mut w, a.longest_row_len(), WHAT)?;
    for i in 0..rows {
        let (col, val) = a.slices(i);
        for (k, j) in col.iter().enumerate() {
            position[j.at()] = k;
        }
        let diagonal = position[i];
        if diagonal == NONE {
            let after = " has no diagonal entry, which ilu0 needs; use preconditioner=none";
            return Err(Error::at(RRB_ERR_MATRIX, "row ", Place::entry(i), after));
        }
        w.clear();
        w.extend_from_slice(val);
        for k in 0..diagonal {
            let above = col[k].at();
            let factor = w[k] / pivots[above];
            w[k] = factor;
            for (j, u) in upper.row(above) {
                if position[j] != NONE {
                    w[position[j]] -= factor * u;
                }
            }
        }
        if w[diagonal] == 0.0 || !w[diagonal].is_finite() {
            let before = format!("ilu0: pivot {} in row ", w[diagonal]);
            let after = "; reorder the rows, or use preconditioner=jacobi";
            return Err(Error::at(RRB_ERR_MATRIX, before, Place::entry(i), after));
        }
        pivots[i] = w[diagonal];
        lower.push_row(&col[..diagonal], &w[..diagonal]);
        upper.push_row(&col[diagonal + 1..], &w[diagonal + 1..]);
        for j in col {
            position[j.at()] = NONE;
        }
    }
    let mut scale = pivots;
    scale.iter_mut().for_each(|d| *d = 1.0 / *d);
    for (g, row) in scale.iter().zip(upper.ptr.windows(2)) {
        upper.val[row[0]..row[1]].iter_mut().for_each(|u| *u *= g);
    }
    Ok(Split { lower, upper, scale })
}

/// A splitting of M, with the shift of ic0. IC(0) factorizes A + s diag(A); for other preconditioners, s = 0.
pub struct Factors<I> {
    pub split: Split<I>,
    /// The shift s, dimensionless.
    pub shift: f64,
    /// Row and value of the nonpositive pivot without a shift, if there was one.
    pub pivot: Option<(usize, f64)>,
}

impl<I> From<Split<I>> for Factors<I> {
    fn from(split: Split<I>) -> Self {
        Self { split, shift: 0.0, pivot: None }
    }
}

/// Computes the factors of ssor, ilu0 or ic0.
pub fn factors<I: Index>(a: &Csr<I>, wanted: &Preconditioning) -> Result<Factors<I>> {
    match wanted.kind {
        Kind::Ssor => Ok(Split::ssor(a, wanted.omega)?.into()),
        Kind::Ilu0 => Ok(ilu0(a)?.into()),
        Kind::Ic0 => ic0(a, wanted.shift),
        other => Err(Error::Internal(format!("{other:?} has no triangular factors"))),
    }
}

/// Returns the factors of P A P^T in the numbering of A, where row k of P A P^T is row `rows[k]` of A. Errors name rows
/// of A.
pub fn factors_in_order<I: Index>(a: &Csr<I>, rows: &[I], wanted: &Preconditioning) -> Result<Factors<I>> {
    let Factors { split, shift, pivot } =
        factors(&permuted(a, rows)?, wanted).map_err(|error| error.with_entry(|k| rows[k].at()))?;
    let pivot = pivot.map(|(k, value)| (rows[k].at(), value));
    Ok(Factors { split: split.renamed(rows)?, shift, pivot })
}

/// Computes IC(0) with this shift. If `shift` is negative, tries s = 0, 1e-3, 2e-3, 4e-3, ... up to `LAST_SHIFT`, until
/// all pivots are positive. Returns an error if a diagonal entry is not positive, or if a pivot is not positive with
/// the given shift, or with the last shift that was tried.
pub fn ic0<I: Index>(a: &Csr<I>, shift: f64) -> Result<Factors<I>> {
    let diagonal = |i: usize| {
        let (col, val) = a.slices(i);
        let below = below(col, i);
        (below, if col.get(below).is_some_and(|j| j.at() == i) { val[below] } else { 0.0 })
    };
    let mut entries = 0;
    for i in 0..a.rows() {
        let (below, value) = diagonal(i);
        entries += below;
        if value <= 0.0 {
            let before = format!("ic0 needs a positive diagonal, got {} in row ", written(value));
            let after = match (0..a.rows()).all(|i| diagonal(i).1 < 0.0) {
                true => "; all diagonal entries are negative: does the matrix hold -A? If so, negate b too",
                false => "; use solver=minres",
            };
            return Err(Error::at(RRB_ERR_MATRIX, before, Place::entry(i), after));
        }
    }
    let (mut asked, mut first) = (shift.max(0.0), None);
    loop {
        match factorize(a, entries, asked)? {
            Ok((lower, scale)) => {
                let upper = lower.transposed()?;
                return Ok(Factors { split: Split { lower, upper, scale }, shift: asked, pivot: first });
            }
            Err((row, pivot)) if shift >= 0.0 || asked > LAST_SHIFT => {
                let before = format!("ic0: pivot {pivot:.3e} with shift={asked} in row ");
                let after = match shift >= 0.0 {
                    true => "; use a larger shift, or shift=-1 to find one automatically",
                    false => {
                        "; off-diagonal entries are too large relative to the diagonal: use \
                              preconditioner=jacobi"
                    }
                };
                return Err(Error::at(RRB_ERR_MATRIX, before, Place::entry(row), after));
            }
            Err(pivot) => {
                first = first.or(Some(pivot));
                asked = if asked == 0.0 { FIRST_SHIFT } else { 2.0 * asked };
            }
        }
    }
}

/// Returns the number of entries of a row before the diagonal.
fn below<I: Index>(col: &[I], row: usize) -> usize {
    col.partition_point(|j| j.at() < row)
}

/// L and 1 / D, or a row and its nonpositive pivot.
type Factored<I> = std::result::Result<(Part<I>, Vec<f64>), (usize, f64)>;

/// Factorizes A + s diag(A) = (I + L) D (I + L^T) up to dropped entries, row by row. L has `entries` entries, and each
/// row of A must have a diagonal entry. The first sum covers the columns k in which both row i and row j of L have
/// entries, the second the columns k of row i:
///
/// ```text
/// l_ij d_j = a_ij - sum over k < j of (l_ik d_k) l_jk
/// d_i = (1 + s) a_ii - sum over k < i of l_ik (l_ik d_k)
/// ```
fn factorize<I: Index>(a: &Csr<I>, entries: usize, shift: f64) -> Result<Factored<I>> {
    let rows = a.rows();
    let mut l = Part::with_room(rows, entries)?;
    let mut inverse = zeroed(rows, WHAT)?;
    // For the current row i: `scaled[k]` is l_ik d_k if `is_in[k]` is true. Otherwise, l_ik is zero or not known yet.
    let (mut scaled, mut is_in) = (zeroed(rows, WHAT)?, zeroed(rows, WHAT)?);
    for i in 0..rows {
        let (col, val) = a.slices(i);
        let (below, first) = (below(col, i), l.col.len());
        l.push_row(&col[..below], &val[..below]);
        let mut pivot = (1.0 + shift) * val[below];
        for at in first..first + below {
            let j = l.col[at].at();
            let mut sum = l.val[at];
            for (k, value) in l.row(j) {
                if is_in[k] {
                    sum -= scaled[k] * value;
                }
            }
            (scaled[j], is_in[j]) = (sum, true);
            l.val[at] = sum * inverse[j];
            pivot -= l.val[at] * sum;
        }
        for j in &col[..below] {
            is_in[j.at()] = false;
        }
        if !pivot.is_finite() || pivot <= 0.0 {
            return Ok(Err((i, pivot)));
        }
        inverse[i] = 1.0 / pivot;
    }
    Ok(Ok((l, inverse)))
}
