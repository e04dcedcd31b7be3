//! Factors of ssor, and incomplete factorizations without fill: ILU(0) on the pattern of A, and IC(0) on the pattern of
//! its lower triangle.
//!
//! Sources: Meijerink and van der Vorst, Math. Comp. 31 (1977) 148-162; Saad 2003, algorithm 10.4; for the shifts,
//! Manteuffel, Math. Comp. 34 (1980) 473-497.

use super::backend::Preconditioning;
use super::colours::permute_symmetrically;
use super::preconditioning::ALLOCATION_NAME;
use super::split::{CsrPart, TriangularSplit};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result, format_number, reserve, zeroed};
use crate::options::Preconditioner as Kind;

/// First nonzero shift that is tried; each following shift is twice the previous one.
const FIRST_SHIFT: f64 = 1e-3;

/// The search for a shift ends at the first shift above this value. The shifted diagonal then dominates the
/// off-diagonal entries, unless these exceed the diagonal entries of A by a factor of about 1e16, the inverse of the
/// rounding error of f64.
const LAST_SHIFT: f64 = 1e16;

/// Marks a column without an entry in the current row.
const NO_ENTRY: usize = usize::MAX;

/// Computes ILU(0), row by row (IKJ variant). For row i, w starts as a copy of the row. For each k < i with an entry
/// a_ik:
///
/// ```text
/// l_ik = w_k / d_k,   w_j = w_j - l_ik u_kj for all j > k with an entry a_ij
/// ```
///
/// Then d_i = w_i, and u_ij = w_j for j > i. Up to dropped entries, A = (I + L) (D + U_D), where U_D contains the u_ij.
/// In the form of [`TriangularSplit`], U = D^-1 U_D and G = D^-1.
pub fn ilu0<I: Index>(a: &Csr<I>) -> Result<TriangularSplit<I>> {
    let rows = a.rows();
    let lower_count = a.entries().filter(|&(i, j, _)| j < i).count();
    let (mut lower, mut upper) =
        (CsrPart::with_capacity(rows, lower_count)?, CsrPart::with_capacity(rows, a.val.len() - lower_count)?);
    let (mut pivots, mut position_in_row): (Vec<f64>, Vec<usize>) =
        (zeroed(rows, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?);
    position_in_row.fill(NO_ENTRY);
    let mut w = Vec::new();
    reserve(&mut w, a.longest_row_len(), ALLOCATION_NAME)?;
    for i in 0..rows {
        let (col, val) = a.row_slices(i);
        for (k, j) in col.iter().enumerate() {
            position_in_row[j.to_usize()] = k;
        }
        let diagonal_position = position_in_row[i];
        if diagonal_position == NO_ENTRY {
            let message_end = " has no diagonal entry, which ilu0 needs; use preconditioner=none";
            return Err(Error::at(RRB_ERR_MATRIX, "row ", Location::entry(i), message_end));
        }
        w.clear();
        w.extend_from_slice(val);
        for k in 0..diagonal_position {
            let pivot_row = col[k].to_usize();
            let factor = w[k] / pivots[pivot_row];
            w[k] = factor;
            for (j, u) in upper.row(pivot_row) {
                if position_in_row[j] != NO_ENTRY {
                    w[position_in_row[j]] -= factor * u;
                }
            }
        }
        if w[diagonal_position] == 0.0 || !w[diagonal_position].is_finite() {
            let message_start = format!("ilu0: pivot {} in row ", w[diagonal_position]);
            let message_end = "; reorder the rows, or use preconditioner=jacobi";
            return Err(Error::at(RRB_ERR_MATRIX, message_start, Location::entry(i), message_end));
        }
        pivots[i] = w[diagonal_position];
        lower.push_row(&col[..diagonal_position], &w[..diagonal_position]);
        upper.push_row(&col[diagonal_position + 1..], &w[diagonal_position + 1..]);
        for j in col {
            position_in_row[j.to_usize()] = NO_ENTRY;
        }
    }
    let mut g_diagonal = pivots;
    g_diagonal.iter_mut().for_each(|d| *d = 1.0 / *d);
    for (g, row) in g_diagonal.iter().zip(upper.ptr.windows(2)) {
        upper.val[row[0]..row[1]].iter_mut().for_each(|u| *u *= g);
    }
    Ok(TriangularSplit { lower, upper, g_diagonal })
}

/// The triangular factors of M. IC(0) factorizes A + s diag(A) with the shift s; for other preconditioners, s = 0.
pub struct Factors<I> {
    pub split: TriangularSplit<I>,
    /// The shift s, dimensionless.
    pub shift: f64,
    /// Row and value of the nonpositive pivot with s = 0; `None` if no shift was needed.
    pub nonpositive_pivot: Option<(usize, f64)>,
}

impl<I> From<TriangularSplit<I>> for Factors<I> {
    fn from(split: TriangularSplit<I>) -> Self {
        Self { split, shift: 0.0, nonpositive_pivot: None }
    }
}

/// Computes the factors of ssor, ilu0 or ic0.
pub fn compute_factors<I: Index>(a: &Csr<I>, preconditioning: &Preconditioning) -> Result<Factors<I>> {
    match preconditioning.kind {
        Kind::Ssor => Ok(TriangularSplit::ssor(a, preconditioning.omega)?.into()),
        Kind::Ilu0 => Ok(ilu0(a)?.into()),
        Kind::Ic0 => ic0(a, preconditioning.shift),
        other => Err(Error::Internal(format!("{other:?} has no triangular factors"))),
    }
}

/// Returns the factors of P A P^T in the numbering of A, where row k of P A P^T is row `rows[k]` of A. Errors name rows
/// of A.
pub fn compute_factors_in_order<I: Index>(
    a: &Csr<I>,
    rows: &[I],
    preconditioning: &Preconditioning,
) -> Result<Factors<I>> {
    let Factors { split, shift, nonpositive_pivot } =
        compute_factors(&permute_symmetrically(a, rows)?, preconditioning)
            .map_err(|error| error.with_entry(|k| rows[k].to_usize()))?;
    let nonpositive_pivot = nonpositive_pivot.map(|(k, value)| (rows[k].to_usize(), value));
    Ok(Factors { split: split.renumbered(rows)?, shift, nonpositive_pivot })
}

/// Computes IC(0) of A + s diag(A) with s = `shift`. If `shift` is negative, tries s = 0, 1e-3, 2e-3, 4e-3, ... up to
/// about `LAST_SHIFT`, until all pivots are positive. Returns an error in these cases:
/// - A diagonal entry of A is not positive.
/// - `shift` is not negative, and a pivot is not positive with this shift.
/// - `shift` is negative, and a pivot is not positive with the last shift that is tried.
pub fn ic0<I: Index>(a: &Csr<I>, shift: f64) -> Result<Factors<I>> {
    let diagonal_entry = |i: usize| {
        let (col, val) = a.row_slices(i);
        let before_diagonal = count_before_diagonal(col, i);
        (
            before_diagonal,
            if col.get(before_diagonal).is_some_and(|j| j.to_usize() == i) { val[before_diagonal] } else { 0.0 },
        )
    };
    let mut lower_count = 0;
    for i in 0..a.rows() {
        let (before_diagonal, value) = diagonal_entry(i);
        lower_count += before_diagonal;
        if value <= 0.0 {
            let message_start = format!("ic0 needs a positive diagonal, got {} in row ", format_number(value));
            let message_end = match (0..a.rows()).all(|i| diagonal_entry(i).1 < 0.0) {
                true => "; all diagonal entries are negative: does the matrix hold -A? If so, negate b too",
                false => "; use solver=minres",
            };
            return Err(Error::at(RRB_ERR_MATRIX, message_start, Location::entry(i), message_end));
        }
    }
    let (mut trial_shift, mut first_pivot) = (shift.max(0.0), None);
    loop {
        match factorize_with_shift(a, lower_count, trial_shift)? {
            Ok((lower, g_diagonal)) => {
                let upper = lower.transposed()?;
                return Ok(Factors {
                    split: TriangularSplit { lower, upper, g_diagonal },
                    shift: trial_shift,
                    nonpositive_pivot: first_pivot,
                });
            }
            Err((row, pivot)) if shift >= 0.0 || trial_shift > LAST_SHIFT => {
                let message_start = format!("ic0: pivot {pivot:.3e} with shift={trial_shift} in row ");
                let message_end = match shift >= 0.0 {
                    true => "; use a larger shift, or shift=-1 to find one automatically",
                    false => {
                        "; off-diagonal entries are too large relative to the diagonal: use \
                              preconditioner=jacobi"
                    }
                };
                return Err(Error::at(RRB_ERR_MATRIX, message_start, Location::entry(row), message_end));
            }
            Err(pivot) => {
                first_pivot = first_pivot.or(Some(pivot));
                trial_shift = if trial_shift == 0.0 { FIRST_SHIFT } else { 2.0 * trial_shift };
            }
        }
    }
}

/// Returns the number of entries of a row before the diagonal.
fn count_before_diagonal<I: Index>(col: &[I], row: usize) -> usize {
    col.partition_point(|j| j.to_usize() < row)
}

/// L and the diagonal of D^-1; or, if a pivot is not positive, its row and value.
type FactorOrPivot<I> = std::result::Result<(CsrPart<I>, Vec<f64>), (usize, f64)>;

/// Factorizes A + s diag(A) = (I + L) D (I + L^T) up to dropped entries, row by row, with s = `shift`. L has
/// `lower_count` entries, and each row of A must have a diagonal entry. In the formula of l_ij, k runs over the columns
/// in which both row i and row j of L have entries. In the formula of d_i, k runs over the columns with entries in row
/// i of L:
///
/// ```text
/// l_ij d_j = a_ij - sum over k < j of (l_ik d_k) l_jk
/// d_i = (1 + s) a_ii - sum over k < i of l_ik (l_ik d_k)
/// ```
fn factorize_with_shift<I: Index>(a: &Csr<I>, lower_count: usize, shift: f64) -> Result<FactorOrPivot<I>> {
    let rows = a.rows();
    let mut l = CsrPart::with_capacity(rows, lower_count)?;
    let mut inverse_pivots = zeroed(rows, ALLOCATION_NAME)?;
    // For the current row i: `scaled_row[k]` is l_ik d_k if `is_in_row[k]` is true. Otherwise, l_ik is zero or not
    // known yet.
    let (mut scaled_row, mut is_in_row) = (zeroed(rows, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?);
    for i in 0..rows {
        let (col, val) = a.row_slices(i);
        let (before_diagonal, row_start) = (count_before_diagonal(col, i), l.col.len());
        l.push_row(&col[..before_diagonal], &val[..before_diagonal]);
        let mut pivot = (1.0 + shift) * val[before_diagonal];
        for position in row_start..row_start + before_diagonal {
            let j = l.col[position].to_usize();
            let mut sum = l.val[position];
            for (k, value) in l.row(j) {
                if is_in_row[k] {
                    sum -= scaled_row[k] * value;
                }
            }
            (scaled_row[j], is_in_row[j]) = (sum, true);
            l.val[position] = sum * inverse_pivots[j];
            pivot -= l.val[position] * sum;
        }
        for j in &col[..before_diagonal] {
            is_in_row[j.to_usize()] = false;
        }
        if !pivot.is_finite() || pivot <= 0.0 {
            return Ok(Err((i, pivot)));
        }
        inverse_pivots[i] = 1.0 / pivot;
    }
    Ok(Ok((l, inverse_pivots)))
}
