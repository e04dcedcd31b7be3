use super::*;
use crate::rrb::cpu::factor::tests::{random, setup};
use crate::rrb::cpu::number::{Bf16Format, F32Format};
use crate::rrb::storage::Storage;

/// Returns row sums, four kept and four lumped couplings of n nodes. With `has_special_cases`, some nodes have no
/// couplings at all (land) or no kept couplings, or are last nodes of singular components; some pivots are nearly
/// zero, too small, too large or NaN.
fn random_rows(n: usize, seed: u64, has_special_cases: bool) -> [Vec<f64>; 9] {
    let mut state = seed * 0x9e37_79b9 + 1;
    let mut rows: [Vec<f64>; 9] = std::array::from_fn(|_| Vec::new());
    for i in 0..n {
        let case = if has_special_cases { (random(&mut state) * 30.0) as usize } else { 30 };
        for (k, row) in rows.iter_mut().enumerate() {
            let v = random(&mut state);
            let magnitude = if k == 0 { 0.1 * v } else { -v };
            row.push(match (case, k) {
                // Case 1: nodes on land. Cases 2 and 3: nodes without kept couplings, with a usual and with a small
                // row sum.
                (1, _) => 0.0,
                (2, 1..=4) => 0.0,
                (3, 1..=4) => -0.0,
                (3, 0) => 1e-9 * v,
                // These values underflow in f32 and bf16.
                (4, 1..=4) => 1e-45 * magnitude,
                (4, 0) => 1e-42,
                (4, _) => 0.0,
                (5, 0) => -1e-17,
                (6, 1..=4) => -magnitude,
                (7, _) if i % 5 == 0 => 1e308 * magnitude,
                (8, 0) if i % 7 == 0 => f64::NAN,
                _ => magnitude,
            });
        }
    }
    rows
}

fn bits(row: &[f64]) -> Vec<u64> {
    row.iter().map(|v| v.to_bits()).collect()
}

/// Compares the vectorized computation of the pivots of a row with the computation one by one. Returns `true` if
/// the loop accepted all pivots.
fn compare_with_one_by_one<F: Format>(
    rows: &[Vec<f64>; 9],
    kept_couplings: &[Vec<F::Stored>; 4],
    setup: &Setup,
    may_replace_zero: bool,
) -> bool
where
    F::Stored: PartialEq + std::fmt::Debug,
{
    let n = rows[0].len();
    let lumped_couplings = [5, 6, 7, 8].map(|k| &rows[k][..]);
    let kept_couplings = kept_couplings.each_ref().map(|row| &row[..]);
    let node = |i: usize| PivotNode { level: 3, i, j: 5, center: 4.0, may_replace_zero_pivot: may_replace_zero };
    let zeros = || vec![F::write(0.0); if setup.storage == Storage::F64 { 0 } else { n }];
    let compute = |is_vectorized: bool| {
        let (mut row_sums, mut inverse_pivots, mut stored_pivots) = (rows[0].clone(), vec![0.0; n], zeros());
        let row = PivotRow::<F> {
            row_sums: &mut row_sums,
            inverse_pivots: &mut inverse_pivots,
            stored_pivots: &mut stored_pivots,
        };
        let result = if is_vectorized {
            row.compute(kept_couplings, lumped_couplings, &mut vec![0.0; n], setup, node)
        } else {
            row.compute_one_by_one(kept_couplings, lumped_couplings, setup, node)
        };
        result.map(|()| (bits(&row_sums), bits(&inverse_pivots), stored_pivots))
    };
    let one_by_one = compute(false);
    assert_eq!(compute(true), one_by_one);
    let (mut inverse_pivots, mut row_sum_over_pivot, mut stored_pivots) = (vec![0.0; n], vec![0.0; n], zeros());
    let (one_minus_omega, storage_unit) = (setup.one_minus_omega(), setup.storage_unit);
    let all_accepted = compute_pivots::<F>(
        &mut inverse_pivots,
        &mut row_sum_over_pivot,
        &mut stored_pivots,
        &rows[0],
        kept_couplings,
        lumped_couplings,
        one_minus_omega,
        storage_unit,
    );
    if all_accepted {
        assert_eq!(Ok((bits(&row_sum_over_pivot), bits(&inverse_pivots), stored_pivots)), one_by_one);
    }
    all_accepted
}

fn compare_formats(n: usize, seed: u64, has_special_cases: bool, omega: f64) -> [bool; 3] {
    let rows = random_rows(n, seed, has_special_cases);
    let f64_couplings = [1, 2, 3, 4].map(|k| rows[k].clone());
    let f32_couplings = f64_couplings.each_ref().map(|row| row.iter().map(|v| F32Format::write(v / 0.5)).collect());
    let bf16_couplings = f64_couplings.each_ref().map(|row| row.iter().map(|v| Bf16Format::write(v / 0.25)).collect());
    let [f64_setup, f32_setup, bf16_setup] = [(Storage::F64, 1.0), (Storage::F32, 0.5), (Storage::Bf16, 0.25)]
        .map(|(storage, storage_unit)| setup(storage, omega, storage_unit));
    let may_replace_zero = seed.is_multiple_of(2);
    [
        compare_with_one_by_one::<F64Format>(&rows, &f64_couplings, &f64_setup, may_replace_zero),
        compare_with_one_by_one::<F32Format>(&rows, &f32_couplings, &f32_setup, may_replace_zero),
        compare_with_one_by_one::<Bf16Format>(&rows, &bf16_couplings, &bf16_setup, may_replace_zero),
    ]
}

#[test]
fn vectorized_pivots_equal_pivots_one_by_one() {
    for (n, seed) in [(0, 1), (1, 2), (7, 3), (64, 4), (129, 5), (1000, 6)] {
        for omega in [1.0, 0.95, 0.0] {
            assert_eq!(compare_formats(n, seed, false, omega), [true; 3]);
        }
    }
    let mut doubtful_rows = 0;
    for seed in 0..600 {
        let n = 1 + seed as usize % 23;
        for omega in [1.0, 0.95, 0.0] {
            doubtful_rows +=
                compare_formats(n, seed, true, omega).iter().filter(|&&all_accepted| !all_accepted).count();
        }
    }
    // Both paths must be covered: in many of the rows with special cases, the vectorized loop (`compute_pivots`)
    // accepts all pivots, and in many others, the pivots are computed one by one.
    assert!((500..4900).contains(&doubtful_rows), "{doubtful_rows} of 5400 rows are doubtful");
}
