//! Relaxation of the rows in an order of levels or colours. Each row uses the new values of the rows before it in this
//! order.

use super::rows::SweepRows;
use super::sweep::Sweep;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::sparse::cpu::stages::{ProcessingOrder, Stages};
use crate::sparse::cpu::values::SharedValues;

/// Sweeps over the rows in a given order of processing.
pub struct OrderedSweep<I> {
    rows: SweepRows<I>,
    order: ProcessingOrder<I>,
    stages: Stages,
    /// Whether a backward sweep follows the forward sweep.
    is_symmetric: bool,
}

impl<I: Index> OrderedSweep<I> {
    /// Creates the sweep. Two units of the same level of `order` must not be connected in the graph of A + A^T.
    pub fn new(a: &Csr<I>, order: ProcessingOrder<I>, omega: f64, is_symmetric: bool) -> Result<Self> {
        let rows = SweepRows::new(a, Some(&order.rows), omega)?;
        let stages = Stages::new(&order.level_starts, |unit| rows.work_before(order.unit_starts[unit]))?;
        Ok(Self { rows, order, stages, is_symmetric })
    }

    /// Relaxes all rows in the order of processing or, if `backward` is set, in the reverse order.
    fn sweep_once(&self, thread: &TeamThread, backward: bool, x: SharedValues, b: &[f64]) {
        let relax = |position: usize| {
            let i = self.order.rows[position].to_usize();
            // SAFETY: during a stage, each thread writes only rows of its own units. If the stage is one level, row i
            // reads no rows of other units of the stage, because units of a level are not connected
            // (`OrderedSweep::new`). If the stage consists of several levels, only thread 0 processes it.
            unsafe { x.set(i, self.rows.relaxed_value(position, b[i], x.get(i), |j| x.get(j))) };
        };
        let units = &self.order.unit_starts;
        self.stages.run(
            thread,
            backward,
            |unit| self.rows.work_before(units[unit]),
            |unit| {
                let positions = units[unit]..units[unit + 1];
                if backward {
                    positions.rev().for_each(relax);
                } else {
                    positions.for_each(relax);
                }
            },
        );
    }
}

impl<I: Index> Sweep for OrderedSweep<I> {
    fn sweep(&self, thread: &TeamThread, x: &Shared, b: &Shared, _: &Shared) {
        let x = SharedValues::of(x);
        // The rows and columns of the matrix, which is square, are used as indices into x.
        assert_eq!(x.count(), self.rows.row_count());
        // SAFETY: no thread writes b during a sweep (`Sweep::sweep`).
        let b = unsafe { b.slice(0, self.rows.row_count()) };
        self.sweep_once(thread, false, x, b);
        if self.is_symmetric {
            self.sweep_once(thread, true, x, b);
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.order.bytes() + self.stages.bytes()
    }
}
