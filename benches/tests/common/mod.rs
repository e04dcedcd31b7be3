//! Functions with which the tests run the program.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program with these arguments.
pub fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rrbsolver-bench"))
        .args(arguments)
        .env_remove("RRBSOLVER_OPTIONS")
        .output()
        .expect("the program runs")
}

/// Runs with `--json`. Returns the standard output and the record.
pub fn record(name: &str, arguments: &[&str]) -> (String, Value) {
    let path = folder(name).join("record.json");
    let mut all = arguments.to_vec();
    let shown = path.to_str().expect("UTF-8");
    all.extend(["--json", shown]);
    let output = bench(&all);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let value = serde_json::from_str(&std::fs::read_to_string(&path).expect("written")).expect("JSON");
    (String::from_utf8(output.stdout).expect("UTF-8"), value)
}

pub fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}
