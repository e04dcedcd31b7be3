//! Generates the Fortran modules of constants and C functions.

use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;

use crate::header::constants;
use crate::wrap;

/// Returns the constants, and for each family a module with the interfaces of its C functions. In these modules,
/// `rrb_solve` is named `c_solve`, so that functions of all families have the same names.
pub fn fortran(header: &str) -> Result<String> {
    let mut text = "\
! Constants and C functions of rrbsolver.h. The C functions of each family are in a separate module. There, for example,
! rrb_solve is named c_solve. Only the binding uses these modules. Programs use the module rrbsolver.
! Generated from the sources of the library; do not edit.

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
        // If these kinds were public in the modules, gfortran 12 would fail in programs with a variable of a type with
        // a c_ptr.
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

/// Prefix of functions that belong to no family.
const LIBRARY: &str = "rrbsolver";

/// A function of the header: `result family_name(arguments)`.
struct Function<'a> {
    result: &'a str,
    family: &'a str,
    name: &'a str,
    arguments: Vec<&'a str>,
}

/// Returns the prototypes of the header, without comments.
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

/// Splits a declaration into the name at its end and the text before.
pub fn split_name(declaration: &str) -> (&str, &str) {
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

/// Pointer arguments to a single double. Pointers to integers that are written point to a single integer, except the
/// names in `WHOLE_NUMBERS`. All other pointers point to arrays.
const ONE_DOUBLE: [&str; 2] = ["value", "norm2"];
const WHOLE_NUMBERS: [&str; 4] = ["sizes", "i0", "i1", "i2"];

/// Returns name and Fortran declaration of an argument. A pointer to numbers or text is optional, and C receives NULL
/// if it is absent. A table of pointers is passed by its address.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn fortran_lines_are_short_enough() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fortran(&crate::header::raw(&root).unwrap()).unwrap();
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
