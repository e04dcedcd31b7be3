//! What a backend of general sparse matrices does around the steps (`SparseBackend`): M and vectors of a method, and
//! products.

use super::engine::Engine;
use super::solve::{Arrays, Program};
use crate::error::Result;
use crate::options::{Ordering, Preconditioner};
use crate::report::{Observer, Outcome};
use crate::sparse::{AnyCsr, Stored};

/// A square matrix, as a solve multiplies with it.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    pub a: &'a dyn Stored,
    /// A' where it is another matrix and was copied: A itself where that is symmetric. None: products with A' come from
    /// the format of A.
    pub transposed: Option<&'a dyn Stored>,
}

/// A preconditioner M with its parameters; each kind uses its own ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preconditioning {
    pub kind: Preconditioner,
    /// Jacobi divides by |a_ii|: M = |D| is positive definite for every A, as minres requires.
    pub absolute: bool,
    /// Relaxation factor of ssor, M^-1 = omega (2 - omega) (D + omega U)^-1 D (D + omega L)^-1 with A = L + D + U.
    pub omega: f64,
    /// ic0 factorizes A + shift diag(A). A negative value selects the first shift without a nonpositive pivot.
    pub shift: f64,
    /// Highest power of D^-1 U and L D^-1 in the Neumann series.
    pub order: usize,
    /// Degree of the Chebyshev polynomial in D^-1 A.
    pub degree: usize,
}

impl Preconditioning {
    /// A preconditioner without parameters.
    pub fn of(kind: Preconditioner) -> Self {
        Self { kind, absolute: false, omega: 1.0, shift: 0.0, order: 0, degree: 0 }
    }
}

/// Which sweeps are to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relaxing {
    /// All values are old ones, in whatever order: Jacobi.
    pub simultaneous: bool,
    pub omega: f64,
    pub ordering: Ordering,
    /// Blocks of `Ordering::Blocks`, at least one.
    pub blocks: usize,
}

/// What is to be made for a matrix.
pub struct Setup<'a> {
    pub matrix: AnyCsr<'a>,
    /// What a solve will multiply with.
    pub operator: Operator<'a>,
    /// It is.
    pub symmetric: bool,
    /// Entries of M are kept in f32.
    pub single: bool,
    /// M^-T is asked for.
    pub transposes: bool,
    /// Vectors of the method beside x, b and r.
    pub own: usize,
    pub preconditioning: Preconditioning,
    /// M of a method that goes on where the first breaks down.
    pub second: Preconditioning,
    /// Of a method that sweeps.
    pub relaxing: Option<Relaxing>,
    /// Threads at most.
    pub threads: usize,
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Made {
    /// Of ic0 in use.
    pub shift: f64,
    /// The row and the pivot that made it necessary.
    pub pivot: Option<(usize, f64)>,
    /// Levels of rows that do not wait for each other, in triangular solves or sweeps.
    pub levels: usize,
    /// Colours of sweeps.
    pub colours: usize,
    /// Aggregates kept from the matrix before.
    pub aggregates_kept: usize,
}

/// Vectors, M and threads for a matrix.
pub trait SparseBackend: Engine + Send {
    /// Makes M and room for the vectors of a method, and a team.
    fn set_up(&mut self, setup: &Setup) -> Result<Made>;
    /// Room for so many vectors of a method.
    fn reserve(&mut self, own: usize) -> Result<()>;
    /// Runs a text on the steps.
    fn run(&mut self, a: Operator, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// y = A x, or A' x, by a team of at most `threads`.
    fn multiply(&mut self, a: &dyn Stored, transposed: bool, x: &[f64], y: &mut [f64], threads: usize) -> Result<()>;
    /// The format of products is another one from here on.
    fn renew(&mut self);
    /// Both, at the same time where a matrix of so many rows is worth a team of `threads`.
    fn both(&mut self, rows: usize, threads: usize, own: &mut dyn FnMut(), other: &(dyn Fn() + Sync)) -> Result<()>;
}
