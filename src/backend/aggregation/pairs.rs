//! Pairs of rows that are coupled well: in the order of the rows, in blocks of them, or by handshakes.

use super::couplings::{Couplings, NONE, WHAT};
use super::quality::of_pair;
use crate::error::{Result, collected, push, zeroed};
use crate::runtime::workers::{Parts, Workers, cut};
use std::iter::repeat_n;

/// Nodes of a block.
const BLOCK: u32 = 1024;
/// Rounds of handshakes: more find hardly a pair.
const ROUNDS: usize = 4;

/// How pairs are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Matching {
    /// In the order of the rows, by one thread.
    Sequence,
    /// The same in each block of rows, then by handshakes.
    Blocks,
    /// By handshakes alone.
    Handshakes,
}

/// Which pairs are made.
pub struct Pairing<'a, N, S> {
    pub c: &'a Couplings,
    /// What a row is called, for keys.
    pub name: N,
    /// Of each row the first node that it stands for, ascending.
    pub node: &'a [u32],
    /// mu at most.
    pub kappa: f64,
    /// Whether a pair may be made whose mu is small enough.
    pub suits: S,
}

impl<N: Fn(usize) -> usize + Sync, S: Fn(usize, usize) -> bool + Sync> Pairing<'_, N, S> {
    /// The partner of each row, or the row itself.
    pub fn partners(&self, matching: Matching, workers: &mut Workers) -> Result<Vec<u32>> {
        let rows = self.c.rows();
        let mut partner: Vec<u32> = collected(repeat_n(NONE, rows), WHAT)?;
        match matching {
            Matching::Sequence => self.in_order(0, &mut partner)?,
            Matching::Blocks => {
                let (mut left, mut first) = (Parts(&mut partner), 0);
                let blocks = self.node.chunk_by(|a, b| a / BLOCK == b / BLOCK).map(|block| {
                    let rows = (first, left.next(block.len()));
                    first += block.len();
                    rows
                });
                let done = workers.map(blocks, |(first, partner)| self.in_order(first, partner))?;
                done.into_iter().collect::<Result<()>>()?;
                self.handshakes(&mut partner, workers)?;
            }
            Matching::Handshakes => self.handshakes(&mut partner, workers)?,
        }
        partner.iter_mut().enumerate().filter(|(_, p)| **p == NONE).for_each(|(i, p)| *p = i as u32);
        Ok(partner)
    }

    /// Couplings of row i that may make a pair, with their mu.
    fn candidates(&self, i: usize) -> impl Iterator<Item = (f64, usize)> {
        let couplings = self.c.row(i).filter(|&(_, a)| a > 0.0);
        couplings.map(move |(j, a)| (of_pair(self.c, i, j, a), j)).filter(|(mu, _)| *mu <= self.kappa)
    }

    /// Rows of a block in turn take the free one in it with the least mu that suits; `partner` are those of the block.
    fn in_order(&self, first: usize, partner: &mut [u32]) -> Result<()> {
        let mut found = Vec::new();
        for k in 0..partner.len() {
            if partner[k] != NONE {
                continue;
            }
            found.clear();
            let is_free = |j: usize| j.checked_sub(first).and_then(|l| partner.get(l)).is_some_and(|p| *p == NONE);
            for candidate in self.candidates(first + k).filter(|&(_, j)| is_free(j)) {
                push(&mut found, candidate, WHAT)?;
            }
            found.sort_unstable_by(|(mu, j), (nu, l)| mu.total_cmp(nu).then(j.cmp(l)));
            if let Some(&(_, j)) = found.iter().find(|&&(_, j)| (self.suits)(first + k, j)) {
                (partner[k], partner[j - first]) = (j as u32, (first + k) as u32);
            }
        }
        Ok(())
    }

    /// Free rows point at the free one of the least key; those that point at each other are a pair, if they suit.
    fn handshakes(&self, partner: &mut [u32], workers: &mut Workers) -> Result<()> {
        let rows = partner.len();
        let pieces = || cut(rows, workers.pieces(size_of_val(&*self.c.a)));
        let pieces = collected(pieces(), WHAT)?;
        let mut choice: Vec<u32> = zeroed(rows, WHAT)?;
        let mut is_pair: Vec<bool> = zeroed(rows, WHAT)?;
        // Those that were refused, a round each.
        let mut refused: Vec<[u32; ROUNDS]> = collected(repeat_n([NONE; ROUNDS], rows), WHAT)?;
        for round in 0..ROUNDS {
            let mut left = Parts(&mut choice);
            let part = pieces.iter().map(|piece| (piece.clone(), left.next(piece.len())));
            workers.each(part, |(piece, choice)| {
                piece.zip(choice).for_each(|(i, choice)| *choice = self.choice(i, partner, &refused[i]));
            })?;
            let mutual = |i: usize| Some(choice[i]).filter(|&j| j != NONE && choice[j as usize] as usize == i);
            let mut left = Parts(&mut is_pair);
            let part = pieces.iter().map(|piece| (piece.clone(), left.next(piece.len())));
            workers.each(part, |(piece, is_pair)| {
                for (i, is_pair) in piece.zip(is_pair) {
                    // The lower one of a pair looks.
                    *is_pair = mutual(i).is_some_and(|j| i < j as usize && (self.suits)(i, j as usize));
                }
            })?;
            for i in 0..rows {
                match mutual(i) {
                    Some(j) if is_pair[i.min(j as usize)] => partner[i] = j,
                    Some(j) => refused[i][round] = j,
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Where row i points.
    fn choice(&self, i: usize, partner: &[u32], refused: &[u32]) -> u32 {
        if partner[i] != NONE {
            return NONE;
        }
        let may = |j: usize| partner[j] == NONE && !refused.contains(&(j as u32));
        let keys = self
            .candidates(i)
            .filter(|&(_, j)| may(j))
            .map(|(mu, j)| (key(mu, (self.name)(i.min(j)), (self.name)(i.max(j))), j));
        keys.min().map_or(NONE, |(_, j)| j as u32)
    }
}

/// Of an edge: its mu in quarter octaves, then a hash. With mu itself, or the numbers of the rows, handshakes would
/// find one pair along a line of the matrix in a round.
fn key(mu: f64, low: usize, high: usize) -> u64 {
    let class = u64::from((mu as f32).to_bits() >> 21);
    class << 36 | split_mix(((low as u64) << 32 | high as u64).wrapping_add(0x9e37_79b9_7f4a_7c15)) >> 28
}

/// SplitMix64's output in a state (Steele, Lea, Flood 2014).
fn split_mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
