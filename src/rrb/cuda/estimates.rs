//! Choice of the cycle at factorization, and estimates of its eigenvalue bounds (docs/theory/rrb.md, recursive cycles).

use super::packed::Packed;
use super::program::{Programs, StepExecution, StepRecorder};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{InnerProductArgs, Op, Stage, StepArgs};
use crate::error::Result;
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, CycleKind, CycleVector, Recursion};

impl Packed {
    /// Generates the lists of steps for a cycle, and copies them to the device.
    pub fn write_programs(&mut self, stream: &Stream, recursion: &Recursion) -> Result<()> {
        self.programs = Programs::generate(self, stream.device(), recursion)?;
        stream.send(self.ops_address, &self.programs.ops)?;
        stream.wait()?;
        self.recursion = *recursion;
        Ok(())
    }

    /// Chooses the cycle, estimates its eigenvalue bounds, and generates its lists of steps. Returns whether the kind
    /// of cycle is unchanged.
    pub fn prepare_cycle(&mut self, stream: &Stream, cycle: &Cycle) -> Result<bool> {
        let previous_kind = self.recursion.kind;
        let is_v_cycle = self.sections.len() < 2 || cycle.kind == Some(CycleKind::V) || self.is_truncated();
        if self.programs.ops.is_empty() || is_v_cycle && previous_kind != CycleKind::V {
            self.write_programs(stream, &Recursion::V)?;
        }
        if is_v_cycle {
            return Ok(previous_kind == CycleKind::V);
        }
        let steps = StepRecorder::new(&self.sections, self.grids.len(), self.shape.uses_schur)?;
        let mut execution = ImmediateSteps { packed: self, stream };
        let mut steps = steps.with_execution(&mut execution);
        let recursion = recursion::prepare_recursion(&mut steps, cycle, 1.0);
        if let Some(error) = steps.error {
            return Err(error);
        }
        self.write_programs(stream, &recursion)?;
        Ok(previous_kind == recursion.kind)
    }
}

/// Execution of steps for the estimates: runs recorded steps immediately, and returns inner products to the host.
struct ImmediateSteps<'a> {
    packed: &'a mut Packed,
    stream: &'a Stream,
}

impl ImmediateSteps<'_> {
    /// Groups the steps into kernels and launches them.
    fn run(&mut self, mut ops: Vec<Op>) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let mut n = 0;
        while n < ops.len() {
            let joined_count = self.packed.programs.count_joined_ops(self.packed, &ops[n..]);
            // `false`: the results of these steps must not remain in the shared memory of a cluster, because other
            // kernels read these results.
            self.packed.programs.assign_blocks(self.packed, &mut ops[n..n + joined_count], false);
            n += joined_count.max(1);
        }
        // `ops` is in pageable memory, which the driver copies before the call returns. `ops` may therefore be dropped.
        self.stream.send(self.packed.ops_address, &ops)?;
        self.packed.run_ops(self.stream, &ops, 0..ops.len(), Stage::Nothing, [0; 2], 0)
    }
}

impl StepExecution for ImmediateSteps<'_> {
    fn inner_product(&mut self, ops: Vec<Op>, grid: usize, a: CycleVector, b: CycleVector) -> Result<f64> {
        self.run(ops)?;
        let (k, partial, scalars) = (self.packed.grids[grid].sweep, self.packed.partial, self.packed.scalars.address);
        let arguments = InnerProductArgs { k, a: a as i32, b: b as i32, partial, scalars };
        launch::inner_product(self.stream, self.packed.shape.storage, &arguments)?;
        Ok(self.packed.scalars.fetch(self.stream)?.sum)
    }

    fn set_all_frequencies(&mut self, ops: Vec<Op>, grid: usize) -> Result<()> {
        self.run(ops)?;
        let arguments = StepArgs { k: self.packed.grids[grid].sweep, ..StepArgs::default() };
        launch::set_all_frequencies(self.stream, self.packed.shape.storage, &arguments)
    }
}
