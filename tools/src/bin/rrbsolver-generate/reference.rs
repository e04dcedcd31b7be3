//! Generates the reference: one page for the functions of each family.

use anyhow::{Result, ensure};
use std::fmt::Write as _;

use crate::docs::{Block, Entry, TypeEntry, blocks_text};
use crate::wrap;

/// A page, and its functions by their names without the prefix.
pub struct Page {
    pub path: &'static str,
    prefix: &'static str,
    /// Text below the title.
    intro: &'static str,
    groups: &'static [(&'static str, &'static [&'static str])],
}

const OPTIONS: (&str, &[&str]) = ("Options", &["set_options", "set_int", "set_real", "set_stream"]);
const RESULTS: (&str, &[&str]) = ("Results and monitoring", &["get_int", "get_real", "get_history", "set_monitor"]);

/// Prefix of the functions that belong to no family.
const LIBRARY: &str = "rrbsolver_";

pub const PAGES: [Page; 5] = [
    Page {
        path: "docs/reference/rrb.md",
        prefix: "rrb_",
        intro: "These functions solve symmetric systems on 2D grids with stencils of 5 or 9 points. See also the \
                [guide](../guides/rrb.md) and the [theory](../theory/rrb.md).",
        groups: &[
            ("Create and destroy", &["create", "create_distributed", "destroy"]),
            OPTIONS,
            ("Factorize", &["factorize", "factorize_boxes"]),
            ("Solve", &["solve", "solve_boxes", "solve_once"]),
            ("Apply and multiply", &["apply", "apply_boxes", "multiply", "multiply_boxes"]),
            RESULTS,
        ],
    },
    Page {
        path: "docs/reference/dpcg.md",
        prefix: "dpcg_",
        intro: "These functions solve symmetric systems on 3D grids with stencils of 7 points by deflated conjugate \
                gradients. See also the [guide](../guides/dpcg.md) and the [theory](../theory/dpcg.md).",
        groups: &[
            ("Create and destroy", &["create", "destroy"]),
            OPTIONS,
            ("Factorize", &["set_regions", "factorize"]),
            ("Solve", &["solve", "solve_once"]),
            ("Apply and multiply", &["apply", "multiply"]),
            RESULTS,
        ],
    },
    Page {
        path: "docs/reference/smoother.md",
        prefix: "smoother_",
        intro: "These functions perform block relaxation on 3D patches with constant stencils of 7 or 27 points. See \
                also the [guide](../guides/smoother.md) and the [theory](../theory/smoother.md).",
        groups: &[
            ("Create and destroy", &["create", "destroy"]),
            OPTIONS,
            ("Patches", &["set_patches", "set_ghost_fill", "upload", "download", "device_pointers"]),
            ("Relax", &["apply", "exchange", "residual"]),
            RESULTS,
        ],
    },
    Page {
        path: "docs/reference/sparse.md",
        prefix: "sparse_",
        intro: "These functions solve systems with general sparse matrices, multiply by these matrices, convert \
                storage formats, and read and write matrix files. See also the [guide](../guides/sparse.md) and the \
                [theory](../theory/sparse.md).",
        groups: &[
            ("Create and destroy", &["create_csr", "create_csc", "create_coo", "create_from", "read", "destroy"]),
            OPTIONS,
            ("Matrix", &["set_values", "sizes", "arrays", "get_vector", "write"]),
            ("Factorize", &["factorize"]),
            ("Solve", &["solve"]),
            ("Apply and multiply", &["apply", "multiply", "multiply_transposed"]),
            RESULTS,
        ],
    },
    Page {
        path: "docs/reference/library.md",
        prefix: LIBRARY,
        intro: "This page describes the functions that need no handle. It also describes the types of the arguments \
                of all functions.",
        groups: &[
            ("Version and statuses", &["version", "status_string"]),
            ("Errors", &["last_error", "last_error_based"]),
            ("Devices", &["cuda_device_count"]),
            ("Log", &["set_log"]),
        ],
    },
];

/// Returns the missing parts of the documentation of all functions.
pub fn problems(entries: &[Entry]) -> Vec<String> {
    entries.iter().flat_map(Entry::problems).collect()
}

/// Marker of blocks on the page that only show calls and are not complete programs.
const SYNOPSIS: &str = "<!-- test: skip synopsis, not a program -->";

impl Page {
    /// Formats the page.
    pub fn markdown(&self, entries: &[Entry], types: &[TypeEntry]) -> Result<String> {
        let own: Vec<&Entry> = entries.iter().filter(|entry| entry.prefix() == self.prefix).collect();
        let full = |name: &&str| format!("{}{name}", self.prefix);
        for entry in &own {
            let listed = self.groups.iter().any(|(_, names)| names.iter().any(|name| full(name) == entry.name));
            ensure!(listed, "{}: {} is in no group", self.path, entry.name);
        }
        let title = if self.prefix == LIBRARY {
            "Library functions".to_owned()
        } else {
            format!("`{}` functions", self.prefix)
        };
        let mut text = format!(
            "<!-- Generated from the doc comments of the exported functions by `make header`; do not edit. -->\n\n\
             # {title}\n\n{}\n\n",
            wrap(self.intro, 120).join("\n")
        );
        text += "The [conventions](conventions.md) for arrays, handles, threads and errors apply to all functions. \
                 Other pages\nlist the [options](options.md), [results](results.md) and [statuses](statuses.md).\n\n";
        text += "| function | purpose |\n|---|---|\n";
        let mut body = String::new();
        for (title, names) in self.groups {
            let _ = writeln!(text, "| **{title}** | |");
            let _ = writeln!(body, "\n## {title}");
            for name in names.iter().map(full) {
                let Some(entry) = own.iter().find(|entry| entry.name == name) else {
                    anyhow::bail!("{}: there is no function {name}", self.path);
                };
                let _ = writeln!(text, "| [`{name}`](#{name}) | {} |", first_sentence(&entry.doc.lead));
                body += &section(entry);
            }
        }
        if self.prefix == LIBRARY {
            text += "| **Types** | |\n";
            body += "\n## Types\n";
            for entry in types {
                let name = &entry.name;
                let _ = writeln!(text, "| [`{name}`](#{name}) | {} |", first_sentence(&entry.doc.lead));
                let lead = blocks_text(&entry.doc.lead, 120);
                let _ = write!(body, "\n### `{name}`\n\n{lead}\n{SYNOPSIS}\n```c\n{}\n```\n", entry.declaration);
            }
        }
        Ok(text + &body)
    }
}

fn first_sentence(lead: &[Block]) -> String {
    let Some(Block::Paragraph(text)) = lead.first() else { return String::new() };
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].trim_end_matches('.').replace('|', "\\|")
}

/// Formats the section of a function.
fn section(entry: &Entry) -> String {
    let doc = &entry.doc;
    let mut text = format!("\n### `{}`\n\n{}", entry.name, blocks_text(&doc.lead, 120));
    let _ = write!(text, "\n**C**\n\n{SYNOPSIS}\n```c\n{}\n```\n", entry.prototype.trim());
    for (title, language) in [("Fortran", "fortran"), ("C++", "cpp")] {
        if let Some(blocks) = doc.section(title) {
            let blocks: Vec<Block> = blocks.iter().map(|block| synopsis(block, language)).collect();
            let _ = write!(text, "\n**{title}**\n\n{}", blocks_text(&blocks, 120));
        }
    }
    for title in ["Parameters", "Returns", "Errors", "Notes"] {
        // Notes for other families leave an empty section.
        if let Some(blocks) = doc.section(title).filter(|blocks| !blocks.is_empty()) {
            let _ = write!(text, "\n**{title}**\n\n{}", blocks_text(blocks, 120));
        }
    }
    if let Some(blocks) = doc.section("Example") {
        let family = entry.prefix().trim_end_matches('_');
        let fragment = if family == "rrbsolver" { "library" } else { family };
        let tested = |block: &Block| match block {
            Block::Code(language, code, None) if language == "c" => {
                let directive = format!("<!-- test: fragment {fragment} -->");
                Block::Code(language.clone(), code.clone(), Some(directive))
            }
            other => other.clone(),
        };
        let blocks: Vec<Block> = blocks.iter().map(tested).collect();
        let _ = write!(text, "\n**Example**\n\n{}", blocks_text(&blocks, 120));
    }
    text
}

/// Returns a synopsis block: a paragraph that consists of code becomes a block of its language.
fn synopsis(block: &Block, language: &str) -> Block {
    let skip = Some(SYNOPSIS.to_owned());
    match block {
        Block::Paragraph(text) if text.len() > 2 && text.starts_with('`') && text.ends_with('`') => {
            let lines = text.trim_matches('`').replace("` `", "\n");
            let lines = if lines.contains('`') { return block.clone() } else { lines };
            let lines: Vec<String> = lines.lines().flat_map(|line| wrap(line, 112)).collect();
            Block::Code(language.to_owned(), format!("{}\n", lines.join("\n    ")), skip)
        }
        Block::Code(_, code, None) => Block::Code(language.to_owned(), code.clone(), skip),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{docs, header};
    use std::path::Path;

    /// Returns the names of the functions that a synopsis calls.
    fn called(synopsis: &[Block]) -> Vec<String> {
        let texts = synopsis.iter().filter_map(|block| match block {
            Block::Paragraph(text) if text.starts_with('`') => text.split('`').nth(1),
            Block::Code(_, code, _) => Some(code.as_str()),
            _ => None,
        });
        let names = texts.flat_map(|text| text.lines()).filter_map(|line| line.split_once('(').map(|(head, _)| head));
        names.map(|head| crate::fortran::split_name(head).1.to_owned()).filter(|name| !name.is_empty()).collect()
    }

    /// Every function of the library has a section with synopsis, parameters, returns, errors and example.
    #[test]
    fn every_function_is_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let entries = docs::entries(&header::raw(&root).unwrap()).unwrap();
        let symbols = std::fs::read_to_string(root.join("tests/abi/symbols.txt")).unwrap();
        let mut exported: Vec<&str> = symbols.lines().filter(|line| !line.is_empty()).collect();
        let mut documented: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        exported.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, exported);
        assert_eq!(problems(&entries), Vec::<String>::new());
        let binding = |folder: &str, names: &[&str]| {
            let read = |name: &&str| std::fs::read_to_string(root.join(folder).join(name)).unwrap();
            names.iter().map(read).collect::<String>()
        };
        let fortran = [
            "rrbsolver_base.f90",
            "rrbsolver_handle.inc",
            "rrbsolver_rrb.f90",
            "rrbsolver_dpcg.f90",
            "rrbsolver_smoother.f90",
            "rrbsolver_sparse.f90",
        ];
        let bindings =
            [("Fortran", binding("bindings/fortran/src", &fortran)), ("C++", binding("include", &["rrbsolver.hpp"]))];
        for entry in &entries {
            for (title, source) in &bindings {
                for name in called(entry.doc.section(title).unwrap()) {
                    assert!(source.contains(&name), "{}: {title} has no {name}", entry.name);
                }
            }
        }
        let pages: Vec<String> = PAGES.iter().map(|page| page.markdown(&entries, &[]).unwrap()).collect();
        for (page, text) in PAGES.iter().zip(&pages) {
            let functions = entries.iter().filter(|entry| entry.prefix() == page.prefix).count();
            for title in ["C", "Fortran", "C++", "Parameters", "Returns", "Errors", "Example"] {
                assert_eq!(text.matches(&format!("\n**{title}**\n")).count(), functions, "{}: {title}", page.path);
            }
        }
    }
}
