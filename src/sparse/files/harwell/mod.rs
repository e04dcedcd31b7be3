//! Harwell-Boeing and Rutherford-Boeing: cards (lines) of fixed columns.

mod data;
mod header;
mod supplement;

use super::lines::{Lines, words};
use super::loaded::Loaded;
use super::number::Counts;
use crate::error::Result;
use crate::runtime::workers::Workers;
use crate::sparse::index::is_narrow;

use data::Data;
use header::Header;

/// The matrix of a text; none: it is neither.
pub fn parse(text: &[u8], workers: &mut Workers) -> Option<Result<Loaded>> {
    let second = Lines::new(text).nth(1)?;
    if (4..=5).contains(&words(second).count()) && Counts::of(second).is_some() {
        return Some(matrix(text, workers));
    }
    supplement::is_one(text).then(|| supplement::parse(text, workers))
}

/// A matrix, whose second card is one of counts.
fn matrix(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    let header = Header::read(&mut lines)?;
    header.check(lines.left())?;
    let (rows, cols) = (header.rows, header.cols);
    let data = Data::new(header, lines, workers);
    if is_narrow(rows, cols) { data.matrix::<u32>() } else { data.matrix::<u64>() }
}
