//! The PCG loop on a device, for all families: the scalars that device and host share, and the CUDA graphs that repeat
//! iterations. `run` launches the loop and reads its result. A family implements `Looped` with its steps. Within the
//! loop, the device itself decides whether to continue (kernels/common/scalars.cuh).

use super::driver::{Device, Loop, Pinned, Stream};
use super::launch::{Address, RING, ReportArgs, Scalars, Step};
use crate::error::{Error, Result, reserve};
use crate::krylov::state::{Code, State, Test};
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
pub fn without_graphs() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_GRAPH").is_some_and(|value| value == "off")
}

/// The scalars of a solve on the device, and their page-locked host copy. `Deref` gives the host copy.
pub struct SharedScalars {
    /// Device address of the scalars.
    pub at: Address,
    host_copy: Pinned<Scalars>,
    /// Kernel that writes the host copy. Without such a kernel the driver copies the scalars.
    report: Option<Report>,
}

type Report = fn(&Stream, &ReportArgs) -> Result<()>;

impl SharedScalars {
    /// Initializes the scalars at device address `at`.
    pub fn new(stream: &Stream, at: Address, report: Option<Report>) -> Result<Self> {
        let scalars = Self { at, host_copy: Pinned::new(stream.device(), Scalars::start())?, report };
        scalars.send(stream, size_of::<Scalars>())?;
        stream.wait()?;
        Ok(scalars)
    }

    /// Returns the device address of the host copy, for kernels that write the copy.
    pub fn host_copy_address(&mut self) -> Address {
        self.host_copy.device_address()
    }

    /// Queues a copy of the first `bytes` bytes to the device.
    pub fn send(&self, stream: &Stream, bytes: usize) -> Result<()> {
        stream.send_prefix(self.at, &self.host_copy, bytes)
    }

    /// Queues a copy of the scalars to the host, with at most `steps` ring entries. The kernel `report`, if there is
    /// one, then also resets the scalars that `reset_findings` resets.
    fn start_fetch(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        if let Some(report) = self.report {
            return report(
                stream,
                &ReportArgs { scalars: self.at, host_scalars: self.host_copy_address(), steps: steps as i32 },
            );
        }
        stream.fetch_prefix(&mut self.host_copy, self.at, offset_of!(Scalars, ring) + steps * size_of::<Step>())
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
        let used = self.ring_used as usize;
        if used > FIRST_RING_ENTRIES {
            let first = self.at + (offset_of!(Scalars, ring) + FIRST_RING_ENTRIES * size_of::<Step>()) as u64;
            stream.fetch(&mut self.host_copy.ring[FIRST_RING_ENTRIES..used], first)?;
            stream.wait()?;
        }
        Ok(())
    }

    /// Sets the largest magnitudes and the index of the first non-finite entry to zero, on the device.
    pub fn reset_findings(&self, stream: &Stream) -> Result<()> {
        let (start, end) = (offset_of!(Scalars, largest), offset_of!(Scalars, ticket));
        stream.fill(self.at + start as u64, 0, end - start)
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
/// one kernel is the whole loop.
#[derive(Default)]
pub struct Recorded {
    /// Iterations per graph, and the graph.
    pub graphs: Vec<(usize, Loop)>,
}

impl Recorded {
    /// Records loops that the device repeats without the host, one for each number of iterations in `bodies`.
    /// `iteration` launches one iteration and receives the handle of the loop condition. A previous graph is kept if
    /// its launches are unchanged.
    pub fn new(
        device: &Arc<Device>,
        bodies: &[usize],
        previous: Option<Self>,
        mut iteration: impl FnMut(&Stream, u64) -> Result<()>,
    ) -> Result<Self> {
        let mut before = previous.unwrap_or_default().graphs.into_iter().map(|(_, graph)| graph);
        Self::of_each(bodies, |body| {
            Loop::record(device, before.next(), |stream, conditional| {
                (0..body).try_for_each(|_| iteration(stream, conditional))
            })
        })
    }

    /// Calls `record` once for each number of iterations in `bodies`.
    pub fn of_each(bodies: &[usize], mut record: impl FnMut(usize) -> Result<Loop>) -> Result<Self> {
        let mut graphs = Vec::new();
        reserve(&mut graphs, bodies.len(), "recorded loops")?;
        for body in bodies {
            graphs.push((*body, record(*body)?));
        }
        Ok(Self { graphs })
    }
}

/// The steps that a family adds to the PCG loop. The defaults do nothing before and after the loop.
pub trait Looped {
    /// Returns the scalars, the stream and the observer.
    fn parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer);

    /// Returns the recorded loop and the stream on which to launch it, or `None` if the host launches the iterations.
    fn graph(&self) -> Option<(&Loop, &Stream)>;

    /// Launches one iteration, or the whole loop if one kernel executes it. An iteration computes the next p, q, rho =
    /// <r, M^-1 r> and sigma = <p, A p>, or ends the loop.
    fn iteration(&mut self) -> Result<()>;

    /// Launches the loop.
    fn launch(&mut self) -> Result<()>
    where
        Self: Sized,
    {
        launch(self)
    }

    /// Returns the largest number of iterations before the loop pauses.
    fn lag(&self) -> i64;

    /// Prepares the loop. Returns true if a loop with the limits of `_at` has already been launched, and begins at the
    /// iteration of `_at`. `run` then does not launch the loop.
    fn begin(&mut self, _at: &State) -> Result<bool> {
        Ok(false)
    }

    /// Queues the kernels that usually run after the loop, without waiting for its end.
    fn follow(&mut self, _test: &Test) -> Result<()> {
        Ok(())
    }

    /// Returns whether a paused loop should end because another preconditioner is expected to be faster.
    fn is_slow(&mut self, _at: &State) -> bool {
        false
    }

    /// Stores the state in which the loop ended. `paused`: the observer stopped the loop.
    fn end(&mut self, at: &State, paused: bool);
}

/// Launches the recorded loop. Without a graph, the host launches iterations until the device reports the end.
pub fn launch(of: &mut impl Looped) -> Result<()> {
    if let Some((graph, stream)) = of.graph() {
        return graph.launch(stream);
    }
    loop {
        of.iteration()?;
        let (scalars, stream, _) = of.parts();
        if scalars.fetch(stream)?.code != Code::Running as i32 {
            return Ok(());
        }
    }
}

/// Returns the number of iterations after which the loop pauses: for the observer, or because the ring is full.
pub fn observed_lag(observer: &dyn Observer) -> i64 {
    if observer.may_stop() { MONITOR_LAG } else { RING as i64 }
}

/// Runs the PCG loop from the current p, q, rho and sigma until it ends, and returns the reason. `Code::Paused` means
/// that the observer has stopped the loop, or that `is_slow` has returned true. In the second case, `end` is not
/// called.
pub fn run(of: &mut impl Looped, at: &mut State) -> Result<Code> {
    let mut begun = of.begin(at)?;
    if !begun {
        set_limits(of.parts().0, at);
    }
    loop {
        if !std::mem::take(&mut begun) {
            let lag = of.lag();
            let (s, stream, _) = of.parts();
            (s.code, s.loop_ended, s.met, s.ring_used, s.pause_at) =
                (Code::Running as i32, 0, 0, 0, s.iterations + lag);
            s.send(stream, offset_of!(Scalars, b_norm2))?;
            of.launch()?;
        }
        of.follow(&at.test)?;
        let (scalars, stream, observer) = of.parts();
        scalars.fetch_steps(stream)?;
        report_iterations(scalars, observer, at);
        let paused = scalars.code == Code::Paused as i32;
        if paused && !at.stopped {
            if of.is_slow(at) {
                return Ok(Code::Paused);
            }
            continue;
        }
        of.end(at, paused);
        return end_code(of.parts().0, at);
    }
}

/// Sets the limits of the stopping test and the initial scalars of the loop.
fn set_limits(s: &mut Scalars, at: &State) {
    (s.threshold, s.vanishing) = (at.test.threshold, at.test.vanishing);
    (s.iterations, s.max_iter) = (at.iterations as i64, at.test.max_iter as i64);
    s.preconditioned = i32::from(at.test.norm == Norm::Preconditioned);
    (s.rho, s.sigma, s.alpha, s.beta) = (at.rho, at.sigma, at.rho / at.sigma, 0.0);
}

/// Returns whether a loop with these scalars has the limits and the starting iteration of `at`.
pub fn has_limits(s: &Scalars, at: &State) -> bool {
    let test = &at.test;
    (s.threshold.to_bits(), s.vanishing.to_bits()) == (test.threshold.to_bits(), test.vanishing.to_bits())
        && (s.iterations, s.max_iter) == (at.iterations as i64, test.max_iter as i64)
        && s.preconditioned == i32::from(test.norm == Norm::Preconditioned)
}

/// Notifies the observer of the iterations in the ring. Updates the norm, the number of iterations and the observer's
/// stop request in `at`. The last iteration has no norm if its <r, M^-1 r> is negative.
fn report_iterations(s: &Scalars, observer: &mut dyn Observer, at: &mut State) {
    let used = s.ring_used as usize;
    at.norm = s.norm;
    for (k, step) in s.ring[..used].iter().enumerate() {
        observer.receive(Event::Coefficients(step.alpha, step.beta));
        at.iterations += 1;
        if s.code == Code::RhoNegative as i32 && k + 1 == used {
            break;
        }
        let relative = step.norm / at.test.reference;
        if at.stopped {
            observer.receive(Event::Passed(at.iterations, relative));
        } else {
            at.stopped = observer.receive(Event::Iteration(at.iterations, relative));
        }
    }
}

/// Returns the code with which the loop ended. Stores <r, M^-1 r> and <p, A p> in `at`, also those that caused a
/// breakdown.
fn end_code(s: &Scalars, at: &mut State) -> Result<Code> {
    (at.rho, at.sigma) = (s.sum, s.sigma);
    let code = Code::DEVICE_CODES.into_iter().find(|code| *code != Code::Running && *code as i32 == s.code);
    code.ok_or_else(|| Error::Internal(format!("the loop on the device ended with code {}", s.code)))
}
