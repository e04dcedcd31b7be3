//! Text in a buffer of fixed size, without heap memory.

use std::fmt;

/// A NUL-terminated line of text. Longer text is truncated.
pub struct Line<const N: usize = 512> {
    pub bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    /// Creates an empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Returns the text without NUL.
    pub fn text(&self) -> &str {
        // The text is always valid UTF-8, because it is cut only between characters.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// Returns the line with a newline in place of the NUL.
    pub fn with_newline(&mut self) -> &[u8] {
        self.bytes[self.len] = b'\n';
        &self.bytes[..=self.len]
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let free_bytes = self.bytes.len() - 1 - self.len;
        let mut copied_bytes = s.len().min(free_bytes);
        while !s.is_char_boundary(copied_bytes) {
            copied_bytes -= 1;
        }
        self.bytes[self.len..][..copied_bytes].copy_from_slice(&s.as_bytes()[..copied_bytes]);
        self.len += copied_bytes;
        Ok(())
    }
}
