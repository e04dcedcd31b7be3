//! Builds of the library that are loaded next to each other, and their C interface. Numbers and signatures are those of
//! include/rrbsolver.h. They do not change between versions, so old and new builds are called in the same way.

use crate::matrix::Matrix;
use anyhow::{Context as _, Result, anyhow};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use rrbsolver_problems::poisson;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// A handle of any family.
pub type Handle = *mut c_void;
/// Type of the monitor, which is called after each iteration or sweep. A nonzero result stops the call.
pub type Monitor = unsafe extern "C" fn(*mut c_void, i64, f64) -> i32;

macro_rules! functions {
    ($(#[$doc:meta])* $set:ident { $($name:ident($($argument:ty),*) -> $result:ty;)* }) => {
        $(#[$doc])*
        pub struct $set { $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl $set {
            /// Loads the functions whose names begin with `prefix`.
            fn load(loaded: &Loaded, prefix: &str) -> Result<Self, libloading::Error> {
                // SAFETY: `Build::load` checked that this is rrbsolver, whose header has these signatures.
                Ok(unsafe {
                    Self { $($name: *loaded.get(format!("{prefix}{}\0", stringify!($name)).as_bytes())?,)* }
                })
            }
        }
    };
}

functions! {
    /// Functions that every family has.
    Handles {
        destroy(*mut Handle) -> i32;
        set_options(Handle, *const c_char) -> i32;
        set_monitor(Handle, Option<Monitor>, *mut c_void) -> i32;
        get_int(Handle, i32, *mut i64) -> i32;
        get_real(Handle, i32, *mut f64) -> i32;
        get_history(Handle, *mut f64, i64, *mut i64) -> i32;
    }
}

functions! {
    /// Functions of the families that solve systems.
    Systems {
        solve(Handle, *const f64, *mut f64) -> i32;
        apply(Handle, *const f64, *mut f64) -> i32;
        multiply(Handle, *const f64, *mut f64) -> i32;
    }
}

functions! {
    /// Functions that differ from family to family.
    Own {
        rrbsolver_last_error(*mut c_char, i64) -> i64;
        rrb_create(i64, i64, *mut Handle) -> i32;
        rrb_factorize(Handle, *const f64, *const f64, *const f64, *const f64, *const f64) -> i32;
        dpcg_create(i64, i64, i64, *mut Handle) -> i32;
        dpcg_factorize(Handle, *const f64, *const f64, *const f64, *const f64) -> i32;
        sparse_create_csr(
            i64, i64, i64, *const c_void, *const c_void, *const f64, i32, i32, *mut Handle) -> i32;
        sparse_factorize(Handle) -> i32;
        smoother_create(i32, *const f64, i64, i64, i64, *mut Handle) -> i32;
        smoother_set_patches(Handle, i64, *const [i64; 3], *const [i64; 3]) -> i32;
        smoother_apply(Handle, *const *mut f64, *const *const f64, i32) -> i32;
        smoother_residual(Handle, *const *mut f64, *const *const f64, *const *mut f64, *mut f64) -> i32;
    }
}

/// A family of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Rrb,
    Dpcg,
    Sparse,
    Smoother,
}

/// One build of the library.
pub struct Build {
    /// Functions that belong to a single family.
    pub own: Own,
    /// Indexed by `Family`.
    handles: [Handles; 4],
    /// Indexed by `Family`; `smoother_` solves no systems.
    systems: [Systems; 3],
    /// Options that are appended to those of every case.
    pub options: String,
}

impl Build {
    /// Loads a shared library and never unloads it, because its threads may outlive all handles.
    pub fn load(path: &str, options: &str) -> Result<Self> {
        let failed = |error: libloading::Error| anyhow!("cannot load {path}: {error}");
        // A name without a slash would be searched for in the system's library folders.
        let whole = Path::new(path).canonicalize().with_context(|| format!("cannot read {path}"))?;
        // SAFETY: the user names a build of this library, whose loading has no side effects. Its symbols are local
        // (RTLD_LOCAL), so that no build calls functions of another one.
        let loaded = unsafe { Loaded::open(Some(&whole), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        // SAFETY: the symbol is only looked up, not called.
        unsafe { loaded.get::<*const c_void>("rrbsolver_version\0") }.map_err(failed)?;
        let handles = |prefix| Handles::load(&loaded, prefix).map_err(failed);
        let systems = |prefix| Systems::load(&loaded, prefix).map_err(failed);
        let build = Self {
            own: Own::load(&loaded, "").map_err(failed)?,
            handles: [handles("rrb_")?, handles("dpcg_")?, handles("sparse_")?, handles("smoother_")?],
            systems: [systems("rrb_")?, systems("dpcg_")?, systems("sparse_")?],
            options: options.to_owned(),
        };
        std::mem::forget(loaded);
        Ok(build)
    }

    /// Returns whether both builds are the same library in memory.
    pub fn is(&self, other: &Build) -> bool {
        std::ptr::fn_addr_eq(self.own.rrb_create, other.own.rrb_create)
    }

    /// Returns the error message of the last failed call of this thread.
    pub fn last_error(&self) -> String {
        let mut text = vec![0u8; 4096];
        // SAFETY: the buffer has the length passed.
        unsafe { (self.own.rrbsolver_last_error)(text.as_mut_ptr().cast(), text.len() as i64) };
        let end = text.iter().position(|&c| c == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    /// Returns an error if a small system cannot be factorized: two builds that both refuse everything would be equal.
    pub fn check(&self, backend: &str) -> Result<()> {
        let a = Matrix::Plane(poisson(5, 5));
        let (mut solver, status) = Solver::new(self, &a, 5);
        let status = if status < 0 { status } else { solver.options(&format!("backend={backend}")) };
        let status = if status < 0 { status } else { solver.factorize(&a) };
        if status < 0 { Err(anyhow!(self.last_error())) } else { Ok(()) }
    }

    /// Returns the options of a case, followed by those of the build.
    fn text(&self, options: &str) -> CString {
        CString::new(format!("{options} {}", self.options)).expect("arguments and tables have no NUL")
    }
}

/// A handle with the functions that all families have.
pub struct Owned<'a> {
    pub build: &'a Build,
    family: Family,
    pub handle: Handle,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from a create function of the family, or is NULL, and is destroyed once.
        unsafe { (self.functions().destroy)(&mut self.handle) };
    }
}

impl<'a> Owned<'a> {
    /// Creates an empty wrapper without a handle.
    pub fn none(build: &'a Build, family: Family) -> Self {
        Self { build, family, handle: null_mut() }
    }

    fn functions(&self) -> &'a Handles {
        &self.build.handles[self.family as usize]
    }

    /// Sets options from text.
    pub fn options(&mut self, text: &str) -> i32 {
        let text = self.build.text(text);
        // SAFETY: a handle of this build, and a NUL-terminated string.
        unsafe { (self.functions().set_options)(self.handle, text.as_ptr()) }
    }

    /// Runs `call` with `watch` as monitor. Returns the result of `call`, and the residuals that the monitor received.
    pub fn watched<R>(&mut self, mut watch: Watch, call: impl FnOnce(&mut Self) -> R) -> (R, Vec<f64>) {
        let set = self.functions().set_monitor;
        // SAFETY: a handle of this build; `watch` outlives the call, after which the monitor is removed.
        unsafe { set(self.handle, Some(Watch::record_iteration), std::ptr::from_mut(&mut watch).cast()) };
        let result = call(self);
        // SAFETY: a handle of this build.
        unsafe { set(self.handle, None, null_mut()) };
        (result, watch.seen)
    }

    /// Returns an integer result, or the status of the failure.
    pub fn int(&self, key: i32) -> Result<i64, i32> {
        let mut value = 0;
        // SAFETY: a handle of this build, and a valid int64_t.
        let status = unsafe { (self.functions().get_int)(self.handle, key, &mut value) };
        if status == 0 { Ok(value) } else { Err(status) }
    }

    /// Returns a real result, or the status of the failure.
    pub fn real(&self, key: i32) -> Result<f64, i32> {
        let mut value = 0.0;
        // SAFETY: a handle of this build, and a valid double.
        let status = unsafe { (self.functions().get_real)(self.handle, key, &mut value) };
        if status == 0 { Ok(value) } else { Err(status) }
    }

    /// Returns the relative residuals of the last call; empty after an error.
    pub fn history(&self) -> Vec<f64> {
        let get = self.functions().get_history;
        let mut count = 0;
        // SAFETY: a handle of this build; no values are requested.
        if unsafe { get(self.handle, null_mut(), 0, &mut count) } < 0 || count < 0 {
            return Vec::new();
        }
        let mut values = vec![0.0; count as usize];
        // SAFETY: a handle of this build, and an array of the length passed.
        unsafe { get(self.handle, values.as_mut_ptr(), count, &mut count) };
        values
    }
}

/// Residuals that a monitor has received, and the iteration at which the monitor requests a stop.
#[derive(Default)]
pub struct Watch {
    /// Relative residuals.
    pub seen: Vec<f64>,
    /// The iteration at which to stop.
    pub stop_at: Option<i64>,
}

impl Watch {
    unsafe extern "C" fn record_iteration(user: *mut c_void, iteration: i64, residual: f64) -> i32 {
        // SAFETY: `Owned::watched` passes a `Watch` that outlives the calls.
        let watch = unsafe { &mut *user.cast::<Watch>() };
        watch.seen.push(residual);
        i32::from(watch.stop_at.is_some_and(|at| iteration >= at))
    }
}

/// A handle that solves systems with a matrix of one size.
pub struct Solver<'a> {
    pub h: Owned<'a>,
    len: usize,
}

impl<'a> Solver<'a> {
    /// Creates a handle for matrices of the size of `a`, with `stride` values between rows. Also returns the status.
    pub fn new(build: &'a Build, a: &Matrix, stride: usize) -> (Self, i32) {
        let mut h = Owned::none(build, a.family());
        let own = &build.own;
        let (len, status) = match a {
            // SAFETY: `handle` is a valid pointer.
            Matrix::Plane(a) => (stride * a.ny, unsafe { (own.rrb_create)(a.nx as i64, a.ny as i64, &mut h.handle) }),
            Matrix::Box(a) => {
                let [nx, ny, nz] = a.size.map(|n| n as i64);
                // SAFETY: as above.
                (a.cells(), unsafe { (own.dpcg_create)(nx, ny, nz, &mut h.handle) })
            }
            Matrix::Rows(a) => {
                let (n, entries) = (a.pointers.len() - 1, a.values.len() as i64);
                let (pointers, columns) = (a.pointers.as_ptr().cast(), a.columns.as_ptr().cast());
                // SAFETY: as above, and CSR arrays of these lengths with indices of eight bytes.
                let status = unsafe {
                    let create = own.sparse_create_csr;
                    create(n as i64, n as i64, entries, pointers, columns, a.values.as_ptr(), 8, 0, &mut h.handle)
                };
                (n, status)
            }
        };
        (Self { h, len }, status)
    }

    /// Sets options from text.
    pub fn options(&mut self, text: &str) -> i32 {
        self.h.options(text)
    }

    /// Factorizes `a`, which must have the size and the stride of the matrix that the handle was created for.
    pub fn factorize(&mut self, a: &Matrix) -> i32 {
        let arrays: Vec<*const f64> = a.arrays().into_iter().map(<[f64]>::as_ptr).collect();
        // SAFETY: guaranteed by the caller; the arrays are those of `a`.
        unsafe { self.factorize_at(&arrays) }
    }

    /// Factorizes a matrix from its arrays.
    ///
    /// # Safety
    /// The arrays, on the host or a device, must be those of a matrix of this size and stride (`Matrix::arrays`).
    pub unsafe fn factorize_at(&mut self, arrays: &[*const f64]) -> i32 {
        let (h, own) = (self.h.handle, &self.h.build.own);
        let at = |k: usize| arrays.get(k).copied().unwrap_or(null());
        // SAFETY: a handle of this build; the caller guarantees the arrays.
        unsafe {
            match self.h.family {
                Family::Rrb => (own.rrb_factorize)(h, at(0), at(1), at(2), at(3), at(4)),
                Family::Dpcg => (own.dpcg_factorize)(h, at(0), at(1), at(2), at(3)),
                Family::Sparse | Family::Smoother => (own.sparse_factorize)(h),
            }
        }
    }

    /// Solves A x = b.
    ///
    /// # Safety
    /// The arrays, on the host or a device, must have as many values as the handle's arrays.
    pub unsafe fn solve_at(&mut self, b: *const f64, x: *mut f64) -> i32 {
        // SAFETY: a handle of this build; the caller guarantees the arrays.
        unsafe { (self.functions().solve)(self.h.handle, b, x) }
    }

    fn functions(&self) -> &'a Systems {
        &self.h.build.systems[self.h.family as usize]
    }

    /// Solves A x = b; x is the initial guess and becomes the solution.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64]) -> i32 {
        self.call(self.functions().solve, b, x)
    }

    /// Solves with a monitor. Returns the status and the residuals that the monitor received.
    pub fn watched_solve(&mut self, watch: Watch, b: &[f64], x: &mut [f64]) -> (i32, Vec<f64>) {
        assert!(b.len() == self.len && x.len() == self.len);
        let solve = self.functions().solve;
        // SAFETY: a handle of this build; the lengths have just been checked.
        self.h.watched(watch, |h| unsafe { solve(h.handle, b.as_ptr(), x.as_mut_ptr()) })
    }

    /// Computes z = M^-1 r.
    pub fn apply(&mut self, r: &[f64], z: &mut [f64]) -> i32 {
        self.call(self.functions().apply, r, z)
    }

    /// Computes y = A x.
    pub fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> i32 {
        self.call(self.functions().multiply, x, y)
    }

    fn call(
        &mut self,
        function: unsafe extern "C" fn(Handle, *const f64, *mut f64) -> i32,
        input: &[f64],
        output: &mut [f64],
    ) -> i32 {
        assert!(input.len() == self.len && output.len() == self.len);
        // SAFETY: a handle of this build; the lengths have just been checked.
        unsafe { function(self.h.handle, input.as_ptr(), output.as_mut_ptr()) }
    }
}
