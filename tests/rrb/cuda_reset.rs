//! A host program that resets the device under the library. Alone in its program: a reset takes everybody's memory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::problems::{poisson, random_rhs};
use common::{Solver, bits, devices, status};
use cudarc::driver::sys::{CUresult, cuDevicePrimaryCtxReset_v2};

/// A handle from before says so; it can be destroyed, or factorized again, and new ones work, with kernels loaded anew.
fn a_reset_device_is_opened_again() {
    let (a, b) = (poisson(33, 20), random_rhs(660, 3));
    let (expected, _) = Solver::of(&a, "backend=cuda").solve_from_zero(&b);
    for _ in 0..2 {
        let old = Solver::of(&a, "backend=cuda");
        let idle = Solver::of(&a, "backend=cuda");
        // SAFETY: the driver was started by the library, whose handles take this.
        assert_eq!(unsafe { cuDevicePrimaryCtxReset_v2(0) }, CUresult::CUDA_SUCCESS);
        let mut x = vec![0.0; b.len()];
        old.solve(&b, &mut x).unwrap_err().expect(status::DEVICE, &["reset device 0", "cudaDeviceReset"]);
        let new = Solver::of(&a, "backend=cuda");
        old.solve(&b, &mut x).unwrap_err().expect(status::DEVICE, &["factorize again"]);
        old.factorize(&a).unwrap();
        // What it frees is not what the new one has.
        drop(idle);
        for solver in [old, new] {
            let (again, solved) = solver.solve_from_zero(&b);
            assert!(solved == status::OK && bits(&again) == bits(&expected));
        }
    }
}

device::device_tests! { devices(); a_reset_device_is_opened_again }
