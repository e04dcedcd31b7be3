//! `rrbsolver info`: properties of a matrix, and the choices of `auto` for it.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use rrbsolver::options::info;
use rrbsolver_plot::{check_writable, write_whole};
use serde_json::{Value, json};

use crate::args::Info;
use crate::definite::Definiteness;
use crate::facts::Facts;
use crate::input::{Loaded, counted, shape_of};
use crate::library::{Matrix, System, about, filled, named, word};
use crate::pattern::Pattern;
use crate::{End, spinner};

/// Cells along the longer side of a picture; in a terminal, 40 characters of two dots.
const TERMINAL_CELLS: usize = 80;
const SVG_CELLS: usize = 240;

pub fn run(options: &Info) -> Result<End> {
    for path in [&options.svg, &options.json].into_iter().flatten() {
        check_writable(path)?;
    }
    let lacking = |error| about(&options.file, error);
    let (mut matrix, _) = Loaded::read(&options.file)?.into_matrix().map_err(lacking)?;
    let progress = spinner("inspecting the matrix".to_owned());
    let rows = matrix.csr().map_err(lacking)?;
    let facts = Facts::of(&rows, matrix.cols()).map_err(lacking)?;
    let definiteness = if matrix.rows() == matrix.cols() { Some(Definiteness::of(&rows)) } else { None };
    let choices = Choices::of(&mut matrix, &facts, definiteness);
    progress.finish_and_clear();
    let name = options.file.display();
    show!("{}", text(&format!("{name}: {}", shape_of(&matrix)), &matrix, &facts, &choices));
    if !options.no_picture {
        show!("{}", Pattern::of(&rows, matrix.cols(), TERMINAL_CELLS).text());
    }
    if let Some(path) = &options.svg {
        let title = format!("{name}: {}", shape_of(&matrix));
        write_whole(path, Pattern::of(&rows, matrix.cols(), SVG_CELLS).svg(&title).as_bytes())?;
    }
    if let Some(path) = &options.json {
        let facts = as_json(&name.to_string(), &matrix, &facts, &choices);
        write_whole(path, format!("{facts:#}\n").as_bytes())?;
    }
    Ok(End::Well)
}

/// Choices of `auto`, with the reasons.
struct Choices {
    format: Result<(&'static str, String)>,
    solver: Result<(&'static str, &'static str, String)>,
    dominance: Option<&'static str>,
    /// Of a square matrix.
    definiteness: Option<Result<Definiteness>>,
}

impl Choices {
    fn of(matrix: &mut Matrix, facts: &Facts, definiteness: Option<Result<Definiteness>>) -> Self {
        let format = format_choice(matrix);
        let solver = solver_choice(matrix, facts);
        Self { format, solver, dominance: word(matrix, "dominance"), definiteness }
    }
}

/// Returns the format that `auto` selects, and compares its memory traffic per product with csr.
fn format_choice(matrix: &mut Matrix) -> Result<(&'static str, String)> {
    let (x, mut y) = (filled(0.0, matrix.cols())?, filled(0.0, matrix.rows())?);
    let mut bytes = |matrix: &mut Matrix, options: &str| -> Result<f64> {
        matrix.set_options(options)?;
        matrix.multiply(&x, &mut y)?;
        Ok(named(matrix, "bytes_per_nonzero").map_or(0.0, |(bytes, _)| bytes))
    };
    let csr = bytes(matrix, "format=csr")?;
    let auto = bytes(matrix, "format=auto")?;
    let format = word(matrix, "format").context("the library reports no format")?;
    let reason = match format {
        "csr" => format!("a product moves {auto:.1} bytes per entry; dia, bsr and sell move no fewer"),
        _ => format!("a product moves {auto:.1} bytes per entry, {csr:.1} with csr"),
    };
    Ok((format, reason))
}

fn solver_choice(matrix: &mut Matrix, facts: &Facts) -> Result<(&'static str, &'static str, String)> {
    matrix.factorize()?;
    let solver = word(matrix, "solver").context("the library reports no method")?;
    let preconditioner = word(matrix, "preconditioner").unwrap_or("none");
    let reason = match solver {
        "jacobi" => "no off-diagonal entries",
        "cg" if preconditioner == "amg" => {
            "symmetric, with a positive diagonal; large, with mostly negative \
                                            off-diagonals"
        }
        "cg" => "symmetric, with a positive diagonal",
        "minres" if facts.signs[0] == matrix.rows() => "symmetric, but not positive definite",
        "minres" => "symmetric, but the diagonal is not positive",
        "idr" => "not symmetric",
        _ => "set by the options",
    };
    Ok((solver, preconditioner, reason.to_owned()))
}

/// Formats lines with a name and a value.
fn text(head: &str, matrix: &Matrix, facts: &Facts, choices: &Choices) -> String {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let entries = matrix.count(info::NONZEROS);
    let mut text = format!("{head}\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<15}{value}");
    };
    let mean = entries as f64 / rows.max(1) as f64;
    let longest = matrix.count(info::LONGEST_ROW);
    let entries_of = if facts.shortest == longest {
        counted(longest, "entry", "entries")
    } else {
        format!("{} to {longest} entries", facts.shortest)
    };
    line("rows", format!("{entries_of}, {mean:.1} on average"));
    if rows * cols > 0 {
        let nonzero = entries - facts.zeros;
        let share = 100.0 * nonzero as f64 / (rows as f64 * cols as f64);
        let zeros = match facts.zeros {
            0 => String::new(),
            zeros => format!("; {} with the value 0", counted(zeros, "entry", "entries")),
        };
        line("density", format!("{share:.3} %: {nonzero} nonzero of {rows} x {cols}{zeros}"));
    }
    let empty = (matrix.count(info::EMPTY_ROWS), facts.empty_columns);
    if empty != (0, 0) {
        line("empty", format!("{}, {}", counted(empty.0, "row", "rows"), counted(empty.1, "column", "columns")));
    }
    let duplicates = matrix.count(info::DUPLICATES);
    if duplicates > 0 {
        line("duplicates", format!("{duplicates} entries repeat indices and were added"));
    }
    let [lower, upper] = facts.bandwidth;
    line(
        "bandwidth",
        format!(
            "{lower} below the diagonal, {upper} above; {} with entries",
            counted(facts.diagonals, "diagonal", "diagonals")
        ),
    );
    if facts.range[1] > 0.0 {
        line("values", format!("{:.3e} to {:.3e} in magnitude, without zeros", facts.range[0], facts.range[1]));
    }
    let files = matrix.count(info::FILE_RHS);
    if files > 0 {
        line("in the file", counted(files, "right-hand side", "right-hand sides"));
    }
    if rows == cols {
        let symmetric = match matrix.int(info::SYMMETRIC) {
            Some(1) => "yes",
            Some(_) => "no",
            None => "unknown: not enough memory to check",
        };
        line("symmetric", symmetric.to_owned());
        if let Some(half @ ("lower" | "upper")) = word(matrix, "triangle") {
            line("triangle", format!("{half} only: if the matrix is symmetric, pass both triangles"));
        }
        let [positive, negative] = facts.signs;
        line("diagonal", format!("{positive} positive, {negative} negative, {} zero", rows - positive - negative));
        line("off-diagonals", format!("{} of {} negative", facts.negative[0], facts.negative[1]));
        let class = choices.dominance.map_or(String::new(), |class| format!("{class}; "));
        let [weak, strict] = facts.dominant;
        line("dominance", format!("{class}|a_ii| >= sum |a_ij| in {weak} of {rows} rows, > in {strict}"));
    }
    match &choices.definiteness {
        Some(Ok(found)) => line("definiteness", format!("{}: {}", found.verdict, found.why)),
        Some(Err(message)) => line("definiteness", format!("unknown: {message:#}")),
        None => {}
    }
    match &choices.format {
        Ok((format, reason)) => line("format", format!("{format}: {reason}")),
        Err(message) => line("format", format!("none: {message:#}")),
    }
    if rows != cols {
        line("solver", "none: the matrix is not square".to_owned());
        return text;
    }
    match &choices.solver {
        Ok((solver, preconditioner, reason)) => {
            line("solver", format!("{solver} with preconditioner {preconditioner}: {reason}"));
        }
        Err(message) => line("solver", format!("none: {message:#}")),
    }
    text
}

fn as_json(name: &str, matrix: &Matrix, facts: &Facts, choices: &Choices) -> Value {
    let refused = |error: &anyhow::Error| json!({ "refused": format!("{error:#}") });
    json!({
        "file": name,
        "rows": matrix.rows(),
        "cols": matrix.cols(),
        "entries": matrix.count(info::NONZEROS),
        "shortest_row": facts.shortest,
        "longest_row": matrix.count(info::LONGEST_ROW),
        "empty_rows": matrix.count(info::EMPTY_ROWS),
        "empty_columns": facts.empty_columns,
        "duplicates": matrix.count(info::DUPLICATES),
        "lower_bandwidth": facts.bandwidth[0],
        "upper_bandwidth": facts.bandwidth[1],
        "diagonals": facts.diagonals,
        "zeros": facts.zeros,
        "definiteness": match &choices.definiteness {
            Some(Ok(found)) => {
                json!({ "verdict": found.verdict, "why": found.why, "eigenvalue_bounds": found.bounds })
            }
            Some(Err(error)) => json!({ "verdict": "unknown", "why": format!("{error:#}") }),
            None => Value::Null,
        },
        "smallest_magnitude": facts.range[0],
        "largest_magnitude": facts.range[1],
        "right_hand_sides": matrix.count(info::FILE_RHS),
        "triangle": word(matrix, "triangle"),
        "symmetric": matrix.int(info::SYMMETRIC).map(|symmetric| symmetric == 1),
        "positive_diagonals": facts.signs[0],
        "negative_diagonals": facts.signs[1],
        "negative_off_diagonals": facts.negative[0],
        "off_diagonals": facts.negative[1],
        "dominant_rows": facts.dominant[0],
        "strictly_dominant_rows": facts.dominant[1],
        "dominance": choices.dominance,
        "format": match &choices.format {
            Ok((format, reason)) => json!({ "auto": format, "why": reason }),
            Err(error) => refused(error),
        },
        "solver": match &choices.solver {
            Ok((solver, preconditioner, reason)) => {
                json!({ "auto": solver, "preconditioner": preconditioner, "why": reason })
            }
            Err(error) => refused(error),
        },
    })
}
