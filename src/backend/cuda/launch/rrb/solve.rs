//! What the other kernels of a solve take, and its scalars.

use super::cycle::SchurArrays;
use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Entries of the ring of iterations.
pub const RING: usize = 1024;

/// One entry of the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Step {
    pub norm: f64,
    pub alpha: f64,
    pub beta: f64,
}

/// The scalars of a solve, as they lie on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Scalars {
    pub per_unit: f64,
    pub threshold: f64,
    pub vanishing: f64,
    pub iteration: i64,
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
    pub unused: u32,
    pub ring: [Step; RING],
}

impl Scalars {
    /// Before anything.
    pub const START: Self = Self {
        per_unit: 1.0,
        threshold: 0.0,
        vanishing: 0.0,
        iteration: 0,
        max_iter: 0,
        pause_at: 0,
        done: 0,
        preconditioned: 0,
        code: 0,
        rho: 0.0,
        sigma: 0.0,
        alpha: 0.0,
        beta: 0.0,
        norm2: 0.0,
        norm: 0.0,
        met: 0,
        ring_used: 0,
        parity: 0,
        sum: 0.0,
        direction: 0,
        b_norm2: 0.0,
        whole_norm2: 0.0,
        largest: 0,
        largest_guess: 0,
        not_finite: 0,
        ticket: 0,
        unused: 0,
        ring: [Step { norm: 0.0, alpha: 0.0, beta: 0.0 }; RING],
    };
}

/// How the loop stands: `Scalars::code`.
pub mod code {
    pub const RUNNING: i32 = 0;
    pub const MET: i32 = 1;
    pub const MAX_ITER: i32 = 2;
    pub const SPENT: i32 = 3;
    pub const SIGMA_VANISHED: i32 = 4;
    pub const RHO_NEGATIVE: i32 = 5;
    pub const RHO_BAD: i32 = 6;
    pub const SIGMA_BAD: i32 = 7;
    pub const PAUSED: i32 = 8;
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

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct SchurArgs {
    pub v: SchurArrays,
    pub partial: Address,
    pub how: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct InspectArgs {
    pub input: Address,
    pub output: Address,
    pub ld: i64,
    pub nx: i32,
    pub rows: i32,
    pub first_row: i32,
    pub scalars: Address,
    pub partial: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct TransferArgs {
    pub g: Geometry,
    pub colours: Address,
    pub natural: Address,
    pub ld: i64,
    pub first_row: i32,
    pub rows: i32,
    pub scale: f64,
    pub guard: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LargestArgs {
    pub g: Geometry,
    pub v: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DotArgs {
    pub g: Geometry,
    pub a: Address,
    pub b: Address,
    pub first: i32,
    pub count: i32,
    pub partial: Address,
    pub scalars: Address,
    pub norm_partial: Address,
    pub norm_count: i32,
    pub how: i32,
    pub to: Address,
    pub factor: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct UpdateArgs {
    pub g: Geometry,
    pub first: i32,
    pub count: i32,
    pub target: Address,
    pub other: Address,
    pub source: Address,
    pub factor: f64,
    pub per_unit: f64,
    pub partial: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct ProductArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub nine_points: i32,
    pub v: Address,
    pub b: Address,
    pub out: Address,
    pub partial: Address,
    pub scalars: Address,
    pub how: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ReduceArgs {
    pub k: Grid,
    pub b: Address,
    pub x: Address,
    pub r: [Address; 2],
    pub scalars: Address,
}

/// The start and the end of a solve.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct EndArgs {
    pub k: Grid,
    pub center: Address,
    pub b: Address,
    pub x: Address,
    pub r: [Address; 2],
    pub input: Address,
    pub output: Address,
    pub input_ld: i64,
    pub output_ld: i64,
    pub scale: f64,
    pub least: f64,
    pub limit: f64,
    pub how: i32,
    pub partial: Address,
    pub whole_partial: Address,
    pub scalars: Address,
}

/// What the host reads of the scalars: all but the ring, and so many steps of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct ReportArgs {
    pub scalars: Address,
    pub found: Address,
    pub steps: i32,
}

/// Where the loop of PCG begins before the host has seen what it starts from.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct SetOutArgs {
    pub scalars: Address,
    pub found: Address,
    pub scale: f64,
    pub rel_tol: f64,
    pub abs_tol: f64,
    pub futile: f64,
    pub vanishing: f64,
    pub baseless: f64,
    pub max_iter: i64,
    pub pause_at: i64,
    pub preconditioned: i32,
    pub of_initial: i32,
}

/// Consecutive nodes of one row and colour in one singular component.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Run {
    pub colour: i32,
    pub row: i32,
    pub start: i32,
    pub len: i32,
    pub component: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct ProjectionArgs {
    pub g: Geometry,
    pub runs: Address,
    pub count: i32,
    pub by_component: Address,
    pub component_start: Address,
    pub nodes: Address,
    pub sums: Address,
    pub means: Address,
    pub v: Address,
    pub restore: i32,
    pub center: Address,
}

arguments_with_gaps! {
    SchurArgs InspectArgs ProductArgs EndArgs ReportArgs SetOutArgs ProjectionArgs
}
