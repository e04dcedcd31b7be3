//! Device resources of a handle of any family: the device, its stream, and the copies of host arrays. Creates the
//! [`Call`]s of the handle.

use super::call::{Call, array_on_device};
use super::driver::{Device, EnteredContext, Memory, Module, Share, Stopwatch, Stream};
use super::launch::Address;
use super::staging::StagedCopies;
use crate::error::{Error, Result, collected, reserve};
use crate::krylov::solve_steps::Arrays;
use crate::report::Observer;
use crate::stencil::cells::Cells;
use std::sync::Arc;

/// The device, or the devices, of one handle, with the kernels of its family.
pub struct Session {
    /// The handle's own stream, used if the caller provides none.
    own_stream: Stream,
    /// The caller's stream as an integer, or 0 if the caller has set none.
    caller_stream_number: usize,
    /// The stream with the number `caller_stream_number`. `None` if the caller has set no stream, and after a reset of
    /// the device.
    caller_stream: Option<Stream>,
    copies: StagedCopies,
    /// Measures the time of copies to the device.
    stopwatch: Stopwatch,
    /// Device memory for copies of an input and an output array in host memory ([`Session::start_staged_call`]).
    staging: Option<Memory>,
    family: &'static Module,
    // Declared after the fields above, because these must be dropped before the device.
    pub device: Arc<Device>,
    /// Further devices that own rows of divided grids.
    other_devices: Vec<Arc<Device>>,
    /// Time of the last call's copies between host and device, in seconds.
    pub seconds_transfer: f64,
}

impl Session {
    /// Opens the device with this ordinal; at most `max_threads` threads copy host arrays.
    pub fn open(ordinal: i64, family: &'static Module, max_threads: usize) -> Result<Self> {
        Self::open_devices(&[ordinal], family, max_threads)
    }

    /// Opens several devices. The first device owns all memory that is not divided among the devices.
    pub fn open_devices(ordinals: &[i64], family: &'static Module, max_threads: usize) -> Result<Self> {
        let mut other_devices = Vec::new();
        reserve(&mut other_devices, ordinals.len(), "devices")?;
        for (index, ordinal) in ordinals.iter().enumerate() {
            let share = Share { index: index as i32, count: ordinals.len() as i32 };
            other_devices.push(Device::open(*ordinal, family, share)?);
        }
        for device in &other_devices {
            other_devices
                .iter()
                .filter(|other| other.ordinal != device.ordinal)
                .try_for_each(|other| device.enable_peer_access(other))?;
        }
        let device = other_devices.remove(0);
        let own_stream = Stream::new(&device)?.with_peers(&other_devices)?;
        let (caller_stream, copies, stopwatch) = (None, StagedCopies::new(max_threads), Stopwatch::new(&device)?);
        Ok(Self {
            own_stream,
            caller_stream_number: 0,
            caller_stream,
            copies,
            stopwatch,
            staging: None,
            family,
            device,
            other_devices,
            seconds_transfer: 0.0,
        })
    }

    /// Returns the ordinals of all devices in order.
    pub fn ordinals(&self) -> impl Iterator<Item = i32> {
        std::iter::once(&self.device).chain(&self.other_devices).map(|device| device.ordinal)
    }

    /// Makes the first device's context current. Fails if one of the devices was reset.
    pub fn enter(&self) -> Result<EnteredContext> {
        self.other_devices.iter().try_for_each(|device| device.check())?;
        self.device.enter()
    }

    /// Returns whether at least one device was reset.
    fn was_reset(&self) -> bool {
        self.device.was_reset() || self.other_devices.iter().any(|device| device.was_reset())
    }

    /// Returns a new session on the same devices if the program has reset one of them, else `None`. The reset has freed
    /// all memory of that device.
    pub fn reopen_after_reset(&self) -> Result<Option<Self>> {
        if !self.was_reset() {
            return Ok(None);
        }
        let ordinals: Vec<i64> = collected(self.ordinals().map(i64::from), "devices")?;
        let mut session = Self::open_devices(&ordinals, self.family, self.copies.threads())?;
        session.use_stream(self.caller_stream_number)?;
        Ok(Some(session))
    }

    /// Selects the caller's stream, or the handle's own stream for 0. If a device was reset, only stores the number of
    /// the stream; `reopen_after_reset` then selects the stream in the new session.
    pub fn use_stream(&mut self, stream: usize) -> Result<()> {
        if stream == 0 || self.was_reset() {
            self.caller_stream = None;
        } else if self.caller_stream.is_none() || self.caller_stream_number != stream {
            self.caller_stream = Some(Stream::borrowed(&self.device, stream)?.with_peers(&self.other_devices)?);
        }
        self.caller_stream_number = stream;
        Ok(())
    }

    /// Returns the caller's stream, or the handle's own.
    pub fn stream(&self) -> &Stream {
        self.caller_stream.as_ref().unwrap_or(&self.own_stream)
    }

    /// Returns the stream, the copies of host arrays, and the counter of transfer seconds.
    pub fn stream_and_copies(&mut self) -> (&Stream, &mut StagedCopies, &mut f64) {
        (self.caller_stream.as_ref().unwrap_or(&self.own_stream), &mut self.copies, &mut self.seconds_transfer)
    }

    /// Starts a call on arrays with these `extents`. `staging_addresses` contains the addresses of two device buffers,
    /// for an input and for an output in host memory.
    pub fn start_call<'a>(
        &'a mut self,
        arrays: Arrays<'a>,
        observer: &'a mut dyn Observer,
        extents: Cells,
        staging_addresses: [Address; 2],
    ) -> Call<'a> {
        let shape = (arrays.ld, arrays.plane);
        let input = array_on_device(arrays.device_input, staging_addresses[0], extents, shape);
        let output = array_on_device(arrays.device_output, staging_addresses[1], extents, shape);
        let (stream, copies) = (self.caller_stream.as_ref().unwrap_or(&self.own_stream), &mut self.copies);
        let (stopwatch, seconds_transfer) = (&self.stopwatch, &mut self.seconds_transfer);
        *seconds_transfer = 0.0;
        let (first_error, has_unread_transfer_time) = (None, false);
        Call {
            stream,
            observer,
            arrays,
            input,
            output,
            first_error,
            extents,
            copies,
            stopwatch,
            has_unread_transfer_time,
            seconds_transfer,
        }
    }

    /// Starts a call on arrays with these `extents`; the input has `input_len` values, and the output `output_len`.
    /// Arrays in host memory are copied through device memory, which is allocated if it is missing or too small.
    pub fn start_staged_call<'a>(
        &'a mut self,
        arrays: Arrays<'a>,
        observer: &'a mut dyn Observer,
        extents: Cells,
        [input_len, output_len]: [usize; 2],
    ) -> Result<Call<'a>> {
        let bytes = 8 * (input_len + output_len);
        let are_on_device = arrays.device_input != 0 && arrays.device_output != 0;
        if !are_on_device && self.staging_bytes() < bytes {
            self.staging = None;
            self.staging = Some(Memory::zeroed(&self.device, self.stream(), bytes, "arrays that are on the host")?);
        }
        let address = self.staging.as_ref().map_or(0, |memory| memory.address);
        Ok(self.start_call(arrays, observer, extents, [address, address + 8 * input_len as u64]))
    }

    /// Frees the device memory for copies of the caller's arrays.
    pub fn free_staging(&mut self) {
        self.staging = None;
    }

    /// Returns the bytes of device memory for copies of the caller's arrays.
    pub fn staging_bytes(&self) -> usize {
        self.staging.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// Waits for the stream at the end of a run. Returns `failed`, the first error of the driver during the run, or, if
    /// there is none, the result of the wait. The wait is necessary because the next call may use another stream, and
    /// because the device must not use the caller's arrays after the call has returned.
    pub fn end_run(&self, failed: Option<Error>) -> Result<()> {
        let waited = self.stream().wait();
        failed.map_or(waited, Err)
    }

    /// Returns the bytes of page-locked host memory.
    pub fn bytes(&self) -> usize {
        self.copies.bytes()
    }
}
