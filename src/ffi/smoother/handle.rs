//! The handle of the family, and the bodies of its entry points.

use super::arrays::{Given, Known, Resident, Tables, check_arrays, check_spaces, checked_patch, copy_all};
use super::watch::{GhostFill, Ghosts};
use crate::backend;
use crate::backend::steps::smoother::{PatchArrays, Pointers, SmootherBackend, Swept, Watcher};
use crate::error::{Error, Place, RRB_OK, RRB_STOPPED, Result, collected, reserve};
use crate::ffi::guard::note;
use crate::ffi::handle::{Base, Handle};
use crate::ffi::spaces::{Extent, list_of};
use crate::ffi::watch::Words;
use crate::ffi::{environment, rrb_monitor_fn};
use crate::grid::block_inverse::Stencil;
use crate::grid::patches::{Patch, PatchList};
use crate::options::{Backend, Choice, Family, Memory, Options, ResultEntry, info, opt};
use crate::report::StopReason;
use crate::runtime::heap::{Counted, boxed};
use crate::solver::machine::{Core, Machine};
use crate::solver::smoother::{Smoother, machine, relative};
use libc::c_void;

/// Handle of a block smoother. The handle contains the stencil, the block size, the patches, the block inverses and the
/// options. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct smoother_handle {
    stencil: Stencil,
    block: [usize; 3],
    pub(super) base: Base<Smoother>,
    pub(super) ghost_fill: GhostFill,
    swept: Swept,
    /// Whether the last call computed residuals.
    watched: bool,
    /// Workspace to sort the arrays of a call by address.
    extents: Vec<Extent>,
    pub(super) resident: Option<Resident>,
    known: Known,
}

const WORDS: Words = Words {
    family: Family::Smoother,
    name: "smoother",
    setup: "smoother_set_patches",
    at: "set_patches",
    step: "sweep",
};

/// The status of a call that a callback may have stopped; then it leaves a message.
pub(super) fn status_of(swept: &Swept) -> i32 {
    if !swept.stopped {
        return RRB_OK;
    }
    note(format_args!("stopped by the monitor or the ghost function after {} sweeps", swept.sweeps));
    RRB_STOPPED
}

fn not_uploaded() -> Error {
    Error::State("u and f are NULL: smoother_upload must come before this call".to_owned())
}

/// Largest number of residuals that are recorded per apply.
const HISTORY: usize = 100_000;

const PATCHES: &str = "lists of patches";

/// Largest number of cells per side of a block.
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
            return Err(Error::not_finite("stencil", stencil[index], Place::entry(index)));
        }
        let mut h = Self {
            stencil: Stencil::new(stencil),
            block: sides.map(|(_, side)| side as usize),
            base: Base::new(&WORDS),
            ghost_fill: GhostFill { callback: None, user: std::ptr::null_mut() },
            swept: Swept::default(),
            watched: false,
            extents: Vec::new(),
            resident: None,
            known: Known::default(),
        };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    /// # Safety
    /// `lower` and `size` must be NULL or hold `count` triples.
    pub(super) unsafe fn set_patches(
        &mut self,
        count: i64,
        lower: *const [i64; 3],
        size: *const [i64; 3],
    ) -> Result<()> {
        self.base.begin_setup();
        self.resident = None;
        if count < 0 {
            return Err(Error::Dimension(format!("count must be at least 0, got {count}")));
        }
        let given = |list| Some(list).filter(|_| count > 0);
        // SAFETY: as our caller promised.
        let (lower, size) =
            unsafe { (list_of("lower", given(lower), count as usize)?, list_of("size", given(size), count as usize)?) };
        let mut patches: Vec<Patch> = Vec::new();
        reserve(&mut patches, lower.len(), PATCHES)?;
        let mut cells = 0usize;
        for (p, (lower, size)) in lower.iter().zip(size).enumerate() {
            let patch = checked_patch(p, *lower, *size)?;
            cells = cells
                .checked_add(patch.ghosted())
                .filter(|&c| c <= isize::MAX as usize / 8)
                .ok_or_else(|| Error::Dimension("the patches have more cells than can be addressed".to_owned()))?;
            patches.push(patch);
        }
        self.extents.clear();
        reserve(&mut self.extents, 3 * patches.len(), "addresses of patches")?;

        self.known.clear();
        let operator = (&self.stencil, self.block);
        self.base.set_up(|base, previous| {
            let threads = environment::threads(base.options.int(opt::THREADS) as usize);
            let machine = machine(&base.options, threads, backend::cuda::driver::device_count());
            let stream = base.stream as usize;
            Smoother::set_patches(previous, operator, patches, &base.options, machine, stream, make_backend)
        })
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    pub(super) unsafe fn apply(&mut self, u: *const *mut f64, f: *const *const f64, sweeps: i32) -> Result<i32> {
        if sweeps < 0 {
            return Err(Error::range("sweeps", sweeps, "be >= 0"));
        }
        let start = self.base.begin_solve();
        (self.swept, self.watched) = (Swept::default(), false);
        let swept = self.call(Tables { u, f: Some(f), r: None }, |core, arrays, watcher, options| {
            core.apply(arrays, watcher, options, sweeps as usize)
        })?;
        (self.swept, self.watched) = (swept, self.base.watched());
        self.base.end_solve(start);
        let count = self.base.core.as_ref().map_or(0, |c| c.patches().len());
        self.base.log_solve(format_args!("{count} patches, {} sweeps", swept.sweeps));
        Ok(status_of(&swept))
    }

    /// The patches in use.
    fn list(&self) -> Result<Counted<PatchList>> {
        self.base.check_fresh()?;
        let list = self.base.core.as_ref().and_then(Smoother::list);
        list.ok_or_else(|| Error::Internal("there are no patches".to_owned()))
    }

    /// Device and the option `memory`.
    fn spaces(&self) -> (Option<i32>, Memory) {
        (self.base.core.as_ref().and_then(Smoother::device), self.base.options.choice(opt::MEMORY))
    }

    /// The arrays of `smoother_upload`.
    pub(super) fn resident(&self) -> Result<&Resident> {
        self.base.check_fresh()?;
        self.resident.as_ref().ok_or_else(not_uploaded)
    }

    /// Checks the tables and passes them to `work`.
    pub(super) fn call<T>(
        &mut self,
        tables: Tables,
        work: impl FnOnce(&mut Smoother, &mut dyn PatchArrays, &mut dyn Watcher, &Options) -> Result<T>,
    ) -> Result<T> {
        let list = self.list()?;
        let patches = &list.patches[..];
        let count = patches.len();
        let no_f = tables.f.is_none_or(|f| f.is_null());
        let own = tables.u.is_null() && no_f;
        let mut pointers = if own {
            match &self.resident {
                Some(resident) => Pointers { u: &resident.u, f: &resident.f, r: &[] },
                None if count == 0 => Pointers { u: &[], f: &[], r: &[] },
                None if tables.f.is_none() => return Err(Error::Null("u".into())),
                None => return Err(not_uploaded()),
            }
        } else {
            // SAFETY: the caller gave a pointer per patch.
            let (u, f) = unsafe { (list_of("u", Some(tables.u), count)?, list_of("f", tables.f, count)?) };
            Pointers { u, f, r: &[] }
        };
        // SAFETY: as above.
        pointers.r = unsafe { list_of("r", tables.r, count)? };
        check_arrays(patches, &pointers, true, &mut self.extents)?;
        let spaces = self.spaces();
        let on_device = if own {
            let r = Pointers { u: &[], f: &[], r: pointers.r };
            check_spaces(spaces, &r, true, &mut self.known)?;
            spaces.0.is_some()
        } else {
            check_spaces(spaces, &pointers, false, &mut self.known)?
        };
        let fill = self.ghost_fill;
        self.base.run(|core, options, watch| {
            work(core, &mut Given { patches, pointers, on_device }, &mut Ghosts { fill, watch }, options)
        })
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    pub(super) unsafe fn upload(&mut self, u: *const *const f64, f: *const *const f64) -> Result<()> {
        let list = self.list()?;
        let patches = &list.patches[..];
        let (u, f) = (Some(u.cast::<*mut f64>()), Some(f));
        // SAFETY: the caller gave a pointer per patch; u is not written through the other type.
        let u = unsafe { list_of("u", u.filter(|u| !u.is_null()), patches.len())? };
        // SAFETY: as above.
        let f = unsafe { list_of("f", f.filter(|f| !f.is_null()), patches.len())? };
        let given = Pointers { u, f, r: &[] };
        check_arrays(patches, &given, false, &mut self.extents)?;
        check_spaces(self.spaces(), &given, false, &mut self.known)?;
        let resident = &mut self.resident;
        self.base.run(|core, _, _| {
            let resident = match resident {
                Some(resident) => resident,
                none => none.insert(Resident::new(core)?),
            };
            let u = resident.u.iter().zip(u).zip(patches).map(|((to, from), p)| (*to, from.cast_const(), p.ghosted()));
            let f = resident.f_mut.iter().zip(f).zip(patches).map(|((to, from), p)| (*to, *from, p.cells()));
            copy_all(core, &collected(u.chain(f), PATCHES)?)
        })
    }

    /// # Safety
    /// The table must be NULL or hold a pointer per patch.
    pub(super) unsafe fn download(&mut self, u: *const *mut f64) -> Result<()> {
        let list = self.list()?;
        let patches = &list.patches[..];
        // SAFETY: the caller gave a pointer per patch.
        let u = unsafe { list_of("u", Some(u), patches.len())? };
        self.resident()?;
        let given = Pointers { u, f: &[], r: &[] };
        check_arrays(patches, &given, true, &mut self.extents)?;
        check_spaces(self.spaces(), &given, false, &mut self.known)?;
        let from = self.resident.iter().flat_map(|resident| &resident.u);
        let copies = from.zip(u).zip(patches).map(|((from, to), p)| (*to, from.cast_const(), p.ghosted()));
        let copies = collected(copies, PATCHES)?;
        self.base.run(|core, _, _| copy_all(core, &copies))
    }
}

impl Handle for smoother_handle {
    type Core = Smoother;

    fn base(&self) -> &Base<Smoother> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Smoother> {
        &mut self.base
    }

    fn prepare(&mut self, next: &Options, fresh: bool) -> Result<()> {
        match &mut self.base {
            Base { core: Some(core), stream, .. } if fresh => {
                core.use_stream(*stream as usize)?;
                core.prepare(next)
            }
            _ => Ok(()),
        }
    }

    fn set_stream(&mut self, stream: *mut c_void) -> Result<()> {
        let fresh = self.base.is_fresh();
        if let Some(core) = &mut self.base.core {
            // set_patches may select another device, so that the stream cannot be used before it.
            core.use_stream(if fresh { stream as usize } else { 0 })?;
        }
        self.base.stream = stream;
        Ok(())
    }

    fn set_monitor(&mut self, callback: rrb_monitor_fn, user: *mut c_void) -> Result<()> {
        self.base.history.reserve_residuals(HISTORY)?;
        self.base.set_monitor(callback, user);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.resident.as_ref().map_or(0, Resident::bytes)
    }

    fn own_result(&self, entry: &ResultEntry) -> Result<f64> {
        let (key, swept, name) = (entry.key, &self.swept, entry.name);
        if [info::INITIAL_RESIDUAL, info::FINAL_RESIDUAL].contains(&key) && !self.watched {
            return Err(Error::State(format!(
                "{name} is available only after smoother_apply with a monitor; smoother_residual computes a norm"
            )));
        }
        let of_core = |get: &dyn Fn(&Smoother) -> f64| self.base.core.as_ref().map_or(0.0, get);
        Ok(match key {
            info::ITERATIONS => swept.sweeps as f64,
            info::STOP_REASON if swept.stopped => StopReason::Monitor.number() as f64,
            info::INITIAL_RESIDUAL => relative(swept.initial_residual, swept.initial_residual),
            info::FINAL_RESIDUAL => relative(swept.residual, swept.initial_residual),
            info::BLOCK_SOLVER => of_core(&|c| c.block_solver().number() as f64),
            info::BLOCK_INVERSES => of_core(&|c| c.inverses() as f64),
            info::GHOST_COPIES => of_core(&|c| c.ghost_copies() as f64),
            info::CELLS => of_core(&|c| c.patches().iter().map(Patch::cells).sum::<usize>() as f64),
            _ => 0.0,
        })
    }
}

const BACKEND: &str = "a backend";

/// Creates a backend; the only place in this family that names concrete backends.
fn make_backend(machine: Machine) -> Result<Box<dyn SmootherBackend>> {
    let Machine { backend, threads, device, .. } = machine;
    Ok(match backend {
        Backend::Reference => boxed(backend::reference::smoother::Reference::default(), BACKEND)?,
        Backend::Cuda => boxed(backend::cuda::smoother::Cuda::new(device, threads)?, BACKEND)?,
        Backend::Cpu | Backend::Auto => boxed(backend::cpu::smoother::Cpu::new(threads)?, BACKEND)?,
    })
}
