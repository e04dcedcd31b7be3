//! Repeated measurements and their statistics.

use serde::{Deserialize, Serialize};

/// Measured times [s], in the order of the measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Wraps existing times.
    pub fn new(seconds: Vec<f64>) -> Self {
        Self(seconds)
    }

    /// Adds a time.
    pub fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// Returns the times in the order of the measurements.
    pub fn all(&self) -> &[f64] {
        &self.0
    }

    /// Returns the median; NaN if there are no times.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        match n {
            0 => f64::NAN,
            _ if n % 2 == 1 => sorted[n / 2],
            _ => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
        }
    }

    /// Returns the smallest time.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Returns the largest time.
    pub fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Formats "median (smallest .. largest)" in milliseconds.
    pub fn milliseconds(&self) -> String {
        let ms = |s: f64| digits(1e3 * s);
        if self.0.len() < 2 {
            return ms(self.median());
        }
        format!("{} ({} .. {})", ms(self.median()), ms(self.least()), ms(self.most()))
    }
}

/// Formats with three significant digits, or more before the decimal point.
pub fn digits(v: f64) -> String {
    if !v.is_finite() {
        return "-".to_owned();
    }
    let decimals = |v: f64| {
        if v.abs() >= 100.0 || v == 0.0 { 0 } else { (2 - v.abs().log10().floor() as i32).clamp(0, 6) as usize }
    };
    // Rounding 9.999 adds a digit before the decimal point.
    let rounded: f64 = format!("{v:.*}", decimals(v)).parse().unwrap_or(v);
    format!("{v:.*}", decimals(rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Samples::new(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples::new(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
        assert_eq!(Samples::new(vec![0.0123, 0.010]).milliseconds(), "11.2 (10.0 .. 12.3)");
        assert_eq!([digits(9.999), digits(99.99), digits(0.0)], ["10.0", "100", "0"]);
        assert_eq!([digits(0.01234), digits(1234.5), digits(9.876)], ["0.0123", "1234", "9.88"]);
    }
}
