//! Argument structures of the other kernels of a solve, and its scalars.

use super::cycle::SchurArrays;
use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Number of entries in the ring buffer of iterations; the loop pauses when the buffer is full.
pub const RING: usize = 1024;

entries! {
    /// Record of one iteration: tested norm, alpha and beta.
    Step { norm: f64, alpha: f64, beta: f64 }
}

/// The scalars of a solve on the device, with the fields of kernels/common/scalars.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Scalars {
    /// 1 / unit: M is stored divided by `unit`.
    pub per_unit: f64,
    /// Limit of the tested norm.
    pub threshold: f64,
    /// Squares of residuals with at most this 2-norm may underflow.
    pub vanishing: f64,
    /// Iterations of the solve so far.
    pub iterations: i64,
    pub max_iter: i64,
    /// Iteration after which the loop pauses.
    pub pause_at: i64,
    /// 1 if the loop has ended and x is final.
    pub done: i64,
    /// 1 if the preconditioned norm is tested.
    pub preconditioned: i32,
    /// A value of `Code`.
    pub code: i32,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    pub alpha: f64,
    pub beta: f64,
    /// <r, r>.
    pub norm2: f64,
    /// Tested norm of the residual.
    pub norm: f64,
    /// 1 if the convergence test of this iteration is known to be met.
    pub met: i64,
    /// Written entries of the ring.
    pub ring_used: i32,
    /// Index of the current r (0 or 1) in fused stages.
    pub parity: i32,
    /// Result of the last inner product.
    pub sum: f64,
    /// Index of the current p (0 or 1) in fused stages.
    pub direction: i64,
    /// <b, b>.
    pub b_norm2: f64,
    /// ||b - A x||_2^2 on all nodes, or a part of it.
    pub whole_norm2: f64,
    /// Largest magnitude in the input, as bits; also max |x| after a solve.
    pub largest: u64,
    /// Largest magnitude in the initial guess, as bits.
    pub largest_guess: u64,
    /// Bitwise complement of the first non-finite entry's index; 0 if there is none.
    pub not_finite: u64,
    /// Blocks that have contributed to the running sum.
    pub ticket: u32,
    /// 1 if the devices that share a grid did not synchronize.
    pub lost: u32,
    pub ring: [Step; RING],
}

impl Scalars {
    /// Returns the initial scalars.
    pub fn start() -> Self {
        Self { per_unit: 1.0, ..Self::zeroed() }
    }
}

/// Stage of the solve, which determines what a kernel does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The sums are stored, and no scalar is updated.
    Nothing = 0,
    /// Start of a solve: there is no alpha or beta yet.
    Start = 1,
    /// Iteration of the loop.
    Loop = 2,
    /// As `Start`, after a loop that has ended.
    Confirm = 3,
}

structures! {
    SchurArgs { v: SchurArrays, partial: Address, how: i32, conditional: u64 }
    InspectArgs {
        input: Address, output: Address, ld: i64, nx: i32, rows: i32, first_row: i32, scalars: Address,
        partial: Address
    }
    TransferArgs {
        g: Geometry, colours: Address, natural: Address, ld: i64, scale: f64,
        guard: Address
    }
    LargestArgs { g: Geometry, v: Address, scalars: Address }
    DotArgs {
        g: Geometry, a: Address, b: Address, first: i32, count: i32, partial: Address, scalars: Address,
        norm_partial: Address, norm_count: i32, how: i32, to: Address, factor: f64
    }
    UpdateArgs {
        g: Geometry, first: i32, count: i32, target: Address, other: Address, source: Address, factor: f64,
        per_unit: f64, partial: Address, scalars: Address
    }
    ProductArgs {
        g: Geometry, m: Matrix, nine_points: i32, v: Address, b: Address, out: Address, partial: Address,
        scalars: Address, how: i32, conditional: u64
    }
    ReduceArgs { k: Grid, b: Address, x: Address, r: [Address; 2], scalars: Address }
    /// Arguments of the start and the end of a solve.
    EndArgs {
        k: Grid, center: Address, b: Address, x: Address, r: [Address; 2], input: Address, output: Address,
        input_ld: i64, output_ld: i64, scale: f64, least: f64, limit: f64, how: i32, partial: Address,
        whole_partial: Address, scalars: Address
    }
    /// Synchronization of the devices that share grids.
    MeetArgs { slots: Address, scalars: Address }
    /// The scalars that the host reads: all except the ring, and `steps` entries of the ring.
    ReportArgs { scalars: Address, found: Address, steps: i32 }
    /// Arguments of the decision whether the loop begins, before the host has read the results of the start.
    SetOutArgs {
        scalars: Address, found: Address, scale: f64, rel_tol: f64, abs_tol: f64, futile: f64, vanishing: f64,
        baseless: f64, max_iter: i64, pause_at: i64, preconditioned: i32, of_initial: i32
    }
}

entries! {
    /// Consecutive nodes of one row, one colour and one singular component.
    Run { colour: i32, row: i32, start: i32, len: i32, component: i32 }
}

structures! {
    ProjectionArgs {
        g: Geometry, runs: Address, count: i32, by_component: Address, component_start: Address, nodes: Address,
        sums: Address, means: Address, v: Address, restore: i32, center: Address
    }
}
