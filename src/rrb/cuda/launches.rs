//! Launches of the kernels that execute the lists of steps (`program`).

use super::division::Division;
use super::packed::{CoarsestSolver, Packed};
use super::program::Part;
use super::schedule::scalar_block;
use super::setup::place_in;
use crate::base::number::Real;
use crate::cuda::driver::{CooperativeLaunch, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CoarsestSystem, CycleArgs, FirstArgs, How, Level, MOST_GRIDS, MultiplyCoarsestArgs, Op, ScalarArgs,
    SchurArgs, SolveArgs, StepArgs, flag, kind,
};
use crate::error::{Result, zeroed};
use crate::stencil::matrix::ring_index;
use bytemuck::Pod;
use std::ops::Range;
use std::time::Instant;

impl Packed {
    /// Returns the arguments of the scalar update, which follows the last partial sum of rho = <r, M^-1 r>.
    fn scalar_args(&self, how: How) -> ScalarArgs {
        ScalarArgs {
            scalars: self.scalars.at,
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            rho_count: self.programs.rho_count as i32,
            norm_count: self.programs.norm_count(self) as i32,
            how: how as i32,
        }
    }

    /// Returns the arguments of a pass over the first grid. `input` contains the addresses of the planes b1 and b2 of
    /// the vector to which M^-1 is applied.
    pub fn first_args(&self, how: How, input: [Address; 2]) -> FirstArgs {
        let sums = how != How::Nothing;
        FirstArgs {
            v: self.first,
            k: self.grids[0].sweep,
            in_b1: input[0],
            in_b2: input[1],
            partial: if sums { self.rho_partial } else { 0 },
            norm_partial: if sums { self.fused_norm_partial } else { 0 },
            sigma_partial: self.partial,
            how: how as i32,
            once: i32::from(self.reads_once),
            rows: self.first.g.backward_tile_rows(),
            rows_down: self.first.g.forward_tile_rows(),
            with_x: i32::from(how == How::Loop),
            conditional: 0,
        }
    }

    /// Returns the arguments of the unfused kernels on S1.
    pub fn schur_args(&self, how: How, conditional: u64) -> SchurArgs {
        SchurArgs { v: self.first, partial: self.partial, how: how as i32, conditional }
    }

    /// Returns the arguments of the cooperative kernel that executes the steps `range`.
    fn cycle_args(&self, range: Range<usize>, how: How) -> CycleArgs {
        let base = self.programs.base;
        let mut grids = [Level::default(); MOST_GRIDS];
        for (place, level) in grids.iter_mut().zip(self.grids.get(base..).unwrap_or_default()) {
            *place = level.sweep;
        }
        CycleArgs {
            ops: self.op_address(range.start),
            count: range.len() as i32,
            base: base as i32,
            grids,
            coarsest: self.coarsest_system(),
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            sigma_partial: self.partial,
            scalar: self.scalar_args(how),
            barrier: self.barrier_at,
            cluster: self.programs.cooperative.cluster as i32,
            cluster_base: self.programs.cluster_grids.base as i32,
            last: self.grids.len() as i32 - 1,
            row_blocks: self.programs.cluster_grids.row_blocks as i32,
            slots: self.coarsest.slots,
            x_blocks: 0,
            v: self.first,
        }
    }

    /// Returns the arguments of the product with the coarsest system's inverse. The inverse is in f32 if sweeps compute
    /// in f32 and `wide_coarsest` is not set.
    fn coarsest_system(&self) -> CoarsestSystem {
        let narrow = self.short() && !self.wide_coarsest;
        let inverse = if narrow { self.coarsest.lines.inverse_f32 } else { self.coarsest.lines.inverse };
        let g = Division::NONE.geometry(&self.coarsest_layout).0;
        let n = self.coarsest_grid.nodes() as i32;
        CoarsestSystem { g, inverse, r: self.coarsest.r, z: self.coarsest.z, n }
    }

    /// Returns the device address of step number n.
    fn op_address(&self, n: usize) -> Address {
        self.ops_at + (n * size_of::<Op>()) as u64
    }

    /// Launches the steps of `part`. `how` determines what the kernels do with their sums. `input` is as for
    /// `first_args`. `conditional` is the condition handle of a recorded loop, or 0.
    pub fn run(&mut self, stream: &Stream, part: Part, how: How, input: [Address; 2], conditional: u64) -> Result<()> {
        let range = self.programs.range(part);
        if part != Part::Application && self.programs.is_one_kernel(self) {
            let cycle = self.cycle_args(range, how);
            let arguments = SolveArgs { cycle, first: self.first_args(how, [0; 2]) };
            return launch::solve(stream, self.shape.storage, self.programs.cooperative, &arguments);
        }
        let ops = std::mem::take(&mut self.programs.ops);
        // Steps are not timed in a loop.
        let done = if self.grid_seconds.is_empty() || how == How::Loop {
            self.run_ops(stream, &ops, range, how, input, conditional)
        } else {
            self.time_ops(stream, &ops, range, how, input)
        };
        self.programs.ops = ops;
        done
    }

    /// Runs steps like `run`, but waits before and after each kernel to measure its time. The time is added to the grid
    /// and the half (0: forward, 1: backward) of the step. The time of a kernel that executes several steps is added to
    /// the coarsest system.
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
                kind::COARSEST => (below, 0),
                kind::ASCEND | kind::ASCEND_FIRST => (ops[n].grid as usize, 1),
                _ => (ops[n].grid as usize, 0),
            };
            self.grid_seconds[grid][way] += start.elapsed().as_secs_f64();
            n = next;
        }
        Ok(())
    }

    /// Launches the steps `range` of `ops`. Consecutive steps that share a kernel are launched together.
    pub fn run_ops(
        &mut self,
        stream: &Stream,
        ops: &[Op],
        range: Range<usize>,
        how: How,
        input: [Address; 2],
        conditional: u64,
    ) -> Result<()> {
        let storage = self.shape.storage;
        // In a loop, one of the following kernels must also compute x += alpha p. This is the first kernel that
        // executes several steps, if it has further thread blocks for this purpose. Otherwise, it is the kernel of the
        // backward half on the first grid.
        let mut x_due = how == How::Loop;
        let mut n = range.start;
        while n < range.end {
            let joined = self.programs.joined(self, &ops[n..range.end]);
            if joined > 0 {
                let cooperative = self.programs.cooperative;
                let further = if x_due { cooperative.further } else { 0 };
                x_due &= further == 0;
                let arguments = CycleArgs { x_blocks: further as i32, ..self.cycle_args(n..n + joined, how) };
                launch::cycle(stream, storage, CooperativeLaunch { further, ..cooperative }, &arguments)?;
                n += joined;
                continue;
            }
            let op = &ops[n];
            let partial = self.rho_partial + 8 * op.partial as u64;
            let step = || StepArgs {
                k: self.grids[op.grid as usize].sweep,
                op: self.op_address(n),
                partial,
                scalar: self.scalar_args(how),
                scalar_block: scalar_block(op),
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
                kind::COARSEST if matches!(self.coarsest_solver, CoarsestSolver::Host(_)) => {
                    self.solve_on_host(stream)?
                }
                kind::COARSEST => {
                    // A separate kernel of the coarsest system either sums rho and also updates the scalars, or does
                    // neither.
                    let updates = op.flags & flag::UPDATE_SCALARS != 0;
                    let (coarsest, scalar) =
                        (self.coarsest_system(), self.scalar_args(if updates { how } else { How::Nothing }));
                    let arguments = MultiplyCoarsestArgs { coarsest, partial, scalar };
                    match (self.short(), self.wide_coarsest) {
                        (true, true) => launch::multiply_coarsest_wide(stream, &arguments)?,
                        (true, false) => launch::multiply_coarsest_short(stream, &arguments)?,
                        (false, _) => launch::multiply_coarsest(stream, &arguments)?,
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

    /// Solves the coarsest system on the host.
    fn solve_on_host(&mut self, stream: &Stream) -> Result<()> {
        if self.short() { self.solve_on_host_in::<f32>(stream) } else { self.solve_on_host_in::<f64>(stream) }
    }

    /// Copies r to the host, computes z = unit M_L^-1 r, and copies z to the device. M_L consists of the level on the
    /// host, if there is one, and of the band factorization of the coarsest matrix.
    fn solve_on_host_in<R: Real + Pod>(&mut self, stream: &Stream) -> Result<()> {
        let (grid, layout, coarsest, unit) = (self.coarsest_grid, self.coarsest_layout, self.coarsest, self.unit);
        let CoarsestSolver::Host(natural) = &mut self.coarsest_solver else { return Ok(()) };
        let mut values: Vec<R> = zeroed(4 * layout.len(), "the coarsest system")?;
        stream.fetch(&mut values, coarsest.r)?;
        stream.wait()?;
        let place = |i: usize, j: usize| {
            let (colour, at) = place_in(&layout, layout.stride(), i, j);
            colour as usize * layout.len() + at
        };
        for j in 0..grid.ny {
            let z = &mut natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter_mut().enumerate().for_each(|(i, z)| *z = unit * values[place(i, j)].wide());
        }
        natural.apply();
        for j in 0..grid.ny {
            let z = &natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter().enumerate().for_each(|(i, z)| values[place(i, j)] = R::narrow(*z));
        }
        stream.send(coarsest.z, &values)?;
        stream.wait()
    }
}
