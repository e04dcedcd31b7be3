//! Means over singular components on the device (docs/theory/rrb.md, singular systems). The host divides each component
//! into runs, consecutive nodes of one row and colour, at `factorize`. Kernels sum and shift the runs
//! (kernels/rrb/projection.cuh).

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, Geometry, ProjectionArgs, Run};
use crate::error::{Result, collected, push, zeroed};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::components::Components;

/// The nodes over which means are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All nodes.
    Whole,
    /// The nodes that CG works on.
    System,
}

/// The runs of some colours on the device.
struct Runs {
    arguments: ProjectionArgs,
    /// Owns the memory of the addresses in `arguments`.
    memory: Memory,
}

/// The projection P; empty if no component is singular.
#[derive(Default)]
pub struct Projection {
    components: usize,
    /// Runs of all colours, and of the colours that CG works on.
    sets: Option<[Runs; 2]>,
    /// Four values per component: sum and sum of magnitudes, mean, kept mean.
    means: Option<Memory>,
    /// Host copy of `means`.
    seen: Vec<f64>,
}

/// Purpose of the allocations, for error messages.
const RUNS: &str = "the runs of singular components";

/// Returns the runs of `colours`, row by row.
fn find(layout: &Layout, components: &Components, colours: &[Colour]) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for j in 0..layout.grid.ny {
        let (row, odd_row) = ((j + layout.shift_y) / 2, (j + layout.shift_y) % 2 == 1);
        let (even, odd) = if odd_row { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) };
        for (columns, component) in components.singular_runs(j) {
            let (low, high) = (columns.start + layout.shift_x, columns.end + layout.shift_x);
            for (colour, start, end) in [(even, low.div_ceil(2), high.div_ceil(2)), (odd, low / 2, high / 2)] {
                if start < end && colours.contains(&colour) {
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

impl Runs {
    /// Copies the runs to the device, with an index by component and the number of nodes per component.
    fn new(stream: &Stream, g: Geometry, runs: &[Run], components: usize, means: Address) -> Result<Self> {
        let mut start: Vec<u32> = zeroed(components + 1, RUNS)?;
        let mut nodes: Vec<f64> = zeroed(components, RUNS)?;
        for run in runs {
            start[run.component as usize + 1] += 1;
            nodes[run.component as usize] += f64::from(run.len);
        }
        for k in 0..components {
            start[k + 1] += start[k];
        }
        let mut next = collected(start.iter().copied(), RUNS)?;
        let mut sorted: Vec<u32> = zeroed(runs.len(), RUNS)?;
        for (k, run) in runs.iter().enumerate() {
            let place = &mut next[run.component as usize];
            sorted[*place as usize] = k as u32;
            *place += 1;
        }
        let sizes = [size_of_val(runs), 4 * sorted.len(), 4 * start.len(), 8 * nodes.len(), 16 * runs.len()];
        let mut offsets = [0; 6];
        for k in 0..5 {
            offsets[k + 1] = offsets[k] + sizes[k].next_multiple_of(256);
        }
        let memory = Memory::zeroed(stream.device(), stream, offsets[5], RUNS)?;
        let at = |k: usize| memory.address + offsets[k] as u64;
        stream.send(at(0), runs)?;
        stream.send(at(1), &sorted)?;
        stream.send(at(2), &start)?;
        stream.send(at(3), &nodes)?;
        stream.wait()?;
        let arguments = ProjectionArgs {
            g,
            runs: at(0),
            count: runs.len() as i32,
            by_component: at(1),
            component_start: at(2),
            nodes: at(3),
            sums: at(4),
            means,
            v: 0,
            restore: 0,
            center: 0,
        };
        Ok(Self { arguments, memory })
    }
}

impl Projection {
    /// Finds the runs and copies them to the device.
    pub fn new(stream: &Stream, layout: &Layout, g: Geometry, components: &Components, schur: bool) -> Result<Self> {
        let count = components.singular();
        if count == 0 {
            return Ok(Self::default());
        }
        let means = Memory::zeroed(stream.device(), stream, 32 * count, "means")?;
        let set = |colours: &[Colour]| {
            let runs = find(layout, components, colours)?;
            Runs::new(stream, g, &runs, count, means.address)
        };
        let sets = [set(&Colour::ALL)?, set(if schur { &Colour::ALL[2..] } else { &Colour::ALL })?];
        let seen = zeroed(4 * count, "means")?;
        Ok(Self { components: count, sets: Some(sets), means: Some(means), seen })
    }

    /// Returns whether no component is singular, so that P = I.
    pub fn is_empty(&self) -> bool {
        self.components == 0
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.sets.as_ref().map_or(0, |s| s[0].memory.bytes + s[1].memory.bytes)
            + self.means.as_ref().map_or(0, |m| m.bytes)
    }

    /// Returns the arguments of the kernels for the vector v; none if no component is singular.
    fn arguments(&self, nodes: Nodes, v: Address) -> Option<ProjectionArgs> {
        self.sets.as_ref().map(|s| ProjectionArgs { v, ..s[usize::from(nodes == Nodes::System)].arguments })
    }

    /// Computes the sums and means of each component.
    fn sums(&self, stream: &Stream, a: &ProjectionArgs, short: bool) -> Result<()> {
        if short {
            launch::run_sums_short(stream, a)?;
        } else {
            launch::run_sums(stream, a)?;
        }
        launch::component_means(stream, &ProjectionArgs { count: self.components as i32, ..*a })
    }

    /// Computes v = v - mean(v) per component; with `restore` it also adds the kept mean.
    pub fn shift(&self, stream: &Stream, nodes: Nodes, v: Address, restore: bool) -> Result<()> {
        let Some(a) = self.arguments(nodes, v) else { return Ok(()) };
        self.sums(stream, &a, false)?;
        launch::shift_runs(stream, &ProjectionArgs { restore: i32::from(restore), ..a })
    }

    /// Computes v = v - mean(v) on the nodes of CG. v is in f32 if `short`, else in f64.
    pub fn center(&self, stream: &Stream, v: Address, short: bool) -> Result<()> {
        let Some(a) = self.arguments(Nodes::System, v) else { return Ok(()) };
        self.sums(stream, &a, short)?;
        if short { launch::shift_runs_short(stream, &a) } else { launch::shift_runs(stream, &a) }
    }

    /// Stores the means of v for a later `shift` with `restore`.
    pub fn keep(&self, stream: &Stream, v: Address) -> Result<()> {
        let Some(a) = self.arguments(Nodes::Whole, v) else { return Ok(()) };
        self.sums(stream, &a, false)?;
        launch::keep_means(stream, &ProjectionArgs { count: self.components as i32, ..a })
    }

    /// Returns the component with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        let Some(a) = self.arguments(Nodes::Whole, v) else { return Ok((0, 0.0, 0.0)) };
        self.sums(stream, &a, false)?;
        let components = self.components;
        let values = self.see(stream)?;
        let ratio = |k: usize| values[4 * k].abs() / values[4 * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..components).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst, values[4 * worst], values[4 * worst + 1]))
    }

    /// Returns sum over components of mean(v)^2 sum_i 1 / center_i, over the nodes of CG. Overwrites the means, but not
    /// the kept means.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        let Some(a) = self.arguments(Nodes::System, v) else { return Ok(0.0) };
        self.sums(stream, &a, false)?;
        launch::constant_squares(stream, &ProjectionArgs { center, ..a })?;
        launch::component_means(stream, &ProjectionArgs { count: self.components as i32, ..a })?;
        Ok(self.see(stream)?.chunks(4).map(|means| means[0]).sum())
    }

    /// Waits and returns the means.
    fn see(&mut self, stream: &Stream) -> Result<&[f64]> {
        if let Some(means) = &self.means {
            stream.fetch(&mut self.seen, means.address)?;
            stream.wait()?;
        }
        Ok(&self.seen)
    }
}
