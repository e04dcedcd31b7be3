//! Products with a general sparse matrix, in the format that the options ask for.

use crate::error::Result;
use crate::options::{Backend, Format, Options, opt};
use crate::solver::machine::{Core, Machine};
use crate::sparse::{Kind, Matrix, Size, Stored, Wanted, check_finite};

/// A matrix in its format.
pub struct Sparse {
    kind: Kind,
    size: Size,
    /// None: csr, as the matrix itself is.
    stored: Option<Box<dyn Stored>>,
}

/// What the options ask for; `product`: not only for the arrays of a format.
pub fn wanted(options: &Options, format: Format, product: bool) -> Wanted {
    let count = |key| options.int(key) as usize;
    Wanted {
        format,
        slice: count(opt::SLICE),
        sigma: count(opt::SIGMA),
        block_size: count(opt::BLOCK_SIZE),
        memory: options.int(opt::FORMAT_MEMORY) as u128,
        product,
    }
}

impl Sparse {
    /// The format that the options ask for.
    pub fn new(matrix: &dyn Matrix, options: &Options) -> Result<Self> {
        let (kind, size) = matrix.choose(&wanted(options, options.choice(opt::FORMAT), true))?;
        let stored = matrix.store(kind, &size)?;
        Ok(Self { kind, size, stored })
    }

    /// y = A x, or A' x.
    pub fn multiply(&self, matrix: &dyn Matrix, x: &[f64], y: &mut [f64], transposed: bool, check: bool) -> Result<()> {
        if check {
            check_finite("x", x)?;
        }
        let stored = self.stored.as_deref().unwrap_or_else(|| matrix.csr());
        if transposed {
            stored.multiply_transposed(x, y);
        } else {
            stored.multiply(x, y);
        }
        Ok(())
    }

    /// The format in use.
    pub fn format(&self) -> Format {
        self.kind.format()
    }

    /// Values, padding included.
    pub fn stored(&self) -> u128 {
        self.size.stored()
    }

    /// Bytes of all arrays that a product reads, however many of them are the matrix's own.
    pub fn read(&self) -> u128 {
        self.size.bytes()
    }
}

impl Core for Sparse {
    fn machine(&self) -> Machine {
        Machine { backend: Backend::Cpu, threads: 1, device: -1 }
    }

    fn device(&self) -> Option<i32> {
        None
    }

    fn threads(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        if self.stored.is_some() { self.size.bytes() as usize } else { 0 }
    }

    fn device_bytes(&self) -> usize {
        0
    }

    fn seconds_transfer(&self) -> f64 {
        0.0
    }

    fn use_stream(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}
