//! Frames of the simulator, and the newest of them.
//!
//! A frame begins with the line `frame BYTES JSON`, and BYTES bytes of heights follow. The server does not interpret
//! either part. A page receives the length of JSON (u32, little-endian), JSON, and the heights; blanks after JSON align
//! the heights to 4 bytes.

use std::io::{self, BufRead, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tungstenite::Bytes;

/// Maximum length of the first line of a frame, in bytes.
const HEAD_LIMIT: u64 = 1 << 16;
/// Maximum length of the heights, in bytes. Frames of examples/ship_waves have at most 2 * 4096 * 2160.
const HEIGHTS_LIMIT: usize = 1 << 25;

/// Reads a frame. Returns the message for the pages, or `None` at the end of the simulator's output.
pub fn read_frame(simulator: &mut impl BufRead) -> io::Result<Option<Bytes>> {
    let mut head = Vec::new();
    simulator.by_ref().take(HEAD_LIMIT).read_until(b'\n', &mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    let (json, heights) = parse_head(&head).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&head[..head.len().min(60)]).trim_end().to_string();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "\"{shown}\" is not the first line of a frame: it must be `frame BYTES JSON`, BYTES <= {HEIGHTS_LIMIT}"
            ),
        )
    })?;
    let padded = json.len().next_multiple_of(4);
    let mut message = Vec::with_capacity(4 + padded + heights);
    message.extend_from_slice(&u32::try_from(padded).expect("bounded by HEAD_LIMIT").to_le_bytes());
    message.extend_from_slice(json);
    message.resize(4 + padded, b' ');
    let first = message.len();
    message.resize(first + heights, 0);
    simulator.read_exact(&mut message[first..])?;
    Ok(Some(message.into()))
}

/// Returns JSON and the number of bytes of the heights.
fn parse_head(head: &[u8]) -> Option<(&[u8], usize)> {
    let rest = head.strip_suffix(b"\n")?.strip_prefix(b"frame ")?;
    let blank = rest.iter().position(|&byte| byte == b' ')?;
    let heights = std::str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
    (heights <= HEIGHTS_LIMIT).then_some((&rest[blank + 1..], heights))
}

/// The newest frame. A page that is slower than the simulator skips frames.
#[derive(Default)]
pub struct Newest(Mutex<State>);

#[derive(Default)]
struct State {
    /// Number of frames so far.
    count: u64,
    message: Bytes,
    ended: bool,
}

impl Newest {
    /// Replaces the newest frame.
    pub fn put(&self, message: Bytes) {
        let mut state = self.lock();
        state.count += 1;
        state.message = message;
    }

    /// Marks the end of the simulation.
    pub fn end(&self) {
        self.lock().ended = true;
    }

    /// Returns whether the simulation has ended.
    pub fn ended(&self) -> bool {
        self.lock().ended
    }

    /// Returns the newest frame and the number of frames so far, if that number is larger than `seen`.
    pub fn after(&self, seen: u64) -> Option<(u64, Bytes)> {
        let state = self.lock();
        (state.count > seen).then(|| (state.count, state.message.clone()))
    }

    /// No code that holds the lock can leave the state inconsistent, so the state is valid after a panic too.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_one_after_another() {
        let mut simulator: &[u8] = b"frame 4 {\"t\":1}\nabcdframe 0 {}\n";
        let first = read_frame(&mut simulator).unwrap().unwrap();
        assert_eq!(&first[..], b"\x08\0\0\0{\"t\":1} abcd");
        assert_eq!(&read_frame(&mut simulator).unwrap().unwrap()[..], b"\x04\0\0\0{}  ");
        assert_eq!(read_frame(&mut simulator).unwrap(), None);
    }

    #[test]
    fn the_largest_window_of_the_simulator_is_a_frame() {
        let bytes = 2 * 4096 * 2160;
        let frame = [format!("frame {bytes} {{}}\n").into_bytes(), vec![1; bytes]].concat();
        let mut simulator = frame.as_slice();
        assert_eq!(read_frame(&mut simulator).unwrap().unwrap().len(), 8 + bytes);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let long = [b"frame 1 ".as_slice(), &[b'x'; HEAD_LIMIT as usize], b"\na"].concat();
        for text in [
            b"step 12 of 700\n".as_slice(),
            b"frame -1 {}\n",
            b"frame 99999999 {}\n",
            b"frame 4",
            b"frame 4 {}\nabc",
            &long,
        ] {
            let mut simulator = text;
            assert!(read_frame(&mut simulator).is_err(), "{}", String::from_utf8_lossy(&text[..text.len().min(40)]));
        }
    }

    #[test]
    fn the_newest_frame_replaces_the_older_ones() {
        let newest = Newest::default();
        assert_eq!(newest.after(0), None);
        newest.put(Bytes::from_static(b"old"));
        newest.put(Bytes::from_static(b"new"));
        assert_eq!(newest.after(0), Some((2, Bytes::from_static(b"new"))));
        assert_eq!(newest.after(2), None);
        newest.end();
        assert!(newest.ended());
    }
}
