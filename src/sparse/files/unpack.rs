//! The text of a file: out of gz where its first bytes say so.

use super::fault::{Fault, Parsed, whole};
use crate::error::{Error, RRB_ERR_IO, RRB_ERR_PARSE, Refused};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

/// What every gz file begins with.
const GZ: [u8; 2] = [0x1f, 0x8b];
/// Bytes read at once; on the heap, for callers with small stacks.
const PIECE: usize = 1 << 16;

/// The text, without a byte order mark.
pub fn text(path: &Path) -> Parsed<Vec<u8>> {
    let refused = |reason: String| whole(RRB_ERR_IO, reason);
    if path.as_os_str() == "-" {
        return Err(refused("the standard input is not read; give a file".to_owned()));
    }
    let unreadable = |error: std::io::Error| refused(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(refused("is a folder; give a file in it".to_owned()));
    }
    let mut packed = BufReader::with_capacity(PIECE, file);
    let is_gz = packed.fill_buf().map_err(unreadable)?.starts_with(&GZ);
    let text = if is_gz {
        let broken = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                whole(RRB_ERR_PARSE, "the gz data end too early: the file is not whole, fetch it again")
            }
            _ => whole(RRB_ERR_PARSE, format!("the gz data are damaged: {error}")),
        };
        all(MultiGzDecoder::new(packed), broken)?
    } else {
        all(packed, unreadable)?
    };
    check(text)
}

/// Everything that can be read.
fn all(mut from: impl Read, fault: impl Fn(std::io::Error) -> Fault) -> Parsed<Vec<u8>> {
    let (mut text, mut len) = (Vec::new(), 0);
    loop {
        if text.len() - len < PIECE {
            let bytes = text.len() as u128 + PIECE as u128;
            let no_memory = |_| Error::NoMemory(Refused { bytes, what: "the text of a file" });
            text.try_reserve(PIECE).map_err(no_memory)?;
            text.resize(text.capacity(), 0);
        }
        match from.read(&mut text[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fault(error)),
        }
    }
    text.truncate(len);
    Ok(text)
}

/// Files that hold something else than one matrix as text.
fn check(mut text: Vec<u8>) -> Parsed<Vec<u8>> {
    const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
    let other = |reason: &str| Err(whole(RRB_ERR_PARSE, reason));
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
