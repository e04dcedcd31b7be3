//! Builds a matrix from the arrays of any format, the inverse of `Stored::write`. All arrays are validated. Zeros
//! are entries in coo, csr, csc, jds and tjds. In the other formats they may be padding, and are omitted.

use super::assemble::Triplets;
use super::checks::{check_indices, check_pointers, wrong};
use super::given::{Entries, Order};
use super::matrix::{Matrix, Width};
use super::stored::InputArrays;
use crate::base::heap::boxed;
use crate::base::index::{Index, Indices, is_narrow};
use crate::base::workers::Workers;
use crate::error::{Error, Place, Result, zeroed};
use crate::options::{Choice, Format, MOST_BLOCK_ROWS, MOST_SLICE_ROWS};

/// Name of an allocation in error messages.
const PERMUTATION: &str = "a check of a permutation";

/// Validates the arrays of a format, and builds their matrix.
pub fn import(
    format: Format,
    rows: usize,
    cols: usize,
    given: &InputArrays,
    workers: &mut Workers,
) -> Result<Box<dyn Matrix>> {
    let arrays = Arrays { format, rows, cols, given };
    let order = match format {
        Format::Auto => {
            return Err(Error::range("format", format.name(), "be one of the formats that auto selects from"));
        }
        Format::Coo => Order::Coordinates,
        Format::Csr => Order::Rows,
        Format::Csc => Order::Columns,
        _ if is_narrow(rows, cols) => return arrays.matrix::<u32>(workers),
        _ => return arrays.matrix::<u64>(workers),
    };
    let count = given.values.len();
    arrays.check_lengths([[count, rows + 1, cols + 1][order as usize], count, 0])?;
    let [first, second] = [given.i0, given.i1].map(Indices::Wide);
    Entries { rows, cols, order, first, second, base: 0 }.matrix(given.values, workers)
}

/// Arrays of a format other than coo, csr and csc.
struct Arrays<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    given: &'a InputArrays<'a>,
}

impl Arrays<'_> {
    fn matrix<I: Width>(&self, workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        let mut entries =
            Sink { triplets: Triplets::<I>::with_room(self.given.values.len())?, values: self.given.values };
        match self.format {
            Format::Bsr => self.bsr(&mut entries)?,
            Format::Dia => self.dia(&mut entries)?,
            Format::Ell => self.ell(&mut entries)?,
            Format::Sell => self.sell(&mut entries)?,
            Format::Jds => self.jds(self.rows, self.cols, |i, j, k| entries.add(i, j, k))?,
            Format::Tjds => self.jds(self.cols, self.rows, |j, i, k| entries.add(i, j, k))?,
            Format::Skyline => self.skyline(&mut entries)?,
            _ => self.diagonal(&mut entries)?,
        }
        Ok(boxed(entries.triplets.assembled(self.rows, self.cols, workers)?, "a matrix")?)
    }

    /// Checks the lengths of i0, i1 and i2.
    fn check_lengths(&self, must: [usize; 3]) -> Result<()> {
        let InputArrays { i0, i1, i2, values } = *self.given;
        let got = [i0.len(), i1.len(), i2.len()];
        if got == must {
            return Ok(());
        }
        let ([a, b, c], [d, e, f], count) = (must, got, values.len());
        self.misfit(format!(
            "{} x {} with {count} values has arrays of {a}, {b} and {c} entries, got {d}, {e} and {f}",
            self.rows, self.cols
        ))
    }

    /// Returns an error about inconsistent sizes.
    fn misfit(&self, message: String) -> Result<()> {
        Err(Error::Dimension(format!("format={}: {message}", self.format.name())))
    }

    fn bsr<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        let InputArrays { i0: ptr, i1: col, values, .. } = *self.given;
        let blocks = col.len();
        let whole = |b: &usize| blocks * b * b == values.len() && self.rows.div_ceil(*b) + 1 == ptr.len();
        let Some(b) = (1..=MOST_BLOCK_ROWS).find(whole) else {
            let (rows, len) = (self.rows, ptr.len());
            return self.misfit(format!(
                "no b up to {MOST_BLOCK_ROWS} has b * b * {blocks} = {} values and {rows} / b + 1 = {len} pointers",
                values.len()
            ));
        };
        self.check_lengths([ptr.len(), blocks, 0])?;
        check_pointers("i0", Indices::Wide(ptr), 0, blocks)?;
        check_indices("i1", Indices::Wide(col), 0, self.cols.div_ceil(b))?;
        for (block_row, range) in ptr.windows(2).enumerate() {
            for (k, at) in (range[0] as usize * b * b..range[1] as usize * b * b).enumerate() {
                let block = range[0] as usize + k / (b * b);
                let (i, j) = (block_row * b + at / b % b, col[block] as usize * b + at % b);
                if i < self.rows && j < self.cols {
                    to.add_unless_zero(i, j, at)?;
                }
            }
        }
        Ok(())
    }

    fn dia<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        let InputArrays { i0: offset, values, .. } = *self.given;
        self.check_lengths([offset.len(), 0, 0])?;
        if offset.len().checked_mul(self.rows) != Some(values.len()) {
            return self.misfit(format!(
                "{} diagonals of {} rows, got {} values",
                offset.len(),
                self.rows,
                values.len()
            ));
        }
        for (d, &o) in offset.iter().enumerate() {
            if o <= -(self.rows as i64) || o >= self.cols as i64 {
                return Err(wrong("i0", d, format!("lie in ({}, {})", -(self.rows as i64), self.cols), o));
            }
            if d > 0 && o <= offset[d - 1] {
                return Err(wrong("i0", d, format!("be above the previous one, {}", offset[d - 1]), o));
            }
            for i in 0..self.rows {
                let j = i as i64 + o;
                if (0..self.cols as i64).contains(&j) {
                    to.add_unless_zero(i, j as usize, d * self.rows + i)?;
                }
            }
        }
        Ok(())
    }

    fn ell<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        let InputArrays { i0: col, values, .. } = *self.given;
        self.check_lengths([values.len(), 0, 0])?;
        if values.len() != values.len() / self.rows.max(1) * self.rows {
            return self.misfit(format!("slots of {} rows each, got {} values", self.rows, values.len()));
        }
        check_indices("i0", Indices::Wide(col), 0, self.cols)?;
        for (k, &j) in col.iter().enumerate() {
            to.add_unless_zero(k % self.rows, j as usize, k)?;
        }
        Ok(())
    }

    fn sell<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        let InputArrays { i0: perm, i1: offset, i2: col, values } = *self.given;
        let slices = offset.len().saturating_sub(1);
        let slice = perm.len() / slices.max(1);
        let fits =
            offset.len() == slices + 1 && perm.len() == slices * slice && slices == self.rows.div_ceil(slice.max(1));
        if !fits || slice > MOST_SLICE_ROWS || slice == 0 && self.rows > 0 {
            return self.misfit(format!(
                "slices of C rows, C in [1, {MOST_SLICE_ROWS}], have C rows in i0 and an offset in i1 each, and one \
                 more; got {} and {} for {} rows",
                perm.len(),
                offset.len(),
                self.rows
            ));
        }
        self.check_lengths([perm.len(), offset.len(), values.len()])?;
        self.check_permutation(perm, self.rows, true)?;
        check_pointers("i1", Indices::Wide(offset), 0, values.len())?;
        check_indices("i2", Indices::Wide(col), 0, self.cols)?;
        for s in 0..slices {
            let (start, end) = (offset[s] as usize, offset[s + 1] as usize);
            if !(end - start).is_multiple_of(slice) {
                return Err(wrong("i1", s + 1, format!("be a multiple of {slice} above the previous one"), end as i64));
            }
            for k in start..end {
                // Positions after the last row hold only padding.
                if let Ok(i) = usize::try_from(perm[s * slice + (k - start) % slice]) {
                    to.add_unless_zero(i, col[k] as usize, k)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the arrays of jds or tjds. A lane is a row in jds and a column in tjds; `lanes` is their number. `others`
    /// is the number of columns in jds, and of rows in tjds. For each value, calls `add_entry` with the lane, the index
    /// of the column (jds) or row (tjds), and the position of the value in the array of values.
    fn jds(
        &self,
        lanes: usize,
        others: usize,
        mut add_entry: impl FnMut(usize, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let InputArrays { i0: perm, i1: ptr, i2: other, values } = *self.given;
        self.check_lengths([lanes, ptr.len().max(1), values.len()])?;
        self.check_permutation(perm, lanes, false)?;
        check_pointers("i1", Indices::Wide(ptr), 0, values.len())?;
        check_indices("i2", Indices::Wide(other), 0, others)?;
        let mut longest = lanes as i64;
        for d in 0..ptr.len() - 1 {
            let len = ptr[d + 1] - ptr[d];
            if len > longest {
                return Err(wrong("i1", d + 1, format!("be at most {longest} above the previous one"), ptr[d + 1]));
            }
            longest = len;
            let start = ptr[d] as usize;
            for (k, lane) in perm[..len as usize].iter().enumerate() {
                add_entry(*lane as usize, other[start + k] as usize, start + k)?;
            }
        }
        Ok(())
    }

    fn skyline<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        let InputArrays { i0: lower, i1: upper, values, .. } = *self.given;
        let n = self.rows;
        if n != self.cols {
            return self.misfit(format!("matrices must be square, got {n} x {}", self.cols));
        }
        let symmetric = upper.is_empty();
        self.check_lengths([n + 1, if symmetric { 0 } else { n + 1 }, 0])?;
        // The values of the strict upper triangle follow the values of the lower triangle.
        let below = lower[n].clamp(0, values.len() as i64) as usize;
        check_pointers("i0", Indices::Wide(lower), 0, if symmetric { values.len() } else { below })?;
        if symmetric {
            to.triplets.reserve(2 * values.len())?;
        } else {
            check_pointers("i1", Indices::Wide(upper), 0, values.len() - below)?;
        }
        for i in 0..n {
            let (start, end) = (lower[i] as usize, lower[i + 1] as usize);
            if end == start || end - start > i + 1 {
                return Err(wrong("i0", i + 1, format!("be 1 to {} above the previous one", i + 1), end as i64));
            }
            for k in start..end {
                let j = i + 1 - (end - k);
                to.add_unless_zero(i, j, k)?;
                if symmetric && j < i {
                    to.add_unless_zero(j, i, k)?;
                }
            }
        }
        for j in 0..upper.len().saturating_sub(1) {
            let (start, end) = (upper[j] as usize, upper[j + 1] as usize);
            if end - start > j {
                return Err(wrong("i1", j + 1, format!("be at most {j} above the previous one"), end as i64));
            }
            (start..end).try_for_each(|k| to.add_unless_zero(j - (end - k), j, below + k))?;
        }
        Ok(())
    }

    fn diagonal<I: Index>(&self, to: &mut Sink<I>) -> Result<()> {
        self.check_lengths([0, 0, 0])?;
        let (count, must) = (self.given.values.len(), self.rows.min(self.cols));
        if count != must {
            return self.misfit(format!("{} x {} has {must} values, got {count}", self.rows, self.cols));
        }
        (0..count).try_for_each(|i| to.add_unless_zero(i, i, i))
    }

    /// Checks that each of the numbers 0..`lanes` occurs once. If `padded`, values of -1 may follow.
    fn check_permutation(&self, perm: &[i64], lanes: usize, padded: bool) -> Result<()> {
        let mut seen: Vec<bool> = zeroed(lanes, PERMUTATION)?;
        for (k, &lane) in perm.iter().enumerate() {
            if padded && lane == -1 && k >= lanes {
                continue;
            }
            match usize::try_from(lane).ok().and_then(|lane| seen.get_mut(lane)) {
                Some(first) if !*first => *first = true,
                Some(_) => return Err(wrong("i0", k, "occur once", lane)),
                None => return Err(wrong("i0", k, format!("lie in [0, {})", lanes), lane)),
            }
        }
        Ok(())
    }
}

/// The entries read so far, and the caller's values.
struct Sink<'a, I> {
    triplets: Triplets<I>,
    values: &'a [f64],
}

impl<I: Index> Sink<'_, I> {
    /// Adds value k at (i, j).
    fn add(&mut self, i: usize, j: usize, k: usize) -> Result<()> {
        let value = self.values[k];
        if !value.is_finite() {
            return Err(Error::not_finite("values", value, Place::entry(k)));
        }
        self.triplets.push(i, j, value);
        Ok(())
    }

    /// Adds value k at (i, j) unless it is zero, which may be padding.
    fn add_unless_zero(&mut self, i: usize, j: usize, k: usize) -> Result<()> {
        if self.values[k] == 0.0 { Ok(()) } else { self.add(i, j, k) }
    }
}
