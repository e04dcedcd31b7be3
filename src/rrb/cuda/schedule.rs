//! Grouping of a program's steps into kernels, assignment of the steps to thread blocks, and the choice of the grids
//! that are stored in the shared memory of the first cluster.

use super::packed::{CoarsestSolver, Packed};
use super::program::{ALLOCATION_NAME, ClusterGrids, Programs, StepRecorder, record_steps};
use crate::cuda::driver::{Blocks, CooperativeLaunch, Device};
use crate::cuda::launch;
use crate::cuda::launch::{Geometry, MAX_BLOCKS, MAX_GRIDS, Op, flag, kind};
use crate::error::{Result, extend};
use crate::rrb::recursion::Recursion;

/// Maximum number of rounds in which a thread block computes its part of x += alpha p while other thread blocks execute
/// the steps on small grids. In a round, each warp computes 128 entries of x. On an H200, a round takes 1.25 us, and
/// the steps take 20 us (docs/benchmarks/gpu.md).
const MAX_X_ROUNDS: u32 = 16;

/// Numbers of thread blocks of a cluster, in order of preference.
const CLUSTER_SIZES: [u32; 2] = [16, 8];
impl ClusterGrids {
    /// Returns the layout of the grids with numbers from `first_grid` on, in a cluster with `row_blocks` thread blocks.
    /// Returns `None` in two cases:
    /// - A thread block would own no row of a grid.
    /// - A thread block would have fewer threads than values of one colour in its rows and one further row.
    fn of(k: &Packed, first_grid: usize, row_blocks: usize) -> Option<Self> {
        let (real_bytes, stored_bytes) = k.shape.value_sizes();
        let mut first_rows = [0; CLUSTER_SIZES[0] as usize + 1];
        let first_rows = &mut first_rows[..=row_blocks];
        for (block, first_row) in first_rows.iter_mut().enumerate() {
            *first_row = block * k.grids[first_grid].layout.cy / row_blocks;
        }
        let (mut bytes, mut largest_plane) = (0, 0);
        for (n, level) in k.grids[first_grid..].iter().enumerate() {
            let layout = &level.layout;
            // Number of values per row and colour, without the padding.
            let column_count = (layout.grid.nx + layout.shift_x).div_ceil(2);
            if n > 0 {
                first_rows.iter_mut().for_each(|row| *row = (*row + layout.shift_y) / 2);
                first_rows[row_blocks] = layout.cy;
            }
            let rows_per_block = || first_rows.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
            let max_rows = rows_per_block().max()?;
            if rows_per_block().min() == Some(0) || (max_rows + 1) * column_count > launch::CLUSTER_THREADS as usize {
                return None;
            }
            let plane = (max_rows + 2) * (column_count + 2);
            largest_plane = largest_plane.max(plane);
            let (vector_values, coupling_values) = if level.sweep.r > 0 { (24, 24) } else { (8, 12) };
            bytes += (plane * (vector_values * real_bytes + coupling_values * stored_bytes)).next_multiple_of(16);
        }
        bytes += largest_plane * real_bytes;
        Some(Self { first_grid, row_blocks: row_blocks as u32, bytes: u32::try_from(bytes).ok()? })
    }

    /// Returns the layout of grids in a cluster. The first grid is the largest one from `first_cooperative_grid` on
    /// that fits into shared memory together with all coarser grids. The finest grid is excluded if CG runs on S1.
    /// Returns an empty layout if no grid fits, if the device does not support the kernel, if the host solves the
    /// coarsest system, or if the hierarchy is truncated.
    fn choose(k: &Packed, device: &Device, first_cooperative_grid: usize, cluster_size: u32) -> Self {
        let first_grid = first_cooperative_grid.max(usize::from(k.shape.uses_schur));
        if matches!(k.coarsest_solver, CoarsestSolver::Host(_)) || k.is_truncated() {
            return Self::default();
        }
        let storage = k.shape.storage;
        let Some(max_bytes) =
            launch::CLUSTER_BYTES.into_iter().find(|bytes| launch::allow_cluster(device, storage, *bytes))
        else {
            return Self::default();
        };
        let fits_memory = |layout: &Self| layout.bytes <= max_bytes;
        let largest_layout = |first_cooperative_grid| {
            (1..=cluster_size as usize)
                .rev()
                .find_map(|row_blocks| Self::of(k, first_cooperative_grid, row_blocks).filter(fits_memory))
        };
        (first_grid..k.grids.len()).find_map(largest_layout).unwrap_or_default()
    }
}

/// Returns the first of the grids that one cooperative launch of `blocks` thread blocks can process, or `grids_in_use`
/// if there are none.
fn first_small_grid(k: &Packed, blocks: u32) -> usize {
    let is_small = |g: &Geometry| !g.is_divided() && g.blocks().count <= blocks;
    let is_executable = |q: &usize| is_small(&k.grids[*q].k.g) && k.grids_in_use - *q <= MAX_GRIDS;
    (0..k.grids_in_use).find(is_executable).unwrap_or(k.grids_in_use)
}

impl Programs {
    /// Chooses the cooperative launch for the steps on small grids, without extra blocks, and the grids that its first
    /// cluster stores. The launch may have more blocks than these steps need.
    fn choose_launch(k: &Packed, device: &Device) -> Result<(CooperativeLaunch, ClusterGrids)> {
        let block_threads = launch::CLUSTER_THREADS;
        let mut cooperative = CooperativeLaunch { blocks: 0, cluster: 1, shared_bytes: 0, extra_blocks: 0 };
        if k.shape.allows_fusion && !k.has_f64_inverse {
            cooperative.blocks = MAX_BLOCKS;
            for kernel in launch::cooperative_kernels(k.shape.storage) {
                cooperative.blocks = cooperative.blocks.min(device.max_resident_blocks(kernel, block_threads)?);
            }
        }
        let mut cluster_grids = ClusterGrids::default();
        // A truncated hierarchy has too few small grids for a cluster.
        if cooperative.blocks > 0 && device.has_clusters() && !k.is_truncated() {
            for cluster_size in CLUSTER_SIZES {
                let resident_blocks = |shared_bytes| {
                    let blocks_of_kernel = |kernel| {
                        device.max_resident_blocks_in_clusters(kernel, block_threads, cluster_size, shared_bytes)
                    };
                    let blocks = launch::cooperative_kernels(k.shape.storage)
                        .map(blocks_of_kernel)
                        .into_iter()
                        .min()
                        .unwrap_or(0);
                    blocks.min(MAX_BLOCKS / cluster_size * cluster_size)
                };
                // With clusters, fewer thread blocks may fit on the device. The next larger grid then needs separate
                // kernels, which cost less time than the clusters save.
                let blocks = resident_blocks(0);
                if blocks > 0 {
                    cooperative = CooperativeLaunch { blocks, cluster: cluster_size, shared_bytes: 0, extra_blocks: 0 };
                    cluster_grids = ClusterGrids::choose(k, device, first_small_grid(k, blocks), cluster_size);
                    if cluster_grids.row_blocks > 0 && resident_blocks(cluster_grids.bytes) == blocks {
                        cooperative.shared_bytes = cluster_grids.bytes;
                    } else {
                        cluster_grids = ClusterGrids::default();
                    }
                    break;
                }
            }
        }
        Ok((cooperative, cluster_grids))
    }

    /// Generates the lists of steps for a cycle, and groups the steps into kernels.
    pub fn generate(k: &Packed, device: &Device, recursion: &Recursion) -> Result<Self> {
        let (grids_in_use, uses_schur) = (k.grids_in_use, k.shape.uses_schur);
        let (mut cooperative, cluster_grids) = Self::choose_launch(k, device)?;
        let first_joined_grid = first_small_grid(k, cooperative.blocks);
        // The kernel needs max(grid_blocks, coarsest_blocks) thread blocks. `grid_blocks`: tiles of its largest grid,
        // or 1 if all its grids are stored in the first cluster. `coarsest_blocks`: blocks for the product with the
        // coarsest inverse. Both numbers also include the blocks of the first cluster if these blocks do other work at
        // the same time.
        let cluster_blocks = if cooperative.cluster > 1 { cooperative.cluster } else { 0 };
        let coarsest_blocks = if k.is_truncated() {
            1
        } else {
            (k.coarsest_grid.nodes() as u32).div_ceil(launch::CLUSTER_THREADS / 32) + cluster_blocks
        };
        let tile_count = k.grids.get(first_joined_grid).map_or(1, |level| level.k.g.blocks().count);
        let grid_blocks = match cluster_grids.row_blocks {
            0 => tile_count,
            _ if first_joined_grid == 0 => tile_count,
            _ if cluster_grids.first_grid == first_joined_grid => 1,
            _ => tile_count + cluster_blocks,
        };
        let max_blocks = cooperative.blocks;
        cooperative.blocks = max_blocks.min(grid_blocks.max(coarsest_blocks).next_multiple_of(cooperative.cluster));
        // The remaining thread blocks compute x, provided that they finish before the steps on small grids end.
        let wanted_x_blocks = launch::x_update_blocks(&k.schur_arrays.g);
        let x_blocks = (max_blocks - cooperative.blocks).min(wanted_x_blocks.next_multiple_of(cooperative.cluster));
        cooperative.extra_blocks = if wanted_x_blocks <= x_blocks * MAX_X_ROUNDS { x_blocks } else { 0 };
        let sections = k.sections_in_use()?;
        let new_steps = || {
            StepRecorder::new(&sections, grids_in_use, uses_schur).map(|steps| steps.with_truncation(k.is_truncated()))
        };
        let mut ops = if uses_schur { record_steps(new_steps()?, true, recursion)? } else { Vec::new() };
        let iteration_range = 0..ops.len();
        extend(&mut ops, record_steps(new_steps()?, false, recursion)?, ALLOCATION_NAME)?;
        let application_range = iteration_range.end..ops.len();
        let mut programs = Self {
            ops,
            iteration_range,
            application_range,
            cooperative,
            first_joined_grid,
            cluster_grids,
            ..Self::default()
        };
        let mut ops = std::mem::take(&mut programs.ops);
        if !programs.is_one_kernel(k) {
            programs.move_scalar_update(k, &mut ops[programs.iteration_range.clone()]);
        }
        let iteration_ops = &ops[programs.iteration_range.clone()];
        let is_divided = k.schur_arrays.g.is_divided();
        if programs.is_one_kernel(k) || is_divided || !iteration_ops.iter().any(|op| programs.can_join(k, op)) {
            // In three cases, x is computed in the backward half: one kernel executes the whole iteration, x is
            // distributed among devices, or there are no steps on small grids.
            programs.cooperative.extra_blocks = 0;
        }
        let update_index = iteration_ops.iter().position(|op| op.flags & flag::UPDATE_SCALARS != 0);
        programs.update_end = update_index.map_or(0, |update_index| update_index + 1);
        for op_range in [programs.iteration_range.clone(), programs.application_range.clone()] {
            let mut n = op_range.start;
            while n < op_range.end {
                let is_whole_iteration = n < programs.iteration_range.end && programs.is_one_kernel(k);
                let joined_count = if is_whole_iteration {
                    op_range.len()
                } else {
                    programs.count_joined_ops(k, &ops[n..op_range.end])
                };
                programs.assign_blocks(k, &mut ops[n..n + joined_count], true);
                let kernel_ops = &mut ops[n..n + joined_count.max(1)];
                // A kernel that executes several steps has one partial sum per thread block.
                if let Some(rho_op) = kernel_ops.iter_mut().rfind(|op| op.flags & flag::RHO != 0) {
                    rho_op.flags |= if joined_count > 0 { flag::STORE_RHO } else { 0 };
                    rho_op.partial = programs.rho_count as i32;
                    programs.rho_count +=
                        if joined_count > 0 { cooperative.blocks as usize } else { k.partial_sum_count(rho_op) };
                }
                n += joined_count.max(1);
            }
        }
        programs.ops = ops;
        Ok(programs)
    }

    /// Returns the number of steps at the beginning of `ops` that share a kernel; 0 if the first step has its own
    /// kernel.
    pub fn count_joined_ops(&self, k: &Packed, ops: &[Op]) -> usize {
        ops.iter().take_while(|op| self.can_join(k, op)).count()
    }

    /// Sets which thread blocks execute each step of a kernel, and which barrier follows the step.
    /// `uses_cluster_memory` states whether grids are stored in the shared memory of the first cluster.
    pub fn assign_blocks(&self, k: &Packed, ops: &mut [Op], uses_cluster_memory: bool) {
        let is_in_cluster = |op: &Op| {
            let is_grid_step = !matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST);
            uses_cluster_memory
                && self.cluster_grids.row_blocks > 0
                && is_grid_step
                && op.grid as usize >= self.cluster_grids.first_grid
        };
        let fits_cluster = |op: &Op| {
            let has_own_blocks = matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST | kind::COARSEST);
            self.cooperative.cluster > 1 && !has_own_blocks && k.blocks_of_op(op).count <= self.cooperative.cluster
        };
        for n in 0..ops.len() {
            let next_op = ops.get(n + 1).copied();
            if is_in_cluster(&ops[n]) {
                let enters_cluster = n == 0 || ops[n - 1].flags & flag::IN_CLUSTER == 0;
                let is_coarsest = |op: &Op| op.kind == kind::COARSEST;
                let barrier_flag = match &next_op {
                    None => flag::NO_BARRIER,
                    // No barrier is needed before the step of the coarsest system, because its thread blocks wait for
                    // each value of r separately (kernels/rrb/cluster.cuh).
                    Some(next_op) if is_in_cluster(next_op) && is_coarsest(next_op) => flag::NO_BARRIER,
                    Some(next_op) if is_in_cluster(next_op) => flag::CLUSTER_BARRIER,
                    Some(_) => 0,
                };
                ops[n].flags |= flag::IN_CLUSTER | barrier_flag | if enters_cluster { flag::LOAD_Z } else { 0 };
                continue;
            }
            if next_op.is_none() && ops[n].flags & flag::UPDATE_SCALARS == 0 {
                ops[n].flags |= flag::NO_BARRIER;
            }
            if fits_cluster(&ops[n]) {
                ops[n].flags |= flag::CLUSTER_ONLY;
                if next_op.as_ref().is_some_and(fits_cluster) && ops[n].flags & flag::UPDATE_SCALARS == 0 {
                    ops[n].flags |= flag::CLUSTER_BARRIER;
                }
            }
            if next_op.is_some_and(|next_op| next_op.kind == kind::COARSEST) {
                ops[n].flags |= flag::NO_BARRIER;
            }
        }
    }

    /// Moves the scalar update to the first backward sweep that has a kernel of its own, if there is such a sweep and
    /// its grid is not distributed. One thread block then updates the scalars while the other thread blocks execute
    /// this sweep. This saves time, because the update takes as long as a step on a small grid. If the second step is a
    /// forward sweep with a kernel of its own, one thread block of this sweep then determines in advance whether the
    /// loop ends (`check_convergence_ahead` in kernels/common/scalars.cuh).
    fn move_scalar_update(&self, k: &Packed, ops: &mut [Op]) {
        let Some(update_index) = ops.iter().position(|op| op.flags & flag::UPDATE_SCALARS != 0) else { return };
        let is_divided = |op: &Op| k.grids.get(op.grid as usize).is_some_and(|level| level.k.g.is_divided());
        let has_own_kernel = |op: &Op, kind| op.kind == kind && !self.can_join(k, op) && !is_divided(op);
        if has_own_kernel(&ops[update_index], kind::COARSEST) {
            return;
        }
        let Some(next_index) = (update_index + 1..ops.len()).find(|n| !self.can_join(k, &ops[*n])) else { return };
        if has_own_kernel(&ops[next_index], kind::ASCEND) {
            ops[update_index].flags &= !flag::UPDATE_SCALARS;
            ops[next_index].flags |= flag::UPDATE_SCALARS | flag::SCALAR_BLOCK;
            if has_own_kernel(&ops[1], kind::DESCEND) {
                ops[1].flags |= flag::SCALAR_BLOCK;
            }
        }
    }

    /// Returns whether one kernel executes a whole iteration.
    pub fn is_one_kernel(&self, k: &Packed) -> bool {
        self.cooperative.blocks > 0
            && self.first_joined_grid == 0
            && k.uses_fusion()
            && !matches!(k.coarsest_solver, CoarsestSolver::Host(_))
    }

    /// Returns whether the kernel for several steps can execute this step.
    pub fn can_join(&self, k: &Packed, op: &Op) -> bool {
        self.cooperative.blocks > 0
            && match op.kind {
                kind::COARSEST => !matches!(k.coarsest_solver, CoarsestSolver::Host(_)),
                kind::DESCEND | kind::ASCEND | kind::MULTIPLY_INNER | kind::DIRECTION_INNER | kind::ADVANCE_INNER => {
                    op.grid as usize >= self.first_joined_grid
                }
                _ => false,
            }
    }

    /// Returns the number of partial sums of <r, r>.
    pub fn norm_count(&self, k: &Packed) -> usize {
        if self.is_one_kernel(k) {
            self.cooperative.blocks as usize
        } else {
            k.blocks_for_tile_rows().count as usize * k.schur_arrays.g.part_count()
        }
    }
}

/// Returns `StepArgs::scalar_block` for a step: 1 if one thread block works on the scalars while the other thread
/// blocks execute the sweep, otherwise 0.
pub fn scalar_block(op: &Op) -> i32 {
    i32::from(op.flags & flag::SCALAR_BLOCK != 0)
}

impl Packed {
    /// Returns the thread blocks of a pass over the first grid.
    pub fn blocks_for_tile_rows(&self) -> Blocks {
        self.schur_arrays.g.blocks_for_tile_rows(self.schur_arrays.g.backward_tile_rows())
    }

    /// Returns the number of partial sums of a step.
    fn partial_sum_count(&self, op: &Op) -> usize {
        let part_count = if op.kind == kind::COARSEST { 1 } else { self.grids[op.grid as usize].k.g.part_count() };
        self.blocks_of_op(op).count as usize * part_count
    }

    /// Returns the thread blocks of the launch of a step.
    pub fn blocks_of_op(&self, op: &Op) -> Blocks {
        match op.kind {
            kind::COARSEST => launch::coarsest_blocks(self.coarsest_grid.nodes()).into(),
            kind::DESCEND | kind::ASCEND => {
                launch::sweep_blocks(&self.grids[op.grid as usize].k.g, scalar_block(op), self.shape.storage)
            }
            kind::DESCEND_FIRST => self.blocks_for_tile_rows(),
            _ => self.grids[op.grid as usize].k.g.blocks(),
        }
    }
}
