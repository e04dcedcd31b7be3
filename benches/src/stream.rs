//! What the memory gives: copy and triad over arrays of a chosen total size, by one thread and by many.
//!
//! Bytes are counted as in STREAM (J. McCalpin): 16 for a copied value, 24 for a = b + s c; lines that a store fetches
//! first are not counted. Each thread has arrays of its own, first written by it. Copy is the C library's `memcpy`,
//! which for large arrays writes past the cache.

use crate::isa::{for_each_isa, multiply_add};
use crate::timing::Samples;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Bandwidth of one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// `copy` or `triad`, or `device copy`.
    pub kernel: String,
    /// Threads; 0 on a device.
    pub threads: usize,
    /// All arrays together.
    pub megabytes: f64,
    /// GB/s, median.
    pub median: f64,
    /// GB/s, fastest.
    pub best: f64,
}

/// Far beyond the caches of any machine of today with its share of a few cores.
pub const FROM_MEMORY_MEGABYTES: f64 = 1200.0;
const REPEATS: usize = 11;
/// Bytes moved in one repetition at least: long against the clock and a barrier.
const WORTH_A_CLOCK: f64 = 1e8;

#[inline(always)]
fn triad_text<const FMA: bool>(a: &mut [f64], b: &[f64], c: &[f64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = multiply_add::<FMA>(0.5, *c, *b);
    }
}

for_each_isa! { pub(crate) fn triad(a: &mut [f64], b: &[f64], c: &[f64]) = triad_text }

/// Copy and triad with 1 and `threads` threads, at each total size in `megabytes`.
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

/// Two measurements of the same, one before and one after what they are compared with: the mean of the medians.
pub fn both(before: Vec<Bandwidth>, after: &[Bandwidth]) -> Vec<Bandwidth> {
    let mut all = before;
    for (b, a) in all.iter_mut().zip(after) {
        b.median = 0.5 * (b.median + a.median);
        b.best = b.best.max(a.best);
    }
    all
}

/// Triad from memory with this many threads: what shares are taken of.
pub fn ceiling(all: &[Bandwidth], threads: usize) -> Option<f64> {
    let largest = all.iter().map(|b| b.megabytes).fold(0.0, f64::max);
    all.iter().find(|b| b.kernel == "triad" && b.threads == threads && b.megabytes == largest).map(|b| b.median)
}

fn run(is_triad: bool, threads: usize, megabytes: f64) -> Bandwidth {
    let arrays = if is_triad { 3 } else { 2 };
    let values = (megabytes * 1e6 / 8.0 / arrays as f64 / threads as f64) as usize;
    let bytes = (8 * arrays * values * threads) as f64;
    let rounds = (WORTH_A_CLOCK / bytes).ceil().max(1.0) as usize;
    let barrier = Barrier::new(threads);
    let work = || {
        let mut a = vec![1.0; values];
        let (b, c) = (vec![2.0; values], vec![0.5; if is_triad { values } else { 0 }]);
        let mut seconds = Vec::new();
        // The first is the warm-up.
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
