//! The loop of PCG on a device, for all families: the scalars that the device and the host share, the recorded loop,
//! and the driver that launches it and reads its end (`run`). A family supplies its steps (`Looped`). The decisions
//! are in kernels/common/scalars.cuh.

use super::driver::{Device, Loop, Pinned, Stream};
use super::launch::{Address, RING, ReportArgs, Scalars, Step};
use crate::backend::steps::state::{Code, State, Test};
use crate::error::{Error, Result, reserve};
use crate::options::Norm;
use crate::report::{Event, Observer};
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Iterations between two checks of a monitor that may stop the solve.
pub const MONITOR_LAG: i64 = 32;

/// Entries of the ring that are copied with the scalars; further ones are copied if the loop has used them.
const FIRST_FETCH: usize = 64;

/// `RRBSOLVER_CUDA_GRAPH=off`: the host launches each kernel, for tools that do not follow a recorded loop.
pub fn without_graphs() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_GRAPH").is_some_and(|value| value == "off")
}

/// The scalars of a solve on the device, and their copy on the host, which this dereferences to.
pub struct SharedScalars {
    /// Address on the device.
    pub at: Address,
    here: Pinned<Scalars>,
    /// Kernel that writes the copy, in families that have one; else the driver copies.
    report: Option<Report>,
}

type Report = fn(&Stream, &ReportArgs) -> Result<()>;

impl SharedScalars {
    /// Initializes the scalars at an address on the device.
    pub fn new(stream: &Stream, at: Address, report: Option<Report>) -> Result<Self> {
        let scalars = Self { at, here: Pinned::new(stream.device(), Scalars::start())?, report };
        scalars.send(stream, size_of::<Scalars>())?;
        stream.wait()?;
        Ok(scalars)
    }

    /// Address of the copy, for kernels that write it.
    pub fn copy_at(&mut self) -> Address {
        self.here.on_device()
    }

    /// Copies the first `bytes` bytes to the device.
    pub fn send(&self, stream: &Stream, bytes: usize) -> Result<()> {
        stream.send_start(self.at, &self.here, bytes)
    }

    /// Starts to copy the scalars from the device, with at most `steps` entries of the ring.
    fn start_fetch(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        if let Some(report) = self.report {
            return report(stream, &ReportArgs { scalars: self.at, found: self.copy_at(), steps: steps as i32 });
        }
        stream.fetch_start(&mut self.here, self.at, offset_of!(Scalars, ring) + steps * size_of::<Step>())
    }

    /// Copies the scalars from the device, and waits.
    pub fn fetch(&mut self, stream: &Stream) -> Result<&Scalars> {
        self.start_fetch(stream, 0)?;
        stream.wait()?;
        Ok(&self.here)
    }

    /// Copies the scalars and the used part of the ring, and waits.
    fn fetch_steps(&mut self, stream: &Stream) -> Result<()> {
        self.start_fetch(stream, FIRST_FETCH)?;
        stream.wait()?;
        let used = self.ring_used as usize;
        if used > FIRST_FETCH {
            let first = self.at + (offset_of!(Scalars, ring) + FIRST_FETCH * size_of::<Step>()) as u64;
            stream.fetch(&mut self.here.ring[FIRST_FETCH..used], first)?;
            stream.wait()?;
        }
        Ok(())
    }

    /// Zeros the largest magnitudes and the index of an entry that is not finite, on the device.
    pub fn forget_seen(&self, stream: &Stream) -> Result<()> {
        let (start, end) = (offset_of!(Scalars, largest), offset_of!(Scalars, ticket));
        stream.fill(self.at + start as u64, 0, end - start)
    }
}

impl Deref for SharedScalars {
    type Target = Scalars;

    fn deref(&self) -> &Scalars {
        &self.here
    }
}

impl DerefMut for SharedScalars {
    fn deref_mut(&mut self) -> &mut Scalars {
        &mut self.here
    }
}

/// Recorded loops with bodies of several lengths; none: the host launches each iteration, or one kernel is the loop.
#[derive(Default)]
pub struct Recorded {
    /// Iterations of each body, and its graph.
    pub graphs: Vec<(usize, Loop)>,
}

impl Recorded {
    /// Records loops that the device repeats by itself, one for each length of the body. `iteration` launches an
    /// iteration; it gets the handle of the condition. Previous loops are kept if their launches are the same.
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

    /// A graph for each length of the body.
    pub fn of_each(bodies: &[usize], mut record: impl FnMut(usize) -> Result<Loop>) -> Result<Self> {
        let mut graphs = Vec::new();
        reserve(&mut graphs, bodies.len(), "recorded loops")?;
        for body in bodies {
            graphs.push((*body, record(*body)?));
        }
        Ok(Self { graphs })
    }
}

/// What a family adds to the loop of PCG. Defaults are those of a loop that nothing precedes or follows.
pub trait Looped {
    /// The scalars, the stream, and the observer.
    fn parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer);

    /// The recorded loop to launch, and the stream.
    fn graph(&self) -> Option<(&Loop, &Stream)>;

    /// Launches an iteration: from p, q, rho and sigma to those of the next one, or to the end.
    fn iteration(&mut self) -> Result<()>;

    /// Launches the loop.
    fn launch(&mut self) -> Result<()>
    where
        Self: Sized,
    {
        launch(self)
    }

    /// Most iterations until the loop pauses.
    fn lag(&self) -> i64;

    /// Prepares the start of the loop. Whether the loop has already begun, with the limits of the test.
    fn begin(&mut self, _at: &State) -> Result<bool> {
        Ok(false)
    }

    /// Launches what most often follows the loop.
    fn follow(&mut self, _test: &Test) -> Result<()> {
        Ok(())
    }

    /// Whether a paused loop should end since another preconditioner promises less work.
    fn is_slow(&mut self, _at: &State) -> bool {
        false
    }

    /// Notes what the loop has left; `paused`: the observer has stopped it.
    fn end(&mut self, at: &State, paused: bool);
}

/// Launches the recorded loop; without a graph the host launches iterations until the device reports the end.
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

/// Iterations until a loop pauses for the observer, or for the length of the ring.
pub fn observed_lag(observer: &dyn Observer) -> i64 {
    if observer.may_stop() { MONITOR_LAG } else { RING as i64 }
}

/// Runs the loop of PCG from p, q, rho and sigma to its end.
pub fn run(of: &mut impl Looped, at: &mut State) -> Result<Code> {
    let mut begun = of.begin(at)?;
    if !begun {
        set_limits(of.parts().0, at);
    }
    loop {
        if !std::mem::take(&mut begun) {
            let lag = of.lag();
            let (s, stream, _) = of.parts();
            (s.code, s.done, s.met, s.ring_used, s.pause_at) = (Code::Running as i32, 0, 0, 0, s.iterations + lag);
            s.send(stream, offset_of!(Scalars, b_norm2))?;
            of.launch()?;
        }
        of.follow(&at.test)?;
        let (scalars, stream, observer) = of.parts();
        scalars.fetch_steps(stream)?;
        tell(scalars, observer, at);
        let paused = scalars.code == Code::Paused as i32;
        if paused && !at.stopped {
            if of.is_slow(at) {
                return Ok(Code::Paused);
            }
            continue;
        }
        of.end(at, paused);
        return ending(of.parts().0, at);
    }
}

/// When the loop ends, and what it begins with.
fn set_limits(s: &mut Scalars, at: &State) {
    (s.threshold, s.vanishing) = (at.test.threshold, at.test.vanishing);
    (s.iterations, s.max_iter) = (at.iterations as i64, at.test.max_iter as i64);
    s.preconditioned = i32::from(at.test.norm == Norm::Preconditioned);
    (s.rho, s.sigma, s.alpha, s.beta) = (at.rho, at.sigma, at.rho / at.sigma, 0.0);
}

/// A loop with these scalars ends as the test says.
pub fn has_limits(s: &Scalars, at: &State) -> bool {
    let test = &at.test;
    (s.threshold.to_bits(), s.vanishing.to_bits()) == (test.threshold.to_bits(), test.vanishing.to_bits())
        && (s.iterations, s.max_iter) == (at.iterations as i64, test.max_iter as i64)
        && s.preconditioned == i32::from(test.norm == Norm::Preconditioned)
}

/// Notifies the observer of the steps in the ring.
fn tell(s: &Scalars, observer: &mut dyn Observer, at: &mut State) {
    let used = s.ring_used as usize;
    at.norm = s.norm;
    for (k, step) in s.ring[..used].iter().enumerate() {
        observer.see(Event::Coefficients(step.alpha, step.beta));
        at.iterations += 1;
        if s.code == Code::RhoNegative as i32 && k + 1 == used {
            break;
        }
        let relative = step.norm / at.test.reference;
        if at.stopped {
            observer.see(Event::Passed(at.iterations, relative));
        } else {
            at.stopped = observer.see(Event::Iteration(at.iterations, relative));
        }
    }
}

/// Why the loop ended.
fn ending(s: &Scalars, at: &mut State) -> Result<Code> {
    (at.rho, at.sigma) = (s.sum, s.sigma);
    let code = Code::OF_DEVICE.into_iter().find(|code| *code != Code::Running && *code as i32 == s.code);
    code.ok_or_else(|| Error::Internal(format!("the loop on the device ended with code {}", s.code)))
}
