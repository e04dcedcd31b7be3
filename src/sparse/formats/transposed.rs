//! Formats by columns. csc is csr applied to A^T, and tjds is jds applied to A^T; the products with A and A^T are
//! exchanged.

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
