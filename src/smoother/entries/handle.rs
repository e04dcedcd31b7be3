//! The handle of family `smoother_`, and the bodies of its entry points.

use super::arrays::{
    CachedSpaces, CallerTables, CheckedArrays, ResidentCopies, check_arrays, check_patch, check_spaces, copy_between,
};
use super::watch::{CallerCallbacks, GhostFill};

use crate::abi::guard::store_message;
use crate::abi::handle::{Family, Handle};
use crate::abi::messages::{not_uploaded, not_watched};
use crate::abi::shape::Shape;
use crate::abi::spaces::{AddressRange, caller_list};
use crate::base::heap::{FallibleArc, boxed};
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Location, RRB_OK, RRB_STOPPED, Result, collected, reserve};
use crate::options::{self, Backend, Memory, Options, ResultEntry, info, opt};
use crate::report::{Outcome, StopReason};
use crate::smoother::block_inverse::Stencil;
use crate::smoother::patches::{Patch, PatchList};
use crate::smoother::steps::{ArrayPointers, Callbacks, PatchArrays, SmootherBackend, SweepResult};
use crate::smoother::{Smoother, choose_machine, relative_norm};

/// Handle of a block smoother. The handle contains the stencil, the block size, the patches, the block inverses and the
/// options. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct smoother_handle(());

/// Data of a handle that only this family needs.
pub struct SmootherParts {
    stencil: Stencil,
    block: [usize; 3],
    pub(super) ghost_fill: GhostFill,
    /// Whether the last `smoother_apply` computed residuals.
    computed_residuals: bool,
    /// Workspace to sort the arrays of a call by address.
    address_ranges: Vec<AddressRange>,
    pub(super) resident: Option<ResidentCopies>,
    cached_spaces: CachedSpaces,
}

/// Returns the status of a call. If a callback stopped the call, stores a message.
pub(super) fn sweep_status(sweep_result: &SweepResult) -> i32 {
    if !sweep_result.stop_requested {
        return RRB_OK;
    }
    store_message(format_args!("stopped by the monitor or the ghost function after {} sweeps", sweep_result.sweeps));
    RRB_STOPPED
}

const PATCH_ALLOCATION_NAME: &str = "lists of patches";

/// Largest number of cells per side of a block.
const MAX_BLOCK_SIDE: i64 = 8;

/// Creates a handle for a stencil and a block size. `sides` contains the name of each side, for error messages, and the
/// number of cells along this side.
pub(super) fn create_handle(stencil: &[f64], sides: [(&'static str, i64); 3]) -> Result<Handle<smoother_handle>> {
    for (name, side) in sides {
        if side < 1 {
            return Err(Error::Dimension(format!("{name} must lie in [1, {MAX_BLOCK_SIDE}], got {side}")));
        }
        if side > MAX_BLOCK_SIDE {
            return Err(Error::range(name, side, format!("lie in [1, {MAX_BLOCK_SIDE}]")));
        }
    }
    if let Some(index) = stencil.iter().position(|v| !v.is_finite()) {
        return Err(Error::not_finite("stencil", stencil[index], Location::entry(index)));
    }
    let own = SmootherParts {
        stencil: Stencil::new(stencil),
        block: sides.map(|(_, side)| side as usize),
        ghost_fill: GhostFill { callback: None, user: std::ptr::null_mut() },
        computed_residuals: false,
        address_ranges: Vec::new(),
        resident: None,
        cached_spaces: CachedSpaces::default(),
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
        self.family_parts.resident = None;
        if count < 0 {
            return Err(Error::Dimension(format!("count must be at least 0, got {count}")));
        }
        let unless_empty = |triples| Some(triples).filter(|_| count > 0);
        // SAFETY: guaranteed by the caller.
        let (lower, size) = unsafe {
            (
                caller_list("lower", unless_empty(lower), count as usize)?,
                caller_list("size", unless_empty(size), count as usize)?,
            )
        };
        let mut patches: Vec<Patch> = Vec::new();
        reserve(&mut patches, lower.len(), PATCH_ALLOCATION_NAME)?;
        let mut total_cells = 0usize;
        for (p, (lower, size)) in lower.iter().zip(size).enumerate() {
            let patch = check_patch(p, *lower, *size)?;
            total_cells = total_cells
                .checked_add(patch.ghosted_cell_count())
                .filter(|&c| c <= isize::MAX as usize / 8)
                .ok_or_else(|| Error::Dimension("the patches have more cells than can be addressed".to_owned()))?;
            patches.push(patch);
        }
        self.family_parts.address_ranges.clear();
        reserve(&mut self.family_parts.address_ranges, 3 * patches.len(), "addresses of patches")?;

        self.family_parts.cached_spaces.clear();
        let stencil_and_block = (&self.family_parts.stencil, self.family_parts.block);
        self.base.set_up(|base, previous| {
            let machine = choose_machine(&base.options, base.threads(), crate::cuda::driver::device_count());
            let stream = base.stream as usize;
            Smoother::set_patches(previous, stencil_and_block, patches, &base.options, machine, stream, make_backend)
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
        self.family_parts.computed_residuals = false;
        let sweep_result = self.call(CallerTables { u, f: Some(f), r: None }, |core, arrays, callbacks, options| {
            core.apply(arrays, callbacks, options, sweeps as usize)
        })?;
        self.family_parts.computed_residuals = self.base.reports_residuals();
        self.base.outcome = Outcome {
            iterations: sweep_result.sweeps,
            reason: if sweep_result.stop_requested { StopReason::Monitor } else { StopReason::None },
            initial_residual: relative_norm(sweep_result.initial_norm, sweep_result.initial_norm),
            final_residual: relative_norm(sweep_result.residual_norm, sweep_result.initial_norm),
            ..Outcome::default()
        };
        self.base.end_solve(start);
        let count = self.base.core.as_ref().map_or(0, |c| c.patches().len());
        self.base.log_solve(format_args!("{count} patches, {} sweeps", sweep_result.sweeps));
        Ok(sweep_status(&sweep_result))
    }

    /// Returns the patches in use.
    fn patch_list(&self) -> Result<FallibleArc<PatchList>> {
        self.base.check_current()?;
        let patch_list = self.base.core.as_ref().and_then(Smoother::patch_list);
        patch_list.ok_or_else(|| Error::Internal("there are no patches".to_owned()))
    }

    /// Returns the ordinal of the device, if any, and the option `memory`.
    fn spaces(&self) -> (Option<i32>, Memory) {
        (self.base.core.as_ref().and_then(Smoother::device), self.base.options.choice(opt::MEMORY))
    }

    /// Returns the resident copies; an error if `smoother_upload` has not created them.
    pub(super) fn resident(&self) -> Result<&ResidentCopies> {
        self.base.check_current()?;
        self.family_parts.resident.as_ref().ok_or_else(not_uploaded)
    }

    /// Checks the tables of a call and passes them to `operation`. If u and f are NULL, passes the resident copies
    /// instead.
    pub(super) fn call<T>(
        &mut self,
        tables: CallerTables,
        operation: impl FnOnce(&mut Smoother, &mut dyn PatchArrays, &mut dyn Callbacks, &Options) -> Result<T>,
    ) -> Result<T> {
        let patch_list = self.patch_list()?;
        let patches = &patch_list.patches[..];
        let count = patches.len();
        let is_f_null = tables.f.is_none_or(|f| f.is_null());
        let uses_resident = tables.u.is_null() && is_f_null;
        let mut pointers = if uses_resident {
            match &self.family_parts.resident {
                Some(resident) => ArrayPointers { u: &resident.u, f: &resident.f, r: &[] },
                None if count == 0 => ArrayPointers { u: &[], f: &[], r: &[] },
                None if tables.f.is_none() => return Err(Error::Null("u".into())),
                None => return Err(not_uploaded()),
            }
        } else {
            // SAFETY: the caller passed a table with one pointer per patch.
            let (u, f) = unsafe { (caller_list("u", Some(tables.u), count)?, caller_list("f", tables.f, count)?) };
            ArrayPointers { u, f, r: &[] }
        };
        // SAFETY: as above.
        pointers.r = unsafe { caller_list("r", tables.r, count)? };
        check_arrays(patches, &pointers, true, &mut self.family_parts.address_ranges)?;
        let spaces = self.spaces();
        let on_device = if uses_resident {
            let residual_pointers = ArrayPointers { u: &[], f: &[], r: pointers.r };
            check_spaces(spaces, &residual_pointers, true, &mut self.family_parts.cached_spaces)?;
            spaces.0.is_some()
        } else {
            check_spaces(spaces, &pointers, false, &mut self.family_parts.cached_spaces)?
        };
        let ghost_fill = self.family_parts.ghost_fill;
        self.base.run(|core, options, watch| {
            operation(
                core,
                &mut CheckedArrays { patches, pointers, is_on_device: on_device },
                &mut CallerCallbacks { ghost_fill, watch },
                options,
            )
        })
    }

    /// # Safety
    /// Each table must be NULL or contain one pointer per patch. These pointers must be NULL or point to arrays with
    /// the extents of their patch.
    pub(super) unsafe fn upload(&mut self, u: *const *const f64, f: *const *const f64) -> Result<()> {
        let patch_list = self.patch_list()?;
        let patches = &patch_list.patches[..];
        let (u, f) = (Some(u.cast::<*mut f64>()), Some(f));
        // SAFETY: by the contract of this function, for a table that is not NULL. The arrays are only read, although
        // the cast makes their pointers mutable.
        let u = unsafe { caller_list("u", u.filter(|u| !u.is_null()), patches.len())? };
        // SAFETY: as above.
        let f = unsafe { caller_list("f", f.filter(|f| !f.is_null()), patches.len())? };
        let pointers = ArrayPointers { u, f, r: &[] };
        check_arrays(patches, &pointers, false, &mut self.family_parts.address_ranges)?;
        check_spaces(self.spaces(), &pointers, false, &mut self.family_parts.cached_spaces)?;
        let resident = &mut self.family_parts.resident;
        self.base.run(|core, _, _| {
            let resident = match resident {
                Some(resident) => resident,
                vacant => vacant.insert(ResidentCopies::new(core)?),
            };
            let u = resident
                .u
                .iter()
                .zip(u)
                .zip(patches)
                .map(|((target, source), p)| (*target, source.cast_const(), p.ghosted_cell_count()));
            let f = resident
                .f_mut
                .iter()
                .zip(f)
                .zip(patches)
                .map(|((target, source), p)| (*target, *source, p.cell_count()));
            copy_between(core, &collected(u.chain(f), PATCH_ALLOCATION_NAME)?)
        })
    }

    /// # Safety
    /// `u` must be NULL or contain one pointer per patch. These pointers must be NULL or point to arrays with the
    /// extents of their patch.
    pub(super) unsafe fn download(&mut self, u: *const *mut f64) -> Result<()> {
        let patch_list = self.patch_list()?;
        let patches = &patch_list.patches[..];
        // SAFETY: by the contract of this function; `caller_list` returns an error for NULL.
        let u = unsafe { caller_list("u", Some(u), patches.len())? };
        self.resident()?;
        let pointers = ArrayPointers { u, f: &[], r: &[] };
        check_arrays(patches, &pointers, true, &mut self.family_parts.address_ranges)?;
        check_spaces(self.spaces(), &pointers, false, &mut self.family_parts.cached_spaces)?;
        let resident_u = self.family_parts.resident.iter().flat_map(|resident| &resident.u);
        let copies = resident_u
            .zip(u)
            .zip(patches)
            .map(|((source, target), p)| (*target, source.cast_const(), p.ghosted_cell_count()));
        let copies = collected(copies, PATCH_ALLOCATION_NAME)?;
        self.base.run(|core, _, _| copy_between(core, &copies))
    }
}

impl Family for smoother_handle {
    const FAMILY: options::Family = options::Family::Smoother;
    type Core = Smoother;
    type FamilyParts = SmootherParts;

    fn bytes(family_parts: &SmootherParts) -> [usize; 2] {
        [family_parts.resident.as_ref().map_or(0, ResidentCopies::bytes), 0]
    }

    fn result(h: &Handle<Self>, entry: &ResultEntry) -> Result<Option<f64>> {
        if [info::INITIAL_RESIDUAL, info::FINAL_RESIDUAL].contains(&entry.key) && !h.family_parts.computed_residuals {
            return Err(not_watched(entry.name));
        }
        Ok(None)
    }
}

const BACKEND_ALLOCATION_NAME: &str = "a backend";

/// Creates a backend. Only this function names the concrete backends of this family.
fn make_backend(machine: Machine) -> Result<Box<dyn SmootherBackend>> {
    let Machine { backend, threads, device, .. } = machine;
    Ok(match backend {
        Backend::Reference => boxed(crate::smoother::reference::Reference::default(), BACKEND_ALLOCATION_NAME)?,
        Backend::Cuda => boxed(crate::smoother::cuda::Cuda::new(device, threads)?, BACKEND_ALLOCATION_NAME)?,
        Backend::Cpu | Backend::Auto => boxed(crate::smoother::cpu::Cpu::new(threads)?, BACKEND_ALLOCATION_NAME)?,
    })
}
