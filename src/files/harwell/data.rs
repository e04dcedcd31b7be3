//! The data cards (lines) after the header: column pointers, row indices, values, right-hand sides.

use super::header::Header;
use crate::base::heap::boxed;
use crate::base::workers::{SliceSplitter, Workers};
use crate::error::{RRB_ERR_NOT_FINITE, Result, collected, push, zeroed};
use crate::files::array::assemble_array;
use crate::files::fault::{line_error, line_error_with_status};
use crate::files::fortran::{Field, parse_format};
use crate::files::lines::{Lines, quoted};
use crate::files::loaded::{Loaded, Vectors, Warning};
use crate::files::mirror::{Symmetry, build_matrix};
use crate::sparse::assemble::Triplets;
use crate::sparse::matrix::MatrixIndex;

/// Names of allocations in error messages.
const POINTERS_NAME: &str = "column pointers of a file";
const RHS_NAME: &str = "right-hand sides of a file";
const PIECES_NAME: &str = "pieces of a file";

/// Reader of the cards after the header.
pub struct Data<'a, 'w> {
    /// Number of bytes of these cards.
    text_bytes: usize,
    header: Header<'a>,
    lines: Lines<'a>,
    workers: &'w mut Workers,
}

/// Kinds of data cards, in the order of the header's counts.
const CARD_KINDS: [&str; 4] = ["pointers", "rows", "values", "right-hand sides"];

impl<'a, 'w> Data<'a, 'w> {
    pub fn new(header: Header<'a>, lines: Lines<'a>, workers: &'w mut Workers) -> Self {
        Self { text_bytes: lines.remaining_bytes(), header, lines, workers }
    }

    pub fn read_matrix<I: MatrixIndex>(mut self) -> Result<Loaded> {
        let Header { rows, cols, entries: count, symmetry, has_values, .. } = self.header;
        let ptr = self.read_pointers(0, cols, count)?;
        let mut entries = Triplets::<I>::zeroed(count)?;
        let first_line = self.lines.number + 1;
        let row_fields = self.fields(1)?;
        self.check_cards(1, count, row_fields.len())?;
        self.read_fields(&row_fields, &mut entries.rows, |field, card, line| match field.integer(card) {
            Some(row) if row >= 1 && row as u64 <= rows as u64 => Ok(I::of(row as usize - 1)),
            Some(row) => Err(line_error(line, format_args!("row {row} must lie in [1, {rows}]"))),
            None => Err(line_error(line, format_args!("{} is no row", quoted(field.text(card))))),
        })?;
        for (column, range) in ptr.windows(2).enumerate() {
            entries.cols[range[0]..range[1]].fill(I::of(column));
        }
        if has_values {
            let value_fields = self.fields(2)?;
            self.check_cards(2, count, value_fields.len())?;
            self.read_fields(&value_fields, &mut entries.values, parse_real)?;
        } else {
            entries.values.fill(1.0);
        }
        let (vectors, warning) = self.read_vectors()?;
        self.check_end()?;
        let line_of = |k: usize| first_line + k / row_fields.len();
        let on_diagonal = |k: &usize| entries.rows[*k] == entries.cols[*k] && entries.values[*k] != 0.0;
        if symmetry == Symmetry::Skew
            && let Some(k) = (0..count).find(on_diagonal)
        {
            return Err(line_error(
                line_of(k),
                format_args!("the diagonal of a skew-symmetric matrix is 0, got {}", entries.values[k]),
            ));
        }
        let matrix = build_matrix(entries, symmetry, [rows, cols], line_of, self.workers)?;
        Ok(Loaded { matrix: boxed(matrix, "a matrix")?, vectors, warning })
    }

    /// Reads a dense matrix: the values of all positions, column by column.
    pub fn read_dense_matrix<I: MatrixIndex>(mut self) -> Result<Loaded> {
        let Header { rows, cols, entries, .. } = self.header;
        let fields = self.fields(2)?;
        let values = self.read_dense(&fields, entries)?;
        self.check_end()?;
        let matrix = assemble_array::<I>(rows, cols, entries, |_, _| true, |i, j| values[j * rows + i])?;
        Ok(Loaded::of(boxed(matrix, "a matrix")?))
    }

    /// Checks that only blank cards follow.
    fn check_end(&mut self) -> Result<()> {
        match self.lines.find(|line| !line.trim_ascii().is_empty()) {
            None => Ok(()),
            Some(line) => Err(line_error(
                self.lines.number,
                format_args!("more cards than are announced: {}", quoted(line.trim_ascii())),
            )),
        }
    }

    /// Returns the fields of the cards of kind `card_kind`, an index into `CARD_KINDS`.
    fn fields(&self, card_kind: usize) -> Result<Vec<Field>> {
        let format = self.header.formats[card_kind];
        let unknown_format = || {
            line_error(
                self.header.size_card_line + 1,
                format_args!("{} is no format of {}", quoted(format), CARD_KINDS[card_kind]),
            )
        };
        parse_format(format, card_kind < 2)?.ok_or_else(unknown_format)
    }

    /// Checks that `count` fields need as many cards as the header announces. If the header announces no numbers of
    /// cards, checks nothing.
    fn check_cards(&self, card_kind: usize, count: usize, per_card: usize) -> Result<()> {
        let needed_cards = count.div_ceil(per_card);
        let announced_cards = self.header.cards.map_or(needed_cards, |cards| cards[card_kind]);
        if announced_cards == needed_cards {
            return Ok(());
        }
        Err(line_error(
            2,
            format_args!(
                "{announced_cards} cards of {} are announced, {count} of them take {needed_cards}",
                CARD_KINDS[card_kind]
            ),
        ))
    }

    /// Reads the next fields, one per element of `target`. `convert(field, card, line)` converts the text of a field;
    /// `card` is the line that contains the field, and `line` its number.
    fn read_fields<T: Send>(
        &mut self,
        fields: &[Field],
        target: &mut [T],
        convert: impl Fn(&Field, &[u8], usize) -> Result<T> + Sync,
    ) -> Result<()> {
        let (mut remaining_fields, mut parts, mut pieces) = (target.len(), SliceSplitter(target), Vec::new());
        let max_cards =
            remaining_fields.div_ceil(fields.len()).div_ceil(self.workers.piece_count(self.lines.remaining_bytes()));
        while remaining_fields > 0 {
            let piece_lines = self.lines;
            let card_count = self.lines.by_ref().take(max_cards.min(remaining_fields.div_ceil(fields.len()))).count();
            let field_count = remaining_fields.min(card_count * fields.len());
            if field_count == 0 {
                break;
            }
            remaining_fields -= field_count;
            push(&mut pieces, (piece_lines, parts.take_front(field_count)), PIECES_NAME)?;
        }
        let read_results = self.workers.map(pieces, |(mut lines, target)| {
            for target in target.chunks_mut(fields.len()) {
                let card = lines.next().unwrap_or_default();
                for (target, field) in target.iter_mut().zip(fields) {
                    *target = convert(field, card, lines.number)?;
                }
            }
            Ok(())
        })?;
        read_results.into_iter().collect::<Result<()>>()?;
        match remaining_fields {
            0 => Ok(()),
            _ => Err(line_error(self.lines.number, format_args!("the file ends {remaining_fields} numbers too early"))),
        }
    }

    /// Reads the pointers of `column_count` columns with `count` entries, and converts them to base 0. `card_kind` is
    /// the index in `CARD_KINDS` of the data that the pointers belong to: 0 for the matrix, 3 for right-hand sides.
    fn read_pointers(&mut self, card_kind: usize, column_count: usize, count: usize) -> Result<Vec<usize>> {
        let fields = self.fields(0)?;
        if card_kind == 0 {
            self.check_cards(0, column_count + 1, fields.len())?;
        }
        let first_line = self.lines.number + 1;
        let mut pointers: Vec<i64> = zeroed(column_count + 1, POINTERS_NAME)?;
        self.read_fields(&fields, &mut pointers, |field, card, line| {
            field
                .integer(card)
                .ok_or_else(|| line_error(line, format_args!("{} is no pointer", quoted(field.text(card)))))
        })?;
        // The order is checked after all pointers have been parsed, so a malformed number is reported before a wrong
        // order.
        let mut previous_pointer = 1;
        for (k, &pointer) in pointers.iter().enumerate() {
            let line = first_line + k / fields.len();
            if k == 0 && pointer != 1 {
                return Err(line_error(line, format_args!("pointers begin with 1, got {pointer}")));
            }
            if pointer < previous_pointer {
                return Err(line_error(
                    line,
                    format_args!("pointer {pointer} is below the one before it, {previous_pointer}"),
                ));
            }
            if pointer > count as i64 + 1 {
                let max_pointer = count + 1;
                return Err(line_error(
                    line,
                    format_args!("pointer {pointer} is above {max_pointer}, the number of entries + 1"),
                ));
            }
            previous_pointer = pointer;
        }
        if previous_pointer != count as i64 + 1 {
            return Err(line_error(
                self.lines.number,
                format_args!("pointers must end with {}, got {previous_pointer}", count + 1),
            ));
        }
        collected(pointers.into_iter().map(|pointer| pointer as usize - 1), POINTERS_NAME)
    }

    /// Reads right-hand sides, initial guesses and solutions. Some files, such as SuiteSparse's lp_afiro, announce a
    /// wrong number of cards for these vectors. The number of cards is therefore computed from the sizes of the
    /// vectors. If the header announces another number, the function returns a warning. If the header announces more
    /// cards, and the cards that follow are not blank, the function returns an error.
    fn read_vectors(&mut self) -> Result<(Vectors, Option<Warning>)> {
        let Some((kind, rhs_count, count)) = self.header.rhs else { return Ok((Vectors::default(), None)) };
        let (rows, text_bytes) = (self.header.rows, self.text_bytes);
        let len = rhs_count.checked_mul(rows).filter(|&len| len <= text_bytes);
        let Some(len) = len.filter(|_| count <= text_bytes && rhs_count < text_bytes) else {
            return Err(line_error(
                5,
                format_args!(
                    "{rhs_count} right-hand sides of {rows} values, for which the {text_bytes} bytes of data are \
                     too few"
                ),
            ));
        };
        let first_line = self.lines.number;
        let mut vectors = Vectors { len: rows, ..Vectors::default() };
        let fields = self.fields(3)?;
        vectors.rhs =
            if kind[0] == b'F' { self.read_dense(&fields, len)? } else { self.read_sparse(&fields, rhs_count, count)? };
        if kind[1] == b'G' {
            vectors.guess = self.read_dense(&fields, len)?;
        }
        if kind[2] == b'X' {
            vectors.solution = self.read_dense(&fields, len)?;
        }
        let read_cards = self.lines.number - first_line;
        let announced_cards = self.header.cards.map_or(read_cards, |cards| cards[3]);
        let warning = (announced_cards != read_cards).then_some(Warning { announced_cards, read_cards });
        if announced_cards > read_cards && !self.lines.clone().all(|line| line.trim_ascii().is_empty()) {
            return Err(line_error(
                2,
                format_args!("{announced_cards} cards of right-hand sides are announced, they take {read_cards}"),
            ));
        }
        Ok((vectors, warning))
    }

    fn read_dense(&mut self, fields: &[Field], len: usize) -> Result<Vec<f64>> {
        let mut values = zeroed(len, RHS_NAME)?;
        self.read_fields(fields, &mut values, parse_real)?;
        Ok(values)
    }

    /// Reads sparse right-hand sides, which are stored by columns like the matrix. Returns the right-hand sides as
    /// dense columns, one after the other.
    fn read_sparse(&mut self, fields: &[Field], rhs_count: usize, count: usize) -> Result<Vec<f64>> {
        let rows = self.header.rows;
        let ptr = self.read_pointers(3, rhs_count, count)?;
        let row_fields = self.fields(1)?;
        let mut entry_rows: Vec<usize> = zeroed(count, RHS_NAME)?;
        self.read_fields(&row_fields, &mut entry_rows, |field, card, line| match field.integer(card) {
            Some(row) if row >= 1 && row as u64 <= rows as u64 => Ok(row as usize - 1),
            _ => Err(line_error(line, format_args!("{} is no row in [1, {rows}]", quoted(field.text(card))))),
        })?;
        let entry_values = self.read_dense(fields, count)?;
        let mut values = zeroed(rhs_count * rows, RHS_NAME)?;
        for (column, range) in ptr.windows(2).enumerate() {
            for k in range[0]..range[1] {
                values[column * rows + entry_rows[k]] = entry_values[k];
            }
        }
        Ok(values)
    }
}

fn parse_real(field: &Field, card: &[u8], line: usize) -> Result<f64> {
    match field.real(card) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(line_error_with_status(
            RRB_ERR_NOT_FINITE,
            line,
            format_args!("{} is not finite in double precision", quoted(field.text(card))),
        )),
        None if is_not_finite(field.text(card)) => Err(line_error_with_status(
            RRB_ERR_NOT_FINITE,
            line,
            format_args!("{} is not finite", quoted(field.text(card))),
        )),
        None => Err(line_error(line, format_args!("{} is no number", quoted(field.text(card))))),
    }
}

/// Returns whether the field is NaN or infinity in Fortran's notation.
fn is_not_finite(field: &[u8]) -> bool {
    let word = field.trim_ascii();
    let word = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word);
    [&b"nan"[..], b"inf", b"infinity"].iter().any(|special_word| word.eq_ignore_ascii_case(special_word))
}
