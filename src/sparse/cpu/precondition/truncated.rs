//! Truncated Neumann series as a preconditioner. It implements the steps of `krylov::series`.

use super::apply::Apply;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use crate::krylov::series::{SeriesSteps, series};
use crate::sparse::{Part, Split};
use std::convert::Infallible;
use std::ops::Range;

/// The triangles of A, and 1 / D ([`Split::of_triangles`]).
pub struct NeumannSeries<I, V> {
    lower: Part<I, V>,
    upper: Part<I, V>,
    scale: Vec<f64>,
    order: usize,
    /// Workspaces of the series.
    workspace: [Shared; 2],
}

impl<I: Index, V: Real> NeumannSeries<I, V> {
    pub fn new(plain: Split<I>, order: usize) -> Result<Self> {
        let Split { lower, upper, scale } = plain;
        let workspace = [Shared::zeroed(scale.len())?, Shared::zeroed(scale.len())?];
        Ok(Self { lower: lower.converted()?, upper: upper.converted()?, scale, order, workspace })
    }
}

impl<I: Index, V: Real + Send + Sync> Apply for NeumannSeries<I, V> {
    fn apply(&self, me: &TeamThread, from: &Shared, to: &Shared) {
        let own = Chunks::new(self.scale.len()).own(me);
        let [first, second] = &self.workspace;
        let Ok(()) = series(&mut Steps { m: self, me, own, r: from }, self.order, [first, second], to);
    }

    fn bytes(&self) -> usize {
        let parts = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.scale);
        parts + self.workspace.iter().map(Shared::bytes).sum::<usize>()
    }
}

/// The steps of a thread. Each step writes only rows of this thread, in a vector that no step reads before the next
/// barrier.
struct Steps<'a, I, V> {
    m: &'a NeumannSeries<I, V>,
    me: &'a TeamThread<'a>,
    own: Range<usize>,
    r: &'a Shared,
}

impl<'a, I: Index, V: Real> Steps<'a, I, V> {
    /// Returns this thread's rows of a vector. No other thread may write these rows.
    fn rows_of(&self, v: &'a Shared) -> &'a [f64] {
        // SAFETY: no thread writes r (`Apply::apply`). In all other vectors, only this thread writes these rows.
        unsafe { v.slice(self.own.start, self.own.len()) }
    }

    /// Computes to_i = value(i - first, sum_j t_ij from_j) for each row i of this thread, where `first` is the first of
    /// these rows. Begins with a barrier.
    fn each(&self, t: &Part<I, V>, from: &Shared, to: &Shared, value: impl Fn(usize, f64) -> f64) {
        self.me.barrier();
        // SAFETY: no thread writes `from` until the next barrier; the rows of `to` belong to this thread.
        let (from, to) = unsafe { (from.slice(0, self.m.scale.len()), to.slice_mut(self.own.start, self.own.len())) };
        for (k, (to, i)) in to.iter_mut().zip(self.own.clone()).enumerate() {
            let entries = t.ptr[i]..t.ptr[i + 1];
            let row = t.col[entries.clone()].iter().zip(&t.val[entries]);
            *to = value(k, row.fold(0.0, |sum, (j, t)| sum + t.wide() * from[j.at()]));
        }
    }
}

impl<'a, I: Index, V: Real> SeriesSteps for Steps<'a, I, V> {
    type Vector = &'a Shared;
    type Fault = Infallible;

    fn begin(&mut self, v: &'a Shared, _: bool) -> std::result::Result<(), Infallible> {
        // SAFETY: the rows belong to this thread.
        let v = unsafe { v.slice_mut(self.own.start, self.own.len()) };
        for ((v, r), g) in v.iter_mut().zip(self.rows_of(self.r)).zip(&self.m.scale[self.own.clone()]) {
            *v = g * r;
        }
        Ok(())
    }

    fn lower(&mut self, from: &'a Shared, to: &'a Shared) -> std::result::Result<(), Infallible> {
        let (r, scale) = (self.rows_of(self.r), &self.m.scale[self.own.clone()]);
        self.each(&self.m.lower, from, to, |k, sum| scale[k] * (r[k] - sum));
        Ok(())
    }

    fn upper(
        &mut self,
        v: &'a Shared,
        from: &'a Shared,
        to: &'a Shared,
        _: bool,
    ) -> std::result::Result<(), Infallible> {
        let (v, scale) = (self.rows_of(v), &self.m.scale[self.own.clone()]);
        self.each(&self.m.upper, from, to, |k, sum| v[k] - scale[k] * sum);
        Ok(())
    }
}
