//! What the backends of all families have of a device: the device itself, the stream that work goes to, copies of
//! arrays that are on the host, and the arrays of a run.

use super::call::{Call, place};
use super::driver::{Device, Entered, Module, Share, Stream, Watch};
use super::launch::Address;
use super::staging::Copies;
use crate::backend::steps::solve::Arrays;
use crate::error::{Result, collected, reserve};
use crate::grid::cells::Cells;
use crate::report::Observer;
use std::sync::Arc;

/// A device with the kernels of a family, in use by a handle.
pub struct Session {
    own: Stream,
    /// The number of the caller's stream, 0 where it has given none; and the stream, unless the device was reset since.
    number: usize,
    caller: Option<Stream>,
    copies: Copies,
    /// Of copies to the device.
    watch: Watch,
    family: &'static Module,
    // What lies on the device goes before it.
    pub device: Arc<Device>,
    /// Those that have rows of divided grids beside it.
    others: Vec<Arc<Device>>,
    /// Of the last call, in copies between host and device.
    pub seconds_transfer: f64,
}

impl Session {
    /// On the device with this ordinal; `threads` at most copy arrays of the host.
    pub fn open(ordinal: i64, family: &'static Module, threads: usize) -> Result<Self> {
        Self::open_all(&[ordinal], family, threads)
    }

    /// On several devices, the first of which has what is not divided.
    pub fn open_all(ordinals: &[i64], family: &'static Module, threads: usize) -> Result<Self> {
        let mut others = Vec::new();
        reserve(&mut others, ordinals.len(), "devices")?;
        for (place, ordinal) in ordinals.iter().enumerate() {
            let share = Share { place: place as i32, count: ordinals.len() as i32 };
            others.push(Device::open(*ordinal, family, share)?);
        }
        for device in &others {
            others.iter().filter(|other| other.ordinal != device.ordinal).try_for_each(|other| device.reach(other))?;
        }
        let device = others.remove(0);
        let own = Stream::new(&device)?.with(&others)?;
        let (caller, copies, watch) = (None, Copies::new(threads), Watch::new(&device)?);
        Ok(Self { own, number: 0, caller, copies, watch, family, device, others, seconds_transfer: 0.0 })
    }

    /// Ordinals of all devices, in their order.
    pub fn ordinals(&self) -> impl Iterator<Item = i32> {
        std::iter::once(&self.device).chain(&self.others).map(|device| device.ordinal)
    }

    /// Makes the first one's context current, unless one of them was reset.
    pub fn enter(&self) -> Result<Entered> {
        self.others.iter().try_for_each(|device| device.check())?;
        self.device.enter()
    }

    /// One of them at least was reset.
    fn was_reset(&self) -> bool {
        self.device.was_reset() || self.others.iter().any(|device| device.was_reset())
    }

    /// The same anew, if the program has reset the device: what was there is gone.
    pub fn after_reset(&self) -> Result<Option<Self>> {
        if !self.was_reset() {
            return Ok(None);
        }
        let ordinals: Vec<i64> = collected(self.ordinals().map(i64::from), "devices")?;
        let mut session = Self::open_all(&ordinals, self.family, self.copies.threads())?;
        session.use_stream(self.number)?;
        Ok(Some(session))
    }

    /// Work goes to the caller's stream, or to our own (0). There is no work on a device that was reset, until it is
    /// opened again (`after_reset`).
    pub fn use_stream(&mut self, stream: usize) -> Result<()> {
        if stream == 0 || self.was_reset() {
            self.caller = None;
        } else if self.caller.is_none() || self.number != stream {
            self.caller = Some(Stream::borrowed(&self.device, stream)?.with(&self.others)?);
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

    /// A run on arrays of so many cells; `staged`: room on the device for an input and an output of the host.
    pub fn call<'a>(
        &'a mut self,
        arrays: Arrays<'a>,
        observer: &'a mut dyn Observer,
        of: Cells,
        staged: [Address; 2],
    ) -> Call<'a> {
        let shape = (arrays.ld, arrays.plane);
        let input = place(arrays.device_input, staged[0], of, shape);
        let output = place(arrays.device_output, staged[1], of, shape);
        let (stream, copies) = (self.caller.as_ref().unwrap_or(&self.own), &mut self.copies);
        let (watch, seconds_transfer) = (&self.watch, &mut self.seconds_transfer);
        *seconds_transfer = 0.0;
        let (failed, sent) = (None, false);
        Call { stream, observer, arrays, input, output, failed, of, copies, watch, sent, seconds_transfer }
    }

    /// Bytes of host memory.
    pub fn bytes(&self) -> usize {
        self.copies.bytes()
    }
}
