//! Data of a factorization on the device: M, E, and the vectors of a solve.

use super::aggregated::Aggregated;
use super::cell::CellMultigrid;
use super::deflation::Deflation;
use super::source::DeviceMatrix;
use super::survey::FactorizationInput;
use super::vertex::VertexMultigrid;
use crate::base::team::Team;
use crate::cuda::arrays::{PaddedArrays, Pool, allocate_lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch::{Address, MAX_CELL_BLOCKS, MAX_FUSED_ORDER, Scalars, Sum};
use crate::cuda::looped::{RecordedLoops, SharedScalars};
use crate::cuda::vectors::{Scale, store_sum_in};
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
    /// All steps. The preconditioner is a Neumann series of this order; order 0 is Jacobi.
    Series(usize),
    /// All steps except z = M^-1 r.
    AroundCycle,
}

impl FusedSteps {
    /// Returns which steps are fused with this setup.
    pub fn of(setup: &Setup) -> Self {
        match setup.preconditioner {
            Preconditioner::Jacobi if setup.uses_fused_passes => Self::Series(0),
            Preconditioner::Neumann { order } if setup.uses_fused_passes && order <= MAX_FUSED_ORDER => {
                Self::Series(order)
            }
            Preconditioner::Multigrid { .. } | Preconditioner::Aggregation { .. } if setup.uses_fused_passes => {
                Self::AroundCycle
            }
            _ => Self::Unfused,
        }
    }
}

/// Vectors of a solve, partial sums and scalars. The addresses remain valid for the next factorization with the same
/// extents, unless that factorization needs additional vectors.
pub struct Vectors {
    pub extents: Cells,
    arrays: PaddedArrays,
    memory: Memory,
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    /// A p; with deflation and unfused steps, P A p. Also workspace of `precondition` and of `back_substitute`.
    pub q: Address,
    pub z: Address,
    /// Workspace of a Neumann series; 0 if there is no series. The fused pass `descend` uses this array as second array
    /// r: it reads r from one array and writes r to the other array.
    pub series_vector: Address,
    /// Second array p of the fused pass `ascend`, which reads p from one array and writes p to the other array; 0
    /// without fused passes.
    pub second_p: Address,
    /// Whether `second_p`, instead of `p`, contains the current p. A loop of PCG sets this field at its end.
    pub p_is_in_second: bool,
    /// Partial sums, one per thread block.
    partial_sums: Address,
    /// Partial sums of <r, r> in kernels that also compute another sum.
    pub norm_partial: Address,
    pub scale: Scale,
    pub scalars: SharedScalars,
}

impl Vectors {
    /// Returns the address of a vector of PCG.
    pub fn address(&self, v: VectorId) -> Address {
        let p = if self.p_is_in_second { self.second_p } else { self.p };
        [self.x, self.b, self.r, p, self.q, self.z][v.0]
    }

    /// Allocates the vectors. With `has_series`, also allocates the workspace of a Neumann series. With `has_second_p`,
    /// also allocates the second array p of the fused passes.
    pub fn new(stream: &Stream, extents: Cells, has_series: bool, has_second_p: bool) -> Result<Self> {
        let vector_count = 6 + usize::from(has_series) + usize::from(has_second_p);
        let arrays = PaddedArrays::zeroed(
            stream,
            vector_count,
            extents.count(),
            extents.plane(),
            size_of::<f64>(),
            "the solver's vectors",
        )?;
        let sum_bytes = 8 * MAX_CELL_BLOCKS as usize;
        let (memory, [partial_sums, norm_partial, largest_partial, scales, scalars_address]) =
            allocate_lists(stream, [sum_bytes, sum_bytes, sum_bytes, 16, size_of::<Scalars>()], "sums")?;
        let scalars = SharedScalars::new(stream, scalars_address, None)?;
        let [b, x, r, p, q, z] = [0, 1, 2, 3, 4, 5].map(|k| arrays.at(k));
        let series_vector = if has_series { arrays.at(6) } else { 0 };
        let second_p = if has_second_p { arrays.at(vector_count - 1) } else { 0 };
        let scale = Scale { partial: largest_partial, scales, scalars: scalars_address };
        let p_is_in_second = false;
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
            series_vector,
            second_p,
            p_is_in_second,
            partial_sums,
            norm_partial,
            scale,
            scalars,
        })
    }

    /// Returns the arguments of a reduction in a kernel. The kernel stores the result in the scalar at byte offset
    /// `scalar_offset`.
    pub fn sum_to(&self, scalar_offset: usize) -> Sum {
        store_sum_in(self.partial_sums, self.scalars.address, scalar_offset)
    }

    /// Waits, and returns the power of two that scales the largest magnitude of a vector to the interval [1, 2).
    fn find_scale(&self, stream: &Stream, v: Address) -> Result<f64> {
        self.scale.find_scale(stream, v, self.extents.count() as i64)?;
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
    pub singular_cells: Option<Labelled>,
    pub deflation: Option<Deflation>,
    /// Memory that the next factorization reuses.
    pool: Pool,
    /// The recorded loop; `None` if the host takes part in each iteration.
    pub recorded_loop: Option<RecordedLoops>,
    /// Time that the last run spent on solves with E, in seconds.
    pub coarse_solve_seconds: f64,
    /// Time of the setup of E, in seconds.
    pub coarse_setup_seconds: f64,
}

impl State {
    /// Computes the factorization. `previous` is a factorization for the same extents, whose memory is reused.
    pub fn new(stream: &Stream, input: &FactorizationInput, team: &mut Team, previous: Option<Self>) -> Result<Self> {
        let preconditioner = input.setup.preconditioner;
        let previous_parts = previous.map(Self::into_reusable_parts).transpose()?;
        let (vectors, mut pool, recorded_loop, previous_aggregated) = match previous_parts {
            Some((vectors, pool, recorded_loop, previous_aggregated)) => {
                (Some(vectors), pool, recorded_loop, previous_aggregated)
            }
            None => (None, Pool::default(), None, None),
        };
        let has_series = matches!(preconditioner, Preconditioner::Neumann { order } if order > 0);
        let fused_steps = FusedSteps::of(input.setup);
        let has_second_p = fused_steps != FusedSteps::Unfused;
        let is_sufficient = |v: &Vectors| (v.series_vector != 0 || !has_series) && (v.second_p != 0 || !has_second_p);
        let vectors = match vectors.filter(is_sufficient) {
            Some(vectors) => vectors,
            None => Vectors::new(stream, input.source.extents, has_series, has_second_p)?,
        };
        pool.set_workspace(vectors.arrays.memory_range());
        let scale = vectors.find_scale(stream, input.source.m.center)?;
        let singular_cells = input.surveyor.components.singular_cells(&mut pool, stream)?;
        let started = Instant::now();
        let deflation = match input.regions {
            Some(regions) => {
                Some(Deflation::new(&mut pool, stream, input, regions, (singular_cells.as_ref(), scale), team)?)
            }
            None => None,
        };
        let coarse_setup_seconds = started.elapsed().as_secs_f64();
        Ok(Self {
            preconditioner,
            fused_steps,
            multigrid: build_multigrid(&mut pool, stream, input, (&vectors, scale), previous_aggregated)?,
            singular_cells,
            deflation,
            vectors,
            pool: pool.into_next_pool(stream)?,
            recorded_loop,
            coarse_solve_seconds: 0.0,
            coarse_setup_seconds,
        })
    }

    /// Returns the parts that the next factorization reuses: the vectors, the memory of all other data, the recorded
    /// loop, and the aggregates.
    fn into_reusable_parts(self) -> Result<(Vectors, Pool, Option<RecordedLoops>, Option<Aggregated>)> {
        let (mut pool, mut aggregated) = (self.pool, None);
        if let Some(singular_cells) = self.singular_cells {
            singular_cells.release(&mut pool)?;
        }
        if let Some(deflation) = self.deflation {
            deflation.release(&mut pool)?;
        }
        match self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.release(&mut pool)?,
            Some(Multigrid::Cell(cell)) => cell.release(&mut pool)?,
            Some(Multigrid::Aggregated(aggregation)) => aggregated = Some(aggregation),
            None => {}
        }
        Ok((self.vectors, pool, self.recorded_loop, aggregated))
    }

    /// Sets all vectors and the values around them to zero after an overflow. Kernels multiply the zero couplings that
    /// leave the box by the values around a vector, and 0 * inf is NaN.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.vectors.arrays.clear(stream)?;
        match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.clear(stream),
            Some(Multigrid::Cell(cell)) => cell.clear(stream),
            // The vectors of aggregation are recomputed from r.
            Some(Multigrid::Aggregated(_)) | None => Ok(()),
        }
    }

    /// Computes z = M^-1 r by a multigrid cycle. Returns whether the kernels also compute <r, z> as the reduction
    /// `sum`.
    pub fn apply_cycle(&self, stream: &Stream, source: &DeviceMatrix, sum: Sum) -> Result<bool> {
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
            + self.singular_cells.as_ref().map_or(0, Labelled::bytes)
            + self.deflation.as_ref().map_or(0, Deflation::device_bytes)
    }
}

/// Computes the multigrid preconditioner; returns `None` for other preconditioners.
fn build_multigrid(
    pool: &mut Pool,
    stream: &Stream,
    input: &FactorizationInput,
    (vectors, scale): (&Vectors, f64),
    previous_aggregated: Option<Aggregated>,
) -> Result<Option<Multigrid>> {
    let (source, scalars, solver_vectors) = (input.source, vectors.scalars.address, [vectors.r, vectors.q, vectors.z]);
    Ok(Some(match input.setup.preconditioner {
        Preconditioner::Aggregation { pairing_passes, is_single_precision, zero_row_sum } => {
            Multigrid::Aggregated(Aggregated::new(
                stream,
                source,
                (scale, zero_row_sum),
                (pairing_passes, is_single_precision),
                previous_aggregated,
            )?)
        }
        Preconditioner::Multigrid { is_vertex_centered: false, sweeps, is_single_precision, max_coarsest_cells } => {
            Multigrid::Cell(CellMultigrid::new(
                pool,
                stream,
                source,
                (scalars, scale),
                is_single_precision,
                (sweeps, max_coarsest_cells),
            )?)
        }
        Preconditioner::Multigrid { sweeps, is_single_precision: true, .. } => Multigrid::Vertex(
            VertexMultigrid::new::<f32>(pool, stream, source, scalars, scale, sweeps, solver_vectors)?,
        ),
        Preconditioner::Multigrid { sweeps, .. } => Multigrid::Vertex(VertexMultigrid::new::<f64>(
            pool,
            stream,
            source,
            scalars,
            scale,
            sweeps,
            solver_vectors,
        )?),
        _ => return Ok(None),
    }))
}
