//! Family `sparse_`: general sparse matrices.
//!
//! A handle is made with its matrix. Pointers are borrowed for the call only; an array without values may be NULL.

mod arrays;
mod handle;

pub use handle::sparse_handle;

use crate::error::{Error, Result};
use crate::ffi::handle::{create, with, with_ok, with_ref};
use crate::ffi::rrb_status;
use crate::options::{Choice, FileFormat};
use crate::sparse::{Order, load, save};
use handle::{Matter, from_arrays, workers};
use libc::{c_char, c_void};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes a handle with a matrix that is given by rows: entries k = row_ptr[i] .. row_ptr[i + 1] - 1 of row i are in
/// column `col[k]` with the value `values[k]`. Pointers and columns are integers of 4 or 8 bytes (`index_bytes`) that
/// count from `base`, 0 or 1. Any order within a row is taken; values given at one place are added, in the order given;
/// zeros stay, as entries of the pattern. 0 rows or columns are legal. All is copied: 12 bytes an entry and 8 a row (16
/// an entry where rows or columns are 2^31 and more), and 8 an entry where the order is another: a megabyte and more of
/// that is sorted by as many threads as `threads = 0` means. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (pointers that
/// do not begin with base, ascend, and end with nnz + base, a column that is not in the matrix, by its place;
/// `index_bytes`, `base`), `RRB_ERR_DIMENSION`, `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`.
///
/// # Safety
/// `row_ptr` must be NULL or hold rows + 1 integers, `col` nnz integers, `values` nnz values; `out` must be NULL or
/// point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_create_csr(
    rows: i64,
    cols: i64,
    nnz: i64,
    row_ptr: *const c_void,
    col: *const c_void,
    values: *const f64,
    index_bytes: i32,
    base: i32,
    out: *mut *mut sparse_handle,
) -> rrb_status {
    let (first, second, order) = (("row_ptr", row_ptr), ("col", col), Order::Rows);
    let matter = Matter { extents: [rows, cols, nnz], order, first, second, values, index_bytes, base };
    // SAFETY: as our caller promised.
    unsafe { create(out, || sparse_handle::of(matter.matrix()?)) }
}

/// The same by columns: entries k = col_ptr[j] .. col_ptr[j + 1] - 1 of column j are in row `row[k]`.
///
/// # Safety
/// As for `sparse_create_csr`, with cols + 1 pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_create_csc(
    rows: i64,
    cols: i64,
    nnz: i64,
    col_ptr: *const c_void,
    row: *const c_void,
    values: *const f64,
    index_bytes: i32,
    base: i32,
    out: *mut *mut sparse_handle,
) -> rrb_status {
    let (first, second, order) = (("col_ptr", col_ptr), ("row", row), Order::Columns);
    let matter = Matter { extents: [rows, cols, nnz], order, first, second, values, index_bytes, base };
    // SAFETY: as our caller promised.
    unsafe { create(out, || sparse_handle::of(matter.matrix()?)) }
}

/// The same by entries, in any order: entry k is in row `row[k]` and column `col[k]`.
///
/// # Safety
/// As for `sparse_create_csr`, with nnz rows and columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_create_coo(
    rows: i64,
    cols: i64,
    nnz: i64,
    row: *const c_void,
    col: *const c_void,
    values: *const f64,
    index_bytes: i32,
    base: i32,
    out: *mut *mut sparse_handle,
) -> rrb_status {
    let (first, second, order) = (("row", row), ("col", col), Order::Coordinates);
    let matter = Matter { extents: [rows, cols, nnz], order, first, second, values, index_bytes, base };
    // SAFETY: as our caller promised.
    unsafe { create(out, || sparse_handle::of(matter.matrix()?)) }
}

/// The same from the arrays of a storage format, `RRB_FORMAT_COO` and so on, as docs/sparse.md lists them and
/// `sparse_arrays` writes them: `sizes` has the lengths of i0, i1, i2 and values; places count from 0. What
/// `sparse_arrays` wrote makes the same matrix again, bit for bit; only zeros of bsr, dia, ell, sell, skyline and
/// diagonal are padding, and are no entries. Errors: as for `sparse_create_csr`; `RRB_ERR_DIMENSION` where lengths do
/// not fit each other.
///
/// # Safety
/// `sizes` must be NULL or hold four integers; the arrays must be NULL or hold that many; `out` must be NULL or point
/// to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_create_from(
    format: i32,
    rows: i64,
    cols: i64,
    sizes: *const i64,
    i0: *const i64,
    i1: *const i64,
    i2: *const i64,
    values: *const f64,
    out: *mut *mut sparse_handle,
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { create(out, || sparse_handle::of(from_arrays(format, [rows, cols], sizes, [i0, i1, i2], values)?)) }
}

/// Makes a handle with the matrix of a file: MatrixMarket (coordinate or array; real, integer or pattern; general,
/// symmetric or skew-symmetric), Harwell-Boeing or Rutherford-Boeing (assembled, real, integer or pattern), as it is or
/// in gz; what it is, its first bytes say. Of a triangle the whole matrix is made. Right-hand sides, guesses and
/// solutions of a Harwell-Boeing file are kept for `sparse_get_vector`; right-hand sides in a Rutherford-Boeing file of
/// their own are a matrix with a column for each. A text of a megabyte and more is read, and its entries sorted, by as
/// many threads as `threads = 0` means. Errors: `RRB_ERR_NULL`, `RRB_ERR_IO`, `RRB_ERR_PARSE`, `RRB_ERR_NOT_FINITE`,
/// `RRB_ERR_UNSUPPORTED` (complex, elemental), `RRB_ERR_MEMORY`; the sentence has the path, the line and the reason.
/// Memory: at most 32 times the text, and 1 MB, and 8 bytes a row.
///
/// # Safety
/// `path` must be NULL or end with NUL; `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_read(path: *const c_char, out: *mut *mut sparse_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { create(out, || sparse_handle::new(load(path_of(&path)?, &mut workers())?)) }
}

/// Writes the matrix to a file: `RRB_FILE_MTX` (MatrixMarket), `RRB_FILE_HB` (Harwell-Boeing) or `RRB_FILE_RB`
/// (Rutherford-Boeing), in gz where the name ends with .gz. Values have the fewest digits that read back to the same
/// bits; a matrix that is symmetric to the last bit is written as its lower triangle. A file of that name is replaced
/// when the new one is whole, and stays as it is where something fails. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT`,
/// `RRB_ERR_IO`, `RRB_ERR_MEMORY`.
///
/// # Safety
/// `h` must be NULL or a handle of this family; `path` must be NULL or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_write(h: *const sparse_handle, path: *const c_char, file_format: i32) -> rrb_status {
    let write = |h: &sparse_handle| {
        let Some(format) = FileFormat::of(file_format.into()) else {
            return Err(Error::range("file_format", file_format, "be RRB_FILE_MTX, RRB_FILE_HB or RRB_FILE_RB"));
        };
        // SAFETY: as our caller promised.
        save(&*h.matrix, unsafe { path_of(&path)? }, format)
    };
    // SAFETY: as our caller promised.
    unsafe { with_ref(h, write) }
}

/// A path, for as long as the pointer to it is there.
///
/// # Safety
/// It must be NULL or end with NUL.
unsafe fn path_of(path: &*const c_char) -> Result<&Path> {
    if path.is_null() {
        return Err(Error::Null("path".into()));
    }
    // SAFETY: not NULL, and as our caller promised.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(*path) }.to_bytes())))
}

/// A vector that came with the matrix in a file: which is `RRB_VECTOR_RHS`, `RRB_VECTOR_GUESS` or
/// `RRB_VECTOR_SOLUTION`, k its number from 0. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (there is none of that
/// number).
///
/// # Safety
/// `h` must be NULL or a handle of this family; `v` must be NULL or have room for as many values as rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_get_vector(h: *const sparse_handle, which: i32, k: i64, v: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ref(h, |h| h.get_vector(which, k, v)) }
}

/// New values of all entries, as many and in the order in which they were given to `sparse_create_csr`,
/// `sparse_create_csc` or `sparse_create_coo`; in the order of csr, `RRB_INFO_NONZEROS` many, where the matrix came
/// from a file or from arrays with padding. The next product makes its format anew. Errors: `RRB_ERR_NULL`,
/// `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY` (values given at one place are added in an array of their own), all with the
/// values as they were.
///
/// # Safety
/// `h` must be NULL or a handle of this family; `values` must be NULL or hold the values named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_set_values(h: *mut sparse_handle, values: *const f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.set_values(values)) }
}

/// The lengths of the arrays of a format for this matrix, `RRB_FORMAT_COO` and so on: of i0, i1, i2 and values. The
/// options `block_size`, `slice` and `sigma` count. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (no such format, or an
/// entry that diagonal does not have, by its place), `RRB_ERR_DIMENSION` (skyline of a rectangle), `RRB_ERR_MEMORY`
/// (above `format_memory`, with the bytes).
///
/// # Safety
/// `h` must be NULL or a handle of this family; `sizes` must be NULL or have room for four integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_sizes(h: *const sparse_handle, format: i32, sizes: *mut i64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ref(h, |h| h.sizes(format, sizes)) }
}

/// The arrays of a format, as docs/sparse.md lists them, with places that count from 0. Errors as for `sparse_sizes`,
/// and `RRB_ERR_ARGUMENT` where arrays overlap.
///
/// # Safety
/// `h` must be NULL or a handle of this family; the arrays must be NULL or have room for the lengths of `sparse_sizes`,
/// with the options as they were then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_arrays(
    h: *const sparse_handle,
    format: i32,
    i0: *mut i64,
    i1: *mut i64,
    i2: *mut i64,
    values: *mut f64,
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ref(h, |h| h.arrays(format, [i0, i1, i2], values)) }
}

/// Checks a square matrix and makes what a solve needs: the format of products, the preconditioner, vectors. What
/// `auto` takes, `RRB_INFO_SOLVER`, `RRB_INFO_PRECONDITIONER` and `RRB_INFO_FORMAT` tell; with `verbosity=1` a line
/// does. A second call, as after `sparse_set_values`, reuses memory. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION` (a
/// rectangle, no rows), `RRB_ERR_MATRIX` (an empty row or column; a matrix that is not symmetric where `solver` or
/// `preconditioner` needs it, with an entry; a row without diagonal where they divide by it; a pivot of ic0 with a
/// given `shift`, or of ilu0), `RRB_ERR_UNSUPPORTED` (methods that take no such preconditioner: amg goes with cg),
/// `RRB_ERR_ARGUMENT` (an entry that diagonal does not have; `sor_omega=2`), `RRB_ERR_MEMORY`. Cost: a few products,
/// and the factorization of ic0 or ilu0. Source: docs/sparse.md.
///
/// # Safety
/// `h` must be NULL or a handle of this family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_factorize(h: *mut sparse_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.factorize()) }
}

/// Solves A x = b by the method of `sparse_factorize`. `x` is the initial guess on entry and the solution on return;
/// `b` is not written; both have as many values as rows. Stops when norm(b - A x) <= max(rel_tol * reference, abs_tol)
/// in the 2-norm, of a residual that is computed from x, not recurred. b = 0 gives x = 0 at once. Returns `RRB_OK`,
/// `RRB_NOT_CONVERGED` (`RRB_INFO_STOP_REASON`: max_iter, stagnated, or diverged with x as given), `RRB_STOPPED`;
/// errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of 8 bytes), `RRB_ERR_STATE`,
/// `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too small), `RRB_ERR_BREAKDOWN` (cg
/// of an indefinite matrix), all with x as given. Takes no memory, starts no thread. Source: docs/sparse.md.
///
/// # Safety
/// `h` must be NULL or a handle of this family; the arrays must be NULL or hold as many values as rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_solve(h: *mut sparse_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with(h, |h| h.solve(b, x)) }
}

/// z = M^-1 r with the preconditioner of `sparse_factorize`, for a foreign Krylov loop; that of amg changes with r:
/// take a flexible method. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (as for `sparse_solve`), `RRB_ERR_STATE`,
/// `RRB_ERR_UNSUPPORTED` (a `solver` that sweeps), `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a double).
///
/// # Safety
/// As for `sparse_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_apply(h: *mut sparse_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.apply(r, z)) }
}

/// y = A x, with x of as many values as columns and y of as many as rows, by the threads of `threads` (coo, jds, tjds
/// and skyline: by one). The first product, and the first after new values or another `format`, makes the format;
/// `sparse_factorize` does, too. x must not overlap y. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an entry
/// that diagonal does not have), `RRB_ERR_DIMENSION` (skyline of a rectangle), `RRB_ERR_NOT_FINITE` (x, with
/// `check_input`), `RRB_ERR_MEMORY`, all with y as it was. Cost: what `RRB_INFO_BYTES_PER_NONZERO` tells of memory
/// traffic, 2 flops a stored value.
///
/// # Safety
/// `h` must be NULL or a handle of this family; the arrays must be NULL or hold the values named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_multiply(h: *mut sparse_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.multiply(x, y, false)) }
}

/// y = A' x, with x of as many values as rows and y of as many as columns; else as `sparse_multiply`. Beside it up to
/// 64 bytes a column, kept (docs/sparse.md).
///
/// # Safety
/// As for `sparse_multiply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_multiply_transposed(h: *mut sparse_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.multiply(x, y, true)) }
}
