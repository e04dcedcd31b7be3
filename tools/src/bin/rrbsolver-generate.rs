//! Writes everything that is made from the functions in `src/ffi` and the table in `src/options.rs`: the C header, the
//! Fortran constants, and the tables of the documentation. `--check` compares instead.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cbindgen::{Builder, Config, DocumentationStyle, ItemType, Language, Style};
use clap::Parser;
use rrbsolver::error::STATUSES;
use rrbsolver::options::{Effect, Family, Kind, OPTIONS, RESULTS, allowed_range};

/// Writes the C header, the Fortran constants and the tables of the documentation.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Compare with the files that are there, write nothing, and fail if one is stale.
    #[arg(long)]
    check: bool,
    /// Folder of the project.
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

/// Wholly generated files.
const HEADER: &str = "include/rrbsolver.h";
const FORTRAN: &str = "bindings/fortran/src/rrbsolver_constants.inc";
/// Files with generated tables, and the tables each of them must have.
const PAGES: [(&str, &[Table]); 2] =
    [("docs/c-api.md", &Table::ALL), ("README.md", &[Table::Options(Family::Common), Table::Options(Family::Rrb)])];
const COMMAND: &str = "cargo run --release -p rrbsolver-tools --bin rrbsolver-generate";

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("rrbsolver-generate: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let root = &arguments.root;
    let mut outputs = vec![(HEADER, header(root)), (FORTRAN, Ok(fortran()))];
    for (name, tables) in PAGES {
        outputs.push((name, read(&root.join(name)).and_then(|page| fill_page(name, &page, tables))));
    }
    // All that can be written is, before the first complaint.
    let mut complaints = Vec::new();
    for (name, text) in outputs {
        let path = root.join(name);
        match text {
            Err(sentence) => complaints.push(sentence),
            Ok(text) if std::fs::read_to_string(&path).is_ok_and(|old| old == text) => {}
            Ok(_) if arguments.check => complaints.push(format!("{name} is stale: run `{COMMAND}`")),
            Ok(text) => {
                std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                println!("wrote {}", path.display());
            }
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\nrrbsolver-generate: ")) }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// A constant of the interface.
struct Constant {
    name: String,
    value: i64,
    doc: String,
}

/// All constants, in groups with a title. Choices that an option and a result share appear once.
fn constants() -> Vec<(&'static str, Vec<Constant>)> {
    let statuses = STATUSES
        .iter()
        .map(|s| Constant { name: s.name.to_owned(), value: s.value.into(), doc: s.doc.to_owned() })
        .collect();
    let options = OPTIONS
        .iter()
        .map(|o| Constant { name: format!("RRB_OPT_{}", o.constant), value: o.key.into(), doc: o.meaning() })
        .collect();
    let results = RESULTS
        .iter()
        .map(|r| Constant { name: format!("RRB_INFO_{}", r.constant), value: r.key.into(), doc: r.meaning() })
        .collect();
    let of_options = OPTIONS.iter().filter_map(|o| match o.kind {
        Kind::Choice(choices) => Some((o.constant, choices)),
        _ => None,
    });
    let of_results = RESULTS.iter().map(|r| (r.constant, r.choices));
    let mut choices: Vec<Constant> = Vec::new();
    for (constant, names) in of_options.chain(of_results) {
        for &(choice, value) in names {
            let name = format!("RRB_{constant}_{}", choice.to_uppercase());
            match choices.iter().find(|c| c.name == name) {
                Some(twin) => assert_eq!(twin.value, value, "{name} has two values"),
                None => choices.push(Constant { name, value, doc: String::new() }),
            }
        }
    }
    vec![
        (
            "Statuses. 0: done. Positive: finished with a caveat, outputs are written and usable. Negative: failed.",
            statuses,
        ),
        ("Options: keys of set and get.", options),
        ("Results: keys of get.", results),
        ("Choices: values of options and results.", choices),
    ]
}

const BANNER: &str = "\
/* rrbsolver.h: stencil solvers for simulators. C99 and C++.
 *
 * Threads: different handles are independent; one handle is used by one thread at a time; handles may move between
 * threads. The library uses threads of its own (option threads), never a global pool. Callbacks come on the calling
 * thread, between iterations, with no lock held; they must not use the handle that calls them.
 *
 * Statuses: every function that can fail returns an rrb_status, named below. A failing call leaves a sentence for its
 * thread, read by rrbsolver_last_error.
 *
 * Arrays: a[j*ld + i], i = 0..nx-1 fastest, ld = nx unless the option leading_dimension says otherwise. Pointers are
 * borrowed for the call only; an array that is written must overlap no other of the call. Handles: X_create makes one, X_destroy frees it and
 * sets the pointer to NULL.
 *
 * Numbers are append-only: a published one never changes its meaning.
 *
 * Generated from the library's sources; do not edit. */";

fn header(root: &Path) -> Result<String> {
    let version: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    let mut text = format!(
        "/* Version of this header; rrbsolver_version() tells that of the library. */\n\
         #define RRBSOLVER_VERSION_MAJOR {}\n#define RRBSOLVER_VERSION_MINOR {}\n#define RRBSOLVER_VERSION_PATCH {}\n",
        version[0], version[1], version[2]
    );
    for (title, group) in constants() {
        let width = group.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let _ = writeln!(text, "\n/* {title} */");
        for c in group {
            let value = if c.value < 0 { format!("({})", c.value) } else { c.value.to_string() };
            let mut line = format!("#define {:width$} {value:>5}", c.name);
            if !c.doc.is_empty() {
                let indent = line.len() + 5;
                let continued = format!("\n{:indent$}", "");
                let _ = write!(line, "  /* {} */", wrap(&c.doc, 117 - indent).join(&continued));
            }
            let _ = writeln!(text, "{line}");
        }
    }
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        include_guard: Some("RRBSOLVER_H".to_owned()),
        header: Some(BANNER.to_owned()),
        no_includes: true,
        sys_includes: vec!["stdint.h".to_owned()],
        after_includes: Some(format!("\n{}", text.trim_end())),
        style: Style::Type,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 120,
        tab_width: 4,
        ..Config::default()
    };
    config.export.item_types = vec![ItemType::Functions, ItemType::Typedefs, ItemType::OpaqueItems];
    let source = root.join("src/ffi/mod.rs");
    let bindings = Builder::new()
        .with_config(config)
        .with_src(&source)
        .generate()
        .map_err(|e| format!("cbindgen on {}: {e}", source.display()))?;
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    let text = String::from_utf8(bytes).map_err(|e| format!("cbindgen wrote something else than text: {e}"))?;
    // Rust's heading for what a caller must see to.
    Ok(text.replace(" * # Safety\n * ", " * Required: "))
}

fn fortran() -> String {
    let mut text = "! Constants of rrbsolver, generated from the library's sources; do not edit.\n".to_owned();
    for (title, group) in constants() {
        let width = group.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let _ = writeln!(text, "\n   ! {title}");
        for c in group {
            for line in wrap(&c.doc, 120) {
                let _ = writeln!(text, "   ! {line}");
            }
            let _ =
                writeln!(text, "   integer(c_int32_t), parameter, public :: {:width$} = {}_c_int32_t", c.name, c.value);
        }
    }
    text
}

/// Lines of at most `width` characters; a Fortran line ends at 132.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A table of the documentation; its name stands in the marker.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    Statuses,
    Options(Family),
    Results(Family),
}

impl Table {
    const ALL: [Self; 7] = [
        Self::Statuses,
        Self::Options(Family::Common),
        Self::Options(Family::Rrb),
        Self::Options(Family::Smoother),
        Self::Results(Family::Common),
        Self::Results(Family::Rrb),
        Self::Results(Family::Smoother),
    ];

    fn name(self) -> String {
        let family = |f| match f {
            Family::Common | Family::Solvers => "common",
            Family::Rrb => "rrb",
            Family::Smoother => "smoother",
        };
        match self {
            Self::Statuses => "statuses".to_owned(),
            Self::Options(f) => format!("options {}", family(f)),
            Self::Results(f) => format!("results {}", family(f)),
        }
    }

    fn markdown(self) -> String {
        let mut text = String::new();
        match self {
            Self::Statuses => {
                text += "| status | value | meaning |\n|---|---|---|\n";
                for s in STATUSES {
                    let _ = writeln!(text, "| `{}` | {} | {} |", s.name, s.value, cell(s.doc));
                }
            }
            Self::Options(family) => {
                text += "| option | key | default | range | acts | meaning |\n|---|---|---|---|---|---|\n";
                for o in OPTIONS.iter().filter(|o| in_table(family, o.family)) {
                    let key = match o.kind {
                        Kind::Text(_) => format!("{}, text only", o.key),
                        _ => o.key.to_string(),
                    };
                    let range = match o.kind {
                        Kind::Choice(names) => choices(names),
                        ref kind => allowed_range(kind),
                    };
                    let acts = match o.effect {
                        Effect::Factorize if family == Family::Smoother => "at set_patches",
                        Effect::Factorize => "at factorize",
                        Effect::Now => "at once",
                    };
                    let (default, range, doc) = (default(&o.kind), cell(&range), cell(&o.meaning()));
                    let _ = writeln!(text, "| `{}` | {key} | {default} | {range} | {acts} | {doc} |", o.name);
                }
            }
            Self::Results(family) => {
                text += "| result | key | type | meaning |\n|---|---|---|---|\n";
                for r in RESULTS.iter().filter(|r| in_table(family, r.family)) {
                    let kind = match (r.real, r.choices) {
                        (true, _) => "real".to_owned(),
                        (false, []) => "integer".to_owned(),
                        (false, names) => choices(names),
                    };
                    let _ = writeln!(text, "| `{}` | {} | {kind} | {} |", r.name, r.key, cell(&r.meaning()));
                }
            }
        }
        text
    }
}

/// What most families know stands with what all know.
fn in_table(table: Family, family: Family) -> bool {
    family == table || (table == Family::Common && family == Family::Solvers)
}

fn choices(names: &[(&str, i64)]) -> String {
    names.iter().map(|(name, number)| format!("{name} ({number})")).collect::<Vec<_>>().join(", ")
}

fn default(kind: &Kind) -> String {
    match *kind {
        Kind::Int { default, .. } => default.to_string(),
        Kind::Real { default, .. } if default != 0.0 && default.abs() < 1e-3 => format!("{default:e}"),
        Kind::Real { default, .. } => default.to_string(),
        Kind::Choice(names) => names[0].0.to_owned(),
        Kind::Text(default) => default.to_owned(),
    }
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const END: &str = "<!-- /generated -->";

/// `page` with every marked table renewed.
fn fill_page(name: &str, page: &str, required: &[Table]) -> Result<String> {
    let mut text = String::new();
    let mut rest = page;
    let mut found = Vec::new();
    while let Some(start) = rest.find("<!-- generated: ") {
        let (before, marked) = rest.split_at(start);
        let (marker, after) =
            marked.split_once("-->").ok_or_else(|| format!("{name}: a marker is not closed by -->"))?;
        let title = marker.trim_start_matches("<!-- generated: ").trim();
        let table = Table::ALL
            .into_iter()
            .find(|t| t.name() == title)
            .ok_or_else(|| format!("{name}: there is no table '{title}'; there are: {}", list(&Table::ALL)))?;
        let end = after.find(END).ok_or_else(|| format!("{name}: the table '{title}' has no {END}"))?;
        let _ = write!(text, "{before}<!-- generated: {title} -->\n{}{END}", table.markdown());
        rest = &after[end + END.len()..];
        found.push(table);
    }
    text.push_str(rest);
    match required.iter().find(|t| !found.contains(t)) {
        Some(missing) => Err(format!("{name}: the marker <!-- generated: {} --> is missing", missing.name())),
        None => Ok(text),
    }
}

fn list(tables: &[Table]) -> String {
    tables.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_renewed_and_the_rest_is_kept() {
        let page = "a\n<!-- generated: statuses -->\nold\n<!-- /generated -->\nb\n";
        let new = fill_page("p", page, &[Table::Statuses]).unwrap();
        assert!(
            new.starts_with("a\n<!-- generated: statuses -->\n| status |") && new.ends_with("<!-- /generated -->\nb\n")
        );
        assert_eq!(fill_page("p", &new, &[Table::Statuses]).unwrap(), new);
    }

    #[test]
    fn markers_that_are_wrong_or_missing_are_named() {
        let e = fill_page("p", "text", &[Table::Statuses]).unwrap_err();
        assert_eq!(e, "p: the marker <!-- generated: statuses --> is missing");
        let e = fill_page("p", "<!-- generated: statusses -->", &[]).unwrap_err();
        assert!(e.starts_with("p: there is no table 'statusses'"), "{e}");
        let e = fill_page("p", "<!-- generated: statuses -->", &[]).unwrap_err();
        assert!(e.contains("has no <!-- /generated -->"), "{e}");
    }

    #[test]
    fn fortran_lines_are_short_enough() {
        assert!(fortran().lines().all(|l| l.len() <= 132));
    }
}
