//! Aggregation by passes of pairwise matching (Napov and Notay 2012).

use super::pairs::match_pairs;
use super::quality::{MAX_NODES, passes_quality_test};
use crate::base::workers::{Parts, Workers, cut};
use crate::direct::couplings::{Couplings, NONE, WHAT, rows_by_aggregate};
use crate::error::{Result, collected, zeroed};

/// Parameters of the aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Upper bound of mu, the quality of an aggregate (`quality.rs`). It also bounds the condition number of the
    /// two-grid method.
    pub kappa: f64,
    /// Number of pairwise passes; an aggregate has at most 2^passes nodes.
    pub passes: usize,
}

/// Default value of `Rules::kappa` (docs/theory/aggregation.md).
pub const KAPPA: f64 = 12.0;
/// Value of kappa for the reuse of aggregates with another matrix. Up to this bound, iteration counts grow little.
pub const KAPPA_FOR_REUSE: f64 = 200.0;

impl Rules {
    /// Returns the rules with the given number of passes and the default bound.
    pub const fn passes(passes: usize) -> Self {
        Self { kappa: KAPPA, passes }
    }
}

/// Aggregates of a level.
pub struct Aggregates {
    /// Aggregate of each node; `NONE` for a node outside all aggregates. The coarse correction is zero at such a node.
    pub of_row: Vec<u32>,
    pub count: usize,
}

impl Aggregates {
    /// Returns whether the aggregates are suitable for another matrix. The number of rows must be the same. With kappa
    /// = `KAPPA_FOR_REUSE`, each aggregate must pass the quality test, and each node without aggregate must satisfy the
    /// condition of `is_only_smoothed`.
    pub fn are_suitable(&self, c: &Couplings, workers: &mut Workers) -> Result<bool> {
        if self.of_row.len() != c.rows() {
            return Ok(false);
        }
        let (starts, nodes) = rows_by_aggregate(&self.of_row, self.count)?;
        let suits = |union: &[u32]| union.len() < 2 || passes_quality_test(c, union, KAPPA_FOR_REUSE);
        let pieces = cut(self.count, workers.pieces(size_of_val(&*c.a)).min(self.count));
        let unions = workers.map(pieces, |mut some| some.all(|k| suits(&nodes[starts[k]..starts[k + 1]])))?;
        let is_right = |i: usize| self.of_row[i] != NONE || is_only_smoothed(c, i, KAPPA_FOR_REUSE);
        Ok(unions.into_iter().all(|suit| suit) && (0..c.rows()).all(is_right))
    }
}

/// Returns whether the diagonal of row i is so dominant that smoothing suffices: d_i (kappa - 2) >= kappa sum_j |a_ij|.
/// Such a node remains outside all aggregates (Napov and Notay 2012).
fn is_only_smoothed(c: &Couplings, i: usize, kappa: f64) -> bool {
    let sum: f64 = c.row(i).map(|(_, a)| a.abs()).sum();
    c.diagonal[i] * (kappa - 2.0) >= kappa * sum
}

/// Computes the aggregates of the rows of a matrix.
pub fn find_aggregates(c: &Couplings, rules: &Rules, workers: &mut Workers) -> Result<Aggregates> {
    // Initially, each row is an aggregate of one node. Rows outside all aggregates are marked as their own partners, so
    // that `match_pairs` ignores them.
    let mut partner: Vec<u32> = zeroed(c.rows(), WHAT)?;
    let mut left = Parts(&mut partner);
    let pieces = cut(c.rows(), workers.pieces(size_of_val(&*c.a)));
    workers.each(pieces.map(|rows| (rows.clone(), left.next(rows.len()))), |(rows, partner)| {
        let free = |i: usize| if is_only_smoothed(c, i, rules.kappa) { i as u32 } else { NONE };
        rows.zip(partner).for_each(|(i, partner)| *partner = free(i));
    })?;
    let kept = collected(partner.iter().map(|&p| p == NONE), WHAT)?;
    match_pairs(c, rules.kappa, |_, _| true, &mut partner)?;
    let (number, mut count) = number_pairs(&partner, |i| kept[i])?;
    let mut of = number;
    for _ in 1..rules.passes {
        let (starts, nodes) = rows_by_aggregate(&of, count)?;
        let nodes_of = |k: usize| &nodes[starts[k]..starts[k + 1]];
        let suits = |k: usize, l: usize| {
            let mut union = [0; MAX_NODES];
            let (a, b) = (nodes_of(k), nodes_of(l));
            union[..a.len()].copy_from_slice(a);
            union[a.len()..a.len() + b.len()].copy_from_slice(b);
            passes_quality_test(c, &union[..a.len() + b.len()], rules.kappa)
        };
        let mut partner = collected(std::iter::repeat_n(NONE, count), WHAT)?;
        match_pairs(&c.galerkin(&of, count, workers)?, rules.kappa, suits, &mut partner)?;
        let (number, fewer) = number_pairs(&partner, |_| true)?;
        of.iter_mut().filter(|k| **k != NONE).for_each(|k| *k = number[*k as usize]);
        count = fewer;
    }
    Ok(Aggregates { of_row: of, count })
}

/// Numbers the pairs in the order of their first nodes. Returns the number of the pair of each row, and the number of
/// pairs. Rows that are not `kept` get `NONE`.
fn number_pairs(partner: &[u32], kept: impl Fn(usize) -> bool) -> Result<(Vec<u32>, usize)> {
    let mut number: Vec<u32> = collected(std::iter::repeat_n(NONE, partner.len()), WHAT)?;
    let mut count = 0;
    for (k, &other) in partner.iter().enumerate().filter(|(k, _)| kept(*k)) {
        number[k] = if (other as usize) < k { number[other as usize] } else { count };
        count += u32::from(other as usize >= k);
    }
    Ok((number, count as usize))
}
