//! The cards after the header: pointers, rows, values, right-hand sides.

use super::header::Header;
use crate::base::heap::boxed;
use crate::base::workers::{Parts, Workers};
use crate::error::{RRB_ERR_NOT_FINITE, Result, collected, push, zeroed};
use crate::files::array::assemble_array;
use crate::files::fault::{at, error_with_status};
use crate::files::fortran::{Field, fields};
use crate::files::lines::{Lines, shown};
use crate::files::loaded::{Loaded, Vectors, Warning};
use crate::files::mirror::{Symmetry, matrix};
use crate::sparse::assemble::Triplets;
use crate::sparse::matrix::Width;

/// Names of allocations in error messages.
const POINTERS_OF_FILE: &str = "column pointers of a file";
const RHS_OF_FILE: &str = "right-hand sides of a file";
const PIECES: &str = "pieces of a file";

/// Reader of the cards after the header.
pub struct Data<'a, 'w> {
    /// Number of bytes of these cards.
    text_bytes: usize,
    header: Header<'a>,
    lines: Lines<'a>,
    workers: &'w mut Workers,
}

/// Kinds of data cards, in the order of the header's counts.
const KINDS_OF_CARDS: [&str; 4] = ["pointers", "rows", "values", "right-hand sides"];

impl<'a, 'w> Data<'a, 'w> {
    pub fn new(header: Header<'a>, lines: Lines<'a>, workers: &'w mut Workers) -> Self {
        Self { text_bytes: lines.left(), header, lines, workers }
    }

    pub fn matrix<I: Width>(mut self) -> Result<Loaded> {
        let Header { rows, cols, entries: count, symmetry, values, .. } = self.header;
        let ptr = self.pointers(0, cols, count)?;
        let mut entries = Triplets::<I>::zeroed(count)?;
        let first = self.lines.number + 1;
        let row_fields = self.fields(1)?;
        self.check_cards(1, count, row_fields.len())?;
        self.read(&row_fields, &mut entries.rows, |field, card, line| match field.integer(card) {
            Some(row) if row >= 1 && row as u64 <= rows as u64 => Ok(I::of(row as usize - 1)),
            Some(row) => Err(at(line, format_args!("row {row} must lie in [1, {rows}]"))),
            None => Err(at(line, format_args!("{} is no row", shown(field.of(card))))),
        })?;
        for (column, range) in ptr.windows(2).enumerate() {
            entries.cols[range[0]..range[1]].fill(I::of(column));
        }
        if values {
            let value_fields = self.fields(2)?;
            self.check_cards(2, count, value_fields.len())?;
            self.read(&value_fields, &mut entries.values, real)?;
        } else {
            entries.values.fill(1.0);
        }
        let (vectors, warning) = self.vectors()?;
        self.end()?;
        let line_of = |k: usize| first + k / row_fields.len();
        let on_diagonal = |k: &usize| entries.rows[*k] == entries.cols[*k] && entries.values[*k] != 0.0;
        if symmetry == Symmetry::Skew
            && let Some(k) = (0..count).find(on_diagonal)
        {
            return Err(at(
                line_of(k),
                format_args!("the diagonal of a skew-symmetric matrix is 0, got {}", entries.values[k]),
            ));
        }
        let matrix = matrix(entries, symmetry, [rows, cols], line_of, self.workers)?;
        Ok(Loaded { matrix: boxed(matrix, "a matrix")?, vectors, warning })
    }

    /// Reads a dense matrix: the values of all positions, column by column.
    pub fn dense<I: Width>(mut self) -> Result<Loaded> {
        let Header { rows, cols, entries, .. } = self.header;
        let fields = self.fields(2)?;
        let values = self.read_dense(&fields, entries)?;
        self.end()?;
        let matrix = assemble_array::<I>(rows, cols, entries, |_, _| true, |i, j| values[j * rows + i])?;
        Ok(Loaded::of(boxed(matrix, "a matrix")?))
    }

    /// Checks that only blank cards follow.
    fn end(&mut self) -> Result<()> {
        match self.lines.find(|line| !line.trim_ascii().is_empty()) {
            None => Ok(()),
            Some(line) => {
                Err(at(self.lines.number, format_args!("more cards than are announced: {}", shown(line.trim_ascii()))))
            }
        }
    }

    /// Returns the fields of the cards of kind `which`, an index into `KINDS_OF_CARDS`.
    fn fields(&self, which: usize) -> Result<Vec<Field>> {
        let format = self.header.formats[which];
        let unknown = || {
            at(self.header.size_card + 1, format_args!("{} is no format of {}", shown(format), KINDS_OF_CARDS[which]))
        };
        fields(format, which < 2)?.ok_or_else(unknown)
    }

    /// Checks that `count` fields need as many cards as the header announces, if it announces numbers of cards.
    fn check_cards(&self, which: usize, count: usize, per_card: usize) -> Result<()> {
        let needed = count.div_ceil(per_card);
        let announced = self.header.cards.map_or(needed, |cards| cards[which]);
        if announced == needed {
            return Ok(());
        }
        Err(at(
            2,
            format_args!("{announced} cards of {} are announced, {count} of them take {needed}", KINDS_OF_CARDS[which]),
        ))
    }

    /// Reads the next fields, as many as `to` has elements. `take` converts each field. It receives the field, the card
    /// and its line number.
    fn read<T: Send>(
        &mut self,
        fields: &[Field],
        to: &mut [T],
        take: impl Fn(&Field, &[u8], usize) -> Result<T> + Sync,
    ) -> Result<()> {
        let (mut left, mut parts, mut pieces) = (to.len(), Parts(to), Vec::new());
        let most = left.div_ceil(fields.len()).div_ceil(self.workers.pieces(self.lines.left()));
        while left > 0 {
            let piece = self.lines;
            let cards = self.lines.by_ref().take(most.min(left.div_ceil(fields.len()))).count();
            let numbers = left.min(cards * fields.len());
            if numbers == 0 {
                break;
            }
            left -= numbers;
            push(&mut pieces, (piece, parts.next(numbers)), PIECES)?;
        }
        let read = self.workers.map(pieces, |(mut lines, to)| {
            for to in to.chunks_mut(fields.len()) {
                let card = lines.next().unwrap_or_default();
                for (to, field) in to.iter_mut().zip(fields) {
                    *to = take(field, card, lines.number)?;
                }
            }
            Ok(())
        })?;
        read.into_iter().collect::<Result<()>>()?;
        match left {
            0 => Ok(()),
            _ => Err(at(self.lines.number, format_args!("the file ends {left} numbers too early"))),
        }
    }

    /// Reads the pointers of `lanes` columns with `count` entries, and converts them to base 0. `which` is the index in
    /// `KINDS_OF_CARDS` of the data that the pointers belong to: 0 for the matrix, 3 for right-hand sides.
    fn pointers(&mut self, which: usize, lanes: usize, count: usize) -> Result<Vec<usize>> {
        let fields = self.fields(0)?;
        if which == 0 {
            self.check_cards(0, lanes + 1, fields.len())?;
        }
        let first = self.lines.number + 1;
        let mut numbers: Vec<i64> = zeroed(lanes + 1, POINTERS_OF_FILE)?;
        self.read(&fields, &mut numbers, |field, card, line| {
            field.integer(card).ok_or_else(|| at(line, format_args!("{} is no pointer", shown(field.of(card)))))
        })?;
        // The order is checked after all pointers have been parsed, so a malformed number is reported before a wrong
        // order.
        let mut least = 1;
        for (k, &number) in numbers.iter().enumerate() {
            let line = first + k / fields.len();
            if k == 0 && number != 1 {
                return Err(at(line, format_args!("pointers begin with 1, got {number}")));
            }
            if number < least {
                return Err(at(line, format_args!("pointer {number} is below the one before it, {least}")));
            }
            if number > count as i64 + 1 {
                let end = count + 1;
                return Err(at(line, format_args!("pointer {number} is above {end}, the number of entries + 1")));
            }
            least = number;
        }
        if least != count as i64 + 1 {
            return Err(at(self.lines.number, format_args!("pointers must end with {}, got {least}", count + 1)));
        }
        collected(numbers.into_iter().map(|number| number as usize - 1), POINTERS_OF_FILE)
    }

    /// Reads right-hand sides, initial guesses and solutions. Some files, such as SuiteSparse's lp_afiro, announce a
    /// wrong number of cards for these vectors. The number of cards is therefore computed from the sizes of the
    /// vectors. If the header announces another number, the function returns a warning. If it announces more cards, and
    /// the cards that follow are not blank, the function returns an error.
    fn vectors(&mut self) -> Result<(Vectors, Option<Warning>)> {
        let Some((kind, many, count)) = self.header.rhs else { return Ok((Vectors::default(), None)) };
        let (rows, text_bytes) = (self.header.rows, self.text_bytes);
        let len = many.checked_mul(rows).filter(|&len| len <= text_bytes);
        let Some(len) = len.filter(|_| count <= text_bytes && many < text_bytes) else {
            return Err(at(
                5,
                format_args!(
                    "{many} right-hand sides of {rows} values, for which the {text_bytes} bytes of data are too few"
                ),
            ));
        };
        let start = self.lines.number;
        let mut vectors = Vectors { len: rows, ..Vectors::default() };
        let fields = self.fields(3)?;
        vectors.rhs =
            if kind[0] == b'F' { self.read_dense(&fields, len)? } else { self.read_sparse(&fields, many, count)? };
        if kind[1] == b'G' {
            vectors.guess = self.read_dense(&fields, len)?;
        }
        if kind[2] == b'X' {
            vectors.solution = self.read_dense(&fields, len)?;
        }
        let read = self.lines.number - start;
        let announced = self.header.cards.map_or(read, |cards| cards[3]);
        let warning = (announced != read).then_some(Warning { announced, read });
        if announced > read && !self.lines.clone().all(|line| line.trim_ascii().is_empty()) {
            return Err(at(2, format_args!("{announced} cards of right-hand sides are announced, they take {read}")));
        }
        Ok((vectors, warning))
    }

    fn read_dense(&mut self, fields: &[Field], len: usize) -> Result<Vec<f64>> {
        let mut values = zeroed(len, RHS_OF_FILE)?;
        self.read(fields, &mut values, real)?;
        Ok(values)
    }

    /// Reads sparse right-hand sides, which are stored by columns like the matrix. Returns all their values, including
    /// zeros, column by column.
    fn read_sparse(&mut self, fields: &[Field], many: usize, count: usize) -> Result<Vec<f64>> {
        let rows = self.header.rows;
        let ptr = self.pointers(3, many, count)?;
        let row_fields = self.fields(1)?;
        let mut places: Vec<usize> = zeroed(count, RHS_OF_FILE)?;
        self.read(&row_fields, &mut places, |field, card, line| match field.integer(card) {
            Some(row) if row >= 1 && row as u64 <= rows as u64 => Ok(row as usize - 1),
            _ => Err(at(line, format_args!("{} is no row in [1, {rows}]", shown(field.of(card))))),
        })?;
        let given = self.read_dense(fields, count)?;
        let mut values = zeroed(many * rows, RHS_OF_FILE)?;
        for (column, range) in ptr.windows(2).enumerate() {
            for k in range[0]..range[1] {
                values[column * rows + places[k]] = given[k];
            }
        }
        Ok(values)
    }
}

fn real(field: &Field, card: &[u8], line: usize) -> Result<f64> {
    match field.real(card) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(error_with_status(
            RRB_ERR_NOT_FINITE,
            line,
            format_args!("{} is not finite in double precision", shown(field.of(card))),
        )),
        None if not_finite(field.of(card)) => {
            Err(error_with_status(RRB_ERR_NOT_FINITE, line, format_args!("{} is not finite", shown(field.of(card)))))
        }
        None => Err(at(line, format_args!("{} is no number", shown(field.of(card))))),
    }
}

/// Returns whether the field is NaN or infinity in Fortran's notation.
fn not_finite(field: &[u8]) -> bool {
    let word = field.trim_ascii();
    let word = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word);
    [&b"nan"[..], b"inf", b"infinity"].iter().any(|other| word.eq_ignore_ascii_case(other))
}
