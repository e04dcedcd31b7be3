//! Common parts of the tests of aggregation on the CPU and on a device.

use crate::common::problems::hard::{self, System};
use crate::common::problems::{Stencil, neumann_var, random_m_matrix, random_rhs, without_mean};
use crate::common::{Solver, bits, dot, key, max_abs, max_difference, norm2, status};
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

pub fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// Reads the stored hard suite of this size (tests/golden/README.md).
pub fn systems(size: &str) -> Vec<System> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(golden(&format!("hard/{size}.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    hard::read(&bytes).unwrap()
}

/// Returns the iterations of another program to 1e-6, by system and size.
pub fn counts(variant: &str) -> HashMap<(String, String), i64> {
    let table = std::fs::read_to_string(golden("aggregation.csv")).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
    rows.filter(|row| row[0] == "rrb" && row[6] == variant && row[7] == "1e-06")
        .map(|row| ((row[1].to_owned(), format!("{}x{}", row[2], row[3])), row[8].parse().unwrap()))
        .collect()
}

pub fn relative_residual(a: &Stencil, b: &[f64], x: &[f64]) -> f64 {
    norm2(&a.residual(b, x)) / norm2(b)
}

/// Checks that `rrb_apply` applies a fixed matrix: linear, symmetric and positive up to the rounding of the cycle, and
/// unchanged by solves.
pub fn check_fixed_matrix(options: &str) {
    for (name, a, singular) in [
        ("five points", random_m_matrix(65, 64, false, 3), false),
        ("nine points", random_m_matrix(40, 33, true, 3), false),
        ("closed", neumann_var(65, 33), true),
    ] {
        for (precision, rounding) in [("f64", 1e-12), ("f32", 1e-4)] {
            let solver = Solver::of(&a, &format!("{options} precision={precision}"));
            let vector = |seed: u64| {
                let v = random_rhs(a.len(), seed);
                if singular { without_mean(v) } else { v }
            };
            let (u, v) = (vector(1), vector(2));
            let (mu, mv) = (solver.apply(&u), solver.apply(&v));
            let both: Vec<f64> = u.iter().zip(&v).map(|(u, v)| 3.0 * u - 2.0 * v).collect();
            let sum: Vec<f64> = mu.iter().zip(&mv).map(|(u, v)| 3.0 * u - 2.0 * v).collect();
            assert!(max_difference(&solver.apply(&both), &sum) <= rounding * max_abs(&sum), "{name} {precision}");
            let energy = (dot(&u, &mu) * dot(&v, &mv)).sqrt();
            assert!((dot(&u, &mv) - dot(&v, &mu)).abs() <= rounding * energy, "{name} {precision}");
            assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0);
            solver.solve_from_zero(&v);
            assert_eq!(bits(&solver.apply(&u)), bits(&mu), "{name} {precision}");
        }
    }
}

/// Returns the row sums of A.
fn row_sums(a: &Stencil) -> Vec<f64> {
    a.residual(&vec![0.0; a.len()], &vec![-1.0; a.len()])
}

/// Returns the system with a coast that has moved by a cell: water to the north and east of land becomes land.
fn moved_coast(a: &Stencil) -> Stencil {
    let (mut moved, sums) = (a.clone(), row_sums(a));
    let has_land = |p: usize| sums[p] == a.center[p];
    let flooded = |p: usize| p >= a.nx && !p.is_multiple_of(a.nx) && (has_land(p - 1) || has_land(p - a.nx));
    (0..a.len()).filter(|&p| flooded(p)).for_each(|p| moved.decouple(p % a.nx, p / a.nx, 1.0));
    moved.set_row_sums(|p| if flooded(p) { 1.0 } else { sums[p] });
    moved
}

/// Returns the system with each coupling multiplied by a factor. East and north of node p have the numbers 2 p and 2 p
/// + 1.
fn scaled(a: &Stencil, factor: &dyn Fn(usize) -> f64) -> Stencil {
    let (mut scaled, sums) = (a.clone(), row_sums(a));
    (0..a.len()).for_each(|p| scaled.east[p] *= factor(2 * p));
    (0..a.len()).for_each(|p| scaled.north[p] *= factor(2 * p + 1));
    scaled.set_row_sums(|p| sums[p]);
    scaled
}

/// Factorizes a sequence of matrices on a handle: aggregates are kept if their quality is still sufficient.
pub fn check_kept_aggregates(System { name, a, b, .. }: &System, options: &str) {
    let nx = a.nx;
    let solver = Solver::of(a, options);
    assert_eq!(solver.int(key::INFO_AGGREGATES_KEPT), 0);
    let random = random_rhs(2 * a.len(), 3);
    let is_inside = |i: usize, j: usize| (38..63).contains(&i) && (28..48).contains(&j);
    let in_box = |k: usize| if is_inside(k / 2 % nx, k / 2 / nx) { 10.0 } else { 1.0 };
    let changed = [scaled(a, &in_box), scaled(a, &|k| 1.0 + 0.5 * random[k]), moved_coast(a)];
    for (k, a) in changed.iter().enumerate() {
        let kept = |solver: &Solver| {
            solver.factorize(a).unwrap();
            let (x, status) = solver.solve_from_zero(b);
            assert_eq!(status, status::OK, "{name} {k}");
            assert!(relative_residual(a, b, &x) <= 1e-6);
            (solver.int(key::INFO_AGGREGATES_KEPT), solver.iterations())
        };
        let is_coast = ["lakes", "land10", "land30", "maze"].contains(&&**name);
        let (of_before, count) = kept(&solver);
        let (none, anew) = kept(&Solver::new(nx, a.ny, options));
        assert_eq!((of_before > 0, none), (k < 2 || !is_coast, 0), "{name} {k}");
        assert!(count <= anew + 3, "{name} {k}: {count} for {anew}");
        assert!(kept(&solver).0 > 0, "{name} {k}: the same once more");
    }
}
