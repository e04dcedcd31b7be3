//! Builds a matrix from the arrays of any format, the inverse of `Stored::write`. All arrays are validated. In coo,
//! csr, csc, jds and tjds, zeros are entries. In the other formats, zeros may be padding and are omitted.

use super::assemble::Triplets;
use super::checks::{check_indices, check_pointers, invalid_entry_error};
use super::entry_arrays::{EntryArrays, EntryLayout};
use super::matrix::{Matrix, MatrixIndex};
use super::stored::InputArrays;
use crate::base::heap::boxed;
use crate::base::index::{Index, Indices, fits_u32};
use crate::base::workers::Workers;
use crate::error::{Error, Location, Result, zeroed};
use crate::options::{Choice, Format, MAX_BLOCK_ROWS, MAX_SLICE_ROWS};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a check of a permutation";

/// Validates the arrays of a format, and builds their matrix.
pub fn import_matrix(
    format: Format,
    rows: usize,
    cols: usize,
    input: &InputArrays,
    workers: &mut Workers,
) -> Result<Box<dyn Matrix>> {
    let arrays = FormatArrays { format, rows, cols, input };
    let layout = match format {
        Format::Auto => {
            return Err(Error::range("format", format.name(), "be one of the formats that auto selects from"));
        }
        Format::Coo => EntryLayout::Coordinates,
        Format::Csr => EntryLayout::Rows,
        Format::Csc => EntryLayout::Columns,
        _ if fits_u32(rows, cols) => return arrays.matrix::<u32>(workers),
        _ => return arrays.matrix::<u64>(workers),
    };
    let value_count = input.values.len();
    arrays.check_lengths([[value_count, rows + 1, cols + 1][layout as usize], value_count, 0])?;
    let [first_indices, second_indices] = [input.i0, input.i1].map(Indices::Int64);
    EntryArrays { rows, cols, layout, first_indices, second_indices, index_base: 0 }.matrix(input.values, workers)
}

/// Arrays of a format other than coo, csr and csc.
struct FormatArrays<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    input: &'a InputArrays<'a>,
}

impl FormatArrays<'_> {
    /// Reads the entries of the arrays, and builds the matrix with indices of type I.
    fn matrix<I: MatrixIndex>(&self, workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        let mut sink =
            EntrySink { triplets: Triplets::<I>::with_capacity(self.input.values.len())?, values: self.input.values };
        match self.format {
            Format::Bsr => self.read_bsr(&mut sink)?,
            Format::Dia => self.read_dia(&mut sink)?,
            Format::Ell => self.read_ell(&mut sink)?,
            Format::Sell => self.read_sell(&mut sink)?,
            Format::Jds => self.read_jds(self.rows, self.cols, |i, j, k| sink.add(i, j, k))?,
            Format::Tjds => self.read_jds(self.cols, self.rows, |j, i, k| sink.add(i, j, k))?,
            Format::Skyline => self.read_skyline(&mut sink)?,
            _ => self.read_diagonal(&mut sink)?,
        }
        Ok(boxed(sink.triplets.assemble(self.rows, self.cols, workers)?, "a matrix")?)
    }

    /// Checks the lengths of the arrays i0, i1 and i2.
    fn check_lengths(&self, expected_lengths: [usize; 3]) -> Result<()> {
        let InputArrays { i0, i1, i2, values } = *self.input;
        let actual_lengths = [i0.len(), i1.len(), i2.len()];
        if actual_lengths == expected_lengths {
            return Ok(());
        }
        let ([a, b, c], [d, e, f], count) = (expected_lengths, actual_lengths, values.len());
        self.size_error(format!(
            "{} x {} with {count} values has arrays of {a}, {b} and {c} entries, got {d}, {e} and {f}",
            self.rows, self.cols
        ))
    }

    /// Returns an error about inconsistent sizes.
    fn size_error(&self, message: String) -> Result<()> {
        Err(Error::Dimension(format!("format={}: {message}", self.format.name())))
    }

    fn read_bsr<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        let InputArrays { i0: ptr, i1: col, values, .. } = *self.input;
        let block_count = col.len();
        let is_block_size = |b: &usize| block_count * b * b == values.len() && self.rows.div_ceil(*b) + 1 == ptr.len();
        let Some(b) = (1..=MAX_BLOCK_ROWS).find(is_block_size) else {
            let (rows, len) = (self.rows, ptr.len());
            return self.size_error(format!(
                "no b up to {MAX_BLOCK_ROWS} has b * b * {block_count} = {} values and {rows} / b + 1 = {len} pointers",
                values.len()
            ));
        };
        self.check_lengths([ptr.len(), block_count, 0])?;
        check_pointers("i0", Indices::Int64(ptr), 0, block_count)?;
        check_indices("i1", Indices::Int64(col), 0, self.cols.div_ceil(b))?;
        for (block_row, range) in ptr.windows(2).enumerate() {
            for (k, value_index) in (range[0] as usize * b * b..range[1] as usize * b * b).enumerate() {
                let block = range[0] as usize + k / (b * b);
                let (i, j) = (block_row * b + value_index / b % b, col[block] as usize * b + value_index % b);
                if i < self.rows && j < self.cols {
                    sink.add_unless_zero(i, j, value_index)?;
                }
            }
        }
        Ok(())
    }

    fn read_dia<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        let InputArrays { i0: offset, values, .. } = *self.input;
        self.check_lengths([offset.len(), 0, 0])?;
        if offset.len().checked_mul(self.rows) != Some(values.len()) {
            return self.size_error(format!(
                "{} diagonals of {} rows, got {} values",
                offset.len(),
                self.rows,
                values.len()
            ));
        }
        for (d, &distance) in offset.iter().enumerate() {
            if distance <= -(self.rows as i64) || distance >= self.cols as i64 {
                return Err(invalid_entry_error(
                    "i0",
                    d,
                    format!("lie in ({}, {})", -(self.rows as i64), self.cols),
                    distance,
                ));
            }
            if d > 0 && distance <= offset[d - 1] {
                return Err(invalid_entry_error(
                    "i0",
                    d,
                    format!("be above the previous one, {}", offset[d - 1]),
                    distance,
                ));
            }
            for i in 0..self.rows {
                let j = i as i64 + distance;
                if (0..self.cols as i64).contains(&j) {
                    sink.add_unless_zero(i, j as usize, d * self.rows + i)?;
                }
            }
        }
        Ok(())
    }

    fn read_ell<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        let InputArrays { i0: col, values, .. } = *self.input;
        self.check_lengths([values.len(), 0, 0])?;
        if values.len() != values.len() / self.rows.max(1) * self.rows {
            return self.size_error(format!("slots of {} rows each, got {} values", self.rows, values.len()));
        }
        check_indices("i0", Indices::Int64(col), 0, self.cols)?;
        for (k, &j) in col.iter().enumerate() {
            sink.add_unless_zero(k % self.rows, j as usize, k)?;
        }
        Ok(())
    }

    fn read_sell<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        let InputArrays { i0: perm, i1: offset, i2: col, values } = *self.input;
        let slice_count = offset.len().saturating_sub(1);
        let slice_rows = perm.len() / slice_count.max(1);
        let lengths_match = offset.len() == slice_count + 1
            && perm.len() == slice_count * slice_rows
            && slice_count == self.rows.div_ceil(slice_rows.max(1));
        if !lengths_match || slice_rows > MAX_SLICE_ROWS || slice_rows == 0 && self.rows > 0 {
            return self.size_error(format!(
                "slices of C rows, C in [1, {MAX_SLICE_ROWS}], have C rows in i0 and an offset in i1 each, and one \
                 more; got {} and {} for {} rows",
                perm.len(),
                offset.len(),
                self.rows
            ));
        }
        self.check_lengths([perm.len(), offset.len(), values.len()])?;
        self.check_permutation(perm, self.rows, true)?;
        check_pointers("i1", Indices::Int64(offset), 0, values.len())?;
        check_indices("i2", Indices::Int64(col), 0, self.cols)?;
        for s in 0..slice_count {
            let (slice_start, slice_end) = (offset[s] as usize, offset[s + 1] as usize);
            if !(slice_end - slice_start).is_multiple_of(slice_rows) {
                return Err(invalid_entry_error(
                    "i1",
                    s + 1,
                    format!("be a multiple of {slice_rows} above the previous one"),
                    slice_end as i64,
                ));
            }
            for k in slice_start..slice_end {
                // Positions after the last row hold only padding.
                if let Ok(i) = usize::try_from(perm[s * slice_rows + (k - slice_start) % slice_rows]) {
                    sink.add_unless_zero(i, col[k] as usize, k)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the arrays of jds or tjds. In jds, outer indices are rows and inner indices are columns; in tjds, outer
    /// indices are columns and inner indices are rows. The extents are `outer_count` and `inner_count`. For each value
    /// k, calls `add_entry` with the outer index, the inner index, and k.
    fn read_jds(
        &self,
        outer_count: usize,
        inner_count: usize,
        mut add_entry: impl FnMut(usize, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let InputArrays { i0: perm, i1: ptr, i2: inner_indices, values } = *self.input;
        self.check_lengths([outer_count, ptr.len().max(1), values.len()])?;
        self.check_permutation(perm, outer_count, false)?;
        check_pointers("i1", Indices::Int64(ptr), 0, values.len())?;
        check_indices("i2", Indices::Int64(inner_indices), 0, inner_count)?;
        let mut previous_len = outer_count as i64;
        for d in 0..ptr.len() - 1 {
            let len = ptr[d + 1] - ptr[d];
            if len > previous_len {
                return Err(invalid_entry_error(
                    "i1",
                    d + 1,
                    format!("be at most {previous_len} above the previous one"),
                    ptr[d + 1],
                ));
            }
            previous_len = len;
            let start = ptr[d] as usize;
            for (k, outer) in perm[..len as usize].iter().enumerate() {
                add_entry(*outer as usize, inner_indices[start + k] as usize, start + k)?;
            }
        }
        Ok(())
    }

    fn read_skyline<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        let InputArrays { i0: lower, i1: upper, values, .. } = *self.input;
        let n = self.rows;
        if n != self.cols {
            return self.size_error(format!("matrices must be square, got {n} x {}", self.cols));
        }
        let is_symmetric = upper.is_empty();
        self.check_lengths([n + 1, if is_symmetric { 0 } else { n + 1 }, 0])?;
        // The values of the strict upper triangle follow the values of the lower triangle.
        let lower_count = lower[n].clamp(0, values.len() as i64) as usize;
        check_pointers("i0", Indices::Int64(lower), 0, if is_symmetric { values.len() } else { lower_count })?;
        if is_symmetric {
            sink.triplets.reserve(2 * values.len())?;
        } else {
            check_pointers("i1", Indices::Int64(upper), 0, values.len() - lower_count)?;
        }
        for i in 0..n {
            let (start, end) = (lower[i] as usize, lower[i + 1] as usize);
            if end == start || end - start > i + 1 {
                return Err(invalid_entry_error(
                    "i0",
                    i + 1,
                    format!("be 1 to {} above the previous one", i + 1),
                    end as i64,
                ));
            }
            for k in start..end {
                let j = i + 1 - (end - k);
                sink.add_unless_zero(i, j, k)?;
                if is_symmetric && j < i {
                    sink.add_unless_zero(j, i, k)?;
                }
            }
        }
        for j in 0..upper.len().saturating_sub(1) {
            let (start, end) = (upper[j] as usize, upper[j + 1] as usize);
            if end - start > j {
                return Err(invalid_entry_error(
                    "i1",
                    j + 1,
                    format!("be at most {j} above the previous one"),
                    end as i64,
                ));
            }
            (start..end).try_for_each(|k| sink.add_unless_zero(j - (end - k), j, lower_count + k))?;
        }
        Ok(())
    }

    fn read_diagonal<I: Index>(&self, sink: &mut EntrySink<I>) -> Result<()> {
        self.check_lengths([0, 0, 0])?;
        let (count, expected_count) = (self.input.values.len(), self.rows.min(self.cols));
        if count != expected_count {
            return self.size_error(format!("{} x {} has {expected_count} values, got {count}", self.rows, self.cols));
        }
        (0..count).try_for_each(|i| sink.add_unless_zero(i, i, i))
    }

    /// Checks that each of the numbers 0, ..., `number_count` - 1 occurs once in `perm`. If `allows_padding` is true,
    /// values of -1 may follow these numbers.
    fn check_permutation(&self, perm: &[i64], number_count: usize, allows_padding: bool) -> Result<()> {
        let mut has_occurred: Vec<bool> = zeroed(number_count, ALLOCATION_NAME)?;
        for (k, &index) in perm.iter().enumerate() {
            if allows_padding && index == -1 && k >= number_count {
                continue;
            }
            match usize::try_from(index).ok().and_then(|index| has_occurred.get_mut(index)) {
                Some(occurred) if !*occurred => *occurred = true,
                Some(_) => return Err(invalid_entry_error("i0", k, "occur once", index)),
                None => return Err(invalid_entry_error("i0", k, format!("lie in [0, {})", number_count), index)),
            }
        }
        Ok(())
    }
}

/// The entries read so far, and the caller's values.
struct EntrySink<'a, I> {
    triplets: Triplets<I>,
    values: &'a [f64],
}

impl<I: Index> EntrySink<'_, I> {
    /// Appends the entry (i, j) with the value `values[k]`.
    fn add(&mut self, i: usize, j: usize, k: usize) -> Result<()> {
        let value = self.values[k];
        if !value.is_finite() {
            return Err(Error::not_finite("values", value, Location::entry(k)));
        }
        self.triplets.push(i, j, value);
        Ok(())
    }

    /// Appends the entry (i, j) with the value `values[k]`, unless this value is zero. A zero may be padding.
    fn add_unless_zero(&mut self, i: usize, j: usize, k: usize) -> Result<()> {
        if self.values[k] == 0.0 { Ok(()) } else { self.add(i, j, k) }
    }
}
