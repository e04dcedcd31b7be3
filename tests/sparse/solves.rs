//! Part of `tests/rrb/allocation.rs`, which counts allocations of the process: solves with general matrices allocate
//! nothing.

use super::common::sparse::{Entries, Solver, sparse_apply, sparse_multiply, sparse_set_monitor, sparse_solve};
use super::{calls, monitor, outcome, status};
use rrbsolver_problems::sparse::five_points;
use std::ptr::null_mut;

const METHODS: [&str; 15] = [
    "",
    "solver=cg preconditioner=ic0",
    "solver=cg preconditioner=amg",
    "solver=cg preconditioner=chebyshev format=sell",
    "solver=minres format=dia",
    "solver=bicg preconditioner=ilu0 transpose=copy format=csr",
    "solver=bicg preconditioner=jacobi transpose=none format=csc",
    "solver=bicgstab preconditioner=neumann precision=f32",
    "solver=gmres preconditioner=ssor restart=10 format=bsr",
    "solver=idr preconditioner=jacobi format=ell",
    "solver=steepest_descent preconditioner=ic0 ordering=multicolour",
    "solver=jacobi",
    "solver=sor ordering=natural",
    "solver=sor ordering=multicolour",
    "solver=gauss_seidel ordering=blocks",
];

/// The first and the second solve by every method, with few rows and with enough rows for several threads.
pub fn solving_allocates_nothing() {
    let mut wrong = Vec::new();
    for n in [5, 130] {
        let system = five_points(n, [4.5, -1.0, -1.0, -1.0, -1.0]);
        let a = Entries { rows: system.n, cols: system.n, entries: system.entries };
        let (b, mut x, mut y) = (vec![1.0; a.rows], vec![0.0; a.rows], vec![0.0; a.rows]);
        for method in METHODS {
            for threads in [1, 2] {
                let solver: Solver = a.solver();
                let options = format!("{method} threads={threads} max_iter=20 verbosity=2");
                solver.options(&options).unwrap();
                solver.factorize().unwrap();
                let h = solver.handle;
                // SAFETY: a live handle.
                outcome(unsafe { sparse_set_monitor(h, Some(monitor), null_mut()) }).unwrap();
                // The first product may build another format, which allocates memory.
                solver.product(&b, false).unwrap();
                let sweeps =
                    ["solver=jacobi", "solver=sor", "solver=gauss_seidel"].iter().any(|s| method.starts_with(s));
                let mut results = [-1; 4];
                x.fill(0.0);
                let (bp, xp, yp) = (b.as_ptr(), x.as_mut_ptr(), y.as_mut_ptr());
                let taken = calls(|| {
                    // SAFETY: a live handle, and arrays of its rows.
                    results = unsafe {
                        let first = sparse_solve(h, bp, xp);
                        let applied = if sweeps { status::OK } else { sparse_apply(h, bp, yp) };
                        [first, applied, sparse_multiply(h, bp, yp), sparse_solve(h, bp, xp)]
                    };
                });
                assert!(results.iter().all(|&status| status >= status::OK), "{options}: {results:?}");
                if taken > 0 {
                    wrong.push(format!("{} rows, {options}: {taken} times", a.rows));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "memory was taken:\n{}", wrong.join("\n"));
}
