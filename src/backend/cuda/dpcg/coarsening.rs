//! The grids of multigrid with vertex coarsening, made on the device (kernels/dpcg/coarsening.cuh). The host chooses
//! the directions that are coarsened, from their strengths.

use super::arrays::{Padded, Pool, box_of};
use super::dense::Dense;
use super::source::Source;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CellBox, CoarseningArgs, CoarsestArgs, MOST_CELL_BLOCKS};
use crate::backend::reference::dpcg::vertex;
use crate::backend::reference::dpcg::vertex::stencil::{CUBE, FACES};
use crate::backend::reference::dpcg::vertex::transfer::{SEMI, coarse_cells, directions};
use crate::error::{Result, push};
use crate::grid::cells::Cells;

/// For errors.
const GRIDS: &str = "the grids of multigrid";

/// A grid that is smoothed, and the way to the next one.
pub struct Grid {
    pub cells: CellBox,
    pub coarse: CellBox,
    pub coarsened: [i32; 3],
    /// Conductances, offset by offset.
    pub couplings: Padded,
    /// Diagonal, and 1 / divisor of the smoother.
    pub rows: Padded,
    pub weights: Memory,
    /// r, and two that are x and the residual in turn.
    pub vectors: Padded,
}

/// Of `rows`.
pub const DIAGONAL: usize = 0;
pub const INVERSE: usize = 1;

/// Of the matrix between the 8 corners of a cube: kernels/dpcg/coarsening.cuh.
const CUBE_ENTRIES: usize = 36;

/// The matrix of a grid.
struct Matrix {
    of: Cells,
    couplings: Padded,
    rows: Padded,
}

impl Matrix {
    fn zeroed(pool: &mut Pool, stream: &Stream, of: Cells, offsets: usize, value: usize) -> Result<Self> {
        let guard = of.plane() + of.nx + 1;
        let mut padded = |arrays: usize| Padded::zeroed_in(pool, stream, arrays, of.count(), guard, value, GRIDS);
        Ok(Self { of, couplings: padded(offsets)?, rows: padded(2)? })
    }

    /// With room for the way to the next grid.
    fn grid(self, pool: &mut Pool, stream: &Stream, coarse: Cells, coarsened: [bool; 3], value: usize) -> Result<Grid> {
        let (of, n) = (self.of, self.of.count());
        let guard = of.plane() + of.nx + 1;
        Ok(Grid {
            cells: box_of(of),
            coarse: box_of(coarse),
            coarsened: coarsened.map(i32::from),
            couplings: self.couplings,
            rows: self.rows,
            weights: pool.zeroed(stream, 8 * n * value, GRIDS)?,
            vectors: Padded::zeroed_in(pool, stream, 3, n, guard, value, GRIDS)?,
        })
    }
}

impl Grid {
    /// Its memory, for another one.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        pool.give(self.weights)?;
        [self.couplings, self.rows, self.vectors].into_iter().try_for_each(|arrays| pool.give(arrays.into_memory()))
    }

    pub fn bytes(&self) -> usize {
        self.couplings.bytes() + self.rows.bytes() + self.weights.bytes + self.vectors.bytes()
    }
}

/// What is needed while grids are made: row sums of two of them, and exact weights.
struct Scratch {
    memory: Memory,
    excess: [Address; 2],
    weights: Address,
    partial: Address,
    strengths: Address,
}

impl Scratch {
    fn new(pool: &mut Pool, stream: &Stream, finest: Cells) -> Result<Self> {
        let n = finest.count();
        let sums = 4 * MOST_CELL_BLOCKS as usize;
        let sizes = [8 * n, 8 * n, 64 * n, 8 * sums, 32];
        let (memory, [fine, coarse, weights, partial, strengths]) = pool.lists(stream, sizes, GRIDS)?;
        Ok(Self { memory, excess: [fine, coarse], weights, partial, strengths })
    }
}

/// Grids but for the coarsest one, and the inverse of that one.
pub struct Made {
    pub grids: Vec<Grid>,
    pub inverse: Dense,
}

/// Makes the grids of a matrix, that is multiplied by `scale`.
struct Maker<'a> {
    stream: &'a Stream,
    source: &'a Source,
    scalars: Address,
    scale: f64,
    /// The numbers of the cycle are in f32.
    single: bool,
    scratch: Scratch,
}

/// All grids of a matrix that is multiplied by `scale`. `single`: the numbers of the cycle are in f32.
pub fn make(
    pool: &mut Pool,
    stream: &Stream,
    source: &Source,
    scalars: Address,
    scale: f64,
    single: bool,
) -> Result<Made> {
    let scratch = Scratch::new(pool, stream, source.of)?;
    let maker = Maker { stream, source, scalars, scale, single, scratch };
    let value = if single { size_of::<f32>() } else { size_of::<f64>() };
    let mut matrix = Matrix::zeroed(pool, stream, source.of, FACES.len(), value)?;
    launch::take_conductances(stream, single, &maker.arguments(&matrix, 0))?;
    let mut grids = Vec::new();
    while grids.is_empty() || matrix.of.count() > vertex::COARSEST {
        let (grid, next) = maker.coarsen(pool, matrix, grids.len(), value)?;
        push(&mut grids, grid, GRIDS)?;
        matrix = next;
    }
    let inverse = maker.invert(pool, &matrix, grids.len())?;
    for memory in [maker.scratch.memory, matrix.couplings.into_memory(), matrix.rows.into_memory()] {
        pool.keep(memory)?;
    }
    Ok(Made { grids, inverse })
}

impl Maker<'_> {
    /// Of grid l, before its next one is known.
    fn arguments(&self, matrix: &Matrix, l: usize) -> CoarseningArgs {
        CoarseningArgs {
            fine: box_of(matrix.of),
            m: self.source.m,
            scale: self.scale,
            c: matrix.couplings.at(0),
            c_stride: matrix.couplings.stride() as i64,
            diagonal: matrix.rows.at(DIAGONAL),
            inverse: matrix.rows.at(INVERSE),
            excess: self.scratch.excess[l % 2],
            weights: self.scratch.weights,
            partial: self.scratch.partial,
            strengths: self.scratch.strengths,
            scalars: self.scalars,
            ..CoarseningArgs::default()
        }
    }

    /// Grid l, and the matrix of the next one.
    fn coarsen(&self, pool: &mut Pool, matrix: Matrix, l: usize, value: usize) -> Result<(Grid, Matrix)> {
        let (stream, single, finest) = (self.stream, self.single, l == 0);
        let a = self.arguments(&matrix, l);
        let coarsened = self.directions(matrix.of, &a, finest)?;
        let coarse = coarse_cells(matrix.of, coarsened);
        let grid = matrix.grid(pool, stream, coarse, coarsened, value)?;
        let next = Matrix::zeroed(pool, stream, coarse, CUBE.len(), value)?;
        let (memory, [cubes]) = pool.lists(stream, [8 * CUBE_ENTRIES * coarse.count()], GRIDS)?;
        let a = CoarseningArgs {
            coarse: grid.coarse,
            coarsened: grid.coarsened,
            narrow: grid.weights.address,
            cubes,
            coarse_c: next.couplings.at(0),
            coarse_stride: next.couplings.stride() as i64,
            coarse_excess: self.scratch.excess[(l + 1) % 2],
            ..a
        };
        for which in 1..=3 {
            let of_order = CoarseningArgs { which, ..a };
            if finest {
                launch::finest_weights(stream, single, &of_order)?;
            } else {
                launch::weights(stream, single, &of_order)?;
            }
        }
        if finest {
            launch::finest_product(stream, single, &a)?;
        } else {
            launch::product(stream, single, &a)?;
        }
        let (diagonal, inverse) = (next.rows.at(DIAGONAL), next.rows.at(INVERSE));
        launch::take_coarse(stream, single, &CoarseningArgs { diagonal, inverse, ..a })?;
        pool.keep(memory)?;
        Ok((grid, next))
    }

    /// The directions in which a grid is coarsened.
    fn directions(&self, of: Cells, a: &CoarseningArgs, finest: bool) -> Result<[bool; 3]> {
        if finest {
            launch::finest_strengths(self.stream, self.single, a)?;
        } else {
            launch::strengths(self.stream, self.single, a)?;
        }
        let mut sums = [0.0; 4];
        self.stream.fetch(&mut sums, self.scratch.strengths)?;
        self.stream.wait()?;
        let [x, y, z, rows]: [f64; 4] = sums;
        Ok(directions(of, [x, y, z].map(|sum| sum / rows.max(1.0)), SEMI))
    }

    /// The inverse of the coarsest matrix, number l.
    fn invert(&self, pool: &mut Pool, matrix: &Matrix, l: usize) -> Result<Dense> {
        let mut dense = Dense::zeroed(pool, self.stream, matrix.of.count())?;
        let a = CoarsestArgs {
            cells: box_of(matrix.of),
            c: matrix.couplings.at(0),
            c_stride: matrix.couplings.stride() as i64,
            excess: self.scratch.excess[l % 2],
            matrix: dense.matrix(),
            diagonal: dense.diagonal,
            null_of: dense.null_of,
            nulls: dense.nulls,
            ..CoarsestArgs::default()
        };
        if self.single {
            launch::spread_coarsest_short(self.stream, &a)?;
        } else {
            launch::spread_coarsest(self.stream, &a)?;
        }
        dense.invert(self.stream)?;
        dense.complete(self.stream, false)?;
        Ok(dense)
    }
}
