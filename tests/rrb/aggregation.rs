//! `cycle=aggregation` on every backend: the hard suite (tests/golden/README.md), its requirements and errors, its
//! fixed form in `rrb_apply`, and solves that switch to it.
//!
//! `CHECKS` run on every line of `BACKENDS`. `ON_THE_HOST` are properties of the CPU only.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::dense::Dense;
use common::problems::hard::{self, System};
use common::problems::hard_suite;
use common::problems::{
    Stencil, aniso, fe_aniso, neumann_var, poisson, random_m_matrix, random_rhs, rot, without_mean,
};
use common::*;
use device::{Backend, Check};
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::io::Read;
use std::path::PathBuf;

const AGGREGATION: &str = "backend=cpu cycle=aggregation";
const IN_USE: i64 = 4;

const BACKENDS: &[Backend] =
    &[Backend { name: "the CPU", options: "backend=cpu" }, Backend { name: "a device", options: "backend=cuda" }];

const CHECKS: &[Check] = &[
    ("hard_systems", hard_systems),
    ("hard_systems_of_255x255", |on| larger(on, &[(7, 255, 255)])),
    ("hard_systems_of_300x700", |on| larger(on, &[(7, 300, 700)])),
    ("hard_systems_of_512x512", |on| larger(on, &[(7, 512, 512), (7, 1024, 1024), (1, 512, 512), (2, 512, 512)])),
    ("awkward_sizes", awkward_sizes),
    ("lines_and_nine_points", lines_and_nine_points),
    ("closed_basins", closed_basins),
    ("a_fixed_matrix_to_apply", a_fixed_matrix_to_apply),
    ("one_handle", one_handle),
    ("aggregates_are_kept", aggregates_are_kept),
    ("large_levels", large_levels),
    ("slow_solves_switch", slow_solves_switch),
    ("slow_matrices_are_predicted", slow_matrices_are_predicted),
];

fn main() {
    let mut tests = device::suite(BACKENDS, CHECKS);
    tests.extend(device::on_host!(
        hard_systems_are_made_as_stored
        nearly_singular
        what_is_not_offered_is_refused
        slow_solves_of_a_team_switch
        predicted_matrices_are_aggregated
        a_center_of_another_magnitude
        slow_solves_of_nine_points_switch
        idle_options_are_logged_once
    ));
    device::run(devices(), tests)
}

/// Creates a factorized handle with `cycle=aggregation`.
#[track_caller]
fn aggregated(on: &Backend, a: &Stencil, options: &str) -> Solver {
    Solver::of(a, &format!("{} cycle=aggregation {options}", on.options))
}

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// Reads the stored hard suite of this size (tests/golden/README.md).
fn systems(size: &str) -> Vec<System> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(golden(&format!("hard/{size}.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    hard::read(&bytes).unwrap()
}

/// Returns the iterations of another program to 1e-6, by system and size.
fn counts(variant: &str) -> HashMap<(String, String), i64> {
    let table = std::fs::read_to_string(golden("aggregation.csv")).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
    rows.filter(|row| row[0] == "rrb" && row[6] == variant && row[7] == "1e-06")
        .map(|row| ((row[1].to_owned(), format!("{}x{}", row[2], row[3])), row[8].parse().unwrap()))
        .collect()
}

fn relative_residual(a: &Stencil, b: &[f64], x: &[f64]) -> f64 {
    norm2(&a.residual(b, x)) / norm2(b)
}

/// Solves a system with aggregation. Returns the iterations and the bits of the solution.
fn solved(on: &Backend, System { name, a, b, .. }: &System, options: &str) -> (i64, Vec<u64>) {
    let solver = aggregated(on, a, options);
    let (x, status) = solver.solve_from_zero(b);
    assert_eq!((status, solver.int(key::INFO_CYCLE)), (status::OK, IN_USE), "{name} {options}");
    assert!(relative_residual(a, b, &x) <= 1e-6, "{name} {options}");
    (solver.int(key::INFO_ITERATIONS), bits(&x))
}

/// Returns the number of iterations by which a system may exceed the count of the other program.
///
/// The CPU matches pairs in the order of all nodes, and the other program in blocks of 1024 nodes. On a device, 1024
/// rows of the coarsest level are inverted instead of 128.
fn allowed_more(on: &Backend, name: &str, nx: usize) -> i64 {
    match (name, nx) {
        ("layers3", 255) if on.on_device() => 2,
        ("whitenoise", 255) | ("stretched" | "land30", 300) | ("land30", 512) if !on.on_device() => 2,
        _ => 1,
    }
}

/// Solves a system of the suite with one thread and with these numbers of threads, and compares the iterations with
/// those of the other program, whose rows have seed 7.
fn check_hard(on: &Backend, seed: u32, system: &System, options: &str, threads: &[usize]) {
    let golden = counts(if on.on_device() { "gpu" } else { "blkk" });
    let (name, nx, ny) = (&system.name, system.a.nx, system.a.ny);
    let what = format!("{name} {nx}x{ny} seed {seed} {options}");
    let one = solved(on, system, &format!("threads=1 {options}"));
    let expected = golden.get(&(name.clone(), format!("{nx}x{ny}"))).filter(|_| seed == 7);
    assert!(expected.is_some() || nx * ny > 512 * 512 || seed != 7, "{what}: no row");
    let most = expected.map_or(25, |expected| expected + allowed_more(on, name, nx));
    let most = if on.on_device() { most } else { most.min(25) };
    assert!(one.0 <= most, "{what}: {} for {expected:?}", one.0);
    for threads in threads {
        assert!(solved(on, system, &format!("threads={threads} {options}")) == one, "{what} threads={threads}");
    }
}

/// Every system converges to 1e-6 within the iterations of the other program and a few more, on the CPU in at most 25.
/// Results are bitwise identical for any number of threads and when repeated.
fn hard_systems(on: &Backend) {
    for system in ["64x64", "100x77"].into_iter().flat_map(systems) {
        match on.on_device() {
            true => check_hard(on, 7, &system, "", if system.name == "lakes" { &[1] } else { &[] }),
            false => ["auto", "f64"]
                .iter()
                .for_each(|precision| check_hard(on, 7, &system, &format!("precision={precision}"), &[2, 3])),
        }
    }
}

/// As `hard_systems`, on larger grids. `RRBSOLVER_ALL_ROWS=1` selects those that take an emulated device too long, and
/// sizes and seeds for which the other program has no rows.
fn larger(on: &Backend, sizes: &[(u32, usize, usize)]) {
    let all = std::env::var("RRBSOLVER_ALL_ROWS").is_ok_and(|all| all == "1");
    for &(seed, nx, ny) in sizes {
        let has_rows = seed == 7 && nx * ny <= 512 * 512;
        let is_chosen = if on.on_device() { all && has_rows } else { all || has_rows };
        let threads: &[usize] = if !on.on_device() && nx == 255 { &[2, 3, 7] } else { &[] };
        let systems = if is_chosen { hard_suite::systems(seed, nx, ny) } else { Vec::new() };
        systems.iter().for_each(|system| check_hard(on, seed, system, "", threads));
    }
}

/// Systems with five and nine points on grids of irregular sizes, compared with an exact solution.
fn awkward_sizes(on: &Backend) {
    for (nx, ny) in
        [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 5), (3, 3), (5, 2), (17, 1), (1, 17), (17, 3), (16, 16)]
    {
        for nine in [false, true] {
            let a = random_m_matrix(nx, ny, nine, 7);
            let b = random_rhs(a.len(), 11);
            let exact = Dense::from_stencil(&a).solve(&b);
            for block in [8, 64] {
                let solver = aggregated(on, &a, &format!("compute_block={block} rel_tol=1e-12 precision=f64"));
                let (x, status) = solver.solve_from_zero(&b);
                assert_eq!(status, status::OK, "{nx} x {ny}, {nine}");
                assert!(max_difference(&x, &exact) <= 1e-10 * max_abs(&exact), "{nx} x {ny}, {nine}");
            }
        }
    }
}

/// Lines, strong couplings, and nine points, also with positive couplings, which are not compensated here.
fn lines_and_nine_points(on: &Backend) {
    let positive = rot(63, 64, 0.05, 30.0);
    assert!(positive.couplings().iter().any(|&(_, _, value)| value > 0.0));
    let mut cases = vec![
        ("a line", random_m_matrix(1, 5000, false, 3), 20),
        ("a strip", random_m_matrix(3000, 3, true, 3), 20),
        ("nine points", random_m_matrix(65, 64, true, 3), 20),
        ("positive couplings", positive, if on.on_device() { 90 } else { 60 }),
        ("anisotropy", aniso(64, 1000.0), 20),
    ];
    if !on.on_device() {
        cases.push(("finite elements", fe_aniso(64, 64, 10.0), 30));
    }
    for (name, a, most) in cases {
        let b = random_rhs(a.len(), 9);
        let solver = aggregated(on, &a, "threads=2");
        let (x, status) = solver.solve_from_zero(&b);
        assert_eq!((status, solver.int(key::INFO_COMPENSATED_COUPLINGS)), (status::OK, 0), "{name}");
        assert!(relative_residual(&a, &b, &x) <= 1e-6, "{name}");
        assert!(solver.iterations() <= most, "{name}: {}", solver.iterations());
    }
}

/// Singular systems with one basin and with several basins.
fn closed_basins(on: &Backend) {
    let mut basins = neumann_var(81, 70);
    let sums = row_sums(&basins);
    (0..70).for_each(|j| basins.east[j * 81 + 40] = 0.0);
    (0..81).for_each(|i| basins.north[30 * 81 + i] = 0.0);
    basins.set_row_sums(|p| sums[p]);
    for (name, a, singular) in [("one", neumann_var(90, 81), 1), ("four", basins, 4)] {
        // b is in the range of A.
        let b = a.multiply(&random_rhs(a.len(), 5));
        for precision in ["f32", "f64"] {
            let solver = aggregated(on, &a, &format!("precision={precision}"));
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!((result, solver.int(key::INFO_SINGULAR_COMPONENTS)), (status::OK, singular), "{name}");
            assert!(relative_residual(&a, &b, &x) <= 1e-6, "{name}");
            assert!(solver.iterations() <= 20, "{name} {precision}: {}", solver.iterations());
        }
    }
}

/// `rrb_apply` applies a fixed matrix: linear, symmetric and positive up to the rounding of the cycle, and unchanged by
/// solves.
fn a_fixed_matrix_to_apply(on: &Backend) {
    for (name, a, singular) in [
        ("five points", random_m_matrix(65, 64, false, 3), false),
        ("nine points", random_m_matrix(40, 33, true, 3), false),
        ("closed", neumann_var(65, 33), true),
    ] {
        for (precision, rounding) in [("f64", 1e-12), ("f32", 1e-4)] {
            let solver = aggregated(on, &a, &format!("precision={precision}"));
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

/// One handle with a sequence of matrices and cycles gives the results of new handles, in the same memory. Indefinite
/// matrices are reported as on the CPU.
fn one_handle(on: &Backend) {
    let (a, other) = (random_m_matrix(90, 70, false, 1), random_m_matrix(90, 70, true, 2));
    let b = random_rhs(a.len(), 3);
    let fresh = |a: &Stencil| bits(&aggregated(on, a, "").solve_from_zero(&b).0);
    let solver = aggregated(on, &a, "");
    let mut bytes = Vec::new();
    for _ in 0..3 {
        assert_eq!(bits(&solver.solve_from_zero(&b).0), fresh(&a));
        solver.factorize(&other).unwrap();
        assert_eq!(bits(&solver.solve_from_zero(&b).0), fresh(&other));
        solver.options("cycle=v").unwrap();
        solver.factorize(&a).unwrap();
        assert_eq!(solver.int(key::INFO_CYCLE), 1);
        solver.options("cycle=aggregation").unwrap();
        solver.factorize(&a).unwrap();
        assert_eq!(solver.int(key::INFO_CYCLE), IN_USE);
        bytes.push(solver.int(key::INFO_BYTES_HOST));
    }
    assert!(on.on_device() || bytes == [bytes[0]; 3], "{bytes:?}");
    // The couplings are the same with and without row sums, so that the means of closed basins are needed alternately.
    let closed = neumann_var(60, 50);
    let mut open = closed.clone();
    open.center.iter_mut().for_each(|center| *center *= 1.001);
    let mut halves = closed.clone();
    (0..50).for_each(|j| halves.east[j * 60 + 30] = 0.0);
    halves.set_row_sums(|_| 0.0);
    let options = format!("{} cycle=aggregation", on.options);
    let [solver, twin] = [0, 1].map(|_: u8| Solver::new(60, 50, &options));
    for a in [&open, &closed, &open, &halves, &closed, &halves, &open] {
        let b = a.multiply(&random_rhs(a.len(), 5));
        solver.factorize(a).unwrap();
        let (x, result) = solver.solve_from_zero(&b);
        let fresh = aggregated(on, a, "");
        let (of_a_new_handle, _) = fresh.solve_from_zero(&b);
        assert_eq!(result, status::OK);
        // If a wall was added or removed, the aggregates are rebuilt.
        assert!(solver.int(key::INFO_AGGREGATES_KEPT) > 0 || bits(&x) == bits(&of_a_new_handle));
        twin.factorize(a).unwrap();
        assert!(bits(&twin.solve_from_zero(&b).0) == bits(&x), "the same matrices before it");
        assert!(solver.iterations() <= fresh.iterations() + 1 && relative_residual(a, &b, &x) <= 1e-6);
    }
    for nine in [false, true] {
        let mut indefinite = if nine { random_m_matrix(40, 40, true, 3) } else { poisson(40, 40) };
        indefinite.center[810] *= 0.1;
        indefinite.center[811] *= 0.1;
        let failures = ["backend=cpu", on.options].map(|backend| {
            let solver = Solver::new(40, 40, &format!("{backend} cycle=aggregation"));
            solver.factorize(&indefinite).err()
        });
        // The 9-point A has positive centers: its indefiniteness is detected only in a solve.
        assert_eq!(failures[0].is_some(), !nine, "{failures:?}");
        assert_eq!(failures[0], failures[1]);
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

/// Aggregates are kept if they suit the new values: here, couplings in a box are multiplied by ten, or each coupling by
/// 0.5 to 1.5. After a coast has moved by a cell, aggregates are rebuilt. Iteration counts stay close to those of new
/// aggregates.
fn aggregates_are_kept(on: &Backend) {
    let some = ["poisson", "stretched", "layers3", "lakes"];
    let is_chosen = |system: &System| !on.on_device() || some.contains(&&*system.name);
    for System { name, a, b, .. } in systems("100x77").into_iter().filter(is_chosen) {
        let solver = aggregated(on, &a, "threads=2");
        assert_eq!(solver.int(key::INFO_AGGREGATES_KEPT), 0);
        let random = random_rhs(2 * a.len(), 3);
        let is_inside = |i: usize, j: usize| (38..63).contains(&i) && (28..48).contains(&j);
        let in_box = |k: usize| if is_inside(k / 2 % a.nx, k / 2 / a.nx) { 10.0 } else { 1.0 };
        let changed = [scaled(&a, &in_box), scaled(&a, &|k| 1.0 + 0.5 * random[k]), moved_coast(&a)];
        for (k, a) in changed.iter().enumerate() {
            let kept = |solver: &Solver| {
                let (x, status) = solver.solve_from_zero(&b);
                assert_eq!(status, status::OK, "{name} {k}");
                assert!(relative_residual(a, &b, &x) <= 1e-6);
                (solver.int(key::INFO_AGGREGATES_KEPT), solver.iterations())
            };
            let again = || {
                solver.factorize(a).unwrap();
                kept(&solver)
            };
            let is_coast = ["lakes", "land10", "land30", "maze"].contains(&&*name);
            let (of_before, count) = again();
            let (none, of_a_new_handle) = kept(&aggregated(on, a, "threads=2"));
            assert_eq!((of_before > 0, none), (k < 2 || !is_coast, 0), "{name} {k}");
            assert!(count <= of_a_new_handle + 3, "{name} {k}: {count} for {of_a_new_handle}");
            assert!(again().0 > 0, "{name} {k}: the same once more");
        }
    }
    // Twice the matrix keeps all aggregates, and x is exactly halved. Another precision keeps none.
    let a = random_m_matrix(65, 64, true, 3);
    let b = random_rhs(a.len(), 9);
    let solver = aggregated(on, &a, "");
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

/// Levels that are so large that each thread of a device has a row. The last slice is not full, and there are systems
/// with land and with nine points. Compares with the CPU.
fn large_levels(on: &Backend) {
    let (nx, ny) = (270, 251);
    let mut a = random_m_matrix(nx, ny, true, 5);
    for (i, j) in (0..ny).step_by(7).flat_map(|j| (0..nx).step_by(9).map(move |i| (i, j))) {
        a.decouple(i, j, 1.0);
    }
    let b = random_rhs(a.len(), 9);
    let solver = aggregated(on, &a, "rel_tol=1e-4");
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!((result, nx * ny % 32), (status::OK, 26));
    assert!(relative_residual(&a, &b, &x) <= 1e-4);
    let host = aggregated(&BACKENDS[0], &a, "rel_tol=1e-4 threads=1");
    host.solve_from_zero(&b);
    assert!(solver.iterations() <= host.iterations() + 4, "{} for {}", solver.iterations(), host.iterations());
}

/// A slow solve with `cycle=auto` switches to aggregation once, bitwise identical for any number of threads; later
/// matrices are factorized with aggregation. It does not switch if the memory limit forbids it, or if RRB is fast. On a
/// device, two slow systems begin with fused stages and with unfused steps.
fn slow_solves_switch(on: &Backend) {
    let mut cases: Vec<(System, bool)> =
        ["64x64", "100x77"].into_iter().flat_map(systems).map(|system| (system, false)).collect();
    let land = |nx: usize| cases.iter().find(|(system, _)| system.name == "land30" && system.a.nx == nx).unwrap();
    let (mut closed, mut slow) = (land(100).0.clone(), land(64).0.clone());
    closed.a.set_row_sums(|_| 0.0);
    closed.a.center.iter_mut().filter(|center| **center == 0.0).for_each(|center| *center = 1.0);
    closed.b = closed.a.multiply(&random_rhs(closed.a.len(), 3));
    "closed".clone_into(&mut closed.name);
    "slow".clone_into(&mut slow.name);
    if on.on_device() {
        cases.clear();
    }
    cases.extend([(slow, true), (closed, true)]);
    // Number of iterations after which a solve first compares the costs (`SWITCH_ITERATIONS` in
    // src/options/auto_rules.rs). In the closed basins, rounding changes the norm of the residual after 16 iterations
    // by up to 20 %. Depending on this norm, the solve switches then or after about 40 iterations.
    let compared_after = if on.on_device() { 32 } else { 16 };
    for (System { name, a, b, .. }, must) in &cases {
        for options in ["", "fusion=off precision=f64"] {
            if !options.is_empty() && name != "slow" {
                continue;
            }
            let what = format!("{name} {} x {} {options}", a.nx, a.ny);
            let solver = |more: &str| Solver::of(a, &format!("{} max_iter=3000 {options} {more}", on.options));
            let one = solver("threads=1");
            assert!(!must || one.int(key::INFO_CYCLE) != IN_USE, "{what}");
            let (x, status) = one.solve_from_zero(b);
            let (count, slow) = (one.iterations(), one.int(key::INFO_CYCLE) == IN_USE);
            assert_eq!(status, status::OK, "{what}");
            assert!(relative_residual(a, b, &x) <= 1e-6, "{what}");
            assert!(count <= if *must { 150 } else { 100 }, "{what}: {count}");
            assert!(!must || slow && count > compared_after, "{what}: {count}");
            if !on.on_device() {
                let never = solver("threads=1 switch_memory=0");
                let (_, without) = never.solve_from_zero(b);
                assert_ne!(never.int(key::INFO_CYCLE), IN_USE);
                // The switch is correct: aggregation costs 150 iterations, and the prediction may be off by 50 %. With
                // many lakes, however, residuals stagnate at first, so that on a small grid 40 iterations may count as
                // slow.
                let taken = never.iterations();
                assert!(slow || without == status::OK && taken <= 200, "{what}: {taken}");
                assert!(!slow || without != status::OK || taken >= 40, "{what}: {taken}");
                for threads in [2, 3] {
                    let other = solver(&format!("threads={threads}"));
                    assert_eq!(bits(&other.solve_from_zero(b).0), bits(&x), "{what} {threads}");
                }
            }
            if slow {
                one.factorize(a).unwrap();
                assert_eq!(one.int(key::INFO_CYCLE), IN_USE);
                let (x, status) = one.solve_from_zero(b);
                assert!(status == status::OK && one.iterations() <= 25, "{what}: {}", one.iterations());
                assert!(relative_residual(a, b, &x) <= 1e-6, "{what}");
                assert!(on.on_device() || !options.is_empty() || one.int(key::INFO_PRECISION) == 2, "{what}");
                one.options("switch_memory=0 max_iter=50").unwrap();
                one.factorize(a).unwrap();
                one.solve_from_zero(b);
                assert_ne!(one.int(key::INFO_CYCLE), IN_USE, "{what}");
            }
        }
    }
    if !on.on_device() {
        let a = systems("100x77").into_iter().find(|system| ["lakes", "land30"].contains(&&*system.name)).unwrap().a;
        let few = Solver::of(&a, "backend=cpu switch_memory=100000 max_iter=100");
        few.solve_from_zero(&random_rhs(a.len(), 1));
        assert_ne!(few.int(key::INFO_CYCLE), IN_USE);
    }
}

/// Strong couplings in one direction predict slow convergence, weaker ones do not.
fn slow_matrices_are_predicted(on: &Backend) {
    for (a, slow) in [(aniso(180, 32.0), true), (aniso(180, 5.0), false)] {
        let solver = Solver::of(&a, on.options);
        assert_eq!(solver.int(key::INFO_CYCLE) == IN_USE, slow);
        let b = random_rhs(a.len(), 9);
        let (x, result) = solver.solve_from_zero(&b);
        assert!(result == status::OK && relative_residual(&a, &b, &x) <= 1e-6);
    }
}

/// Systems generated here equal those that `benches/hard_suite.py` wrote, up to the rounding of normal numbers and of
/// sums over a row and a column.
fn hard_systems_are_made_as_stored() {
    for (nx, ny) in [(64, 64), (100, 77)] {
        let mut stored = systems(&format!("{nx}x{ny}"));
        assert_eq!(stored.len(), 16);
        for made in hard_suite::systems(7, nx, ny) {
            let stored = stored.remove(stored.iter().position(|stored| stored.name == made.name).unwrap());
            assert_eq!((made.a.nx, made.a.ny, made.singular), (nx, ny, stored.singular), "{}", made.name);
            // The largest relative difference is 7e-14, because the exponential of a field multiplies its rounding.
            for (made_here, stored_there) in
                [(&made.a.center, &stored.a.center), (&made.a.east, &stored.a.east), (&made.a.north, &stored.a.north)]
            {
                let is_same = |(m, s): (&f64, &f64)| (m - s).abs() <= 1e-12 * s.abs();
                assert!(made_here.iter().zip(stored_there).all(is_same), "{}", made.name);
            }
            assert!(max_difference(&made.b, &stored.b) <= 1e-13 * max_abs(&stored.b), "{}", made.name);
        }
    }
}

/// A closed basin with row sums from zero to 1e-6 of a center: the iteration counts do not grow, although sweeps are in
/// single precision. The rounding of the sum of r alone would otherwise dominate (187 iterations at 1e-11).
fn nearly_singular() {
    let mut a = neumann_var(128, 128);
    let b = without_mean(random_rhs(a.len(), 3));
    let center = a.center[5 * 128 + 7];
    for leak in [0.0, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6] {
        a.center[5 * 128 + 7] = center * (1.0 + leak);
        let solver = Solver::of(&a, &format!("{AGGREGATION} precision=f32"));
        let (_, status) = solver.solve_from_zero(&b);
        assert_eq!(status, status::OK, "{leak:e}");
        assert!(solver.iterations() <= 30, "{leak:e}: {}", solver.iterations());
    }
}

fn what_is_not_offered_is_refused() {
    let a = poisson(20, 20);
    for (options, words) in [
        ("backend=reference cycle=aggregation", ["cycle=aggregation", "backend=cpu"]),
        ("backend=cpu cycle=aggregation precision=bf16", ["precision=f32", "f64"]),
        ("backend=cpu cycle=aggregation precision=mixed", ["precision=f32", "f64"]),
    ] {
        let solver = Solver::new(20, 20, options);
        solver.factorize(&a).unwrap_err().expect(status::UNSUPPORTED, &words);
        // The handle can use another cycle.
        solver.options("cycle=v backend=cpu precision=auto").unwrap();
        solver.factorize(&a).unwrap();
    }
    let closed = neumann_var(20, 20);
    let solver = Solver::new(20, 20, "backend=cpu cycle=aggregation null_space=none");
    solver.factorize(&closed).unwrap_err().expect(status::MATRIX, &["null_space=none", "singular"]);
    let mut indefinite = poisson(20, 20);
    indefinite.center[210] = 0.5;
    let solver = Solver::new(20, 20, AGGREGATION);
    solver.factorize(&indefinite).unwrap_err().expect(status::MATRIX, &["not positive definite"]);
}

/// Layers of three nodes with conductivities 1 : 1000 and Dirichlet conditions on two edges; with `nine`, weak corner
/// couplings.
fn layers(nx: usize, ny: usize, nine: bool) -> Stencil {
    let k = |j: usize| if (j / 3).is_multiple_of(4) { 1000.0 } else { 1.0 };
    let mut a = Stencil::zeros(nx, ny, nine);
    for j in 0..ny {
        a.east[j * nx..(j + 1) * nx - 1].fill(-k(j));
        if j + 1 < ny {
            a.north[j * nx..(j + 1) * nx].fill(-2.0 * k(j) * k(j + 1) / (k(j) + k(j + 1)));
            if let Some((northeast, northwest)) = &mut a.corners {
                northeast[j * nx..(j + 1) * nx - 1].fill(-0.01);
                northwest[j * nx + 1..(j + 1) * nx].fill(-0.01);
            }
        }
    }
    a.set_row_sums(|p| if p < nx || p % nx == 0 { k(p / nx) } else { 0.0 });
    a
}

/// `layers` with a land node in every square of 16 x 16, so that the matrix does not predict slow convergence.
fn layers_with_land(nx: usize, ny: usize) -> Stencil {
    let mut a = layers(nx, ny, false);
    for p in (8..ny).step_by(16).flat_map(|j| (8..nx).step_by(16).map(move |i| j * nx + i)) {
        (a.east[p], a.east[p - 1], a.north[p], a.north[p - nx]) = (0.0, 0.0, 0.0, 0.0);
    }
    let held: Vec<bool> = (0..nx * ny).map(|p| p < nx || p % nx == 0).collect();
    a.set_row_sums(|p| if held[p] || p / nx % 16 == 8 && p % nx % 16 == 8 { 1.0 } else { 0.0 });
    a
}

/// A grid on which auto starts with mixed, estimates and fused stages, and on which several threads work. Results are
/// bitwise identical, and later matrices are factorized once, in the existing memory.
fn slow_solves_of_a_team_switch() {
    let a = layers_with_land(201, 190);
    let b = random_rhs(a.len(), 8);
    let solved = [1, 2, 3, 7].map(|threads| {
        let solver = Solver::of(&a, &format!("backend=cpu threads={threads}"));
        assert_eq!(solver.int(key::INFO_PRECISION), 4);
        let (x, status) = solver.solve_from_zero(&b);
        assert_eq!((status, solver.int(key::INFO_THREADS)), (status::OK, threads));
        assert_eq!(solver.int(key::INFO_CYCLE), IN_USE);
        assert!(relative_residual(&a, &b, &x) <= 1e-6 && solver.iterations() > 16);
        solver.factorize(&a).unwrap();
        let again = bits(&solver.solve_from_zero(&b).0);
        let bytes = solver.int(key::INFO_BYTES_HOST);
        solver.factorize(&a).unwrap();
        assert_eq!((solver.int(key::INFO_CYCLE), solver.int(key::INFO_BYTES_HOST)), (IN_USE, bytes));
        (bits(&x), again)
    });
    assert!(solved[1..].iter().all(|of| *of == solved[0]));
    let asked = Solver::of(&a, AGGREGATION);
    assert_eq!(bits(&asked.solve_from_zero(&b).0), solved[0].1);
}

/// The matrix itself predicts slow convergence for layers and for strong couplings in one direction. `auto` then
/// selects aggregation from the start, bitwise identical to the explicit choice. It does not if the memory limit
/// forbids it, or if the V-cycle is cheaper: for weaker couplings, few digits, or a direction with positive row sums.
fn predicted_matrices_are_aggregated() {
    let a = layers(201, 190, false);
    let b = random_rhs(a.len(), 8);
    let asked = Solver::of(&a, AGGREGATION);
    let x = bits(&asked.solve_from_zero(&b).0);
    for options in ["", "threads=3", "precision=f32", "precision=mixed"] {
        let solver = Solver::of(&a, &format!("backend=cpu {options}"));
        assert_eq!((solver.int(key::INFO_CYCLE), solver.int(key::INFO_PRECISION)), (IN_USE, 2), "{options}");
        assert_eq!(bits(&solver.solve_from_zero(&b).0), x, "{options}");
        assert!(solver.iterations() <= 16, "{}", solver.iterations());
    }
    for options in [
        "switch_memory=0",
        "cycle=v",
        "precision=bf16",
        "rel_tol=1e-2",
        "relaxation=0.9",
        "levels=12",
        "norm=preconditioned",
    ] {
        let solver = Solver::of(&a, &format!("backend=cpu {options}"));
        assert_ne!(solver.int(key::INFO_CYCLE), IN_USE, "{options}");
    }
    let (strong, mild) = (aniso(200, 32.0), aniso(200, 10.0));
    for (a, slow) in [(&strong, true), (&mild, false), (&layers_with_land(201, 190), false)] {
        let solver = Solver::of(a, "backend=cpu");
        assert_eq!(solver.int(key::INFO_CYCLE) == IN_USE, slow);
    }
    // A row sum so large that the weak couplings are negligible.
    let mut held = strong.clone();
    held.set_row_sums(|_| 100.0);
    assert_ne!(Solver::of(&held, "backend=cpu").int(key::INFO_CYCLE), IN_USE);
    // Matrices of both kinds alternate on a handle.
    let solver = Solver::of(&strong, "backend=cpu");
    let of = |a: &Stencil| {
        solver.factorize(a).unwrap();
        (solver.int(key::INFO_CYCLE), bits(&solver.solve_from_zero(&random_rhs(a.len(), 3)).0))
    };
    let (first, second) = (of(&strong), of(&mild));
    assert_eq!((of(&strong), of(&mild)), (first, second));
}

/// A land node of another magnitude must not make a basin count as nearly singular, if it has Dirichlet conditions on
/// two edges.
fn a_center_of_another_magnitude() {
    let mut a = layers(97, 90, false);
    let b = random_rhs(a.len(), 8);
    let count = |a: &Stencil| {
        let solver = Solver::of(a, AGGREGATION);
        assert_eq!(solver.solve_from_zero(&b).1, status::OK);
        solver.iterations()
    };
    let without = count(&a);
    a.decouple(50, 40, 1e15);
    assert!(count(&a) <= without + 3, "{} for {without}", count(&a));
}

/// Nine points, where z shares the memory of q until the switch, and the formats from which auto may start.
fn slow_solves_of_nine_points_switch() {
    for a in [layers(201, 190, true), layers(90, 97, true)] {
        let b = random_rhs(a.len(), 4);
        for precision in ["auto", "f32", "f64"] {
            let solver =
                Solver::of(&a, &format!("backend=cpu threads=2 max_iter=3000 rel_tol=1e-9 precision={precision}"));
            let (x, status) = solver.solve_from_zero(&b);
            assert_eq!((status, solver.int(key::INFO_CYCLE)), (status::OK, IN_USE), "{precision}");
            assert!(relative_residual(&a, &b, &x) <= 1e-9);
        }
    }
}

extern "C-unwind" fn note(user: *mut c_void, _: i32, line: *const c_char) {
    // SAFETY: the vector of the test below, and a NUL-terminated line.
    let (lines, line) = unsafe { (&mut *user.cast::<Vec<String>>(), CStr::from_ptr(line)) };
    lines.push(line.to_string_lossy().into_owned());
}

/// Options of the levels have no effect with aggregation: a log line reports it once per handle.
fn idle_options_are_logged_once() {
    let a = poisson(20, 20);
    let mut lines: Vec<String> = Vec::new();
    outcome(rrbsolver_set_log(Some(note), std::ptr::from_mut(&mut lines).cast())).unwrap();
    let solver = Solver::of(&a, &format!("{AGGREGATION} lumping=m2 levels=5"));
    solver.factorize(&a).unwrap();
    Solver::of(&a, AGGREGATION);
    Solver::of(&a, "backend=cpu lumping=m2");
    outcome(rrbsolver_set_log(None, std::ptr::null_mut())).unwrap();
    let reported: Vec<&String> = lines.iter().filter(|line| line.contains("no effect")).collect();
    assert_eq!(reported.len(), 1, "{lines:?}");
    assert!(reported[0].contains("levels, lumping") && reported[0].contains("cycle=aggregation"), "{reported:?}");
}
