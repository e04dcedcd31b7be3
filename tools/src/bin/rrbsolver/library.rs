//! The library's C interface, safely: handles of the three families that solve A x = b.

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

/// Called with iteration and tested relative residual.
pub type Watch<'a> = dyn FnMut(i64, f64) + 'a;

/// A status, or the sentence of the call that failed. It counts rows from 1, as the files do.
fn checked(status: i32) -> Result<i32> {
    if status >= 0 {
        return Ok(status);
    }
    // SAFETY: a length of 0 writes nothing.
    let needed = unsafe { ffi::rrbsolver_last_error_based(1, null_mut(), 0) };
    let mut sentence = vec![0u8; usize::try_from(needed).unwrap_or(0)];
    // SAFETY: the buffer has the length passed.
    unsafe { ffi::rrbsolver_last_error_based(1, sentence.as_mut_ptr().cast(), needed) };
    sentence.pop();
    Err(anyhow!(String::from_utf8_lossy(&sentence).into_owned()))
}

/// An error about a file, whose name is added if the message lacks it, as messages about memory do.
pub fn about(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let name = path.display().to_string();
    if format!("{error:#}").contains(&name) { error } else { error.context(name) }
}

unsafe extern "C-unwind" fn logged(_: *mut c_void, level: i32, line: *const c_char) {
    static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if level == 0 {
        // SAFETY: a text that ends with NUL.
        let line = unsafe { CStr::from_ptr(line) }.to_string_lossy().into_owned();
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.contains(&line) {
            eprintln!("rrbsolver: {line}");
            shown.insert(line);
        }
    }
}

/// Warnings of the library go to the standard error, each once.
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
    // SAFETY: an int that outlives the call.
    let status = unsafe { ffi::rrbsolver_cuda_device_count(&mut count) };
    if status == 0 { count } else { 0 }
}

/// The version that `rrbsolver_version` returns.
pub fn version() -> String {
    // SAFETY: a text that lives as long as the program.
    unsafe { CStr::from_ptr(ffi::rrbsolver_version()) }.to_string_lossy().into_owned()
}

unsafe extern "C-unwind" fn told(user: *mut c_void, iteration: i64, residual: f64) -> i32 {
    // SAFETY: `user` is what `watched` passes, and it lives until the monitor is removed.
    let watch = unsafe { &mut *user.cast::<&mut Watch<'_>>() };
    watch(iteration, residual);
    0
}

/// What handles of all families can do.
pub trait System {
    /// Whose options and results it has.
    fn family(&self) -> Family;
    /// Sets options from text.
    fn set_options(&mut self, text: &str) -> Result<()>;
    /// A result or option, where the family has it.
    fn real(&self, key: i32) -> Option<f64>;
    /// The same as a whole number.
    fn int(&self, key: i32) -> Option<i64>;
    /// Tested relative residuals of the last solve, from iteration 0.
    fn history(&self) -> Result<Vec<f64>>;
    /// Rows of the matrix.
    fn rows(&self) -> usize;
    /// Makes what solves need.
    fn factorize(&mut self) -> Result<()>;
    /// x is the guess and becomes the solution. Whether it converged.
    fn solve(&mut self, b: &[f64], x: &mut [f64], watch: &mut Watch<'_>) -> Result<bool>;
    /// y = A x.
    fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> Result<()>;
}

/// A result by its name in text, as the table has it: as a number, and as a word where it is a choice.
pub fn named(system: &dyn System, name: &str) -> Option<(f64, Option<&'static str>)> {
    let entry = entry(system, name)?;
    let value = system.real(entry.key)?;
    let word = entry.choices.iter().find(|(_, number)| *number as f64 == value).map(|(word, _)| *word);
    Some((value, word))
}

/// The same for a record: a word, a whole number or another one.
pub fn recorded(system: &dyn System, name: &str) -> Option<Value> {
    let real = entry(system, name)?.real;
    let (value, word) = named(system, name)?;
    Some(word.map_or_else(|| if real { json!(value) } else { json!(value as i64) }, |word| json!(word)))
}

fn entry(system: &dyn System, name: &str) -> Option<&'static ResultEntry> {
    RESULTS.iter().find(|r| r.name == name && r.families.contains(&system.family()))
}

/// The word of a result that is a choice; none where the family has no such result.
pub fn word(system: &dyn System, name: &str) -> Option<&'static str> {
    named(system, name)?.1
}

/// Why a solve ended, in the library's words.
pub fn stop_reason(system: &dyn System) -> &'static str {
    word(system, "stop_reason").unwrap_or("none")
}

/// Iterations of the last solve.
pub fn iterations(system: &dyn System) -> i64 {
    system.int(info::ITERATIONS).unwrap_or(0)
}

/// ||b - A x||_2 / ||b||_2, or ||A x||_2 where b = 0; both computed here.
pub fn relative_residual(system: &mut dyn System, b: &[f64], x: &[f64]) -> Result<f64> {
    let mut y = filled(0.0, b.len())?;
    system.multiply(x, &mut y)?;
    y.iter_mut().zip(b).for_each(|(y, b)| *y = b - *y);
    // Scaled, so that squares neither overflow nor vanish.
    let norm = |v: &[f64]| {
        let largest = v.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let scaled = |v: &f64| (v / largest) * (v / largest);
        if largest > 0.0 { largest * v.iter().map(scaled).sum::<f64>().sqrt() } else { 0.0 }
    };
    let (of_residual, of_b) = (norm(&y), norm(b));
    Ok(if of_b > 0.0 { of_residual / of_b } else { of_residual })
}

/// What the families' entry points have in common.
macro_rules! common {
    ($family:ident $handle:ident: $set_options:ident $get_real:ident $get_int:ident $get_history:ident) => {
        fn family(&self) -> Family {
            Family::$family
        }

        fn set_options(&mut self, text: &str) -> Result<()> {
            let text = CString::new(text).map_err(|_| anyhow!("options have no NUL"))?;
            // SAFETY: a live handle, and a text that ends with NUL.
            checked(unsafe { ffi::$set_options(self.handle, text.as_ptr()) }).map(|_| ())
        }

        fn real(&self, key: i32) -> Option<f64> {
            let mut value = 0.0;
            // SAFETY: a live handle, and a double.
            (unsafe { ffi::$get_real(self.handle, key, &mut value) } == 0).then_some(value)
        }

        fn int(&self, key: i32) -> Option<i64> {
            let mut value = 0;
            // SAFETY: a live handle, and an int64_t.
            (unsafe { ffi::$get_int(self.handle, key, &mut value) } == 0).then_some(value)
        }

        fn history(&self) -> Result<Vec<f64>> {
            let mut count = 0;
            // SAFETY: a live handle; a capacity of 0 writes nothing.
            checked(unsafe { ffi::$get_history(self.handle, null_mut(), 0, &mut count) })?;
            let mut residuals = vec![0.0; usize::try_from(count).unwrap_or(0)];
            // SAFETY: a live handle, and room for as many values as are passed.
            checked(unsafe { ffi::$get_history(self.handle, residuals.as_mut_ptr(), count, &mut count) })?;
            residuals.truncate(usize::try_from(count).unwrap_or(0));
            Ok(residuals)
        }
    };
}

/// A solve with a monitor that is removed again.
#[rustfmt::skip]
macro_rules! watched {
    ($self:ident, $watch:ident, $set_monitor:ident, $solve:expr) => {{
        let mut watch: &mut Watch<'_> = $watch;
        // SAFETY: a live handle; `watch` outlives the monitor, which is removed below.
        checked(unsafe { ffi::$set_monitor($self.handle, Some(told), (&raw mut watch).cast()) })?;
        // SAFETY: a live handle, and arrays of its rows, as was checked.
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

/// Rows by rows: entries k = ptr[i] .. ptr[i + 1] of row i.
pub struct Rows {
    pub ptr: Vec<i64>,
    pub cols: Vec<i64>,
    pub values: Vec<f64>,
}

/// Numbers of `sparse_get_vector` and `sparse_arrays`.
const RHS: i32 = Vector::Rhs as i32;
const CSR: i32 = Format::Csr as i32;

impl Matrix {
    /// From a file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| anyhow!("a path has no NUL"))?;
        let mut matrix = Self { handle: null_mut() };
        // SAFETY: a path that ends with NUL, and a pointer.
        let status = checked(unsafe { ffi::sparse_read(name.as_ptr(), &mut matrix.handle) });
        status.map_err(|error| about(path, error)).map(|_| matrix)
    }

    /// From the arrays of a square matrix by rows.
    pub fn from_rows(rows: &Rows) -> Result<Self> {
        let mut matrix = Self { handle: null_mut() };
        let n = rows.ptr.len() as i64 - 1;
        assert_eq!(rows.cols.len(), rows.values.len());
        // SAFETY: n + 1 pointers, and as many columns and values as are passed, of 8 bytes each.
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

    /// To a file; `kind` is a number of `FileFormat`.
    pub fn write(&self, path: &Path, kind: i32) -> Result<()> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| anyhow!("a path has no NUL"))?;
        // SAFETY: a live handle, and a path that ends with NUL.
        let status = checked(unsafe { ffi::sparse_write(self.handle, name.as_ptr(), kind) });
        status.map_err(|error| about(path, error)).map(|_| ())
    }

    /// A result that is a count.
    pub fn count(&self, key: i32) -> usize {
        self.int(key).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    pub fn cols(&self) -> usize {
        self.count(info::COLS)
    }

    /// The right-hand side k that came with the file.
    pub fn rhs(&self, k: i64) -> Result<Vec<f64>> {
        let mut vector = filled(0.0, self.rows())?;
        // SAFETY: a live handle, and room for its rows.
        checked(unsafe { ffi::sparse_get_vector(self.handle, RHS, k, vector.as_mut_ptr()) })?;
        Ok(vector)
    }

    /// The arrays by rows.
    pub fn csr(&self) -> Result<Rows> {
        let mut sizes = [0i64; 4];
        // SAFETY: a live handle, and room for four values.
        checked(unsafe { ffi::sparse_sizes(self.handle, CSR, sizes.as_mut_ptr()) })?;
        let [ptr, cols, _, values] = sizes.map(|size| usize::try_from(size).unwrap_or(0));
        let mut rows = Rows { ptr: filled(0, ptr)?, cols: filled(0, cols)?, values: filled(0.0, values)? };
        // SAFETY: a live handle, and arrays of the lengths just told; the third has none.
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

/// A stencil in 2D or 3D.
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
                // SAFETY: a pointer.
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
                // SAFETY: a live handle, and arrays of its size: `Stencil` has all of the same length.
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
    /// A 2D stencil of 5 points.
    Plane Rrb rrb_handle rrb_destroy rrb_set_options rrb_get_real rrb_get_int rrb_get_history rrb_set_monitor
    rrb_solve rrb_multiply,
    // SAFETY: `out` is a pointer, as the caller promised.
    |a, out| unsafe { ffi::rrb_create(a.n[0] as i64, a.n[1] as i64, out) },
    // SAFETY: as the caller promised.
    |a, h| unsafe {
        ffi::rrb_factorize(h, a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), null(), null())
    }
}

stencil_solver! {
    /// A 3D stencil of 7 points.
    Space Dpcg dpcg_handle dpcg_destroy dpcg_set_options dpcg_get_real dpcg_get_int dpcg_get_history
    dpcg_set_monitor dpcg_solve dpcg_multiply,
    // SAFETY: `out` is a pointer, as the caller promised.
    |a, out| unsafe { ffi::dpcg_create(a.n[0] as i64, a.n[1] as i64, a.n[2] as i64, out) },
    // SAFETY: as the caller promised.
    |a, h| unsafe {
        ffi::dpcg_factorize(h, a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), a.top.as_ptr())
    }
}
