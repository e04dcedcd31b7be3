//! Steps of one thread in a run on a general matrix: the steps of PCG and of the other methods, each on the chunks of
//! this thread.
//!
//! Safety of the unsafe blocks: a step writes only rows of its thread, and reads only vectors that no thread writes in
//! this step. A barrier separates a step from the next step that reads rows of other threads.

use super::chunks::CHUNK;
use super::loops::{add_scaled, dot, largest, scale_and_add, set_scaled, subtract_from};
use super::parts::Parts;
use super::precondition::Preconditioner;
use super::state::{GROUP, State};
use crate::base::reduce::{Reduce, max_abs};
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::krylov::cpu::caller::Caller;
use crate::krylov::pcg::{Another, Beta, PcgSteps, Properties, unfused_ascend};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use crate::sparse::backend::Operator;
use crate::sparse::{By, Stored};
use std::ops::Range;

/// Number of vectors of PCG in addition to x, b and r.
pub const PCG_VECTORS: usize = 3;

/// State increment of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output function of SplitMix64.
fn split_mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A thread of a run.
pub struct Member<'a> {
    pub(super) k: &'a State,
    operator: Operator<'a>,
    parts: &'a [Option<Parts>; 2],
    pub(super) me: Me<'a>,
    pub(super) caller: &'a Caller<'a>,
    /// Observer; only on thread 0.
    observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far.
    turn: usize,
    /// Preconditioner; `None` means M = I.
    m: Option<&'a Preconditioner>,
}

impl<'a> Member<'a> {
    pub fn new(
        k: &'a State,
        (operator, parts): (Operator<'a>, &'a [Option<Parts>; 2]),
        me: Me<'a>,
        caller: &'a Caller<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self { k, operator, parts, me, caller, observer, turn: 0, m: k.precondition.as_ref() }
    }

    fn vector(&self, id: VectorId) -> &'a Shared {
        self.k.vector(id)
    }

    /// Iterates over the row ranges of the chunks of this thread.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let chunks = self.k.chunks;
        chunks.share(&self.me).map(move |chunk| chunks.range(chunk))
    }

    /// Returns these rows of a vector.
    pub(super) unsafe fn rows_of(&self, id: VectorId, rows: &Range<usize>) -> &'a [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice(rows.start, rows.len()) }
    }

    /// Returns these rows of a vector for writing.
    pub(super) unsafe fn rows_of_mut(&self, id: VectorId, rows: &Range<usize>) -> &'a mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice_mut(rows.start, rows.len()) }
    }

    /// Stores the partial results that `of` returns for the chunks of this thread.
    pub(super) fn note<const N: usize>(
        &mut self,
        mut of: impl FnMut(&Self, Range<usize>) -> [f64; N],
    ) -> Reduce<'a, N> {
        self.turn += 1;
        let chunks = self.k.chunks;
        let noted: Reduce<N> = self.k.noted.reduce(self.turn, chunks.count());
        for chunk in chunks.share(&self.me) {
            // SAFETY: this thread owns the chunk, and stores its results once.
            unsafe { noted.note(chunk, of(self, chunks.range(chunk))) };
        }
        noted
    }

    /// Returns the sums of the results of `of` over all chunks.
    fn sums<const N: usize>(&mut self, of: impl FnMut(&Self, Range<usize>) -> [f64; N]) -> [f64; N] {
        self.note(of).sum(Some(self.me))
    }

    /// Computes to = A from, or to = A^T from. Ends with a barrier, since the next step may write `from`.
    fn times(&self, a: &dyn Stored, transposed: bool, from: VectorId, to: VectorId) {
        let (from, to, rows) = (self.vector(from), self.vector(to), self.k.chunks.rows);
        self.me.barrier();
        // SAFETY: no thread writes `from` in this step.
        let from = unsafe { from.slice(0, rows) };
        match (a.by(transposed), &self.parts[usize::from(transposed)]) {
            (By::Rows(by_rows), _) => {
                let part = self.k.chunks.part(&self.me, by_rows.grain());
                // SAFETY: the row ranges of the threads are disjoint, and no thread reads `to` in this step.
                by_rows.multiply_rows(part.clone(), from, unsafe { to.slice_mut(part.start, part.len()) });
                self.me.barrier();
            }
            (By::Parts(by_parts), Some(parts)) => {
                // SAFETY: each thread writes only its own columns, and no thread reads `to` in this step.
                parts.multiply(by_parts, &self.me, from, |own| unsafe { to.slice_mut(own.start, own.len()) });
                self.me.barrier();
            }
            _ => self.alone(|| {
                // SAFETY: the other threads wait at the barrier of `alone`.
                a.multiply_by(transposed, from, unsafe { to.slice_mut(0, rows) });
            }),
        }
    }

    /// Computes to = scale to + sum_k factor_k v_k on a range of rows of this thread.
    fn combine_rows(&self, rows: &Range<usize>, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        // SAFETY: rows of this thread, which no other thread uses in this step; `to` is none of the terms.
        let to = unsafe { self.rows_of_mut(to, rows) };
        // SAFETY: as above.
        let term = |id: VectorId| unsafe { self.rows_of(id, rows) };
        match terms {
            [] if scale == 0.0 => to.fill(0.0),
            [] => to.iter_mut().for_each(|v| *v *= scale),
            [(factor, first), rest @ ..] => {
                if scale == 0.0 {
                    set_scaled(to, *factor, term(*first));
                } else if scale == 1.0 {
                    add_scaled(to, *factor, term(*first));
                } else {
                    scale_and_add(to, scale, *factor, term(*first));
                }
                rest.iter().for_each(|(factor, id)| add_scaled(to, *factor, term(*id)));
            }
        }
    }

    /// Runs `work` on thread 0 while the other threads wait.
    fn alone(&self, work: impl FnOnce()) {
        if self.me.index == 0 {
            work();
        }
        self.me.barrier();
    }

    /// Computes to = M^-1 from, or to = M^-T from, with barriers as in `times`.
    fn apply(&self, from: VectorId, to: VectorId, transposed: bool) {
        let (from, to) = (self.vector(from), self.vector(to));
        match self.m {
            Some(m) => {
                self.me.barrier();
                m.apply(&self.me, from, to, transposed);
                self.me.barrier();
            }
            None => {
                let own = self.k.chunks.own(&self.me);
                // SAFETY: rows of this thread, which no other thread uses in this step.
                unsafe { to.slice_mut(own.start, own.len()).copy_from_slice(from.slice(own.start, own.len())) };
            }
        }
    }
}

impl VectorSteps for Member<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let mut product = [0.0];
        self.inners(a, &[b], &mut product);
        product[0]
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        for rows in self.chunks() {
            self.combine_rows(&rows, to, scale, terms);
        }
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        // SAFETY: rows of this thread, which only this thread writes.
        let noted = self.note(|s, rows| [largest(unsafe { s.rows_of(v, &rows) })]);
        max_abs(noted.all(Some(self.me))[0])
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        if of == Iterate::Zero {
            return self.combine_norm2(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
        }
        self.product(VectorId::X, VectorId::R);
        self.sums(|s, rows| {
            // SAFETY: rows of this thread, which no other thread uses in this step.
            [unsafe { subtract_from(s.rows_of_mut(VectorId::R, &rows), s.rows_of(VectorId::B, &rows)) }]
        })[0]
    }

    fn observe(&mut self, event: Event) -> bool {
        self.k.observed.tell(self.me, self.observer.as_deref_mut(), event)
    }
}

impl KrylovSteps for Member<'_> {
    fn rows(&self) -> usize {
        self.k.chunks.rows
    }

    fn product(&mut self, from: VectorId, to: VectorId) {
        self.times(self.operator.a, false, from, to);
    }

    fn transposed_product(&mut self, from: VectorId, to: VectorId) {
        match self.operator.transposed {
            Some(transposed) => self.times(transposed, false, from, to),
            None => self.times(self.operator.a, true, from, to),
        }
    }

    fn precondition_vector(&mut self, from: VectorId, to: VectorId) {
        self.apply(from, to, false);
    }

    fn precondition_transposed(&mut self, from: VectorId, to: VectorId) {
        self.apply(from, to, true);
    }

    fn sweeps(&mut self) -> Option<&mut dyn SweepSteps> {
        if self.k.relaxation.is_some() { Some(self) } else { None }
    }

    fn is_unpreconditioned(&self) -> bool {
        self.m.is_none()
    }

    fn inners(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]) {
        for (with, products) in with.chunks(GROUP).zip(products.chunks_mut(GROUP)) {
            let sums = self.sums(|s, rows| {
                let mut of_chunk = [0.0; GROUP];
                for (product, &b) in of_chunk.iter_mut().zip(with) {
                    // SAFETY: rows of this thread, which only this thread writes.
                    *product = unsafe { dot(s.rows_of(a, &rows), s.rows_of(b, &rows)) };
                }
                of_chunk
            });
            products.copy_from_slice(&sums[..products.len()]);
        }
    }

    /// Fuses both operations, so that the rows of a chunk are still in the L1 cache for the norm.
    fn combine_norm2(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.sums(|s, rows| {
            s.combine_rows(&rows, to, scale, terms);
            // SAFETY: rows of this thread, which no other thread uses in this step.
            let to = unsafe { s.rows_of(to, &rows) };
            [dot(to, to)]
        })[0]
    }

    fn fill_random(&mut self, to: VectorId, seed: u64) {
        for rows in self.chunks() {
            // SAFETY: rows of this thread, which no other thread uses in this step.
            let to = unsafe { self.rows_of_mut(to, &rows) };
            for (v, row) in to.iter_mut().zip(rows) {
                let drawn = split_mix(seed.wrapping_add((row as u64 + 1).wrapping_mul(STEP))) >> 11;
                *v = 2.0 * (drawn as f64 / (1_u64 << 53) as f64) - 1.0;
            }
        }
    }
}

impl SweepSteps for Member<'_> {
    fn sweep(&mut self, _: usize) {
        if let Some(relaxation) = &self.k.relaxation {
            let [x, b, r] = [VectorId::X, VectorId::B, VectorId::R].map(|id| self.vector(id));
            self.me.barrier();
            relaxation.sweep(&self.me, x, b, r);
        }
    }
}

impl PcgSteps for Member<'_> {
    fn properties(&self) -> Properties {
        let beta = if self.m.is_none_or(Preconditioner::is_linear) { Beta::Fixed } else { Beta::Flexible };
        Properties { beta, ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        self.precondition_vector(VectorId::R, VectorId::Z);
        self.inner(VectorId::R, VectorId::Z)
    }

    /// Computes q = A p and <p, q>. If the format allows this division, both are computed chunk by chunk, so that the
    /// chunk of q is still in the L1 cache for the sum.
    fn multiply(&mut self) -> f64 {
        let by_rows = match self.operator.a.by(false) {
            By::Rows(by_rows) if CHUNK.is_multiple_of(by_rows.grain()) => by_rows,
            _ => {
                self.product(VectorId::P, VectorId::Q);
                return self.inner(VectorId::P, VectorId::Q);
            }
        };
        self.me.barrier();
        self.sums(|s, rows| {
            // SAFETY: no thread writes p in this step; the rows of q belong to this thread.
            let (p, q) =
                unsafe { (s.vector(VectorId::P).slice(0, s.k.chunks.rows), s.rows_of_mut(VectorId::Q, &rows)) };
            by_rows.multiply_rows(rows.clone(), p, q);
            [dot(&p[rows], q)]
        })[0]
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match alpha {
            Some(alpha) => self.combine_norm2(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]),
            None => self.inner(VectorId::R, VectorId::R),
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let Some((alpha, beta)) = step else { return unfused_ascend(self, step) };
        for rows in self.chunks() {
            self.combine_rows(&rows, VectorId::X, 1.0, &[(alpha, VectorId::P)]);
            self.combine_rows(&rows, VectorId::P, beta, &[(1.0, VectorId::Z)]);
        }
        self.multiply()
    }

    fn change_preconditioner(&mut self, to: Another) -> bool {
        let second = self.k.second.as_ref().filter(|_| matches!(to, Another::Second));
        self.m = second.or(self.m);
        second.is_some()
    }
}
