//! Text in a buffer of fixed size, without heap memory.

use std::fmt;

/// A NUL-terminated line of text. Longer text is truncated.
pub struct Line<const N: usize = 512> {
    pub bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Line<N> {
    /// Creates an empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; N], used: 0 }
    }

    /// Returns the text without NUL.
    pub fn text(&self) -> &str {
        // The text is always valid UTF-8, because it is cut only between characters.
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }

    /// Returns the line with a newline in place of the NUL.
    pub fn ended(&mut self) -> &[u8] {
        self.bytes[self.used] = b'\n';
        &self.bytes[..=self.used]
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.used;
        let mut cut = s.len().min(room);
        while !s.is_char_boundary(cut) {
            cut -= 1;
        }
        self.bytes[self.used..][..cut].copy_from_slice(&s.as_bytes()[..cut]);
        self.used += cut;
        Ok(())
    }
}
