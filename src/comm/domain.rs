//! One rank of those that share a grid: which rows it has, and what all ranks tell each other of a matrix.

use super::{Comm, Gather};
use crate::error::{Error, Result, collected, push};
use crate::grid::inspection::Found;
use crate::grid::layout::Layout;
use crate::grid::strips::Strips;
use crate::runtime::heap::Counted;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// For errors.
const HALOS: &str = "rows of other ranks";

/// Rows J beside its own of which a rank has what they hold of the matrix: the elimination of red nodes in two rows
/// needs three.
pub const REACH: usize = 3;
/// Rows that it stores: natural rows are spread to the row above, too.
pub const STORED: usize = REACH + 1;
/// Natural rows below and above its own that those are made of: the row below them has their couplings to the south.
pub const BELOW: usize = 2 * REACH + 1;
pub const ABOVE: usize = 2 * REACH;

/// One rank of those that share a grid.
#[derive(Clone)]
pub struct Domain {
    pub comm: Counted<Comm>,
    pub strips: Counted<Strips>,
    /// Sums have the bits of those of one rank.
    pub reproducible: bool,
    /// Bits of the largest center of the last matrix.
    center: Counted<AtomicU64>,
}

impl Domain {
    pub fn new(comm: &Counted<Comm>, strips: &Counted<Strips>, reproducible: bool) -> Result<Self> {
        let center = Counted::new(AtomicU64::new(0), HALOS)?;
        Ok(Self { comm: comm.clone(), strips: strips.clone(), reproducible, center })
    }

    /// The largest center of the last matrix: a scale for any pivot.
    pub fn center(&self) -> f64 {
        f64::from_bits(self.center.load(Ordering::Relaxed))
    }

    pub fn set_center(&self, center: f64) {
        self.center.store(center.to_bits(), Ordering::Relaxed);
    }

    /// Rows J of grid q that are this rank's.
    pub fn rows(&self, q: usize) -> Range<usize> {
        self.strips.rows(q, self.comm.rank())
    }

    /// Whether grid q is shared.
    pub fn shares(&self, q: usize) -> bool {
        q < self.strips.depth
    }

    /// The layout of grid q as it is stored here.
    pub fn layout(&self, q: usize, layout: Layout) -> Layout {
        if !self.shares(q) {
            return layout;
        }
        let rows = self.rows(q);
        if rows.is_empty() {
            return layout.strip(0, 0);
        }
        layout.strip(rows.start.saturating_sub(STORED), (rows.end + STORED).min(layout.cy))
    }

    /// Natural rows that a rank has of the caller's arrays.
    pub fn slab(strips: &Strips, rank: usize) -> Range<usize> {
        let rows = strips.natural(rank);
        if rows.is_empty() {
            return rows;
        }
        rows.start.saturating_sub(BELOW)..(rows.end + ABOVE).min(strips.grid.ny)
    }

    /// The failure of the lowest level, and there of the first node, of all ranks: the rank that has it tells it.
    pub fn first_failure(&self, own: Option<Error>) -> Option<Error> {
        self.first_of(own).unwrap_or_else(Some)
    }

    /// An error where any rank has one.
    pub fn agree(&self, own: Option<Error>) -> Result<()> {
        self.first_of(own)?.map_or(Ok(()), Err)
    }

    fn first_of(&self, own: Option<Error>) -> Result<Option<Error>> {
        const WORDS: usize = 4;
        let place = own.as_ref().and_then(Error::matrix_place).and_then(|place| place.of_node());
        let (level, i, j) = place.unwrap_or((0, 0, 0));
        let status = own.as_ref().map_or(0, Error::status);
        let mut gather = Gather::new(&self.comm, &collected((0..self.comm.size()).map(|_| WORDS), HALOS)?)?;
        let words = [f64::from(status), level as f64, j as f64, i as f64];
        let all = gather.run(|to| to.copy_from_slice(&words))?;
        let failures = all.chunks_exact(WORDS).enumerate().filter(|(_, words)| words[0] != 0.0);
        let order = |words: &[f64]| [words[1], words[2], words[3]].map(f64::to_bits);
        let first = failures.min_by_key(|(rank, words)| (order(words), *rank));
        Ok(first.map(|(rank, words)| match own {
            Some(error) if rank == self.comm.rank() => error,
            _ => Error::elsewhere(rank, words[0] as i32),
        }))
    }

    /// What all ranks have found in their rows of a matrix, rank by rank.
    pub fn gather_found(&self, own: &Found) -> Result<Vec<Found>> {
        let words = own.to_words()?;
        let size = self.comm.size();
        let mut lengths = Gather::new(&self.comm, &collected((0..size).map(|_| 1), HALOS)?)?;
        let lengths = collected(lengths.run(|to| to[0] = words.len() as f64)?.iter().map(|&n| n as usize), HALOS)?;
        let mut gather = Gather::new(&self.comm, &lengths)?;
        let mut all = gather.run(|to| to.copy_from_slice(&words))?;
        let mut found = Vec::new();
        for length in lengths {
            let words;
            (words, all) = all.split_at(length);
            push(&mut found, Found::from_words(words)?, HALOS)?;
        }
        Ok(found)
    }
}
