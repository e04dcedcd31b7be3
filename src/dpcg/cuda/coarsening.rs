//! Setup of multigrid with vertex coarsening on the device (Dendy 1982; kernels/dpcg/coarsening.cuh). The host chooses
//! the directions to coarsen from their strengths.

use super::dense::Dense;
use super::source::Source;
use crate::cuda::arrays::{Padded, Pool, box_of};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellBox, CoarseningArgs, CoarsestArgs, MOST_CELL_BLOCKS, Strides};
use crate::error::{Result, push};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{COARSEST, CUBE, FACES, SEMI, coarse_cells, directions};

/// Purpose of the allocations, for error messages.
const GRIDS: &str = "the grids of multigrid";

/// A grid with a smoother, and the transfer to the next coarser grid.
pub struct Grid {
    pub cells: CellBox,
    pub coarse: CellBox,
    pub coarsened: [i32; 3],
    pub conductances: Conductances,
    /// Diagonal, and 1 / divisor of the smoother.
    pub rows: Padded,
    pub weights: Memory,
    pub strides: Strides,
    /// r, and two arrays that alternate as x and residual. None if the grid uses the solver's vectors.
    pub vectors: Option<Padded>,
}

/// Conductances c_o(p) = -A(p, p + o), stored offset by offset.
pub struct Conductances {
    /// Address of the first offset's first value.
    pub at: Address,
    /// Number of values from one offset to the next.
    pub stride: usize,
    /// Conductance per unit of a stored coupling: -scale for the caller's matrix, else 1.
    pub per_coupling: f64,
    /// None if the couplings of the caller's matrix are used.
    own: Option<Padded>,
}

impl Conductances {
    /// Describes conductances in memory of their own.
    fn of(own: Padded) -> Self {
        Self { at: own.at(0), stride: own.stride(), per_coupling: 1.0, own: Some(own) }
    }

    /// Describes the conductances of `scale` times the caller's matrix, c = -scale a.
    fn of_matrix(source: &Source, scale: f64) -> Self {
        Self { at: source.m.east, stride: source.stride(), per_coupling: -scale, own: None }
    }
}

/// Indices of the two arrays in `rows`.
pub const DIAGONAL: usize = 0;
pub const INVERSE: usize = 1;

/// Entries of the symmetric matrix between the 8 corners of a cube (kernels/dpcg/coarsening.cuh).
const CUBE_ENTRIES: usize = 36;

/// The matrix of a grid.
struct Matrix {
    of: Cells,
    conductances: Conductances,
    rows: Padded,
}

/// Returns the number of zeros around the arrays of a coarse grid: the largest offset of a 27-point stencil. On the
/// finest grid a plane of zeros suffices, as the solver's vectors have.
fn guard(of: Cells) -> usize {
    of.plane() + of.nx + 1
}

impl Matrix {
    /// Allocates the matrix of a grid with `offsets` offsets.
    fn zeroed(pool: &mut Pool, stream: &Stream, of: Cells, offsets: usize, value: usize) -> Result<Self> {
        let own = Padded::zeroed_in(pool, stream, offsets, of.count(), guard(of), value, GRIDS)?;
        Self::with(Conductances::of(own), pool, stream, of, value)
    }

    /// Allocates the diagonals for existing conductances.
    fn with(conductances: Conductances, pool: &mut Pool, stream: &Stream, of: Cells, value: usize) -> Result<Self> {
        Ok(Self { of, conductances, rows: Padded::zeroed_in(pool, stream, 2, of.count(), guard(of), value, GRIDS)? })
    }

    /// Adds the memory for the transfer to the next grid.
    fn grid(self, pool: &mut Pool, stream: &Stream, coarse: Cells, coarsened: [bool; 3], value: usize) -> Result<Grid> {
        let of = self.of;
        let (strides, count) = Strides::of(box_of(coarse), coarsened);
        let (weights, [_]) = pool.lists(stream, [value * count], GRIDS)?;
        let vectors = match self.conductances.own {
            Some(_) => Some(Padded::zeroed_in(pool, stream, 3, of.count(), guard(of), value, GRIDS)?),
            None => None,
        };
        Ok(Grid {
            cells: box_of(of),
            coarse: box_of(coarse),
            coarsened: coarsened.map(i32::from),
            conductances: self.conductances,
            rows: self.rows,
            weights,
            strides,
            vectors,
        })
    }
}

impl Grid {
    /// Returns the memory to the pool.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        pool.give(self.weights)?;
        let arrays = [self.conductances.own, Some(self.rows), self.vectors];
        arrays.into_iter().flatten().try_for_each(|arrays| pool.give(arrays.into_memory()))
    }

    pub fn bytes(&self) -> usize {
        let arrays = [self.conductances.own.as_ref(), Some(&self.rows), self.vectors.as_ref()];
        self.weights.bytes + arrays.into_iter().flatten().map(Padded::bytes).sum::<usize>()
    }
}

/// Workspace of the setup: partial sums, row sums of two grids, exact weights and products. The latter three are in the
/// pool's workspace, the solver's vectors.
struct Scratch {
    memory: Memory,
    /// Partial sums of the blocks.
    partial: Address,
    /// Sums of the strengths in x, y and z over all rows, and the number of rows.
    strengths: Address,
    /// Row sums of grids with even and with odd numbers. No grid has more points than the finest one.
    excess: [Address; 2],
}

impl Scratch {
    /// Allocates the partial sums, and borrows the row sums from the pool.
    fn new(pool: &mut Pool, stream: &Stream, finest: Cells) -> Result<Self> {
        let sums = 4 * MOST_CELL_BLOCKS as usize;
        let (memory, [partial, strengths]) = pool.lists(stream, [8 * sums, 32], GRIDS)?;
        Ok(Self { memory, partial, strengths, excess: pool.borrow_pair(finest.count())? })
    }

    /// Plans the exact weights and the cubes of a coarsening step. They are stored after the row sums of the odd grid.
    fn slabs(&self, pool: &mut Pool, stream: &Stream, odd: Cells, coarse: Cells, weights: usize) -> Result<Slabs> {
        let (weights, plane) = (8 * weights, 8 * CUBE_ENTRIES * coarse.plane());
        let before = (self.excess[1] - self.excess[0]) as usize + 8 * odd.count();
        let left = pool.workspace().bytes - before;
        let planes = (left.saturating_sub(weights) / plane).min(coarse.nz);
        if planes < coarse.nz.min(2) {
            // A thin grid needs more memory than the workspace has.
            let (memory, [weights, cubes]) = pool.lists(stream, [weights, plane * coarse.nz], GRIDS)?;
            pool.keep(memory)?;
            return Ok(Slabs { weights, cubes, points: coarse.nz });
        }
        // A slab has one more plane of cubes than planes of points.
        let slabs = if planes < coarse.nz { coarse.nz.div_ceil(planes - 1) } else { 1 };
        let points = coarse.nz.div_ceil(slabs);
        pool.borrow(before + weights + plane * coarse.nz.min(points + 1));
        let at = self.excess[0] + before as u64;
        Ok(Slabs { weights: at, cubes: at + weights as u64, points })
    }
}

/// Exact weights, and the cubes for `points` planes of coarse points at a time.
struct Slabs {
    weights: Address,
    cubes: Address,
    points: usize,
}

impl Slabs {
    /// Returns the arguments of each slab. A point needs the cubes of its plane and of the previous plane.
    fn of(&self, nz: usize, a: CoarseningArgs) -> impl Iterator<Item = CoarseningArgs> {
        (0..nz).step_by(self.points).map(move |from| {
            let (first, end) = (from.saturating_sub(1), nz.min(from + self.points));
            CoarseningArgs {
                cubes_from: first as i32,
                cube_planes: (end - first) as i32,
                points_from: from as i32,
                point_planes: (end - from) as i32,
                ..a
            }
        })
    }
}

/// All grids except the coarsest one, and the inverse of the coarsest matrix.
pub struct Made {
    pub grids: Vec<Grid>,
    pub inverse: Dense,
}

/// Makes the grids of `scale` times the matrix.
struct Maker<'a> {
    stream: &'a Stream,
    source: &'a Source,
    scalars: Address,
    scale: f64,
    /// Whether the cycle computes in f32.
    single: bool,
    scratch: Scratch,
}

/// Makes all grids of `scale` times the matrix. `single`: the cycle computes in f32.
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
    let mut matrix = match single {
        true => Matrix::zeroed(pool, stream, source.of, FACES.len(), value)?,
        false => Matrix::with(Conductances::of_matrix(source, scale), pool, stream, source.of, value)?,
    };
    launch::take_conductances(stream, single, &maker.arguments(&matrix, 0))?;
    let mut grids = Vec::new();
    while grids.is_empty() || matrix.of.count() > COARSEST {
        let (grid, next) = maker.coarsen(pool, matrix, grids.len(), value)?;
        push(&mut grids, grid, GRIDS)?;
        matrix = next;
    }
    let inverse = maker.invert(pool, &matrix, grids.len())?;
    pool.keep(maker.scratch.memory)?;
    for arrays in [matrix.conductances.own, Some(matrix.rows)].into_iter().flatten() {
        pool.keep(arrays.into_memory())?;
    }
    Ok(Made { grids, inverse })
}

impl Maker<'_> {
    /// Returns the arguments for grid l before the next grid is known.
    fn arguments(&self, matrix: &Matrix, l: usize) -> CoarseningArgs {
        CoarseningArgs {
            fine: box_of(matrix.of),
            m: self.source.m,
            scale: self.scale,
            c: matrix.conductances.at,
            c_stride: matrix.conductances.stride as i64,
            diagonal: matrix.rows.at(DIAGONAL),
            inverse: matrix.rows.at(INVERSE),
            excess: self.scratch.excess[l % 2],
            partial: self.scratch.partial,
            strengths: self.scratch.strengths,
            scalars: self.scalars,
            ..CoarseningArgs::default()
        }
    }

    /// Returns grid l, and the matrix P^T A P of the next grid.
    fn coarsen(&self, pool: &mut Pool, matrix: Matrix, l: usize, value: usize) -> Result<(Grid, Matrix)> {
        let (stream, single, finest) = (self.stream, self.single, l == 0);
        let a = self.arguments(&matrix, l);
        let coarsened = self.directions(matrix.of, &a, finest)?;
        let coarse = coarse_cells(matrix.of, coarsened.map(|d| 1 + usize::from(d)));
        let odd = if l % 2 == 1 { matrix.of } else { coarse };
        let grid = matrix.grid(pool, stream, coarse, coarsened, value)?;
        let next = Matrix::zeroed(pool, stream, coarse, CUBE.len(), value)?;
        let (_, weights) = Strides::of(grid.coarse, coarsened);
        let slabs = self.scratch.slabs(pool, stream, odd, coarse, weights)?;
        let a = CoarseningArgs {
            coarse: grid.coarse,
            coarsened: grid.coarsened,
            weights: slabs.weights,
            narrow: grid.weights.address,
            strides: grid.strides,
            cubes: slabs.cubes,
            coarse_c: next.conductances.at,
            coarse_stride: next.conductances.stride as i64,
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
        let (diagonal, inverse) = (next.rows.at(DIAGONAL), next.rows.at(INVERSE));
        for slab in slabs.of(coarse.nz, CoarseningArgs { diagonal, inverse, ..a }) {
            if finest {
                launch::finest_product(stream, single, &slab)?;
            } else {
                launch::product(stream, single, &slab)?;
            }
            launch::take_coarse(stream, single, &slab)?;
        }
        Ok((grid, next))
    }

    /// Returns the directions in which a grid is coarsened.
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

    /// Returns the inverse of the coarsest matrix, on grid l.
    fn invert(&self, pool: &mut Pool, matrix: &Matrix, l: usize) -> Result<Dense> {
        let mut dense = Dense::zeroed(pool, self.stream, matrix.of.count(), None)?;
        let a = CoarsestArgs {
            cells: box_of(matrix.of),
            c: matrix.conductances.at,
            c_stride: matrix.conductances.stride as i64,
            excess: self.scratch.excess[l % 2],
            matrix: dense.matrix(),
            diagonal: dense.diagonal,
            null_of: dense.null_of,
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
