//! Distribution of an error message of one rank to all ranks.

use super::{Comm, Gather};
use crate::base::heap::FallibleArc;
use crate::error::{Error, Location, Result, collected};

/// Length of a message in 8-byte words. The first `HEADER_WORDS` words store whether the message has a matrix index,
/// the level, column and row of this index, and the numbers of text bytes before and after the index. The texts follow,
/// each truncated to 512 bytes.
const MESSAGE_WORDS: usize = HEADER_WORDS + 128;
const HEADER_WORDS: usize = 6;

/// Distributes the error of rank `rank` to all ranks, and returns this error. Collective. `status` is the status of
/// this error, which all ranks already know. `own_error` is the error of the calling rank, if any. The result is
/// - `own_error`, if the calling rank is `rank`, or if `own_error` has the same message as the error of `rank`;
/// - otherwise `Error::OtherRanks` with the message of `rank`.
pub fn error_of_rank(comm: &FallibleArc<Comm>, rank: usize, status: i32, own_error: Option<&Error>) -> Result<Error> {
    let own_rank = comm.rank();
    let mut gather =
        Gather::new(comm, &collected((0..comm.size()).map(|_| MESSAGE_WORDS), "error messages of ranks")?)?;
    let all_words = gather.run(|words| {
        if let Some(error) = own_error.filter(|_| rank == own_rank) {
            write_error(error, words);
        }
    })?;
    let received_error = error_from_words(&all_words[rank * MESSAGE_WORDS..][..MESSAGE_WORDS], rank, status);
    Ok(own_error
        .filter(|own_error| rank == own_rank || message_parts(own_error) == message_parts(&received_error))
        .cloned()
        .unwrap_or(received_error))
}

/// Splits an error message into three parts: the text before the matrix index, the matrix index, and the text after the
/// matrix index. The rank number is omitted.
fn message_parts(error: &Error) -> (String, Option<Location>, String) {
    match error {
        Error::OtherRanks { text_before, location, text_after, .. } => {
            (text_before.clone(), *location, text_after.clone())
        }
        error => error.split_message(),
    }
}

/// Encodes an error as words.
fn write_error(error: &Error, words: &mut [f64]) {
    let (mut text_before, location, mut text_after) = error.split_message();
    let text_capacity = 8 * (MESSAGE_WORDS - HEADER_WORDS) / 2;
    for text in [&mut text_before, &mut text_after] {
        let end = (0..=text_capacity.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
    }
    let (level, i, j) = location.and_then(Location::as_node).unwrap_or((0, 0, 0));
    let has_place = f64::from(u8::from(location.is_some()));
    let header = [has_place, level as f64, i as f64, j as f64, text_before.len() as f64, text_after.len() as f64];
    words[..HEADER_WORDS].copy_from_slice(&header);
    let bytes: Vec<u8> = text_before.bytes().chain(text_after.bytes()).collect();
    for (word, bytes) in words[HEADER_WORDS..].iter_mut().zip(bytes.chunks(8)) {
        let mut word_bytes = [0; 8];
        word_bytes[..bytes.len()].copy_from_slice(bytes);
        *word = f64::from_bits(u64::from_le_bytes(word_bytes));
    }
}

/// Decodes an error that `write_error` encoded on rank `rank`.
fn error_from_words(words: &[f64], rank: usize, status: i32) -> Error {
    let [has_place, level, i, j, before_len, after_len] = std::array::from_fn(|k| words[k] as usize);
    let bytes: Vec<u8> = words[HEADER_WORDS..].iter().flat_map(|word| word.to_bits().to_le_bytes()).collect();
    let decode_text = |start: usize, len: usize| String::from_utf8_lossy(&bytes[start..start + len]).into_owned();
    let location = (has_place > 0).then(|| Location::node(level, i, j));
    Error::OtherRanks {
        rank,
        status,
        text_before: decode_text(0, before_len),
        location,
        text_after: decode_text(before_len, after_len),
    }
}
