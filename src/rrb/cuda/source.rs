//! The matrix A on the device.

use super::division::Division;
use crate::cuda::driver::{Memory, Pinned, Stream};
use crate::cuda::launch::{Address, Findings, Geometry, Matrix};
use crate::cuda::layout::{MemoryLayout, PlaneLayout};
use crate::error::Result;
use crate::rrb::layout::Layout;
use crate::stencil::levels;
use crate::stencil::matrix::StencilView;

/// Device buffers for b and x, stored row by row, for a caller whose arrays are in host memory. While A is copied
/// (`Source::examine`), they hold rows of its arrays instead.
pub struct Staging {
    pub memory: Memory,
    /// Addresses of the buffers of b and x.
    pub arrays: [Address; 2],
}

impl Staging {
    /// Allocates the buffers.
    pub fn new(stream: &Stream, division: &Division, g: &Geometry) -> Result<Self> {
        let rows = PlaneLayout::natural(g);
        let assign = |base| {
            let mut layout = MemoryLayout::new(base);
            let arrays = [layout.planes(&rows, 1, 8)?, layout.planes(&rows, 1, 8)?];
            // The buffer must also hold one row of each of the five arrays of a matrix.
            layout.used = layout.used.max(40 * g.nx as usize);
            Ok((layout, arrays))
        };
        let memory = division.memory(stream, &assign(0)?.0, "arrays that are on the host")?;
        let arrays = assign(memory.address)?.1;
        Ok(Self { memory, arrays })
    }
}

/// Properties that determine the storage of A. They are known before the preconditioner is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceShape {
    pub grid: levels::Grid,
    pub block: usize,
    pub nine_points: bool,
    pub division: Division,
}

impl SourceShape {
    pub fn new(a: &StencilView, block: usize, division: Division) -> Self {
        Self { grid: a.grid, block, nine_points: a.corners.is_some(), division }
    }
}

/// The matrix A and its row sums, stored by colour.
pub struct Source {
    pub shape: SourceShape,
    pub layout: Layout,
    pub g: Geometry,
    pub m: Matrix,
    /// Address of the row sums.
    pub excess: Address,
    /// Address of the flags of all patches, which are parts of tiles: 1 if all rows of the patch are equal, separately
    /// for each colour (kernels/rrb/uniform.cuh).
    pub equal_rows: Address,
    /// Address of the flags of all tiles: 1 if all rows in the tile and in the patches around it are equal, separately
    /// for each colour.
    pub uniform: Address,
    /// Whether `excess` still contains the row sums of A (0 where they are rounding errors); eliminations overwrite
    /// them.
    pub summed: bool,
    pub findings_at: Address,
    pub findings: Pinned<Findings>,
    pub memory: Memory,
}

impl Source {
    /// Allocates the memory of a matrix.
    pub fn new(stream: &Stream, shape: SourceShape) -> Result<Self> {
        let layout = Layout::new(shape.grid, shape.block);
        let (g, rows) = shape.division.geometry(&layout);
        let (tiles, patches) = g.tiles_and_patches();
        let assign = |base| {
            let mut layout = MemoryLayout::new(base);
            let m = Matrix {
                center: layout.planes(&rows, 4, 8)?,
                straight: layout.planes(&rows, 8, 8)?,
                red: if shape.nine_points { layout.planes(&rows, 4, 8)? } else { 0 },
                black: if shape.nine_points { layout.planes(&rows, 4, 8)? } else { 0 },
            };
            let (excess, findings) = (layout.planes(&rows, 4, 8)?, layout.doubles(size_of::<Findings>() / 8));
            Ok((m, excess, findings, layout.bytes(tiles), layout.bytes(patches), layout))
        };
        let memory = shape.division.memory(stream, &assign(0)?.5, "the matrix")?;
        let (m, excess, findings_at, uniform, equal_rows, _) = assign(memory.address)?;
        let findings = Pinned::new(stream.device(), Findings::NONE)?;
        Ok(Self { shape, layout, g, m, excess, equal_rows, uniform, summed: false, findings_at, findings, memory })
    }
}
