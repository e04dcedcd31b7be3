//! Rows that other ranks have: how the first grids are shared (`grid::strips`), and what goes from rank to rank. A rank
//! stores its own rows and some of its neighbours', the halo; those of grids that are not shared, every rank has.
//!
//! Thread 0 of a team alone sends and receives, between two barriers. Where the other ranks are lost it goes on with
//! numbers that are none, so that all threads come to an end; who began the run says then what happened.

use super::area::Four;
use super::spread::{collect, spread};
use crate::backend::steps::solve::Inputs;
use crate::comm::domain::{ABOVE, BELOW, Domain};
use crate::comm::{Exchange, Gather, Part};
use crate::error::{Result, collected, extend, push};
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::Grid;
use crate::runtime::number::Real;
use crate::runtime::reduce::{Elsewhere, pairwise};
use crate::runtime::shared::Number;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For errors.
const HALOS: &str = "rows of other ranks";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers at places of which each rank has some, which all ranks get.
struct Gathered {
    /// Of each rank.
    owned: Vec<Vec<Range<usize>>>,
    /// For one number a place, two, ...
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

    /// Fills in what is not of this rank.
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

/// What other ranks note of rows, or of runs of nodes.
pub struct Sums {
    rank: usize,
    all: Gathered,
    /// The first place of each range. `None`: sums are the same for any ranks, so that all places count.
    totals: Option<Gathered>,
}

impl Sums {
    /// Sums over things that ranks have these of, one behind the other: N numbers of each at most.
    pub fn new(domain: &Domain, owned: Vec<Vec<Range<usize>>>, most: usize) -> Result<Self> {
        let mut firsts = Vec::new();
        for ranges in &owned {
            let first = |range: &Range<usize>| range.start..range.end.min(range.start + 1);
            push(&mut firsts, collected(ranges.iter().map(first), HALOS)?, HALOS)?;
        }
        let totals = if domain.reproducible { None } else { Some(Gathered::new(domain, firsts, most)?) };
        Ok(Self { rank: domain.comm.rank(), all: Gathered::new(domain, owned, most)?, totals })
    }

    /// Over the rows of a shared grid.
    pub fn over_grid(domain: &Domain, q: usize, most: usize) -> Result<Self> {
        let owned = (0..domain.comm.size()).map(|rank| collected([domain.strips.rows(q, rank)], HALOS));
        let mut all = Vec::new();
        for ranges in owned {
            push(&mut all, ranges?, HALOS)?;
        }
        Self::new(domain, all, most)
    }

    /// Over the rows of grids 0 .. `end`, of which some are shared, at these places; at the last place those of the
    /// first one again.
    pub fn over_grids(domain: &Domain, places: &[usize], end: usize, most: usize) -> Result<Self> {
        let grids = (0..end).filter(|&q| domain.shares(q)).map(|q| (q, places[q])).chain([(0, places[end])]);
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

impl Elsewhere for Sums {
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

/// Exchanges of all grids are under way one at a time, but those of neighbours may be in the next one: each has a tag
/// of its own, after those of boxes.
const FIRST_TAG: i32 = 16;
/// Tags of a grid.
const TAGS: i32 = 8;

/// Which rows of a vector go to the ranks below and above, and which come from there.
struct Round {
    cx: usize,
    sent: Vec<(Colour, usize)>,
    received: Vec<(Colour, usize)>,
    plan: Mutex<Exchange>,
}

/// A row of a colour, so many after the first one, or before the last.
type Edge = (Colour, usize);

impl Round {
    /// `up`: rows that the rank above gets, from the last one down, and `down`: that the rank below gets.
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

    /// # Safety
    /// No thread may use these rows of v meanwhile.
    unsafe fn run<R: Real + Number>(&self, v: &Four<R>) {
        if self.sent.is_empty() {
            return;
        }
        let mut plan = lock(&self.plan);
        // SAFETY: by the safety contract of this function.
        let row = |colour: Colour, row: usize| unsafe { v[colour].row(row, 0) };
        // SAFETY: as above.
        let row_mut = |colour: Colour, row: usize| unsafe { v[colour].row_mut(row, 0) };
        let send = |plan: &mut Exchange| {
            plan.check()?;
            for (&(colour, j), to) in self.sent.iter().zip(plan.outgoing().chunks_exact_mut(self.cx)) {
                to.iter_mut().zip(row(colour, j)).for_each(|(to, value)| *to = value.wide());
            }
            plan.run()
        };
        if send(&mut plan).is_err() {
            // The end of the call tells why; until then no value is one.
            self.received.iter().for_each(|&(colour, j)| row_mut(colour, j).fill(R::narrow(f64::NAN)));
            return;
        }
        for (&(colour, j), from) in self.received.iter().zip(plan.received().chunks_exact(self.cx)) {
            row_mut(colour, j).iter_mut().zip(from).for_each(|(to, &value)| *to = R::narrow(value));
        }
    }
}

/// The rows next to this rank's, of vectors on one grid.
pub struct Halo {
    /// There is a rank below, and above.
    pub sides: [bool; 2],
    /// Of all colours, and of black ones alone.
    all: Round,
    black: Round,
    /// For a fused sweep downwards.
    down: Round,
    /// Of b1 alone.
    dropped: Round,
}

impl Halo {
    pub fn new(domain: &Domain, q: usize, layout: &Layout) -> Result<Self> {
        use Colour::{B1, B2, R1, R2};
        let round = |tag, up: &[Edge], down: &[Edge]| Round::new(domain, (q, tag), layout.cx, up, down);
        let first = [(R1, 0), (R2, 0), (B1, 0), (B2, 0)];
        Ok(Self {
            sides: domain.strips.neighbours(domain.comm.rank()).map(|neighbour| neighbour.is_some()),
            all: round(0, &first, &first)?,
            black: round(1, &first[2..], &first[2..])?,
            down: round(3, &[(R1, 0), (R2, 0), (B1, 0), (R1, 1)], &first[..3])?,
            dropped: round(4, &[(B1, 0)], &[(B1, 0)])?,
        })
    }

    /// Brings the rows J of v next to this rank's, which their owners have written.
    ///
    /// # Safety
    /// No thread may use rows of v beside this rank's meanwhile, nor write the others.
    pub unsafe fn refresh<R: Real + Number>(&self, v: &Four<R>) {
        let round = if v.r1.bytes() > 0 { &self.all } else { &self.black };
        // SAFETY: by the safety contract of this function.
        unsafe { round.run(v) };
    }

    /// The same of what a fused sweep downwards reads.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_down<R: Real + Number>(&self, v: &Four<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.down.run(v) };
    }

    /// The same of b1.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_dropped<R: Real + Number>(&self, v: &Four<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.dropped.run(v) };
    }
}

/// Natural rows of the first grid that is not shared: each rank makes some, and all get all.
pub struct HandOver {
    rank: usize,
    /// Of each rank.
    rows: Vec<Range<usize>>,
    nx: usize,
    vector: Mutex<Gather>,
    matrix: Mutex<Gather>,
}

/// Arrays of a half stencil.
pub const HALF: usize = 5;

impl HandOver {
    /// `above`: the last shared grid, and the grid of its kept nodes.
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
        let (vector, matrix) = (gather(1)?, gather(HALF)?);
        Ok(Self { rank: domain.comm.rank(), rows, nx: grid.nx, vector, matrix })
    }

    /// Rows of v on that grid, of which each rank has its own.
    ///
    /// # Safety
    /// No thread may use v meanwhile.
    pub unsafe fn refresh<R: Real + Number>(&self, layout: &Layout, v: &Four<R>, row: &mut [R]) {
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

    /// Rows of a matrix: `own` gives row j of this rank, `other` gets those of the others.
    pub fn matrix(
        &self,
        mut own: impl FnMut(usize, &mut [f64]),
        mut other: impl FnMut(usize, [&[f64]; HALF]),
    ) -> Result<()> {
        let (mut plan, length) = (lock(&self.matrix), HALF * self.nx);
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
                    other(j, parts(row, self.nx));
                }
            }
        }
        Ok(())
    }
}

/// The five arrays of a row of a half stencil.
fn parts(row: &[f64], nx: usize) -> [&[f64]; HALF] {
    std::array::from_fn(|k| &row[k * nx..(k + 1) * nx])
}

/// Natural rows of a grid's matrix beside those that this rank makes.
pub struct MatrixHalo {
    own: Range<usize>,
    below: Range<usize>,
    above: Range<usize>,
    /// Rows that go to the rank below, the first ones, and above, the last ones.
    sent: [usize; 2],
    nx: usize,
    plan: Mutex<Exchange>,
}

impl MatrixHalo {
    /// Of grid q, which is shared, and is not the first.
    pub fn new(domain: &Domain, q: usize, grid: Grid) -> Result<Self> {
        let rows = domain.rows(q);
        let own = (2 * rows.start).min(grid.ny)..(2 * rows.end).min(grid.ny);
        let [below, above] = domain.strips.neighbours(domain.comm.rank());
        let length = HALF * grid.nx;
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
        let to_below = if below.is_some() { ABOVE.min(grid.ny - own.start) } else { 0 };
        let to_above = if above.is_some() { BELOW } else { 0 };
        let beyond = own.end..(own.end + ABOVE).min(grid.ny);
        if let Some(peer) = below {
            next(peer, to_below, BELOW)?;
        }
        if let Some(peer) = above {
            next(peer, to_above, beyond.len())?;
        }
        let tag = FIRST_TAG + TAGS * q as i32 + 2;
        let plan = Mutex::new(Exchange::new(&domain.comm, tag, &parts)?);
        let below = if below.is_some() { own.start - BELOW..own.start } else { own.start..own.start };
        let above = if above.is_some() { beyond } else { own.end..own.end };
        Ok(Self { own, below, above, sent: [to_below, to_above], nx: grid.nx, plan })
    }

    /// `own` gives row j of this rank, `other` gets those of its neighbours.
    pub fn exchange(
        &self,
        mut own: impl FnMut(usize, &mut [f64]),
        mut other: impl FnMut(usize, [&[f64]; HALF]),
    ) -> Result<()> {
        let (mut plan, length) = (lock(&self.plan), HALF * self.nx);
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
            other(j, parts(row, self.nx));
        }
        Ok(())
    }
}

/// What ranks have seen of the inputs of a solve.
pub struct Seen(Mutex<Gather>);

/// max |b|, max |x|, and of the first entry that is not finite: its array (0: there is none), value and node.
const SEEN: usize = 6;

impl Seen {
    pub fn new(domain: &Domain) -> Result<Self> {
        let counts = collected((0..domain.comm.size()).map(|_| SEEN), HALOS)?;
        Ok(Self(Mutex::new(Gather::new(&domain.comm, &counts)?)))
    }

    /// Adds what the other ranks have seen.
    pub fn merge(&self, own: &mut Inputs, input_name: &'static str) -> Result<()> {
        let mut gather = lock(&self.0);
        let (name, value, i, j) = own.not_finite.unwrap_or(("", 0.0, 0, 0));
        let array = own.not_finite.map_or(0.0, |_| if name == input_name { 1.0 } else { 2.0 });
        let words: [f64; SEEN] = [own.rhs_max, own.guess_max, array, value, i as f64, j as f64];
        for words in gather.run(|to| to.copy_from_slice(&words))?.chunks_exact(SEEN) {
            let name = if words[2] == 1.0 { input_name } else { "x" };
            let place = (words[2] > 0.0).then_some((name, words[3], words[4] as usize, words[5] as usize));
            let other = Inputs { rhs_max: words[0], guess_max: words[1], not_finite: place };
            own.merge(&other, input_name);
        }
        Ok(())
    }
}

/// What the grids of a factorization exchange.
pub struct Links {
    pub domain: Domain,
    /// Of the matrices of grids 1, 2, ...
    pub matrices: Vec<MatrixHalo>,
    pub hand_over: HandOver,
    pub seen: Seen,
    /// Over rows of each shared grid, and over those of all that belong to the first section.
    pub of_grid: Vec<Sums>,
    pub of_section: Sums,
}

#[cfg(test)]
mod tests;
