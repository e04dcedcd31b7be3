//! Means over singular components on the device (docs/theory/rrb.md, singular systems). At `factorize`, the host
//! divides each component into runs of consecutive nodes of one row and colour (kernels/rrb/projection.cuh).

use crate::cuda::driver::Stream;
use crate::cuda::labelled::Labelled;
use crate::cuda::launch::{Address, Geometry, Run};
use crate::error::{Result, collected, push};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// The projection P; empty if no component is singular.
#[derive(Default)]
pub struct Projection {
    /// The nodes of the singular components, labelled by component.
    all_nodes: Option<Labelled>,
    /// The black nodes of the singular components, if CG runs on black nodes.
    black_nodes: Option<Labelled>,
}

/// Largest number of nodes of a run. One warp computes the sum over a run.
const MAX_RUN_NODES: usize = 512;

/// Purpose of the allocations, for error messages.
const ALLOCATION_NAME: &str = "the runs of singular components";

/// Returns the runs of singular components, row by row. The division of a row into runs does not depend on `g`. Only
/// `Run::first`, the index of the first node of a run, depends on `g`.
fn find_runs(layout: &Layout, g: &Geometry, components: &Components) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for j in 0..layout.grid.ny {
        let (row, is_odd_row) = ((j + layout.shift_y) / 2, (j + layout.shift_y) % 2 == 1);
        let (even_colour, odd_colour) = if is_odd_row { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) };
        for (columns, component) in components.singular_runs(j) {
            let (start_column, end_column) = (columns.start + layout.shift_x, columns.end + layout.shift_x);
            for (colour, start, end) in [
                (even_colour, start_column.div_ceil(2), end_column.div_ceil(2)),
                (odd_colour, start_column / 2, end_column / 2),
            ] {
                let row_start = colour as i64 * g.plane + (row as i64 + 1) * i64::from(g.stride) + i64::from(g.block);
                for start in (start..end).step_by(MAX_RUN_NODES) {
                    let len = (end - start).min(MAX_RUN_NODES);
                    let first = row_start + start as i64;
                    push(&mut runs, Run { first, len: len as u32, label: component as u32 }, ALLOCATION_NAME)?;
                }
            }
        }
    }
    Ok(runs)
}

impl Projection {
    /// Finds the runs of all colours and, if CG runs on S1 (`schur`), also the runs of the black colours alone.
    pub fn new(stream: &Stream, layout: &Layout, g: Geometry, components: &Components, schur: bool) -> Result<Self> {
        let component_count = components.projected_count();
        if component_count == 0 {
            return Ok(Self::default());
        }
        let runs = find_runs(layout, &g, components)?;
        let all_nodes = Some(Labelled::of_runs(stream, &runs, component_count)?);
        if !schur {
            return Ok(Self { all_nodes, black_nodes: None });
        }
        let black_runs = collected(runs.into_iter().filter(|run| run.first >= 2 * g.plane), ALLOCATION_NAME)?;
        Ok(Self { all_nodes, black_nodes: Some(Labelled::of_runs(stream, &black_runs, component_count)?) })
    }

    /// Returns whether no component is singular, so that P = I.
    pub fn is_empty(&self) -> bool {
        self.all_nodes.is_none()
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.all_nodes.iter().chain(&self.black_nodes).map(Labelled::bytes).sum()
    }

    /// Computes v = v - mean(v) on each singular component. With `restores_mean`, also adds the mean that `store_means`
    /// has stored.
    pub fn shift_means(&self, stream: &Stream, v: Address, restores_mean: bool) -> Result<()> {
        self.all_nodes.as_ref().map_or(Ok(()), |labelled| labelled.shift(stream, v, restores_mean))
    }

    /// Computes v = v - mean(v) on each singular component. If CG runs on S1, the component includes only its black
    /// nodes. v is in f32 if `is_single_precision`, else in f64.
    pub fn subtract_means(&self, stream: &Stream, v: Address, is_single_precision: bool) -> Result<()> {
        self.black_nodes
            .as_ref()
            .or(self.all_nodes.as_ref())
            .map_or(Ok(()), |labelled| labelled.subtract_means(stream, v, is_single_precision))
    }

    /// Stores the means of v for a later `shift_means` with `restores_mean`.
    pub fn store_means(&self, stream: &Stream, v: Address) -> Result<()> {
        self.all_nodes.as_ref().map_or(Ok(()), |labelled| labelled.store_means(stream, v))
    }

    /// Returns the component with the largest |sum v| / sum |v|, and both sums.
    pub fn worst_component(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        self.all_nodes.as_mut().map_or(Ok((0, 0.0, 0.0)), |labelled| labelled.find_worst_label(stream, v))
    }

    /// Returns the sum of mean(v)^2 sum_i 1 / center_i over all singular components, where i runs over those nodes of
    /// the component on which CG runs. Overwrites the means.
    pub fn weighted_square_of_means(&mut self, stream: &Stream, v: Address, centers: Address) -> Result<f64> {
        let labelled = self.black_nodes.as_mut().or(self.all_nodes.as_mut());
        labelled.map_or(Ok(0.0), |labelled| labelled.norm2_of_means(stream, v, centers))
    }
}
