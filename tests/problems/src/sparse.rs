//! General sparse systems by their names: those of tests/golden/sparse.csv, and larger systems of the same kinds.

use crate::cavity::cavity;
use crate::circuit::circuit;
use crate::mesh::tetrahedra;
use crate::two_phase::SplitMix;

/// Row, column and value. Entries with equal indices are added.
pub type Entry = (usize, usize, f64);

/// A square matrix.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Number of rows and columns.
    pub n: usize,
    /// Entries, ordered by rows except in `random_dominant_symmetric`.
    pub entries: Vec<Entry>,
}

/// Returns the system with a name such as `poisson2d_64`; none for an unknown name.
#[must_use]
pub fn system(name: &str) -> Option<System> {
    let words: Vec<&str> = name.split('_').collect();
    let number = |word: &str| word.parse::<usize>().ok();
    let real = |word: &str, letter: char| word.strip_prefix(letter)?.parse::<f64>().ok();
    Some(match words[..] {
        ["poisson2d", n] => five_points(number(n)?, [4.0, -1.0, -1.0, -1.0, -1.0]),
        ["poisson3d", n] => seven_points(number(n)?, [6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]),
        ["stencil27", n] => twenty_seven_points(number(n)?),
        ["convdiff2d", n, p, q] => {
            let (p, q) = (real(p, 'p')?, real(q, 'q')?);
            five_points(number(n)?, [4.0, -1.0 + p, -1.0 - p, -1.0 + q, -1.0 - q])
        }
        ["convdiff2d", n, "upwind", p, q] => {
            let (p, q) = (real(p, 'p')?, real(q, 'q')?);
            five_points(number(n)?, [4.0 + 2.0 * p + 2.0 * q, -1.0, -1.0 - 2.0 * p, -1.0, -1.0 - 2.0 * q])
        }
        ["convdiff3d", n, "upwind", p] => {
            let p = real(p, 'p')?;
            let [to, from] = [-1.0, -1.0 - 2.0 * p];
            seven_points(number(n)?, [6.0 + 6.0 * p, to, from, to, from, to, from])
        }
        ["random", "dominant", n, k] => random_dominant(number(n)?, number(k)?, false),
        ["random", "dominant", "symmetric", n, k] => random_dominant(number(n)?, number(k)?, true),
        ["blocks3", n] => blocks(&five_points(number(n)?, [4.0, -1.0, -1.0, -1.0, -1.0])),
        ["cavity", m] => cavity(number(m)?),
        ["tetrahedra", n] => tetrahedra(number(n)?),
        ["circuit", entries] => circuit(number(entries)?),
        _ => return None,
    })
}

/// Sorts entries by row and column, and adds those with equal indices in the given order.
pub(crate) fn summed(mut entries: Vec<Entry>) -> Vec<Entry> {
    // The sort is stable.
    entries.sort_by_key(|&(i, j, _)| (i, j));
    entries.dedup_by(|next, first| {
        let same = (next.0, next.1) == (first.0, first.1);
        if same {
            first.2 += next.2;
        }
        same
    });
    entries
}

/// A constant 5-point stencil on n x n points, x fastest: center, east, west, north, south.
#[must_use]
pub fn five_points(n: usize, [center, east, west, north, south]: [f64; 5]) -> System {
    let mut entries = Vec::with_capacity(5 * n * n);
    for p in 0..n * n {
        let (i, j) = (p % n, p / n);
        let neighbours = [
            (j > 0, n, true, south),
            (i > 0, 1, true, west),
            (true, 0, false, center),
            (i + 1 < n, 1, false, east),
            (j + 1 < n, n, false, north),
        ];
        for (_, step, down, value) in neighbours.into_iter().filter(|entry| entry.0) {
            entries.push((p, if down { p - step } else { p + step }, value));
        }
    }
    System { n: n * n, entries }
}

/// A constant 7-point stencil on n x n x n points, x fastest: center, east, west, north, south, top, bottom.
#[must_use]
pub fn seven_points(n: usize, [center, east, west, north, south, top, bottom]: [f64; 7]) -> System {
    let mut entries = Vec::with_capacity(7 * n * n * n);
    for p in 0..n * n * n {
        let (i, j, k) = (p % n, p / n % n, p / (n * n));
        let neighbours = [
            (k > 0, n * n, true, bottom),
            (j > 0, n, true, south),
            (i > 0, 1, true, west),
            (true, 0, false, center),
            (i + 1 < n, 1, false, east),
            (j + 1 < n, n, false, north),
            (k + 1 < n, n * n, false, top),
        ];
        for (_, step, down, value) in neighbours.into_iter().filter(|entry| entry.0) {
            entries.push((p, if down { p - step } else { p + step }, value));
        }
    }
    System { n: n * n * n, entries }
}

/// The 27-point stencil on n x n x n points, x fastest: 26, and -1 for each neighbour.
#[must_use]
pub fn twenty_seven_points(n: usize) -> System {
    let near = |i: usize| i.saturating_sub(1)..(i + 2).min(n);
    let mut entries = Vec::with_capacity(27 * n * n * n);
    for p in 0..n * n * n {
        let (i, j, k) = (p % n, p / n % n, p / (n * n));
        for q in near(k).flat_map(|z| near(j).flat_map(move |y| near(i).map(move |x| (z * n + y) * n + x))) {
            entries.push((p, q, if p == q { 26.0 } else { -1.0 }));
        }
    }
    System { n: n * n * n, entries }
}

/// A random diagonally dominant matrix.
///
/// Each row draws k times a column, next mod n, and a value 2u - 1 with u = (next >> 11) 2^-53. The row's own column is
/// skipped. With `symmetric`, the entry (j, i) is added too. The diagonal is 1.1 times the sum of the other magnitudes
/// of the row, or 1 if there are none.
#[must_use]
pub fn random_dominant(n: usize, k: usize, symmetric: bool) -> System {
    let mut random = SplitMix(42);
    let mut entries = Vec::new();
    for i in 0..n {
        for _ in 0..k {
            let j = (random.next() % n as u64) as usize;
            let value = 2.0 * random.unit() - 1.0;
            if i != j {
                entries.push((i, j, value));
                if symmetric {
                    entries.push((j, i, value));
                }
            }
        }
    }
    let mut summed = summed(entries);
    let mut sums = vec![0.0; n];
    summed.iter().for_each(|&(i, _, value)| sums[i] += value.abs());
    summed.extend(sums.iter().enumerate().map(|(i, &sum)| (i, i, if sum > 0.0 { 1.1 * sum } else { 1.0 })));
    System { n, entries: summed }
}

/// The Kronecker product with a 3 x 3 block; the three unknowns of a point are consecutive.
#[must_use]
pub fn blocks(of: &System) -> System {
    const BLOCK: [[f64; 3]; 3] = [[4.0, -1.0, 0.5], [-1.0, 3.0, -0.25], [0.5, -0.25, 2.0]];
    let mut entries = Vec::with_capacity(9 * of.entries.len());
    for &(i, j, value) in &of.entries {
        for (r, row) in BLOCK.iter().enumerate() {
            entries.extend(row.iter().enumerate().map(|(c, a)| (3 * i + r, 3 * j + c, value * a)));
        }
    }
    System { n: 3 * of.n, entries }
}
