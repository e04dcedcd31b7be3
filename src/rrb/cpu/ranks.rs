//! Data exchange of the distributed grids (`distributed::strips`). A rank stores its own rows and some rows of its
//! neighbours, the halo. Grids that are not distributed are stored completely on every rank.
//!
//! Only thread 0 of a team sends and receives, between two barriers. If an exchange of vectors or of partial sums
//! fails, thread 0 sets the received values to NaN and continues, so that all threads reach the end of the run. The
//! caller of the run then reports the error. The exchanges of a matrix and of the properties of b and x return the
//! error instead.

use crate::base::number::Real;
use crate::base::reduce::{OtherRanks, pairwise_sum};
use crate::base::shared::Number;
use crate::distributed::{Exchange, Gather, PeerRanges};
use crate::error::{Result, collected, extend, push};
use crate::krylov::solve_steps::Inputs;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{load_natural_row, store_natural_row};
use crate::rrb::domain::{Domain, NATURAL_ROWS_ABOVE, NATURAL_ROWS_BELOW};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Grid;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the memory in error messages about failed allocations.
const HALO_ALLOCATION: &str = "rows of other ranks";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exchange of arrays in which each rank has computed some ranges. All ranks receive the complete arrays.
struct RangeGather {
    /// Ranges that each rank has computed.
    owned_ranges: Vec<Vec<Range<usize>>>,
    /// Plans of the exchange. Entry k exchanges k + 1 arrays together.
    plans: Vec<Mutex<Gather>>,
}

impl RangeGather {
    fn new(domain: &Domain, owned_ranges: Vec<Vec<Range<usize>>>, max_values_per_entry: usize) -> Result<Self> {
        let total_length = |ranges: &Vec<Range<usize>>| ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
        let mut plans = Vec::new();
        for values_per_entry in 1..=max_values_per_entry {
            let value_counts =
                collected(owned_ranges.iter().map(|ranges| values_per_entry * total_length(ranges)), HALO_ALLOCATION)?;
            push(&mut plans, Mutex::new(Gather::new(&domain.comm, &value_counts)?), HALO_ALLOCATION)?;
        }
        Ok(Self { owned_ranges, plans })
    }

    /// Sends the ranges of rank `own_rank`, and receives the ranges that other ranks have computed. Each index of a
    /// range has `value_arrays.len()` values. Array k contains value k for all indices.
    fn fill(&self, own_rank: usize, value_arrays: &mut [&mut [f64]]) {
        let mut plan = lock(&self.plans[value_arrays.len() - 1]);
        let own_ranges = &self.owned_ranges[own_rank];
        let pack = |out: &mut [f64]| {
            let mut out = out.iter_mut();
            for values in value_arrays.iter() {
                for range in own_ranges {
                    values[range.clone()].iter().zip(out.by_ref()).for_each(|(&value, out)| *out = value);
                }
            }
        };
        let gathered = plan.run(pack);
        let mut gathered = gathered.unwrap_or_default().iter();
        for (rank, owned_ranges) in self.owned_ranges.iter().enumerate() {
            for values in value_arrays.iter_mut() {
                for range in owned_ranges {
                    for value in &mut values[range.clone()] {
                        let received = gathered.next().copied().unwrap_or(f64::NAN);
                        if rank != own_rank {
                            *value = received;
                        }
                    }
                }
            }
        }
    }
}

/// Exchange of partial sums with other ranks. There is one partial sum per row, or one per pair of a row and a singular
/// component.
pub struct SumExchange {
    rank: usize,
    /// Exchange of all partial sums.
    partial_exchange: RangeGather,
    /// Exchange of one total per range, stored at the first index of the range. `None`: all partial sums are exchanged,
    /// so that sums are bitwise identical for any number of ranks.
    total_exchange: Option<RangeGather>,
}

impl SumExchange {
    /// Plans sums over the index ranges that each rank owns. For each index, the ranks exchange up to
    /// `max_values_per_entry` partial sums together.
    pub fn new(domain: &Domain, owned_ranges: Vec<Vec<Range<usize>>>, max_values_per_entry: usize) -> Result<Self> {
        let mut first_indices = Vec::new();
        for ranges in &owned_ranges {
            let first_index = |range: &Range<usize>| range.start..range.end.min(range.start + 1);
            push(&mut first_indices, collected(ranges.iter().map(first_index), HALO_ALLOCATION)?, HALO_ALLOCATION)?;
        }
        let total_exchange = if domain.reproducible {
            None
        } else {
            Some(RangeGather::new(domain, first_indices, max_values_per_entry)?)
        };
        Ok(Self {
            rank: domain.comm.rank(),
            partial_exchange: RangeGather::new(domain, owned_ranges, max_values_per_entry)?,
            total_exchange,
        })
    }

    /// Plans sums over the rows of a distributed grid.
    pub fn over_grid(domain: &Domain, q: usize, max_values_per_entry: usize) -> Result<Self> {
        let owned_ranges =
            (0..domain.comm.size()).map(|rank| collected([domain.strips.rows(q, rank)], HALO_ALLOCATION));
        let mut owned_by_rank = Vec::new();
        for ranges in owned_ranges {
            push(&mut owned_by_rank, ranges?, HALO_ALLOCATION)?;
        }
        Self::new(domain, owned_by_rank, max_values_per_entry)
    }

    /// Plans sums over the rows of all distributed grids among the grids 0 .. `grid_end`. The partial sums of grid q
    /// begin at `offsets[q]`. A second set of partial sums of grid 0 begins at `offsets[grid_end]`.
    pub fn over_grids(
        domain: &Domain,
        offsets: &[usize],
        grid_end: usize,
        max_values_per_entry: usize,
    ) -> Result<Self> {
        let grids = (0..grid_end)
            .filter(|&q| domain.is_distributed(q))
            .map(|q| (q, offsets[q]))
            .chain([(0, offsets[grid_end])]);
        let mut owned_ranges = Vec::new();
        for rank in 0..domain.comm.size() {
            let range_of = |(q, offset): (usize, usize)| {
                let rows = domain.strips.rows(q, rank);
                offset + rows.start..offset + rows.end
            };
            push(&mut owned_ranges, collected(grids.clone().map(range_of), HALO_ALLOCATION)?, HALO_ALLOCATION)?;
        }
        Self::new(domain, owned_ranges, max_values_per_entry)
    }
}

impl OtherRanks for SumExchange {
    fn fill_entries(&self, value_arrays: &mut [&mut [f64]]) {
        self.partial_exchange.fill(self.rank, value_arrays);
    }

    fn fill_sums(&self, value_arrays: &mut [&mut [f64]]) {
        let Some(total_exchange) = &self.total_exchange else { return self.fill_entries(value_arrays) };
        for (rank, owned_ranges) in self.partial_exchange.owned_ranges.iter().enumerate() {
            for range in owned_ranges.iter().filter(|range| !range.is_empty()) {
                for values in value_arrays.iter_mut() {
                    let partial_sums = &mut values[range.clone()];
                    let total = if rank == self.rank { pairwise_sum(partial_sums) } else { 0.0 };
                    partial_sums.fill(0.0);
                    partial_sums[0] = total;
                }
            }
        }
        total_exchange.fill(self.rank, value_arrays);
    }
}

/// First message tag of the grids; the exchanges of boxes use smaller tags. Each exchange has its own tag, because a
/// neighbour rank may already have begun the next exchange.
const FIRST_TAG: i32 = 16;
/// Number of message tags per grid.
const TAGS_PER_GRID: i32 = 8;

/// Exchange of rows of a vector with the rank below and the rank above.
struct RowExchange {
    cx: usize,
    sent_rows: Vec<(Colour, usize)>,
    received_rows: Vec<(Colour, usize)>,
    plan: Mutex<Exchange>,
}

/// A row of a colour, given by its distance from the first or from the last row of this rank.
type EdgeRow = (Colour, usize);

impl RowExchange {
    /// Plans an exchange. `rows_up` contains the rows sent to the rank above, counted downwards from the last row of
    /// this rank. `rows_down` contains the rows sent to the rank below, counted upwards from the first row.
    fn new(
        domain: &Domain,
        (q, tag): (usize, i32),
        cx: usize,
        rows_up: &[EdgeRow],
        rows_down: &[EdgeRow],
    ) -> Result<Self> {
        let [rank_below, rank_above] = domain.strips.neighbours(domain.comm.rank());
        let own_rows = domain.rows(q);
        let (mut sent_rows, mut received_rows, mut exchange_parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut add_peer =
            |peer: usize, sent_to_peer: Vec<(Colour, usize)>, received_from_peer: Vec<(Colour, usize)>| {
                let peer_ranges = PeerRanges {
                    peer,
                    send: sent_rows.len() * cx..(sent_rows.len() + sent_to_peer.len()) * cx,
                    receive: received_rows.len() * cx..(received_rows.len() + received_from_peer.len()) * cx,
                };
                extend(&mut sent_rows, sent_to_peer, HALO_ALLOCATION)?;
                extend(&mut received_rows, received_from_peer, HALO_ALLOCATION)?;
                push(&mut exchange_parts, peer_ranges, HALO_ALLOCATION)
            };
        if let Some(peer) = rank_below {
            let sent_to_peer = rows_down.iter().map(|&(colour, k)| (colour, own_rows.start + k));
            let received_from_peer = rows_up.iter().map(|&(colour, k)| (colour, own_rows.start - 1 - k));
            add_peer(peer, collected(sent_to_peer, HALO_ALLOCATION)?, collected(received_from_peer, HALO_ALLOCATION)?)?;
        }
        if let Some(peer) = rank_above {
            let sent_to_peer = rows_up.iter().map(|&(colour, k)| (colour, own_rows.end - 1 - k));
            let received_from_peer = rows_down.iter().map(|&(colour, k)| (colour, own_rows.end + k));
            add_peer(peer, collected(sent_to_peer, HALO_ALLOCATION)?, collected(received_from_peer, HALO_ALLOCATION)?)?;
        }
        let plan =
            Mutex::new(Exchange::new(&domain.comm, FIRST_TAG + TAGS_PER_GRID * q as i32 + tag, &exchange_parts)?);
        Ok(Self { cx, sent_rows, received_rows, plan })
    }

    /// Exchanges the rows of v; sets the received rows to NaN if the exchange fails.
    ///
    /// # Safety
    /// No thread may use these rows of v meanwhile.
    unsafe fn exchange<R: Real + Number>(&self, v: &FourColours<R>) {
        if self.sent_rows.is_empty() {
            return;
        }
        let mut plan = lock(&self.plan);
        // SAFETY: by the safety contract of this function.
        let row = |colour: Colour, row: usize| unsafe { v[colour].row(row, 0) };
        // SAFETY: by the safety contract of this function.
        let row_mut = |colour: Colour, row: usize| unsafe { v[colour].row_mut(row, 0) };
        let send_rows = |plan: &mut Exchange| {
            plan.check_not_failed()?;
            for (&(colour, j), out) in self.sent_rows.iter().zip(plan.send_buffer().chunks_exact_mut(self.cx)) {
                out.iter_mut().zip(row(colour, j)).for_each(|(out, value)| *out = value.to_f64());
            }
            plan.run()
        };
        if send_rows(&mut plan).is_err() {
            // The error is reported at the end of the run; until then, the rows contain NaN.
            self.received_rows.iter().for_each(|&(colour, j)| row_mut(colour, j).fill(R::from_f64(f64::NAN)));
            return;
        }
        for (&(colour, j), row_values) in self.received_rows.iter().zip(plan.receive_buffer().chunks_exact(self.cx)) {
            row_mut(colour, j).iter_mut().zip(row_values).for_each(|(to, &value)| *to = R::from_f64(value));
        }
    }
}

/// Exchanges of the halo rows of vectors on one grid.
pub struct Halo {
    /// Whether there is a rank below, and whether there is one above.
    pub has_neighbour_ranks: [bool; 2],
    /// Exchange of all colours, and exchange of the black colours only.
    all_colours: RowExchange,
    black_colours: RowExchange,
    /// Exchange of those halo rows that a fused downward sweep reads.
    down_sweep: RowExchange,
    /// Exchange of b1 only.
    b1_only: RowExchange,
}

impl Halo {
    pub fn new(domain: &Domain, q: usize, layout: &Layout) -> Result<Self> {
        use Colour::{B1, B2, R1, R2};
        let new_exchange = |tag, rows_up: &[EdgeRow], rows_down: &[EdgeRow]| {
            RowExchange::new(domain, (q, tag), layout.cx, rows_up, rows_down)
        };
        let first_rows = [(R1, 0), (R2, 0), (B1, 0), (B2, 0)];
        Ok(Self {
            has_neighbour_ranks: domain.strips.neighbours(domain.comm.rank()).map(|neighbour| neighbour.is_some()),
            all_colours: new_exchange(0, &first_rows, &first_rows)?,
            black_colours: new_exchange(1, &first_rows[2..], &first_rows[2..])?,
            down_sweep: new_exchange(3, &[(R1, 0), (R2, 0), (B1, 0), (R1, 1)], &first_rows[..3])?,
            b1_only: new_exchange(4, &[(B1, 0)], &[(B1, 0)])?,
        })
    }

    /// Exchanges rows of v with the neighbour ranks. The halo rows of v then contain the values that their owners have
    /// computed.
    ///
    /// # Safety
    /// No thread may use the halo rows of v meanwhile, or write other rows of v.
    pub unsafe fn refresh<R: Real + Number>(&self, v: &FourColours<R>) {
        let exchange = if v.r1.bytes() > 0 { &self.all_colours } else { &self.black_colours };
        // SAFETY: by the safety contract of this function.
        unsafe { exchange.exchange(v) };
    }

    /// Receives those halo rows that a fused downward sweep reads.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_down<R: Real + Number>(&self, v: &FourColours<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.down_sweep.exchange(v) };
    }

    /// Receives the halo rows of b1.
    ///
    /// # Safety
    /// As for `refresh`.
    pub unsafe fn refresh_b1<R: Real + Number>(&self, v: &FourColours<R>) {
        // SAFETY: by the safety contract of this function.
        unsafe { self.b1_only.exchange(v) };
    }
}

/// Exchange of natural rows of the first grid that is not distributed. Each rank computes some rows, and all ranks
/// receive all rows.
pub struct CompleteRows {
    rank: usize,
    /// Natural rows that each rank computes.
    rows: Vec<Range<usize>>,
    nx: usize,
    vector_gather: Mutex<Gather>,
    matrix_gather: Mutex<Gather>,
}

/// Number of arrays of a half stencil.
pub const HALF_STENCIL_ARRAYS: usize = 5;

impl CompleteRows {
    /// Plans the exchange. `last_distributed` is the layout of the last distributed grid. `grid` is the next grid,
    /// which consists of the kept nodes of the last distributed grid.
    pub fn new(domain: &Domain, last_distributed: &Layout, grid: Grid) -> Result<Self> {
        let kept_rows = last_distributed.rows(Colour::B2);
        let last_grid_index = domain.strips.depth - 1;
        let rows_of = |rank: usize| {
            let rows = domain.strips.rows(last_grid_index, rank);
            rows.start.min(kept_rows.end)..rows.end.min(kept_rows.end)
        };
        let rows = collected((0..domain.comm.size()).map(rows_of), HALO_ALLOCATION)?;
        let gather = |arrays: usize| {
            let counts = collected(rows.iter().map(|rows| arrays * rows.len() * grid.nx), HALO_ALLOCATION)?;
            Ok(Mutex::new(Gather::new(&domain.comm, &counts)?))
        };
        let (vector_gather, matrix_gather) = (gather(1)?, gather(HALF_STENCIL_ARRAYS)?);
        Ok(Self { rank: domain.comm.rank(), rows, nx: grid.nx, vector_gather, matrix_gather })
    }

    /// Receives the rows of v that other ranks have computed. `row` is a buffer for one natural row.
    ///
    /// # Safety
    /// No thread may use v meanwhile.
    pub unsafe fn refresh<R: Real + Number>(&self, layout: &Layout, v: &FourColours<R>, row: &mut [R]) {
        let mut plan = lock(&self.vector_gather);
        let row = &mut row[..self.nx];
        let gathered = plan.run(|out| {
            for (j, out) in self.rows[self.rank].clone().zip(out.chunks_exact_mut(self.nx)) {
                // SAFETY: by the safety contract of this function.
                unsafe { load_natural_row(layout, j, v, row) };
                out.iter_mut().zip(&*row).for_each(|(out, value)| *out = value.to_f64());
            }
        });
        let mut values = gathered.unwrap_or_default().chunks_exact(self.nx);
        for (rank, rows) in self.rows.iter().enumerate() {
            for j in rows.clone() {
                let received = values.next();
                if rank == self.rank {
                    continue;
                }
                match received {
                    Some(received) => row.iter_mut().zip(received).for_each(|(to, &value)| *to = R::from_f64(value)),
                    None => row.fill(R::from_f64(f64::NAN)),
                }
                // SAFETY: by the safety contract of this function.
                unsafe { store_natural_row(layout, j, row, 1.0, v) };
            }
        }
    }

    /// Exchanges rows of a matrix. `compute_row(j, ..)` computes row j of this rank; `store_row` is called for each
    /// received row.
    pub fn exchange_matrix(
        &self,
        mut compute_row: impl FnMut(usize, &mut [f64]),
        mut store_row: impl FnMut(usize, [&[f64]; HALF_STENCIL_ARRAYS]),
    ) -> Result<()> {
        let (mut plan, row_length) = (lock(&self.matrix_gather), HALF_STENCIL_ARRAYS * self.nx);
        let mut gathered = plan.run(|out| {
            for (j, out) in self.rows[self.rank].clone().zip(out.chunks_exact_mut(row_length)) {
                compute_row(j, out);
            }
        })?;
        for (rank, rows) in self.rows.iter().enumerate() {
            for j in rows.clone() {
                let row;
                (row, gathered) = gathered.split_at(row_length);
                if rank != self.rank {
                    store_row(j, stencil_arrays(row, self.nx));
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
    own_rows: Range<usize>,
    /// Rows received from the rank below, and from the rank above.
    rows_below: Range<usize>,
    rows_above: Range<usize>,
    /// Number of rows sent to the rank below, and to the rank above.
    sent_counts: [usize; 2],
    nx: usize,
    plan: Mutex<Exchange>,
}

impl MatrixHalo {
    /// Plans the exchange for grid q, which is distributed and not the first grid.
    pub fn new(domain: &Domain, q: usize, grid: Grid) -> Result<Self> {
        let rows = domain.rows(q);
        let own_rows = (2 * rows.start).min(grid.ny)..(2 * rows.end).min(grid.ny);
        let [rank_below, rank_above] = domain.strips.neighbours(domain.comm.rank());
        let row_length = HALF_STENCIL_ARRAYS * grid.nx;
        let mut exchange_parts = Vec::new();
        let (mut sent_row_count, mut received_row_count) = (0, 0);
        let mut add_part = |peer: usize, sends: usize, receives: usize| {
            let peer_ranges = PeerRanges {
                peer,
                send: sent_row_count * row_length..(sent_row_count + sends) * row_length,
                receive: received_row_count * row_length..(received_row_count + receives) * row_length,
            };
            (sent_row_count, received_row_count) = (sent_row_count + sends, received_row_count + receives);
            push(&mut exchange_parts, peer_ranges, HALO_ALLOCATION)
        };
        let to_below = if rank_below.is_some() { NATURAL_ROWS_ABOVE.min(grid.ny - own_rows.start) } else { 0 };
        let to_above = if rank_above.is_some() { NATURAL_ROWS_BELOW } else { 0 };
        let rows_beyond = own_rows.end..(own_rows.end + NATURAL_ROWS_ABOVE).min(grid.ny);
        if let Some(peer) = rank_below {
            add_part(peer, to_below, NATURAL_ROWS_BELOW)?;
        }
        if let Some(peer) = rank_above {
            add_part(peer, to_above, rows_beyond.len())?;
        }
        let tag = FIRST_TAG + TAGS_PER_GRID * q as i32 + 2;
        let plan = Mutex::new(Exchange::new(&domain.comm, tag, &exchange_parts)?);
        let rows_below = if rank_below.is_some() {
            own_rows.start - NATURAL_ROWS_BELOW..own_rows.start
        } else {
            own_rows.start..own_rows.start
        };
        let rows_above = if rank_above.is_some() { rows_beyond } else { own_rows.end..own_rows.end };
        Ok(Self { own_rows, rows_below, rows_above, sent_counts: [to_below, to_above], nx: grid.nx, plan })
    }

    /// Exchanges rows of a matrix with the neighbour ranks. `compute_row(j, ..)` computes row j of this rank;
    /// `store_row` is called for each received row.
    pub fn exchange(
        &self,
        mut compute_row: impl FnMut(usize, &mut [f64]),
        mut store_row: impl FnMut(usize, [&[f64]; HALF_STENCIL_ARRAYS]),
    ) -> Result<()> {
        let (mut plan, row_length) = (lock(&self.plan), HALF_STENCIL_ARRAYS * self.nx);
        plan.check_not_failed()?;
        let mut out = plan.send_buffer().chunks_exact_mut(row_length);
        let [sent_below, sent_above] = self.sent_counts;
        for j in (self.own_rows.start..self.own_rows.start + sent_below)
            .chain(self.own_rows.end - sent_above..self.own_rows.end)
        {
            if let Some(out) = out.next() {
                compute_row(j, out);
            }
        }
        plan.run()?;
        let rows = self.rows_below.clone().chain(self.rows_above.clone());
        for (j, row) in rows.zip(plan.receive_buffer().chunks_exact(row_length)) {
            store_row(j, stencil_arrays(row, self.nx));
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
        let counts = collected((0..domain.comm.size()).map(|_| INPUT_WORDS), HALO_ALLOCATION)?;
        Ok(Self(Mutex::new(Gather::new(&domain.comm, &counts)?)))
    }

    /// Merges the properties that the other ranks have found into `own_inputs`.
    pub fn merge(&self, own_inputs: &mut Inputs, input_name: &'static str) -> Result<()> {
        let mut gather = lock(&self.0);
        let (name, value, i, j) = own_inputs.not_finite.unwrap_or(("", 0.0, 0, 0));
        let array = own_inputs.not_finite.map_or(0.0, |_| if name == input_name { 1.0 } else { 2.0 });
        let words: [f64; INPUT_WORDS] = [own_inputs.rhs_max, own_inputs.guess_max, array, value, i as f64, j as f64];
        for words in gather.run(|out| out.copy_from_slice(&words))?.chunks_exact(INPUT_WORDS) {
            let name = if words[2] == 1.0 { input_name } else { "x" };
            let not_finite = (words[2] > 0.0).then_some((name, words[3], words[4] as usize, words[5] as usize));
            let other_inputs = Inputs { rhs_max: words[0], guess_max: words[1], not_finite, scale: None };
            own_inputs.merge(&other_inputs, input_name);
        }
        Ok(())
    }
}

/// All exchanges of a factorization and of its solves.
pub struct RankExchanges {
    pub domain: Domain,
    /// Exchanges of matrix rows on the distributed grids 1, 2, ...
    pub matrix_halos: Vec<MatrixHalo>,
    pub complete_rows: CompleteRows,
    pub input_exchange: InputExchange,
    /// Exchanges of partial sums: one exchange for each distributed grid, and `section_sums` for all distributed grids
    /// of the first section together.
    pub grid_sums: Vec<SumExchange>,
    pub section_sums: SumExchange,
}

#[cfg(test)]
mod tests;
