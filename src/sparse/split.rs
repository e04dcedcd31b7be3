//! The form M^-1 = (I + U)^-1 G (I + L)^-1 with a strictly lower triangular L, a strictly upper triangular U, and a
//! diagonal G. ssor, ic0 and ilu0 have this form; M^-T has it, too. For the Neumann series, L and U are the triangles
//! of A.

use super::preconditioning::{WHAT, converted, inverse_diagonal};
use crate::base::csr::{Csr, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::number::Real;
use crate::error::{Result, reserve, zeroed};

/// Some entries of a matrix, stored by rows with ascending columns.
pub struct Part<I, V = f64> {
    pub ptr: Vec<usize>,
    pub col: Vec<I>,
    pub val: Vec<V>,
}

/// L (`lower`), U (`upper`) and G (`scale`).
pub struct Split<I> {
    pub lower: Part<I>,
    pub upper: Part<I>,
    pub scale: Vec<f64>,
}

impl<I, V> Part<I, V> {
    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ptr) + size_of_val(&*self.col) + size_of_val(&*self.val)
    }
}

impl<I: Index> Part<I> {
    /// Converts the values to type V, in which they are stored.
    pub fn converted<V: Real>(self) -> Result<Part<I, V>> {
        Ok(Part { val: converted(self.val.iter().copied(), self.val.len())?, ptr: self.ptr, col: self.col })
    }

    /// Copies the entries a_ij for which `is_in(i, j)` holds, each as `value(i, j, a_ij)`.
    pub fn of(
        a: &Csr<I>,
        is_in: impl Fn(usize, usize) -> bool,
        value: impl Fn(usize, usize, f64) -> f64,
    ) -> Result<Self> {
        let mut ptr = zeroed(a.rows() + 1, WHAT)?;
        a.entries().filter(|&(i, j, _)| is_in(i, j)).for_each(|(i, _, _)| ptr[i + 1] += 1);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (Vec::new(), Vec::new());
        reserve(&mut col, ptr[a.rows()], WHAT)?;
        reserve(&mut val, ptr[a.rows()], WHAT)?;
        for (i, j, entry) in a.entries().filter(|&(i, j, _)| is_in(i, j)) {
            col.push(I::of(j));
            val.push(value(i, j, entry));
        }
        Ok(Self { ptr, col, val })
    }

    /// Allocates capacity for this many rows and entries.
    pub fn with_room(rows: usize, entries: usize) -> Result<Self> {
        let mut part = Self { ptr: Vec::new(), col: Vec::new(), val: Vec::new() };
        reserve(&mut part.ptr, rows + 1, WHAT)?;
        reserve(&mut part.col, entries, WHAT)?;
        reserve(&mut part.val, entries, WHAT)?;
        part.ptr.push(0);
        Ok(part)
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

    /// Returns the part as a square matrix.
    pub fn into_csr(self) -> Csr<I> {
        Csr { cols: self.rows(), ptr: self.ptr, col: self.col, val: self.val }
    }

    /// Iterates over columns and values of row i.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|j| j.at()).zip(self.val[range].iter().copied())
    }

    /// Returns the matrix B with b_ij = a_kl for i = `rows[k]` and j = `rows[l]`, where A is this matrix. The order of
    /// the entries within a row is unchanged.
    fn renamed(&self, rows: &[I]) -> Result<Self> {
        let mut ptr = zeroed(rows.len() + 1, WHAT)?;
        rows.iter().zip(self.ptr.windows(2)).for_each(|(row, range)| ptr[row.at() + 1] = range[1] - range[0]);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(self.col.len(), WHAT)?, zeroed(self.val.len(), WHAT)?);
        for (k, row) in rows.iter().enumerate() {
            for (at, (j, value)) in (ptr[row.at()]..).zip(self.row(k)) {
                (col[at], val[at]) = (rows[j], value);
            }
        }
        Ok(Self { ptr, col, val })
    }

    /// Returns the transposed matrix.
    pub fn transposed(&self) -> Result<Self> {
        let rows = self.rows();
        let mut ptr = zeroed(rows + 1, WHAT)?;
        self.col.iter().for_each(|j| ptr[j.at() + 1] += 1);
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(self.col.len(), WHAT)?, zeroed(self.val.len(), WHAT)?);
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

impl<I: Index> Split<I> {
    /// Returns the splitting in which row and column k have the new number `rows[k]`. Its factors are triangular if the
    /// rows are processed in the order `rows`.
    pub fn renamed(self, rows: &[I]) -> Result<Self> {
        let mut scale = zeroed(rows.len(), WHAT)?;
        rows.iter().zip(self.scale).for_each(|(row, g)| scale[row.at()] = g);
        Ok(Self { lower: self.lower.renamed(rows)?, upper: self.upper.renamed(rows)?, scale })
    }

    /// Returns the splitting of M^-T = (I + L^T)^-1 G (I + U^T)^-1.
    pub fn transposed(&self) -> Result<Self> {
        let mut scale = Vec::new();
        reserve(&mut scale, self.scale.len(), WHAT)?;
        scale.extend_from_slice(&self.scale);
        Ok(Self { lower: self.upper.transposed()?, upper: self.lower.transposed()?, scale })
    }

    /// Splits A = L + U + G^-1, for the Neumann series. Applied to the transposed splitting, the series computes M^-T.
    pub fn of_triangles(a: &Csr<I>) -> Result<Self> {
        let scale = inverse_diagonal(a)?;
        let lower = Part::of(a, |i, j| j < i, |_, _, entry| entry)?;
        let upper = Part::of(a, |i, j| j > i, |_, _, entry| entry)?;
        Ok(Self { lower, upper, scale })
    }

    /// Splits SSOR: M^-1 = w (2 - w) (D + w U_A)^-1 D (D + w L_A)^-1 with A = L_A + D + U_A (Saad 2003, section 10.2).
    /// In the form of this module, L = w L_A D^-1, U = w D^-1 U_A, and G = w (2 - w) D^-1.
    pub fn ssor(a: &Csr<I>, omega: f64) -> Result<Self> {
        let mut scale = inverse_diagonal(a)?;
        let lower = Part::of(a, |i, j| j < i, |_, j, entry| omega * entry * scale[j])?;
        let upper = Part::of(a, |i, j| j > i, |i, _, entry| omega * scale[i] * entry)?;
        scale.iter_mut().for_each(|d| *d *= omega * (2.0 - omega));
        Ok(Self { lower, upper, scale })
    }
}
