//! Operator-dependent interpolation (Dendy 1982), row by row; the formulas are in `super`. The weights of all fine
//! points of one type in a row are computed eight points at a time. Points on edges between coarse points are processed
//! first, then points on faces, then centres of cubes.

use super::grid::Stencil;
use super::transfer::Weights;
use crate::base::isa::for_each_isa;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::{Result, push};
use crate::stencil::coarsening::Offset;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const TYPES: &str = "types of fine points";

/// Number of points that are computed at once.
pub const LANES: usize = 8;
/// One number for each of `LANES` points.
pub type Lane = [f64; LANES];

/// Loads n values from index `at` on, followed by zeros.
#[inline(always)]
pub fn lane<T: Real>(values: &[T], at: usize, n: usize) -> Lane {
    let mut lane = [0.0; LANES];
    if n == LANES {
        let values = &values[at..][..LANES];
        for l in 0..LANES {
            lane[l] = values[l].wide();
        }
    } else {
        for l in 0..n {
            lane[l] = values[at + l].wide();
        }
    }
    lane
}

/// Stores n values from index `at` on.
#[inline(always)]
pub fn store<T: Real>(values: &mut [T], at: usize, n: usize, lane: &Lane) {
    if n == LANES {
        let values = &mut values[at..][..LANES];
        for l in 0..LANES {
            values[l] = T::narrow(lane[l]);
        }
    } else {
        for l in 0..n {
            values[at + l] = T::narrow(lane[l]);
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

/// Index tables for the points p of one type S. Bit d of `bits` is set if the index in direction d is odd. The corners
/// of a point are the coarse points around it; bit d of the number of a corner is set if the corner is after p in
/// direction d. o_S is the part of an offset o in the directions S.
struct PointType {
    bits: usize,
    /// Conductances with o_S != 0. Each entry is an offset number, and whether the opposite offset is meant. The
    /// entries are sorted by o_S.
    towards: Vec<(usize, bool)>,
    /// Range in `towards` of each part o_S.
    parts: Vec<Range<usize>>,
    /// Paths from a point p to a corner, by way of p + o_S. Each entry is the number of a part o_S, and the offset from
    /// the corner to p + o_S. The entries are sorted by corner.
    paths: Vec<(usize, Offset)>,
    /// Range in `paths` of each corner; empty if points of this type are not interpolated from this corner.
    corners: [Range<usize>; 8],
}

/// Largest number of parts of a type and of conductances in `towards`, and largest number of paths to corners.
const MAX_PARTS: usize = 26;
const MAX_PATHS: usize = 56;

impl PointType {
    fn new(bits: usize, offsets: &[Offset]) -> Result<Self> {
        let mut towards = Vec::new();
        for (k, &offset) in offsets.iter().enumerate() {
            for (against, offset) in [(false, offset), (true, offset.map(|o| -o))] {
                let part = part_of(offset, bits);
                if part != [0; 3] {
                    push(&mut towards, (part, k, against), TYPES)?;
                }
            }
        }
        towards.sort_unstable();
        let mut of =
            Self { bits, towards: Vec::new(), parts: Vec::new(), paths: Vec::new(), corners: Default::default() };
        let mut parts: Vec<Offset> = Vec::new();
        for (number, &(part, k, against)) in towards.iter().enumerate() {
            push(&mut of.towards, (k, against), TYPES)?;
            match of.parts.last_mut() {
                Some(range) if parts.last() == Some(&part) => range.end = number + 1,
                _ => {
                    push(&mut parts, part, TYPES)?;
                    push(&mut of.parts, number..number + 1, TYPES)?;
                }
            }
        }
        for corner in (0..8).filter(|t| t & !bits == 0) {
            let start = of.paths.len();
            for (number, part) in parts.iter().enumerate() {
                // If a component of `from` exceeds 1 in magnitude, the point p + o_S is not interpolated from this
                // corner, so there is no path.
                let from = [0, 1, 2].map(|d| (bits >> d & 1) as isize * (1 + part[d] - 2 * (corner >> d & 1) as isize));
                if from.iter().all(|o| o.abs() <= 1) {
                    push(&mut of.paths, (number, from), TYPES)?;
                }
            }
            of.corners[corner] = start..of.paths.len();
        }
        Ok(of)
    }
}

/// All types of points, except that of coarse points.
pub struct PointTypes(Vec<PointType>);

impl PointTypes {
    /// Computes the types for a stencil.
    pub fn new(offsets: &[Offset], ratio: [usize; 3]) -> Result<Self> {
        let mut types = Vec::new();
        let coarsened = |d: usize| ratio[d] == 2;
        for bits in (1..8_usize).filter(|bits| (0..3).all(|d| bits >> d & 1 == 0 || coarsened(d))) {
            push(&mut types, PointType::new(bits, offsets)?, TYPES)?;
        }
        Ok(Self(types))
    }
}

for_each_isa! {
    /// Computes the weights of all points of a row.
    fn weights_of<R: Work>(row: &mut R, parts: &mut Parts) {
        row.work(parts);
    }
}

/// Sums of conductances by part, aligned to cache lines.
#[repr(align(64))]
pub struct Parts([Lane; MAX_PARTS]);

/// Computation that is compiled for several instruction sets.
pub trait Work {
    /// Computes all points of a row.
    fn work(&mut self, parts: &mut Parts);
}

/// A row of points of one type.
struct Points<'a, T> {
    of: &'a PointType,
    len: usize,
    /// Conductances, in the order of `PointType::towards`.
    towards: [&'a [T]; MAX_PARTS],
    /// For each path of `PointType::paths`, the weights of its intermediate points p + o_S. `None`: the intermediate
    /// point is the corner itself, whose weight is one.
    path_weights: [Option<&'a [T]>; MAX_PATHS],
    row_sums: &'a [T],
    /// For each corner, the array to which the computed weights are written.
    to: [Option<&'a mut [T]>; 8],
}

impl<T: Real> Points<'_, T> {
    /// Computes the weights of n <= `LANES` points from index `at` on. If the sum of the conductances in `towards` is
    /// not positive, all weights of the point are zero.
    #[inline(always)]
    fn compute_weights(&mut self, parts: &mut Parts, at: usize, n: usize) {
        let mut sum = [0.0; LANES];
        for (part, range) in parts.0.iter_mut().zip(&self.of.parts) {
            let mut of_part = [0.0; LANES];
            for c in &self.towards[range.clone()] {
                add_lane(&mut of_part, &lane(c, at, n));
            }
            add_lane(&mut sum, &of_part);
            *part = of_part;
        }
        let row_sums = lane(self.row_sums, at, n);
        let mut inverse = [0.0; LANES];
        for l in 0..LANES {
            let sound = sum[l] > 0.0;
            let quotient = 1.0 / if sound { sum[l] + row_sums[l] } else { 1.0 };
            inverse[l] = if sound { quotient } else { 0.0 };
        }
        for (to, range) in self.to.iter_mut().zip(&self.of.corners) {
            let Some(to) = to else { continue };
            let mut weight = [0.0; LANES];
            for ((part, _), row) in self.of.paths[range.clone()].iter().zip(&self.path_weights[range.clone()]) {
                match row {
                    Some(row) => add_product(&mut weight, &parts.0[*part], &lane(row, at, n)),
                    None => add_lane(&mut weight, &parts.0[*part]),
                }
            }
            for l in 0..LANES {
                weight[l] *= inverse[l];
            }
            store(to, at, n, &weight);
        }
    }
}

impl<T: Real> Work for Points<'_, T> {
    #[inline(always)]
    fn work(&mut self, parts: &mut Parts) {
        // `compute_weights` is compiled separately for full and for partial lanes. It is not a closure, because a
        // closure would not be compiled for the selected instruction set.
        let whole = self.len - self.len % LANES;
        for at in (0..whole).step_by(LANES) {
            self.compute_weights(parts, at, LANES);
        }
        if whole < self.len {
            self.compute_weights(parts, whole, self.len - whole);
        }
    }
}

/// Returns the part o_S of an offset: its components in the directions S of a type.
fn part_of(offset: Offset, of_type: usize) -> Offset {
    [0, 1, 2].map(|d| if of_type >> d & 1 == 1 { offset[d] } else { 0 })
}

/// Computes the weights of all points whose type has `order` odd indices, for each coarse plane of this thread: in the
/// fine plane of these coarse points and, if z is coarsened, in the following fine plane. The weights of points with
/// fewer odd indices must be complete.
pub fn make<T: Real + Number>(me: TeamThread, types: &PointTypes, a: &Stencil<T>, weights: &Weights<T>, order: u32) {
    for coarse_k in me.share(weights.coarse.cells.nz) {
        for of in types.0.iter().filter(|of| of.bits.count_ones() == order) {
            let k = weights.ratio[2] * coarse_k + (of.bits >> 2);
            for coarse_j in 0..weights.coarse.cells.ny {
                let j = weights.ratio[1] * coarse_j + (of.bits >> 1 & 1);
                if j >= a.split.cells.ny || k >= a.split.cells.nz {
                    continue;
                }
                if weights.coarse.is_split() {
                    (0..2).for_each(|half| make_row(of, a, weights, [half, half, j, k]));
                } else {
                    make_row(of, a, weights, [of.bits & 1, 0, j, k]);
                }
            }
        }
    }
}

/// Computes the weights of the fine points in a half row (j, k). The coarse points from which they are interpolated are
/// in the half `half_of_coarse`.
fn make_row<T: Real + Number>(
    of: &PointType,
    a: &Stencil<T>,
    weights: &Weights<T>,
    [half, half_of_coarse, j, k]: [usize; 4],
) {
    let (split, coarse, [_, ry, rz]) = (&a.split, &weights.coarse, weights.ratio);
    let (start, len) = (split.at(half, j as isize, k as isize), split.points(half));
    let range = start..start + len;
    // Returns the array that contains the weights of corner t for offset o, and the index of the first weight. The
    // lowest corners of this row of points are in the coarse row (j / ry, k / rz).
    let corner = |o: Offset, t: usize| -> (&Shared<T>, usize) {
        (weights.of(o), coarse.at(half_of_coarse, j / ry + (t >> 1 & 1), k / rz + (t >> 2)) + (t & 1))
    };
    // SAFETY: no thread writes row sums in this step.
    let row_sums = unsafe { a.row_sums.slice(start, len) };
    let mut row = Points {
        of,
        len,
        towards: [&[]; MAX_PARTS],
        path_weights: [None; MAX_PATHS],
        row_sums,
        to: [const { None }; 8],
    };
    for (to, &(k, against)) in row.towards.iter_mut().zip(&of.towards) {
        // SAFETY: no thread writes the matrix in this step.
        *to = unsafe { a.c(half, &range, k, against) };
    }
    for t in (0..8).filter(|t| t & !of.bits == 0) {
        let paths = of.corners[t].clone();
        for (path, &(_, from)) in row.path_weights[paths.clone()].iter_mut().zip(&of.paths[paths]) {
            *path = (from != [0; 3]).then(|| {
                let (array, start) = corner(from, t);
                // SAFETY: no thread writes the weights of points with fewer odd indices in this step.
                unsafe { array.slice(start, len) }
            });
        }
        let to = [0, 1, 2].map(|d| if of.bits >> d & 1 == 1 { 1 - 2 * (t >> d & 1) as isize } else { 0 });
        let (array, start) = corner(to, t);
        // SAFETY: the weights of these points belong to this thread.
        row.to[t] = Some(unsafe { array.slice_mut(start, len) });
    }
    weights_of(&mut row, &mut Parts([[0.0; LANES]; MAX_PARTS]));
}
