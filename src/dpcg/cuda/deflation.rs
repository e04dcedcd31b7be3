//! Deflation on a device (docs/theory/dpcg.md): regions of the cells, products Z^T v and A Z t, and solution of systems
//! with E.

use super::dense::Dense;
use super::regions::RegionNumbers;
use super::source::DeviceMatrix;
use super::survey::FactorizationInput;
use crate::base::team::Team;
use crate::cuda::arrays::Pool;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellLabels, CoarseMatrixArgs, DeflatedArgs, Sum};
use crate::deflation::regions::Regions;
use crate::deflation::{CoarseMatrix, LARGEST_CONDITION, Scratch, Solver};
use crate::dpcg::setup::coarse_matrix;
use crate::error::{Error, Result, zeroed};
use std::time::Instant;

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "deflation vectors";

/// Method that solves systems with E.
#[expect(clippy::large_enum_variant, reason = "one per handle")]
enum SolverOfE {
    /// Product with E^-1 on the device.
    Dense(Dense),
    /// Systems with E are solved on the host, by L D L^T or by conjugate gradients. `g` and `t` are host copies of g =
    /// Z^T v and t = E^-1 g.
    Host { coarse: CoarseMatrix, scratch: Scratch, g: Vec<f64>, t: Vec<f64> },
}

/// Regions, E, and the vectors g and t.
pub struct Deflation {
    region_numbers: RegionNumbers,
    /// The cells grouped by region, for the sums Z^T v.
    cells_by_region: Labelled,
    solver_of_e: SolverOfE,
    vectors: Memory,
    /// g = Z^T v on the device.
    g: Address,
    /// t = E^-1 g, followed by a zero for cells in no region.
    t: Address,
    /// Address of the total time of products with E^-1 on the device, in ns.
    clock: Address,
    host_bytes: usize,
}

impl Deflation {
    /// Returns the method that solves systems with E.
    pub fn solver(&self) -> Solver {
        match &self.solver_of_e {
            SolverOfE::Dense(_) => Solver::Inverse,
            SolverOfE::Host { coarse, .. } => coarse.solver(),
        }
    }

    /// Computes E, and its inverse on the device or a solver on the host. `scale` is a power of two such that `scale`
    /// times the largest center is in [1, 2). `singular` contains the cells of singular components.
    pub fn new(
        pool: &mut Pool,
        stream: &Stream,
        input: &FactorizationInput,
        regions: &Regions,
        (singular, scale): (Option<&Labelled>, f64),
        team: &mut Team,
    ) -> Result<Self> {
        let region = RegionNumbers::new(pool, stream, input, regions)?;
        let count = region.count;
        let (vectors, [g, t, clock]) = pool.lists(stream, [8 * count, 8 * (count + 1), 8], WHAT)?;
        stream.fill(vectors.address, 0, vectors.bytes)?;
        let mut inverse = None;
        let mut solver = input.setup.coarse_solver;
        if solver == Solver::Inverse && count <= Dense::MOST_VECTORS {
            inverse = match invert_on_device(pool, stream, input.source, &region, singular, scale) {
                // If the device has too little memory for a large E, E is factorized on the host.
                Err(error) if count > Dense::MOST && error.is_out_of_memory_or_unsupported() => None,
                made => made?,
            };
            solver = Solver::Cholesky;
        }
        let mut host_bytes = 0;
        let solver_of_e = match inverse {
            Some(inverse) => SolverOfE::Dense(inverse),
            None => {
                let tolerance = input.setup.coarse_tolerance;
                let (a, components) = (input.on_host(stream)?, input.components_on_host(stream, team)?);
                let regions = region.on_host(stream, input, regions)?;
                let coarse = coarse_matrix(team, &a, &components, &regions, solver, tolerance)?;
                if let Some(inverse) = coarse.inverse() {
                    SolverOfE::Dense(Dense::from_host(pool, stream, inverse)?)
                } else {
                    host_bytes = coarse.bytes();
                    let scratch = coarse.scratch()?;
                    SolverOfE::Host { coarse, scratch, g: zeroed(count, WHAT)?, t: zeroed(count, WHAT)? }
                }
            }
        };
        let cells_by_region = Labelled::new(pool, stream, input.source.extents.count(), region.labels())?;
        Ok(Self { region_numbers: region, cells_by_region, solver_of_e, vectors, g, t, clock, host_bytes })
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.region_numbers.release(pool)?;
        self.cells_by_region.release(pool)?;
        pool.release(self.vectors)?;
        if let SolverOfE::Dense(inverse) = self.solver_of_e { inverse.release(pool) } else { Ok(()) }
    }

    /// Returns whether the device applies E^-1.
    pub fn is_on_device(&self) -> bool {
        matches!(self.solver_of_e, SolverOfE::Dense(_))
    }

    /// Computes t = E^-1 Z^T v. `sum` has no partial sums; from it, the kernels read whether a loop has ended. Returns
    /// the time in seconds that the host spent on E^-1, or 0.
    fn solve(&mut self, stream: &Stream, v: Address, sum: Sum) -> Result<f64> {
        self.cells_by_region.sums(stream, v, self.g, sum)?;
        match &mut self.solver_of_e {
            SolverOfE::Dense(inverse) => inverse.multiply(stream, self.g, self.t, self.clock, sum).map(|()| 0.0),
            SolverOfE::Host { coarse, scratch, g, t } => {
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

    /// Computes t = E^-1 Z^T q and <Z^T q, t>. Requires E^-1 on the device.
    pub fn solve_with_product(&self, stream: &Stream, q: Address, sum: Sum) -> Result<()> {
        self.cells_by_region.sums(stream, q, self.g, Sum { sum_use: 0, conditional: 0, ..sum })?;
        match &self.solver_of_e {
            SolverOfE::Dense(inverse) => inverse.multiply(stream, self.g, self.t, self.clock, sum),
            SolverOfE::Host { .. } => Err(Error::Internal("the device has no inverse of E".to_owned())),
        }
    }

    /// Sets the total time of products with E^-1 on the device to zero.
    pub fn start_clock(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.clock, 0, size_of::<u64>())
    }

    /// Waits, and returns the total time of products with E^-1 on the device in seconds.
    pub fn seconds_on_device(&self, stream: &Stream) -> Result<f64> {
        let mut nanoseconds = [0u64];
        stream.fetch(&mut nanoseconds, self.clock)?;
        stream.wait()?;
        Ok(1e-9 * nanoseconds[0] as f64)
    }

    /// Returns the addresses of the regions and of t.
    pub fn region_and_t(&self) -> (Address, Address) {
        (self.region_numbers.at(), self.t)
    }

    /// Computes v = P v and <p, v>, with P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga 2009). Returns the time
    /// in seconds that the host spent on E^-1, or 0.
    pub fn project(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> Result<f64> {
        // Only the last kernel computes the sum.
        let seconds = self.solve(stream, v, Sum { partial: 0, sum_use: 0, conditional: 0, ..sum })?;
        launch::subtract_deflated(stream, &self.arguments(source, v, p, sum))?;
        Ok(seconds)
    }

    /// Computes x = x + Z E^-1 Z^T v. Returns the time in seconds that the host spent on E^-1, or 0.
    pub fn add_deflated_part(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, x: Address) -> Result<f64> {
        let seconds = self.solve(stream, v, Sum::default())?;
        launch::add_deflated(stream, &self.arguments(source, x, 0, Sum::default()))?;
        Ok(seconds)
    }

    fn arguments(&self, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> DeflatedArgs {
        DeflatedArgs { cells: source.cells, m: source.m, region: self.region_numbers.at(), t: self.t, v, p, sum }
    }

    /// Returns the allocated device memory in bytes.
    pub fn device_bytes(&self) -> usize {
        let inverse = if let SolverOfE::Dense(inverse) = &self.solver_of_e { inverse.bytes() } else { 0 };
        self.region_numbers.bytes() + self.cells_by_region.bytes() + self.vectors.bytes + inverse
    }

    /// Returns the allocated host memory in bytes.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }
}

/// Computes and inverts E = Z^T A Z. Returns `None` if the condition number (`Dense::condition`) exceeds
/// `LARGEST_CONDITION`, because products with E^-1 would be inaccurate.
fn invert_on_device(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    regions: &RegionNumbers,
    singular: Option<&Labelled>,
    scale: f64,
) -> Result<Option<Dense>> {
    let n = regions.count;
    let bytes = 24 * (n + 1) * (n + 1);
    let mut large = None;
    let sums = match pool.borrow(bytes) {
        Some(sums) => sums,
        None => {
            let (memory, [sums]) = pool.lists(stream, [bytes], WHAT)?;
            if n > Dense::MOST {
                large = Some(memory);
            } else {
                pool.save_for_next(memory)?;
            }
            sums
        }
    };
    stream.fill(sums, 0, bytes)?;
    // The inversion may overwrite the sums, because they are no longer needed when it begins.
    let mut dense = Dense::zeroed(pool, stream, n, Some(sums))?;
    stream.send(dense.null_vector_of, &regions.null_vector_of)?;
    stream.send(dense.null_vector_count, &[regions.null_vector_count as u32])?;
    let a = CoarseMatrixArgs {
        cells: source.cells,
        m: source.m,
        region: regions.at(),
        singular: singular.map_or(CellLabels::default(), Labelled::of_cells),
        scale,
        sums,
        null_vector_of: dense.null_vector_of,
        matrix: dense.matrix(),
        diagonal: dense.diagonal,
        n: n as i32,
        unused: 0,
    };
    launch::add_couplings(stream, &a)?;
    launch::round_coarse_matrix(stream, &a)?;
    dense.invert(stream)?;
    if regions.null_vector_count > 0 {
        dense.project_inverse(stream, true)?;
    }
    dense.copy_from_workspace(stream)?;
    let condition = dense.condition(stream)?;
    drop(large);
    if condition <= LARGEST_CONDITION {
        return Ok(Some(dense));
    }
    if n <= Dense::MOST {
        dense.save_for_next(pool)?;
    }
    Ok(None)
}
