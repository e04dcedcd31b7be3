//! Distribution of an error message of one rank to all ranks.

use super::{Comm, Gather};
use crate::base::heap::Counted;
use crate::error::{Error, Place, Result, collected};

/// Length of a message in 8-byte words. The first `HEADER_WORDS` words store whether the message has a matrix index,
/// the level, column and row of this index, and the numbers of text bytes before and after the index. The texts follow,
/// each truncated to 512 bytes.
const WORDS: usize = HEADER_WORDS + 128;
const HEADER_WORDS: usize = 6;

/// Returns the error of rank `rank` on every rank. All ranks already know the status of this error. `mine` is the error
/// of this rank, if any. If it is the requested error or has the same message, `mine` is returned, otherwise
/// `Error::OtherRanks`. Collective.
pub fn error_of_rank(comm: &Counted<Comm>, rank: usize, status: i32, mine: Option<&Error>) -> Result<Error> {
    let this = comm.rank();
    let mut gather = Gather::new(comm, &collected((0..comm.size()).map(|_| WORDS), "error messages of ranks")?)?;
    let all = gather.run(|to| {
        if let Some(error) = mine.filter(|_| rank == this) {
            put(error, to);
        }
    })?;
    let theirs = from_words(&all[rank * WORDS..][..WORDS], rank, status);
    Ok(mine.filter(|mine| rank == this || message(mine) == message(&theirs)).cloned().unwrap_or(theirs))
}

/// Returns the text of a message before the matrix index, the index, and the text after the index. The rank number is
/// omitted.
fn message(error: &Error) -> (String, Option<Place>, String) {
    match error {
        Error::OtherRanks { before, place, after, .. } => (before.clone(), *place, after.clone()),
        own => own.parts(),
    }
}

fn put(error: &Error, to: &mut [f64]) {
    let (mut before, place, mut after) = error.parts();
    let room = 8 * (WORDS - HEADER_WORDS) / 2;
    for text in [&mut before, &mut after] {
        let end = (0..=room.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
    }
    let (level, i, j) = place.and_then(Place::of_node).unwrap_or((0, 0, 0));
    let there = f64::from(u8::from(place.is_some()));
    let head = [there, level as f64, i as f64, j as f64, before.len() as f64, after.len() as f64];
    to[..HEADER_WORDS].copy_from_slice(&head);
    let bytes: Vec<u8> = before.bytes().chain(after.bytes()).collect();
    for (to, bytes) in to[HEADER_WORDS..].iter_mut().zip(bytes.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        *to = f64::from_bits(u64::from_le_bytes(word));
    }
}

fn from_words(words: &[f64], rank: usize, status: i32) -> Error {
    let [there, level, i, j, before, after] = std::array::from_fn(|k| words[k] as usize);
    let bytes: Vec<u8> = words[HEADER_WORDS..].iter().flat_map(|word| word.to_bits().to_le_bytes()).collect();
    let text = |start: usize, len: usize| String::from_utf8_lossy(&bytes[start..start + len]).into_owned();
    let place = (there > 0).then(|| Place::node(level, i, j));
    Error::OtherRanks { rank, status, before: text(0, before), place, after: text(before, after) }
}
