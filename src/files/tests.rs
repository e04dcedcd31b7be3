//! Tests of parsing with several threads. The matrix or the error message must equal the result of one thread.

use super::parse;
use crate::base::workers::Workers;
use crate::error::Error;
use crate::options::FileFormat;
use crate::sparse::matrix::AnyCsr;

const SIZE: usize = 7000;

/// Returns the lines of a file with comments and blank lines between its entries.
fn file_lines(head: &str) -> Vec<String> {
    let mut file_lines = vec![format!("%%MatrixMarket matrix {head}"), format!("{SIZE} {SIZE} {SIZE}")];
    for k in 0..SIZE {
        let (i, j) = ((k * 7919) % SIZE, (k * 104_729 + 5) % SIZE);
        file_lines.push(format!("{} {} {:e}", i.max(j) + 1, i.min(j) + 1, 1.0 / (1 + k) as f64));
        if k % 100 == 0 {
            file_lines.push(["% a comment", "", "  "][k / 100 % 3].to_owned());
        }
    }
    file_lines
}

/// Returns the parsed matrix as text, with the bits of its values, or the error message.
fn parse_outcome(file_lines: &[String], threads: usize) -> String {
    let text = file_lines.join("\n");
    match parse(text.as_bytes(), &mut Workers::always_parallel(threads)) {
        Ok(loaded) => match loaded.matrix.any_csr() {
            AnyCsr::Narrow(a) => {
                let bits: Vec<u64> = a.val.iter().map(|value| value.to_bits()).collect();
                format!("{:?} {:?} {bits:?}", a.ptr, a.col)
            }
            AnyCsr::Wide(_) => panic!("rows are few"),
        },
        Err(Error::File { message, .. }) => message,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn outcome_for_any_threads(file_lines: &[String]) -> String {
    let single_thread_outcome = parse_outcome(file_lines, 1);
    for threads in [2, 3, 7] {
        let team_outcome = parse_outcome(file_lines, threads);
        assert!(
            team_outcome == single_thread_outcome,
            "{threads} threads: {:.80} {:.80}",
            team_outcome,
            single_thread_outcome
        );
    }
    single_thread_outcome
}

#[test]
fn team_and_single_thread_parse_identically() {
    for head in ["coordinate real general", "coordinate real symmetric"] {
        let valid_lines = file_lines(head);
        outcome_for_any_threads(&valid_lines);
        let outcome_with_line = |line_index: usize, line: &str| {
            let mut file_lines = valid_lines.clone();
            file_lines[line_index] = line.to_owned();
            outcome_for_any_threads(&file_lines)
        };
        let (middle, last) = (valid_lines.len() / 2 + 1, valid_lines.len() - 1);
        assert_eq!(outcome_with_line(middle, "1 x 2"), format!("line {}: 'x' is no column", middle + 1));
        assert_eq!(outcome_with_line(last, "1 1"), format!("line {}: has no value", last + 1));
        let truncated_lines =
            format!("line {}: the file ends after {} of the {SIZE} entries announced", last + 1, SIZE - 1);
        assert_eq!(outcome_with_line(last, "%"), truncated_lines);
        assert_eq!(outcome_with_line(middle, "%"), truncated_lines);
        let extended_lines = [&valid_lines[..], &["1 1 1".to_owned()]].concat();
        let expected = format!("line {}: more than the {SIZE} entries that are announced", last + 2);
        assert_eq!(outcome_for_any_threads(&extended_lines), expected);
        // The first error of the file is reported, whichever thread finds it.
        let mut two_errors = valid_lines.clone();
        (two_errors[last], two_errors[5]) = ("?".to_owned(), "1 1 1 1".to_owned());
        assert_eq!(outcome_for_any_threads(&two_errors), "line 6: has more than an entry: '1'");
        // The error about an infinite sum names the line of the last duplicate.
        let mut overflowing_sum = valid_lines.clone();
        (overflowing_sum[10], overflowing_sum[middle], overflowing_sum[last]) =
            ("9 8 1e308".to_owned(), "9 8 1e308".to_owned(), "9 8 1".to_owned());
        let overflowing_sum = outcome_for_any_threads(&overflowing_sum);
        let expected = format!("line {}: values given at (9, 8) add up to inf; all entries must be finite", last + 1);
        assert_eq!(overflowing_sum, expected);
    }
    let mut array = vec!["%%MatrixMarket matrix array real general".to_owned(), format!("{} 2", SIZE)];
    array.extend((0..2 * SIZE).map(|k| format!("{:e}", 1.0 / (1 + k) as f64)));
    outcome_for_any_threads(&array);
    array[SIZE] = "1e400".to_owned();
    let expected = format!("line {}: '1e400' is not finite in double precision", SIZE + 1);
    assert_eq!(outcome_for_any_threads(&array), expected);
    // These files have fewer entries than threads, and some have other line ends.
    for (head, entries) in [
        ("coordinate pattern symmetric", &["3 3 2", "2 1", "3 3"][..]),
        ("coordinate integer general\r", &["2 2 3\r", "1 2 -4\r", "\r", "2 1 3\r", "2 2 0\r"]),
        ("coordinate real skew-symmetric", &["3 3 1", "3 1 2.5"]),
        ("array real symmetric", &["2 2", "1", "2", "3"]),
        ("array real skew-symmetric", &["3 3", "1", "2", "3", ""]),
        ("coordinate real general", &["4 0 0"]),
    ] {
        let file_lines: Vec<String> = [
            &[format!("%%MatrixMarket matrix {head}")],
            &entries.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>()[..],
        ]
        .concat();
        assert!(!outcome_for_any_threads(&file_lines).starts_with("line"), "{head}");
    }
}

/// Several threads read the cards of pointers, rows, values and right-hand sides.
#[test]
fn team_and_single_thread_parse_cards_identically() {
    let text = file_lines("coordinate real general").join("\n");
    let matrix = parse(text.as_bytes(), &mut Workers::single_threaded()).unwrap().matrix;
    let mut cards = Vec::new();
    super::write::write(matrix.any_csr(), FileFormat::Rb, &mut cards).unwrap();
    let valid_lines: Vec<String> = String::from_utf8(cards).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(outcome_for_any_threads(&valid_lines), parse_outcome(&file_lines("coordinate real general"), 1));
    let outcome_with_line = |line_index: usize, card: &str| {
        let mut cards = valid_lines.clone();
        cards[line_index] = card.to_owned();
        outcome_for_any_threads(&cards)
    };
    let counts: Vec<usize> = valid_lines[1].split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [pointers, rows, values] = [4, 4 + counts[1], 4 + counts[1] + counts[2]];
    assert_eq!(outcome_with_line(pointers, "x"), "line 5: 'x' is no pointer");
    assert_eq!(
        outcome_with_line(pointers + 9, "1"),
        format!("line {}: pointer 1 is below the one before it, {}", pointers + 10, {
            let previous_pointers: Vec<i64> =
                valid_lines[pointers + 8].split_whitespace().map(|word| word.parse().unwrap()).collect();
            previous_pointers[previous_pointers.len() - 1]
        })
    );
    assert_eq!(outcome_with_line(values - 1, "?"), format!("line {values}: '?' is no row"));
    assert_eq!(outcome_with_line(rows, "0"), format!("line {}: row 0 must lie in [1, {SIZE}]", rows + 1));
    assert_eq!(
        outcome_with_line(valid_lines.len() - 1, "1e999"),
        format!("line {}: '1e999' is not finite in double precision", valid_lines.len())
    );
    // The first error of the file is reported, whichever thread finds it.
    let mut two_errors = valid_lines.clone();
    (two_errors[values + 3], two_errors[values + 2000]) = ("a".to_owned(), "b".to_owned());
    assert_eq!(outcome_for_any_threads(&two_errors), format!("line {}: 'a' is no number", values + 4));
    let truncated_lines = &valid_lines[..valid_lines.len() - 2];
    assert!(
        outcome_for_any_threads(truncated_lines)
            .starts_with(&format!("line {}: the file ends ", truncated_lines.len()))
    );
}

/// The files contain the upper triangle. If the mirror image (j, i) is inserted after each entry (i, j), the entries
/// are already sorted by row and column.
#[test]
fn upper_triangle_may_ascend_with_mirror_images() {
    let bits = |values: [f64; 3]| values.map(f64::to_bits);
    for (head, values) in [("symmetric", [3.0, 4.0, 4.0]), ("skew-symmetric", [0.0, 4.0, -4.0])] {
        let head = format!("%%MatrixMarket matrix coordinate real {head}");
        let file_lines = [head, "2 2 2".to_owned(), format!("1 1 {}", values[0]), "1 2 4".to_owned()];
        assert_eq!(outcome_for_any_threads(&file_lines), format!("[0, 2, 3] [0, 1, 0] {:?}", bits(values)));
    }
}
