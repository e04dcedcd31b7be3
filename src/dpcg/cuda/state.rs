//! Data of a factorization on the device: M, E, and the vectors of a solve.

use super::aggregated::Aggregated;
use super::cell::CellMultigrid;
use super::deflation::Deflation;
use super::source::DeviceMatrix;
use super::survey::FactorizationInput;
use super::vertex::VertexMultigrid;
use crate::base::team::Team;
use crate::cuda::arrays::{Padded, Pool, lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch::{Address, MOST_CELL_BLOCKS, MOST_FUSED_ORDER, Scalars, Sum};
use crate::cuda::looped::{Recorded, SharedScalars};
use crate::cuda::vectors::{Scale, sum_to};
use crate::dpcg::backend::{Preconditioner, Setup};
use crate::error::{Error, Result};
use crate::krylov::vectors::VectorId;
use crate::stencil::cells::Cells;
use std::time::Instant;

/// The multigrid preconditioner in use.
pub enum Multigrid {
    Vertex(Box<VertexMultigrid>),
    Cell(CellMultigrid),
    Aggregated(Aggregated),
}

/// Which steps of an iteration are fused into passes over memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FusedSteps {
    /// No steps: each step is a separate kernel.
    Unfused,
    /// All steps, with a Neumann series of this order.
    Series(usize),
    /// All steps except z = M^-1 r.
    AroundCycle,
}

impl FusedSteps {
    /// Returns which steps are fused with these options.
    pub fn of(setup: &Setup) -> Self {
        match setup.preconditioner {
            Preconditioner::Jacobi if setup.fused => Self::Series(0),
            Preconditioner::Neumann { order } if setup.fused && order <= MOST_FUSED_ORDER => Self::Series(order),
            Preconditioner::Multigrid { .. } | Preconditioner::Aggregation { .. } if setup.fused => Self::AroundCycle,
            _ => Self::Unfused,
        }
    }
}

/// Vectors of a solve, partial sums and scalars. The next factorization uses the same addresses, unless it needs
/// additional vectors.
pub struct Vectors {
    pub extents: Cells,
    arrays: Padded,
    memory: Memory,
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    /// A p; with deflation and unfused steps, P A p. Also workspace of `precondition` and of `back_substitute`.
    pub q: Address,
    pub z: Address,
    /// Workspace of a Neumann series, and the second r of fused passes; 0 if there is none.
    pub s: Address,
    /// The second p of fused passes; 0 if there is none.
    pub other_p: Address,
    /// Whether `other_p` contains the current p after a loop.
    pub is_p_in_other: bool,
    /// Partial sums, one per thread block.
    partial: Address,
    /// Partial sums of <r, r>, if a kernel also computes another sum.
    pub norm_partial: Address,
    pub scale: Scale,
    pub scalars: SharedScalars,
}

impl Vectors {
    /// Returns the address of a vector of PCG.
    pub fn address(&self, v: VectorId) -> Address {
        let p = if self.is_p_in_other { self.other_p } else { self.p };
        [self.x, self.b, self.r, p, self.q, self.z][v.0]
    }

    /// Allocates the vectors. With `series`, also allocates the workspace of a Neumann series. With `fused`, also
    /// allocates the second p of fused passes.
    pub fn new(stream: &Stream, extents: Cells, series: bool, fused: bool) -> Result<Self> {
        let count = 6 + usize::from(series) + usize::from(fused);
        let arrays =
            Padded::zeroed(stream, count, extents.count(), extents.plane(), size_of::<f64>(), "the solver's vectors")?;
        let sums = 8 * MOST_CELL_BLOCKS as usize;
        let (memory, [partial, norm_partial, largest, scales, scalars_at]) =
            lists(stream, [sums, sums, sums, 16, size_of::<Scalars>()], "sums")?;
        let scalars = SharedScalars::new(stream, scalars_at, None)?;
        let [b, x, r, p, q, z] = [0, 1, 2, 3, 4, 5].map(|k| arrays.at(k));
        let s = if series { arrays.at(6) } else { 0 };
        let other_p = if fused { arrays.at(count - 1) } else { 0 };
        let scale = Scale { partial: largest, scales, scalars: scalars_at };
        let is_p_in_other = false;
        Ok(Self {
            extents,
            arrays,
            memory,
            b,
            x,
            r,
            p,
            q,
            z,
            s,
            other_p,
            is_p_in_other,
            partial,
            norm_partial,
            scale,
            scalars,
        })
    }

    /// Returns a sum whose result is stored in the scalar at offset `to`.
    pub fn sum_to(&self, to: usize) -> Sum {
        sum_to(self.partial, self.scalars.at, to)
    }

    /// Waits, and returns the power of two that scales the largest magnitude of a vector to the interval [1, 2).
    fn scale_of(&self, stream: &Stream, v: Address) -> Result<f64> {
        self.scale.find(stream, v, self.extents.count() as i64)?;
        let mut scale = [0.0];
        stream.fetch(&mut scale, self.scale.scales)?;
        stream.wait()?;
        Ok(scale[0])
    }

    /// Returns the allocated device memory in bytes.
    fn bytes(&self) -> usize {
        self.arrays.bytes() + self.memory.bytes
    }
}

/// A factorization.
pub struct State {
    pub vectors: Vectors,
    pub preconditioner: Preconditioner,
    pub fused_steps: FusedSteps,
    pub multigrid: Option<Multigrid>,
    /// Cells of the singular components, grouped by component; `None` if no component is singular.
    pub singular: Option<Labelled>,
    pub deflation: Option<Deflation>,
    /// Memory that the next factorization reuses.
    pool: Pool,
    /// The recorded loop, if the device executes whole iterations.
    pub recorded: Option<Recorded>,
    /// Time that the last run spent on solves with E, in seconds.
    pub seconds_coarse: f64,
    /// Time of the setup of E, in seconds.
    pub seconds_of_e: f64,
}

impl State {
    /// Computes the factorization. `previous` is a factorization for the same extents, whose memory is reused.
    pub fn new(stream: &Stream, input: &FactorizationInput, team: &mut Team, previous: Option<Self>) -> Result<Self> {
        let preconditioner = input.setup.preconditioner;
        let before = previous.map(Self::into_parts).transpose()?;
        let (vectors, mut pool, recorded, aggregated) = match before {
            Some((vectors, pool, recorded, aggregated)) => (Some(vectors), pool, recorded, aggregated),
            None => (None, Pool::default(), None, None),
        };
        let series = matches!(preconditioner, Preconditioner::Neumann { order } if order > 0);
        let fused_steps = FusedSteps::of(input.setup);
        let fused = fused_steps != FusedSteps::Unfused;
        let enough = |v: &Vectors| (v.s != 0 || !series) && (v.other_p != 0 || !fused);
        let vectors = match vectors.filter(enough) {
            Some(vectors) => vectors,
            None => Vectors::new(stream, input.source.extents, series, fused)?,
        };
        pool.set_workspace(vectors.arrays.range());
        let scale = vectors.scale_of(stream, input.source.m.center)?;
        let singular = input.surveyor.components.singular_cells(&mut pool, stream)?;
        let started = Instant::now();
        let deflation = match input.regions {
            Some(regions) => Some(Deflation::new(&mut pool, stream, input, regions, (singular.as_ref(), scale), team)?),
            None => None,
        };
        let seconds_of_e = started.elapsed().as_secs_f64();
        Ok(Self {
            preconditioner,
            fused_steps,
            multigrid: multigrid(&mut pool, stream, input, (&vectors, scale), aggregated)?,
            singular,
            deflation,
            vectors,
            pool: pool.next(stream)?,
            recorded,
            seconds_coarse: 0.0,
            seconds_of_e,
        })
    }

    /// Returns the parts that the next factorization reuses: the vectors, the memory of all other data, the loop, and
    /// the aggregates.
    fn into_parts(self) -> Result<(Vectors, Pool, Option<Recorded>, Option<Aggregated>)> {
        let (mut pool, mut aggregated) = (self.pool, None);
        if let Some(singular) = self.singular {
            singular.release(&mut pool)?;
        }
        if let Some(deflation) = self.deflation {
            deflation.release(&mut pool)?;
        }
        match self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.release(&mut pool)?,
            Some(Multigrid::Cell(cell)) => cell.release(&mut pool)?,
            Some(Multigrid::Aggregated(before)) => aggregated = Some(before),
            None => {}
        }
        Ok((self.vectors, pool, self.recorded, aggregated))
    }

    /// Sets all vectors and the values around them to zero after an overflow. Couplings that leave the box are zero,
    /// and kernels multiply them by the values there, but 0 * inf would be NaN.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.vectors.arrays.clear(stream)?;
        match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.clear(stream),
            Some(Multigrid::Cell(cell)) => cell.clear(stream),
            // The vectors of aggregation are recomputed from r.
            Some(Multigrid::Aggregated(_)) | None => Ok(()),
        }
    }

    /// Computes z = M^-1 r by a multigrid cycle. Returns whether the kernels also compute <r, z>.
    pub fn cycle(&self, stream: &Stream, source: &DeviceMatrix, sum: Sum) -> Result<bool> {
        let Vectors { r, z, scale, .. } = &self.vectors;
        match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.apply(stream, scale, sum).map(|()| true),
            Some(Multigrid::Cell(cell)) => cell.apply(stream, source, scale, *r, *z).map(|()| false),
            Some(Multigrid::Aggregated(cycle)) => cycle.apply(stream, scale, (*r, *z), sum).map(|()| true),
            None => Err(Error::Internal("there is no multigrid".to_owned())),
        }
    }

    /// Returns the allocated device memory in bytes.
    pub fn device_bytes(&self) -> usize {
        let multigrid = match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.bytes(),
            Some(Multigrid::Cell(cell)) => cell.bytes(),
            Some(Multigrid::Aggregated(cycle)) => cycle.bytes(),
            None => 0,
        };
        multigrid
            + self.pool.free_bytes()
            + self.vectors.bytes()
            + self.singular.as_ref().map_or(0, Labelled::bytes)
            + self.deflation.as_ref().map_or(0, Deflation::device_bytes)
    }
}

/// Computes the multigrid preconditioner; returns `None` for other preconditioners.
fn multigrid(
    pool: &mut Pool,
    stream: &Stream,
    input: &FactorizationInput,
    (vectors, scale): (&Vectors, f64),
    aggregated: Option<Aggregated>,
) -> Result<Option<Multigrid>> {
    let (source, scalars, own) = (input.source, vectors.scalars.at, [vectors.r, vectors.q, vectors.z]);
    Ok(Some(match input.setup.preconditioner {
        Preconditioner::Aggregation { passes, single, zero_row_sum } => {
            Multigrid::Aggregated(Aggregated::new(stream, source, (scale, zero_row_sum), (passes, single), aggregated)?)
        }
        Preconditioner::Multigrid { vertex: false, sweeps, single, coarsest } => {
            Multigrid::Cell(CellMultigrid::new(pool, stream, source, (scalars, scale), single, (sweeps, coarsest))?)
        }
        Preconditioner::Multigrid { sweeps, single: true, .. } => {
            Multigrid::Vertex(VertexMultigrid::new::<f32>(pool, stream, source, scalars, scale, sweeps, own)?)
        }
        Preconditioner::Multigrid { sweeps, .. } => {
            Multigrid::Vertex(VertexMultigrid::new::<f64>(pool, stream, source, scalars, scale, sweeps, own)?)
        }
        _ => return Ok(None),
    }))
}
