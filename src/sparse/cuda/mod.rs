//! Backend for general sparse matrices on a CUDA device. The host assembles and converts the matrix. The device stores
//! the arrays of the format and the vectors, and computes all steps of a solve.
//!
//! Modules, each of which may use the modules before it in this list: `allocations` (memory), `vectors` (length and
//! precision of vectors), `permutation` (orders of values), `matrix` (products), `triangular`, `aggregated` and
//! `precondition` (M^-1), `relaxation` (sweeps), `state` (data of a factorization), `run` (steps), `solve` (start and end
//! of a run).

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
use crate::cuda::vectors::inspect;
use crate::error::{Error, Place, Result, zeroed};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::options::Preconditioner as Kind;
use crate::report::{NoObserver, Observer, Outcome};
use crate::sparse::backend::{Factor, NewValues, Operator, Setup, SetupResult, SparseBackend, ValueSource};
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
use vectors::Vectors;

/// Number of vectors of PCG in addition to x, b and r.
const PCG_VECTORS: usize = 3;

/// The `cuda` backend.
pub struct Cuda {
    // Fields are dropped in this order, so that device memory is freed before the session ends.
    state: Option<State>,
    /// A, and a copy of A^T, in their formats.
    products: [Option<Matrix>; 2],
    /// The same matrices with values in f32, if the vectors are in f32.
    rounded: [Option<Matrix>; 2],
    /// From the caller's order of the values to that of csr; `None` until values are replaced.
    to_csr: Option<Permutation>,
    /// Whether the last factorization needs A^T, and A^T = A.
    symmetric: bool,
    /// Scalars of the kernel that inspects the input of a product outside a solve.
    scalars: Option<(Memory, SharedScalars)>,
    /// Device copies of an input and an output that are on the host.
    staging: Option<Memory>,
    threads: usize,
    session: Session,
}

fn too_large() -> Error {
    Error::Unsupported("a device supports matrices of fewer than 2^31 rows and columns; use backend=cpu".to_owned())
}

/// Copies a matrix to the device.
fn upload(stream: &Stream, stored: &dyn Stored, extents: [usize; 2]) -> Result<Matrix> {
    Matrix::new(stream, &stored.view().ok_or_else(too_large)?, extents, Reals::Double)
}

fn narrow(matrix: AnyCsr<'_>) -> Result<&Csr<u32>> {
    match matrix {
        AnyCsr::Narrow(a) => Ok(a),
        AnyCsr::Wide(_) => Err(too_large()),
    }
}

impl Cuda {
    /// Opens the device with this ordinal. At most `threads` CPU threads copy host arrays.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Ok(Self::with(Session::open(ordinal, &launch::SPARSE, threads)?, threads))
    }

    fn with(session: Session, threads: usize) -> Self {
        let (products, rounded) = ([None, None], [None, None]);
        let (state, to_csr, scalars, staging) = (None, None, None, None);
        Self { state, products, rounded, to_csr, symmetric: false, scalars, staging, threads, session }
    }

    /// If the device has been reset, discards all data and opens a new session.
    fn recover(&mut self) -> Result<()> {
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session, self.threads);
        }
        Ok(())
    }

    /// Returns the device addresses for copies of an input and an output that are on the host, with these numbers of
    /// values. Allocates the memory if it is too small.
    fn stage(&mut self, arrays: &Arrays, [input, output]: [usize; 2]) -> Result<[u64; 2]> {
        let bytes = 8 * (input + output);
        if arrays.device_input != 0 && arrays.device_output != 0 {
            return Ok([0, 0]);
        }
        if self.staging.as_ref().is_none_or(|memory| memory.bytes < bytes) {
            self.staging = None;
            let stream = self.session.stream();
            self.staging = Some(Memory::zeroed(stream.device(), stream, bytes, "arrays that are on the host")?);
        }
        let at = self.staging.as_ref().map_or(0, |memory| memory.address);
        Ok([at, at + 8 * input as u64])
    }

    /// Copies A to the device, and A^T if the method needs it, unless the device already has them. Returns an error if
    /// the method needs A^T, the host has no copy of it, and the kernel of the format cannot transpose.
    fn upload_operator(&mut self, setup: &Setup, rows: usize) -> Result<()> {
        let (stream, Operator { a, transposed }) = (self.session.stream(), setup.operator);
        let [own, copy] = &mut self.products;
        let own = match own {
            Some(own) => own,
            None => own.insert(upload(stream, a, [rows, rows])?),
        };
        self.symmetric = false;
        if !setup.transposes {
            return Ok(());
        }
        match transposed {
            Some(transposed) if std::ptr::addr_eq(transposed, a) => self.symmetric = true,
            Some(transposed) if copy.is_none() => *copy = Some(upload(stream, transposed, [rows, rows])?),
            None if !own.transposes() => {
                return Err(Error::Unsupported(
                    "products with A' in this format have no kernel on a device; use transpose=copy, within \
                     format_memory, or format=dia"
                        .to_owned(),
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Permutes new values to the order of csr, in `memory` unless they have this order on the device, and copies them
    /// to the host. Returns their address, or `None` if a value is not finite. Computes the permutations, if necessary,
    /// so that the following step needs no memory.
    fn permute_to_csr(&mut self, memory: &mut Allocations, new: &mut NewValues) -> Result<Option<u64>> {
        let (stream, copies, seconds) = self.session.parts();
        if let Some(own) = &mut self.products[0] {
            own.prepare_values(stream, new.numbered)?;
        }
        let from = match new.source {
            ValueSource::Device(address) => address,
            ValueSource::Host(values) => {
                let address = memory.zeroed(stream, 8 * new.count)?;
                let start = Instant::now();
                copies.send(stream, &[Job::all_from_host(values, address)])?;
                stream.wait()?;
                *seconds += start.elapsed().as_secs_f64();
                address
            }
        };
        let csr = match new.positions {
            None => from,
            Some(positions) => {
                let to_csr = match &self.to_csr {
                    Some(to_csr) => to_csr,
                    None => self.to_csr.insert(Permutation::to_csr(stream, positions, new.entries)?),
                };
                let csr = memory.zeroed(stream, 8 * new.entries)?;
                to_csr.apply(stream, from, csr)?;
                stream.wait()?;
                csr
            }
        };
        let Some(values) = &mut new.csr else { return Ok(Some(csr)) };
        **values = zeroed(new.entries, "values of a matrix")?;
        let start = Instant::now();
        copies.fetch(stream, &[Job::all_to_host(values, csr)])?;
        stream.wait()?;
        *seconds += start.elapsed().as_secs_f64();
        Ok(values.iter().all(|v| v.is_finite()).then_some(csr))
    }
}

impl SparseBackend for Cuda {
    fn set_up(&mut self, setup: &Setup) -> Result<SetupResult> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let csr = narrow(setup.matrix)?;
        let vectors = Vectors { rows: csr.rows(), f32_values: setup.single_vectors };
        self.rounded = [None, None];
        self.upload_operator(setup, vectors.rows)?;
        let stream = self.session.stream();
        if vectors.f32_values {
            for (own, rounded) in self.products.iter().zip(&mut self.rounded) {
                *rounded = own.as_ref().map(|own| own.rounded(stream)).transpose()?;
            }
        }
        // The memory of the previous factorization is freed before the new one is allocated. Vectors of the right
        // length are reused.
        let mut before = None;
        let mut state = match self.state.take().filter(|state| state.of == vectors) {
            Some(mut state) => {
                before = std::mem::take(&mut state.first).into_multigrid();
                (state.second, state.relaxation) = (None, None);
                state
            }
            None => State::new(stream, vectors, 0)?,
        };
        state.reserve(stream, setup.work_vectors.max(PCG_VECTORS))?;
        let scalars = state.scalars.at;
        let (first, mut result) = Preconditioner::new(stream, csr, setup, &setup.preconditioning, (before, scalars))?;
        state.first = first;
        if setup.second.kind != Kind::None {
            state.second = Some(Preconditioner::new(stream, csr, setup, &setup.second, (None, scalars))?.0);
        }
        state.relaxation = match &setup.sweep_parameters {
            Some(sweeps) => {
                let relaxation = Relaxation::new(stream, csr, sweeps, vectors.f32_values)?;
                result.colours = relaxation.colours();
                Some(relaxation)
            }
            None => None,
        };
        let a = of_products(&self.products, &self.rounded, self.symmetric)?;
        state.recorded = state.recorded.take().filter(|_| setup.is_cg);
        if setup.is_cg {
            state.record(&self.session.device, &a)?;
        }
        // The next call may use another stream.
        stream.wait()?;
        self.state = Some(state);
        Ok(result)
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        let _entered = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        self.state.as_mut().map_or(Ok(()), |state| state.reserve(stream, count))
    }

    fn run(&mut self, _: Operator, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _entered = self.session.device.clone().enter()?;
        let Some(rows) = self.state.as_ref().map(|state| state.of.rows) else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        let staged = self.stage(&arrays, [rows, rows])?;
        let Some(state) = &mut self.state else {
            return Err(Error::Internal("the factorization is missing".to_owned()));
        };
        let a = of_products(&self.products, &self.rounded, self.symmetric)?;
        let call = self.session.call(arrays, observer, state.cells(), staged);
        let mut run = Run { state, a, stream: call.stream, call, is_residual: false, on_second: false };
        let result = program(&mut run);
        let failed = run.call.failed.take();
        self.session.end_run(failed)?;
        if Outcome::may_leave_infinities(&result) {
            let stream = self.session.stream();
            state.clear(stream)?;
            stream.wait()?;
        }
        result
    }

    fn multiply(&mut self, a: Factor, arrays: Arrays, check: bool, threads: usize) -> Result<()> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let (inputs, rows) = (arrays.len, a.rows);
        let extents = if a.transposed { [inputs, rows] } else { [rows, inputs] };
        let stream = self.session.stream();
        let own = match &mut self.products[0] {
            Some(own) => own,
            own => own.insert(upload(stream, a.stored, extents)?),
        };
        let copies = a.transposed && !own.transposes();
        if copies && self.products[1].is_none() {
            let copy = a.matrix.transposed(&mut Workers::new(threads))?;
            self.products[1] = Some(upload(stream, &*copy, [rows, inputs])?);
        }
        if rows == 0 || inputs == 0 {
            return clear_output(stream, arrays, rows);
        }
        if self.scalars.is_none() {
            let memory = Memory::zeroed(stream.device(), stream, size_of::<Scalars>(), "scalars")?;
            let scalars = SharedScalars::new(stream, memory.address, None)?;
            self.scalars = Some((memory, scalars));
        }
        let staged = self.stage(&arrays, [inputs, rows])?;
        let (Some(matrix), Some((_, scalars))) = (&self.products[usize::from(copies)], &mut self.scalars) else {
            return Err(Error::Internal("the matrix on the device is missing".to_owned()));
        };
        let observer = &mut NoObserver;
        let mut call = self.session.call(arrays, observer, Cells { nx: inputs, ny: 1, nz: 1 }, staged);
        let mut product = || {
            if check && call.arrays.device_input != 0 {
                if let Some((name, value, i, _)) = inspect(&mut call, scalars, box_of(inputs), false)?.not_finite {
                    return Err(Error::not_finite(name, value, Place::entry(i)));
                }
            } else {
                call.send_arrays(false)?;
            }
            let finish = RowFinish { kind: FinishKind::Keep as i32, out: call.output.values, ..RowFinish::default() };
            matrix.multiply(call.stream, a.transposed && !copies, call.input.values, finish)?;
            call.output_has(Cells { nx: rows, ny: 1, nz: 1 });
            call.fetch_output()?;
            call.count_sent()
        };
        let result = product();
        if result.is_err() {
            // Copies of the caller's arrays must end before the return.
            self.session.stream().settle();
        }
        result
    }

    fn replace_values(&mut self, mut new: NewValues) -> Result<bool> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        self.session.seconds_transfer = 0.0;
        // Indices of values have 32 bits on the device.
        if self.products[0].is_none() || new.count == 0 || new.count.max(new.entries) >= u32::MAX as usize {
            return Ok(false);
        }
        let mut memory = Allocations::new("values of a matrix on the device");
        let csr = match self.permute_to_csr(&mut memory, &mut new) {
            Ok(Some(csr)) => csr,
            Ok(None) => return Ok(false),
            Err(error) => {
                // Copies of the caller's values must end before the return.
                self.session.stream().settle();
                return if error.is_out_of_memory_or_unsupported() { Ok(false) } else { Err(error) };
            }
        };
        let stream = self.session.stream();
        let replaced = match &mut self.products[0] {
            Some(own) => own.set_values(stream, csr, new.entries).and_then(|()| stream.wait()),
            None => Ok(()),
        };
        if replaced.is_err() {
            stream.settle();
            self.discard_format_data();
        }
        (self.products[1], self.rounded) = (None, [None, None]);
        replaced.map(|()| true)
    }

    fn has_matrix(&mut self) -> Result<bool> {
        self.recover()?;
        Ok(self.products[0].is_some())
    }

    fn fetch(&mut self, from: u64, to: &mut [f64]) -> Result<()> {
        self.recover()?;
        let _entered = self.session.device.clone().enter()?;
        let (stream, copies, seconds) = self.session.parts();
        let start = Instant::now();
        copies.fetch(stream, &[Job::all_to_host(to, from)])?;
        stream.wait()?;
        *seconds = start.elapsed().as_secs_f64();
        Ok(())
    }

    fn discard_format_data(&mut self) {
        (self.products, self.rounded) = ([None, None], [None, None]);
        if let Some(state) = &mut self.state {
            // Recorded launches contain the addresses of the matrix.
            state.recorded = None;
        }
    }

    fn run_both(&mut self, _: usize, _: usize, own: &mut dyn FnMut(), other: &(dyn Fn() + Sync)) -> Result<()> {
        own();
        other();
        Ok(())
    }
}

/// Sets y = 0, the result of a product with a matrix that has no rows or no columns.
fn clear_output(stream: &Stream, arrays: Arrays, rows: usize) -> Result<()> {
    arrays.output.fill(0.0);
    if arrays.device_output != 0 {
        stream.fill(arrays.device_output, 0, 8 * rows)?;
        stream.wait()?;
    }
    Ok(())
}

fn of_products<'a>(
    products: &'a [Option<Matrix>; 2],
    rounded: &'a [Option<Matrix>; 2],
    symmetric: bool,
) -> Result<Products<'a>> {
    let [Some(exact), transposed] = products else {
        return Err(Error::Internal("the matrix on the device is missing".to_owned()));
    };
    let a = rounded[0].as_ref().unwrap_or(exact);
    Ok(Products { a, exact, transposed: rounded[1].as_ref().or(transposed.as_ref()), symmetric })
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let device = self.state.as_ref().map_or(0, State::bytes)
            + self.products.iter().chain(&self.rounded).flatten().map(Matrix::bytes).sum::<usize>()
            + self.to_csr.as_ref().map_or(0, Permutation::bytes)
            + self.scalars.as_ref().map_or(0, |(memory, _)| memory.bytes)
            + self.staging.as_ref().map_or(0, |memory| memory.bytes);
        [self.session.bytes(), device]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}
