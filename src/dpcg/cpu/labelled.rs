//! Sums over labelled cells. The label of a cell is the number of its singular component.

use crate::base::loops::sum;
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::error::{Result, push, reset};
use crate::stencil::pieces::Pieces;
use std::ops::Range;

/// Consecutive cells with equal label.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    len: u32,
    /// Slot of the run's piece and label; see `Labelled::slots`.
    slot: u32,
}

/// Cells grouped by label, and workspace for sums over them.
#[derive(Default)]
pub struct Labelled {
    pieces: Pieces,
    runs: Vec<Run>,
    /// Start of each piece in `runs`.
    run_start: Vec<usize>,
    /// Labels of the slots. A slot is a pair of a piece and a label that occurs in the piece, in the order of pieces.
    slots: Vec<u32>,
    /// Start of each piece in `slots`.
    slot_start: Vec<usize>,
    /// Slots of each label, in ascending order; those of label l are by_label[label_start[l] .. label_start[l + 1]].
    by_label: Vec<u32>,
    label_start: Vec<usize>,
    /// Number of cells of each label.
    pub count: Vec<f64>,
    sums: Option<Partials>,
    /// Sums of v over each label, followed by sums of |v| over each label.
    totals: Option<Shared>,
}

/// Name of the allocation in error messages.
const RUNS: &str = "cells by label";

/// Number of sums per label: of v, and of |v|.
const NUMBERS: usize = 2;

impl Labelled {
    /// Sets the labels. `runs(row)` returns columns and label of the runs of a row, in ascending order.
    pub fn set<R: Iterator<Item = (Range<usize>, Option<usize>)>>(
        &mut self,
        pieces: Pieces,
        labels: usize,
        runs: impl Fn(usize) -> R,
    ) -> Result<()> {
        self.pieces = pieces;
        self.runs.clear();
        self.slots.clear();
        reset(&mut self.count, labels, RUNS)?;
        reset(&mut self.run_start, pieces.count() + 1, RUNS)?;
        reset(&mut self.slot_start, pieces.count() + 1, RUNS)?;
        let mut slot_of: Vec<u32> = Vec::new();
        reset(&mut slot_of, labels, RUNS)?;
        for piece in 0..pieces.count() {
            let first = self.slots.len();
            for row in pieces.rows(piece) {
                for (columns, label) in runs(row) {
                    let Some(label) = label else { continue };
                    self.count[label] += columns.len() as f64;
                    let known = self.slots.get(slot_of[label] as usize) == Some(&(label as u32));
                    if !known || (slot_of[label] as usize) < first {
                        slot_of[label] = self.slots.len() as u32;
                        push(&mut self.slots, label as u32, RUNS)?;
                    }
                    let start = (row * pieces.cells.nx + columns.start) as u32;
                    self.add_run(piece, Run { start, len: columns.len() as u32, slot: slot_of[label] })?;
                }
            }
            // `note_piece` sums the runs slot by slot. Adjacent runs of a slot are already merged.
            self.runs[self.run_start[piece]..].sort_unstable_by_key(|run| (run.slot, run.start));
            self.run_start[piece + 1] = self.runs.len();
            self.slot_start[piece + 1] = self.slots.len();
        }
        self.sort_slots(labels)?;
        self.sums = Some(Partials::once(self.slots.len().max(1), NUMBERS)?);
        self.totals = Some(Shared::zeroed(NUMBERS * labels.max(1))?);
        Ok(())
    }

    /// Appends a run, or merges it with the last run if it is the continuation.
    fn add_run(&mut self, piece: usize, run: Run) -> Result<()> {
        let first = self.run_start[piece];
        match self.runs[first..].last_mut() {
            Some(last) if last.slot == run.slot && last.start + last.len == run.start => last.len += run.len,
            _ => push(&mut self.runs, run, RUNS)?,
        }
        Ok(())
    }

    fn sort_slots(&mut self, labels: usize) -> Result<()> {
        reset(&mut self.label_start, labels + 1, RUNS)?;
        reset(&mut self.by_label, self.slots.len(), RUNS)?;
        for &label in &self.slots {
            self.label_start[label as usize + 1] += 1;
        }
        for label in 0..labels {
            self.label_start[label + 1] += self.label_start[label];
        }
        let mut next = Vec::new();
        reset(&mut next, labels, RUNS)?;
        next.copy_from_slice(&self.label_start[..labels]);
        for (slot, &label) in self.slots.iter().enumerate() {
            let next = &mut next[label as usize];
            self.by_label[*next] = slot as u32;
            *next += 1;
        }
        Ok(())
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.count.len()
    }

    /// Calls `f` with the cells and the label of each run of this thread.
    pub fn each_run(&self, me: Me, mut f: impl FnMut(Range<usize>, usize)) {
        for piece in self.pieces.share(me) {
            for run in &self.runs[self.run_start[piece]..self.run_start[piece + 1]] {
                let start = run.start as usize;
                f(start..start + run.len as usize, self.slots[run.slot as usize] as usize);
            }
        }
    }

    /// Returns the sums of v over the cells of each label, and with `magnitudes` also of |v|. All threads may read them
    /// until the next call. `values(range)` returns v in cells of this thread.
    pub fn sum<'v>(&self, me: Me, magnitudes: bool, values: impl Fn(Range<usize>) -> &'v [f64]) -> [&[f64]; NUMBERS] {
        let (Some(sums), Some(totals)) = (&self.sums, &self.totals) else { return [&[], &[]] };
        let noted = sums.reduce::<NUMBERS>(0, self.slots.len());
        // All threads have read the previous sums.
        me.barrier();
        for piece in self.pieces.share(me) {
            self.note_piece(piece, magnitudes, &noted, &values);
        }
        let noted = noted.all(Some(me));
        let labels = self.labels();
        for label in me.share(labels) {
            for (k, noted) in noted.iter().enumerate() {
                let slots = &self.by_label[self.label_start[label]..self.label_start[label + 1]];
                // SAFETY: a label of this thread; the other threads read the sum after the barrier below.
                let total = unsafe { totals.slice_mut(k * labels + label, 1) };
                total[0] = slots.iter().map(|&slot| noted[slot as usize]).sum();
            }
        }
        me.barrier();
        // SAFETY: the next write follows the first barrier of the next call.
        std::array::from_fn(|k| unsafe { totals.slice(k * labels, labels) })
    }

    fn note_piece<'v>(
        &self,
        piece: usize,
        magnitudes: bool,
        noted: &crate::base::reduce::Reduce<'_, NUMBERS>,
        values: &impl Fn(Range<usize>) -> &'v [f64],
    ) {
        let mut runs = self.runs[self.run_start[piece]..self.run_start[piece + 1]].iter().peekable();
        for slot in self.slot_start[piece]..self.slot_start[piece + 1] {
            let mut sums = [0.0; NUMBERS];
            while let Some(run) = runs.next_if(|run| run.slot as usize == slot) {
                let start = run.start as usize;
                let values = values(start..start + run.len as usize);
                sums[0] += sum(values);
                if magnitudes {
                    sums[1] += values.iter().map(|v| v.abs()).sum::<f64>();
                }
            }
            // SAFETY: a slot of a piece of this thread, written once per call.
            unsafe { noted.note(slot, sums) };
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Run>() * self.runs.capacity()
            + size_of::<usize>() * (self.run_start.len() + self.slot_start.len() + self.label_start.len())
            + size_of::<u32>() * (self.slots.len() + self.by_label.len())
            + self.sums.as_ref().map_or(0, Partials::bytes)
            + self.totals.as_ref().map_or(0, Shared::bytes)
    }
}
