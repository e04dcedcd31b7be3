//! Operator-dependent interpolation (Dendy 1982), row by row; the formulas are in `super`. The weights of all fine
//! points of one type in a row are computed eight points at a time. Points on edges between coarse points are processed
//! first, then points on faces, then centres of cubes.

use super::grid::Stencil;
use super::transfer::InterpolationWeights;
use crate::base::isa::for_each_isa;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::{Result, push};
use crate::stencil::coarsening::Offset;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const TYPES_ALLOCATION: &str = "types of fine points";

/// Number of points or cubes that the loops process at once.
pub const LANES: usize = 8;
/// One number for each of `LANES` points or cubes.
pub type Lane = [f64; LANES];

/// Loads n values from index `start` on, followed by zeros.
#[inline(always)]
pub fn load_lane<T: Real>(values: &[T], start: usize, n: usize) -> Lane {
    let mut lane = [0.0; LANES];
    if n == LANES {
        let values = &values[start..][..LANES];
        for l in 0..LANES {
            lane[l] = values[l].to_f64();
        }
    } else {
        for l in 0..n {
            lane[l] = values[start + l].to_f64();
        }
    }
    lane
}

/// Stores n values from index `start` on.
#[inline(always)]
pub fn store_lane<T: Real>(values: &mut [T], start: usize, n: usize, lane: &Lane) {
    if n == LANES {
        let values = &mut values[start..][..LANES];
        for l in 0..LANES {
            values[l] = T::from_f64(lane[l]);
        }
    } else {
        for l in 0..n {
            values[start + l] = T::from_f64(lane[l]);
        }
    }
}

/// Computes sum = sum + a b.
#[inline(always)]
pub fn add_product(sum: &mut Lane, a: &Lane, b: &Lane) {
    for l in 0..LANES {
        sum[l] += a[l] * b[l];
    }
}

/// Returns a - b.
#[inline(always)]
pub fn difference(a: &Lane, b: &Lane) -> Lane {
    let mut lane = *a;
    for l in 0..LANES {
        lane[l] -= b[l];
    }
    lane
}

/// Returns -a b.
#[inline(always)]
pub fn minus_product(a: &Lane, b: &Lane) -> Lane {
    let mut lane = *a;
    for l in 0..LANES {
        lane[l] *= -b[l];
    }
    lane
}

/// Computes sum = sum + a.
#[inline(always)]
pub fn add_lane(sum: &mut Lane, a: &Lane) {
    for l in 0..LANES {
        sum[l] += a[l];
    }
}

/// Index tables for the points p of one type S. Bit d of `odd_bits` is set if the index in direction d is odd. The
/// corners of a point are the coarse points around it; bit d of the number of a corner is set if the corner is after p
/// in direction d. o_S is the part of an offset o in the directions S.
struct PointType {
    odd_bits: usize,
    /// Conductances with o_S != 0. Each entry contains the number of an offset, and whether the conductance is that of
    /// the opposite offset. The entries are sorted by o_S.
    stencil_entries: Vec<(usize, bool)>,
    /// For each part o_S, the range of its entries in `stencil_entries`.
    part_ranges: Vec<Range<usize>>,
    /// Paths from a point p to a corner, by way of p + o_S. Each entry contains the number of a part o_S, and the
    /// offset from the corner to p + o_S. The entries are sorted by corner.
    paths: Vec<(usize, Offset)>,
    /// For each corner, the range of its paths in `paths`; empty if points of this type are not interpolated from it.
    corner_paths: [Range<usize>; 8],
}

/// Upper bounds for one type: `MAX_PARTS` for the numbers of parts o_S and of entries of `stencil_entries`, and
/// `MAX_PATHS` for the number of paths.
const MAX_PARTS: usize = 26;
const MAX_PATHS: usize = 56;

impl PointType {
    fn new(odd_bits: usize, offsets: &[Offset]) -> Result<Self> {
        let mut stencil_entries = Vec::new();
        for (k, &offset) in offsets.iter().enumerate() {
            for (is_opposite, offset) in [(false, offset), (true, offset.map(|o| -o))] {
                let part = part_in_type(offset, odd_bits);
                if part != [0; 3] {
                    push(&mut stencil_entries, (part, k, is_opposite), TYPES_ALLOCATION)?;
                }
            }
        }
        stencil_entries.sort_unstable();
        let mut point_type = Self {
            odd_bits,
            stencil_entries: Vec::new(),
            part_ranges: Vec::new(),
            paths: Vec::new(),
            corner_paths: Default::default(),
        };
        let mut parts: Vec<Offset> = Vec::new();
        for (entry, &(part, k, is_opposite)) in stencil_entries.iter().enumerate() {
            push(&mut point_type.stencil_entries, (k, is_opposite), TYPES_ALLOCATION)?;
            match point_type.part_ranges.last_mut() {
                Some(range) if parts.last() == Some(&part) => range.end = entry + 1,
                _ => {
                    push(&mut parts, part, TYPES_ALLOCATION)?;
                    push(&mut point_type.part_ranges, entry..entry + 1, TYPES_ALLOCATION)?;
                }
            }
        }
        for corner in (0..8).filter(|t| t & !odd_bits == 0) {
            let start = point_type.paths.len();
            for (part_number, part) in parts.iter().enumerate() {
                // If a component of `path_offset` exceeds 1 in magnitude, the point p + o_S is not interpolated from
                // this corner, so there is no path.
                let path_offset =
                    [0, 1, 2].map(|d| (odd_bits >> d & 1) as isize * (1 + part[d] - 2 * (corner >> d & 1) as isize));
                if path_offset.iter().all(|o| o.abs() <= 1) {
                    push(&mut point_type.paths, (part_number, path_offset), TYPES_ALLOCATION)?;
                }
            }
            point_type.corner_paths[corner] = start..point_type.paths.len();
        }
        Ok(point_type)
    }
}

/// All types of points, except that of coarse points.
pub struct PointTypes(Vec<PointType>);

impl PointTypes {
    /// Computes the types for a stencil.
    pub fn new(offsets: &[Offset], coarsening_ratio: [usize; 3]) -> Result<Self> {
        let mut types = Vec::new();
        let is_coarsened = |d: usize| coarsening_ratio[d] == 2;
        for odd_bits in (1..8_usize).filter(|odd_bits| (0..3).all(|d| odd_bits >> d & 1 == 0 || is_coarsened(d))) {
            push(&mut types, PointType::new(odd_bits, offsets)?, TYPES_ALLOCATION)?;
        }
        Ok(Self(types))
    }
}

for_each_isa! {
    /// Computes the weights of all points of a row.
    fn compute_row_weights<R: RowComputation>(row: &mut R, part_sums: &mut PartSums) {
        row.compute_row(part_sums);
    }
}

/// For each part o_S, the sums of the conductances of `LANES` points. The array is aligned to cache lines.
#[repr(align(64))]
pub struct PartSums([Lane; MAX_PARTS]);

/// Computation of a row, which `for_each_isa` compiles for several instruction sets.
pub trait RowComputation {
    /// Computes all points of a row.
    fn compute_row(&mut self, part_sums: &mut PartSums);
}

/// A row of points of one type.
struct PointRow<'a, T> {
    point_type: &'a PointType,
    len: usize,
    /// Conductances, in the order of `PointType::stencil_entries`.
    conductances: [&'a [T]; MAX_PARTS],
    /// For each path of `PointType::paths`, the weights of its intermediate points p + o_S. `None`: the intermediate
    /// point is the corner itself, whose weight is one.
    path_weights: [Option<&'a [T]>; MAX_PATHS],
    row_sums: &'a [T],
    /// For each corner, the array to which the computed weights are written.
    corner_weights: [Option<&'a mut [T]>; 8],
}

impl<T: Real> PointRow<'_, T> {
    /// Computes the weights of n <= `LANES` points from index `start` on. If the sum of the conductances of a point is
    /// not positive, all weights of this point are zero.
    #[inline(always)]
    fn compute_weights(&mut self, part_sums: &mut PartSums, start: usize, n: usize) {
        let mut conductance_sum = [0.0; LANES];
        for (stored_sum, range) in part_sums.0.iter_mut().zip(&self.point_type.part_ranges) {
            let mut part_sum = [0.0; LANES];
            for c in &self.conductances[range.clone()] {
                add_lane(&mut part_sum, &load_lane(c, start, n));
            }
            add_lane(&mut conductance_sum, &part_sum);
            *stored_sum = part_sum;
        }
        let row_sums = load_lane(self.row_sums, start, n);
        let mut inverse = [0.0; LANES];
        for l in 0..LANES {
            let is_positive = conductance_sum[l] > 0.0;
            let quotient = 1.0 / if is_positive { conductance_sum[l] + row_sums[l] } else { 1.0 };
            inverse[l] = if is_positive { quotient } else { 0.0 };
        }
        for (corner_weights, range) in self.corner_weights.iter_mut().zip(&self.point_type.corner_paths) {
            let Some(corner_weights) = corner_weights else { continue };
            let mut weights = [0.0; LANES];
            for ((part, _), path_row) in
                self.point_type.paths[range.clone()].iter().zip(&self.path_weights[range.clone()])
            {
                match path_row {
                    Some(path_row) => add_product(&mut weights, &part_sums.0[*part], &load_lane(path_row, start, n)),
                    None => add_lane(&mut weights, &part_sums.0[*part]),
                }
            }
            for l in 0..LANES {
                weights[l] *= inverse[l];
            }
            store_lane(corner_weights, start, n, &weights);
        }
    }
}

impl<T: Real> RowComputation for PointRow<'_, T> {
    #[inline(always)]
    fn compute_row(&mut self, part_sums: &mut PartSums) {
        // `compute_weights` is inlined twice: with the constant n = `LANES`, and with a smaller n for the last points
        // of the row. `compute_weights` is not a closure, because a closure would not be compiled for the selected
        // instruction set.
        let full_lanes_end = self.len - self.len % LANES;
        for start in (0..full_lanes_end).step_by(LANES) {
            self.compute_weights(part_sums, start, LANES);
        }
        if full_lanes_end < self.len {
            self.compute_weights(part_sums, full_lanes_end, self.len - full_lanes_end);
        }
    }
}

/// Returns the part o_S of an offset: its components in the directions S of a type.
fn part_in_type(offset: Offset, type_bits: usize) -> Offset {
    [0, 1, 2].map(|d| if type_bits >> d & 1 == 1 { offset[d] } else { 0 })
}

/// Computes the weights of those points in the fine planes of this thread whose type S contains `odd_indices`
/// directions. The fine planes of a thread are the planes of its coarse points and, if z is coarsened, also the plane
/// after each of them. The weights of points with fewer odd indices must be complete.
pub fn compute_weights<T: Real + Number>(
    thread: TeamThread,
    types: &PointTypes,
    a: &Stencil<T>,
    weights: &InterpolationWeights<T>,
    odd_indices: u32,
) {
    for coarse_k in thread.share(weights.coarse_layout.cells.nz) {
        for point_type in types.0.iter().filter(|point_type| point_type.odd_bits.count_ones() == odd_indices) {
            let k = weights.coarsening_ratio[2] * coarse_k + (point_type.odd_bits >> 2);
            for coarse_j in 0..weights.coarse_layout.cells.ny {
                let j = weights.coarsening_ratio[1] * coarse_j + (point_type.odd_bits >> 1 & 1);
                if j >= a.split.cells.ny || k >= a.split.cells.nz {
                    continue;
                }
                if weights.coarse_layout.is_split() {
                    (0..2).for_each(|half| compute_half_row(point_type, a, weights, [half, half, j, k]));
                } else {
                    compute_half_row(point_type, a, weights, [point_type.odd_bits & 1, 0, j, k]);
                }
            }
        }
    }
}

/// Computes the weights of the fine points in a half row (j, k). The coarse points from which these points are
/// interpolated are in the half `coarse_half`.
fn compute_half_row<T: Real + Number>(
    point_type: &PointType,
    a: &Stencil<T>,
    weights: &InterpolationWeights<T>,
    [half, coarse_half, j, k]: [usize; 4],
) {
    let (split, coarse, [_, ry, rz]) = (&a.split, &weights.coarse_layout, weights.coarsening_ratio);
    let (start, len) = (split.row_start(half, j as isize, k as isize), split.row_points(half));
    let range = start..start + len;
    // Returns the array that contains the weights of corner t for offset o, and the index of the first weight. The
    // lowest corners of this row of points are in the coarse row (j / ry, k / rz).
    let corner_weights = |o: Offset, t: usize| -> (&Shared<T>, usize) {
        (weights.of(o), coarse.row_start(coarse_half, j / ry + (t >> 1 & 1), k / rz + (t >> 2)) + (t & 1))
    };
    // SAFETY: no thread writes row sums in this step.
    let row_sums = unsafe { a.row_sums.slice(start, len) };
    let mut point_row = PointRow {
        point_type,
        len,
        conductances: [&[]; MAX_PARTS],
        path_weights: [None; MAX_PATHS],
        row_sums,
        corner_weights: [const { None }; 8],
    };
    for (conductances, &(k, is_opposite)) in point_row.conductances.iter_mut().zip(&point_type.stencil_entries) {
        // SAFETY: no thread writes the matrix in this step.
        *conductances = unsafe { a.conductances(half, &range, k, is_opposite) };
    }
    for t in (0..8).filter(|t| t & !point_type.odd_bits == 0) {
        let paths = point_type.corner_paths[t].clone();
        for (path_weights, &(_, path_offset)) in
            point_row.path_weights[paths.clone()].iter_mut().zip(&point_type.paths[paths])
        {
            *path_weights = (path_offset != [0; 3]).then(|| {
                let (array, start) = corner_weights(path_offset, t);
                // SAFETY: no thread writes the weights of points with fewer odd indices in this step.
                unsafe { array.slice(start, len) }
            });
        }
        let offset =
            [0, 1, 2].map(|d| if point_type.odd_bits >> d & 1 == 1 { 1 - 2 * (t >> d & 1) as isize } else { 0 });
        let (array, start) = corner_weights(offset, t);
        // SAFETY: the weights of these points belong to this thread.
        point_row.corner_weights[t] = Some(unsafe { array.slice_mut(start, len) });
    }
    compute_row_weights(&mut point_row, &mut PartSums([[0.0; LANES]; MAX_PARTS]));
}
