//! A host program that resets the device while the library uses it. This program runs alone, because a reset frees the
//! memory of all handles.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::problems::{poisson, random_rhs};
use common::smoother::{Smoother, awkward, key, smoother_set_stream, stencil};
use common::{Solver, bits, devices, outcome, rrb_set_stream, smoother, sparse, status};
use cudarc::driver::sys::{CUresult, cuDevicePrimaryCtxReset_v2};
use device::Queue;

fn reset() {
    // SAFETY: the library has initialized the driver, and its handles detect the reset.
    assert_eq!(unsafe { cuDevicePrimaryCtxReset_v2(0) }, CUresult::CUDA_SUCCESS);
}

/// Runs the checks sequentially.
fn a_reset_device_is_opened_again() {
    solvers();
    streams();
    smoothers();
    matrices();
}

/// An old handle reports the reset; it can be destroyed or factorized again. New handles work, with kernels that are
/// loaded again.
fn solvers() {
    let (a, b) = (poisson(33, 20), random_rhs(660, 3));
    let (expected, _) = Solver::of(&a, "backend=cuda").solve_from_zero(&b);
    for _ in 0..2 {
        let old = Solver::of(&a, "backend=cuda");
        let idle = Solver::of(&a, "backend=cuda");
        reset();
        let mut x = vec![0.0; b.len()];
        old.solve(&b, &mut x).unwrap_err().expect(status::DEVICE, &["device 0 was reset", "cudaDeviceReset"]);
        let new = Solver::of(&a, "backend=cuda");
        old.solve(&b, &mut x).unwrap_err().expect(status::DEVICE, &["factorize again"]);
        old.factorize(&a).unwrap();
        // The old handle must not free memory of the new handle.
        drop(idle);
        for solver in [old, new] {
            let (again, solved) = solver.solve_from_zero(&b);
            assert!(solved == status::OK && bits(&again) == bits(&expected));
        }
    }
}

/// A reset destroys the caller's stream. A new stream, or none, suffices.
fn streams() {
    let (a, b) = (poisson(33, 20), random_rhs(660, 3));
    let (expected, _) = Solver::of(&a, "backend=cuda").solve_from_zero(&b);
    let solver = Solver::new(33, 20, "backend=cuda");
    let set = |queue: Option<&Queue>| {
        // SAFETY: a live handle and stream.
        outcome(unsafe { rrb_set_stream(solver.handle, queue.map_or(std::ptr::null_mut(), |q| q.0.cast())) }).unwrap();
    };
    for own in [false, false, true, false] {
        let queue = (!own).then(Queue::new);
        set(queue.as_ref());
        solver.factorize(&a).unwrap();
        let (again, solved) = solver.solve_from_zero(&b);
        assert!(solved == status::OK && bits(&again) == bits(&expected));
        reset();
        std::mem::forget(queue);
        let mut x = vec![0.0; b.len()];
        solver.solve(&b, &mut x).unwrap_err().expect(status::DEVICE, &["factorize again"]);
    }
}

/// Smoothers accept new patches on another stream, and rebuild all data for them.
fn smoothers() {
    let swept = |smoother: &Smoother| {
        let mut level = awkward();
        smoother.apply(&mut level, 2).unwrap();
        (smoother::bits(&level), smoother.int(key::INFO_BLOCK_INVERSES))
    };
    let expected = swept(&Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda", &awkward()));
    let smoother = Smoother::new(&stencil("poisson7"), [4; 3], "backend=cuda");
    for _ in 0..2 {
        let queue = Queue::new();
        // SAFETY: a live handle and stream.
        outcome(unsafe { smoother_set_stream(smoother.handle, queue.0.cast()) }).unwrap();
        smoother.patches(&awkward()).unwrap();
        assert_eq!(swept(&smoother), expected);
        reset();
        std::mem::forget(queue);
        let failed = smoother.apply(&mut awkward(), 2).unwrap_err();
        failed.expect(status::DEVICE, &["device 0 was reset"]);
    }
}

/// A matrix with new values is converted again to its format after a reset, before or after `sparse_set_values`.
fn matrices() {
    let entries = sparse::Entries::random(60, 60, 200, 5).entries.into_iter().filter(|e| e.0 != e.1);
    let mut a = sparse::Entries::new(60, 60, &entries.chain((0..60).map(|i| (i, i, 9.0))).collect::<Vec<_>>());
    let b = random_rhs(60, 3);
    for options in ["solver=bicg format=dia", "solver=idr format=sell"] {
        let solution = |s: &sparse::Solver| {
            s.factorize().unwrap();
            let mut x = vec![0.0; b.len()];
            assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK);
            (bits(&x), s.int(sparse::key::FORMAT))
        };
        let new = |a: &sparse::Entries| {
            let s = a.solver();
            s.options(&format!("backend=cuda {options}")).unwrap();
            s
        };
        let s = new(&a);
        solution(&s);
        for reset_first in [false, true, false] {
            a.entries.iter_mut().for_each(|e| e.2 *= if e.0 == e.1 { 1.25 } else { 1.0 });
            if reset_first {
                reset();
            }
            s.set_values(&a.entries.iter().map(|e| e.2).collect::<Vec<_>>()).unwrap();
            if !reset_first {
                reset();
            }
            assert_eq!(solution(&s), solution(&new(&a)), "{options}, {reset_first}");
        }
    }
}

device::device_tests! { devices(); a_reset_device_is_opened_again }
