//! Truncated Neumann series as a preconditioner: the steps of `krylov::series` for a thread team.

use super::apply::ApplyInverse;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use crate::krylov::series::{SeriesSteps, apply_series};
use crate::sparse::{CsrPart, TriangularSplit};
use std::convert::Infallible;
use std::ops::Range;

/// The strict triangles of A, and the diagonal of D^-1 ([`TriangularSplit::from_triangles`]).
pub struct NeumannSeries<I, V> {
    lower: CsrPart<I, V>,
    upper: CsrPart<I, V>,
    g_diagonal: Vec<f64>,
    series_order: usize,
    /// Workspaces of the series.
    workspace: [Shared; 2],
}

impl<I: Index, V: Real> NeumannSeries<I, V> {
    pub fn new(split: TriangularSplit<I>, series_order: usize) -> Result<Self> {
        let TriangularSplit { lower, upper, g_diagonal } = split;
        let workspace = [Shared::zeroed(g_diagonal.len())?, Shared::zeroed(g_diagonal.len())?];
        Ok(Self {
            lower: lower.into_value_type()?,
            upper: upper.into_value_type()?,
            g_diagonal,
            series_order,
            workspace,
        })
    }
}

impl<I: Index, V: Real + Send + Sync> ApplyInverse for NeumannSeries<I, V> {
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared) {
        let own_rows = Chunks::new(self.g_diagonal.len()).own_rows(thread);
        let [first_vector, second_vector] = &self.workspace;
        let Ok(()) = apply_series(
            &mut ThreadSteps { m: self, thread, own_rows, r },
            self.series_order,
            [first_vector, second_vector],
            z,
        );
    }

    fn bytes(&self) -> usize {
        let factor_bytes = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.g_diagonal);
        factor_bytes + self.workspace.iter().map(Shared::bytes).sum::<usize>()
    }
}

/// The steps of a thread. Each step writes only rows of this thread, in a vector that no step reads before the next
/// barrier.
struct ThreadSteps<'a, I, V> {
    m: &'a NeumannSeries<I, V>,
    thread: &'a TeamThread<'a>,
    own_rows: Range<usize>,
    r: &'a Shared,
}

impl<'a, I: Index, V: Real> ThreadSteps<'a, I, V> {
    /// Returns the rows of this thread in vector v. No other thread may write these rows.
    fn rows_of(&self, v: &'a Shared) -> &'a [f64] {
        // SAFETY: no thread writes r (`ApplyInverse::apply`). In all other vectors, only this thread writes these rows.
        unsafe { v.slice(self.own_rows.start, self.own_rows.len()) }
    }

    /// Computes output_i = value(k, sum_j t_ij input_j) for each row i of this thread, where k is i minus the first row
    /// of this thread. Begins with a barrier.
    fn compute_rows(&self, t: &CsrPart<I, V>, input: &Shared, output: &Shared, value: impl Fn(usize, f64) -> f64) {
        self.thread.barrier();
        // SAFETY: no thread writes `input` until the next barrier; the rows of `output` belong to this thread.
        let (input, output) = unsafe {
            (input.slice(0, self.m.g_diagonal.len()), output.slice_mut(self.own_rows.start, self.own_rows.len()))
        };
        for (k, (output, i)) in output.iter_mut().zip(self.own_rows.clone()).enumerate() {
            let entries = t.ptr[i]..t.ptr[i + 1];
            let row = t.col[entries.clone()].iter().zip(&t.val[entries]);
            *output = value(k, row.fold(0.0, |sum, (j, t)| sum + t.to_f64() * input[j.to_usize()]));
        }
    }
}

impl<'a, I: Index, V: Real> SeriesSteps for ThreadSteps<'a, I, V> {
    type Vector = &'a Shared;
    type Fault = Infallible;

    fn scale_residual(&mut self, v: &'a Shared, _: bool) -> std::result::Result<(), Infallible> {
        // SAFETY: the rows belong to this thread.
        let v = unsafe { v.slice_mut(self.own_rows.start, self.own_rows.len()) };
        for ((v, r), g) in v.iter_mut().zip(self.rows_of(self.r)).zip(&self.m.g_diagonal[self.own_rows.clone()]) {
            *v = g * r;
        }
        Ok(())
    }

    fn apply_lower(&mut self, input: &'a Shared, output: &'a Shared) -> std::result::Result<(), Infallible> {
        let (r, g_diagonal) = (self.rows_of(self.r), &self.m.g_diagonal[self.own_rows.clone()]);
        self.compute_rows(&self.m.lower, input, output, |k, sum| g_diagonal[k] * (r[k] - sum));
        Ok(())
    }

    fn apply_upper(
        &mut self,
        v: &'a Shared,
        input: &'a Shared,
        output: &'a Shared,
        _: bool,
    ) -> std::result::Result<(), Infallible> {
        let (v, g_diagonal) = (self.rows_of(v), &self.m.g_diagonal[self.own_rows.clone()]);
        self.compute_rows(&self.m.upper, input, output, |k, sum| v[k] - g_diagonal[k] * sum);
        Ok(())
    }
}
