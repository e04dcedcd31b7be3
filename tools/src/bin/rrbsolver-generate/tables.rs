//! Generates tables within pages of the documentation.

use anyhow::{Context as _, Result, anyhow};
use std::fmt::Write as _;

use rrbsolver::error::STATUSES;
use rrbsolver::options::{AllowedRange, AutoRule, Effect, Family, Kind, OPTIONS, OptionEntry, RESULTS, auto_rules};

use crate::docs::{Block, blocks_text};
use crate::wrap;

/// A table of the documentation; its marker contains the name. Tables without a family hold the options or results of
/// most families.
#[derive(Clone, Copy, PartialEq)]
pub enum Table {
    Statuses,
    Options(Option<Family>),
    Results(Option<Family>),
    Auto(Option<Family>),
}

impl Table {
    pub const OPTIONS: [Self; 5] = [
        Self::Options(None),
        Self::Options(Some(Family::Rrb)),
        Self::Options(Some(Family::Dpcg)),
        Self::Options(Some(Family::Smoother)),
        Self::Options(Some(Family::Sparse)),
    ];
    pub const RESULTS: [Self; 5] = [
        Self::Results(None),
        Self::Results(Some(Family::Rrb)),
        Self::Results(Some(Family::Dpcg)),
        Self::Results(Some(Family::Smoother)),
        Self::Results(Some(Family::Sparse)),
    ];

    pub const AUTO: [Self; 5] = [
        Self::Auto(None),
        Self::Auto(Some(Family::Rrb)),
        Self::Auto(Some(Family::Dpcg)),
        Self::Auto(Some(Family::Smoother)),
        Self::Auto(Some(Family::Sparse)),
    ];

    fn all() -> impl Iterator<Item = Self> {
        Self::OPTIONS.into_iter().chain(Self::RESULTS).chain(Self::AUTO).chain([Self::Statuses])
    }

    fn name(self) -> String {
        let family = |f: Option<Family>| f.map_or("common", |f| f.prefix().trim_end_matches('_'));
        match self {
            Self::Statuses => "statuses".to_owned(),
            Self::Options(f) => format!("options {}", family(f)),
            Self::Results(f) => format!("results {}", family(f)),
            Self::Auto(f) => format!("auto {}", family(f)),
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
                for o in OPTIONS.iter().filter(|o| Family::of_key(o.key) == family) {
                    text += &option_row(o, family);
                }
            }
            Self::Auto(family) => {
                for rule in auto_rules().iter().filter(|rule| rule.family == family) {
                    text += &auto_rule(rule);
                }
            }
            Self::Results(family) => {
                text += "| result | key | type | meaning |\n|---|---|---|---|\n";
                for r in RESULTS.iter().filter(|r| Family::of_key(r.key) == family) {
                    let kind = match (r.is_real, r.choices) {
                        (true, _) => "real".to_owned(),
                        (false, []) => "integer".to_owned(),
                        (false, names) => choices(names),
                    };
                    let _ = writeln!(text, "| `{}` | {} | {kind} | {} |", r.name, r.key, cell(&r.description()));
                }
            }
        }
        text
    }
}

/// Returns the name of the option of a rule.
fn option_name(rule: &AutoRule) -> &'static str {
    OPTIONS.iter().find(|option| option.key == rule.key).map_or("", |option| option.name)
}

/// Formats a heading, a table and notes.
fn auto_rule(rule: &AutoRule) -> String {
    let mut text = format!("\n### `{}`\n\n| selected | if |\n|---|---|\n", option_name(rule));
    for (choice, when) in &rule.choices {
        let _ = writeln!(text, "| {choice} | {} |", cell(when));
    }
    if !rule.notes.is_empty() {
        let notes: Vec<Block> = rule.notes.iter().map(|note| Block::Item(0, note.clone())).collect();
        let _ = write!(text, "\n{}", blocks_text(&notes, 120));
    }
    text
}

/// Formats all rules as a comment of the header.
pub fn auto_comment() -> String {
    let mut text =
        "/* Rules of auto. For each option, the first condition that holds determines the choice. The notes are in\n \
         * docs/reference/auto.md.\n"
            .to_owned();
    for rule in auto_rules() {
        let family = rule.family.map_or("all families", Family::prefix);
        let _ = writeln!(text, " *\n * {} ({family}):", option_name(&rule));
        for (choice, when) in &rule.choices {
            let word = if ["always", "otherwise"].contains(&when.as_str()) { " " } else { " if " };
            let line = format!("{choice}{word}{}", when.replace('`', ""));
            let _ = writeln!(text, " *   {}", wrap(&line, 112).join("\n *     "));
        }
    }
    text + " */\n"
}

/// Formats an option. Other ranges follow that of the first families.
fn option_row(o: &OptionEntry, family: Option<Family>) -> String {
    let mut ranges = Vec::new();
    for (p, (families, kind)) in o.kinds_by_family.iter().enumerate() {
        let range = match kind {
            Kind::Choice(names) => choices(names),
            kind => AllowedRange(kind).to_string(),
        };
        let whose: Vec<_> = families.iter().filter(|_| p > 0).map(|f| f.prefix()).collect();
        ranges.push(if p == 0 { range } else { format!("{}: {range}", whose.join(", ")) });
    }
    let first = &o.kinds_by_family[0].1;
    let key = if matches!(first, Kind::Text { .. }) { format!("{}, text only", o.key) } else { o.key.to_string() };
    let acts = match o.effect {
        Effect::Factorize if family == Some(Family::Smoother) => "at set_patches",
        Effect::Factorize => "at factorize",
        Effect::Product => "at factorize and the next product",
        Effect::Now => "at once",
    };
    let (default, range, doc) = (default(first), cell(&ranges.join("; ")), cell(&o.description()));
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

/// Escapes a table cell: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const END: &str = "<!-- /generated -->";

/// Returns `page` with every marked table replaced.
pub fn fill_page(name: &str, page: &str, required: &[Table]) -> Result<String> {
    let mut text = String::new();
    let mut rest = page;
    let mut found = Vec::new();
    while let Some(start) = rest.find("<!-- generated: ") {
        let (before, marked) = rest.split_at(start);
        let (marker, after) =
            marked.split_once("-->").with_context(|| format!("{name}: a marker is not closed by -->"))?;
        let title = marker.trim_start_matches("<!-- generated: ").trim();
        let table = Table::all()
            .find(|t| t.name() == title)
            .with_context(|| format!("{name}: there is no table '{title}'; there are: {}", list()))?;
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

fn list() -> String {
    Table::all().map(Table::name).collect::<Vec<_>>().join(", ")
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
}
