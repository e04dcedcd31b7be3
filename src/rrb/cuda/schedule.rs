//! Grouping of a program's steps into kernels, assignment of the steps to thread blocks, and the choice of the grids
//! that are stored in the shared memory of the first cluster.

use super::packed::{CoarsestSolver, Packed};
use super::program::{ClusterGrids, OPS, Programs, Steps, steps_of};
use crate::cuda::driver::{Blocks, CooperativeLaunch, Device};
use crate::cuda::launch;
use crate::cuda::launch::{Geometry, MOST_BLOCKS, MOST_GRIDS, Op, flag, kind};
use crate::error::{Result, extend};
use crate::rrb::recursion::Recursion;

/// Largest number of pieces of x += alpha p that a thread block computes while other thread blocks execute the steps on
/// small grids. On an H200, a piece takes 1.25 us, and the steps take 20 us (docs/benchmarks/gpu.md).
const X_ROUNDS: u32 = 16;

/// Numbers of thread blocks of a cluster, in order of preference.
const CLUSTERS: [u32; 2] = [16, 8];
impl ClusterGrids {
    /// Returns the layout of the grids with numbers from `base` on, in a cluster with `row_blocks` thread blocks.
    /// Returns `None` if a thread block would own no row of a grid, or if a thread block has fewer threads than values
    /// of one colour in its rows and in one more row.
    fn of(k: &Packed, base: usize, row_blocks: usize) -> Option<Self> {
        let (real, stored) = k.shape.sizes();
        let mut first = [0; CLUSTERS[0] as usize + 1];
        let first = &mut first[..=row_blocks];
        for (b, first) in first.iter_mut().enumerate() {
            *first = b * k.grids[base].layout.cy / row_blocks;
        }
        let (mut bytes, mut largest) = (0, 0);
        for (n, level) in k.grids[base..].iter().enumerate() {
            let layout = &level.layout;
            // Number of values per row and colour, without the padding.
            let columns = (layout.grid.nx + layout.shift_x).div_ceil(2);
            if n > 0 {
                first.iter_mut().for_each(|f| *f = (*f + layout.shift_y) / 2);
                first[row_blocks] = layout.cy;
            }
            let rows = || first.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
            let most = rows().max()?;
            if rows().min() == Some(0) || (most + 1) * columns > launch::CLUSTER_THREADS as usize {
                return None;
            }
            let plane = (most + 2) * (columns + 2);
            largest = largest.max(plane);
            let (vectors, couplings) = if level.sweep.r > 0 { (24, 24) } else { (8, 12) };
            bytes += (plane * (vectors * real + couplings * stored)).next_multiple_of(16);
        }
        bytes += largest * real;
        Some(Self { base, row_blocks: row_blocks as u32, bytes: u32::try_from(bytes).ok()? })
    }

    /// Returns the layout of grids in a cluster. The first grid is the largest one from `base` on that fits into shared
    /// memory together with all coarser grids. The finest grid is excluded if CG runs on S1. Returns an empty layout if
    /// no grid fits, if the device does not support the kernel, if the host solves the coarsest system, or if the
    /// hierarchy is truncated.
    fn choose(k: &Packed, device: &Device, base: usize, cluster: u32) -> Self {
        let first = base.max(usize::from(k.shape.schur));
        if matches!(k.coarsest_solver, CoarsestSolver::Host(_)) || k.is_truncated() {
            return Self::default();
        }
        let storage = k.shape.storage;
        let Some(most) = launch::CLUSTER_BYTES.into_iter().find(|bytes| launch::allow_cluster(device, storage, *bytes))
        else {
            return Self::default();
        };
        let fits = |cluster: &Self| cluster.bytes <= most;
        let with =
            |base| (1..=cluster as usize).rev().find_map(|row_blocks| Self::of(k, base, row_blocks).filter(fits));
        (first..k.grids.len()).find_map(with).unwrap_or_default()
    }
}

impl Programs {
    /// Generates the lists of steps for a cycle, and groups the steps into kernels.
    pub fn write(k: &Packed, device: &Device, recursion: &Recursion) -> Result<Self> {
        let (grids, schur, threads) = (k.used, k.shape.schur, launch::CLUSTER_THREADS);
        let mut cooperative = CooperativeLaunch { blocks: 0, cluster: 1, shared: 0, further: 0 };
        if k.shape.fusion && !k.wide_coarsest {
            cooperative.blocks = MOST_BLOCKS;
            for kernel in launch::cooperative_kernels(k.shape.storage) {
                cooperative.blocks = cooperative.blocks.min(device.most_resident_blocks(kernel, threads)?);
            }
        }
        let mut cluster_grids = ClusterGrids::default();
        let base_with = |blocks: u32| {
            let small = |g: &Geometry| !g.is_divided() && g.blocks().count <= blocks;
            let fits = |q: &usize| small(&k.grids[*q].k.g) && grids - *q <= MOST_GRIDS;
            (0..grids).find(fits).unwrap_or(grids)
        };
        // A truncated hierarchy has too few small grids for a cluster.
        if cooperative.blocks > 0 && device.has_clusters() && !k.is_truncated() {
            for cluster in CLUSTERS {
                let with = |shared| {
                    let of = |kernel| device.most_resident_in_clusters(kernel, threads, cluster, shared);
                    let blocks = launch::cooperative_kernels(k.shape.storage).map(of).into_iter().min().unwrap_or(0);
                    blocks.min(MOST_BLOCKS / cluster * cluster)
                };
                // With clusters, fewer thread blocks may fit on the device. The next larger grid then needs separate
                // kernels, which cost less time than the clusters save.
                let blocks = with(0);
                if blocks > 0 {
                    cooperative = CooperativeLaunch { blocks, cluster, shared: 0, further: 0 };
                    cluster_grids = ClusterGrids::choose(k, device, base_with(blocks), cluster);
                    if cluster_grids.row_blocks > 0 && with(cluster_grids.bytes) == blocks {
                        cooperative.shared = cluster_grids.bytes;
                    } else {
                        cluster_grids = ClusterGrids::default();
                    }
                    break;
                }
            }
        }
        let base = base_with(cooperative.blocks);
        // The kernel needs max(largest, coarsest) thread blocks. `largest`: tiles of its largest grid, or 1 if all its
        // grids are stored in the first cluster. `coarsest`: blocks for the product with the coarsest inverse. Both
        // also count the blocks of the first cluster if these do other work at the same time.
        let cluster_blocks = if cooperative.cluster > 1 { cooperative.cluster } else { 0 };
        let coarsest = if k.is_truncated() {
            1
        } else {
            (k.coarsest_grid.nodes() as u32).div_ceil(launch::CLUSTER_THREADS / 32) + cluster_blocks
        };
        let tiles = k.grids.get(base).map_or(1, |level| level.k.g.blocks().count);
        let largest = match cluster_grids.row_blocks {
            0 => tiles,
            _ if base == 0 => tiles,
            _ if cluster_grids.base == base => 1,
            _ => tiles + cluster_blocks,
        };
        let most = cooperative.blocks;
        cooperative.blocks = most.min(largest.max(coarsest).next_multiple_of(cooperative.cluster));
        // The remaining thread blocks compute x, provided that they finish before the steps do.
        let wanted = launch::blocks_of_x(&k.first.g);
        let others = (most - cooperative.blocks).min(wanted.next_multiple_of(cooperative.cluster));
        cooperative.further = if wanted <= others * X_ROUNDS { others } else { 0 };
        let sections = k.sections_in_use()?;
        let steps = || Steps::new(&sections, grids, schur).map(|steps| steps.with_truncation(k.is_truncated()));
        let mut ops = if schur { steps_of(steps()?, true, recursion)? } else { Vec::new() };
        let iteration = 0..ops.len();
        extend(&mut ops, steps_of(steps()?, false, recursion)?, OPS)?;
        let application = iteration.end..ops.len();
        let mut programs = Self { ops, iteration, application, cooperative, base, cluster_grids, ..Self::default() };
        let mut ops = std::mem::take(&mut programs.ops);
        if !programs.is_one_kernel(k) {
            programs.move_scalar_update(k, &mut ops[programs.iteration.clone()]);
        }
        let iteration = &ops[programs.iteration.clone()];
        let divided = k.first.g.is_divided();
        if programs.is_one_kernel(k) || divided || !iteration.iter().any(|op| programs.joins(k, op)) {
            // In three cases, x is computed in the backward half: one kernel executes the whole iteration, x is
            // distributed among devices, or there are no steps on small grids.
            programs.cooperative.further = 0;
        }
        let update = iteration.iter().position(|op| op.flags & flag::UPDATE_SCALARS != 0);
        programs.until_update = update.map_or(0, |update| update + 1);
        for part in [programs.iteration.clone(), programs.application.clone()] {
            let mut n = part.start;
            while n < part.end {
                let whole = n < programs.iteration.end && programs.is_one_kernel(k);
                let joined = if whole { part.len() } else { programs.joined(k, &ops[n..part.end]) };
                programs.assign(k, &mut ops[n..n + joined], true);
                let run = &mut ops[n..n + joined.max(1)];
                // A kernel that executes several steps has one partial sum per thread block.
                if let Some(last) = run.iter_mut().rfind(|op| op.flags & flag::RHO != 0) {
                    last.flags |= if joined > 0 { flag::STORE_RHO } else { 0 };
                    last.partial = programs.rho_count as i32;
                    programs.rho_count += if joined > 0 { cooperative.blocks as usize } else { k.parts_of(last) };
                }
                n += joined.max(1);
            }
        }
        programs.ops = ops;
        Ok(programs)
    }

    /// Returns the number of steps at the beginning of `ops` that share a kernel; 0 if the first step has its own
    /// kernel.
    pub fn joined(&self, k: &Packed, ops: &[Op]) -> usize {
        ops.iter().take_while(|op| self.joins(k, op)).count()
    }

    /// Sets which thread blocks execute each step of a kernel, and which barrier follows the step. `in_cluster`:
    /// whether grids are stored in the shared memory of the first cluster.
    pub fn assign(&self, k: &Packed, ops: &mut [Op], in_cluster: bool) {
        let in_cluster = |op: &Op| {
            let inner = !matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST);
            in_cluster && self.cluster_grids.row_blocks > 0 && inner && op.grid as usize >= self.cluster_grids.base
        };
        let cluster = |op: &Op| {
            let first = matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST | kind::COARSEST);
            self.cooperative.cluster > 1 && !first && k.blocks_of(op).count <= self.cooperative.cluster
        };
        for n in 0..ops.len() {
            let next = ops.get(n + 1).copied();
            if in_cluster(&ops[n]) {
                let enters = n == 0 || ops[n - 1].flags & flag::IN_CLUSTER == 0;
                let is_coarsest = |op: &Op| op.kind == kind::COARSEST;
                let meets = match &next {
                    None => flag::NO_BARRIER,
                    // No barrier is needed before the step of the coarsest system, because its thread blocks wait for
                    // each value of r separately (kernels/rrb/cluster.cuh).
                    Some(next) if in_cluster(next) && is_coarsest(next) => flag::NO_BARRIER,
                    Some(next) if in_cluster(next) => flag::CLUSTER_BARRIER,
                    Some(_) => 0,
                };
                ops[n].flags |= flag::IN_CLUSTER | meets | if enters { flag::LOAD_Z } else { 0 };
                continue;
            }
            if next.is_none() && ops[n].flags & flag::UPDATE_SCALARS == 0 {
                ops[n].flags |= flag::NO_BARRIER;
            }
            if cluster(&ops[n]) {
                ops[n].flags |= flag::CLUSTER_ONLY;
                if next.as_ref().is_some_and(cluster) && ops[n].flags & flag::UPDATE_SCALARS == 0 {
                    ops[n].flags |= flag::CLUSTER_BARRIER;
                }
            }
            if next.is_some_and(|next| next.kind == kind::COARSEST) {
                ops[n].flags |= flag::NO_BARRIER;
            }
        }
    }

    /// Moves the scalar update to the first backward sweep with a kernel of its own, if there is one and its grid is
    /// not distributed. One thread block updates the scalars while the others execute this sweep, because the update
    /// takes as long as a step on a small grid. If the second step is a forward sweep with a kernel of its own, one
    /// thread block of this sweep then determines in advance whether the loop ends (`check_ahead` in
    /// kernels/common/scalars.cuh).
    fn move_scalar_update(&self, k: &Packed, ops: &mut [Op]) {
        let Some(update) = ops.iter().position(|op| op.flags & flag::UPDATE_SCALARS != 0) else { return };
        let divided = |op: &Op| k.grids.get(op.grid as usize).is_some_and(|level| level.k.g.is_divided());
        let apart = |op: &Op, kind| op.kind == kind && !self.joins(k, op) && !divided(op);
        if apart(&ops[update], kind::COARSEST) {
            return;
        }
        let Some(next) = (update + 1..ops.len()).find(|n| !self.joins(k, &ops[*n])) else { return };
        if apart(&ops[next], kind::ASCEND) {
            ops[update].flags &= !flag::UPDATE_SCALARS;
            ops[next].flags |= flag::UPDATE_SCALARS | flag::SCALAR_BLOCK;
            if apart(&ops[1], kind::DESCEND) {
                ops[1].flags |= flag::SCALAR_BLOCK;
            }
        }
    }

    /// Returns whether one kernel executes a whole iteration.
    pub fn is_one_kernel(&self, k: &Packed) -> bool {
        self.cooperative.blocks > 0
            && self.base == 0
            && k.fused()
            && !matches!(k.coarsest_solver, CoarsestSolver::Host(_))
    }

    /// Returns whether the kernel for several steps can execute this step.
    pub fn joins(&self, k: &Packed, op: &Op) -> bool {
        self.cooperative.blocks > 0
            && match op.kind {
                kind::COARSEST => !matches!(k.coarsest_solver, CoarsestSolver::Host(_)),
                kind::DESCEND | kind::ASCEND | kind::MULTIPLY_INNER | kind::DIRECTION_INNER | kind::ADVANCE_INNER => {
                    op.grid as usize >= self.base
                }
                _ => false,
            }
    }

    /// Returns the number of partial sums of <r, r>.
    pub fn norm_count(&self, k: &Packed) -> usize {
        if self.is_one_kernel(k) {
            self.cooperative.blocks as usize
        } else {
            k.first_blocks().count as usize * k.first.g.parts()
        }
    }
}

/// Returns `StepArgs::scalar_block` for a step: 1 if one thread block works on the scalars while the others execute the
/// sweep.
pub fn scalar_block(op: &Op) -> i32 {
    i32::from(op.flags & flag::SCALAR_BLOCK != 0)
}

impl Packed {
    /// Returns the thread blocks of a pass over the first grid.
    pub fn first_blocks(&self) -> Blocks {
        self.first.g.first_blocks(self.first.g.backward_tile_rows())
    }

    /// Returns the number of partial sums of a step.
    fn parts_of(&self, op: &Op) -> usize {
        let parts = if op.kind == kind::COARSEST { 1 } else { self.grids[op.grid as usize].k.g.parts() };
        self.blocks_of(op).count as usize * parts
    }

    /// Returns the thread blocks of the launch of a step.
    pub fn blocks_of(&self, op: &Op) -> Blocks {
        match op.kind {
            kind::COARSEST => launch::coarsest_blocks(self.coarsest_grid.nodes()).into(),
            kind::DESCEND | kind::ASCEND => {
                launch::sweep_blocks(&self.grids[op.grid as usize].k.g, scalar_block(op), self.shape.storage)
            }
            kind::DESCEND_FIRST => self.first_blocks(),
            _ => self.grids[op.grid as usize].k.g.blocks(),
        }
    }
}
