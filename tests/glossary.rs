//! Checks the wording of texts for users: phrases in `PHRASES` fail, with the suggested replacement.
//!
//! The checked texts are the README, the change log, CONTRIBUTING.md, the pages of the site, the headers, the Fortran
//! sources and the examples. In the sources of the library and its programs, string literals are checked: option
//! descriptions, error messages and log lines.

use std::path::{Path, PathBuf};

/// Phrases that are always wrong, with suggested replacements.
///
/// The words of a phrase are consecutive; line breaks and comment signs may separate them, but not punctuation. `a|b`
/// is one of these words, and `N` is a number. `*` at the end of a word matches any ending. `$` at the end of a phrase
/// requires punctuation after it.
const PHRASES: &[(&str, &str)] = &[
    // Reports.
    ("told", "reported, or passed to"),
    ("tells", "reports, notifies"),
    ("sentence|sentences of a|an|the error|errors", "error message"),
    ("error sentence|sentences", "error message"),
    ("the|a|its|one|library's sentence", "the error message"),
    ("answer|answers RRB_*", "returns `RRB_..`"),
    ("handed", "passed"),
    ("hand|hands over|on|it|them|back", "passes"),
    ("given|gives|give back", "released, returned"),
    ("is|are|was|were looked at", "is inspected"),
    ("hoped|hopeful", "speculative"),
    ("is|are|was|were hope", "speculative"),
    ("gone|go|goes|going|went over to", "switches to"),
    ("is|are|was|were|where led", "is gathered on rank 0"),
    ("led ranks", "gathered on rank 0"),
    // Representation and replacement.
    ("stand|stands|stood for none|another|others|it|them", "represents"),
    ("stand|stands in for", "replaces"),
    ("as it comes", "default, unchanged"),
    ("kept as it is", "unchanged"),
    ("anew", "again, or recomputes, restarts"),
    ("again from the start", "restarts"),
    ("for who|whoever has", "for users with"),
    ("whoever", "any thread that, users who"),
    ("papers' norm", "preconditioned norm"),
    ("textbook|textbook's steps", "unfused steps, reference formulation"),
    ("excess form", "row-sum form"),
    ("false word", "false convergence report"),
    ("same bits", "bitwise identical"),
    ("team member|members", "thread"),
    ("member|members of a|the team", "thread"),
    // Quantities.
    ("next to nothing", "negligible; of leaks: nearly singular"),
    ("none|nothing worth naming", "negligible"),
    ("off by a tenth|quarter|third|half", "off by 10 %"),
    ("a|the quarter|third|fifth|tenth of the time", "4 times faster, with what it is compared with"),
    ("times less than", "times faster than, or a factor"),
    ("lie|lies at a|no|multiples multiple|of", "N-byte aligned"),
    ("at no multiple of", "not N-byte aligned"),
    // Quantities per object.
    ("a process a device", "one process per device"),
    (
        "N|few|many|some bytes a|an \
         cell|row|point|node|entry|unknown|value|column|iteration|sweep|number|coupling|thread|rank|element|pair|block",
        "bytes per ..",
    ),
    ("bytes an entry|unknown|iteration|element", "bytes per .."),
    ("flops|ns|us a|an cell|row|point|node|entry|unknown|value|iteration|sweep", "per .."),
    ("once a|an handle|solve|call|iteration|sweep|process|thread|rank|matrix|device|factorization$", "once per .."),
    ("line|lines a|an solve|iteration|sweep|apply|call|factorize", "one line per .."),
    ("value|values|message|messages|array|pointer a|an rank|box|patch", "one .. per .."),
    ("N|two|several times|passes|waits a|an solve|iteration|sweep|call|handle", ".. per .."),
];

/// A word of a text, and its line number.
struct Word<'a> {
    text: &'a str,
    line: usize,
}

/// A phrase that was found, its line number and the suggested replacement.
#[derive(Debug, PartialEq)]
struct Found {
    line: usize,
    phrase: &'static str,
    write: &'static str,
}

const PUNCTUATION: &[char] = &['.', ',', ';', ':', '?', '!', ')', '('];
/// Characters around a word that do not belong to it.
const QUOTES: &[char] = &['"', '\'', '`', '*', '_', '(', '[', '|', '<', '>', ']'];

/// Splits a text, which begins at `line`, into words without comment signs, list signs and quotation marks.
fn words(text: &str, line: usize) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    for (k, row) in text.lines().enumerate() {
        let row = row.trim_start().trim_start_matches(['/', '!', '*', '#', '|', '>', '-']);
        found.extend(row.split_whitespace().map(|text| Word { text, line: line + k }));
    }
    found
}

/// Returns whether a word matches a word of a phrase; `last` means that it is the last word of the phrase.
fn is_word(word: &str, wanted: &str, last: bool) -> bool {
    let word = word.trim_start_matches(QUOTES);
    let ends = word.trim_end_matches(QUOTES);
    let bare = ends.trim_end_matches(PUNCTUATION).trim_end_matches(QUOTES);
    // Punctuation ends a phrase.
    if !last && bare.len() != ends.len() {
        return false;
    }
    let bare = bare.to_lowercase();
    wanted.split('|').any(|one| match one.strip_suffix('*') {
        _ if one == "N" => bare.starts_with(|c: char| c.is_ascii_digit()),
        Some(start) => bare.starts_with(&start.to_lowercase()),
        None => bare == one.trim_end_matches(QUOTES).to_lowercase(),
    })
}

fn find(words: &[Word]) -> Vec<Found> {
    let mut found = Vec::new();
    for &(phrase, write) in PHRASES {
        let (wanted, before_punctuation) = match phrase.strip_suffix('$') {
            Some(phrase) => (phrase, true),
            None => (phrase, false),
        };
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        for (at, window) in words.windows(wanted.len()).enumerate() {
            let is_here = window
                .iter()
                .zip(&wanted)
                .enumerate()
                .all(|(k, (word, wanted_word))| is_word(word.text, wanted_word, k + 1 == wanted.len()));
            let end = words[at + wanted.len() - 1].text.trim_end_matches(QUOTES);
            if is_here && (!before_punctuation || end.ends_with(PUNCTUATION)) {
                found.push(Found { line: words[at].line, phrase, write });
            }
        }
    }
    found.sort_by_key(|one| one.line);
    found
}

/// Returns the string literals of a Rust source with their line numbers, except those of the tests at its end.
fn literals(text: &str) -> Vec<(usize, String)> {
    let text = text.find("#[cfg(test)]\nmod tests {").map_or(text, |end| &text[..end]);
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, text);
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '\'' && rest.len() > 2 {
            // A character literal or a lifetime.
            let inner = rest[1..].chars().next().map_or(0, char::len_utf8);
            if rest[1..].starts_with('\\') {
                rest[3..].find('\'').map_or(1, |end| 4 + end)
            } else if rest[1 + inner..].starts_with('\'') {
                2 + inner
            } else {
                1
            }
        } else if c == '"' {
            let mut escaped = false;
            let inside = |c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            };
            let end = rest[1..].find(inside).unwrap_or(rest.len() - 2);
            found.push((line, rest[1..=end].replace("\\\n", "\n").replace("\\n", " ")));
            end + 2
        } else {
            c.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// Returns the comments of a Rust or CUDA source, adjacent lines joined, with their line numbers.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (line, row) in text.lines().enumerate().map(|(k, row)| (k + 1, row)) {
        let Some(at) = row.find("// ").or_else(|| row.find("///")).or_else(|| row.find("//!")) else { continue };
        match found.last_mut() {
            Some((_, comment)) if last + 1 == line => *comment += &format!("\n{}", &row[at..]),
            _ => found.push((line, row[at..].to_owned())),
        }
        last = line;
    }
    found
}

fn files(folder: &Path, endings: &[&str], into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, endings, into);
        } else if path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending)) {
            into.push(path);
        }
    }
}

/// Returns the files with texts for users, and for each file whether only string literals count.
fn read_by_users(root: &Path) -> Vec<(PathBuf, bool)> {
    let mut all: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md", "docs/gallery.md"]
        .iter()
        .chain(&["include/rrbsolver.h", "include/rrbsolver.hpp"])
        .map(|name| root.join(name))
        .filter(|path| path.exists())
        .collect();
    for part in ["tutorials", "guides", "reference", "benchmarks", "theory", "development"] {
        files(&root.join("docs").join(part), &["md"], &mut all);
    }
    files(&root.join("bindings"), &["f90", "inc"], &mut all);
    files(&root.join("examples"), &["c", "cpp", "f90", "h", "cu", "cuf"], &mut all);
    let mut sources = Vec::new();
    for part in ["src", "tools/src", "benches/src"] {
        files(&root.join(part), &["rs"], &mut sources);
    }
    // Texts in tests are not for users.
    sources.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("tests.rs")));
    all.into_iter().map(|path| (path, false)).chain(sources.into_iter().map(|path| (path, true))).collect()
}

#[test]
fn what_users_read_has_the_words_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut complaints = Vec::new();
    let read = read_by_users(root);
    assert!(read.len() > 200, "the files were found");
    for (path, literals_only) in read {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = if literals_only {
            literals(&text).iter().flat_map(|(line, text)| find(&words(text, *line))).collect()
        } else {
            find(&words(&text, 1))
        };
        let name = path.strip_prefix(root).unwrap().display();
        complaints.extend(found.iter().map(|f| format!("{name}:{}: `{}`: write {}", f.line, f.phrase, f.write)));
    }
    assert!(complaints.is_empty(), "{} phrases\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn comments_have_the_words_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut sources, mut complaints) = (Vec::new(), Vec::new());
    ["src", "kernels", "tests", "benches", "tools"]
        .iter()
        .for_each(|part| files(&root.join(part), &["rs", "cu", "cuh"], &mut sources));
    // This file has the phrases themselves.
    sources.retain(|path| !path.ends_with("tests/glossary.rs"));
    assert!(sources.len() > 300, "the files were found");
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = comments(&text).iter().flat_map(|(line, text)| find(&words(text, *line))).collect::<Vec<_>>();
        let name = path.strip_prefix(root).unwrap().display();
        complaints.extend(found.iter().map(|f| format!("{name}:{}: `{}`: write {}", f.line, f.phrase, f.write)));
    }
    assert!(complaints.is_empty(), "{} phrases\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn phrases_are_found() {
    let found = |text: &str| find(&words(text, 1));
    for before in [
        "Factorizes on this machine, and tells what is to be told.",
        "What it saw of arrays, and nobody was told, is not what the next one sees.",
        "whether the matrix was hoped to be like the last one",
        "A pivot that is not positive: factorized anew",
        "Cost: none worth naming.",
        "leaks next to nothing",
        "Arrays lie at multiples of 8 bytes.",
        "an array at no multiple of 8 bytes",
        "Off by a tenth and not down to a quarter",
        "takes 4.8 times less than",
        "a process a device",
        "134 bytes a cell for 145",
        "8 bytes an\n/// entry more",
        "answers `RRB_ERR_STATE`",
        "a log line says so, once a handle, and",
        "1: a line a solve",
        "the papers' norm",
        "a false word",
        "in place of a sweep it goes over to\n * aggregation",
        "a name that stands for none",
        "in a quarter of the time",
        "for who has a cluster",
        "the same bits for any number of threads",
        "handed to the other ranks",
        "The sentence of this thread's last failing call",
        "runs the textbook's steps",
        "one value a rank",
    ] {
        assert!(!found(before).is_empty(), "{before}");
    }
    for after in [
        "Factorizes locally and broadcasts the status to the other ranks.",
        "Once a handle is destroyed, its pointer is NULL.",
        "A nonpositive pivot restarts the factorization.",
        "The cost is negligible.",
        "Arrays must be 8-byte aligned.",
        "If the recurred residual is off by more than 10 %",
        "is 4.8 times faster than",
        "one process per device, 8 bytes per cell",
        "A team of threads. Members vote.",
        "12 iterations instead of 15",
        "in the same order; bits are counted",
    ] {
        assert_eq!(found(after), [], "{after}");
    }
    let text = "let a = \"what is \\\n    told\"; // told\nlet b = ('\"', \"tells\");";
    let lines: Vec<usize> =
        literals(text).iter().flat_map(|(line, text)| find(&words(text, *line))).map(|f| f.line).collect();
    assert_eq!(lines, [2, 3]);
}
