//! Functions that the backends of all families implement: size of memory, number of threads, time of copies, stream.

use crate::error::Result;

/// A backend. The default bodies describe a backend with one thread on the host.
pub trait Engine {
    /// Returns the bytes of all arrays in host memory, and on devices.
    fn bytes(&self) -> [usize; 2];
    /// Returns the number of threads in use.
    fn threads(&self) -> usize {
        1
    }
    /// Returns the seconds that copies between host and device took in the last run.
    fn seconds_transfer(&self) -> f64 {
        0.0
    }
    /// Uses the caller's stream from now on, or a stream of the backend if `stream` is 0.
    fn use_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }
}
