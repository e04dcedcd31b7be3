//! Start of a solve. With fused stages (kernels/rrb/fused.cuh), the start and the loop are queued immediately, with the
//! scale of the last solve that used fused stages. In the first such solve, and without fused stages, a kernel inspects
//! the caller's arrays, and the host then selects the scale.

use super::run::{DeviceResults, DirectStartResults, LaunchMode, ResidualOrigin, Run, StartResults};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CellArray, InspectArgs, ReduceArgs, Scalars, Stage, StartEndArgs, StartLoopArgs, TransferArgs,
};
use crate::cuda::looped::DeviceLoop;
use crate::error::Result;
use crate::krylov::solve_steps::Inputs;
use crate::krylov::state::TestCode;

/// If max |x| is below this value, values of x may be subnormal. The host, and not the kernel, then decides whether x
/// is returned. The host also decides if `Criterion::unchecked_threshold` requires a check.
const MIN_SAFE_MAGNITUDE: f64 = 1e-200;

/// Magnitudes whose squares, and sums of squares, neither underflow nor overflow.
const SAFE_SQUARE_RANGE: std::ops::Range<f64> = 1e-120..1e120;

impl Run<'_> {
    /// Inspects the caller's arrays. If the solve may start with the scale of the last solve, also executes the start.
    /// Waits for the results.
    pub fn inspect_inputs(&mut self, has_guess: bool) -> Result<Inputs> {
        self.call.send_arrays(has_guess)?;
        match self.last_scale.filter(|_| self.mode == LaunchMode::Fused) {
            Some(scale) => self.start_with_scale(scale)?,
            None => self.inspect_vectors(has_guess)?,
        }
        self.call.inputs(&self.packed.scalars)
    }

    /// Computes, in b and with `has_guess` also in x, the largest magnitude of each array and the first entry that is
    /// not finite. Also computes <b, b>.
    fn inspect_vectors(&mut self, has_guess: bool) -> Result<()> {
        let grid = self.source.shape.grid;
        let arguments = |input, output, ld| InspectArgs {
            input,
            output,
            ld,
            nx: grid.nx as i32,
            rows: grid.ny as i32,
            first_row: 0,
            scalars: self.packed.scalars.address,
            partial: self.packed.partial,
        };
        let (input, output) = (self.call.input, self.call.output);
        let share_launch = input.ld == output.ld;
        let output_address = if has_guess && share_launch { output.values } else { 0 };
        launch::inspect(self.stream, &arguments(input.values, output_address, input.ld))?;
        if has_guess && !share_launch {
            // The arrays need two launches if one is on the host and the other on the device, because their leading
            // dimensions then differ.
            launch::inspect(self.stream, &InspectArgs { partial: 0, ..arguments(0, output.values, output.ld) })?;
        }
        let &Scalars { largest, b_norm2, .. } = self.fetch_scalars()?;
        self.results =
            DeviceResults::Inspected(SAFE_SQUARE_RANGE.contains(&f64::from_bits(largest)).then_some(b_norm2));
        Ok(())
    }

    /// Executes the step `load` in `LaunchMode::Fused`. Returns <b, b>.
    pub fn load_fused(&mut self, scale: f64, has_guess: bool) -> Result<f64> {
        *self.last_scale = Some(scale);
        let direct_start = match self.results {
            DeviceResults::Started(start) => start.direct_start.filter(|direct_start| direct_start.scale == scale),
            _ => None,
        };
        if direct_start.is_none() {
            if matches!(self.results, DeviceResults::Started(start) if !start.is_finite()) {
                // The previous start used another scale, and may have written large values to the padding.
                self.packed.clear_vectors(self.stream)?;
            }
            self.start_with_scale(scale)?;
        }
        let b_norm2 = self.packed.scalars.b_norm2;
        if !has_guess
            && !matches!(self.results, DeviceResults::Started(StartResults { origin: ResidualOrigin::Rhs, .. }))
        {
            self.results = DeviceResults::None;
            self.clear_planes(self.packed.x)?;
        }
        Ok(b_norm2)
    }

    /// Executes the whole start, from the caller's arrays to p and q, with the factor `scale`. Waits once.
    fn start_with_scale(&mut self, scale: f64) -> Result<()> {
        launch::begin_solve(self.stream, &self.start_end_args(scale, Stage::Start, true))?;
        self.packed.compute_start(self.stream, self.source)?;
        let loop_is_launched = self.start_loop(scale)?;
        let &Scalars { all_nodes_norm2, norm2, rho, sigma, largest_guess, .. } = &*self.packed.scalars;
        let origin = if largest_guess == 0 { ResidualOrigin::Rhs } else { ResidualOrigin::Solution };
        let direct_start = Some(DirectStartResults { scale, all_nodes_norm2 });
        self.results =
            DeviceResults::Started(StartResults { origin, norm2, rho, sigma, direct_start, loop_is_launched });
        Ok(())
    }

    /// Repeats the start from the caller's arrays, which are unchanged. This is needed if the device has begun a loop
    /// with wrong limits, because this loop has overwritten the results of the previous start.
    pub fn restart(&mut self) -> Result<()> {
        self.stream.wait()?;
        let criterion = self.criterion.take();
        let result = self.start_with_scale(self.scale);
        self.criterion = criterion;
        result
    }

    /// Launches the loop after the start, if the device can decide whether the loop is needed (kernel
    /// `rrb_start_loop_f64`). Waits for the start. Returns whether the loop has begun. The loop must not begin after a
    /// load that completes the guess (`complete_guess` of krylov/solve/returned.rs). Such a load occurs only if the
    /// stopping test uses the preconditioned norm. In this norm, the kernel begins no loop from a guess.
    fn start_loop(&mut self, scale: f64) -> Result<bool> {
        let Some(criterion) = self.criterion.filter(|_| self.runs_by_itself()) else {
            return self.fetch_scalars().map(|_| false);
        };
        let arguments = StartLoopArgs {
            scalars: self.packed.scalars.address,
            host_scalars: self.packed.scalars.host_copy_address(),
            scale,
            rel_tol: criterion.rel_tol,
            abs_tol: criterion.abs_tol * scale,
            least_threshold_fraction: criterion.min_threshold_fraction,
            vanishing: criterion.vanishing_fraction,
            rounding_fraction: criterion.rounding_fraction,
            max_iter: criterion.max_iter as i64,
            pause_at: self.pause_interval(),
            preconditioned: i32::from(criterion.is_preconditioned_norm),
            of_initial: i32::from(criterion.is_reference_initial),
        };
        launch::start_loop(self.stream, &arguments)?;
        self.packed.start_event.record(self.stream)?;
        self.launch()?;
        self.packed.start_event.wait()?;
        Ok(self.packed.scalars.code == TestCode::Running as i32)
    }

    /// Returns the arguments of the kernels that start and end a solve. `may_deliver`: whether x may be returned
    /// without a check by the host.
    pub fn start_end_args(&self, scale: f64, stage: Stage, may_deliver: bool) -> StartEndArgs {
        let ReduceArgs { k, b, x, r_b1, r_b2, scalars } = self.packed.reduce_args();
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
            min_magnitude: if may_deliver { MIN_SAFE_MAGNITUDE * scale } else { f64::INFINITY },
            max_magnitude: f64::MAX * scale.min(1.0),
            stage: stage as i32,
            partial: self.packed.partial,
            all_nodes_partial: self.packed.norm_partial,
            scalars,
        }
    }

    /// Sets four planes and their padding to zero. This is needed because sums include the padding, in which diverging
    /// iterations leave nonzero values.
    pub fn clear_planes(&self, planes: Address) -> Result<()> {
        self.stream.fill(planes, 0, 32 * self.source.g.plane as usize)
    }

    /// Returns the arguments of a copy between the storage by colour and a caller's array.
    pub fn transfer_args(&self, by_colour: Address, natural: CellArray, scale: f64) -> TransferArgs {
        TransferArgs { g: self.source.g, by_colour, natural: natural.values, ld: natural.ld, scale, loop_guard: 0 }
    }
}
