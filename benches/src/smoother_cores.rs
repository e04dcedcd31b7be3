//! Coloured sweeps over threads, compared with the memory bandwidth of the same number of threads.
//!
//! Calls of the smoother and of the triad alternate, because the load of a shared machine varies. The arrays of both
//! are allocated once for all numbers of threads. At 24 bytes per cell and sweep, a triad bandwidth of B GB/s limits
//! the rate to B / 24 cells per ns. A second limit for t threads is t times the rate of one thread. The efficiency is
//! given relative to the second limit, and relative to the smaller limit.

use crate::machine::cores;
use crate::smoother::{Chart, Curve, Effort, Level, SWEEPS, Smoother, thread_counts};
use crate::stream::triad;
use crate::timing::Samples;
use anyhow::Result;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Values of each of the three arrays of the triad: 600 MB in total, far beyond the caches.
const VALUES: usize = 25_000_000;

/// The arrays of the triad, first written by the threads of all cores.
struct Arrays([Vec<f64>; 3]);

impl Arrays {
    fn new() -> Self {
        let mut arrays = [0, 1, 2].map(|_| vec![0.0; VALUES]);
        let piece = VALUES.div_ceil(cores());
        std::thread::scope(|scope| {
            for piece in arrays.iter_mut().flat_map(|a| a.chunks_mut(piece)) {
                scope.spawn(|| piece.fill(1.0));
            }
        });
        Self(arrays)
    }

    /// Runs a triad with `threads` threads and then `work` on this thread, `times` times. Returns the GB/s of each
    /// triad, and the result of the following `work`.
    fn in_turn<T>(&mut self, threads: usize, times: usize, mut work: impl FnMut() -> T) -> Vec<(f64, T)> {
        let barrier = &Barrier::new(threads);
        let piece = VALUES.div_ceil(threads);
        let [a, b, c] = &mut self.0;
        let mut parts = a.chunks_mut(piece).zip(b.chunks(piece)).zip(c.chunks(piece));
        let Some(((mine, b), c)) = parts.next() else { return Vec::new() };
        std::thread::scope(|scope| {
            for ((a, b), c) in parts {
                scope.spawn(move || {
                    for _ in 0..times {
                        barrier.wait();
                        triad(a, b, c);
                        black_box(&mut *a);
                        barrier.wait();
                    }
                });
            }
            let turn = |_| {
                barrier.wait();
                let start = Instant::now();
                triad(mine, b, c);
                black_box(&mut *mine);
                barrier.wait();
                let seconds = start.elapsed().as_secs_f64();
                (24e-9 * VALUES as f64 / seconds, work())
            };
            (0..times).map(turn).collect()
        })
    }
}

/// Medians for one number of threads.
struct Row {
    threads: f64,
    /// Triad bandwidth in GB/s.
    triad: f64,
    /// Seconds per call.
    call: f64,
    /// Share of the preceding triad's bandwidth, at 24 bytes per cell and sweep.
    share: f64,
}

/// Returns the GB/s of each triad, and the seconds of the following call; the first of each is the warm-up.
fn turns(threads: usize, level: &mut Level, arrays: &mut Arrays, repeats: usize) -> Result<Vec<(f64, f64)>> {
    let smoother = Smoother::new([8; 3], &format!("threads={threads}"), level)?;
    let turns = arrays.in_turn(threads, repeats.max(1) + 1, || {
        let start = Instant::now();
        smoother.apply(level, SWEEPS).map(|()| start.elapsed().as_secs_f64())
    });
    turns.into_iter().skip(1).map(|(rate, seconds)| Ok((rate, seconds?))).collect()
}

/// Returns the medians; `bytes` are those of a call, in GB.
fn row(threads: usize, turns: &[(f64, f64)], bytes: f64) -> Row {
    let median =
        |value: &dyn Fn(f64, f64) -> f64| Samples::new(turns.iter().map(|t| value(t.0, t.1)).collect()).median();
    Row {
        threads: threads as f64,
        triad: median(&|rate, _| rate),
        call: median(&|_, seconds| seconds),
        share: median(&|rate, seconds| bytes / seconds / rate),
    }
}

/// Returns all tables.
pub fn measure(effort: Effort) -> Result<Vec<Chart>> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let mut arrays = Arrays::new();
    let counts = thread_counts();
    let mut all = vec![Vec::new(); counts.len()];
    // Two rounds, because a machine that has just been started is slow at first, and all results are relative to one
    // thread.
    for _ in 0..2 {
        for (all, &threads) in all.iter_mut().zip(&counts) {
            all.extend(turns(threads, &mut level, &mut arrays, effort.repeats)?);
        }
    }
    let bytes = 24e-9 * level.cells() * f64::from(SWEEPS);
    let rows: Vec<Row> = counts.iter().zip(&all).map(|(&threads, all)| row(threads, all, bytes)).collect();
    let one = rows[0].call;
    let cell_sweeps = level.cells() * f64::from(SWEEPS);
    let allowed = |row: &Row| one * row.triad / (24e-9 * cell_sweeps);
    let curve = |name: &str, value: &dyn Fn(&Row) -> f64| Curve {
        name: name.to_owned(),
        points: rows.iter().map(|row| (row.threads, value(row))).collect(),
    };
    let chart = |name: &str, title: &str, y: &str, curves| Chart {
        name: name.to_owned(),
        title: format!("{title}: coloured, blocks of 8^3, {} patches of 64^3", effort.patches),
        x: "threads".to_owned(),
        y: y.to_owned(),
        logarithmic: false,
        places: Vec::new(),
        curves,
    };
    let times = vec![
        curve("triad, GB/s", &|row| row.triad),
        curve("ns per cell and sweep", &|row| 1e9 * row.call / cell_sweeps),
        curve("GB/s at 24 bytes", &|row| 24e-9 * cell_sweeps / row.call),
    ];
    let speedups = vec![curve("coloured", &|row| one / row.call), curve("triad allows", &allowed)];
    let percent = vec![
        curve("of the triad at 24 bytes", &|row| 100.0 * row.share),
        curve("speed-up of the threads", &|row| 100.0 * one / row.call / row.threads),
        curve("speed-up of the lesser of threads and triad", &|row| {
            100.0 * one / row.call / row.threads.min(allowed(row))
        }),
    ];
    Ok(vec![
        chart("cores_rates", "Times and rates", "ns, GB/s", times),
        chart("cores_speedup", "Speed-up over one thread", "speed-up", speedups),
        chart("cores_efficiency", "Shares and efficiency", "percent", percent),
    ])
}
