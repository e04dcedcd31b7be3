//! The factorization by its definition: M^-1 (A - R) = I, column by column, where A - R is computed densely and
//! independently (`common::dense`).
//!
//! All variants and levels are checked on all grids up to 13 x 13. Larger grids are checked for the r1/r2/b1/b2
//! storage, which begins where a grid is longer than a compute block.

#[path = "../common/mod.rs"]
mod common;

use common::dense::{Dense, preconditioner, red_nodes};
use common::problems::{Random, Stencil, fe_aniso, neumann_const, random_m_matrix, rot7};
use common::{Solver, dot, key, max_abs, max_difference};

/// Ciarlet's table (lumping of both colours, omega), and an intermediate relaxation.
const VARIANTS: [(bool, f64); 6] = [(false, 0.0), (false, 1.0), (true, 0.0), (true, 1.0), (false, 0.7), (true, 0.7)];

/// Entries of the matrices have magnitude 1, and A - R is diagonally dominant with row sums of about 0.1. Its condition
/// number is below a few hundred, so 1e-13 is a few hundred roundings. (An independent program observed 4e-15.)
const TOLERANCE: f64 = 1e-13;

/// Selects the V-cycle, because a recursive cycle has another M.
fn options(backend: &str, levels: usize, both: bool, omega: f64) -> String {
    let lumping = if both { "m2" } else { "m1" };
    format!("backend={backend} threads=1 levels={levels} lumping={lumping} relaxation={omega} cycle=v")
}

/// Returns the largest entry of M^-1 (A - R) - I.
fn error_of_inverse(solver: &Solver, m: &Dense) -> f64 {
    let mut worst = 0.0f64;
    for j in 0..m.n {
        let mut column = solver.apply(&m.column(j));
        column[j] -= 1.0;
        worst = worst.max(max_abs(&column));
        assert!(!column.iter().any(|v| v.is_nan()));
    }
    worst
}

/// Checks these grids with all variants and all levels. Returns the number of columns.
fn check_all(backend: &str, nine_point: bool, extents: impl Iterator<Item = (usize, usize)>) -> usize {
    let mut columns = 0;
    for (nx, ny) in extents {
        let a = random_m_matrix(nx, ny, nine_point, (100 * nx + ny) as u64);
        let full = red_nodes(nx, ny).len();
        for (both, omega) in VARIANTS {
            for levels in 1..=full.max(1) {
                let solver = Solver::of(&a, &options(backend, levels, both, omega));
                let done = solver.int(key::INFO_LEVELS) as usize;
                assert!(done <= levels.min(full), "{nx}x{ny}: {done} levels of {levels} asked, {full} there");
                let error = error_of_inverse(&solver, &preconditioner(&a, levels, both, omega));
                assert!(
                    error <= TOLERANCE,
                    "{backend} {nx}x{ny} nine_point {nine_point} both {both} omega {omega} levels {levels}: {error:e}"
                );
                columns += a.len();
            }
        }
    }
    columns
}

fn all_extents() -> impl Iterator<Item = (usize, usize)> {
    (1..=13).flat_map(|ny| (1..=13).map(move |nx| (nx, ny)))
}

#[test]
fn inverse_of_a_minus_r_5_point() {
    assert!(check_all("cpu", false, all_extents()) > 200_000);
}

#[test]
fn inverse_of_a_minus_r_9_point() {
    assert!(check_all("cpu", true, all_extents()) > 200_000);
}

#[test]
fn inverse_of_a_minus_r_reference() {
    let up_to = |limit| all_extents().filter(move |&(nx, ny)| nx <= limit && ny <= limit);
    assert!(check_all("reference", false, up_to(11)) > 50_000);
    assert!(check_all("reference", true, up_to(11)) > 50_000);
}

/// Enables the largest number of r1/r2/b1/b2 grids. Otherwise there are none if nx and ny are below 17.
const PACKED: &str = " compute_block=8";

/// Creates a solver with the cpu backend on packed grids, and checks that these are in use.
#[track_caller]
fn packed(a: &Stencil, options: &str) -> Solver {
    let solver = Solver::of(a, &format!("{options}{PACKED}"));
    assert!(solver.int(key::INFO_GRIDS) > 0, "{}x{}: no packed grid with {options}", a.nx, a.ny);
    solver
}

/// Creates a solver; "packed" is cpu on packed grids. Returns none if packed grids need a longer grid or more levels.
fn solver_of(a: &Stencil, backend: &str, levels: usize, both: bool, omega: f64) -> Option<Solver> {
    if backend != "packed" {
        return Some(Solver::of(a, &options(backend, levels, both, omega)));
    }
    (levels >= 2 && a.nx.max(a.ny) > 8).then(|| packed(a, &options("cpu", levels, both, omega)))
}

/// Odd, even and prime extents, one more than a block, and thin grids; with one, two and three packed grids.
const PACKED_EXTENTS: [(usize, usize); 16] = [
    (9, 9),
    (10, 10),
    (11, 13),
    (13, 8),
    (1, 9),
    (9, 2),
    (2, 17),
    (16, 15),
    (17, 17),
    (17, 16),
    (18, 19),
    (19, 11),
    (7, 20),
    (20, 20),
    (23, 29),
    (33, 12),
];

/// Checks every variant on packed grids. Returns the largest number of grids in use.
fn check_packed(nine_point: bool) -> i64 {
    let mut most = 0;
    for (nx, ny) in PACKED_EXTENTS {
        let a = random_m_matrix(nx, ny, nine_point, (100 * nx + ny) as u64);
        let full = red_nodes(nx, ny).len();
        for (both, omega) in VARIANTS {
            for levels in [2, 3, 4, 6, full] {
                let solver = packed(&a, &options("cpu", levels, both, omega));
                let grids = solver.int(key::INFO_GRIDS);
                let what = format!("{nx}x{ny} nine_point {nine_point} both {both} omega {omega} levels {levels}");
                assert!(grids as usize <= levels / 2, "{what}: {grids} grids");
                let error = error_of_inverse(&solver, &preconditioner(&a, levels, both, omega));
                assert!(error <= TOLERANCE, "{what}: {error:e}");
                most = most.max(grids);
            }
        }
    }
    most
}

#[test]
fn inverse_of_a_minus_r_packed_5_point() {
    assert_eq!(check_packed(false), 3);
}

#[test]
fn inverse_of_a_minus_r_packed_9_point() {
    assert_eq!(check_packed(true), 3);
}

/// Computes CG by its definition with dense matrices. Returns x after each of the first iterations from zero.
fn iterates(a: &Dense, m: &Dense, b: &[f64], count: usize) -> Vec<Vec<f64>> {
    let times = |p: &[f64]| -> Vec<f64> { (0..a.n).map(|i| dot(&a.a[i * a.n..(i + 1) * a.n], p)).collect() };
    let (mut x, mut r) = (vec![0.0; a.n], b.to_vec());
    let mut p = m.solve(&r);
    let mut rho = dot(&r, &p);
    let mut all = Vec::new();
    for _ in 0..count {
        let q = times(&p);
        let alpha = rho / dot(&p, &q);
        for i in 0..a.n {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        all.push(x.clone());
        let z = m.solve(&r);
        let next = dot(&r, &z);
        for i in 0..a.n {
            p[i] = z[i] + next / rho * p[i];
        }
        rho = next;
    }
    all
}

/// The fused stages have their own M^-1, which rrb_apply never runs. Their iterates are therefore compared. With 5
/// points, CG runs on the system after the first red elimination. This is CG on A with a guess that satisfies the red
/// rows.
#[test]
fn iterates_on_packed_grids() {
    for (nx, ny) in [(9, 9), (13, 10), (17, 18), (7, 19)] {
        for nine_point in [false, true] {
            let a = random_m_matrix(nx, ny, nine_point, 5);
            let dense = Dense::from_stencil(&a);
            let mut b = Random(9).vector(a.len());
            // b is zero on the red nodes of the first level, so that the guess 0 satisfies their rows.
            red_nodes(nx, ny)[0].iter().for_each(|&p| b[p] = 0.0);
            for (both, omega) in VARIANTS {
                for levels in [2, 3, 4, 20] {
                    let expected = iterates(&dense, &preconditioner(&a, levels, both, omega), &b, 3);
                    for fusion in ["on", "off"] {
                        for (k, expected) in expected.iter().enumerate() {
                            let more = format!(" fusion={fusion} rel_tol=1e-15 max_iter={}", k + 1);
                            let solver = packed(&a, &(options("cpu", levels, both, omega) + &more));
                            let (x, _) = solver.solve_from_zero(&b);
                            assert_eq!(solver.iterations(), k + 1);
                            let error = max_difference(&x, expected);
                            let what = format!("{nx}x{ny} nine_point {nine_point} both {both} omega {omega}");
                            // CG slightly amplifies the rounding of M^-1.
                            assert!(error <= 100.0 * TOLERANCE, "{what} levels {levels} {more}: {error:e}");
                        }
                    }
                }
            }
        }
    }
}

/// Long and thin grids, beyond the size of a block of the r1/r2/b1/b2 arrays, with every number of grids.
#[test]
fn inverse_of_a_minus_r_across_blocks() {
    for (nx, ny) in [(40, 3), (3, 40), (1, 70), (70, 1), (2, 37), (37, 2), (19, 18)] {
        for nine_point in [false, true] {
            let a = random_m_matrix(nx, ny, nine_point, 7);
            let full = red_nodes(nx, ny).len();
            for levels in [1, 2, 3, 4, full] {
                let m = preconditioner(&a, levels, false, 1.0);
                for grids in [0, 1, 2, 3] {
                    for block in [8, 16] {
                        let extra = format!(" grids={grids} compute_block={block}");
                        let solver = Solver::of(&a, &(options("cpu", levels, false, 1.0) + &extra));
                        let error = error_of_inverse(&solver, &m);
                        assert!(error <= TOLERANCE, "{nx}x{ny} levels {levels} {extra}: {error:e}");
                    }
                }
            }
        }
    }
}

/// M^-1 is symmetric and positive definite for every variant.
#[test]
fn preconditioner_is_symmetric_and_positive() {
    for (nx, ny) in [(5, 5), (8, 7), (3, 9), (1, 6)] {
        for nine_point in [false, true] {
            let a = random_m_matrix(nx, ny, nine_point, 11);
            for (both, omega) in VARIANTS {
                for levels in [1, 2, 3, 6] {
                    let solver = Solver::of(&a, &options("cpu", levels, both, omega));
                    let n = a.len();
                    let mut inverse = Dense { n, a: Vec::new() };
                    for j in 0..n {
                        let mut unit = vec![0.0; n];
                        unit[j] = 1.0;
                        inverse.a.extend(solver.apply(&unit));
                    }
                    for i in 0..n {
                        for j in 0..i {
                            let skew = (inverse.a[i * n + j] - inverse.a[j * n + i]).abs();
                            // Entries of the inverse are at most about 1/0.1.
                            assert!(skew <= TOLERANCE, "{nx}x{ny} ({i}, {j}): {skew:e}");
                        }
                    }
                    assert!(inverse.is_positive_definite(), "{nx}x{ny} both {both} omega {omega} levels {levels}");
                }
            }
        }
    }
}

/// One red elimination of a 5-point matrix lumps nothing: M = A, and CG needs one iteration.
#[test]
fn one_level_is_exact_for_five_points() {
    for (nx, ny) in [(6, 6), (13, 4), (1, 9), (9, 1)] {
        let a = random_m_matrix(nx, ny, false, 3);
        for backend in ["cpu", "reference"] {
            let solver = Solver::of(&a, &options(backend, 1, false, 1.0));
            let b = Random(5).vector(a.len());
            let (x, status) = solver.solve_from_zero(&b);
            assert_eq!((status, solver.iterations()), (0, 1));
            assert!(
                max_abs(&a.residual(&b, &x)) <= TOLERANCE * 10.0,
                "residual of a direct solution: rounding times |A| |x|"
            );
        }
    }
}

/// Adds each positive coupling to both diagonals and removes it: the matrix A^ from which M is computed.
fn compensated(a: &Stencil) -> (Stencil, i64) {
    let mut hat = a.clone();
    let mut count = 0;
    let positive: Vec<(usize, usize, f64)> = a.couplings().into_iter().filter(|&(.., v)| v > 0.0).collect();
    for (p, q, v) in positive {
        hat.center[p] += v;
        hat.center[q] += v;
        count += 1;
    }
    let drop = |array: &mut Vec<f64>| array.iter_mut().filter(|v| **v > 0.0).for_each(|v| *v = 0.0);
    drop(&mut hat.east);
    drop(&mut hat.north);
    if let Some((northeast, northwest)) = &mut hat.corners {
        drop(northeast);
        drop(northwest);
    }
    (hat, count)
}

/// With compensation, M is computed from A^, and the couplings are counted; CG still solves A.
#[test]
fn positive_couplings_are_compensated_in_m_alone() {
    let mut mixed = random_m_matrix(8, 9, true, 2);
    mixed.east.iter_mut().step_by(5).for_each(|v| *v = v.abs() * 0.05);
    let five = {
        let mut a = random_m_matrix(9, 8, false, 2);
        a.north.iter_mut().step_by(4).for_each(|v| *v = v.abs() * 0.05);
        a
    };
    let larger = {
        let mut a = random_m_matrix(19, 18, false, 2);
        a.east.iter_mut().step_by(3).for_each(|v| *v = v.abs() * 0.05);
        a
    };
    for a in [fe_aniso(9, 7, 3.0), rot7(8, 9, 0.1, 15.0), mixed, five, fe_aniso(17, 11, 3.0), larger] {
        let (hat, count) = compensated(&a);
        assert!(count > 0);
        for backend in ["cpu", "packed", "reference"] {
            for levels in [1, 2, 4] {
                let Some(solver) = solver_of(&a, backend, levels, false, 1.0) else { continue };
                assert_eq!(solver.int(key::INFO_COMPENSATED_COUPLINGS), count);
                // Row sums of A^ are about 0.01 here, which costs one digit of TOLERANCE.
                let error = error_of_inverse(&solver, &preconditioner(&hat, levels, false, 1.0));
                assert!(error <= 10.0 * TOLERANCE, "{backend} levels {levels}: {error:e}");
                let x = Random(1).vector(a.len());
                assert!(max_difference(&solver.multiply(&x), &a.multiply(&x)) < TOLERANCE, "rrb_multiply is A, not A^");
            }
        }
    }
}

/// `compensation=never` computes M from A itself (bilinear elements on moderately stretched cells still factor).
/// `always` without positive couplings has no effect.
#[test]
fn compensation_never_and_always() {
    let a = fe_aniso(7, 6, 1.5);
    let (_, count) = compensated(&a);
    assert!(count > 0);
    let solver = Solver::of(&a, &(options("cpu", 4, false, 1.0) + " compensation=never"));
    assert_eq!(solver.int(key::INFO_COMPENSATED_COUPLINGS), 0);
    let error = error_of_inverse(&solver, &preconditioner(&a, 4, false, 1.0));
    assert!(error <= 10.0 * TOLERANCE, "{error:e}");
    let a = fe_aniso(17, 10, 1.5);
    let solver = packed(&a, &(options("cpu", 4, false, 1.0) + " compensation=never"));
    assert_eq!(solver.int(key::INFO_COMPENSATED_COUPLINGS), 0);
    let error = error_of_inverse(&solver, &preconditioner(&a, 4, false, 1.0));
    assert!(error <= 10.0 * TOLERANCE, "packed: {error:e}");

    let m_matrix = random_m_matrix(7, 6, true, 8);
    let r = Random(2).vector(42);
    let z = ["auto", "never", "always"]
        .map(|choice| Solver::of(&m_matrix, &format!("backend=cpu levels=3 compensation={choice}")).apply(&r));
    assert_eq!(z[0], z[1]);
    assert_eq!(z[0], z[2]);
}

/// Rows without couplings (land): z = r/center there, and the other rows are as without them.
#[test]
fn decoupled_points_pass_through() {
    for nine_point in [false, true] {
        let mut a = random_m_matrix(9, 8, nine_point, 4);
        let land = [(0, 0), (4, 4), (4, 5), (5, 4), (8, 7), (3, 0), (8, 2), (1, 6)];
        for &(i, j) in &land {
            a.decouple(i, j, 2.0 + i as f64);
        }
        for backend in ["cpu", "packed", "reference"] {
            for levels in 1..=6 {
                let Some(solver) = solver_of(&a, backend, levels, false, 1.0) else { continue };
                let error = error_of_inverse(&solver, &preconditioner(&a, levels, false, 1.0));
                assert!(error <= TOLERANCE, "{backend} levels {levels}: {error:e}");
                let r = Random(6).vector(a.len());
                let z = solver.apply(&r);
                for &(i, j) in &land {
                    let expected = r[j * 9 + i] / (2.0 + i as f64);
                    // z is a product with 1/center, or two divisions by the square root of center. Both have at most
                    // three roundings.
                    let error = (z[j * 9 + i] / expected - 1.0).abs();
                    assert!(error <= 3.0 * f64::EPSILON, "{backend} ({i}, {j}): {error:e}");
                }
            }
        }
    }
}

/// Channels one cell wide: nodes that lose all their couplings keep their center if lumping would leave little of it.
#[test]
fn narrow_channels() {
    let (nx, ny) = (11, 10);
    let comb = |i: usize, j: usize| j == 0 || i.is_multiple_of(2);
    let stairs = |i: usize, j: usize| (i + j) % 4 < 2;
    let diagonal = |i: usize, j: usize| (i + j).is_multiple_of(2) && j % 3 != 2;
    type Wet = dyn Fn(usize, usize) -> bool;
    for wet in [&comb as &Wet, &stairs, &diagonal] {
        for nine_point in [false, true] {
            for row_sum in [0.01, 0.05, 0.5, 3.0] {
                let mut a = random_m_matrix(nx, ny, nine_point, 14);
                for p in (0..nx * ny).filter(|&p| !wet(p % nx, p / nx)) {
                    a.decouple(p % nx, p / nx, 1.0);
                }
                a.set_row_sums(|p| row_sum * (1.0 + (p % 3) as f64));
                for backend in ["cpu", "packed", "reference"] {
                    for (both, omega) in VARIANTS {
                        for levels in [1, 2, 3, 4, 8] {
                            let Some(solver) = solver_of(&a, backend, levels, both, omega) else { continue };
                            let error = error_of_inverse(&solver, &preconditioner(&a, levels, both, omega));
                            // Condition number up to 4 / 0.01, times the length of a channel.
                            let what = format!("{backend} row sum {row_sum} both {both} omega {omega} levels {levels}");
                            assert!(error <= 10.0 * TOLERANCE, "{what}: {error:e}");
                        }
                    }
                }
            }
        }
    }
}

/// Singular systems. With omega = 1 all row sums are kept, so M is singular with the same null vector. For right-hand
/// sides with mean zero, M z = r must hold although the last pivot was replaced. With omega < 1, M is regular, and z is
/// its solution minus the mean.
#[test]
fn singular_preconditioner_is_projected() {
    for (nx, ny) in [(5, 5), (8, 6), (2, 7), (1, 8), (9, 1), (12, 11), (17, 13)] {
        let mut nine = random_m_matrix(nx, ny, true, 9);
        nine.set_row_sums(|_| 0.0);
        let mut five = random_m_matrix(nx, ny, false, 9);
        five.set_row_sums(|_| 0.0);
        for a in [neumann_const(nx, ny), five, nine] {
            let n = a.len();
            let mut r = Random(3).vector(n);
            let mean = r.iter().sum::<f64>() / n as f64;
            r.iter_mut().for_each(|v| *v -= mean);
            for backend in ["cpu", "packed", "reference"] {
                for levels in [1, 2, 3, 4, 20] {
                    let Some(solver) = solver_of(&a, backend, levels, false, 1.0) else { continue };
                    assert_eq!(solver.int(key::INFO_SINGULAR_COMPONENTS), 1);
                    let z = solver.apply(&r);
                    let m = preconditioner(&a, levels, false, 1.0);
                    let mz: Vec<f64> = (0..n).map(|i| dot(&m.a[i * n..(i + 1) * n], &z)).collect();
                    // cond(M) on the complement of the constants is below 1e4 for these sizes (221 nodes, entries 0.1
                    // to 1).
                    let error = max_difference(&mz, &r);
                    assert!(error <= 1e-12, "{backend} {nx}x{ny} levels {levels}: {error:e}");
                    let mean = z.iter().sum::<f64>() / n as f64;
                    assert!(
                        mean.abs() <= 1e-14 * max_abs(&z) * n as f64,
                        "{backend} {nx}x{ny} levels {levels}: mean {mean:e}"
                    );

                    if levels < red_nodes(nx, ny).len() && levels > 2 && nx > 2 && ny > 2 {
                        let solver = solver_of(&a, backend, levels, false, 0.7).expect("as with omega 1");
                        let mut expected = preconditioner(&a, levels, false, 0.7).solve(&r);
                        let mean = expected.iter().sum::<f64>() / n as f64;
                        expected.iter_mut().for_each(|v| *v -= mean);
                        let error = max_difference(&solver.apply(&r), &expected);
                        assert!(
                            error <= 1e-12 * max_abs(&expected).max(1.0),
                            "{backend} {nx}x{ny} omega 0.7: {error:e}"
                        );
                    }
                }
            }
        }
    }
}

/// `rrb_multiply` is A on all nodes, including land.
#[test]
fn multiply_is_a() {
    for (nx, ny) in [(1, 1), (1, 5), (5, 1), (2, 2), (7, 10), (33, 20)] {
        for nine_point in [false, true] {
            let mut a = random_m_matrix(nx, ny, nine_point, 21);
            if nx > 3 && ny > 3 {
                a.decouple(2, 2, 5.0);
            }
            let x = Random(8).vector(a.len());
            for backend in ["cpu", "reference"] {
                let y = Solver::of(&a, &format!("backend={backend}")).multiply(&x);
                // The tolerance covers nine products of magnitude below 10.
                assert!(max_difference(&y, &a.multiply(&x)) <= 1e-14, "{backend} {nx}x{ny}");
            }
        }
    }
}
