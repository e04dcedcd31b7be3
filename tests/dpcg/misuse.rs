//! Wrong calls of the `dpcg_` family. Each returns its status and error message, leaves outputs and handle as
//! documented, and does not end the program.

use crate::common;
#[path = "bad_input.rs"]
mod bad_input;

use bad_input::{CELLS, Check, SIZE, assert_alive, good};
use common::dpcg::*;
use common::{Failure, bits, outcome, status};
use std::ffi::CString;
use std::ptr::{null, null_mut};

const BACKENDS: [&str; 2] = ["backend=reference", "backend=cpu threads=2"];

/// Runs a check on every CPU backend, and compares statuses and error messages.
#[track_caller]
fn on_each_backend(check: Check) {
    let [reported, others] = BACKENDS.map(check);
    assert_eq!(reported, others);
}

#[test]
fn null_pointers() {
    let (solver, a) = good("");
    let h = solver.handle;
    let c = a.center.as_ptr();
    let [e, n, t] = a.forward.each_ref().map(Vec::as_ptr);
    let b = a.rhs("rand");
    let (mut x, mut count, mut real, mut iterations) = (vec![7.0; CELLS], 5i64, 5.0, 5i64);
    let text = CString::new("order=2").unwrap();
    let labels = [0; CELLS];
    let none: *mut Handle = null_mut();
    let refused = |status: i32, name: &str| {
        outcome(status).unwrap_err().expect(status::NULL, &[name, "NULL"]);
    };
    // SAFETY: pointers are live or NULL, which is what is tested.
    unsafe {
        refused(dpcg_create(3, 3, 3, null_mut()), "out");
        refused(dpcg_set_regions(none, labels.as_ptr()), "handle");
        refused(dpcg_set_regions(none, null()), "handle");
        refused(dpcg_factorize(none, c, e, n, t), "handle");
        refused(dpcg_factorize(h, null(), e, n, t), "center");
        refused(dpcg_factorize(h, c, null(), n, t), "east");
        refused(dpcg_factorize(h, c, e, null(), t), "north");
        refused(dpcg_factorize(h, c, e, n, null()), "top");
        solver.factorize(&a).expect("a call with NULL changes nothing");
        refused(dpcg_solve(none, b.as_ptr(), x.as_mut_ptr()), "handle");
        refused(dpcg_solve(h, null(), x.as_mut_ptr()), "b");
        refused(dpcg_solve(h, b.as_ptr(), null_mut()), "x");
        refused(dpcg_apply(h, null(), x.as_mut_ptr()), "r");
        refused(dpcg_apply(h, b.as_ptr(), null_mut()), "z");
        refused(dpcg_multiply(h, null(), x.as_mut_ptr()), "x");
        refused(dpcg_multiply(h, b.as_ptr(), null_mut()), "y");
        refused(dpcg_set_options(none, text.as_ptr()), "handle");
        refused(dpcg_set_options(h, null()), "text");
        refused(dpcg_set_stream(none, null_mut()), "handle");
        refused(dpcg_get_int(h, key::ORDER, null_mut()), "value");
        refused(dpcg_get_int(none, key::ORDER, &mut count), "handle");
        refused(dpcg_get_real(none, key::RIC_OMEGA, &mut real), "handle");
        refused(dpcg_get_history(h, null_mut(), 4, &mut count), "residuals");
        let mut once = |c, t, b, x| dpcg_solve_once(8, 6, 7, c, e, n, t, b, x, 1e-6, 10, &mut iterations);
        refused(once(null(), t, b.as_ptr(), x.as_mut_ptr()), "center");
        refused(once(c, null(), b.as_ptr(), x.as_mut_ptr()), "top");
        refused(once(c, t, null(), x.as_mut_ptr()), "b");
        refused(once(c, t, b.as_ptr(), null_mut()), "x");
        assert_eq!(dpcg_destroy(null_mut()), status::OK);
    }
    assert_eq!((count, real, iterations), (5, 5.0, 5), "outputs of failed calls are untouched");
    assert!(x.iter().all(|&v| v == 7.0));
    assert_alive(&solver, &a);
}

/// A misaligned array is reported by name, and is neither read nor written.
#[test]
fn unaligned_arrays() {
    let (solver, a) = good("");
    let h = solver.handle;
    let c = a.center.as_ptr();
    let [e, n, t] = a.forward.each_ref().map(Vec::as_ptr);
    let (b, mut x) = (a.rhs("rand"), vec![7.0; CELLS]);
    let labels = [0i32; CELLS + 1];
    let refused = |status: i32, name: &str, bytes: usize| {
        let sentence = format!("{name} must be {bytes}-byte aligned");
        outcome(status).unwrap_err().expect(status::ARGUMENT, &[&sentence]);
    };
    for byte in [1, 2, 4] {
        let astray_mut = x.as_mut_ptr().wrapping_byte_add(byte);
        let astray = astray_mut.cast_const();
        // SAFETY: arrays of the handle's size; misaligned arrays are not read.
        unsafe {
            refused(dpcg_factorize(h, astray, e, n, t), "center", 8);
            refused(dpcg_factorize(h, c, e, n, astray), "top", 8);
            solver.factorize(&a).unwrap();
            refused(dpcg_solve(h, b.as_ptr(), astray_mut), "x", 8);
            refused(dpcg_multiply(h, astray, x.as_mut_ptr()), "x", 8);
            // Labels have four bytes.
            let astray = labels.as_ptr().wrapping_byte_add(byte);
            let answer = dpcg_set_regions(h, astray);
            if byte == 4 { assert_eq!(answer, status::OK) } else { refused(answer, "labels", 4) }
        }
    }
    assert!(x.iter().all(|&v| v == 7.0));
    assert_alive(&solver, &a);
}

#[test]
fn extents() {
    let refused = |size: [i64; 3], words: &[&str]| match Solver::try_new(size) {
        Err(failure) => failure.expect(status::DIMENSION, words),
        Ok(_) => panic!("{size:?} was accepted"),
    };
    refused([0, 5, 5], &["nx must be at least 1, got 0"]);
    refused([5, -1, 5], &["ny must be at least 1, got -1"]);
    refused([5, 5, i64::MIN], &["nz"]);
    refused([1 << 11, 1 << 11, 1 << 10], &["nx * ny * nz must be at most 4294967295, got 2048 * 2048 * 1024"]);
    refused([i64::MAX; 3], &["nx * ny * nz"]);
    refused([1, 1, 1 << 32], &["nx * ny * nz"]);
    assert!(Solver::try_new([(1 << 32) - 1, 1, 1]).is_ok(), "memory is taken at factorize");
    let mut handle = std::ptr::dangling_mut::<Handle>();
    // SAFETY: `handle` outlives the call, which fails before it reads the pointer.
    assert_eq!(unsafe { dpcg_create(5, 5, 0, &mut handle) }, status::DIMENSION);
    assert_eq!(handle, std::ptr::dangling_mut(), "out is untouched");
}

/// Rows and planes must not overlap, and arrays must not exceed the address space.
#[test]
fn layouts() {
    let solver = Solver::new([5, 4, 3], "");
    let refused = |text: &str, words: &[&str]| solver.options(text).unwrap_err().expect(status::ARGUMENT, words);
    refused("leading_dimension=4", &["leading_dimension must be 0 or at least nx = 5, got 4"]);
    refused("leading_plane=19", &["leading_plane must be 0 or at least ny * leading_dimension = 20, got 19"]);
    refused("leading_dimension=7 leading_plane=27", &["leading_plane", "= 28, got 27"]);
    solver.options("leading_dimension=7 leading_plane=28").unwrap();
    refused("leading_dimension=8", &["leading_plane", "= 32, got 28"]);
    refused("leading_plane=-1", &["leading_plane must be >= 0"]);
    solver.set_int(key::LEADING_PLANE, i64::MAX).expect("what is too long depends on the planes");
    let short = [1.0; 4];
    let failure = solver.factorize_arrays(&short, [&short; 3]).unwrap_err();
    failure.expect(status::DIMENSION, &["(nz - 1) * leading_plane", "nz = 3", "leading_plane = 9223372036854775807"]);
    solver.regions(Some(&[0; 4])).unwrap_err().expect(status::DIMENSION, &["leading_plane"]);
}

/// Calls in the wrong order, and options that take effect at the next factorize.
#[test]
fn wrong_order() {
    let a = TwoPhase::new("1", SIZE, 1e-3);
    let b = a.rhs("rand");
    for backend in BACKENDS {
        let solver = Solver::new(SIZE, backend);
        let mut x = vec![2.0; CELLS];
        let state = |result: Result<i32, Failure>| result.unwrap_err().expect(status::STATE, &["dpcg_factorize"]);
        state(solver.solve(&b, &mut x));
        // SAFETY: a live handle and arrays of its size.
        unsafe {
            state(outcome(dpcg_apply(solver.handle, b.as_ptr(), x.as_mut_ptr())));
            state(outcome(dpcg_multiply(solver.handle, b.as_ptr(), x.as_mut_ptr())));
        }
        assert!(x.iter().all(|&v| v == 2.0));
        assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS), 0);
        solver.factorize(&a).unwrap();
        let later = [
            "preconditioner=neumann",
            "order=3",
            "ric_omega=0.9",
            "deflation=subdomain",
            "subdomains_x=2",
            "keep_all=1",
            "coarse_solver=cholesky",
            "coarse_tol=1e-8",
            "coarsening=cell",
            "sweeps=1",
            "dilation=1",
            "precision=f64",
            "fusion=off",
            "leading_dimension=8",
            "leading_plane=48",
            "null_space=constant",
            "threads=3",
        ];
        for option in later {
            solver.options(option).unwrap();
            x.fill(2.0);
            solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &["an option", "dpcg_factorize"]);
            assert!(x.iter().all(|&v| v == 2.0), "{option}");
            solver.factorize(&a).unwrap_or_else(|f| panic!("{option}: {f:?}"));
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{option}");
        }
        for option in ["rel_tol=1e-4", "max_iter=400", "norm=preconditioned", "verbosity=1", "check_input=0"] {
            solver.options(option).unwrap();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{option} acts at once");
        }
    }
}

#[test]
fn invalid_options() {
    let (solver, a) = good("");
    let refused = |text: &str, status: i32, words: &[&str]| {
        solver.options(text).unwrap_err().expect(status, words);
    };
    refused("levels=3", status::OPTION, &["dpcg_ has no option levels: it belongs to rrb_"]);
    refused("omega=1", status::OPTION, &["dpcg_ has no option omega: it belongs to smoother_"]);
    refused("preconditoner=ric", status::OPTION, &["did you mean 'preconditioner'"]);
    for (number, name) in [(8, "ssor"), (9, "ilu0"), (10, "chebyshev")] {
        refused(&format!("preconditioner={name}"), status::OPTION, &["amg, got", name]);
        let failure = solver.set_int(key::PRECONDITIONER, number).unwrap_err();
        failure.expect(status::ARGUMENT, &["7 (amg)", &format!("got {number}")]);
    }
    refused("precision=bf16", status::OPTION, &["auto, f64, f32, got 'bf16'"]);
    refused("order=9", status::ARGUMENT, &["order must lie in [0, 8], got 9"]);
    refused("ric_omega=1.5", status::ARGUMENT, &["ric_omega must lie in [0, 1], got 1.5"]);
    refused("coarse_tol=1", status::ARGUMENT, &["coarse_tol must lie in (0, 1), got 1"]);
    refused("sweeps=3", status::ARGUMENT, &["sweeps must lie in [0, 2], got 3"]);
    refused("dilation=2", status::ARGUMENT, &["dilation must lie in [-1, 1], got 2"]);
    refused("subdomains_x=-1", status::ARGUMENT, &["subdomains_x"]);
    assert_alive(&solver, &a);
}

/// b and x, r and z, x and y must not overlap.
#[test]
fn overlapping_arrays() {
    let (solver, a) = good("");
    let mut both = vec![1.0; 3 * CELLS];
    let base = both.as_mut_ptr();
    type Call = unsafe extern "C" fn(*mut Handle, *const f64, *mut f64) -> i32;
    for (call, names) in
        [(dpcg_solve as Call, ["b", "x"]), (dpcg_apply as Call, ["r", "z"]), (dpcg_multiply as Call, ["x", "y"])]
    {
        for (from, to) in [(CELLS, CELLS), (CELLS, CELLS + 1), (CELLS, 2 * CELLS - 1), (CELLS, 1)] {
            // SAFETY: both ranges are inside `both`.
            let failure = outcome(unsafe { call(solver.handle, base.add(from), base.add(to)) }).unwrap_err();
            failure.expect(status::ARGUMENT, &["overlap", names[0], names[1]]);
        }
        assert!(both.iter().all(|&v| v == 1.0));
        // SAFETY: as above, without overlap.
        assert_eq!(unsafe { call(solver.handle, base, base.add(2 * CELLS)) }, status::OK);
        both.fill(1.0);
    }
    let mut arrays =
        [a.center.clone(), a.forward[0].clone(), a.forward[1].clone(), a.forward[2].clone(), a.rhs("rand")];
    for k in 0..5 {
        let p: Vec<*mut f64> = arrays.iter_mut().map(|v| v.as_mut_ptr()).collect();
        // SAFETY: arrays of the size passed.
        let result = unsafe { dpcg_solve_once(8, 6, 7, p[0], p[1], p[2], p[3], p[4], p[k], 1e-6, 100, null_mut()) };
        outcome(result).unwrap_err().expect(status::ARGUMENT, &["overlap", "x"]);
    }
}

/// The checks of `bad_input`, which tests/dpcg/cuda.rs also runs on a device.
macro_rules! bad_input {
    ($($check:ident)*) => {
        $(#[test]
        fn $check() {
            on_each_backend(bad_input::$check);
        })*

        #[test]
        fn every_check_is_run() {
            assert_eq!(bad_input::CHECKS.map(|(name, _)| name), [$(stringify!($check)),*]);
        }
    };
}

bad_input! {
    regions_before_factorize
    invalid_labels
    too_many_labels
    more_boxes_than_cells
    rows_of_indefinite_matrices
    not_a_number_and_infinity
    couplings_that_leave_the_box
    incompatible_right_hand_sides
    all_air
}

/// 65,535 labels are allowed. The cells form a line, so that the coarse matrix E of the deflation is tridiagonal and
/// its factorization is cheap.
#[test]
fn the_largest_number_of_labels() {
    let a = TwoPhase::new("1", [65_536, 1, 1], 1e-3);
    for backend in BACKENDS {
        let solver = Solver::new(a.size, &format!("{backend} preconditioner=jacobi deflation=levelset"));
        let labels: Vec<i32> = (0..65_536).map(|c| 3 * c.min(65_534)).collect();
        solver.regions(Some(&labels)).unwrap();
        assert_alive(&solver, &a);
        // The labels cover a singular matrix, so one vector is dropped.
        let counts = [key::INFO_REGIONS, key::INFO_DEFLATION_VECTORS].map(|key| solver.int(key));
        assert_eq!(counts, [65_535, 65_534], "{backend}");
    }
}

/// The last pivot of modified incomplete Cholesky is zero if A is singular, and only then.
#[test]
fn modified_incomplete_cholesky_of_a_singular_matrix() {
    for backend in BACKENDS {
        let (solver, a) = good(backend);
        let open = TwoPhase::new("1;dir=top", SIZE, 1e-3);
        solver.options("preconditioner=ric ric_omega=1 deflation=none").unwrap();
        let words = [
            "of the incomplete factorization is not positive (center ",
            ") at (7, 5, 6): with ric_omega = 1 the factor of a singular matrix is singular: use ric_omega below \
             1, or preconditioner=neumann or multigrid",
        ];
        solver.factorize(&a).unwrap_err().expect(status::MATRIX, &words);
        assert_alive(&solver, &open);
        solver.options("ric_omega=0.97").unwrap();
        assert_alive(&solver, &a);
    }
}

/// A singular matrix that is treated as regular has no solution for this b: the iterates grow without bound.
#[test]
fn diverging_iterates() {
    let (c, none) = (8e-6, f64::NAN);
    let a = TwoPhase {
        size: [4, 1, 1],
        center: vec![11.0, 5.8, c, c],
        forward: [vec![0.0, 0.0, -c, none], vec![none; 4], vec![none; 4]],
        air: vec![false; 4],
        solid: vec![true, true, false, false],
    };
    let guess = [-6e-4, 4.6e-3, -2.2e-3, -1.5e-3];
    for backend in BACKENDS {
        for norm in ["true2", "preconditioned"] {
            let options = format!("{backend} preconditioner=multigrid null_space=none norm={norm} reference=initial");
            let solver = Solver::of(&a, &format!("{options} check_compatibility=0 max_iter=400 deflation=none"));
            let mut x = guess;
            assert_eq!(solver.solve(&[0.0, 0.0, 1.0, 0.0], &mut x), Ok(status::NOT_CONVERGED), "{options}");
            let reported =
                [common::key::INFO_INITIAL_RESIDUAL, common::key::INFO_FINAL_RESIDUAL].map(|key| solver.real(key));
            assert_eq!((x, reported), (guess, [1.0; 2]), "{options}");
            // The failure has no effect on later solves.
            let [mut x, mut expected] = [guess; 2];
            let b = [1.0, 2.0, 0.5, -0.5];
            let results = [solver.solve(&b, &mut x), Solver::of(&a, &options).solve(&b, &mut expected)];
            assert_eq!(results[0], results[1], "{options}");
            assert_eq!(bits(&x), bits(&expected), "{options}");
        }
    }
}

/// Without a driver, a device or kernels, the status reports what is missing. `auto` then uses the CPU.
#[test]
fn missing_devices() {
    let a = TwoPhase::new("1", SIZE, 1e-3);
    let device = common::devices();
    let failure = Solver::new(SIZE, &format!("backend=cuda device={device}")).factorize(&a).unwrap_err();
    assert!([status::NO_DEVICE, status::UNSUPPORTED].contains(&failure.status), "{failure:?}");
    assert_alive(&Solver::new(SIZE, ""), &a);
}
