//! MatrixMarket files (Boisvert, Pozo, Remington, NISTIR 5935, 1996). The first line contains `%%MatrixMarket matrix`,
//! then `coordinate` or `array`, then `real`, `integer` or `pattern`, then `general`, `symmetric` or `skew-symmetric`.
//! Comments (%) follow, then a line with the numbers of rows, columns and (for `coordinate`) entries, then one entry
//! per line.

use super::array::{ALLOCATION_NAME as ARRAY_NAME, assemble_array};
use super::fault::{COMPLEX_MESSAGE, line_error, line_error_with_status};
use super::lines::{Lines, quoted, words};
use super::loaded::Loaded;
use super::mirror::{Symmetry, build_matrix};
use super::number::{real_number, whole_number};
use crate::base::heap::boxed;
use crate::base::index::{Index, fits_u32};
use crate::base::workers::{SliceSplitter, Workers};
use crate::error::{RRB_ERR_NOT_FINITE, RRB_ERR_UNSUPPORTED, Result, push, zeroed};
use crate::sparse::assemble::{AssembledMatrix, Triplets};
use crate::sparse::matrix::MatrixIndex;

#[derive(Clone, Copy, PartialEq)]
enum ValueField {
    Real,
    Integer,
    Pattern,
}

/// Contents of the first line.
#[derive(Clone, Copy)]
struct Banner {
    is_coordinate: bool,
    field: ValueField,
    symmetry: Symmetry,
}

/// Parses the text of a MatrixMarket file, which begins with %%.
pub fn parse(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    let mut lines = Lines::new(text);
    let banner = Banner::of(lines.next().unwrap_or_default())?;
    let matrix_sizes = parse_counts(&mut lines, if banner.is_coordinate { 3 } else { 2 })?;
    let (rows, cols) = (matrix_sizes[0], matrix_sizes[1]);
    let line = lines.number;
    if banner.symmetry != Symmetry::General && rows != cols {
        return Err(line_error(line, format_args!("a symmetric matrix is square, got {rows} x {cols}")));
    }
    let announced_count =
        if banner.is_coordinate { matrix_sizes[2].into() } else { banner.array_value_count(rows, cols) };
    // Smallest number of bytes per entry. An entry of a pattern has a row, a blank, a column and a line end. A value
    // adds a blank and a digit. An entry of an array has a digit and a line end.
    let min_entry_bytes = match (banner.is_coordinate, banner.field) {
        (true, ValueField::Pattern) => 4,
        (true, _) => 6,
        (false, _) => 2,
    };
    // The 1 accounts for a last line without a line end.
    if announced_count > (lines.remaining_bytes() as u128 + 1) / min_entry_bytes {
        let remaining_bytes = lines.remaining_bytes();
        return Err(line_error(
            line,
            format_args!(
                "{announced_count} entries are announced, for which the {remaining_bytes} bytes after it are too few"
            ),
        ));
    }
    let (rows, cols, announced_count) = (rows as usize, cols as usize, announced_count as usize);
    let entry_lines = EntryLines { banner, lines, rows, cols, announced_count };
    if fits_u32(rows, cols) { entry_lines.read_matrix::<u32>(workers) } else { entry_lines.read_matrix::<u64>(workers) }
}

impl Banner {
    fn of(line: &[u8]) -> Result<Self> {
        let mut words = words(line);
        let mut next_word = || words.next().unwrap_or_default();
        let [first_word, second_word, layout, field, symmetry, extra_word] = std::array::from_fn(|_| next_word());
        let unknown_word_error = |argument_name: &str, allowed_words: &str, word: &[u8]| {
            Err(line_error(1, format_args!("{argument_name} must be {allowed_words}, got {}", quoted(word))))
        };
        let equals_word = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if !equals_word(first_word, "%%matrixmarket") || !equals_word(second_word, "matrix") || !extra_word.is_empty() {
            return Err(line_error(1, "must be such as '%%MatrixMarket matrix coordinate real general'"));
        }
        if equals_word(field, "complex") || equals_word(symmetry, "hermitian") {
            return Err(line_error_with_status(RRB_ERR_UNSUPPORTED, 1, COMPLEX_MESSAGE));
        }
        let is_coordinate = match layout {
            word if equals_word(word, "coordinate") => true,
            word if equals_word(word, "array") => false,
            word => return unknown_word_error("the layout", "coordinate or array", word),
        };
        let field = match field {
            word if equals_word(word, "real") || equals_word(word, "double") => ValueField::Real,
            word if equals_word(word, "integer") || equals_word(word, "unsigned-integer") => ValueField::Integer,
            word if equals_word(word, "pattern") => ValueField::Pattern,
            word => return unknown_word_error("the field", "real, integer or pattern", word),
        };
        let symmetry = match symmetry {
            word if equals_word(word, "general") => Symmetry::General,
            word if equals_word(word, "symmetric") => Symmetry::Symmetric,
            word if equals_word(word, "skew-symmetric") => Symmetry::Skew,
            word => return unknown_word_error("the symmetry", "general, symmetric or skew-symmetric", word),
        };
        match (field, is_coordinate, symmetry) {
            (ValueField::Pattern, false, _) => Err(line_error(1, "an array has values: 'array pattern' is none")),
            (ValueField::Pattern, _, Symmetry::Skew) => {
                Err(line_error(1, "a pattern has no signs: 'pattern skew-symmetric' is none"))
            }
            _ => Ok(Self { is_coordinate, field, symmetry }),
        }
    }

    /// Returns the number of values in a file with the layout `array`.
    fn array_value_count(&self, rows: u64, cols: u64) -> u128 {
        let (rows, cols) = (u128::from(rows), u128::from(cols));
        match self.symmetry {
            Symmetry::General => rows * cols,
            Symmetry::Symmetric => rows * (rows + 1) / 2,
            Symmetry::Skew => rows * rows.saturating_sub(1) / 2,
        }
    }
}

/// Finds and parses the next data line, which must contain exactly `count` counts.
fn parse_counts(lines: &mut Lines, count: usize) -> Result<[u64; 3]> {
    let Some(line) = lines.find(|line| is_data(line)) else {
        return Err(line_error(lines.number, "the file ends before the line of rows and columns"));
    };
    let mut counts = [0; 3];
    let mut words = words(line);
    for number in &mut counts[..count] {
        let Some(word) = words.next() else {
            return Err(line_error(lines.number, format_args!("must have {count} counts")));
        };
        *number = match whole_number(word) {
            Some(value) if value >= 0 => value as u64,
            _ => return Err(line_error(lines.number, format_args!("{} is no count", quoted(word)))),
        };
    }
    match words.next() {
        None => Ok(counts),
        Some(word) => Err(line_error(lines.number, format_args!("has more than {count} counts: {}", quoted(word)))),
    }
}

/// Returns whether a line is neither a comment nor blank.
fn is_data(line: &[u8]) -> bool {
    !matches!(line.trim_ascii_start().first(), None | Some(b'%'))
}

/// The lines after the line of counts, with the contents of the first line and of the line of counts.
struct EntryLines<'a> {
    banner: Banner,
    lines: Lines<'a>,
    rows: usize,
    cols: usize,
    announced_count: usize,
}

/// Name of an allocation in error messages.
const PIECES_NAME: &str = "pieces of a file";

impl EntryLines<'_> {
    fn read_matrix<I: MatrixIndex>(&self, workers: &mut Workers) -> Result<Loaded> {
        let matrix =
            if self.banner.is_coordinate { self.read_coordinate::<I>(workers)? } else { self.read_array(workers)? };
        Ok(Loaded::of(boxed(matrix, "a matrix")?))
    }

    /// Divides the lines into groups of consecutive lines (pieces), which the threads process. Returns each piece with
    /// its number of entries. If there is only one piece, its entries are not counted, and the announced number is
    /// returned.
    fn count_pieces(&self, workers: &mut Workers) -> Result<Vec<(Lines<'_>, usize)>> {
        let mut pieces = Vec::new();
        let count = workers.piece_count(self.lines.remaining_bytes());
        if count == 1 {
            push(&mut pieces, (self.lines, self.announced_count), PIECES_NAME)?;
            return Ok(pieces);
        }
        let counted_pieces = workers.map(self.lines.split(count), |piece| {
            let (mut lines, mut count) = (piece, 0);
            while lines.find(|line| is_data(line)).is_some() {
                count += 1;
            }
            (piece, count, lines.number)
        })?;
        let mut first_line = self.lines.number;
        for (mut piece, count, lines) in counted_pieces {
            piece.number = first_line;
            first_line += lines;
            push(&mut pieces, (piece, count), PIECES_NAME)?;
        }
        Ok(pieces)
    }

    /// Parses all entries. For a piece of n entries, `take_destination(n)` returns the memory to which the entries are
    /// written. For each entry, `parse_entry` receives this destination, the index of the entry in the destination, the
    /// words of the line, and the line number. Returns an error if the number of entries differs from the announced
    /// number, or if a line has more words than `parse_entry` reads.
    fn for_each_entry<T: Send>(
        &self,
        workers: &mut Workers,
        mut take_destination: impl FnMut(usize) -> T,
        parse_entry: impl Fn(&mut T, usize, &mut dyn Iterator<Item = &[u8]>, usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let (mut remaining_entries, mut pieces) = (self.announced_count, Vec::new());
        for (lines, count) in self.count_pieces(workers)? {
            let capacity = count.min(remaining_entries);
            remaining_entries -= capacity;
            push(&mut pieces, (lines, capacity, take_destination(capacity)), PIECES_NAME)?;
        }
        let piece_results = workers.map(pieces, |(mut lines, capacity, mut destination)| {
            let mut count = 0;
            while let Some(line) = lines.find(|line| is_data(line)) {
                let line_number = lines.number;
                if count == capacity {
                    return Err(line_error(
                        line_number,
                        format_args!("more than the {} entries that are announced", self.announced_count),
                    ));
                }
                let mut words = words(line);
                parse_entry(&mut destination, count, &mut words, line_number)?;
                if let Some(word) = words.next() {
                    return Err(line_error(line_number, format_args!("has more than an entry: {}", quoted(word))));
                }
                count += 1;
            }
            Ok((count, lines.number))
        })?;
        let (mut count, mut line) = (0, self.lines.number);
        for piece in piece_results {
            let (entries, last_line) = piece?;
            (count, line) = (count + entries, last_line);
        }
        if count == self.announced_count {
            return Ok(());
        }
        Err(line_error(
            line,
            format_args!("the file ends after {count} of the {} entries announced", self.announced_count),
        ))
    }

    fn read_coordinate<I: Index>(&self, workers: &mut Workers) -> Result<AssembledMatrix<I>> {
        let Banner { field, symmetry, .. } = self.banner;
        let mut entries = Triplets::<I>::zeroed(self.announced_count)?;
        self.for_each_entry(workers, entries.slice_splitter(), |destination, k, words, line| {
            let i = parse_index(words.next(), line, "row", self.rows)?;
            let j = parse_index(words.next(), line, "column", self.cols)?;
            let value = if field == ValueField::Pattern { 1.0 } else { self.parse_value(words.next(), line)? };
            if symmetry == Symmetry::Skew && i == j && value != 0.0 {
                return Err(line_error(
                    line,
                    format_args!("the diagonal of a skew-symmetric matrix is 0, got {value}"),
                ));
            }
            (destination.rows[k], destination.cols[k], destination.values[k]) = (I::of(i), I::of(j), value);
            Ok(())
        })?;
        build_matrix(entries, symmetry, [self.rows, self.cols], |k| self.line_of(k), workers)
    }

    /// Reads a dense matrix, which is stored by columns. For symmetric matrices, the file contains only the lower
    /// triangle; for skew-symmetric matrices, only the strictly lower triangle.
    fn read_array<I: Index>(&self, workers: &mut Workers) -> Result<AssembledMatrix<I>> {
        let mut values: Vec<f64> = zeroed(self.announced_count, ARRAY_NAME)?;
        let mut remaining_values = SliceSplitter(&mut values);
        self.for_each_entry(
            workers,
            |count| remaining_values.take_front(count),
            |destination, k, words, line| {
                destination[k] = self.parse_value(words.next(), line)?;
                Ok(())
            },
        )?;
        let (rows, cols, symmetry) = (self.rows, self.cols, self.banner.symmetry);
        // In the columns before column j, the file omits j (j - 1) / 2 values of a symmetric matrix, and j (j + 1) / 2
        // values of a skew-symmetric matrix.
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
        let has_entry = |i: usize, j: usize| symmetry != Symmetry::Skew || i != j;
        let count = if symmetry == Symmetry::Skew { rows * rows.saturating_sub(1) } else { rows * cols };
        assemble_array(rows, cols, count, has_entry, value)
    }

    fn parse_value(&self, word: Option<&[u8]>, line: usize) -> Result<f64> {
        let Some(word) = word else { return Err(line_error(line, "has no value")) };
        let value = match self.banner.field {
            ValueField::Integer => {
                std::str::from_utf8(word).ok().and_then(|word| word.parse::<i128>().ok()).map(|n| n as f64)
            }
            _ => real_number(word),
        };
        match value {
            Some(value) if value.is_finite() => Ok(value),
            Some(_) => Err(line_error_with_status(
                RRB_ERR_NOT_FINITE,
                line,
                format_args!("{} is not finite in double precision", quoted(word)),
            )),
            None => Err(line_error(line, format_args!("{} is no {}number", quoted(word), self.integer_word()))),
        }
    }

    fn integer_word(&self) -> &'static str {
        if self.banner.field == ValueField::Integer { "whole " } else { "" }
    }

    /// Returns the line number of entry k.
    fn line_of(&self, k: usize) -> usize {
        let mut lines = self.lines;
        (0..=k).for_each(|_| _ = lines.find(|line| is_data(line)));
        lines.number
    }
}

/// Parses a row or column number, counted from 1, and returns the index from 0.
fn parse_index(word: Option<&[u8]>, line: usize, index_name: &str, extent: usize) -> Result<usize> {
    let Some(word) = word else { return Err(line_error(line, format_args!("has no {index_name}"))) };
    match whole_number(word) {
        Some(number) if number < 1 => Err(line_error(line, format_args!("{index_name} {number} is below 1"))),
        Some(number) if number as u64 > extent as u64 => {
            Err(line_error(line, format_args!("{index_name} {number} is above {extent}")))
        }
        Some(number) => Ok(number as usize - 1),
        None => Err(line_error(line, format_args!("{} is no {index_name}", quoted(word)))),
    }
}
