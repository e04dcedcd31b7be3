//! Products y = A^T x by a thread team, for formats that store A by rows. The rows of A are divided into a fixed number
//! of parts. The contribution of each part to y is stored in a vector of its own. These vectors are added in a fixed
//! order, so y is bitwise identical for any number of threads.

use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::base::workers::divide_range;
use crate::error::{Result, push};
use crate::krylov::cpu::chunks::Chunks;
use crate::sparse::TransposedRowProducts;
use std::ops::Range;

/// Number of parts into which the rows of A are divided. Each part stores a vector, which is at most as long as y.
const PART_COUNT: usize = 8;

/// A range of the rows of A, the range of columns with entries in these rows, and the contribution of these rows to y.
struct ProductPart {
    rows: Range<usize>,
    columns: Range<usize>,
    sums: Shared,
}

/// All parts of a product.
pub struct ProductParts {
    parts: Vec<ProductPart>,
    columns: Chunks,
}

impl ProductParts {
    /// Allocates the parts of the product y = A^T x, where x has `rows` values and y has `columns` values.
    pub fn new(a: &dyn TransposedRowProducts, rows: usize, columns: usize) -> Result<Self> {
        let mut parts = Vec::new();
        for row_groups in divide_range(rows.div_ceil(a.row_alignment()), PART_COUNT) {
            let rows = row_groups.start * a.row_alignment()..rows.min(row_groups.end * a.row_alignment());
            let columns = a.columns_of_rows(rows.clone());
            let sums = Shared::zeroed(columns.len())?;
            push(&mut parts, ProductPart { rows, columns, sums }, "parts of a product")?;
        }
        Ok(Self { parts, columns: Chunks::new(columns) })
    }

    /// Computes y = A^T x. `y(range)` returns this range of y for writing. All threads of the team call `multiply`
    /// together, with barriers before and after the call. The result does not depend on the number of threads.
    pub fn multiply<'y>(
        &self,
        a: &dyn TransposedRowProducts,
        thread: &TeamThread,
        x: &[f64],
        y: impl Fn(Range<usize>) -> &'y mut [f64],
    ) {
        for part in &self.parts[thread.share(self.parts.len())] {
            // SAFETY: only this thread processes the part. Other threads read `sums` only after the next barrier. They
            // finished reading the sums of the previous product before the barrier that precedes this call.
            let sums = unsafe { part.sums.slice_mut(0, part.columns.len()) };
            sums.fill(0.0);
            a.add_transposed(part.rows.clone(), &x[part.rows.clone()], part.columns.start, sums);
        }
        thread.barrier();
        for columns in self.columns.own_chunks(thread).map(|chunk| self.columns.range(chunk)) {
            let y = y(columns.clone());
            y.fill(0.0);
            for part in &self.parts {
                let (first_column, column_end) =
                    (part.columns.start.max(columns.start), part.columns.end.min(columns.end));
                if first_column < column_end {
                    // SAFETY: `sums` is not written between the barrier and the next product.
                    let sums = unsafe { part.sums.slice(first_column - part.columns.start, column_end - first_column) };
                    y[first_column - columns.start..].iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
                }
            }
        }
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.sums.bytes()).sum()
    }
}
