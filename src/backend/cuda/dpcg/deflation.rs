//! Deflation on the device: the region of each cell, Z^T v, E^-1 and A Z t.

use super::arrays::{Padded, lists};
use super::labelled::Labelled;
use super::source::Source;
use crate::backend::coarse::deflation::{CoarseMatrix, Scratch, Solver};
use crate::backend::cpu::dpcg::setup::coarse_matrix;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, DeflatedArgs, DenseArgs, Sum};
use crate::backend::steps::dpcg::Setup;
use crate::error::{Error, Result, collected, zeroed};
use crate::grid::cell_components::CellComponents;
use crate::grid::cells::SevenPoints;
use crate::grid::regions::{NONE, Regions, region_runs};
use crate::runtime::team::Team;
use std::time::Instant;

/// For errors.
const DEFLATION: &str = "deflation vectors";

/// What solves systems with E.
#[expect(clippy::large_enum_variant, reason = "one a handle")]
enum Inverse {
    /// E^-1, on the device.
    Dense(Memory),
    /// A factor, on the host, with g and t there.
    Host { coarse: CoarseMatrix, scratch: Scratch, g: Vec<f64>, t: Vec<f64> },
}

/// Deflation vectors, and E of them.
pub struct Deflation {
    /// A number of 16 bits a cell, that of cells in no region around them.
    region: Padded,
    regions: Labelled,
    inverse: Inverse,
    vectors: Memory,
    /// g = Z^T v; t = E^-1 g with a zero after it, for cells in no region.
    g: Address,
    t: Address,
    host_bytes: usize,
}

impl Deflation {
    /// How systems with E are solved.
    pub fn solver(&self) -> Solver {
        match &self.inverse {
            Inverse::Dense(_) => Solver::Inverse,
            Inverse::Host { coarse, .. } => coarse.solver(),
        }
    }

    pub fn new(
        stream: &Stream,
        a: &SevenPoints,
        setup: &Setup,
        components: &CellComponents,
        regions: &Regions,
        team: &mut Team,
    ) -> Result<Self> {
        let (cells, count) = (a.cells, regions.count);
        let (solver, tolerance) = (setup.coarse_solver, setup.coarse_tolerance);
        let coarse = coarse_matrix(team, a, components, regions, solver, tolerance)?;
        let (vectors, [g, t]) = lists(stream, [8 * count, 8 * (count + 1)], DEFLATION)?;
        let region = Padded::zeroed(stream, 1, cells.count(), cells.plane(), size_of::<u16>(), DEFLATION)?;
        let (guard, none) = (cells.plane(), count as u16);
        let number = |&r: &u16| if r == NONE { none } else { r };
        let outside = || std::iter::repeat_n(none, guard);
        let numbers = outside().chain(regions.of.iter().map(number)).chain(outside());
        stream.send(region.at(0) - (size_of::<u16>() * guard) as u64, &collected(numbers, DEFLATION)?)?;
        stream.wait()?;
        let mut host_bytes = 0;
        let inverse = match coarse.inverse() {
            Some(inverse) => {
                let memory = Memory::zeroed(stream.device(), stream, size_of_val(inverse), "the inverse of E")?;
                stream.send(memory.address, inverse)?;
                stream.wait()?;
                Inverse::Dense(memory)
            }
            None => {
                host_bytes = coarse.bytes();
                let scratch = coarse.scratch()?;
                Inverse::Host { coarse, scratch, g: zeroed(count, DEFLATION)?, t: zeroed(count, DEFLATION)? }
            }
        };
        let nx = cells.nx;
        let regions = Labelled::new(stream, cells, count, |row| region_runs(&regions.of[row * nx..][..nx]))?;
        Ok(Self { region, regions, inverse, vectors, g, t, host_bytes })
    }

    /// E^-1 is applied by the device.
    pub fn is_on_device(&self) -> bool {
        matches!(self.inverse, Inverse::Dense(_))
    }

    /// t = E^-1 Z^T v. Seconds of E^-1, where the host does it.
    fn solve(&mut self, stream: &Stream, v: Address, sum: Sum) -> Result<f64> {
        self.regions.sums(stream, v, self.g, sum)?;
        match &mut self.inverse {
            Inverse::Dense(matrix) => {
                let matrix = matrix.address;
                launch::dense(stream, &self.product(matrix, sum)).map(|()| 0.0)
            }
            Inverse::Host { coarse, scratch, g, t } => {
                stream.fetch(g, self.g)?;
                stream.wait()?;
                let started = Instant::now();
                coarse.solve(g, t, scratch);
                let seconds = started.elapsed().as_secs_f64();
                stream.send(self.t, t)?;
                stream.wait()?;
                Ok(seconds)
            }
        }
    }

    /// t = E^-1 Z^T q with <Z^T q, t>, where E^-1 is on the device.
    pub fn solve_with_product(&self, stream: &Stream, q: Address, sum: Sum) -> Result<()> {
        self.regions.sums(stream, q, self.g, Sum { how: 0, conditional: 0, ..sum })?;
        match &self.inverse {
            Inverse::Dense(matrix) => launch::dense(stream, &self.product(matrix.address, sum)),
            Inverse::Host { .. } => Err(Error::Internal("the device has no inverse of E".to_owned())),
        }
    }

    fn product(&self, matrix: Address, sum: Sum) -> DenseArgs {
        DenseArgs { matrix, input: self.g, out: self.t, n: self.regions.labels() as i32, unused: 0, sum }
    }

    /// Regions of cells, and t.
    pub fn region_and_t(&self) -> (Address, Address) {
        (self.region.at(0), self.t)
    }

    /// v = P v, P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga 2009), and <p, v>.
    pub fn project(&mut self, stream: &Stream, source: &Source, v: Address, p: Address, sum: Sum) -> Result<f64> {
        // A sum is the last kernel's.
        let seconds = self.solve(stream, v, Sum { partial: 0, how: 0, conditional: 0, ..sum })?;
        launch::subtract_deflated(stream, &self.arguments(source, v, p, sum))?;
        Ok(seconds)
    }

    /// x = x + Z E^-1 Z^T v.
    pub fn add_part(&mut self, stream: &Stream, source: &Source, v: Address, x: Address) -> Result<f64> {
        let seconds = self.solve(stream, v, Sum::default())?;
        launch::add_deflated(stream, &self.arguments(source, x, 0, Sum::default()))?;
        Ok(seconds)
    }

    fn arguments(&self, source: &Source, v: Address, p: Address, sum: Sum) -> DeflatedArgs {
        DeflatedArgs { cells: source.cells, m: source.m, region: self.region.at(0), t: self.t, v, p, sum }
    }

    /// Bytes of device memory.
    pub fn device_bytes(&self) -> usize {
        let inverse = if let Inverse::Dense(memory) = &self.inverse { memory.bytes } else { 0 };
        self.region.bytes() + self.regions.bytes() + self.vectors.bytes + inverse
    }

    /// Of the host's.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }
}
