//! Singular components on grids stored by colour (docs/theory/rrb.md, singular systems). The units of
//! `krylov::cpu::means`, for which partial sums are computed, are the rows J.

use super::ranks::Sums;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::error::{Result, collected, push};
use crate::krylov::cpu::means::{Labelled, Position, Singular, Vector};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::domain::Domain;
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// Position of consecutive values of one row and colour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    colour: Colour,
    row: u32,
    start: u32,
}

impl Position for Run {
    fn after(self, len: usize) -> Self {
        Self { start: self.start + len as u32, ..self }
    }
}

impl<R: Real + Number> Vector<Run> for FourColours<R> {
    type Value = R;

    unsafe fn values(&self, place: Run, len: usize) -> &[R] {
        // SAFETY: guaranteed by the caller.
        unsafe { &self[place.colour].row(place.row as usize, 0)[place.start as usize..][..len] }
    }

    unsafe fn values_mut(&self, place: Run, len: usize) -> &mut [R] {
        // SAFETY: guaranteed by the caller. Runs of different components in one row do not overlap.
        unsafe { &mut self[place.colour].row_mut(place.row as usize, 0)[place.start as usize..][..len] }
    }
}

/// Finds the runs of all singular components, both on all nodes and on the unknowns of CG. With `domain`, also plans
/// the exchange of their partial sums between ranks.
pub fn set(
    singular: &mut Singular<Run>,
    layout: &Layout,
    components: &Components,
    schur: bool,
    domain: Option<&Domain>,
) -> Result<()> {
    singular.set(layout.cy, components.singular(), schur, |row, reduced| {
        let colours = if reduced { &Colour::ALL[2..] } else { &Colour::ALL };
        colours.iter().flat_map(move |&colour| runs(layout, components, colour, row))
    })?;
    let Some(domain) = domain.filter(|_| !singular.is_empty()) else { return Ok(()) };
    singular.over(|labelled| partial_sums(labelled, domain))
}

/// Returns the runs of a row and colour with their components.
fn runs<'a>(
    layout: &'a Layout,
    components: &'a Components,
    colour: Colour,
    row: usize,
) -> impl Iterator<Item = (Run, usize, usize)> + 'a {
    let columns = layout.columns(colour);
    let present = layout.rows(colour).contains(&row) && !columns.is_empty();
    let (first, j) = if present { layout.node(colour, columns.start, row) } else { (0, 0) };
    // Index of the first column of this colour at node (i, j) or east of it. Every second node of a row has this
    // colour.
    let place = move |i: usize| columns.start + i.saturating_sub(first).div_ceil(2);
    let nodes = present.then(|| components.singular_runs(j)).into_iter().flatten();
    let runs = nodes.map(move |(nodes, component)| {
        let (start, end) = (place(nodes.start), place(nodes.end));
        (Run { colour, row: row as u32, start: start as u32 }, end - start, component)
    });
    runs.filter(|&(_, len, _)| len > 0)
}

/// Plans the exchange of the partial sums of all ranks.
fn partial_sums(labelled: &Labelled<Run>, domain: &Domain) -> Result<Sums> {
    let what = "the runs of singular components";
    let mut owned = Vec::new();
    for rank in 0..domain.strips.ranks() {
        push(&mut owned, collected([labelled.slots(&domain.strips.rows(0, rank))], what)?, what)?;
    }
    Sums::new(domain, owned, 2)
}
