//! Connected components of the matrix graph, and which of them are singular with the constant vector as
//! null space: a component is singular iff |row sum| <= tolerance * center in all its rows.
//!
//! Union-find works on runs, the pieces of a row that nonzero east couplings hold together: a sea without land
//! has one to a row. [`crate::grid::inspection`] finds them.

use crate::error::{Result, collected, extend, push, reserve, zeroed};
use crate::grid::levels::Grid;
use crate::grid::stencil::StencilView;
use crate::isa::for_each_isa;
use std::ops::Range;

pub use crate::options::limits::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};

/// Components of at least two nodes. A lone node (land) has no couplings and belongs to none.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// First node (i, j) of each singular component.
    pub first_node: Vec<(usize, usize)>,
    /// Nodes of each singular component.
    pub size: Vec<usize>,
    /// Components, singular or not.
    pub count: usize,
    projected: bool,
    /// Its parents are labels here: 0 for regular runs, q for runs of singular component q = 1, 2, ...
    runs: Runs,
}

impl Components {
    /// Singular components whose constants are projected out.
    pub fn singular(&self) -> usize {
        if self.projected { self.size.len() } else { 0 }
    }

    /// The first node of a singular component that nobody projects.
    pub fn refused(&self) -> Option<&(usize, usize)> {
        self.first_node.first().filter(|_| !self.projected)
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.runs.bytes() + 8 * self.size.capacity() + 16 * self.first_node.capacity()
    }

    /// Whether a vanishing last pivot at node (i, j) is no defect: not on a singular component that nobody
    /// projects.
    pub fn may_float(&self, nx: usize, i: usize, j: usize) -> bool {
        self.projected || self.singular_of(nx, i, j).is_none()
    }

    /// Singular component of node (i, j), counted from 0. Cost: a search among the runs of the row.
    pub fn singular_of(&self, nx: usize, i: usize, j: usize) -> Option<usize> {
        assert!(i < nx, "a node of the grid");
        if self.size.is_empty() {
            return None;
        }
        let row = self.runs.row(j);
        let later = self.runs.start[row.clone()].partition_point(|&start| start as usize <= i);
        (self.runs.parent[row.start + later - 1] as usize).checked_sub(1)
    }

    /// Columns and component of the runs of row j that lie in singular components, from west to east.
    pub fn singular_runs(&self, j: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let row = if self.size.is_empty() { 0..0 } else { self.runs.row(j) };
        row.clone().filter_map(move |k| {
            let component = (self.runs.parent[k] as usize).checked_sub(1)?;
            Some((self.runs.columns(&row, k), component))
        })
    }

    /// Labels of the nodes whose last pivot must not vanish: those of singular components that nobody projects. None
    /// where there are none.
    pub fn labels_to_refuse(&self, grid: Grid) -> Result<Option<Vec<u32>>> {
        if self.projected || self.size.is_empty() {
            return Ok(None);
        }
        let mut labels = zeroed(grid.nodes(), "component labels")?;
        for j in 0..grid.ny {
            for (columns, component) in self.singular_runs(j) {
                labels[j * grid.nx..][columns].fill(component as u32 + 1);
            }
        }
        Ok(Some(labels))
    }

    /// The runs, for the next matrix; until it is set there are no components.
    pub(super) fn take_runs(&mut self) -> Runs {
        self.first_node.clear();
        self.size.clear();
        self.count = 0;
        std::mem::take(&mut self.runs)
    }

    /// So many components, none of them singular: nobody asks for their runs.
    pub(super) fn set_regular(&mut self, count: usize, project: bool) {
        self.first_node.clear();
        self.size.clear();
        self.count = count;
        self.projected = project;
    }

    /// Numbers the components of a whole grid in order of their first node; `project`: constants on the
    /// singular ones are to be projected out.
    pub(super) fn set(&mut self, runs: Runs, project: bool) -> Result<()> {
        self.take_runs();
        self.projected = project;
        self.runs = runs;
        let Runs { start, parent, flags, .. } = &mut self.runs;
        // Parents come before their children, so that one sweep leads all to their roots.
        for k in 0..parent.len() {
            let root = parent[parent[k] as usize] as usize;
            parent[k] = root as u32;
            if root != k {
                flags[root] |= COUPLED;
            }
        }
        let is_root = |k: usize| parent[k] as usize == k;
        let singular = (0..start.len()).filter(|&k| is_root(k) && flags[k] == COUPLED).count();
        reserve(&mut self.first_node, singular, "singular components")?;
        reserve(&mut self.size, singular, "singular components")?;

        // A root turns into the label of its component before any run asks for it.
        for j in 0..self.runs.rows() {
            let row = self.runs.row(j);
            for k in row.clone() {
                let columns = self.runs.columns(&row, k);
                let up = self.runs.parent[k] as usize;
                let label = if up != k {
                    self.runs.parent[up]
                } else if self.runs.flags[k] == COUPLED {
                    self.first_node.push((columns.start, j));
                    self.size.push(0);
                    self.size.len() as u32
                } else {
                    0
                };
                self.count += usize::from(up == k && self.runs.flags[k] & COUPLED != 0);
                self.runs.parent[k] = label;
                if label > 0 {
                    self.size[label as usize - 1] += columns.len();
                }
            }
        }
        Ok(())
    }
}

/// The component has two nodes or more.
const COUPLED: u8 = 1;
/// A row of the component has a sum beyond the tolerance.
const REGULAR: u8 = 2;

/// Consecutive coupled nodes of rows, and which of them hang together; with 5 points also consecutive lone nodes, which
/// hang together with nothing. Every node lies in one run. Numbers fit 32 bits as those of nodes do.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    nx: usize,
    /// First column of a run, which ends where the next one of its row starts.
    start: Vec<u32>,
    /// A run further up in the tree of its component. A root is its own, and the first run of its component.
    parent: Vec<u32>,
    /// What is known of the component, at its root.
    flags: Vec<u8>,
    /// Runs of row j: row_start[j] .. row_start[j + 1].
    row_start: Vec<u32>,
}

/// Nodes of a row that are looked at together.
const WORD: usize = u64::BITS as usize;

for_each_isa! {
    /// Which of the values `first`, `first` + 1, ... are zero, or not there.
    fn zeros(values: &[f64], first: usize) -> u64 {
        let near = &values[first.min(values.len())..values.len().min(first + WORD)];
        let mut found = 0;
        for (k, value) in near.iter().enumerate() {
            found |= u64::from(value.to_bits() << 1 != 0) << k;
        }
        !found
    }
}

/// For errors.
const RUNS: &str = "the runs of coupled nodes";

impl Runs {
    /// One component of all nodes of `grid`; `regular`: a row of it has a sum that counts.
    pub fn make_whole(&mut self, grid: Grid, regular: bool) -> Result<()> {
        self.clear(grid.nx)?;
        for rows in [&mut self.start, &mut self.parent, &mut self.row_start] {
            reserve(rows, grid.ny + 1, RUNS)?;
        }
        reserve(&mut self.flags, grid.ny, RUNS)?;
        self.row_start.clear();
        self.row_start.extend(0..=grid.ny as u32);
        self.start.resize(grid.ny, 0);
        self.parent.resize(grid.ny, 0);
        self.flags.resize(grid.ny, 0);
        let coupled = if grid.nodes() > 1 { COUPLED } else { 0 };
        self.flags[0] = coupled | if regular { REGULAR } else { 0 };
        Ok(())
    }

    /// No rows, of a grid with nx columns.
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

    fn rows(&self) -> usize {
        self.row_start.len() - 1
    }

    /// It has no rows.
    pub fn rows_are_none(&self) -> bool {
        self.row_start.len() < 2
    }

    /// Runs of row j.
    fn row(&self, j: usize) -> Range<usize> {
        self.row_start[j] as usize..self.row_start[j + 1] as usize
    }

    /// Nodes of run k, which is one of `row`.
    fn columns(&self, row: &Range<usize>, k: usize) -> Range<usize> {
        let end = if k + 1 < row.end { self.start[k + 1] as usize } else { self.nx };
        self.start[k] as usize..end
    }

    /// Adds the runs of the next row, row j of `a`; `whole`: none of its couplings to the east is zero.
    pub fn push_row(&mut self, a: &StencilView, j: usize, whole: bool) -> Result<()> {
        let (east, north) = (a.east_row(j), a.north_row(j));
        let south = if j > 0 { a.north_row(j - 1) } else { &[] };
        // Of the run to come: its start, and whether it is of lone nodes.
        let (mut start, mut lone) = (0, false);
        // Of the node before: it has no coupling to the east, it is lone.
        let (mut zero_before, mut lone_before) = (1, 0);
        // A word of bits at a time, so that open water between coasts costs no branches.
        for first in (0..if whole { 0 } else { self.nx }).step_by(WORD) {
            let zero = zeros(east, first);
            let beside = zero << 1 | zero_before;
            let mut lones = zero & beside;
            if lones != 0 {
                lones &= if a.corners.is_none() { zeros(north, first) & zeros(south, first) } else { 0 };
            }
            let mut starts = beside & !(lones & (lones << 1 | lone_before));
            (zero_before, lone_before) = (zero >> (WORD - 1), lones >> (WORD - 1));
            while starts != 0 {
                let bit = starts.trailing_zeros() as usize;
                let next = first + bit;
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
        // Nobody asks for sums of lone nodes.
        push(&mut self.flags, if lone { REGULAR } else { u8::from(end - start > 1) * COUPLED }, RUNS)?;
        push(&mut self.start, start as u32, RUNS)
    }

    /// The runs that couplings of row j - 1 to row j of `a` join, by their numbers in these rows.
    pub fn joins(a: &StencilView, j: usize) -> Result<Vec<(u32, u32)>> {
        let mut rows = Self::default();
        rows.clear(a.grid.nx)?;
        rows.push_row(a, j - 1, false)?;
        rows.push_row(a, j, false)?;
        let first = rows.row(1).start;
        let mut joined = Vec::new();
        let mut failed = Ok(());
        for (couplings, from, to) in Self::upward(a, j) {
            rows.along(1, couplings, from, to, |_, k, l| {
                let pair = (k as u32, (l - first) as u32);
                if failed.is_ok() && joined.last() != Some(&pair) {
                    failed = push(&mut joined, pair, RUNS);
                }
            });
        }
        failed.map(|()| joined)
    }

    /// Couplings of row j - 1 to row j, and the columns that they begin with on either.
    fn upward<'a>(a: &StencilView<'a>, j: usize) -> [(&'a [f64], usize, usize); 3] {
        [(a.north_row(j - 1), 0, 0), (a.northeast_row(j - 1), 0, 1), (a.northwest_row(j - 1), 1, 0)]
    }

    /// All numbers, for another rank.
    pub fn to_words(&self, words: &mut Vec<f64>) -> Result<()> {
        let lengths = [self.nx, self.start.len(), self.row_start.len()].map(|n| n as f64);
        extend(words, lengths, RUNS)?;
        extend(words, self.start.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.parent.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.flags.iter().map(|&v| f64::from(v)), RUNS)?;
        extend(words, self.row_start.iter().map(|&v| f64::from(v)), RUNS)
    }

    /// The same back; what follows stays.
    pub fn from_words(words: &mut impl Iterator<Item = f64>) -> Result<Self> {
        let mut length = || words.next().unwrap_or(0.0) as usize;
        let (nx, runs, rows) = (length(), length(), length());
        let mut numbers = |count: usize| collected(words.by_ref().take(count).map(|v| v as u32), RUNS);
        let (start, parent, flags, row_start) = (numbers(runs)?, numbers(runs)?, numbers(runs)?, numbers(rows)?);
        Ok(Self { nx, start, parent, flags: collected(flags.iter().map(|&v| v as u8), RUNS)?, row_start })
    }

    /// Unites the runs of the last two rows, which are j - 1 and j of `a`, that its couplings join.
    pub fn unite_last_rows(&mut self, a: &StencilView, j: usize) {
        self.unite_rows(a, j, self.rows() - 1);
    }

    /// The same where row j of `a` is the `upper`-th one here.
    fn unite_rows(&mut self, a: &StencilView, j: usize, upper: usize) {
        for (couplings, from, to) in Self::upward(a, j) {
            self.along(upper, couplings, from, to, Self::unite);
        }
    }

    /// Hands runs of the row below `upper` and of `upper` to `join` that a coupling joins, unless they hang together
    /// already. Entry t of `couplings` is that between node `from` + t of the one and node `to` + t of the other.
    fn along(
        &mut self,
        upper: usize,
        couplings: &[f64],
        from: usize,
        to: usize,
        mut join: impl FnMut(&mut Self, usize, usize),
    ) {
        let (low, high) = (self.row(upper - 1), self.row(upper));
        let (mut k, mut l, mut t) = (low.start, high.start, 0);
        while t < couplings.len() {
            let ends = (self.columns(&low, k).end - from, self.columns(&high, l).end - to);
            let end = ends.0.min(ends.1).min(couplings.len());
            if self.root(k) != self.root(l) && couplings[t..end].iter().any(|&coupling| coupling != 0.0) {
                join(self, k, l);
            }
            k += usize::from(end == ends.0);
            l += usize::from(end == ends.1);
            t = end;
        }
    }

    /// Runs k and l hang together.
    fn unite(&mut self, k: usize, l: usize) {
        let (a, b) = (self.root(k), self.root(l));
        if a != b {
            // The smaller root wins.
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

    /// Hands every run of the last row, but those of components that are known to be regular, to `is_regular`
    /// as its columns.
    pub fn mark_last_row(&mut self, mut is_regular: impl FnMut(Range<usize>) -> bool) {
        let row = self.row(self.rows() - 1);
        for k in row.clone() {
            let root = self.root(k);
            if self.flags[root] & REGULAR == 0 && is_regular(self.columns(&row, k)) {
                self.flags[root] |= REGULAR;
            }
        }
    }

    /// Adds the rows of `next`, which start with row j of `a`, after those that are here.
    pub fn append(&mut self, next: &Self, a: &StencilView, j: usize) -> Result<()> {
        let rows = self.rows();
        self.put_behind(next)?;
        if rows > 0 && next.rows() > 0 {
            self.unite_rows(a, j, rows);
        }
        Ok(())
    }

    /// The same where these runs of the last row here and the first one of `next` hang together.
    pub fn append_joined(&mut self, next: &Self, joins: &[(u32, u32)]) -> Result<()> {
        let (rows, runs) = (self.rows(), self.start.len());
        let below = if rows > 0 { self.row(rows - 1).start } else { 0 };
        self.put_behind(next)?;
        for &(k, l) in joins {
            self.unite(below + k as usize, runs + l as usize);
        }
        Ok(())
    }

    fn put_behind(&mut self, next: &Self) -> Result<()> {
        let runs = self.start.len() as u32;
        extend(&mut self.start, next.start.iter().copied(), RUNS)?;
        extend(&mut self.parent, next.parent.iter().map(|k| k + runs), RUNS)?;
        extend(&mut self.flags, next.flags.iter().copied(), RUNS)?;
        extend(&mut self.row_start, next.row_start[1..].iter().map(|k| k + runs), RUNS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::inspection::Inspection;
    use crate::grid::inspection::tests::{ASKED, inspect};
    use crate::grid::levels::Grid;
    use crate::grid::stencil::View;

    fn components(nx: usize, ny: usize, center: &[f64], east: &[f64], north: &[f64]) -> Components {
        let grid = Grid { nx, ny };
        let v = |name, a| View::new(name, a, grid, nx);
        let a = StencilView {
            grid,
            center: v("center", center),
            east: v("east", east),
            north: v("north", north),
            corners: None,
        };
        let mut inspection = Inspection::default();
        inspect(&mut inspection, &a, 1, &ASKED).unwrap();
        inspection.components
    }

    #[test]
    fn two_basins_and_land() {
        // x-x . x-x : the left pair is singular, the right one has an excess, the middle is land.
        let c = components(5, 1, &[1., 1., 3., 1., 1.5], &[-1., 0., 0., -1., f64::NAN], &[f64::NAN; 5]);
        assert_eq!((c.count, c.singular()), (2, 1));
        let labels: Vec<Option<usize>> = (0..5).map(|i| c.singular_of(5, i, 0)).collect();
        assert_eq!(labels, [Some(0), Some(0), None, None, None]);
        assert_eq!(c.singular_runs(0).collect::<Vec<_>>(), [(0..2, 0)]);
        assert_eq!((c.first_node[0], c.size[0]), ((0, 0), 2));
    }

    #[test]
    fn nothing_singular() {
        let c = components(2, 2, &[4.0; 4], &[-1.0; 4], &[-1.0; 4]);
        assert_eq!((c.count, c.singular()), (1, 0));
        assert_eq!(c.singular_runs(0).count(), 0);
        assert_eq!(c.singular_of(2, 1, 1), None);
    }

    #[test]
    fn a_spiral_is_one_component() {
        // Couplings run along a U: the two arms meet only in the last row.
        let (nx, ny) = (3, 3);
        let mut center = vec![2.0; 9];
        let north = [-1.0, 0.0, -1.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0];
        let east = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -1.0, 0.0];
        center[0] = 1.0;
        center[2] = 1.0;
        let c = components(nx, ny, &center, &east, &north);
        assert_eq!((c.count, c.singular()), (1, 1));
        assert_eq!(c.size[0], 7);
    }
}
