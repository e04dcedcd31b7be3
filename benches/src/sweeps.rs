//! The papers' sweeps over levels and over r1/r2/b1/b2 grids (figures 5.1 to 5.6 and table 5.3 of ETNA 46, 2017).

use crate::problem::Problem;
use crate::solver::Solver;
use crate::timing::Samples;
use rrbsolver::options::info;
use rrbsolver_problems::random_rhs;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The papers' criterion.
pub const PAPERS_NORM: &str = "norm=preconditioned reference=initial";

/// One number of levels on one grid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LevelRow {
    /// Nodes a side.
    pub n: usize,
    /// Eliminations done.
    pub levels: usize,
    /// Iterations with the problem's own right-hand side.
    pub iterations: usize,
    /// Condition number of M^-1 A, from a solve to 1e-12 with a random right-hand side; 0 where that ended in one.
    pub kappa: f64,
    /// Notay's bound.
    pub bound: f64,
    /// Factorization, in a handle that exists.
    pub setup: Samples,
    /// Solve.
    pub solve: Samples,
}

/// Figures 5.1, 5.2 and table 5.3.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LevelSweep {
    /// Problem.
    pub problem: String,
    /// Options beside levels.
    pub options: String,
    /// By size, then by levels.
    pub rows: Vec<LevelRow>,
}

/// sqrt(5) (sqrt(5) - 1)^(levels - 1), about 1.8 * 1.23^levels (report 16-06, section 2.5).
pub fn notay_bound(levels: usize) -> f64 {
    5f64.sqrt() * (5f64.sqrt() - 1.0).powi(levels as i32 - 1)
}

/// A remainder whose exact factor is larger than this takes longer to factorize than the sweep is worth.
const WORTH_FACTORIZING: usize = 150_000_000;

/// Sweeps over sizes and levels; `levels` empty: 2, 4, ... up to what a grid has, as far as the remainder is small.
pub fn over_levels(
    name: &str,
    sizes: &[usize],
    levels: &[usize],
    options: &str,
    repeats: usize,
) -> Result<LevelSweep, String> {
    let mut rows: Vec<LevelRow> = Vec::new();
    for &n in sizes {
        let problem = Problem::find(name, n, None, 0.0)?;
        let (a, len) = (&problem.a, problem.unknowns());
        let random = random_rhs(len, 3);
        let mut x = vec![0.0; len];
        let all: Vec<usize> = if levels.is_empty() { (2..=64).step_by(2).collect() } else { levels.to_vec() };
        for wanted in all {
            let text = format!("coarse_memory={WORTH_FACTORIZING} {options} {PAPERS_NORM} levels={wanted}");
            let mut solver = Solver::new(a.nx, a.ny, &text)?;
            if let Err(sentence) = solver.factorize(a) {
                if levels.is_empty() && sentence.contains("coarse_memory") {
                    continue;
                }
                return Err(sentence);
            }
            let done = solver.int(info::LEVELS) as usize;
            if rows.iter().any(|r| r.n == n && r.levels == done) {
                break;
            }
            let (mut setup, mut solve) = (Samples::default(), Samples::default());
            let mut iterations = 0;
            for repeat in 0..=repeats {
                x.fill(0.0);
                let start = Instant::now();
                solver.factorize(a)?;
                let seconds_setup = start.elapsed().as_secs_f64();
                solver.solve(&problem.b, &mut x)?;
                let seconds_solve = start.elapsed().as_secs_f64() - seconds_setup;
                iterations = solver.int(info::ITERATIONS) as usize;
                if repeat > 0 || repeats == 0 {
                    setup.push(seconds_setup);
                    solve.push(seconds_solve);
                }
            }
            let mut closely = Solver::new(a.nx, a.ny, &format!("{text} rel_tol=1e-12"))?;
            closely.factorize(a)?;
            x.fill(0.0);
            closely.solve(&random, &mut x)?;
            let (low, high) = (closely.real(info::LAMBDA_MIN), closely.real(info::LAMBDA_MAX));
            rows.push(LevelRow {
                n,
                levels: done,
                iterations,
                kappa: if low > 0.0 { high / low } else { 0.0 },
                bound: notay_bound(done),
                setup,
                solve,
            });
        }
    }
    Ok(LevelSweep { problem: name.to_owned(), options: options.to_owned(), rows })
}

/// One implementation with one number of grids and levels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridRow {
    /// The papers' S1 (natural storage), S2 (r1/r2/b1/b2, one thread) and S3 (threads), unfused as theirs; and S3 fused.
    pub implementation: String,
    /// r1/r2/b1/b2 grids: 0 for S1.
    pub grids: usize,
    /// Threads.
    pub threads: usize,
    /// Eliminations.
    pub levels: usize,
    /// Iterations of a solve.
    pub iterations: usize,
    /// Factorization, in a handle that exists.
    pub setup: Samples,
    /// Solve.
    pub solve: Samples,
}

/// Figures 5.3 to 5.6.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridSweep {
    /// Problem.
    pub problem: String,
    /// Nodes a side.
    pub n: usize,
    /// Options beside those of the rows.
    pub options: String,
    /// By implementation, grids and levels.
    pub rows: Vec<GridRow>,
}

/// What a grid sweep goes over.
#[derive(Clone, Debug)]
pub struct GridPlan {
    /// Levels at which all implementations run (figures 5.3, 5.4).
    pub levels_all: Vec<usize>,
    /// Levels at which the fused S3 runs (figures 5.5, 5.6).
    pub levels_fused: Vec<usize>,
    /// Numbers of grids.
    pub grids: Vec<usize>,
    /// Threads of S3.
    pub threads: usize,
    /// Measured solves of each.
    pub repeats: usize,
}

/// Sweeps over implementations, levels and grids.
pub fn over_grids(name: &str, n: usize, options: &str, plan: &GridPlan) -> Result<GridSweep, String> {
    let problem = Problem::find(name, n, None, 0.0)?;
    let mut rows = Vec::new();
    let mut x = vec![0.0; problem.unknowns()];
    let mut one = |implementation: &str, grids: usize, levels: usize, text: &str| -> Result<(), String> {
        let text = format!("{options} {PAPERS_NORM} levels={levels} {text}");
        let mut solver = Solver::new(problem.a.nx, problem.a.ny, &text)?;
        let (mut setup, mut solve) = (Samples::default(), Samples::default());
        for repeat in 0..=plan.repeats {
            let start = Instant::now();
            solver.factorize(&problem.a).map_err(|e| format!("{text}: {e}"))?;
            if solver.int(info::LEVELS) as usize != levels || solver.int(info::GRIDS) as usize != grids {
                // Not that many exist on this grid.
                return Ok(());
            }
            let seconds_setup = start.elapsed().as_secs_f64();
            x.fill(0.0);
            let start = Instant::now();
            solver.solve(&problem.b, &mut x)?;
            if repeat > 0 || plan.repeats == 0 {
                setup.push(seconds_setup);
                solve.push(start.elapsed().as_secs_f64());
            }
        }
        rows.push(GridRow {
            implementation: implementation.to_owned(),
            grids,
            threads: solver.int(info::THREADS) as usize,
            levels: solver.int(info::LEVELS) as usize,
            iterations: solver.int(info::ITERATIONS) as usize,
            setup,
            solve,
        });
        Ok(())
    };
    let threads = plan.threads;
    for &levels in &plan.levels_all {
        one("S1", 0, levels, "backend=reference")?;
        // Grids beyond half the levels do not exist.
        for &g in plan.grids.iter().filter(|&&g| g > 0 && 2 * g <= levels) {
            one("S2", g, levels, &format!("backend=cpu threads=1 fusion=off grids={g}"))?;
            one("S3", g, levels, &format!("backend=cpu threads={threads} fusion=off grids={g}"))?;
        }
    }
    for &levels in &plan.levels_fused {
        for &g in plan.grids.iter().filter(|&&g| g > 0 && 2 * g <= levels) {
            one("S3 fused", g, levels, &format!("backend=cpu threads={threads} fusion=on grids={g}"))?;
        }
    }
    Ok(GridSweep { problem: name.to_owned(), n, options: options.to_owned(), rows })
}
