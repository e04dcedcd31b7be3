//! Steps on a general matrix: products, preconditioning, and the additional steps of the methods other than PCG.
//!
//! Safety of the unsafe blocks: in a step, each thread writes only its own rows. A thread reads rows of other threads
//! only in vectors that no thread writes in this step. A barrier separates a step from the next step that reads rows of
//! other threads.

use super::parts::ProductParts;
use super::precondition::Preconditioner;
use super::state::State;
use crate::base::loops::{dot, subtract_from};
use crate::krylov::cpu::chunks::CHUNK_ROWS;
use crate::krylov::cpu::steps::{System, ThreadState};
use crate::krylov::cpu::workspace::SUMS_PER_PASS;
use crate::krylov::pcg::{Beta, OtherPreconditioner, Properties};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::sparse::backend::Operator;
use crate::sparse::{Stored, ThreadDivision};

/// State increment of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
const SPLIT_MIX_INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output function of SplitMix64.
fn split_mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Matrix and preconditioners of a run, for one thread.
pub struct SparseSystem<'a> {
    state: &'a State,
    operator: Operator<'a>,
    product_parts: &'a [Option<ProductParts>; 2],
    /// Preconditioner; `None` means M = I.
    m: Option<&'a Preconditioner>,
}

impl<'a> SparseSystem<'a> {
    pub fn new(state: &'a State, operator: Operator<'a>, product_parts: &'a [Option<ProductParts>; 2]) -> Self {
        Self { state, operator, product_parts, m: state.preconditioner.as_ref() }
    }
}

impl ThreadState<'_, SparseSystem<'_>> {
    /// Computes `output` = A `input`, or `output` = A^T `input`. Begins with a barrier, because other threads may still
    /// write `input`. Ends with a barrier, because the next step may write `input`.
    fn multiply_stored(&self, a: &dyn Stored, transposed: bool, input: VectorId, output: VectorId) {
        let (input, output, rows) = (self.vector(input), self.vector(output), self.len());
        self.thread.barrier();
        // SAFETY: no thread writes `input` in this step.
        let input = unsafe { input.slice(0, rows) };
        match (a.division(transposed), &self.system.product_parts[usize::from(transposed)]) {
            (ThreadDivision::Rows(row_products), _) => {
                let own_rows = self.workspace.chunks.aligned_own_rows(&self.thread, row_products.row_alignment());
                // SAFETY: the row ranges of the threads are disjoint, and no thread reads `output` in this step.
                row_products.multiply_rows(own_rows.clone(), input, unsafe {
                    output.slice_mut(own_rows.start, own_rows.len())
                });
                self.thread.barrier();
            }
            (ThreadDivision::Contributions(transposed_products), Some(product_parts)) => {
                // SAFETY: each thread writes only its own columns, and no thread reads `output` in this step.
                product_parts.multiply(transposed_products, &self.thread, input, |columns| unsafe {
                    output.slice_mut(columns.start, columns.len())
                });
                self.thread.barrier();
            }
            _ => self.run_on_thread_0(|| {
                // SAFETY: the other threads wait at the barrier of `run_on_thread_0`.
                a.multiply_transposed_if(transposed, input, unsafe { output.slice_mut(0, rows) });
            }),
        }
    }

    /// Runs `work` on thread 0 while the other threads wait.
    fn run_on_thread_0(&self, work: impl FnOnce()) {
        if self.thread.index == 0 {
            work();
        }
        self.thread.barrier();
    }

    /// Computes `output` = M^-1 `input`, or `output` = M^-T `input`. Begins and ends with a barrier as
    /// `multiply_stored` does, unless M = I.
    fn apply_preconditioner(&self, input: VectorId, output: VectorId, transposed: bool) {
        let (input, output) = (self.vector(input), self.vector(output));
        match self.system.m {
            Some(m) => {
                self.thread.barrier();
                m.apply(&self.thread, input, output, transposed);
                self.thread.barrier();
            }
            None => {
                let own_rows = self.workspace.chunks.own_rows(&self.thread);
                // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
                unsafe {
                    output
                        .slice_mut(own_rows.start, own_rows.len())
                        .copy_from_slice(input.slice(own_rows.start, own_rows.len()))
                };
            }
        }
    }
}

impl System for SparseSystem<'_> {
    fn properties(&self) -> Properties {
        let beta = if self.m.is_none_or(Preconditioner::is_linear) { Beta::Fixed } else { Beta::Flexible };
        Properties { beta, ..Properties::default() }
    }

    /// Returns the row of the matrix to which value `i` of line `line` belongs. In this family, a line of the caller's
    /// arrays is a chunk of a vector.
    fn column(&self, i: usize, line: usize) -> usize {
        line * CHUNK_ROWS + i
    }

    fn multiply_vector(steps: &mut ThreadState<'_, Self>, input: VectorId, output: VectorId) {
        steps.multiply_stored(steps.system.operator.a, false, input, output);
    }

    /// Computes q = A p and returns <p, q>. If the format permits row ranges that begin at any chunk, the inner product
    /// reads each chunk of q while this chunk is still in the L1 cache.
    fn multiply(steps: &mut ThreadState<'_, Self>) -> f64 {
        let row_products = match steps.system.operator.a.division(false) {
            ThreadDivision::Rows(row_products) if CHUNK_ROWS.is_multiple_of(row_products.row_alignment()) => {
                row_products
            }
            _ => {
                Self::multiply_vector(steps, VectorId::P, VectorId::Q);
                return steps.inner_product(VectorId::P, VectorId::Q);
            }
        };
        steps.thread.barrier();
        steps.sums(|steps, rows| {
            // SAFETY: no thread writes p in this step; the rows of q belong to this thread.
            let (p, q) =
                unsafe { (steps.vector(VectorId::P).slice(0, steps.len()), steps.rows_of_mut(VectorId::Q, &rows)) };
            row_products.multiply_rows(rows.clone(), p, q);
            [dot(&p[rows], q)]
        })[0]
    }

    fn precondition(steps: &mut ThreadState<'_, Self>) {
        steps.apply_preconditioner(VectorId::R, VectorId::Z, false);
    }

    fn residual(steps: &mut ThreadState<'_, Self>, iterate: Iterate) -> f64 {
        if iterate == Iterate::Zero {
            return steps.combine_and_square(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
        }
        Self::multiply_vector(steps, VectorId::X, VectorId::R);
        steps.sums(|steps, rows| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            [unsafe { subtract_from(steps.rows_of_mut(VectorId::R, &rows), steps.rows_of(VectorId::B, &rows)) }]
        })[0]
    }

    fn change_preconditioner(&mut self, replacement: OtherPreconditioner) -> bool {
        let second_preconditioner = self
            .state
            .second_preconditioner
            .as_ref()
            .filter(|_| matches!(replacement, OtherPreconditioner::AfterBreakdown));
        self.m = second_preconditioner.or(self.m);
        second_preconditioner.is_some()
    }

    fn krylov_steps<'steps>(steps: &'steps mut ThreadState<'_, Self>) -> Option<&'steps mut dyn KrylovSteps> {
        Some(steps)
    }
}

impl KrylovSteps for ThreadState<'_, SparseSystem<'_>> {
    fn rows(&self) -> usize {
        self.len()
    }

    fn multiply_vector(&mut self, input: VectorId, output: VectorId) {
        self.multiply_stored(self.system.operator.a, false, input, output);
    }

    fn multiply_transposed(&mut self, input: VectorId, output: VectorId) {
        match self.system.operator.transposed {
            Some(transposed) => self.multiply_stored(transposed, false, input, output),
            None => self.multiply_stored(self.system.operator.a, true, input, output),
        }
    }

    fn precondition_vector(&mut self, input: VectorId, output: VectorId) {
        self.apply_preconditioner(input, output, false);
    }

    fn precondition_transposed(&mut self, input: VectorId, output: VectorId) {
        self.apply_preconditioner(input, output, true);
    }

    fn sweep_steps(&mut self) -> Option<&mut dyn SweepSteps> {
        if self.system.state.relaxation.is_some() { Some(self) } else { None }
    }

    fn is_unpreconditioned(&self) -> bool {
        self.system.m.is_none()
    }

    fn inner_products(&mut self, a: VectorId, others: &[VectorId], products: &mut [f64]) {
        for (others, products) in others.chunks(SUMS_PER_PASS).zip(products.chunks_mut(SUMS_PER_PASS)) {
            let sums = self.sums(|steps, rows| {
                let mut chunk_products = [0.0; SUMS_PER_PASS];
                for (product, &b) in chunk_products.iter_mut().zip(others) {
                    // SAFETY: the rows belong to this thread, and only this thread writes them.
                    *product = unsafe { dot(steps.rows_of(a, &rows), steps.rows_of(b, &rows)) };
                }
                chunk_products
            });
            products.copy_from_slice(&sums[..products.len()]);
        }
    }

    fn combine_norm2(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.combine_and_square(target, scale, terms)
    }

    fn fill_random(&mut self, target: VectorId, seed: u64) {
        for rows in self.chunks() {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            let target = unsafe { self.rows_of_mut(target, &rows) };
            for (value, row) in target.iter_mut().zip(rows) {
                let random_bits =
                    split_mix(seed.wrapping_add((row as u64 + 1).wrapping_mul(SPLIT_MIX_INCREMENT))) >> 11;
                *value = 2.0 * (random_bits as f64 / (1_u64 << 53) as f64) - 1.0;
            }
        }
    }
}

impl SweepSteps for ThreadState<'_, SparseSystem<'_>> {
    fn sweep(&mut self, _: usize) {
        if let Some(relaxation) = &self.system.state.relaxation {
            let [x, b, r] = [VectorId::X, VectorId::B, VectorId::R].map(|id| self.vector(id));
            self.thread.barrier();
            relaxation.sweep(&self.thread, x, b, r);
        }
    }
}
