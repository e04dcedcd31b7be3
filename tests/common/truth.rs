//! Random cases whose numbers environment variables select, and a loop over these cases on two threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of concurrent cases.
const THREADS: usize = 2;

/// Returns the value of an environment variable, if it is set.
pub fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// `RRBSOLVER_TRUTH_SEED`, `RRBSOLVER_TRUTH_CASES`, and `RRBSOLVER_TRUTH_CASE` for a single case.
pub struct Cases {
    pub seed: u64,
    pub count: u64,
    pub alone: Option<u64>,
}

impl Cases {
    pub fn of_environment(count: u64) -> Cases {
        Cases {
            seed: variable("RRBSOLVER_TRUTH_SEED").unwrap_or(1),
            count: variable("RRBSOLVER_TRUTH_CASES").unwrap_or(count),
            alone: variable("RRBSOLVER_TRUTH_CASE"),
        }
    }

    /// Calls `run` with the number of each case, in any order.
    pub fn each(&self, run: impl Fn(u64) + Sync) {
        let (next, end) = (AtomicU64::new(self.alone.unwrap_or(0)), self.alone.map_or(self.count, |number| number + 1));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                run(number);
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    }
}
