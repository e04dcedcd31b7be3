//! Generates the C header with cbindgen.

use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use cbindgen::{Builder, Config, DocumentationStyle, ItemType, Language, Style};
use rrbsolver::error::STATUSES;
use rrbsolver::options::{ARGUMENTS, ArgumentEntry, Kind, OPTIONS, RESULTS};

use crate::tables::auto_comment;
use crate::{read, wrap};

/// Sources of the exported functions, in the order of the header.
const SOURCES: [&str; 5] = [
    "src/dpcg/entries.rs",
    "src/abi/mod.rs",
    "src/rrb/entries/mod.rs",
    "src/smoother/entries/mod.rs",
    "src/sparse/entries/mod.rs",
];
/// Source of the entry points of every family, as a macro.
const ENTRIES: &str = "src/abi/entries.rs";
/// Source of the structures of the interface.
const TABLE: &str = "src/distributed/vtable.rs";

/// A constant of the interface.
pub struct Constant {
    pub name: String,
    pub value: i64,
    pub doc: String,
}

/// Title of the group of option keys.
const OPTION_KEYS: &str = "Keys of the options, for rrb_set_int, rrb_get_int and similar functions.";

/// Returns all constants, in groups with a title. Choices that an option and a result share appear once.
pub fn constants() -> Vec<(&'static str, Vec<Constant>)> {
    let statuses = STATUSES
        .iter()
        .map(|s| Constant { name: s.name.to_owned(), value: s.value.into(), doc: s.doc.to_owned() })
        .collect();
    let options = OPTIONS
        .iter()
        .map(|o| Constant { name: format!("RRB_OPT_{}", o.constant), value: o.key.into(), doc: o.description() })
        .collect();
    let results = RESULTS
        .iter()
        .map(|r| Constant { name: format!("RRB_INFO_{}", r.constant), value: r.key.into(), doc: r.description() })
        .collect();
    let of_options = OPTIONS.iter().flat_map(|o| o.kinds_by_family.iter().map(move |&(_, kind)| (o.constant, kind)));
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
            "Statuses. 0 means success, positive values mean success with a caveat, and negative values mean failure.",
            statuses,
        ),
        (OPTION_KEYS, options),
        ("Keys of the results, for rrb_get_int, rrb_get_real and similar functions.", results),
        ("Choices, which are values of options and results.", choices),
        ("Choices of arguments.", arguments.collect()),
    ]
}

const BANNER: &str = "\
/* rrbsolver.h: solvers for stencil systems of simulation codes and for general sparse matrices. C99 and C++.
 *
 * Threads: different threads may use different handles at the same time. Only one thread at a time may use a handle;
 * this thread need not be the thread that created the handle. The option `threads` sets the number of threads that
 * compute. Callbacks run on the calling thread, between iterations. The library holds no lock while a callback runs. A
 * callback must not use the handle of the call that invoked the callback. The log callback may run on any thread that
 * uses the library.
 *
 * Statuses: every function that can fail returns an rrb_status. The values are listed below. If the status is positive,
 * the outputs are written and usable. If the status is not RRB_OK, the call also stores a message for the calling
 * thread, and rrbsolver_last_error copies this message.
 *
 * Arrays: the element (i, j) is a[j*ld + i] in 2D, and the element (i, j, k) is a[k*lp + j*ld + i] in 3D. Elements with
 * consecutive i = 0..nx-1 are contiguous. By default, ld is nx and lp is ny*ld; the options leading_dimension and
 * leading_plane set other values. The library uses a pointer to an array only during the call to which the pointer is
 * passed. An output array must not overlap any other array of the call.
 *
 * Handles: rrb_create, dpcg_create, smoother_create, sparse_create_csr and similar functions create a handle. The
 * functions rrb_destroy, dpcg_destroy, smoother_destroy and sparse_destroy free a handle and set the pointer to NULL.
 *
 * The values of the constants for statuses, options, results and choices do not change in later versions.
 *
 * The part \"Required\" of a description lists conditions that the call cannot check. If one of these conditions is not
 * met, the behaviour is undefined.
 *
 * Generated from the sources of the library; do not edit. */";

/// Number of calls of `raw`. Tests run in parallel in one process, so each call needs its own temporary file.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Returns the header that cbindgen writes, with comments as in the sources.
pub fn raw(root: &Path) -> Result<String> {
    let version: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    let mut text = format!(
        "/* Version of this header; rrbsolver_version() returns the version of the library. */\n\
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
        if title == OPTION_KEYS {
            let _ = write!(text, "\n{}", auto_comment());
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
    let sources = SOURCES.map(|source| root.join(source));
    let entries = expanded(&read(&root.join(ENTRIES))?).context("entries of all families")?;
    let name = format!("rrbsolver-generate-{}-{}.rs", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let expansion = std::env::temp_dir().join(name);
    std::fs::write(&expansion, entries).with_context(|| format!("cannot write {}", expansion.display()))?;
    let builder = sources.iter().fold(Builder::new().with_config(config), |builder, source| builder.with_src(source));
    let bindings = builder.with_src(root.join(TABLE)).with_src(&expansion).generate();
    let _ = std::fs::remove_file(&expansion);
    let bindings = bindings.context("cbindgen on the exported functions")?;
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    String::from_utf8(bytes).context("cbindgen wrote something else than text")
}

/// Expands the macro of the common entry points for each family, because cbindgen does not expand macros.
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
        let family = names[0].trim_end_matches("_handle");
        text += &parameters.iter().zip(&names).fold(body.replace("$family", family), put);
    }
    Ok(text)
}
