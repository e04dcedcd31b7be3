//! Reads the text of a file, and decompresses it if it begins with the signature of gzip.

use super::fault::{file_error, read_fault};
use super::gz::Unpacker;
use crate::base::file::{is_regular_file, open};
use crate::error::{Error, FailedAllocation, RRB_ERR_IO, RRB_ERR_PARSE, Result, zeroed};
use std::ffi::CStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;

/// Signature of gzip files (RFC 1952, section 2.3.1).
const GZ: [u8; 2] = [0x1f, 0x8b];
/// Bytes per read. Buffers of this size are on the heap, because a caller may have a small stack.
pub const PIECE: usize = 1 << 16;
const TEXT: &str = "the text of a file";

/// Reads and decompresses the text of a file, without a byte order mark of UTF-8. Returns an error for files that
/// `check` rejects.
pub fn read_text(path: &CStr) -> Result<Vec<u8>> {
    if path == c"-" {
        return Err(file_error(RRB_ERR_IO, "the standard input is not read; give a file"));
    }
    let mut file = open(path).map_err(read_fault)?;
    let status = file.metadata().map_err(read_fault)?;
    if status.is_dir() {
        return Err(file_error(RRB_ERR_IO, "is a folder; give a file in it"));
    }
    // The buffer has one byte more than the file, so that the end of the file is detected without another allocation.
    let expected = if is_regular_file(status.mode()) { usize::try_from(status.len()).unwrap_or(0) } else { 0 };
    let (mut text, mut len) = (Vec::new(), 0);
    let first = PIECE.min(expected).max(GZ.len());
    while len < first {
        ensure_room(&mut text, len, first + 1 - len)?;
        match read_some(&mut file, &mut text[len..])? {
            0 => break,
            count => len += count,
        }
    }
    if text[..len].starts_with(&GZ) {
        text.truncate(len);
        return check(unpack(&mut file, text)?);
    }
    if len >= first && expected > len {
        ensure_room(&mut text, len, expected + 1 - len)?;
    }
    loop {
        ensure_room(&mut text, len, if len <= expected { 1 } else { PIECE })?;
        match read_some(&mut file, &mut text[len..])? {
            0 => break,
            count => len += count,
        }
    }
    text.truncate(len);
    check(text)
}

/// Ensures that `text` has room for `more` bytes after the first `len` bytes, which are in use.
fn ensure_room(text: &mut Vec<u8>, len: usize, more: usize) -> Result<()> {
    let missing = more.saturating_sub(text.len() - len);
    if missing > 0 {
        // `try_reserve` at least doubles the capacity of the vector, so repeated calls copy each byte a few times only.
        let bytes = text.len() as u128 + missing as u128;
        text.try_reserve(missing).map_err(|_| Error::NoMemory(FailedAllocation { bytes, what: TEXT }))?;
        text.resize(text.capacity(), 0);
    }
    Ok(())
}

/// Reads some bytes of a file; returns 0 at its end.
fn read_some(file: &mut File, to: &mut [u8]) -> Result<usize> {
    loop {
        match file.read(to) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(read_fault(error)),
        }
    }
}

/// Decompresses a gzip file whose first bytes are `head`. A file may consist of several gzip members.
fn unpack(file: &mut File, head: Vec<u8>) -> Result<Vec<u8>> {
    let mut unpacker = Unpacker::new()?;
    let (mut packed, mut given) = (head, 0);
    let mut available = packed.len();
    let (mut text, mut len) = (Vec::new(), 0);
    let mut within = true;
    loop {
        if given == available {
            if packed.len() < PIECE {
                packed = zeroed(PIECE, "packed bytes of a file")?;
            }
            (given, available) = (0, read_some(file, &mut packed)?);
            if available == 0 {
                break;
            }
        }
        if !within {
            unpacker.restart();
        }
        ensure_room(&mut text, len, PIECE)?;
        let step = unpacker.process(&packed[given..available], &mut text[len..]).map_err(damaged)?;
        if (step.used, step.written, step.ended) == (0, 0, false) {
            return Err(damaged("no progress"));
        }
        (given, len) = (given + step.used, len + step.written);
        within = !step.ended;
    }
    if within {
        return Err(file_error(RRB_ERR_PARSE, "the gz data end too early: the file is not whole, fetch it again"));
    }
    text.truncate(len);
    Ok(text)
}

fn damaged(reason: &str) -> Error {
    file_error(RRB_ERR_PARSE, format_args!("the gz data are damaged: {reason}"))
}

/// Removes a byte order mark of UTF-8. Rejects text in UTF-16, tar and zip archives, empty files, and text whose lines
/// end with CR alone.
fn check(mut text: Vec<u8>) -> Result<Vec<u8>> {
    const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
    let other = |reason: &str| Err(file_error(RRB_ERR_PARSE, reason));
    if text.starts_with(&UTF8_MARK) {
        text.drain(..UTF8_MARK.len());
    }
    if text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
        return other("the text is UTF-16; save it as UTF-8 or ASCII");
    }
    if text.get(257..262) == Some(b"ustar") {
        return other("a tar archive; unpack it and give the file in it");
    }
    if text.starts_with(&[b'P', b'K', 3, 4]) {
        return other("a zip archive; unpack it and give the file in it");
    }
    if text.is_empty() {
        return other("the file is empty");
    }
    if text.contains(&b'\r') && !text.contains(&b'\n') {
        return other("lines end with CR alone; convert them, as tr '\\r' '\\n' does");
    }
    Ok(text)
}
