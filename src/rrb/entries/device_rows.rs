//! Transfer between the device arrays of all ranks on a host and whole grids on a device of rank 0.
//!
//! Ranks export their memory with CUDA IPC. In the same call, rank 0 opens this memory, copies values, and closes it.
//! Programs may therefore free their arrays after the call.

use crate::abi::spaces::{ExportableMemory, ExportedMemory, HANDLE_BYTES, ImportedMemory, PrimaryContext, Rows};
use crate::base::heap::Counted;
use crate::base::processes::{host_number, process_signature};
use crate::distributed::Gather;
use crate::distributed::box_transfer::{Boxes, NAMES};
use crate::distributed::boxes::GridBox;
use crate::error::{Error, Result, collected, extend, push};
use crate::rrb::entries::box_arrays::CallArrays;
use crate::rrb::ranks::{ROOT, Ranks};
use crate::stencil::matrix::{StencilView, View};
use std::sync::Arc;

/// Name of the memory in error messages about failed allocations.
const ROWS: &str = "rows of all ranks on a device";

/// Kind of arrays: those of a matrix, or input and output vectors.
pub const MATRIX: usize = 0;
pub const VECTORS: usize = 1;

/// Number of words at the start of a rank's message: state of the arrays, process number and host number.
const HEADER_WORDS: usize = 3;
const NO_ARRAYS: u64 = 0;
const NOT_EXPORTED: u64 = 1;
const EXPORTED: u64 = 2;

/// Number of words per array of a box: leading dimension, address, offset, and IPC handle.
const ARRAY_WORDS: usize = 3 + HANDLE_BYTES / 8;

/// Grids on a device of rank 0 that hold the arrays of all ranks.
pub struct DeviceRows {
    boxes: Counted<Boxes>,
    rank: usize,
    offers: [Gather; 2],
    /// Number of arrays per box, for a matrix and for vectors.
    counts: [usize; 2],
    context: Option<Arc<PrimaryContext>>,
    rows: [Vec<ExportableMemory>; 2],
    opened: Vec<OpenBox>,
}

/// A box of a rank during a call: addresses of its arrays on rank 0, and their leading dimensions.
struct OpenBox {
    place: GridBox,
    arrays: Vec<Rows>,
    _memory: Vec<ImportedMemory>,
}

impl DeviceRows {
    /// Creates the gather plans for matrices of `arrays` arrays. Collective.
    pub fn new(ranks: &Ranks, arrays: usize) -> Result<Self> {
        let (comm, boxes) = ranks.parts();
        let counts = [arrays, 2];
        let plan = |count: usize| {
            let words = (0..comm.size()).map(|rank| HEADER_WORDS + boxes.of(rank).len() * count * ARRAY_WORDS);
            Gather::new(comm, &collected(words, ROWS)?)
        };
        Ok(Self {
            boxes: boxes.clone(),
            rank: comm.rank(),
            offers: [plan(counts[MATRIX])?, plan(counts[VECTORS])?],
            counts,
            context: None,
            rows: [Vec::new(), Vec::new()],
            opened: Vec::new(),
        })
    }

    /// Tries to open the arrays of all ranks on rank 0, for grids on the device `ordinal`. Collective.
    ///
    /// Returns `false` if rank 0 cannot open the memory of some array. All arrays are then transferred through the
    /// host.
    pub fn open_arrays(&mut self, what: usize, own: &CallArrays, ordinal: i64, ranks: &mut Ranks) -> Result<bool> {
        // If the boxes do not cover the grid, the values of the other nodes are filled in on the host.
        if what == MATRIX && !self.boxes.is_whole() {
            return Ok(false);
        }
        let words = self.words_of(what, own)?;
        let all = self.offers[what].run(|to| to.iter_mut().zip(&words).for_each(|(to, &w)| *to = f64::from_bits(w)))?;
        let all = collected(all.iter().map(|word| word.to_bits()), ROWS)?;
        let header_starts = self.header_starts(what);
        // Ranks without arrays are ignored.
        let with_arrays =
            header_starts.iter().map(|&start| &all[start..][..HEADER_WORDS]).filter(|header| header[0] != NO_ARRAYS);
        let here = all[header_starts[ROOT] + 2];
        if here == 0
            || with_arrays.clone().next().is_none()
            || !with_arrays.clone().all(|header| header[0] == EXPORTED && header[2] == here)
        {
            return Ok(false);
        }
        let opened = if self.rank == ROOT { self.open(what, ordinal, &all, &header_starts) } else { Ok(()) };
        let refused = ranks.any(opened.is_err())?;
        if refused {
            self.close();
            self.rows[what].clear();
        }
        Ok(!refused)
    }

    /// Returns the index of the first word of each rank's message.
    fn header_starts(&self, what: usize) -> Vec<usize> {
        let ranks = self.boxes.ranks();
        let words = |rank: usize| HEADER_WORDS + self.boxes.of(rank).len() * self.counts[what] * ARRAY_WORDS;
        (0..ranks)
            .scan(0, |at, rank| {
                let start = *at;
                *at += words(rank);
                Some(start)
            })
            .collect()
    }

    fn words_of(&self, what: usize, own: &CallArrays) -> Result<Vec<u64>> {
        let boxes = self.boxes.of(self.rank).len();
        let mut words = collected([NO_ARRAYS, process_signature(), host_number()], ROWS)?;
        if boxes == 0 {
            return Ok(words);
        }
        match exported(own) {
            // All ranks have the same number of arrays: a rank with another number has already returned an error.
            Ok(arrays) if arrays.len() == boxes * self.counts[what] * ARRAY_WORDS => {
                words[0] = EXPORTED;
                extend(&mut words, arrays, ROWS)?;
            }
            _ => words[0] = NOT_EXPORTED,
        }
        Ok(words)
    }

    /// Allocates the grids on the device and opens the arrays of all ranks.
    fn open(&mut self, what: usize, ordinal: i64, all: &[u64], header_starts: &[usize]) -> Result<()> {
        self.close();
        let is_same = |context: &Arc<PrimaryContext>| i64::from(context.ordinal()) == ordinal && !context.was_reset();
        let known = self.context.take().filter(is_same);
        if known.is_none() {
            self.rows = [Vec::new(), Vec::new()];
        }
        let context = known.map_or_else(|| PrimaryContext::of(ordinal as i32), Ok)?;
        self.context = Some(context.clone());
        while self.rows[what].len() < self.counts[what] {
            let rows = context.allocate_zeroed(self.boxes.grid.nodes())?;
            push(&mut self.rows[what], rows, ROWS)?;
        }
        for (rank, &start) in header_starts.iter().enumerate() {
            let is_here = all[start + 1] == process_signature();
            let mut words = all[start + HEADER_WORDS..].chunks_exact(ARRAY_WORDS);
            // The words are ordered by array, and for each array by box.
            let mut lists = Vec::new();
            for _ in 0..self.counts[what] {
                push(&mut lists, collected(words.by_ref().take(self.boxes.of(rank).len()), ROWS)?, ROWS)?;
            }
            for (k, &place) in self.boxes.of(rank).iter().enumerate() {
                let (mut arrays, mut memory) = (Vec::new(), Vec::new());
                for list in &lists {
                    let word = list[k];
                    let mut address = word[1];
                    if !is_here {
                        let bytes: Vec<u8> = word[3..].iter().flat_map(|word| word.to_le_bytes()).collect();
                        let handle = bytes.try_into().map_err(|_| Error::Internal("another handle".to_owned()))?;
                        let opened = context.open(&ExportedMemory { handle, offset: word[2] })?;
                        address = opened.address;
                        push(&mut memory, opened, ROWS)?;
                    }
                    push(&mut arrays, Rows { address, ld: word[0] as usize }, ROWS)?;
                }
                push(&mut self.opened, OpenBox { place, arrays, _memory: memory }, ROWS)?;
            }
        }
        Ok(())
    }

    /// Returns the device address of a gathered array.
    pub fn address(&self, what: usize, array: usize) -> u64 {
        self.rows[what][array].address
    }

    /// Gathers the matrix of all boxes and passes it to `work`. Only rank 0 may call this function.
    pub fn matrix<T>(&mut self, arrays: usize, work: impl FnOnce(&StencilView) -> Result<T>) -> Result<T> {
        let brought = self.copy_from_boxes(MATRIX, arrays);
        self.close();
        brought?;
        let grid = self.boxes.grid;
        let view = |k: usize| View::on_device(NAMES[k], self.address(MATRIX, k), grid, grid.nx, grid.nodes());
        let corners = (arrays > 3).then(|| (view(3), view(4)));
        work(&StencilView { grid, center: view(0), east: view(1), north: view(2), corners })
    }

    /// Copies the arrays of all boxes to the gathered arrays. Only rank 0 may call this function.
    pub fn copy_from_boxes(&self, what: usize, arrays: usize) -> Result<()> {
        (0..arrays).try_for_each(|array| self.copy(what, array, true))
    }

    /// Copies a gathered array to the arrays of all boxes. Only rank 0 may call this function.
    pub fn copy_to_boxes(&self, what: usize, array: usize) -> Result<()> {
        self.copy(what, array, false)
    }

    fn copy(&self, what: usize, array: usize, send_to_rows: bool) -> Result<()> {
        let Some(context) = &self.context else { return Ok(()) };
        let nx = self.boxes.grid.nx;
        let copied = self.opened.iter().try_for_each(|open| {
            let [x, y] = open.place.lower;
            let rows = Rows { address: self.address(what, array) + 8 * (y * nx + x) as u64, ld: nx };
            let (to, from) = if send_to_rows { (rows, open.arrays[array]) } else { (open.arrays[array], rows) };
            let extents = open.place.extents();
            // SAFETY: the boxes are inside the grid. Their owners guarantee arrays with these values, exported them for
            // this call, and wait until it ends.
            unsafe { context.copy_rows(to, from, extents.nx, extents.ny) }
        });
        // If one copy failed, the call still waits for those that have started.
        copied.and(context.wait())
    }

    /// Closes the arrays of the other ranks.
    pub fn close(&mut self) {
        self.opened.clear();
    }

    /// Returns the size of the gathered arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(|rows| rows.bytes).sum()
    }
}

/// Waits for the work on the caller's stream, then exports the arrays of this rank.
fn exported(own: &CallArrays) -> Result<Vec<u64>> {
    let mut words = Vec::new();
    for (k, argument) in own.arguments.iter().enumerate() {
        for (&array, b) in argument.arrays.iter().zip(&own.boxes) {
            let keeps = || Error::Internal("an array of the host".to_owned());
            let ExportedMemory { handle, offset } =
                own.context_after_wait(k, array)?.ok_or_else(keeps)?.export(array as u64)?;
            extend(&mut words, [b.ld as u64, array as u64, offset], ROWS)?;
            let handle = handle.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            extend(&mut words, handle, ROWS)?;
        }
    }
    Ok(words)
}
