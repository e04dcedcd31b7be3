//! Part of `tests/rrb/allocation.rs`, which counts allocations of the process: solving 3D systems allocates nothing,
//! and a handle reports its memory.

use super::common::dpcg::{PRECONDITIONERS, Solver, TwoPhase, dpcg_apply, dpcg_multiply, dpcg_set_monitor, dpcg_solve};
use super::{calls, common, live, monitor, outcome, status};
use std::ptr::null_mut;

const DEFLATIONS: [&str; 4] = ["none", "subdomain", "levelset", "levelset_subdomain coarse_solver=cholesky"];

/// Solves on a box for one thread and on a box for several threads allocate nothing, and neither does the first solve.
pub fn solving_allocates_nothing() {
    let mut wrong = Vec::new();
    for size in [[9, 8, 7], [40, 31, 29]] {
        let a = TwoPhase::new("9", size, 1e-3);
        let b = a.rhs("rand");
        for backend in ["reference", "cpu threads=1", "cpu threads=3"] {
            for (preconditioner, _) in PRECONDITIONERS {
                for deflation in DEFLATIONS {
                    let methods = format!("preconditioner={preconditioner} deflation={deflation}");
                    let options = format!("backend={backend} {methods} max_iter=20 verbosity=2");
                    let solver = Solver::of(&a, &options);
                    // SAFETY: a live handle.
                    outcome(unsafe { dpcg_set_monitor(solver.handle, Some(monitor), null_mut()) }).unwrap();
                    let (mut x, mut results) = (vec![0.0; a.cells()], [-1; 4]);
                    let (h, bp, xp) = (solver.handle, b.as_ptr(), x.as_mut_ptr());
                    let taken = calls(|| {
                        // SAFETY: a live handle, and arrays of its size.
                        results = unsafe {
                            [
                                dpcg_solve(h, bp, xp),
                                dpcg_apply(h, bp, xp),
                                dpcg_multiply(h, bp, xp),
                                dpcg_solve(h, bp, xp),
                            ]
                        };
                    });
                    assert!(results.iter().all(|&status| status >= status::OK), "{options}: {results:?}");
                    if taken > 0 {
                        wrong.push(format!("{size:?} {options}: {taken} times"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "memory was taken:\n{}", wrong.join("\n"));
}

/// `bytes_host` is the memory of the handle including the matrix; a second matrix needs no more memory.
pub fn bytes_host_is_the_allocated_memory() {
    let a = TwoPhase::new("9", [96; 3], 1e-3);
    let cells = a.cells() as f64;
    // Bytes per cell: four arrays of A and five vectors are 72.
    for (options, most) in [
        ("preconditioner=neumann deflation=levelset_subdomain", 130.0),
        ("", 180.0),
        ("preconditioner=multigrid precision=f64 threads=2", 186.0),
    ] {
        let before = live();
        let solver = Solver::of(&a, options);
        let held = live() - before;
        let said = solver.int(common::key::INFO_BYTES_HOST);
        // Options, history and strings are not counted per cell.
        assert!((said - held).abs() <= 100_000 + held / 50, "{options}: {said} said, {held} held");
        assert!(held as f64 <= most * cells, "{options}: {} bytes a cell", held as f64 / cells);
        solver.factorize(&a).unwrap();
        let after = live() - before;
        assert!(after <= held + 100_000, "{options}: {held} bytes, then {after}");
    }
}
