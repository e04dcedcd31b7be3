//! `devices=`: several devices that share the rows of large grids are bitwise identical to one device in the same mode.
//! Grids with half a million nodes or more are divided. With RRBSOLVER_CUDA_DIVIDE=all, for emulated devices
//! (EMULATED_DEVICES=3), all grids are divided, and the sizes are small.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::problems::{Stencil, neumann_var, poisson, random_m_matrix, random_rhs};
use common::{Solver, bits, child, devices, key, max_abs, max_difference, norm2, status};

/// Returns lists of existing devices; with emulated devices, the first and the last.
fn lists() -> Vec<&'static str> {
    let lists = [(1, "0"), (2, "0+1"), (2, "1+0"), (3, "0+1+2"), (4, "3+1+2+0"), (8, "0+1+2+3+4+5+6+7")];
    let mut found: Vec<_> = lists.into_iter().filter(|(count, _)| *count <= devices()).map(|(_, list)| list).collect();
    if all_are_divided() && found.len() > 2 {
        found.drain(1..found.len() - 1);
    }
    found
}

fn all_are_divided() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_DIVIDE").is_some()
}

/// The smallest grids that are divided, grids that leave parts of their rows empty, and one with padded rows.
const SIZES: [(usize, usize); 4] = [(1501, 1450), (70_000, 33), (65, 36_000), (3001, 2003)];
const SMALL_SIZES: [(usize, usize); 7] = [(131, 93), (37, 53), (200, 1), (1, 130), (64, 64), (5, 150), (130, 33)];

fn sizes() -> &'static [(usize, usize)] {
    if all_are_divided() { &SMALL_SIZES } else { &SIZES }
}

/// Solves twice, the second time from a modified solution. Returns x, the histories and the iterations of both solves.
fn solved(a: &Stencil, b: &[f64], options: &str) -> (Vec<u64>, Vec<u64>, Vec<usize>) {
    let solver = Solver::of(a, options);
    let (mut x, status) = solver.solve_from_zero(b);
    assert!(status >= 0, "{options}: {status}");
    let (mut all, mut history, mut iterations) = (bits(&x), bits(&solver.history()), vec![solver.iterations()]);
    x.iter_mut().step_by(7).for_each(|x| *x = 0.5 - *x);
    solver.solve(b, &mut x).expect("the second solve");
    all.extend(bits(&x));
    history.extend(bits(&solver.history()));
    iterations.push(solver.iterations());
    (all, history, iterations)
}

fn same_bits_in(a: &Stencil, options: &str) {
    let b = random_rhs(a.len(), 3);
    let of = |list: &str| solved(a, &b, &format!("backend=cuda devices={list} {options}"));
    let one = of("0");
    for list in &lists()[1..] {
        let several = of(list);
        assert_eq!(several.2, one.2, "{options}, {list}: iterations");
        assert!(several.1 == one.1, "{options}, {list}: another history");
        assert!(several.0 == one.0, "{options}, {list}: another x");
    }
    // Only the summation order differs.
    let plain = solved(a, &b, &format!("backend=cuda {options}"));
    assert!(plain.2[0].abs_diff(one.2[0]) <= 1, "{options}: {:?} and {:?} iterations", plain.2, one.2);
}

fn same_bits() {
    for &(nx, ny) in sizes() {
        let a = random_m_matrix(nx, ny, false, 7);
        for options in ["precision=f64 cycle=v", "precision=bf16 cycle=amli"] {
            same_bits_in(&a, options);
        }
    }
}

fn same_bits_in_all_ways() {
    let (nx, ny) = sizes()[0];
    let mut land = random_m_matrix(nx, ny, false, 9);
    for p in (0..nx * ny).filter(|p| (p / 50) % 13 == 0 || p / nx > ny / 3 && p / nx < ny / 2) {
        land.decouple(p % nx, p / nx, 1.0);
    }
    for options in ["precision=f32 cycle=v", "precision=f64 cycle=amli", "", "precision=f64 norm=preconditioned"] {
        same_bits_in(&land, options);
    }
    same_bits_in(&poisson(nx, ny), "precision=bf16 cycle=v");
}

/// Unfused steps: singular systems, and fusion=off.
fn same_bits_in_single_steps() {
    let (nx, ny) = sizes()[0];
    same_bits_in(&neumann_var(nx, ny), "precision=f64 cycle=v");
    same_bits_in(&random_m_matrix(nx, ny, false, 5), "precision=bf16 cycle=amli fusion=off");
}

fn applied_and_multiplied() {
    let (nx, ny) = sizes()[0];
    // Tiles of equal rows next to others: those of a coast.
    let mut coast = poisson(nx, ny);
    for p in (0..nx * ny).filter(|p| p % nx > 2 * nx / 3 && p / nx % 50 < 20) {
        coast.decouple(p % nx, p / nx, 1.0);
    }
    for a in [random_m_matrix(nx, ny, false, 7), coast] {
        let b = random_rhs(a.len(), 3);
        let of = |options: &str| {
            let solver = Solver::of(&a, &format!("backend=cuda precision=f64 cycle=v {options}"));
            (solver.apply(&b), solver.multiply(&b), solver.apply(&b))
        };
        let one = of("");
        for list in lists() {
            let several = of(&format!("devices={list}"));
            assert!(bits(&several.0) == bits(&one.0) && bits(&several.2) == bits(&one.0), "{list}: z");
            assert!(bits(&several.1) == bits(&one.1), "{list}: A x");
        }
    }
}

/// Aggregation runs on the first device, wherever the matrix is stored.
fn aggregation_on_divided_memory() {
    let (nx, ny) = sizes()[0];
    let a = random_m_matrix(nx, ny, false, 7);
    let list = lists().pop().expect("a device");
    let solver = Solver::of(&a, &format!("backend=cuda devices={list} cycle=aggregation"));
    let (b, one) = (random_rhs(a.len(), 3), Solver::of(&a, "backend=cuda cycle=aggregation"));
    let ((x, _), (y, _)) = (solver.solve_from_zero(&b), one.solve_from_zero(&b));
    let difference = max_difference(&x, &y) / max_abs(&y);
    assert!(difference <= 1e-9, "{difference:e}");
}

/// A sequence of different matrices with an invalid one in between: the handle remains usable.
fn factorized_again() {
    let (nx, ny) = sizes()[0];
    let list = lists().pop().expect("a device");
    let solver = Solver::new(nx, ny, &format!("backend=cuda devices={list} precision=f64 cycle=v"));
    let (good, b) = (random_m_matrix(nx, ny, false, 7), random_rhs(nx * ny, 3));
    let mut bad = good.clone();
    let p = nx * (ny - 3) + 17;
    bad.center[p] = -1.0;
    solver.factorize(&poisson(nx, ny)).expect("Poisson's");
    let failure = solver.factorize(&bad).expect_err("a center below zero");
    assert_eq!(failure.status, status::MATRIX, "{}", failure.message);
    assert!(failure.message.contains(&format!("({}, {})", 17, ny - 3)), "{}", failure.message);
    solver.factorize(&good).expect("the good one");
    let (x, _) = solver.solve_from_zero(&b);
    let fresh = Solver::of(&good, "backend=cuda devices=0 precision=f64 cycle=v");
    assert!(bits(&x) == bits(&fresh.solve_from_zero(&b).0));
    let mut wrong = b.clone();
    wrong[p] = f64::NAN;
    let failure = solver.solve(&wrong, &mut vec![0.0; nx * ny]).expect_err("NaN");
    assert!(failure.message.contains("rhs") || failure.message.contains('b'), "{}", failure.message);
    let (x, _) = solver.solve_from_zero(&b);
    assert!(bits(&x) == bits(&fresh.solve_from_zero(&b).0));
    assert!(solver.real(key::INFO_BYTES_DEVICE) > 0.0 && norm2(&x) > 0.0);
}

/// Small grids use only the first device.
fn small_grids() {
    for (nx, ny) in [(1, 1), (2, 5), (17, 64), (65, 1), (130, 70)] {
        let (a, b) = (random_m_matrix(nx, ny, false, 7), random_rhs(nx * ny, 3));
        let of = |options: &str| Solver::of(&a, &format!("backend=cuda precision=f64 {options}")).solve_from_zero(&b);
        let one = of("");
        for list in lists() {
            let several = of(&format!("devices={list} cycle=auto"));
            assert_eq!(several.1, one.1);
            assert!(max_difference(&several.0, &one.0) <= 1e-9 * max_abs(&one.0), "{nx} x {ny}, {list}");
        }
    }
}

fn what_is_refused() {
    let solver = Solver::new(40, 40, "");
    for wrong in ["devices=0+0", "devices=", "devices=0+", "devices=-1", "devices=0+1+2+3+4+5+6+7+8", "devices=a"] {
        let failure = solver.options(wrong).expect_err(wrong);
        assert_eq!(failure.status, status::OPTION, "{wrong}: {}", failure.message);
        assert!(
            wrong == "devices=" || failure.message.contains("up to 8 different CUDA ordinals"),
            "{wrong}: {}",
            failure.message
        );
    }
    solver.options("backend=cuda devices=0+200").expect("a list");
    let failure = solver.factorize(&poisson(40, 40)).expect_err("a device that is not there");
    assert_eq!(failure.status, status::NO_DEVICE, "{}", failure.message);
    assert!(failure.message.contains("200"), "{}", failure.message);
    solver.options("devices=none").expect("none");
    solver.factorize(&poisson(40, 40)).expect("one device");
}

/// Devices without peer access, which the emulator can simulate.
fn without_links() {
    let emulated = std::env::var_os("LD_LIBRARY_PATH").is_some_and(|path| path.to_string_lossy().contains("emulator"));
    if !emulated || devices() < 2 || child("without_links", &[("EMULATED_LINKS", "0")]).is_some() {
        return;
    }
    let solver = Solver::new(40, 40, "backend=cuda devices=0+1");
    let failure = solver.factorize(&poisson(40, 40)).expect_err("no links");
    assert_eq!(failure.status, status::UNSUPPORTED, "{}", failure.message);
    assert!(failure.message.contains("devices 0 and 1 cannot access"), "{}", failure.message);
}

/// Several threads with separate handles.
fn side_by_side() {
    let (nx, ny) = sizes()[0];
    let (a, b) = (random_m_matrix(nx, ny, false, 7), random_rhs(nx * ny, 3));
    let list = lists().pop().expect("a device");
    let of =
        || bits(&Solver::of(&a, &format!("backend=cuda devices={list} precision=f64 cycle=v")).solve_from_zero(&b).0);
    let alone = of();
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..3).map(|_| scope.spawn(|| (0..2).all(|_| of() == alone))).collect();
        assert!(started.into_iter().all(|thread| thread.join().expect("a thread")));
    });
}

device::device_tests! { devices();
    without_links
    side_by_side
    what_is_refused
    small_grids
    applied_and_multiplied
    factorized_again
    same_bits
    same_bits_in_all_ways
    same_bits_in_single_steps
    aggregation_on_divided_memory
}
