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
pub use inverse::{MAX_UNKNOWNS, NullVectorArgs, PIVOTS};
pub use labelled::*;
pub use rrb::*;
pub use smoother::*;
pub use sparse::*;
pub use vectors::*;

/// The kernels that `rrb` and `dpcg` share.
const SHARED_KERNELS: &[&[Kernel]] =
    &[aggregation::PLAIN_KERNELS, aggregation::REAL_KERNELS, labelled::PLAIN_KERNELS, labelled::REAL_KERNELS];
/// The kernels of `dpcg`.
pub static DPCG: Module = Module {
    fatbin: include_bytes!(concat!(env!("OUT_DIR"), "/dpcg.fatbin")),
    shared_prefix: "dpcg",
    min_compute_capability: 0,
    shared_kernels: &[
        aggregation::PLAIN_KERNELS,
        aggregation::REAL_KERNELS,
        labelled::PLAIN_KERNELS,
        labelled::REAL_KERNELS,
        vectors::PLAIN_KERNELS,
        vectors::REAL_KERNELS,
    ],
    kernels: &[dpcg::PLAIN_KERNELS, dpcg::REAL_KERNELS],
};
/// The kernels of `rrb` for one device.
pub static RRB: Module = RRB_ON_ONE_DEVICE;
const RRB_ON_ONE_DEVICE: Module = Module {
    fatbin: include_bytes!(concat!(env!("OUT_DIR"), "/rrb.fatbin")),
    shared_prefix: "rrb",
    min_compute_capability: 0,
    shared_kernels: SHARED_KERNELS,
    kernels: &[
        rrb::PLAIN_KERNELS,
        rrb::FORMAT_KERNELS,
        rrb::COOPERATIVE_KERNELS,
        aggregated::AGGREGATED_KERNELS,
        aggregated::AGGREGATED_REAL_KERNELS,
    ],
};
/// The kernels of `rrb` for grids whose rows are distributed among several devices (kernels/rrb/divided.cuh).
pub static RRB_DIVIDED: Module = Module {
    fatbin: include_bytes!(concat!(env!("OUT_DIR"), "/rrb_divided.fatbin")),
    min_compute_capability: 8,
    ..RRB_ON_ONE_DEVICE
};
/// The kernels of `smoother`.
pub static SMOOTHER: Module = Module {
    fatbin: include_bytes!(concat!(env!("OUT_DIR"), "/smoother.fatbin")),
    shared_prefix: "smoother",
    min_compute_capability: 0,
    shared_kernels: &[],
    kernels: &[smoother::PLAIN_KERNELS],
};
/// The kernels of `sparse`.
pub static SPARSE: Module = Module {
    fatbin: include_bytes!(concat!(env!("OUT_DIR"), "/sparse.fatbin")),
    shared_prefix: "sparse",
    min_compute_capability: 0,
    shared_kernels: &[
        aggregation::PLAIN_KERNELS,
        aggregation::REAL_KERNELS,
        &[Kernel::ABSENT; labelled::SHARED_KERNEL_COUNT - aggregation::AGGREGATION_KERNEL_COUNT],
        vectors::PLAIN_KERNELS,
        vectors::REAL_KERNELS,
    ],
    kernels: &[sparse::PLAIN_KERNELS, sparse::REAL_KERNELS, sparse::FORMAT_KERNELS],
};
