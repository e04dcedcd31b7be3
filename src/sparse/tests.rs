//! Tests of the assembly, and of all formats on small matrices. In each format, results with 64-bit indices must equal
//! those with 32-bit indices.

use super::assemble::{AssembledMatrix, Triplets};
use super::formats::{FormatKind, SellShape};
use super::matrix::MatrixIndex;
use super::stored::{IndexArray, OutputArrays};
use super::{Matrix, Stored, ThreadDivision};
use crate::base::workers::Workers;

const KINDS: [FormatKind; 12] = [
    FormatKind::Coo,
    FormatKind::Csr,
    FormatKind::Csc,
    FormatKind::Bsr(3),
    FormatKind::Dia,
    FormatKind::Ell,
    FormatKind::Sell(SellShape { slice_rows: 4, sigma: 8, separates_long_rows: false }),
    FormatKind::Sell(SellShape { slice_rows: 8, sigma: 1, separates_long_rows: false }),
    FormatKind::Sell(SellShape { slice_rows: 8, sigma: 1, separates_long_rows: true }),
    FormatKind::Jds,
    FormatKind::Tjds,
    FormatKind::Skyline,
];

/// Returns A x, A^T x, and the exported arrays of a format. Sell with separate long rows exports no arrays.
fn products_and_arrays<I: MatrixIndex>(
    kind: FormatKind,
    threads: usize,
) -> (Vec<f64>, Vec<f64>, [Vec<i64>; 3], Vec<f64>) {
    const N: usize = 130;
    let mut entries = Triplets::<I>::with_capacity(3 * N).unwrap();
    for k in 0..2 * N {
        entries.push((k * k) % N, (7 * k + 3) % N, 1.0 / (1 + k) as f64);
    }
    (0..N).for_each(|j| entries.push(5, j, j as f64));
    let mut workers = Workers::always_parallel(threads);
    let a = entries.assemble(N, N, &mut workers).unwrap();
    let size = kind.size(&a.csr, &mut workers).unwrap();
    let stored = kind.store(&a.csr, &size, &mut workers).unwrap();
    let stored: &dyn Stored = stored.as_deref().unwrap_or_else(|| Matrix::csr(&a));
    let x: Vec<f64> = (0..N).map(|k| (k as f64).sin()).collect();
    let (mut y, mut transposed_y) = (vec![0.0; N], vec![0.0; N]);
    stored.multiply(&x, &mut y);
    stored.multiply_transposed_if(true, &x, &mut transposed_y);
    check_divided_products(stored, &x, &y, false);
    check_divided_products(stored, &x, &transposed_y, true);
    let lengths = size.lengths().map(|length| length as usize);
    let mut indices = [0, 1, 2].map(|k| vec![0; lengths[k]]);
    let mut values = vec![0.0; lengths[3]];
    if !matches!(kind, FormatKind::Sell(SellShape { separates_long_rows: true, .. })) {
        let [i0, i1, i2] = indices.each_mut().map(|indices| IndexArray(indices));
        stored.write(&mut OutputArrays { i0, i1, i2, values: &mut values });
    }
    (y, transposed_y, indices, values)
}

/// Divides the rows of A into two ranges and computes the product of each range. Repeats this for every row at which
/// the format permits a division. The values of A x must be bitwise identical to those of the undivided product. For
/// A^T x, the sum of the products of the two ranges must equal the undivided product up to rounding.
fn check_divided_products(stored: &dyn Stored, x: &[f64], y: &[f64], transposed: bool) {
    match stored.division(transposed) {
        ThreadDivision::Rows(row_products) => {
            for split_row in (0..y.len()).step_by(row_products.row_alignment()) {
                let mut split_product = vec![f64::NAN; y.len()];
                let (first_rows, second_rows) = split_product.split_at_mut(split_row);
                row_products.multiply_rows(0..split_row, x, first_rows);
                row_products.multiply_rows(split_row..y.len(), x, second_rows);
                assert_eq!(split_product, y, "cut before row {split_row}");
            }
        }
        ThreadDivision::Contributions(transposed_products) => {
            for split_row in (0..x.len()).step_by(transposed_products.row_alignment()) {
                let mut sum = vec![0.0; y.len()];
                for rows in [0..split_row, split_row..x.len()] {
                    let columns = transposed_products.columns_of_rows(rows.clone());
                    let mut contribution = vec![0.0; columns.len()];
                    transposed_products.add_transposed(rows.clone(), &x[rows], columns.start, &mut contribution);
                    sum[columns].iter_mut().zip(&contribution).for_each(|(sum, contribution)| *sum += contribution);
                }
                for (a, b) in sum.iter().zip(y) {
                    assert!((a - b).abs() <= SUM_ERROR, "cut before row {split_row}: {a} {b}");
                }
            }
        }
        ThreadDivision::Sequential(..) => {}
    }
}

/// Bound for the rounding error of a sum of 131 terms of magnitude at most 130.
const SUM_ERROR: f64 = 131.0 * 131.0 * 130.0 * f64::EPSILON;

#[test]
fn results_do_not_depend_on_the_index_width() {
    let reference = products_and_arrays::<u32>(FormatKind::Coo, 1);
    for kind in KINDS {
        let (with_u32, with_u64) = (products_and_arrays::<u32>(kind, 1), products_and_arrays::<u64>(kind, 1));
        assert_eq!(with_u32, with_u64, "{kind:?}");
        for threads in [2, 3, 7] {
            assert_eq!(products_and_arrays::<u32>(kind, threads), with_u32, "{kind:?}, {threads} threads");
        }
        for (a, b) in with_u32.0.iter().chain(&with_u32.1).zip(reference.0.iter().chain(&reference.1)) {
            assert!((a - b).abs() <= SUM_ERROR, "{kind:?}: {a} {b}");
        }
    }
}

/// A row that is much longer than the mean is stored separately. The size of the format includes this row.
#[test]
fn separate_long_rows_add_no_padding() {
    let mut entries = Triplets::<u32>::with_capacity(2000).unwrap();
    (0..1000).for_each(|i| entries.push(i, (3 * i) % 1000, 1.0));
    (0..1000).for_each(|j| entries.push(17, j, 2.0));
    let a = entries.assemble(1000, 1000, &mut Workers::single_threaded()).unwrap().csr;
    let size_of_sell = |separates_long_rows| {
        FormatKind::Sell(SellShape { slice_rows: 8, sigma: 1, separates_long_rows })
            .size(&a, &mut Workers::single_threaded())
            .unwrap()
    };
    let (padded, separated) = (size_of_sell(false), size_of_sell(true));
    assert_eq!(padded.values, 8 * 1000 + 8 * 124);
    // Row 17 has 1000 entries: one of the 1001 entries that were added to it is a duplicate. All other rows have one
    // entry, so each of the 125 slices stores eight values.
    assert_eq!((separated.values, separated.separate_size), (8 * 125, (1000, 4 + 8 + 1000 * 12)));
    assert_eq!(separated.bytes(), 12 * 1000 + 8 * 126 + 12_012);
}

/// Rows with strictly ascending columns are copied, by one thread or by three. The matrix equals the one that is
/// assembled from single entries. Other rows are not copied.
#[test]
fn ordered_rows_equal_assembled_entries() {
    for rows in [0, 1, 2, 3, 5, 17, 64, 65, 300] {
        let columns_of =
            |i: usize| (0..rows).filter(move |j| i == 4 || !i.is_multiple_of(3) && (i * 7 + j * 3).is_multiple_of(5));
        let entries: Vec<(usize, usize)> = (0..rows).flat_map(|i| columns_of(i).map(move |j| (i, j))).collect();
        let values: Vec<f64> = (0..entries.len()).map(|k| 0.5 - k as f64).collect();
        let mut ptr = vec![0; rows + 1];
        entries.iter().for_each(|entry| ptr[entry.0 + 1] += 1);
        (0..rows).for_each(|i| ptr[i + 1] += ptr[i]);
        let visit_entries = |add: &mut dyn FnMut(usize, usize)| entries.iter().for_each(|&(i, j)| add(i, j));
        let one_thread = &mut Workers::single_threaded();
        let mut expected =
            AssembledMatrix::<u32>::from_pattern(rows, rows, entries.len(), visit_entries, one_thread).unwrap();
        expected.set_values(values.iter().copied()).unwrap();
        for threads in [1, 3] {
            let workers = &mut Workers::always_parallel(threads);
            let mut copy = |column_at: &(dyn Fn(usize) -> usize + Sync)| {
                AssembledMatrix::<u32>::from_ordered_rows(rows, ptr.clone(), column_at, &values, workers).unwrap()
            };
            let copied = copy(&|k| entries[k].1).unwrap();
            assert_eq!(copied.csr.ptr, expected.csr.ptr);
            assert_eq!(copied.csr.col, expected.csr.col);
            assert_eq!(copied.csr.val, expected.csr.val);
            assert!(copied.entry_positions().is_none());
            if rows > 5 {
                // Row 4 contains all columns.
                assert!(copy(&|k| rows - 1 - entries[k].1).is_none());
                assert!(copy(&|k| entries[k].1 / 2).is_none());
            }
        }
    }
}
