//! Harwell- and Rutherford-Boeing, supplementary files too: any bytes that do not begin as MatrixMarket does.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|text: &[u8]| -> Corpus {
    let is_new = !text.starts_with(b"%%") && rrbsolver_fuzz::check(text);
    if is_new { Corpus::Keep } else { Corpus::Reject }
});
