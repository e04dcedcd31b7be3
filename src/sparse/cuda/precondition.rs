//! Preconditioners on the device: none, jacobi, the Neumann series, the Chebyshev polynomial, triangular solves by
//! colours, and multigrid by aggregation. M^-1 is applied by products and vector operations.

use super::aggregated::AggregationPreconditioner;
use super::allocations::Allocations;
use super::matrix::{Matrix, Products};
use super::triangular::TriangularSolver;
use super::vectors::VectorSpec;
use crate::aggregation::cuda::AggregationMultigrid;
use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::workers::Workers;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DiagonalArgs, FinishKind, Reals, RowFinish, Sum};
use crate::cuda::vectors::without_result;
use crate::error::{Error, Result};
use crate::krylov::series::{SeriesSteps, apply_series};
use crate::options::{Format, Preconditioner as Kind};
use crate::sparse::backend::{Preconditioning, Setup, SetupResult};
use crate::sparse::{
    ChebyshevInterval, CsrSlices, FormatRequest, FormatView, Stored, TriangularSplit, inverse_diagonal,
};

const ALLOCATION_NAME: &str = "a preconditioner on the device";

/// M^-1 and, if requested, M^-T.
#[derive(Default)]
pub enum Preconditioner {
    /// M = I.
    #[default]
    None,
    /// M^-1 = diag(d).
    Diagonal(Allocations, Address),
    Neumann(Box<NeumannSeries>),
    Chebyshev(Box<ChebyshevPolynomial>),
    Triangular(Box<TriangularSolver>),
    Aggregated(Box<AggregationPreconditioner>),
}

/// The truncated Neumann series ([`apply_series`]).
pub struct NeumannSeries {
    memory: Allocations,
    /// Diagonal of D^-1.
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
pub struct ChebyshevPolynomial {
    memory: Allocations,
    /// Diagonal of D^-1.
    d: Address,
    interval: ChebyshevInterval,
    degree: usize,
    /// A and, if needed, A^T with values in f32. If `None`, the polynomial uses the matrices of the products in a
    /// solve.
    f32_copies: Option<(Matrix, Option<Matrix>)>,
    /// Workspaces for the vectors s_k = D^-1 (r - A z_{k-1}), d_k and d_{k-1} of the recurrence.
    workspace: [Address; 3],
}

/// Copies a matrix to the device, in the format whose arrays have the smallest size.
fn upload_in_best_format(stream: &Stream, a: &Csr<u32>, reals: Reals) -> Result<Matrix> {
    let request = FormatRequest {
        format: Format::Auto,
        slice_rows: 0,
        sigma: 0,
        block_size: 0,
        memory_limit: u128::MAX / 2,
        for_products: true,
        on_device: true,
    };
    let workers = &mut Workers::single_threaded();
    let (kind, size) = request.choose_kind(a, workers)?;
    let stored = kind.store(a, &size, workers)?;
    let view = stored.as_deref().map_or_else(|| CsrSlices::of(a).map(FormatView::Csr), Stored::view);
    let view = view.ok_or_else(|| Error::Internal("a part of the matrix has no kernel".to_owned()))?;
    Matrix::new(stream, &view, [a.rows(), a.cols], reals)
}

impl Preconditioner {
    /// Sets up M on the device. Only multigrid by aggregation uses the last argument. `previous_multigrid` was built
    /// for the previous matrix and is reused. `scalars` is the address of the scalars of CG.
    pub fn new(
        stream: &Stream,
        a: &Csr<u32>,
        setup: &Setup,
        preconditioning: &Preconditioning,
        (previous_multigrid, scalars): (Option<AggregationMultigrid>, Address),
    ) -> Result<(Self, SetupResult)> {
        let needs_transpose = setup.needs_transpose && !setup.is_symmetric;
        let mut result = SetupResult::default();
        let preconditioner = match preconditioning.kind {
            Kind::None => Self::None,
            Kind::Jacobi => {
                let (mut memory, mut d) = (Allocations::new(ALLOCATION_NAME), inverse_diagonal(a)?);
                if preconditioning.absolute_diagonal {
                    d.iter_mut().for_each(|d| *d = d.abs());
                }
                let d = memory.copy_of_reals(stream, &d, setup.stores_vectors_in_f32)?;
                Self::Diagonal(memory, d)
            }
            Kind::Neumann => Self::Neumann(boxed(
                NeumannSeries::new(stream, a, setup, needs_transpose, preconditioning.series_order)?,
                ALLOCATION_NAME,
            )?),
            Kind::Chebyshev => Self::Chebyshev(boxed(
                ChebyshevPolynomial::new(stream, a, setup, needs_transpose, preconditioning.degree)?,
                ALLOCATION_NAME,
            )?),
            Kind::Ssor | Kind::Ic0 | Kind::Ilu0 => {
                let (preconditioner, setup_result) = TriangularSolver::new(stream, a, setup, preconditioning)?;
                result = setup_result;
                Self::Triangular(boxed(preconditioner, ALLOCATION_NAME)?)
            }
            Kind::Amg => {
                let (preconditioner, setup_result) =
                    AggregationPreconditioner::new(stream, a, setup, previous_multigrid, scalars)?;
                result = setup_result;
                Self::Aggregated(boxed(preconditioner, ALLOCATION_NAME)?)
            }
            other => return Err(Error::Internal(format!("a device has no preconditioner {other:?}"))),
        };
        Ok((preconditioner, result))
    }

    /// Returns the multigrid hierarchy for reuse by the next setup; `None` if M is not multigrid by aggregation.
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

    /// Computes z = M^-1 r, or z = M^-T r, and <r, z> if `sum` requests a sum.
    pub fn apply(
        &self,
        stream: &Stream,
        (a, spec): (&Products, VectorSpec),
        [r, z]: [Address; 2],
        transposed: bool,
        sum: Sum,
    ) -> Result<()> {
        match self {
            Self::None => multiply_by_diagonal(stream, spec, [0, r, z], sum),
            Self::Diagonal(_, d) => multiply_by_diagonal(stream, spec, [*d, r, z], sum),
            Self::Neumann(m) => {
                let [lower, upper] = match m.transposed.as_ref().filter(|_| transposed) {
                    Some([lower, upper]) => [lower, upper],
                    None => [&m.lower, &m.upper],
                };
                apply_series(&mut DeviceSteps { stream, m, lower, upper, spec, r, sum }, m.order, m.workspace, z)
            }
            Self::Chebyshev(m) => {
                let (matrix, transposes) = match &m.f32_copies {
                    Some((_, Some(copy))) if transposed => (copy, false),
                    Some((copy, _)) => (copy, false),
                    None => a.matrix_for(transposed),
                };
                m.apply(stream, (matrix, transposes), spec, [r, z], sum)
            }
            Self::Triangular(m) => m.apply(stream, spec, [r, z], transposed, sum),
            Self::Aggregated(m) => m.apply(stream, spec, [r, z], sum),
        }
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Diagonal(memory, _) => memory.bytes(),
            Self::Neumann(m) => {
                let transposed = m.transposed.iter().flatten().map(Matrix::bytes).sum::<usize>();
                m.memory.bytes() + m.lower.bytes() + m.upper.bytes() + transposed
            }
            Self::Chebyshev(m) => {
                let copy_bytes = |(a, transposed): &(Matrix, Option<Matrix>)| {
                    a.bytes() + transposed.as_ref().map_or(0, Matrix::bytes)
                };
                m.memory.bytes() + m.f32_copies.as_ref().map_or(0, copy_bytes)
            }
            Self::Triangular(m) => m.bytes(),
            Self::Aggregated(m) => m.bytes(),
        }
    }
}

/// Computes out_i = d_i v_i, or out = v if the address d is 0, and <v, out> if `sum` requests a sum.
fn multiply_by_diagonal(stream: &Stream, spec: VectorSpec, [d, v, out]: [Address; 3], sum: Sum) -> Result<()> {
    let args = DiagonalArgs { count: spec.rows as i64, d, v, out, sum, ..DiagonalArgs::default() };
    launch::scale_by_diagonal(stream, spec.f32_values, &args)
}

impl NeumannSeries {
    fn new(stream: &Stream, a: &Csr<u32>, setup: &Setup, needs_transpose: bool, order: usize) -> Result<Self> {
        let (mut memory, reals) =
            (Allocations::new(ALLOCATION_NAME), Reals::of(setup.stores_m_in_f32, setup.stores_vectors_in_f32));
        let spec = VectorSpec { rows: a.rows(), f32_values: setup.stores_vectors_in_f32 };
        let split = TriangularSplit::from_triangles(a)?;
        let d = memory.copy_of_reals(stream, &split.g_diagonal, spec.f32_values)?;
        let upload_triangles = |TriangularSplit { lower, upper, .. }: TriangularSplit<u32>| {
            Ok([
                upload_in_best_format(stream, &lower.into_csr(), reals)?,
                upload_in_best_format(stream, &upper.into_csr(), reals)?,
            ])
        };
        let transposed = if needs_transpose { Some(upload_triangles(split.transposed()?)?) } else { None };
        let [lower, upper] = upload_triangles(split)?;
        let workspace = [memory.zeroed(stream, spec.bytes())?, memory.zeroed(stream, spec.bytes())?];
        Ok(Self { memory, d, lower, upper, transposed, order, workspace })
    }
}

/// The steps of a Neumann series. The last step also computes <r, z>, where z is the result of the series.
struct DeviceSteps<'a> {
    stream: &'a Stream,
    m: &'a NeumannSeries,
    lower: &'a Matrix,
    upper: &'a Matrix,
    spec: VectorSpec,
    r: Address,
    sum: Sum,
}

impl DeviceSteps<'_> {
    fn sum(&self, is_last: bool) -> Sum {
        if is_last { self.sum } else { without_result(self.sum) }
    }
}

impl SeriesSteps for DeviceSteps<'_> {
    type Vector = Address;
    type Fault = Error;

    fn scale_residual(&mut self, v: Address, is_last: bool) -> Result<()> {
        multiply_by_diagonal(self.stream, self.spec, [self.m.d, self.r, v], self.sum(is_last))
    }

    fn apply_lower(&mut self, input: Address, output: Address) -> Result<()> {
        let (d, b, sum) = (self.m.d, self.r, self.sum(false));
        let finish =
            RowFinish { kind: FinishKind::ScaledResidual as i32, b, d, out: output, sum, ..RowFinish::default() };
        self.lower.multiply(self.stream, false, input, finish)
    }

    fn apply_upper(&mut self, v: Address, input: Address, output: Address, is_last: bool) -> Result<()> {
        let (d, sum_operand, sum) = (self.m.d, self.r, self.sum(is_last));
        let finish = RowFinish {
            kind: FinishKind::SubtractScaledSum as i32,
            b: v,
            d,
            sum_operand,
            out: output,
            sum,
            ..RowFinish::default()
        };
        self.upper.multiply(self.stream, false, input, finish)
    }
}

impl ChebyshevPolynomial {
    fn new(stream: &Stream, a: &Csr<u32>, setup: &Setup, needs_transpose: bool, degree: usize) -> Result<Self> {
        let (mut memory, inverse) = (Allocations::new(ALLOCATION_NAME), inverse_diagonal(a)?);
        let spec = VectorSpec { rows: a.rows(), f32_values: setup.stores_vectors_in_f32 };
        let f32_copies = match (setup.stores_m_in_f32 && !spec.f32_values, needs_transpose) {
            (false, _) => None,
            (true, false) => Some((upload_in_best_format(stream, a, Reals::Mixed)?, None)),
            (true, true) => {
                let transposed = a.transposed(&mut Workers::single_threaded())?;
                Some((
                    upload_in_best_format(stream, a, Reals::Mixed)?,
                    Some(upload_in_best_format(stream, &transposed, Reals::Mixed)?),
                ))
            }
        };
        let bytes = spec.bytes();
        Ok(Self {
            d: memory.copy_of_reals(stream, &inverse, spec.f32_values)?,
            interval: ChebyshevInterval::of(a, &inverse, setup.is_symmetric)?,
            degree,
            f32_copies,
            workspace: [memory.zeroed(stream, bytes)?, memory.zeroed(stream, bytes)?, memory.zeroed(stream, bytes)?],
            memory,
        })
    }

    fn apply(
        &self,
        stream: &Stream,
        (a, transposes): (&Matrix, bool),
        spec: VectorSpec,
        [r, z]: [Address; 2],
        sum: Sum,
    ) -> Result<()> {
        let [scaled_residual, mut step, mut next_step] = self.workspace;
        let sum_of_step = |is_last: bool| if is_last { sum } else { without_result(sum) };
        let start_args = DiagonalArgs {
            count: spec.rows as i64,
            d: self.d,
            v: r,
            out: scaled_residual,
            step,
            z,
            factor: self.interval.theta.recip(),
            sum: sum_of_step(self.degree == 0),
            ..DiagonalArgs::default()
        };
        launch::begin_chebyshev(stream, spec.f32_values, &start_args)?;
        let mut steps = self.interval.steps();
        for k in 1..=self.degree {
            let (step_factor, residual_factor) = steps.coefficients();
            let finish = RowFinish {
                kind: FinishKind::Chebyshev as i32,
                d: self.d,
                sum_operand: r,
                out: next_step,
                scaled_residual,
                z,
                step_factor,
                residual_factor,
                sum: sum_of_step(k == self.degree),
                ..RowFinish::default()
            };
            a.multiply(stream, transposes, step, finish)?;
            std::mem::swap(&mut step, &mut next_step);
        }
        Ok(())
    }
}
