//! Galerkin product P^T A P. A cube is the region between 8 coarse points. Rows of cubes are processed one after the
//! other, and the cubes of a row eight at a time. Each pair of neighbouring fine points p, q belongs to one cube. A
//! pair with the conductance c adds c (P_p - P_q)(P_p - P_q)^T to the matrix of its cube, where P_p is row p of P. A
//! row sum g at p adds g P_p P_p^T.
//!
//! The cubes between a coarse plane and the next one determine all couplings between the two planes. Each entry within
//! a plane is the sum of a term from the cubes above the plane and a term from the cubes below it. If the cubes below
//! belong to another thread, both threads compute them. Each entry is therefore the same sum for any number of threads.

use super::grid::Stencil;
use super::layout::Coarse;
use super::loops::split as split_row;
use super::transfer::Weights;
use super::weights::{LANES, Lane, add_lane, add_product, difference, lane, minus_product};
use crate::base::isa::for_each_isa;
use crate::base::loops::add;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::{Result, push};
use crate::stencil::coarsening::Offset;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "the cubes of a Galerkin product";

/// Number of entries stored per coarse point: 4 couplings within the plane, 9 couplings to the next plane, and the row
/// sum.
const ENTRIES: usize = 14;
const IN_PLANE_ENTRIES: usize = 4;
const ROW_SUM: usize = 13;

/// Tolerance for each number type, which is given by its size in bytes. A sum of rounded weights counts as 1 if it
/// differs from 1 by at most the tolerance.
const NEAR_ONE: [(usize, f64); 2] = [(4, 2e-6), (8, 1e-12)];

/// A pair of neighbouring fine points in a cube. Points are numbered x + 3 y + 9 z. In a direction that is not
/// coarsened, a fine point has the coordinate 0 or 2.
struct Edge {
    /// Number of the offset in the fine stencil.
    offset: usize,
    /// The lower point of the pair.
    from: [usize; 3],
    /// Numbers of the two points.
    points: [usize; 2],
    /// The larger coordinate of the pair in y and in z. If it is outside the grid, the pair does not exist.
    last: [usize; 2],
    /// The coarse edge, face or cube that contains the pair: its lowest corner and its directions, as bits.
    within: [usize; 2],
}

impl Edge {
    fn new(offset: usize, from: [usize; 3], to: [usize; 3]) -> Self {
        let (mut lowest, mut extends) = (0, 0);
        for d in 0..3 {
            match (from[d], to[d]) {
                (0, 0) => {}
                (2, 2) => lowest |= 1 << d,
                _ => extends |= 1 << d,
            }
        }
        let last = [1, 2].map(|d| from[d].max(to[d]));
        Self { offset, from, points: [point(from), point(to)], last, within: [lowest, extends] }
    }
}

/// The pairs within a coarse edge, face or cube, as a range of `Cube::edges`.
struct Group {
    within: [usize; 2],
    edges: Range<usize>,
}

impl Group {
    /// Returns the N corners of the coarse edge, face or cube.
    #[inline(always)]
    fn corners<const N: usize>(&self) -> [usize; N] {
        let [lowest, extends] = self.within;
        let (mut corners, mut n) = ([0; N], 0);
        for t in 0..8 {
            if t & !extends == lowest && n < N {
                corners[n] = t;
                n += 1;
            }
        }
        corners
    }
}

/// A list of corners of a cube. Bit d of the number of a corner is its index in direction d.
#[derive(Clone, Copy, Default)]
struct Corners {
    list: [u8; 8],
    len: usize,
}

/// A cube of 27 fine points, whose 8 corners are coarse points.
pub struct Cube {
    edges: Vec<Edge>,
    groups: Vec<Group>,
    /// For each fine point, the corners from which it is interpolated.
    corners: [Corners; 27],
}

fn point(coordinates: [usize; 3]) -> usize {
    coordinates[0] + 3 * coordinates[1] + 9 * coordinates[2]
}

fn coordinates(point: usize) -> [usize; 3] {
    [point % 3, point / 3 % 3, point / 9]
}

/// Returns the corners from which a point is interpolated.
fn corners_of(p: usize) -> Corners {
    let mut corners = Corners::default();
    for t in 0..8_usize {
        if (0..3).all(|d| coordinates(p)[d].abs_diff(2 * (t >> d & 1)) <= 1) {
            corners.list[corners.len] = t as u8;
            corners.len += 1;
        }
    }
    corners
}

/// Returns whether a fine point belongs to a cube. Bit d of `t` is the index of the point in direction d, relative to
/// the lowest corner of the cube. In a direction that is not coarsened, a point with index 1 belongs to the next cube.
fn exists(t: usize, ratio: [usize; 3]) -> bool {
    (0..3).all(|d| t >> d & 1 == 0 || ratio[d] == 2)
}

/// Returns the index of an offset in the list `CUBE` of upper offsets.
fn upper(offset: Offset) -> usize {
    (9 * offset[2] + 3 * offset[1] + offset[0] - 1) as usize
}

impl Cube {
    /// Computes the index tables for a fine stencil.
    pub fn new(offsets: &[Offset], ratio: [usize; 3]) -> Result<Self> {
        let mut edges: Vec<Edge> = Vec::new();
        for (number, offset) in offsets.iter().enumerate() {
            for lowest in (0..8).filter(|&t| exists(t, ratio)) {
                let at = |d: usize, side: isize| (lowest >> d & 1) + usize::from(side > 0) * (3 - ratio[d]);
                let from = [0, 1, 2].map(|d| at(d, -offset[d]));
                let to = [0, 1, 2].map(|d| at(d, offset[d]));
                push(&mut edges, Edge::new(number, from, to), WHAT)?;
            }
        }
        edges.sort_unstable_by_key(|edge| (edge.within, edge.offset, edge.from));
        let mut groups: Vec<Group> = Vec::new();
        for (number, edge) in edges.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if group.within == edge.within => group.edges.end = number + 1,
                _ => push(&mut groups, Group { within: edge.within, edges: number..number + 1 }, WHAT)?,
            }
        }
        Ok(Self { edges, groups, corners: std::array::from_fn(corners_of) })
    }
}

/// Number of rows of sums: `ENTRIES` for each of the four coarse rows that bound a row of cubes, two in each of two
/// planes.
const SUM_ROWS: usize = 4 * ENTRIES;

/// Sums of a thread: the contributions of the current row of cubes to the adjacent coarse rows, and the contributions
/// of the cubes below a coarse plane to the entries within this plane. A coarse row is complete after the contributions
/// of the next row of cubes have been added.
pub struct Sums {
    values: Shared,
    row: usize,
    plane: usize,
}

impl Sums {
    /// Allocates the sums for a coarse grid.
    pub fn new(coarse: &Coarse) -> Result<Self> {
        let mut sums = Self { values: Shared::zeroed(0)?, row: 0, plane: 0 };
        sums.fit(coarse)?;
        Ok(sums)
    }

    /// Prepares the sums for another coarse grid. Allocates memory only if it does not suffice.
    pub fn fit(&mut self, coarse: &Coarse) -> Result<()> {
        self.row = coarse.row << usize::from(coarse.is_split());
        self.plane = self.row * (coarse.cells.ny + 1);
        // `load` uses the memory as workspace for three rows of cells, which always fit.
        let len = SUM_ROWS * self.row + (IN_PLANE_ENTRIES + 1) * self.plane;
        if self.values.len() < len {
            self.values = Shared::zeroed(len)?;
        }
        Ok(())
    }

    /// Returns the index of an entry of coarse row j in the lower (0) or the upper (1) plane.
    fn row(&self, which: usize, entry: usize, j: usize) -> usize {
        ((2 * which + j % 2) * ENTRIES + entry) * self.row
    }

    /// Returns the index of the contribution of the cubes below to an entry of coarse row j.
    fn below(&self, entry: usize, j: usize) -> usize {
        SUM_ROWS * self.row + entry.min(IN_PLANE_ENTRIES) * self.plane + j * self.row
    }

    /// Returns all memory, as workspace for other purposes.
    ///
    /// # Safety
    /// Only the thread that owns these sums may call this function. Only one slice that it returns may be in use.
    #[expect(clippy::mut_from_ref, reason = "of one thread")]
    pub unsafe fn all_values(&self) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(0, self.values.len()) }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Weights and conductances of a row of cubes.
struct Cubes<'a, T> {
    cube: &'a Cube,
    /// Weights by fine point and corner, in the order of `Cube::corners`; `None` for the weight one.
    weights: [[Option<&'a [T]>; 8]; 27],
    /// Conductances in the order of `Cube::edges`; empty outside the grid.
    c: [&'a [T]; 104],
    /// Row sums of the fine points of a cube: the 8 points whose index in each direction is that of the lowest corner,
    /// or larger by one. `None` for zero.
    row_sums: [Option<&'a [T]>; 8],
    /// Sums to which the contributions are added.
    to: &'a Shared,
    /// For each pair of corners, the index of the sum for the first cube; on the diagonal, the index of the row sum.
    sum_indices: [[usize; 8]; 8],
}

/// Number of pairs whose differences are buffered together, so that the buffers fit into the first-level cache.
const PAIRS_PER_BUFFER: usize = 8;

/// Contributions of eight cubes, and intermediate results. They are aligned to cache lines, because access to a lane in
/// two cache lines takes twice as long.
#[repr(align(64))]
pub struct CubeContributions {
    /// Contributions to the couplings between two corners. The first index is the lower corner.
    couplings: [[Lane; 8]; 8],
    /// Contributions to the row sums.
    row_sums: [Lane; 8],
    /// Weights by fine point and corner; zero for corners from which the point is not interpolated. `totals` contains
    /// the sum of the weights of each point.
    weights: [[Lane; 8]; 27],
    totals: [Lane; 27],
    /// Differences P_p - P_q between the weights of the two points of a pair, by pair and corner. `c` contains the
    /// conductances of the pairs.
    differences: [[Lane; 8]; PAIRS_PER_BUFFER],
    c: [Lane; PAIRS_PER_BUFFER],
}

impl CubeContributions {
    fn new() -> Self {
        let zeros = [[0.0; LANES]; 8];
        Self {
            couplings: [zeros; 8],
            row_sums: zeros,
            weights: [zeros; 27],
            totals: [[0.0; LANES]; 27],
            differences: [zeros; PAIRS_PER_BUFFER],
            c: [[0.0; LANES]; PAIRS_PER_BUFFER],
        }
    }
}

/// Computation that is compiled for several instruction sets.
pub trait Work {
    fn add(&self, added: &mut CubeContributions, at: usize, n: usize);
}

for_each_isa! {
    /// Computes the contributions of n cubes from index `at` on.
    fn add_cubes<R: Work>(cubes: &R, added: &mut CubeContributions, at: usize, n: usize) {
        cubes.add(added, at, n);
    }
}

impl<T: Real> Cubes<'_, T> {
    /// Computes the weights of a point, and their sum. If the weights sum to one up to rounding, the sum is set to
    /// exactly one; in single precision, the weights are also corrected. Without this correction, strong couplings
    /// would lead to nonzero row sums.
    #[inline(always)]
    fn weights(&self, p: usize, at: usize, n: usize, of: &mut [Lane; 8], total: &mut Lane) {
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
        let near_one = if size_of::<T>() == NEAR_ONE[0].0 { NEAR_ONE[0].1 } else { NEAR_ONE[1].1 };
        let mut factor = [1.0; LANES];
        for l in 0..LANES {
            let near = (sum[l] - 1.0).abs() <= near_one;
            // If sum is near 1, 2 - sum approximates 1 / sum with an error of about (sum - 1)^2.
            factor[l] = if near { 2.0 - sum[l] } else { 1.0 };
            total[l] = if near { 1.0 } else { sum[l] };
        }
        if size_of::<T>() == NEAR_ONE[0].0 && corners.len > 1 {
            for t in &corners.list[..corners.len] {
                let weight = &mut of[*t as usize];
                for l in 0..LANES {
                    weight[l] *= factor[l];
                }
            }
        }
    }
}

impl<T: Real> Cubes<'_, T> {
    /// Computes sum of c (P_p - P_q)(P_p - P_q)^T over the pairs of a group, for its N corners.
    #[inline(always)]
    fn add_group<const N: usize>(&self, group: &Group, added: &mut CubeContributions, at: usize, n: usize) {
        let corners: [usize; N] = group.corners();
        let mut first = group.edges.start;
        while first < group.edges.end {
            let last = group.edges.end.min(first + PAIRS_PER_BUFFER);
            let mut count = 0;
            for number in first..last {
                let c = self.c[number];
                if !c.is_empty() {
                    let [p, q] = self.cube.edges[number].points;
                    added.c[count] = lane(c, at, n);
                    let v = &mut added.differences[count];
                    for (v, &t) in v.iter_mut().zip(&corners) {
                        *v = difference(&added.weights[p][t], &added.weights[q][t]);
                    }
                    let total = [&added.totals[p], &added.totals[q]];
                    if total[0] != total[1] {
                        add_row_sums(&mut added.row_sums, &corners, v, &added.c[count], total);
                    }
                    count += 1;
                }
            }
            add_pairs_of::<N, 0>(added, &corners, count);
            if N > 2 {
                add_pairs_of::<N, 1>(added, &corners, count);
                add_pairs_of::<N, 2>(added, &corners, count);
            }
            if N > 4 {
                add_pairs_of::<N, 3>(added, &corners, count);
                add_pairs_of::<N, 4>(added, &corners, count);
                add_pairs_of::<N, 5>(added, &corners, count);
                add_pairs_of::<N, 6>(added, &corners, count);
            }
            first = last;
        }
    }

    /// Adds the contributions of n cubes to the sums.
    #[inline(always)]
    fn add_to_sums(&self, added: &CubeContributions, at: usize, n: usize) {
        for a in 0..8 {
            for b in a..8 {
                let from = if a == b { &added.row_sums[a] } else { &added.couplings[a][b] };
                // SAFETY: the sums belong to this thread.
                let to = unsafe { self.to.slice_mut(self.sum_indices[a][b] + at, n) };
                if n == LANES {
                    let to = &mut to[..LANES];
                    for l in 0..LANES {
                        to[l] += from[l];
                    }
                } else {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
                }
            }
        }
    }
}

/// Adds -c v_A v_b to the coupling of corners A and b, for each later corner b and for the first `count` pairs of
/// points in the buffers. v is the difference P_p - P_q of a pair, and c is its conductance. A is a constant, so that
/// the loops have a fixed shape and the compiler keeps the sums in registers.
#[inline(always)]
fn add_pairs_of<const N: usize, const A: usize>(added: &mut CubeContributions, corners: &[usize; N], count: usize) {
    let mut row = [[0.0; LANES]; N];
    for (c, v) in added.c.iter().zip(&added.differences).take(count) {
        let scaled = minus_product(c, &v[A]);
        for b in A + 1..N {
            add_product(&mut row[b], &scaled, &v[b]);
        }
    }
    for b in A + 1..N {
        add_lane(&mut added.couplings[corners[A]][corners[b]], &row[b]);
    }
}

/// Adds the row sums of c v v^T with v = P_p - P_q. The sum of the entries of v is the difference of the sums of
/// weights of p and q.
#[inline(always)]
fn add_row_sums<const N: usize>(
    rows: &mut [Lane; 8],
    corners: &[usize; N],
    v: &[Lane; 8],
    c: &Lane,
    total: [&Lane; 2],
) {
    let scaled = minus_product(c, &difference(total[1], total[0]));
    for (&t, v) in corners.iter().zip(v) {
        add_product(&mut rows[t], &scaled, v);
    }
}

impl<T: Real> Work for Cubes<'_, T> {
    #[inline(always)]
    fn add(&self, added: &mut CubeContributions, at: usize, n: usize) {
        // The function is compiled separately for full and for partial lanes.
        if n == LANES { self.add_lanes(added, at, LANES) } else { self.add_lanes(added, at, n) }
    }
}

impl<T: Real> Cubes<'_, T> {
    #[inline(always)]
    fn add_lanes(&self, added: &mut CubeContributions, at: usize, n: usize) {
        for p in 0..27 {
            self.weights(p, at, n, &mut added.weights[p], &mut added.totals[p]);
        }
        for a in 0..8 {
            for b in a + 1..8 {
                added.couplings[a][b] = [0.0; LANES];
            }
        }
        added.row_sums = [[0.0; LANES]; 8];
        for group in &self.cube.groups {
            match group.within[1].count_ones() {
                1 => self.add_group::<2>(group, added, at, n),
                2 => self.add_group::<4>(group, added, at, n),
                _ => self.add_group::<8>(group, added, at, n),
            }
        }
        for (s, row_sums) in self.row_sums.iter().enumerate() {
            if let Some(row_sums) = row_sums {
                add_row_sum_terms(added, point([s & 1, s >> 1 & 1, s >> 2]), &lane(row_sums, at, n));
            }
        }
        self.add_to_sums(added, at, n);
    }
}

/// Adds g P_p P_p^T for point p with row sum g.
#[inline(always)]
fn add_row_sum_terms(added: &mut CubeContributions, p: usize, row_sums: &Lane) {
    let (weights, total) = (&added.weights[p], &added.totals[p]);
    for (a, (couplings, row_sum)) in added.couplings.iter_mut().zip(&mut added.row_sums).enumerate() {
        let minus = minus_product(row_sums, &weights[a]);
        add_lane(row_sum, &minus_product(&minus, total));
        for (coupling, weight) in couplings.iter_mut().zip(weights).skip(a + 1) {
            add_product(coupling, &minus, weight);
        }
    }
}

/// Computes those planes of the next coarser matrix that belong to this thread. If not `has_nonzero_row_sums`, the row
/// sums of the fine matrix are not read. Coarse row sums below the rounding level are not yet set
/// to zero.
pub fn make<T: Real + Number>(
    me: TeamThread,
    cube: &Cube,
    fine: &Stencil<T>,
    weights: &Weights<T>,
    sums: &Sums,
    to: &Stencil<T>,
    has_nonzero_row_sums: bool,
) {
    let share = me.share(to.split.cells.nz);
    if share.is_empty() {
        return;
    }
    // SAFETY: the sums belong to this thread.
    unsafe { sums.values.clear() };
    let mut added = CubeContributions::new();
    for k in share.start.saturating_sub(1)..share.end {
        for j in 0..to.split.cells.ny {
            for half in 0..=usize::from(weights.coarse.is_split()) {
                let of = cubes_of_row(cube, fine, weights, sums, [half, j, k], has_nonzero_row_sums);
                let n = weights.coarse.points(half);
                for at in (0..n).step_by(LANES) {
                    add_cubes(&of, &mut added, at, LANES.min(n - at));
                }
            }
            finish_row(sums, to, &weights.coarse, [j, k], k >= share.start);
        }
        // Clears the sums of the row beyond the last coarse row.
        // SAFETY: the sums belong to this thread.
        unsafe { sums.values.slice_mut(0, SUM_ROWS * sums.row) }.fill(0.0);
    }
}

/// Completes coarse row (j, k), and stores it if `store` is set. Also saves the contributions of the cubes above this
/// coarse plane to the entries within the next coarse plane.
fn finish_row<T: Real + Number>(sums: &Sums, to: &Stencil<T>, coarse: &Coarse, [j, k]: [usize; 2], store: bool) {
    let split = &to.split;
    for entry in 0..ENTRIES {
        // SAFETY: the three rows are different, and the sums belong to this thread.
        let (here, above, below) = unsafe {
            let row = |start| sums.values.slice_mut(start, sums.row);
            (row(sums.row(0, entry, j)), row(sums.row(1, entry, j)), row(sums.below(entry, j)))
        };
        if entry < IN_PLANE_ENTRIES || entry == ROW_SUM {
            add(here, below);
            below.copy_from_slice(above);
        }
        if store {
            let (array, first) = if entry == ROW_SUM { (&to.row_sums, 0) } else { (&to.c, entry * split.len()) };
            // SAFETY: the plane belongs to this thread.
            let half =
                |half| unsafe { array.slice_mut(first + split.at(half, j as isize, k as isize), split.points(half)) };
            if coarse.is_split() {
                for (h, from) in here.chunks_exact(coarse.row).enumerate() {
                    half(h).iter_mut().zip(from).for_each(|(to, from)| *to = T::narrow(*from));
                }
            } else {
                split_row(half(0), half(1), &here[..split.cells.nx], 1.0);
            }
        }
        here.fill(0.0);
        above.fill(0.0);
    }
}

/// Collects the data of a row of cubes. If x is not coarsened, the row consists of those cubes whose lowest corners are
/// the points of one half row.
fn cubes_of_row<'a, T: Real + Number>(
    cube: &'a Cube,
    fine: &'a Stencil<T>,
    weights: &'a Weights<T>,
    sums: &'a Sums,
    [half, j, k]: [usize; 3],
    has_nonzero_row_sums: bool,
) -> Cubes<'a, T> {
    let (split, coarse, ratio) = (&fine.split, &weights.coarse, weights.ratio);
    let n = coarse.points(half);
    let bit = |t: usize, d: usize| t >> d & 1;
    // Returns, for the corners with index x (0 or 1) in their cubes, the half in which they are stored, and the index
    // of the first of them in a row.
    let column = |x: usize| if coarse.is_split() { ((half + x) % 2, (half + x) / 2) } else { (0, x) };
    let sum_indices = std::array::from_fn(|a| {
        std::array::from_fn(|b| {
            let entry = if a < b { upper([0, 1, 2].map(|d| bit(b, d) as isize - bit(a, d) as isize)) } else { ROW_SUM };
            let (half, first) = column(bit(a, 0));
            sums.row(a >> 2, entry, j + bit(a, 1)) + half * coarse.row + first
        })
    });
    let to = &sums.values;
    let mut of = Cubes { cube, weights: [[None; 8]; 27], c: [&[]; 104], row_sums: [None; 8], to, sum_indices };
    for (p, corners) in cube.corners.iter().enumerate() {
        for (row, t) in of.weights[p].iter_mut().zip(&corners.list[..corners.len]) {
            let t = *t as usize;
            let offset = [0, 1, 2].map(|d| coordinates(p)[d] as isize - 2 * (t >> d & 1) as isize);
            let (half, first) = column(t & 1);
            let start = coarse.at(half, j + (t >> 1 & 1), k + (t >> 2)) + first;
            // SAFETY: no thread writes weights in this step.
            *row = weights.has(offset).then(|| unsafe { weights.of(offset).slice(start, n) });
        }
    }
    // The index in direction d of the fine point with coordinate `at` (0 to 2) in the cube with index `of`.
    let index = |d: usize, of: usize, at: usize| ratio[d] * of + at * ratio[d] / 2;
    let inside = |y: usize, z: usize| index(1, j, y) < split.cells.ny && index(2, k, z) < split.cells.nz;
    let row = |x: usize, y: usize, z: usize| {
        let (half, first) = if coarse.is_split() { column(x / 2) } else { (x % 2, x / 2) };
        split.at(half, index(1, j, y) as isize, index(2, k, z) as isize) + first
    };
    for (c, edge) in of.c.iter_mut().zip(&cube.edges) {
        if inside(edge.last[0], edge.last[1]) {
            let [x, y, z] = edge.from;
            // SAFETY: no thread writes the matrix in this step.
            *c = unsafe { fine.c.slice(edge.offset * split.len() + row(x, y, z), n) };
        }
    }
    for (s, row_sums) in of.row_sums.iter_mut().enumerate() {
        let [x, y, z] = [s & 1, s >> 1 & 1, s >> 2];
        // SAFETY: no thread writes the matrix in this step.
        *row_sums = (has_nonzero_row_sums && exists(s, ratio) && inside(y, z))
            .then(|| unsafe { fine.row_sums.slice(row(x, y, z), n) });
    }
    of
}
