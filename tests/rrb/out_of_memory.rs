//! Memory that is refused: each larger request of each call once, in a process of its own. The programs that do it, with
//! an allocator that refuses, are in C, since a caller's is (`cases/inject.c`, `inject_sparse.c` and
//! `inject_files.c`, which say what is checked).
#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use std::path::Path;
use std::process::{Command, Output};

/// Requests of at least this many bytes are refused. Smaller requests of the standard library end the process.
const AT_LEAST: &str = "1024";
/// Of a call that makes more requests, about so many are refused; all (0), 13,000, take ten minutes.
const SITES: &str = "5";

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

/// `RRBSOLVER_TEST_SITES` says how many requests of a call are refused.
#[test]
fn every_call_answers_a_refusal_and_its_handle_works_on() {
    let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| SITES.to_owned());
    // Every phase of every case has some requests, but for those that must not have any.
    assert!(answered("inject", "inject.c", &[AT_LEAST, &sites]) > 100);
}

/// The same of general matrices.
#[test]
fn calls_for_general_matrices_answer_refusals() {
    let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| SITES.to_owned());
    assert!(answered("inject_sparse", "inject_sparse.c", &[AT_LEAST, &sites]) > 100);
}

/// The same of files: requests of any size, since those of `sparse_read` and `sparse_write` can all be refused.
#[test]
fn calls_for_files_answer_every_refusal() {
    assert!(answered("inject_files", "inject_files.c", &["1", "0"]) > 1500);
}

/// The same for handles on a device, where `RRBSOLVER_TEST_DEVICE` asks for it: an emulated one takes minutes.
#[test]
fn calls_for_a_device_answer_refusals() {
    if std::env::var_os("RRBSOLVER_TEST_DEVICE").is_some() {
        let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| "1".to_owned());
        assert!(answered("inject_on_a_device", "inject.c", &["256", &sites, "device"]) > 20);
    }
}

/// Refusals that calls have answered; nothing may be wrong.
fn answered(name: &str, source: &str, arguments: &[&str]) -> u64 {
    let own = std::env::current_exe().expect("this program");
    let library = own.parent().expect("its folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Without the compiler's own idea of malloc.
    let flags = ["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"];
    done(
        Command::new("cc")
            .args(flags)
            .args(["failmalloc.c", source].map(|name| root.join("tests/cases").join(name)))
            .arg("-I")
            .arg(root.join("include"))
            .arg("-L")
            .arg(library)
            .args(["-lrrbsolver", "-ldl", "-lpthread", "-o"])
            .arg(&program),
    );
    // By the name that programs look for.
    let soname = concat!("librrbsolver.so.", env!("CARGO_PKG_VERSION_MAJOR"));
    let link = program.with_extension("lib").join(soname);
    std::fs::create_dir_all(link.parent().expect("a folder")).expect("the folder of temporary files can be written");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library.join("librrbsolver.so"), &link).expect("a symlink can be made");
    // Before the folders where a device's driver may be.
    let driver = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let output = done(
        Command::new(&program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", format!("{}:{driver}", link.parent().expect("a folder").display()))
            .env_remove("RRBSOLVER_OPTIONS")
            .env_remove("RRBSOLVER_ISA"),
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    println!("{last}");
    let numbers: Vec<u64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [refusals, answered, survived, wrong] = numbers[..] else { panic!("unexpected output: {said}") };
    assert_eq!((wrong, answered + survived), (0, refusals), "{said}");
    answered
}
