//! Loops over consecutive rows, compiled for several instruction sets.

use crate::isa::for_each_isa;
use crate::runtime::reduce;

for_each_isa! {
    /// <a, b>, with lanes of a fixed shape.
    fn dot(a: &[f64], b: &[f64]) -> f64 {
        reduce::dot(a, b)
    }

    /// max |a|, NaN if any entry is.
    fn largest(a: &[f64]) -> f64 {
        reduce::max_abs(a)
    }

    /// y = factor x.
    fn set_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
    }

    /// y = y + factor x.
    fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
    }

    /// y = scale y + factor x.
    fn scale_and_add(y: &mut [f64], scale: f64, factor: f64, x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = scale * *y + factor * x);
    }

    /// y = b - y, and <y, y> of the result.
    fn subtract_from(y: &mut [f64], b: &[f64]) -> f64 {
        y.iter_mut().zip(b).for_each(|(y, b)| *y = b - *y);
        reduce::dot(y, y)
    }
}
