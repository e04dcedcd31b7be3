//! Parser of Fortran formats for cards of numbers, such as (16I5), (1P,4E20.12) and (3(1PE25.16)).

use super::number::{field_number, whole_number};
use crate::error::{Error, Result, push};

/// A field of a card: start column from 0, width in columns, type (integer: I, otherwise E, D, F or G), digits after
/// the point, and scale factor of the P edit descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    start: usize,
    width: usize,
    is_integer: bool,
    decimals: i32,
    scale: i32,
}

/// Maximum numbers of fields and columns of a card, and maximum depth of nested formats; far above any format in use.
const MOST_FIELDS: usize = 1000;
const MOST_COLUMNS: usize = 10_000;
const DEEPEST: usize = 8;
/// Maximum number of nonblank characters of a format. On its card, a format has at most 20 columns.
const MOST_CHARACTERS: usize = 80;

impl Field {
    /// Returns the characters of this field. A short card continues with blanks.
    pub fn of<'a>(&self, card: &'a [u8]) -> &'a [u8] {
        let end = card.len().min(self.start + self.width);
        card.get(self.start..end).unwrap_or_default()
    }

    /// Returns the real number in this field.
    pub fn real(&self, card: &[u8]) -> Option<f64> {
        field_number(self.of(card), self.decimals, self.scale)
    }

    /// Returns the integer in this field; blanks mean 0.
    pub fn integer(&self, card: &[u8]) -> Option<i64> {
        let text = self.of(card).trim_ascii();
        if text.is_empty() { Some(0) } else { whole_number(text) }
    }
}

/// Returns the fields of a card, or `None` if the format is not supported. `integers` requires that all fields have
/// type I. Returns an error only if an allocation fails.
pub fn fields(text: &[u8], integers: bool) -> Result<Option<Vec<Field>>> {
    let (mut buffer, mut len) = ([0; MOST_CHARACTERS], 0);
    for c in text.iter().filter(|c| !c.is_ascii_whitespace()) {
        let Some(to) = buffer.get_mut(len) else { return Ok(None) };
        (*to, len) = (c.to_ascii_uppercase(), len + 1);
    }
    let inner = buffer[..len].strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
    let Some(inner) = inner else { return Ok(None) };
    let mut reader = FormatParser { text: inner, column: 0, scale: 0, fields: Vec::new(), refused: None };
    let read = reader.list(0);
    if let Some(error) = reader.refused {
        return Err(error);
    }
    let fits = read.is_some() && reader.text.is_empty() && !reader.fields.is_empty();
    let fits = fits && reader.fields.iter().all(|field| field.is_integer || !integers);
    Ok(fits.then_some(reader.fields))
}

struct FormatParser<'a> {
    text: &'a [u8],
    column: usize,
    scale: i32,
    fields: Vec<Field>,
    /// Error of a failed allocation. It ends the parsing.
    refused: Option<Error>,
}

impl<'a> FormatParser<'a> {
    /// Parses items up to a closing parenthesis or to the end of the text.
    fn list(&mut self, depth: usize) -> Option<()> {
        while !matches!(self.text.first(), None | Some(b')')) {
            if self.text.first() == Some(&b',') {
                self.skip();
                continue;
            }
            self.item(depth)?;
        }
        Some(())
    }

    fn skip(&mut self) {
        self.text = &self.text[1..];
    }

    /// Parses an optional unsigned number: `Some(None)` if there is none, `None` if it exceeds [`MOST_COLUMNS`].
    fn number(&mut self) -> Option<Option<usize>> {
        let digits = self.text.iter().take_while(|c| c.is_ascii_digit()).count();
        let (number, rest) = self.text.split_at(digits);
        self.text = rest;
        if number.is_empty() {
            return Some(None);
        }
        std::str::from_utf8(number).ok()?.parse().ok().filter(|&n| n <= MOST_COLUMNS).map(Some)
    }

    fn item(&mut self, depth: usize) -> Option<()> {
        let negative = self.text.first() == Some(&b'-');
        if negative {
            self.skip();
        }
        let count = self.number()?;
        let kind = *self.text.first()?;
        self.skip();
        match (kind, negative) {
            (b'P', _) => {
                let scale = count? as i32;
                self.scale = if negative { -scale } else { scale };
            }
            (b'X', false) => self.column += count.unwrap_or(1),
            (b'(', false) if depth < DEEPEST => {
                let group = self.text;
                for _ in 0..count.unwrap_or(1) {
                    self.text = group;
                    let before = self.fields.len();
                    self.list(depth + 1)?;
                    if self.fields.len() == before || self.column > MOST_COLUMNS {
                        return None;
                    }
                }
                if self.text.first() != Some(&b')') {
                    return None;
                }
                self.skip();
            }
            (b'I' | b'E' | b'D' | b'F' | b'G', false) => self.fields(kind, count.unwrap_or(1))?,
            _ => return None,
        }
        (self.column <= MOST_COLUMNS).then_some(())
    }

    /// Parses width and decimals of a field, and appends `count` such fields, one after the other.
    fn fields(&mut self, kind: u8, count: usize) -> Option<()> {
        let width = self.number()?.filter(|&w| w > 0)?;
        let mut decimals = 0;
        if self.text.first() == Some(&b'.') {
            self.skip();
            decimals = self.number()?? as i32;
            // The exponent width has no effect on reading.
            if kind != b'I' && self.text.first() == Some(&b'E') && self.text.get(1).is_some_and(u8::is_ascii_digit) {
                self.skip();
                self.number()??;
            }
        }
        let is_integer = kind == b'I';
        for _ in 0..count {
            if self.fields.len() == MOST_FIELDS || self.column > MOST_COLUMNS {
                return None;
            }
            let (decimals, scale) = if is_integer { (0, 0) } else { (decimals, self.scale) };
            let field = Field { start: self.column, width, is_integer, decimals, scale };
            self.refused = push(&mut self.fields, field, "fields of a card").err();
            if self.refused.is_some() {
                return None;
            }
            self.column += width;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Option<Vec<(usize, usize, i32, i32)>> {
        let of = |f: &Field| (f.start, f.width, f.decimals, f.scale);
        fields(text.as_bytes(), false).unwrap().map(|all| all.iter().map(of).collect())
    }

    #[test]
    fn formats_of_the_collections() {
        assert_eq!(fields(b"(16I5)", true).unwrap().unwrap().len(), 16);
        assert_eq!(layout("(1P3D24.15)"), Some(vec![(0, 24, 15, 1), (24, 24, 15, 1), (48, 24, 15, 1)]));
        assert_eq!(layout(" (1p, 2e20.12) "), Some(vec![(0, 20, 12, 1), (20, 20, 12, 1)]));
        assert_eq!(layout("(2(1PE25.16))"), Some(vec![(0, 25, 16, 1), (25, 25, 16, 1)]));
        assert_eq!(layout("(2(2X,F8.3),-2P,G9.1E3)"), Some(vec![(2, 8, 3, 0), (12, 8, 3, 0), (20, 9, 1, -2)]));
        for text in
            ["", "()", "16I5", "(16A5)", "(I0)", "(3(I5)", "(0(I5))", "(9999999(I5))", "((((((((((I5))))))))))", "(5X)"]
        {
            assert_eq!(layout(text), None, "{text}");
        }
        assert_eq!(fields(b"(4E20.12)", true).unwrap(), None);
    }

    #[test]
    fn short_cards_and_touching_numbers() {
        let all = fields(b"(4I3)", true).unwrap().unwrap();
        let read = |card: &[u8]| all.iter().map(|f| f.integer(card).unwrap()).collect::<Vec<_>>();
        assert_eq!(read(b"100200  3"), [100, 200, 3, 0]);
        assert_eq!(all[0].integer(b" 1x"), None);
    }
}
