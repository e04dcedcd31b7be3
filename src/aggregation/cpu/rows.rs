//! Matrix of a level in the precision of the cycle, and the loops of a sweep over slices of its rows (`lines`).

use super::lines::{LANES, LineRows, Lines, Slices};
use crate::aggregation::OrderedRows;
use crate::base::isa::for_each_isa;
use crate::base::number::Real;
use crate::base::workers::Workers;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::error::{Result, collected};
use std::array::from_fn;
use std::ops::Range;

/// Matrix of a level: couplings by slices in the order of the sweeps, row sums, and reciprocal diagonal.
pub struct LevelMatrix<V> {
    /// First row of each slice. The last entry is the number of rows.
    first_row: Vec<u32>,
    lines: Lines<V>,
    row_sum: Vec<V>,
    inverse_diagonal: Vec<V>,
    /// Number of couplings, without the zeros in the lines.
    coupling_count: usize,
}

impl<V: Real> LevelMatrix<V> {
    pub fn of(c: &Couplings, order: &OrderedRows, workers: &mut Workers) -> Result<Self>
    where
        V: Send,
    {
        let slices = Slices::of(order)?;
        let row_index = |i: &u32| *i as usize;
        Ok(Self {
            lines: Lines::of(c, order, &slices, workers)?,
            first_row: slices.first_row,
            row_sum: collected(order.row.iter().map(|i| V::from_f64(c.row_sum[row_index(i)])), ALLOCATION_NAME)?,
            inverse_diagonal: collected(order.row.iter().map(|i| inverse(c.diagonal[row_index(i)])), ALLOCATION_NAME)?,
            coupling_count: c.col.len(),
        })
    }

    pub fn len(&self) -> usize {
        self.inverse_diagonal.len()
    }

    pub fn slice_count(&self) -> usize {
        self.first_row.len() - 1
    }

    pub fn coupling_count(&self) -> usize {
        self.coupling_count
    }

    /// Returns the slices of the group that consists of the rows `group[0] .. group[1]`.
    pub fn slices_of(&self, group: &[usize]) -> Range<usize> {
        let slice_at = |row: usize| self.first_row.partition_point(|&first_row| (first_row as usize) < row);
        slice_at(group[0])..slice_at(group[1])
    }

    /// Returns the rows of the given slices.
    pub fn rows_of(&self, slices: &Range<usize>) -> Range<usize> {
        self.first_row[slices.start] as usize..self.first_row[slices.end] as usize
    }

    pub fn bytes(&self) -> usize {
        let vector_bytes =
            size_of_val(&*self.first_row) + size_of_val(&*self.row_sum) + size_of_val(&*self.inverse_diagonal);
        self.lines.bytes() + vector_bytes
    }
}

/// Vector values to which the lines of a slice refer. `values` contains the values of the rows from `first_row` on.
#[derive(Clone, Copy)]
pub struct ReferencedValues<'a, V> {
    values: &'a [V],
    first_row: usize,
}

impl<'a, V: Real> ReferencedValues<'a, V> {
    /// # Safety
    /// `values` must contain all rows to which the processed lines refer. Lines to earlier groups refer only to rows
    /// before the group of their slice, and lines to later groups only to rows after it (`Lines::push_distances`,
    /// `Lines::push_stored_columns`). The values of all rows always suffice.
    pub unsafe fn new(values: &'a [V], first_row: usize) -> Self {
        Self { values, first_row }
    }

    /// Returns the values that are multiplied by the couplings of a line.
    #[inline(always)]
    fn values_of_line(&self, line_rows: LineRows) -> [V; LANES] {
        match line_rows {
            LineRows::Consecutive(row) => {
                debug_assert!(self.values.len() >= row as usize - self.first_row + LANES);
                // SAFETY: the caller of `new` guarantees that these rows are in `values`.
                unsafe { self.values.as_ptr().add(row as usize - self.first_row).cast::<[V; LANES]>().read() }
            }
            LineRows::Listed(rows) => from_fn(|l| self.value_at(rows[l])),
        }
    }

    #[inline(always)]
    fn value_at(&self, row: u32) -> V {
        debug_assert!(self.values.get(row as usize - self.first_row).is_some());
        // Volatile, since the compiler would otherwise emit gather instructions of AVX-512. Single loads are faster: on
        // a Xeon with the mitigation for gather data sampling, gathers add a third to the time of a sweep.
        // SAFETY: the caller of `new` guarantees that this row is in `values`.
        unsafe { self.values.as_ptr().add(row as usize - self.first_row).read_volatile() }
    }
}

/// Returns sums + a z, where a are the couplings of a line and z are the values to which the line refers. Each
/// operation covers all lanes, so that the compiler vectorizes it.
#[inline(always)]
fn add_products<V: Real>(
    sums: [V; LANES],
    (line_rows, a): (LineRows, &[V; LANES]),
    z: &ReferencedValues<V>,
) -> [V; LANES] {
    let z = z.values_of_line(line_rows);
    let products: [V; LANES] = from_fn(|l| a[l] * z[l]);
    from_fn(|l| sums[l] + products[l])
}

/// Returns sums + a (x - z), where a are the couplings of a line, x the values of the slice, and z the values to which
/// the line refers.
#[inline(always)]
fn add_differences<V: Real>(
    sums: [V; LANES],
    (line_rows, a): (LineRows, &[V; LANES]),
    x: &[V; LANES],
    z: &ReferencedValues<V>,
) -> [V; LANES] {
    let z = z.values_of_line(line_rows);
    let products: [V; LANES] = from_fn(|l| a[l] * (x[l] - z[l]));
    from_fn(|l| sums[l] + products[l])
}

/// Returns the values of a slice. If it has fewer than `LANES` rows, the other values are zero.
#[inline(always)]
fn load_slice<V: Real>(values: &[V]) -> [V; LANES] {
    match values.first_chunk() {
        Some(full_slice) => *full_slice,
        None => {
            let mut slice = [V::default(); LANES];
            slice[..values.len()].copy_from_slice(values);
            slice
        }
    }
}

/// Stores the values of a slice. If it has fewer than `LANES` rows, ignores the other values.
#[inline(always)]
fn store_slice<V: Real>(values: &mut [V], slice: &[V; LANES]) {
    match values.first_chunk_mut() {
        Some(full_slice) => *full_slice = *slice,
        None => values.copy_from_slice(&slice[..values.len()]),
    }
}

for_each_isa! {
    /// Computes the residual after a forward sweep from zero: residual_i = sum of a_ij z_j over rows j of later groups.
    fn residual<V: Real>(m: &LevelMatrix<V>, slices: Range<usize>, z: ReferencedValues<V>, residual: &mut [V]) {
        let first_row = m.first_row[slices.start] as usize;
        for s in slices {
            let local_rows = m.first_row[s] as usize - first_row..m.first_row[s + 1] as usize - first_row;
            let mut sums = [V::default(); LANES];
            for line in m.lines.later_lines(s) {
                sums = add_products(sums, line, &z);
            }
            store_slice(&mut residual[local_rows], &sums);
        }
    }

    /// Executes a Gauss-Seidel sweep on slices of a group. `earlier_values` and `later_values` contain the values of
    /// all rows before and after the group; without `later_values`, the values after the group are zero.
    fn sweep<V: Real>(
        m: &LevelMatrix<V>,
        slices: Range<usize>,
        earlier_values: ReferencedValues<V>,
        later_values: Option<ReferencedValues<V>>,
        r: &[V],
        z: &mut [V],
    ) {
        let first_row = m.first_row[slices.start] as usize;
        for s in slices {
            let rows = m.first_row[s] as usize..m.first_row[s + 1] as usize;
            let local_rows = rows.start - first_row..rows.end - first_row;
            let mut sums = load_slice(&r[local_rows.clone()]);
            for line in m.lines.earlier_lines(s) {
                sums = add_products(sums, line, &earlier_values);
            }
            if let Some(later_values) = &later_values {
                for line in m.lines.later_lines(s) {
                    sums = add_products(sums, line, later_values);
                }
            }
            let inverse_diagonal = load_slice(&m.inverse_diagonal[rows]);
            store_slice(&mut z[local_rows], &from_fn(|l| inverse_diagonal[l] * sums[l]));
        }
    }

    /// Computes y_i = e_i x_i + sum_j a_ij (x_i - x_j) for the rows i of the slices, where e_i are the row sums. With
    /// the usual formula d_i x_i - sum_j a_ij x_j, the rounding error could exceed e_i x_i. `x` and `referenced_x`
    /// contain the values of all rows.
    fn multiply<V: Real>(
        m: &LevelMatrix<V>, slices: Range<usize>, x: &[V], referenced_x: ReferencedValues<V>, y: &mut [V]
    ) {
        let first_row = m.first_row[slices.start] as usize;
        for s in slices {
            let rows = m.first_row[s] as usize..m.first_row[s + 1] as usize;
            let local_rows = rows.start - first_row..rows.end - first_row;
            let (row_sum, x) = (load_slice(&m.row_sum[rows.clone()]), load_slice(&x[rows]));
            let mut sums: [V; LANES] = from_fn(|l| row_sum[l] * x[l]);
            for line in m.lines.all_lines(s) {
                sums = add_differences(sums, line, &x, &referenced_x);
            }
            store_slice(&mut y[local_rows], &sums);
        }
    }
}

/// Returns 1 / d, or 0 for a singular component of one row, whose unknown is then 0.
fn inverse<V: Real>(d: f64) -> V {
    V::from_f64(if d == 0.0 { 0.0 } else { 1.0 / d })
}
