//! Unavailable devices, contexts, addresses and memory: status and error message, and a handle that works afterwards.
//! This program runs alone, because it allocates all memory of a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::problems::{Stencil, poisson, random_rhs};
use common::{
    Failure, Solver, bits, devices, dpcg, max_abs, max_difference, outcome, rrb_set_stream, rrb_solve, status,
};
use cudarc::driver::sys::*;
use rrbsolver_problems::two_phase::TwoPhase;
use std::ptr::null_mut;

fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// Calls `f` with the primary context of a device current.
fn on_device<T>(ordinal: i32, f: impl FnOnce() -> T) -> T {
    let mut context = null_mut();
    // SAFETY: the library has initialized the driver; the pointer outlives the calls.
    unsafe {
        ok(cuDevicePrimaryCtxRetain(&mut context, ordinal));
        ok(cuCtxPushCurrent_v2(context));
    }
    let value = f();
    // SAFETY: pushed and retained above.
    unsafe {
        ok(cuCtxPopCurrent_v2(&mut context));
        ok(cuDevicePrimaryCtxRelease_v2(ordinal));
    }
    value
}

/// Returns the free memory of the device in bytes; none if it is unlimited.
fn free_memory() -> Option<usize> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the context is current; pointers outlive the call.
    on_device(0, || ok(unsafe { cuMemGetInfo_v2(&mut free, &mut total) }));
    if total >= 1 << 50 {
        eprintln!("skipped: an emulated device without limits (EMULATED_MEMORY)");
        return None;
    }
    Some(free)
}

fn array(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    // SAFETY: a context is current; the pointer outlives the call.
    ok(unsafe { cuMemAlloc_v2(&mut address, bytes) });
    address
}

fn assert_works(solver: &Solver, a: &Stencil, expected: &[f64]) {
    solver.factorize(a).unwrap();
    let (x, solved) = solver.solve_from_zero(&random_rhs(a.len(), 2));
    assert!(solved == status::OK && bits(&x) == bits(expected));
}

fn what_is_not_there() {
    let (a, b) = (poisson(30, 21), random_rhs(630, 2));
    let solver = Solver::of(&a, "backend=cuda");
    let (expected, solved) = solver.solve_from_zero(&b);
    assert_eq!(solved, status::OK);

    // The stream belongs to another context.
    let (mut foreign, mut stream) = (null_mut(), null_mut());
    // SAFETY: the library has initialized the driver; pointers outlive the calls.
    unsafe {
        ok(cuCtxCreate_v4(&mut foreign, null_mut(), 0, 0));
        ok(cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32));
        ok(cuCtxPopCurrent_v2(&mut foreign));
    }
    let set = |stream: CUstream| -> Result<i32, Failure> {
        // SAFETY: a live handle and stream.
        outcome(unsafe { rrb_set_stream(solver.handle, stream.cast()) })?;
        solver.factorize(&a)
    };
    set(stream).unwrap_err().expect(status::DEVICE, &["set_stream", "primary context of device 0"]);
    set(null_mut()).unwrap();
    // SAFETY: created above.
    unsafe {
        ok(cuStreamDestroy_v2(stream));
        ok(cuCtxDestroy_v2(foreign));
    }
    assert_works(&solver, &a, &expected);

    // The array is on another device.
    if devices() > 1 {
        let there = on_device(1, || array(8 * b.len()));
        let mut x = vec![0.0; b.len()];
        // SAFETY: a live handle, an array of its shape, and one that the call must not use.
        let solved = outcome(unsafe { rrb_solve(solver.handle, there as *const f64, x.as_mut_ptr()) });
        solved.unwrap_err().expect(status::ARGUMENT, &["b", "on device 1", "device 0"]);
        // SAFETY: allocated above.
        on_device(1, || ok(unsafe { cuMemFree_v2(there) }));
        assert_works(&solver, &a, &expected);
    } else {
        eprintln!("skipped: arrays of a second device");
    }
    // The array is on the host, but memory=device is set.
    solver.options("memory=device").unwrap();
    solver
        .solve(&b, &mut vec![0.0; b.len()])
        .unwrap_err()
        .expect(status::ARGUMENT, &["b", "on the host", "memory=device"]);
    solver.options("memory=auto").unwrap();
    assert_works(&solver, &a, &expected);

    // The memory of the device is exhausted, for a new handle and for a handle that already has memory.
    let Some(free) = free_memory() else { return };
    let large = poisson(401, 400);
    // SAFETY: as above.
    let rest = on_device(0, || {
        let mut rest = Vec::new();
        let mut piece = free;
        // The remaining memory holds a stream and kernels, but not the large handle.
        while piece >= 8 << 20 {
            let mut address = 0;
            // SAFETY: a context is current; the pointer outlives the call.
            match unsafe { cuMemAlloc_v2(&mut address, piece) } {
                CUresult::CUDA_SUCCESS => rest.push(address),
                _ => piece /= 2,
            }
        }
        rest
    });
    let other = Solver::new(401, 400, "backend=cuda");
    for _ in 0..2 {
        other.factorize(&large).unwrap_err().expect(status::MEMORY, &["device memory for"]);
    }
    // SAFETY: allocated above.
    on_device(0, || rest.iter().for_each(|address| ok(unsafe { cuMemFree_v2(*address) })));
    other.factorize(&large).unwrap();
    assert_eq!(other.solve_from_zero(&random_rhs(large.len(), 2)).1, status::OK);
    assert_works(&solver, &a, &expected);
}

/// E with more vectors than the CPU inverts, for which the device has too little memory: the host stores its factor.
fn memory_for_e() {
    let a = TwoPhase::new("9", [24, 24, 24], 1e-3);
    let options = |backend: &str, boxes: usize| {
        let boxes = format!("subdomains_x={boxes} subdomains_y={boxes} subdomains_z={boxes}");
        format!("backend={backend} preconditioner=jacobi deflation=subdomain {boxes}")
    };
    let solver = dpcg::Solver::of(&a, &options("cuda", 2));
    let r = a.rhs("rand");
    solver.apply(&r);
    let Some(free) = free_memory() else { return };
    solver.options(&options("cuda", 13)).unwrap();
    // The sums for E need 116 MB.
    const LEFT: usize = 100 << 20;
    let rest = on_device(0, || {
        let left = array(LEFT);
        let mut rest = Vec::new();
        let mut piece = free;
        while piece >= 1 << 20 {
            let mut address = 0;
            // SAFETY: a context is current; the pointer outlives the call.
            match unsafe { cuMemAlloc_v2(&mut address, piece) } {
                CUresult::CUDA_SUCCESS => rest.push(address),
                _ => piece /= 2,
            }
        }
        // SAFETY: allocated above.
        ok(unsafe { cuMemFree_v2(left) });
        rest
    });
    solver.factorize(&a).unwrap();
    let (vectors, method) = (solver.int(dpcg::key::INFO_DEFLATION_VECTORS), solver.int(dpcg::key::INFO_COARSE_SOLVER));
    assert_eq!((vectors, method), (13 * 13 * 13 - 1, 2), "vectors, and how E is solved (2: cholesky)");
    let (z, expected) = (solver.apply(&r), dpcg::Solver::of(&a, &options("cpu", 13)).apply(&r));
    // SAFETY: allocated above.
    on_device(0, || rest.iter().for_each(|address| ok(unsafe { cuMemFree_v2(*address) })));
    let off = max_difference(&z, &expected) / max_abs(&expected);
    // Rounding times the condition number of E.
    assert!(off <= 1e-9, "{off:e} off");
}

/// The tests run sequentially, because each allocates all memory of a device.
fn one_after_the_other() {
    what_is_not_there();
    memory_for_e();
}

device::device_tests! { devices(); one_after_the_other }
