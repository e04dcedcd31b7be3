//! The Galerkin product by rows of cubes, eight cubes at a time (see the reference for the formula).
//!
//! A coarse plane gets from the cubes above it all that couples it to the next plane, and half of what is within it; the other
//! half comes from the cubes below, which a member computes again where those are not its own: so every number is the same sum
//! of two, whoever makes it.

use super::grid::Stencil;
use super::layout::Offset;
use super::transfer::Weights;
use super::weights::{LANES, Lane, add_lane, add_product, lane};
use crate::backend::reference::dpcg::vertex::transfer::upper;
use crate::error::{Result, push};
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;

/// For errors.
const CUBES: &str = "the cubes of a Galerkin product";

/// Couplings of a coarse point: four within its plane, then nine to the next one, then the row sum.
const ENTRIES: usize = 14;
const BESIDE: usize = 4;
const ROW_SUM: usize = 13;

/// Weights in single precision whose sum is so close to one summed to one before they were rounded.
const NEAR_ONE: f64 = 2e-6;

/// A pair of fine neighbours in a cube: points by number, x + 3 y + 9 z, and the corners that differ between them.
struct Edge {
    offset: usize,
    /// The lower point of the offset.
    from: [usize; 3],
    points: [usize; 2],
    /// The largest indices in y and z: absent where those are beyond the grid.
    last: [usize; 2],
    corners: Corners,
}

#[derive(Clone, Copy, Default)]
struct Corners {
    list: [u8; 8],
    len: usize,
}

/// A cube of 27 fine points, its corners the coarse ones.
pub struct Cube {
    edges: Vec<Edge>,
    /// By point: corners with weights.
    corners: [Corners; 27],
}

fn point(place: [usize; 3]) -> usize {
    place[0] + 3 * place[1] + 9 * place[2]
}

fn place(point: usize) -> [usize; 3] {
    [point % 3, point / 3 % 3, point / 9]
}

fn corners_of(points: &[usize]) -> Corners {
    let mut corners = Corners::default();
    for t in 0..8_usize {
        let near = |p: usize| (0..3).all(|d| place(p)[d].abs_diff(2 * (t >> d & 1)) <= 1);
        if points.iter().any(|&p| near(p)) {
            corners.list[corners.len] = t as u8;
            corners.len += 1;
        }
    }
    corners
}

impl Cube {
    /// For a fine stencil.
    pub fn new(offsets: &[Offset]) -> Result<Self> {
        let mut edges = Vec::new();
        for (number, offset) in offsets.iter().enumerate() {
            for lowest in 0..8_usize {
                let at = |d: usize, side: isize| (lowest >> d & 1) + usize::from(side > 0);
                let from = [0, 1, 2].map(|d| at(d, -offset[d]));
                let to = [0, 1, 2].map(|d| at(d, offset[d]));
                let points = [point(from), point(to)];
                let last = [1, 2].map(|d| from[d].max(to[d]));
                push(&mut edges, Edge { offset: number, from, points, last, corners: corners_of(&points) }, CUBES)?;
            }
        }
        Ok(Self { edges, corners: std::array::from_fn(|p| corners_of(&[p])) })
    }
}

/// A member's sums of two coarse planes: `ENTRIES` of the lower one, those within it and row sums of the upper one.
pub struct Sums {
    values: Shared,
    plane: usize,
}

impl Sums {
    /// Room for planes of so many points.
    pub fn new(plane: usize) -> Result<Self> {
        Ok(Self { values: Shared::zeroed(3 * ENTRIES * plane)?, plane })
    }

    /// A plane of an entry: `which` is 0 for the lower coarse plane, 1 for the upper, 2 for what the cubes below have left.
    fn place(&self, which: usize, entry: usize) -> usize {
        (which * ENTRIES + entry) * self.plane
    }

    /// All of it, for other work.
    ///
    /// # Safety
    /// By the member that has it, one at a time.
    #[expect(clippy::mut_from_ref, reason = "of one member")]
    pub unsafe fn room(&self) -> &mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(0, self.values.len()) }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Rows of weights and conductances of a row of cubes.
struct Cubes<'a, T> {
    cube: &'a Cube,
    /// By point and corner, as they are listed.
    weights: [[Option<&'a [T]>; 8]; 27],
    /// By edge; none where it leaves the grid.
    c: [&'a [T]; 104],
    /// By fine point at or above a corner in every direction.
    excess: [Option<&'a [T]>; 8],
}

/// What eight cubes add: by pair of corners, and row sums.
pub struct Added {
    pairs: [[Lane; 8]; 8],
    rows: [Lane; 8],
}

/// What is compiled for several instruction sets.
pub trait Work {
    fn add(&self, added: &mut Added, at: usize, n: usize);
}

for_each_isa! {
    /// What n cubes from `at` on add.
    fn add_cubes<R: Work>(cubes: &R, added: &mut Added, at: usize, n: usize) {
        cubes.add(added, at, n);
    }
}

impl<T: Real> Cubes<'_, T> {
    /// Weights of a point. Rounded ones of a point whose weights sum to one are brought back to that: the rows of strong
    /// couplings would not sum to zero otherwise.
    #[inline(always)]
    fn weights(&self, p: usize, at: usize, n: usize, of: &mut [Lane; 8]) {
        let corners = &self.cube.corners[p];
        let mut sum = [0.0; LANES];
        for (t, row) in corners.list[..corners.len].iter().zip(&self.weights[p]) {
            let weight = match row {
                Some(row) => lane(row, at, n),
                None => [1.0; LANES],
            };
            of[*t as usize] = weight;
            add_lane(&mut sum, &weight);
        }
        if size_of::<T>() < size_of::<f64>() && corners.len > 1 {
            let mut factor = [1.0; LANES];
            for l in 0..LANES {
                // 1 / sum to second order.
                factor[l] = if (sum[l] - 1.0).abs() <= NEAR_ONE { 2.0 - sum[l] } else { 1.0 };
            }
            for t in &corners.list[..corners.len] {
                let weight = &mut of[*t as usize];
                for l in 0..LANES {
                    weight[l] *= factor[l];
                }
            }
        }
    }
}

impl<T: Real> Work for Cubes<'_, T> {
    #[inline(always)]
    fn add(&self, added: &mut Added, at: usize, n: usize) {
        let mut weights = [[[0.0; LANES]; 8]; 27];
        for p in 0..27 {
            self.weights(p, at, n, &mut weights[p]);
        }
        *added = Added { pairs: [[[0.0; LANES]; 8]; 8], rows: [[0.0; LANES]; 8] };
        for (edge, c) in self.cube.edges.iter().zip(&self.c) {
            if c.is_empty() {
                continue;
            }
            let c = lane(c, at, n);
            let corners = &edge.corners.list[..edge.corners.len];
            let (from, to) = (&weights[edge.points[0]], &weights[edge.points[1]]);
            let (mut v, mut scaled, mut sum) = ([[0.0; LANES]; 8], [[0.0; LANES]; 8], [0.0; LANES]);
            for (q, t) in corners.iter().enumerate() {
                let t = *t as usize;
                for l in 0..LANES {
                    v[q][l] = from[t][l] - to[t][l];
                    scaled[q][l] = -c[l] * v[q][l];
                    sum[l] -= v[q][l];
                }
            }
            for first in 0..corners.len() {
                let t = corners[first] as usize;
                add_product(&mut added.rows[t], &scaled[first], &sum);
                let row = &mut added.pairs[t];
                for second in first + 1..corners.len() {
                    add_product(&mut row[corners[second] as usize], &scaled[first], &v[second]);
                }
            }
        }
        for (s, excess) in self.excess.iter().enumerate() {
            if let Some(excess) = excess {
                let of = &weights[point([s & 1, s >> 1 & 1, s >> 2])];
                add_excess(added, of, &lane(excess, at, n));
            }
        }
    }
}

/// g P P'.
#[inline(always)]
fn add_excess(added: &mut Added, weights: &[Lane; 8], excess: &Lane) {
    let mut sum = [0.0; LANES];
    for weight in weights {
        add_lane(&mut sum, weight);
    }
    for first in 0..8 {
        let mut scaled = [0.0; LANES];
        add_product(&mut scaled, excess, &weights[first]);
        add_product(&mut added.rows[first], &scaled, &sum);
        for second in first + 1..8 {
            for l in 0..LANES {
                added.pairs[first][second][l] -= scaled[l] * weights[second][l];
            }
        }
    }
}

/// The matrix of the next grid, in the planes that are this member's. Row sums are as they are, rounding included.
pub fn make<T: Real + Number>(
    me: Me,
    cube: &Cube,
    fine: &Stencil<T>,
    weights: &Weights<T>,
    sums: &Sums,
    to: &Stencil<T>,
    has_excess: bool,
) {
    let share = me.share(to.split.cells.nz);
    if share.is_empty() {
        return;
    }
    // SAFETY: of this member.
    unsafe { sums.values.clear() };
    for k in share.start.saturating_sub(1)..share.end {
        for j in 0..to.split.cells.ny {
            add_row(cube, fine, weights, sums, [j, k], has_excess);
        }
        if k >= share.start {
            store(sums, to, weights, k);
        }
        for entry in 0..ENTRIES {
            // SAFETY: of this member.
            unsafe {
                let n = weights.coarse.plane;
                let up = sums.values.slice_mut(sums.place(1, entry), n);
                sums.values.slice_mut(sums.place(2, entry), n).copy_from_slice(up);
                up.fill(0.0);
                sums.values.slice_mut(sums.place(0, entry), n).fill(0.0);
            }
        }
    }
}

/// Adds what a row of cubes has to the sums.
fn add_row<T: Real + Number>(
    cube: &Cube,
    fine: &Stencil<T>,
    weights: &Weights<T>,
    sums: &Sums,
    [j, k]: [usize; 2],
    has_excess: bool,
) {
    let (split, coarse) = (&fine.split, &weights.coarse);
    let n = coarse.cells.nx;
    let mut of = Cubes { cube, weights: [[None; 8]; 27], c: [&[]; 104], excess: [None; 8] };
    for (p, corners) in cube.corners.iter().enumerate() {
        for (row, t) in of.weights[p].iter_mut().zip(&corners.list[..corners.len]) {
            let t = *t as usize;
            let offset = [0, 1, 2].map(|d| place(p)[d] as isize - 2 * (t >> d & 1) as isize);
            let start = coarse.at(j + (t >> 1 & 1), k + (t >> 2)) + (t & 1);
            // SAFETY: nobody writes weights in this step.
            *row = (offset != [0; 3]).then(|| unsafe { weights.of(offset).slice(start, n) });
        }
    }
    let inside = |y: usize, z: usize| 2 * j + y < split.cells.ny && 2 * k + z < split.cells.nz;
    let row = |x: usize, y: usize, z: usize| split.at(x % 2, (2 * j + y) as isize, (2 * k + z) as isize) + x / 2;
    for (c, edge) in of.c.iter_mut().zip(&cube.edges) {
        if inside(edge.last[0], edge.last[1]) {
            let [x, y, z] = edge.from;
            // SAFETY: nobody writes the matrix in this step.
            *c = unsafe { fine.c.slice(edge.offset * split.len() + row(x, y, z), n) };
        }
    }
    for (s, excess) in of.excess.iter_mut().enumerate() {
        let [x, y, z] = [s & 1, s >> 1 & 1, s >> 2];
        // SAFETY: as above.
        *excess = (has_excess && inside(y, z)).then(|| unsafe { fine.excess.slice(row(x, y, z), n) });
    }
    let mut added = Added { pairs: [[[0.0; LANES]; 8]; 8], rows: [[0.0; LANES]; 8] };
    for at in (0..n).step_by(LANES) {
        let lanes = LANES.min(n - at);
        add_cubes(&of, &mut added, at, lanes);
        for first in 0..8_usize {
            let start = |t: usize| (j + (t >> 1 & 1)) * coarse.row + at + (t & 1);
            let add = |which: usize, entry: usize, lane: &Lane| {
                // SAFETY: of this member.
                let sums = unsafe { sums.values.slice_mut(sums.place(which, entry) + start(first), lanes) };
                sums.iter_mut().zip(lane).for_each(|(sum, added)| *sum += added);
            };
            let which = first >> 2;
            add(which, ROW_SUM, &added.rows[first]);
            for second in first + 1..8 {
                let bit = |t: usize, d: usize| (t >> d & 1) as isize;
                let entry = upper([0, 1, 2].map(|d| bit(second, d) - bit(first, d)));
                add(which, entry, &added.pairs[first][second]);
            }
        }
    }
}

/// Rounds a plane.
fn store<T: Real + Number>(sums: &Sums, to: &Stencil<T>, weights: &Weights<T>, k: usize) {
    let nx = to.split.cells.nx;
    for entry in 0..ENTRIES {
        let beside = entry < BESIDE || entry == ROW_SUM;
        for j in 0..to.split.cells.ny {
            let start = j * weights.coarse.row;
            // SAFETY: of this member.
            let (above, below) = unsafe {
                let of = |which| sums.values.slice(sums.place(which, entry) + start, nx);
                (of(0), of(2))
            };
            for half in 0..2 {
                let place = to.split.at(half, j as isize, k as isize);
                let n = to.split.points(half);
                // SAFETY: a plane of this member.
                let out = unsafe {
                    if entry == ROW_SUM {
                        to.excess.slice_mut(place, n)
                    } else {
                        to.c.slice_mut(entry * to.split.len() + place, n)
                    }
                };
                for (m, out) in out.iter_mut().enumerate() {
                    let i = 2 * m + half;
                    *out = T::narrow(if beside { above[i] + below[i] } else { above[i] });
                }
            }
        }
    }
}
