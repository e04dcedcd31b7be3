//! Right-hand sides in a separate Rutherford-Boeing file, read as a matrix with one column per right-hand side (Duff,
//! Grimes, Lewis: The Rutherford-Boeing sparse matrix collection, 1997).
//!
//! - Card 1: title and key.
//! - Card 2, in columns (A3, 2A1, 1X, A8): kind of data, side, storage scheme, name. Then a letter for real or integer,
//!   and the numbers of rows, columns and entries.
//! - Card 3 (3A20): formats of pointers, rows and values, or of values only.

use super::data::Data;
use super::header::{Header, columns};
use crate::base::index::is_narrow;
use crate::base::workers::Workers;
use crate::error::{RRB_ERR_UNSUPPORTED, Result};
use crate::files::fault::{COMPLEX, at, error_with_status};
use crate::files::lines::{Lines, shown};
use crate::files::loaded::Loaded;
use crate::files::mirror::Symmetry;
use crate::files::number::Counts;
use std::fmt::Display;

/// Kinds of supplementary data; only right-hand sides (rhs) are read.
const TYPES: [&[u8; 3]; 16] = [
    b"rhs", b"sln", b"est", b"evl", b"svl", b"lvl", b"evc", b"svc", b"sbv", b"sbm", b"sbp", b"avl", b"geo", b"ord",
    b"ipt", b"icv",
];

/// Returns whether card 2 begins with a kind of supplementary data, and card 3 with a format.
pub fn is_supplement(text: &[u8]) -> bool {
    let mut lines = Lines::new(text).skip(1);
    let mut next = || lines.next().unwrap_or_default();
    let (second, third) = (next(), next());
    TYPES.iter().any(|kind| columns(second, 0..3).eq_ignore_ascii_case(*kind)) && third.trim_ascii().starts_with(b"(")
}

/// Parses a file of right-hand sides.
pub fn parse(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    lines.next();
    let second = lines.next().unwrap_or_default();
    let third = lines.next().unwrap_or_default();
    let dense = is_dense(second)?;
    let all = Counts::of(columns(second, 14..second.len()).trim_ascii().get(1..).unwrap_or_default());
    let (rows, cols, entries) = match all.unwrap_or_default().all() {
        &[rows, cols, entries] => (rows, cols, entries),
        _ => return Err(at(2, "must have rows, columns and entries behind its letters")),
    };
    if dense && entries as u128 != rows as u128 * cols as u128 {
        return Err(at(2, format_args!("{entries} values are announced, {cols} vectors of {rows} have others")));
    }
    let [first, second, third] = [0..20, 20..40, 40..60].map(|range| columns(third, range).trim_ascii());
    let formats = if dense { [&[][..], &[], first, &[]] } else { [first, second, third, &[]] };
    let symmetry = Symmetry::General;
    let header = Header { cards: None, size_card: 2, values: true, symmetry, rows, cols, entries, formats, rhs: None };
    header.check(lines.left())?;
    let data = Data::new(header, lines, workers);
    match (dense, is_narrow(rows, cols)) {
        (true, true) => data.dense::<u32>(),
        (true, false) => data.dense::<u64>(),
        (false, true) => data.matrix::<u32>(),
        (false, false) => data.matrix::<u64>(),
    }
}

/// Returns whether the right-hand sides are dense. Fails for unsupported data.
fn is_dense(card: &[u8]) -> Result<bool> {
    let refused = |reason: &dyn Display| Err(error_with_status(RRB_ERR_UNSUPPORTED, 2, reason));
    let kind = columns(card, 0..3);
    if !kind.eq_ignore_ascii_case(b"rhs") {
        return refused(&format_args!("of supplementary data right-hand sides (rhs) are read, got {}", shown(kind)));
    }
    let lower = |at: usize| card.get(at).map_or(b' ', u8::to_ascii_lowercase);
    match lower(3) {
        b'r' | b's' | b' ' => {}
        b'l' => return refused(&"right-hand sides of A' (rhsl) are not offered"),
        c => return Err(at(2, format_args!("the side must be r, l or s, got {}", shown(&[c])))),
    }
    match columns(card, 14..card.len()).trim_ascii().first().map_or(b' ', u8::to_ascii_lowercase) {
        b'r' | b'i' => {}
        b'c' => return refused(&COMPLEX),
        c => return Err(at(2, format_args!("the letter before the counts must be r or i, got {}", shown(&[c])))),
    }
    match lower(4) {
        b'd' => Ok(true),
        b's' => Ok(false),
        b'e' => refused(&"elemental right-hand sides are not offered; assemble first"),
        c => Err(at(2, format_args!("the storage must be d (dense) or s (sparse), got {}", shown(&[c])))),
    }
}
