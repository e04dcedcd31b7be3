//! Option values of a handle, which are set by key or by text.

use super::choices::{Choice, Devices, Lumping};
use super::range::range_error;
use super::table::{Effect, Family, Kind, OPTIONS, OptionEntry, RESULTS, opt};
use crate::base::heap::Counted;
use crate::error::{Error, List, MESSAGE, Result, formatted, written};
use std::fmt;

/// Values of all options of one handle.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    family: Family,
    ints: [i64; OPTIONS.len()],
    reals: [f64; OPTIONS.len()],
    /// Log target; none means `callback`. Copies of the options share the text.
    log: Option<Counted<String>>,
}

impl Options {
    /// Returns the default values.
    #[must_use]
    pub fn new(family: Family) -> Self {
        let default = |p: usize| match OPTIONS[p].kind(family) {
            Some(Kind::Int { default, .. }) => (default, 0.0),
            Some(Kind::Choice(names)) => (names[0].1, 0.0),
            Some(Kind::Real { default, .. }) => (0, default),
            Some(Kind::Text { .. }) | None => (0, 0.0),
        };
        Self {
            family,
            ints: std::array::from_fn(|p| default(p).0),
            reals: std::array::from_fn(|p| default(p).1),
            log: None,
        }
    }

    /// Returns the value of an integer option or the number of a choice. Keys come from [`opt`], so the lookup cannot
    /// fail.
    #[must_use]
    pub fn int(&self, key: i32) -> i64 {
        OPTIONS.iter().position(|o| o.key == key).map_or(0, |p| self.ints[p])
    }

    /// Returns the value of a choice.
    #[must_use]
    pub fn choice<C: Choice + Default>(&self, key: i32) -> C {
        C::of(self.int(key)).unwrap_or_default()
    }

    /// Returns whether an option has the value `choice`.
    #[must_use]
    pub fn is<C: Choice>(&self, key: i32, choice: C) -> bool {
        self.int(key) == choice.number()
    }

    /// Returns whether a switch is on.
    #[must_use]
    pub fn on(&self, key: i32) -> bool {
        self.int(key) != 0
    }

    /// Returns the value of a real option.
    #[must_use]
    pub fn real(&self, key: i32) -> f64 {
        OPTIONS.iter().position(|o| o.key == key).map_or(0.0, |p| self.reals[p])
    }

    /// Returns the names of those options in `keys` whose value differs from the default.
    pub fn names_of_non_default(&self, keys: &[i32]) -> impl Iterator<Item = &'static str> {
        let default = Self::new(self.family);
        let places = keys.iter().filter_map(|key| OPTIONS.iter().position(|o| o.key == *key));
        let changed = places.filter(move |&p| self.ints[p] != default.ints[p] || self.reals[p] != default.reals[p]);
        changed.map(|p| OPTIONS[p].name)
    }

    /// Returns a hash of the values of all options except the log target and those in `but`.
    #[must_use]
    pub fn fingerprint(&self, but: &[i32]) -> u64 {
        // FNV-1a hash (Fowler, Noll, Vo) over 64-bit words.
        let put = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        let counted = (0..OPTIONS.len()).filter(|&p| !but.contains(&OPTIONS[p].key));
        let words = counted.flat_map(|p| [self.ints[p] as u64, self.reals[p].to_bits()]);
        let hash = words.fold(0xcbf2_9ce4_8422_2325, put);
        hash ^ hash >> 32
    }

    /// Returns the devices that share grids.
    #[must_use]
    pub fn devices(&self) -> Devices {
        Devices::of_number(self.int(opt::DEVICES))
    }

    /// Returns the target of log lines: `callback`, `stderr`, or a path.
    #[must_use]
    pub fn log(&self) -> &str {
        self.log.as_ref().map_or("callback", |log| log)
    }

    /// Copies the log target of `other`.
    pub fn copy_log_target(&mut self, other: &Self) {
        self.log.clone_from(&other.log);
    }

    /// Iterates over the options of this family, with their indices in the table.
    fn own_options(&self) -> impl Iterator<Item = (usize, &'static OptionEntry)> {
        let family = self.family;
        OPTIONS.iter().enumerate().filter(move |(_, o)| o.kind(family).is_some())
    }

    /// Returns the index of a key, its table entry and its allowed values.
    fn position(&self, key: i32) -> Result<(usize, &'static OptionEntry, Kind)> {
        let Some((p, o)) = OPTIONS.iter().enumerate().find(|(_, o)| o.key == key) else {
            let nearest = self.own_options().map(|(_, o)| o).min_by_key(|o| o.key.abs_diff(key));
            let (constant, nearest) = nearest.map_or(("", 0), |o| (o.constant, o.key));
            return Err(refusal(format_args!(
                "unknown option key {key}; did you mean RRB_OPT_{constant} = {nearest}?"
            )));
        };
        let kind = o
            .kind(self.family)
            .ok_or_else(|| self.family.error_of_foreign_key("option", o.name, o.key, o.families()))?;
        Ok((p, o, kind))
    }

    /// Returns whether all options that take effect at factorize have the same values in `other`.
    #[must_use]
    pub fn same_setup(&self, other: &Self) -> bool {
        let at_factorize = |p: usize| OPTIONS[p].effect != Effect::Now;
        (0..OPTIONS.len())
            .filter(|&p| at_factorize(p))
            .all(|p| self.ints[p] == other.ints[p] && self.reals[p] == other.reals[p])
    }

    /// Sets an integer option, a choice by its number, or a real option to an integer value.
    pub fn set_int(&mut self, key: i32, value: i64) -> Result<()> {
        let (p, o, kind) = self.position(key)?;
        let fits = match kind {
            Kind::Int { min, max, multiple, .. } => (min..=max).contains(&value) && value % multiple == 0,
            Kind::Choice(names) => names.iter().any(|&(_, number)| number == value),
            Kind::Real { .. } => return self.set_real(key, value as f64),
            Kind::Text { .. } => return Err(refusal(format_args!("{} is a text option: use set_options", o.name))),
        };
        if !fits {
            return Err(range_error(o, kind, value));
        }
        self.ints[p] = value;
        Ok(())
    }

    /// Sets a real option.
    pub fn set_real(&mut self, key: i32, value: f64) -> Result<()> {
        let (p, o, kind) = self.position(key)?;
        let Kind::Real { min, max, open, .. } = kind else {
            return Err(refusal(format_args!("{} is not a real option: use set_int or set_options", o.name)));
        };
        let inside = if open { value > min && value < max } else { value >= min && value <= max };
        if !is_zero_or_normal(value) || !inside {
            return Err(real_error(o, kind, written(value), !is_zero_or_normal(value)));
        }
        self.reals[p] = value;
        Ok(())
    }

    /// Returns the index of the option `key`, its table entry and its allowed values. If the key belongs to a result of
    /// another family, or is closer to the key of a result than to that of any option, the error message names that
    /// result.
    fn readable(&self, key: i32) -> Result<(usize, &'static OptionEntry, Kind)> {
        self.position(key).map_err(|error| {
            if OPTIONS.iter().any(|o| o.key == key) {
                return error;
            }
            if let Some(r) = RESULTS.iter().find(|r| r.key == key) {
                return self.family.error_of_foreign_key("result", r.name, r.key, r.families.iter().copied());
            }
            let option = self.own_options().map(|(_, o)| o.key.abs_diff(key)).min();
            let known = RESULTS.iter().filter(|r| r.families.contains(&self.family));
            match known.min_by_key(|r| r.key.abs_diff(key)) {
                Some(r) if Some(r.key.abs_diff(key)) < option => {
                    refusal(format_args!("unknown key {key}; did you mean RRB_INFO_{} = {}?", r.constant, r.key))
                }
                _ => error,
            }
        })
    }

    /// Returns the value of an integer option or the number of a choice, by key.
    pub fn get_int(&self, key: i32) -> Result<i64> {
        let (p, o, kind) = self.readable(key)?;
        match kind {
            Kind::Int { .. } | Kind::Choice(_) => Ok(self.ints[p]),
            Kind::Real { .. } => Err(refusal(format_args!("{} is real: use get_real", o.name))),
            Kind::Text { .. } => Err(refusal(format_args!("{} is text and cannot be read back", o.name))),
        }
    }

    /// Returns the value of a real option by key; integer values are converted.
    pub fn get_real(&self, key: i32) -> Result<f64> {
        match self.readable(key)? {
            (p, _, Kind::Real { .. }) => Ok(self.reals[p]),
            _ => self.get_int(key).map(|v| v as f64),
        }
    }

    /// Applies text such as `levels=12 rel_tol=1e-8 backend=cpu`. If one entry is wrong, no option changes.
    pub fn set_text(&mut self, text: &str) -> Result<()> {
        let mut next = self.clone();
        for entry in entries(text) {
            next.set_entry(entry)?;
        }
        *self = next;
        Ok(())
    }

    /// Applies the valid entries of `text`, the content of the environment variable `RRBSOLVER_OPTIONS`. Ignores
    /// options that only other families have. Calls `complain` with an error for each wrong entry, and for options that
    /// only the program may set. If `complain` returns an error, this function returns it.
    pub fn set_text_leniently(&mut self, text: &str, mut complain: impl FnMut(Error) -> Result<()>) -> Result<()> {
        for entry in entries(text) {
            let name = entry.split('=').next().unwrap_or("");
            if OPTIONS.iter().any(|o| o.name == name && o.kind(self.family).is_none()) {
                continue;
            }
            if ["leading_dimension", "leading_plane", "memory"].contains(&name) {
                let reason = "describes the arrays of the program: only the program can set it";
                complain(refusal(format_args!("{name} {reason}")))?;
            } else if let Err(e) = self.set_entry(entry) {
                complain(e)?;
            }
        }
        Ok(())
    }

    fn set_entry(&mut self, entry: &str) -> Result<()> {
        let Some((name, value)) = entry.split_once('=') else {
            return Err(refusal(format_args!("'{entry}' is not of the form name=value")));
        };
        let (name, value) = if self.family == Family::Sparse { solver_shorthand(name, value) } else { (name, value) };
        if name == "eps" && self.family == Family::Sparse {
            self.set_named("rel_tol", value)?;
            return self.set_named("reference", "initial");
        }
        self.set_named(name, value)
    }

    fn set_named(&mut self, name: &str, value: &str) -> Result<()> {
        let Some((p, o)) = OPTIONS.iter().enumerate().find(|(_, o)| o.name == name) else {
            let nearest = nearest_name(name, self.own_options().map(|(_, o)| o.name));
            return Err(refusal(format_args!("unknown option '{name}'; did you mean '{nearest}'?")));
        };
        let kind = self.position(o.key)?.2;
        match kind {
            Kind::Int { .. } => match value.parse::<i64>() {
                Ok(v) => self.set_int(o.key, v),
                Err(_) => Err(range_error(o, kind, format_args!("'{value}'"))),
            },
            Kind::Real { .. } => match value.parse::<f64>() {
                // The error message contains the caller's text, because the parsed value of 1e-400 is 0.
                Ok(v) if underflows(value, v) => Err(real_error(o, kind, value, true)),
                Ok(v) => self.set_real(o.key, v).map_err(|_| real_error(o, kind, value, !is_zero_or_normal(v))),
                Err(_) => Err(range_error(o, kind, format_args!("'{value}'"))),
            },
            Kind::Choice(names) => self.set_choice(p, names, value),
            Kind::Text { .. } if o.key == opt::DEVICES => {
                self.ints[p] = Devices::parse(value)
                    .ok_or_else(|| {
                        let most = Devices::MOST;
                        refusal(format_args!(
                            "{name} must be none, or up to {most} different CUDA ordinals below 255, as 0+1, \
                             got '{value}'"
                        ))
                    })?
                    .number();
                Ok(())
            }
            Kind::Text { .. } => {
                if value.is_empty() {
                    return Err(refusal(format_args!("{name} must be callback, stderr or a path, got nothing")));
                }
                let path = |value| Counted::new(formatted(value, LOG_TARGET)?, LOG_TARGET);
                self.log = if value == "callback" { None } else { Some(path(value)?) };
                Ok(())
            }
        }
    }

    fn set_choice(&mut self, p: usize, names: &[(&str, i64)], value: &str) -> Result<()> {
        let OptionEntry { key, name, .. } = OPTIONS[p];
        if key == opt::LUMPING
            && let Some((lumping, omega)) = lumping_shorthand(value)
        {
            self.ints[p] = lumping.number();
            return self.set_real(opt::RELAXATION, omega);
        }
        let Some(&(_, number)) = names.iter().find(|&&(n, _)| n == value) else {
            let nearest = nearest_name(value, names.iter().map(|&(n, _)| n));
            let all = List(", ", names.iter().map(|&(n, _)| n));
            return Err(refusal(format_args!("{name} must be one of {all}, got '{value}'; did you mean '{nearest}'?")));
        };
        self.ints[p] = number;
        Ok(())
    }
}

const LOG_TARGET: &str = "the option log";

/// Returns the lumping and the relaxation parameter that one of Ciarlet's names denotes (report 16-06, table 1).
fn lumping_shorthand(value: &str) -> Option<(Lumping, f64)> {
    match value {
        "m1u" => Some((Lumping::M1, 0.0)),
        "m1m" => Some((Lumping::M1, 1.0)),
        "m2u" => Some((Lumping::M2, 0.0)),
        "m2m" => Some((Lumping::M2, 1.0)),
        _ => None,
    }
}

/// Translates option names and values of the programs of the 2008 thesis. `set_entry` translates their option eps, a
/// tolerance relative to the initial residual.
fn solver_shorthand<'a>(name: &'a str, value: &'a str) -> (&'a str, &'a str) {
    match (name, value) {
        ("solver", "jcbi") => (name, "jacobi"),
        ("solver", "gs") => (name, "gauss_seidel"),
        ("solver", "gssor") => (name, "sor"),
        ("it_max", _) => ("max_iter", value),
        ("verb", _) => ("verbosity", value),
        _ => (name, value),
    }
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|e| !e.is_empty())
}

/// Creates the error for a wrong key, name or choice.
fn refusal(message: fmt::Arguments) -> Error {
    formatted(message, MESSAGE).map_or_else(|error| error, Error::Option)
}

/// Returns whether a value is zero or normal. A subnormal value is not intended: it results if the bits of a Fortran
/// real(4) are read as a double.
fn is_zero_or_normal(value: f64) -> bool {
    value == 0.0 || value.is_normal()
}

/// Returns whether text with a nonzero digit was parsed as 0.
fn underflows(text: &str, value: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    value == 0.0 && mantissa.contains(|c| ('1'..='9').contains(&c))
}

/// Returns the range error for a real value that the caller wrote as `text`. If the value is neither zero nor
/// normal (`strange`), the message asks whether it has double precision.
fn real_error(o: &OptionEntry, kind: Kind, text: impl fmt::Display, strange: bool) -> Error {
    let question = if strange { ": is it double precision?" } else { "" };
    range_error(o, kind, format_args!("{text}{question}"))
}

/// Returns the name with the smallest edit distance.
fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|n| edit_distance(word, n)).unwrap_or("")
}

/// Number of characters that [`edit_distance`] compares. No name is longer.
const COMPARED: usize = 40;

/// Returns the edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string
/// alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    // Row i contains the distances of the first i characters of a. Only three rows are stored.
    let mut rows = [[0; COMPARED + 1]; 3];
    rows[0] = std::array::from_fn(|j| j);
    let mut before = None;
    for (i, of_a) in a.chars().take(COMPARED).enumerate() {
        let [above, two_above] = [rows[0], rows[1]];
        let mut row = [i + 1; COMPARED + 1];
        let mut left = None;
        for (j, of_b) in b.chars().take(COMPARED).enumerate() {
            let replaced = above[j] + usize::from(of_a != of_b);
            row[j + 1] = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if before == Some(of_b) && left == Some(of_a) {
                row[j + 1] = row[j + 1].min(two_above[j - 1] + 1);
            }
            left = Some(of_b);
        }
        rows = [row, above, two_above];
        before = Some(of_a);
    }
    rows[0][b.chars().take(COMPARED).count()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RRB_ERR_ARGUMENT;
    use crate::options::{Precision, Reference, Solver};

    #[test]
    fn keys_and_names_are_unique() {
        for (p, o) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..p].iter().all(|q| q.key != o.key && q.name != o.name), "{}", o.name);
            assert!(RESULTS.iter().all(|r| r.key != o.key), "{}", o.name);
        }
        for (p, r) in RESULTS.iter().enumerate() {
            assert!(RESULTS[..p].iter().all(|q| q.key != r.key && q.name != r.name), "{}", r.name);
        }
    }

    #[test]
    fn text_is_all_or_nothing() {
        let mut o = Options::new(Family::Rrb);
        let before = o.clone();
        let e = o.set_text("rel_tol=1e-8 levls=12").unwrap_err();
        assert_eq!(e.to_string(), "unknown option 'levls'; did you mean 'levels'?");
        assert_eq!(o, before);
        o.set_text("rel_tol=1e-8, check_input=0").unwrap();
        assert!(o.same_setup(&before));
        o.set_text("lumping=m2u").unwrap();
        assert!(!o.same_setup(&before));
        assert_eq!(o.real(opt::REL_TOL), 1e-8);
        assert_eq!((o.int(opt::LUMPING), o.real(opt::RELAXATION)), (1, 0.0));
    }

    #[test]
    fn errors_name_the_allowed_range() {
        let mut o = Options::new(Family::Rrb);
        let message = |e: Error| e.to_string();
        assert_eq!(message(o.set_real(opt::REL_TOL, -1.0).unwrap_err()), "rel_tol must lie in (0, 1), got -1");
        assert_eq!(message(o.set_real(opt::REL_TOL, -1e-9).unwrap_err()), "rel_tol must lie in (0, 1), got -1e-9");
        assert!(o.set_real(opt::REL_TOL, f64::NAN).is_err());
        assert_eq!(
            message(o.set_int(opt::COMPUTE_BLOCK, 12).unwrap_err()),
            "compute_block must be a multiple of 8 in [8, 4096], got 12"
        );
        assert_eq!(
            message(o.set_int(opt::CYCLE, 9).unwrap_err()),
            "cycle must be one of 0 (auto), 1 (v), 2 (amli), 3 (k), 4 (aggregation), got 9"
        );
        assert_eq!(
            message(o.set_text("backend=cdua").unwrap_err()),
            "backend must be one of auto, cpu, cuda, reference, got 'cdua'; did you mean 'cuda'?"
        );
        assert_eq!(
            message(o.set_int(201_000, 1).unwrap_err()),
            "unknown option key 201000; did you mean RRB_OPT_DEVICES = 220?"
        );
    }

    #[test]
    fn subnormal_and_overflowing_values_are_rejected() {
        let mut o = Options::new(Family::Rrb);
        let mut messages = Vec::new();
        for text in ["rel_tol=1e-400", "rel_tol=1e400", "abs_tol=0.001e-400", "abs_tol=1e400", "abs_tol=2e-310"] {
            messages.push(o.set_text(text).unwrap_err().to_string());
        }
        // The bits of 1e-6 in single precision, read as a double whose upper half is zero.
        let single = f64::from_bits(u64::from(1e-6f32.to_bits()));
        for value in [single, f64::NAN] {
            messages.push(o.set_real(opt::REL_TOL, value).unwrap_err().to_string());
        }
        messages.push(o.set_real(opt::ABS_TOL, f64::INFINITY).unwrap_err().to_string());
        let (rel_tol, abs_tol) = ("rel_tol must lie in (0, 1)", "abs_tol must be >= 0 and finite");
        let expected = [
            (rel_tol, "1e-400"),
            (rel_tol, "1e400"),
            (abs_tol, "0.001e-400"),
            (abs_tol, "1e400"),
            (abs_tol, "2e-310"),
            (rel_tol, "4.436652885e-315"),
            (rel_tol, "NaN"),
            (abs_tol, "inf"),
        ];
        for (message, (range, value)) in messages.iter().zip(expected) {
            assert_eq!(*message, format!("{range}, got {value}: is it double precision?"));
        }
        o.set_text("abs_tol=0 abs_tol=0.0e-400 abs_tol=0e400 abs_tol=2.3e-308").unwrap();
        let mut smoother = Options::new(Family::Smoother);
        assert!(smoother.set_real(opt::OMEGA, single).is_err() && smoother.set_text("omega=1e-400").is_err());
        smoother.set_real(opt::OMEGA, 0.0).unwrap();
    }

    /// Families share an option but have different choices; some choices exist only in other families.
    #[test]
    fn each_family_has_its_own_choices() {
        let mut o = Options::new(Family::Dpcg);
        o.set_text("precision=f32 preconditioner=multigrid fusion=off").unwrap();
        let refused = |e: Error| (e.status(), e.to_string());
        assert_eq!(
            refused(o.set_int(opt::PRECISION, 3).unwrap_err()),
            (RRB_ERR_ARGUMENT, "precision must be one of 0 (auto), 1 (f64), 2 (f32), got 3".to_owned())
        );
        for family in [Family::Rrb, Family::Dpcg] {
            let (status, message) = refused(Options::new(family).set_int(opt::PRECISION, 5).unwrap_err());
            assert_eq!(status, RRB_ERR_ARGUMENT);
            assert!(message.starts_with("precision must be one of 0 (auto), 1 (f64), 2 (f32)"), "{message}");
        }
        let message = Options::new(Family::Smoother).set_text("precision=single").unwrap_err().to_string();
        assert!(message.contains("smoother_ has no option precision"), "{message}");
        Options::new(Family::Sparse).set_text("precision=single").unwrap();
        for number in 8..=10 {
            let (status, message) = refused(o.set_int(opt::PRECONDITIONER, number).unwrap_err());
            assert_eq!(status, RRB_ERR_ARGUMENT);
            assert!(message.ends_with(&format!("7 (amg), got {number}")), "{message}");
        }
        assert!(refused(o.set_text("preconditioner=ssor").unwrap_err()).1.contains("got 'ssor'"));
        assert!(
            refused(o.set_text("levels=3").unwrap_err()).1.contains("dpcg_ has no option levels: it belongs to rrb_")
        );
        assert!(Options::new(Family::Rrb).set_text("order=3").unwrap_err().to_string().contains("it belongs to dpcg_"));
        let precision: Precision = o.choice(opt::PRECISION);
        assert_eq!((precision, o.int(opt::ORDER), o.real(opt::RIC_OMEGA)), (Precision::F32, 2, 0.97));
    }

    /// Only `sparse_` knows the names of the thesis. Text with a shorthand is also applied completely or not at all.
    #[test]
    fn shorthands_of_the_thesis() {
        let mut o = Options::new(Family::Sparse);
        o.set_text("solver=gssor it_max=77 eps=1e-5 verb=1").unwrap();
        assert_eq!((o.choice::<Solver>(opt::SOLVER), o.int(opt::MAX_ITER)), (Solver::Sor, 77));
        assert_eq!((o.real(opt::REL_TOL), o.choice::<Reference>(opt::REFERENCE)), (1e-5, Reference::Initial));
        assert_eq!(o.int(opt::VERBOSITY), 1);
        assert!(o.set_text("solver=gs eps=2").is_err());
        assert_eq!(o.choice::<Solver>(opt::SOLVER), Solver::Sor);
        assert!(Options::new(Family::Rrb).set_text("it_max=3").is_err());
        // This preconditioner exists only for grids.
        let message = o.set_text("preconditioner=multigrid").unwrap_err().to_string();
        assert!(
            message.starts_with("preconditioner must be one of auto, none, jacobi, neumann, ic0, amg"),
            "{message}"
        );
    }

    #[test]
    fn lenient_text_applies_the_valid_entries() {
        let mut o = Options::new(Family::Rrb);
        let mut errors = Vec::new();
        let mut complain = |e: Error| {
            errors.push(e.to_string());
            Ok(())
        };
        o.set_text_leniently("max_iter=7 nonsense rel_tol=2", &mut complain).unwrap();
        assert_eq!(o.int(opt::MAX_ITER), 7);
        // `RRBSOLVER_OPTIONS` cannot set the layout of arrays, which only the program knows.
        let mut o = Options::new(Family::Dpcg);
        o.set_text_leniently("leading_plane=100 levels=3 order=4", &mut complain).unwrap();
        assert_eq!((o.int(opt::LEADING_PLANE), o.int(opt::ORDER)), (0, 4));
        assert_eq!(errors.len(), 3, "{errors:?}");
    }
}
