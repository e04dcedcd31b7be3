//! `rrbsolver solve`: solves A x = b for the matrix of a file.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use rrbsolver::options::info;
use rrbsolver_plot::convergence::{self, History};
use rrbsolver_plot::{check_writable, fonts, write_whole};
use serde_json::json;

use crate::args::Solve;
use crate::input::{Loaded, Problem, right_hand_side};
use crate::library::{System, filled, iterations, recorded, relative_residual, stop_reason, word};
use crate::{End, spinner};

/// Largest number of points of a plot; more points are indistinguishable.
const MOST_POINTS: usize = 500;

/// Results of any family that are words or informative for a reader, in this order.
const NAMES: [&str; 9] =
    ["solver", "preconditioner", "format", "cycle", "precision", "backend", "threads", "levels", "shift"];

pub fn run(options: &Solve) -> Result<End> {
    if let Some(path) = options.write.as_ref().filter(|path| path.extension().is_some_and(|e| e == "gz")) {
        bail!("{}: x is written as plain text; use a name that does not end in .gz", path.display());
    }
    for path in [&options.write, &options.svg, &options.csv, &options.json].into_iter().flatten() {
        check_writable(path)?;
    }
    let Problem { mut system, own_rhs, shape } = Loaded::read(&options.file)?.into_problem()?;
    let rows = system.rows();
    let (b, rhs) = right_hand_side(options.rhs.as_deref(), own_rhs, &options.file, rows)?;
    say!("{}: {shape}; right-hand side {rhs}", options.file.display());
    system.set_options(&options.options)?;
    let progress = spinner("factorizing".to_owned());
    let named = || options.file.display().to_string();
    // Before vectors are allocated, so that the library reports insufficient memory.
    system.factorize().with_context(named)?;
    let b = b.map_or_else(|| filled(1.0, rows), Ok)?;
    let mut x = filled(0.0, rows)?;
    let converged = system.solve(&b, &mut x, &mut |iteration, residual| {
        progress.set_message(format!("iteration {iteration}, relative residual {residual:.2e}"));
    });
    let converged = converged.with_context(named)?;
    progress.finish_and_clear();
    let residual = relative_residual(&mut *system, &b, &x)?;
    show!("{}", report(&*system, converged, residual));
    let history = system.history()?;
    if let Some(path) = &options.write {
        write_whole(path, column(&x).as_bytes())?;
    }
    if let Some(path) = &options.csv {
        write_whole(path, csv(&history).as_bytes())?;
    }
    if let Some(path) = &options.svg {
        write_whole(path, plot(&*system, &options.file, &history)?.as_bytes())?;
    }
    if let Some(path) = &options.json {
        let mut all = json!({
            "file": options.file.display().to_string(),
            "system": shape,
            "rhs": rhs,
            "options": options.options,
            "converged": converged,
            "stop_reason": stop_reason(&*system),
            "iterations": iterations(&*system),
            "true_relative_residual": residual,
            "seconds_setup": system.real(info::SECONDS_SETUP),
            "seconds_solve": system.real(info::SECONDS_SOLVE),
            "history": history,
        });
        for (name, value) in used(&*system) {
            all[name] = value;
        }
        write_whole(path, format!("{all:#}\n").as_bytes())?;
    }
    Ok(if converged { End::Well } else { End::Short })
}

/// Returns the settings in use, by name.
fn used(system: &dyn System) -> Vec<(&'static str, serde_json::Value)> {
    let told = |name: &str, value: &serde_json::Value| name != "shift" || value.as_f64() != Some(0.0);
    let all = NAMES.into_iter().filter_map(|name| Some((name, recorded(system, name)?)));
    all.filter(|(name, value)| told(name, value)).collect()
}

fn report(system: &dyn System, converged: bool, residual: f64) -> String {
    let shown = |(name, value): (&str, serde_json::Value)| match value {
        serde_json::Value::String(word) => format!("{name} {word}"),
        value => format!("{name} {value}"),
    };
    let used: Vec<String> = used(system).into_iter().map(shown).collect();
    let mut text = format!("  {}\n", used.join(", "));
    let end = if converged { "converged" } else { "NOT converged" };
    let reason = stop_reason(system);
    let (iterations, tested) = (iterations(system), system.real(info::FINAL_RESIDUAL).unwrap_or(f64::NAN));
    let plural = if iterations == 1 { "" } else { "s" };
    let _ = writeln!(text, "  {end} ({reason}) after {iterations} iteration{plural}, tested residual {tested:.2e}");
    let _ = writeln!(text, "  ||b - A x|| / ||b|| = {residual:.3e}, recomputed");
    let seconds = |key| system.real(key).unwrap_or(0.0);
    let (setup, solve) = (seconds(info::SECONDS_SETUP), seconds(info::SECONDS_SOLVE));
    let _ = writeln!(text, "  setup {setup:.3e} s, solve {solve:.3e} s");
    if !converged {
        let _ = writeln!(text, "  {}", advice(reason));
    }
    text
}

/// Returns advice for a solve that did not converge.
fn advice(reason: &str) -> &'static str {
    match reason {
        "max_iter" => {
            "raise the iteration limit: --options \"max_iter=...\"; or try another method: rrbsolver \
                       compare"
        }
        "stagnated" => {
            "the residual is at the rounding level: raise rel_tol; or the method broke down: rrbsolver compare \
             tries all methods"
        }
        "diverged" => "use another method or preconditioner: rrbsolver compare tries all",
        _ => "rrbsolver compare tries all methods",
    }
}

/// Formats a vector as a MatrixMarket file with one column, with the fewest digits that give bitwise identical values.
fn column(x: &[f64]) -> String {
    let mut text = format!("%%MatrixMarket matrix array real general\n{} 1\n", x.len());
    for value in x {
        let _ = writeln!(text, "{value:e}");
    }
    text
}

fn csv(history: &[f64]) -> String {
    let mut text = "iteration,relative_residual\n".to_owned();
    for (k, residual) in history.iter().enumerate() {
        let _ = writeln!(text, "{k},{residual:e}");
    }
    text
}

fn plot(system: &dyn System, file: &Path, history: &[f64]) -> Result<String> {
    let drawn = |&(_, residual): &(usize, f64)| residual.is_finite() && residual > 0.0;
    let all: Vec<(usize, f64)> = history.iter().copied().enumerate().filter(drawn).collect();
    ensure!(!all.is_empty(), "no residual to draw: b = 0, or the initial guess is the solution; omit --svg");
    let step = all.len().div_ceil(MOST_POINTS);
    let keep = |k: usize| k.is_multiple_of(step) || k + 1 == all.len();
    let points = all.iter().enumerate().filter(|(k, _)| keep(*k)).map(|(_, &(k, residual))| (k as f64, residual));
    let name = match (word(system, "solver"), word(system, "preconditioner")) {
        (Some(solver), Some(preconditioner)) => format!("{solver}, {preconditioner}"),
        _ => system.family().prefix().trim_end_matches('_').to_owned(),
    };
    fonts::register();
    let title = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    convergence::draw(&[History { name, points: points.collect() }], &title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_histories_are_written_to_the_last_bit() {
        assert_eq!(
            column(&[0.1, -1e300, 5e-324]),
            "%%MatrixMarket matrix array real general\n3 1\n1e-1\n-1e300\n5e-324\n"
        );
        assert_eq!(csv(&[1.0, 0.25]), "iteration,relative_residual\n0,1e0\n1,2.5e-1\n");
    }
}
