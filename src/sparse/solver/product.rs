//! Products with a general sparse matrix, in the storage format that the options request.

use crate::base::workers::Workers;
use crate::error::{Error, Result};
use crate::options::{Choice, Format, Options, opt};
use crate::sparse::{FormatKind, FormatRequest, FormatSize, Matrix, Stored};

/// Options that determine the storage format.
const FORMAT_OPTIONS: [i32; 5] = [opt::FORMAT, opt::SLICE, opt::SIGMA, opt::BLOCK_SIZE, opt::FORMAT_MEMORY];

/// A matrix in its storage format.
pub struct ProductMatrix {
    /// Values of the options in `FORMAT_OPTIONS` at the conversion.
    option_values: [i64; FORMAT_OPTIONS.len()],
    kind: FormatKind,
    size: FormatSize,
    /// The arrays of the format on the host. `None` if the format is csr, or if the host arrays have been freed.
    stored: Option<Box<dyn Stored>>,
}

/// Returns `format` with the parameters that the options set. `for_products` is false if the arrays are only exported,
/// not used for products. `on_device`: whether a device computes the products.
pub fn format_request(options: &Options, format: Format, for_products: bool, on_device: bool) -> FormatRequest {
    let int_option = |key| options.int(key) as usize;
    FormatRequest {
        format,
        slice_rows: int_option(opt::SLICE),
        sigma: int_option(opt::SIGMA),
        block_size: int_option(opt::BLOCK_SIZE),
        memory_limit: options.int(opt::FORMAT_MEMORY) as u128,
        for_products,
        on_device,
    }
}

/// Returns an error if a device has no kernel for the format.
fn check_kernel(format: Format) -> Result<()> {
    match format {
        Format::Coo | Format::Csc | Format::Jds | Format::Tjds | Format::Skyline => Err(Error::Unsupported(format!(
            "format={} has no kernel on a device; use format=auto, csr, sell, dia, bsr, ell or diagonal",
            format.name()
        ))),
        _ => Ok(()),
    }
}

impl ProductMatrix {
    /// Converts the matrix to the format that the options request. `on_device`: whether a device computes the products.
    pub fn new(matrix: &dyn Matrix, options: &Options, on_device: bool, workers: &mut Workers) -> Result<Self> {
        let format = options.choice(opt::FORMAT);
        if on_device {
            check_kernel(format)?;
        }
        let (kind, size) = matrix.choose_format(&format_request(options, format, true, on_device), workers)?;
        let stored = matrix.store(kind, &size, workers)?;
        Ok(Self { option_values: FORMAT_OPTIONS.map(|key| options.int(key)), kind, size, stored })
    }

    /// Returns whether the matrix is already stored in the format that these options request.
    pub fn is_current(&self, options: &Options) -> bool {
        self.option_values == FORMAT_OPTIONS.map(|key| options.int(key))
    }

    /// Converts the matrix to this format, with the value k + 1 in place of entry k of csr; returns `None` if the
    /// format is csr.
    pub fn numbered(&self, matrix: &dyn Matrix, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        matrix.numbered(self.kind, &self.size, workers)
    }

    /// Returns whether the host has the arrays of the format. For csr, these are the arrays of the matrix itself.
    pub fn is_on_host(&self) -> bool {
        self.kind == FormatKind::Csr || self.stored.is_some()
    }

    /// Frees the host's arrays of the format.
    pub fn free_host_arrays(&mut self) {
        self.stored = None;
    }

    /// Returns the matrix in its storage format.
    pub fn stored<'a>(&'a self, matrix: &'a dyn Matrix) -> &'a dyn Stored {
        self.stored.as_deref().unwrap_or_else(|| matrix.csr())
    }

    /// Returns the format in use.
    pub fn format(&self) -> Format {
        self.kind.format()
    }

    /// Returns the number of stored values, including padding.
    pub fn value_count(&self) -> u128 {
        self.size.value_count()
    }

    /// Returns the size in bytes of all arrays that a product reads. For csr, these are the arrays of the matrix
    /// itself.
    pub fn bytes_read(&self) -> u128 {
        self.size.bytes()
    }

    /// Returns the size in bytes of the arrays that exist in addition to those of the matrix.
    pub fn bytes(&self) -> usize {
        if self.stored.is_some() { self.size.bytes() as usize } else { 0 }
    }
}
