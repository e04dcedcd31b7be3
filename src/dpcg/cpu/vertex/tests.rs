use super::*;
use crate::dpcg::cpu::tests::{random_vector, view_system};
use crate::dpcg::survey::SurveyData;
use crate::stencil::cell_components::STRONG_COUPLING_RATIO;
use crate::stencil::components::ZERO_ROW_SUM;
use rrbsolver_oracle::pcg::{Deflation, pcg};
use rrbsolver_oracle::{System, dot, vertex as oracle};
use rrbsolver_problems::two_phase::TwoPhase;
use std::fmt::Write;

/// Sizes of test boxes: lines, planes, and odd and even extents.
const TEST_SIZES: [[usize; 3]; 9] =
    [[1, 1, 1], [2, 2, 2], [1, 40, 30], [50, 1, 1], [1, 1, 7], [13, 11, 9], [16, 9, 33], [5, 64, 3], [37, 20, 18]];

/// Computes z = M^-1 r with a team. Returns z, followed by <r, z>.
fn apply_with_team<T: Real + Number>(multigrid: &VertexMultigrid<T>, team: &mut Team, r: &[f64]) -> Vec<f64> {
    let z = Shared::<f64>::zeroed(r.len()).unwrap();
    let magnitude = max_abs(r);
    let apply = |thread: TeamThread| {
        // SAFETY: each thread requests its own cells.
        multigrid.apply(thread, r, magnitude, |cells| unsafe { z.slice_mut(cells.start, cells.len()) })
    };
    let product = team.run(|thread| _ = apply(thread), apply).unwrap();
    // SAFETY: the run has ended.
    let z = unsafe { z.slice(0, r.len()) }.to_vec();
    let expected: f64 = r.iter().zip(&z).map(|(r, z)| r * z).sum();
    // The bound allows for rounding errors of a sum of positive and negative terms.
    assert!((product - expected).abs() <= 1e-9 * expected.abs(), "{product} {expected}");
    [z, vec![product]].concat()
}

fn build_multigrid<T: Real + Number>(
    system: &System,
    team: &mut Team,
    sweeps: usize,
    limits: CoarseningLimits,
) -> VertexMultigrid<T> {
    let a = view_system(system);
    let mut multigrid = VertexMultigrid::with_limits(a.cells, sweeps, team.threads(), limits).unwrap();
    // The second setup must not depend on the first.
    for _ in 0..2 {
        multigrid.compute_grids(team, &a).unwrap();
    }
    multigrid
}

/// Returns M^-1 as a function of r and z, with one thread.
fn preconditioner<T: Real + Number>(
    system: &System,
    sweeps: usize,
    limits: CoarseningLimits,
) -> impl FnMut(&[f64], &mut [f64]) + use<T> {
    let mut team = Team::new(1).unwrap();
    let multigrid = build_multigrid::<T>(system, &mut team, sweeps, limits);
    move |r, z| z.copy_from_slice(&apply_with_team(&multigrid, &mut team, r)[..r.len()])
}

/// Applies M^-1 to a random vector. Returns the largest difference from the result of the plain loops of the oracle,
/// relative to the largest value.
fn oracle_difference<T: Real + Number>(system: &System, sweeps: usize, limits: CoarseningLimits) -> f64 {
    let r = random_vector(system.count(), 11);
    let mut expected = vec![0.0; r.len()];
    let CoarseningLimits { semicoarsening_ratio: semi, max_coarsest_points: coarsest, singular_row_sum: singular } =
        limits;
    oracle::Vertex::new(system, sweeps, oracle::Bounds { semi, coarsest, singular }).apply(&r, &mut expected);
    let mut results: Vec<Vec<f64>> = Vec::new();
    for threads in [1, 2, 3, 7] {
        let mut team = Team::new(threads).unwrap();
        let multigrid = build_multigrid::<T>(system, &mut team, sweeps, limits);
        results.push(apply_with_team(&multigrid, &mut team, &r));
        assert_eq!(apply_with_team(&multigrid, &mut team, &r), results[0], "{threads} threads");
    }
    assert!(results.iter().all(|z| *z == results[0]));
    let largest = expected.iter().fold(0.0, |maximum: f64, z| maximum.max(z.abs()));
    let differences = expected.iter().zip(&results[0]).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f64::max) / largest
}

#[test]
fn matches_the_oracle_on_awkward_sizes() {
    for size in TEST_SIZES {
        for (sweeps, row_sum, max_coarsest_points) in [(1, 0.0, 1), (2, 0.0, 20), (1, 0.1, 8), (2, 0.1, 300)] {
            let system = System::random(size, 3, row_sum, |indices, d| !(indices[d] == 4 && d == 1));
            // With `semicoarsening_ratio` = 1e9, all directions are coarsened, even those with weak couplings.
            for semicoarsening_ratio in [1e9, 3.0] {
                let limits =
                    CoarseningLimits { semicoarsening_ratio, max_coarsest_points, ..CoarseningLimits::default() };
                let name = format!("{size:?}, V({sweeps},{sweeps}), row sum {row_sum}, semi {semicoarsening_ratio}");
                let (double_difference, single_difference) = (
                    oracle_difference::<f64>(&system, sweeps, limits),
                    oracle_difference::<f32>(&system, sweeps, limits),
                );
                // The bounds are rounding errors times the condition number for conductances that differ by a factor of
                // 1e6.
                assert!(double_difference <= 1e-9, "{name}: {double_difference:e}");
                assert!(single_difference <= 1e-2, "{name}, single: {single_difference:e}");
            }
        }
    }
}

#[test]
fn matches_the_oracle_on_two_phases() {
    for (bubble_set, contrast) in
        [("9", 1e-3), ("9;dir=top", 1e-3), ("surf;obs=box", 1e-3), ("9;asp=4", 1e-3), ("dam", 1.0)]
    {
        let system = System::of(&TwoPhase::new(bubble_set, [34, 27, 30], contrast));
        for sweeps in [1, 2] {
            let limits = CoarseningLimits { max_coarsest_points: 100, ..CoarseningLimits::default() };
            let double_difference = oracle_difference::<f64>(&system, sweeps, limits);
            let single_difference = oracle_difference::<f32>(&system, sweeps, limits);
            assert!(double_difference <= 1e-10, "{bubble_set}: {double_difference:e}");
            // Around obstacles, row sums of coarse matrices are close to the limit `ZERO_ROW_SUM`, so single precision
            // may round them to zero.
            assert!(single_difference <= 1e-2, "{bubble_set}, single: {single_difference:e}");
        }
    }
}

/// A row of the golden table (tests/golden/README.md).
struct GoldenRow {
    size: [usize; 3],
    bubble_set: String,
    contrast: f64,
    rhs: String,
    sweeps: usize,
    is_single_precision: bool,
    uses_deflation: bool,
    iterations: usize,
    /// Iteration count of this library (`Means::Singular`), for rows in which this count is lower than the prototype's
    /// count.
    fewer_iterations: Option<usize>,
    /// For [`ROUNDED_ROW`], the expected iteration count of this library with `Means::All`; `None` for all other rows.
    /// This count replaces `iterations`, because the prototype's count for this row depends on rounding errors.
    rounded_iterations: Option<usize>,
}

/// The beginning of a row of the golden table, and the iteration count of this library with `Means::All`. The contrast
/// of this row is 1e-6. The prototype needs 14 iterations in double precision, but 19 in single precision.
const ROUNDED_ROW: (&str, usize) = ("64,sheet,-,1e-6,harm,rand,gmg27-v22-f32,none,", 15);

/// Returns the rows of the table that converged and that use the method of this module.
fn read_golden_rows() -> Vec<GoldenRow> {
    let text = include_str!("../../../../tests/golden/gmg.csv");
    let parse_row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let is_other_method = fields[1].contains("semi=") || fields[1].contains("min=");
        if fields[11] != "1" || is_other_method {
            return None;
        }
        assert!(["none", "LS"].contains(&fields[7]), "{line}");
        let size: Vec<usize> = fields[0].split('x').map(|n| n.parse().unwrap()).collect();
        Some(GoldenRow {
            size: if size.len() == 1 { [size[0]; 3] } else { [size[0], size[1], size[2]] },
            bubble_set: fields[1].to_owned(),
            contrast: fields[3].parse().unwrap(),
            rhs: fields[5].to_owned(),
            sweeps: if fields[6].contains("v11") { 1 } else { 2 },
            is_single_precision: fields[6].ends_with("f32"),
            uses_deflation: fields[7] == "LS",
            iterations: fields[9].parse().unwrap(),
            fewer_iterations: find_fewer_iterations(line),
            rounded_iterations: line.starts_with(ROUNDED_ROW.0).then_some(ROUNDED_ROW.1),
        })
    };
    text.lines().skip(1).filter_map(parse_row).collect()
}

/// Components of the coarsest grid whose mean is subtracted: the singular components, as in this library, or all
/// components, as in the prototype.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Means {
    Singular,
    All,
}

fn count_row_iterations<T: Real + Number>(
    row: &GoldenRow,
    problem: &TwoPhase,
    system: &System,
    b: &[f64],
    means: Means,
) -> usize {
    let singular_row_sum = if means == Means::All { f64::INFINITY } else { 0.0 };
    let mut m =
        preconditioner::<T>(system, row.sweeps, CoarseningLimits { singular_row_sum, ..CoarseningLimits::default() });
    let deflation = row.uses_deflation.then(|| Deflation::of_groups(system, STRONG_COUPLING_RATIO));
    let (x, iterations) = pcg(system, &mut m, deflation.as_ref(), b, (1e-6, 200));
    let relative_residual = problem.relative_residual(b, &x);
    // After so few iterations, the rounding errors of the recurred residual are far below the tolerance.
    assert!(relative_residual <= 1.01e-6, "{}: {relative_residual:e} after {iterations}", row.bubble_set);
    iterations
}

/// Returns this library's count for a row that needs fewer iterations than the prototype (tests/golden/README.md).
fn find_fewer_iterations(line: &str) -> Option<usize> {
    let text = include_str!("../../../../tests/golden/fewer.csv");
    text.lines().skip(1).find_map(|row| {
        let (system, count) = row.rsplit_once(',')?;
        line.strip_prefix(system)?.starts_with(',').then(|| count.parse().ok())?
    })
}

fn compare_golden_rows(rows: &[GoldenRow]) {
    let mut mismatches = String::new();
    let mut current_problem: Option<(String, TwoPhase, System, Vec<f64>)> = None;
    for row in rows {
        let key = format!("{:?} {} {:e} {}", row.size, row.bubble_set, row.contrast, row.rhs);
        if current_problem.as_ref().is_none_or(|current_problem| current_problem.0 != key) {
            // Set 0 contains only water.
            let (bubble_set, contrast) =
                if row.bubble_set == "0" { ("1", 1.0) } else { (&*row.bubble_set, row.contrast) };
            let problem = TwoPhase::new(bubble_set, row.size, contrast);
            let (system, b) = (System::of(&problem), problem.rhs(&row.rhs));
            current_problem = Some((key, problem, system, b));
        }
        let (key, problem, system, b) = current_problem.as_ref().unwrap();
        let mut check_count = |means: Means, expected: usize, tolerance: usize| {
            let count = match row.is_single_precision {
                true => count_row_iterations::<f32>(row, problem, system, b, means),
                false => count_row_iterations::<f64>(row, problem, system, b, means),
            };
            if count.abs_diff(expected) > tolerance {
                let (precision_name, uses_deflation) =
                    (if row.is_single_precision { "f32" } else { "f64" }, row.uses_deflation);
                let row = format!("{key} V({0},{0}) {precision_name}, deflated {uses_deflation}", row.sweeps);
                writeln!(mismatches, "{row}, means {means:?}: {count}, not {expected}").unwrap();
            }
        };
        let tolerance = match row.iterations {
            n if n > 20 => n * 15 / 100,
            _ if row.is_single_precision => 2,
            _ => 1,
        };
        if let Some(fewer_iterations) = row.fewer_iterations {
            check_count(Means::Singular, fewer_iterations, 1);
        }
        let means = if row.fewer_iterations.is_some() { Means::All } else { Means::Singular };
        check_count(means, row.rounded_iterations.unwrap_or(row.iterations), tolerance);
    }
    assert!(mismatches.is_empty(), "of {} rows\n{mismatches}", rows.len());
}

/// Environment variable that requests all rows, which take a quarter of an hour.
const ALL_ROWS: &str = "RRBSOLVER_ALL_ROWS";

#[test]
fn iteration_counts_match_the_golden_rows() {
    let runs_all_rows = std::env::var_os(ALL_ROWS).is_some();
    let is_small = |row: &GoldenRow| row.size.iter().product::<usize>() <= 48 * 48 * 48;
    let rows: Vec<GoldenRow> = read_golden_rows().into_iter().filter(|row| runs_all_rows || is_small(row)).collect();
    assert!(rows.len() >= 32);
    compare_golden_rows(&rows);
}

#[test]
fn symmetric_and_positive_on_awkward_sizes() {
    for size in TEST_SIZES {
        for (sweeps, row_sum, max_coarsest_points) in [(1, 0.0, 1), (2, 0.0, 20), (1, 0.1, 8), (2, 0.1, 1000)] {
            let system = System::random(size, 3, row_sum, |indices, d| !(indices[d] == 4 && d == 1));
            let mut m = preconditioner::<f64>(
                &system,
                sweeps,
                CoarseningLimits { max_coarsest_points, ..CoarseningLimits::default() },
            );
            let n = system.count();
            let (u, v) = (random_vector(n, 9), random_vector(n, 10));
            let (mut mu, mut mv) = (vec![0.0; n], vec![0.0; n]);
            m(&u, &mut mu);
            m(&v, &mut mv);
            let magnitude = dot(&u, &mu).abs() * dot(&v, &mv).abs();
            let name = format!("{size:?}, V({sweeps},{sweeps}), row sum {row_sum}");
            // The bound is the rounding error times the condition number of matrices whose rows differ by a factor of
            // 1e6.
            assert!((dot(&u, &mv) - dot(&v, &mu)).abs() <= 1e-9 * magnitude.sqrt(), "{name}");
            assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0, "{name}");
        }
    }
}

/// Checks that PCG converges to a small tolerance. The sum of the right-hand side over every component is zero.
fn check_solution<T: Real + Number>(system: &System, components: impl Fn(usize) -> usize, max_iterations: usize) {
    let n = system.count();
    let exact = random_vector(n, 5);
    let b = system.multiply(&exact);
    let mut m = preconditioner::<T>(system, 1, CoarseningLimits::default());
    let (x, iterations) = pcg(system, &mut m, None, &b, (1e-8, 200));
    assert!(iterations <= max_iterations, "{iterations} iterations");
    // Up to a constant per component, the error of the solution is at most the tolerance times the condition number.
    let mut component_sums = [[0.0; 3]; 4];
    for p in 0..n {
        let [x, exact] = [x[p], exact[p]];
        component_sums[components(p)] = [0, 1, 2].map(|k| component_sums[components(p)][k] + [x, exact, 1.0][k]);
    }
    for p in 0..n {
        let [x_sum, exact_sum, count] = component_sums[components(p)];
        let error = (x[p] - x_sum / count) - (exact[p] - exact_sum / count);
        assert!(error.abs() <= 1e-3, "{p}: {error:e}");
    }
}

#[test]
fn closed_tanks_are_solved_separately() {
    // Case 1: a wall separates two tanks, each with its own null vector. Case 2: the cells i = 12, 13 and 14 between
    // the tanks are solid.
    let problem = TwoPhase::new("9", [24, 20, 22], 1e-3);
    let mut system = System::of(&problem);
    for wall in [11..12, 11..15] {
        for p in 0..system.count() {
            let indices = system.place(p);
            for (d, stride) in system.steps().into_iter().enumerate() {
                let next_index = indices[d] + 1;
                let is_closed = d == 0 && (wall.start..wall.end).contains(&indices[0])
                    || wall.len() > 1 && d > 0 && (wall.start + 1..wall.end).contains(&indices[0]);
                if is_closed && next_index < system.size[d] {
                    let c = -std::mem::take(&mut system.forward[d][p]);
                    system.center[p] -= c;
                    system.center[p + stride] -= c;
                }
            }
        }
        let has_couplings: Vec<bool> =
            (0..system.count()).map(|p| system.neighbours(p).iter().any(|(a, _)| *a != 0.0)).collect();
        system
            .center
            .iter_mut()
            .zip(has_couplings)
            .filter(|(_, has_couplings)| !has_couplings)
            .for_each(|(center, _)| *center = 2.5);
        let is_solid = |i: usize| wall.start < i && i < wall.end;
        let tank_of = |p: usize| usize::from(system.place(p)[0] > wall.start);
        if wall.len() == 1 {
            check_solution::<f64>(&system, tank_of, 30);
            check_solution::<f32>(&system, tank_of, 30);
        } else {
            let b: Vec<f64> =
                (0..system.count()).map(|p| if is_solid(system.place(p)[0]) { p as f64 } else { 0.0 }).collect();
            let mut z = vec![1.0; b.len()];
            preconditioner::<f64>(&system, 2, CoarseningLimits::default())(&b, &mut z);
            // In a cell without couplings, z is b divided by the center.
            for (z, b) in z.iter().zip(&b) {
                assert!((z - b / 2.5).abs() <= 1e-13 * b, "{z} {b}");
            }
        }
    }
}

#[test]
fn powers_of_two_do_not_change_the_result() {
    let mut system = System::random([12, 9, 14], 4, 0.0, |_, _| true);
    let r: Vec<f64> = (0..system.count()).map(|p| (p as f64).sin()).collect();
    let mut apply_scaled = |power: i32| {
        let factor = 2.0_f64.powi(power);
        let r: Vec<f64> = r.iter().map(|r| r * factor).collect();
        let mut z = vec![0.0; r.len()];
        system.center.iter_mut().chain(system.forward.iter_mut().flatten()).for_each(|a| *a *= factor);
        preconditioner::<f32>(&system, 1, CoarseningLimits::default())(&r, &mut z);
        system.center.iter_mut().chain(system.forward.iter_mut().flatten()).for_each(|a| *a /= factor);
        z
    };
    let unscaled_result = apply_scaled(0);
    assert!(unscaled_result.iter().all(|z| z.is_finite()));
    for power in [400, -400, 3] {
        assert_eq!(apply_scaled(power), unscaled_result, "2^{power}");
    }
}

#[test]
fn directions_of_strong_couplings_are_coarsened() {
    let coarsened_directions = |a: &SevenPoints| SurveyData::of(a, ZERO_ROW_SUM).unwrap().1.coarsened_directions;
    for (bubble_set, expected) in [("9", [true; 3]), ("9;asp=4", [false, false, true])] {
        let system = System::of(&TwoPhase::new(bubble_set, [16; 3], 1.0));
        assert_eq!(coarsened_directions(&view_system(&system)), expected, "{bubble_set}");
    }
    let line_system = System::random([1, 30, 1], 1, 0.0, |_, _| true);
    assert_eq!(coarsened_directions(&view_system(&line_system)), [false, true, false]);
    let uncoupled_system = System::random([4, 1, 3], 1, 0.0, |_, _| false);
    assert_eq!(coarsened_directions(&view_system(&uncoupled_system)), [true, false, true]);
}

#[test]
fn constants_are_interpolated_exactly() {
    let system = System::random([17, 12, 9], 2, 0.0, |_, _| true);
    for semicoarsening_ratio in [1e9, 1.5] {
        let limits =
            CoarseningLimits { semicoarsening_ratio, max_coarsest_points: 1000, ..CoarseningLimits::default() };
        let multigrid = build_multigrid::<f64>(&system, &mut Team::new(1).unwrap(), 1, limits);
        let Stencil { row_sums, .. } = &multigrid.levels[0].grid.a;
        // SAFETY: no team runs any more.
        assert!(unsafe { row_sums.slice(0, row_sums.len()) }.iter().all(|&g| g == 0.0), "semi {semicoarsening_ratio}");
    }
}
