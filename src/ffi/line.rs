//! Text of a fixed size: it takes no heap memory.

use std::fmt;

/// A line of text that ends with NUL; longer ones are cut.
pub struct Line<const N: usize = 512> {
    pub bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Line<N> {
    /// Without text.
    pub const fn new() -> Self {
        Self { bytes: [0; N], used: 0 }
    }

    /// The text.
    pub fn text(&self) -> &str {
        // Cut between characters only.
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }

    /// The line with its end in place of NUL.
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
