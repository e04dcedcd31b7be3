//! Calls of the family `smoother_`, and the results of a build.

use crate::library::{Build, Family, Owned, Watch};
use crate::record::Record;
use rrbsolver::options::info;
use rrbsolver_problems::blocks::Level;

const OF_PATCHES: &[(&str, i32)] = &[
    ("threads", info::THREADS),
    ("block solver", info::BLOCK_SOLVER),
    ("block inverses", info::BLOCK_INVERSES),
    ("ghost copies", info::GHOST_COPIES),
    ("cells", info::CELLS),
];

/// Sweeps on a set of patches.
pub struct Sweeps {
    /// Stencil with 7 or 27 entries.
    pub stencil: Vec<f64>,
    /// Number of cells of a block in x, y and z.
    pub block: [i64; 3],
    /// Option text.
    pub options: String,
    /// Patches with their arrays u and f.
    pub level: Level,
    /// Number of sweeps of each call, in order.
    pub calls: Vec<i32>,
}

/// A handle of the family `smoother_`.
pub struct Smoother<'a>(Owned<'a>);

impl Smoother<'_> {
    /// Sets the patches of `level`.
    pub fn set_patches(&mut self, level: &Level) -> i32 {
        let (lower, size) = (&level.lower, &level.size);
        assert_eq!(lower.len(), size.len());
        let set = self.0.build.own.smoother_set_patches;
        // SAFETY: a handle of this build, and lists of the length passed.
        unsafe { set(self.0.handle, lower.len() as i64, lower.as_ptr(), size.as_ptr()) }
    }

    fn int(&self, key: i32) -> i64 {
        self.0.int(key).unwrap_or_else(i64::from)
    }

    /// Computes ||f - A u||_2 and f - A u. Also returns the status of the call.
    fn residual(&self, level: &mut Level) -> (i32, f64, Vec<f64>) {
        let mut r: Vec<Vec<f64>> = level.f.iter().map(|f| vec![f64::NAN; f.len()]).collect();
        let table: Vec<*mut f64> = r.iter_mut().map(|r| r.as_mut_ptr()).collect();
        let (u, f) = (level.u_table(), level.f_table());
        let mut norm = f64::NAN;
        // SAFETY: a handle of this build with the level's patches, for which `Level` allocates the arrays.
        let status = unsafe {
            (self.0.build.own.smoother_residual)(self.0.handle, u.as_ptr(), f.as_ptr(), table.as_ptr(), &mut norm)
        };
        (status, norm, r.concat())
    }

    /// Applies sweeps with a monitor. Returns the status and the residuals that the monitor received.
    pub fn apply(&mut self, level: &mut Level, sweeps: i32) -> (i32, Vec<f64>) {
        let (u, f) = (level.u_table(), level.f_table());
        self.0.watched(Watch::default(), |h| {
            // SAFETY: a handle of this build with the level's patches, for which `Level` allocates the arrays.
            unsafe { (h.build.own.smoother_apply)(h.handle, u.as_ptr(), f.as_ptr(), sweeps) }
        })
    }
}

impl Sweeps {
    /// Creates a handle with these options, without patches. Also returns the status.
    pub fn create<'a>(&self, build: &'a Build) -> (Smoother<'a>, i32) {
        let mut smoother = Smoother(Owned::none(build, Family::Smoother));
        let (points, [x, y, z]) = (self.stencil.len() as i32, self.block);
        let create = build.own.smoother_create;
        // SAFETY: the stencil has the length passed, and `handle` is a valid pointer.
        let status = unsafe { create(points, self.stencil.as_ptr(), x, y, z, &mut smoother.0.handle) };
        let status = if status < 0 { status } else { smoother.0.options(&self.options) };
        (smoother, status)
    }

    /// Makes all calls, and records their results.
    pub fn run(&self, build: &Build) -> Record {
        let mut record = Record::default();
        let recorded =
            |record: &mut Record, name: &str, status: i32| record.status(name, status, || build.last_error());
        let (mut smoother, status) = self.create(build);
        let mut level = self.level.clone();
        if !recorded(&mut record, "create", status) || !recorded(&mut record, "patches", smoother.set_patches(&level)) {
            return record;
        }
        OF_PATCHES.iter().for_each(|&(name, key)| record.count(name, smoother.int(key)));
        for &sweeps in &self.calls {
            let (status, seen) = smoother.apply(&mut level, sweeps);
            recorded(&mut record, "apply", status);
            record.count("sweeps", smoother.int(info::ITERATIONS));
            record.count("stop reason", smoother.int(info::STOP_REASON));
            record.reals("monitor", seen);
            record.reals("history", smoother.0.history());
            record.reals("final residual", vec![smoother.0.real(info::FINAL_RESIDUAL).unwrap_or(f64::NAN)]);
            record.reals("u", level.u.concat());
            let (status, norm, r) = smoother.residual(&mut level);
            recorded(&mut record, "residual", status);
            record.reals("norm", vec![norm]);
            record.reals("f - A u", r);
        }
        record
    }
}
