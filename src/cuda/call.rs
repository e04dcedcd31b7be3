//! One call of any family on a device: the caller's arrays and their device copies, and the first error of the CUDA
//! driver.

use super::driver::{Stopwatch, Stream};
use super::launch::{Address, CellArray, Scalars};
use super::staging::{Job, StagedCopies};
use crate::error::{Error, Result, push};
use crate::krylov::solve_steps::{Arrays, Inputs};
use crate::report::Observer;
use crate::stencil::cells::Cells;
use std::time::Instant;

/// Name of the allocations in error messages.
const PLANE_LIST: &str = "a list of planes";

/// State of one call.
pub struct Call<'a> {
    pub stream: &'a Stream,
    pub observer: &'a mut dyn Observer,
    pub arrays: Arrays<'a>,
    /// The caller's arrays if they are on the device, else their staged copies.
    pub input: CellArray,
    pub output: CellArray,
    /// First error of the CUDA driver. After an error, later steps do nothing.
    pub first_error: Option<Error>,
    /// Extents of the arrays.
    pub(super) extents: Cells,
    pub(super) copies: &'a mut StagedCopies,
    pub(super) stopwatch: &'a Stopwatch,
    /// Whether this call has started copies to the device whose time has not been read yet.
    pub(super) has_unread_transfer_time: bool,
    pub(super) seconds_transfer: &'a mut f64,
}

/// Returns the address and the layout of an array on the device: of the caller's array at `device_address`, or, if
/// `device_address` is 0, of its staged copy at `staging_address`. A staged copy has contiguous rows and planes.
pub fn array_on_device(
    device_address: u64,
    staging_address: Address,
    extents: Cells,
    (ld, plane): (usize, usize),
) -> CellArray {
    let (values, ld, plane) =
        if device_address != 0 { (device_address, ld, plane) } else { (staging_address, extents.nx, extents.plane()) };
    CellArray { values, ld: ld as i64, plane: plane as i64 }
}

/// Returns how an array is copied: the number of host values from one copy to the next, the number of rows per copy,
/// and the number of bytes on the device from the start of a copy to the start of the next one. An array with
/// contiguous planes needs one copy; any other array needs one copy per plane.
fn copy_shape(extents: Cells, (ld, plane): (usize, usize), len: usize) -> (usize, usize, usize) {
    if extents.nz == 1 || plane == extents.ny * ld {
        (len, extents.rows(), 0)
    } else {
        (plane, extents.ny, 8 * extents.plane())
    }
}

/// Appends jobs that copy the planes of a host array to contiguous planes on the device.
pub fn push_host_to_device_jobs<'v>(
    jobs: &mut Vec<Job<'v>>,
    values: &'v [f64],
    extents: Cells,
    shape: (usize, usize),
    target: Address,
) -> Result<()> {
    let (plane, rows, step_bytes) = copy_shape(extents, shape, values.len());
    for (k, values) in values.chunks(plane).enumerate() {
        push(jobs, Job::from_host(values, (shape.0, extents.nx, rows), target + (k * step_bytes) as u64), PLANE_LIST)?;
    }
    Ok(())
}

impl Call<'_> {
    /// Queues the copies of the host arrays to the device: the input and, if `with_guess` is set, also the output,
    /// which then contains the initial guess.
    pub fn send_arrays(&mut self, with_guess: bool) -> Result<()> {
        let (copies_input, copies_output) =
            (self.arrays.device_input == 0, with_guess && self.arrays.device_output == 0);
        if !copies_input && !copies_output {
            return Ok(());
        }
        let (shape, mut jobs) = ((self.arrays.ld, self.arrays.plane), Vec::new());
        if copies_input {
            push_host_to_device_jobs(&mut jobs, self.arrays.input, self.extents, shape, self.input.values)?;
        }
        if copies_output {
            push_host_to_device_jobs(&mut jobs, self.arrays.output, self.extents, shape, self.output.values)?;
        }
        self.stopwatch.record(0, self.stream)?;
        self.copies.send(self.stream, &jobs)?;
        self.has_unread_transfer_time = true;
        self.stopwatch.record(1, self.stream)
    }

    /// Copies the output to the caller's array if this array is in host memory. Waits until the caller can read the
    /// output.
    pub fn fetch_output(&mut self) -> Result<()> {
        self.stream.wait()?;
        if self.arrays.device_output != 0 {
            return Ok(());
        }
        // CPU threads copy too, so the time is measured with the host's clock.
        let start = Instant::now();
        let mut jobs = Vec::new();
        let shape = (self.arrays.ld, self.arrays.plane);
        let (plane, rows, step_bytes) = copy_shape(self.extents, shape, self.arrays.output.len());
        for (k, values) in self.arrays.output.chunks_mut(plane).enumerate() {
            let from = self.output.values + (k * step_bytes) as u64;
            push(&mut jobs, Job::to_host(values, (shape.0, self.extents.nx, rows), from), PLANE_LIST)?;
        }
        self.copies.fetch(self.stream, &jobs)?;
        self.stream.wait()?;
        *self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Sets the extents of the output. Needed for a product whose result has another length than its input.
    pub fn set_output_extents(&mut self, extents: Cells) {
        (self.extents, self.arrays.ld, self.arrays.plane) = (extents, extents.nx, extents.nx);
    }

    /// Adds the time of the copies to the device to `seconds_transfer`. The host must have waited for these copies.
    pub fn add_transfer_time(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_unread_transfer_time) {
            *self.seconds_transfer += self.stopwatch.seconds()?;
        }
        Ok(())
    }

    /// Returns the largest magnitudes and the first non-finite entry of the caller's arrays, which a kernel has stored
    /// in `s`. The host must have fetched `s` after that kernel. For a non-finite entry, the kernel stores the bitwise
    /// complement of (2 row + array) nx + i, where array is 0 for the input and 1 for the initial guess.
    pub fn inputs(&mut self, s: &Scalars) -> Result<Inputs> {
        self.add_transfer_time()?;
        let mut not_finite = None;
        if s.not_finite != 0 {
            let (nx, entry_key) = (self.extents.nx as u64, !s.not_finite);
            let (i, array_row) = ((entry_key % nx) as usize, entry_key / nx);
            let row = (array_row / 2) as usize;
            let (name, array) =
                if array_row % 2 == 0 { (self.arrays.input_name, self.input) } else { ("x", self.output) };
            not_finite = Some((name, self.fetch_value(array, i, row)?, i, row));
        }
        let [rhs_max, guess_max] = [s.largest, s.largest_guess].map(f64::from_bits);
        Ok(Inputs { rhs_max, guess_max, not_finite, scale: None })
    }

    /// Returns the entry (i, row) of a caller's array; `row` counts the rows of all planes.
    fn fetch_value(&self, array: CellArray, i: usize, row: usize) -> Result<f64> {
        let ny = self.extents.ny;
        let index = (row / ny) as u64 * array.plane as u64 + (row % ny) as u64 * array.ld as u64 + i as u64;
        let mut value = [0.0];
        self.stream.fetch(&mut value, array.values + 8 * index)?;
        self.stream.wait()?;
        Ok(value[0])
    }
}

/// A call with step functions that cannot return an error. The call stores the first error, and later steps do nothing.
pub trait FallibleSteps {
    /// Returns the first error, if any.
    fn first_error(&mut self) -> &mut Option<Error>;

    /// Runs `f`, unless an earlier step has failed. If `f` fails, stores the error of `f`.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.first_error().is_some() {
            return None;
        }
        f(self).map_err(|error| *self.first_error() = Some(error)).ok()
    }

    /// Runs before each step that launches its own kernels. By default nothing happens.
    fn begin_step(&mut self) {}

    /// Runs a step without a result.
    fn step(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) {
        self.begin_step();
        let _ = self.attempt(f);
    }

    /// Runs a step that returns a scalar. After an error, returns NaN, which ends the loop of every iterative method.
    fn scalar(&mut self, f: impl FnOnce(&mut Self) -> Result<f64>) -> f64 {
        self.begin_step();
        self.attempt(f).unwrap_or(f64::NAN)
    }
}
