//! Files of the `sparse_` family: accepted input, errors with line and reason, and bitwise identical round trips.

use crate::common;
use common::sparse::*;
use common::{Failure, rrbsolver_set_log, status};
use std::ffi::{CStr, c_char, c_void};
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;

/// Writes a file with this text, and reads its matrix.
fn read_text(folder: &Folder, text: impl AsRef<[u8]>) -> Result<Solver, Failure> {
    Solver::read(&folder.file("matrix", text))
}

/// Returns the triplets of a matrix, by rows.
fn entries(s: &Solver) -> Vec<(i64, i64, f64)> {
    let Arrays { places: [i, j, _], values } = s.arrays(COO).unwrap();
    i.into_iter().zip(j).zip(values).map(|((i, j), a)| (i, j, a)).collect()
}

/// Files of the collections, checked against their documentation and an independent count: rows, entries, symmetry, and
/// one entry.
#[test]
fn collection_files_have_the_documented_content() {
    for (name, rows, nonzeros, symmetric, entry) in [
        ("bcsstm22.mtx", 138, 138, 1, (0, 0, 1.882_734_061_879e-4)),
        ("nos4.mtx", 100, 594, 1, (0, 0, 0.171_554_18)),
        ("fidapm05.mtx", 42, 520, 1, (0, 0, 1.955_555_555_555_5)),
        ("bcsstk01.rsa", 48, 400, 1, (0, 0, 2_832_268.518_52)),
        ("can_24.psa", 24, 160, 1, (23, 23, 1.0)),
        ("west0067.rua", 67, 294, 0, (0, 0, 0.0)),
        ("arc130.rua", 130, 1282, 0, (0, 0, 0.0)),
    ] {
        let s = Solver::read(&data().join(name)).expect(name);
        let read = [key::ROWS, key::COLS, key::NONZEROS, key::SYMMETRIC].map(|k| s.int(k));
        assert_eq!(read, [rows, rows, nonzeros, symmetric], "{name}");
        if entry.2 != 0.0 {
            assert!(entries(&s).contains(&entry), "{name}: {:?}", entries(&s)[0]);
        }
    }
    let s = Solver::read(&data().join("fidapm05_rhs1.mtx")).unwrap();
    assert_eq!([key::ROWS, key::COLS, key::NONZEROS].map(|k| s.int(k)), [42, 1, 42]);
    assert_eq!(entries(&s)[0].2, 2.666_666_666_666_7e-2);
}

/// All files of the folder that the variable names can be read, written, and read back.
#[test]
fn all_files_of_a_folder_survive_a_round_trip() {
    let folder = std::env::var_os("RRBSOLVER_TEST_MATRICES").map_or_else(data, Into::into);
    let scratch = Folder::new("folder");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e != "md") {
            let s = Solver::read(&path).unwrap_or_else(|failure| panic!("{failure:?}"));
            check_written(&scratch, &s);
        }
    }
}

/// Checks that every file format, plain and compressed, returns bitwise identical matrices.
#[track_caller]
fn check_written(folder: &Folder, s: &Solver) {
    let expected = s.arrays(CSR).unwrap();
    for (name, number) in FILES {
        for suffix in ["", ".gz"] {
            let path = folder.0.join(format!("written.{name}{suffix}"));
            s.write(&path, number).expect(name);
            let packed = std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]);
            assert_eq!(packed, !suffix.is_empty());
            let back = Solver::read(&path).unwrap_or_else(|failure| panic!("{failure:?}"));
            assert!(back.arrays(CSR).unwrap().same_bits(&expected), "{name}{suffix}");
            assert_eq!([key::ROWS, key::COLS].map(|k| back.int(k)), [key::ROWS, key::COLS].map(|k| s.int(k)));
        }
    }
    let left =
        std::fs::read_dir(&folder.0).unwrap().any(|e| e.unwrap().path().extension().is_some_and(|e| e == "partial"));
    assert!(!left, "an incomplete file was left");
}

#[test]
fn written_files_are_read_back_bitwise() {
    let folder = Folder::new("written");
    let values = [1.0, -0.0, 0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0 / 3.0, -1e22, 123456.0, 0.0];
    let odd: Vec<_> = values.iter().enumerate().map(|(k, &a)| (k % 4, (k * 3) % 7, a)).collect();
    for a in [
        Entries::new(4, 7, &odd),
        Entries::new(7, 4, &odd.iter().map(|&(i, j, a)| (j, i, a)).collect::<Vec<_>>()),
        Entries::new(3, 3, &[(0, 1, 2.5), (1, 0, 2.5), (2, 2, -1.0)]),
        // Equal values, but an explicit zero without its mirror image. The zero is kept, so the file is general.
        Entries::new(2, 2, &[(0, 1, 0.0), (0, 0, 1.0)]),
        Entries::new(5, 5, &[]),
        Entries::new(1, 1, &[(0, 0, 1e-300)]),
        Entries::random(60, 50, 500, 3),
    ] {
        check_written(&folder, &a.solver());
    }
    let s = Entries::new(3, 3, &[(0, 1, 2.5), (1, 0, 2.5), (2, 2, -1e300)]).solver();
    let text = |name: &str, number: i32| {
        let path = folder.0.join(name);
        s.write(&path, number).unwrap();
        std::fs::read_to_string(path).unwrap()
    };
    assert_eq!(text("s.mtx", 0), "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 2.5\n3 3 -1e300\n");
    let cards: Vec<String> = text("s.rsa", 1).lines().skip(1).map(|card| card.trim_end().to_owned()).collect();
    let second = "             3             1             1             1             0";
    let third = "RSA                        3             3             2             0";
    let formats = "(40I2)          (40I2)          (8E9.1)";
    assert_eq!(cards, [second, third, formats, " 1 2 2 3", " 2 3", "    2.5E0 -1.0E300"]);
}

/// An existing file is unchanged if the new one cannot be written. A successful write keeps links and file modes,
/// and ignores the incomplete file of a killed process.
#[test]
fn failed_writes_leave_existing_files_unchanged() {
    let folder = Folder::new("lost");
    let s = Entries::new(1, 1, &[(0, 0, 1.0)]).solver();
    let missing = folder.0.join("none/a.mtx");
    s.write(&missing, 0).unwrap_err().expect(status::IO, &["none/a.mtx", "cannot be written"]);
    s.write(&folder.0, 0).unwrap_err().expect(status::IO, &["cannot be written"]);
    s.write(&missing, 3).unwrap_err().expect(status::ARGUMENT, &["file_format", "RRB_FILE_RB", "got 3"]);
    // The name has 250 bytes, so the name of the temporary file would be too long.
    let long = format!("{}.mtx", "k".repeat(246));
    let kept = folder.file(&long, "as it was");
    s.write(&kept, 0).unwrap_err().expect(status::IO, &[&long, "cannot be written, since", ".partial cannot"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "as it was");
    // The incomplete file of a killed process remains and has no effect. A link remains a link, and file modes are
    // kept.
    let left = folder.file(&format!("a.mtx.{}.0.partial", std::process::id()), "half");
    let a = folder.file("a.mtx", "before");
    std::fs::set_permissions(&a, Permissions::from_mode(0o640)).unwrap();
    let link = folder.0.join("link.mtx");
    std::os::unix::fs::symlink(&a, &link).unwrap();
    s.write(&link, 0).unwrap();
    assert!(link.is_symlink() && std::fs::read_to_string(&a).unwrap().starts_with("%%MatrixMarket"));
    assert_eq!(std::fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_to_string(&left).unwrap(), "half");
    if Path::new("/dev/full").exists() {
        s.write(Path::new("/dev/full"), 0).unwrap_err().expect(status::IO, &["/dev/full", "cannot be written"]);
        s.write(Path::new("/dev/null"), 0).unwrap();
    }
}

#[test]
fn accepted_matrix_market_files() {
    let folder = Folder::new("market");
    let read = |text: &str| entries(&read_text(&folder, text).unwrap_or_else(|failure| panic!("{text}: {failure:?}")));
    let general = "%%MatrixMarket matrix coordinate real general\n";
    assert_eq!(read(&format!("{general}% c\n\n2 3 2\n\n1 3 1.5D2\n2 1 -2.5-1\n")), [(0, 2, 150.0), (1, 0, -0.25)]);
    assert_eq!(read("%%MATRIXMARKET MATRIX Coordinate REAL General\r\n2 2 1\r\n2 2 1e0\r\n"), [(1, 1, 1.0)]);
    assert_eq!(read(&format!("\u{feff}{general}1 1 1\n1 1 7")), [(0, 0, 7.0)]);
    let unsigned = "%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 18446744073709551615\n";
    assert_eq!(read(unsigned), [(0, 0, 18_446_744_073_709_551_615.0)]);
    // Duplicates are added; explicit zeros are kept.
    assert_eq!(read(&format!("{general}2 2 3\n1 1 1\n1 1 2\n2 1 0\n")), [(0, 0, 3.0), (1, 0, 0.0)]);
    assert_eq!(
        read("%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n2 1 5\n1 3 -7\n2 2 1\n"),
        [(0, 1, 5.0), (0, 2, -7.0), (1, 0, 5.0), (1, 1, 1.0), (2, 0, -7.0)]
    );
    assert_eq!(read("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"), [(0, 1, 1.0), (1, 0, 1.0)]);
    assert_eq!(
        read("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 2\n2 1 3\n1 1 0\n"),
        [(0, 0, 0.0), (0, 1, -3.0), (1, 0, 3.0)]
    );
    let array = "%%MatrixMarket matrix array real ";
    assert_eq!(
        read(&format!("{array}general\n2 2\n1\n2\n3\n4\n")),
        [(0, 0, 1.0), (0, 1, 3.0), (1, 0, 2.0), (1, 1, 4.0)]
    );
    assert_eq!(
        read(&format!("{array}symmetric\n2 2\n1\n2\n3\n")),
        [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 3.0)]
    );
    let skew = read(&format!("{array}skew-symmetric\n3 3\n1\n2\n3\n"));
    assert_eq!(skew, [(0, 1, -1.0), (0, 2, -2.0), (1, 0, 1.0), (1, 2, -3.0), (2, 0, 2.0), (2, 1, 3.0)]);
    assert_eq!(read(&format!("{general}0 0 0\n")), []);
    assert_eq!(read("%%MatrixMarket matrix coordinate real symmetric\n0 0 0"), []);
    // Rows beyond 32 bits are legal in a file; only their pointers need memory.
    let s = read_text(&folder, format!("{general}1 3000000000 1\n1 3000000000 2\n")).unwrap();
    assert_eq!(entries(&s), [(0, 2_999_999_999, 2.0)]);
}

/// Line and reason of errors in MatrixMarket files.
#[test]
fn rejected_matrix_market_files() {
    let folder = Folder::new("refused");
    let general = "%%MatrixMarket matrix coordinate real general\n";
    let symmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
    let parse = status::PARSE;
    for (head, rest, code, words) in [
        (general, "138 138 2\n1 1 1\n1 140 1\n", parse, &["line 4: column 140 is above 138"][..]),
        (general, "2 2 1\n0 1 1\n", parse, &["line 3: row 0 is below 1"]),
        (general, "2 2 1\n1 1 1 1\n", parse, &["line 3", "'1'"]),
        (general, "2 2 1\n1 1\n# bytes\n", parse, &["line 3: has no value"]),
        (general, "2 2 1\n1 x 1\n", parse, &["line 3: 'x' is no column"]),
        (general, "2 2 1\n1 1 1.2.3\n", parse, &["line 3: '1.2.3' is no number"]),
        (general, "2 2 2\n1 1 1.0000\n", parse, &["line 3", "after 1 of the 2"]),
        (general, "2 2 1\n1 1 1\n2 2 2\n", parse, &["line 4: more than the 1 entries"]),
        (general, "2 2\n", parse, &["line 2", "3 counts"]),
        (
            general,
            "2 2 3\n1 1 1\n2 1 1e308\n2 1 1e308\n",
            status::NOT_FINITE,
            &["matrix: line 5: values given at (2, 1) add up to inf"],
        ),
        (
            "%%MatrixMarket matrix coordinate real skew-symmetric\n",
            "2 2 2\n2 1 1e308\n2 1 1e308\n",
            status::NOT_FINITE,
            &["matrix: line 4: values given at (2, 1) add up to inf"],
        ),
        (general, "2 2 1 1\n1 1 1\n", parse, &["line 2", "more than 3 counts"]),
        (general, "2 -2 1\n1 1 1\n", parse, &["line 2: '-2' is no count"]),
        (general, "% only\n", parse, &["ends before"]),
        (general, "9 9 1000000000000\n1 1 1\n", parse, &["line 2", "1000000000000 entries", "too few"]),
        (general, "1 1 1\n1 1 nan\n", status::NOT_FINITE, &["line 3", "nan"]),
        (general, "1 1 1\n1 1 1e400\n", status::NOT_FINITE, &["line 3", "1e400"]),
        (general, "1 1 1\n1 1 -Inf\n", status::NOT_FINITE, &["line 3", "-Inf"]),
        (symmetric, "3 3 4\n1 1 1\n3 2 1\n3 1 2\n2 3 1\n", parse, &["line 6: (2, 3) and (3, 2) both given"]),
        (symmetric, "2 3 1\n1 1 1\n", parse, &["line 2", "square", "2 x 3"]),
        ("%%MatrixMarket matrix coordinate real\n", "1 1 1\n1 1 1\n", parse, &["line 1", "symmetry"]),
        ("%%MatrixMarket matrix coordinate complex general\n", "1 1 0\n", status::UNSUPPORTED, &["[Re -Im; Im Re]"]),
        ("%%MatrixMarket matrix coordinate real hermitian\n", "1 1 0\n", status::UNSUPPORTED, &["complex"]),
        ("%%MatrixMarket matrix array pattern general\n", "1 1\n", parse, &["line 1", "array"]),
        ("%%MatrixMarket matrix coordinate pattern skew-symmetric\n", "1 1 0\n", parse, &["line 1", "signs"]),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n", "2 2 1\n2 2 3\n", parse, &["line 3", "diagonal"]),
        ("%%MatrixMarket matrix coordinate integer general\n", "1 1 1\n1 1 1.5\n", parse, &["line 3", "whole number"]),
        ("%%MatrixMarket vector coordinate real general\n", "1 1 0\n", parse, &["line 1", "must be such as"]),
        (
            "%%MatrixMarket matrix array real general\n",
            "100000 100000\n1\n",
            parse,
            &["line 2", "10000000000", "too few"],
        ),
        ("hello\n", "world\n", parse, &["neither MatrixMarket", "Harwell"]),
        ("", "", parse, &["empty"]),
        ("\u{fffe}", "", parse, &["neither"]),
    ] {
        let failure = read_text(&folder, format!("{head}{rest}")).map(|_| ()).unwrap_err();
        failure.expect(code, words);
        assert!(failure.message.contains("/matrix: "), "the path: {}", failure.message);
    }
    // Too many rows for any memory: the error names the bytes of their pointers.
    let failure = read_text(&folder, format!("{general}1000000000000000 1 1\n5 1 2\n")).map(|_| ()).unwrap_err();
    failure.expect(status::MEMORY, &["8000000000000008", "row pointers"]);
}

/// Compressed files are read. Damaged files, archives, other encodings, and paths that are not files cause errors.
#[test]
fn compressed_and_foreign_files() {
    let folder = Folder::new("other");
    let refused = |text: &[u8], words: &[&str]| {
        read_text(&folder, text).map(|_| ()).unwrap_err().expect(status::PARSE, words);
    };
    let pack = |text: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    };
    let text = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 3\n";
    let packed = pack(text);
    assert_eq!(entries(&read_text(&folder, &packed).unwrap()), [(0, 1, 3.0)]);
    // The file has two gzip members, as `cat` of two files creates it.
    let mut members = pack(&text[..20]);
    members.extend(pack(&text[20..]));
    assert_eq!(entries(&read_text(&folder, &members).unwrap()), [(0, 1, 3.0)]);
    refused(&packed[..packed.len() - 9], &["too early", "fetch it again"]);
    let mut broken = packed.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 0x55;
    refused(&broken, &["gz data"]);
    let mut tar = vec![0; 1024];
    tar[..5].copy_from_slice(b"a.mtx");
    tar[257..262].copy_from_slice(b"ustar");
    refused(&pack(&tar), &["tar archive", "unpack"]);
    refused(b"\xff\xfe%\0%\0", &["UTF-16"]);
    refused(b"PK\x03\x04", &["zip"]);
    refused(b"%%MatrixMarket matrix coordinate real general\r1 1 1\r1 1 1\r", &["CR alone", "tr "]);
    for (path, words) in [
        (folder.0.clone(), "is a folder"),
        (folder.0.join("none.mtx"), "cannot be read"),
        (Path::new("-").to_owned(), "standard input"),
    ] {
        Solver::read(&path).map(|_| ()).unwrap_err().expect(status::IO, &[path.to_str().unwrap(), words]);
    }
}

/// Returns cards of a Harwell-Boeing file, with fields as wide as their formats require.
fn cards(kind: &str, counts: [usize; 5], size: [usize; 3], formats: [&str; 4], rest: &[&str]) -> String {
    let [a, b, c, d, e] = counts;
    let [rows, cols, count] = size;
    let [f, g, h, i] = formats;
    let head = format!("{:<72}{:<8}\n{a:14}{b:14}{c:14}{d:14}{e:14}\n", "a title", "KEY");
    let middle = format!("{kind:<14}{rows:14}{cols:14}{count:14}{:14}\n{f:<16}{g:<16}{h:<20}{i:<20}\n", 0);
    head + &middle + &rest.join("\n") + "\n"
}

#[test]
fn accepted_harwell_boeing_files() {
    let folder = Folder::new("harwell");
    let of = |text: &str| read_text(&folder, text).unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
    let square = [2, 2, 3];
    let expected = [(0, 0, 1.5), (1, 0, -2.5), (1, 1, 4.0)];
    let int = "(16I5)";
    for (format, cards_of_values, values) in [
        ("(4E20.12)", 1, &["  1.500000000000E+00 -2.500000000000D+00  4.0"][..]),
        ("(1P,4E20.12)", 1, &["  1.500000000000E+00 -2.500000000000E+00  4.0E0"]),
        ("(1P2D10.2)", 2, &["   1.50D+0 -2.50D+00", "   4.00+00"]),
        ("(3(1PE10.2))", 1, &["  1.50E+00 -2.50E+00   4.0E+00"]),
        // Without a decimal point, it is before the last two digits. Without an exponent, 1P divides by 10.
        ("(3F6.2)", 1, &["   150  -250   400"]),
        ("(1P3F6.2)", 1, &[" 15.00-25.00 4000 "]),
        ("(2X,3G5.1)", 1, &["    1.5 -2.5  4.0"]),
        ("(10F8.3)", 1, &["   1.5    -2.5       4"]),
    ] {
        let values = if format == "(10F8.3)" { &["   1.500  -2.500   4.000"][..] } else { values };
        let text = cards(
            "RUA",
            [2 + cards_of_values, 1, 1, cards_of_values, 0],
            square,
            [int, int, format, ""],
            &[&["    1    3    4", "    1    2    2"][..], values].concat(),
        );
        assert_eq!(entries(&of(&text)), expected, "{format}");
    }
    // No blanks between numbers, pattern, lower case, four counts (Rutherford-Boeing).
    let text = cards("psa", [2, 1, 1, 0, 0], [2, 2, 2], ["(3I1)", "(2I1)", "", ""], &["123", "12"]);
    let four = text.replacen(&format!("{:14}\n", 0), "\n", 1);
    for text in [text, four] {
        assert_eq!(entries(&of(&text)), [(0, 0, 1.0), (1, 1, 1.0)]);
    }
    // Skew-symmetric, rectangular, integer.
    let text =
        cards("RZA", [3, 1, 1, 1, 0], [2, 2, 1], [int, int, "(F4.1)", ""], &["    1    2    2", "    2", " 3.5"]);
    assert_eq!(entries(&of(&text)), [(0, 1, -3.5), (1, 0, 3.5)]);
    let text =
        cards("IRA", [3, 1, 1, 1, 0], [3, 1, 2], [int, int, "(2I4)", ""], &["    1    3", "    1    3", "   7  -8"]);
    assert_eq!(entries(&of(&text)), [(0, 0, 7.0), (2, 0, -8.0)]);
    // A blank field, and missing fields of a short card, are 0.
    let text = cards(
        "RUA",
        [3, 1, 1, 1, 0],
        square,
        [int, int, "(3F5.1)", ""],
        &["    1    3    4", "    1    2    2", "  1.5"],
    );
    assert_eq!(entries(&of(&text)), [(0, 0, 1.5), (1, 0, 0.0), (1, 1, 0.0)]);
}

#[test]
fn right_hand_sides() {
    let folder = Folder::new("rhs");
    let matrix = ["    1    2    3", "    1    2", " 1.0 2.0"];
    let text = |kind: &str, many: usize, count: usize, cards_of_rhs: usize, rest: &[&str]| {
        let fifth = format!("{kind:<14}{many:14}{count:14}");
        let rest = [&[fifth.as_str()][..], &matrix, rest].concat();
        let counts = [3 + cards_of_rhs, 1, 1, 1, cards_of_rhs];
        cards("RUA", counts, [2, 2, 2], ["(16I5)", "(16I5)", "(2F4.1)", "(2F4.1)"], &rest)
    };
    let s = read_text(
        &folder,
        text("FGX", 2, 0, 6, &[" 1.0 2.0", " 3.0 4.0", " 5.0 6.0", " 7.0 8.0", " 9.0 1.1", " 1.2 1.3"]),
    );
    let s = s.unwrap();
    assert_eq!(s.int(key::FILE_RHS), 2);
    let all = [(0, 1), (1, 0), (2, 1)].map(|(which, k)| s.vector(which, k).unwrap());
    assert_eq!(all, [[3.0, 4.0], [5.0, 6.0], [1.2, 1.3]]);
    s.vector(0, 2).unwrap_err().expect(status::ARGUMENT, &["there is no rhs 2: the matrix has 2 rhs"]);
    s.vector(0, -1).unwrap_err().expect(status::ARGUMENT, &["there is no rhs -1: the matrix has 2 rhs"]);
    s.vector(3, 0).unwrap_err().expect(status::ARGUMENT, &["which", "RRB_VECTOR_SOLUTION"]);
    // Sparse right-hand sides: row 2 of the first, both rows of the second.
    let rest = ["    1    2    4", "    2    1    2", " 1.5 2.5", " 3.5"];
    let s = read_text(&folder, text("M", 2, 3, 4, &rest)).unwrap();
    assert_eq!([0, 1].map(|k| s.vector(0, k).unwrap()), [[0.0, 1.5], [2.5, 3.5]]);
    s.vector(1, 0).unwrap_err().expect(status::ARGUMENT, &["no guess"]);
    let refused = |text: String, words: &[&str]| {
        read_text(&folder, text).map(|_| ()).unwrap_err().expect(status::PARSE, words);
    };
    refused(text("Q", 1, 0, 1, &[" 1.0 2.0"]), &["line 5", "F or M"]);
    // The header announces more cards than the right-hand sides need; all of them exist, so the count is an error.
    refused(text("F", 1, 0, 2, &[" 1.0 2.0", " 3.0 4.0"]), &["line 2", "2 cards", "take 1"]);
    refused(text("F", 1, 0, 1, &[" 1.0 2.0", " 3.0 4.0"]), &["line 10", "more cards"]);
    refused(text("F", 1_000_000_000, 0, 1, &[" 1.0 2.0"]), &["line 5", "1000000000", "too few"]);
    refused(text("F", 1, 0, 1, &[" 1.0 2.x"]), &["line 9", "2.x"]);
}

/// Lines that the library has logged.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C-unwind" fn logged(_: *mut c_void, level: i32, line: *const c_char) {
    // SAFETY: the library passes a NUL-terminated string.
    let line = unsafe { CStr::from_ptr(line) }.to_str().unwrap().to_owned();
    if level == 0 {
        LINES.lock().unwrap().push(line);
    }
}

/// A header that announces a wrong number of right-hand side cards, like that of SuiteSparse's lp_afiro (17 announced,
/// 9 present). The right-hand sides are read, and the log warns.
#[test]
fn wrong_numbers_of_cards() {
    let folder = Folder::new("announced");
    rrbsolver_set_log(Some(logged), std::ptr::null_mut());
    let rows = 27;
    let numbers = |k: usize| format!("{:>20}", format!("{k}.5E+00"));
    let cards_of =
        |all: &[String], per_card: usize| -> Vec<String> { all.chunks(per_card).map(<[_]>::concat).collect() };
    let pointers = cards_of(&(1..=rows + 1).map(|k| format!("{k:5}")).collect::<Vec<_>>(), 16);
    let places = cards_of(&(1..=rows).map(|k| format!("{k:5}")).collect::<Vec<_>>(), 16);
    let values = cards_of(&(1..=rows).map(numbers).collect::<Vec<_>>(), 3);
    let rhs = cards_of(&(100..100 + rows).map(numbers).collect::<Vec<_>>(), 3);
    assert_eq!(rhs.len(), 9);
    let fifth = format!("{:<14}{:14}{:14}", "F", 1, 0);
    for (announced, warns) in [(17, true), (9, false), (8, true)] {
        let rest = [&[fifth.clone()][..], &pointers, &places, &values, &rhs].concat();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let counts = [13 + announced, 2, 2, 9, announced];
        let text = cards("RUA", counts, [rows, rows, rows], ["(16I5)", "(16I5)", "(3E20.12)", "(3E20.12)"], &rest);
        let name = format!("announced{announced}.rua");
        let path = folder.file(&name, text);
        let s = Solver::read(&path).unwrap();
        assert_eq!(s.int(key::FILE_RHS), 1);
        let expected: Vec<f64> = (100..100 + rows).map(|k| k as f64 + 0.5).collect();
        assert_eq!(s.vector(0, 0).unwrap(), expected);
        assert_eq!(entries(&s)[26], (26, 26, 27.5));
        let lines: Vec<String> = LINES.lock().unwrap().drain(..).filter(|line| line.contains(&name)).collect();
        let message = format!("line 2: the header announces {announced} cards of right-hand sides, the file has 9");
        assert_eq!(lines, if warns { vec![format!("{}: {message}", path.display())] } else { Vec::new() });
    }
}

/// Right-hand sides in a separate file form a matrix with one column each.
#[test]
fn supplementary_files() {
    let folder = Folder::new("supplement");
    // Columns of card 2: type, side and storage, a name, a letter, counts.
    let text = |letters: &str, number: &str, counts: [usize; 3], formats: [&str; 3], rest: &[&str]| {
        let [rows, cols, entries] = counts;
        let [a, b, c] = formats;
        let head = format!("{:<72}{:<8}\n{letters:<5} {:<8}  {number}", "a title", "KEY", "a case 2");
        head + &format!("  {rows:13}  {cols:13}  {entries:13}\n{a:<20}{b:<20}{c:<20}\n{}\n", rest.join("\n"))
    };
    let of = |text: String| read_text(&folder, text);
    let read = |text: String| entries(&of(text.clone()).unwrap_or_else(|failure| panic!("{text}: {failure:?}")));
    let dense = ["(3F4.1)", "", ""];
    let all = [" 1.0 2.0 0.0", " 4.0 5.0 6.0"];
    let expected = [(0, 0, 1.0), (0, 1, 4.0), (1, 0, 2.0), (1, 1, 5.0), (2, 0, 0.0), (2, 1, 6.0)];
    assert_eq!(read(text("rhsrd", "r", [3, 2, 6], dense, &all)), expected);
    assert_eq!(read(text("RHSSD", "I", [3, 2, 6], dense, &all)), expected);
    // A common writer shifts the letter and the counts to the left by one column.
    let other = text("rhsrd", "r", [3, 2, 6], dense, &all).replacen("a case 2  r ", "a case 2 r ", 1);
    assert_eq!(read(other), expected);
    let sparse = ["(3I2)", "(2I3)", "(1P,2E9.1)"];
    let some = [" 1 2 3", "  3  1", " 1.5E+00  2.5"];
    assert_eq!(read(text("rhsrs", "r", [3, 2, 2], sparse, &some)), [(0, 1, 0.25), (2, 0, 1.5)]);
    assert_eq!(read(text("rhs d", "r", [0, 0, 0], dense, &[])), []);
    for (text, code, words) in [
        (text("slnrd", "r", [3, 2, 6], dense, &all), status::UNSUPPORTED, &["line 2", "right-hand sides", "'sln'"][..]),
        (text("geord", "r", [3, 2, 6], dense, &all), status::UNSUPPORTED, &["line 2", "right-hand sides", "'geo'"]),
        (text("rhsre", "r", [3, 2, 6], dense, &all), status::UNSUPPORTED, &["line 2", "assemble first"]),
        (text("rhsld", "r", [3, 2, 6], dense, &all), status::UNSUPPORTED, &["line 2", "A'"]),
        (text("rhsrd", "c", [3, 2, 6], dense, &all), status::UNSUPPORTED, &["line 2", "complex"]),
        (text("rhsrx", "r", [3, 2, 6], dense, &all), status::PARSE, &["line 2", "storage", "'x'"]),
        (text("rhsxd", "r", [3, 2, 6], dense, &all), status::PARSE, &["line 2", "side", "'x'"]),
        (text("rhsrd", "q", [3, 2, 6], dense, &all), status::PARSE, &["line 2", "r or i", "'q'"]),
        (text("rhsrd", "r", [3, 2, 5], dense, &all), status::PARSE, &["line 2", "5 values", "2 vectors of 3"]),
        (text("rhsrd", "r", [3, 2, 6], ["(3A4)", "", ""], &all), status::PARSE, &["line 3", "(3A4)", "values"]),
        (text("rhsrd", "r", [3, 2, 6], dense, &all[..1]), status::PARSE, &["ends 3 numbers too early"]),
        (text("rhsrs", "r", [3, 2, 2], ["(3I2)", "", "(F9.1)"], &some), status::PARSE, &["line 3", "rows"]),
        (text("rhsrs", "r", [3, 2, 9], sparse, &some), status::PARSE, &["line 2", "9 entries", "3 x 2"]),
        (text("rhsrs", "r", [2, 2, 2], sparse, &some), status::PARSE, &["line 5", "row 3", "[1, 2]"]),
        (
            text("rhsrd", "r", [3, 2, 6], dense, &[" 1.0 2.0 0.0", " 4.0 5.0 x"]),
            status::PARSE,
            &["line 5", "' x' is no number"],
        ),
        (text("rhsrd", "r", [1000, 10, 10_000], dense, &all), status::PARSE, &["line 2", "10000", "too few"]),
        (text("rhsrd", "r x", [3, 2, 6], dense, &all), status::PARSE, &["line 2", "behind its letters"]),
    ] {
        of(text).map(|_| ()).unwrap_err().expect(code, words);
    }
}

#[test]
fn rejected_harwell_boeing_files() {
    let folder = Folder::new("cards");
    let parse = status::PARSE;
    let square = [2, 2, 3];
    let good = ["    1    3    4", "    1    2    2", " 1.0 2.0 3.0"];
    let int = "(16I5)";
    let formats = [int, int, "(3F4.1)", ""];
    let counts = [3, 1, 1, 1, 0];
    let with = |k: usize, card: &'static str| {
        let mut all = good;
        all[k] = card;
        cards("RUA", counts, square, formats, &all)
    };
    let kind = |kind: &str| cards(kind, counts, square, formats, &good);
    let format = |format: &'static str| cards("RUA", counts, square, [int, int, format, ""], &good);
    read_text(&folder, kind("RUA")).unwrap();
    for (text, code, words) in [
        (kind("CUA"), status::UNSUPPORTED, &["line 3", "complex", "[Re -Im; Im Re]"][..]),
        (kind("RSE"), status::UNSUPPORTED, &["line 3", "elemental", "RSE", "assemble first"]),
        (kind("QUA"), status::UNSUPPORTED, &["line 3", "QUA"]),
        (kind("RHA"), status::UNSUPPORTED, &["complex"]),
        (kind("XYZ"), parse, &["line 3", "XYZ"]),
        (with(0, "    0    3    4"), parse, &["line 5", "begin with 1, got 0"]),
        (with(0, "    1    5    4"), parse, &["line 5", "5 is above 4"]),
        (with(0, "    1    3    2"), parse, &["line 5", "2 is below"]),
        (with(0, "    1    3    3"), parse, &["line 5", "end with 4, got 3"]),
        (with(0, "    1    x    4"), parse, &["line 5", "'    x' is no pointer"]),
        (with(1, "    1    3    2"), parse, &["line 6", "row 3", "[1, 2]"]),
        (with(1, "    1    2"), parse, &["line 6", "row 0", "[1, 2]"]),
        (with(2, " 1.0 2.0 3,0"), parse, &["line 7", "3,0"]),
        (with(2, " 1.0 NaN 3.0"), status::NOT_FINITE, &["line 7", "NaN"]),
        (format("(3A4)"), parse, &["line 4", "(3A4)", "values"]),
        (format(""), parse, &["line 4", "values"]),
        (cards("RUA", counts, square, ["(4E4.1)", int, "(3F4.1)", ""], &good), parse, &["line 4", "pointers"]),
        (cards("RUA", [4, 2, 1, 1, 0], square, formats, &good), parse, &["line 2", "2 cards of pointers", "take 1"]),
        (cards("RUA", [4, 1, 1, 2, 0], square, formats, &good), parse, &["line 2", "2 cards of values"]),
        (cards("RUA", counts, square, formats, &good[..2]), parse, &["ends 3 numbers too early"]),
        (cards("RSA", counts, [2, 3, 3], formats, &good), parse, &["line 3", "square"]),
        (cards("RUA", counts, [2, 2, 5], formats, &good), parse, &["line 3", "5 entries", "2 x 2"]),
        (cards("RUA", counts, [2, 999_999_999, 3], formats, &good), parse, &["line 3", "999999999", "too few"]),
        (kind("RUA") + "1.0\n", parse, &["line 8", "more cards"]),
        ("a\n 1 1 1 1\n".to_owned(), parse, &["line 3", "ends before"]),
    ] {
        read_text(&folder, &text).map(|_| ()).unwrap_err().expect(code, words);
    }
    let both = cards("RSA", [3, 1, 1, 1, 0], [2, 2, 2], formats, &["    1    2    3", "    2    1", " 1.0 2.0"]);
    read_text(&folder, both).map(|_| ()).unwrap_err().expect(parse, &["line 6", "(1, 2) and (2, 1) both given"]);
    let skew = cards("RZA", [3, 1, 1, 1, 0], [2, 2, 1], formats, &["    1    2    2", "    1", " 1.0"]);
    read_text(&folder, skew).map(|_| ()).unwrap_err().expect(parse, &["line 6", "diagonal"]);
}

/// Files with changed, removed or inserted bytes, or swapped lines. Each file is read, or the error message names it.
/// 300 variants of each file are tested; RRBSOLVER_TEST_SECONDS sets a duration instead.
#[test]
fn mutilated_files() {
    let folder = Folder::new("mutilated");
    // A changed count may add rows, whose pointers would be allocated and filled.
    limit_memory(1 << 31);
    let seconds: Option<f64> = std::env::var("RRBSOLVER_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    let start = std::time::Instant::now();
    let rhs =
        "t\n 7 1 1 1 4\nRUA 2 2 2 0\n(16I5)          (16I5)          (2F4.1)             (2F4.1)\nM             2 3\n";
    let texts: Vec<Vec<u8>> =
        ["west0067.rua", "bcsstk01.rsa", "can_24.psa", "nos4.mtx", "fidapm05_rhs1.mtx", "e05r0000.mtx.gz"]
            .iter()
            .map(|name| std::fs::read(data().join(name)).unwrap())
            .chain([
                format!(
                    "{rhs}    1    2    3\n    1    2\n 1.0 2.0\n    1    2    4\n    2    1    2\n 1.5 2.5\n 3.5\n"
                )
                .into(),
                b"%%MatrixMarket matrix coordinate pattern symmetric\n4 4 4\n1 1\n2 1\n1 3\n4 4\n".to_vec(),
                b"%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n".to_vec(),
            ])
            .collect();
    let (mut read, mut refused) = (0, 0);
    let mut random = SplitMix(20_261_126);
    for round in 0.. {
        let done = seconds.map_or(round >= 300, |seconds| start.elapsed().as_secs_f64() > seconds);
        if done {
            break;
        }
        for text in &texts {
            let text = mutilated(text, &mut random);
            match read_text(&folder, &text) {
                Ok(s) => {
                    // Deflate compresses by at most a factor of 1032.
                    let most = if text.starts_with(&[0x1f, 0x8b]) { 1032 } else { 1 };
                    assert!(s.int(key::NONZEROS) as usize <= 2 * most * text.len());
                    read += 1;
                }
                Err(failure) => {
                    let expected = [status::PARSE, status::NOT_FINITE, status::UNSUPPORTED, status::MEMORY];
                    assert!(expected.contains(&failure.status), "{failure:?}");
                    assert!(failure.status == status::MEMORY || failure.message.contains("/matrix: "), "{failure:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}

/// Limits the address space of the process to this number of bytes.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process alone, from a value that outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

fn mutilated(text: &[u8], random: &mut SplitMix) -> Vec<u8> {
    let mut text = text.to_vec();
    let mut below = |n: usize| ((random.unit() * n as f64) as usize).min(n.max(1) - 1);
    for _ in 0..1 + below(3) {
        // Most errors can occur in the head of a file.
        let len = if below(2) == 0 { text.len() } else { text.len().min(400) };
        if len == 0 {
            break;
        }
        let at = below(len);
        match below(6) {
            0 => text[at] = b" 0123456789-+.eEdD%\n()IXP"[below(24)],
            1 => text[at] = below(256) as u8,
            2 => text.truncate(at),
            3 => drop(text.drain(at..(at + 1 + below(30)).min(text.len()))),
            4 => {
                let piece: Vec<u8> = text[at..(at + 1 + below(40)).min(text.len())].to_vec();
                let to = below(len);
                text.splice(to..to, piece);
            }
            _ => {
                let digits: Vec<u8> = (0..1 + below(12)).map(|_| b'0' + below(10) as u8).collect();
                text.splice(at..at, digits);
            }
        }
    }
    text
}
