//! The family `sparse_`: products, the factorization of square matrices, and solves.
//!
//! `plan` selects the method and the preconditioner, `product` selects the storage format, and `methods` calls the
//! methods other than cg. `krylov/solve` contains the steps of a solve.

mod methods;
mod plan;
mod product;

pub use plan::{is_relaxation, is_worth_a_device};
pub use product::{ProductMatrix, format_request};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::base::workers::Workers;
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result};
use crate::krylov::pcg::SIGMA_NAME;
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties, Method};
use crate::krylov::solve_steps::Arrays;
use crate::options::{Choice, Format, Options, Precision, Preconditioner, Solver, Transpose, Triangle, info, opt};
use crate::report::{Observer, Outcome};
use crate::sparse::backend::{
    NewValues, Operator, Preconditioning, ProductOperand, Setup, SetupResult, SparseBackend, ValueSource,
};
use crate::sparse::{Inspection, Matrix, MatrixSizes, Stored, check_finite};
use methods::{MethodWorkspace, work_vector_count};
use plan::{Plan, check_nonempty, check_tolerance, choose_plan, transpose_bytes};

/// Solver object of a handle: backend, storage format, and factorization of its matrix.
pub struct Sparse {
    machine: Machine,
    backend: Box<dyn SparseBackend>,
    product: Option<ProductMatrix>,
    factorization: Option<Factorization>,
}

/// A factorized matrix.
struct Factorization {
    plan: Plan,
    setup_result: SetupResult,
    /// The method; `None` means cg.
    method: Option<MethodWorkspace>,
    /// The method that continues after a breakdown of the first method, if any.
    second_method: Option<MethodWorkspace>,
    transpose_source: TransposeSource,
    /// Infinity norm of A: max_i sum_j |a_ij|.
    infinity_norm: f64,
    triangle: Triangle,
}

/// How products with A^T are computed.
enum TransposeSource {
    /// By A: A^T = A, or the method needs no products with A^T.
    Original,
    /// By a copy of A^T. The second value is the size of the copy in bytes.
    Copy(Box<dyn Stored>, usize),
    /// By the arrays of A in its storage format.
    SameFormat,
    /// By the backend's copy of A^T.
    Backend,
}

/// Choices and setup results of the last factorization or solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolveChoices {
    pub solver: Solver,
    pub preconditioner: Preconditioner,
    pub precision: Precision,
    pub setup_result: SetupResult,
    /// Whether the matrix is symmetric.
    pub is_symmetric: bool,
    pub triangle: Triangle,
}

/// Constructor of a backend. The entry points pass it, so that no other module names a concrete backend.
pub type MakeBackend = fn(Machine) -> Result<Box<dyn SparseBackend>>;

/// Error message for a format without a kernel for products with A^T.
const NO_TRANSPOSED_PRODUCT: &str = "products with A' in this format have no kernel on a device; use transpose=copy, \
                                     within format_memory, or format=dia";

/// Name of the copy of A^T in the error message about `format_memory`.
const TRANSPOSE_COPY: &str = "transpose=copy";

impl Sparse {
    /// Returns whether this solver was created for `machine`. The number of threads may differ.
    pub fn is_on(&self, machine: Machine) -> bool {
        Machine { threads: machine.threads, ..self.machine } == machine
    }

    /// Returns `previous` with the threads of `machine` if [`Self::is_on`] holds. Otherwise frees `previous` and
    /// creates a solver without a storage format and without a factorization.
    pub fn for_machine(machine: Machine, previous: Option<Self>, make_backend: MakeBackend) -> Result<Self> {
        match previous.filter(|solver| solver.is_on(machine)) {
            Some(solver) => Ok(Self { machine, ..solver }),
            None => Ok(Self { machine, backend: make_backend(machine)?, product: None, factorization: None }),
        }
    }

    /// Discards everything that was computed from the values of the matrix.
    pub fn discard_setup(&mut self) {
        self.factorization = None;
        self.drop_product();
    }

    /// Replaces the values of `matrix` on the host and on the device, and discards the factorization. Returns `false`
    /// and changes nothing if the backend has no device arrays of the matrix, or cannot replace their values.
    pub fn replace_values(&mut self, matrix: &mut dyn Matrix, source: ValueSource) -> Result<bool> {
        let Some(product) = self.product.as_mut().filter(|_| self.machine.is_device()) else { return Ok(false) };
        let MatrixSizes { nonzeros: entry_count, input_count, .. } = matrix.sizes();
        // If the new values are on the host and in the order of csr, they are not copied back from the device.
        let in_csr_order = matches!(source, ValueSource::Host(_)) && matrix.entry_positions().is_none();
        let mut csr = Vec::new();
        let replaced = self.backend.replace_values(NewValues {
            source,
            input_count,
            entry_count,
            entry_positions: matrix.entry_positions(),
            csr: if in_csr_order { None } else { Some(&mut csr) },
            numbered: &|transposed| {
                let workers = &mut Workers::new(self.machine.threads);
                if transposed {
                    matrix.numbered_transpose(workers).map(Some)
                } else {
                    product.numbered(&*matrix, workers)
                }
            },
        });
        match (replaced, source) {
            (Ok(true), ValueSource::Host(values)) if in_csr_order => matrix.set_values(values)?,
            (Ok(true), _) => matrix.set_csr_values(csr),
            (Ok(false), _) => return Ok(false),
            (Err(error), _) => {
                if !self.backend.has_matrix().unwrap_or(false) {
                    self.discard_setup();
                }
                return Err(error);
            }
        }
        product.free_host_arrays();
        self.factorization = None;
        Ok(true)
    }

    /// Returns whether the host or the device already has the matrix in the storage format that the options request.
    fn has_product(&mut self, options: &Options) -> Result<bool> {
        match self.product.as_ref().filter(|product| product.is_current(options)) {
            Some(product) => Ok(product.is_on_host() || self.backend.has_matrix()?),
            None => Ok(false),
        }
    }

    /// Copies `to.len()` values from the address `from` on the backend's device.
    pub fn fetch(&mut self, from: u64, to: &mut [f64]) -> Result<()> {
        self.backend.fetch(from, to)
    }

    /// Frees the matrix in its storage format before another format is built, because both together may need too much
    /// memory.
    fn drop_product(&mut self) {
        self.product = None;
        self.backend.discard_format_data();
    }

    /// Converts the matrix to the storage format that the options request. Returns `false` if an earlier call has
    /// already done this.
    pub fn make_product(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<bool> {
        if self.has_product(options)? {
            return Ok(false);
        }
        self.drop_product();
        let mut workers = Workers::new(self.machine.threads);
        self.product = Some(ProductMatrix::new(matrix, options, self.machine.is_device(), &mut workers)?);
        Ok(true)
    }

    /// Computes y = A x, or y = A^T x with `transposed`. Uses the storage format for products if it was built,
    /// otherwise csr. With `checks_input`, returns an error if x has a value that is not finite.
    pub fn multiply(
        &mut self,
        matrix: &dyn Matrix,
        arrays: Arrays,
        transposed: bool,
        checks_input: bool,
    ) -> Result<()> {
        if checks_input {
            check_finite("x", arrays.input)?;
        }
        let stored = self.product.as_ref().map_or_else(|| matrix.csr(), |product| product.stored(matrix));
        let MatrixSizes { rows, cols, .. } = matrix.sizes();
        let operand = ProductOperand { matrix, stored, transposed, output_len: if transposed { cols } else { rows } };
        self.backend.multiply(operand, arrays, checks_input, self.machine.threads)
    }

    /// Returns the storage format for products, if it was built.
    pub fn product(&self) -> Option<&ProductMatrix> {
        self.product.as_ref()
    }

    /// Checks the matrix, and sets up its format, the preconditioner, and the workspace of the method.
    pub fn factorize(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<()> {
        self.factorization = None;
        let sizes = matrix.sizes();
        if sizes.rows != sizes.cols || sizes.rows == 0 {
            let size_message = format!("got {} rows and {} columns", sizes.rows, sizes.cols);
            return Err(Error::Dimension(format!(
                "factorize needs a square matrix of at least one row: {size_message}"
            )));
        }
        // This check precedes all allocations proportional to the number of rows, because a matrix may have far fewer
        // entries than rows.
        check_nonempty(matrix.first_empty_row(), None)?;
        let inspection = self.inspect(matrix, options)?;
        let mut plan = choose_plan(options, &inspection, self.machine.is_device())?;
        let transpose_source = self.choose_transpose(matrix, &plan, inspection.is_exactly_symmetric, options)?;
        let setup_result = match (self.set_up(matrix, &plan, &transpose_source, options), plan.fallback_preconditioner)
        {
            // The preconditioner's setup broke down on a pivot, or its values are out of the range of f32.
            (Err(error), Some(fallback_preconditioner)) if error.status() == RRB_ERR_MATRIX => {
                plan.set_preconditioner(fallback_preconditioner, options)?;
                self.set_up(matrix, &plan, &transpose_source, options)?
            }
            (setup_result, _) => setup_result?,
        };
        let threads = self.backend.threads();
        let second_method = if plan.second_preconditioning.is_some() {
            MethodWorkspace::new(Solver::Minres, options, threads)?
        } else {
            None
        };
        self.factorization = Some(Factorization {
            method: MethodWorkspace::new(plan.solver, options, threads)?,
            second_method,
            transpose_source,
            infinity_norm: inspection.infinity_norm,
            triangle: inspection.triangle(),
            plan,
            setup_result,
        });
        Ok(())
    }

    /// Computes the properties of the matrix. Converts it to its storage format if it has not been converted yet.
    fn inspect(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<Inspection> {
        let inspection = matrix.inspect(&mut Workers::new(self.machine.threads))?;
        self.make_product(matrix, options)?;
        Ok(inspection)
    }

    /// Computes the preconditioner M, and allocates the vectors of the method.
    fn set_up(
        &mut self,
        matrix: &dyn Matrix,
        plan: &Plan,
        transpose_source: &TransposeSource,
        options: &Options,
    ) -> Result<SetupResult> {
        let Some(product) = &self.product else {
            return Err(Error::Internal("a format must be made before a preconditioner".to_owned()));
        };
        self.backend.set_up(&Setup {
            matrix: matrix.any_csr(),
            operator: operator(product.stored(matrix), transpose_source),
            is_symmetric: plan.is_symmetric,
            stores_m_in_f32: matches!(plan.precision, Precision::F32 | Precision::Single),
            stores_vectors_in_f32: plan.precision == Precision::Single,
            needs_transpose: plan.solver == Solver::Bicg,
            is_cg: plan.solver == Solver::Cg,
            work_vector_count: count_work_vectors(plan, options),
            preconditioning: plan.preconditioning,
            second_preconditioning: plan.second_preconditioning.unwrap_or(Preconditioning::of(Preconditioner::None)),
            sweep_parameters: plan.sweep_parameters,
            threads: self.machine.threads,
        })
    }

    /// Determines how products with A^T are computed, and builds the copy of A^T if one is used, unless the backend has
    /// one. Only bicg needs these products. `is_symmetric`: whether A^T = A bitwise.
    fn choose_transpose(
        &mut self,
        matrix: &dyn Matrix,
        plan: &Plan,
        is_symmetric: bool,
        options: &Options,
    ) -> Result<TransposeSource> {
        let format = self.product.as_ref().map(ProductMatrix::format);
        let format_transposes = matches!(format, Some(Format::Dia | Format::Diagonal | Format::Skyline));
        let transpose: Transpose = options.choice(opt::TRANSPOSE);
        if plan.solver != Solver::Bicg {
            return Ok(TransposeSource::Original);
        }
        if is_symmetric {
            self.backend.discard_transpose();
            return Ok(TransposeSource::Original);
        }
        let bytes = transpose_bytes(&matrix.sizes());
        let memory_limit = options.int(opt::FORMAT_MEMORY) as u128;
        match transpose {
            Transpose::Copy if bytes > memory_limit => Err(Error::Memory(format!(
                "{TRANSPOSE_COPY} would need {bytes} bytes, more than format_memory = {memory_limit}"
            ))),
            Transpose::Auto if format_transposes || bytes > memory_limit => self.use_same_format(format_transposes),
            Transpose::Auto | Transpose::Copy if self.backend.has_transpose()? => Ok(TransposeSource::Backend),
            Transpose::Auto | Transpose::Copy => {
                Ok(TransposeSource::Copy(matrix.transposed(&mut Workers::new(self.machine.threads))?, bytes as usize))
            }
            Transpose::None => self.use_same_format(format_transposes),
        }
    }

    /// Computes products with A^T from the arrays of A. Returns an error if a device has no kernel for them.
    fn use_same_format(&mut self, format_transposes: bool) -> Result<TransposeSource> {
        if self.machine.is_device() && !format_transposes {
            return Err(Error::Unsupported(NO_TRANSPOSED_PRODUCT.to_owned()));
        }
        self.backend.discard_transpose();
        Ok(TransposeSource::SameFormat)
    }

    /// Computes the output from the input: solves A x = b to the tolerance of `options`, or applies M^-1.
    pub fn run(
        &mut self,
        function: Function,
        matrix: &dyn Matrix,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let (Some(factorization), Some(product)) = (&self.factorization, &self.product) else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        let (is_solve, is_sweep_method) = (function == Function::Solve, is_relaxation(factorization.plan.solver));
        if is_sweep_method && !is_solve {
            let name = factorization.plan.solver.name();
            let message = "sweeps have no preconditioner to apply; use solver=cg or bicgstab with preconditioner=ssor";
            return Err(Error::Unsupported(format!("solver={name}: {message}")));
        }
        let is_single_precision = factorization.plan.precision == Precision::Single;
        if is_solve && is_single_precision {
            check_tolerance(options)?;
        }
        let locations = RowLocations;
        // Methods for symmetric matrices use the bound |p|^T |A| |p| <= 2 `center_max` <p, p>. For every symmetric
        // matrix, |p|^T |A| |p| <= ||A||_inf <p, p>, so `center_max` is half of this norm.
        let properties = MatrixProperties {
            center_max: factorization.infinity_norm / 2.0,
            singular_component_count: 0,
            locations: &locations,
        };
        let mut control = Control::new(options, properties, false, factorization.plan.is_definite, arrays.len);
        control.may_be_indefinite = true;
        control.rounding_ratio = if is_single_precision { f64::from(f32::EPSILON) / f64::EPSILON } else { 1.0 };
        control.has_unit_of_matrix = factorization.plan.preconditioner != Preconditioner::None;
        control.method = factorization.method.as_ref().map(|method| method as &dyn Method);
        control.second_method = factorization.second_method.as_ref().map(|method| method as &dyn Method);
        control.divergence_factor = match options.real(opt::DIVERGENCE_LIMIT) {
            0.0 if is_sweep_method => SWEEPS_DIVERGENCE_LIMIT,
            0.0 => DIVERGENCE_LIMIT,
            limit => limit,
        };
        if let Some(second_method) = &factorization.second_method {
            second_method.reset_has_begun();
        }
        let a = operator(product.stored(matrix), &factorization.transpose_source);
        let needs_definite = is_solve && matches!(factorization.plan.solver, Solver::Cg | Solver::SteepestDescent);
        match self.backend.run(a, arrays, observer, &|s| function.run(s, &control)) {
            Err(Error::Breakdown { quantity, value, iteration }) if needs_definite && value.is_finite() => {
                let operator_name = if quantity == SIGMA_NAME { "the matrix" } else { "the preconditioner" };
                Err(Error::Indefinite { quantity, operator_name, value, iteration, alternatives: "solver=minres" })
            }
            outcome => outcome,
        }
    }

    /// Returns choices and setup results of the last factorization or solve.
    pub fn choices(&self) -> SolveChoices {
        let Some(factorization) = &self.factorization else { return SolveChoices::default() };
        let is_second_method = factorization.second_method.as_ref().is_some_and(MethodWorkspace::has_begun);
        let precision = match factorization.plan.precision {
            Precision::F32 if is_second_method => Precision::F64,
            precision => precision,
        };
        SolveChoices {
            solver: if is_second_method { Solver::Minres } else { factorization.plan.solver },
            preconditioner: if is_second_method { Preconditioner::Jacobi } else { factorization.plan.preconditioner },
            precision,
            setup_result: factorization.setup_result,
            is_symmetric: factorization.plan.is_symmetric,
            triangle: factorization.triangle,
        }
    }
}

/// Default divergence limit of Krylov methods, relative to s. Here, s is the larger of the initial residual norm and
/// the reference norm of the stopping test. The rounding error of a recurred residual is at least about epsilon times
/// the largest residual norm so far. If the residual norm exceeds 1e10 s, this error therefore exceeds 1e-6 s.
const DIVERGENCE_LIMIT: f64 = 1e10;
/// Default divergence limit of relaxation sweeps, relative to s of [`DIVERGENCE_LIMIT`]. Sweeps recompute the residual,
/// so a large residual norm does not increase the later rounding errors of the residual. For a nonnormal matrix, the
/// residual norm can exceed 1e10 s before the sweeps converge.
const SWEEPS_DIVERGENCE_LIMIT: f64 = 1e100;

/// Returns A in its storage format, and the matrix for products with A^T.
fn operator<'a>(a: &'a dyn Stored, transpose_source: &'a TransposeSource) -> Operator<'a> {
    let transposed = match transpose_source {
        TransposeSource::Original => Some(a),
        TransposeSource::Copy(copy, _) => Some(&**copy),
        TransposeSource::SameFormat | TransposeSource::Backend => None,
    };
    Operator { a, transposed }
}

/// Returns the larger of the numbers of work vectors of the method and of the second method, which continues after a
/// breakdown.
fn count_work_vectors(plan: &Plan, options: &Options) -> usize {
    let second_vectors =
        if plan.second_preconditioning.is_some() { work_vector_count(Solver::Minres, options) } else { 0 };
    work_vector_count(plan.solver, options).max(second_vectors)
}

/// Locations in error messages: a vector entry is located by its row.
struct RowLocations;

impl Locations for RowLocations {
    fn node(&self, i: usize, _: usize) -> Location {
        Location::entry(i)
    }

    /// Never called, because `sparse_` has no singular components.
    fn component(&self, component: usize) -> Location {
        Location::entry(component)
    }
}

impl Core for Sparse {
    fn machine(&self) -> Machine {
        self.machine
    }

    fn engine(&self) -> &dyn Engine {
        &*self.backend
    }

    fn engine_mut(&mut self) -> &mut dyn Engine {
        &mut *self.backend
    }

    fn other_host_bytes(&self) -> usize {
        let copy_bytes = |factorization: &Factorization| match factorization.transpose_source {
            TransposeSource::Copy(_, bytes) => bytes,
            _ => 0,
        };
        self.product.as_ref().map_or(0, ProductMatrix::bytes) + self.factorization.as_ref().map_or(0, copy_bytes)
    }

    fn names_in_use(&self) -> [&'static str; 2] {
        [self.product.as_ref().map_or("csr", |product| product.format().name()), self.choices().solver.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let choices = self.choices();
        let product_result = |get: &dyn Fn(&ProductMatrix) -> f64| self.product.as_ref().map_or(0.0, get);
        match key {
            info::PRECISION => choices.precision.number() as f64,
            info::PRECONDITIONER => choices.preconditioner.number() as f64,
            info::SOLVER => choices.solver.number() as f64,
            info::STORED => product_result(&|product| product.value_count() as f64),
            info::FORMAT => product_result(&|product| product.format().number() as f64),
            info::COLOURS => choices.setup_result.colour_count as f64,
            info::AGGREGATES_KEPT => choices.setup_result.reused_aggregate_count as f64,
            info::SWEEP_LEVELS => choices.setup_result.level_count as f64,
            info::SHIFT if choices.preconditioner == Preconditioner::Ic0 => choices.setup_result.shift,
            _ => 0.0,
        }
    }

    /// Allocates the vectors and scalars that the method needs with these options.
    fn apply_options(&mut self, options: &Options) -> Result<()> {
        let Some(factorization) = &mut self.factorization else { return Ok(()) };
        self.backend.reserve_vectors(count_work_vectors(&factorization.plan, options))?;
        factorization.method = MethodWorkspace::new(factorization.plan.solver, options, self.backend.threads())?;
        Ok(())
    }
}
