//! Start of a solve. With fused stages, the start and the loop are queued immediately, with the scale of the last solve
//! with fused stages. In the first such solve, and without fused stages, a kernel inspects the caller's arrays, and the
//! host then selects the scale.

use super::run::{DeviceResults, DirectStart, LaunchMode, Origin, Run, Start};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CellArray, InspectArgs, ReduceArgs, Scalars, Stage, StartEndArgs, StartLoopArgs, TransferArgs,
};
use crate::cuda::looped::Looped;
use crate::error::Result;
use crate::krylov::solve_steps::Inputs;
use crate::krylov::state::Code;

/// If max |x| is below this value, values of x may be subnormal. The host then decides whether x is returned; it also
/// does so if `Criterion::check_below` requires a check.
const FAR_FROM_SUBNORMAL: f64 = 1e-200;

/// Magnitudes whose squares, and sums of squares, neither underflow nor overflow.
const SQUARES_FIT: std::ops::Range<f64> = 1e-120..1e120;

impl Run<'_> {
    /// Inspects the caller's arrays. If the solve may start with the scale of the last solve, also executes the start.
    /// Waits for the results.
    pub fn inspect_inputs(&mut self, guess: bool) -> Result<Inputs> {
        self.call.send_arrays(guess)?;
        match self.last_scale.filter(|_| self.mode == LaunchMode::Fused) {
            Some(scale) => self.start_with_scale(scale)?,
            None => self.inspect_vectors(guess)?,
        }
        self.call.inputs(&self.k.scalars)
    }

    /// Computes the largest magnitude of b and, with `guess`, of x, the first entry of these arrays that is not finite,
    /// and <b, b>.
    fn inspect_vectors(&mut self, guess: bool) -> Result<()> {
        let grid = self.source.shape.grid;
        let arguments = |input, output, ld| InspectArgs {
            input,
            output,
            ld,
            nx: grid.nx as i32,
            rows: grid.ny as i32,
            first_row: 0,
            scalars: self.k.scalars.at,
            partial: self.k.partial,
        };
        let (input, output) = (self.call.input, self.call.output);
        let at_once = input.ld == output.ld;
        let with = if guess && at_once { output.values } else { 0 };
        launch::inspect(self.stream, &arguments(input.values, with, input.ld))?;
        if guess && !at_once {
            // The arrays need two launches if one is on the host and the other on the device, because their leading
            // dimensions then differ.
            launch::inspect(self.stream, &InspectArgs { partial: 0, ..arguments(0, output.values, output.ld) })?;
        }
        let &Scalars { largest, b_norm2, .. } = self.fetch()?;
        self.results = DeviceResults::Inspected(SQUARES_FIT.contains(&f64::from_bits(largest)).then_some(b_norm2));
        Ok(())
    }

    /// Executes the step `load` if the start and the end of a solve are fused. Returns <b, b>.
    pub fn load_fused(&mut self, scale: f64, guess: bool) -> Result<f64> {
        *self.last_scale = Some(scale);
        let begun = match self.results {
            DeviceResults::Started(start) => start.begun.filter(|begun| begun.scale == scale),
            _ => None,
        };
        if begun.is_none() {
            if matches!(self.results, DeviceResults::Started(start) if !start.is_finite()) {
                // The start with the other scale may have written large values to the padding.
                self.k.clear_vectors(self.stream)?;
            }
            self.start_with_scale(scale)?;
        }
        let b_norm2 = self.k.scalars.b_norm2;
        if !guess && !matches!(self.results, DeviceResults::Started(Start { origin: Origin::Rhs, .. })) {
            self.results = DeviceResults::None;
            self.clear_planes(self.k.x)?;
        }
        Ok(b_norm2)
    }

    /// Executes the whole start, from the caller's arrays to p and q, with the factor `scale`. Waits once.
    fn start_with_scale(&mut self, scale: f64) -> Result<()> {
        launch::begin(self.stream, &self.start_end_args(scale, Stage::Start, true))?;
        self.k.start(self.stream, self.source)?;
        let loop_is_launched = self.start_loop(scale)?;
        let &Scalars { whole_norm2, norm2, rho, sigma, largest_guess, .. } = &*self.k.scalars;
        let origin = if largest_guess == 0 { Origin::Rhs } else { Origin::Solution };
        let begun = Some(DirectStart { scale, whole_norm2 });
        self.results = DeviceResults::Started(Start { origin, norm2, rho, sigma, begun, loop_is_launched });
        Ok(())
    }

    /// Repeats the start from the caller's arrays, which are unchanged. This is needed after a loop with other limits,
    /// which has overwritten the results of the previous start.
    pub fn restart(&mut self) -> Result<()> {
        self.stream.wait()?;
        let criterion = self.criterion.take();
        let begun = self.start_with_scale(self.scale);
        self.criterion = criterion;
        begun
    }

    /// Launches the loop after the start, if the device can decide whether the loop is needed (kernel
    /// `rrb_start_loop`). Waits for the start. Returns whether the loop has begun. The loop must not begin after a load
    /// that completes the guess (`complete_guess` of krylov/solve/returned.rs). This condition is met: such a load
    /// occurs only in the preconditioned norm, and in this norm, the kernel begins no loop from a guess.
    fn start_loop(&mut self, scale: f64) -> Result<bool> {
        let Some(c) = self.criterion.filter(|_| self.runs_by_itself()) else {
            return self.fetch().map(|_| false);
        };
        let arguments = StartLoopArgs {
            scalars: self.k.scalars.at,
            host_scalars: self.k.scalars.host_copy_address(),
            scale,
            rel_tol: c.rel_tol,
            abs_tol: c.abs_tol * scale,
            least_threshold_fraction: c.least_threshold_fraction,
            vanishing: c.vanishing,
            rounding_fraction: c.rounding_fraction,
            max_iter: c.max_iter as i64,
            pause_at: self.lag(),
            preconditioned: i32::from(c.preconditioned),
            of_initial: i32::from(c.of_initial),
        };
        launch::start_loop(self.stream, &arguments)?;
        self.k.started.record(self.stream)?;
        self.launch()?;
        self.k.started.wait()?;
        Ok(self.k.scalars.code == Code::Running as i32)
    }

    /// Returns the arguments of the kernels that start and end a solve. `delivers`: whether x may be returned without a
    /// check by the host.
    pub fn start_end_args(&self, scale: f64, stage: Stage, delivers: bool) -> StartEndArgs {
        let ReduceArgs { k, b, x, r_b1, r_b2, scalars } = self.k.reduce_args();
        StartEndArgs {
            k,
            center: self.source.m.center,
            b,
            x,
            r_b1,
            r_b2,
            input: self.call.input.values,
            output: self.call.output.values,
            input_ld: self.call.input.ld,
            output_ld: self.call.output.ld,
            scale,
            least: if delivers { FAR_FROM_SUBNORMAL * scale } else { f64::INFINITY },
            limit: f64::MAX * scale.min(1.0),
            stage: stage as i32,
            partial: self.k.partial,
            whole_partial: self.k.norm_partial,
            scalars,
        }
    }

    /// Sets four planes and their padding to zero. This is needed because sums include the padding, in which diverging
    /// iterations leave nonzero values.
    pub fn clear_planes(&self, planes: Address) -> Result<()> {
        self.stream.fill(planes, 0, 32 * self.source.g.plane as usize)
    }

    /// Returns the arguments of a copy between the storage by colour and a caller's array.
    pub fn transfer_args(&self, colours: Address, natural: CellArray, scale: f64) -> TransferArgs {
        TransferArgs { g: self.source.g, colours, natural: natural.values, ld: natural.ld, scale, guard: 0 }
    }
}
