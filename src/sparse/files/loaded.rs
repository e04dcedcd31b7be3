//! What a file holds: a matrix, and vectors beside it.

use crate::options::Vector;
use crate::sparse::matrix::Matrix;
use std::fmt;

/// What a file holds.
pub struct Loaded {
    /// The matrix.
    pub matrix: Box<dyn Matrix>,
    /// What comes with it.
    pub vectors: Vectors,
    /// What is wrong with the file, although it is read.
    pub warning: Option<Warning>,
}

/// A header that announces another number of cards of right-hand sides than the file has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warning {
    /// As the header says.
    pub announced: usize,
    /// As the numbers of the right-hand sides take.
    pub read: usize,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { announced, read } = self;
        write!(f, "line 2: the header announces {announced} cards of right-hand sides, the file has {read}")
    }
}

impl Loaded {
    /// A matrix and no more.
    pub fn of(matrix: Box<dyn Matrix>) -> Self {
        Self { matrix, vectors: Vectors::default(), warning: None }
    }
}

/// Right-hand sides of a file, guesses and solutions, each with `len` values a column.
#[derive(Default)]
pub struct Vectors {
    pub len: usize,
    pub rhs: Vec<f64>,
    pub guess: Vec<f64>,
    pub solution: Vec<f64>,
}

impl Vectors {
    fn all(&self, which: Vector) -> &[f64] {
        match which {
            Vector::Rhs => &self.rhs,
            Vector::Guess => &self.guess,
            Vector::Solution => &self.solution,
        }
    }

    /// How many there are.
    pub fn count(&self, which: Vector) -> usize {
        self.all(which).len() / self.len.max(1)
    }

    /// Column k, if it is there.
    pub fn get(&self, which: Vector, k: usize) -> Option<&[f64]> {
        if k < self.count(which) { self.all(which).get(k * self.len..(k + 1) * self.len) } else { None }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        [&self.rhs, &self.guess, &self.solution].map(|v| size_of_val(&v[..])).iter().sum()
    }
}
