//! Assembly of a matrix: converts entries in any order to rows with ascending columns. Duplicates are added in the
//! caller's order, and explicit zeros are stored.

use crate::base::csr::{Csr, ROW_POINTERS_NAME, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::memory::check_available;
use crate::base::workers::{SliceSplitter, Workers, divide_lanes};
use crate::error::{Error, Location, RRB_ERR_NOT_FINITE, Result, reserve, zeroed};
use std::ops::Range;

/// Names of allocations in error messages.
const INDEX_ALLOCATION: &str = "indices of entries";
const VALUE_ALLOCATION: &str = "values of a matrix";

/// A matrix whose values are set from the values of the caller's entries.
pub struct AssembledMatrix<I> {
    pub csr: Csr<I>,
    /// For each of the caller's values, the index of its entry in `csr.val`. `None` if the caller's values have the
    /// order of `csr.val`.
    entry_positions: Option<Vec<usize>>,
    /// Number of the caller's values.
    pub input_count: usize,
}

/// Function that calls its argument with row and column of each entry, in the caller's order. Every call of the
/// function visits the same entries.
pub trait EntryVisitor: Fn(&mut dyn FnMut(usize, usize)) {}
impl<F: Fn(&mut dyn FnMut(usize, usize))> EntryVisitor for F {}

impl<I: Index> AssembledMatrix<I> {
    /// Builds the matrix with the pattern of the `input_count` entries that `visit_entries` visits. All values are
    /// zero.
    pub fn from_pattern(
        rows: usize,
        cols: usize,
        input_count: usize,
        visit_entries: impl EntryVisitor,
        workers: &mut Workers,
    ) -> Result<Self> {
        let (mut ptr, is_ascending) = row_pointers(rows, &visit_entries)?;
        let mut col = Vec::new();
        reserve(&mut col, input_count, INDEX_ALLOCATION)?;
        let entry_positions = if is_ascending {
            visit_entries(&mut |_, j| col.push(I::of(j)));
            None
        } else {
            Some(sort_and_merge(&mut ptr, &mut col, input_count, visit_entries, workers)?)
        };
        let val = zeroed(col.len(), VALUE_ALLOCATION)?;
        Ok(Self { csr: Csr { cols, ptr, col, val }, entry_positions, input_count })
    }

    /// Builds the matrix from rows. Row i has the entries `ptr[i]..ptr[i + 1]`. Entry k has the column `column_at(k)`
    /// and the value `values[k]`. `ptr` starts with 0 and ends with the number of values. Returns `None` if the columns
    /// of a row do not strictly ascend.
    pub fn from_ordered_rows(
        cols: usize,
        ptr: Vec<usize>,
        column_at: impl Fn(usize) -> usize + Sync,
        values: &[f64],
        workers: &mut Workers,
    ) -> Result<Option<Self>> {
        let count = values.len();
        let piece_count = workers.piece_count(count * (size_of::<I>() + size_of::<f64>()));
        let ascend =
            |mut rows: Range<usize>| rows.all(|i| (ptr[i] + 1..ptr[i + 1]).all(|k| column_at(k - 1) < column_at(k)));
        if workers.map(divide_lanes(&ptr, piece_count), ascend)?.contains(&false) {
            return Ok(None);
        }
        let col = workers.compute_values(count, INDEX_ALLOCATION, |k| I::of(column_at(k)))?;
        let val = workers.compute_values(count, VALUE_ALLOCATION, |k| values[k])?;
        Ok(Some(Self::from_csr(Csr { cols, ptr, col, val })))
    }

    /// Wraps a matrix that is already assembled. `set_values` then expects the values in the order of `csr.val`.
    pub fn from_csr(csr: Csr<I>) -> Self {
        Self { input_count: csr.val.len(), csr, entry_positions: None }
    }

    /// Returns the number of the caller's entries that repeat the position of an earlier entry.
    pub fn count_duplicates(&self) -> usize {
        self.input_count - self.csr.val.len()
    }

    /// For each of the caller's values, returns the index of its entry in `csr.val`. Returns `None` if the caller's
    /// values have the order of `csr.val`.
    pub fn entry_positions(&self) -> Option<&[usize]> {
        self.entry_positions.as_deref()
    }

    /// Sets the values of all entries from `values`, which are in the order of the caller's entries. Adds the values of
    /// duplicates. After an error, the values of the matrix are unchanged.
    pub fn set_values(&mut self, values: impl Iterator<Item = f64>) -> Result<()> {
        let Some(entry_positions) = &self.entry_positions else {
            self.csr.val.iter_mut().zip(values).for_each(|(target, value)| *target = value);
            return Ok(());
        };
        let mut entry_sums: Vec<f64> = zeroed(self.csr.val.len(), VALUE_ALLOCATION)?;
        // The sums start from -0, because -0 + v = v for every v, including -0.
        entry_sums.fill(-0.0);
        for (&position, value) in entry_positions.iter().zip(values) {
            entry_sums[position] += value;
        }
        if self.input_count > entry_sums.len()
            && let Some(k) = entry_sums.iter().position(|v| !v.is_finite())
        {
            let i = self.csr.ptr.partition_point(|&start| start <= k) - 1;
            let message_start = format!("duplicate values add up to {} at ", entry_sums[k]);
            let location = Location::node(0, i, self.csr.col[k].to_usize());
            return Err(Error::at(RRB_ERR_NOT_FINITE, message_start, location, "; all entries must be finite"));
        }
        self.csr.val = entry_sums;
        Ok(())
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let array_bytes = |len: usize, element_bytes: usize| len * element_bytes;
        let position_count = self.entry_positions.as_ref().map_or(0, Vec::capacity);
        let Csr { ptr, col, val, .. } = &self.csr;
        array_bytes(ptr.capacity() + position_count, size_of::<usize>())
            + array_bytes(col.capacity(), size_of::<I>())
            + array_bytes(val.capacity(), size_of::<f64>())
    }
}

/// Returns the row pointers, and whether the entries strictly ascend by row and column.
fn row_pointers(rows: usize, visit_entries: impl EntryVisitor) -> Result<(Vec<usize>, bool)> {
    let pointer_count = rows.checked_add(1).ok_or_else(|| Error::Dimension("too many rows".to_owned()))?;
    check_available(pointer_count as u128 * size_of::<usize>() as u128, ROW_POINTERS_NAME)?;
    let mut ptr: Vec<usize> = zeroed(pointer_count, ROW_POINTERS_NAME)?;
    let (mut previous, mut is_ascending) = (None, true);
    visit_entries(&mut |i, j| {
        ptr[i + 1] += 1;
        is_ascending &= previous < Some((i, j));
        previous = Some((i, j));
    });
    lengths_to_pointers(&mut ptr);
    Ok((ptr, is_ascending))
}

/// Sorts the entries of each row and merges duplicates. Converts `ptr` to the row pointers of the result, and appends
/// the columns to `col`. For each of the caller's entries, returns its index in `col`.
fn sort_and_merge<I: Index>(
    ptr: &mut [usize],
    col: &mut Vec<I>,
    input_count: usize,
    visit_entries: impl EntryVisitor,
    workers: &mut Workers,
) -> Result<Vec<usize>> {
    // Column and number of each entry, by rows. The entries are numbered in the caller's order.
    let mut entries: Vec<(I, usize)> = zeroed(input_count, INDEX_ALLOCATION)?;
    let mut entry_number = 0;
    visit_entries(&mut |i, j| {
        entries[ptr[i]] = (I::of(j), entry_number);
        (ptr[i], entry_number) = (ptr[i] + 1, entry_number + 1);
    });
    ends_to_pointers(ptr);
    sort_rows(ptr, &mut entries, workers)?;
    let mut entry_positions = zeroed(input_count, INDEX_ALLOCATION)?;
    let mut row_start = 0;
    for i in 0..ptr.len() - 1 {
        let row = &entries[row_start..ptr[i + 1]];
        row_start = ptr[i + 1];
        ptr[i] = col.len();
        for (k, &(j, entry_number)) in row.iter().enumerate() {
            if k == 0 || row[k - 1].0 != j {
                col.push(j);
            }
            entry_positions[entry_number] = col.len() - 1;
        }
    }
    if let Some(end) = ptr.last_mut() {
        *end = col.len();
    }
    Ok(entry_positions)
}

/// Sorts the pairs (column, entry number) of each row. Entry numbers are distinct, so the result is that of a stable
/// sort by columns.
fn sort_rows<T: Ord + Send>(ptr: &[usize], entries: &mut [T], workers: &mut Workers) -> Result<()> {
    let row_ranges = divide_lanes(ptr, workers.piece_count(size_of_val(entries)));
    let mut remaining_entries = SliceSplitter(entries);
    let row_blocks = row_ranges.map(|rows| {
        let row_ptr = &ptr[rows.start..=rows.end];
        (row_ptr, remaining_entries.take_front(row_ptr[rows.len()] - row_ptr[0]))
    });
    workers.for_each_piece(row_blocks, |(row_ptr, entries)| {
        let mut remaining_entries = SliceSplitter(entries);
        for row in row_ptr.windows(2) {
            remaining_entries.take_front(row[1] - row[0]).sort_unstable();
        }
    })
}

/// Entries in any order, as arrays of rows, columns and values.
#[derive(Default)]
pub struct Triplets<I> {
    pub rows: Vec<I>,
    pub cols: Vec<I>,
    pub values: Vec<f64>,
}

/// A range of [`Triplets`].
pub struct TripletSlices<'a, I> {
    pub rows: &'a mut [I],
    pub cols: &'a mut [I],
    pub values: &'a mut [f64],
}

impl<I: Index> Triplets<I> {
    /// Allocates capacity for `count` entries.
    pub fn with_capacity(count: usize) -> Result<Self> {
        let mut triplets = Self { rows: Vec::new(), cols: Vec::new(), values: Vec::new() };
        triplets.reserve(count)?;
        Ok(triplets)
    }

    /// Allocates `count` entries at (0, 0), to be overwritten.
    pub fn zeroed(count: usize) -> Result<Self> {
        Ok(Self {
            rows: zeroed(count, INDEX_ALLOCATION)?,
            cols: zeroed(count, INDEX_ALLOCATION)?,
            values: zeroed(count, VALUE_ALLOCATION)?,
        })
    }

    /// Returns a closure that divides the entries into consecutive ranges: each call returns the next `entry_count`
    /// entries.
    pub fn slice_splitter<'a>(&'a mut self) -> impl FnMut(usize) -> TripletSlices<'a, I> {
        let (mut rows, mut cols, mut values) = (&mut self.rows[..], &mut self.cols[..], &mut self.values[..]);
        move |entry_count| TripletSlices {
            rows: rows.split_off_mut(..entry_count).unwrap_or_default(),
            cols: cols.split_off_mut(..entry_count).unwrap_or_default(),
            values: values.split_off_mut(..entry_count).unwrap_or_default(),
        }
    }

    /// Allocates capacity for `count` more entries.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        reserve(&mut self.rows, count, INDEX_ALLOCATION)?;
        reserve(&mut self.cols, count, INDEX_ALLOCATION)?;
        reserve(&mut self.values, count, VALUE_ALLOCATION)
    }

    /// Appends an entry; the capacity must suffice.
    pub fn push(&mut self, i: usize, j: usize, value: f64) {
        self.rows.push(I::of(i));
        self.cols.push(I::of(j));
        self.values.push(value);
    }

    /// Builds the matrix of these entries. `AssembledMatrix::set_values` can later replace its values.
    pub fn assemble(&self, rows: usize, cols: usize, workers: &mut Workers) -> Result<AssembledMatrix<I>> {
        let visit_entries = |add: &mut dyn FnMut(usize, usize)| {
            self.rows.iter().zip(&self.cols).for_each(|(i, j)| add(i.to_usize(), j.to_usize()));
        };
        let mut matrix = AssembledMatrix::from_pattern(rows, cols, self.values.len(), visit_entries, workers)?;
        matrix.set_values(self.values.iter().copied())?;
        Ok(matrix)
    }

    /// Builds the matrix of these entries. If `mirror_factor` is set, adds a mirror image of each off-diagonal entry
    /// a_ij: an entry at (j, i) with the value `mirror_factor` * a_ij. Frees each array as soon as possible, so that
    /// reading a file needs little more memory than the matrix.
    pub fn into_csr(
        self,
        rows: usize,
        cols: usize,
        mirror_factor: Option<f64>,
        workers: &mut Workers,
    ) -> std::result::Result<Csr<I>, AssemblyError> {
        // The lowest bit of an entry number marks a mirror image. The other 31 bits of a u32 can number up to 2^31
        // entries.
        if self.values.len() < 1 << 31 {
            self.sum_duplicates::<u32>(rows, cols, mirror_factor, workers)
        } else {
            self.sum_duplicates::<u64>(rows, cols, mirror_factor, workers)
        }
    }

    /// Does the work of `into_csr`, with entry numbers of type N.
    fn sum_duplicates<N: Index>(
        self,
        rows: usize,
        cols: usize,
        mirror_factor: Option<f64>,
        workers: &mut Workers,
    ) -> std::result::Result<Csr<I>, AssemblyError> {
        let Self { rows: row_indices, cols: col_indices, values } = self;
        let visit_entries = |add: &mut dyn FnMut(usize, usize, usize)| {
            for (k, (i, j)) in row_indices.iter().zip(&col_indices).enumerate() {
                add(i.to_usize(), j.to_usize(), 2 * k);
                if mirror_factor.is_some() && i != j {
                    add(j.to_usize(), i.to_usize(), 2 * k + 1);
                }
            }
        };
        let (mut ptr, is_ascending) = row_pointers(rows, |add| visit_entries(&mut |i, j, _| add(i, j)))?;
        if is_ascending && ptr[rows] == values.len() {
            return Ok(Csr { cols, ptr, col: col_indices, val: values });
        }
        let mut entries: Vec<(I, N)> = zeroed(ptr[rows], INDEX_ALLOCATION)?;
        visit_entries(&mut |i, j, entry_number| {
            entries[ptr[i]] = (I::of(j), N::of(entry_number));
            ptr[i] += 1;
        });
        drop((row_indices, col_indices));
        ends_to_pointers(&mut ptr);
        sort_rows(&ptr, &mut entries, workers)?;
        merge_duplicates(cols, ptr, &entries, &values, mirror_factor.unwrap_or(1.0))
    }
}

/// Reason why the entries cannot be assembled.
pub enum AssemblyError {
    Library(Error),
    /// The sum of the duplicates at one position is not finite. `last_duplicate` is the index in the input of the last
    /// of these entries, `position` is its row and column in the input, and `sum` is the sum of the duplicates.
    InfiniteSum {
        last_duplicate: usize,
        position: [usize; 2],
        sum: f64,
    },
}

impl From<Error> for AssemblyError {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

/// Adds the entries with the same row and column. `entries` contains a pair (column, entry number) for each entry and
/// each mirror image, sorted within each row. The entry number is 2 k for entry k, and 2 k + 1 for the mirror image of
/// entry k.
fn merge_duplicates<I: Index, N: Index>(
    cols: usize,
    mut ptr: Vec<usize>,
    entries: &[(I, N)],
    values: &[f64],
    mirror_factor: f64,
) -> std::result::Result<Csr<I>, AssemblyError> {
    let (mut col, mut val) = (Vec::new(), Vec::new());
    reserve(&mut col, entries.len(), INDEX_ALLOCATION)?;
    reserve(&mut val, entries.len(), VALUE_ALLOCATION)?;
    let factor_of = |entry_number: N| if entry_number.to_usize().is_multiple_of(2) { 1.0 } else { mirror_factor };
    let mut row_start = 0;
    for i in 0..ptr.len() - 1 {
        let row = &entries[row_start..ptr[i + 1]];
        row_start = ptr[i + 1];
        ptr[i] = col.len();
        for duplicates in row.chunk_by(|a, b| a.0 == b.0) {
            // The sum starts from -0, because -0 + v = v for every v, including -0.
            let sum = duplicates.iter().fold(-0.0, |sum, &(_, n)| sum + factor_of(n) * values[n.to_usize() / 2]);
            let (j, last_duplicate) = duplicates[duplicates.len() - 1];
            if !sum.is_finite() {
                // Position in the input: if the last duplicate is a mirror image, row and column are exchanged.
                let position =
                    if last_duplicate.to_usize().is_multiple_of(2) { [i, j.to_usize()] } else { [j.to_usize(), i] };
                return Err(AssemblyError::InfiniteSum {
                    last_duplicate: last_duplicate.to_usize() / 2,
                    position,
                    sum: factor_of(last_duplicate) * sum,
                });
            }
            col.push(j);
            val.push(sum);
        }
    }
    if let Some(end) = ptr.last_mut() {
        *end = col.len();
    }
    Ok(Csr { cols, ptr, col, val })
}
