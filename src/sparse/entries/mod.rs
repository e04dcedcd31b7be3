//! Family `sparse_`: general sparse matrices.
//!
//! A handle is created with its matrix. Pointers are borrowed only for the duration of the call; an array of length 0
//! may be NULL.

mod arrays;
mod handle;

pub use handle::sparse_handle;

use crate::abi::handle::{Handle, create, with_handle_ref};
use crate::abi::rrb_status;
use crate::error::{Error, Result};
use crate::files::save;
use crate::options::{Choice, FileFormat};
use crate::sparse::EntryLayout;
use handle::{MatrixArguments, from_arrays, handle_from_file, handle_with_matrix};
use libc::{c_char, c_void};
use std::ffi::CStr;

/// Creates a handle with a matrix in compressed sparse row (CSR) form.
///
/// Row i has the entries k = row_ptr[i] .. row_ptr[i + 1] - 1, with the columns `col[k]` and the values `values[k]`.
/// The columns of a row may have any order. The call adds up values with the same row and column in the order of the
/// arrays.
///
/// Explicit zeros are entries of the sparsity pattern. The call copies all arrays.
///
/// # Parameters
/// - `rows`, `cols` (in): number of rows and columns, at least 0. `sparse_factorize` needs a square matrix.
/// - `nnz` (in): number of entries in the arrays, at least 0.
/// - `row_ptr` (in): array of rows + 1 nondecreasing integers. The first integer is `base`; the last is nnz + `base`.
/// - `col` (in): column of each entry, nnz integers in [base, base + cols - 1].
/// - `values` (in): value of each entry, nnz finite numbers.
/// - `index_bytes` (in): size in bytes of an integer in `row_ptr` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
/// - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
/// - `out` (out): the new handle; unchanged after an error.
///
/// Arrays must be in host memory. An array of length 0 may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
/// - `RRB_ERR_ARGUMENT`: `row_ptr` decreases, does not start with `base`, or does not end with nnz + `base`.
/// - `RRB_ERR_ARGUMENT`: a column is out of range. The message names the entry.
/// - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
/// - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
/// - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
///
/// # Notes
/// - Pass both triangles of a symmetric matrix. If you pass only one triangle, the library solves the system with this
///   triangular matrix, and a log line warns about the missing triangle.
/// - The matrix needs 12 bytes per entry and 8 bytes per row. With 2^31 or more rows or columns, the matrix needs 16
///   bytes instead of 12 bytes per entry. If there are unsorted or repeated entries, the matrix needs 8 additional
///   bytes per entry.
/// - The call copies or sorts a large matrix in parallel with the default number of threads.
/// - The `sparse_` functions run in one process. They do not distribute a matrix over MPI ranks.
///
/// # Fortran
/// `call solver%create(rows, cols, row_ptr, col, values [, base] [, stat] [, errmsg])`
///
/// The variable is `type(sparse_solver) :: solver`. The default of `base` is 1. Pass `stat` by keyword.
///
/// # C++
/// `static sparse rrbsolver::sparse::csr(std::int64_t rows, std::int64_t cols, const Pointers& row_ptr, const Columns&
/// col, input values, std::int32_t base = 0)`
///
/// # Example
/// ```c
/// // [ 4 -1  0 ]
/// // [-1  4 -1 ]
/// // [ 0 -1  4 ]
/// const int32_t row_ptr[] = {0, 2, 5, 7};
/// const int32_t col[] = {0, 1, 0, 1, 2, 1, 2};
/// const double values[] = {4, -1, -1, 4, -1, -1, 4};
/// sparse_handle *matrix = NULL;
/// status = sparse_create_csr(3, 3, 7, row_ptr, col, values, sizeof col[0], 0, &matrix);
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `row_ptr` must be NULL or hold rows + 1 integers. `col` and `values` must be NULL or hold nnz elements. `out` must
/// be NULL or point to a pointer.
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
    let (first_array, second_array, layout) = (("row_ptr", row_ptr), ("col", col), EntryLayout::Rows);
    let arguments =
        MatrixArguments { extents: [rows, cols, nnz], layout, first_array, second_array, values, index_bytes, base };
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || handle_with_matrix(arguments.matrix()?)) }
}

/// Creates a handle with a matrix in compressed sparse column (CSC) form.
///
/// Column j has the entries k = col_ptr[j] .. col_ptr[j + 1] - 1, with the rows `row[k]` and the values `values[k]`.
/// The rows of a column may have any order. The call adds up values with the same row and column in the order of the
/// arrays. Explicit zeros are entries of the sparsity pattern.
///
/// # Parameters
/// - `rows`, `cols` (in): number of rows and columns, at least 0.
/// - `nnz` (in): number of entries in the arrays, at least 0.
/// - `col_ptr` (in): array of cols + 1 nondecreasing integers. The first integer is `base`; the last is nnz + `base`.
/// - `row` (in): row of each entry, nnz integers in [base, base + rows - 1].
/// - `values` (in): value of each entry, nnz finite numbers.
/// - `index_bytes` (in): size in bytes of an integer in `col_ptr` and `row`: 4 (`int32_t`) or 8 (`int64_t`).
/// - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
/// - `out` (out): the new handle; unchanged after an error.
///
/// Arrays must be in host memory. An array of length 0 may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
/// - `RRB_ERR_ARGUMENT`: `col_ptr` decreases, does not start with `base`, or does not end with nnz + `base`.
/// - `RRB_ERR_ARGUMENT`: a row is out of range. The message names the entry.
/// - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
/// - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
/// - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
///
/// # Notes
/// The handle stores the matrix by rows and needs as much memory for it as after `sparse_create_csr`. The handle also
/// stores the original order of the entries for `sparse_set_values`. This order needs 8 bytes per entry.
///
/// # Fortran
/// `call solver%create_csc(rows, cols, col_ptr, row, values [, base] [, stat] [, errmsg])`
///
/// The default of `base` is 1. Pass `stat` by keyword.
///
/// # C++
/// `static sparse rrbsolver::sparse::csc(std::int64_t rows, std::int64_t cols, const Pointers& col_ptr, const Rows&
/// row, input values, std::int32_t base = 0)`
///
/// # Example
/// ```c
/// // [ 4 -1 ]
/// // [ 0  3 ]
/// const int64_t col_ptr[] = {0, 1, 3};
/// const int64_t row[] = {0, 0, 1};
/// const double values[] = {4, -1, 3};
/// sparse_handle *matrix = NULL;
/// status = sparse_create_csc(2, 2, 3, col_ptr, row, values, sizeof row[0], 0, &matrix);
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `col_ptr` must be NULL or hold cols + 1 integers. `row` and `values` must be NULL or hold nnz elements. `out` must
/// be NULL or point to a pointer.
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
    let (first_array, second_array, layout) = (("col_ptr", col_ptr), ("row", row), EntryLayout::Columns);
    let arguments =
        MatrixArguments { extents: [rows, cols, nnz], layout, first_array, second_array, values, index_bytes, base };
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || handle_with_matrix(arguments.matrix()?)) }
}

/// Creates a handle with a matrix in coordinate (COO) form: one row, column and value per entry, in any order.
///
/// Entry k has the row `row[k]`, the column `col[k]` and the value `values[k]`. The call adds up values with the same
/// row and column. The arrays can therefore contain the entries of finite-element matrices one after the other.
/// Explicit zeros are entries of the sparsity pattern.
///
/// # Parameters
/// - `rows`, `cols` (in): number of rows and columns, at least 0.
/// - `nnz` (in): number of entries in the arrays, at least 0.
/// - `row` (in): row of each entry, nnz integers in [base, base + rows - 1].
/// - `col` (in): column of each entry, nnz integers in [base, base + cols - 1].
/// - `values` (in): value of each entry, nnz finite numbers.
/// - `index_bytes` (in): size in bytes of an integer in `row` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
/// - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
/// - `out` (out): the new handle; unchanged after an error.
///
/// Arrays must be in host memory. An array of length 0 may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
/// - `RRB_ERR_ARGUMENT`: a row or column is out of range. The message names the entry.
/// - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
/// - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
/// - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
///
/// # Notes
/// The matrix needs as much memory as after `sparse_create_csr`. `RRB_INFO_DUPLICATES` is the number of repeated
/// entries.
///
/// # Fortran
/// `call solver%create_coo(rows, cols, row, col, values [, base] [, stat] [, errmsg])`
///
/// The default of `base` is 1. Pass `stat` by keyword.
///
/// # C++
/// `static sparse rrbsolver::sparse::coo(std::int64_t rows, std::int64_t cols, const Rows& row, const Columns& col,
/// input values, std::int32_t base = 0)`
///
/// # Example
/// ```c
/// // Two elements [1 -1; -1 1] that share node 1: the entries of (1, 1) are added.
/// const int32_t row[] = {0, 0, 1, 1, 1, 1, 2, 2};
/// const int32_t col[] = {0, 1, 0, 1, 1, 2, 1, 2};
/// const double values[] = {1, -1, -1, 1, 1, -1, -1, 1};
/// sparse_handle *matrix = NULL;
/// status = sparse_create_coo(3, 3, 8, row, col, values, sizeof row[0], 0, &matrix);
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `row`, `col` and `values` must each be NULL or hold nnz elements. `out` must be NULL or point to a pointer.
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
    let (first_array, second_array, layout) = (("row", row), ("col", col), EntryLayout::Coordinates);
    let arguments =
        MatrixArguments { extents: [rows, cols, nnz], layout, first_array, second_array, values, index_bytes, base };
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || handle_with_matrix(arguments.matrix()?)) }
}

/// Creates a handle from the arrays of a storage format, for example from the arrays that `sparse_arrays` writes.
///
/// If the arrays come from `sparse_arrays`, the new matrix is bitwise identical to the original matrix, with one
/// exception. In the formats bsr, dia, ell, sell, skyline and diagonal, the call treats all zeros as padding and does
/// not store them.
///
/// # Parameters
/// - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
/// - `rows`, `cols` (in): number of rows and columns, at least 0.
/// - `sizes` (in): array of four integers, the lengths of `i0`, `i1`, `i2` and `values`.
/// - `i0`, `i1`, `i2` (in): index arrays of the format; the table below states their contents. Indices count from 0.
/// - `values` (in): array of the values, which must be finite.
/// - `out` (out): the new handle; unchanged after an error.
///
/// Arrays must be in host memory. An array of length 0 may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` or `sizes` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
/// - `RRB_ERR_ARGUMENT`: a row pointer, a column pointer, an index or a permutation is not valid.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is in device memory.
/// - `RRB_ERR_DIMENSION`: `rows`, `cols` or an entry of `sizes` is negative, or is 2^60 or more.
/// - `RRB_ERR_DIMENSION`: the lengths of the arrays do not match the format and the size of the matrix.
/// - `RRB_ERR_NOT_FINITE`: a value is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
///
/// # Notes
/// | format | i0 | i1 | i2 |
/// |---|---|---|---|
/// | coo | rows | columns | |
/// | csr | row pointers | columns | |
/// | csc | column pointers | rows | |
/// | bsr | pointers of block rows | block columns | |
/// | dia | offsets (column minus row) of the diagonals | | |
/// | ell | columns of the first entry of all rows, then of the second entry, and so on | | |
/// | sell | permutation of rows | starts of slices | columns |
/// | jds | permutation of rows | starts of jagged diagonals | columns |
/// | tjds | permutation of columns | starts of jagged diagonals | rows |
/// | skyline | row pointers of the lower triangle | column pointers of the strict upper triangle, or empty | |
/// | diagonal | | | |
///
/// In the format skyline, an empty array `i1` means that the matrix is symmetric.
///
/// # Fortran
/// `call solver%create_from(format, rows, cols, i0, i1, i2, values [, stat] [, errmsg])`
///
/// # C++
/// `static sparse rrbsolver::sparse::from(std::int32_t format, std::int64_t rows, std::int64_t cols, const
/// format_arrays& a)`
///
/// # Example
/// ```c
/// // ELLPACK, 2 slots of 3 rows; the second slot of row 2 is padding.
/// const int64_t sizes[4] = {6, 0, 0, 6};
/// const int64_t columns[] = {0, 1, 2, 1, 2, 2};
/// const double values[] = {4, 4, 4, -1, -1, 0};
/// sparse_handle *matrix = NULL;
/// status = sparse_create_from(RRB_FORMAT_ELL, 3, 3, sizes, columns, NULL, NULL, values, &matrix);
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `sizes` must be NULL or hold four integers. Each array must be NULL or have the length given in `sizes`. `out` must
/// be NULL or point to a pointer.
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
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || handle_with_matrix(from_arrays(format, [rows, cols], sizes, [i0, i1, i2], values)?)) }
}

/// Creates a handle with the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, which may be
/// compressed with gzip.
///
/// The call detects the format from the content of the file, not from its name. If the file stores one triangle of a
/// symmetric or skew-symmetric matrix, the call creates the whole matrix. `sparse_get_vector` returns the right-hand
/// sides, initial guesses and solutions of a Harwell-Boeing file.
///
/// # Parameters
/// - `path` (in): name of the file, a text that ends with NUL.
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `path` or `out` is NULL.
/// - `RRB_ERR_IO`: the file cannot be opened or read.
/// - `RRB_ERR_PARSE`: the file is not a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, or the content of the
///   file is not valid. The message contains the path, the line and the reason.
/// - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN, infinite or too
///   large for a double.
/// - `RRB_ERR_UNSUPPORTED`: the matrix is complex, Hermitian or elemental, or the values of the matrix are in another
///   file.
/// - `RRB_ERR_UNSUPPORTED`: the file is a supplementary Rutherford-Boeing file without assembled right-hand sides.
/// - `RRB_ERR_DIMENSION`: the number of rows, columns or entries of the matrix is out of range.
/// - `RRB_ERR_MEMORY`: an allocation failed, possibly the allocation for the message of another error. After this
///   error, the call has freed all memory that it allocated.
///
/// # Notes
/// - The format of a MatrixMarket file may be coordinate or array. The values may be of the kind real, integer or
///   pattern; with pattern, all values are 1. The symmetry may be general, symmetric or skew-symmetric.
/// - The matrix of a Harwell-Boeing or Rutherford-Boeing file must be assembled. The values may be of the kind real,
///   integer or pattern.
/// - A wrong number of right-hand-side cards in the header of a Harwell-Boeing file is not an error. In this case, a
///   log line warns about the wrong number.
/// - The call reads a supplementary Rutherford-Boeing file with right-hand sides as a matrix with one column per
///   right-hand side.
/// - A gzip file may consist of several gzip members.
/// - The call reads a file of more than 1 MB with the default number of threads. With `RRBSOLVER_NUM_THREADS=1`, the
///   call starts no threads.
/// - The call needs at most 32 times the memory of the uncompressed text, plus 1 MB, plus 8 bytes per row.
///
/// # Fortran
/// `call solver%read(path [, stat] [, errmsg])`
///
/// # C++
/// `static sparse rrbsolver::sparse::read(const std::string& path)`
///
/// # Example
/// ```c
/// FILE *file = fopen("diagonal.mtx", "w");
/// fputs("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 4.0\n2 2 5.0\n", file);
/// fclose(file);
/// sparse_handle *matrix = NULL;
/// status = sparse_read("diagonal.mtx", &matrix);
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `path` must be NULL or end with NUL. `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_read(path: *const c_char, out: *mut *mut sparse_handle) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || handle_from_file(path_of(&path)?)) }
}

/// Writes the matrix to a file, and compresses this file with gzip if its name ends with .gz.
///
/// The call writes each value with the fewest digits that reproduce the double exactly. If the matrix is exactly
/// symmetric, the call writes only its lower triangle. The call replaces an existing file only when the new file is
/// complete. After an error, the existing file is unchanged.
///
/// # Parameters
/// - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
/// - `path` (in): name of the file, a text that ends with NUL.
/// - `file_format` (in): `RRB_FILE_MTX` (MatrixMarket), `RRB_FILE_HB` (Harwell-Boeing) or `RRB_FILE_RB`
///   (Rutherford-Boeing).
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or `path` is NULL.
/// - `RRB_ERR_ARGUMENT`: `file_format` is not one of these constants.
/// - `RRB_ERR_IO`: the file cannot be created or written.
/// - `RRB_ERR_MEMORY`: an allocation failed, possibly the allocation for the message of another error. The handle is
///   unchanged, and no incomplete file remains.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
///
/// # Notes
/// - The call writes the data to a new file in the same folder and then renames this file. If the new file replaces an
///   existing file, the new file has the permissions of the existing file.
/// - If the path is a symbolic link, the call replaces the target of the link. If the path is a pipe or a device, the
///   call writes directly to this path.
/// - The call needs 0.1 MB of memory for buffers, and 0.5 MB more if it compresses the file. If the matrix is not
///   symmetric, the formats `RRB_FILE_HB` and `RRB_FILE_RB` also need a copy of the matrix that is stored by columns.
///
/// # Fortran
/// `call solver%write(path, file_format [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::write(const std::string& path, std::int32_t file_format) const`
///
/// # Example
/// ```c
/// status = sparse_write(solver, "matrix.mtx.gz", RRB_FILE_MTX);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. `path` must be NULL or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_write(h: *const sparse_handle, path: *const c_char, file_format: i32) -> rrb_status {
    let write = |h: &Handle<sparse_handle>| {
        let Some(format) = FileFormat::of(file_format.into()) else {
            return Err(Error::range("file_format", file_format, "be RRB_FILE_MTX, RRB_FILE_HB or RRB_FILE_RB"));
        };
        // SAFETY: guaranteed by the caller.
        save(&*h.family_parts.matrix, unsafe { path_of(&path)? }, format)
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ref(h, write) }
}

/// Returns the path that the caller passed.
///
/// # Safety
/// `path` must be NULL or point to a NUL-terminated string.
unsafe fn path_of(path: &*const c_char) -> Result<&CStr> {
    if path.is_null() {
        return Err(Error::Null("path".into()));
    }
    // SAFETY: not NULL, as checked; the caller guarantees a NUL-terminated string.
    Ok(unsafe { CStr::from_ptr(*path) })
}

/// Copies a right-hand side, initial guess or solution from the Harwell-Boeing file of the matrix.
///
/// # Parameters
/// - `h` (in): handle from `sparse_read`.
/// - `which` (in): kind of the vector: `RRB_VECTOR_RHS`, `RRB_VECTOR_GUESS` or `RRB_VECTOR_SOLUTION`.
/// - `k` (in): number of the vector, counted from 0.
/// - `v` (out): array for the vector, with as many values as the matrix has rows, in host memory.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or `v` is NULL.
/// - `RRB_ERR_ARGUMENT`: `which` is not one of these constants, or the file has no vector of this kind with the number
///   `k`.
/// - `RRB_ERR_ARGUMENT`: `v` is not 8-byte aligned, or is in device memory.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate `v`.
///
/// # Notes
/// `RRB_INFO_FILE_RHS` is the number of right-hand sides. If the file contains guesses, it contains one guess per
/// right-hand side. If the file contains solutions, it contains one solution per right-hand side.
///
/// # Fortran
/// `call solver%get_vector(which, k, v [, stat] [, errmsg])`
///
/// In Fortran, the number `k` counts from 1.
///
/// # C++
/// `std::vector<double> rrbsolver::sparse::vector(std::int32_t which, std::int64_t k = 0) const`
///
/// # Example
/// ```c
/// int64_t count = 0;
/// status = sparse_get_int(solver, RRB_INFO_FILE_RHS, &count);
/// if (status == RRB_OK && count > 0) { // 0 for a matrix that is not from a file
///     status = sparse_get_vector(solver, RRB_VECTOR_RHS, 0, b);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. `v` must be NULL or have room for as many values as the
/// matrix has rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_get_vector(h: *const sparse_handle, which: i32, k: i64, v: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ref(h, |h| h.get_vector(which, k, v)) }
}

// This module comes after the functions above, because the header lists functions in source order.
mod calls;

pub use calls::*;
