//! Part of `tests/environment.rs` for systems of the `dpcg_` family. Each test runs its body in a child process.

use super::common::dpcg::*;
use super::common::{bits, child, key as common_key, status};
use super::{Lines, in_a_fork, listen_with};

/// `RRBSOLVER_OPTIONS` takes precedence over every set call. Invalid entries, and entries that change the layout of
/// arrays, are logged and ignored. Entries for other families are skipped.
#[test]
fn options() {
    let text = "order=1 max_iter=3 deflaton=none sweeps=9, levels=2 leading_plane=100000 leading_dimension=100000";
    if child("of_dpcg::options", &[("RRBSOLVER_OPTIONS", text)]).is_some() {
        return;
    }
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let solver = Solver::new([12, 10, 9], "preconditioner=neumann order=4 deflation=none max_iter=60 rel_tol=1e-12");
    let said = |word: &str| lines.0.iter().any(|(_, line)| line.contains("RRBSOLVER_OPTIONS") && line.contains(word));
    assert!(said("'deflaton'") && said("did you mean 'deflation'") && said("sweeps"), "{:?}", lines.0);
    assert!(said("leading_plane") && said("leading_dimension") && !said("levels"), "{:?}", lines.0);
    let kept = [key::ORDER, common_key::MAX_ITER, key::LEADING_PLANE, key::SWEEPS].map(|key| solver.int(key));
    assert_eq!(kept, [1, 3, 0, 0], "the environment wins, where it may speak");
    // A wrong value is still an error.
    solver.set_int(key::ORDER, 9).unwrap_err().expect(status::ARGUMENT, &["order"]);
    let a = TwoPhase::new("1", [12, 10, 9], 1e-3);
    let b = a.rhs("rand");
    solver.factorize(&a).unwrap();
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!((result, solver.int(common_key::INFO_ITERATIONS)), (status::NOT_CONVERGED, 3));
    // The options of the environment determine the solve.
    let same = Solver::of(&a, "preconditioner=neumann deflation=none rel_tol=1e-12");
    assert_eq!(bits(&same.solve_from_zero(&b).0), bits(&x));
    assert_eq!(rrbsolver::abi::rrbsolver_set_log(None, std::ptr::null_mut()), status::OK);
}

/// After a fork, a handle works or returns an error, but never hangs. A new handle works, and so does the handle of the
/// parent.
#[test]
fn fork() {
    if child("of_dpcg::fork", &[]).is_some() {
        return;
    }
    // The handle has one thread, or a pool of threads, which sleeps in the parent and does not exist in the child.
    for (size, threads) in [([9, 8, 7], 1), ([32, 30, 28], 3)] {
        let a = TwoPhase::new("9", size, 1e-3);
        let b = a.rhs("rand");
        for methods in ["preconditioner=multigrid", "preconditioner=neumann deflation=levelset"] {
            let options = format!("backend=cpu threads=3 {methods}");
            let solver = Solver::of(&a, &options);
            assert_eq!(solver.int(common_key::INFO_THREADS), threads);
            let (expected, _) = solver.solve_from_zero(&b);
            in_a_fork(|| {
                let mut x = vec![0.0; b.len()];
                let known = match solver.solve(&b, &mut x) {
                    Ok(_) => x == expected,
                    Err(failure) => failure.status == status::UNSUPPORTED && failure.message.contains("fork"),
                };
                let mut handle = solver.handle;
                // SAFETY: the child ends with _exit, so `solver` itself is not dropped there.
                let destroyed = unsafe { dpcg_destroy(&mut handle) } == status::OK;
                known && destroyed && Solver::of(&a, &options).solve_from_zero(&b).0 == expected
            });
            assert_eq!(solver.solve_from_zero(&b).0, expected, "the parent goes on");
        }
    }
}
