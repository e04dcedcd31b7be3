//! Aggregates by passes of pairs.

use super::couplings::{Couplings, NONE, WHAT, members};
use super::pairs::pairs;
use super::quality::{MOST, accepts};
use crate::error::{Result, collected, zeroed};
use crate::runtime::workers::{Parts, Workers, cut};

/// How aggregates are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The bound of mu: conditions of two-grid methods stay below it.
    pub kappa: f64,
    /// Passes of pairs: aggregates have 2^passes nodes at most.
    pub passes: usize,
}

/// The bound of mu that is chosen.
pub const KAPPA: f64 = 12.0;
/// The bound with which aggregates of an earlier matrix are kept: below it counts of iterations hardly grow.
pub const KEPT: f64 = 200.0;

impl Rules {
    /// So many passes with the chosen bound.
    pub const fn passes(passes: usize) -> Self {
        Self { kappa: KAPPA, passes }
    }
}

/// Aggregates of a level.
pub struct Aggregates {
    /// Of each node; `NONE`: the smoother alone does it.
    pub of: Vec<u32>,
    pub count: usize,
}

impl Aggregates {
    /// Whether they do for another matrix: each union by its quality, each node that is left out by its rule.
    pub fn suit(&self, c: &Couplings, workers: &mut Workers) -> Result<bool> {
        if self.of.len() != c.rows() {
            return Ok(false);
        }
        let (starts, nodes) = members(&self.of, self.count)?;
        let suits = |union: &[u32]| union.len() < 2 || accepts(c, union, KEPT);
        let pieces = cut(self.count, workers.pieces(size_of_val(&*c.a)).min(self.count));
        let unions = workers.map(pieces, |mut some| some.all(|k| suits(&nodes[starts[k]..starts[k + 1]])))?;
        let is_right = |i: usize| self.of[i] != NONE || is_left_out(c, i, KEPT);
        Ok(unions.into_iter().all(|suit| suit) && (0..c.rows()).all(is_right))
    }
}

/// Nodes that the smoother alone does: d_i (kappa - 2) >= kappa sum over j of |a_ij|.
fn is_left_out(c: &Couplings, i: usize, kappa: f64) -> bool {
    let sum: f64 = c.row(i).map(|(_, a)| a.abs()).sum();
    c.diagonal[i] * (kappa - 2.0) >= kappa * sum
}

/// Aggregates of the rows of a matrix.
pub fn aggregates(c: &Couplings, rules: &Rules, workers: &mut Workers) -> Result<Aggregates> {
    // Rows as aggregates of one; those that are left out are their own partners from the start.
    let mut partner: Vec<u32> = zeroed(c.rows(), WHAT)?;
    let mut left = Parts(&mut partner);
    let pieces = cut(c.rows(), workers.pieces(size_of_val(&*c.a)));
    workers.each(pieces.map(|rows| (rows.clone(), left.next(rows.len()))), |(rows, partner)| {
        let free = |i: usize| if is_left_out(c, i, rules.kappa) { i as u32 } else { NONE };
        rows.zip(partner).for_each(|(i, partner)| *partner = free(i));
    })?;
    let kept = collected(partner.iter().map(|&p| p == NONE), WHAT)?;
    pairs(c, rules.kappa, |_, _| true, &mut partner)?;
    let (number, mut count) = numbered(&partner, |i| kept[i])?;
    let mut of = number;
    for _ in 1..rules.passes {
        let (starts, nodes) = members(&of, count)?;
        let nodes_of = |k: usize| &nodes[starts[k]..starts[k + 1]];
        let suits = |k: usize, l: usize| {
            let mut union = [0; MOST];
            let (a, b) = (nodes_of(k), nodes_of(l));
            union[..a.len()].copy_from_slice(a);
            union[a.len()..a.len() + b.len()].copy_from_slice(b);
            accepts(c, &union[..a.len() + b.len()], rules.kappa)
        };
        let mut partner = collected(std::iter::repeat_n(NONE, count), WHAT)?;
        pairs(&c.galerkin(&of, count, workers)?, rules.kappa, suits, &mut partner)?;
        let (number, fewer) = numbered(&partner, |_| true)?;
        of.iter_mut().filter(|k| **k != NONE).for_each(|k| *k = number[*k as usize]);
        count = fewer;
    }
    Ok(Aggregates { of, count })
}

/// Pairs by their numbers, in the order of their first members, and how many there are; `NONE`: not `kept`.
fn numbered(partner: &[u32], kept: impl Fn(usize) -> bool) -> Result<(Vec<u32>, usize)> {
    let mut number: Vec<u32> = collected(std::iter::repeat_n(NONE, partner.len()), WHAT)?;
    let mut count = 0;
    for (k, &other) in partner.iter().enumerate().filter(|(k, _)| kept(*k)) {
        number[k] = if (other as usize) < k { number[other as usize] } else { count };
        count += u32::from(other as usize >= k);
    }
    Ok((number, count as usize))
}
