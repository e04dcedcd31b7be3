//! Transfer between the device arrays of all ranks, which run on one host, and arrays of the whole grid on a device of
//! rank 0.
//!
//! Ranks export their memory with CUDA IPC. In the same call, rank 0 opens this memory, copies values, and closes it.
//! Programs may therefore free their arrays after the call.

use crate::abi::spaces::{ExportableMemory, ExportedMemory, HANDLE_BYTES, ImportedMemory, PrimaryContext, Rows};
use crate::base::heap::FallibleArc;
use crate::base::processes::{host_number, process_signature};
use crate::distributed::Gather;
use crate::distributed::box_transfer::{Boxes, MATRIX_ARRAY_NAMES};
use crate::distributed::boxes::GridBox;
use crate::error::{Error, Result, collected, extend, push};
use crate::rrb::entries::box_arrays::CallArrays;
use crate::rrb::ranks::{ROOT, Ranks};
use crate::stencil::matrix::{GridArray, StencilView};
use std::sync::Arc;

/// Name of the memory in error messages about failed allocations.
const ROWS_ALLOCATION: &str = "rows of all ranks on a device";

/// Values of `array_kind`: the arrays of a matrix, or the input and output vectors of a call.
pub const MATRIX_ARRAYS: usize = 0;
pub const VECTOR_ARRAYS: usize = 1;

/// Number of words (64 bits) at the start of a rank's message. The first word states whether the rank has arrays, and
/// whether their export succeeded: `NO_ARRAYS`, `NOT_EXPORTED` or `EXPORTED`. The process signature and the host number
/// follow.
const HEADER_WORDS: usize = 3;
const NO_ARRAYS: u64 = 0;
const NOT_EXPORTED: u64 = 1;
const EXPORTED: u64 = 2;

/// Number of words per array of a box: leading dimension, address, offset, and IPC handle.
const ARRAY_WORDS: usize = 3 + HANDLE_BYTES / 8;

/// Arrays of the whole grid on a device of rank 0, to which the arrays of all ranks are copied.
pub struct DeviceRows {
    boxes: FallibleArc<Boxes>,
    rank: usize,
    word_gathers: [Gather; 2],
    /// Number of arrays per box, for a matrix and for vectors.
    array_counts: [usize; 2],
    context: Option<Arc<PrimaryContext>>,
    grids: [Vec<ExportableMemory>; 2],
    open_boxes: Vec<OpenBox>,
}

/// A box of a rank during a call, with the addresses at which rank 0 accesses the arrays of the box, and the leading
/// dimensions of these arrays.
struct OpenBox {
    grid_box: GridBox,
    arrays: Vec<Rows>,
    _memory: Vec<ImportedMemory>,
}

impl DeviceRows {
    /// Plans the exchange of messages for matrices of `array_count` arrays. Collective.
    pub fn new(ranks: &Ranks, array_count: usize) -> Result<Self> {
        let (comm, boxes) = ranks.comm_and_boxes();
        let array_counts = [array_count, 2];
        let plan_gather = |count: usize| {
            let word_count =
                (0..comm.size()).map(|rank| HEADER_WORDS + boxes.of_rank(rank).len() * count * ARRAY_WORDS);
            Gather::new(comm, &collected(word_count, ROWS_ALLOCATION)?)
        };
        Ok(Self {
            boxes: boxes.clone(),
            rank: comm.rank(),
            word_gathers: [plan_gather(array_counts[MATRIX_ARRAYS])?, plan_gather(array_counts[VECTOR_ARRAYS])?],
            array_counts,
            context: None,
            grids: [Vec::new(), Vec::new()],
            open_boxes: Vec::new(),
        })
    }

    /// Tries to open the arrays of all ranks in the process of rank 0, so that rank 0 can copy between these arrays and
    /// arrays on the device `ordinal`. Collective.
    ///
    /// Returns `false` if rank 0 cannot open the memory of some array. All arrays are then transferred through the
    /// host.
    pub fn open_arrays(
        &mut self,
        array_kind: usize,
        call_arrays: &CallArrays,
        ordinal: i64,
        ranks: &mut Ranks,
    ) -> Result<bool> {
        // If the boxes do not cover the grid, the host sets the matrix entries of the nodes outside all boxes.
        if array_kind == MATRIX_ARRAYS && !self.boxes.covers_grid() {
            return Ok(false);
        }
        let words = self.message_words(array_kind, call_arrays)?;
        let gathered_words = self.word_gathers[array_kind]
            .run(|out| out.iter_mut().zip(&words).for_each(|(out, &w)| *out = f64::from_bits(w)))?;
        let gathered_words = collected(gathered_words.iter().map(|word| word.to_bits()), ROWS_ALLOCATION)?;
        let header_starts = self.header_starts(array_kind);
        // Ranks without arrays are ignored.
        let nonempty_headers = header_starts
            .iter()
            .map(|&start| &gathered_words[start..][..HEADER_WORDS])
            .filter(|header| header[0] != NO_ARRAYS);
        let root_host = gathered_words[header_starts[ROOT] + 2];
        if root_host == 0
            || nonempty_headers.clone().next().is_none()
            || !nonempty_headers.clone().all(|header| header[0] == EXPORTED && header[2] == root_host)
        {
            return Ok(false);
        }
        let opening = if self.rank == ROOT {
            self.open_on_root(array_kind, ordinal, &gathered_words, &header_starts)
        } else {
            Ok(())
        };
        let is_refused = ranks.any_rank(opening.is_err())?;
        if is_refused {
            self.close();
            self.grids[array_kind].clear();
        }
        Ok(!is_refused)
    }

    /// Returns the index of the first word of each rank's message.
    fn header_starts(&self, array_kind: usize) -> Vec<usize> {
        let ranks = self.boxes.rank_count();
        let word_count =
            |rank: usize| HEADER_WORDS + self.boxes.of_rank(rank).len() * self.array_counts[array_kind] * ARRAY_WORDS;
        (0..ranks)
            .scan(0, |offset, rank| {
                let start = *offset;
                *offset += word_count(rank);
                Some(start)
            })
            .collect()
    }

    fn message_words(&self, array_kind: usize, call_arrays: &CallArrays) -> Result<Vec<u64>> {
        let box_count = self.boxes.of_rank(self.rank).len();
        let mut words = collected([NO_ARRAYS, process_signature(), host_number()], ROWS_ALLOCATION)?;
        if box_count == 0 {
            return Ok(words);
        }
        match export_arrays(call_arrays) {
            // All ranks pass the same number of arrays per box: otherwise, the call has already returned an error.
            Ok(arrays) if arrays.len() == box_count * self.array_counts[array_kind] * ARRAY_WORDS => {
                words[0] = EXPORTED;
                extend(&mut words, arrays, ROWS_ALLOCATION)?;
            }
            _ => words[0] = NOT_EXPORTED,
        }
        Ok(words)
    }

    /// Allocates the arrays of the whole grid on the device, and opens the arrays of all ranks.
    fn open_on_root(
        &mut self,
        array_kind: usize,
        ordinal: i64,
        gathered_words: &[u64],
        header_starts: &[usize],
    ) -> Result<()> {
        self.close();
        let is_usable = |context: &Arc<PrimaryContext>| i64::from(context.ordinal()) == ordinal && !context.was_reset();
        let usable_context = self.context.take().filter(is_usable);
        if usable_context.is_none() {
            self.grids = [Vec::new(), Vec::new()];
        }
        let context = usable_context.map_or_else(|| PrimaryContext::of(ordinal as i32), Ok)?;
        self.context = Some(context.clone());
        while self.grids[array_kind].len() < self.array_counts[array_kind] {
            let grid = context.allocate_zeroed(self.boxes.grid.nodes())?;
            push(&mut self.grids[array_kind], grid, ROWS_ALLOCATION)?;
        }
        for (rank, &start) in header_starts.iter().enumerate() {
            let is_own_process = gathered_words[start + 1] == process_signature();
            let mut words = gathered_words[start + HEADER_WORDS..].chunks_exact(ARRAY_WORDS);
            // The words are ordered by array, and for each array by box.
            let mut words_by_array = Vec::new();
            for _ in 0..self.array_counts[array_kind] {
                push(
                    &mut words_by_array,
                    collected(words.by_ref().take(self.boxes.of_rank(rank).len()), ROWS_ALLOCATION)?,
                    ROWS_ALLOCATION,
                )?;
            }
            for (box_index, &grid_box) in self.boxes.of_rank(rank).iter().enumerate() {
                let (mut arrays, mut memory) = (Vec::new(), Vec::new());
                for words_of_array in &words_by_array {
                    let box_words = words_of_array[box_index];
                    let mut address = box_words[1];
                    if !is_own_process {
                        let bytes: Vec<u8> =
                            box_words[3..].iter().flat_map(|box_words| box_words.to_le_bytes()).collect();
                        let handle = bytes.try_into().map_err(|_| Error::Internal("another handle".to_owned()))?;
                        let imported = context.open(&ExportedMemory { handle, offset: box_words[2] })?;
                        address = imported.address;
                        push(&mut memory, imported, ROWS_ALLOCATION)?;
                    }
                    push(&mut arrays, Rows { address, ld: box_words[0] as usize }, ROWS_ALLOCATION)?;
                }
                push(&mut self.open_boxes, OpenBox { grid_box, arrays, _memory: memory }, ROWS_ALLOCATION)?;
            }
        }
        Ok(())
    }

    /// Returns the device address of a gathered array.
    pub fn address(&self, array_kind: usize, array: usize) -> u64 {
        self.grids[array_kind][array].address
    }

    /// Gathers the matrix of all boxes and passes it to `work`. Only rank 0 may call this function.
    pub fn with_matrix<T>(&mut self, array_count: usize, work: impl FnOnce(&StencilView) -> Result<T>) -> Result<T> {
        let gathering = self.copy_from_boxes(MATRIX_ARRAYS, array_count);
        self.close();
        gathering?;
        let grid = self.boxes.grid;
        let view = |k: usize| {
            GridArray::on_device(MATRIX_ARRAY_NAMES[k], self.address(MATRIX_ARRAYS, k), grid, grid.nx, grid.nodes())
        };
        let corners = (array_count > 3).then(|| (view(3), view(4)));
        work(&StencilView { grid, center: view(0), east: view(1), north: view(2), corners })
    }

    /// Copies the arrays of all boxes to the gathered arrays. Only rank 0 may call this function.
    pub fn copy_from_boxes(&self, array_kind: usize, array_count: usize) -> Result<()> {
        (0..array_count).try_for_each(|array| self.copy_array(array_kind, array, true))
    }

    /// Copies a gathered array to the arrays of all boxes. Only rank 0 may call this function.
    pub fn copy_to_boxes(&self, array_kind: usize, array: usize) -> Result<()> {
        self.copy_array(array_kind, array, false)
    }

    fn copy_array(&self, array_kind: usize, array: usize, to_grids: bool) -> Result<()> {
        let Some(context) = &self.context else { return Ok(()) };
        let nx = self.boxes.grid.nx;
        let copying = self.open_boxes.iter().try_for_each(|open_box| {
            let [x, y] = open_box.grid_box.lower;
            let grid_rows = Rows { address: self.address(array_kind, array) + 8 * (y * nx + x) as u64, ld: nx };
            let (target, source) =
                if to_grids { (grid_rows, open_box.arrays[array]) } else { (open_box.arrays[array], grid_rows) };
            let extents = open_box.grid_box.extents();
            // SAFETY: the boxes are inside the grid. The ranks that own the boxes guarantee that the arrays hold the
            // values of their boxes. These ranks have exported the arrays for this call, and wait until the call ends.
            unsafe { context.copy_rows(target, source, extents.nx, extents.ny) }
        });
        // Even if one copy has failed, this function waits for the copies that have started.
        copying.and(context.wait())
    }

    /// Closes the arrays of all ranks.
    pub fn close(&mut self) {
        self.open_boxes.clear();
    }

    /// Returns the size of the gathered arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.grids.iter().flatten().map(|grid| grid.bytes).sum()
    }
}

/// Waits for the work on the caller's stream, then exports the arrays of this rank.
fn export_arrays(call_arrays: &CallArrays) -> Result<Vec<u64>> {
    let mut words = Vec::new();
    for (argument_index, argument) in call_arrays.arguments.iter().enumerate() {
        for (&array, layout) in argument.arrays.iter().zip(&call_arrays.boxes) {
            let not_on_device = || Error::Internal("an array of the host".to_owned());
            let ExportedMemory { handle, offset } = call_arrays
                .context_after_wait(argument_index, array)?
                .ok_or_else(not_on_device)?
                .export(array as u64)?;
            extend(&mut words, [layout.ld as u64, array as u64, offset], ROWS_ALLOCATION)?;
            let handle = handle.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            extend(&mut words, handle, ROWS_ALLOCATION)?;
        }
    }
    Ok(words)
}
