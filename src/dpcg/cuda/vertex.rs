//! V-cycle of multigrid with vertex coarsening (Dendy 1982) for the grids of `coarsening`. kernels/dpcg/finest.cuh
//! contains the sweeps on the finest grid, and kernels/dpcg/vertex.cuh the cycle on the coarser grids.

use super::coarsening::{DIAGONAL, Grid, INVERSE_DIVISOR, make};
use super::dense::Dense;
use super::multigrid::{GRIDS, GridsAndInverse};
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

/// Indices of the arrays in `Grid::vectors`. The array X + 1 is the second x.
const R: usize = 0;
const X: usize = 1;

/// Upper bound of the number of grids. A box of 2^32 cells has fewer grids, because a grid has at most 2/3 of the
/// points of the previous grid. The same constant is in kernels/dpcg/vertex.cuh.
const MOST_GRIDS: usize = 64;

/// The preconditioner: one V-cycle that starts from zero.
pub struct VertexMultigrid {
    sweeps: usize,
    single: bool,
    /// Power of two by which the matrix is multiplied.
    scale: f64,
    grids: Vec<Grid>,
    /// Inverse of the coarsest matrix.
    inverse: Dense,
    finest: VertexGrid,
    /// Tiles for a sweep from zero, and tiles for other sweeps.
    tiles: [SweepTiles; 2],
    cycle: VertexCycleArgs,
    cooperative: CooperativeLaunch,
    /// Memory of r and x of the coarsest grid in f64, the list of grids, and the counters of the barrier.
    memory: Memory,
    /// The solver's r.
    r: Address,
    /// The solver's z.
    z: Address,
}

impl Grid {
    /// Returns the arguments of this grid. `coarse` contains the addresses of the next coarser grid. If the grid has no
    /// vectors, those in `of_solver` are used.
    fn level(&self, coarse: VertexGrid, of_solver: [Address; 3]) -> VertexGrid {
        let [r, x, other_x] = self.vectors.as_ref().map_or(of_solver, |own| [R, X, X + 1].map(|k| own.at(k)));
        VertexGrid {
            cells: self.cells,
            coarse: self.coarse,
            coarsened: self.coarsened,
            c: self.conductances.at,
            c_stride: self.conductances.stride as i64,
            per_coupling: self.conductances.per_coupling,
            diagonal: self.diagonals.at(DIAGONAL),
            inverse: self.diagonals.at(INVERSE_DIVISOR),
            weights: self.weights.address,
            strides: self.strides,
            r,
            x: [x, other_x],
            ..coarse
        }
    }
}

impl VertexMultigrid {
    /// Builds the preconditioner for `scale` times the matrix. The cycle computes in the type `T`. `of_solver` contains
    /// the addresses of r, q and z. In f64, the finest grid uses these vectors, and a cycle overwrites q.
    pub fn new<T: Real + Pod>(
        pool: &mut Pool,
        stream: &Stream,
        source: &DeviceMatrix,
        scalars: Address,
        scale: f64,
        sweeps: usize,
        of_solver: [Address; 3],
    ) -> Result<Box<Self>> {
        let single = size_of::<T>() == 4;
        let GridsAndInverse { grids, inverse } = make(pool, stream, source, scalars, scale, single)?;
        let n = inverse.n();
        // Zeros must follow the solution on the coarsest grid, as they follow other vectors.
        let behind = grids.last().map_or(0, |grid| grid.coarse.nx as usize * (grid.coarse.ny as usize + 1) + 1);
        let sizes = [8 * n, 8 * (n + behind), MOST_GRIDS * size_of::<VertexGrid>(), 16];
        let (memory, [r, x, list, barrier]) = pool.lists(stream, sizes, GRIDS)?;
        let mut next = VertexGrid { wide: 1, coarse_r: r, coarse_x: x, ..VertexGrid::zeroed() };
        let mut levels = Vec::new();
        for grid in grids.iter().rev() {
            let level = grid.level(next, of_solver);
            push(&mut levels, level, GRIDS)?;
            let [start, x] = level.x;
            let (r, inverse) = (level.r, level.inverse);
            next = VertexGrid {
                coarse_r: r,
                coarse_start: start,
                coarse_inverse: inverse,
                coarse_x: x,
                ..VertexGrid::zeroed()
            };
        }
        levels.reverse();
        stream.send(list, &levels[1..])?;
        stream.fill(x + 8 * n as u64, 0, 8 * behind)?;
        stream.fill(barrier, 0, 16)?;
        stream.wait()?;
        let mut cooperative = launch::vertex_cycle_launch(stream.device(), single)?;
        let largest = levels.get(1).map_or(0, |level| level.cells.count() as u32).max(32 * n as u32);
        cooperative.blocks = cooperative.blocks.min(largest.div_ceil(VERTEX_CYCLE_THREADS));
        let count = levels.len() as i32 - 1;
        let coarsest = DenseArgs { matrix: inverse.matrix(), input: r, out: x, n: n as i32, ..DenseArgs::default() };
        let cycle = VertexCycleArgs {
            levels: list,
            count,
            sweeps: sweeps as i32,
            step: -1,
            coarsest,
            barrier,
            ..VertexCycleArgs::default()
        };
        let finest = levels[0];
        let tiles = [1, 2].map(|halo| SweepTiles::of(finest.cells, halo));
        let [of_r, _, z] = of_solver;
        boxed(
            Self { sweeps, single, scale, grids, inverse, finest, tiles, cycle, cooperative, memory, r: of_r, z },
            GRIDS,
        )
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.grids.into_iter().try_for_each(|grid| grid.release(pool))?;
        self.inverse.release(pool)?;
        pool.release(self.memory)
    }

    /// Computes z = M^-1 r and <r, z>. In a loop, the scalars contain <r, r>, from which the kernels compute the
    /// scaling factor of r.
    pub fn apply(&self, stream: &Stream, scale: &Scale, sum: Sum) -> Result<()> {
        // In f64, no scaling factor is needed.
        if self.single && sum.in_loop == 0 {
            scale.find(stream, self.r, self.finest.cells.count())?;
        }
        let none = Sum { partial: 0, sum_use: 0, conditional: 0, ..sum };
        let of = FinestSweepArgs {
            grid: self.finest,
            tiles: self.tiles[1],
            wide: self.r,
            z: self.z,
            factor: self.scale,
            scales: scale.scales,
            sum: none,
            ..FinestSweepArgs::default()
        };
        let single = self.single;
        launch::sweep_from_zero(stream, single, &FinestSweepArgs { tiles: self.tiles[0], from: 1, ..of })?;
        // Index of the array that contains the current x of the finest grid.
        let mut from = 0;
        for _ in 1..self.sweeps {
            launch::sweep_finest(stream, single, &FinestSweepArgs { from, ..of })?;
            from = 1 - from;
        }
        launch::restrict_finest(stream, single, &RestrictFinestArgs::new(self.finest, from, none))?;
        self.solve_coarse(stream, none)?;
        for sweep in 0..self.sweeps {
            let last = sweep + 1 == self.sweeps;
            let a = FinestSweepArgs { colour: 1, from, sum: if last { sum } else { none }, ..of };
            match (sweep, last) {
                (0, false) => launch::sweep_corrected(stream, single, &a),
                (0, true) => launch::last_sweep_corrected(stream, single, &a),
                (_, false) => launch::sweep_finest(stream, single, &a),
                (_, true) => launch::last_sweep(stream, single, &a),
            }?;
            from = 1 - from;
        }
        Ok(())
    }

    /// Executes the cycle on the coarse grids in one launch. If its thread blocks cannot be resident on the device at
    /// the same time, uses one launch per step.
    fn solve_coarse(&self, stream: &Stream, sum: Sum) -> Result<()> {
        let all = VertexCycleArgs { sum, ..self.cycle };
        if self.cooperative.blocks > 0 {
            return launch::vertex_cycle(stream, self.single, self.cooperative, &all);
        }
        let steps = all.count * (2 * all.sweeps + 2) + 1;
        (0..steps).try_for_each(|step| launch::vertex_cycle_step(stream, self.single, &VertexCycleArgs { step, ..all }))
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
