//! Reads the text of a file, and decompresses it if it begins with the signature of gzip.

use super::fault::{file_error, read_error};
use super::gz::GzipDecompressor;
use crate::base::file::{is_regular_file, open};
use crate::error::{Error, FailedAllocation, RRB_ERR_IO, RRB_ERR_PARSE, Result, zeroed};
use std::ffi::CStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;

/// Signature of gzip files (RFC 1952, section 2.3.1).
const GZIP_SIGNATURE: [u8; 2] = [0x1f, 0x8b];
/// Bytes per read. Buffers of this size are on the heap, because a caller may have a small stack.
pub const IO_BUFFER_BYTES: usize = 1 << 16;
const TEXT_NAME: &str = "the text of a file";

/// Reads and decompresses the text of a file, without a byte order mark of UTF-8. Returns an error for files that
/// `check_text` rejects.
pub fn read_text(path: &CStr) -> Result<Vec<u8>> {
    if path == c"-" {
        return Err(file_error(RRB_ERR_IO, "the standard input is not read; give a file"));
    }
    let mut file = open(path).map_err(read_error)?;
    let status = file.metadata().map_err(read_error)?;
    if status.is_dir() {
        return Err(file_error(RRB_ERR_IO, "is a folder; give a file in it"));
    }
    // The buffer has one byte more than the file, so that the end of the file is detected without another allocation.
    let file_bytes = if is_regular_file(status.mode()) { usize::try_from(status.len()).unwrap_or(0) } else { 0 };
    let (mut text, mut len) = (Vec::new(), 0);
    let first_read = IO_BUFFER_BYTES.min(file_bytes).max(GZIP_SIGNATURE.len());
    while len < first_read {
        ensure_capacity(&mut text, len, first_read + 1 - len)?;
        match read_some(&mut file, &mut text[len..])? {
            0 => break,
            count => len += count,
        }
    }
    if text[..len].starts_with(&GZIP_SIGNATURE) {
        text.truncate(len);
        return check_text(decompress(&mut file, text)?);
    }
    if len >= first_read && file_bytes > len {
        ensure_capacity(&mut text, len, file_bytes + 1 - len)?;
    }
    loop {
        ensure_capacity(&mut text, len, if len <= file_bytes { 1 } else { IO_BUFFER_BYTES })?;
        match read_some(&mut file, &mut text[len..])? {
            0 => break,
            count => len += count,
        }
    }
    text.truncate(len);
    check_text(text)
}

/// Ensures that `text` has room for `additional` bytes after the first `len` bytes, which are in use.
fn ensure_capacity(text: &mut Vec<u8>, len: usize, additional: usize) -> Result<()> {
    let missing_bytes = additional.saturating_sub(text.len() - len);
    if missing_bytes > 0 {
        // `try_reserve` at least doubles the capacity of the vector, so repeated calls copy each byte a few times only.
        let bytes = text.len() as u128 + missing_bytes as u128;
        text.try_reserve(missing_bytes)
            .map_err(|_| Error::NoMemory(FailedAllocation { bytes, allocation_name: TEXT_NAME }))?;
        text.resize(text.capacity(), 0);
    }
    Ok(())
}

/// Reads some bytes of a file; returns 0 at its end.
fn read_some(file: &mut File, target: &mut [u8]) -> Result<usize> {
    loop {
        match file.read(target) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
}

/// Decompresses a gzip file whose first bytes are `first_bytes`. A file may consist of several gzip members.
fn decompress(file: &mut File, first_bytes: Vec<u8>) -> Result<Vec<u8>> {
    let mut decompressor = GzipDecompressor::new()?;
    let (mut packed, mut consumed_bytes) = (first_bytes, 0);
    let mut available_bytes = packed.len();
    let (mut text, mut len) = (Vec::new(), 0);
    let mut is_in_member = true;
    loop {
        if consumed_bytes == available_bytes {
            if packed.len() < IO_BUFFER_BYTES {
                packed = zeroed(IO_BUFFER_BYTES, "packed bytes of a file")?;
            }
            (consumed_bytes, available_bytes) = (0, read_some(file, &mut packed)?);
            if available_bytes == 0 {
                break;
            }
        }
        if !is_in_member {
            decompressor.restart();
        }
        ensure_capacity(&mut text, len, IO_BUFFER_BYTES)?;
        let progress = decompressor
            .process(&packed[consumed_bytes..available_bytes], &mut text[len..])
            .map_err(damaged_data_error)?;
        if (progress.consumed, progress.written, progress.is_ended) == (0, 0, false) {
            return Err(damaged_data_error("no progress"));
        }
        (consumed_bytes, len) = (consumed_bytes + progress.consumed, len + progress.written);
        is_in_member = !progress.is_ended;
    }
    if is_in_member {
        return Err(file_error(RRB_ERR_PARSE, "the gz data end too early: the file is not whole, fetch it again"));
    }
    text.truncate(len);
    Ok(text)
}

fn damaged_data_error(reason: &str) -> Error {
    file_error(RRB_ERR_PARSE, format_args!("the gz data are damaged: {reason}"))
}

/// Removes a byte order mark of UTF-8. Rejects text in UTF-16, tar and zip archives, empty files, and text whose lines
/// end with CR alone.
fn check_text(mut text: Vec<u8>) -> Result<Vec<u8>> {
    const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
    let unsupported_error = |reason: &str| Err(file_error(RRB_ERR_PARSE, reason));
    if text.starts_with(&UTF8_MARK) {
        text.drain(..UTF8_MARK.len());
    }
    if text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
        return unsupported_error("the text is UTF-16; save it as UTF-8 or ASCII");
    }
    if text.get(257..262) == Some(b"ustar") {
        return unsupported_error("a tar archive; unpack it and give the file in it");
    }
    if text.starts_with(&[b'P', b'K', 3, 4]) {
        return unsupported_error("a zip archive; unpack it and give the file in it");
    }
    if text.is_empty() {
        return unsupported_error("the file is empty");
    }
    if text.contains(&b'\r') && !text.contains(&b'\n') {
        return unsupported_error("lines end with CR alone; convert them, as tr '\\r' '\\n' does");
    }
    Ok(text)
}
