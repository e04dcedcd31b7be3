//! Checks the architecture (docs/development/architecture.md): which folder of src may use which. All paths of the
//! sources that begin at the crate (`crate::`, `super::`, also in groups) are read, and forbidden edges fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders of src, and the folders that each may use in addition to itself. `base` uses no folder of a method, and
/// neither do the folders that the methods share.
const MAY_USE: [(&str, &str); 17] = [
    ("base", "error options"),
    ("error", "base"),
    ("options", "base error"),
    ("report", "error options"),
    ("stencil", "base error options"),
    ("krylov", "base error options report stencil"),
    ("direct", "base error stencil"),
    ("cuda", "base error options report stencil krylov"),
    ("distributed", "base error stencil"),
    ("abi", "base error options report stencil krylov cuda distributed"),
    ("aggregation", "base error stencil direct cuda"),
    ("deflation", "base error stencil direct"),
    ("files", "base error options sparse"),
    ("rrb", "base error options report stencil krylov direct cuda distributed aggregation"),
    ("dpcg", "base error options report stencil krylov direct cuda aggregation deflation"),
    ("sparse", "base error options report stencil krylov direct cuda aggregation"),
    ("smoother", "base error options report cuda"),
];
/// What the entry points of a method may use in addition to the method.
const ENTRIES_MAY_USE: &str = "abi files stencil";
/// Files that name methods: the exports of the library, and the kernels of all methods.
const NAME_METHODS: [&str; 2] = ["abi", "cuda::launch"];
/// Folders with the loops of one backend.
const BACKENDS: [&str; 3] = ["cpu", "cuda", "reference"];

/// Splits a source into tokens: identifiers, `::`, and single characters, without comments, strings and character
/// literals.
fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let at = |k: usize| chars.get(k).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let mut k = 0;
    while k < chars.len() {
        let c = chars[k];
        if c == '/' && at(k + 1) == '/' {
            while k < chars.len() && chars[k] != '\n' {
                k += 1;
            }
        } else if c == '/' && at(k + 1) == '*' {
            while k < chars.len() && !(chars[k] == '*' && at(k + 1) == '/') {
                k += 1;
            }
            k += 2;
        } else if c == '"' {
            k += 1;
            while k < chars.len() && chars[k] != '"' {
                k += if chars[k] == '\\' { 2 } else { 1 };
            }
            k += 1;
        } else if c == '\'' && at(k + 1) == '\\' {
            k += 3;
            while k < chars.len() && chars[k] != '\'' {
                k += 1;
            }
            k += 1;
        } else if c == '\'' && at(k + 2) == '\'' {
            k += 3;
        } else if c.is_alphanumeric() || c == '_' {
            let start = k;
            while at(k).is_alphanumeric() || at(k) == '_' {
                k += 1;
            }
            found.push(chars[start..k].iter().collect());
        } else if c == ':' && at(k + 1) == ':' {
            found.push("::".to_owned());
            k += 2;
        } else {
            if !c.is_whitespace() {
                found.push(c.to_string());
            }
            k += 1;
        }
    }
    found
}

/// Collects all paths below `prefix`, beginning at token `k`. Returns the index where the path ends.
fn collect(tokens: &[String], mut k: usize, prefix: &[String], paths: &mut BTreeSet<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(k).map(String::as_str) {
            Some("{") => {
                k += 1;
                while tokens.get(k).is_some_and(|t| t != "}") {
                    k = if tokens[k] == "," { k + 1 } else { collect(tokens, k, &path, paths) };
                }
                return k + 1;
            }
            Some("super") => {
                path.pop();
            }
            Some("self") => {}
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => path.push(word.to_owned()),
            // `*`, generics, and other tokens that end a path.
            _ => {
                paths.insert(path);
                return k + 1;
            }
        }
        k += 1;
        if tokens.get(k).map(String::as_str) != Some("::") {
            paths.insert(path);
            // `name as other` inside a group.
            return if tokens.get(k).map(String::as_str) == Some("as") { k + 2 } else { k };
        }
        k += 1;
    }
}

/// Returns the crate paths that the module `module` uses (its path from the crate root), including those of inline
/// modules. `known` holds other beginnings of paths, such as children of the module.
fn paths(source: &str, module: &[String], known: &BTreeMap<String, Vec<String>>) -> BTreeSet<Vec<String>> {
    let tokens = tokens(source);
    let mut found = BTreeSet::new();
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut k = 0;
    while k < tokens.len() {
        let starts = (k == 0 || tokens[k - 1] != "::") && tokens.get(k + 1).is_some_and(|t| t == "::");
        match tokens[k].as_str() {
            "mod" if tokens.get(k + 2).is_some_and(|t| t == "{") => {
                depth += 1;
                inline.push((tokens[k + 1].clone(), depth));
                k += 3;
            }
            "{" => {
                depth += 1;
                k += 1;
            }
            "}" => {
                inline.retain(|&(_, d)| d != depth);
                depth -= 1;
                k += 1;
            }
            "crate" if starts => k = collect(&tokens, k + 2, &[], &mut found),
            "super" if starts => {
                let mut here = module.to_vec();
                here.extend(inline.iter().map(|(name, _)| name.clone()));
                k = collect(&tokens, k, &here, &mut found);
            }
            word if starts && known.contains_key(word) => k = collect(&tokens, k + 2, &known[word], &mut found),
            _ => k += 1,
        }
    }
    found
}

fn sources(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, extensions, found);
        } else if path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted)) {
            found.push(path);
        }
    }
}

/// Returns the module path and the text of every source file.
fn modules() -> Vec<(Vec<String>, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &["rs"], &mut files);
    let module = |file: &PathBuf| {
        let inside = file.strip_prefix(&root).expect("below src").with_extension("");
        let mut module: Vec<String> = inside.iter().map(|s| s.to_str().expect("UTF-8").to_owned()).collect();
        module.retain(|part| part != "mod" && part != "lib");
        module
    };
    files.iter().map(|file| (module(file), std::fs::read_to_string(file).expect("readable"))).collect()
}

/// Removes the tests from a source, because they are no part of the library. A test module in the file ends the source.
/// A test module in another file is only declared, and the text after the declaration counts.
fn library(text: &str) -> String {
    const OF_TESTS: &str = "#[cfg(test)]";
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(OF_TESTS) {
        let item = &rest[at + OF_TESTS.len()..];
        let head = item.find(['{', ';']).unwrap_or(item.len());
        let words = tokens(&item[..head]);
        let is_module = words.len() > 1 && words[words.len() - 2] == "mod";
        kept.push_str(&rest[..at]);
        if is_module && item[head..].starts_with('{') {
            return kept;
        }
        rest = if is_module { item[head..].strip_prefix(';').unwrap_or_default() } else { item };
    }
    kept + rest
}

/// Returns the backend whose loops a path inside a method names.
fn backend_of(path: &[String]) -> Option<&str> {
    path.get(1).map(String::as_str).filter(|folder| BACKENDS.contains(folder))
}

/// Returns the reason why `from` must not use `to`, if there is one.
fn forbidden(from: &[String], to: &[String]) -> Option<&'static str> {
    let (Some(folder), Some(target)) = (from.first(), to.first()) else { return None };
    let name = from.join("::");
    let is_entry = from.get(1).is_some_and(|part| part == "entries");
    if let (Some(own), Some(other)) = (backend_of(from), backend_of(to))
        && [own, other].iter().all(|backend| ["cpu", "cuda"].contains(backend))
        && own != other
    {
        return Some("cpu and cuda share through the folder above them");
    }
    if backend_of(from).is_none() && backend_of(to).is_some() && !is_entry {
        return Some("only entry points name a backend");
    }
    let names_methods =
        folder == target || NAME_METHODS.iter().any(|file| name == *file || name.starts_with(&format!("{file}::")));
    let listed = |list: &str| list.split(' ').any(|allowed| allowed == target);
    let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == folder) else {
        return Some("not a folder of the architecture");
    };
    let allowed = names_methods || listed(allowed) || is_entry && listed(ENTRIES_MAY_USE);
    (!allowed).then_some("not in the list of what this folder may use")
}

#[test]
fn no_forbidden_edge() {
    let modules = modules();
    assert!(modules.len() > 15, "the sources are there");
    let mut edges = 0;
    let mut wrong = Vec::new();
    for (module, text) in modules.iter().filter(|(module, _)| module.last().is_none_or(|name| name != "tests")) {
        for path in paths(&library(text), module, &BTreeMap::new()) {
            edges += 1;
            if let Some(reason) = forbidden(module, &path) {
                wrong.push(format!("{} uses {}: {reason}", module.join("::"), path.join("::")));
            }
        }
    }
    assert!(edges > 100, "paths are found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `unsafe` occurs only in `abi`, entry points, loops for the CPU, calls of the CUDA driver, `distributed`, `base`, and
/// calls of zlib. Threads occur only in `base`, and nothing prints.
#[test]
fn unsafe_threads_and_printing_stay_in_their_places() {
    let mut with_unsafe = 0;
    for (module, text) in modules() {
        let tokens = tokens(&library(&text));
        let has = |words: &[&str]| tokens.windows(words.len()).any(|w| w.iter().zip(words).all(|(a, b)| a == b));
        let name = module.join("::");
        let at = |prefix: &str| name.starts_with(prefix);
        let in_folder = |folder: &str| module.get(1).is_some_and(|part| part == folder);
        let cuda_calls = ["cuda::driver", "cuda::launch", "cuda::staging"].into_iter().any(at);
        if has(&["unsafe"]) {
            with_unsafe += 1;
            let below = at("base") || at("distributed") || name == "files::gz";
            let inside = in_folder("entries") || in_folder("cpu");
            assert!(at("abi") || inside || cuda_calls || below, "unsafe in {name}");
        }
        assert!(!has(&["std", "::", "thread"]) || at("base"), "threads in {name}");
        assert!(!has(&["libc"]) || at("abi") || in_folder("entries") || at("base"), "libc in {name}");
        for word in ["println", "eprintln", "print", "eprint", "dbg"] {
            assert!(!has(&[word, "!"]), "{word}! in {name}");
        }
        assert!(!has(&["static", "mut"]), "static mut in {name}");
        for word in ["todo", "unimplemented"] {
            assert!(!has(&[word, "!"]), "{word}! in {name}");
        }
    }
    assert!(with_unsafe > 0, "the search finds what is there");
}

/// Returns names and texts of the handwritten files in src, kernels and bindings.
fn by_hand() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "kernels", "bindings"] {
        sources(&root.join(folder), &["rs", "cu", "cuh", "f90", "inc"], &mut files);
    }
    files.sort();
    let name = |file: &PathBuf| file.strip_prefix(root).expect("below the root").display().to_string();
    let read = |file: &PathBuf| (name(file), std::fs::read_to_string(file).expect("readable"));
    let all: Vec<_> = files
        .iter()
        .map(read)
        .filter(|(_, text)| !text.contains("Generated from the sources of the library"))
        .collect();
    assert!(all.len() > 100, "the sources are there");
    all
}

/// Returns the functions of a source: first line and number of lines. In Rust and CUDA, a function ends with the first
/// brace that has the indentation of its beginning.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let begins = |line: &str| {
        let line = line.trim_start();
        let word = |w: &str| tokens(line.split('(').next().unwrap_or_default()).iter().any(|t| t == w);
        let rust_or_fortran = ["fn", "subroutine", "function"].into_iter().any(word);
        let cuda = ["__global__", "__device__", "template"].iter().any(|w| line.starts_with(w));
        // An argument of a Rust function may have the name `function`.
        let other = ["end ", "//", "!", "function: "].iter().any(|w| line.starts_with(w)) || line.ends_with([';', '}']);
        (rust_or_fortran || cuda && line.contains('(')) && !other
    };
    let ends = |line: &str, first: &str| {
        let last = line.trim_start();
        // A declaration ends with the last line of its arguments.
        let declares = last.starts_with(')') && last.ends_with(';');
        indent(line) == indent(first) && (declares || ["}", "end "].iter().any(|end| last.starts_with(end)))
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| begins(line));
    starts
        .map(|(k, first)| (*first, lines[k..].iter().position(|line| ends(line, first)).map_or(0, |n| n + 1)))
        .collect()
}

/// The lengths of lines are checked too, because rustfmt and clang-format do not wrap comments, strings and macros.
#[test]
fn lines_files_and_functions_are_short() {
    let (mut wide, mut files, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text) in by_hand() {
        let too_wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 120);
        wide.extend(too_wide.map(|(k, _)| format!("{name}:{}", k + 1)));
        if text.lines().count() > 700 {
            files.push(name.clone());
        }
        let too_long = functions(&text).into_iter().filter(|(_, lines)| *lines > 100);
        let called = |first: &str| tokens(first.split('(').next().unwrap_or_default()).pop().unwrap_or_default();
        long.extend(too_long.map(|(first, _)| format!("{name}: {}", called(first))));
    }
    assert_eq!(wide, [""; 0], "more than 120 columns");
    assert_eq!(files, [""; 0], "more than 700 lines");
    assert_eq!(long, [""; 0], "more than 100 lines");
}

/// Returns the number of methods of a trait. The trait ends with the first brace at the beginning of a line.
fn methods(text: &str, name: &str) -> usize {
    let (_, body) = text.split_once(&format!("pub trait {name}")).expect("the trait is there");
    let body = body.split_once("\n}").expect("the trait ends").0;
    body.lines().filter(|line| line.starts_with("    fn ")).count()
}

/// Largest number of methods in the traits of the steps of CG. Each method needs a body per backend, so this number
/// must not grow. A new step should be a function over these methods, unless a backend must fuse it.
const MOST_STEPS: usize = 25;

/// Largest number of types that implement the steps of CG: one per backend and family.
const MOST_IMPLEMENTORS: usize = 6;

#[test]
fn the_text_of_cg_needs_few_steps() {
    let modules = modules();
    let text = |name: &str| library(&modules.iter().find(|(module, _)| module.join("::") == name).expect(name).1);
    let steps =
        [("krylov::vectors", "VectorSteps"), ("krylov::pcg", "PcgSteps"), ("krylov::solve_steps", "SolveSteps")];
    let count: usize = steps.iter().map(|(module, name)| methods(&text(module), name)).sum();
    assert!((1..=MOST_STEPS).contains(&count), "{count} step methods");
    let implements = |text: &str| text.lines().any(|line| line.starts_with("impl") && line.contains(" PcgSteps for "));
    let library_only = modules.iter().filter(|(module, _)| module.last().is_some_and(|name| !name.ends_with("tests")));
    let implementors = library_only.filter(|(_, text)| implements(&library(text))).count();
    assert!((1..=MOST_IMPLEMENTORS).contains(&implementors), "{implementors} implementors");
}

/// Names that a file imports: `use path::name` and `use path::*` (an empty name). Public and private imports count,
/// because child modules see both.
struct Uses {
    /// Path and name of each import.
    all: Vec<(Vec<String>, String)>,
    /// The text without public imports: a parent that re-exports items of its children does not use them.
    text_without_public: String,
}

impl Uses {
    fn of(text: &str, module: &[String], known: &BTreeMap<String, Vec<String>>) -> Self {
        let (mut all, mut text_without_public) = (Vec::new(), String::new());
        for statement in text.split_inclusive(';') {
            let words = tokens(statement);
            let at = words.iter().position(|w| w == "use").unwrap_or(words.len());
            let public = words[..at].last().is_some_and(|w| w == "pub" || w == ")");
            text_without_public.push_str(&words[..if public { at } else { words.len() }].join(" "));
            if at == words.len() {
                continue;
            }
            let line = words[at + 1..].join(" ").replace(" :: ", "::");
            let glob = line.ends_with("* ;");
            for path in paths(&line, module, known) {
                let name = if glob { String::new() } else { path.last().cloned().unwrap_or_default() };
                all.push((path, name));
            }
        }
        Self { all, text_without_public }
    }
}

/// Returns the file that defines the target of a path, following re-exports.
fn defined_in(path: &[String], uses: &BTreeMap<Vec<String>, Uses>, steps: usize) -> Option<Vec<String>> {
    let end = (1..=path.len()).rev().find(|&n| uses.contains_key(&path[..n]))?;
    let (module, rest) = path.split_at(end);
    let handed = rest.first().and_then(|name| uses[module].all.iter().find(|(_, known)| known == name));
    match handed.filter(|_| steps > 0) {
        Some((from, _)) => defined_in(&[from, &rest[1..]].concat(), uses, steps - 1),
        None => Some(module.to_vec()),
    }
}

/// Returns groups of files that use one another, directly or indirectly.
fn circles(modules: &[(Vec<String>, String)]) -> Vec<Vec<String>> {
    let files: BTreeMap<Vec<String>, String> = modules
        .iter()
        .filter(|(module, _)| !module.is_empty() && module.last().is_none_or(|name| name != "tests"))
        .map(|(module, text)| (module.clone(), library(text)))
        .collect();
    let children = |module: &[String]| -> BTreeMap<String, Vec<String>> {
        let of = |m: &&Vec<String>| m.len() == module.len() + 1 && m.starts_with(module);
        files.keys().filter(of).map(|m| (m[module.len()].clone(), m.clone())).collect()
    };
    let uses: BTreeMap<Vec<String>, Uses> =
        files.iter().map(|(module, text)| (module.clone(), Uses::of(text, module, &children(module)))).collect();
    // Imported module names also begin paths.
    let names: Vec<&Vec<String>> = uses.keys().collect();
    let edges: Vec<BTreeSet<usize>> = uses
        .iter()
        .map(|(module, own)| {
            let mut known = children(module);
            known.extend(
                own.all.iter().filter(|(path, _)| uses.contains_key(path)).map(|(p, n)| (n.clone(), p.clone())),
            );
            let used = paths(&own.text_without_public, module, &known);
            let targets = used.iter().filter_map(|path| defined_in(path, &uses, 8));
            targets.filter(|to| to != module).filter_map(|to| names.iter().position(|name| **name == to)).collect()
        })
        .collect();
    let reached: Vec<BTreeSet<usize>> = (0..names.len())
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                next.extend(edges[at].iter().filter(|to| seen.insert(**to)));
            }
            seen
        })
        .collect();
    let group = |a: usize| -> Vec<usize> { reached[a].iter().copied().filter(|&b| reached[b].contains(&a)).collect() };
    let groups: BTreeSet<Vec<usize>> = (0..names.len()).map(group).filter(|group| group.len() > 1).collect();
    groups.into_iter().map(|group| group.into_iter().map(|k| names[k].join("::")).collect()).collect()
}

#[test]
fn no_two_files_import_each_other() {
    assert_eq!(circles(&modules()), Vec::<Vec<String>>::new());
}

/// Cycles through re-exports and imported modules are found. Declaring and re-exporting children is no cycle.
#[test]
fn circles_are_seen() {
    let module = |path: &str, text: &str| (path.split("::").map(str::to_owned).collect::<Vec<_>>(), text.to_owned());
    let parent = module("a", "mod b; pub(crate) mod c; pub use b::B; use c::{C, D};");
    let b = module("a::b", "use super::C; pub struct B;");
    let none = module("a::c", "pub struct C; #[cfg(test)]\nmod tests { use super::super::B; }");
    assert!(circles(&[parent.clone(), b.clone(), none]).is_empty());
    for text in ["use super::B;", "use crate::a::b; fn f() -> b::B {}", "fn f() { crate::a::b::g() }"] {
        assert_eq!(circles(&[parent.clone(), b.clone(), module("a::c", text)]), [["a::b", "a::c"]], "{text}");
    }
    let defines = module("a", "mod b; use b::B; pub struct E;");
    assert_eq!(circles(&[defines, module("a::b", "use super::E;")]), [["a", "a::b"]]);
    // The text after a declaration of tests is part of the library.
    for declared in ["#[cfg(test)]\nmod tests;", "#[cfg(test)]\npub(super) mod tests;", "#[cfg(test)]\nfn f() {}"] {
        let defines = module("a", &format!("mod b; {declared}\nuse b::B; pub struct E; fn g() -> B {{}}"));
        assert_eq!(circles(&[defines, module("a::b", "use super::E;")]), [["a", "a::b"]], "{declared}");
    }
}

/// `paths` understands groups, `super`, inline modules, comments and strings.
#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let source = r#"
        // use crate::solver::nothing;
        use crate::{error::{Error, Result as R}, grid::levels::*};
        use super::super::ffi::guard;
        const TEXT: &str = "use crate::solver::text;";
        fn f<'a>(x: &'a str) -> crate::report::Outcome { crate::backend::cpu::Cpu::new('{') }
        mod tests { use super::{*, area::Area}; use super::super::sums; mod inner { use super::super::me; } }
    "#;
    let module: Vec<String> = ["backend", "cpu", "team"].map(str::to_owned).to_vec();
    let found: Vec<String> = paths(source, &module, &BTreeMap::new()).iter().map(|p| p.join("::")).collect();
    let expected = [
        "backend::cpu::Cpu::new",
        "backend::cpu::sums",
        "backend::cpu::team",
        "backend::cpu::team::area::Area",
        "backend::cpu::team::me",
        "backend::ffi::guard",
        "error::Error",
        "error::Result",
        "grid::levels",
        "report::Outcome",
    ];
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(sorted, expected.map(str::to_owned));

    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<String>>();
    let edge = |from: &str, to: &str| forbidden(&path(from), &path(to)).is_some();
    assert!(edge("stencil::levels", "rrb::Setup") && edge("rrb::plan", "rrb::cpu::Cpu"));
    assert!(edge("rrb::cpu::team", "rrb::cuda::run") && edge("report", "stencil::levels"));
    assert!(edge("rrb::plan", "abi::log") && edge("rrb::entries", "mystery::x") && edge("sparse::plan", "rrb::plan"));
    assert!(!edge("rrb", "krylov::PcgSteps") && !edge("rrb::entries::handle", "rrb::cpu::Cpu"));
    assert!(!edge("stencil::levels", "error::Error") && !edge("rrb::cpu::aggregated", "aggregation::cpu::Cycle"));
}
