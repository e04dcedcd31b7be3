//! Arrays of doubles on a CUDA device, for the solver's device pointers.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut as _, DriverError};
use std::sync::Arc;

/// A device's stream for copies. Only where the library has found that device.
pub struct Device {
    stream: Arc<CudaStream>,
}

/// An array on it.
pub struct DeviceArray {
    stream: Arc<CudaStream>,
    values: CudaSlice<f64>,
}

fn sentence(error: DriverError) -> String {
    format!("CUDA: {error}")
}

impl Device {
    /// In its primary context, the one that the library uses.
    pub fn new(ordinal: usize) -> Result<Self, String> {
        let context = CudaContext::new(ordinal).map_err(sentence)?;
        Ok(Self { stream: context.default_stream() })
    }

    /// Zeros.
    pub fn zeros(&self, len: usize) -> Result<DeviceArray, String> {
        let values = self.stream.alloc_zeros(len).map_err(sentence)?;
        Ok(DeviceArray { stream: Arc::clone(&self.stream), values })
    }
}

impl DeviceArray {
    /// From the host.
    pub fn set(&mut self, values: &[f64]) -> Result<(), String> {
        self.stream.memcpy_htod(values, &mut self.values).map_err(sentence)?;
        self.stream.synchronize().map_err(sentence)
    }

    /// To the host.
    pub fn get(&self, values: &mut [f64]) -> Result<(), String> {
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
