//! Loops of a cycle over half rows and half planes (see `layout`), compiled for several instruction sets
//! (`crate::base::isa`). `inverse` contains the reciprocals of the divisors, D on the finest grid.

use crate::base::isa::for_each_isa;
use crate::base::number::Real;

/// Returns the first n values of each slice.
#[inline(always)]
fn cut<'a, R, const N: usize>(slices: &[&'a [R]; N], n: usize) -> [&'a [R]; N] {
    let mut cut = *slices;
    for slice in &mut cut {
        *slice = &slice[..n];
    }
    cut
}

/// Returns the sum over t of c_t x_t at index i.
#[inline(always)]
fn sum_at<R: Real, const N: usize>(c: &[&[R]; N], x: &[&[R]; N], i: usize) -> R {
    let mut sum = c[0][i] * x[0][i];
    for t in 1..N {
        sum += c[t][i] * x[t][i];
    }
    sum
}

for_each_isa! {
    /// Splits a row into even and odd columns, multiplied by `scale`.
    fn split<R: Real>(even: &mut [R], odd: &mut [R], row: &[f64], scale: f64) {
        let pairs = row.len() / 2;
        let (e, o, pairs_of) = (&mut even[..pairs], &mut odd[..pairs], &row[..2 * pairs]);
        for m in 0..pairs {
            e[m] = R::narrow(scale * pairs_of[2 * m]);
            o[m] = R::narrow(scale * pairs_of[2 * m + 1]);
        }
        if row.len() > 2 * pairs {
            even[pairs] = R::narrow(scale * row[2 * pairs]);
        }
    }

    /// Merges even and odd columns into a row, multiplied by `scale`.
    fn merge<R: Real>(row: &mut [f64], even: &[R], odd: &[R], scale: f64) {
        let pairs = row.len() / 2;
        let (e, o) = (&even[..pairs], &odd[..pairs]);
        let (whole, rest) = row.split_at_mut(2 * pairs);
        for m in 0..pairs {
            whole[2 * m] = e[m].wide() * scale;
            whole[2 * m + 1] = o[m].wide() * scale;
        }
        if let Some(last) = rest.first_mut() {
            *last = even[pairs].wide() * scale;
        }
    }

    /// Computes x = D^-1 r.
    fn scale_by_inverse<R: Real>(x: &mut [R], r: &[R], inverse: &[R]) {
        let n = x.len();
        let (r, inverse) = (&r[..n], &inverse[..n]);
        for i in 0..n {
            x[i] = r[i] * inverse[i];
        }
    }

    /// Computes x = D^-1 (r + sum_t c_t x_t) over the six neighbours t.
    fn relax<R: Real>(x: &mut [R], r: &[R], inverse: &[R], c: &[&[R]; 6], near: &[&[R]; 6]) {
        let n = x.len();
        let (r, inverse, c, near) = (&r[..n], &inverse[..n], cut(c, n), cut(near, n));
        for i in 0..n {
            x[i] = (r[i] + sum_at(&c, &near, i)) * inverse[i];
        }
    }

    /// Computes x like `relax`, and stores the change of x in `change`.
    fn relax_with_change<R: Real>(
        x: &mut [R], change: &mut [R], r: &[R], inverse: &[R], c: &[&[R]; 6], near: &[&[R]; 6]
    ) {
        let n = x.len();
        let (change, r, inverse) = (&mut change[..n], &r[..n], &inverse[..n]);
        let (c, near) = (cut(c, n), cut(near, n));
        for i in 0..n {
            let new = (r[i] + sum_at(&c, &near, i)) * inverse[i];
            change[i] = new - x[i];
            x[i] = new;
        }
    }

    /// Computes out = sum_t c_t x_t over the six neighbours t.
    fn gather<R: Real>(out: &mut [R], c: &[&[R]; 6], near: &[&[R]; 6]) {
        let n = out.len();
        let (c, near) = (cut(c, n), cut(near, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out = sum_at(&c, &near, i);
        }
    }

    /// Computes out = out + w v.
    fn add_products<R: Real>(out: &mut [R], w: &[R], v: &[R]) {
        let n = out.len();
        let (w, v) = (&w[..n], &v[..n]);
        for i in 0..n {
            out[i] += w[i] * v[i];
        }
    }

    /// Computes out = out + w_0 v_0 + w_1 v_1.
    fn add_two_products<R: Real>(out: &mut [R], w: &[&[R]; 2], v: &[&[R]; 2]) {
        let n = out.len();
        let (w, v) = (cut(w, n), cut(v, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out += sum_at(&w, &v, i);
        }
    }

    /// Computes out = r - d x + sum_t c_t x_t over the eight neighbours t in the plane.
    fn in_plane<R: Real>(out: &mut [R], r: &[R], d: &[R], x: &[R], c: &[&[R]; 8], near: &[&[R]; 8]) {
        let n = out.len();
        let (r, d, x, c, near) = (&r[..n], &d[..n], &x[..n], cut(c, n), cut(near, n));
        for i in 0..n {
            out[i] = r[i] - d[i] * x[i] + sum_at(&c, &near, i);
        }
    }

    /// Computes out = out + sum_t c_t x_t over the nine neighbours t in an adjacent plane.
    fn out_of_plane<R: Real>(out: &mut [R], c: &[&[R]; 9], near: &[&[R]; 9]) {
        let n = out.len();
        let (c, near) = (cut(c, n), cut(near, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out += sum_at(&c, &near, i);
        }
    }

    /// Computes out = x + (out + sum_t c_t x_t) / d over the nine neighbours t in an adjacent plane.
    fn out_of_plane_and_step<R: Real>(out: &mut [R], x: &[R], inverse: &[R], c: &[&[R]; 9], near: &[&[R]; 9]) {
        let n = out.len();
        let (x, inverse, c, near) = (&x[..n], &inverse[..n], cut(c, n), cut(near, n));
        for i in 0..n {
            out[i] = x[i] + (out[i] + sum_at(&c, &near, i)) * inverse[i];
        }
    }
}
