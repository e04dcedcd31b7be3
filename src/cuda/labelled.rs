//! Sums over labelled cells (kernels/common/labelled.cuh), for singular components and for deflation regions.
//!
//! Cells are divided into chunks of `CHUNK` cells. A slot consists of the cells of one chunk that have the same label.
//! An item is a segment of `SEGMENT` cells in which a slot has cells.

use crate::base::csr::{ends_to_pointers, lengths_to_pointers};
use crate::cuda::arrays::{Pool, lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Added, Address, CHUNK, CellLabels, LabelledArgs, ListArgs, Run, SEGMENT, ScanArgs, Sum};
use crate::error::{Result, collected, zeroed};

/// Purpose of the allocations, for error messages.
const LABELS: &str = "cells by label";

/// Numbers per label: sum, sum of magnitudes, mean, and the mean that `store_means` stored.
const NUMBERS_PER_LABEL: usize = 4;

/// Cells by label on the device, and memory for sums over them.
pub struct Labelled {
    /// Up to three blocks of memory. The first one contains the lists by label and by chunk of cells; for runs, it
    /// contains all lists. The second one contains the lists of slots and items (kernels/dpcg/labelled.cuh). It has
    /// room for a number of slots that is rounded up to a power of two, so that other labels can reuse the memory. The
    /// third one contains the labels of the cells, if this object owns them.
    memory: [Option<Memory>; 3],
    arguments: LabelledArgs,
    /// Host copy of the `NUMBERS_PER_LABEL` numbers of each label.
    totals_on_host: Vec<f64>,
}

impl Labelled {
    /// Lists the cells by label; `of` is the number of cells.
    pub fn new(pool: &mut Pool, stream: &Stream, of: usize, labels: CellLabels) -> Result<Self> {
        let count = labels.count as usize;
        let chunks = of.div_ceil(CHUNK as usize);
        let sizes = [8 * (chunks + 1), 4 * (count + 1), 8 * count, 8 * NUMBERS_PER_LABEL * count];
        let (of_labels, [chunk_slots, label_start, cells_of, totals]) = pool.lists(stream, sizes, LABELS)?;
        stream.fill(of_labels.address, 0, of_labels.bytes)?;
        let chunk_items = chunk_slots + 4 * (chunks as u64 + 1);
        let counted = ListArgs { labels, cells: of as i64, chunk_slots, chunk_items, ..Default::default() };
        launch::list_slots(stream, &counted)?;
        launch::scan(stream, &ScanArgs { values: chunk_slots, count: chunks as i64, arrays: 2 })?;
        // Without an array of labels, all cells have the label 0. Each chunk is then one slot, and each segment one
        // item.
        let (mut slot_count, mut item_count) = ([chunks as u32], [of.div_ceil(SEGMENT as usize) as u32]);
        if labels.of != 0 {
            stream.fetch(&mut slot_count, chunk_slots + 4 * chunks as u64)?;
            stream.fetch(&mut item_count, chunk_items + 4 * chunks as u64)?;
            stream.wait()?;
        }
        let [room, item_room] = [slot_count, item_count].map(|[count]| (count as usize).next_power_of_two());
        let sizes = [8 * room, 4 * room, 8 * room, 4 * item_room];
        let (of_slots, [slots, place, sums, items]) = pool.lists(stream, sizes, LABELS)?;
        let place = if count > 1 { place } else { 0 };
        // The labels of slots are stored where the sums are stored later.
        let list = ListArgs { slots, items, slot_label: sums, label_start, place, cells_of, ..counted };
        launch::list_slots(stream, &list)?;
        launch::scan(stream, &ScanArgs { values: label_start, count: count as i64, arrays: 1 })?;
        if count > 1 {
            launch::sort_slots(stream, &list)?;
        }
        let arguments = LabelledArgs {
            labels,
            of: of as i64,
            slots,
            items,
            place,
            label_start,
            cells: cells_of,
            sums,
            totals,
            ..LabelledArgs::default()
        };
        Ok(Self {
            memory: [Some(of_labels), Some(of_slots), None],
            arguments,
            totals_on_host: zeroed(NUMBERS_PER_LABEL * count, LABELS)?,
        })
    }

    /// Sends runs of cells to the device, sorted by label. The runs of each label remain in the given order, in which
    /// their sums are added. `count` is the number of labels.
    pub fn of_runs(stream: &Stream, runs: &[Run], count: usize) -> Result<Self> {
        let (mut start, mut cells): (Vec<usize>, Vec<u64>) = (zeroed(count + 1, LABELS)?, zeroed(count, LABELS)?);
        for run in runs {
            start[run.label as usize + 1] += 1;
            cells[run.label as usize] += u64::from(run.len);
        }
        lengths_to_pointers(&mut start);
        let mut sorted: Vec<Run> = zeroed(runs.len(), LABELS)?;
        for run in runs {
            let next = &mut start[run.label as usize];
            sorted[*next] = *run;
            *next += 1;
        }
        ends_to_pointers(&mut start);
        let start: Vec<u32> = collected(start.into_iter().map(|first| first as u32), LABELS)?;
        let sizes = [size_of_val(runs), 4 * start.len(), 8 * count, 8 * runs.len(), 8 * NUMBERS_PER_LABEL * count];
        let (memory, [runs_at, label_start, cells_at, sums, totals]) = lists(stream, sizes, LABELS)?;
        stream.send(runs_at, &sorted)?;
        stream.send(label_start, &start)?;
        stream.send(cells_at, &cells)?;
        stream.wait()?;
        let arguments = LabelledArgs {
            labels: CellLabels { count: count as u32, ..CellLabels::default() },
            runs: runs_at,
            of: runs.len() as i64,
            label_start,
            cells: cells_at,
            sums,
            totals,
            ..LabelledArgs::default()
        };
        Ok(Self {
            memory: [Some(memory), None, None],
            arguments,
            totals_on_host: zeroed(NUMBERS_PER_LABEL * count, LABELS)?,
        })
    }

    /// Takes ownership of the memory of the labels of the cells.
    pub fn owning(mut self, labels: Memory) -> Self {
        self.memory[2] = Some(labels);
        self
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.memory.into_iter().flatten().try_for_each(|memory| pool.release(memory))
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.arguments.labels.count as usize
    }

    /// Returns the labels of the cells.
    pub fn of_cells(&self) -> CellLabels {
        self.arguments.labels
    }

    /// Computes the sum and the mean of v over the cells of each label. Stores the sums also at `g`, unless `g` is 0.
    /// If `sum` belongs to a loop on the device, the kernels do nothing after the loop has ended.
    pub fn sums(&self, stream: &Stream, v: Address, g: Address, sum: Sum) -> Result<()> {
        let scalars = if sum.in_loop != 0 { sum.scalars } else { 0 };
        self.sums_of(stream, false, &LabelledArgs { v, g, scalars, ..self.arguments })
    }

    /// Adds the values of each slot, and then the slots of each label. v is in f32 if `short`, else in f64.
    fn sums_of(&self, stream: &Stream, short: bool, a: &LabelledArgs) -> Result<()> {
        launch::slot_sums(stream, short, a)?;
        launch::label_sums(stream, a)
    }

    /// Computes v = v - mean(v) for each label. With `restore`, also adds the mean that `store_means` stored.
    pub fn shift(&self, stream: &Stream, v: Address, restore: bool) -> Result<()> {
        self.shift_of(stream, false, &LabelledArgs { v, restore: i32::from(restore), ..self.arguments })
    }

    /// Computes v = v - mean(v) for each label. v is in f32 if `short`, else in f64.
    pub fn center(&self, stream: &Stream, v: Address, short: bool) -> Result<()> {
        self.shift_of(stream, short, &LabelledArgs { v, ..self.arguments })
    }

    fn shift_of(&self, stream: &Stream, short: bool, a: &LabelledArgs) -> Result<()> {
        self.sums_of(stream, short, a)?;
        launch::shift_labelled(stream, short, a)
    }

    /// Stores the means of v for a later `shift` with `restore`.
    pub fn store_means(&self, stream: &Stream, v: Address) -> Result<()> {
        self.sums(stream, v, 0, Sum::default())?;
        launch::store_means(stream, &self.arguments)
    }

    /// Returns the label with the largest |sum v| / sum |v|, and its sums of v and of |v|.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        for added in [Added::Values, Added::Magnitudes] {
            self.sums_of(stream, false, &LabelledArgs { v, added: added as i32, ..self.arguments })?;
        }
        let labels = self.labels();
        let values = self.fetch_totals(stream)?;
        let ratio =
            |k: usize| values[NUMBERS_PER_LABEL * k].abs() / values[NUMBERS_PER_LABEL * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..labels).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst, values[NUMBERS_PER_LABEL * worst], values[NUMBERS_PER_LABEL * worst + 1]))
    }

    /// Returns the sum over all labels of mean(v)^2 sum_i 1 / center_i, where i runs over the cells of the label.
    /// Overwrites the means, but not the means that `store_means` stored.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        self.sums(stream, v, 0, Sum::default())?;
        self.sums_of(stream, false, &LabelledArgs { v: center, added: Added::Inverses as i32, ..self.arguments })?;
        Ok(self.fetch_totals(stream)?.chunks(NUMBERS_PER_LABEL).map(|label| label[0]).sum())
    }

    /// Copies the numbers of all labels to the host, waits for the copy, and returns the numbers.
    fn fetch_totals(&mut self, stream: &Stream) -> Result<&[f64]> {
        stream.fetch(&mut self.totals_on_host, self.arguments.totals)?;
        stream.wait()?;
        Ok(&self.totals_on_host)
    }

    /// Returns the size of the device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.iter().flatten().map(|memory| memory.bytes).sum()
    }
}
