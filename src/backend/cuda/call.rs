//! One run of any family on a device: the caller's arrays, which are on the device or are copied there and back;
//! the first failure of the driver.

use super::driver::{Stream, Watch};
use super::launch::{Address, CellArray, Scalars};
use super::staging::{Copies, Job};
use crate::backend::steps::solve::{Arrays, Inputs};
use crate::error::{Error, Result, push};
use crate::grid::cells::Cells;
use crate::report::Observer;
use std::time::Instant;

/// For errors.
const PLANES: &str = "a list of planes";

/// One run.
pub struct Call<'a> {
    pub stream: &'a Stream,
    pub observer: &'a mut dyn Observer,
    pub arrays: Arrays<'a>,
    /// The caller's arrays on the device, or their copies there.
    pub input: CellArray,
    pub output: CellArray,
    /// The first failure of the driver: later steps do nothing.
    pub failed: Option<Error>,
    pub(super) of: Cells,
    pub(super) copies: &'a mut Copies,
    pub(super) watch: &'a Watch,
    /// Copies to the device were started, and their time was not read.
    pub(super) sent: bool,
    pub(super) seconds_transfer: &'a mut f64,
}

/// An array on the device, or its copy there, whose rows and planes are contiguous.
pub fn place(device: u64, staged: Address, of: Cells, (ld, plane): (usize, usize)) -> CellArray {
    let (values, ld, plane) = if device != 0 { (device, ld, plane) } else { (staged, of.nx, of.plane()) };
    CellArray { values, ld: ld as i64, plane: plane as i64 }
}

/// Planes of an array, or one if they are contiguous: values of each, rows of each, and how many bytes apart the copies
/// are.
fn planes(of: Cells, (ld, plane): (usize, usize), len: usize) -> (usize, usize, usize) {
    if of.nz == 1 || plane == of.ny * ld { (len, of.rows(), 0) } else { (plane, of.ny, 8 * of.plane()) }
}

/// Adds copies of the planes of an array of the host to contiguous planes on the device.
pub fn push_reads<'v>(
    jobs: &mut Vec<Job<'v>>,
    values: &'v [f64],
    of: Cells,
    shape: (usize, usize),
    to: Address,
) -> Result<()> {
    let (plane, rows, apart) = planes(of, shape, values.len());
    for (k, values) in values.chunks(plane).enumerate() {
        push(jobs, Job::read(values, (shape.0, of.nx, rows), to + (k * apart) as u64), PLANES)?;
    }
    Ok(())
}

impl Call<'_> {
    /// Starts to copy arrays that are on the host to the device.
    pub fn send_arrays(&mut self, guess: bool) -> Result<()> {
        let (input_here, output_here) = (self.arrays.device_input == 0, guess && self.arrays.device_output == 0);
        if !input_here && !output_here {
            return Ok(());
        }
        let (shape, mut jobs) = ((self.arrays.ld, self.arrays.plane), Vec::new());
        if input_here {
            push_reads(&mut jobs, self.arrays.input, self.of, shape, self.input.values)?;
        }
        if output_here {
            push_reads(&mut jobs, self.arrays.output, self.of, shape, self.output.values)?;
        }
        self.watch.note(0, self.stream)?;
        self.copies.send(self.stream, &jobs)?;
        self.sent = true;
        self.watch.note(1, self.stream)
    }

    /// Copies the output to the host if it is there, and waits until it is visible.
    pub fn fetch_output(&mut self) -> Result<()> {
        self.stream.wait()?;
        if self.arrays.device_output != 0 {
            return Ok(());
        }
        // Threads copy too, so this is the host's clock.
        let start = Instant::now();
        let mut jobs = Vec::new();
        let shape = (self.arrays.ld, self.arrays.plane);
        let (plane, rows, apart) = planes(self.of, shape, self.arrays.output.len());
        for (k, values) in self.arrays.output.chunks_mut(plane).enumerate() {
            let from = self.output.values + (k * apart) as u64;
            push(&mut jobs, Job::write(values, (shape.0, self.of.nx, rows), from), PLANES)?;
        }
        self.copies.fetch(self.stream, &jobs)?;
        self.stream.wait()?;
        *self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// What a kernel has found in the caller's arrays; `s` was fetched after it.
    pub fn inputs(&mut self, s: &Scalars) -> Result<Inputs> {
        if std::mem::take(&mut self.sent) {
            *self.seconds_transfer += self.watch.seconds()?;
        }
        let mut not_finite = None;
        if s.not_finite != 0 {
            let (nx, key) = (self.of.nx as u64, !s.not_finite);
            let (i, line) = ((key % nx) as usize, key / nx);
            let row = (line / 2) as usize;
            let (name, array) = if line % 2 == 0 { (self.arrays.input_name, self.input) } else { ("x", self.output) };
            not_finite = Some((name, self.value(array, i, row)?, i, row));
        }
        Ok(Inputs { rhs_max: f64::from_bits(s.largest), guess_max: f64::from_bits(s.largest_guess), not_finite })
    }

    /// A value of the caller's arrays.
    fn value(&self, array: CellArray, i: usize, row: usize) -> Result<f64> {
        let ny = self.of.ny;
        let place = (row / ny) as u64 * array.plane as u64 + (row % ny) as u64 * array.ld as u64 + i as u64;
        let mut value = [0.0];
        self.stream.fetch(&mut value, array.values + 8 * place)?;
        self.stream.wait()?;
        Ok(value[0])
    }
}

/// A call whose steps have no way to say that they failed: after the first failure they do nothing.
pub trait Attempts {
    /// The first failure.
    fn failed(&mut self) -> &mut Option<Error>;

    /// Does `f` unless something failed before; keeps its failure.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failed().is_some() {
            return None;
        }
        f(self).map_err(|error| *self.failed() = Some(error)).ok()
    }

    /// Notes that a step does its own work.
    fn begin_step(&mut self) {}

    /// A step without result.
    fn step(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) {
        self.begin_step();
        let _ = self.attempt(f);
    }

    /// A step with a scalar; NaN after a failure, which ends every method.
    fn scalar(&mut self, f: impl FnOnce(&mut Self) -> Result<f64>) -> f64 {
        self.begin_step();
        self.attempt(f).unwrap_or(f64::NAN)
    }
}
