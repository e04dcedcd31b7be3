//! Launches of the kernels that execute the lists of steps (`program`).

use super::division::Division;
use super::packed::{CoarsestSolver, Packed};
use super::program::ProgramPart;
use super::schedule::scalar_block;
use super::setup::colour_and_index;
use crate::base::number::Real;
use crate::cuda::driver::{CooperativeLaunch, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CoarsestSystem, CycleArgs, FirstGridArgs, Level, MAX_GRIDS, MultiplyCoarsestArgs, Op, ScalarArgs,
    SchurArgs, SolveArgs, Stage, StepArgs, flag, kind,
};
use crate::error::{Result, zeroed};
use crate::stencil::matrix::ring_index;
use bytemuck::Pod;
use std::ops::Range;
use std::time::Instant;

impl Packed {
    /// Returns the arguments of the update of the CG scalars. A kernel performs this update after the last partial sum
    /// of rho = <r, M^-1 r>.
    fn scalar_args(&self, stage: Stage) -> ScalarArgs {
        ScalarArgs {
            scalars: self.scalars.address,
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            rho_count: self.programs.rho_count as i32,
            norm_count: self.programs.norm_count(self) as i32,
            stage: stage as i32,
        }
    }

    /// Returns the arguments of a pass over the first grid. `input` contains the addresses of the planes b1 and b2 of
    /// the vector to which M^-1 is applied.
    pub fn first_grid_args(&self, stage: Stage, input: [Address; 2]) -> FirstGridArgs {
        let computes_sums = stage != Stage::Nothing;
        FirstGridArgs {
            v: self.schur_arrays,
            k: self.grids[0].sweep,
            in_b1: input[0],
            in_b2: input[1],
            partial: if computes_sums { self.rho_partial } else { 0 },
            norm_partial: if computes_sums { self.fused_norm_partial } else { 0 },
            sigma_partial: self.partial,
            stage: stage as i32,
            reads_once: i32::from(self.caches_repeated_reads),
            backward_rows: self.schur_arrays.g.backward_tile_rows(),
            forward_rows: self.schur_arrays.g.forward_tile_rows(),
            with_x: i32::from(stage == Stage::Loop),
            conditional: 0,
        }
    }

    /// Returns the arguments of the unfused kernels on S1.
    pub fn schur_args(&self, stage: Stage, conditional: u64) -> SchurArgs {
        SchurArgs { v: self.schur_arrays, partial: self.partial, stage: stage as i32, conditional }
    }

    /// Returns the arguments of the cooperative kernel that executes the steps `op_range`.
    fn cycle_args(&self, op_range: Range<usize>, stage: Stage) -> CycleArgs {
        let base = self.programs.first_joined_grid;
        let mut grids = [Level::default(); MAX_GRIDS];
        for (grid, level) in grids.iter_mut().zip(self.grids.get(base..).unwrap_or_default()) {
            *grid = level.sweep;
        }
        CycleArgs {
            ops: self.op_address(op_range.start),
            op_count: op_range.len() as i32,
            base_grid: base as i32,
            grids,
            coarsest: self.coarsest_system(),
            rho_partial: self.rho_partial,
            norm_partial: self.fused_norm_partial,
            sigma_partial: self.partial,
            scalar: self.scalar_args(stage),
            barrier: self.barrier_address,
            blocks_per_cluster: self.programs.cooperative.cluster as i32,
            cluster_first_grid: self.programs.cluster_grids.first_grid as i32,
            last_grid: self.grids.len() as i32 - 1,
            row_blocks: self.programs.cluster_grids.row_blocks as i32,
            exchange: self.coarsest.exchange,
            x_blocks: 0,
            v: self.schur_arrays,
        }
    }

    /// Returns the arguments of the product with the coarsest system's inverse. The inverse is in f32 if sweeps compute
    /// in f32 and `has_f64_inverse` is not set.
    fn coarsest_system(&self) -> CoarsestSystem {
        let is_single_precision = self.sweeps_in_f32() && !self.has_f64_inverse;
        let inverse = if is_single_precision { self.coarsest.lines.inverse_f32 } else { self.coarsest.lines.inverse };
        let g = Division::NONE.geometry(&self.coarsest_layout).0;
        let n = self.coarsest_grid.nodes() as i32;
        CoarsestSystem { g, inverse, r: self.coarsest.r, z: self.coarsest.z, n }
    }

    /// Returns the device address of step number n.
    fn op_address(&self, n: usize) -> Address {
        self.ops_address + (n * size_of::<Op>()) as u64
    }

    /// Launches the steps of `program_part`. `stage` determines what the kernels do with their sums. `input` is as for
    /// `first_grid_args`. `conditional` is the condition handle of a recorded loop, or 0.
    pub fn run(
        &mut self,
        stream: &Stream,
        program_part: ProgramPart,
        stage: Stage,
        input: [Address; 2],
        conditional: u64,
    ) -> Result<()> {
        let op_range = self.programs.op_range(program_part);
        if program_part != ProgramPart::Application && self.programs.is_one_kernel(self) {
            let cycle = self.cycle_args(op_range, stage);
            let arguments = SolveArgs { cycle, first_grid: self.first_grid_args(stage, [0; 2]) };
            return launch::solve(stream, self.shape.storage, self.programs.cooperative, &arguments);
        }
        let ops = std::mem::take(&mut self.programs.ops);
        // Steps in a loop are not timed.
        let result = if self.grid_seconds.is_empty() || stage == Stage::Loop {
            self.run_ops(stream, &ops, op_range, stage, input, conditional)
        } else {
            self.time_ops(stream, &ops, op_range, stage, input)
        };
        self.programs.ops = ops;
        result
    }

    /// Runs steps like `run_ops`, but waits before and after each kernel to measure its time. Adds the time to
    /// `grid_seconds[grid][half]`, where `half` is 0 for forward steps and 1 for backward steps. Adds the time of a
    /// kernel that executes several steps to the entry of the coarsest system.
    fn time_ops(
        &mut self,
        stream: &Stream,
        ops: &[Op],
        op_range: Range<usize>,
        stage: Stage,
        input: [Address; 2],
    ) -> Result<()> {
        let coarsest_entry = self.grid_seconds.len() - 1;
        let mut n = op_range.start;
        stream.wait()?;
        while n < op_range.end {
            let joined_count = self.programs.count_joined_ops(self, &ops[n..op_range.end]);
            let kernel_end = n + joined_count.max(1);
            let start_time = Instant::now();
            self.run_ops(stream, ops, n..kernel_end, stage, input, 0)?;
            stream.wait()?;
            let (grid, half) = match ops[n].kind {
                _ if joined_count > 0 => (coarsest_entry, 0),
                kind::COARSEST => (coarsest_entry, 0),
                kind::ASCEND | kind::ASCEND_FIRST => (ops[n].grid as usize, 1),
                _ => (ops[n].grid as usize, 0),
            };
            self.grid_seconds[grid][half] += start_time.elapsed().as_secs_f64();
            n = kernel_end;
        }
        Ok(())
    }

    /// Launches the steps `op_range` of `ops`. Consecutive steps that share a kernel are launched together.
    pub fn run_ops(
        &mut self,
        stream: &Stream,
        ops: &[Op],
        op_range: Range<usize>,
        stage: Stage,
        input: [Address; 2],
        conditional: u64,
    ) -> Result<()> {
        let storage = self.shape.storage;
        // In a loop, one of the following kernels must also compute x += alpha p. The first kernel that executes
        // several steps computes x if it has thread blocks for this purpose (`extra_blocks`). Otherwise, the kernel of
        // the backward half on the first grid computes x.
        let mut must_update_x = stage == Stage::Loop;
        let mut n = op_range.start;
        while n < op_range.end {
            let joined_count = self.programs.count_joined_ops(self, &ops[n..op_range.end]);
            if joined_count > 0 {
                let cooperative = self.programs.cooperative;
                let x_blocks = if must_update_x { cooperative.extra_blocks } else { 0 };
                must_update_x &= x_blocks == 0;
                let arguments = CycleArgs { x_blocks: x_blocks as i32, ..self.cycle_args(n..n + joined_count, stage) };
                launch::cycle(
                    stream,
                    storage,
                    CooperativeLaunch { extra_blocks: x_blocks, ..cooperative },
                    &arguments,
                )?;
                n += joined_count;
                continue;
            }
            let op = &ops[n];
            let partial = self.rho_partial + 8 * op.partial as u64;
            let step_args = || StepArgs {
                k: self.grids[op.grid as usize].sweep,
                op: self.op_address(n),
                partial,
                scalar: self.scalar_args(stage),
                scalar_block: scalar_block(op),
            };
            match op.kind {
                kind::DESCEND_FIRST => {
                    let arguments = self.first_grid_args(stage, input);
                    launch::descend_first(
                        stream,
                        storage,
                        &FirstGridArgs { partial: if arguments.partial > 0 { partial } else { 0 }, ..arguments },
                    )?;
                }
                kind::DESCEND => launch::descend(stream, storage, &step_args())?,
                kind::ASCEND => launch::ascend(stream, storage, &step_args())?,
                kind::COARSEST if matches!(self.coarsest_solver, CoarsestSolver::Host(_)) => {
                    self.solve_on_host(stream)?
                }
                kind::COARSEST => {
                    // The separate kernel of the coarsest system either computes rho and updates the scalars, or does
                    // neither.
                    let updates_scalars = op.flags & flag::UPDATE_SCALARS != 0;
                    let (coarsest_system, scalar_args) = (
                        self.coarsest_system(),
                        self.scalar_args(if updates_scalars { stage } else { Stage::Nothing }),
                    );
                    let arguments = MultiplyCoarsestArgs { coarsest: coarsest_system, partial, scalar: scalar_args };
                    match (self.sweeps_in_f32(), self.has_f64_inverse) {
                        (true, true) => launch::multiply_coarsest_f32_by_f64(stream, &arguments)?,
                        (true, false) => launch::multiply_coarsest_f32(stream, &arguments)?,
                        (false, _) => launch::multiply_coarsest(stream, &arguments)?,
                    }
                }
                kind::ADVANCE_FIRST => {
                    let with_x = i32::from(must_update_x);
                    let arguments = FirstGridArgs { conditional, with_x, ..self.first_grid_args(stage, input) };
                    launch::advance_first(stream, storage, &arguments)?;
                }
                kind::ASCEND_FIRST => launch::ascend_first(stream, storage, &self.first_grid_args(stage, input))?,
                _ => launch::inner_step(stream, storage, &step_args())?,
            }
            n += 1;
        }
        Ok(())
    }

    /// Solves the coarsest system on the host.
    fn solve_on_host(&mut self, stream: &Stream) -> Result<()> {
        if self.sweeps_in_f32() { self.solve_on_host_in::<f32>(stream) } else { self.solve_on_host_in::<f64>(stream) }
    }

    /// Copies r to the host, computes z = storage_unit M_L^-1 r, and copies z to the device. M_L consists of the level
    /// on the host, if there is one, and of the band factorization of the coarsest matrix.
    fn solve_on_host_in<R: Real + Pod>(&mut self, stream: &Stream) -> Result<()> {
        let (grid, layout, coarsest, storage_unit) =
            (self.coarsest_grid, self.coarsest_layout, self.coarsest, self.storage_unit);
        let CoarsestSolver::Host(natural) = &mut self.coarsest_solver else { return Ok(()) };
        let mut values: Vec<R> = zeroed(4 * layout.len(), "the coarsest system")?;
        stream.fetch(&mut values, coarsest.r)?;
        stream.wait()?;
        let index_of = |i: usize, j: usize| {
            let (colour, index) = colour_and_index(&layout, layout.stride(), i, j);
            colour as usize * layout.len() + index
        };
        for j in 0..grid.ny {
            let z = &mut natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter_mut().enumerate().for_each(|(i, z)| *z = storage_unit * values[index_of(i, j)].to_f64());
        }
        natural.apply();
        for j in 0..grid.ny {
            let z = &natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter().enumerate().for_each(|(i, z)| values[index_of(i, j)] = R::from_f64(*z));
        }
        stream.send(coarsest.z, &values)?;
        stream.wait()
    }
}
