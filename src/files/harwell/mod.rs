//! Harwell-Boeing and Rutherford-Boeing files: cards (lines) with fixed columns.

mod data;
mod header;
mod supplement;

use super::lines::{Lines, words};
use super::loaded::Loaded;
use super::number::Counts;
use crate::base::index::is_narrow;
use crate::base::workers::Workers;
use crate::error::Result;

use data::Data;
use header::Header;

/// Parses a file; returns `None` if it has neither format.
pub fn parse(text: &[u8], workers: &mut Workers) -> Option<Result<Loaded>> {
    let second = Lines::new(text).nth(1)?;
    if (4..=5).contains(&words(second).count()) && Counts::of(second).is_some() {
        return Some(matrix(text, workers));
    }
    supplement::is_supplement(text).then(|| supplement::parse(text, workers))
}

/// Parses a matrix file, whose second card consists of counts.
fn matrix(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    let header = Header::read(&mut lines)?;
    header.check(lines.left())?;
    let (rows, cols) = (header.rows, header.cols);
    let data = Data::new(header, lines, workers);
    if is_narrow(rows, cols) { data.matrix::<u32>() } else { data.matrix::<u64>() }
}
