//! Streams, and moments in their work.

use super::device::Device;
use super::launches::Launches;
use super::library::check;
use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::cell::RefCell;
use std::sync::Arc;

/// A stream: ours, or borrowed from the caller.
pub struct Stream {
    pub(super) device: Arc<Device>,
    pub(super) stream: sys::CUstream,
    owned: bool,
    /// Notes what is launched.
    pub(super) notes: RefCell<Option<Launches>>,
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
        Ok(Self { device: device.clone(), stream, owned: true, notes: RefCell::new(None) })
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
        Ok(Self { device: device.clone(), stream, owned: false, notes: RefCell::new(None) })
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
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "the device's work")
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
        // SAFETY: a live event and stream.
        check(unsafe { sys::cuEventRecord(self.event, stream.stream) }, "an event")
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
