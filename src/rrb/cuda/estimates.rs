//! Choice of the cycle at factorization, and estimates of its eigenvalue bounds (docs/theory/rrb.md, recursive cycles).

use super::packed::Packed;
use super::program::{Programs, StepExecution, Steps};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{How, InnerProductArgs, Op, StepArgs};
use crate::error::Result;
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, Inner, Kind, Recursion};

impl Packed {
    /// Generates the lists of steps for a cycle, and copies them to the device.
    pub fn write_programs(&mut self, stream: &Stream, recursion: &Recursion) -> Result<()> {
        self.programs = Programs::write(self, stream.device(), recursion)?;
        stream.send(self.ops_at, &self.programs.ops)?;
        stream.wait()?;
        self.recursion = *recursion;
        Ok(())
    }

    /// Chooses the cycle, estimates its eigenvalue bounds, and generates its lists of steps. Returns whether the kind
    /// of cycle is unchanged.
    pub fn prepare_cycle(&mut self, stream: &Stream, cycle: &Cycle) -> Result<bool> {
        let before = self.recursion.kind;
        let plain = self.sections.len() < 2 || cycle.kind == Some(Kind::V) || self.is_truncated();
        if self.programs.ops.is_empty() || plain && before != Kind::V {
            self.write_programs(stream, &Recursion::V)?;
        }
        if plain {
            return Ok(before == Kind::V);
        }
        let steps = Steps::new(&self.sections, self.grids.len(), self.shape.schur)?;
        let mut now = ImmediateSteps { k: self, stream };
        let mut steps = steps.with_execution(&mut now);
        let found = recursion::prepare(&mut steps, cycle, 1.0);
        if let Some(error) = steps.error {
            return Err(error);
        }
        self.write_programs(stream, &found)?;
        Ok(before == found.kind)
    }
}

/// Execution of steps for the estimates: runs recorded steps immediately, and returns inner products to the host.
struct ImmediateSteps<'a> {
    k: &'a mut Packed,
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
            let joined = self.k.programs.joined(self.k, &ops[n..]);
            // The results must not remain in the shared memory of a cluster, because other kernels read them.
            self.k.programs.assign(self.k, &mut ops[n..n + joined], false);
            n += joined.max(1);
        }
        // `ops` is in pageable memory, which the driver copies before the call returns. `ops` may therefore be dropped.
        self.stream.send(self.k.ops_at, &ops)?;
        self.k.run_ops(self.stream, &ops, 0..ops.len(), How::Nothing, [0; 2], 0)
    }
}

impl StepExecution for ImmediateSteps<'_> {
    fn inner_product(&mut self, ops: Vec<Op>, grid: usize, a: Inner, b: Inner) -> Result<f64> {
        self.run(ops)?;
        let (k, partial, scalars) = (self.k.grids[grid].sweep, self.k.partial, self.k.scalars.at);
        let arguments = InnerProductArgs { k, a: a as i32, b: b as i32, partial, scalars };
        launch::inner_product(self.stream, self.k.shape.storage, &arguments)?;
        Ok(self.k.scalars.fetch(self.stream)?.sum)
    }

    fn set_all_frequencies(&mut self, ops: Vec<Op>, grid: usize) -> Result<()> {
        self.run(ops)?;
        let arguments = StepArgs { k: self.k.grids[grid].sweep, ..StepArgs::default() };
        launch::set_all_frequencies(self.stream, self.k.shape.storage, &arguments)
    }
}
