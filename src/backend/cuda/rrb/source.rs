//! A as the device keeps it.

use crate::backend::cuda::driver::{Memory, Pinned, Stream};
use crate::backend::cuda::launch::{Address, Findings, Geometry, Matrix};
use crate::backend::cuda::plan::Plan;
use crate::error::Result;
use crate::grid::layout::Layout;
use crate::grid::levels;
use crate::grid::stencil::StencilView;

/// The layout as the kernels take it.
pub fn geometry(layout: &Layout) -> Geometry {
    Geometry {
        nx: layout.grid.nx as i32,
        ny: layout.grid.ny as i32,
        cx: layout.cx as i32,
        cy: layout.cy as i32,
        shift_x: layout.shift_x as i32,
        shift_y: layout.shift_y as i32,
        stride: layout.stride() as i32,
        block: layout.block as i32,
        plane: layout.len() as i64,
        uniform: 0,
    }
}

/// What A is kept as: decided before it is known what M will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceShape {
    pub grid: levels::Grid,
    pub block: usize,
    pub nine_points: bool,
}

impl SourceShape {
    pub fn new(a: &StencilView, block: usize) -> Self {
        Self { grid: a.grid, block, nine_points: a.corners.is_some() }
    }
}

/// A by colour, and its row sums.
pub struct Source {
    pub shape: SourceShape,
    pub layout: Layout,
    pub g: Geometry,
    pub m: Matrix,
    pub excess: Address,
    /// Of patches of the grid, and of tiles, whether rows are the same (kernels/rrb/uniform.cuh).
    pub same: Address,
    pub uniform: Address,
    /// They are those of A still.
    pub summed: bool,
    pub findings_at: Address,
    pub findings: Pinned<Findings>,
    pub memory: Memory,
}

impl Source {
    pub fn new(stream: &Stream, shape: SourceShape) -> Result<Self> {
        let layout = Layout::new(shape.grid, shape.block);
        let (plane, g) = (layout.len(), geometry(&layout));
        let (tiles, patches) = g.tiles_and_patches();
        let place = |base| {
            let mut plan = Plan { base, used: 0 };
            let m = Matrix {
                center: plan.take(4 * plane),
                straight: plan.take(8 * plane),
                red: if shape.nine_points { plan.take(4 * plane) } else { 0 },
                black: if shape.nine_points { plan.take(4 * plane) } else { 0 },
            };
            let (excess, findings) = (plan.take(4 * plane), plan.take(size_of::<Findings>() / 8));
            (m, excess, findings, plan.bytes(tiles), plan.bytes(patches), plan.used)
        };
        let device = stream.device();
        let memory = Memory::zeroed(device, stream, place(0).5, "the matrix")?;
        let (m, excess, findings_at, uniform, same, _) = place(memory.address);
        let findings = Pinned::new(device, Findings::NONE)?;
        Ok(Self { shape, layout, g, m, excess, same, uniform, summed: false, findings_at, findings, memory })
    }
}
