//! Sums over labelled cells (kernels/common/labelled.cuh), for singular components and for deflation regions.

use crate::cuda::arrays::Pool;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Added, Address, CHUNK, CellLabels, LabelledArgs, ListArgs, SEGMENT, ScanArgs, Sum};
use crate::error::{Result, reset};

/// Purpose of the allocations, for error messages.
const LABELS: &str = "cells by label";

/// Numbers per label: sum, sum of magnitudes, mean, and the mean that `keep` stored.
const NUMBERS: usize = 4;

/// Lists of cells by label on the device, and memory for sums over them.
pub struct Labelled {
    /// Two blocks of memory (kernels/common/labelled.cuh). The first one contains the lists by label and by chunk of
    /// cells, the second one the lists of slots and items. The second one has room for a number of slots that is
    /// rounded up to a power of two, so that other labels can reuse the memory.
    memory: [Memory; 2],
    /// Memory of the labels of the cells, if this object owns it.
    own: Option<Memory>,
    arguments: LabelledArgs,
    /// Host copy of the `NUMBERS` numbers of each label.
    seen: Vec<f64>,
}

impl Labelled {
    /// Lists the cells by label; `of` is the number of cells.
    pub fn new(pool: &mut Pool, stream: &Stream, of: usize, labels: CellLabels) -> Result<Self> {
        let count = labels.count as usize;
        let chunks = of.div_ceil(CHUNK as usize);
        let sizes = [8 * (chunks + 1), 4 * (count + 1), 8 * count, 8 * NUMBERS * count];
        let (of_labels, [chunk_slots, label_start, cells_of, totals]) = pool.lists(stream, sizes, LABELS)?;
        stream.fill(of_labels.address, 0, of_labels.bytes)?;
        let chunk_items = chunk_slots + 4 * (chunks as u64 + 1);
        let counted = ListArgs { labels, cells: of as i64, chunk_slots, chunk_items, ..Default::default() };
        launch::list_slots(stream, &counted)?;
        launch::scan(stream, &ScanArgs { values: chunk_slots, count: chunks as i64, arrays: 2 })?;
        // With a single label, each chunk of cells is one slot.
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
        let mut seen = Vec::new();
        reset(&mut seen, NUMBERS * count, LABELS)?;
        Ok(Self { memory: [of_labels, of_slots], own: None, arguments, seen })
    }

    /// Takes ownership of the memory of the labels of the cells.
    pub fn owning(self, labels: Memory) -> Self {
        Self { own: Some(labels), ..self }
    }

    /// Returns the memory to the pool.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        self.own.into_iter().chain(self.memory).try_for_each(|memory| pool.give(memory))
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

    /// Adds the cells of each slot, and then the slots of each label. v is in f32 if `short`, else in f64.
    fn sums_of(&self, stream: &Stream, short: bool, a: &LabelledArgs) -> Result<()> {
        launch::slot_sums(stream, short, a)?;
        launch::label_sums(stream, a)
    }

    /// Computes v = v - mean(v) for each label. With `restore`, also adds the mean that `keep` stored.
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
    pub fn keep(&self, stream: &Stream, v: Address) -> Result<()> {
        self.sums(stream, v, 0, Sum::default())?;
        launch::keep_means(stream, &self.arguments)
    }

    /// Returns the label with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        for added in [Added::Values, Added::Magnitudes] {
            self.sums_of(stream, false, &LabelledArgs { v, added: added as i32, ..self.arguments })?;
        }
        let labels = self.labels();
        let values = self.see(stream)?;
        let ratio = |k: usize| values[NUMBERS * k].abs() / values[NUMBERS * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..labels).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst, values[NUMBERS * worst], values[NUMBERS * worst + 1]))
    }

    /// Returns the sum over all labels of mean(v)^2 sum_i 1 / center_i, where i runs over the cells of the label.
    /// Overwrites the means, but not the means that `keep` stored.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        self.sums(stream, v, 0, Sum::default())?;
        self.sums_of(stream, false, &LabelledArgs { v: center, added: Added::Inverses as i32, ..self.arguments })?;
        Ok(self.see(stream)?.chunks(NUMBERS).map(|label| label[0]).sum())
    }

    /// Copies the numbers of all labels to the host, waits for the copy, and returns the numbers.
    fn see(&mut self, stream: &Stream) -> Result<&[f64]> {
        stream.fetch(&mut self.seen, self.arguments.totals)?;
        stream.wait()?;
        Ok(&self.seen)
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.own.iter().chain(&self.memory).map(|memory| memory.bytes).sum()
    }
}
