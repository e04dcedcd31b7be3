//! Loops over one row of a factorization, compiled for several instruction sets (`base::isa`). The formulas are those
//! of the row-sum form (docs/theory/rrb.md). In the formulas, sums run over the four neighbours of a node, and d is a
//! pivot. Further, h = 1 / d, and t is the row sum after lumping, divided by d. `storage_unit` is the power of two by
//! which M is divided when it is stored; it is 1 in f64.

use super::loops::{dot4, safe_inverse, truncate_rows};
use super::neighbours::NeighbourRows;
use super::number::Format;
use crate::base::isa::for_each_isa;
use crate::base::number::Real;
use crate::rrb::backend::Pivot;

/// Returns n values of a row, and the n values that begin one column to the east.
#[inline(always)]
fn with_next_column<T>(row: &[T], n: usize) -> [&[T]; 2] {
    [&row[..n], &row[1..][..n]]
}

/// Returns a stored number of M, multiplied by `storage_unit`.
#[inline(always)]
fn load_double<F: Format>(a: F::Stored, storage_unit: f64) -> f64 {
    let a = F::read(a).to_f64();
    if F::IS_SHORT { a * storage_unit } else { a }
}

/// Returns four stored numbers of M at i, multiplied by `storage_unit`.
#[inline(always)]
fn load_double4<F: Format>(a: &NeighbourRows<F::Stored>, i: usize, storage_unit: f64) -> [f64; 4] {
    [
        load_double::<F>(a[0][i], storage_unit),
        load_double::<F>(a[1][i], storage_unit),
        load_double::<F>(a[2][i], storage_unit),
        load_double::<F>(a[3][i], storage_unit),
    ]
}

/// Rounds v to the storage format like `Setup::rounded`. `inverse_unit` = 1 / `storage_unit`, which is exact.
#[inline(always)]
fn round_to_storage<F: Format>(v: f64, inverse_unit: f64, storage_unit: f64) -> f64 {
    load_double::<F>(F::write(v * inverse_unit), storage_unit)
}

/// Number of values of a row that are converted together, so that the loop over the narrower type uses whole vector
/// registers.
const VALUES_PER_BUFFER: usize = 128;

/// Returns a_0 + a_1 + a_2 + a_3 at i.
#[inline(always)]
fn sum4(a: &NeighbourRows, i: usize) -> f64 {
    (a[0][i] + a[1][i]) + (a[2][i] + a[3][i])
}

/// Returns the row sum center + couplings, or zero if its magnitude is at most `zero_fraction` * center (see
/// `Setup::row_sum`).
#[inline(always)]
fn row_sum(center: f64, couplings: f64, zero_fraction: f64) -> f64 {
    let row_sum = center + couplings;
    if row_sum.abs() <= zero_fraction * center { 0.0 } else { row_sum }
}

/// Returns the pivot of node i, the row sum that f32 and bf16 store instead of the pivot, and `true` if the pivot needs
/// no further checks (see [`Pivot::accept_rounded`]). `smallest_pivot`: smallest pivot that the storage format allows.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn compute_pivot<F: Format>(
    row_sum: f64,
    kept_couplings: &NeighbourRows<F::Stored>,
    lumped_couplings: &NeighbourRows,
    i: usize,
    one_minus_omega: f64,
    storage_unit: f64,
    inverse_unit: f64,
    smallest_pivot: f64,
) -> (Pivot, F::Stored, bool) {
    let kept_values = load_double4::<F>(kept_couplings, i, storage_unit);
    let lumped_sum = sum4(lumped_couplings, i);
    let center = Pivot::center(row_sum, kept_values, lumped_sum);
    let exact_pivot = Pivot::new(row_sum, kept_values, lumped_sum, one_minus_omega);
    let stored_pivot = F::write(exact_pivot.stored_row_sum * inverse_unit);
    let rounded_pivot = exact_pivot.with_stored_row_sum(load_double::<F>(stored_pivot, storage_unit));
    (rounded_pivot, stored_pivot, exact_pivot.needs_no_check(center) & (rounded_pivot.d >= smallest_pivot))
}

/// Returns the coupling of two nodes p and q after the elimination of their common neighbours k and l:
/// kept_fraction t - (a_pk h_k) a_kq - (a_pl h_l) a_lq. Here t is the coupling of p and q before the elimination, and
/// `kept_fraction` is the fraction of t that is not lumped. The parameters are `over_first` = a_pk h_k, b = a_kq,
/// `over_second` = a_pl h_l and d = a_lq.
#[inline(always)]
fn after_elimination(t: f64, kept_fraction: f64, over_first: f64, b: f64, over_second: f64, d: f64) -> f64 {
    kept_fraction * t - over_first * b - over_second * d
}

/// Input for the elimination of a red node r from the row of its black neighbour p: h of r, the coupling of p to r, and
/// the couplings of r to two other black nodes. These are the diagonal neighbours of p that are adjacent to r.
pub type RedLink<'a, T> = (&'a [f64], [&'a [T]; 3]);

/// Returns the first n values of each array of a link.
#[inline(always)]
fn truncate_link<T>((h, [a, b, c]): RedLink<T>, n: usize) -> RedLink<T> {
    (&h[..n], [&a[..n], &b[..n], &c[..n]])
}

/// Returns three numbers at i: the product a h, where a is the coupling of p to r, and the couplings of r to the two
/// other black nodes (p and r as in [`RedLink`]).
#[inline(always)]
fn link_terms<F: Format>((h, a): &RedLink<F::Stored>, i: usize, storage_unit: f64) -> [f64; 3] {
    [
        load_double::<F>(a[0][i], storage_unit) * h[i],
        load_double::<F>(a[1][i], storage_unit),
        load_double::<F>(a[2][i], storage_unit),
    ]
}

/// Returns the new diagonal couplings of node i, kept_fraction a_bb' - sum_r (a_br h_r) a_rb', in the order southwest,
/// southeast, northwest, northeast. `t` contains the old couplings a_bb' in the same order.
#[inline(always)]
fn skew4<F: Format>(
    t: [f64; 4],
    kept_fraction: f64,
    links: &[RedLink<F::Stored>; 4],
    i: usize,
    storage_unit: f64,
) -> [f64; 4] {
    let (west, east) = (link_terms::<F>(&links[0], i, storage_unit), link_terms::<F>(&links[1], i, storage_unit));
    let (south, north) = (link_terms::<F>(&links[2], i, storage_unit), link_terms::<F>(&links[3], i, storage_unit));
    [
        after_elimination(t[0], kept_fraction, west[0], west[1], south[0], south[1]),
        after_elimination(t[1], kept_fraction, east[0], east[1], south[0], south[2]),
        after_elimination(t[2], kept_fraction, west[0], west[2], north[0], north[1]),
        after_elimination(t[3], kept_fraction, east[0], east[2], north[0], north[2]),
    ]
}

/// Input for a row of the next grid's matrix, at kept nodes (I, J). The eliminated neighbours of (I, J) are the b1
/// nodes in columns I and I + 1 of rows J (below) and J + 1 (above).
pub struct KeptNodeInput<'a, T> {
    /// t = (row sum after lumping) / d of the eliminated neighbours below and above.
    pub row_sum_over_pivot: [&'a [f64]; 2],
    /// 1 / d of the eliminated neighbours below and above.
    pub inverse_pivots: [&'a [f64]; 2],
    /// Couplings of the eliminated neighbours below to the northwest and northeast.
    pub couplings_below: [&'a [T]; 2],
    /// Couplings of the eliminated neighbours above to the southwest, southeast, northwest and northeast.
    pub couplings_above: [&'a [T]; 4],
    /// Couplings of the kept nodes at distance two, to the east and to the north.
    pub distant_couplings: [&'a [f64]; 2],
}

for_each_isa! {
    /// Computes the row sums of M, out = c + sum a (+ sum b with 9 points). A row sum whose magnitude is at most
    /// `zero_fraction` * c is set to zero.
    fn compute_row_sums(
        out: &mut [f64], center: &[f64], a: NeighbourRows, b: Option<NeighbourRows>, zero_fraction: f64
    ) {
        let n = out.len();
        let (center, a) = (&center[..n], truncate_rows(a, n));
        if let Some(b) = b {
            let b = truncate_rows(b, n);
            for i in 0..n {
                out[i] = row_sum(center[i], sum4(&a, i) + sum4(&b, i), zero_fraction);
            }
        } else {
            for i in 0..n {
                out[i] = row_sum(center[i], sum4(&a, i), zero_fraction);
            }
        }
    }

    /// Computes out = min(a, 0), which removes positive couplings (compensation).
    fn remove_positive(out: &mut [f64], a: &[f64]) {
        for (out, a) in out.iter_mut().zip(a) {
            *out = a.min(0.0);
        }
    }

    /// Computes out = a / `storage_unit`, rounded to the storage format.
    fn store_rounded<F: Format>(out: &mut [F::Stored], a: &[f64], storage_unit: f64) {
        // The reciprocal is exact, because `storage_unit` is a power of two.
        let inverse_unit = storage_unit.recip();
        let mut converted = [F::Real::default(); VALUES_PER_BUFFER];
        for (out, a) in out.chunks_mut(VALUES_PER_BUFFER).zip(a.chunks(VALUES_PER_BUFFER)) {
            for (converted, a) in converted.iter_mut().zip(a) {
                *converted = F::Real::from_f64(a * inverse_unit);
            }
            for (out, converted) in out.iter_mut().zip(&converted) {
                *out = F::round(*converted);
            }
        }
    }

    /// Computes out = a / `storage_unit` for quotients that are exact in the storage format.
    fn store_exact<F: Format>(out: &mut [F::Stored], a: &[f64], storage_unit: f64) {
        let inverse_unit = storage_unit.recip();
        for (out, a) in out.iter_mut().zip(a) {
            *out = F::convert_exact(F::Real::from_f64(a * inverse_unit));
        }
    }

    /// Divides `values` by `storage_unit`. Stores the quotients with even index in `even`, and the others in `odd`. The
    /// quotients must be exact in the storage format.
    fn deinterleave_exact<F: Format>(even: &mut [F::Stored], odd: &mut [F::Stored], values: &[f64], storage_unit: f64) {
        let (n, inverse_unit) = (values.len() / 2, storage_unit.recip());
        if values.len() > 2 * n {
            even[n] = F::convert_exact(F::Real::from_f64(values[2 * n] * inverse_unit));
        }
        let (pairs, even, odd) = (&values[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = F::convert_exact(F::Real::from_f64(pairs[2 * k] * inverse_unit));
            odd[k] = F::convert_exact(F::Real::from_f64(pairs[2 * k + 1] * inverse_unit));
        }
    }

    /// Computes e = e - sum a t: updates the row sums e of remaining nodes.
    fn subtract_from_row_sums<F: Format>(
        e: &mut [f64], a: NeighbourRows<F::Stored>, t: NeighbourRows, storage_unit: f64
    ) {
        let n = e.len();
        let (a, t) = (truncate_rows(a, n), truncate_rows(t, n));
        for (i, e) in e.iter_mut().enumerate() {
            *e -= dot4(load_double4::<F>(&a, i, storage_unit), &t, i);
        }
    }

    /// Computes the row sums after lumping, e = e - `lumping_factor` sum a. `lumping_factor` is (1 - omega) times the
    /// fraction of the couplings that is lumped.
    fn lump_row_sums(e: &mut [f64], lumping_factor: f64, a: NeighbourRows) {
        let n = e.len();
        let a = truncate_rows(a, n);
        for (i, e) in e.iter_mut().enumerate() {
            *e -= lumping_factor * sum4(&a, i);
        }
    }

    /// Computes `inverse_pivots` = 1 / c and e = s / c. Here s is the row sum c + sum a, or zero if
    /// |c + sum a| <= zero_fraction * c. In padding, 1 / c and e are replaced by zero.
    fn compute_exact_pivots(
        inverse_pivots: &mut [f64], e: &mut [f64], center: &[f64], a: NeighbourRows, zero_fraction: f64
    ) {
        let n = inverse_pivots.len();
        let (e, center, a) = (&mut e[..n], &center[..n], truncate_rows(a, n));
        for i in 0..n {
            let h = safe_inverse(center[i]);
            inverse_pivots[i] = if center[i] > 0.0 { h } else { 0.0 };
            e[i] = row_sum(center[i], sum4(&a, i), zero_fraction) * inverse_pivots[i];
        }
    }

    /// Computes 1 / d and t in a row, and for f32 and bf16 the row sums that are stored instead of the pivots. Returns
    /// `false` if any pivot needs the checks of [`Pivot::accept_rounded`]; the results are then invalid.
    fn compute_pivots<F: Format>(
        inverse_pivots: &mut [f64], row_sum_over_pivot: &mut [f64], stored_pivots: &mut [F::Stored], row_sums: &[f64],
        kept_couplings: NeighbourRows<F::Stored>, lumped_couplings: NeighbourRows, one_minus_omega: f64,
        storage_unit: f64
    ) -> bool {
        let n = inverse_pivots.len();
        let (row_sum_over_pivot, row_sums) = (&mut row_sum_over_pivot[..n], &row_sums[..n]);
        let (kept_couplings, lumped_couplings) = (truncate_rows(kept_couplings, n), truncate_rows(lumped_couplings, n));
        let inverse_unit = storage_unit.recip();
        let smallest_pivot = if F::IS_SHORT { Pivot::smallest_short_pivot(storage_unit) } else { f64::NEG_INFINITY };
        let stored_pivots = if F::IS_SHORT { &mut stored_pivots[..n] } else { stored_pivots };
        // `doubts` is a number instead of a flag, because compilers do not vectorize the loop with a flag.
        let mut doubts = 0;
        for i in 0..n {
            let (pivot, stored_pivot, needs_no_check) = compute_pivot::<F>(
                row_sums[i], &kept_couplings, &lumped_couplings, i, one_minus_omega, storage_unit, inverse_unit,
                smallest_pivot
            );
            inverse_pivots[i] = 1.0 / pivot.d;
            row_sum_over_pivot[i] = pivot.row_sum * inverse_pivots[i];
            if F::IS_SHORT {
                stored_pivots[i] = stored_pivot;
            }
            doubts |= u64::from(!needs_no_check);
        }
        doubts == 0
    }

    /// Computes the diagonal couplings of black nodes after the elimination of the red nodes:
    /// a_bb' = kept_fraction a_bb' - sum_r (a_br h_r) a_rb'. With `is_new`, a_bb' on the right-hand side is zero.
    /// `links` has the order west, east, south, north.
    fn compute_skew_couplings<F: Format>(
        southwest: &mut [f64], southeast: &mut [f64], northwest: &mut [f64], northeast: &mut [f64],
        is_new: bool, kept_fraction: f64, links: [RedLink<F::Stored>; 4], storage_unit: f64
    ) {
        let n = southwest.len();
        let (southeast, northwest, northeast) = (&mut southeast[..n], &mut northwest[..n], &mut northeast[..n]);
        let [west, east, south, north] = links;
        let links = [truncate_link(west, n), truncate_link(east, n), truncate_link(south, n), truncate_link(north, n)];
        // There are two loops, because compilers vectorize a single loop with a condition less well.
        if is_new {
            for i in 0..n {
                [southwest[i], southeast[i], northwest[i], northeast[i]] =
                    skew4::<F>([0.0; 4], kept_fraction, &links, i, storage_unit);
            }
            return;
        }
        for i in 0..n {
            let t = [southwest[i], southeast[i], northwest[i], northeast[i]];
            [southwest[i], southeast[i], northwest[i], northeast[i]] =
                skew4::<F>(t, kept_fraction, &links, i, storage_unit);
        }
    }

    /// Computes out = -(a h) b, a coupling at distance two after the elimination of the node in the middle.
    fn compute_distant_couplings<F: Format>(
        out: &mut [f64], a: &[F::Stored], h: &[f64], b: &[F::Stored], storage_unit: f64
    ) {
        let n = out.len();
        let (a, h, b) = (&a[..n], &h[..n], &b[..n]);
        for i in 0..n {
            out[i] = -(load_double::<F>(a[i], storage_unit) * h[i]) * load_double::<F>(b[i], storage_unit);
        }
    }

    /// Computes, for S1, the row sums e = s - sum a t and the centers out = c - sum a (a h). Here s is the row sum
    /// c + sum a of A, or zero if |c + sum a| <= zero_fraction * c.
    fn compute_schur_centers(
        e: &mut [f64], out: &mut [f64], c: &[f64], a: NeighbourRows, t: NeighbourRows, h: NeighbourRows,
        zero_fraction: f64
    ) {
        let n = out.len();
        let (e, c, a, t, h) = (&mut e[..n], &c[..n], truncate_rows(a, n), truncate_rows(t, n), truncate_rows(h, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = row_sum(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero_fraction) - dot4(a, &t, i);
            let west_east_sum = a[0] * (a[0] * h[0][i]) + a[1] * (a[1] * h[1][i]);
            out[i] = c[i] - (west_east_sum + (a[2] * (a[2] * h[2][i]) + a[3] * (a[3] * h[3][i])));
        }
    }

    /// Computes the row sums e = s - sum a t of S1, with s as in `compute_schur_centers`.
    fn compute_schur_row_sums(e: &mut [f64], c: &[f64], a: NeighbourRows, t: NeighbourRows, zero_fraction: f64) {
        let n = e.len();
        let (c, a, t) = (&c[..n], truncate_rows(a, n), truncate_rows(t, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = row_sum(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero_fraction) - dot4(a, &t, i);
        }
    }

    /// Computes row sums and couplings of a row of the next grid. On entry, `row_sums` contains the row sums s_b of the
    /// kept nodes b. With the eliminated neighbours k of b:
    ///
    /// ```text
    ///     s_b <- s_b - sum_k a_bk t_k,    a_bb' = kept_fraction a_bb' - sum_k (a_bk h_k) a_kb'
    /// ```
    fn compute_coarse_couplings<F: Format>(
        row_sums: &mut [f64], east: &mut [f64], north: &mut [f64], northeast: &mut [f64], northwest: &mut [f64],
        input: KeptNodeInput<F::Stored>, kept_fraction: f64, storage_unit: f64
    ) {
        let n = row_sums.len();
        let (east, north) = (&mut east[..n], &mut north[..n]);
        let (northeast, northwest) = (&mut northeast[..n], &mut northwest[..n]);
        let [distant_east, distant_north] = [&input.distant_couplings[0][..n], &input.distant_couplings[1][..n]];
        // In the following names, one direction denotes an eliminated neighbour (`t_sw`: t of the southwest neighbour).
        // Two directions denote a coupling of an eliminated neighbour (`sw_ne`: the northeast coupling of the southwest
        // neighbour).
        let t = input.row_sum_over_pivot;
        let ([t_sw, t_se], [t_nw, t_ne]) = (with_next_column(t[0], n), with_next_column(t[1], n));
        let ([_, h_se], [h_nw, h_ne]) =
            (with_next_column(input.inverse_pivots[0], n), with_next_column(input.inverse_pivots[1], n));
        let ([_, se_nw], [sw_ne, se_ne]) =
            (with_next_column(input.couplings_below[0], n), with_next_column(input.couplings_below[1], n));
        let [southwest, southeast, northwest_couplings, northeast_couplings] = input.couplings_above;
        let ([_, ne_sw], [nw_se, ne_se]) = (with_next_column(southwest, n), with_next_column(southeast, n));
        let ([nw_nw, ne_nw], [nw_ne, ne_ne]) =
            (with_next_column(northwest_couplings, n), with_next_column(northeast_couplings, n));
        let inverse_unit = storage_unit.recip();
        for i in 0..n {
            let (to_sw, to_se) = (load_double::<F>(sw_ne[i], storage_unit), load_double::<F>(se_nw[i], storage_unit));
            let (to_nw, to_ne) = (load_double::<F>(nw_se[i], storage_unit), load_double::<F>(ne_sw[i], storage_unit));
            row_sums[i] -= (to_sw * t_sw[i] + to_se * t_se[i]) + (to_nw * t_nw[i] + to_ne * t_ne[i]);
            // The couplings that `to_east`, `to_north`, `northeast` and `northwest` read are stored divided by
            // `storage_unit`. This factor is applied here, once for several couplings.
            let (over_se, over_nw) = (to_se * h_se[i] * storage_unit, to_nw * h_nw[i] * storage_unit);
            let over_ne = to_ne * h_ne[i] * storage_unit;
            let to_east = kept_fraction * distant_east[i]
                - over_ne * F::read(ne_se[i]).to_f64()
                - over_se * F::read(se_ne[i]).to_f64();
            let to_north = kept_fraction * distant_north[i]
                - over_ne * F::read(ne_nw[i]).to_f64()
                - over_nw * F::read(nw_ne[i]).to_f64();
            east[i] = round_to_storage::<F>(to_east, inverse_unit, storage_unit);
            north[i] = round_to_storage::<F>(to_north, inverse_unit, storage_unit);
            northeast[i] = -over_ne * F::read(ne_ne[i]).to_f64();
            northwest[i] = -over_nw * F::read(nw_nw[i]).to_f64();
        }
    }
}
