//! Block relaxation on patches on the CPU, by a thread team (docs/theory/smoother.md).
//!
//! A row of blocks (j, k) consists of the blocks of a patch that have the index j in y and k in z. A slab consists of
//! the rows with the same k. The work list contains the rows of blocks, patch by patch, z slowest. Each thread
//! processes a contiguous part with about the same number of cells.
//!
//! A coloured sweep is fused: it has two stages, each with half of the colours. With two colours, the blocks of the
//! second colour in row (j, k-1) are relaxed directly after those of the first colour in row (j, k). All their
//! neighbours, which have the first colour, have been relaxed at that point. u and f are therefore read from memory
//! once per sweep. With eight colours, a slab has the colours of only one stage, because the parity of its global index
//! determines the stage. Directly after a slab k of the first stage, the slab k-1 of the second stage is relaxed.
//!
//! If several threads share a patch, the second stage in slabs next to another thread's slabs is executed after a
//! barrier. Threads that have finished their part relax whole patches that no thread has started. The results are
//! bitwise identical to a sweep colour by colour, for any assignment of blocks to threads.
//!
//! The chaotic method is asynchronous: blocks are relaxed in place while other threads read their faces. It uses
//! relaxed atomic loads and stores, and reads the values that memory contains at that moment. With `parallel=patch`,
//! one thread relaxes all blocks of a patch in lexicographic order, without atomic accesses.

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
use crate::smoother::block_inverse::Shape;
use crate::smoother::cpu::thread::{Call, CallThread, Data, fused_grain};
use crate::smoother::patches::Patch;
use crate::smoother::steps::{
    Blocks, Callbacks, Inverse, Method, PatchArrays, SmootherBackend, SmootherProgram, SweepResult, Work, colour_count,
};
use exchange::GhostBuffers;
use kernels::{BlockInverse, Operator, SCRATCH_VALUES, shape_index};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, PoisonError};

const PATCHES: &str = "lists of patches";

/// Minimum number of cells per thread. With fewer cells, the synchronization takes longer than the time that the
/// additional thread saves.
const CELLS_PER_THREAD: usize = 4096;

/// The `cpu` backend of block smoothers.
pub struct Cpu {
    wanted_threads: usize,
    team: Option<Team>,
    /// Inverses; `shape_index` returns the index of a shape.
    block_inverses: Vec<Option<Box<BlockInverse>>>,
    data: Option<Data>,
}

impl Cpu {
    /// Creates a backend that uses at most `threads` threads.
    pub fn new(threads: usize) -> Result<Self> {
        let block_inverses = collected((0..512).map(|_| None), "the list of block inverses")?;
        Ok(Self { wanted_threads: threads, team: None, block_inverses, data: None })
    }

    fn allocate_scratch(&mut self) -> Result<()> {
        let (Some(data), Some(team)) = (&mut self.data, &self.team) else { return Ok(()) };
        if self.block_inverses.iter().flatten().any(|s| s.is_dense()) {
            while data.scratch.len() < team.members() {
                push(&mut data.scratch, Shared::zeroed(SCRATCH_VALUES)?, "rows of blocks")?;
            }
        }
        Ok(())
    }
}

impl SmootherBackend for Cpu {
    fn has_inverse(&self, shape: Shape) -> bool {
        self.block_inverses[shape_index(shape)].is_some()
    }

    fn inverse_count(&self) -> usize {
        self.block_inverses.iter().flatten().count()
    }

    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()> {
        self.block_inverses[shape_index(shape)] = Some(boxed(BlockInverse::new(shape, inverse)?, "a block inverse")?);
        self.allocate_scratch()
    }

    fn set_patches(&mut self, blocks: Blocks) -> Result<()> {
        let list = &blocks.list;
        let members = self.wanted_threads.min(list.cells() / CELLS_PER_THREAD + 1).max(1);
        Team::sized(&mut self.team, members)?;
        let mut planes_before: Vec<usize> = zeroed(list.patches.len() + 1, PATCHES)?;
        for (p, patch) in list.patches.iter().enumerate() {
            planes_before[p + 1] = planes_before[p] + patch.size[2];
        }
        let planes = planes_before[list.patches.len()];
        // The arrays of the previous patches are reused if they are large enough. `prepare` checks the length of the
        // second array, `GhostBuffers::new` that of the ghost buffers.
        let (squares, second_array, ghost_buffers, scratch) = match self.data.take() {
            Some(old) => {
                (Some(old.squares).filter(|s| s.rows() >= planes), old.second_array, old.ghost_buffers, old.scratch)
            }
            None => (None, None, None, Vec::new()),
        };
        // Without previous ghost buffers, `prepare` allocates them if the method needs them.
        let ghost_buffers = match ghost_buffers {
            Some(old) if !list.copies.is_empty() => Some(GhostBuffers::new(list, Some(old))?),
            _ => None,
        };
        let squares = match squares {
            Some(squares) => squares,
            None => Partials::single_buffered(planes, 1)?,
        };
        let second_array = second_array.map(|(values, _)| (values, Vec::new()));
        let (stop, bad) = (AtomicBool::new(false), Mutex::new(None));
        let operator = Operator::new(&blocks.stencil)?;
        let none = |count: usize| collected((0..count).map(|_| AtomicUsize::new(0)), PATCHES);
        let (claimed_in_sweep, all_claimed_in_sweep) = (none(list.patches.len())?, none(members)?);
        self.data = Some(Data {
            blocks,
            operator,
            second_array,
            ghost_buffers,
            claimed_in_sweep,
            all_claimed_in_sweep,
            requested_sweeps: 0,
            squares,
            planes_before,
            scratch,
            stop,
            bad,
        });
        self.allocate_scratch()
    }

    fn prepare(&mut self, work: &Work) -> Result<()> {
        let Some(data) = &mut self.data else { return Ok(()) };
        let list = &data.blocks.list;
        let coloured = work.method == Method::Coloured && colour_count(&data.blocks.stencil) == 2;
        if coloured && data.ghost_buffers.is_none() && !list.copies.is_empty() {
            data.ghost_buffers = Some(GhostBuffers::new(list, None)?);
        }
        let patches = &list.patches;
        if work.method != Method::Jacobi || data.second_array.as_ref().is_some_and(|o| !o.1.is_empty()) {
            return Ok(());
        }
        let len: usize = patches.iter().map(Patch::ghosted_cells).sum();
        // An array that is too short is freed before the new one is allocated.
        let values = match data.second_array.take().filter(|(values, _)| values.len() >= len) {
            Some((values, _)) => values,
            None => Shared::zeroed(len)?,
        };
        let mut start = 0;
        let mut pointers = Vec::new();
        reserve(&mut pointers, patches.len(), PATCHES)?;
        for patch in patches {
            // SAFETY: start + ghosted() <= len, the length of the array. Only the pointer of the slice is stored.
            pointers.push(unsafe { values.slice_mut(start, patch.ghosted_cells()) }.as_mut_ptr());
            start += patch.ghosted_cells();
        }
        data.second_array = Some((values, pointers));
        Ok(())
    }

    fn blocks(&self) -> Option<&Blocks> {
        self.data.as_ref().map(|d| &d.blocks)
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        work: &Work,
        program: SmootherProgram,
    ) -> Result<SweepResult> {
        let (Some(data), Some(team)) = (&mut self.data, &mut self.team) else {
            return Err(Error::Internal("there are no patches".to_owned()));
        };
        *data.bad.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let sweeps_before = data.requested_sweeps;
        data.requested_sweeps += work.sweeps;
        let second_array = data.second_array.as_ref().map_or(&[][..], |o| &o.1[..]);
        let (has_ghost_fill, watched) = (callbacks.has_ghost_fill(), callbacks.watched());
        // Ghost cells are exchanged within the sweeps if the method has two colours, no callback accesses ghost cells
        // between sweeps, no inverse is dense (no scratch arrays), and sweeps with both cuts are fused.
        let all_fused = || {
            let fused = |cut| fused_grain(&data.blocks.list.patches, cut, work.parallel, team.members()).is_some();
            data.scratch.is_empty() && work.cuts.iter().all(fused)
        };
        let coloured = work.method == Method::Coloured && colour_count(&data.blocks.stencil) == 2;
        let within_sweeps = coloured && work.sweeps > 0 && !has_ghost_fill && !watched && all_fused();
        let ghost_buffers =
            data.ghost_buffers.as_ref().filter(|ghost_buffers| within_sweeps && ghost_buffers.is_usable());
        let call = Call {
            data,
            block_inverses: &self.block_inverses,
            arrays: arrays.pointers(),
            second_array,
            work,
            ghost_buffers,
            sweeps_before,
            has_ghost_fill,
            watched,
        };
        team.run(
            |me| {
                program(&mut CallThread::new(&call, me, None), work);
            },
            |me| program(&mut CallThread::new(&call, me, Some(callbacks)), work),
        )
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        let block_inverses: usize = self.block_inverses.iter().flatten().map(|s| s.bytes()).sum();
        let of_data = |d: &Data| {
            d.blocks.list.bytes()
                + d.squares.bytes()
                + size_of_val(&d.claimed_in_sweep[..])
                + d.second_array.as_ref().map_or(0, |o| o.0.bytes())
                + d.ghost_buffers.as_ref().map_or(0, GhostBuffers::bytes)
                + d.scratch.iter().map(Shared::bytes).sum::<usize>()
        };
        [block_inverses + self.data.as_ref().map_or(0, of_data), 0]
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}
