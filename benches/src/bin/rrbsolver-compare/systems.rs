//! Calls of a family on one system, and the results of a build.

use crate::library::{Build, Solver, Watch};
use crate::matrix::Matrix;
use crate::record::Record;
use rrbsolver::options::info;
use rrbsolver_problems::cases::{Case, JUNK, Restart};
use rrbsolver_problems::{OUTSIDE, Stencil};

/// Results of a factorization. Where a family lacks a result, the status is recorded.
const OF_FACTORIZE: &[(&str, i32)] = &[
    ("backend", info::BACKEND),
    ("threads", info::THREADS),
    ("levels", info::LEVELS),
    ("precision", info::PRECISION),
    ("cycle", info::CYCLE),
    ("components", info::COMPONENTS),
    ("singular components", info::SINGULAR_COMPONENTS),
    ("compensated couplings", info::COMPENSATED_COUPLINGS),
    ("grids", info::GRIDS),
    ("preconditioner", info::PRECONDITIONER),
    ("deflation vectors", info::DEFLATION_VECTORS),
    ("solver", info::SOLVER),
    ("format", info::FORMAT),
];
/// Results of a solve, which may change the preconditioner.
const OF_SOLVE: &[(&str, i32)] = &[
    ("iterations", info::ITERATIONS),
    ("stop reason", info::STOP_REASON),
    ("precision", info::PRECISION),
    ("cycle", info::CYCLE),
];
const REALS: &[(&str, i32)] = &[
    ("initial residual", info::INITIAL_RESIDUAL),
    ("final residual", info::FINAL_RESIDUAL),
    ("lambda_min", info::LAMBDA_MIN),
    ("lambda_max", info::LAMBDA_MAX),
];

/// A system and the calls on it.
pub struct Task {
    /// The matrix A.
    pub a: Matrix,
    /// Matrix that the handle factorizes before A.
    pub earlier: Option<Matrix>,
    /// The right-hand side b.
    pub b: Vec<f64>,
    /// Initial guess of the first solve.
    pub guess: Vec<f64>,
    /// Whether a solve precedes the recorded one.
    pub restart: Restart,
    /// Distance of consecutive rows, in values.
    pub stride: usize,
    /// Option text.
    pub options: String,
    /// Iteration at which the monitor stops the solve.
    pub stop_at: Option<i64>,
}

impl Task {
    /// Creates the task A x = b with x = 0.
    pub fn plain(a: Matrix, b: Vec<f64>, options: String) -> Self {
        let (stride, guess) = (a.row(), vec![0.0; b.len()]);
        Self { a, earlier: None, b, guess, restart: Restart::No, stride, options, stop_at: None }
    }

    /// Creates the task of a random case, as in tests/rrb/truth.rs. On a device, the number of iterations before a stop
    /// of the monitor takes effect varies, so that no monitor stops there.
    pub fn random(case: Case, on_device: bool) -> Self {
        Self {
            a: Matrix::Plane(case.a),
            earlier: case.earlier.map(Matrix::Plane),
            b: case.b,
            guess: case.guess,
            restart: if case.not_finite { Restart::No } else { case.restart },
            stride: case.leading_dimension,
            options: case.options,
            stop_at: case.stop_at.filter(|_| !on_device),
        }
    }

    /// Copies rows of the grid to rows of `stride` values, as in the cases of the generator.
    fn wide(&self, values: &[f64]) -> Vec<f64> {
        let row = self.a.row();
        let mut wide = vec![JUNK; values.len() / row * self.stride];
        for (wide, values) in wide.chunks_mut(self.stride).zip(values.chunks(row)) {
            wide[..row].copy_from_slice(values);
        }
        wide
    }

    fn wide_matrix(&self, a: &Matrix) -> Matrix {
        let Matrix::Plane(a) = a else { return a.clone() };
        let corners = a.corners.as_ref().map(|(ne, nw)| (self.wide(ne), self.wide(nw)));
        let [center, east, north] = [&a.center, &a.east, &a.north].map(|v| self.wide(v));
        Matrix::Plane(Stencil { nx: a.nx, ny: a.ny, center, east, north, corners })
    }

    /// Makes all calls, and records their results.
    pub fn run(&self, build: &Build) -> Record {
        let mut record = Record::default();
        let (mut solver, status) = Solver::new(build, &self.a, self.stride);
        let recorded =
            |record: &mut Record, name: &str, status: i32| record.status(name, status, || build.last_error());
        if !recorded(&mut record, "create", status) || !recorded(&mut record, "options", solver.options(&self.options))
        {
            return record;
        }
        let b = self.wide(&self.b);
        let mut x = self.wide(&self.guess);
        if let Some(earlier) = &self.earlier {
            let status = solver.factorize(&self.wide_matrix(earlier));
            if recorded(&mut record, "earlier factorize", status) {
                let mut x = x.clone();
                recorded(&mut record, "earlier solve", solver.solve(&b, &mut x));
                record.reals("earlier x", x);
            }
        }
        if !recorded(&mut record, "factorize", solver.factorize(&self.wide_matrix(&self.a))) {
            return record;
        }
        counts(&solver, OF_FACTORIZE, &mut record);
        if self.restart != Restart::No && recorded(&mut record, "solve before", solver.solve(&b, &mut x)) {
            let factor = if self.restart == Restart::Near { 1.0 + 1e-8 } else { 1.0 };
            x.iter_mut().for_each(|x| *x *= factor);
        }
        let watch = Watch { stop_at: self.stop_at, ..Watch::default() };
        let (status, seen) = solver.watched_solve(watch, &b, &mut x);
        recorded(&mut record, "solve", status);
        counts(&solver, OF_SOLVE, &mut record);
        for &(name, key) in REALS {
            match solver.h.real(key) {
                Ok(value) => record.reals(name, vec![value]),
                Err(status) => record.count(name, status.into()),
            }
        }
        record.reals("history", solver.h.history());
        record.reals("monitor", seen);
        let mut y = vec![OUTSIDE; x.len()];
        recorded(&mut record, "multiply", solver.multiply(&x, &mut y));
        record.reals("x", x);
        record.reals("A x", y);
        let mut z = vec![OUTSIDE; b.len()];
        recorded(&mut record, "apply", solver.apply(&b, &mut z));
        record.reals("M^-1 b", z);
        record
    }
}

fn counts(solver: &Solver, keys: &[(&str, i32)], record: &mut Record) {
    for &(name, key) in keys {
        record.count(name, solver.h.int(key).unwrap_or_else(i64::from));
    }
}
