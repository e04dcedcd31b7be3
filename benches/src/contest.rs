//! Measures the same system with several solvers in turn: this library with several sets of options, the in-house ICCG,
//! and other programs.

use crate::cost::Model;
use crate::iccg::{End, Iccg, Pivots};
use crate::problem::Problem;
use crate::solver::Solver;
use crate::timing::Samples;
use anyhow::{Context as _, Result, anyhow};
use rrbsolver::options::info;
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::Instant;

/// A solver that takes part in a contest.
#[derive(Clone, Debug)]
pub enum Contender {
    /// This library: a name for the options, and the options as text.
    Rrb(String, String),
    /// ICCG(0) or MIC(0)-CG of this program, one thread.
    InHouse(Pivots),
    /// Another program: name, program and arguments. It solves the same system. Its last line with nine fields is
    /// `name,problem,n,threads,setup seconds,solve seconds,iterations,relative residual,megabytes`.
    Program(String, Vec<String>),
}

impl Contender {
    /// Parses `NAME=PROGRAM ARGUMENTS`, split at blanks.
    pub fn program(text: &str) -> Result<Self> {
        program(text).map(|(name, words)| Self::Program(name, words))
    }
}

/// Parses `NAME=PROGRAM ARGUMENTS`, split at blanks.
pub fn program(text: &str) -> Result<(String, Vec<String>)> {
    let (name, command) = text.split_once('=').context("expected NAME=PROGRAM ARGUMENTS")?;
    let words: Vec<String> = command.split_ascii_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Err(anyhow!("expected a program name")) } else { Ok((name.to_owned(), words)) }
}

/// Number and length of the measurements.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Measured rounds.
    pub repeats: usize,
    /// A contender that has used this many seconds is omitted from further rounds.
    pub seconds: f64,
    /// Tolerance of the in-house ICCG, in the 2-norm relative to b. Other solvers have it in their options.
    pub rel_tol: f64,
}

/// Results of one contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the contender.
    pub name: String,
    /// Number of threads.
    pub threads: usize,
    /// Seconds from the matrix to a ready solver, including allocation and thread start.
    pub setup: Samples,
    /// Seconds to factorize a new matrix in an existing solver; empty if the solver does not support this.
    pub renewal: Samples,
    /// Seconds from b and x = 0 to x.
    pub solve: Samples,
    /// Number of iterations of a solve.
    pub iterations: usize,
    /// Final |b - A x| / |b|, recomputed.
    pub residual: f64,
    /// Whether the solver reports convergence.
    pub converged: bool,
    /// Setup and solve time relative to the first contender in the same round.
    pub ratio: Samples,
    /// Solve time relative to the first contender in the same round.
    #[serde(default)]
    pub solve_ratio: Samples,
    /// Results that only this library reports.
    pub rrb: Option<Rrb>,
}

/// Results that this library reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rrb {
    /// The preconditioner in use.
    pub model: Model,
    /// Memory of the handle in bytes.
    pub bytes: i64,
    /// Smallest eigenvalue estimate of the last solve, from its CG coefficients.
    pub lambda_min: f64,
    /// Largest eigenvalue estimate of the last solve.
    pub lambda_max: f64,
    /// Memory traffic in 8-byte words per black node and iteration, if it is counted.
    pub words: Option<f64>,
    /// Memory traffic of the whole solve in 8-byte words per black node, if it is counted.
    pub words_of_solve: Option<f64>,
}

/// Results of a contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contest {
    /// Name of the problem.
    pub problem: String,
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Results in the order of the contenders.
    pub entries: Vec<Entry>,
}

/// Results of one run.
struct Run {
    name: String,
    threads: usize,
    setup: f64,
    renewal: Option<f64>,
    solve: f64,
    iterations: usize,
    residual: Option<f64>,
    converged: bool,
    rrb: Option<Rrb>,
}

/// Runs all contenders in turn, in several rounds. The first round is the warm-up. It counts only for contenders that
/// used up their seconds in it.
pub fn hold(problem: &Problem, contenders: &[Contender], effort: Effort) -> Result<Contest> {
    let mut entries: Vec<Option<Entry>> = vec![None; contenders.len()];
    let mut warm_up: Vec<Option<Run>> = contenders.iter().map(|_| None).collect();
    let mut used = vec![0.0; contenders.len()];
    let mut x = vec![0.0; problem.unknowns()];
    for round in 0..=effort.repeats {
        let mut first = None;
        for (k, contender) in contenders.iter().enumerate() {
            if used[k] > effort.seconds {
                continue;
            }
            // Another program used the memory and the caches, so an unmeasured run precedes the first contender.
            let after_program = k == 0 && matches!(contenders.last(), Some(Contender::Program(..)));
            if after_program && round > 0 {
                run(problem, contender, effort.rel_tol, &mut x)?;
            }
            let start = Instant::now();
            let run = run(problem, contender, effort.rel_tol, &mut x)?;
            used[k] += start.elapsed().as_secs_f64();
            if round == 0 {
                let residual = run.residual.unwrap_or_else(|| problem.relative_residual(&x));
                entries[k] = Some(Entry {
                    name: run.name.clone(),
                    threads: run.threads,
                    setup: Samples::default(),
                    renewal: Samples::default(),
                    solve: Samples::default(),
                    iterations: run.iterations,
                    residual,
                    converged: run.converged,
                    ratio: Samples::default(),
                    solve_ratio: Samples::default(),
                    rrb: run.rrb.clone(),
                });
                if used[k] <= effort.seconds && effort.repeats > 0 {
                    continue;
                }
                warm_up[k] = Some(run);
                continue;
            }
            if k == 0 {
                first = Some((run.setup + run.solve, run.solve));
            }
            add(entries[k].as_mut().expect("made in the first round"), &run, first);
        }
        if round == 0 {
            // Contenders for which the first round is the only run.
            let against = warm_up.first().and_then(Option::as_ref).map(|r| (r.setup + r.solve, r.solve));
            for (entry, run) in entries.iter_mut().zip(&warm_up) {
                if let (Some(entry), Some(run)) = (entry.as_mut(), run) {
                    add(entry, run, against);
                }
            }
        }
    }
    let mut entries: Vec<Entry> = entries.into_iter().flatten().collect();
    let (setup, solve) = entries.first().map_or((0.0, 0.0), |e| (e.setup.median(), e.solve.median()));
    for entry in &mut entries {
        // A contender with one long run has no round in common with the measured runs of the first contender.
        if entry.ratio.all().is_empty() {
            entry.ratio.push((entry.setup.median() + entry.solve.median()) / (setup + solve));
            entry.solve_ratio.push(entry.solve.median() / solve);
        }
    }
    Ok(Contest { problem: problem.name.clone(), nx: problem.a.nx, ny: problem.a.ny, entries })
}

/// Adds a run; `first` is the setup plus solve time and the solve time of the first contender in this round.
fn add(entry: &mut Entry, run: &Run, first: Option<(f64, f64)>) {
    entry.setup.push(run.setup);
    entry.solve.push(run.solve);
    if let Some(renewal) = run.renewal {
        entry.renewal.push(renewal);
    }
    if let Some((total, solve)) = first {
        entry.ratio.push((run.setup + run.solve) / total);
        entry.solve_ratio.push(run.solve / solve);
    }
}

fn run(problem: &Problem, contender: &Contender, rel_tol: f64, x: &mut [f64]) -> Result<Run> {
    match contender {
        Contender::Rrb(name, options) => run_rrb(problem, name, options, x).with_context(|| options.to_owned()),
        Contender::InHouse(pivots) => {
            let start = Instant::now();
            let solver = Iccg::factorize(&problem.a, *pivots);
            let setup = start.elapsed().as_secs_f64();
            x.fill(0.0);
            let end = match solver {
                Ok(mut solver) => solver.solve(&problem.b, x, rel_tol, 100_000),
                // A pivot may vanish if A is singular.
                Err(_) if problem.a.corners.is_none() => End { iterations: 0, converged: false },
                Err(error) => return Err(error),
            };
            let name = if *pivots == Pivots::Modified { "MIC(0)-CG" } else { "ICCG(0)" };
            Ok(Run {
                name: format!("in-house {name}"),
                threads: 1,
                setup,
                renewal: None,
                solve: start.elapsed().as_secs_f64() - setup,
                iterations: end.iterations,
                residual: None,
                converged: end.converged,
                rrb: None,
            })
        }
        Contender::Program(name, words) => run_program(name, words),
    }
}

fn run_rrb(problem: &Problem, name: &str, options: &str, x: &mut [f64]) -> Result<Run> {
    let (a, b) = (&problem.a, &problem.b);
    x.fill(0.0);
    let start = Instant::now();
    let mut solver = Solver::new(a.nx, a.ny, options)?;
    solver.factorize(a)?;
    let setup = start.elapsed().as_secs_f64();
    let converged = solver.solve(b, x)?;
    let solve = start.elapsed().as_secs_f64() - setup;
    let (iterations, lambda_min, lambda_max) =
        (solver.int(info::ITERATIONS) as usize, solver.real(info::LAMBDA_MIN), solver.real(info::LAMBDA_MAX));
    let start = Instant::now();
    solver.factorize(a)?;
    let renewal = start.elapsed().as_secs_f64();

    let model = Model::new(
        |key| solver.int(key),
        solver.int(info::PRECISION),
        solver.int(info::CYCLE),
        solver.int(info::LEVELS) as usize,
    );
    let on_schur_complement = a.corners.is_none() && solver.int(info::COMPENSATED_COUPLINGS) == 0;
    let counted = on_schur_complement && solver.int(info::GRIDS) > 0;
    Ok(Run {
        name: name.to_owned(),
        threads: solver.int(info::THREADS) as usize,
        setup,
        renewal: Some(renewal),
        solve,
        iterations,
        residual: None,
        converged,
        rrb: Some(Rrb {
            words: if counted { model.words_of_iteration() } else { None },
            words_of_solve: if counted { model.words_of_solve(iterations) } else { None },
            model,
            bytes: solver.int(info::BYTES_HOST),
            lambda_min,
            lambda_max,
        }),
    })
}

/// Pause after another program.
const SETTLING: std::time::Duration = std::time::Duration::from_millis(500);

/// Runs a program. Returns its standard output.
pub fn output_of(words: &[String]) -> Result<String> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .with_context(|| format!("cannot run {}", words.join(" ")))?;
    // Processes that it leaves behind, such as daemons of a launcher, must not run during the next measurement.
    std::thread::sleep(SETTLING);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run_program(name: &str, words: &[String]) -> Result<Run> {
    let text = output_of(words)?;
    let complaint = || anyhow!("{} printed no line of nine fields: {text}", words.join(" "));
    let fields: Vec<&str> =
        text.lines().map(|l| l.split(',').collect::<Vec<_>>()).rfind(|f| f.len() == 9).ok_or_else(complaint)?;
    let number = |k: usize| fields[k].trim().parse::<f64>().map_err(|_| complaint());
    Ok(Run {
        name: name.to_owned(),
        threads: number(3)? as usize,
        setup: number(4)?,
        renewal: None,
        solve: number(5)?,
        iterations: number(6)? as usize,
        residual: Some(number(7)?),
        converged: true,
        rrb: None,
    })
}
