//! A rank reads only those halo rows that it has received or computed. These tests check this: they fill all halo rows
//! with NaN before the factorization, or before the solve.

use super::*;
use crate::base::heap::Counted;
use crate::base::team::{Me, Team};
use crate::distributed::strips::Strips;
use crate::distributed::{Comm, threads};
use crate::krylov::solve_steps::{Arrays, SolveSteps, begin, complete};
use crate::krylov::vectors::Iterate;
use crate::report::{NoObserver, Outcome};
use crate::rrb::backend::Setup;
use crate::rrb::cpu::PackedSolver;
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::factor::tests::{five_points, inspected, matrix, setup};
use crate::rrb::cpu::neighbours::{Diagonal, Distant, Straight};
use crate::rrb::cpu::number::{BrainFloat, Double, Format, Mixed, Single};
use crate::rrb::cpu::packed::Packed;
use crate::rrb::cpu::system::Shape;
use crate::rrb::recursion::{Cycle, Kind};
use crate::rrb::storage::Storage;
use crate::stencil::matrix::{StencilView, View};
use std::sync::atomic::Ordering;

/// Halo rows of one grid, which are filled with NaN.
struct Poison<'a> {
    layout: &'a Layout,
    own: Range<usize>,
}

impl Poison<'_> {
    /// Fills the halo rows of an array with NaN, except the first and the last column: couplings out of the grid are
    /// zeros that no thread writes.
    fn area<T: Number>(&self, area: &ColourArray<T>, colour: Colour, nan: T) {
        let columns = self.layout.columns(colour);
        if area.bytes() == 0 || columns.len() < 3 {
            return;
        }
        for row in (self.layout.from..self.layout.to).filter(|row| !self.own.contains(row)) {
            // SAFETY: no run is in progress.
            unsafe { area.row_mut(row, 0)[columns.start + 1..columns.end - 1].fill(nan) };
        }
    }

    fn four<T: Number>(&self, four: &FourColours<T>, nan: T) {
        Colour::ALL.iter().for_each(|&colour| self.area(&four[colour], colour, nan));
    }

    fn diagonal<T: Number>(&self, couplings: &Diagonal<T>, colour: Colour, nan: T) {
        couplings.of.iter().for_each(|area| self.area(area, colour, nan));
    }

    fn straight<T: Number>(&self, couplings: &Straight<T>, nan: T) {
        couplings.r1.iter().for_each(|area| self.area(area, Colour::R1, nan));
        couplings.r2.iter().for_each(|area| self.area(area, Colour::R2, nan));
    }

    fn distant<T: Number>(&self, couplings: &Distant<T>, colour: Colour, nan: T) {
        [&couplings.east, &couplings.north].into_iter().for_each(|area| self.area(area, colour, nan));
    }
}

fn poison_matrix<F: Format>(k: &Packed<F>) {
    for (q, grid) in k.grids.iter().enumerate().filter(|(_, grid)| grid.halo.is_some()) {
        let poison = Poison { layout: &grid.layout, own: grid.own.clone() };
        let (nan, short) = (f64::NAN, F::write(f64::NAN));
        poison.four(&grid.excess, nan);
        poison.four(&grid.inverse, nan);
        poison.diagonal(&grid.red_diagonal, Colour::R1, nan);
        poison.diagonal(&grid.black_diagonal, Colour::B1, nan);
        poison.straight(&grid.sweep.straight, short);
        poison.diagonal(&grid.sweep.diagonal, Colour::B1, short);
        poison.four(&grid.sweep.stored_pivot, short);
        if let Some(inner) = &grid.recursion {
            poison.four(&inner.excess, short);
            poison.diagonal(&inner.corners.red, Colour::R1, short);
            poison.diagonal(&inner.corners.black, Colour::B1, short);
        }
        if q == 0 {
            let vector = F::Vector::narrow(nan);
            poison.four(&k.matrix.center, nan);
            poison.straight(&k.matrix.straight, nan);
            poison.diagonal(&k.schur.diagonal, Colour::B1, vector);
            poison.distant(&k.schur.b1_distant, Colour::B1, vector);
            poison.distant(&k.schur.b2_distant, Colour::B2, vector);
        }
    }
}

fn poison_vectors<F: Format>(k: &Packed<F>) {
    for (q, grid) in k.grids.iter().enumerate().filter(|(_, grid)| grid.halo.is_some()) {
        let poison = Poison { layout: &grid.layout, own: grid.own.clone() };
        let inner = grid.recursion.iter().flat_map(|inner| [&inner.r, &inner.d, &inner.q, &inner.u]);
        inner.chain([&grid.z]).for_each(|v| poison.four(v, F::Real::narrow(f64::NAN)));
        if q == 0 {
            [&k.b, &k.x].into_iter().for_each(|v| poison.four(v, f64::NAN));
            [&k.r, &k.p, &k.q].into_iter().for_each(|v| poison.four(v, F::Vector::narrow(f64::NAN)));
        }
    }
}

/// Runs the steps of a solve, fused or not, and collects the sums that the steps return.
fn run_steps(s: &mut dyn SolveSteps, sums: &Mutex<Vec<u64>>, is_first: bool) -> Result<Outcome> {
    let mut seen = Vec::new();
    let begun = begin(s, 1.0, true);
    seen.extend([begun.rhs_norm2, begun.whole_residual_norm2]);
    seen.push(s.residual(Iterate::X));
    seen.extend([s.descend(None), s.preconditioned_square(), s.ascend(None)]);
    for step in [(0.3, 0.5), (0.2, 0.1)] {
        seen.extend([s.descend(Some(step.0)), s.preconditioned_square(), s.ascend(Some(step))]);
    }
    let (largest, square) = complete(s, 1.0);
    seen.extend([largest, square]);
    s.store(1.0);
    if is_first {
        lock(sums).extend(seen.iter().map(|v| v.to_bits()));
    }
    Ok(Outcome::default())
}

/// Returns the sums and x of each rank.
fn results_of_ranks<F: Format>(
    arrays: &[Vec<f64>; 3],
    grid: Grid,
    setup: &Setup,
    (ranks, reproducible): (usize, bool),
    members: usize,
) -> Vec<(Vec<u64>, Vec<u64>)> {
    let all = threads::ranks(ranks);
    let b: Vec<f64> = (0..grid.nodes()).map(|p| (p as f64).sin()).collect();
    let guess: Vec<f64> = (0..grid.nodes()).map(|p| (0.1 * p as f64).cos()).collect();
    let one = |comm: Counted<Comm>| {
        let rank = comm.rank();
        let strips = Counted::new(Strips::new(grid, ranks, 2).unwrap().unwrap(), HALOS).unwrap();
        let rows = Domain::slab(&strips, rank);
        let own = strips.natural(rank);
        let domain = Domain::new(&comm, &strips, reproducible).unwrap();
        let part = |v: &[f64]| v[rows.start * grid.nx..rows.end * grid.nx].to_vec();
        let parts = arrays.each_ref().map(|v| part(v));
        let view = |k: usize| View::of_rows("an array", &parts[k], grid, rows.start);
        let a = StencilView { grid, center: view(0), east: view(1), north: view(2), corners: None };
        let mut k = Packed::<F>::new(Shape::new(&a, setup), Some(&domain)).unwrap();
        let whole = five_points(grid, arrays);
        let components = inspected(&whole).components;
        let mut team = Team::new(members).unwrap();
        for _ in 0..2 {
            k.factorize(&mut team, &a, setup, &components).unwrap();
            poison_matrix(&k);
        }
        k.factorize(&mut team, &a, setup, &components).unwrap();
        poison_vectors(&k);
        let mut x = part(&guess);
        // A rank must read only its own rows of the initial guess.
        let before = (own.start - rows.start) * grid.nx;
        x[..before].fill(f64::NAN);
        x[before + own.len() * grid.nx..].fill(f64::NAN);
        let sums = Mutex::new(Vec::new());
        let arrays = Arrays {
            input_name: "b",
            input: &part(&b),
            ld: grid.nx,
            plane: grid.nodes(),
            output: &mut x,
            device_input: 0,
            device_output: 0,
            len: grid.nodes(),
            first_row: rows.start,
        };
        let first = std::sync::atomic::AtomicBool::new(true);
        k.run(&mut team, arrays, &mut NoObserver, &|s| run_steps(s, &sums, first.swap(false, Ordering::Relaxed)))
            .unwrap();
        let x = x[before..before + own.len() * grid.nx].iter().map(|v| v.to_bits()).collect();
        (sums.into_inner().unwrap(), x)
    };
    let comms: Vec<_> = all.iter().map(|rank| Comm::new(&rank.table()).unwrap()).collect();
    let seen: Vec<_> = (0..ranks).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
    // Each thread of this team represents a rank, and has another team of threads.
    let run = |me: Me| *lock(&seen[me.index]) = one(comms[me.index].clone());
    Team::new(ranks).unwrap().run(run, run).unwrap();
    seen.into_iter().map(|seen| seen.into_inner().unwrap()).collect()
}

fn check<F: Format>(storage: Storage) {
    for (nx, ny) in [(130, 99), (65, 150), (301, 64)] {
        let grid = Grid { nx, ny };
        let arrays = matrix(grid, 3);
        for kind in [Kind::V, Kind::Amli, Kind::K] {
            for fused in [true, false] {
                let unit = if storage == Storage::F64 { 1.0 } else { 4.0 };
                let cycle = Cycle { kind: Some(kind), spacing: 2, steps: 2, allows_jumps: false };
                let wanted = Setup { levels: 6, grids: 3, fused, cycle, ..setup(storage, 1.0, unit) };
                // Bound for the rounding errors of the vectors after two steps.
                let rounded = if storage == Storage::F64 { 1e-12 } else { 1e-4 };
                let one = &results_of_ranks::<F>(&arrays, grid, &wanted, (1, true), 2)[0];
                for (ranks, members) in [(2, 1), (3, 2), (4, 1)] {
                    let all = results_of_ranks::<F>(&arrays, grid, &wanted, (ranks, true), members);
                    assert!(all.iter().all(|(sums, _)| *sums == one.0), "{nx} x {ny}, {kind:?}, {fused}, {ranks}");
                    let x: Vec<u64> = all.into_iter().flat_map(|(_, x)| x).collect();
                    assert!(x == one.1, "{nx} x {ny}, {kind:?}, {fused}, {ranks}: x");
                    // If each rank sends one total instead of all partial sums, all ranks have equal sums, and no sum
                    // is NaN.
                    let by_ranks = results_of_ranks::<F>(&arrays, grid, &wanted, (ranks, false), members);
                    let (sums, _) = &by_ranks[0];
                    assert!(
                        by_ranks.iter().all(|(others, _)| others == sums),
                        "{nx} x {ny}, {kind:?}, {fused}, {ranks}"
                    );
                    let off = |(sum, of_one): (&u64, &u64)| f64::from_bits(*sum) / f64::from_bits(*of_one) - 1.0;
                    let off = sums.iter().zip(&one.0).map(off);
                    assert!({ off }.all(|off| off.abs() <= rounded), "{nx} x {ny}, {kind:?}, {fused}, {ranks}");
                }
            }
        }
    }
}

#[test]
fn only_received_halo_rows_are_read() {
    check::<Double>(Storage::F64);
    check::<Single>(Storage::F32);
    check::<BrainFloat>(Storage::Bf16);
    check::<Mixed>(Storage::Mixed);
}
