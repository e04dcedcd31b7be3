//! Safe wrappers of the C interface, with the calls of a C or Fortran program.

use crate::device::DeviceArray;
use anyhow::{Result, anyhow};
use rrbsolver::abi::{
    rrb_create, rrb_destroy, rrb_factorize, rrb_get_int, rrb_get_real, rrb_handle, rrb_set_options, rrb_solve,
    rrbsolver_last_error,
};
use rrbsolver_problems::Stencil;
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// A handle of the family `rrb_`.
pub struct Solver {
    handle: *mut rrb_handle,
    len: usize,
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the handle came from rrb_create and is destroyed once.
        unsafe { rrb_destroy(&mut self.handle) };
    }
}

/// Returns a status, or the error message of a failed call.
pub(crate) fn checked(status: i32) -> Result<i32> {
    if status >= 0 {
        return Ok(status);
    }
    let mut message = vec![0u8; 1024];
    // SAFETY: the buffer has the length passed.
    unsafe { rrbsolver_last_error(message.as_mut_ptr().cast(), message.len() as i64) };
    let end = message.iter().position(|&c| c == 0).unwrap_or(0);
    Err(anyhow!(String::from_utf8_lossy(&message[..end]).into_owned()))
}

impl Solver {
    /// Creates a handle with options.
    pub fn new(nx: usize, ny: usize, options: &str) -> Result<Self> {
        let text = CString::new(options).map_err(|_| anyhow!("options have no NUL"))?;
        let mut solver = Self { handle: null_mut(), len: nx * ny };
        // SAFETY: `handle` is a valid pointer; the text is NUL-terminated.
        unsafe {
            checked(rrb_create(nx as i64, ny as i64, &mut solver.handle))?;
            checked(rrb_set_options(solver.handle, text.as_ptr()))?;
        }
        Ok(solver)
    }

    /// Computes A = L D L^T + R.
    pub fn factorize(&mut self, a: &Stencil) -> Result<()> {
        assert_eq!(a.len(), self.len);
        let (northeast, northwest) = a.corners.as_ref().map_or((null(), null()), |(ne, nw)| (ne.as_ptr(), nw.as_ptr()));
        // SAFETY: a live handle, and arrays of its size.
        checked(unsafe {
            rrb_factorize(self.handle, a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), northeast, northwest)
        })?;
        Ok(())
    }

    /// Factorizes with arrays on the device, in the order of the arguments.
    pub fn factorize_resident(&mut self, a: &mut [DeviceArray]) -> Result<()> {
        assert!(a.iter().all(|array| array.values() == self.len) && (a.len() == 3 || a.len() == 5));
        let mut pointers = [null(); 5];
        pointers.iter_mut().zip(a).for_each(|(pointer, array)| *pointer = array.pointer().cast_const());
        let [center, east, north, northeast, northwest] = pointers;
        // SAFETY: a live handle, and arrays of its size on a device.
        checked(unsafe { rrb_factorize(self.handle, center, east, north, northeast, northwest) })?;
        Ok(())
    }

    /// Solves A x = b; x is the initial guess and becomes the solution. Returns whether the solve converged.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64]) -> Result<bool> {
        assert!(b.len() == self.len && x.len() == self.len);
        // SAFETY: a live handle, and arrays of its size.
        Ok(checked(unsafe { rrb_solve(self.handle, b.as_ptr(), x.as_mut_ptr()) })? == 0)
    }

    /// Solves with arrays on the device.
    pub fn solve_resident(&mut self, b: &mut DeviceArray, x: &mut DeviceArray) -> Result<bool> {
        assert!(b.values() == self.len && x.values() == self.len);
        // SAFETY: a live handle, and arrays of its size on a device.
        Ok(checked(unsafe { rrb_solve(self.handle, b.pointer(), x.pointer()) })? == 0)
    }

    /// Returns an integer option or result; 0 if the library does not know the key.
    pub fn int(&self, key: i32) -> i64 {
        let mut value = 0;
        // SAFETY: a live handle and a valid int64_t.
        unsafe { rrb_get_int(self.handle, key, &mut value) };
        value
    }

    /// Returns a real option or result; 0 if the library does not know the key.
    pub fn real(&self, key: i32) -> f64 {
        let mut value = 0.0;
        // SAFETY: a live handle and a valid double.
        unsafe { rrb_get_real(self.handle, key, &mut value) };
        value
    }
}
