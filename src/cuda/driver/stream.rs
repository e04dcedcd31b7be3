//! CUDA streams and events, and streams of several devices that run in lockstep.

use super::device::Device;
use super::launches::Launches;
use super::library::check;
use crate::error::{Error, Result, collected, reserve};
use cudarc::driver::sys;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A stream that this library created, or a stream of the caller.
pub struct Stream {
    pub(super) device: Arc<Device>,
    pub(super) stream: sys::CUstream,
    owned: bool,
    /// Record of the launches; `None` if launches are executed without a record.
    pub(super) launches: RefCell<Option<Launches>>,
    /// Streams of the other devices that own rows of divided grids. A kernel on a divided grid runs on all devices, and
    /// begins when the previous kernel has ended on all devices. All other work runs only on the device of this stream.
    peers: Vec<PeerStream>,
    /// Event that marks the end of the work of this stream, for the other streams; `None` if there are no other
    /// streams.
    end_of_work: Option<Event>,
    /// Whether the last work was queued on the streams of all devices, and not only on this stream.
    last_work_on_all_devices: Cell<bool>,
    /// The function that synchronizes the streams while a graph is recorded, from `join_capture` to `leave_capture`.
    /// `None` at all other times, when events synchronize the streams.
    launch_barrier: RefCell<Option<DeviceBarrier>>,
}

/// Function that launches, on one stream, the kernel that waits for the other streams.
pub type DeviceBarrier = Box<dyn Fn(&Stream) -> Result<()>>;

/// The stream of another device, and the event that marks the end of its work.
struct PeerStream {
    stream: Stream,
    end_of_work: Event,
}

// SAFETY: a stream may be used from any thread, but by one thread at a time. The handle that owns the stream is used by
// one thread at a time.
unsafe impl Send for Stream {}

impl Stream {
    /// Creates a stream that does not synchronize with the default stream.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "a stream")?;
        Ok(Self::wrap(device, stream, true))
    }

    fn wrap(device: &Arc<Device>, stream: sys::CUstream, owned: bool) -> Self {
        let (launches, last_work_on_all_devices, launch_barrier) =
            (RefCell::new(None), Cell::new(false), RefCell::new(None));
        Self {
            device: device.clone(),
            stream,
            owned,
            launches,
            peers: Vec::new(),
            end_of_work: None,
            last_work_on_all_devices,
            launch_barrier,
        }
    }

    /// Adds streams of other devices, which run in lockstep with this stream.
    pub fn with_peers(mut self, devices: &[Arc<Device>]) -> Result<Self> {
        reserve(&mut self.peers, devices.len(), "streams")?;
        for device in devices {
            self.peers.push(PeerStream { stream: Self::new(device)?, end_of_work: Event::new(device)? });
        }
        if !devices.is_empty() {
            self.end_of_work = Some(Event::new(&self.device)?);
        }
        Ok(self)
    }

    /// Returns all devices, beginning with the device of this stream.
    pub fn devices(&self) -> Result<Vec<Arc<Device>>> {
        let peers = self.peers.iter().map(|peer| peer.stream.device.clone());
        collected(std::iter::once(self.device.clone()).chain(peers), "devices")
    }

    /// Returns the CUDA stream for work on this device only. Work that is queued on it waits for earlier work on all
    /// devices.
    pub(super) fn after_all_devices(&self) -> Result<sys::CUstream> {
        if self.last_work_on_all_devices.get() && !self.synchronize_all()? {
            for peer in &self.peers {
                peer.end_of_work.record(&peer.stream)?;
                self.wait_for_event(&peer.end_of_work)?;
            }
        }
        self.last_work_on_all_devices.set(false);
        Ok(self.stream)
    }

    /// Waits for all work of all devices, and ignores errors.
    pub fn finish_all_work(&self) {
        for stream in self.all_streams() {
            if let Ok(_entered) = stream.device.enter() {
                // SAFETY: the stream is live.
                let _ = unsafe { sys::cuStreamSynchronize(stream.stream) };
            }
        }
        self.last_work_on_all_devices.set(false);
    }

    /// Returns the streams of all devices for work on all of them. Work that is queued on them waits for all earlier
    /// work, including work on this device only.
    pub(super) fn on_all_devices(&self) -> Result<impl Iterator<Item = &Self>> {
        let last_work_on_all_devices = self.last_work_on_all_devices.get();
        if let Some(end_of_work) = &self.end_of_work
            && !self.synchronize_all()?
        {
            end_of_work.record_on(self.stream)?;
            if last_work_on_all_devices {
                self.peers.iter().try_for_each(|peer| peer.end_of_work.record(&peer.stream))?;
            }
            for (n, peer) in self.peers.iter().enumerate() {
                peer.stream.wait_for_event(end_of_work)?;
                if last_work_on_all_devices {
                    self.wait_for_event(&peer.end_of_work)?;
                    let others = self.peers.iter().enumerate().filter(|(other, _)| *other != n);
                    others
                        .map(|(_, other)| &other.end_of_work)
                        .try_for_each(|event| peer.stream.wait_for_event(event))?;
                }
            }
        }
        self.last_work_on_all_devices.set(self.end_of_work.is_some());
        Ok(self.all_streams())
    }

    fn all_streams(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.peers.iter().map(|peer| &peer.stream))
    }

    /// Synchronizes all streams: calls the function `launch_barrier`, which `join_capture` has stored, for each of
    /// them. Returns false, without synchronization, if no function is stored.
    fn synchronize_all(&self) -> Result<bool> {
        let launch_barrier = self.launch_barrier.borrow();
        let Some(launch_barrier) = &*launch_barrier else { return Ok(false) };
        // Each call of `launch_barrier` launches a kernel on one stream. This launch must not itself synchronize the
        // streams.
        self.last_work_on_all_devices.set(false);
        self.all_streams().try_for_each(|stream| stream.device.enter().and_then(|_entered| launch_barrier(stream)))?;
        Ok(true)
    }

    /// Lets the other streams join the capture of this stream. Until `leave_capture` is called, the streams synchronize
    /// through `launch_barrier`.
    pub(super) fn join_capture(&self, launch_barrier: DeviceBarrier) -> Result<()> {
        drop(self.on_all_devices()?);
        *self.launch_barrier.borrow_mut() = Some(launch_barrier);
        Ok(())
    }

    /// Ends the use of `launch_barrier`, and makes this stream wait for the other streams, so that the capture can end.
    pub(super) fn leave_capture(&self) -> Result<()> {
        *self.launch_barrier.borrow_mut() = None;
        self.last_work_on_all_devices.set(self.end_of_work.is_some());
        self.after_all_devices().map(drop)
    }

    /// Makes later work on this stream wait for an event of another stream.
    fn wait_for_event(&self, event: &Event) -> Result<()> {
        // SAFETY: the stream and the event are live.
        check(unsafe { sys::cuStreamWaitEvent(self.stream, event.event, 0) }, "an event")
    }

    /// Wraps a stream of the caller, which must belong to the primary context of the device.
    pub fn borrowed(device: &Arc<Device>, stream: usize) -> Result<Self> {
        let _entered = device.enter()?;
        let mut context = std::ptr::null_mut();
        let stream = stream as sys::CUstream;
        // SAFETY: the documentation of `rrb_set_stream` requires a valid stream.
        check(unsafe { sys::cuStreamGetCtx(stream, &mut context) }, "the caller's stream")?;
        if context != device.context {
            return Err(Error::Device(format!(
                "the caller's stream (set_stream) does not belong to the primary context of device {}",
                device.ordinal
            )));
        }
        Ok(Self::wrap(device, stream, false))
    }

    /// Returns the device of the stream.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Records a launch, if launches are recorded. `numbers` is the launch shape, and `bytes` the argument of the
    /// kernel. Returns whether the caller must execute the launch.
    pub(super) fn record_launch<A: Copy>(&self, numbers: &[u64], bytes: &A) -> Result<bool> {
        match &mut *self.launches.borrow_mut() {
            Some(launches) => launches.record(numbers, bytes),
            None => Ok(true),
        }
    }

    /// Waits until all work is done, on all devices.
    pub fn wait(&self) -> Result<()> {
        let stream = self.after_all_devices()?;
        // SAFETY: the stream is live.
        check(unsafe { sys::cuStreamSynchronize(stream) }, "the device's work")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_entered) = self.device.enter()
        {
            // SAFETY: `new` created the stream, and it is destroyed once.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}

/// A CUDA event: a point in the work of a stream. The host and other streams can wait for it.
pub struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that counts as complete until it is recorded.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Self::with_flags(device, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with_flags(device: &Arc<Device>, flags: sys::CUevent_flags) -> Result<Self> {
        let _entered = device.enter()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current; the pointer outlives the call.
        check(unsafe { sys::cuEventCreate(&mut event, flags as u32) }, "an event")?;
        Ok(Self { device: device.clone(), event })
    }

    /// Records the event on `stream`. The event is complete when all work that was queued before, on all devices of
    /// `stream`, has ended.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.record_on(stream.after_all_devices()?)
    }

    fn record_on(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the event and the stream are live.
        check(unsafe { sys::cuEventRecord(self.event, stream) }, "an event")
    }

    /// Returns whether the event is complete.
    pub fn is_complete(&self) -> Result<bool> {
        // SAFETY: the event is live.
        match unsafe { sys::cuEventQuery(self.event) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check(result, "the device's work").map(|()| true),
        }
    }

    /// Waits until the event is complete.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is live.
        check(unsafe { sys::cuEventSynchronize(self.event) }, "the device's work")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: `with_flags` created the event, and it is destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}

/// Two events that measure the time between them.
pub struct Stopwatch([Event; 2]);

impl Stopwatch {
    /// Creates a stopwatch that is not started.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let event = || Event::with_flags(device, sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self([event()?, event()?]))
    }

    /// Records the first (0) or second (1) event.
    pub fn record(&self, event_index: usize, stream: &Stream) -> Result<()> {
        self.0[event_index].record(stream)
    }

    /// Returns the seconds between the two events. The caller must have waited for the stream.
    pub fn seconds(&self) -> Result<f64> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events were recorded.
        let result = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.0[0].event, self.0[1].event) };
        check(result, "the time between events")?;
        Ok(1e-3 * f64::from(milliseconds))
    }
}
