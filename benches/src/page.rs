//! Tables of a documentation page. Markers in the page contain the command that creates each table:
//!
//! ```text
//!     <!-- measured: NAME: solve poisson_f -n 1023 -->
//!     ...the table, replaced...
//!     <!-- /measured -->
//! ```

use crate::commands::{PROGRAM, execute_line};
use crate::record::Record;
use anyhow::{Context as _, Result};
use std::path::Path;

const BEGIN: &str = "<!-- measured: ";
const END: &str = "<!-- /measured -->";

/// Source of the tables.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// Folder of the records, NAME.json.
    pub records: &'a Path,
    /// Repeat the measurements whose names contain this text; none uses the existing records.
    pub measure: Option<&'a str>,
}

/// Returns the page with new tables, and error messages. After an error, the old table is kept.
pub fn fill(page: &str, source: &Source) -> (String, Vec<String>) {
    let mut filled = String::new();
    let mut errors = Vec::new();
    let mut rest = page;
    while let Some(begin) = rest.find(BEGIN) {
        let after = &rest[begin + BEGIN.len()..];
        let (Some(close), Some(end)) = (after.find(" -->"), after.find(END)) else {
            errors.push(format!("{BEGIN} without its end"));
            break;
        };
        let mark = &after[..close];
        filled += &rest[..begin + BEGIN.len() + close + " -->".len()];
        match mark
            .split_once(": ")
            .with_context(|| format!("{mark} is not of the form NAME: COMMAND"))
            .and_then(|(name, line)| table(name, line, source).with_context(|| name.to_owned()))
        {
            Ok(Some(text)) => filled += &format!("\n{text}"),
            Ok(None) => filled += &after[close + " -->".len()..end],
            Err(complaint) => {
                errors.push(format!("{complaint:#}"));
                filled += &after[close + " -->".len()..end];
            }
        }
        filled += END;
        rest = &after[end + END.len()..];
    }
    filled += rest;
    (filled, errors)
}

/// Returns the table; none if there is no record and no measurement was requested.
fn table(name: &str, line: &str, source: &Source) -> Result<Option<String>> {
    let path = source.records.join(format!("{name}.json"));
    let record = if source.measure.is_some_and(|part| name.contains(part)) {
        eprintln!("{PROGRAM} {line}");
        let record = execute_line(line)?;
        record.write(&path)?;
        record
    } else if path.exists() {
        Record::read(&path)?
    } else {
        return Ok(None);
    };
    let command = format!("    {PROGRAM} {line}\n\n");
    Ok(Some(format!("{command}{}", record.text())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_replaced_and_failures_keep_the_old_one() {
        let folder = std::env::temp_dir().join(format!("rrbsolver-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let page = "a\n<!-- measured: small: solve poisson_f -n 15 -r 1 --no-stream -->\nold\n<!-- /measured -->\nb\n\
                    <!-- measured: wrong: solve nothing -n 15 -->\nkept\n<!-- /measured -->\nc\n";
        let (filled, errors) = fill(page, &Source { records: &folder, measure: Some("") });
        assert!(filled.contains("| solver") && !filled.contains("old") && filled.contains("kept"), "{filled}");
        assert!(filled.starts_with("a\n") && filled.contains("\nb\n") && filled.ends_with("\nc\n"));
        assert_eq!(errors.len(), 1);
        // From the record, without measuring.
        let (again, errors) = fill(&filled, &Source { records: &folder, measure: None });
        assert_eq!((again, errors.len()), (filled, 0));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
