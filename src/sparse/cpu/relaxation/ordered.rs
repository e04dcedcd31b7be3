//! Relaxation of rows one after another, by levels or by colours. Each row uses the new values of the rows before it in
//! this order.

use super::rows::Rows;
use super::sweep::Sweep;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::sparse::cpu::stages::{Order, Stages};
use crate::sparse::cpu::values::Values;

/// Rows in the order of processing.
pub struct Ordered<I> {
    rows: Rows<I>,
    order: Order<I>,
    stages: Stages,
    /// Whether a backward sweep follows the forward sweep.
    symmetric: bool,
}

impl<I: Index> Ordered<I> {
    /// Creates the sweep. Units of a level of `order` must not be connected in the graph of A + A^T.
    pub fn new(a: &Csr<I>, order: Order<I>, omega: f64, symmetric: bool) -> Result<Self> {
        let rows = Rows::new(a, Some(&order.rows), omega)?;
        let stages = Stages::new(&order.levels, |unit| rows.work(order.units[unit]))?;
        Ok(Self { rows, order, stages, symmetric })
    }

    fn pass(&self, me: &TeamThread, backward: bool, x: Values, b: &[f64]) {
        let relax = |position: usize| {
            let i = self.order.rows[position].at();
            // SAFETY: during a stage, each thread writes only rows of its own units. If the stage is one level, row i
            // reads no rows of other units of the stage, because units of a level are not connected (`Ordered::new`).
            // If the stage consists of several levels, only thread 0 processes it.
            unsafe { x.set(i, self.rows.relaxed(position, b[i], x.get(i), |j| x.get(j))) };
        };
        let units = &self.order.units;
        self.stages.run(
            me,
            backward,
            |unit| self.rows.work(units[unit]),
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

impl<I: Index> Sweep for Ordered<I> {
    fn sweep(&self, me: &TeamThread, x: &Shared, b: &Shared, _: &Shared) {
        let x = Values::of(x);
        // The rows and columns of the matrix, which is square, are used as indices into x.
        assert_eq!(x.count(), self.rows.count());
        // SAFETY: no thread writes b during a sweep (`Sweep::sweep`).
        let b = unsafe { b.slice(0, self.rows.count()) };
        self.pass(me, false, x, b);
        if self.symmetric {
            self.pass(me, true, x, b);
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.order.bytes() + self.stages.bytes()
    }
}
