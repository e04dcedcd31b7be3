//! Definiteness of a square matrix: the sign of x'A x = x'H x over all x, with the symmetric part H = (A + A') / 2.

use anyhow::Result;

use crate::library::{Rows, filled};

/// Largest number of entries and of multiplications of a factorization: 240 MB, and some seconds.
const MOST_ENTRIES: usize = 30_000_000;
const MOST_WORK: f64 = 4e9;

/// Number of steps of conjugate gradients in the search for an x with x'H x <= 0.
const STEPS: usize = 100;

/// What is known about the sign of x'A x, and how it was decided.
pub struct Definiteness {
    pub verdict: &'static str,
    pub why: String,
    /// Gershgorin's bounds of the eigenvalues of H.
    pub bounds: [f64; 2],
}

const POSITIVE: &str = "positive definite";
const NEGATIVE: &str = "negative definite";
const INDEFINITE: &str = "indefinite";
const UNKNOWN: &str = "unknown";

impl Definiteness {
    /// Tests, in this order, Gershgorin's bounds, the signs of the diagonal, the pivots of L D L' = H, and, if a
    /// factorization is too expensive, p'H p in the first steps of conjugate gradients. The matrix must be square.
    pub fn of(a: &Rows) -> Result<Self> {
        let mut h = Symmetric::part_of(a)?;
        let bounds = h.gershgorin();
        let decide = |verdict, why| Ok(Self { verdict, why, bounds });
        let [low, high] = bounds;
        // The bounds are sums of at most `longest` terms.
        let rounding = h.longest() as f64 * f64::EPSILON * low.abs().max(high.abs());
        if low > rounding || high < -rounding {
            let verdict = if low > 0.0 { POSITIVE } else { NEGATIVE };
            return decide(
                verdict,
                format!("Gershgorin bounds the eigenvalues of (A + A')/2 by {low:.3e} and {high:.3e}"),
            );
        }
        if let Some((verdict, why)) = h.by_signs() {
            return decide(verdict, why);
        }
        let definite = if h.diagonal.iter().all(|&d| d < 0.0) { NEGATIVE } else { POSITIVE };
        if definite == NEGATIVE {
            h.diagonal.iter_mut().chain(&mut h.values).for_each(|value| *value = -*value);
        }
        let order = h.cuthill_mckee()?;
        let envelope = Envelope::of(&h, &order)?;
        if envelope.entries() > MOST_ENTRIES || envelope.work() > MOST_WORK {
            let scale = low.abs().max(high.abs());
            return match h.direction(scale)? {
                Some(step) => decide(INDEFINITE, format!("step {step} of cg has a p'A p of the other sign")),
                None => decide(
                    UNKNOWN,
                    format!(
                        "Gershgorin bounds the eigenvalues of (A + A')/2 by {low:.3e} and {high:.3e}; L D L' needs \
                         {:.1e} multiplications; {STEPS} steps of cg found no x of either sign",
                        envelope.work()
                    ),
                ),
            };
        }
        match envelope.factorize(&h, &order)? {
            Pivots::Positive => decide(definite, "all pivots of L D L' = (A + A')/2 have this sign".to_owned()),
            Pivots::Negative(row) => {
                decide(INDEFINITE, format!("L D L' = (A + A')/2 has pivots of both signs; first in row {}", row + 1))
            }
            Pivots::Rounding(row) => decide(
                UNKNOWN,
                format!("pivot {} of L D L' = (A + A')/2 is a rounding error: nearly singular", row + 1),
            ),
        }
    }
}

/// A symmetric matrix: its diagonal, and by rows all entries beside it.
struct Symmetric {
    diagonal: Vec<f64>,
    ptr: Vec<usize>,
    cols: Vec<usize>,
    values: Vec<f64>,
}

impl Symmetric {
    /// Returns (A + A') / 2.
    fn part_of(a: &Rows) -> Result<Self> {
        let n = a.ptr.len() - 1;
        let entries = |i: usize| (a.ptr[i] as usize..a.ptr[i + 1] as usize).map(|k| (a.cols[k] as usize, a.values[k]));
        let mut diagonal = filled(0.0, n)?;
        // Rows of A and of A' together; equal columns of a row are added below.
        let mut starts = filled(0, n + 1)?;
        for (i, j) in (0..n).flat_map(|i| entries(i).map(move |(j, _)| (i, j))).filter(|(i, j)| i != j) {
            starts[i + 1] += 1;
            starts[j + 1] += 1;
        }
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        let mut both = filled((0, 0.0), starts[n])?;
        let mut next = starts.clone();
        for (i, diagonal) in diagonal.iter_mut().enumerate() {
            for (j, value) in entries(i) {
                if i == j {
                    *diagonal = value;
                    continue;
                }
                for (row, col) in [(i, j), (j, i)] {
                    both[next[row]] = (col, 0.5 * value);
                    next[row] += 1;
                }
            }
        }
        let (mut ptr, mut cols, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..n {
            let row = &mut both[starts[i]..starts[i + 1]];
            row.sort_unstable_by_key(|entry| entry.0);
            for same in row.chunk_by(|a, b| a.0 == b.0) {
                let sum: f64 = same.iter().map(|entry| entry.1).sum();
                if sum != 0.0 {
                    cols.push(same[0].0);
                    values.push(sum);
                }
            }
            ptr.push(cols.len());
        }
        Ok(Self { diagonal, ptr, cols, values })
    }

    fn rows(&self) -> usize {
        self.diagonal.len()
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.cols[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    fn degree(&self, i: usize) -> usize {
        self.ptr[i + 1] - self.ptr[i]
    }

    fn longest(&self) -> usize {
        (0..self.rows()).map(|i| self.degree(i) + 1).max().unwrap_or(0)
    }

    fn gershgorin(&self) -> [f64; 2] {
        let beside = |i: usize| self.row(i).map(|(_, value)| value.abs()).sum::<f64>();
        let of_row = |i: usize| (self.diagonal[i], beside(i));
        let low = (0..self.rows()).map(of_row).map(|(d, r)| d - r).fold(f64::INFINITY, f64::min);
        let high = (0..self.rows()).map(of_row).map(|(d, r)| d + r).fold(f64::NEG_INFINITY, f64::max);
        [low, high]
    }

    /// x'H x = h_ii for a unit vector. With h_ii = 0, t e_i + e_j has x'H x = 2 t h_ij + h_jj, of both signs.
    fn by_signs(&self) -> Option<(&'static str, String)> {
        let first = |is: &dyn Fn(f64) -> bool| self.diagonal.iter().position(|&d| is(d));
        if let Some(row) = first(&|d| d == 0.0) {
            let zero = format!("the diagonal entry of row {} is zero", row + 1);
            return Some(match self.degree(row) {
                0 => ("not definite", zero),
                _ => (INDEFINITE, format!("{zero}, other entries of (A + A')/2 in this row are not")),
            });
        }
        let (positive, negative) = (first(&|d| d > 0.0)?, first(&|d| d < 0.0)?);
        let why = format!("the diagonal is positive in row {}, negative in row {}", positive + 1, negative + 1);
        Some((INDEFINITE, why))
    }

    /// Returns the rows in reverse Cuthill-McKee order, which keeps the envelope small.
    fn cuthill_mckee(&self) -> Result<Vec<usize>> {
        let n = self.rows();
        let mut starts: Vec<usize> = (0..n).collect();
        starts.sort_by_key(|&i| self.degree(i));
        let mut seen = filled(false, n)?;
        let mut order = Vec::with_capacity(n);
        for start in starts {
            if seen[start] {
                continue;
            }
            seen[start] = true;
            let mut head = order.len();
            order.push(start);
            while head < order.len() {
                let first = order.len();
                for (j, _) in self.row(order[head]) {
                    if !std::mem::replace(&mut seen[j], true) {
                        order.push(j);
                    }
                }
                order[first..].sort_by_key(|&j| self.degree(j));
                head += 1;
            }
        }
        order.reverse();
        Ok(order)
    }

    /// Returns the step of conjugate gradients with a p'H p that is negative by more than rounding.
    fn direction(&self, scale: f64) -> Result<Option<usize>> {
        let n = self.rows();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // Fractional parts of multiples of the golden ratio: no eigenvector of a regular grid.
        let mut r: Vec<f64> = (0..n).map(|i| (i as f64 * 0.618_033_988_749_895).fract() - 0.5).collect();
        let (mut p, mut q, mut norm2) = (r.clone(), filled(0.0, n)?, dot(&r, &r));
        for step in 1..=STEPS {
            for (i, q) in q.iter_mut().enumerate() {
                *q = self.diagonal[i] * p[i] + self.row(i).map(|(j, value)| value * p[j]).sum::<f64>();
            }
            let energy = dot(&p, &q);
            if energy < -64.0 * f64::EPSILON * scale * dot(&p, &p) {
                return Ok(Some(step));
            }
            if energy <= 0.0 || norm2 == 0.0 {
                return Ok(None);
            }
            let alpha = norm2 / energy;
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
            let old = std::mem::replace(&mut norm2, dot(&r, &r));
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + norm2 / old * *p);
        }
        Ok(None)
    }
}

/// For each row of L, its first column.
struct Envelope {
    first: Vec<usize>,
    /// Position of each row of H in the order.
    place: Vec<usize>,
}

/// Signs of the pivots; a row in the numbering of H.
enum Pivots {
    Positive,
    Negative(usize),
    Rounding(usize),
}

impl Envelope {
    fn of(h: &Symmetric, order: &[usize]) -> Result<Self> {
        let mut place = filled(0, order.len())?;
        order.iter().enumerate().for_each(|(k, &row)| place[row] = k);
        let first = |(k, &row): (usize, &usize)| h.row(row).map(|(j, _)| place[j]).fold(k, usize::min);
        Ok(Self { first: order.iter().enumerate().map(first).collect(), place })
    }

    fn widths(&self) -> impl Iterator<Item = usize> {
        self.first.iter().enumerate().map(|(k, first)| k - first)
    }

    fn entries(&self) -> usize {
        self.widths().sum()
    }

    fn work(&self) -> f64 {
        self.widths().map(|width| 0.5 * (width as f64).powi(2)).sum()
    }

    /// Factorizes row by row until a pivot is not positive. In exact arithmetic, all pivots are positive if and only if
    /// H is positive definite. The rounding errors of pivot i are those of sums of `width` terms of size h_ii.
    fn factorize(&self, h: &Symmetric, order: &[usize]) -> Result<Pivots> {
        let mut starts = vec![0];
        self.widths().for_each(|width| starts.push(starts[starts.len() - 1] + width));
        let (mut l, mut pivots) = (filled(0.0, self.entries())?, filled(0.0, order.len())?);
        for (k, &row) in order.iter().enumerate() {
            let (first, width) = (self.first[k], k - self.first[k]);
            let (done, own) = l.split_at_mut(starts[k]);
            let own = &mut own[..width];
            for (j, value) in h.row(row).map(|(j, value)| (self.place[j], value)).filter(|&(j, _)| j < k) {
                own[j - first] = value;
            }
            for j in first..k {
                let common = first.max(self.first[j]);
                let of_j = &done[starts[j] + common - self.first[j]..starts[j] + j - self.first[j]];
                let sum: f64 = own[common - first..j - first].iter().zip(of_j).map(|(u, l)| u * l).sum();
                own[j - first] -= sum;
            }
            let mut pivot = h.diagonal[row];
            for (u, d) in own.iter_mut().zip(&pivots[first..k]) {
                let scaled = *u / d;
                pivot -= *u * scaled;
                *u = scaled;
            }
            if pivot.abs() <= 4.0 * (width + 2) as f64 * f64::EPSILON * h.diagonal[row] {
                return Ok(Pivots::Rounding(row));
            }
            if pivot < 0.0 {
                return Ok(Pivots::Negative(row));
            }
            pivots[k] = pivot;
        }
        Ok(Pivots::Positive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense<const N: usize>(a: [[f64; N]; N]) -> Rows {
        let entries = || (0..N).flat_map(|i| (0..N).map(move |j| (i, j))).filter(|&(i, j)| a[i][j] != 0.0);
        let ptr = (0..=N).map(|i| entries().filter(|e| e.0 < i).count() as i64).collect();
        Rows { ptr, cols: entries().map(|e| e.1 as i64).collect(), values: entries().map(|(i, j)| a[i][j]).collect() }
    }

    fn verdict<const N: usize>(a: [[f64; N]; N]) -> (&'static str, String) {
        let found = Definiteness::of(&dense(a)).unwrap();
        (found.verdict, found.why)
    }

    /// Each decision, on matrices whose definiteness is known.
    #[test]
    fn decisions() {
        let decided = |found: (&'static str, String), verdict: &str, why: &str| {
            assert!(found.0 == verdict && found.1.contains(why), "{found:?} is not {verdict}: {why}");
        };
        decided(verdict([[2.0, 1.0], [-1.0, 3.0]]), POSITIVE, "Gershgorin");
        decided(verdict([[-2.0, 1.0], [1.0, -3.0]]), NEGATIVE, "Gershgorin");
        decided(verdict([[1.0, 2.0], [2.0, -1.0]]), INDEFINITE, "positive in row 1, negative in row 2");
        decided(verdict([[1.0, 2.0], [2.0, 0.0]]), INDEFINITE, "the diagonal entry of row 2 is zero, other");
        decided(verdict([[1.0, 2.0], [-2.0, 0.0]]), "not definite", "row 2 is zero");
        // Pivots 1 and 1 - 0.9^2 / 1 - ...: no row is dominant.
        let three = |off: f64| [[1.0, off, off], [off, 1.0, off], [off, off, 1.0]];
        decided(verdict(three(0.9)), POSITIVE, "all pivots");
        decided(verdict(three(-0.6)), INDEFINITE, "both signs");
        decided(verdict(three(-0.5)), UNKNOWN, "nearly singular");
        decided(verdict(three(0.9).map(|row| row.map(|value| -value))), NEGATIVE, "all pivots");
    }

    /// The 5-point matrix minus a shift has the smallest eigenvalue 8 sin(pi / 2 / (n + 1))^2 - shift. Factorization
    /// and conjugate gradients decide the same.
    #[test]
    fn shifts_of_a_grid() {
        let n = 12;
        let smallest = 8.0 * (0.5 * std::f64::consts::PI / f64::from(n + 1)).sin().powi(2);
        for (shift, wanted) in [(0.99 * smallest, POSITIVE), (1.01 * smallest, INDEFINITE)] {
            let mut a = Rows { ptr: vec![0], cols: Vec::new(), values: Vec::new() };
            for (j, i) in (0..n).flat_map(|j| (0..n).map(move |i| (j, i))) {
                let all = [(-n, j > 0), (-1, i > 0), (0, true), (1, i + 1 < n), (n, j + 1 < n)];
                for (step, _) in all.into_iter().filter(|leg| leg.1) {
                    a.cols.push(i64::from(j * n + i + step));
                    a.values.push(if step == 0 { 4.0 - shift } else { -1.0 });
                }
                a.ptr.push(a.cols.len() as i64);
            }
            assert_eq!(Definiteness::of(&a).unwrap().verdict, wanted);
            let found = Symmetric::part_of(&a).unwrap().direction(8.0).unwrap();
            assert_eq!(found.is_some(), wanted == INDEFINITE);
        }
    }
}
