//! Checks the pages of the documentation: their length, and the paths in pages and comments.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all files below `folder` whose names end with one of `endings`, except in ignored folders.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "build", "output"].contains(&&*name) {
                found.extend(files(&path, endings));
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Removes the parts of `text` between `open` and `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once(open) {
        kept += before;
        rest = after.split_once(close).map_or("", |parts| parts.1);
    }
    kept + rest
}

/// Counts the words of a page outside code blocks, formulas, tables and comments. A word begins with a letter.
fn words(page: &str) -> usize {
    let page = without(page, "<!--", "-->");
    let page = without(&page, "```", "```");
    let page = without(&page, "$$", "$$");
    let prose = page.lines().filter(|line| !line.starts_with('|') && !line.starts_with("    "));
    let between = |c: char| !(c.is_ascii_alphabetic() || c == '\'' || c == '-');
    let is_word = |part: &&str| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_alphabetic());
    prose.map(|line| without(line, "$", "$").split(between).filter(is_word).count()).sum()
}

#[test]
fn words_are_counted_outside_code_formulas_and_tables() {
    let page = "# One title\nTwo words, $x + y$ and `code` in\n```c\nint not_these;\n```\n| no | table |\n\
                $$\na b c\n$$\n\
                \x20   indented code\n<!-- no\ncomment --> last-word it's\n";
    assert_eq!(words(page), 2 + 5 + 2);
}

/// The reference is generated from doc comments, and the development pages are not for users, so neither counts.
#[test]
fn user_pages_have_at_most_30000_words() {
    let docs = root().join("docs");
    let folders = ["tutorials", "guides", "theory", "benchmarks"].map(|folder| files(&docs.join(folder), &[".md"]));
    let single = ["docs/index.md", "docs/gallery.md", "docs/reference/conventions.md", "README.md"];
    let pages = folders.into_iter().flatten().chain(single.map(|name| root().join(name)));
    let count: usize = pages.map(|page| words(&read(&page))).sum();
    assert!(count > 10_000, "the search finds the pages: {count} words");
    assert!(count <= 30_000, "the user pages have {count} words, the limit is 30000: shorten what repeats");
}

/// Folders at the root of the project in which paths begin.
const TOP: [&str; 14] = [
    "benches/",
    "bindings/",
    "cmake/",
    "docs/",
    "examples/",
    "fuzz/",
    "include/",
    "kernels/",
    "plot/",
    "scripts/",
    "src/",
    "tests/",
    "tools/",
    ".ci/",
];

/// Endings of paths that are checked outside backticks, too.
const ENDINGS: [&str; 6] = [".rs", ".cu", ".cuh", ".md", ".f90", ".hpp"];

/// Returns the paths that begin at the root of the project: all in backticks, and others if they have one of `ENDINGS`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let words = text.split(|c: char| c.is_whitespace() || "()[],;:`\"'".contains(c));
    let with_ending =
        words.map(|word| word.trim_end_matches('.')).filter(|word| ENDINGS.iter().any(|e| word.ends_with(e)));
    quoted
        .chain(with_ending)
        .filter(|path| TOP.iter().any(|top| path.starts_with(top)))
        .filter(|path| !path.contains(|c: char| c.is_whitespace() || "*<>{}$".contains(c)))
}

#[test]
fn paths_in_pages_and_comments_exist() {
    let mut count = 0;
    let mut missing = Vec::new();
    let pages = files(root(), &[".md"]);
    let sources = ["src", "kernels", "tests", "benches", "tools", "plot", "examples"];
    let sources = sources.iter().flat_map(|folder| files(&root().join(folder), &[".rs", ".cu", ".cuh", ".c", ".f90"]));
    for file in pages.into_iter().chain(sources) {
        let text = read(&file);
        for path in named(&text) {
            count += 1;
            let path = path.trim_end_matches(['.', ',', ':']).split([':', '#']).next().unwrap_or_default();
            // Build scripts name files relative to their own folder.
            if !root().join(path).exists() && !file.with_file_name(path).exists() {
                missing.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(count > 50, "the search finds paths: {count}");
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}
