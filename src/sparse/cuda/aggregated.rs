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
    /// Sets up the cycle on the device, which also converts the matrix to couplings.
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
        let write_couplings = |c: &launch::aggregation::Couplings| write_couplings(stream, a, matrix_scale, c);
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

/// Computes the couplings of `scale` times a matrix with fewer than 2^32 entries, in the device arrays of `couplings`.
fn write_couplings(
    stream: &Stream,
    a: &Csr<u32>,
    scale: f64,
    couplings: &launch::aggregation::Couplings,
) -> Result<()> {
    let row_starts = collected(a.ptr.iter().map(|&start| start as u32), ALLOCATION_NAME)?;
    stream.send(couplings.row_start, &row_starts)?;
    stream.send(couplings.col, &a.col)?;
    stream.send(couplings.a, &a.val)?;
    launch::csr_couplings(stream, &CsrCouplingsArgs { c: *couplings, scale })?;
    // `row_starts` is freed on return.
    stream.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::cuda::setup::SetupWorkspace;
    use crate::cuda::session::Session;
    use bytemuck::AnyBitPattern;

    fn fetch<T: AnyBitPattern + Default>(stream: &Stream, from: Address, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        stream.fetch(&mut values, from).unwrap();
        stream.wait().unwrap();
        values
    }

    /// Returns a symmetric matrix with stored zeros, a long row, a row without a diagonal entry, and a row whose sum is
    /// a rounding error.
    fn matrix(n: usize) -> Csr<u32> {
        let (mut ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        for i in 0..n {
            let first = col.len();
            let mut sum = 0.0;
            for j in 0..n {
                let value = match i.abs_diff(j) {
                    0 => f64::NAN,
                    1 => -1.0 - (i + j) as f64 / 7.0,
                    2 => 0.0,
                    _ if i == 3 || j == 3 => 0.1,
                    _ => continue,
                };
                col.push(j as u32);
                val.push(value);
                sum += if i == j { 0.0 } else { value };
            }
            let diagonal = (first..col.len()).find(|&k| col[k] as usize == i).unwrap();
            val[diagonal] = if i == 7 { -sum } else { 9.0 + i as f64 };
            if i == 5 {
                col.remove(diagonal);
                val.remove(diagonal);
            }
            ptr.push(col.len());
        }
        Csr { cols: n, ptr, col, val }
    }

    #[test]
    #[ignore = "needs a device, or an emulated one"]
    fn couplings_are_bitwise_those_of_the_host() {
        let session = Session::open(0, &launch::SPARSE, 1).unwrap();
        let _entered = session.enter().unwrap();
        let stream = session.stream();
        for n in [8, 9, 17, 65, 300] {
            let (a, scale) = (matrix(n), 0.25);
            let expected = Couplings::of(&a, scale, &mut Workers::single_threaded()).unwrap();
            assert_eq!(expected.row_sum[7], 0.0);
            let workspace = SetupWorkspace::new(stream, MatrixShape { rows: n, entries: a.val.len() }).unwrap();
            let c = workspace.first_matrix();
            write_couplings(stream, &a, scale, &c).unwrap();
            let starts: Vec<u32> = fetch(stream, c.row_start, n);
            let lengths: Vec<u32> = fetch(stream, c.length, n);
            let cols: Vec<u32> = fetch(stream, c.col, a.val.len());
            let values: Vec<u64> = fetch(stream, c.a, a.val.len());
            for i in 0..n {
                let row = starts[i] as usize..(starts[i] + lengths[i]) as usize;
                let found = cols[row.clone()].iter().map(|&j| j as usize).zip(values[row].iter().copied());
                assert!(found.eq(expected.row(i).map(|(j, a)| (j, a.to_bits()))), "row {i} of {n}");
            }
            let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(fetch::<u64>(stream, c.row_sum, n), bits(&expected.row_sum));
            assert_eq!(fetch::<u64>(stream, c.diagonal, n), bits(&expected.diagonal));
        }
    }
}
