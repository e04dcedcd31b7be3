//! Tests of the Krylov methods for general matrices. Iteration counts are compared with the golden table
//! (tests/golden/sparse.csv).

use super::bicg::bicg;
use super::bicgstab::bicgstab;
use super::gmres::{GmresScalars, gmres, gmres_vectors};
use super::idr::{IdrScalars, idr, idr_vectors};
use super::minres::minres;
use super::steepest_descent::steepest_descent;
use super::sweeps::sweeps;
use super::{Norm, State, Test};
use crate::error::{Error, Result};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::report::{Event, StopReason};

/// General matrix, stored as rows of (column, value) with ascending columns, and vectors. `m` contains the diagonal M,
/// which is the diagonal of A or its magnitude; `None` means M = I.
struct System {
    rows: Vec<Vec<(usize, f64)>>,
    m: Option<Vec<f64>>,
    vectors: Vec<Vec<f64>>,
    reported_residuals: Vec<f64>,
    stop_iteration: usize,
}

fn splitmix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const SPLIT_MIX_INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

fn uniform(state: u64) -> f64 {
    (splitmix(state) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns the 5-point matrix on n x n points, x fastest. `entries` are the values for center, east, west, north and
/// south.
fn five_points(n: usize, entries: [f64; 5]) -> Vec<Vec<(usize, f64)>> {
    let row = |p: usize| {
        let (i, j) = (p % n, p / n);
        let [center, east, west, north, south] = entries;
        let neighbours = [
            (j > 0, p.wrapping_sub(n), south),
            (i > 0, p.wrapping_sub(1), west),
            (true, p, center),
            (i + 1 < n, p + 1, east),
            (j + 1 < n, p + n, north),
        ];
        neighbours.iter().filter(|entry| entry.0).map(|entry| (entry.1, entry.2)).collect()
    };
    (0..n * n).map(row).collect()
}

fn poisson(n: usize) -> Vec<Vec<(usize, f64)>> {
    five_points(n, [4.0, -1.0, -1.0, -1.0, -1.0])
}

fn convection(p: f64, q: f64) -> Vec<Vec<(usize, f64)>> {
    five_points(50, [4.0, p - 1.0, -1.0 - p, q - 1.0, -1.0 - q])
}

fn upwind(p: f64, q: f64) -> Vec<Vec<(usize, f64)>> {
    five_points(50, [4.0 + 2.0 * p + 2.0 * q, -1.0, -1.0 - 2.0 * p, -1.0, -1.0 - 2.0 * q])
}

fn random_dominant(n: usize, entries_per_row: usize, is_symmetric: bool) -> Vec<Vec<(usize, f64)>> {
    let mut rows = vec![std::collections::BTreeMap::new(); n];
    let mut state = 42u64;
    for i in 0..n {
        for _ in 0..entries_per_row {
            state = state.wrapping_add(SPLIT_MIX_INCREMENT);
            let j = (splitmix(state) % n as u64) as usize;
            state = state.wrapping_add(SPLIT_MIX_INCREMENT);
            let value = 2.0 * uniform(state) - 1.0;
            if i != j {
                *rows[i].entry(j).or_insert(0.0) += value;
                if is_symmetric {
                    *rows[j].entry(i).or_insert(0.0) += value;
                }
            }
        }
    }
    for (i, row) in rows.iter_mut().enumerate() {
        let off_diagonal_sum: f64 = row.values().map(|v| v.abs()).sum();
        row.insert(i, if off_diagonal_sum > 0.0 { 1.1 * off_diagonal_sum } else { 1.0 });
    }
    rows.into_iter().map(|row| row.into_iter().collect()).collect()
}

fn blocks3(n: usize) -> Vec<Vec<(usize, f64)>> {
    let block = [[4.0, -1.0, 0.5], [-1.0, 3.0, -0.25], [0.5, -0.25, 2.0]];
    let poisson = poisson(n);
    let row = |i: usize| {
        let entries = poisson[i / 3].iter();
        entries.flat_map(|&(j, a)| (0..3).map(move |c| (3 * j + c, a * block[i % 3][c]))).collect()
    };
    (0..3 * n * n).map(row).collect()
}

impl System {
    /// Returns a system with x = 0 and with b = A e, where all entries of e are 1.
    fn new(rows: Vec<Vec<(usize, f64)>>, uses_jacobi: bool, uses_magnitudes: bool, work_vector_count: usize) -> Self {
        let n = rows.len();
        let diagonal_entry = |(i, row): (usize, &Vec<(usize, f64)>)| {
            let diagonal_entry = row.iter().find(|entry| entry.0 == i).map_or(0.0, |entry| entry.1);
            if uses_magnitudes { diagonal_entry.abs() } else { diagonal_entry }
        };
        let m = uses_jacobi.then(|| rows.iter().enumerate().map(diagonal_entry).collect());
        let mut vectors = vec![vec![f64::NAN; n]; 3 + work_vector_count];
        vectors[0].fill(0.0);
        vectors[1] = rows.iter().map(|row| row.iter().map(|entry| entry.1).sum()).collect();
        Self { rows, m, vectors, reported_residuals: Vec::new(), stop_iteration: usize::MAX }
    }

    fn multiply_matrix(&self, v: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().map(|&(j, a)| a * v[j]).sum()).collect()
    }

    fn divide_by_diagonal(&self, source: VectorId) -> Vec<f64> {
        let m = self.m.as_ref().expect("M is asked for only where it is not the identity");
        self.vectors[source.0].iter().zip(m).map(|(v, m)| v / m).collect()
    }

    fn test(&self) -> Test {
        let rhs_norm = dot(&self.vectors[1], &self.vectors[1]).sqrt();
        Test {
            norm: Norm::True2,
            threshold: 1e-6 * rhs_norm,
            reference: rhs_norm,
            max_iter: 10_000,
            subtracts_means: false,
            rounding_norm: 0.0,
            vanishing_norm: 0.0,
            center_max: 1.0,
            is_preconditioner_definite: false,
            confirms: false,
            divergence_norm: 1e10 * rhs_norm,
            has_unit_of_matrix: false,
            may_be_indefinite: true,
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl VectorSteps for System {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        dot(&self.vectors[a.0], &self.vectors[b.0])
    }

    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        for i in 0..self.rows.len() {
            let mut sum = if scale == 0.0 { 0.0 } else { scale * self.vectors[target.0][i] };
            for &(factor, v) in terms {
                assert_ne!(v, target, "a step that reads what it writes");
                sum += factor * self.vectors[v.0][i];
            }
            self.vectors[target.0][i] = sum;
        }
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        self.vectors[v.0].iter().fold(0.0, |largest, v| v.abs().max(largest))
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        assert_eq!(iterate, Iterate::X, "no method here begins from x = 0");
        let ax = self.multiply_matrix(&self.vectors[0]);
        self.vectors[2] = self.vectors[1].iter().zip(ax).map(|(b, ax)| b - ax).collect();
        self.inner_product(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        let Event::Iteration(iteration, relative_residual) = event else { return false };
        self.reported_residuals.push(relative_residual);
        iteration >= self.stop_iteration
    }
}

impl KrylovSteps for System {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn multiply_vector(&mut self, source: VectorId, target: VectorId) {
        self.vectors[target.0] = self.multiply_matrix(&self.vectors[source.0]);
    }

    fn multiply_transposed(&mut self, source: VectorId, target: VectorId) {
        let mut y = vec![0.0; self.rows.len()];
        for (row, v) in self.rows.iter().zip(&self.vectors[source.0]) {
            row.iter().for_each(|&(j, a)| y[j] += a * v);
        }
        self.vectors[target.0] = y;
    }

    fn precondition_vector(&mut self, source: VectorId, target: VectorId) {
        self.vectors[target.0] = self.divide_by_diagonal(source);
    }

    fn precondition_transposed(&mut self, source: VectorId, target: VectorId) {
        self.vectors[target.0] = self.divide_by_diagonal(source);
    }

    fn is_unpreconditioned(&self) -> bool {
        self.m.is_none()
    }

    fn inner_products(&mut self, a: VectorId, right_vectors: &[VectorId], products: &mut [f64]) {
        for (product, b) in products.iter_mut().zip(right_vectors) {
            *product = dot(&self.vectors[a.0], &self.vectors[b.0]);
        }
    }

    fn fill_random(&mut self, target: VectorId, seed: u64) {
        for (i, v) in self.vectors[target.0].iter_mut().enumerate() {
            *v = 2.0 * uniform(seed.wrapping_add((i as u64 + 1).wrapping_mul(SPLIT_MIX_INCREMENT))) - 1.0;
        }
    }
}

impl SweepSteps for System {
    /// One Gauss-Seidel sweep in the order of the rows.
    fn sweep(&mut self, _sweep: usize) {
        for (i, row) in self.rows.iter().enumerate() {
            let (mut sum, mut center) = (self.vectors[1][i], 0.0);
            for &(j, a) in row {
                if i == j { center = a } else { sum -= a * self.vectors[0][j] }
            }
            self.vectors[0][i] = sum / center;
        }
    }
}

#[derive(Debug)]
struct EndState {
    reason: StopReason,
    iterations: usize,
}

fn run_method(s: &mut System, method: &str) -> Result<EndState> {
    let mut state = State::new(s.test(), s.residual(Iterate::X), 0);
    let reason = match method {
        "bicg" => bicg(s, &mut state),
        "bicgstab" => bicgstab(s, &mut state),
        "minres" => minres(s, &mut state),
        "steepest_descent" => steepest_descent(s, &mut state),
        "gmres" => gmres(s, &mut state, &mut GmresScalars::new(30)?),
        "idr" => idr(s, &mut state, &mut IdrScalars::new(4)?),
        _ => sweeps(s, &mut state),
    }?;
    Ok(EndState { reason, iterations: state.iterations })
}

/// Ranges (lowest, highest) of the golden iteration counts, for M = I and for M = diagonal.
type CountRanges = [(usize, usize); 2];

fn check_golden_counts(name: &str, rows: &[Vec<(usize, f64)>], expected: &[(&str, CountRanges)]) {
    let mut failures = Vec::new();
    for &(method, counts) in expected {
        for (jacobi, (lowest, highest)) in [false, true].into_iter().zip(counts) {
            let work_vector_count = gmres_vectors(30).max(idr_vectors(4));
            let mut s = System::new(rows.to_vec(), jacobi, method == "minres", work_vector_count);
            let end = run_method(&mut s, method).expect("no breakdown");
            let norm = s.residual(Iterate::X).sqrt();
            // The recurred and the true residual differ by rounding errors relative to the largest residual of the run.
            let satisfies_test = norm <= 1.01 * s.test().threshold;
            // Rule of the golden table: `lowest` - 1 iterations are allowed if the residual of the last iteration is
            // within 5 % of the tolerance.
            let is_nearly_converged =
                end.iterations + 1 == lowest && s.reported_residuals[end.iterations - 1] >= 0.95e-6;
            let is_expected_count = (lowest..=highest).contains(&end.iterations) || is_nearly_converged;
            if end.reason != StopReason::Converged || !satisfies_test || !is_expected_count {
                let relative_residual = norm / s.test().reference;
                failures.push(format!(
                    "{name} {method} jacobi={jacobi}: {end:?}, true {relative_residual:e}, not {lowest}-{highest}"
                ));
            }
            assert_eq!(s.reported_residuals.len(), end.iterations);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn equal_counts(count: usize) -> CountRanges {
    [(count, count); 2]
}

#[test]
fn poisson_counts_are_golden() {
    let expected = [
        ("bicg", equal_counts(104)),
        ("minres", equal_counts(102)),
        ("bicgstab", [(78, 83); 2]),
        ("gmres", equal_counts(371)),
        ("idr", equal_counts(121)),
        ("gauss_seidel", equal_counts(4121)),
    ];
    check_golden_counts("poisson2d_64", &poisson(64), &expected);
}

#[test]
fn convection_counts_are_golden() {
    let expected = [
        ("bicg", [(111, 113); 2]),
        ("bicgstab", equal_counts(83)),
        ("gmres", equal_counts(284)),
        ("idr", equal_counts(129)),
    ];
    check_golden_counts("convdiff2d_50_p0.5_q0.25", &convection(0.5, 0.25), &expected);
    let expected = [("bicgstab", [(193, 197); 2]), ("gmres", equal_counts(275)), ("idr", [(134, 136); 2])];
    check_golden_counts("convdiff2d_50_p2_q1", &convection(2.0, 1.0), &expected);
    check_golden_counts(
        "convdiff2d_50_upwind_p10_q5",
        &upwind(10.0, 5.0),
        &[("gmres", equal_counts(262)), ("idr", equal_counts(123))],
    );
}

#[test]
fn random_matrix_counts_are_golden() {
    let exact_counts = |none, jacobi| [(none, none), (jacobi, jacobi)];
    let expected = [
        ("bicg", exact_counts(20, 16)),
        ("bicgstab", exact_counts(9, 8)),
        ("gmres", exact_counts(17, 14)),
        ("idr", exact_counts(20, 15)),
    ];
    check_golden_counts("random_dominant_2000_8", &random_dominant(2000, 8, false), &expected);
    let expected = [
        ("minres", exact_counts(17, 11)),
        ("bicg", exact_counts(17, 11)),
        ("bicgstab", exact_counts(12, 7)),
        ("gmres", exact_counts(17, 11)),
        ("idr", exact_counts(20, 12)),
    ];
    check_golden_counts("random_dominant_symmetric_2000_8", &random_dominant(2000, 8, true), &expected);
}

#[test]
fn block_matrix_counts_are_golden() {
    let expected = [
        ("minres", [(95, 95), (89, 89)]),
        ("bicg", [(96, 97), (90, 90)]),
        ("bicgstab", [(77, 81), (66, 71)]),
        ("gmres", [(170, 170), (153, 154)]),
        ("idr", [(115, 117), (108, 108)]),
    ];
    check_golden_counts("blocks3_24", &blocks3(24), &expected);
}

/// In these rows of the golden table, `converged` is -1: the relative residual exceeds 1e10.
#[test]
fn bicg_diverges_on_convection() {
    for (rows, count) in [(convection(2.0, 1.0), 21), (upwind(10.0, 5.0), 18)] {
        let mut s = System::new(rows, false, false, 7);
        let end = run_method(&mut s, "bicg").expect("no error");
        assert_eq!((end.reason, end.iterations), (StopReason::Diverged, count));
    }
}

#[test]
fn observer_stop_ends_every_method() {
    for method in ["bicg", "bicgstab", "minres", "steepest_descent", "gmres", "idr", "gauss_seidel"] {
        let mut s = System::new(poisson(8), false, false, 32);
        s.stop_iteration = 3;
        let end = run_method(&mut s, method).expect("no breakdown");
        assert_eq!((end.reason, end.iterations), (StopReason::Monitor, 3), "{method}");
    }
}

/// For a skew-symmetric matrix, <r, A r> = 0 for every r. The first iteration would divide by this number.
#[test]
fn breakdown_ends_as_stagnated() {
    for method in ["bicg", "bicgstab"] {
        let rows = vec![vec![(1, 1.0)], vec![(0, -1.0)]];
        let mut s = System::new(rows, false, false, 7);
        let end = run_method(&mut s, method).expect("no error");
        assert_eq!((end.reason, end.iterations), (StopReason::Stagnated, 0), "{method}");
    }
}

/// Systems of 1 to 5 rows with 4 shadow vectors. After the last iteration, the residual is only rounding error.
#[test]
fn idr_solves_small_systems() {
    for n in 1..=5 {
        let row = |i: usize| (0..n).map(|j| (j, if i == j { 9.0 } else { 1.0 / (1 + i + 2 * j) as f64 })).collect();
        let mut s = System::new((0..n).map(row).collect(), false, false, idr_vectors(4));
        let end = run_method(&mut s, "idr").expect("no error");
        assert_eq!(end.reason, StopReason::Converged, "{n} rows");
        assert!(end.iterations <= n + 1, "{n} rows: {end:?}");
        assert!(s.residual(Iterate::X).sqrt() <= s.test().threshold);
    }
}

#[test]
fn minres_rejects_indefinite_preconditioner() {
    let mut s = System::new(vec![vec![(0, -1.0)], vec![(1, -2.0)]], true, false, 7);
    assert!(matches!(run_method(&mut s, "minres"), Err(Error::Breakdown { .. })));
}

/// In the first iteration, <z, A z> is negative for M = I, and <r, z> is negative for M = diagonal.
#[test]
fn steepest_descent_rejects_indefinite_matrices() {
    for (jacobi, quantity) in [(false, "p'Ap"), (true, "r'M^-1 r")] {
        let mut s = System::new(vec![vec![(0, -1.0)], vec![(1, -2.0)]], jacobi, false, 7);
        match run_method(&mut s, "steepest_descent") {
            Err(Error::Breakdown { quantity: actual, iteration: 0, .. }) => assert_eq!(actual, quantity),
            other => panic!("{other:?}"),
        }
    }
}

/// A = diag(1, k), M = I, b = A (k, 1), x = 0: the slowest start (Saad 2003, section 5.3.1). Each iteration multiplies
/// the energy norm of the error by (k - 1) / (k + 1), and here also the residual. With M = D, one iteration suffices.
#[test]
fn steepest_descent_converges_at_theoretical_rate() {
    let k = 9.0_f64;
    for jacobi in [false, true] {
        let mut s = System::new(vec![vec![(0, 1.0)], vec![(1, k)]], jacobi, false, 7);
        s.vectors[1] = vec![k, k];
        let end = run_method(&mut s, "steepest_descent").expect("no error");
        // 0.8^61 = 1.2e-6, and 0.8^62 = 9.8e-7.
        assert_eq!((end.reason, end.iterations), (StopReason::Converged, if jacobi { 1 } else { 62 }));
        let expected_residual = |count: usize| if jacobi { 0.0 } else { ((k - 1.0) / (k + 1.0)).powi(count as i32) };
        // Tolerance: a few roundings per iteration, relative to the largest residual.
        assert!(
            s.reported_residuals
                .iter()
                .enumerate()
                .all(|(i, reported_residuals)| (reported_residuals - expected_residual(i + 1)).abs()
                    <= 1e-15 * (i + 2) as f64)
        );
    }
}
