//! Writes the files that are generated from the exported functions and the tables in `src/options`: the C header, the
//! Fortran modules of constants and C functions, and the reference. `--check` compares instead.

mod docs;
mod fortran;
mod header;
mod reference;
mod tables;

use anyhow::{Context as _, Result, anyhow};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use tables::{Table, fill_page};

/// Writes the C header, the Fortran modules of constants and C functions, and the reference.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Compare with the existing files, write nothing, and fail if one is stale.
    #[arg(long)]
    check: bool,
    /// Folder of the project.
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

/// Completely generated files.
const HEADER: &str = "include/rrbsolver.h";
const FORTRAN: &str = "bindings/fortran/src/rrbsolver_c.f90";
/// Files with generated tables, and the tables each of them must have.
const PAGES: [(&str, &[Table]); 4] = [
    ("docs/reference/auto.md", &Table::AUTO),
    ("docs/reference/options.md", &Table::OPTIONS),
    ("docs/reference/results.md", &Table::RESULTS),
    ("docs/reference/statuses.md", &[Table::Statuses]),
];
const COMMAND: &str = "cargo run --release -p rrbsolver-tools --bin rrbsolver-generate";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rrbsolver-generate: {message:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let root = &arguments.root;
    let raw = header::raw(root)?;
    let entries = docs::entries(&raw)?;
    let types = docs::types(&raw);
    let header = docs::laid_out(&raw);
    let mut outputs = vec![(FORTRAN, fortran::fortran(&header)), (HEADER, Ok(header))];
    for page in &reference::PAGES {
        outputs.push((page.path, page.markdown(&entries, &types)));
    }
    for (name, tables) in PAGES {
        outputs.push((name, read(&root.join(name)).and_then(|page| fill_page(name, &page, tables))));
    }
    // All valid outputs are written before the first error is reported.
    let mut errors = Vec::new();
    for (name, text) in outputs {
        let path = root.join(name);
        match text {
            Err(message) => errors.push(format!("{message:#}")),
            Ok(text) if std::fs::read_to_string(&path).is_ok_and(|old| old == text) => {}
            Ok(_) if arguments.check => errors.push(format!("{name} is stale: run `{COMMAND}`")),
            Ok(text) => {
                std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
                println!("wrote {}", path.display());
            }
        }
    }
    errors.extend(reference::problems(&entries));
    if errors.is_empty() { Ok(()) } else { Err(anyhow!(errors.join("\nrrbsolver-generate: "))) }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Splits a text into lines of at most `width` characters. No line begins with a sign of a Markdown list or heading.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(before) if ["-", "+", "*", "#", ">", "="].contains(&word) => *before += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
