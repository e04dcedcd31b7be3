//! What the backends of all families have of a device: the device itself, the stream that work goes to, and copies of
//! arrays that are on the host; and how a call keeps the first failure of the driver.

use super::driver::{Device, Module, Stream};
use super::staging::Copies;
use crate::error::{Error, Result};
use std::sync::Arc;

/// A device with the kernels of a family, in use by a handle.
pub struct Session {
    own: Stream,
    /// The number of the caller's stream, 0 where it has given none; and the stream, unless the device was reset since.
    number: usize,
    caller: Option<Stream>,
    copies: Copies,
    family: &'static Module,
    // What lies on the device goes before it.
    pub device: Arc<Device>,
    /// Of the last call, in copies between host and device.
    pub seconds_transfer: f64,
}

impl Session {
    /// On the device with this ordinal; `threads` at most copy arrays of the host.
    pub fn open(ordinal: i64, family: &'static Module, threads: usize) -> Result<Self> {
        let device = Device::open(ordinal, family)?;
        let own = Stream::new(&device)?;
        Ok(Self { own, number: 0, caller: None, copies: Copies::new(threads), family, device, seconds_transfer: 0.0 })
    }

    /// The same anew, if the program has reset the device: what was there is gone.
    pub fn after_reset(&self) -> Result<Option<Self>> {
        if !self.device.was_reset() {
            return Ok(None);
        }
        let mut session = Self::open(i64::from(self.device.ordinal), self.family, self.copies.threads())?;
        session.use_stream(self.number)?;
        Ok(Some(session))
    }

    /// Work goes to the caller's stream, or to our own (0). There is no work on a device that was reset, until it is
    /// opened again (`after_reset`).
    pub fn use_stream(&mut self, stream: usize) -> Result<()> {
        if stream == 0 || self.device.was_reset() {
            self.caller = None;
        } else if self.caller.is_none() || self.number != stream {
            self.caller = Some(Stream::borrowed(&self.device, stream)?);
        }
        self.number = stream;
        Ok(())
    }

    /// The caller's stream, or our own.
    pub fn stream(&self) -> &Stream {
        self.caller.as_ref().unwrap_or(&self.own)
    }

    /// The same, who copies arrays of the host, and how long that takes.
    pub fn parts(&mut self) -> (&Stream, &mut Copies, &mut f64) {
        (self.caller.as_ref().unwrap_or(&self.own), &mut self.copies, &mut self.seconds_transfer)
    }

    /// Bytes of host memory.
    pub fn bytes(&self) -> usize {
        self.copies.bytes()
    }
}

/// A call whose steps have no way to say that they failed: after the first failure they do nothing.
pub trait Attempts {
    /// The first failure.
    fn failed(&mut self) -> &mut Option<Error>;

    /// Does `f` unless something failed before; keeps its failure.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failed().is_some() {
            return None;
        }
        f(self).map_err(|error| *self.failed() = Some(error)).ok()
    }
}
