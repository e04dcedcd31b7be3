//! The hard suite (docs/benchmarks/hard-suite.md): systems on which common preconditioners fail, and three easy ones.
//! Several solvers run in turn on each system.

use crate::contest::{self, Contender, Contest, Effort, Entry};
use crate::problem::Problem;
use crate::timing::digits;
use anyhow::{Context as _, Result, bail};
use rrbsolver_problems::hard::{self, System};
use rrbsolver_problems::hard_suite;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that generates the systems.
const GENERATOR: &str = include_str!("../hard_suite.py");

/// Names of its systems, in order.
const HARD: [&str; 16] = [
    "poisson",
    "aniso10",
    "aniso100",
    "aniso1000",
    "stretched",
    "checker16",
    "lognormal",
    "whitenoise",
    "layers3",
    "channels1e6",
    "disc1e6",
    "land10",
    "land30",
    "lakes",
    "maze",
    "neumann_logn",
];

/// The easy systems, which are last: name in the suite, name of the problem (docs/benchmarks/cpu-2d.md).
const EASY: [(&str, &str); 3] = [("P1", "poisson_f"), ("P2", "variable_depth"), ("discs", "inclHigh_1000")];

/// Parameters of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Seed of the random numbers.
    pub seed: u32,
    /// Nodes per row; also the number of rows, except for coasts.
    pub size: usize,
    /// Bathymetries (.asc, .asc.gz), whose wave systems are added.
    pub coasts: &'a [String],
    /// Bathymetry: shallower water is land [m].
    pub least_depth: f64,
}

/// Results of all systems, in the order of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Suite {
    /// One contest per system.
    pub systems: Vec<Contest>,
}

/// Generates the systems in a folder, one file (NAME.stencil) each: with python3 if it has numpy, otherwise here, with
/// differences by rounding only.
pub fn make(plan: &Plan, folder: &Path) -> Result<()> {
    let Plan { seed, size, coasts, least_depth } = *plan;
    if size < 2 {
        bail!("no such problem has {size} nodes per row");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let put = |name: &str, bytes: Vec<u8>| {
        let path = folder.join(format!("{name}.stencil"));
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let numbers = [seed.to_string(), size.to_string(), size.to_string()];
    let made = Command::new("python3").args(["-c", GENERATOR]).args(numbers).arg(folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        for system in hard_suite::systems(seed, size, size) {
            put(&system.name, hard::write(&system))?;
        }
    }
    for (name, problem) in EASY {
        put(name, bytes(name, Problem::find(problem, size, None, 0.0)?))?;
    }
    for coast in coasts {
        let problem = Problem::find(coast, 2, None, least_depth)?;
        let name = problem.name.clone();
        put(&name, bytes(&name, problem))?;
    }
    Ok(())
}

/// Returns the file content of a system, with zero couplings out of the grid.
fn bytes(name: &str, Problem { mut a, b, .. }: Problem) -> Vec<u8> {
    let (nx, ny) = (a.nx, a.ny);
    (0..ny).for_each(|j| a.east[j * nx + nx - 1] = 0.0);
    a.north[(ny - 1) * nx..].fill(0.0);
    hard::write(&System { name: name.to_owned(), a, b, singular: false })
}

/// Returns the systems of a folder in the order of the suite, followed by other systems in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "stencil"));
    if files.is_empty() {
        bail!("no system (NAME.stencil) in {}", folder.display());
    }
    let place = |path: &PathBuf| {
        let mut names = HARD.into_iter().chain(EASY.map(|(name, _)| name));
        let stem = path.file_stem().unwrap_or_default().to_owned();
        (names.position(|name| stem == name).unwrap_or(usize::MAX), stem)
    };
    files.sort_by_key(place);
    Ok(files)
}

/// Runs the contenders on every system of a folder; `{}` in the arguments of a program is replaced by the file of the
/// system.
pub fn hold(folder: &Path, contenders: &[Contender], effort: Effort) -> Result<Suite> {
    let mut systems = Vec::new();
    for file in files(folder)? {
        let path = file.to_str().context("a name that is not UTF-8")?;
        let problem = Problem::find(path, 2, None, 0.0)?;
        let named: Vec<Contender> = contenders
            .iter()
            .map(|contender| match contender {
                Contender::Program(name, words) => {
                    Contender::Program(name.clone(), words.iter().map(|word| word.replace("{}", path)).collect())
                }
                other => other.clone(),
            })
            .collect();
        let mut contest = contest::hold(&problem, &named, effort)?;
        // Other programs may report convergence without reaching the tolerance.
        contest.entries.iter_mut().for_each(|entry| entry.converged &= entry.residual <= 1.01 * effort.rel_tol);
        systems.push(contest);
    }
    Ok(Suite { systems })
}

impl Suite {
    /// Formats milliseconds of setup and solve with the iterations in brackets, and the ratio of each solver to the
    /// first one: geometric mean and smallest.
    pub fn text(&self) -> String {
        let Some(first) = self.systems.first() else { return String::new() };
        let mut text = format!("{}, setup and solve in ms [iterations]; -: did not come to an end\n\n", size(first));
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &row([String::new()].into_iter().chain(first.entries.iter().map(|e| e.name.clone())).collect());
        text += &row(vec!["---".to_owned(); first.entries.len() + 1]);
        for system in &self.systems {
            let is_other = (system.nx, system.ny) != (first.nx, first.ny);
            let name = if is_other { format!("{}, {}", system.problem, size(system)) } else { system.problem.clone() };
            text += &row([name].into_iter().chain(system.entries.iter().map(cell)).collect());
        }
        let ratios = (0..first.entries.len()).map(|k| self.beside_the_first(k));
        text += &row(["times the first one".to_owned()].into_iter().chain(ratios).collect());
        text
    }

    /// Returns the geometric mean and the smallest ratio of the times of solver k to those of the first, over systems
    /// where both converged.
    fn beside_the_first(&self, k: usize) -> String {
        let of = |system: &Contest| {
            let (first, other) = (system.entries.first()?, system.entries.get(k)?);
            (first.converged && other.converged).then(|| total(other) / total(first))
        };
        let ratios: Vec<f64> = self.systems.iter().filter_map(of).collect();
        if k == 0 || ratios.is_empty() {
            return String::new();
        }
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{mean:.2} ({} of {}; least {least:.2})", ratios.len(), self.systems.len())
    }
}

fn size(system: &Contest) -> String {
    format!("{} x {}", system.nx, system.ny)
}

/// Returns the seconds of setup and solve.
fn total(entry: &Entry) -> f64 {
    entry.setup.median() + entry.solve.median()
}

fn cell(entry: &Entry) -> String {
    let end = if entry.converged { String::new() } else { "- ".to_owned() };
    format!("{end}{} [{}]", digits(1e3 * total(entry)), entry.iterations)
}
