//! Wrong calls. Each returns its status and error message, leaves outputs and handle as documented, and does not end
//! the program.

use crate::common;
#[path = "misuse_options.rs"]
mod options;

use common::problems::{Stencil, fe_aniso, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ffi::CString;
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
fn null_pointers() {
    let (solver, a) = good("");
    let h = solver.handle;
    let (c, e, n) = (a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr());
    let (ne, nw) = a.corners.as_ref().map(|(ne, nw)| (ne.as_ptr(), nw.as_ptr())).unwrap();
    let b = random_rhs(30, 1);
    let (mut x, mut count, mut real, mut iterations) = (vec![7.0; 30], 5i64, 5.0, 5i64);
    let text = CString::new("levels=2").unwrap();
    let null_h: *mut Handle = null_mut();
    let refused = |status: i32, name: &str| {
        outcome(status).unwrap_err().expect(status::NULL, &[name, "NULL"]);
    };
    // SAFETY: pointers are live or NULL, which is what is tested.
    unsafe {
        refused(rrb_create(3, 3, null_mut()), "out");
        refused(rrb_factorize(null_h, c, e, n, ne, nw), "handle");
        refused(rrb_factorize(h, null(), e, n, ne, nw), "center");
        refused(rrb_factorize(h, c, null(), n, ne, nw), "east");
        refused(rrb_factorize(h, c, e, null(), ne, nw), "north");
        refused(rrb_factorize(h, c, e, n, null(), nw), "northeast");
        refused(rrb_factorize(h, c, e, n, ne, null()), "northwest");
        solver.factorize(&a).expect("a call with NULL changes nothing");
        refused(rrb_solve(null_h, b.as_ptr(), x.as_mut_ptr()), "handle");
        refused(rrb_solve(h, null(), x.as_mut_ptr()), "b");
        refused(rrb_solve(h, b.as_ptr(), null_mut()), "x");
        refused(rrb_apply(null_h, b.as_ptr(), x.as_mut_ptr()), "handle");
        refused(rrb_apply(h, null(), x.as_mut_ptr()), "r");
        refused(rrb_apply(h, b.as_ptr(), null_mut()), "z");
        refused(rrb_multiply(null_h, b.as_ptr(), x.as_mut_ptr()), "handle");
        refused(rrb_multiply(h, null(), x.as_mut_ptr()), "x");
        refused(rrb_multiply(h, b.as_ptr(), null_mut()), "y");
        refused(rrb_set_int(null_h, key::LEVELS, 2), "handle");
        refused(rrb_set_real(null_h, key::REL_TOL, 0.1), "handle");
        refused(rrb_set_options(null_h, text.as_ptr()), "handle");
        refused(rrb_set_options(h, null()), "text");
        refused(rrb_set_monitor(null_h, None, null_mut()), "handle");
        refused(rrb_set_stream(null_h, null_mut()), "handle");
        refused(rrb_get_int(null_h, key::LEVELS, &mut count), "handle");
        refused(rrb_get_int(h, key::LEVELS, null_mut()), "value");
        refused(rrb_get_real(null_h, key::REL_TOL, &mut real), "handle");
        refused(rrb_get_real(h, key::REL_TOL, null_mut()), "value");
        refused(rrb_get_history(null_h, null_mut(), 0, &mut count), "handle");
        refused(rrb_get_history(h, null_mut(), 0, null_mut()), "count");
        refused(rrb_get_history(h, null_mut(), 4, &mut count), "residuals");
        outcome(rrb_get_history(h, x.as_mut_ptr(), -1, &mut count))
            .unwrap_err()
            .expect(status::ARGUMENT, &["capacity", "-1"]);
        refused(rrbsolver_cuda_device_count(null_mut()), "count");
        let mut once = |c, b, x| rrb_solve_once(6, 5, c, e, n, ne, nw, b, x, 1e-6, 10, &mut iterations);
        refused(once(null(), b.as_ptr(), x.as_mut_ptr()), "center");
        refused(once(c, null(), x.as_mut_ptr()), "b");
        refused(once(c, b.as_ptr(), null_mut()), "x");
        assert_eq!(rrb_destroy(null_mut()), status::OK);
    }
    assert_eq!((count, real, iterations), (5, 5.0, 5), "outputs of failed calls are untouched");
    assert!(x.iter().all(|&v| v == 7.0));
    assert_alive(&solver, &a);
}

/// A misaligned array is reported by name, for every array of every call, and is neither read nor written.
#[test]
fn unaligned_arrays() {
    let (solver, a) = good("");
    let h = solver.handle;
    let (c, e, n) = (a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr());
    let (ne, nw) = a.corners.as_ref().map(|(ne, nw)| (ne.as_ptr(), nw.as_ptr())).unwrap();
    let mut space = [0.0; 31];
    let mut x = vec![7.0; 30];
    let y = x.as_mut_ptr();
    let (b, mut count) = (random_rhs(30, 1), 0);
    let b = b.as_ptr();
    let refused = |status: i32, name: &str| {
        let sentence = format!("{name} must be 8-byte aligned");
        outcome(status).unwrap_err().expect(status::ARGUMENT, &[&sentence]);
    };
    for byte in [1, 4, 7] {
        let astray_mut = space.as_mut_ptr().wrapping_byte_add(byte);
        let astray = astray_mut.cast_const();
        // SAFETY: arrays of the handle's size; misaligned arrays have it too, and are not read.
        unsafe {
            refused(rrb_solve(h, astray, y), "b");
            refused(rrb_solve(h, b, astray_mut), "x");
            refused(rrb_apply(h, astray, y), "r");
            refused(rrb_apply(h, b, astray_mut), "z");
            refused(rrb_multiply(h, astray, y), "x");
            refused(rrb_multiply(h, b, astray_mut), "y");
            refused(rrb_get_history(h, astray_mut, 3, &mut count), "residuals");
            let once = |c, e, n, ne, nw, b, x| rrb_solve_once(6, 5, c, e, n, ne, nw, b, x, 1e-6, 10, null_mut());
            refused(once(astray, e, n, ne, nw, b, y), "center");
            refused(once(c, astray, n, ne, nw, b, y), "east");
            refused(once(c, e, astray, ne, nw, b, y), "north");
            refused(once(c, e, n, astray, nw, b, y), "northeast");
            refused(once(c, e, n, ne, astray, b, y), "northwest");
            refused(once(c, e, n, ne, nw, astray, y), "b");
            refused(once(c, e, n, ne, nw, b, astray_mut), "x");
            refused(rrb_factorize(h, astray, e, n, ne, nw), "center");
            refused(rrb_factorize(h, c, astray, n, ne, nw), "east");
            refused(rrb_factorize(h, c, e, astray, ne, nw), "north");
            refused(rrb_factorize(h, c, e, n, astray, nw), "northeast");
            refused(rrb_factorize(h, c, e, n, ne, astray), "northwest");
        }
        solver.factorize(&a).expect("the arrays as they are");
    }
    assert!(x.iter().all(|&v| v == 7.0) && space.iter().all(|&v| v == 0.0));
    assert_alive(&solver, &a);
}

#[test]
fn destroying_twice() {
    let mut handle: *mut Handle = null_mut();
    // SAFETY: `handle` outlives the calls.
    unsafe {
        assert_eq!(rrb_create(4, 4, &mut handle), status::OK);
        assert!(!handle.is_null());
        assert_eq!(rrb_destroy(&mut handle), status::OK);
        assert!(handle.is_null());
        assert_eq!(rrb_destroy(&mut handle), status::OK);
    }
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
    let mut handle = std::ptr::dangling_mut::<Handle>();
    // SAFETY: `handle` outlives the call, which fails before it reads the pointer.
    assert_eq!(unsafe { rrb_create(0, 5, &mut handle) }, status::DIMENSION);
    assert_eq!(handle, std::ptr::dangling_mut(), "out is untouched");
    // The rows are so long that the arrays would exceed the address space.
    let solver = Solver::new(2, 1000, "");
    solver.set_int(key::LEADING_DIMENSION, i64::MAX / 2).expect("what is too long depends on the rows");
    let a = vec![1.0; 2];
    let failure = solver.factorize_arrays(&a, &a, &a, None).unwrap_err();
    failure.expect(status::DIMENSION, &["leading_dimension"]);
}

/// Calls in the wrong order, and options that take effect at the next factorize.
#[test]
fn wrong_order() {
    let b = random_rhs(30, 1);
    let a = random_m_matrix(6, 5, true, 1);
    for backend in BACKENDS {
        let mut x = vec![2.0; 30];
        let solver = Solver::new(6, 5, backend);
        let state = |result: Result<i32, Failure>| result.unwrap_err().expect(status::STATE, &["rrb_factorize"]);
        state(solver.solve(&b, &mut x));
        let mut z = vec![2.0; 30];
        // SAFETY: a live handle and arrays of its size.
        state(outcome(unsafe { rrb_apply(solver.handle, b.as_ptr(), z.as_mut_ptr()) }));
        // SAFETY: as above.
        state(outcome(unsafe { rrb_multiply(solver.handle, b.as_ptr(), z.as_mut_ptr()) }));
        assert!(x.iter().chain(&z).all(|&v| v == 2.0));
        assert_eq!((solver.int(key::INFO_ITERATIONS), solver.int(key::INFO_LEVELS)), (0, 0));

        solver.factorize(&a).unwrap();
        solver.solve(&b, &mut x).unwrap();
        let later = [
            "levels=1",
            "grids=1",
            "lumping=m2",
            "relaxation=0.9",
            "leading_dimension=6",
            "threads=3",
            "device=1",
            "precision=f64",
            "cycle=v",
        ];
        for option in later {
            solver.options(option).unwrap();
            x.fill(2.0);
            state(solver.solve(&b, &mut x));
            assert!(x.iter().all(|&v| v == 2.0), "{option}");
            solver.factorize(&a).unwrap_or_else(|f| panic!("{option}: {f:?}"));
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{option}");
        }
        let other = if backend.contains("cpu") { "backend=reference" } else { "backend=cpu" };
        solver.options(other).unwrap();
        state(solver.solve(&b, &mut x));
        solver.factorize(&a).unwrap();
        for option in [
            "rel_tol=1e-3",
            "abs_tol=1e-9",
            "norm=preconditioned",
            "reference=initial",
            "max_iter=50",
            "verbosity=1",
            "check_input=0",
            "check_compatibility=1",
        ] {
            solver.options(option).unwrap();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{option} acts at once");
        }
    }
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

/// b and x, r and z, x and y must not overlap, nor may x and any input of `rrb_solve_once`; adjacent parts of one array
/// are allowed.
#[test]
fn overlapping_arrays() {
    let (solver, _) = good("");
    let mut both = vec![1.0; 90];
    let base = both.as_mut_ptr();
    type Call = unsafe extern "C" fn(*mut Handle, *const f64, *mut f64) -> i32;
    for (call, names) in
        [(rrb_solve as Call, ["b", "x"]), (rrb_apply as Call, ["r", "z"]), (rrb_multiply as Call, ["x", "y"])]
    {
        for (from, to) in [(30, 30), (30, 31), (31, 30), (30, 59), (59, 30)] {
            // SAFETY: both ranges of 30 values are inside `both`.
            let failure = outcome(unsafe { call(solver.handle, base.add(from), base.add(to)) }).unwrap_err();
            failure.expect(status::ARGUMENT, &["overlap", names[0], names[1]]);
        }
        assert!(both.iter().all(|&v| v == 1.0));
        for (from, to) in [(30, 60), (60, 30)] {
            // SAFETY: as above, without overlap.
            let result = outcome(unsafe { call(solver.handle, base.add(from), base.add(to)) });
            assert_eq!(result, Ok(status::OK));
            both.fill(1.0);
        }
    }
    // x of `rrb_solve_once` is compared with every input before any computation.
    let a = poisson(6, 5);
    let mut arrays = [a.center.clone(), a.east.clone(), a.north.clone(), random_rhs(30, 1)];
    let before = arrays.clone();
    for k in 0..4 {
        let p: Vec<*mut f64> = arrays.iter_mut().map(|v| v.as_mut_ptr()).collect();
        // SAFETY: arrays of 6 x 5 values.
        let result =
            unsafe { rrb_solve_once(6, 5, p[0], p[1], p[2], null(), null(), p[3], p[k], 1e-6, 100, null_mut()) };
        outcome(result).unwrap_err().expect(status::ARGUMENT, &["overlap", "x"]);
    }
    assert!(arrays.iter().zip(&before).all(|(a, b)| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())));
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
        assert!(!failure.sentence.contains("all centers"), "{}", failure.sentence);
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
            let (i, j) = node_in(&failure.sentence);
            assert!(i < 9 && j < 9, "{}", failure.sentence);
            assert_alive(&solver, &poisson(9, 9));
        }
        // Elements on stretched cells without compensation: the breakdown of the papers on the second level.
        let solver = Solver::new(32, 32, &format!("{backend} compensation=never"));
        solver.factorize(&fe_aniso(32, 32, 3.0)).unwrap_err().expect(status::MATRIX, &["pivot", "level"]);
    }
}

/// Returns the (i, j) of an error message.
fn node_in(sentence: &str) -> (usize, usize) {
    let inner = sentence.split('(').map(|s| s.split(')').next().unwrap_or("")).find_map(|s| {
        let (i, j) = s.split_once(", ")?;
        Some((i.parse().ok()?, j.parse().ok()?))
    });
    inner.unwrap_or_else(|| panic!("no node in: {sentence}"))
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

/// Without a driver, device or kernels, the error has the status and the option; `auto` uses the CPU.
#[test]
fn missing_devices() {
    let (a, b) = (poisson(30, 21), random_rhs(630, 2));
    let device = devices();
    let failure = Solver::new(30, 21, &format!("backend=cuda device={device}")).factorize(&a).unwrap_err();
    assert!([status::NO_DEVICE, status::UNSUPPORTED].contains(&failure.status), "{failure:?}");
    let named = if device == 0 { "backend=cuda".to_owned() } else { format!("device={device}") };
    assert!(failure.sentence.contains(&named), "{failure:?}");
    assert_eq!(Solver::of(&a, "").solve_from_zero(&b).1, status::OK);
}
