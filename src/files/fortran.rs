//! Parser of Fortran formats for cards of numbers, such as (16I5), (1P,4E20.12) and (3(1PE25.16)).

use super::number::{field_number, whole_number};
use crate::error::{Error, Result, push};

/// A field of a card. `start` is its first column, counted from 0; `width` is its number of columns. `is_integer` is
/// true for the type I, and false for E, D, F and G. `decimals` is the number of digits after the point, and `scale` is
/// the factor of the P edit descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    start: usize,
    width: usize,
    is_integer: bool,
    decimals: i32,
    scale: i32,
}

/// Maximum numbers of fields and columns of a card, and maximum depth of nested formats; far above any format in use.
const MAX_FIELDS: usize = 1000;
const MAX_COLUMNS: usize = 10_000;
const MAX_DEPTH: usize = 8;
/// Maximum number of nonblank characters of a format. On its card, a format has at most 20 columns.
const MAX_FORMAT_CHARACTERS: usize = 80;

impl Field {
    /// Returns the characters of this field. If the card is too short, the missing characters count as blanks.
    pub fn text<'a>(&self, card: &'a [u8]) -> &'a [u8] {
        let end = card.len().min(self.start + self.width);
        card.get(self.start..end).unwrap_or_default()
    }

    /// Returns the real number in this field.
    pub fn real(&self, card: &[u8]) -> Option<f64> {
        field_number(self.text(card), self.decimals, self.scale)
    }

    /// Returns the integer in this field; blanks mean 0.
    pub fn integer(&self, card: &[u8]) -> Option<i64> {
        let text = self.text(card).trim_ascii();
        if text.is_empty() { Some(0) } else { whole_number(text) }
    }
}

/// Returns the fields of a card with the format `text`, or `None` if the format is not supported. With
/// `requires_integers`, formats with fields of other types than I are not supported. Returns an error only if an
/// allocation fails.
pub fn parse_format(text: &[u8], requires_integers: bool) -> Result<Option<Vec<Field>>> {
    let (mut buffer, mut len) = ([0; MAX_FORMAT_CHARACTERS], 0);
    for c in text.iter().filter(|c| !c.is_ascii_whitespace()) {
        let Some(character) = buffer.get_mut(len) else { return Ok(None) };
        (*character, len) = (c.to_ascii_uppercase(), len + 1);
    }
    let inner = buffer[..len].strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
    let Some(inner) = inner else { return Ok(None) };
    let mut parser = FormatParser { text: inner, column: 0, scale: 0, fields: Vec::new(), allocation_error: None };
    let parsed_items = parser.parse_items(0);
    if let Some(error) = parser.allocation_error {
        return Err(error);
    }
    let is_valid = parsed_items.is_some() && parser.text.is_empty() && !parser.fields.is_empty();
    let is_valid = is_valid && parser.fields.iter().all(|field| field.is_integer || !requires_integers);
    Ok(is_valid.then_some(parser.fields))
}

struct FormatParser<'a> {
    text: &'a [u8],
    column: usize,
    scale: i32,
    fields: Vec<Field>,
    /// Error of a failed allocation. It ends the parsing.
    allocation_error: Option<Error>,
}

impl<'a> FormatParser<'a> {
    /// Parses items up to a closing parenthesis or to the end of the text.
    fn parse_items(&mut self, depth: usize) -> Option<()> {
        while !matches!(self.text.first(), None | Some(b')')) {
            if self.text.first() == Some(&b',') {
                self.skip_character();
                continue;
            }
            self.parse_item(depth)?;
        }
        Some(())
    }

    fn skip_character(&mut self) {
        self.text = &self.text[1..];
    }

    /// Parses an optional unsigned number: `Some(None)` if there is none, `None` if it exceeds [`MAX_COLUMNS`].
    fn parse_number(&mut self) -> Option<Option<usize>> {
        let digit_count = self.text.iter().take_while(|c| c.is_ascii_digit()).count();
        let (number, remaining_text) = self.text.split_at(digit_count);
        self.text = remaining_text;
        if number.is_empty() {
            return Some(None);
        }
        std::str::from_utf8(number).ok()?.parse().ok().filter(|&n| n <= MAX_COLUMNS).map(Some)
    }

    fn parse_item(&mut self, depth: usize) -> Option<()> {
        let is_negative = self.text.first() == Some(&b'-');
        if is_negative {
            self.skip_character();
        }
        let count = self.parse_number()?;
        let kind = *self.text.first()?;
        self.skip_character();
        match (kind, is_negative) {
            (b'P', _) => {
                let scale = count? as i32;
                self.scale = if is_negative { -scale } else { scale };
            }
            (b'X', false) => self.column += count.unwrap_or(1),
            (b'(', false) if depth < MAX_DEPTH => {
                let group = self.text;
                for _ in 0..count.unwrap_or(1) {
                    self.text = group;
                    let fields_before = self.fields.len();
                    self.parse_items(depth + 1)?;
                    if self.fields.len() == fields_before || self.column > MAX_COLUMNS {
                        return None;
                    }
                }
                if self.text.first() != Some(&b')') {
                    return None;
                }
                self.skip_character();
            }
            (b'I' | b'E' | b'D' | b'F' | b'G', false) => self.append_fields(kind, count.unwrap_or(1))?,
            _ => return None,
        }
        (self.column <= MAX_COLUMNS).then_some(())
    }

    /// Parses width and decimals of a field, and appends `count` such fields, one after the other.
    fn append_fields(&mut self, kind: u8, count: usize) -> Option<()> {
        let width = self.parse_number()?.filter(|&w| w > 0)?;
        let mut decimals = 0;
        if self.text.first() == Some(&b'.') {
            self.skip_character();
            decimals = self.parse_number()?? as i32;
            // The exponent width has no effect on reading.
            if kind != b'I' && self.text.first() == Some(&b'E') && self.text.get(1).is_some_and(u8::is_ascii_digit) {
                self.skip_character();
                self.parse_number()??;
            }
        }
        let is_integer = kind == b'I';
        for _ in 0..count {
            if self.fields.len() == MAX_FIELDS || self.column > MAX_COLUMNS {
                return None;
            }
            let (decimals, scale) = if is_integer { (0, 0) } else { (decimals, self.scale) };
            let field = Field { start: self.column, width, is_integer, decimals, scale };
            self.allocation_error = push(&mut self.fields, field, "fields of a card").err();
            if self.allocation_error.is_some() {
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

    fn field_layouts(text: &str) -> Option<Vec<(usize, usize, i32, i32)>> {
        let layout_of = |f: &Field| (f.start, f.width, f.decimals, f.scale);
        parse_format(text.as_bytes(), false).unwrap().map(|fields| fields.iter().map(layout_of).collect())
    }

    #[test]
    fn parse_format_reads_formats_of_collections() {
        assert_eq!(parse_format(b"(16I5)", true).unwrap().unwrap().len(), 16);
        assert_eq!(field_layouts("(1P3D24.15)"), Some(vec![(0, 24, 15, 1), (24, 24, 15, 1), (48, 24, 15, 1)]));
        assert_eq!(field_layouts(" (1p, 2e20.12) "), Some(vec![(0, 20, 12, 1), (20, 20, 12, 1)]));
        assert_eq!(field_layouts("(2(1PE25.16))"), Some(vec![(0, 25, 16, 1), (25, 25, 16, 1)]));
        assert_eq!(field_layouts("(2(2X,F8.3),-2P,G9.1E3)"), Some(vec![(2, 8, 3, 0), (12, 8, 3, 0), (20, 9, 1, -2)]));
        for text in
            ["", "()", "16I5", "(16A5)", "(I0)", "(3(I5)", "(0(I5))", "(9999999(I5))", "((((((((((I5))))))))))", "(5X)"]
        {
            assert_eq!(field_layouts(text), None, "{text}");
        }
        assert_eq!(parse_format(b"(4E20.12)", true).unwrap(), None);
    }

    #[test]
    fn fields_read_short_and_full_cards() {
        let fields = parse_format(b"(4I3)", true).unwrap().unwrap();
        let read_integers = |card: &[u8]| fields.iter().map(|f| f.integer(card).unwrap()).collect::<Vec<_>>();
        assert_eq!(read_integers(b"100200  3"), [100, 200, 3, 0]);
        assert_eq!(fields[0].integer(b" 1x"), None);
    }
}
