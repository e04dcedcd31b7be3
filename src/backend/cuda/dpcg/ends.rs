//! What surrounds PCG: the caller's arrays, means over singular components, the deflated part of x.

use super::run::{Rhs, Run};
use super::source::planes_to;
use super::state::Vectors;
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CellArray, CellInspectArgs, CellTransferArgs, Scalars, Sum};
use crate::backend::cuda::session::Attempts;
use crate::backend::cuda::staging::Job;
use crate::backend::steps::solve::{Inputs, SolveSteps};
use crate::backend::steps::vectors::{VectorId, VectorSteps};
use crate::error::{Result, push};
use crate::grid::cells::Cells;
use std::mem::offset_of;
use std::time::Instant;

/// For errors.
const PLANES: &str = "a list of planes";

/// To planes of an array of the host.
fn planes_from<'v>(
    values: &'v mut [f64],
    of: Cells,
    (ld, plane): (usize, usize),
    from: Address,
) -> Result<Vec<Job<'v>>> {
    let mut jobs = Vec::new();
    if plane == of.ny * ld {
        push(&mut jobs, Job::write(values, (ld, of.nx, of.rows()), from), PLANES)?;
        return Ok(jobs);
    }
    for (k, values) in values.chunks_mut(plane).enumerate() {
        push(&mut jobs, Job::write(values, (ld, of.nx, of.ny), from + (8 * k * of.plane()) as u64), PLANES)?;
    }
    Ok(jobs)
}

impl Run<'_> {
    /// Copies what is on the host to its place on the device.
    fn send_arrays(&mut self, guess: bool) -> Result<()> {
        let (input_here, output_here) = (self.arrays.device_input == 0, guess && self.arrays.device_output == 0);
        if !input_here && !output_here {
            return Ok(());
        }
        let start = Instant::now();
        let (of, shape) = (self.source.of, (self.arrays.ld, self.arrays.plane));
        let mut jobs = Vec::new();
        if input_here {
            jobs = planes_to(self.arrays.input, of, shape, self.input.values)?;
        }
        if output_here {
            for job in planes_to(self.arrays.output, of, shape, self.output.values)? {
                push(&mut jobs, job, PLANES)?;
            }
        }
        self.copies.send(self.stream, &jobs)?;
        self.stream.wait()?;
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Copies the output back to the host, if it is there, and waits until it is visible.
    fn fetch_output(&mut self) -> Result<()> {
        self.stream.wait()?;
        if self.arrays.device_output != 0 {
            return Ok(());
        }
        let start = Instant::now();
        let (of, shape) = (self.source.of, (self.arrays.ld, self.arrays.plane));
        let jobs = planes_from(self.arrays.output, of, shape, self.output.values)?;
        self.copies.fetch(self.stream, &jobs)?;
        self.stream.wait()?;
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Zeros the largest magnitudes and the place of an entry that is not finite, next to each other.
    pub fn forget_seen(&self) -> Result<()> {
        let first = offset_of!(Scalars, largest);
        let bytes = offset_of!(Scalars, not_finite) + size_of::<u64>() - first;
        self.stream.fill(self.k.vectors.scalars_at + first as u64, 0, bytes)
    }

    fn see_inputs(&mut self, guess: bool) -> Result<Inputs> {
        self.send_arrays(guess)?;
        self.forget_seen()?;
        let output = if guess { self.output } else { CellArray::default() };
        let scalars = self.k.vectors.scalars_at;
        launch::cell_inspect(
            self.stream,
            &CellInspectArgs { cells: self.source.cells, input: self.input, output, scalars },
        )?;
        let &Scalars { largest, largest_guess, not_finite: key, .. } = self.k.vectors.fetch(self.stream)?;
        let not_finite = if key == 0 {
            None
        } else {
            let nx = self.source.of.nx as u64;
            let (i, line) = ((!key % nx) as usize, !key / nx);
            let row = (line / 2) as usize;
            let (name, array) = if line % 2 == 0 { (self.arrays.input_name, self.input) } else { ("x", self.output) };
            Some((name, self.value(array, i, row)?, i, row))
        };
        Ok(Inputs { rhs_max: f64::from_bits(largest), guess_max: f64::from_bits(largest_guess), not_finite })
    }

    /// A value of the caller's arrays.
    fn value(&self, array: CellArray, i: usize, row: usize) -> Result<f64> {
        let ny = self.source.of.ny;
        let place = (row / ny) as u64 * array.plane as u64 + (row % ny) as u64 * array.ld as u64 + i as u64;
        let mut value = [0.0];
        self.stream.fetch(&mut value, array.values + 8 * place)?;
        self.stream.wait()?;
        Ok(value[0])
    }

    fn transfer(&self, array: CellArray, vector: Address, factor: f64) -> CellTransferArgs {
        CellTransferArgs { cells: self.source.cells, array, vector, factor, sum: Sum::default() }
    }

    /// b = scale input, with its square.
    fn load_rhs_square(&mut self, scale: f64) -> Result<()> {
        let of = CellTransferArgs { sum: self.sum(), ..self.transfer(self.input, self.k.vectors.b, scale) };
        launch::cell_load(self.stream, &of)?;
        self.rhs = Rhs { scale, projected: false };
        Ok(())
    }

    pub fn fill(&self, vector: Address) -> Result<()> {
        self.stream.fill(vector, 0, 8 * self.source.of.count())
    }

    /// v = v - mean(v) over singular components, plus the kept means with `restore`.
    pub(super) fn shift(&mut self, v: Address, restore: bool) {
        self.step(|s| match &s.k.singular {
            Some(singular) => singular.shift(s.stream, v, restore),
            None => Ok(()),
        });
    }
}

impl SolveSteps for Run<'_> {
    fn finish(&mut self) {
        self.step(|s| s.stream.wait());
    }

    fn inspect(&mut self, guess: bool) -> Inputs {
        self.attempt(|s| s.see_inputs(guess)).unwrap_or(Inputs { rhs_max: f64::NAN, ..Inputs::none() })
    }

    fn load(&mut self, scale: f64, guess: bool) -> f64 {
        let x = self.k.vectors.x;
        self.step(|s| if guess { launch::cell_load(s.stream, &s.transfer(s.output, x, scale)) } else { s.fill(x) });
        self.scalar(|s| {
            s.load_rhs_square(scale)?;
            s.summed()
        })
    }

    fn completes(&self) -> bool {
        self.k.deflation.is_some()
    }

    /// Who loads b anew projects it as before: what is there stays.
    fn load_rhs(&mut self, scale: f64) {
        let there = Rhs { scale, projected: self.k.singular.is_some() };
        if self.rhs != there {
            self.step(|s| s.load_rhs_square(scale));
        }
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let b = self.k.vectors.b;
        let worst = |s: &mut Self| match &mut s.k.singular {
            Some(singular) => singular.worst(s.stream, b),
            None => Ok((0, 0.0, 0.0)),
        };
        self.attempt(worst).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn project_rhs(&mut self) {
        if !self.rhs.projected {
            self.shift(self.k.vectors.b, false);
            self.rhs.projected = true;
        }
    }

    fn keep_means(&mut self) {
        let x = self.k.vectors.x;
        self.step(|s| match &s.k.singular {
            Some(singular) => singular.keep(s.stream, x),
            None => Ok(()),
        });
    }

    fn whole_residual_norm2(&mut self) -> f64 {
        let z = self.k.vectors.z;
        self.scalar(|s| {
            s.residual_to(z, s.sum())?;
            s.summed()
        })
    }

    /// x = x^ + Z E^-1 Z^T (b - A x^).
    fn back_substitute(&mut self) -> f64 {
        let Vectors { x, q, .. } = self.k.vectors;
        if self.k.deflation.is_some() {
            self.step(|s| {
                s.residual_to(q, s.sum())?;
                let Some(deflation) = &mut s.k.deflation else { return Ok(()) };
                s.k.seconds_coarse += deflation.add_part(s.stream, s.source, q, x)?;
                Ok(())
            });
        }
        // Where singular, x is shifted first.
        if self.k.singular.is_some() { 0.0 } else { self.largest(VectorId::X) }
    }

    fn shift_means(&mut self, restore: bool) {
        self.shift(self.k.vectors.x, restore);
    }

    fn store(&mut self, scale: f64) {
        self.step(|s| {
            launch::cell_store(s.stream, &s.transfer(s.output, s.k.vectors.x, scale.recip()))?;
            s.fetch_output()
        });
    }

    fn multiply_rhs(&mut self) {
        let Vectors { b, x, .. } = self.k.vectors;
        self.step(|s| launch::cell_product(s.stream, &s.k.product_args(s.source, b, x, Default::default())));
    }
}
