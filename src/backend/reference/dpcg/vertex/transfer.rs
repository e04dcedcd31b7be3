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

use super::stencil::{CUBE, HIERARCHY, Offset, Stencil, excess};
use crate::error::{Result, zeroed};
use crate::grid::cells::Cells;
use crate::runtime::number::Real;

pub use crate::options::limits::SEMI;

/// Interpolation weights of a point by coarse point. Bit d of the index selects the lower or upper coarse point in
/// direction d; it is 0 if the point's index in direction d is even.
pub type Weights = [f64; 8];

/// Whether each direction is coarsened.
pub type Coarsened = [bool; 3];

/// Returns, for each direction, the mean over all rows of the couplings in this direction divided by the diagonal.
pub fn strengths<T: Real>(a: &Stencil<T>) -> [f64; 3] {
    let (mut strength, mut rows) = ([0.0; 3], 0.0);
    for p in 0..a.cells.count() {
        let diagonal = a.sums(p)[0] + a.excess[p];
        if diagonal > 0.0 {
            rows += 1.0;
            a.each(p, |offset, _, c| {
                (0..3).filter(|&d| offset[d] != 0).for_each(|d| strength[d] += c / diagonal);
            });
        }
    }
    strength.map(|sum| sum / f64::max(rows, 1.0))
}

/// Returns the directions to coarsen: those of strong couplings, and at least one if any has more than one point.
pub fn directions(cells: Cells, strength: [f64; 3], semi: f64) -> Coarsened {
    let largest = strength.into_iter().fold(0.0, f64::max);
    let long = cells.size().map(|n| n > 1);
    let strong = [0, 1, 2].map(|d| long[d] && semi * strength[d] >= largest);
    if strong.contains(&true) { strong } else { long }
}

/// Returns the extents of the coarse grid.
pub fn coarse_cells(cells: Cells, coarsened: Coarsened) -> Cells {
    let [nx, ny, nz] = [0, 1, 2].map(|d| if coarsened[d] { cells.size()[d].div_ceil(2) } else { cells.size()[d] });
    Cells { nx, ny, nz }
}

/// Returns the type of a point: bit d is set for an odd index in coarsened direction d.
pub fn type_of(place: [usize; 3], coarsened: Coarsened) -> usize {
    (0..3).map(|d| (usize::from(coarsened[d]) * (place[d] % 2)) << d).sum()
}

/// Returns the coarse point at or below a point in every direction.
pub fn below(place: [usize; 3], coarsened: Coarsened) -> [usize; 3] {
    [0, 1, 2].map(|d| if coarsened[d] { place[d] / 2 } else { place[d] })
}

/// Computes the interpolation weights: first of coarse points, then on edges and faces, finally in centres of cubes.
pub fn weights<T: Real>(a: &Stencil<T>, coarsened: Coarsened) -> Result<Vec<Weights>> {
    let mut weights: Vec<Weights> = zeroed(a.cells.count(), HIERARCHY)?;
    for order in 0..=3 {
        for p in 0..weights.len() {
            let of_p = type_of(a.cells.place(p), coarsened);
            if of_p.count_ones() == order {
                weights[p] =
                    if order == 0 { [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0] } else { row(a, p, of_p, &weights) };
            }
        }
    }
    Ok(weights)
}

/// Computes the weights of point p of type `of_p` from those of points with fewer odd indices.
fn row<T: Real>(a: &Stencil<T>, p: usize, of_p: usize, weights: &[Weights]) -> Weights {
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
    if sum > 0.0 { row.map(|w| w / (sum + a.excess[p])) } else { [0.0; 8] }
}

/// Computes the Galerkin product P^T A P with 27 points. Each pair of neighbouring fine points p, q is in one closed
/// cube between 8 coarse points. It adds c (P_p - P_q)(P_p - P_q)^T to the matrix of this cube. A row sum g adds g P_p
/// P_p^T.
pub fn product<T: Real>(a: &Stencil<T>, weights: &[Weights], coarsened: Coarsened) -> Result<Stencil<T>> {
    let cells = coarse_cells(a.cells, coarsened);
    let mut coarse = Accumulated { exact: Stencil::zeroed(cells, &CUBE)?, diagonal: zeroed(cells.count(), HIERARCHY)? };
    for p in 0..weights.len() {
        let here = a.cells.place(p);
        coarse.add(below(here, coarsened), &weights[p], a.excess[p]);
        for (k, &offset) in a.offsets.iter().enumerate() {
            let c = a.c[k * weights.len() + p].wide();
            if c == 0.0 {
                continue;
            }
            let there = [0, 1, 2].map(|d| here[d].wrapping_add_signed(offset[d]));
            let q = p.wrapping_add_signed(a.step(offset));
            let cube = below([0, 1, 2].map(|d| here[d].min(there[d])), coarsened);
            let at_p = in_cube(&weights[p], here, cube, coarsened);
            let at_q = in_cube(&weights[q], there, cube, coarsened);
            coarse.add(cube, &std::array::from_fn(|t| at_p[t] - at_q[t]), c);
        }
    }
    coarse.rounded()
}

/// Returns the weights of the corners of a cube in the interpolation to a point of this cube.
fn in_cube(weights: &Weights, place: [usize; 3], cube: [usize; 3], coarsened: Coarsened) -> Weights {
    let side: usize = (0..3).map(|d| usize::from(below(place, coarsened)[d] > cube[d]) << d).sum();
    let mut of = [0.0; 8];
    (0..8).filter(|t| t & side == 0).for_each(|t| of[t | side] = weights[t]);
    of
}

/// A coarse matrix before rounding.
struct Accumulated {
    exact: Stencil<f64>,
    diagonal: Vec<f64>,
}

impl Accumulated {
    /// Adds c v v^T on the corners of a cube.
    fn add(&mut self, cube: [usize; 3], v: &Weights, c: f64) {
        if c == 0.0 {
            return;
        }
        let ([sx, sy, sz], n) = (self.exact.cells.steps(), self.exact.cells.count());
        let corner = |t: usize| (cube[0] + (t & 1)) * sx + (cube[1] + (t >> 1 & 1)) * sy + (cube[2] + (t >> 2)) * sz;
        for first in (0..8).filter(|&t| v[t] != 0.0) {
            self.diagonal[corner(first)] += c * v[first] * v[first];
            for second in (first + 1..8).filter(|&t| v[t] != 0.0) {
                let bit = |t: usize, d: usize| (t >> d & 1) as isize;
                let offset = [0, 1, 2].map(|d| bit(second, d) - bit(first, d));
                self.exact.c[upper(offset) * n + corner(first)] -= c * v[first] * v[second];
            }
        }
    }

    fn rounded<T: Real>(&self) -> Result<Stencil<T>> {
        let mut coarse = Stencil::zeroed(self.exact.cells, &CUBE)?;
        coarse.c.iter_mut().zip(&self.exact.c).for_each(|(c, exact)| *c = T::narrow(*exact));
        for (p, diagonal) in self.diagonal.iter().enumerate() {
            coarse.excess[p] = excess(*diagonal, self.exact.sums(p)[0]);
        }
        Ok(coarse)
    }
}

/// Returns the number of an offset in `CUBE`.
pub fn upper(offset: Offset) -> usize {
    (9 * offset[2] + 3 * offset[1] + offset[0] - 1) as usize
}
