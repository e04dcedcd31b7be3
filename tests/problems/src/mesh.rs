//! An unstructured mesh: linear elements on tetrahedra between points in no particular order.

use crate::sparse::System;
use crate::two_phase::SplitMix;
use std::collections::{BTreeMap, VecDeque};

/// Largest displacement of points from those of a regular grid, in grid spacings. No tetrahedron is inverted.
const JITTER: f64 = 0.3;

/// The six tetrahedra around the diagonal of a cube (Kuhn 1960); bits x, y, z number the corners.
const TETRAHEDRA: [[usize; 4]; 6] =
    [[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]];

/// Stiffness matrix of linear elements with conductivity 1 or 1000 by layers, on tetrahedra between n^3 displaced
/// points, plus a mass of 1e-3 per point. Points are generated in random order, then numbered by reverse Cuthill-McKee.
#[must_use]
pub fn tetrahedra(n: usize) -> System {
    let mut random = SplitMix(7);
    let count = n * n * n;
    let place = |p: usize| [p % n, p / n % n, p / (n * n)];
    let points: Vec<[f64; 3]> =
        (0..count).map(|p| place(p).map(|i| i as f64 + JITTER * (2.0 * random.unit() - 1.0))).collect();
    let mut rows: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); count];
    for p in (0..count).filter(|&p| place(p).iter().all(|&i| i + 1 < n)) {
        let corner = |c: usize| p + (c & 1) + (c >> 1 & 1) * n + (c >> 2) * n * n;
        let conductivity = if place(p)[2] / 4 % 2 == 0 { 1.0 } else { 1000.0 };
        for tetrahedron in TETRAHEDRA {
            let nodes = tetrahedron.map(corner);
            for (r, row) in stiffness(nodes.map(|node| points[node])).iter().enumerate() {
                for (c, value) in row.iter().enumerate() {
                    *rows[nodes[r]].entry(nodes[c]).or_default() += conductivity * value;
                }
            }
        }
    }
    rows.iter_mut().enumerate().for_each(|(p, row)| *row.entry(p).or_default() += 1e-3);
    let number = numbering(&rows, &mut random);
    let of_row = |(p, row): (usize, &BTreeMap<usize, f64>)| {
        row.iter().map(|(q, a)| (number[p], number[*q], *a)).collect::<Vec<_>>()
    };
    System { n: count, entries: rows.iter().enumerate().flat_map(of_row).collect() }
}

/// Returns the integrals of grad u_i . grad u_j over a tetrahedron, for the four linear basis functions.
fn stiffness(x: [[f64; 3]; 4]) -> [[f64; 4]; 4] {
    let minus = |a: [f64; 3], b: [f64; 3]| [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    let cross =
        |a: [f64; 3], b: [f64; 3]| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let edges = [minus(x[1], x[0]), minus(x[2], x[0]), minus(x[3], x[0])];
    let determinant = dot(edges[0], cross(edges[1], edges[2]));
    let mut gradients = [[0.0; 3]; 4];
    for k in 0..3 {
        gradients[k + 1] = cross(edges[(k + 1) % 3], edges[(k + 2) % 3]).map(|v| v / determinant);
    }
    gradients[0] = [0, 1, 2].map(|d| -(gradients[1][d] + gradients[2][d] + gradients[3][d]));
    let volume = determinant.abs() / 6.0;
    gradients.map(|g| gradients.map(|h| volume * dot(g, h)))
}

/// Returns the new numbers of all points: reverse Cuthill-McKee from a random point, with neighbours in random order.
fn numbering(rows: &[BTreeMap<usize, f64>], random: &mut SplitMix) -> Vec<usize> {
    let rank: Vec<u64> = rows.iter().map(|_| random.next()).collect();
    let mut order = Vec::with_capacity(rows.len());
    let mut seen = vec![false; rows.len()];
    let mut starts: Vec<usize> = (0..rows.len()).collect();
    starts.sort_by_key(|&p| rank[p]);
    for start in starts {
        let mut waiting = VecDeque::new();
        if !std::mem::replace(&mut seen[start], true) {
            waiting.push_back(start);
        }
        while let Some(p) = waiting.pop_front() {
            order.push(p);
            let mut next: Vec<usize> = rows[p].keys().copied().filter(|&q| !seen[q]).collect();
            next.sort_by_key(|&q| (rows[q].len(), rank[q]));
            for q in next {
                seen[q] = true;
                waiting.push_back(q);
            }
        }
    }
    let mut number = vec![0; rows.len()];
    order.iter().rev().enumerate().for_each(|(k, &p)| number[p] = k);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix is symmetric, its row sums are the mass, and each point has one number.
    #[test]
    fn constants_are_in_the_null_space_of_stiffness() {
        let a = tetrahedra(5);
        let mut sums = vec![0.0; a.n];
        let all: BTreeMap<(usize, usize), f64> = a.entries.iter().map(|&(i, j, v)| ((i, j), v)).collect();
        assert_eq!(all.len(), a.entries.len());
        for (&(i, j), value) in &all {
            sums[i] += value;
            // Sums of up to 24 elements in another order.
            assert!((value - all[&(j, i)]).abs() <= 1e-12 * 1e4);
        }
        assert!(sums.iter().all(|sum| (sum - 1e-3).abs() < 1e-9));
    }
}
