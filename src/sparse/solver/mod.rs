//! The family `sparse_`: products, the factorization of square matrices, and solves.
//!
//! `plan` selects the method and the preconditioner of a matrix, `product` the storage format, and `methods` contains
//! the methods other than cg. `krylov/solve` contains the steps of a solve.

mod methods;
mod plan;
mod product;

pub use plan::{is_relaxation, is_worth_a_device};
pub use product::{Product, wanted};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::base::workers::Workers;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result};
use crate::krylov::pcg::SIGMA_NAME;
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties, Method};
use crate::krylov::solve_steps::Arrays;
use crate::options::{Choice, Format, Options, Precision, Preconditioner, Solver, Transpose, Triangle, info, opt};
use crate::report::{Observer, Outcome};
use crate::sparse::backend::{
    Factor, NewValues, Operator, Preconditioning, Setup, SetupResult, SparseBackend, ValueSource,
};
use crate::sparse::{Inspection, Matrix, MatrixSizes, Stored, check_finite};
use methods::{MethodWorkspace, vectors};
use plan::{Plan, bytes_of_transpose, check_filled, check_tolerance, plan};
use std::sync::{Mutex, PoisonError};

/// Solver state for one matrix.
pub struct Sparse {
    machine: Machine,
    backend: Box<dyn SparseBackend>,
    product: Option<Product>,
    system: Option<System>,
}

/// A factorized matrix.
struct System {
    plan: Plan,
    made: SetupResult,
    /// The method; `None` means cg.
    method: Option<MethodWorkspace>,
    second: Option<MethodWorkspace>,
    transposed: Transposed,
    /// Infinity norm of A: max_i sum_j |a_ij|.
    infinity_norm: f64,
    triangle: Triangle,
}

/// How products with A^T are computed.
enum Transposed {
    /// A^T = A, or the method needs no products with A^T.
    Itself,
    /// A copy of A^T is multiplied. The second value is its size in bytes.
    Copy(Box<dyn Stored>, usize),
    /// The storage format of A computes both products.
    Format,
}

/// Choices and setup results of the last factorization or solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolveChoices {
    pub solver: Solver,
    pub preconditioner: Preconditioner,
    pub precision: Precision,
    pub made: SetupResult,
    /// Whether the matrix is symmetric.
    pub symmetric: bool,
    pub triangle: Triangle,
}

/// Constructor of a backend. The entry points pass it, so that no other module names a concrete backend.
pub type MakeBackend = fn(Machine) -> Result<Box<dyn SparseBackend>>;

/// Name of the copy of A^T in the error message about `format_memory`.
const COPY: &str = "transpose=copy";

impl Sparse {
    /// Returns whether this solver works on this machine, with any number of threads.
    pub fn is_on(&self, machine: Machine) -> bool {
        Machine { threads: machine.threads, ..self.machine } == machine
    }

    /// Returns the previous solver if it works on this machine with any number of threads. Otherwise frees it and
    /// creates a solver that has neither a matrix for products nor a factorization yet.
    pub fn on(machine: Machine, previous: Option<Self>, make: MakeBackend) -> Result<Self> {
        match previous.filter(|solver| solver.is_on(machine)) {
            Some(solver) => Ok(Self { machine, ..solver }),
            None => Ok(Self { machine, backend: make(machine)?, product: None, system: None }),
        }
    }

    /// Discards everything that was computed from the values of the matrix.
    pub fn discard_setup(&mut self) {
        self.system = None;
        self.drop_product();
    }

    /// Replaces the values of `matrix` and of its arrays on the device, and discards the factorization. Returns `false`
    /// and changes nothing if the backend has no such arrays, or cannot replace their values.
    pub fn replace_values(&mut self, matrix: &mut dyn Matrix, source: ValueSource) -> Result<bool> {
        let Some(product) = self.product.as_mut().filter(|_| self.machine.is_device()) else { return Ok(false) };
        let MatrixSizes { nonzeros: entries, given: count, .. } = matrix.sizes();
        // Values on the host in the order of csr need not come back from the device.
        let in_csr_order = matches!(source, ValueSource::Host(_)) && matrix.positions().is_none();
        let mut csr = Vec::new();
        let replaced = self.backend.replace_values(NewValues {
            source,
            count,
            entries,
            positions: matrix.positions(),
            csr: if in_csr_order { None } else { Some(&mut csr) },
            numbered: &|| product.numbered(&*matrix, &mut Workers::new(self.machine.threads)),
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
        self.system = None;
        Ok(true)
    }

    /// Returns whether the storage format that the options request exists, on the host or on the device.
    fn has_product(&mut self, options: &Options) -> Result<bool> {
        match self.product.as_ref().filter(|product| product.is_current(options)) {
            Some(product) => Ok(product.is_on_host() || self.backend.has_matrix()?),
            None => Ok(false),
        }
    }

    /// Copies values from an array on the device of the backend.
    pub fn fetch(&mut self, from: u64, to: &mut [f64]) -> Result<()> {
        self.backend.fetch(from, to)
    }

    /// Frees the matrix in its storage format before another format is built, because both together may need too much
    /// memory.
    fn drop_product(&mut self) {
        self.product = None;
        self.backend.discard_format_data();
    }

    /// Converts the matrix to the storage format that the options request, unless an earlier call has done this.
    /// Returns whether the matrix was converted.
    pub fn make_product(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<bool> {
        if self.has_product(options)? {
            return Ok(false);
        }
        self.drop_product();
        let mut workers = Workers::new(self.machine.threads);
        self.product = Some(Product::new(matrix, options, self.machine.is_device(), &mut workers)?);
        Ok(true)
    }

    /// Computes y = A x, or y = A^T x, in the storage format for products if it was built, otherwise in csr. With
    /// `check`, returns an error if x has a value that is not finite.
    pub fn multiply(&mut self, matrix: &dyn Matrix, arrays: Arrays, transposed: bool, check: bool) -> Result<()> {
        if check {
            check_finite("x", arrays.input)?;
        }
        let stored = self.product.as_ref().map_or_else(|| matrix.csr(), |product| product.stored(matrix));
        let MatrixSizes { rows, cols, .. } = matrix.sizes();
        let factor = Factor { matrix, stored, transposed, rows: if transposed { cols } else { rows } };
        self.backend.multiply(factor, arrays, check, self.machine.threads)
    }

    /// Returns the storage format for products, if it was built.
    pub fn product(&self) -> Option<&Product> {
        self.product.as_ref()
    }

    /// Checks the matrix, and sets up its format, the preconditioner, and the workspace of the method.
    pub fn factorize(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<()> {
        self.system = None;
        let sizes = matrix.sizes();
        if sizes.rows != sizes.cols || sizes.rows == 0 {
            let extents = format!("got {} rows and {} columns", sizes.rows, sizes.cols);
            return Err(Error::Dimension(format!("factorize needs a square matrix of at least one row: {extents}")));
        }
        // This check precedes all allocations proportional to the number of rows, because a matrix may have far fewer
        // entries than rows.
        check_filled(matrix.first_empty_row(), None)?;
        let seen = self.inspect(matrix, options)?;
        let mut plan = plan(options, &seen, self.machine.is_device())?;
        let transposed = self.transposed(matrix, &plan, seen.exactly_symmetric, options)?;
        let made = match (self.set_up(matrix, &plan, &transposed, options), plan.fallback) {
            // The preconditioner's setup broke down on a pivot, or its values are out of the range of f32.
            (Err(error), Some(fallback)) if error.status() == RRB_ERR_MATRIX => {
                plan.set_preconditioner(fallback, options)?;
                self.set_up(matrix, &plan, &transposed, options)?
            }
            (made, _) => made?,
        };
        let threads = self.backend.threads();
        let second = if plan.second.is_some() { MethodWorkspace::new(Solver::Minres, options, threads)? } else { None };
        self.system = Some(System {
            method: MethodWorkspace::new(plan.solver, options, threads)?,
            second,
            transposed,
            infinity_norm: seen.infinity_norm,
            triangle: seen.triangle(),
            plan,
            made,
        });
        Ok(())
    }

    /// Computes the properties of the matrix. Concurrently, builds its storage format if it does not exist.
    fn inspect(&mut self, matrix: &dyn Matrix, options: &Options) -> Result<Inspection> {
        if self.has_product(options)? {
            return matrix.inspect();
        }
        self.drop_product();
        let (mut seen, product) = (None, Mutex::new(None));
        let on_device = self.machine.is_device();
        // One thread inspects the matrix, and the others convert it.
        let others = self.machine.threads.saturating_sub(1).max(1);
        let make = || {
            let made = Product::new(matrix, options, on_device, &mut Workers::new(others));
            *product.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        };
        let rows = matrix.sizes().rows;
        self.backend.run_both(rows, self.machine.threads, &mut || seen = Some(matrix.inspect()), &make)?;
        let undone = || Error::Internal("a thread of the setup did not run".to_owned());
        let seen = seen.ok_or_else(undone)??;
        self.product = Some(product.into_inner().unwrap_or_else(PoisonError::into_inner).ok_or_else(undone)??);
        Ok(seen)
    }

    fn set_up(
        &mut self,
        matrix: &dyn Matrix,
        plan: &Plan,
        transposed: &Transposed,
        options: &Options,
    ) -> Result<SetupResult> {
        let Some(product) = &self.product else {
            return Err(Error::Internal("a format must be made before a preconditioner".to_owned()));
        };
        self.backend.set_up(&Setup {
            matrix: matrix.any(),
            operator: operator(product.stored(matrix), transposed),
            symmetric: plan.symmetric,
            f32_values: matches!(plan.precision, Precision::F32 | Precision::Single),
            single_vectors: plan.precision == Precision::Single,
            transposes: plan.solver == Solver::Bicg,
            is_cg: plan.solver == Solver::Cg,
            work_vectors: work_vectors(plan, options),
            preconditioning: plan.preconditioning,
            second: plan.second.unwrap_or(Preconditioning::of(Preconditioner::None)),
            sweep_parameters: plan.sweep_parameters,
            threads: self.machine.threads,
        })
    }

    /// Determines how products with A^T are computed, and builds the copy of A^T if one is used. Only bicg needs these
    /// products. `symmetric`: whether A^T = A bitwise.
    fn transposed(&self, matrix: &dyn Matrix, plan: &Plan, symmetric: bool, options: &Options) -> Result<Transposed> {
        let format = self.product.as_ref().map(Product::format);
        let has_its_own = matches!(format, Some(Format::Dia | Format::Diagonal | Format::Skyline));
        let transpose: Transpose = options.choice(opt::TRANSPOSE);
        if plan.solver != Solver::Bicg || symmetric {
            return Ok(Transposed::Itself);
        }
        let bytes = bytes_of_transpose(&matrix.sizes());
        let memory = options.int(opt::FORMAT_MEMORY) as u128;
        match transpose {
            Transpose::Copy if bytes > memory => {
                Err(Error::Memory(format!("{COPY} would need {bytes} bytes, more than format_memory = {memory}")))
            }
            Transpose::Auto if has_its_own || bytes > memory => Ok(Transposed::Format),
            Transpose::Auto | Transpose::Copy => {
                Ok(Transposed::Copy(matrix.transposed(&mut Workers::new(self.machine.threads))?, bytes as usize))
            }
            Transpose::None => Ok(Transposed::Format),
        }
    }

    /// Computes the output from the input: solves A x = b to the tolerance of `options`, or applies M^-1.
    pub fn call(
        &mut self,
        what: Function,
        matrix: &dyn Matrix,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let (Some(system), Some(product)) = (&self.system, &self.product) else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        let (solves, sweeps) = (what == Function::Solve, is_relaxation(system.plan.solver));
        if sweeps && !solves {
            let name = system.plan.solver.name();
            let message = "sweeps have no preconditioner to apply; use solver=cg or bicgstab with preconditioner=ssor";
            return Err(Error::Unsupported(format!("solver={name}: {message}")));
        }
        let single = system.plan.precision == Precision::Single;
        if solves && single {
            check_tolerance(options)?;
        }
        let locations = Entries;
        // Methods for symmetric matrices use the bound |p|^T |A| |p| <= 2 `center_max` <p, p>. For every symmetric
        // matrix, |p|^T |A| |p| <= ||A||_inf <p, p>, so `center_max` is half of this norm.
        let seen = MatrixProperties { center_max: system.infinity_norm / 2.0, singular: 0, locations: &locations };
        let mut control = Control::new(options, seen, false, system.plan.definite, arrays.len);
        control.may_be_indefinite = true;
        control.rounding_ratio = if single { f64::from(f32::EPSILON) / f64::EPSILON } else { 1.0 };
        control.same_unit = system.plan.preconditioner != Preconditioner::None;
        control.method = system.method.as_ref().map(|method| method as &dyn Method);
        control.second = system.second.as_ref().map(|method| method as &dyn Method);
        control.divergence = match options.real(opt::DIVERGENCE_LIMIT) {
            0.0 if sweeps => SWEEPS_DIVERGENCE_LIMIT,
            0.0 => DIVERGENCE_LIMIT,
            limit => limit,
        };
        if let Some(second) = &system.second {
            second.reset_begun();
        }
        let a = operator(product.stored(matrix), &system.transposed);
        let needs_definite = solves && matches!(system.plan.solver, Solver::Cg | Solver::SteepestDescent);
        match self.backend.run(a, arrays, observer, &|s| what.run(s, &control)) {
            Err(Error::Breakdown { quantity, value, iteration }) if needs_definite && value.is_finite() => {
                let what = if quantity == SIGMA_NAME { "the matrix" } else { "the preconditioner" };
                Err(Error::Indefinite { quantity, what, value, iteration, instead: "solver=minres" })
            }
            outcome => outcome,
        }
    }

    /// Returns choices and setup results of the last factorization or solve.
    pub fn choices(&self) -> SolveChoices {
        let Some(system) = &self.system else { return SolveChoices::default() };
        let second = system.second.as_ref().is_some_and(MethodWorkspace::has_begun);
        let precision = match system.plan.precision {
            Precision::F32 if second => Precision::F64,
            precision => precision,
        };
        SolveChoices {
            solver: if second { Solver::Minres } else { system.plan.solver },
            preconditioner: if second { Preconditioner::Jacobi } else { system.plan.preconditioner },
            precision,
            made: system.made,
            symmetric: system.plan.symmetric,
            triangle: system.triangle,
        }
    }
}

/// Default divergence limits, relative to the larger of the reference norm of the stopping test and the initial
/// residual norm. A recurred residual has a rounding error of at least about epsilon times the largest residual norm so
/// far. If this norm exceeds the limit 1e10, the error exceeds the relative value 1e-6. Relaxation sweeps recompute the
/// residual, and on nonnormal matrices they can exceed 1e10 and still converge.
const DIVERGENCE_LIMIT: f64 = 1e10;
const SWEEPS_DIVERGENCE_LIMIT: f64 = 1e100;

/// Returns A in its storage format, and the matrix for products with A^T.
fn operator<'a>(a: &'a dyn Stored, transposed: &'a Transposed) -> Operator<'a> {
    let transposed = match transposed {
        Transposed::Itself => Some(a),
        Transposed::Copy(copy, _) => Some(&**copy),
        Transposed::Format => None,
    };
    Operator { a, transposed }
}

fn work_vectors(plan: &Plan, options: &Options) -> usize {
    let second = if plan.second.is_some() { vectors(Solver::Minres, options) } else { 0 };
    vectors(plan.solver, options).max(second)
}

/// Locations in error messages. The location of a vector entry is its row.
struct Entries;

impl Locations for Entries {
    fn node(&self, i: usize, _: usize) -> Place {
        Place::entry(i)
    }

    fn component(&self, component: usize) -> Place {
        Place::entry(component)
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

    fn own_bytes(&self) -> usize {
        let of_copy = |system: &System| match system.transposed {
            Transposed::Copy(_, bytes) => bytes,
            _ => 0,
        };
        self.product.as_ref().map_or(0, Product::bytes) + self.system.as_ref().map_or(0, of_copy)
    }

    fn in_use(&self) -> [&'static str; 2] {
        [self.product.as_ref().map_or("csr", |product| product.format().name()), self.choices().solver.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let choices = self.choices();
        let of_product = |get: &dyn Fn(&Product) -> f64| self.product.as_ref().map_or(0.0, get);
        match key {
            info::PRECISION => choices.precision.number() as f64,
            info::PRECONDITIONER => choices.preconditioner.number() as f64,
            info::SOLVER => choices.solver.number() as f64,
            info::STORED => of_product(&|product| product.values() as f64),
            info::FORMAT => of_product(&|product| product.format().number() as f64),
            info::COLOURS => choices.made.colours as f64,
            info::AGGREGATES_KEPT => choices.made.aggregates_kept as f64,
            info::SWEEP_LEVELS => choices.made.levels as f64,
            info::SHIFT if choices.preconditioner == Preconditioner::Ic0 => choices.made.shift,
            _ => 0.0,
        }
    }

    /// Allocates the vectors and scalars that the method needs with these options.
    fn prepare(&mut self, options: &Options) -> Result<()> {
        let Some(system) = &mut self.system else { return Ok(()) };
        self.backend.reserve(work_vectors(&system.plan, options))?;
        system.method = MethodWorkspace::new(system.plan.solver, options, self.backend.threads())?;
        Ok(())
    }
}
