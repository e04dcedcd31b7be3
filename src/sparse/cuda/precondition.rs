//! Preconditioners on the device: none, jacobi, the Neumann series, the Chebyshev polynomial, triangular solves by
//! colours, and multigrid by aggregation. Their application consists of products and vector operations.

use super::aggregated::Aggregated;
use super::allocations::Allocations;
use super::matrix::{Matrix, Products};
use super::triangular::TriangularSolver;
use super::vectors::Vectors;
use crate::aggregation::cuda::AggregationMultigrid;
use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::workers::Workers;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DiagonalArgs, FinishKind, Reals, RowFinish, Sum};
use crate::cuda::vectors::without_result;
use crate::error::{Error, Result};
use crate::krylov::series::{SeriesSteps, series};
use crate::options::{Format, Preconditioner as Kind};
use crate::sparse::backend::{Preconditioning, Setup, SetupResult};
use crate::sparse::{FormatRequest, Interval, Rows, Split, Stored, View, inverse_diagonal};

const WHAT: &str = "a preconditioner on the device";

/// M^-1 and, if requested, M^-T.
#[derive(Default)]
pub enum Preconditioner {
    /// M = I.
    #[default]
    None,
    /// M^-1 = diag(d).
    Diagonal(Allocations, Address),
    Series(Box<NeumannSeries>),
    Polynomial(Box<Polynomial>),
    Triangular(Box<TriangularSolver>),
    Aggregated(Box<Aggregated>),
}

/// The truncated Neumann series ([`series`]).
pub struct NeumannSeries {
    memory: Allocations,
    d: Address,
    /// The strict triangles of A.
    lower: Matrix,
    upper: Matrix,
    /// The strict triangles of A^T, if M^-T is requested and differs from M^-1.
    transposed: Option<[Matrix; 2]>,
    order: usize,
    workspace: [Address; 2],
}

/// The Chebyshev polynomial in D^-1 A, by the recurrence of src/sparse/cpu/precondition/chebyshev.rs.
pub struct Polynomial {
    memory: Allocations,
    d: Address,
    interval: Interval,
    degree: usize,
    /// A and A^T with values in f32. `None`: the matrices of the products apply the polynomial.
    copies: Option<(Matrix, Option<Matrix>)>,
    /// Workspaces: s_k = D^-1 (r - A z_{k-1}), d_k and d_{k-1}.
    workspace: [Address; 3],
}

/// Copies a matrix to the device, in the format that needs the fewest bytes.
fn part(stream: &Stream, a: &Csr<u32>, reals: Reals) -> Result<Matrix> {
    let wanted = FormatRequest {
        format: Format::Auto,
        slice: 0,
        sigma: 0,
        block_size: 0,
        memory: u128::MAX / 2,
        product: true,
        on_device: true,
    };
    let workers = &mut Workers::alone();
    let (kind, size) = wanted.kind(a, workers)?;
    let stored = kind.store(a, &size, workers)?;
    let view = stored.as_deref().map_or_else(|| Rows::of(a).map(View::Csr), Stored::view);
    let view = view.ok_or_else(|| Error::Internal("a part of the matrix has no kernel".to_owned()))?;
    Matrix::new(stream, &view, [a.rows(), a.cols], reals)
}

impl Preconditioner {
    /// Sets up M on the device. Multigrid by aggregation reuses `before`, which was built for the previous matrix, and
    /// uses the `scalars` of the steps.
    pub fn new(
        stream: &Stream,
        a: &Csr<u32>,
        setup: &Setup,
        wanted: &Preconditioning,
        (before, scalars): (Option<AggregationMultigrid>, Address),
    ) -> Result<(Self, SetupResult)> {
        let transposes = setup.transposes && !setup.symmetric;
        let mut result = SetupResult::default();
        let own = match wanted.kind {
            Kind::None => Self::None,
            Kind::Jacobi => {
                let (mut memory, mut d) = (Allocations::new(WHAT), inverse_diagonal(a)?);
                if wanted.absolute {
                    d.iter_mut().for_each(|d| *d = d.abs());
                }
                let d = memory.copy_of_reals(stream, &d, setup.single_vectors)?;
                Self::Diagonal(memory, d)
            }
            Kind::Neumann => {
                Self::Series(boxed(NeumannSeries::new(stream, a, setup, transposes, wanted.order)?, WHAT)?)
            }
            Kind::Chebyshev => {
                Self::Polynomial(boxed(Polynomial::new(stream, a, setup, transposes, wanted.degree)?, WHAT)?)
            }
            Kind::Ssor | Kind::Ic0 | Kind::Ilu0 => {
                let (own, made) = TriangularSolver::new(stream, a, setup, wanted)?;
                result = made;
                Self::Triangular(boxed(own, WHAT)?)
            }
            Kind::Amg => {
                let (own, made) = Aggregated::new(stream, a, setup, before, scalars)?;
                result = made;
                Self::Aggregated(boxed(own, WHAT)?)
            }
            other => return Err(Error::Internal(format!("a device has no preconditioner {other:?}"))),
        };
        Ok((own, result))
    }

    /// Returns multigrid by aggregation, for the next setup, if M is this method.
    pub fn into_multigrid(self) -> Option<AggregationMultigrid> {
        match self {
            Self::Aggregated(m) => Some(m.into_multigrid()),
            _ => None,
        }
    }

    /// Returns the address of d for M^-1 = diag(d), 0 for M = I, or `None` if M is not diagonal.
    pub fn diagonal(&self) -> Option<Address> {
        match self {
            Self::None => Some(0),
            Self::Diagonal(_, d) => Some(*d),
            _ => None,
        }
    }

    /// Computes to = M^-1 from, or to = M^-T from, and the sum <from, to>.
    pub fn apply(
        &self,
        stream: &Stream,
        (a, of): (&Products, Vectors),
        [from, to]: [Address; 2],
        transposed: bool,
        sum: Sum,
    ) -> Result<()> {
        match self {
            Self::None => scale(stream, of, [0, from, to], sum),
            Self::Diagonal(_, d) => scale(stream, of, [*d, from, to], sum),
            Self::Series(m) => {
                let [lower, upper] = match m.transposed.as_ref().filter(|_| transposed) {
                    Some([lower, upper]) => [lower, upper],
                    None => [&m.lower, &m.upper],
                };
                series(&mut Steps { stream, m, lower, upper, of, r: from, sum }, m.order, m.workspace, to)
            }
            Self::Polynomial(m) => {
                let (matrix, flips) = match &m.copies {
                    Some((_, Some(copy))) if transposed => (copy, false),
                    Some((copy, _)) => (copy, false),
                    None => a.of(transposed),
                };
                m.apply(stream, (matrix, flips), of, [from, to], sum)
            }
            Self::Triangular(m) => m.apply(stream, of, [from, to], transposed, sum),
            Self::Aggregated(m) => m.apply(stream, of, [from, to], sum),
        }
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Diagonal(memory, _) => memory.bytes(),
            Self::Series(m) => {
                let transposed = m.transposed.iter().flatten().map(Matrix::bytes).sum::<usize>();
                m.memory.bytes() + m.lower.bytes() + m.upper.bytes() + transposed
            }
            Self::Polynomial(m) => {
                let of_copies = |(a, transposed): &(Matrix, Option<Matrix>)| {
                    a.bytes() + transposed.as_ref().map_or(0, Matrix::bytes)
                };
                m.memory.bytes() + m.copies.as_ref().map_or(0, of_copies)
            }
            Self::Triangular(m) => m.bytes(),
            Self::Aggregated(m) => m.bytes(),
        }
    }
}

/// Computes to = d from, and <from, to>.
fn scale(stream: &Stream, of: Vectors, [d, v, out]: [Address; 3], sum: Sum) -> Result<()> {
    let args = DiagonalArgs { count: of.rows as i64, d, v, out, sum, ..DiagonalArgs::default() };
    launch::scale_by_diagonal(stream, of.f32_values, &args)
}

impl NeumannSeries {
    fn new(stream: &Stream, a: &Csr<u32>, setup: &Setup, transposes: bool, order: usize) -> Result<Self> {
        let (mut memory, reals) = (Allocations::new(WHAT), Reals::of(setup.f32_values, setup.single_vectors));
        let of = Vectors { rows: a.rows(), f32_values: setup.single_vectors };
        let split = Split::of_triangles(a)?;
        let d = memory.copy_of_reals(stream, &split.scale, of.f32_values)?;
        let both = |Split { lower, upper, .. }: Split<u32>| {
            Ok([part(stream, &lower.into_csr(), reals)?, part(stream, &upper.into_csr(), reals)?])
        };
        let transposed = if transposes { Some(both(split.transposed()?)?) } else { None };
        let [lower, upper] = both(split)?;
        let workspace = [memory.zeroed(stream, of.bytes())?, memory.zeroed(stream, of.bytes())?];
        Ok(Self { memory, d, lower, upper, transposed, order, workspace })
    }
}

/// The steps of a series. The last step also computes the sum <r, z>, where z is the result.
struct Steps<'a> {
    stream: &'a Stream,
    m: &'a NeumannSeries,
    lower: &'a Matrix,
    upper: &'a Matrix,
    of: Vectors,
    r: Address,
    sum: Sum,
}

impl Steps<'_> {
    fn sum(&self, last: bool) -> Sum {
        if last { self.sum } else { without_result(self.sum) }
    }
}

impl SeriesSteps for Steps<'_> {
    type Vector = Address;
    type Fault = Error;

    fn begin(&mut self, v: Address, last: bool) -> Result<()> {
        scale(self.stream, self.of, [self.m.d, self.r, v], self.sum(last))
    }

    fn lower(&mut self, from: Address, to: Address) -> Result<()> {
        let (d, b, sum) = (self.m.d, self.r, self.sum(false));
        let finish = RowFinish { kind: FinishKind::Lower as i32, b, d, out: to, sum, ..RowFinish::default() };
        self.lower.multiply(self.stream, false, from, finish)
    }

    fn upper(&mut self, v: Address, from: Address, to: Address, last: bool) -> Result<()> {
        let (d, other, sum) = (self.m.d, self.r, self.sum(last));
        let finish = RowFinish { kind: FinishKind::Upper as i32, b: v, d, other, out: to, sum, ..RowFinish::default() };
        self.upper.multiply(self.stream, false, from, finish)
    }
}

impl Polynomial {
    fn new(stream: &Stream, a: &Csr<u32>, setup: &Setup, transposes: bool, degree: usize) -> Result<Self> {
        let (mut memory, inverse) = (Allocations::new(WHAT), inverse_diagonal(a)?);
        let of = Vectors { rows: a.rows(), f32_values: setup.single_vectors };
        let copies = match (setup.f32_values && !of.f32_values, transposes) {
            (false, _) => None,
            (true, false) => Some((part(stream, a, Reals::Mixed)?, None)),
            (true, true) => {
                let transposed = a.transposed(&mut Workers::alone())?;
                Some((part(stream, a, Reals::Mixed)?, Some(part(stream, &transposed, Reals::Mixed)?)))
            }
        };
        let bytes = of.bytes();
        Ok(Self {
            d: memory.copy_of_reals(stream, &inverse, of.f32_values)?,
            interval: Interval::of(a, &inverse, setup.symmetric)?,
            degree,
            copies,
            workspace: [memory.zeroed(stream, bytes)?, memory.zeroed(stream, bytes)?, memory.zeroed(stream, bytes)?],
            memory,
        })
    }

    fn apply(
        &self,
        stream: &Stream,
        (a, flips): (&Matrix, bool),
        of: Vectors,
        [r, z]: [Address; 2],
        sum: Sum,
    ) -> Result<()> {
        let [left, mut step, mut next] = self.workspace;
        let of_step = |last: bool| if last { sum } else { without_result(sum) };
        let begin = DiagonalArgs {
            count: of.rows as i64,
            d: self.d,
            v: r,
            out: left,
            step,
            z,
            factor: self.interval.theta.recip(),
            sum: of_step(self.degree == 0),
            ..DiagonalArgs::default()
        };
        launch::begin_chebyshev(stream, of.f32_values, &begin)?;
        let mut steps = self.interval.steps();
        for k in 1..=self.degree {
            let (of_old, of_left) = steps.coefficients();
            let finish = RowFinish {
                kind: FinishKind::Chebyshev as i32,
                d: self.d,
                other: r,
                out: next,
                left,
                z,
                step: of_old,
                rest: of_left,
                sum: of_step(k == self.degree),
                ..RowFinish::default()
            };
            a.multiply(stream, flips, step, finish)?;
            std::mem::swap(&mut step, &mut next);
        }
        Ok(())
    }
}
