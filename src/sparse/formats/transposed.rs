//! Formats by columns: csc is the csr, tjds the jds of A'. Their products are those of A' exchanged.

use crate::sparse::stored::{Arrays, By, Stored};

pub struct Transposed<S>(pub S);

impl<S: Stored> Stored for Transposed<S> {
    fn by(&self, transposed: bool) -> By<'_> {
        self.0.by(!transposed)
    }

    fn write(&self, to: &mut Arrays) {
        self.0.write(to);
    }
}
