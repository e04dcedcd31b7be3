//! Loops over consecutive rows, compiled for several instruction sets.

use crate::base::isa::for_each_isa;
use crate::base::reduce;

for_each_isa! {
    /// Returns sum_i a_i b_i, with the fixed summation order of [`reduce::dot`].
    fn dot(a: &[f64], b: &[f64]) -> f64 {
        reduce::dot(a, b)
    }

    /// Returns max_i |a_i|, or NaN if any entry is NaN.
    fn largest(a: &[f64]) -> f64 {
        reduce::max_abs(a)
    }

    /// Computes y_i = factor x_i.
    fn set_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
    }

    /// Computes y_i += factor x_i.
    fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
    }

    /// Computes y_i = scale y_i + factor x_i.
    fn scale_and_add(y: &mut [f64], scale: f64, factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = scale * *y + factor * x);
    }

    /// Computes y_i = b_i - y_i, and returns the sum of the squares of the result.
    fn subtract_from(y: &mut [f64], b: &[f64]) -> f64 {
        y.iter_mut().zip(b).for_each(|(y, b)| *y = b - *y);
        reduce::dot(y, y)
    }
}
