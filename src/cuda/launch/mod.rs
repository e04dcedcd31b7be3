//! Launches of the kernels, by family. Each kernel has an argument structure, as in kernels/, and a function that
//! launches it. Only this folder defines launch shapes. The code that allocates an array defines its length. The files
//! in kernels/ describe the fields of the structures.

use crate::cuda::driver::{Kernel, Module};

#[macro_use]
mod declare;
mod aggregated;
pub mod aggregation;
mod dpcg;
mod inverse;
mod labelled;
mod rrb;
mod smoother;
mod sparse;
mod vectors;

pub use aggregated::*;
pub use declare::{Address, TILE};
pub use dpcg::*;
pub use inverse::{MOST_UNKNOWNS, NullVectorArgs, PIVOTS};
pub use labelled::*;
pub use rrb::*;
pub use smoother::*;
pub use sparse::*;
pub use vectors::*;

/// The kernels that `rrb` and `dpcg` share.
const SHARED: &[&[Kernel]] = &[aggregation::PLAIN, aggregation::REAL, labelled::PLAIN, labelled::REAL];
/// The kernels of `dpcg`.
pub static DPCG: Module = Module {
    image: include_bytes!(concat!(env!("OUT_DIR"), "/dpcg.fatbin")),
    shared_prefix: "dpcg",
    min_compute_capability: 0,
    shared: &[aggregation::PLAIN, aggregation::REAL, labelled::PLAIN, labelled::REAL, vectors::PLAIN, vectors::REAL],
    kernels: &[dpcg::PLAIN, dpcg::REAL],
};
/// The kernels of `rrb` for one device.
pub static RRB: Module = ON_ONE;
const ON_ONE: Module = Module {
    image: include_bytes!(concat!(env!("OUT_DIR"), "/rrb.fatbin")),
    shared_prefix: "rrb",
    min_compute_capability: 0,
    shared: SHARED,
    kernels: &[rrb::PLAIN, rrb::IN_FORMATS, rrb::COOPERATIVE, aggregated::AGGREGATED, aggregated::AGGREGATED_REAL],
};
/// The kernels of `rrb` for grids whose rows are distributed among several devices (kernels/rrb/divided.cuh).
pub static RRB_DIVIDED: Module = Module {
    image: include_bytes!(concat!(env!("OUT_DIR"), "/rrb_divided.fatbin")),
    min_compute_capability: 8,
    ..ON_ONE
};
/// The kernels of `smoother`.
pub static SMOOTHER: Module = Module {
    image: include_bytes!(concat!(env!("OUT_DIR"), "/smoother.fatbin")),
    shared_prefix: "smoother",
    min_compute_capability: 0,
    shared: &[],
    kernels: &[smoother::PLAIN],
};
/// The kernels of `sparse`.
pub static SPARSE: Module = Module {
    image: include_bytes!(concat!(env!("OUT_DIR"), "/sparse.fatbin")),
    shared_prefix: "sparse",
    min_compute_capability: 0,
    shared: &[
        aggregation::PLAIN,
        aggregation::REAL,
        &[Kernel::ABSENT; labelled::COUNT - aggregation::COUNT],
        vectors::PLAIN,
        vectors::REAL,
    ],
    kernels: &[sparse::PLAIN, sparse::REAL, sparse::IN_FORMATS],
};
