//! Bad input of the `dpcg_` family.
//!
//! A check runs on the backend that its options select, and returns all failures in order. Programs compare the
//! backends, which must return equal statuses and error messages.

use crate::common::dpcg::*;
use crate::common::{Failure, bits, outcome, status};

/// A check. It returns the failures of a backend, in order.
pub type Check = fn(&str) -> Vec<Failure>;

pub const CHECKS: [(&str, Check); 9] = [
    ("regions_before_factorize", regions_before_factorize),
    ("invalid_labels", invalid_labels),
    ("too_many_labels", too_many_labels),
    ("more_boxes_than_cells", more_boxes_than_cells),
    ("rows_of_indefinite_matrices", rows_of_indefinite_matrices),
    ("not_a_number_and_infinity", not_a_number_and_infinity),
    ("couplings_that_leave_the_box", couplings_that_leave_the_box),
    ("incompatible_right_hand_sides", incompatible_right_hand_sides),
    ("all_air", all_air),
];

pub const SIZE: [usize; 3] = [8, 6, 7];
pub const CELLS: usize = 8 * 6 * 7;

/// Returns the index of a cell.
fn cell([i, j, k]: [usize; 3]) -> usize {
    (k * SIZE[1] + j) * SIZE[0] + i
}

/// The failures that a check has observed so far.
#[derive(Default)]
struct Failures(Vec<Failure>);

impl Failures {
    #[track_caller]
    fn refused(&mut self, result: Result<i32, Failure>, status: i32, words: &[&str]) {
        let failure = result.expect_err("this was accepted");
        failure.expect(status, words);
        self.0.push(failure);
    }
}

/// Creates a factorized handle: a bubble in a closed box.
pub fn good(options: &str) -> (Solver, TwoPhase) {
    let a = TwoPhase::new("1", SIZE, 1e-3);
    (Solver::of(&a, options), a)
}

/// Checks that the handle can still factorize and solve.
#[track_caller]
pub fn assert_alive(solver: &Solver, a: &TwoPhase) {
    let b = a.rhs("rand");
    solver.factorize(a).expect("factorize");
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!(result, status::OK);
    assert!(a.relative_residual(&b, &x) <= 1.001e-6);
}

/// Setting or removing regions takes effect at the next factorize.
pub fn regions_before_factorize(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let (solver, a) = good(&format!("{backend} preconditioner=jacobi deflation=levelset"));
    let b = a.rhs("rand");
    let mut x = vec![2.0; CELLS];
    let labels: Vec<i32> = a.air.iter().map(|&air| if air { 0 } else { -1 }).collect();
    for given in [Some(&labels[..]), None] {
        solver.regions(given).unwrap();
        let words = "regions were set after the last dpcg_factorize: dpcg_factorize must come before";
        failures.refused(solver.solve(&b, &mut x), status::STATE, &[words]);
        assert!(x.iter().all(|&v| v == 2.0));
        assert_alive(&solver, &a);
    }
    // Without a matrix, the error message asks for dpcg_factorize.
    let solver = Solver::new(SIZE, backend);
    solver.regions(Some(&labels)).unwrap();
    failures.refused(solver.solve(&b, &mut x), status::STATE, &["dpcg_factorize must come before this call"]);
    assert_alive(&solver, &a);
    failures.0
}

/// Labels below -1 are errors. Gaps and the largest label are legal.
pub fn invalid_labels(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let (solver, a) = good(&format!("{backend} preconditioner=jacobi deflation=levelset"));
    for (label, [i, j, k]) in [(-2, [0, 0, 0]), (i32::MIN, [7, 5, 6]), (-3, [3, 2, 4])] {
        let mut labels = vec![-1; CELLS];
        labels[cell([i, j, k])] = label;
        let message = format!("labels must be -1 (no region) or at least 0, got {label} at ({i}, {j}, {k})");
        failures.refused(solver.regions(Some(&labels)), status::ARGUMENT, &[&message]);
        // The handle is unchanged.
        assert_eq!(solver.solve_from_zero(&a.rhs("rand")).1, status::OK);
    }
    let mut labels = vec![5; CELLS];
    labels[..8].fill(i32::MAX);
    solver.regions(Some(&labels)).unwrap();
    assert_alive(&solver, &a);
    failures.0
}

/// 65,536 labels, one per cell, are an error only if these labels are deflated.
pub fn too_many_labels(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let a = TwoPhase::new("1", [64, 32, 32], 1e-3);
    let solver = Solver::new(a.size, backend);
    let labels: Vec<i32> = (0..a.cells() as i32).collect();
    solver.regions(Some(&labels)).unwrap();
    let fewer = "use fewer labels, or deflation=subdomain or none";
    for (options, what, advice) in [
        ("preconditioner=multigrid deflation=auto", "labels", fewer),
        ("preconditioner=jacobi deflation=levelset", "labels", fewer),
        ("deflation=auto", "labels within boxes", "use fewer subdomains or labels"),
        ("deflation=levelset_subdomain", "labels within boxes", "use fewer subdomains or labels"),
    ] {
        solver.options(options).unwrap();
        let message = format!(
            "{what} produce more than 65535 deflation regions, counted per connected component of the matrix: {advice}"
        );
        failures.refused(solver.factorize(&a), status::ARGUMENT, &[&message]);
    }
    for deflation in ["none", "subdomain"] {
        solver.options(&format!("deflation={deflation} subdomains_x=2 subdomains_y=1 subdomains_z=1")).unwrap();
        solver.factorize(&a).expect(deflation);
        assert_eq!(solver.int(key::INFO_REGIONS), if deflation == "none" { 0 } else { 2 });
    }
    solver.options("preconditioner=multigrid deflation=auto").unwrap();
    solver.regions(None).unwrap();
    assert_alive(&solver, &a);
    failures.0
}

/// More boxes than cells in a direction are an error for every deflation, so that the result does not depend on the
/// choice of `auto`.
pub fn more_boxes_than_cells(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let (solver, a) = good(backend);
    for kind in ["auto", "none", "subdomain", "levelset", "levelset_subdomain"] {
        for (d, n) in [("x", 8), ("y", 6), ("z", 7)] {
            let boxes = |n: usize| format!("deflation={kind} subdomains_{d}={n}");
            solver.options(&boxes(n + 1)).unwrap();
            let message = format!("subdomains_{d} must be from 1 to n{d} = {n}: each box needs a cell, got {}", n + 1);
            failures.refused(solver.factorize(&a), status::ARGUMENT, &[&message]);
            let state = solver.solve(&a.rhs("rand"), &mut [0.0; CELLS]);
            failures.refused(state, status::STATE, &["dpcg_factorize", "failed"]);
            solver.options(&boxes(n)).unwrap();
            assert_alive(&solver, &a);
            solver.options(&boxes(0)).unwrap();
        }
    }
    failures.0
}

/// One center that is not positive, and a program that passes -A and -b, are errors.
pub fn rows_of_indefinite_matrices(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let (solver, a) = good(backend);
    for (center, [i, j, k]) in [(0.0, [3, 2, 1]), (-0.0, [0, 0, 0]), (-4.0, [7, 5, 6]), (1e-310, [1, 4, 2])] {
        let mut bad = a.clone();
        bad.center[cell([i, j, k])] = center;
        failures.refused(solver.factorize(&bad), status::MATRIX, &["center", &format!("({i}, {j}, {k})")]);
    }
    let mut negative = a.clone();
    negative.center.iter_mut().chain(negative.forward.iter_mut().flatten()).for_each(|v| *v = -*v);
    let words = ["all centers are negative: does the array hold -A? If so, negate b too", "(0, 0, 0)"];
    failures.refused(solver.factorize(&negative), status::MATRIX, &words);
    assert_alive(&solver, &a);
    failures.0
}

/// The error message names the first nonfinite entry of any array in any call.
pub fn not_a_number_and_infinity(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let (solver, a) = good(backend);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for (array, name) in ["center", "east", "north", "top"].into_iter().enumerate() {
            let [i, j, k] = [5, 3, 2];
            let mut broken = a.clone();
            let values = if array == 0 { &mut broken.center } else { &mut broken.forward[array - 1] };
            values[cell([i, j, k])] = bad;
            let message = format!("{name} holds {bad} at ({i}, {j}, {k}); all inputs must be finite");
            failures.refused(solver.factorize(&broken), status::NOT_FINITE, &[&message]);
        }
        solver.factorize(&a).unwrap();
        let mut vector = random(CELLS, 1);
        vector[cell([6, 1, 4])] = bad;
        vector[CELLS - 1] = bad;
        let fine = random(CELLS, 2);
        let mut not_finite = |name: &str, result| {
            let message = format!("{name} holds {bad} at (6, 1, 4); all inputs must be finite");
            failures.refused(result, status::NOT_FINITE, &[&message]);
        };
        let mut x = fine.clone();
        not_finite("b", solver.solve(&vector, &mut x));
        assert_eq!(x, fine, "x is untouched");
        let mut x = vector.clone();
        not_finite("x", solver.solve(&fine, &mut x));
        assert_eq!(bits(&x), bits(&vector), "x is untouched");
        let mut z = vec![5.0; CELLS];
        // SAFETY: a live handle and arrays of its size.
        not_finite("r", outcome(unsafe { dpcg_apply(solver.handle, vector.as_ptr(), z.as_mut_ptr()) }));
        // SAFETY: as above.
        not_finite("x", outcome(unsafe { dpcg_multiply(solver.handle, vector.as_ptr(), z.as_mut_ptr()) }));
        assert!(z.iter().all(|&v| v == 5.0));
        // Without the check, the status must still not be success.
        solver.options("check_input=0").unwrap();
        assert_ne!(solver.solve(&vector, &mut [0.0; CELLS]), Ok(status::OK), "{bad}");
        solver.options("check_input=1").unwrap();
    }
    assert_alive(&solver, &a);
    failures.0
}

/// Couplings that point out of the box, as in a program with periodic boundaries.
pub fn couplings_that_leave_the_box(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let a = TwoPhase::new("1", SIZE, 1e-3);
    let b = a.rhs("rand");
    let solver = Solver::new(SIZE, backend);
    let expected = Solver::of(&a, backend).solve_from_zero(&b).0;
    for (array, [i, j, k]) in [(0, [7, 2, 3]), (1, [3, 5, 1]), (2, [4, 0, 6]), (0, [7, 5, 6])] {
        for value in [-1.0, f64::INFINITY] {
            let mut forward = a.forward.clone();
            forward[array][cell([i, j, k])] = value;
            let factorize = || solver.factorize_arrays(&a.center, forward.each_ref().map(|f| &f[..]));
            solver.options("check_input=2").unwrap();
            let name = ["east", "north", "top"][array];
            let words = [name, "periodic", &format!("({i}, {j}, {k})"), &format!("{value}")];
            failures.refused(factorize(), status::ARGUMENT, &words);
            failures.refused(solver.solve(&b, &mut [0.0; CELLS]), status::STATE, &["dpcg_factorize"]);
            for check in 0..=1 {
                solver.options(&format!("check_input={check}")).unwrap();
                factorize().unwrap();
                assert_eq!(bits(&solver.solve_from_zero(&b).0), bits(&expected));
            }
        }
    }
    solver.options("check_input=2").unwrap();
    assert!(solver.factorize(&a).is_ok(), "NaN marks what is not set");
    failures.0
}

/// A b that is incompatible on one of two tanks is an error if the option asks for the check; otherwise b is projected.
pub fn incompatible_right_hand_sides(backend: &str) -> Vec<Failure> {
    let mut failures = Failures::default();
    let mut a = TwoPhase::new("1", SIZE, 1e-3);
    for c in (0..CELLS).filter(|c| c % 8 == 3) {
        let face = std::mem::take(&mut a.forward[0][c]);
        a.center[c] += face;
        a.center[c + 1] += face;
    }
    // Each tank has 84 values of 1 and 84 values of -1. Their sums are exact in any order of summation.
    let fits: Vec<f64> = (0..CELLS).map(|c| if c % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let solver = Solver::of(&a, &format!("{backend} check_compatibility=1"));
    assert_eq!(solver.int(crate::common::key::INFO_SINGULAR_COMPONENTS), 2);
    let mut x = vec![3.0; CELLS];
    for (bad, first) in [(cell([5, 2, 3]), "(4, 0, 0)"), (cell([1, 4, 6]), "(0, 0, 0)")] {
        let mut b = fits.clone();
        assert_eq!(b[bad], -1.0);
        b[bad] = 1.0;
        let message = format!(
            "b sums to 2e0 over the singular component of node {first}, more than 1e-10 times its sum \
             of magnitudes 1.68e2; check_compatibility=0 projects b"
        );
        failures.refused(solver.solve(&b, &mut x), status::INCOMPATIBLE, &[&message]);
        assert!(x.iter().all(|&v| v == 3.0), "x is untouched");
        assert_eq!(solver.solve_from_zero(&fits).1, status::OK, "what fits is solved");
        solver.options("check_compatibility=0").unwrap();
        assert_eq!(solver.solve_from_zero(&b).1, status::OK, "projected");
        solver.options("check_compatibility=1").unwrap();
    }
    failures.0
}

/// A box of air only has one phase. Nothing is deflated, and labels without cells have no effect.
pub fn all_air(backend: &str) -> Vec<Failure> {
    for method in ["", "preconditioner=neumann deflation=levelset_subdomain", "deflation=levelset keep_all=1"] {
        let mut a = TwoPhase::new("0", SIZE, 1.0);
        a.center.iter_mut().chain(a.forward.iter_mut().flatten()).for_each(|v| *v *= 1e3);
        let solver = Solver::new(SIZE, &format!("{backend} {method}"));
        assert_alive(&solver, &a);
        solver.regions(Some(&[-1; CELLS])).unwrap();
        assert_alive(&solver, &a);
        assert_eq!(solver.int(key::INFO_STRONG_COMPONENTS), 0, "{method}");
        solver.regions(Some(&[7; CELLS])).unwrap();
        assert_alive(&solver, &a);
    }
    Vec::new()
}
