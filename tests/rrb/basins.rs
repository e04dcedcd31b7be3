//! Basins, channels and land of all shapes: each component is solved as if it were alone.

use crate::common;
use common::problems::{Random, Stencil, neumann_const, random_m_matrix, random_rhs};
use common::{Solver, key, max_abs, max_difference, norm2, status};
use proptest::prelude::*;

/// Returns a bound of the rounding error of the mean of `count` values.
///
/// The two sums that are compared contribute 2^-53 per term. Each iteration contributes a sum, its product, and a
/// direction whose mean is zero up to rounding: together twice 2^-52 of the largest value.
fn mean_to_rounding(count: usize, iterations: usize, largest: f64) -> f64 {
    (count + 2 * iterations) as f64 * f64::EPSILON * largest
}

/// Returns the component label of every node, by flooding along nonzero couplings.
fn components(a: &Stencil) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); a.len()];
    for (p, q, v) in a.couplings() {
        if v != 0.0 {
            neighbours[p].push(q);
            neighbours[q].push(p);
        }
    }
    let mut label = vec![usize::MAX; a.len()];
    for start in 0..a.len() {
        if label[start] == usize::MAX {
            let mut stack = vec![start];
            label[start] = start;
            while let Some(p) = stack.pop() {
                for &q in &neighbours[p] {
                    if label[q] == usize::MAX {
                        label[q] = start;
                        stack.push(q);
                    }
                }
            }
        }
    }
    label
}

/// Creates a matrix on a wet mask: couplings between wet neighbours and zero row sums. Components that `open` selects
/// by their first node have a positive row sum at that node. Land has center 1.
fn wet(nx: usize, ny: usize, nine: bool, mask: &[bool], seed: u64, open: impl Fn(usize) -> bool) -> Stencil {
    let mut a = random_m_matrix(nx, ny, nine, seed);
    for p in (0..nx * ny).filter(|&p| !mask[p]) {
        a.decouple(p % nx, p / nx, 1.0);
    }
    let label = components(&a);
    let coupled: Vec<bool> = {
        let mut coupled = vec![false; a.len()];
        for (p, q, v) in a.couplings() {
            if v != 0.0 {
                coupled[p] = true;
                coupled[q] = true;
            }
        }
        coupled
    };
    a.set_row_sums(|p| {
        if !coupled[p] {
            1.0
        } else if label[p] == p && open(p) {
            0.5
        } else {
            0.0
        }
    });
    a
}

/// Solves on a wet mask and checks all promises about components.
fn check_wet(a: &Stencil, seed: u64, options: &str) {
    let n = a.len();
    let label = components(a);
    let mut size = vec![0usize; n];
    label.iter().for_each(|&l| size[l] += 1);
    let sums = {
        let mut sums = a.center.clone();
        for (p, q, v) in a.couplings() {
            sums[p] += v;
            sums[q] += v;
        }
        sums
    };
    let mut singular = vec![true; n];
    for p in 0..n {
        if sums[p].abs() > 1e-12 * a.center[p] {
            singular[label[p]] = false;
        }
    }
    let roots: Vec<usize> = (0..n).filter(|&p| label[p] == p && size[p] > 1).collect();
    let singular_roots: Vec<usize> = roots.iter().copied().filter(|&p| singular[p]).collect();

    let solver = Solver::of(a, &format!("{options} rel_tol=1e-9"));
    assert_eq!(solver.int(key::INFO_COMPONENTS) as usize, roots.len(), "{options}");
    assert_eq!(solver.int(key::INFO_SINGULAR_COMPONENTS) as usize, singular_roots.len(), "{options}");

    let b = random_rhs(n, seed);
    let mut projected = b.clone();
    let mut x = Random(seed + 1).vector(n);
    let mean_of =
        |v: &[f64], root: usize| (0..n).filter(|&p| label[p] == root).map(|p| v[p]).sum::<f64>() / size[root] as f64;
    let before: Vec<f64> = singular_roots.iter().map(|&root| mean_of(&x, root)).collect();
    for &root in &singular_roots {
        let mean = mean_of(&b, root);
        (0..n).filter(|&p| label[p] == root).for_each(|p| projected[p] -= mean);
    }
    assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{options}, history {:?}", solver.history());
    let residual = norm2(&a.residual(&projected, &x)) / norm2(&projected);
    // The second term is the rounding error of b - A x, where |x| may be (length of a channel)^2 |b|.
    assert!(residual <= 1e-9 + 1e-15 * max_abs(&x) * n as f64, "{options}: {residual:e}");
    for (&root, &mean) in singular_roots.iter().zip(&before) {
        let shift = (mean_of(&x, root) - mean).abs();
        // The magnitudes of the guess are below 1.
        let allowed = mean_to_rounding(size[root], solver.iterations(), max_abs(&x).max(1.0));
        assert!(shift <= allowed, "{options}: mean of component {root} moved by {shift:e}");
    }
    for p in (0..n).filter(|&p| size[label[p]] == 1) {
        let error = (x[p] - b[p] / a.center[p]).abs();
        // Land is solved in the first step; the other nodes change it within the tolerance.
        assert!(error <= 1e-9 * norm2(&b), "{options}: land {p} off by {error:e}");
    }
}

/// Basins behind walls, open and closed in turn. On the larger grid, several threads work.
pub fn disconnected_basins() {
    let wet_columns = |p: usize| ![10, 11, 27].contains(&(p % 41));
    let six = |p: usize| ![31, 64, 65, 99].contains(&(p % 130)) && (p / 130 != 44 || p % 130 >= 64);
    let small: Vec<bool> = (0..41 * 23).map(wet_columns).collect();
    let large: Vec<bool> = (0..130 * 91).map(six).collect();
    for nine in [false, true] {
        let a = wet(41, 23, nine, &small, 5, |p| p == 12);
        for backend in ["reference", "cpu threads=1"] {
            for levels in [0, 1, 2, 4, 40] {
                check_wet(&a, 3, &format!("backend={backend} levels={levels}"));
            }
        }
        let a = wet(130, 91, nine, &large, 6, |p| [0, 32].contains(&p));
        for more in ["", "levels=4", "fusion=off lumping=m2u", "grids=1"] {
            check_wet(&a, 4, &format!("backend=cpu threads=3 {more}"));
        }
    }
}

/// A comb of closed channels one cell wide, and a spiral: every level has nodes whose couplings are all lumped.
pub fn narrow_channels_in_a_closed_basin() {
    let (nx, ny) = (37, 29);
    let comb = |i: usize, j: usize| j == 0 || i.is_multiple_of(2);
    let diagonal = |i: usize, j: usize| (i + j) % 3 != 1 || i == j;
    let spiral = {
        let mut wet = vec![false; nx * ny];
        let (mut left, mut right, mut low, mut high) = (0, nx - 1, 0, ny - 1);
        while left + 3 < right && low + 3 < high {
            (left..=right).for_each(|i| wet[low * nx + i] = true);
            (low..=high).for_each(|j| wet[j * nx + right] = true);
            (left..=right).for_each(|i| wet[high * nx + i] = true);
            (low + 2..=high).for_each(|j| wet[j * nx + left] = true);
            wet[(low + 2) * nx + left + 1] = true;
            (left, right, low, high) = (left + 2, right - 2, low + 2, high - 2);
        }
        wet
    };
    let masks = [
        (0..nx * ny).map(|p| comb(p % nx, p / nx)).collect::<Vec<bool>>(),
        (0..nx * ny).map(|p| diagonal(p % nx, p / nx)).collect(),
        spiral,
    ];
    for mask in &masks {
        for nine in [false, true] {
            for open in [false, true] {
                let a = wet(nx, ny, nine, mask, 8, |_| open);
                for backend in ["reference", "cpu"] {
                    for levels in [0, 2, 3, 40] {
                        check_wet(&a, 6, &format!("backend={backend} levels={levels} max_iter=4000"));
                    }
                }
            }
        }
    }
}

/// A guess that differs from the solution by constants on singular components counts as exact.
pub fn shifted_guess_of_a_singular_system_is_exact() {
    let a = neumann_const(20, 14);
    let y = random_rhs(280, 1);
    let b = a.multiply(&y);
    for backend in ["reference", "cpu"] {
        let solver = Solver::of(&a, &format!("backend={backend}"));
        let mut x: Vec<f64> = y.iter().map(|v| v + 3.0).collect();
        let given = x.clone();
        assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
        assert_eq!(solver.iterations(), 0);
        assert!(max_difference(&x, &given) <= 1e-14, "one shift to and fro");
    }
}

/// Random masks consist of many components of all shapes.
pub fn random_masks() {
    any_mask();
}

proptest! {
    // Each case is a few solves with at most 30 x 30 nodes.
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    fn any_mask(
        nx in 1usize..30, ny in 1usize..30, wet_share in 0.4f64..1.0, nine: bool, seed in 0u64..1000,
        levels in 0usize..12,
    ) {
        let mut random = Random(seed);
        let mask: Vec<bool> = (0..nx * ny).map(|_| random.unit() < wet_share).collect();
        let a = wet(nx, ny, nine, &mask, seed, |p| p % 3 == 0);
        for backend in ["reference", "cpu threads=1"] {
            check_wet(&a, seed, &format!("backend={backend} levels={levels} max_iter=4000"));
        }
    }
}
