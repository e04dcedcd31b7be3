//! Builds of the library, loaded beside each other, and their C interface. Numbers and signatures are those of
//! include/rrbsolver.h, which promises to keep them: an older build is called as a newer one is.

use anyhow::{Context as _, Result, anyhow};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use rrbsolver_problems::{Stencil, poisson};
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// A handle of either family.
pub type Handle = *mut c_void;
/// Told of an iteration or a sweep; not 0 stops.
pub type Monitor = unsafe extern "C" fn(*mut c_void, i64, f64) -> i32;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that are compared.
        pub struct Functions { $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl Functions {
            fn of(loaded: &Loaded) -> Result<Self, libloading::Error> {
                // SAFETY: `Build::load` has seen that this is rrbsolver, whose header has these signatures.
                Ok(unsafe { Self { $($name: *loaded.get(concat!(stringify!($name), "\0"))?,)* } })
            }
        }
    };
}

functions! {
    rrbsolver_last_error(*mut c_char, i64) -> i64;
    rrb_create(i64, i64, *mut Handle) -> i32;
    rrb_destroy(*mut Handle) -> i32;
    rrb_set_options(Handle, *const c_char) -> i32;
    rrb_set_monitor(Handle, Option<Monitor>, *mut c_void) -> i32;
    rrb_factorize(Handle, *const f64, *const f64, *const f64, *const f64, *const f64) -> i32;
    rrb_solve(Handle, *const f64, *mut f64) -> i32;
    rrb_apply(Handle, *const f64, *mut f64) -> i32;
    rrb_multiply(Handle, *const f64, *mut f64) -> i32;
    rrb_get_int(Handle, i32, *mut i64) -> i32;
    rrb_get_real(Handle, i32, *mut f64) -> i32;
    rrb_get_history(Handle, *mut f64, i64, *mut i64) -> i32;
    smoother_create(i32, *const f64, i64, i64, i64, *mut Handle) -> i32;
    smoother_destroy(*mut Handle) -> i32;
    smoother_set_options(Handle, *const c_char) -> i32;
    smoother_set_monitor(Handle, Option<Monitor>, *mut c_void) -> i32;
    smoother_set_patches(Handle, i64, *const [i64; 3], *const [i64; 3]) -> i32;
    smoother_apply(Handle, *const *mut f64, *const *const f64, i32) -> i32;
    smoother_residual(Handle, *const *mut f64, *const *const f64, *const *mut f64, *mut f64) -> i32;
    smoother_get_int(Handle, i32, *mut i64) -> i32;
    smoother_get_real(Handle, i32, *mut f64) -> i32;
    smoother_get_history(Handle, *mut f64, i64, *mut i64) -> i32;
}

/// One build.
pub struct Build {
    /// Its C interface.
    pub c: Functions,
    /// Options that follow those of every case.
    pub options: String,
}

impl Build {
    /// Loads a shared library, for as long as this program runs: its threads may outlast any handle.
    pub fn load(path: &str, options: &str) -> Result<Self> {
        let failed = |error: libloading::Error| anyhow!("cannot load {path}: {error}");
        // A name without a slash would be looked for among the system's libraries.
        let whole = Path::new(path).canonicalize().with_context(|| format!("cannot read {path}"))?;
        // SAFETY: the user names a build of this library, which does nothing when it is loaded. Its names stay its own
        // (RTLD_LOCAL), so that no build calls another one's functions.
        let loaded = unsafe { Loaded::open(Some(&whole), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        // SAFETY: looked for, not called.
        unsafe { loaded.get::<*const c_void>("rrbsolver_version\0") }.map_err(failed)?;
        let c = Functions::of(&loaded).map_err(failed)?;
        std::mem::forget(loaded);
        Ok(Self { c, options: options.to_owned() })
    }

    /// Whether both names led to one library in memory.
    pub fn is(&self, other: &Build) -> bool {
        std::ptr::fn_addr_eq(self.c.rrb_create, other.c.rrb_create)
    }

    /// The sentence of the last failed call of this thread.
    pub fn last_error(&self) -> String {
        let mut text = vec![0u8; 4096];
        // SAFETY: the buffer has the length passed.
        unsafe { (self.c.rrbsolver_last_error)(text.as_mut_ptr().cast(), text.len() as i64) };
        let end = text.iter().position(|&c| c == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    /// A sentence where not even a small system can be factorized: two builds that both refuse everything are equal.
    pub fn check(&self, backend: &str) -> Result<()> {
        let a = poisson(5, 5);
        let (mut solver, status) = Solver::new(self, a.nx, a.ny, a.nx);
        let status = if status < 0 { status } else { solver.options(&format!("backend={backend}")) };
        // SAFETY: arrays of 5 x 5 values without padding, as the solver has just been made for.
        let status = if status < 0 { status } else { unsafe { solver.factorize(arrays(&a)) } };
        if status < 0 { Err(anyhow!(self.last_error())) } else { Ok(()) }
    }

    /// Options of a case as the library gets them.
    pub fn text(&self, options: &str) -> CString {
        CString::new(format!("{options} {}", self.options)).expect("arguments and tables have no NUL")
    }
}

/// A handle of the family `rrb_`.
pub struct Solver<'a> {
    build: &'a Build,
    handle: Handle,
    len: usize,
}

impl Drop for Solver<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from rrb_create, or is NULL, and is destroyed once.
        unsafe { (self.build.c.rrb_destroy)(&mut self.handle) };
    }
}

/// Five addresses of A's arrays, NULL for those that it does not have.
pub type Arrays = [*const f64; 5];

/// Those of a matrix on the host.
pub fn arrays(a: &Stencil) -> Arrays {
    let (northeast, northwest) = a.corners.as_ref().map_or((null(), null()), |(ne, nw)| (ne.as_ptr(), nw.as_ptr()));
    [a.center.as_ptr(), a.east.as_ptr(), a.north.as_ptr(), northeast, northwest]
}

impl<'a> Solver<'a> {
    /// For nx x ny nodes, `stride` values from one row of the arrays to the next; the status.
    pub fn new(build: &'a Build, nx: usize, ny: usize, stride: usize) -> (Self, i32) {
        let mut solver = Self { build, handle: null_mut(), len: stride * ny };
        // SAFETY: `handle` is a place for a pointer.
        let status = unsafe { (build.c.rrb_create)(nx as i64, ny as i64, &mut solver.handle) };
        (solver, status)
    }

    /// Options as text.
    pub fn options(&mut self, text: &str) -> i32 {
        let text = self.build.text(text);
        // SAFETY: a handle of this build, and a text that ends with NUL.
        unsafe { (self.build.c.rrb_set_options)(self.handle, text.as_ptr()) }
    }

    /// Whom to tell, or nobody.
    ///
    /// # Safety
    /// `user` must be what `monitor` expects until another one is set or the handle is gone.
    pub unsafe fn monitor(&mut self, monitor: Option<Monitor>, user: *mut c_void) -> i32 {
        // SAFETY: a handle of this build; the rest is the caller's promise.
        unsafe { (self.build.c.rrb_set_monitor)(self.handle, monitor, user) }
    }

    /// # Safety
    /// The arrays, on the host or a device, must have the handle's rows with its stride.
    pub unsafe fn factorize(&mut self, [center, east, north, northeast, northwest]: Arrays) -> i32 {
        // SAFETY: a handle of this build; the arrays are the caller's promise.
        unsafe { (self.build.c.rrb_factorize)(self.handle, center, east, north, northeast, northwest) }
    }

    /// # Safety
    /// As for `factorize`.
    pub unsafe fn solve_at(&mut self, b: *const f64, x: *mut f64) -> i32 {
        // SAFETY: a handle of this build; the arrays are the caller's promise.
        unsafe { (self.build.c.rrb_solve)(self.handle, b, x) }
    }

    /// x is the guess and becomes the solution.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64]) -> i32 {
        assert!(b.len() == self.len && x.len() == self.len);
        // SAFETY: the lengths have just been looked at.
        unsafe { self.solve_at(b.as_ptr(), x.as_mut_ptr()) }
    }

    /// z = M^-1 r
    pub fn apply(&mut self, r: &[f64], z: &mut [f64]) -> i32 {
        assert!(r.len() == self.len && z.len() == self.len);
        // SAFETY: a handle of this build; the lengths have just been looked at.
        unsafe { (self.build.c.rrb_apply)(self.handle, r.as_ptr(), z.as_mut_ptr()) }
    }

    /// y = A x
    pub fn multiply(&mut self, x: &[f64], y: &mut [f64]) -> i32 {
        assert!(x.len() == self.len && y.len() == self.len);
        // SAFETY: a handle of this build; the lengths have just been looked at.
        unsafe { (self.build.c.rrb_multiply)(self.handle, x.as_ptr(), y.as_mut_ptr()) }
    }

    /// A whole-number result, or the status.
    pub fn int(&self, key: i32) -> Result<i64, i32> {
        let mut value = 0;
        // SAFETY: a handle of this build, and an int64_t.
        let status = unsafe { (self.build.c.rrb_get_int)(self.handle, key, &mut value) };
        if status == 0 { Ok(value) } else { Err(status) }
    }

    /// A real result, or the status.
    pub fn real(&self, key: i32) -> Result<f64, i32> {
        let mut value = 0.0;
        // SAFETY: a handle of this build, and a double.
        let status = unsafe { (self.build.c.rrb_get_real)(self.handle, key, &mut value) };
        if status == 0 { Ok(value) } else { Err(status) }
    }

    /// Relative residuals of the last solve.
    pub fn history(&self) -> Vec<f64> {
        // SAFETY: a handle of this build; `history` passes arrays of the length it tells.
        history(|values, capacity, count| unsafe {
            (self.build.c.rrb_get_history)(self.handle, values, capacity, count)
        })
    }
}

/// What a function of the kind get_history has: its length first, then the values. None where it refuses.
pub fn history(get: impl Fn(*mut f64, i64, *mut i64) -> i32) -> Vec<f64> {
    let mut count = 0;
    if get(null_mut(), 0, &mut count) < 0 || count < 0 {
        return Vec::new();
    }
    let mut values = vec![0.0; count as usize];
    get(values.as_mut_ptr(), count, &mut count);
    values
}
