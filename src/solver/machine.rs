//! What a handle runs on: the choice of a backend, one for all families.

use crate::error::Result;
use crate::options::{Backend, Devices, Options, opt};

/// The part of a machine that a backend is made for; another needs another backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The backend, never `auto`.
    pub backend: Backend,
    /// Threads of the host at most.
    pub threads: usize,
    /// CUDA ordinal, of the first where there are several; -1 without a device.
    pub device: i64,
    /// Those that share grids; none where one has all.
    pub devices: Devices,
}

impl Machine {
    /// Where nothing works yet.
    pub const HOST: Self = Self { backend: Backend::Cpu, threads: 1, device: -1, devices: Devices::NONE };

    /// What `options` ask for where there are so many threads and CUDA devices; `worth_a_device`: `auto` takes one.
    pub fn new(options: &Options, threads: usize, devices: i32, worth_a_device: bool) -> Self {
        let shared = options.devices();
        let device = shared.ordinals().next().unwrap_or_else(|| options.int(opt::DEVICE));
        let last = shared.ordinals().max().unwrap_or(device);
        let backend = match options.choice(opt::BACKEND) {
            Backend::Auto if worth_a_device && last < i64::from(devices) => Backend::Cuda,
            Backend::Auto => Backend::Cpu,
            asked => asked,
        };
        match backend {
            Backend::Cuda => Self { backend, threads, device, devices: shared },
            _ => Self { backend, threads, device: -1, devices: Devices::NONE },
        }
    }

    /// It is a device.
    pub fn is_device(self) -> bool {
        self.backend == Backend::Cuda
    }
}

/// What does the work of a handle, of any family.
pub trait Core {
    /// What it was made for.
    fn machine(&self) -> Machine;
    /// Ordinal of the device in use.
    fn device(&self) -> Option<i32>;
    /// Threads in use.
    fn threads(&self) -> usize;
    /// Bytes of all arrays in host memory.
    fn bytes(&self) -> usize;
    /// Bytes of all arrays in device memory.
    fn device_bytes(&self) -> usize;
    /// Of the last call, seconds of copies between host and device.
    fn seconds_transfer(&self) -> f64;
    /// The caller's stream for what follows; 0: the backend's own.
    fn use_stream(&mut self, stream: usize) -> Result<()>;
}
