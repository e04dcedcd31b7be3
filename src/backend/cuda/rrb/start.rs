//! How a solve begins: a look at the caller's arrays, or, scaled as in the last solve, all that comes before the loop
//! in one go, with the loop behind it. And how arrays go to the device and back.

use super::run::{Begun, Origin, Run, Stage, Start, Way};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{
    Address, EndArgs, How, InspectArgs, ReduceArgs, Scalars, SetOutArgs, TransferArgs, code,
};
use crate::backend::cuda::staging::Job;
use crate::backend::steps::solve::Inputs;
use crate::error::Result;
use std::time::Instant;

/// Below this largest value of x, and where `Criterion::lost` says so, the host decides whether x is the caller's:
/// values may be subnormal.
const FAR_FROM_SUBNORMAL: f64 = 1e-200;

/// Squares of numbers between these neither vanish nor overflow, nor do sums of them.
const SQUARES_FIT: std::ops::Range<f64> = 1e-120..1e120;

impl Run<'_> {
    /// Looks at the caller's arrays; where the solve may begin as the last one did, it has begun then.
    pub fn see_inputs(&mut self, guess: bool) -> Result<Inputs> {
        let sent = self.send_arrays(guess)?;
        match self.expected.filter(|_| self.way == Way::Fused) {
            Some(scale) => self.begin_at(scale)?,
            None => self.look(guess)?,
        }
        if sent {
            self.seconds_transfer += self.k.watch.seconds()?;
        }
        let &Scalars { largest, largest_guess, not_finite: key, .. } = &*self.k.scalars;
        let not_finite = if key == 0 {
            None
        } else {
            let nx = self.source.shape.grid.nx as u64;
            let (i, line) = ((!key % nx) as usize, !key / nx);
            let j = (line / 2) as usize;
            let (name, array) = if line % 2 == 0 { (self.arrays.input_name, self.input) } else { ("x", self.output) };
            Some((name, self.value(array, i, j)?, i, j))
        };
        Ok(Inputs { rhs_max: f64::from_bits(largest), guess_max: f64::from_bits(largest_guess), not_finite })
    }

    /// Largest magnitudes of the caller's arrays, the first entry that is not finite, and <b, b>, to the scalars here.
    fn look(&mut self, guess: bool) -> Result<()> {
        let grid = self.source.shape.grid;
        let look = |(input, ld): (Address, usize), output: Address| InspectArgs {
            input,
            output,
            ld: ld as i64,
            nx: grid.nx as i32,
            rows: grid.ny as i32,
            first_row: 0,
            scalars: self.k.scalars_at,
            partial: self.k.partial,
        };
        let at_once = self.input.1 == self.output.1;
        launch::inspect(self.stream, &look(self.input, if guess && at_once { self.output.0 } else { 0 }))?;
        if guess && !at_once {
            // One on the host, one on the device with rows further apart: one after the other.
            let output = look((0, self.output.1), self.output.0);
            launch::inspect(self.stream, &InspectArgs { partial: 0, ..output })?;
        }
        let &Scalars { largest, b_norm2, .. } = self.fetch()?;
        self.stage = Stage::Inspected(SQUARES_FIT.contains(&f64::from_bits(largest)).then_some(b_norm2));
        Ok(())
    }

    /// `load` where the ends of a solve are fused. Returns <b, b>.
    pub fn load_fused(&mut self, scale: f64, guess: bool) -> Result<f64> {
        *self.expected = Some(scale);
        let begun = match self.stage {
            Stage::Started(start) => start.begun.filter(|begun| begun.scale == scale),
            _ => None,
        };
        if begun.is_none() {
            if matches!(self.stage, Stage::Started(start) if !start.is_finite()) {
                // Padding too may hold what came of another scale.
                self.k.clear_vectors(self.stream)?;
            }
            self.begin_at(scale)?;
        }
        let b_norm2 = self.k.scalars.b_norm2;
        if !guess && !matches!(self.stage, Stage::Started(Start { origin: Origin::Rhs, .. })) {
            self.stage = Stage::Idle;
            self.fill(self.k.x)?;
        }
        Ok(b_norm2)
    }

    /// From the caller's arrays to p and q of the start, scaled as the last solve was, or as is known now. Waits once.
    fn begin_at(&mut self, scale: f64) -> Result<()> {
        launch::begin(self.stream, &self.end_args(scale, How::Start, true))?;
        self.k.start(self.stream, self.source)?;
        let looping = self.set_out(scale)?;
        let &Scalars { whole_norm2, norm2, rho, sigma, largest_guess, .. } = &*self.k.scalars;
        let origin = if largest_guess == 0 { Origin::Rhs } else { Origin::Solution };
        let begun = Some(Begun { scale, whole_norm2 });
        self.stage = Stage::Started(Start { origin, norm2, rho, sigma, begun, looping });
        Ok(())
    }

    /// The start anew, from the caller's arrays, which are as they were: a loop that went on from it is in the way.
    pub fn begin_again(&mut self) -> Result<()> {
        self.stream.wait()?;
        let criterion = self.criterion.take();
        let begun = self.begin_at(self.scale);
        self.criterion = criterion;
        begun
    }

    /// Waits for a start, and launches the loop behind it where the device can decide upon it (`rrb_set_out`). Whether
    /// it has begun. Not by a load that comes late, where the guess is completed (`complete_guess` of
    /// solver/rrb/returned.rs): that is so in the papers' norm alone, in which no loop begins from a guess.
    fn set_out(&mut self, scale: f64) -> Result<bool> {
        let Some(c) = self.criterion.filter(|_| self.runs_by_itself()) else {
            return self.fetch().map(|_| false);
        };
        let arguments = SetOutArgs {
            scalars: self.k.scalars_at,
            found: self.k.scalars.on_device(),
            scale,
            rel_tol: c.rel_tol,
            abs_tol: c.abs_tol * scale,
            futile: c.futile,
            vanishing: c.vanishing,
            baseless: c.baseless,
            max_iter: c.max_iter as i64,
            pause_at: self.lag(),
            preconditioned: i32::from(c.preconditioned),
            of_initial: i32::from(c.of_initial),
        };
        launch::set_out(self.stream, &arguments)?;
        self.k.started.note(self.stream)?;
        self.launch_loop()?;
        self.k.started.wait()?;
        Ok(self.k.scalars.code == code::RUNNING)
    }

    /// `delivers`: x may be the caller's without a look of the host.
    pub fn end_args(&self, scale: f64, how: How, delivers: bool) -> EndArgs {
        let ReduceArgs { k, b, x, r, scalars } = self.k.reduce_args();
        EndArgs {
            k,
            center: self.source.m.center,
            b,
            x,
            r,
            input: self.input.0,
            output: self.output.0,
            input_ld: self.input.1 as i64,
            output_ld: self.output.1 as i64,
            scale,
            least: if delivers { FAR_FROM_SUBNORMAL * scale } else { f64::INFINITY },
            limit: f64::MAX * scale.min(1.0),
            how: how as i32,
            partial: self.k.partial,
            whole_partial: self.k.norm_partial,
            scalars,
        }
    }

    /// Zeros in four planes, their padding too, which sums go over: iterations that grow without bound leave something
    /// there.
    pub fn fill(&self, planes: Address) -> Result<()> {
        self.stream.fill(planes, 0, 32 * self.source.g.plane as usize)
    }

    pub fn transfer(&self, colours: Address, (natural, ld): (Address, usize), scale: f64) -> TransferArgs {
        TransferArgs { g: self.source.g, colours, natural, ld: ld as i64, scale, guard: 0 }
    }

    /// Copies what is on the host to its place on the device; whether there was any. `watch` has the time.
    fn send_arrays(&mut self, guess: bool) -> Result<bool> {
        let (input_here, output_here) = (self.arrays.device_input == 0, guess && self.arrays.device_output == 0);
        if !input_here && !output_here {
            return Ok(false);
        }
        let (nx, ny, ld) = (self.source.shape.grid.nx, self.source.shape.grid.ny, self.arrays.ld);
        self.k.watch.note(0, self.stream)?;
        let shape = (ld, nx, ny);
        let output = &*self.arrays.output;
        match (input_here, output_here) {
            (true, true) => {
                let input = Job::read(self.arrays.input, shape, self.input.0);
                self.copies.send(self.stream, &[input, Job::read(output, shape, self.output.0)])?;
            }
            (true, false) => self.copies.send(self.stream, &[Job::read(self.arrays.input, shape, self.input.0)])?,
            _ => self.copies.send(self.stream, &[Job::read(output, shape, self.output.0)])?,
        }
        self.k.watch.note(1, self.stream)?;
        Ok(true)
    }

    /// Copies the output back to the host, if it is there, and waits until it is visible.
    pub fn fetch_output(&mut self) -> Result<()> {
        if self.arrays.device_output != 0 {
            return self.stream.wait();
        }
        let (nx, ny) = (self.source.shape.grid.nx, self.source.shape.grid.ny);
        let shape = (self.arrays.ld, nx, ny);
        self.stream.wait()?;
        // Threads copy too: by the host's clock.
        let start = Instant::now();
        self.copies.fetch(self.stream, &[Job::write(self.arrays.output, shape, self.output.0)])?;
        self.stream.wait()?;
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// The value that is not finite, of the caller's arrays or of their copies.
    fn value(&self, (address, ld): (Address, usize), i: usize, j: usize) -> Result<f64> {
        let mut value = [0.0];
        self.stream.fetch(&mut value, address + 8 * (j * ld + i) as u64)?;
        self.stream.wait()?;
        Ok(value[0])
    }
}
