//! Sweeps on the device: Jacobi sweeps, and multicolour Gauss-Seidel and SOR sweeps.

use super::allocations::Allocations;
use super::matrix::{Group, Matrix, Order};
use crate::base::csr::{Csr, accumulate};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DiagonalArgs, Then, What};
use crate::error::{Result, extend, reserve, zeroed};
use crate::sparse::backend::SweepParameters;
use crate::sparse::{Rows, colours, inverse_diagonal};

const WHAT: &str = "a relaxation on the device";

/// The sweeps of a matrix.
pub struct Relaxation {
    memory: Allocations,
    /// omega / a_ii of all rows.
    d: Address,
    /// The rows by colour, or `None` for Jacobi.
    coloured: Option<(Matrix, Vec<Group>)>,
}

impl Relaxation {
    pub fn new(stream: &Stream, a: &Csr<u32>, wanted: &SweepParameters) -> Result<Self> {
        let (mut memory, mut d) = (Allocations::new(WHAT), inverse_diagonal(a)?);
        d.iter_mut().for_each(|d| *d *= wanted.omega);
        let d = memory.copy_of(stream, &d)?;
        let coloured = if wanted.simultaneous { None } else { Some(coloured(stream, a)?) };
        Ok(Self { memory, d, coloured })
    }

    /// Returns the number of colours; 0 for Jacobi.
    pub fn colours(&self) -> usize {
        self.coloured.as_ref().map_or(0, |(_, groups)| groups.len())
    }

    /// Returns whether a sweep needs r = b - A x.
    pub fn needs_residual(&self) -> bool {
        self.coloured.is_none()
    }

    /// Does one sweep on x with `rows` values. r is the residual of x if the sweep needs it.
    pub fn sweep(&self, stream: &Stream, rows: usize, [x, b, r]: [Address; 3]) -> Result<()> {
        let Some((matrix, groups)) = &self.coloured else {
            let (count, d) = (rows as i64, self.d);
            let args = DiagonalArgs { count, d, v: r, out: x, factor: 1.0, ..DiagonalArgs::default() };
            return launch::add_scaled_by_diagonal(stream, &args);
        };
        let then = Then { what: What::Relax as i32, b, d: self.d, out: x, ..Then::default() };
        groups.iter().try_for_each(|group| matrix.multiply_group(stream, group, x, then))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() + self.coloured.as_ref().map_or(0, |(matrix, _)| matrix.bytes())
    }
}

/// Copies the rows of A to the device in the order of their colours, and in ascending order within a colour.
fn coloured(stream: &Stream, a: &Csr<u32>) -> Result<(Matrix, Vec<Group>)> {
    let (colour, count) = colours(a)?;
    let mut groups: Vec<usize> = zeroed(count + 1, WHAT)?;
    colour.iter().for_each(|colour| groups[*colour as usize + 1] += 1);
    accumulate(&mut groups);
    let (mut next, mut rows) = (Vec::new(), zeroed::<u32>(a.rows(), WHAT)?);
    extend(&mut next, groups.iter().copied(), WHAT)?;
    for (row, colour) in colour.iter().enumerate() {
        let place = &mut next[*colour as usize];
        rows[*place] = row as u32;
        *place += 1;
    }
    let (mut ptr, mut col, mut val) = (zeroed(a.rows() + 1, WHAT)?, Vec::new(), Vec::new());
    reserve(&mut col, a.col.len(), WHAT)?;
    reserve(&mut val, a.val.len(), WHAT)?;
    for (place, row) in rows.iter().enumerate() {
        let (of_col, of_val) = a.slices(*row as usize);
        col.extend_from_slice(of_col);
        val.extend_from_slice(of_val);
        ptr[place + 1] = col.len();
    }
    Matrix::ordered(stream, Rows { ptr: &ptr, col: &col, val: &val }, &Order { rows: &rows, groups: &groups })
}
