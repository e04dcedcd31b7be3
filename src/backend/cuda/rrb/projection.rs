//! Means over singular components on the device: runs of consecutive nodes of one component and colour, found on the
//! host at `factorize`, summed and shifted by kernels/rrb/projection.cuh.

use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, Geometry, ProjectionArgs, Run};
use crate::error::{Result, collected, push, zeroed};
use crate::grid::components::Components;
use crate::grid::layout::{Colour, Layout};

/// Which nodes take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All.
    Whole,
    /// Those that CG works on.
    System,
}

/// The runs of some colours, on the device.
struct Runs {
    arguments: ProjectionArgs,
    /// Kept alive for `arguments`.
    memory: Memory,
}

/// Nothing where no component is singular.
#[derive(Default)]
pub struct Projection {
    components: usize,
    sets: Option<[Runs; 2]>,
    means: Option<Memory>,
    /// Room for the means on the host.
    seen: Vec<f64>,
}

/// For errors.
const RUNS: &str = "the runs of singular components";

/// The runs of `colours`, in order.
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
    /// Finds the runs.
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

    /// Nothing is projected.
    pub fn is_empty(&self) -> bool {
        self.components == 0
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.sets.as_ref().map_or(0, |s| s[0].memory.bytes + s[1].memory.bytes)
            + self.means.as_ref().map_or(0, |m| m.bytes)
    }

    fn arguments(&self, nodes: Nodes, v: Address) -> Option<ProjectionArgs> {
        self.sets.as_ref().map(|s| ProjectionArgs { v, ..s[usize::from(nodes == Nodes::System)].arguments })
    }

    fn sums(&self, stream: &Stream, a: &ProjectionArgs, short: bool) -> Result<()> {
        if short {
            launch::run_sums_short(stream, a)?;
        } else {
            launch::run_sums(stream, a)?;
        }
        launch::component_means(stream, &ProjectionArgs { count: self.components as i32, ..*a })
    }

    /// v = v - mean(v), plus the kept mean with `restore`.
    pub fn shift(&self, stream: &Stream, nodes: Nodes, v: Address, restore: bool) -> Result<()> {
        let Some(a) = self.arguments(nodes, v) else { return Ok(()) };
        self.sums(stream, &a, false)?;
        launch::shift_runs(stream, &ProjectionArgs { restore: i32::from(restore), ..a })
    }

    /// v = v - mean(v) on what CG works on, v in the type of sweeps.
    pub fn center(&self, stream: &Stream, v: Address, short: bool) -> Result<()> {
        let Some(a) = self.arguments(Nodes::System, v) else { return Ok(()) };
        self.sums(stream, &a, short)?;
        if short { launch::shift_runs_short(stream, &a) } else { launch::shift_runs(stream, &a) }
    }

    /// Remembers the means of v.
    pub fn keep(&self, stream: &Stream, v: Address) -> Result<()> {
        let Some(a) = self.arguments(Nodes::Whole, v) else { return Ok(()) };
        self.sums(stream, &a, false)?;
        launch::keep_means(stream, &ProjectionArgs { count: self.components as i32, ..a })
    }

    /// Component with the largest |sum v| / sum |v|, and both sums.
    pub fn worst(&mut self, stream: &Stream, v: Address) -> Result<(usize, f64, f64)> {
        let Some(a) = self.arguments(Nodes::Whole, v) else { return Ok((0, 0.0, 0.0)) };
        self.sums(stream, &a, false)?;
        let components = self.components;
        let values = self.see(stream)?;
        let ratio = |k: usize| values[4 * k].abs() / values[4 * k + 1].max(f64::MIN_POSITIVE);
        let worst = (0..components).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        Ok((worst, values[4 * worst], values[4 * worst + 1]))
    }

    /// Sum over components of mean(v)^2 sum_i 1 / center_i on what CG works on; the means are spent, but for the kept
    /// ones.
    pub fn constant_square(&mut self, stream: &Stream, v: Address, center: Address) -> Result<f64> {
        let Some(a) = self.arguments(Nodes::System, v) else { return Ok(0.0) };
        self.sums(stream, &a, false)?;
        launch::constant_squares(stream, &ProjectionArgs { center, ..a })?;
        launch::component_means(stream, &ProjectionArgs { count: self.components as i32, ..a })?;
        Ok(self.see(stream)?.chunks(4).map(|means| means[0]).sum())
    }

    /// Waits, and reads the means.
    fn see(&mut self, stream: &Stream) -> Result<&[f64]> {
        if let Some(means) = &self.means {
            stream.fetch(&mut self.seen, means.address)?;
            stream.wait()?;
        }
        Ok(&self.seen)
    }
}
