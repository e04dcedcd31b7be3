//! `sparse_` on a device: products with a bound of their error, iteration counts of the table, and comparisons with the
//! CPU. tests/emulator emulates a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;
mod single;
mod table;

use common::sparse::*;
use common::{Failure, bits, devices, outcome, status};
use device::{DeviceArray, Queue, Rows};
use rrbsolver::options::info;
use rrbsolver_problems::sparse::{System, five_points, system};
use single::{counts_in_single, hard_systems_in_single, methods_in_single, refusals_of_single};
use std::ffi::c_void;
use std::ptr::null_mut;
use table::rows;

/// Formats that have kernels, with parameters.
const KERNELS: [&str; 12] = [
    "auto",
    "csr",
    "sell",
    "sell slice=8",
    "sell slice=5 sigma=7",
    "sell slice=1",
    "dia format_memory=99999999999",
    "ell",
    "bsr block_size=2",
    "bsr block_size=3",
    "bsr block_size=5",
    "bsr block_size=6",
];

/// Matrices with awkward extents: 1 x 1, one row, one column, empty rows, and rows with and without a block of their
/// own.
fn matrices() -> Vec<(String, Entries)> {
    let mut all = Vec::new();
    for n in [1, 2, 3, 5, 17, 64, 65] {
        all.push((format!("{n} x {n}"), Entries::random(n, n, 3 * n, n as u64)));
        all.push((format!("{n} x {}", n + 3), Entries::random(n, n + 3, 2 * n, 7 * n as u64)));
        all.push((format!("{} x {n}", 2 * n), Entries::random(2 * n, n, 4 * n, 9 * n as u64)));
    }
    all.push(("1 x 300".to_owned(), Entries::random(1, 300, 250, 3)));
    all.push(("300 x 1".to_owned(), Entries::random(300, 1, 200, 4)));
    let mut long = Entries::random(70, 2100, 140, 5);
    for row in [3, 40] {
        long.entries.extend((0..2000).map(|j| (row, j + row, 1.0 / (j + 1) as f64)));
    }
    all.push(("rows of 2000 entries".to_owned(), long));
    all
}

/// Compares a product with its value in exact arithmetic. A row of n entries has at most n + 1 roundings, and summation
/// of duplicates has at most n more.
fn check_product(a: &Entries, found: &[f64], x: &[f64], transposed: bool) {
    let exact = a.product(x, transposed);
    assert_eq!(found.len(), exact.len());
    for (i, (y, (sum, sizes))) in found.iter().zip(exact).enumerate() {
        let allowed = 2.0 * (a.entries.len() + 2) as f64 * f64::EPSILON * sizes;
        assert!((y - sum).abs() <= allowed, "row {i}: {y:e} instead of {sum:e}");
    }
}

fn x_of(n: usize) -> Vec<f64> {
    (0..n).map(|i| 1.0 - ((i * 37 % 101) as f64) / 50.0).collect()
}

/// Computes A x and A^T x in each format with a kernel, with arrays on the host and on the device. The results of all
/// products are bitwise identical.
fn products_of_every_format() {
    let mut failed = Rows::default();
    for (name, a) in matrices() {
        for format in KERNELS {
            failed.row(&format!("{name} in {format}"), || {
                let s = a.solver();
                s.options(&format!("backend=cuda format={format}")).unwrap();
                for transposed in [false, true] {
                    let x = x_of(if transposed { a.rows } else { a.cols });
                    let y = s.product(&x, transposed).unwrap();
                    check_product(&a, &y, &x, transposed);
                    assert_eq!(bits(&s.product(&x, transposed).unwrap()), bits(&y));
                    let (x_device, y_device) = (DeviceArray::new(&x), DeviceArray::new(&vec![f64::NAN; y.len()]));
                    let multiply = if transposed { sparse_multiply_transposed } else { sparse_multiply };
                    // SAFETY: a live handle; arrays of its extents on the device.
                    outcome(unsafe { multiply(s.handle, x_device.0 as *const f64, y_device.0 as *mut f64) }).unwrap();
                    assert_eq!(bits(&y_device.read(y.len())), bits(&y));
                }
                assert_eq!([s.int(info::BACKEND), s.int(info::DEVICE)], [2, 0]);
                assert!(s.int(info::BYTES_DEVICE) > 0);
            });
        }
    }
    failed.end();
}

/// Products with matrices without rows, columns or entries, and with diagonal matrices.
fn empty_and_diagonal() {
    for (rows, cols) in [(0, 0), (0, 3), (3, 0), (4, 4)] {
        let a = Entries::new(rows, cols, &[]);
        for format in ["auto", "csr", "sell", "ell", "dia"] {
            let s = a.solver();
            s.options(&format!("backend=cuda format={format}")).unwrap();
            assert_eq!(s.product(&vec![1.0; cols], false).unwrap(), vec![0.0; rows], "{rows} x {cols} {format}");
            assert_eq!(s.product(&vec![1.0; rows], true).unwrap(), vec![0.0; cols], "{rows} x {cols} {format}");
        }
    }
    for (rows, cols) in [(5, 5), (7, 4), (4, 7)] {
        let entries: Vec<_> = (0..4).map(|i| (i, i, i as f64 + 0.5)).collect();
        let a = Entries::new(rows, cols, &entries);
        let s = a.solver();
        s.options("backend=cuda").unwrap();
        for transposed in [false, true] {
            let x = x_of(if transposed { rows } else { cols });
            check_product(&a, &s.product(&x, transposed).unwrap(), &x, transposed);
        }
        assert_eq!(s.int(key::INFO_FORMAT), 11, "{rows} x {cols}");
    }
}

/// Compares iteration counts with the table. An emulated device solves only systems that need seconds there: those with
/// small matrices and at most 150 iterations.
fn counts_of_the_table() {
    let (mut failed, emulated, mut count) = (Rows::default(), device::emulated(), 0);
    let preconditioners = ["none", "jacobi", "neumann", "chebyshev", "any"];
    for row in rows() {
        let sweeps = ["gauss_seidel", "sor"].contains(&&*row.method);
        if !preconditioners.contains(&&*row.preconditioner) || sweeps && !row.line.contains("multicolour") {
            continue;
        }
        let small = ["can_24", "bcsstk01", "arc130", "west0067", "nos4", "blocks3_24", "gr_30_30", "bcsstm22", "nos5"];
        if emulated && (!small.iter().any(|name| row.matrix.starts_with(name)) || row.iterations > 150) {
            continue;
        }
        count += 1;
        failed.row(&row.line.clone(), || {
            let s = table::solver(&row.matrix);
            let b = s.product(&vec![1.0; s.int(key::COLS) as usize], false).unwrap();
            let wrong = row.judge(&s, &b, "backend=cuda");
            assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
        });
    }
    assert!(count > 60, "{count} rows");
    failed.end();
}

unsafe extern "C-unwind" fn go_on(_: *mut c_void, _: i64, _: f64) -> i32 {
    0
}

/// Repeated solves, and solves with a monitor and arrays on the device, are bitwise identical to the first solve.
fn repeated_solves() {
    let a = poisson(16);
    let n = a.n;
    let s = Entries { rows: n, cols: n, entries: a.entries }.solver();
    let b = x_of(n);
    for options in [
        "cg preconditioner=none",
        "cg preconditioner=jacobi",
        "cg preconditioner=neumann",
        "cg preconditioner=neumann precision=f32",
        "cg preconditioner=chebyshev",
        "cg preconditioner=chebyshev precision=f32",
        "cg preconditioner=amg",
        "cg preconditioner=ssor ordering=multicolour",
        "cg preconditioner=ic0 ordering=multicolour precision=f32",
        "bicg preconditioner=neumann",
        "bicg preconditioner=ilu0 ordering=multicolour",
        "steepest_descent preconditioner=jacobi",
        "minres preconditioner=jacobi",
        "bicgstab preconditioner=chebyshev",
        "gmres preconditioner=jacobi",
        "idr preconditioner=none",
        "jacobi preconditioner=none max_iter=20",
        "gauss_seidel preconditioner=none ordering=multicolour max_iter=20",
    ] {
        s.options(&format!("backend=cuda precision=auto ordering=natural max_iter=1000 solver={options}")).unwrap();
        s.factorize().unwrap();
        let mut expected = vec![0.0; n];
        let result = s.solve(&b, &mut expected).unwrap();
        let reported = [key::ITERATIONS, key::STOP_REASON].map(|key| s.int(key));
        let mut x = vec![0.0; n];
        assert_eq!(s.solve(&b, &mut x).unwrap(), result);
        assert_eq!(bits(&x), bits(&expected), "{options}");
        assert_eq!([key::ITERATIONS, key::STOP_REASON].map(|key| s.int(key)), reported, "{options}");
        let (b_device, x_device, queue) = (DeviceArray::new(&b), DeviceArray::new(&vec![0.0; n]), Queue::new());
        // SAFETY: a live handle; a stream and arrays that outlive the calls.
        unsafe {
            outcome(sparse_set_stream(s.handle, queue.0.cast())).unwrap();
            outcome(sparse_set_monitor(s.handle, Some(go_on), null_mut())).unwrap();
            outcome(sparse_solve(s.handle, b_device.0 as *const f64, x_device.0 as *mut f64)).unwrap();
            outcome(sparse_set_monitor(s.handle, None, null_mut())).unwrap();
            outcome(sparse_set_stream(s.handle, null_mut())).unwrap();
        }
        assert_eq!(bits(&x_device.read(n)), bits(&expected), "{options} on the device");
        assert!(result != status::OK || s.real(key::FINAL_RESIDUAL) <= 1e-6, "{options}");
    }
}

fn poisson(n: usize) -> System {
    system(&format!("poisson2d_{n}")).unwrap()
}

/// A factorization of new values gives results that are bitwise identical to those of a new handle. The values are on
/// the host or on the device, in the order of csr, in another order, or with duplicates, whose values are summed.
fn second_factorizations() {
    let a = poisson(9);
    let ordered = Entries { rows: a.n, cols: a.n, entries: a.entries };
    let (mut reversed, mut duplicated) = (ordered.clone(), ordered.clone());
    reversed.entries.reverse();
    duplicated.entries.extend((0..a.n).step_by(7).map(|i| (i, i, 0.5)));
    for options in ["solver=idr format=csr", "solver=cg preconditioner=jacobi format=sell"] {
        second_factorization(&ordered, options);
        second_factorization(&reversed, options);
    }
    // The copy of A^T also receives the new values.
    let a = system("convdiff2d_9_p0.5_q0.25").unwrap();
    let mut unsymmetric = Entries { rows: a.n, cols: a.n, entries: a.entries };
    unsymmetric.entries.reverse();
    for options in
        ["format=csr", "format=sell transpose=copy", "format=dia transpose=copy", "precision=single rel_tol=1e-5"]
    {
        second_factorization(&unsymmetric, &format!("solver=bicg preconditioner=jacobi {options}"));
    }
    for options in [
        "solver=cg preconditioner=jacobi",
        "solver=cg preconditioner=amg",
        "solver=bicg preconditioner=neumann",
        "solver=bicg preconditioner=ilu0 ordering=multicolour",
        "solver=idr format=csr",
        "solver=idr format=ell",
        "solver=idr format=sell slice=5 sigma=7",
        "solver=idr format=bsr block_size=3",
        "solver=bicg format=dia",
        "precision=single rel_tol=1e-5 solver=cg preconditioner=jacobi format=sell",
        "precision=single rel_tol=1e-5 solver=bicg preconditioner=chebyshev format=csr",
    ] {
        second_factorization(&duplicated, options);
    }
}

fn second_factorization(entries: &Entries, options: &str) {
    let options = format!("backend=cuda {options}");
    let other: Vec<f64> = entries.entries.iter().map(|e| if e.0 == e.1 { 5.0 + e.0 as f64 } else { e.2 }).collect();
    let b = x_of(entries.rows);
    let solve = |s: &Solver| {
        let mut x = vec![0.0; b.len()];
        s.solve(&b, &mut x).unwrap();
        (bits(&x), bits(&s.apply(&b).unwrap()), s.int(key::ITERATIONS))
    };
    let factorize_and_solve = |s: &Solver| {
        s.factorize().unwrap();
        solve(s)
    };
    let s = entries.solver();
    s.options(&options).unwrap();
    let first = factorize_and_solve(&s);
    s.set_values(&other).unwrap();
    s.solve(&b, &mut vec![0.0; b.len()]).unwrap_err().expect(status::STATE, &["values"]);
    let product = bits(&s.product(&b, false).unwrap());
    let second = factorize_and_solve(&s);
    for round in 0..3 {
        let values = if round == 1 { entries.entries.iter().map(|e| e.2).collect() } else { other.clone() };
        set_on_device(&s, &values).unwrap();
        assert!(s.real(info::SECONDS_TRANSFER) > 0.0);
        assert_eq!(&factorize_and_solve(&s), if round == 1 { &first } else { &second }, "{options}");
    }
    // After an error, the values and the factorization are unchanged.
    let mut with_nan = entries.entries.iter().map(|e| e.2).collect::<Vec<f64>>();
    with_nan[3] = f64::NAN;
    set_on_device(&s, &with_nan).unwrap_err().expect(status::NOT_FINITE, &["values", "NaN at 3"]);
    s.set_values(&with_nan).unwrap_err().expect(status::NOT_FINITE, &["values", "NaN at 3"]);
    if s.int(key::DUPLICATES) > 0 {
        let large = vec![f64::MAX; with_nan.len()];
        set_on_device(&s, &large).unwrap_err().expect(status::NOT_FINITE, &["duplicate", "(0, 0)"]);
        s.set_values(&large).unwrap_err().expect(status::NOT_FINITE, &["duplicate", "(0, 0)"]);
    }
    assert_eq!(solve(&s), second, "{options}");
    let mut changed = entries.clone();
    changed.entries.iter_mut().zip(&other).for_each(|(e, v)| e.2 = *v);
    let fresh = changed.solver();
    fresh.options(&options).unwrap();
    assert_eq!(bits(&fresh.product(&b, false).unwrap()), product, "{options}");
    assert_eq!(factorize_and_solve(&fresh), second, "{options}");
    assert_ne!(first, second, "{options}");
}

/// Passes values on the device.
fn set_on_device(s: &Solver, values: &[f64]) -> Result<(), Failure> {
    let values = DeviceArray::new(values);
    // SAFETY: a live handle; an array on the device with a value per entry.
    outcome(unsafe { sparse_set_values(s.handle, values.0 as *const f64) })?;
    Ok(())
}

/// A solve with bicg has the bits of a new handle after new values made A symmetric, so that A replaces the copy of
/// A^T, and after a change of the option `transpose`.
fn transposes_of_new_values() {
    let a = system("convdiff2d_9_p0.5_q0.25").unwrap();
    let unsymmetric = Entries { rows: a.n, cols: a.n, entries: a.entries };
    let mut symmetric = unsymmetric.clone();
    symmetric.entries.iter_mut().for_each(|e| e.2 = if e.0 == e.1 { 4.5 } else { -1.0 });
    let values_of = |a: &Entries| a.entries.iter().map(|e| e.2).collect::<Vec<f64>>();
    let b = x_of(a.n);
    let solution = |s: &Solver, options: &str| {
        s.options(&format!("backend=cuda solver=bicg preconditioner=jacobi {options}")).unwrap();
        s.factorize().unwrap();
        let mut x = vec![0.0; b.len()];
        assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK, "{options}");
        bits(&x)
    };
    for format in ["csr", "sell", "dia"] {
        let s = unsymmetric.solver();
        for (matrix, transpose) in
            [(&unsymmetric, "copy"), (&symmetric, "copy"), (&unsymmetric, "auto"), (&unsymmetric, "copy")]
        {
            let options = format!("format={format} transpose={transpose}");
            s.set_values(&values_of(matrix)).unwrap();
            assert_eq!(solution(&s, &options), solution(&matrix.solver(), &options), "{options}");
        }
    }
}

/// New values reach the products with A and A^T of a rectangular matrix, whose A^T is a copy.
fn products_of_new_values() {
    for format in ["csr", "sell", "dia format_memory=99999999999"] {
        let mut a = Entries::random(30, 41, 200, 11);
        let s = a.solver();
        s.options(&format!("backend=cuda format={format}")).unwrap();
        for round in 0..3 {
            for transposed in [false, true] {
                let x = x_of(if transposed { a.rows } else { a.cols });
                check_product(&a, &s.product(&x, transposed).unwrap(), &x, transposed);
            }
            a.entries.iter_mut().for_each(|e| e.2 = 1.0 / (e.2 + 3.0 + f64::from(round)));
            let values: Vec<f64> = a.entries.iter().map(|e| e.2).collect();
            if round == 0 {
                let bytes = s.int(info::BYTES_DEVICE);
                s.set_values(&values).unwrap();
                assert!(s.real(info::SECONDS_TRANSFER) > 0.0);
                assert!(s.int(info::BYTES_DEVICE) != bytes);
            } else {
                set_on_device(&s, &values).unwrap();
            }
        }
    }
}

/// `sparse_set_values` works before the first factorization, after a change of the backend or the stream, and without
/// entries.
fn new_values_at_any_time() {
    let a = poisson(7);
    let b = x_of(a.n);
    let mut entries = Entries { rows: a.n, cols: a.n, entries: a.entries };
    entries.entries.reverse();
    let s = entries.solver();
    let mut change = |s: &Solver, on_device: bool| {
        entries.entries.iter_mut().for_each(|e| e.2 *= if e.0 == e.1 { 1.25 } else { 1.0 });
        let values: Vec<f64> = entries.entries.iter().map(|e| e.2).collect();
        if on_device {
            set_on_device(s, &values).unwrap();
        } else {
            s.set_values(&values).unwrap();
        }
        entries.clone()
    };
    let solution = |s: &Solver| {
        s.factorize().unwrap();
        let mut x = vec![0.0; b.len()];
        assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK);
        bits(&x)
    };
    let options = "solver=cg preconditioner=jacobi format=sell";
    let (first, second) = (Queue::new(), Queue::new());
    let set_stream = |queue: Option<&Queue>| {
        let stream = queue.map_or(null_mut(), |queue| queue.0.cast());
        // SAFETY: a live handle and stream.
        outcome(unsafe { sparse_set_stream(s.handle, stream) }).unwrap();
    };
    for (backend, on_device, stream) in [
        ("cuda", true, None),
        ("cuda", false, Some(&first)),
        ("cuda", true, Some(&second)),
        ("cpu", false, None),
        ("cuda", true, None),
        ("cpu", false, None),
        ("cuda", false, None),
        ("cuda", false, None),
    ] {
        s.options(&format!("backend={backend} {options}")).unwrap();
        set_stream(stream);
        let changed = change(&s, on_device);
        let found = solution(&s);
        let fresh = changed.solver();
        fresh.options(&format!("backend={backend} {options}")).unwrap();
        assert_eq!(found, solution(&fresh), "{backend}, values on the device: {on_device}");
    }
    set_stream(None);
    // SAFETY: a live handle.
    let failure = outcome(unsafe { sparse_set_values(s.handle, std::ptr::null()) }).unwrap_err();
    failure.expect(status::NULL, &["values"]);
    let empty = Entries::new(3, 4, &[]).solver();
    empty.options("backend=cuda").unwrap();
    for _ in 0..2 {
        // SAFETY: a live handle without entries.
        outcome(unsafe { sparse_set_values(empty.handle, std::ptr::null()) }).unwrap();
        assert_eq!(empty.product(&[1.0; 4], false).unwrap(), [0.0; 3]);
    }
}

/// If `auto` selects cg for an indefinite matrix, minres continues after the breakdown.
fn indefinite_systems() {
    let n = 30;
    let mut entries: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, i, 1.0)).collect();
    for i in 1..n {
        entries.extend([(i, i - 1, 0.8), (i - 1, i, 0.8)]);
    }
    let s = Entries::new(n, n, &entries).solver();
    let b = x_of(n);
    let mut counts = Vec::new();
    for backend in ["cpu", "cuda"] {
        s.options(&format!("backend={backend} preconditioner=jacobi")).unwrap();
        s.factorize().unwrap();
        let mut x = vec![0.0; n];
        assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK, "{backend}");
        assert_eq!(s.int(key::INFO_SOLVER), 6, "{backend}");
        counts.push(s.int(key::ITERATIONS));
    }
    assert!((counts[0] - counts[1]).abs() <= 1, "{counts:?}");
}

/// Sweeps on a device have the same number of colours as on the CPU, and the same iterates except for rounding.
fn multicolour_sweeps() {
    let a = poisson(12);
    let s = Entries { rows: a.n, cols: a.n, entries: a.entries }.solver();
    let b = x_of(a.n);
    for solver in ["jacobi sor_omega=0.8", "gauss_seidel", "sor sor_omega=1.4"] {
        let [of_cpu, of_cuda] = ["cpu", "cuda"].map(|backend| {
            s.options(&format!("backend={backend} solver={solver} ordering=multicolour rel_tol=1e-30 max_iter=7"))
                .unwrap();
            s.factorize().unwrap();
            let mut x = vec![0.25; a.n];
            s.solve(&b, &mut x).unwrap();
            (x, s.int(key::COLOURS))
        });
        assert_eq!(of_cpu.1, of_cuda.1, "{solver}");
        let largest = of_cpu.0.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let error = of_cpu.0.iter().zip(&of_cuda.0).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
        // In each of seven sweeps, a value has at most 12 roundings: two per entry of its row, and two more. The sweeps
        // do not amplify them much.
        assert!(error <= 200.0 * f64::EPSILON * largest, "{solver}: {error:e}");
    }
}

/// Triangular solves by colours have the same factors as on the CPU, except for rounding: M^-1 r, and the counts of
/// methods with M^-1 and with M^-T. On the CPU, the tests of the preconditioners compare M with its definition.
fn triangular_solves_by_colours() {
    let mut failed = Rows::default();
    for (matrix, methods) in [
        ("poisson2d_24", &["cg", "bicg", "idr"][..]),
        ("poisson3d_9", &["cg"]),
        ("blocks3_24", &["cg"]),
        ("random_dominant_2000_8", &["bicg", "bicgstab", "gmres"]),
        ("convdiff2d_50_p0.5_q0.25", &["gmres"]),
    ] {
        let a = system(matrix).unwrap();
        let s = Entries { rows: a.n, cols: a.n, entries: a.entries }.solver();
        let b = x_of(a.n);
        for (m, method) in ["ssor", "ssor sor_omega=1.3", "ic0", "ilu0", "ilu0 precision=f32"]
            .iter()
            .flat_map(|m| methods.iter().map(move |method| (m, method)))
            .filter(|(m, method)| **m != "ic0" || **method == "cg")
        {
            failed.row(&format!("{matrix} {method} {m}"), || {
                let [of_cpu, of_cuda] = ["cpu", "cuda"].map(|backend| {
                    s.options(&format!("backend={backend} solver={method} sor_omega=0 precision=auto")).unwrap();
                    s.options(&format!("ordering=multicolour preconditioner={m}")).unwrap();
                    s.factorize().unwrap();
                    let mut x = vec![0.0; a.n];
                    assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK);
                    let reported = [key::COLOURS, key::SWEEP_LEVELS].map(|key| s.int(key));
                    (s.apply(&b).unwrap(), s.int(key::ITERATIONS), reported)
                });
                assert_eq!(of_cpu.2, of_cuda.2);
                assert!((of_cpu.1 - of_cuda.1).abs() <= 1, "{} iterations instead of {}", of_cuda.1, of_cpu.1);
                let largest = of_cpu.0.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                let error = of_cpu.0.iter().zip(&of_cuda.0).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
                // A value has at most two roundings per entry of its row, in each of the two solves. The factors of
                // these matrices amplify them by less than 100.
                let entries = s.int(key::LONGEST_ROW) as f64;
                assert!(error <= 400.0 * entries * f64::EPSILON * largest, "{error:e} of {largest:e}");
            });
        }
    }
    failed.end();
}

/// Adds a node that is coupled to every second node, as a supply voltage in a circuit.
fn with_hub(mut a: System) -> System {
    let hub = a.n;
    for i in (0..hub).step_by(2) {
        a.entries.extend([(i, hub, -0.01), (hub, i, -0.01), (i, i, 0.01), (hub, hub, 0.01)]);
    }
    a.entries.push((hub, hub, 0.1));
    a.n += 1;
    a
}

/// Without aggregates, the cycle of amg consists of the two Jacobi steps of the finest level. A plain program computes
/// them: z += w (r - A z) / s with the weights w = 2 - 2 / sqrt(5) and 2 + 2 / sqrt(5), and s = max(2 d, d + sum |a|).
fn jacobi_steps_of_the_finest_level() {
    let a = five_points(40, [8.0, -1.0, -1.0, -1.0, -1.0]);
    let s = Entries { rows: a.n, cols: a.n, entries: a.entries.clone() }.solver();
    s.options("backend=cuda solver=cg preconditioner=amg precision=f64").unwrap();
    s.factorize().unwrap();
    let r = x_of(a.n);
    let (mut diagonal, mut magnitude) = (vec![0.0; a.n], vec![0.0; a.n]);
    for &(i, j, value) in &a.entries {
        magnitude[i] += value.abs();
        diagonal[i] += if i == j { value } else { 0.0 };
    }
    let mut z = vec![0.0; a.n];
    for weight in [2.0 - 2.0 / 5f64.sqrt(), 2.0 + 2.0 / 5f64.sqrt()] {
        let mut residual = r.clone();
        a.entries.iter().for_each(|&(i, j, value)| residual[i] -= value * z[j]);
        (0..a.n).for_each(|i| z[i] += weight * residual[i] / magnitude[i].max(2.0 * diagonal[i]));
    }
    let largest = z.iter().fold(0.0, |largest: f64, z| largest.max(z.abs()));
    for (i, (found, expected)) in s.apply(&r).unwrap().iter().zip(&z).enumerate() {
        // The order of the sums of five terms differs.
        assert!((found - expected).abs() <= 1e-14 * largest, "row {i}: {found} instead of {expected}");
    }
}

/// Multigrid by aggregation: at most 3 iterations more than on the CPU, which forms other aggregates and uses another
/// cycle. The count may differ by 1 from that of the emulated device, because sums have another order. The matrix `hub`
/// has a long row. No row of `dominant` is in an aggregate, so the hierarchy has one level and no inverse. A second
/// factorization keeps the aggregates.
fn multigrid() {
    let mut failed = Rows::default();
    for (matrix, options, emulated) in [
        ("poisson2d_40", "precision=auto", 9),
        ("poisson2d_40", "precision=f64", 9),
        ("poisson3d_14", "precision=auto", 8),
        ("blocks3_24", "precision=auto", 23),
        ("tetrahedra_12", "precision=auto", 10),
        ("hub", "precision=auto", 9),
        ("dominant", "precision=auto", 6),
    ] {
        failed.row(&format!("{matrix} {options}"), || {
            let a = match matrix {
                "hub" => with_hub(poisson(40)),
                "dominant" => five_points(40, [8.0, -1.0, -1.0, -1.0, -1.0]),
                _ => system(matrix).unwrap(),
            };
            let s = Entries { rows: a.n, cols: a.n, entries: a.entries }.solver();
            let b = x_of(a.n);
            let [of_cpu, of_cuda] = ["cpu", "cuda"].map(|backend| {
                s.options(&format!("backend={backend} solver=cg preconditioner=amg {options}")).unwrap();
                s.factorize().unwrap();
                let mut x = vec![0.0; a.n];
                assert_eq!(s.solve(&b, &mut x).unwrap(), status::OK);
                assert!(s.real(key::FINAL_RESIDUAL) <= 1e-6);
                s.int(key::ITERATIONS)
            });
            let is_expected = of_cuda <= of_cpu + 3 && (of_cuda - emulated).abs() <= 1;
            assert!(is_expected, "{of_cuda} iterations, {of_cpu} on the CPU, {emulated} on the emulated device");
            s.factorize().unwrap();
            let mut x = vec![0.0; a.n];
            s.solve(&b, &mut x).unwrap();
            assert_eq!(s.int(key::ITERATIONS), of_cuda);
            assert_eq!(s.int(key::AGGREGATES_KEPT) > 0, matrix != "dominant");
        });
    }
    failed.end();
}

/// Formats, orderings and preconditioners without kernels, and arrays in another memory space, are errors.
fn not_on_a_device() {
    let a = poisson(5);
    let s = Entries { rows: a.n, cols: a.n, entries: a.entries }.solver();
    s.options("backend=cuda").unwrap();
    let refused = |options: &str, words: &[&str]| {
        s.options(options).unwrap();
        s.factorize().unwrap_err().expect(status::UNSUPPORTED, words);
    };
    for format in ["coo", "csc", "jds", "tjds", "skyline"] {
        refused(&format!("format={format}"), &[&format!("format={format}"), "csr, sell, dia, bsr, ell or diagonal"]);
        s.product(&vec![1.0; a.n], false).unwrap_err().expect(status::UNSUPPORTED, &["no kernel", "format=auto"]);
    }
    s.options("format=auto solver=cg").unwrap();
    for m in ["ssor", "ic0", "ilu0"] {
        let words = [&*format!("preconditioner={m}"), "ordering=natural", "ordering=multicolour"];
        refused(&format!("preconditioner={m}"), &words);
    }
    s.options("preconditioner=none").unwrap();
    for ordering in ["natural", "blocks", "symmetric"] {
        refused(&format!("solver=sor ordering={ordering}"), &[&format!("ordering={ordering}"), "multicolour"]);
    }
    s.options("solver=jacobi").unwrap();
    s.factorize().unwrap();
    let (mut x, b) = (vec![0.0; a.n], DeviceArray::new(&vec![1.0; a.n]));
    s.options("memory=device").unwrap();
    s.solve(&vec![1.0; a.n], &mut x).unwrap_err().expect(status::ARGUMENT, &["b must be on device 0", "host"]);
    s.options("memory=auto backend=cpu").unwrap();
    s.factorize().unwrap();
    // SAFETY: a live handle; arrays of its rows.
    let failure = outcome(unsafe { sparse_solve(s.handle, b.0 as *const f64, x.as_mut_ptr()) }).unwrap_err();
    failure.expect(status::ARGUMENT, &["b", "an array on device 0", "on the host"]);
    let mut unsymmetric = Entries::random(20, 20, 60, 1);
    unsymmetric.entries.extend((0..20).map(|i| (i, i, 9.0)));
    let s = unsymmetric.solver();
    s.options("backend=cuda solver=bicg transpose=none format=csr").unwrap();
    s.factorize().unwrap_err().expect(status::UNSUPPORTED, &["A'", "transpose=copy"]);
}

/// Input values that are not finite, on the host and on the device, are errors.
fn bad_values() {
    let a = poisson(5);
    let s = Entries { rows: a.n, cols: a.n, entries: a.entries }.solver();
    s.options("backend=cuda solver=cg").unwrap();
    s.factorize().unwrap();
    let mut b = vec![1.0; a.n];
    b[17] = f64::NAN;
    let mut x = vec![0.5; a.n];
    s.solve(&b, &mut x).unwrap_err().expect(status::NOT_FINITE, &["b", "17"]);
    assert_eq!(x, vec![0.5; a.n]);
    s.product(&b, false).unwrap_err().expect(status::NOT_FINITE, &["x", "17"]);
    let (there, y) = (DeviceArray::new(&b), DeviceArray::new(&x));
    // SAFETY: a live handle; arrays of its rows on the device.
    let failure = outcome(unsafe { sparse_multiply(s.handle, there.0 as *const f64, y.0 as *mut f64) }).unwrap_err();
    failure.expect(status::NOT_FINITE, &["x", "17"]);
}

device::device_tests! { devices();
    products_of_every_format
    empty_and_diagonal
    counts_of_the_table
    repeated_solves
    second_factorizations
    products_of_new_values
    transposes_of_new_values
    new_values_at_any_time
    indefinite_systems
    multicolour_sweeps
    triangular_solves_by_colours
    jacobi_steps_of_the_finest_level
    multigrid
    not_on_a_device
    bad_values
    counts_in_single
    methods_in_single
    hard_systems_in_single
    refusals_of_single
}
