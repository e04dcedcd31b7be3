//! Family `dpcg_`: 3D 7-point symmetric stencils.
//!
//! Arrays are `a[k * lp + j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny, nz)`. `east[i, j, k]` is the
//! matrix entry between (i, j, k) and (i + 1, j, k), and so on. Pointers are borrowed for the call only.

use crate::backend;
use crate::backend::steps::dpcg::DpcgBackend;
use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, reserve};
use crate::ffi::handle::{Handle, create, with_ok};
use crate::ffi::spaces::{check_array, check_on_host};
use crate::ffi::system::{Layout, Located, System, SystemHandle, Task, run, solve, solve_once};
use crate::ffi::watch::Words;
use crate::ffi::{environment, rrb_status};
use crate::grid::cells::{CellView, Cells, Values};
use crate::options::{Backend, Choice, Family, info, opt};
use crate::runtime::heap::boxed;
use crate::solver::dpcg::{Dpcg, machine};
use crate::solver::machine::Machine;

/// One matrix with its preconditioner and deflation vectors. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct dpcg_handle {
    system: System<Dpcg>,
    /// The caller's regions, cell by cell; empty: none were given.
    labels: Vec<i32>,
}

const WORDS: Words =
    Words { family: Family::Dpcg, name: "dpcg", setup: "dpcg_factorize", at: "factorize", step: "iteration" };

/// Makes a handle for matrices on nx x ny x nz cells, with the default options and those of `RRBSOLVER_OPTIONS`; nx *
/// ny * nz is at most 2^32 - 1. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming;
/// memory for the matrix is taken at `dpcg_factorize`.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_create(nx: i64, ny: i64, nz: i64, out: *mut *mut dpcg_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { create(out, || dpcg_handle::new(nx, ny, nz)) }
}

/// The caller's deflation regions, for `deflation=levelset` and `levelset_subdomain`: cells with the same label, 0 and
/// up, are one region, such as one bubble; -1: in none. Gaps and labels without cells are legal; a label across
/// connected components of the matrix is split. `labels` is in the memory of the host, whatever `memory` is, in the
/// layout of the other arrays: (nz - 1) * lp + (ny - 1) * ld + nx values, read; padding is not. The labels are copied,
/// and act at the next `dpcg_factorize`: until then `dpcg_solve` answers `RRB_ERR_STATE`. NULL: none again, and regions
/// are found from the strong couplings of the matrix. Errors: `RRB_ERR_NULL` (the handle), `RRB_ERR_ARGUMENT` (a label
/// below -1, by its place; labels at no multiple of 4 bytes or on a device), `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`, all
/// with the regions as they were. How many there are is asked where they are used: a `dpcg_factorize` that deflates by
/// labels (`deflation` auto, levelset or levelset_subdomain) refuses more than 65,535 regions with `RRB_ERR_ARGUMENT`;
/// one with `deflation=none` or `subdomain` leaves labels aside.
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`; `labels` must be NULL or have the size named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_set_regions(h: *mut dpcg_handle, labels: *const i32) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { with_ok(h, |h| h.set_regions(labels)) }
}

/// Copies the coefficients, and makes the preconditioner M, the deflation vectors Z and E = Z^T A Z. The matrix has 7
/// points; couplings are usually negative, conductances between cells. Entries that point outside the grid are ignored:
/// where some are neither zero nor NaN, a log line says so, once a handle, and `check_input=2` refuses them. Padding is
/// not read. Cells that are no part of the problem (solid) are rows with zero couplings and a positive center. Host
/// arrays of (nz - 1) * lp + (ny - 1) * ld + nx values, read; ld and lp are nx and ny * ld unless `leading_dimension`
/// and `leading_plane` say otherwise. Afterwards, or after a failure, the handle holds the new matrix or none. auto
/// takes by the matrix what is the same for any number of threads and any backend (but for the solver of E, and
/// multigrid for amg with `backend=reference`, which has none); results such as `RRB_INFO_PRECONDITIONER`,
/// `RRB_INFO_DEFLATION`, `RRB_INFO_COARSENING` and `RRB_INFO_AUTO_REASON` tell what is in use, and why. Errors:
/// `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (an array at no multiple of 8 bytes, more boxes than cells, more than 65,535
/// deflation regions, couplings out of the grid), `RRB_ERR_UNSUPPORTED` (`preconditioner=ic0` or `ric`, or
/// `coarse_solver=cg`, on a device, amg on as many cells as 32 bits do not count couplings of, and what this build
/// lacks), `RRB_ERR_MATRIX` (a center that is not positive, a lost pivot, such as that of `ric_omega=1` on a singular
/// matrix), `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`. A second call reuses memory. Source: Tang, Nabben, Vuik and
/// Erlangga, J. Sci. Comput. 39 (2009), 340-370, for deflated CG; van der Vorst, SIAM J. Sci. Stat. Comput. 3 (1982),
/// 350-356, for truncated Neumann series; Dendy, J. Comput. Phys. 48 (1982), 366-386, for multigrid; Napov and Notay,
/// SIAM J. Sci. Comput. 34 (2012), A1079-A1109, for amg.
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`; the arrays must be NULL or have the size named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_factorize(
    h: *mut dpcg_handle,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    top: *const f64,
) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { with_ok(h, |h| h.factorize(center, [east, north, top])) }
}

/// Solves A x = b by deflated preconditioned CG. `x` is the initial guess on entry and the solution on return; `b` is
/// not written. Stops when norm(b - A x) <= max(rel_tol * reference, abs_tol), of the caller's matrix, not of the
/// deflated one. b = 0 gives x = 0 at once; a guess that meets the test is returned in 0 iterations. On singular
/// components b is projected and x keeps the guess's mean. Returns `RRB_OK`, `RRB_NOT_CONVERGED`, `RRB_STOPPED`;
/// errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of 8 bytes), `RRB_ERR_STATE`,
/// `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too small), `RRB_ERR_BREAKDOWN`,
/// `RRB_ERR_INCOMPATIBLE`, all with x as given. x and the test are in double precision whatever `precision` is. Takes
/// no memory, starts no thread; on a device, pageable arrays of the host get buffers and threads with the first solve
/// that has them (docs/gpu.md). Source: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370.
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`; the arrays must be NULL or hold (nz - 1) * lp + (ny - 1) * ld + nx
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_solve(h: *mut dpcg_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { solve(h, ("b", b), ("x", x), Dpcg::solve) }
}

/// z = M^-1 r, for a foreign Krylov loop; with deflation z = (P^T M^-1 P + Z E^-1 Z^T) r, P = I - A Z E^-1 Z^T. A fixed
/// symmetric positive definite matrix (on the complement of the null space where singular: r and z are projected), to
/// the rounding of `precision` and, with `coarse_solver=cg`, to `coarse_tol`; with amg it changes with r: take a
/// flexible method. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (as for `dpcg_solve`), `RRB_ERR_STATE`,
/// `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a double).
///
/// # Safety
/// As for `dpcg_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_apply(h: *mut dpcg_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { run(h, ("r", r), ("z", z), Dpcg::apply) }
}

/// y = A x with the matrix of the last `dpcg_factorize`, not deflated. Errors as for `dpcg_apply`.
///
/// # Safety
/// As for `dpcg_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_multiply(h: *mut dpcg_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { run(h, ("x", x), ("y", y), Dpcg::multiply) }
}

/// The one-line replacement of an ICCG call: creates, factorizes, solves to `rel_tol` in at most `max_iter` iterations,
/// frees. Arrays are dense, a[(k*ny + j)*nx + i]; x must overlap none of the others. `iterations` may be NULL. Statuses
/// and errors of `dpcg_create`, `dpcg_factorize` and `dpcg_solve`.
///
/// # Safety
/// As for `dpcg_factorize` and `dpcg_solve`; `iterations` must be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_solve_once(
    nx: i64,
    ny: i64,
    nz: i64,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    top: *const f64,
    b: *const f64,
    x: *mut f64,
    rel_tol: f64,
    max_iter: i64,
    iterations: *mut i64,
) -> rrb_status {
    let matrix = [("center", center), ("east", east), ("north", north), ("top", top)];
    let task = Task { b, x, rel_tol, max_iter, iterations };
    // SAFETY: as our caller promised.
    let factorize = |h: &mut dpcg_handle| unsafe { h.factorize(center, [east, north, top]) };
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { solve_once(|| dpcg_handle::new(nx, ny, nz), matrix, task, factorize, Dpcg::solve) }
}

impl dpcg_handle {
    fn new(nx: i64, ny: i64, nz: i64) -> Result<Self> {
        let system = System::new(&WORDS, &[("nx", nx), ("ny", ny), ("nz", nz)])?;
        let mut h = Self { system, labels: Vec::new() };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    /// # Safety
    /// `labels` must be NULL or hold the values of the layout.
    unsafe fn set_regions(&mut self, labels: *const i32) -> Result<()> {
        self.labels = if labels.is_null() {
            Vec::new()
        } else {
            let layout = self.system.layout()?;
            check_array("labels", labels)?;
            check_on_host("labels", labels as usize)?;
            // SAFETY: not NULL, aligned, not on a device, and our caller promised the length.
            let given = unsafe { std::slice::from_raw_parts(labels, layout.len) };
            dense_labels(given, self.system.cells, &layout)?
        };
        self.system.base.given("regions");
        Ok(())
    }

    /// # Safety
    /// The arrays must be NULL or hold the values of the layout.
    unsafe fn factorize(&mut self, center: *const f64, forward: [*const f64; 3]) -> Result<()> {
        let system = &mut self.system;
        system.base.begin_setup();
        let (cells, layout) = (system.cells, system.layout()?);
        let Layout { ld, plane, .. } = layout;
        let threads = environment::threads(system.base.options.int(opt::THREADS) as usize);
        let machine = machine(&system.base.options, cells, threads, backend::cuda::driver::device_count());
        let values = |name, array: *const f64| {
            // SAFETY: as our caller promised.
            Ok(match unsafe { system.located((name, array), &layout, machine)? } {
                Located::Host(values) => Values::new(name, values, cells, ld, plane),
                Located::Device(address) => Values::on_device(name, address, cells, ld, plane),
            })
        };
        let center = values("center", center)?;
        let [east, north, top] = forward;
        let a =
            CellView { cells, center, forward: [values("east", east)?, values("north", north)?, values("top", top)?] };
        let labels = (!self.labels.is_empty()).then_some(&self.labels[..]);
        let make = |previous, options: &_, stream| {
            Dpcg::factorize(previous, &a, labels, options, machine, stream, make_backend)
        };
        system.set_up(make, |core| core.outward(&a))?;
        if system.base.core.as_ref().is_some_and(|core| core.done.went_without) {
            system.base.log.line(0, format_args!("dpcg: no memory for amg, which auto would take: multigrid"));
        }
        Ok(())
    }
}

/// For errors.
const LABELS: &str = "a copy of the labels";

/// The labels of the cells, without padding.
fn dense_labels(given: &[i32], cells: Cells, layout: &Layout) -> Result<Vec<i32>> {
    let mut labels = Vec::new();
    reserve(&mut labels, cells.count(), LABELS)?;
    for k in 0..cells.nz {
        for j in 0..cells.ny {
            let row = &given[k * layout.plane + j * layout.ld..][..cells.nx];
            if let Some(i) = row.iter().position(|&label| label < -1) {
                let before = format!("labels must be -1 (in no region) or a number from 0 on, got {} at ", row[i]);
                return Err(Error::at(RRB_ERR_ARGUMENT, before, Place::point(i, j, k), ""));
            }
            labels.extend_from_slice(row);
        }
    }
    Ok(labels)
}

impl SystemHandle for dpcg_handle {
    type Core = Dpcg;

    fn system(&self) -> &System<Dpcg> {
        &self.system
    }

    fn system_mut(&mut self) -> &mut System<Dpcg> {
        &mut self.system
    }

    fn in_use(core: &Dpcg) -> [&'static str; 2] {
        [core.done.preconditioner.name(), core.done.deflation.name()]
    }

    fn result_of(core: &Dpcg, key: i32) -> f64 {
        let done = core.done;
        match key {
            info::PRECISION => done.precision.number() as f64,
            info::COMPONENTS => done.components as f64,
            info::AGGREGATES_KEPT => done.aggregates_kept as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::PRECONDITIONER => done.preconditioner.number() as f64,
            info::AUTO_REASON => done.reason.number() as f64,
            info::DEFLATION => done.deflation.number() as f64,
            info::COARSENING => done.coarsening.number() as f64,
            info::COARSE_SOLVER => done.coarse_solver.number() as f64,
            info::DEFLATION_VECTORS => done.vectors as f64,
            info::REGIONS => done.regions as f64,
            info::STRONG_COMPONENTS => done.strong as f64,
            info::NEUMANN_ROW_SUM => done.row_sum,
            info::SECONDS_DEFLATION => done.seconds.deflation,
            info::SECONDS_COARSE => done.seconds.coarse,
            info::SECONDS_ITERATIONS => done.seconds.iterations,
            _ => 0.0,
        }
    }

    fn own_bytes(&self) -> usize {
        self.labels.capacity() * size_of::<i32>()
    }
}

/// For errors.
const BACKEND: &str = "a backend";

/// Concrete backends are named here and nowhere else.
fn make_backend(machine: Machine) -> Result<Box<dyn DpcgBackend>> {
    Ok(match machine.backend {
        Backend::Reference => boxed(backend::reference::dpcg::Reference::default(), BACKEND)?,
        Backend::Cuda => boxed(backend::cuda::dpcg::Cuda::new(machine.device, machine.threads)?, BACKEND)?,
        Backend::Cpu | Backend::Auto => boxed(backend::cpu::dpcg::Cpu::new(machine.threads), BACKEND)?,
    })
}
