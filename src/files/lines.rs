//! Lines of a text, and words of a line.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::os::unix::ffi::OsStrExt as _;

/// Iterator over the lines of a text, without line ends. It counts the lines from 1.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    rest: &'a [u8],
    /// Number of the line that `next` has returned last; 0 before the first line.
    pub number: usize,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, number: 0 }
    }

    /// Returns the number of bytes of the remaining lines.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Divides the remaining lines into at most `count` pieces of about equal numbers of bytes. Each piece counts its
    /// lines from 1.
    pub fn pieces(&self, count: usize) -> impl Iterator<Item = Self> {
        let (mut rest, step) = (self.rest, self.rest.len().div_ceil(count).max(1));
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let cut = step.min(rest.len());
            let end = rest[cut..].iter().position(|&c| c == b'\n').map_or(rest.len(), |k| cut + k + 1);
            let (piece, others) = rest.split_at(end);
            rest = others;
            Some(Self::new(piece))
        })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&c| c == b'\n');
        let (line, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.get(1..).unwrap_or_default();
        self.number += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Returns the words of a line, separated by white space.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Formats a word for an error message; truncates a long word.
pub fn shown(word: &[u8]) -> impl Display {
    const MOST: usize = 40;
    struct Shown<'a>(&'a [u8]);
    impl Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let (start, rest) = self.0.split_at(self.0.len().min(MOST));
            write!(f, "'{}{}'", OsStr::from_bytes(start).display(), if rest.is_empty() { "" } else { "..." })
        }
    }
    Shown(word)
}
