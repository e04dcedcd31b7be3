//! Writers of matrix files. Values are written with the fewest digits that are read back as the same double. If a
//! matrix is bitwise symmetric, only its lower triangle is written.

use super::short::Short;
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
pub fn write(matrix: AnyCsr, format: FileFormat, to: &mut dyn Write) -> WriteResult {
    match matrix {
        AnyCsr::Narrow(a) => write_rows(a, format, to),
        AnyCsr::Wide(a) => write_rows(a, format, to),
    }
}

fn write_rows<I: Index>(a: &Csr<I>, format: FileFormat, to: &mut dyn Write) -> WriteResult {
    let symmetric = a.is_symmetric();
    match format {
        FileFormat::Mtx => Ok(market(a, symmetric, to)?),
        FileFormat::Hb | FileFormat::Rb => {
            // The files store columns. For a symmetric matrix, no transpose is needed: the upper triangle by rows is
            // the lower triangle by columns.
            let transposed = if symmetric { None } else { Some(a.transposed(&mut Workers::alone())?) };
            let by_columns = transposed.as_ref().unwrap_or(a);
            Ok(Cards::of(by_columns, symmetric)?.write(format, to)?)
        }
    }
}

fn market<I: Index>(a: &Csr<I>, symmetric: bool, to: &mut dyn Write) -> io::Result<()> {
    let kept = |i: usize, j: usize| !symmetric || j <= i;
    let count = a.entries().filter(|&(i, j, _)| kept(i, j)).count();
    writeln!(to, "%%MatrixMarket matrix coordinate real {}", if symmetric { "symmetric" } else { "general" })?;
    writeln!(to, "{} {} {count}", a.rows(), a.cols)?;
    for (i, j, value) in a.entries().filter(|&(i, j, _)| kept(i, j)) {
        to.write_all(line(i + 1, j + 1, value)?.bytes())?;
    }
    Ok(())
}

/// Capacity of the text of a number, in bytes. 24 suffice for a sign, 17 digits, a point, and an exponent such as
/// E-308.
const NUMBER: usize = 32;
/// Capacity of the text of a line with two integers and a number, in bytes.
const LINE: usize = 96;

/// Returns the line of an entry. The value has the fewest digits that are read back as the same double.
fn line(i: usize, j: usize, value: f64) -> io::Result<Short<LINE>> {
    let mut line = Short::default();
    write!(line, "{i} {j} {value:?}").map_err(io::Error::other)?;
    if line.bytes().ends_with(b".0") {
        line.truncate(line.bytes().len() - 2);
    }
    line.write_str("\n").map_err(io::Error::other)?;
    Ok(line)
}

/// Returns the shortest decimal text with a point and an exponent that is read back as the same double. Without the
/// point, a reader would insert one according to the format of the field.
fn with_point(value: f64) -> io::Result<Short<NUMBER>> {
    let mut text = Short::default();
    write!(text, "{value:E}").map_err(io::Error::other)?;
    if text.bytes().contains(&b'.') {
        return Ok(text);
    }
    let mut pointed = Short::default();
    let (digits, exponent) = text.text().split_once('E').unwrap_or((text.text(), "0"));
    write!(pointed, "{digits}.0E{exponent}").map_err(io::Error::other)?;
    Ok(pointed)
}

/// Returns the digits of an integer.
fn integer_text(number: usize) -> io::Result<Short<NUMBER>> {
    let mut text = Short::default();
    write!(text, "{number}").map_err(io::Error::other)?;
    Ok(text)
}

/// Layout of a matrix on cards. The rows of `a` are the columns of the matrix.
struct Cards<'a, I> {
    a: &'a Csr<I>,
    symmetric: bool,
    count: usize,
    /// (field width, fields per card) of pointers, rows and values.
    layout: [(usize, usize); 3],
    decimals: usize,
}

/// Columns per card.
const CARD: usize = 80;

impl<'a, I: Index> Cards<'a, I> {
    fn of(a: &'a Csr<I>, symmetric: bool) -> io::Result<Self> {
        let mut cards = Self { a, symmetric, count: 0, layout: [(0, 0); 3], decimals: 1 };
        let (mut width, mut count, mut most) = (0, 0, 1);
        for (.., value) in cards.entries() {
            let text = with_point(value)?;
            width = text.bytes().len().max(width);
            most = text.text().split(['.', 'E']).nth(1).map_or(0, str::len).max(most);
            count += 1;
        }
        (cards.count, cards.decimals) = (count, most);
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 2;
        let layout = |width: usize| (width, (CARD / width).max(1));
        cards.layout = [layout(digits(count + 1)), layout(digits(a.cols)), layout(width + 1)];
        Ok(cards)
    }

    /// Iterates over column, row and value of the written entries, column by column.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let symmetric = self.symmetric;
        self.a.entries().filter(move |&(j, i, _)| !symmetric || i >= j)
    }

    fn write(&self, format: FileFormat, to: &mut dyn Write) -> io::Result<()> {
        let (rows, cols) = (self.a.cols, self.a.rows());
        let [ptr, row, val] = self.layout;
        let cards = |count: usize, per_card: usize| count.div_ceil(per_card);
        let counts = [cards(cols + 1, ptr.1), cards(self.count, row.1), cards(self.count, val.1)];
        let total: usize = counts.iter().sum();
        let [pointers, row_indices, values] = counts;
        writeln!(to, "{:<72}{:<8}", "written by rrbsolver", "RRBSOLVE")?;
        write!(to, "{total:14}{pointers:14}{row_indices:14}{values:14}")?;
        let hb = format == FileFormat::Hb;
        if hb {
            write!(to, "{:14}", 0)?;
        }
        let kind = match (self.symmetric, rows == cols, hb) {
            (true, _, true) => "RSA",
            (true, _, false) => "rsa",
            (false, true, true) => "RUA",
            (false, true, false) => "rua",
            (false, false, true) => "RRA",
            (false, false, false) => "rra",
        };
        writeln!(to, "\n{kind:<14}{rows:14}{cols:14}{:14}{:14}", self.count, 0)?;
        for (width, per_card) in [ptr, row] {
            let mut format = Short::<64>::default();
            write!(format, "({per_card}I{width})").map_err(io::Error::other)?;
            write!(to, "{:<16}", format.text())?;
        }
        let mut format = Short::<64>::default();
        write!(format, "({}E{}.{})", val.1, val.0, self.decimals).map_err(io::Error::other)?;
        writeln!(to, "{:<20}", format.text())?;
        let mut ends = Card::new(to, ptr);
        ends.put(b"1")?;
        let mut end = 1;
        for j in 0..cols {
            end += self.a.row(j).filter(|&(i, _)| !self.symmetric || i >= j).count();
            ends.put(integer_text(end)?.bytes())?;
        }
        ends.finish()?;
        let mut row_indices = Card::new(to, row);
        self.entries().try_for_each(|(_, i, _)| row_indices.put(integer_text(i + 1)?.bytes()))?;
        row_indices.finish()?;
        let mut values = Card::new(to, val);
        self.entries().try_for_each(|(.., value)| values.put(with_point(value)?.bytes()))?;
        values.finish()
    }
}

/// Writer of fields of equal width, several per card.
struct Card<'a> {
    to: &'a mut dyn Write,
    width: usize,
    per_card: usize,
    filled: usize,
}

impl<'a> Card<'a> {
    fn new(to: &'a mut dyn Write, (width, per_card): (usize, usize)) -> Self {
        Self { to, width, per_card, filled: 0 }
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        let blanks = self.width.saturating_sub(text.len());
        self.to.write_all(&[b' '; NUMBER + 1][..blanks.min(NUMBER + 1)])?;
        self.to.write_all(text)?;
        self.filled += 1;
        if self.filled == self.per_card {
            self.filled = 0;
            self.to.write_all(b"\n")?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        if self.filled > 0 { self.to.write_all(b"\n") } else { Ok(()) }
    }
}
