//! The cycle: z = B r, about A^-1 r (Notay 2010). One sweep of Gauss-Seidel before the coarser grid and its mirror
//! image after it; the coarse system by two steps of flexible CG at most (K-cycle), by the cycle alone (V) where a
//! level has more than half the couplings of the one before, and exactly on the coarsest.

use super::couplings::{Couplings, NONE, WHAT};
use super::hierarchy::{Hierarchy, Level, MOST_INVERTED};
use super::singular::Means;
use super::smoother::{Factor, Rows};
use crate::error::{Result, collected, push, zeroed};
use crate::runtime::number::Real;

/// The first step of a coarse solve is enough where it leaves at most this part of the residual.
const ENOUGH: f64 = 0.25;
/// Couplings of a level, beside half of those before it, with which its system is solved by two cycles.
const SMALL: usize = 1000;

/// A level with its vectors.
struct Step<V> {
    rows: Rows<V>,
    /// Of each row, `NONE` where the smoother alone does it; of the last level none.
    aggregate: Vec<u32>,
    /// Two cycles solve its system.
    twice: bool,
    means: Option<Means>,
    /// The residual, and what the cycle makes of it.
    r: Vec<V>,
    z: Vec<V>,
    /// The first direction of the coarse solve and A times it.
    c: Vec<V>,
    v: Vec<V>,
}

/// What ends the levels.
enum Last<V> {
    Exact(Factor<V>),
    /// Too large to be factorized: Gauss-Seidel, forwards and backwards.
    Smoothed,
}

/// The cycle of a matrix, with its memory.
pub struct Cycle<V> {
    steps: Vec<Step<V>>,
    last: Last<V>,
    /// Of the hierarchy.
    scale: f64,
}

impl<V: Real> Cycle<V> {
    pub fn new(hierarchy: &Hierarchy) -> Result<Self> {
        let mut steps: Vec<Step<V>> = Vec::new();
        let mut means = Means::of(hierarchy.finest())?;
        for Level { matrix, aggregate } in &hierarchy.levels {
            let coarse = means.as_ref().map(|means| means.on_aggregates(aggregate)).transpose()?;
            let of = collected(aggregate.iter().copied(), WHAT)?;
            let step = Step::of(matrix, of, std::mem::replace(&mut means, coarse), steps.last())?;
            push(&mut steps, step, WHAT)?;
        }
        let matrix = &hierarchy.coarsest;
        let last = match matrix.rows() <= MOST_INVERTED {
            true => Last::Exact(Factor::of(matrix)?),
            false => Last::Smoothed,
        };
        let step = Step::of(matrix, Vec::new(), means, steps.last())?;
        push(&mut steps, step, WHAT)?;
        Ok(Self { steps, last, scale: hierarchy.scale })
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.steps.first().map_or(0, |step| step.rows.len())
    }

    /// to = B from, scaled so that the squares of large and small vectors fit.
    pub fn apply(&mut self, from: &[f64], to: &mut [f64]) {
        let largest = from.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return to.fill(largest);
        }
        let Some(first) = self.steps.first_mut() else { return };
        first.r.iter_mut().zip(from).for_each(|(r, v)| *r = V::narrow(v / largest));
        cycle(&mut self.steps, &self.last);
        if let Some(first) = self.steps.first() {
            to.iter_mut().zip(&first.z).for_each(|(v, z)| *v = largest * (self.scale * z.wide()));
        }
    }

    pub fn bytes(&self) -> usize {
        let of_last = if let Last::Exact(factor) = &self.last { factor.bytes() } else { 0 };
        self.steps.iter().map(Step::bytes).sum::<usize>() + of_last
    }
}

impl<V: Real> Step<V> {
    fn of(matrix: &Couplings, aggregate: Vec<u32>, means: Option<Means>, before: Option<&Self>) -> Result<Self> {
        let n = matrix.rows();
        let rows = Rows::of(matrix)?;
        let twice = before.is_some_and(|before| rows.couplings() <= before.rows.couplings() / 2 + SMALL);
        let [r, z] = [zeroed(n, WHAT)?, zeroed(n, WHAT)?];
        let of_twice = if twice { n } else { 0 };
        Ok(Self { rows, aggregate, twice, means, r, z, c: zeroed(of_twice, WHAT)?, v: zeroed(of_twice, WHAT)? })
    }

    fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.z, &self.c, &self.v].map(|v| size_of_val(&v[..])).iter().sum::<usize>();
        self.rows.bytes() + size_of_val(&*self.aggregate) + vectors + self.means.as_ref().map_or(0, Means::bytes)
    }
}

/// z = B r on the first of these levels.
fn cycle<V: Real>(steps: &mut [Step<V>], last: &Last<V>) {
    let Some((own, coarser)) = steps.split_first_mut() else { return };
    if coarser.is_empty() {
        return match last {
            Last::Exact(factor) => factor.solve(&mut own.r, &mut own.z),
            Last::Smoothed => {
                own.rows.forwards(&own.r, &mut own.z);
                own.rows.backwards(&own.r, &mut own.z);
            }
        };
    }
    own.rows.forwards(&own.r, &mut own.z);
    coarser[0].r.fill(V::default());
    for (i, &k) in own.aggregate.iter().enumerate().filter(|(_, k)| **k != NONE) {
        coarser[0].r[k as usize] += own.rows.left(i, &own.z);
    }
    solve(coarser, last);
    for (z, &k) in own.z.iter_mut().zip(&own.aggregate).filter(|(_, k)| **k != NONE) {
        *z += coarser[0].z[k as usize];
    }
    own.rows.backwards(&own.r, &mut own.z);
}

/// z, about A^-1 r on the first of these levels; r is spent. With c = B r, v = A c and r' = r - (c'r / c'v) v, then
/// d = B r', z minimises the energy of the error over c and d (Notay 2008).
fn solve<V: Real>(steps: &mut [Step<V>], last: &Last<V>) {
    let is_last = steps.len() == 1;
    let Some(own) = steps.first_mut() else { return };
    own.remove_means();
    let before = dot(&own.r, &own.r);
    cycle(steps, last);
    let Some(own) = steps.first_mut() else { return };
    if !own.twice || is_last && matches!(last, Last::Exact(_)) {
        return;
    }
    std::mem::swap(&mut own.z, &mut own.c);
    let rho = own.rows.multiply(&own.c, &mut own.v);
    let is_direction = rho > 0.0;
    let first = if is_direction { dot(&own.c, &own.r) / rho } else { 1.0 };
    subtract(&mut own.r, first, &own.v);
    if !is_direction || dot(&own.r, &own.r) <= ENOUGH * ENOUGH * before {
        return own.combine(first, 0.0);
    }
    own.remove_means();
    cycle(steps, last);
    let Some(own) = steps.first_mut() else { return };
    let (gamma, residual) = (dot(&own.z, &own.v), dot(&own.z, &own.r));
    // v has served.
    let beta = own.rows.multiply(&own.z, &mut own.v) - gamma * gamma / rho;
    let second = if beta > 0.0 { residual / beta } else { 0.0 };
    own.combine(first - gamma * second / rho, second);
}

impl<V: Real> Step<V> {
    /// z = first c + second z.
    fn combine(&mut self, first: f64, second: f64) {
        let (first, second) = (V::narrow(first), V::narrow(second));
        self.z.iter_mut().zip(&self.c).for_each(|(z, &c)| *z = first * c + second * *z);
    }

    fn remove_means(&mut self) {
        if let Some(means) = &mut self.means {
            means.remove(&mut self.r);
        }
    }
}

fn dot<V: Real>(x: &[V], y: &[V]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x.wide() * y.wide()).sum()
}

fn subtract<V: Real>(r: &mut [V], factor: f64, v: &[V]) {
    let factor = V::narrow(factor);
    r.iter_mut().zip(v).for_each(|(r, &v)| *r -= factor * v);
}
