//! Safe wrappers of the C interface: handles of the three families that solve A x = b.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use rrbsolver::options::{Family, Format, RESULTS, ResultEntry, Vector, info};
use serde_json::{Value, json};

use crate::ffi;
use crate::raw::Stencil;

/// Callback with iteration and tested relative residual.
pub type Watch<'a> = dyn FnMut(i64, f64) + 'a;

/// Returns a status, or the error message of the failed call. Rows are numbered from 1, as in files.
fn checked(status: i32) -> Result<i32> {
    if status >= 0 {
        return Ok(status);
    }
    // SAFETY: a length of 0 writes nothing.
    let needed = unsafe { ffi::rrbsolver_last_error_based(1, null_mut(), 0) };
    let mut message = vec![0u8; usize::try_from(needed).unwrap_or(0)];
    // SAFETY: the buffer has the length passed.
    unsafe { ffi::rrbsolver_last_error_based(1, message.as_mut_ptr().cast(), needed) };
    message.pop();
    Err(anyhow!(String::from_utf8_lossy(&message).into_owned()))
}

/// An error about a file, whose name is added if the message lacks it, as messages about memory do.
pub fn about(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let name = path.display().to_string();
    if format!("{error:#}").contains(&name) { error } else { error.context(name) }
}

unsafe extern "C-unwind" fn logged(_: *mut c_void, level: i32, line: *const c_char) {
    static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if level == 0 {
        // SAFETY: a NUL-terminated string.
        let line = unsafe { CStr::from_ptr(line) }.to_string_lossy().into_owned();
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.contains(&line) {
            eprintln!("rrbsolver: {line}");
            shown.insert(line);
        }
    }
}

/// Prints warnings of the library to the standard error, each once.
pub fn show_warnings() {
    // SAFETY: `logged` uses no user pointer.
    unsafe { ffi::rrbsolver_set_log(Some(logged), null_mut()) };
}

/// Returns `len` copies of a value, or an error if there is no memory for them.
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(len);
    reserved.with_context(|| format!("failed to allocate a vector of {len} values"))?;
    list.resize(len, value);
    Ok(list)
}

/// Number of CUDA devices that the library can use.
pub fn device_count() -> i32 {
    let mut count = 0;
    // SAFETY: an int32_t that outlives the call.
    let status = unsafe { ffi::rrbsolver_cuda_device_count(&mut count) };
    if status == 0 { count } else { 0 }
}

/// Returns the version that `rrbsolver_version` reports.
pub fn version() -> String {
    // SAFETY: a string that lives as long as the program.
    unsafe { CStr::from_ptr(ffi::rrbsolver_version()) }.to_string_lossy().into_owned()
}

unsafe extern "C-unwind" fn told(user: *mut c_void, iteration: i64, residual: f64) -> i32 {
    // SAFETY: `user` is the pointer that `watched` passes, and its target lives until the monitor is removed.
    let watch = unsafe { &mut *user.cast::<&mut Watch<'_>>() };
    watch(iteration, residual);
    0
}

/// Operations of the handles of all families.
pub trait System {
    /// Returns the family, which determines options and results.
    fn family(&self) -> Family;
    /// Sets options from text.
    fn set_options(&mut self, text: &str) -> Result<()>;
    /// Returns a result or option; none if the family lacks it.
    fn real(&self, key: i32) -> Option<f64>;
    /// Returns an integer result or option; none if the family lacks it.
    fn int(&self, key: i32) -> Option<i64>;
    /// Returns the tested relative residuals of the last solve, from iteration 0 on.
    fn history(&self) -> Result<Vec<f64>>;
    /// Returns the number of rows of the matrix.
    fn rows(&self) -> usize;
    /// Factorizes the matrix.
    fn factorize(&mut self) -> Result<()>;
    /// Solves A x = b; x is the initial guess and becomes the solution. Returns whether the solve converged.
    fn solve(&mut self, b: &[f64], x: &mut [f64], watch: &mut Watch<'_>) -> Result<bool>;
    /// Computes y = A x.
    fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> Result<()>;
}

/// Returns a result by its name in the table: as a number, and as a word if it is a choice.
pub fn named(system: &dyn System, name: &str) -> Option<(f64, Option<&'static str>)> {
    let entry = entry(system, name)?;
    let value = system.real(entry.key)?;
    let word = entry.choices.iter().find(|(_, number)| *number as f64 == value).map(|(word, _)| *word);
    Some((value, word))
}

/// Returns a result for a JSON record: a word, an integer or a real number.
pub fn recorded(system: &dyn System, name: &str) -> Option<Value> {
    let real = entry(system, name)?.is_real;
    let (value, word) = named(system, name)?;
    Some(word.map_or_else(|| if real { json!(value) } else { json!(value as i64) }, |word| json!(word)))
}

fn entry(system: &dyn System, name: &str) -> Option<&'static ResultEntry> {
    RESULTS.iter().find(|r| r.name == name && r.families.contains(&system.family()))
}

/// Returns the word of a result that is a choice; none if the family lacks the result.
pub fn word(system: &dyn System, name: &str) -> Option<&'static str> {
    named(system, name)?.1
}

/// Returns the library's name of the reason why a solve ended.
pub fn stop_reason(system: &dyn System) -> &'static str {
    word(system, "stop_reason").unwrap_or("none")
}

/// Returns the iterations of the last solve.
pub fn iterations(system: &dyn System) -> i64 {
    system.int(info::ITERATIONS).unwrap_or(0)
}

/// Computes ||b - A x||_2 / ||b||_2, or ||A x||_2 if b = 0.
pub fn relative_residual(system: &mut dyn System, b: &[f64], x: &[f64]) -> Result<f64> {
    let mut y = filled(0.0, b.len())?;
    system.multiply(x, &mut y)?;
    y.iter_mut().zip(b).for_each(|(y, b)| *y = b - *y);
    // Scaled, so that squares neither overflow nor underflow.
    let norm = |v: &[f64]| {
        let largest = v.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let scaled = |v: &f64| (v / largest) * (v / largest);
        if largest > 0.0 { largest * v.iter().map(scaled).sum::<f64>().sqrt() } else { 0.0 }
    };
    let (of_residual, of_b) = (norm(&y), norm(b));
    Ok(if of_b > 0.0 { of_residual / of_b } else { of_residual })
}

/// Defines the methods that the families have in common.
macro_rules! common {
    ($family:ident $handle:ident: $set_options:ident $get_real:ident $get_int:ident $get_history:ident) => {
        fn family(&self) -> Family {
            Family::$family
        }

        fn set_options(&mut self, text: &str) -> Result<()> {
            let text = CString::new(text).map_err(|_| anyhow!("options have no NUL"))?;
            // SAFETY: a live handle and a NUL-terminated string.
            checked(unsafe { ffi::$set_options(self.handle, text.as_ptr()) }).map(|_| ())
        }

        fn real(&self, key: i32) -> Option<f64> {
            let mut value = 0.0;
            // SAFETY: a live handle and a valid double.
            (unsafe { ffi::$get_real(self.handle, key, &mut value) } == 0).then_some(value)
        }

        fn int(&self, key: i32) -> Option<i64> {
            let mut value = 0;
            // SAFETY: a live handle and a valid int64_t.
            (unsafe { ffi::$get_int(self.handle, key, &mut value) } == 0).then_some(value)
        }

        fn history(&self) -> Result<Vec<f64>> {
            let mut count = 0;
            // SAFETY: a live handle; a capacity of 0 writes nothing.
            checked(unsafe { ffi::$get_history(self.handle, null_mut(), 0, &mut count) })?;
            let mut residuals = vec![0.0; usize::try_from(count).unwrap_or(0)];
            // SAFETY: a live handle; the buffer has the capacity passed.
            checked(unsafe { ffi::$get_history(self.handle, residuals.as_mut_ptr(), count, &mut count) })?;
            residuals.truncate(usize::try_from(count).unwrap_or(0));
            Ok(residuals)
        }
    };
}

/// Solves with a monitor, which is removed afterwards.
#[rustfmt::skip]
macro_rules! watched {
    ($self:ident, $watch:ident, $set_monitor:ident, $solve:expr) => {{
        let mut watch: &mut Watch<'_> = $watch;
        // SAFETY: a live handle; `watch` outlives the monitor, which is removed below.
        checked(unsafe { ffi::$set_monitor($self.handle, Some(told), (&raw mut watch).cast()) })?;
        // SAFETY: a live handle, and arrays of its rows, as checked.
        let status = checked(unsafe { $solve });
        // SAFETY: a live handle.
        checked(unsafe { ffi::$set_monitor($self.handle, None, null_mut()) })?;
        status.map(|status| status == 0)
    }};
}

/// A general matrix.
pub struct Matrix {
    handle: *mut ffi::sparse_handle,
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: a handle of this family, destroyed once.
        unsafe { ffi::sparse_destroy(&mut self.handle) };
    }
}

/// A matrix in CSR format: row i has the entries k = ptr[i] .. ptr[i + 1].
pub struct Rows {
    pub ptr: Vec<i64>,
    pub cols: Vec<i64>,
    pub values: Vec<f64>,
}

/// Numbers for `sparse_get_vector` and `sparse_arrays`.
const RHS: i32 = Vector::Rhs as i32;
const CSR: i32 = Format::Csr as i32;

impl Matrix {
    /// Reads a matrix from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| anyhow!("a path has no NUL"))?;
        let mut matrix = Self { handle: null_mut() };
        // SAFETY: a NUL-terminated path and a valid pointer.
        let status = checked(unsafe { ffi::sparse_read(name.as_ptr(), &mut matrix.handle) });
        status.map_err(|error| about(path, error)).map(|_| matrix)
    }

    /// Creates a square matrix from its CSR arrays.
    pub fn from_rows(rows: &Rows) -> Result<Self> {
        let mut matrix = Self { handle: null_mut() };
        let n = rows.ptr.len() as i64 - 1;
        assert_eq!(rows.cols.len(), rows.values.len());
        // SAFETY: n + 1 pointers, and columns and values of the length passed, with indices of 8 bytes.
        checked(unsafe {
            ffi::sparse_create_csr(
                n,
                n,
                rows.values.len() as i64,
                rows.ptr.as_ptr().cast(),
                rows.cols.as_ptr().cast(),
                rows.values.as_ptr(),
                8,
                0,
                &mut matrix.handle,
            )
        })?;
        Ok(matrix)
    }

    /// Writes the matrix to a file; `kind` is a number of `FileFormat`.
    pub fn write(&self, path: &Path, kind: i32) -> Result<()> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| anyhow!("a path has no NUL"))?;
        // SAFETY: a live handle and a NUL-terminated path.
        let status = checked(unsafe { ffi::sparse_write(self.handle, name.as_ptr(), kind) });
        status.map_err(|error| about(path, error)).map(|_| ())
    }

    /// Returns a result that is a count.
    pub fn count(&self, key: i32) -> usize {
        self.int(key).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    pub fn cols(&self) -> usize {
        self.count(info::COLS)
    }

    /// Returns the right-hand side k of the file.
    pub fn rhs(&self, k: i64) -> Result<Vec<f64>> {
        let mut vector = filled(0.0, self.rows())?;
        // SAFETY: a live handle; the vector has one value per row.
        checked(unsafe { ffi::sparse_get_vector(self.handle, RHS, k, vector.as_mut_ptr()) })?;
        Ok(vector)
    }

    /// Returns the CSR arrays.
    pub fn csr(&self) -> Result<Rows> {
        let mut sizes = [0i64; 4];
        // SAFETY: a live handle; the array has room for four values.
        checked(unsafe { ffi::sparse_sizes(self.handle, CSR, sizes.as_mut_ptr()) })?;
        let [ptr, cols, _, values] = sizes.map(|size| usize::try_from(size).unwrap_or(0));
        let mut rows = Rows { ptr: filled(0, ptr)?, cols: filled(0, cols)?, values: filled(0.0, values)? };
        // SAFETY: a live handle, and arrays of the lengths that it reported; the third array is empty.
        checked(unsafe {
            ffi::sparse_arrays(
                self.handle,
                CSR,
                rows.ptr.as_mut_ptr(),
                rows.cols.as_mut_ptr(),
                null_mut(),
                rows.values.as_mut_ptr(),
            )
        })?;
        Ok(rows)
    }
}

impl System for Matrix {
    common! { Sparse sparse_handle: sparse_set_options sparse_get_real sparse_get_int sparse_get_history }

    fn rows(&self) -> usize {
        self.count(info::ROWS)
    }

    fn factorize(&mut self) -> Result<()> {
        // SAFETY: a live handle.
        checked(unsafe { ffi::sparse_factorize(self.handle) }).map(|_| ())
    }

    fn solve(&mut self, b: &[f64], x: &mut [f64], watch: &mut Watch<'_>) -> Result<bool> {
        assert!(b.len() == self.rows() && x.len() == self.cols());
        watched!(self, watch, sparse_set_monitor, ffi::sparse_solve(self.handle, b.as_ptr(), x.as_mut_ptr()))
    }

    fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> Result<()> {
        assert!(x.len() == self.cols() && y.len() == self.rows());
        // SAFETY: a live handle, and arrays of its columns and rows.
        checked(unsafe { ffi::sparse_multiply(self.handle, x.as_ptr(), y.as_mut_ptr()) }).map(|_| ())
    }
}

/// Defines a handle of a 2D or 3D stencil.
macro_rules! stencil_solver {
    (
        $(#[$doc:meta])* $name:ident $family:ident $handle:ident $destroy:ident
        $set_options:ident $get_real:ident $get_int:ident $get_history:ident $set_monitor:ident
        $solve:ident $multiply:ident, $create:expr, $factorize:expr
    ) => {
        $(#[$doc])*
        pub struct $name {
            handle: *mut ffi::$handle,
            a: Stencil,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: a handle of this family, destroyed once.
                unsafe { ffi::$destroy(&mut self.handle) };
            }
        }

        impl $name {
            pub fn new(a: Stencil) -> Result<Self> {
                let mut solver = Self { handle: null_mut(), a };
                let create: unsafe fn(&Stencil, *mut *mut ffi::$handle) -> i32 = $create;
                // SAFETY: a valid pointer.
                checked(unsafe { create(&solver.a, &mut solver.handle) })?;
                Ok(solver)
            }
        }

        impl System for $name {
            common! { $family $handle: $set_options $get_real $get_int $get_history }

            fn rows(&self) -> usize {
                self.a.center.len()
            }

            fn factorize(&mut self) -> Result<()> {
                let factorize: unsafe fn(&Stencil, *mut ffi::$handle) -> i32 = $factorize;
                // SAFETY: a live handle, and arrays of its size: all arrays of `Stencil` have the same length.
                checked(unsafe { factorize(&self.a, self.handle) }).map(|_| ())
            }

            fn solve(&mut self, b: &[f64], x: &mut [f64], watch: &mut Watch<'_>) -> Result<bool> {
                assert!(b.len() == self.rows() && x.len() == self.rows());
                watched!(self, watch, $set_monitor, ffi::$solve(self.handle, b.as_ptr(), x.as_mut_ptr()))
            }

            fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> Result<()> {
                assert!(x.len() == self.rows() && y.len() == self.rows());
                // SAFETY: a live handle, and arrays of its size.
                checked(unsafe { ffi::$multiply(self.handle, x.as_ptr(), y.as_mut_ptr()) }).map(|_| ())
            }
        }
    };
}

stencil_solver! {
    /// A 5-point stencil in 2D.
    Plane Rrb rrb_handle rrb_destroy rrb_set_options rrb_get_real rrb_get_int rrb_get_history rrb_set_monitor
    rrb_solve rrb_multiply,
    // SAFETY: the caller guarantees that `out` is a valid pointer.
    |a, out| unsafe { ffi::rrb_create(a.n[0] as i64, a.n[1] as i64, out) },
    // SAFETY: guaranteed by the caller.
    |a, h| unsafe {
        ffi::rrb_factorize(h, a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), null(), null())
    }
}

stencil_solver! {
    /// A 7-point stencil in 3D.
    Space Dpcg dpcg_handle dpcg_destroy dpcg_set_options dpcg_get_real dpcg_get_int dpcg_get_history
    dpcg_set_monitor dpcg_solve dpcg_multiply,
    // SAFETY: the caller guarantees that `out` is a valid pointer.
    |a, out| unsafe { ffi::dpcg_create(a.n[0] as i64, a.n[1] as i64, a.n[2] as i64, out) },
    // SAFETY: guaranteed by the caller.
    |a, h| unsafe {
        ffi::dpcg_factorize(h, a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), a.top.as_ptr())
    }
}
