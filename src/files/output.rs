//! Buffered output to a file, with or without gzip compression.

use super::gz::Packer;
use super::unpack::PIECE;
use crate::error::{Result, reserve, zeroed};
use std::fs::File;
use std::io::{self, Write};

/// Name of an allocation in error messages.
const BUFFER: &str = "the buffer of a file";

/// Buffered output. All memory is allocated by `new`.
pub struct Output<'a> {
    file: &'a File,
    /// Data that has not been written or compressed yet.
    buffer: Vec<u8>,
    /// Compressor and the buffer of its output, if the file is compressed.
    packed: Option<(Packer, Vec<u8>)>,
}

impl<'a> Output<'a> {
    pub fn new(file: &'a File, packed: bool) -> Result<Self> {
        let mut buffer = Vec::new();
        reserve(&mut buffer, PIECE, BUFFER)?;
        let packed = if packed { Some((Packer::new()?, zeroed(PIECE, BUFFER)?)) } else { None };
        Ok(Self { file, buffer, packed })
    }

    /// Writes the remaining data, and ends the compressed stream.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_buffer(true)
    }

    /// Writes and clears the buffer. `last` ends the compressed stream.
    fn write_buffer(&mut self, last: bool) -> io::Result<()> {
        let Some((packer, output)) = &mut self.packed else {
            self.file.write_all(&self.buffer)?;
            self.buffer.clear();
            return Ok(());
        };
        let mut rest = &self.buffer[..];
        loop {
            let step = packer.process(rest, output, last);
            rest = &rest[step.used..];
            self.file.write_all(&output[..step.written])?;
            if step.ended || !last && rest.is_empty() {
                break;
            }
            if step.used + step.written == 0 {
                return Err(io::ErrorKind::Other.into());
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == PIECE {
            self.write_buffer(false)?;
        }
        let count = bytes.len().min(PIECE - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer(false)
    }
}
