//! Coarse grids of multigrid on boxes of cells: which directions are coarsened, extents of the grids, and offsets of
//! stencils.

use super::cells::Cells;

pub use crate::options::limits::SEMICOARSENING_RATIO;

/// Difference of indices (i, j, k) between two points.
pub type Offset = [isize; 3];

/// Offsets to the neighbours in the upper half of the 7-point stencil.
pub const FACE_OFFSETS: [Offset; 3] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

/// Offsets to the neighbours in the upper half of the 27-point stencil, in ascending order of the distances in memory.
pub const CUBE_OFFSETS: [Offset; 13] = [
    [1, 0, 0],
    [-1, 1, 0],
    [0, 1, 0],
    [1, 1, 0],
    [-1, -1, 1],
    [0, -1, 1],
    [1, -1, 1],
    [-1, 0, 1],
    [0, 0, 1],
    [1, 0, 1],
    [-1, 1, 1],
    [0, 1, 1],
    [1, 1, 1],
];

/// Largest number of points of the coarsest grid of multigrid with vertex coarsening, which is solved exactly.
pub const MAX_COARSEST_CELLS: usize = 1000;

/// Returns whether some direction with more than one cell is not coarsened.
pub fn has_uncoarsened_direction(cells: Cells, is_coarsened: [bool; 3]) -> bool {
    (0..3).any(|d| cells.size()[d] > 1 && !is_coarsened[d])
}

/// Returns the directions of strong couplings: the directions d that have more than one cell and satisfy
/// `semicoarsening_ratio` * e_d >= max(e_0, e_1, e_2). Here e_d = `strengths[d]` is the sum over all cells of
/// |s| / center, where s is the sum of the couplings of the cell in direction d.
pub fn strong_directions(cells: Cells, strengths: [f64; 3], semicoarsening_ratio: f64) -> [bool; 3] {
    let largest_strength = strengths.into_iter().fold(0.0, f64::max);
    [0, 1, 2].map(|d| cells.size()[d] > 1 && semicoarsening_ratio * strengths[d] >= largest_strength)
}

/// Returns the directions in which multigrid with vertex coarsening coarsens a grid: the directions of strong
/// couplings, or all directions with more than one point if no direction has strong couplings.
pub fn coarsened_directions(cells: Cells, strengths: [f64; 3], semicoarsening_ratio: f64) -> [bool; 3] {
    let strong = strong_directions(cells, strengths, semicoarsening_ratio);
    if strong.contains(&true) { strong } else { cells.size().map(|n| n > 1) }
}

/// Returns the number of fine cells per coarse cell in each direction, for multigrid with cell coarsening. The number
/// is 1 in two kinds of directions, and 2 in all others:
///
/// - directions with one cell;
/// - directions d with `SEMICOARSENING_RATIO` * e_d < e_max. Here e_d = `strengths[d]` (see [`strong_directions`]), and
///   e_max is the largest strength of a direction with more than one cell.
///
/// For example, cells with an aspect ratio of 4 have strengths with a ratio of 16. Two coarsenings in the strong
/// direction alone make the strengths equal.
pub fn cell_ratio(cells: Cells, strengths: [f64; 3]) -> [usize; 3] {
    let size = cells.size();
    let strongest = (0..3).filter(|&d| size[d] > 1).map(|d| strengths[d]).fold(f64::NEG_INFINITY, f64::max);
    // With NaN, which unchecked input may contain, the comparison is false. The direction is then coarsened, so that
    // the sequence of grids ends.
    [0, 1, 2].map(|d| if size[d] == 1 || SEMICOARSENING_RATIO * strengths[d] < strongest { 1 } else { 2 })
}

/// Returns the extents of the next coarser grid. If a direction has an odd number of cells and the ratio 2, its last
/// coarse cell has an extent of one fine cell.
pub fn coarse_cells(cells: Cells, ratio: [usize; 3]) -> Cells {
    let size = cells.size();
    let [nx, ny, nz] = [0, 1, 2].map(|d| size[d].div_ceil(ratio[d]));
    Cells { nx, ny, nz }
}
