//! Steps on a general matrix: products, preconditioning, and the additional steps of the methods other than PCG.
//!
//! Safety of the unsafe blocks: a step writes only rows of its thread. It reads rows of other threads only in vectors
//! that no thread writes in this step. A barrier separates a step from the next step that reads rows of other threads.

use super::parts::Parts;
use super::precondition::Preconditioner;
use super::state::State;
use crate::base::loops::{dot, subtract_from};
use crate::krylov::cpu::chunks::CHUNK;
use crate::krylov::cpu::steps::{System, ThreadState};
use crate::krylov::cpu::workspace::SUMS_PER_PASS;
use crate::krylov::pcg::{Beta, OtherPreconditioner, Properties};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::sparse::backend::Operator;
use crate::sparse::{Division, Stored};

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
    k: &'a State,
    operator: Operator<'a>,
    parts: &'a [Option<Parts>; 2],
    /// Preconditioner; `None` means M = I.
    m: Option<&'a Preconditioner>,
}

impl<'a> SparseSystem<'a> {
    pub fn new(k: &'a State, operator: Operator<'a>, parts: &'a [Option<Parts>; 2]) -> Self {
        Self { k, operator, parts, m: k.precondition.as_ref() }
    }
}

impl ThreadState<'_, SparseSystem<'_>> {
    /// Computes `to` = A `from`, or `to` = A^T `from`. Begins with a barrier, since other threads may still write
    /// `from`, and ends with one, since the next step may write `from`.
    fn times(&self, a: &dyn Stored, transposed: bool, from: VectorId, to: VectorId) {
        let (from, to, rows) = (self.vector(from), self.vector(to), self.len());
        self.me.barrier();
        // SAFETY: no thread writes `from` in this step.
        let from = unsafe { from.slice(0, rows) };
        match (a.division(transposed), &self.system.parts[usize::from(transposed)]) {
            (Division::Rows(by_rows), _) => {
                let part = self.workspace.chunks.part(&self.me, by_rows.grain());
                // SAFETY: the row ranges of the threads are disjoint, and no thread reads `to` in this step.
                by_rows.multiply_rows(part.clone(), from, unsafe { to.slice_mut(part.start, part.len()) });
                self.me.barrier();
            }
            (Division::Parts(by_parts), Some(parts)) => {
                // SAFETY: each thread writes only its own columns, and no thread reads `to` in this step.
                parts.multiply(by_parts, &self.me, from, |own| unsafe { to.slice_mut(own.start, own.len()) });
                self.me.barrier();
            }
            _ => self.run_on_thread_0(|| {
                // SAFETY: the other threads wait at the barrier of `run_on_thread_0`.
                a.multiply_by(transposed, from, unsafe { to.slice_mut(0, rows) });
            }),
        }
    }

    /// Runs `work` on thread 0 while the other threads wait.
    fn run_on_thread_0(&self, work: impl FnOnce()) {
        if self.me.index == 0 {
            work();
        }
        self.me.barrier();
    }

    /// Computes `to` = M^-1 `from`, or `to` = M^-T `from`. Begins and ends with a barrier as `times` does, unless M =
    /// I.
    fn apply(&self, from: VectorId, to: VectorId, transposed: bool) {
        let (from, to) = (self.vector(from), self.vector(to));
        match self.system.m {
            Some(m) => {
                self.me.barrier();
                m.apply(&self.me, from, to, transposed);
                self.me.barrier();
            }
            None => {
                let own = self.workspace.chunks.own(&self.me);
                // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
                unsafe { to.slice_mut(own.start, own.len()).copy_from_slice(from.slice(own.start, own.len())) };
            }
        }
    }
}

impl System for SparseSystem<'_> {
    fn properties(&self) -> Properties {
        let beta = if self.m.is_none_or(Preconditioner::is_linear) { Beta::Fixed } else { Beta::Flexible };
        Properties { beta, ..Properties::default() }
    }

    /// Returns the row of the matrix for value `i` of a line. Here, a line of the caller's arrays is a chunk of the
    /// vector.
    fn column(&self, i: usize, line: usize) -> usize {
        line * CHUNK + i
    }

    fn product(m: &mut ThreadState<'_, Self>, from: VectorId, to: VectorId) {
        m.times(m.system.operator.a, false, from, to);
    }

    /// If the format can compute the rows of a single chunk, q and <p, q> are computed chunk by chunk. The chunk of q
    /// is then still in the L1 cache for the sum.
    fn multiply(m: &mut ThreadState<'_, Self>) -> f64 {
        let by_rows = match m.system.operator.a.division(false) {
            Division::Rows(by_rows) if CHUNK.is_multiple_of(by_rows.grain()) => by_rows,
            _ => {
                Self::product(m, VectorId::P, VectorId::Q);
                return m.inner(VectorId::P, VectorId::Q);
            }
        };
        m.me.barrier();
        m.sums(|m, rows| {
            // SAFETY: no thread writes p in this step; the rows of q belong to this thread.
            let (p, q) = unsafe { (m.vector(VectorId::P).slice(0, m.len()), m.rows_of_mut(VectorId::Q, &rows)) };
            by_rows.multiply_rows(rows.clone(), p, q);
            [dot(&p[rows], q)]
        })[0]
    }

    fn precondition(m: &mut ThreadState<'_, Self>) {
        m.apply(VectorId::R, VectorId::Z, false);
    }

    fn residual(m: &mut ThreadState<'_, Self>, of: Iterate) -> f64 {
        if of == Iterate::Zero {
            return m.combine_and_square(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
        }
        Self::product(m, VectorId::X, VectorId::R);
        m.sums(|m, rows| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            [unsafe { subtract_from(m.rows_of_mut(VectorId::R, &rows), m.rows_of(VectorId::B, &rows)) }]
        })[0]
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        let second = self.k.second.as_ref().filter(|_| matches!(to, OtherPreconditioner::Second));
        self.m = second.or(self.m);
        second.is_some()
    }

    fn krylov<'m>(m: &'m mut ThreadState<'_, Self>) -> Option<&'m mut dyn KrylovSteps> {
        Some(m)
    }
}

impl KrylovSteps for ThreadState<'_, SparseSystem<'_>> {
    fn rows(&self) -> usize {
        self.len()
    }

    fn product(&mut self, from: VectorId, to: VectorId) {
        self.times(self.system.operator.a, false, from, to);
    }

    fn transposed_product(&mut self, from: VectorId, to: VectorId) {
        match self.system.operator.transposed {
            Some(transposed) => self.times(transposed, false, from, to),
            None => self.times(self.system.operator.a, true, from, to),
        }
    }

    fn precondition_vector(&mut self, from: VectorId, to: VectorId) {
        self.apply(from, to, false);
    }

    fn precondition_transposed(&mut self, from: VectorId, to: VectorId) {
        self.apply(from, to, true);
    }

    fn sweeps(&mut self) -> Option<&mut dyn SweepSteps> {
        if self.system.k.relaxation.is_some() { Some(self) } else { None }
    }

    fn is_unpreconditioned(&self) -> bool {
        self.system.m.is_none()
    }

    fn inners(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]) {
        for (with, products) in with.chunks(SUMS_PER_PASS).zip(products.chunks_mut(SUMS_PER_PASS)) {
            let sums = self.sums(|s, rows| {
                let mut of_chunk = [0.0; SUMS_PER_PASS];
                for (product, &b) in of_chunk.iter_mut().zip(with) {
                    // SAFETY: the rows belong to this thread, and only this thread writes them.
                    *product = unsafe { dot(s.rows_of(a, &rows), s.rows_of(b, &rows)) };
                }
                of_chunk
            });
            products.copy_from_slice(&sums[..products.len()]);
        }
    }

    fn combine_norm2(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.combine_and_square(to, scale, terms)
    }

    fn fill_random(&mut self, to: VectorId, seed: u64) {
        for rows in self.chunks() {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            let to = unsafe { self.rows_of_mut(to, &rows) };
            for (v, row) in to.iter_mut().zip(rows) {
                let drawn = split_mix(seed.wrapping_add((row as u64 + 1).wrapping_mul(SPLIT_MIX_INCREMENT))) >> 11;
                *v = 2.0 * (drawn as f64 / (1_u64 << 53) as f64) - 1.0;
            }
        }
    }
}

impl SweepSteps for ThreadState<'_, SparseSystem<'_>> {
    fn sweep(&mut self, _: usize) {
        if let Some(relaxation) = &self.system.k.relaxation {
            let [x, b, r] = [VectorId::X, VectorId::B, VectorId::R].map(|id| self.vector(id));
            self.me.barrier();
            relaxation.sweep(&self.me, x, b, r);
        }
    }
}
