//! Wrong calls of the `sparse_` family; tests/misuse.rs has those that several families refuse. Each returns its status
//! and error message, leaves outputs and handle as documented, and does not end the program.

use crate::common;
use common::sparse::*;
use common::{Failure, outcome, status};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

fn good() -> Solver {
    Entries::new(2, 3, &[(0, 0, 1.0), (0, 2, 2.0), (1, 1, 3.0)]).solver()
}

#[track_caller]
fn assert_alive(s: &Solver) {
    assert_eq!(s.product(&[1.0, 10.0, 100.0], false).unwrap(), [201.0, 30.0]);
}

#[test]
fn null_pointers() {
    let s = good();
    let h = s.handle;
    let none: *mut Handle = null_mut();
    let (ptr, col, values) = ([0i32, 1, 2], [0i32, 1], [1.0, 2.0]);
    let [p, c] = [&ptr[..], &col].map(|a| a.as_ptr().cast::<c_void>());
    let (x, mut y, mut sizes) = ([1.0; 3], [7.0; 3], [5i64; 4]);
    let mut out = null_mut();
    let refused = |status: i32, name: &str| outcome(status).unwrap_err().expect(status::NULL, &[name, "NULL"]);
    // SAFETY: pointers are live or NULL, which is what is tested.
    unsafe {
        refused(sparse_create_csr(2, 2, 2, p, c, values.as_ptr(), 4, 0, null_mut()), "out");
        refused(sparse_create_csr(2, 2, 2, null(), c, values.as_ptr(), 4, 0, &mut out), "row_ptr");
        refused(sparse_create_csr(2, 2, 2, p, null(), values.as_ptr(), 4, 0, &mut out), "col");
        refused(sparse_create_csr(2, 2, 2, p, c, null(), 4, 0, &mut out), "values");
        refused(sparse_create_csc(2, 2, 2, null(), c, values.as_ptr(), 4, 0, &mut out), "col_ptr");
        refused(sparse_create_csc(2, 2, 2, p, null(), values.as_ptr(), 4, 0, &mut out), "row");
        refused(sparse_create_coo(2, 2, 2, null(), c, values.as_ptr(), 4, 0, &mut out), "row");
        refused(sparse_create_from(11, 2, 2, null(), null(), null(), null(), values.as_ptr(), &mut out), "sizes");
        let lengths = [0i64, 0, 0, 2];
        refused(sparse_create_from(11, 2, 2, lengths.as_ptr(), null(), null(), null(), null(), &mut out), "values");
        refused(sparse_read(null(), &mut out), "path");
        refused(sparse_read(c"x".as_ptr(), null_mut()), "out");
        refused(sparse_write(none, c"x".as_ptr(), 0), "handle");
        refused(sparse_write(h, null(), 0), "path");
        refused(sparse_get_vector(none, 0, 0, y.as_mut_ptr()), "handle");
        refused(sparse_set_values(none, x.as_ptr()), "handle");
        refused(sparse_set_values(h, null()), "values");
        refused(sparse_sizes(none, 2, sizes.as_mut_ptr()), "handle");
        refused(sparse_sizes(h, 2, null_mut()), "sizes");
        refused(sparse_arrays(none, 2, null_mut(), null_mut(), null_mut(), null_mut()), "handle");
        refused(sparse_arrays(h, 2, null_mut(), sizes.as_mut_ptr(), null_mut(), y.as_mut_ptr()), "i0");
    }
    assert!(out.is_null() && y == [7.0; 3] && sizes == [5; 4], "outputs of failed calls are untouched");
    assert_alive(&s);
}

/// Errors of pointers and indices name the array, index, value and range, and suggest a cause.
#[test]
fn indices() {
    let csr = |ptr: &[i32], col: &[i32], base: i32| Solver::csr(2, 3, ptr, col, &[1.0, 2.0, 3.0], base).map(|_| ());
    let refused = |result: Result<(), Failure>, words: &[&str]| result.unwrap_err().expect(status::ARGUMENT, words);
    csr(&[0, 2, 3], &[0, 2, 1], 0).unwrap();
    csr(&[1, 3, 4], &[1, 3, 2], 1).unwrap();
    refused(csr(&[0, 2, 3], &[0, 2, 1], 1), &["entry 0 of row_ptr must be the base, 1 (or is base 0?), got 0"]);
    refused(csr(&[1, 3, 4], &[1, 3, 2], 0), &["entry 0 of row_ptr must be the base, 0 (or is base 1?), got 1"]);
    refused(csr(&[0, 4, 3], &[0, 2, 1], 0), &["entry 2 of row_ptr must be at least the previous one, 4, got 3"]);
    let room = " (of larger arrays, pass only the first 2 entries), got 2";
    refused(csr(&[0, 2, 2], &[0, 2, 1], 0), &["entry 2 of row_ptr must be the number of entries + base = 3", room]);
    refused(csr(&[0, 2, 4], &[0, 2, 1], 0), &["entry 2 of row_ptr must be the number of entries + base = 3, got 4"]);
    refused(csr(&[0, -2_147_483_648, 3], &[0, 2, 1], 0), &["entry 1 of row_ptr", "8-byte integers", "-2147483648"]);
    refused(csr(&[0, 2, 3], &[0, 3, 1], 0), &["entry 1 of col must lie in [0, 2] (or is base 1?), got 3"]);
    refused(csr(&[1, 3, 4], &[1, 0, 2], 1), &["entry 1 of col must lie in [1, 3] (or is base 0?), got 0"]);
    refused(csr(&[0, 2, 3], &[0, -1, 1], 0), &["entry 1 of col must lie in [0, 2], got -1"]);
    let coo = |row: i32, col: i32| Solver::coo(2, 3, &[row], &[col], &[1.0], 0).map(|_| ());
    refused(coo(2, 0), &["entry 0 of row must lie in [0, 1]"]);
    refused(coo(0, 3), &["entry 0 of col must lie in [0, 2]"]);
    refused(Solver::coo(0, 3, &[0], &[0], &[1.0], 0).map(|_| ()), &["entry 0 of row must not be there"]);
    refused(Solver::csc(2, 1, &[0, 2], &[0, 2], &[1.0, 2.0], 0).map(|_| ()), &["entry 1 of row must lie in [0, 1]"]);
    refused(Solver::coo(2, 3, &[0], &[0], &[1.0], 2).map(|_| ()), &["base must be 0 or 1, got 2"]);
    let mut out = null_mut();
    let (i, a) = ([0i64], [1.0]);
    // SAFETY: arrays of one value.
    let status =
        unsafe { sparse_create_coo(1, 1, 1, i.as_ptr().cast(), i.as_ptr().cast(), a.as_ptr(), 2, 0, &mut out) };
    refused(outcome(status).map(|_| ()), &["index_bytes must be 4 or 8, got 2"]);
    // The index arrays of the matrix [2 0; 0 3] have integers of the other width.
    let csr_of = |ptr: *const c_void, col: *const c_void, index_bytes: i32| {
        let (mut out, values) = (null_mut(), [2.0, 3.0]);
        // SAFETY: the arrays below have more bytes than the call reads.
        let status = unsafe { sparse_create_csr(2, 2, 2, ptr, col, values.as_ptr(), index_bytes, 0, &mut out) };
        outcome(status).map(|_| ())
    };
    let wide = [0i64, 1, 2, 0, 1];
    let refused_width = csr_of(wide.as_ptr().cast(), wide[3..].as_ptr().cast(), 4);
    refused(
        refused_width,
        &["entry 2 of row_ptr must be the number of entries + base = 2", "(or is index_bytes 8?), got 1"],
    );
    // 0 1 2 0 1 0 0 0, 8-byte aligned.
    let narrow = [1i64 << 32, 2, 1, 0];
    let at = |k: usize| narrow.as_ptr().cast::<i32>().wrapping_add(k).cast();
    refused(
        csr_of(at(0), at(0), 8),
        &["entry 0 of row_ptr must be the base, 0 (or is index_bytes 4?), got 4294967296"],
    );
    refused(csr_of(at(1), at(0), 8), &["row_ptr", "8", "; if its integers have 4 bytes, index_bytes is 4"]);
    // SAFETY: the call reads no array.
    let status = unsafe { sparse_create_coo(-1, 1, 0, null(), null(), null(), 4, 0, &mut out) };
    outcome(status).unwrap_err().expect(status::DIMENSION, &["rows must be at least 0", "-1"]);
    // SAFETY: as above.
    let status = unsafe { sparse_create_coo(1, 1, i64::MAX, i.as_ptr().cast(), null(), null(), 4, 0, &mut out) };
    outcome(status).unwrap_err().expect(status::DIMENSION, &["nnz", "9223372036854775807"]);
    // SAFETY: the call needs no array.
    assert_eq!(unsafe { sparse_create_coo(3, 0, 0, null(), null(), null(), 8, 1, &mut out) }, status::OK);
    drop(Solver { handle: out });
}

#[test]
fn values() {
    let refused = |values: &[f64]| {
        Solver::coo(2, 2, &[0, 1], &[0, 1], values, 0)
            .map(|_| ())
            .unwrap_err()
            .expect(status::NOT_FINITE, &["values", "at 1"]);
    };
    refused(&[1.0, f64::NAN]);
    refused(&[1.0, f64::INFINITY]);
    let s = good();
    s.set_values(&[1.0, f64::NAN, 2.0]).unwrap_err().expect(status::NOT_FINITE, &["values", "NaN at 1"]);
    assert_alive(&s);
    s.product(&[1.0, f64::INFINITY, 1.0], false).unwrap_err().expect(status::NOT_FINITE, &["x holds inf at 1"]);
    s.options("check_input=0").unwrap();
    assert!(s.product(&[1.0, f64::INFINITY, 1.0], false).unwrap()[1].is_infinite());
    assert_alive(&s);
}

#[test]
fn arrays_that_overlap() {
    let s = good();
    let mut all = [7.0; 8];
    let at = all.as_mut_ptr();
    // SAFETY: parts of one array; overlapping parts are not written.
    unsafe {
        let places: *mut i64 = at.cast();
        let overlap = sparse_arrays(s.handle, CSR, places, places.add(2), null_mut(), at.add(5));
        outcome(overlap).unwrap_err().expect(status::ARGUMENT, &["i0", "i1", "overlap"]);
    }
    assert_eq!(all, [7.0; 8]);
    assert_alive(&s);
}

/// Arrays of a format that are inconsistent, or describe no matrix.
#[test]
fn arrays_of_formats() {
    let refused = |format: i32, rows: usize, cols: usize, arrays: Arrays, code: i32, words: &[&str]| {
        Solver::from(format, rows, cols, &arrays).map(|_| ()).unwrap_err().expect(code, words);
    };
    let (argument, dimension) = (status::ARGUMENT, status::DIMENSION);
    let a = |i0: &[i64], i1: &[i64], i2: &[i64], count: usize| Arrays::new(i0, i1, i2, &vec![1.5; count]);
    refused(0, 2, 2, a(&[], &[], &[], 0), argument, &["format", "auto"]);
    refused(12, 2, 2, a(&[], &[], &[], 0), argument, &["format", "12"]);
    refused(1, 2, 2, a(&[0], &[], &[], 1), dimension, &["format=coo", "1, 1 and 0 entries, got 1, 0 and 0"]);
    refused(2, 2, 2, a(&[0, 1], &[0], &[], 1), dimension, &["format=csr", "3, 1 and 0"]);
    refused(2, 2, 2, a(&[0, 1, 1], &[2], &[], 1), argument, &["entry 0 of col", "[0, 1]"]);
    refused(4, 4, 4, a(&[0, 1, 1], &[0], &[], 3), dimension, &["format=bsr", "no b"]);
    refused(4, 4, 4, a(&[0, 1, 1], &[2], &[], 4), argument, &["entry 0 of i1", "[0, 1]"]);
    refused(5, 2, 2, a(&[0, 0], &[], &[], 4), argument, &["entry 1 of i0", "above the previous one"]);
    refused(5, 2, 2, a(&[2], &[], &[], 2), argument, &["entry 0 of i0", "(-2, 2)"]);
    refused(5, 2, 2, a(&[0], &[], &[], 3), dimension, &["format=dia", "3 values"]);
    refused(6, 2, 2, a(&[0, 1, 0], &[], &[], 3), dimension, &["format=ell", "3 values"]);
    refused(6, 2, 2, a(&[0, 2], &[], &[], 2), argument, &["entry 1 of i0", "[0, 1]"]);
    refused(7, 2, 2, a(&[0, 1], &[0, 3], &[0, 0, 0], 3), argument, &["entry 1 of i1", "multiple of 2"]);
    refused(7, 2, 2, a(&[0, 0], &[0, 2], &[0, 0], 2), argument, &["entry 1 of i0", "occur once"]);
    refused(7, 2, 2, a(&[0, -1], &[0, 2], &[0, 0], 2), argument, &["entry 1 of i0", "[0, 2)"]);
    refused(7, 3, 2, a(&[0, 1], &[0, 2], &[0, 0], 2), dimension, &["format=sell", "3 rows"]);
    refused(
        7,
        2,
        2,
        a(&[], &[0, 0, 0], &[], 0),
        dimension,
        &["format=sell", "C in [1, 256]", "got 0 and 3 for 2 rows"],
    );
    refused(8, 2, 2, a(&[0, 1], &[0, 1, 3], &[0, 0, 0], 3), argument, &["entry 2 of i1", "at most 1"]);
    refused(9, 2, 2, a(&[0, 5], &[0, 2], &[0, 0], 2), argument, &["entry 1 of i0", "[0, 2)"]);
    refused(8, 2, 2, a(&[0, 1], &[], &[], 0), dimension, &["format=jds"]);
    refused(10, 2, 3, a(&[0, 1, 2], &[], &[], 2), dimension, &["format=skyline", "2 x 3"]);
    refused(10, 2, 2, a(&[0, 2, 3], &[], &[], 3), argument, &["entry 1 of i0", "1 to 1"]);
    refused(10, 2, 2, a(&[0, 1, 2], &[0, 1, 1], &[], 3), argument, &["entry 1 of i1", "at most 0"]);
    refused(11, 2, 3, a(&[], &[], &[], 3), dimension, &["format=diagonal", "2 values, got 3"]);
    let nan = Arrays::new(&[], &[], &[], &[1.0, f64::NAN]);
    refused(11, 2, 2, nan, status::NOT_FINITE, &["values", "at 1"]);
    let s = good();
    s.sizes(0).unwrap_err().expect(argument, &["auto"]);
    s.sizes(99).unwrap_err().expect(argument, &["format", "99"]);
    s.sizes(10).unwrap_err().expect(dimension, &["format=skyline", "2 x 3"]);
    s.options("format=diagonal").unwrap();
    s.product(&[1.0; 3], false).unwrap_err().expect(argument, &["format=diagonal", "(0, 2)", "format=auto"]);
    s.options("format=auto").unwrap();
    assert_alive(&s);
}

#[test]
fn results_that_are_no_options() {
    let s = good();
    let mut value = 5;
    // SAFETY: a live handle; the value outlives the calls.
    unsafe {
        let set = sparse_set_int(s.handle, key::ROWS, 3);
        outcome(set).unwrap_err().expect(status::OPTION, &["rows is a result"]);
        let get = sparse_get_int(s.handle, key::BYTES_PER_NONZERO, &mut value);
        outcome(get).unwrap_err().expect(status::OPTION, &["bytes_per_nonzero is real"]);
        let get = sparse_get_int(s.handle, 1106, &mut value);
        outcome(get).unwrap_err().expect(status::OPTION, &["sparse_ has no result grids"]);
    }
    assert_eq!(value, 5);
    assert_eq!([key::FORMAT, key::BLOCK_SIZE, key::SLICE, key::SIGMA].map(|k| s.int(k)), [0; 4]);
    assert_eq!(s.int(key::FORMAT_MEMORY), 1 << 34);
    assert_alive(&s);
}

/// The monitor receives every residual, which the history also stores, and stops a solve of any method.
#[test]
fn monitor_and_history() {
    extern "C-unwind" fn stop_at_three(user: *mut c_void, iteration: i64, residual: f64) -> i32 {
        // SAFETY: the pointer that was set as `user` below, whose target outlives the solve.
        let seen = unsafe { &mut *user.cast::<Vec<f64>>() };
        assert_eq!(seen.len() as i64, iteration);
        seen.push(residual);
        i32::from(iteration == 3)
    }
    let n = 400;
    let line =
        |i: usize| -> [(usize, usize, f64); 3] { [(i, i, 2.0), (i, (i + 1) % n, -0.5), (i, (i + n - 1) % n, -1.0)] };
    let unsymmetric: Vec<_> = (0..n).flat_map(line).collect();
    let symmetric: Vec<_> =
        unsymmetric.iter().map(|&(i, j, a)| (i, j, if i == j { 2.01 } else { a.signum() })).collect();
    let b: Vec<f64> = (0..n).map(|i| (i % 7) as f64).collect();
    for (solver, entries) in [
        ("cg preconditioner=none", &symmetric),
        ("minres", &symmetric),
        ("steepest_descent preconditioner=none max_iter=100000", &symmetric),
        ("jacobi", &unsymmetric),
        ("sor", &unsymmetric),
        ("bicg preconditioner=none", &unsymmetric),
        ("bicgstab preconditioner=none", &unsymmetric),
        ("gmres preconditioner=none", &unsymmetric),
        ("idr preconditioner=none", &unsymmetric),
    ] {
        let s = Entries::new(n, n, entries).solver();
        s.options(&format!("solver={solver} rel_tol=1e-12")).unwrap();
        s.factorize().unwrap();
        let mut seen: Vec<f64> = Vec::new();
        // SAFETY: a live handle; `seen` outlives the monitor.
        unsafe { sparse_set_monitor(s.handle, Some(stop_at_three), (&raw mut seen).cast()) };
        let mut x = vec![0.0; n];
        assert_eq!(s.solve(&b, &mut x).unwrap(), status::STOPPED, "{solver}");
        assert_eq!((seen.len(), s.int(key::ITERATIONS)), (4, 3), "{solver}");
        assert!(
            x.iter().any(|&x| x != 0.0) && seen[0] == 1.0 && seen[3] != seen[2],
            "{solver}: the iterate at the stop"
        );
        let (mut kept, mut count) = ([0.0; 4], 0);
        // SAFETY: a live handle; the array has room for four values.
        assert_eq!(unsafe { sparse_get_history(s.handle, kept.as_mut_ptr(), 4, &mut count) }, status::OK);
        assert_eq!((count, &kept[..]), (4, &seen[..]), "{solver}");
        // SAFETY: a live handle.
        unsafe { sparse_set_monitor(s.handle, None, null_mut()) };
        assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK, "{solver}");
    }
}
