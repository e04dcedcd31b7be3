//! What the `cuda` backend keeps on the device: A by colour, the levels on r1/r2/b1/b2 grids down to the remainder, the
//! vectors, and the scalars. The storage is that of `grid::layout`, as on the CPU; all levels are stored by colour here.

use super::driver::{Device, Loop, Memory, Pinned, Stream, Watch};
use super::launch::{
    self, Address, BAND, Findings, Geometry, Grid, Kept, MOST_BLOCKS, Matrix, Scalars, SchurArrays, remainder_blocks,
};
use super::projection::Projection;
use crate::backend::Setup;
use crate::backend::cycle::{Cycle, Kind};
use crate::backend::reference::levels::NaturalLevels;
use crate::error::Result;
use crate::grid::layout::Layout;
use crate::grid::levels::{self, Embedding, MOST_INVERTED};
use crate::grid::stencil::StencilView;
use std::sync::Arc;

/// Hands out addresses one after the other, from a base that is not known at first.
struct Plan {
    base: Address,
    used: usize,
}

impl Plan {
    /// Room for `count` values of eight bytes, on 256-byte lines.
    fn take(&mut self, count: usize) -> Address {
        let address = self.base + self.used as u64;
        self.used += (8 * count).next_multiple_of(256);
        address
    }
}

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
    pub findings_at: Address,
    pub findings: Pinned<Findings>,
    pub memory: Memory,
}

impl Source {
    pub fn new(stream: &Stream, shape: SourceShape) -> Result<Self> {
        let layout = Layout::new(shape.grid, shape.block);
        let plane = layout.len();
        let place = |base| {
            let mut plan = Plan { base, used: 0 };
            let m = Matrix {
                center: plan.take(4 * plane),
                straight: plan.take(8 * plane),
                red: if shape.nine_points { plan.take(4 * plane) } else { 0 },
                black: if shape.nine_points { plan.take(4 * plane) } else { 0 },
            };
            (m, plan.take(4 * plane), plan.take(size_of::<Findings>() / 8), plan.used)
        };
        let device = stream.device();
        let memory = Memory::zeroed(device, stream, place(0).3, "the matrix")?;
        let (m, excess, findings_at, _) = place(memory.address);
        let findings = Pinned::new(device, Findings::NONE)?;
        Ok(Self { shape, layout, g: geometry(&layout), m, excess, findings_at, findings, memory })
    }
}

/// What arrays are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub source: SourceShape,
    pub levels: usize,
    /// CG runs on S1.
    pub schur: bool,
    /// Fused stages, where S1 is regular.
    pub fusion: bool,
}

impl Shape {
    pub fn new(a: &StencilView, setup: &Setup) -> Self {
        Self {
            source: SourceShape::new(a, setup.block),
            levels: setup.levels,
            schur: setup.on_schur_complement(a),
            fusion: setup.fused,
        }
    }

    /// Grids stored by colour: all whose both levels are eliminated.
    pub fn grids(&self) -> usize {
        self.levels / 2
    }
}

/// One grid.
pub struct Level {
    pub layout: Layout,
    pub embedding: Embedding,
    pub k: Grid,
    pub kept: Kept,
    /// Where its blocks put their parts of rho.
    pub rho: Address,
}

/// Who solves the remainder.
pub enum Remainder {
    /// The device, by the explicit inverse of the exact factor.
    Inverse,
    /// The device, by the inverse of the last odd level and the exact factor, which the host computes.
    InverseFromHost(Box<NaturalLevels>),
    /// The host, outside of the loop.
    Host(Box<NaturalLevels>),
}

/// Addresses of the remainder's arrays.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemainderPlaces {
    pub natural: Address,
    pub r: Address,
    pub z: Address,
    pub couplings: Address,
    pub back: Address,
    pub inverse_pivot: Address,
    pub inverse: Address,
    pub rho: Address,
}

/// The rest: M, vectors, scalars.
pub struct Packed {
    pub shape: Shape,
    pub grids: Vec<Level>,
    pub first: SchurArrays,
    pub remainder: Remainder,
    pub rest: RemainderPlaces,
    pub rest_grid: levels::Grid,
    /// Four planes each; r, p and q (on S1: and z of the first grid) have black ones alone there.
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    pub q: Address,
    pub partial: Address,
    pub norm_partial: Address,
    pub rho_partial: Address,
    pub rho_count: usize,
    pub scalars_at: Address,
    pub scalars: Pinned<Scalars>,
    pub projection: Projection,
    /// The recorded loop, and whether it has the fused stages.
    pub recorded: Option<(Loop, bool)>,
    /// b and x of the caller, row by row, where they are on the host.
    pub staging: Option<Memory>,
    pub watch: Watch,
    pub memory: Memory,
    vectors: (Address, usize),
}

struct Places {
    grids: Vec<Level>,
    first: SchurArrays,
    rest: RemainderPlaces,
    vectors: [Address; 5],
    vector_bytes: usize,
    partial: Address,
    norm_partial: Address,
    rho_partial: Address,
    rho_count: usize,
    scalars: Address,
    used: usize,
}

fn place(base: Address, shape: &Shape, source: &Source, kind: &Remainder) -> Places {
    let mut plan = Plan { base, used: 0 };
    let plane = source.layout.len();
    // Vectors on black planes alone keep the numbers of their planes: their address is that of planes that are not there.
    let before = if shape.schur { (8 * 2 * plane) as u64 } else { 0 };
    let planes = if shape.schur { 2 } else { 4 };
    let start = plan.used;
    let (b, x) = (plan.take(4 * plane), plan.take(4 * plane));
    // r on S1: b1, b2, and the other b1, which the fused way down writes.
    let r = plan.take((planes + usize::from(shape.schur)) * plane);
    let (p, q) = (plan.take(planes * plane), plan.take(planes * plane));
    let vectors_end = plan.used;

    let mut grids: Vec<Level> = Vec::new();
    let (mut grid, mut embedding) = (source.shape.grid, Embedding::FINEST);
    let mut rho_places = Vec::new();
    let mut rho_count = 0;
    for number in 0..shape.grids() {
        let layout = Layout::new(grid, source.shape.block);
        let len = layout.len();
        let first = number == 0;
        let own = !(first && shape.schur);
        let k = Grid {
            g: geometry(&layout),
            h: plan.take(3 * len),
            s: if own { plan.take(8 * len) } else { source.m.straight },
            d: plan.take(4 * len),
            excess: if first { source.excess } else { plan.take(4 * len) },
            corners: if !first || source.shape.nine_points { plan.take(4 * len) } else { 0 },
            far: plan.take(4 * len),
            z: if own { plan.take(4 * len) } else { plan.take(2 * len).wrapping_sub(before) },
            y: if own { plan.take(len) } else { 0 },
        };
        rho_places.push(rho_count);
        rho_count += k.g.blocks() as usize;
        grids.push(Level { layout, embedding, k, kept: Kept::default(), rho: 0 });
        embedding = embedding.coarse(grid);
        grid = grid.coarse();
    }
    let n = grid.nodes();
    let band = if matches!(kind, Remainder::Inverse) { n } else { 0 };
    let mut rest = RemainderPlaces {
        natural: plan.take(5 * n),
        r: plan.take(n),
        z: plan.take(n),
        couplings: plan.take(band * BAND),
        back: plan.take(band * BAND),
        inverse_pivot: plan.take(band),
        inverse: plan.take(if matches!(kind, Remainder::Host(_)) { 0 } else { n * n }),
        rho: 0,
    };
    let rest_rho = rho_count;
    rho_count += remainder_blocks(n) as usize;
    let rho_partial = plan.take(rho_count);
    rest.rho = rho_partial + 8 * rest_rho as u64;
    for number in 0..grids.len() {
        let coarse = grids[number].layout.grid.coarse();
        let (nx, ny) = (coarse.nx as i32, coarse.ny as i32);
        let kept = match grids.get(number + 1) {
            Some(next) => Kept { g: next.k.g, z: next.k.z, from: 0, to: 0, nx, ny },
            None => Kept { g: Geometry::default(), z: 0, from: rest.z, to: rest.r, nx, ny },
        };
        grids[number].kept = kept;
        grids[number].rho = rho_partial + 8 * rho_places[number] as u64;
    }
    let (partial, norm_partial) = (plan.take(MOST_BLOCKS as usize), plan.take(MOST_BLOCKS as usize));
    let schur_center = if shape.schur { plan.take(2 * plane) } else { 0 };
    let scalars = plan.take(size_of::<Scalars>().div_ceil(8));
    let of = |v: Address| [v, v + 8 * plane as u64];
    let black = |v: Address| [v + 16 * plane as u64, v + 24 * plane as u64];
    let first = if shape.schur {
        SchurArrays {
            k: grids[0].k,
            center: schur_center,
            r_b1: [r, r + 16 * plane as u64],
            r_b2: r + 8 * plane as u64,
            x: black(x),
            p: of(p),
            q: of(q),
            b: black(b),
            scalars,
        }
    } else {
        SchurArrays::default()
    };
    let vectors = [b, x, r.wrapping_sub(before), p.wrapping_sub(before), q.wrapping_sub(before)];
    Places {
        grids,
        first,
        rest,
        vectors,
        vector_bytes: vectors_end - start,
        partial,
        norm_partial,
        rho_partial,
        rho_count,
        scalars,
        used: plan.used,
    }
}

impl Packed {
    pub fn new(stream: &Stream, shape: Shape, source: &Source) -> Result<Self> {
        let device = stream.device();
        let local = shape.levels - 2 * shape.grids();
        let (mut rest_grid, mut embedding) = (shape.source.grid, Embedding::FINEST);
        for _ in 0..shape.grids() {
            embedding = embedding.coarse(rest_grid);
            rest_grid = rest_grid.coarse();
        }
        // The remainder itself does not recurse.
        let plain = Cycle { kind: Some(Kind::V), spacing: 2, steps: 1 };
        let on_host =
            || NaturalLevels::new(rest_grid, embedding, 2 * shape.grids(), shape.levels, &plain, false).map(Box::new);
        let remainder = match (rest_grid.nodes() <= MOST_INVERTED, local) {
            (true, 0) => Remainder::Inverse,
            (true, _) => Remainder::InverseFromHost(on_host()?),
            (false, _) => Remainder::Host(on_host()?),
        };
        let bytes = place(0, &shape, source, &remainder).used;
        let memory = Memory::zeroed(device, stream, bytes, "the levels and vectors")?;
        let places = place(memory.address, &shape, source, &remainder);
        let [b, x, r, p, q] = places.vectors;
        let scalars = Pinned::new(device, Scalars::START)?;
        stream.send_start(places.scalars, &scalars, size_of::<Scalars>())?;
        stream.wait()?;
        Ok(Self {
            shape,
            grids: places.grids,
            first: places.first,
            remainder,
            rest: places.rest,
            rest_grid,
            b,
            x,
            r,
            p,
            q,
            partial: places.partial,
            norm_partial: places.norm_partial,
            rho_partial: places.rho_partial,
            rho_count: places.rho_count,
            scalars_at: places.scalars,
            scalars,
            projection: Projection::default(),
            recorded: None,
            staging: None,
            watch: Watch::new(device)?,
            vectors: (b, places.vector_bytes),
            memory,
        })
    }

    /// Stages are fused where CG runs on S1 and nothing is projected between them.
    pub fn fused(&self) -> bool {
        self.shape.fusion && self.shape.schur && self.projection.is_empty()
    }

    /// First plane, and planes, that CG works on.
    pub fn system(&self) -> (i32, i32) {
        if self.shape.schur { (2, 2) } else { (0, 4) }
    }

    /// Room for both arrays of a caller that has them on the host.
    pub fn stage(&mut self, stream: &Stream) -> Result<Address> {
        let bytes = super::staging_bytes(self.shape.source.grid);
        if self.staging.is_none() {
            self.staging = Some(Memory::zeroed(stream.device(), stream, bytes, "arrays that are on the host")?);
        }
        Ok(self.staging.as_ref().map_or(0, |s| s.address))
    }

    /// After a run that met numbers too large: padding too, where 0 * inf would stay for good.
    pub fn clear_vectors(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.vectors.0, 0, self.vectors.1)?;
        for level in &self.grids {
            let len = level.layout.len();
            let own = level.k.y != 0;
            let (z, planes) = if own { (level.k.z, 4) } else { (level.k.z.wrapping_add(16 * len as u64), 2) };
            stream.fill(z, 0, 8 * planes * len)?;
            if own {
                stream.fill(level.k.y, 0, 8 * len)?;
            }
        }
        Ok(())
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes + self.staging.as_ref().map_or(0, |s| s.bytes) + self.projection.bytes()
    }

    /// Bytes of host memory.
    pub fn host_bytes(&self) -> usize {
        match &self.remainder {
            Remainder::Inverse => 0,
            Remainder::InverseFromHost(natural) | Remainder::Host(natural) => natural.bytes(),
        }
    }

    /// Opens the device with all kernels.
    pub fn open(ordinal: i64) -> Result<Arc<Device>> {
        Device::open(ordinal, launch::NAMES)
    }
}
