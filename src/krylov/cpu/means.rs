//! Sums and means of a vector over sets of its values: the singular components of a matrix. Every set has a label.
//!
//! In this file, a run is a sequence of consecutive values with equal labels. The vector is divided into units: chunks,
//! grid rows or sets of grid rows. Each unit belongs to one thread. Sums are computed per unit and label, then per
//! label in the order of the units. The sums are therefore bitwise identical for any number of threads.

use crate::base::csr::{ends_to_pointers, lengths_to_pointers};
use crate::base::heap::boxed;
use crate::base::loops::sum;
use crate::base::number::Real;
use crate::base::reduce::{OtherRanks, Partials, Reduce};
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::{Result, push, reset};
use crate::krylov::pcg::MeansChange;
use std::ops::Range;

/// Position of a value in a vector.
pub trait Position: Copy + Ord {
    /// Returns the position that is `len` values after this one.
    fn after(self, len: usize) -> Self;
}

/// In a vector without gaps, the position of a value is its index.
impl Position for usize {
    fn after(self, len: usize) -> Self {
        self + len
    }
}

/// A vector with values at positions of type P.
pub trait Vector<P> {
    /// Number type of the values.
    type Value: Real + Number;
    /// Returns the `len` values from `position` on.
    ///
    /// # Safety
    /// No thread may write these values while the slice is in use.
    unsafe fn values(&self, position: P, len: usize) -> &[Self::Value];
    /// Returns the `len` values from `position` on for writing.
    ///
    /// # Safety
    /// No other slice of these values may be in use while the slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    unsafe fn values_mut(&self, position: P, len: usize) -> &mut [Self::Value];
}

impl Vector<usize> for Shared {
    type Value = f64;

    unsafe fn values(&self, position: usize, len: usize) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice(position, len) }
    }

    unsafe fn values_mut(&self, position: usize, len: usize) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice_mut(position, len) }
    }
}

/// Consecutive values with equal label.
#[derive(Clone, Copy)]
struct Run<P> {
    position: P,
    len: u32,
    /// Number of the pair (unit, label) of this run; see `LabelledRuns::slots`.
    slot: u32,
}

/// Values grouped by label, and workspace for sums over them.
pub struct LabelledRuns<P> {
    runs: Vec<Run<P>>,
    /// Index in `runs` of the first run of each unit; one more element is the number of runs.
    run_start: Vec<usize>,
    /// A slot is the number of a pair (unit, label) for which the unit contains values with this label. Slots are
    /// ordered by units. This vector contains the label of each slot.
    slots: Vec<u32>,
    /// Index in `slots` of the first slot of each unit; one more element is the number of slots.
    slot_start: Vec<usize>,
    /// Slots of each label, in ascending order. The slots of label l begin at index `label_start[l]` and end before
    /// index `label_start[l + 1]`.
    slots_by_label: Vec<u32>,
    label_start: Vec<usize>,
    /// Number of values of each label.
    value_counts: Vec<f64>,
    /// Workspace of `set_labels`: the latest slot of each label.
    latest_slot: Vec<u32>,
    partial_sums: Option<Partials>,
    /// Three numbers per label: sums of v, sums of |v|, and the means that `MeansChange::Store` has stored.
    totals: Option<Shared>,
    /// Exchanges partial sums with other ranks; `None` if the sums include only values of this rank.
    other_ranks: Option<Box<dyn OtherRanks>>,
}

impl<P> Default for LabelledRuns<P> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            run_start: Vec::new(),
            slots: Vec::new(),
            slot_start: Vec::new(),
            slots_by_label: Vec::new(),
            label_start: Vec::new(),
            value_counts: Vec::new(),
            latest_slot: Vec::new(),
            partial_sums: None,
            totals: None,
            other_ranks: None,
        }
    }
}

/// Values of the singular components, on all nodes and on the unknowns of CG. The label of a value is the number of its
/// component.
pub struct SingularComponents<P> {
    /// Labels on all nodes.
    pub all_nodes: LabelledRuns<P>,
    /// Labels on the unknowns of CG; `None` if all nodes are unknowns.
    unknowns: Option<LabelledRuns<P>>,
}

impl<P> Default for SingularComponents<P> {
    fn default() -> Self {
        Self { all_nodes: LabelledRuns::default(), unknowns: None }
    }
}

impl<P: Position> SingularComponents<P> {
    /// Sets the labels, see [`LabelledRuns::set_labels`]. `runs(unit, false)` returns the runs on all nodes. If
    /// `is_reduced` is true, CG has fewer unknowns than nodes, and `runs(unit, true)` returns the runs on these
    /// unknowns.
    pub fn set_labels<R: Iterator<Item = (P, usize, usize)>>(
        &mut self,
        unit_count: usize,
        label_count: usize,
        is_reduced: bool,
        runs: impl Fn(usize, bool) -> R,
    ) -> Result<()> {
        self.all_nodes.set_labels(unit_count, label_count, |unit| runs(unit, false))?;
        if !is_reduced {
            self.unknowns = None;
            return Ok(());
        }
        self.unknowns.get_or_insert_default().set_labels(unit_count, label_count, |unit| runs(unit, true))
    }

    /// Includes the values of other ranks in all sums. `other_ranks(labels)` returns the object that exchanges the
    /// partial sums of `labels` with other ranks.
    pub fn with_other_ranks<E: OtherRanks + 'static>(
        &mut self,
        other_ranks: impl Fn(&LabelledRuns<P>) -> Result<E>,
    ) -> Result<()> {
        for labelled in [Some(&mut self.all_nodes), self.unknowns.as_mut()].into_iter().flatten() {
            labelled.other_ranks = Some(boxed(other_ranks(labelled)?, ALLOCATION_NAME)?);
        }
        Ok(())
    }

    /// Returns the labels on the unknowns of CG.
    pub fn on_unknowns(&self) -> &LabelledRuns<P> {
        self.unknowns.as_ref().unwrap_or(&self.all_nodes)
    }

    /// Returns whether no component is singular.
    pub fn is_empty(&self) -> bool {
        self.all_nodes.labels() == 0
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.all_nodes.bytes() + self.unknowns.as_ref().map_or(0, LabelledRuns::bytes)
    }
}

/// Name of the allocation in error messages.
const ALLOCATION_NAME: &str = "the runs of singular components";

/// Number of sums per label: the sum of v and the sum of |v|.
const SUMS_PER_LABEL: usize = 2;

impl<P: Position> LabelledRuns<P> {
    /// Sets the labels 0 .. `label_count` - 1. `runs(unit)` returns position, length and label of the runs of a unit.
    /// If `label_count` is 0, the memory stays allocated, because the next matrix may have singular components again.
    pub fn set_labels<R: Iterator<Item = (P, usize, usize)>>(
        &mut self,
        unit_count: usize,
        label_count: usize,
        runs: impl Fn(usize) -> R,
    ) -> Result<()> {
        reset(&mut self.value_counts, label_count, ALLOCATION_NAME)?;
        if label_count == 0 {
            return Ok(());
        }
        self.runs.clear();
        self.slots.clear();
        reset(&mut self.run_start, unit_count + 1, ALLOCATION_NAME)?;
        reset(&mut self.slot_start, unit_count + 1, ALLOCATION_NAME)?;
        reset(&mut self.latest_slot, label_count, ALLOCATION_NAME)?;
        for unit in 0..unit_count {
            let first_slot = self.slots.len();
            for (position, len, label) in runs(unit) {
                self.value_counts[label] += len as f64;
                let slot = self.latest_slot[label];
                let is_known_slot = self.slots.get(slot as usize) == Some(&(label as u32));
                if !is_known_slot || (slot as usize) < first_slot {
                    self.latest_slot[label] = self.slots.len() as u32;
                    push(&mut self.slots, label as u32, ALLOCATION_NAME)?;
                }
                self.add_run(unit, Run { position, len: len as u32, slot: self.latest_slot[label] })?;
            }
            // `reduce_runs` needs the runs in the order of the slots. Adjacent runs of a slot are already merged.
            self.runs[self.run_start[unit]..].sort_unstable_by_key(|run| (run.slot, run.position));
            self.run_start[unit + 1] = self.runs.len();
            self.slot_start[unit + 1] = self.slots.len();
        }
        self.sort_slots(label_count)?;
        let slots = self.slots.len().max(1);
        if self.partial_sums.as_ref().is_none_or(|sums| sums.rows() < slots) {
            self.partial_sums = Some(Partials::single_buffered(slots, SUMS_PER_LABEL)?);
        }
        if self.totals.as_ref().is_none_or(|totals| totals.len() != (SUMS_PER_LABEL + 1) * label_count) {
            self.totals = Some(Shared::zeroed((SUMS_PER_LABEL + 1) * label_count)?);
        }
        Ok(())
    }

    /// Appends a run to the runs of `unit`. If the run directly follows the last run and has the same slot, extends the
    /// last run instead.
    fn add_run(&mut self, unit: usize, run: Run<P>) -> Result<()> {
        let first_run = self.run_start[unit];
        match self.runs[first_run..].last_mut() {
            Some(last) if last.slot == run.slot && last.position.after(last.len as usize) == run.position => {
                last.len += run.len;
            }
            _ => push(&mut self.runs, run, ALLOCATION_NAME)?,
        }
        Ok(())
    }

    fn sort_slots(&mut self, label_count: usize) -> Result<()> {
        reset(&mut self.label_start, label_count + 1, ALLOCATION_NAME)?;
        reset(&mut self.slots_by_label, self.slots.len(), ALLOCATION_NAME)?;
        for &label in &self.slots {
            self.label_start[label as usize + 1] += 1;
        }
        lengths_to_pointers(&mut self.label_start);
        for (slot, &label) in self.slots.iter().enumerate() {
            let next_position = &mut self.label_start[label as usize];
            self.slots_by_label[*next_position] = slot as u32;
            *next_position += 1;
        }
        ends_to_pointers(&mut self.label_start);
        Ok(())
    }

    /// Returns the slots of the units `units`. There is one partial sum per slot.
    pub fn slots(&self, units: &Range<usize>) -> Range<usize> {
        self.slot_start[units.start]..self.slot_start[units.end]
    }

    /// Returns the number of labels.
    fn labels(&self) -> usize {
        self.value_counts.len()
    }

    /// Returns the runs of the units `units`.
    fn runs(&self, units: &Range<usize>) -> &[Run<P>] {
        &self.runs[self.run_start[units.start]..self.run_start[units.end]]
    }

    /// For each run of the units `units`, `sums_of_run(run, label)` returns N sums. Adds these sums over the runs of
    /// each slot, and stores N totals per slot. Returns the reduction of these totals.
    fn reduce_runs<const N: usize>(
        &self,
        units: &Range<usize>,
        sums_of_run: impl Fn(&Run<P>, usize) -> [f64; N],
    ) -> Reduce<'_, N> {
        let partials = self.partial_sums.as_ref().expect("allocated with the labels").reduce::<N>(0, self.slots.len());
        let mut runs = self.runs(units).iter().peekable();
        for slot in self.slots(units) {
            let mut sums = [0.0; N];
            while let Some(run) = runs.next_if(|run| run.slot as usize == slot) {
                let run_sums = sums_of_run(run, self.slots[slot] as usize);
                sums.iter_mut().zip(run_sums).for_each(|(sum, run_sums)| *sum += run_sums);
            }
            // SAFETY: the unit of the slot belongs to this thread, which writes the slot once per call. All threads
            // have read the previous sums before the barrier that ended the previous call.
            unsafe { partials.store(slot, sums) };
        }
        partials.with_other_ranks(self.other_ranks.as_deref())
    }

    /// Returns the sum of v over the values of each label and, with N = 2, also the sum of |v|. All threads may read
    /// the sums until the next call of a function of this structure. `units`: units of this thread.
    fn sum_labels<const N: usize>(&self, thread: TeamThread, units: &Range<usize>, v: &impl Vector<P>) -> [&[f64]; N] {
        let Some(totals) = self.totals.as_ref().filter(|_| self.labels() > 0) else { return [&[]; N] };
        let partials = self.reduce_runs::<N>(units, |run, _| {
            // SAFETY: the values belong to this thread, and no other thread writes them.
            let values = unsafe { v.values(run.position, run.len as usize) };
            std::array::from_fn(|k| if k == 0 { sum(values) } else { values.iter().map(|v| v.to_f64().abs()).sum() })
        });
        let (partials, labels) = (partials.partial_results(Some(thread)), self.labels());
        for label in thread.share(labels) {
            for (k, slot_sums) in partials.iter().enumerate() {
                let slots = &self.slots_by_label[self.label_start[label]..self.label_start[label + 1]];
                // SAFETY: this thread computes the total of this label. All threads have read the previous sums before
                // the barrier above; the other threads read the new total after the barrier below.
                let total = unsafe { totals.slice_mut(k * labels + label, 1) };
                total[0] = slots.iter().map(|&slot| slot_sums[slot as usize]).sum();
            }
        }
        thread.barrier();
        // SAFETY: no thread writes the totals until all threads have passed the first barrier of the next call.
        std::array::from_fn(|k| unsafe { totals.slice(k * labels, labels) })
    }

    /// Adds a constant to the values of each label, or stores the mean of v on each label; see [`MeansChange`].
    pub fn change_means(&self, thread: TeamThread, units: &Range<usize>, v: &impl Vector<P>, change: MeansChange) {
        let labels = self.labels();
        let Some(totals) = self.totals.as_ref().filter(|_| labels > 0) else { return };
        let [sums] = self.sum_labels(thread, units, v);
        let mean = |label: usize| sums[label] / self.value_counts[label];
        if change == MeansChange::Store {
            for label in thread.share(labels) {
                // SAFETY: only this thread writes the mean of this label. The other threads read the mean after the
                // barrier below.
                unsafe { totals.slice_mut(SUMS_PER_LABEL * labels + label, 1)[0] = mean(label) };
            }
            return thread.barrier();
        }
        // SAFETY: only a call with `MeansChange::Store` writes these values, and such a call ends with a barrier.
        let stored_means = unsafe { totals.slice(SUMS_PER_LABEL * labels, labels) };
        for run in self.runs(units) {
            let label = self.slots[run.slot as usize] as usize;
            let shift = if change == MeansChange::Restore { stored_means[label] } else { 0.0 } - mean(label);
            // SAFETY: the values belong to this thread, and no other thread uses them in this step.
            unsafe { v.values_mut(run.position, run.len as usize) }
                .iter_mut()
                .for_each(|v| *v += Real::from_f64(shift));
        }
    }

    /// Returns the sum over all labels of mean(v)^2 sum_i 1 / c_i, where i runs over the values of the label. `center`
    /// returns the centers c_i of the matrix, given the position of the first one and their number.
    pub fn weighted_square_of_means<'c>(
        &self,
        thread: TeamThread,
        units: &Range<usize>,
        v: &impl Vector<P>,
        center: impl Fn(P, usize) -> &'c [f64],
    ) -> f64 {
        if self.labels() == 0 {
            return 0.0;
        }
        let [sums] = self.sum_labels(thread, units, v);
        let squares = self.reduce_runs(units, |run, label| {
            let mean = sums[label] / self.value_counts[label];
            [center(run.position, run.len as usize).iter().map(|c| mean * mean / c).sum()]
        });
        let [square] = squares.sum(Some(thread));
        thread.barrier();
        square
    }

    /// Returns the label with the largest |sum v| / sum |v|, and both sums. All are 0 if there is no label.
    pub fn find_worst_label(&self, thread: TeamThread, units: &Range<usize>, v: &impl Vector<P>) -> (usize, f64, f64) {
        if self.labels() == 0 {
            return (0, 0.0, 0.0);
        }
        let [sums, magnitudes] = self.sum_labels(thread, units, v);
        let ratio = |k: usize| sums[k].abs() / magnitudes[k].max(f64::MIN_POSITIVE);
        let worst = (0..self.labels()).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        (worst, sums[worst], magnitudes[worst])
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Run<P>>() * self.runs.capacity()
            + size_of::<usize>() * (self.run_start.capacity() + self.slot_start.capacity())
            + size_of::<usize>() * (self.label_start.capacity() + self.value_counts.capacity())
            + size_of::<u32>() * (self.slots.capacity() + self.slots_by_label.capacity() + self.latest_slot.capacity())
            + self.partial_sums.as_ref().map_or(0, Partials::bytes)
            + self.totals.as_ref().map_or(0, Shared::bytes)
    }
}
