//! Formats by columns: csc is the csr, tjds the jds of A'. Their products are those of A' exchanged.

use crate::sparse::stored::{Arrays, By, Stored};

pub struct Transposed<S>(pub S);

impl<S: Stored> Stored for Transposed<S> {
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        self.0.multiply_transposed(x, y);
    }

    fn multiply_transposed(&self, x: &[f64], y: &mut [f64]) {
        self.0.multiply(x, y);
    }

    fn by(&self, transposed: bool) -> By<'_> {
        self.0.by(!transposed)
    }

    fn write(&self, to: &mut Arrays) {
        self.0.write(to);
    }
}
