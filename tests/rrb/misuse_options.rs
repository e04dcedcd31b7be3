//! Wrong options, and options that request unavailable features.

use super::{BACKENDS, assert_alive, good};
use crate::common::problems::*;
use crate::common::*;
use std::ptr::{null, null_mut};

#[test]
fn unknown_options() {
    let (solver, a) = good("");
    for (unknown, nearest) in [(99, 100), (214, 213), (5000, 220), (-1, 100), (i32::MIN, 100)] {
        let words = [unknown.to_string(), "RRB_OPT_".to_owned(), nearest.to_string()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        solver.set_int(unknown, 1).unwrap_err().expect(status::OPTION, &words);
        solver.set_real(unknown, 1.0).unwrap_err().expect(status::OPTION, &words);
    }
    let mut value = 0;
    // SAFETY: a live handle, `value` outlives the call.
    outcome(unsafe { rrb_get_int(solver.handle, 4321, &mut value) }).unwrap_err().expect(status::OPTION, &["4321"]);
    for (key, nearest) in [(1015, "RRB_INFO_CUDA_KERNELS"), (214, "RRB_OPT_SWITCH_MEMORY"), (99, "RRB_OPT_BACKEND")] {
        // SAFETY: as above.
        let failed = outcome(unsafe { rrb_get_int(solver.handle, key, &mut value) });
        failed.unwrap_err().expect(status::OPTION, &[nearest]);
    }
    assert_alive(&solver, &a);
}

/// The error message contains name, value and range, and the old value is kept.
#[test]
fn values_out_of_range() {
    let (solver, a) = good("");
    let ints = [
        (key::DEVICE, "device", vec![-1]),
        (key::THREADS, "threads", vec![-1, i64::MAX]),
        (key::MAX_ITER, "max_iter", vec![-1, i64::MIN]),
        (key::CHECK_INPUT, "check_input", vec![-1, 3]),
        (key::VERBOSITY, "verbosity", vec![-1, 3]),
        (key::LEVELS, "levels", vec![-1]),
        (key::COARSE_MEMORY, "coarse_memory", vec![-1]),
        (key::GRIDS, "grids", vec![-1]),
        (key::COMPUTE_BLOCK, "compute_block", vec![-8, 0, 12, 17]),
        (key::CYCLE_STEPS, "cycle_steps", vec![-1]),
        (key::LEADING_DIMENSION, "leading_dimension", vec![-1, 1, 5]),
        (key::BACKEND, "backend", vec![-1, 4]),
        (key::MEMORY, "memory", vec![3]),
        (key::NORM, "norm", vec![2]),
        (key::REFERENCE, "reference", vec![7]),
        (key::NULL_SPACE, "null_space", vec![3]),
        (key::LUMPING, "lumping", vec![2]),
        (key::FUSION, "fusion", vec![-3]),
        (key::COMPENSATION, "compensation", vec![3]),
        (key::PRECISION, "precision", vec![5]),
        (key::CYCLE, "cycle", vec![5]),
    ];
    for (key, name, values) in ints {
        let before = solver.int(key);
        for value in values {
            let failure = solver.set_int(key, value).unwrap_err();
            failure.expect(status::ARGUMENT, &[name, &value.to_string(), "got"]);
            assert_eq!(solver.int(key), before);
        }
    }
    let reals = [
        (key::REL_TOL, "rel_tol", vec![0.0, 1.0, -1.0, 2.0, f64::INFINITY, f64::NAN]),
        (key::ABS_TOL, "abs_tol", vec![-1e-30, f64::INFINITY, f64::NAN]),
        (key::RELAXATION, "relaxation", vec![-0.1, 1.1, f64::NAN]),
    ];
    for (key, name, values) in reals {
        let before = solver.real(key);
        for value in values {
            solver.set_real(key, value).unwrap_err().expect(status::ARGUMENT, &[name, "got"]);
            assert_eq!(solver.real(key), before);
        }
    }
    // A Fortran real(4) instead of a double: its bits are a subnormal number, which cannot be a tolerance.
    let single = f64::from_bits(u64::from(1e-6f32.to_bits()));
    for (key, name) in [(key::REL_TOL, "rel_tol"), (key::ABS_TOL, "abs_tol"), (key::RELAXATION, "relaxation")] {
        let failure = solver.set_real(key, single).unwrap_err();
        failure.expect(status::ARGUMENT, &[name, "got 4.436652885e-315: is it double precision?"]);
    }
    let (one, b, mut x) = ([1.0], [1.0], [7.0]);
    let (values, nothing) = (one.as_ptr(), null());
    // SAFETY: arrays of one value.
    let result = outcome(unsafe {
        rrb_solve_once(
            1,
            1,
            values,
            values,
            values,
            nothing,
            nothing,
            b.as_ptr(),
            x.as_mut_ptr(),
            single,
            10,
            null_mut(),
        )
    });
    result.unwrap_err().expect(status::ARGUMENT, &["rel_tol", "double precision?"]);
    assert_eq!(x, [7.0]);
    let message = solver.set_real(key::REL_TOL, -1.0).unwrap_err().message;
    assert_eq!(message, "rel_tol must lie in (0, 1), got -1");
    assert_alive(&solver, &a);
}

/// Sets options in all three ways, and reads them back.
#[test]
fn options_can_be_set_and_read() {
    let solver = Solver::new(6, 5, "");
    solver.options("  levels=12\trel_tol=1e-8\n backend=cpu  lumping=m2u ").unwrap();
    assert_eq!((solver.int(key::LEVELS), solver.real(key::REL_TOL), solver.int(key::BACKEND)), (12, 1e-8, 1));
    assert_eq!((solver.int(key::LUMPING), solver.real(key::RELAXATION)), (1, 0.0));
    for (short, lumping, omega) in [("m1u", 0, 0.0), ("m1m", 0, 1.0), ("m2u", 1, 0.0), ("m2m", 1, 1.0)] {
        solver.options(&format!("lumping={short}")).unwrap();
        assert_eq!((solver.int(key::LUMPING), solver.real(key::RELAXATION)), (lumping, omega));
    }
    solver.set_int(key::MAX_ITER, 7).unwrap();
    assert_eq!((solver.int(key::MAX_ITER), solver.real(key::MAX_ITER)), (7, 7.0));
    solver.set_int(key::ABS_TOL, 2).expect("a whole number is a real one");
    assert_eq!(solver.real(key::ABS_TOL), 2.0);
    solver.options("").expect("nothing to set");
    let defaults = Solver::new(6, 5, "");
    let expected = [
        (key::BACKEND, 0),
        (key::DEVICE, 0),
        (key::THREADS, 0),
        (key::MEMORY, 0),
        (key::MAX_ITER, 1000),
        (key::NORM, 0),
        (key::REFERENCE, 0),
        (key::NULL_SPACE, 0),
        (key::CHECK_INPUT, 1),
        (key::CHECK_COMPATIBILITY, 0),
        (key::VERBOSITY, 0),
        (key::LEVELS, 0),
        (key::COARSE_MEMORY, 1_073_741_824),
        (key::GRIDS, 0),
        (key::COMPUTE_BLOCK, 16),
        (key::LUMPING, 0),
        (key::FUSION, 1),
        (key::COMPENSATION, 0),
        (key::PRECISION, 0),
        (key::CYCLE, 0),
        (key::CYCLE_SPACING, 0),
        (key::CYCLE_STEPS, 2),
    ];
    for (key, value) in expected {
        assert_eq!(defaults.int(key), value, "key {key}");
    }
    assert_eq!(
        (defaults.real(key::REL_TOL), defaults.real(key::ABS_TOL), defaults.real(key::RELAXATION)),
        (1e-6, 0.0, 1.0)
    );
}

/// Returns the CPU time of this thread, which is thread 0 of the pool. It does not depend on the load of the machine.
fn seconds_of_this_thread() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec
}

/// An exact factor above coarse_memory is an error before any computation, and the error message names a number of
/// levels that fits.
#[test]
fn coarse_memory() {
    for (n, levels, limit) in [(2047usize, 2, 1 << 30), (255, 2, 1_000_000), (255, 1, 30_000), (100, 3, 5_000)] {
        let a = poisson(n, n);
        let solver = Solver::new(n, n, &format!("levels={levels} coarse_memory={limit} max_iter=1"));
        let start = seconds_of_this_thread();
        let failure = solver.factorize(&a).unwrap_err();
        failure.expect(status::MEMORY, &["coarse_memory", &limit.to_string(), "levels"]);
        // The factor of 2047^2 with 2 levels would take minutes.
        assert!(seconds_of_this_thread() - start < 20);
        let feasible: usize =
            failure.message.rsplit(|c: char| !c.is_ascii_digit()).find(|s| !s.is_empty()).unwrap().parse().unwrap();
        assert!(feasible > levels, "{}", failure.message);
        if feasible > levels + 1 {
            solver.set_int(key::LEVELS, feasible as i64 - 1).unwrap();
            solver.factorize(&a).unwrap_err().expect(status::MEMORY, &[&feasible.to_string()]);
        }
        if n < 2047 {
            solver.set_int(key::LEVELS, feasible as i64).unwrap();
            solver.factorize(&a).expect("the named levels");
            solver.solve_from_zero(&random_rhs(n * n, 1));
        }
        // levels=0 selects a number that fits.
        solver.set_int(key::LEVELS, 0).unwrap();
        if n < 2047 {
            solver.factorize(&a).expect("levels=0 stays below the limit");
        }
    }
}

/// Features that this build lacks are accepted as settings; factorize returns the error.
#[test]
fn unsupported() {
    let (solver, a) = good("");
    let mut devices = 0;
    // SAFETY: `devices` outlives the call.
    assert_eq!(unsafe { rrbsolver_cuda_device_count(&mut devices) }, status::OK);
    for option in ["backend=cuda", "memory=device"] {
        if option == "backend=cuda" && devices > 0 {
            continue;
        }
        solver.options(option).unwrap_or_else(|f| panic!("{option}: {f:?}"));
        let failure = solver.factorize(&a).unwrap_err();
        assert!([status::UNSUPPORTED, status::NO_DEVICE].contains(&failure.status), "{option}: {failure:?}");
        let name = option.split('=').next().unwrap();
        assert!(failure.message.contains(name), "{}", failure.message);
        solver.solve(&random_rhs(30, 1), &mut [0.0; 30]).unwrap_err().expect(status::STATE, &[]);
        solver.options(&format!("{name}=auto")).unwrap();
    }
    assert_alive(&solver, &a);
}

/// A recursion can start only on a grid of rows and columns, and every second level has such a grid. With 0, the
/// library selects the spacing. A spacing that is too large for the grid has no effect.
#[test]
fn spacing_of_recursions() {
    let (solver, a) = good("");
    for cycle in ["auto", "v", "amli", "k"] {
        for odd in [1, 3, 63] {
            solver.options(&format!("cycle={cycle} cycle_spacing={odd}")).unwrap();
            let failure = solver.factorize(&a).unwrap_err();
            failure.expect(status::ARGUMENT, &["cycle_spacing", "even", &format!("got {odd}")]);
            solver.solve(&random_rhs(30, 1), &mut [0.0; 30]).unwrap_err().expect(status::STATE, &[]);
        }
        for even in [0, 2, 4, 64] {
            solver.options(&format!("cycle_spacing={even}")).unwrap();
            assert_alive(&solver, &a);
        }
    }
    for (key, name, wrong) in
        [(key::CYCLE_SPACING, "cycle_spacing", [-2, 66]), (key::CYCLE_STEPS, "cycle_steps", [0, 9])]
    {
        for value in wrong {
            solver.set_int(key, value).unwrap_err().expect(status::ARGUMENT, &[name, &value.to_string()]);
        }
    }
}

/// A recursive cycle with an excessive number of visits is an error. With the V-cycle, the handle is then usable.
#[test]
fn recursions_that_cost_too_much() {
    let (a, zero) = (poisson(512, 512), vec![0.0; 512 * 512]);
    for backend in BACKENDS {
        let solver = Solver::new(512, 512, backend);
        for cycle in ["amli", "k", "auto"] {
            solver.options(&format!("cycle={cycle} cycle_spacing=2 cycle_steps=8 levels=18")).unwrap();
            let words = ["cycle_steps", "100 V-cycles", "got 8 with cycle_spacing = 2", "raise cycle_spacing"];
            solver.factorize(&a).unwrap_err().expect(status::ARGUMENT, &words);
            solver.solve(&zero, &mut zero.clone()).unwrap_err().expect(status::STATE, &[]);
        }
        // V has no recursions.
        solver.options("cycle=v").unwrap();
        solver.factorize(&a).unwrap();
    }
}
