//! The same of the family `smoother_`.

use crate::library::{Build, Handle, history};
use crate::record::Record;
use crate::systems::Watch;
use rrbsolver::options::info;
use rrbsolver_problems::blocks::Level;
use std::ptr::{from_mut, null_mut};

const OF_PATCHES: &[(&str, i32)] = &[
    ("threads", info::THREADS),
    ("block solver", info::BLOCK_SOLVER),
    ("block inverses", info::BLOCK_INVERSES),
    ("ghost copies", info::GHOST_COPIES),
    ("cells", info::CELLS),
];

/// What is asked for.
pub struct Sweeps {
    /// 7 or 27 entries.
    pub stencil: Vec<f64>,
    /// Cells of a block.
    pub block: [i64; 3],
    /// As text.
    pub options: String,
    /// Patches, u and f.
    pub level: Level,
    /// Sweeps of one call after the other.
    pub calls: Vec<i32>,
}

/// A handle.
struct Smoother<'a> {
    build: &'a Build,
    handle: Handle,
}

impl Drop for Smoother<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from smoother_create, or is NULL, and is destroyed once.
        unsafe { (self.build.c.smoother_destroy)(&mut self.handle) };
    }
}

impl Smoother<'_> {
    fn int(&self, key: i32) -> i64 {
        let mut value = 0;
        // SAFETY: a handle of this build, and an int64_t.
        let status = unsafe { (self.build.c.smoother_get_int)(self.handle, key, &mut value) };
        if status == 0 { value } else { status.into() }
    }

    /// ||f - A u||_2 and f - A u, with the status of the call.
    fn residual(&self, level: &mut Level) -> (i32, f64, Vec<f64>) {
        let mut r: Vec<Vec<f64>> = level.f.iter().map(|f| vec![f64::NAN; f.len()]).collect();
        let table: Vec<*mut f64> = r.iter_mut().map(|r| r.as_mut_ptr()).collect();
        let (u, f) = (level.u_table(), level.f_table());
        let mut norm = f64::NAN;
        // SAFETY: a handle of this build with the level's patches, for which Level makes its arrays.
        let status =
            unsafe { (self.build.c.smoother_residual)(self.handle, u.as_ptr(), f.as_ptr(), table.as_ptr(), &mut norm) };
        (status, norm, r.concat())
    }

    /// Sweeps, told of by a monitor: their status, and what it has seen.
    fn apply(&self, level: &mut Level, sweeps: i32) -> (i32, Vec<f64>) {
        let mut watch = Watch { seen: Vec::new(), stop_at: None };
        let (u, f) = (level.u_table(), level.f_table());
        let c = &self.build.c;
        // SAFETY: a handle of this build with the level's patches; `watch` outlives the call, and is let go after it.
        let status = unsafe {
            (c.smoother_set_monitor)(self.handle, Some(Watch::told), from_mut(&mut watch).cast());
            let status = (c.smoother_apply)(self.handle, u.as_ptr(), f.as_ptr(), sweeps);
            (c.smoother_set_monitor)(self.handle, None, null_mut());
            status
        };
        (status, watch.seen)
    }

    fn history(&self) -> Vec<f64> {
        // SAFETY: a handle of this build; `history` passes arrays of the length it tells.
        history(|values, capacity, count| unsafe {
            (self.build.c.smoother_get_history)(self.handle, values, capacity, count)
        })
    }

    fn final_residual(&self) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a handle of this build, and a double.
        unsafe { (self.build.c.smoother_get_real)(self.handle, info::FINAL_RESIDUAL, &mut value) };
        value
    }
}

impl Sweeps {
    /// All calls.
    pub fn run(&self, build: &Build) -> Record {
        let mut record = Record::default();
        let told = |record: &mut Record, name: &str, status: i32| record.status(name, status, || build.last_error());
        let mut smoother = Smoother { build, handle: null_mut() };
        let (points, [x, y, z]) = (self.stencil.len() as i32, self.block);
        // SAFETY: the stencil has the length passed, and `handle` is a place for a pointer.
        let status = unsafe { (build.c.smoother_create)(points, self.stencil.as_ptr(), x, y, z, &mut smoother.handle) };
        if !told(&mut record, "create", status) {
            return record;
        }
        let text = build.text(&self.options);
        // SAFETY: a handle of this build, and a text that ends with NUL.
        let status = unsafe { (build.c.smoother_set_options)(smoother.handle, text.as_ptr()) };
        let mut level = self.level.clone();
        let (lower, size) = (&level.lower, &level.size);
        assert_eq!(lower.len(), size.len());
        if !told(&mut record, "options", status) {
            return record;
        }
        // SAFETY: a handle of this build, and lists of the length passed.
        let status = unsafe {
            (build.c.smoother_set_patches)(smoother.handle, lower.len() as i64, lower.as_ptr(), size.as_ptr())
        };
        if !told(&mut record, "patches", status) {
            return record;
        }
        OF_PATCHES.iter().for_each(|&(name, key)| record.count(name, smoother.int(key)));
        for &sweeps in &self.calls {
            let (status, seen) = smoother.apply(&mut level, sweeps);
            told(&mut record, "apply", status);
            record.count("sweeps", smoother.int(info::ITERATIONS));
            record.count("stop reason", smoother.int(info::STOP_REASON));
            record.reals("monitor", seen);
            record.reals("history", smoother.history());
            record.reals("final residual", vec![smoother.final_residual()]);
            record.reals("u", level.u.concat());
            let (status, norm, r) = smoother.residual(&mut level);
            told(&mut record, "residual", status);
            record.reals("norm", vec![norm]);
            record.reals("f - A u", r);
        }
        record
    }
}
