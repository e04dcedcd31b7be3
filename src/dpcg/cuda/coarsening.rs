//! Setup of multigrid with vertex coarsening on the device (Dendy 1982; kernels/dpcg/coarsening.cuh). The host chooses
//! the directions to coarsen from their strengths.

use super::multigrid::{GRIDS_ALLOCATION, GridSetup, GridsAndInverse};
use super::source::DeviceMatrix;
use crate::cuda::arrays::{PaddedArrays, Pool, box_of};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellBox, CoarseningArgs, CoarsestArgs, Strides};
use crate::error::{Result, push};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{
    CUBE_OFFSETS, FACE_OFFSETS, MAX_COARSEST_CELLS, SEMICOARSENING_RATIO, coarse_cells, coarsened_directions,
};

/// A grid with a smoother, and the transfer to the next coarser grid.
pub struct Grid {
    pub cells: CellBox,
    pub coarse_box: CellBox,
    pub coarsened_directions: [i32; 3],
    pub conductances: Conductances,
    /// Two arrays: the diagonal, and the reciprocals of the divisors of the smoother.
    pub diagonals: PaddedArrays,
    pub weights: Memory,
    pub strides: Strides,
    /// r, and two arrays that alternate as x and residual. `None` if the grid uses the solver's vectors.
    pub vectors: Option<PaddedArrays>,
}

/// Conductances c_o(p) = -A(p, p + o), stored offset by offset.
pub struct Conductances {
    /// Address of the first value of the first offset.
    pub address: Address,
    /// Distance from a value to the value of the next offset at the same point, in values.
    pub stride: usize,
    /// Factor by which a stored value is multiplied to obtain the conductance: -scale if the couplings of the caller's
    /// matrix are used, otherwise 1.
    pub per_coupling: f64,
    /// `None` if the couplings of the caller's matrix are used.
    own_arrays: Option<PaddedArrays>,
}

impl Conductances {
    /// Describes the conductances stored in `own_arrays`.
    fn of_arrays(own_arrays: PaddedArrays) -> Self {
        Self { address: own_arrays.at(0), stride: own_arrays.stride(), per_coupling: 1.0, own_arrays: Some(own_arrays) }
    }

    /// Describes the conductances of `scale` times the caller's matrix, c = -scale a.
    fn of_matrix(source: &DeviceMatrix, scale: f64) -> Self {
        Self { address: source.m.east, stride: source.array_stride(), per_coupling: -scale, own_arrays: None }
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
    diagonals: PaddedArrays,
}

/// Returns the number of zeros before and after each array of a grid: the largest distance between the indices of two
/// neighbours in a 27-point stencil. On the finest grid, a plane of zeros is sufficient, so the solver's vectors can be
/// used there.
fn guard_len(extents: Cells) -> usize {
    extents.plane() + extents.nx + 1
}

impl Matrix {
    /// Allocates the matrix of a grid, with conductances for `offset_count` offsets of the stencil.
    fn zeroed(
        pool: &mut Pool,
        stream: &Stream,
        extents: Cells,
        offset_count: usize,
        value_bytes: usize,
    ) -> Result<Self> {
        let own_arrays = PaddedArrays::zeroed_in(
            pool,
            stream,
            offset_count,
            extents.count(),
            guard_len(extents),
            value_bytes,
            GRIDS_ALLOCATION,
        )?;
        Self::with_conductances(Conductances::of_arrays(own_arrays), pool, stream, extents, value_bytes)
    }

    /// Allocates the diagonal and the reciprocal divisors for existing conductances.
    fn with_conductances(
        conductances: Conductances,
        pool: &mut Pool,
        stream: &Stream,
        extents: Cells,
        value_bytes: usize,
    ) -> Result<Self> {
        Ok(Self {
            extents,
            conductances,
            diagonals: PaddedArrays::zeroed_in(
                pool,
                stream,
                2,
                extents.count(),
                guard_len(extents),
                value_bytes,
                GRIDS_ALLOCATION,
            )?,
        })
    }

    /// Makes a grid from this matrix. Allocates the weights of the transfer to the next grid, and vectors unless the
    /// grid uses those of the solver.
    fn into_grid(
        self,
        pool: &mut Pool,
        stream: &Stream,
        coarse_extents: Cells,
        coarsened_directions: [bool; 3],
        value_bytes: usize,
    ) -> Result<Grid> {
        let extents = self.extents;
        let (strides, weight_count) = Strides::of(box_of(coarse_extents), coarsened_directions);
        let (weights, [_]) = pool.allocate_lists(stream, [value_bytes * weight_count], GRIDS_ALLOCATION)?;
        let vectors = match self.conductances.own_arrays {
            Some(_) => Some(PaddedArrays::zeroed_in(
                pool,
                stream,
                3,
                extents.count(),
                guard_len(extents),
                value_bytes,
                GRIDS_ALLOCATION,
            )?),
            None => None,
        };
        Ok(Grid {
            cells: box_of(extents),
            coarse_box: box_of(coarse_extents),
            coarsened_directions: coarsened_directions.map(i32::from),
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
        let arrays = [self.conductances.own_arrays, Some(self.diagonals), self.vectors];
        arrays.into_iter().flatten().try_for_each(|arrays| pool.release(arrays.into_memory()))
    }

    pub fn bytes(&self) -> usize {
        let arrays = [self.conductances.own_arrays.as_ref(), Some(&self.diagonals), self.vectors.as_ref()];
        self.weights.bytes + arrays.into_iter().flatten().map(PaddedArrays::bytes).sum::<usize>()
    }
}

/// Memory for a coarsening step, which processes the coarse grid by slabs (kernels/dpcg/coarsening.cuh). A slab
/// consists of up to `point_planes` planes of coarse points, and of the planes of cubes that these points need. A cube
/// is the region between 8 coarse points. The memory contains the unrounded weights of the whole grid, and the matrices
/// of the cubes of one slab.
struct Slabs {
    weights: Address,
    cubes: Address,
    point_planes: usize,
}

impl Slabs {
    /// Plans the memory of a coarsening step. The weights and then the cubes are stored in the pool's workspace, behind
    /// the row sums of the grids with odd numbers. The pool's workspace is the memory of the solver's vectors.
    fn plan(
        grid_setup: &GridSetup,
        pool: &mut Pool,
        odd_extents: Cells,
        coarse_extents: Cells,
        weight_count: usize,
    ) -> Result<Self> {
        let (weight_bytes, plane_bytes) = (8 * weight_count, 8 * CUBE_ENTRIES * coarse_extents.plane());
        let used_bytes = (grid_setup.row_sums[1] - grid_setup.row_sums[0]) as usize + 8 * odd_extents.count();
        let free_bytes = pool.workspace().bytes - used_bytes;
        let fitting_planes = (free_bytes.saturating_sub(weight_bytes) / plane_bytes).min(coarse_extents.nz);
        if fitting_planes < coarse_extents.nz.min(2) {
            // A thin grid may need more memory than the workspace has.
            let (memory, [weights, cubes]) = pool.allocate_lists(
                grid_setup.stream,
                [weight_bytes, plane_bytes * coarse_extents.nz],
                GRIDS_ALLOCATION,
            )?;
            pool.save_for_next(memory)?;
            return Ok(Self { weights, cubes, point_planes: coarse_extents.nz });
        }
        // Each slab but the first has one more plane of cubes than planes of points.
        let slab_count =
            if fitting_planes < coarse_extents.nz { coarse_extents.nz.div_ceil(fitting_planes - 1) } else { 1 };
        let point_planes = coarse_extents.nz.div_ceil(slab_count);
        pool.borrow_workspace(used_bytes + weight_bytes + plane_bytes * coarse_extents.nz.min(point_planes + 1));
        let weights_address = grid_setup.row_sums[0] + used_bytes as u64;
        Ok(Self { weights: weights_address, cubes: weights_address + weight_bytes as u64, point_planes })
    }

    /// Returns the arguments of each slab. A point needs the cubes of its plane and of the previous plane.
    fn slab_args(&self, nz: usize, args: CoarseningArgs) -> impl Iterator<Item = CoarseningArgs> {
        (0..nz).step_by(self.point_planes).map(move |first_point_plane| {
            let (first_cube_plane, end_plane) =
                (first_point_plane.saturating_sub(1), nz.min(first_point_plane + self.point_planes));
            CoarseningArgs {
                first_cube_plane: first_cube_plane as i32,
                cube_planes: (end_plane - first_cube_plane) as i32,
                first_point_plane: first_point_plane as i32,
                point_planes: (end_plane - first_point_plane) as i32,
                ..args
            }
        })
    }
}

/// Makes the grids of `scale` times the matrix, except the coarsest grid, and the inverse of the coarsest matrix.
/// `is_single_precision`: the cycle computes in f32.
pub fn build_grids(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    scalars: Address,
    scale: f64,
    is_single_precision: bool,
) -> Result<GridsAndInverse<Grid>> {
    let grid_setup = GridSetup::new(pool, stream, source, (scalars, scale), is_single_precision)?;
    let mut matrix = match is_single_precision {
        true => Matrix::zeroed(pool, stream, source.extents, FACE_OFFSETS.len(), grid_setup.value_bytes())?,
        false => Matrix::with_conductances(
            Conductances::of_matrix(source, scale),
            pool,
            stream,
            source.extents,
            grid_setup.value_bytes(),
        )?,
    };
    launch::compute_conductances(stream, is_single_precision, &setup_args(&grid_setup, &matrix, 0))?;
    let mut grids = Vec::new();
    while grids.is_empty() || matrix.extents.count() > MAX_COARSEST_CELLS {
        let (grid, next_matrix) = coarsen_grid(&grid_setup, pool, matrix, grids.len())?;
        push(&mut grids, grid, GRIDS_ALLOCATION)?;
        matrix = next_matrix;
    }
    let args = CoarsestArgs {
        cells: box_of(matrix.extents),
        c: matrix.conductances.address,
        c_stride: matrix.conductances.stride as i64,
        row_sums: grid_setup.row_sums[grids.len() % 2],
        ..CoarsestArgs::default()
    };
    let spread_matrix = if is_single_precision { launch::spread_coarsest_f32 } else { launch::spread_coarsest };
    let inverse = grid_setup.invert_coarsest(pool, matrix.extents.count(), spread_matrix, args)?;
    let grids_and_inverse = grid_setup.finish_setup(pool, grids, inverse)?;
    for arrays in [matrix.conductances.own_arrays, Some(matrix.diagonals)].into_iter().flatten() {
        pool.save_for_next(arrays.into_memory())?;
    }
    Ok(grids_and_inverse)
}

/// Returns the arguments of the setup kernels for grid l. The fields that describe the next coarser grid are zero.
fn setup_args(grid_setup: &GridSetup, matrix: &Matrix, l: usize) -> CoarseningArgs {
    CoarseningArgs {
        fine: box_of(matrix.extents),
        m: grid_setup.source.m,
        scale: grid_setup.matrix_scale,
        c: matrix.conductances.address,
        c_stride: matrix.conductances.stride as i64,
        diagonal: matrix.diagonals.at(DIAGONAL),
        inverse: matrix.diagonals.at(INVERSE_DIVISOR),
        row_sums: grid_setup.row_sums[l % 2],
        partial: grid_setup.partial_sums,
        strengths: grid_setup.strengths,
        scalars: grid_setup.scalars,
        ..CoarseningArgs::default()
    }
}

/// Returns grid l, and the matrix P^T A P of the next grid.
fn coarsen_grid(grid_setup: &GridSetup, pool: &mut Pool, matrix: Matrix, l: usize) -> Result<(Grid, Matrix)> {
    let (stream, is_single_precision, value_bytes) =
        (grid_setup.stream, grid_setup.is_single_precision, grid_setup.value_bytes());
    // Launches for the finest grid, or for a coarse grid.
    type Launch = fn(&Stream, bool, &CoarseningArgs) -> Result<()>;
    let [strengths, weights, product]: [Launch; 3] = match l {
        0 => [launch::compute_finest_strengths, launch::compute_finest_weights, launch::multiply_finest],
        _ => [launch::compute_strengths, launch::compute_weights, launch::multiply_coarse],
    };
    let args = setup_args(grid_setup, &matrix, l);
    strengths(stream, is_single_precision, &args)?;
    let [x, y, z, row_count] = grid_setup.fetch_strengths()?;
    let coarsened_directions =
        coarsened_directions(matrix.extents, [x, y, z].map(|sum| sum / row_count.max(1.0)), SEMICOARSENING_RATIO);
    let coarse_extents = coarse_cells(matrix.extents, coarsened_directions.map(|d| 1 + usize::from(d)));
    let odd_extents = if l % 2 == 1 { matrix.extents } else { coarse_extents };
    let grid = matrix.into_grid(pool, stream, coarse_extents, coarsened_directions, value_bytes)?;
    let next_matrix = Matrix::zeroed(pool, stream, coarse_extents, CUBE_OFFSETS.len(), value_bytes)?;
    let (_, weight_count) = Strides::of(grid.coarse_box, coarsened_directions);
    let slabs = Slabs::plan(grid_setup, pool, odd_extents, coarse_extents, weight_count)?;
    let args = CoarseningArgs {
        coarse: grid.coarse_box,
        is_coarsened: grid.coarsened_directions,
        weights: slabs.weights,
        rounded_weights: grid.weights.address,
        strides: grid.strides,
        cubes: slabs.cubes,
        coarse_conductances: next_matrix.conductances.address,
        coarse_c_stride: next_matrix.conductances.stride as i64,
        coarse_row_sums: grid_setup.row_sums[(l + 1) % 2],
        ..args
    };
    for odd_indices in 1..=3 {
        weights(stream, is_single_precision, &CoarseningArgs { odd_count: odd_indices, ..args })?;
    }
    let (diagonal, inverse) = (next_matrix.diagonals.at(DIAGONAL), next_matrix.diagonals.at(INVERSE_DIVISOR));
    for slab in slabs.slab_args(coarse_extents.nz, CoarseningArgs { diagonal, inverse, ..args }) {
        product(stream, is_single_precision, &slab)?;
        launch::compute_coarse_grid(stream, is_single_precision, &slab)?;
    }
    Ok((grid, next_matrix))
}
