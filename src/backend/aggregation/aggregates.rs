//! Aggregates by passes of pairs.

use super::couplings::{Couplings, NONE, WHAT, members};
use super::pairs::{Matching, Pairing};
use super::quality::{MOST, accepts};
use crate::error::{Result, collected, zeroed};
use crate::runtime::workers::Workers;

/// How aggregates are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The bound of mu: conditions of two-grid methods stay below it.
    pub kappa: f64,
    /// Passes of pairs: aggregates have 2^passes nodes at most.
    pub passes: usize,
    pub matching: Matching,
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
pub fn aggregates(c: &Couplings, rules: &Rules, workers: &mut Workers) -> Result<Aggregates> {
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
        let suits = |k: usize, l: usize| {
            if pass == 0 {
                return true;
            }
            let mut union = [0; MOST];
            let (a, b) = (nodes_of(k), nodes_of(l));
            union[..a.len()].copy_from_slice(a);
            union[a.len()..a.len() + b.len()].copy_from_slice(b);
            accepts(c, &union[..a.len() + b.len()], rules.kappa)
        };
        let paired = if pass == 0 { c.among(&all.of, all.count)? } else { c.galerkin(&all.of, all.count, workers)? };
        let node = collected(starts[..all.count].iter().map(|&first| nodes[first]), WHAT)?;
        let name = |k: usize| if pass == 0 { node[k] as usize } else { k };
        let partner =
            Pairing { c: &paired, name, node: &node, kappa: rules.kappa, suits }.partners(rules.matching, workers)?;
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
