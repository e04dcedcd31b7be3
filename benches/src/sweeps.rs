//! The papers' studies over levels and over r1/r2/b1/b2 grids (figures 5.1 to 5.6 and table 5.3 of ETNA 46, 2017).

use crate::device::{Device, DeviceArray};
use crate::problem::Problem;
use crate::solver::Solver;
use crate::timing::Samples;
use anyhow::{Context as _, Result};
use rrbsolver::options::info;
use rrbsolver_problems::random_rhs;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The papers' stopping test.
pub const PAPERS_NORM: &str = "norm=preconditioned reference=initial";

/// Times of one solver on one problem.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timed {
    /// Seconds of a factorization in an existing handle.
    pub setup: Samples,
    /// Seconds of a solve.
    pub solve: Samples,
    /// On a device, where setup and solve use arrays on the device: seconds of the copies of a solve with arrays on the
    /// host.
    #[serde(default)]
    pub copies: Option<Samples>,
}

/// Results of one number of levels on one grid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LevelRow {
    /// Nodes per side.
    pub n: usize,
    /// Number of levels in use (eliminations).
    pub levels: usize,
    /// Number of iterations with the problem's own right-hand side.
    pub iterations: usize,
    /// Condition number of M^-1 A, from a solve to 1e-12 with a random right-hand side; 0 after a single iteration.
    pub kappa: f64,
    /// Notay's bound of the condition number.
    pub bound: f64,
    /// Times.
    #[serde(flatten)]
    pub timed: Timed,
}

/// Results of figures 5.1, 5.2 and table 5.3.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LevelSweep {
    /// Name of the problem.
    pub problem: String,
    /// Options in addition to levels.
    pub options: String,
    /// Results by size, then by levels.
    pub rows: Vec<LevelRow>,
}

/// Returns Notay's bound sqrt(5) (sqrt(5) - 1)^(levels - 1), about 1.8 * 1.23^levels (report 16-06, section 2.5).
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

/// Factorizes and solves from x = 0, `repeats` times after one warm-up. The solver must have factorized this matrix
/// before.
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

/// Limit of the exact factor of the coarsest system. The factorization of a larger one would dominate the time of the
/// study.
const COARSE_MEMORY: usize = 150_000_000;

/// Measures over sizes and levels. If `levels` is empty: 2, 4, ... up to the largest number of the grid, if the
/// coarsest system is small.
pub fn over_levels(name: &str, sizes: &[usize], levels: &[usize], options: &str, repeats: usize) -> Result<LevelSweep> {
    let mut rows: Vec<LevelRow> = Vec::new();
    for &n in sizes {
        let problem = Problem::find(name, n, None, 0.0)?;
        let (a, len) = (&problem.a, problem.unknowns());
        let random = random_rhs(len, 3);
        let mut x = vec![0.0; len];
        let all: Vec<usize> = if levels.is_empty() { (2..=64).step_by(2).collect() } else { levels.to_vec() };
        for wanted in all {
            let text = format!("coarse_memory={COARSE_MEMORY} {options} {PAPERS_NORM} levels={wanted}");
            let mut solver = Solver::new(a.nx, a.ny, &text)?;
            if let Err(message) = solver.factorize(a) {
                if levels.is_empty() && message.to_string().contains("coarse_memory") {
                    continue;
                }
                return Err(message);
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

/// Results of one implementation with one number of grids and levels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridRow {
    /// Implementation: the papers' S1 (natural storage), S2 (r1/r2/b1/b2, one thread) and S3 (threads), unfused as in
    /// the papers; S3 fused. With a device also S4, unfused and fused, with one grid per pair of levels.
    pub implementation: String,
    /// Number of r1/r2/b1/b2 grids; 0 for S1.
    pub grids: usize,
    /// Number of threads.
    pub threads: usize,
    /// Number of levels (eliminations).
    pub levels: usize,
    /// Number of iterations of a solve.
    pub iterations: usize,
    /// Times.
    #[serde(flatten)]
    pub timed: Timed,
}

/// Results of figures 5.3 to 5.6.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridSweep {
    /// Name of the problem.
    pub problem: String,
    /// Nodes per side.
    pub n: usize,
    /// Options in addition to those of the rows.
    pub options: String,
    /// Results by implementation, grids and levels.
    pub rows: Vec<GridRow>,
}

/// Parameters of a study over grids.
#[derive(Clone, Debug)]
pub struct GridPlan {
    /// Numbers of levels for all implementations (figures 5.3, 5.4).
    pub levels_all: Vec<usize>,
    /// Numbers of levels for the fused implementations (figures 5.5, 5.6).
    pub levels_fused: Vec<usize>,
    /// Numbers of grids.
    pub grids: Vec<usize>,
    /// Number of threads of S3.
    pub threads: usize,
    /// Whether S4 runs too.
    pub device: bool,
    /// Number of measured solves.
    pub repeats: usize,
}

/// Measures over implementations, levels and grids.
pub fn over_grids(name: &str, n: usize, options: &str, plan: &GridPlan) -> Result<GridSweep> {
    let problem = Problem::find(name, n, None, 0.0)?;
    let mut rows = Vec::new();
    let mut x = vec![0.0; problem.unknowns()];
    let mut one = |implementation: &str, grids: usize, levels: usize, text: &str| -> Result<()> {
        let text = format!("{options} {PAPERS_NORM} levels={levels} {text}");
        let mut solver = Solver::new(problem.a.nx, problem.a.ny, &text)?;
        solver.factorize(&problem.a).with_context(|| text.to_owned())?;
        if solver.int(info::LEVELS) as usize != levels || solver.int(info::GRIDS) as usize != grids {
            // This number of levels or grids does not exist for this grid.
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
        // More grids than half the levels do not exist.
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
