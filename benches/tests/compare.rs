//! Runs `rrbsolver-compare` on a build and itself, with the same options and with different options.

use std::path::Path;
use std::process::{Command, Output};

/// Compares the library that cargo has built for this package with itself.
fn bits(arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_rrbsolver-compare"));
    let library = program.parent().expect("a folder").join("deps/librrbsolver.so");
    Command::new(program)
        .arg("bits")
        .args([&library, &library])
        .args(["--cases", "40", "--nodes", "5000"])
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_build_equals_itself() {
    for (only, line) in [
        ("random", "random systems: 40 cases equal"),
        ("short", "golden short.csv: 0 rows equal; 162 left out (more than 5000 nodes)"),
        ("exact", "golden exact.csv: 6 rows equal; 93 left out"),
        ("golden", "golden vcycle.csv: 0 smoothers equal"),
    ] {
        let output = bits(&["--only", only]);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains(line) && text.contains("\n0 of "), "{text}");
    }
}

#[test]
fn different_options_are_detected() {
    let output = bits(&["--only", "random", "--new-options", "fusion=off"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    // Fused stages sum in a different order.
    assert!(text.contains("Only bits differ") && text.contains(" x: "), "{text}");
}

#[test]
fn invalid_libraries_cause_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_rrbsolver-compare"))
        .args(["bits", "nowhere.so", "nowhere.so"])
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(printed(&output).contains("cannot read nowhere.so"));
}
