//! `cycle=aggregation` on a device: iteration counts of another program (tests/golden/README.md), further systems, and
//! solves that switch to aggregation.

use crate::common::dense::Dense;
use crate::common::problems::hard::System;
use crate::common::problems::hard_suite;
use crate::common::problems::{Stencil, aniso, neumann_var, poisson, random_m_matrix, random_rhs, rot};
use crate::common::{Solver, bits, key, max_abs, max_difference, status};
use crate::hard_systems::{check_fixed_matrix, check_kept_aggregates, counts, relative_residual, systems};

const AGGREGATION: &str = "backend=cuda cycle=aggregation";
const IN_USE: i64 = 4;

/// Additional iterations of systems that need two or three more than that program.
fn further(name: &str, size: &str) -> i64 {
    match (name, size) {
        ("layers3", "255x255") => 3,
        ("layers3", "300x700" | "512x512") | ("aniso1000", "255x255") => 2,
        _ => 0,
    }
}

/// At most one iteration more than that program, whose coarsest level has 128 rows, while 1024 rows are inverted here.
/// Repeated runs are bitwise identical. Larger grids with `RRBSOLVER_ALL_ROWS=1`, because an emulated device would need
/// too long.
pub fn aggregation_of_hard_systems() {
    let golden = counts("gpu");
    let all = std::env::var("RRBSOLVER_ALL_ROWS").is_ok_and(|all| all == "1");
    let larger = [(255, 255), (300, 700), (512, 512)].into_iter().filter(|_| all);
    let stored = ["64x64", "100x77"].map(|size| (size.to_owned(), systems(size)));
    let made = larger.map(|(nx, ny)| (format!("{nx}x{ny}"), hard_suite::systems(7, nx, ny)));
    for (size, systems) in stored.into_iter().chain(made) {
        for System { name, a, b, .. } in systems {
            let expected = golden[&(name.clone(), size.clone())];
            let solver = Solver::of(&a, AGGREGATION);
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!((result, solver.int(key::INFO_CYCLE)), (status::OK, IN_USE), "{name} {size}");
            let count = solver.int(key::INFO_ITERATIONS);
            let more = 1.max(further(&name, &size));
            assert!(count <= expected + more, "{name} {size}: {count} for {expected}");
            assert!(relative_residual(&a, &b, &x) <= 1e-6, "{name} {size}");
            if name == "lakes" {
                assert_eq!(bits(&solver.solve_from_zero(&b).0), bits(&x));
            }
        }
    }
}

/// Five and nine points, single nodes and lines, compared with an exact solution; also with several levels.
pub fn aggregation_of_awkward_sizes() {
    let small = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 5), (3, 3), (5, 2), (17, 1), (1, 17), (17, 3), (16, 16)];
    for (nx, ny) in small {
        for nine in [false, true] {
            let a = random_m_matrix(nx, ny, nine, 7);
            let b = random_rhs(a.len(), 11);
            let exact = Dense::from_stencil(&a).solve(&b);
            for block in [8, 64] {
                let options = format!("{AGGREGATION} compute_block={block} rel_tol=1e-12 precision=f64");
                let (x, result) = Solver::of(&a, &options).solve_from_zero(&b);
                assert_eq!(result, status::OK, "{nx} x {ny}, {nine}");
                assert!(max_difference(&x, &exact) <= 1e-10 * max_abs(&exact), "{nx} x {ny}, {nine}");
            }
        }
    }
    for (name, a, most) in [
        ("a line", random_m_matrix(1, 5000, false, 3), 20),
        ("a strip", random_m_matrix(3000, 3, true, 3), 20),
        ("nine points", random_m_matrix(65, 64, true, 3), 20),
        ("positive couplings", rot(63, 64, 0.05, 30.0), 90),
        ("anisotropy", aniso(64, 1000.0), 20),
    ] {
        let b = random_rhs(a.len(), 9);
        let solver = Solver::of(&a, AGGREGATION);
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!(result, status::OK, "{name}");
        assert!(relative_residual(&a, &b, &x) <= 1e-6, "{name}");
        assert!(solver.iterations() <= most, "{name}: {}", solver.iterations());
    }
}

/// Singular systems with one basin and with several basins.
pub fn aggregation_of_closed_basins() {
    let mut basins = neumann_var(81, 70);
    let sums = basins.residual(&vec![0.0; basins.len()], &vec![-1.0; basins.len()]);
    (0..70).for_each(|j| basins.east[j * 81 + 40] = 0.0);
    (0..81).for_each(|i| basins.north[30 * 81 + i] = 0.0);
    basins.set_row_sums(|p| sums[p]);
    for (name, a, singular) in [("one", neumann_var(90, 81), 1), ("four", basins, 4)] {
        // b is in the range of A.
        let b = a.multiply(&random_rhs(a.len(), 5));
        for precision in ["f32", "f64"] {
            let solver = Solver::of(&a, &format!("{AGGREGATION} precision={precision}"));
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!((result, solver.int(key::INFO_SINGULAR_COMPONENTS)), (status::OK, singular), "{name}");
            assert!(relative_residual(&a, &b, &x) <= 1e-6, "{name}");
            assert!(solver.iterations() <= 20, "{name} {precision}: {}", solver.iterations());
        }
    }
}

pub fn aggregation_applied() {
    check_fixed_matrix(AGGREGATION);
}

/// One handle with a sequence of matrices and cycles. Indefinite matrices are reported as on the CPU.
pub fn aggregation_again() {
    let (a, other) = (random_m_matrix(90, 70, false, 1), random_m_matrix(90, 70, true, 2));
    let b = random_rhs(a.len(), 3);
    let fresh = |a: &Stencil| bits(&Solver::of(a, AGGREGATION).solve_from_zero(&b).0);
    let solver = Solver::of(&a, AGGREGATION);
    for _ in 0..2 {
        assert_eq!(bits(&solver.solve_from_zero(&b).0), fresh(&a));
        solver.factorize(&other).unwrap();
        assert_eq!(bits(&solver.solve_from_zero(&b).0), fresh(&other));
        solver.options("cycle=v").unwrap();
        solver.factorize(&a).unwrap();
        assert_eq!(solver.int(key::INFO_CYCLE), 1);
        solver.options("cycle=aggregation").unwrap();
        solver.factorize(&a).unwrap();
        assert_eq!(solver.int(key::INFO_CYCLE), IN_USE);
    }
    // The same couplings with and without row sums: means of closed basins are needed alternately.
    let closed = neumann_var(60, 50);
    let mut open = closed.clone();
    open.center.iter_mut().for_each(|center| *center *= 1.001);
    let mut halves = closed.clone();
    (0..50).for_each(|j| halves.east[j * 60 + 30] = 0.0);
    halves.set_row_sums(|_| 0.0);
    let [solver, twin] = [0, 1].map(|_: u8| Solver::new(60, 50, AGGREGATION));
    for a in [&open, &closed, &open, &halves, &closed, &halves, &open] {
        let b = a.multiply(&random_rhs(a.len(), 5));
        solver.factorize(a).unwrap();
        let (x, result) = solver.solve_from_zero(&b);
        let fresh = Solver::of(a, AGGREGATION);
        let (anew, _) = fresh.solve_from_zero(&b);
        assert_eq!(result, status::OK);
        // If a wall was added or removed, the aggregates are rebuilt.
        assert!(solver.int(key::INFO_AGGREGATES_KEPT) > 0 || bits(&x) == bits(&anew));
        twin.factorize(a).unwrap();
        assert!(bits(&twin.solve_from_zero(&b).0) == bits(&x), "the same matrices before it");
        assert!(solver.iterations() <= fresh.iterations() + 1 && relative_residual(a, &b, &x) <= 1e-6);
    }
    for nine in [false, true] {
        let mut indefinite = if nine { random_m_matrix(40, 40, true, 3) } else { poisson(40, 40) };
        indefinite.center[810] *= 0.1;
        indefinite.center[811] *= 0.1;
        let failures = ["cpu", "cuda"].map(|backend| {
            let solver = Solver::new(40, 40, &format!("backend={backend} cycle=aggregation"));
            solver.factorize(&indefinite).err().map(|failure| (failure.status, failure.sentence))
        });
        // The 9-point A has positive centers: its indefiniteness is detected only in a solve.
        assert_eq!(failures[0].is_some(), !nine, "{failures:?}");
        assert_eq!(failures[0], failures[1]);
    }
}

/// Slow solves switch to aggregation, from fused stages and from unfused steps, and later matrices are factorized with
/// it. They do not switch if the memory limit forbids it.
pub fn aggregation_once_slow() {
    let land30 = |size: &str| systems(size).into_iter().find(|system| system.name == "land30").unwrap();
    let (land, mut closed) = (land30("64x64"), land30("100x77").a);
    closed.set_row_sums(|_| 0.0);
    closed.center.iter_mut().filter(|center| **center == 0.0).for_each(|center| *center = 1.0);
    let in_range = closed.multiply(&random_rhs(closed.len(), 3));
    let plain = "fusion=off precision=f64";
    for (name, a, b, all) in [("land", &land.a, &land.b, &["", plain][..]), ("closed", &closed, &in_range, &[""])] {
        for options in all {
            let solver = Solver::of(a, &format!("backend=cuda max_iter=3000 {options}"));
            let (x, result) = solver.solve_from_zero(b);
            assert_eq!((result, solver.int(key::INFO_CYCLE)), (status::OK, IN_USE), "{name} {options}");
            assert!(relative_residual(a, b, &x) <= 1e-6, "{name} {options}");
            assert!((33..=150).contains(&solver.iterations()), "{name} {options}: {}", solver.iterations());
            solver.factorize(a).unwrap();
            assert_eq!(solver.int(key::INFO_CYCLE), IN_USE);
            let (x, result) = solver.solve_from_zero(b);
            assert!(result == status::OK && solver.iterations() <= 25, "{name} {options}");
            assert!(relative_residual(a, b, &x) <= 1e-6, "{name} {options}");
            solver.options("switch_memory=0 max_iter=50").unwrap();
            solver.factorize(a).unwrap();
            solver.solve_from_zero(b);
            assert_ne!(solver.int(key::INFO_CYCLE), IN_USE, "{name} {options}");
        }
    }
}

/// Aggregates of the previous matrix, for four systems: an easy one, strong couplings, layers, lakes.
pub fn aggregation_keeps_aggregates() {
    for system in systems("100x77") {
        if ["poisson", "stretched", "layers3", "lakes"].contains(&&*system.name) {
            check_kept_aggregates(&system, AGGREGATION);
        }
    }
    // Twice the matrix keeps all aggregates, and x is exactly halved. Another precision keeps none.
    let a = random_m_matrix(65, 64, true, 3);
    let b = random_rhs(a.len(), 9);
    let solver = Solver::of(&a, AGGREGATION);
    let (x, _) = solver.solve_from_zero(&b);
    let mut twice = a.clone();
    twice.scale(2.0);
    solver.factorize(&twice).unwrap();
    assert!(solver.int(key::INFO_AGGREGATES_KEPT) > 500);
    let (half, _) = solver.solve_from_zero(&b);
    assert!(half.iter().map(|half| 2.0 * half).eq(x.iter().copied()));
    solver.options("precision=f64").unwrap();
    solver.factorize(&twice).unwrap();
    assert_eq!(solver.int(key::INFO_AGGREGATES_KEPT), 0);
}

/// Levels so large that each thread has a row, whose last slice is not full, next to land and with nine points.
pub fn aggregation_of_large_levels() {
    let (nx, ny) = (270, 251);
    let mut a = random_m_matrix(nx, ny, true, 5);
    for (i, j) in (0..ny).step_by(7).flat_map(|j| (0..nx).step_by(9).map(move |i| (i, j))) {
        a.decouple(i, j, 1.0);
    }
    let b = random_rhs(a.len(), 9);
    let solver = Solver::of(&a, &format!("{AGGREGATION} rel_tol=1e-4"));
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!((result, nx * ny % 32), (status::OK, 26));
    let host = Solver::of(&a, "backend=cpu cycle=aggregation rel_tol=1e-4");
    host.solve_from_zero(&b);
    assert!(relative_residual(&a, &b, &x) <= 1e-4);
    assert!(solver.iterations() <= host.iterations() + 4, "{} for {}", solver.iterations(), host.iterations());
}

/// Strong couplings in one direction predict slow convergence, weaker ones do not.
pub fn aggregation_beforehand() {
    for (a, slow) in [(aniso(180, 32.0), true), (aniso(180, 5.0), false)] {
        let solver = Solver::of(&a, "backend=cuda");
        assert_eq!(solver.int(key::INFO_CYCLE) == IN_USE, slow);
        let b = random_rhs(a.len(), 9);
        let (x, result) = solver.solve_from_zero(&b);
        assert!(result == status::OK && relative_residual(&a, &b, &x) <= 1e-6);
    }
}
