//! What a backend of any family reports of itself.

use crate::error::Result;

/// A backend. The defaults are those of one thread of the host.
pub trait Engine {
    /// Bytes of all arrays: in host memory, and on devices.
    fn bytes(&self) -> [usize; 2];
    /// Threads in use.
    fn threads(&self) -> usize {
        1
    }
    /// Of the last run, seconds of copies between host and device.
    fn seconds_transfer(&self) -> f64 {
        0.0
    }
    /// Works on the caller's stream from now on; 0: on one of its own.
    fn use_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }
}
