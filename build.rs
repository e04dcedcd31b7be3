//! Compiles the kernels of each family into a fatbin that the library embeds (src/cuda/launch/), translates the
//! structures that kernels receive to Rust, and names the shared library.
//!
//! The build searches for nvcc in `CUDA_HOME`, in the folder .cuda that scripts/setup fills, and in the PATH, in this
//! order. `RRBSOLVER_CUDA=off` builds a library without kernels; its result `RRB_INFO_CUDA_KERNELS` is 0.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Architectures for which machine code is compiled. Code for one minor version also runs on later minor versions: code
/// for 8.0 runs on 8.6 and 8.9. The kernels have no special code for 8.6 and 8.9, so machine code for both would only
/// increase the compile time and the size by 40 %. For the last architecture, PTX is included too. The driver compiles
/// this PTX for later architectures.
const ARCHITECTURES: [u32; 5] = [75, 80, 90, 100, 120];

/// The architectures in `ARCHITECTURES` whose devices can have fast links to other devices.
const LINKED: [u32; 3] = [80, 90, 100];

/// Translation units in kernels/, each with the architectures for which it is compiled.
const UNITS: [(&str, &[u32]); 5] = [
    ("dpcg", &ARCHITECTURES),
    ("rrb", &ARCHITECTURES),
    ("rrb_divided", &LINKED),
    ("smoother", &ARCHITECTURES),
    ("sparse", &ARCHITECTURES),
];

fn main() {
    for name in ["RRBSOLVER_CUDA", "CUDA_HOME", "RRBSOLVER_CUDA_ARCHITECTURES"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rustc-check-cfg=cfg(rrbsolver_kernels)");
    // CHANGELOG.md promises one SONAME per major version. CMakeLists.txt creates the symbolic link with this name.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the version");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librrbsolver.so.{major}");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let out = |unit: &str| folder.join(unit).with_extension("fatbin");
    write_arguments(&folder);
    match std::env::var("RRBSOLVER_CUDA").as_deref() {
        Ok("off") => {
            UNITS.iter().for_each(|(unit, _)| std::fs::write(out(unit), b"").expect("OUT_DIR can be written"));
            return;
        }
        Ok("on" | "") | Err(_) => {}
        Ok(other) => panic!("RRBSOLVER_CUDA must be on or off, got {other}"),
    }
    let Some(nvcc) = nvcc() else {
        panic!(
            "nvcc is missing: run `make setup`, which downloads it into .cuda, or set CUDA_HOME to CUDA 13.0, or set \
             RRBSOLVER_CUDA=off for a library without device kernels"
        );
    };
    println!("cargo:rerun-if-changed={}", nvcc.display());
    // The translation units are compiled at the same time. While one unit waits for its last architecture, the others
    // use the remaining cores.
    let started = UNITS.map(|(unit, architectures)| (unit, start(&nvcc, unit, architectures, &out(unit))));
    started.into_iter().for_each(|(unit, child)| end(&nvcc, unit, child));
    println!("cargo:rustc-cfg=rrbsolver_kernels");
}

fn nvcc() -> Option<PathBuf> {
    let homes = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cuda/nvidia/cu13");
    let path = std::env::var_os("PATH").unwrap_or_default();
    homes
        .chain([own])
        .map(|home| home.join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|program| program.is_file())
}

/// Starts the compilation of a translation unit.
fn start(nvcc: &Path, unit: &str, architectures: &[u32], out: &Path) -> Child {
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "-fatbin", "--threads", "0", "-Xcompiler", "-Wall"]);
    // Reduces the size of the fatbin by a factor of 7. Drivers of CUDA 12.4 and newer read this compression, and the
    // library requires a newer driver anyway.
    command.arg("--compress-mode=size");
    // RRBSOLVER_CUDA_ARCHITECTURES=90 saves time during work on the kernels. Only with one architecture does the code
    // contain line numbers for profilers, because they would double the size of the library.
    let wanted = std::env::var("RRBSOLVER_CUDA_ARCHITECTURES").unwrap_or_default();
    let wanted: Vec<u32> = wanted.split(',').filter_map(|a| a.trim().parse().ok()).collect();
    if wanted.len() == 1 {
        command.arg("-lineinfo");
    }
    // Architectures in `ARCHITECTURES` for which this unit is not needed are left out.
    let is_needed = |a: &u32| architectures.contains(a) || !ARCHITECTURES.contains(a);
    let own: Vec<u32> = wanted.iter().copied().filter(is_needed).collect();
    let architectures =
        [&*own, &*wanted, architectures].into_iter().find(|list| !list.is_empty()).unwrap_or(architectures);
    for (k, a) in architectures.iter().enumerate() {
        let code = if k + 1 == architectures.len() { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
        command.arg("-gencode").arg(format!("arch=compute_{a},code={code}"));
    }
    let folder = unit.split('_').next().unwrap_or(unit);
    command.arg(format!("kernels/{folder}/{unit}.cu")).arg("-o").arg(out);
    command.spawn().unwrap_or_else(|error| panic!("{} cannot be run: {error}", nvcc.display()))
}

fn end(nvcc: &Path, unit: &str, mut child: Child) {
    let status = child.wait().expect("a child of this program");
    assert!(status.success(), "{} ended with {status} on kernels/.../{unit}.cu", nvcc.display());
}

/// Headers whose structures the host uses, per module of src/cuda/launch/.
const HEADERS: [(&str, &[&str]); 8] = [
    ("aggregation", &["aggregation"]),
    ("dpcg", &["dpcg"]),
    ("inverse", &["common/inverse.cuh"]),
    ("labelled", &["common/labelled.cuh"]),
    ("rrb", &["rrb", "common/scalars.cuh"]),
    ("smoother", &["smoother"]),
    ("sparse", &["sparse"]),
    ("vectors", &["common/vectors.cuh"]),
];

/// Writes OUT_DIR/MODULE.rs: translates the structures that kernels receive from their declarations in kernels/, for
/// the macros of src/cuda/launch/declare.rs. These are the structures whose names end in `Args`, and the structures of
/// their fields.
fn write_arguments(folder: &Path) {
    for (module, headers) in HEADERS {
        let mut all = BTreeMap::new();
        for path in headers.iter().flat_map(|header| sources(&Path::new("kernels").join(header))) {
            read_structures(&path, &mut all);
        }
        let mut wanted: Vec<String> = all.keys().filter(|name| name.ends_with("Args")).cloned().collect();
        let mut text = String::new();
        let mut at = 0;
        while at < wanted.len() {
            let name = wanted[at].clone();
            let fields = flat(&all, &name);
            for target in fields.iter().map(|field| &field.target) {
                if all.contains_key(target) && !wanted.contains(target) {
                    wanted.push(target.clone());
                }
            }
            let kind = if layout(&all, &name).2 { "structures" } else { "entries" };
            let fields: Vec<String> = fields.iter().map(|field| format!("{}: {}", field.name, field.rust())).collect();
            text += &format!("{kind}! {{ {name} {{ {} }} }}\n", fields.join(", "));
            at += 1;
        }
        std::fs::write(folder.join(module).with_extension("rs"), text).expect("OUT_DIR can be written");
    }
}

/// Returns the paths of all files in the folder `path`. If `path` is a file, returns only `path`.
fn sources(path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    folder.map(|entry| entry.expect("kernels can be read").path()).collect()
}

/// A field of a structure: its name, its type without template arguments, and whether it is a pointer to this type.
struct Field {
    name: String,
    target: String,
    pointer: bool,
    lengths: Vec<String>,
}

impl Field {
    /// Returns the type in Rust.
    fn rust(&self) -> String {
        let element =
            if self.pointer { "Address" } else { number(&self.target).map_or(&*self.target, |(rust, _)| rust) };
        self.lengths.iter().rev().fold(element.to_owned(), |of, length| format!("[{of}; {length}]"))
    }
}

/// Returns the Rust type and the size in bytes of the C type `name`, or `None` if `name` is not a type of numbers.
fn number(name: &str) -> Option<(&'static str, usize)> {
    Some(match name {
        "int" | "int32_t" => ("i32", 4),
        "unsigned" | "uint32_t" => ("u32", 4),
        "int64_t" => ("i64", 8),
        "uint64_t" | "unsigned long long" => ("u64", 8),
        "uint16_t" => ("u16", 2),
        "double" => ("f64", 8),
        _ => return None,
    })
}

/// Structures by name: the base structure, if any, and the own fields.
type Structures = BTreeMap<String, (Option<String>, Vec<Field>)>;

/// Returns the fields of a structure, beginning with those of its base structure.
fn flat<'a>(all: &'a Structures, name: &str) -> Vec<&'a Field> {
    let (base, own) = &all[name];
    base.iter().flat_map(|base| flat(all, base)).chain(own).collect()
}

/// Returns the size in bytes, the alignment, and whether the structure contains padding. An array whose length is a
/// named constant is counted as one element, so the size may be too small. The result about padding is correct
/// nevertheless, because the elements of such arrays are structures of whole 8-byte words.
fn layout(all: &Structures, name: &str) -> (usize, usize, bool) {
    let (mut size, mut most, mut padded) = (0, 1, false);
    for field in flat(all, name) {
        let (bytes, align, inner) = match number(&field.target) {
            _ if field.pointer => (8, 8, false),
            Some((_, bytes)) => (bytes, bytes, false),
            // Structures of other modules consist of whole 8-byte words and have no padding, so one word represents
            // them.
            None if !all.contains_key(&field.target) => (8, 8, false),
            None => layout(all, &field.target),
        };
        let count: usize = field.lengths.iter().filter_map(|length| length.parse::<usize>().ok()).product();
        padded |= inner || size % align != 0;
        (size, most) = (size.next_multiple_of(align) + bytes * count, most.max(align));
    }
    (size.next_multiple_of(most), most, padded || size % most != 0)
}

/// Adds the structures that a source declares to `all`.
fn read_structures(path: &Path, all: &mut Structures) {
    println!("cargo:rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).expect("kernels can be read");
    let tokens = tokens(&text);
    let mut at = 0;
    while at + 2 < tokens.len() {
        at += 1;
        if tokens[at - 1] != "struct" {
            continue;
        }
        let opens = at + tokens[at..].iter().position(|t| t == "{" || t == ";" || t == ")").unwrap_or(0);
        if tokens[opens] != "{" {
            continue;
        }
        // The name is the token before the brace or, for a structure with a base, the token before the colon.
        let base = (tokens[opens - 2] == ":").then(|| tokens[opens - 1].clone());
        let name = tokens[if base.is_some() { opens - 3 } else { opens - 1 }].clone();
        let (fields, end) = read_fields(&tokens, opens + 1);
        at = end;
        let twice = all.insert(name.clone(), (base, fields)).is_some();
        assert!(!(twice && name.ends_with("Args")), "{name} is declared twice");
    }
}

/// Splits a text into names, numbers and single characters, without comments and preprocessor lines.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut rest = line.split("//").next().unwrap_or("").trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let end = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
            tokens.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

/// Returns the fields of a structure whose body begins at token `at`, and the index of the closing brace. Functions and
/// types in the body are skipped.
fn read_fields(tokens: &[String], mut at: usize) -> (Vec<Field>, usize) {
    let mut fields = Vec::new();
    while tokens[at] != "}" {
        let start = at;
        let mut depth = 0;
        loop {
            depth += i32::from(tokens[at] == "{") - i32::from(tokens[at] == "}");
            at += 1;
            // A function ends with its body. A type ends with a semicolon after its body.
            let body = tokens[at - 1] == "}" && tokens[at] != ";";
            if depth == 0 && (tokens[at - 1] == ";" || body) {
                break;
            }
        }
        let statement = &tokens[start..at - 1];
        let skipped = ["using", "static", "struct", "enum", "template"].contains(&&*statement[0]);
        if !skipped && !statement.iter().any(|token| token == "(" || token == "&") {
            read_declarations(statement, &mut fields);
        }
    }
    (fields, at)
}

/// Adds the fields of one declaration, for example `const unsigned *a, *b[2]`.
fn read_declarations(statement: &[String], fields: &mut Vec<Field>) {
    let mut words: Vec<&str> = statement.iter().map(|token| &**token).filter(|token| *token != "const").collect();
    if words[0] == "typename" {
        words.remove(0);
    }
    let mut end = if words.starts_with(&["unsigned", "long", "long"]) { 3 } else { 1 };
    while words[end] == ":" {
        end += 3;
    }
    let target = if end == 3 && words[1] == "long" { words[..3].join(" ") } else { words[end - 1].to_owned() };
    if words[end] == "<" {
        end += 1 + words[end..].iter().position(|word| *word == ">").expect("closed template arguments");
    }
    for declarator in words[end..].split(|word| *word == ",") {
        let pointer = declarator[0] == "*";
        let name = declarator[usize::from(pointer)].to_owned();
        let lengths = declarator[usize::from(pointer) + 1..].split(|word| *word == "[").skip(1);
        let lengths = lengths.map(|length| length[..length.len() - 1].join(" ")).collect();
        fields.push(Field { name, target: target.clone(), pointer, lengths });
    }
}
