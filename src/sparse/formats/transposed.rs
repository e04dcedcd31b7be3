//! Formats that store a matrix A by columns. A in csc is A^T in csr, and A in tjds is A^T in jds. [`Transposed`]
//! contains A^T in csr or jds. It computes A x as the transposed product of A^T, and A^T x as the product of A^T.

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
