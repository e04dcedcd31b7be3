//! The handle of family `sparse_`: a matrix, the vectors of its file, and the core. The core is the solver object of
//! the handle ([`Sparse`]). It contains the storage format for products and the factorization.

use super::arrays::{check_count, index_slice, input_slice, output_slice};

use crate::abi::environment;
use crate::abi::handle::{Family, Handle};
use crate::abi::shape::Shape;
use crate::abi::spaces::{AddressRange, check_array, check_no_overlap};
use crate::abi::system::SolverFamily;
use crate::base::heap::boxed;
use crate::base::machine::{Core, Machine};
use crate::base::workers::Workers;
use crate::cuda::driver::device_count;
use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result, push, zeroed};
use crate::files::{Loaded, Vectors, load};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps;
use crate::options::{
    self, Backend, Choice, Dominance, Format, Memory, Options, ResultEntry, Triangle, Vector, info, opt,
};
use crate::report::{Observer, Outcome};
use crate::sparse::backend::{SparseBackend, ValueSource};
use crate::sparse::solver::{ProductMatrix, Sparse, format_request, is_relaxation, is_worth_a_device};
use crate::sparse::{
    EntryArrays, EntryLayout, FormatKind, FormatSize, IndexArray, InputArrays, Matrix, MatrixSizes, OutputArrays,
    check_values, import_matrix,
};
use libc::c_void;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

/// Handle of a sparse matrix. The handle contains the matrix, its storage format, the options, the factorization and
/// the workspace. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct sparse_handle(());

/// Data of a handle of this family.
pub struct SparseHandleData {
    pub(super) matrix: Box<dyn Matrix>,
    vectors: Vectors,
    /// Value of the option `threads`, and the number of threads that was determined from it.
    threads: Option<(i64, usize)>,
}

/// Arguments of a call that creates a matrix. `extents`: rows, columns and number of entries.
pub(super) struct MatrixArguments {
    pub extents: [i64; 3],
    pub layout: EntryLayout,
    pub first_array: (&'static str, *const c_void),
    pub second_array: (&'static str, *const c_void),
    pub values: *const f64,
    pub index_bytes: i32,
    pub base: i32,
}

impl MatrixArguments {
    /// Checks the arrays and creates the matrix.
    ///
    /// # Safety
    /// The arrays must be NULL or have the lengths that `layout` implies, for the duration of the call.
    pub unsafe fn matrix(&self) -> Result<Box<dyn Matrix>> {
        let mut workers = workers();
        let [rows, cols, nnz] = self.extents;
        let (rows, cols, nnz) = (check_count("rows", rows)?, check_count("cols", cols)?, check_count("nnz", nnz)?);
        if ![0, 1].contains(&self.base) {
            return Err(Error::range("base", self.base, "be 0 or 1"));
        }
        let first_array_len = match self.layout {
            EntryLayout::Coordinates => nnz,
            EntryLayout::Rows => rows + 1,
            EntryLayout::Columns => cols + 1,
        };
        // SAFETY: guaranteed by the caller.
        let (first_indices, second_indices, values) = unsafe {
            (
                index_slice(self.first_array.0, self.first_array.1, first_array_len, self.index_bytes)?,
                index_slice(self.second_array.0, self.second_array.1, nnz, self.index_bytes)?,
                input_slice("values", self.values, nnz)?,
            )
        };
        EntryArrays { rows, cols, layout: self.layout, first_indices, second_indices, index_base: self.base.into() }
            .matrix(values, &mut workers)
    }
}

/// Returns the workers for a call that creates a handle. No option is set yet, so the number of threads is automatic.
fn workers() -> Workers {
    Workers::from_function(|| environment::threads(0))
}

/// Returns the format with this number.
fn parse_format(number: i32) -> Result<Format> {
    Format::of(number.into())
        .ok_or_else(|| Error::range("format", number, "be one of RRB_FORMAT_COO to RRB_FORMAT_DIAGONAL"))
}

/// Creates a matrix from the arrays of a format.
///
/// # Safety
/// `sizes` must be NULL or hold four values; the arrays must be NULL or have these lengths.
pub(super) unsafe fn from_arrays(
    format: i32,
    [rows, cols]: [i64; 2],
    sizes: *const i64,
    [i0, i1, i2]: [*const i64; 3],
    values: *const f64,
) -> Result<Box<dyn Matrix>> {
    let (format, rows, cols) = (parse_format(format)?, check_count("rows", rows)?, check_count("cols", cols)?);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let sizes = input_slice("sizes", sizes, 4)?;
        let input_arrays = InputArrays {
            i0: input_slice("i0", i0, check_count("sizes[0]", sizes[0])?)?,
            i1: input_slice("i1", i1, check_count("sizes[1]", sizes[1])?)?,
            i2: input_slice("i2", i2, check_count("sizes[2]", sizes[2])?)?,
            values: input_slice("values", values, check_count("sizes[3]", sizes[3])?)?,
        };
        import_matrix(format, rows, cols, &input_arrays, &mut workers())
    }
}

/// Creates a handle with a matrix and without vectors.
pub(super) fn handle_with_matrix(matrix: Box<dyn Matrix>) -> Result<Handle<sparse_handle>> {
    new_handle(Loaded::of(matrix))
}

fn new_handle(Loaded { matrix, vectors, .. }: Loaded) -> Result<Handle<sparse_handle>> {
    Handle::new(Shape::rows(matrix.sizes().rows), SparseHandleData { matrix, vectors, threads: None })
}

/// Creates a handle with the matrix and the vectors of a file. Logs a warning about the file, if any.
pub(super) fn handle_from_file(path: &CStr) -> Result<Handle<sparse_handle>> {
    let loaded = load(path, &mut workers())?;
    let warning = loaded.warning;
    let mut h = new_handle(loaded)?;
    if let Some(warning) = warning {
        // A log line holds 511 bytes, so the message contains only the end of a long path.
        const SHOWN_PATH_BYTES: usize = 300;
        let path = path.to_bytes();
        let omitted_bytes = path.len().saturating_sub(SHOWN_PATH_BYTES);
        let (dots, path_end) = (
            if omitted_bytes > 0 { "..." } else { "" },
            Path::new(OsStr::from_bytes(&path[omitted_bytes..])).display(),
        );
        h.base.log.write_line(0, format_args!("{dots}{path_end}: {warning}"));
    }
    Ok(h)
}

impl Handle<sparse_handle> {
    /// Replaces the values of the matrix, and discards the factorization. If the device stores the matrix, the device
    /// permutes the values. Values on a device are also copied to the host, because the next factorization inspects the
    /// matrix on the host.
    ///
    /// # Safety
    /// `values` must be NULL or hold as many values as the call that created the handle received.
    pub(super) unsafe fn set_values(&mut self, values: *const f64) -> Result<()> {
        let (input_count, machine) = (self.family_parts.matrix.sizes().input_count, self.machine_of_options());
        // SAFETY: guaranteed by the caller.
        let (address, values) = unsafe { self.input("values", values, input_count, machine)? };
        let source = if address == 0 {
            check_values(values)?;
            ValueSource::Host(values)
        } else {
            ValueSource::Device(address)
        };
        // Values on the host do not require a solver object. An existing solver object is updated only if it is on the
        // selected machine, because a later call replaces a solver object on another machine.
        let is_current = self.base.core.as_ref().is_some_and(|core| core.is_on(machine));
        let stream = self.base.stream as usize;
        let replaced = (is_current || address != 0)
            && core_on(&mut self.base.core, machine, stream)?.replace_values(&mut *self.family_parts.matrix, source)?;
        if !replaced {
            self.set_values_on_host(source)?;
        }
        self.base.mark_data_set("values");
        Ok(())
    }

    /// Replaces the values of the matrix on the host. Discards the factorization, and the matrix in its storage format
    /// for products.
    fn set_values_on_host(&mut self, source: ValueSource) -> Result<()> {
        let fetched;
        let values = match (source, &mut self.base.core) {
            (ValueSource::Host(values), _) => values,
            (ValueSource::Device(address), Some(core)) => {
                let mut copy = zeroed(self.family_parts.matrix.sizes().input_count, "values")?;
                core.fetch(address, &mut copy)?;
                check_values(&copy)?;
                fetched = copy;
                &fetched
            }
            (ValueSource::Device(_), None) => return Err(Error::Internal("the values have no device".to_owned())),
        };
        self.family_parts.matrix.set_values(values)?;
        if let Some(core) = &mut self.base.core {
            core.discard_setup();
        }
        Ok(())
    }

    /// Copies vector `k` of the kind `which` from the file of the matrix to `v`.
    ///
    /// # Safety
    /// `v` must be NULL or have room for one value per row of the matrix.
    pub(super) unsafe fn get_vector(&self, which: i32, k: i64, v: *mut f64) -> Result<()> {
        let Some(which) = Vector::of(which.into()) else {
            return Err(Error::range("which", which, "be RRB_VECTOR_RHS, RRB_VECTOR_GUESS or RRB_VECTOR_SOLUTION"));
        };
        let (name, vector_count) = (which.name(), self.family_parts.vectors.count(which));
        let Some(vector) = usize::try_from(k).ok().and_then(|k| self.family_parts.vectors.get(which, k)) else {
            let count_text = if vector_count == 0 { "no".to_owned() } else { vector_count.to_string() };
            let message_end = format!(": the matrix has {count_text} {name}");
            return Err(Error::at(
                RRB_ERR_ARGUMENT,
                format!("there is no {name} "),
                Location::entry(k as usize),
                message_end,
            ));
        };
        // SAFETY: guaranteed by the caller.
        unsafe { output_slice("v", v, vector.len())? }.copy_from_slice(vector);
        Ok(())
    }

    /// Computes the lengths of the arrays of a format.
    ///
    /// # Safety
    /// `sizes` must be NULL or have room for four values.
    pub(super) unsafe fn sizes(&self, format: i32, sizes: *mut i64) -> Result<()> {
        let lengths = self.choose_format(parse_format(format)?)?.1.lengths();
        // SAFETY: guaranteed by the caller.
        let sizes = unsafe { output_slice("sizes", sizes, lengths.len())? };
        sizes.iter_mut().zip(lengths).for_each(|(target, length)| *target = length as i64);
        Ok(())
    }

    /// Returns the format with the parameters that the options set, and its size.
    fn choose_format(&self, format: Format) -> Result<(FormatKind, FormatSize)> {
        if format == Format::Auto {
            return Err(Error::range("format", "0 (auto)", "be one of RRB_FORMAT_COO to RRB_FORMAT_DIAGONAL"));
        }
        self.family_parts
            .matrix
            .choose_format(&format_request(&self.base.options, format, false, false), &mut self.workers())
    }

    /// Writes the arrays of a format.
    ///
    /// # Safety
    /// The arrays must be NULL or have room for the lengths that `sizes` returns.
    pub(super) unsafe fn arrays(&self, format: i32, [i0, i1, i2]: [*mut i64; 3], values: *mut f64) -> Result<()> {
        let (kind, size) = self.choose_format(parse_format(format)?)?;
        let lengths = size.lengths().map(|length| length as usize);
        let named_arrays = [("i0", i0.cast()), ("i1", i1.cast()), ("i2", i2.cast()), ("values", values)];
        let mut address_ranges = Vec::new();
        for ((name, array), len) in named_arrays.into_iter().zip(lengths).filter(|(_, len)| *len > 0) {
            push(&mut address_ranges, AddressRange::new(name, array, len, true)?, "addresses of arrays")?;
        }
        check_no_overlap(&mut address_ranges)?;
        let stored = self.family_parts.matrix.store(kind, &size, &mut self.workers())?;
        // SAFETY: guaranteed by the caller. The preceding check excludes overlap.
        let mut output = unsafe {
            OutputArrays {
                i0: IndexArray(output_slice("i0", i0, lengths[0])?),
                i1: IndexArray(output_slice("i1", i1, lengths[1])?),
                i2: IndexArray(output_slice("i2", i2, lengths[2])?),
                values: output_slice("values", values, lengths[3])?,
            }
        };
        stored.as_deref().unwrap_or_else(|| self.family_parts.matrix.csr()).write(&mut output);
        Ok(())
    }

    /// Computes y = A x or y = A^T x in the storage format that the options select. Converts the matrix to this format
    /// first, if necessary.
    ///
    /// # Safety
    /// `x` must be NULL or have one value per column, and `y` must be NULL or have one value per row. These are the
    /// columns and rows of the matrix or, if `transposed` is true, of its transpose.
    pub(super) unsafe fn multiply(&mut self, x: *const f64, y: *mut f64, transposed: bool) -> Result<()> {
        let sizes = self.family_parts.matrix.sizes();
        let (rows, cols) = if transposed { (sizes.cols, sizes.rows) } else { (sizes.rows, sizes.cols) };
        let machine = self.machine_of_options();
        // SAFETY: guaranteed by the caller.
        let (device_input, input) = unsafe { self.input("x", x, cols, machine)? };
        if rows > 0 && cols > 0 {
            AddressRange::new("x", x, cols, false)?.check_no_overlap(&AddressRange::new("y", y, rows, true)?)?;
        }
        // SAFETY: guaranteed by the caller. The preceding check excludes overlap with x.
        let (device_output, output) = unsafe { self.output(y, rows, machine)? };
        let arrays = solve_steps::Arrays {
            input_name: "x",
            input,
            ld: cols,
            plane: cols,
            output,
            device_input,
            device_output,
            len: cols,
            first_row: 0,
        };
        let start = Instant::now();
        let checks_input = self.base.options.is_on(opt::CHECK_INPUT);
        let stream = self.base.stream as usize;
        let core = core_on(&mut self.base.core, machine, stream)?;
        let setup_time = core.make_product(&*self.family_parts.matrix, &self.base.options)?.then(|| start.elapsed());
        let result = core.multiply(&*self.family_parts.matrix, arrays, transposed, checks_input);
        if let Some(seconds) = setup_time {
            self.base.end_setup(seconds);
            self.log_format();
        }
        result
    }

    /// Returns the backend, threads and devices that the options select. Counts the devices only if
    /// [`is_worth_a_device`] holds.
    fn machine_of_options(&mut self) -> Machine {
        let threads = self.threads();
        let device_is_worthwhile = is_worth_a_device(&self.base.options, &self.family_parts.matrix.sizes());
        let devices = if device_is_worthwhile { device_count() } else { 0 };
        Machine::new(&self.base.options, threads, devices, device_is_worthwhile)
    }

    /// Returns whether a caller's array may be in device memory (the backend is a device) or must be (`memory=device`).
    fn needs_device_address(&self, machine: Machine) -> bool {
        machine.is_device() || self.base.options.choice::<Memory>(opt::MEMORY) == Memory::Device
    }

    /// Returns an input array: (device address, empty slice) in device memory, or (0, values) in host memory.
    ///
    /// # Safety
    /// `x` must be NULL or hold `count` values for the duration of the call.
    unsafe fn input<'a>(
        &self,
        name: &'static str,
        x: *const f64,
        count: usize,
        machine: Machine,
    ) -> Result<(u64, &'a [f64])> {
        if count > 0 && self.needs_device_address(machine) {
            check_array(name, x)?;
            let address = self.base.device_address(name, x, machine)?;
            if address != 0 {
                return Ok((address, &[]));
            }
        }
        // SAFETY: guaranteed by the caller.
        Ok((0, unsafe { input_slice(name, x, count)? }))
    }

    /// Returns the output array y: (device address, empty slice) in device memory, or (0, slice) in host memory.
    ///
    /// # Safety
    /// As for `input`, and no other slice may refer to the array.
    unsafe fn output<'a>(&self, y: *mut f64, count: usize, machine: Machine) -> Result<(u64, &'a mut [f64])> {
        if count > 0 && self.needs_device_address(machine) {
            check_array("y", y)?;
            let address = self.base.device_address("y", y, machine)?;
            if address != 0 {
                return Ok((address, &mut []));
            }
        }
        // SAFETY: guaranteed by the caller.
        Ok((0, unsafe { output_slice("y", y, count)? }))
    }

    /// Returns the workers for calls that use only the matrix, and not the solver object.
    fn workers(&self) -> Workers {
        let thread_option = self.base.options.int(opt::THREADS);
        let known_threads = self
            .family_parts
            .threads
            .filter(|(option_value, _)| *option_value == thread_option)
            .map(|(_, threads)| threads);
        Workers::new(known_threads.unwrap_or_else(|| environment::threads(thread_option as usize)))
    }

    /// Returns the number of threads that the option `threads` selects. Reuses the last result if the option is
    /// unchanged.
    fn threads(&mut self) -> usize {
        let thread_option = self.base.options.int(opt::THREADS);
        match self.family_parts.threads {
            Some((option_value, threads)) if option_value == thread_option => threads,
            _ => {
                let threads = environment::threads(thread_option as usize);
                self.family_parts.threads = Some((thread_option, threads));
                threads
            }
        }
    }

    pub(super) fn factorize(&mut self) -> Result<()> {
        self.base.begin_setup();
        let machine = self.machine_of_options();
        let matrix = &*self.family_parts.matrix;
        self.base.set_up(|base, previous| {
            let mut core = core(previous, machine, base.stream as usize)?;
            core.factorize(matrix, &base.options)?;
            Ok(core)
        })?;
        self.log_format();
        self.log_method()
    }

    /// Logs the properties of the matrix, the method and the preconditioner. Warnings do not depend on `verbosity`.
    fn log_method(&mut self) -> Result<()> {
        let Some(core) = &self.base.core else { return Ok(()) };
        let choices = core.choices();
        if choices.triangle != Triangle::Both {
            let (triangle, message) = (choices.triangle.name(), "if the matrix is symmetric, pass both triangles");
            self.base.log_line(0, format_args!("only the {triangle} triangle has entries: {message}"));
        }
        let is_sweep_method = is_relaxation(choices.solver);
        if !is_sweep_method && self.base.options.int(opt::VERBOSITY) < 1 {
            return Ok(());
        }
        let dominance = self.family_parts.matrix.dominance()?;
        let (solver, m) = (choices.solver.name(), choices.preconditioner.name());
        if let Some((row, pivot)) = choices.setup_result.nonpositive_pivot {
            let shift = choices.setup_result.shift;
            self.base.log_line(1, format_args!("ic0: pivot {pivot:.2e} in row {row} (counted from 0), shift={shift}"));
        }
        let (symmetry, dominance_name) =
            (if choices.is_symmetric { "symmetric" } else { "not symmetric" }, dominance.name());
        self.base
            .log_line(1, format_args!("{symmetry}, dominance {dominance_name}, solver {solver}, preconditioner {m}"));
        if is_sweep_method && dominance == Dominance::None {
            let message = "the matrix is not diagonally dominant, sweeps may diverge";
            self.base.log_line(0, format_args!("solver={solver}: {message}"));
        }
        Ok(())
    }

    fn log_format(&mut self) {
        let Some(product) = self.base.core.as_ref().and_then(Sparse::product) else { return };
        let (format, value_count, bytes_per_entry) =
            (product.format().name(), product.value_count(), self.product_bytes_per_entry());
        let MatrixSizes { rows, cols, nonzeros, .. } = self.family_parts.matrix.sizes();
        let entries = format_args!("{rows} x {cols}, {nonzeros} entries");
        self.base.log_line(
            1,
            format_args!("{entries}, format {format}, {value_count} values, {bytes_per_entry:.2} bytes per entry"),
        );
    }

    /// Returns the memory traffic of a product in bytes per entry of the matrix; 0 before the first product or
    /// factorization.
    fn product_bytes_per_entry(&self) -> f64 {
        let sizes = self.family_parts.matrix.sizes();
        let vector_bytes = 8.0 * (sizes.rows as f64 + sizes.cols as f64);
        let bytes_per_entry =
            |product: &ProductMatrix| (product.bytes_read() as f64 + vector_bytes) / sizes.nonzeros as f64;
        let product = self.base.core.as_ref().and_then(Sparse::product);
        product.filter(|_| sizes.nonzeros > 0).map_or(0.0, bytes_per_entry)
    }
}

/// Returns a solver object for `machine` and `stream`: `existing_core` if it was created for `machine`, otherwise a new
/// one.
fn core(existing_core: Option<Sparse>, machine: Machine, stream: usize) -> Result<Sparse> {
    let mut core = Sparse::for_machine(machine, existing_core, make_backend)?;
    core.engine_mut().use_stream(stream)?;
    Ok(core)
}

/// Replaces `existing_core` by the result of `core`. If `existing_core` cannot use `stream`, returns an error and
/// leaves `existing_core` unchanged.
fn core_on(existing_core: &mut Option<Sparse>, machine: Machine, stream: usize) -> Result<&mut Sparse> {
    existing_core.as_mut().map_or(Ok(()), |core| core.engine_mut().use_stream(stream))?;
    let core = core(existing_core.take(), machine, stream)?;
    Ok(existing_core.insert(core))
}

const ALLOCATION_NAME: &str = "a backend";

/// Creates a backend. No other function of this family names a concrete backend.
fn make_backend(machine: Machine) -> Result<Box<dyn SparseBackend>> {
    Ok(match machine.backend {
        Backend::Cuda => boxed(crate::sparse::cuda::Cuda::new(machine.device, machine.threads)?, ALLOCATION_NAME)?,
        _ => boxed(crate::sparse::cpu::Cpu::default(), ALLOCATION_NAME)?,
    })
}

impl Family for sparse_handle {
    const FAMILY: options::Family = options::Family::Sparse;
    type Core = Sparse;
    type FamilyParts = SparseHandleData;

    fn bytes(family_parts: &SparseHandleData) -> [usize; 2] {
        [family_parts.matrix.bytes() + family_parts.vectors.bytes(), 0]
    }

    fn result(h: &Handle<Self>, entry: &ResultEntry) -> Result<Option<f64>> {
        let (matrix, sizes) = (&h.family_parts.matrix, h.family_parts.matrix.sizes());
        let is_square = sizes.rows == sizes.cols;
        Ok(Some(match entry.key {
            info::ROWS => sizes.rows as f64,
            info::COLS => sizes.cols as f64,
            info::NONZEROS => sizes.nonzeros as f64,
            info::DUPLICATES => sizes.duplicate_count as f64,
            info::BYTES_PER_NONZERO => h.product_bytes_per_entry(),
            info::SYMMETRIC if is_square => f64::from(u8::from(matrix.inspect(&mut h.workers())?.asymmetry.is_none())),
            info::DOMINANCE if is_square => matrix.dominance()?.number() as f64,
            info::TRIANGLE if is_square => matrix.inspect(&mut h.workers())?.triangle().number() as f64,
            info::ZERO_DIAGONALS => matrix.count_zero_diagonals() as f64,
            info::EMPTY_ROWS => matrix.count_empty_rows() as f64,
            info::LONGEST_ROW => matrix.longest_row_len() as f64,
            info::FILE_RHS => h.family_parts.vectors.count(Vector::Rhs) as f64,
            _ => return Ok(None),
        }))
    }
}

impl SolverFamily for sparse_handle {
    fn run(
        core: &mut Sparse,
        family_parts: &SparseHandleData,
        function: Function,
        arrays: solve_steps::Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        core.run(function, &*family_parts.matrix, arrays, options, observer)
    }
}
