//! Galerkin product P^T A P. A cube is the region between 8 coarse points. Rows of cubes are processed one after the
//! other, and the cubes of a row eight at a time. Each pair of neighbouring fine points p, q belongs to one cube. A
//! pair with the conductance c adds c (P_p - P_q)(P_p - P_q)^T to the matrix of its cube, where P_p is row p of P. A
//! row sum g at p adds g P_p P_p^T.
//!
//! The cubes between a coarse plane and the next one determine all couplings between the two planes. Each entry within
//! a plane is the sum of a term from the cubes above the plane and a term from the cubes below it. If the cubes below
//! belong to another thread, both threads compute them. Each entry is therefore the same sum for any number of threads.

use super::grid::Stencil;
use super::layout::CoarseLayout;
use super::loops::split_columns;
use super::transfer::InterpolationWeights;
use super::weights::{LANES, Lane, add_lane, add_product, difference, load_lane, minus_product};
use crate::base::isa::for_each_isa;
use crate::base::loops::add;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::{Result, push};
use crate::stencil::coarsening::Offset;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "the cubes of a Galerkin product";

/// Number of entries stored per coarse point: 4 couplings within the plane, 9 couplings to the next plane, and the row
/// sum.
const ENTRIES_PER_POINT: usize = 14;
const IN_PLANE_ENTRIES: usize = 4;
const ROW_SUM_ENTRY: usize = 13;

/// For each number type: its size in bytes, and a tolerance. A sum of rounded weights counts as 1 if the sum differs
/// from 1 by at most the tolerance.
const ONE_TOLERANCES: [(usize, f64); 2] = [(4, 2e-6), (8, 1e-12)];

/// A pair of neighbouring fine points in a cube. Points are numbered x + 3 y + 9 z. In a direction that is not
/// coarsened, a fine point has the coordinate 0 or 2.
struct Edge {
    /// Number of the offset in the fine stencil.
    offset_number: usize,
    /// The lower point of the pair.
    lower_point: [usize; 3],
    /// Numbers of the two points.
    point_numbers: [usize; 2],
    /// The larger coordinate of the two points in y and in z. If such a coordinate is outside the grid, the pair does
    /// not exist.
    largest_coordinates: [usize; 2],
    /// The coarse edge, face or cube that contains the pair: its lowest corner and its directions, as bits.
    container: [usize; 2],
}

impl Edge {
    fn new(offset_number: usize, lower_point: [usize; 3], upper_point: [usize; 3]) -> Self {
        let (mut lowest_corner, mut direction_bits) = (0, 0);
        for d in 0..3 {
            match (lower_point[d], upper_point[d]) {
                (0, 0) => {}
                (2, 2) => lowest_corner |= 1 << d,
                _ => direction_bits |= 1 << d,
            }
        }
        let largest_coordinates = [1, 2].map(|d| lower_point[d].max(upper_point[d]));
        Self {
            offset_number,
            lower_point,
            point_numbers: [point_number(lower_point), point_number(upper_point)],
            largest_coordinates,
            container: [lowest_corner, direction_bits],
        }
    }
}

/// The pairs within a coarse edge, face or cube, as a range of `Cube::edges`.
struct EdgeGroup {
    container: [usize; 2],
    edges: Range<usize>,
}

impl EdgeGroup {
    /// Returns the N corners of the coarse edge, face or cube.
    #[inline(always)]
    fn corners<const N: usize>(&self) -> [usize; N] {
        let [lowest_corner, direction_bits] = self.container;
        let (mut corners, mut n) = ([0; N], 0);
        for t in 0..8 {
            if t & !direction_bits == lowest_corner && n < N {
                corners[n] = t;
                n += 1;
            }
        }
        corners
    }
}

/// Some corners of a cube. Bit d of the number of a corner is the index of this corner in direction d.
#[derive(Clone, Copy, Default)]
struct Corners {
    numbers: [u8; 8],
    len: usize,
}

/// A cube of 27 fine points, whose 8 corners are coarse points.
pub struct Cube {
    edges: Vec<Edge>,
    groups: Vec<EdgeGroup>,
    /// For each fine point, the corners from which it is interpolated.
    corners: [Corners; 27],
}

fn point_number(coordinates: [usize; 3]) -> usize {
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
            corners.numbers[corners.len] = t as u8;
            corners.len += 1;
        }
    }
    corners
}

/// Returns whether a fine point belongs to a cube. Bit d of `t` is the index of the point in direction d, relative to
/// the lowest corner of the cube. In a direction that is not coarsened, a point with index 1 belongs to the next cube.
fn belongs_to_cube(t: usize, coarsening_ratio: [usize; 3]) -> bool {
    (0..3).all(|d| t >> d & 1 == 0 || coarsening_ratio[d] == 2)
}

/// Returns the index of an offset in the list `CUBE_OFFSETS` of upper offsets.
fn upper_offset_number(offset: Offset) -> usize {
    (9 * offset[2] + 3 * offset[1] + offset[0] - 1) as usize
}

impl Cube {
    /// Computes the index tables for a fine stencil.
    pub fn new(offsets: &[Offset], coarsening_ratio: [usize; 3]) -> Result<Self> {
        let mut edges: Vec<Edge> = Vec::new();
        for (offset_number, offset) in offsets.iter().enumerate() {
            for lowest_corner in (0..8).filter(|&t| belongs_to_cube(t, coarsening_ratio)) {
                let coordinate = |d: usize, side: isize| {
                    (lowest_corner >> d & 1) + usize::from(side > 0) * (3 - coarsening_ratio[d])
                };
                let lower_point = [0, 1, 2].map(|d| coordinate(d, -offset[d]));
                let upper_point = [0, 1, 2].map(|d| coordinate(d, offset[d]));
                push(&mut edges, Edge::new(offset_number, lower_point, upper_point), ALLOCATION_NAME)?;
            }
        }
        edges.sort_unstable_by_key(|edge| (edge.container, edge.offset_number, edge.lower_point));
        let mut groups: Vec<EdgeGroup> = Vec::new();
        for (edge_number, edge) in edges.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if group.container == edge.container => group.edges.end = edge_number + 1,
                _ => push(
                    &mut groups,
                    EdgeGroup { container: edge.container, edges: edge_number..edge_number + 1 },
                    ALLOCATION_NAME,
                )?,
            }
        }
        Ok(Self { edges, groups, corners: std::array::from_fn(corners_of) })
    }
}

/// Number of rows of sums: `ENTRIES_PER_POINT` for each of the four coarse rows that bound a row of cubes, two in each
/// of two planes.
const SUM_ROWS: usize = 4 * ENTRIES_PER_POINT;

/// Sums of a thread: the contributions of the current row of cubes to the adjacent coarse rows, and the contributions
/// of the cubes below a coarse plane to the entries within this plane. A coarse row is complete after the contributions
/// of the next row of cubes have been added.
pub struct GalerkinSums {
    values: Shared,
    row_len: usize,
    plane_len: usize,
}

impl GalerkinSums {
    /// Allocates the sums for a coarse grid.
    pub fn new(coarse: &CoarseLayout) -> Result<Self> {
        let mut sums = Self { values: Shared::zeroed(0)?, row_len: 0, plane_len: 0 };
        sums.resize_for(coarse)?;
        Ok(sums)
    }

    /// Prepares the sums for another coarse grid. Allocates memory only if the existing memory does not suffice.
    pub fn resize_for(&mut self, coarse: &CoarseLayout) -> Result<()> {
        self.row_len = coarse.row_stride << usize::from(coarse.is_split());
        self.plane_len = self.row_len * (coarse.cells.ny + 1);
        // `load_plane` uses the memory as workspace for three rows of cells. The memory always suffices for these rows.
        let len = SUM_ROWS * self.row_len + (IN_PLANE_ENTRIES + 1) * self.plane_len;
        if self.values.len() < len {
            self.values = Shared::zeroed(len)?;
        }
        Ok(())
    }

    /// Returns the index in `values` of the sums of an entry for coarse row j. With `plane` = 0, this row is in the
    /// lower plane of the cubes; with `plane` = 1, this row is in the upper plane.
    fn row_index(&self, plane: usize, entry: usize, j: usize) -> usize {
        ((2 * plane + j % 2) * ENTRIES_PER_POINT + entry) * self.row_len
    }

    /// Returns the index in `values` of the contributions of the cubes below the plane to an entry of coarse row j.
    fn below_index(&self, entry: usize, j: usize) -> usize {
        SUM_ROWS * self.row_len + entry.min(IN_PLANE_ENTRIES) * self.plane_len + j * self.row_len
    }

    /// Returns all memory, as workspace for other purposes.
    ///
    /// # Safety
    /// Only the thread that owns these sums may call this function. Only one returned slice may be in use at a time.
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
struct CubeRow<'a, T> {
    cube: &'a Cube,
    /// Weights by fine point and corner, in the order of `Cube::corners`; `None` for the weight one.
    weights: [[Option<&'a [T]>; 8]; 27],
    /// Conductances in the order of `Cube::edges`; empty outside the grid.
    c: [&'a [T]; 104],
    /// Row sums of the fine points of a cube: the 8 points whose index in each direction is that of the lowest corner,
    /// or larger by one. `None` for zero.
    row_sums: [Option<&'a [T]>; 8],
    /// Sums to which the contributions are added.
    sums: &'a Shared,
    /// Index in `sums`, for the first cube of the row: at `[a][b]` with a < b, of the coupling between the corners a
    /// and b; at `[a][a]`, of the row sum of corner a.
    sum_indices: [[usize; 8]; 8],
}

/// Number of pairs whose differences are buffered together, so that the buffers fit into the first-level cache.
const PAIRS_PER_BUFFER: usize = 8;

/// Contributions of eight cubes, and intermediate results. The fields are aligned to cache lines, because access to a
/// `Lane` that extends over two cache lines takes twice as long.
#[repr(align(64))]
pub struct CubeContributions {
    /// Contributions to the couplings between two corners. The first index is the lower corner.
    couplings: [[Lane; 8]; 8],
    /// Contributions to the row sums.
    row_sums: [Lane; 8],
    /// Weights by fine point and corner; zero for corners from which the point is not interpolated. `weight_sums`
    /// contains the sum of the weights of each point.
    weights: [[Lane; 8]; 27],
    weight_sums: [Lane; 27],
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
            weight_sums: [[0.0; LANES]; 27],
            differences: [zeros; PAIRS_PER_BUFFER],
            c: [[0.0; LANES]; PAIRS_PER_BUFFER],
        }
    }
}

/// Computation of contributions, which `for_each_isa` compiles for several instruction sets.
pub trait CubeComputation {
    fn add_contributions(&self, contributions: &mut CubeContributions, start: usize, n: usize);
}

for_each_isa! {
    /// Computes the contributions of n cubes from index `start` on.
    fn add_cubes<R: CubeComputation>(cubes: &R, contributions: &mut CubeContributions, start: usize, n: usize) {
        cubes.add_contributions(contributions, start, n);
    }
}

impl<T: Real> CubeRow<'_, T> {
    /// Computes the weights of a point, and their sum. If the weights sum to one up to rounding, the sum is set to
    /// exactly one; in single precision, the weights are also corrected. Without this correction, strong couplings
    /// would lead to nonzero row sums.
    #[inline(always)]
    fn load_point_weights(
        &self,
        p: usize,
        start: usize,
        n: usize,
        point_weights: &mut [Lane; 8],
        weight_sum: &mut Lane,
    ) {
        let corners = &self.cube.corners[p];
        let mut sum = [0.0; LANES];
        for (t, row) in corners.numbers[..corners.len].iter().zip(&self.weights[p]) {
            let weight = match row {
                Some(row) => load_lane(row, start, n),
                None => [1.0; LANES],
            };
            point_weights[*t as usize] = weight;
            add_lane(&mut sum, &weight);
        }
        let one_tolerance =
            if size_of::<T>() == ONE_TOLERANCES[0].0 { ONE_TOLERANCES[0].1 } else { ONE_TOLERANCES[1].1 };
        let mut factor = [1.0; LANES];
        for l in 0..LANES {
            let is_near_one = (sum[l] - 1.0).abs() <= one_tolerance;
            // If sum is near 1, 2 - sum approximates 1 / sum with an error of about (sum - 1)^2.
            factor[l] = if is_near_one { 2.0 - sum[l] } else { 1.0 };
            weight_sum[l] = if is_near_one { 1.0 } else { sum[l] };
        }
        if size_of::<T>() == ONE_TOLERANCES[0].0 && corners.len > 1 {
            for t in &corners.numbers[..corners.len] {
                let weight = &mut point_weights[*t as usize];
                for l in 0..LANES {
                    weight[l] *= factor[l];
                }
            }
        }
    }
}

impl<T: Real> CubeRow<'_, T> {
    /// Adds c (P_p - P_q)(P_p - P_q)^T to `contributions` for each pair of a group. The group has N corners.
    #[inline(always)]
    fn add_group<const N: usize>(
        &self,
        group: &EdgeGroup,
        contributions: &mut CubeContributions,
        start: usize,
        n: usize,
    ) {
        let corners: [usize; N] = group.corners();
        let mut buffer_start = group.edges.start;
        while buffer_start < group.edges.end {
            let buffer_end = group.edges.end.min(buffer_start + PAIRS_PER_BUFFER);
            let mut buffered_pairs = 0;
            for edge_number in buffer_start..buffer_end {
                let c = self.c[edge_number];
                if !c.is_empty() {
                    let [p, q] = self.cube.edges[edge_number].point_numbers;
                    contributions.c[buffered_pairs] = load_lane(c, start, n);
                    let v = &mut contributions.differences[buffered_pairs];
                    for (v, &t) in v.iter_mut().zip(&corners) {
                        *v = difference(&contributions.weights[p][t], &contributions.weights[q][t]);
                    }
                    let weight_sums = [&contributions.weight_sums[p], &contributions.weight_sums[q]];
                    if weight_sums[0] != weight_sums[1] {
                        add_row_sums(
                            &mut contributions.row_sums,
                            &corners,
                            v,
                            &contributions.c[buffered_pairs],
                            weight_sums,
                        );
                    }
                    buffered_pairs += 1;
                }
            }
            add_pair_couplings::<N, 0>(contributions, &corners, buffered_pairs);
            if N > 2 {
                add_pair_couplings::<N, 1>(contributions, &corners, buffered_pairs);
                add_pair_couplings::<N, 2>(contributions, &corners, buffered_pairs);
            }
            if N > 4 {
                add_pair_couplings::<N, 3>(contributions, &corners, buffered_pairs);
                add_pair_couplings::<N, 4>(contributions, &corners, buffered_pairs);
                add_pair_couplings::<N, 5>(contributions, &corners, buffered_pairs);
                add_pair_couplings::<N, 6>(contributions, &corners, buffered_pairs);
            }
            buffer_start = buffer_end;
        }
    }

    /// Adds the contributions of n cubes to the sums.
    #[inline(always)]
    fn add_to_sums(&self, contributions: &CubeContributions, start: usize, n: usize) {
        for a in 0..8 {
            for b in a..8 {
                let contribution = if a == b { &contributions.row_sums[a] } else { &contributions.couplings[a][b] };
                // SAFETY: the sums belong to this thread.
                let sums = unsafe { self.sums.slice_mut(self.sum_indices[a][b] + start, n) };
                if n == LANES {
                    let sums = &mut sums[..LANES];
                    for l in 0..LANES {
                        sums[l] += contribution[l];
                    }
                } else {
                    sums.iter_mut().zip(contribution).for_each(|(sum, contribution)| *sum += contribution);
                }
            }
        }
    }
}

/// Adds -c v_A v_b to the coupling of corners A and b, for each later corner b and for the first `buffered_pairs` pairs
/// of points in the buffers. v is the difference P_p - P_q of a pair, and c is its conductance. A is a constant, so
/// that the loops have a fixed shape and the compiler keeps the sums in registers.
#[inline(always)]
fn add_pair_couplings<const N: usize, const A: usize>(
    contributions: &mut CubeContributions,
    corners: &[usize; N],
    buffered_pairs: usize,
) {
    let mut corner_sums = [[0.0; LANES]; N];
    for (c, v) in contributions.c.iter().zip(&contributions.differences).take(buffered_pairs) {
        let scaled = minus_product(c, &v[A]);
        for b in A + 1..N {
            add_product(&mut corner_sums[b], &scaled, &v[b]);
        }
    }
    for b in A + 1..N {
        add_lane(&mut contributions.couplings[corners[A]][corners[b]], &corner_sums[b]);
    }
}

/// Adds the row sums of c v v^T with v = P_p - P_q. The sum of the entries of v is the difference of the sums of
/// weights of p and q.
#[inline(always)]
fn add_row_sums<const N: usize>(
    row_sums: &mut [Lane; 8],
    corners: &[usize; N],
    v: &[Lane; 8],
    c: &Lane,
    weight_sums: [&Lane; 2],
) {
    let scaled = minus_product(c, &difference(weight_sums[1], weight_sums[0]));
    for (&t, v) in corners.iter().zip(v) {
        add_product(&mut row_sums[t], &scaled, v);
    }
}

impl<T: Real> CubeComputation for CubeRow<'_, T> {
    #[inline(always)]
    fn add_contributions(&self, contributions: &mut CubeContributions, start: usize, n: usize) {
        // `add_cube_lanes` is inlined twice: with the constant n = `LANES`, and with a smaller n for the last cubes of
        // the row.
        if n == LANES {
            self.add_cube_lanes(contributions, start, LANES)
        } else {
            self.add_cube_lanes(contributions, start, n)
        }
    }
}

impl<T: Real> CubeRow<'_, T> {
    #[inline(always)]
    fn add_cube_lanes(&self, contributions: &mut CubeContributions, start: usize, n: usize) {
        for p in 0..27 {
            self.load_point_weights(p, start, n, &mut contributions.weights[p], &mut contributions.weight_sums[p]);
        }
        for a in 0..8 {
            for b in a + 1..8 {
                contributions.couplings[a][b] = [0.0; LANES];
            }
        }
        contributions.row_sums = [[0.0; LANES]; 8];
        for group in &self.cube.groups {
            match group.container[1].count_ones() {
                1 => self.add_group::<2>(group, contributions, start, n),
                2 => self.add_group::<4>(group, contributions, start, n),
                _ => self.add_group::<8>(group, contributions, start, n),
            }
        }
        for (point_bits, row_sums) in self.row_sums.iter().enumerate() {
            if let Some(row_sums) = row_sums {
                add_row_sum_terms(
                    contributions,
                    point_number([point_bits & 1, point_bits >> 1 & 1, point_bits >> 2]),
                    &load_lane(row_sums, start, n),
                );
            }
        }
        self.add_to_sums(contributions, start, n);
    }
}

/// Adds g P_p P_p^T for point p with row sum g.
#[inline(always)]
fn add_row_sum_terms(contributions: &mut CubeContributions, p: usize, row_sums: &Lane) {
    let (weights, weight_sum) = (&contributions.weights[p], &contributions.weight_sums[p]);
    for (a, (couplings, row_sum)) in contributions.couplings.iter_mut().zip(&mut contributions.row_sums).enumerate() {
        let negative_weights = minus_product(row_sums, &weights[a]);
        add_lane(row_sum, &minus_product(&negative_weights, weight_sum));
        for (coupling, weight) in couplings.iter_mut().zip(weights).skip(a + 1) {
            add_product(coupling, &negative_weights, weight);
        }
    }
}

/// Computes those planes of the next coarser matrix that belong to this thread. If `has_nonzero_row_sums` is false, the
/// row sums of the fine matrix are zero, and are not read. `finish_plane` in `load` later sets coarse row sums at the
/// rounding level to zero.
pub fn compute_galerkin_product<T: Real + Number>(
    thread: TeamThread,
    cube: &Cube,
    fine_stencil: &Stencil<T>,
    weights: &InterpolationWeights<T>,
    sums: &GalerkinSums,
    coarse_stencil: &Stencil<T>,
    has_nonzero_row_sums: bool,
) {
    let own_planes = thread.share(coarse_stencil.split.cells.nz);
    if own_planes.is_empty() {
        return;
    }
    // SAFETY: the sums belong to this thread.
    unsafe { sums.values.clear() };
    let mut contributions = CubeContributions::new();
    for k in own_planes.start.saturating_sub(1)..own_planes.end {
        for j in 0..coarse_stencil.split.cells.ny {
            for half in 0..=usize::from(weights.coarse_layout.is_split()) {
                let cube_row = collect_cube_row(cube, fine_stencil, weights, sums, [half, j, k], has_nonzero_row_sums);
                let n = weights.coarse_layout.row_points(half);
                for start in (0..n).step_by(LANES) {
                    add_cubes(&cube_row, &mut contributions, start, LANES.min(n - start));
                }
            }
            finish_row(sums, coarse_stencil, &weights.coarse_layout, [j, k], k >= own_planes.start);
        }
        // Clears the sums of the row beyond the last coarse row.
        // SAFETY: the sums belong to this thread.
        unsafe { sums.values.slice_mut(0, SUM_ROWS * sums.row_len) }.fill(0.0);
    }
}

/// Completes coarse row (j, k), and stores it if `stores_row` is set. Also saves the contributions of the cubes above
/// this coarse plane to the entries within the next coarse plane.
fn finish_row<T: Real + Number>(
    sums: &GalerkinSums,
    coarse_stencil: &Stencil<T>,
    coarse: &CoarseLayout,
    [j, k]: [usize; 2],
    stores_row: bool,
) {
    let split = &coarse_stencil.split;
    for entry in 0..ENTRIES_PER_POINT {
        // SAFETY: the three rows are different, and the sums belong to this thread.
        let (lower_sums, upper_sums, sums_from_below) = unsafe {
            let sums_row = |start| sums.values.slice_mut(start, sums.row_len);
            (
                sums_row(sums.row_index(0, entry, j)),
                sums_row(sums.row_index(1, entry, j)),
                sums_row(sums.below_index(entry, j)),
            )
        };
        if entry < IN_PLANE_ENTRIES || entry == ROW_SUM_ENTRY {
            add(lower_sums, sums_from_below);
            sums_from_below.copy_from_slice(upper_sums);
        }
        if stores_row {
            let (array, array_start) = if entry == ROW_SUM_ENTRY {
                (&coarse_stencil.row_sums, 0)
            } else {
                (&coarse_stencil.c, entry * split.len())
            };
            // SAFETY: the plane belongs to this thread.
            let half_row = |half| unsafe {
                array.slice_mut(array_start + split.row_start(half, j as isize, k as isize), split.row_points(half))
            };
            if coarse.is_split() {
                for (half, half_sums) in lower_sums.chunks_exact(coarse.row_stride).enumerate() {
                    half_row(half).iter_mut().zip(half_sums).for_each(|(stored, sum)| *stored = T::from_f64(*sum));
                }
            } else {
                split_columns(half_row(0), half_row(1), &lower_sums[..split.cells.nx], 1.0);
            }
        }
        lower_sums.fill(0.0);
        upper_sums.fill(0.0);
    }
}

/// Collects the data of a row of cubes. If x is not coarsened, the row consists of those cubes whose lowest corners are
/// the points of one half row.
fn collect_cube_row<'a, T: Real + Number>(
    cube: &'a Cube,
    fine_stencil: &'a Stencil<T>,
    weights: &'a InterpolationWeights<T>,
    sums: &'a GalerkinSums,
    [half, j, k]: [usize; 3],
    has_nonzero_row_sums: bool,
) -> CubeRow<'a, T> {
    let (split, coarse, coarsening_ratio) = (&fine_stencil.split, &weights.coarse_layout, weights.coarsening_ratio);
    let n = coarse.row_points(half);
    let bit_of = |t: usize, d: usize| t >> d & 1;
    // For the corners at x = 0 or x = 1 of their cubes: returns the half in which these corners are stored, and the
    // index in the half row of the corner of the first cube.
    let corner_column = |x: usize| if coarse.is_split() { ((half + x) % 2, (half + x) / 2) } else { (0, x) };
    let sum_indices = std::array::from_fn(|a| {
        std::array::from_fn(|b| {
            let entry = if a < b {
                upper_offset_number([0, 1, 2].map(|d| bit_of(b, d) as isize - bit_of(a, d) as isize))
            } else {
                ROW_SUM_ENTRY
            };
            let (half, column_start) = corner_column(bit_of(a, 0));
            sums.row_index(a >> 2, entry, j + bit_of(a, 1)) + half * coarse.row_stride + column_start
        })
    });
    let sum_values = &sums.values;
    let mut cube_row =
        CubeRow { cube, weights: [[None; 8]; 27], c: [&[]; 104], row_sums: [None; 8], sums: sum_values, sum_indices };
    for (p, corners) in cube.corners.iter().enumerate() {
        for (row, t) in cube_row.weights[p].iter_mut().zip(&corners.numbers[..corners.len]) {
            let t = *t as usize;
            let offset = [0, 1, 2].map(|d| coordinates(p)[d] as isize - 2 * (t >> d & 1) as isize);
            let (half, column_start) = corner_column(t & 1);
            let start = coarse.row_start(half, j + (t >> 1 & 1), k + (t >> 2)) + column_start;
            // SAFETY: no thread writes weights in this step.
            *row = weights.has_offset(offset).then(|| unsafe { weights.of(offset).slice(start, n) });
        }
    }
    // The index in direction d of the fine point with `coordinate` (0 to 2) in the cube with index `cube_index`.
    let fine_index = |d: usize, cube_index: usize, coordinate: usize| {
        coarsening_ratio[d] * cube_index + coordinate * coarsening_ratio[d] / 2
    };
    let is_inside = |y: usize, z: usize| fine_index(1, j, y) < split.cells.ny && fine_index(2, k, z) < split.cells.nz;
    let fine_row_start = |x: usize, y: usize, z: usize| {
        let (half, column_start) = if coarse.is_split() { corner_column(x / 2) } else { (x % 2, x / 2) };
        split.row_start(half, fine_index(1, j, y) as isize, fine_index(2, k, z) as isize) + column_start
    };
    for (c, edge) in cube_row.c.iter_mut().zip(&cube.edges) {
        if is_inside(edge.largest_coordinates[0], edge.largest_coordinates[1]) {
            let [x, y, z] = edge.lower_point;
            // SAFETY: no thread writes the matrix in this step.
            *c = unsafe { fine_stencil.c.slice(edge.offset_number * split.len() + fine_row_start(x, y, z), n) };
        }
    }
    for (point_bits, row_sums) in cube_row.row_sums.iter_mut().enumerate() {
        let [x, y, z] = [point_bits & 1, point_bits >> 1 & 1, point_bits >> 2];
        // SAFETY: no thread writes the matrix in this step.
        *row_sums = (has_nonzero_row_sums && belongs_to_cube(point_bits, coarsening_ratio) && is_inside(y, z))
            .then(|| unsafe { fine_stencil.row_sums.slice(fine_row_start(x, y, z), n) });
    }
    cube_row
}
