//! Safe wrappers of the family `sparse_` for tests.

use super::{Failure, outcome};
pub use rrbsolver::abi::sparse_handle as Handle;
pub use rrbsolver::abi::{
    sparse_apply, sparse_arrays, sparse_create_coo, sparse_create_csc, sparse_create_csr, sparse_create_from,
    sparse_destroy, sparse_factorize, sparse_get_history, sparse_get_int, sparse_get_real, sparse_get_vector,
    sparse_multiply, sparse_multiply_transposed, sparse_read, sparse_set_int, sparse_set_monitor, sparse_set_options,
    sparse_set_real, sparse_set_stream, sparse_set_values, sparse_sizes, sparse_solve, sparse_write,
};
pub use rrbsolver_problems::two_phase::SplitMix;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// Key numbers, repeated here so that a changed number fails a test.
pub mod key {
    pub const FORMAT: i32 = 502;
    pub const BLOCK_SIZE: i32 = 506;
    pub const SLICE: i32 = 507;
    pub const SIGMA: i32 = 508;
    pub const FORMAT_MEMORY: i32 = 516;
    pub const ITERATIONS: i32 = 1000;
    pub const STOP_REASON: i32 = 1001;
    pub const INITIAL_RESIDUAL: i32 = 1002;
    pub const FINAL_RESIDUAL: i32 = 1003;
    pub const INFO_PRECISION: i32 = 1101;
    pub const PRECONDITIONER: i32 = 1300;
    pub const INFO_SOLVER: i32 = 1405;
    pub const DOMINANCE: i32 = 1408;
    pub const TRIANGLE: i32 = 1418;
    pub const AGGREGATES_KEPT: i32 = 1108;
    pub const COLOURS: i32 = 1412;
    pub const SWEEP_LEVELS: i32 = 1413;
    pub const INFO_SHIFT: i32 = 1414;
    pub const ROWS: i32 = 1400;
    pub const COLS: i32 = 1401;
    pub const NONZEROS: i32 = 1402;
    pub const STORED: i32 = 1403;
    pub const INFO_FORMAT: i32 = 1404;
    pub const SYMMETRIC: i32 = 1407;
    pub const ZERO_DIAGONALS: i32 = 1409;
    pub const EMPTY_ROWS: i32 = 1410;
    pub const DUPLICATES: i32 = 1411;
    pub const BYTES_PER_NONZERO: i32 = 1415;
    pub const LONGEST_ROW: i32 = 1416;
    pub const FILE_RHS: i32 = 1417;
}

/// Formats by name and number: those of the thesis, and sell.
pub const FORMATS: [(&str, i32); 11] = [
    ("coo", 1),
    ("csr", 2),
    ("csc", 3),
    ("bsr", 4),
    ("dia", 5),
    ("ell", 6),
    ("sell", 7),
    ("jds", 8),
    ("tjds", 9),
    ("skyline", 10),
    ("diagonal", 11),
];
pub const COO: i32 = 1;
pub const CSR: i32 = 2;

/// File formats by name and number.
pub const FILES: [(&str, i32); 3] = [("mtx", 0), ("hb", 1), ("rb", 2)];

/// The arrays of a storage format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    pub places: [Vec<i64>; 3],
    pub values: Vec<f64>,
}

impl Arrays {
    pub fn new(i0: &[i64], i1: &[i64], i2: &[i64], values: &[f64]) -> Arrays {
        Arrays { places: [i0.to_vec(), i1.to_vec(), i2.to_vec()], values: values.to_vec() }
    }

    /// Returns whether both are bitwise identical.
    pub fn same_bits(&self, other: &Arrays) -> bool {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        self.places == other.places && bits(&self.values) == bits(&other.values)
    }
}

/// Entries in any order, with duplicates: the input of a matrix, and reference products.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    pub rows: usize,
    pub cols: usize,
    pub entries: Vec<(usize, usize, f64)>,
}

impl Entries {
    pub fn new(rows: usize, cols: usize, entries: &[(usize, usize, f64)]) -> Entries {
        Entries { rows, cols, entries: entries.to_vec() }
    }

    /// Returns `count` entries at random positions; some positions occur twice.
    pub fn random(rows: usize, cols: usize, count: usize, seed: u64) -> Entries {
        let mut random = SplitMix(seed);
        let mut below = |n: usize| ((random.unit() * n as f64) as usize).min(n - 1);
        let mut all: Vec<(usize, usize, f64)> = Vec::new();
        for k in 0..if rows * cols > 0 { count } else { 0 } {
            let value = 2.0 * (below(1 << 30) as f64 / f64::from(1 << 30)) - 0.9999;
            all.push((below(rows), below(cols), if k % 7 == 3 { value * 1e-9 } else { value }));
        }
        Entries { rows, cols, entries: all }
    }

    /// Returns y_i = sum_j a_ij x_j and sum_j |a_ij x_j| of each row i of A x, or of A' x.
    pub fn product(&self, x: &[f64], transposed: bool) -> Vec<(f64, f64)> {
        let mut y = vec![(0.0, 0.0); if transposed { self.cols } else { self.rows }];
        for &(i, j, a) in &self.entries {
            let (to, from) = if transposed { (j, i) } else { (i, j) };
            y[to] = (y[to].0 + a * x[from], y[to].1 + (a * x[from]).abs());
        }
        y
    }

    pub fn solver(&self) -> Solver {
        let row: Vec<i32> = self.entries.iter().map(|e| e.0 as i32).collect();
        let col: Vec<i32> = self.entries.iter().map(|e| e.1 as i32).collect();
        let values: Vec<f64> = self.entries.iter().map(|e| e.2).collect();
        Solver::coo(self.rows as i64, self.cols as i64, &row, &col, &values, 0).expect("create")
    }
}

/// A handle of the family `sparse_`.
#[derive(Debug)]
pub struct Solver {
    pub handle: *mut Handle,
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the handle came from a create function and is destroyed once.
        assert_eq!(unsafe { sparse_destroy(&mut self.handle) }, 0);
        assert!(self.handle.is_null());
    }
}

/// Converts a path to a C string.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path")
}

impl Solver {
    pub fn made(make: impl FnOnce(*mut *mut Handle) -> i32) -> Result<Solver, Failure> {
        let mut handle = null_mut();
        outcome(make(&mut handle))?;
        Ok(Solver { handle })
    }

    pub fn coo(rows: i64, cols: i64, row: &[i32], col: &[i32], values: &[f64], base: i32) -> Result<Solver, Failure> {
        let (i, j, a) = (row.as_ptr().cast(), col.as_ptr().cast(), values.as_ptr());
        // SAFETY: arrays of the length passed.
        Self::made(|out| unsafe { sparse_create_coo(rows, cols, values.len() as i64, i, j, a, 4, base, out) })
    }

    pub fn csr(rows: i64, cols: i64, ptr: &[i32], col: &[i32], values: &[f64], base: i32) -> Result<Solver, Failure> {
        assert_eq!(ptr.len() as i64, rows + 1);
        let (i, j, a) = (ptr.as_ptr().cast(), col.as_ptr().cast(), values.as_ptr());
        // SAFETY: arrays of the lengths passed.
        Self::made(|out| unsafe { sparse_create_csr(rows, cols, values.len() as i64, i, j, a, 4, base, out) })
    }

    pub fn csc(rows: i64, cols: i64, ptr: &[i64], row: &[i64], values: &[f64], base: i32) -> Result<Solver, Failure> {
        assert_eq!(ptr.len() as i64, cols + 1);
        let (i, j, a) = (ptr.as_ptr().cast(), row.as_ptr().cast(), values.as_ptr());
        // SAFETY: arrays of the lengths passed.
        Self::made(|out| unsafe { sparse_create_csc(rows, cols, values.len() as i64, i, j, a, 8, base, out) })
    }

    pub fn from(format: i32, rows: usize, cols: usize, arrays: &Arrays) -> Result<Solver, Failure> {
        let [i0, i1, i2] = &arrays.places;
        let sizes = [i0.len(), i1.len(), i2.len(), arrays.values.len()].map(|len| len as i64);
        let [i0, i1, i2] = [i0, i1, i2].map(|places| places.as_ptr());
        let (values, rows, cols) = (arrays.values.as_ptr(), rows as i64, cols as i64);
        // SAFETY: arrays of the lengths in `sizes`.
        Self::made(|out| unsafe { sparse_create_from(format, rows, cols, sizes.as_ptr(), i0, i1, i2, values, out) })
    }

    pub fn read(path: &Path) -> Result<Solver, Failure> {
        let path = c_path(path);
        // SAFETY: a NUL-terminated string.
        Self::made(|out| unsafe { sparse_read(path.as_ptr(), out) })
    }

    pub fn write(&self, path: &Path, file_format: i32) -> Result<i32, Failure> {
        // SAFETY: a live handle and a NUL-terminated string.
        outcome(unsafe { sparse_write(self.handle, c_path(path).as_ptr(), file_format) })
    }

    pub fn options(&self, text: &str) -> Result<i32, Failure> {
        let text = CString::new(text).expect("no NUL in options");
        // SAFETY: a live handle and a NUL-terminated string.
        outcome(unsafe { sparse_set_options(self.handle, text.as_ptr()) })
    }

    pub fn sizes(&self, format: i32) -> Result<[usize; 4], Failure> {
        let mut sizes = [-1i64; 4];
        // SAFETY: a live handle; the array has room for four values.
        outcome(unsafe { sparse_sizes(self.handle, format, sizes.as_mut_ptr()) })?;
        Ok(sizes.map(|size| size as usize))
    }

    pub fn arrays(&self, format: i32) -> Result<Arrays, Failure> {
        let [a, b, c, d] = self.sizes(format)?;
        let mut arrays = Arrays { places: [vec![-7; a], vec![-7; b], vec![-7; c]], values: vec![f64::NAN; d] };
        let [i0, i1, i2] = arrays.places.each_mut().map(|places| places.as_mut_ptr());
        // SAFETY: a live handle; arrays of the lengths that it reported.
        outcome(unsafe { sparse_arrays(self.handle, format, i0, i1, i2, arrays.values.as_mut_ptr()) })?;
        Ok(arrays)
    }

    pub fn set_values(&self, values: &[f64]) -> Result<i32, Failure> {
        // SAFETY: a live handle; the callers pass as many values as the matrix was created with.
        outcome(unsafe { sparse_set_values(self.handle, values.as_ptr()) })
    }

    /// Computes y = A x, or y = A' x.
    pub fn product(&self, x: &[f64], transposed: bool) -> Result<Vec<f64>, Failure> {
        let (rows, cols) = (self.int(key::ROWS) as usize, self.int(key::COLS) as usize);
        assert_eq!(x.len(), if transposed { rows } else { cols });
        let mut y = vec![f64::NAN; if transposed { cols } else { rows }];
        let multiply = if transposed { sparse_multiply_transposed } else { sparse_multiply };
        // SAFETY: a live handle; arrays of its extents.
        outcome(unsafe { multiply(self.handle, x.as_ptr(), y.as_mut_ptr()) })?;
        Ok(y)
    }

    pub fn factorize(&self) -> Result<i32, Failure> {
        // SAFETY: a live handle.
        outcome(unsafe { sparse_factorize(self.handle) })
    }

    /// Solves A x = b; x is the initial guess and becomes the solution.
    pub fn solve(&self, b: &[f64], x: &mut [f64]) -> Result<i32, Failure> {
        let rows = self.int(key::ROWS) as usize;
        assert!(b.len() == rows && x.len() == rows);
        // SAFETY: a live handle; arrays of its rows.
        outcome(unsafe { sparse_solve(self.handle, b.as_ptr(), x.as_mut_ptr()) })
    }

    /// Computes z = M^-1 r.
    pub fn apply(&self, r: &[f64]) -> Result<Vec<f64>, Failure> {
        assert_eq!(r.len() as i64, self.int(key::ROWS));
        let mut z = vec![f64::NAN; r.len()];
        // SAFETY: a live handle; arrays of its rows.
        outcome(unsafe { sparse_apply(self.handle, r.as_ptr(), z.as_mut_ptr()) })?;
        Ok(z)
    }

    pub fn vector(&self, which: i32, k: i64) -> Result<Vec<f64>, Failure> {
        let mut v = vec![f64::NAN; self.int(key::ROWS) as usize];
        // SAFETY: a live handle; the array has one value per row.
        outcome(unsafe { sparse_get_vector(self.handle, which, k, v.as_mut_ptr()) })?;
        Ok(v)
    }

    /// Returns the number of residuals in the history of the last solve.
    pub fn history_length(&self) -> i64 {
        let mut count = -1;
        // SAFETY: a live handle, no buffer with no capacity.
        outcome(unsafe { sparse_get_history(self.handle, null_mut(), 0, &mut count) }).expect("get_history");
        count
    }

    #[track_caller]
    pub fn int(&self, key: i32) -> i64 {
        let mut value = i64::MIN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { sparse_get_int(self.handle, key, &mut value) }).expect("get_int");
        value
    }

    #[track_caller]
    pub fn real(&self, key: i32) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { sparse_get_real(self.handle, key, &mut value) }).expect("get_real");
        value
    }
}

/// A folder for the files of one test, which is deleted when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("rrbsolver-sparse-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Creates a file with this text in the folder.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the folder with the matrices of the tests.
pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sparse/data")
}
