//! A rank reads only those halo rows that it has received or computed. To check this, the tests fill all halo rows with
//! NaN before the factorization or before the solve.

use super::*;
use crate::base::heap::FallibleArc;
use crate::base::team::{Team, TeamThread};
use crate::distributed::strips::Strips;
use crate::distributed::{Comm, threads};
use crate::krylov::solve_steps::{Arrays, SolveSteps, complete_with_norm2, load_and_reduce};
use crate::krylov::vectors::Iterate;
use crate::report::{NoObserver, Outcome};
use crate::rrb::backend::Setup;
use crate::rrb::cpu::PackedSolver;
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::factor::tests::{five_point_view, inspect_matrix, random_matrix, setup};
use crate::rrb::cpu::neighbours::{AxisCouplings, DiagonalCouplings, DistantCouplings};
use crate::rrb::cpu::number::{Bf16Format, F32Format, F64Format, Format, MixedFormat};
use crate::rrb::cpu::packed::PackedSystem;
use crate::rrb::cpu::system::PackedShape;
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::rrb::storage::Storage;
use crate::stencil::matrix::{GridArray, StencilView};
use std::sync::atomic::Ordering;

/// Halo rows of one grid, which are filled with NaN.
struct HaloPoison<'a> {
    layout: &'a Layout,
    own_rows: Range<usize>,
}

impl HaloPoison<'_> {
    /// Fills the halo rows of an array with NaN, except the first and the last column: couplings out of the grid are
    /// zeros that no thread writes.
    fn poison_array<T: Number>(&self, array: &ColourArray<T>, colour: Colour, nan: T) {
        let columns = self.layout.columns(colour);
        if array.bytes() == 0 || columns.len() < 3 {
            return;
        }
        for row in (self.layout.first_row..self.layout.end_row).filter(|row| !self.own_rows.contains(row)) {
            // SAFETY: no run is in progress.
            unsafe { array.row_mut(row, 0)[columns.start + 1..columns.end - 1].fill(nan) };
        }
    }

    fn poison_colours<T: Number>(&self, values: &FourColours<T>, nan: T) {
        Colour::ALL.iter().for_each(|&colour| self.poison_array(&values[colour], colour, nan));
    }

    fn poison_diagonal<T: Number>(&self, couplings: &DiagonalCouplings<T>, colour: Colour, nan: T) {
        couplings.arrays.iter().for_each(|array| self.poison_array(array, colour, nan));
    }

    fn poison_axis_couplings<T: Number>(&self, couplings: &AxisCouplings<T>, nan: T) {
        couplings.r1.iter().for_each(|array| self.poison_array(array, Colour::R1, nan));
        couplings.r2.iter().for_each(|array| self.poison_array(array, Colour::R2, nan));
    }

    fn poison_distant<T: Number>(&self, couplings: &DistantCouplings<T>, colour: Colour, nan: T) {
        [&couplings.east, &couplings.north].into_iter().for_each(|array| self.poison_array(array, colour, nan));
    }
}

fn poison_matrix<F: Format>(packed: &PackedSystem<F>) {
    for (q, grid) in packed.grids.iter().enumerate().filter(|(_, grid)| grid.halo.is_some()) {
        let poison = HaloPoison { layout: &grid.layout, own_rows: grid.own_rows.clone() };
        let (nan, stored_nan) = (f64::NAN, F::write(f64::NAN));
        poison.poison_colours(&grid.row_sums, nan);
        poison.poison_colours(&grid.inverse_pivots, nan);
        poison.poison_diagonal(&grid.red_diagonal, Colour::R1, nan);
        poison.poison_diagonal(&grid.black_diagonal, Colour::B1, nan);
        poison.poison_axis_couplings(&grid.factors.axis_couplings, stored_nan);
        poison.poison_diagonal(&grid.factors.diagonal_couplings, Colour::B1, stored_nan);
        poison.poison_colours(&grid.factors.stored_pivot, stored_nan);
        if let Some(inner_system) = &grid.recursion_grid {
            poison.poison_colours(&inner_system.row_sums, stored_nan);
            poison.poison_diagonal(&inner_system.corners.red, Colour::R1, stored_nan);
            poison.poison_diagonal(&inner_system.corners.black, Colour::B1, stored_nan);
        }
        if q == 0 {
            let vector = F::Vector::from_f64(nan);
            poison.poison_colours(&packed.matrix.center, nan);
            poison.poison_axis_couplings(&packed.matrix.axis_couplings, nan);
            poison.poison_diagonal(&packed.schur.diagonal_couplings, Colour::B1, vector);
            poison.poison_distant(&packed.schur.b1_distant, Colour::B1, vector);
            poison.poison_distant(&packed.schur.b2_distant, Colour::B2, vector);
        }
    }
}

fn poison_vectors<F: Format>(packed: &PackedSystem<F>) {
    for (q, grid) in packed.grids.iter().enumerate().filter(|(_, grid)| grid.halo.is_some()) {
        let poison = HaloPoison { layout: &grid.layout, own_rows: grid.own_rows.clone() };
        let inner_system = grid
            .recursion_grid
            .iter()
            .flat_map(|inner_system| [&inner_system.r, &inner_system.d, &inner_system.q, &inner_system.u]);
        inner_system.chain([&grid.z]).for_each(|v| poison.poison_colours(v, F::Real::from_f64(f64::NAN)));
        if q == 0 {
            [&packed.b, &packed.x].into_iter().for_each(|v| poison.poison_colours(v, f64::NAN));
            [&packed.r, &packed.p, &packed.q]
                .into_iter()
                .for_each(|v| poison.poison_colours(v, F::Vector::from_f64(f64::NAN)));
        }
    }
}

/// Runs the steps of a solve, fused or not, and collects the sums that the steps return.
fn run_steps(s: &mut dyn SolveSteps, sums: &Mutex<Vec<u64>>, is_first: bool) -> Result<Outcome> {
    let mut step_results = Vec::new();
    let start_norms = load_and_reduce(s, 1.0, true);
    step_results.extend([start_norms.rhs_norm2, start_norms.whole_residual_norm2]);
    step_results.push(s.residual(Iterate::X));
    step_results.extend([s.descend(None), s.preconditioned_square(), s.ascend(None)]);
    for step in [(0.3, 0.5), (0.2, 0.1)] {
        step_results.extend([s.descend(Some(step.0)), s.preconditioned_square(), s.ascend(Some(step))]);
    }
    let (largest, square) = complete_with_norm2(s, 1.0);
    step_results.extend([largest, square]);
    s.store(1.0);
    if is_first {
        lock(sums).extend(step_results.iter().map(|v| v.to_bits()));
    }
    Ok(Outcome::default())
}

/// Returns the sums and x of each rank.
fn results_of_ranks<F: Format>(
    arrays: &[Vec<f64>; 3],
    grid: Grid,
    setup: &Setup,
    (ranks, reproducible): (usize, bool),
    threads: usize,
) -> Vec<(Vec<u64>, Vec<u64>)> {
    let thread_ranks = threads::create_ranks(ranks);
    let b: Vec<f64> = (0..grid.nodes()).map(|p| (p as f64).sin()).collect();
    let guess: Vec<f64> = (0..grid.nodes()).map(|p| (0.1 * p as f64).cos()).collect();
    let run_rank = |comm: FallibleArc<Comm>| {
        let rank = comm.rank();
        let strips = FallibleArc::new(Strips::new(grid, ranks, 2).unwrap().unwrap(), HALO_ALLOCATION).unwrap();
        let rows = Domain::rows_with_halo(&strips, rank);
        let own_rows = strips.natural_rows(rank);
        let domain = Domain::new(&comm, &strips, reproducible).unwrap();
        let part_of = |v: &[f64]| v[rows.start * grid.nx..rows.end * grid.nx].to_vec();
        let part_arrays = arrays.each_ref().map(|v| part_of(v));
        let view = |k: usize| GridArray::of_rows("an array", &part_arrays[k], grid, rows.start);
        let a = StencilView { grid, center: view(0), east: view(1), north: view(2), corners: None };
        let mut packed = PackedSystem::<F>::new(PackedShape::new(&a, setup), Some(&domain)).unwrap();
        let whole_matrix = five_point_view(grid, arrays);
        let components = inspect_matrix(&whole_matrix).components;
        let mut team = Team::new(threads).unwrap();
        for _ in 0..2 {
            packed.factorize(&mut team, &a, setup, &components).unwrap();
            poison_matrix(&packed);
        }
        packed.factorize(&mut team, &a, setup, &components).unwrap();
        poison_vectors(&packed);
        let mut x = part_of(&guess);
        // A rank must read only its own rows of the initial guess.
        let halo_values = (own_rows.start - rows.start) * grid.nx;
        x[..halo_values].fill(f64::NAN);
        x[halo_values + own_rows.len() * grid.nx..].fill(f64::NAN);
        let sums = Mutex::new(Vec::new());
        let arrays = Arrays {
            input_name: "b",
            input: &part_of(&b),
            ld: grid.nx,
            plane: grid.nodes(),
            output: &mut x,
            device_input: 0,
            device_output: 0,
            len: grid.nodes(),
            first_row: rows.start,
        };
        let is_first = std::sync::atomic::AtomicBool::new(true);
        packed
            .run(&mut team, arrays, &mut NoObserver, &|s| run_steps(s, &sums, is_first.swap(false, Ordering::Relaxed)))
            .unwrap();
        let x = x[halo_values..halo_values + own_rows.len() * grid.nx].iter().map(|v| v.to_bits()).collect();
        (sums.into_inner().unwrap(), x)
    };
    let comms: Vec<_> = thread_ranks.iter().map(|rank| Comm::new(&rank.table()).unwrap()).collect();
    let results: Vec<_> = (0..ranks).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
    // Each thread of this team represents a rank, and has another team of threads.
    let run_on_thread = |thread: TeamThread| *lock(&results[thread.index]) = run_rank(comms[thread.index].clone());
    Team::new(ranks).unwrap().run(run_on_thread, run_on_thread).unwrap();
    results.into_iter().map(|results| results.into_inner().unwrap()).collect()
}

fn check_format<F: Format>(storage: Storage) {
    for (nx, ny) in [(130, 99), (65, 150), (301, 64)] {
        let grid = Grid { nx, ny };
        let arrays = random_matrix(grid, 3);
        for kind in [CycleKind::V, CycleKind::Amli, CycleKind::K] {
            for fused in [true, false] {
                let storage_unit = if storage == Storage::F64 { 1.0 } else { 4.0 };
                let cycle = Cycle { kind: Some(kind), spacing: 2, steps: 2, allows_jumps: false };
                let setup_of_case = Setup { levels: 6, grids: 3, fused, cycle, ..setup(storage, 1.0, storage_unit) };
                // Bound for the rounding errors of the vectors after two steps.
                let rounding = if storage == Storage::F64 { 1e-12 } else { 1e-4 };
                let single_rank = &results_of_ranks::<F>(&arrays, grid, &setup_of_case, (1, true), 2)[0];
                for (ranks, threads) in [(2, 1), (3, 2), (4, 1)] {
                    let of_ranks = results_of_ranks::<F>(&arrays, grid, &setup_of_case, (ranks, true), threads);
                    assert!(
                        of_ranks.iter().all(|(sums, _)| *sums == single_rank.0),
                        "{nx} x {ny}, {kind:?}, {fused}, {ranks}"
                    );
                    let x: Vec<u64> = of_ranks.into_iter().flat_map(|(_, x)| x).collect();
                    assert!(x == single_rank.1, "{nx} x {ny}, {kind:?}, {fused}, {ranks}: x");
                    // If each rank sends one total instead of all partial sums, all ranks have equal sums, and no sum
                    // is NaN.
                    let with_rank_totals =
                        results_of_ranks::<F>(&arrays, grid, &setup_of_case, (ranks, false), threads);
                    let (sums, _) = &with_rank_totals[0];
                    assert!(
                        with_rank_totals.iter().all(|(other_sums, _)| other_sums == sums),
                        "{nx} x {ny}, {kind:?}, {fused}, {ranks}"
                    );
                    let relative_difference = |(sum, single_rank_sum): (&u64, &u64)| {
                        f64::from_bits(*sum) / f64::from_bits(*single_rank_sum) - 1.0
                    };
                    let relative_difference = sums.iter().zip(&single_rank.0).map(relative_difference);
                    assert!(
                        { relative_difference }.all(|relative_difference| relative_difference.abs() <= rounding),
                        "{nx} x {ny}, {kind:?}, {fused}, {ranks}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_received_halo_rows_are_read() {
    check_format::<F64Format>(Storage::F64);
    check_format::<F32Format>(Storage::F32);
    check_format::<Bf16Format>(Storage::Bf16);
    check_format::<MixedFormat>(Storage::Mixed);
}
