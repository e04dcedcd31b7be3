//! Sums over labelled cells (kernels/common/labelled.cuh), for singular components and for deflation regions.
//!
//! Cells are divided into chunks of `CHUNK_CELLS` cells. A slot consists of the cells of one chunk that have the same
//! label. Chunks are divided into segments of `SEGMENT_CELLS` cells. The items of a slot are the segments that contain
//! cells of the slot.

use crate::base::csr::{ends_to_pointers, lengths_to_pointers};
use crate::cuda::arrays::{Pool, allocate_lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CHUNK_CELLS, CellLabels, LabelledArgs, ListArgs, Run, SEGMENT_CELLS, ScanArgs, Sum, SummandKind,
};
use crate::error::{Result, collected, zeroed};

/// Purpose of the allocations, for error messages.
const CELLS_BY_LABEL: &str = "cells by label";

/// Numbers per label: sum, sum of magnitudes, mean, and the mean that `store_means` stored.
const NUMBERS_PER_LABEL: usize = 4;

/// Cells by label on the device, and memory for sums over them.
pub struct Labelled {
    /// Up to three blocks of memory:
    ///
    /// - The first block contains the lists by label and by chunk of cells; after `of_runs`, it contains all lists.
    /// - The second block contains the lists of slots and items (kernels/dpcg/labelled.cuh). Their capacities are
    ///   rounded up to powers of two, so that the lists for other labels can reuse the memory.
    /// - The third block contains the labels of the cells, if this object owns them.
    memory: [Option<Memory>; 3],
    arguments: LabelledArgs,
    /// Host copy of the `NUMBERS_PER_LABEL` numbers of each label.
    totals_on_host: Vec<f64>,
}

impl Labelled {
    /// Lists the cells by label; `cells` is the number of cells.
    pub fn new(pool: &mut Pool, stream: &Stream, cells: usize, labels: CellLabels) -> Result<Self> {
        let count = labels.count as usize;
        let chunks = cells.div_ceil(CHUNK_CELLS as usize);
        let sizes = [8 * (chunks + 1), 4 * (count + 1), 8 * count, 8 * NUMBERS_PER_LABEL * count];
        let (label_memory, [chunk_slot_counts, label_start, cells_of_label, totals]) =
            pool.allocate_lists(stream, sizes, CELLS_BY_LABEL)?;
        stream.fill(label_memory.address, 0, label_memory.bytes)?;
        let chunk_item_counts = chunk_slot_counts + 4 * (chunks as u64 + 1);
        let count_args =
            ListArgs { labels, cell_count: cells as i64, chunk_slot_counts, chunk_item_counts, ..Default::default() };
        launch::list_slots(stream, &count_args)?;
        launch::scan_prefix_sums(stream, &ScanArgs { values: chunk_slot_counts, count: chunks as i64, arrays: 2 })?;
        // Without an array of labels, all cells have the label 0. Each chunk is then one slot, and each segment one
        // item.
        let (mut slot_count, mut item_count) = ([chunks as u32], [cells.div_ceil(SEGMENT_CELLS as usize) as u32]);
        if labels.label_of_cell != 0 {
            stream.fetch(&mut slot_count, chunk_slot_counts + 4 * chunks as u64)?;
            stream.fetch(&mut item_count, chunk_item_counts + 4 * chunks as u64)?;
            stream.wait()?;
        }
        let [slot_capacity, item_capacity] =
            [slot_count, item_count].map(|[count]| (count as usize).next_power_of_two());
        let sizes = [8 * slot_capacity, 4 * slot_capacity, 8 * slot_capacity, 4 * item_capacity];
        let (slot_memory, [slots, index_by_label, sums, items]) = pool.allocate_lists(stream, sizes, CELLS_BY_LABEL)?;
        let index_by_label = if count > 1 { index_by_label } else { 0 };
        // The labels of slots are stored where the sums are stored later.
        let list_args =
            ListArgs { slots, items, slot_label: sums, label_start, index_by_label, cells_of_label, ..count_args };
        launch::list_slots(stream, &list_args)?;
        launch::scan_prefix_sums(stream, &ScanArgs { values: label_start, count: count as i64, arrays: 1 })?;
        if count > 1 {
            launch::sort_slots(stream, &list_args)?;
        }
        let arguments = LabelledArgs {
            labels,
            count: cells as i64,
            slots,
            items,
            index_by_label,
            label_start,
            cells: cells_of_label,
            sums,
            totals,
            ..LabelledArgs::default()
        };
        Ok(Self {
            memory: [Some(label_memory), Some(slot_memory), None],
            arguments,
            totals_on_host: zeroed(NUMBERS_PER_LABEL * count, CELLS_BY_LABEL)?,
        })
    }

    /// Sends runs to the device, sorted by label. A run consists of consecutive cells with the same label. The runs of
    /// each label remain in the given order, in which the sums over the runs are added. `count` is the number of
    /// labels.
    pub fn of_runs(stream: &Stream, runs: &[Run], count: usize) -> Result<Self> {
        let (mut run_start, mut cell_counts): (Vec<usize>, Vec<u64>) =
            (zeroed(count + 1, CELLS_BY_LABEL)?, zeroed(count, CELLS_BY_LABEL)?);
        for run in runs {
            run_start[run.label as usize + 1] += 1;
            cell_counts[run.label as usize] += u64::from(run.len);
        }
        lengths_to_pointers(&mut run_start);
        let mut sorted_runs: Vec<Run> = zeroed(runs.len(), CELLS_BY_LABEL)?;
        for run in runs {
            let next_index = &mut run_start[run.label as usize];
            sorted_runs[*next_index] = *run;
            *next_index += 1;
        }
        ends_to_pointers(&mut run_start);
        let run_start: Vec<u32> = collected(run_start.into_iter().map(|first| first as u32), CELLS_BY_LABEL)?;
        let sizes = [size_of_val(runs), 4 * run_start.len(), 8 * count, 8 * runs.len(), 8 * NUMBERS_PER_LABEL * count];
        let (memory, [runs_at, label_start, cells_at, sums, totals]) = allocate_lists(stream, sizes, CELLS_BY_LABEL)?;
        stream.send(runs_at, &sorted_runs)?;
        stream.send(label_start, &run_start)?;
        stream.send(cells_at, &cell_counts)?;
        stream.wait()?;
        let arguments = LabelledArgs {
            labels: CellLabels { count: count as u32, ..CellLabels::default() },
            runs: runs_at,
            count: runs.len() as i64,
            label_start,
            cells: cells_at,
            sums,
            totals,
            ..LabelledArgs::default()
        };
        Ok(Self {
            memory: [Some(memory), None, None],
            arguments,
            totals_on_host: zeroed(NUMBERS_PER_LABEL * count, CELLS_BY_LABEL)?,
        })
    }

    /// Takes ownership of the memory of the labels of the cells.
    pub fn with_label_memory(mut self, labels: Memory) -> Self {
        self.memory[2] = Some(labels);
        self
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.memory.into_iter().flatten().try_for_each(|memory| pool.release(memory))
    }

    /// Returns the number of labels.
    pub fn label_count(&self) -> usize {
        self.arguments.labels.count as usize
    }

    /// Returns the labels of the cells.
    pub fn cell_labels(&self) -> CellLabels {
        self.arguments.labels
    }

    /// Computes the sum and the mean of v over the cells of each label. Stores the sums also at `g`, unless `g` is 0.
    /// If `sum` belongs to a loop on the device (`in_loop`), the kernels do nothing after the loop has ended.
    pub fn compute_sums(&self, stream: &Stream, v: Address, g: Address, sum: Sum) -> Result<()> {
        let scalars = if sum.in_loop != 0 { sum.scalars } else { 0 };
        self.compute_sums_with(stream, false, &LabelledArgs { v, g, scalars, ..self.arguments })
    }

    /// Adds the values of each slot, and then the sums of the slots of each label. v is in f32 if
    /// `is_single_precision`, else in f64.
    fn compute_sums_with(&self, stream: &Stream, is_single_precision: bool, a: &LabelledArgs) -> Result<()> {
        launch::slot_sums(stream, is_single_precision, a)?;
        launch::label_sums(stream, a)
    }

    /// Computes v = v - mean(v) for each label. With `restores_mean`, also adds the mean that `store_means` stored.
    pub fn shift(&self, stream: &Stream, v: Address, restores_mean: bool) -> Result<()> {
        self.shift_with(stream, false, &LabelledArgs { v, restores_mean: i32::from(restores_mean), ..self.arguments })
    }

    /// Computes v = v - mean(v) for each label. v is in f32 if `is_single_precision`, else in f64.
    pub fn subtract_means(&self, stream: &Stream, v: Address, is_single_precision: bool) -> Result<()> {
        self.shift_with(stream, is_single_precision, &LabelledArgs { v, ..self.arguments })
    }

    fn shift_with(&self, stream: &Stream, is_single_precision: bool, a: &LabelledArgs) -> Result<()> {
        self.compute_sums_with(stream, is_single_precision, a)?;
        launch::shift_labelled(stream, is_single_precision, a)
    }

    /// Stores the means of v for a later `shift` with `restores_mean`.
    pub fn store_means(&self, stream: &Stream, v: Address) -> Result<()> {
        self.compute_sums(stream, v, 0, Sum::default())?;
        launch::store_means(stream, &self.arguments)
    }

    /// Returns the label with the largest |sum v| / sum |v|, and its sums of v and of |v|.
    pub fn find_worst_label(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        for summand_kind in [SummandKind::Values, SummandKind::Magnitudes] {
            self.compute_sums_with(
                stream,
                false,
                &LabelledArgs { v, summand_kind: summand_kind as i32, ..self.arguments },
            )?;
        }
        let labels = self.label_count();
        let values = self.fetch_totals(stream)?;
        let ratio =
            |k: usize| values[NUMBERS_PER_LABEL * k].abs() / values[NUMBERS_PER_LABEL * k + 1].max(f64::MIN_POSITIVE);
        let worst_label = (0..labels).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst_label, values[NUMBERS_PER_LABEL * worst_label], values[NUMBERS_PER_LABEL * worst_label + 1]))
    }

    /// Returns the sum over all labels of mean(v)^2 sum_i 1 / center_i, where i runs over the cells of the label.
    /// Overwrites the means, but not the means that `store_means` stored.
    pub fn norm2_of_means(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        self.compute_sums(stream, v, 0, Sum::default())?;
        self.compute_sums_with(
            stream,
            false,
            &LabelledArgs { v: center, summand_kind: SummandKind::Inverses as i32, ..self.arguments },
        )?;
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
