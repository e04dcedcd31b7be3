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
    reported: Vec<f64>,
    stop_at: usize,
}

fn splitmix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const SPLIT_MIX_INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

fn unit(state: u64) -> f64 {
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

fn random_dominant(n: usize, count: usize, symmetric: bool) -> Vec<Vec<(usize, f64)>> {
    let mut rows = vec![std::collections::BTreeMap::new(); n];
    let mut state = 42u64;
    for i in 0..n {
        for _ in 0..count {
            state = state.wrapping_add(SPLIT_MIX_INCREMENT);
            let j = (splitmix(state) % n as u64) as usize;
            state = state.wrapping_add(SPLIT_MIX_INCREMENT);
            let value = 2.0 * unit(state) - 1.0;
            if i != j {
                *rows[i].entry(j).or_insert(0.0) += value;
                if symmetric {
                    *rows[j].entry(i).or_insert(0.0) += value;
                }
            }
        }
    }
    for (i, row) in rows.iter_mut().enumerate() {
        let off: f64 = row.values().map(|v| v.abs()).sum();
        row.insert(i, if off > 0.0 { 1.1 * off } else { 1.0 });
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
    fn new(rows: Vec<Vec<(usize, f64)>>, jacobi: bool, absolute: bool, own: usize) -> Self {
        let n = rows.len();
        let center = |(i, row): (usize, &Vec<(usize, f64)>)| {
            let center = row.iter().find(|entry| entry.0 == i).map_or(0.0, |entry| entry.1);
            if absolute { center.abs() } else { center }
        };
        let m = jacobi.then(|| rows.iter().enumerate().map(center).collect());
        let mut vectors = vec![vec![f64::NAN; n]; 3 + own];
        vectors[0].fill(0.0);
        vectors[1] = rows.iter().map(|row| row.iter().map(|entry| entry.1).sum()).collect();
        Self { rows, m, vectors, reported: Vec::new(), stop_at: usize::MAX }
    }

    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().map(|&(j, a)| a * v[j]).sum()).collect()
    }

    fn divided(&self, from: VectorId) -> Vec<f64> {
        let m = self.m.as_ref().expect("M is asked for only where it is not the identity");
        self.vectors[from.0].iter().zip(m).map(|(v, m)| v / m).collect()
    }

    fn test(&self) -> Test {
        let size = dot(&self.vectors[1], &self.vectors[1]).sqrt();
        Test {
            norm: Norm::True2,
            threshold: 1e-6 * size,
            reference: size,
            max_iter: 10_000,
            subtracts_means: false,
            rounding: 0.0,
            vanishing: 0.0,
            center_max: 1.0,
            definite: false,
            confirms: false,
            divergence: 1e10 * size,
            same_unit: false,
            may_be_indefinite: true,
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl VectorSteps for System {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        dot(&self.vectors[a.0], &self.vectors[b.0])
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        for i in 0..self.rows.len() {
            let mut sum = if scale == 0.0 { 0.0 } else { scale * self.vectors[to.0][i] };
            for &(factor, v) in terms {
                assert_ne!(v, to, "a step that reads what it writes");
                sum += factor * self.vectors[v.0][i];
            }
            self.vectors[to.0][i] = sum;
        }
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        self.vectors[v.0].iter().fold(0.0, |largest, v| v.abs().max(largest))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        assert_eq!(of, Iterate::X, "no method here begins from x = 0");
        let ax = self.times(&self.vectors[0]);
        self.vectors[2] = self.vectors[1].iter().zip(ax).map(|(b, ax)| b - ax).collect();
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        let Event::Iteration(iteration, relative_residual) = event else { return false };
        self.reported.push(relative_residual);
        iteration >= self.stop_at
    }
}

impl KrylovSteps for System {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn product(&mut self, from: VectorId, to: VectorId) {
        self.vectors[to.0] = self.times(&self.vectors[from.0]);
    }

    fn transposed_product(&mut self, from: VectorId, to: VectorId) {
        let mut y = vec![0.0; self.rows.len()];
        for (row, v) in self.rows.iter().zip(&self.vectors[from.0]) {
            row.iter().for_each(|&(j, a)| y[j] += a * v);
        }
        self.vectors[to.0] = y;
    }

    fn precondition_vector(&mut self, from: VectorId, to: VectorId) {
        self.vectors[to.0] = self.divided(from);
    }

    fn precondition_transposed(&mut self, from: VectorId, to: VectorId) {
        self.vectors[to.0] = self.divided(from);
    }

    fn is_unpreconditioned(&self) -> bool {
        self.m.is_none()
    }

    fn inners(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]) {
        for (product, b) in products.iter_mut().zip(with) {
            *product = dot(&self.vectors[a.0], &self.vectors[b.0]);
        }
    }

    fn fill_random(&mut self, to: VectorId, seed: u64) {
        for (i, v) in self.vectors[to.0].iter_mut().enumerate() {
            *v = 2.0 * unit(seed.wrapping_add((i as u64 + 1).wrapping_mul(SPLIT_MIX_INCREMENT))) - 1.0;
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
struct End {
    reason: StopReason,
    iterations: usize,
}

fn run(s: &mut System, method: &str) -> Result<End> {
    let mut at = State::new(s.test(), s.residual(Iterate::X), 0);
    let reason = match method {
        "bicg" => bicg(s, &mut at),
        "bicgstab" => bicgstab(s, &mut at),
        "minres" => minres(s, &mut at),
        "steepest_descent" => steepest_descent(s, &mut at),
        "gmres" => gmres(s, &mut at, &mut GmresScalars::new(30)?),
        "idr" => idr(s, &mut at, &mut IdrScalars::new(4)?),
        _ => sweeps(s, &mut at),
    }?;
    Ok(End { reason, iterations: at.iterations })
}

/// Ranges (lowest, highest) of the golden iteration counts, for M = I and for M = diagonal.
type Counts = [(usize, usize); 2];

fn compare(name: &str, rows: &[Vec<(usize, f64)>], expected: &[(&str, Counts)]) {
    let mut wrong = Vec::new();
    for &(method, counts) in expected {
        for (jacobi, (low, high)) in [false, true].into_iter().zip(counts) {
            let own = gmres_vectors(30).max(idr_vectors(4));
            let mut s = System::new(rows.to_vec(), jacobi, method == "minres", own);
            let end = run(&mut s, method).expect("no breakdown");
            let norm = s.residual(Iterate::X).sqrt();
            // The recurred and the true residual differ by rounding errors relative to the largest residual of the run.
            let met = norm <= 1.01 * s.test().threshold;
            // Rule of the golden table: `low` - 1 iterations are allowed if the residual of the last iteration is
            // within 5 % of the tolerance.
            let close = end.iterations + 1 == low && s.reported[end.iterations - 1] >= 0.95e-6;
            let counted = (low..=high).contains(&end.iterations) || close;
            if end.reason != StopReason::Converged || !met || !counted {
                let relative = norm / s.test().reference;
                wrong.push(format!("{name} {method} jacobi={jacobi}: {end:?}, true {relative:e}, not {low}-{high}"));
            }
            assert_eq!(s.reported.len(), end.iterations);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn same(count: usize) -> Counts {
    [(count, count); 2]
}

#[test]
fn poisson_has_the_golden_counts() {
    let expected = [
        ("bicg", same(104)),
        ("minres", same(102)),
        ("bicgstab", [(78, 83); 2]),
        ("gmres", same(371)),
        ("idr", same(121)),
        ("gauss_seidel", same(4121)),
    ];
    compare("poisson2d_64", &poisson(64), &expected);
}

#[test]
fn convection_has_the_golden_counts() {
    let expected = [("bicg", [(111, 113); 2]), ("bicgstab", same(83)), ("gmres", same(284)), ("idr", same(129))];
    compare("convdiff2d_50_p0.5_q0.25", &convection(0.5, 0.25), &expected);
    let expected = [("bicgstab", [(193, 197); 2]), ("gmres", same(275)), ("idr", [(134, 136); 2])];
    compare("convdiff2d_50_p2_q1", &convection(2.0, 1.0), &expected);
    compare("convdiff2d_50_upwind_p10_q5", &upwind(10.0, 5.0), &[("gmres", same(262)), ("idr", same(123))]);
}

#[test]
fn random_matrices_have_the_golden_counts() {
    let pair = |none, jacobi| [(none, none), (jacobi, jacobi)];
    let expected = [("bicg", pair(20, 16)), ("bicgstab", pair(9, 8)), ("gmres", pair(17, 14)), ("idr", pair(20, 15))];
    compare("random_dominant_2000_8", &random_dominant(2000, 8, false), &expected);
    let expected = [
        ("minres", pair(17, 11)),
        ("bicg", pair(17, 11)),
        ("bicgstab", pair(12, 7)),
        ("gmres", pair(17, 11)),
        ("idr", pair(20, 12)),
    ];
    compare("random_dominant_symmetric_2000_8", &random_dominant(2000, 8, true), &expected);
}

#[test]
fn blocks_have_the_golden_counts() {
    let expected = [
        ("minres", [(95, 95), (89, 89)]),
        ("bicg", [(96, 97), (90, 90)]),
        ("bicgstab", [(77, 81), (66, 71)]),
        ("gmres", [(170, 170), (153, 154)]),
        ("idr", [(115, 117), (108, 108)]),
    ];
    compare("blocks3_24", &blocks3(24), &expected);
}

/// In these rows of the golden table, `converged` is -1: the relative residual exceeds 1e10.
#[test]
fn bicg_diverges_on_convection() {
    for (rows, count) in [(convection(2.0, 1.0), 21), (upwind(10.0, 5.0), 18)] {
        let mut s = System::new(rows, false, false, 7);
        let end = run(&mut s, "bicg").expect("no error");
        assert_eq!((end.reason, end.iterations), (StopReason::Diverged, count));
    }
}

#[test]
fn a_stop_of_the_observer_ends_every_method() {
    for method in ["bicg", "bicgstab", "minres", "steepest_descent", "gmres", "idr", "gauss_seidel"] {
        let mut s = System::new(poisson(8), false, false, 32);
        s.stop_at = 3;
        let end = run(&mut s, method).expect("no breakdown");
        assert_eq!((end.reason, end.iterations), (StopReason::Monitor, 3), "{method}");
    }
}

/// For a skew-symmetric matrix, <r, A r> = 0 for every r. The first iteration would divide by this number.
#[test]
fn a_breakdown_ends_as_stagnated() {
    for method in ["bicg", "bicgstab"] {
        let rows = vec![vec![(1, 1.0)], vec![(0, -1.0)]];
        let mut s = System::new(rows, false, false, 7);
        let end = run(&mut s, method).expect("no error");
        assert_eq!((end.reason, end.iterations), (StopReason::Stagnated, 0), "{method}");
    }
}

/// Systems of 1 to 5 rows with 4 shadow vectors. After the last iteration, the residual is only rounding error.
#[test]
fn idr_solves_small_systems() {
    for n in 1..=5 {
        let row = |i: usize| (0..n).map(|j| (j, if i == j { 9.0 } else { 1.0 / (1 + i + 2 * j) as f64 })).collect();
        let mut s = System::new((0..n).map(row).collect(), false, false, idr_vectors(4));
        let end = run(&mut s, "idr").expect("no error");
        assert_eq!(end.reason, StopReason::Converged, "{n} rows");
        assert!(end.iterations <= n + 1, "{n} rows: {end:?}");
        assert!(s.residual(Iterate::X).sqrt() <= s.test().threshold);
    }
}

#[test]
fn minres_rejects_an_indefinite_m() {
    let mut s = System::new(vec![vec![(0, -1.0)], vec![(1, -2.0)]], true, false, 7);
    assert!(matches!(run(&mut s, "minres"), Err(Error::Breakdown { .. })));
}

/// In the first iteration, <z, A z> is negative for M = I, and <r, z> is negative for M = diagonal.
#[test]
fn steepest_descent_rejects_indefinite_matrices() {
    for (jacobi, quantity) in [(false, "p'Ap"), (true, "r'M^-1 r")] {
        let mut s = System::new(vec![vec![(0, -1.0)], vec![(1, -2.0)]], jacobi, false, 7);
        match run(&mut s, "steepest_descent") {
            Err(Error::Breakdown { quantity: found, iteration: 0, .. }) => assert_eq!(found, quantity),
            other => panic!("{other:?}"),
        }
    }
}

/// A = diag(1, k), M = I, b = A (k, 1), x = 0: the slowest start (Saad 2003, section 5.3.1). Each iteration multiplies
/// the energy norm of the error by (k - 1) / (k + 1), and here also the residual. With M = D, one iteration suffices.
#[test]
fn steepest_descent_has_the_rate_of_the_theory() {
    let k = 9.0_f64;
    for jacobi in [false, true] {
        let mut s = System::new(vec![vec![(0, 1.0)], vec![(1, k)]], jacobi, false, 7);
        s.vectors[1] = vec![k, k];
        let end = run(&mut s, "steepest_descent").expect("no error");
        // 0.8^61 = 1.2e-6, and 0.8^62 = 9.8e-7.
        assert_eq!((end.reason, end.iterations), (StopReason::Converged, if jacobi { 1 } else { 62 }));
        let rate = |count: usize| if jacobi { 0.0 } else { ((k - 1.0) / (k + 1.0)).powi(count as i32) };
        // Tolerance: a few roundings per iteration, relative to the largest residual.
        assert!(
            s.reported.iter().enumerate().all(|(i, reported)| (reported - rate(i + 1)).abs() <= 1e-15 * (i + 2) as f64)
        );
    }
}
