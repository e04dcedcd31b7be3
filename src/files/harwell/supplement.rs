//! Right-hand sides in a separate Rutherford-Boeing file, read as a matrix with one column per right-hand side (Duff,
//! Grimes, Lewis: The Rutherford-Boeing sparse matrix collection, 1997).
//!
//! - Card 1: title and key.
//! - Card 2, in columns (A3, 2A1, 1X, A8): kind of data, side (l: right-hand sides of a system with A'), storage
//!   scheme, name. Then a letter for real or integer, and the numbers of rows, columns and entries.
//! - Card 3 (3A20): formats of pointers, rows and values, or of values only.

use super::data::Data;
use super::header::{Header, card_columns};
use crate::base::index::fits_u32;
use crate::base::workers::Workers;
use crate::error::{RRB_ERR_UNSUPPORTED, Result};
use crate::files::fault::{COMPLEX_MESSAGE, line_error, line_error_with_status};
use crate::files::lines::{Lines, quoted};
use crate::files::loaded::Loaded;
use crate::files::mirror::Symmetry;
use crate::files::number::Counts;
use std::fmt::Display;

/// Kinds of supplementary data; only right-hand sides (rhs) are read.
const DATA_KINDS: [&[u8; 3]; 16] = [
    b"rhs", b"sln", b"est", b"evl", b"svl", b"lvl", b"evc", b"svc", b"sbv", b"sbm", b"sbp", b"avl", b"geo", b"ord",
    b"ipt", b"icv",
];

/// Returns whether card 2 begins with one of `DATA_KINDS`, and card 3 with a format.
pub fn is_supplement(text: &[u8]) -> bool {
    let mut lines = Lines::new(text).skip(1);
    let mut next_line = || lines.next().unwrap_or_default();
    let (type_card, format_card) = (next_line(), next_line());
    DATA_KINDS.iter().any(|kind| card_columns(type_card, 0..3).eq_ignore_ascii_case(*kind))
        && format_card.trim_ascii().starts_with(b"(")
}

/// Parses a file of right-hand sides.
pub fn parse(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    lines.next();
    let type_card = lines.next().unwrap_or_default();
    let format_card = lines.next().unwrap_or_default();
    let is_dense_storage = is_dense(type_card)?;
    let counts = Counts::of(card_columns(type_card, 14..type_card.len()).trim_ascii().get(1..).unwrap_or_default());
    let (rows, cols, entries) = match counts.unwrap_or_default().as_slice() {
        &[rows, cols, entries] => (rows, cols, entries),
        _ => return Err(line_error(2, "must have rows, columns and entries behind its letters")),
    };
    if is_dense_storage && entries as u128 != rows as u128 * cols as u128 {
        return Err(line_error(
            2,
            format_args!("{entries} values are announced, {cols} vectors of {rows} have others"),
        ));
    }
    let [first, second, third] = [0..20, 20..40, 40..60].map(|range| card_columns(format_card, range).trim_ascii());
    let formats = if is_dense_storage { [&[][..], &[], first, &[]] } else { [first, second, third, &[]] };
    let symmetry = Symmetry::General;
    let header =
        Header { cards: None, size_card_line: 2, has_values: true, symmetry, rows, cols, entries, formats, rhs: None };
    header.check(lines.remaining_bytes())?;
    let data = Data::new(header, lines, workers);
    match (is_dense_storage, fits_u32(rows, cols)) {
        (true, true) => data.read_dense_matrix::<u32>(),
        (true, false) => data.read_dense_matrix::<u64>(),
        (false, true) => data.read_matrix::<u32>(),
        (false, false) => data.read_matrix::<u64>(),
    }
}

/// Returns whether the right-hand sides are dense. Returns an error for unsupported data. `card` is card 2.
fn is_dense(card: &[u8]) -> Result<bool> {
    let unsupported = |reason: &dyn Display| Err(line_error_with_status(RRB_ERR_UNSUPPORTED, 2, reason));
    let kind = card_columns(card, 0..3);
    if !kind.eq_ignore_ascii_case(b"rhs") {
        return unsupported(&format_args!(
            "of supplementary data right-hand sides (rhs) are read, got {}",
            quoted(kind)
        ));
    }
    let lowercase_letter = |column: usize| card.get(column).map_or(b' ', u8::to_ascii_lowercase);
    match lowercase_letter(3) {
        b'r' | b's' | b' ' => {}
        b'l' => return unsupported(&"right-hand sides of A' (rhsl) are not offered"),
        c => return Err(line_error(2, format_args!("the side must be r, l or s, got {}", quoted(&[c])))),
    }
    match card_columns(card, 14..card.len()).trim_ascii().first().map_or(b' ', u8::to_ascii_lowercase) {
        b'r' | b'i' => {}
        b'c' => return unsupported(&COMPLEX_MESSAGE),
        c => {
            return Err(line_error(
                2,
                format_args!("the letter before the counts must be r or i, got {}", quoted(&[c])),
            ));
        }
    }
    match lowercase_letter(4) {
        b'd' => Ok(true),
        b's' => Ok(false),
        b'e' => unsupported(&"elemental right-hand sides are not offered; assemble first"),
        c => Err(line_error(2, format_args!("the storage must be d (dense) or s (sparse), got {}", quoted(&[c])))),
    }
}
