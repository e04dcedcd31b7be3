//! The papers' sweeps over levels and over r1/r2/b1/b2 grids (figures 5.1 to 5.6 and table 5.3 of ETNA 46, 2017).

use crate::device::{Device, DeviceArray};
use crate::problem::Problem;
use crate::solver::Solver;
use crate::timing::Samples;
use anyhow::{Context as _, Result};
use rrbsolver::options::info;
use rrbsolver_problems::random_rhs;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The papers' criterion.
pub const PAPERS_NORM: &str = "norm=preconditioned reference=initial";

/// Times of one solver on one problem.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timed {
    /// Factorization, in a handle that exists.
    pub setup: Samples,
    /// Solve.
    pub solve: Samples,
    /// On a device, whose setup and solve have their arrays there: copies of a solve with arrays on the host.
    #[serde(default)]
    pub copies: Option<Samples>,
}

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
    /// Its times.
    #[serde(flatten)]
    pub timed: Timed,
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

/// Arrays of a problem on the device: matrix, b and x.
struct Resident {
    a: Vec<DeviceArray>,
    b: DeviceArray,
    x: DeviceArray,
}

impl Resident {
    fn new(ordinal: usize, problem: &Problem) -> Result<Self> {
        let device = Device::new(ordinal)?;
        let sent = |values: &[f64]| -> Result<DeviceArray> {
            let mut array = device.zeros(values.len())?;
            array.set(values)?;
            Ok(array)
        };
        let a = &problem.a;
        let mut arrays = vec![sent(&a.center)?, sent(&a.east)?, sent(&a.north)?];
        if let Some((northeast, northwest)) = &a.corners {
            arrays.extend([sent(northeast)?, sent(northwest)?]);
        }
        Ok(Self { a: arrays, b: sent(&problem.b)?, x: device.zeros(problem.unknowns())? })
    }
}

/// Factorizes and solves from x = 0, `repeats` times after one warm-up. The solver has factorized this matrix before.
fn time(solver: &mut Solver, problem: &Problem, repeats: usize, x: &mut [f64]) -> Result<Timed> {
    let mut resident = match usize::try_from(solver.int(info::DEVICE)) {
        Ok(ordinal) => Some(Resident::new(ordinal, problem)?),
        Err(_) => None,
    };
    let (mut setup, mut solve, mut copies) = (Samples::default(), Samples::default(), Samples::default());
    for repeat in 0..=repeats {
        let measured = repeat > 0 || repeats == 0;
        x.fill(0.0);
        if let Some(arrays) = &mut resident {
            solver.factorize(&problem.a)?;
            solver.solve(&problem.b, x)?;
            if measured {
                copies.push(solver.real(info::SECONDS_TRANSFER));
            }
            x.fill(0.0);
            arrays.x.set(x)?;
        }
        let start = Instant::now();
        match &mut resident {
            Some(arrays) => solver.factorize_resident(&mut arrays.a)?,
            None => solver.factorize(&problem.a)?,
        }
        let seconds_setup = start.elapsed().as_secs_f64();
        match &mut resident {
            Some(arrays) => solver.solve_resident(&mut arrays.b, &mut arrays.x)?,
            None => solver.solve(&problem.b, x)?,
        };
        let seconds_solve = start.elapsed().as_secs_f64() - seconds_setup;
        if measured {
            setup.push(seconds_setup);
            solve.push(seconds_solve);
        }
    }
    Ok(Timed { setup, solve, copies: resident.map(|_| copies) })
}

/// A remainder whose exact factor is larger than this takes longer to factorize than the sweep is worth.
const WORTH_FACTORIZING: usize = 150_000_000;

/// Sweeps over sizes and levels; `levels` empty: 2, 4, ... up to what a grid has, as far as the remainder is small.
pub fn over_levels(name: &str, sizes: &[usize], levels: &[usize], options: &str, repeats: usize) -> Result<LevelSweep> {
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
                if levels.is_empty() && sentence.to_string().contains("coarse_memory") {
                    continue;
                }
                return Err(sentence);
            }
            let done = solver.int(info::LEVELS) as usize;
            if rows.iter().any(|r| r.n == n && r.levels == done) {
                break;
            }
            let timed = time(&mut solver, &problem, repeats, &mut x)?;
            let iterations = solver.int(info::ITERATIONS) as usize;
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
                timed,
            });
        }
    }
    Ok(LevelSweep { problem: name.to_owned(), options: options.to_owned(), rows })
}

/// One implementation with one number of grids and levels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridRow {
    /// The papers' S1 (natural storage), S2 (r1/r2/b1/b2, one thread) and S3 (threads), unfused as theirs; S3 fused;
    /// and where there is a device S4, on which all pairs of levels have a grid, unfused and fused.
    pub implementation: String,
    /// r1/r2/b1/b2 grids: 0 for S1.
    pub grids: usize,
    /// Threads.
    pub threads: usize,
    /// Eliminations.
    pub levels: usize,
    /// Iterations of a solve.
    pub iterations: usize,
    /// Its times.
    #[serde(flatten)]
    pub timed: Timed,
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
    /// Levels at which the fused ones run (figures 5.5, 5.6).
    pub levels_fused: Vec<usize>,
    /// Numbers of grids.
    pub grids: Vec<usize>,
    /// Threads of S3.
    pub threads: usize,
    /// S4 runs too.
    pub device: bool,
    /// Measured solves of each.
    pub repeats: usize,
}

/// Sweeps over implementations, levels and grids.
pub fn over_grids(name: &str, n: usize, options: &str, plan: &GridPlan) -> Result<GridSweep> {
    let problem = Problem::find(name, n, None, 0.0)?;
    let mut rows = Vec::new();
    let mut x = vec![0.0; problem.unknowns()];
    let mut one = |implementation: &str, grids: usize, levels: usize, text: &str| -> Result<()> {
        let text = format!("{options} {PAPERS_NORM} levels={levels} {text}");
        let mut solver = Solver::new(problem.a.nx, problem.a.ny, &text)?;
        solver.factorize(&problem.a).with_context(|| text.to_owned())?;
        if solver.int(info::LEVELS) as usize != levels || solver.int(info::GRIDS) as usize != grids {
            // Not that many exist on this grid.
            return Ok(());
        }
        let timed = time(&mut solver, &problem, plan.repeats, &mut x)?;
        rows.push(GridRow {
            implementation: implementation.to_owned(),
            grids,
            threads: solver.int(info::THREADS) as usize,
            levels: solver.int(info::LEVELS) as usize,
            iterations: solver.int(info::ITERATIONS) as usize,
            timed,
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
        if plan.device {
            one("S4", levels / 2, levels, "backend=cuda fusion=off")?;
        }
    }
    for &levels in &plan.levels_fused {
        for &g in plan.grids.iter().filter(|&&g| g > 0 && 2 * g <= levels) {
            one("S3 fused", g, levels, &format!("backend=cpu threads={threads} fusion=on grids={g}"))?;
        }
        if plan.device {
            one("S4 fused", levels / 2, levels, "backend=cuda fusion=on")?;
        }
    }
    Ok(GridSweep { problem: name.to_owned(), n, options: options.to_owned(), rows })
}
