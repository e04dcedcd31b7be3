//! Arrays of doubles on a CUDA device, for the solver's device pointers.

use crate::stream::Bandwidth;
use crate::timing::Samples;
use anyhow::{Result, anyhow};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut as _, DriverError};
use rrbsolver::ffi::rrbsolver_cuda_device_count;
use std::sync::Arc;
use std::time::Instant;

/// Name of the copy from one array of a device to another, among the bandwidths.
pub const DEVICE_COPY: &str = "device copy";
/// Measured rounds of it, and copies in a round: long against a launch and a wait.
const ROUNDS: usize = 11;
const COPIES: usize = 10;

/// Devices that the library finds.
pub fn count() -> i32 {
    let mut count = 0;
    // SAFETY: an int that outlives the call.
    let status = unsafe { rrbsolver_cuda_device_count(&mut count) };
    if status == 0 { count } else { 0 }
}

/// A device's stream for copies. Only where the library has found that device.
pub struct Device {
    stream: Arc<CudaStream>,
}

/// An array on it.
pub struct DeviceArray {
    stream: Arc<CudaStream>,
    values: CudaSlice<f64>,
}

fn sentence(error: DriverError) -> anyhow::Error {
    anyhow!("CUDA: {error}")
}

impl Device {
    /// In its primary context, the one that the library uses.
    pub fn new(ordinal: usize) -> Result<Self> {
        let context = CudaContext::new(ordinal).map_err(sentence)?;
        Ok(Self { stream: context.default_stream() })
    }

    /// Copies from one array to another, so many MB of both together: 16 bytes a value.
    pub fn bandwidth(&self, megabytes: f64) -> Result<Bandwidth> {
        let values = ((megabytes * 1e6 / 16.0) as usize).max(1);
        let (from, mut to) = (self.zeros(values)?, self.zeros(values)?);
        let mut seconds = Vec::new();
        // The first is the warm-up.
        for _ in 0..=ROUNDS {
            self.stream.synchronize().map_err(sentence)?;
            let start = Instant::now();
            for _ in 0..COPIES {
                self.stream.memcpy_dtod(&from.values, &mut to.values).map_err(sentence)?;
            }
            self.stream.synchronize().map_err(sentence)?;
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

    /// Zeros.
    pub fn zeros(&self, len: usize) -> Result<DeviceArray> {
        let values = self.stream.alloc_zeros(len).map_err(sentence)?;
        Ok(DeviceArray { stream: Arc::clone(&self.stream), values })
    }
}

impl DeviceArray {
    /// From the host.
    pub fn set(&mut self, values: &[f64]) -> Result<()> {
        self.stream.memcpy_htod(values, &mut self.values).map_err(sentence)?;
        self.stream.synchronize().map_err(sentence)
    }

    /// Zeros again.
    pub fn clear(&mut self) -> Result<()> {
        self.stream.memset_zeros(&mut self.values).map_err(sentence)?;
        self.stream.synchronize().map_err(sentence)
    }

    /// To the host.
    pub fn get(&self, values: &mut [f64]) -> Result<()> {
        self.stream.memcpy_dtoh(&self.values, values).map_err(sentence)?;
        self.stream.synchronize().map_err(sentence)
    }

    /// How many values it has.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// For the solver.
    pub fn pointer(&mut self) -> *mut f64 {
        let (address, _guard) = self.values.device_ptr_mut(&self.stream);
        address as *mut f64
    }
}
