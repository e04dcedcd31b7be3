//! Choices of `auto` on a device, and errors for features that devices lack.

use crate::common::dpcg::Solver;
use crate::common::dpcg::{blocks, choices, systems_for_auto};
use crate::common::{outcome, status};
use crate::device::{Rows, emulated};
use crate::{DeviceArray, compare_products};
use rrbsolver::abi::dpcg_set_regions;
use rrbsolver::options::info;
use rrbsolver_problems::two_phase::TwoPhase;

/// Features of the host alone are reported as such.
pub fn not_on_a_device() {
    let a = TwoPhase::new("9", [8; 3], 1e-3);
    for (options, words) in [
        ("preconditioner=ic0", ["neumann", "multigrid"]),
        ("preconditioner=ric", ["neumann", "multigrid"]),
        ("coarse_solver=cg", ["inverse", "cholesky"]),
    ] {
        let failure = Solver::new(a.size, &format!("backend=cuda {options}")).factorize(&a).unwrap_err();
        failure.expect(status::UNSUPPORTED, &words);
    }
    let labels = DeviceArray::new(&[0.0; 512]);
    for memory in ["auto", "host", "device"] {
        let solver = Solver::new(a.size, &format!("backend=cuda memory={memory}"));
        // SAFETY: a live handle; the array has one label per cell.
        let failure = outcome(unsafe { dpcg_set_regions(solver.handle, labels.0 as *const i32) }).unwrap_err();
        failure.expect(status::ARGUMENT, &["labels", "an array on device 0", "be on the host"]);
    }
}

/// `auto` makes the same choices as on the host. Sweeps are compared through the result of a cycle.
pub fn auto_as_the_reference() {
    let mut rows = Rows::default();
    for (a, labelled, expected) in systems_for_auto() {
        let labels: Vec<i32> = a.air.iter().map(|&air| if air { 2 } else { -1 }).collect();
        for options in ["", "preconditioner=neumann"] {
            rows.row(&format!("{expected:?} {options}"), || {
                let [reference, cuda] = ["reference", "cuda"].map(|backend| {
                    let solver = Solver::new(a.size, &format!("backend={backend} {options}"));
                    if labelled {
                        // SAFETY: a live handle; one label per cell.
                        outcome(unsafe { dpcg_set_regions(solver.handle, labels.as_ptr()) }).unwrap();
                    }
                    solver.factorize(&a).unwrap();
                    solver
                });
                let reported = choices(|key| cuda.int(key));
                assert_eq!(reported, choices(|key| reference.int(key)));
                assert!(!options.is_empty() || reported[..3] == expected, "{reported:?}");
                // Coarse grids are in single precision.
                compare_products(&cuda, &reference, &a.rhs("rand"), 1e-3);
            });
        }
    }
    rows.end();
}

/// `auto` selects a device for large grids.
pub fn automatic_backend() {
    let backend = |size, options: &str| {
        Solver::of(&TwoPhase::new("1", size, 1e-2), options).int(crate::common::key::INFO_BACKEND)
    };
    assert_eq!([backend([27; 3], ""), backend([28; 3], "")], [1, 2]);
    assert_eq!([backend([28; 3], "backend=cpu"), backend([28; 3], "preconditioner=ic0")], [1, 1]);
}

/// Aggregation instead of multigrid, as on the CPU; the reference backend has no aggregation.
pub fn crowds_as_on_the_cpu() {
    let crowded = 6;
    for (name, a) in [("rods", blocks(38, [3, 6, 3], "")), ("flat", TwoPhase::new("r200;asp=4", [32; 3], 1e-6))] {
        let reported = ["cpu", "cuda"].map(|backend| {
            let solver = Solver::of(&a, &format!("backend={backend}"));
            choices(|key| solver.int(key))
        });
        assert_eq!(reported[0], reported[1], "{name}");
        assert_eq!((reported[0][0], reported[0][3]), (crowded, 7), "{name}");
        if name == "rods" && emulated() {
            continue; // a minute
        }
        let (mut x, b) = (vec![0.0; a.cells()], a.rhs("rand"));
        let solver = Solver::of(&a, "backend=cuda");
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{name}");
        assert!(solver.int(info::ITERATIONS) <= 30, "{name}: {} iterations", solver.int(info::ITERATIONS));
        assert!(a.relative_residual(&b, &x) <= 1.001e-6, "{name}");
    }
}
