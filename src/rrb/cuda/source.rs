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
/// (`Source::inspect_matrix`), the buffers instead hold rows of the arrays of A.
pub struct Staging {
    pub memory: Memory,
    /// Addresses of the buffers of b and x.
    pub arrays: [Address; 2],
}

impl Staging {
    /// Allocates the buffers.
    pub fn new(stream: &Stream, division: &Division, g: &Geometry) -> Result<Self> {
        let plane_layout = PlaneLayout::natural(g);
        let assign_addresses = |base| {
            let mut memory_layout = MemoryLayout::new(base);
            let arrays = [
                memory_layout.reserve_planes(&plane_layout, 1, 8)?,
                memory_layout.reserve_planes(&plane_layout, 1, 8)?,
            ];
            // The buffer must also hold one row of each of the five arrays of a matrix.
            memory_layout.used_bytes = memory_layout.used_bytes.max(40 * g.nx as usize);
            Ok((memory_layout, arrays))
        };
        let memory = division.allocate(stream, &assign_addresses(0)?.0, "arrays that are on the host")?;
        let arrays = assign_addresses(memory.address)?.1;
        Ok(Self { memory, arrays })
    }
}

/// Properties that determine the storage of A. These properties are known before the preconditioner is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceShape {
    pub grid: levels::Grid,
    pub compute_block: usize,
    pub nine_points: bool,
    pub division: Division,
}

impl SourceShape {
    pub fn new(a: &StencilView, compute_block: usize, division: Division) -> Self {
        Self { grid: a.grid, compute_block, nine_points: a.corners.is_some(), division }
    }
}

/// The matrix A and its row sums, stored by colour.
pub struct Source {
    pub shape: SourceShape,
    pub layout: Layout,
    pub g: Geometry,
    pub m: Matrix,
    /// Address of the row sums.
    pub row_sums: Address,
    /// Address of the flags of all patches. A patch is a part of a tile, and a tile is the rectangle of indices (I, J)
    /// that a thread block processes at a time. The flag is 1 if, for each colour, all rows of the patch are equal
    /// (kernels/rrb/uniform.cuh).
    pub equal_rows: Address,
    /// Address of the flags of all tiles. The flag is 1 if, for each colour, all rows in the tile and in the patches
    /// around the tile are equal.
    pub uniform: Address,
    /// Whether `row_sums` still contains the row sums of A, in which rounding errors have been replaced by 0.
    /// Eliminations overwrite this array.
    pub has_row_sums: bool,
    pub findings_address: Address,
    pub findings: Pinned<Findings>,
    pub memory: Memory,
}

impl Source {
    /// Allocates the memory of a matrix.
    pub fn new(stream: &Stream, shape: SourceShape) -> Result<Self> {
        let layout = Layout::new(shape.grid, shape.compute_block);
        let (g, plane_layout) = shape.division.geometry(&layout);
        let (tiles, patches) = g.tiles_and_patches();
        let assign_addresses = |base| {
            let mut memory_layout = MemoryLayout::new(base);
            let m = Matrix {
                center: memory_layout.reserve_planes(&plane_layout, 4, 8)?,
                axis_couplings: memory_layout.reserve_planes(&plane_layout, 8, 8)?,
                red_couplings: if shape.nine_points { memory_layout.reserve_planes(&plane_layout, 4, 8)? } else { 0 },
                black_couplings: if shape.nine_points {
                    memory_layout.reserve_planes(&plane_layout, 4, 8)?
                } else {
                    0
                },
            };
            let (row_sums, findings) = (
                memory_layout.reserve_planes(&plane_layout, 4, 8)?,
                memory_layout.reserve_doubles(size_of::<Findings>() / 8),
            );
            Ok((
                m,
                row_sums,
                findings,
                memory_layout.reserve_bytes(tiles),
                memory_layout.reserve_bytes(patches),
                memory_layout,
            ))
        };
        let memory = shape.division.allocate(stream, &assign_addresses(0)?.5, "the matrix")?;
        let (m, row_sums, findings_address, uniform, equal_rows, _) = assign_addresses(memory.address)?;
        let findings = Pinned::new(stream.device(), Findings::NONE)?;
        Ok(Self {
            shape,
            layout,
            g,
            m,
            row_sums,
            equal_rows,
            uniform,
            has_row_sums: false,
            findings_address,
            findings,
            memory,
        })
    }
}
