//! Wrong calls of the `dpcg_` family; tests/misuse.rs has those that several families refuse. Each returns its status
//! and error message, leaves outputs and handle as documented, and does not end the program.

use crate::common;
#[path = "bad_input.rs"]
mod bad_input;

use bad_input::{CELLS, Check, SIZE, assert_alive, good};
use common::dpcg::*;
use common::{bits, outcome, status};
use std::ptr::{null, null_mut};

const BACKENDS: [&str; 2] = ["backend=reference", "backend=cpu threads=2"];

/// Runs a check on every CPU backend, and compares statuses and error messages.
#[track_caller]
fn on_each_backend(check: Check) {
    let [reported, others] = BACKENDS.map(check);
    assert_eq!(reported, others);
}

/// NULL and misaligned labels of regions.
#[test]
fn addresses_of_labels() {
    let (solver, a) = good("");
    let labels = [0i32; CELLS + 1];
    for pointer in [labels.as_ptr(), null()] {
        // SAFETY: NULL is what is tested.
        let failure = outcome(unsafe { dpcg_set_regions(null_mut(), pointer) }).unwrap_err();
        failure.expect(status::NULL, &["handle", "NULL"]);
    }
    for byte in [1, 2, 4] {
        // SAFETY: an array with one label more than the handle's size; misaligned labels are not read.
        let answer = unsafe { dpcg_set_regions(solver.handle, labels.as_ptr().wrapping_byte_add(byte)) };
        match byte {
            4 => assert_eq!(answer, status::OK),
            _ => outcome(answer).unwrap_err().expect(status::ARGUMENT, &["labels must be 4-byte aligned"]),
        }
    }
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
    refused([5, 5, 0], &["nz must be at least 1, got 0"]);
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

/// Preconditioners of `sparse_`, by number.
#[test]
fn preconditioners_that_are_refused() {
    let (solver, a) = good("");
    for number in [8, 9, 10] {
        let failure = solver.set_int(key::PRECONDITIONER, number).unwrap_err();
        failure.expect(status::ARGUMENT, &["7 (amg)", &format!("got {number}")]);
    }
    assert_alive(&solver, &a);
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
