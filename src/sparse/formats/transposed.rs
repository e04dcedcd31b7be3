//! Formats that store a matrix A by columns. A in csc is A^T in csr, and A in tjds is A^T in jds. A product with A is
//! therefore a product of the inner format with the transpose, and vice versa.

use crate::sparse::stored::{OutputArrays, Stored, ThreadDivision};

pub struct Transposed<S>(pub S);

impl<S: Stored> Stored for Transposed<S> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        self.0.division(!transposed)
    }

    fn write(&self, output: &mut OutputArrays) {
        self.0.write(output);
    }
}
