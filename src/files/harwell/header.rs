//! The header cards (lines) of a matrix file (Duff, Grimes, Lewis, ACM Trans. Math. Softw. 15 (1989) 1-14).
//!
//! - Card 1: title and key.
//! - Card 2: numbers of cards: total, pointers, rows, values and, in Harwell-Boeing, right-hand sides.
//! - Card 3: type, rows, columns, entries.
//! - Card 4: formats of pointers, rows, values, right-hand sides.
//! - Card 5, if there are right-hand sides: their type, their number, and the number of entries of sparse right-hand
//!   sides.

use crate::error::{RRB_ERR_UNSUPPORTED, Result};
use crate::files::fault::{COMPLEX_MESSAGE, line_error, line_error_with_status};
use crate::files::lines::{Lines, quoted};
use crate::files::mirror::Symmetry;
use crate::files::number::Counts;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt as _;

/// Contents of the header cards.
pub struct Header<'a> {
    /// Numbers of cards of pointers, rows, values and right-hand sides, if the header announces them.
    pub cards: Option<[usize; 4]>,
    /// Line number of the card with rows, columns and entries. The next card contains the formats.
    pub size_card_line: usize,
    pub has_values: bool,
    pub symmetry: Symmetry,
    pub rows: usize,
    pub cols: usize,
    pub entries: usize,
    /// Formats of pointers, rows, values and right-hand sides.
    pub formats: [&'a [u8]; 4],
    /// For the right-hand sides: their type, their number, and the number of entries, which is used only if they are
    /// sparse.
    pub rhs: Option<([u8; 3], usize, usize)>,
}

impl<'a> Header<'a> {
    pub fn from_lines(lines: &mut Lines<'a>) -> Result<Self> {
        let mut next_card = |card_name: &str| {
            let file_line = lines.number + 1;
            lines
                .next()
                .ok_or_else(|| line_error(file_line, format_args!("the file ends before the card of {card_name}")))
        };
        next_card("title and key")?;
        let counts_card = Counts::of(next_card("counts")?).unwrap_or_default();
        let type_card = next_card("the type")?;
        let formats = next_card("the formats")?;
        let count = |k: usize| counts_card.as_slice().get(k).copied().unwrap_or(0);
        let cards = [1, 2, 3, 4].map(count);
        let (has_values, symmetry) = parse_type(type_card)?;
        let numbers = type_card.get(3..).and_then(Counts::of).unwrap_or_default();
        let Some([rows, cols, entries]) = numbers.as_slice().first_chunk::<3>().copied() else {
            return Err(line_error(3, "must have rows, columns and entries after the type"));
        };
        if symmetry != Symmetry::General && rows != cols {
            return Err(line_error(3, format_args!("a symmetric matrix is square, got {rows} x {cols}")));
        }
        let formats = [0..16, 16..32, 32..52, 52..72].map(|range| card_columns(formats, range).trim_ascii());
        let rhs = if cards[3] > 0 { Some(parse_rhs_card(next_card("right-hand sides")?)?) } else { None };
        Ok(Self { cards: Some(cards), size_card_line: 3, has_values, symmetry, rows, cols, entries, formats, rhs })
    }

    /// Checks that the number of entries fits the size of the matrix, and that the remaining `remaining_bytes` bytes
    /// can contain pointers and row indices.
    pub fn check(&self, remaining_bytes: usize) -> Result<()> {
        let &Self { size_card_line, rows, cols, entries, .. } = self;
        // The format does not allow duplicates.
        if entries as u128 > rows as u128 * cols as u128 {
            return Err(line_error(
                size_card_line,
                format_args!("{entries} entries are more than {rows} x {cols} places"),
            ));
        }
        // Each pointer and each row index takes at least one character.
        if entries > remaining_bytes || cols >= remaining_bytes.max(1) {
            return Err(line_error(
                size_card_line,
                format_args!(
                    "{cols} columns and {entries} entries, for which the {remaining_bytes} bytes after them are too few"
                ),
            ));
        }
        Ok(())
    }
}

/// Returns the characters in a range of columns of a card; fewer characters if the card ends within the range.
pub fn card_columns(card: &[u8], range: std::ops::Range<usize>) -> &[u8] {
    card.get(range.start..card.len().min(range.end)).unwrap_or_default()
}

/// Parses the type of the matrix, three letters such as RUA. Returns whether the file contains values, and the
/// symmetry.
fn parse_type(card: &[u8]) -> Result<(bool, Symmetry)> {
    let kind = card.get(..3).unwrap_or(card);
    let unsupported = |reason: &dyn Display| Err(line_error_with_status(RRB_ERR_UNSUPPORTED, 3, reason));
    let letters = kind.first_chunk().copied().unwrap_or_default().map(|c: u8| c.to_ascii_uppercase());
    let [value_letter, symmetry_letter, form_letter] = letters;
    let name = OsStr::from_bytes(&letters).display();
    let has_values = match value_letter {
        b'R' | b'I' => true,
        b'P' => false,
        b'C' => return unsupported(&COMPLEX_MESSAGE),
        b'Q' => return unsupported(&format_args!("values in a file of their own ({name}) are not offered")),
        _ => return Err(line_error(3, format_args!("the type must be such as RUA or PSA, got {}", quoted(kind)))),
    };
    let symmetry = match symmetry_letter {
        b'S' => Symmetry::Symmetric,
        b'Z' => Symmetry::Skew,
        b'U' | b'R' => Symmetry::General,
        b'H' => return unsupported(&COMPLEX_MESSAGE),
        _ => return Err(line_error(3, format_args!("the type must be such as RUA or PSA, got {}", quoted(kind)))),
    };
    match form_letter {
        b'A' => Ok((has_values, symmetry)),
        b'E' => unsupported(&format_args!("elemental matrices ({name}) are not offered; assemble first")),
        _ => Err(line_error(3, format_args!("the type must be such as RUA or PSA, got {}", quoted(kind)))),
    }
}

/// Parses the card of right-hand sides. Returns the contents of `Header::rhs`.
fn parse_rhs_card(card: &[u8]) -> Result<([u8; 3], usize, usize)> {
    let mut kind = [b' '; 3];
    kind.iter_mut().zip(card).for_each(|(letter, c)| *letter = c.to_ascii_uppercase());
    let numbers = card.get(3..).and_then(Counts::of).unwrap_or_default();
    let invalid_card = |reason: &dyn Display| Err(line_error(5, reason));
    match (kind, numbers.as_slice()) {
        ([b'F' | b'M', b'G' | b' ', b'X' | b' '], [rhs_count, other_numbers @ ..]) => {
            Ok((kind, *rhs_count, other_numbers.first().copied().unwrap_or(0)))
        }
        (_, []) => invalid_card(&"must say how many right-hand sides there are"),
        _ => invalid_card(&format_args!(
            "the type of right-hand sides must be F or M, then G and X or blanks, got {}",
            quoted(&kind)
        )),
    }
}
