//! MatrixMarket files (Boisvert, Pozo, Remington, NISTIR 5935, 1996). The first line is `%%MatrixMarket matrix`, then
//! `coordinate` or `array`, then `real`, `integer` or `pattern`, then `general`, `symmetric` or `skew-symmetric`.
//! Comments (%) follow, then a line of counts, then one entry per line.

use super::array::{ARRAY, assemble_array};
use super::fault::{COMPLEX, at, error_with_status};
use super::lines::{Lines, shown, words};
use super::loaded::Loaded;
use super::mirror::{Symmetry, matrix};
use super::number::{real_number, whole_number};
use crate::base::heap::boxed;
use crate::base::index::{Index, is_narrow};
use crate::base::workers::{Parts, Workers};
use crate::error::{RRB_ERR_NOT_FINITE, RRB_ERR_UNSUPPORTED, Result, push, zeroed};
use crate::sparse::assemble::{Assembled, Triplets};
use crate::sparse::matrix::Width;

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Real,
    Integer,
    Pattern,
}

/// Contents of the first line.
#[derive(Clone, Copy)]
struct Banner {
    coordinate: bool,
    field: Field,
    symmetry: Symmetry,
}

/// Parses the text of a MatrixMarket file, which begins with %%.
pub fn parse(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    let banner = Banner::of(lines.next().unwrap_or_default())?;
    let counts = counts(&mut lines, if banner.coordinate { 3 } else { 2 })?;
    let (rows, cols) = (counts[0], counts[1]);
    let line = lines.number;
    if banner.symmetry != Symmetry::General && rows != cols {
        return Err(at(line, format_args!("a symmetric matrix is square, got {rows} x {cols}")));
    }
    let announced = if banner.coordinate { counts[2].into() } else { banner.values(rows, cols) };
    // Smallest number of bytes per entry: a row, a blank, a column and a line end for a pattern. A value adds a blank
    // and a digit. The line of an array has at least a digit and a line end.
    let shortest = match (banner.coordinate, banner.field) {
        (true, Field::Pattern) => 4,
        (true, _) => 6,
        (false, _) => 2,
    };
    // The 1 accounts for a last line without a line end.
    if announced > (lines.left() as u128 + 1) / shortest {
        let left = lines.left();
        return Err(at(
            line,
            format_args!("{announced} entries are announced, for which the {left} bytes after it are too few"),
        ));
    }
    let (rows, cols, announced) = (rows as usize, cols as usize, announced as usize);
    let read = Read { banner, lines, rows, cols, announced };
    if is_narrow(rows, cols) { read.matrix::<u32>(workers) } else { read.matrix::<u64>(workers) }
}

impl Banner {
    fn of(line: &[u8]) -> Result<Self> {
        let mut words = words(line);
        let mut next = || words.next().unwrap_or_default();
        let [mark, object, layout, field, symmetry, rest] = std::array::from_fn(|_| next());
        let one_of =
            |what: &str, all: &str, word: &[u8]| Err(at(1, format_args!("{what} must be {all}, got {}", shown(word))));
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if !is(mark, "%%matrixmarket") || !is(object, "matrix") || !rest.is_empty() {
            return Err(at(1, "must be such as '%%MatrixMarket matrix coordinate real general'"));
        }
        if is(field, "complex") || is(symmetry, "hermitian") {
            return Err(error_with_status(RRB_ERR_UNSUPPORTED, 1, COMPLEX));
        }
        let coordinate = match layout {
            word if is(word, "coordinate") => true,
            word if is(word, "array") => false,
            word => return one_of("the layout", "coordinate or array", word),
        };
        let field = match field {
            word if is(word, "real") || is(word, "double") => Field::Real,
            word if is(word, "integer") || is(word, "unsigned-integer") => Field::Integer,
            word if is(word, "pattern") => Field::Pattern,
            word => return one_of("the field", "real, integer or pattern", word),
        };
        let symmetry = match symmetry {
            word if is(word, "general") => Symmetry::General,
            word if is(word, "symmetric") => Symmetry::Symmetric,
            word if is(word, "skew-symmetric") => Symmetry::Skew,
            word => return one_of("the symmetry", "general, symmetric or skew-symmetric", word),
        };
        match (field, coordinate, symmetry) {
            (Field::Pattern, false, _) => Err(at(1, "an array has values: 'array pattern' is none")),
            (Field::Pattern, _, Symmetry::Skew) => {
                Err(at(1, "a pattern has no signs: 'pattern skew-symmetric' is none"))
            }
            _ => Ok(Self { coordinate, field, symmetry }),
        }
    }

    /// Returns the number of values of an array.
    fn values(&self, rows: u64, cols: u64) -> u128 {
        let (rows, cols) = (u128::from(rows), u128::from(cols));
        match self.symmetry {
            Symmetry::General => rows * cols,
            Symmetry::Symmetric => rows * (rows + 1) / 2,
            Symmetry::Skew => rows * rows.saturating_sub(1) / 2,
        }
    }
}

/// Finds and parses the next data line, which must contain exactly `many` counts.
fn counts(lines: &mut Lines, many: usize) -> Result<[u64; 3]> {
    let Some(line) = lines.find(|line| is_data(line)) else {
        return Err(at(lines.number, "the file ends before the line of rows and columns"));
    };
    let mut counts = [0; 3];
    let mut words = words(line);
    for count in &mut counts[..many] {
        let Some(word) = words.next() else {
            return Err(at(lines.number, format_args!("must have {many} counts")));
        };
        *count = match whole_number(word) {
            Some(number) if number >= 0 => number as u64,
            _ => return Err(at(lines.number, format_args!("{} is no count", shown(word)))),
        };
    }
    match words.next() {
        None => Ok(counts),
        Some(word) => Err(at(lines.number, format_args!("has more than {many} counts: {}", shown(word)))),
    }
}

/// Returns whether a line is neither a comment nor blank.
fn is_data(line: &[u8]) -> bool {
    !matches!(line.trim_ascii_start().first(), None | Some(b'%'))
}

/// The lines after the line of counts, and the contents of the lines before.
struct Read<'a> {
    banner: Banner,
    lines: Lines<'a>,
    rows: usize,
    cols: usize,
    announced: usize,
}

/// Name of an allocation in error messages.
const PIECES: &str = "pieces of a file";

impl Read<'_> {
    fn matrix<I: Width>(&self, workers: &mut Workers) -> Result<Loaded> {
        let matrix = if self.banner.coordinate { self.coordinate::<I>(workers)? } else { self.array(workers)? };
        Ok(Loaded::of(boxed(matrix, "a matrix")?))
    }

    /// Divides the lines into pieces for the threads. Returns each piece with its number of entries. The entries of a
    /// single piece are not counted; their number is then the announced one.
    fn pieces(&self, workers: &mut Workers) -> Result<Vec<(Lines<'_>, usize)>> {
        let mut pieces = Vec::new();
        let count = workers.pieces(self.lines.left());
        if count == 1 {
            push(&mut pieces, (self.lines, self.announced), PIECES)?;
            return Ok(pieces);
        }
        let counted = workers.map(self.lines.pieces(count), |part| {
            let (mut lines, mut count) = (part, 0);
            while lines.find(|line| is_data(line)).is_some() {
                count += 1;
            }
            (part, count, lines.number)
        })?;
        let mut number = self.lines.number;
        for (mut part, count, lines) in counted {
            part.number = number;
            number += lines;
            push(&mut pieces, (part, count), PIECES)?;
        }
        Ok(pieces)
    }

    /// Calls `take` with the words and the line number of each entry. For each piece of the file, `part` returns the
    /// destination of this number of entries. `take` receives the destination and the entry's index in it. Returns an
    /// error if the number of entries is not as announced, or if a line has more words than `take` reads.
    fn for_each_entry<T: Send>(
        &self,
        workers: &mut Workers,
        mut part: impl FnMut(usize) -> T,
        take: impl Fn(&mut T, usize, &mut dyn Iterator<Item = &[u8]>, usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let (mut left, mut pieces) = (self.announced, Vec::new());
        for (lines, count) in self.pieces(workers)? {
            let room = count.min(left);
            left -= room;
            push(&mut pieces, (lines, room, part(room)), PIECES)?;
        }
        let read = workers.map(pieces, |(mut lines, room, mut to)| {
            let mut count = 0;
            while let Some(line) = lines.find(|line| is_data(line)) {
                let number = lines.number;
                if count == room {
                    return Err(at(
                        number,
                        format_args!("more than the {} entries that are announced", self.announced),
                    ));
                }
                let mut words = words(line);
                take(&mut to, count, &mut words, number)?;
                if let Some(word) = words.next() {
                    return Err(at(number, format_args!("has more than an entry: {}", shown(word))));
                }
                count += 1;
            }
            Ok((count, lines.number))
        })?;
        let (mut count, mut line) = (0, self.lines.number);
        for piece in read {
            let (entries, last) = piece?;
            (count, line) = (count + entries, last);
        }
        if count == self.announced {
            return Ok(());
        }
        Err(at(line, format_args!("the file ends after {count} of the {} entries announced", self.announced)))
    }

    fn coordinate<I: Index>(&self, workers: &mut Workers) -> Result<Assembled<I>> {
        let Banner { field, symmetry, .. } = self.banner;
        let mut entries = Triplets::<I>::zeroed(self.announced)?;
        self.for_each_entry(workers, entries.parts(), |to, k, words, line| {
            let i = place(words.next(), line, "row", self.rows)?;
            let j = place(words.next(), line, "column", self.cols)?;
            let value = if field == Field::Pattern { 1.0 } else { self.value(words.next(), line)? };
            if symmetry == Symmetry::Skew && i == j && value != 0.0 {
                return Err(at(line, format_args!("the diagonal of a skew-symmetric matrix is 0, got {value}")));
            }
            (to.rows[k], to.cols[k], to.values[k]) = (I::of(i), I::of(j), value);
            Ok(())
        })?;
        matrix(entries, symmetry, [self.rows, self.cols], |k| self.line_of(k), workers)
    }

    /// Reads an array by columns. For symmetric matrices, the file has the lower triangle; for skew-symmetric ones,
    /// without the diagonal.
    fn array<I: Index>(&self, workers: &mut Workers) -> Result<Assembled<I>> {
        let mut values: Vec<f64> = zeroed(self.announced, ARRAY)?;
        let mut left = Parts(&mut values);
        self.for_each_entry(
            workers,
            |count| left.next(count),
            |to, k, words, line| {
                to[k] = self.value(words.next(), line)?;
                Ok(())
            },
        )?;
        let (rows, cols, symmetry) = (self.rows, self.cols, self.banner.symmetry);
        // Of the columns before column j, the file omits j (j - 1) / 2 positions if the matrix is symmetric, and
        // j (j + 1) / 2 positions if it is skew-symmetric.
        let value = |i: usize, j: usize| match symmetry {
            Symmetry::General => values[j * rows + i],
            Symmetry::Symmetric => {
                let (i, j) = (i.max(j), i.min(j));
                values[j * rows - j * j.saturating_sub(1) / 2 + i - j]
            }
            Symmetry::Skew => {
                let (low, high) = (i.min(j), i.max(j));
                let value = values[low * rows - low * (low + 1) / 2 + high - low - 1];
                if i > j { value } else { -value }
            }
        };
        let has = |i: usize, j: usize| symmetry != Symmetry::Skew || i != j;
        let count = if symmetry == Symmetry::Skew { rows * rows.saturating_sub(1) } else { rows * cols };
        assemble_array(rows, cols, count, has, value)
    }

    fn value(&self, word: Option<&[u8]>, line: usize) -> Result<f64> {
        let Some(word) = word else { return Err(at(line, "has no value")) };
        let value = match self.banner.field {
            Field::Integer => {
                std::str::from_utf8(word).ok().and_then(|word| word.parse::<i128>().ok()).map(|n| n as f64)
            }
            _ => real_number(word),
        };
        match value {
            Some(value) if value.is_finite() => Ok(value),
            Some(_) => Err(error_with_status(
                RRB_ERR_NOT_FINITE,
                line,
                format_args!("{} is not finite in double precision", shown(word)),
            )),
            None => Err(at(line, format_args!("{} is no {}number", shown(word), self.integer_word()))),
        }
    }

    fn integer_word(&self) -> &'static str {
        if self.banner.field == Field::Integer { "whole " } else { "" }
    }

    /// Returns the line of entry k.
    fn line_of(&self, k: usize) -> usize {
        let mut lines = self.lines;
        (0..=k).for_each(|_| _ = lines.find(|line| is_data(line)));
        lines.number
    }
}

/// Parses a row or column number, counted from 1, and returns the index from 0.
fn place(word: Option<&[u8]>, line: usize, what: &str, extent: usize) -> Result<usize> {
    let Some(word) = word else { return Err(at(line, format_args!("has no {what}"))) };
    match whole_number(word) {
        Some(number) if number < 1 => Err(at(line, format_args!("{what} {number} is below 1"))),
        Some(number) if number as u64 > extent as u64 => {
            Err(at(line, format_args!("{what} {number} is above {extent}")))
        }
        Some(number) => Ok(number as usize - 1),
        None => Err(at(line, format_args!("{} is no {what}", shown(word)))),
    }
}
