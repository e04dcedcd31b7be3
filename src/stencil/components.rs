//! Connected components of the matrix graph. A component is singular, with the constant vector as null space, if and
//! only if |row sum| <= tolerance * center in all its rows. The tolerance is `ZERO_ROW_SUM`, or `ASSERTED_ZERO_ROW_SUM`
//! if the caller asserts that all components are singular.
//!
//! Components are unions of runs (`runs.rs`). `inspection.rs` computes them.

use crate::base::isa::for_each_isa;
use crate::error::{Result, push, zeroed};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::runs::{COUPLED, Runs, WORD_BITS};
use std::ops::Range;

pub use crate::options::limits::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};

/// Components of at least two nodes. A single node without couplings, such as land in a model of an ocean, belongs to
/// no component.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// First node (i, j) of each singular component.
    pub first_node: Vec<(usize, usize)>,
    /// Number of nodes of each singular component.
    pub size: Vec<usize>,
    /// Number of all components, singular or not.
    pub count: usize,
    /// Whether the constants on singular components are projected out.
    is_projected: bool,
    /// Label of each run: 0 in regular components, q in singular component q = 1, 2, ...
    runs: Runs,
}

impl Components {
    /// Returns the number of singular components whose constants are projected out.
    pub fn projected_count(&self) -> usize {
        if self.is_projected { self.size.len() } else { 0 }
    }

    /// Returns the first node of a singular component if the constants are not projected out.
    pub fn first_unprojected_node(&self) -> Option<&(usize, usize)> {
        self.first_node.first().filter(|_| !self.is_projected)
    }

    /// Returns the memory use of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.runs.bytes() + 8 * self.size.capacity() + 16 * self.first_node.capacity()
    }

    /// Returns whether a pivot of zero at node (i, j) may be replaced if this node is eliminated last in its component.
    /// False only if the node is in a singular component and constants are not projected out.
    pub fn may_replace_zero_pivot(&self, nx: usize, i: usize, j: usize) -> bool {
        self.is_projected || self.singular_component_of(nx, i, j).is_none()
    }

    /// Returns the singular component of node (i, j), counted from 0. The cost is a binary search among the runs of the
    /// row.
    pub fn singular_component_of(&self, nx: usize, i: usize, j: usize) -> Option<usize> {
        assert!(i < nx, "a node of the grid");
        if self.size.is_empty() { None } else { self.runs.label(j, i).checked_sub(1) }
    }

    /// Returns the runs of row j that are in singular components, each as its columns and its component, from west to
    /// east.
    pub fn singular_runs(&self, j: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let labels = (!self.size.is_empty()).then(|| self.runs.labels(j));
        labels.into_iter().flatten().filter_map(|(columns, label)| Some((columns, label.checked_sub(1)?)))
    }

    /// Returns the labels of the nodes at which a zero pivot is an error: the nodes of singular components if the
    /// constants are not projected out. The label is q in singular component q = 1, 2, ..., and 0 at all other nodes.
    /// Returns `None` if there is no such node.
    pub fn labels_to_refuse(&self, grid: Grid) -> Result<Option<Vec<u32>>> {
        if self.is_projected || self.size.is_empty() {
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

    /// Removes all components, and returns the runs, whose memory is reused for the next matrix. The next call of
    /// `set_runs` sets new components.
    pub(super) fn take_runs(&mut self) -> Runs {
        self.first_node.clear();
        self.size.clear();
        self.count = 0;
        std::mem::take(&mut self.runs)
    }

    /// Sets the number of components of a matrix without singular components. In this case, the runs are not stored.
    pub(super) fn set_regular(&mut self, count: usize, projects_constants: bool) {
        self.first_node.clear();
        self.size.clear();
        self.count = count;
        self.is_projected = projects_constants;
    }

    /// Sets the components from the runs of the whole grid. Numbers the singular components in the order of their first
    /// nodes. `projects_constants`: whether the constants on singular components are projected out.
    pub(super) fn set_runs(&mut self, runs: Runs, projects_constants: bool) -> Result<()> {
        self.take_runs();
        self.is_projected = projects_constants;
        self.runs = runs;
        let (first_node, size) = (&mut self.first_node, &mut self.size);
        let (count, _) = self.runs.label_components(
            |flags| flags == COUPLED,
            |label, j, columns| {
                if label > size.len() {
                    push(first_node, (columns.start, j), "singular components")?;
                    push(size, 0, "singular components")?;
                }
                size[label - 1] += columns.len();
                Ok(())
            },
        )?;
        self.count = count;
        Ok(())
    }
}

for_each_isa! {
    /// Returns a word of bits. Bit i is set if value number `first_value` + i is zero or does not exist.
    fn zero_bits(values: &[f64], first_value: usize) -> u64 {
        let word_values = &values[first_value.min(values.len())..values.len().min(first_value + WORD_BITS)];
        let mut nonzero_bits = 0;
        for (k, value) in word_values.iter().enumerate() {
            nonzero_bits |= u64::from(value.to_bits() << 1 != 0) << k;
        }
        !nonzero_bits
    }
}

impl Runs {
    /// Appends the runs of row j of `a`. `is_one_run`: no coupling of this row to the east is zero, so the row is one
    /// run.
    pub(super) fn push_plane_row(&mut self, a: &StencilView, j: usize, is_one_run: bool) -> Result<()> {
        let (east, north) = (a.east_row(j), a.north_row(j));
        let south = if j > 0 { a.north_row(j - 1) } else { &[] };
        let uncoupled_bits = |word: usize| match a.corners {
            // With 9 points, a diagonal coupling may be the only coupling of a node.
            Some(_) => 0,
            None => zero_bits(north, word * WORD_BITS) & zero_bits(south, word * WORD_BITS),
        };
        let word_count = if is_one_run { 0 } else { a.grid.nx.div_ceil(WORD_BITS) };
        self.push_row(word_count, |word| zero_bits(east, word * WORD_BITS), uncoupled_bits)
    }

    /// Returns the pairs of runs that are joined by couplings between the rows j - 1 and j of `a`. Runs are numbered
    /// from 0 in each row.
    pub(super) fn coupled_run_pairs(a: &StencilView, j: usize) -> Result<Vec<(u32, u32)>> {
        let mut rows = Self::default();
        rows.clear(a.grid.nx)?;
        rows.push_plane_row(a, j - 1, false)?;
        rows.push_plane_row(a, j, false)?;
        let upper_start = rows.runs_of_row(1).start;
        let mut pairs = Vec::new();
        let mut status = Ok(());
        rows.for_each_upward_pair(a, j, 1, |_, k, l| {
            let pair = (k as u32, (l - upper_start) as u32);
            if status.is_ok() && pairs.last() != Some(&pair) {
                status = push(&mut pairs, pair, "joined runs of two ranks");
            }
        });
        status.map(|()| pairs)
    }

    /// Calls `join` for each pair of runs joined by a coupling between the rows j - 1 and j of `a`. Row j of `a` is row
    /// `upper_row` of `self`.
    fn for_each_upward_pair(
        &mut self,
        a: &StencilView,
        j: usize,
        upper_row: usize,
        mut join: impl FnMut(&mut Self, usize, usize),
    ) {
        // Each array of couplings, and the columns in row j - 1 and in row j that its first entry couples.
        let upward_arrays =
            [(a.north_row(j - 1), 0, 0), (a.northeast_row(j - 1), 0, 1), (a.northwest_row(j - 1), 1, 0)];
        for (couplings, lower_offset, upper_offset) in upward_arrays {
            let has_coupling = |range: Range<usize>| couplings[range].iter().any(|&coupling| coupling != 0.0);
            self.for_each_joined_pair(
                [upper_row - 1, upper_row],
                (lower_offset, upper_offset, couplings.len()),
                has_coupling,
                &mut join,
            );
        }
    }

    /// Unites those runs of the last two rows that are joined by couplings. These rows are the rows j - 1 and j of `a`.
    pub(super) fn unite_last_rows(&mut self, a: &StencilView, j: usize) {
        self.for_each_upward_pair(a, j, self.rows() - 1, Self::unite);
    }

    /// Appends the rows of `next_runs`, whose first row is row j of `a`. Unites the runs that are joined by couplings
    /// between the rows j - 1 and j.
    pub(super) fn append_rows(&mut self, next_runs: &Self, a: &StencilView, j: usize) -> Result<()> {
        let rows = self.rows();
        self.append(next_runs)?;
        if rows > 0 && next_runs.rows() > 0 {
            self.for_each_upward_pair(a, j, rows, Self::unite);
        }
        Ok(())
    }

    /// Appends the rows of `next_runs`, then unites the two runs of each pair in `run_pairs`. A pair consists of a run
    /// of the last row of `self` and a run of the first row of `next_runs`. Both are numbered from 0 in their row.
    pub(super) fn append_joined(&mut self, next_runs: &Self, run_pairs: &[(u32, u32)]) -> Result<()> {
        let rows = self.rows();
        let (lower_start, upper_row) = (if rows > 0 { self.runs_of_row(rows - 1).start } else { 0 }, rows);
        self.append(next_runs)?;
        for &(k, l) in run_pairs {
            let upper_start = self.runs_of_row(upper_row).start;
            self.unite(lower_start + k as usize, upper_start + l as usize);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::inspection::Inspection;
    use crate::stencil::inspection::tests::{OPTIONS, inspect};
    use crate::stencil::levels::Grid;
    use crate::stencil::matrix::GridArray;

    fn components(nx: usize, ny: usize, center: &[f64], east: &[f64], north: &[f64]) -> Components {
        let grid = Grid { nx, ny };
        let v = |name, a| GridArray::new(name, a, grid, nx);
        let a = StencilView {
            grid,
            center: v("center", center),
            east: v("east", east),
            north: v("north", north),
            corners: None,
        };
        let mut inspection = Inspection::default();
        inspect(&mut inspection, &a, 1, &OPTIONS).unwrap();
        inspection.components
    }

    #[test]
    fn only_basin_without_row_sums_is_singular() {
        // x-x . x-x: the left pair is singular, the right pair has a positive row sum, and the node in the middle is
        // land.
        let c = components(5, 1, &[1., 1., 3., 1., 1.5], &[-1., 0., 0., -1., f64::NAN], &[f64::NAN; 5]);
        assert_eq!((c.count, c.projected_count()), (2, 1));
        let labels: Vec<Option<usize>> = (0..5).map(|i| c.singular_component_of(5, i, 0)).collect();
        assert_eq!(labels, [Some(0), Some(0), None, None, None]);
        assert_eq!(c.singular_runs(0).collect::<Vec<_>>(), [(0..2, 0)]);
        assert_eq!((c.first_node[0], c.size[0]), ((0, 0), 2));
    }

    #[test]
    fn nonzero_row_sums_make_component_regular() {
        let c = components(2, 2, &[4.0; 4], &[-1.0; 4], &[-1.0; 4]);
        assert_eq!((c.count, c.projected_count()), (1, 0));
        assert_eq!(c.singular_runs(0).count(), 0);
        assert_eq!(c.singular_component_of(2, 1, 1), None);
    }

    #[test]
    fn u_shaped_couplings_form_one_component() {
        // Couplings form a U: the two arms meet only in the last row.
        let (nx, ny) = (3, 3);
        let mut center = vec![2.0; 9];
        let north = [-1.0, 0.0, -1.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0];
        let east = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -1.0, 0.0];
        center[0] = 1.0;
        center[2] = 1.0;
        let c = components(nx, ny, &center, &east, &north);
        assert_eq!((c.count, c.projected_count()), (1, 1));
        assert_eq!(c.size[0], 7);
    }
}
