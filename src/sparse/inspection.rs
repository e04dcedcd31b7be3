//! Properties of a matrix that guide the choice of a method: symmetry, empty rows and columns, diagonal entries, and
//! diagonal dominance.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::memory::check_available;
use crate::base::workers::Workers;
use crate::error::{Result, push, zeroed};
use crate::options::{Dominance, Triangle};

/// Name of an allocation in error messages.
const WHAT: &str = "an inspection of a matrix";

/// Relative tolerance for the symmetry of entries; see `is_mirrored`.
const SYMMETRY_TOLERANCE: f64 = 1e-12;

/// An entry a_ij that differs from a_ji.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asymmetry {
    pub i: usize,
    pub j: usize,
    pub value: f64,
    /// The value of a_ji.
    pub mirrored: f64,
}

/// Properties of a square matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inspection {
    /// First entry a_ij that differs from a_ji by more than rounding, in the order of the rows; `None` if A is
    /// symmetric.
    pub asymmetry: Option<Asymmetry>,
    /// Whether A = A^T bitwise.
    pub exactly_symmetric: bool,
    /// First row without nonzero entries.
    pub empty_row: Option<usize>,
    /// First column without nonzero entries.
    pub empty_column: Option<usize>,
    /// First row with a zero or missing diagonal entry.
    pub first_zero_diagonal: Option<usize>,
    /// First row with a nonpositive or missing diagonal entry.
    pub first_not_positive: Option<usize>,
    /// Whether nonzero entries exist below the diagonal.
    pub has_lower: bool,
    /// Whether nonzero entries exist above the diagonal.
    pub has_upper: bool,
    /// Infinity norm of A: max_i sum_j |a_ij|.
    pub infinity_norm: f64,
    pub rows: usize,
    /// Number of nonzero off-diagonal entries.
    pub off_diagonal: usize,
    /// Number of negative off-diagonal entries.
    pub negative: usize,
}

impl Inspection {
    /// Returns whether all off-diagonal entries are zero.
    pub fn is_diagonal(&self) -> bool {
        !self.has_lower && !self.has_upper
    }

    /// Returns whether more than half of the nonzero off-diagonal entries are negative. This holds for discretizations
    /// of -div(k grad u): all of these entries are negative on a grid, and two thirds of them on tetrahedra.
    pub fn is_mostly_negative(&self) -> bool {
        2 * self.negative > self.off_diagonal
    }

    /// Returns the triangles with nonzero off-diagonal entries; `Both` for a diagonal matrix.
    pub fn triangle(&self) -> Triangle {
        match (self.has_lower, self.has_upper) {
            (true, false) => Triangle::Lower,
            (false, true) => Triangle::Upper,
            _ => Triangle::Both,
        }
    }
}

impl<I: Index> Csr<I> {
    /// Computes the properties of a square matrix. Cost: two passes over the entries, and 9 bytes per row.
    pub fn inspect(&self) -> Result<Inspection> {
        let rows = self.rows();
        check_available(rows as u128 * 9, WHAT)?;
        let (asymmetry, exactly_symmetric) = self.asymmetry()?;
        let mut seen = Inspection { asymmetry, exactly_symmetric, rows, ..Inspection::default() };
        let mut filled = zeroed(rows, WHAT)?;
        for i in 0..rows {
            let (mut sum, mut diagonal) = (0.0, 0.0);
            for (j, a) in self.row(i).filter(|(_, a)| *a != 0.0) {
                sum += a.abs();
                filled[j] = true;
                seen.has_lower |= j < i;
                seen.has_upper |= j > i;
                seen.off_diagonal += usize::from(i != j);
                seen.negative += usize::from(i != j && a < 0.0);
                if i == j {
                    diagonal = a;
                }
            }
            let first = |seen: &mut Option<usize>, is: bool| {
                if is && seen.is_none() {
                    *seen = Some(i);
                }
            };
            first(&mut seen.empty_row, sum == 0.0);
            first(&mut seen.first_zero_diagonal, diagonal == 0.0);
            first(&mut seen.first_not_positive, diagonal <= 0.0);
            seen.infinity_norm = seen.infinity_norm.max(sum);
        }
        seen.empty_column = filled.iter().position(|filled: &bool| !filled);
        Ok(seen)
    }

    /// Returns the first entry that differs from its mirror image by more than rounding, and whether A = A^T bitwise.
    /// `next[j]` is the first entry of row j to the right of the diagonal that has not been compared yet. Rows i are
    /// processed in ascending order. The entries of row j to the right of the diagonal are therefore compared in
    /// ascending order of their columns.
    fn asymmetry(&self) -> Result<(Option<Asymmetry>, bool)> {
        let mut next: Vec<usize> = zeroed(self.rows(), WHAT)?;
        let (mut first, mut exact): (Option<Asymmetry>, bool) = (None, true);
        // Compares a_ij with a_ji; a missing entry is 0.
        let mut compare = |i: usize, j: usize, value: f64, mirrored: f64| {
            if value.to_bits() == mirrored.to_bits() {
                return;
            }
            exact = false;
            if !self.is_mirrored(i, j, value, mirrored) && first.is_none_or(|f| (i, j) < (f.i, f.j)) {
                first = Some(Asymmetry { i, j, value, mirrored });
            }
        };
        for i in 0..self.rows() {
            let (mut k, end) = (self.ptr[i], self.ptr[i + 1]);
            while k < end && self.col[k].at() < i {
                let j = self.col[k].at();
                // Entries of row j before column i that have not been compared yet have no mirror image.
                while next[j] < self.ptr[j + 1] && self.col[next[j]].at() < i {
                    compare(j, self.col[next[j]].at(), self.val[next[j]], 0.0);
                    next[j] += 1;
                }
                let meets = next[j] < self.ptr[j + 1] && self.col[next[j]].at() == i;
                compare(j, i, if meets { self.val[next[j]] } else { 0.0 }, self.val[k]);
                next[j] += usize::from(meets);
                k += 1;
            }
            next[i] = if k < end && self.col[k].at() == i { k + 1 } else { k };
        }
        for (j, next) in next.iter().enumerate() {
            for k in *next..self.ptr[j + 1] {
                compare(j, self.col[k].at(), self.val[k], 0.0);
            }
        }
        Ok((first, exact))
    }

    /// Returns whether |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|). If a_ii or a_jj is 0, the bound is 1e-12 times the
    /// smaller of the largest magnitudes in rows i and j.
    fn is_mirrored(&self, i: usize, j: usize, value: f64, mirrored: f64) -> bool {
        let diagonal = |i| self.get(i, i).unwrap_or(0.0).abs().sqrt();
        let scale = diagonal(i) * diagonal(j);
        let largest = |i: usize| self.row(i).map(|(_, a)| a.abs()).fold(0.0, f64::max);
        (value - mirrored).abs() <= SYMMETRY_TOLERANCE * if scale > 0.0 { scale } else { largest(i).min(largest(j)) }
    }

    /// Returns the kind of diagonal dominance of a square matrix, by rows (Saad 2003, section 4.2.3). The matrix is
    /// irreducibly dominant if all rows are weakly dominant, at least one row is strictly dominant, and the graph of
    /// the nonzero entries is strongly connected.
    pub fn dominance(&self) -> Result<Dominance> {
        let (mut all, mut any) = (true, false);
        for i in 0..self.rows() {
            let (mut sum, mut diagonal) = (0.0, 0.0);
            for (j, a) in self.row(i) {
                *(if i == j { &mut diagonal } else { &mut sum }) += a.abs();
            }
            // The caller may have computed the diagonal by a sum in another order. A difference within rounding
            // therefore counts as equality.
            let rounding = self.len(i) as f64 * f64::EPSILON * sum;
            if diagonal < sum - rounding {
                return Ok(Dominance::None);
            }
            let strictly = diagonal > sum + rounding;
            all &= strictly;
            any |= strictly;
        }
        Ok(match (all, any) {
            (true, _) => Dominance::Strict,
            (false, true) if self.reaches_all()? && self.transposed(&mut Workers::alone())?.reaches_all()? => {
                Dominance::Irreducible
            }
            _ => Dominance::Weak,
        })
    }

    /// Returns whether every row can be reached from row 0, which must exist, in the graph of the nonzero entries.
    fn reaches_all(&self) -> Result<bool> {
        let mut reached = zeroed(self.rows(), WHAT)?;
        let mut waiting = Vec::new();
        reached[0] = true;
        push(&mut waiting, 0, WHAT)?;
        while let Some(i) = waiting.pop() {
            for (j, _) in self.row(i).filter(|(_, a)| *a != 0.0) {
                if !std::mem::replace(&mut reached[j], true) {
                    push(&mut waiting, j, WHAT)?;
                }
            }
        }
        Ok(reached.iter().all(|&reached| reached))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csr(rows: &[&[(u32, f64)]]) -> Csr<u32> {
        let mut ptr = vec![0];
        rows.iter().for_each(|row| ptr.push(ptr[ptr.len() - 1] + row.len()));
        let all = rows.iter().flat_map(|row| row.iter());
        Csr { cols: rows.len(), ptr, col: all.clone().map(|e| e.0).collect(), val: all.map(|e| e.1).collect() }
    }

    /// Compares with a search over all pairs, for small matrices with some symmetric entries.
    #[test]
    fn first_asymmetry_matches_a_search_over_all_pairs() {
        let mut state = 7_u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut symmetric, mut not) = (0, 0);
        for round in 0..2000 {
            let n = 1 + round % 6;
            let mut dense = vec![vec![None; n]; n];
            for _ in 0..draw(12) {
                let (i, j) = (draw(n as u64) as usize, draw(n as u64) as usize);
                let value = draw(4) as f64 - 1.0;
                dense[i][j] = Some(value);
                if draw(8) > 0 {
                    dense[j][i] = Some(value);
                }
            }
            let rows: Vec<Vec<(u32, f64)>> = dense
                .iter()
                .map(|row| row.iter().enumerate().filter_map(|(j, a)| a.map(|a| (j as u32, a))).collect())
                .collect();
            let rows: Vec<&[(u32, f64)]> = rows.iter().map(|row| &row[..]).collect();
            let seen = csr(&rows).inspect().unwrap();
            let at = |i: usize, j: usize| dense[i][j].unwrap_or(0.0);
            let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
            let expected = pairs.clone().find(|&(i, j)| at(i, j) != at(j, i));
            assert_eq!(seen.asymmetry.map(|a| (a.i, a.j)), expected);
            if let Some(a) = seen.asymmetry {
                assert_eq!((a.value, a.mirrored), (at(a.i, a.j), at(a.j, a.i)));
                not += 1;
            } else {
                symmetric += 1;
            }
            let zeros = |of: &dyn Fn(usize) -> f64| (0..n).all(|k| of(k) == 0.0);
            assert_eq!(seen.empty_row, (0..n).find(|&i| zeros(&|k| at(i, k))));
            assert_eq!(seen.empty_column, (0..n).find(|&j| zeros(&|k| at(k, j))));
            assert_eq!(seen.first_zero_diagonal, (0..n).find(|&i| at(i, i) == 0.0));
            assert_eq!(seen.first_not_positive, (0..n).find(|&i| at(i, i) <= 0.0));
            assert_eq!(seen.has_upper, pairs.clone().any(|(i, j)| at(i, j) != 0.0));
            assert_eq!(seen.has_lower, pairs.clone().any(|(i, j)| at(j, i) != 0.0));
        }
        assert!(symmetric > 100 && not > 100, "{symmetric} {not}");
    }

    #[test]
    fn rounding_errors_do_not_count_as_asymmetry() {
        let a = |lower: f64| csr(&[&[(0, 4.0), (1, 1.0)], &[(0, lower), (1, 9.0)]]).inspect().unwrap();
        let seen = a(1.0 + 5e-12);
        assert!(seen.asymmetry.is_none() && !seen.exactly_symmetric);
        assert!(a(1.0 + 7e-12).asymmetry.is_some());
        assert!(a(1.0).exactly_symmetric);
    }

    #[test]
    fn kinds_of_dominance() {
        let of = |rows: &[&[(u32, f64)]]| csr(rows).dominance().unwrap();
        assert_eq!(of(&[&[(0, 3.0), (1, -1.0)], &[(0, 1.0), (1, 2.0)]]), Dominance::Strict);
        assert_eq!(of(&[&[(0, 3.0), (1, -1.0)], &[(0, 2.0), (1, 2.0)]]), Dominance::Irreducible);
        assert_eq!(of(&[&[(0, 1.0), (1, -1.0)], &[(0, 2.0), (1, 2.0)]]), Dominance::Weak);
        assert_eq!(of(&[&[(0, 1.0), (1, -1.5)], &[(0, 2.0), (1, 2.0)]]), Dominance::None);
        // 0.1 + 0.2 + 0.3 is 0.6 or the next larger double, depending on the summation order.
        let sums = |first: f64, second: f64, third: f64| {
            let small = [(1, 0.1), (2, 0.2), (3, 0.3)];
            let rows: [&[(u32, f64)]; 4] = [
                &[&[(0, first)], &small[..]].concat(),
                &[(0, 0.3), (1, second), (2, 0.2), (3, 0.1)],
                &[(2, third)],
                &[(3, 1.0)],
            ];
            of(&rows)
        };
        assert_ne!((0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1);
        for first in [(0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1] {
            for second in [(0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1] {
                assert_eq!(sums(first, second, 1.0), Dominance::Weak);
            }
        }
        // Row 0 couples to row 1, but not conversely.
        assert_eq!(of(&[&[(0, 1.0), (1, -1.0)], &[(1, 2.0)]]), Dominance::Weak);
    }
}
