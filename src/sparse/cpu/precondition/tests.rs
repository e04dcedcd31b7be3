//! Tests of preconditioners against their formulas for small dense matrices.

use super::*;
use crate::aggregation::KeptAggregates;
use crate::base::index::Indices;
use crate::base::workers::Workers;
use crate::error::RRB_ERR_MATRIX;
use crate::sparse::{AnyCsr, Entries, Matrix, Order, factors as incomplete};

/// Team sizes with which M^-1 is applied.
const MEMBERS: [usize; 4] = [1, 2, 3, 7];
/// Numbers of rows: odd ones, and those near a power of two.
const SIZES: [usize; 7] = [1, 2, 3, 5, 17, 64, 65];

type Dense = Vec<Vec<f64>>;

/// Builds a matrix from entries without duplicates.
fn matrix(n: usize, entries: &[(usize, usize, f64)]) -> Box<dyn Matrix> {
    let rows: Vec<i64> = entries.iter().map(|e| e.0 as i64).collect();
    let cols: Vec<i64> = entries.iter().map(|e| e.1 as i64).collect();
    let values: Vec<f64> = entries.iter().map(|e| e.2).collect();
    let [first, second] = [&rows, &cols].map(|indices| Indices::Wide(indices));
    Entries { rows: n, cols: n, order: Order::Coordinates, first, second, base: 0 }
        .matrix(&values, &mut Workers::alone())
        .unwrap()
}

/// Pseudorandom numbers in (-1, 1): the fractional parts of multiples of the golden ratio.
fn number(k: usize) -> f64 {
    2.0 * (k as f64 * 0.618_033_988_749_895).fract() - 1.0
}

fn vector(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| number(seed + 1 + i)).collect()
}

/// A matrix with bands at distances 1, 4 and 11, which is diagonally dominant in almost all rows. It is symmetric, or
/// has an unsymmetric pattern.
fn entries(n: usize, symmetric: bool) -> Vec<(usize, usize, f64)> {
    let mut all = Vec::new();
    for i in 0..n {
        all.push((i, i, 4.0 + number(i)));
        for distance in [1, 4, 11] {
            let Some(j) = i.checked_sub(distance).filter(|j| (i + j) % 5 != 3) else { continue };
            let below = number(37 * i + j);
            all.push((i, j, below));
            if symmetric {
                all.push((j, i, below));
            } else if (i + distance) % 3 != 1 {
                all.push((j, i, number(53 * i + j)));
            }
        }
    }
    all
}

fn dense(n: usize, entries: &[(usize, usize, f64)]) -> Dense {
    let mut a = vec![vec![0.0; n]; n];
    entries.iter().for_each(|&(i, j, value)| a[i][j] = value);
    a
}

fn times(a: &Dense, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
}

/// Returns B x, where B consists of the entries a_ij of A for which `is_in(i, j)` holds.
fn times_part(a: &Dense, is_in: impl Fn(usize, usize) -> bool, x: &[f64]) -> Vec<f64> {
    let entry = |i: usize, j: usize| if is_in(i, j) { a[i][j] * x[j] } else { 0.0 };
    (0..x.len()).map(|i| (0..x.len()).map(|j| entry(i, j)).sum()).collect()
}

/// Computes ILU(0) from its definition: (L U)_ij = a_ij at all entries, where L has a unit diagonal. Returns `None` if
/// a pivot is not positive.
fn factors(a: &Dense, places: &[(usize, usize, f64)]) -> Option<Dense> {
    let n = a.len();
    let mut is_place = vec![vec![false; n]; n];
    places.iter().for_each(|&(i, j, _)| is_place[i][j] = true);
    let mut f = vec![vec![0.0; n]; n];
    for k in 0..2 * n {
        // Computes row d of U, then column d of L.
        let d = k / 2;
        for other in d..n {
            let (i, j) = if k % 2 == 0 { (d, other) } else { (other, d) };
            if (k % 2 == 1 && i == j) || !is_place[i][j] {
                continue;
            }
            let sum = a[i][j] - (0..d).map(|m| f[i][m] * f[m][j]).sum::<f64>();
            f[i][j] = if k % 2 == 0 { sum } else { sum / f[d][d] };
        }
        if f[d][d] <= 0.0 {
            return None;
        }
    }
    Some(f)
}

/// Returns L U z.
fn multiply_factors(f: &Dense, z: &[f64]) -> Vec<f64> {
    let y = times_part(f, |i, j| j >= i, z);
    let lower = times_part(f, |i, j| j < i, &y);
    y.iter().zip(lower).map(|(y, l)| y + l).collect()
}

fn purpose(symmetric: bool) -> Purpose {
    Purpose { transposes: true, symmetric, single: false }
}

fn made(matrix: &dyn Matrix, wanted: Preconditioning, symmetric: bool, members: usize) -> Result<PreconditionerSetup> {
    let mut team = Team::new(members)?;
    match matrix.any() {
        AnyCsr::Narrow(a) => make(a, &wanted, &purpose(symmetric), KeptAggregates::default(), &mut team),
        AnyCsr::Wide(a) => make(a, &wanted, &purpose(symmetric), KeptAggregates::default(), &mut team),
    }
}

/// Returns M^-1 r and M^-T r.
fn applied(made: &PreconditionerSetup, r: &[f64], members: usize) -> [Vec<f64>; 2] {
    let n = r.len();
    let (from, to, other) = (Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap());
    // SAFETY: only this thread uses the vector.
    unsafe { from.slice_mut(0, n) }.copy_from_slice(r);
    let m = made.precondition.as_ref().unwrap();
    let work = |me: Me| {
        m.apply(&me, &from, &to, false);
        me.barrier();
        m.apply(&me, &from, &other, true);
    };
    Team::new(members).unwrap().run(work, work).unwrap();
    // SAFETY: the run of the team has ended.
    [&to, &other].map(|v| unsafe { v.slice(0, n) }.to_vec())
}

/// Returns M^-1 r and M^-T r, which must be bitwise identical for all team sizes.
fn applied_by_all(a: &dyn Matrix, wanted: Preconditioning, symmetric: bool, r: &[f64]) -> [Vec<f64>; 2] {
    let [first, others @ ..] =
        MEMBERS.map(|members| applied(&made(a, wanted, symmetric, members).unwrap(), r, members));
    others.iter().for_each(|other| assert_eq!(*other, first));
    first
}

/// Checks that each difference is at most 100 epsilon times the larger of 1 and the largest |wanted|. The compared
/// values are sums of a few products of numbers around 1, with fewer than a hundred rounding errors.
fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    let size = wanted.iter().fold(1.0_f64, |most, w| most.max(w.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 100.0 * f64::EPSILON * size, "{what}, row {i}: {f} and not {w}");
    }
}

/// The results are bitwise equal to r_i times the rounded 1 / d_i, or 1 / |d_i|.
#[test]
fn jacobi_divides_by_the_diagonal() {
    for n in [1, 2, 3, 5, 17, 64, 65, 5000] {
        let d = |i: usize| if i.is_multiple_of(3) { -3.0 } else { 7.0 + i as f64 };
        let a: Vec<_> = (0..n).map(|i| (i, i, d(i))).chain((1..n).map(|i| (i, i - 1, 1.0))).collect();
        let (a, r) = (matrix(n, &a), vector(n, 0));
        for (wanted, of) in [
            (Preconditioning::of(Kind::Jacobi), (|d| d) as fn(f64) -> f64),
            (Preconditioning { absolute: true, ..Preconditioning::of(Kind::Jacobi) }, f64::abs),
        ] {
            let expected: Vec<f64> = r.iter().enumerate().map(|(i, r)| 1.0 / of(d(i)) * r).collect();
            assert_eq!(applied_by_all(&*a, wanted, false, &r), [expected.clone(), expected]);
        }
    }
    assert!(
        made(&*matrix(1, &[(0, 0, 0.0)]), Preconditioning::of(Kind::None), true, 1).unwrap().precondition.is_none()
    );
}

#[test]
fn a_row_without_diagonal_is_an_error() {
    let a: Vec<_> = (0..9).map(|i| (i, i, if i == 7 { 0.0 } else { 1.0 })).collect();
    let error = made(&*matrix(9, &a), Preconditioning::of(Kind::Jacobi), true, 1).err().unwrap();
    assert_eq!(error.status(), RRB_ERR_MATRIX);
    assert!(error.to_string().starts_with("row 7 has a missing or zero diagonal"), "{error}");
}

/// Checks M z = r with the factors from the definition. For a symmetric A, ic0 and ilu0 have the same M.
#[test]
fn incomplete_factors_satisfy_their_definition() {
    for n in SIZES {
        for symmetric in [false, true] {
            let (all, r) = (entries(n, symmetric), vector(n, 3));
            let a = dense(n, &all);
            let f = factors(&a, &all).unwrap();
            let ilu0 = applied_by_all(&*matrix(n, &all), Preconditioning::of(Kind::Ilu0), symmetric, &r);
            assert_near(&multiply_factors(&f, &ilu0[0]), &r, "ilu0");
            if symmetric {
                let ic0 = applied_by_all(
                    &*matrix(n, &all),
                    Preconditioning { shift: 0.0, ..Preconditioning::of(Kind::Ic0) },
                    true,
                    &r,
                );
                assert_near(&multiply_factors(&f, &ic0[0]), &r, "ic0");
            }
        }
    }
}

/// With half of the selected shift, a pivot is not positive. The reported pivot is the one without a shift.
#[test]
fn ic0_selects_the_first_shift_with_positive_pivots() {
    let n = 40;
    let mut all = entries(n, true);
    all.iter_mut().filter(|e| e.0 == e.1).for_each(|e| e.2 = 0.9);
    let shifted = |shift: f64| {
        let mut a = dense(n, &all);
        (0..n).for_each(|i| a[i][i] *= 1.0 + shift);
        factors(&a, &all)
    };
    let matrix = matrix(n, &all);
    let made = made(&*matrix, Preconditioning { shift: -1.0, ..Preconditioning::of(Kind::Ic0) }, true, 1).unwrap();
    assert!(shifted(0.0).is_none() && shifted(made.shift / 2.0).is_none() && made.shift >= 2e-3);
    let steps = (made.shift / 1e-3).log2();
    assert!((steps - steps.round()).abs() < 1e-12, "1e-3, 2e-3, 4e-3, ..");
    let (row, pivot) = made.pivot.unwrap();
    let AnyCsr::Narrow(a) = matrix.any() else { panic!("a few rows") };
    let error = incomplete(a, &Preconditioning::of(Kind::Ic0)).err().unwrap();
    assert!(pivot <= 0.0 && error.to_string().contains(&format!("{pivot:.3e} with shift=0 in row {row}")), "{error}");
    let r = vector(n, 5);
    assert_near(&multiply_factors(&shifted(made.shift).unwrap(), &applied(&made, &r, 2)[0]), &r, "ic0");
}

/// Compares with [sum (-D^-1 U)^k] D^-1 [sum (-L D^-1)^k] r, summed power by power.
#[test]
fn truncated_series_equals_the_sum_of_powers() {
    for n in SIZES {
        for order in 0..4 {
            let (all, r) = (entries(n, false), vector(n, 7));
            let a = dense(n, &all);
            let scaled = |v: &[f64]| v.iter().enumerate().map(|(i, v)| v / a[i][i]).collect::<Vec<_>>();
            let summed = |v: Vec<f64>, power: &dyn Fn(&[f64]) -> Vec<f64>| {
                let (mut sum, mut term) = (v.clone(), v);
                for _ in 0..order {
                    term = power(&term).iter().map(|t| -t).collect();
                    sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
                }
                sum
            };
            let y = summed(r.clone(), &|v| times_part(&a, |i, j| j < i, &scaled(v)));
            let z = summed(scaled(&y), &|v| scaled(&times_part(&a, |i, j| j > i, v)));
            let found = applied_by_all(
                &*matrix(n, &all),
                Preconditioning { order, ..Preconditioning::of(Kind::Neumann) },
                false,
                &r,
            );
            assert_near(&found[0], &z, &format!("{n} {order}"));
        }
    }
}

/// Checks B z = (1 - T(B)) D^-1 r with B = D^-1 A. T is the Chebyshev polynomial of [hi / 30, hi] of degree `degree` +
/// 1 with T(0) = 1, computed by its recurrence; hi is the largest row sum of |B|.
#[test]
fn chebyshev_satisfies_the_recurrence() {
    for n in SIZES {
        for degree in 0..5 {
            let (all, r) = (entries(n, false), vector(n, 9));
            let mut b = dense(n, &all);
            let inverse: Vec<f64> = (0..n).map(|i| 1.0 / b[i][i]).collect();
            b.iter_mut().zip(&inverse).for_each(|(row, d)| row.iter_mut().for_each(|b| *b *= d));
            let largest = b.iter().map(|row| row.iter().map(|b| b.abs()).sum()).fold(0.0, f64::max);
            let (middle, half) = (largest * 31.0 / 60.0, largest * 29.0 / 60.0);
            let v: Vec<f64> = r.iter().zip(&inverse).map(|(r, d)| r * d).collect();
            let next = |last: &[f64], before: Option<&[f64]>| {
                let moved = times(&b, last).into_iter().zip(last).map(|(b, v)| (middle * v - b) / half);
                match before {
                    Some(before) => moved.zip(before).map(|(m, before)| 2.0 * m - before).collect::<Vec<_>>(),
                    None => moved.collect(),
                }
            };
            let (mut before, mut last) = (v.clone(), next(&v, None));
            let (mut one_before, mut one) = (1.0, middle / half);
            for _ in 0..degree {
                (before, last) = (last.clone(), next(&last, Some(&before)));
                (one_before, one) = (one, 2.0 * middle / half * one - one_before);
            }
            let wanted: Vec<f64> = v.iter().zip(&last).map(|(v, t)| v - t / one).collect();
            let found = applied_by_all(
                &*matrix(n, &all),
                Preconditioning { degree, ..Preconditioning::of(Kind::Chebyshev) },
                false,
                &r,
            );
            assert_near(&times(&b, &found[0]), &wanted, &format!("{n} {degree}"));
        }
    }
}

/// Checks <M^-1 r, s> = <r, M^-T s>, also for an explicit zero without a mirrored entry, which ilu0 fills.
#[test]
fn transposed_preconditioners_are_adjoint() {
    let all = [
        Preconditioning::of(Kind::Jacobi),
        Preconditioning { omega: 1.3, ..Preconditioning::of(Kind::Ssor) },
        Preconditioning::of(Kind::Ilu0),
        Preconditioning { omega: 1.3, multicolour: true, ..Preconditioning::of(Kind::Ssor) },
        Preconditioning { multicolour: true, ..Preconditioning::of(Kind::Ilu0) },
        Preconditioning { order: 2, ..Preconditioning::of(Kind::Neumann) },
        Preconditioning { degree: 3, ..Preconditioning::of(Kind::Chebyshev) },
    ];
    let filled =
        vec![(0, 0, 4.0), (1, 1, 4.0), (2, 2, 4.0), (0, 1, 1.0), (1, 0, 1.0), (0, 2, 1.0), (2, 0, 1.0), (1, 2, 0.0)];
    let cases = SIZES.map(|n| (n, entries(n, false), false)).into_iter().chain([(3, filled, true)]);
    for (n, entries, symmetric) in cases {
        let (a, r, s) = (matrix(n, &entries), vector(n, 11), vector(n, 13));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for wanted in all {
            let made = made(&*a, wanted, symmetric, 2).unwrap();
            let (of_r, of_s) = (applied(&made, &r, 2), applied(&made, &s, 2));
            let (first, second) = (dot(&of_r[0], &s), dot(&r, &of_s[1]));
            // Tolerance for sums of n products of numbers around 1.
            assert!((first - second).abs() <= 1e-14 * n as f64, "{n} {wanted:?}: {first} and {second}");
        }
    }
}

/// Returns the rows in the order of first-fit colours on the pattern of A + A^T, and the number of colours.
fn coloured(n: usize, entries: &[(usize, usize, f64)]) -> (Vec<usize>, usize) {
    let mut joined = vec![vec![false; n]; n];
    entries.iter().for_each(|&(i, j, _)| (joined[i][j], joined[j][i]) = (true, true));
    let mut colour = vec![n; n];
    for i in 0..n {
        let is_free = |c: &usize| (0..i).all(|j| !joined[i][j] || colour[j] != *c);
        colour[i] = (0..n).find(is_free).unwrap();
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_by_key(|&i| colour[i]);
    (rows, colour.iter().max().unwrap() + 1)
}

/// Checks M z = r with the dense factors of the permuted matrix. For ssor, M = (D + w L) D^-1 (D + w U) / (w (2 - w)).
#[test]
fn coloured_factors_are_those_of_the_permuted_matrix() {
    for n in SIZES {
        for symmetric in [false, true] {
            let (all, r) = (entries(n, symmetric), vector(n, 17));
            let (rows, colours) = coloured(n, &all);
            let mut place = vec![0; n];
            rows.iter().enumerate().for_each(|(k, &row)| place[row] = k);
            let permuted: Vec<_> = all.iter().map(|&(i, j, value)| (place[i], place[j], value)).collect();
            let a = dense(n, &permuted);
            let f = factors(&a, &permuted).unwrap();
            let ssor = |z: &[f64]| {
                let w = 1.3;
                let mut y = times_part(&a, |i, j| j > i, z);
                (0..n).for_each(|i| y[i] = z[i] + w * y[i] / a[i][i]);
                let below = times_part(&a, |i, j| j < i, &y);
                (0..n).map(|i| (a[i][i] * y[i] + w * below[i]) / (w * (2.0 - w))).collect::<Vec<_>>()
            };
            let kinds: &[Kind] =
                if symmetric { &[Kind::Ssor, Kind::Ilu0, Kind::Ic0] } else { &[Kind::Ssor, Kind::Ilu0] };
            for &kind in kinds {
                let wanted = Preconditioning { omega: 1.3, multicolour: true, ..Preconditioning::of(kind) };
                let z = &applied_by_all(&*matrix(n, &all), wanted, symmetric, &r)[0];
                let permuted: Vec<f64> = rows.iter().map(|&row| z[row]).collect();
                let found = if kind == Kind::Ssor { ssor(&permuted) } else { multiply_factors(&f, &permuted) };
                let expected: Vec<f64> = rows.iter().map(|&row| r[row]).collect();
                assert_near(&found, &expected, &format!("{kind:?}, {n} rows"));
                for members in MEMBERS {
                    let made = made(&*matrix(n, &all), wanted, symmetric, members).unwrap();
                    assert_eq!((made.colours, made.levels), (colours, colours), "{kind:?}, {n} rows");
                }
            }
        }
    }
}

/// Rows 0, 2 and 3 have the first colour, and row 1 the second one. The error and the reported pivot name rows of A.
#[test]
fn pivots_of_coloured_factors_are_named_by_their_rows() {
    let all = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)];
    let wanted = |shift| Preconditioning { shift, multicolour: true, ..Preconditioning::of(Kind::Ic0) };
    let error = made(&*matrix(4, &all), wanted(0.0), true, 1).err().unwrap();
    assert!(error.to_string().starts_with("ic0: pivot -3.000e0 with shift=0 in row 1;"), "{error}");
    assert_eq!(made(&*matrix(4, &all), wanted(-1.0), true, 1).unwrap().pivot, Some((1, -3.0)));
    let singular = [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)];
    let wanted = Preconditioning { multicolour: true, ..Preconditioning::of(Kind::Ilu0) };
    let error = made(&*matrix(4, &singular), wanted, true, 1).err().unwrap();
    assert!(error.to_string().starts_with("ilu0: pivot 0 in row 1;"), "{error}");
}
