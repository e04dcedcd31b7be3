//! What a handle runs on: the choice of a backend, one for all families.

use crate::backend::steps::engine::Engine;
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
    /// Where it works.
    fn engine(&self) -> &dyn Engine;
    /// The same, to be changed.
    fn engine_mut(&mut self) -> &mut dyn Engine;
    /// Returns the bytes in host memory that the backend does not count.
    fn own_bytes(&self) -> usize {
        0
    }
    /// Returns the names of formats and methods in use, for the log line of a solve.
    fn in_use(&self) -> [&'static str; 2] {
        [""; 2]
    }
    /// A result that it knows, 0 for a key of another; whole numbers fit a double here.
    fn result(&self, key: i32) -> f64;
    /// Makes what changed options need that act at once.
    fn prepare(&mut self, _options: &Options) -> Result<()> {
        Ok(())
    }
    /// Ordinal of the device in use.
    fn device(&self) -> Option<i32> {
        i32::try_from(self.machine().device).ok().filter(|&ordinal| ordinal >= 0)
    }
}
