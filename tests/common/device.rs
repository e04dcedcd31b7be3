//! Programs of tests that need a device. Where none is found their tests are reported as ignored; with
//! `RRBSOLVER_REQUIRE_DEVICE=1` they fail.

use libtest_mimic::{Arguments, Trial};

/// Arguments of `libtest_mimic` that take a value.
const VALUED: [&str; 5] = ["--color", "--format", "--logfile", "--skip", "--test-threads"];

/// The arguments of the program, and the names among them: as many as the standard harness takes, where `libtest_mimic`
/// takes one.
fn arguments() -> (Arguments, Vec<String>) {
    let (mut options, mut names, mut valued) = (Vec::new(), Vec::new(), false);
    for argument in std::env::args() {
        let is_name = !options.is_empty() && !valued && !argument.starts_with('-');
        valued = VALUED.contains(&&*argument);
        if is_name { &mut names } else { &mut options }.push(argument);
    }
    (Arguments::from_iter(options), names)
}

/// Runs what the arguments of the program ask for.
pub fn run(devices: i32, tests: &[(&'static str, fn())]) -> ! {
    let (arguments, names) = arguments();
    let asked =
        |test: &str| names.iter().any(|name| if arguments.exact { name == test } else { test.contains(&**name) });
    let required = std::env::var("RRBSOLVER_REQUIRE_DEVICE").is_ok_and(|value| value == "1");
    let trial = |&(name, test): &(&'static str, fn())| {
        let body = move || match devices {
            0 => Err("this test needs a CUDA device, and none is found".into()),
            _ => {
                test();
                Ok(())
            }
        };
        Trial::test(name, body).with_ignored_flag(devices == 0 && !required)
    };
    let asked: Vec<_> = tests.iter().filter(|(name, _)| names.is_empty() || asked(name)).collect();
    assert!(names.is_empty() || !asked.is_empty(), "no test has a name with {names:?}");
    libtest_mimic::run(&arguments, asked.into_iter().map(trial).collect()).exit()
}

/// The program of these functions; one that is left out is dead code, which the compiler tells.
macro_rules! device_tests {
    ($devices:expr; $($test:ident)*) => {
        fn main() {
            crate::device::run($devices, &[$((stringify!($test), $test as fn())),*])
        }
    };
}
pub(crate) use device_tests;
