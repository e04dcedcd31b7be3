//! Requirements on every backend of `smoother_`, as one list of checks: sweeps of every method, block and stencil,
//! residuals, norms, ghost cells, callbacks, bitwise identity and scales, on patches of irregular sizes.
//!
//! A new backend, or a new way to run one, is a line in `BACKENDS`. The reference is `reference` (plain loops, dense
//! inverses).

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::smoother::*;
use common::{devices, last_error, max_difference, outcome, status};
use device::{Backend, Check, Rows};
use std::ffi::c_void;

const BACKENDS: &[Backend] = &[
    Backend { name: "the reference", options: "backend=reference" },
    Backend { name: "the CPU", options: "backend=cpu threads=1" },
    Backend { name: "the CPU, three threads", options: "backend=cpu threads=3" },
    Backend { name: "the CPU, dense inverses", options: "backend=cpu threads=3 block_solver=dense" },
    Backend { name: "a device", options: "backend=cuda" },
    Backend { name: "a device, dense inverses", options: "backend=cuda block_solver=dense" },
];

const CHECKS: &[Check] = &[
    ("sweeps_of_every_method", sweeps_of_every_method),
    ("residuals", residuals),
    ("norms_at_any_scale", |on| check_scales(on.options)),
    ("jacobi_does_not_see_patches", jacobi_does_not_see_patches),
    ("fast_diagonalization_against_dense", fast_diagonalization_against_dense),
    ("one_block_is_solved", one_block_is_solved),
    ("powers_of_four", powers_of_four),
    ("ghost_cells", ghost_cells),
    ("ghost_function", ghost_function),
    ("monitor_and_history", monitor_and_history),
    ("overlap", overlap),
];

fn main() {
    device::run(devices(), device::suite(BACKENDS, CHECKS))
}

/// Returns a bound of the rounding error of values of about 1/2 after `sweeps` sweeps.
///
/// A sweep multiplies residuals by block inverses with up to 512 products per cell, in both computations. The errors
/// have random signs: 2 sqrt(512) 2^-53 times the largest |A_b^-1| |r|. This factor is 5.4 (aniso7, 8^3 cells; 2.8 for
/// the other stencils), which gives 3e-14. Couplings to other blocks do not amplify the errors. The bound is about four
/// times that; an emulated device has an error of 1.3e-14 after three sweeps.
fn rounding(sweeps: i32) -> f64 {
    1e-13 * f64::from(sweeps)
}

/// Every method with every option compared with the reference; repeated runs are bitwise identical.
fn sweeps_of_every_method(on: &Backend) {
    let mut rows = Rows::default();
    let methods = [
        "method=block_jacobi",
        "method=coloured_gauss_seidel",
        "method=coloured_gauss_seidel reverse=1",
        "method=chaotic_gauss_seidel parallel=patch",
        "method=chaotic_gauss_seidel parallel=patch reverse=1",
    ];
    for name in ["poisson7", "aniso7", "conv7", "fe27", "mixed27"] {
        for block in [[8, 8, 8], [4, 4, 4], [2, 2, 2], [1, 1, 1], [8, 4, 2], [3, 5, 7], [1, 6, 1], [2, 1, 8]] {
            for method in methods {
                let made = |on: &str| Smoother::of(&stencil(name), block, &format!("{on} {method}"), &awkward());
                // Options are changed on existing handles, because a handle on a device takes 0.1 s to create.
                let (oracle, smoother) = (made("backend=reference"), made(on.options));
                for extra in ["stagger=0 omega=0", "stagger=1", "stagger=2 omega=0.85"] {
                    rows.row(&format!("{name} {block:?} {method} {extra}"), || {
                        let what = format!("{name} {block:?} {method} {extra}");
                        let sweep = |smoother: &Smoother| {
                            let mut level = awkward();
                            smoother.options(extra).unwrap();
                            smoother.apply(&mut level, 3).unwrap();
                            level
                        };
                        let found = sweep(&smoother);
                        let error = difference(&found, &sweep(&oracle));
                        assert!(error < rounding(3), "{what}: {error:e}");
                        assert!(bits(&sweep(&smoother)) == bits(&found), "{what}: other bits");
                    });
                }
            }
        }
    }
    rows.end();
}

/// Residual arrays and norms compared with the reference.
fn residuals(on: &Backend) {
    let mut rows = Rows::default();
    for name in ["conv7", "mixed27"] {
        rows.row(name, || {
            let [expected, found] = ["backend=reference", on.options].map(|on| {
                let mut level = awkward();
                let smoother = Smoother::of(&stencil(name), [4; 3], on, &level);
                let r = smoother.residual(&mut level);
                let norm = r.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
                assert!((smoother.norm(&mut level) / norm - 1.0).abs() < 1e-14, "{name}");
                r
            });
            for (a, b) in expected.iter().zip(&found) {
                // Rounding of at most 28 terms of magnitude 10.
                assert!(max_difference(a, b) < 1e-13, "{name}");
            }
        });
    }
    rows.end();
}

/// One domain as 1, 8 and 64 patches, cut at block boundaries: block Jacobi is bitwise identical.
fn jacobi_does_not_see_patches(on: &Backend) {
    let mut rows = Rows::default();
    for (name, block) in [("poisson7", [4, 4, 4]), ("conv7", [8, 8, 8]), ("fe27", [2, 4, 8]), ("mixed27", [4, 4, 2])] {
        // For n = 24, the tiles of a device have eight and four cells per side, unlike for n = 32.
        for (n, parts) in [(32, 2), (32, 4), (24, 2)] {
            rows.row(&format!("{name} {n} in {parts}"), || {
                if n == 24 && block.contains(&8) {
                    return;
                }
                let [whole, level] = [1, parts].map(|parts| {
                    let mut level = Level::golden(n, parts);
                    let text = format!("{} method=block_jacobi", on.options);
                    Smoother::of(&stencil(name), block, &text, &level).apply(&mut level, 3).unwrap();
                    level
                });
                for q in 0..n * n * n {
                    let cell = [q % n, q / n % n, q / n / n];
                    assert_eq!(level.at(cell).to_bits(), whole.at(cell).to_bits(), "{name} {parts} {cell:?}");
                }
            });
        }
    }
    rows.end();
}

/// Sine transforms compared with dense inverses, if a backend has both and the options select neither.
fn fast_diagonalization_against_dense(on: &Backend) {
    if !on.options.contains("reference") && !on.options.contains("dense") {
        check_inverses(on.options);
    }
}

/// One sweep solves a patch of one block. On a patch of one cell, the method is the point smoother.
fn one_block_is_solved(on: &Backend) {
    let mut rows = Rows::default();
    for size in [[1, 1, 1], [8, 8, 8], [3, 8, 2]] {
        rows.row(&format!("{size:?}"), || {
            let mut level = Level::new(&[([16, -8, 0], size)]);
            level.random(5);
            let smoother = Smoother::of(&stencil("poisson7"), [8; 3], on.options, &level);
            let start = smoother.norm(&mut level);
            smoother.apply(&mut level, 1).unwrap();
            // The bound is the rounding error times a condition number of about 30.
            assert!(smoother.norm(&mut level) < 1e-13 * start.max(1.0));
        });
    }
    rows.end();
}

/// Scaling the stencil and f by a power of four changes no bit of u.
fn powers_of_four(on: &Backend) {
    let mut rows = Rows::default();
    for name in ["poisson7", "fe27", "mixed27"] {
        let mut plain = awkward();
        Smoother::of(&stencil(name), [4; 3], on.options, &plain).apply(&mut plain, 2).unwrap();
        for scale in [4f64.powi(200), 4f64.powi(-200)] {
            rows.row(&format!("{name} {scale:e}"), || {
                let mut level = awkward();
                level.f.iter_mut().flatten().for_each(|f| *f *= scale);
                let scaled: Vec<f64> = stencil(name).iter().map(|s| s * scale).collect();
                Smoother::of(&scaled, [4; 3], on.options, &level).apply(&mut level, 2).unwrap();
                assert_eq!(bits(&level), bits(&plain), "{name} {scale:e}");
            });
        }
    }
    rows.end();
}

/// Ghost cells that other patches cover are refreshed before each sweep; the others belong to the caller.
fn ghost_cells(on: &Backend) {
    let mut level = Level::golden(16, 2);
    for u in &mut level.u {
        for v in u.iter_mut().filter(|v| **v == 0.0) {
            *v = -7.0;
        }
    }
    let before = level.clone();
    let smoother = Smoother::of(&stencil("fe27"), [4; 3], on.options, &level);
    // 8 patches, each adjacent to the 7 others at faces, edges and one corner.
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

fn ghost_function(on: &Backend) {
    let mut rows = Rows::default();
    for method in ["block_jacobi", "coloured_gauss_seidel"] {
        rows.row(method, || {
            let mut level = Level::cube(4);
            let text = format!("{} method={method} omega=1", on.options);
            let smoother = Smoother::of(&stencil("poisson7"), [2; 3], &text, &level);
            let mut record = Filled { sweeps: Vec::new(), stop_at: 1000, patches: 1, ghosts: 3.0 };
            // SAFETY: a live handle; the record outlives the calls.
            outcome(unsafe { smoother_set_ghost_fill(smoother.handle, Some(fill), (&raw mut record).cast()) }).unwrap();
            // With ghost values 3 and f = 0, the solution is 3. The convergence factor of block Jacobi is below 0.7 on
            // 4^3 cells.
            assert_eq!(smoother.apply(&mut level, 101), Ok(status::OK));
            assert_eq!(record.sweeps, (0..101).collect::<Vec<_>>());
            assert!(level.u[0].iter().all(|v| (v - 3.0).abs() < 1e-12), "{text}");
            // A residual is not counted as a sweep.
            assert!(smoother.norm(&mut level) < 1e-11);
            assert_eq!(record.sweeps.pop(), Some(-1));
            // The call is stopped before the third sweep, so u is the result of two sweeps.
            record = Filled { sweeps: Vec::new(), stop_at: 2, patches: 1, ghosts: 1.0 };
            let mut twice = level.clone();
            assert_eq!(smoother.apply(&mut level, 5), Ok(status::STOPPED));
            assert_eq!(last_error(), "stopped by the monitor or the ghost function after 2 sweeps");
            assert_eq!(record.sweeps, [0, 1, 2]);
            assert_eq!(smoother.apply(&mut twice, 2), Ok(status::OK));
            assert_eq!(bits(&level), bits(&twice), "{text}");
        });
    }
    rows.end();
}

unsafe extern "C-unwind" fn stop_below(user: *mut c_void, sweep: i64, relative: f64) -> i32 {
    // SAFETY: the test passes a list that outlives the calls.
    let seen = unsafe { &mut *user.cast::<Vec<f64>>() };
    assert_eq!(sweep as usize, seen.len());
    seen.push(relative);
    i32::from(relative < 0.03)
}

fn monitor_and_history(on: &Backend) {
    let mut rows = Rows::default();
    for method in ["block_jacobi", "coloured_gauss_seidel"] {
        rows.row(method, || {
            let mut level = Level::golden(16, 2);
            let text = format!("{} method={method}", on.options);
            let smoother = Smoother::of(&stencil("poisson7"), [4; 3], &text, &level);
            let start = smoother.norm(&mut level);
            let mut seen: Vec<f64> = Vec::new();
            // SAFETY: a live handle; the list outlives the calls.
            outcome(unsafe { smoother_set_monitor(smoother.handle, Some(stop_below), (&raw mut seen).cast()) })
                .unwrap();
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
        });
    }
    rows.end();
}

/// The paper's alternative to remainders, blocks moved inwards: 61^3 cells, 8^3 blocks, lexicographic order. Also
/// patches cut at both ends, where three blocks along an axis overlap pairwise.
fn overlap(on: &Backend) {
    let mut rows = Rows::default();
    let lexicographic = "method=chaotic_gauss_seidel parallel=patch";
    let relative = |text: &str| {
        let mut level = Level::golden(61, 1);
        let options = format!("{} {lexicographic} {text}", on.options);
        let smoother = Smoother::of(&stencil("poisson7"), [8; 3], &options, &level);
        let start = smoother.norm(&mut level);
        smoother.apply(&mut level, 3).unwrap();
        smoother.norm(&mut level) / start
    };
    // An emulated device needs a second for each dense inverse of a block of 512 cells. So it uses fewer boxes then.
    let dense = on.options.contains("dense");
    let select = |count: usize, few: usize| if dense { on.size(count, few) } else { count };
    // Expected values from the design of the library, with three digits.
    for (remainder, expected) in &[("exact", 0.01085), ("overlap", 0.00978)][..select(2, 0)] {
        assert!((relative(&format!("remainder={remainder}")) - expected).abs() < 5e-6);
    }
    for &(size, lower) in &[(12, 6), (16, 4), (29, 5)][..select(3, 1)] {
        for options in ["remainder=exact", "remainder=overlap", "remainder=overlap reverse=1"] {
            rows.row(&format!("{options} {size} {lower}"), || {
                let [expected, found] = ["backend=reference", on.options].map(|on| {
                    let mut level = Level::new(&[([lower; 3], [size; 3])]);
                    level.random(13);
                    let text = format!("{on} {lexicographic} {options}");
                    Smoother::of(&stencil("poisson7"), [8; 3], &text, &level).apply(&mut level, 3).unwrap();
                    level
                });
                assert!(difference(&expected, &found) < rounding(3), "{options} {size} {lower}");
            });
        }
    }
    let mut level = Level::golden(61, 1);
    for text in ["", "method=block_jacobi", "method=chaotic_gauss_seidel", "parallel=patch"] {
        let text = format!("{} remainder=overlap {text}", on.options);
        let smoother = Smoother::of(&stencil("poisson7"), [8; 3], &text, &level);
        smoother.apply(&mut level, 1).unwrap_err().expect(status::UNSUPPORTED, &["overlap", "patch 0", "exact"]);
    }
    // If no block is cut, no blocks overlap.
    let mut level = Level::golden(16, 1);
    let text = format!("{} remainder=overlap", on.options);
    Smoother::of(&stencil("poisson7"), [8; 3], &text, &level).apply(&mut level, 1).unwrap();
    rows.end();
}
