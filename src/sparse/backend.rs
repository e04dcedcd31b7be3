//! Interface of the backends for general sparse matrices (`SparseBackend`), and its parameters.

use crate::base::engine::Engine;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::options::{Ordering, Preconditioner};
use crate::report::{Observer, Outcome};
use crate::sparse::{AnyCsr, Matrix, Stored};

/// The square matrix A of a solve, for products with A and A^T.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    pub a: &'a dyn Stored,
    /// The matrix for products with A^T: a copy of A^T, or `a` itself if A is symmetric. If it is `None`, products with
    /// A^T are computed from the arrays of `a`, or from the copy of A^T in the memory of the backend.
    pub transposed: Option<&'a dyn Stored>,
}

/// Matrix of a product y = A x or y = A^T x outside of a solve. x has `Arrays::len` values.
pub struct ProductOperand<'a> {
    pub matrix: &'a dyn Matrix,
    /// A in the storage format for products.
    pub stored: &'a dyn Stored,
    /// Whether the product is y = A^T x instead of y = A x.
    pub transposed: bool,
    /// Number of values of y.
    pub output_len: usize,
}

/// Kind and parameters of a preconditioner M. Parameters of other kinds are ignored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preconditioning {
    pub kind: Preconditioner,
    /// Whether jacobi uses M = |D| instead of M = D. |D| is positive definite for every A, as minres requires.
    pub absolute_diagonal: bool,
    /// Relaxation factor of ssor, M^-1 = omega (2 - omega) (D + omega U)^-1 D (D + omega L)^-1 with A = L + D + U.
    pub omega: f64,
    /// ic0 factorizes A + shift diag(A). A negative value selects the first shift without a nonpositive pivot.
    pub shift: f64,
    /// Highest power of D^-1 U and of L D^-1 in the Neumann series, with A = L + D + U.
    pub series_order: usize,
    /// Degree of the Chebyshev polynomial in D^-1 A.
    pub degree: usize,
    /// Whether ssor, ic0 and ilu0 are computed from P A P^T instead of A. The permutation P sorts the rows by their
    /// first-fit colours in the graph of A + A^T.
    pub is_multicolour: bool,
}

impl Preconditioning {
    /// Returns a preconditioner of this kind with omega = 1, and zero for all other parameters.
    pub fn of(kind: Preconditioner) -> Self {
        Self {
            kind,
            absolute_diagonal: false,
            omega: 1.0,
            shift: 0.0,
            series_order: 0,
            degree: 0,
            is_multicolour: false,
        }
    }

    /// Returns whether M is symmetric. The M of ilu0 can be unsymmetric for a symmetric A: an explicit zero a_ij may
    /// have no mirrored entry a_ji, and ILU(0) can replace this zero by a nonzero entry of L or U.
    pub fn is_symmetric(&self, matrix_is_symmetric: bool) -> bool {
        match self.kind {
            Preconditioner::Ilu0 => false,
            Preconditioner::Ic0 => true,
            _ => matrix_is_symmetric,
        }
    }
}

/// Parameters of relaxation sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepParameters {
    /// Whether all updates use the values from before the sweep (Jacobi).
    pub is_jacobi: bool,
    pub omega: f64,
    pub ordering: Ordering,
    /// Number of blocks of `Ordering::Blocks`, at least one.
    pub block_count: usize,
}

/// Input of [`SparseBackend::set_up`].
pub struct Setup<'a> {
    pub matrix: AnyCsr<'a>,
    /// Operator for products during a solve.
    pub operator: Operator<'a>,
    /// Whether the matrix is symmetric.
    pub is_symmetric: bool,
    /// Whether the entries of M are stored in f32.
    pub stores_m_in_f32: bool,
    /// Whether the entries of A and the vectors are stored in f32, in addition to those of M. Only a device supports
    /// this.
    pub stores_vectors_in_f32: bool,
    /// Whether the method needs M^-T.
    pub needs_transpose: bool,
    /// Whether the method is CG, whose iterations a device records as a graph.
    pub is_cg: bool,
    /// Number of work vectors of the method, without x, b and r.
    pub work_vector_count: usize,
    pub preconditioning: Preconditioning,
    /// Preconditioner for the method that continues after a breakdown of the first method.
    pub second_preconditioning: Preconditioning,
    /// Parameters of the relaxation method; `None` for other methods.
    pub sweep_parameters: Option<SweepParameters>,
    /// Maximum number of threads.
    pub threads: usize,
}

/// Result of [`SparseBackend::set_up`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetupResult {
    /// Shift that ic0 used.
    pub shift: f64,
    /// Row and value of the nonpositive pivot for which ic0 needed a shift; `None` if ic0 needed no shift.
    pub nonpositive_pivot: Option<(usize, f64)>,
    /// Number of levels in triangular solves or sweeps (level scheduling; Saad 2003, section 11.6); 0 if there are
    /// neither. A level consists of groups of rows. The groups of a level are independent of one another.
    pub level_count: usize,
    /// Number of colours in triangular solves or sweeps with `Ordering::Multicolour`; 0 in all other cases.
    pub colour_count: usize,
    /// Number of aggregates of multigrid that were reused from the previous matrix.
    pub reused_aggregate_count: usize,
}

/// Function that returns the matrix in the storage format for products, with the value k + 1 in place of entry k of
/// csr; `None` if this format is csr. With the argument `true`, returns A^T by rows instead, with these values.
pub type Numbered<'a> = dyn Fn(bool) -> Result<Option<Box<dyn Stored>>> + 'a;

/// Location of the caller's values: a slice, or an address on the device of the backend.
#[derive(Clone, Copy)]
pub enum ValueSource<'a> {
    Host(&'a [f64]),
    Device(u64),
}

/// Input of [`SparseBackend::replace_values`].
pub struct NewValues<'a> {
    /// `input_count` values in the caller's order. Values on the host are finite.
    pub source: ValueSource<'a>,
    pub input_count: usize,
    /// Number of entries of the matrix.
    pub entry_count: usize,
    /// For each value of `source`, the index of its entry in csr. `None` if `source` has the order of csr.
    pub entry_positions: Option<&'a [usize]>,
    /// Receives the values of the entries in the order of csr. `None` if `source` is on the host and already has this
    /// order.
    pub csr: Option<&'a mut Vec<f64>>,
    pub numbered: &'a Numbered<'a>,
}

/// Backend with the vectors, the preconditioner and the thread team for one matrix.
pub trait SparseBackend: Engine + Send {
    /// Computes M, allocates the vectors of the method, and creates the thread team.
    fn set_up(&mut self, setup: &Setup) -> Result<SetupResult>;
    /// Allocates `count` work vectors.
    fn reserve_vectors(&mut self, count: usize) -> Result<()>;
    /// Runs `program`, the steps of a solve or of one application of M^-1, on all threads.
    fn run(
        &mut self,
        operator: Operator,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome>;
    /// Computes the product that `operand` describes, with at most `threads` threads. With `checks_input`, returns an
    /// error if x is on a device and contains NaN or infinity.
    fn multiply(&mut self, operand: ProductOperand, arrays: Arrays, checks_input: bool, threads: usize) -> Result<()>;
    /// Replaces the values of the matrix for products. Returns `false` and changes nothing in these cases:
    /// - The backend has no matrix for products, or cannot replace its values.
    /// - The memory is insufficient.
    /// - A value or a sum of duplicates is not finite.
    ///
    /// If an error occurs after the first value has been overwritten, the backend discards the matrix.
    fn replace_values(&mut self, _new: NewValues) -> Result<bool> {
        Ok(false)
    }
    /// Returns whether the backend has its own copy of the matrix for products.
    fn has_matrix(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Returns whether the backend has its own copy of A^T for products.
    fn has_transpose(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Copies `to.len()` values from the address `from` on the backend's device.
    fn fetch(&mut self, _from: u64, _to: &mut [f64]) -> Result<()> {
        Err(Error::Internal("the backend has no device".to_owned()))
    }
    /// Discards the backend's copy of A^T, if any, so that the kernel of the format computes products with A^T.
    fn discard_transpose(&mut self) {}
    /// Discards the data that depends on the storage format for products. Called before the matrix is converted to
    /// another format.
    fn discard_format_data(&mut self);
}
