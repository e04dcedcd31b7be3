//! Text of a fixed size: it takes no heap memory.

use std::fmt;

/// A line of text that ends with NUL.
pub struct Line {
    pub bytes: [u8; 512],
    used: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 512], used: 0 }
    }
}

impl Line {
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

impl fmt::Write for Line {
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
