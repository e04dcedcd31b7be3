//! `rrbsolver compare`: all methods and all storage formats on one matrix.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use indicatif::ProgressBar;
use rrbsolver::options::{Family, Format, Kind, OPTIONS, info, opt};
use rrbsolver_plot::{check_writable, write_whole};
use serde_json::{Value, json};

use crate::args::Compare;
use crate::bars::{Bar, Panel, draw};
use crate::input::{Loaded, right_hand_side, shape_of};
use crate::library::{Matrix, System, filled, iterations, named, relative_residual, stop_reason, word};
use crate::{End, spinner};

/// Largest size of the arrays of a format, as a multiple of those of csr: larger arrays consist of padding.
const MOST_PADDING: usize = 32;
/// Number of measured products per format, and seconds after which no further product begins.
const PRODUCTS: usize = 20;
const ENOUGH_SECONDS: f64 = 1.0;

pub fn run(options: &Compare) -> Result<End> {
    for path in [&options.svg, &options.json].into_iter().flatten() {
        check_writable(path)?;
    }
    check_options("--options", &options.options)?;
    check_options("RRBSOLVER_OPTIONS", &std::env::var("RRBSOLVER_OPTIONS").unwrap_or_default())?;
    let (mut matrix, own_rhs) = Loaded::read(&options.file)?.into_matrix()?;
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let head = format!("{}: {}", options.file.display(), shape_of(&matrix));
    ensure!(rows == cols, "{head}: the matrix is not square; rrbsolver info shows it");
    let (b, rhs) = right_hand_side(options.rhs.as_deref(), own_rhs, &options.file, rows)?;
    let b = b.map_or_else(|| filled(1.0, rows), Ok)?;
    say!("{head}; right-hand side {rhs}");
    let progress = spinner(String::new());
    let formats = compare_formats(&mut matrix, &progress)?;
    let methods = compare_methods(&mut matrix, &options.options, &b, &progress)?;
    progress.finish_and_clear();
    if let Some(message) = refused_by_all(&methods) {
        bail!("{head}: no method supports it: {message}");
    }
    print_methods(&methods);
    print_formats(&formats);
    if let Some(path) = &options.svg {
        write_whole(path, draw(&head, &[method_bars(&methods), format_bars(&formats)]).as_bytes())?;
    }
    if let Some(path) = &options.json {
        let all = json!({
            "file": options.file.display().to_string(),
            "rows": rows,
            "entries": matrix.count(info::NONZEROS),
            "rhs": rhs,
            "options": options.options,
            "methods": methods.iter().map(Method::json).collect::<Vec<_>>(),
            "formats": formats.iter().map(Stored::json).collect::<Vec<_>>(),
        });
        write_whole(path, format!("{all:#}\n").as_bytes())?;
    }
    let none = !methods.iter().any(Method::converged);
    Ok(if none { End::Short } else { End::Well })
}

/// Returns the error of the first method if no method accepts the matrix.
fn refused_by_all(methods: &[Method]) -> Option<&str> {
    let all = methods.iter().all(|m| m.outcome.is_err());
    methods.iter().filter(|_| all).find_map(|m| m.outcome.as_ref().err()).map(String::as_str)
}

/// Options in which the rows of the table differ.
const COMPARED: [&str; 3] = ["solver", "preconditioner", "ordering"];

/// Checks that the user's options do not vary between rows.
fn check_options(from: &str, options: &str) -> Result<()> {
    let words = options.split(|c: char| c.is_whitespace() || c == ',');
    for name in words.filter_map(|word| word.split_once('=')).map(|(name, _)| name) {
        ensure!(
            !COMPARED.contains(&name),
            "{from}: the rows of the table differ in {name}; leave it out, or use rrbsolver solve"
        );
    }
    Ok(())
}

/// One method with one preconditioner.
struct Method {
    solver: &'static str,
    with: String,
    /// Results, or the error message of the library.
    outcome: Result<Solved, String>,
}

struct Solved {
    converged: bool,
    reason: &'static str,
    iterations: i64,
    residual: f64,
    setup: f64,
    solve: f64,
}

impl Method {
    fn converged(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|solved| solved.converged)
    }

    fn json(&self) -> Value {
        match &self.outcome {
            Ok(s) => json!({
                "solver": self.solver, "with": self.with, "converged": s.converged, "stop_reason": s.reason,
                "iterations": s.iterations, "true_relative_residual": s.residual, "seconds_setup": s.setup,
                "seconds_solve": s.solve,
            }),
            Err(message) => json!({ "solver": self.solver, "with": self.with, "refused": message }),
        }
    }
}

/// Returns the choices of an option of `sparse_`; none if it lacks the option.
fn choices(name: &str) -> Vec<&'static str> {
    let kind = OPTIONS.iter().find(|o| o.name == name).and_then(|o| o.kind(Family::Sparse));
    match kind {
        Some(Kind::Choice(names)) => names.iter().map(|(name, _)| *name).filter(|name| *name != "auto").collect(),
        _ => Vec::new(),
    }
}

/// Returns the combinations of a method as option texts: sweeps with orderings, other methods with preconditioners.
fn combinations(solver: &str) -> Vec<String> {
    let all = |option: &str| choices(option).into_iter().map(|name| format!("{option}={name}")).collect::<Vec<_>>();
    match solver {
        "jacobi" => vec![String::new()],
        "gauss_seidel" | "sor" => all("ordering"),
        // minres needs a positive definite M, which the others are not for an indefinite matrix.
        "minres" => ["none", "jacobi"].map(|name| format!("preconditioner={name}")).to_vec(),
        "cg" | "steepest_descent" => all("preconditioner"),
        // The other methods need a linear M, which the cycle of amg is not.
        _ => all("preconditioner").into_iter().filter(|with: &String| !with.ends_with("=amg")).collect(),
    }
}

fn compare_methods(matrix: &mut Matrix, options: &str, b: &[f64], progress: &ProgressBar) -> Result<Vec<Method>> {
    let mut methods = Vec::new();
    matrix.set_options("format=auto")?;
    matrix.set_options(options)?;
    // The format is built here, so that its time counts for no row.
    matrix.multiply(b, &mut filled(0.0, b.len())?)?;
    for solver in choices("solver") {
        for with in combinations(solver) {
            progress.set_message(format!("{solver} {with}"));
            // Resets the options of the previous combination.
            matrix.set_options(&format!("solver={solver} ordering=natural preconditioner=auto"))?;
            matrix.set_options(&with)?;
            let outcome = solve(matrix, b, progress).map_err(|message| format!("{message:#}"));
            methods.push(Method { solver, with: with.rsplit('=').next().unwrap_or_default().to_owned(), outcome });
        }
    }
    Ok(methods)
}

fn solve(matrix: &mut Matrix, b: &[f64], progress: &ProgressBar) -> Result<Solved> {
    matrix.factorize()?;
    let mut x = filled(0.0, b.len())?;
    let doing = progress.message();
    let converged = matrix.solve(b, &mut x, &mut |iteration, residual| {
        progress.set_message(format!("{doing}: iteration {iteration}, relative residual {residual:.2e}"));
    })?;
    Ok(Solved {
        converged,
        reason: stop_reason(matrix),
        iterations: iterations(matrix),
        residual: relative_residual(matrix, b, &x)?,
        setup: matrix.real(info::SECONDS_SETUP).unwrap_or(0.0),
        solve: matrix.real(info::SECONDS_SOLVE).unwrap_or(0.0),
    })
}

/// One storage format.
struct Stored {
    format: &'static str,
    chosen: bool,
    outcome: Result<Product, String>,
}

struct Product {
    values: f64,
    bytes: f64,
    setup: f64,
    /// Median seconds of a product.
    seconds: f64,
    /// Median nanoseconds of a product per entry.
    nanoseconds: f64,
}

impl Stored {
    fn json(&self) -> Value {
        match &self.outcome {
            Ok(p) => json!({
                "format": self.format, "auto": self.chosen, "values_stored": p.values, "bytes_an_entry": p.bytes,
                "seconds_setup": p.setup, "seconds_product": p.seconds, "nanoseconds_an_entry": p.nanoseconds,
            }),
            Err(message) => json!({ "format": self.format, "auto": self.chosen, "refused": message }),
        }
    }
}

fn compare_formats(matrix: &mut Matrix, progress: &ProgressBar) -> Result<Vec<Stored>> {
    let allowed = matrix.int(opt::FORMAT_MEMORY).unwrap_or(i64::MAX);
    let memory = matrix.real(info::BYTES_HOST).unwrap_or(0.0) as usize * MOST_PADDING;
    matrix.set_options(&format!("format=auto format_memory={}", memory.max(1 << 20)))?;
    product(matrix)?;
    let chosen = word(matrix, "format");
    let mut all = Vec::new();
    for format in Format::NAMES.iter().map(|(name, _)| *name).filter(|name| *name != "auto") {
        progress.set_message(format!("product by {format}"));
        matrix.set_options(&format!("format={format}"))?;
        let outcome = product(matrix).map_err(|message| format!("{message:#}"));
        all.push(Stored { format, chosen: chosen == Some(format), outcome });
    }
    matrix.set_options(&format!("format_memory={allowed}"))?;
    Ok(all)
}

/// Measures products. The first product builds the format, and is the warm-up.
fn product(matrix: &mut Matrix) -> Result<Product> {
    let (x, mut y) = (filled(1.0, matrix.cols())?, filled(0.0, matrix.rows())?);
    matrix.multiply(&x, &mut y)?;
    let setup = matrix.real(info::SECONDS_SETUP).unwrap_or(0.0);
    let mut seconds = Vec::new();
    let started = Instant::now();
    while seconds.len() < PRODUCTS && (seconds.is_empty() || started.elapsed().as_secs_f64() < ENOUGH_SECONDS) {
        let start = Instant::now();
        matrix.multiply(black_box(&x), &mut y)?;
        black_box(&mut y);
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let number = |name| named(matrix, name).map_or(0.0, |(value, _)| value);
    Ok(Product {
        values: number("stored"),
        bytes: number("bytes_per_nonzero"),
        setup,
        seconds: median,
        nanoseconds: 1e9 * median / number("nonzeros").max(1.0),
    })
}

fn print_methods(methods: &[Method]) {
    say!("\nmethod        with          iterations  residual   setup s    solve s    outcome");
    for m in methods {
        match &m.outcome {
            Ok(s) => say!(
                "{:<14}{:<14}{:>10}  {:<9.2e}  {:<9.2e}  {:<9.2e}  {}",
                m.solver,
                m.with,
                s.iterations,
                s.residual,
                s.setup,
                s.solve,
                s.reason
            ),
            Err(message) => say!("{:<14}{:<14}{message}", m.solver, m.with),
        }
    }
    let total = |m: &&Method| m.outcome.as_ref().map_or(f64::INFINITY, |s| s.setup + s.solve);
    let fastest = methods.iter().filter(|m| m.converged()).min_by(|a, b| total(a).total_cmp(&total(b)));
    match fastest {
        Some(m) => say!("Fastest: {} {}, {:.2e} s in total.", m.solver, m.with, total(&m)),
        None => say!("No method converged: raise the iteration limit (--options \"max_iter=...\")."),
    }
}

fn print_formats(formats: &[Stored]) {
    say!("\nformat     values stored  bytes / entry  convert s  product s   ns / entry");
    for f in formats {
        let mark = if f.chosen { "*" } else { "" };
        match &f.outcome {
            Ok(p) => say!(
                "{:<10} {:>13}  {:>14.1}  {:>9.2e}  {:>9.2e}  {:>11.3}{mark}",
                f.format,
                p.values,
                p.bytes,
                p.setup,
                p.seconds,
                p.nanoseconds
            ),
            Err(message) => say!("{:<10} {message}", f.format),
        }
    }
    say!("* selected by auto");
}

fn method_bars(methods: &[Method]) -> Panel {
    let bar = |m: &Method| {
        let name = format!("{} {}", m.solver, m.with);
        match &m.outcome {
            Ok(s) => Bar {
                name,
                value: Some(s.setup + s.solve),
                note: format!("{:.2e} s, {} iterations, {}", s.setup + s.solve, s.iterations, s.reason),
                good: s.converged,
            },
            Err(_) => Bar { name, value: None, note: "refused".to_owned(), good: false },
        }
    };
    Panel {
        title: "Methods: setup and solve, seconds (logarithmic)".to_owned(),
        bars: methods.iter().map(bar).collect(),
    }
}

fn format_bars(formats: &[Stored]) -> Panel {
    let bar = |f: &Stored| match &f.outcome {
        Ok(p) => Bar {
            name: format!("{}{}", f.format, if f.chosen { " (auto)" } else { "" }),
            value: Some(p.seconds),
            note: format!("{:.2e} s, {:.2} ns per entry, {:.1} bytes", p.seconds, p.nanoseconds, p.bytes),
            good: true,
        },
        Err(_) => Bar { name: f.format.to_owned(), value: None, note: "refused".to_owned(), good: false },
    };
    Panel { title: "Formats: product, seconds (logarithmic)".to_owned(), bars: formats.iter().map(bar).collect() }
}
