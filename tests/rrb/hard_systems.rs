//! What the tests of aggregation on the CPU and on a device share.

use crate::common::problems::hard::{self, System};
use crate::common::problems::{Stencil, neumann_var, random_m_matrix, random_rhs, without_mean};
use crate::common::{Solver, bits, dot, max_abs, max_difference, norm2};
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

pub fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// The hard suite of this size (tests/golden/README.md), stored.
pub fn systems(size: &str) -> Vec<System> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(golden(&format!("hard/{size}.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    hard::read(&bytes).unwrap()
}

/// Iterations to 1e-6 of another program, by system and size.
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

/// `rrb_apply` takes a matrix: linear, symmetric and positive to the rounding of the cycle, and no solve changes it.
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
