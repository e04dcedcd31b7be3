//! Block relaxation on patches on the CPU, by a thread team (docs/theory/smoother.md).
//!
//! A row of blocks (j, k) consists of the blocks of a patch that have the index j in y and k in z. A slab consists of
//! the rows with the same k. The work list contains the rows of blocks, patch by patch, z slowest. Each thread
//! processes a contiguous part of the work list. All parts have about the same number of cells.
//!
//! A coloured sweep is fused: it has two stages, each with half of the colours. With two colours, the blocks of the
//! second colour in row (j, k-1) are relaxed directly after those of the first colour in row (j, k). All neighbours of
//! the blocks of the second colour have the first colour, and have been relaxed at that point. u and f are therefore
//! read from memory once per sweep. With eight colours, a slab has the colours of only one stage, because the parity of
//! its global index determines the stage. Directly after a slab k with colours of the first stage, the slab k-1, which
//! has colours of the second stage, is relaxed.
//!
//! If several threads share a patch, the second stage in slabs next to another thread's slabs is executed after a
//! barrier. Threads that have finished their part relax whole patches that no thread has started. The results are
//! bitwise identical to a sweep colour by colour, for any assignment of blocks to threads.
//!
//! The chaotic method is asynchronous: blocks are relaxed in place while other threads read their faces. The method
//! uses relaxed atomic loads and stores, and reads the values that memory contains at that moment. With
//! `parallel=patch`, one thread relaxes all blocks of a patch in lexicographic order, without atomic accesses.

mod dense;
mod exchange;
mod kernels;
mod relax;
mod rows;
mod steps;
pub mod thread;
mod transforms;

use crate::base::engine::Engine;
use crate::base::heap::boxed;
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::base::team::Team;
use crate::error::{Error, Result, collected, push, reserve, zeroed};
use crate::smoother::block_inverse::BlockShape;
use crate::smoother::cpu::thread::{Call, CallThread, PatchData, fused_granularity};
use crate::smoother::patches::Patch;
use crate::smoother::steps::{
    Callbacks, Inverse, Method, PatchArrays, PatchSystem, SmootherBackend, SmootherProgram, SweepParameters,
    SweepResult, colour_count,
};
use exchange::GhostBuffers;
use kernels::{BlockInverse, Operator, SCRATCH_VALUES, shape_index};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, PoisonError};

const PATCH_ALLOCATION_NAME: &str = "lists of patches";

/// Minimum number of cells per thread. With fewer cells, the synchronization takes longer than the time that the
/// additional thread saves.
const MIN_CELLS_PER_THREAD: usize = 4096;

/// The `cpu` backend of block smoothers.
pub struct Cpu {
    /// Maximum number of threads.
    max_threads: usize,
    team: Option<Team>,
    /// For each block shape, its inverse if it has been computed, at the index that `shape_index` returns.
    block_inverses: Vec<Option<Box<BlockInverse>>>,
    data: Option<PatchData>,
}

impl Cpu {
    /// Creates a backend that uses at most `threads` threads.
    pub fn new(threads: usize) -> Result<Self> {
        let block_inverses = collected((0..512).map(|_| None), "the list of block inverses")?;
        Ok(Self { max_threads: threads, team: None, block_inverses, data: None })
    }

    /// Allocates a scratch array per thread if an inverse is dense.
    fn allocate_scratch(&mut self) -> Result<()> {
        let (Some(data), Some(team)) = (&mut self.data, &self.team) else { return Ok(()) };
        if self.block_inverses.iter().flatten().any(|inverse| inverse.is_dense()) {
            while data.scratch.len() < team.threads() {
                push(&mut data.scratch, Shared::zeroed(SCRATCH_VALUES)?, "rows of blocks")?;
            }
        }
        Ok(())
    }
}

impl SmootherBackend for Cpu {
    fn has_inverse(&self, shape: BlockShape) -> bool {
        self.block_inverses[shape_index(shape)].is_some()
    }

    fn inverse_count(&self) -> usize {
        self.block_inverses.iter().flatten().count()
    }

    fn add_inverse(&mut self, shape: BlockShape, inverse: Inverse) -> Result<()> {
        self.block_inverses[shape_index(shape)] = Some(boxed(BlockInverse::new(shape, inverse)?, "a block inverse")?);
        self.allocate_scratch()
    }

    fn set_patches(&mut self, patch_system: PatchSystem) -> Result<()> {
        let patch_list = &patch_system.patch_list;
        let thread_count = self.max_threads.min(patch_list.cell_count() / MIN_CELLS_PER_THREAD + 1).max(1);
        Team::with_size(&mut self.team, thread_count)?;
        let mut planes_before: Vec<usize> = zeroed(patch_list.patches.len() + 1, PATCH_ALLOCATION_NAME)?;
        for (p, patch) in patch_list.patches.iter().enumerate() {
            planes_before[p + 1] = planes_before[p] + patch.size[2];
        }
        let plane_count = planes_before[patch_list.patches.len()];
        // The arrays of the previous patches are reused if they are large enough. `prepare` checks the length of the
        // second array, `GhostBuffers::new` that of the ghost buffers.
        let (square_sums, second_array, ghost_buffers, scratch) = match self.data.take() {
            Some(previous) => (
                Some(previous.square_sums).filter(|sums| sums.rows() >= plane_count),
                previous.second_array,
                previous.ghost_buffers,
                previous.scratch,
            ),
            None => (None, None, None, Vec::new()),
        };
        // Without previous ghost buffers, `prepare` allocates them if the method needs them.
        let ghost_buffers = match ghost_buffers {
            Some(previous) if !patch_list.ghost_copies.is_empty() => {
                Some(GhostBuffers::new(patch_list, Some(previous))?)
            }
            _ => None,
        };
        let square_sums = match square_sums {
            Some(square_sums) => square_sums,
            None => Partials::single_buffered(plane_count, 1)?,
        };
        let second_array = second_array.map(|(values, _)| (values, Vec::new()));
        let (stop_requested, nonfinite_cell) = (AtomicBool::new(false), Mutex::new(None));
        let operator = Operator::new(&patch_system.stencil)?;
        let zero_counters = |count: usize| collected((0..count).map(|_| AtomicUsize::new(0)), PATCH_ALLOCATION_NAME);
        let (claimed_in_sweep, all_claimed_in_sweep) =
            (zero_counters(patch_list.patches.len())?, zero_counters(thread_count)?);
        self.data = Some(PatchData {
            patch_system,
            operator,
            second_array,
            ghost_buffers,
            claimed_in_sweep,
            all_claimed_in_sweep,
            requested_sweeps: 0,
            square_sums,
            planes_before,
            scratch,
            stop_requested,
            nonfinite_cell,
        });
        self.allocate_scratch()
    }

    fn prepare(&mut self, parameters: &SweepParameters) -> Result<()> {
        let Some(data) = &mut self.data else { return Ok(()) };
        let patch_list = &data.patch_system.patch_list;
        let is_two_coloured = parameters.method == Method::Coloured && colour_count(&data.patch_system.stencil) == 2;
        if is_two_coloured && data.ghost_buffers.is_none() && !patch_list.ghost_copies.is_empty() {
            data.ghost_buffers = Some(GhostBuffers::new(patch_list, None)?);
        }
        let patches = &patch_list.patches;
        if parameters.method != Method::Jacobi || data.second_array.as_ref().is_some_and(|array| !array.1.is_empty()) {
            return Ok(());
        }
        let len: usize = patches.iter().map(Patch::ghosted_cell_count).sum();
        // An array that is too short is freed before the new one is allocated.
        let values = match data.second_array.take().filter(|(values, _)| values.len() >= len) {
            Some((values, _)) => values,
            None => Shared::zeroed(len)?,
        };
        let mut start = 0;
        let mut pointers = Vec::new();
        reserve(&mut pointers, patches.len(), PATCH_ALLOCATION_NAME)?;
        for patch in patches {
            // SAFETY: start + `ghosted_cell_count()` <= len, the length of the array. Only the pointer of the slice is
            // stored.
            pointers.push(unsafe { values.slice_mut(start, patch.ghosted_cell_count()) }.as_mut_ptr());
            start += patch.ghosted_cell_count();
        }
        data.second_array = Some((values, pointers));
        Ok(())
    }

    fn patch_system(&self) -> Option<&PatchSystem> {
        self.data.as_ref().map(|d| &d.patch_system)
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        parameters: &SweepParameters,
        program: SmootherProgram,
    ) -> Result<SweepResult> {
        let (Some(data), Some(team)) = (&mut self.data, &mut self.team) else {
            return Err(Error::Internal("there are no patches".to_owned()));
        };
        *data.nonfinite_cell.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let sweeps_before = data.requested_sweeps;
        data.requested_sweeps += parameters.sweeps;
        let second_array = data.second_array.as_ref().map_or(&[][..], |array| &array.1[..]);
        let (has_ghost_fill, has_monitor) = (callbacks.has_ghost_fill(), callbacks.has_monitor());
        // Ghost cells are exchanged within the sweeps if all of these conditions hold:
        // - the method is coloured Gauss-Seidel with two colours, and there is at least one sweep;
        // - there is neither a ghost function nor a monitor, because both need exchanged ghost cells between sweeps;
        // - no inverse is dense (there are no scratch arrays), and sweeps with both partitions are fused;
        // - the ghost buffers exist, and no patch has too many boxes for them (`GhostBuffers::is_usable`).
        let are_all_fused = || {
            let is_fused = |partition| {
                fused_granularity(&data.patch_system.patch_list.patches, partition, parameters.division, team.threads())
                    .is_some()
            };
            data.scratch.is_empty() && parameters.partitions.iter().all(is_fused)
        };
        let is_two_coloured = parameters.method == Method::Coloured && colour_count(&data.patch_system.stencil) == 2;
        let exchanges_within_sweeps =
            is_two_coloured && parameters.sweeps > 0 && !has_ghost_fill && !has_monitor && are_all_fused();
        let ghost_buffers =
            data.ghost_buffers.as_ref().filter(|ghost_buffers| exchanges_within_sweeps && ghost_buffers.is_usable());
        let call = Call {
            data,
            block_inverses: &self.block_inverses,
            arrays: arrays.pointers(),
            second_array,
            parameters,
            ghost_buffers,
            sweeps_before,
            has_ghost_fill,
            has_monitor,
        };
        team.run(
            |thread| {
                program(&mut CallThread::new(&call, thread, None), parameters);
            },
            |thread| program(&mut CallThread::new(&call, thread, Some(callbacks)), parameters),
        )
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        let block_inverses: usize = self.block_inverses.iter().flatten().map(|inverse| inverse.bytes()).sum();
        let data_bytes = |data: &PatchData| {
            data.patch_system.patch_list.bytes()
                + data.square_sums.bytes()
                + size_of_val(&data.claimed_in_sweep[..])
                + data.second_array.as_ref().map_or(0, |array| array.0.bytes())
                + data.ghost_buffers.as_ref().map_or(0, GhostBuffers::bytes)
                + data.scratch.iter().map(Shared::bytes).sum::<usize>()
        };
        [block_inverses + self.data.as_ref().map_or(0, data_bytes), 0]
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::threads)
    }
}
