//! Small grids: time of a solve outside its steps.

use crate::problem::Problem;
use crate::solver::Solver;
use crate::stages::Clocked;
use crate::timing::Samples;
use anyhow::Result;
use rrbsolver::options::info;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Results of one grid with one number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverheadRow {
    /// Nodes per side.
    pub n: usize,
    /// Requested number of threads.
    pub threads: usize,
    /// Number of threads in use.
    pub in_use: usize,
    /// Number of iterations.
    pub iterations: usize,
    /// Time of consecutive calls of `rrb_solve`.
    pub solve: Samples,
    /// Time of a solve outside all its steps, on thread 0.
    pub beside: Samples,
    /// Time of `rrb_solve` with b = 0: call overhead, awake threads, inspection of b, and x = 0.
    pub nothing: Samples,
    /// Time of `rrb_solve` after the threads have slept.
    pub rested: Samples,
    /// Time of `rrb_solve` with b = 0 after the threads have slept.
    pub nothing_rested: Samples,
}

/// Results outside the steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overhead {
    /// Name of the problem.
    pub problem: String,
    /// Options of the solver in addition to threads.
    pub options: String,
    /// Results by size, then by threads.
    pub rows: Vec<OverheadRow>,
}

/// Pause between two calls, in which a simulation would do other work.
pub const REST: Duration = Duration::from_millis(1);

/// Measures all sizes with all numbers of threads: the five quantities of a row in turn, `repeats` times.
pub fn measure(name: &str, sizes: &[usize], threads: &[usize], options: &str, repeats: usize) -> Result<Overhead> {
    let mut rows = Vec::new();
    for &n in sizes {
        let problem = Problem::find(name, n, None, 0.0)?;
        let zero = vec![0.0; problem.unknowns()];
        for &threads in threads {
            let text = format!("{options} threads={threads}");
            let mut solver = Solver::new(problem.a.nx, problem.a.ny, &text)?;
            solver.factorize(&problem.a)?;
            let mut clocked = Clocked::new(&problem, &text)?;
            let mut x = zero.clone();
            let mut seconds = |b: &[f64], rest: Duration| -> Result<f64> {
                x.fill(0.0);
                if !rest.is_zero() {
                    std::thread::sleep(rest);
                }
                let start = Instant::now();
                solver.solve(b, &mut x)?;
                Ok(start.elapsed().as_secs_f64())
            };
            let mut samples: [Samples; 5] = Default::default();
            let mut iterations = 0;
            for repeat in 0..=repeats {
                let run = clocked.solve()?;
                iterations = run.iterations;
                let round = [
                    seconds(&problem.b, Duration::ZERO)?,
                    run.outside_steps(),
                    seconds(&zero, Duration::ZERO)?,
                    seconds(&problem.b, REST)?,
                    seconds(&zero, REST)?,
                ];
                if repeat > 0 || repeats == 0 {
                    samples.iter_mut().zip(round).for_each(|(samples, s)| samples.push(s));
                }
            }
            let [solve, beside, nothing, rested, nothing_rested] = samples;
            let in_use = solver.int(info::THREADS) as usize;
            rows.push(OverheadRow { n, threads, in_use, iterations, solve, beside, nothing, rested, nothing_rested });
        }
    }
    Ok(Overhead { problem: name.to_owned(), options: options.to_owned(), rows })
}
