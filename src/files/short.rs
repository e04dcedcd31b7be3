//! Text of fixed capacity, without heap allocation.

use std::fmt;

/// Text of at most `N` bytes; writing more is an error.
pub struct FixedText<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for FixedText<N> {
    fn default() -> Self {
        Self { bytes: [0; N], len: 0 }
    }
}

impl<const N: usize> FixedText<N> {
    /// Returns the bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the text written so far.
    pub fn text(&self) -> &str {
        // Only complete UTF-8 texts are appended.
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Truncates the text to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<const N: usize> fmt::Write for FixedText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let target = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
