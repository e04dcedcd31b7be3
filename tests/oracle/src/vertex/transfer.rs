//! Coarse points, operator-dependent interpolation (Dendy 1982, extended to 3D), and the Galerkin product.
//!
//! In a direction that is coarsened, every second point is coarse, beginning with the first: point 2 I is coarse point
//! I. The *type* S of a point is the set of coarsened directions in which its index is odd; S is empty for coarse
//! points. The stencil is summed over the directions outside S. The resulting equation defines the interpolated value:
//!
//! ```text
//! x(p) = (1/den) sum_{o_S != 0} c_o x(p + o_S),   den = row sum + sum_{o_S != 0} c_o,
//! ```
//!
//! where o_S is the part of o in the directions S. The point p + o_S has fewer odd indices than p.

use super::stencil::{Offset, Stencil, rounded_row_sum};
use crate::{index, place};

/// Interpolation weights of a point by coarse point. Bit d of the index selects the lower or upper coarse point in
/// direction d; it is 0 if the point's index in direction d is even.
pub type Weights = [f64; 8];

/// Whether each direction is coarsened.
pub type Coarsened = [bool; 3];

/// Returns the directions to coarsen: those of couplings that are at least 1 / `semi` of the strongest, and at least
/// one if any has more than one point.
pub fn directions(a: &Stencil, semi: f64) -> Coarsened {
    let mut strength = [0.0; 3];
    for p in 0..a.row_sums.len() {
        let diagonal = a.diagonal(p);
        if diagonal > 0.0 {
            a.each(p, |offset, _, c| {
                (0..3).filter(|&d| offset[d] != 0).for_each(|d| strength[d] += c / diagonal);
            });
        }
    }
    let largest = strength.into_iter().fold(0.0, f64::max);
    let long = a.size.map(|n| n > 1);
    let strong = [0, 1, 2].map(|d| long[d] && semi * strength[d] >= largest);
    if strong.contains(&true) { strong } else { long }
}

/// Returns the extents of the coarse grid.
pub fn coarse_size(size: [usize; 3], coarsened: Coarsened) -> [usize; 3] {
    [0, 1, 2].map(|d| if coarsened[d] { size[d].div_ceil(2) } else { size[d] })
}

/// Returns the type of a point: bit d is set for an odd index in coarsened direction d.
fn type_of(place: [usize; 3], coarsened: Coarsened) -> usize {
    (0..3).map(|d| (usize::from(coarsened[d]) * (place[d] % 2)) << d).sum()
}

/// Returns the coarse point at or below a point in every direction.
fn below(place: [usize; 3], coarsened: Coarsened) -> [usize; 3] {
    [0, 1, 2].map(|d| if coarsened[d] { place[d] / 2 } else { place[d] })
}

/// Calls `f(p, coarse, weight)` for each point and each coarse point that interpolates to it.
pub fn each_weight(weights: &[Weights], size: [usize; 3], coarsened: Coarsened, mut f: impl FnMut(usize, usize, f64)) {
    let coarse = coarse_size(size, coarsened);
    for (p, weights) in weights.iter().enumerate() {
        let lowest = below(place(size, p), coarsened);
        for (t, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            f(p, index(coarse, [0, 1, 2].map(|d| lowest[d] + (t >> d & 1))), weight);
        }
    }
}

/// Computes the interpolation weights: first of coarse points, then of points on edges and faces, and finally of
/// centres of cubes.
pub fn weights(a: &Stencil, coarsened: Coarsened) -> Vec<Weights> {
    let mut weights = vec![[0.0; 8]; a.row_sums.len()];
    for order in 0..=3 {
        for p in 0..weights.len() {
            let of_p = type_of(place(a.size, p), coarsened);
            if of_p.count_ones() == order {
                weights[p] =
                    if order == 0 { [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0] } else { row(a, p, of_p, &weights) };
            }
        }
    }
    weights
}

/// Computes the weights of point p of type `of_p` from those of points with fewer odd indices.
fn row(a: &Stencil, p: usize, of_p: usize, weights: &[Weights]) -> Weights {
    let (mut row, mut sum) = ([0.0; 8], 0.0);
    a.each(p, |offset, _, c| {
        let part: Offset = [0, 1, 2].map(|d| if of_p >> d & 1 == 1 { offset[d] } else { 0 });
        if part != [0; 3] {
            sum += c;
            let side: usize = (0..3).map(|d| usize::from(part[d] > 0) << d).sum();
            let other = &weights[p.wrapping_add_signed(a.step(part))];
            // If the part is nonzero in direction d, the other point has an even index there. Bit d of its weights is
            // then unused.
            (0..8).filter(|t| t & side == 0).for_each(|t| row[t | side] += c * other[t]);
        }
    });
    // Single couplings of a 27-point stencil can be negative. If the sum of the couplings towards coarse points is not
    // positive, no point interpolates to p.
    if sum > 0.0 { row.map(|w| w / (sum + a.row_sums[p])) } else { [0.0; 8] }
}

/// Computes the Galerkin product P^T A P with 27 points. Each pair of neighbouring fine points p, q is in one closed
/// cube between 8 coarse points. It adds c (P_p - P_q)(P_p - P_q)^T to the matrix of this cube. A row sum g adds g P_p
/// P_p^T.
pub fn product(a: &Stencil, weights: &[Weights], coarsened: Coarsened) -> Stencil {
    let size = coarse_size(a.size, coarsened);
    let near = |o: &usize| [o % 3, o / 3 % 3, o / 9].map(|o| o as isize - 1);
    let upper: Vec<Offset> = (14..27).map(|o| near(&o)).collect();
    let (mut coarse, mut diagonal) = (Stencil::zeroed(size, upper), vec![0.0; size.iter().product()]);
    for p in 0..weights.len() {
        let here = place(a.size, p);
        add(&mut coarse, &mut diagonal, below(here, coarsened), &weights[p], a.row_sums[p]);
        for (c, &offset) in a.c.iter().zip(&a.offsets).filter(|(c, _)| c[p] != 0.0) {
            let there = [0, 1, 2].map(|d| here[d].wrapping_add_signed(offset[d]));
            let q = p.wrapping_add_signed(a.step(offset));
            let cube = below([0, 1, 2].map(|d| here[d].min(there[d])), coarsened);
            let at_p = in_cube(&weights[p], here, cube, coarsened);
            let at_q = in_cube(&weights[q], there, cube, coarsened);
            add(&mut coarse, &mut diagonal, cube, &std::array::from_fn(|t| at_p[t] - at_q[t]), c[p]);
        }
    }
    for (p, diagonal) in diagonal.iter().enumerate() {
        coarse.row_sums[p] = rounded_row_sum(*diagonal, coarse.sums(p)[0]);
    }
    coarse
}

/// Returns the weights of the corners of a cube in the interpolation to a point of this cube.
fn in_cube(weights: &Weights, place: [usize; 3], cube: [usize; 3], coarsened: Coarsened) -> Weights {
    let side: usize = (0..3).map(|d| usize::from(below(place, coarsened)[d] > cube[d]) << d).sum();
    let mut of = [0.0; 8];
    (0..8).filter(|t| t & side == 0).for_each(|t| of[t | side] = weights[t]);
    of
}

/// Adds c v v^T on the corners of a cube.
fn add(coarse: &mut Stencil, diagonal: &mut [f64], cube: [usize; 3], v: &Weights, c: f64) {
    if c == 0.0 {
        return;
    }
    let size = coarse.size;
    let corner = |t: usize| index(size, [0, 1, 2].map(|d| cube[d] + (t >> d & 1)));
    for first in (0..8).filter(|&t| v[t] != 0.0) {
        diagonal[corner(first)] += c * v[first] * v[first];
        for second in (first + 1..8).filter(|&t| v[t] != 0.0) {
            let bit = |t: usize, d: usize| (t >> d & 1) as isize;
            let [x, y, z] = [0, 1, 2].map(|d| bit(second, d) - bit(first, d));
            coarse.c[(9 * z + 3 * y + x - 1) as usize][corner(first)] -= c * v[first] * v[second];
        }
    }
}
