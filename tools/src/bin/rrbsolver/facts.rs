//! Properties of a matrix that its rows show.

use anyhow::{Context as _, Result};

use crate::library::{Rows, filled};

/// Counts over all entries.
#[derive(Default)]
pub struct Facts {
    /// Number of entries of the shortest row.
    pub shortest: usize,
    /// Number of columns without an entry.
    pub empty_columns: usize,
    /// Distance of the farthest entry to the left of the diagonal, and to the right.
    pub bandwidth: [usize; 2],
    /// Number of diagonals with an entry.
    pub diagonals: usize,
    /// Number of rows with |a_ii| >= sum of |a_ij|, j != i; and with >.
    pub dominant: [usize; 2],
    /// Number of rows with a positive and with a negative diagonal entry.
    pub signs: [usize; 2],
    /// Number of negative off-diagonal entries, and of all off-diagonal entries.
    pub negative: [usize; 2],
    /// Number of entries with the value 0.
    pub zeros: usize,
    /// Smallest and largest nonzero |a_ij|.
    pub range: [f64; 2],
}

impl Facts {
    pub fn of(a: &Rows, cols: usize) -> Result<Self> {
        let rows = a.ptr.len() - 1;
        let mut facts = Self { shortest: usize::MAX, range: [f64::INFINITY, 0.0], ..Self::default() };
        let mark = |len: usize, what: &str| filled(false, len).with_context(|| format!("cannot mark {len} {what}"));
        let mut column = mark(cols, "columns")?;
        let mut diagonal_seen = mark(rows + cols, "diagonals")?;
        for i in 0..rows {
            let entries = a.ptr[i] as usize..a.ptr[i + 1] as usize;
            facts.shortest = facts.shortest.min(entries.len());
            let (mut center, mut others) = (0.0, 0.0);
            let rounding = entries.len() as f64 * f64::EPSILON;
            for k in entries {
                let (j, value) = (a.cols[k] as usize, a.values[k]);
                column[j] = true;
                diagonal_seen[rows + j - i] = true;
                facts.bandwidth[usize::from(j > i)] = facts.bandwidth[usize::from(j > i)].max(i.abs_diff(j));
                facts.zeros += usize::from(value == 0.0);
                if value != 0.0 {
                    facts.range = [facts.range[0].min(value.abs()), facts.range[1].max(value.abs())];
                }
                if j == i {
                    center = value;
                } else {
                    others += f64::abs(value);
                    facts.negative[1] += 1;
                    facts.negative[0] += usize::from(value < 0.0);
                }
            }
            // Both sides are equal within the rounding of another summation order, as in the library.
            facts.dominant[0] += usize::from(center.abs() >= others - rounding * others);
            facts.dominant[1] += usize::from(center.abs() > others + rounding * others);
            facts.signs[0] += usize::from(center > 0.0);
            facts.signs[1] += usize::from(center < 0.0);
        }
        if rows == 0 {
            facts.shortest = 0;
        }
        facts.empty_columns = column.iter().filter(|seen| !**seen).count();
        facts.diagonals = diagonal_seen.iter().filter(|seen| **seen).count();
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted by hand: [4 -1 .] [-1 2 0] [. . -3].
    #[test]
    fn counts_by_hand() {
        let a =
            Rows { ptr: vec![0, 2, 5, 6], cols: vec![0, 1, 0, 1, 2, 2], values: vec![4.0, -1.0, -1.0, 2.0, 0.0, -3.0] };
        let facts = Facts::of(&a, 3).unwrap();
        assert_eq!((facts.shortest, facts.empty_columns, facts.bandwidth, facts.diagonals), (1, 0, [1, 1], 3));
        assert_eq!((facts.dominant, facts.signs, facts.negative), ([3, 3], [2, 1], [2, 3]));
        assert_eq!((facts.range, facts.zeros), ([1.0, 4.0], 1));
    }
}
