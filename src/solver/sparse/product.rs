//! Products with a general sparse matrix, in the format that the options ask for.

use crate::error::Result;
use crate::options::{Format, Options, opt};
use crate::runtime::workers::Workers;
use crate::sparse::{Kind, Matrix, Size, Stored, Wanted};

/// What a format is made by.
const KEYS: [i32; 5] = [opt::FORMAT, opt::SLICE, opt::SIGMA, opt::BLOCK_SIZE, opt::FORMAT_MEMORY];

/// A matrix in its format.
pub struct Product {
    /// The options that it was made by.
    asked: [i64; KEYS.len()],
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

impl Product {
    /// The format that the options ask for.
    pub fn new(matrix: &dyn Matrix, options: &Options, workers: &mut Workers) -> Result<Self> {
        let (kind, size) = matrix.choose(&wanted(options, options.choice(opt::FORMAT), true), workers)?;
        let stored = matrix.store(kind, &size, workers)?;
        Ok(Self { asked: KEYS.map(|key| options.int(key)), kind, size, stored })
    }

    /// Whether these options would make the same.
    pub fn fits(&self, options: &Options) -> bool {
        self.asked == KEYS.map(|key| options.int(key))
    }

    pub fn stored<'a>(&'a self, matrix: &'a dyn Matrix) -> &'a dyn Stored {
        self.stored.as_deref().unwrap_or_else(|| matrix.csr())
    }

    /// The format in use.
    pub fn format(&self) -> Format {
        self.kind.format()
    }

    /// Values, padding included.
    pub fn values(&self) -> u128 {
        self.size.stored()
    }

    /// Bytes of all arrays that a product reads, however many of them are the matrix's own.
    pub fn read(&self) -> u128 {
        self.size.bytes()
    }

    /// Bytes of arrays beside those of the matrix.
    pub fn bytes(&self) -> usize {
        if self.stored.is_some() { self.size.bytes() as usize } else { 0 }
    }
}
