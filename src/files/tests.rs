//! Tests of parsing with several threads. The matrix or the error message must equal the result of one thread.

use super::parse;
use crate::base::workers::Workers;
use crate::error::Error;
use crate::options::FileFormat;
use crate::sparse::matrix::AnyCsr;

const N: usize = 7000;

/// Returns the lines of a file with comments and blank lines between its entries.
fn lines(head: &str) -> Vec<String> {
    let mut lines = vec![format!("%%MatrixMarket matrix {head}"), format!("{N} {N} {N}")];
    for k in 0..N {
        let (i, j) = ((k * 7919) % N, (k * 104_729 + 5) % N);
        lines.push(format!("{} {} {:e}", i.max(j) + 1, i.min(j) + 1, 1.0 / (1 + k) as f64));
        if k % 100 == 0 {
            lines.push(["% a comment", "", "  "][k / 100 % 3].to_owned());
        }
    }
    lines
}

/// Returns the parsed matrix as text, with the bits of its values, or the error message.
fn outcome(lines: &[String], threads: usize) -> String {
    let text = lines.join("\n");
    match parse(text.as_bytes(), &mut Workers::eager(threads)) {
        Ok(loaded) => match loaded.matrix.any() {
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
fn same_for_any_threads(lines: &[String]) -> String {
    let one = outcome(lines, 1);
    for threads in [2, 3, 7] {
        let team = outcome(lines, threads);
        assert!(team == one, "{threads} threads: {:.80} {:.80}", team, one);
    }
    one
}

#[test]
fn a_team_reads_what_one_thread_reads() {
    for head in ["coordinate real general", "coordinate real symmetric"] {
        let all = lines(head);
        same_for_any_threads(&all);
        let broken = |at: usize, line: &str| {
            let mut lines = all.clone();
            lines[at] = line.to_owned();
            same_for_any_threads(&lines)
        };
        let (middle, last) = (all.len() / 2 + 1, all.len() - 1);
        assert_eq!(broken(middle, "1 x 2"), format!("line {}: 'x' is no column", middle + 1));
        assert_eq!(broken(last, "1 1"), format!("line {}: has no value", last + 1));
        let short = format!("line {}: the file ends after {} of the {N} entries announced", last + 1, N - 1);
        assert_eq!(broken(last, "%"), short);
        assert_eq!(broken(middle, "%"), short);
        let more = [&all[..], &["1 1 1".to_owned()]].concat();
        let expected = format!("line {}: more than the {N} entries that are announced", last + 2);
        assert_eq!(same_for_any_threads(&more), expected);
        // The first error of the file is reported, whichever thread finds it.
        let mut two = all.clone();
        (two[last], two[5]) = ("?".to_owned(), "1 1 1 1".to_owned());
        assert_eq!(same_for_any_threads(&two), "line 6: has more than an entry: '1'");
        // The error about an infinite sum names the line of the last duplicate.
        let mut sum = all.clone();
        (sum[10], sum[middle], sum[last]) = ("9 8 1e308".to_owned(), "9 8 1e308".to_owned(), "9 8 1".to_owned());
        let sum = same_for_any_threads(&sum);
        let expected = format!("line {}: values given at (9, 8) add up to inf; all entries must be finite", last + 1);
        assert_eq!(sum, expected);
    }
    let mut array = vec!["%%MatrixMarket matrix array real general".to_owned(), format!("{} 2", N)];
    array.extend((0..2 * N).map(|k| format!("{:e}", 1.0 / (1 + k) as f64)));
    same_for_any_threads(&array);
    array[N] = "1e400".to_owned();
    let expected = format!("line {}: '1e400' is not finite in double precision", N + 1);
    assert_eq!(same_for_any_threads(&array), expected);
    // These files have fewer entries than threads, and some have other line ends.
    for (head, entries) in [
        ("coordinate pattern symmetric", &["3 3 2", "2 1", "3 3"][..]),
        ("coordinate integer general\r", &["2 2 3\r", "1 2 -4\r", "\r", "2 1 3\r", "2 2 0\r"]),
        ("coordinate real skew-symmetric", &["3 3 1", "3 1 2.5"]),
        ("array real symmetric", &["2 2", "1", "2", "3"]),
        ("array real skew-symmetric", &["3 3", "1", "2", "3", ""]),
        ("coordinate real general", &["4 0 0"]),
    ] {
        let lines: Vec<String> = [
            &[format!("%%MatrixMarket matrix {head}")],
            &entries.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>()[..],
        ]
        .concat();
        assert!(!same_for_any_threads(&lines).starts_with("line"), "{head}");
    }
}

/// Several threads read the cards of pointers, rows, values and right-hand sides.
#[test]
fn a_team_reads_cards_as_one_thread_does() {
    let text = lines("coordinate real general").join("\n");
    let matrix = parse(text.as_bytes(), &mut Workers::alone()).unwrap().matrix;
    let mut cards = Vec::new();
    super::write::write(matrix.any(), FileFormat::Rb, &mut cards).unwrap();
    let all: Vec<String> = String::from_utf8(cards).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(same_for_any_threads(&all), outcome(&lines("coordinate real general"), 1));
    let broken = |at: usize, card: &str| {
        let mut cards = all.clone();
        cards[at] = card.to_owned();
        same_for_any_threads(&cards)
    };
    let counts: Vec<usize> = all[1].split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [pointers, rows, values] = [4, 4 + counts[1], 4 + counts[1] + counts[2]];
    assert_eq!(broken(pointers, "x"), "line 5: 'x' is no pointer");
    assert_eq!(
        broken(pointers + 9, "1"),
        format!("line {}: pointer 1 is below the one before it, {}", pointers + 10, {
            let before: Vec<i64> = all[pointers + 8].split_whitespace().map(|word| word.parse().unwrap()).collect();
            before[before.len() - 1]
        })
    );
    assert_eq!(broken(values - 1, "?"), format!("line {values}: '?' is no row"));
    assert_eq!(broken(rows, "0"), format!("line {}: row 0 must lie in [1, {N}]", rows + 1));
    assert_eq!(
        broken(all.len() - 1, "1e999"),
        format!("line {}: '1e999' is not finite in double precision", all.len())
    );
    // The first error of the file is reported, whichever thread finds it.
    let mut two = all.clone();
    (two[values + 3], two[values + 2000]) = ("a".to_owned(), "b".to_owned());
    assert_eq!(same_for_any_threads(&two), format!("line {}: 'a' is no number", values + 4));
    let short = &all[..all.len() - 2];
    assert!(same_for_any_threads(short).starts_with(&format!("line {}: the file ends ", short.len())));
}

/// Files with an upper triangle. If each entry is followed by its mirror image, the positions (row, column) of this
/// sequence ascend.
#[test]
fn an_upper_triangle_with_mirror_images_may_ascend() {
    let bits = |values: [f64; 3]| values.map(f64::to_bits);
    for (head, values) in [("symmetric", [3.0, 4.0, 4.0]), ("skew-symmetric", [0.0, 4.0, -4.0])] {
        let head = format!("%%MatrixMarket matrix coordinate real {head}");
        let lines = [head, "2 2 2".to_owned(), format!("1 1 {}", values[0]), "1 2 4".to_owned()];
        assert_eq!(same_for_any_threads(&lines), format!("[0, 2, 3] [0, 1, 0] {:?}", bits(values)));
    }
}
