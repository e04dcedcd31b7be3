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
    whole: Option<Labelled>,
    /// The black ones of these nodes, if CG runs on black nodes.
    black: Option<Labelled>,
}

/// Largest number of nodes of a run, for which one warp computes the sum.
const LONGEST_RUN: usize = 512;

/// Purpose of the allocations, for error messages.
const RUNS: &str = "the runs of singular components";

/// Returns the runs of singular components, row by row. The divisions of a row do not depend on the geometry, which
/// determines the index of the first node of a run.
fn find(layout: &Layout, g: &Geometry, components: &Components) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for j in 0..layout.grid.ny {
        let (row, odd_row) = ((j + layout.shift_y) / 2, (j + layout.shift_y) % 2 == 1);
        let (even, odd) = if odd_row { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) };
        for (columns, component) in components.singular_runs(j) {
            let (low, high) = (columns.start + layout.shift_x, columns.end + layout.shift_x);
            for (colour, start, end) in [(even, low.div_ceil(2), high.div_ceil(2)), (odd, low / 2, high / 2)] {
                let first_of_row =
                    colour as i64 * g.plane + (row as i64 + 1) * i64::from(g.stride) + i64::from(g.block);
                for start in (start..end).step_by(LONGEST_RUN) {
                    let len = (end - start).min(LONGEST_RUN);
                    let first = first_of_row + start as i64;
                    push(&mut runs, Run { first, len: len as u32, label: component as u32 }, RUNS)?;
                }
            }
        }
    }
    Ok(runs)
}

impl Projection {
    /// Finds the runs of nodes of all colours and, if CG runs on S1 (`schur`), those of the black colours.
    pub fn new(stream: &Stream, layout: &Layout, g: Geometry, components: &Components, schur: bool) -> Result<Self> {
        let count = components.singular();
        if count == 0 {
            return Ok(Self::default());
        }
        let runs = find(layout, &g, components)?;
        let whole = Some(Labelled::of_runs(stream, &runs, count)?);
        if !schur {
            return Ok(Self { whole, black: None });
        }
        let black = collected(runs.into_iter().filter(|run| run.first >= 2 * g.plane), RUNS)?;
        Ok(Self { whole, black: Some(Labelled::of_runs(stream, &black, count)?) })
    }

    /// Returns whether no component is singular, so that P = I.
    pub fn is_empty(&self) -> bool {
        self.whole.is_none()
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.whole.iter().chain(&self.black).map(Labelled::bytes).sum()
    }

    /// Computes v = v - mean(v) on each singular component. With `restore`, also adds the mean that `store_means` has
    /// stored.
    pub fn shift(&self, stream: &Stream, v: Address, restore: bool) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |whole| whole.shift(stream, v, restore))
    }

    /// Computes v = v - mean(v) on each singular component, restricted to the nodes on which CG runs. v is in f32 if
    /// `short`, else in f64.
    pub fn center(&self, stream: &Stream, v: Address, short: bool) -> Result<()> {
        self.black.as_ref().or(self.whole.as_ref()).map_or(Ok(()), |system| system.center(stream, v, short))
    }

    /// Stores the means of v for a later `shift` with `restore`.
    pub fn store_means(&self, stream: &Stream, v: Address) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |whole| whole.store_means(stream, v))
    }

    /// Returns the component with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        self.whole.as_mut().map_or(Ok((0, 0.0, 0.0)), |whole| whole.worst(stream, v))
    }

    /// Returns the sum of mean(v)^2 sum_i 1 / center_i over all singular components, where i are the nodes of the
    /// component on which CG works. Overwrites the means.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        let system = self.black.as_mut().or(self.whole.as_mut());
        system.map_or(Ok(0.0), |system| system.constant_square(stream, v, center))
    }
}
