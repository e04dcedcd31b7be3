//! Rows one after another, by levels or by colours: each takes new values of the rows before it.

use super::rows::{Rows, WHAT};
use super::sweep::Sweep;
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::backend::cpu::sparse::values::Values;
use crate::error::{Result, push, zeroed};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index, accumulate, restart};

/// Rows in order of work, level by level.
pub struct Ordered<I> {
    rows: Rows<I>,
    /// The row at each place.
    row: Vec<I>,
    stages: Stages,
    /// A sweep goes back, too.
    symmetric: bool,
}

impl<I: Index> Ordered<I> {
    /// No entry of A or A' may join two rows of a level of `order`.
    pub fn new(a: &Csr<I>, order: Order<I>, omega: f64, symmetric: bool) -> Result<Self> {
        let rows = Rows::new(a, Some(&order.rows), omega)?;
        let stages = Stages::new(&order.starts, |place| rows.work(place))?;
        Ok(Self { rows, row: order.rows, stages, symmetric })
    }

    fn pass(&self, me: &Me, backward: bool, x: Values, b: &[f64]) {
        self.stages.run(
            me,
            backward,
            |place| self.rows.work(place),
            |place| {
                let i = self.row[place].at();
                // SAFETY: members write only rows of this stage meanwhile, each its own, and row i reads none of those
                // but x_i: its columns are in other levels (`Ordered::new`). Joined levels are one member's.
                unsafe { x.set(i, self.rows.relaxed(place, b[i], x.get(i), |j| x.get(j))) };
            },
        );
    }
}

impl<I: Index> Sweep for Ordered<I> {
    fn sweep(&self, me: &Me, x: &Shared, b: &Shared, _: &Shared) {
        let n = self.rows.count();
        let x = Values::of(x);
        // SAFETY: nobody writes b in a sweep (`Sweep::sweep`).
        let b = unsafe { b.slice(0, n) };
        self.pass(me, false, x, b);
        if self.symmetric {
            self.pass(me, true, x, b);
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + size_of_val(&*self.row) + self.stages.bytes()
    }
}

/// Levels of the natural order: a row comes after every row before it that it reads, and after every one that reads its
/// old value, so in the graph of A + A'. Backwards, the same levels are right from the last to the first.
pub fn by_levels<I: Index>(a: &Csr<I>) -> Result<Order<I>> {
    let mut level = zeroed::<I>(a.rows(), WHAT)?;
    let mut levels = 0;
    for i in 0..a.rows() {
        // What the rows that read x_i ask for is there already.
        let before = a.row(i).filter(|&(j, _)| j < i).map(|(j, _)| level[j].at() + 1).max();
        let own = level[i].at().max(before.unwrap_or(0));
        level[i] = I::of(own);
        levels = levels.max(own + 1);
        for (j, _) in a.row(i).filter(|&(j, _)| j > i) {
            level[j] = level[j].max(I::of(own + 1));
        }
    }
    Order::new(&level, levels)
}

/// Colours in the order of rows: a row takes the first one that no row before it has which an entry of A or A' joins
/// with it. Two are the red-black order.
pub fn by_colours<I: Index>(a: &Csr<I>) -> Result<Order<I>> {
    let readers = readers_before(a)?;
    let mut colour = zeroed::<I>(a.rows(), WHAT)?;
    // The last row, counted from 1, that has found a colour taken.
    let mut taken: Vec<usize> = Vec::new();
    for i in 0..a.rows() {
        let before = a.row(i).map(|(j, _)| j).filter(|&j| j < i);
        for j in before.chain(readers.of(i)) {
            taken[colour[j].at()] = i + 1;
        }
        let free = taken.iter().position(|&row| row != i + 1).unwrap_or(taken.len());
        if free == taken.len() {
            push(&mut taken, 0, WHAT)?;
        }
        colour[i] = I::of(free);
    }
    Order::new(&colour, taken.len())
}

/// For each row the rows before it that read it.
struct Readers<I> {
    ptr: Vec<usize>,
    row: Vec<I>,
}

impl<I: Index> Readers<I> {
    fn of(&self, i: usize) -> impl Iterator<Item = usize> {
        self.row[self.ptr[i]..self.ptr[i + 1]].iter().map(|row| row.at())
    }
}

fn readers_before<I: Index>(a: &Csr<I>) -> Result<Readers<I>> {
    let upper = || a.entries().filter(|&(i, j, _)| j > i);
    let mut ptr = zeroed(a.rows() + 1, WHAT)?;
    upper().for_each(|(_, j, _)| ptr[j + 1] += 1);
    accumulate(&mut ptr);
    let mut row = zeroed(ptr[a.rows()], WHAT)?;
    for (i, j, _) in upper() {
        row[ptr[j]] = I::of(i);
        ptr[j] += 1;
    }
    restart(&mut ptr);
    Ok(Readers { ptr, row })
}
