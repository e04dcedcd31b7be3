//! The PCG loop on a device, for all families: the scalars that device and host share, and the CUDA graphs that repeat
//! iterations. `run` launches the loop and reads its result. A family implements `DeviceLoop` with its steps. Within
//! the loop, the device itself decides whether to continue (kernels/common/scalars.cuh).

use super::driver::{Device, Pinned, RecordedGraph, Stream};
use super::launch::{Address, RING_LENGTH, ReportArgs, Scalars, Step};
use crate::error::{Error, Result, reserve};
use crate::krylov::state::{State, Test, TestCode};
use crate::options::Norm;
use crate::report::{Event, Observer};
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Iterations between two checks of a monitor that may stop the solve.
pub const MONITOR_LAG: i64 = 32;

/// Number of entries of the ring buffer (`Scalars::ring`) that are always copied with the scalars. The other entries
/// are copied only if the loop has written them.
const FIRST_RING_ENTRIES: usize = 64;

/// Returns whether `RRBSOLVER_CUDA_GRAPH=off` is set. The host then launches each kernel, for tools that do not support
/// CUDA graphs.
pub fn graphs_are_disabled() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_GRAPH").is_some_and(|value| value == "off")
}

/// The scalars of a solve on the device, and their page-locked host copy. `Deref` gives the host copy.
pub struct SharedScalars {
    /// Device address of the scalars.
    pub address: Address,
    host_copy: Pinned<Scalars>,
    /// Kernel that writes the host copy. Without such a kernel the driver copies the scalars.
    report: Option<ReportKernel>,
}

type ReportKernel = fn(&Stream, &ReportArgs) -> Result<()>;

impl SharedScalars {
    /// Initializes the scalars at device address `address`.
    pub fn new(stream: &Stream, address: Address, report: Option<ReportKernel>) -> Result<Self> {
        let scalars = Self { address, host_copy: Pinned::new(stream.device(), Scalars::start())?, report };
        scalars.send(stream, size_of::<Scalars>())?;
        stream.wait()?;
        Ok(scalars)
    }

    /// Returns the device address of the host copy, for kernels that write the copy.
    pub fn host_copy_address(&mut self) -> Address {
        self.host_copy.device_address()
    }

    /// Queues a copy of the first `bytes` bytes of the host copy to the device.
    pub fn send(&self, stream: &Stream, bytes: usize) -> Result<()> {
        stream.send_prefix(self.address, &self.host_copy, bytes)
    }

    /// Queues a copy of the scalars to the host, with at most `ring_entries` ring entries. The kernel `report`, if
    /// there is one, then also resets the scalars that `reset_findings` resets.
    fn start_fetch(&mut self, stream: &Stream, ring_entries: usize) -> Result<()> {
        if let Some(report) = self.report {
            return report(
                stream,
                &ReportArgs {
                    scalars: self.address,
                    host_scalars: self.host_copy_address(),
                    steps: ring_entries as i32,
                },
            );
        }
        stream.fetch_prefix(
            &mut self.host_copy,
            self.address,
            offset_of!(Scalars, ring) + ring_entries * size_of::<Step>(),
        )
    }

    /// Copies the scalars, without ring entries, to the host and waits.
    pub fn fetch(&mut self, stream: &Stream) -> Result<&Scalars> {
        self.start_fetch(stream, 0)?;
        stream.wait()?;
        Ok(&self.host_copy)
    }

    /// Copies the scalars and the written ring entries to the host and waits.
    fn fetch_steps(&mut self, stream: &Stream) -> Result<()> {
        self.start_fetch(stream, FIRST_RING_ENTRIES)?;
        stream.wait()?;
        let used_entries = self.ring_used as usize;
        if used_entries > FIRST_RING_ENTRIES {
            let first_address =
                self.address + (offset_of!(Scalars, ring) + FIRST_RING_ENTRIES * size_of::<Step>()) as u64;
            stream.fetch(&mut self.host_copy.ring[FIRST_RING_ENTRIES..used_entries], first_address)?;
            stream.wait()?;
        }
        Ok(())
    }

    /// Sets the largest magnitudes and the index of the first non-finite entry to zero, on the device.
    pub fn reset_findings(&self, stream: &Stream) -> Result<()> {
        let (start_offset, end_offset) = (offset_of!(Scalars, largest), offset_of!(Scalars, ticket));
        stream.fill(self.address + start_offset as u64, 0, end_offset - start_offset)
    }
}

impl Deref for SharedScalars {
    type Target = Scalars;

    fn deref(&self) -> &Scalars {
        &self.host_copy
    }
}

impl DerefMut for SharedScalars {
    fn deref_mut(&mut self) -> &mut Scalars {
        &mut self.host_copy
    }
}

/// Recorded loops whose graphs have different numbers of iterations. Empty if the host launches each iteration, or if
/// one kernel executes the whole loop.
#[derive(Default)]
pub struct RecordedLoops {
    /// Iterations per graph, and the graph.
    pub graphs: Vec<(usize, RecordedGraph)>,
}

impl RecordedLoops {
    /// Records loops that the device repeats without the host, one for each number of iterations in `body_lengths`.
    /// `iteration` launches one iteration and receives the handle of the loop condition. A graph of `previous` is kept
    /// if its launches are unchanged.
    pub fn new(
        device: &Arc<Device>,
        body_lengths: &[usize],
        previous: Option<Self>,
        mut iteration: impl FnMut(&Stream, u64) -> Result<()>,
    ) -> Result<Self> {
        let mut previous_loops = previous.unwrap_or_default().graphs.into_iter().map(|(_, graph)| graph);
        Self::record_each(body_lengths, |body_length| {
            RecordedGraph::record(device, previous_loops.next(), |stream, conditional| {
                (0..body_length).try_for_each(|_| iteration(stream, conditional))
            })
        })
    }

    /// Calls `record` once for each number of iterations in `body_lengths`.
    pub fn record_each(body_lengths: &[usize], mut record: impl FnMut(usize) -> Result<RecordedGraph>) -> Result<Self> {
        let mut graphs = Vec::new();
        reserve(&mut graphs, body_lengths.len(), "recorded loops")?;
        for body_length in body_lengths {
            graphs.push((*body_length, record(*body_length)?));
        }
        Ok(Self { graphs })
    }
}

/// The steps that a family adds to the PCG loop. The defaults do nothing before and after the loop.
pub trait DeviceLoop {
    /// Returns the scalars, the stream and the observer.
    fn loop_parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer);

    /// Returns the recorded loop and the stream on which to launch it, or `None` if the host launches the iterations.
    fn graph(&self) -> Option<(&RecordedGraph, &Stream)>;

    /// Launches one iteration, or the whole loop if one kernel executes it. An iteration computes the next p, q,
    /// rho = <r, M^-1 r> and sigma = <p, A p>, or ends the loop.
    fn launch_iteration(&mut self) -> Result<()>;

    /// Launches the loop.
    fn launch(&mut self) -> Result<()>
    where
        Self: Sized,
    {
        launch(self)
    }

    /// Returns the largest number of iterations before the loop pauses.
    fn pause_interval(&self) -> i64;

    /// Prepares the loop. Returns true if an earlier step has already launched the loop, and the limits and the first
    /// iteration of that launch are those of `_state`. `run` must then not launch it again.
    fn begin_loop(&mut self, _state: &State) -> Result<bool> {
        Ok(false)
    }

    /// Queues the kernels that usually run after the loop, without waiting for its end.
    fn queue_after_loop(&mut self, _test: &Test) -> Result<()> {
        Ok(())
    }

    /// Returns whether a paused loop should end because another preconditioner is expected to be faster.
    fn is_slow(&mut self, _state: &State) -> bool {
        false
    }

    /// Stores the state in which the loop ended. `was_paused`: whether the observer has stopped the loop.
    fn end_loop(&mut self, state: &State, was_paused: bool);
}

/// Launches the recorded loop. Without a graph, the host launches iterations until the device reports the end.
pub fn launch(device_loop: &mut impl DeviceLoop) -> Result<()> {
    if let Some((graph, stream)) = device_loop.graph() {
        return graph.launch(stream);
    }
    loop {
        device_loop.launch_iteration()?;
        let (scalars, stream, _) = device_loop.loop_parts();
        if scalars.fetch(stream)?.code != TestCode::Running as i32 {
            return Ok(());
        }
    }
}

/// Returns the number of iterations after which the loop pauses: for the observer, or because the ring is full.
pub fn observed_pause_interval(observer: &dyn Observer) -> i64 {
    if observer.may_stop() { MONITOR_LAG } else { RING_LENGTH as i64 }
}

/// Runs the PCG loop from the current p, q, rho and sigma until it ends, and returns the reason. `TestCode::Paused`
/// means that the observer has stopped the loop, or that `is_slow` has returned true. In the second case, `end_loop` is
/// not called.
pub fn run(device_loop: &mut impl DeviceLoop, state: &mut State) -> Result<TestCode> {
    let mut is_launched = device_loop.begin_loop(state)?;
    if !is_launched {
        set_limits(device_loop.loop_parts().0, state);
    }
    loop {
        if !std::mem::take(&mut is_launched) {
            let pause_interval = device_loop.pause_interval();
            let (s, stream, _) = device_loop.loop_parts();
            (s.code, s.loop_ended, s.will_converge, s.ring_used, s.pause_at) =
                (TestCode::Running as i32, 0, 0, 0, s.iterations + pause_interval);
            s.send(stream, offset_of!(Scalars, b_norm2))?;
            device_loop.launch()?;
        }
        device_loop.queue_after_loop(&state.test)?;
        let (scalars, stream, observer) = device_loop.loop_parts();
        scalars.fetch_steps(stream)?;
        report_iterations(scalars, observer, state);
        let was_paused = scalars.code == TestCode::Paused as i32;
        if was_paused && !state.stop_requested {
            if device_loop.is_slow(state) {
                return Ok(TestCode::Paused);
            }
            continue;
        }
        device_loop.end_loop(state, was_paused);
        return end_code(device_loop.loop_parts().0, state);
    }
}

/// Sets the limits of the stopping test and the initial scalars of the loop.
fn set_limits(scalars: &mut Scalars, state: &State) {
    (scalars.threshold, scalars.vanishing) = (state.test.threshold, state.test.vanishing_norm);
    (scalars.iterations, scalars.max_iter) = (state.iterations as i64, state.test.max_iter as i64);
    scalars.preconditioned = i32::from(state.test.norm == Norm::Preconditioned);
    (scalars.rho, scalars.sigma, scalars.alpha, scalars.beta) = (state.rho, state.sigma, state.rho / state.sigma, 0.0);
}

/// Returns whether a loop with these scalars has the limits and the starting iteration of `state`.
pub fn has_limits(scalars: &Scalars, state: &State) -> bool {
    let test = &state.test;
    (scalars.threshold.to_bits(), scalars.vanishing.to_bits())
        == (test.threshold.to_bits(), test.vanishing_norm.to_bits())
        && (scalars.iterations, scalars.max_iter) == (state.iterations as i64, test.max_iter as i64)
        && scalars.preconditioned == i32::from(test.norm == Norm::Preconditioned)
}

/// Notifies the observer of the iterations in the ring. Updates the norm, the number of iterations and the observer's
/// stop request in `state`. The last iteration has no norm if its <r, M^-1 r> is negative.
fn report_iterations(scalars: &Scalars, observer: &mut dyn Observer, state: &mut State) {
    let used_entries = scalars.ring_used as usize;
    state.norm = scalars.norm;
    for (k, step) in scalars.ring[..used_entries].iter().enumerate() {
        observer.receive(Event::Coefficients(step.alpha, step.beta));
        state.iterations += 1;
        if scalars.code == TestCode::RhoNegative as i32 && k + 1 == used_entries {
            break;
        }
        let relative = step.norm / state.test.reference;
        if state.stop_requested {
            observer.receive(Event::LateIteration(state.iterations, relative));
        } else {
            state.stop_requested = observer.receive(Event::Iteration(state.iterations, relative));
        }
    }
}

/// Returns the code with which the loop ended. Stores <r, M^-1 r> and <p, A p> in `state`, also those that caused a
/// breakdown.
fn end_code(scalars: &Scalars, state: &mut State) -> Result<TestCode> {
    (state.rho, state.sigma) = (scalars.sum, scalars.sigma);
    let code =
        TestCode::DEVICE_CODES.into_iter().find(|code| *code != TestCode::Running && *code as i32 == scalars.code);
    code.ok_or_else(|| Error::Internal(format!("the loop on the device ended with code {}", scalars.code)))
}
