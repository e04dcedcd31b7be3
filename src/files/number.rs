//! Parsing of numbers, including Fortran's: with the exponent letters D and Q, or without a letter, as in 1.5-103.

use super::lines::words;
use super::short::FixedText;
use std::fmt::Write as _;

/// Maximum number of characters of a number that needs conversion from Fortran notation.
const MAX_CHARACTERS: usize = 400;

/// Parses an integer.
pub fn whole_number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The counts on a line. Only the first `MAX_COUNTS` counts are stored; no line of a file format has more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    stored: [usize; Self::MAX_COUNTS],
    /// Number of counts on the line.
    pub len: usize,
}

impl Counts {
    /// Maximum number of counts that are stored.
    pub const MAX_COUNTS: usize = 5;

    /// Parses a line of counts (nonnegative integers). Returns `None` if the line contains any other word.
    pub fn of(line: &[u8]) -> Option<Self> {
        let mut counts = Self::default();
        for word in words(line) {
            let count = whole_number(word).and_then(|n| usize::try_from(n).ok())?;
            if let Some(slot) = counts.stored.get_mut(counts.len) {
                *slot = count;
            }
            counts.len += 1;
        }
        Some(counts)
    }

    /// Returns the stored counts.
    pub fn as_slice(&self) -> &[usize] {
        &self.stored[..self.len.min(Self::MAX_COUNTS)]
    }
}

/// Parses a real number; accepts infinities and NaN.
pub fn real_number(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    text.parse().ok().or_else(|| ScaledNumber::split(word)?.value())
}

/// Parses a Fortran field. If the field has no point, its last `decimals` digits are the fractional digits. If the
/// field has no exponent, the number is divided by 10^`scale`. Blanks are ignored, and a blank field is 0.
pub fn field_number(field: &[u8], decimals: i32, scale: i32) -> Option<f64> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return Some(0.0);
    }
    let contains_any = |characters: &[u8]| field.iter().any(|c| characters.contains(c));
    if contains_any(b".")
        && (scale == 0 || contains_any(b"eE"))
        && let Some(value) = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok())
    {
        return Some(value);
    }
    let mut buffer;
    let mut number = match ScaledNumber::split(field) {
        Some(number) => number,
        None => {
            buffer = [0; MAX_CHARACTERS];
            ScaledNumber::split(without_blanks(field, &mut buffer)?)?
        }
    };
    if !number.has_point {
        number.exponent -= decimals;
    }
    if !number.has_exponent {
        number.exponent -= scale;
    }
    number.value()
}

fn without_blanks<'a>(field: &[u8], buffer: &'a mut [u8; MAX_CHARACTERS]) -> Option<&'a [u8]> {
    if field.len() > MAX_CHARACTERS {
        return None;
    }
    let mut len = 0;
    for &c in field.iter().filter(|&&c| c != b' ') {
        buffer[len] = c;
        len += 1;
    }
    Some(&buffer[..len])
}

/// Mantissa (sign, digits and point) and decimal exponent of a number.
struct ScaledNumber<'a> {
    text: &'a [u8],
    exponent: i32,
    has_point: bool,
    has_exponent: bool,
}

impl<'a> ScaledNumber<'a> {
    fn split(word: &'a [u8]) -> Option<Self> {
        if word.len() > MAX_CHARACTERS || !word.iter().any(u8::is_ascii_digit) {
            return None;
        }
        // The exponent begins with its letter, or with a sign after the first character.
        let is_exponent_letter = |c: u8| b"eEdDqQ".contains(&c);
        let exponent_start = (1..word.len()).find(|&k| is_exponent_letter(word[k]) || b"+-".contains(&word[k]));
        let (mantissa, exponent) = word.split_at(exponent_start.unwrap_or(word.len()));
        let digits = match exponent {
            [c, digits @ ..] if is_exponent_letter(*c) => digits,
            digits => digits,
        };
        let exponent_value = if exponent.is_empty() { 0 } else { parse_exponent(digits)? };
        let sign_len = usize::from(b"+-".contains(&mantissa[0]));
        let is_digits = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
        let point = mantissa.iter().position(|&c| c == b'.');
        let is_valid = match point {
            Some(position) => {
                position >= sign_len && is_digits(&mantissa[sign_len..position]) && is_digits(&mantissa[position + 1..])
            }
            None => is_digits(&mantissa[sign_len..]),
        };
        let has_digits = mantissa.iter().any(u8::is_ascii_digit);
        let (has_point, has_exponent) = (point.is_some(), !exponent.is_empty());
        (is_valid && has_digits).then_some(Self { text: mantissa, exponent: exponent_value, has_point, has_exponent })
    }

    /// Returns the value, rounded once.
    fn value(&self) -> Option<f64> {
        // The exponent has at most 11 characters, in addition to the letter e.
        let mut text = FixedText::<{ MAX_CHARACTERS + 12 }>::default();
        let mantissa = std::str::from_utf8(self.text).ok()?;
        write!(text, "{mantissa}e{}", self.exponent).ok()?;
        text.text().parse().ok()
    }
}

/// Parses an exponent, and clamps it to +-100000, beyond the range of doubles.
fn parse_exponent(digits: &[u8]) -> Option<i32> {
    let number = whole_number(digits).or_else(|| {
        let sign_len = usize::from(b"+-".contains(digits.first()?));
        let is_integer = digits.len() > sign_len && digits[sign_len..].iter().all(u8::is_ascii_digit);
        if is_integer { Some(if digits[0] == b'-' { i64::MIN } else { i64::MAX }) } else { None }
    });
    number.map(|number| number.clamp(-100_000, 100_000) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_number_reads_fortran_notation() {
        for (text, value) in [
            ("1.5", 1.5),
            ("-1.5D3", -1500.0),
            ("1.5d-103", 1.5e-103),
            ("1.5-103", 1.5e-103),
            ("-.5+2", -50.0),
            ("+5.", 5.0),
            ("1e400", f64::INFINITY),
            ("2.0Q1", 20.0),
            ("1e-99999999999", 0.0),
        ] {
            assert_eq!(real_number(text.as_bytes()), Some(value), "{text}");
        }
        assert!(real_number(b"nan").is_some_and(f64::is_nan));
        for text in ["", "-", "e5", "1.5e", "1.2.3", "0x10", "--1", "1e5.5", "1-", "."] {
            assert_eq!(real_number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn field_number_applies_decimals_and_scale() {
        for (text, decimals, scale, value) in [
            ("   12345", 3, 0, 12.345),
            (" 12345E2", 3, 0, 1234.5),
            ("1.25    ", 3, 0, 1.25),
            ("1.25    ", 3, 1, 0.125),
            ("1.25E0  ", 3, 1, 1.25),
            ("  125D01", 2, 1, 12.5),
            ("        ", 3, 0, 0.0),
            ("- 1 . 5 ", 1, 0, -1.5),
            ("0.1", 1, 0, 0.1),
        ] {
            assert_eq!(field_number(text.as_bytes(), decimals, scale), Some(value), "'{text}'");
        }
        assert_eq!(field_number(b"1.2x", 0, 0), None);
    }
}
