//! Writes everything that is made from the functions in `src/ffi` and the table in `src/options/table.rs`: the C header, the
//! Fortran modules of constants and C functions, and the tables of the documentation. `--check` compares instead.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cbindgen::{Builder, Config, DocumentationStyle, ItemType, Language, Style};
use clap::Parser;
use rrbsolver::error::STATUSES;
use rrbsolver::options::{
    ARGUMENTS, ArgumentEntry, Effect, Family, Kind, OPTIONS, OptionEntry, RESULTS, allowed_range,
};

/// Writes the C header, the Fortran modules below the binding and the tables of the documentation.
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
/// Entry points of every family, as a macro.
const ENTRIES: &str = "src/ffi/entries.rs";
/// Structures of the interface.
const TABLE: &str = "src/comm/vtable.rs";
const FORTRAN: &str = "bindings/fortran/src/rrbsolver_c.f90";
/// Files with generated tables, and the tables each of them must have.
const PAGES: [(&str, &[Table]); 1] = [("docs/c-api.md", &Table::ALL)];
const COMMAND: &str = "cargo run --release -p rrbsolver-tools --bin rrbsolver-generate";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("rrbsolver-generate: {sentence:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let root = &arguments.root;
    let header = header(root)?;
    let mut outputs = vec![(FORTRAN, fortran(&header)), (HEADER, Ok(header))];
    for (name, tables) in PAGES {
        outputs.push((name, read(&root.join(name)).and_then(|page| fill_page(name, &page, tables))));
    }
    // All that can be written is, before the first complaint.
    let mut complaints = Vec::new();
    for (name, text) in outputs {
        let path = root.join(name);
        match text {
            Err(sentence) => complaints.push(format!("{sentence:#}")),
            Ok(text) if std::fs::read_to_string(&path).is_ok_and(|old| old == text) => {}
            Ok(_) if arguments.check => complaints.push(format!("{name} is stale: run `{COMMAND}`")),
            Ok(text) => {
                std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
                println!("wrote {}", path.display());
            }
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(anyhow!(complaints.join("\nrrbsolver-generate: "))) }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
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
    let of_options = OPTIONS.iter().flat_map(|o| o.serves.iter().map(move |&(_, kind)| (o.constant, kind)));
    let of_options = of_options.filter_map(|(constant, kind)| match kind {
        Kind::Choice(choices) => Some((constant, choices)),
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
    let of_argument = |argument: &'static ArgumentEntry| {
        let name = |choice: &str| format!("RRB_{}_{}", argument.prefix, choice.to_uppercase());
        let doc = argument.doc.to_owned();
        argument.choices.iter().map(move |&(choice, value)| Constant { name: name(choice), value, doc: doc.clone() })
    };
    let arguments = ARGUMENTS.iter().flat_map(of_argument);
    vec![
        (
            "Statuses. 0: done. Positive: finished with a caveat, outputs are written and usable. Negative: failed.",
            statuses,
        ),
        ("Options: keys of set and get.", options),
        ("Results: keys of get.", results),
        ("Choices: values of options and results.", choices),
        ("Choices of arguments.", arguments.collect()),
    ]
}

const BANNER: &str = "\
/* rrbsolver.h: stencil solvers for simulators, and sparse matrices. C99 and C++.
 *
 * Threads: different handles are independent; one handle is used by one thread at a time; handles may move between
 * threads. The library uses threads of its own (option threads), never a global pool. Callbacks come on the calling
 * thread, between iterations, with no lock held; they must not use the handle that calls them.
 *
 * Statuses: every function that can fail returns an rrb_status, named below. A failing call leaves a sentence for its
 * thread, read by rrbsolver_last_error.
 *
 * Arrays: a[j*ld + i] in 2D, a[k*lp + j*ld + i] in 3D, i = 0..nx-1 fastest; ld = nx and lp = ny*ld unless the options
 * leading_dimension and leading_plane say otherwise. Pointers are borrowed for the call only; an array that is written
 * must overlap no other of the call. Handles: X_create (sparse_create_csr, ..., sparse_read) makes one, X_destroy frees
 * it and sets the pointer to NULL.
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
    config.export.item_types = vec![ItemType::Functions, ItemType::Typedefs, ItemType::OpaqueItems, ItemType::Structs];
    let source = root.join("src/ffi/mod.rs");
    let entries = expanded(&read(&root.join(ENTRIES))?).context("entries of all families")?;
    let expansion = std::env::temp_dir().join(format!("rrbsolver-generate-{}.rs", std::process::id()));
    std::fs::write(&expansion, entries).with_context(|| format!("cannot write {}", expansion.display()))?;
    let bindings = Builder::new().with_config(config).with_src(&source).with_src(root.join(TABLE)).with_src(&expansion);
    let bindings = bindings.generate();
    let _ = std::fs::remove_file(&expansion);
    let bindings = bindings.with_context(|| format!("cbindgen on {}", source.display()))?;
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    let text = String::from_utf8(bytes).context("cbindgen wrote something else than text")?;
    // Rust's heading for what a caller must see to.
    Ok(text.replace(" * # Safety\n", " * Required:\n"))
}

/// The macro of the entry points that every family has, expanded for each: cbindgen sees no macros.
fn expanded(source: &str) -> Result<String> {
    let (_, rules) = source.split_once("macro_rules! entries {").context("there is no macro")?;
    let (parameters, rest) = rules.split_once(") => {").context("the macro has no parameters")?;
    let (body, calls) = rest.split_once("\n    };\n}\n").context("the macro has no end")?;
    let parameters = parameters.trim_start().trim_start_matches('(').split_whitespace();
    let parameters: Vec<&str> = parameters.map(|word| word.trim_end_matches(":ident")).collect();
    let mut text = String::new();
    for call in calls.split("entries! {").skip(1) {
        let names: Vec<&str> = call.split('}').next().unwrap_or_default().split_whitespace().collect();
        ensure!(names.len() == parameters.len(), "{} names for {} parameters", names.len(), parameters.len());
        let put = |text: String, (parameter, name): (&&str, &&str)| text.replace(*parameter, name);
        text += &parameters.iter().zip(&names).fold(body.to_owned(), put);
    }
    Ok(text)
}

/// The constants, and for each family a module with the interfaces of its C functions, in which `rrb_solve` is
/// `c_solve`: what all families have has one name in all these modules.
fn fortran(header: &str) -> Result<String> {
    let mut text = "\
! The constants and the C functions of rrbsolver.h, one module for each family, in which rrb_solve is c_solve.
! Private to the binding: programs use module rrbsolver. Generated from the library's sources; do not edit.

module rrbsolver_constants
   use, intrinsic :: iso_c_binding, only: c_int32_t
   implicit none
   private
"
    .to_owned();
    for (title, group) in constants() {
        let width = group.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let _ = writeln!(text, "\n   ! {title}");
        for c in group {
            for line in wrap(&c.doc, 115) {
                let _ = writeln!(text, "   ! {line}");
            }
            let _ =
                writeln!(text, "   integer(c_int32_t), parameter, public :: {:width$} = {}_c_int32_t", c.name, c.value);
        }
    }
    text += "end module rrbsolver_constants\n";
    let prototypes = prototypes(header)?;
    let functions = functions(&prototypes)?;
    let mut families: Vec<&str> = functions.iter().map(|f| f.family).collect();
    families.sort_unstable();
    families.dedup();
    for family in families {
        let module = if family == LIBRARY { format!("{LIBRARY}_c") } else { format!("{LIBRARY}_{family}_c") };
        let kinds = "c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr";
        // Public in these modules, these kinds break gfortran 12 where a program has a variable of a type with a c_ptr.
        let _ =
            writeln!(text, "\nmodule {module}\n   use, intrinsic :: iso_c_binding, only: {kinds}\n   implicit none");
        let _ = writeln!(text, "   private :: {kinds}\n\n   interface");
        for f in functions.iter().filter(|f| f.family == family) {
            text += &f.interface()?;
        }
        let _ = writeln!(text, "   end interface\nend module {module}");
    }
    Ok(text)
}

/// The prefix of functions that belong to no family.
const LIBRARY: &str = "rrbsolver";

/// A function of the header: `result family_name(arguments)`.
struct Function<'a> {
    result: &'a str,
    family: &'a str,
    name: &'a str,
    arguments: Vec<&'a str>,
}

/// The prototypes of the header, without comments.
fn prototypes(header: &str) -> Result<String> {
    let (_, text) = header.split_once("extern \"C\" {").context("the header has no extern \"C\"")?;
    let code: String = text.split("*/").filter_map(|part| part.split("/*").next()).collect();
    Ok(code.lines().filter(|line| !line.starts_with(['#', '}'])).collect())
}

fn functions(prototypes: &str) -> Result<Vec<Function<'_>>> {
    let parse = |prototype| {
        let (head, tail) = str::split_once(prototype, '(')?;
        let (result, name) = split_name(head);
        let (family, name) = name.split_once('_')?;
        let arguments = tail.strip_suffix(')')?.split(',').map(str::trim).filter(|&a| a != "void").collect();
        Some(Function { result: result.trim(), family, name, arguments })
    };
    let each = prototypes.split_terminator(';');
    each.map(|p| parse(p).with_context(|| format!("no prototype of a function: {p}"))).collect()
}

/// What stands before the name at the end of a declaration, and the name.
fn split_name(declaration: &str) -> (&str, &str) {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    declaration.split_at(declaration.trim_end_matches(letter).len())
}

impl Function<'_> {
    fn interface(&self) -> Result<String> {
        let arguments = self.arguments.iter().map(|a| argument(a)).collect::<Result<Vec<_>>>()?;
        let names = arguments.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let (family, name) = (self.family, self.name);
        let head = format!("function c_{name}({names}) bind(c, name=\"{family}_{name}\")");
        let result = match self.result {
            pointer if pointer.ends_with('*') => "type(c_ptr)",
            number => fortran_type(number).with_context(|| format!("{family}_{name} returns {number}"))?,
        };
        let mut text = format!("      {}\n         import\n", wrap(&head, 108).join(" &\n         "));
        for (_, declaration) in &arguments {
            let _ = writeln!(text, "         {declaration}");
        }
        let _ = writeln!(text, "         {result} :: c_{name}\n      end function c_{name}");
        Ok(text)
    }
}

/// Pointers to one double; pointers to whole numbers that are written are to one but for these, all others to arrays.
const ONE_DOUBLE: [&str; 2] = ["value", "norm2"];
const WHOLE_NUMBERS: [&str; 4] = ["sizes", "i0", "i1", "i2"];

/// Name and Fortran declaration of an argument. A pointer to numbers or text may be left out, and C then gets NULL; a
/// table of pointers is given by its address.
fn argument(c: &str) -> Result<(&str, String)> {
    let rows = ["[2]", "[3]"].into_iter().find_map(|of| Some((c.strip_suffix(of)?.strip_suffix(')')?, of)));
    let (c, rows) = rows.map_or((c, None), |(c, of)| (c, Some(of)));
    let (before, name) = split_name(c);
    let (constant, kind) = match before.strip_prefix("const ") {
        Some(kind) => (true, kind),
        None => (false, before),
    };
    let base = kind.split([' ', '*']).next().unwrap_or(kind);
    let declaration = match (fortran_type(base), before.matches('*').count()) {
        (Some(number), 0) => format!("{number}, value :: {name}"),
        (Some(number), 1) => {
            let one_whole = base.starts_with("int") && !WHOLE_NUMBERS.contains(&name);
            let one = !constant && (one_whole || ONE_DOUBLE.contains(&name));
            let shape = if rows == Some("[2]") {
                "(2, *)"
            } else if rows.is_some() {
                "(3, *)"
            } else if one {
                ""
            } else {
                "(*)"
            };
            format!("{number}, intent({}), optional :: {name}{shape}", if constant { "in" } else { "inout" })
        }
        (None, 0) if base.ends_with("_fn") => format!("type(c_funptr), value :: {name}"),
        (None, 2) if base.ends_with("_handle") => format!("type(c_ptr), intent(inout) :: {name}"),
        (None, 1) if base == "void" || base.ends_with("_handle") || base.ends_with("_comm") => {
            format!("type(c_ptr), value :: {name}")
        }
        (Some(_), 2) => format!("type(c_ptr), value :: {name}"),
        _ => bail!("no Fortran declaration is known for the argument '{c}'"),
    };
    Ok((name, declaration))
}

fn fortran_type(c: &str) -> Option<&'static str> {
    match c {
        "int32_t" | "rrb_status" => Some("integer(c_int32_t)"),
        "int64_t" => Some("integer(c_int64_t)"),
        "double" => Some("real(c_double)"),
        "char" => Some("character(kind=c_char)"),
        _ => None,
    }
}

/// Lines of at most `width` characters.
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

/// A table of the documentation; its name stands in the marker. Those of no family hold what most have.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    Statuses,
    Options(Option<Family>),
    Results(Option<Family>),
}

impl Table {
    const ALL: [Self; 11] = [
        Self::Statuses,
        Self::Options(None),
        Self::Options(Some(Family::Rrb)),
        Self::Options(Some(Family::Smoother)),
        Self::Options(Some(Family::Dpcg)),
        Self::Options(Some(Family::Sparse)),
        Self::Results(None),
        Self::Results(Some(Family::Rrb)),
        Self::Results(Some(Family::Smoother)),
        Self::Results(Some(Family::Dpcg)),
        Self::Results(Some(Family::Sparse)),
    ];

    fn name(self) -> String {
        let family = |f: Option<Family>| f.map_or("common", |f| f.prefix().trim_end_matches('_'));
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
                for o in OPTIONS.iter().filter(|o| Family::home(o.key) == family) {
                    text += &option_row(o, family);
                }
            }
            Self::Results(family) => {
                text += "| result | key | type | meaning |\n|---|---|---|---|\n";
                for r in RESULTS.iter().filter(|r| Family::home(r.key) == family) {
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

/// Families that take other choices than the first have them after these.
fn option_row(o: &OptionEntry, family: Option<Family>) -> String {
    let mut ranges = Vec::new();
    for (p, (families, kind)) in o.serves.iter().enumerate() {
        let range = match kind {
            Kind::Choice(names) => choices(names),
            kind => allowed_range(kind),
        };
        let whose: Vec<_> = families.iter().filter(|_| p > 0).map(|f| f.prefix()).collect();
        ranges.push(if p == 0 { range } else { format!("{}: {range}", whose.join(", ")) });
    }
    let first = &o.serves[0].1;
    let key = if matches!(first, Kind::Text { .. }) { format!("{}, text only", o.key) } else { o.key.to_string() };
    let acts = match o.effect {
        Effect::Factorize if family == Some(Family::Smoother) => "at set_patches",
        Effect::Factorize => "at factorize",
        Effect::Product => "at factorize and the next product",
        Effect::Now => "at once",
    };
    let (default, range, doc) = (default(first), cell(&ranges.join("; ")), cell(&o.meaning()));
    format!("| `{}` | {key} | {default} | {range} | {acts} | {doc} |\n", o.name)
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
        Kind::Text { default, .. } => default.to_owned(),
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
            marked.split_once("-->").with_context(|| format!("{name}: a marker is not closed by -->"))?;
        let title = marker.trim_start_matches("<!-- generated: ").trim();
        let table = Table::ALL
            .into_iter()
            .find(|t| t.name() == title)
            .with_context(|| format!("{name}: there is no table '{title}'; there are: {}", list(&Table::ALL)))?;
        let end = after.find(END).with_context(|| format!("{name}: the table '{title}' has no {END}"))?;
        let _ = write!(text, "{before}<!-- generated: {title} -->\n{}{END}", table.markdown());
        rest = &after[end + END.len()..];
        found.push(table);
    }
    text.push_str(rest);
    match required.iter().find(|t| !found.contains(t)) {
        Some(missing) => Err(anyhow!("{name}: the marker <!-- generated: {} --> is missing", missing.name())),
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
        let e = fill_page("p", "text", &[Table::Statuses]).unwrap_err().to_string();
        assert_eq!(e, "p: the marker <!-- generated: statuses --> is missing");
        let e = fill_page("p", "<!-- generated: statusses -->", &[]).unwrap_err().to_string();
        assert!(e.starts_with("p: there is no table 'statusses'"), "{e}");
        let e = fill_page("p", "<!-- generated: statuses -->", &[]).unwrap_err().to_string();
        assert!(e.contains("has no <!-- /generated -->"), "{e}");
    }

    #[test]
    fn fortran_lines_are_short_enough() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fortran(&header(&root).unwrap()).unwrap();
        assert!(text.lines().all(|l| l.len() <= 120));
    }

    #[test]
    fn prototypes_become_interfaces() {
        let header = "typedef int x;\nextern \"C\" {\n/**\n * (a, b);\n */\nrrb_status rrb_f(const rrb_handle *h,\n    \
                      const double *a, double *value, int64_t *n, double *const *u, rrb_handle **out);\n#endif\n";
        let prototypes = prototypes(header).unwrap();
        let found = functions(&prototypes).unwrap();
        assert_eq!((found.len(), found[0].family, found[0].name, found[0].arguments.len()), (1, "rrb", "f", 6));
        assert_eq!(
            found[0].interface().unwrap().lines().map(str::trim).collect::<Vec<_>>(),
            [
                "function c_f(h, a, value, n, u, out) bind(c, name=\"rrb_f\")",
                "import",
                "type(c_ptr), value :: h",
                "real(c_double), intent(in), optional :: a(*)",
                "real(c_double), intent(inout), optional :: value",
                "integer(c_int64_t), intent(inout), optional :: n",
                "type(c_ptr), value :: u",
                "type(c_ptr), intent(inout) :: out",
                "integer(c_int32_t) :: c_f",
                "end function c_f",
            ]
        );
        let rows = argument("const int64_t (*lower)[3]").unwrap();
        assert_eq!(rows, ("lower", "integer(c_int64_t), intent(in), optional :: lower(3, *)".to_owned()));
        let e = argument("float *x").unwrap_err().to_string();
        assert_eq!(e, "no Fortran declaration is known for the argument 'float *x'");
    }
}
