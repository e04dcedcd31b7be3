//! Projection P, which subtracts the mean of each singular component (docs/theory/rrb.md, singular systems).
//!
//! The mean is the sum over runs of consecutive nodes of one component and colour. The sums of the runs are added in a
//! fixed order, so the result does not depend on the number of threads.

use super::ranks::Sums;
use crate::base::number::Real;
use crate::base::reduce::{OtherRanks, Partials, sum};
use crate::base::shared::{Number, Shared};
use crate::base::team::Me;
use crate::error::{Result, collected, push, reserve, reset};
use crate::rrb::cpu::colour_array::Four;
use crate::rrb::domain::Domain;
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// Consecutive nodes of one row and colour in one singular component.
#[derive(Clone, Copy)]
struct Run {
    colour: Colour,
    row: u32,
    start: u32,
    len: u32,
    component: u32,
}

/// Runs on a set of colours.
#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
    /// The runs of row J are row_start[J] .. row_start[J + 1].
    row_start: Vec<usize>,
    /// The runs of component k, in order, are by_component[component_start[k] .. component_start[k + 1]].
    by_component: Vec<u32>,
    component_start: Vec<usize>,
    /// Number of nodes of component k.
    count: Vec<f64>,
}

/// Nodes to which the projection applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// All nodes of the grid.
    Whole,
    /// Unknowns of CG.
    System,
}

/// Runs of all singular components, with a workspace for their sums.
#[derive(Default)]
pub struct Projection {
    whole: Runs,
    system: Runs,
    /// Sum of v and sum of |v| over each run.
    sums: Option<Partials>,
    /// Workspace of each thread: sum, sum of magnitudes, mean and kept mean of each component.
    means: Option<Shared>,
    components: usize,
    /// Partial sums of other ranks: for the runs of the whole grid, and for the runs of the unknowns of CG.
    elsewhere: [Option<Sums>; 2],
}

impl Projection {
    /// Finds the runs of all singular components. If there are none, the memory is kept, because the next matrix may be
    /// singular again.
    pub fn set(
        &mut self,
        layout: &Layout,
        components: &Components,
        schur: bool,
        members: usize,
        domain: Option<&Domain>,
    ) -> Result<()> {
        self.components = components.singular();
        if self.components == 0 {
            return Ok(());
        }
        self.whole.find(layout, components, &Colour::ALL)?;
        self.system.find(layout, components, if schur { &Colour::ALL[2..] } else { &Colour::ALL })?;
        let slots = self.whole.runs.len();
        if self.sums.as_ref().is_none_or(|sums| sums.rows() < slots) {
            self.sums = Some(Partials::once(slots, 2)?);
        }
        let per_member = 4 * self.components;
        if self.means.as_ref().is_none_or(|m| m.len() < per_member * members) {
            self.means = Some(Shared::zeroed(per_member * members)?);
        }
        if let Some(domain) = domain {
            self.elsewhere = [Some(self.whole.elsewhere(domain)?), Some(self.system.elsewhere(domain)?)];
        }
        Ok(())
    }

    fn elsewhere(&self, nodes: Nodes) -> Option<&dyn OtherRanks> {
        self.elsewhere[usize::from(nodes == Nodes::System)].as_ref().map(|sums| sums as &dyn OtherRanks)
    }

    /// Returns whether no component is singular.
    pub fn is_empty(&self) -> bool {
        self.components == 0
    }

    fn runs(&self, nodes: Nodes) -> &Runs {
        if nodes == Nodes::Whole { &self.whole } else { &self.system }
    }

    /// Computes the sums of v and |v| and the mean of v per component, in this thread's workspace. `rows`: rows J of
    /// this thread on the first grid. A barrier at the end allows another call at once.
    #[expect(clippy::mut_from_ref, reason = "each thread has its own set")]
    fn sum_components<R: Real + Number>(
        &self,
        me: Me,
        rows: std::ops::Range<usize>,
        nodes: Nodes,
        v: &Four<R>,
    ) -> &mut [f64] {
        let (Some(sums), Some(means)) = (&self.sums, &self.means) else { return &mut [] };
        let runs = self.runs(nodes);
        let sums = sums.reduce(0, runs.runs.len()).over(self.elsewhere(nodes));
        for k in runs.row_start[rows.start]..runs.row_start[rows.end] {
            let run = runs.runs[k];
            // SAFETY: the owner of a row writes the sums of its runs; in this step, no other thread writes v in this
            // row.
            unsafe {
                let values = run.values(v);
                sums.note(k, [sum(values), values.iter().map(|x| x.wide().abs()).sum()]);
            }
        }
        let [sums, magnitudes] = sums.all(Some(me));
        // SAFETY: each thread has a separate workspace.
        let own = unsafe { means.slice_mut(4 * self.components * me.index, 4 * self.components) };
        for component in 0..self.components {
            let list = &runs.by_component[runs.component_start[component]..runs.component_start[component + 1]];
            let (mut total, mut magnitude) = (0.0, 0.0);
            for &k in list {
                total += sums[k as usize];
                magnitude += magnitudes[k as usize];
            }
            own[4 * component] = total;
            own[4 * component + 1] = magnitude;
            own[4 * component + 2] = total / runs.count[component];
        }
        me.barrier();
        own
    }

    /// Computes v = v - mean(v) per component; with `restore`, then adds the kept mean.
    pub fn shift<R: Real + Number>(
        &self,
        me: Me,
        rows: std::ops::Range<usize>,
        nodes: Nodes,
        v: &Four<R>,
        restore: bool,
    ) {
        if self.components == 0 {
            return;
        }
        let own = self.sum_components(me, rows.clone(), nodes, v);
        let runs = self.runs(nodes);
        for run in &runs.runs[runs.row_start[rows.start]..runs.row_start[rows.end]] {
            let component = run.component as usize;
            let shift = if restore { own[4 * component + 3] } else { 0.0 } - own[4 * component + 2];
            // SAFETY: the row belongs to this thread.
            for value in unsafe { run.values_mut(v) } {
                *value += R::narrow(shift);
            }
        }
    }

    /// Returns sum_k mean_k(v)^2 sum_i 1 / c_i over the components k, for the unknowns i of CG in component k. Ends
    /// with a barrier.
    pub fn constant_square<R: Real + Number>(
        &self,
        me: Me,
        rows: std::ops::Range<usize>,
        v: &Four<R>,
        center: &Four,
    ) -> f64 {
        let Some(sums) = self.sums.as_ref().filter(|_| self.components > 0) else { return 0.0 };
        let own = self.sum_components(me, rows.clone(), Nodes::System, v);
        let runs = &self.system;
        let squares = sums.reduce(0, runs.runs.len()).over(self.elsewhere(Nodes::System));
        for k in runs.row_start[rows.start]..runs.row_start[rows.end] {
            let run = runs.runs[k];
            let mean = own[4 * run.component as usize + 2];
            // SAFETY: no thread writes centers. The owner of a row writes the sums of its runs, which all threads have
            // read before the last barrier.
            unsafe { squares.note(k, [run.values(center).iter().map(|c| mean * mean / c).sum()]) };
        }
        let [square] = squares.sum(Some(me));
        me.barrier();
        square
    }

    /// Stores the means of v as the kept means.
    pub fn keep(&self, me: Me, rows: std::ops::Range<usize>, v: &Four) {
        let own = self.sum_components(me, rows, Nodes::Whole, v);
        for set in own.chunks_exact_mut(4) {
            set[3] = set[2];
        }
    }

    /// Returns the component with the largest |sum v| / sum |v|, and both sums of this component.
    pub fn worst(&self, me: Me, rows: std::ops::Range<usize>, v: &Four) -> (usize, f64, f64) {
        let own = self.sum_components(me, rows, Nodes::Whole, v);
        let ratio = |k: usize| own[4 * k].abs() / own[4 * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..self.components).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        (worst, own[4 * worst], own[4 * worst + 1])
    }

    pub fn bytes(&self) -> usize {
        let of = |r: &Runs| {
            r.runs.capacity() * size_of::<Run>()
                + 8 * (r.row_start.capacity() + r.component_start.capacity() + r.count.capacity())
                + 4 * r.by_component.capacity()
        };
        of(&self.whole)
            + of(&self.system)
            + self.sums.as_ref().map_or(0, Partials::bytes)
            + self.means.as_ref().map_or(0, Shared::bytes)
    }
}

impl Run {
    /// Returns the values of v in this run.
    ///
    /// # Safety
    /// No thread may write this run of v while the slice is used.
    unsafe fn values<'a, R: Number>(&self, v: &'a Four<R>) -> &'a [R] {
        // SAFETY: by the safety contract of this function.
        unsafe { &v[self.colour].row(self.row as usize, 0)[self.start as usize..][..self.len as usize] }
    }

    /// Returns the values of v in this run for writing.
    ///
    /// # Safety
    /// No other thread may use this row of v while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint rows")]
    unsafe fn values_mut<'a, R: Number>(&self, v: &'a Four<R>) -> &'a mut [R] {
        // SAFETY: by the safety contract of this function.
        unsafe { &mut v[self.colour].row_mut(self.row as usize, 0)[self.start as usize..][..self.len as usize] }
    }
}

/// Name of an allocation in error messages.
const RUNS: &str = "the runs of singular components";

impl Runs {
    /// Returns the partial sums of all ranks over these runs.
    fn elsewhere(&self, domain: &Domain) -> Result<Sums> {
        let of = |rank: usize| {
            let rows = domain.strips.rows(0, rank);
            collected(std::iter::once(self.row_start[rows.start]..self.row_start[rows.end]), RUNS)
        };
        let mut owned = Vec::new();
        for rank in 0..domain.strips.ranks() {
            push(&mut owned, of(rank)?, RUNS)?;
        }
        Sums::new(domain, owned, 2)
    }

    /// Finds the runs on `colours`, row by row.
    fn find(&mut self, layout: &Layout, components: &Components, colours: &[Colour]) -> Result<()> {
        self.runs.clear();
        self.row_start.clear();
        reserve(&mut self.row_start, layout.cy + 1, RUNS)?;
        for row in 0..layout.cy {
            self.row_start.push(self.runs.len());
            for &colour in colours {
                if !layout.rows(colour).contains(&row) {
                    continue;
                }
                let columns = layout.columns(colour);
                if columns.is_empty() {
                    continue;
                }
                let (first, j) = layout.node(colour, columns.start, row);
                // Index of the first column of this colour at node (i, j) or east of it; every second node of a row has
                // this colour.
                let place = |i: usize| columns.start + i.saturating_sub(first).div_ceil(2);
                for (nodes, component) in components.singular_runs(j) {
                    let (start, end) = (place(nodes.start) as u32, place(nodes.end) as u32);
                    let (row, component) = (row as u32, component as u32);
                    match self.runs.last_mut() {
                        _ if start == end => {}
                        Some(run)
                            if run.component == component
                                && run.row == row
                                && run.colour == colour
                                && run.start + run.len == start =>
                        {
                            run.len += end - start;
                        }
                        _ => push(&mut self.runs, Run { colour, row, start, len: end - start, component }, RUNS)?,
                    }
                }
            }
        }
        self.row_start.push(self.runs.len());
        self.sort_by_component(components.singular())
    }

    /// Sorts the runs by component (counting sort) and counts the nodes of each component.
    fn sort_by_component(&mut self, components: usize) -> Result<()> {
        reset(&mut self.component_start, components + 1, RUNS)?;
        reset(&mut self.count, components, RUNS)?;
        for run in &self.runs {
            self.component_start[run.component as usize + 1] += 1;
            self.count[run.component as usize] += f64::from(run.len);
        }
        for k in 0..components {
            self.component_start[k + 1] += self.component_start[k];
        }
        reset(&mut self.by_component, self.runs.len(), RUNS)?;
        for (k, run) in self.runs.iter().enumerate() {
            let place = &mut self.component_start[run.component as usize];
            self.by_component[*place] = k as u32;
            *place += 1;
        }
        // Each start now holds the start of the next component.
        self.component_start.copy_within(..components, 1);
        self.component_start[0] = 0;
        Ok(())
    }
}
