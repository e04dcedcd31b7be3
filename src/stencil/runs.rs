//! Connected components by union-find over runs. A run is a maximal sequence of nodes of a row in which each node is
//! coupled to the next. For example, a row whose nodes are all coupled is one run. Couplings between rows unite runs;
//! the run with the smallest index is the root.
//!
//! The rows are those of a plane, or those of a box of cells in storage order. The caller states which rows are
//! adjacent. Couplings are read as bits of 64-bit words, so that the interior of a long run needs no branches.

use crate::error::{Result, collected, extend, push, reserve};
use std::ops::Range;

/// Flag: the component has two nodes or more.
pub(super) const COUPLED: u8 = 1;
/// Flag: the component has a row sum beyond the tolerance. Nodes without couplings may also have this flag, since their
/// row sums have no effect.
pub(super) const REGULAR: u8 = 2;

/// Nodes per word of bits.
pub(super) const WORD: usize = u64::BITS as usize;

const RUNS: &str = "the runs of coupled nodes";

/// The runs of all rows and their components. Consecutive nodes that are known to have no coupling (`push_row`) also
/// form a run. Every node belongs to exactly one run. Indices of nodes and of runs fit 32 bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    nx: usize,
    /// First column of each run. A run ends where the next run of its row starts.
    start: Vec<u32>,
    /// Parent of each run in the tree of its component: a run with a smaller index. The root of a tree is its own
    /// parent, and is the first run of the component. After `label_components`, the array contains the label of the
    /// run's component instead, or 0.
    parent: Vec<u32>,
    /// Flags of the components. Only the entry of a root is valid.
    flags: Vec<u8>,
    /// Row j has the runs row_start[j] .. row_start[j + 1].
    row_start: Vec<u32>,
}

impl Runs {
    /// Makes all nodes of `rows` rows of `nx` nodes one component. `regular`: whether one of its row sums is beyond the
    /// tolerance.
    pub fn make_whole(&mut self, nx: usize, rows: usize, regular: bool) -> Result<()> {
        self.clear(nx)?;
        for numbers in [&mut self.start, &mut self.parent, &mut self.row_start] {
            reserve(numbers, rows + 1, RUNS)?;
        }
        reserve(&mut self.flags, rows, RUNS)?;
        self.row_start.clear();
        self.row_start.extend(0..=rows as u32);
        self.start.resize(rows, 0);
        self.parent.resize(rows, 0);
        self.flags.resize(rows, 0);
        let coupled = if nx * rows > 1 { COUPLED } else { 0 };
        self.flags[0] = coupled | if regular { REGULAR } else { 0 };
        Ok(())
    }

    /// Removes all rows. The rows that are pushed next have nx nodes.
    pub fn clear(&mut self, nx: usize) -> Result<()> {
        self.nx = nx;
        self.start.clear();
        self.parent.clear();
        self.flags.clear();
        self.row_start.clear();
        push(&mut self.row_start, 0, RUNS)
    }

    pub fn bytes(&self) -> usize {
        4 * (self.start.capacity() + self.parent.capacity() + self.row_start.capacity()) + self.flags.capacity()
    }

    pub fn rows(&self) -> usize {
        self.row_start.len().saturating_sub(1)
    }

    /// Returns the runs of a row.
    pub fn row(&self, row: usize) -> Range<usize> {
        self.row_start[row] as usize..self.row_start[row + 1] as usize
    }

    /// Returns the columns of run k, which must be a run of `row`.
    fn columns(&self, row: &Range<usize>, k: usize) -> Range<usize> {
        let end = if k + 1 < row.end { self.start[k + 1] as usize } else { self.nx };
        self.start[k] as usize..end
    }

    /// Appends the runs of the next row. Two functions describe the couplings of its nodes; bit i of the word that they
    /// return for w belongs to node 64 w + i:
    ///
    /// - `apart`: the bit is set if and only if the node has no coupling to the east or is outside the row.
    /// - `unreached`: a set bit means that the node has no coupling to another row. The bit may be clear for other
    ///   nodes without such a coupling. Called only for words with nodes that have no coupling within the row.
    ///
    /// `words` is the number of words. If it is 0, all nodes of the row are one run, and neither function is called.
    pub fn push_row(
        &mut self,
        words: usize,
        apart: impl Fn(usize) -> u64,
        unreached: impl Fn(usize) -> u64,
    ) -> Result<()> {
        // Start of the current run, and whether its nodes have no couplings ("lone" nodes).
        let (mut start, mut lone) = (0, false);
        // For the previous node: whether it has no coupling to the east, and whether it is lone.
        let (mut apart_before, mut lone_before) = (1, 0);
        for word in 0..words {
            let apart = apart(word);
            let beside = apart << 1 | apart_before;
            let mut lones = apart & beside;
            if lones != 0 {
                lones &= unreached(word);
            }
            let mut starts = beside & !(lones & (lones << 1 | lone_before));
            (apart_before, lone_before) = (apart >> (WORD - 1), lones >> (WORD - 1));
            while starts != 0 {
                let bit = starts.trailing_zeros() as usize;
                let next = word * WORD + bit;
                if next >= self.nx {
                    break;
                }
                if next > 0 {
                    self.push(start, next, lone)?;
                }
                (start, lone) = (next, lones >> bit & 1 == 1);
                starts &= starts - 1;
            }
        }
        self.push(start, self.nx, lone)?;
        push(&mut self.row_start, self.start.len() as u32, RUNS)
    }

    fn push(&mut self, start: usize, end: usize, lone: bool) -> Result<()> {
        push(&mut self.parent, self.start.len() as u32, RUNS)?;
        push(&mut self.flags, if lone { REGULAR } else { u8::from(end - start > 1) * COUPLED }, RUNS)?;
        push(&mut self.start, start as u32, RUNS)
    }

    /// Calls `join` for each run of row `low` and each run of row `high` between which there is a nonzero coupling.
    /// Pairs that already belong to the same component are omitted. Coupling t < `count` connects node `from` + t of
    /// `low` and node `to` + t of `high`. `any` returns whether a coupling of a range is not zero.
    pub fn for_each_joined_pair(
        &mut self,
        [low, high]: [usize; 2],
        (from, to, count): (usize, usize, usize),
        any: impl Fn(Range<usize>) -> bool,
        mut join: impl FnMut(&mut Self, usize, usize),
    ) {
        let (low, high) = (self.row(low), self.row(high));
        let (mut k, mut l, mut t) = (low.start, high.start, 0);
        while t < count {
            let ends = (self.columns(&low, k).end - from, self.columns(&high, l).end - to);
            let end = ends.0.min(ends.1).min(count);
            if self.root(k) != self.root(l) && any(t..end) {
                join(self, k, l);
            }
            k += usize::from(end == ends.0);
            l += usize::from(end == ends.1);
            t = end;
        }
    }

    /// Unites the components of the runs k and l.
    pub fn unite(&mut self, k: usize, l: usize) {
        let (a, b) = (self.root(k), self.root(l));
        if a != b {
            // The root with the smaller index becomes the parent, so that parents precede their children.
            self.parent[a.max(b)] = a.min(b) as u32;
            self.flags[a.min(b)] |= self.flags[a.max(b)];
        }
    }

    fn root(&mut self, mut k: usize) -> usize {
        while self.parent[k] as usize != k {
            let up = self.parent[self.parent[k] as usize];
            self.parent[k] = up;
            k = up as usize;
        }
        k
    }

    /// Flags a component as regular if `is_regular` returns true for one of its runs in the last row. Calls
    /// `is_regular` with the columns of each run whose component does not have this flag yet.
    pub fn mark_last_row(&mut self, mut is_regular: impl FnMut(Range<usize>) -> bool) {
        let row = self.row(self.rows() - 1);
        for k in row.clone() {
            let root = self.root(k);
            if self.flags[root] & REGULAR == 0 && is_regular(self.columns(&row, k)) {
                self.flags[root] |= REGULAR;
            }
        }
    }

    /// Appends the rows of `next` without uniting any runs.
    pub fn append(&mut self, next: &Self) -> Result<()> {
        let runs = self.start.len() as u32;
        extend(&mut self.start, next.start.iter().copied(), RUNS)?;
        extend(&mut self.parent, next.parent.iter().map(|k| k + runs), RUNS)?;
        extend(&mut self.flags, next.flags.iter().copied(), RUNS)?;
        extend(&mut self.row_start, next.row_start[1..].iter().map(|k| k + runs), RUNS)
    }

    /// Labels the components: those whose flags satisfy `wanted` get 1, 2, ... in the order of their first runs, all
    /// others 0. Calls `found(label, row, columns)` for each run with a nonzero label. Returns the number of components
    /// with two nodes or more, and the number of labels.
    pub fn label_components(
        &mut self,
        wanted: impl Fn(u8) -> bool,
        mut found: impl FnMut(usize, usize, Range<usize>) -> Result<()>,
    ) -> Result<(usize, usize)> {
        // Parents precede their children, so one sweep replaces all parents by roots.
        for k in 0..self.parent.len() {
            let root = self.parent[self.parent[k] as usize] as usize;
            self.parent[k] = root as u32;
            if root != k {
                self.flags[root] |= COUPLED;
            }
        }
        let (mut coupled, mut labels) = (0, 0);
        for j in 0..self.rows() {
            let row = self.row(j);
            for k in row.clone() {
                // The entry of a root becomes the label of its component before other runs of the component read it.
                let up = self.parent[k] as usize;
                let label = match () {
                    () if up != k => self.parent[up],
                    () if wanted(self.flags[k]) => {
                        labels += 1;
                        labels
                    }
                    () => 0,
                };
                coupled += usize::from(up == k && self.flags[k] & COUPLED != 0);
                self.parent[k] = label;
                if label > 0 {
                    found(label as usize, j, self.columns(&row, k))?;
                }
            }
        }
        Ok((coupled, labels as usize))
    }

    /// Returns the runs of a row from west to east, each as its columns and its label. Requires a previous call of
    /// `number`.
    pub fn labels(&self, row: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let row = self.row(row);
        row.clone().map(move |k| (self.columns(&row, k), self.parent[k] as usize))
    }

    /// Returns the label of node i of a row. Requires a previous call of `number`. The cost is a binary search among
    /// the runs of the row.
    pub fn label(&self, row: usize, i: usize) -> usize {
        let row = self.row(row);
        let later = self.start[row.clone()].partition_point(|&start| start as usize <= i);
        self.parent[row.start + later - 1] as usize
    }

    /// Appends all arrays to `words`, for a message to another rank.
    pub fn to_words(&self, words: &mut Vec<f64>) -> Result<()> {
        let lengths = [self.nx, self.start.len(), self.row_start.len()].map(|n| n as f64);
        extend(words, lengths, RUNS)?;
        extend(words, self.start.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.parent.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.flags.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.row_start.iter().map(|&v| f64::from(v)), RUNS)
    }

    /// Reads the arrays that `to_words` has appended, from the beginning of `words`.
    pub fn from_words(words: &mut impl Iterator<Item = f64>) -> Result<Self> {
        let mut length = || words.next().unwrap_or(0.0) as usize;
        let (nx, runs, rows) = (length(), length(), length());
        let mut numbers = |count: usize| collected(words.by_ref().take(count).map(|v| v as u32), RUNS);
        let (start, parent, flags, row_start) = (numbers(runs)?, numbers(runs)?, numbers(runs)?, numbers(rows)?);
        Ok(Self { nx, start, parent, flags: collected(flags.iter().map(|&v| v as u8), RUNS)?, row_start })
    }
}
