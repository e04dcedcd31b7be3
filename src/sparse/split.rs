//! The form M^-1 = (I + U)^-1 G (I + L)^-1 with a strictly lower triangular L, a strictly upper triangular U, and a
//! diagonal G. For ssor, ic0 and ilu0, M^-1 and M^-T have this form. For the Neumann series, L and U are the strict
//! triangles of A, and G is the inverse of its diagonal.

use super::preconditioning::{ALLOCATION_NAME, convert_values, inverse_diagonal};
use crate::base::csr::{Csr, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::number::Real;
use crate::error::{Result, reserve, zeroed};

/// A submatrix: some entries of a matrix, stored by rows with ascending columns.
pub struct CsrPart<I, V = f64> {
    pub ptr: Vec<usize>,
    pub col: Vec<I>,
    pub val: Vec<V>,
}

/// L (`lower`), U (`upper`) and the diagonal of G (`g_diagonal`).
pub struct TriangularSplit<I> {
    pub lower: CsrPart<I>,
    pub upper: CsrPart<I>,
    pub g_diagonal: Vec<f64>,
}

impl<I, V> CsrPart<I, V> {
    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ptr) + size_of_val(&*self.col) + size_of_val(&*self.val)
    }
}

impl<I: Index> CsrPart<I> {
    /// Converts the values to the type V.
    pub fn into_value_type<V: Real>(self) -> Result<CsrPart<I, V>> {
        Ok(CsrPart { val: convert_values(self.val.iter().copied(), self.val.len())?, ptr: self.ptr, col: self.col })
    }

    /// Copies the entries a_ij for which `is_included(i, j)` holds, each as `value_of(i, j, a_ij)`.
    pub fn of(
        a: &Csr<I>,
        is_included: impl Fn(usize, usize) -> bool,
        value_of: impl Fn(usize, usize, f64) -> f64,
    ) -> Result<Self> {
        let mut ptr = zeroed(a.rows() + 1, ALLOCATION_NAME)?;
        a.entries().filter(|&(i, j, _)| is_included(i, j)).for_each(|(i, _, _)| ptr[i + 1] += 1);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (Vec::new(), Vec::new());
        reserve(&mut col, ptr[a.rows()], ALLOCATION_NAME)?;
        reserve(&mut val, ptr[a.rows()], ALLOCATION_NAME)?;
        for (i, j, entry) in a.entries().filter(|&(i, j, _)| is_included(i, j)) {
            col.push(I::of(j));
            val.push(value_of(i, j, entry));
        }
        Ok(Self { ptr, col, val })
    }

    /// Allocates capacity for this many rows and entries.
    pub fn with_capacity(rows: usize, entries: usize) -> Result<Self> {
        let mut csr_part = Self { ptr: Vec::new(), col: Vec::new(), val: Vec::new() };
        reserve(&mut csr_part.ptr, rows + 1, ALLOCATION_NAME)?;
        reserve(&mut csr_part.col, entries, ALLOCATION_NAME)?;
        reserve(&mut csr_part.val, entries, ALLOCATION_NAME)?;
        csr_part.ptr.push(0);
        Ok(csr_part)
    }

    /// Appends a row; the capacity must suffice.
    pub fn push_row(&mut self, col: &[I], val: &[f64]) {
        self.col.extend_from_slice(col);
        self.val.extend_from_slice(val);
        self.ptr.push(self.col.len());
    }

    pub fn rows(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Converts the part to a square matrix.
    pub fn into_csr(self) -> Csr<I> {
        Csr { cols: self.rows(), ptr: self.ptr, col: self.col, val: self.val }
    }

    /// Iterates over columns and values of row i.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|j| j.to_usize()).zip(self.val[range].iter().copied())
    }

    /// Returns the matrix B with b_ij = a_kl for i = `rows[k]` and j = `rows[l]`, where A is this matrix. The order of
    /// the entries within a row is unchanged.
    fn renumbered(&self, rows: &[I]) -> Result<Self> {
        let mut ptr = zeroed(rows.len() + 1, ALLOCATION_NAME)?;
        rows.iter().zip(self.ptr.windows(2)).for_each(|(row, range)| ptr[row.to_usize() + 1] = range[1] - range[0]);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(self.col.len(), ALLOCATION_NAME)?, zeroed(self.val.len(), ALLOCATION_NAME)?);
        for (k, row) in rows.iter().enumerate() {
            for (position, (j, value)) in (ptr[row.to_usize()]..).zip(self.row(k)) {
                (col[position], val[position]) = (rows[j], value);
            }
        }
        Ok(Self { ptr, col, val })
    }

    /// Returns the transposed matrix.
    pub fn transposed(&self) -> Result<Self> {
        let rows = self.rows();
        let mut ptr = zeroed(rows + 1, ALLOCATION_NAME)?;
        self.col.iter().for_each(|j| ptr[j.to_usize() + 1] += 1);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(self.col.len(), ALLOCATION_NAME)?, zeroed(self.val.len(), ALLOCATION_NAME)?);
        for i in 0..rows {
            for (j, value) in self.row(i) {
                (col[ptr[j]], val[ptr[j]]) = (I::of(i), value);
                ptr[j] += 1;
            }
        }
        ends_to_pointers(&mut ptr);
        Ok(Self { ptr, col, val })
    }
}

impl<I: Index> TriangularSplit<I> {
    /// Renumbers the rows and columns of L, U and G: row and column k become row and column `rows[k]`. L and U are then
    /// triangular only with respect to the order `rows`.
    pub fn renumbered(self, rows: &[I]) -> Result<Self> {
        let mut g_diagonal = zeroed(rows.len(), ALLOCATION_NAME)?;
        rows.iter().zip(self.g_diagonal).for_each(|(row, g)| g_diagonal[row.to_usize()] = g);
        Ok(Self { lower: self.lower.renumbered(rows)?, upper: self.upper.renumbered(rows)?, g_diagonal })
    }

    /// Returns the splitting of M^-T = (I + L^T)^-1 G (I + U^T)^-1.
    pub fn transposed(&self) -> Result<Self> {
        let mut g_diagonal = Vec::new();
        reserve(&mut g_diagonal, self.g_diagonal.len(), ALLOCATION_NAME)?;
        g_diagonal.extend_from_slice(&self.g_diagonal);
        Ok(Self { lower: self.upper.transposed()?, upper: self.lower.transposed()?, g_diagonal })
    }

    /// Splits A = L + U + G^-1, for the Neumann series. With the transposed splitting, the series computes M^-T instead
    /// of M^-1.
    pub fn from_triangles(a: &Csr<I>) -> Result<Self> {
        let g_diagonal = inverse_diagonal(a)?;
        let lower = CsrPart::of(a, |i, j| j < i, |_, _, entry| entry)?;
        let upper = CsrPart::of(a, |i, j| j > i, |_, _, entry| entry)?;
        Ok(Self { lower, upper, g_diagonal })
    }

    /// Returns the factors of SSOR (Saad 2003, section 10.2). With w = `omega`, A = L_A + D + U_A, and
    ///
    /// ```text
    /// M^-1 = w (2 - w) (D + w U_A)^-1 D (D + w L_A)^-1,
    /// ```
    ///
    /// the factors are L = w L_A D^-1, U = w D^-1 U_A, and G = w (2 - w) D^-1.
    pub fn ssor(a: &Csr<I>, omega: f64) -> Result<Self> {
        let mut g_diagonal = inverse_diagonal(a)?;
        let lower = CsrPart::of(a, |i, j| j < i, |_, j, entry| omega * entry * g_diagonal[j])?;
        let upper = CsrPart::of(a, |i, j| j > i, |i, _, entry| omega * g_diagonal[i] * entry)?;
        g_diagonal.iter_mut().for_each(|d| *d *= omega * (2.0 - omega));
        Ok(Self { lower, upper, g_diagonal })
    }
}
