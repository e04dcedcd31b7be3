//! Writers of matrix files. Values are written with the fewest digits that are read back as the same double. If a
//! matrix is bitwise symmetric, only its lower triangle is written.

use super::short::FixedText;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::Error;
use crate::options::FileFormat;
use crate::sparse::AnyCsr;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Reason why a matrix was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A failed allocation.
    #[error(transparent)]
    Library(#[from] Error),
}

/// Result of a writer.
pub type WriteResult = std::result::Result<(), WriteError>;

/// Writes a matrix in a file format.
pub fn write(matrix: AnyCsr, format: FileFormat, output: &mut dyn Write) -> WriteResult {
    match matrix {
        AnyCsr::Narrow(a) => write_rows(a, format, output),
        AnyCsr::Wide(a) => write_rows(a, format, output),
    }
}

fn write_rows<I: Index>(a: &Csr<I>, format: FileFormat, output: &mut dyn Write) -> WriteResult {
    let is_symmetric = a.is_symmetric();
    match format {
        FileFormat::Mtx => Ok(write_market(a, is_symmetric, output)?),
        FileFormat::Hb | FileFormat::Rb => {
            // The files store columns. A symmetric matrix need not be transposed: its upper triangle by rows is its
            // lower triangle by columns.
            let transposed = if is_symmetric { None } else { Some(a.transposed(&mut Workers::single_threaded())?) };
            let by_columns = transposed.as_ref().unwrap_or(a);
            Ok(Cards::of(by_columns, is_symmetric)?.write(format, output)?)
        }
    }
}

fn write_market<I: Index>(a: &Csr<I>, is_symmetric: bool, output: &mut dyn Write) -> io::Result<()> {
    let is_written = |i: usize, j: usize| !is_symmetric || j <= i;
    let count = a.entries().filter(|&(i, j, _)| is_written(i, j)).count();
    writeln!(output, "%%MatrixMarket matrix coordinate real {}", if is_symmetric { "symmetric" } else { "general" })?;
    writeln!(output, "{} {} {count}", a.rows(), a.cols)?;
    for (i, j, value) in a.entries().filter(|&(i, j, _)| is_written(i, j)) {
        output.write_all(entry_line(i + 1, j + 1, value)?.bytes())?;
    }
    Ok(())
}

/// Capacity of the text of a number, in bytes. 24 suffice for a sign, 17 digits, a point, and an exponent such as
/// E-308.
const NUMBER_BYTES: usize = 32;
/// Capacity of the text of a line with two integers and a number, in bytes.
const LINE_BYTES: usize = 96;

/// Returns the line of an entry. The value has the fewest digits that are read back as the same double.
fn entry_line(i: usize, j: usize, value: f64) -> io::Result<FixedText<LINE_BYTES>> {
    let mut entry_line = FixedText::default();
    write!(entry_line, "{i} {j} {value:?}").map_err(io::Error::other)?;
    if entry_line.bytes().ends_with(b".0") {
        entry_line.truncate(entry_line.bytes().len() - 2);
    }
    entry_line.write_str("\n").map_err(io::Error::other)?;
    Ok(entry_line)
}

/// Returns the shortest decimal text with a point and an exponent that is read back as the same double. Without the
/// point, a reader would insert one according to the format of the field.
fn real_text(value: f64) -> io::Result<FixedText<NUMBER_BYTES>> {
    let mut text = FixedText::default();
    write!(text, "{value:E}").map_err(io::Error::other)?;
    if text.bytes().contains(&b'.') {
        return Ok(text);
    }
    let mut text_with_point = FixedText::default();
    let (digits, exponent) = text.text().split_once('E').unwrap_or((text.text(), "0"));
    write!(text_with_point, "{digits}.0E{exponent}").map_err(io::Error::other)?;
    Ok(text_with_point)
}

/// Returns the digits of an integer.
fn integer_text(number: usize) -> io::Result<FixedText<NUMBER_BYTES>> {
    let mut text = FixedText::default();
    write!(text, "{number}").map_err(io::Error::other)?;
    Ok(text)
}

/// Layout of a matrix on cards. The rows of `a` are the columns of the matrix.
struct Cards<'a, I> {
    a: &'a Csr<I>,
    is_symmetric: bool,
    entry_count: usize,
    /// (field width, fields per card) of pointers, rows and values.
    field_layouts: [(usize, usize); 3],
    decimals: usize,
}

/// Columns per card.
const CARD_COLUMNS: usize = 80;

impl<'a, I: Index> Cards<'a, I> {
    fn of(a: &'a Csr<I>, is_symmetric: bool) -> io::Result<Self> {
        let mut cards = Self { a, is_symmetric, entry_count: 0, field_layouts: [(0, 0); 3], decimals: 1 };
        let (mut max_width, mut count, mut max_decimals) = (0, 0, 1);
        for (.., value) in cards.entries() {
            let text = real_text(value)?;
            max_width = text.bytes().len().max(max_width);
            max_decimals = text.text().split(['.', 'E']).nth(1).map_or(0, str::len).max(max_decimals);
            count += 1;
        }
        (cards.entry_count, cards.decimals) = (count, max_decimals);
        let field_width = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 2;
        let layout_of_width = |width: usize| (width, (CARD_COLUMNS / width).max(1));
        cards.field_layouts = [
            layout_of_width(field_width(count + 1)),
            layout_of_width(field_width(a.cols)),
            layout_of_width(max_width + 1),
        ];
        Ok(cards)
    }

    /// Iterates over column, row and value of the written entries, column by column.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let is_symmetric = self.is_symmetric;
        self.a.entries().filter(move |&(j, i, _)| !is_symmetric || i >= j)
    }

    fn write(&self, format: FileFormat, output: &mut dyn Write) -> io::Result<()> {
        let (rows, cols) = (self.a.cols, self.a.rows());
        let [ptr, row, val] = self.field_layouts;
        let card_count = |count: usize, per_card: usize| count.div_ceil(per_card);
        let card_counts =
            [card_count(cols + 1, ptr.1), card_count(self.entry_count, row.1), card_count(self.entry_count, val.1)];
        let total: usize = card_counts.iter().sum();
        let [pointers, row_indices, values] = card_counts;
        writeln!(output, "{:<72}{:<8}", "written by rrbsolver", "RRBSOLVE")?;
        write!(output, "{total:14}{pointers:14}{row_indices:14}{values:14}")?;
        let is_harwell_boeing = format == FileFormat::Hb;
        if is_harwell_boeing {
            write!(output, "{:14}", 0)?;
        }
        let type_letters = match (self.is_symmetric, rows == cols, is_harwell_boeing) {
            (true, _, true) => "RSA",
            (true, _, false) => "rsa",
            (false, true, true) => "RUA",
            (false, true, false) => "rua",
            (false, false, true) => "RRA",
            (false, false, false) => "rra",
        };
        writeln!(output, "\n{type_letters:<14}{rows:14}{cols:14}{:14}{:14}", self.entry_count, 0)?;
        for (width, per_card) in [ptr, row] {
            let mut format = FixedText::<64>::default();
            write!(format, "({per_card}I{width})").map_err(io::Error::other)?;
            write!(output, "{:<16}", format.text())?;
        }
        let mut format = FixedText::<64>::default();
        write!(format, "({}E{}.{})", val.1, val.0, self.decimals).map_err(io::Error::other)?;
        writeln!(output, "{:<20}", format.text())?;
        let mut pointer_writer = CardWriter::new(output, ptr);
        pointer_writer.write_field(b"1")?;
        let mut next_pointer = 1;
        for j in 0..cols {
            next_pointer += self.a.row(j).filter(|&(i, _)| !self.is_symmetric || i >= j).count();
            pointer_writer.write_field(integer_text(next_pointer)?.bytes())?;
        }
        pointer_writer.finish()?;
        let mut row_writer = CardWriter::new(output, row);
        self.entries().try_for_each(|(_, i, _)| row_writer.write_field(integer_text(i + 1)?.bytes()))?;
        row_writer.finish()?;
        let mut value_writer = CardWriter::new(output, val);
        self.entries().try_for_each(|(.., value)| value_writer.write_field(real_text(value)?.bytes()))?;
        value_writer.finish()
    }
}

/// Writer of fields of equal width, several per card.
struct CardWriter<'a> {
    output: &'a mut dyn Write,
    width: usize,
    per_card: usize,
    written_fields: usize,
}

impl<'a> CardWriter<'a> {
    fn new(output: &'a mut dyn Write, (width, per_card): (usize, usize)) -> Self {
        Self { output, width, per_card, written_fields: 0 }
    }

    fn write_field(&mut self, text: &[u8]) -> io::Result<()> {
        let blanks = self.width.saturating_sub(text.len());
        self.output.write_all(&[b' '; NUMBER_BYTES + 1][..blanks.min(NUMBER_BYTES + 1)])?;
        self.output.write_all(text)?;
        self.written_fields += 1;
        if self.written_fields == self.per_card {
            self.written_fields = 0;
            self.output.write_all(b"\n")?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        if self.written_fields > 0 { self.output.write_all(b"\n") } else { Ok(()) }
    }
}
