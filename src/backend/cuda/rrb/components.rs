//! Components of a matrix with coasts, as far as one without singular components needs them
//! (kernels/rrb/components.cuh).

use super::source::Source;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, ComponentArgs, Findings};
use crate::error::Result;

impl Source {
    /// Components of two nodes or more, if none of them is singular. `spare`: memory of four planes that hold nothing
    /// now, and hold zeros afterwards; 0: there is none.
    pub fn count_regular(&mut self, stream: &Stream, spare: Address) -> Result<Option<usize>> {
        let values = 4 * self.g.plane as usize;
        // Nodes are numbered with 32 bits.
        if u32::try_from(values).is_err() {
            return Ok(None);
        }
        let own = match spare {
            0 => Some(Memory::zeroed(stream.device(), stream, 8 * values, "component labels")?),
            _ => None,
        };
        let parent = own.as_ref().map_or(spare, |m| m.address);
        let arguments = ComponentArgs {
            // Labels go from row to row: one device does it.
            g: self.g.whole(),
            m: self.m,
            excess: self.excess,
            parent,
            marks: parent + 4 * values as u64,
            findings: self.findings_at,
        };
        launch::tile_components(stream, &arguments)?;
        launch::join_components(stream, &arguments)?;
        launch::count_components(stream, &arguments)?;
        stream.fetch_start(&mut self.findings, self.findings_at, size_of::<Findings>())?;
        stream.fill(parent, 0, 8 * values)?;
        stream.wait()?;
        let Findings { components, regular_components, .. } = *self.findings;
        Ok((components == regular_components).then_some(components as usize))
    }
}
