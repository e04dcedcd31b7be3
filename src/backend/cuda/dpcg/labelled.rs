//! Sums over labelled cells (kernels/dpcg/labelled.cuh): of singular components, and of deflation regions. The lists
//! are made on the host at `factorize`.

use super::arrays::lists;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CellRun, LabelledArgs, Sum};
use crate::error::{Error, Result, collected, push, reset, zeroed};
use crate::grid::cells::Cells;
use std::ops::Range;

/// Cells of a chunk, but for what completes a row: a warp adds those of one label.
const CHUNK: usize = 1024;

/// For errors.
const RUNS: &str = "cells by label";

/// Runs by chunk and label.
#[derive(Default)]
struct Lists {
    runs: Vec<CellRun>,
    /// First run of each slot, and the end.
    slot_start: Vec<u32>,
    /// Label of each slot.
    slots: Vec<u32>,
    cells: Vec<f64>,
}

impl Lists {
    fn new<R: Iterator<Item = (Range<usize>, Option<usize>)>>(
        cells: Cells,
        labels: usize,
        runs: impl Fn(usize) -> R,
    ) -> Result<Self> {
        let mut lists = Self { cells: zeroed(labels, RUNS)?, ..Self::default() };
        let rows = CHUNK.div_ceil(cells.nx);
        for first_row in (0..cells.rows()).step_by(rows) {
            let first = lists.runs.len();
            for row in first_row..(first_row + rows).min(cells.rows()) {
                for (columns, label) in runs(row) {
                    let Some(label) = label else { continue };
                    lists.cells[label] += columns.len() as f64;
                    let (start, len) = ((row * cells.nx + columns.start) as u32, columns.len() as u32);
                    lists.add(first, CellRun { start, len, label: label as u32 })?;
                }
            }
            lists.runs[first..].sort_unstable_by_key(|run| (run.label, run.start));
            for k in first..lists.runs.len() {
                let label = lists.runs[k].label;
                if k == first || lists.runs[k - 1].label != label {
                    push(&mut lists.slots, label, RUNS)?;
                    push(&mut lists.slot_start, k as u32, RUNS)?;
                }
            }
        }
        push(&mut lists.slot_start, lists.runs.len() as u32, RUNS)?;
        Ok(lists)
    }

    /// A run, joined to the one before where it goes on.
    fn add(&mut self, first: usize, run: CellRun) -> Result<()> {
        match self.runs[first..].last_mut() {
            Some(last) if last.label == run.label && last.start + last.len == run.start => {
                last.len += run.len;
                Ok(())
            }
            _ => push(&mut self.runs, run, RUNS),
        }
    }

    /// Slots sorted by label, and where those of each begin.
    fn by_label(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let labels = self.cells.len();
        let mut start: Vec<u32> = zeroed(labels + 1, RUNS)?;
        for &label in &self.slots {
            start[label as usize + 1] += 1;
        }
        for label in 0..labels {
            start[label + 1] += start[label];
        }
        let mut next = collected(start.iter().copied(), RUNS)?;
        let mut sorted: Vec<u32> = zeroed(self.slots.len(), RUNS)?;
        for (slot, &label) in self.slots.iter().enumerate() {
            let place = &mut next[label as usize];
            sorted[*place as usize] = slot as u32;
            *place += 1;
        }
        Ok((sorted, start))
    }
}

/// Cells by label on the device, and room for sums over them.
pub struct Labelled {
    memory: Memory,
    arguments: LabelledArgs,
    runs: u32,
    slots: u32,
    labels: u32,
    /// Room for the sums on the host.
    seen: Vec<f64>,
}

/// Numbers of a label: sum, sum of magnitudes, mean, kept mean.
const NUMBERS: usize = 4;

impl Labelled {
    /// `runs(row)`: columns and label of the runs of a row, in ascending order.
    pub fn new<R: Iterator<Item = (Range<usize>, Option<usize>)>>(
        stream: &Stream,
        cells: Cells,
        labels: usize,
        runs: impl Fn(usize) -> R,
    ) -> Result<Self> {
        let found = Lists::new(cells, labels, runs)?;
        let (by_label, label_start) = found.by_label()?;
        let slots = found.slots.len();
        let (memory, at) = lists(
            stream,
            [
                size_of_val(&*found.runs),
                size_of_val(&*found.slot_start),
                size_of_val(&*by_label),
                size_of_val(&*label_start),
                8 * labels,
                16 * slots,
                8 * NUMBERS * labels,
            ],
            RUNS,
        )?;
        stream.send(at[0], &found.runs)?;
        stream.send(at[1], &found.slot_start)?;
        stream.send(at[2], &by_label)?;
        stream.send(at[3], &label_start)?;
        stream.send(at[4], &found.cells)?;
        stream.wait()?;
        let arguments = LabelledArgs {
            runs: at[0],
            slot_start: at[1],
            by_label: at[2],
            label_start: at[3],
            cells: at[4],
            sums: at[5],
            totals: at[6],
            ..LabelledArgs::default()
        };
        let mut seen = Vec::new();
        reset(&mut seen, NUMBERS * labels, RUNS)?;
        Ok(Self { memory, arguments, runs: found.runs.len() as u32, slots: slots as u32, labels: labels as u32, seen })
    }

    /// Labels.
    pub fn labels(&self) -> usize {
        self.labels as usize
    }

    /// Sums of v by label, those of the sums alone to `g`, where it is not 0. `sum`: of the loop they are in.
    pub fn sums(&self, stream: &Stream, v: Address, g: Address, sum: Sum) -> Result<()> {
        self.sums_of(stream, &LabelledArgs { v, g, sum, ..self.arguments })
    }

    fn sums_of(&self, stream: &Stream, a: &LabelledArgs) -> Result<()> {
        launch::slot_sums(stream, &LabelledArgs { count: self.slots, ..*a })?;
        launch::label_sums(stream, &LabelledArgs { count: self.labels, ..*a })
    }

    /// v = v - mean(v) for each label, plus the kept mean with `restore`.
    pub fn shift(&self, stream: &Stream, v: Address, restore: bool) -> Result<()> {
        self.sums(stream, v, 0, Sum::default())?;
        let restore = i32::from(restore);
        launch::cell_shift(stream, &LabelledArgs { v, restore, count: self.runs, ..self.arguments })
    }

    /// Remembers the means of v.
    pub fn keep(&self, stream: &Stream, v: Address) -> Result<()> {
        self.sums(stream, v, 0, Sum::default())?;
        launch::cell_keep_means(stream, &LabelledArgs { count: self.labels, ..self.arguments })
    }

    /// The label with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        self.sums(stream, v, 0, Sum::default())?;
        let labels = self.labels();
        let values = self.see(stream)?;
        let ratio = |k: usize| values[NUMBERS * k].abs() / values[NUMBERS * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..labels).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst, values[NUMBERS * worst], values[NUMBERS * worst + 1]))
    }

    /// Sum over labels of mean(v)^2 sum_i 1 / center_i; the means are spent, but for the kept ones.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        self.sums(stream, v, 0, Sum::default())?;
        self.sums_of(stream, &LabelledArgs { center, ..self.arguments })?;
        Ok(self.see(stream)?.chunks(NUMBERS).map(|label| label[0]).sum())
    }

    /// Waits, and reads the sums.
    fn see(&mut self, stream: &Stream) -> Result<&[f64]> {
        stream.fetch(&mut self.seen, self.arguments.totals)?;
        stream.wait()?;
        Ok(&self.seen)
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// Runs are numbered in 32 bits.
pub fn check_numbers(cells: Cells) -> Result<()> {
    if cells.size().iter().all(|&n| i32::try_from(n).is_ok()) && u32::try_from(cells.count()).is_ok() {
        return Ok(());
    }
    Err(Error::Dimension("a device takes at most 2^31 - 1 cells in a direction".to_owned()))
}
