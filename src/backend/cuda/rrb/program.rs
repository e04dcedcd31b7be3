//! The preconditioner as a list of steps for the device. The text of the cycle (`backend::cycle`) runs once on the
//! host, at `factorize`, with steps that write down what is to be done; its coefficients are fixed numbers then. Steps
//! on one place of a grid join the sweep before them, and steps on small grids that follow each other become one
//! kernel.

use super::packed::{Packed, Remainder, geometry};
use crate::backend::cuda::driver::{Device, Stream, Together};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{
    Address, CycleArgs, FirstArgs, How, InnerProductArgs, Level, MOST_BLOCKS, MOST_GRIDS, Op, RemainderArgs, Rest,
    ScalarArgs, SchurArgs, SolveArgs, StepArgs, flag, kind,
};
use crate::backend::steps::cycle;
use crate::backend::steps::cycle::{Cycle, CycleSteps, Inner, Kind, Recursion};
use crate::error::{Error, Result, collected, extend, push};
use std::ops::Range;
use std::time::Instant;

/// Pieces of x += alpha p that a block has at most while others do the steps on small grids: 1.25 us each, and 20 us,
/// on an H200 (docs/performance-gpu.md).
const X_ROUNDS: u32 = 16;

/// Blocks of a cluster, in the order of preference.
const CLUSTERS: [u32; 2] = [16, 8];

/// For errors.
const OPS: &str = "the list of steps";

/// The cycle in the making.
pub struct Steps {
    /// First grid of each section, and the number of grids.
    sections: Vec<usize>,
    grids: usize,
    /// Nothing is solved below the last of them: see `flag::ALONE`.
    alone: bool,
    /// The first grid has steps of its own, fused with those of CG or not.
    schur: bool,
    fused: bool,
    /// Sections whose levels have a part of rho; the last part comes with what lies below.
    rho: Range<usize>,
    keep: Option<usize>,
    ops: Vec<Op>,
    /// There was no memory for a step: the list is not to be used.
    refused: Option<Error>,
}

impl Steps {
    pub fn new(sections: &[usize], grids: usize, schur: bool) -> Result<Self> {
        let (sections, ops) = (collected(sections.iter().copied(), OPS)?, Vec::new());
        Ok(Self { sections, grids, alone: false, schur, fused: false, rho: 0..0, keep: None, ops, refused: None })
    }

    fn grids(&self, k: usize) -> Range<usize> {
        self.sections[k]..self.sections.get(k + 1).copied().unwrap_or(self.grids)
    }

    fn push(&mut self, kind: i32, grid: usize, flags: i32) {
        self.add(Op { kind, grid: grid as i32, flags, ..Op::default() });
    }

    fn add(&mut self, op: Op) {
        if let Err(error) = push(&mut self.ops, op, OPS) {
            self.refused = Some(error);
        }
    }

    /// The last step, if it is this one on the first grid of section k and has all of `flags`.
    fn last(&mut self, kind: i32, k: usize, flags: i32) -> Option<&mut Op> {
        let grid = self.sections[k] as i32;
        self.ops.last_mut().filter(|op| op.kind == kind && op.grid == grid && op.flags & flags == flags)
    }

    fn rho_flag(&self, k: usize) -> i32 {
        if self.rho.contains(&k) { flag::RHO } else { 0 }
    }
}

impl CycleSteps for Steps {
    fn recursions(&self) -> Range<usize> {
        1..self.sections.len()
    }

    fn takes_part(&self, _k: usize) -> bool {
        true
    }

    fn sweep_down(&mut self, k: usize) {
        let rho = self.rho_flag(k);
        for q in self.grids(k) {
            let kind = if q == 0 && self.schur { kind::DESCEND_FIRST } else { kind::DESCEND };
            let keep =
                if q == self.sections[k] && self.keep.take_if(|kept| *kept == k).is_some() { flag::KEEP } else { 0 };
            self.push(kind, q, rho | keep);
        }
    }

    fn solve_remainder(&mut self) {
        let last = self.rho_flag(self.sections.len() - 1);
        let update = if last != 0 { last | flag::UPDATE } else { 0 };
        match self.ops.last_mut() {
            Some(op) if self.alone => op.flags |= update | flag::ALONE,
            _ => self.push(kind::REMAINDER, self.grids, update),
        }
    }

    fn sweep_up(&mut self, k: usize) {
        for q in self.grids(k).rev() {
            match (q == 0 && self.schur, self.fused) {
                (true, true) => self.push(kind::ADVANCE_FIRST, 0, 0),
                (true, false) => self.push(kind::ASCEND_FIRST, 0, 0),
                _ => self.push(kind::ASCEND, q, 0),
            }
        }
    }

    fn keep_rhs(&mut self, k: usize) {
        self.keep = Some(k);
    }

    fn direct(&mut self, k: usize, beta: Option<f64>) {
        let flags = flag::DIRECTED | if beta.is_some() { flag::WITH_BETA } else { 0 };
        if self.last(kind::ASCEND, k, 0).is_none() {
            self.push(kind::DIRECT_INNER, self.sections[k], 0);
        }
        if let Some(op) = self.ops.last_mut() {
            op.flags |= flags;
            op.beta = beta.unwrap_or(0.0);
        }
    }

    fn multiply_direction(&mut self, k: usize) {
        self.push(kind::MULTIPLY_INNER, self.sections[k], flag::STORE);
    }

    fn inner_product(&mut self, _k: usize, _a: Inner, _b: Inner) -> f64 {
        unreachable!("cycle=k is refused on a device")
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        let first = if first { flag::FIRST_STEP } else { 0 };
        // What the sweep before has made of d becomes u there, and A d need not be stored.
        let product = if go_on { self.last(kind::MULTIPLY_INNER, k, 0).copied() } else { None };
        if product.is_some() {
            self.ops.pop();
        }
        if (product.is_some() || !go_on)
            && let Some(op) = self.last(kind::ASCEND, k, flag::DIRECTED)
        {
            op.flags |= flag::ADVANCED | first;
            op.alpha = alpha;
            if let Some(product) = product {
                self.add(Op { flags: flag::GO_ON, alpha, ..product });
            }
            return;
        }
        if let Some(product) = product {
            self.add(product);
        }
        let flags = first | if go_on { flag::GO_ON } else { 0 };
        self.push(kind::ADVANCE_INNER, self.sections[k], flags);
        if let Some(op) = self.ops.last_mut() {
            op.alpha = alpha;
        }
    }

    fn take_solution(&mut self, k: usize) {
        if let Some(op) = self.last(kind::ASCEND, k, flag::ADVANCED) {
            op.flags |= flag::TAKE;
        } else if self.refused.is_none() {
            unreachable!("a recursion ends with a step of its iteration")
        }
    }

    fn draw_direction(&mut self, _k: usize) {
        unreachable!("estimates need scalars")
    }
}

/// Steps of an iteration on S1 from r to q, or (not `fused`) of an application to z, from an empty list.
fn steps_of(steps: Steps, fused: bool, recursion: &Recursion) -> Result<Vec<Op>> {
    let mut s = steps;
    s.fused = fused;
    let recurses = recursion.kind != Kind::V && s.sections.len() > 1;
    if fused {
        s.rho = if recurses { 0..1 } else { 0..s.sections.len() };
    }
    cycle::apply_section(&mut s, 0, recursion);
    if fused && recurses {
        // <g, u> of the first recursion: g is kept on its first way down.
        let first = s.sections[1] as i32;
        let of_first = |op: &&mut Op| op.grid == first;
        if let Some(op) = s.ops.iter_mut().filter(of_first).find(|op| op.flags & flag::KEEP != 0) {
            op.flags |= flag::KEEP_TOO;
        }
        if let Some(op) = s.ops.iter_mut().filter(of_first).find(|op| op.flags & flag::TAKE != 0) {
            op.flags |= flag::RHO | flag::UPDATE;
        }
    }
    s.refused.map_or(Ok(s.ops), Err)
}

/// The programs of a factorization, and which of their steps go together.
#[derive(Default)]
pub struct Programs {
    ops: Vec<Op>,
    /// In `ops`: an iteration, its way down, an application.
    iteration: Range<usize>,
    down: usize,
    application: Range<usize>,
    /// A kernel for several steps.
    together: Together,
    /// The first grid that goes into it.
    base: usize,
    cluster_grids: ClusterGrids,
    pub rho_count: usize,
}

/// Grids in the shared memory of the first cluster: kernels/rrb/cluster.cuh.
#[derive(Clone, Copy, Default)]
struct ClusterGrids {
    /// The first of them.
    base: usize,
    /// Blocks that have rows of each; 0: there are no such grids.
    members: u32,
    /// Bytes of shared memory.
    bytes: u32,
}

impl ClusterGrids {
    /// The cluster of the grids from `base` on; none where a block would have no row of one, or more places than
    /// threads.
    fn of(k: &Packed, base: usize, members: usize) -> Option<Self> {
        let (real, stored) = k.shape.sizes();
        let mut first = [0; CLUSTERS[0] as usize + 1];
        let first = &mut first[..=members];
        for (b, first) in first.iter_mut().enumerate() {
            *first = b * k.grids[base].layout.cy / members;
        }
        let (mut bytes, mut largest) = (0, 0);
        for (n, level) in k.grids[base..].iter().enumerate() {
            let layout = &level.layout;
            // Without those that pad a row.
            let columns = (layout.grid.nx + layout.shift_x).div_ceil(2);
            if n > 0 {
                first.iter_mut().for_each(|f| *f = (*f + layout.shift_y) / 2);
                first[members] = layout.cy;
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
        Some(Self { base, members: members as u32, bytes: u32::try_from(bytes).ok()? })
    }

    /// From as large a grid on as fits.
    fn choose(k: &Packed, device: &Device, base: usize, cluster: u32) -> Self {
        let first = base.max(usize::from(k.shape.schur));
        if matches!(k.remainder, Remainder::Host(_)) || k.ends_early() {
            return Self::default();
        }
        let storage = k.shape.storage;
        let Some(most) = launch::CLUSTER_BYTES.into_iter().find(|bytes| launch::allow_cluster(device, storage, *bytes))
        else {
            return Self::default();
        };
        let fits = |cluster: &Self| cluster.bytes <= most;
        let with = |base| (1..=cluster as usize).rev().find_map(|members| Self::of(k, base, members).filter(fits));
        (first..k.grids.len()).find_map(with).unwrap_or_default()
    }
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From r to q.
    Iteration,
    /// Its way down, to rho.
    Down,
    /// From z to z.
    Application,
}

impl Programs {
    /// Room for steps and for parts of rho: those of the longest cycle that may be asked for.
    pub fn room(sections: &[usize], grids: usize, schur: bool, cycle: &Cycle) -> Result<(usize, usize)> {
        let count = |kind| {
            let recursion = Recursion { kind, steps: cycle.steps, ..Recursion::V };
            let of = |fused| Ok(steps_of(Steps::new(sections, grids, schur)?, fused, &recursion)?.len());
            Ok(of(false)? + if schur { of(true)? } else { 0 })
        };
        let plain = count(Kind::V)?;
        let ops = if cycle.kind == Some(Kind::V) { plain } else { plain.max(count(Kind::Amli)?) };
        Ok((ops, (grids + 2) * MOST_BLOCKS as usize))
    }

    /// Writes the steps down, and sends them.
    pub fn write(k: &Packed, device: &Device, recursion: &Recursion) -> Result<Self> {
        let (grids, schur) = (k.used, k.shape.schur);
        let mut together = Together { blocks: 0, cluster: 1, shared: 0, further: 0 };
        if k.shape.fusion && !k.wide_remainder {
            together.blocks = MOST_BLOCKS;
            for kernel in launch::cooperative_kernels(k.shape.storage) {
                together.blocks = together.blocks.min(device.together(kernel, launch::CLUSTER_THREADS)?);
            }
        }
        let mut cluster_grids = ClusterGrids::default();
        let base_with = |blocks: u32| {
            let fits = |q: &usize| k.grids[*q].k.g.blocks() <= blocks && grids - *q <= MOST_GRIDS;
            (0..grids).find(fits).unwrap_or(grids)
        };
        // Where M ends early few grids are left for one: it does not pay.
        if together.blocks > 0 && device.has_clusters() && !k.ends_early() {
            for cluster in CLUSTERS {
                let with = |shared| {
                    let of = |kernel| device.together_in_clusters(kernel, launch::CLUSTER_THREADS, cluster, shared);
                    let blocks = launch::cooperative_kernels(k.shape.storage).map(of).into_iter().min().unwrap_or(0);
                    blocks.min(MOST_BLOCKS / cluster * cluster)
                };
                // They may leave fewer blocks; the next grid is then done by kernels of its own, which costs less than
                // they gain.
                let blocks = with(0);
                if blocks > 0 {
                    together = Together { blocks, cluster, shared: 0, further: 0 };
                    cluster_grids = ClusterGrids::choose(k, device, base_with(blocks), cluster);
                    if cluster_grids.members > 0 && with(cluster_grids.bytes) == blocks {
                        together.shared = cluster_grids.bytes;
                    } else {
                        cluster_grids = ClusterGrids::default();
                    }
                    break;
                }
            }
        }
        let base = base_with(together.blocks);
        // No more blocks than the largest grid has tiles, or the remainder rows, beside the first cluster.
        let cluster_blocks = if together.cluster > 1 { together.cluster } else { 0 };
        let rest = if k.ends_early() {
            1
        } else {
            (k.rest_grid.nodes() as u32).div_ceil(launch::CLUSTER_THREADS / 32) + cluster_blocks
        };
        let tiles = k.grids.get(base).map_or(1, |level| level.k.g.blocks());
        let largest = match cluster_grids.members {
            0 => tiles,
            _ if base == 0 => tiles,
            _ if cluster_grids.base == base => 1,
            _ => tiles + cluster_blocks,
        };
        let most = together.blocks;
        together.blocks = most.min(largest.max(rest).next_multiple_of(together.cluster));
        // The others are for x, where they are done with it by the time that the steps take.
        let wanted = launch::blocks_of_x(&k.first.g);
        let others = (most - together.blocks).min(wanted.next_multiple_of(together.cluster));
        together.further = if wanted <= others * X_ROUNDS { others } else { 0 };
        let sections = k.sections_in_use()?;
        let steps = || Ok(Steps { alone: k.ends_early(), ..Steps::new(&sections, grids, schur)? });
        let mut ops = if schur { steps_of(steps()?, true, recursion)? } else { Vec::new() };
        let iteration = 0..ops.len();
        extend(&mut ops, steps_of(steps()?, false, recursion)?, OPS)?;
        let application = iteration.end..ops.len();
        let mut programs = Self { ops, iteration, down: 0, application, together, base, cluster_grids, rho_count: 0 };
        let mut ops = std::mem::take(&mut programs.ops);
        if !programs.whole(k) {
            programs.update_beside(k, &mut ops[programs.iteration.clone()]);
        }
        let iteration = &ops[programs.iteration.clone()];
        if programs.whole(k) || !iteration.iter().any(|op| programs.joins(k, op)) {
            // Where there are no small grids to be beside of, x comes with the way up.
            programs.together.further = 0;
        }
        let update = iteration.iter().position(|op| op.flags & flag::UPDATE != 0);
        programs.down = update.map_or(0, |update| update + 1);
        for part in [programs.iteration.clone(), programs.application.clone()] {
            let mut n = part.start;
            while n < part.end {
                let whole = n < programs.iteration.end && programs.whole(k);
                let joined = if whole { part.len() } else { programs.joined(k, &ops[n..part.end]) };
                programs.assign(k, &mut ops[n..n + joined], true);
                let run = &mut ops[n..n + joined.max(1)];
                // A kernel of several steps has one sum a block.
                if let Some(last) = run.iter_mut().rfind(|op| op.flags & flag::RHO != 0) {
                    last.flags |= if joined > 0 { flag::PART } else { 0 };
                    last.partial = programs.rho_count as i32;
                    programs.rho_count += if joined > 0 { together.blocks } else { k.blocks_of(last) } as usize;
                }
                n += joined.max(1);
            }
        }
        programs.ops = ops;
        Ok(programs)
    }

    /// Steps at the front of `ops` that share a kernel.
    fn joined(&self, k: &Packed, ops: &[Op]) -> usize {
        ops.iter().take_while(|op| self.joins(k, op)).count()
    }

    /// Who does which of the steps of one kernel, and which barrier follows. `in_cluster`: the cluster keeps its grids
    /// in shared memory.
    fn assign(&self, k: &Packed, ops: &mut [Op], in_cluster: bool) {
        let in_cluster = |op: &Op| {
            let inner = !matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST);
            in_cluster && self.cluster_grids.members > 0 && inner && op.grid as usize >= self.cluster_grids.base
        };
        let cluster = |op: &Op| {
            let first = matches!(op.kind, kind::DESCEND_FIRST | kind::ADVANCE_FIRST | kind::REMAINDER);
            self.together.cluster > 1 && !first && k.blocks_of(op) <= self.together.cluster
        };
        for n in 0..ops.len() {
            let next = ops.get(n + 1).copied();
            if in_cluster(&ops[n]) {
                let enters = n == 0 || ops[n - 1].flags & flag::IN_CLUSTER == 0;
                let rest = |op: &Op| op.kind == kind::REMAINDER;
                let meets = match &next {
                    None => flag::NO_BARRIER,
                    // The barrier lies in the wait for the remainder, so that no block is at work on the last grid
                    // still.
                    Some(next) if in_cluster(next) && rest(next) => flag::NO_BARRIER,
                    Some(next) if in_cluster(next) => flag::CLUSTER_BARRIER,
                    Some(_) => 0,
                };
                ops[n].flags |= flag::IN_CLUSTER | meets | if enters { flag::ENTERS } else { 0 };
                continue;
            }
            if next.is_none() && ops[n].flags & flag::UPDATE == 0 {
                ops[n].flags |= flag::NO_BARRIER;
            }
            if cluster(&ops[n]) {
                ops[n].flags |= flag::CLUSTER_ONLY;
                if next.as_ref().is_some_and(cluster) && ops[n].flags & flag::UPDATE == 0 {
                    ops[n].flags |= flag::CLUSTER_BARRIER;
                }
            }
            if next.is_some_and(|next| next.kind == kind::REMAINDER) {
                ops[n].flags |= flag::NO_BARRIER;
            }
        }
    }

    /// The scalar update takes as long as a step on a small grid: where steps up larger grids follow, one block of the
    /// first of them does it while the others do the step. Then its end can be foreseen on the way down too.
    fn update_beside(&self, k: &Packed, ops: &mut [Op]) {
        let Some(update) = ops.iter().position(|op| op.flags & flag::UPDATE != 0) else { return };
        let apart = |op: &Op, kind| op.kind == kind && !self.joins(k, op);
        if apart(&ops[update], kind::REMAINDER) {
            return;
        }
        let Some(next) = (update + 1..ops.len()).find(|n| !self.joins(k, &ops[*n])) else { return };
        if apart(&ops[next], kind::ASCEND) {
            ops[update].flags &= !flag::UPDATE;
            ops[next].flags |= flag::UPDATE | flag::BESIDE;
            if apart(&ops[1], kind::DESCEND) {
                ops[1].flags |= flag::BESIDE;
            }
        }
    }

    /// As launched.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The whole iteration is one kernel.
    pub fn whole(&self, k: &Packed) -> bool {
        self.together.blocks > 0 && self.base == 0 && k.fused() && !matches!(k.remainder, Remainder::Host(_))
    }

    /// Goes into a kernel of several steps.
    fn joins(&self, k: &Packed, op: &Op) -> bool {
        self.together.blocks > 0
            && match op.kind {
                kind::REMAINDER => !matches!(k.remainder, Remainder::Host(_)),
                kind::DESCEND | kind::ASCEND | kind::MULTIPLY_INNER | kind::DIRECT_INNER | kind::ADVANCE_INNER => {
                    op.grid as usize >= self.base
                }
                _ => false,
            }
    }

    /// Blocks whose parts of <r, r> there are.
    fn norm_count(&self, k: &Packed) -> u32 {
        if self.whole(k) { self.together.blocks } else { k.first_blocks() }
    }

    fn range(&self, part: Part) -> Range<usize> {
        match part {
            Part::Iteration => self.iteration.clone(),
            Part::Down => self.iteration.start..self.down,
            Part::Application => self.application.clone(),
        }
    }
}

/// `StepArgs::beside`.
fn beside(op: &Op) -> i32 {
    i32::from(op.flags & flag::BESIDE != 0)
}

impl Packed {
    /// Of the passes over the first grid.
    fn first_blocks(&self) -> u32 {
        self.first.g.first_blocks(self.first.g.big_rows())
    }

    fn blocks_of(&self, op: &Op) -> u32 {
        match op.kind {
            kind::REMAINDER => launch::remainder_blocks(self.rest_grid.nodes()),
            kind::DESCEND | kind::ASCEND => {
                launch::sweep_blocks(&self.grids[op.grid as usize].k.g, beside(op), self.shape.storage)
            }
            kind::DESCEND_FIRST => self.first_blocks(),
            _ => self.grids[op.grid as usize].k.g.blocks(),
        }
    }

    fn scalar_args(&self, how: How) -> ScalarArgs {
        ScalarArgs {
            scalars: self.scalars_at,
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            rho_count: self.programs.rho_count as i32,
            norm_count: self.programs.norm_count(self) as i32,
            how: how as i32,
        }
    }

    /// `input`: for an application, b1 and b2 of the vector.
    pub fn first_args(&self, how: How, input: [Address; 2]) -> FirstArgs {
        let sums = how != How::Nothing;
        FirstArgs {
            v: self.first,
            k: self.grids[0].sweep,
            input,
            partial: if sums { self.rho_partial } else { 0 },
            norm_partial: if sums { self.fused_norm_partial } else { 0 },
            sigma_partial: self.partial,
            how: how as i32,
            once: i32::from(self.reads_once),
            rows: self.first.g.big_rows(),
            rows_down: self.first.g.big_rows_down(),
            with_x: i32::from(how == How::Loop),
            conditional: 0,
        }
    }

    /// The end of an iteration on S1.
    pub fn schur_args(&self, how: How, conditional: u64) -> SchurArgs {
        SchurArgs { v: self.first, partial: self.partial, how: how as i32, conditional }
    }

    fn cycle_args(&self, range: Range<usize>, how: How) -> CycleArgs {
        let base = self.programs.base;
        let mut grids = [Level::default(); MOST_GRIDS];
        for (place, level) in grids.iter_mut().zip(self.grids.get(base..).unwrap_or_default()) {
            *place = level.sweep;
        }
        CycleArgs {
            ops: self.op_at(range.start),
            count: range.len() as i32,
            base: base as i32,
            grids,
            rest: self.rest_args(),
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            sigma_partial: self.partial,
            scalar: self.scalar_args(how),
            barrier: self.barrier_at,
            cluster: self.programs.together.cluster as i32,
            cluster_base: self.programs.cluster_grids.base as i32,
            last: self.grids.len() as i32 - 1,
            members: self.programs.cluster_grids.members as i32,
            slots: self.rest.slots,
            for_x: 0,
            v: self.first,
        }
    }

    fn rest_args(&self) -> Rest {
        let narrow = self.short() && !self.wide_remainder;
        let inverse = if narrow { self.rest.narrow } else { self.rest.inverse };
        let (g, n) = (geometry(&self.rest_layout), self.rest_grid.nodes() as i32);
        Rest { g, inverse, r: self.rest.r, z: self.rest.z, n }
    }

    fn op_at(&self, n: usize) -> Address {
        self.ops_at + (n * size_of::<Op>()) as u64
    }

    /// Launches a part of the programs. `input`: see `first_args`; `conditional`: the condition of a recorded loop.
    pub fn run(&mut self, stream: &Stream, part: Part, how: How, input: [Address; 2], conditional: u64) -> Result<()> {
        let range = self.programs.range(part);
        if part != Part::Application && self.programs.whole(self) {
            let cycle = self.cycle_args(range, how);
            let arguments = SolveArgs { cycle, first: self.first_args(how, [0; 2]) };
            return launch::solve(stream, self.shape.storage, self.programs.together, &arguments);
        }
        let ops = std::mem::take(&mut self.programs.ops);
        // An iteration of the loop goes in one piece.
        let done = if self.grid_seconds.is_empty() || how == How::Loop {
            self.run_ops(stream, &ops, range, how, input, conditional)
        } else {
            self.time_ops(stream, &ops, range, how, input)
        };
        self.programs.ops = ops;
        done
    }

    /// The same, each kernel alone between two looks at the clock. Steps that share a kernel count as the remainder.
    fn time_ops(
        &mut self,
        stream: &Stream,
        ops: &[Op],
        range: Range<usize>,
        how: How,
        input: [Address; 2],
    ) -> Result<()> {
        let below = self.grid_seconds.len() - 1;
        let mut n = range.start;
        stream.wait()?;
        while n < range.end {
            let joined = self.programs.joined(self, &ops[n..range.end]);
            let next = n + joined.max(1);
            let start = Instant::now();
            self.run_ops(stream, ops, n..next, how, input, 0)?;
            stream.wait()?;
            let (grid, way) = match ops[n].kind {
                _ if joined > 0 => (below, 0),
                kind::REMAINDER => (below, 0),
                kind::ASCEND | kind::ASCEND_FIRST => (ops[n].grid as usize, 1),
                _ => (ops[n].grid as usize, 0),
            };
            self.grid_seconds[grid][way] += start.elapsed().as_secs_f64();
            n = next;
        }
        Ok(())
    }

    fn run_ops(
        &mut self,
        stream: &Stream,
        ops: &[Op],
        range: Range<usize>,
        how: How,
        input: [Address; 2],
        conditional: u64,
    ) -> Result<()> {
        let storage = self.shape.storage;
        // x += alpha p beside the first kernel of several steps, or on the way up the first grid.
        let mut x_due = how == How::Loop;
        let mut n = range.start;
        while n < range.end {
            let joined = self.programs.joined(self, &ops[n..range.end]);
            if joined > 0 {
                let together = self.programs.together;
                let further = if x_due { together.further } else { 0 };
                x_due &= further == 0;
                let arguments = CycleArgs { for_x: further as i32, ..self.cycle_args(n..n + joined, how) };
                launch::cycle(stream, storage, Together { further, ..together }, &arguments)?;
                n += joined;
                continue;
            }
            let op = &ops[n];
            let partial = self.rho_partial + 8 * op.partial as u64;
            let step = || StepArgs {
                k: self.grids[op.grid as usize].sweep,
                op: self.op_at(n),
                partial,
                scalar: self.scalar_args(how),
                beside: beside(op),
            };
            match op.kind {
                kind::DESCEND_FIRST => {
                    let first = self.first_args(how, input);
                    launch::descend_first(
                        stream,
                        storage,
                        &FirstArgs { partial: if first.partial > 0 { partial } else { 0 }, ..first },
                    )?;
                }
                kind::DESCEND => launch::descend(stream, storage, &step())?,
                kind::ASCEND => launch::ascend(stream, storage, &step())?,
                kind::REMAINDER if matches!(self.remainder, Remainder::Host(_)) => self.solve_on_host(stream)?,
                kind::REMAINDER => {
                    // A kernel of its own sums and updates the scalars, or does neither.
                    let updates = op.flags & flag::UPDATE != 0;
                    let (rest, scalar) = (self.rest_args(), self.scalar_args(if updates { how } else { How::Nothing }));
                    let arguments = RemainderArgs { rest, partial, scalar };
                    match (self.short(), self.wide_remainder) {
                        (true, true) => launch::remainder_wide(stream, &arguments)?,
                        (true, false) => launch::remainder_short(stream, &arguments)?,
                        (false, _) => launch::remainder(stream, &arguments)?,
                    }
                }
                kind::ADVANCE_FIRST => {
                    let with_x = i32::from(x_due);
                    let first = FirstArgs { conditional, with_x, ..self.first_args(how, input) };
                    launch::advance_first(stream, storage, &first)?;
                }
                kind::ASCEND_FIRST => launch::ascend_first(stream, storage, &self.first_args(how, input))?,
                _ => launch::inner(stream, storage, &step())?,
            }
            n += 1;
        }
        Ok(())
    }

    /// Writes the programs of a cycle, and sends them.
    pub fn set_programs(&mut self, stream: &Stream, recursion: &Recursion) -> Result<()> {
        self.programs = Programs::write(self, stream.device(), recursion)?;
        stream.send(self.ops_at, self.programs.ops())?;
        stream.wait()?;
        self.recursion = *recursion;
        Ok(())
    }

    /// The cycle: chosen, with its bounds, and as programs. Whether its shape is the one before.
    pub fn prepare_cycle(&mut self, stream: &Stream, cycle: &Cycle) -> Result<bool> {
        let before = self.recursion.kind;
        let plain = self.sections.len() < 2 || cycle.kind == Some(Kind::V) || self.ends_early();
        if self.programs.ops.is_empty() || plain && before != Kind::V {
            self.set_programs(stream, &Recursion::V)?;
        }
        if plain {
            return Ok(before == Kind::V);
        }
        let steps = Steps::new(&self.sections, self.grids.len(), self.shape.schur)?;
        let mut live = Live { steps, k: self, stream, failed: None };
        let found = cycle::prepare(&mut live, cycle, 1.0);
        if let Some(error) = live.failed.or(live.steps.refused) {
            return Err(error);
        }
        self.set_programs(stream, &found)?;
        Ok(before == found.kind)
    }
}

/// The cycle as it is done, for the estimates of its bounds: inner products come to the host.
struct Live<'a> {
    steps: Steps,
    k: &'a mut Packed,
    stream: &'a Stream,
    failed: Option<Error>,
}

impl Live<'_> {
    /// Does what was written down.
    fn catch_up(&mut self) -> Result<()> {
        if let Some(error) = &self.steps.refused {
            return Err(error.clone());
        }
        let mut ops = std::mem::take(&mut self.steps.ops);
        if ops.is_empty() {
            return Ok(());
        }
        let mut n = 0;
        while n < ops.len() {
            let joined = self.k.programs.joined(self.k, &ops[n..]);
            // Other kernels read what these leave.
            self.k.programs.assign(self.k, &mut ops[n..n + joined], false);
            n += joined.max(1);
        }
        // Pageable memory is staged before this returns.
        self.stream.send(self.k.ops_at, &ops)?;
        self.k.run_ops(self.stream, &ops, 0..ops.len(), How::Nothing, [0; 2], 0)
    }

    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failed.is_some() {
            return None;
        }
        f(self).map_err(|error| self.failed = Some(error)).ok()
    }

    fn level(&self, k: usize) -> Level {
        self.k.grids[self.steps.sections[k]].sweep
    }
}

impl CycleSteps for Live<'_> {
    fn recursions(&self) -> Range<usize> {
        self.steps.recursions()
    }

    fn takes_part(&self, k: usize) -> bool {
        self.steps.takes_part(k)
    }

    fn sweep_down(&mut self, k: usize) {
        self.steps.sweep_down(k);
    }

    fn solve_remainder(&mut self) {
        self.steps.solve_remainder();
    }

    fn sweep_up(&mut self, k: usize) {
        self.steps.sweep_up(k);
    }

    fn keep_rhs(&mut self, k: usize) {
        self.steps.keep_rhs(k);
    }

    fn direct(&mut self, k: usize, beta: Option<f64>) {
        self.steps.direct(k, beta);
    }

    fn multiply_direction(&mut self, k: usize) {
        self.steps.multiply_direction(k);
    }

    fn inner_product(&mut self, k: usize, a: Inner, b: Inner) -> f64 {
        let of = |which: Inner| match which {
            Inner::R => 0,
            Inner::Z => 1,
            Inner::D => 2,
            Inner::Q => 3,
        };
        self.attempt(|s| {
            s.catch_up()?;
            let (partial, scalars) = (s.k.partial, s.k.scalars_at);
            let arguments = InnerProductArgs { k: s.level(k), a: of(a), b: of(b), partial, scalars };
            launch::inner_product(s.stream, s.k.shape.storage, &arguments)?;
            Ok(s.k.fetch_scalars(s.stream)?.sum)
        })
        .unwrap_or(f64::NAN)
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        self.steps.advance(k, alpha, first, go_on);
    }

    fn take_solution(&mut self, k: usize) {
        self.steps.take_solution(k);
    }

    fn draw_direction(&mut self, k: usize) {
        let _ = self.attempt(|s| {
            s.catch_up()?;
            let scalar = ScalarArgs::default();
            launch::draw(s.stream, s.k.shape.storage, &StepArgs { k: s.level(k), op: 0, partial: 0, scalar, beside: 0 })
        });
    }
}
