//! A run of time steps of a wave simulation: the matrix is constant, and b advances by 1/40 of a period. Each solve
//! starts from the linear extrapolation of the last two solutions. The slides' table: average time of a solve over
//! grids of several sizes, on a device and on one core.

use crate::bathymetry::{self, Bathymetry};
use crate::contest::Contender;
use crate::device::Device;
use crate::iccg::{Iccg, Pivots};
use crate::problem::Problem;
use crate::smoother::{Chart, Curve};
use crate::solver::Solver;
use anyhow::{Result, anyhow, bail};
use rrbsolver::options::info;
use rrbsolver_problems::Stencil;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Number of steps per period of the waves.
const PERIOD: f64 = 40.0;

/// Number of unmeasured first steps.
const WARM_UP: usize = 4;

/// Parameters of the run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of measured steps.
    pub steps: usize,
    /// A solver ends after this many seconds of solves.
    pub seconds: f64,
    /// Tolerance of the in-house solver; other solvers have it in their options.
    pub rel_tol: f64,
    /// Bathymetry: shallower water is land [m].
    pub least_depth: f64,
}

/// Results of one solver on one grid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the problem.
    pub problem: String,
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Name of the solver.
    pub solver: String,
    /// Number of measured steps.
    pub steps: usize,
    /// Mean seconds of a solve.
    pub mean: f64,
    /// Part of the mean for copies between host and device, in seconds.
    pub transfer: f64,
    /// Mean number of iterations.
    pub iterations: f64,
    /// Largest number of iterations.
    pub most_iterations: usize,
    /// Seconds of a factorization in an existing handle.
    pub factorize: f64,
    /// |b - A x| / |b| of the last step, recomputed.
    pub residual: f64,
}

/// Results of all grids and solvers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct March {
    /// Results, grid by grid.
    pub rows: Vec<Row>,
    /// Speed-ups over the last solver, one chart per problem.
    pub charts: Vec<Chart>,
}

/// A system with the right-hand side b_0 cos t + b_1 sin t.
struct Moving {
    name: String,
    a: Stencil,
    b: [Vec<f64>; 2],
}

impl Moving {
    fn find(name: &str, file: Option<&Bathymetry>, nodes: usize, least_depth: f64) -> Result<Self> {
        if let Some(file) = file {
            let grid = file.resized(nodes);
            let stem = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
            let (a, b) = grid.waves(least_depth, 0.0);
            let quarter = grid.waves(least_depth, std::f64::consts::FRAC_PI_2).1;
            return Ok(Self { name: stem.split('.').next().unwrap_or_default().to_owned(), a, b: [b, quarter] });
        }
        // The coast of `variable_depth` has 5/6 as many rows as columns.
        let per_row = if name == "variable_depth" { 1.2 } else { 1.0 };
        let n = (per_row * nodes as f64).sqrt().round() as usize;
        let Problem { name, a, b } = Problem::find(name, n, None, least_depth)?;
        // This right-hand side is as smooth as b, but not a multiple of b.
        let other = b.iter().enumerate().map(|(p, v)| v * (p % n) as f64 / n as f64).collect();
        Ok(Self { name, a, b: [b, other] })
    }

    fn rhs(&self, step: usize, b: &mut [f64]) {
        let (sin, cos) = (std::f64::consts::TAU * step as f64 / PERIOD).sin_cos();
        for ((b, u), v) in b.iter_mut().zip(&self.b[0]).zip(&self.b[1]) {
            *b = cos * u + sin * v;
        }
    }
}

/// Results of a step: seconds, seconds of copies, iterations, convergence.
type Step = (f64, f64, usize, bool);

/// Runs the steps of one solver. `solve` receives b and a guess and stores the solution.
fn march(
    problem: &Moving,
    solver: String,
    factorize: f64,
    plan: &Plan,
    mut solve: impl FnMut(&[f64], &mut [f64]) -> Result<Step>,
) -> Result<Row> {
    let n = problem.a.len();
    let (mut b, mut x, mut last) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut total, mut transfer, mut iterations, mut most, mut steps) = (0.0, 0.0, 0, 0, 0);
    for step in 0..WARM_UP + plan.steps {
        problem.rhs(step, &mut b);
        // The guess is 2 x_n - x_(n-1); x_n replaces x_(n-1).
        for (x, last) in x.iter_mut().zip(&mut last) {
            let guess = if step < 2 { *x } else { 2.0 * *x - *last };
            *last = std::mem::replace(x, guess);
        }
        let (seconds, copies, count, converged) = solve(&b, &mut x)?;
        if !converged {
            bail!("{solver} did not converge on {} in step {step}", problem.name);
        }
        if step >= WARM_UP {
            total += seconds;
            transfer += copies;
            iterations += count;
            most = most.max(count);
            steps += 1;
            if total > plan.seconds {
                break;
            }
        }
    }
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let per_step = (steps as f64).recip();
    Ok(Row {
        problem: problem.name.clone(),
        nx: problem.a.nx,
        ny: problem.a.ny,
        solver,
        steps,
        mean: total * per_step,
        transfer: transfer * per_step,
        iterations: iterations as f64 * per_step,
        most_iterations: most,
        factorize,
        residual: norm(&problem.a.residual(&b, &x)) / norm(&b),
    })
}

fn run(problem: &Moving, contender: &Contender, plan: &Plan) -> Result<Vec<Row>> {
    let a = &problem.a;
    match contender {
        Contender::Rrb(name, options) => {
            let mut solver = Solver::new(a.nx, a.ny, options)?;
            solver.factorize(a)?;
            let start = Instant::now();
            solver.factorize(a)?;
            let factorize = start.elapsed().as_secs_f64();
            let mut rows = Vec::new();
            let device = usize::try_from(solver.int(info::DEVICE)).ok();
            if let Some(ordinal) = device {
                let device = Device::new(ordinal)?;
                let (mut device_b, mut device_x) = (device.zeros(a.len())?, device.zeros(a.len())?);
                rows.push(march(problem, format!("{name}, resident"), factorize, plan, |b, x| {
                    device_b.set(b)?;
                    device_x.set(x)?;
                    let start = Instant::now();
                    let converged = solver.solve_resident(&mut device_b, &mut device_x)?;
                    let seconds = start.elapsed().as_secs_f64();
                    device_x.get(x)?;
                    Ok((seconds, 0.0, solver.int(info::ITERATIONS) as usize, converged))
                })?);
            }
            let name = if device.is_some() { format!("{name}, host arrays") } else { name.clone() };
            rows.push(march(problem, name, factorize, plan, |b, x| {
                let start = Instant::now();
                let converged = solver.solve(b, x)?;
                let seconds = start.elapsed().as_secs_f64();
                let copies = solver.real(info::SECONDS_TRANSFER);
                Ok((seconds, copies, solver.int(info::ITERATIONS) as usize, converged))
            })?);
            Ok(rows)
        }
        Contender::InHouse(pivots) => {
            let start = Instant::now();
            let mut solver = Iccg::factorize(a, *pivots)?;
            let factorize = start.elapsed().as_secs_f64();
            let name = if *pivots == Pivots::Modified { "in-house MIC(0)-CG" } else { "in-house ICCG(0)" };
            let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
            let mut d = vec![0.0; a.len()];
            let row = march(problem, name.to_owned(), factorize, plan, |b, x| {
                let start = Instant::now();
                // This solver starts from zero: the guess is moved to the right-hand side.
                let r = a.residual(b, x);
                let rel_tol = plan.rel_tol * norm(b) / norm(&r);
                let mut end = (0, true);
                if rel_tol < 1.0 {
                    d.fill(0.0);
                    let found = solver.solve(&r, &mut d, rel_tol, 100_000);
                    x.iter_mut().zip(&d).for_each(|(x, d)| *x += d);
                    end = (found.iterations, found.converged);
                }
                Ok((start.elapsed().as_secs_f64(), 0.0, end.0, end.1))
            })?;
            Ok(vec![row])
        }
        Contender::Program(name, _) => Err(anyhow!("{name}: time steps are not supported with other programs")),
    }
}

/// Measures every problem, size and solver.
pub fn measure(names: &[String], nodes: &[usize], contenders: &[Contender], plan: &Plan) -> Result<March> {
    let (mut rows, mut charts) = (Vec::new(), Vec::new());
    for name in names {
        let is_file = name.ends_with(".asc") || name.ends_with(".asc.gz");
        let file = if is_file { Some(bathymetry::read(Path::new(name))?) } else { None };
        let mut here: Vec<Vec<Row>> = Vec::new();
        for &nodes in nodes {
            let problem = Moving::find(name, file.as_ref(), nodes, plan.least_depth)?;
            let mut of_grid = Vec::new();
            for contender in contenders {
                of_grid.extend(run(&problem, contender, plan)?);
            }
            here.push(of_grid);
        }
        charts.extend(chart(&here));
        rows.extend(here.into_iter().flatten());
    }
    Ok(March { rows, charts })
}

/// Returns the speed-ups over the last solver.
fn chart(grids: &[Vec<Row>]) -> Option<Chart> {
    let first = grids.first()?;
    let (reference, others) = first.split_last().filter(|(_, others)| !others.is_empty())?;
    let curve = |k: usize| Curve {
        name: others[k].solver.clone(),
        points: grids
            .iter()
            .map(|rows| ((rows[k].nx * rows[k].ny) as f64, rows[rows.len() - 1].mean / rows[k].mean))
            .collect(),
    };
    Some(Chart {
        name: format!("speedup_{}", reference.problem),
        title: format!("{}: average solve against {}", reference.problem, reference.solver),
        x: "nodes".to_owned(),
        y: "speed-up".to_owned(),
        logarithmic: true,
        places: Vec::new(),
        curves: (0..others.len()).map(curve).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_solved_to_the_tolerance() {
        let contenders = [
            Contender::Rrb("rrbsolver".to_owned(), "rel_tol=1e-6 backend=cpu".to_owned()),
            Contender::InHouse(Pivots::Modified),
        ];
        let plan = Plan { steps: 3, seconds: 10.0, rel_tol: 1e-6, least_depth: 0.3 };
        let found = measure(&["poisson_f".to_owned()], &[400, 900], &contenders, &plan).unwrap();
        assert_eq!(found.rows.len(), 4);
        for row in &found.rows {
            assert!(row.residual <= 1e-6 * (1.0 + 1e-6), "{}: {:e}", row.solver, row.residual);
            assert!(row.steps == 3 && row.iterations >= 1.0 && row.mean > 0.0);
        }
        assert_eq!((found.rows[0].nx, found.rows[3].ny), (20, 30));
        assert_eq!(found.charts[0].curves[0].points.len(), 2);
    }
}
