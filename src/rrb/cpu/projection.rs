//! Singular components on grids stored by colour (docs/theory/rrb.md, singular systems). The module
//! `krylov::cpu::means` computes one partial sum per unit and component. Here, a unit is a row J.

use super::ranks::SumExchange;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::error::{Result, collected, push};
use crate::krylov::cpu::means::{LabelledRuns, Position, SingularComponents, Vector};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::domain::Domain;
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// Position of the first of several consecutive values in one row of one colour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPosition {
    colour: Colour,
    row: u32,
    start: u32,
}

impl Position for RunPosition {
    fn after(self, len: usize) -> Self {
        Self { start: self.start + len as u32, ..self }
    }
}

impl<R: Real + Number> Vector<RunPosition> for FourColours<R> {
    type Value = R;

    unsafe fn values(&self, run: RunPosition, len: usize) -> &[R] {
        // SAFETY: guaranteed by the caller.
        unsafe { &self[run.colour].row(run.row as usize, 0)[run.start as usize..][..len] }
    }

    unsafe fn values_mut(&self, run: RunPosition, len: usize) -> &mut [R] {
        // SAFETY: guaranteed by the caller. Runs of different components in one row do not overlap.
        unsafe { &mut self[run.colour].row_mut(run.row as usize, 0)[run.start as usize..][..len] }
    }
}

/// Finds the runs of all singular components, both on all nodes and on the unknowns of CG. A run consists of
/// consecutive values in one row of one colour that belong to the same component. With `domain`, also plans the
/// exchange of the components' partial sums between ranks.
pub fn set_runs(
    singular: &mut SingularComponents<RunPosition>,
    layout: &Layout,
    components: &Components,
    uses_schur: bool,
    domain: Option<&Domain>,
) -> Result<()> {
    singular.set_labels(layout.cy, components.projected_count(), uses_schur, |row, is_reduced| {
        let colours = if is_reduced { &Colour::ALL[2..] } else { &Colour::ALL };
        colours.iter().flat_map(move |&colour| runs_of_row(layout, components, colour, row))
    })?;
    let Some(domain) = domain.filter(|_| !singular.is_empty()) else { return Ok(()) };
    singular.with_other_ranks(|labelled| plan_partial_sums(labelled, domain))
}

/// Returns the runs in row J of a colour, each as (position, length, component).
fn runs_of_row<'a>(
    layout: &'a Layout,
    components: &'a Components,
    colour: Colour,
    row: usize,
) -> impl Iterator<Item = (RunPosition, usize, usize)> + 'a {
    let columns = layout.columns(colour);
    let is_present = layout.rows(colour).contains(&row) && !columns.is_empty();
    let (first_column, j) = if is_present { layout.node(colour, columns.start, row) } else { (0, 0) };
    // Returns the array index of the first node of this colour that is at column i or east of it. Every second node of
    // a row has this colour.
    let array_index = move |i: usize| columns.start + i.saturating_sub(first_column).div_ceil(2);
    let nodes = is_present.then(|| components.singular_runs(j)).into_iter().flatten();
    let runs = nodes.map(move |(nodes, component)| {
        let (start, end) = (array_index(nodes.start), array_index(nodes.end));
        (RunPosition { colour, row: row as u32, start: start as u32 }, end - start, component)
    });
    runs.filter(|&(_, len, _)| len > 0)
}

/// Plans the exchange of the components' partial sums between the ranks.
fn plan_partial_sums(labelled: &LabelledRuns<RunPosition>, domain: &Domain) -> Result<SumExchange> {
    let allocation_name = "the runs of singular components";
    let mut owned_ranges = Vec::new();
    for rank in 0..domain.strips.rank_count() {
        push(
            &mut owned_ranges,
            collected([labelled.slots(&domain.strips.rows(0, rank))], allocation_name)?,
            allocation_name,
        )?;
    }
    SumExchange::new(domain, owned_ranges, 2)
}
