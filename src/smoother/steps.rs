//! Block relaxation on patches: the steps of the methods, and the interface of the backends (docs/theory/smoother.md).

use crate::base::engine::Engine;
use crate::base::heap::FallibleArc;
use crate::error::{Error, Result};
use crate::smoother::block_inverse::{BlockShape, Stencil};
use crate::smoother::patches::{BlockPartition, PatchList};

/// Inverse A_b^-1 of a diagonal block.
pub enum Inverse {
    /// Dense matrix, stored by rows.
    Dense(Vec<f64>),
    /// Sine transforms: A_b^-1 = D S Lambda^-1 S^-1 D^-1 (see `block_inverse`).
    SineTransforms {
        /// Reciprocals of the diagonal entries of Lambda, times the factors 2 / (n + 1) of the inverse transforms. For
        /// each direction, n is the number of cells of the block. The index in x varies fastest.
        reciprocals: Vec<f64>,
        /// Diagonals of D^-1 and D; `None` if D is the identity.
        scalings: Option<(Vec<f64>, Vec<f64>)>,
    },
}

/// Relaxation method. It determines which values of u a block reads, and the order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All blocks read the values from before the sweep.
    Jacobi,
    /// Colour by colour: blocks read the new values of earlier colours.
    Coloured,
    /// Any order: blocks read the values that memory contains at that moment.
    Chaotic,
}

/// Division of the work among the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkDivision {
    /// One work list with all blocks of all patches.
    AllBlocks,
    /// Each thread processes whole patches.
    WholePatches,
    /// The patches are processed one after the other; the threads share the blocks of a patch.
    BlocksOfPatch,
    /// The patches are divided among groups of threads, and the blocks of a patch among the threads of its group. The
    /// value is the number of groups; 0 selects the square root of the number of threads.
    NestedGroups(usize),
}

/// Parameters of one call.
#[derive(Clone, Copy, Debug)]
pub struct SweepParameters {
    /// The relaxation method.
    pub method: Method,
    /// Relaxation factor, dimensionless.
    pub omega: f64,
    /// Number of sweeps.
    pub sweeps: usize,
    /// Partitions of the even and of the odd sweeps. The first sweep of a call has the number 0.
    pub partitions: [BlockPartition; 2],
    /// Whether the order of the colours is reversed or, with the chaotic method, the order of the blocks of a patch.
    pub reverse: bool,
    /// Division of the work among the threads.
    pub division: WorkDivision,
    /// Whether NaN and infinity in u and f are rejected.
    pub check_input: bool,
    /// Whether the copies of patches in host memory overlap the computation on a device.
    pub overlaps_copies: bool,
}

/// Returns the number of colours for which blocks of the same colour are not coupled: 2 with 7-point stencils and 8
/// with 27-point stencils.
pub fn colour_count(stencil: &Stencil) -> usize {
    if stencil.point_count == 7 { 2 } else { 8 }
}

/// Returns the colour of the block with the global block index (i, j, k): with two colours (i + j + k) & 1, with eight
/// colours (i & 1) + 2 (j & 1) + 4 (k & 1).
pub fn colour_of(colour_count: usize, [i, j, k]: [i64; 3]) -> usize {
    if colour_count == 2 { ((i + j + k) & 1) as usize } else { ((i & 1) + 2 * (j & 1) + 4 * (k & 1)) as usize }
}

/// First value in u or f that is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NonfiniteCell {
    /// Name of the array: u or f.
    pub name: &'static str,
    /// The value, NaN or infinity.
    pub value: f64,
    /// Index of the patch.
    pub patch: usize,
    /// Indices i, j, k of the cell in the patch.
    pub cell: [usize; 3],
}

/// Steps of block relaxation. Every thread of a team calls the steps in the same order and receives the same results.
pub trait SmootherSteps {
    /// Returns the first value that is not finite. The values are ordered by patch, then by array (u without ghost
    /// cells, then f), then by cell.
    fn find_nonfinite_cell(&mut self) -> Option<NonfiniteCell>;
    /// Copies to each ghost cell that another patch covers the value from that other patch.
    fn exchange_ghosts(&mut self);
    /// Calls the caller's ghost function, if any, with the sweep number `sweep`. The ghost function fills the ghost
    /// cells that no patch covers. Returns true if the ghost function requests a stop, or if a step has failed.
    fn fill_ghosts(&mut self, sweep: i32) -> bool;
    /// Replaces u_b by u_b + omega A_b^-1 (f - A u)_b for all blocks. All values on the right-hand side are from before
    /// the sweep.
    fn sweep_jacobi(&mut self, partition: &BlockPartition, omega: f64);
    /// Computes u_b <- u_b + omega A_b^-1 (f - A u)_b for all blocks of one colour.
    fn relax_colour(&mut self, partition: &BlockPartition, omega: f64, colour: usize);
    /// Returns the number of colours.
    fn colour_count(&self) -> usize;
    /// Relaxes all colours, one after the other. With `reverse`, the last colour comes first.
    fn relax_all_colours(&mut self, partition: &BlockPartition, omega: f64, reverse: bool) {
        let colours = self.colour_count();
        for c in 0..colours {
            self.relax_colour(partition, omega, if reverse { colours - 1 - c } else { c });
        }
    }
    /// Relaxes all blocks in place; each block reads the values that memory contains at that moment. With `reverse`,
    /// the last block of a patch comes first.
    fn sweep_chaotic(&mut self, partition: &BlockPartition, omega: f64, reverse: bool);
    /// Returns ||scale (f - A u)||_2 over all patches, without protection against overflow and underflow;
    /// `smoother::compute_norm` selects `scale`. Stores the unscaled residual if the caller passed arrays for it.
    fn compute_residual_norm(&mut self, scale: f64) -> f64;
    /// Returns whether there is a monitor, which receives the relative residual after each sweep.
    fn has_monitor(&self) -> bool;
    /// Passes the number of completed sweeps and the relative residual to the monitor. Returns true if the monitor
    /// requests a stop, or if a step has failed.
    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool;
    /// Copies u to the caller's arrays, if the current values are in other arrays.
    fn store_result(&mut self);
}

/// Result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepResult {
    /// Number of completed sweeps.
    pub sweeps: usize,
    /// Whether the ghost function or the monitor requested a stop.
    pub stop_requested: bool,
    /// First value of the input that is not finite, if one was found. In this case, no sweep was executed.
    pub nonfinite_cell: Option<NonfiniteCell>,
    /// Whether a norm was infinite, or was NaN although the input is checked. `residual_norm` is then this norm.
    pub has_overflow: bool,
    /// Norm of the last residual, or 0 if no residual was computed.
    pub residual_norm: f64,
    /// Norm of the first residual, or 0 if no residual was computed.
    pub initial_norm: f64,
}

/// The caller's arrays of one call, by patch.
pub trait PatchArrays {
    /// Returns u of a patch, with ghost cells.
    fn u(&self, patch: usize) -> &[f64];
    /// Returns u of a patch, with ghost cells, for writing.
    fn u_mut(&mut self, patch: usize) -> &mut [f64];
    /// Returns f of a patch, without ghost cells.
    fn f(&self, patch: usize) -> &[f64];
    /// Returns the array for the residual of a patch, if the caller passed one.
    fn r_mut(&mut self, patch: usize) -> Option<&mut [f64]>;
    /// Returns pointers to all arrays.
    fn pointers(&self) -> ArrayPointers<'_>;
    /// Returns whether the arrays are in device memory. In this case, only `pointers` may be called.
    fn is_on_device(&self) -> bool;
}

/// Arrays in device memory that the backend owns, one pointer per patch.
#[derive(Default)]
pub struct ResidentArrays {
    /// Arrays u, with ghost cells.
    pub u: Vec<*mut f64>,
    /// Arrays f, without ghost cells.
    pub f: Vec<*mut f64>,
}

/// Pointers to the arrays of all patches; a list is empty if the call has no such array.
#[derive(Clone, Copy)]
pub struct ArrayPointers<'a> {
    /// Arrays u, with ghost cells.
    pub u: &'a [*mut f64],
    /// Arrays f, without ghost cells.
    pub f: &'a [*const f64],
    /// Arrays for the residual, without ghost cells.
    pub r: &'a [*mut f64],
}

/// The caller's callbacks, called on the calling thread.
pub trait Callbacks {
    /// Returns whether there is a callback for ghost cells.
    fn has_ghost_fill(&self) -> bool;
    /// Calls the callback for ghost cells; returns true if the callback requests a stop.
    fn fill_ghosts(&mut self, sweep: i32, u: &[*mut f64]) -> bool;
    /// Returns whether there is a monitor.
    fn has_monitor(&self) -> bool;
    /// Passes the number of completed sweeps and the relative residual to the monitor. Returns true if the monitor
    /// requests a stop.
    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool;
}

/// Sequence of steps of one call: `run_sweeps`, `exchange_ghosts` or `compute_residual`. Every thread of the team runs
/// this function.
pub type SmootherProgram = fn(&mut dyn SmootherSteps, &SweepParameters) -> SweepResult;

/// Stencil and patches of a backend.
pub struct PatchSystem {
    /// Entries of the constant stencil that defines A.
    pub stencil: Stencil,
    /// The patches and their ghost copy plan.
    pub patch_list: FallibleArc<PatchList>,
}

/// Backend of the block relaxation.
pub trait SmootherBackend: Engine {
    /// Returns whether the backend has the inverse for this shape.
    fn has_inverse(&self, shape: BlockShape) -> bool;
    /// Returns the number of stored inverses.
    fn inverse_count(&self) -> usize;
    /// Stores the inverse for blocks of this shape. The inverse remains valid when the patches change.
    fn add_inverse(&mut self, shape: BlockShape, inverse: Inverse) -> Result<()>;
    /// Replaces the patches; memory is reallocated only if it is too small.
    fn set_patches(&mut self, patch_system: PatchSystem) -> Result<()>;
    /// Allocates the data that a method needs in addition to u and f: a second array, buffers, lists of blocks.
    fn prepare(&mut self, parameters: &SweepParameters) -> Result<()>;
    /// Returns the current stencil and patches.
    fn patch_system(&self) -> Option<&PatchSystem>;
    /// Runs a program on the caller's arrays and returns its result, or the error of a step.
    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        parameters: &SweepParameters,
        program: SmootherProgram,
    ) -> Result<SweepResult>;
    /// Allocates arrays in device memory for the current patches, filled with zeros. They are valid until
    /// `set_patches`.
    fn allocate_resident_arrays(&mut self) -> Result<ResidentArrays> {
        Err(Error::Internal("this backend has no device".to_owned()))
    }
    /// Copies values to, from or between device arrays of the current patches. Each copy is (target, source, number of
    /// values).
    fn copy_arrays(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        let _ = copies;
        Err(Error::Internal("this backend has no device".to_owned()))
    }
}
