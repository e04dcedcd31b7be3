//! Contents of a file: a matrix and, optionally, vectors.

use crate::options::Vector;
use crate::sparse::matrix::Matrix;
use std::fmt;

/// Contents of a file.
pub struct Loaded {
    /// The matrix.
    pub matrix: Box<dyn Matrix>,
    /// The vectors of the file.
    pub vectors: Vectors,
    /// A defect of the file that does not prevent reading.
    pub warning: Option<Warning>,
}

/// Warning about a header that announces a wrong number of cards of right-hand sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warning {
    /// Number of cards in the header.
    pub announced_cards: usize,
    /// Number of cards that the sizes of the right-hand sides require.
    pub read_cards: usize,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { announced_cards, read_cards } = self;
        write!(f, "line 2: the header announces {announced_cards} cards of right-hand sides, the file has {read_cards}")
    }
}

impl Loaded {
    /// Returns the contents of a file without vectors.
    pub fn of(matrix: Box<dyn Matrix>) -> Self {
        Self { matrix, vectors: Vectors::default(), warning: None }
    }
}

/// Right-hand sides, initial guesses and solutions of a file, with columns of `len` values.
#[derive(Default)]
pub struct Vectors {
    pub len: usize,
    pub rhs: Vec<f64>,
    pub guess: Vec<f64>,
    pub solution: Vec<f64>,
}

impl Vectors {
    fn values(&self, vector: Vector) -> &[f64] {
        match vector {
            Vector::Rhs => &self.rhs,
            Vector::Guess => &self.guess,
            Vector::Solution => &self.solution,
        }
    }

    /// Returns the number of columns.
    pub fn count(&self, vector: Vector) -> usize {
        self.values(vector).len() / self.len.max(1)
    }

    /// Returns column k, if it exists.
    pub fn get(&self, vector: Vector, k: usize) -> Option<&[f64]> {
        if k < self.count(vector) { self.values(vector).get(k * self.len..(k + 1) * self.len) } else { None }
    }

    /// Returns the size of all vectors in bytes.
    pub fn bytes(&self) -> usize {
        [&self.rhs, &self.guess, &self.solution].map(|v| size_of_val(&v[..])).iter().sum()
    }
}
