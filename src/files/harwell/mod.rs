//! Harwell-Boeing and Rutherford-Boeing files: cards (lines) with fixed columns.

mod data;
mod header;
mod supplement;

use super::lines::{Lines, words};
use super::loaded::Loaded;
use super::number::Counts;
use crate::base::index::fits_u32;
use crate::base::workers::Workers;
use crate::error::Result;

use data::Data;
use header::Header;

/// Parses a file; returns `None` if it has neither format.
pub fn parse(text: &[u8], workers: &mut Workers) -> Option<Result<Loaded>> {
    let counts_card = Lines::new(text).nth(1)?;
    if (4..=5).contains(&words(counts_card).count()) && Counts::of(counts_card).is_some() {
        return Some(parse_matrix(text, workers));
    }
    supplement::is_supplement(text).then(|| supplement::parse(text, workers))
}

/// Parses a matrix file, whose second card consists of counts.
fn parse_matrix(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    let header = Header::from_lines(&mut lines)?;
    header.check(lines.remaining_bytes())?;
    let (rows, cols) = (header.rows, header.cols);
    let data = Data::new(header, lines, workers);
    if fits_u32(rows, cols) { data.read_matrix::<u32>() } else { data.read_matrix::<u64>() }
}
