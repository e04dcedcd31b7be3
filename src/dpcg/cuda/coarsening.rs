//! Setup of multigrid with vertex coarsening on the device (Dendy 1982; kernels/dpcg/coarsening.cuh). The host chooses
//! the directions to coarsen from their strengths.

use super::multigrid::{GRIDS, GridSetup, GridsAndInverse};
use super::source::DeviceMatrix;
use crate::cuda::arrays::{Padded, Pool, box_of};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellBox, CoarseningArgs, CoarsestArgs, Strides};
use crate::error::{Result, push};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{COARSEST, CUBE, FACES, SEMICOARSENING_RATIO, coarse_cells, coarsened_directions};

/// A grid with a smoother, and the transfer to the next coarser grid.
pub struct Grid {
    pub cells: CellBox,
    pub coarse: CellBox,
    pub coarsened: [i32; 3],
    pub conductances: Conductances,
    /// Diagonal, and 1 / divisor of the smoother.
    pub diagonals: Padded,
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
    /// Describes the conductances stored in `own`.
    fn of(own: Padded) -> Self {
        Self { at: own.at(0), stride: own.stride(), per_coupling: 1.0, own: Some(own) }
    }

    /// Describes the conductances of `scale` times the caller's matrix, c = -scale a.
    fn of_matrix(source: &DeviceMatrix, scale: f64) -> Self {
        Self { at: source.m.east, stride: source.stride(), per_coupling: -scale, own: None }
    }
}

/// Indices of the two arrays in `diagonals`.
pub const DIAGONAL: usize = 0;
pub const INVERSE_DIVISOR: usize = 1;

/// Number of stored entries of the symmetric matrix between the 8 corners of a cube (kernels/dpcg/coarsening.cuh).
const CUBE_ENTRIES: usize = 36;

/// The matrix of a grid.
struct Matrix {
    extents: Cells,
    conductances: Conductances,
    diagonals: Padded,
}

/// Returns the number of zeros before and after each array of a grid: the largest offset of a 27-point stencil. On the
/// finest grid, a plane of zeros is sufficient, so the solver's vectors can be used there.
fn guard(extents: Cells) -> usize {
    extents.plane() + extents.nx + 1
}

impl Matrix {
    /// Allocates the matrix of a grid, with conductances for `offsets` offsets of the stencil.
    fn zeroed(pool: &mut Pool, stream: &Stream, extents: Cells, offsets: usize, value_bytes: usize) -> Result<Self> {
        let own = Padded::zeroed_in(pool, stream, offsets, extents.count(), guard(extents), value_bytes, GRIDS)?;
        Self::with(Conductances::of(own), pool, stream, extents, value_bytes)
    }

    /// Allocates the diagonal and the reciprocal divisors for existing conductances.
    fn with(
        conductances: Conductances,
        pool: &mut Pool,
        stream: &Stream,
        extents: Cells,
        value_bytes: usize,
    ) -> Result<Self> {
        Ok(Self {
            extents,
            conductances,
            diagonals: Padded::zeroed_in(pool, stream, 2, extents.count(), guard(extents), value_bytes, GRIDS)?,
        })
    }

    /// Makes a grid of this matrix. Allocates the weights of the transfer to the next grid, and vectors unless the grid
    /// uses those of the solver.
    fn grid(
        self,
        pool: &mut Pool,
        stream: &Stream,
        coarse: Cells,
        coarsened: [bool; 3],
        value_bytes: usize,
    ) -> Result<Grid> {
        let extents = self.extents;
        let (strides, count) = Strides::of(box_of(coarse), coarsened);
        let (weights, [_]) = pool.lists(stream, [value_bytes * count], GRIDS)?;
        let vectors = match self.conductances.own {
            Some(_) => Some(Padded::zeroed_in(pool, stream, 3, extents.count(), guard(extents), value_bytes, GRIDS)?),
            None => None,
        };
        Ok(Grid {
            cells: box_of(extents),
            coarse: box_of(coarse),
            coarsened: coarsened.map(i32::from),
            conductances: self.conductances,
            diagonals: self.diagonals,
            weights,
            strides,
            vectors,
        })
    }
}

impl Grid {
    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        pool.release(self.weights)?;
        let arrays = [self.conductances.own, Some(self.diagonals), self.vectors];
        arrays.into_iter().flatten().try_for_each(|arrays| pool.release(arrays.into_memory()))
    }

    pub fn bytes(&self) -> usize {
        let arrays = [self.conductances.own.as_ref(), Some(&self.diagonals), self.vectors.as_ref()];
        self.weights.bytes + arrays.into_iter().flatten().map(Padded::bytes).sum::<usize>()
    }
}

/// Memory for a coarsening step, which processes the coarse grid by slabs (kernels/dpcg/coarsening.cuh). A slab is up
/// to `point_planes` planes of coarse points, and the planes of cubes that these points need. The memory contains the
/// unrounded weights of the whole grid, and the matrices of the cubes of one slab.
struct Slabs {
    weights: Address,
    cubes: Address,
    point_planes: usize,
}

impl Slabs {
    /// Plans the memory of a coarsening step. The weights and then the cubes are stored in the pool's workspace, behind
    /// the row sums of the grids with odd numbers. This workspace is the memory of the solver's vectors.
    fn plan(maker: &GridSetup, pool: &mut Pool, odd: Cells, coarse: Cells, weights: usize) -> Result<Self> {
        let (weights, plane) = (8 * weights, 8 * CUBE_ENTRIES * coarse.plane());
        let before = (maker.row_sums[1] - maker.row_sums[0]) as usize + 8 * odd.count();
        let left = pool.workspace().bytes - before;
        let planes = (left.saturating_sub(weights) / plane).min(coarse.nz);
        if planes < coarse.nz.min(2) {
            // A thin grid may need more memory than the workspace has.
            let (memory, [weights, cubes]) = pool.lists(maker.stream, [weights, plane * coarse.nz], GRIDS)?;
            pool.save_for_next(memory)?;
            return Ok(Self { weights, cubes, point_planes: coarse.nz });
        }
        // Each slab but the first has one more plane of cubes than planes of points.
        let slabs = if planes < coarse.nz { coarse.nz.div_ceil(planes - 1) } else { 1 };
        let point_planes = coarse.nz.div_ceil(slabs);
        pool.borrow(before + weights + plane * coarse.nz.min(point_planes + 1));
        let at = maker.row_sums[0] + before as u64;
        Ok(Self { weights: at, cubes: at + weights as u64, point_planes })
    }

    /// Returns the arguments of each slab. A point needs the cubes of its plane and of the previous plane.
    fn of(&self, nz: usize, a: CoarseningArgs) -> impl Iterator<Item = CoarseningArgs> {
        (0..nz).step_by(self.point_planes).map(move |from| {
            let (first, end) = (from.saturating_sub(1), nz.min(from + self.point_planes));
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

/// Makes all grids of `scale` times the matrix except the coarsest one, and the inverse of the coarsest matrix.
/// `single`: the cycle computes in f32.
pub fn make(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    scalars: Address,
    scale: f64,
    single: bool,
) -> Result<GridsAndInverse<Grid>> {
    let maker = GridSetup::new(pool, stream, source, (scalars, scale), single)?;
    let mut matrix = match single {
        true => Matrix::zeroed(pool, stream, source.extents, FACES.len(), maker.value_bytes())?,
        false => {
            Matrix::with(Conductances::of_matrix(source, scale), pool, stream, source.extents, maker.value_bytes())?
        }
    };
    launch::compute_conductances(stream, single, &arguments(&maker, &matrix, 0))?;
    let mut grids = Vec::new();
    while grids.is_empty() || matrix.extents.count() > COARSEST {
        let (grid, next) = coarsen(&maker, pool, matrix, grids.len())?;
        push(&mut grids, grid, GRIDS)?;
        matrix = next;
    }
    let a = CoarsestArgs {
        cells: box_of(matrix.extents),
        c: matrix.conductances.at,
        c_stride: matrix.conductances.stride as i64,
        row_sums: maker.row_sums[grids.len() % 2],
        ..CoarsestArgs::default()
    };
    let spread = if single { launch::spread_coarsest_short } else { launch::spread_coarsest };
    let inverse = maker.invert(pool, matrix.extents.count(), spread, a)?;
    let made = maker.finish(pool, grids, inverse)?;
    for arrays in [matrix.conductances.own, Some(matrix.diagonals)].into_iter().flatten() {
        pool.save_for_next(arrays.into_memory())?;
    }
    Ok(made)
}

/// Returns the arguments of the setup kernels for grid l. The fields of the next grid are zero.
fn arguments(maker: &GridSetup, matrix: &Matrix, l: usize) -> CoarseningArgs {
    CoarseningArgs {
        fine: box_of(matrix.extents),
        m: maker.source.m,
        scale: maker.scale,
        c: matrix.conductances.at,
        c_stride: matrix.conductances.stride as i64,
        diagonal: matrix.diagonals.at(DIAGONAL),
        inverse: matrix.diagonals.at(INVERSE_DIVISOR),
        row_sums: maker.row_sums[l % 2],
        partial: maker.partial,
        strengths: maker.strengths,
        scalars: maker.scalars,
        ..CoarseningArgs::default()
    }
}

/// Returns grid l, and the matrix P^T A P of the next grid.
fn coarsen(maker: &GridSetup, pool: &mut Pool, matrix: Matrix, l: usize) -> Result<(Grid, Matrix)> {
    let (stream, single, value_bytes) = (maker.stream, maker.single, maker.value_bytes());
    // Kernels for the finest grid, or for a coarse grid.
    type Launch = fn(&Stream, bool, &CoarseningArgs) -> Result<()>;
    let [strengths, weights, product]: [Launch; 3] = match l {
        0 => [launch::finest_strengths, launch::finest_weights, launch::finest_product],
        _ => [launch::strengths, launch::weights, launch::product],
    };
    let a = arguments(maker, &matrix, l);
    strengths(stream, single, &a)?;
    let [x, y, z, rows] = maker.fetch_strengths()?;
    let coarsened =
        coarsened_directions(matrix.extents, [x, y, z].map(|sum| sum / rows.max(1.0)), SEMICOARSENING_RATIO);
    let coarse = coarse_cells(matrix.extents, coarsened.map(|d| 1 + usize::from(d)));
    let odd = if l % 2 == 1 { matrix.extents } else { coarse };
    let grid = matrix.grid(pool, stream, coarse, coarsened, value_bytes)?;
    let next = Matrix::zeroed(pool, stream, coarse, CUBE.len(), value_bytes)?;
    let (_, count) = Strides::of(grid.coarse, coarsened);
    let slabs = Slabs::plan(maker, pool, odd, coarse, count)?;
    let a = CoarseningArgs {
        coarse: grid.coarse,
        coarsened: grid.coarsened,
        weights: slabs.weights,
        narrow: grid.weights.address,
        strides: grid.strides,
        cubes: slabs.cubes,
        coarse_c: next.conductances.at,
        coarse_stride: next.conductances.stride as i64,
        coarse_row_sums: maker.row_sums[(l + 1) % 2],
        ..a
    };
    for which in 1..=3 {
        weights(stream, single, &CoarseningArgs { which, ..a })?;
    }
    let (diagonal, inverse) = (next.diagonals.at(DIAGONAL), next.diagonals.at(INVERSE_DIVISOR));
    for slab in slabs.of(coarse.nz, CoarseningArgs { diagonal, inverse, ..a }) {
        product(stream, single, &slab)?;
        launch::compute_coarse_grid(stream, single, &slab)?;
    }
    Ok((grid, next))
}
