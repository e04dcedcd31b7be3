//! Multigrid with vertex coarsening on the device: the V-cycle (kernels/dpcg/vertex.cuh) on grids of `coarsening`.

use super::arrays::Pool;
use super::coarsening::{DIAGONAL, Grid, INVERSE, Made, make};
use super::dense::Dense;
use super::multigrid::Scale;
use super::source::Source;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, GridArgs, InterpolationArgs, NarrowArgs, Sum};
use crate::error::Result;
use crate::runtime::number::Real;
use bytemuck::Pod;

/// For errors.
const GRIDS: &str = "the grids of multigrid";

/// Arrays of `vectors`.
const R: usize = 0;
const X: usize = 1;

/// The coarsest grid: its inverse, right-hand side and solution, in f64.
struct Coarsest {
    memory: Memory,
    inverse: Dense,
    r: Address,
    x: Address,
}

/// The preconditioner.
pub struct Vertex {
    sweeps: usize,
    single: bool,
    /// What the matrix is multiplied by.
    scale: f64,
    grids: Vec<Grid>,
    coarsest: Coarsest,
}

impl Grid {
    fn arguments(&self, x: usize, out: usize) -> GridArgs {
        GridArgs {
            cells: self.cells,
            c: self.couplings.at(0),
            c_stride: self.couplings.stride() as i64,
            diagonal: self.rows.at(DIAGONAL),
            inverse: self.rows.at(INVERSE),
            r: self.vectors.at(R),
            x: self.vectors.at(x),
            out: self.vectors.at(out),
            colour: 0,
            from_zero: 0,
        }
    }
}

/// Of the two arrays for x and the residual, the other one.
fn other(x: usize) -> usize {
    2 * X + 1 - x
}

impl Vertex {
    /// For a matrix that is multiplied by `scale`; `T`: the numbers of the cycle.
    pub fn new<T: Real + Pod>(
        pool: &mut Pool,
        stream: &Stream,
        source: &Source,
        scalars: Address,
        scale: f64,
        sweeps: usize,
    ) -> Result<Self> {
        let single = size_of::<T>() == 4;
        let Made { grids, inverse } = make(pool, stream, source, scalars, scale, single)?;
        let values = 8 * inverse.n();
        let (memory, [r, x]) = pool.lists(stream, [values, values], GRIDS)?;
        Ok(Self { sweeps, single, scale, grids, coarsest: Coarsest { memory, inverse, r, x } })
    }

    /// Its memory, for another one.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        self.grids.into_iter().try_for_each(|grid| grid.give(pool))?;
        self.coarsest.inverse.give(pool)?;
        pool.give(self.coarsest.memory)
    }

    /// z = M^-1 r, and <r, z>.
    pub fn apply(&self, stream: &Stream, scale: &Scale, r: Address, z: Address, sum: Sum) -> Result<()> {
        let Some(finest) = self.grids.first() else { return Ok(()) };
        let (count, single) = (finest.cells.count(), self.single);
        scale.find(stream, r, count)?;
        let (wide, narrow) = (r, finest.vectors.at(R));
        let to_cycle = NarrowArgs { count, scales: scale.scales, wide, narrow, factor: 1.0, r, sum };
        launch::narrow_residual(stream, single, &to_cycle)?;
        // Which of the two arrays of each grid has x.
        let mut at = [X; MOST_GRIDS];
        for (l, at) in at.iter_mut().enumerate().take(self.grids.len()) {
            *at = self.smooth(stream, l, X, [0, 1], true)?;
            self.restrict(stream, l, *at)?;
        }
        self.solve_coarsest(stream)?;
        let mut below = self.coarsest.x;
        for l in (0..self.grids.len()).rev() {
            self.interpolate(stream, l, at[l], below)?;
            at[l] = self.smooth(stream, l, at[l], [1, 0], false)?;
            below = self.grids[l].vectors.at(at[l]);
        }
        launch::widen_solution(stream, single, &NarrowArgs { wide: z, narrow: below, factor: self.scale, ..to_cycle })
    }

    /// The sweeps before the coarse grid, from zero, or after it; where x is then.
    fn smooth(&self, stream: &Stream, l: usize, mut x: usize, colours: [i32; 2], from_zero: bool) -> Result<usize> {
        let grid = &self.grids[l];
        for sweep in 0..self.sweeps {
            let from_zero = from_zero && sweep == 0;
            if l == 0 {
                for colour in colours {
                    let from_zero = i32::from(from_zero && colour == colours[0]);
                    let a = GridArgs { colour, from_zero, ..grid.arguments(x, x) };
                    launch::relax_colour(stream, self.single, &a)?;
                }
            } else {
                let out = if from_zero { x } else { other(x) };
                let a = GridArgs { from_zero: i32::from(from_zero), ..grid.arguments(x, out) };
                launch::relax(stream, self.single, &a)?;
                x = out;
            }
        }
        Ok(x)
    }

    fn is_last(&self, l: usize) -> bool {
        l + 1 == self.grids.len()
    }

    fn interpolation(&self, l: usize, of_fine: usize, of_coarse: Address) -> InterpolationArgs {
        let grid = &self.grids[l];
        InterpolationArgs {
            fine: grid.cells,
            coarse: grid.coarse,
            coarsened: grid.coarsened,
            unused: 0,
            weights: grid.weights.address,
            of_fine: grid.vectors.at(of_fine),
            of_coarse,
        }
    }

    /// r of the next grid = P^T (r - A x).
    fn restrict(&self, stream: &Stream, l: usize, x: usize) -> Result<()> {
        let residual = self.grids[l].arguments(x, other(x));
        if l == 0 {
            launch::finest_residual(stream, self.single, &residual)?;
        } else {
            launch::grid_residual(stream, self.single, &residual)?;
        }
        let coarse = self.grids.get(l + 1).map_or(self.coarsest.r, |next| next.vectors.at(R));
        let a = self.interpolation(l, other(x), coarse);
        if self.is_last(l) && self.single {
            launch::restrict_wide(stream, &a)
        } else {
            launch::restrict(stream, self.single, &a)
        }
    }

    /// x += P x of the next grid.
    fn interpolate(&self, stream: &Stream, l: usize, x: usize, coarse: Address) -> Result<()> {
        let a = self.interpolation(l, x, coarse);
        if self.is_last(l) && self.single {
            launch::interpolate_wide(stream, &a)
        } else {
            launch::interpolate(stream, self.single, &a)
        }
    }

    fn solve_coarsest(&self, stream: &Stream) -> Result<()> {
        let Coarsest { inverse, r, x, .. } = &self.coarsest;
        inverse.multiply(stream, *r, *x, Sum::default())
    }

    /// Zeros in all vectors.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.grids.iter().try_for_each(|grid| grid.vectors.clear(stream))
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(Grid::bytes).sum::<usize>() + self.coarsest.memory.bytes + self.coarsest.inverse.bytes()
    }
}

/// More grids than a box of 2^32 cells has: each is at most as large as the one before by two thirds.
const MOST_GRIDS: usize = 64;
