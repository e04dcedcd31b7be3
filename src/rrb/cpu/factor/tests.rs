//! The factorization is bitwise identical for any order of the rows and for any distribution of the rows among threads.

use super::*;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::Team;
use crate::rrb::backend::{Aggregation, Lumping};
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::number::{Bf16Format, F32Format, F64Format, MixedFormat};
use crate::rrb::cpu::system::PackedShape;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::inspection::InspectionOptions;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::GridArray;

pub(crate) fn setup(storage: Storage, omega: f64, storage_unit: f64) -> Setup {
    Setup {
        may_truncate: false,
        levels: 4,
        lumping: Lumping::Red,
        omega,
        compensates_positive_couplings: false,
        grids: 1,
        compute_block: 8,
        zero_row_sum: 0.0,
        fused: true,
        storage,
        storage_unit,
        cycle: Cycle { kind: Some(CycleKind::V), spacing: 4, steps: 2, allows_jumps: false },
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
pub(crate) fn random_matrix(grid: Grid, seed: u64) -> [Vec<f64>; 3] {
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

/// Returns a view of a 5-point matrix with the arrays center, east and north.
pub(crate) fn five_point_view(grid: Grid, arrays: &[Vec<f64>; 3]) -> StencilView<'_> {
    let [center, east, north] = arrays.each_ref().map(|values| GridArray::new("an array", values, grid, grid.nx));
    StencilView { grid, center, east, north, corners: None }
}

/// Returns the inspection results of a matrix.
pub(crate) fn inspect_matrix(a: &StencilView) -> Inspection {
    let mut inspection = Inspection::default();
    inspection.start(1).unwrap();
    inspection.inspect(0, a, 0..a.grid.ny, &InspectionOptions { checks_finite: true, zero_row_sum: 0.0 });
    inspection.finish(a, true).unwrap();
    inspection
}

/// Factorizes a matrix twice, and returns values of A, of S1, and of M on the first two grids. Before each
/// factorization, the vectors are filled with nines, because a factorization must not depend on their content.
fn factorize_twice<F: Format>(a: &StencilView, setup: &Setup, threads: usize) -> FactorValues {
    let components = &inspect_matrix(a).components;
    let mut packed = PackedSystem::<F>::new(PackedShape::new(a, setup), None).unwrap();
    packed.prepare(setup, components, threads).unwrap();
    let context = PivotContext::new(a, components);
    let mut team = Team::new(threads).unwrap();
    let packed = &packed;
    let layout = &packed.grids[0].layout;
    for _ in 0..2 {
        for (colour, row) in Colour::ALL.into_iter().flat_map(|c| layout.rows(c).map(move |row| (c, row))) {
            // SAFETY: no run is in progress.
            unsafe {
                [&packed.x, &packed.b].iter().for_each(|v| v[colour].row_mut(row, 0)[layout.columns(colour)].fill(9.0));
                for v in [&packed.r, &packed.p, &packed.q].into_iter().filter(|v| v[colour].bytes() > 0) {
                    v[colour].row_mut(row, 0)[layout.columns(colour)].fill(F::Vector::from_f64(9.0));
                }
            }
        }
        let factorize_share = |thread: TeamThread| packed.factorize_on_thread(thread, setup, &context, None);
        team.run(|thread| drop(factorize_share(thread)), factorize_share).unwrap().unwrap();
    }
    // Solves require that x and b are zero at entries that are not nodes.
    for (v, c) in [&packed.x, &packed.b].into_iter().flat_map(|v| Colour::ALL.map(|c| (v, c))) {
        for row in 0..layout.cy {
            // SAFETY: no run is in progress.
            let values = unsafe { v[c].row(row, 0) };
            let is_node = |i: usize| layout.rows(c).contains(&row) && layout.columns(c).contains(&i);
            assert!(values.iter().enumerate().all(|(i, &v)| v == 0.0 || is_node(i)), "{c:?}, row {row}");
        }
    }
    let (first_grid, second_grid, matrix) = (&packed.grids[0], &packed.grids[1], &packed.matrix);
    fn values<R: Real + Number>(arrays: &[&ColourArray<R>], rows: usize) -> Vec<f64> {
        let array_values = |array: &ColourArray<R>| -> Vec<f64> {
            // SAFETY: no run is in progress.
            (0..rows).flat_map(|row| unsafe { array.row(row, 0) }.iter().map(|v| v.to_f64() + 0.0)).collect()
        };
        arrays.iter().flat_map(|array| array_values(array)).collect()
    }
    let rows = first_grid.layout.cy;
    let (schur, b1_distant, b2_distant) = (&packed.schur, &packed.schur.b1_distant, &packed.schur.b2_distant);
    let couplings: Vec<_> = schur
        .diagonal_couplings
        .arrays
        .iter()
        .chain([&b1_distant.east, &b1_distant.north, &b2_distant.east, &b2_distant.north])
        .collect();
    let center = [&matrix.center.r1, &matrix.center.r2, &matrix.center.b1, &matrix.center.b2];
    let a_arrays: Vec<_> = matrix.axis_couplings.r1.iter().chain(&matrix.axis_couplings.r2).chain(center).collect();
    let mut sweep_values = Vec::new();
    for (grid, factors) in [(first_grid, &first_grid.factors), (second_grid, &second_grid.factors)] {
        for row in grid.layout.rows(Colour::B1) {
            for array in factors.diagonal_couplings.arrays.iter().chain([&factors.stored_pivot.b1]) {
                // SAFETY: no run is in progress.
                let values = unsafe { array.row(row, 0) };
                sweep_values.extend(values[grid.layout.columns(Colour::B1)].iter().map(|v| F::read(*v).to_f64()));
            }
        }
    }
    FactorValues {
        a: values(&a_arrays, rows),
        s1_couplings: values(&couplings, rows),
        s1_centers: values(&[&schur.center[0], &schur.center[1]], rows),
        sweep_values,
    }
}

/// Values of A, of S1, and of those arrays of M that the sweeps read at b1.
#[derive(Debug, PartialEq)]
struct FactorValues {
    a: Vec<f64>,
    s1_couplings: Vec<f64>,
    s1_centers: Vec<f64>,
    sweep_values: Vec<f64>,
}

#[test]
fn factors_are_identical_for_any_thread_count() {
    // On 160 x 60 nodes, a single thread stores row sums and 1 / d in a ring, whereas three threads have too few rows
    // for this.
    let sizes =
        [(5, 140, 1), (64, 141, 1), (61, 301, 2), (97, 300, 2), (40, 500, 3), (17, 17, 1), (33, 18, 1), (160, 60, 3)];
    for (nx, ny, threads) in sizes {
        let grid = Grid { nx, ny };
        let arrays = random_matrix(grid, (nx + ny) as u64);
        let a = five_point_view(grid, &arrays);
        let setup_of = |storage, storage_unit| Setup { grids: 2, ..setup(storage, 1.0, storage_unit) };
        let (f64_setup, bf16_setup) = (setup_of(Storage::F64, 1.0), setup_of(Storage::Bf16, 2.0));
        let one_thread = factorize_twice::<F64Format>(&a, &f64_setup, 1);
        assert_eq!(
            one_thread,
            factorize_twice::<F64Format>(&a, &f64_setup, threads),
            "f64, {nx} x {ny}, {threads} threads"
        );
        let one_thread = factorize_twice::<Bf16Format>(&a, &bf16_setup, 1);
        assert_eq!(
            one_thread,
            factorize_twice::<Bf16Format>(&a, &bf16_setup, threads),
            "bf16, {nx} x {ny}, {threads} threads"
        );
        // With `precision=mixed`, S1 is stored divided by `storage_unit` = 2 and rounded to f32. Its centers are not
        // compared, because row sums replace them.
        let mixed = factorize_twice::<MixedFormat>(&a, &Setup { storage: Storage::Mixed, ..bf16_setup }, 1);
        assert!((&mixed.a, &mixed.sweep_values) == (&one_thread.a, &one_thread.sweep_values), "mixed, {nx} x {ny}");
        let rounded: Vec<f64> = one_thread.s1_couplings.iter().map(|v| f64::from((v / 2.0) as f32)).collect();
        assert!(mixed.s1_couplings == rounded, "mixed, {nx} x {ny}");
        let many_threads =
            factorize_twice::<MixedFormat>(&a, &Setup { storage: Storage::Mixed, ..bf16_setup }, threads);
        assert!(mixed == many_threads, "mixed, {nx} x {ny}, {threads} threads");
    }
}

/// Bits of the arrays that the sweeps read, one entry per grid. The last entry includes the row sums of the nodes b2,
/// from which the matrix of the next grid is computed.
type SweepBits = Vec<Vec<u64>>;

/// Factorizes the two matrices alternately, with the numbers of threads in `thread_counts`. Calls `check_bits` with the
/// result of each factorization.
fn factorize_alternately<F: Format>(
    a: [&StencilView; 2],
    setup: &Setup,
    thread_counts: &[usize],
    mut check_bits: impl FnMut(usize, SweepBits),
) {
    let components = &inspect_matrix(a[1]).components;
    let mut packed = PackedSystem::<F>::new(PackedShape::new(a[1], setup), None).unwrap();

    fn append_bits<T: Number, R: Real>(
        bits: &mut Vec<u64>,
        layout: &Layout,
        colour: Colour,
        array: &ColourArray<T>,
        to_real: fn(T) -> R,
    ) {
        for row in layout.rows(colour).filter(|_| array.bytes() > 0) {
            // SAFETY: no run is in progress.
            let values = unsafe { array.row(row, 0) };
            // Adding zero makes zeros of either sign equal.
            bits.extend(values[layout.columns(colour)].iter().map(|v| (to_real(*v).to_f64() + 0.0).to_bits()));
        }
    }
    let grid_bits = |grid: &PackedGrid<F>, is_last: bool| {
        let (mut bits, factors, layout) = (Vec::new(), &grid.factors, &grid.layout);
        let mut add_stored =
            |colour: Colour, array: &ColourArray<F::Stored>| append_bits(&mut bits, layout, colour, array, F::read);
        for (axis_couplings, colour) in
            [(&factors.axis_couplings.r1, Colour::R1), (&factors.axis_couplings.r2, Colour::R2)]
        {
            axis_couplings.iter().for_each(|array| add_stored(colour, array));
        }
        factors.diagonal_couplings.arrays.iter().for_each(|array| add_stored(Colour::B1, array));
        [Colour::R1, Colour::R2, Colour::B1]
            .into_iter()
            .for_each(|colour| add_stored(colour, &factors.stored_pivot[colour]));
        if let Some(inner_system) = &grid.recursion_grid {
            Colour::ALL.into_iter().for_each(|c| add_stored(c, &inner_system.row_sums[c]));
            inner_system.corners.red.arrays.iter().for_each(|array| add_stored(Colour::R1, array));
            inner_system.corners.black.arrays.iter().for_each(|array| add_stored(Colour::B1, array));
        }
        if is_last {
            append_bits(&mut bits, layout, Colour::B2, &grid.row_sums.b2, |v: f64| v);
        }
        bits
    };
    for (run, &threads) in thread_counts.iter().enumerate() {
        packed.prepare(setup, components, threads).unwrap();
        let mut team = Team::new(threads).unwrap();
        let context = PivotContext::new(a[run % 2], components);
        {
            let packed = &packed;
            let factorize_share = |thread: TeamThread| packed.factorize_on_thread(thread, setup, &context, None);
            team.run(|thread| drop(factorize_share(thread)), factorize_share).unwrap().unwrap();
        }
        packed.is_fresh = false;
        let last_grid_index = packed.grids.len() - 1;
        check_bits(
            run,
            packed.grids.iter().enumerate().map(|(q, grid)| grid_bits(grid, q == last_grid_index)).collect(),
        );
    }
}

/// Covers all formats, `lumping=m1` and `lumping=m2`, and omega = 1 and 0.95. CG can run in single precision only if
/// the first elimination is exact: for a 5-point matrix without compensation.
#[test]
fn alternating_factorizations_equal_separate_ones() {
    // The sizes cover grids shared by all threads, grids of one thread, and shares of one or two rows.
    let sizes = [(260, 301), (33, 1037), (20, 4001), (301, 56), (9, 3000), (257, 65), (64, 64)];
    // The matrix changes before each factorization, and the number of threads before most of them.
    let thread_counts = [1, 2, 2, 5, 3, 3, 1, 5];
    let lumping_kinds = [(Lumping::Red, 0.95), (Lumping::RedAndBlack, 0.95), (Lumping::RedAndBlack, 1.0)];
    for (k, (nx, ny)) in sizes.into_iter().enumerate() {
        let grid = Grid { nx, ny };
        // Large grids test one kind of lumping each, the smallest grid all kinds.
        let lumping_kinds = if grid.nodes() > 5000 { &lumping_kinds[k % 3..][..1] } else { &lumping_kinds };
        // With compensation, one of 16 couplings is positive.
        let random_arrays = |seed: u64, compensate: bool| {
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
            let values = [random_arrays(3, compensate), random_arrays(4, compensate)];
            let a = values.each_ref().map(|arrays| {
                let [center, east, north, northeast, northwest] =
                    arrays.each_ref().map(|values| GridArray::new("an array", values, grid, nx));
                let corners = nine_points.then_some((northeast, northwest));
                StencilView { grid, center, east, north, corners }
            });
            let a = [&a[0], &a[1]];
            let levels = grid.max_levels().min(13);
            let mut earlier_bits: Vec<[SweepBits; 4]> = Vec::new();
            for &(lumping, omega) in lumping_kinds {
                let cycle = Cycle { kind: Some(CycleKind::Amli), spacing: 2, steps: 2, allows_jumps: false };
                let setup_of = |storage, storage_unit| Setup {
                    grids: (levels / 2).min(6),
                    levels,
                    lumping,
                    compensates_positive_couplings: compensate,
                    cycle,
                    ..setup(storage, omega, storage_unit)
                };
                fn compare_with_one_thread<F: Format>(
                    a: [&StencilView; 2],
                    setup: &Setup,
                    thread_counts: &[usize],
                    case_name: &str,
                ) -> SweepBits {
                    let mut one_thread = Vec::new();
                    for matrices in [a, [a[1], a[0]]] {
                        factorize_alternately::<F>(matrices, setup, &[1], |_, bits| one_thread.push(bits));
                    }
                    factorize_alternately::<F>(a, setup, thread_counts, |run, bits| {
                        assert_eq!(bits.len(), setup.grids);
                        for (q, (one_thread, bits)) in one_thread[run % 2].iter().zip(&bits).enumerate() {
                            assert!(one_thread == bits, "{case_name}, step {run}: grid {q}");
                        }
                    });
                    one_thread.swap_remove(1)
                }
                let case_name =
                    |format: &str| format!("{format}, {nx} x {ny}, {lumping:?} {omega}, {nine_points}, {compensate}");
                let bf16 = setup_of(Storage::Bf16, 16.0);
                let mut mixed_bits = SweepBits::new();
                if a[0].corners.is_none() && !compensate {
                    mixed_bits = compare_with_one_thread::<MixedFormat>(
                        a,
                        &Setup { storage: Storage::Mixed, ..bf16 },
                        &thread_counts,
                        &case_name("mixed"),
                    );
                }
                let bits = [
                    compare_with_one_thread::<F64Format>(
                        a,
                        &setup_of(Storage::F64, 1.0),
                        &thread_counts,
                        &case_name("f64"),
                    ),
                    compare_with_one_thread::<F32Format>(
                        a,
                        &setup_of(Storage::F32, 16.0),
                        &thread_counts,
                        &case_name("f32"),
                    ),
                    compare_with_one_thread::<Bf16Format>(a, &bf16, &thread_counts, &case_name("bf16")),
                    mixed_bits,
                ];
                // The formats lead to different M, except that mixed has the same M as bf16.
                assert!(bits[0] != bits[1] && bits[1] != bits[2], "{}", case_name(""));
                assert!(bits[3].is_empty() || bits[3] == bits[2], "{}", case_name("mixed"));
                assert!(earlier_bits.iter().all(|earlier| (0..3).all(|k| earlier[k] != bits[k])), "{}", case_name(""));
                earlier_bits.push(bits);
            }
        }
    }
}

#[test]
fn natural_matrix_returns_a() {
    for (nx, ny) in [(5, 17), (64, 65), (1, 300), (300, 1), (33, 2), (97, 101)] {
        let grid = Grid { nx, ny };
        let expected = random_matrix(grid, 7);
        let a = five_point_view(grid, &expected);
        let setup = setup(Storage::F64, 1.0, 1.0);
        let mut packed = PackedSystem::<F64Format>::new(PackedShape::new(&a, &setup), None).unwrap();
        let components = &inspect_matrix(&a).components;
        packed.prepare(&setup, components, 1).unwrap();
        let context = PivotContext::new(&a, components);
        let packed_ref = &packed;
        let factorize_share = |thread: TeamThread| packed_ref.factorize_on_thread(thread, &setup, &context, None);
        Team::new(1).unwrap().run(|thread| drop(factorize_share(thread)), factorize_share).unwrap().unwrap();
        let (found_grid, mut natural_arrays) = packed.natural_matrix().unwrap().unwrap();
        assert_eq!((found_grid.nx, found_grid.ny), (nx, ny));
        // Couplings that point out of the grid are never read.
        let mut expected = expected;
        for arrays in [&mut expected, &mut natural_arrays] {
            (0..ny).for_each(|j| arrays[1][j * nx + nx - 1] = 0.0);
            arrays[2][(ny - 1) * nx..].fill(0.0);
        }
        assert!(natural_arrays == expected, "{nx} x {ny}");
    }
}
