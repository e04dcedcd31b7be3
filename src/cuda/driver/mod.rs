//! The part of the CUDA driver API that the CUDA backends use: devices with their primary context and the library's
//! kernels, streams, memory and graphs. A Rust value owns each resource and frees it. The result codes of all calls are
//! checked, except those of calls that free a resource.
//!
//! The driver library is loaded at the first use, so the program also runs on machines without it. The context is the
//! primary context, shared with the host program and current only for the duration of a call. No kernel and no
//! asynchronous copy is queued on the default stream. Pointers of the caller are plain addresses here, because the
//! library does not own their memory.

mod device;
mod graph;
mod kernels;
mod launches;
mod library;
mod memory;
mod module;
mod program;
mod stream;
mod transfers;

pub use device::{Device, EnteredContext};
pub use graph::RecordedGraph;
pub use kernels::{Blocks, CooperativeLaunch};
pub use library::{HAS_KERNELS, device_count};
pub use memory::{
    GRANULE_BYTES, Memory, MemorySpace, PageLockedArray, Pinned, is_page_locked, is_peer_accessible, memory_space_of,
};
pub(super) use module::Argument;
pub use module::{Kernel, Module, Share};
pub use program::{ExportableMemory, ExportedMemory, HANDLE_BYTES, ImportedMemory, PrimaryContext, Rows};
pub use stream::{DeviceBarrier, Event, Stopwatch, Stream};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::launch;
    use crate::error::Error;
    use std::sync::Arc;

    /// A device stays open when the last value that uses it is dropped: the next `open` returns the same device.
    #[test]
    #[ignore = "needs a device, or an emulated one"]
    fn device_stays_open_after_its_last_user() {
        let open = || Device::open(0, &launch::RRB, Share::ALL).unwrap();
        let first = open();
        let address = Arc::as_ptr(&first);
        drop(first);
        assert_eq!(Arc::as_ptr(&open()), address);
    }

    /// Opening a device must fail if a kernel expects a structure whose size differs from that of the library.
    #[test]
    #[ignore = "needs a device, or an emulated one"]
    fn kernels_with_another_argument_size_are_rejected() {
        static WITH_WRONG_SIZE: Module = Module {
            fatbin: launch::RRB.fatbin,
            shared_prefix: "rrb",
            min_compute_capability: 0,
            shared_kernels: &[],
            kernels: &[&[Kernel::of::<[u64; 3]>("rrb_store_by_rows_f64")]],
        };
        let Err(Error::Internal(message)) = Device::new(0, &WITH_WRONG_SIZE, Share::ALL) else {
            panic!("the sizes are not compared");
        };
        assert!(message.contains("kernel rrb_store_by_rows_f64 expects a structure of"), "{message}");
        assert!(message.contains("24"), "{message}");
    }
}
