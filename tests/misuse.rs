//! Wrong calls that several families refuse alike, as a matrix of families and misuses. A misuse returns its status and
//! an error message that names the argument, leaves outputs and handle unchanged, and does not end the program. The
//! files `misuse.rs` of the families have the wrong calls of one family.
//!
//! A new family is an entry in `FAMILIES`.

#[path = "common/mod.rs"]
mod common;

use common::problems::{random_m_matrix, random_rhs};
use common::smoother::Level;
use common::{Failure, dpcg, key, norm2, outcome, smoother, status};
use rrbsolver::abi::*;
use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{dangling_mut, null, null_mut};

type Handle = *mut c_void;
/// A call that reads one array and writes another.
type VectorCall = fn(Handle, *const f64, *mut f64) -> i32;

/// Returns |b - A x| / |b|.
type Residual = Box<dyn Fn(&[f64]) -> f64>;
/// A solve in one call: arrays of the matrix, b, x, and the number of iterations.
type SolveOnce = fn(&[*const f64], *const f64, *mut f64, *mut i64) -> i32;

/// Calls that every family has.
struct Calls {
    destroy: fn(*mut Handle) -> i32,
    set_int: fn(Handle, i32, i64) -> i32,
    set_real: fn(Handle, i32, f64) -> i32,
    set_options: fn(Handle, *const c_char) -> i32,
    remove_monitor: fn(Handle) -> i32,
    set_stream: fn(Handle) -> i32,
    get_int: fn(Handle, i32, *mut i64) -> i32,
    get_real: fn(Handle, i32, *mut f64) -> i32,
    get_history: fn(Handle, *mut f64, i64, *mut i64) -> i32,
}

// SAFETY of the calls: the pointers go to exported functions, which check them as for a caller in C. A test passes
// null, a handle of the same family, or arrays of the length that the call reads or writes.
macro_rules! calls {
    ($destroy:ident $set_int:ident $set_real:ident $set_options:ident $set_monitor:ident $set_stream:ident
     $get_int:ident $get_real:ident $get_history:ident) => {
        Calls {
            destroy: |h| unsafe { $destroy(h.cast()) },
            set_int: |h, key, value| unsafe { $set_int(h.cast(), key, value) },
            set_real: |h, key, value| unsafe { $set_real(h.cast(), key, value) },
            set_options: |h, text| unsafe { $set_options(h.cast(), text) },
            remove_monitor: |h| unsafe { $set_monitor(h.cast(), None, null_mut()) },
            set_stream: |h| unsafe { $set_stream(h.cast(), null_mut()) },
            get_int: |h, key, value| unsafe { $get_int(h.cast(), key, value) },
            get_real: |h, key, value| unsafe { $get_real(h.cast(), key, value) },
            get_history: |h, values, capacity, count| unsafe { $get_history(h.cast(), values, capacity, count) },
        }
    };
}

/// A system of the size of a family's handles.
struct Data {
    /// Arrays of the matrix, in the order of the arguments.
    arrays: Vec<Vec<f64>>,
    b: Vec<f64>,
    residual: Residual,
}

/// A family with its calls.
struct Family {
    name: &'static str,
    calls: Calls,
    /// Creates a handle without a matrix.
    create: fn(*mut Handle) -> i32,
    /// A failing call of a function that creates a handle, and its status.
    create_wrongly: (fn(*mut Handle) -> i32, i32),
    /// Name of the call that provides the matrix.
    prepare: &'static str,
    /// Names of the arrays of the matrix.
    arrays: &'static [&'static str],
    factorize: fn(Handle, &[*const f64]) -> i32,
    solve_once: Option<SolveOnce>,
    data: fn() -> Data,
    /// Calls with their argument names, and whether they need the matrix.
    vectors: &'static [(VectorCall, [&'static str; 2], bool)],
    /// Options that select the backends.
    backends: &'static [&'static str],
    /// Results that are zero before the matrix is there.
    zero_before: &'static [i32],
    /// Options that take effect at the next factorize, and options that take effect at once.
    later: &'static [&'static str],
    at_once: &'static [&'static str],
    /// Texts that `set_options` refuses, with status and words of the error message.
    refused: &'static [(&'static str, i32, &'static [&'static str])],
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "handles are live or NULL, arrays have the size of the handle")]
static FAMILIES: [Family; 4] = [
    Family {
        name: "rrb",
        calls: calls! {
            rrb_destroy rrb_set_int rrb_set_real rrb_set_options rrb_set_monitor rrb_set_stream rrb_get_int
            rrb_get_real rrb_get_history
        },
        create: |out| unsafe { rrb_create(6, 5, out.cast()) },
        create_wrongly: (|out| unsafe { rrb_create(0, 5, out.cast()) }, status::DIMENSION),
        prepare: "rrb_factorize",
        arrays: &["center", "east", "north", "northeast", "northwest"],
        factorize: |h, a| unsafe { rrb_factorize(h.cast(), a[0], a[1], a[2], a[3], a[4]) },
        solve_once: Some(|a, b, x, iterations| unsafe {
            rrb_solve_once(6, 5, a[0], a[1], a[2], a[3], a[4], b, x, 1e-6, 100, iterations)
        }),
        data: || {
            let (a, b) = (random_m_matrix(6, 5, true, 1), random_rhs(30, 1));
            let (ne, nw) = a.corners.clone().unwrap();
            let arrays = vec![a.center.clone(), a.east.clone(), a.north.clone(), ne, nw];
            let of_residual = b.clone();
            Data { arrays, b, residual: Box::new(move |x| norm2(&a.residual(&of_residual, x)) / norm2(&of_residual)) }
        },
        vectors: &[
            (|h, b, x| unsafe { rrb_solve(h.cast(), b, x) }, ["b", "x"], true),
            (|h, r, z| unsafe { rrb_apply(h.cast(), r, z) }, ["r", "z"], true),
            (|h, x, y| unsafe { rrb_multiply(h.cast(), x, y) }, ["x", "y"], true),
        ],
        backends: &["backend=reference", "backend=cpu threads=2"],
        zero_before: &[key::INFO_ITERATIONS, key::INFO_LEVELS],
        later: &[
            "levels=1",
            "grids=1",
            "lumping=m2",
            "relaxation=0.9",
            "leading_dimension=6",
            "threads=3",
            "device=1",
            "precision=f64",
            "cycle=v",
        ],
        at_once: &[
            "rel_tol=1e-3",
            "abs_tol=1e-9",
            "norm=preconditioned",
            "reference=initial",
            "max_iter=50",
            "verbosity=1",
            "check_input=0",
            "check_compatibility=1",
        ],
        refused: &[
            ("levls=3", status::OPTION, &["levls", "did you mean", "levels"]),
            ("rel-tol=1e-3", status::OPTION, &["rel-tol", "did you mean", "rel_tol"]),
            ("backend=gpu", status::OPTION, &["backend", "gpu", "did you mean"]),
            ("backend=cudda", status::OPTION, &["cudda", "did you mean", "cuda"]),
            ("lumping=m1x", status::OPTION, &["lumping", "m1x", "did you mean"]),
            ("cycle=w", status::OPTION, &["cycle", "w"]),
            ("precision=single", status::OPTION, &["auto, f64, f32, bf16, mixed, got 'single'"]),
            ("levels", status::OPTION, &["levels"]),
            ("=5", status::OPTION, &[]),
            ("levels=-1", status::ARGUMENT, &["levels", "-1"]),
            ("levels=abc", status::ARGUMENT, &["levels", "abc"]),
            ("levels=", status::ARGUMENT, &["levels"]),
            ("levels=1.5", status::ARGUMENT, &["levels", "1.5"]),
            ("levels=99999999999999999999", status::ARGUMENT, &["levels", "99999999999999999999"]),
            ("rel_tol=1e-8x", status::ARGUMENT, &["rel_tol", "1e-8x"]),
            ("rel_tol=NaN", status::ARGUMENT, &["rel_tol", "NaN"]),
            ("relaxation=2", status::ARGUMENT, &["relaxation", "2"]),
            ("max_iter=-4", status::ARGUMENT, &["max_iter", "-4"]),
        ],
    },
    Family {
        name: "dpcg",
        calls: calls! {
            dpcg_destroy dpcg_set_int dpcg_set_real dpcg_set_options dpcg_set_monitor dpcg_set_stream dpcg_get_int
            dpcg_get_real dpcg_get_history
        },
        create: |out| unsafe { dpcg_create(8, 6, 7, out.cast()) },
        create_wrongly: (|out| unsafe { dpcg_create(5, 5, 0, out.cast()) }, status::DIMENSION),
        prepare: "dpcg_factorize",
        arrays: &["center", "east", "north", "top"],
        factorize: |h, a| unsafe { dpcg_factorize(h.cast(), a[0], a[1], a[2], a[3]) },
        solve_once: Some(|a, b, x, iterations| unsafe {
            dpcg_solve_once(8, 6, 7, a[0], a[1], a[2], a[3], b, x, 1e-6, 100, iterations)
        }),
        data: || {
            let a = dpcg::TwoPhase::new("1", [8, 6, 7], 1e-3);
            let b = a.rhs("rand");
            let arrays = [&a.center].into_iter().chain(&a.forward).cloned().collect();
            let of_residual = b.clone();
            Data { arrays, b, residual: Box::new(move |x| a.relative_residual(&of_residual, x)) }
        },
        vectors: &[
            (|h, b, x| unsafe { dpcg_solve(h.cast(), b, x) }, ["b", "x"], true),
            (|h, r, z| unsafe { dpcg_apply(h.cast(), r, z) }, ["r", "z"], true),
            (|h, x, y| unsafe { dpcg_multiply(h.cast(), x, y) }, ["x", "y"], true),
        ],
        backends: &["backend=reference", "backend=cpu threads=2"],
        zero_before: &[key::INFO_ITERATIONS, dpcg::key::INFO_DEFLATION_VECTORS],
        later: &[
            "preconditioner=neumann",
            "order=3",
            "ric_omega=0.9",
            "deflation=subdomain",
            "subdomains_x=2",
            "keep_all=1",
            "coarse_solver=cholesky",
            "coarse_tol=1e-8",
            "coarsening=cell",
            "sweeps=1",
            "dilation=1",
            "precision=f64",
            "fusion=off",
            "leading_dimension=8",
            "leading_plane=48",
            "null_space=constant",
            "threads=3",
        ],
        at_once: &["rel_tol=1e-4", "max_iter=400", "norm=preconditioned", "verbosity=1", "check_input=0"],
        refused: &[
            ("levels=3", status::OPTION, &["dpcg_ has no option levels: it belongs to rrb_"]),
            ("omega=1", status::OPTION, &["dpcg_ has no option omega: it belongs to smoother_"]),
            ("preconditoner=ric", status::OPTION, &["did you mean 'preconditioner'"]),
            ("preconditioner=ssor", status::OPTION, &["amg, got", "ssor"]),
            ("preconditioner=ilu0", status::OPTION, &["amg, got", "ilu0"]),
            ("preconditioner=chebyshev", status::OPTION, &["amg, got", "chebyshev"]),
            ("precision=bf16", status::OPTION, &["auto, f64, f32, got 'bf16'"]),
            ("precision=single", status::OPTION, &["auto, f64, f32, got 'single'"]),
            ("order=9", status::ARGUMENT, &["order must lie in [0, 8], got 9"]),
            ("ric_omega=1.5", status::ARGUMENT, &["ric_omega must lie in [0, 1], got 1.5"]),
            ("coarse_tol=1", status::ARGUMENT, &["coarse_tol must lie in (0, 1), got 1"]),
            ("sweeps=3", status::ARGUMENT, &["sweeps must lie in [0, 2], got 3"]),
            ("dilation=2", status::ARGUMENT, &["dilation must lie in [-1, 1], got 2"]),
            ("subdomains_x=-1", status::ARGUMENT, &["subdomains_x"]),
        ],
    },
    Family {
        name: "sparse",
        calls: calls! {
            sparse_destroy sparse_set_int sparse_set_real sparse_set_options sparse_set_monitor sparse_set_stream
            sparse_get_int sparse_get_real sparse_get_history
        },
        create: |out| {
            let [row, col] = [[0i32, 0, 1, 1], [0, 1, 0, 1]].map(Vec::from);
            let [i, j] = [&row, &col].map(|index| index.as_ptr().cast());
            unsafe { sparse_create_coo(2, 2, 4, i, j, [4.0, 1.0, 1.0, 3.0].as_ptr(), 4, 0, out.cast()) }
        },
        create_wrongly: (
            |out| unsafe { sparse_create_coo(-1, 1, 0, null(), null(), null(), 4, 0, out.cast()) },
            status::DIMENSION,
        ),
        prepare: "sparse_factorize",
        arrays: &[],
        factorize: |h, _| unsafe { sparse_factorize(h.cast()) },
        solve_once: None,
        data: || {
            let residual = |x: &[f64]| norm2(&[5.0 - 4.0 * x[0] - x[1], 4.0 - x[0] - 3.0 * x[1]]) / 41.0_f64.sqrt();
            Data { arrays: Vec::new(), b: vec![5.0, 4.0], residual: Box::new(residual) }
        },
        vectors: &[
            (|h, b, x| unsafe { sparse_solve(h.cast(), b, x) }, ["b", "x"], true),
            (|h, r, z| unsafe { sparse_apply(h.cast(), r, z) }, ["r", "z"], true),
            (|h, x, y| unsafe { sparse_multiply(h.cast(), x, y) }, ["x", "y"], false),
            (|h, x, y| unsafe { sparse_multiply_transposed(h.cast(), x, y) }, ["x", "y"], false),
        ],
        backends: &["backend=cpu"],
        zero_before: &[key::INFO_ITERATIONS],
        later: &["solver=bicgstab", "preconditioner=jacobi", "threads=2"],
        at_once: &["rel_tol=1e-4", "max_iter=50", "verbosity=1", "check_input=0"],
        refused: &[
            ("format=csx", status::OPTION, &["format must be one of auto, coo, csr", "did you mean 'csr'"]),
            ("slice=257", status::ARGUMENT, &["slice must lie in [0, 256]"]),
            ("block_size=33", status::ARGUMENT, &["block_size must lie in [0, 32]"]),
            ("norm=true2", status::OPTION, &["sparse_ has no option norm", "tests the 2-norm"]),
            ("backend=reference", status::OPTION, &["backend must be one of auto, cpu, cuda, got 'reference'"]),
            ("levels=3", status::OPTION, &["sparse_ has no option levels", "belongs to rrb_"]),
        ],
    },
    Family {
        name: "smoother",
        calls: calls! {
            smoother_destroy smoother_set_int smoother_set_real smoother_set_options smoother_set_monitor
            smoother_set_stream smoother_get_int smoother_get_real smoother_get_history
        },
        create: |out| unsafe { smoother_create(7, smoother::stencil("poisson7").as_ptr(), 4, 4, 4, out.cast()) },
        create_wrongly: (
            |out| unsafe { smoother_create(7, smoother::stencil("poisson7").as_ptr(), 4, 0, 4, out.cast()) },
            status::DIMENSION,
        ),
        prepare: "smoother_set_patches",
        arrays: &[],
        factorize: |h, _| unsafe { smoother_set_patches(h.cast(), 1, [[0i64; 3]].as_ptr(), [[8i64; 3]].as_ptr()) },
        solve_once: None,
        data: || Data { arrays: Vec::new(), b: Vec::new(), residual: Box::new(|_| 0.0) },
        vectors: &[],
        backends: &["backend=reference", "backend=cpu threads=2"],
        zero_before: &[],
        later: &["block_solver=dense", "threads=3"],
        at_once: &["omega=0.9", "check_input=0"],
        refused: &[
            ("metod=block_jacobi", status::OPTION, &["metod", "did you mean 'method'"]),
            ("method=jacobi", status::OPTION, &["method", "block_jacobi"]),
            ("levels=3", status::OPTION, &["levels"]),
            ("omega=2.5", status::ARGUMENT, &["omega", "[0, 2]", "2.5"]),
        ],
    },
];

/// A handle of a family, with a system of its size. The handle is destroyed twice at the end.
struct Solver<'a> {
    family: &'a Family,
    handle: Handle,
    data: Data,
}

impl Drop for Solver<'_> {
    fn drop(&mut self) {
        for _ in 0..2 {
            assert_eq!((self.family.calls.destroy)(&mut self.handle), status::OK, "{}", self.family.name);
            assert!(self.handle.is_null(), "{}", self.family.name);
        }
    }
}

impl<'a> Solver<'a> {
    /// Creates a handle without a matrix.
    fn new(family: &'a Family, options: &str) -> Self {
        let mut handle = null_mut();
        assert_eq!((family.create)(&mut handle), status::OK);
        let solver = Solver { family, handle, data: (family.data)() };
        solver.options(options).unwrap();
        solver
    }

    fn options(&self, text: &str) -> Result<i32, Failure> {
        outcome((self.family.calls.set_options)(self.handle, CString::new(text).unwrap().as_ptr()))
    }

    fn arrays(&self) -> Vec<*const f64> {
        self.data.arrays.iter().map(|array| array.as_ptr()).collect()
    }

    #[track_caller]
    fn factorize(&self) {
        outcome((self.family.factorize)(self.handle, &self.arrays())).expect(self.family.name);
    }

    /// Uses the handle: solves the system, or smooths. Returns the relative residual of a solution, or 0.
    #[track_caller]
    fn work(&self) -> Result<f64, Failure> {
        let (Data { b, residual, .. }, name) = (&self.data, self.family.name);
        if let Some((solve, ..)) = self.family.vectors.first() {
            let mut x = vec![0.0; b.len()];
            assert_eq!(outcome(solve(self.handle, b.as_ptr(), x.as_mut_ptr()))?, status::OK, "{name}");
            return Ok(residual(&x));
        }
        let mut level = Level::cube(8);
        level.random(1);
        let smoother = ManuallyDrop::new(smoother::Smoother { handle: self.handle.cast() });
        let start = smoother.try_norm(&mut level)?;
        assert_eq!(smoother.apply(&mut level, 2)?, status::OK, "{name}");
        assert!(smoother.norm(&mut level) < start, "{name}");
        Ok(0.0)
    }

    /// Checks that the handle accepts a matrix and solves with the default tolerance 1e-6.
    #[track_caller]
    fn assert_alive(&self) {
        self.factorize();
        let residual = self.work().expect(self.family.name);
        assert!(residual <= 1.001e-6, "{}: {residual:e}", self.family.name);
    }
}

/// Checks that a call with NULL was refused.
#[track_caller]
fn refused(status: i32, name: &str) {
    outcome(status).unwrap_err().expect(status::NULL, &[name, "NULL"]);
}

#[track_caller]
fn refused_address(status: i32, name: &str) {
    let message = format!("{name} must be 8-byte aligned");
    outcome(status).unwrap_err().expect(status::ARGUMENT, &[&message]);
}

#[test]
fn handles_that_are_null() {
    let text = CString::new("threads=2").unwrap();
    for Family { calls, vectors, factorize, data, .. } in &FAMILIES {
        let (none, data) = (null_mut(), data());
        let (mut count, mut real, mut x) = (5, 5.0, vec![7.0; data.b.len()]);
        refused((calls.set_int)(none, key::THREADS, 2), "handle");
        refused((calls.set_real)(none, key::REL_TOL, 0.1), "handle");
        refused((calls.set_options)(none, text.as_ptr()), "handle");
        refused((calls.remove_monitor)(none), "handle");
        refused((calls.set_stream)(none), "handle");
        refused((calls.get_int)(none, key::THREADS, &mut count), "handle");
        refused((calls.get_real)(none, key::INFO_SECONDS_SETUP, &mut real), "handle");
        refused((calls.get_history)(none, null_mut(), 0, &mut count), "handle");
        refused(factorize(none, &data.arrays.iter().map(|array| array.as_ptr()).collect::<Vec<_>>()), "handle");
        for (call, ..) in *vectors {
            refused(call(none, data.b.as_ptr(), x.as_mut_ptr()), "handle");
        }
        assert_eq!((calls.destroy)(null_mut()), status::OK);
        assert_eq!((count, real), (5, 5.0), "outputs of failed calls are untouched");
        assert!(x.iter().all(|&x| x == 7.0));
    }
}

#[test]
fn handles_that_are_not_created() {
    for family in &FAMILIES {
        refused((family.create)(null_mut()), "out");
        let (create, expected) = family.create_wrongly;
        let mut out = dangling_mut();
        assert_eq!(create(&mut out), expected, "{}", family.name);
        assert_eq!(out, dangling_mut(), "{}: out is untouched", family.name);
    }
}

#[test]
fn arguments_that_are_null() {
    for family in &FAMILIES {
        let (solver, calls) = (Solver::new(family, ""), &family.calls);
        let h = solver.handle;
        solver.factorize();
        let (mut count, mut values) = (5, [7.0; 4]);
        refused((calls.set_options)(h, null()), "text");
        refused((calls.get_int)(h, key::THREADS, null_mut()), "value");
        refused((calls.get_real)(h, key::INFO_SECONDS_SETUP, null_mut()), "value");
        refused((calls.get_history)(h, null_mut(), 0, null_mut()), "count");
        refused((calls.get_history)(h, null_mut(), 4, &mut count), "residuals");
        let negative = outcome((calls.get_history)(h, values.as_mut_ptr(), -1, &mut count));
        negative.unwrap_err().expect(status::ARGUMENT, &["capacity", "-1"]);
        let (b, mut x) = (&solver.data.b, vec![7.0; solver.data.b.len()]);
        for (call, [input, output], _) in family.vectors {
            refused(call(h, null(), x.as_mut_ptr()), input);
            refused(call(h, b.as_ptr(), null_mut()), output);
        }
        // The array of the matrix, and of a solve in one call.
        for (k, name) in family.arrays.iter().enumerate() {
            let mut arrays = solver.arrays();
            arrays[k] = null();
            refused((family.factorize)(h, &arrays), name);
            let failure = outcome(family.vectors[0].0(h, b.as_ptr(), x.as_mut_ptr())).unwrap_err();
            failure.expect(status::STATE, &[family.prepare]);
            solver.factorize();
            if let Some(solve_once) = family.solve_once {
                refused(solve_once(&arrays, b.as_ptr(), x.as_mut_ptr(), &mut count), name);
                refused(solve_once(&solver.arrays(), null(), x.as_mut_ptr(), &mut count), "b");
                refused(solve_once(&solver.arrays(), b.as_ptr(), null_mut(), &mut count), "x");
            }
        }
        assert_eq!((count, values), (5, [7.0; 4]), "{}: outputs of failed calls are untouched", family.name);
        assert!(x.iter().all(|&x| x == 7.0), "{}", family.name);
        solver.assert_alive();
    }
    // SAFETY: NULL is what is tested.
    refused(unsafe { rrbsolver_cuda_device_count(null_mut()) }, "count");
}

/// A misaligned array is reported by name, for every array of every call, and is neither read nor written.
#[test]
fn arrays_that_are_misaligned() {
    for family in &FAMILIES {
        let solver = Solver::new(family, "");
        solver.factorize();
        let (h, b) = (solver.handle, solver.data.b.as_ptr());
        let (mut x, mut space, mut count) = (vec![7.0; solver.data.b.len()], vec![0.0; solver.data.b.len() + 4], 0);
        let y = x.as_mut_ptr();
        for byte in [1, 2, 4, 7] {
            let astray = space.as_mut_ptr().wrapping_byte_add(byte);
            refused_address((family.calls.get_history)(h, astray, 3, &mut count), "residuals");
            for (call, [input, output], _) in family.vectors {
                refused_address(call(h, astray, y), input);
                refused_address(call(h, b, astray), output);
            }
            for (k, name) in family.arrays.iter().enumerate() {
                let mut arrays = solver.arrays();
                arrays[k] = astray;
                if let Some(solve_once) = family.solve_once {
                    refused_address(solve_once(&arrays, b, y, null_mut()), name);
                    refused_address(solve_once(&solver.arrays(), astray, y, null_mut()), "b");
                    refused_address(solve_once(&solver.arrays(), b, astray, null_mut()), "x");
                }
                refused_address((family.factorize)(h, &arrays), name);
            }
            solver.factorize();
        }
        assert!(x.iter().all(|&x| x == 7.0) && space.iter().all(|&v| v == 0.0), "{}", family.name);
        solver.assert_alive();
    }
}

/// Input and output must not overlap; adjacent parts of one array are allowed. The output of a solve in one call must
/// not overlap any input.
#[test]
fn arrays_that_overlap() {
    for family in &FAMILIES {
        let solver = Solver::new(family, "");
        solver.factorize();
        let (h, n) = (solver.handle, solver.data.b.len());
        let mut both = vec![1.0; 3 * n];
        let base = both.as_mut_ptr();
        for (call, names, _) in family.vectors {
            let overlapping = [(n, n), (n, n + 1), (n + 1, n), (n, 2 * n - 1), (2 * n - 1, n), (n, 1)];
            for (from, to) in overlapping {
                let failure = outcome(call(h, base.wrapping_add(from), base.wrapping_add(to))).unwrap_err();
                failure.expect(status::ARGUMENT, &["overlap", names[0], names[1]]);
            }
            assert!(both.iter().all(|&v| v == 1.0), "{}", family.name);
            for (from, to) in [(n, 2 * n), (2 * n, n), (0, 2 * n)] {
                let result = call(h, base.wrapping_add(from), base.wrapping_add(to));
                assert_eq!(result, status::OK, "{}", family.name);
                both.fill(1.0);
            }
        }
        let Some(solve_once) = family.solve_once else { continue };
        let mut inputs = solver.data.arrays.clone();
        inputs.push(solver.data.b.clone());
        let before = inputs.clone();
        for k in 0..inputs.len() {
            let p: Vec<*mut f64> = inputs.iter_mut().map(|array| array.as_mut_ptr()).collect();
            let (b, arrays) = p.split_last().unwrap();
            let arrays: Vec<*const f64> = arrays.iter().map(|p| p.cast_const()).collect();
            outcome(solve_once(&arrays, *b, p[k], null_mut())).unwrap_err().expect(status::ARGUMENT, &["overlap", "x"]);
        }
        let same = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(inputs.iter().zip(&before).all(same), "{}", family.name);
    }
}

/// Calls before the matrix is there, and options that take effect at the next factorize.
#[test]
fn calls_in_the_wrong_order() {
    for (family, backend) in FAMILIES.iter().flat_map(|family| family.backends.iter().map(move |b| (family, b))) {
        let (solver, what) = (Solver::new(family, backend), format!("{} {backend}", family.name));
        let state = |failure: Failure, words: &[&str]| failure.expect(status::STATE, words);
        let (b, mut x) = (&solver.data.b, vec![2.0; solver.data.b.len()]);
        for (call, ..) in family.vectors.iter().filter(|(.., needs_matrix)| *needs_matrix) {
            state(outcome(call(solver.handle, b.as_ptr(), x.as_mut_ptr())).unwrap_err(), &[family.prepare]);
        }
        state(solver.work().unwrap_err(), &[family.prepare]);
        for key in family.zero_before {
            let mut value = -1;
            assert_eq!((family.calls.get_int)(solver.handle, *key, &mut value), status::OK, "{what}");
            assert_eq!(value, 0, "{what}: result {key}");
        }
        solver.assert_alive();
        let others = family.backends.iter().filter(|other| *other != backend);
        for option in family.later.iter().chain(others) {
            solver.options(option).unwrap();
            state(solver.work().unwrap_err(), &["an option", family.prepare]);
            for (call, ..) in family.vectors.iter().take(1) {
                let failure = outcome(call(solver.handle, b.as_ptr(), x.as_mut_ptr())).unwrap_err();
                state(failure, &["an option", family.prepare]);
            }
            assert!(x.iter().all(|&x| x == 2.0), "{what} {option}");
            solver.assert_alive();
        }
        for option in family.at_once {
            solver.options(option).unwrap();
            solver.work().unwrap_or_else(|failure| panic!("{what}: {option} takes effect at once: {failure:?}"));
        }
    }
}

#[test]
fn options_that_are_refused() {
    for family in &FAMILIES {
        let (solver, calls) = (Solver::new(family, ""), &family.calls);
        for (text, status, words) in family.refused {
            solver.options(text).unwrap_err().expect(*status, words);
        }
        let (mut int, mut real) = (5, 5.0);
        for unknown in [99, 4321, -1, i32::MIN] {
            let words = [&*unknown.to_string()];
            outcome((calls.set_int)(solver.handle, unknown, 1)).unwrap_err().expect(status::OPTION, &words);
            outcome((calls.set_real)(solver.handle, unknown, 1.0)).unwrap_err().expect(status::OPTION, &words);
            outcome((calls.get_int)(solver.handle, unknown, &mut int)).unwrap_err().expect(status::OPTION, &words);
            outcome((calls.get_real)(solver.handle, unknown, &mut real)).unwrap_err().expect(status::OPTION, &words);
        }
        // A call for the wrong type is an error that suggests the right function.
        let failure = outcome((calls.get_int)(solver.handle, key::INFO_SECONDS_SETUP, &mut int)).unwrap_err();
        failure.expect(status::OPTION, &["real"]);
        let failure = outcome((calls.set_real)(solver.handle, key::THREADS, 2.0)).unwrap_err();
        failure.expect(status::OPTION, &["threads", "set_int"]);
        let failure = outcome((calls.set_int)(solver.handle, key::LOG, 1)).unwrap_err();
        failure.expect(status::OPTION, &["log", "set_options"]);
        // Text is applied completely or not at all.
        solver.options("threads=3 nonsense=1").unwrap_err().expect(status::OPTION, &["nonsense"]);
        assert_eq!((calls.get_int)(solver.handle, key::THREADS, &mut int), status::OK);
        assert_eq!((int, real), (0, 5.0), "{}", family.name);
        solver.assert_alive();
    }
}

/// Without a driver, device or kernels, the status says so, and the error message names the option; `auto` uses the
/// CPU.
#[test]
fn devices_that_are_not_there() {
    for family in &FAMILIES {
        let solver = Solver::new(family, "");
        // sparse_factorize has no arrays, so memory=device does not apply to it.
        let options = ["backend=cuda", "memory=device"];
        for option in &options[..if family.name == "sparse" { 1 } else { 2 }] {
            solver.options(&format!("{option} device={}", common::devices())).unwrap();
            let failure = outcome((family.factorize)(solver.handle, &solver.arrays())).unwrap_err();
            assert!([status::NO_DEVICE, status::UNSUPPORTED].contains(&failure.status), "{}: {failure:?}", family.name);
            let named = ["device", "backend"].iter().any(|word| failure.message.contains(word));
            assert!(named, "{}: {failure:?}", family.name);
            solver.work().unwrap_err().expect(status::STATE, &[family.prepare]);
            solver.options("backend=auto memory=auto device=0").unwrap();
        }
        solver.assert_alive();
    }
}
