//! Rows one after another, by levels or by colours: each takes new values of the rows before it.

use super::rows::{Rows, WHAT};
use super::sweep::Sweep;
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::error::{Result, collected, push, zeroed};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index, accumulate, restart};

/// Rows in the order of work.
pub struct Ordered<I> {
    rows: Rows<I>,
    order: Order<I>,
    stages: Stages,
    /// A sweep goes back, too.
    symmetric: bool,
}

impl<I: Index> Ordered<I> {
    /// No entry of A or A' may join two units of a level of `order`.
    pub fn new(a: &Csr<I>, order: Order<I>, omega: f64, symmetric: bool) -> Result<Self> {
        let rows = Rows::new(a, Some(&order.rows), omega)?;
        let stages = Stages::new(&order.levels, |unit| rows.work(order.units[unit]))?;
        Ok(Self { rows, order, stages, symmetric })
    }

    fn pass(&self, me: &Me, backward: bool, x: Values, b: &[f64]) {
        let relax = |place: usize| {
            let i = self.order.rows[place].at();
            // SAFETY: members write only rows of this stage meanwhile, each those of its own units, and row i reads no
            // others of the stage: its columns are in this unit or in other levels (`Ordered::new`). Joined levels are
            // one member's.
            unsafe { x.set(i, self.rows.relaxed(place, b[i], x.get(i), |j| x.get(j))) };
        };
        let units = &self.order.units;
        self.stages.run(
            me,
            backward,
            |unit| self.rows.work(units[unit]),
            |unit| {
                let places = units[unit]..units[unit + 1];
                if backward {
                    places.rev().for_each(relax);
                } else {
                    places.for_each(relax);
                }
            },
        );
    }
}

impl<I: Index> Sweep for Ordered<I> {
    fn sweep(&self, me: &Me, x: &Shared, b: &Shared, _: &Shared) {
        let n = self.rows.count();
        let x = Values { first: x.address(0, n), count: n };
        // SAFETY: nobody writes b in a sweep (`Sweep::sweep`).
        let b = unsafe { b.slice(0, n) };
        self.pass(me, false, x, b);
        if self.symmetric {
            self.pass(me, true, x, b);
        }
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.order.bytes() + self.stages.bytes()
    }
}

/// x, of which members read and write single values: slices of it would overlap.
#[derive(Clone, Copy)]
struct Values {
    first: *mut f64,
    count: usize,
}

impl Values {
    /// # Safety
    /// Nobody may write this value meanwhile.
    unsafe fn get(self, i: usize) -> f64 {
        assert!(i < self.count);
        // SAFETY: inside the array, as just checked; not written meanwhile, as the caller promised.
        unsafe { *self.first.add(i) }
    }

    /// # Safety
    /// Nobody else may read or write this value meanwhile.
    unsafe fn set(self, i: usize, value: f64) {
        assert!(i < self.count);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { *self.first.add(i) = value };
    }
}

/// Rows of a piece at most. Consecutive rows that wait for one another share lines of x; the longer a piece, the fewer
/// pieces a level has.
const PIECE: usize = 16;

/// Where pieces begin, and the end: consecutive rows, each joined with the one before. A line of a grid begins a piece.
fn pieces<I: Index>(a: &Csr<I>) -> Result<Vec<usize>> {
    let joined = |i: usize| a.get(i, i - 1).or_else(|| a.get(i - 1, i)).is_some();
    let mut starts = Vec::new();
    let mut last = 0;
    for i in 0..a.rows() {
        if i == 0 || i - last == PIECE || !joined(i) {
            push(&mut starts, i, WHAT)?;
            last = i;
        }
    }
    push(&mut starts, a.rows(), WHAT)?;
    Ok(starts)
}

/// Levels of the natural order: a piece comes after every one before it that it reads, and after every one that reads
/// its old values, so in the graph of A + A'. Backwards, the same levels are right from the last to the first.
pub fn by_levels<I: Index>(a: &Csr<I>) -> Result<Order<I>> {
    let pieces = pieces(a)?;
    let mut piece_of = zeroed::<I>(a.rows(), WHAT)?;
    for (piece, rows) in pieces.windows(2).enumerate() {
        piece_of[rows[0]..rows[1]].fill(I::of(piece));
    }
    let mut level = zeroed::<I>(pieces.len() - 1, WHAT)?;
    let mut levels = 0;
    for (piece, rows) in pieces.windows(2).enumerate() {
        let others = || (rows[0]..rows[1]).flat_map(|i| a.row(i)).map(|(j, _)| piece_of[j].at());
        // What the pieces before that read this one ask for is there already.
        let before = others().filter(|&other| other < piece).map(|other| level[other].at() + 1).max();
        let own = level[piece].at().max(before.unwrap_or(0));
        level[piece] = I::of(own);
        levels = levels.max(own + 1);
        for other in others().filter(|&other| other > piece) {
            level[other] = level[other].max(I::of(own + 1));
        }
    }
    Order::new(&pieces, &level, levels)
}

/// Colours in the order of rows: a row takes the first one that no row before it has which an entry of A or A' joins
/// with it. Two are the red-black order. A piece is a row.
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
    let rows = collected(0..=a.rows(), WHAT)?;
    Order::new(&rows, &colour, taken.len())
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
