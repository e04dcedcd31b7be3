//! Properties of a matrix that guide the choice of a method: symmetry, empty rows and columns, diagonal entries, and
//! diagonal dominance.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::{Workers, divide_lanes};
use crate::error::{Result, push, zeroed};
use crate::options::{Dominance, Triangle};
use std::ops::Range;

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "an inspection of a matrix";

/// Relative tolerance for the symmetry of entries; see `is_mirrored`.
const SYMMETRY_TOLERANCE: f64 = 1e-12;

/// An entry a_ij that differs from a_ji.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asymmetry {
    pub i: usize,
    pub j: usize,
    pub value: f64,
    /// The value of a_ji.
    pub mirrored_value: f64,
}

/// Properties of a square matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inspection {
    /// First entry a_ij that differs from a_ji by more than rounding, in the order of the rows; `None` if A is
    /// symmetric.
    pub asymmetry: Option<Asymmetry>,
    /// Whether A = A^T bitwise.
    pub is_exactly_symmetric: bool,
    /// First row without nonzero entries.
    pub first_empty_row: Option<usize>,
    /// First column without nonzero entries.
    pub first_empty_column: Option<usize>,
    /// First row with a zero or missing diagonal entry.
    pub first_zero_diagonal: Option<usize>,
    /// First row with a nonpositive or missing diagonal entry.
    pub first_nonpositive_diagonal: Option<usize>,
    /// Whether nonzero entries exist below the diagonal.
    pub has_lower_entries: bool,
    /// Whether nonzero entries exist above the diagonal.
    pub has_upper_entries: bool,
    /// Infinity norm of A: max_i sum_j |a_ij|.
    pub infinity_norm: f64,
    pub rows: usize,
    /// Number of nonzero off-diagonal entries.
    pub off_diagonal_count: usize,
    /// Number of negative off-diagonal entries.
    pub negative_count: usize,
}

impl Inspection {
    /// Returns whether all off-diagonal entries are zero.
    pub fn is_diagonal(&self) -> bool {
        !self.has_lower_entries && !self.has_upper_entries
    }

    /// Returns whether more than half of the nonzero off-diagonal entries are negative. This holds for discretizations
    /// of -div(k grad u): on a grid, all off-diagonal entries are negative; on tetrahedra, two thirds of them.
    pub fn is_mostly_negative(&self) -> bool {
        2 * self.negative_count > self.off_diagonal_count
    }

    /// Returns the triangles with nonzero off-diagonal entries; `Both` for a diagonal matrix.
    pub fn triangle(&self) -> Triangle {
        match (self.has_lower_entries, self.has_upper_entries) {
            (true, false) => Triangle::Lower,
            (false, true) => Triangle::Upper,
            _ => Triangle::Both,
        }
    }
}

/// Comparison of entries with their mirrored entries.
#[derive(Clone, Copy, Default)]
struct Comparison {
    /// First pair, in the order of the rows, whose difference exceeds rounding.
    first_asymmetry: Option<Asymmetry>,
    /// Whether the bits of a pair differ.
    is_different: bool,
}

impl Comparison {
    /// Compares a_ij = `value` with a_ji = `mirrored_value`, i < j.
    fn compare<I: Index>(&mut self, a: &Csr<I>, (i, j): (usize, usize), value: f64, mirrored_value: f64) {
        if value.to_bits() == mirrored_value.to_bits() {
            return;
        }
        self.is_different = true;
        let asymmetry = Asymmetry { i, j, value, mirrored_value };
        if self.precedes_all(&asymmetry) && !a.is_mirrored(i, j, value, mirrored_value) {
            self.first_asymmetry = Some(asymmetry);
        }
    }

    /// Returns whether this pair precedes `first_asymmetry`.
    fn precedes_all(&self, asymmetry: &Asymmetry) -> bool {
        self.first_asymmetry.is_none_or(|first| (asymmetry.i, asymmetry.j) < (first.i, first.j))
    }

    /// Returns the result for the pairs of both comparisons.
    fn joined(self, other: Self) -> Self {
        let first_asymmetry = other.first_asymmetry.filter(|pair| self.precedes_all(pair)).or(self.first_asymmetry);
        Self { first_asymmetry, is_different: self.is_different || other.is_different }
    }
}

/// Result of the inspection of consecutive rows.
#[derive(Default)]
struct Part {
    /// Properties other than symmetry and empty columns.
    inspection: Inspection,
    comparison: Comparison,
    /// Number of stored entries below the diagonal.
    lower_count: usize,
    /// Number of stored entries above the diagonal whose mirrored entry is stored.
    mirrored_count: usize,
}

impl Part {
    /// Joins the results of these rows and of later rows.
    fn joined(self, later: Self) -> Self {
        let (a, b) = (self.inspection, later.inspection);
        let inspection = Inspection {
            first_empty_row: a.first_empty_row.or(b.first_empty_row),
            first_zero_diagonal: a.first_zero_diagonal.or(b.first_zero_diagonal),
            first_nonpositive_diagonal: a.first_nonpositive_diagonal.or(b.first_nonpositive_diagonal),
            has_lower_entries: a.has_lower_entries || b.has_lower_entries,
            has_upper_entries: a.has_upper_entries || b.has_upper_entries,
            infinity_norm: a.infinity_norm.max(b.infinity_norm),
            off_diagonal_count: a.off_diagonal_count + b.off_diagonal_count,
            negative_count: a.negative_count + b.negative_count,
            ..Inspection::default()
        };
        Self {
            inspection,
            comparison: self.comparison.joined(later.comparison),
            lower_count: self.lower_count + later.lower_count,
            mirrored_count: self.mirrored_count + later.mirrored_count,
        }
    }
}

impl<I: Index> Csr<I> {
    /// Computes the properties of a square matrix. Each thread allocates up to 8 bytes per row.
    pub fn inspect(&self, workers: &mut Workers) -> Result<Inspection> {
        let piece_count = workers.threads(size_of_val(&*self.val));
        let mut whole = Part::default();
        for part in workers.map(divide_lanes(&self.ptr, piece_count), |rows| self.inspect_rows(rows))? {
            whole = whole.joined(part?);
        }
        if whole.mirrored_count < whole.lower_count {
            let parts = workers.map(divide_lanes(&self.ptr, piece_count), |rows| self.compare_with_missing(rows))?;
            whole.comparison = parts.into_iter().fold(whole.comparison, Comparison::joined);
        }
        let Part { inspection, comparison, .. } = whole;
        let first_empty_column =
            if comparison.is_different { self.first_empty_column()? } else { inspection.first_empty_row };
        Ok(Inspection {
            asymmetry: comparison.first_asymmetry,
            is_exactly_symmetric: !comparison.is_different,
            first_empty_column,
            rows: self.rows(),
            ..inspection
        })
    }

    /// Computes the properties of some rows.
    fn inspect_rows(&self, rows: Range<usize>) -> Result<Part> {
        let (comparison, mirrored_count) = self.compare_with_mirrored(rows.clone())?;
        let mut part = Part { comparison, mirrored_count, ..Part::default() };
        for i in rows {
            let (mut sum, mut diagonal) = (0.0, 0.0);
            let inspection = &mut part.inspection;
            for (j, a) in self.row(i) {
                let is_filled = a != 0.0;
                sum += a.abs();
                part.lower_count += usize::from(j < i);
                inspection.has_lower_entries |= is_filled && j < i;
                inspection.has_upper_entries |= is_filled && j > i;
                inspection.off_diagonal_count += usize::from(is_filled && i != j);
                inspection.negative_count += usize::from(i != j && a < 0.0);
                if i == j {
                    diagonal = a;
                }
            }
            let record_first = |first_row: &mut Option<usize>, holds: bool| {
                if holds && first_row.is_none() {
                    *first_row = Some(i);
                }
            };
            record_first(&mut inspection.first_empty_row, sum == 0.0);
            record_first(&mut inspection.first_zero_diagonal, diagonal == 0.0);
            record_first(&mut inspection.first_nonpositive_diagonal, diagonal <= 0.0);
            inspection.infinity_norm = inspection.infinity_norm.max(sum);
        }
        Ok(part)
    }

    /// Compares the entries a_ij, i < j, of some rows with a_ji; a missing entry is 0. Also returns the number of
    /// entries whose mirrored entry is stored. `next_entry[j - rows.start]` is the index in `col` at which the search
    /// for a_ji begins: the rows i are processed in ascending order, so the search never returns to earlier entries. It
    /// is 0 before the first search in row j.
    fn compare_with_mirrored(&self, rows: Range<usize>) -> Result<(Comparison, usize)> {
        let first_row = rows.start;
        let (mut comparison, mut mirrored_count) = (Comparison::default(), 0);
        let mut next_entry = zeroed(self.rows() - first_row, ALLOCATION_NAME)?;
        for i in rows {
            for (j, a) in self.row(i).skip_while(|(j, _)| *j <= i) {
                let mirrored_value = self.find_from(&mut next_entry[j - first_row], first_row, (j, i));
                mirrored_count += usize::from(mirrored_value.is_some());
                comparison.compare(self, (i, j), a, mirrored_value.unwrap_or(0.0));
            }
        }
        Ok((comparison, mirrored_count))
    }

    /// Returns a_ji, or `None` if it is not stored. Searches from the index `next_entry` on, or from the first entry of
    /// row j in column `first_row` or a later column if `next_entry` is 0. Moves `next_entry` to the first entry in
    /// a column after i.
    fn find_from(&self, next_entry: &mut usize, first_row: usize, (j, i): (usize, usize)) -> Option<f64> {
        let (mut k, end) = (*next_entry, self.ptr[j + 1]);
        if k == 0 {
            k = self.ptr[j];
            // A piece that does not begin with row 0 skips the entries in the columns of previous pieces.
            if k < end && self.col[k].to_usize() < first_row {
                k += self.col[k..end].partition_point(|col| col.to_usize() < first_row);
            }
        }
        while k < end && self.col[k].to_usize() < i {
            k += 1;
        }
        let is_stored = k < end && self.col[k].to_usize() == i;
        *next_entry = k + usize::from(is_stored);
        is_stored.then(|| self.val[k])
    }

    /// Compares the entries a_ij, i > j, of some rows with a_ji = 0 if a_ji is missing.
    fn compare_with_missing(&self, rows: Range<usize>) -> Comparison {
        let mut comparison = Comparison::default();
        for i in rows {
            for (j, a) in self.row(i).take_while(|(j, _)| *j < i).filter(|(j, _)| self.get(*j, i).is_none()) {
                comparison.compare(self, (j, i), 0.0, a);
            }
        }
        comparison
    }

    /// Returns the first column without nonzero entries.
    fn first_empty_column(&self) -> Result<Option<usize>> {
        let mut is_filled = zeroed(self.rows(), ALLOCATION_NAME)?;
        self.col.iter().zip(&self.val).filter(|(_, a)| **a != 0.0).for_each(|(j, _)| is_filled[j.to_usize()] = true);
        Ok(is_filled.iter().position(|filled: &bool| !filled))
    }

    /// Returns whether |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|). If a_ii or a_jj is 0, the bound is
    /// 1e-12 min(m_i, m_j), where m_i is the largest magnitude of the entries in row i.
    fn is_mirrored(&self, i: usize, j: usize, value: f64, mirrored_value: f64) -> bool {
        let root_of_diagonal = |i| self.get(i, i).unwrap_or(0.0).abs().sqrt();
        let scale = root_of_diagonal(i) * root_of_diagonal(j);
        let largest_entry = |i: usize| self.row(i).map(|(_, a)| a.abs()).fold(0.0, f64::max);
        (value - mirrored_value).abs()
            <= SYMMETRY_TOLERANCE * if scale > 0.0 { scale } else { largest_entry(i).min(largest_entry(j)) }
    }

    /// Returns the kind of diagonal dominance of a square matrix, by rows (Saad 2003, section 4.2.3). The matrix is
    /// irreducibly dominant if all rows are weakly dominant, at least one row is strictly dominant, and the graph of
    /// the nonzero entries is strongly connected.
    pub fn dominance(&self) -> Result<Dominance> {
        let (mut all_strict, mut any_strict) = (true, false);
        for i in 0..self.rows() {
            let (mut sum, mut diagonal) = (0.0, 0.0);
            for (j, a) in self.row(i) {
                *(if i == j { &mut diagonal } else { &mut sum }) += a.abs();
            }
            // The caller may have computed the diagonal entry as a sum of the other entries, in another order. A
            // difference within rounding therefore counts as equality.
            let rounding_error = self.row_len(i) as f64 * f64::EPSILON * sum;
            if diagonal < sum - rounding_error {
                return Ok(Dominance::None);
            }
            let is_strict = diagonal > sum + rounding_error;
            all_strict &= is_strict;
            any_strict |= is_strict;
        }
        Ok(match (all_strict, any_strict) {
            (true, _) => Dominance::Strict,
            (false, true)
                if self.reaches_all_rows()?
                    && self.transposed(&mut Workers::single_threaded())?.reaches_all_rows()? =>
            {
                Dominance::Irreducible
            }
            _ => Dominance::Weak,
        })
    }

    /// Returns whether the graph of the nonzero entries has a path from row 0 to every row. The matrix must have a row.
    fn reaches_all_rows(&self) -> Result<bool> {
        let mut is_reached = zeroed(self.rows(), ALLOCATION_NAME)?;
        let mut rows_to_visit = Vec::new();
        is_reached[0] = true;
        push(&mut rows_to_visit, 0, ALLOCATION_NAME)?;
        while let Some(i) = rows_to_visit.pop() {
            for (j, _) in self.row(i).filter(|(_, a)| *a != 0.0) {
                if !std::mem::replace(&mut is_reached[j], true) {
                    push(&mut rows_to_visit, j, ALLOCATION_NAME)?;
                }
            }
        }
        Ok(is_reached.iter().all(|&is_reached| is_reached))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csr(rows: &[&[(u32, f64)]]) -> Csr<u32> {
        let mut ptr = vec![0];
        rows.iter().for_each(|row| ptr.push(ptr[ptr.len() - 1] + row.len()));
        let entries = rows.iter().flat_map(|row| row.iter());
        Csr { cols: rows.len(), ptr, col: entries.clone().map(|e| e.0).collect(), val: entries.map(|e| e.1).collect() }
    }

    /// Checks `asymmetry` against a search over all pairs a_ij, a_ji of small random matrices. Most pairs are equal.
    #[test]
    fn first_asymmetry_matches_a_search_over_all_pairs() {
        let mut generator_state = 7_u64;
        let mut draw_below = |n: u64| {
            generator_state =
                generator_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (generator_state >> 33) % n
        };
        let (mut symmetric_count, mut unsymmetric_count) = (0, 0);
        for round in 0..2000 {
            let n = 1 + round % 6;
            let mut dense = vec![vec![None; n]; n];
            for _ in 0..draw_below(12) {
                let (i, j) = (draw_below(n as u64) as usize, draw_below(n as u64) as usize);
                let value = [-1.0, 0.0, -0.0, 1.0, 2.0][draw_below(5) as usize];
                dense[i][j] = Some(value);
                if draw_below(8) > 0 {
                    dense[j][i] = Some(value);
                }
            }
            let rows: Vec<Vec<(u32, f64)>> = dense
                .iter()
                .map(|row| row.iter().enumerate().filter_map(|(j, a)| a.map(|a| (j as u32, a))).collect())
                .collect();
            let rows: Vec<&[(u32, f64)]> = rows.iter().map(|row| &row[..]).collect();
            let threads = 1 + draw_below(3) as usize;
            let inspection = csr(&rows).inspect(&mut Workers::always_parallel(threads)).unwrap();
            let entry = |i: usize, j: usize| dense[i][j].unwrap_or(0.0);
            let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
            let expected = pairs.clone().find(|&(i, j)| entry(i, j) != entry(j, i));
            assert_eq!(inspection.asymmetry.map(|a| (a.i, a.j)), expected);
            if let Some(a) = inspection.asymmetry {
                assert_eq!((a.value, a.mirrored_value), (entry(a.i, a.j), entry(a.j, a.i)));
                unsymmetric_count += 1;
            } else {
                symmetric_count += 1;
            }
            let all_zero = |value_at: &dyn Fn(usize) -> f64| (0..n).all(|k| value_at(k) == 0.0);
            assert_eq!(inspection.first_empty_row, (0..n).find(|&i| all_zero(&|k| entry(i, k))));
            assert_eq!(inspection.first_empty_column, (0..n).find(|&j| all_zero(&|k| entry(k, j))));
            assert_eq!(inspection.first_zero_diagonal, (0..n).find(|&i| entry(i, i) == 0.0));
            assert_eq!(inspection.first_nonpositive_diagonal, (0..n).find(|&i| entry(i, i) <= 0.0));
            assert_eq!(inspection.has_upper_entries, pairs.clone().any(|(i, j)| entry(i, j) != 0.0));
            assert_eq!(inspection.has_lower_entries, pairs.clone().any(|(i, j)| entry(j, i) != 0.0));
            let is_exact = pairs.clone().all(|(i, j)| entry(i, j).to_bits() == entry(j, i).to_bits());
            assert_eq!(inspection.is_exactly_symmetric, is_exact);
            let count = |holds: fn(f64) -> bool| {
                pairs.clone().flat_map(|(i, j)| [entry(i, j), entry(j, i)]).filter(|a| holds(*a)).count()
            };
            assert_eq!(inspection.off_diagonal_count, count(|a| a != 0.0));
            assert_eq!(inspection.negative_count, count(|a| a < 0.0));
            let row_norm = |i| (0..n).map(|j| entry(i, j).abs()).sum::<f64>();
            assert_eq!(inspection.infinity_norm, (0..n).map(row_norm).fold(0.0, f64::max));
        }
        assert!(symmetric_count > 100 && unsymmetric_count > 100, "{symmetric_count} {unsymmetric_count}");
    }

    #[test]
    fn rounding_errors_do_not_count_as_asymmetry() {
        let inspect_with = |lower_value: f64| {
            csr(&[&[(0, 4.0), (1, 1.0)], &[(0, lower_value), (1, 9.0)]])
                .inspect(&mut Workers::single_threaded())
                .unwrap()
        };
        let inspection = inspect_with(1.0 + 5e-12);
        assert!(inspection.asymmetry.is_none() && !inspection.is_exactly_symmetric);
        assert!(inspect_with(1.0 + 7e-12).asymmetry.is_some());
        assert!(inspect_with(1.0).is_exactly_symmetric);
    }

    #[test]
    fn dominance_has_all_four_kinds() {
        let dominance_of = |rows: &[&[(u32, f64)]]| csr(rows).dominance().unwrap();
        assert_eq!(dominance_of(&[&[(0, 3.0), (1, -1.0)], &[(0, 1.0), (1, 2.0)]]), Dominance::Strict);
        assert_eq!(dominance_of(&[&[(0, 3.0), (1, -1.0)], &[(0, 2.0), (1, 2.0)]]), Dominance::Irreducible);
        assert_eq!(dominance_of(&[&[(0, 1.0), (1, -1.0)], &[(0, 2.0), (1, 2.0)]]), Dominance::Weak);
        assert_eq!(dominance_of(&[&[(0, 1.0), (1, -1.5)], &[(0, 2.0), (1, 2.0)]]), Dominance::None);
        // 0.1 + 0.2 + 0.3 is 0.6 or the next larger double, depending on the summation order.
        let dominance_with = |first_diagonal: f64, second_diagonal: f64, third_diagonal: f64| {
            let off_diagonal_entries = [(1, 0.1), (2, 0.2), (3, 0.3)];
            let rows: [&[(u32, f64)]; 4] = [
                &[&[(0, first_diagonal)], &off_diagonal_entries[..]].concat(),
                &[(0, 0.3), (1, second_diagonal), (2, 0.2), (3, 0.1)],
                &[(2, third_diagonal)],
                &[(3, 1.0)],
            ];
            dominance_of(&rows)
        };
        assert_ne!((0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1);
        for first_diagonal in [(0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1] {
            for second_diagonal in [(0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1] {
                assert_eq!(dominance_with(first_diagonal, second_diagonal, 1.0), Dominance::Weak);
            }
        }
        // Row 0 has an entry in column 1, but row 1 has none in column 0.
        assert_eq!(dominance_of(&[&[(0, 1.0), (1, -1.0)], &[(1, 2.0)]]), Dominance::Weak);
    }
}
