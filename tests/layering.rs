//! The layers of the architecture: ffi -> solver -> backend -> grid, sparse -> runtime; error, isa, options, report and
//! spectrum are leaves. Reads every path of the sources that starts at the crate (`crate::`, `super::`, groups
//! included) and fails on a forbidden edge.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Layers from the outside in: each may use itself and those after it. Leaves may use leaves, and `runtime`.
const LAYERS: [&str; 6] = ["ffi", "solver", "backend", "grid", "sparse", "runtime"];
const LEAVES: [&str; 5] = ["error", "isa", "options", "report", "spectrum"];

/// Words that matter here: identifiers, `::`, and single characters; comments, strings and chars are gone.
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

/// All paths below `prefix`, from the token after it; returns where the path ends.
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
            // `*`, generics, and anything else that ends a path.
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

/// Crate paths used by the module `module` (its path from the crate's root), with inline modules resolved.
fn paths(source: &str, module: &[String]) -> BTreeSet<Vec<String>> {
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

/// Every source: its module path and its text.
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

/// Why `from` must not use `to`, if it must not.
fn forbidden(from: &[String], to: &[String]) -> Option<&'static str> {
    let (Some(layer), Some(target)) = (from.first(), to.first()) else { return None };
    let place = |name: &str| LAYERS.iter().position(|l| *l == name);
    let is_leaf = |name: &str| LEAVES.contains(&name);
    let concrete = |name: &str| ["cpu", "reference", "cuda"].contains(&name);
    if layer == target || is_leaf(target) {
        return if layer == "backend"
            && from.get(1).is_none_or(|m| !concrete(m))
            && to.get(1).is_some_and(|m| concrete(m))
        {
            // Re-exports of its own parts in backend/mod.rs are no use of them by the traits.
            (from.len() > 1).then_some("what backends share names one of them")
        } else {
            None
        };
    }
    if is_leaf(layer) {
        return (target != "runtime").then_some("leaves use nothing but leaves and runtime");
    }
    match (place(layer), place(target)) {
        (Some(a), Some(b)) if a < b => {
            let is_concrete = target == "backend" && to.get(1).is_some_and(|m| concrete(m));
            (layer != "ffi" && is_concrete).then_some("only the boundary names a concrete backend")
        }
        (Some(_), Some(_)) => Some("an inner layer uses an outer one"),
        _ => Some("not a layer of the architecture"),
    }
}

#[test]
fn no_forbidden_edge() {
    let modules = modules();
    assert!(modules.len() > 15, "the sources are there");
    let mut edges = 0;
    let mut wrong = Vec::new();
    for (module, text) in &modules {
        for path in paths(text, module) {
            edges += 1;
            if let Some(reason) = forbidden(module, &path) {
                wrong.push(format!("{} uses {}: {reason}", module.join("::"), path.join("::")));
            }
        }
    }
    assert!(edges > 100, "paths are found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Concrete backends are named at the boundary: in `make_backend`, and where it asks for devices and for what lies on
/// them.
#[test]
fn concrete_backends_are_named_once() {
    let mut naming: Vec<String> = modules()
        .iter()
        .filter(|(module, _)| module.first().is_some_and(|m| m != "backend"))
        .filter(|(_, text)| {
            let tokens = tokens(text);
            tokens
                .windows(3)
                .any(|w| w[0] == "backend" && w[1] == "::" && ["cpu", "reference", "cuda"].contains(&w[2].as_str()))
        })
        .map(|(module, _)| module.join("::"))
        .collect();
    naming.sort();
    let expected = ["handle", "library", "rrb", "smoother::arrays", "smoother::handle", "spaces"];
    assert_eq!(naming, expected.map(|module| format!("ffi::{module}")));
}

/// `unsafe` stays at the boundary, in the cpu backend's helpers, in the calls of the device, in `runtime` and in the
/// choice of an instruction set; threads in `runtime`; nothing prints.
#[test]
fn unsafe_threads_and_printing_stay_in_their_places() {
    let mut with_unsafe = 0;
    for (module, text) in modules() {
        // Its own tests are no part of the library.
        let tokens = tokens(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
        let has = |words: &[&str]| tokens.windows(words.len()).any(|w| w.iter().zip(words).all(|(a, b)| a == b));
        let name = module.join("::");
        let at = |prefix: &str| name.starts_with(prefix);
        let of_cuda = |part: &&str| module.starts_with(&["backend", "cuda", part].map(str::to_owned));
        let cuda_calls = ["driver", "launch", "staging"].iter().any(of_cuda);
        if has(&["unsafe"]) {
            with_unsafe += 1;
            let below = at("runtime") || name == "isa";
            assert!(at("ffi") || at("backend::cpu") || cuda_calls || below, "unsafe in {name}");
        }
        let spawns = has(&["std", "::", "thread"]) && !has(&["thread", "::", "available_parallelism"]);
        assert!(!spawns || at("runtime"), "threads in {name}");
        assert!(!has(&["libc"]) || at("ffi") || at("runtime"), "libc in {name}");
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

/// Sources are within 120 columns: rustfmt and clang-format leave comments, texts and macros as they are.
#[test]
fn lines_are_within_120_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "kernels", "bindings"] {
        sources(&root.join(folder), &["rs", "cu", "cuh", "f90", "inc"], &mut files);
    }
    let mut wide = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("readable");
        let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 120);
        wide.extend(long.map(|(k, _)| format!("{}:{}", file.display(), k + 1)));
    }
    assert!(files.len() > 100, "the sources are there");
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// The reader itself: groups, `super`, inline modules, comments and strings.
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
    let found: Vec<String> = paths(source, &module).iter().map(|p| p.join("::")).collect();
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
    assert!(edge("grid::levels", "backend::Setup") && edge("solver::rrb", "backend::cpu::Cpu"));
    assert!(
        edge("backend::cpu::team", "solver::krylov")
            && edge("report", "grid::levels")
            && edge("backend::sums", "backend::cpu::team")
    );
    assert!(edge("solver::rrb", "ffi::log") && edge("ffi::rrb", "mystery::x"));
    assert!(
        !edge("solver::rrb", "backend::RrbBackend")
            && !edge("ffi::rrb", "backend::cpu::Cpu")
            && !edge("grid::levels", "error::Error")
    );
}
