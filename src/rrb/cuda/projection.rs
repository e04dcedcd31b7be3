//! Means over singular components on the device (docs/theory/rrb.md, singular systems). At `factorize`, the host
//! divides each component into runs. A run consists of consecutive nodes of one row and colour. The device labels the
//! nodes of the runs, and lists them by label (kernels/rrb/projection.cuh, kernels/common/labelled.cuh).

use crate::cuda::arrays::{Pool, lists};
use crate::cuda::driver::Stream;
use crate::cuda::labelled::Labelled;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellLabels, Geometry, Run, RunArgs};
use crate::error::{Result, push};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// The projection P; empty if no component is singular.
#[derive(Default)]
pub struct Projection {
    /// The nodes of the singular components, labelled by component.
    whole: Option<Labelled>,
    /// The black ones of these nodes, if CG runs on black nodes, and the number of values in the planes before the
    /// black planes.
    black: Option<(Labelled, usize)>,
}

/// Purpose of the allocations, for error messages.
const RUNS: &str = "the runs of singular components";

/// Returns the runs of singular components, row by row.
fn find(layout: &Layout, components: &Components) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for j in 0..layout.grid.ny {
        let (row, odd_row) = ((j + layout.shift_y) / 2, (j + layout.shift_y) % 2 == 1);
        let (even, odd) = if odd_row { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) };
        for (columns, component) in components.singular_runs(j) {
            let (low, high) = (columns.start + layout.shift_x, columns.end + layout.shift_x);
            for (colour, start, end) in [(even, low.div_ceil(2), high.div_ceil(2)), (odd, low / 2, high / 2)] {
                if start < end {
                    let run = Run {
                        colour: colour as i32,
                        row: row as i32,
                        start: start as i32,
                        len: (end - start) as i32,
                        component: component as i32,
                    };
                    push(&mut runs, run, RUNS)?;
                }
            }
        }
    }
    Ok(runs)
}

impl Projection {
    /// Finds the runs, and lists the nodes of all colours and of the colours that CG works on.
    pub fn new(stream: &Stream, layout: &Layout, g: Geometry, components: &Components, schur: bool) -> Result<Self> {
        let count = components.singular();
        if count == 0 {
            return Ok(Self::default());
        }
        // A label whose bits are all 1 means that a value is in no singular component.
        let wide = count >= usize::from(u16::MAX);
        let (plane, width) = (g.plane as usize, if wide { 4 } else { 2 });
        let (memory, [of]) = lists(stream, [4 * plane * width], RUNS)?;
        stream.fill(of, 0xff, 4 * plane * width)?;
        let runs = find(layout, components)?;
        let (_memory_of_runs, [at]) = lists(stream, [size_of_val(&runs[..])], RUNS)?;
        stream.send(at, &runs)?;
        let arguments = RunArgs { g, runs: at, count: runs.len() as i32, wide: i32::from(wide), labels: of };
        launch::label_runs(stream, &arguments)?;
        let list = |first: usize| {
            let of = of + (first * width) as u64;
            let labels = CellLabels { of, wide: i32::from(wide), count: count as u32 };
            // Waits for the copies and kernels above.
            Labelled::new(&mut Pool::default(), stream, 4 * plane - first, labels)
        };
        let whole = Some(list(0)?.owning(memory));
        let black = if schur { Some((list(2 * plane)?, 2 * plane)) } else { None };
        Ok(Self { whole, black })
    }

    /// Returns whether no component is singular, so that P = I.
    pub fn is_empty(&self) -> bool {
        self.whole.is_none()
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.whole.iter().chain(self.black.iter().map(|(black, _)| black)).map(Labelled::bytes).sum()
    }

    /// Computes v = v - mean(v) on each singular component. With `restore`, also adds the mean that `keep` has stored.
    pub fn shift(&self, stream: &Stream, v: Address, restore: bool) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |whole| whole.shift(stream, v, restore))
    }

    /// Computes v = v - mean(v) on the nodes of CG. v is in f32 if `short`, else in f64.
    pub fn center(&self, stream: &Stream, v: Address, short: bool) -> Result<()> {
        match (&self.black, &self.whole) {
            (Some((black, first)), _) => {
                let size = if short { size_of::<f32>() } else { size_of::<f64>() };
                black.center(stream, v.wrapping_add((first * size) as u64), short)
            }
            (None, Some(whole)) => whole.center(stream, v, short),
            (None, None) => Ok(()),
        }
    }

    /// Stores the means of v for a later `shift` with `restore`.
    pub fn keep(&self, stream: &Stream, v: Address) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |whole| whole.keep(stream, v))
    }

    /// Returns the component with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        self.whole.as_mut().map_or(Ok((0, 0.0, 0.0)), |whole| whole.worst(stream, v))
    }

    /// Returns the sum of mean(v)^2 sum_i 1 / center_i over all singular components, where i are the nodes of the
    /// component on which CG works. Overwrites the means.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        match (&mut self.black, &mut self.whole) {
            (Some((black, first)), _) => {
                let before = (*first * size_of::<f64>()) as u64;
                black.constant_square(stream, v.wrapping_add(before), center + before)
            }
            (None, Some(whole)) => whole.constant_square(stream, v, center),
            (None, None) => Ok(0.0),
        }
    }
}
