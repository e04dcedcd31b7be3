//! Loops over consecutive values that several methods use, compiled for several instruction sets (`base::isa`).

use super::isa::for_each_isa;
use super::number::{Real, cast};
use super::reduce;

for_each_isa! {
    /// Returns sum_i a_i b_i, computed in the type of b.
    fn dot<A: Real, B: Real>(a: &[A], b: &[B]) -> f64 {
        reduce::dot(a, b)
    }

    /// Returns sum_i v_i.
    fn sum<R: Real>(v: &[R]) -> f64 {
        reduce::sum(v)
    }

    /// Returns max_i |v_i|, or NaN if any entry is NaN.
    fn largest<R: Real>(v: &[R]) -> f64 {
        reduce::largest(v.iter().map(|v| v.wide()))
    }

    /// Computes to = to + v.
    fn add<R: Real>(to: &mut [R], v: &[R]) {
        for (to, v) in to.iter_mut().zip(v) {
            *to += *v;
        }
    }

    /// Computes to = factor from + scale to, in the type of `to`. With scale = 0, the old values of `to` are not read.
    fn combine<A: Real, B: Real>(to: &mut [A], scale: f64, factor: f64, from: &[B]) {
        let (scale, factor) = (A::narrow(scale), A::narrow(factor));
        let pairs = to.iter_mut().zip(from);
        if scale.wide() == 0.0 {
            pairs.for_each(|(to, from)| *to = factor * cast::<B, A>(*from));
        } else if scale.wide() == 1.0 {
            pairs.for_each(|(to, from)| *to += factor * cast::<B, A>(*from));
        } else {
            pairs.for_each(|(to, from)| *to = factor * cast::<B, A>(*from) + scale * *to);
        }
    }

    /// Computes y = b - y, and returns <y, y> of the new y.
    fn subtract_from<R: Real>(y: &mut [R], b: &[f64]) -> f64 {
        for (y, b) in y.iter_mut().zip(b) {
            *y = R::narrow(*b) - *y;
        }
        reduce::dot(y, y)
    }

    /// Copies the values with even index to `even`, and the others to `odd`.
    fn deinterleave<R: Real>(values: &[R], even: &mut [R], odd: &mut [R]) {
        let n = values.len() / 2;
        if values.len() > 2 * n {
            even[n] = values[2 * n];
        }
        let (pairs, even, odd) = (&values[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = pairs[2 * k];
            odd[k] = pairs[2 * k + 1];
        }
    }

    /// Copies `even` to the values with even index, and `odd` to the others: the inverse of `deinterleave`.
    fn interleave<R: Real>(even: &[R], odd: &[R], values: &mut [R]) {
        let n = values.len() / 2;
        if values.len() > 2 * n {
            values[2 * n] = even[n];
        }
        let (even, odd, pairs) = (&even[..n], &odd[..n], &mut values[..2 * n]);
        for k in 0..n {
            pairs[2 * k] = even[k];
            pairs[2 * k + 1] = odd[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_is_undone_by_deinterleaving() {
        for n in [0, 1, 2, 7, 64, 129] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let (mut even, mut odd) = (vec![0.0; values.len().div_ceil(2)], vec![1.0; values.len() / 2]);
            deinterleave(&values, &mut even, &mut odd);
            assert!(even.iter().all(|v| v % 2.0 == 0.0) && odd.iter().all(|v| v % 2.0 == 1.0));
            let mut back = vec![0.0; values.len()];
            interleave(&even, &odd, &mut back);
            assert_eq!(back, values);
        }
    }
}
