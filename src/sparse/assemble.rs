//! Assembly of a matrix: converts entries in any order to rows with ascending columns. Duplicates are added in the
//! caller's order, and explicit zeros are stored.

use crate::base::csr::{Csr, ROW_POINTERS, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::memory::check_available;
use crate::base::workers::{Parts, Workers, cut_lanes};
use crate::error::{Error, Place, RRB_ERR_NOT_FINITE, Result, reserve, zeroed};

/// Names of allocations in error messages.
const INDICES: &str = "indices of entries";
const VALUES: &str = "values of a matrix";

/// A matrix, and the position of each of the caller's values in the matrix.
pub struct Assembled<I> {
    pub csr: Csr<I>,
    /// For each of the caller's values, the index of its entry. `None` if the caller's values are already in the order
    /// of `csr.val`.
    positions: Option<Vec<usize>>,
    /// Number of the caller's values.
    pub given: usize,
}

/// Calls a visitor with row and column of each entry, in the caller's order. Each call lists the same entries.
pub trait Visit: Fn(&mut dyn FnMut(usize, usize)) {}
impl<F: Fn(&mut dyn FnMut(usize, usize))> Visit for F {}

impl<I: Index> Assembled<I> {
    /// Builds the pattern of `given` entries, which `visit` lists. All values are zero.
    pub fn pattern(rows: usize, cols: usize, given: usize, visit: impl Visit, workers: &mut Workers) -> Result<Self> {
        let (mut ptr, ascending) = row_pointers(rows, &visit)?;
        let mut col = Vec::new();
        reserve(&mut col, given, INDICES)?;
        let positions = if ascending {
            visit(&mut |_, j| col.push(I::of(j)));
            None
        } else {
            Some(sort_and_merge(&mut ptr, &mut col, given, visit, workers)?)
        };
        let val = zeroed(col.len(), VALUES)?;
        Ok(Self { csr: Csr { cols, ptr, col, val }, positions, given })
    }

    /// Creates the result from a complete matrix. `set_values` then expects the values in the order of `csr.val`.
    pub fn of_csr(csr: Csr<I>) -> Self {
        Self { given: csr.val.len(), csr, positions: None }
    }

    /// Returns the number of the caller's entries that repeat the position of an earlier entry.
    pub fn duplicates(&self) -> usize {
        self.given - self.csr.val.len()
    }

    /// Returns the index of the entry of each of the caller's values; `None` if their order is that of `csr.val`.
    pub fn positions(&self) -> Option<&[usize]> {
        self.positions.as_deref()
    }

    /// Sets the values of all entries, in the caller's order. After an error, the values are unchanged.
    pub fn set_values(&mut self, values: impl Iterator<Item = f64>) -> Result<()> {
        let Some(positions) = &self.positions else {
            self.csr.val.iter_mut().zip(values).for_each(|(to, value)| *to = value);
            return Ok(());
        };
        let mut sums: Vec<f64> = zeroed(self.csr.val.len(), VALUES)?;
        // The sums start from -0, because -0 + v = v for every v, including -0.
        sums.fill(-0.0);
        for (&position, value) in positions.iter().zip(values) {
            sums[position] += value;
        }
        if self.given > sums.len()
            && let Some(k) = sums.iter().position(|v| !v.is_finite())
        {
            let i = self.csr.ptr.partition_point(|&start| start <= k) - 1;
            let before = format!("duplicate values add up to {} at ", sums[k]);
            let place = Place::node(0, i, self.csr.col[k].at());
            return Err(Error::at(RRB_ERR_NOT_FINITE, before, place, "; all entries must be finite"));
        }
        self.csr.val = sums;
        Ok(())
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let of = |len: usize, width: usize| len * width;
        let positions = self.positions.as_ref().map_or(0, Vec::capacity);
        let Csr { ptr, col, val, .. } = &self.csr;
        of(ptr.capacity() + positions, size_of::<usize>())
            + of(col.capacity(), size_of::<I>())
            + of(val.capacity(), size_of::<f64>())
    }
}

/// Returns the row pointers, and whether the entries strictly ascend by row and column.
fn row_pointers(rows: usize, visit: impl Visit) -> Result<(Vec<usize>, bool)> {
    let pointers = rows.checked_add(1).ok_or_else(|| Error::Dimension("too many rows".to_owned()))?;
    check_available(pointers as u128 * size_of::<usize>() as u128, ROW_POINTERS)?;
    let mut ptr: Vec<usize> = zeroed(pointers, ROW_POINTERS)?;
    let (mut last, mut ascending) = (None, true);
    visit(&mut |i, j| {
        ptr[i + 1] += 1;
        ascending &= last < Some((i, j));
        last = Some((i, j));
    });
    lengths_to_pointers(&mut ptr);
    Ok((ptr, ascending))
}

/// Sorts the entries of each row and merges duplicates. Converts `ptr` to the row pointers of the result. Returns the
/// position of each of the caller's entries.
fn sort_and_merge<I: Index>(
    ptr: &mut [usize],
    col: &mut Vec<I>,
    given: usize,
    visit: impl Visit,
    workers: &mut Workers,
) -> Result<Vec<usize>> {
    // Column and number of each entry. The entries are counted in the caller's order.
    let mut entries: Vec<(I, usize)> = zeroed(given, INDICES)?;
    let mut number = 0;
    visit(&mut |i, j| {
        entries[ptr[i]] = (I::of(j), number);
        (ptr[i], number) = (ptr[i] + 1, number + 1);
    });
    ends_to_pointers(ptr);
    sort_rows(ptr, &mut entries, workers)?;
    let mut positions = zeroed(given, INDICES)?;
    let mut start = 0;
    for i in 0..ptr.len() - 1 {
        let row = &entries[start..ptr[i + 1]];
        start = ptr[i + 1];
        ptr[i] = col.len();
        for (k, &(j, number)) in row.iter().enumerate() {
            if k == 0 || row[k - 1].0 != j {
                col.push(j);
            }
            positions[number] = col.len() - 1;
        }
    }
    if let Some(end) = ptr.last_mut() {
        *end = col.len();
    }
    Ok(positions)
}

/// Sorts columns and numbers in each row. Numbers are distinct, so the result is that of a stable sort by columns.
fn sort_rows<T: Ord + Send>(ptr: &[usize], entries: &mut [T], workers: &mut Workers) -> Result<()> {
    let cut = cut_lanes(ptr, workers.pieces(size_of_val(entries)));
    let mut left = Parts(entries);
    let pieces = cut.map(|rows| {
        let ends = &ptr[rows.start..=rows.end];
        (ends, left.next(ends[rows.len()] - ends[0]))
    });
    workers.each(pieces, |(ends, entries)| {
        let mut left = Parts(entries);
        for row in ends.windows(2) {
            left.next(row[1] - row[0]).sort_unstable();
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
pub struct Part<'a, I> {
    pub rows: &'a mut [I],
    pub cols: &'a mut [I],
    pub values: &'a mut [f64],
}

impl<I: Index> Triplets<I> {
    /// Allocates capacity for `count` entries.
    pub fn with_room(count: usize) -> Result<Self> {
        let mut triplets = Self { rows: Vec::new(), cols: Vec::new(), values: Vec::new() };
        triplets.reserve(count)?;
        Ok(triplets)
    }

    /// Allocates `count` entries at (0, 0), to be overwritten.
    pub fn zeroed(count: usize) -> Result<Self> {
        Ok(Self { rows: zeroed(count, INDICES)?, cols: zeroed(count, INDICES)?, values: zeroed(count, VALUES)? })
    }

    /// Returns a function that splits off consecutive parts of the requested numbers of entries.
    pub fn parts<'a>(&'a mut self) -> impl FnMut(usize) -> Part<'a, I> {
        let (mut rows, mut cols, mut values) = (&mut self.rows[..], &mut self.cols[..], &mut self.values[..]);
        move |count| Part {
            rows: rows.split_off_mut(..count).unwrap_or_default(),
            cols: cols.split_off_mut(..count).unwrap_or_default(),
            values: values.split_off_mut(..count).unwrap_or_default(),
        }
    }

    /// Allocates capacity for `count` more entries.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        reserve(&mut self.rows, count, INDICES)?;
        reserve(&mut self.cols, count, INDICES)?;
        reserve(&mut self.values, count, VALUES)
    }

    /// Appends an entry; the capacity must suffice.
    pub fn push(&mut self, i: usize, j: usize, value: f64) {
        self.rows.push(I::of(i));
        self.cols.push(I::of(j));
        self.values.push(value);
    }

    /// Builds the matrix of these entries. `Assembled::set_values` can later replace its values.
    pub fn assembled(&self, rows: usize, cols: usize, workers: &mut Workers) -> Result<Assembled<I>> {
        let visit = |add: &mut dyn FnMut(usize, usize)| {
            self.rows.iter().zip(&self.cols).for_each(|(i, j)| add(i.at(), j.at()));
        };
        let mut matrix = Assembled::pattern(rows, cols, self.values.len(), visit, workers)?;
        matrix.set_values(self.values.iter().copied())?;
        Ok(matrix)
    }

    /// Builds the matrix of these entries. If `mirrored` is set, each off-diagonal entry a_ij also contributes its
    /// mirror image, `mirrored` * a_ij at (j, i). Frees each array as soon as possible, so that reading a file needs
    /// little more memory than the matrix.
    pub fn matrix(
        self,
        rows: usize,
        cols: usize,
        mirrored: Option<f64>,
        workers: &mut Workers,
    ) -> std::result::Result<Csr<I>, AssemblyError> {
        // The lowest bit of a number marks a mirror image. The other 31 bits of a u32 can number up to 2^31 entries.
        if self.values.len() < 1 << 31 {
            self.summed::<u32>(rows, cols, mirrored, workers)
        } else {
            self.summed::<u64>(rows, cols, mirrored, workers)
        }
    }

    fn summed<N: Index>(
        self,
        rows: usize,
        cols: usize,
        mirrored: Option<f64>,
        workers: &mut Workers,
    ) -> std::result::Result<Csr<I>, AssemblyError> {
        let Self { rows: of_row, cols: of_col, values } = self;
        let visit = |add: &mut dyn FnMut(usize, usize, usize)| {
            for (k, (i, j)) in of_row.iter().zip(&of_col).enumerate() {
                add(i.at(), j.at(), 2 * k);
                if mirrored.is_some() && i != j {
                    add(j.at(), i.at(), 2 * k + 1);
                }
            }
        };
        let (mut ptr, ascending) = row_pointers(rows, |add| visit(&mut |i, j, _| add(i, j)))?;
        if ascending && ptr[rows] == values.len() {
            return Ok(Csr { cols, ptr, col: of_col, val: values });
        }
        let mut entries: Vec<(I, N)> = zeroed(ptr[rows], INDICES)?;
        visit(&mut |i, j, number| {
            entries[ptr[i]] = (I::of(j), N::of(number));
            ptr[i] += 1;
        });
        drop((of_row, of_col));
        ends_to_pointers(&mut ptr);
        sort_rows(&ptr, &mut entries, workers)?;
        sums(cols, ptr, &entries, &values, mirrored.unwrap_or(1.0))
    }
}

/// Reason why the entries cannot be assembled.
pub enum AssemblyError {
    Library(Error),
    /// The duplicates at one position have no finite sum. `last` is the number of the last duplicate, `position` its
    /// row and column in the input, and `sum` the sum at this position.
    Sum {
        last: usize,
        position: [usize; 2],
        sum: f64,
    },
}

impl From<Error> for AssemblyError {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

/// Adds the entries at each position. `entries` contains a pair (column, number) for each entry and each mirror image,
/// sorted within each row. The number is 2 k for entry k, and 2 k + 1 for the mirror image of entry k.
fn sums<I: Index, N: Index>(
    cols: usize,
    mut ptr: Vec<usize>,
    entries: &[(I, N)],
    values: &[f64],
    mirrored: f64,
) -> std::result::Result<Csr<I>, AssemblyError> {
    let (mut col, mut val) = (Vec::new(), Vec::new());
    reserve(&mut col, entries.len(), INDICES)?;
    reserve(&mut val, entries.len(), VALUES)?;
    let factor = |number: N| if number.at().is_multiple_of(2) { 1.0 } else { mirrored };
    let mut start = 0;
    for i in 0..ptr.len() - 1 {
        let row = &entries[start..ptr[i + 1]];
        start = ptr[i + 1];
        ptr[i] = col.len();
        for duplicates in row.chunk_by(|a, b| a.0 == b.0) {
            // The sum starts from -0, because -0 + v = v for every v, including -0.
            let sum = duplicates.iter().fold(-0.0, |sum, &(_, n)| sum + factor(n) * values[n.at() / 2]);
            let (j, last) = duplicates[duplicates.len() - 1];
            if !sum.is_finite() {
                // Position in the input: for a mirror image, row and column are exchanged.
                let position = if last.at().is_multiple_of(2) { [i, j.at()] } else { [j.at(), i] };
                return Err(AssemblyError::Sum { last: last.at() / 2, position, sum: factor(last) * sum });
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
