//! The CUDA driver as this backend uses it: devices with their primary context and our kernels, streams, memory,
//! graphs. Everything is owned by a value that frees it, and every call is checked.
//!
//! The driver is looked for when a program first asks for it; a machine without one loses nothing. The context is the
//! primary one, shared with the host program and made current for the length of a call only. Nothing goes to the
//! default stream. Pointers of the caller are addresses here: nothing owns them.

mod device;
mod graph;
mod kernels;
mod library;
mod memory;
mod stream;
mod transfers;

pub use device::Device;
pub use graph::Loop;
pub use kernels::Together;
pub use library::{HAS_KERNELS, device_count};
pub use memory::{Locked, Memory, Pinned, Space, is_page_locked, space_of};
pub use stream::{Event, Stream, Watch};

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Kernels are loaded once for all handles, those after the last one included.
    #[test]
    fn a_device_stays_open() {
        if device_count() == 0 {
            eprintln!("skipped: no CUDA device");
            return;
        }
        let first = Device::open(0, &[&["rrb_store_f64"]]).unwrap();
        let address = Arc::as_ptr(&first);
        drop(first);
        assert_eq!(Arc::as_ptr(&Device::open(0, &[&["rrb_store_f64"]]).unwrap()), address);
    }
}
