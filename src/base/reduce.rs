//! Reductions in which the order of additions depends only on the length. The sums are therefore bitwise identical for
//! any number of threads and any instruction set.

use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;

/// Number of independent partial sums (lanes): enough to hide the latency of an addition, and few enough for 16
/// registers of two doubles.
const LANES: usize = 16;

/// Returns sum_i a_i b_i over the length n of the shorter array, computed in the type of b. Lane l sums the products
/// with indices l, l + 16, ...; then the lanes are added pairwise by halves. The sum of the last n mod 16 products is
/// added last.
#[inline(always)]
pub fn dot<A: Real, B: Real>(a: &[A], b: &[B]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let product = |x: &A, y: &B| B::from_f64(x.to_f64()) * *y;
    let mut lanes = [B::default(); LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let mut tail_sum = B::default();
    for (x, y) in chunks_a.remainder().iter().zip(chunks_b.remainder()) {
        tail_sum += product(x, y);
    }
    for (x, y) in chunks_a.zip(chunks_b) {
        for l in 0..LANES {
            lanes[l] += product(&x[l], &y[l]);
        }
    }
    (add_lanes(&lanes) + tail_sum).to_f64()
}

/// Returns sum_i v_i d_i v_i, with the summation order of [`dot`].
#[inline(always)]
pub fn weighted_square(v: &[f64], d: &[f64]) -> f64 {
    let n = v.len().min(d.len());
    let (v, d) = (&v[..n], &d[..n]);
    let mut lanes = [0.0; LANES];
    let (chunks_v, chunks_d) = (v.chunks_exact(LANES), d.chunks_exact(LANES));
    let tail_sum: f64 = chunks_v.remainder().iter().zip(chunks_d.remainder()).map(|(v, d)| v * (d * v)).sum();
    for (v, d) in chunks_v.zip(chunks_d) {
        for l in 0..LANES {
            lanes[l] += v[l] * (d[l] * v[l]);
        }
    }
    add_lanes(&lanes) + tail_sum
}

/// Returns sum_i a_i in double precision, with the summation order of [`dot`].
#[inline(always)]
pub fn sum<R: Real>(a: &[R]) -> f64 {
    let mut lanes = [0.0; LANES];
    let chunks = a.chunks_exact(LANES);
    let tail_sum: f64 = chunks.remainder().iter().map(|v| v.to_f64()).sum();
    for x in chunks {
        for l in 0..LANES {
            lanes[l] += x[l].to_f64();
        }
    }
    add_lanes(&lanes) + tail_sum
}

/// Adds the lanes pairwise by halves: lanes l and l + 8, then l and l + 4, and so on. The function is not inlined,
/// because otherwise the compiler would store the lanes of the caller in registers of only two values. Each halving
/// writes a new array: with sums in place, a load would overlap two preceding stores and wait for both.
#[inline(never)]
fn add_lanes<R: Real>(lanes: &[R; LANES]) -> R {
    fn add_halves<R: Real, const HALF: usize>(lanes: &[R]) -> [R; HALF] {
        std::array::from_fn(|l| lanes[l] + lanes[l + HALF])
    }
    let lanes: [R; 8] = add_halves(lanes);
    let lanes: [R; 4] = add_halves(&lanes);
    let lanes: [R; 2] = add_halves(&lanes);
    lanes[0] + lanes[1]
}

/// Returns sum_i a_i by recursive halving (pairwise summation; Higham, Accuracy and Stability of Numerical Algorithms,
/// chapter 4). The rounding error grows as log n. The order of the additions depends only on the length.
pub fn pairwise_sum(a: &[f64]) -> f64 {
    match a.len() {
        0..=64 => sum(a),
        n => {
            let (low, high) = a.split_at(n / 2);
            pairwise_sum(low) + pairwise_sum(high)
        }
    }
}

/// Returns max_i |a_i|, or NaN if any entry is NaN. Compares the bit patterns of magnitudes: they have the order of the
/// magnitudes, with NaN above infinity.
#[inline(always)]
pub fn max_abs(a: &[f64]) -> f64 {
    max_abs_of(a.iter().copied())
}

/// Returns the largest magnitude of the values of an iterator, or NaN if any value is NaN.
#[inline(always)]
pub fn max_abs_of(a: impl Iterator<Item = f64>) -> f64 {
    const MAGNITUDE_MASK: u64 = !(1 << 63);
    f64::from_bits(a.fold(0, |largest, v| largest.max(v.to_bits() & MAGNITUDE_MASK)))
}

/// Partial results of the other ranks.
pub trait OtherRanks: Send + Sync {
    /// Sets the entries of the other ranks. Each array in `numbers` has the entries of all ranks; the caller has set
    /// those of this rank.
    fn fill_entries(&self, numbers: &mut [&mut [f64]]);

    /// Sets the entries of the other ranks for callers that use only sums over all entries of a rank. Among the entries
    /// of another rank, the first may then contain their sum, and the others zero. All ranks receive the same entries.
    fn fill_sums(&self, numbers: &mut [&mut [f64]]);
}

/// Workspace for the partial results of a reduction, with several numbers per row. A row contains the partial results
/// of a chunk, a grid row or another set of values that one thread owns.
pub struct Partials {
    /// Two buffers, used alternately: one reduction may be written while other threads still read the previous one.
    /// After `single_buffered`, both are the same buffer.
    values: [Shared; 2],
    rows: usize,
}

impl Partials {
    /// Allocates a workspace for `numbers_per_row` numbers per row.
    pub fn new(rows: usize, numbers_per_row: usize) -> Result<Self> {
        Ok(Self { values: [Shared::zeroed(numbers_per_row * rows)?, Shared::zeroed(numbers_per_row * rows)?], rows })
    }

    /// Allocates a workspace with a single buffer. The caller guarantees a barrier between the end of a reduction and
    /// the beginning of the next one.
    pub fn single_buffered(rows: usize, numbers_per_row: usize) -> Result<Self> {
        let values = Shared::zeroed(numbers_per_row * rows)?;
        Ok(Self { values: [values.clone(), values], rows })
    }

    /// Returns the number of rows of the workspace.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size in bytes of one buffer: the whole size after [`Self::single_buffered`], half of it after
    /// [`Self::new`].
    pub fn bytes(&self) -> usize {
        self.values[0].bytes()
    }

    /// Begins reduction number `reduction_number` over the first `rows` rows. The parity of the number selects the
    /// buffer. The caller guarantees a barrier between two reductions with the same buffer.
    pub fn reduce<const N: usize>(&self, reduction_number: usize, rows: usize) -> Reduce<'_, N> {
        Reduce { values: &self.values[reduction_number % 2], row_capacity: self.rows, rows, other_ranks: None }
    }
}

/// Reduction of N numbers per row. The owner thread of a row writes its partial results. Then all threads combine all
/// partial results in the same order. The results are therefore bitwise identical on all threads and ranks, for any
/// number of threads and ranks.
#[derive(Clone, Copy)]
pub struct Reduce<'a, const N: usize> {
    values: &'a Shared,
    row_capacity: usize,
    rows: usize,
    other_ranks: Option<&'a dyn OtherRanks>,
}

impl<'a, const N: usize> Reduce<'a, N> {
    /// Stores the partial results of a row.
    ///
    /// # Safety
    /// The row must belong to the calling thread. After the last read of the previous results in this buffer, all
    /// threads must have passed a barrier.
    pub unsafe fn store(&self, row: usize, values: [f64; N]) {
        for (k, value) in values.into_iter().enumerate() {
            // SAFETY: the caller owns the row; a barrier separates this write from the reads of the previous reduction.
            unsafe { self.values.slice_mut(k * self.row_capacity + row, 1)[0] = value };
        }
    }

    /// Returns this reduction with the partial results of other ranks included, if there are other ranks.
    pub fn with_other_ranks(self, other_ranks: Option<&'a dyn OtherRanks>) -> Self {
        Self { other_ranks, ..self }
    }

    /// Returns all partial results: N slices, one for each of the N numbers of a row. With `thread`, waits at a barrier
    /// first. `thread` may be `None` if only one thread runs, or if the caller has already passed a barrier and there
    /// are no other ranks.
    pub fn partial_results(&self, thread: Option<TeamThread>) -> [&'a [f64]; N] {
        self.complete_partials(thread, |other_ranks, numbers| other_ranks.fill_entries(numbers))
    }

    /// Returns the partial results for callers that use only sums: over all rows, or over subsets that contain the rows
    /// of a rank completely or not at all.
    pub fn summands(&self, thread: Option<TeamThread>) -> [&'a [f64]; N] {
        self.complete_partials(thread, |other_ranks, numbers| other_ranks.fill_sums(numbers))
    }

    fn complete_partials(
        &self,
        thread: Option<TeamThread>,
        fill: fn(&dyn OtherRanks, &mut [&mut [f64]]),
    ) -> [&'a [f64]; N] {
        if let Some(thread) = thread {
            thread.barrier();
        }
        if let Some(other_ranks) = self.other_ranks {
            if thread.is_none_or(|thread| thread.index == 0) {
                // SAFETY: all partial results are stored and the other threads wait at the barrier below; or only one
                // thread runs.
                let entries_of = |k: usize| unsafe { self.values.slice_mut(k * self.row_capacity, self.rows) };
                fill(other_ranks, &mut std::array::from_fn::<_, N, _>(entries_of));
            }
            if let Some(thread) = thread {
                thread.barrier();
            }
        }
        // SAFETY: the values were written before the barrier above, and are written again only after another barrier.
        std::array::from_fn(|k| unsafe { self.values.slice(k * self.row_capacity, self.rows) })
    }

    /// Returns the N sums over all rows, by pairwise summation.
    pub fn sum(&self, thread: Option<TeamThread>) -> [f64; N] {
        self.summands(thread).map(pairwise_sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_for_any_length() {
        for n in [0, 1, 2, 7, 8, 9, 64, 65, 1000] {
            // All values and sums are integers below 2^53, so every summation order gives the same sum.
            let a: Vec<f64> = (0..n).map(|k| f64::from(k % 17)).collect();
            let b: Vec<f64> = (0..n).map(|k| f64::from(k % 5)).collect();
            let expected: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(dot(&a, &b), expected);
            assert_eq!(sum(&a), a.iter().sum::<f64>());
            assert_eq!(pairwise_sum(&a), a.iter().sum::<f64>());
        }
    }

    #[test]
    fn max_abs_propagates_nan() {
        assert_eq!(max_abs(&[1.0, -3.0, 2.0]), 3.0);
        assert!(max_abs(&[1.0, f64::NAN, 7.0]).is_nan());
        assert_eq!(max_abs(&[-f64::INFINITY]), f64::INFINITY);
    }
}
