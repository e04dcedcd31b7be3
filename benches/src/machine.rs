//! The machine on which a record was made.

use crate::device::{self, Device};
use serde::{Deserialize, Serialize};

/// Description of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Widest vector instruction set.
    pub vectors: String,
    /// Name of the first CUDA device.
    #[serde(default)]
    pub device: Option<String>,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            processor: model.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            cores: cores(),
            vectors: crate::isa::name().to_owned(),
            device: (device::count() > 0).then(|| Device::new(0)?.name()).and_then(Result::ok),
        }
    }

    /// Formats the names in a line.
    pub fn text(&self) -> String {
        let device = self.device.as_ref().map_or(String::new(), |name| format!("; device: {name}"));
        format!("{}, {} cores{device}\n", self.processor, self.cores)
    }
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
