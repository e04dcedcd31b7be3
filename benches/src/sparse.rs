//! General sparse systems: products in several formats, and solves by `sparse_` with several sets of options, in turn.

use crate::contest::output_of;
use crate::device::{Device, DeviceArray, Queue};
use crate::solver::checked;
use crate::timing::Samples;
use anyhow::{Context as _, Result, anyhow, ensure};
use rrbsolver::abi::{
    sparse_arrays, sparse_create_csc, sparse_create_csr, sparse_destroy, sparse_factorize, sparse_get_int,
    sparse_get_real, sparse_handle, sparse_multiply, sparse_read, sparse_set_monitor, sparse_set_options,
    sparse_set_stream, sparse_set_values, sparse_sizes, sparse_solve,
};
use rrbsolver::options::{Format, Solver, info};
use rrbsolver_problems::sparse::{System, system};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, c_void};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Instant;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A name of `rrbsolver_problems::sparse::system`, or the path of a matrix file.
    pub name: String,
    /// Formats whose products are measured, without the check of the input.
    pub formats: Vec<String>,
    /// Sets of options of solves, as text.
    pub options: Vec<String>,
    /// Whether the solvers receive the matrix by columns, so that `sparse_set_values` permutes the values.
    pub by_columns: bool,
    /// Number of measured rounds of solves. Ten times as many products are measured per format.
    pub repeats: usize,
    /// CUDA ordinal of the device that computes the products, and whose memory contains the arrays of products and
    /// solves; `None`: the CPU, with arrays on the host.
    pub device: Option<usize>,
    /// File for the system, for other programs: int64 rows and entries, int32 row pointers and columns, values.
    pub write: Option<PathBuf>,
    /// Other programs, with their names. `{}` in their arguments is replaced by the file of the system.
    pub peers: Vec<(String, Vec<String>)>,
}

/// Results of products in a format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProductRow {
    /// Name of the format.
    pub format: String,
    /// Counted bytes per entry, including x and y; none for other programs.
    pub bytes: Option<f64>,
    /// Seconds of a call.
    pub product: Samples,
    /// Seconds by which a call prolongs the work of a busy device.
    #[serde(default)]
    pub queued: Option<Samples>,
}

/// Results of solves with a set of options.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SolveRow {
    /// Option text.
    pub options: String,
    /// Method in use at the end.
    pub method: String,
    /// Number of iterations of a solve.
    pub iterations: usize,
    /// Whether the solve converged.
    pub converged: bool,
    /// Reported |b - A x| / |b|.
    pub residual: f64,
    /// Seconds from the arrays of the matrix to a handle; none for other programs, whose setup includes this time.
    #[serde(default)]
    pub create: Samples,
    /// Seconds of `sparse_factorize`, or of the setup of another program.
    pub factorize: Samples,
    /// Seconds from x = 0 to x.
    pub solve: Samples,
    /// Seconds of the second `sparse_set_values` after the solve; none for other programs.
    #[serde(default)]
    pub set_values: Samples,
    /// Seconds of the factorization of the new values.
    #[serde(default)]
    pub factorize_again: Samples,
}

/// Results of all formats and solves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct General {
    /// Name of the system.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of entries.
    pub entries: usize,
    /// Products.
    pub products: Vec<ProductRow>,
    /// Solves of A x = A (1, 1, ..).
    pub solves: Vec<SolveRow>,
}

/// The matrix in CSR format, as callers store it.
pub(crate) struct Rows {
    pub(crate) ptr: Vec<i32>,
    pub(crate) col: Vec<i32>,
    pub(crate) val: Vec<f64>,
}

impl Rows {
    /// Reads the matrix from the file with this name, or generates the system with this name.
    fn of_name(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if !path.is_file() {
            return Self::generate(name);
        }
        let library = Library::read(path)?;
        let [rows, cols] = [info::ROWS, info::COLS].map(|key| library.int(key));
        ensure!(rows == cols, "{name} contains a matrix of {rows} rows and {cols} columns; pass a square matrix");
        library.rows()
    }

    /// Generates the system with this name.
    pub(crate) fn generate(name: &str) -> Result<Self> {
        Self::of(system(name).with_context(|| {
            format!(
                "{name} is neither the name of a system, such as poisson3d_100 or tetrahedra_40, nor the path of a file"
            )
        })?)
    }

    fn of(system: System) -> Result<Self> {
        let mut entries = system.entries;
        entries.sort_by_key(|&(i, j, _)| (i, j));
        let narrow = |k: usize| i32::try_from(k).context("2^31 entries or more");
        let mut ptr = vec![0i32; system.n + 1];
        for &(i, _, _) in &entries {
            ptr[i + 1] += 1;
        }
        for i in 0..system.n {
            ptr[i + 1] += ptr[i];
        }
        narrow(entries.len())?;
        let col = entries.iter().map(|e| narrow(e.1)).collect::<Result<_>>()?;
        Ok(Self { ptr, col, val: entries.iter().map(|e| e.2).collect() })
    }

    /// Returns the number of entries of the longest row.
    pub(crate) fn longest(&self) -> usize {
        self.ptr.windows(2).map(|range| (range[1] - range[0]) as usize).max().unwrap_or(0)
    }

    /// Returns A (1, 1, ..).
    pub(crate) fn row_sums(&self) -> Vec<f64> {
        self.ptr.windows(2).map(|range| self.val[range[0] as usize..range[1] as usize].iter().sum()).collect()
    }

    /// Returns the matrix by columns.
    fn by_columns(&self) -> Self {
        let n = self.ptr.len() - 1;
        let mut ptr = vec![0i32; n + 1];
        self.col.iter().for_each(|&j| ptr[j as usize + 1] += 1);
        (0..n).for_each(|j| ptr[j + 1] += ptr[j]);
        let (mut next, mut row, mut val) = (ptr.clone(), vec![0; self.col.len()], vec![0.0; self.col.len()]);
        for i in 0..n {
            for k in self.ptr[i] as usize..self.ptr[i + 1] as usize {
                let to = &mut next[self.col[k] as usize];
                (row[*to as usize], val[*to as usize]) = (i as i32, self.val[k]);
                *to += 1;
            }
        }
        Self { ptr, col: row, val }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut to = BufWriter::new(file);
        for count in [self.ptr.len() - 1, self.val.len()] {
            to.write_all(&(count as i64).to_ne_bytes())?;
        }
        for index in self.ptr.iter().chain(&self.col) {
            to.write_all(&index.to_ne_bytes())?;
        }
        for value in &self.val {
            to.write_all(&value.to_ne_bytes())?;
        }
        Ok(to.flush()?)
    }
}

/// A handle of the family `sparse_`.
pub(crate) struct Library(*mut sparse_handle);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from sparse_create_csr and is destroyed once.
        unsafe { sparse_destroy(&mut self.0) };
    }
}

impl Library {
    pub(crate) fn new(a: &Rows) -> Result<Self> {
        let mut library = Self(null_mut());
        let (n, entries) = (a.ptr.len() as i64 - 1, a.val.len() as i64);
        let (ptr, col) = (a.ptr.as_ptr().cast(), a.col.as_ptr().cast());
        // SAFETY: arrays of the lengths passed, and a pointer.
        checked(unsafe { sparse_create_csr(n, n, entries, ptr, col, a.val.as_ptr(), 4, 0, &mut library.0) })?;
        Ok(library)
    }

    /// Passes a matrix by columns.
    fn of_columns(a: &Rows) -> Result<Self> {
        let mut library = Self(null_mut());
        let (n, entries) = (a.ptr.len() as i64 - 1, a.val.len() as i64);
        let (ptr, row) = (a.ptr.as_ptr().cast(), a.col.as_ptr().cast());
        // SAFETY: arrays of the lengths passed, and a pointer.
        checked(unsafe { sparse_create_csc(n, n, entries, ptr, row, a.val.as_ptr(), 4, 0, &mut library.0) })?;
        Ok(library)
    }

    /// Reads a matrix file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut library = Self(null_mut());
        let text = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| anyhow!("paths have no NUL"))?;
        // SAFETY: a NUL-terminated path and a pointer.
        checked(unsafe { sparse_read(text.as_ptr(), &mut library.0) })?;
        Ok(library)
    }

    /// Returns the matrix in CSR format.
    pub(crate) fn rows(&self) -> Result<Rows> {
        let (csr, mut sizes) = (Format::Csr as i32, [0; 4]);
        // SAFETY: a live handle and room for four integers.
        checked(unsafe { sparse_sizes(self.0, csr, sizes.as_mut_ptr()) })?;
        let [mut ptr, mut col] = [sizes[0], sizes[1]].map(|len| vec![0_i64; len as usize]);
        let mut val = vec![0.0; sizes[3] as usize];
        // SAFETY: a live handle and arrays of the lengths that it returned.
        checked(unsafe {
            sparse_arrays(self.0, csr, ptr.as_mut_ptr(), col.as_mut_ptr(), null_mut(), val.as_mut_ptr())
        })?;
        let narrow = |index: Vec<i64>| index.into_iter().map(|k| Ok(i32::try_from(k)?)).collect::<Result<Vec<_>>>();
        Ok(Rows { ptr: narrow(ptr)?, col: narrow(col)?, val })
    }

    /// Computes format, preconditioner and workspace. Returns the seconds.
    pub(crate) fn factorize(&self) -> Result<f64> {
        let start = Instant::now();
        // SAFETY: a live handle.
        checked(unsafe { sparse_factorize(self.0) })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Replaces the values of the matrix. Returns the seconds.
    fn set_values(&self, values: *const f64) -> Result<f64> {
        let start = Instant::now();
        // SAFETY: a live handle; one value per entry, in host or device memory, as the caller guarantees.
        checked(unsafe { sparse_set_values(self.0, values) })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Solves A x = b. Returns the status and the seconds.
    pub(crate) fn solve(&self, b: *const f64, x: *mut f64) -> Result<(i32, f64)> {
        let start = Instant::now();
        // SAFETY: a live handle; arrays of its rows, in host or device memory, as the caller guarantees.
        let status = checked(unsafe { sparse_solve(self.0, b, x) })?;
        Ok((status, start.elapsed().as_secs_f64()))
    }

    /// Stops solves that take longer than the limit; `None` sets no limit. The limit must outlive its solves.
    pub(crate) fn limit(&self, limit: Option<&Limit>) -> Result<()> {
        let user = limit.map_or(null_mut(), |limit| std::ptr::from_ref(limit).cast_mut().cast());
        // SAFETY: a live handle; the callback reads a `Limit`, which the caller keeps alive.
        checked(unsafe { sparse_set_monitor(self.0, limit.and(Some(late)), user) })?;
        Ok(())
    }

    pub(crate) fn set(&self, options: &str) -> Result<()> {
        let text = CString::new(options).map_err(|_| anyhow!("options have no NUL"))?;
        // SAFETY: a live handle and a NUL-terminated string.
        checked(unsafe { sparse_set_options(self.0, text.as_ptr()) }).with_context(|| options.to_owned())?;
        Ok(())
    }

    pub(crate) fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<f64> {
        self.multiply_at(x.as_ptr(), y.as_mut_ptr())
    }

    /// Computes y = A x with arrays of the handle's rows, in host or device memory. Returns the seconds.
    pub(crate) fn multiply_at(&self, x: *const f64, y: *mut f64) -> Result<f64> {
        let start = Instant::now();
        // SAFETY: a live handle; arrays of its rows, as the caller guarantees.
        checked(unsafe { sparse_multiply(self.0, x, y) })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Runs the following calls on the stream of a queue, which must outlive them, or on the handle's own stream.
    fn on_stream(&self, queue: Option<&Queue>) -> Result<()> {
        // SAFETY: a live handle; NULL, or the stream of a live `Queue`.
        checked(unsafe { sparse_set_stream(self.0, queue.map_or(null_mut(), Queue::pointer)) })?;
        Ok(())
    }

    pub(crate) fn int(&self, key: i32) -> i64 {
        let mut value = 0;
        // SAFETY: a live handle and a valid int64_t.
        unsafe { sparse_get_int(self.0, key, &mut value) };
        value
    }

    pub(crate) fn real(&self, key: i32) -> f64 {
        let mut value = 0.0;
        // SAFETY: a live handle and a valid double.
        unsafe { sparse_get_real(self.0, key, &mut value) };
        value
    }
}

/// Time at which solves stop.
pub(crate) struct Limit(pub(crate) Instant);

/// Monitor that stops a solve after its `Limit`.
unsafe extern "C-unwind" fn late(user: *mut c_void, _: i64, _: f64) -> i32 {
    // SAFETY: `Library::limit` passes a live `Limit`.
    i32::from(Instant::now() > unsafe { &*user.cast::<Limit>() }.0)
}

/// Returns the name of a choice.
pub(crate) fn named(names: &[(&str, i64)], number: i64) -> String {
    names.iter().find(|name| name.1 == number).map_or_else(String::new, |name| name.0.to_owned())
}

/// Input and output of products and solves.
pub(crate) enum Arrays {
    Host([Vec<f64>; 2]),
    Device([DeviceArray; 2]),
}

impl Arrays {
    /// Creates an input with these values and an output.
    pub(crate) fn new(device: Option<usize>, input: &[f64]) -> Result<Self> {
        let Some(ordinal) = device else { return Ok(Self::Host([input.to_vec(), vec![0.0; input.len()]])) };
        let device = Device::new(ordinal)?;
        let mut from = device.zeros(input.len())?;
        from.set(input)?;
        Ok(Self::Device([from, device.zeros(input.len())?]))
    }

    /// Sets the output to zero. Returns the addresses.
    pub(crate) fn cleared(&mut self) -> Result<(*const f64, *mut f64)> {
        Ok(match self {
            Self::Host([from, to]) => {
                to.fill(0.0);
                (from.as_ptr(), to.as_mut_ptr())
            }
            Self::Device([from, to]) => {
                to.clear()?;
                (from.pointer(), to.pointer())
            }
        })
    }
}

/// Measures the products, one format after the other, and then rounds in which the solves with all sets of options run
/// in turn. The first product of a format and the first round are the warm-up.
pub fn measure(plan: &Plan) -> Result<General> {
    let rows = Rows::of_name(&plan.name)?;
    if let Some(path) = &plan.write {
        rows.write(path)?;
    }
    let n = rows.ptr.len() - 1;
    let (ones, mut b) = (vec![1.0; n], vec![0.0; n]);
    let library = Library::new(&rows)?;
    library.set("backend=cpu")?;
    library.multiply(&ones, &mut b)?;
    let (mut products, mut of_products) = (Vec::new(), Arrays::new(plan.device, &ones)?);
    let backend = plan.device.map_or("backend=cpu".to_owned(), |device| format!("backend=cuda device={device}"));
    for format in &plan.formats {
        library.set(&format!("{backend} format={format} check_input=0"))?;
        let (x, y) = of_products.cleared()?;
        library.multiply_at(x, y)?;
        let mut row = ProductRow {
            format: named(Format::NAMES, library.int(info::FORMAT)),
            bytes: Some(library.real(info::BYTES_PER_NONZERO)),
            product: Samples::default(),
            queued: None,
        };
        for _ in 0..10 * plan.repeats {
            row.product.push(library.multiply_at(x, y)?);
        }
        if let Some(ordinal) = plan.device {
            let bytes = library.real(info::BYTES_PER_NONZERO) * rows.val.len() as f64;
            row.queued = Some(queued(&library, &Device::new(ordinal)?, bytes, (x, y), 10 * plan.repeats)?);
        }
        products.push(row);
    }
    let (mut solves, mut of_solves): (Vec<SolveRow>, _) = (Vec::new(), Arrays::new(plan.device, &b)?);
    let columns = plan.by_columns.then(|| rows.by_columns());
    let passed = columns.as_ref().unwrap_or(&rows);
    let mut values = Arrays::new(plan.device, &passed.val)?;
    for round in 0..=plan.repeats {
        for (k, options) in plan.options.iter().enumerate() {
            let start = Instant::now();
            let library = if plan.by_columns { Library::of_columns(passed)? } else { Library::new(passed)? };
            let create = start.elapsed().as_secs_f64();
            library.set(&backend)?;
            library.set(options)?;
            let factorize = library.factorize().with_context(|| options.clone())?;
            let (b, x) = of_solves.cleared()?;
            let (status, solve) = library.solve(b, x)?;
            let (iterations, residual) = (library.int(info::ITERATIONS) as usize, library.real(info::FINAL_RESIDUAL));
            let method = named(Solver::NAMES, library.int(info::SOLVER));
            // The first call of a handle on a device computes the permutation of the values.
            library.set_values(values.cleared()?.0)?;
            let set_values = library.set_values(values.cleared()?.0)?;
            let factorize_again = library.factorize()?;
            if round == 0 {
                solves.push(SolveRow {
                    options: options.clone(),
                    method,
                    iterations,
                    converged: status == 0,
                    residual,
                    create: Samples::default(),
                    factorize: Samples::default(),
                    solve: Samples::default(),
                    set_values: Samples::default(),
                    factorize_again: Samples::default(),
                });
            }
            if round > 0 || plan.repeats == 0 {
                solves[k].create.push(create);
                solves[k].factorize.push(factorize);
                solves[k].solve.push(solve);
                solves[k].set_values.push(set_values);
                solves[k].factorize_again.push(factorize_again);
            }
        }
    }
    let mut run = General { name: plan.name.clone(), rows: n, entries: passed.val.len(), products, solves };
    if !plan.peers.is_empty() {
        run.add_peers(&rows, plan)?;
    }
    Ok(run)
}

/// Measures products behind a copy on the same stream, so that the device does not wait for the host. The copy moves
/// several times the bytes of a product, and the time of the copy alone is subtracted. `check_input` would make the
/// host wait between the check and the product.
fn queued(
    library: &Library,
    device: &Device,
    bytes: f64,
    (x, y): (*const f64, *mut f64),
    repeats: usize,
) -> Result<Samples> {
    let (mut queue, mut samples) = (Queue::new(device, 4.0 * bytes)?, Samples::default());
    library.on_stream(Some(&queue))?;
    library.set("check_input=0")?;
    for round in 0..=repeats {
        let start = Instant::now();
        queue.copy()?;
        queue.wait()?;
        let alone = start.elapsed().as_secs_f64();
        let start = Instant::now();
        queue.copy()?;
        library.multiply_at(x, y)?;
        // The first call creates the product on the stream.
        if round > 0 {
            samples.push(start.elapsed().as_secs_f64() - alone);
        }
    }
    library.set("check_input=1")?;
    library.on_stream(None)?;
    Ok(samples)
}

impl General {
    /// Appends the results of other programs.
    fn add_peers(&mut self, rows: &Rows, plan: &Plan) -> Result<()> {
        let own = std::env::temp_dir().join(format!("rrbsolver-system-{}.bin", std::process::id()));
        let file = plan.write.as_ref().unwrap_or(&own);
        if plan.write.is_none() {
            rows.write(file)?;
        }
        let path = file.to_str().context("a path is not UTF-8")?;
        let run = |words: &[String]| output_of(&words.iter().map(|w| w.replace("{}", path)).collect::<Vec<_>>());
        let outputs: Result<Vec<String>> = plan.peers.iter().map(|(_, words)| run(words)).collect();
        if plan.write.is_none() {
            std::fs::remove_file(file).with_context(|| format!("cannot remove {path}"))?;
        }
        for ((name, _), text) in plan.peers.iter().zip(outputs?) {
            self.add_lines(name, &text, plan.device.is_some()).with_context(|| format!("{name} printed: {text}"))?;
        }
        Ok(())
    }

    /// Appends the results that a program printed: lines `product,FORMAT,SECONDS`, and lines with the nine fields of
    /// `contest::Contender::Program`.
    fn add_lines(&mut self, name: &str, text: &str, queued: bool) -> Result<()> {
        for line in text.lines() {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            match fields[..] {
                ["product", format, seconds] => {
                    let seconds = Samples::new(vec![seconds.parse()?]);
                    let (product, queued) = if queued { (Samples::default(), Some(seconds)) } else { (seconds, None) };
                    self.products.push(ProductRow {
                        format: format!("{name}, {format}"),
                        bytes: None,
                        product,
                        queued,
                    });
                }
                [method, _, _, _, setup, solve, iterations, residual, _] => self.solves.push(SolveRow {
                    options: name.to_owned(),
                    method: method.to_owned(),
                    iterations: iterations.parse()?,
                    converged: true,
                    residual: residual.parse()?,
                    create: Samples::default(),
                    factorize: Samples::new(vec![setup.parse()?]),
                    solve: Samples::new(vec![solve.parse()?]),
                    set_values: Samples::default(),
                    factorize_again: Samples::default(),
                }),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_programs_become_rows() {
        let (name, products, solves) = ("s".to_owned(), Vec::new(), Vec::new());
        let mut run = General { name, rows: 4, entries: 8, products, solves };
        run.add_lines("peer", "a, b\nproduct, csr, 2e-3\ncg,s,4,1,0.5,0.25,7,1e-7,0\n", true).unwrap();
        let (product, solve) = (&run.products[0], &run.solves[0]);
        assert_eq!((product.format.as_str(), product.product.all().len()), ("peer, csr", 0));
        assert_eq!(product.queued.as_ref().unwrap().all(), [2e-3]);
        assert_eq!((solve.options.as_str(), solve.method.as_str(), solve.iterations), ("peer", "cg", 7));
        assert_eq!([solve.factorize.median(), solve.solve.median(), solve.residual], [0.5, 0.25, 1e-7]);
        assert!(run.add_lines("peer", "product,csr,fast", false).is_err());
    }
}
