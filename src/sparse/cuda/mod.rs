//! Backend for general sparse matrices on a CUDA device. The host assembles and converts the matrix. The device stores
//! the arrays of the format and the vectors, and computes all steps of a solve.
//!
//! Modules, each of which may use the modules before it in this list: `allocations` (memory), `vectors` (length and
//! precision of vectors), `permutation` (permutations of matrix values), `matrix` (products), `triangular`,
//! `aggregated` and `precondition` (M^-1), `relaxation` (sweeps), `state` (data of a factorization), `run` (steps of a
//! method), `solve` (start and end of a run).

mod aggregated;
mod allocations;
mod matrix;
mod permutation;
mod precondition;
mod relaxation;
mod run;
pub mod solve;
mod state;
mod triangular;
mod vectors;

use crate::base::csr::Csr;
use crate::base::engine::Engine;
use crate::base::workers::Workers;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{FinishKind, Reals, RowFinish, Scalars};
use crate::cuda::looped::SharedScalars;
use crate::cuda::session::Session;
use crate::cuda::staging::Job;
use crate::cuda::vectors::inspect_arrays;
use crate::error::{Error, Location, Result, zeroed};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::options::Preconditioner as Kind;
use crate::report::{NoObserver, Observer, Outcome};
use crate::sparse::backend::{NewValues, Operator, ProductOperand, Setup, SetupResult, SparseBackend, ValueSource};
use crate::sparse::{AnyCsr, Stored};
use crate::stencil::cells::Cells;
use allocations::Allocations;
use matrix::{Matrix, Products};
use permutation::Permutation;
use precondition::Preconditioner;
use relaxation::Relaxation;
use run::Run;
use state::{State, box_of};
use std::time::Instant;
use vectors::VectorSpec;

/// Number of vectors of PCG in addition to x, b and r.
const PCG_VECTORS: usize = 3;

/// The `cuda` backend.
pub struct Cuda {
    // Fields are dropped in this order, so that device memory is freed before the session ends.
    state: Option<State>,
    /// A, and a copy of A^T if products with A^T need it. Values are in f64.
    products: [Option<Matrix>; 2],
    /// The matrices of `products` with values in f32. `None` unless the vectors are in f32.
    rounded: [Option<Matrix>; 2],
    /// Permutation of values from the caller's order to that of csr. `None` until the first replacement of values that
    /// needs it.
    to_csr: Option<Permutation>,
    /// Whether the method of the last factorization needs products with A^T, and A^T = A.
    is_symmetric: bool,
    /// Results of the kernel that inspects the input x of a product outside a solve: device memory, and host copy.
    scalars: Option<(Memory, SharedScalars)>,
    threads: usize,
    session: Session,
}

/// Returns the error for a matrix whose indices need 64 bits.
fn too_large_error() -> Error {
    Error::Unsupported("a device supports matrices of fewer than 2^31 rows and columns; use backend=cpu".to_owned())
}

/// Copies a matrix with `extents` = [rows, columns] to the device.
fn upload(stream: &Stream, stored: &dyn Stored, extents: [usize; 2]) -> Result<Matrix> {
    Matrix::new(stream, &stored.view().ok_or_else(too_large_error)?, extents, Reals::Double)
}

/// Returns the matrix, or an error if its indices have 64 bits.
fn csr_with_u32(matrix: AnyCsr<'_>) -> Result<&Csr<u32>> {
    match matrix {
        AnyCsr::Narrow(a) => Ok(a),
        AnyCsr::Wide(_) => Err(too_large_error()),
    }
}

impl Cuda {
    /// Opens the device with this ordinal. At most `threads` CPU threads copy host arrays.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Ok(Self::with_session(Session::open(ordinal, &launch::SPARSE, threads)?, threads))
    }

    fn with_session(session: Session, threads: usize) -> Self {
        let (products, rounded) = ([None, None], [None, None]);
        let (state, to_csr, scalars) = (None, None, None);
        Self { state, products, rounded, to_csr, is_symmetric: false, scalars, threads, session }
    }

    /// If the device has been reset, discards all data and opens a new session.
    fn recover(&mut self) -> Result<()> {
        if let Some(session) = self.session.reopen_after_reset()? {
            *self = Self::with_session(session, self.threads);
        }
        Ok(())
    }

    /// Copies A to the device, and A^T if the method needs it, unless the device already has them.
    fn upload_operator(&mut self, setup: &Setup, rows: usize) -> Result<()> {
        let (stream, Operator { a, transposed }) = (self.session.stream(), setup.operator);
        let [matrix, transposed_copy] = &mut self.products;
        let matrix = match matrix {
            Some(matrix) => matrix,
            None => matrix.insert(upload(stream, a, [rows, rows])?),
        };
        self.is_symmetric = false;
        if !setup.needs_transpose {
            return Ok(());
        }
        match transposed {
            Some(transposed) if std::ptr::addr_eq(transposed, a) => self.is_symmetric = true,
            Some(transposed) if transposed_copy.is_none() => {
                *transposed_copy = Some(upload(stream, transposed, [rows, rows])?)
            }
            None if !matrix.can_transpose() && transposed_copy.is_none() => {
                return Err(Error::Internal("the copy of A' on the device is missing".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Stores the new values on the device in the order of csr, and copies them to `new.csr` if it is set. Returns the
    /// device address of the stored values, or `None` if one of the copied values is not finite. Allocates arrays in
    /// `memory`, unless the new values are already on the device in this order. Also computes the permutations that
    /// are missing, so that [`Matrix::set_values`] allocates no memory.
    fn permute_to_csr(&mut self, memory: &mut Allocations, new: &mut NewValues) -> Result<Option<u64>> {
        let (stream, copies, transfer_seconds) = self.session.stream_and_copies();
        for (product, transposed) in self.products.iter_mut().zip([false, true]) {
            if let Some(product) = product {
                product.prepare_values(stream, new.numbered, transposed)?;
            }
        }
        let source = match new.source {
            ValueSource::Device(address) => address,
            ValueSource::Host(values) => {
                let address = memory.zeroed(stream, 8 * new.input_count)?;
                let start = Instant::now();
                copies.send(stream, &[Job::array_from_host(values, address)])?;
                stream.wait()?;
                *transfer_seconds += start.elapsed().as_secs_f64();
                address
            }
        };
        let csr = match new.entry_positions {
            None => source,
            Some(entry_positions) => {
                let to_csr = match &self.to_csr {
                    Some(to_csr) => to_csr,
                    None => self.to_csr.insert(Permutation::to_csr(stream, entry_positions, new.entry_count)?),
                };
                let csr = memory.zeroed(stream, 8 * new.entry_count)?;
                to_csr.apply(stream, source, csr)?;
                stream.wait()?;
                csr
            }
        };
        let Some(values) = &mut new.csr else { return Ok(Some(csr)) };
        **values = zeroed(new.entry_count, "values of a matrix")?;
        let start = Instant::now();
        copies.fetch(stream, &[Job::array_to_host(values, csr)])?;
        stream.wait()?;
        *transfer_seconds += start.elapsed().as_secs_f64();
        Ok(values.iter().all(|v| v.is_finite()).then_some(csr))
    }
}

impl SparseBackend for Cuda {
    fn set_up(&mut self, setup: &Setup) -> Result<SetupResult> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let csr = csr_with_u32(setup.matrix)?;
        let spec = VectorSpec { rows: csr.rows(), f32_values: setup.stores_vectors_in_f32 };
        self.rounded = [None, None];
        self.upload_operator(setup, spec.rows)?;
        let stream = self.session.stream();
        if spec.f32_values {
            for (matrix, rounded) in self.products.iter().zip(&mut self.rounded) {
                *rounded = matrix.as_ref().map(|matrix| matrix.rounded_to_f32(stream)).transpose()?;
            }
        }
        // Frees the previous factorization before the new one is allocated. If the length and the precision of the
        // vectors are unchanged, the vectors and the multigrid hierarchy are reused.
        let mut previous_multigrid = None;
        let mut state = match self.state.take().filter(|state| state.spec == spec) {
            Some(mut state) => {
                previous_multigrid = std::mem::take(&mut state.preconditioner).into_multigrid();
                (state.second_preconditioner, state.relaxation) = (None, None);
                state
            }
            None => State::new(stream, spec, 0)?,
        };
        state.reserve(stream, setup.work_vector_count.max(PCG_VECTORS))?;
        let scalars = state.scalars.address;
        let (preconditioner, mut result) =
            Preconditioner::new(stream, csr, setup, &setup.preconditioning, (previous_multigrid, scalars))?;
        state.preconditioner = preconditioner;
        if setup.second_preconditioning.kind != Kind::None {
            state.second_preconditioner =
                Some(Preconditioner::new(stream, csr, setup, &setup.second_preconditioning, (None, scalars))?.0);
        }
        state.relaxation = match &setup.sweep_parameters {
            Some(sweep_parameters) => {
                let relaxation = Relaxation::new(stream, csr, sweep_parameters, spec.f32_values)?;
                result.colour_count = relaxation.colour_count();
                Some(relaxation)
            }
            None => None,
        };
        let products = select_products(&self.products, &self.rounded, self.is_symmetric)?;
        state.recorded_loop = state.recorded_loop.take().filter(|_| setup.is_cg);
        if setup.is_cg {
            state.record(&self.session.device, &products)?;
        }
        // The next call may use another stream, so all work on this stream must end here.
        stream.wait()?;
        self.state = Some(state);
        Ok(result)
    }

    fn reserve_vectors(&mut self, count: usize) -> Result<()> {
        let _entered = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        self.state.as_mut().map_or(Ok(()), |state| state.reserve(stream, count))
    }

    fn run(&mut self, _: Operator, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _entered = self.session.device.clone().enter()?;
        let Some(state) = &mut self.state else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        let products = select_products(&self.products, &self.rounded, self.is_symmetric)?;
        let cells = state.cells();
        let call = self.session.start_staged_call(arrays, observer, cells, [cells.nx; 2])?;
        let mut run =
            Run { state, products, stream: call.stream, call, r_is_residual: false, uses_second_preconditioner: false };
        let result = program(&mut run);
        let first_error = run.call.first_error.take();
        self.session.end_run(first_error)?;
        if Outcome::may_leave_infinities(&result) {
            let stream = self.session.stream();
            state.clear(stream)?;
            stream.wait()?;
        }
        result
    }

    fn multiply(&mut self, operand: ProductOperand, arrays: Arrays, checks_input: bool, threads: usize) -> Result<()> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let (input_len, output_len) = (arrays.len, operand.output_len);
        let extents = if operand.transposed { [input_len, output_len] } else { [output_len, input_len] };
        let stream = self.session.stream();
        let matrix = match &mut self.products[0] {
            Some(matrix) => matrix,
            matrix => matrix.insert(upload(stream, operand.stored, extents)?),
        };
        let uses_transposed_copy = operand.transposed && !matrix.can_transpose();
        if uses_transposed_copy && self.products[1].is_none() {
            let transposed_copy = operand.matrix.transposed(&mut Workers::new(threads))?;
            self.products[1] = Some(upload(stream, &*transposed_copy, [output_len, input_len])?);
        }
        if output_len == 0 || input_len == 0 {
            return clear_output(stream, arrays, output_len);
        }
        if self.scalars.is_none() {
            let memory = Memory::zeroed(stream.device(), stream, size_of::<Scalars>(), "scalars")?;
            let scalars = SharedScalars::new(stream, memory.address, None)?;
            self.scalars = Some((memory, scalars));
        }
        let (Some(matrix), Some((_, scalars))) = (&self.products[usize::from(uses_transposed_copy)], &mut self.scalars)
        else {
            return Err(Error::Internal("the matrix on the device is missing".to_owned()));
        };
        let (observer, cells) = (&mut NoObserver, Cells { nx: input_len, ny: 1, nz: 1 });
        let mut call = self.session.start_staged_call(arrays, observer, cells, [input_len, output_len])?;
        let mut multiply = || {
            if checks_input && call.arrays.device_input != 0 {
                let inspected = inspect_arrays(&mut call, scalars, box_of(input_len), false)?;
                if let Some((name, value, i, _)) = inspected.not_finite {
                    return Err(Error::not_finite(name, value, Location::entry(i)));
                }
            } else {
                call.send_arrays(false)?;
            }
            let finish =
                RowFinish { kind: FinishKind::StoreSum as i32, out: call.output.values, ..RowFinish::default() };
            matrix.multiply(call.stream, operand.transposed && !uses_transposed_copy, call.input.values, finish)?;
            call.set_output_extents(Cells { nx: output_len, ny: 1, nz: 1 });
            call.fetch_output()?;
            call.add_transfer_time()
        };
        let result = multiply();
        if result.is_err() {
            // Copies of the caller's arrays must end before the return.
            self.session.stream().finish_all_work();
        }
        result
    }

    fn replace_values(&mut self, mut new: NewValues) -> Result<bool> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        self.session.seconds_transfer = 0.0;
        // On the device, indices of values have 32 bits.
        if self.products[0].is_none()
            || new.input_count == 0
            || new.input_count.max(new.entry_count) >= u32::MAX as usize
        {
            return Ok(false);
        }
        let mut memory = Allocations::new("values of a matrix on the device");
        let csr_values = match self.permute_to_csr(&mut memory, &mut new) {
            Ok(Some(address)) => address,
            Ok(None) => return Ok(false),
            Err(error) => {
                // Copies of the caller's values must end before the return.
                self.session.stream().finish_all_work();
                return if error.is_out_of_memory_or_unsupported() { Ok(false) } else { Err(error) };
            }
        };
        let stream = self.session.stream();
        let mut products = self.products.iter().flatten();
        let result = products
            .try_for_each(|product| product.set_values(stream, csr_values, new.entry_count))
            .and_then(|()| stream.wait());
        if result.is_err() {
            stream.finish_all_work();
            self.discard_format_data();
        }
        self.rounded = [None, None];
        result.map(|()| true)
    }

    fn has_matrix(&mut self) -> Result<bool> {
        self.recover()?;
        Ok(self.products[0].is_some())
    }

    fn has_transpose(&mut self) -> Result<bool> {
        self.recover()?;
        Ok(self.products[1].is_some())
    }

    fn discard_transpose(&mut self) {
        self.products[1] = None;
    }

    fn fetch(&mut self, from: u64, to: &mut [f64]) -> Result<()> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let (stream, copies, seconds) = self.session.stream_and_copies();
        let start = Instant::now();
        copies.fetch(stream, &[Job::array_to_host(to, from)])?;
        stream.wait()?;
        *seconds = start.elapsed().as_secs_f64();
        Ok(())
    }

    fn discard_format_data(&mut self) {
        (self.products, self.rounded) = ([None, None], [None, None]);
        if let Some(state) = &mut self.state {
            // The recorded loop contains the addresses of the matrix.
            state.recorded_loop = None;
        }
    }
}

/// Sets y = 0, the result of a product with a matrix that has no rows or no columns.
fn clear_output(stream: &Stream, arrays: Arrays, output_len: usize) -> Result<()> {
    arrays.output.fill(0.0);
    if arrays.device_output != 0 {
        stream.fill(arrays.device_output, 0, 8 * output_len)?;
        stream.wait()?;
    }
    Ok(())
}

/// Selects the matrices that compute products in a solve: those of `rounded`, if any, otherwise those of `products`.
fn select_products<'a>(
    products: &'a [Option<Matrix>; 2],
    rounded: &'a [Option<Matrix>; 2],
    is_symmetric: bool,
) -> Result<Products<'a>> {
    let [Some(a_in_f64), transposed] = products else {
        return Err(Error::Internal("the matrix on the device is missing".to_owned()));
    };
    let a = rounded[0].as_ref().unwrap_or(a_in_f64);
    Ok(Products { a, a_in_f64, transposed: rounded[1].as_ref().or(transposed.as_ref()), is_symmetric })
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let device_bytes = self.state.as_ref().map_or(0, State::bytes)
            + self.products.iter().chain(&self.rounded).flatten().map(Matrix::bytes).sum::<usize>()
            + self.to_csr.as_ref().map_or(0, Permutation::bytes)
            + self.scalars.as_ref().map_or(0, |(memory, _)| memory.bytes)
            + self.session.staging_bytes();
        [self.session.bytes(), device_bytes]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}
