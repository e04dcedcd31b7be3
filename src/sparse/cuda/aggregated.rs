//! Preconditioner by multigrid by aggregation on the device (docs/theory/aggregation.md). M is a fixed matrix.

use super::allocations::Allocations;
use super::vectors::Vectors;
use crate::aggregation::Rules;
use crate::aggregation::cuda::{AggregationMultigrid, Shape};
use crate::base::csr::Csr;
use crate::base::workers::Workers;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CombineArgs, MOST_CELL_BLOCKS, RoundArgs, Sum};
use crate::cuda::vectors::{Scale, without_result};
use crate::direct::couplings::Couplings;
use crate::error::{Result, collected};
use crate::sparse::backend::{Setup, SetupResult};
use crate::sparse::passes_of;

const WHAT: &str = "an aggregation hierarchy";

/// One cycle of multigrid per application.
pub struct Aggregated {
    multigrid: AggregationMultigrid,
    memory: Allocations,
    scale: Scale,
    /// Input and output of the cycle in f64, if the vectors are in f32.
    wide: Option<[Address; 2]>,
}

impl Aggregated {
    /// Sets up the cycle. The host converts the matrix to couplings, and the device forms the aggregates. Reuses the
    /// memory of `before`, which was built for the previous matrix, and its aggregates if they pass the quality test.
    /// `scalars` is the address of the scalars of the steps.
    pub fn new(
        stream: &Stream,
        a: &Csr<u32>,
        setup: &Setup,
        before: Option<AggregationMultigrid>,
        scalars: Address,
    ) -> Result<(Self, SetupResult)> {
        let (couplings, factor) = Couplings::scaled(a, &mut Workers::new(setup.threads))?;
        let shape = Shape { rows: a.rows(), entries: couplings.a.len() };
        let rules = Rules::passes(passes_of(a));
        let take = |c: &launch::aggregation::Couplings| send(stream, &couplings, c);
        let (multigrid, _) =
            AggregationMultigrid::new(stream, (shape, &rules), (factor, setup.f32_values), before, take)?;
        let mut memory = Allocations::new(WHAT);
        let scale = Scale {
            partial: memory.zeroed(stream, 8 * MOST_CELL_BLOCKS as usize)?,
            scales: memory.zeroed(stream, 16)?,
            scalars,
        };
        let wide = match setup.single_vectors {
            true => Some([memory.zeroed(stream, 8 * a.rows())?, memory.zeroed(stream, 8 * a.rows())?]),
            false => None,
        };
        let result = SetupResult { aggregates_kept: multigrid.aggregates_kept(), ..SetupResult::default() };
        Ok((Self { multigrid, memory, scale, wide }, result))
    }

    /// Computes to = M^-1 from, and the sum <from, to>.
    pub fn apply(&self, stream: &Stream, of: Vectors, [from, to]: [Address; 2], sum: Sum) -> Result<()> {
        let Some([r, z]) = self.wide else { return self.multigrid.apply(stream, &self.scale, (from, to), sum) };
        let count = of.rows as i64;
        let mut widen = CombineArgs { count, to: r, n: 1, ..CombineArgs::default() };
        (widen.factor[0], widen.v[0]) = (1.0, from);
        launch::combine_to_double(stream, &widen)?;
        self.multigrid.apply(stream, &self.scale, (r, z), without_result(sum))?;
        launch::round_values(stream, &RoundArgs { count, from: z, to })?;
        of.dot(stream, [from, to], sum)
    }

    /// Returns the multigrid method, whose memory and aggregates the next setup reuses.
    pub fn into_multigrid(self) -> AggregationMultigrid {
        self.multigrid
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.multigrid.bytes() + self.memory.bytes()
    }
}

/// Copies the matrix to the device. The number of couplings is below 2^32.
fn send(stream: &Stream, from: &Couplings, to: &launch::aggregation::Couplings) -> Result<()> {
    let first = collected(from.ptr.iter().map(|&first| first as u32), WHAT)?;
    let length = collected(from.ptr.windows(2).map(|row| (row[1] - row[0]) as u32), WHAT)?;
    stream.send(to.first, &first)?;
    stream.send(to.length, &length)?;
    stream.send(to.col, &from.col)?;
    stream.send(to.a, &from.a)?;
    stream.send(to.row_sum, &from.row_sum)?;
    stream.send(to.diagonal, &from.diagonal)?;
    // The host arrays are freed on return.
    stream.wait()
}
