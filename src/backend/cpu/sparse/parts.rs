//! Products whose terms are added where they belong: parts of x in vectors of their own, which are then summed in
//! order. So the bits do not depend on the number of threads.

use super::chunks::Chunks;
use crate::error::{Result, push};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::runtime::workers::cut;
use crate::sparse::ByParts;
use std::ops::Range;

/// Parts of x: each takes a vector as long as the columns between the first and the last that it adds to, all of y at
/// most.
const PARTS: usize = 8;

/// A part of x, and room for what it adds to y.
struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
    sums: Shared,
}

/// All of x.
pub struct Parts {
    parts: Vec<Part>,
    columns: Chunks,
}

impl Parts {
    /// For a product from `rows` values to `columns`.
    pub fn new(a: &dyn ByParts, rows: usize, columns: usize) -> Result<Self> {
        let mut parts = Vec::new();
        for grains in cut(rows.div_ceil(a.grain()), PARTS) {
            let rows = grains.start * a.grain()..rows.min(grains.end * a.grain());
            let columns = a.columns(rows.clone());
            let sums = Shared::zeroed(columns.len())?;
            push(&mut parts, Part { rows, columns, sums }, "parts of a product")?;
        }
        Ok(Self { parts, columns: Chunks::new(columns) })
    }

    /// y = A' x; `y` gives some of its values to write. All members of a team call it together, and the bits are those
    /// of any other team. Barriers stand before it and after it.
    pub fn multiply<'y>(&self, a: &dyn ByParts, me: &Me, x: &[f64], y: impl Fn(Range<usize>) -> &'y mut [f64]) {
        for part in &self.parts[me.share(self.parts.len())] {
            // SAFETY: a part of this member, which others read behind the barrier.
            let sums = unsafe { part.sums.slice_mut(0, part.columns.len()) };
            sums.fill(0.0);
            a.add_transposed(part.rows.clone(), &x[part.rows.clone()], part.columns.start, sums);
        }
        me.barrier();
        for columns in self.columns.share(me).map(|chunk| self.columns.range(chunk)) {
            let y = y(columns.clone());
            y.fill(0.0);
            for part in &self.parts {
                let (first, end) = (part.columns.start.max(columns.start), part.columns.end.min(columns.end));
                if first < end {
                    // SAFETY: nobody writes it until the next product.
                    let sums = unsafe { part.sums.slice(first - part.columns.start, end - first) };
                    y[first - columns.start..].iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
                }
            }
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.sums.bytes()).sum()
    }
}
