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
use crate::base::heap::FallibleArc;
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Location, RRB_ERR_UNSUPPORTED, Result, push};
use crate::options::{self, Backend, BlockSolver, Choice, Memory, Options, Remainder, Transfer, info, opt};
use crate::smoother::block_inverse::{
    BlockShape, MAX_PERMITTED_SCALING_CONDITION, MAX_SCALING_CONDITION, SeparableStencil, Stencil, dense_inverse,
};
use crate::smoother::patches::{BlockPartition, Patch, PatchList};
use crate::smoother::steps::{
    Callbacks, Inverse, Method, PatchArrays, PatchSystem, ResidentArrays, SmootherBackend, SmootherSteps,
    SweepParameters, SweepResult, WorkDivision,
};

/// Executes the sweeps of one call. If `parameters.check_input` is set, first searches u and f for values that are not
/// finite. Such a value, a callback that requests a stop, or an unusable norm (`is_unusable`) ends the call early. All
/// backends use this function.
pub fn run_sweeps(steps: &mut dyn SmootherSteps, parameters: &SweepParameters) -> SweepResult {
    let mut result = SweepResult::default();
    if parameters.check_input {
        result.nonfinite_cell = steps.find_nonfinite_cell();
        if result.nonfinite_cell.is_some() {
            return result;
        }
    }
    if steps.has_monitor() {
        compute_and_report_norm(steps, parameters, &mut result);
    }
    while result.sweeps < parameters.sweeps && !result.stop_requested && !result.has_overflow {
        steps.exchange_ghosts();
        if steps.fill_ghosts(result.sweeps as i32) {
            result.stop_requested = true;
            break;
        }
        let partition = &parameters.partitions[result.sweeps % 2];
        match parameters.method {
            Method::Jacobi => steps.sweep_jacobi(partition, parameters.omega),
            Method::Coloured => steps.relax_all_colours(partition, parameters.omega, parameters.reverse),
            Method::Chaotic => steps.sweep_chaotic(partition, parameters.omega, parameters.reverse),
        }
        result.sweeps += 1;
        if steps.has_monitor() {
            compute_and_report_norm(steps, parameters, &mut result);
        }
    }
    steps.store_result();
    result
}

/// Fills the ghost cells, computes the norm of the residual, and stores this norm in `result`. Unless the norm is
/// unusable (`is_unusable`), reports norm / initial norm to the monitor. Sets `result.stop_requested` if a callback
/// requests a stop.
fn compute_and_report_norm(steps: &mut dyn SmootherSteps, parameters: &SweepParameters, result: &mut SweepResult) {
    steps.exchange_ghosts();
    result.stop_requested = steps.fill_ghosts(RESIDUAL_SWEEP);
    result.residual_norm = compute_norm(steps);
    if result.sweeps == 0 {
        result.initial_norm = result.residual_norm;
    }
    result.has_overflow = is_unusable(result.residual_norm, parameters);
    if !result.has_overflow {
        result.stop_requested |=
            steps.report_residual(result.sweeps, relative_norm(result.residual_norm, result.initial_norm));
    }
}

/// Norms below 2^-480 are recomputed with scaled residuals. For larger norms, underflow of squares is harmless: the sum
/// of squares is at least 2^-960, and 2^40 squares that underflow change this sum by at most 2^-1035, which is below
/// the rounding error of the sum.
const SMALL_NORM: f64 = f64::from_bits((1023 - 480) << 52);
/// Factor by which residuals are multiplied if the norm is small: 2^600. The square of a scaled nonzero residual is
/// then in the normal range, even if the residual is the smallest positive number, 2^-1074.
const SCALE_UP: f64 = f64::from_bits((1023 + 600) << 52);
/// Factor by which residuals are multiplied if the norm is infinite: 2^-600. For residuals up to 2^1024, the sum of
/// 2^40 squares of scaled residuals does not overflow.
const SCALE_DOWN: f64 = 1.0 / SCALE_UP;

/// Computes ||f - A u||_2. If the norm is below `SMALL_NORM` or infinite, a second pass with scaled residuals prevents
/// underflow or overflow of the squares.
fn compute_norm(steps: &mut dyn SmootherSteps) -> f64 {
    let unscaled_norm = steps.compute_residual_norm(1.0);
    let scale = if unscaled_norm < SMALL_NORM {
        SCALE_UP
    } else if unscaled_norm == f64::INFINITY {
        SCALE_DOWN
    } else {
        return unscaled_norm;
    };
    steps.compute_residual_norm(scale) / scale
}

/// Returns whether a norm is unusable: infinite, or NaN although `parameters.check_input` is set. Without
/// `check_input`, u or f may contain NaN. A norm that is NaN is then returned to the caller.
fn is_unusable(norm: f64, parameters: &SweepParameters) -> bool {
    norm.is_infinite() || norm.is_nan() && parameters.check_input
}

/// Returns norm / initial_norm. If `initial_norm` is 0, returns 0, or NaN if `norm` is not finite.
pub fn relative_norm(norm: f64, initial_norm: f64) -> f64 {
    if initial_norm == 0.0 { 0.0 * norm } else { norm / initial_norm }
}

/// Value that the ghost function receives instead of a sweep number, if the ghost cells are filled for a residual.
const RESIDUAL_SWEEP: i32 = -1;

/// Copies to each ghost cell that another patch covers the value from that other patch.
pub fn exchange_ghosts(steps: &mut dyn SmootherSteps, _: &SweepParameters) -> SweepResult {
    steps.exchange_ghosts();
    SweepResult::default()
}

/// Fills the ghost cells, and computes r = f - A u and its norm.
pub fn compute_residual(steps: &mut dyn SmootherSteps, parameters: &SweepParameters) -> SweepResult {
    steps.exchange_ghosts();
    let stop_requested = steps.fill_ghosts(RESIDUAL_SWEEP);
    let residual_norm = compute_norm(steps);
    let has_overflow = is_unusable(residual_norm, parameters);
    // u and f are searched for values that are not finite only after an overflow, so finite input needs no additional
    // pass.
    let nonfinite_cell = if has_overflow && parameters.check_input { steps.find_nonfinite_cell() } else { None };
    SweepResult { stop_requested, residual_norm, nonfinite_cell, has_overflow, ..SweepResult::default() }
}

/// Default relaxation factor of block Jacobi, from Rodriguez et al.
const JACOBI_OMEGA: f64 = 0.8;

/// Type of the function that creates a backend. The module `entries` passes this function, so that no other module
/// names a concrete backend.
pub type MakeBlockBackend = fn(Machine) -> Result<Box<dyn SmootherBackend>>;

/// Parameters for which a backend and its inverses were made. Other values require a new backend. `uses_transforms`:
/// whether sine transforms apply the inverses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackendParameters {
    machine: Machine,
    uses_transforms: bool,
}

/// Selects the backend for the given numbers of threads and devices. With `backend=auto`, a device is selected only if
/// the option `memory` states that the patches are in device memory. For patches in host memory, the copies to and from
/// the device would take longer than a few sweeps, and the number of sweeps is not known here.
pub fn choose_machine(options: &Options, threads: usize, devices: i32) -> Machine {
    Machine::new(options, threads, devices, options.is(opt::MEMORY, Memory::Device))
}

/// A list of patches with the data for their relaxation.
pub struct Smoother {
    backend: Box<dyn SmootherBackend>,
    backend_parameters: BackendParameters,
    stencil: Stencil,
    block: BlockShape,
    form: Option<SeparableStencil>,
    /// For the plain partition (`BlockPartition::new`) and for the staggered partition (`BlockPartition::staggered`),
    /// the index of the first patch whose edges truncate blocks, if any.
    first_truncated_patch: [Option<usize>; 2],
    /// Whether the option `remainder` is `overlap`.
    uses_overlap: bool,
    /// Whether the inverses of the staggered partition have been computed.
    has_staggered_inverses: bool,
}

impl Smoother {
    /// Sets new patches and computes the inverses of their blocks. The memory and the inverses of `previous` are
    /// reused, unless the machine or the kind of the inverses (dense, or sine transforms) has changed. `previous` must
    /// have the same stencil and the same block size. `stream` is the caller's CUDA stream; 0 selects the stream of the
    /// handle.
    pub fn set_patches(
        previous: Option<Self>,
        (stencil, block): (&Stencil, BlockShape),
        patches: Vec<Patch>,
        options: &Options,
        machine: Machine,
        stream: usize,
        make_backend: MakeBlockBackend,
    ) -> Result<Self> {
        let patch_list = PatchList::new(patches)?;
        check_memory(options, machine)?;
        let form = SeparableStencil::of(stencil);
        let uses_transforms =
            machine.backend != Backend::Reference && choose_transforms(options, form.as_ref(), block)?;
        let backend_parameters = BackendParameters { machine, uses_transforms };
        // `filter` drops a backend for other parameters, which frees its memory before the new backend is created.
        let mut smoother = match previous.filter(|smoother| smoother.backend_parameters == backend_parameters) {
            Some(smoother) => smoother,
            None => {
                let (backend, stencil, first_truncated_patch) = (make_backend(machine)?, stencil.clone(), [None; 2]);
                Self {
                    backend,
                    backend_parameters,
                    stencil,
                    block,
                    form,
                    first_truncated_patch,
                    uses_overlap: false,
                    has_staggered_inverses: false,
                }
            }
        };
        smoother.backend.use_stream(stream)?;
        smoother.uses_overlap = options.is(opt::REMAINDER, Remainder::Overlap);
        let plain_partition = BlockPartition::new(block);
        smoother.first_truncated_patch = [plain_partition, plain_partition.staggered()]
            .map(|partition| patch_list.patches.iter().position(|p| partition.has_remainder(p)));
        smoother.has_staggered_inverses = false;
        let patch_list = FallibleArc::new(patch_list, "patches")?;
        smoother.backend.set_patches(PatchSystem { stencil: stencil.clone(), patch_list })?;
        smoother.apply_options(options)?;
        Ok(smoother)
    }

    /// Adds to the backend the inverse for each shape that blocks of this partition have. Inverses that the backend
    /// already has are not computed.
    fn add_inverses(&mut self, partition: BlockPartition) -> Result<()> {
        let Some(patch_system) = self.backend.patch_system() else { return Ok(()) };
        let mut missing_shapes: Vec<(BlockShape, usize, [usize; 3])> = Vec::new();
        for (patch_index, patch) in patch_system.patch_list.patches.iter().enumerate() {
            for (block_z, z) in partition.distinct_lengths(patch, 2) {
                for (block_y, y) in partition.distinct_lengths(patch, 1) {
                    for (block_x, x) in partition.distinct_lengths(patch, 0) {
                        let shape = [x, y, z];
                        if !self.backend.has_inverse(shape) && missing_shapes.iter().all(|missing| missing.0 != shape) {
                            push(
                                &mut missing_shapes,
                                (shape, patch_index, [block_x, block_y, block_z]),
                                "shapes of blocks",
                            )?;
                        }
                    }
                }
            }
        }
        for (shape, patch_index, block_indices) in missing_shapes {
            let inverse = self.compute_inverse(shape).map_err(|error| match error {
                // The error message names a block of this shape by its first cell.
                Error::Matrix { reason, text_after, .. } => Error::Matrix {
                    reason,
                    location: self.place_of_block(&partition, patch_index, block_indices),
                    text_after,
                },
                error => error,
            })?;
            self.backend.add_inverse(shape, inverse)?;
        }
        Ok(())
    }

    /// Returns the first cell of a block of a patch, for error messages. `block_indices` are counted from 0 at the
    /// first block of the patch.
    fn place_of_block(
        &self,
        partition: &BlockPartition,
        patch_index: usize,
        block_indices: [usize; 3],
    ) -> Option<Location> {
        let patch = &self.backend.patch_system()?.patch_list.patches[patch_index];
        Some(Location::cell(
            patch_index,
            std::array::from_fn(|d| patch.lower[d] + partition.segment(patch, d, block_indices[d]).start as i64),
        ))
    }

    /// Computes the inverse of the blocks of one shape, in the form that the backend uses.
    fn compute_inverse(&self, shape: BlockShape) -> Result<Inverse> {
        match &self.form {
            Some(form) if self.backend_parameters.uses_transforms => {
                Ok(Inverse::SineTransforms { reciprocals: form.reciprocals(shape)?, scalings: form.scalings(shape)? })
            }
            _ => Ok(Inverse::Dense(dense_inverse(&self.stencil, shape)?)),
        }
    }

    /// Executes `sweeps` sweeps on the caller's arrays. Returns an error if the options do not fit the backend or the
    /// patches, if the input is not finite, or if a norm is unusable (`is_unusable`).
    pub fn apply(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
        sweeps: usize,
    ) -> Result<SweepResult> {
        let parameters = self.sweep_parameters(options, sweeps);
        self.check_overlap(&parameters)?;
        check_memory(options, self.backend_parameters.machine)?;
        if sweeps == 0 && !parameters.check_input && !callbacks.has_monitor() {
            return Ok(SweepResult::default());
        }
        let result = self.backend.run(arrays, callbacks, &parameters, run_sweeps)?;
        self.check_result(result)
    }

    /// Returns an error if the input is not finite or if a norm is unusable; otherwise returns `result`.
    fn check_result(&self, result: SweepResult) -> Result<SweepResult> {
        if let Some(found) = result.nonfinite_cell {
            let lower = self.patches()[found.patch].lower;
            let cell = std::array::from_fn(|d| lower[d] + found.cell[d] as i64);
            return Err(Error::not_finite(found.name, found.value, Location::cell(found.patch, cell)));
        }
        if result.has_overflow {
            let (norm, sweeps) = (result.residual_norm, result.sweeps);
            return Err(Error::Overflow(format!(
                "the norm of the residual after {sweeps} sweeps is {norm}: its values are too large for double \
                 precision (scale the input down), or ghost cells are not finite"
            )));
        }
        Ok(result)
    }

    /// Copies to each ghost cell that another patch covers the value from that other patch.
    pub fn exchange_ghosts(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
    ) -> Result<()> {
        check_memory(options, self.backend_parameters.machine)?;
        let parameters = self.sweep_parameters(options, 0);
        self.backend.run(arrays, callbacks, &parameters, exchange_ghosts).map(|_| ())
    }

    /// Fills the ghost cells, and computes r = f - A u and its norm.
    pub fn compute_residual(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        options: &Options,
    ) -> Result<SweepResult> {
        check_memory(options, self.backend_parameters.machine)?;
        let parameters = self.sweep_parameters(options, 0);
        let result = self.backend.run(arrays, callbacks, &parameters, compute_residual)?;
        self.check_result(result)
    }

    /// Returns the current patches and their ghost copy plan.
    pub fn patch_list(&self) -> Option<FallibleArc<PatchList>> {
        self.backend.patch_system().map(|system| system.patch_list.clone())
    }

    /// Returns the current patches.
    pub fn patches(&self) -> &[Patch] {
        self.backend.patch_system().map_or(&[], |system| &system.patch_list.patches)
    }

    /// Returns the parameters of a call with `sweeps` sweeps, according to the options.
    fn sweep_parameters(&self, options: &Options, sweeps: usize) -> SweepParameters {
        let method = choose_method(options);
        let omega = match options.real(opt::OMEGA) {
            0.0 if method == Method::Jacobi => JACOBI_OMEGA,
            0.0 => 1.0,
            omega => omega,
        };
        let plain_partition = BlockPartition { uses_overlap: self.uses_overlap, ..BlockPartition::new(self.block) };
        let partitions = match options.int(opt::STAGGER) {
            0 => [plain_partition, plain_partition],
            2 => [plain_partition.staggered(), plain_partition],
            _ => [plain_partition, plain_partition.staggered()],
        };
        let division = match options.choice(opt::PARALLEL) {
            options::Parallel::Auto => WorkDivision::AllBlocks,
            options::Parallel::Patch => WorkDivision::WholePatches,
            options::Parallel::Block => WorkDivision::BlocksOfPatch,
            options::Parallel::Nested => WorkDivision::NestedGroups(options.int(opt::PATCH_THREADS) as usize),
        };
        let (reverse, check_input) = (options.is_on(opt::REVERSE), options.is_on(opt::CHECK_INPUT));
        let overlaps_copies = !options.is(opt::TRANSFER, Transfer::BreadthFirst);
        SweepParameters { method, omega, sweeps, partitions, reverse, division, check_input, overlaps_copies }
    }

    /// Returns an error if `remainder = overlap` shifts blocks, and the blocks of a patch are not relaxed one after the
    /// other. A shifted block overlaps its neighbour, so two threads could write the same cells.
    fn check_overlap(&self, parameters: &SweepParameters) -> Result<()> {
        let is_serial = parameters.method == Method::Chaotic && parameters.division == WorkDivision::WholePatches;
        let plain_shift = BlockPartition::new(self.block).shift;
        match parameters
            .partitions
            .iter()
            .find_map(|partition| self.first_truncated_patch[usize::from(partition.shift != plain_shift)])
        {
            Some(patch) if self.uses_overlap && !is_serial => Err(Error::at(
                RRB_ERR_UNSUPPORTED,
                "remainder = overlap: blocks of ",
                Location::patch(patch),
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
    pub fn copy_arrays(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        self.backend.copy_arrays(copies)
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
            info::BLOCK_SOLVER if self.backend_parameters.uses_transforms => {
                BlockSolver::FastDiagonalization.number() as f64
            }
            info::BLOCK_SOLVER => BlockSolver::Dense.number() as f64,
            info::BLOCK_INVERSES => self.backend.inverse_count() as f64,
            info::GHOST_COPIES => self.backend.patch_system().map_or(0, |b| b.patch_list.ghost_copies.len()) as f64,
            info::CELLS => self.patches().iter().map(Patch::cell_count).sum::<usize>() as f64,
            _ => 0.0,
        }
    }

    /// Computes the inverses of the blocks of the plain partition and, with the option `stagger`, of the staggered
    /// partition. Allocates the data that the method needs in addition to u and f.
    fn apply_options(&mut self, options: &Options) -> Result<()> {
        let is_staggered = options.int(opt::STAGGER) != 0;
        self.add_inverses(BlockPartition { uses_overlap: self.uses_overlap, ..BlockPartition::new(self.block) })?;
        if is_staggered && !self.has_staggered_inverses {
            self.add_inverses(BlockPartition {
                uses_overlap: self.uses_overlap,
                ..BlockPartition::new(self.block).staggered()
            })?;
            self.has_staggered_inverses = true;
        }
        self.backend.prepare(&self.sweep_parameters(options, 0))
    }
}

/// Returns the relaxation method that the option `method` selects.
fn choose_method(options: &Options) -> Method {
    match options.choice(opt::METHOD) {
        options::Method::ColouredGaussSeidel => Method::Coloured,
        options::Method::BlockJacobi => Method::Jacobi,
        options::Method::ChaoticGaussSeidel => Method::Chaotic,
    }
}

/// Returns an error if `memory = device` is set for a machine without a device.
fn check_memory(options: &Options, machine: Machine) -> Result<()> {
    if options.is(opt::MEMORY, Memory::Device) && !machine.is_device() {
        return Err(Error::Unsupported("memory = device needs backend = cuda".to_owned()));
    }
    Ok(())
}

/// Returns whether sine transforms apply the inverses of the blocks. `form` is the form of the stencil that sine
/// transforms need, or `None` if the stencil has no such form. Returns an error if `block_solver=fast_diagonalization`
/// is set, but the stencil has no such form, or its scaling is ill-conditioned.
fn choose_transforms(options: &Options, form: Option<&SeparableStencil>, block: BlockShape) -> Result<bool> {
    match options.choice(opt::BLOCK_SOLVER) {
        BlockSolver::Dense => Ok(false),
        BlockSolver::FastDiagonalization if form.is_none() => Err(Error::Unsupported(
            "block_solver = fast_diagonalization: no scaling makes this stencil symmetric in x, y and z; use auto \
             or dense"
                .to_owned(),
        )),
        block_solver => {
            let scaling_condition = form.map_or(f64::INFINITY, |form| form.scaling_condition(block));
            if block_solver == BlockSolver::FastDiagonalization && scaling_condition >= MAX_PERMITTED_SCALING_CONDITION
            {
                let [x, y, z] = block;
                return Err(Error::Unsupported(format!(
                    "block_solver = fast_diagonalization: the scaling that makes this stencil symmetric has the \
                     condition number {scaling_condition:.0e} on blocks of {x} x {y} x {z} cells, which must be below \
                     {MAX_PERMITTED_SCALING_CONDITION:e}; use auto or dense, or smaller blocks"
                )));
            }
            Ok(block_solver == BlockSolver::FastDiagonalization || scaling_condition < MAX_SCALING_CONDITION)
        }
    }
}
