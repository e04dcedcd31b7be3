//! Block relaxation with exact block inverses (docs/theory/smoother.md). The methods are those of Rodriguez, Philip,
//! Wang and Berrill, "Block-relaxation methods for 3D constant-coefficient stencils on GPUs and multicore CPUs", and
//! coloured block Gauss-Seidel. A patch is a box of cells with one layer of ghost cells around it, and consists of
//! blocks (`patches`). A is the matrix of a constant stencil, A_b its diagonal block for the cells of block b, and
//! omega the relaxation factor.
//!
//! ```text
//! block Jacobi (algorithms 2, 3):     v_b = u_b + omega A_b^-1 (f - A u)_b for all b, then u = v
//! coloured Gauss-Seidel:              u_b = u_b + omega A_b^-1 (f - A u)_b, colour by colour
//! chaotic Gauss-Seidel (algorithm 1): u_b = u_b + omega A_b^-1 (f - A u)_b, in any order
//! ```
//!
//! Before every sweep, the ghost cells that other patches cover are copied from these patches. Within a sweep, patches
//! are therefore coupled as in Jacobi's method. A callback of the caller may fill the other ghost cells.

pub mod block_inverse;
pub mod cpu;
pub mod cuda;
pub mod entries;
pub mod patches;
pub mod reference;
pub mod steps;

use crate::base::engine::Engine;
use crate::base::heap::Counted;
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Place, RRB_ERR_UNSUPPORTED, Result, push};
use crate::options::{self, Backend, BlockSolver, Choice, Memory, Options, Remainder, Transfer, info, opt};
use crate::smoother::block_inverse::{
    MOST_SCALING_CONDITION, PERMITTED_SCALING_CONDITION, Separable, Shape, Stencil, dense_inverse,
};
use crate::smoother::patches::{Cut, Patch, PatchList};
use crate::smoother::steps::{
    Blocks, Callbacks, Inverse, Method, Parallel, PatchArrays, ResidentArrays, SmootherBackend, SmootherSteps,
    SweepResult, Work,
};

/// Executes the sweeps of one call, after a check of the input if `work.check_input` is set. Input that is not finite,
/// a callback that requests a stop, or a norm that overflows ends the call early. All backends use this function.
pub fn run_sweeps(s: &mut dyn SmootherSteps, work: &Work) -> SweepResult {
    let mut done = SweepResult::default();
    if work.check_input {
        done.bad = s.bad_cell();
        if done.bad.is_some() {
            return done;
        }
    }
    if s.watched() {
        compute_and_report_norm(s, work, &mut done);
    }
    while done.sweeps < work.sweeps && !done.stopped && !done.overflow {
        s.exchange();
        if s.fill(done.sweeps as i32) {
            done.stopped = true;
            break;
        }
        let cut = &work.cuts[done.sweeps % 2];
        match work.method {
            Method::Jacobi => s.sweep_jacobi(cut, work.omega),
            Method::Coloured => s.relax_all_colours(cut, work.omega, work.reverse),
            Method::Chaotic => s.sweep_chaotic(cut, work.omega, work.reverse),
        }
        done.sweeps += 1;
        if s.watched() {
            compute_and_report_norm(s, work, &mut done);
        }
    }
    s.store_result();
    done
}

/// Fills the ghost cells, and stores the norm of the residual after the completed sweeps in `done`. Unless the norm
/// overflows, passes its ratio to the initial norm to the monitor.
fn compute_and_report_norm(s: &mut dyn SmootherSteps, work: &Work, done: &mut SweepResult) {
    s.exchange();
    done.stopped = s.fill(RESIDUAL_SWEEP);
    done.residual_norm = norm(s);
    if done.sweeps == 0 {
        done.initial_norm = done.residual_norm;
    }
    done.overflow = is_unusable(done.residual_norm, work);
    if !done.overflow {
        done.stopped |= s.report_residual(done.sweeps, relative_norm(done.residual_norm, done.initial_norm));
    }
}

/// Below this norm, 2^-480, the norm is recomputed with scaled residuals. Above this norm, underflow of squares is
/// harmless: 2^40 squares that underflow change the sum by at most 2^-1035, which is below the rounding error of a sum
/// of 2^-960.
const SMALL_NORM: f64 = f64::from_bits((1023 - 480) << 52);
/// Scale for small norms, 2^600. Squares of residuals are then in the normal range, even for the smallest positive
/// number, 2^-1074.
const SCALE_UP: f64 = f64::from_bits((1023 + 600) << 52);
/// Scale for large norms, 2^-600. The sum of 2^40 squares of residuals up to 2^1024 then does not overflow.
const SCALE_DOWN: f64 = 1.0 / SCALE_UP;

/// Computes ||f - A u||_2. If the norm is below `SMALL_NORM` or infinite, a second pass with scaled residuals prevents
/// underflow or overflow of the squares.
fn norm(s: &mut dyn SmootherSteps) -> f64 {
    let plain = s.residual_norm(1.0);
    let scale = if plain < SMALL_NORM {
        SCALE_UP
    } else if plain == f64::INFINITY {
        SCALE_DOWN
    } else {
        return plain;
    };
    s.residual_norm(scale) / scale
}

/// Returns whether a norm is unusable: infinite, or NaN although `work.check_input` is set. Without this check, NaN may
/// come from the caller's values, and is returned as the norm.
fn is_unusable(norm: f64, work: &Work) -> bool {
    norm.is_infinite() || norm.is_nan() && work.check_input
}

/// Returns norm / first. If `first` is 0, returns 0, or NaN if `norm` is not finite.
pub fn relative_norm(norm: f64, first: f64) -> f64 {
    if first == 0.0 { 0.0 * norm } else { norm / first }
}

/// Sweep number that the callback for ghost cells receives if the ghost cells are needed for a residual.
const RESIDUAL_SWEEP: i32 = -1;

/// Copies the values of ghost cells from the patches that cover them.
pub fn exchange(s: &mut dyn SmootherSteps, _: &Work) -> SweepResult {
    s.exchange();
    SweepResult::default()
}

/// Fills the ghost cells, and computes r = f - A u and its norm.
pub fn residual(s: &mut dyn SmootherSteps, work: &Work) -> SweepResult {
    s.exchange();
    let stopped = s.fill(RESIDUAL_SWEEP);
    let residual_norm = norm(s);
    let overflow = is_unusable(residual_norm, work);
    // The input is searched for NaN and infinity only after an overflow, so finite input needs no additional pass.
    let bad = if overflow && work.check_input { s.bad_cell() } else { None };
    SweepResult { stopped, residual_norm, bad, overflow, ..SweepResult::default() }
}

/// Default relaxation factor of block Jacobi, from Rodriguez et al.
const JACOBI_OMEGA: f64 = 0.8;

/// Creates a backend. The API layer passes this function, so that no other module names a concrete backend.
pub type MakeBlockBackend = fn(Machine) -> Result<Box<dyn SmootherBackend>>;

/// Parameters for which a backend and its inverses were made. Other values require a new backend. `by_transforms`:
/// whether sine transforms apply the inverses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackendParameters {
    machine: Machine,
    by_transforms: bool,
}

/// Selects the backend for the given numbers of threads and devices. `auto` selects a device only if the option
/// `memory` states that the patches are in device memory. For patches in host memory, the copies would take longer than
/// a few sweeps, and the number of sweeps is not known here.
pub fn machine(options: &Options, threads: usize, devices: i32) -> Machine {
    Machine::new(options, threads, devices, options.is(opt::MEMORY, Memory::Device))
}

/// A list of patches with the data for their relaxation.
pub struct Smoother {
    backend: Box<dyn SmootherBackend>,
    backend_parameters: BackendParameters,
    stencil: Stencil,
    block: Shape,
    form: Option<Separable>,
    /// For the plain cut (`Cut::new`) and for the staggered cut (`Cut::staggered`), the index of the first patch whose
    /// edges truncate blocks, if any.
    first_truncated: [Option<usize>; 2],
    /// Whether the option `remainder` is `overlap`.
    overlap: bool,
    /// Whether the inverses of the staggered cut have been computed.
    has_staggered_inverses: bool,
}

impl Smoother {
    /// Sets new patches and computes the inverses of their blocks. The memory and the inverses of `previous` are
    /// reused, unless the machine or the kind of the inverses (dense, or sine transforms) has changed. `previous` has
    /// the same stencil and the same block. `stream` is the caller's CUDA stream; 0 selects the stream of the handle.
    pub fn set_patches(
        previous: Option<Self>,
        (stencil, block): (&Stencil, Shape),
        patches: Vec<Patch>,
        options: &Options,
        machine: Machine,
        stream: usize,
        make: MakeBlockBackend,
    ) -> Result<Self> {
        let list = PatchList::new(patches)?;
        check_memory(options, machine)?;
        let form = Separable::of(stencil);
        let by_transforms = machine.backend != Backend::Reference && choose_transforms(options, form.as_ref(), block)?;
        let backend_parameters = BackendParameters { machine, by_transforms };
        // `filter` drops a backend for other parameters, which frees its memory before the new backend is created.
        let mut smoother = match previous.filter(|smoother| smoother.backend_parameters == backend_parameters) {
            Some(smoother) => smoother,
            None => {
                let (backend, stencil, first_truncated) = (make(machine)?, stencil.clone(), [None; 2]);
                Self {
                    backend,
                    backend_parameters,
                    stencil,
                    block,
                    form,
                    first_truncated,
                    overlap: false,
                    has_staggered_inverses: false,
                }
            }
        };
        smoother.backend.use_stream(stream)?;
        smoother.overlap = options.is(opt::REMAINDER, Remainder::Overlap);
        let plain = Cut::new(block);
        smoother.first_truncated =
            [plain, plain.staggered()].map(|cut| list.patches.iter().position(|p| cut.has_remainder(p)));
        smoother.has_staggered_inverses = false;
        let list = Counted::new(list, "patches")?;
        smoother.backend.set_patches(Blocks { stencil: stencil.clone(), list })?;
        smoother.prepare(options)?;
        Ok(smoother)
    }

    fn add_inverses(&mut self, cut: Cut) -> Result<()> {
        let Some(blocks) = self.backend.blocks() else { return Ok(()) };
        let mut wanted: Vec<(Shape, usize, [usize; 3])> = Vec::new();
        for (p, patch) in blocks.list.patches.iter().enumerate() {
            for (mz, z) in cut.lengths(patch, 2) {
                for (my, y) in cut.lengths(patch, 1) {
                    for (mx, x) in cut.lengths(patch, 0) {
                        let shape = [x, y, z];
                        if !self.backend.has_inverse(shape) && wanted.iter().all(|w| w.0 != shape) {
                            push(&mut wanted, (shape, p, [mx, my, mz]), "shapes of blocks")?;
                        }
                    }
                }
            }
        }
        for (shape, p, m) in wanted {
            let inverse = self.compute_inverse(shape).map_err(|error| match error {
                // The error message names a block of this shape by its first cell.
                Error::Matrix { reason, then, .. } => {
                    Error::Matrix { reason, place: self.place_of_block(&cut, p, m), then }
                }
                other => other,
            })?;
            self.backend.add_inverse(shape, inverse)?;
        }
        Ok(())
    }

    fn place_of_block(&self, cut: &Cut, p: usize, m: [usize; 3]) -> Option<Place> {
        let patch = &self.backend.blocks()?.list.patches[p];
        Some(Place::cell(p, std::array::from_fn(|d| patch.lower[d] + cut.segment(patch, d, m[d]).start as i64)))
    }

    fn compute_inverse(&self, shape: Shape) -> Result<Inverse> {
        match &self.form {
            Some(form) if self.backend_parameters.by_transforms => {
                Ok(Inverse::SineTransforms { reciprocals: form.reciprocals(shape)?, scalings: form.scalings(shape)? })
            }
            _ => Ok(Inverse::Dense(dense_inverse(&self.stencil, shape)?)),
        }
    }

    /// Executes `sweeps` sweeps on the caller's arrays. Returns an error if the options do not fit the backend or the
    /// patches, if the input is not finite, or if a norm is unusable.
    pub fn apply(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
        sweeps: usize,
    ) -> Result<SweepResult> {
        let work = self.work(options, sweeps);
        self.check_overlap(&work)?;
        check_memory(options, self.backend_parameters.machine)?;
        if sweeps == 0 && !work.check_input && !callbacks.watched() {
            return Ok(SweepResult::default());
        }
        let done = self.backend.run(arrays, callbacks, &work, run_sweeps)?;
        self.checked_result(done)
    }

    /// Returns an error if the input is not finite or if a norm is unusable; otherwise returns `done`.
    fn checked_result(&self, done: SweepResult) -> Result<SweepResult> {
        if let Some(bad) = done.bad {
            let lower = self.patches()[bad.patch].lower;
            let cell = std::array::from_fn(|d| lower[d] + bad.cell[d] as i64);
            return Err(Error::not_finite(bad.name, bad.value, Place::cell(bad.patch, cell)));
        }
        if done.overflow {
            let (norm, sweeps) = (done.residual_norm, done.sweeps);
            return Err(Error::Overflow(format!(
                "the norm of the residual after {sweeps} sweeps is {norm}: its values are too large for double \
                 precision (scale the input down), or ghost cells are not finite"
            )));
        }
        Ok(done)
    }

    /// Copies the values of ghost cells from the patches that cover them.
    pub fn exchange(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
    ) -> Result<()> {
        check_memory(options, self.backend_parameters.machine)?;
        let work = self.work(options, 0);
        self.backend.run(arrays, callbacks, &work, exchange).map(|_| ())
    }

    /// Fills the ghost cells, and computes r = f - A u and its norm.
    pub fn residual(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
    ) -> Result<SweepResult> {
        check_memory(options, self.backend_parameters.machine)?;
        let work = self.work(options, 0);
        let done = self.backend.run(arrays, callbacks, &work, residual)?;
        self.checked_result(done)
    }

    /// Returns the current patches and their ghost copy plan.
    pub fn list(&self) -> Option<Counted<PatchList>> {
        self.backend.blocks().map(|b| b.list.clone())
    }

    /// Returns the current patches.
    pub fn patches(&self) -> &[Patch] {
        self.backend.blocks().map_or(&[], |b| &b.list.patches)
    }

    fn work(&self, options: &Options, sweeps: usize) -> Work {
        let method = method(options);
        let omega = match options.real(opt::OMEGA) {
            0.0 if method == Method::Jacobi => JACOBI_OMEGA,
            0.0 => 1.0,
            omega => omega,
        };
        let plain = Cut { overlap: self.overlap, ..Cut::new(self.block) };
        let cuts = match options.int(opt::STAGGER) {
            0 => [plain, plain],
            2 => [plain.staggered(), plain],
            _ => [plain, plain.staggered()],
        };
        let parallel = match options.choice(opt::PARALLEL) {
            options::Parallel::Auto => Parallel::Flat,
            options::Parallel::Patch => Parallel::Patches,
            options::Parallel::Block => Parallel::Blocks,
            options::Parallel::Nested => Parallel::Nested(options.int(opt::PATCH_THREADS) as usize),
        };
        let (reverse, check_input) = (options.on(opt::REVERSE), options.on(opt::CHECK_INPUT));
        let overlap_copies = !options.is(opt::TRANSFER, Transfer::BreadthFirst);
        Work { method, omega, sweeps, cuts, reverse, parallel, check_input, overlap_copies }
    }

    /// Returns an error if `remainder = overlap` shifts blocks, and the blocks of a patch are not relaxed one after the
    /// other. A shifted block overlaps its neighbour, so two threads could write the same cells.
    fn check_overlap(&self, work: &Work) -> Result<()> {
        let serial = work.method == Method::Chaotic && work.parallel == Parallel::Patches;
        let plain = Cut::new(self.block).shift;
        match work.cuts.iter().find_map(|cut| self.first_truncated[usize::from(cut.shift != plain)]) {
            Some(patch) if self.overlap && !serial => Err(Error::at(
                RRB_ERR_UNSUPPORTED,
                "remainder = overlap: blocks of ",
                Place::patch(patch),
                " that an edge cuts would overlap others and be written concurrently; use remainder = exact, or \
                 method = chaotic_gauss_seidel with parallel = patch",
            )),
            _ => Ok(()),
        }
    }

    /// Allocates arrays in device memory for the current patches.
    pub fn allocate_resident_arrays(&mut self) -> Result<ResidentArrays> {
        self.backend.allocate_resident_arrays()
    }

    /// Copies values to, from or between device arrays. Each copy is (target, source, number of values).
    pub fn copy(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        self.backend.copy(copies)
    }
}

impl Core for Smoother {
    fn machine(&self) -> Machine {
        self.backend_parameters.machine
    }

    fn engine(&self) -> &dyn Engine {
        &*self.backend
    }

    fn engine_mut(&mut self) -> &mut dyn Engine {
        &mut *self.backend
    }

    fn result(&self, key: i32) -> f64 {
        match key {
            info::BLOCK_SOLVER if self.backend_parameters.by_transforms => {
                BlockSolver::FastDiagonalization.number() as f64
            }
            info::BLOCK_SOLVER => BlockSolver::Dense.number() as f64,
            info::BLOCK_INVERSES => self.backend.inverse_count() as f64,
            info::GHOST_COPIES => self.backend.blocks().map_or(0, |b| b.list.copies.len()) as f64,
            info::CELLS => self.patches().iter().map(Patch::cells).sum::<usize>() as f64,
            _ => 0.0,
        }
    }

    /// Computes the inverses of the plain cut and, with the option `stagger`, of the staggered cut. Allocates the data
    /// that the method needs in addition to u and f.
    fn prepare(&mut self, options: &Options) -> Result<()> {
        let staggers = options.int(opt::STAGGER) != 0;
        self.add_inverses(Cut { overlap: self.overlap, ..Cut::new(self.block) })?;
        if staggers && !self.has_staggered_inverses {
            self.add_inverses(Cut { overlap: self.overlap, ..Cut::new(self.block).staggered() })?;
            self.has_staggered_inverses = true;
        }
        self.backend.prepare(&self.work(options, 0))
    }
}

fn method(options: &Options) -> Method {
    match options.choice(opt::METHOD) {
        options::Method::ColouredGaussSeidel => Method::Coloured,
        options::Method::BlockJacobi => Method::Jacobi,
        options::Method::ChaoticGaussSeidel => Method::Chaotic,
    }
}

fn check_memory(options: &Options, machine: Machine) -> Result<()> {
    if options.is(opt::MEMORY, Memory::Device) && !machine.is_device() {
        return Err(Error::Unsupported("memory = device needs backend = cuda".to_owned()));
    }
    Ok(())
}

fn choose_transforms(options: &Options, form: Option<&Separable>, block: Shape) -> Result<bool> {
    match options.choice(opt::BLOCK_SOLVER) {
        BlockSolver::Dense => Ok(false),
        BlockSolver::FastDiagonalization if form.is_none() => Err(Error::Unsupported(
            "block_solver = fast_diagonalization: no scaling makes this stencil symmetric in x, y and z; use auto \
             or dense"
                .to_owned(),
        )),
        wanted => {
            let condition = form.map_or(f64::INFINITY, |f| f.scaling_condition(block));
            if wanted == BlockSolver::FastDiagonalization && condition >= PERMITTED_SCALING_CONDITION {
                let [x, y, z] = block;
                return Err(Error::Unsupported(format!(
                    "block_solver = fast_diagonalization: the scaling that makes this stencil symmetric has the \
                     condition number {condition:.0e} on blocks of {x} x {y} x {z} cells, which must be below \
                     {PERMITTED_SCALING_CONDITION:e}; use auto or dense, or smaller blocks"
                )));
            }
            Ok(wanted == BlockSolver::FastDiagonalization || condition < MOST_SCALING_CONDITION)
        }
    }
}
