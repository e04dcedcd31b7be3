//! Lines of a text, and words of a line.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::os::unix::ffi::OsStrExt as _;

/// Iterator over the lines of a text, without line ends. It counts the lines from 1.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    remaining: &'a [u8],
    /// Number of the line that `next` has returned last; 0 before the first line.
    pub number: usize,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { remaining: text, number: 0 }
    }

    /// Returns the number of bytes of the remaining lines.
    pub fn remaining_bytes(&self) -> usize {
        self.remaining.len()
    }

    /// Divides the remaining lines into at most `piece_count` groups of consecutive lines, with about equal numbers of
    /// bytes. The iterator of each group counts its lines from 1.
    pub fn split(&self, piece_count: usize) -> impl Iterator<Item = Self> {
        let (mut remaining, piece_bytes) = (self.remaining, self.remaining.len().div_ceil(piece_count).max(1));
        std::iter::from_fn(move || {
            if remaining.is_empty() {
                return None;
            }
            let min_end = piece_bytes.min(remaining.len());
            let end =
                remaining[min_end..].iter().position(|&c| c == b'\n').map_or(remaining.len(), |k| min_end + k + 1);
            let (piece, remaining_lines) = remaining.split_at(end);
            remaining = remaining_lines;
            Some(Self::new(piece))
        })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.remaining.is_empty() {
            return None;
        }
        let end = self.remaining.iter().position(|&c| c == b'\n');
        let (line, following) = self.remaining.split_at(end.unwrap_or(self.remaining.len()));
        self.remaining = following.get(1..).unwrap_or_default();
        self.number += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Returns the words of a line, separated by white space.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Formats a word for an error message; truncates a long word.
pub fn quoted(word: &[u8]) -> impl Display {
    const MAX_SHOWN_BYTES: usize = 40;
    struct Quoted<'a>(&'a [u8]);
    impl Display for Quoted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let (start, omitted) = self.0.split_at(self.0.len().min(MAX_SHOWN_BYTES));
            write!(f, "'{}{}'", OsStr::from_bytes(start).display(), if omitted.is_empty() { "" } else { "..." })
        }
    }
    Quoted(word)
}
