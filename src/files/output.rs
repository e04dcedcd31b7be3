//! Buffered output to a file, with or without gzip compression.

use super::gz::GzipCompressor;
use super::unpack::IO_BUFFER_BYTES;
use crate::error::{Result, reserve, zeroed};
use std::fs::File;
use std::io::{self, Write};

/// Name of an allocation in error messages.
const BUFFER_NAME: &str = "the buffer of a file";

/// Buffered output. All memory is allocated by `new`.
pub struct Output<'a> {
    file: &'a File,
    /// Bytes that have not been written or compressed yet.
    buffer: Vec<u8>,
    /// Compressor and the buffer of its output, if the file is compressed.
    compression: Option<(GzipCompressor, Vec<u8>)>,
}

impl<'a> Output<'a> {
    pub fn new(file: &'a File, is_compressed: bool) -> Result<Self> {
        let mut buffer = Vec::new();
        reserve(&mut buffer, IO_BUFFER_BYTES, BUFFER_NAME)?;
        let compression =
            if is_compressed { Some((GzipCompressor::new()?, zeroed(IO_BUFFER_BYTES, BUFFER_NAME)?)) } else { None };
        Ok(Self { file, buffer, compression })
    }

    /// Writes the remaining data, and ends the compressed stream.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_buffer(true)
    }

    /// Writes the buffer to the file, or compresses and writes it, and clears the buffer. With `is_last`, ends the
    /// compressed stream.
    fn write_buffer(&mut self, is_last: bool) -> io::Result<()> {
        let Some((compressor, output)) = &mut self.compression else {
            self.file.write_all(&self.buffer)?;
            self.buffer.clear();
            return Ok(());
        };
        let mut remaining = &self.buffer[..];
        loop {
            let progress = compressor.process(remaining, output, is_last);
            remaining = &remaining[progress.consumed..];
            self.file.write_all(&output[..progress.written])?;
            if progress.is_ended || !is_last && remaining.is_empty() {
                break;
            }
            if progress.consumed + progress.written == 0 {
                return Err(io::ErrorKind::Other.into());
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == IO_BUFFER_BYTES {
            self.write_buffer(false)?;
        }
        let count = bytes.len().min(IO_BUFFER_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer(false)
    }
}
