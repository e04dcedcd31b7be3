//! Operator-dependent interpolation by rows (see the reference for the formulas): all fine points of a row that have the same
//! type, eight at a time, edges first, then faces, then centres of cubes.

use super::grid::Stencil;
use super::layout::Offset;
use super::transfer::{Weights, number};
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;

/// Points that are done at once.
pub const LANES: usize = 8;
/// One number of each.
pub type Lane = [f64; LANES];

/// n values from `at` on, then zeros.
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

/// sum = sum + a b.
#[inline(always)]
pub fn add_product(sum: &mut Lane, a: &Lane, b: &Lane) {
    for l in 0..LANES {
        sum[l] += a[l] * b[l];
    }
}

/// sum = sum + a.
#[inline(always)]
pub fn add_lane(sum: &mut Lane, a: &Lane) {
    for l in 0..LANES {
        sum[l] += a[l];
    }
}

/// Conductances of a row towards points with fewer odd indices: their values, and the number of the part of their offset.
struct Towards<'a, T> {
    list: [(&'a [T], usize); 26],
    len: usize,
}

/// A part of an offset, a corner of the cube, and the weight of that corner in the interpolation to the point there; none: 1.
type Path<'a, T> = (usize, usize, Option<&'a [T]>);

/// Corners of a cube, and paths to them: 26 parts with at most four corners each.
struct Paths<'a, T> {
    list: [Path<'a, T>; 56],
    len: usize,
}

for_each_isa! {
    /// Weights of the corners for points `first..` of a row.
    fn weights_of<R: Work>(row: &R, corners: &mut [Lane; 8], at: usize, n: usize) {
        row.weights(corners, at, n);
    }
}

/// What is compiled for several instruction sets.
pub trait Work {
    /// Weights of the corners for n points from `at` on.
    fn weights(&self, corners: &mut [Lane; 8], at: usize, n: usize);
}

/// A row of points of one type.
struct Points<'a, T> {
    towards: Towards<'a, T>,
    paths: Paths<'a, T>,
    excess: &'a [T],
}

impl<T: Real> Work for Points<'_, T> {
    #[inline(always)]
    fn weights(&self, corners: &mut [Lane; 8], at: usize, n: usize) {
        let mut parts = [[0.0; LANES]; 27];
        let mut sum = [0.0; LANES];
        for (c, part) in &self.towards.list[..self.towards.len] {
            let c = lane(c, at, n);
            add_lane(&mut parts[*part], &c);
            add_lane(&mut sum, &c);
        }
        let excess = lane(self.excess, at, n);
        let mut inverse = [0.0; LANES];
        for l in 0..LANES {
            let sound = sum[l] > 0.0;
            let quotient = 1.0 / if sound { sum[l] + excess[l] } else { 1.0 };
            inverse[l] = if sound { quotient } else { 0.0 };
        }
        *corners = [[0.0; LANES]; 8];
        for (part, corner, weight) in &self.paths.list[..self.paths.len] {
            match weight {
                Some(weight) => add_product(&mut corners[*corner], &parts[*part], &lane(weight, at, n)),
                None => add_lane(&mut corners[*corner], &parts[*part]),
            }
        }
        for corner in corners {
            for l in 0..LANES {
                corner[l] *= inverse[l];
            }
        }
    }
}

/// The components of an offset in the directions of a type; those are odd indices.
fn part_of(offset: Offset, of_type: usize) -> Offset {
    [0, 1, 2].map(|d| if of_type >> d & 1 == 1 { offset[d] } else { 0 })
}

/// All weights of points of the types with so many odd indices, in planes 2 K and 2 K + 1 of the coarse planes that are this
/// member's. Those of fewer must be there.
pub fn make<T: Real + Number>(me: Me, a: &Stencil<T>, weights: &Weights<T>, order: u32) {
    for coarse_k in me.share(weights.coarse.cells.nz) {
        for of_type in (1..8).filter(|t: &usize| t.count_ones() == order) {
            let k = 2 * coarse_k + (of_type >> 2);
            for coarse_j in 0..weights.coarse.cells.ny {
                let j = 2 * coarse_j + (of_type >> 1 & 1);
                if j < a.split.cells.ny && k < a.split.cells.nz {
                    make_row(a, weights, of_type, j, k);
                }
            }
        }
    }
}

fn make_row<T: Real + Number>(a: &Stencil<T>, weights: &Weights<T>, of_type: usize, j: usize, k: usize) {
    let (split, coarse) = (&a.split, &weights.coarse);
    let half = of_type & 1;
    let start = split.at(half, j as isize, k as isize);
    let range = start..start + split.points(half);
    // The row of a corner's weights, from the corner at or below the point on.
    let corner = |o: Offset, t: usize| -> (&Shared<T>, usize) {
        (weights.of(o), coarse.at(j / 2 + (t >> 1 & 1), k / 2 + (t >> 2)) + (t & 1))
    };
    let zeros: &[T] = &[];
    let mut towards = Towards { list: [(zeros, 0); 26], len: 0 };
    for (number_of, &offset) in a.offsets.iter().enumerate() {
        for (against, offset) in [(false, offset), (true, offset.map(|o| -o))] {
            let part = part_of(offset, of_type);
            if part != [0; 3] {
                // SAFETY: nobody writes the matrix in this step.
                towards.list[towards.len] = (unsafe { a.c(half, &range, number_of, against) }, number(part));
                towards.len += 1;
            }
        }
    }
    let mut paths = Paths { list: [(0, 0, None); 56], len: 0 };
    for part in (0..27).filter(|&part| part != number([0; 3])) {
        let offset = [part % 3, part / 3 % 3, part / 9].map(|o| o as isize - 1);
        if part_of(offset, of_type) != offset {
            continue;
        }
        for t in (0..8).filter(|t| t & !of_type == 0) {
            // From corner t to the point at that offset: none where it is not one of its corners.
            let from =
                [0, 1, 2].map(|d| if of_type >> d & 1 == 1 { 1 + offset[d] - 2 * (t >> d & 1) as isize } else { 0 });
            if from.iter().all(|o| o.abs() <= 1) {
                let of_corner = (from != [0; 3]).then(|| {
                    let (array, place) = corner(from, t);
                    // SAFETY: of points with fewer odd indices, which nobody writes in this step.
                    unsafe { array.slice(place, range.len()) }
                });
                paths.list[paths.len] = (part, t, of_corner);
                paths.len += 1;
            }
        }
    }
    // SAFETY: nobody writes it in this step.
    let excess = unsafe { a.excess.slice(range.start, range.len()) };
    let points = Points { towards, paths, excess };
    let mut of_corners = [[0.0; LANES]; 8];
    for at in (0..range.len()).step_by(LANES) {
        let n = LANES.min(range.len() - at);
        weights_of(&points, &mut of_corners, at, n);
        for t in (0..8).filter(|t| t & !of_type == 0) {
            let to = [0, 1, 2].map(|d| if of_type >> d & 1 == 1 { 1 - 2 * (t >> d & 1) as isize } else { 0 });
            let (array, place) = corner(to, t);
            // SAFETY: weights of these points, which are this member's.
            let to = unsafe { array.slice_mut(place + at, n) };
            for (to, weight) in to.iter_mut().zip(&of_corners[t]) {
                *to = T::narrow(*weight);
            }
        }
    }
}
