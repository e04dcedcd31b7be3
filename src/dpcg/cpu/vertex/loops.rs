//! Loops of a cycle over half rows and half planes (see `layout`), compiled for several instruction sets
//! (`crate::base::isa`). `inverse_divisors` contains the reciprocals of the divisors d of the smoother; on the finest
//! grid, d is the diagonal entry. c_t is the conductance to neighbour t, and x_t is the value of x at this neighbour.

use crate::base::isa::for_each_isa;
use crate::base::number::Real;

/// Returns the first n values of each slice.
#[inline(always)]
fn truncate_slices<'a, R, const N: usize>(slices: &[&'a [R]; N], n: usize) -> [&'a [R]; N] {
    let mut truncated = *slices;
    for slice in &mut truncated {
        *slice = &slice[..n];
    }
    truncated
}

/// Returns the sum over t of c_t x_t at index i.
#[inline(always)]
fn product_sum_at<R: Real, const N: usize>(c: &[&[R]; N], x: &[&[R]; N], i: usize) -> R {
    let mut sum = c[0][i] * x[0][i];
    for t in 1..N {
        sum += c[t][i] * x[t][i];
    }
    sum
}

for_each_isa! {
    /// Splits a row into even and odd columns, multiplied by `scale`.
    fn split_columns<R: Real>(even: &mut [R], odd: &mut [R], row: &[f64], scale: f64) {
        let pair_count = row.len() / 2;
        let (even_pairs, odd_pairs) = (&mut even[..pair_count], &mut odd[..pair_count]);
        let pair_values = &row[..2 * pair_count];
        for m in 0..pair_count {
            even_pairs[m] = R::from_f64(scale * pair_values[2 * m]);
            odd_pairs[m] = R::from_f64(scale * pair_values[2 * m + 1]);
        }
        if row.len() > 2 * pair_count {
            even[pair_count] = R::from_f64(scale * row[2 * pair_count]);
        }
    }

    /// Merges even and odd columns into a row, multiplied by `scale`.
    fn merge_columns<R: Real>(row: &mut [f64], even: &[R], odd: &[R], scale: f64) {
        let pair_count = row.len() / 2;
        let (even_pairs, odd_pairs) = (&even[..pair_count], &odd[..pair_count]);
        let (paired_columns, last_column) = row.split_at_mut(2 * pair_count);
        for m in 0..pair_count {
            paired_columns[2 * m] = even_pairs[m].to_f64() * scale;
            paired_columns[2 * m + 1] = odd_pairs[m].to_f64() * scale;
        }
        if let Some(value) = last_column.first_mut() {
            *value = even[pair_count].to_f64() * scale;
        }
    }

    /// Computes x = r / d.
    fn scale_by_inverse<R: Real>(x: &mut [R], r: &[R], inverse_divisors: &[R]) {
        let n = x.len();
        let (r, inverse_divisors) = (&r[..n], &inverse_divisors[..n]);
        for i in 0..n {
            x[i] = r[i] * inverse_divisors[i];
        }
    }

    /// Computes x = (r + sum_t c_t x_t) / d over the six neighbours t.
    fn relax<R: Real>(x: &mut [R], r: &[R], inverse_divisors: &[R], c: &[&[R]; 6], neighbours: &[&[R]; 6]) {
        let n = x.len();
        let (r, inverse_divisors) = (&r[..n], &inverse_divisors[..n]);
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for i in 0..n {
            x[i] = (r[i] + product_sum_at(&c, &neighbours, i)) * inverse_divisors[i];
        }
    }

    /// Computes x like `relax`, and stores the change of x in `change`.
    fn relax_with_change<R: Real>(
        x: &mut [R], change: &mut [R], r: &[R], inverse_divisors: &[R], c: &[&[R]; 6], neighbours: &[&[R]; 6]
    ) {
        let n = x.len();
        let (change, r, inverse_divisors) = (&mut change[..n], &r[..n], &inverse_divisors[..n]);
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for i in 0..n {
            let new_x = (r[i] + product_sum_at(&c, &neighbours, i)) * inverse_divisors[i];
            change[i] = new_x - x[i];
            x[i] = new_x;
        }
    }

    /// Computes out = sum_t c_t x_t over the six neighbours t.
    fn sum_products<R: Real>(out: &mut [R], c: &[&[R]; 6], neighbours: &[&[R]; 6]) {
        let n = out.len();
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out = product_sum_at(&c, &neighbours, i);
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
        let (w, v) = (truncate_slices(w, n), truncate_slices(v, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out += product_sum_at(&w, &v, i);
        }
    }

    /// Computes out = r - d x + sum_t c_t x_t over the eight neighbours t in the plane. Here `d` contains the diagonal.
    fn residual_in_plane<R: Real>(out: &mut [R], r: &[R], d: &[R], x: &[R], c: &[&[R]; 8], neighbours: &[&[R]; 8]) {
        let n = out.len();
        let (r, d, x) = (&r[..n], &d[..n], &x[..n]);
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for i in 0..n {
            out[i] = r[i] - d[i] * x[i] + product_sum_at(&c, &neighbours, i);
        }
    }

    /// Computes out = out + sum_t c_t x_t over the nine neighbours t in an adjacent plane.
    fn add_adjacent_plane<R: Real>(out: &mut [R], c: &[&[R]; 9], neighbours: &[&[R]; 9]) {
        let n = out.len();
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for (i, out) in out.iter_mut().enumerate() {
            *out += product_sum_at(&c, &neighbours, i);
        }
    }

    /// Computes out = x + (out + sum_t c_t x_t) / d over the nine neighbours t in an adjacent plane.
    fn add_adjacent_plane_and_step<R: Real>(
        out: &mut [R], x: &[R], inverse_divisors: &[R], c: &[&[R]; 9], neighbours: &[&[R]; 9]
    ) {
        let n = out.len();
        let (x, inverse_divisors) = (&x[..n], &inverse_divisors[..n]);
        let (c, neighbours) = (truncate_slices(c, n), truncate_slices(neighbours, n));
        for i in 0..n {
            out[i] = x[i] + (out[i] + product_sum_at(&c, &neighbours, i)) * inverse_divisors[i];
        }
    }
}
