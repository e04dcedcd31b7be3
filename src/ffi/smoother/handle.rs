//! The handle: its state, and what the entry points do to it.

use super::arrays::{Extent, Given, Known, Resident, Tables, check_arrays, check_spaces, checked_patch, copy_all};
use super::watch::Watch;
use crate::backend;
use crate::backend::steps::smoother::{BlockBackend, PatchArrays, Place, Pointers, Swept, Watcher};
use crate::error::{Error, Place as Location, RRB_OK, RRB_STOPPED, Result, collected, reserve};
use crate::ffi::settings::{Handle, Settings, check_array};
use crate::ffi::{environment, smoother_ghost_fn};
use crate::grid::block_inverse::Stencil;
use crate::grid::patches::Patch;
use crate::options::{Family, Options, RESULTS, ResultEntry, info, opt};
use crate::report::StopReason;
use crate::runtime::heap::boxed;
use crate::solver::smoother::{Machine, Smoother, relative};
use libc::c_void;
use std::time::Instant;

/// One stencil and block size, with patches. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct smoother_handle {
    stencil: Stencil,
    block: [usize; 3],
    pub(super) settings: Settings,
    pub(super) core: Option<Smoother>,
    /// Why `apply` must wait for `set_patches`.
    pub(super) stale: Option<&'static str>,
    pub(super) ghost_fill: smoother_ghost_fn,
    pub(super) ghost_user: *mut c_void,
    swept: Swept,
    /// Its residuals were computed.
    watched: bool,
    seconds_setup: f64,
    seconds_solve: f64,
    /// Room to sort the arrays of a call by address.
    extents: Vec<Extent>,
    pub(super) resident: Option<Resident>,
    known: Known,
}

const NO_PATCHES: &str = "smoother_set_patches must come before this call";
const FAILED: &str = "the last smoother_set_patches failed: it must succeed before this call";
const CHANGED: &str = "an option that acts at set_patches has changed: smoother_set_patches must come before this call";
pub(super) const NOT_UPLOADED: &str = "u and f are NULL: smoother_upload must come before this call";

/// For errors.
const PATCHES: &str = "lists of patches";

/// Cells per side of a block at most.
const MOST_BLOCK: i64 = 8;

impl smoother_handle {
    pub(super) fn new(stencil: &[f64], sides: [(&'static str, i64); 3]) -> Result<Self> {
        for (name, side) in sides {
            if side < 1 {
                return Err(Error::Dimension(format!("{name} must lie in [1, {MOST_BLOCK}], got {side}")));
            }
            if side > MOST_BLOCK {
                return Err(Error::range(name, side, format!("lie in [1, {MOST_BLOCK}]")));
            }
        }
        if let Some(index) = stencil.iter().position(|v| !v.is_finite()) {
            return Err(Error::not_finite("stencil", stencil[index], Location::entry(index)));
        }
        let mut h = Self {
            stencil: Stencil::new(stencil),
            block: sides.map(|(_, side)| side as usize),
            settings: Settings::new(Family::Smoother),
            core: None,
            stale: Some(NO_PATCHES),
            ghost_fill: None,
            ghost_user: std::ptr::null_mut(),
            swept: Swept::default(),
            watched: false,
            seconds_setup: 0.0,
            seconds_solve: 0.0,
            extents: Vec::new(),
            resident: None,
            known: Known::default(),
        };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    pub(super) fn check_fresh(&self) -> Result<()> {
        self.stale.map_or(Ok(()), |reason| Err(Error::State(reason.to_owned())))
    }

    /// # Safety
    /// `lower` and `size` must be NULL or hold `count` triples.
    pub(super) unsafe fn set_patches(
        &mut self,
        count: i64,
        lower: *const [i64; 3],
        size: *const [i64; 3],
    ) -> Result<()> {
        self.stale = Some(FAILED);
        self.resident = None;
        if count < 0 {
            return Err(Error::Dimension(format!("count must be at least 0, got {count}")));
        }
        if count > 0 {
            check_array("lower", lower)?;
            check_array("size", size)?;
        }
        let mut patches: Vec<Patch> = Vec::new();
        reserve(&mut patches, count as usize, PATCHES)?;
        let mut cells = 0usize;
        for p in 0..count as usize {
            // SAFETY: neither is NULL, both are aligned, and p < count.
            let (lower, size) = unsafe { (*lower.add(p), *size.add(p)) };
            let patch = checked_patch(p, lower, size)?;
            cells = cells
                .checked_add(patch.ghosted())
                .filter(|&c| c <= isize::MAX as usize / 8)
                .ok_or_else(|| Error::Dimension("the patches have more cells than can be addressed".to_owned()))?;
            patches.push(patch);
        }
        self.extents.clear();
        reserve(&mut self.extents, 3 * patches.len(), "addresses of patches")?;

        let start = Instant::now();
        let threads = environment::threads(self.settings.options.int(opt::THREADS) as usize);
        let operator = (&self.stencil, self.block);
        let machine = Machine { threads, devices: backend::cuda::driver::device_count() };
        let previous = self.core.take();
        self.known.clear();
        let stream = self.settings.stream as usize;
        let options = &self.settings.options;
        self.core = Some(Smoother::set_patches(previous, operator, patches, options, machine, stream, make_backend)?);
        self.stale = None;
        self.seconds_setup = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    pub(super) unsafe fn apply(&mut self, u: *const *mut f64, f: *const *const f64, sweeps: i32) -> Result<i32> {
        if sweeps < 0 {
            return Err(Error::range("sweeps", sweeps, "be >= 0"));
        }
        let start = Instant::now();
        self.settings.history.clear();
        (self.swept, self.watched) = (Swept::default(), false);
        let swept = self.call(Tables { u, f: Some(f), r: None }, |core, arrays, watcher, options| {
            core.apply(arrays, watcher, options, sweeps as usize)
        })?;
        let verbosity = self.settings.options.int(opt::VERBOSITY);
        (self.swept, self.watched) = (swept, self.settings.monitor.is_some() || verbosity >= 2);
        self.seconds_solve = start.elapsed().as_secs_f64();
        if verbosity >= 1 {
            let count = self.core.as_ref().map_or(0, |c| c.patches().len());
            let milliseconds = 1e3 * self.seconds_solve;
            self.settings
                .log
                .line(1, format_args!("smoother: {count} patches, {} sweeps, {milliseconds:.3} ms", swept.sweeps));
        }
        Ok(if swept.stopped { RRB_STOPPED } else { RRB_OK })
    }

    /// Checks the tables and hands them to `work`.
    pub(super) fn call<T>(
        &mut self,
        tables: Tables,
        work: impl FnOnce(&mut Smoother, &mut dyn PatchArrays, &mut dyn Watcher, &Options) -> Result<T>,
    ) -> Result<T> {
        self.check_fresh()?;
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        let count = patches.len();
        let no_f = tables.f.is_none_or(|f| f.is_null());
        let own = tables.u.is_null() && no_f;
        let mut pointers = if own {
            match &self.resident {
                Some(resident) => Pointers { u: &resident.u, f: &resident.f, r: &[] },
                None if count == 0 => Pointers { u: &[], f: &[], r: &[] },
                None if tables.f.is_none() => return Err(Error::Null("u".into())),
                None => return Err(Error::State(NOT_UPLOADED.to_owned())),
            }
        } else {
            check_array("u", tables.u)?;
            if let Some(f) = tables.f {
                check_array("f", f)?;
            }
            // SAFETY: not NULL, aligned, and the caller gave a pointer per patch.
            let u = unsafe { std::slice::from_raw_parts(tables.u, count) };
            let f = match tables.f {
                None => &[][..],
                // SAFETY: as above.
                Some(f) => unsafe { std::slice::from_raw_parts(f, count) },
            };
            Pointers { u, f, r: &[] }
        };
        if let Some(r) = tables.r {
            check_array("r", r)?;
            // SAFETY: not NULL, aligned, and the caller gave a pointer per patch.
            pointers.r = unsafe { std::slice::from_raw_parts(r, count) };
        }
        check_arrays(patches, &pointers, true, &mut self.extents)?;
        let spaces = (core.device(), self.settings.options.int(opt::MEMORY));
        let on_device = if own {
            let r = Pointers { u: &[], f: &[], r: pointers.r };
            check_spaces(spaces, &r, true, &mut self.known)?;
            core.device().is_some()
        } else {
            check_spaces(spaces, &pointers, false, &mut self.known)?
        };
        core.use_stream(self.settings.stream as usize)?;
        let mut watch = Watch {
            ghost_fill: self.ghost_fill,
            ghost_user: self.ghost_user,
            monitor: self.settings.monitor,
            monitor_user: self.settings.monitor_user,
            history: &mut self.settings.history,
            log: &mut self.settings.log,
            verbosity: self.settings.options.int(opt::VERBOSITY),
            failed: None,
        };
        let result = work(core, &mut Given { patches, pointers, on_device }, &mut watch, &self.settings.options);
        watch.failed.map_or(result, Err)
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    pub(super) unsafe fn upload(&mut self, u: *const *const f64, f: *const *const f64) -> Result<()> {
        self.check_fresh()?;
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        if !u.is_null() {
            check_array("u", u)?;
        }
        if !f.is_null() {
            check_array("f", f)?;
        }
        // SAFETY: where not NULL, aligned, and the caller gave a pointer per patch; u is not written through the other
        // type.
        let (u, f) = unsafe {
            (
                if u.is_null() { &[][..] } else { std::slice::from_raw_parts(u.cast::<*mut f64>(), patches.len()) },
                if f.is_null() { &[][..] } else { std::slice::from_raw_parts(f, patches.len()) },
            )
        };
        check_arrays(patches, &Pointers { u, f, r: &[] }, false, &mut self.extents)?;
        let spaces = (core.device(), self.settings.options.int(opt::MEMORY));
        check_spaces(spaces, &Pointers { u, f, r: &[] }, false, &mut self.known)?;
        core.use_stream(self.settings.stream as usize)?;
        if self.resident.is_none() {
            self.resident = Some(Resident::new(core)?);
        }
        let Some(resident) = &self.resident else { return Ok(()) };
        let u = resident.u.iter().zip(u).zip(patches).map(|((to, from), p)| (*to, from.cast_const(), p.ghosted()));
        let f = resident.f_mut.iter().zip(f).zip(patches).map(|((to, from), p)| (*to, *from, p.cells()));
        copy_all(core, &collected(u.chain(f), PATCHES)?)
    }

    /// # Safety
    /// The table must be NULL or hold a pointer per patch.
    pub(super) unsafe fn download(&mut self, u: *const *mut f64) -> Result<()> {
        self.check_fresh()?;
        check_array("u", u)?;
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        let resident = self.resident.as_ref().ok_or_else(|| Error::State(NOT_UPLOADED.to_owned()))?;
        // SAFETY: not NULL, aligned, and the caller gave a pointer per patch.
        let u = unsafe { std::slice::from_raw_parts(u, patches.len()) };
        check_arrays(patches, &Pointers { u, f: &[], r: &[] }, true, &mut self.extents)?;
        let spaces = (core.device(), self.settings.options.int(opt::MEMORY));
        check_spaces(spaces, &Pointers { u, f: &[], r: &[] }, false, &mut self.known)?;
        let copies = resident.u.iter().zip(u).zip(patches).map(|((from, to), p)| (*to, from.cast_const(), p.ghosted()));
        core.use_stream(self.settings.stream as usize)?;
        copy_all(core, &collected(copies, PATCHES)?)
    }
}

impl Handle for smoother_handle {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn set(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let changed = self.settings.changed(change, |_| Ok(()))?;
        let next = &changed.options;
        if !next.same_setup(&self.settings.options) && self.stale.is_none() {
            self.stale = Some(CHANGED);
        }
        if let (None, Some(core)) = (self.stale, &mut self.core) {
            core.use_stream(self.settings.stream as usize)?;
            core.prepare(next)?;
        }
        self.settings.take(changed);
        Ok(())
    }

    fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)> {
        let entry = RESULTS.iter().find(|r| r.key == key && Family::Smoother.knows(r.family))?;
        if [info::INITIAL_RESIDUAL, info::FINAL_RESIDUAL].contains(&key) && !self.watched {
            let name = entry.name;
            let sentence =
                format!("{name} is known after a smoother_apply with a monitor; smoother_residual computes one");
            return Some((entry, Err(Error::State(sentence))));
        }
        let core = self.core.as_ref();
        let of_core = |get: &dyn Fn(&Smoother) -> f64| core.map_or(0.0, get);
        let relative = |norm: f64| relative(norm, self.swept.initial_residual);
        let value = match key {
            info::ITERATIONS => self.swept.sweeps as f64,
            info::STOP_REASON if self.swept.stopped => f64::from(StopReason::Monitor as i32),
            info::INITIAL_RESIDUAL => relative(self.swept.initial_residual),
            info::FINAL_RESIDUAL => relative(self.swept.residual),
            info::SECONDS_SETUP => self.seconds_setup,
            info::SECONDS_SOLVE => self.seconds_solve,
            info::BYTES_HOST => {
                of_core(&|c| c.bytes() as f64) + self.resident.as_ref().map_or(0, Resident::bytes) as f64
            }
            info::BACKEND => of_core(&|c| c.backend() as f64),
            info::DEVICE => f64::from(core.and_then(Smoother::device).unwrap_or(-1)),
            info::BYTES_DEVICE => of_core(&|c| c.device_bytes() as f64),
            info::SECONDS_TRANSFER => of_core(&Smoother::seconds_transfer),
            info::THREADS => of_core(&|c| c.threads() as f64),
            info::BLOCK_SOLVER => of_core(&|c| c.block_solver() as f64),
            info::BLOCK_INVERSES => of_core(&|c| c.inverses() as f64),
            info::GHOST_COPIES => of_core(&|c| c.ghost_copies() as f64),
            info::CUDA_KERNELS => f64::from(u8::from(backend::cuda::driver::HAS_KERNELS)),
            info::CELLS => of_core(&|c| c.patches().iter().map(Patch::cells).sum::<usize>() as f64),
            _ => 0.0,
        };
        Some((entry, Ok(value)))
    }
}

/// For errors.
const BACKEND: &str = "a backend";

/// Concrete backends are named here and nowhere else in this family.
fn make_backend(place: Place) -> Result<Box<dyn BlockBackend>> {
    Ok(match place {
        Place::Reference => boxed(backend::reference::smoother::ReferenceBlocks::default(), BACKEND)?,
        Place::Cpu(threads) => boxed(backend::cpu::smoother::CpuBlocks::new(threads)?, BACKEND)?,
        Place::Cuda(device, threads) => boxed(backend::cuda::smoother::CudaBlocks::new(device, threads)?, BACKEND)?,
    })
}
