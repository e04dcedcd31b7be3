//! Storage formats of the `sparse_` family: their arrays, round trips, and products compared with plain sums.

use crate::common;
use common::sparse::*;
use common::status;
use proptest::prelude::*;

/// The sample matrix of docs/theory/sparse.md.
fn sample() -> Entries {
    let rows: [&[(usize, f64)]; 4] =
        [&[(0, 10.0), (2, 20.0)], &[(1, 30.0), (3, 40.0)], &[(0, 50.0), (2, 60.0), (3, 70.0)], &[(3, 80.0)]];
    let of_row = |(i, row): (usize, &&[(usize, f64)])| row.iter().map(move |&(j, a)| (i, j, a)).collect::<Vec<_>>();
    Entries::new(4, 4, &rows.iter().enumerate().flat_map(of_row).collect::<Vec<_>>())
}

/// The arrays of the sample in each format, as in docs/theory/sparse.md.
#[test]
fn arrays_of_the_sample() {
    let s = sample().solver();
    s.options("block_size=2 slice=2 sigma=4").unwrap();
    let by_row = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0];
    let cols = [0, 2, 1, 3, 0, 2, 3, 3];
    let expected = [
        ("coo", Arrays::new(&[0, 0, 1, 1, 2, 2, 2, 3], &cols, &[], &by_row)),
        ("csr", Arrays::new(&[0, 2, 4, 7, 8], &cols, &[], &by_row)),
        (
            "csc",
            Arrays::new(
                &[0, 2, 3, 5, 8],
                &[0, 2, 1, 0, 2, 1, 2, 3],
                &[],
                &[10.0, 50.0, 30.0, 20.0, 60.0, 40.0, 70.0, 80.0],
            ),
        ),
        (
            "bsr",
            Arrays::new(
                &[0, 2, 4],
                &[0, 1, 0, 1],
                &[],
                &[10.0, 0.0, 0.0, 30.0, 20.0, 0.0, 0.0, 40.0, 50.0, 0.0, 0.0, 0.0, 60.0, 70.0, 0.0, 80.0],
            ),
        ),
        (
            "dia",
            Arrays::new(
                &[-2, 0, 1, 2],
                &[],
                &[],
                &[0.0, 0.0, 50.0, 0.0, 10.0, 30.0, 60.0, 80.0, 0.0, 0.0, 70.0, 0.0, 20.0, 40.0, 0.0, 0.0],
            ),
        ),
        (
            "ell",
            Arrays::new(
                &[0, 1, 0, 3, 2, 3, 2, 3, 0, 1, 3, 3],
                &[],
                &[],
                &[10.0, 30.0, 50.0, 80.0, 20.0, 40.0, 60.0, 0.0, 0.0, 0.0, 70.0, 0.0],
            ),
        ),
        (
            "sell",
            Arrays::new(
                &[2, 0, 1, 3],
                &[0, 6, 10],
                &[0, 0, 2, 2, 3, 0, 1, 3, 3, 3],
                &[50.0, 10.0, 60.0, 20.0, 70.0, 0.0, 30.0, 80.0, 40.0, 0.0],
            ),
        ),
        (
            "jds",
            Arrays::new(
                &[2, 0, 1, 3],
                &[0, 4, 7, 8],
                &[0, 0, 1, 3, 2, 2, 3, 3],
                &[50.0, 10.0, 30.0, 80.0, 60.0, 20.0, 40.0, 70.0],
            ),
        ),
        (
            "tjds",
            Arrays::new(
                &[3, 0, 2, 1],
                &[0, 4, 7, 8],
                &[1, 0, 0, 1, 2, 2, 2, 3],
                &[40.0, 10.0, 20.0, 30.0, 70.0, 50.0, 60.0, 80.0],
            ),
        ),
        (
            "skyline",
            Arrays::new(
                &[0, 1, 2, 5, 6],
                &[0, 0, 0, 2, 4],
                &[],
                &[10.0, 30.0, 50.0, 0.0, 60.0, 80.0, 20.0, 0.0, 40.0, 70.0],
            ),
        ),
    ];
    for ((name, arrays), (also, number)) in expected.into_iter().zip(FORMATS) {
        assert_eq!(name, also);
        assert_eq!(s.arrays(number).unwrap(), arrays, "{name}");
        assert!(round_trip(&s, number), "{name}");
    }
    s.arrays(11).unwrap_err().expect(status::ARGUMENT, &["off-diagonal", "(0, 2)", "20"]);
}

/// skyline stores only the lower triangle of a symmetric matrix; a diagonal matrix may have gaps.
#[test]
fn symmetric_and_diagonal() {
    let a = Entries::new(3, 3, &[(0, 0, 4.0), (2, 0, -1.0), (0, 2, -1.0), (1, 1, 5.0), (2, 2, 6.0)]);
    let s = a.solver();
    let expected = Arrays::new(&[0, 1, 2, 5], &[], &[], &[4.0, 5.0, -1.0, 0.0, 6.0]);
    assert_eq!(s.arrays(10).unwrap(), expected);
    assert!(round_trip(&s, 10));
    check_products(&a);
    for (rows, cols) in [(4, 4), (3, 5), (5, 3)] {
        let a = Entries::new(rows, cols, &[(2, 2, 7.0), (0, 0, -3.0)]);
        assert_eq!(a.solver().arrays(11).unwrap().values[..3], [-3.0, 0.0, 7.0]);
        assert!(round_trip(&a.solver(), 11));
        check_products(&a);
    }
}

/// Returns whether a round trip through a format gives a bitwise identical csr.
fn round_trip(s: &Solver, format: i32) -> bool {
    let (rows, cols) = (s.int(key::ROWS) as usize, s.int(key::COLS) as usize);
    let arrays = s.arrays(format).expect("arrays");
    let back = Solver::from(format, rows, cols, &arrays).expect("create_from");
    back.arrays(CSR).unwrap().same_bits(&s.arrays(CSR).unwrap())
}

/// Returns whether a format can store a matrix.
fn holds(format: &str, a: &Entries) -> bool {
    match format {
        "skyline" => a.rows == a.cols,
        "diagonal" => a.entries.iter().all(|(i, j, _)| i == j),
        _ => true,
    }
}

/// Checks both products in all formats. A sum of n terms, in any order, has an error of at most n roundings of the sum
/// of magnitudes.
#[track_caller]
fn check_products(a: &Entries) {
    for b in [0, 2, 3, 4, 5, 6, 7, 8] {
        products_of(a, &format!("block_size={b} slice={b}"));
    }
}

#[track_caller]
fn products_of(a: &Entries, options: &str) {
    let s = a.solver();
    s.options(options).unwrap();
    let x: Vec<f64> = (0..a.rows.max(a.cols)).map(|k| ((k * 37 % 101) as f64 - 50.0) / 17.0).collect();
    for transposed in [false, true] {
        let x = &x[..if transposed { a.rows } else { a.cols }];
        let expected = a.product(x, transposed);
        for (format, number) in FORMATS.into_iter().chain([("auto", 0)]).filter(|(name, _)| holds(name, a)) {
            s.options(&format!("format={format}")).unwrap();
            let y = s.product(x, transposed).expect(format);
            for (k, (y, (sum, size))) in y.iter().zip(&expected).enumerate() {
                let bound = (a.entries.len() + 1) as f64 * f64::EPSILON * size;
                assert!((y - sum).abs() <= bound, "{format} {transposed}: y[{k}] = {y}, not {sum}");
            }
            if number > 0 {
                assert_eq!(s.int(key::INFO_FORMAT), i64::from(number));
            }
        }
    }
}

/// Checks round trips and both products of a matrix with various options of the formats.
#[track_caller]
fn check(a: &Entries) {
    let s = a.solver();
    for options in [
        "",
        "block_size=3 slice=1",
        "block_size=8",
        "block_size=5",
        "block_size=7 slice=3 sigma=2",
        "slice=4 sigma=1000 block_size=1",
    ] {
        s.options(options).unwrap();
        for (format, number) in FORMATS.into_iter().filter(|(name, _)| holds(name, a)) {
            assert!(round_trip(&s, number), "{format} {options}: {a:?}");
        }
    }
    check_products(a);
}

#[test]
fn awkward_sizes() {
    for (rows, cols) in [(0, 0), (0, 3), (3, 0), (1, 1), (1, 9), (9, 1), (2, 2), (17, 5), (5, 17), (64, 64), (65, 33)] {
        check(&Entries::new(rows, cols, &[]));
        for count in [1, 3, rows + cols, 3 * rows] {
            check(&Entries::random(rows, cols, count, (rows * 100 + cols + count) as u64));
        }
    }
    // Rows far longer than the others, which sell stores separately for products; full matrices; full rows next to
    // empty ones.
    let long = |k: usize| (0..400).map(move |j| (k, j, 1.0 + j as f64));
    let mut entries: Vec<_> = (0..400).map(|i| (i, (i * 7) % 400, 2.5)).collect();
    entries.extend(long(0).chain(long(13)).chain(long(399)));
    check_products(&Entries::new(400, 400, &entries));
    check(&Entries::new(7, 7, &(0..49).map(|k| (k / 7, k % 7, k as f64 + 0.5)).collect::<Vec<_>>()));
    check(&Entries::new(8, 6, &(0..6).map(|k| (5, k, 0.1 * k as f64 + 0.3)).collect::<Vec<_>>()));
}

/// For matrices that several threads process, the arrays and both products are bitwise identical to those of one
/// thread.
#[test]
fn results_are_identical_for_any_thread_count() {
    for (rows, cols) in [(20_011, 17_002), (17_002, 20_011)] {
        let a = Entries::random(rows, cols, 150_000, rows as u64);
        let s = a.solver();
        let x: Vec<f64> = (0..rows.max(cols)).map(|k| ((k * 37 % 101) as f64 - 50.0) / 17.0).collect();
        // Format dia would need as many diagonals as rows and columns.
        for (format, number) in FORMATS.into_iter().filter(|(name, _)| holds(name, &a) && *name != "dia") {
            s.options(&format!("format={format} format_memory=99999999999 threads=1")).unwrap();
            let arrays = s.arrays(number).unwrap();
            let alone = [false, true].map(|t| s.product(&x[..if t { rows } else { cols }], t).expect(format));
            for (y, transposed) in alone.iter().zip([false, true]) {
                // The factor 100 suffices, because no row or column has a hundred entries.
                for (y, (sum, size)) in y.iter().zip(a.product(&x[..if transposed { rows } else { cols }], transposed))
                {
                    assert!((y - sum).abs() <= 100.0 * f64::EPSILON * size, "{format}: {y}, not {sum}");
                }
            }
            for threads in [2, 3, 7] {
                // Another format is used in between, so that the format is built again.
                s.options(&format!("threads={threads} format=coo")).unwrap();
                s.product(&x[..cols], false).unwrap();
                s.options(&format!("format={format}")).unwrap();
                assert!(s.arrays(number).unwrap().same_bits(&arrays), "{format}, {threads} threads");
                for (y, transposed) in alone.iter().zip([false, true]) {
                    let other = s.product(&x[..if transposed { rows } else { cols }], transposed).unwrap();
                    let same = y.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{format}, {threads} threads, transposed: {transposed}");
                }
            }
            assert!(round_trip(&s, number), "{format}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_matrices(rows in 0usize..40, cols in 0usize..40, count in 0usize..200, seed in any::<u64>()) {
        check(&Entries::random(rows, cols, count, seed));
    }

    /// csr, csc and coo in any order, with base 0 or 1 and indices of 4 or 8 bytes, give the same matrix.
    #[test]
    fn entry_order_does_not_matter(rows in 1usize..20, cols in 1usize..20, count in 0usize..80, seed in any::<u64>()) {
        let a = Entries::random(rows, cols, count, seed);
        let expected = a.solver().arrays(CSR).unwrap();
        let lanes = |by_rows: bool, base: usize| {
            let mut entries = a.entries.clone();
            entries.sort_by_key(|e| if by_rows { e.0 } else { e.1 });
            let mut ptr = vec![base; 1 + if by_rows { rows } else { cols }];
            for e in &entries {
                let lane = if by_rows { e.0 } else { e.1 };
                ptr[lane + 1..].iter_mut().for_each(|end| *end += 1);
            }
            let other: Vec<usize> = entries.iter().map(|e| base + if by_rows { e.1 } else { e.0 }).collect();
            (ptr, other, entries.iter().map(|e| e.2).collect::<Vec<_>>())
        };
        for base in [0, 1] {
            let (ptr, col, values) = lanes(true, base);
            let narrow = |all: Vec<usize>| all.into_iter().map(|k| k as i32).collect::<Vec<_>>();
            let s = Solver::csr(rows as i64, cols as i64, &narrow(ptr), &narrow(col), &values, base as i32).unwrap();
            prop_assert!(s.arrays(CSR).unwrap().same_bits(&expected));
            // New values have the order of the values at creation.
            s.set_values(&values).unwrap();
            prop_assert!(s.arrays(CSR).unwrap().same_bits(&expected));
            let (ptr, row, values) = lanes(false, base);
            let wide = |all: Vec<usize>| all.into_iter().map(|k| k as i64).collect::<Vec<_>>();
            let s = Solver::csc(rows as i64, cols as i64, &wide(ptr), &wide(row), &values, base as i32).unwrap();
            prop_assert!(s.arrays(CSR).unwrap().same_bits(&expected));
        }
    }
}

/// Duplicates are added in input order, explicit zeros are kept, and -0 stays -0.
#[test]
fn duplicates_and_zeros() {
    let a = Entries::new(2, 2, &[(1, 1, 1.0), (0, 1, -0.0), (1, 1, 1e-30), (1, 0, 0.0), (1, 1, -1.0)]);
    let s = a.solver();
    let expected = Arrays::new(&[0, 1, 3], &[1, 0, 1], &[], &[-0.0, 0.0, 0.0]);
    assert!(s.arrays(CSR).unwrap().same_bits(&expected), "{:?}", s.arrays(CSR));
    assert_eq!((s.int(key::NONZEROS), s.int(key::DUPLICATES)), (3, 2));
    s.set_values(&[3.0, 2.0, 1e9, 5.0, -1e9]).unwrap();
    assert_eq!(s.arrays(CSR).unwrap().values, [2.0, 5.0, 3.0]);
    assert_eq!(s.product(&[1.0, 10.0], false).unwrap(), [20.0, 35.0]);
    s.set_values(&[1.0; 5]).unwrap();
    assert_eq!(s.product(&[1.0, 10.0], false).unwrap(), [10.0, 31.0], "the format is rebuilt");
    // A sum of duplicates overflows: all values stay unchanged.
    let failure = s.set_values(&[f64::MAX, 2.0, f64::MAX, 5.0, 1.0]).unwrap_err();
    failure.expect(status::NOT_FINITE, &["inf", "(1, 1)"]);
    assert_eq!(s.arrays(CSR).unwrap().values, [1.0, 1.0, 3.0]);
}

/// auto selects the format that transfers the fewest bytes.
#[test]
fn auto() {
    let chosen = |entries: &Entries| {
        let s = entries.solver();
        s.product(&vec![1.0; entries.cols], false).unwrap();
        let number = s.int(key::INFO_FORMAT) as i32;
        let name = FORMATS.iter().find(|f| f.1 == number).unwrap().0;
        (name, s.real(key::BYTES_PER_NONZERO), s.int(key::STORED))
    };
    let diagonal: Vec<_> = (0..50).map(|i| (i, i, 2.0)).collect();
    assert_eq!(chosen(&Entries::new(50, 50, &diagonal)), ("diagonal", 24.0, 50));
    let tridiagonal: Vec<_> =
        (0..1000usize).flat_map(|i| (i.saturating_sub(1)..(i + 2).min(1000)).map(move |j| (i, j, 1.0))).collect();
    let (name, bytes, stored) = chosen(&Entries::new(1000, 1000, &tridiagonal));
    assert_eq!((name, stored), ("dia", 3000));
    // 8 bytes per value, 16 per row for x and y, 8 per diagonal.
    assert_eq!(bytes, (8.0 * 3000.0 + 16_000.0 + 24.0) / 2998.0);
    // Blocks of 3 x 3 at random positions.
    let blocks = Entries::random(100, 100, 400, 7);
    let blocks = blocks.entries.iter().flat_map(|&(i, j, _)| (0..9).map(move |k| (3 * i + k / 3, 3 * j + k % 3, 1.0)));
    assert_eq!(chosen(&Entries::new(300, 300, &blocks.collect::<Vec<_>>())).0, "bsr");
    // Rows of seven entries at random positions, and rows of all lengths.
    let sevens: Vec<_> = (0..1000).flat_map(|i| (0..7).map(move |k| (i, (i * i + 141 * k) % 1000, 1.0))).collect();
    let (name, bytes, stored) = chosen(&Entries::new(1000, 1000, &sevens));
    assert_eq!((name, stored), ("sell", 7000));
    assert_eq!(bytes, (12.0 * 7000.0 + 16_000.0 + 8.0 * 126.0) / 7000.0);
    let uneven: Vec<_> =
        (0..1000).flat_map(|i| (0..1 + (i * i) % 60).map(move |k| (i, (i * i + 17 * k) % 1000, 1.0))).collect();
    let (name, bytes, stored) = chosen(&Entries::new(1000, 1000, &uneven));
    assert_eq!((name, stored), ("csr", uneven.len() as i64));
    assert_eq!(bytes, (12.0 * uneven.len() as f64 + 8.0 * 1001.0 + 16_000.0) / uneven.len() as f64);
}

/// Formats above the memory limit are an error that names the bytes, before they are allocated.
#[test]
fn format_memory() {
    let far: Vec<_> = (0..2000).map(|i| (i, (i * 997) % 2000, 1.0)).chain((0..2000).map(|j| (5, j, 2.0))).collect();
    let a = Entries::new(2000, 2000, &far);
    let s = a.solver();
    s.options("format_memory=1000000 format=ell").unwrap();
    // 2000 rows of 2000 slots (the longest row has 2000 entries), 12 bytes each.
    let bytes = (12 * 2000 * 2000).to_string();
    s.product(&[1.0; 2000], false).unwrap_err().expect(status::MEMORY, &["format=ell", &bytes, "1000000"]);
    s.sizes(6).unwrap_err().expect(status::MEMORY, &["format=ell", &bytes]);
    s.arrays(5).unwrap_err().expect(status::MEMORY, &["format=dia"]);
    s.options("format=auto").unwrap();
    assert_eq!(s.product(&[1.0; 2000], false).unwrap()[0], 1.0);
    assert!(s.int(1007) > 0 && s.int(1007) < 1_000_000, "{}", s.int(1007));
}

/// Properties of a matrix that results report.
#[test]
fn reported_properties_of_a_matrix() {
    let a = Entries::new(4, 4, &[(0, 0, 2.0), (0, 1, 1.0), (1, 0, 1.0 + 1e-13), (2, 2, 0.0)]);
    let s = a.solver();
    let all = [key::ROWS, key::COLS, key::NONZEROS, key::SYMMETRIC, key::ZERO_DIAGONALS, key::EMPTY_ROWS];
    assert_eq!(all.map(|k| s.int(k)), [4, 4, 4, 1, 3, 1]);
    assert_eq!([key::LONGEST_ROW, key::DUPLICATES, key::FILE_RHS].map(|k| s.int(k)), [2, 0, 0]);
    assert_eq!([key::STORED, key::INFO_FORMAT].map(|k| s.int(k)), [0, 0], "before the first product");
    let s = Entries::new(2, 2, &[(0, 1, 1.0), (0, 0, 3.0), (1, 1, 3.0)]).solver();
    assert_eq!(s.int(key::SYMMETRIC), 0);
    assert_eq!(Entries::new(2, 3, &[]).solver().int(key::SYMMETRIC), 0);
}
