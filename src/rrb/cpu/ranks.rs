//! Data exchange of the distributed grids (`distributed::strips`). A rank stores its own rows and some rows of its
//! neighbours, the halo. Grids that are not distributed are stored completely on every rank.
//!
//! Only thread 0 of a team sends and receives, between two barriers. If an exchange of vectors or of partial sums
//! fails, thread 0 sets the received values to NaN and continues, so that all threads reach the end of the run. The
//! caller of the run then reports the error. The exchanges of a matrix and of the properties of b and x return the
//! error instead.

use crate::base::number::Real;
use crate::base::reduce::{OtherRanks, pairwise};
use crate::base::shared::Number;
use crate::distributed::{Exchange, Gather, Part};
use crate::error::{Result, collected, extend, push};
use crate::krylov::solve_steps::Inputs;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{collect, spread};
use crate::rrb::domain::{Domain, NATURAL_ROWS_ABOVE, NATURAL_ROWS_BELOW};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Grid;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the memory in error messages about failed allocations.
const HALOS: &str = "rows of other ranks";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exchange of arrays in which each rank has computed some ranges. All ranks receive the complete arrays.
struct Gathered {
    /// Ranges that each rank has computed.
    owned: Vec<Vec<Range<usize>>>,
    /// Plans of the exchange. Entry k exchanges k + 1 arrays together.
    plans: Vec<Mutex<Gather>>,
}

impl Gathered {
    fn new(domain: &Domain, owned: Vec<Vec<Range<usize>>>, most: usize) -> Result<Self> {
        let count = |ranges: &Vec<Range<usize>>| ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
        let mut plans = Vec::new();
        for numbers in 1..=most {
            let counts = collected(owned.iter().map(|ranges| numbers * count(ranges)), HALOS)?;
            push(&mut plans, Mutex::new(Gather::new(&domain.comm, &counts)?), HALOS)?;
        }
        Ok(Self { owned, plans })
    }

    /// Sends the ranges of rank `this`, and receives those that other ranks have computed. `numbers` contains one array
    /// per number.
    fn fill(&self, this: usize, numbers: &mut [&mut [f64]]) {
        let mut plan = lock(&self.plans[numbers.len() - 1]);
        let own = &self.owned[this];
        let pack = |to: &mut [f64]| {
            let mut to = to.iter_mut();
            for number in numbers.iter() {
                for range in own {
                    number[range.clone()].iter().zip(to.by_ref()).for_each(|(&value, to)| *to = value);
                }
            }
        };
        let all = plan.run(pack);
        let mut all = all.unwrap_or_default().iter();
        for (rank, owned) in self.owned.iter().enumerate() {
            for number in numbers.iter_mut() {
                for range in owned {
                    for value in &mut number[range.clone()] {
                        let other = all.next().copied().unwrap_or(f64::NAN);
                        if rank != this {
                            *value = other;
                        }
                    }
                }
            }
        }
    }
}

/// Exchange of partial sums with other ranks. There is one partial sum per row, or per run of nodes.
pub struct Sums {
    rank: usize,
    all: Gathered,
    /// Exchange of one total per range, stored at the first index of the range. `None`: all partial sums are exchanged,
    /// so that sums are bitwise identical for any number of ranks.
    totals: Option<Gathered>,
}

impl Sums {
    /// Plans sums over the ranges that each rank owns, with at most `most` numbers per entry.
    pub fn new(domain: &Domain, owned: Vec<Vec<Range<usize>>>, most: usize) -> Result<Self> {
        let mut firsts = Vec::new();
        for ranges in &owned {
            let first = |range: &Range<usize>| range.start..range.end.min(range.start + 1);
            push(&mut firsts, collected(ranges.iter().map(first), HALOS)?, HALOS)?;
        }
        let totals = if domain.reproducible { None } else { Some(Gathered::new(domain, firsts, most)?) };
        Ok(Self { rank: domain.comm.rank(), all: Gathered::new(domain, owned, most)?, totals })
    }

    /// Plans sums over the rows of a distributed grid.
    pub fn over_grid(domain: &Domain, q: usize, most: usize) -> Result<Self> {
        let owned = (0..domain.comm.size()).map(|rank| collected([domain.strips.rows(q, rank)], HALOS));
        let mut all = Vec::new();
        for ranges in owned {
            push(&mut all, ranges?, HALOS)?;
        }
        Self::new(domain, all, most)
    }

    /// Plans sums over the rows of all distributed grids among the grids 0 .. `end`. The partial sums of grid q begin
    /// at `places[q]`. A second set of partial sums of grid 0 begins at `places[end]`.
    pub fn over_grids(domain: &Domain, places: &[usize], end: usize, most: usize) -> Result<Self> {
        let grids = (0..end).filter(|&q| domain.is_distributed(q)).map(|q| (q, places[q])).chain([(0, places[end])]);
        let mut owned = Vec::new();
        for rank in 0..domain.comm.size() {
            let of = |(q, place): (usize, usize)| {
                let rows = domain.strips.rows(q, rank);
                place + rows.start..place + rows.end
            };
            push(&mut owned, collected(grids.clone().map(of), HALOS)?, HALOS)?;
        }
        Self::new(domain, owned, most)
    }
}

impl OtherRanks for Sums {
    fn fill(&self, numbers: &mut [&mut [f64]]) {
        self.all.fill(self.rank, numbers);
    }

    fn fill_sums(&self, numbers: &mut [&mut [f64]]) {
        let Some(totals) = &self.totals else { return self.fill(numbers) };
        for (rank, owned) in self.all.owned.iter().enumerate() {
            for range in owned.iter().filter(|range| !range.is_empty()) {
                for number in numbers.iter_mut() {
                    let places = &mut number[range.clone()];
                    let total = if rank == self.rank { pairwise(places) } else { 0.0 };
                    places.fill(0.0);
                    places[0] = total;
                }
            }
        }
        totals.fill(self.rank, numbers);
    }
}

/// First message tag of the grids; the exchanges of boxes use smaller tags. Each exchange has its own tag, because a
/// neighbour rank may already have begun the next exchange.
const FIRST_TAG: i32 = 16;
/// Number of message tags per grid.
const TAGS: i32 = 8;

/// Exchange of rows of a vector with the rank below and the rank above.
struct RowExchange {
    cx: usize,
    sent: Vec<(Colour, usize)>,
    received: Vec<(Colour, usize)>,
    plan: Mutex<Exchange>,
}

/// A row of a colour, given by its distance from the first or from the last row of this rank.
type Edge = (Colour, usize);

impl RowExchange {
    /// Plans an exchange. `up` contains the rows sent to the rank above, counted downwards from the last row of this
    /// rank. `down` contains the rows sent to the rank below, counted upwards from the first row.
    fn new(domain: &Domain, (q, tag): (usize, i32), cx: usize, up: &[Edge], down: &[Edge]) -> Result<Self> {
        let [below, above] = domain.strips.neighbours(domain.comm.rank());
        let own = domain.rows(q);
        let (mut sent, mut received, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |peer: usize, out: Vec<(Colour, usize)>, back: Vec<(Colour, usize)>| {
            let part = Part {
                peer,
                send: sent.len() * cx..(sent.len() + out.len()) * cx,
                receive: received.len() * cx..(received.len() + back.len()) * cx,
            };
            extend(&mut sent, out, HALOS)?;
            extend(&mut received, back, HALOS)?;
            push(&mut parts, part, HALOS)
        };
        if let Some(peer) = below {
            let out = down.iter().map(|&(colour, k)| (colour, own.start + k));
            let back = up.iter().map(|&(colour, k)| (colour, own.start - 1 - k));
            add(peer, collected(out, HALOS)?, collected(back, HALOS)?)?;
        }
        if let Some(peer) = above {
            let out = up.iter().map(|&(colour, k)| (colour, own.end - 1 - k));
            let back = down.iter().map(|&(colour, k)| (colour, own.end + k));
            add(peer, collected(out, HALOS)?, collected(back, HALOS)?)?;
        }
        let plan = Mutex::new(Exchange::new(&domain.comm, FIRST_TAG + TAGS * q as i32 + tag, &parts)?);
        Ok(Self { cx, sent, received, plan })
    }

    /// Exchanges the rows of v; sets the received rows to NaN if the exchange fails.
    ///
    /// # Safety
    /// No thread may use these rows of v meanwhile.
    unsafe fn run<R: Real + Number>(&self, v: &FourColours<R>) {
        if self.sent.is_empty() {
            return;
        }
        let mut plan = lock(&self.plan);
        // SAFETY: by the safety contract of this function.
        let row = |colour: Colour, row: usize| unsafe { v[colour].row(row, 0) };
        // SAFETY: by the safety contract of this function.
        let row_mut = |colour: Colour, row: usize| unsafe { v[colour].row_mut(row, 0) };
        let send = |plan: &mut Exchange| {
            plan.check()?;
            for (&(colour, j), to) in self.sent.iter().zip(plan.outgoing().chunks_exact_mut(self.cx)) {
                to.iter_mut().zip(row(colour, j)).for_each(|(to, value)| *to = value.wide());
            }
            plan.run()
        };
        if send(&mut plan).is_err() {
            // The error is reported at the end of the run; until then, the rows contain NaN.
            self.received.iter().for_each(|&(colour, j)| row_mut(colour, j).fill(R::narrow(f64::NAN)));
            return;
        }
        for (&(colour, j), from) in self.received.iter().zip(plan.received().chunks_exact(self.cx)) {
            row_mut(colour, j).iter_mut().zip(from).for_each(|(to, &value)| *to = R::narrow(value));
        }
    }
}

/// Exchanges of the halo rows of vectors on one grid.
pub struct Halo {
    /// Whether there is a rank below, and whether there is one above.
    pub sides: [bool; 2],
    /// Exchange of all colours, and exchange of the black colours only.
    all: RowExchange,
    black: RowExchange,
    /// Exchange of those halo rows that a fused downward sweep reads.
    down: RowExchange,
    /// Exchange of b1 only.
    dropped: RowExchange,
}

impl Halo {
    pub fn new(domain: &Domain, q: usize, layout: &Layout) -> Result<Self> {
        use Colour::{B1, B2, R1, R2};
        let round = |tag, up: &[Edge], down: &[Edge]| RowExchange::new(domain, (q, tag), layout.cx, up, down);
        let first = [(R1, 0), (R2, 0), (B1, 0), (B2, 0)];
        Ok(Self {
            sides: domain.strips.neighbours(domain.comm.rank()).map(|neighbour| neighbour.is_some()),
            all: round(0, &first, &first)?,
            black: round(1, &first[2..], &first[2..])?,
            down: round(3, &[(R1, 0), (R2, 0), (B1, 0), (R1, 1)], &first[..3])?,
            dropped: round(4, &[(B1, 0)], &[(B1, 0)])?,
        })
    }

    /// Receives the halo rows of v, which their owners have written.
    ///
    /// # Safety
    /// No thread may use the halo rows of v meanwhile, or write other rows of v.
    pub unsafe fn refresh<R: Real + Number>(&self, v: &FourColours<R>) {
        let round = if v.r1.bytes() > 0 { &self.all } else { &self.black };
        // SAFETY: by the safety contract of this function.
        unsafe { round.run(v) };
    }

    /// Receives those halo rows that a fused downward sweep reads.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_down<R: Real + Number>(&self, v: &FourColours<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.down.run(v) };
    }

    /// Receives the halo rows of b1.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_dropped<R: Real + Number>(&self, v: &FourColours<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.dropped.run(v) };
    }
}

/// Exchange of natural rows of the first grid that is not distributed. Each rank computes some rows, and all ranks
/// receive all rows.
pub struct CompleteRows {
    rank: usize,
    /// Natural rows that each rank computes.
    rows: Vec<Range<usize>>,
    nx: usize,
    vector: Mutex<Gather>,
    matrix: Mutex<Gather>,
}

/// Number of arrays of a half stencil.
pub const HALF_STENCIL_ARRAYS: usize = 5;

impl CompleteRows {
    /// Plans the exchange. `above`: last distributed grid; `grid`: grid of its kept nodes.
    pub fn new(domain: &Domain, above: &Layout, grid: Grid) -> Result<Self> {
        let kept = above.rows(Colour::B2);
        let last = domain.strips.depth - 1;
        let of = |rank: usize| {
            let rows = domain.strips.rows(last, rank);
            rows.start.min(kept.end)..rows.end.min(kept.end)
        };
        let rows = collected((0..domain.comm.size()).map(of), HALOS)?;
        let gather = |arrays: usize| {
            let counts = collected(rows.iter().map(|rows| arrays * rows.len() * grid.nx), HALOS)?;
            Ok(Mutex::new(Gather::new(&domain.comm, &counts)?))
        };
        let (vector, matrix) = (gather(1)?, gather(HALF_STENCIL_ARRAYS)?);
        Ok(Self { rank: domain.comm.rank(), rows, nx: grid.nx, vector, matrix })
    }

    /// Receives the rows of v that other ranks have computed. `row` is a buffer for one natural row.
    ///
    /// # Safety
    /// No thread may use v meanwhile.
    pub unsafe fn refresh<R: Real + Number>(&self, layout: &Layout, v: &FourColours<R>, row: &mut [R]) {
        let mut plan = lock(&self.vector);
        let row = &mut row[..self.nx];
        let all = plan.run(|to| {
            for (j, to) in self.rows[self.rank].clone().zip(to.chunks_exact_mut(self.nx)) {
                // SAFETY: by the safety contract of this function.
                unsafe { collect(layout, j, v, row) };
                to.iter_mut().zip(&*row).for_each(|(to, value)| *to = value.wide());
            }
        });
        let mut values = all.unwrap_or_default().chunks_exact(self.nx);
        for (rank, rows) in self.rows.iter().enumerate() {
            for j in rows.clone() {
                let from = values.next();
                if rank == self.rank {
                    continue;
                }
                match from {
                    Some(from) => row.iter_mut().zip(from).for_each(|(to, &value)| *to = R::narrow(value)),
                    None => row.fill(R::narrow(f64::NAN)),
                }
                // SAFETY: by the safety contract of this function.
                unsafe { spread(layout, j, row, 1.0, v) };
            }
        }
    }

    /// Exchanges rows of a matrix. `own(j, ..)` computes row j of this rank; `other` is called for each received row.
    pub fn matrix(
        &self,
        mut own: impl FnMut(usize, &mut [f64]),
        mut other: impl FnMut(usize, [&[f64]; HALF_STENCIL_ARRAYS]),
    ) -> Result<()> {
        let (mut plan, length) = (lock(&self.matrix), HALF_STENCIL_ARRAYS * self.nx);
        let mut all = plan.run(|to| {
            for (j, to) in self.rows[self.rank].clone().zip(to.chunks_exact_mut(length)) {
                own(j, to);
            }
        })?;
        for (rank, rows) in self.rows.iter().enumerate() {
            for j in rows.clone() {
                let row;
                (row, all) = all.split_at(length);
                if rank != self.rank {
                    other(j, stencil_arrays(row, self.nx));
                }
            }
        }
        Ok(())
    }
}

/// Splits a row into the five arrays of a half stencil.
fn stencil_arrays(row: &[f64], nx: usize) -> [&[f64]; HALF_STENCIL_ARRAYS] {
    std::array::from_fn(|k| &row[k * nx..(k + 1) * nx])
}

/// Exchange of natural rows of a grid's matrix with the ranks below and above.
pub struct MatrixHalo {
    own: Range<usize>,
    below: Range<usize>,
    above: Range<usize>,
    /// Number of rows sent to the rank below, and to the rank above.
    sent: [usize; 2],
    nx: usize,
    plan: Mutex<Exchange>,
}

impl MatrixHalo {
    /// Plans the exchange for grid q, which is distributed and not the first grid.
    pub fn new(domain: &Domain, q: usize, grid: Grid) -> Result<Self> {
        let rows = domain.rows(q);
        let own = (2 * rows.start).min(grid.ny)..(2 * rows.end).min(grid.ny);
        let [below, above] = domain.strips.neighbours(domain.comm.rank());
        let length = HALF_STENCIL_ARRAYS * grid.nx;
        let mut parts = Vec::new();
        let (mut sent, mut received) = (0, 0);
        let mut next = |peer: usize, sends: usize, receives: usize| {
            let part = Part {
                peer,
                send: sent * length..(sent + sends) * length,
                receive: received * length..(received + receives) * length,
            };
            (sent, received) = (sent + sends, received + receives);
            push(&mut parts, part, HALOS)
        };
        let to_below = if below.is_some() { NATURAL_ROWS_ABOVE.min(grid.ny - own.start) } else { 0 };
        let to_above = if above.is_some() { NATURAL_ROWS_BELOW } else { 0 };
        let beyond = own.end..(own.end + NATURAL_ROWS_ABOVE).min(grid.ny);
        if let Some(peer) = below {
            next(peer, to_below, NATURAL_ROWS_BELOW)?;
        }
        if let Some(peer) = above {
            next(peer, to_above, beyond.len())?;
        }
        let tag = FIRST_TAG + TAGS * q as i32 + 2;
        let plan = Mutex::new(Exchange::new(&domain.comm, tag, &parts)?);
        let below = if below.is_some() { own.start - NATURAL_ROWS_BELOW..own.start } else { own.start..own.start };
        let above = if above.is_some() { beyond } else { own.end..own.end };
        Ok(Self { own, below, above, sent: [to_below, to_above], nx: grid.nx, plan })
    }

    /// Exchanges rows of a matrix with the neighbour ranks. `own(j, ..)` computes row j of this rank; `other` is called
    /// for each received row.
    pub fn exchange(
        &self,
        mut own: impl FnMut(usize, &mut [f64]),
        mut other: impl FnMut(usize, [&[f64]; HALF_STENCIL_ARRAYS]),
    ) -> Result<()> {
        let (mut plan, length) = (lock(&self.plan), HALF_STENCIL_ARRAYS * self.nx);
        plan.check()?;
        let mut to = plan.outgoing().chunks_exact_mut(length);
        let [first, last] = self.sent;
        for j in (self.own.start..self.own.start + first).chain(self.own.end - last..self.own.end) {
            if let Some(to) = to.next() {
                own(j, to);
            }
        }
        plan.run()?;
        let rows = self.below.clone().chain(self.above.clone());
        for (j, row) in rows.zip(plan.received().chunks_exact(length)) {
            other(j, stencil_arrays(row, self.nx));
        }
        Ok(())
    }
}

/// Exchange of the properties of b and x that each rank has found by inspection at the start of a solve.
pub struct InputExchange(Mutex<Gather>);

/// Number of values in a message: max |b|, max |x|, and the array number, value, i and j of the first entry that is not
/// finite. The array number 0 means that all entries are finite.
const INPUT_WORDS: usize = 6;

impl InputExchange {
    pub fn new(domain: &Domain) -> Result<Self> {
        let counts = collected((0..domain.comm.size()).map(|_| INPUT_WORDS), HALOS)?;
        Ok(Self(Mutex::new(Gather::new(&domain.comm, &counts)?)))
    }

    /// Merges the properties that the other ranks have found into `own`.
    pub fn merge(&self, own: &mut Inputs, input_name: &'static str) -> Result<()> {
        let mut gather = lock(&self.0);
        let (name, value, i, j) = own.not_finite.unwrap_or(("", 0.0, 0, 0));
        let array = own.not_finite.map_or(0.0, |_| if name == input_name { 1.0 } else { 2.0 });
        let words: [f64; INPUT_WORDS] = [own.rhs_max, own.guess_max, array, value, i as f64, j as f64];
        for words in gather.run(|to| to.copy_from_slice(&words))?.chunks_exact(INPUT_WORDS) {
            let name = if words[2] == 1.0 { input_name } else { "x" };
            let place = (words[2] > 0.0).then_some((name, words[3], words[4] as usize, words[5] as usize));
            let other = Inputs { rhs_max: words[0], guess_max: words[1], not_finite: place, scale: None };
            own.merge(&other, input_name);
        }
        Ok(())
    }
}

/// All exchanges of a factorization and of its solves.
pub struct Links {
    pub domain: Domain,
    /// Exchanges of rows of the matrices of the distributed grids 1, 2, ...
    pub matrices: Vec<MatrixHalo>,
    pub complete_rows: CompleteRows,
    pub inputs: InputExchange,
    /// Sums over the rows of each distributed grid, and over the rows of the distributed grids of the first section.
    pub of_grid: Vec<Sums>,
    pub of_section: Sums,
}

#[cfg(test)]
mod tests;
