//! What must hold of any text that is given as a matrix file.

use rrbsolver::layers::{Loaded, Workers, parse_matrix, write_matrix};
use rrbsolver::options::FileFormat;

/// Rows and columns at most: a file may have more, and then takes time and memory for their pointers.
const MOST: u64 = 10_000;

/// A text that is read has no more entries than bytes for them, and is the same matrix when it is written and read
/// again; any other is refused with a reason. False: nothing was tried.
pub fn check(text: &[u8]) -> bool {
    // Counts stand in these lines, after the comments of MatrixMarket.
    let lines = text.split(|&c| c == b'\n').filter(|line| !line.trim_ascii_start().starts_with(b"%"));
    let mut words = lines.take(4).flat_map(|line| line.split(u8::is_ascii_whitespace));
    if words.any(|word| str::from_utf8(word).is_ok_and(|word| word.parse().is_ok_and(|count: u64| count > MOST))) {
        return false;
    }
    let alone = || parse_matrix(text, &mut Workers::single_threaded());
    let mut workers =
        if text.len().is_multiple_of(16) { Workers::always_parallel(3) } else { Workers::single_threaded() };
    match parse_matrix(text, &mut workers) {
        Ok(loaded) => {
            assert!(loaded.matrix.sizes().nonzeros <= 2 * text.len(), "entries that no bytes give");
            for format in [FileFormat::Mtx, FileFormat::Rb] {
                let once = written(&loaded, format);
                let again = parse_matrix(&once, &mut Workers::single_threaded()).expect("what is written can be read");
                assert!(written(&again, format) == once, "what is read back is another matrix");
                let alone = alone().expect("one thread reads it, too");
                assert!(written(&alone, format) == once, "a team reads another matrix");
            }
        }
        Err(fault) => {
            let alone = alone().err().map(|fault| fault.to_string());
            assert_eq!(alone, Some(fault.to_string()), "a team says something else");
        }
    }
    true
}

fn written(loaded: &Loaded, format: FileFormat) -> Vec<u8> {
    let mut text = Vec::new();
    write_matrix(loaded.matrix.any_csr(), format, &mut text).expect("memory holds it");
    text
}
