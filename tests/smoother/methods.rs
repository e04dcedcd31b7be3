//! Properties of block relaxation on the CPU: cuts, thread counts and block solvers. Requirements on every backend are
//! in conformance.rs.

use crate::common;
use common::smoother::*;
use common::{outcome, status};
use std::ffi::c_void;

/// All parallel forms are bitwise identical; ghost cells and patches do not depend on them.
#[test]
fn parallel_forms_agree() {
    for name in ["poisson7", "fe27", "mixed27"] {
        for method in ["block_jacobi", "coloured_gauss_seidel"] {
            let mut found: Option<(Vec<u64>, u64)> = None;
            for parallel in ["auto", "patch", "block", "nested", "nested patch_threads=2"] {
                for threads in [1, 2, 5] {
                    let mut level = Level::golden(48, 2);
                    let text = format!("method={method} parallel={parallel} threads={threads}");
                    let smoother = Smoother::of(&stencil(name), [4, 4, 4], &text, &level);
                    assert_eq!(smoother.int(common::key::INFO_THREADS), threads);
                    smoother.apply(&mut level, 3).unwrap();
                    let result = (bits(&level), smoother.norm(&mut level).to_bits());
                    assert!(found.as_ref().is_none_or(|f| *f == result), "{name} {text}: other bits");
                    found = Some(result);
                }
            }
        }
    }
}

/// The block solver that `auto` selects, and the result that reports it.
#[test]
fn block_solvers_are_selected_and_reported() {
    let level = Level::cube(8);
    let solver =
        |values: &[f64], block, text: &str| Smoother::of(values, block, text, &level).int(key::INFO_BLOCK_SOLVER);
    for name in ["poisson7", "aniso7", "conv7", "fe27"] {
        assert_eq!(solver(&stencil(name), [8; 3], ""), FAST_DIAGONALIZATION, "{name}");
        assert_eq!(solver(&stencil(name), [4; 3], "block_solver=dense"), DENSE, "{name}");
    }
    assert_eq!(solver(&stencil("mixed27"), [4; 3], ""), DENSE);
    // With a cell Peclet number near 1, the transforms would lose digits for blocks of 8 cells per side, but not of 2.
    let strong = [6.0, -1.99, -0.01, -1.0, -1.0, -1.0, -1.0];
    assert_eq!(solver(&strong, [8; 3], ""), DENSE);
    assert_eq!(solver(&strong, [2; 3], ""), FAST_DIAGONALIZATION);
    // Sine transforms do not diagonalize upwind differences.
    let upwind = [6.0, -2.0, 0.0, -1.0, -1.0, -1.0, -1.0];
    assert_eq!(solver(&upwind, [4; 3], ""), DENSE);
    let failure = Smoother::new(&upwind, [4; 3], "block_solver=fast_diagonalization").patches(&level).unwrap_err();
    failure.expect(status::UNSUPPORTED, &["fast_diagonalization", "symmetric in x, y and z"]);
    // A 27-point stencil without corners differs from the 7-point stencil only by rounding.
    let mut wide = vec![0.0; 27];
    for (place, v) in [13, 12, 14, 10, 16, 4, 22].into_iter().zip(stencil("conv7")) {
        wide[place] = v;
    }
    let (mut seven, mut many) = (Level::golden(16, 2), Level::golden(16, 2));
    Smoother::of(&stencil("conv7"), [4; 3], "method=block_jacobi", &seven).apply(&mut seven, 2).unwrap();
    Smoother::of(&wide, [4; 3], "method=block_jacobi", &many).apply(&mut many, 2).unwrap();
    assert!(difference(&seven, &many) < 1e-14);
}

/// Chaotic sweeps, 20 runs with 1 to 20 threads: between lexicographic Gauss-Seidel and damped Jacobi.
#[test]
fn chaotic_lies_between() {
    for parallel in ["auto", "block", "nested"] {
        check_chaotic(64, &BLOCKS, |run| format!("backend=cpu parallel={parallel} threads={}", 1 + run));
    }
}

unsafe extern "C-unwind" fn fill_nothing(_: *mut c_void, _: i32, _: *const *mut f64) -> i32 {
    0
}

/// Sixteen adjacent patches of irregular sizes, each with at least three slabs of 8^3 blocks. There are six slabs for
/// each of eight threads, so that several threads use fused sweeps, with whole patches and with seams.
fn wall() -> Level {
    let patch = |p: i64| ([17 * (p % 4), 5 + 19 * (p / 4), -3 * (p % 2)], [17, 19, 20 + p % 3]);
    let mut level = Level::new(&(0..16).map(patch).collect::<Vec<_>>());
    level.random(8);
    level
}

/// With a ghost function, ghost cells are exchanged before each sweep; without one, they are passed on within the
/// sweep. Both are bitwise identical, including ghost cells.
fn check_in_passing(level: &Level, blocks: &[[i64; 3]], threads: &[i64]) {
    for &block in blocks {
        for options in ["", "reverse=1", "stagger=1", "stagger=2 omega=0.85", "parallel=patch"] {
            for &threads in threads {
                for sweeps in [1, 2, 3, 4] {
                    let (mut plain, mut passing) = (level.clone(), level.clone());
                    let text = format!("backend=cpu threads={threads} {options}");
                    let smoother = Smoother::of(&stencil("conv7"), block, &text, &plain);
                    // Small lists use fewer threads.
                    assert!(level.cells() < 10_000 || smoother.int(common::key::INFO_THREADS) == threads);
                    // The second run reuses the exchange buffers.
                    for _ in 0..2 {
                        smoother.apply(&mut passing, sweeps).unwrap();
                    }
                    let nobody = std::ptr::null_mut();
                    // SAFETY: a live handle; the function uses no pointer.
                    outcome(unsafe { smoother_set_ghost_fill(smoother.handle, Some(fill_nothing), nobody) }).unwrap();
                    for _ in 0..2 {
                        smoother.apply(&mut plain, sweeps).unwrap();
                    }
                    assert_eq!(bits(&passing), bits(&plain), "{block:?} {text} {sweeps}");
                }
            }
        }
    }
}

#[test]
fn ghost_cells_in_passing() {
    check_in_passing(&awkward(), &[[8, 8, 8], [4, 4, 4], [1, 1, 1], [3, 5, 7]], &[1, 2, 3]);
    check_in_passing(&wall(), &[[8, 8, 8], [4, 8, 8]], &[2, 3, 5, 8]);
}

/// Inverses are kept when patches change; new shapes are added.
#[test]
fn regridding_keeps_inverses() {
    for solver in ["dense", "fast_diagonalization"] {
        let text = format!("block_solver={solver}");
        let smoother = Smoother::of(&stencil("poisson7"), [4; 3], &text, &Level::cube(16));
        assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), 1);
        let mut level = Level::new(&[([0; 3], [18, 16, 16]), ([18, 0, 0], [2, 16, 16])]);
        smoother.patches(&level).unwrap();
        assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), 2);
        smoother.patches(&Level::cube(32)).unwrap();
        assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), 2);
        // Staggered blocks are cut at both ends: 2 and 4 cells in each direction. Their inverses are computed when the
        // option is set.
        smoother.options("stagger=1").unwrap();
        assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), 8);
        smoother.patches(&level).unwrap();
        level.random(1);
        smoother.apply(&mut level, 2).unwrap();
    }
}

/// Resident patches give the results of the caller's patches.
#[test]
fn resident_patches() {
    for backend in ["cpu threads=2", "reference"] {
        for method in ["block_jacobi", "coloured_gauss_seidel"] {
            let mut expected = awkward();
            let text = format!("backend={backend} method={method}");
            let smoother = Smoother::of(&stencil("poisson7"), [4; 3], &text, &expected);
            let mut level = awkward();
            let (u, f) = (level.u_table(), level.f_table());
            let mut norm = f64::NAN;
            // SAFETY: a live handle; tables of all patches.
            unsafe {
                outcome(smoother_upload(smoother.handle, u.as_ptr().cast(), f.as_ptr())).unwrap();
                outcome(smoother_apply(smoother.handle, std::ptr::null(), std::ptr::null(), 3)).unwrap();
                let null = std::ptr::null_mut();
                outcome(smoother_residual(smoother.handle, null, std::ptr::null(), null, &mut norm)).unwrap();
                let (mut pu, mut pf) = (vec![null_mut(); 6], vec![null_mut(); 6]);
                outcome(smoother_device_pointers(smoother.handle, pu.as_mut_ptr(), pf.as_mut_ptr())).unwrap();
                assert!(pu.iter().chain(&pf).all(|p| !p.is_null()));
                outcome(smoother_download(smoother.handle, u.as_ptr())).unwrap();
            }
            smoother.apply(&mut expected, 3).unwrap();
            assert_eq!(norm, smoother.norm(&mut expected));
            // The residual refreshed the ghost cells of both.
            assert_eq!(bits(&level), bits(&expected), "{text}");
            assert!(smoother.int(common::key::INFO_BYTES_HOST) > 8 * level.cells() as i64);
        }
    }
}

fn null_mut() -> *mut f64 {
    std::ptr::null_mut()
}
