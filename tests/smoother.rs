//! Properties of block relaxation: what every backend, cut, thread count and block solver must agree on.

mod common;

use common::smoother::*;
use common::{max_difference, outcome, status};
use std::ffi::c_void;

const STENCILS: [&str; 5] = ["poisson7", "aniso7", "conv7", "fe27", "mixed27"];

/// Every method, with every option, on every backend and thread count, against the reference.
#[test]
fn backends_agree() {
    let methods = [
        "method=block_jacobi",
        "method=coloured_gauss_seidel",
        "method=coloured_gauss_seidel reverse=1",
        "method=chaotic_gauss_seidel parallel=patch",
        "method=chaotic_gauss_seidel parallel=patch reverse=1",
    ];
    for name in STENCILS {
        for block in [[8, 8, 8], [4, 4, 4], [2, 2, 2], [1, 1, 1], [8, 4, 2], [3, 5, 7], [1, 6, 1], [2, 1, 8]] {
            for method in methods {
                for extra in ["", "stagger=1", "stagger=2 omega=0.85"] {
                    let options = format!("{method} {extra}");
                    let mut expected = awkward();
                    let reference =
                        Smoother::of(&stencil(name), block, &format!("backend=reference {options}"), &expected);
                    reference.apply(&mut expected, 3).unwrap();
                    let mut found: Option<Vec<u64>> = None;
                    for threads in [1, 3] {
                        let mut level = awkward();
                        let text = format!("backend=cpu threads={threads} {options}");
                        let smoother = Smoother::of(&stencil(name), block, &text, &level);
                        smoother.apply(&mut level, 3).unwrap();
                        // Rounding of three sweeps on values of size 1, with conditions up to 100.
                        assert!(difference(&level, &expected) < 1e-12, "{name} {block:?} {text}");
                        let bits = bits(&level);
                        assert!(found.as_ref().is_none_or(|f| *f == bits), "{name} {block:?} {text}: other bits");
                        found = Some(bits);
                    }
                }
            }
        }
    }
}

/// All parallel forms give the same bits; ghosts and parts do not depend on them.
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

/// One domain as 1, 8 and 64 patches cut at block boundaries: block Jacobi does the same to every bit.
#[test]
fn jacobi_does_not_see_patches() {
    for (name, block) in [("poisson7", [4, 4, 4]), ("conv7", [8, 8, 8]), ("fe27", [2, 4, 8]), ("mixed27", [4, 4, 2])] {
        let text = "method=block_jacobi threads=2";
        let mut whole = Level::golden(32, 1);
        Smoother::of(&stencil(name), block, text, &whole).apply(&mut whole, 3).unwrap();
        for parts in [2, 4] {
            let mut level = Level::golden(32, parts);
            Smoother::of(&stencil(name), block, text, &level).apply(&mut level, 3).unwrap();
            for k in 0..32 {
                for j in 0..32 {
                    for i in 0..32 {
                        let cell = [i, j, k];
                        assert_eq!(level.at(cell).to_bits(), whole.at(cell).to_bits(), "{name} {parts} {cell:?}");
                    }
                }
            }
        }
    }
}

/// Sine transforms against dense inverses.
#[test]
fn fast_diagonalization_against_dense() {
    check_inverses("backend=cpu threads=2");
}

/// What `auto` takes, and what it says.
#[test]
fn block_solvers_are_chosen_and_told() {
    let level = Level::cube(8);
    let solver =
        |values: &[f64], block, text: &str| Smoother::of(values, block, text, &level).int(key::INFO_BLOCK_SOLVER);
    for name in ["poisson7", "aniso7", "conv7", "fe27"] {
        assert_eq!(solver(&stencil(name), [8; 3], ""), FAST_DIAGONALIZATION, "{name}");
        assert_eq!(solver(&stencil(name), [4; 3], "block_solver=dense"), DENSE, "{name}");
    }
    assert_eq!(solver(&stencil("mixed27"), [4; 3], ""), DENSE);
    // A cell Peclet number near 1: the transforms would lose digits with 8 cells, not with 2.
    let strong = [6.0, -1.99, -0.01, -1.0, -1.0, -1.0, -1.0];
    assert_eq!(solver(&strong, [8; 3], ""), DENSE);
    assert_eq!(solver(&strong, [2; 3], ""), FAST_DIAGONALIZATION);
    // Upwind: no sine transforms at all.
    let upwind = [6.0, -2.0, 0.0, -1.0, -1.0, -1.0, -1.0];
    assert_eq!(solver(&upwind, [4; 3], ""), DENSE);
    let failure = Smoother::new(&upwind, [4; 3], "block_solver=fast_diagonalization").patches(&level).unwrap_err();
    failure.expect(status::UNSUPPORTED, &["fast_diagonalization", "even"]);
    // Not even a 27-point stencil without corners differs from the 7-point one by more than rounding.
    let mut wide = vec![0.0; 27];
    for (place, v) in [13, 12, 14, 10, 16, 4, 22].into_iter().zip(stencil("conv7")) {
        wide[place] = v;
    }
    let (mut seven, mut many) = (Level::golden(16, 2), Level::golden(16, 2));
    Smoother::of(&stencil("conv7"), [4; 3], "method=block_jacobi", &seven).apply(&mut seven, 2).unwrap();
    Smoother::of(&wide, [4; 3], "method=block_jacobi", &many).apply(&mut many, 2).unwrap();
    assert!(difference(&seven, &many) < 1e-14);
}

/// Chaotic, 20 runs with 1 to 20 threads: between lexicographic Gauss-Seidel and damped Jacobi.
#[test]
fn chaotic_lies_between() {
    for parallel in ["auto", "block", "nested"] {
        check_chaotic(64, &BLOCKS, |run| format!("backend=cpu parallel={parallel} threads={}", 1 + run));
    }
}

/// One patch that is one block is solved by one sweep; a patch of one cell is the point smoother.
#[test]
fn one_block_is_solved() {
    for backend in ["cpu", "reference"] {
        for size in [[1, 1, 1], [8, 8, 8], [3, 8, 2]] {
            let mut level = Level::new(&[([16, -8, 0], size)]);
            level.random(5);
            let smoother = Smoother::of(&stencil("poisson7"), [8; 3], &format!("backend={backend}"), &level);
            let start = smoother.norm(&mut level);
            smoother.apply(&mut level, 1).unwrap();
            // Rounding times a condition of about 30.
            assert!(smoother.norm(&mut level) < 1e-13 * start.max(1.0));
        }
    }
}

/// Scaling the stencil and f by a power of four changes no bit of u.
#[test]
fn powers_of_four_leave_the_iterates() {
    for name in ["poisson7", "fe27", "mixed27"] {
        let mut plain = awkward();
        Smoother::of(&stencil(name), [4; 3], "", &plain).apply(&mut plain, 2).unwrap();
        for scale in [4f64.powi(200), 4f64.powi(-200)] {
            let mut level = awkward();
            level.f.iter_mut().flatten().for_each(|f| *f *= scale);
            let scaled: Vec<f64> = stencil(name).iter().map(|s| s * scale).collect();
            Smoother::of(&scaled, [4; 3], "", &level).apply(&mut level, 2).unwrap();
            assert_eq!(bits(&level), bits(&plain), "{name} {scale:e}");
        }
    }
}

/// Ghost cells: refreshed from other patches before each sweep; the others are the caller's.
#[test]
fn ghost_cells() {
    for backend in ["cpu threads=2", "reference"] {
        let mut level = Level::golden(16, 2);
        for u in &mut level.u {
            for v in u.iter_mut().filter(|v| **v == 0.0) {
                *v = -7.0;
            }
        }
        let before = level.clone();
        let smoother = Smoother::of(&stencil("fe27"), [4; 3], &format!("backend={backend}"), &level);
        // 8 patches, each with the 7 others at its faces, edges and one corner.
        assert_eq!(smoother.int(key::INFO_GHOST_COPIES), 56);
        assert_eq!(smoother.int(key::INFO_CELLS), 4096);
        smoother.exchange(&mut level);
        for p in 0..8 {
            let [x, y, z] = level.lower[p];
            for k in -1..9 {
                for j in -1..9 {
                    for i in -1..9 {
                        let cell = [x + i, y + j, z + k];
                        let value = level.u[p][(((k + 1) * 10 + j + 1) * 10 + i + 1) as usize];
                        let inside = cell.iter().all(|c| (0..16).contains(c));
                        assert_eq!(value, if inside { before.at(cell) } else { -7.0 }, "{p} {cell:?}");
                    }
                }
            }
        }
    }
}

unsafe extern "C-unwind" fn fill_nothing(_: *mut c_void, _: i32, _: *const *mut f64) -> i32 {
    0
}

/// Sixteen patches of awkward sizes, each beside others, of three slabs of 8^3 blocks at least: six slabs for each of
/// eight threads, so that several of them sweep in the fused form, with whole patches and with seams.
fn wall() -> Level {
    let patch = |p: i64| ([17 * (p % 4), 5 + 19 * (p / 4), -3 * (p % 2)], [17, 19, 20 + p % 3]);
    let mut level = Level::new(&(0..16).map(patch).collect::<Vec<_>>());
    level.random(8);
    level
}

/// With a function for ghost cells they are exchanged before each sweep, without one they are passed on in the sweep:
/// the same bits, ghost cells included.
fn check_in_passing(level: &Level, blocks: &[[i64; 3]], threads: &[i64]) {
    for &block in blocks {
        for options in ["", "reverse=1", "stagger=1", "stagger=2 omega=0.85", "parallel=patch"] {
            for &threads in threads {
                for sweeps in [1, 2, 3, 4] {
                    let (mut plain, mut passing) = (level.clone(), level.clone());
                    let text = format!("backend=cpu threads={threads} {options}");
                    let smoother = Smoother::of(&stencil("conv7"), block, &text, &plain);
                    // Small lists have fewer.
                    assert!(level.cells() < 10_000 || smoother.int(common::key::INFO_THREADS) == threads);
                    // Twice, so that the arrays on their way are used again.
                    for _ in 0..2 {
                        smoother.apply(&mut passing, sweeps).unwrap();
                    }
                    let nobody = std::ptr::null_mut();
                    // SAFETY: a live handle; the function looks at nothing.
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

struct Filled {
    sweeps: Vec<i32>,
    stop_at: i32,
    patches: usize,
    ghosts: f64,
}

/// Sets the ghost cells of patch 0, a cube of 4.
unsafe extern "C-unwind" fn fill(user: *mut c_void, sweep: i32, u: *const *mut f64) -> i32 {
    // SAFETY: the tests pass a record that outlives the calls, and patches of 4^3 cells.
    let (record, u) = unsafe { (&mut *user.cast::<Filled>(), std::slice::from_raw_parts(u, 1)) };
    assert_eq!(record.patches, 1);
    record.sweeps.push(sweep);
    for place in 0..216 {
        let (i, j, k) = (place % 6, place / 6 % 6, place / 36);
        if [i, j, k].iter().any(|&c| c == 0 || c == 5) {
            // SAFETY: inside the patch's array of 6^3 values.
            unsafe { *u[0].add(place) = record.ghosts };
        }
    }
    i32::from(sweep == record.stop_at)
}

#[test]
fn ghost_function() {
    for method in ["block_jacobi", "coloured_gauss_seidel"] {
        for backend in ["cpu", "reference"] {
            let mut level = Level::cube(4);
            let text = format!("backend={backend} method={method} omega=1");
            let smoother = Smoother::of(&stencil("poisson7"), [2; 3], &text, &level);
            let mut record = Filled { sweeps: Vec::new(), stop_at: 1000, patches: 1, ghosts: 3.0 };
            // SAFETY: a live handle; the record outlives the calls.
            outcome(unsafe { smoother_set_ghost_fill(smoother.handle, Some(fill), (&raw mut record).cast()) }).unwrap();
            // With 3 all around and f = 0 the solution is 3; block Jacobi's factor is below 0.7 on 4^3.
            assert_eq!(smoother.apply(&mut level, 101), Ok(status::OK));
            assert_eq!(record.sweeps, (0..101).collect::<Vec<_>>());
            assert!(level.u[0].iter().all(|v| (v - 3.0).abs() < 1e-12), "{text}");
            // A residual is no sweep.
            assert!(smoother.norm(&mut level) < 1e-11);
            assert_eq!(record.sweeps.pop(), Some(-1));
            // Stopped before the third sweep: as after two.
            record = Filled { sweeps: Vec::new(), stop_at: 2, patches: 1, ghosts: 1.0 };
            let mut twice = level.clone();
            assert_eq!(smoother.apply(&mut level, 5), Ok(status::STOPPED));
            assert_eq!(record.sweeps, [0, 1, 2]);
            assert_eq!(smoother.apply(&mut twice, 2), Ok(status::OK));
            assert_eq!(bits(&level), bits(&twice), "{text}");
        }
    }
}

unsafe extern "C-unwind" fn stop_below(user: *mut c_void, sweep: i64, relative: f64) -> i32 {
    // SAFETY: the test passes a list that outlives the calls.
    let seen = unsafe { &mut *user.cast::<Vec<f64>>() };
    assert_eq!(sweep as usize, seen.len());
    seen.push(relative);
    i32::from(relative < 0.03)
}

#[test]
fn monitor_and_history() {
    for backend in ["cpu threads=2", "reference"] {
        let mut level = Level::golden(16, 1);
        let smoother = Smoother::of(&stencil("poisson7"), [4; 3], &format!("backend={backend}"), &level);
        let start = smoother.norm(&mut level);
        let mut seen: Vec<f64> = Vec::new();
        // SAFETY: a live handle; the list outlives the calls.
        outcome(unsafe { smoother_set_monitor(smoother.handle, Some(stop_below), (&raw mut seen).cast()) }).unwrap();
        assert_eq!(smoother.apply(&mut level, 100), Ok(status::STOPPED));
        assert_eq!(seen[0], 1.0);
        let last = seen[seen.len() - 1];
        assert!(last < 0.03 && seen[seen.len() - 2] >= 0.03);
        assert!((smoother.norm(&mut level) / start - last).abs() < 1e-12);
        assert_eq!(smoother.int(common::key::INFO_ITERATIONS) as usize, seen.len() - 1);
        assert_eq!(smoother.real(common::key::INFO_FINAL_RESIDUAL), last);
        let (mut history, mut count) = (vec![0.0; 200], 0);
        // SAFETY: a live handle, a buffer of the capacity passed.
        outcome(unsafe { smoother_get_history(smoother.handle, history.as_mut_ptr(), 200, &mut count) }).unwrap();
        assert_eq!(history[..count as usize], seen[..]);
    }
}

/// Inverses stay when patches change; new shapes are added.
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
        // Staggered blocks are cut at both ends: 2 and 4 cells in each direction; made when the option is set.
        smoother.options("stagger=1").unwrap();
        assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), 8);
        smoother.patches(&level).unwrap();
        level.random(1);
        smoother.apply(&mut level, 2).unwrap();
    }
}

/// The paper's alternative to remainders: blocks moved inwards; 61^3 cells, 8^3 blocks, lexicographic.
#[test]
fn overlap() {
    let relative = |text: &str| {
        let mut level = Level::golden(61, 1);
        let options = format!("method=chaotic_gauss_seidel parallel=patch {text}");
        let smoother = Smoother::of(&stencil("poisson7"), [8; 3], &options, &level);
        let start = smoother.norm(&mut level);
        smoother.apply(&mut level, 3).unwrap();
        smoother.norm(&mut level) / start
    };
    // Three digits of the design notes.
    assert!((relative("remainder=exact") - 0.01085).abs() < 5e-6);
    assert!((relative("remainder=overlap") - 0.00978).abs() < 5e-6);
    let mut level = Level::golden(61, 1);
    for text in ["", "method=block_jacobi", "method=chaotic_gauss_seidel", "parallel=patch"] {
        let smoother = Smoother::of(&stencil("poisson7"), [8; 3], &format!("remainder=overlap {text}"), &level);
        smoother.apply(&mut level, 1).unwrap_err().expect(status::UNSUPPORTED, &["overlap", "patch 0", "exact"]);
    }
    // Nothing is cut short: nothing overlaps.
    let mut level = Level::golden(16, 1);
    Smoother::of(&stencil("poisson7"), [8; 3], "remainder=overlap", &level).apply(&mut level, 1).unwrap();
}

/// Patches of the library's own memory give what the caller's give.
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
            // The residual has refreshed the ghosts of both.
            assert_eq!(bits(&level), bits(&expected), "{text}");
            assert!(smoother.int(common::key::INFO_BYTES_HOST) > 8 * level.cells() as i64);
        }
    }
}

fn null_mut() -> *mut f64 {
    std::ptr::null_mut()
}

/// Residual arrays against the definition, by cells with their neighbours.
#[test]
fn residuals() {
    for name in ["conv7", "mixed27"] {
        let mut results = Vec::new();
        for backend in ["cpu threads=3", "reference"] {
            let mut level = awkward();
            let smoother = Smoother::of(&stencil(name), [4; 3], &format!("backend={backend}"), &level);
            let r = smoother.residual(&mut level);
            let norm = r.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
            assert!((smoother.norm(&mut level) / norm - 1.0).abs() < 1e-14);
            results.push(r);
        }
        for (a, b) in results[0].iter().zip(&results[1]) {
            // Rounding of at most 28 terms of size 10.
            assert!(max_difference(a, b) < 1e-13);
        }
    }
}
