//! Multigrid by aggregation as a preconditioner on the device (docs/theory/aggregation.md). M does not depend on r.

use super::allocations::Allocations;
use super::vectors::VectorSpec;
use crate::aggregation::AggregationRules;
use crate::aggregation::cuda::{AggregationMultigrid, MatrixShape};
use crate::base::csr::Csr;
use crate::base::workers::Workers;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CombineArgs, CsrCouplingsArgs, MAX_CELL_BLOCKS, RoundArgs, Sum};
use crate::cuda::vectors::{Scale, without_result};
use crate::direct::couplings::Couplings;
use crate::error::{Result, collected};
use crate::sparse::backend::{Setup, SetupResult};
use crate::sparse::pairing_passes;

const ALLOCATION_NAME: &str = "an aggregation hierarchy";

/// One cycle of multigrid per application.
pub struct AggregationPreconditioner {
    multigrid: AggregationMultigrid,
    memory: Allocations,
    scale: Scale,
    /// Input and output of the cycle in f64, if the vectors are in f32.
    f64_vectors: Option<[Address; 2]>,
}

impl AggregationPreconditioner {
    /// Sets up the cycle.
    /// `previous_multigrid` was built for the previous matrix. Its memory is reused, and so are its aggregates if they
    /// pass the quality test. `scalars` is the address of the scalars of CG.
    pub fn new(
        stream: &Stream,
        a: &Csr<u32>,
        setup: &Setup,
        previous_multigrid: Option<AggregationMultigrid>,
        scalars: Address,
    ) -> Result<(Self, SetupResult)> {
        let matrix_scale = Couplings::scale_of(a, &mut Workers::new(setup.threads))?;
        let shape = MatrixShape { rows: a.rows(), entries: a.val.len() };
        let rules = AggregationRules::with_passes(pairing_passes(a));
        let write_couplings = |c: &launch::aggregation::Couplings| {
            send_rows(stream, a, c)?;
            launch::csr_couplings(stream, &CsrCouplingsArgs { c: *c, scale: matrix_scale })
        };
        let (multigrid, _) = AggregationMultigrid::new(
            stream,
            (shape, &rules),
            (matrix_scale, setup.stores_m_in_f32),
            previous_multigrid,
            write_couplings,
        )?;
        let mut memory = Allocations::new(ALLOCATION_NAME);
        let scale = Scale {
            partial: memory.zeroed(stream, 8 * MAX_CELL_BLOCKS as usize)?,
            scales: memory.zeroed(stream, 16)?,
            scalars,
        };
        let f64_vectors = match setup.stores_vectors_in_f32 {
            true => Some([memory.zeroed(stream, 8 * a.rows())?, memory.zeroed(stream, 8 * a.rows())?]),
            false => None,
        };
        let result =
            SetupResult { reused_aggregate_count: multigrid.reused_aggregate_count(), ..SetupResult::default() };
        Ok((Self { multigrid, memory, scale, f64_vectors }, result))
    }

    /// Computes z = M^-1 r, and <r, z> if `sum` requests a sum.
    pub fn apply(&self, stream: &Stream, spec: VectorSpec, [r, z]: [Address; 2], sum: Sum) -> Result<()> {
        let Some([r_f64, z_f64]) = self.f64_vectors else {
            return self.multigrid.apply(stream, &self.scale, (r, z), sum);
        };
        let count = spec.rows as i64;
        let mut widen_args = CombineArgs { count, target: r_f64, n: 1, ..CombineArgs::default() };
        (widen_args.factor[0], widen_args.v[0]) = (1.0, r);
        launch::combine_to_double(stream, &widen_args)?;
        self.multigrid.apply(stream, &self.scale, (r_f64, z_f64), without_result(sum))?;
        launch::round_values(stream, &RoundArgs { count, source: z_f64, target: z })?;
        spec.dot(stream, [r, z], sum)
    }

    /// Returns the multigrid hierarchy, for reuse by the next setup.
    pub fn into_multigrid(self) -> AggregationMultigrid {
        self.multigrid
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.multigrid.bytes() + self.memory.bytes()
    }
}

/// Copies the arrays of a matrix to the device arrays of `couplings`. The number of entries is below 2^32.
fn send_rows(stream: &Stream, a: &Csr<u32>, couplings: &launch::aggregation::Couplings) -> Result<()> {
    let row_starts = collected(a.ptr.iter().map(|&start| start as u32), ALLOCATION_NAME)?;
    stream.send(couplings.row_start, &row_starts)?;
    stream.send(couplings.col, &a.col)?;
    stream.send(couplings.a, &a.val)?;
    // The host array is freed on return.
    stream.wait()
}
