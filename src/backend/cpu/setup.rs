//! The factorization on r1/r2/b1/b2 grids: the formulas of `reference::levels`, colour by colour.
//!
//! Each grid is one sweep over rows J, so that rows are still in cache when the next formula reads them. What a
//! formula makes of row J, and the rows it needs:
//!
//! ```text
//!     spread    on the first grid, A: row J, and what its nodes hold for r2 and b1 of row J + 1
//!     start     on the first grid, M before the levels;   A J - 1, J, spread
//!               of S1 the next two take its row sums
//!     reds      pivots of r1 and r2; couplings at         A, M J - 1 .. J + 1, before their skew
//!               distance two over r1 J and r2 J
//!     skew      the rest of the skew stencil, S1          A, M J - 1 .. J + 1, reds of J - 1 .. J + 1
//!     dropped   pivots of b1                              skew of J, reds of J - 1, J
//!     coarse    the next grid's row                       reds of J, J + 1, skew and dropped of J, J + 1
//! ```
//!
//! Each member works on its rows. Those that its neighbours need come first, formula by formula, with barriers
//! between; the sweep over the others needs none. Each formula writes rows of this member, `coarse` also those of the next
//! grid that they make, which nobody uses before a barrier but who follows; and of what others have made it reads what is
//! complete since a barrier and not written before the next: that is what the unsafe blocks rest on. Up to three grids after
//! the first one, large ones, follow the one before row by row, each member in rows that it has made alone: see `passing`.

use super::area::{Area, Four};
use super::cycle::Sections;
use super::format::{Double, Format, Short};
use super::kernels::{
    Elimination, Kept, Link, OfDropped, OfReds, StoredPivot, coarse_couplings, distant_couplings, exact_pivots, lose,
    pivots, round_couplings, row_sums, schur_centers, schur_row_sums, skew_couplings, store, store_same, subtract,
    without_positive,
};
use super::making::Making;
use super::neighbours::{Diagonal, Distant, EAST, NORTH, Rows, SOUTH, Straight, WEST};
use super::packed::{Packed, PackedGrid, Shape};
use super::passing::Part;
use super::spread::{Target, natural_rows};
use super::team::Me;
use crate::backend::cycle::{self, Cycle, Kind};
use crate::backend::reference::band::Ends;
use crate::backend::reference::levels::NaturalLevels;
use crate::backend::{Pivot, PivotContext, PivotNode, Setup};
use crate::error::{Error, Result};
use crate::grid::inspection::{Inspection, Wanted};
use crate::grid::layout::Colour;
use crate::grid::stencil::{HalfStencil, StencilView, ring_index};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Columns of four rows that are worked on at a time, 8 kB.
const COLUMNS_NEAR: usize = 256;

/// The look at a matrix while it is factorized, in the hope that it is like the last one.
pub struct Watch<'a> {
    pub inspection: &'a Inspection,
    pub wanted: Wanted,
    over: AtomicBool,
}

impl<'a> Watch<'a> {
    pub fn new(inspection: &'a Inspection, wanted: Wanted) -> Self {
        Self { inspection, wanted, over: AtomicBool::new(false) }
    }

    /// A row was not sound.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether natural row j of A may be worked on. In order (`member`) all is noted that is to be known.
    fn admits(&self, member: Option<usize>, a: &StencilView, j: usize) -> bool {
        let sound = match member {
            // After a row that is not sound nothing is noted: rows are joined to the one before.
            Some(member) if !self.is_over() => self.inspection.look_at(member, a, j, &self.wanted),
            _ => self.wanted.has(a, j),
        };
        if !sound {
            self.over.store(true, Ordering::Relaxed);
        }
        sound
    }
}

impl<F: Format> Packed<F> {
    /// In short formats padding and border are divided by too: one there, from the owners of the rows.
    fn start_short(&self, me: Me) {
        for grid in &self.grids {
            let Some(short) = F::short(&grid.own) else { return };
            for row in grid.rows(me) {
                for area in [&short.pivot.r1, &short.pivot.r2, &short.pivot.b1].into_iter().filter(|a| a.bytes() > 0) {
                    // SAFETY: rows of this member, which no other uses before the barrier below.
                    unsafe { area.fill_row(row, grid.layout.cy, F::write(1.0)) };
                }
            }
        }
        me.barrier();
    }

    /// Copies A, eliminates level by level. All members see the same result. `watch`: A is seen for the first time.
    pub fn factorize_share(&self, me: Me, setup: &Setup, context: &PivotContext, watch: Option<&Watch>) -> Result<()> {
        let mut scratch = self.scratch[me.index].lock().unwrap_or_else(PoisonError::into_inner);
        if self.fresh {
            self.start_short(me);
        }
        for q in 0..self.grids.len() {
            let watch = watch.filter(|_| q == 0);
            let levels = Levels::new(self, q, setup, context);
            match self.grids[q].part(me.index) {
                Some(done) => levels.form_rest(me, done, &mut scratch),
                None => levels.form(me, &mut scratch, watch),
            }
            if let Some(watch) = watch {
                me.barrier();
                if watch.is_over() {
                    break;
                }
            }
        }
        let over = watch.is_some_and(Watch::is_over);
        if !over {
            self.share_natural(me, setup, context, &mut scratch);
        }
        drop(scratch);
        me.barrier();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        me.barrier();
        if me.index == 0 {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !over {
            self.prepare_cycle(me, setup);
        }
        Ok(())
    }

    /// See [`RrbBackend::shorten`](crate::backend::RrbBackend::shorten).
    pub fn shorten(&mut self, setup: &Setup, context: &PivotContext, shape: Shape) -> Result<bool> {
        if !self.leave_out(shape)? {
            return Ok(false);
        }
        self.factorize_natural(setup, context, &mut self.scratch[0].lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(true)
    }

    /// The levels below the last grid.
    fn factorize_natural(&self, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) -> Result<()> {
        let mut natural = self.natural();
        self.form_natural(&mut natural, setup, context, scratch);
        natural.factorize(&self.below(setup), context, None)
    }

    /// The same by member 0, but for the ends of the exact factor, which two members clear and take out.
    fn share_natural(&self, me: Me, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) {
        let ends = self.natural().ends();
        if !ends.are_two() {
            if me.index == 0 {
                self.note(self.factorize_natural(setup, context, scratch));
            }
            return;
        }
        // Ends are clear before member 0 fills them, filled before they are taken out, and out before what is between them is.
        let own_ends = || (me.index..Ends::COUNT).step_by(me.members);
        own_ends().for_each(|k| ends.clear(k));
        me.barrier();
        let mut begun = false;
        if me.index == 0 {
            let mut natural = self.natural();
            self.form_natural(&mut natural, setup, context, scratch);
            let result = natural.begin(&self.below(setup), context, None);
            begun = result.is_ok();
            self.note(result);
        }
        me.barrier();
        own_ends().for_each(|k| ends.eliminate(k, context));
        me.barrier();
        if begun {
            self.note(self.natural().finish(&self.below(setup), context));
        }
    }

    fn form_natural(&self, natural: &mut NaturalLevels, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) {
        let last = self.grids.len() - 1;
        Levels::new(self, last, setup, context).form_natural(natural.input(), scratch);
    }

    /// What is asked of the levels below.
    fn below(&self, setup: &Setup) -> Setup {
        // Where finer grids recurse, they choose for all.
        let kind = if self.sections.len() > 1 { setup.cycle.kind.or(Some(Kind::Amli)) } else { setup.cycle.kind };
        Setup { cycle: Cycle { kind, ..setup.cycle }, ..*setup }
    }

    /// Bounds of the recursions, and the choice of the cycle.
    fn prepare_cycle(&self, me: Me, setup: &Setup) {
        let found = if self.sections.len() > 1 {
            let below = self.natural().recursion().worst_condition();
            cycle::prepare(&mut Sections::new(self, me), &setup.cycle, below)
        } else {
            *self.natural().recursion()
        };
        me.barrier();
        if me.index == 0 {
            self.natural().set_kind(found.kind);
            *self.recursion.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        me.barrier();
    }

    /// Keeps the failure of the lowest level, and there of the first node, whoever finds it.
    fn note(&self, result: Result<()>) {
        let Err(error) = result else { return };
        let order = |e: &Error| match e {
            Error::Matrix { level, i, j, .. } => (*level, *j, *i),
            _ => (0, 0, 0),
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|first| order(&error) < order(first)) {
            *failure = Some(error);
        }
    }
}

/// Rows that a formula has done, each once: in order, but for the last `early` ones, which neighbours wait for.
struct Progress {
    next: usize,
    early: Range<usize>,
}

impl Progress {
    fn new(rows: &Range<usize>, early: usize) -> Self {
        Self { next: rows.start, early: rows.end.saturating_sub(early).max(rows.start)..rows.end }
    }

    /// All rows to `row` that are not done.
    fn to(&mut self, row: usize) -> Range<usize> {
        let first = self.next;
        self.next = (row + 1).clamp(first, self.early.start.max(first));
        first..self.next
    }
}

/// A watch, and the member whose turn it is to note what it sees; none where rows come early.
type InTurn<'a> = (&'a Watch<'a>, Option<usize>);

/// The two levels of a grid in the making.
struct Levels<'a, F: Format> {
    k: &'a Packed<F>,
    q: usize,
    grid: &'a PackedGrid<F>,
    /// Where the first elimination is exact, as with 5 points: couplings and centers are those of A, and black
    /// nodes are not coupled.
    exact: Option<&'a Making>,
    straight: &'a Straight,
    excess: &'a Four,
    inverse: &'a Four,
    black_diagonal: &'a Diagonal,
    b1_distant: &'a Distant,
    b2_distant: &'a Distant,
    setup: &'a Setup,
    context: &'a PivotContext<'a>,
}

impl<'a, F: Format> Levels<'a, F> {
    fn new(k: &'a Packed<F>, q: usize, setup: &'a Setup, context: &'a PivotContext) -> Self {
        let grid = &k.grids[q];
        let exact = k.making.as_ref().filter(|_| q == 0);
        let own = Self {
            k,
            q,
            grid,
            exact,
            straight: &grid.straight,
            excess: &grid.excess,
            inverse: &grid.inverse,
            black_diagonal: &grid.black_diagonal,
            b1_distant: &grid.b1_distant,
            b2_distant: &grid.b2_distant,
            setup,
            context,
        };
        let Some(m) = exact else { return own };
        Self {
            straight: &m.straight,
            excess: &m.excess,
            inverse: &m.inverse,
            black_diagonal: &m.black_diagonal,
            b1_distant: &m.b1_distant,
            b2_distant: &m.b2_distant,
            ..own
        }
    }

    /// Couplings b1 to b2 as sweeps read them.
    fn diagonal(&self) -> &'a Diagonal<F::Stored> {
        F::diagonal(self.black_diagonal, &self.grid.own)
    }

    /// Row J of the arrays of the first grid of S1.
    ///
    /// # Safety
    /// The row must be this member's, and reds of row J and J + 1, skew and dropped of J done.
    unsafe fn finish(&self, row: usize) {
        if let Some(making) = self.exact {
            // SAFETY: as the caller promised.
            unsafe { making.finish(self.k, row) };
        }
    }

    /// Rows of this member, from A or the grid's matrix to the next grid's.
    fn form(&self, me: Me, scratch: &mut [f64], watch: Option<&Watch>) {
        let (grid, first) = (self.grid, self.q == 0);
        let rows = grid.rows(me);
        // Rows that have to start before a row is complete: its reds need the next one, whose row sums need the one after that.
        let ahead = if self.exact.is_some() { 1 } else { 2 };
        if let Some(watch) = watch {
            watch.inspection.begin(me.index, self.context.a, natural_rows(&grid.layout, &rows));
        }
        let (early, in_order) = (watch.map(|w| (w, None)), watch.map(|w| (w, Some(me.index))));
        if let Some(making) = self.exact {
            making.start(me, grid.layout.cy);
        }
        let Some(last) = rows.clone().last() else { return };
        let (mut spread, mut start) = (Progress::new(&rows, 3), Progress::new(&rows, 2));
        let mut reds = Progress::new(&rows, 1);
        // SAFETY: rows are this member's. Neighbours need, before the first barrier, the last row spread; before
        // the second, rows that start; before the third, reds of the first and last row, with what M was there;
        // before the fourth, skew and dropped nodes of the first row.
        unsafe {
            if first {
                spread.early.clone().for_each(|row| self.spread(row, early));
                spread.to(rows.start).for_each(|row| self.spread(row, in_order));
                grid.barrier(me);
                start.early.clone().for_each(|row| self.start(row));
                self.start_to(rows.start + ahead, &mut spread, &mut start, in_order);
                grid.barrier(me);
            }
            reds.early.clone().chain(reds.to(rows.start + 1)).for_each(|row| self.reds(row, scratch));
            grid.barrier(me);
            self.skew(rows.start, scratch);
            self.dropped(rows.start, scratch);
            self.finish(rows.start);
            grid.barrier(me);
            for row in rows.start + 1..rows.end {
                if first {
                    self.start_to(row + ahead, &mut spread, &mut start, in_order);
                }
                reds.to(row + 1).for_each(|row| self.reds(row, scratch));
                self.skew(row, scratch);
                self.dropped(row, scratch);
                self.hand_on(me, row - 1, watch, scratch);
                self.finish(row);
            }
            self.hand_on(me, last, watch, scratch);
        }
        if let Some(watch) = watch {
            // Those that came early, in their turn.
            natural_rows(&grid.layout, &spread.early).for_each(|j| {
                watch.admits(Some(me.index), self.context.a, j);
            });
        }
        if let Some(making) = self.exact {
            making.end();
        }
        grid.barrier(me);
        if let Some(making) = self.exact {
            // SAFETY: the others are past this grid, too.
            unsafe { making.clear(me, grid.layout.cy) };
        }
    }

    /// Row J of the next grid's matrix, and what follows.
    ///
    /// # Safety
    /// As for `coarse`; rows are handed on in order.
    unsafe fn hand_on(&self, me: Me, row: usize, watch: Option<&Watch>, scratch: &mut [f64]) {
        // SAFETY: as the caller promised.
        unsafe { self.coarse(row, scratch) };
        if watch.is_some_and(Watch::is_over) {
            // What would follow is thrown away, and might be refused before.
            return;
        }
        if let Some(part) = self.k.grids.get(self.q + 1).and_then(|next| next.part(me.index)) {
            // SAFETY: as the caller promised; this grid has handed the row on just now.
            unsafe { Self::new(self.k, self.q + 1, self.setup, self.context).follow(me, part, row, scratch) };
        }
    }

    /// What natural row j, the next one that the grid before hands on, completes of this member's part.
    ///
    /// # Safety
    /// This member must have handed on the natural rows before in order, and nobody may use rows of its part.
    unsafe fn follow(&self, me: Me, part: &Part, j: usize, scratch: &mut [f64]) {
        let (row, odd) = ((j + self.grid.layout.shift_y) / 2, (j + self.grid.layout.shift_y) % 2 == 1);
        let to_do =
            |rows: &Range<usize>, behind: usize| row.checked_sub(behind).filter(|row| odd && rows.contains(row));
        // SAFETY: rows of the part are this member's, made of natural rows that it has handed on itself, and in this order each
        // formula has what it needs: see `passing`.
        unsafe {
            if let Some(row) = to_do(&part.reds, 1) {
                self.reds(row, scratch);
            }
            if let Some(row) = to_do(&part.blacks, 2) {
                self.skew(row, scratch);
                self.dropped(row, scratch);
            }
            if let Some(row) = to_do(&part.coarse, 3) {
                self.hand_on(me, row, None, scratch);
            }
        }
    }

    /// Rows of this member that are not done in passing.
    fn form_rest(&self, me: Me, done: &Part, scratch: &mut [f64]) {
        let rows = self.grid.rows(me);
        let left = |done: &Range<usize>| {
            let done = done.clone();
            rows.clone().filter(move |row| !done.contains(row))
        };
        // SAFETY: rows are this member's, the grid before is done, and barriers are between what members make and others read;
        // rows next to those that are left are as the formulas want them, in slots of their own: see `passing`.
        unsafe {
            left(&done.reds).for_each(|row| self.reds(row, scratch));
            self.grid.barrier(me);
            left(&done.blacks).for_each(|row| {
                self.skew(row, scratch);
                self.dropped(row, scratch);
            });
            self.grid.barrier(me);
            left(&done.coarse).for_each(|row| self.coarse(row, scratch));
        }
        self.grid.barrier(me);
    }

    /// # Safety
    /// As for `form`.
    unsafe fn start_to(&self, row: usize, spread: &mut Progress, start: &mut Progress, watch: Option<InTurn>) {
        for row in start.to(row) {
            // SAFETY: as the caller promised.
            unsafe {
                spread.to(row).for_each(|row| self.spread(row, watch));
                self.start(row);
            }
        }
    }

    /// Copies row J of A; where that is watched, what may be worked on. (In place of a row that may not be there are zeros, or
    /// another one.)
    ///
    /// # Safety
    /// The row must be this member's, and nobody may use what it is spread to.
    unsafe fn spread(&self, row: usize, watch: Option<InTurn>) {
        let (m, a) = (&self.k.matrix, self.context.a);
        let (diagonal, straight) = self.exact.map_or((&m.center, &m.straight), |e| (&e.center, &e.straight));
        let corners = a.corners.map(|_| (&m.red_diagonal, &m.black_diagonal));
        let target = Target { layout: &self.grid.layout, diagonal, straight, corners, far: false };
        for j in natural_rows(&self.grid.layout, &(row..row + 1)) {
            if watch.is_some_and(|(watch, member)| !watch.admits(member, a, j)) {
                continue;
            }
            let rows = a.entries(j).map(|(_, start, values)| (start, values));
            // SAFETY: as the caller promised.
            unsafe { target.spread(j, rows) };
        }
    }

    /// Row J of M before the levels: row sums of A, where positive couplings that are moved to the diagonals stay,
    /// and couplings, with compensation without the positive ones; straight ones as they are stored.
    ///
    /// # Safety
    /// The row must be this member's, and A of row J - 1 and J there.
    unsafe fn start(&self, row: usize) {
        let (m, grid, setup) = (&self.k.matrix, self.grid, self.setup);
        if self.exact.is_some() {
            // Row sums are taken where they are used.
            return;
        }
        let nine_points = self.k.shape.nine_points;
        for colour in Colour::ALL {
            // SAFETY: as the caller promised.
            unsafe {
                let (center, straight) = (m.center[colour].row(row, 0), m.straight.couplings(colour, row));
                let corners = nine_points.then(|| m.corners(colour, row));
                row_sums(self.excess[colour].row_mut(row, 0), center, straight, corners, setup.zero_row_sum);
            }
        }
        let copy = |sources: &[Area; 4], targets: &[Area; 4], rounds: bool| {
            for (source, target) in sources.iter().zip(targets) {
                // SAFETY: as the caller promised.
                let (source, target) = unsafe { (source.row(row, 0), target.row_mut(row, 0)) };
                if setup.compensate {
                    without_positive(target, source)
                } else {
                    target.copy_from_slice(source)
                }
                if rounds {
                    round_couplings::<F>(target, setup.unit);
                }
            }
        };
        let rounds = F::short(&grid.own).is_some();
        copy(&m.straight.r1, &grid.straight.r1, rounds);
        copy(&m.straight.r2, &grid.straight.r2, rounds);
        if nine_points {
            copy(&m.red_diagonal.of, &grid.red_diagonal.of, false);
            copy(&m.black_diagonal.of, &grid.black_diagonal.of, false);
        } else {
            for area in &grid.black_diagonal.of {
                // A 5-point matrix couples no black nodes; what the last factorization left here is no input.
                // SAFETY: as the caller promised.
                unsafe { area.row_mut(row, 0).fill(0.0) };
            }
        }
    }

    /// Where the cycle recurses, row J of the matrix as it is before the levels change it, and straight couplings in
    /// the format of the sweeps.
    ///
    /// # Safety
    /// The row must be this member's and as the matrix was formed.
    unsafe fn keep(&self, row: usize) {
        let grid = self.grid;
        let keep = |source: &Area, target: &Area<F::Stored>| {
            // SAFETY: as the caller promised.
            unsafe { store::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.unit) };
        };
        let keep_all = |sources: &[Area; 4], targets: &[Area<F::Stored>; 4]| {
            sources.iter().zip(targets).for_each(|(source, target)| keep(source, target));
        };
        if let Some(inner) = &grid.recursion {
            for colour in Colour::ALL {
                keep(&grid.excess[colour], &inner.excess[colour]);
            }
            keep_all(&grid.red_diagonal.of, &inner.red_diagonal.of);
            keep_all(&grid.black_diagonal.of, &inner.black_diagonal.of);
        }
        if let Some(short) = F::short(&grid.own).filter(|short| short.straight.bytes() > 0) {
            // Rounded already.
            let pairs = |s: &'a [Area; 4], t: &'a [Area<F::Stored>; 4]| s.iter().zip(t);
            let (to1, to2) = (&short.straight.r1, &short.straight.r2);
            for (source, target) in pairs(&grid.straight.r1, to1).chain(pairs(&grid.straight.r2, to2)) {
                // SAFETY: as the caller promised.
                unsafe { store_same::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.unit) };
            }
        }
    }

    /// The odd level: lumps and eliminates r1 and r2 of row J. With M2, what black nodes lose to lumping goes first.
    ///
    /// # Safety
    /// The row must be this member's, and the matrix of row J - 1 to J + 1 as it was formed.
    unsafe fn reds(&self, row: usize, scratch: &mut [f64]) {
        let setup = self.setup;
        // SAFETY: as the caller promised; couplings at distance two over r2 of row J lie in row J - 1, which the
        // owner of row J writes.
        unsafe {
            self.keep(row);
            let eliminated = self.eliminate_reds(row, scratch);
            self.k.note(eliminated);

            let ([_, _, south, north], h) = (&self.straight.r1, &self.inverse.r1);
            let target = self.b1_distant.north.row_mut(row, 0);
            distant_couplings(target, south.row(row, 0), h.row(row, 0), north.row(row, 0));
            let ([_, _, south, north], h) = (&self.straight.r2, &self.inverse.r2);
            if let Some(below) = row.checked_sub(1) {
                let target = self.b2_distant.north.row_mut(below, 0);
                distant_couplings(target, south.row(row, 0), h.row(row, 0), north.row(row, 0));
            }

            let loss = (1.0 - setup.black_keeps()) * setup.lost();
            if loss > 0.0 && self.exact.is_none() {
                for colour in [Colour::B1, Colour::B2] {
                    let lumped = self.black_diagonal.couplings(colour, row);
                    lose(self.excess[colour].row_mut(row, 0), loss, lumped);
                }
            }
        }
    }

    /// # Safety
    /// As for `reds`.
    unsafe fn eliminate_reds(&self, row: usize, scratch: &mut [f64]) -> Result<()> {
        let grid = self.grid;
        let corners = grid.corners.then_some(&grid.red_diagonal);
        // Row 2J of the grid before row 2J + 1, so that the first refused node is named.
        for colour in [Colour::R2, Colour::R1] {
            // SAFETY: as the caller promised; the border is never written.
            unsafe {
                if let Some(matrix) = self.exact {
                    let (excess, inverse) = (self.excess[colour].row_mut(row, 0), self.inverse[colour].row_mut(row, 0));
                    let (center, a) = (matrix.center[colour].row(row, 0), self.straight.couplings(colour, row));
                    exact_pivots(inverse, excess, center, a, self.setup.zero_row_sum);
                    continue;
                }
                if !grid.layout.rows(colour).contains(&row) {
                    continue;
                }
                let kept = self.straight.couplings(colour, row);
                let lumped = corners.map_or([self.inverse[colour].below(0, 0); 4], |d| d.couplings(colour, row));
                self.eliminate::<OfReds<F>>(colour, row, kept, lumped, scratch)?;
            }
        }
        Ok(())
    }

    /// Pivots of row J of an eliminated colour, into `inverse` and, as excess / d, into `excess`.
    ///
    /// # Safety
    /// The row must be this member's.
    unsafe fn eliminate<E: Elimination<Format = F>>(
        &self,
        colour: Colour,
        row: usize,
        kept: Rows<E::Kept>,
        lumped: Rows,
        scratch: &mut [f64],
    ) -> Result<()> {
        let grid = self.grid;
        let columns = grid.layout.columns(colour);
        // SAFETY: as the caller promised.
        let out = unsafe {
            PivotRow::<E> {
                excess: &mut self.excess[colour].row_mut(row, 0)[columns.clone()],
                inverse: &mut self.inverse[colour].row_mut(row, 0)[columns.clone()],
                stored: F::short(&grid.own)
                    .map_or(&mut [][..], |short| &mut short.pivot[colour].row_mut(row, 0)[columns.clone()]),
            }
        };
        let kept = kept.map(|a| &a[columns.clone()]);
        let lumped = lumped.map(|a| &a[columns.clone()]);
        out.form(kept, lumped, scratch, self.setup, |k| {
            let level = 2 * self.q + 1 + usize::from(colour == Colour::B1);
            let (i, j) = grid.layout.node(colour, columns.start + k, row);
            self.context.node(level, grid.embedding.fine(i, j))
        })
    }

    /// Row J of the skew stencil on black nodes, what the odd level leaves, and of the diagonal of S1.
    ///
    /// # Safety
    /// The row must be this member's, and reds of row J - 1 to J + 1 done.
    unsafe fn skew(&self, row: usize, scratch: &mut [f64]) {
        let (grid, setup, straight) = (self.grid, self.setup, self.straight);
        let n = grid.layout.cx;
        let ((r1, r2), (h1, h2)) = ((&straight.r1, &straight.r2), (&self.inverse.r1, &self.inverse.r2));
        // SAFETY: as the caller promised.
        unsafe {
            for (k, colour) in [Colour::B1, Colour::B2].into_iter().enumerate() {
                let (a, t) = (straight.couplings(colour, row), self.excess.straight(colour, row));
                let excess = self.excess[colour].row_mut(row, 0);
                if let Some(matrix) = self.exact {
                    let (center, kept) = (matrix.center[colour].row(row, 0), &self.k.schur.center[k]);
                    if F::SINGLE {
                        // In difference form: its row sum in place of the diagonal.
                        schur_row_sums(excess, center, a, t, setup.zero_row_sum);
                        self.k.keep_row(kept, row, 0, excess);
                        continue;
                    }
                    // S1 = D_b - A_br D_r^-1 A_rb (report, 2.9).
                    let h = self.inverse.straight(colour, row);
                    if matrix.has_windows() {
                        schur_centers(excess, &mut scratch[..n], center, a, t, h, setup.zero_row_sum);
                        self.k.keep_row(kept, row, 0, &scratch[..n]);
                    } else {
                        let out = matrix.schur_center[k].row_mut(row, 0);
                        schur_centers(excess, out, center, a, t, h, setup.zero_row_sum);
                    }
                } else {
                    subtract::<Double>(excess, a, t);
                }
            }
            let link = |r: &'a [Area; 4], h: &'a Area, to: [usize; 3], row: usize, shift: isize| {
                [r[to[0]].row(row, shift), h.row(row, shift), r[to[1]].row(row, shift), r[to[2]].row(row, shift)]
            };
            let links = [
                link(r2, h2, [EAST, SOUTH, NORTH], row, -1),
                link(r2, h2, [WEST, SOUTH, NORTH], row, 0),
                [r1[NORTH].below(row, 0), h1.below(row, 0), r1[WEST].below(row, 0), r1[EAST].below(row, 0)],
                link(r1, h1, [SOUTH, WEST, EAST], row, 0),
            ];
            let short = F::short(&grid.own);
            match short.filter(|_| self.exact.is_some_and(Making::has_windows)) {
                Some(short) => self.skew_past_caches(row, links, short, scratch),
                None => {
                    let [southwest, southeast, northwest, northeast] =
                        [0, 1, 2, 3].map(|k| self.black_diagonal.of[k].row_mut(row, 0));
                    let old = self.exact.is_none();
                    skew_couplings(southwest, southeast, northwest, northeast, setup.black_keeps(), old, links);
                    if let Some(short) = short {
                        for (source, target) in self.black_diagonal.of.iter().zip(&short.diagonal.of) {
                            store::<F>(target.row_mut(row, 0), source.row(row, 0), setup.unit);
                        }
                    }
                }
            }

            let target = self.b1_distant.east.row_mut(row, 0);
            distant_couplings(target, r2[WEST].row(row, 0), h2.row(row, 0), r2[EAST].row(row, 0));
            let target = self.b2_distant.east.row_mut(row, 0);
            distant_couplings(target, r1[WEST].row(row, 1), h1.row(row, 1), r1[EAST].row(row, 1));
        }
    }

    /// Diagonal couplings of row J of S1 to their array and, in a short format, to that of the level, a few columns at a
    /// time, which stay in the nearest cache in between.
    ///
    /// # Safety
    /// The row must be this member's.
    unsafe fn skew_past_caches(&self, row: usize, links: [Link; 4], short: &Short<F::Stored>, scratch: &mut [f64]) {
        let (n, keeps) = (self.grid.layout.cx, self.setup.black_keeps());
        for start in (0..n).step_by(COLUMNS_NEAR) {
            let columns = start..n.min(start + COLUMNS_NEAR);
            let mut parts = scratch.chunks_exact_mut(columns.len());
            let mut part = || parts.next().expect("room for four parts of a row");
            let (southwest, southeast, northwest, northeast) = (part(), part(), part(), part());
            let links = links.map(|link| link.map(|values| &values[columns.clone()]));
            skew_couplings(southwest, southeast, northwest, northeast, keeps, false, links);
            for (k, values) in [southwest, southeast, northwest, northeast].into_iter().enumerate() {
                // SAFETY: as the caller promised.
                unsafe {
                    let stored = &mut short.diagonal.of[k].row_mut(row, 0)[columns.clone()];
                    store::<F>(stored, values, self.setup.unit);
                    self.k.keep_row(&self.k.schur.diagonal.of[k], row, start, values);
                }
            }
        }
    }

    /// The even level: lumps and eliminates b1 of row J.
    ///
    /// # Safety
    /// The row must be this member's, its skew stencil formed, and reds of row J - 1 and J done.
    unsafe fn dropped(&self, row: usize, scratch: &mut [f64]) {
        let grid = self.grid;
        if grid.layout.rows(Colour::B1).contains(&row) {
            // SAFETY: as the caller promised.
            unsafe {
                let kept = self.diagonal().couplings(Colour::B1, row);
                let lumped = self.b1_distant.couplings(row);
                self.k.note(self.eliminate::<OfDropped<F>>(Colour::B1, row, kept, lumped, scratch));
            }
        }
    }

    /// Row J of the next grid's half stencil: diagonal, east, north, northeast, northwest, nx values each.
    ///
    /// # Safety
    /// Both levels of row J and J + 1 must be done.
    unsafe fn coarse_row<'s>(&self, row: usize, out: &'s mut [f64]) -> [&'s [f64]; 5] {
        let (grid, setup) = (self.grid, self.setup);
        let n = grid.layout.grid.coarse().nx;
        let keeps = setup.black_keeps();
        let (d, h) = (self.diagonal(), &self.inverse.b1);
        let mut parts = out.chunks_exact_mut(n);
        let mut part = || parts.next().expect("room for five rows");
        let (excess, east, north, northeast, northwest) = (part(), part(), part(), part(), part());
        // SAFETY: as the caller promised.
        unsafe {
            let [southwest, southeast, northwest_of, northeast_of] = &d.of;
            let distant = self.b2_distant.couplings(row);
            let t = &self.excess.b1;
            let of = Kept {
                handed: [t.longer_row(row), t.longer_row(row + 1)],
                inverse: [h.longer_row(row), h.longer_row(row + 1)],
                below: [northwest_of, northeast_of].map(|a| a.longer_row(row)),
                above: [southwest, southeast, northwest_of, northeast_of].map(|a| a.longer_row(row + 1)),
                distant: [distant[EAST], distant[NORTH]],
            };
            excess.copy_from_slice(&self.excess.b2.row(row, 0)[..n]);
            let loss = (1.0 - keeps) * setup.lost();
            if loss > 0.0 {
                lose(excess, loss, distant);
            }
            coarse_couplings::<F>(excess, east, north, northeast, northwest, of, keeps, setup.unit);
        }
        [excess, east, north, northeast, northwest]
    }

    /// Row J of the next grid's matrix, spread over its colours.
    ///
    /// # Safety
    /// As for `coarse_row`; nobody may use what row J is spread to.
    unsafe fn coarse(&self, row: usize, scratch: &mut [f64]) {
        let Some(coarse) = self.k.grids.get(self.q + 1) else { return };
        if !self.grid.layout.rows(Colour::B2).contains(&row) {
            return;
        }
        let target = Target {
            layout: &coarse.layout,
            diagonal: &coarse.excess,
            straight: &coarse.straight,
            corners: Some((&coarse.red_diagonal, &coarse.black_diagonal)),
            far: self.exact.is_some_and(Making::has_windows) && !coarse.follows(),
        };
        // SAFETY: as the caller promised.
        unsafe { target.spread(row, self.coarse_row(row, scratch).map(|values| (0, values))) };
    }

    /// The next grid's matrix in natural storage, once the levels are complete.
    fn form_natural(&self, coarse: &mut HalfStencil, scratch: &mut [f64]) {
        for row in self.grid.layout.rows(Colour::B2) {
            // SAFETY: the last barrier of `form` is passed, and nobody writes this grid after it.
            let rows = unsafe { self.coarse_row(row, scratch) };
            let first = ring_index(coarse.nx, 0, row);
            let targets = [
                &mut coarse.diagonal,
                &mut coarse.east,
                &mut coarse.north,
                &mut coarse.northeast,
                &mut coarse.northwest,
            ];
            for (target, values) in targets.into_iter().zip(rows) {
                target[first..][..values.len()].copy_from_slice(values);
            }
        }
    }
}

/// Pivots of a row: excess in, excess / d out; 1 / d; and in short formats what is stored.
struct PivotRow<'a, E: Elimination> {
    excess: &'a mut [f64],
    inverse: &'a mut [f64],
    stored: &'a mut [StoredPivot<E>],
}

impl<E: Elimination> PivotRow<'_, E> {
    /// All at once; where any of them is doubtful, one by one. `node` looks one up.
    fn form(
        self,
        kept: Rows<E::Kept>,
        lumped: Rows,
        scratch: &mut [f64],
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        let handed = &mut scratch[..self.inverse.len()];
        let (lost, unit) = (setup.lost(), setup.unit);
        if pivots::<E>(self.inverse, handed, self.stored, self.excess, kept, lumped, lost, unit) {
            self.excess.copy_from_slice(handed);
            return Ok(());
        }
        self.form_one_by_one(kept, lumped, setup, node)
    }

    fn form_one_by_one(
        self,
        kept: Rows<E::Kept>,
        lumped: Rows,
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        for i in 0..self.inverse.len() {
            let kept = kept.map(|a| E::coupling(a[i], setup.unit));
            let lumped = (lumped[0][i] + lumped[1][i]) + (lumped[2][i] + lumped[3][i]);
            let center = Pivot::center(self.excess[i], kept, lumped);
            let pivot = Pivot::new(self.excess[i], kept, lumped, setup.lost());
            let pivot = pivot.checked(center, kept == [0.0; 4], setup, || node(i))?;
            self.inverse[i] = 1.0 / pivot.d;
            self.excess[i] = pivot.excess * self.inverse[i];
            if let Some(stored) = self.stored.get_mut(i) {
                *stored = E::Format::write(pivot.stored / setup.unit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
