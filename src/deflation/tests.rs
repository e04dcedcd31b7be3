//! Tests of deflation. A reference implementation of deflated PCG (Tang, Nabben, Vuik and Erlangga 2009) must need the
//! iteration counts of the golden table. Further tests check properties of the projection P.

use super::*;
use crate::deflation::regions::{NO_REGION, RegionChoice, RegionKind};
use crate::stencil::cell_components::{CellComponents, StrongGroups};
use crate::stencil::cells::{Cells, SevenPoints};
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

impl CoarseMatrix {
    /// Assembles and factorizes E for a matrix and its regions with one thread.
    pub fn new(
        a: &SevenPoints,
        components: &CellComponents,
        regions: &Regions,
        solver: Solver,
        tolerance: f64,
    ) -> Result<Self> {
        let mut entries = Vec::new();
        for block in 0..BLOCK_COUNT {
            assemble_block(a, components, regions, block, &mut entries)?;
        }
        let mut coarse = Self::factorize(&mut entries, regions, solver, tolerance)?;
        if solver == Solver::Inverse {
            let columns = coarse.inverse_columns(0, 1)?;
            coarse.invert([&columns[..]].into_iter())?;
        }
        Ok(coarse)
    }
}

/// A system in which the entries that leave the grid are zero.
struct System {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
}

impl System {
    fn of(problem: &TwoPhase) -> Self {
        let [nx, ny, nz] = problem.size;
        let forward =
            problem.forward.clone().map(|c| c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect());
        Self { cells: Cells { nx, ny, nz }, center: problem.center.clone(), forward }
    }

    fn seven_points(&self) -> SevenPoints<'_> {
        let [x, y, z] = &self.forward;
        SevenPoints { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }

    /// Computes y = A x.
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        for (y, (c, x)) in y.iter_mut().zip(self.center.iter().zip(x)) {
            *y = c * x;
        }
        for (couplings, step) in self.forward.iter().zip(self.cells.strides()) {
            add_products(y, couplings, &x[step..]);
            add_products(&mut y[step..], couplings, x);
        }
    }
}

/// Computes y_i = y_i + a_i x_i.
fn add_products(y: &mut [f64], a: &[f64], x: &[f64]) {
    for (y, (a, x)) in y.iter_mut().zip(a.iter().zip(x)) {
        *y += a * x;
    }
}

/// Computes M^-1 r = K^T D^-1 K r with K = sum_m (-L D^-1)^m up to `order` (van der Vorst 1982), by Horner's rule.
fn apply_neumann_series(a: &System, order: usize, r: &[f64]) -> Vec<f64> {
    let strides = a.cells.strides();
    let divide_by_center =
        |u: &[f64], sign: f64| -> Vec<f64> { u.iter().zip(&a.center).map(|(u, d)| sign * u / d).collect() };
    let mut u = r.to_vec();
    for _ in 0..order {
        // u = r - L D^-1 u
        let negative_quotients = divide_by_center(&u, -1.0);
        u.copy_from_slice(r);
        for (couplings, step) in a.forward.iter().zip(strides) {
            add_products(&mut u[step..], couplings, &negative_quotients);
        }
    }
    let v = divide_by_center(&u, 1.0);
    u.copy_from_slice(&v);
    for _ in 0..order {
        // u = v - D^-1 L^T u
        let mut sum = vec![0.0; u.len()];
        for (couplings, step) in a.forward.iter().zip(strides) {
            add_products(&mut sum, couplings, &u[step..]);
        }
        u = v.iter().zip(divide_by_center(&sum, 1.0)).map(|(v, s)| v - s).collect();
    }
    u
}

/// A, the regions that define Z, and E.
struct Deflation<'a> {
    a: &'a System,
    regions: Regions,
    matrix: CoarseMatrix,
}

impl<'a> Deflation<'a> {
    fn new(a: &'a System, choice: &RegionChoice, solver: Solver) -> Self {
        let seven_points = a.seven_points();
        let components = CellComponents::find(&seven_points).unwrap();
        let strong_groups = StrongGroups::find(&seven_points).unwrap();
        let regions = Regions::find(&seven_points, &components, &strong_groups, choice).unwrap();
        let matrix = CoarseMatrix::new(&seven_points, &components, &regions, solver, 1e-10).unwrap();
        Self { a, regions, matrix }
    }

    /// Computes Z^T v.
    fn restrict(&self, v: &[f64]) -> Vec<f64> {
        let mut g = vec![0.0; self.regions.count];
        for (&r, v) in self.regions.region_of_cell.iter().zip(v) {
            if r != NO_REGION {
                g[usize::from(r)] += v;
            }
        }
        g
    }

    /// Computes Z E^-1 Z^T v.
    fn coarse_correction(&self, v: &[f64]) -> Vec<f64> {
        let mut t = vec![0.0; self.regions.count];
        self.matrix.solve(&self.restrict(v), &mut t, &mut self.matrix.scratch().unwrap());
        self.regions.region_of_cell.iter().map(|&r| if r == NO_REGION { 0.0 } else { t[usize::from(r)] }).collect()
    }

    /// Computes P v = v - A Z E^-1 Z^T v.
    fn project(&self, v: &[f64]) -> Vec<f64> {
        let mut w = vec![0.0; v.len()];
        self.a.multiply(&self.coarse_correction(v), &mut w);
        v.iter().zip(&w).map(|(v, w)| v - w).collect()
    }
}

fn norm2(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

/// Runs deflated PCG with the preconditioner `apply_neumann_series` until |r| <= 1e-6 |b|, for at most 3000 iterations.
/// Returns the number of iterations and x.
fn solve(deflation: &Deflation, order: usize, b: &[f64]) -> (usize, Vec<f64>) {
    let a = deflation.a;
    let n = b.len();
    let (mut x, mut r) = (vec![0.0; n], deflation.project(b));
    let (mut p, mut w) = (vec![0.0; n], vec![0.0; n]);
    let (threshold, mut rho, mut iterations) = (1e-6 * norm2(b), 1.0, 0);
    while norm2(&r) > threshold && iterations < 3000 {
        let z = apply_neumann_series(a, order, &r);
        let previous_rho = std::mem::replace(&mut rho, dot(&r, &z));
        let beta = if iterations == 0 { 0.0 } else { rho / previous_rho };
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
        a.multiply(&p, &mut w);
        let w = deflation.project(&w);
        let alpha = rho / dot(&p, &w);
        x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
        r.iter_mut().zip(&w).for_each(|(r, w)| *r -= alpha * w);
        iterations += 1;
    }
    // x = x^ + Z E^-1 Z^T (b - A x^), where x^ is the result of the iteration.
    a.multiply(&x, &mut w);
    let residual: Vec<f64> = b.iter().zip(&w).map(|(b, w)| b - w).collect();
    x.iter_mut().zip(deflation.coarse_correction(&residual)).for_each(|(x, c)| *x += c);
    (iterations, x)
}

/// Returns the choice of regions for a name of the golden table, such as SD-4, LS, LSSD-8p or none.
fn region_choice(name: &str) -> RegionChoice<'static> {
    let keep_all = name.ends_with('p');
    let mut name_parts = name.trim_end_matches('p').split('-');
    let kind = match name_parts.next().unwrap() {
        "SD" => RegionKind::Subdomain,
        "LSSD" => RegionKind::LevelSetSubdomain,
        // There is one box. The matrix is singular, so the vector of the box is dropped, and Z has no columns.
        "none" => RegionKind::Subdomain,
        "LS" => RegionKind::LevelSet,
        other => panic!("{other}"),
    };
    let boxes = [name_parts.next().map_or(1, |d| d.parse().unwrap()); 3];
    RegionChoice { kind, boxes, labels: None, dilation: false, keep_all }
}

struct GoldenRow {
    n: usize,
    set: String,
    contrast: f64,
    rhs: String,
    order: usize,
    deflation: String,
    vector_count: usize,
    iterations: usize,
}

/// Returns the golden rows with Jacobi (order 0) or a truncated Neumann series.
fn golden_rows() -> Vec<GoldenRow> {
    let row = |line: &str| {
        let f: Vec<&str> = line.split(',').collect();
        let order = match f[6].strip_prefix("neu") {
            Some(order) => order.parse().unwrap(),
            None if f[6] == "jac" => 0,
            None => return None,
        };
        Some(GoldenRow {
            n: f[0].parse().unwrap(),
            set: f[1].to_owned(),
            contrast: f[3].parse().unwrap(),
            rhs: f[5].to_owned(),
            order,
            deflation: f[7].to_owned(),
            vector_count: f[8].parse().unwrap(),
            iterations: f[9].parse().unwrap(),
        })
    };
    include_str!("../../tests/golden/dpcg.csv").lines().skip(1).filter_map(row).collect()
}

/// Solves the system of a golden row. Returns an empty string if the iteration count differs by at most 1 or 1 % and
/// the residual is small, otherwise a description of the difference.
fn check_golden_row(row: &GoldenRow, solver: Solver) -> String {
    let problem = TwoPhase::new(&row.set, [row.n; 3], row.contrast);
    let (a, b) = (System::of(&problem), problem.rhs(&row.rhs));
    let deflation = Deflation::new(&a, &region_choice(&row.deflation), solver);
    assert_eq!(deflation.regions.count, row.vector_count, "{} {}", row.set, row.deflation);
    let (iterations, x) = solve(&deflation, row.order, &b);
    let max_difference = if row.iterations <= 100 { 1 } else { row.iterations.div_ceil(100) };
    let residual = problem.relative_residual(&b, &x);
    // The recurred and the true residual differ by rounding.
    if iterations.abs_diff(row.iterations) <= max_difference && residual <= 1.01e-6 {
        return String::new();
    }
    let GoldenRow { n, set, contrast, order, deflation, iterations: expected, .. } = row;
    format!("{n} {set} {contrast:e} neumann {order} {deflation}: {iterations} for {expected}, residual {residual:e}\n")
}

/// Checks golden rows that each need less than a second. With `RRBSOLVER_ALL_ROWS`, checks all rows up to 128^3; the
/// rows of 256^3 need minutes.
#[test]
fn iteration_counts_match_the_golden_rows() {
    let runs_all_rows = std::env::var_os("RRBSOLVER_ALL_ROWS").is_some();
    let is_selected = |row: &GoldenRow| {
        if runs_all_rows {
            row.n <= 128
        } else {
            row.n <= 64 && (row.iterations <= 31 || row.contrast < 1e-3 && row.iterations <= 50)
        }
    };
    let rows: Vec<GoldenRow> = golden_rows().into_iter().filter(is_selected).collect();
    assert!(rows.len() >= 15);
    let differences: String = rows.iter().map(|row| check_golden_row(row, Solver::Inverse)).collect();
    assert!(differences.is_empty(), "of {} rows:\n{differences}", rows.len());
}

#[test]
fn every_coarse_solver_needs_the_golden_iteration_counts() {
    let rows = golden_rows();
    let is_selected = |row: &&GoldenRow| {
        row.n == 64 && row.set == "9" && row.order == 2 && ["SD-8", "SD-8p"].contains(&&*row.deflation)
    };
    for row in rows.iter().filter(is_selected) {
        for solver in [Solver::Cholesky, Solver::Cg] {
            assert_eq!(check_golden_row(row, solver), "", "{solver:?}");
        }
    }
}

/// Returns two-phase systems of unusual shapes, each with several choices of the regions.
fn unusual_systems() -> Vec<(System, RegionChoice<'static>)> {
    let mut systems = Vec::new();
    let problems = [
        ("9", [20, 20, 20], 1e-3),
        ("9", [13, 17, 11], 1e-3),
        ("surf;obs=box", [16, 16, 16], 1e-3),
        ("9;dir=top", [12, 14, 16], 1e-3),
        ("dam", [1, 12, 13], 1e-3),
        ("surf", [12, 13, 1], 1e-2),
        ("1", [2, 2, 2], 1e-3),
    ];
    for (name, size, contrast) in problems {
        let boxes = size.map(|n: usize| n.min(3));
        for kind in [RegionKind::Subdomain, RegionKind::LevelSet, RegionKind::LevelSetSubdomain] {
            for keep_all in [false, true] {
                let choice = RegionChoice { kind, boxes, labels: None, dilation: false, keep_all };
                systems.push((System::of(&TwoPhase::new(name, size, contrast)), choice));
            }
        }
    }
    systems
}

fn random_vector(n: usize) -> Vec<f64> {
    let mut generator = SplitMix(3);
    (0..n).map(|_| 2.0 * generator.unit() - 1.0).collect()
}

fn max_norm(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |max, v| max.max(v.abs()))
}

#[test]
fn the_projection_is_idempotent_and_annihilates_z() {
    for (a, choice) in unusual_systems() {
        let deflation = Deflation::new(&a, &choice, Solver::Inverse);
        let k = deflation.regions.count;
        let mut v = random_vector(a.cells.count());
        // v = A x is in the range of A, and so is P v. The checks need this if A is singular.
        let x = v.clone();
        a.multiply(&x, &mut v);
        let projected = deflation.project(&v);
        let projected_twice = deflation.project(&projected);
        let v_norm = max_norm(&v);
        // The entries of A differ by factors up to the contrast, which increases the rounding error.
        let rounding = 1e-11 * v_norm;
        assert!(
            projected.iter().zip(&projected_twice).all(|(p, q)| (p - q).abs() <= rounding),
            "{:?} {choice:?}",
            a.cells
        );
        // Z^T P = 0.
        assert!(max_norm(&deflation.restrict(&projected)) <= rounding, "{:?} {choice:?}", a.cells);
        // P A Z = 0.
        for r in 0..k as u16 {
            let z: Vec<f64> =
                deflation.regions.region_of_cell.iter().map(|&region| f64::from(u8::from(region == r))).collect();
            a.multiply(&z, &mut v);
            assert!(max_norm(&deflation.project(&v)) <= rounding, "{:?} {choice:?}", a.cells);
        }
    }
}

#[test]
fn dropping_the_redundant_vector_does_not_change_the_projection() {
    let systems = unusual_systems();
    for pair in systems.chunks_exact(2) {
        let (a, b) = (&pair[0].0, &pair[1].0);
        let mut v = vec![0.0; a.cells.count()];
        a.multiply(&random_vector(a.cells.count()), &mut v);
        for solver in [Solver::Inverse, Solver::Cholesky, Solver::Cg] {
            let (without_redundant, with_all_vectors) =
                (Deflation::new(a, &pair[0].1, solver), Deflation::new(b, &pair[1].1, solver));
            let is_regular = with_all_vectors.regions.surplus_vectors.is_empty();
            // With level sets, the class of the heavy phase has a vector only if all vectors are kept. On a regular
            // system, this vector is not redundant, so the projections differ.
            if is_regular && pair[0].1.kind == RegionKind::LevelSet {
                continue;
            }
            assert_eq!(with_all_vectors.regions.count, with_all_vectors.regions.region_count);
            let rounding = 1e-9 * max_norm(&v);
            let (p, q) = (without_redundant.project(&v), with_all_vectors.project(&v));
            assert!(
                p.iter().zip(&q).all(|(p, q)| (p - q).abs() <= rounding),
                "{:?} {:?} {solver:?}",
                a.cells,
                pair[0].1
            );
        }
    }
}

/// Computes the columns of E = Z^T A Z from this definition.
fn coarse_matrix_by_columns(deflation: &Deflation) -> Vec<Vec<f64>> {
    let a = deflation.a;
    let mut w = vec![0.0; a.cells.count()];
    (0..deflation.regions.count as u16)
        .map(|r| {
            let z: Vec<f64> =
                deflation.regions.region_of_cell.iter().map(|&region| f64::from(u8::from(region == r))).collect();
            a.multiply(&z, &mut w);
            deflation.restrict(&w)
        })
        .collect()
}

#[test]
fn coarse_matrix_and_inverse_match_the_definition() {
    for (a, choice) in unusual_systems() {
        let deflation = Deflation::new(&a, &choice, Solver::Inverse);
        let k = deflation.regions.count;
        let expected = coarse_matrix_by_columns(&deflation);
        let mut e = vec![0.0; k];
        let inverse = deflation.matrix.inverse().unwrap();
        let max_center = max_norm(&a.center);
        for (r, column) in expected.iter().enumerate() {
            let mut unit_vector: Vec<f64> = (0..k).map(|s| f64::from(u8::from(s == r))).collect();
            deflation.matrix.multiply(&unit_vector, &mut e);
            // Bound for the rounding error of a sum over all cells.
            let rounding = 1e-15 * a.cells.count() as f64 * max_center;
            assert!(e.iter().zip(column).all(|(e, f)| (e - f).abs() <= rounding), "{:?} {choice:?}", a.cells);
            // (E + c u u^T) times a column of the inverse is a unit vector. The column is zero if the null vector is a
            // single deflation vector.
            if deflation.matrix.shift.shifted_diagonal(&deflation.matrix.matrix, r) == 0.0 {
                unit_vector[r] = 0.0;
            }
            let (mut product, mut means) = (vec![0.0; k], vec![0.0; deflation.regions.surplus_vectors.len()]);
            deflation.matrix.multiply(&inverse[r * k..][..k], &mut product);
            deflation.matrix.shift.add_shift_product(&inverse[r * k..][..k], &mut product, &mut means);
            product.iter_mut().zip(&unit_vector).for_each(|(p, u)| *p -= u);
            assert!(max_norm(&product) <= 1e-9, "{:?} {choice:?}: {:e}", a.cells, max_norm(&product));
        }
    }
}

#[test]
fn tiny_row_sums_do_not_spoil_the_projection() {
    let choice =
        RegionChoice { kind: RegionKind::Subdomain, boxes: [4; 3], labels: None, dilation: false, keep_all: false };
    for relative_row_sum in [1e-6, 1e-9, 2e-12] {
        let mut a = System::of(&TwoPhase::new("9", [20, 20, 20], 1e-3));
        a.center[0] *= 1.0 + relative_row_sum;
        for solver in [Solver::Inverse, Solver::Cholesky] {
            let deflation = Deflation::new(&a, &choice, solver);
            assert_eq!(deflation.regions.count, 64);
            let mut v = vec![0.0; a.cells.count()];
            a.multiply(&random_vector(a.cells.count()), &mut v);
            let projected = deflation.project(&v);
            let projected_twice = deflation.project(&projected);
            let rounding = 1e-10 * max_norm(&v);
            assert!(
                projected.iter().zip(&projected_twice).all(|(p, q)| (p - q).abs() <= rounding),
                "{relative_row_sum:e} {solver:?}"
            );
        }
    }
}
