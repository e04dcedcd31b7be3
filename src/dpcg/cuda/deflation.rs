//! Deflation on a device (docs/theory/dpcg.md): regions of the cells, products Z^T v and A Z t, and solution of systems
//! with E.

use super::dense::DenseInverse;
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
use crate::deflation::{CoarseMatrix, MAX_CONDITION_NUMBER, SolveScratch, Solver};
use crate::dpcg::setup::coarse_matrix;
use crate::error::{Error, Result, zeroed};
use std::time::Instant;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "deflation vectors";

/// Method that solves systems with E.
#[expect(clippy::large_enum_variant, reason = "one per handle")]
enum SolverOfE {
    /// Product with E^-1 on the device.
    DeviceInverse(DenseInverse),
    /// Systems with E are solved on the host, by L D L^T or by conjugate gradients. `g` contains Z^T v and `t` contains
    /// E^-1 g; both are host copies of vectors on the device.
    HostSolver { coarse_matrix: CoarseMatrix, scratch: SolveScratch, g: Vec<f64>, t: Vec<f64> },
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
    clock_address: Address,
    host_bytes: usize,
}

impl Deflation {
    /// Returns the method that solves systems with E.
    pub fn solver(&self) -> Solver {
        match &self.solver_of_e {
            SolverOfE::DeviceInverse(_) => Solver::Inverse,
            SolverOfE::HostSolver { coarse_matrix, .. } => coarse_matrix.solver(),
        }
    }

    /// Computes E, and its inverse on the device or a solver on the host. `scale` is a power of two such that `scale`
    /// times the largest center is in [1, 2). `singular_cells` contains the cells of singular components.
    pub fn new(
        pool: &mut Pool,
        stream: &Stream,
        input: &FactorizationInput,
        regions: &Regions,
        (singular_cells, scale): (Option<&Labelled>, f64),
        team: &mut Team,
    ) -> Result<Self> {
        let region_numbers = RegionNumbers::new(pool, stream, input, regions)?;
        let region_count = region_numbers.region_count;
        let (vectors, [g, t, clock_address]) =
            pool.allocate_lists(stream, [8 * region_count, 8 * (region_count + 1), 8], ALLOCATION_NAME)?;
        stream.fill(vectors.address, 0, vectors.bytes)?;
        let mut inverse = None;
        let mut solver = input.setup.coarse_solver;
        if solver == Solver::Inverse && region_count <= DenseInverse::MAX_DEFLATION_VECTORS {
            inverse = match invert_on_device(pool, stream, input.source, &region_numbers, singular_cells, scale) {
                // If the device has too little memory for a large E, E is factorized on the host.
                Err(error)
                    if region_count > DenseInverse::MAX_COARSEST_UNKNOWNS
                        && error.is_out_of_memory_or_unsupported() =>
                {
                    None
                }
                result => result?,
            };
            solver = Solver::Cholesky;
        }
        let mut host_bytes = 0;
        let solver_of_e = match inverse {
            Some(inverse) => SolverOfE::DeviceInverse(inverse),
            None => {
                let tolerance = input.setup.coarse_tolerance;
                let (a, components) = (input.matrix_on_host(stream)?, input.components_on_host(stream, team)?);
                let regions = region_numbers.on_host(stream, input, regions)?;
                let coarse_matrix = coarse_matrix(team, &a, &components, &regions, solver, tolerance)?;
                if let Some(inverse) = coarse_matrix.inverse() {
                    SolverOfE::DeviceInverse(DenseInverse::from_host(pool, stream, inverse)?)
                } else {
                    host_bytes = coarse_matrix.bytes();
                    let scratch = coarse_matrix.scratch()?;
                    SolverOfE::HostSolver {
                        coarse_matrix,
                        scratch,
                        g: zeroed(region_count, ALLOCATION_NAME)?,
                        t: zeroed(region_count, ALLOCATION_NAME)?,
                    }
                }
            }
        };
        let cells_by_region = Labelled::new(pool, stream, input.source.extents.count(), region_numbers.labels())?;
        Ok(Self { region_numbers, cells_by_region, solver_of_e, vectors, g, t, clock_address, host_bytes })
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.region_numbers.release(pool)?;
        self.cells_by_region.release(pool)?;
        pool.release(self.vectors)?;
        if let SolverOfE::DeviceInverse(inverse) = self.solver_of_e { inverse.release(pool) } else { Ok(()) }
    }

    /// Returns whether the device applies E^-1.
    pub fn is_on_device(&self) -> bool {
        matches!(self.solver_of_e, SolverOfE::DeviceInverse(_))
    }

    /// Computes t = E^-1 Z^T v. `sum` must not request a result; the kernels only read from `sum` whether the loop of
    /// PCG has ended. Returns the time in seconds that the host spent on E^-1, or 0.
    fn solve(&mut self, stream: &Stream, v: Address, sum: Sum) -> Result<f64> {
        self.cells_by_region.compute_sums(stream, v, self.g, sum)?;
        match &mut self.solver_of_e {
            SolverOfE::DeviceInverse(inverse) => {
                inverse.multiply(stream, self.g, self.t, self.clock_address, sum).map(|()| 0.0)
            }
            SolverOfE::HostSolver { coarse_matrix, scratch, g, t } => {
                stream.fetch(g, self.g)?;
                stream.wait()?;
                let started = Instant::now();
                coarse_matrix.solve(g, t, scratch);
                let seconds = started.elapsed().as_secs_f64();
                stream.send(self.t, t)?;
                stream.wait()?;
                Ok(seconds)
            }
        }
    }

    /// Computes t = E^-1 Z^T q, and <Z^T q, t> as the reduction `sum`. Requires E^-1 on the device.
    pub fn solve_with_product(&self, stream: &Stream, q: Address, sum: Sum) -> Result<()> {
        self.cells_by_region.compute_sums(stream, q, self.g, Sum { sum_use: 0, conditional: 0, ..sum })?;
        match &self.solver_of_e {
            SolverOfE::DeviceInverse(inverse) => inverse.multiply(stream, self.g, self.t, self.clock_address, sum),
            SolverOfE::HostSolver { .. } => Err(Error::Internal("the device has no inverse of E".to_owned())),
        }
    }

    /// Sets the total time of products with E^-1 on the device to zero.
    pub fn start_clock(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.clock_address, 0, size_of::<u64>())
    }

    /// Waits, and returns the total time of products with E^-1 on the device in seconds.
    pub fn seconds_on_device(&self, stream: &Stream) -> Result<f64> {
        let mut nanoseconds = [0u64];
        stream.fetch(&mut nanoseconds, self.clock_address)?;
        stream.wait()?;
        Ok(1e-9 * nanoseconds[0] as f64)
    }

    /// Returns the addresses of the regions and of t.
    pub fn region_and_t(&self) -> (Address, Address) {
        (self.region_numbers.address(), self.t)
    }

    /// Computes v = P v, and <p, v> as the reduction `sum`. Here P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga
    /// 2009). Returns the time in seconds that the host spent on E^-1, or 0.
    pub fn project(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> Result<f64> {
        // Only the last kernel computes <p, v>.
        let seconds = self.solve(stream, v, Sum { partial: 0, sum_use: 0, conditional: 0, ..sum })?;
        launch::subtract_deflated(stream, &self.deflated_args(source, v, p, sum))?;
        Ok(seconds)
    }

    /// Computes x = x + Z E^-1 Z^T v. Returns the time in seconds that the host spent on E^-1, or 0.
    pub fn add_deflated_part(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, x: Address) -> Result<f64> {
        let seconds = self.solve(stream, v, Sum::default())?;
        launch::add_deflated(stream, &self.deflated_args(source, x, 0, Sum::default()))?;
        Ok(seconds)
    }

    fn deflated_args(&self, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> DeflatedArgs {
        DeflatedArgs { cells: source.cells, m: source.m, region: self.region_numbers.address(), t: self.t, v, p, sum }
    }

    /// Returns the allocated device memory in bytes.
    pub fn device_bytes(&self) -> usize {
        let inverse = if let SolverOfE::DeviceInverse(inverse) = &self.solver_of_e { inverse.bytes() } else { 0 };
        self.region_numbers.bytes() + self.cells_by_region.bytes() + self.vectors.bytes + inverse
    }

    /// Returns the allocated host memory in bytes.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }
}

/// Computes and inverts E = Z^T A Z. Returns `None` if the condition number (`DenseInverse::condition`) exceeds
/// `MAX_CONDITION_NUMBER`, because products with E^-1 would be inaccurate.
fn invert_on_device(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    regions: &RegionNumbers,
    singular_cells: Option<&Labelled>,
    scale: f64,
) -> Result<Option<DenseInverse>> {
    let n = regions.region_count;
    let bytes = 24 * (n + 1) * (n + 1);
    let mut unpooled_memory = None;
    let sums_address = match pool.borrow_workspace(bytes) {
        Some(sums_address) => sums_address,
        None => {
            let (memory, [sums_address]) = pool.allocate_lists(stream, [bytes], ALLOCATION_NAME)?;
            if n > DenseInverse::MAX_COARSEST_UNKNOWNS {
                unpooled_memory = Some(memory);
            } else {
                pool.save_for_next(memory)?;
            }
            sums_address
        }
    };
    stream.fill(sums_address, 0, bytes)?;
    // The inversion may overwrite the sums, because the sums are no longer needed when the inversion begins.
    let mut dense = DenseInverse::zeroed(pool, stream, n, Some(sums_address))?;
    stream.send(dense.null_vector_of, &regions.null_vector_of)?;
    stream.send(dense.null_vector_count, &[regions.null_vector_count as u32])?;
    let args = CoarseMatrixArgs {
        cells: source.cells,
        m: source.m,
        region: regions.address(),
        singular: singular_cells.map_or(CellLabels::default(), Labelled::cell_labels),
        scale,
        sums: sums_address,
        null_vector_of: dense.null_vector_of,
        matrix: dense.matrix(),
        diagonal: dense.diagonal,
        n: n as i32,
        unused: 0,
    };
    launch::add_couplings(stream, &args)?;
    launch::round_coarse_matrix(stream, &args)?;
    dense.invert(stream)?;
    if regions.null_vector_count > 0 {
        dense.project_inverse(stream, true)?;
    }
    dense.copy_from_workspace(stream)?;
    let condition = dense.condition(stream)?;
    drop(unpooled_memory);
    if condition <= MAX_CONDITION_NUMBER {
        return Ok(Some(dense));
    }
    if n <= DenseInverse::MAX_COARSEST_UNKNOWNS {
        dense.save_for_next(pool)?;
    }
    Ok(None)
}
