//! Reports to callers of `smoother_`: missing options and results, unavailable block solvers, calls without sweeps, and
//! status texts.

use crate::common;
use common::smoother::*;
use common::{Failure, max_difference, outcome, rrbsolver_status_string, status};
use std::ffi::{CStr, c_void};
use std::ptr::null;

const BACKENDS: [&str; 2] = ["backend=cpu threads=2", "backend=reference"];

/// Poisson with 4^3 blocks on two adjacent patches.
fn two_patches(options: &str) -> (Smoother, Level) {
    let mut level = Level::new(&[([0; 3], [8, 8, 8]), ([8, 0, 0], [5, 8, 8])]);
    level.random(1);
    (Smoother::of(&stencil("poisson7"), [4; 3], options, &level), level)
}

fn real(smoother: &Smoother, key: i32) -> Result<f64, Failure> {
    let mut value = f64::NAN;
    // SAFETY: a live handle, `value` outlives the call.
    outcome(unsafe { smoother_get_real(smoother.handle, key, &mut value) }).map(|_| value)
}

unsafe extern "C-unwind" fn keep(user: *mut c_void, sweep: i64, relative: f64) -> i32 {
    // SAFETY: the test passes a list that outlives the calls.
    unsafe { &mut *user.cast::<Vec<(i64, f64)>>() }.push((sweep, relative));
    0
}

/// Sets a monitor that stores its values in a list; NULL removes the monitor.
fn watch(smoother: &Smoother, seen: *mut Vec<(i64, f64)>) {
    let monitor: rrbsolver::abi::rrb_monitor_fn = if seen.is_null() { None } else { Some(keep) };
    // SAFETY: a live handle; the list outlives the calls.
    outcome(unsafe { smoother_set_monitor(smoother.handle, monitor, seen.cast()) }).unwrap();
}

/// Sine transforms that would lose too many or all digits are an error even if the program requests them.
#[test]
fn transforms_beyond_their_condition_are_refused() {
    let mut level = Level::cube(16);
    level.random(1);
    let insist = "block_solver=fast_diagonalization";
    // With the couplings l and u of a cell in x, the condition number of the transforms is (l/u)^(7/2) for 8^3 blocks:
    // 1e14 and 1e525 here.
    for (values, condition) in [
        ([6.0, -1.9998, -1.9998e-4, -1.0, -1.0, -1.0, -1.0], "1e14"),
        ([1e150, -1.0, -1e-300, -1.0, -1.0, -1.0, -1.0], "inf"),
    ] {
        let failure = Smoother::new(&values, [8; 3], insist).patches(&level).unwrap_err();
        failure.expect(status::UNSUPPORTED, &["fast_diagonalization", "8 x 8 x 8", condition, "1e4", "dense"]);
        for options in ["", "block_solver=dense"] {
            let smoother = Smoother::of(&values, [8; 3], options, &level);
            assert_eq!(smoother.int(key::INFO_BLOCK_SOLVER), DENSE);
            let mut relaxed = level.clone();
            smoother.apply(&mut relaxed, 2).unwrap();
            assert!(relaxed.u.iter().flatten().all(|u| u.is_finite()));
        }
    }
    // The condition number is (l/u)^(1/2) = 100 for 2^3 blocks, below the limit of `auto`, and 5000 for 8^3 blocks,
    // above this limit. Both are below the limit for an error. The rounding errors of sums of a few hundred terms of
    // magnitude 1 grow by up to 5000.
    let ratio = 5000f64.powf(2.0 / 7.0);
    for (values, block, auto) in [
        ([6.0, -1.9998, -1.9998e-4, -1.0, -1.0, -1.0, -1.0], [2; 3], FAST_DIAGONALIZATION),
        ([6.0, -2.0 * ratio / (1.0 + ratio), -2.0 / (1.0 + ratio), -1.0, -1.0, -1.0, -1.0], [8; 3], DENSE),
    ] {
        assert_eq!(Smoother::of(&values, block, "", &level).int(key::INFO_BLOCK_SOLVER), auto);
        let [fast, dense] = [insist, "block_solver=dense"].map(|options| {
            let mut level = level.clone();
            Smoother::of(&values, block, options, &level).apply(&mut level, 2).unwrap();
            level
        });
        let error = max_difference(&fast.u[0], &dense.u[0]);
        assert!(error <= 1e-11, "{error:e}");
    }
}

/// Scalings whose products overflow must not make a single cell count as singular.
#[test]
fn point_smoother_of_a_wild_stencil() {
    let mut level = Level::cube(4);
    level.random(2);
    let mut values = [0.0; 27];
    // The stencil has faces of 1e150 and 1e-150 in addition to its center, and in the second round also a corner.
    values[13] = 1e151;
    for (low, high) in [(12, 14), (10, 16), (4, 22)] {
        (values[low], values[high]) = (-1e150, -1e-150);
    }
    for corner in [0.0, -1e-5] {
        values[26] = corner;
        for options in ["", "block_solver=dense"] {
            let smoother = Smoother::new(&values, [1; 3], options);
            assert_eq!(smoother.patches(&level), Ok(status::OK), "{options} {corner}");
        }
    }
}

#[test]
fn options_of_solvers_are_refused() {
    let (smoother, mut level) = two_patches("");
    let names = [
        ("rel_tol", 104, "1e-3"),
        ("abs_tol", 105, "1"),
        ("max_iter", 106, "7"),
        ("norm", 107, "true2"),
        ("reference", 108, "rhs"),
        ("null_space", 109, "none"),
        ("check_compatibility", 111, "1"),
    ];
    for (name, number, value) in names {
        let words = ["smoother_", name, "smoother_apply"];
        smoother.options(&format!("{name}={value}")).unwrap_err().expect(status::OPTION, &words);
        let mut int = 0;
        // SAFETY: a live handle.
        unsafe {
            outcome(smoother_set_int(smoother.handle, number, 1)).unwrap_err().expect(status::OPTION, &words);
            outcome(smoother_set_real(smoother.handle, number, 0.5)).unwrap_err().expect(status::OPTION, &words);
            outcome(smoother_get_int(smoother.handle, number, &mut int)).unwrap_err().expect(status::OPTION, &words);
        }
        real(&smoother, number).unwrap_err().expect(status::OPTION, &words);
    }
    // The same holds for options and results of another family, whose name is reported.
    for name in ["precision", "levels"] {
        smoother.options(&format!("{name}=1")).unwrap_err().expect(status::OPTION, &["smoother_", name, "rrb_"]);
    }
    for (key, name) in [(1009, "lambda_min"), (1010, "lambda_max"), (1100, "levels")] {
        real(&smoother, key).unwrap_err().expect(status::OPTION, &["smoother_", name]);
    }
    assert_eq!(smoother.apply(&mut level, 1), Ok(status::OK));
    // Results about the build exist in both families.
    let solver = common::Solver::new(4, 4, "");
    assert_eq!(smoother.int(1014), solver.int(1014));
    // rrb_ likewise rejects an option of smoother_.
    solver.options("omega=1").unwrap_err().expect(status::OPTION, &["rrb_", "omega", "smoother_"]);
}

/// Reading a residual that was not computed is an error, not 0.
#[test]
fn residuals_are_known_with_a_monitor() {
    const RESIDUALS: [(i32, &str); 2] = [(1002, "initial_residual"), (1003, "final_residual")];
    for backend in BACKENDS {
        let (smoother, mut level) = two_patches(backend);
        let refused = || {
            for (key, name) in RESIDUALS {
                let words = [name, "monitor", "smoother_residual"];
                real(&smoother, key).unwrap_err().expect(status::STATE, &words);
            }
        };
        refused();
        smoother.apply(&mut level, 2).unwrap();
        refused();
        assert_eq!((smoother.int(1000), smoother.int(1001)), (2, 0));
        let mut seen = Vec::new();
        watch(&smoother, &mut seen);
        let start = smoother.norm(&mut level);
        smoother.apply(&mut level, 2).unwrap();
        let end = smoother.norm(&mut level);
        assert_eq!(real(&smoother, 1002), Ok(1.0));
        assert_eq!(real(&smoother, 1003), Ok(seen[2].1));
        // The norms sum the same 832 numbers in a different order.
        assert!((seen[2].1 / (end / start) - 1.0).abs() < 1e-12);
        watch(&smoother, std::ptr::null_mut());
        smoother.apply(&mut level, 1).unwrap();
        refused();
        // A failed call has no residual either.
        watch(&smoother, &mut seen);
        smoother.apply(&mut level, -1).unwrap_err().expect(status::ARGUMENT, &["sweeps"]);
        level.u[0][111] = f64::NAN;
        smoother.apply(&mut level, 1).unwrap_err().expect(status::NOT_FINITE, &["u"]);
        refused();
        // Without the check, the monitor receives NaN.
        smoother.options("check_input=0").unwrap();
        seen.clear();
        smoother.apply(&mut level, 1).unwrap();
        assert!(seen[1].1.is_nan() && real(&smoother, 1003).unwrap().is_nan(), "{seen:?}");
    }
}

#[test]
fn norms_at_any_scale() {
    for backend in BACKENDS {
        for more in ["", "block_solver=dense"] {
            check_scales(&format!("{backend} {more}"));
        }
    }
}

/// More residuals than a sensible call has sweeps.
#[test]
fn history_of_many_sweeps() {
    let mut level = Level::cube(2);
    level.random(5);
    let smoother = Smoother::of(&stencil("poisson7"), [1; 3], "", &level);
    let mut seen = Vec::new();
    watch(&smoother, &mut seen);
    smoother.apply(&mut level, 2500).unwrap();
    let mut count = 0;
    // SAFETY: a live handle, no buffer with no capacity.
    outcome(unsafe { smoother_get_history(smoother.handle, std::ptr::null_mut(), 0, &mut count) }).unwrap();
    assert_eq!((count, seen.len()), (2501, 2501));
}

/// Without sweeps, the input is checked, the monitor receives the residual, and the values are unchanged.
#[test]
fn no_sweeps() {
    for backend in BACKENDS {
        for method in ["coloured_gauss_seidel", "block_jacobi", "chaotic_gauss_seidel"] {
            let (smoother, mut level) = two_patches(&format!("{backend} method={method}"));
            let before = level.clone();
            assert_eq!(smoother.apply(&mut level, 0), Ok(status::OK));
            assert_eq!(bits(&level), bits(&before), "{backend} {method}");
            let mut seen = Vec::new();
            watch(&smoother, &mut seen);
            assert_eq!(smoother.apply(&mut level, 0), Ok(status::OK));
            assert_eq!(seen, [(0, 1.0)]);
            assert_eq!((smoother.int(1000), real(&smoother, 1003)), (0, Ok(1.0)));
            // Cells are unchanged, but the residual refreshed ghost cells.
            for cell in [[0, 0, 0], [7, 7, 7], [8, 3, 4], [12, 7, 0]] {
                assert_eq!(level.at(cell), before.at(cell));
            }
            level.u[1][150] = f64::NAN;
            smoother.apply(&mut level, 0).unwrap_err().expect(status::NOT_FINITE, &["u holds NaN", "patch 1"]);
            assert_eq!(seen.len(), 1);
            smoother.options("check_input=0").unwrap();
            watch(&smoother, std::ptr::null_mut());
            assert_eq!(smoother.apply(&mut level, 0), Ok(status::OK));
        }
    }
}

/// After a call, ghost cells between patches have the values before its last sweep, or with a monitor those after it.
#[test]
fn ghost_cells_after_a_call() {
    for backend in BACKENDS {
        for watched in [false, true] {
            let (smoother, mut level) = two_patches(backend);
            let before = level.clone();
            let mut seen = Vec::new();
            if watched {
                watch(&smoother, &mut seen);
            }
            smoother.apply(&mut level, 1).unwrap();
            let other = if watched { &level } else { &before };
            // The cell (8, 4, 3) of the second patch is a ghost cell of the first.
            let ghost = level.u[0][((3 + 1) * 10 + 4 + 1) * 10 + 9];
            assert_eq!(ghost, other.at([8, 4, 3]), "{backend} {watched}");
            assert_ne!(level.at([8, 4, 3]), before.at([8, 4, 3]));
        }
    }
}

/// Arrays that are only read may be shared.
#[test]
fn upload_reads_only() {
    let mut level = Level::new(&[([0; 3], [4; 3]), ([8, 0, 0], [4; 3])]);
    let smoother = Smoother::of(&stencil("poisson7"), [4; 3], "", &level);
    let (u, f) = (vec![2.0; 216], vec![3.0; 64]);
    let (us, fs): ([*const f64; 2], [*const f64; 2]) = ([u.as_ptr(); 2], [f.as_ptr(); 2]);
    let table = level.u_table();
    // SAFETY: a live handle and tables of two patches.
    unsafe {
        outcome(smoother_upload(smoother.handle, us.as_ptr(), fs.as_ptr())).unwrap();
        outcome(smoother_apply(smoother.handle, null(), null(), 0)).unwrap();
        outcome(smoother_download(smoother.handle, table.as_ptr())).unwrap();
        // Arrays that are written must not be shared.
        let twice = [table[0], table[0]];
        let failure = outcome(smoother_download(smoother.handle, twice.as_ptr())).unwrap_err();
        failure.expect(status::ARGUMENT, &["must not overlap"]);
    }
    assert!(level.u.iter().flatten().all(|v| *v == 2.0));
}

/// Status texts that hold for both families.
#[test]
fn words_of_statuses() {
    let words = |code| {
        // SAFETY: a static text.
        unsafe { CStr::from_ptr(rrbsolver_status_string(code)) }.to_str().unwrap().to_owned()
    };
    let [stopped, state, matrix] = [status::STOPPED, status::STATE, status::MATRIX].map(words);
    assert!(stopped.contains("callback") && !stopped.contains("the monitor asked"), "{stopped}");
    assert!(state.contains("set_patches"), "{state}");
    assert!(matrix.contains("block is singular"), "{matrix}");
}
