//! Tests of preconditioners against their formulas for small dense matrices.

use super::*;
use crate::aggregation::KeptAggregates;
use crate::base::index::Indices;
use crate::base::workers::Workers;
use crate::error::RRB_ERR_MATRIX;
use crate::sparse::{AnyCsr, EntryArrays, EntryLayout, Matrix, compute_factors};

/// Team sizes with which M^-1 is applied.
const TEAM_SIZES: [usize; 4] = [1, 2, 3, 7];
/// Numbers of rows: odd numbers, and numbers near a power of two.
const SIZES: [usize; 7] = [1, 2, 3, 5, 17, 64, 65];

type Dense = Vec<Vec<f64>>;

/// Builds a matrix from entries without duplicates.
fn matrix(n: usize, entries: &[(usize, usize, f64)]) -> Box<dyn Matrix> {
    let rows: Vec<i64> = entries.iter().map(|e| e.0 as i64).collect();
    let cols: Vec<i64> = entries.iter().map(|e| e.1 as i64).collect();
    let values: Vec<f64> = entries.iter().map(|e| e.2).collect();
    let [first_indices, second_indices] = [&rows, &cols].map(|indices| Indices::Int64(indices));
    EntryArrays { rows: n, cols: n, layout: EntryLayout::Coordinates, first_indices, second_indices, index_base: 0 }
        .matrix(&values, &mut Workers::single_threaded())
        .unwrap()
}

/// Pseudorandom numbers in (-1, 1): the fractional parts of multiples of the golden ratio.
fn pseudorandom(k: usize) -> f64 {
    2.0 * (k as f64 * 0.618_033_988_749_895).fract() - 1.0
}

fn random_vector(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| pseudorandom(seed + 1 + i)).collect()
}

/// A matrix with bands at distances 1, 4 and 11 from the diagonal, diagonally dominant in almost all rows. If
/// `is_symmetric` is false, the pattern is unsymmetric.
fn banded_entries(n: usize, is_symmetric: bool) -> Vec<(usize, usize, f64)> {
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((i, i, 4.0 + pseudorandom(i)));
        for distance in [1, 4, 11] {
            let Some(j) = i.checked_sub(distance).filter(|j| (i + j) % 5 != 3) else { continue };
            let lower_value = pseudorandom(37 * i + j);
            entries.push((i, j, lower_value));
            if is_symmetric {
                entries.push((j, i, lower_value));
            } else if (i + distance) % 3 != 1 {
                entries.push((j, i, pseudorandom(53 * i + j)));
            }
        }
    }
    entries
}

fn to_dense(n: usize, entries: &[(usize, usize, f64)]) -> Dense {
    let mut a = vec![vec![0.0; n]; n];
    entries.iter().for_each(|&(i, j, value)| a[i][j] = value);
    a
}

fn multiply_dense(a: &Dense, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
}

/// Returns B x, where B consists of the entries a_ij of A for which `is_included(i, j)` holds.
fn multiply_selected(a: &Dense, is_included: impl Fn(usize, usize) -> bool, x: &[f64]) -> Vec<f64> {
    let entry = |i: usize, j: usize| if is_included(i, j) { a[i][j] * x[j] } else { 0.0 };
    (0..x.len()).map(|i| (0..x.len()).map(|j| entry(i, j)).sum()).collect()
}

/// Computes ILU(0) from its definition: (L U)_ij = a_ij at all entries of `pattern`, where the diagonal of L is 1.
/// Returns `None` if a pivot is not positive.
fn dense_factors(a: &Dense, pattern: &[(usize, usize, f64)]) -> Option<Dense> {
    let n = a.len();
    let mut is_in_pattern = vec![vec![false; n]; n];
    pattern.iter().for_each(|&(i, j, _)| is_in_pattern[i][j] = true);
    let mut f = vec![vec![0.0; n]; n];
    for k in 0..2 * n {
        // Computes row d of U, then column d of L.
        let d = k / 2;
        for index in d..n {
            let (i, j) = if k % 2 == 0 { (d, index) } else { (index, d) };
            if (k % 2 == 1 && i == j) || !is_in_pattern[i][j] {
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

/// Returns L U z, where `f` contains U and the strict lower triangle of L ([`dense_factors`]).
fn multiply_factors(f: &Dense, z: &[f64]) -> Vec<f64> {
    let y = multiply_selected(f, |i, j| j >= i, z);
    let lower = multiply_selected(f, |i, j| j < i, &y);
    y.iter().zip(lower).map(|(y, l)| y + l).collect()
}

fn requirements(is_symmetric: bool) -> PreconditionerRequirements {
    PreconditionerRequirements { needs_transpose: true, is_symmetric, stores_in_f32: false }
}

fn set_up(
    matrix: &dyn Matrix,
    preconditioning: Preconditioning,
    is_symmetric: bool,
    threads: usize,
) -> Result<PreconditionerSetup> {
    let mut team = Team::new(threads)?;
    match matrix.any_csr() {
        AnyCsr::Narrow(a) => {
            make_preconditioner(a, &preconditioning, &requirements(is_symmetric), KeptAggregates::default(), &mut team)
        }
        AnyCsr::Wide(a) => {
            make_preconditioner(a, &preconditioning, &requirements(is_symmetric), KeptAggregates::default(), &mut team)
        }
    }
}

/// Returns M^-1 r and M^-T r.
fn apply_both(setup: &PreconditionerSetup, r: &[f64], threads: usize) -> [Vec<f64>; 2] {
    let n = r.len();
    let (r_shared, z, transposed_z) =
        (Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap());
    // SAFETY: only this thread uses the vector.
    unsafe { r_shared.slice_mut(0, n) }.copy_from_slice(r);
    let m = setup.preconditioner.as_ref().unwrap();
    let work = |thread: TeamThread| {
        m.apply(&thread, &r_shared, &z, false);
        thread.barrier();
        m.apply(&thread, &r_shared, &transposed_z, true);
    };
    Team::new(threads).unwrap().run(work, work).unwrap();
    // SAFETY: the run of the team has ended.
    [&z, &transposed_z].map(|v| unsafe { v.slice(0, n) }.to_vec())
}

/// Returns M^-1 r and M^-T r. Checks that both are bitwise identical for all team sizes.
fn apply_with_all_teams(
    a: &dyn Matrix,
    preconditioning: Preconditioning,
    is_symmetric: bool,
    r: &[f64],
) -> [Vec<f64>; 2] {
    let [first_result, other_results @ ..] =
        TEAM_SIZES.map(|threads| apply_both(&set_up(a, preconditioning, is_symmetric, threads).unwrap(), r, threads));
    other_results.iter().for_each(|result| assert_eq!(*result, first_result));
    first_result
}

/// Checks that each difference is at most 100 epsilon times the larger of 1 and the largest |expected|. The compared
/// values are sums of products of numbers near 1, with fewer than 100 rounding errors.
fn assert_close(computed: &[f64], expected: &[f64], case_name: &str) {
    let scale = expected.iter().fold(1.0_f64, |largest, e| largest.max(e.abs()));
    for (i, (c, e)) in computed.iter().zip(expected).enumerate() {
        assert!((c - e).abs() <= 100.0 * f64::EPSILON * scale, "{case_name}, row {i}: {c} and not {e}");
    }
}

/// The results are bitwise equal to r_i times the rounded 1 / d_i, or 1 / |d_i|.
#[test]
fn jacobi_divides_by_the_diagonal() {
    for n in [1, 2, 3, 5, 17, 64, 65, 5000] {
        let d = |i: usize| if i.is_multiple_of(3) { -3.0 } else { 7.0 + i as f64 };
        let a: Vec<_> = (0..n).map(|i| (i, i, d(i))).chain((1..n).map(|i| (i, i - 1, 1.0))).collect();
        let (a, r) = (matrix(n, &a), random_vector(n, 0));
        for (preconditioning, sign) in [
            (Preconditioning::of(Kind::Jacobi), (|d| d) as fn(f64) -> f64),
            (Preconditioning { absolute_diagonal: true, ..Preconditioning::of(Kind::Jacobi) }, f64::abs),
        ] {
            let expected: Vec<f64> = r.iter().enumerate().map(|(i, r)| 1.0 / sign(d(i)) * r).collect();
            assert_eq!(apply_with_all_teams(&*a, preconditioning, false, &r), [expected.clone(), expected]);
        }
    }
    assert!(
        set_up(&*matrix(1, &[(0, 0, 0.0)]), Preconditioning::of(Kind::None), true, 1).unwrap().preconditioner.is_none()
    );
}

#[test]
fn a_row_without_diagonal_is_an_error() {
    let a: Vec<_> = (0..9).map(|i| (i, i, if i == 7 { 0.0 } else { 1.0 })).collect();
    let error = set_up(&*matrix(9, &a), Preconditioning::of(Kind::Jacobi), true, 1).err().unwrap();
    assert_eq!(error.status(), RRB_ERR_MATRIX);
    assert!(error.to_string().starts_with("row 7 has a missing or zero diagonal"), "{error}");
}

/// Checks M z = r with the factors of `dense_factors`. For a symmetric A, ic0 and ilu0 have the same M.
#[test]
fn incomplete_factors_satisfy_their_definition() {
    for n in SIZES {
        for is_symmetric in [false, true] {
            let (entries, r) = (banded_entries(n, is_symmetric), random_vector(n, 3));
            let a = to_dense(n, &entries);
            let f = dense_factors(&a, &entries).unwrap();
            let ilu0 = apply_with_all_teams(&*matrix(n, &entries), Preconditioning::of(Kind::Ilu0), is_symmetric, &r);
            assert_close(&multiply_factors(&f, &ilu0[0]), &r, "ilu0");
            if is_symmetric {
                let ic0 = apply_with_all_teams(
                    &*matrix(n, &entries),
                    Preconditioning { shift: 0.0, ..Preconditioning::of(Kind::Ic0) },
                    true,
                    &r,
                );
                assert_close(&multiply_factors(&f, &ic0[0]), &r, "ic0");
            }
        }
    }
}

/// With half of the selected shift, a pivot is not positive. The reported pivot is that of the factorization without a
/// shift.
#[test]
fn ic0_selects_the_first_shift_with_positive_pivots() {
    let n = 40;
    let mut entries = banded_entries(n, true);
    entries.iter_mut().filter(|e| e.0 == e.1).for_each(|e| e.2 = 0.9);
    let factors_with_shift = |shift: f64| {
        let mut a = to_dense(n, &entries);
        (0..n).for_each(|i| a[i][i] *= 1.0 + shift);
        dense_factors(&a, &entries)
    };
    let matrix = matrix(n, &entries);
    let setup = set_up(&*matrix, Preconditioning { shift: -1.0, ..Preconditioning::of(Kind::Ic0) }, true, 1).unwrap();
    assert!(
        factors_with_shift(0.0).is_none() && factors_with_shift(setup.shift / 2.0).is_none() && setup.shift >= 2e-3
    );
    let steps = (setup.shift / 1e-3).log2();
    assert!((steps - steps.round()).abs() < 1e-12, "1e-3, 2e-3, 4e-3, ..");
    let (row, pivot) = setup.nonpositive_pivot.unwrap();
    let AnyCsr::Narrow(a) = matrix.any_csr() else { panic!("a few rows") };
    let error = compute_factors(a, &Preconditioning::of(Kind::Ic0)).err().unwrap();
    assert!(pivot <= 0.0 && error.to_string().contains(&format!("{pivot:.3e} with shift=0 in row {row}")), "{error}");
    let r = random_vector(n, 5);
    assert_close(
        &multiply_factors(&factors_with_shift(setup.shift).unwrap(), &apply_both(&setup, &r, 2)[0]),
        &r,
        "ic0",
    );
}

/// Compares with [sum (-D^-1 U)^k] D^-1 [sum (-L D^-1)^k] r, summed power by power.
#[test]
fn truncated_series_equals_the_sum_of_powers() {
    for n in SIZES {
        for series_order in 0..4 {
            let (entries, r) = (banded_entries(n, false), random_vector(n, 7));
            let a = to_dense(n, &entries);
            let scale_by_diagonal = |v: &[f64]| v.iter().enumerate().map(|(i, v)| v / a[i][i]).collect::<Vec<_>>();
            let sum_series = |v: Vec<f64>, apply_factor: &dyn Fn(&[f64]) -> Vec<f64>| {
                let (mut sum, mut term) = (v.clone(), v);
                for _ in 0..series_order {
                    term = apply_factor(&term).iter().map(|t| -t).collect();
                    sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
                }
                sum
            };
            let y = sum_series(r.clone(), &|v| multiply_selected(&a, |i, j| j < i, &scale_by_diagonal(v)));
            let z = sum_series(scale_by_diagonal(&y), &|v| scale_by_diagonal(&multiply_selected(&a, |i, j| j > i, v)));
            let computed = apply_with_all_teams(
                &*matrix(n, &entries),
                Preconditioning { series_order, ..Preconditioning::of(Kind::Neumann) },
                false,
                &r,
            );
            assert_close(&computed[0], &z, &format!("{n} {series_order}"));
        }
    }
}

/// Checks B z = (1 - T(B)) D^-1 r with B = D^-1 A. T is the Chebyshev polynomial of the interval [hi / 30, hi] with
/// degree `degree` + 1, scaled to T(0) = 1 and computed by its recurrence. hi is the largest row sum of |B|.
#[test]
fn chebyshev_satisfies_the_recurrence() {
    for n in SIZES {
        for degree in 0..5 {
            let (entries, r) = (banded_entries(n, false), random_vector(n, 9));
            let mut b = to_dense(n, &entries);
            let inverse: Vec<f64> = (0..n).map(|i| 1.0 / b[i][i]).collect();
            b.iter_mut().zip(&inverse).for_each(|(row, d)| row.iter_mut().for_each(|b| *b *= d));
            let largest = b.iter().map(|row| row.iter().map(|b| b.abs()).sum()).fold(0.0, f64::max);
            let (center, half_width) = (largest * 31.0 / 60.0, largest * 29.0 / 60.0);
            let v: Vec<f64> = r.iter().zip(&inverse).map(|(r, d)| r * d).collect();
            let next_polynomial = |current: &[f64], previous: Option<&[f64]>| {
                let scaled =
                    multiply_dense(&b, current).into_iter().zip(current).map(|(b, v)| (center * v - b) / half_width);
                match previous {
                    Some(previous) => scaled.zip(previous).map(|(m, previous)| 2.0 * m - previous).collect::<Vec<_>>(),
                    None => scaled.collect(),
                }
            };
            let (mut previous, mut current) = (v.clone(), next_polynomial(&v, None));
            let (mut previous_scale, mut current_scale) = (1.0, center / half_width);
            for _ in 0..degree {
                (previous, current) = (current.clone(), next_polynomial(&current, Some(&previous)));
                (previous_scale, current_scale) =
                    (current_scale, 2.0 * center / half_width * current_scale - previous_scale);
            }
            let expected: Vec<f64> = v.iter().zip(&current).map(|(v, t)| v - t / current_scale).collect();
            let computed = apply_with_all_teams(
                &*matrix(n, &entries),
                Preconditioning { degree, ..Preconditioning::of(Kind::Chebyshev) },
                false,
                &r,
            );
            assert_close(&multiply_dense(&b, &computed[0]), &expected, &format!("{n} {degree}"));
        }
    }
}

/// Checks <M^-1 r, s> = <r, M^-T s>, also for an explicit zero without a mirrored entry, which ilu0 fills.
#[test]
fn transposed_preconditioners_are_adjoint() {
    let preconditionings = [
        Preconditioning::of(Kind::Jacobi),
        Preconditioning { omega: 1.3, ..Preconditioning::of(Kind::Ssor) },
        Preconditioning::of(Kind::Ilu0),
        Preconditioning { omega: 1.3, is_multicolour: true, ..Preconditioning::of(Kind::Ssor) },
        Preconditioning { is_multicolour: true, ..Preconditioning::of(Kind::Ilu0) },
        Preconditioning { series_order: 2, ..Preconditioning::of(Kind::Neumann) },
        Preconditioning { degree: 3, ..Preconditioning::of(Kind::Chebyshev) },
    ];
    let zero_entry_pattern =
        vec![(0, 0, 4.0), (1, 1, 4.0), (2, 2, 4.0), (0, 1, 1.0), (1, 0, 1.0), (0, 2, 1.0), (2, 0, 1.0), (1, 2, 0.0)];
    let cases = SIZES.map(|n| (n, banded_entries(n, false), false)).into_iter().chain([(3, zero_entry_pattern, true)]);
    for (n, matrix_entries, is_symmetric) in cases {
        let (a, r, s) = (matrix(n, &matrix_entries), random_vector(n, 11), random_vector(n, 13));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for preconditioning in preconditionings {
            let setup = set_up(&*a, preconditioning, is_symmetric, 2).unwrap();
            let (applied_to_r, applied_to_s) = (apply_both(&setup, &r, 2), apply_both(&setup, &s, 2));
            let (product_r, product_s) = (dot(&applied_to_r[0], &s), dot(&r, &applied_to_s[1]));
            // The tolerance bounds the rounding errors of sums of n products of numbers near 1.
            assert!(
                (product_r - product_s).abs() <= 1e-14 * n as f64,
                "{n} {preconditioning:?}: {product_r} and {product_s}"
            );
        }
    }
}

/// Returns the rows in the order of first-fit colours on the pattern of A + A^T, and the number of colours.
fn rows_by_colour(n: usize, entries: &[(usize, usize, f64)]) -> (Vec<usize>, usize) {
    let mut is_coupled = vec![vec![false; n]; n];
    entries.iter().for_each(|&(i, j, _)| (is_coupled[i][j], is_coupled[j][i]) = (true, true));
    let mut colour = vec![n; n];
    for i in 0..n {
        let is_free = |c: &usize| (0..i).all(|j| !is_coupled[i][j] || colour[j] != *c);
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
        for is_symmetric in [false, true] {
            let (entries, r) = (banded_entries(n, is_symmetric), random_vector(n, 17));
            let (rows, colours) = rows_by_colour(n, &entries);
            let mut position = vec![0; n];
            rows.iter().enumerate().for_each(|(k, &row)| position[row] = k);
            let permuted: Vec<_> = entries.iter().map(|&(i, j, value)| (position[i], position[j], value)).collect();
            let a = to_dense(n, &permuted);
            let f = dense_factors(&a, &permuted).unwrap();
            let multiply_ssor = |z: &[f64]| {
                let w = 1.3;
                let mut y = multiply_selected(&a, |i, j| j > i, z);
                (0..n).for_each(|i| y[i] = z[i] + w * y[i] / a[i][i]);
                let lower_product = multiply_selected(&a, |i, j| j < i, &y);
                (0..n).map(|i| (a[i][i] * y[i] + w * lower_product[i]) / (w * (2.0 - w))).collect::<Vec<_>>()
            };
            let kinds: &[Kind] =
                if is_symmetric { &[Kind::Ssor, Kind::Ilu0, Kind::Ic0] } else { &[Kind::Ssor, Kind::Ilu0] };
            for &kind in kinds {
                let preconditioning = Preconditioning { omega: 1.3, is_multicolour: true, ..Preconditioning::of(kind) };
                let z = &apply_with_all_teams(&*matrix(n, &entries), preconditioning, is_symmetric, &r)[0];
                let permuted: Vec<f64> = rows.iter().map(|&row| z[row]).collect();
                let computed =
                    if kind == Kind::Ssor { multiply_ssor(&permuted) } else { multiply_factors(&f, &permuted) };
                let expected: Vec<f64> = rows.iter().map(|&row| r[row]).collect();
                assert_close(&computed, &expected, &format!("{kind:?}, {n} rows"));
                for threads in TEAM_SIZES {
                    let setup = set_up(&*matrix(n, &entries), preconditioning, is_symmetric, threads).unwrap();
                    assert_eq!((setup.colour_count, setup.level_count), (colours, colours), "{kind:?}, {n} rows");
                }
            }
        }
    }
}

/// Rows 0, 2 and 3 have the first colour, and row 1 the second one. The error and the reported pivot name rows of A.
#[test]
fn pivots_of_coloured_factors_are_named_by_their_rows() {
    let entries = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)];
    let preconditioning = |shift| Preconditioning { shift, is_multicolour: true, ..Preconditioning::of(Kind::Ic0) };
    let error = set_up(&*matrix(4, &entries), preconditioning(0.0), true, 1).err().unwrap();
    assert!(error.to_string().starts_with("ic0: pivot -3.000e0 with shift=0 in row 1;"), "{error}");
    assert_eq!(
        set_up(&*matrix(4, &entries), preconditioning(-1.0), true, 1).unwrap().nonpositive_pivot,
        Some((1, -3.0))
    );
    let singular_entries = [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)];
    let preconditioning = Preconditioning { is_multicolour: true, ..Preconditioning::of(Kind::Ilu0) };
    let error = set_up(&*matrix(4, &singular_entries), preconditioning, true, 1).err().unwrap();
    assert!(error.to_string().starts_with("ilu0: pivot 0 in row 1;"), "{error}");
}
