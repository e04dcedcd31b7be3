//! MatrixMarket: any bytes behind the two that its files begin with.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|text: &[u8]| -> Corpus {
    let mark: &[u8] = if text.starts_with(b"%%") { b"" } else { b"%%" };
    if rrbsolver_fuzz::check(&[mark, text].concat()) { Corpus::Keep } else { Corpus::Reject }
});
