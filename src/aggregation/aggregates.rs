//! Aggregation by passes of pairwise matching (Napov and Notay 2012).

use super::pairs::match_pairs;
use super::quality::{MAX_AGGREGATE_NODES, passes_quality_test};
use crate::base::workers::{SliceSplitter, Workers, divide_range};
use crate::direct::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED, rows_by_aggregate};
use crate::error::{Result, collected, zeroed};

/// Parameters of the aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AggregationRules {
    /// Upper bound of mu, the quality of an aggregate (`quality.rs`). It also bounds the condition number of the
    /// two-grid method.
    pub kappa: f64,
    /// Number of pairwise passes; an aggregate has at most 2^passes nodes.
    pub passes: usize,
}

/// Default value of `AggregationRules::kappa` (docs/theory/aggregation.md).
pub const KAPPA: f64 = 12.0;
/// Value of kappa for the reuse of aggregates with another matrix. Up to this bound, iteration counts grow little.
pub const KAPPA_FOR_REUSE: f64 = 200.0;

impl AggregationRules {
    /// Returns the rules with the given number of passes and the default bound.
    pub const fn with_passes(passes: usize) -> Self {
        Self { kappa: KAPPA, passes }
    }
}

/// Aggregates of a level.
pub struct Aggregates {
    /// Aggregate of each node; `UNASSIGNED` for a node outside all aggregates. The coarse correction is zero at such a
    /// node.
    pub aggregate_of_row: Vec<u32>,
    pub count: usize,
}

impl Aggregates {
    /// Returns whether the aggregates are suitable for another matrix `c`. All of these conditions must hold, with
    /// `KAPPA_FOR_REUSE` as the value of kappa:
    ///
    /// - `c` has as many rows as the matrix of the aggregates;
    /// - each aggregate passes the quality test for `c`;
    /// - each node without aggregate satisfies the condition of `is_only_smoothed` for `c`.
    pub fn are_suitable(&self, c: &Couplings, workers: &mut Workers) -> Result<bool> {
        if self.aggregate_of_row.len() != c.rows() {
            return Ok(false);
        }
        let (starts, nodes) = rows_by_aggregate(&self.aggregate_of_row, self.count)?;
        let is_suitable_aggregate =
            |aggregate: &[u32]| aggregate.len() < 2 || passes_quality_test(c, aggregate, KAPPA_FOR_REUSE);
        let aggregate_ranges = divide_range(self.count, workers.piece_count(size_of_val(&*c.a)).min(self.count));
        let suitable_parts = workers.map(aggregate_ranges, |mut range| {
            range.all(|k| is_suitable_aggregate(&nodes[starts[k]..starts[k + 1]]))
        })?;
        let is_suitable_row =
            |i: usize| self.aggregate_of_row[i] != UNASSIGNED || is_only_smoothed(c, i, KAPPA_FOR_REUSE);
        Ok(suitable_parts.into_iter().all(|suits| suits) && (0..c.rows()).all(is_suitable_row))
    }
}

/// Returns whether the diagonal of row i is so dominant that smoothing suffices: d_i (kappa - 2) >= kappa sum_j |a_ij|.
/// Such a node remains outside all aggregates (Napov and Notay 2012).
fn is_only_smoothed(c: &Couplings, i: usize, kappa: f64) -> bool {
    let coupling_sum: f64 = c.row(i).map(|(_, a)| a.abs()).sum();
    c.diagonal[i] * (kappa - 2.0) >= kappa * coupling_sum
}

/// Computes the aggregates of the rows of a matrix.
pub fn find_aggregates(c: &Couplings, rules: &AggregationRules, workers: &mut Workers) -> Result<Aggregates> {
    // Initially, each row is an aggregate of one node. Rows outside all aggregates are marked as their own partners, so
    // that `match_pairs` ignores them.
    let mut partner: Vec<u32> = zeroed(c.rows(), ALLOCATION_NAME)?;
    let mut unused_partners = SliceSplitter(&mut partner);
    let row_ranges = divide_range(c.rows(), workers.piece_count(size_of_val(&*c.a)));
    workers.for_each_piece(
        row_ranges.map(|rows| (rows.clone(), unused_partners.take_front(rows.len()))),
        |(rows, partner)| {
            let initial_partner = |i: usize| if is_only_smoothed(c, i, rules.kappa) { i as u32 } else { UNASSIGNED };
            rows.zip(partner).for_each(|(i, partner)| *partner = initial_partner(i));
        },
    )?;
    let is_aggregated = collected(partner.iter().map(|&p| p == UNASSIGNED), ALLOCATION_NAME)?;
    match_pairs(c, rules.kappa, |_, _| true, &mut partner)?;
    let (pair_of_row, mut count) = number_pairs(&partner, |i| is_aggregated[i])?;
    let mut aggregate_of_row = pair_of_row;
    for _ in 1..rules.passes {
        let (starts, nodes) = rows_by_aggregate(&aggregate_of_row, count)?;
        let nodes_of = |k: usize| &nodes[starts[k]..starts[k + 1]];
        let is_suitable_pair = |k: usize, l: usize| {
            let mut union_nodes = [0; MAX_AGGREGATE_NODES];
            let (nodes_k, nodes_l) = (nodes_of(k), nodes_of(l));
            union_nodes[..nodes_k.len()].copy_from_slice(nodes_k);
            union_nodes[nodes_k.len()..nodes_k.len() + nodes_l.len()].copy_from_slice(nodes_l);
            passes_quality_test(c, &union_nodes[..nodes_k.len() + nodes_l.len()], rules.kappa)
        };
        let mut partner = collected(std::iter::repeat_n(UNASSIGNED, count), ALLOCATION_NAME)?;
        match_pairs(&c.galerkin(&aggregate_of_row, count, workers)?, rules.kappa, is_suitable_pair, &mut partner)?;
        let (number_of_pair, pair_count) = number_pairs(&partner, |_| true)?;
        aggregate_of_row.iter_mut().filter(|k| **k != UNASSIGNED).for_each(|k| *k = number_of_pair[*k as usize]);
        count = pair_count;
    }
    Ok(Aggregates { aggregate_of_row, count })
}

/// Numbers the pairs in the order of their first nodes. Returns the number of the pair of each row, and the number of
/// pairs. Rows that are not in aggregates get `UNASSIGNED`.
fn number_pairs(partner: &[u32], is_aggregated: impl Fn(usize) -> bool) -> Result<(Vec<u32>, usize)> {
    let mut pair_of_row: Vec<u32> = collected(std::iter::repeat_n(UNASSIGNED, partner.len()), ALLOCATION_NAME)?;
    let mut count = 0;
    for (k, &partner_of_k) in partner.iter().enumerate().filter(|(k, _)| is_aggregated(*k)) {
        pair_of_row[k] = if (partner_of_k as usize) < k { pair_of_row[partner_of_k as usize] } else { count };
        count += u32::from(partner_of_k as usize >= k);
    }
    Ok((pair_of_row, count as usize))
}
