//! Tests of all formats with 64-bit indices, on small matrices: results must equal the results with 32-bit indices.

use super::assemble::Triplets;
use super::formats::{Kind, Shape};
use super::matrix::Width;
use super::stored::{Arrays, IndexArray};
use super::{Division, Matrix, Stored};
use crate::base::workers::Workers;

const KINDS: [Kind; 12] = [
    Kind::Coo,
    Kind::Csr,
    Kind::Csc,
    Kind::Bsr(3),
    Kind::Dia,
    Kind::Ell,
    Kind::Sell(Shape { slice: 4, sigma: 8, separate: false }),
    Kind::Sell(Shape { slice: 8, sigma: 1, separate: false }),
    Kind::Sell(Shape { slice: 8, sigma: 1, separate: true }),
    Kind::Jds,
    Kind::Tjds,
    Kind::Skyline,
];

/// Returns both products and the exported arrays of a format. Sell with separate long rows exports no arrays.
fn all_of<I: Width>(kind: Kind, threads: usize) -> (Vec<f64>, Vec<f64>, [Vec<i64>; 3], Vec<f64>) {
    const N: usize = 130;
    let mut entries = Triplets::<I>::with_room(3 * N).unwrap();
    for k in 0..2 * N {
        entries.push((k * k) % N, (7 * k + 3) % N, 1.0 / (1 + k) as f64);
    }
    (0..N).for_each(|j| entries.push(5, j, j as f64));
    let mut workers = Workers::eager(threads);
    let a = entries.assembled(N, N, &mut workers).unwrap();
    let size = kind.size(&a.csr, &mut workers).unwrap();
    let stored = kind.store(&a.csr, &size, &mut workers).unwrap();
    let stored: &dyn Stored = stored.as_deref().unwrap_or_else(|| Matrix::csr(&a));
    let x: Vec<f64> = (0..N).map(|k| (k as f64).sin()).collect();
    let (mut y, mut z) = (vec![0.0; N], vec![0.0; N]);
    stored.multiply(&x, &mut y);
    stored.multiply_by(true, &x, &mut z);
    check_parts(stored, &x, &y, false);
    check_parts(stored, &x, &z, true);
    let lengths = size.lengths().map(|length| length as usize);
    let mut indices = [0, 1, 2].map(|k| vec![0; lengths[k]]);
    let mut values = vec![0.0; lengths[3]];
    if !matches!(kind, Kind::Sell(Shape { separate: true, .. })) {
        let [i0, i1, i2] = indices.each_mut().map(|indices| IndexArray(indices));
        stored.write(&mut Arrays { i0, i1, i2, values: &mut values });
    }
    (y, z, indices, values)
}

/// Computes products in two parts, for every allowed split. Rows of A x must be bitwise identical to the whole product;
/// parts of A^T x must add up to it.
fn check_parts(stored: &dyn Stored, x: &[f64], y: &[f64], transposed: bool) {
    match stored.division(transposed) {
        Division::Rows(by_rows) => {
            for cut in (0..y.len()).step_by(by_rows.grain()) {
                let mut parts = vec![f64::NAN; y.len()];
                let (first, second) = parts.split_at_mut(cut);
                by_rows.multiply_rows(0..cut, x, first);
                by_rows.multiply_rows(cut..y.len(), x, second);
                assert_eq!(parts, y, "cut before row {cut}");
            }
        }
        Division::Parts(by_parts) => {
            for cut in (0..x.len()).step_by(by_parts.grain()) {
                let mut sum = vec![0.0; y.len()];
                for rows in [0..cut, cut..x.len()] {
                    let columns = by_parts.columns(rows.clone());
                    let mut part = vec![0.0; columns.len()];
                    by_parts.add_transposed(rows.clone(), &x[rows], columns.start, &mut part);
                    sum[columns].iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
                }
                for (a, b) in sum.iter().zip(y) {
                    assert!((a - b).abs() <= SUM_ERROR, "cut before row {cut}: {a} {b}");
                }
            }
        }
        Division::One(..) => {}
    }
}

/// Bound for the rounding error of a sum of 131 terms, each of magnitude at most 130.
const SUM_ERROR: f64 = 131.0 * 131.0 * 130.0 * f64::EPSILON;

#[test]
fn results_do_not_depend_on_the_index_width() {
    let plain = all_of::<u32>(Kind::Coo, 1);
    for kind in KINDS {
        let (narrow, wide) = (all_of::<u32>(kind, 1), all_of::<u64>(kind, 1));
        assert_eq!(narrow, wide, "{kind:?}");
        for threads in [2, 3, 7] {
            assert_eq!(all_of::<u32>(kind, threads), narrow, "{kind:?}, {threads} threads");
        }
        for (a, b) in narrow.0.iter().chain(&narrow.1).zip(plain.0.iter().chain(&plain.1)) {
            assert!((a - b).abs() <= SUM_ERROR, "{kind:?}: {a} {b}");
        }
    }
}

/// A row that is much longer than the mean is stored separately; the size includes it.
#[test]
fn separate_long_rows_add_no_padding() {
    let mut entries = Triplets::<u32>::with_room(2000).unwrap();
    (0..1000).for_each(|i| entries.push(i, (3 * i) % 1000, 1.0));
    (0..1000).for_each(|j| entries.push(17, j, 2.0));
    let a = entries.assembled(1000, 1000, &mut Workers::alone()).unwrap().csr;
    let of = |separate| Kind::Sell(Shape { slice: 8, sigma: 1, separate }).size(&a, &mut Workers::alone()).unwrap();
    let (whole, separate) = (of(false), of(true));
    assert_eq!(whole.values, 8 * 1000 + 8 * 124);
    // Row 17 has 1000 entries: one of the 1001 entries that were added to it is a duplicate. All other rows have one
    // entry, so each of the 125 slices stores eight values.
    assert_eq!((separate.values, separate.separate), (8 * 125, (1000, 4 + 8 + 1000 * 12)));
    assert_eq!(separate.bytes(), 12 * 1000 + 8 * 126 + 12_012);
}
