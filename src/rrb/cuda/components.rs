//! Connected components of a matrix in which some couplings between neighbours are zero, counted on the device
//! (kernels/rrb/components.cuh). The count is sufficient if no component is singular. Otherwise, the host determines
//! the components.

use super::source::Source;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, ComponentArgs, Findings};
use crate::error::Result;

impl Source {
    /// Counts the components of at least two nodes. Returns `None` if a component is singular, or if the grid is too
    /// large. `spare_planes` is the address of four planes that serve as workspace; this function leaves zeros in these
    /// planes. If `spare_planes` is 0, the function allocates a workspace.
    pub fn count_regular_components(&mut self, stream: &Stream, spare_planes: Address) -> Result<Option<usize>> {
        let label_count = 4 * self.g.plane as usize;
        // Node indices have 31 bits; the highest bit marks a root (kernels/common/forest.cuh).
        if label_count > 1 << 31 {
            return Ok(None);
        }
        let workspace = match spare_planes {
            0 => Some(Memory::zeroed(stream.device(), stream, 8 * label_count, "component labels")?),
            _ => None,
        };
        let parent = workspace.as_ref().map_or(spare_planes, |m| m.address);
        let arguments = ComponentArgs {
            // The labels extend over all rows, so a single device computes them.
            g: self.g.on_one_device(),
            m: self.m,
            row_sums: self.row_sums,
            parent,
            marks: parent + 4 * label_count as u64,
            findings: self.findings_address,
        };
        launch::tile_components(stream, &arguments)?;
        launch::join_components(stream, &arguments)?;
        launch::count_components(stream, &arguments)?;
        stream.fetch_prefix(&mut self.findings, self.findings_address, size_of::<Findings>())?;
        stream.fill(parent, 0, 8 * label_count)?;
        stream.wait()?;
        let Findings { components, regular_components, .. } = *self.findings;
        Ok((components == regular_components).then_some(components as usize))
    }
}
