//! The floating-point mode of the host. The host enables traps for every exception, rounds upwards and flushes to zero.
//! No call may trap, and mode and flags are unchanged after every call and inside callbacks. The results equal those of
//! a host with the default mode.
#![cfg(target_arch = "x86_64")]

mod common;

use common::dpcg::{self, PRECONDITIONERS, TwoPhase};
use common::problems::{Random, Stencil, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ffi::c_void;

/// MXCSR at process start.
const DEFAULT: u32 = 0x1f80;
/// MXCSR with rounding upwards, subnormal numbers flushed to zero, and the flag for inexact results raised. Invalid
/// operations, divisions by zero, overflows and underflows trap, as with `-ffpe-trap=invalid,zero,overflow,underflow`.
const STRANGE: u32 = 0x8000 | 0x4000 | 0x1000 | 0x100 | 0x20;

fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: stmxcsr writes four bytes.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mode) };
    mode
}

fn set_mode(mode: u32) {
    // SAFETY: ldmxcsr reads four bytes; the callers pass no reserved bit.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mode) };
}

/// Runs a call in the mode `wanted`, and checks that the call leaves it unchanged.
#[track_caller]
fn within<T>(wanted: u32, call: impl FnOnce() -> T) -> T {
    set_mode(wanted);
    let value = call();
    let after = mode();
    set_mode(DEFAULT);
    assert_eq!(after, wanted, "mode and flags after a call");
    value
}

/// Creates closed basins with this fraction of random land.
fn basins(n: usize, land: f64, seed: u64) -> Stencil {
    let mut random = Random(seed);
    let mut a = neumann_const(n, n);
    let dry: Vec<bool> = (0..n * n).map(|_| random.unit() < land).collect();
    for k in (0..n * n).filter(|&k| dry[k]) {
        a.decouple(k % n, k / n, 1.0);
    }
    a.set_row_sums(|k| if dry[k] { 1.0 } else { 0.0 });
    // Wet nodes without wet neighbours become land.
    a.center.iter_mut().filter(|c| **c == 0.0).for_each(|c| *c = 1.0);
    a
}

/// Factorizes and solves. Returns the status and x.
fn solved(a: &Stencil, b: &[f64], options: &str, host: u32) -> (Result<i32, i32>, Vec<u64>) {
    let solver = within(host, || Solver::try_new(a.nx as i64, a.ny as i64)).expect("create");
    within(host, || solver.options(options)).expect("options");
    let mut x = vec![0.0; b.len()];
    let status = within(host, || solver.factorize(a)).and_then(|_| within(host, || solver.solve(b, &mut x)));
    (status.map_err(|f| f.status), bits(&x))
}

/// Every instruction set, format and cycle, on matrices whose padding, land and vanishing pivots could cause a trap.
#[test]
fn no_input_raises_in_the_host() {
    const NAME: &str = "no_input_raises_in_the_host";
    for isa in ["portable", "avx2", "avx512"] {
        if child(NAME, &[("RRBSOLVER_ISA", isa)]).is_none() {
            return in_a_strange_host();
        }
    }
}

fn in_a_strange_host() {
    let mut matrices: Vec<Stencil> = (0..6).map(|seed| basins(40, 0.3, seed)).collect();
    matrices.extend([poisson(40, 40), neumann_const(61, 47)]);
    matrices.extend([false, true].map(|nine| random_m_matrix(130, 91, nine, 1)));
    // Short formats cannot represent this entry.
    let mut large = poisson(20, 20);
    large.center[33] = 1e308;
    matrices.push(large);
    for (k, a) in matrices.iter().enumerate() {
        let b: Vec<f64> = random_rhs(a.len(), 1).iter().zip(&a.center).map(|(b, c)| b * c.min(8.0)).collect();
        for precision in ["auto", "f64", "f32", "bf16", "mixed"] {
            for cycle in ["v", "amli", "k"] {
                for more in ["threads=1", "threads=3 fusion=off cycle_spacing=2"] {
                    let options = format!("precision={precision} cycle={cycle} rel_tol=1e-30 max_iter=30 {more}");
                    let expected = solved(a, &b, &options, DEFAULT);
                    assert_eq!(solved(a, &b, &options, STRANGE), expected, "matrix {k}: {options}");
                }
            }
        }
        let options = "backend=reference max_iter=30";
        assert_eq!(solved(a, &b, options, STRANGE), solved(a, &b, options, DEFAULT), "matrix {k}: {options}");
    }
}

/// Arrays with extreme values at any index, with and without the input check.
#[test]
fn bad_numbers_raise_nothing() {
    let a = poisson(20, 20);
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324] {
        for place in 0..5 {
            for precision in ["f64", "bf16", "f32", "mixed"] {
                for check in 0..=1 {
                    let (mut a, mut b, mut x) = (a.clone(), random_rhs(400, 1), vec![0.0; 400]);
                    [&mut a.center, &mut a.east, &mut a.north, &mut b, &mut x][place][33] = value;
                    let solver = Solver::new(20, 20, &format!("check_input={check} precision={precision} max_iter=50"));
                    let factorized = within(STRANGE, || solver.factorize(&a));
                    let status = factorized.and_then(|_| within(STRANGE, || solver.solve(&b, &mut x)));
                    let refused = status.map_err(|f| f.status).err();
                    let must = check == 1 && !value.is_finite();
                    assert!(!must || refused == Some(status::NOT_FINITE), "{value:e} in array {place}: {refused:?}");
                }
            }
        }
    }
}

/// The library begins speculative work on a matrix before it knows that the matrix differs from the previous one.
#[test]
fn matrices_unlike_the_last_one() {
    for a in [random_m_matrix(130, 91, false, 1), random_m_matrix(130, 91, true, 1)] {
        for precision in ["f64", "f32", "bf16"] {
            let solver = Solver::of(&a, &format!("backend=cpu threads=3 precision={precision}"));
            let [mut tiny, mut bad] = [a.clone(), a.clone()];
            tiny.scale(1e-140);
            bad.center[60] = f64::NAN;
            for _ in 0..2 {
                within(STRANGE, || solver.factorize(&tiny)).expect("tiny");
                let refused = within(STRANGE, || solver.factorize(&bad));
                assert_eq!(refused.map_err(|f| f.status), Err(status::NOT_FINITE));
                for _ in 0..10 {
                    within(STRANGE, || solver.factorize(&a)).expect("again");
                }
            }
        }
    }
}

/// Factorizes and solves a 3D system. Returns the status and x.
fn cells_solved(a: &TwoPhase, b: &[f64], options: &str, host: u32) -> (Result<i32, i32>, Vec<u64>) {
    let solver = within(host, || dpcg::Solver::try_new(a.size.map(|n| n as i64))).expect("create");
    within(host, || solver.options(options)).expect("options");
    let mut x = vec![0.0; b.len()];
    let status = within(host, || solver.factorize(a)).and_then(|_| within(host, || solver.solve(b, &mut x)));
    (status.map_err(|f| f.status), bits(&x))
}

/// Every preconditioner, deflation and instruction set, on a box for one thread and on a box for several threads, with
/// and without an obstacle.
#[test]
fn no_cell_raises_in_the_host() {
    const NAME: &str = "no_cell_raises_in_the_host";
    for isa in ["portable", "avx2", "avx512"] {
        if child(NAME, &[("RRBSOLVER_ISA", isa)]).is_none() {
            return cells_in_a_strange_host();
        }
    }
}

fn cells_in_a_strange_host() {
    for (name, size) in [("9", [9, 8, 7]), ("surf;obs=box", [9, 8, 7]), ("9", [32, 27, 26])] {
        let a = TwoPhase::new(name, size, 1e-6);
        let b = a.rhs("rand");
        let methods = PRECONDITIONERS.iter().flat_map(|(preconditioner, _)| {
            let deflations = ["none", "levelset", "subdomain coarse_solver=cg"];
            deflations.map(|deflation| format!("preconditioner={preconditioner} deflation={deflation}"))
        });
        let cell = "preconditioner=multigrid coarsening=cell deflation=none";
        for methods in methods.chain([cell.to_owned()]) {
            for more in ["backend=reference", "threads=1 precision=f32", "threads=3", "threads=3 fusion=off"] {
                let options = format!("{methods} rel_tol=1e-30 max_iter=20 {more}");
                let expected = cells_solved(&a, &b, &options, DEFAULT);
                assert!(expected.0.is_ok(), "{name} {size:?}: {options}");
                assert_eq!(cells_solved(&a, &b, &options, STRANGE), expected, "{name} {size:?}: {options}");
            }
        }
    }
}

/// 3D systems with extreme values in any array, with and without the input check.
#[test]
fn bad_cells_raise_nothing() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324] {
        for place in 0..6 {
            let methods = ["multigrid", "ic0", "neumann deflation=levelset"];
            for (methods, check) in methods.iter().flat_map(|methods| [0, 1].map(|check| (methods, check))) {
                let mut a = TwoPhase::new("1", [9, 8, 7], 1e-3);
                let (mut b, mut x) = (a.rhs("rand"), vec![0.0; a.cells()]);
                let [east, north, top] = &mut a.forward;
                [&mut a.center, east, north, top, &mut b, &mut x][place][33] = value;
                let solver = dpcg::Solver::new(
                    [9, 8, 7],
                    &format!("check_input={check} backend=cpu max_iter=20 preconditioner={methods}"),
                );
                let factorized = within(STRANGE, || solver.factorize(&a));
                let status = factorized.and_then(|_| within(STRANGE, || solver.solve(&b, &mut x)));
                let refused = status.map_err(|f| f.status).err();
                let must = check == 1 && !value.is_finite();
                assert!(!must || refused == Some(status::NOT_FINITE), "{value:e} in array {place}: {refused:?}");
            }
        }
    }
}

/// Modes that callbacks observed, and the mode that they set.
struct Seen {
    modes: Vec<u32>,
    leaves: u32,
}

unsafe extern "C-unwind" fn look(seen: *mut c_void, iteration: i64, _: f64) -> i32 {
    // SAFETY: the test passes a `Seen` that outlives the solve.
    let seen = unsafe { &mut *seen.cast::<Seen>() };
    seen.modes.push(mode());
    set_mode(seen.leaves);
    i32::from(iteration == 3)
}

/// A callback runs with the mode and flags of the host. Its changes persist after the call, as they would without the
/// library.
#[test]
fn callbacks_are_the_hosts() {
    let a = poisson(50, 50);
    let solver = Solver::of(&a, "rel_tol=1e-12");
    let (b, mut x) = (random_rhs(2500, 1), vec![0.0; 2500]);
    for leaves in [STRANGE, STRANGE | 0x10] {
        let mut seen = Seen { modes: Vec::new(), leaves };
        // SAFETY: a live handle; `seen` outlives the solve.
        assert_eq!(unsafe { rrb_set_monitor(solver.handle, Some(look), user(&mut seen)) }, status::OK);
        set_mode(STRANGE);
        let result = solver.solve(&b, &mut x);
        let after = mode();
        set_mode(DEFAULT);
        assert_eq!(result, Ok(status::STOPPED));
        assert_eq!(after, leaves);
        assert_eq!(seen.modes, [STRANGE, leaves, leaves, leaves]);
    }
}
