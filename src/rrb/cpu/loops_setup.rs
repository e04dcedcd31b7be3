//! Loops over one row of a factorization, compiled for several instruction sets (`base::isa`). The formulas are those
//! of the row-sum form (docs/theory/rrb.md). In the formulas, sums run over the four neighbours of a node, and d is a
//! pivot. Further, h = 1 / d, and t is the row sum after lumping, divided by d.

use super::loops::{cut, dot4, inverse_of};
use super::neighbours::Rows;
use super::number::Format;
use crate::base::isa::for_each_isa;
use crate::base::number::Real;
use crate::rrb::backend::Pivot;

/// Returns n values of a row, and the n values that begin one column to the east.
#[inline(always)]
fn and_next<T>(row: &[T], n: usize) -> [&[T]; 2] {
    [&row[..n], &row[1..][..n]]
}

/// Returns a stored number of M, multiplied by the unit, which is one in f64.
#[inline(always)]
fn wide<F: Format>(a: F::Stored, unit: f64) -> f64 {
    let a = F::read(a).wide();
    if F::SHORT { a * unit } else { a }
}

/// Returns four stored numbers of M at i, multiplied by the unit.
#[inline(always)]
fn wide4<F: Format>(a: &Rows<F::Stored>, i: usize, unit: f64) -> [f64; 4] {
    [wide::<F>(a[0][i], unit), wide::<F>(a[1][i], unit), wide::<F>(a[2][i], unit), wide::<F>(a[3][i], unit)]
}

/// Rounds v to the storage format like `Setup::rounded`. `per_unit` = 1 / unit, which is exact.
#[inline(always)]
fn rounded<F: Format>(v: f64, per_unit: f64, unit: f64) -> f64 {
    wide::<F>(F::write(v * per_unit), unit)
}

/// Number of values of a row that are converted together, so that the loop over the narrower type uses whole vector
/// registers.
const VALUES_PER_BUFFER: usize = 128;

/// Returns a_0 + a_1 + a_2 + a_3 at i.
#[inline(always)]
fn total4(a: &Rows, i: usize) -> f64 {
    (a[0][i] + a[1][i]) + (a[2][i] + a[3][i])
}

/// Returns the row sum center + couplings, or zero if its magnitude is at most `zero` * center (see `Setup::excess`).
#[inline(always)]
fn excess(center: f64, couplings: f64, zero: f64) -> f64 {
    let excess = center + couplings;
    if excess.abs() <= zero * center { 0.0 } else { excess }
}

/// Returns the pivot of node i, the row sum that f32 and bf16 store for it, and whether it needs no further checks (see
/// [`Pivot::checked`]). `least`: smallest pivot that the storage format allows.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn pivot<F: Format>(
    excess: f64,
    kept: &Rows<F::Stored>,
    lumped: &Rows,
    i: usize,
    one_minus_omega: f64,
    unit: f64,
    per_unit: f64,
    least: f64,
) -> (Pivot, F::Stored, bool) {
    let of = wide4::<F>(kept, i, unit);
    let lumped = total4(lumped, i);
    let center = Pivot::center(excess, of, lumped);
    let exact = Pivot::new(excess, of, lumped, one_minus_omega);
    let stored = F::write(exact.stored * per_unit);
    let rounded = exact.with_stored(wide::<F>(stored, unit));
    (rounded, stored, exact.needs_no_check(center) & (rounded.d >= least))
}

/// Returns kept_fraction t - over_first b - over_second d, the coupling of two nodes after the elimination of two
/// common neighbours. In this function, t is the coupling before the elimination, and `kept_fraction` the fraction of t
/// that is not lumped. `over_first` is the coupling of the first node to the first neighbour, divided by the pivot of
/// this neighbour, and b the coupling of this neighbour to the second node. `over_second` and d are the same for the
/// second neighbour.
#[inline(always)]
fn after_elimination(t: f64, kept_fraction: f64, over_first: f64, b: f64, over_second: f64, d: f64) -> f64 {
    kept_fraction * t - over_first * b - over_second * d
}

/// Data by which a black node is coupled to others through a red neighbour r: 1 / d of r, the coupling of the node to
/// r, and the couplings of r to the two black nodes on either side.
pub type Link<'a, T> = (&'a [f64], [&'a [T]; 3]);

/// Returns the first n values of each array of a link.
#[inline(always)]
fn cut_link<T>((h, [a, b, c]): Link<T>, n: usize) -> Link<T> {
    (&h[..n], [&a[..n], &b[..n], &c[..n]])
}

/// Returns three numbers at i: the product a h, and the two couplings of the red neighbour to the other black nodes.
/// Here a is the coupling of the node to the red neighbour.
#[inline(always)]
fn over<F: Format>((h, a): &Link<F::Stored>, i: usize, unit: f64) -> [f64; 3] {
    [wide::<F>(a[0][i], unit) * h[i], wide::<F>(a[1][i], unit), wide::<F>(a[2][i], unit)]
}

/// Returns the new diagonal couplings of node i, a_bb' = kept_fraction a_bb' - sum_r (a_br h_r) a_rb', in the order
/// southwest, southeast, northwest, northeast.
#[inline(always)]
fn skew4<F: Format>(t: [f64; 4], kept_fraction: f64, links: &[Link<F::Stored>; 4], i: usize, unit: f64) -> [f64; 4] {
    let (west, east) = (over::<F>(&links[0], i, unit), over::<F>(&links[1], i, unit));
    let (south, north) = (over::<F>(&links[2], i, unit), over::<F>(&links[3], i, unit));
    [
        after_elimination(t[0], kept_fraction, west[0], west[1], south[0], south[1]),
        after_elimination(t[1], kept_fraction, east[0], east[1], south[0], south[2]),
        after_elimination(t[2], kept_fraction, west[0], west[2], north[0], north[1]),
        after_elimination(t[3], kept_fraction, east[0], east[2], north[0], north[2]),
    ]
}

/// Input for a row of the next grid's matrix, at kept nodes (I, J). The dropped neighbours of (I, J) are the b1 nodes
/// in columns I and I + 1 of rows J (below) and J + 1 (above).
pub struct KeptNodeInput<'a, T> {
    /// t = (row sum after lumping) / d of the dropped neighbours below and above.
    pub row_sum_over_pivot: [&'a [f64]; 2],
    /// 1 / d of the dropped neighbours below and above.
    pub inverse: [&'a [f64]; 2],
    /// Couplings of the dropped neighbours below to the northwest and northeast.
    pub below: [&'a [T]; 2],
    /// Couplings of the dropped neighbours above to the southwest, southeast, northwest and northeast.
    pub above: [&'a [T]; 4],
    /// Couplings of the kept nodes at distance two, to the east and to the north.
    pub distant: [&'a [f64]; 2],
}

for_each_isa! {
    /// Computes the row sums of M, out = c + sum a (+ sum b with 9 points). A sum of magnitude at most `zero` c becomes
    /// zero.
    fn row_sums(out: &mut [f64], center: &[f64], a: Rows, b: Option<Rows>, zero: f64) {
        let n = out.len();
        let (center, a) = (&center[..n], cut(a, n));
        if let Some(b) = b {
            let b = cut(b, n);
            for i in 0..n {
                out[i] = excess(center[i], total4(&a, i) + total4(&b, i), zero);
            }
        } else {
            for i in 0..n {
                out[i] = excess(center[i], total4(&a, i), zero);
            }
        }
    }

    /// Computes out = min(a, 0), which removes positive couplings (compensation).
    fn without_positive(out: &mut [f64], a: &[f64]) {
        for (out, a) in out.iter_mut().zip(a) {
            *out = a.min(0.0);
        }
    }

    /// Computes out = a / unit, rounded to the storage format.
    fn store<F: Format>(out: &mut [F::Stored], a: &[f64], unit: f64) {
        // This is exact, because the unit is a power of two.
        let per_unit = unit.recip();
        let mut narrow = [F::Real::default(); VALUES_PER_BUFFER];
        for (out, a) in out.chunks_mut(VALUES_PER_BUFFER).zip(a.chunks(VALUES_PER_BUFFER)) {
            for (narrow, a) in narrow.iter_mut().zip(a) {
                *narrow = F::Real::narrow(a * per_unit);
            }
            for (out, narrow) in out.iter_mut().zip(&narrow) {
                *out = F::round(*narrow);
            }
        }
    }

    /// Computes out = a / unit for numbers a / unit that are exact in the storage format.
    fn store_exact<F: Format>(out: &mut [F::Stored], a: &[f64], unit: f64) {
        let per_unit = unit.recip();
        for (out, a) in out.iter_mut().zip(a) {
            *out = F::same(F::Real::narrow(a * per_unit));
        }
    }

    /// Divides `values` by the unit. Stores the quotients with even index in `even`, and the others in `odd`. The
    /// quotients must be exact in the storage format.
    fn deinterleave_exact<F: Format>(even: &mut [F::Stored], odd: &mut [F::Stored], values: &[f64], unit: f64) {
        let (n, per_unit) = (values.len() / 2, unit.recip());
        if values.len() > 2 * n {
            even[n] = F::same(F::Real::narrow(values[2 * n] * per_unit));
        }
        let (pairs, even, odd) = (&values[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = F::same(F::Real::narrow(pairs[2 * k] * per_unit));
            odd[k] = F::same(F::Real::narrow(pairs[2 * k + 1] * per_unit));
        }
    }

    /// Computes e = e - sum a t: updates the row sums e of remaining nodes.
    fn subtract_couplings<F: Format>(e: &mut [f64], a: Rows<F::Stored>, t: Rows, unit: f64) {
        let n = e.len();
        let (a, t) = (cut(a, n), cut(t, n));
        for (i, e) in e.iter_mut().enumerate() {
            *e -= dot4(wide4::<F>(&a, i, unit), &t, i);
        }
    }

    /// Computes the row sums after lumping, e = e - loss sum a, with loss = 1 - omega.
    fn lump_row_sums(e: &mut [f64], loss: f64, a: Rows) {
        let n = e.len();
        let a = cut(a, n);
        for (i, e) in e.iter_mut().enumerate() {
            *e -= loss * total4(&a, i);
        }
    }

    /// Computes inverse = 1 / c and e = s / c, where s is the row sum c + sum a, or zero if |c + sum a| <= zero * c. In
    /// padding, both are 0.
    fn exact_pivots(inverse: &mut [f64], e: &mut [f64], center: &[f64], a: Rows, zero: f64) {
        let n = inverse.len();
        let (e, center, a) = (&mut e[..n], &center[..n], cut(a, n));
        for i in 0..n {
            let h = inverse_of(center[i]);
            inverse[i] = if center[i] > 0.0 { h } else { 0.0 };
            e[i] = excess(center[i], total4(&a, i), zero) * inverse[i];
        }
    }

    /// Computes 1 / d and t in a row, and for f32 and bf16 the numbers that are stored for the pivots. Returns `false`
    /// if any pivot needs the checks of [`Pivot::checked`]; the results are then invalid.
    fn pivots<F: Format>(
        inverse: &mut [f64], row_sum_over_pivot: &mut [f64], stored: &mut [F::Stored], excess: &[f64],
        kept: Rows<F::Stored>, lumped: Rows, one_minus_omega: f64, unit: f64
    ) -> bool {
        let n = inverse.len();
        let (row_sum_over_pivot, excess) = (&mut row_sum_over_pivot[..n], &excess[..n]);
        let (kept, lumped) = (cut(kept, n), cut(lumped, n));
        let per_unit = unit.recip();
        let least = if F::SHORT { Pivot::least(unit) } else { f64::NEG_INFINITY };
        let stored = if F::SHORT { &mut stored[..n] } else { stored };
        // `doubtful` is a number instead of a flag, because compilers do not vectorize the loop with a flag.
        let mut doubtful = 0;
        for i in 0..n {
            let (pivot, kept, needs_no_check) =
                pivot::<F>(excess[i], &kept, &lumped, i, one_minus_omega, unit, per_unit, least);
            inverse[i] = 1.0 / pivot.d;
            row_sum_over_pivot[i] = pivot.excess * inverse[i];
            if F::SHORT {
                stored[i] = kept;
            }
            doubtful |= u64::from(!needs_no_check);
        }
        doubtful == 0
    }

    /// Computes the diagonal couplings of black nodes after the elimination of the red nodes:
    /// a_bb' = kept_fraction a_bb' - sum_r (a_br h_r) a_rb'. With `new`, a_bb' on the right-hand side is zero. `links`
    /// has the order west, east, south, north.
    fn skew_couplings<F: Format>(
        southwest: &mut [f64], southeast: &mut [f64], northwest: &mut [f64], northeast: &mut [f64],
        new: bool, kept_fraction: f64, links: [Link<F::Stored>; 4], unit: f64
    ) {
        let n = southwest.len();
        let (southeast, northwest, northeast) = (&mut southeast[..n], &mut northwest[..n], &mut northeast[..n]);
        let links = [cut_link(links[0], n), cut_link(links[1], n), cut_link(links[2], n), cut_link(links[3], n)];
        // There are two loops, because compilers vectorize a single loop with a condition less well.
        if new {
            for i in 0..n {
                [southwest[i], southeast[i], northwest[i], northeast[i]] =
                    skew4::<F>([0.0; 4], kept_fraction, &links, i, unit);
            }
            return;
        }
        for i in 0..n {
            let t = [southwest[i], southeast[i], northwest[i], northeast[i]];
            [southwest[i], southeast[i], northwest[i], northeast[i]] = skew4::<F>(t, kept_fraction, &links, i, unit);
        }
    }

    /// Computes out = -(a h) b, a coupling at distance two through one node.
    fn distant_couplings<F: Format>(out: &mut [f64], a: &[F::Stored], h: &[f64], b: &[F::Stored], unit: f64) {
        let n = out.len();
        let (a, h, b) = (&a[..n], &h[..n], &b[..n]);
        for i in 0..n {
            out[i] = -(wide::<F>(a[i], unit) * h[i]) * wide::<F>(b[i], unit);
        }
    }

    /// Computes, for S1, the row sums e = s - sum a t and the centers out = c - sum a (a h). Here s is the row sum
    /// c + sum a of A, or zero if |c + sum a| <= zero * c.
    fn schur_centers(e: &mut [f64], out: &mut [f64], c: &[f64], a: Rows, t: Rows, h: Rows, zero: f64) {
        let n = out.len();
        let (e, c, a, t, h) = (&mut e[..n], &c[..n], cut(a, n), cut(t, n), cut(h, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = excess(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero) - dot4(a, &t, i);
            let first = a[0] * (a[0] * h[0][i]) + a[1] * (a[1] * h[1][i]);
            out[i] = c[i] - (first + (a[2] * (a[2] * h[2][i]) + a[3] * (a[3] * h[3][i])));
        }
    }

    /// Computes the row sums e = s - sum a t of S1, with s as in `schur_centers`.
    fn schur_row_sums(e: &mut [f64], c: &[f64], a: Rows, t: Rows, zero: f64) {
        let n = e.len();
        let (c, a, t) = (&c[..n], cut(a, n), cut(t, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = excess(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero) - dot4(a, &t, i);
        }
    }

    /// Computes row sums and couplings of a row of the next grid. On entry, `excess` contains the row sums s_b of the
    /// kept nodes b. With the dropped nodes k:
    ///
    /// ```text
    ///     s_b <- s_b - sum_k a_bk t_k,    a_bb' = kept_fraction a_bb' - sum_k (a_bk h_k) a_kb'
    /// ```
    fn coarse_couplings<F: Format>(
        excess: &mut [f64], east: &mut [f64], north: &mut [f64], northeast: &mut [f64], northwest: &mut [f64],
        of: KeptNodeInput<F::Stored>, kept_fraction: f64, unit: f64
    ) {
        let n = excess.len();
        let (east, north) = (&mut east[..n], &mut north[..n]);
        let (northeast, northwest) = (&mut northeast[..n], &mut northwest[..n]);
        let [distant_east, distant_north] = [&of.distant[0][..n], &of.distant[1][..n]];
        // In the names below, one direction denotes a dropped neighbour (`t_sw`: t of the neighbour to the southwest).
        // Two directions denote a coupling of a dropped neighbour (`sw_ne`: of the neighbour to the southwest, to its
        // northeast).
        let t = of.row_sum_over_pivot;
        let ([t_sw, t_se], [t_nw, t_ne]) = (and_next(t[0], n), and_next(t[1], n));
        let ([_, h_se], [h_nw, h_ne]) = (and_next(of.inverse[0], n), and_next(of.inverse[1], n));
        let ([_, se_nw], [sw_ne, se_ne]) = (and_next(of.below[0], n), and_next(of.below[1], n));
        let [southwest, southeast, northwest_of, northeast_of] = of.above;
        let ([_, ne_sw], [nw_se, ne_se]) = (and_next(southwest, n), and_next(southeast, n));
        let ([nw_nw, ne_nw], [nw_ne, ne_ne]) = (and_next(northwest_of, n), and_next(northeast_of, n));
        let per_unit = unit.recip();
        for i in 0..n {
            let (to_sw, to_se) = (wide::<F>(sw_ne[i], unit), wide::<F>(se_nw[i], unit));
            let (to_nw, to_ne) = (wide::<F>(nw_se[i], unit), wide::<F>(ne_sw[i], unit));
            excess[i] -= (to_sw * t_sw[i] + to_se * t_se[i]) + (to_nw * t_nw[i] + to_ne * t_ne[i]);
            // The couplings below are stored divided by `unit`. This factor is applied here, once for several
            // couplings.
            let (over_se, over_nw) = (to_se * h_se[i] * unit, to_nw * h_nw[i] * unit);
            let over_ne = to_ne * h_ne[i] * unit;
            let to_east = kept_fraction * distant_east[i]
                - over_ne * F::read(ne_se[i]).wide()
                - over_se * F::read(se_ne[i]).wide();
            let to_north = kept_fraction * distant_north[i]
                - over_ne * F::read(ne_nw[i]).wide()
                - over_nw * F::read(nw_ne[i]).wide();
            east[i] = rounded::<F>(to_east, per_unit, unit);
            north[i] = rounded::<F>(to_north, per_unit, unit);
            northeast[i] = -over_ne * F::read(ne_ne[i]).wide();
            northwest[i] = -over_nw * F::read(nw_nw[i]).wide();
        }
    }
}
