//! Loops over one row, compiled for several instruction sets (`crate::isa`).

use super::format::{Double, Format};
use super::neighbours::Rows;
use crate::backend::residual::residual_of_row;
use crate::backend::steps::rrb::Pivot;
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::reduce as sums;
use std::marker::PhantomData;

/// Four rows cut to n values.
#[inline(always)]
fn cut<T>(rows: Rows<T>, n: usize) -> Rows<T> {
    [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]]
}

/// n values of a row, and of the next column.
#[inline(always)]
fn and_next<T>(row: &[T], n: usize) -> [&[T]; 2] {
    [&row[..n], &row[1..][..n]]
}

/// a_0 .. a_3 at i.
#[inline(always)]
fn read4<F: Format>(a: &Rows<F::Stored>, i: usize) -> [F::Real; 4] {
    [F::read(a[0][i]), F::read(a[1][i]), F::read(a[2][i]), F::read(a[3][i])]
}

/// a_0 v_0 + .. + a_3 v_3 at i.
#[inline(always)]
fn sum4<R: Real>(a: [R; 4], v: &Rows<R>, i: usize) -> R {
    (a[0] * v[0][i] + a[1] * v[1][i]) + (a[2] * v[2][i] + a[3] * v[3][i])
}

/// a_0 (v_0 - w) + .. + a_3 (v_3 - w) at i. (A closure would not be compiled for the instruction set.)
#[inline(always)]
fn differences4<R: Real>(a: [R; 4], v: &Rows<R>, w: R, i: usize) -> R {
    (a[0] * (v[0][i] - w) + a[1] * (v[1][i] - w)) + (a[2] * (v[2][i] - w) + a[3] * (v[3][i] - w))
}

/// A number of one vector in the type of another.
#[inline(always)]
fn cast<A: Real, B: Real>(v: A) -> B {
    B::narrow(v.wide())
}

/// 1 / c of a node; one in padding, where infinity times zero would be NaN.
#[inline(always)]
fn inverse_of(center: f64) -> f64 {
    1.0 / (center + f64::from(u8::from(center <= 0.0)))
}

for_each_isa! {
    /// sum of a b.
    fn dot<R: Real>(a: &[R], b: &[R]) -> f64 {
        sums::dot(a, b)
    }

    /// r' z, in the type of z.
    fn dot_mixed<F: Format>(r: &[F::Vector], z: &[F::Real]) -> f64 {
        sums::dot(r, z)
    }

    /// out = y / d; returns y' out.
    fn scale<F: Format>(out: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, y: &[F::Real]) -> f64 {
        let n = out.len();
        let (pivot, a, y) = (&pivot[..n], cut(a, n), &y[..n]);
        for i in 0..n {
            out[i] = y[i] * F::inverse(pivot[i], read4::<F>(&a, i));
        }
        sums::dot(out, y)
    }

    /// r = r - alpha q where there is a step; out = r / d; returns r' r and r' out.
    fn advance_and_scale<F: Format>(
        r: &mut [F::Vector], step: Option<(f64, &[F::Vector])>, out: &mut [F::Real], pivot: &[F::Stored],
        a: Rows<F::Stored>
    ) -> (f64, f64) {
        let n = out.len();
        let (r, pivot, a) = (&mut r[..n], &pivot[..n], cut(a, n));
        if let Some((alpha, q)) = step {
            let alpha = F::Vector::narrow(alpha);
            for (r, q) in r.iter_mut().zip(q) {
                *r -= alpha * *q;
            }
        }
        for i in 0..n {
            out[i] = cast::<F::Vector, F::Real>(r[i]) * F::inverse(pivot[i], read4::<F>(&a, i));
        }
        (sums::dot(r, r), sums::dot(r, out))
    }

    /// v = v / d.
    fn scale_in_place<F: Format>(v: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>) {
        let n = v.len();
        let (pivot, a) = (&pivot[..n], cut(a, n));
        for i in 0..n {
            v[i] = v[i] * F::inverse(pivot[i], read4::<F>(&a, i));
        }
    }

    /// y = y - sum of a v.
    fn subtract<F: Format>(y: &mut [F::Real], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (a, v) = (cut(a, n), cut(v, n));
        for (i, y) in y.iter_mut().enumerate() {
            *y -= sum4(read4::<F>(&a, i), &v, i);
        }
    }

    /// out = r - sum of a v.
    fn difference<F: Format>(out: &mut [F::Real], r: &[F::Vector], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = out.len();
        let (r, a, v) = (&r[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = cast::<F::Vector, F::Real>(r[i]) - sum4(read4::<F>(&a, i), &v, i);
        }
    }

    /// y = y - (sum of a v) / d.
    fn subtract_scaled<F: Format>(y: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            y[i] -= F::inverse(pivot[i], a) * sum4(a, &v, i);
        }
    }

    /// out = (r - sum of a v) / d.
    fn solve<F: Format>(
        out: &mut [F::Real], pivot: &[F::Stored], r: &[F::Vector], a: Rows<F::Stored>, v: Rows<F::Real>
    ) {
        let n = out.len();
        let (pivot, r, a, v) = (&pivot[..n], &r[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            out[i] = F::inverse(pivot[i], a) * (cast::<F::Vector, F::Real>(r[i]) - sum4(a, &v, i));
        }
    }

    /// y = (y - sum of a v) / d.
    fn solve_in_place<F: Format>(y: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            y[i] = F::inverse(pivot[i], a) * (y[i] - sum4(a, &v, i));
        }
    }

    /// out = s w + (sum of a (v - w) + sum of b (u - w)).
    fn difference_form<F: Format>(
        out: &mut [F::Real], s: &[F::Stored], w: &[F::Real],
        a: Rows<F::Stored>, v: Rows<F::Real>, b: Rows<F::Stored>, u: Rows<F::Real>
    ) {
        let n = out.len();
        let (s, w, a, v, b, u) = (&s[..n], &w[..n], cut(a, n), cut(v, n), cut(b, n), cut(u, n));
        for i in 0..n {
            let near = differences4(read4::<F>(&a, i), &v, w[i], i);
            out[i] = F::read(s[i]) * w[i] + (near + differences4(read4::<F>(&b, i), &u, w[i], i));
        }
    }

    /// out = c w + sum of a v.
    fn five_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (c, w, a, v) = (&c[..n], &w[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + sum4(read4::<Double>(&a, i), &v, i);
        }
    }

    /// out = (sum of a v) / c at nodes.
    fn sum_by_center(out: &mut [f64], c: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (c, a, v) = (&c[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = inverse_of(c[i]) * sum4(read4::<Double>(&a, i), &v, i);
        }
    }

    /// r = b - (c w - sum of a y).
    fn schur_residual<R: Real>(r: &mut [R], b: &[f64], c: &[f64], w: &[f64], a: Rows, y: Rows) {
        let n = r.len();
        let (b, c, w, a, y) = (&b[..n], &c[..n], &w[..n], cut(a, n), cut(y, n));
        for i in 0..n {
            r[i] = R::narrow(b[i] - (c[i] * w[i] - sum4(read4::<Double>(&a, i), &y, i)));
        }
    }

    /// out = c w + (sum of a v + sum of b u).
    fn nine_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows, b: Rows, u: Rows) {
        let n = out.len();
        let (c, w, a, v, b, u) = (&c[..n], &w[..n], cut(a, n), cut(v, n), cut(b, n), cut(u, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + (sum4(read4::<Double>(&a, i), &v, i) + sum4(read4::<Double>(&b, i), &u, i));
        }
    }

    /// out = b - (c w + sum of a v), see `residual_of_row`.
    fn five_point_residual(out: &mut [f64], b: &[f64], c: &[f64], w: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (b, c, w, a, v) = (&b[..n], &c[..n], &w[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = residual_of_row(b[i], c[i], w[i], read4::<Double>(&a, i), read4::<Double>(&v, i));
        }
    }

    /// out = b - (c w + sum of a v + sum of e u), likewise.
    fn nine_point_residual(out: &mut [f64], b: &[f64], c: &[f64], w: &[f64], a: Rows, v: Rows, e: Rows, u: Rows) {
        let n = out.len();
        let (b, c, w, a, v, e, u) = (&b[..n], &c[..n], &w[..n], cut(a, n), cut(v, n), cut(e, n), cut(u, n));
        for i in 0..n {
            let (a, v) = (read4::<Double>(&a, i), read4::<Double>(&v, i));
            let (e, u) = (read4::<Double>(&e, i), read4::<Double>(&u, i));
            let couplings = [a[0], a[1], a[2], a[3], e[0], e[1], e[2], e[3]];
            let around = [v[0], v[1], v[2], v[3], u[0], u[1], u[2], u[3]];
            out[i] = residual_of_row(b[i], c[i], w[i], couplings, around);
        }
    }

    /// out = b / c at nodes; zero where b is.
    fn over_center(out: &mut [f64], b: &[f64], c: &[f64]) {
        let n = out.len();
        let (b, c) = (&b[..n], &c[..n]);
        for i in 0..n {
            out[i] = b[i] * inverse_of(c[i]);
        }
    }

    /// out = (b - sum of a v) / c at nodes.
    fn solve_by_center(out: &mut [f64], c: &[f64], b: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (c, b, a, v) = (&c[..n], &b[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = inverse_of(c[i]) * (b[i] - sum4(read4::<Double>(&a, i), &v, i));
        }
    }

    /// out = b - out.
    fn subtract_from<R: Real>(out: &mut [R], b: &[f64]) {
        for (out, b) in out.iter_mut().zip(b) {
            *out = R::narrow(*b) - *out;
        }
    }

    /// v = scale v.
    fn scale_row<R: Real>(v: &mut [R], scale: f64) {
        let scale = R::narrow(scale);
        for v in v {
            *v = *v * scale;
        }
    }

    /// max |v|, NaN if any entry is NaN.
    fn largest_in(v: &[f64]) -> f64 {
        sums::max_abs(v)
    }

    /// v = v + alpha w.
    fn add_scaled<R: Real>(v: &mut [R], alpha: f64, w: &[R]) {
        let alpha = R::narrow(alpha);
        for (v, w) in v.iter_mut().zip(w) {
            *v += alpha * *w;
        }
    }

    /// x = x + alpha p.
    fn add_direction<R: Real>(x: &mut [f64], alpha: f64, p: &[R]) {
        for (x, p) in x.iter_mut().zip(p) {
            *x += alpha * p.wide();
        }
    }

    /// x = x + alpha p, p = scale z + beta p.
    // Whether it becomes part of a caller would depend on the rest of the crate; tests/machine_code.rs reads it.
    #[inline(never)]
    fn advance<F: Format>(x: &mut [f64], p: &mut [F::Vector], z: &[F::Real], alpha: f64, beta: f64, scale: f64) {
        let (beta, scale) = (F::Vector::narrow(beta), F::Vector::narrow(scale));
        let n = x.len();
        let (p, z) = (&mut p[..n], &z[..n]);
        for i in 0..n {
            x[i] += alpha * p[i].wide();
            p[i] = scale * cast::<F::Real, F::Vector>(z[i]) + beta * p[i];
        }
    }

    /// p = scale z + beta p.
    fn direct<F: Format>(p: &mut [F::Vector], z: &[F::Real], beta: f64, scale: f64) {
        let (beta, scale) = (F::Vector::narrow(beta), F::Vector::narrow(scale));
        for (p, z) in p.iter_mut().zip(z) {
            *p = scale * cast::<F::Real, F::Vector>(*z) + beta * *p;
        }
    }

    /// p = scale z.
    fn begin<F: Format>(p: &mut [F::Vector], z: &[F::Real], scale: f64) {
        let scale = F::Vector::narrow(scale);
        for (p, z) in p.iter_mut().zip(z) {
            *p = scale * cast::<F::Real, F::Vector>(*z);
        }
    }

    /// z = r.
    fn narrow<F: Format>(z: &mut [F::Real], r: &[F::Vector]) {
        for (z, r) in z.iter_mut().zip(r) {
            *z = cast(*r);
        }
    }

    /// d = z, or z + beta d.
    fn direct_inner<R: Real>(d: &mut [R], z: &[R], beta: Option<f64>) {
        let Some(beta) = beta.map(R::narrow) else { return d.copy_from_slice(z) };
        for (d, z) in d.iter_mut().zip(z) {
            *d = *z + beta * *d;
        }
    }

    /// u = alpha d (`first`) or u + alpha d.
    fn add_inner<R: Real>(u: &mut [R], d: &[R], alpha: f64, first: bool) {
        let alpha = R::narrow(alpha);
        if first {
            u.fill(R::default());
        }
        for (u, d) in u.iter_mut().zip(d) {
            *u += alpha * *d;
        }
    }

    /// r = r - alpha q, z = r.
    fn subtract_inner<R: Real>(r: &mut [R], z: &mut [R], q: &[R], alpha: f64) {
        let alpha = R::narrow(alpha);
        for ((r, z), q) in r.iter_mut().zip(z).zip(q) {
            *r -= alpha * *q;
            *z = *r;
        }
    }

    /// z = u + alpha (z + beta d).
    fn finish_inner<R: Real>(z: &mut [R], d: &[R], u: &[R], alpha: f64, beta: f64) {
        let (alpha, beta) = (R::narrow(alpha), R::narrow(beta));
        for ((z, d), u) in z.iter_mut().zip(d).zip(u) {
            *z = *u + alpha * (*z + beta * *d);
        }
    }

    /// even[k] = pairs[2 k], odd[k] = pairs[2 k + 1]; as many pairs as there are.
    fn deinterleave<R: Real>(pairs: &[R], even: &mut [R], odd: &mut [R]) {
        let n = pairs.len() / 2;
        let (pairs, even, odd) = (&pairs[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = pairs[2 * k];
            odd[k] = pairs[2 * k + 1];
        }
    }

    /// The reverse.
    fn interleave<R: Real>(even: &[R], odd: &[R], pairs: &mut [R]) {
        let n = pairs.len() / 2;
        let (even, odd, pairs) = (&even[..n], &odd[..n], &mut pairs[..2 * n]);
        for k in 0..n {
            pairs[2 * k] = even[k];
            pairs[2 * k + 1] = odd[k];
        }
    }
}

/// An elimination: where its nodes' couplings to kept ones come from, and the format of their pivots.
pub trait Elimination {
    /// What couplings are read from.
    type Kept: Copy;
    /// What sweeps read.
    type Format: Format;
    /// A coupling of M.
    fn coupling(a: Self::Kept, unit: f64) -> f64;
}

/// The odd level: straight couplings, which the factorization has in f64.
pub struct OfReds<F>(PhantomData<F>);
/// The even level: diagonal couplings as the sweeps read them.
pub struct OfDropped<F>(PhantomData<F>);

impl<F: Format> Elimination for OfReds<F> {
    type Kept = f64;
    type Format = F;

    #[inline(always)]
    fn coupling(a: f64, _: f64) -> f64 {
        a
    }
}

impl<F: Format> Elimination for OfDropped<F> {
    type Kept = F::Stored;
    type Format = F;

    #[inline(always)]
    fn coupling(a: F::Stored, unit: f64) -> f64 {
        wide::<F>(a, unit)
    }
}

/// What [`Elimination`] stores of a pivot.
pub type StoredPivot<E> = <<E as Elimination>::Format as Format>::Stored;

/// A stored number of M.
#[inline(always)]
fn wide<F: Format>(a: F::Stored, unit: f64) -> f64 {
    F::read(a).wide() * unit
}

/// `Setup::kept`; `per_unit` = 1 / unit, which is exact.
#[inline(always)]
fn kept<F: Format>(v: f64, per_unit: f64, unit: f64) -> f64 {
    wide::<F>(F::write(v * per_unit), unit)
}

/// Numbers of a row that are converted together, so that those of the narrower type fill vectors too.
const TOGETHER: usize = 128;

/// a_0 + .. + a_3 at i.
#[inline(always)]
fn total4(a: &Rows, i: usize) -> f64 {
    (a[0][i] + a[1][i]) + (a[2][i] + a[3][i])
}

/// `Setup::excess`.
#[inline(always)]
fn excess(center: f64, couplings: f64, zero: f64) -> f64 {
    let excess = center + couplings;
    if excess.abs() <= zero * center { 0.0 } else { excess }
}

/// The pivot of node i, what is stored of it, and whether it is beyond doubt: see [`Pivot::checked`]. `least`: of a
/// stored one.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn pivot<E: Elimination>(
    excess: f64,
    kept: &Rows<E::Kept>,
    lumped: &Rows,
    i: usize,
    lost: f64,
    unit: f64,
    per_unit: f64,
    least: f64,
) -> (Pivot, StoredPivot<E>, bool) {
    let of = [
        E::coupling(kept[0][i], unit),
        E::coupling(kept[1][i], unit),
        E::coupling(kept[2][i], unit),
        E::coupling(kept[3][i], unit),
    ];
    let lumped = total4(lumped, i);
    let center = Pivot::center(excess, of, lumped);
    let exact = Pivot::new(excess, of, lumped, lost);
    let stored = E::Format::write(exact.stored * per_unit);
    let rounded = exact.keep(wide::<E::Format>(stored, unit));
    (rounded, stored, exact.beyond_doubt(center) & (rounded.d >= least))
}

/// keeps t - (a h) b - (c k) d.
#[inline(always)]
fn through(t: f64, keeps: f64, over_first: f64, b: f64, over_second: f64, d: f64) -> f64 {
    keeps * t - over_first * b - over_second * d
}

/// What a black node is coupled to through one red neighbour r: its coupling to r, 1 / d of r, and the couplings
/// of r to the two sides.
pub type Link<'a> = [&'a [f64]; 4];

/// New diagonal couplings of node i: southwest, southeast, northwest, northeast.
#[inline(always)]
fn skew4(t: [f64; 4], keeps: f64, links: &[Link; 4], i: usize) -> [f64; 4] {
    let [west, east, south, north] = links;
    let (over_west, over_east) = (west[0][i] * west[1][i], east[0][i] * east[1][i]);
    let (over_south, over_north) = (south[0][i] * south[1][i], north[0][i] * north[1][i]);
    [
        through(t[0], keeps, over_west, west[2][i], over_south, south[2][i]),
        through(t[1], keeps, over_east, east[2][i], over_south, south[3][i]),
        through(t[2], keeps, over_west, west[3][i], over_north, north[2][i]),
        through(t[3], keeps, over_east, east[3][i], over_north, north[3][i]),
    ]
}

/// What a row of the next grid's matrix is made from, at kept nodes, whose dropped neighbours stand at their own column
/// and the next one of the rows below (J) and above (J + 1).
pub struct Kept<'a, T> {
    /// Excess / d of the dropped neighbours below and above.
    pub handed: [&'a [f64]; 2],
    /// 1 / d of them.
    pub inverse: [&'a [f64]; 2],
    /// Couplings of those below to the northwest and northeast.
    pub below: [&'a [T]; 2],
    /// Couplings of those above to the southwest, southeast, northwest and northeast.
    pub above: [&'a [T]; 4],
    /// Couplings at distance two, to the east and north.
    pub distant: [&'a [f64]; 2],
}

for_each_isa! {
    /// out = row sums of A as M takes them.
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

    /// out = min(a, 0).
    fn without_positive(out: &mut [f64], a: &[f64]) {
        for (out, a) in out.iter_mut().zip(a) {
            *out = a.min(0.0);
        }
    }

    /// a = a as it is stored.
    fn round_couplings<F: Format>(a: &mut [f64], unit: f64) {
        let per_unit = unit.recip();
        for a in a.iter_mut() {
            *a = kept::<F>(*a, per_unit, unit);
        }
    }

    /// out = a / unit, as it is stored.
    fn store<F: Format>(out: &mut [F::Stored], a: &[f64], unit: f64) {
        // A power of two.
        let per_unit = unit.recip();
        let mut narrow = [F::Real::default(); TOGETHER];
        for (out, a) in out.chunks_mut(TOGETHER).zip(a.chunks(TOGETHER)) {
            for (narrow, a) in narrow.iter_mut().zip(a) {
                *narrow = F::Real::narrow(a * per_unit);
            }
            for (out, narrow) in out.iter_mut().zip(&narrow) {
                *out = F::round(*narrow);
            }
        }
    }

    /// The same of numbers that are multiples of what is stored.
    fn store_same<F: Format>(out: &mut [F::Stored], a: &[f64], unit: f64) {
        let per_unit = unit.recip();
        for (out, a) in out.iter_mut().zip(a) {
            *out = F::same(F::Real::narrow(a * per_unit));
        }
    }

    /// e = e - loss * sum of a.
    fn lose(e: &mut [f64], loss: f64, a: Rows) {
        let n = e.len();
        let a = cut(a, n);
        for (i, e) in e.iter_mut().enumerate() {
            *e -= loss * total4(&a, i);
        }
    }

    /// inverse = 1 / center, e = row sums of A as M takes them / center; zero in padding.
    fn exact_pivots(inverse: &mut [f64], e: &mut [f64], center: &[f64], a: Rows, zero: f64) {
        let n = inverse.len();
        let (e, center, a) = (&mut e[..n], &center[..n], cut(a, n));
        for i in 0..n {
            let h = inverse_of(center[i]);
            inverse[i] = if center[i] > 0.0 { h } else { 0.0 };
            e[i] = excess(center[i], total4(&a, i), zero) * inverse[i];
        }
    }

    /// Pivots of a row: 1 / d, excess / d, and where `stored` is not empty what is stored. `false`: one of them is
    /// doubtful, and none of the results of use.
    fn pivots<E: Elimination>(
        inverse: &mut [f64], handed: &mut [f64], stored: &mut [StoredPivot<E>], excess: &[f64],
        kept: Rows<E::Kept>, lumped: Rows, lost: f64, unit: f64
    ) -> bool {
        let n = inverse.len();
        let (handed, excess, kept, lumped) = (&mut handed[..n], &excess[..n], cut(kept, n), cut(lumped, n));
        let per_unit = unit.recip();
        // As a number: a flag is not seen as what it is, a sum over the row.
        let mut doubtful = 0;
        if stored.is_empty() {
            for i in 0..n {
                let (pivot, _, beyond_doubt) =
                    pivot::<E>(excess[i], &kept, &lumped, i, lost, unit, per_unit, f64::NEG_INFINITY);
                inverse[i] = 1.0 / pivot.d;
                handed[i] = pivot.excess * inverse[i];
                doubtful |= u64::from(!beyond_doubt);
            }
        } else {
            let (stored, least) = (&mut stored[..n], Pivot::least(unit));
            for i in 0..n {
                let (pivot, kept, beyond_doubt) = pivot::<E>(excess[i], &kept, &lumped, i, lost, unit, per_unit, least);
                inverse[i] = 1.0 / pivot.d;
                handed[i] = pivot.excess * inverse[i];
                stored[i] = kept;
                doubtful |= u64::from(!beyond_doubt);
            }
        }
        doubtful == 0
    }

    /// Diagonal couplings between black nodes: keeps times what they are, or without `old` nothing, and those
    /// through the red neighbours to the west, east, south and north.
    fn skew_couplings(
        southwest: &mut [f64], southeast: &mut [f64], northwest: &mut [f64], northeast: &mut [f64],
        keeps: f64, old: bool, links: [Link; 4]
    ) {
        let n = southwest.len();
        let (southeast, northwest, northeast) = (&mut southeast[..n], &mut northwest[..n], &mut northeast[..n]);
        let links = [cut(links[0], n), cut(links[1], n), cut(links[2], n), cut(links[3], n)];
        if old {
            for i in 0..n {
                let t = [southwest[i], southeast[i], northwest[i], northeast[i]];
                [southwest[i], southeast[i], northwest[i], northeast[i]] = skew4(t, keeps, &links, i);
            }
        } else {
            for i in 0..n {
                [southwest[i], southeast[i], northwest[i], northeast[i]] = skew4([0.0; 4], keeps, &links, i);
            }
        }
    }

    /// out = - (a h) b.
    fn distant_couplings(out: &mut [f64], a: &[f64], h: &[f64], b: &[f64]) {
        let n = out.len();
        let (a, h, b) = (&a[..n], &h[..n], &b[..n]);
        for i in 0..n {
            out[i] = -(a[i] * h[i]) * b[i];
        }
    }

    /// Of black nodes, e = row sums of A as M takes them - sum of a t, out = c - sum of a (a h).
    fn schur_centers(e: &mut [f64], out: &mut [f64], c: &[f64], a: Rows, t: Rows, h: Rows, zero: f64) {
        let n = out.len();
        let (e, c, a, t, h) = (&mut e[..n], &c[..n], cut(a, n), cut(t, n), cut(h, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = excess(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero) - sum4(a, &t, i);
            let first = a[0] * (a[0] * h[0][i]) + a[1] * (a[1] * h[1][i]);
            out[i] = c[i] - (first + (a[2] * (a[2] * h[2][i]) + a[3] * (a[3] * h[3][i])));
        }
    }

    /// The first of these alone.
    fn schur_row_sums(e: &mut [f64], c: &[f64], a: Rows, t: Rows, zero: f64) {
        let n = e.len();
        let (c, a, t) = (&c[..n], cut(a, n), cut(t, n));
        for i in 0..n {
            let a = [a[0][i], a[1][i], a[2][i], a[3][i]];
            e[i] = excess(c[i], (a[0] + a[1]) + (a[2] + a[3]), zero) - sum4(a, &t, i);
        }
    }

    /// Excess, from that of the kept nodes, and couplings of a row of the next grid.
    fn coarse_couplings<F: Format>(
        excess: &mut [f64], east: &mut [f64], north: &mut [f64], northeast: &mut [f64], northwest: &mut [f64],
        of: Kept<F::Stored>, keeps: f64, unit: f64
    ) {
        let n = excess.len();
        let (east, north) = (&mut east[..n], &mut north[..n]);
        let (northeast, northwest) = (&mut northeast[..n], &mut northwest[..n]);
        let [distant_east, distant_north] = [&of.distant[0][..n], &of.distant[1][..n]];
        // At the dropped neighbours; with two names the coupling of the first one in the direction of the second.
        let ([t_sw, t_se], [t_nw, t_ne]) = (and_next(of.handed[0], n), and_next(of.handed[1], n));
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
            // Times the unit of what else is read.
            let (over_se, over_nw) = (to_se * h_se[i] * unit, to_nw * h_nw[i] * unit);
            let over_ne = to_ne * h_ne[i] * unit;
            let to_east =
                keeps * distant_east[i] - over_ne * F::read(ne_se[i]).wide() - over_se * F::read(se_ne[i]).wide();
            let to_north =
                keeps * distant_north[i] - over_ne * F::read(ne_nw[i]).wide() - over_nw * F::read(nw_ne[i]).wide();
            east[i] = kept::<F>(to_east, per_unit, unit);
            north[i] = kept::<F>(to_north, per_unit, unit);
            northeast[i] = -over_ne * F::read(ne_ne[i]).wide();
            northwest[i] = -over_nw * F::read(nw_nw[i]).wide();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_is_undone_by_deinterleaving() {
        for n in [0, 1, 2, 7, 64, 65] {
            let pairs: Vec<f64> = (0..2 * n).map(f64::from).collect();
            let (mut even, mut odd) = (vec![0.0; n as usize], vec![0.0; n as usize]);
            deinterleave(&pairs, &mut even, &mut odd);
            assert!(even.iter().all(|v| v % 2.0 == 0.0) && odd.iter().all(|v| v % 2.0 == 1.0));
            let mut back = vec![0.0; pairs.len()];
            interleave(&even, &odd, &mut back);
            assert_eq!(back, pairs);
        }
    }
}
