//! The factorization is bitwise identical for any order of the rows and for any distribution of the rows among threads.

use super::*;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::Team;
use crate::rrb::backend::{Aggregation, Lumping};
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::number::{BrainFloat, Double, Mixed, Single};
use crate::rrb::cpu::system::Shape;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::inspection::InspectionOptions;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::View;

pub(crate) fn setup(storage: Storage, omega: f64, unit: f64) -> Setup {
    Setup {
        may_truncate: false,
        levels: 4,
        lumping: Lumping::Red,
        omega,
        compensate: false,
        grids: 1,
        block: 8,
        zero_row_sum: 0.0,
        fused: true,
        storage,
        unit,
        cycle: Cycle { kind: Some(Kind::V), spacing: 4, steps: 2, allows_jumps: false },
        aggregation: Aggregation::Never,
    }
}

/// Returns a random number between 0 and 1 (xorshift).
pub(crate) fn random(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a 5-point matrix with random couplings and row sums; some row sums are zero.
pub(crate) fn matrix(grid: Grid, seed: u64) -> [Vec<f64>; 3] {
    let mut state = seed * 0x9e37_79b9 + 1;
    let n = grid.nx;
    let mut couplings = || -> Vec<f64> { (0..grid.nodes()).map(|_| -random(&mut state)).collect() };
    let (east, north) = (couplings(), couplings());
    let mut center = vec![0.0; grid.nodes()];
    for k in 0..grid.nodes() {
        if k % n + 1 < n {
            center[k] -= east[k];
            center[k + 1] -= east[k];
        }
        if k + n < grid.nodes() {
            center[k] -= north[k];
            center[k + n] -= north[k];
        }
    }
    for (k, c) in center.iter_mut().enumerate() {
        *c += if k % 7 == 0 { 0.1 * random(&mut state) } else { 0.0 };
    }
    [center, east, north]
}

/// Returns the matrix as an argument of the solver.
pub(crate) fn five_points(grid: Grid, arrays: &[Vec<f64>; 3]) -> StencilView<'_> {
    let [center, east, north] = arrays.each_ref().map(|values| View::new("an array", values, grid, grid.nx));
    StencilView { grid, center, east, north, corners: None }
}

/// Returns the inspection results of a matrix.
pub(crate) fn inspected(a: &StencilView) -> Inspection {
    let mut inspection = Inspection::default();
    inspection.start(1).unwrap();
    inspection.inspect(0, a, 0..a.grid.ny, &InspectionOptions { finite: true, zero_row_sum: 0.0 });
    inspection.finish(a, true).unwrap();
    inspection
}

/// Factorizes a matrix twice, and returns values of A, of S1, and of M on the first two grids. Before each
/// factorization, the vectors are filled with nines, because a factorization must not depend on their content.
fn factorized_twice<F: Format>(a: &StencilView, setup: &Setup, members: usize) -> FactorValues {
    let components = &inspected(a).components;
    let mut k = Packed::<F>::new(Shape::new(a, setup), None).unwrap();
    k.prepare(setup, components, members).unwrap();
    let context = PivotContext::new(a, components);
    let mut team = Team::new(members).unwrap();
    let k = &k;
    let layout = &k.grids[0].layout;
    for _ in 0..2 {
        for (colour, row) in Colour::ALL.into_iter().flat_map(|c| layout.rows(c).map(move |row| (c, row))) {
            // SAFETY: no run is in progress.
            unsafe {
                [&k.x, &k.b].iter().for_each(|v| v[colour].row_mut(row, 0)[layout.columns(colour)].fill(9.0));
                for v in [&k.r, &k.p, &k.q].into_iter().filter(|v| v[colour].bytes() > 0) {
                    v[colour].row_mut(row, 0)[layout.columns(colour)].fill(F::Vector::narrow(9.0));
                }
            }
        }
        let share = |me: Me| k.factorize_share(me, setup, &context, None);
        team.run(|me| drop(share(me)), share).unwrap().unwrap();
    }
    // Solves require that x and b are zero at entries that are not nodes.
    for (v, c) in [&k.x, &k.b].into_iter().flat_map(|v| Colour::ALL.map(|c| (v, c))) {
        for row in 0..layout.cy {
            // SAFETY: no run is in progress.
            let values = unsafe { v[c].row(row, 0) };
            let is_node = |i: usize| layout.rows(c).contains(&row) && layout.columns(c).contains(&i);
            assert!(values.iter().enumerate().all(|(i, &v)| v == 0.0 || is_node(i)), "{c:?}, row {row}");
        }
    }
    let (first, second, m) = (&k.grids[0], &k.grids[1], &k.matrix);
    fn values<R: Real + Number>(areas: &[&ColourArray<R>], rows: usize) -> Vec<f64> {
        let of = |area: &ColourArray<R>| -> Vec<f64> {
            // SAFETY: no run is in progress.
            (0..rows).flat_map(|row| unsafe { area.row(row, 0) }.iter().map(|v| v.wide() + 0.0)).collect()
        };
        areas.iter().flat_map(|area| of(area)).collect()
    }
    let rows = first.layout.cy;
    let (s, near, far) = (&k.schur, &k.schur.b1_distant, &k.schur.b2_distant);
    let couplings: Vec<_> = s.diagonal.of.iter().chain([&near.east, &near.north, &far.east, &far.north]).collect();
    let center = [&m.center.r1, &m.center.r2, &m.center.b1, &m.center.b2];
    let of_a: Vec<_> = m.straight.r1.iter().chain(&m.straight.r2).chain(center).collect();
    let mut stored = Vec::new();
    for (grid, sweep) in [(first, &first.sweep), (second, &second.sweep)] {
        for row in grid.layout.rows(Colour::B1) {
            for area in sweep.diagonal.of.iter().chain([&sweep.stored_pivot.b1]) {
                // SAFETY: no run is in progress.
                let values = unsafe { area.row(row, 0) };
                stored.extend(values[grid.layout.columns(Colour::B1)].iter().map(|v| F::read(*v).wide()));
            }
        }
    }
    FactorValues {
        a: values(&of_a, rows),
        couplings: values(&couplings, rows),
        centers: values(&[&s.center[0], &s.center[1]], rows),
        stored,
    }
}

/// Values of A, of S1, and of M.
#[derive(Debug, PartialEq)]
struct FactorValues {
    a: Vec<f64>,
    couplings: Vec<f64>,
    centers: Vec<f64>,
    stored: Vec<f64>,
}

#[test]
fn factors_are_identical_for_any_thread_count() {
    // On 160 x 60 nodes, a single thread stores row sums and 1 / d in a ring, whereas three threads have too few rows
    // for this.
    let sizes =
        [(5, 140, 1), (64, 141, 1), (61, 301, 2), (97, 300, 2), (40, 500, 3), (17, 17, 1), (33, 18, 1), (160, 60, 3)];
    for (nx, ny, members) in sizes {
        let grid = Grid { nx, ny };
        let arrays = matrix(grid, (nx + ny) as u64);
        let a = five_points(grid, &arrays);
        let of = |storage, unit| Setup { grids: 2, ..setup(storage, 1.0, unit) };
        let (f64, bf16) = (of(Storage::F64, 1.0), of(Storage::Bf16, 2.0));
        let alone = factorized_twice::<Double>(&a, &f64, 1);
        assert_eq!(alone, factorized_twice::<Double>(&a, &f64, members), "f64, {nx} x {ny}, {members} members");
        let alone = factorized_twice::<BrainFloat>(&a, &bf16, 1);
        assert_eq!(alone, factorized_twice::<BrainFloat>(&a, &bf16, members), "bf16, {nx} x {ny}, {members} members");
        // In single precision, S1 is divided by the unit and contains row sums instead of centers; it is equal up to
        // rounding.
        let single = factorized_twice::<Mixed>(&a, &Setup { storage: Storage::Mixed, ..bf16 }, 1);
        assert!((&single.a, &single.stored) == (&alone.a, &alone.stored), "mixed, {nx} x {ny}");
        let narrow: Vec<f64> = alone.couplings.iter().map(|v| f64::from((v / 2.0) as f32)).collect();
        assert!(single.couplings == narrow, "mixed, {nx} x {ny}");
        let other = factorized_twice::<Mixed>(&a, &Setup { storage: Storage::Mixed, ..bf16 }, members);
        assert!(single == other, "mixed, {nx} x {ny}, {members} members");
    }
}

/// Bits of the arrays that the sweeps read, one entry per grid. The last entry includes the row sums of the nodes b2,
/// from which the matrix of the next grid is computed.
type SweepBits = Vec<Vec<u64>>;

/// Factorizes the two matrices alternately, with the numbers of threads in `teams`. Calls `check` with the result of
/// each factorization.
fn factorize_alternately<F: Format>(
    a: [&StencilView; 2],
    setup: &Setup,
    teams: &[usize],
    mut check: impl FnMut(usize, SweepBits),
) {
    let components = &inspected(a[1]).components;
    let mut k = Packed::<F>::new(Shape::new(a[1], setup), None).unwrap();

    fn add<T: Number, R: Real>(
        found: &mut Vec<u64>,
        grid: &Layout,
        c: Colour,
        area: &ColourArray<T>,
        read: fn(T) -> R,
    ) {
        for row in grid.rows(c).filter(|_| area.bytes() > 0) {
            // SAFETY: no run is in progress.
            let values = unsafe { area.row(row, 0) };
            // Adding zero makes zeros of either sign equal.
            found.extend(values[grid.columns(c)].iter().map(|v| (read(*v).wide() + 0.0).to_bits()));
        }
    }
    let of_grid = |grid: &PackedGrid<F>, is_last: bool| {
        let (mut found, sweep, layout) = (Vec::new(), &grid.sweep, &grid.layout);
        let mut stored = |c: Colour, area: &ColourArray<F::Stored>| add(&mut found, layout, c, area, F::read);
        for (straight, c) in [(&sweep.straight.r1, Colour::R1), (&sweep.straight.r2, Colour::R2)] {
            straight.iter().for_each(|area| stored(c, area));
        }
        sweep.diagonal.of.iter().for_each(|area| stored(Colour::B1, area));
        [Colour::R1, Colour::R2, Colour::B1].into_iter().for_each(|c| stored(c, &sweep.stored_pivot[c]));
        if let Some(inner) = &grid.recursion {
            Colour::ALL.into_iter().for_each(|c| stored(c, &inner.excess[c]));
            inner.corners.red.of.iter().for_each(|area| stored(Colour::R1, area));
            inner.corners.black.of.iter().for_each(|area| stored(Colour::B1, area));
        }
        if is_last {
            add(&mut found, layout, Colour::B2, &grid.excess.b2, |v: f64| v);
        }
        found
    };
    for (step, &members) in teams.iter().enumerate() {
        k.prepare(setup, components, members).unwrap();
        let mut team = Team::new(members).unwrap();
        let context = PivotContext::new(a[step % 2], components);
        {
            let k = &k;
            let share = |me: Me| k.factorize_share(me, setup, &context, None);
            team.run(|me| drop(share(me)), share).unwrap().unwrap();
        }
        k.fresh = false;
        let last = k.grids.len() - 1;
        check(step, k.grids.iter().enumerate().map(|(q, grid)| of_grid(grid, q == last)).collect());
    }
}

/// Covers all formats, M1 and M2, with and without relaxation. The first elimination is exact for 5 points without
/// compensation, and only then can CG run in single precision.
#[test]
fn alternating_factorizations_equal_separate_ones() {
    // The sizes cover grids shared by all threads, grids of one thread, and shares of one or two rows.
    let sizes = [(260, 301), (33, 1037), (20, 4001), (301, 56), (9, 3000), (257, 65), (64, 64)];
    // Before each factorization, the matrix or the number of threads changes, or both.
    let teams = [1, 2, 2, 5, 3, 3, 1, 5];
    let kinds = [(Lumping::Red, 0.95), (Lumping::RedAndBlack, 0.95), (Lumping::RedAndBlack, 1.0)];
    for (k, (nx, ny)) in sizes.into_iter().enumerate() {
        let grid = Grid { nx, ny };
        // Large grids test one kind of lumping each, the smallest grid all kinds.
        let kinds = if grid.nodes() > 5000 { &kinds[k % 3..][..1] } else { &kinds };
        // With compensation, one of 16 couplings is positive.
        let arrays = |seed: u64, compensate: bool| {
            let mut state = seed * 0x9e37_79b9 + 1;
            let mut coupling = || match random(&mut state) {
                v if compensate && v < 1.0 / 16.0 => v,
                v => -v,
            };
            let mut couplings = || (0..grid.nodes()).map(|_| coupling()).collect::<Vec<_>>();
            let [east, north, northeast, northwest] = std::array::from_fn(|_| couplings());
            // These centers make the matrix diagonally dominant.
            let center: Vec<_> = (0..grid.nodes()).map(|k| if k % 7 == 0 { 8.1 } else { 8.6 }).collect();
            [center, east, north, northeast, northwest]
        };
        for (nine_points, compensate) in [(false, false), (false, true), (true, false), (true, true)] {
            let values = [arrays(3, compensate), arrays(4, compensate)];
            let a = values.each_ref().map(|arrays| {
                let [center, east, north, northeast, northwest] =
                    arrays.each_ref().map(|values| View::new("an array", values, grid, nx));
                let corners = nine_points.then_some((northeast, northwest));
                StencilView { grid, center, east, north, corners }
            });
            let a = [&a[0], &a[1]];
            let levels = grid.max_levels().min(13);
            let mut of_m: Vec<[SweepBits; 4]> = Vec::new();
            for &(lumping, omega) in kinds {
                let cycle = Cycle { kind: Some(Kind::Amli), spacing: 2, steps: 2, allows_jumps: false };
                let of = |storage, unit| Setup {
                    grids: (levels / 2).min(6),
                    levels,
                    lumping,
                    compensate,
                    cycle,
                    ..setup(storage, omega, unit)
                };
                fn compare<F: Format>(a: [&StencilView; 2], setup: &Setup, teams: &[usize], what: &str) -> SweepBits {
                    let mut alone = Vec::new();
                    for first in [a, [a[1], a[0]]] {
                        factorize_alternately::<F>(first, setup, &[1], |_, bits| alone.push(bits));
                    }
                    factorize_alternately::<F>(a, setup, teams, |step, bits| {
                        assert_eq!(bits.len(), setup.grids);
                        for (q, (alone, bits)) in alone[step % 2].iter().zip(&bits).enumerate() {
                            assert!(alone == bits, "{what}, step {step}: grid {q}");
                        }
                    });
                    alone.swap_remove(1)
                }
                let what =
                    |format: &str| format!("{format}, {nx} x {ny}, {lumping:?} {omega}, {nine_points}, {compensate}");
                let bf16 = of(Storage::Bf16, 16.0);
                let mut single = SweepBits::new();
                if a[0].corners.is_none() && !compensate {
                    single = compare::<Mixed>(a, &Setup { storage: Storage::Mixed, ..bf16 }, &teams, &what("mixed"));
                }
                let bits = [
                    compare::<Double>(a, &of(Storage::F64, 1.0), &teams, &what("f64")),
                    compare::<Single>(a, &of(Storage::F32, 16.0), &teams, &what("f32")),
                    compare::<BrainFloat>(a, &bf16, &teams, &what("bf16")),
                    single,
                ];
                // The formats lead to different M, except that mixed has the same M as bf16.
                assert!(bits[0] != bits[1] && bits[1] != bits[2], "{}", what(""));
                assert!(bits[3].is_empty() || bits[3] == bits[2], "{}", what("mixed"));
                assert!(of_m.iter().all(|other| (0..3).all(|k| other[k] != bits[k])), "{}", what(""));
                of_m.push(bits);
            }
        }
    }
}

/// `natural_matrix` returns A unchanged.
#[test]
fn natural_matrix_returns_a() {
    for (nx, ny) in [(5, 17), (64, 65), (1, 300), (300, 1), (33, 2), (97, 101)] {
        let grid = Grid { nx, ny };
        let given = matrix(grid, 7);
        let a = five_points(grid, &given);
        let setup = setup(Storage::F64, 1.0, 1.0);
        let mut k = Packed::<Double>::new(Shape::new(&a, &setup), None).unwrap();
        let components = &inspected(&a).components;
        k.prepare(&setup, components, 1).unwrap();
        let context = PivotContext::new(&a, components);
        let shared = &k;
        let share = |me: Me| shared.factorize_share(me, &setup, &context, None);
        Team::new(1).unwrap().run(|me| drop(share(me)), share).unwrap().unwrap();
        let (found_grid, mut found) = k.natural_matrix().unwrap().unwrap();
        assert_eq!((found_grid.nx, found_grid.ny), (nx, ny));
        // Couplings that point out of the grid are never read.
        let mut given = given;
        for arrays in [&mut given, &mut found] {
            (0..ny).for_each(|j| arrays[1][j * nx + nx - 1] = 0.0);
            arrays[2][(ny - 1) * nx..].fill(0.0);
        }
        assert!(found == given, "{nx} x {ny}");
    }
}
