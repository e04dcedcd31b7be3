//! Solves with general matrices: bitwise identity for any number of threads, choices of `auto`, true results, and
//! effects of options.

use crate::common;
#[path = "eigenvalues.rs"]
mod eigenvalues;

use common::sparse::*;
use common::{ITERATION_LIMIT, expect_not_converged, status};
use rrbsolver_problems::sparse::{System, five_points, system};

/// Values of `RRB_INFO_SOLVER`.
const JACOBI: i64 = 1;
const CG: i64 = 4;
const MINRES: i64 = 6;
const IDR: i64 = 9;

/// Values of `RRB_INFO_PRECONDITIONER`.
const NONE: i64 = 1;
const BY_DIAGONAL: i64 = 2;
const IC0: i64 = 4;
const AMG: i64 = 7;
const ILU0: i64 = 9;

/// Values of `RRB_INFO_STOP_REASON`.
const CONVERGED: i64 = 1;
const INITIAL_GUESS: i64 = 2;
const ZERO_RHS: i64 = 3;
const MAX_ITER: i64 = 4;
const STAGNATED: i64 = 6;
const DIVERGED: i64 = 8;

fn entries(system: System) -> Entries {
    Entries { rows: system.n, cols: system.n, entries: system.entries }
}

fn named(name: &str) -> Entries {
    entries(system(name).unwrap())
}

/// Returns a random right-hand side.
fn rhs(n: usize) -> Vec<f64> {
    let mut random = SplitMix(3);
    (0..n).map(|_| random.unit() - 0.5).collect()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Computes ||b - A x|| / ||b|| with plain sums over the entries.
fn residual(a: &Entries, b: &[f64], x: &[f64]) -> f64 {
    norm(&a.product(x, false).iter().zip(b).map(|(y, b)| b - y.0).collect::<Vec<_>>()) / norm(b)
}

/// Runs every method, preconditioner, ordering and kind of format for 12 iterations. The matrix has enough rows for
/// several threads, and wide and narrow levels of its triangles.
#[test]
fn bits_are_the_same_for_any_number_of_threads() {
    let preconditioners = ["none", "jacobi", "ssor", "ilu0", "neumann", "chebyshev"];
    let mut texts = Vec::new();
    for solver in ["bicg", "bicgstab", "gmres restart=5", "idr"] {
        texts.extend(preconditioners.map(|m| format!("solver={solver} preconditioner={m}")));
    }
    for format in ["csr", "csc", "bsr", "dia", "ell", "sell", "jds", "sell sigma=6 slice=5"] {
        texts.push(format!("solver=bicg transpose=none format={format}"));
    }
    for solver in ["gauss_seidel", "sor"] {
        let orderings = ["natural", "multicolour", "blocks", "symmetric"];
        texts.extend(orderings.map(|ordering| format!("solver={solver} ordering={ordering}")));
    }
    texts.push("solver=jacobi".to_owned());
    texts.push("solver=bicg preconditioner=ssor ordering=multicolour".to_owned());
    texts.push("solver=idr preconditioner=ilu0 ordering=multicolour".to_owned());
    check_bits(&named("convdiff3d_28_upwind_p0.5"), &texts);
    let mut texts: Vec<String> = preconditioners.map(|m| format!("solver=cg preconditioner={m}")).to_vec();
    texts.push("solver=cg preconditioner=ic0".to_owned());
    texts.push("solver=cg preconditioner=ic0 precision=f32".to_owned());
    texts.push("solver=cg preconditioner=ic0 ordering=multicolour".to_owned());
    texts.push("solver=cg preconditioner=amg".to_owned());
    texts.push("solver=cg preconditioner=amg precision=f64".to_owned());
    texts.push("solver=steepest_descent preconditioner=none".to_owned());
    texts.push("solver=steepest_descent preconditioner=ssor".to_owned());
    texts.push("solver=minres preconditioner=jacobi".to_owned());
    texts.push("solver=minres preconditioner=none".to_owned());
    for format in ["coo", "csr", "csc", "bsr", "dia", "ell", "sell", "jds", "tjds", "skyline format_memory=99999999999"]
    {
        texts.push(format!("solver=cg preconditioner=jacobi format={format}"));
    }
    check_bits(&named("poisson3d_28"), &texts);
}

fn check_bits(a: &Entries, texts: &[String]) {
    let solver = a.solver();
    let b = rhs(a.rows);
    for text in texts {
        let mut expected: Option<Vec<f64>> = None;
        for threads in [1, 2, 3, 7, 2] {
            solver.options(&format!("{text} threads={threads} max_iter=12 rel_tol=1e-15")).unwrap();
            solver.factorize().unwrap();
            let mut x = vec![0.0; a.rows];
            assert_eq!(solver.solve(&b, &mut x).unwrap(), status::NOT_CONVERGED, "{text}");
            assert!(residual(a, &b, &x) < 1.0, "{text}: it iterates");
            let same = expected.as_ref().is_none_or(|e| e.iter().zip(&x).all(|(a, b)| a.to_bits() == b.to_bits()));
            assert!(same, "{text} threads={threads}");
            expected = Some(x);
        }
        // The options of one text must not affect the next.
        solver
            .options("solver=auto preconditioner=auto format=auto ordering=natural transpose=auto precision=auto")
            .unwrap();
    }
}

/// `auto` selects the expected methods, and they solve the systems.
#[test]
fn auto_selects_by_the_matrix() {
    let n = 64;
    let diagonal: Vec<_> = (0..n).map(|i| (i, i, if i % 3 == 0 { -2.0 } else { 1.0 + i as f64 })).collect();
    let with_first = |mut a: Entries, value: f64| {
        a.entries.iter_mut().filter(|e| (e.0, e.1) == (0, 0)).for_each(|e| e.2 = value);
        a
    };
    let no_diagonal = {
        let mut a = named("convdiff2d_20_p2_q1");
        a.entries.retain(|e| (e.0, e.1) != (5, 5));
        a
    };
    let cases = [
        ("a diagonal", Entries::new(n, n, &diagonal), JACOBI, NONE),
        ("definite", named("poisson2d_20"), CG, IC0),
        ("not symmetric", named("convdiff2d_20_p2_q1"), IDR, ILU0),
        ("a negative diagonal", with_first(named("poisson2d_20"), -4.0), MINRES, BY_DIAGONAL),
        ("a zero on the diagonal", with_first(named("poisson2d_20"), 0.0), MINRES, NONE),
        ("no place on the diagonal", no_diagonal, IDR, NONE),
        // The smallest eigenvalue is 4 - 4 cos(pi / 21) - 0.5 < 0, which cg detects.
        ("indefinite", entries(five_points(20, [3.5, -1.0, -1.0, -1.0, -1.0])), MINRES, BY_DIAGONAL),
    ];
    for (what, a, solver_wanted, preconditioner) in cases {
        let solver = a.solver();
        let b = rhs(a.rows);
        let mut x = vec![0.0; a.rows];
        solver.options("rel_tol=1e-8").unwrap();
        solver.factorize().unwrap();
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{what}");
        assert_eq!(
            (solver.int(key::INFO_SOLVER), solver.int(key::PRECONDITIONER)),
            (solver_wanted, preconditioner),
            "{what}"
        );
        // The test computes the residual by plain sums, which round differently.
        assert!(residual(&a, &b, &x) <= 1.001e-8, "{what}");
        assert_eq!(solver.int(key::STOP_REASON), CONVERGED, "{what}");
    }
}

/// `auto` selects aggregation for 100,000 rows or more, if most off-diagonal entries are negative. In the second
/// matrix, those of two of the three directions are positive. Sweeps in row order need 11 iterations; sweeps by
/// colours, as with several threads, need 12.
#[test]
fn auto_selects_aggregation_for_large_matrices() {
    let large = named("poisson3d_47");
    let mut signs = named("poisson3d_47");
    signs.entries.iter_mut().filter(|e| [1, 47].contains(&e.0.abs_diff(e.1))).for_each(|e| e.2 = 1.0);
    for (a, wanted, most) in [(large, AMG, 12), (signs, IC0, 60)] {
        let (solver, b) = (a.solver(), rhs(a.rows));
        let mut x = vec![0.0; a.rows];
        solver.factorize().unwrap();
        assert_eq!((solver.int(key::INFO_SOLVER), solver.int(key::PRECONDITIONER)), (CG, wanted));
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
        assert!(solver.int(key::ITERATIONS) <= most, "{}", solver.int(key::ITERATIONS));
        assert!(residual(&a, &b, &x) <= 1.001e-6);
    }
}

/// Aggregation solves matrices of the collections: b = A times ones.
#[test]
fn aggregation_solves_positive_definite_systems() {
    for (name, most) in [("1138_bus.mtx.gz", 12), ("gr_30_30.mtx.gz", 12), ("nos4.mtx", 30), ("nos5.mtx.gz", 35)] {
        let solver = Solver::read(&data().join(name)).unwrap();
        let n = solver.int(key::ROWS) as usize;
        let b = solver.product(&vec![1.0; n], false).unwrap();
        solver.options("solver=cg preconditioner=amg rel_tol=1e-6").unwrap();
        solver.factorize().unwrap();
        let mut x = vec![0.0; n];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{name}");
        assert!(solver.int(key::ITERATIONS) <= most, "{name}: {}", solver.int(key::ITERATIONS));
        let y = solver.product(&x, false).unwrap();
        let left: Vec<f64> = y.iter().zip(&b).map(|(y, b)| b - y).collect();
        assert!(norm(&left) <= 1.001e-6 * norm(&b), "{name}");
    }
}

/// New values of similar strength keep the aggregates; if a coupling vanishes, the aggregates are rebuilt.
#[test]
fn new_values_keep_aggregates() {
    let a = entries(five_points(40, [4.0, -1.0, -1.0, -1.0, -1.0]));
    let solver = a.solver();
    solver.options("solver=cg preconditioner=amg").unwrap();
    let b = rhs(a.rows);
    let factorized = |weak: f64| {
        // Scales the couplings of every third row to its neighbour; row sums are unchanged.
        let of = |&(i, j, value): &(usize, usize, f64)| match i.min(j) % 3 == 0 && i.abs_diff(j) == 1 {
            true => weak * value,
            false => value,
        };
        let mut diagonal = vec![0.0; a.rows];
        a.entries
            .iter()
            .for_each(|entry| diagonal[entry.0] += entry.2 - if entry.0 == entry.1 { 0.0 } else { of(entry) });
        let value = |entry: &(usize, usize, f64)| if entry.0 == entry.1 { diagonal[entry.0] } else { of(entry) };
        solver.set_values(&a.entries.iter().map(value).collect::<Vec<f64>>()).unwrap();
        solver.factorize().unwrap();
        let mut x = vec![0.0; a.rows];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
        (solver.int(key::AGGREGATES_KEPT), solver.int(key::ITERATIONS))
    };
    let (kept, count) = factorized(1.0);
    assert_eq!(kept, 0);
    let (kept, again) = factorized(0.9);
    assert!(kept > 300 && again <= count + 2, "{kept} kept, {again} iterations for {count}");
    let (kept, again) = factorized(1e-9);
    assert!(kept == 0 && again <= count + 2, "{kept} kept, {again} iterations for {count}");
}

/// cg that switches to minres continues from the x of cg and its iteration count. The next solve begins with cg.
#[test]
fn minres_continues_from_the_x_of_cg() {
    let a = entries(five_points(20, [3.5, -1.0, -1.0, -1.0, -1.0]));
    let solver = a.solver();
    let b = rhs(a.rows);
    solver.options("solver=cg").unwrap();
    solver.factorize().unwrap();
    let mut x = vec![7.0; a.rows];
    let failure = solver.solve(&b, &mut x).unwrap_err();
    failure.expect(status::BREAKDOWN, &["p'Ap = -", "in iteration", "the matrix is indefinite; use solver=minres"]);
    let broke = solver.int(key::ITERATIONS);
    assert_eq!(x, vec![7.0; a.rows], "x as given");
    solver.options("solver=auto").unwrap();
    solver.factorize().unwrap();
    for _ in 0..2 {
        let mut x = vec![7.0; a.rows];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
        assert!(solver.int(key::ITERATIONS) > broke && residual(&a, &b, &x) <= 1.001e-6);
        assert_eq!(solver.int(key::INFO_SOLVER), MINRES);
    }
}

/// Breakdown by p'Ap does not depend on the scale of A, and an initial p'Ap = 0 is not rounding. If the off-diagonal
/// entries are larger than any shift compensates, `auto` uses the diagonal as M.
#[test]
fn small_systems_that_are_indefinite() {
    let symmetric = |first: f64, beside: f64, second: f64| {
        Entries::new(2, 2, &[(0, 0, first), (0, 1, beside), (1, 0, beside), (1, 1, second)])
    };
    let unit = |u: f64| symmetric(u, 2.0 * u, u);
    let cases = [
        (unit(1.0), [1.0, -1.0], "none"),
        (unit(1e-11), [1.0, -1.0], "none"),
        (unit(1e11), [1.0, -1.0], "none"),
        (symmetric(1.0, 2.5, 4.0), [1.0, -4.0], "jacobi"),
    ];
    for (a, b, m) in cases {
        let solver = a.solver();
        solver.options(&format!("solver=cg preconditioner={m}")).unwrap();
        solver.factorize().unwrap();
        let mut x = [0.0; 2];
        let failure = solver.solve(&b, &mut x).expect_err(&format!("{:?}", a.entries));
        failure.expect(status::BREAKDOWN, &["p'Ap = ", "iteration 1", "the matrix is indefinite; use solver=minres"]);
        solver.options("solver=auto").unwrap();
        solver.factorize().unwrap();
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
        assert_eq!(solver.int(key::INFO_SOLVER), MINRES);
        assert!(residual(&a, &b, &x) <= 1e-6);
    }
    // A negative diagonal entry, by which M divides.
    let solver = symmetric(-1.0, 0.0, 1.0).solver();
    solver.options("solver=cg preconditioner=jacobi").unwrap();
    solver.factorize().unwrap();
    let failure = solver.solve(&[1.0, 0.5], &mut [0.0; 2]).unwrap_err();
    failure.expect(status::BREAKDOWN, &["r'M^-1 r = -", "the preconditioner is indefinite; use solver=minres"]);
    for a in [symmetric(1.0, 1e17, 1.0), symmetric(1e-20, 1.0, 1e-20)] {
        let solver = a.solver();
        solver.options("precision=f32").unwrap();
        solver.factorize().unwrap();
        assert_eq!((solver.int(key::PRECONDITIONER), solver.int(key::INFO_PRECISION)), (BY_DIAGONAL, 1));
        let mut x = [0.0; 2];
        assert_eq!(solver.solve(&[1.0, -2.0], &mut x).unwrap(), status::OK);
        assert!(residual(&a, &[1.0, -2.0], &x) <= 1e-6);
    }
}

/// M in f32 is an equally good preconditioner of a well-conditioned matrix, also for tolerances below the precision of
/// f32. M^-1 r differs by the rounding of f32.
#[test]
fn entries_of_m_in_single_precision() {
    let a = named("random_dominant_2000_8");
    let solver = a.solver();
    let b = rhs(a.rows);
    for m in ["ssor", "ilu0", "neumann", "chebyshev"] {
        let mut counts = [0; 2];
        let mut applied = Vec::new();
        for (precision, count) in ["f64", "f32"].iter().zip(&mut counts) {
            let options = format!("solver=idr preconditioner={m} precision={precision} rel_tol=1e-12 max_iter=5000");
            solver.options(&options).unwrap();
            solver.factorize().unwrap();
            let mut x = vec![0.0; a.rows];
            assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{options}");
            assert!(residual(&a, &b, &x) <= 1.01e-12);
            *count = solver.int(key::ITERATIONS);
            applied.push(solver.apply(&b).unwrap());
            assert_eq!(solver.int(key::INFO_PRECISION), if *precision == "f32" { 2 } else { 1 });
        }
        assert!(counts[1] <= counts[0] * 5 / 4 + 2, "{m}: {counts:?}");
        let difference = norm(&applied[0].iter().zip(&applied[1]).map(|(a, b)| a - b).collect::<Vec<_>>());
        // The bound is the rounding error of f32 in recursive sums of a few products.
        assert!(difference > 0.0 && difference < 1e-5 * norm(&applied[0]), "{m}: {difference:e}");
    }
    solver.options("preconditioner=jacobi").unwrap();
    solver.factorize().unwrap();
    assert_eq!(solver.int(key::INFO_PRECISION), 1, "a diagonal is stored in f64");
    // 1e-30 / 1e30 is not representable in f32: underflow is dropped, overflow is an error.
    let large = Entries::new(2, 2, &[(0, 0, 1e-30), (0, 1, 1e30), (1, 1, 1.0)]).solver();
    large.options("solver=idr preconditioner=ilu0 precision=f32").unwrap();
    large.factorize().unwrap_err().expect(status::MATRIX, &["precision=f32", "1e60", "use precision=f64"]);
}

/// Discretizes -div k grad u on n x n cells with u = 0 outside. The conductivity of a face is the harmonic mean of its
/// two cells.
fn conducting(n: usize, conductivity: impl Fn(usize, usize) -> f64) -> Entries {
    let mut all = Vec::new();
    for p in 0..n * n {
        let (i, j) = (p % n, p / n);
        let mut center = 0.0;
        for (inside, q) in
            [(i > 0, p.wrapping_sub(1)), (i + 1 < n, p + 1), (j > 0, p.wrapping_sub(n)), (j + 1 < n, p + n)]
        {
            let here = conductivity(i, j);
            let there = if inside { conductivity(q % n, q / n) } else { here };
            let face = 2.0 * here * there / (here + there);
            center += face;
            if inside {
                all.push((p, q, -face));
            }
        }
        all.push((p, p, center));
    }
    Entries::new(n * n, n * n, &all)
}

/// A disc with conductivity 1e6, at the tolerance 1e-10: the recurred residual reaches it, but the true residual of
/// x in double precision does not.
#[test]
fn unreachable_tolerance_ends_as_stagnation() {
    let n: usize = 128;
    let radius = 100.0 / 512.0 * n as f64;
    let from_middle = |i: usize| (i as f64 + 0.5 - n as f64 / 2.0).powi(2);
    let a = conducting(n, |i, j| if from_middle(i) + from_middle(j) < radius * radius { 1e6 } else { 1.0 });
    let solver = a.solver();
    let b = rhs(a.rows);
    for m in ["ic0", "jacobi"] {
        solver.options(&format!("solver=cg preconditioner={m} rel_tol=1e-10 max_iter=20000")).unwrap();
        solver.factorize().unwrap();
        let mut x = vec![0.0; a.rows];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::NOT_CONVERGED, "{m}");
        assert_eq!(solver.int(key::STOP_REASON), STAGNATED, "{m}");
        let reported = solver.real(key::FINAL_RESIDUAL);
        assert!(reported > 1e-10 && reported < 1e-7, "{m}: as far as x goes, {reported:e}");
    }
}

/// Only the true b - A x counts as convergence: channels with conductivity 1e6.
#[test]
fn convergence_requires_the_true_residual() {
    let n: usize = 64;
    let smooth = |i: usize, j: usize| {
        let (x, y) = (i as f64 / n as f64, j as f64 / n as f64);
        (9.0 * x + 3.0 * y).sin() * (7.0 * y - 2.0 * x).cos()
    };
    let a = conducting(n, |i, j| if smooth(i, j) > 0.3 { 1e6 } else { 1.0 });
    let b = rhs(a.rows);
    let solver = a.solver();
    for (text, reachable) in [("rel_tol=1e-6", true), ("rel_tol=1e-14", false)] {
        for method in ["cg preconditioner=ic0", "cg preconditioner=jacobi", "bicgstab", "idr", "minres"] {
            solver.options(&format!("solver={method} {text} max_iter=20000")).unwrap();
            solver.factorize().unwrap();
            let mut x = vec![0.0; a.rows];
            let status = solver.solve(&b, &mut x).unwrap();
            let (true_one, tolerance) = (residual(&a, &b, &x), if reachable { 1e-6 } else { 1e-14 });
            let reported = solver.real(key::FINAL_RESIDUAL);
            if status == status::OK {
                // The plain sums of the test round differently: by 16 roundings of |A||x|, which is 1e6 |b| here.
                assert!(
                    reported <= tolerance && true_one <= tolerance + 16.0 * f64::EPSILON * 1e6,
                    "{method} {text} {true_one:e}"
                );
            } else {
                assert!(!reachable && solver.int(key::STOP_REASON) == STAGNATED, "{method} {text}");
            }
        }
    }
}

/// Initial guess, b = 0, no iterations, divergence: statuses and x.
#[test]
fn stop_reasons_and_returned_x() {
    let a = named("poisson2d_20");
    let solver = a.solver();
    solver.factorize().unwrap();
    let b = rhs(a.rows);
    let mut x = vec![0.0; a.rows];
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
    let solution = x.clone();
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
    assert_eq!((solver.int(key::STOP_REASON), solver.int(key::ITERATIONS)), (INITIAL_GUESS, 0));
    assert_eq!(x, solution);
    assert_eq!(solver.solve(&vec![0.0; a.rows], &mut x).unwrap(), status::OK);
    assert_eq!((solver.int(key::STOP_REASON), &x), (ZERO_RHS, &vec![0.0; a.rows]));
    solver.options("max_iter=3").unwrap();
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::NOT_CONVERGED);
    assert_eq!((solver.int(key::STOP_REASON), solver.int(key::ITERATIONS)), (MAX_ITER, 3));
    expect_not_converged(3, solver.real(key::FINAL_RESIDUAL), "1e-6", ITERATION_LIMIT);
    // The iteration matrix has a spectral radius above 1, so the sweeps diverge: x is the guess.
    let a = Entries::new(2, 2, &[(0, 0, 1.0), (0, 1, 3.0), (1, 0, 3.0), (1, 1, 1.0)]);
    let solver = a.solver();
    solver.options("solver=jacobi max_iter=100000").unwrap();
    solver.factorize().unwrap();
    let mut x = vec![0.5, -0.25];
    assert_eq!(solver.solve(&[1.0, 2.0], &mut x).unwrap(), status::NOT_CONVERGED);
    assert_eq!((solver.int(key::STOP_REASON), &x), (DIVERGED, &vec![0.5, -0.25]));
    expect_not_converged(solver.int(key::ITERATIONS), solver.real(key::FINAL_RESIDUAL), "1e-6", common::DIVERGED);
    // 3^k > 1e100 for k >= 210; a smaller `divergence_limit` stops earlier.
    assert!((205..=215).contains(&solver.int(key::ITERATIONS)));
    solver.options("divergence_limit=1e3").unwrap();
    assert_eq!(solver.solve(&[1.0, 2.0], &mut x).unwrap(), status::NOT_CONVERGED);
    assert!((5..=8).contains(&solver.int(key::ITERATIONS)));
}

/// A = diag(1, 100) and b = (1, 0.05): the first step of cg has a residual of 3.96 |b|, and the second step solves. All
/// methods use this limit, which is also relative to the residual of a poor guess.
#[test]
fn a_residual_beyond_the_limit_has_diverged() {
    let solver = Entries::new(2, 2, &[(0, 0, 1.0), (1, 1, 100.0), (0, 1, 0.0), (1, 0, 0.0)]).solver();
    let b = [1.0, 0.05];
    for (limit, wanted) in [(2.0, status::NOT_CONVERGED), (4.0, status::OK)] {
        solver.options(&format!("solver=cg preconditioner=none divergence_limit={limit}")).unwrap();
        solver.factorize().unwrap();
        let mut x = [0.0; 2];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), wanted, "{limit}");
        if wanted == status::NOT_CONVERGED {
            assert_eq!((solver.int(key::STOP_REASON), solver.int(key::ITERATIONS), x), (DIVERGED, 1, [0.0; 2]));
        }
    }
    let a = named("poisson2d_20");
    let (solver, b) = (a.solver(), rhs(a.rows));
    for method in ["cg", "bicg", "bicgstab", "gmres", "idr", "minres", "steepest_descent", "gauss_seidel"] {
        solver.options(&format!("solver={method} divergence_limit=0 rel_tol=1e-3 max_iter=2000")).unwrap();
        solver.factorize().unwrap();
        let mut x = vec![1e12; a.rows];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{method}");
        assert!(residual(&a, &b, &x) <= 1.01e-3, "{method}");
    }
}

/// minres on a matrix so ill-conditioned that b - A x grows to 1e13 |b| while the recurred residual remains small. The
/// limit also applies to b - A x.
#[test]
fn a_true_residual_beyond_the_limit_has_diverged() {
    let solver = Solver::read(&data().join("fidapm05.mtx")).unwrap();
    solver.options("solver=minres preconditioner=none").unwrap();
    solver.factorize().unwrap();
    let mut x = vec![0.25; 42];
    assert_eq!(solver.solve(&[1.0; 42], &mut x).unwrap(), status::NOT_CONVERGED);
    assert_eq!((solver.int(key::STOP_REASON), x), (DIVERGED, vec![0.25; 42]));
}

/// `restart`, `shadow` and `max_iter` take effect immediately, other options at the next factorize; products may come
/// between.
#[test]
fn options_take_effect_at_the_documented_time() {
    let a = named("convdiff2d_20_p2_q1");
    let solver = a.solver();
    let b = rhs(a.rows);
    let mut x = vec![0.0; a.rows];
    solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &["sparse_factorize must come before this call"]);
    solver.apply(&b).unwrap_err().expect(status::STATE, &["sparse_factorize"]);
    solver.product(&b, false).unwrap();
    solver.options("solver=gmres preconditioner=none restart=3").unwrap();
    solver.factorize().unwrap();
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
    let short = solver.int(key::ITERATIONS);
    solver.options("restart=60").unwrap();
    x.fill(0.0);
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
    assert!(solver.int(key::ITERATIONS) < short, "a longer recursion needs fewer iterations");
    solver.options("format=ell").unwrap();
    solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &["an option that acts at factorize has changed"]);
    solver.product(&b, true).unwrap();
    solver.options("format=dia").unwrap();
    solver.product(&b, false).unwrap();
    solver.factorize().unwrap();
    solver.solve(&b, &mut x).unwrap();
    assert_eq!(solver.int(key::INFO_FORMAT), 5);
    let values: Vec<f64> = a.entries.iter().map(|e| 2.0 * e.2).collect();
    solver.set_values(&values).unwrap();
    solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &["values were set after the last sparse_factorize"]);
    let twice = solver.product(&x, false).unwrap();
    solver.factorize().unwrap();
    let mut half = vec![0.0; a.rows];
    assert_eq!(solver.solve(&twice, &mut half).unwrap(), status::OK);
    assert!(norm(&half.iter().zip(&x).map(|(h, x)| h - x).collect::<Vec<_>>()) < 1e-4 * norm(&x));
}

/// The messages of errors of factorize name the entry or the row, and suggest an alternative.
#[test]
fn errors_of_factorize_name_the_entry() {
    let refused = |a: &Entries, options: &str, status: i32, words: &[&str]| {
        let solver = a.solver();
        solver.options(options).unwrap();
        solver.factorize().expect_err(options).expect(status, words);
        // The handle remains usable.
        solver.product(&vec![1.0; a.cols], false).unwrap();
    };
    let skew = Entries::new(3, 3, &[(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (1, 2, 1.0)]);
    for solver in ["cg", "minres", "steepest_descent"] {
        let words =
            &[&*format!("solver={solver} needs a symmetric matrix: a(1, 2) = 1e0"), "is 0e0; ", "use idr or bicgstab"];
        refused(&skew, &format!("solver={solver}"), status::MATRIX, words);
    }
    refused(&skew, "preconditioner=ic0 solver=idr", status::MATRIX, &["preconditioner=ic0 needs a symmetric", "ilu0"]);
    let words = &["pass both triangles of a symmetric matrix, not only the upper one"];
    refused(&skew, "solver=cg", status::MATRIX, words);
    let hole = Entries::new(3, 3, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (2, 2, 1.0)]);
    for solver in ["jacobi", "gauss_seidel", "sor"] {
        let words = &["row 1 has a missing or zero diagonal entry", &*format!("solver={solver}"), "use solver=minres"];
        refused(&hole, &format!("solver={solver}"), status::MATRIX, words);
    }
    for m in ["jacobi", "ssor", "neumann", "chebyshev", "ic0"] {
        let words =
            &["row 1 has a missing or zero diagonal entry", &*format!("preconditioner={m}"), "use preconditioner=none"];
        refused(&hole, &format!("solver=idr preconditioner={m}"), status::MATRIX, words);
    }
    refused(&hole, "solver=idr preconditioner=ilu0", status::MATRIX, &["row 1 has no diagonal entry", "ilu0"]);
    let zero_pivot = Entries::new(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)]);
    refused(&zero_pivot, "solver=idr preconditioner=ilu0", status::MATRIX, &["ilu0: pivot 0 in row 1"]);
    let indefinite = Entries::new(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)]);
    let words = &["ic0: pivot -3.000e0 with shift=0 in row 1", "use a larger shift"];
    refused(&indefinite, "solver=cg preconditioner=ic0 shift=0", status::MATRIX, words);
    let hopeless = Entries::new(2, 2, &[(0, 0, 1e-300), (0, 1, 1e300), (1, 0, 1e300), (1, 1, 1e-300)]);
    refused(&hopeless, "solver=cg preconditioner=ic0", status::MATRIX, &["ic0: pivot -", "use preconditioner=jacobi"]);
    let negative = Entries::new(2, 2, &[(0, 0, -2.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, -2.0)]);
    let words = &["ic0 needs a positive diagonal, got -2 in row 0", "does the matrix hold -A?"];
    refused(&negative, "solver=cg preconditioner=ic0", status::MATRIX, words);
    let row = Entries::new(3, 3, &[(0, 0, 1.0), (2, 2, 1.0), (1, 1, 0.0), (0, 1, 1.0)]);
    refused(&row, "", status::MATRIX, &["row 1 has only zero entries: the matrix is singular"]);
    let column = Entries::new(2, 2, &[(0, 0, 1.0), (1, 0, 1.0)]);
    refused(&column, "", status::MATRIX, &["column 1 has only zero entries"]);
    let poisson = named("poisson2d_3");
    let words = &["solver=idr with preconditioner=amg", "flexible cg", "use preconditioner=auto"];
    refused(&poisson, "solver=idr preconditioner=amg", status::UNSUPPORTED, words);
    refused(&poisson, "solver=jacobi preconditioner=amg", status::UNSUPPORTED, &["sweeps have no preconditioner"]);
    refused(&poisson, "solver=jacobi preconditioner=ssor", status::UNSUPPORTED, &["sweeps have no preconditioner"]);
    refused(&poisson, "solver=minres preconditioner=ic0", status::UNSUPPORTED, &["use none, or jacobi"]);
    refused(&poisson, "solver=sor sor_omega=2", status::ARGUMENT, &["sor_omega must lie in (0, 2)", "got 2"]);
    refused(
        &named("convdiff2d_3_p2_q1"),
        "solver=bicg transpose=copy format_memory=10",
        status::MEMORY,
        &["more than format_memory = 10"],
    );
    let wide = Entries::new(2, 3, &[(0, 0, 1.0)]);
    refused(&wide, "", status::DIMENSION, &["a square matrix", "2 rows and 3 columns"]);
    let none = Entries::new(0, 0, &[]);
    refused(&none, "", status::DIMENSION, &["at least one row"]);
    let solver = poisson.solver();
    solver.options("solver=jacobi").unwrap();
    solver.factorize().unwrap();
    solver.apply(&[1.0; 9]).unwrap_err().expect(status::UNSUPPORTED, &["sweeps have no preconditioner to apply"]);
}

/// A NaN is reported with its row, and a diagonal shift is reported as a result.
#[test]
fn nan_rows_and_shifts_are_reported() {
    let a = named("poisson2d_50");
    let solver = a.solver();
    solver.factorize().unwrap();
    let (mut b, mut x) = (rhs(a.rows), vec![1.0; a.rows]);
    b[2100] = f64::NAN;
    solver.solve(&b, &mut x).unwrap_err().expect(status::NOT_FINITE, &["b holds NaN at 2100"]);
    assert_eq!(x, vec![1.0; a.rows]);
    b[2100] = 1.0;
    x[2101] = f64::INFINITY;
    solver.solve(&b, &mut x).unwrap_err().expect(status::NOT_FINITE, &["x holds inf at 2101"]);
    // Pivots 1 and 1 - 4. With a shift s, (1 + s)^2 > 4 is required: the first of 1e-3, 2e-3, ... above 1.
    let solver = Entries::new(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)]).solver();
    solver.options("solver=idr preconditioner=ic0").unwrap();
    solver.factorize().unwrap();
    assert!((solver.real(key::INFO_SHIFT) - 1.024).abs() < 1e-12);
    let mut x = [0.0; 2];
    assert_eq!(solver.solve(&[3.0, 3.0], &mut x).unwrap(), status::OK);
    assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-5));
    let solver = named("poisson2d_9").solver();
    // One thread processes all rows as one level.
    for (ordering, colours, levels) in [("natural", 0, 1), ("multicolour", 2, 0), ("symmetric", 0, 1)] {
        solver.options(&format!("solver=sor ordering={ordering}")).unwrap();
        solver.factorize().unwrap();
        assert_eq!((solver.int(key::COLOURS), solver.int(key::SWEEP_LEVELS)), (colours, levels), "{ordering}");
    }
    assert_eq!(solver.int(key::DOMINANCE), 2, "irreducible");
}

/// A matrix with only one triangle is solved as a nonsymmetric matrix, with a warning. Sweeps that may not converge
/// also cause a warning.
#[test]
fn warnings_are_logged() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sparse.log");
    let _ = std::fs::remove_file(&path);
    let log = |options: &str, a: &Entries| {
        let solver = a.solver();
        solver.options(&format!("log={} {options}", path.display())).unwrap();
        solver.factorize().unwrap();
        let triangle = solver.int(key::TRIANGLE);
        drop(solver);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (text, triangle)
    };
    let with = |keep: fn(usize, usize) -> bool| {
        let mut a = named("poisson2d_9");
        a.entries.retain(|e| keep(e.0, e.1));
        a
    };
    let (text, triangle) = log("verbosity=1", &with(|i, j| j >= i));
    assert!(
        text.contains("only the upper triangle has entries: if the matrix is symmetric") && triangle == 2,
        "{text}"
    );
    assert!(text.contains("sparse: not symmetric, dominance strict, solver idr, preconditioner ilu0"), "{text}");
    let (text, triangle) = log("", &with(|i, j| j <= i));
    assert!(text.contains("only the lower triangle has entries") && triangle == 1, "{text}");
    let (text, triangle) = log("verbosity=1", &with(|_, _| true));
    assert!(text.contains("sparse: symmetric, dominance irreducible, solver cg, preconditioner ic0"), "{text}");
    assert_eq!((text.contains("only"), triangle), (false, 0), "{text}");
    let two = Entries::new(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)]);
    let (text, _) = log("solver=gauss_seidel", &two);
    assert!(text.contains("solver=gauss_seidel: the matrix is not diagonally dominant, sweeps may diverge"), "{text}");
    let (text, _) = log("solver=idr preconditioner=ic0 verbosity=1", &two);
    assert!(text.contains("ic0: pivot -3.00e0 in row 1 (counted from 0), shift=1.024"), "{text}");
}

/// M^-1 is symmetric, <M^-1 r, s> = <M^-1 s, r>, and <M^-1 r, r> is positive. M^-1 of ssor on a small matrix satisfies
/// its formula row by row.
#[test]
fn apply_is_the_preconditioner() {
    let a = named("poisson2d_9");
    let n = a.rows;
    let solver = a.solver();
    let [r, s] = [1, 2].map(|seed| {
        let mut random = SplitMix(seed);
        (0..n).map(|_| random.unit() - 0.5).collect::<Vec<_>>()
    });
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for m in ["none", "jacobi", "ssor sor_omega=1.3", "ic0", "ilu0", "neumann", "neumann order=0", "chebyshev degree=3"]
    {
        solver.options(&format!("solver=cg preconditioner={m}")).unwrap();
        solver.factorize().unwrap();
        let (z, y) = (solver.apply(&r).unwrap(), solver.apply(&s).unwrap());
        assert!((dot(&z, &s) - dot(&y, &r)).abs() <= 1e-13 * norm(&z) * norm(&s), "{m} is symmetric");
        assert!(dot(&z, &r) > 0.0, "{m} is positive");
        if m.starts_with("ssor") {
            // (D + wL) D^-1 (D + wU) z / (w (2 - w)) = r
            let w = 1.3;
            let triangle = |v: &[f64], lower: bool| {
                let mut y: Vec<f64> = v.iter().map(|v| 4.0 * v).collect();
                let inside = a.entries.iter().filter(|e| if lower { e.1 < e.0 } else { e.1 > e.0 });
                inside.for_each(|e| y[e.0] += w * e.2 * v[e.1]);
                y
            };
            let scaled: Vec<f64> = triangle(&z, false).iter().map(|v| v / 4.0).collect();
            let back = triangle(&scaled, true);
            let error = back.iter().zip(&r).map(|(b, r)| (b / (w * (2.0 - w)) - r).abs()).fold(0.0, f64::max);
            assert!(error < 1e-13, "{error:e}");
        }
        if m == "neumann order=0" {
            assert!(z.iter().zip(&r).all(|(z, r)| *z == 0.25 * r), "D^-1");
        }
    }
}
