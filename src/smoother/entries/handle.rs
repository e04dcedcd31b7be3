//! The handle of family `smoother_`, and the bodies of its entry points.

use super::arrays::{
    CheckedArrays, KnownSpaces, Resident, Tables, check_arrays, check_spaces, checked_patch, copy_all,
};
use super::watch::{CallerCallbacks, GhostFill};

use crate::abi::guard::store_message;
use crate::abi::handle::{Family, Handle};
use crate::abi::messages::{not_uploaded, not_watched};
use crate::abi::shape::Shape;
use crate::abi::spaces::{AddressRange, list_of};
use crate::base::heap::{Counted, boxed};
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Place, RRB_OK, RRB_STOPPED, Result, collected, reserve};
use crate::options::{self, Backend, Memory, Options, ResultEntry, info, opt};
use crate::report::{Outcome, StopReason};
use crate::smoother::block_inverse::Stencil;
use crate::smoother::patches::{Patch, PatchList};
use crate::smoother::steps::{Callbacks, PatchArrays, Pointers, SmootherBackend, SweepResult};
use crate::smoother::{Smoother, machine, relative_norm};

/// Handle of a block smoother. The handle contains the stencil, the block size, the patches, the block inverses and the
/// options. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct smoother_handle(());

/// Parts of a handle that only this family has.
pub struct Own {
    stencil: Stencil,
    block: [usize; 3],
    pub(super) ghost_fill: GhostFill,
    /// Whether the last call computed residuals.
    watched: bool,
    /// Workspace to sort the arrays of a call by address.
    extents: Vec<AddressRange>,
    pub(super) resident: Option<Resident>,
    known: KnownSpaces,
}

/// Returns the status of a call. If a callback stopped the call, stores a message.
pub(super) fn status_of(swept: &SweepResult) -> i32 {
    if !swept.stopped {
        return RRB_OK;
    }
    store_message(format_args!("stopped by the monitor or the ghost function after {} sweeps", swept.sweeps));
    RRB_STOPPED
}

const PATCHES: &str = "lists of patches";

/// Largest number of cells per side of a block.
const MOST_BLOCK_SIDE: i64 = 8;

pub(super) fn new(stencil: &[f64], sides: [(&'static str, i64); 3]) -> Result<Handle<smoother_handle>> {
    for (name, side) in sides {
        if side < 1 {
            return Err(Error::Dimension(format!("{name} must lie in [1, {MOST_BLOCK_SIDE}], got {side}")));
        }
        if side > MOST_BLOCK_SIDE {
            return Err(Error::range(name, side, format!("lie in [1, {MOST_BLOCK_SIDE}]")));
        }
    }
    if let Some(index) = stencil.iter().position(|v| !v.is_finite()) {
        return Err(Error::not_finite("stencil", stencil[index], Place::entry(index)));
    }
    let own = Own {
        stencil: Stencil::new(stencil),
        block: sides.map(|(_, side)| side as usize),
        ghost_fill: GhostFill { callback: None, user: std::ptr::null_mut() },
        watched: false,
        extents: Vec::new(),
        resident: None,
        known: KnownSpaces::default(),
    };
    Handle::new(Shape::NONE, own)
}

impl Handle<smoother_handle> {
    /// # Safety
    /// `lower` and `size` must be NULL or hold `count` triples.
    pub(super) unsafe fn set_patches(
        &mut self,
        count: i64,
        lower: *const [i64; 3],
        size: *const [i64; 3],
    ) -> Result<()> {
        self.base.begin_setup();
        self.own.resident = None;
        if count < 0 {
            return Err(Error::Dimension(format!("count must be at least 0, got {count}")));
        }
        let given = |list| Some(list).filter(|_| count > 0);
        // SAFETY: guaranteed by the caller.
        let (lower, size) =
            unsafe { (list_of("lower", given(lower), count as usize)?, list_of("size", given(size), count as usize)?) };
        let mut patches: Vec<Patch> = Vec::new();
        reserve(&mut patches, lower.len(), PATCHES)?;
        let mut cells = 0usize;
        for (p, (lower, size)) in lower.iter().zip(size).enumerate() {
            let patch = checked_patch(p, *lower, *size)?;
            cells = cells
                .checked_add(patch.ghosted_cells())
                .filter(|&c| c <= isize::MAX as usize / 8)
                .ok_or_else(|| Error::Dimension("the patches have more cells than can be addressed".to_owned()))?;
            patches.push(patch);
        }
        self.own.extents.clear();
        reserve(&mut self.own.extents, 3 * patches.len(), "addresses of patches")?;

        self.own.known.clear();
        let operator = (&self.own.stencil, self.own.block);
        self.base.set_up(|base, previous| {
            let machine = machine(&base.options, base.threads(), crate::cuda::driver::device_count());
            let stream = base.stream as usize;
            Smoother::set_patches(previous, operator, patches, &base.options, machine, stream, make_backend)
        })
    }

    /// # Safety
    /// Each table must be NULL or contain one pointer per patch. These pointers must be NULL or point to arrays with
    /// the extents of their patch.
    pub(super) unsafe fn apply(&mut self, u: *const *mut f64, f: *const *const f64, sweeps: i32) -> Result<i32> {
        if sweeps < 0 {
            return Err(Error::range("sweeps", sweeps, "be >= 0"));
        }
        let start = self.base.begin_solve();
        self.own.watched = false;
        let swept = self.call(Tables { u, f: Some(f), r: None }, |core, arrays, callbacks, options| {
            core.apply(arrays, callbacks, options, sweeps as usize)
        })?;
        self.own.watched = self.base.watched();
        self.base.outcome = Outcome {
            iterations: swept.sweeps,
            reason: if swept.stopped { StopReason::Monitor } else { StopReason::None },
            initial_residual: relative_norm(swept.initial_norm, swept.initial_norm),
            final_residual: relative_norm(swept.residual_norm, swept.initial_norm),
            ..Outcome::default()
        };
        self.base.end_solve(start);
        let count = self.base.core.as_ref().map_or(0, |c| c.patches().len());
        self.base.log_solve(format_args!("{count} patches, {} sweeps", swept.sweeps));
        Ok(status_of(&swept))
    }

    /// Returns the patches in use.
    fn list(&self) -> Result<Counted<PatchList>> {
        self.base.check_fresh()?;
        let list = self.base.core.as_ref().and_then(Smoother::list);
        list.ok_or_else(|| Error::Internal("there are no patches".to_owned()))
    }

    /// Returns the ordinal of the device, if any, and the option `memory`.
    fn spaces(&self) -> (Option<i32>, Memory) {
        (self.base.core.as_ref().and_then(Smoother::device), self.base.options.choice(opt::MEMORY))
    }

    /// Returns the resident copies that `smoother_upload` creates.
    pub(super) fn resident(&self) -> Result<&Resident> {
        self.base.check_fresh()?;
        self.own.resident.as_ref().ok_or_else(not_uploaded)
    }

    /// Checks the tables of a call and passes them to `work`. If u and f are NULL, passes the resident copies instead.
    pub(super) fn call<T>(
        &mut self,
        tables: Tables,
        work: impl FnOnce(&mut Smoother, &mut dyn PatchArrays, &mut dyn Callbacks, &Options) -> Result<T>,
    ) -> Result<T> {
        let list = self.list()?;
        let patches = &list.patches[..];
        let count = patches.len();
        let no_f = tables.f.is_none_or(|f| f.is_null());
        let own = tables.u.is_null() && no_f;
        let mut pointers = if own {
            match &self.own.resident {
                Some(resident) => Pointers { u: &resident.u, f: &resident.f, r: &[] },
                None if count == 0 => Pointers { u: &[], f: &[], r: &[] },
                None if tables.f.is_none() => return Err(Error::Null("u".into())),
                None => return Err(not_uploaded()),
            }
        } else {
            // SAFETY: the caller passed a table with one pointer per patch.
            let (u, f) = unsafe { (list_of("u", Some(tables.u), count)?, list_of("f", tables.f, count)?) };
            Pointers { u, f, r: &[] }
        };
        // SAFETY: as above.
        pointers.r = unsafe { list_of("r", tables.r, count)? };
        check_arrays(patches, &pointers, true, &mut self.own.extents)?;
        let spaces = self.spaces();
        let on_device = if own {
            let r = Pointers { u: &[], f: &[], r: pointers.r };
            check_spaces(spaces, &r, true, &mut self.own.known)?;
            spaces.0.is_some()
        } else {
            check_spaces(spaces, &pointers, false, &mut self.own.known)?
        };
        let fill = self.own.ghost_fill;
        self.base.run(|core, options, watch| {
            work(
                core,
                &mut CheckedArrays { patches, pointers, on_device },
                &mut CallerCallbacks { fill, watch },
                options,
            )
        })
    }

    /// # Safety
    /// Each table must be NULL or contain one pointer per patch. These pointers must be NULL or point to arrays with
    /// the extents of their patch.
    pub(super) unsafe fn upload(&mut self, u: *const *const f64, f: *const *const f64) -> Result<()> {
        let list = self.list()?;
        let patches = &list.patches[..];
        let (u, f) = (Some(u.cast::<*mut f64>()), Some(f));
        // SAFETY: by the contract of this function, for a table that is not NULL. u is not written through this type.
        let u = unsafe { list_of("u", u.filter(|u| !u.is_null()), patches.len())? };
        // SAFETY: as above.
        let f = unsafe { list_of("f", f.filter(|f| !f.is_null()), patches.len())? };
        let given = Pointers { u, f, r: &[] };
        check_arrays(patches, &given, false, &mut self.own.extents)?;
        check_spaces(self.spaces(), &given, false, &mut self.own.known)?;
        let resident = &mut self.own.resident;
        self.base.run(|core, _, _| {
            let resident = match resident {
                Some(resident) => resident,
                none => none.insert(Resident::new(core)?),
            };
            let u = resident
                .u
                .iter()
                .zip(u)
                .zip(patches)
                .map(|((to, from), p)| (*to, from.cast_const(), p.ghosted_cells()));
            let f = resident.f_mut.iter().zip(f).zip(patches).map(|((to, from), p)| (*to, *from, p.cells()));
            copy_all(core, &collected(u.chain(f), PATCHES)?)
        })
    }

    /// # Safety
    /// `u` must be NULL or contain one pointer per patch. These pointers must be NULL or point to arrays with the
    /// extents of their patch.
    pub(super) unsafe fn download(&mut self, u: *const *mut f64) -> Result<()> {
        let list = self.list()?;
        let patches = &list.patches[..];
        // SAFETY: by the contract of this function; `list_of` returns an error for NULL.
        let u = unsafe { list_of("u", Some(u), patches.len())? };
        self.resident()?;
        let given = Pointers { u, f: &[], r: &[] };
        check_arrays(patches, &given, true, &mut self.own.extents)?;
        check_spaces(self.spaces(), &given, false, &mut self.own.known)?;
        let from = self.own.resident.iter().flat_map(|resident| &resident.u);
        let copies = from.zip(u).zip(patches).map(|((from, to), p)| (*to, from.cast_const(), p.ghosted_cells()));
        let copies = collected(copies, PATCHES)?;
        self.base.run(|core, _, _| copy_all(core, &copies))
    }
}

impl Family for smoother_handle {
    const FAMILY: options::Family = options::Family::Smoother;
    type Core = Smoother;
    type Own = Own;

    fn bytes(own: &Own) -> [usize; 2] {
        [own.resident.as_ref().map_or(0, Resident::bytes), 0]
    }

    fn result(h: &Handle<Self>, entry: &ResultEntry) -> Result<Option<f64>> {
        if [info::INITIAL_RESIDUAL, info::FINAL_RESIDUAL].contains(&entry.key) && !h.own.watched {
            return Err(not_watched(entry.name));
        }
        Ok(None)
    }
}

const BACKEND: &str = "a backend";

/// Creates a backend. Only this function names the concrete backends of this family.
fn make_backend(machine: Machine) -> Result<Box<dyn SmootherBackend>> {
    let Machine { backend, threads, device, .. } = machine;
    Ok(match backend {
        Backend::Reference => boxed(crate::smoother::reference::Reference::default(), BACKEND)?,
        Backend::Cuda => boxed(crate::smoother::cuda::Cuda::new(device, threads)?, BACKEND)?,
        Backend::Cpu | Backend::Auto => boxed(crate::smoother::cpu::Cpu::new(threads)?, BACKEND)?,
    })
}
