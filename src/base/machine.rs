//! Resources (backend, threads, devices) of a handle, and the interface of its solver object, for all families.

use crate::base::engine::Engine;
use crate::error::Result;
use crate::options::{Backend, Devices, Options, opt};

/// Resources for which a backend is created. Other resources require another backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The backend; never `Backend::Auto`.
    pub backend: Backend,
    /// Maximum number of host threads.
    pub threads: usize,
    /// CUDA ordinal of the device, or of the first one of several devices; -1 without a device.
    pub device: i64,
    /// Devices among which the grids are divided; none if one device stores all grids.
    pub devices: Devices,
}

impl Machine {
    /// One host thread and no device.
    pub const HOST: Self = Self { backend: Backend::Cpu, threads: 1, device: -1, devices: Devices::NONE };

    /// Selects the resources for `options`, given the numbers of threads and CUDA devices. `backend=auto` selects CUDA
    /// if `is_worth_a_device` is true and all devices that the options name exist.
    pub fn new(options: &Options, threads: usize, device_count: i32, is_worth_a_device: bool) -> Self {
        let shared_devices = options.devices();
        let device = shared_devices.ordinals().next().unwrap_or_else(|| options.int(opt::DEVICE));
        let last_ordinal = shared_devices.ordinals().max().unwrap_or(device);
        let backend = match options.choice(opt::BACKEND) {
            Backend::Auto if is_worth_a_device && last_ordinal < i64::from(device_count) => Backend::Cuda,
            Backend::Auto => Backend::Cpu,
            requested => requested,
        };
        match backend {
            Backend::Cuda => Self { backend, threads, device, devices: shared_devices },
            _ => Self { backend, threads, device: -1, devices: Devices::NONE },
        }
    }

    /// Returns whether the backend computes on CUDA devices.
    pub fn is_device(self) -> bool {
        self.backend == Backend::Cuda
    }
}

/// Functions of the solver object of a handle, in all families.
pub trait Core {
    /// Returns the resources for which the backend was created.
    fn machine(&self) -> Machine;
    /// Returns the backend.
    fn engine(&self) -> &dyn Engine;
    /// Returns the backend, for calls that change it.
    fn engine_mut(&mut self) -> &mut dyn Engine;
    /// Returns the bytes in host memory that `Engine::bytes` does not include.
    fn other_host_bytes(&self) -> usize {
        0
    }
    /// Returns the names of formats and methods in use, for the log line of a solve.
    fn names_in_use(&self) -> [&'static str; 2] {
        [""; 2]
    }
    /// Returns the result with this key, or 0 if the family has no such result. All integer results fit into a double.
    fn result(&self, key: i32) -> f64;
    /// Applies those changed options that need no new factorization.
    fn apply_options(&mut self, _options: &Options) -> Result<()> {
        Ok(())
    }
    /// Returns the CUDA ordinal of the device in use.
    fn device(&self) -> Option<i32> {
        i32::try_from(self.machine().device).ok().filter(|&ordinal| ordinal >= 0)
    }
}
