//! Safe wrappers of the C interface for tests. They do not check arguments, because the library must check them.
#![allow(dead_code, unused_imports)] // Each test program uses only a part of this module.

pub mod applied;
pub mod dense;
pub mod dpcg;
pub mod smoother;
pub mod sparse;
pub mod truth;

pub use rrbsolver_problems as problems;
pub use rrbsolver_problems::golden::{PAPERS, PAPERS_NORM};

use problems::{Stencil, neumann_const, poisson, random_m_matrix, random_rhs};
pub use rrbsolver::abi::rrb_handle as Handle;
pub use rrbsolver::abi::{
    rrb_apply, rrb_create, rrb_destroy, rrb_factorize, rrb_get_history, rrb_get_int, rrb_get_real, rrb_multiply,
    rrb_set_int, rrb_set_monitor, rrb_set_options, rrb_set_real, rrb_set_stream, rrb_solve, rrb_solve_once,
    rrbsolver_cuda_device_count, rrbsolver_last_error, rrbsolver_last_error_based, rrbsolver_set_log,
    rrbsolver_status_string, rrbsolver_version,
};
use std::ffi::{CString, c_void};
use std::process::{Command, Output};
use std::ptr::{null, null_mut};

/// Status numbers, repeated here so that a changed number fails a test.
pub mod status {
    pub const OK: i32 = 0;
    pub const NOT_CONVERGED: i32 = 1;
    pub const STOPPED: i32 = 2;
    pub const NULL: i32 = -1;
    pub const ARGUMENT: i32 = -2;
    pub const DIMENSION: i32 = -3;
    pub const OPTION: i32 = -4;
    pub const STATE: i32 = -5;
    pub const UNSUPPORTED: i32 = -6;
    pub const MATRIX: i32 = -20;
    pub const NOT_FINITE: i32 = -21;
    pub const BREAKDOWN: i32 = -22;
    pub const INCOMPATIBLE: i32 = -23;
    pub const RANGE: i32 = -24;
    pub const MEMORY: i32 = -30;
    pub const NO_DEVICE: i32 = -40;
    pub const DEVICE: i32 = -41;
    pub const IO: i32 = -50;
    pub const PARSE: i32 = -51;
    pub const INTERNAL: i32 = -99;
}

/// Key numbers, repeated here so that a changed number fails a test.
pub mod key {
    pub const BACKEND: i32 = 100;
    pub const DEVICE: i32 = 101;
    pub const THREADS: i32 = 102;
    pub const MEMORY: i32 = 103;
    pub const REL_TOL: i32 = 104;
    pub const ABS_TOL: i32 = 105;
    pub const MAX_ITER: i32 = 106;
    pub const NORM: i32 = 107;
    pub const REFERENCE: i32 = 108;
    pub const NULL_SPACE: i32 = 109;
    pub const CHECK_INPUT: i32 = 110;
    pub const CHECK_COMPATIBILITY: i32 = 111;
    pub const VERBOSITY: i32 = 112;
    pub const LOG: i32 = 113;
    pub const LEVELS: i32 = 200;
    pub const COARSE_MEMORY: i32 = 201;
    pub const GRIDS: i32 = 202;
    pub const COMPUTE_BLOCK: i32 = 203;
    pub const LUMPING: i32 = 204;
    pub const RELAXATION: i32 = 205;
    pub const FUSION: i32 = 206;
    pub const COMPENSATION: i32 = 207;
    pub const PRECISION: i32 = 208;
    pub const CYCLE: i32 = 209;
    pub const CYCLE_SPACING: i32 = 210;
    pub const CYCLE_STEPS: i32 = 211;
    pub const LEADING_DIMENSION: i32 = 212;
    pub const INFO_ITERATIONS: i32 = 1000;
    pub const INFO_STOP_REASON: i32 = 1001;
    pub const INFO_INITIAL_RESIDUAL: i32 = 1002;
    pub const INFO_FINAL_RESIDUAL: i32 = 1003;
    pub const INFO_SECONDS_SETUP: i32 = 1004;
    pub const INFO_SECONDS_SOLVE: i32 = 1005;
    pub const INFO_SECONDS_TRANSFER: i32 = 1006;
    pub const INFO_BYTES_HOST: i32 = 1007;
    pub const INFO_BYTES_DEVICE: i32 = 1008;
    pub const INFO_LAMBDA_MIN: i32 = 1009;
    pub const INFO_LAMBDA_MAX: i32 = 1010;
    pub const INFO_BACKEND: i32 = 1011;
    pub const INFO_DEVICE: i32 = 1012;
    pub const INFO_THREADS: i32 = 1013;
    pub const INFO_LEVELS: i32 = 1100;
    pub const INFO_PRECISION: i32 = 1101;
    pub const INFO_CYCLE: i32 = 1102;
    pub const INFO_COMPONENTS: i32 = 1103;
    pub const INFO_SINGULAR_COMPONENTS: i32 = 1104;
    pub const INFO_COMPENSATED_COUPLINGS: i32 = 1105;
    pub const INFO_GRIDS: i32 = 1106;
    pub const INFO_AGGREGATES_KEPT: i32 = 1108;
    pub const INFO_BYTES_SENT: i32 = 1111;
}

/// A failed call: its status and its error message.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub status: i32,
    pub message: String,
}

impl Failure {
    /// Fails the test unless the status matches and the error message contains all words.
    #[track_caller]
    pub fn expect(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}", self.message);
        for word in words {
            assert!(self.message.contains(word), "no '{word}' in: {}", self.message);
        }
    }
}

/// Returns the error message of this thread's last failed call.
pub fn last_error() -> String {
    let mut buffer = vec![0u8; 2048];
    // SAFETY: the buffer has the length passed.
    let needed = unsafe { rrbsolver_last_error(buffer.as_mut_ptr().cast(), buffer.len() as i64) };
    assert!(needed >= 0);
    let end = buffer.iter().position(|&c| c == 0).expect("NUL-terminated");
    String::from_utf8(buffer[..end].to_vec()).expect("UTF-8")
}

/// Checks the message of a solve that returned `RRB_NOT_CONVERGED`: iterations, residual, target and stop reason.
#[track_caller]
pub fn expect_not_converged(iterations: i64, residual: f64, target: &str, reason: &str) {
    let plural = if iterations == 1 { "" } else { "s" };
    let numbers = format!("{iterations} iteration{plural}, relative residual {residual:.1e}, target {target}");
    let message = last_error();
    assert_eq!(message, format!("not converged: {numbers} ({reason}, or see the tutorial not-converged)"));
}

pub const ITERATION_LIMIT: &str = "iteration limit reached; raise max_iter";
pub const STAGNATED: &str = "stagnated: the residual no longer decreases; raise rel_tol";
pub const DIVERGED: &str = "diverged, x is the initial guess; check the matrix";

/// Converts the status of a raw call to a result; positive statuses count as success.
pub fn outcome(status: i32) -> Result<i32, Failure> {
    if status >= 0 { Ok(status) } else { Err(Failure { status, message: last_error() }) }
}

/// Returns the address of an array, or NULL.
pub fn pointer(array: Option<&Vec<f64>>) -> *const f64 {
    array.map_or(null(), |a| a.as_ptr())
}

/// Copies an array to rows of `ld` values, padded with `filler`.
pub fn padded(array: &[f64], nx: usize, ld: usize, filler: f64) -> Vec<f64> {
    let mut wide = Vec::with_capacity(array.len() / nx * ld);
    for row in array.chunks(nx) {
        wide.extend_from_slice(row);
        wide.extend(std::iter::repeat_n(filler, ld - nx));
    }
    wide
}

/// Inverse of `padded`.
pub fn unpadded(wide: &[f64], nx: usize, ld: usize) -> Vec<f64> {
    wide.chunks(ld).flat_map(|row| row[..nx].iter().copied()).collect()
}

/// A handle of the family `rrb_`.
pub struct Solver {
    pub handle: *mut Handle,
}

// SAFETY: the C API allows a handle to move between threads.
unsafe impl Send for Solver {}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the handle came from rrb_create and is destroyed once.
        let status = unsafe { rrb_destroy(&mut self.handle) };
        assert_eq!(status, status::OK);
        assert!(self.handle.is_null());
    }
}

impl Solver {
    pub fn try_new(nx: i64, ny: i64) -> Result<Solver, Failure> {
        let mut handle = null_mut();
        // SAFETY: `handle` outlives the call.
        outcome(unsafe { rrb_create(nx, ny, &mut handle) })?;
        Ok(Solver { handle })
    }

    #[track_caller]
    pub fn new(nx: usize, ny: usize, options: &str) -> Solver {
        let solver = Solver::try_new(nx as i64, ny as i64).expect("create");
        solver.options(options).expect("options");
        solver
    }

    /// Creates a factorized handle.
    #[track_caller]
    pub fn of(stencil: &Stencil, options: &str) -> Solver {
        let solver = Solver::new(stencil.nx, stencil.ny, options);
        solver.factorize(stencil).expect("factorize");
        solver
    }

    pub fn options(&self, text: &str) -> Result<i32, Failure> {
        let text = CString::new(text).expect("no NUL in options");
        // SAFETY: a live handle and a NUL-terminated string.
        outcome(unsafe { rrb_set_options(self.handle, text.as_ptr()) })
    }

    pub fn set_int(&self, key: i32, value: i64) -> Result<i32, Failure> {
        // SAFETY: a live handle.
        outcome(unsafe { rrb_set_int(self.handle, key, value) })
    }

    pub fn set_real(&self, key: i32, value: f64) -> Result<i32, Failure> {
        // SAFETY: a live handle.
        outcome(unsafe { rrb_set_real(self.handle, key, value) })
    }

    #[track_caller]
    pub fn int(&self, key: i32) -> i64 {
        let mut value = i64::MIN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { rrb_get_int(self.handle, key, &mut value) }).expect("get_int");
        value
    }

    #[track_caller]
    pub fn real(&self, key: i32) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a live handle, `value` outlives the call.
        outcome(unsafe { rrb_get_real(self.handle, key, &mut value) }).expect("get_real");
        value
    }

    pub fn iterations(&self) -> usize {
        self.int(key::INFO_ITERATIONS) as usize
    }

    /// Returns the residuals of the last solve, from iteration 0 on.
    pub fn history(&self) -> Vec<f64> {
        let mut count = 0;
        // SAFETY: NULL with capacity 0 is allowed; `count` outlives the call.
        outcome(unsafe { rrb_get_history(self.handle, null_mut(), 0, &mut count) }).expect("history length");
        let mut values = vec![f64::NAN; count as usize];
        // SAFETY: the buffer has the capacity passed.
        outcome(unsafe { rrb_get_history(self.handle, values.as_mut_ptr(), count, &mut count) }).expect("history");
        values
    }

    pub fn factorize(&self, a: &Stencil) -> Result<i32, Failure> {
        self.factorize_arrays(&a.center, &a.east, &a.north, a.corners.as_ref().map(|(ne, nw)| (&ne[..], &nw[..])))
    }

    pub fn factorize_arrays(
        &self,
        center: &[f64],
        east: &[f64],
        north: &[f64],
        corners: Option<(&[f64], &[f64])>,
    ) -> Result<i32, Failure> {
        let (northeast, northwest) = corners.map_or((null(), null()), |(ne, nw)| (ne.as_ptr(), nw.as_ptr()));
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe {
            rrb_factorize(self.handle, center.as_ptr(), east.as_ptr(), north.as_ptr(), northeast, northwest)
        })
    }

    /// Solves A x = b; x is the initial guess and becomes the solution.
    pub fn solve(&self, b: &[f64], x: &mut [f64]) -> Result<i32, Failure> {
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { rrb_solve(self.handle, b.as_ptr(), x.as_mut_ptr()) })
    }

    /// Solves with a zero initial guess. Returns the solution and the status.
    #[track_caller]
    pub fn solve_from_zero(&self, b: &[f64]) -> (Vec<f64>, i32) {
        let mut x = vec![0.0; b.len()];
        let status = self.solve(b, &mut x).expect("solve");
        (x, status)
    }

    /// Computes z = M^-1 r.
    #[track_caller]
    pub fn apply(&self, r: &[f64]) -> Vec<f64> {
        let mut z = vec![f64::NAN; r.len()];
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { rrb_apply(self.handle, r.as_ptr(), z.as_mut_ptr()) }).expect("apply");
        z
    }

    /// Computes y = A x.
    #[track_caller]
    pub fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![f64::NAN; x.len()];
        // SAFETY: a live handle; the callers pass arrays of the handle's shape.
        outcome(unsafe { rrb_multiply(self.handle, x.as_ptr(), y.as_mut_ptr()) }).expect("multiply");
        y
    }
}

/// All results of one solve.
#[derive(Clone, Debug)]
pub struct Run {
    pub status: i32,
    pub iterations: usize,
    pub lambda_min: f64,
    pub lambda_max: f64,
    pub levels: usize,
    pub history: Vec<f64>,
    pub x: Vec<f64>,
}

impl Run {
    pub fn kappa(&self) -> f64 {
        self.lambda_max / self.lambda_min
    }

    /// Solves from an initial guess.
    pub fn from(solver: &Solver, b: &[f64], guess: &[f64]) -> Result<Run, Failure> {
        let mut x = guess.to_vec();
        let status = solver.solve(b, &mut x)?;
        let [lambda_min, lambda_max] = [key::INFO_LAMBDA_MIN, key::INFO_LAMBDA_MAX].map(|key| solver.real(key));
        let (iterations, levels) = (solver.iterations(), solver.int(key::INFO_LEVELS) as usize);
        Ok(Run { status, iterations, lambda_min, lambda_max, levels, history: solver.history(), x })
    }

    /// Checks that all results of two solves are bitwise identical. The arrays are too long to print.
    #[track_caller]
    pub fn assert_same_bits(&self, other: &Run, what: &str) {
        assert_eq!((self.status, self.iterations), (other.status, other.iterations), "{what}");
        assert!(bits(&self.history) == bits(&other.history), "{what}: histories differ");
        assert!(bits(&self.x) == bits(&other.x), "{what}: x differs by {:e}", max_difference(&self.x, &other.x));
        let lambda = |run: &Run| [run.lambda_min, run.lambda_max].map(f64::to_bits);
        assert_eq!(lambda(self), lambda(other), "{what}: bounds of eigenvalues");
    }
}

/// All results of a handle: of a solve from zero, and of one application of M and of A.
pub struct Trace {
    pub solved: Run,
    pub applied: Vec<u64>,
    pub multiplied: Vec<u64>,
}

impl Trace {
    pub fn of(solver: &Solver, b: &[f64]) -> Result<Trace, Failure> {
        let solved = Run::from(solver, b, &vec![0.0; b.len()])?;
        Ok(Trace { solved, applied: bits(&solver.apply(b)), multiplied: bits(&solver.multiply(b)) })
    }

    /// Checks that the handle gives these results.
    #[track_caller]
    pub fn assert_of(&self, solver: &Solver, b: &[f64], what: &str) {
        let found = Trace::of(solver, b).unwrap_or_else(|failure| panic!("{what}: {}", failure.message));
        self.solved.assert_same_bits(&found.solved, what);
        assert!(self.applied == found.applied, "{what}: rrb_apply differs");
        assert!(self.multiplied == found.multiplied, "{what}: rrb_multiply differs");
    }
}

/// Factorizes, and solves with a zero initial guess.
#[track_caller]
pub fn run(a: &Stencil, b: &[f64], options: &str) -> Run {
    Run::from(&Solver::of(a, options), b, &vec![0.0; b.len()]).expect("solve")
}

/// Returns whether an iteration count is acceptable.
///
/// Counts of two programs differ by one if a residual is close to the tolerance. The count must be the expected one, or
/// differ by one while the residual at the smaller count is within 5 % of the tolerance.
pub fn count_is_right(history: &[f64], expected: usize, rel_tol: f64) -> bool {
    let count = history.len() - 1;
    let near = |iteration: usize| (history[iteration] / rel_tol - 1.0).abs() <= 0.05;
    count == expected || (count == expected + 1 && near(expected)) || (count + 1 == expected && near(count))
}

/// Checks that two runs have equal counts, and iterates that differ only by rounding.
///
/// The sums have different orders, which CG amplifies slightly from iteration to iteration. The limits are 1e-12 for x
/// in the first iterations, and 1e-8 for each residual above 1e-9.
#[track_caller]
pub fn assert_same_to_rounding(a: &Run, b: &Run, rel_tol: f64, what: &str) {
    assert_eq!(a.status, b.status, "{what}");
    assert!(
        count_is_right(&b.history, a.iterations, rel_tol),
        "{} and {} iterations: {what}",
        a.iterations,
        b.iterations
    );
    for (k, (ra, rb)) in a.history.iter().zip(&b.history).enumerate() {
        assert!((ra - rb).abs() <= 1e-8 * ra + 1e-17 / rel_tol, "iteration {k}: {ra:e} and {rb:e}: {what}");
    }
}

/// Returns 5-point and 9-point M-matrices and the Laplacian, each with a right-hand side.
pub fn plain_problems(nx: usize, ny: usize) -> Vec<(&'static str, Stencil, Vec<f64>)> {
    let b = random_rhs(nx * ny, 17);
    vec![
        ("five points", random_m_matrix(nx, ny, false, 3), b.clone()),
        ("nine points", random_m_matrix(nx, ny, true, 3), b.clone()),
        ("laplacian", poisson(nx, ny), b),
    ]
}

/// Number formats of M, and cycles; `formats` returns all pairs.
pub const PRECISIONS: [&str; 4] = ["f64", "f32", "bf16", "mixed"];
pub const CYCLES: [&str; 3] = ["v", "amli", "k"];

pub fn formats() -> impl Iterator<Item = (&'static str, &'static str)> {
    PRECISIONS.into_iter().flat_map(|precision| CYCLES.into_iter().map(move |cycle| (precision, cycle)))
}

/// Returns the bits of the values, for exact comparisons.
pub fn bits(v: &[f64]) -> Vec<u64> {
    v.iter().map(|x| x.to_bits()).collect()
}

pub fn norm2(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn max_abs(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m, x| m.max(x.abs()))
}

pub fn max_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |m, (a, b)| m.max((a - b).abs()))
}

/// Returns the initial residual of CG for x = 0.
///
/// With 9 points, this residual is b. With 5 points, it is b - A x for D_r x_r = b_r and x_b = 0. Its values are zero
/// on red nodes and b1 on black nodes. The grid must have at least two rows and columns.
pub fn right_side_of_cg(a: &Stencil, b: &[f64]) -> Vec<f64> {
    if a.corners.is_some() {
        return b.to_vec();
    }
    let red = |p: usize| (p % a.nx + p / a.nx) % 2 == 1;
    let x: Vec<f64> = (0..a.len()).map(|p| if red(p) { b[p] / a.center[p] } else { 0.0 }).collect();
    a.exact_residual(b, &x)
}

/// Returns the tested norm of b - A x relative to that of b, in twice the working precision, and its tolerance.
///
/// Rows that are summed from differences have rounding errors of a few units in the last place of |b|, and the sums of
/// squares add a few more. The preconditioned norm uses M^-1 of the solver, whose sweeps round in f32. The tolerance is
/// then 1 %.
pub fn exact_norm(solver: &Solver, a: &Stencil, b: &[f64], x: &[f64], preconditioned: bool) -> (f64, f64) {
    let residual = a.exact_residual(b, x);
    if !preconditioned {
        let norm = norm2(&residual) / norm2(b);
        return (norm, 4.0 * f64::EPSILON + a.len() as f64 * f64::EPSILON * norm);
    }
    let tested = |r: &[f64]| dot(r, &solver.apply(r)).max(0.0).sqrt();
    let norm = tested(&residual) / tested(&right_side_of_cg(a, b));
    (norm, 16.0 * f64::EPSILON + 0.01 * norm)
}

/// Boundary cases of extents: one node, one block of the layout (16, 32) and one node more or less, primes, lines.
pub const EXTENTS: [(usize, usize); 24] = [
    (1, 1),
    (2, 1),
    (1, 2),
    (2, 2),
    (3, 3),
    (5, 5),
    (17, 17),
    (64, 64),
    (65, 65),
    (1, 64),
    (64, 1),
    (1, 17),
    (97, 1),
    (2, 65),
    (65, 3),
    (31, 37),
    (15, 16),
    (16, 15),
    (33, 32),
    (97, 101),
    (40, 75),
    (75, 40),
    (128, 63),
    (130, 5),
];

/// Returns the context pointer of a callback.
pub fn user<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

/// Variable that names the test whose body a child process runs.
pub const CHILD: &str = "RRBSOLVER_TEST_CHILD";

/// Runs this test again in a child process with these variables and without other variables of the library. Returns the
/// output of the child, or None in the child itself.
pub fn child(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, test).env_remove("RUST_BACKTRACE");
    for name in
        ["RRBSOLVER_OPTIONS", "RRBSOLVER_ISA", "RRBSOLVER_NUM_THREADS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"]
    {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("a child process");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{test}: {}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "the child ran its body");
    Some(output)
}

/// Returns the number of devices.
pub fn devices() -> i32 {
    let mut count = -1;
    // SAFETY: `count` outlives the call.
    assert_eq!(unsafe { rrbsolver_cuda_device_count(&mut count) }, status::OK);
    count
}

/// Returns the lines of the child's standard output that the test harness did not write.
pub fn own_lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_harness = |l: &str| l.is_empty() || l == "running 1 test" || l.starts_with("test ");
    text.lines().filter(|l| !of_harness(l)).map(str::to_owned).collect()
}
