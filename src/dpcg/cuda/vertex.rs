//! V-cycle of multigrid with vertex coarsening (Dendy 1982) for the grids of `coarsening`. kernels/dpcg/finest.cuh
//! contains the sweeps on the finest grid, and kernels/dpcg/vertex.cuh the cycle on the coarser grids.

use super::coarsening::{DIAGONAL, Grid, INVERSE_DIVISOR, build_grids};
use super::dense::DenseInverse;
use super::multigrid::{GRIDS_ALLOCATION, GridsAndInverse};
use super::source::DeviceMatrix;
use crate::base::heap::boxed;
use crate::base::number::Real;
use crate::cuda::arrays::Pool;
use crate::cuda::driver::{CooperativeLaunch, Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, DenseArgs, FinestSweepArgs, RestrictFinestArgs, Sum, SweepTiles, VERTEX_CYCLE_THREADS, VertexCycleArgs,
    VertexGrid,
};
use crate::cuda::vectors::Scale;
use crate::error::{Result, push};
use bytemuck::{Pod, Zeroable};

/// Indices of the arrays in `Grid::vectors`. x is stored alternately in the arrays `X_ARRAY` and `X_ARRAY + 1`.
const R_ARRAY: usize = 0;
const X_ARRAY: usize = 1;

/// Upper bound of the number of grids. A box of 2^32 cells has fewer grids, because a grid has at most 2/3 of the
/// points of the previous grid. The same constant is in kernels/dpcg/vertex.cuh.
const MAX_GRIDS: usize = 64;

/// The preconditioner: one V-cycle that starts from zero.
pub struct VertexMultigrid {
    sweeps: usize,
    is_single_precision: bool,
    /// Power of two by which the matrix is multiplied.
    matrix_scale: f64,
    grids: Vec<Grid>,
    /// Inverse of the coarsest matrix.
    inverse: DenseInverse,
    finest: VertexGrid,
    /// Tiles for a sweep from zero, and tiles for other sweeps.
    tiles: [SweepTiles; 2],
    cycle_args: VertexCycleArgs,
    cooperative_launch: CooperativeLaunch,
    /// Memory of four lists: r of the coarsest grid in f64, x of the coarsest grid in f64, the arguments of the coarse
    /// grids, and the counters of the barrier.
    memory: Memory,
    /// The solver's r.
    r: Address,
    /// The solver's z.
    z: Address,
}

impl Grid {
    /// Returns the kernel arguments of this grid. `coarse_args` contains the addresses of the next coarser grid. If the
    /// grid has no vectors of its own, the vectors in `solver_vectors` are used.
    fn level_args(&self, coarse_args: VertexGrid, solver_vectors: [Address; 3]) -> VertexGrid {
        let [r, x, second_x] = self
            .vectors
            .as_ref()
            .map_or(solver_vectors, |own_vectors| [R_ARRAY, X_ARRAY, X_ARRAY + 1].map(|k| own_vectors.at(k)));
        VertexGrid {
            cells: self.cells,
            coarse: self.coarse_box,
            is_coarsened: self.coarsened_directions,
            c: self.conductances.address,
            c_stride: self.conductances.stride as i64,
            per_coupling: self.conductances.per_coupling,
            diagonal: self.diagonals.at(DIAGONAL),
            inverse: self.diagonals.at(INVERSE_DIVISOR),
            weights: self.weights.address,
            strides: self.strides,
            r,
            x: [x, second_x],
            ..coarse_args
        }
    }
}

impl VertexMultigrid {
    /// Builds the preconditioner for `scale` times the matrix. The cycle computes in the type `T`. `solver_vectors`
    /// contains the addresses of r, q and z. In f64, the finest grid uses these vectors, and a cycle overwrites q.
    pub fn new<T: Real + Pod>(
        pool: &mut Pool,
        stream: &Stream,
        source: &DeviceMatrix,
        scalars: Address,
        scale: f64,
        sweeps: usize,
        solver_vectors: [Address; 3],
    ) -> Result<Box<Self>> {
        let is_single_precision = size_of::<T>() == 4;
        let GridsAndInverse { grids, inverse } =
            build_grids(pool, stream, source, scalars, scale, is_single_precision)?;
        let n = inverse.n();
        // Zeros must follow the solution on the coarsest grid, as they follow other vectors.
        let trailing_zeros =
            grids.last().map_or(0, |grid| grid.coarse_box.nx as usize * (grid.coarse_box.ny as usize + 1) + 1);
        let sizes = [8 * n, 8 * (n + trailing_zeros), MAX_GRIDS * size_of::<VertexGrid>(), 16];
        let (memory, [r, x, levels_address, barrier]) = pool.allocate_lists(stream, sizes, GRIDS_ALLOCATION)?;
        let mut coarse_args = VertexGrid { coarsest_is_next: 1, coarse_r: r, coarse_x: x, ..VertexGrid::zeroed() };
        let mut levels = Vec::new();
        for grid in grids.iter().rev() {
            let level = grid.level_args(coarse_args, solver_vectors);
            push(&mut levels, level, GRIDS_ALLOCATION)?;
            let [sweep_start, x] = level.x;
            let (r, inverse) = (level.r, level.inverse);
            coarse_args = VertexGrid {
                coarse_r: r,
                coarse_first_iterate: sweep_start,
                coarse_inverse: inverse,
                coarse_x: x,
                ..VertexGrid::zeroed()
            };
        }
        levels.reverse();
        stream.send(levels_address, &levels[1..])?;
        stream.fill(x + 8 * n as u64, 0, 8 * trailing_zeros)?;
        stream.fill(barrier, 0, 16)?;
        stream.wait()?;
        let mut cooperative_launch = launch::vertex_cycle_launch(stream.device(), is_single_precision)?;
        let max_points = levels.get(1).map_or(0, |level| level.cells.count() as u32).max(32 * n as u32);
        cooperative_launch.blocks = cooperative_launch.blocks.min(max_points.div_ceil(VERTEX_CYCLE_THREADS));
        let level_count = levels.len() as i32 - 1;
        let coarsest = DenseArgs { matrix: inverse.matrix(), input: r, out: x, n: n as i32, ..DenseArgs::default() };
        let cycle_args = VertexCycleArgs {
            levels: levels_address,
            count: level_count,
            sweeps: sweeps as i32,
            step: -1,
            coarsest,
            barrier,
            ..VertexCycleArgs::default()
        };
        let finest = levels[0];
        let tiles = [1, 2].map(|halo| SweepTiles::of(finest.cells, halo));
        let [solver_r, _, z] = solver_vectors;
        boxed(
            Self {
                sweeps,
                is_single_precision,
                matrix_scale: scale,
                grids,
                inverse,
                finest,
                tiles,
                cycle_args,
                cooperative_launch,
                memory,
                r: solver_r,
                z,
            },
            GRIDS_ALLOCATION,
        )
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.grids.into_iter().try_for_each(|grid| grid.release(pool))?;
        self.inverse.release(pool)?;
        pool.release(self.memory)
    }

    /// Computes z = M^-1 r, and <r, z> as the reduction `sum`. In a loop of PCG, the scalars contain <r, r>, from which
    /// the kernels compute the scaling factor of r.
    pub fn apply(&self, stream: &Stream, scale: &Scale, sum: Sum) -> Result<()> {
        // In f64, no scaling factor is needed.
        if self.is_single_precision && sum.in_loop == 0 {
            scale.find_scale(stream, self.r, self.finest.cells.count())?;
        }
        let no_sum = Sum { partial: 0, sum_use: 0, conditional: 0, ..sum };
        let sweep_args = FinestSweepArgs {
            grid: self.finest,
            tiles: self.tiles[1],
            r_f64: self.r,
            z: self.z,
            factor: self.matrix_scale,
            scales: scale.scales,
            sum: no_sum,
            ..FinestSweepArgs::default()
        };
        let is_single_precision = self.is_single_precision;
        launch::sweep_from_zero(
            stream,
            is_single_precision,
            &FinestSweepArgs { tiles: self.tiles[0], source_array: 1, ..sweep_args },
        )?;
        // Index of the array that contains the current x of the finest grid.
        let mut current_x = 0;
        for _ in 1..self.sweeps {
            launch::sweep_finest(
                stream,
                is_single_precision,
                &FinestSweepArgs { source_array: current_x, ..sweep_args },
            )?;
            current_x = 1 - current_x;
        }
        launch::restrict_finest(stream, is_single_precision, &RestrictFinestArgs::new(self.finest, current_x, no_sum))?;
        self.solve_coarse(stream, no_sum)?;
        for sweep in 0..self.sweeps {
            let is_last = sweep + 1 == self.sweeps;
            let args = FinestSweepArgs {
                colour: 1,
                source_array: current_x,
                sum: if is_last { sum } else { no_sum },
                ..sweep_args
            };
            match (sweep, is_last) {
                (0, false) => launch::sweep_corrected(stream, is_single_precision, &args),
                (0, true) => launch::last_sweep_corrected(stream, is_single_precision, &args),
                (_, false) => launch::sweep_finest(stream, is_single_precision, &args),
                (_, true) => launch::last_sweep(stream, is_single_precision, &args),
            }?;
            current_x = 1 - current_x;
        }
        Ok(())
    }

    /// Executes the cycle on the coarse grids in one launch. If the thread blocks of this launch cannot be resident on
    /// the device at the same time, uses one launch per step.
    fn solve_coarse(&self, stream: &Stream, sum: Sum) -> Result<()> {
        let args = VertexCycleArgs { sum, ..self.cycle_args };
        if self.cooperative_launch.blocks > 0 {
            return launch::vertex_cycle(stream, self.is_single_precision, self.cooperative_launch, &args);
        }
        let step_count = args.count * (2 * args.sweeps + 2) + 1;
        (0..step_count).try_for_each(|step| {
            launch::vertex_cycle_step(stream, self.is_single_precision, &VertexCycleArgs { step, ..args })
        })
    }

    /// Sets all vectors to zero, except those of the solver.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.grids.iter().filter_map(|grid| grid.vectors.as_ref()).try_for_each(|vectors| vectors.clear(stream))
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(Grid::bytes).sum::<usize>() + self.inverse.bytes() + self.memory.bytes
    }
}
