//! Memory bandwidth: copy and triad over arrays of a given total size, by one thread and by several threads.
//!
//! Bytes are counted as in STREAM (J. McCalpin): 16 per copied value, 24 per a = b + s c; lines that a store fetches
//! first are not counted. Each thread has arrays of its own, which it writes first. Copy is `memcpy` of the C library,
//! which bypasses the cache for large arrays.

use crate::isa::{for_each_isa, multiply_add};
use crate::timing::Samples;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Bandwidth of one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Kernel: `copy`, `triad` or `device copy`.
    pub kernel: String,
    /// Number of threads; 0 on a device.
    pub threads: usize,
    /// Total size of all arrays in MB.
    pub megabytes: f64,
    /// Median in GB/s.
    pub median: f64,
    /// Largest value in GB/s.
    pub best: f64,
}

/// Total size of the arrays in MB, far beyond the caches of present machines with a share of a few cores.
pub const FROM_MEMORY_MEGABYTES: f64 = 1200.0;
const REPEATS: usize = 11;
/// Smallest number of bytes per repetition. The repetition then takes long compared with the clock resolution and a
/// barrier.
const MIN_BYTES: f64 = 1e8;

#[inline(always)]
fn triad_text<const FMA: bool>(a: &mut [f64], b: &[f64], c: &[f64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = multiply_add::<FMA>(0.5, *c, *b);
    }
}

for_each_isa! { pub(crate) fn triad(a: &mut [f64], b: &[f64], c: &[f64]) = triad_text }

/// Measures copy and triad with 1 and with `threads` threads, at each total size in `megabytes`.
pub fn measure(threads: usize, megabytes: &[f64]) -> Vec<Bandwidth> {
    let counts = if threads > 1 { vec![1, threads] } else { vec![1] };
    let mut all = Vec::new();
    for &size in megabytes {
        for &count in &counts {
            all.push(run(false, count, size));
            all.push(run(true, count, size));
        }
    }
    all
}

/// Combines two measurements, before and after the measurement that they are compared with: the mean of the medians.
pub fn both(before: Vec<Bandwidth>, after: &[Bandwidth]) -> Vec<Bandwidth> {
    let mut all = before;
    for (b, a) in all.iter_mut().zip(after) {
        b.median = 0.5 * (b.median + a.median);
        b.best = b.best.max(a.best);
    }
    all
}

/// Returns the triad bandwidth from memory with this number of threads, to which shares refer.
pub fn ceiling(all: &[Bandwidth], threads: usize) -> Option<f64> {
    let largest = all.iter().map(|b| b.megabytes).fold(0.0, f64::max);
    all.iter().find(|b| b.kernel == "triad" && b.threads == threads && b.megabytes == largest).map(|b| b.median)
}

fn run(is_triad: bool, threads: usize, megabytes: f64) -> Bandwidth {
    let arrays = if is_triad { 3 } else { 2 };
    let values = (megabytes * 1e6 / 8.0 / arrays as f64 / threads as f64) as usize;
    let bytes = (8 * arrays * values * threads) as f64;
    let rounds = (MIN_BYTES / bytes).ceil().max(1.0) as usize;
    let barrier = Barrier::new(threads);
    let work = || {
        let mut a = vec![1.0; values];
        let (b, c) = (vec![2.0; values], vec![0.5; if is_triad { values } else { 0 }]);
        let mut seconds = Vec::new();
        // The first repetition is the warm-up.
        for _ in 0..=REPEATS {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..rounds {
                if is_triad {
                    triad(&mut a, &b, &c);
                } else {
                    a.copy_from_slice(&b);
                }
                black_box(&mut a);
            }
            barrier.wait();
            seconds.push(start.elapsed().as_secs_f64() / rounds as f64);
        }
        seconds.split_off(1)
    };
    let seconds = std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work()
    });
    let samples = Samples::new(seconds);
    Bandwidth {
        kernel: if is_triad { "triad" } else { "copy" }.to_owned(),
        threads,
        megabytes,
        median: bytes * 1e-9 / samples.median(),
        best: bytes * 1e-9 / samples.least(),
    }
}
