//! Memory allocation failures: each larger request of each call fails once, in a process of its own. The programs are
//! in C, like those of callers, and use a failing allocator (`cases/inject.c`, `inject_sparse.c` and `inject_files.c`,
//! which describe the checks).
#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use std::path::Path;
use std::process::{Command, Output};

/// Requests of at least this many bytes fail. Failures of smaller requests in the standard library end the process.
const AT_LEAST: &str = "1024";
/// In a call with more requests than this, only about this number of requests fail. 0 selects all requests; there are
/// 13,000, which take ten minutes.
const SITES: &str = "5";

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

/// `RRBSOLVER_TEST_SITES` sets the number of requests that fail per call.
#[test]
fn calls_report_failed_allocations_and_handles_remain_usable() {
    let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| SITES.to_owned());
    // Every phase of every case has requests, except phases that must not allocate.
    assert!(answered("inject", "inject.c", &[AT_LEAST, &sites]) > 100);
}

/// Allocation failures in calls on general matrices.
#[test]
fn sparse_calls_report_failed_allocations() {
    let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| SITES.to_owned());
    assert!(answered("inject_sparse", "inject_sparse.c", &[AT_LEAST, &sites]) > 100);
}

/// Allocation failures in calls on files, for requests of any size, because `sparse_read` and `sparse_write` report all
/// failures.
#[test]
fn file_calls_report_every_failed_allocation() {
    assert!(answered("inject_files", "inject_files.c", &["1", "0"]) > 1500);
}

/// Allocation failures of handles on a device, if `RRBSOLVER_TEST_DEVICE` is set: an emulated device needs minutes.
#[test]
fn device_calls_report_failed_allocations() {
    if std::env::var_os("RRBSOLVER_TEST_DEVICE").is_some() {
        let sites = std::env::var("RRBSOLVER_TEST_SITES").unwrap_or_else(|_| "1".to_owned());
        assert!(answered("inject_on_a_device", "inject.c", &["256", &sites, "device"]) > 20);
    }
}

/// Returns the number of failures that calls reported. All checks must succeed.
fn answered(name: &str, source: &str, arguments: &[&str]) -> u64 {
    let own = std::env::current_exe().expect("this program");
    let library = own.parent().expect("its folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // -fno-builtin prevents the compiler from removing or replacing calls of malloc.
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
    // The link has the name that the loader looks for.
    let soname = concat!("librrbsolver.so.", env!("CARGO_PKG_VERSION_MAJOR"));
    let link = program.with_extension("lib").join(soname);
    std::fs::create_dir_all(link.parent().expect("a folder")).expect("the folder of temporary files can be written");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library.join("librrbsolver.so"), &link).expect("a symlink can be made");
    // This folder precedes the folders that may contain the driver of a device.
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
