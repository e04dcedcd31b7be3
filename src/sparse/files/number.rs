//! Numbers as text: of Fortran too, with the exponent letters D and Q, or with none, as in 1.5-103.

use super::lines::words;

/// Digits of a number that is put together here at most; longer ones are no numbers that anybody writes.
const MOST: usize = 400;

/// A whole number.
pub fn whole_number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The counts that a line consists of.
pub fn counts(line: &[u8]) -> Option<Vec<usize>> {
    words(line).map(|word| whole_number(word).and_then(|n| usize::try_from(n).ok())).collect()
}

/// A real number; infinities and NaN are numbers too.
pub fn real_number(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    text.parse().ok().or_else(|| Scaled::split(word)?.value())
}

/// A number of a Fortran field: without a point, the last `decimals` digits stand behind it; without an exponent it is
/// divided by 10^`scale`. Blanks are nothing, and nothing but blanks is 0.
pub fn field_number(field: &[u8], decimals: i32, scale: i32) -> Option<f64> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return Some(0.0);
    }
    let mut number = Scaled::split(field).or_else(|| Scaled::split(&without_blanks(field)?))?;
    if !number.has_point {
        number.exponent -= decimals;
    }
    if !number.has_exponent {
        number.exponent -= scale;
    }
    number.value()
}

fn without_blanks(field: &[u8]) -> Option<Vec<u8>> {
    if field.len() > MOST { None } else { Some(field.iter().copied().filter(|&c| c != b' ').collect()) }
}

/// Sign, digits and point of a number, and its exponent.
struct Scaled {
    text: String,
    exponent: i32,
    has_point: bool,
    has_exponent: bool,
}

impl Scaled {
    fn split(word: &[u8]) -> Option<Self> {
        if word.len() > MOST || !word.iter().any(u8::is_ascii_digit) {
            return None;
        }
        // The exponent begins with its letter, or with a sign behind the first character.
        let letter = |c: u8| b"eEdDqQ".contains(&c);
        let start = (1..word.len()).find(|&k| letter(word[k]) || b"+-".contains(&word[k]));
        let (mantissa, exponent) = word.split_at(start.unwrap_or(word.len()));
        let digits = match exponent {
            [c, digits @ ..] if letter(*c) => digits,
            digits => digits,
        };
        let power = if exponent.is_empty() { 0 } else { power(digits)? };
        let sign = usize::from(b"+-".contains(&mantissa[0]));
        let is_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        let point = mantissa.iter().position(|&c| c == b'.');
        let fits = match point {
            Some(at) => at >= sign && is_digits(&mantissa[sign..at]) && is_digits(&mantissa[at + 1..]),
            None => is_digits(&mantissa[sign..]),
        };
        let some = mantissa.iter().any(u8::is_ascii_digit);
        let text = String::from_utf8(mantissa.to_vec()).ok().filter(|_| fits && some)?;
        Some(Self { text, exponent: power, has_point: point.is_some(), has_exponent: !exponent.is_empty() })
    }

    /// Rounded once, however it is scaled.
    fn value(&self) -> Option<f64> {
        format!("{}e{}", self.text, self.exponent).parse().ok()
    }
}

/// An exponent; one that no double has is cut.
fn power(digits: &[u8]) -> Option<i32> {
    let number = whole_number(digits).or_else(|| {
        let sign = usize::from(b"+-".contains(digits.first()?));
        let all = digits.len() > sign && digits[sign..].iter().all(u8::is_ascii_digit);
        if all { Some(if digits[0] == b'-' { i64::MIN } else { i64::MAX }) } else { None }
    });
    number.map(|number| number.clamp(-100_000, 100_000) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_fortran() {
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
    fn fields_of_a_card() {
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
