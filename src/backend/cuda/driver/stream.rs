//! Streams, and moments in their work; streams of several devices that go in step.

use super::device::Device;
use super::launches::Launches;
use super::library::check;
use crate::error::{Error, Result, collected, reserve};
use cudarc::driver::sys;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A stream: ours, or borrowed from the caller.
pub struct Stream {
    pub(super) device: Arc<Device>,
    pub(super) stream: sys::CUstream,
    owned: bool,
    /// Notes what is launched.
    pub(super) notes: RefCell<Option<Launches>>,
    /// Of the other devices that have rows of divided grids. Each kernel over these begins, on all, when the one before
    /// has ended on all; everything else is work of this device alone.
    mates: Vec<Mate>,
    /// What this stream has done that others wait for.
    done: Option<Event>,
    /// The last work was that of all.
    together: Cell<bool>,
    /// While work is recorded: what is launched on each stream where they wait for one another, in place of events.
    meet: RefCell<Option<Meet>>,
}

/// A launch on a stream.
pub type Meet = Box<dyn Fn(&Stream) -> Result<()>>;

/// The stream of another device.
struct Mate {
    stream: Stream,
    done: Event,
}

// SAFETY: streams may be used from any thread, one at a time, as handles are.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of our own, which does not wait for the default stream.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "a stream")?;
        Ok(Self::of(device, stream, true))
    }

    fn of(device: &Arc<Device>, stream: sys::CUstream, owned: bool) -> Self {
        let (notes, together, meet) = (RefCell::new(None), Cell::new(false), RefCell::new(None));
        Self { device: device.clone(), stream, owned, notes, mates: Vec::new(), done: None, together, meet }
    }

    /// The same with streams of other devices beside it.
    pub fn with(mut self, others: &[Arc<Device>]) -> Result<Self> {
        reserve(&mut self.mates, others.len(), "streams")?;
        for device in others {
            self.mates.push(Mate { stream: Self::new(device)?, done: Event::new(device)? });
        }
        if !others.is_empty() {
            self.done = Some(Event::new(&self.device)?);
        }
        Ok(self)
    }

    /// All devices, this stream's first.
    pub fn devices(&self) -> Result<Vec<Arc<Device>>> {
        let mates = self.mates.iter().map(|mate| mate.stream.device.clone());
        collected(std::iter::once(self.device.clone()).chain(mates), "devices")
    }

    /// The stream, for work of this device alone: after that of all.
    pub(super) fn alone(&self) -> Result<sys::CUstream> {
        if self.together.get() && !self.all_meet()? {
            for mate in &self.mates {
                mate.done.note(&mate.stream)?;
                self.after(&mate.done)?;
            }
        }
        self.together.set(false);
        Ok(self.stream)
    }

    /// Waits for all that is under way on any device, whatever becomes of it.
    pub fn settle(&self) {
        for stream in self.all() {
            if let Ok(_entered) = stream.device.enter() {
                // SAFETY: a live stream.
                let _ = unsafe { sys::cuStreamSynchronize(stream.stream) };
            }
        }
        self.together.set(false);
    }

    /// The streams of all devices, for work of all: after that of all, and of this one alone.
    pub(super) fn in_step(&self) -> Result<impl Iterator<Item = &Self>> {
        let together = self.together.get();
        if let Some(done) = &self.done
            && !self.all_meet()?
        {
            done.note_on(self.stream)?;
            if together {
                self.mates.iter().try_for_each(|mate| mate.done.note(&mate.stream))?;
            }
            for (n, mate) in self.mates.iter().enumerate() {
                mate.stream.after(done)?;
                if together {
                    self.after(&mate.done)?;
                    let others = self.mates.iter().enumerate().filter(|(other, _)| *other != n);
                    others.map(|(_, other)| &other.done).try_for_each(|done| mate.stream.after(done))?;
                }
            }
        }
        self.together.set(self.done.is_some());
        Ok(self.all())
    }

    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.mates.iter().map(|mate| &mate.stream))
    }

    /// All wait for one another by what is launched for it, where something is.
    fn all_meet(&self) -> Result<bool> {
        let meet = self.meet.borrow();
        let Some(meet) = &*meet else { return Ok(false) };
        // A meeting is a launch on each stream alone.
        self.together.set(false);
        self.all().try_for_each(|stream| stream.device.enter().and_then(|_entered| meet(stream)))?;
        Ok(true)
    }

    /// Others join this stream, which records, and meet from now on; until they leave it.
    pub(super) fn join(&self, meet: Meet) -> Result<()> {
        drop(self.in_step()?);
        *self.meet.borrow_mut() = Some(meet);
        Ok(())
    }

    pub(super) fn leave(&self) -> Result<()> {
        *self.meet.borrow_mut() = None;
        self.together.set(self.done.is_some());
        self.alone().map(drop)
    }

    /// What follows on this stream waits for a moment in another's work.
    fn after(&self, moment: &Event) -> Result<()> {
        // SAFETY: a live stream and event.
        check(unsafe { sys::cuStreamWaitEvent(self.stream, moment.event, 0) }, "an event")
    }

    /// The caller's.
    pub fn borrowed(device: &Arc<Device>, stream: usize) -> Result<Self> {
        let _entered = device.enter()?;
        let mut context = std::ptr::null_mut();
        let stream = stream as sys::CUstream;
        // SAFETY: `rrb_set_stream` asks for a stream.
        check(unsafe { sys::cuStreamGetCtx(stream, &mut context) }, "the caller's stream")?;
        if context != device.context {
            return Err(Error::Device(format!(
                "the caller's stream (set_stream) does not belong to the primary context of device {}",
                device.ordinal
            )));
        }
        Ok(Self::of(device, stream, false))
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Notes a launch: its numbers, and bytes. Whether it is to be done.
    pub(super) fn note<A: Copy>(&self, numbers: &[u64], bytes: &A) -> Result<bool> {
        match &mut *self.notes.borrow_mut() {
            Some(launches) => launches.note(numbers, bytes),
            None => Ok(true),
        }
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<()> {
        let stream = self.alone()?;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(stream) }, "the device's work")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_entered) = self.device.enter()
        {
            // SAFETY: made by us.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}

/// A moment in a stream's work that the host can wait for.
pub struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// It has come.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Self::with(device, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with(device: &Arc<Device>, flags: sys::CUevent_flags) -> Result<Self> {
        let _entered = device.enter()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuEventCreate(&mut event, flags as u32) }, "an event")?;
        Ok(Self { device: device.clone(), event })
    }

    /// It comes after what is queued now.
    pub fn note(&self, stream: &Stream) -> Result<()> {
        self.note_on(stream.alone()?)
    }

    fn note_on(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: a live event and stream.
        check(unsafe { sys::cuEventRecord(self.event, stream) }, "an event")
    }

    /// Whether it has come.
    pub fn has_come(&self) -> Result<bool> {
        // SAFETY: a live event.
        match unsafe { sys::cuEventQuery(self.event) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check(result, "the device's work").map(|()| true),
        }
    }

    /// Waits until it has.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a live event.
        check(unsafe { sys::cuEventSynchronize(self.event) }, "the device's work")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: made by us.
            let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}

/// Two moments in a stream's work, and the time between.
pub struct Watch([Event; 2]);

impl Watch {
    /// Not started.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let event = || Event::with(device, sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self([event()?, event()?]))
    }

    /// Notes the first (0) or second (1) moment.
    pub fn note(&self, which: usize, stream: &Stream) -> Result<()> {
        self.0[which].note(stream)
    }

    /// Seconds between, after the stream was waited for.
    pub fn seconds(&self) -> Result<f64> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both were recorded.
        let result = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.0[0].event, self.0[1].event) };
        check(result, "the time between events")?;
        Ok(1e-3 * f64::from(milliseconds))
    }
}
