//! What a factorization leaves on the device: M, E, and the vectors of a solve.

use super::arrays::{Padded, lists};
use super::cell::CellCentred;
use super::deflation::Deflation;
use super::labelled::Labelled;
use super::multigrid::Scale;
use super::source::Source;
use super::vertex::Vertex;
use crate::backend::cuda::driver::{Loop, Memory, Pinned, Stream};
use crate::backend::cuda::launch::{Address, MOST_CELL_BLOCKS, Scalars, Sum, Use};
use crate::backend::steps::dpcg::{Preconditioner, Setup};
use crate::error::{Error, Result};
use crate::grid::cell_components::CellComponents;
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::regions::Regions;
use crate::runtime::team::Team;
use std::mem::offset_of;
use std::time::Instant;

/// Multigrid.
pub enum Multigrid {
    Vertex(Vertex),
    Cell(CellCentred),
}

/// How the loop is run.
pub enum Looping {
    /// By the host: it has a part in each iteration.
    ByHost,
    /// By the device, launched anew for each iteration.
    Launched,
    /// By the device, from a graph.
    Recorded(Loop),
}

/// Vectors of a solve, sums of blocks and scalars: they keep their places from one factorization to the next.
pub struct Vectors {
    pub of: Cells,
    arrays: Padded,
    memory: Memory,
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    /// A p; scratch space of `precondition`.
    pub q: Address,
    pub z: Address,
    /// Scratch space of a Neumann series; 0: there is none.
    pub s: Address,
    partial: Address,
    pub scale: Scale,
    /// The scalars, on the device and here.
    pub scalars_at: Address,
    pub scalars: Pinned<Scalars>,
}

impl Vectors {
    /// `series`: for a Neumann series, too.
    pub fn new(stream: &Stream, of: Cells, series: bool) -> Result<Self> {
        let count = 6 + usize::from(series);
        let arrays = Padded::zeroed(stream, count, of.count(), of.plane(), size_of::<f64>(), "the solver's vectors")?;
        let sums = 8 * MOST_CELL_BLOCKS as usize;
        let (memory, [partial, largest, scales, scalars_at]) =
            lists(stream, [sums, sums, 16, size_of::<Scalars>()], "sums")?;
        let scalars = Pinned::new(stream.device(), Scalars::start())?;
        stream.send(scalars_at, &[*scalars])?;
        stream.wait()?;
        let [b, x, r, p, q, z, s] = [0, 1, 2, 3, 4, 5, 6].map(|k| if k < count { arrays.at(k) } else { 0 });
        let scale = Scale { partial: largest, scales, scalars: scalars_at };
        Ok(Self { of, arrays, memory, b, x, r, p, q, z, s, partial, scale, scalars_at, scalars })
    }

    /// A sum that is kept in one of the scalars, by its offset.
    pub fn sum_to(&self, to: usize) -> Sum {
        let (partial, scalars) = (self.partial, self.scalars_at);
        Sum { partial, scalars, to: scalars + to as u64, how: Use::Kept as i32, in_loop: 0, conditional: 0 }
    }

    /// Waits, and reads the scalars.
    pub fn fetch(&mut self, stream: &Stream) -> Result<&Scalars> {
        stream.fetch_start(&mut self.scalars, self.scalars_at, offset_of!(Scalars, ring))?;
        stream.wait()?;
        Ok(&self.scalars)
    }

    fn bytes(&self) -> usize {
        self.arrays.bytes() + self.memory.bytes
    }
}

/// What a factorization is made of: the matrix, and what is known of it.
pub struct Made<'a> {
    /// The host's copy, where there is one: regions and the grids of `cell` are made of it.
    pub a: Option<SevenPoints<'a>>,
    /// The largest center.
    pub center_max: f64,
    pub source: &'a Source,
    pub setup: &'a Setup,
    pub components: &'a CellComponents,
    pub regions: Option<&'a Regions>,
}

impl Made<'_> {
    fn on_host(&self) -> Result<&SevenPoints<'_>> {
        self.a.as_ref().ok_or_else(|| Error::Internal("the host has no copy of the matrix".to_owned()))
    }
}

/// A matrix with what was made of it.
pub struct State {
    pub vectors: Vectors,
    pub preconditioner: Preconditioner,
    pub multigrid: Option<Multigrid>,
    /// Cells by singular component, where there is one.
    pub singular: Option<Labelled>,
    pub deflation: Option<Deflation>,
    pub looping: Looping,
    /// Of the last run, coarse solves by the host.
    pub seconds_coarse: f64,
    /// What E took.
    pub seconds_of_e: f64,
}

impl State {
    /// `previous`: of a factorization for as many cells, whose memory is used again.
    pub fn new(stream: &Stream, of: &Made, team: &mut Team, previous: Option<Self>) -> Result<Self> {
        let preconditioner = of.setup.preconditioner;
        let (vectors, before) = match previous {
            Some(Self { vectors, multigrid, preconditioner: before, .. }) => {
                (Some(vectors), multigrid.filter(|_| before == preconditioner))
            }
            None => (None, None),
        };
        let series = matches!(preconditioner, Preconditioner::Neumann { order } if order > 0);
        let vectors = match vectors.filter(|vectors| vectors.s != 0 || !series) {
            Some(vectors) => vectors,
            None => Vectors::new(stream, of.source.of, series)?,
        };
        let started = Instant::now();
        let deflation = match of.regions {
            Some(regions) => Some(Deflation::new(stream, of.on_host()?, of.setup, of.components, regions, team)?),
            None => None,
        };
        let seconds_of_e = started.elapsed().as_secs_f64();
        Ok(Self {
            preconditioner,
            multigrid: multigrid(stream, of, vectors.scalars_at, (before, team))?,
            singular: singular(stream, of.source.of, of.components)?,
            deflation,
            vectors,
            looping: Looping::ByHost,
            seconds_coarse: 0.0,
            seconds_of_e,
        })
    }

    /// Zeros in all vectors, and around them: loops go over cells beside a row, too, where 0 * inf would stay for good.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.vectors.arrays.clear(stream)?;
        match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.clear(stream),
            Some(Multigrid::Cell(cell)) => cell.clear(stream),
            None => Ok(()),
        }
    }

    /// z = M^-1 r of multigrid. Whether <r, z> is on its way.
    pub fn cycle(&self, stream: &Stream, source: &Source, sum: Sum) -> Result<bool> {
        let Vectors { r, z, scale, .. } = &self.vectors;
        match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.apply(stream, scale, *r, *z, sum).map(|()| true),
            Some(Multigrid::Cell(cell)) => cell.apply(stream, source, scale, *r, *z).map(|()| false),
            None => Err(Error::Internal("there is no multigrid".to_owned())),
        }
    }

    /// Bytes of device memory.
    pub fn device_bytes(&self) -> usize {
        let multigrid = match &self.multigrid {
            Some(Multigrid::Vertex(vertex)) => vertex.bytes(),
            Some(Multigrid::Cell(cell)) => cell.bytes(),
            None => 0,
        };
        multigrid
            + self.vectors.bytes()
            + self.singular.as_ref().map_or(0, Labelled::bytes)
            + self.deflation.as_ref().map_or(0, Deflation::device_bytes)
    }
}

fn multigrid(
    stream: &Stream,
    of: &Made,
    scalars: Address,
    (previous, team): (Option<Multigrid>, &mut Team),
) -> Result<Option<Multigrid>> {
    let Preconditioner::Multigrid { vertex, sweeps, single, coarsest } = of.setup.preconditioner else {
        return Ok(None);
    };
    let source = of.source;
    if !vertex {
        drop(previous);
        let a = of.on_host()?;
        return Ok(Some(Multigrid::Cell(match single {
            true => CellCentred::new::<f32>(stream, a, sweeps, coarsest)?,
            false => CellCentred::new::<f64>(stream, a, sweeps, coarsest)?,
        })));
    }
    let previous = if let Some(Multigrid::Vertex(previous)) = previous { Some(previous) } else { None };
    let (center_max, free) = (of.center_max, (previous, team));
    Ok(Some(Multigrid::Vertex(match single {
        true => Vertex::new::<f32>(stream, source, scalars, center_max, sweeps, free)?,
        false => Vertex::new::<f64>(stream, source, scalars, center_max, sweeps, free)?,
    })))
}

fn singular(stream: &Stream, cells: Cells, components: &CellComponents) -> Result<Option<Labelled>> {
    let count = components.singular_count();
    if count == 0 {
        return Ok(None);
    }
    let number = components.singular_numbers()?;
    let runs = |row| components.runs(row).map(|(columns, c)| (columns, c.and_then(|c| number[c])));
    Labelled::new(stream, cells, count, runs).map(Some)
}
