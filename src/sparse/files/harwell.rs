//! Harwell-Boeing and Rutherford-Boeing: cards (lines) of fixed columns. Card 1: title and key. Card 2: cards in all,
//! of pointers, of rows, of values and, in Harwell-Boeing, of right-hand sides. Card 3: type, rows, columns, entries.
//! Card 4: formats of pointers, rows, values, right-hand sides. Card 5, where there are right-hand sides: their type,
//! how many they are, and entries where they are sparse.

use super::fault::{COMPLEX, Parsed, at, status_at, whole};
use super::fortran::{Field, fields};
use super::lines::{Lines, shown, words};
use super::loaded::{Loaded, Vectors};
use super::mirror::{Symmetry, complete};
use super::number::whole_number;
use crate::error::{RRB_ERR_NOT_FINITE, RRB_ERR_PARSE, RRB_ERR_UNSUPPORTED, reserve, zeroed};
use crate::runtime::heap::boxed;
use crate::sparse::assemble::Triplets;
use crate::sparse::index::is_narrow;
use crate::sparse::matrix::Width;

/// For errors.
const POINTERS: &str = "pointers of a file";
const RHS: &str = "right-hand sides of a file";

/// Whether card 2 is one of counts.
pub fn is_one(text: &[u8]) -> bool {
    Lines::new(text).nth(1).is_some_and(|card| (4..=5).contains(&words(card).count()) && counts(card).is_some())
}

fn counts(card: &[u8]) -> Option<Vec<usize>> {
    words(card).map(|word| whole_number(word).and_then(|n| usize::try_from(n).ok())).collect()
}

/// The cards before the data.
struct Header<'a> {
    /// Cards of pointers, rows, values and right-hand sides.
    cards: [usize; 4],
    values: bool,
    symmetry: Symmetry,
    rows: usize,
    cols: usize,
    entries: usize,
    formats: [&'a [u8]; 4],
    /// Type, how many, entries.
    rhs: Option<([u8; 3], usize, usize)>,
}

/// The matrix of a text whose second card is one of counts.
pub fn parse(text: &[u8]) -> Parsed<Loaded> {
    let mut lines = Lines::new(text);
    let header = Header::read(&mut lines)?;
    let Header { rows, cols, entries, .. } = header;
    // A pointer and a row take a character at least; duplicates are not legal here.
    let places = rows as u128 * cols as u128;
    if entries as u128 > places {
        return Err(at(3, format!("{entries} entries are more than {rows} x {cols} places")));
    }
    let left = lines.left();
    if entries > left || cols >= left.max(1) {
        return Err(at(
            3,
            format!("{cols} columns and {entries} entries, for which the {left} bytes after them are too few"),
        ));
    }
    let data = Data { text: left, header, lines };
    if is_narrow(rows, cols) { data.matrix::<u32>() } else { data.matrix::<u64>() }
}

impl<'a> Header<'a> {
    fn read(lines: &mut Lines<'a>) -> Parsed<Self> {
        let mut card = |what: &str| {
            let number = lines.number + 1;
            lines.next().ok_or_else(|| at(number, format!("the file ends before the card of {what}")))
        };
        card("title and key")?;
        let second = counts(card("counts")?).unwrap_or_default();
        let third = card("the type")?;
        let formats = card("the formats")?;
        let count = |k: usize| second.get(k).copied().unwrap_or(0);
        let cards = [1, 2, 3, 4].map(count);
        let (values, symmetry) = kind(third)?;
        let numbers = third.get(3..).and_then(counts).filter(|all| all.len() >= 3);
        let Some([rows, cols, entries]) = numbers.as_deref().and_then(|all| all.first_chunk::<3>()).copied() else {
            return Err(at(3, "must have rows, columns and entries after the type"));
        };
        if symmetry != Symmetry::General && rows != cols {
            return Err(at(3, format!("a symmetric matrix is square, got {rows} x {cols}")));
        }
        let column = |range: std::ops::Range<usize>| {
            formats.get(range.start..formats.len().min(range.end)).unwrap_or_default().trim_ascii()
        };
        let formats = [column(0..16), column(16..32), column(32..52), column(52..72)];
        let rhs = if cards[3] > 0 { Some(rhs(card("right-hand sides")?)?) } else { None };
        Ok(Self { cards, values, symmetry, rows, cols, entries, formats, rhs })
    }
}

/// Whether there are values, and the symmetry.
fn kind(card: &[u8]) -> Parsed<(bool, Symmetry)> {
    let kind = card.get(..3).unwrap_or(card).to_ascii_uppercase();
    let name = String::from_utf8_lossy(&kind).into_owned();
    let refused = |sentence: String| Err(status_at(RRB_ERR_UNSUPPORTED, 3, sentence));
    let [value, symmetry, form] = kind.first_chunk().copied().unwrap_or_default();
    let values = match value {
        b'R' | b'I' => true,
        b'P' => false,
        b'C' => return refused(COMPLEX.to_owned()),
        b'Q' => return refused(format!("values in a file of their own ({name}) are not offered")),
        _ => return Err(at(3, format!("the type must be such as RUA or PSA, got {}", shown(&kind)))),
    };
    let symmetry = match symmetry {
        b'S' => Symmetry::Symmetric,
        b'Z' => Symmetry::Skew,
        b'U' | b'R' => Symmetry::General,
        b'H' => return refused(COMPLEX.to_owned()),
        _ => return Err(at(3, format!("the type must be such as RUA or PSA, got {}", shown(&kind)))),
    };
    match form {
        b'A' => Ok((values, symmetry)),
        b'E' => refused(format!("elemental matrices ({name}) are not offered; assemble first")),
        _ => Err(at(3, format!("the type must be such as RUA or PSA, got {}", shown(&kind)))),
    }
}

/// The card of right-hand sides.
fn rhs(card: &[u8]) -> Parsed<([u8; 3], usize, usize)> {
    let mut kind = [b' '; 3];
    kind.iter_mut().zip(card).for_each(|(to, c)| *to = c.to_ascii_uppercase());
    let numbers = card.get(3..).and_then(counts).unwrap_or_default();
    let wrong = |reason: String| Err(at(5, reason));
    match (kind, numbers.as_slice()) {
        ([b'F' | b'M', b'G' | b' ', b'X' | b' '], [many, rest @ ..]) => {
            Ok((kind, *many, rest.first().copied().unwrap_or(0)))
        }
        (_, []) => wrong("must say how many right-hand sides there are".to_owned()),
        _ => {
            wrong(format!("the type of right-hand sides must be F or M, then G and X or blanks, got {}", shown(&kind)))
        }
    }
}

/// The cards after the header.
struct Data<'a> {
    /// Bytes of it.
    text: usize,
    header: Header<'a>,
    lines: Lines<'a>,
}

/// What is read, and in which cards it is announced.
const WHAT: [&str; 4] = ["pointers", "rows", "values", "right-hand sides"];

impl<'a> Data<'a> {
    fn matrix<I: Width>(mut self) -> Parsed<Loaded> {
        let Header { rows, cols, entries: count, symmetry, values, .. } = self.header;
        let ptr = self.pointers(0, cols, count)?;
        let mut entries = Triplets::<I>::with_room(count)?;
        let first = self.lines.number + 1;
        let row_fields = self.fields(1)?;
        self.check_cards(1, count, row_fields.len())?;
        let mut column = 0;
        self.read(&row_fields, count, |field, card, line| {
            let k = entries.rows.len();
            while ptr[column + 1] <= k {
                column += 1;
            }
            match field.whole(card) {
                Some(row) if row >= 1 && row as u64 <= rows as u64 => entries.push(row as usize - 1, column, 1.0),
                Some(row) => return Err(at(line, format!("row {row} must lie in [1, {rows}]"))),
                None => return Err(at(line, format!("{} is no row", shown(field.of(card))))),
            }
            Ok(())
        })?;
        if values {
            let value_fields = self.fields(2)?;
            self.check_cards(2, count, value_fields.len())?;
            let mut k = 0;
            self.read(&value_fields, count, |field, card, line| {
                entries.values[k] = real(field, card, line)?;
                k += 1;
                Ok(())
            })?;
        }
        let vectors = self.vectors()?;
        if let Some(line) = self.lines.find(|line| !line.trim_ascii().is_empty()) {
            return Err(at(self.lines.number, format!("more cards than are announced: {}", shown(line.trim_ascii()))));
        }
        let on_diagonal = |k: &usize| entries.rows[*k] == entries.cols[*k] && entries.values[*k] != 0.0;
        if symmetry == Symmetry::Skew
            && let Some(k) = (0..count).find(on_diagonal)
        {
            let line = first + k / row_fields.len();
            return Err(at(line, format!("the diagonal of a skew-symmetric matrix is 0, got {}", entries.values[k])));
        }
        if let Some(k) = complete(&mut entries, symmetry)? {
            let (i, j) = (entries.rows[k].at() + 1, entries.cols[k].at() + 1);
            let (a, b) = (i.min(j), i.max(j));
            return Err(at(first + k / row_fields.len(), format!("({a}, {b}) and ({b}, {a}) both given")));
        }
        let matrix = entries.assembled(rows, cols)?.without_slots();
        Ok(Loaded { matrix: boxed(matrix, "a matrix")?, vectors })
    }

    /// The fields of cards of a kind.
    fn fields(&self, which: usize) -> Parsed<Vec<Field>> {
        let format = self.header.formats[which];
        fields(format, which < 2).ok_or_else(|| at(4, format!("{} is no format of {}", shown(format), WHAT[which])))
    }

    /// So many fields take the cards that are announced.
    fn check_cards(&self, which: usize, count: usize, per_card: usize) -> Parsed<()> {
        let (announced, needed) = (self.header.cards[which], count.div_ceil(per_card));
        if announced == needed {
            return Ok(());
        }
        Err(at(2, format!("{announced} cards of {} are announced, {count} of them take {needed}", WHAT[which])))
    }

    /// Hands over `count` fields, card by card.
    fn read(
        &mut self,
        fields: &[Field],
        count: usize,
        mut take: impl FnMut(&Field, &'a [u8], usize) -> Parsed<()>,
    ) -> Parsed<()> {
        let mut left = count;
        while left > 0 {
            let Some(card) = self.lines.next() else {
                return Err(at(self.lines.number, format!("the file ends {left} numbers too early")));
            };
            for field in fields.iter().take(left) {
                take(field, card, self.lines.number)?;
            }
            left = left.saturating_sub(fields.len());
        }
        Ok(())
    }

    /// Pointers from 0, to `count` entries.
    fn pointers(&mut self, which: usize, lanes: usize, count: usize) -> Parsed<Vec<usize>> {
        let fields = self.fields(0)?;
        if which == 0 {
            self.check_cards(0, lanes + 1, fields.len())?;
        }
        let mut ptr: Vec<usize> = Vec::new();
        reserve(&mut ptr, lanes + 1, POINTERS)?;
        self.read(&fields, lanes + 1, |field, card, line| {
            let least = ptr.last().map_or(1, |last| last + 1) as i64;
            let wrong = |reason| Err(at(line, reason));
            match field.whole(card) {
                Some(1) if ptr.is_empty() => ptr.push(0),
                Some(number) if ptr.is_empty() => return wrong(format!("pointers begin with 1, got {number}")),
                Some(number) if number < least => {
                    return wrong(format!("pointer {number} is below the one before it, {least}"));
                }
                Some(number) if number > count as i64 + 1 => {
                    return wrong(format!("pointer {number} is above {}, the number of entries + 1", count + 1));
                }
                Some(number) => ptr.push(number as usize - 1),
                None => return wrong(format!("{} is no pointer", shown(field.of(card)))),
            }
            Ok(())
        })?;
        match ptr.last() {
            Some(&last) if last == count => Ok(ptr),
            last => {
                let last = last.map_or(0, |last| last + 1);
                Err(at(self.lines.number, format!("pointers must end with {}, got {last}", count + 1)))
            }
        }
    }

    /// Right-hand sides, guesses and solutions.
    fn vectors(&mut self) -> Parsed<Vectors> {
        let Some((kind, many, count)) = self.header.rhs else { return Ok(Vectors::default()) };
        let (rows, text) = (self.header.rows, self.text);
        let len = many.checked_mul(rows).filter(|&len| len <= text);
        let Some(len) = len.filter(|_| count <= text && many < text) else {
            let sentence =
                format!("{many} right-hand sides of {rows} values, for which the {text} bytes of data are too few");
            return Err(at(5, sentence));
        };
        let start = self.lines.number;
        let mut vectors = Vectors { len: rows, ..Vectors::default() };
        let fields = self.fields(3)?;
        vectors.rhs = if kind[0] == b'F' { self.full(&fields, len)? } else { self.by_pattern(&fields, many, count)? };
        if kind[1] == b'G' {
            vectors.guess = self.full(&fields, len)?;
        }
        if kind[2] == b'X' {
            vectors.solution = self.full(&fields, len)?;
        }
        let (announced, read) = (self.header.cards[3], self.lines.number - start);
        if announced != read {
            let sentence = format!("{announced} cards of right-hand sides are announced, they take {read}");
            return Err(whole(RRB_ERR_PARSE, format!("line 2: {sentence}")));
        }
        Ok(vectors)
    }

    fn full(&mut self, fields: &[Field], len: usize) -> Parsed<Vec<f64>> {
        let mut values = Vec::new();
        reserve(&mut values, len, RHS)?;
        self.read(fields, len, |field, card, line| {
            values.push(real(field, card, line)?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Right-hand sides by their entries, as the matrix is.
    fn by_pattern(&mut self, fields: &[Field], many: usize, count: usize) -> Parsed<Vec<f64>> {
        let rows = self.header.rows;
        let ptr = self.pointers(3, many, count)?;
        let row_fields = self.fields(1)?;
        let mut places = Vec::new();
        reserve(&mut places, count, RHS)?;
        let mut column = 0;
        self.read(&row_fields, count, |field, card, line| {
            while ptr[column + 1] <= places.len() {
                column += 1;
            }
            match field.whole(card) {
                Some(row) if row >= 1 && row as u64 <= rows as u64 => places.push(column * rows + row as usize - 1),
                _ => return Err(at(line, format!("{} is no row in [1, {rows}]", shown(field.of(card))))),
            }
            Ok(())
        })?;
        let mut values = zeroed(many * rows, RHS)?;
        let mut places = places.into_iter();
        self.read(fields, count, |field, card, line| {
            if let Some(place) = places.next() {
                values[place] = real(field, card, line)?;
            }
            Ok(())
        })?;
        Ok(values)
    }
}

fn real(field: &Field, card: &[u8], line: usize) -> Parsed<f64> {
    match field.real(card) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(status_at(
            RRB_ERR_NOT_FINITE,
            line,
            format!("{} is not finite in double precision", shown(field.of(card))),
        )),
        None if not_finite(field.of(card)) => {
            Err(status_at(RRB_ERR_NOT_FINITE, line, format!("{} is not finite", shown(field.of(card)))))
        }
        None => Err(at(line, format!("{} is no number", shown(field.of(card))))),
    }
}

/// NaN and infinity as Fortran writes them.
fn not_finite(field: &[u8]) -> bool {
    let word = field.trim_ascii().to_ascii_lowercase();
    let word = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(&word);
    [&b"nan"[..], b"inf", b"infinity"].contains(&word)
}
