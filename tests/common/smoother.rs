//! Safe wrappers of the family `smoother_` for tests.

use super::status::NOT_FINITE;
use super::{Failure, max_difference, outcome};
pub use rrbsolver::abi::smoother_handle as Handle;
pub use rrbsolver::abi::{
    smoother_apply, smoother_create, smoother_destroy, smoother_device_pointers, smoother_download, smoother_exchange,
    smoother_get_history, smoother_get_int, smoother_get_real, smoother_residual, smoother_set_ghost_fill,
    smoother_set_int, smoother_set_monitor, smoother_set_options, smoother_set_patches, smoother_set_real,
    smoother_set_stream, smoother_upload,
};
pub use rrbsolver_problems::blocks::{BLOCKS, Level, Random, Record, awkward, records, stencil};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

/// Key numbers, repeated here so that a changed number fails a test.
pub mod key {
    pub const METHOD: i32 = 300;
    pub const OMEGA: i32 = 301;
    pub const STAGGER: i32 = 302;
    pub const REVERSE: i32 = 303;
    pub const BLOCK_SOLVER: i32 = 304;
    pub const REMAINDER: i32 = 305;
    pub const PARALLEL: i32 = 306;
    pub const PATCH_THREADS: i32 = 307;
    pub const TRANSFER: i32 = 308;
    pub const INFO_BLOCK_SOLVER: i32 = 1200;
    pub const INFO_BLOCK_INVERSES: i32 = 1201;
    pub const INFO_GHOST_COPIES: i32 = 1202;
    pub const INFO_CELLS: i32 = 1203;
}

pub const FAST_DIAGONALIZATION: i64 = 1;
pub const DENSE: i64 = 2;

/// Returns the bits of all u.
pub fn bits(level: &Level) -> Vec<u64> {
    level.u.iter().flatten().map(|v| v.to_bits()).collect()
}

/// Returns the largest difference of two u.
pub fn difference(a: &Level, b: &Level) -> f64 {
    a.u.iter().zip(&b.u).map(|(a, b)| max_difference(a, b)).fold(0.0, f64::max)
}

/// Checks the relative residuals after 1 and 3 sweeps of the selected golden rows.
///
/// The tolerance 1e-9 covers the different summation order of the prototype. Returns the number of checked rows per
/// method.
#[track_caller]
pub fn check_golden(backend: &str, wanted: impl Fn(&Record) -> bool) -> HashMap<String, usize> {
    let mut checked = HashMap::new();
    for r in records().iter().filter(|r| wanted(r)) {
        let mut level = Level::golden(64, 1);
        let text = format!("{backend} {}", r.options());
        let smoother = Smoother::of(&stencil(&r.stencil), r.block, &text, &level);
        let start = smoother.norm(&mut level);
        for (sweeps, expected) in [(1, r.after[0]), (2, r.after[1])] {
            smoother.apply(&mut level, sweeps).unwrap();
            let relative = smoother.norm(&mut level) / start;
            let off = (relative / expected - 1.0).abs();
            assert!(off < 1e-9, "{} {:?} {}: {relative:e}, expected {expected:e}", r.stencil, r.block, r.method);
        }
        *checked.entry(r.method.clone()).or_insert(0) += 1;
    }
    assert!(!checked.is_empty());
    checked
}

unsafe extern "C-unwind" fn keep(user: *mut c_void, _: i64, relative: f64) -> i32 {
    // SAFETY: `check_scales` passes a list that outlives the calls.
    unsafe { &mut *user.cast::<Vec<f64>>() }.push(relative);
    0
}

/// Checks norms and monitor values near both ends of the range of doubles.
///
/// A power of two in the stencil and in f changes no bit of u. A norm that overflows or is NaN is an error.
pub fn check_scales(backend: &str) {
    let mut level = Level::new(&[([0; 3], [8, 8, 8]), ([8, 0, 0], [5, 8, 7])]);
    level.random(1);
    let scaled = |exponent: i32| {
        let scale = 2f64.powi(exponent);
        let mut level = level.clone();
        level.f.iter_mut().flatten().for_each(|f| *f *= scale);
        let stencil: Vec<f64> = stencil("poisson7").iter().map(|v| v * scale).collect();
        (Smoother::of(&stencil, [4; 3], backend, &level), level, scale)
    };
    let run = |exponent: i32| {
        let (smoother, mut level, scale) = scaled(exponent);
        let mut reported: Vec<f64> = Vec::new();
        // SAFETY: a live handle; the list outlives the calls.
        outcome(unsafe { smoother_set_monitor(smoother.handle, Some(keep), (&raw mut reported).cast()) }).unwrap();
        let norm = smoother.norm(&mut level) / scale;
        smoother.apply(&mut level, 2).unwrap();
        (norm, reported, bits(&level))
    };
    let expected = run(0);
    assert!(expected.1.len() == 3 && expected.1[2] > 0.0, "{:?}", expected.1);
    for exponent in [-900, -560, -470, 400, 530, 900] {
        assert_eq!(run(exponent), expected, "{backend}, 2^{exponent}");
    }
    let refused = |failure: Failure| failure.expect(NOT_FINITE, &["residual", "too large"]);
    // Zero u and f have norm zero.
    let (smoother, mut level, _) = scaled(0);
    level.u.iter_mut().chain(&mut level.f).flatten().for_each(|v| *v = 0.0);
    assert_eq!(smoother.norm(&mut level), 0.0);
    // With the first f, the residuals are finite but their norm overflows. Then the products overflow, too.
    level.f.iter_mut().flatten().for_each(|f| *f = 1.5e308);
    refused(smoother.try_norm(&mut level).unwrap_err());
    level.f.iter_mut().flatten().for_each(|f| *f = 1.0);
    level.u.iter_mut().flatten().for_each(|u| *u = 1e308);
    refused(smoother.try_norm(&mut level).unwrap_err());
    let mut reported: Vec<f64> = Vec::new();
    // SAFETY: as above.
    outcome(unsafe { smoother_set_monitor(smoother.handle, Some(keep), (&raw mut reported).cast()) }).unwrap();
    refused(smoother.apply(&mut level, 1).unwrap_err());
    assert_eq!(reported, []);
    level.u[1][200] = f64::NAN;
    smoother.try_norm(&mut level).unwrap_err().expect(NOT_FINITE, &["u holds NaN", "patch 1"]);
}

/// Checks block inverses by sine transforms against dense inverses, for the four kinds of stencils that have both.
///
/// One sweep of block Jacobi from u = 0 computes u = A_b^-1 f. The blocks have all 512 shapes, one per patch, and the
/// seven sizes of the paper in patches with many blocks. The largest entry of u is about 1.
#[track_caller]
pub fn check_inverses(backend: &str) {
    let shapes = (0..512).map(|q: i64| [q % 8 + 1, q / 8 % 8 + 1, q / 64 + 1]);
    let alone: Vec<_> = shapes.map(|[x, y, z]| ([16 * x, 16 * y, 16 * z], [x, y, z])).collect();
    for name in ["poisson7", "aniso7", "anisoz7", "conv7", "fe27"] {
        let inverses = |block: [i64; 3], patches: &[([i64; 3], [i64; 3])]| {
            let [fast, dense] = ["fast_diagonalization", "dense"].map(|solver| {
                let mut level = Level::new(patches);
                level.random(3);
                level.u.iter_mut().flatten().for_each(|u| *u = 0.0);
                let text = format!("{backend} method=block_jacobi omega=1 block_solver={solver}");
                Smoother::of(&stencil(name), block, &text, &level).apply(&mut level, 1).unwrap();
                level
            });
            for (p, (fast, dense)) in fast.u.iter().zip(&dense.u).enumerate() {
                let (error, largest) = (max_difference(fast, dense), super::max_abs(dense));
                assert!(largest > 0.01, "{name} {block:?}: nothing was solved");
                let shape = patches[p].1;
                assert!(error <= 1e-13 * largest.max(1.0), "{backend} {name} {block:?} {shape:?}: {error:e}");
            }
        };
        inverses([8; 3], &alone);
        for block in BLOCKS {
            // The edges of the second patch cut blocks.
            inverses(block, &[([0; 3], [24, 16, 32]), ([25, 3, -2], [21, 14, 11])]);
        }
    }
}

/// Checks chaotic block Gauss-Seidel on n^3 cells in 20 runs, each with the options that `options` returns.
///
/// After three sweeps the residual must be below that of block Jacobi with omega = 0.8, and above 0.85 times that of
/// lexicographic order.
#[track_caller]
pub fn check_chaotic(n: i64, blocks: &[[i64; 3]], options: impl Fn(i64) -> String) {
    for &block in blocks {
        let relative = |text: &str| {
            let mut level = Level::golden(n, 1);
            let smoother = Smoother::of(&stencil("poisson7"), block, text, &level);
            let start = smoother.norm(&mut level);
            smoother.apply(&mut level, 3).unwrap();
            smoother.norm(&mut level) / start
        };
        let jacobi = relative("backend=cpu method=block_jacobi omega=0.8");
        let lexicographic = relative("backend=cpu method=chaotic_gauss_seidel parallel=patch");
        for run in 0..20 {
            let options = options(run);
            let chaotic = relative(&format!("method=chaotic_gauss_seidel {options}"));
            assert!(chaotic < jacobi && chaotic > 0.85 * lexicographic, "{options}, {n} {block:?}: {chaotic}");
        }
    }
}

/// A handle of the family `smoother_`.
pub struct Smoother {
    pub handle: *mut Handle,
}

// SAFETY: the C API allows a handle to move between threads.
unsafe impl Send for Smoother {}

impl Drop for Smoother {
    fn drop(&mut self) {
        // SAFETY: the handle came from smoother_create and is destroyed once.
        assert_eq!(unsafe { smoother_destroy(&mut self.handle) }, 0);
        assert!(self.handle.is_null());
    }
}

impl Smoother {
    pub fn try_new(stencil: &[f64], [bx, by, bz]: [i64; 3]) -> Result<Smoother, Failure> {
        let mut handle = null_mut();
        // SAFETY: `handle` outlives the call; the stencil has the length passed.
        outcome(unsafe { smoother_create(stencil.len() as i32, stencil.as_ptr(), bx, by, bz, &mut handle) })?;
        Ok(Smoother { handle })
    }

    /// Creates a handle with options.
    #[track_caller]
    pub fn new(stencil: &[f64], block: [i64; 3], options: &str) -> Smoother {
        let smoother = Smoother::try_new(stencil, block).expect("create");
        smoother.options(options).expect("options");
        smoother
    }

    /// Creates a handle with options and patches.
    #[track_caller]
    pub fn of(stencil: &[f64], block: [i64; 3], options: &str, level: &Level) -> Smoother {
        let smoother = Smoother::new(stencil, block, options);
        smoother.patches(level).expect("set_patches");
        smoother
    }

    pub fn options(&self, text: &str) -> Result<i32, Failure> {
        let text = CString::new(text).expect("no NUL in options");
        // SAFETY: a live handle and a NUL-terminated string.
        outcome(unsafe { smoother_set_options(self.handle, text.as_ptr()) })
    }

    pub fn patches(&self, level: &Level) -> Result<i32, Failure> {
        let count = level.lower.len() as i64;
        // SAFETY: a live handle and lists of the length passed.
        outcome(unsafe { smoother_set_patches(self.handle, count, level.lower.as_ptr(), level.size.as_ptr()) })
    }

    pub fn apply(&self, level: &mut Level, sweeps: i32) -> Result<i32, Failure> {
        let (u, f) = (level.u_table(), level.f_table());
        // SAFETY: a live handle; the arrays have the sizes of the patches.
        outcome(unsafe { smoother_apply(self.handle, u.as_ptr(), f.as_ptr(), sweeps) })
    }

    #[track_caller]
    pub fn exchange(&self, level: &mut Level) {
        let u = level.u_table();
        // SAFETY: as for apply.
        outcome(unsafe { smoother_exchange(self.handle, u.as_ptr()) }).expect("exchange");
    }

    /// Computes ||f - A u||_2.
    #[track_caller]
    pub fn norm(&self, level: &mut Level) -> f64 {
        self.try_norm(level).expect("residual")
    }

    pub fn try_norm(&self, level: &mut Level) -> Result<f64, Failure> {
        let (u, f) = (level.u_table(), level.f_table());
        let mut norm = f64::NAN;
        // SAFETY: as for apply; no residual array is requested.
        let result = outcome(unsafe { smoother_residual(self.handle, u.as_ptr(), f.as_ptr(), null(), &mut norm) });
        result.map(|_| norm)
    }

    /// Computes f - A u.
    #[track_caller]
    pub fn residual(&self, level: &mut Level) -> Vec<Vec<f64>> {
        let mut r: Vec<Vec<f64>> = level.f.iter().map(|f| vec![f64::NAN; f.len()]).collect();
        let table: Vec<*mut f64> = r.iter_mut().map(|r| r.as_mut_ptr()).collect();
        let (u, f) = (level.u_table(), level.f_table());
        // SAFETY: as for apply; the residuals have the sizes of the patches.
        outcome(unsafe { smoother_residual(self.handle, u.as_ptr(), f.as_ptr(), table.as_ptr(), null_mut()) })
            .expect("residual");
        r
    }

    #[track_caller]
    pub fn int(&self, key: i32) -> i64 {
        let mut value = i64::MIN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { smoother_get_int(self.handle, key, &mut value) }).expect("get_int");
        value
    }

    #[track_caller]
    pub fn real(&self, key: i32) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { smoother_get_real(self.handle, key, &mut value) }).expect("get_real");
        value
    }
}
