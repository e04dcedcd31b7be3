//! Tests the output, files, error messages and exit status of the program `rrbsolver` on small files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Creates an empty folder for a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rrbsolver"));
    command.current_dir(folder).args(arguments).env_remove("RRBSOLVER_OPTIONS").output().unwrap()
}

/// Runs the program, which must succeed, and returns its standard output.
#[track_caller]
fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks for status 2 and an error message of one line that contains all of `words`.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], words: &[&str]) {
    let output = run(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    assert!(errors.starts_with("rrbsolver: "), "{errors}");
    words.iter().for_each(|word| assert!(errors.contains(word), "{word:?} is not in {errors}"));
}

/// Returns the text of an SVG file, after checks that it is valid XML without NaN or infinity.
#[track_caller]
fn svg(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let document = roxmltree::Document::parse(&text).unwrap();
    assert_eq!(document.root_element().tag_name().name(), "svg");
    assert!(!text.contains("NaN") && !text.contains("inf"));
    text
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Matrix of -u'' on five points. It has 13 entries; the file contains the lower triangle.
const LINE: &str = "%%MatrixMarket matrix coordinate real symmetric\n5 5 9\n1 1 2\n2 1 -1\n2 2 2\n3 2 -1\n3 3 2\n\
                    4 3 -1\n4 4 2\n5 4 -1\n5 5 2\n";

/// Raw file with -Laplace u = b and u = 0 outside. The solution is u = 1.
fn raw(n: [i32; 3]) -> Vec<u8> {
    let dimensions = if n[2] > 1 { 3 } else { 2 };
    let mut bytes = b"STENCIL1".to_vec();
    [dimensions, n[0], n[1], n[2], 0, 0].iter().for_each(|k: &i32| bytes.extend(k.to_le_bytes()));
    bytes.extend(*b"box\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let points = || {
        let [nx, ny, nz] = n;
        (0..nz).flat_map(move |k| (0..ny).flat_map(move |j| (0..nx).map(move |i| [i, j, k])))
    };
    let center = f64::from(2 * dimensions);
    let coupling = |at: [i32; 3], axis: usize| if at[axis] + 1 < n[axis] { -1.0 } else { 0.0 };
    let neighbours = |at: [i32; 3]| (0..3).map(|a| i32::from(at[a] > 0) + i32::from(at[a] + 1 < n[a])).sum::<i32>();
    let mut array = |value: &dyn Fn([i32; 3]) -> f64| points().for_each(|at| bytes.extend(value(at).to_le_bytes()));
    array(&|_| center);
    (0..dimensions as usize).for_each(|axis| array(&|at| coupling(at, axis)));
    array(&|at| center - f64::from(neighbours(at)));
    bytes
}

#[test]
fn info_prints_and_draws() {
    let folder = folder("info");
    fs::write(folder.join("line.mtx"), LINE).unwrap();
    let text = succeeds(&folder, &["info", "line.mtx", "--svg", "p.svg", "--json", "f.json"]);
    for words in [
        "line.mtx: 5 x 5, 13 entries",
        "2 to 3 entries",
        "5 positive, 0 negative, 0 zero",
        "8 of 8 negative",
        "52.000 %: 13 nonzero of 5 x 5",
        "definiteness   positive definite: all pivots of L D L'",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(text.contains("in 5 of 5 rows, > in 2") && text.contains("│⠻⣦⡀│"), "{text}");
    // Each row of the picture has one rectangle, because its cells with entries are adjacent.
    assert_eq!(svg(&folder.join("p.svg")).matches("opacity").count(), 5);
    let facts = json(&folder.join("f.json"));
    assert_eq!(
        (&facts["entries"], &facts["upper_bandwidth"], &facts["symmetric"]),
        (&13.into(), &1.into(), &true.into())
    );
    assert!(!succeeds(&folder, &["info", "line.mtx", "--no-picture"]).contains('│'));
}

/// If no method supports the matrix, `compare` prints one error message instead of a table.
#[test]
fn compare_without_a_supported_method_is_an_error() {
    let folder = folder("compare_zero");
    fs::write(folder.join("zero.mtx"), "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 0\n").unwrap();
    refused(&folder, &["compare", "zero.mtx"], &["zero.mtx: 1 x 1, 1 entry", "no method supports it", "singular"]);
}

#[test]
fn info_supports_rectangular_matrices() {
    let folder = folder("info_rectangle");
    fs::write(folder.join("wide.mtx"), "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n").unwrap();
    let text = succeeds(&folder, &["info", "wide.mtx"]);
    assert!(text.contains("2 x 3, 1 entry\n") && text.contains("1 row, 2 columns"), "{text}");
    assert!(text.contains("none: the matrix is not square") && !text.contains("dominance"), "{text}");
    fs::write(folder.join("empty.mtx"), "%%MatrixMarket matrix coordinate real general\n0 0 0\n").unwrap();
    assert!(succeeds(&folder, &["info", "empty.mtx", "--svg", "e.svg"]).contains("0 x 0, 0 entries"));
    svg(&folder.join("e.svg"));
}

#[test]
fn conversions_are_reversible() {
    let folder = folder("convert");
    fs::write(folder.join("line.mtx"), LINE).unwrap();
    for (from, to) in [("line.mtx", "a.hb"), ("a.hb", "b.rb.gz"), ("b.rb.gz", "c.mtx")] {
        assert!(succeeds(&folder, &["convert", from, to]).contains("5 x 5, 13 entries"));
    }
    succeeds(&folder, &["convert", "line.mtx", "d.mtx"]);
    assert_eq!(fs::read(folder.join("c.mtx")).unwrap(), fs::read(folder.join("d.mtx")).unwrap());
    succeeds(&folder, &["convert", "line.mtx", "named.txt", "--format", "rb"]);
    refused(&folder, &["convert", "line.mtx", "line.txt"], &["line.txt", "--format"]);
    refused(&folder, &["convert", "line.mtx", "none/x.mtx"], &["none/x.mtx", "cannot be written"]);
    // A raw file becomes a general matrix: 4 x 3 points have 12 + 2 (3 * 3 + 4 * 2) entries. A warning reports that b
    // is omitted.
    fs::write(folder.join("box.raw"), raw([4, 3, 1])).unwrap();
    let output = run(&folder, &["convert", "box.raw", "box.mtx"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("without its right-hand side"));
    assert!(succeeds(&folder, &["info", "box.mtx"]).contains("12 x 12, 46 entries"));
}

#[test]
fn raw_files_are_solved() {
    let folder = folder("raw");
    for (name, n, family) in [("plane.raw", [17, 13, 1], "points on 17 x 13"), ("box.raw", [9, 7, 5], "on 9 x 7 x 5")] {
        fs::write(folder.join(name), raw(n)).unwrap();
        let files = ["--svg", "r.svg", "--csv", "r.csv", "--json", "r.json", "--write", "x.mtx"];
        let all = [&["solve", name, "--options", "rel_tol=1e-10"][..], &files].concat();
        let text = succeeds(&folder, &all);
        assert!(text.contains(family) && text.contains("converged") && text.contains("of the file"), "{text}");
        let results = json(&folder.join("r.json"));
        assert_eq!((&results["converged"], &results["stop_reason"]), (&true.into(), &"converged".into()));
        assert!(results["true_relative_residual"].as_f64().unwrap() <= 1e-10);
        let history = results["history"].as_array().unwrap();
        assert_eq!(history.len() as i64, results["iterations"].as_i64().unwrap() + 1);
        let csv = fs::read_to_string(folder.join("r.csv")).unwrap();
        assert!(csv.starts_with("iteration,relative_residual\n0,1e0\n"));
        assert_eq!(csv.lines().count(), history.len() + 1);
        assert!(svg(&folder.join("r.svg")).contains(name));
        // The solution is 1. The condition number is below 200, so the relative error is at most 200 * 1e-10.
        let x = fs::read_to_string(folder.join("x.mtx")).unwrap();
        let values: Vec<f64> = x.lines().skip(2).map(|line| line.parse().unwrap()).collect();
        assert_eq!(values.len() as i32, n.iter().product::<i32>());
        let error = values.iter().map(|x| (x - 1.0).powi(2)).sum::<f64>().sqrt() / (values.len() as f64).sqrt();
        assert!(error < 2e-8, "{name}: {error}");
        // The program can read the written solution as a right-hand side.
        assert!(succeeds(&folder, &["solve", name, "--rhs", "x.mtx"]).contains("right-hand side x.mtx"));
        assert!(succeeds(&folder, &["solve", name, "--rhs", "ones"]).contains("right-hand side ones"));
    }
}

#[test]
fn not_converged_is_status_1() {
    let folder = folder("short");
    fs::write(folder.join("box.raw"), raw([20, 20, 20])).unwrap();
    let output = run(&folder, &["solve", "box.raw", "--options", "max_iter=1 rel_tol=1e-12", "--json", "r.json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("NOT converged (max_iter) after 1 iteration,") && text.contains("raise the iteration limit"),
        "{text}"
    );
    assert_eq!(json(&folder.join("r.json"))["converged"], false);
}

#[test]
fn invalid_right_hand_sides_are_errors() {
    let folder = folder("rhs");
    fs::write(folder.join("plane.raw"), raw([3, 2, 1])).unwrap();
    let array = "%%MatrixMarket matrix array real general\n";
    fs::write(folder.join("short.mtx"), format!("{array}5 1\n1\n1\n1\n1\n1\n")).unwrap();
    fs::write(folder.join("two.mtx"), format!("{array}6 2\n{}", "1\n".repeat(12))).unwrap();
    fs::write(folder.join("row.mtx"), format!("{array}1 6\n{}", "1\n".repeat(6))).unwrap();
    let solve = |rhs| ["solve", "plane.raw", "--rhs", rhs];
    refused(&folder, &solve("short.mtx"), &["short.mtx", "has 5 values", "plane.raw has 6 rows"]);
    refused(&folder, &solve("two.mtx"), &["two.mtx", "has 2 columns", "one column at a time"]);
    refused(&folder, &solve("row.mtx"), &["row.mtx", "has 6 columns"]);
    refused(&folder, &solve("none.mtx"), &["none.mtx", "cannot be read"]);
}

#[test]
fn invalid_options_and_outputs_are_errors() {
    let folder = folder("outputs");
    fs::write(folder.join("plane.raw"), raw([3, 2, 1])).unwrap();
    refused(&folder, &["solve", "plane.raw", "--options", "colour=red"], &["colour"]);
    refused(&folder, &["solve", "plane.raw", "--options", "max_iter=-1"], &["max_iter", "-1"]);
    // An invalid output path is reported before the solve, which may take long.
    let output = run(&folder, &["solve", "plane.raw", "--write", "none/x.mtx"]);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("converged"));
    refused(&folder, &["solve", "plane.raw", "--write", "none/x.mtx"], &["cannot write none/x.mtx"]);
    refused(&folder, &["info", "plane.raw", "--svg", "none/p.svg"], &["cannot write none/p.svg"]);
    refused(&folder, &["compare", "plane.raw", "--json", "."], &["cannot write ."]);
    refused(&folder, &["solve", "plane.raw", "--write", "x.mtx.gz"], &["x.mtx.gz", "plain text"]);
    refused(&folder, &["solve", "plane.raw", "--json", "."], &["cannot write ."]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "what failed leaves no file");
}

/// All commands that read a matrix report the same error for an invalid file.
#[test]
fn invalid_files_cause_one_message() {
    let folder = folder("bad");
    let put = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    put("column.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n");
    put("complex.mtx", b"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n");
    put("short.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n");
    put("cut.mtx.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b");
    put("words.txt", b"these are words\nand no matrix\n");
    put("empty.mtx", b"");
    let head = &raw([3, 2, 1])[..48];
    put("head.raw", &head[..40]);
    put("cut.raw", &raw([3, 2, 1])[..200]);
    put("long.raw", &[raw([3, 2, 1]), vec![0]].concat());
    let changed = |at: usize, value: i32| [&head[..8 + 4 * at], &value.to_le_bytes(), &head[12 + 4 * at..]].concat();
    put("four.raw", &changed(0, 4));
    put("negative.raw", &changed(1, -3));
    put("deep.raw", &changed(3, 2));
    put("huge.raw", &[&changed(1, i32::MAX)[..16], &i32::MAX.to_le_bytes(), &head[20..]].concat());
    put("rows.mtx", b"%%MatrixMarket matrix coordinate real general\n1000000000000000 1 1\n5 1 2\n");
    put("wide.mtx", b"%%MatrixMarket matrix coordinate real general\n1 5000000000000 1\n1 5 2\n");
    let cases: [(&str, &[&str]); 16] = [
        ("rows.mtx", &["rows.mtx: ", "8000000000000008 bytes", "row pointers"]),
        ("column.mtx", &["column.mtx: line 3", "column 3 is above 2"]),
        ("complex.mtx", &["complex.mtx: line 1", "is real"]),
        ("short.mtx", &["short.mtx", "line"]),
        ("cut.mtx.gz", &["cut.mtx.gz", "gz"]),
        ("words.txt", &["words.txt", "neither MatrixMarket"]),
        ("empty.mtx", &["empty.mtx"]),
        ("head.raw", &["head.raw: 40 bytes", "48"]),
        ("cut.raw", &["cut.raw: 200 bytes", "need 240"]),
        ("long.raw", &["long.raw: 241 bytes", "need 240"]),
        ("four.raw", &["four.raw", "dimensions must be 2 or 3, got 4"]),
        ("negative.raw", &["negative.raw", "nx must be at least 1, got -3"]),
        ("deep.raw", &["deep.raw", "nz must be 1 in 2D, got 2"]),
        ("huge.raw", &["huge.raw: 48 bytes", "2147483647 x 2147483647 x 1 points"]),
        (".", &[".", "folder"]),
        ("-", &["standard input"]),
    ];
    for (name, words) in cases {
        refused(&folder, &["info", name], words);
        refused(&folder, &["solve", name], words);
        refused(&folder, &["compare", name], words);
        refused(&folder, &["convert", name, "to.mtx"], words);
    }
    // The file is read by rows, which needs an array with one value per column.
    put("flat.mtx", b"%%MatrixMarket matrix coordinate real general\n1 1000000000000000 1\n1 5 2\n");
    refused(&folder, &["info", "flat.mtx"], &["flat.mtx: ", "1000000000000000 columns", "failed to allocate"]);
    // The file is written by columns, whose pointers do not fit in memory.
    refused(&folder, &["convert", "wide.mtx", "to.rb"], &["to.rb: ", "40000000000008 bytes", "column pointers"]);
    assert!(!folder.join("to.mtx").exists() && !folder.join("to.rb").exists());
}

#[test]
fn byte_order_marks_and_archives() {
    let folder = folder("marks");
    fs::write(folder.join("mark.mtx"), [b"\xef\xbb\xbf", LINE.as_bytes()].concat()).unwrap();
    fs::write(folder.join("plain.mtx"), LINE).unwrap();
    let after_name = |name: &str| succeeds(&folder, &["info", name]).split_once(':').map(|(_, rest)| rest.to_owned());
    assert_eq!(after_name("mark.mtx"), after_name("plain.mtx"));
    let made = Command::new("tar").current_dir(&folder).args(["czf", "a.tar.gz", "plain.mtx"]).status().unwrap();
    assert!(made.success());
    refused(&folder, &["info", "a.tar.gz"], &["a.tar.gz", "tar"]);
}

#[test]
fn compare_lists_all_formats() {
    let folder = folder("compare");
    fs::write(folder.join("line.mtx"), LINE).unwrap();
    let text = succeeds(&folder, &["compare", "line.mtx", "--svg", "b.svg", "--json", "c.json"]);
    let all = json(&folder.join("c.json"));
    let formats = all["formats"].as_array().unwrap();
    assert_eq!(formats.len(), 11);
    for format in formats {
        let name = format["format"].as_str().unwrap();
        // The format that cannot store the matrix has an error message.
        assert_eq!(format["refused"].is_string(), name == "diagonal", "{format}");
        assert!(text.contains(name));
    }
    let stored = |name: &str| formats.iter().find(|f| f["format"] == name).unwrap()["values_stored"].clone();
    // Counted by hand: 13 entries; three diagonals with five values; five rows with three values.
    assert_eq!([stored("csr"), stored("dia"), stored("ell")], [13.0, 15.0, 15.0].map(Value::from));
    assert_eq!(formats.iter().filter(|f| f["auto"] == true).count(), 1);
    assert!(svg(&folder.join("b.svg")).contains("(auto)"));
    fs::write(folder.join("wide.mtx"), "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n").unwrap();
    refused(&folder, &["compare", "wide.mtx"], &["wide.mtx: 2 x 3", "not square"]);
}

/// Solves and compares with the methods of `sparse_`.
#[test]
fn general_matrices_are_solved() {
    let folder = folder("solve");
    fs::write(folder.join("line.mtx"), LINE).unwrap();
    let text =
        succeeds(&folder, &["solve", "line.mtx", "--options", "rel_tol=1e-10", "--svg", "r.svg", "--json", "r.json"]);
    assert!(text.contains("5 x 5, 13 entries; right-hand side ones") && text.contains("solver cg"), "{text}");
    assert!(json(&folder.join("r.json"))["true_relative_residual"].as_f64().unwrap() <= 1e-10);
    svg(&folder.join("r.svg"));
    assert!(succeeds(&folder, &["info", "line.mtx"]).contains("cg with preconditioner ic0: symmetric"));
    succeeds(&folder, &["compare", "line.mtx", "--json", "c.json"]);
    let all = json(&folder.join("c.json"));
    let methods = all["methods"].as_array().unwrap();
    // SOR with blocks of one row is Jacobi relaxation with omega = 1.25, which diverges for this matrix.
    let is_divergent = |m: &Value| m["solver"] == "sor" && m["with"] == "blocks" && m["stop_reason"] == "diverged";
    assert!(methods.iter().all(|m| (m["converged"] == true) != is_divergent(m)), "{methods:?}");
    let with = |solver: &str| methods.iter().filter(|m| m["solver"] == solver && m["converged"] == true).count();
    assert!(with("cg") >= 5 && with("sor") == 3 && with("idr") >= 5, "{methods:?}");
    fs::write(folder.join("skew.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n1 2 1\n2 2 1\n")
        .unwrap();
    refused(&folder, &["solve", "skew.mtx", "--options", "solver=cg"], &["skew.mtx", "symmetric", "a(1, 2) = 1e0"]);
    let output = run(&folder, &["solve", "skew.mtx"]);
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("rrbsolver: ") && errors.contains("only the upper triangle"), "{errors}");
    for option in ["solver=cg", "rel_tol=1e-3 preconditioner=ic0", "ordering=blocks"] {
        refused(&folder, &["compare", "line.mtx", "--options", option], &["--options", "differ in"]);
    }
    assert!(succeeds(&folder, &["info", "skew.mtx"]).contains("triangle       upper only: if the matrix is symmetric"));
    let mut compare = Command::new(env!("CARGO_BIN_EXE_rrbsolver"));
    compare.current_dir(&folder).args(["compare", "line.mtx"]).env("RRBSOLVER_OPTIONS", "solver=cg");
    let output = compare.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("rrbsolver: RRBSOLVER_OPTIONS: "));
    let out = fs::File::create(folder.join("out.txt")).unwrap();
    let mut solve = Command::new(env!("CARGO_BIN_EXE_rrbsolver"));
    solve.current_dir(&folder).args(["solve", "line.mtx", "--csv", "/dev/stdout"]).stdout(out);
    assert!(solve.status().unwrap().success());
    let text = fs::read_to_string(folder.join("out.txt")).unwrap();
    assert!(text.contains("5 x 5, 13 entries") && text.contains("\n0,1e0\n"), "{text}");
    fs::write(folder.join("empty.mtx"), "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n2 2 1\n")
        .unwrap();
    refused(&folder, &["solve", "empty.mtx"], &["empty.mtx", "row 3 has only zero entries"]);
}

#[test]
fn doctor_passes_its_self_tests() {
    let folder = folder("doctor");
    let text = succeeds(&folder, &["doctor", "--quick"]);
    for words in ["rrbsolver 0.", "processor", "threads", "cpu, rrb_: passed", "cpu, dpcg_: passed", "sparse_: passed"]
    {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!text.contains("bandwidth") && !text.contains("FAILED"), "{text}");
}

#[test]
fn usage_is_status_2() {
    let folder = folder("usage");
    for arguments in [&["info"][..], &["solve", "a", "b"], &["forge"], &[]] {
        assert_eq!(run(&folder, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let text = succeeds(&folder, &["solve", "--help"]);
    assert!(text.contains("--rhs <FILE|ones>") && text.contains("--options <TEXT>"), "{text}");
    assert!(succeeds(&folder, &["--help"]).contains("EXIT STATUS"));
    assert_eq!(succeeds(&folder, &["--version"]), concat!("rrbsolver ", env!("CARGO_PKG_VERSION"), "\n"));
}
