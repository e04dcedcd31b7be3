//! Aggregates by passes of pairs, in the order of the nodes.

use super::couplings::{Couplings, NONE, WHAT, members};
use super::quality::{MOST, accepts, of_pair};
use crate::error::{Result, collected, push, zeroed};

/// How aggregates are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The bound of mu: conditions of two-grid methods stay below it.
    pub kappa: f64,
    /// Passes of pairs: aggregates have 2^passes nodes at most.
    pub passes: usize,
}

/// Aggregates of a level.
pub struct Aggregates {
    /// Of each node; `NONE`: the smoother alone does it.
    pub of: Vec<u32>,
    pub count: usize,
}

/// Nodes that the smoother alone does: d_i (kappa - 2) >= kappa sum over j of |a_ij|.
fn is_left_out(c: &Couplings, i: usize, kappa: f64) -> bool {
    let sum: f64 = c.row(i).map(|(_, a)| a.abs()).sum();
    c.diagonal[i] * (kappa - 2.0) >= kappa * sum
}

/// Aggregates of the rows of a matrix.
pub fn aggregates(c: &Couplings, rules: &Rules) -> Result<Aggregates> {
    let mut of: Vec<u32> = collected(std::iter::repeat_n(NONE, c.rows()), WHAT)?;
    let mut count = 0;
    for (i, of) in of.iter_mut().enumerate() {
        if !is_left_out(c, i, rules.kappa) {
            *of = count;
            count += 1;
        }
    }
    let mut all = Aggregates { of, count: count as usize };
    for pass in 0..rules.passes {
        let (starts, nodes) = members(&all.of, all.count)?;
        let nodes_of = |k: usize| &nodes[starts[k]..starts[k + 1]];
        let partner = if pass == 0 {
            pairs(&c.among(&all.of, all.count)?, rules.kappa, |_, _| true)?
        } else {
            pairs(&c.galerkin(&all.of, all.count)?, rules.kappa, |k, l| {
                let mut union = [0; MOST];
                let (a, b) = (nodes_of(k), nodes_of(l));
                union[..a.len()].copy_from_slice(a);
                union[a.len()..a.len() + b.len()].copy_from_slice(b);
                accepts(c, &union[..a.len() + b.len()], rules.kappa)
            })?
        };
        // Numbered by their first member.
        let mut number: Vec<u32> = zeroed(all.count, WHAT)?;
        let mut count = 0;
        for k in 0..all.count {
            let other = partner[k] as usize;
            number[k] = if other < k { number[other] } else { count };
            count += u32::from(other >= k);
        }
        all.of.iter_mut().filter(|k| **k != NONE).for_each(|k| *k = number[*k as usize]);
        all.count = count as usize;
    }
    Ok(all)
}

/// The partner of each row, or the row itself: rows in turn take the free one with the least mu up to kappa that
/// `suits`.
fn pairs(c: &Couplings, kappa: f64, suits: impl Fn(usize, usize) -> bool) -> Result<Vec<u32>> {
    let mut partner: Vec<u32> = collected(std::iter::repeat_n(NONE, c.rows()), WHAT)?;
    let mut candidates = Vec::new();
    for i in 0..c.rows() {
        if partner[i] != NONE {
            continue;
        }
        candidates.clear();
        for (j, a) in c.row(i).filter(|&(j, a)| partner[j] == NONE && a > 0.0) {
            let mu = of_pair(c, i, j, a);
            if mu <= kappa {
                push(&mut candidates, (mu, j), WHAT)?;
            }
        }
        candidates.sort_unstable_by(|(mu, j), (nu, k)| mu.total_cmp(nu).then(j.cmp(k)));
        let found = candidates.iter().find(|&&(_, j)| suits(i, j)).map_or(i, |&(_, j)| j);
        (partner[i], partner[found]) = (found as u32, i as u32);
    }
    Ok(partner)
}
