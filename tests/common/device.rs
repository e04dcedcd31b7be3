//! Programs of tests that need a device. Where none is found their tests are reported as ignored; with
//! `RRBSOLVER_REQUIRE_DEVICE=1` they fail.

use libtest_mimic::{Arguments, Trial};

/// Runs what the arguments of the program ask for.
pub fn run(devices: i32, tests: &[(&'static str, fn())]) -> ! {
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
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit()
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
