//! Sums over labelled cells: of singular components, and of deflation regions (Z^T v).

use super::pieces::Pieces;
use crate::error::{Result, push, reset};
use crate::isa::for_each_isa;
use crate::runtime::reduce::{Noted, sum};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use std::ops::Range;

/// Consecutive cells of one label.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    len: u32,
    /// Of the piece and label, see `Labelled::slots`.
    slot: u32,
}

/// Cells by label, and room for sums over them.
#[derive(Default)]
pub struct Labelled {
    pieces: Pieces,
    runs: Vec<Run>,
    /// Runs of a piece.
    run_start: Vec<usize>,
    /// A slot for each piece and label in it, in the order of pieces: its label.
    slots: Vec<u32>,
    /// Slots of a piece.
    slot_start: Vec<usize>,
    /// Slots of each label, in order.
    by_label: Vec<u32>,
    label_start: Vec<usize>,
    /// Cells of each label.
    pub count: Vec<f64>,
    sums: Option<Noted>,
    /// The sums, N numbers a label.
    totals: Option<Shared>,
}

/// For errors.
const RUNS: &str = "cells by label";

/// Numbers of a sum: of v, and of |v|.
const NUMBERS: usize = 2;

for_each_isa! {
    fn sum_of(v: &[f64]) -> f64 {
        sum(v)
    }
}

impl Labelled {
    /// `runs(row)`: columns and label of the runs of a row, in ascending order.
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
            // A sum goes over runs of one slot after the other; where one run follows another, both are one already.
            self.runs[self.run_start[piece]..].sort_unstable_by_key(|run| (run.slot, run.start));
            self.run_start[piece + 1] = self.runs.len();
            self.slot_start[piece + 1] = self.slots.len();
        }
        self.sort_slots(labels)?;
        self.sums = Some(Noted::once(self.slots.len().max(1), NUMBERS)?);
        self.totals = Some(Shared::zeroed(NUMBERS * labels.max(1))?);
        Ok(())
    }

    /// A run, joined to the one before where it goes on.
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

    /// Labels.
    pub fn labels(&self) -> usize {
        self.count.len()
    }

    /// Calls `f` with the cells and the label of this member's runs.
    pub fn each_run(&self, me: Me, mut f: impl FnMut(Range<usize>, usize)) {
        for piece in self.pieces.share(me) {
            for run in &self.runs[self.run_start[piece]..self.run_start[piece + 1]] {
                let start = run.start as usize;
                f(start..start + run.len as usize, self.slots[run.slot as usize] as usize);
            }
        }
    }

    /// Sums of v, and with `magnitudes` of |v|, over the cells of each label, label by label: read by all members until
    /// the next sums. `values(range)`: those of this member's cells.
    pub fn sum<'v>(&self, me: Me, magnitudes: bool, values: impl Fn(Range<usize>) -> &'v [f64]) -> [&[f64]; NUMBERS] {
        let (Some(sums), Some(totals)) = (&self.sums, &self.totals) else { return [&[], &[]] };
        let noted = sums.reduce::<NUMBERS>(0, self.slots.len());
        // All have read what was summed before.
        me.barrier();
        for piece in self.pieces.share(me) {
            self.note_piece(piece, magnitudes, &noted, &values);
        }
        let noted = noted.all(Some(me));
        let labels = self.labels();
        for label in me.share(labels) {
            for (k, noted) in noted.iter().enumerate() {
                let slots = &self.by_label[self.label_start[label]..self.label_start[label + 1]];
                // SAFETY: a label of this member; others read it after the barrier below.
                let total = unsafe { totals.slice_mut(k * labels + label, 1) };
                total[0] = slots.iter().map(|&slot| noted[slot as usize]).sum();
            }
        }
        me.barrier();
        // SAFETY: written again only after the barrier that sums begin with.
        std::array::from_fn(|k| unsafe { totals.slice(k * labels, labels) })
    }

    fn note_piece<'v>(
        &self,
        piece: usize,
        magnitudes: bool,
        noted: &crate::runtime::reduce::Reduce<'_, NUMBERS>,
        values: &impl Fn(Range<usize>) -> &'v [f64],
    ) {
        let mut runs = self.runs[self.run_start[piece]..self.run_start[piece + 1]].iter().peekable();
        for slot in self.slot_start[piece]..self.slot_start[piece + 1] {
            let mut sums = [0.0; NUMBERS];
            while let Some(run) = runs.next_if(|run| run.slot as usize == slot) {
                let start = run.start as usize;
                let values = values(start..start + run.len as usize);
                sums[0] += sum_of(values);
                if magnitudes {
                    sums[1] += values.iter().map(|v| v.abs()).sum::<f64>();
                }
            }
            // SAFETY: a slot of a piece of this member, noted once.
            unsafe { noted.note(slot, sums) };
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Run>() * self.runs.capacity()
            + size_of::<usize>() * (self.run_start.len() + self.slot_start.len() + self.label_start.len())
            + size_of::<u32>() * (self.slots.len() + self.by_label.len())
            + self.sums.as_ref().map_or(0, Noted::bytes)
            + self.totals.as_ref().map_or(0, Shared::bytes)
    }
}
