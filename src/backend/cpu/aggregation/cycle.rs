//! The cycle: z = B r, about A^-1 r (Notay 2010). One sweep of Gauss-Seidel before the coarser level and its mirror
//! image after it; the coarse system by two steps of flexible CG at most (K-cycle) on the upper levels, by the cycle
//! alone (V) below and where a level has more than half the couplings of the one before, and exactly on the coarsest.
//! Where B is to be a linear map two Chebyshev steps with fixed bounds stand in place of CG on all levels (AMLI).

use super::level::{CHUNK, Level, Run, Visits, Way};
use crate::backend::aggregation::{
    Choices, Couplings, Factor, Hierarchy, Kept, MOST_INVERTED, Means, Ordered, TwoSteps, WHAT, nearly_none,
};
use crate::error::{Result, collected, push, zeroed};
use crate::runtime::number::{Real, power_of_two_below};
use crate::runtime::reduce::{Noted, largest, max_abs};
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;
use crate::runtime::workers::Workers;
use std::sync::{Mutex, PoisonError};

/// The first step of a coarse solve is enough where it leaves at most this part of the residual.
const ENOUGH: f64 = 0.25;
/// Couplings of a level, beside half of those before it, with which its system is solved by two cycles.
const SMALL: usize = 1000;
/// Below this many rows a level and those below it are left to member 0: barriers cost more than the work.
const WORTH_A_TEAM: usize = 4096;

/// What ends the levels.
enum Last<V> {
    /// With room for a vector that is spent.
    Exact(Mutex<(Factor<V>, Vec<V>)>),
    /// Too large to be factorized: Gauss-Seidel, forwards and backwards.
    Smoothed,
}

/// The cycle of a matrix, with its memory.
pub struct Cycle<V: Number> {
    levels: Vec<Level<V>>,
    last: Last<V>,
    /// Rows of the matrix in the order of the first level.
    row: Vec<u32>,
    largest: Noted,
    /// Of the hierarchy.
    scale: f64,
    /// Its aggregates, for the next matrix.
    kept: Kept,
}

impl<V: Real + Number> Cycle<V> {
    /// Of a hierarchy whose aggregates the next matrix may keep. `first`: the order of the rows on the first level,
    /// where the caller knows it.
    pub fn keeping(
        hierarchy: Hierarchy,
        choices: &Choices,
        first: Option<Ordered>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let cycle = Self::new(&hierarchy, choices, first, workers)?;
        Ok(Self { kept: hierarchy.into_kept()?, ..cycle })
    }

    pub fn new(
        hierarchy: &Hierarchy,
        choices: &Choices,
        first: Option<Ordered>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let coarsest = &hierarchy.coarsest;
        let is_exact = coarsest.rows() <= MOST_INVERTED;
        let matrices = collected(hierarchy.matrices(), WHAT)?;
        let order_of = |k: usize| match k + 1 == matrices.len() && is_exact {
            true => Ordered::unswept(coarsest.rows()),
            false => Ordered::of(matrices[k], choices.order),
        };
        // A singular component is one on the coarsest level, too, or becomes a single row before; its excess stays.
        let largest = matrices[0].diagonal.iter().fold(0.0, |most: f64, d| most.max(*d));
        let least = nearly_none(matrices[0].rows(), largest);
        let is_one_row = |c: &&Couplings| c.diagonal.iter().any(|d| *d <= least);
        let may_be = matrices.iter().any(is_one_row) || Means::of(coarsest, |_, _| least)?.is_some();
        let mut means = if may_be { Means::of(matrices[0], nearly_none)? } else { None };
        let first = first.filter(|_| !(is_exact && matrices.len() == 1));
        let mut order = first.map_or_else(|| order_of(0), Ok)?;
        let row = collected(order.row.iter().copied(), WHAT)?;
        let mut levels: Vec<Level<V>> = Vec::new();
        for (k, matrix) in matrices.iter().enumerate() {
            let few = levels.last().is_none_or(|before| matrix.col.len() <= before.rows.couplings() / 2 + SMALL);
            let visits = match few && k > 0 {
                true if choices.is_solved_twice(k, matrix.rows()) => Visits::Two,
                true => Visits::TwoIfLinear,
                false => Visits::One,
            };
            let aggregate = hierarchy.levels.get(k).map(|level| &level.aggregates.of[..]);
            let (coarser, next) = match aggregate {
                Some(of) => (means.as_ref().map(|m| m.on_aggregates(of)).transpose()?, order_of(k + 1)?),
                None => (None, Ordered::unswept(0)?),
            };
            let own = std::mem::replace(&mut means, coarser).map(|m| m.in_order(&order.row)).transpose()?;
            let aggregate = aggregate.map(|of| (of, &next.place[..]));
            push(&mut levels, Level::new(matrix, &order, aggregate, own, visits, workers)?, WHAT)?;
            order = next;
        }
        let last = match is_exact {
            true => Last::Exact(Mutex::new((Factor::of(coarsest)?, zeroed(coarsest.rows(), WHAT)?))),
            false => Last::Smoothed,
        };
        let largest = Noted::once(row.len().div_ceil(CHUNK), 1)?;
        Ok(Self { levels, last, row, largest, scale: hierarchy.scale, kept: Kept::default() })
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.row.len()
    }

    /// What the next matrix may keep.
    pub fn into_kept(self) -> Kept {
        self.kept
    }

    /// Aggregates that were kept from the matrix before.
    pub fn aggregates_kept(&self) -> usize {
        self.kept.again
    }

    /// Calls row i of the matrix by the place at which its values stand.
    pub fn take_places(&mut self, place: impl Fn(usize) -> u32) {
        self.row.iter_mut().for_each(|i| *i = place(*i as usize));
    }

    /// Tells `to` of z = B r row by row, with r `from` the same place and scaled so that the squares of large and small
    /// vectors fit. All members of a team call it together, and each has rows of its own. Barriers stand before it and
    /// at its end.
    pub fn apply(&self, me: &Me, way: Way, from: impl Fn(usize) -> f64, mut to: impl FnMut(usize, f64)) {
        let (n, own) = (self.rows(), me.share(self.rows()));
        let noted = self.largest.reduce(0, self.largest.rows());
        for chunk in me.share(self.largest.rows()) {
            let part = &self.row[chunk * CHUNK..n.min((chunk + 1) * CHUNK)];
            // SAFETY: a chunk of this member, noted once.
            unsafe { noted.note(chunk, [largest(part.iter().map(|&i| from(i as usize)))]) };
        }
        let [all] = noted.all(Some(*me));
        let largest = max_abs(all);
        // A power of two: no rounding, and no division.
        let unit = power_of_two_below(largest);
        let per_unit = unit.recip();
        let (first, rows) = (&self.levels[0], &self.row[own]);
        if largest > 0.0 && largest.is_finite() {
            first.load(me, |k| from(self.row[k] as usize) * per_unit);
            self.cycle(0, &mut Run::new(*me, way), &first.z);
            let give = |k: usize, z: f64| to(self.row[k] as usize, unit * (self.scale * z));
            first.give(me, give);
        } else {
            rows.iter().for_each(|&i| to(i as usize, largest));
        }
        me.barrier();
    }

    /// z = B r on level k. Barriers stand before it and at its end.
    fn cycle(&self, k: usize, run: &mut Run, z: &Shared<V>) {
        let own = &self.levels[k];
        let Some(coarser) = self.levels.get(k + 1) else { return self.coarsest(&run.me, z) };
        own.forwards(&run.me, z);
        own.restrict(&run.me, z, &coarser.r);
        self.solve(k + 1, run);
        own.prolong(&run.me, z, &coarser.z);
        own.backwards(&run.me, z);
    }

    fn coarsest(&self, me: &Me, z: &Shared<V>) {
        let own = &self.levels[self.levels.len() - 1];
        match &self.last {
            Last::Exact(factor) => {
                if me.index == 0 {
                    let (factor, spent) = &mut *factor.lock().unwrap_or_else(PoisonError::into_inner);
                    // SAFETY: the others wait at the barrier.
                    let (r, z) = unsafe { (own.r.slice(0, own.len()), z.slice_mut(0, own.len())) };
                    spent.copy_from_slice(r);
                    factor.solve(spent, z);
                }
                me.barrier();
            }
            Last::Smoothed => {
                own.forwards(me, z);
                own.backwards(me, z);
            }
        }
    }

    /// z, about A^-1 r on level k; r is spent. Barriers stand before it and at its end.
    fn solve(&self, k: usize, run: &mut Run) {
        let own = &self.levels[k];
        if run.me.members > 1 && own.len() < WORTH_A_TEAM {
            if run.me.index == 0 {
                self.solve(k, &mut Run::new(run.me.alone(), run.way));
            }
            return run.me.barrier();
        }
        own.remove_means(&run.me);
        let is_exact = k + 1 == self.levels.len() && matches!(self.last, Last::Exact(_));
        match run.way {
            _ if is_exact => self.cycle(k, run, &own.z),
            Way::Flexible if own.visits == Visits::Two => self.solve_twice(k, run),
            Way::Linear if own.visits != Visits::One => self.solve_by_bounds(k, run),
            _ => self.cycle(k, run, &own.z),
        }
    }

    /// K: with c = B r, v = A c and r' = r - (c'r / c'v) v, then d = B r', z minimises the energy of the error over c
    /// and d (Notay 2008).
    fn solve_twice(&self, k: usize, run: &mut Run) {
        let own = &self.levels[k];
        let before = own.norm2(run);
        self.cycle(k, run, &own.c);
        let [rho, residual] = own.multiply(run, &own.c);
        let is_direction = rho > 0.0;
        let first = if is_direction { residual / rho } else { 1.0 };
        let after = own.subtract(run, first);
        if !is_direction || after <= ENOUGH * ENOUGH * before {
            return own.combine(&run.me, first, 0.0);
        }
        own.remove_means(&run.me);
        self.cycle(k, run, &own.z);
        let gamma = own.with_direction(run);
        // v has served.
        let [energy, residual] = own.multiply(run, &own.z);
        let beta = energy - gamma * gamma / rho;
        let second = if beta > 0.0 { residual / beta } else { 0.0 };
        own.combine(&run.me, first - gamma * second / rho, second);
    }

    /// AMLI: two Chebyshev steps.
    fn solve_by_bounds(&self, k: usize, run: &mut Run) {
        let (own, TwoSteps { left, first, second }) = (&self.levels[k], TwoSteps::CHOSEN);
        self.cycle(k, run, &own.c);
        own.multiply(run, &own.c);
        own.subtract(run, left);
        own.remove_means(&run.me);
        self.cycle(k, run, &own.z);
        own.combine(&run.me, first, second);
    }

    pub fn bytes(&self) -> usize {
        let of_last = match &self.last {
            Last::Exact(factor) => {
                let (factor, spent) = &*factor.lock().unwrap_or_else(PoisonError::into_inner);
                factor.bytes() + size_of_val(&**spent)
            }
            Last::Smoothed => 0,
        };
        let tables = size_of_val(&*self.row) + self.largest.bytes() + self.kept.bytes();
        self.levels.iter().map(Level::bytes).sum::<usize>() + of_last + tables
    }
}
