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
    fn max_abs<R: Real>(v: &[R]) -> f64 {
        reduce::max_abs_of(v.iter().map(|v| v.to_f64()))
    }

    /// Computes target = target + v.
    fn add<R: Real>(target: &mut [R], v: &[R]) {
        for (target, v) in target.iter_mut().zip(v) {
            *target += *v;
        }
    }

    /// Computes target = factor source + scale target, in the type of `target`. With scale = 0, the old values of
    /// `target` are not read.
    fn combine<A: Real, B: Real>(target: &mut [A], scale: f64, factor: f64, source: &[B]) {
        let (scale, factor) = (A::from_f64(scale), A::from_f64(factor));
        let pairs = target.iter_mut().zip(source);
        if scale.to_f64() == 0.0 {
            pairs.for_each(|(target, source)| *target = factor * cast::<B, A>(*source));
        } else if scale.to_f64() == 1.0 {
            pairs.for_each(|(target, source)| *target += factor * cast::<B, A>(*source));
        } else {
            pairs.for_each(|(target, source)| *target = factor * cast::<B, A>(*source) + scale * *target);
        }
    }

    /// Computes y = b - y, and returns <y, y> of the new y.
    fn subtract_from<R: Real>(y: &mut [R], b: &[f64]) -> f64 {
        for (y, b) in y.iter_mut().zip(b) {
            *y = R::from_f64(*b) - *y;
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
    fn deinterleave_restores_interleaved_values() {
        for n in [0, 1, 2, 7, 64, 129] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let (mut even, mut odd) = (vec![0.0; values.len().div_ceil(2)], vec![1.0; values.len() / 2]);
            deinterleave(&values, &mut even, &mut odd);
            assert!(even.iter().all(|v| v % 2.0 == 0.0) && odd.iter().all(|v| v % 2.0 == 1.0));
            let mut restored = vec![0.0; values.len()];
            interleave(&even, &odd, &mut restored);
            assert_eq!(restored, values);
        }
    }
}
