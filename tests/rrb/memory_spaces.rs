//! Arrays on the host and on a device in one call, with padded rows. Without a device, the tests are reported as
//! ignored; tests/emulator emulates a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::problems::{Stencil, random_field, random_m_matrix, random_rhs};
use common::*;
use cudarc::driver::sys::{
    CUresult, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRetain, cuMemAlloc_v2, cuMemFree_v2,
    cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuStreamSynchronize,
};
use std::ptr::{null, null_mut};

fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// An array of the test on the host, optionally with a copy on the device.
struct Array {
    values: Vec<f64>,
    device: Option<u64>,
}

impl Array {
    fn new(values: Vec<f64>, on_device: bool) -> Self {
        let mut address = 0;
        if on_device {
            let bytes = 8 * values.len();
            // SAFETY: a context is current; the array has that many bytes, and the copy is waited for.
            unsafe {
                ok(cuMemAlloc_v2(&mut address, bytes));
                ok(cuMemcpyHtoDAsync_v2(address, values.as_ptr().cast(), bytes, null_mut()));
                ok(cuStreamSynchronize(null_mut()));
            }
        }
        Self { values, device: on_device.then_some(address) }
    }

    fn pointer(&mut self) -> *mut f64 {
        self.device.map_or(self.values.as_mut_ptr(), |address| address as *mut f64)
    }

    fn read(&mut self) -> &[f64] {
        if let Some(address) = self.device {
            // SAFETY: the array on the device has this length; the copy is waited for.
            unsafe {
                ok(cuMemcpyDtoHAsync_v2(self.values.as_mut_ptr().cast(), address, 8 * self.values.len(), null_mut()));
                ok(cuStreamSynchronize(null_mut()));
            }
        }
        &self.values
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(address) = self.device {
            // SAFETY: allocated in `new`.
            ok(unsafe { cuMemFree_v2(address) });
        }
    }
}

/// Runs `f` with the context of device 0 current.
fn on_a_device(f: impl FnOnce()) {
    let mut context = null_mut();
    // SAFETY: the count above initialized the driver; the pointer outlives the call.
    unsafe {
        ok(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok(cuCtxPushCurrent_v2(context));
    }
    f();
    // SAFETY: pushed above.
    ok(unsafe { cuCtxPopCurrent_v2(&mut context) });
}

fn arrays_here_and_there() {
    on_a_device(|| {
        for nine_point in [false, true] {
            every_place(&random_m_matrix(21, 18, nine_point, 4));
        }
    });
}

/// At the iteration limit after a restart, x on the device is the iterate that was stored before the restart, if that
/// one is better.
fn the_kept_iterate_stays() {
    on_a_device(|| {
        // From such a poor guess, CG restarts because of rounding, and its first step often increases the 2-norm.
        let a = random_field(49, 1e3);
        let mut kept = 0;
        for seed in 0..3 {
            let (b, guess) = (random_rhs(a.len(), seed), random_rhs(a.len(), seed + 8));
            let guess: Vec<f64> = guess.iter().map(|v| 1e14 * v).collect();
            let (precision, cycle) = [("f64", "v"), ("bf16", "amli")][seed as usize % 2];
            let options = format!("backend=cuda precision={precision} cycle={cycle}");
            let solver = Solver::of(&a, &options);
            let cut = |max_iter: usize| {
                solver.options(&format!("max_iter={max_iter}")).unwrap();
                let (mut b, mut x) = (Array::new(b.clone(), true), Array::new(guess.clone(), true));
                let (bp, xp) = (b.pointer(), x.pointer());
                // SAFETY: a live handle, and arrays of all rows.
                let status = outcome(unsafe { rrb_solve(solver.handle, bp, xp) }).unwrap();
                let (reported, history) = (solver.real(key::INFO_FINAL_RESIDUAL), solver.history());
                let (exact, rounding) = exact_norm(&solver, &a, &b.values, x.read(), false);
                assert!(
                    (reported - exact).abs() <= rounding,
                    "{options} {max_iter}: reported {reported:e}, is {exact:e}"
                );
                (status, reported, history)
            };
            let (status, _, history) = cut(2000);
            assert_eq!(status, status::OK, "{options}");
            let met = history.iter().position(|&residual| residual <= 1e-6).expect("met at the end");
            let missed = cut(met).1;
            kept += (met + 1..history.len().min(met + 4)).filter(|&at| cut(at).1 == missed).count();
        }
        assert!(kept > 0, "no iterate was worse than one before");
    });
}

/// Checks each array of the matrix, b and x in both memory spaces: results are bitwise identical, and padding is
/// neither read nor written.
fn every_place(a: &Stencil) {
    let (nx, ld) = (a.nx, a.nx + 5);
    let wide = |v: &[f64], filler: f64| padded(v, nx, ld, filler);
    let (b, guess) = (random_rhs(a.len(), 1), random_rhs(a.len(), 2));
    let options = format!("backend=cuda precision=f64 cycle=v levels=4 leading_dimension={ld}");
    let mut expected: Option<[Vec<f64>; 2]> = None;
    for place in 0..8 {
        let on_device = |k: u32| place >> k & 1 == 1;
        let what = format!("{} points, places {place:03b}", if a.corners.is_some() { 9 } else { 5 });
        let solver = Solver::new(nx, a.ny, &options);
        let mut center = Array::new(wide(&a.center, f64::NAN), on_device(0));
        let mut east = Array::new(wide(&a.east, f64::NAN), on_device(1));
        let mut north = Array::new(wide(&a.north, f64::NAN), on_device(2));
        let mut corners = a.corners.as_ref().map(|(northeast, northwest)| {
            [(northeast, on_device(1)), (northwest, on_device(0))]
                .map(|(v, there)| Array::new(wide(v, f64::NAN), there))
        });
        let [northeast, northwest] =
            corners.as_mut().map_or([null(); 2], |arrays| arrays.each_mut().map(|array| array.pointer().cast_const()));
        let (c, e, n) = (center.pointer(), east.pointer(), north.pointer());
        // SAFETY: a live handle, and arrays of all rows.
        outcome(unsafe { rrb_factorize(solver.handle, c, e, n, northeast, northwest) }).expect(&what);
        for both in 0..4 {
            let what = format!("{what}, b and x {both:02b}");
            let mut b = Array::new(wide(&b, f64::NAN), both & 1 == 1);
            let mut x = Array::new(wide(&guess, -1.0), both & 2 == 2);
            let mut y = Array::new(wide(&guess, -1.0), both & 2 == 2);
            let (bp, xp, yp) = (b.pointer(), x.pointer(), y.pointer());
            // SAFETY: as above.
            unsafe {
                assert_eq!(outcome(rrb_solve(solver.handle, bp, xp)), Ok(status::OK), "{what}");
                assert_eq!(outcome(rrb_multiply(solver.handle, bp, yp)), Ok(status::OK), "{what}");
            }
            let found = [&mut x, &mut y].map(|array| {
                let values = array.read();
                assert!((0..values.len()).filter(|k| k % ld >= nx).all(|k| values[k] == -1.0), "{what}: between rows");
                unpadded(values, nx, ld)
            });
            let residual =
                norm2(&a.residual(&unpadded(&b.values, nx, ld), &found[0])) / norm2(&unpadded(&b.values, nx, ld));
            // The bound is the tolerance, increased by the effect of another summation order.
            assert!(residual <= 1.001e-6, "{what}: {residual:e}");
            assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{what}: other bits");
        }
    }
}

device::device_tests! { devices(); arrays_here_and_there the_kept_iterate_stays }
