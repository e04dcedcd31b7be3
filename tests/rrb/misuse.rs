//! Wrong calls of the `rrb_` family; tests/misuse.rs has those that several families refuse. Each returns its status
//! and error message, leaves outputs and handle as documented, and does not end the program.

use crate::common;
#[path = "misuse_options.rs"]
mod options;

use common::problems::{Stencil, fe_aniso, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ptr::{null, null_mut};

const BACKENDS: [&str; 2] = ["backend=reference", "backend=cpu threads=2"];

/// Creates a factorized handle of 6 x 5 nodes.
fn good(backend: &str) -> (Solver, Stencil) {
    let a = random_m_matrix(6, 5, true, 1);
    (Solver::of(&a, backend), a)
}

/// Checks that the handle can still factorize and solve.
#[track_caller]
fn assert_alive(solver: &Solver, a: &Stencil) {
    let b = random_rhs(a.len(), 1);
    solver.factorize(a).expect("factorize");
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!(result, status::OK);
    assert!(norm2(&a.residual(&b, &x)) <= 1.001e-6 * norm2(&b));
}

#[test]
fn extents() {
    let refused = |nx: i64, ny: i64, words: &[&str]| match Solver::try_new(nx, ny) {
        Err(failure) => failure.expect(status::DIMENSION, words),
        Ok(_) => panic!("{nx} x {ny} was accepted"),
    };
    refused(0, 5, &["nx", "0"]);
    refused(5, 0, &["ny", "0"]);
    refused(-1, 5, &["nx", "-1"]);
    refused(5, i64::MIN, &["ny"]);
    refused(i64::MAX, i64::MAX, &["nx", "ny"]);
    refused(1 << 32, 1 << 32, &["nx", "ny"]);
    refused(3_000_000_000, 3_000_000_000, &["nx", "ny"]);
    refused(i64::MAX, 1, &["nx", "ny"]);
    // The rows are so long that the arrays would exceed the address space.
    let solver = Solver::new(2, 1000, "");
    solver.set_int(key::LEADING_DIMENSION, i64::MAX / 2).expect("what is too long depends on the rows");
    let a = vec![1.0; 2];
    let failure = solver.factorize_arrays(&a, &a, &a, None).unwrap_err();
    failure.expect(status::DIMENSION, &["leading_dimension"]);
}

#[test]
fn a_failed_factorize_leaves_no_factorization() {
    for backend in BACKENDS {
        let (solver, a) = good(backend);
        let mut bad = a.clone();
        bad.center[7] = -1.0;
        solver.factorize(&bad).unwrap_err().expect(status::MATRIX, &["(1, 1)"]);
        let mut x = vec![1.0; 30];
        solver.solve(&random_rhs(30, 1), &mut x).unwrap_err().expect(status::STATE, &["rrb_factorize", "failed"]);
        assert_alive(&solver, &a);
        // SAFETY: a live handle; NULL is what is tested.
        let failed = outcome(unsafe { rrb_factorize(solver.handle, null(), null(), null(), null(), null()) });
        failed.unwrap_err().expect(status::NULL, &["center"]);
        solver.solve(&random_rhs(30, 1), &mut x).unwrap_err().expect(status::STATE, &["rrb_factorize"]);
        assert_alive(&solver, &a);
    }
}

#[test]
fn not_a_number_and_infinity() {
    for backend in BACKENDS {
        let (solver, a) = good(backend);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for name in ["center", "east", "north", "northeast", "northwest"] {
                for (i, j) in [(1usize, 0usize), (4, 3), (2, 2)] {
                    let mut broken = a.clone();
                    let (ne, nw) = broken.corners.as_mut().unwrap();
                    let array = match name {
                        "center" => &mut broken.center,
                        "east" => &mut broken.east,
                        "north" => &mut broken.north,
                        "northeast" => ne,
                        _ => nw,
                    };
                    // The first value is reported; a second one is later in the array.
                    array[j * 6 + i] = bad;
                    array[3 * 6 + 4] = f64::NAN;
                    let failure = solver.factorize(&broken).unwrap_err();
                    let value = if (i, j) == (4, 3) || bad.is_nan() { "NaN" } else { "inf" };
                    failure.expect(status::NOT_FINITE, &[name, &format!("({i}, {j})"), value]);
                }
            }
            solver.factorize(&a).unwrap();
            let (i, j) = (3, 2);
            let mut vector = random_rhs(30, 1);
            vector[j * 6 + i] = bad;
            vector[29] = bad;
            let fine = random_rhs(30, 2);
            let mut x = fine.clone();
            solver.solve(&vector, &mut x).unwrap_err().expect(status::NOT_FINITE, &["b ", "(3, 2)"]);
            assert_eq!(x, fine, "x is untouched");
            let mut x = vector.clone();
            solver.solve(&fine, &mut x).unwrap_err().expect(status::NOT_FINITE, &["x ", "(3, 2)"]);
            assert!(x.iter().zip(&vector).all(|(a, b)| a.to_bits() == b.to_bits()), "x is untouched");
            let mut z = vec![5.0; 30];
            // SAFETY: a live handle and arrays of its size.
            let failure = outcome(unsafe { rrb_apply(solver.handle, vector.as_ptr(), z.as_mut_ptr()) }).unwrap_err();
            failure.expect(status::NOT_FINITE, &["r ", "(3, 2)"]);
            // SAFETY: as above.
            let failure = outcome(unsafe { rrb_multiply(solver.handle, vector.as_ptr(), z.as_mut_ptr()) }).unwrap_err();
            failure.expect(status::NOT_FINITE, &["x ", "(3, 2)"]);
            assert!(z.iter().all(|&v| v == 5.0));
        }
        // Without the check of inputs, a solve with NaN or infinity must still not report success, also for 5-point
        // stencils.
        for a in [a, random_m_matrix(6, 5, false, 1)] {
            solver.options("check_input=0").unwrap();
            solver.factorize(&a).unwrap();
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for place in [8, 9, 29] {
                    let mut b = random_rhs(30, 1);
                    b[place] = bad;
                    let mut x = vec![0.0; 30];
                    assert_ne!(solver.solve(&b, &mut x), Ok(status::OK), "{backend}: {bad} at {place} of b");
                }
            }
            assert_alive(&solver, &a);
        }
    }
}

/// Indices begin with 0 in C; the error of the same failure can also be read with base 1.
#[test]
fn last_error() {
    let (solver, a) = good("");
    let mut bad = a.clone();
    bad.center[2 * 6 + 3] = f64::NAN;
    solver.factorize(&bad).unwrap_err().expect(status::NOT_FINITE, &["(3, 2)"]);
    let read = |base: i32, capacity: i64| {
        let mut buffer = vec![b'#'; 200];
        // SAFETY: the capacities passed are at most the buffer's size.
        let needed = unsafe { rrbsolver_last_error_based(base, buffer.as_mut_ptr().cast(), capacity) };
        (needed, buffer)
    };
    let text = |buffer: &[u8]| String::from_utf8(buffer.iter().copied().take_while(|&c| c != 0).collect()).unwrap();
    let (needed, buffer) = read(0, 200);
    assert!(text(&buffer).contains("(3, 2)"));
    assert!(text(&read(1, 200).1).contains("(4, 3)"));
    // The message is truncated to the capacity and ends with NUL.
    let (same, short) = read(0, 8);
    assert_eq!((same, short[7], short[8]), (needed, 0, b'#'));
    assert_eq!(text(&short), text(&buffer)[..7]);
    assert_eq!(read(0, 0).1[0], b'#');
    // SAFETY: NULL with capacity 0 is allowed and only returns the length.
    assert_eq!(unsafe { rrbsolver_last_error(null_mut(), 0) }, needed);
    // Each thread has its own message, and a success does not overwrite it.
    std::thread::spawn(|| assert_eq!(common::last_error(), "")).join().unwrap();
    solver.factorize(&a).unwrap();
    assert!(common::last_error().contains("(3, 2)"));
}

/// Rows with a zero or negative center show that the matrix is indefinite.
#[test]
fn rows_of_indefinite_matrices() {
    for backend in BACKENDS {
        let a = poisson(7, 6);
        for (center, i, j) in [(0.0, 3, 2), (-0.0, 0, 0), (-4.0, 6, 5), (f64::MIN, 1, 4)] {
            let mut bad = a.clone();
            bad.center[j * 7 + i] = center;
            let solver = Solver::new(7, 6, backend);
            let failure = solver.factorize(&bad).unwrap_err();
            failure.expect(status::MATRIX, &["center", &format!("({i}, {j})")]);
        }
        // The center is too small for a division. The error message names this node, not a neighbour.
        for (i, j) in [(2, 3), (3, 3)] {
            let mut bad = a.clone();
            bad.decouple(i, j, 1e-310);
            let solver = Solver::new(7, 6, backend);
            solver
                .factorize(&bad)
                .unwrap_err()
                .expect(status::MATRIX, &["= 1e-310 is too small", &format!("({i}, {j})")]);
            bad.decouple(i, j, 3e-308);
            assert!(solver.factorize(&bad).is_ok());
        }
        // A row of zeros, as for a land node whose center was not set.
        let mut bad = a.clone();
        bad.decouple(4, 3, 0.0);
        let solver = Solver::new(7, 6, backend);
        solver.factorize(&bad).unwrap_err().expect(status::MATRIX, &["center", "(4, 3)"]);
        assert_alive(&solver, &a);
    }
}

/// A program that stores -A and -b.
#[test]
fn all_centers_negative() {
    let words = ["all centers are negative: does the array hold -A? If so, negate b too", "-4", "(0, 0)"];
    for (backend, nine) in BACKENDS.iter().flat_map(|b| [(b, false), (b, true)]) {
        let a = random_m_matrix(23, 17, nine, 1);
        let mut negative = a.clone();
        negative.scale(-4.0);
        let solver = Solver::new(23, 17, backend);
        for check in 0..=1 {
            solver.set_int(key::CHECK_INPUT, check).unwrap();
            let failure = solver.factorize(&negative).unwrap_err();
            failure.expect(status::MATRIX, &[words[0], &format!("{}", negative.center[0]), words[2]]);
        }
        // All centers but one are negative.
        negative.center[100] = 1.0;
        let failure = solver.factorize(&negative).unwrap_err();
        failure.expect(status::MATRIX, &["is not positive", "(0, 0)"]);
        assert!(!failure.message.contains("all centers"), "{}", failure.message);
        assert_alive(&solver, &random_m_matrix(23, 17, nine, 1));
    }
}

/// Couplings that point out of the grid, as in a program with periodic boundaries.
#[test]
fn couplings_that_point_out_of_the_grid() {
    let a = random_m_matrix(7, 5, true, 1);
    let (ne, nw) = a.corners.clone().unwrap();
    for backend in BACKENDS {
        let solver = Solver::new(7, 5, backend);
        let expected = Solver::of(&a, backend).solve_from_zero(&random_rhs(35, 1)).0;
        // Array, column and row of entries that point out of the grid.
        let places = [(0, 6, 2), (1, 3, 4), (2, 6, 1), (2, 0, 4), (3, 0, 3), (3, 6, 4)];
        for (array, i, j) in places {
            for value in [-1.0, 1e-300, f64::INFINITY] {
                let mut arrays = [a.east.clone(), a.north.clone(), ne.clone(), nw.clone()];
                arrays[array][7 * j + i] = value;
                let [east, north, ne, nw] = &arrays;
                let factorize = || solver.factorize_arrays(&a.center, east, north, Some((ne, nw)));
                solver.set_int(key::CHECK_INPUT, 2).unwrap();
                let name = ["east", "north", "northeast", "northwest"][array];
                let words = [name, "periodic", &format!("({i}, {j})"), &format!("{value}")];
                factorize().unwrap_err().expect(status::ARGUMENT, &words);
                let mut x = vec![0.0; 35];
                solver.solve(&random_rhs(35, 1), &mut x).unwrap_err().expect(status::STATE, &["rrb_factorize"]);
                for check in 0..=1 {
                    solver.set_int(key::CHECK_INPUT, check).unwrap();
                    factorize().unwrap();
                    assert_eq!(bits(&solver.solve_from_zero(&random_rhs(35, 1)).0), bits(&expected));
                }
            }
        }
        solver.set_int(key::CHECK_INPUT, 2).unwrap();
        assert!(solver.factorize(&a).is_ok(), "NaN marks what is not set");
    }
}

/// The matrix is found to be indefinite on a lower level. The error message names the value, the node and the level of
/// the pivot that is not positive.
#[test]
fn indefinite_matrix() {
    for backend in BACKENDS {
        for levels in [1, 2, 4, 40] {
            let solver = Solver::new(9, 9, &format!("{backend} levels={levels}"));
            let a = Stencil::constant(9, 9, 2.5, -1.0, -1.0, None);
            let failure = solver.factorize(&a).unwrap_err();
            failure.expect(status::MATRIX, &["pivot", "(", ", ", ")"]);
            let (i, j) = node_in(&failure.message);
            assert!(i < 9 && j < 9, "{}", failure.message);
            assert_alive(&solver, &poisson(9, 9));
        }
        // Elements on stretched cells without compensation: the breakdown of the papers on the second level.
        let solver = Solver::new(32, 32, &format!("{backend} compensation=never"));
        solver.factorize(&fe_aniso(32, 32, 3.0)).unwrap_err().expect(status::MATRIX, &["pivot", "level"]);
    }
}

/// Returns the (i, j) of an error message.
fn node_in(message: &str) -> (usize, usize) {
    let inner = message.split('(').map(|s| s.split(')').next().unwrap_or("")).find_map(|s| {
        let (i, j) = s.split_once(", ")?;
        Some((i.parse().ok()?, j.parse().ok()?))
    });
    inner.unwrap_or_else(|| panic!("no node in: {message}"))
}

/// A solution beyond the range of doubles, or an excessive guess, must not be reported as success.
#[test]
fn solution_beyond_the_largest_number() {
    let a = poisson(30, 30);
    let b: Vec<f64> = random_rhs(900, 1).iter().map(|v| v * 1.7e308).collect();
    let far: Vec<f64> = random_rhs(900, 2).iter().map(|v| v * 1e300).collect();
    for backend in BACKENDS {
        let solver = Solver::of(&a, backend);
        let mut x = vec![0.5; 900];
        let failure = solver.solve(&b, &mut x).unwrap_err();
        assert!([status::BREAKDOWN, status::NOT_FINITE].contains(&failure.status), "{backend}: {failure:?}");
        assert!(x.iter().all(|&v| v == 0.5), "{backend}: x as given");
        let mut x = far.clone();
        match solver.solve(&random_rhs(900, 1), &mut x) {
            Err(_) => assert_eq!(x, far, "{backend}: x as given"),
            Ok(result) => assert!(result != status::OK && x.iter().all(|v| v.is_finite()), "{backend}"),
        }
        assert_alive(&solver, &a);
    }
}

/// A singular system is not an error, but an isolated node with a zero center is.
#[test]
fn isolated_nodes() {
    let mut a = neumann_const(8, 8);
    a.decouple(3, 3, 0.0);
    Solver::new(8, 8, "").factorize(&a).unwrap_err().expect(status::MATRIX, &["(3, 3)"]);
    a.set_row_sums(|p| if p == 27 { 1.0 } else { 0.0 });
    assert_alive_singular(&a);
}

fn assert_alive_singular(a: &Stencil) {
    let solver = Solver::of(a, "");
    assert_eq!(solver.int(key::INFO_SINGULAR_COMPONENTS), 1);
    assert_eq!(solver.solve_from_zero(&random_rhs(a.len(), 1)).1, status::OK);
}
