//! The hard suite: systems on which common preconditioners fail (docs/robustness.md), each by several solvers in turn.

use crate::contest::{self, Contender, Contest, Effort, Entry};
use crate::problem::Problem;
use crate::timing::digits;
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that makes the systems.
const GENERATOR: &str = include_str!("../hard_suite.py");

/// All systems, in the order in which they were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Suite {
    /// A contest each.
    pub systems: Vec<Contest>,
}

/// Makes the systems of this seed in a folder; needs python3 with numpy.
pub fn make(seed: u64, nx: usize, ny: usize, folder: &Path) -> Result<()> {
    let numbers = [seed.to_string(), nx.to_string(), ny.to_string()];
    let made = Command::new("python3").args(["-c", GENERATOR]).args(numbers).arg(folder).output();
    let made = made.context("the hard suite is made by python3, which is not found")?;
    if !made.status.success() {
        bail!("the hard suite is made by python3 with numpy: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(())
}

/// The systems of a folder, as they were made.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "stencil") {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    if files.is_empty() {
        bail!("no system (NAME.stencil) in {}", folder.display());
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Every system of a folder by these; `{}` in the words of a program stands for the file of the system.
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
        // Others may end without what was asked for.
        contest.entries.iter_mut().for_each(|entry| entry.converged &= entry.residual <= 1.01 * effort.rel_tol);
        systems.push(contest);
    }
    Ok(Suite { systems })
}

impl Suite {
    /// Milliseconds of setup and solve, iterations in brackets; then how often each takes the time of the first one, in
    /// the geometric mean, and the least.
    pub fn text(&self) -> String {
        let Some(first) = self.systems.first() else { return String::new() };
        let mut text =
            format!("{} x {}, setup and solve in ms [iterations]; -: did not come to an end\n\n", first.nx, first.ny);
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &row([String::new()].into_iter().chain(first.entries.iter().map(|e| e.name.clone())).collect());
        text += &row(vec!["---".to_owned(); first.entries.len() + 1]);
        for system in &self.systems {
            text += &row([system.problem.clone()].into_iter().chain(system.entries.iter().map(cell)).collect());
        }
        let ratios = (0..first.entries.len()).map(|k| self.beside_the_first(k));
        text += &row(["times the first one".to_owned()].into_iter().chain(ratios).collect());
        text
    }

    /// Geometric mean and least of the time of the k-th over that of the first, where both came to an end.
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

/// Seconds of setup and solve.
fn total(entry: &Entry) -> f64 {
    entry.setup.median() + entry.solve.median()
}

fn cell(entry: &Entry) -> String {
    let end = if entry.converged { String::new() } else { "- ".to_owned() };
    format!("{end}{} [{}]", digits(1e3 * total(entry)), entry.iterations)
}
