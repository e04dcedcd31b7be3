//! Steps on vectors over cells that the families share (kernels/common/vectors.cuh): arguments of the kernels, and the
//! inspection of the caller's arrays.

use super::call::Call;
use super::driver::Stream;
use super::launch;
use super::launch::{
    Address, CellArray, CellBox, CellInspectArgs, CellLargestArgs, CellTransferArgs, ScaleArgs, Sum, SumUse, VectorArgs,
};
use super::looped::SharedScalars;
use crate::error::Result;
use crate::krylov::solve_steps::Inputs;

/// Returns the arguments of a vector operation over `count` cells.
pub fn vector_args(count: usize, a: Address, out: Address, factor: f64) -> VectorArgs {
    VectorArgs { count: count as i64, a, b: 0, out, x: 0, factor, sum: Sum::default() }
}

/// Returns the arguments of a reduction in a kernel. The result is stored in the scalar at byte offset `scalar_offset`.
/// `partial` is the address of the partial sums.
pub fn store_sum_in(partial: Address, scalars: Address, scalar_offset: usize) -> Sum {
    Sum {
        partial,
        scalars,
        result: scalars + scalar_offset as u64,
        sum_use: SumUse::Stored as i32,
        in_loop: 0,
        conditional: 0,
    }
}

/// Returns the arguments for a launch that belongs to the same loop as `sum`, but computes no sum.
pub fn without_result(sum: Sum) -> Sum {
    Sum { partial: 0, sum_use: 0, conditional: 0, ..sum }
}

/// Returns the arguments of a copy between a vector and a caller's array.
fn transfer_args(cells: CellBox, array: CellArray, vector: Address, factor: f64) -> CellTransferArgs {
    CellTransferArgs { cells, array, vector, factor, sum: Sum::default() }
}

/// Returns max |v| of `count` values, or NaN if any value is NaN.
pub fn find_largest(stream: &Stream, scalars: &mut SharedScalars, v: Address, count: usize) -> Result<f64> {
    scalars.reset_findings(stream)?;
    launch::cell_largest(stream, &CellLargestArgs { count: count as i64, v, scalars: scalars.address })?;
    Ok(f64::from_bits(scalars.fetch(stream)?.largest))
}

/// Copies host arrays to the device and inspects the caller's arrays; the output only if `with_guess` is set.
pub fn inspect_arrays(
    call: &mut Call,
    scalars: &mut SharedScalars,
    cells: CellBox,
    with_guess: bool,
) -> Result<Inputs> {
    call.send_arrays(with_guess)?;
    let output = if with_guess { call.output } else { CellArray::default() };
    scalars.reset_findings(call.stream)?;
    let args = CellInspectArgs { cells, input: call.input, output, scalars: scalars.address };
    launch::cell_inspect(call.stream, &args)?;
    call.inputs(scalars.fetch(call.stream)?)
}

impl Call<'_> {
    /// Computes x = `scale` times the caller's initial guess, or x = 0 without a guess.
    pub fn load_guess(&self, (cells, x): (CellBox, Address), scale: f64, with_guess: bool) -> Result<()> {
        if with_guess {
            return launch::cell_load(self.stream, &transfer_args(cells, self.output, x, scale));
        }
        self.stream.fill(x, 0, 8 * self.extents.count())
    }

    /// Computes b = `scale` times the caller's input, and <b, b>.
    pub fn load_input(&self, (cells, b): (CellBox, Address), scale: f64, sum: Sum) -> Result<()> {
        launch::cell_load(self.stream, &CellTransferArgs { sum, ..transfer_args(cells, self.input, b, scale) })
    }

    /// Computes the caller's output, x / `scale`. Waits until the caller can read the output.
    pub fn store_output(&mut self, (cells, x): (CellBox, Address), scale: f64) -> Result<()> {
        launch::cell_store(self.stream, &transfer_args(cells, self.output, x, scale.recip()))?;
        self.fetch_output()
    }
}

/// Device addresses for the computation of s, the largest power of two not above max |r|. A cycle in single precision
/// is applied to r / s.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Partial results, one per thread block.
    pub partial: Address,
    /// Address of the two values 1 / s and s.
    pub scales: Address,
    pub scalars: Address,
}

impl Scale {
    /// Computes s from max |r|.
    pub fn find_scale(&self, stream: &Stream, r: Address, count: i64) -> Result<()> {
        let Self { partial, scales, scalars } = *self;
        launch::cell_scale(stream, &ScaleArgs { count, v: r, partial, scales, scalars })
    }
}
