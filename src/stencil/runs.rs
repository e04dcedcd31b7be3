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
pub(super) const WORD_BITS: usize = u64::BITS as usize;

const ALLOCATION_NAME: &str = "the runs of coupled nodes";

/// The runs of all rows and their components. Consecutive nodes that are known to have no coupling (`push_row`) also
/// form a run. Every node belongs to exactly one run. Indices of nodes and of runs fit 32 bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    nx: usize,
    /// First column of each run. A run ends where the next run of its row starts.
    start_column: Vec<u32>,
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
    /// Makes all nodes of `rows` rows of `nx` nodes one component. `is_regular`: whether a row sum of the
    /// component is beyond the tolerance.
    pub fn make_one_component(&mut self, nx: usize, rows: usize, is_regular: bool) -> Result<()> {
        self.clear(nx)?;
        for array in [&mut self.start_column, &mut self.parent, &mut self.row_start] {
            reserve(array, rows + 1, ALLOCATION_NAME)?;
        }
        reserve(&mut self.flags, rows, ALLOCATION_NAME)?;
        self.row_start.clear();
        self.row_start.extend(0..=rows as u32);
        self.start_column.resize(rows, 0);
        self.parent.resize(rows, 0);
        self.flags.resize(rows, 0);
        let coupled_flag = if nx * rows > 1 { COUPLED } else { 0 };
        self.flags[0] = coupled_flag | if is_regular { REGULAR } else { 0 };
        Ok(())
    }

    /// Removes all rows. The rows that are pushed next have nx nodes.
    pub fn clear(&mut self, nx: usize) -> Result<()> {
        self.nx = nx;
        self.start_column.clear();
        self.parent.clear();
        self.flags.clear();
        self.row_start.clear();
        push(&mut self.row_start, 0, ALLOCATION_NAME)
    }

    pub fn bytes(&self) -> usize {
        4 * (self.start_column.capacity() + self.parent.capacity() + self.row_start.capacity()) + self.flags.capacity()
    }

    pub fn rows(&self) -> usize {
        self.row_start.len().saturating_sub(1)
    }

    /// Returns the runs of a row.
    pub fn runs_of_row(&self, row: usize) -> Range<usize> {
        self.row_start[row] as usize..self.row_start[row + 1] as usize
    }

    /// Returns the columns of run k. `row` is the range of all runs of its row.
    fn columns(&self, row: &Range<usize>, k: usize) -> Range<usize> {
        let end = if k + 1 < row.end { self.start_column[k + 1] as usize } else { self.nx };
        self.start_column[k] as usize..end
    }

    /// Appends the runs of the next row. Two functions describe the couplings of its nodes. They return the bits of
    /// word w; bit i of this word belongs to node 64 w + i:
    ///
    /// - `end_bits`: the bit is set if and only if the node has no coupling to the east or is outside the row.
    /// - `uncoupled_bits`: a set bit means that the node has no coupling to another row. The bit may be clear for other
    ///   nodes without such a coupling. Called only for words with nodes that have no coupling within the row.
    ///
    /// `words` is the number of words. If it is 0, all nodes of the row are one run, and neither function is called.
    pub fn push_row(
        &mut self,
        words: usize,
        end_bits: impl Fn(usize) -> u64,
        uncoupled_bits: impl Fn(usize) -> u64,
    ) -> Result<()> {
        // Start of the current run, and whether its nodes have no couplings ("lone" nodes).
        let (mut start, mut is_lone) = (0, false);
        // For the previous node: whether it has no coupling to the east, and whether it is lone.
        let (mut previous_end_bit, mut was_lone) = (1, 0);
        for word in 0..words {
            let end_bits = end_bits(word);
            let start_bits = end_bits << 1 | previous_end_bit;
            let mut lone_bits = end_bits & start_bits;
            if lone_bits != 0 {
                lone_bits &= uncoupled_bits(word);
            }
            let mut run_starts = start_bits & !(lone_bits & (lone_bits << 1 | was_lone));
            (previous_end_bit, was_lone) = (end_bits >> (WORD_BITS - 1), lone_bits >> (WORD_BITS - 1));
            while run_starts != 0 {
                let bit_index = run_starts.trailing_zeros() as usize;
                let column = word * WORD_BITS + bit_index;
                if column >= self.nx {
                    break;
                }
                if column > 0 {
                    self.push_run(start, column, is_lone)?;
                }
                (start, is_lone) = (column, lone_bits >> bit_index & 1 == 1);
                run_starts &= run_starts - 1;
            }
        }
        self.push_run(start, self.nx, is_lone)?;
        push(&mut self.row_start, self.start_column.len() as u32, ALLOCATION_NAME)
    }

    fn push_run(&mut self, start: usize, end: usize, is_lone: bool) -> Result<()> {
        push(&mut self.parent, self.start_column.len() as u32, ALLOCATION_NAME)?;
        push(&mut self.flags, if is_lone { REGULAR } else { u8::from(end - start > 1) * COUPLED }, ALLOCATION_NAME)?;
        push(&mut self.start_column, start as u32, ALLOCATION_NAME)
    }

    /// Calls `join` for each run of row `lower_row` and each run of row `upper_row` between which there is a nonzero
    /// coupling. Pairs that already belong to the same component are omitted. Coupling t < `coupling_count` connects
    /// node `lower_offset` + t of `lower_row` and node `upper_offset` + t of `upper_row`. `has_coupling` returns
    /// whether any coupling in a range of t is nonzero.
    pub fn for_each_joined_pair(
        &mut self,
        [lower_row, upper_row]: [usize; 2],
        (lower_offset, upper_offset, coupling_count): (usize, usize, usize),
        has_coupling: impl Fn(Range<usize>) -> bool,
        mut join: impl FnMut(&mut Self, usize, usize),
    ) {
        let (lower_row, upper_row) = (self.runs_of_row(lower_row), self.runs_of_row(upper_row));
        let (mut k, mut l, mut coupling) = (lower_row.start, upper_row.start, 0);
        while coupling < coupling_count {
            let ends = (self.columns(&lower_row, k).end - lower_offset, self.columns(&upper_row, l).end - upper_offset);
            let end = ends.0.min(ends.1).min(coupling_count);
            if self.root(k) != self.root(l) && has_coupling(coupling..end) {
                join(self, k, l);
            }
            k += usize::from(end == ends.0);
            l += usize::from(end == ends.1);
            coupling = end;
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
            let grandparent = self.parent[self.parent[k] as usize];
            self.parent[k] = grandparent;
            k = grandparent as usize;
        }
        k
    }

    /// Flags a component as regular if `is_regular` returns true for one of its runs in the last row. Calls
    /// `is_regular` with the columns of each run whose component does not have this flag yet.
    pub fn mark_last_row(&mut self, mut is_regular: impl FnMut(Range<usize>) -> bool) {
        let runs = self.runs_of_row(self.rows() - 1);
        for k in runs.clone() {
            let root = self.root(k);
            if self.flags[root] & REGULAR == 0 && is_regular(self.columns(&runs, k)) {
                self.flags[root] |= REGULAR;
            }
        }
    }

    /// Appends the rows of `next` without uniting any runs.
    pub fn append(&mut self, next: &Self) -> Result<()> {
        let first_new_run = self.start_column.len() as u32;
        extend(&mut self.start_column, next.start_column.iter().copied(), ALLOCATION_NAME)?;
        extend(&mut self.parent, next.parent.iter().map(|k| k + first_new_run), ALLOCATION_NAME)?;
        extend(&mut self.flags, next.flags.iter().copied(), ALLOCATION_NAME)?;
        extend(&mut self.row_start, next.row_start[1..].iter().map(|k| k + first_new_run), ALLOCATION_NAME)
    }

    /// Labels the components: those whose flags satisfy `needs_label` get 1, 2, ... in the order of their first runs,
    /// all others 0. Calls `visit_run(label, row, columns)` for each run with a nonzero label. Returns the number of
    /// components with two nodes or more, and the number of labels.
    pub fn label_components(
        &mut self,
        needs_label: impl Fn(u8) -> bool,
        mut visit_run: impl FnMut(usize, usize, Range<usize>) -> Result<()>,
    ) -> Result<(usize, usize)> {
        // Parents precede their children, so one sweep replaces all parents by roots.
        for k in 0..self.parent.len() {
            let root = self.parent[self.parent[k] as usize] as usize;
            self.parent[k] = root as u32;
            if root != k {
                self.flags[root] |= COUPLED;
            }
        }
        let (mut coupled_count, mut label_count) = (0, 0);
        for j in 0..self.rows() {
            let runs = self.runs_of_row(j);
            for k in runs.clone() {
                // The entry of a root becomes the label of its component before other runs of the component read it.
                let parent = self.parent[k] as usize;
                let label = match () {
                    () if parent != k => self.parent[parent],
                    () if needs_label(self.flags[k]) => {
                        label_count += 1;
                        label_count
                    }
                    () => 0,
                };
                coupled_count += usize::from(parent == k && self.flags[k] & COUPLED != 0);
                self.parent[k] = label;
                if label > 0 {
                    visit_run(label as usize, j, self.columns(&runs, k))?;
                }
            }
        }
        Ok((coupled_count, label_count as usize))
    }

    /// Returns the runs of a row from west to east, each as its columns and its label. Requires a previous call of
    /// `label_components`.
    pub fn labels(&self, row: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let runs = self.runs_of_row(row);
        runs.clone().map(move |k| (self.columns(&runs, k), self.parent[k] as usize))
    }

    /// Returns the label of node i of a row. Requires a previous call of `label_components`. The cost is a binary
    /// search among the runs of the row.
    pub fn label(&self, row: usize, i: usize) -> usize {
        let runs = self.runs_of_row(row);
        let started_runs = self.start_column[runs.clone()].partition_point(|&start| start as usize <= i);
        self.parent[runs.start + started_runs - 1] as usize
    }

    /// Appends all arrays to `words`, for a message to another rank.
    pub fn to_words(&self, words: &mut Vec<f64>) -> Result<()> {
        let lengths = [self.nx, self.start_column.len(), self.row_start.len()].map(|n| n as f64);
        extend(words, lengths, ALLOCATION_NAME)?;
        extend(words, self.start_column.iter().map(|&v| f64::from(v)), ALLOCATION_NAME)?;
        extend(words, self.parent.iter().map(|&v| f64::from(v)), ALLOCATION_NAME)?;
        extend(words, self.flags.iter().map(|&v| f64::from(v)), ALLOCATION_NAME)?;
        extend(words, self.row_start.iter().map(|&v| f64::from(v)), ALLOCATION_NAME)
    }

    /// Reads the arrays that `to_words` has appended, from the beginning of `words`.
    pub fn from_words(words: &mut impl Iterator<Item = f64>) -> Result<Self> {
        let mut read_length = || words.next().unwrap_or(0.0) as usize;
        let (nx, run_count, row_start_count) = (read_length(), read_length(), read_length());
        let mut read_numbers = |count: usize| collected(words.by_ref().take(count).map(|v| v as u32), ALLOCATION_NAME);
        let (start, parent, flags, row_start) = (
            read_numbers(run_count)?,
            read_numbers(run_count)?,
            read_numbers(run_count)?,
            read_numbers(row_start_count)?,
        );
        Ok(Self {
            nx,
            start_column: start,
            parent,
            flags: collected(flags.iter().map(|&v| v as u8), ALLOCATION_NAME)?,
            row_start,
        })
    }
}
