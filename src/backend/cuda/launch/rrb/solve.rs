//! What the other kernels of a solve take, and its scalars.

use super::cycle::SchurArrays;
use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Entries of the ring of iterations.
pub const RING: usize = 1024;

entries! {
    /// One entry of the ring.
    Step { norm: f64, alpha: f64, beta: f64 }
}

/// The scalars of a solve, as they lie on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Scalars {
    pub per_unit: f64,
    pub threshold: f64,
    pub vanishing: f64,
    pub iterations: i64,
    pub max_iter: i64,
    pub pause_at: i64,
    pub done: i64,
    pub preconditioned: i32,
    pub code: i32,
    pub rho: f64,
    pub sigma: f64,
    pub alpha: f64,
    pub beta: f64,
    pub norm2: f64,
    pub norm: f64,
    pub met: i64,
    pub ring_used: i32,
    pub parity: i32,
    pub sum: f64,
    pub direction: i64,
    pub b_norm2: f64,
    pub whole_norm2: f64,
    pub largest: u64,
    pub largest_guess: u64,
    pub not_finite: u64,
    pub ticket: u32,
    /// Devices that share a grid have not met.
    pub lost: u32,
    pub ring: [Step; RING],
}

impl Scalars {
    /// Before anything.
    pub fn start() -> Self {
        Self { per_unit: 1.0, ..Self::zeroed() }
    }
}

/// What a kernel does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They stay as they are.
    Nothing = 0,
    /// A start: no alpha, no beta yet.
    Start = 1,
    /// An iteration of the loop.
    Loop = 2,
    /// As a start, after a loop that does not go on.
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
    /// The start and the end of a solve.
    EndArgs {
        k: Grid, center: Address, b: Address, x: Address, r: [Address; 2], input: Address, output: Address,
        input_ld: i64, output_ld: i64, scale: f64, least: f64, limit: f64, how: i32, partial: Address,
        whole_partial: Address, scalars: Address
    }
    /// What the host reads of the scalars: all but the ring, and so many steps of it.
    MeetArgs { slots: Address, scalars: Address }
    ReportArgs { scalars: Address, found: Address, steps: i32 }
    /// Where the loop of PCG begins before the host has seen what it starts from.
    SetOutArgs {
        scalars: Address, found: Address, scale: f64, rel_tol: f64, abs_tol: f64, futile: f64, vanishing: f64,
        baseless: f64, max_iter: i64, pause_at: i64, preconditioned: i32, of_initial: i32
    }
}

entries! {
    /// Consecutive nodes of one row and colour in one singular component.
    Run { colour: i32, row: i32, start: i32, len: i32, component: i32 }
}

structures! {
    ProjectionArgs {
        g: Geometry, runs: Address, count: i32, by_component: Address, component_start: Address, nodes: Address,
        sums: Address, means: Address, v: Address, restore: i32, center: Address
    }
}
