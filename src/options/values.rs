//! Option values of a handle, which are set by key or by text.

use super::choices::{Choice, Devices, Lumping};
use super::range::range_error;
use super::table::{Effect, Family, Kind, OPTIONS, OptionEntry, RESULTS, opt};
use crate::base::heap::FallibleArc;
use crate::error::{ERROR_MESSAGE_NAME, Error, Joined, Result, format_number, formatted};
use std::fmt;

/// Values of all options of one handle.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    family: Family,
    int_values: [i64; OPTIONS.len()],
    real_values: [f64; OPTIONS.len()],
    /// Log target; `None` means `callback`. Copies of the options share the text.
    log: Option<FallibleArc<String>>,
}

impl Options {
    /// Returns the default values.
    #[must_use]
    pub fn new(family: Family) -> Self {
        let default = |index: usize| match OPTIONS[index].kind(family) {
            Some(Kind::Int { default, .. }) => (default, 0.0),
            Some(Kind::Choice(names)) => (names[0].1, 0.0),
            Some(Kind::Real { default, .. }) => (0, default),
            Some(Kind::Text { .. }) | None => (0, 0.0),
        };
        Self {
            family,
            int_values: std::array::from_fn(|index| default(index).0),
            real_values: std::array::from_fn(|index| default(index).1),
            log: None,
        }
    }

    /// Returns the value of an integer option or the number of a choice. Keys come from [`opt`], so the lookup cannot
    /// fail.
    #[must_use]
    pub fn int(&self, key: i32) -> i64 {
        OPTIONS.iter().position(|option| option.key == key).map_or(0, |index| self.int_values[index])
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
    pub fn is_on(&self, key: i32) -> bool {
        self.int(key) != 0
    }

    /// Returns the value of a real option.
    #[must_use]
    pub fn real(&self, key: i32) -> f64 {
        OPTIONS.iter().position(|option| option.key == key).map_or(0.0, |index| self.real_values[index])
    }

    /// Returns the names of those options in `keys` whose value differs from the default.
    pub fn changed_names(&self, keys: &[i32]) -> impl Iterator<Item = &'static str> {
        let default = Self::new(self.family);
        let positions = keys.iter().filter_map(|key| OPTIONS.iter().position(|option| option.key == *key));
        let differing = positions.filter(move |&index| {
            self.int_values[index] != default.int_values[index] || self.real_values[index] != default.real_values[index]
        });
        differing.map(|index| OPTIONS[index].name)
    }

    /// Returns a hash of the values of all options except the log target and those in `excluded_keys`.
    #[must_use]
    pub fn hash_values(&self, excluded_keys: &[i32]) -> u64 {
        // FNV-1a hash (Fowler, Noll, Vo) over 64-bit words.
        let add_word = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        let hashed = (0..OPTIONS.len()).filter(|&index| !excluded_keys.contains(&OPTIONS[index].key));
        let words = hashed.flat_map(|index| [self.int_values[index] as u64, self.real_values[index].to_bits()]);
        let hash = words.fold(0xcbf2_9ce4_8422_2325, add_word);
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
    fn family_options(&self) -> impl Iterator<Item = (usize, &'static OptionEntry)> {
        let family = self.family;
        OPTIONS.iter().enumerate().filter(move |(_, option)| option.kind(family).is_some())
    }

    /// Returns the index of a key, its table entry and its allowed values.
    fn lookup(&self, key: i32) -> Result<(usize, &'static OptionEntry, Kind)> {
        let Some((index, option)) = OPTIONS.iter().enumerate().find(|(_, option)| option.key == key) else {
            let nearest = self.family_options().map(|(_, option)| option).min_by_key(|option| option.key.abs_diff(key));
            let (constant, nearest) = nearest.map_or(("", 0), |option| (option.constant, option.key));
            return Err(option_error(format_args!(
                "unknown option key {key}; did you mean RRB_OPT_{constant} = {nearest}?"
            )));
        };
        let kind = option
            .kind(self.family)
            .ok_or_else(|| self.family.error_of_foreign_key("option", option.name, option.key, option.families()))?;
        Ok((index, option, kind))
    }

    /// Returns whether all options that do not take effect immediately have the same values in `other`.
    #[must_use]
    pub fn same_setup(&self, other: &Self) -> bool {
        let at_factorize = |index: usize| OPTIONS[index].effect != Effect::Now;
        (0..OPTIONS.len()).filter(|&index| at_factorize(index)).all(|index| {
            self.int_values[index] == other.int_values[index] && self.real_values[index] == other.real_values[index]
        })
    }

    /// Sets an integer option, a choice by its number, or a real option to an integer value.
    pub fn set_int(&mut self, key: i32, value: i64) -> Result<()> {
        let (index, option, kind) = self.lookup(key)?;
        let is_allowed = match kind {
            Kind::Int { min, max, multiple, .. } => (min..=max).contains(&value) && value % multiple == 0,
            Kind::Choice(names) => names.iter().any(|&(_, number)| number == value),
            Kind::Real { .. } => return self.set_real(key, value as f64),
            Kind::Text { .. } => {
                return Err(option_error(format_args!("{} is a text option: use set_options", option.name)));
            }
        };
        if !is_allowed {
            return Err(range_error(option, kind, value));
        }
        self.int_values[index] = value;
        Ok(())
    }

    /// Sets a real option.
    pub fn set_real(&mut self, key: i32, value: f64) -> Result<()> {
        let (index, option, kind) = self.lookup(key)?;
        let Kind::Real { min, max, excludes_bounds, .. } = kind else {
            return Err(option_error(format_args!("{} is not a real option: use set_int or set_options", option.name)));
        };
        let is_in_range = if excludes_bounds { value > min && value < max } else { value >= min && value <= max };
        if !is_zero_or_normal(value) || !is_in_range {
            return Err(real_range_error(option, kind, format_number(value), !is_zero_or_normal(value)));
        }
        self.real_values[index] = value;
        Ok(())
    }

    /// Returns the index of the option `key`, its table entry and its allowed values. If the key belongs to a result of
    /// another family, or is closer to the key of a result than to that of any option, the error message names that
    /// result.
    fn lookup_for_reading(&self, key: i32) -> Result<(usize, &'static OptionEntry, Kind)> {
        self.lookup(key).map_err(|error| {
            if OPTIONS.iter().any(|option| option.key == key) {
                return error;
            }
            if let Some(result) = RESULTS.iter().find(|result| result.key == key) {
                return self.family.error_of_foreign_key(
                    "result",
                    result.name,
                    result.key,
                    result.families.iter().copied(),
                );
            }
            let option_distance = self.family_options().map(|(_, option)| option.key.abs_diff(key)).min();
            let family_results = RESULTS.iter().filter(|result| result.families.contains(&self.family));
            match family_results.min_by_key(|result| result.key.abs_diff(key)) {
                Some(result) if Some(result.key.abs_diff(key)) < option_distance => option_error(format_args!(
                    "unknown key {key}; did you mean RRB_INFO_{} = {}?",
                    result.constant, result.key
                )),
                _ => error,
            }
        })
    }

    /// Returns the value of an integer option or the number of a choice, by key.
    pub fn get_int(&self, key: i32) -> Result<i64> {
        let (index, option, kind) = self.lookup_for_reading(key)?;
        match kind {
            Kind::Int { .. } | Kind::Choice(_) => Ok(self.int_values[index]),
            Kind::Real { .. } => Err(option_error(format_args!("{} is real: use get_real", option.name))),
            Kind::Text { .. } => Err(option_error(format_args!("{} is text and cannot be read back", option.name))),
        }
    }

    /// Returns the value of a real option by key; integer values are converted.
    pub fn get_real(&self, key: i32) -> Result<f64> {
        match self.lookup_for_reading(key)? {
            (index, _, Kind::Real { .. }) => Ok(self.real_values[index]),
            _ => self.get_int(key).map(|v| v as f64),
        }
    }

    /// Applies text such as `levels=12 rel_tol=1e-8 backend=cpu`. If one entry is wrong, no option changes.
    pub fn set_text(&mut self, text: &str) -> Result<()> {
        let mut new_options = self.clone();
        for entry in split_entries(text) {
            new_options.set_entry(entry)?;
        }
        *self = new_options;
        Ok(())
    }

    /// Applies the valid entries of `text`, the content of the environment variable `RRBSOLVER_OPTIONS`. Ignores
    /// options that only other families have. Calls `report_error` with an error for each wrong entry, and for options
    /// that only the program may set. If `report_error` returns an error, this function returns it.
    pub fn set_text_leniently(&mut self, text: &str, mut report_error: impl FnMut(Error) -> Result<()>) -> Result<()> {
        for entry in split_entries(text) {
            let name = entry.split('=').next().unwrap_or("");
            if OPTIONS.iter().any(|option| option.name == name && option.kind(self.family).is_none()) {
                continue;
            }
            if ["leading_dimension", "leading_plane", "memory"].contains(&name) {
                let reason = "describes the arrays of the program: only the program can set it";
                report_error(option_error(format_args!("{name} {reason}")))?;
            } else if let Err(error) = self.set_entry(entry) {
                report_error(error)?;
            }
        }
        Ok(())
    }

    fn set_entry(&mut self, entry: &str) -> Result<()> {
        let Some((name, value)) = entry.split_once('=') else {
            return Err(option_error(format_args!("'{entry}' is not of the form name=value")));
        };
        let (name, value) = if self.family == Family::Sparse { solver_shorthand(name, value) } else { (name, value) };
        if name == "eps" && self.family == Family::Sparse {
            self.set_by_name("rel_tol", value)?;
            return self.set_by_name("reference", "initial");
        }
        self.set_by_name(name, value)
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Result<()> {
        let Some((index, option)) = OPTIONS.iter().enumerate().find(|(_, option)| option.name == name) else {
            let nearest = nearest_name(name, self.family_options().map(|(_, option)| option.name));
            return Err(option_error(format_args!("unknown option '{name}'; did you mean '{nearest}'?")));
        };
        let kind = self.lookup(option.key)?.2;
        match kind {
            Kind::Int { .. } => match value.parse::<i64>() {
                Ok(v) => self.set_int(option.key, v),
                Err(_) => Err(range_error(option, kind, format_args!("'{value}'"))),
            },
            Kind::Real { .. } => match value.parse::<f64>() {
                // The error message contains the caller's text, because the parsed value of 1e-400 is 0.
                Ok(v) if underflows(value, v) => Err(real_range_error(option, kind, value, true)),
                Ok(v) => self
                    .set_real(option.key, v)
                    .map_err(|_| real_range_error(option, kind, value, !is_zero_or_normal(v))),
                Err(_) => Err(range_error(option, kind, format_args!("'{value}'"))),
            },
            Kind::Choice(names) => self.set_choice(index, names, value),
            Kind::Text { .. } if option.key == opt::DEVICES => {
                self.int_values[index] = Devices::parse(value)
                    .ok_or_else(|| {
                        let max_count = Devices::MAX_COUNT;
                        option_error(format_args!(
                            "{name} must be none, or up to {max_count} different CUDA ordinals below 255, as 0+1, \
                             got '{value}'"
                        ))
                    })?
                    .number();
                Ok(())
            }
            Kind::Text { .. } => {
                if value.is_empty() {
                    return Err(option_error(format_args!("{name} must be callback, stderr or a path, got nothing")));
                }
                let shared_path = |value| FallibleArc::new(formatted(value, LOG_TARGET_NAME)?, LOG_TARGET_NAME);
                self.log = if value == "callback" { None } else { Some(shared_path(value)?) };
                Ok(())
            }
        }
    }

    fn set_choice(&mut self, index: usize, names: &[(&str, i64)], value: &str) -> Result<()> {
        let OptionEntry { key, name, .. } = OPTIONS[index];
        if key == opt::LUMPING
            && let Some((lumping, omega)) = lumping_shorthand(value)
        {
            self.int_values[index] = lumping.number();
            return self.set_real(opt::RELAXATION, omega);
        }
        let Some(&(_, number)) = names.iter().find(|&&(n, _)| n == value) else {
            let nearest = nearest_name(value, names.iter().map(|&(n, _)| n));
            let names_text = Joined(", ", names.iter().map(|&(n, _)| n));
            return Err(option_error(format_args!(
                "{name} must be one of {names_text}, got '{value}'; did you mean '{nearest}'?"
            )));
        };
        self.int_values[index] = number;
        Ok(())
    }
}

const LOG_TARGET_NAME: &str = "the option log";

/// Returns the lumping and the relaxation parameter of one of Ciarlet's variants m1u, m1m, m2u and m2m (report 16-06,
/// table 1).
fn lumping_shorthand(value: &str) -> Option<(Lumping, f64)> {
    match value {
        "m1u" => Some((Lumping::M1, 0.0)),
        "m1m" => Some((Lumping::M1, 1.0)),
        "m2u" => Some((Lumping::M2, 0.0)),
        "m2m" => Some((Lumping::M2, 1.0)),
        _ => None,
    }
}

/// Translates option names and values of the programs of the 2008 thesis. The option eps of these programs is a
/// tolerance relative to the initial residual; `set_entry` translates it.
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

fn split_entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|e| !e.is_empty())
}

/// Creates the error for a wrong key, name or choice.
fn option_error(message: fmt::Arguments) -> Error {
    formatted(message, ERROR_MESSAGE_NAME).map_or_else(|error| error, Error::Option)
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
/// normal (`is_unusual`), the message asks whether it has double precision.
fn real_range_error(option: &OptionEntry, kind: Kind, text: impl fmt::Display, is_unusual: bool) -> Error {
    let question = if is_unusual { ": is it double precision?" } else { "" };
    range_error(option, kind, format_args!("{text}{question}"))
}

/// Returns the name with the smallest edit distance.
fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|n| edit_distance(word, n)).unwrap_or("")
}

/// Number of characters that [`edit_distance`] compares. No name is longer.
const MAX_COMPARED_CHARS: usize = 40;

/// Returns the edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string
/// alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    // Row i contains the distances of the first i characters of a. Only three rows are stored.
    let mut rows = [[0; MAX_COMPARED_CHARS + 1]; 3];
    rows[0] = std::array::from_fn(|j| j);
    let mut previous_a = None;
    for (i, char_a) in a.chars().take(MAX_COMPARED_CHARS).enumerate() {
        let [previous_row, second_previous_row] = [rows[0], rows[1]];
        let mut row = [i + 1; MAX_COMPARED_CHARS + 1];
        let mut previous_b = None;
        for (j, char_b) in b.chars().take(MAX_COMPARED_CHARS).enumerate() {
            let substitution_cost = previous_row[j] + usize::from(char_a != char_b);
            row[j + 1] = substitution_cost.min(previous_row[j + 1] + 1).min(row[j] + 1);
            if previous_a == Some(char_b) && previous_b == Some(char_a) {
                row[j + 1] = row[j + 1].min(second_previous_row[j - 1] + 1);
            }
            previous_b = Some(char_b);
        }
        rows = [row, previous_row, second_previous_row];
        previous_a = Some(char_a);
    }
    rows[0][b.chars().take(MAX_COMPARED_CHARS).count()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RRB_ERR_ARGUMENT;
    use crate::options::{Precision, Reference, Solver};

    #[test]
    fn keys_and_names_are_unique() {
        for (p, options) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..p].iter().all(|q| q.key != options.key && q.name != options.name), "{}", options.name);
            assert!(RESULTS.iter().all(|r| r.key != options.key), "{}", options.name);
        }
        for (p, r) in RESULTS.iter().enumerate() {
            assert!(RESULTS[..p].iter().all(|q| q.key != r.key && q.name != r.name), "{}", r.name);
        }
    }

    #[test]
    fn set_text_changes_all_or_nothing() {
        let mut options = Options::new(Family::Rrb);
        let defaults = options.clone();
        let error = options.set_text("rel_tol=1e-8 levls=12").unwrap_err();
        assert_eq!(error.to_string(), "unknown option 'levls'; did you mean 'levels'?");
        assert_eq!(options, defaults);
        options.set_text("rel_tol=1e-8, check_input=0").unwrap();
        assert!(options.same_setup(&defaults));
        options.set_text("lumping=m2u").unwrap();
        assert!(!options.same_setup(&defaults));
        assert_eq!(options.real(opt::REL_TOL), 1e-8);
        assert_eq!((options.int(opt::LUMPING), options.real(opt::RELAXATION)), (1, 0.0));
    }

    #[test]
    fn errors_state_the_allowed_range() {
        let mut options = Options::new(Family::Rrb);
        let message = |e: Error| e.to_string();
        assert_eq!(message(options.set_real(opt::REL_TOL, -1.0).unwrap_err()), "rel_tol must lie in (0, 1), got -1");
        assert_eq!(
            message(options.set_real(opt::REL_TOL, -1e-9).unwrap_err()),
            "rel_tol must lie in (0, 1), got -1e-9"
        );
        assert!(options.set_real(opt::REL_TOL, f64::NAN).is_err());
        assert_eq!(
            message(options.set_int(opt::COMPUTE_BLOCK, 12).unwrap_err()),
            "compute_block must be a multiple of 8 in [8, 4096], got 12"
        );
        assert_eq!(
            message(options.set_int(opt::CYCLE, 9).unwrap_err()),
            "cycle must be one of 0 (auto), 1 (v), 2 (amli), 3 (k), 4 (aggregation), got 9"
        );
        assert_eq!(
            message(options.set_text("backend=cdua").unwrap_err()),
            "backend must be one of auto, cpu, cuda, reference, got 'cdua'; did you mean 'cuda'?"
        );
        assert_eq!(
            message(options.set_int(201_000, 1).unwrap_err()),
            "unknown option key 201000; did you mean RRB_OPT_DEVICES = 220?"
        );
    }

    #[test]
    fn subnormal_and_overflowing_values_are_rejected() {
        let mut options = Options::new(Family::Rrb);
        let mut messages = Vec::new();
        for text in ["rel_tol=1e-400", "rel_tol=1e400", "abs_tol=0.001e-400", "abs_tol=1e400", "abs_tol=2e-310"] {
            messages.push(options.set_text(text).unwrap_err().to_string());
        }
        // The double whose lower 32 bits are those of 1e-6 in single precision, and whose upper 32 bits are zero.
        let single_bits = f64::from_bits(u64::from(1e-6f32.to_bits()));
        for value in [single_bits, f64::NAN] {
            messages.push(options.set_real(opt::REL_TOL, value).unwrap_err().to_string());
        }
        messages.push(options.set_real(opt::ABS_TOL, f64::INFINITY).unwrap_err().to_string());
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
        options.set_text("abs_tol=0 abs_tol=0.0e-400 abs_tol=0e400 abs_tol=2.3e-308").unwrap();
        let mut smoother = Options::new(Family::Smoother);
        assert!(smoother.set_real(opt::OMEGA, single_bits).is_err() && smoother.set_text("omega=1e-400").is_err());
        smoother.set_real(opt::OMEGA, 0.0).unwrap();
    }

    /// Several families have the same option, each with its own choices. A choice that only another family has is an
    /// error.
    #[test]
    fn each_family_has_its_own_choices() {
        let mut options = Options::new(Family::Dpcg);
        options.set_text("precision=f32 preconditioner=multigrid fusion=off").unwrap();
        let status_and_message = |e: Error| (e.status(), e.to_string());
        assert_eq!(
            status_and_message(options.set_int(opt::PRECISION, 3).unwrap_err()),
            (RRB_ERR_ARGUMENT, "precision must be one of 0 (auto), 1 (f64), 2 (f32), got 3".to_owned())
        );
        for family in [Family::Rrb, Family::Dpcg] {
            let (status, message) = status_and_message(Options::new(family).set_int(opt::PRECISION, 5).unwrap_err());
            assert_eq!(status, RRB_ERR_ARGUMENT);
            assert!(message.starts_with("precision must be one of 0 (auto), 1 (f64), 2 (f32)"), "{message}");
        }
        let message = Options::new(Family::Smoother).set_text("precision=single").unwrap_err().to_string();
        assert!(message.contains("smoother_ has no option precision"), "{message}");
        Options::new(Family::Sparse).set_text("precision=single").unwrap();
        for number in 8..=10 {
            let (status, message) = status_and_message(options.set_int(opt::PRECONDITIONER, number).unwrap_err());
            assert_eq!(status, RRB_ERR_ARGUMENT);
            assert!(message.ends_with(&format!("7 (amg), got {number}")), "{message}");
        }
        assert!(status_and_message(options.set_text("preconditioner=ssor").unwrap_err()).1.contains("got 'ssor'"));
        assert!(
            status_and_message(options.set_text("levels=3").unwrap_err())
                .1
                .contains("dpcg_ has no option levels: it belongs to rrb_")
        );
        assert!(Options::new(Family::Rrb).set_text("order=3").unwrap_err().to_string().contains("it belongs to dpcg_"));
        let precision: Precision = options.choice(opt::PRECISION);
        assert_eq!((precision, options.int(opt::ORDER), options.real(opt::RIC_OMEGA)), (Precision::F32, 2, 0.97));
    }

    /// Only `sparse_` knows the names of the thesis. Text with a shorthand is also applied completely or not at all.
    #[test]
    fn sparse_accepts_names_of_the_thesis() {
        let mut options = Options::new(Family::Sparse);
        options.set_text("solver=gssor it_max=77 eps=1e-5 verb=1").unwrap();
        assert_eq!((options.choice::<Solver>(opt::SOLVER), options.int(opt::MAX_ITER)), (Solver::Sor, 77));
        assert_eq!(
            (options.real(opt::REL_TOL), options.choice::<Reference>(opt::REFERENCE)),
            (1e-5, Reference::Initial)
        );
        assert_eq!(options.int(opt::VERBOSITY), 1);
        assert!(options.set_text("solver=gs eps=2").is_err());
        assert_eq!(options.choice::<Solver>(opt::SOLVER), Solver::Sor);
        assert!(Options::new(Family::Rrb).set_text("it_max=3").is_err());
        // This preconditioner exists only for grids.
        let message = options.set_text("preconditioner=multigrid").unwrap_err().to_string();
        assert!(
            message.starts_with("preconditioner must be one of auto, none, jacobi, neumann, ic0, amg"),
            "{message}"
        );
    }

    #[test]
    fn set_text_leniently_applies_valid_entries() {
        let mut options = Options::new(Family::Rrb);
        let mut errors = Vec::new();
        let mut report_error = |e: Error| {
            errors.push(e.to_string());
            Ok(())
        };
        options.set_text_leniently("max_iter=7 nonsense rel_tol=2", &mut report_error).unwrap();
        assert_eq!(options.int(opt::MAX_ITER), 7);
        // `RRBSOLVER_OPTIONS` cannot set the layout of arrays, which only the program knows.
        let mut options = Options::new(Family::Dpcg);
        options.set_text_leniently("leading_plane=100 levels=3 order=4", &mut report_error).unwrap();
        assert_eq!((options.int(opt::LEADING_PLANE), options.int(opt::ORDER)), (0, 4));
        assert_eq!(errors.len(), 3, "{errors:?}");
    }
}
