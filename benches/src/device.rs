//! Arrays of doubles on a CUDA device, for the device pointers of the solver.

use crate::stream::Bandwidth;
use crate::timing::Samples;
use anyhow::{Result, anyhow};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut as _, DriverError};
use rrbsolver::abi::rrbsolver_cuda_device_count;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// Name of copies between two arrays on a device, in the list of bandwidths.
pub const DEVICE_COPY: &str = "device copy";
/// Names of copies between host and device, in the list of bandwidths: pageable and page-locked host memory.
const TRANSFERS: [&str; 4] =
    ["pageable host to device", "device to pageable host", "pinned host to device", "device to pinned host"];
/// Measured rounds, and copies per round, which last long compared with a launch and a wait.
const ROUNDS: usize = 11;
const COPIES: usize = 10;

/// Returns the number of devices that the library finds.
pub fn count() -> i32 {
    let mut count = 0;
    // SAFETY: an int32_t that outlives the call.
    let status = unsafe { rrbsolver_cuda_device_count(&mut count) };
    if status == 0 { count } else { 0 }
}

/// The stream of a device for copies. Requires a device that the library has found.
pub struct Device {
    stream: Arc<CudaStream>,
}

/// An array on a device.
pub struct DeviceArray {
    stream: Arc<CudaStream>,
    values: CudaSlice<f64>,
}

fn message(error: DriverError) -> anyhow::Error {
    anyhow!("CUDA: {error}")
}

impl Device {
    /// Opens a device in its primary context, which the library also uses.
    pub fn new(ordinal: usize) -> Result<Self> {
        let context = CudaContext::new(ordinal).map_err(message)?;
        Ok(Self { stream: context.default_stream() })
    }

    /// Returns the name of the card.
    pub fn name(&self) -> Result<String> {
        self.stream.context().name().map_err(message)
    }

    /// Measures the bandwidth of copies between two arrays of `megabytes` MB together: 16 bytes per value.
    pub fn bandwidth(&self, megabytes: f64) -> Result<Bandwidth> {
        let values = ((megabytes * 1e6 / 16.0) as usize).max(1);
        let (from, mut to) = (self.zeros(values)?, self.zeros(values)?);
        let mut seconds = Vec::new();
        // The first round is the warm-up.
        for _ in 0..=ROUNDS {
            self.stream.synchronize().map_err(message)?;
            let start = Instant::now();
            for _ in 0..COPIES {
                self.stream.memcpy_dtod(&from.values, &mut to.values).map_err(message)?;
            }
            self.stream.synchronize().map_err(message)?;
            seconds.push(start.elapsed().as_secs_f64() / COPIES as f64);
        }
        let samples = Samples::new(seconds.split_off(1));
        let gigabytes = 16e-9 * values as f64;
        Ok(Bandwidth {
            kernel: DEVICE_COPY.to_owned(),
            threads: 0,
            megabytes,
            median: gigabytes / samples.median(),
            best: gigabytes / samples.least(),
        })
    }

    /// Measures the rates of copies of `megabytes` MB between host and device, in the order of `TRANSFERS`.
    pub fn transfers(&self, megabytes: f64) -> Result<Vec<Bandwidth>> {
        let values = ((megabytes * 1e6 / 8.0) as usize).max(1);
        let mut device = self.zeros(values)?.values;
        let mut pageable = vec![0.0_f64; values];
        // SAFETY: the copy below sets all values before anything reads them.
        let mut pinned = unsafe { self.stream.context().alloc_pinned_with_flags::<f64>(values, 0) }.map_err(message)?;
        self.stream.memcpy_dtoh(&device, &mut pinned).map_err(message)?;
        let mut seconds = [(); 4].map(|()| Vec::new());
        // The first round is the warm-up.
        for _ in 0..=ROUNDS {
            for (kind, seconds) in seconds.iter_mut().enumerate() {
                self.stream.synchronize().map_err(message)?;
                let start = Instant::now();
                match kind {
                    0 => self.stream.memcpy_htod(&pageable, &mut device),
                    1 => self.stream.memcpy_dtoh(&device, &mut pageable),
                    2 => self.stream.memcpy_htod(&pinned, &mut device),
                    _ => self.stream.memcpy_dtoh(&device, &mut pinned),
                }
                .map_err(message)?;
                self.stream.synchronize().map_err(message)?;
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        let gigabytes = 8e-9 * values as f64;
        let rate = |(kernel, mut seconds): (&str, Vec<f64>)| {
            let samples = Samples::new(seconds.split_off(1));
            let (median, best) = (gigabytes / samples.median(), gigabytes / samples.least());
            Bandwidth { kernel: kernel.to_owned(), threads: 0, megabytes, median, best }
        };
        Ok(TRANSFERS.into_iter().zip(seconds).map(rate).collect())
    }

    /// Allocates an array of zeros.
    pub fn zeros(&self, len: usize) -> Result<DeviceArray> {
        let values = self.stream.alloc_zeros(len).map_err(message)?;
        Ok(DeviceArray { stream: Arc::clone(&self.stream), values })
    }
}

/// A stream with copies of a fixed size between two arrays on the device.
pub struct Queue {
    stream: Arc<CudaStream>,
    from: CudaSlice<f64>,
    to: CudaSlice<f64>,
}

impl Queue {
    /// Creates a stream. `bytes`: bytes that a copy reads and writes.
    pub fn new(device: &Device, bytes: f64) -> Result<Self> {
        let stream = device.stream.context().new_stream().map_err(message)?;
        let array = || stream.alloc_zeros((bytes / 16.0) as usize + 1).map_err(message);
        let (from, to) = (array()?, array()?);
        stream.synchronize().map_err(message)?;
        Ok(Self { stream, from, to })
    }

    /// Returns the stream for the solver.
    pub fn pointer(&self) -> *mut c_void {
        self.stream.cu_stream().cast()
    }

    /// Starts a copy.
    pub fn copy(&mut self) -> Result<()> {
        self.stream.memcpy_dtod(&self.from, &mut self.to).map_err(message)
    }

    /// Waits until the stream is idle.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(message)
    }
}

impl DeviceArray {
    /// Copies values from the host.
    pub fn set(&mut self, values: &[f64]) -> Result<()> {
        self.stream.memcpy_htod(values, &mut self.values).map_err(message)?;
        self.stream.synchronize().map_err(message)
    }

    /// Sets all values to zero.
    pub fn clear(&mut self) -> Result<()> {
        self.stream.memset_zeros(&mut self.values).map_err(message)?;
        self.stream.synchronize().map_err(message)
    }

    /// Copies the values to the host.
    pub fn get(&self, values: &mut [f64]) -> Result<()> {
        self.stream.memcpy_dtoh(&self.values, values).map_err(message)?;
        self.stream.synchronize().map_err(message)
    }

    /// Returns the number of values.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// Returns the device address for the solver.
    pub fn pointer(&mut self) -> *mut f64 {
        let (address, _guard) = self.values.device_ptr_mut(&self.stream);
        address as *mut f64
    }
}
