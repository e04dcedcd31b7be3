//! Safe wrappers of the family `dpcg_` for tests.

use super::{Failure, outcome};
pub use rrbsolver::abi::dpcg_handle as Handle;
pub use rrbsolver::abi::{
    dpcg_apply, dpcg_create, dpcg_destroy, dpcg_factorize, dpcg_get_history, dpcg_get_int, dpcg_get_real,
    dpcg_multiply, dpcg_set_int, dpcg_set_monitor, dpcg_set_options, dpcg_set_real, dpcg_set_regions, dpcg_set_stream,
    dpcg_solve, dpcg_solve_once,
};
pub use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// Key numbers, repeated here so that a changed number fails a test.
pub mod key {
    pub const PRECONDITIONER: i32 = 400;
    pub const ORDER: i32 = 401;
    pub const RIC_OMEGA: i32 = 402;
    pub const DEFLATION: i32 = 403;
    pub const SUBDOMAINS_X: i32 = 404;
    pub const SUBDOMAINS_Y: i32 = 405;
    pub const SUBDOMAINS_Z: i32 = 406;
    pub const KEEP_ALL: i32 = 407;
    pub const COARSE_SOLVER: i32 = 408;
    pub const COARSE_TOL: i32 = 409;
    pub const COARSENING: i32 = 410;
    pub const SWEEPS: i32 = 411;
    pub const DILATION: i32 = 412;
    pub const LEADING_PLANE: i32 = 413;
    pub const INFO_PRECONDITIONER: i32 = 1300;
    pub const INFO_AUTO_REASON: i32 = 1301;
    pub const INFO_DEFLATION: i32 = 1302;
    pub const INFO_COARSENING: i32 = 1303;
    pub const INFO_COARSE_SOLVER: i32 = 1304;
    pub const INFO_DEFLATION_VECTORS: i32 = 1305;
    pub const INFO_REGIONS: i32 = 1306;
    pub const INFO_STRONG_COMPONENTS: i32 = 1307;
    pub const INFO_NEUMANN_ROW_SUM: i32 = 1308;
    pub const INFO_SECONDS_DEFLATION: i32 = 1309;
    pub const INFO_SECONDS_COARSE: i32 = 1310;
    pub const INFO_SECONDS_ITERATIONS: i32 = 1311;
}

/// Preconditioners with their option values.
pub const PRECONDITIONERS: [(&str, i64); 6] =
    [("none", 1), ("jacobi", 2), ("neumann", 3), ("ic0", 4), ("ric", 5), ("multigrid", 6)];

/// Returns a random right-hand side with entries in [-1, 1).
pub fn random(len: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix(seed);
    (0..len).map(|_| 2.0 * random.unit() - 1.0).collect()
}

/// Copies values to an array with rows of `ld` and planes of `plane` values, padded with `filler`.
pub fn spread<T: Copy>(dense: &[T], [nx, ny, nz]: [usize; 3], ld: usize, plane: usize, filler: T) -> Vec<T> {
    let mut wide = vec![filler; nz * plane];
    for (row, values) in dense.chunks(nx).enumerate() {
        wide[row / ny * plane + row % ny * ld..][..nx].copy_from_slice(values);
    }
    wide
}

/// Inverse of `spread`.
pub fn gathered<T: Copy>(wide: &[T], [nx, ny, nz]: [usize; 3], ld: usize, plane: usize) -> Vec<T> {
    let row = |row: usize| wide[row / ny * plane + row % ny * ld..][..nx].iter().copied();
    (0..ny * nz).flat_map(row).collect()
}

/// Removes the couplings in x across the middle of a system.
pub fn cut_in_two(mut a: TwoPhase) -> TwoPhase {
    let nx = a.size[0];
    for c in (0..a.cells()).filter(|c| c % nx == nx / 2) {
        let face = -std::mem::take(&mut a.forward[0][c]);
        a.center[c] -= face;
        a.center[c + 1] -= face;
    }
    a
}

/// Returns a system with more bubbles than deflation supports, at contrast 1e-6. The bubbles are blocks of `side` - 1
/// cells with one cell of water between them.
pub fn blocks(n: usize, side: [usize; 3], parts: &str) -> TwoPhase {
    let at = |c: usize| [c % n, c / n % n, c / (n * n)];
    let in_block = |c: usize| at(c).iter().zip(side).all(|(at, side)| at % side > 0);
    TwoPhase::of_air((0..n * n * n).map(in_block).collect(), parts, [n; 3], 1e-6)
}

/// Returns systems for which `auto` has different reasons, with the expected reason, deflation and coarsening. The last
/// system has labels of the caller.
pub fn systems_for_auto() -> Vec<(TwoPhase, bool, [i64; 3])> {
    let (none, levelset, vertex, cell) = (1, 3, 1, 2);
    [
        ("0", 1.0, false, [1, none, vertex]),
        ("9", 1e-3, false, [1, none, vertex]),
        ("surf;obs=box", 1e-3, false, [1, none, vertex]),
        ("9", 1e-6, false, [2, levelset, vertex]),
        ("spray", 1e-3, false, [3, levelset, vertex]),
        ("9;asp=4", 1e-3, false, [4, levelset, cell]),
        ("9", 1e-3, true, [5, levelset, vertex]),
    ]
    .map(|(set, contrast, labelled, chosen)| (TwoPhase::new(set, [32, 30, 28], contrast), labelled, chosen))
    .into()
}

/// Returns the results about the choices of `auto`, beginning with reason, deflation and coarsening.
pub fn choices(int: impl Fn(i32) -> i64) -> [i64; 9] {
    [
        key::INFO_AUTO_REASON,
        key::INFO_DEFLATION,
        key::INFO_COARSENING,
        key::INFO_PRECONDITIONER,
        key::INFO_COARSE_SOLVER,
        key::INFO_DEFLATION_VECTORS,
        key::INFO_REGIONS,
        key::INFO_STRONG_COMPONENTS,
        super::key::INFO_PRECISION,
    ]
    .map(int)
}

/// A handle of the family `dpcg_`.
pub struct Solver {
    pub handle: *mut Handle,
}

// SAFETY: the C API allows a handle to move between threads.
unsafe impl Send for Solver {}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the handle came from dpcg_create and is destroyed once.
        assert_eq!(unsafe { dpcg_destroy(&mut self.handle) }, 0);
        assert!(self.handle.is_null());
    }
}

impl Solver {
    pub fn try_new([nx, ny, nz]: [i64; 3]) -> Result<Solver, Failure> {
        let mut handle = null_mut();
        // SAFETY: `handle` outlives the call.
        outcome(unsafe { dpcg_create(nx, ny, nz, &mut handle) })?;
        Ok(Solver { handle })
    }

    #[track_caller]
    pub fn new(size: [usize; 3], options: &str) -> Solver {
        let solver = Solver::try_new(size.map(|n| n as i64)).expect("create");
        solver.options(options).expect("options");
        solver
    }

    /// Creates a factorized handle.
    #[track_caller]
    pub fn of(a: &TwoPhase, options: &str) -> Solver {
        let solver = Solver::new(a.size, options);
        solver.factorize(a).expect("factorize");
        solver
    }

    pub fn options(&self, text: &str) -> Result<i32, Failure> {
        let text = CString::new(text).expect("no NUL in options");
        // SAFETY: a live handle and a NUL-terminated string.
        outcome(unsafe { dpcg_set_options(self.handle, text.as_ptr()) })
    }

    pub fn set_int(&self, key: i32, value: i64) -> Result<i32, Failure> {
        // SAFETY: a live handle.
        outcome(unsafe { dpcg_set_int(self.handle, key, value) })
    }

    /// Sets labels, one per cell; `None` removes the regions.
    pub fn regions(&self, labels: Option<&[i32]>) -> Result<i32, Failure> {
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { dpcg_set_regions(self.handle, labels.map_or(null(), <[i32]>::as_ptr)) })
    }

    pub fn factorize(&self, a: &TwoPhase) -> Result<i32, Failure> {
        self.factorize_arrays(&a.center, a.forward.each_ref().map(|f| &f[..]))
    }

    pub fn factorize_arrays(&self, center: &[f64], [east, north, top]: [&[f64]; 3]) -> Result<i32, Failure> {
        self.factorize_at([center, east, north, top].map(<[f64]>::as_ptr))
    }

    /// Factorizes arrays at these addresses, in any memory space.
    pub fn factorize_at(&self, [center, east, north, top]: [*const f64; 4]) -> Result<i32, Failure> {
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { dpcg_factorize(self.handle, center, east, north, top) })
    }

    /// Solves A x = b; x is the initial guess and becomes the solution.
    pub fn solve(&self, b: &[f64], x: &mut [f64]) -> Result<i32, Failure> {
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { dpcg_solve(self.handle, b.as_ptr(), x.as_mut_ptr()) })
    }

    /// Solves with a zero initial guess. Returns the solution and the status.
    #[track_caller]
    pub fn solve_from_zero(&self, b: &[f64]) -> (Vec<f64>, i32) {
        let mut x = vec![0.0; b.len()];
        let status = self.solve(b, &mut x).expect("solve");
        (x, status)
    }

    /// Computes z = M^-1 r.
    #[track_caller]
    pub fn apply(&self, r: &[f64]) -> Vec<f64> {
        let mut z = vec![f64::NAN; r.len()];
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { dpcg_apply(self.handle, r.as_ptr(), z.as_mut_ptr()) }).expect("apply");
        z
    }

    /// Computes y = A x.
    #[track_caller]
    pub fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![f64::NAN; x.len()];
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { dpcg_multiply(self.handle, x.as_ptr(), y.as_mut_ptr()) }).expect("multiply");
        y
    }

    #[track_caller]
    pub fn int(&self, key: i32) -> i64 {
        let mut value = i64::MIN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { dpcg_get_int(self.handle, key, &mut value) }).expect("get_int");
        value
    }

    #[track_caller]
    pub fn real(&self, key: i32) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { dpcg_get_real(self.handle, key, &mut value) }).expect("get_real");
        value
    }

    /// Returns the residuals of the last solve, from iteration 0 on.
    #[track_caller]
    pub fn history(&self) -> Vec<f64> {
        let mut count = 0;
        let mut values = vec![f64::NAN; self.int(super::key::INFO_ITERATIONS) as usize + 1];
        let room = values.len() as i64;
        // SAFETY: the buffer has the capacity passed.
        outcome(unsafe { dpcg_get_history(self.handle, values.as_mut_ptr(), room, &mut count) }).expect("history");
        assert_eq!(count, room);
        values
    }
}
