//! One domain on many ranks, which are threads of this process with one thread each: weak and strong scaling, with the
//! messages and bytes per iteration. MPI ranks perform the same steps. Alternatively one domain on the devices of this
//! host, without copies from and to the host.

use crate::solver::checked;
use crate::timing::Samples;
use anyhow::{Context as _, Result, anyhow, ensure};
use clap::ValueEnum;
use rrbsolver::abi::{
    rrb_create, rrb_create_distributed, rrb_destroy, rrb_factorize, rrb_get_int, rrb_get_real, rrb_handle,
    rrb_set_options, rrb_solve, rrbsolver_comm,
};
use rrbsolver::layers::threads;
use rrbsolver::options::info;
use rrbsolver_problems::{Random, Stencil, poisson, random_rhs};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::time::Instant;

/// Quantity that is constant over the numbers of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// The number of points per rank.
    Weak,
    /// The total number of points.
    Strong,
}

/// Results of one grid on one number of ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RanksRow {
    /// Kind of scaling.
    pub scaling: Scaling,
    /// Number of points in x.
    pub nx: usize,
    /// Number of points in y.
    pub ny: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of iterations.
    pub iterations: usize,
    /// Factorization time of the slowest rank.
    pub factorize: Samples,
    /// Solve time of the slowest rank.
    pub solve: Samples,
    /// Messages per iteration of the rank that sends most.
    pub messages: f64,
    /// Bytes per iteration of these messages.
    pub bytes: f64,
    /// Checksum of the bits of x; the checksums of parts of x add up.
    #[serde(default)]
    pub bits: u64,
}

/// Results of all grids and ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ranks {
    /// Options of the solver in addition to threads.
    pub options: String,
    /// Whether all rows of the matrix differ.
    #[serde(default)]
    pub varied: bool,
    /// Results by scaling, size and ranks.
    pub rows: Vec<RanksRow>,
}

/// A communicator table that is sent to the thread of its rank.
struct Sent(rrbsolver_comm);

// SAFETY: the context of the table is a rank, which locks data that ranks share.
unsafe impl Send for Sent {}

impl Sent {
    fn table(&self) -> &rrbsolver_comm {
        &self.0
    }
}

/// The handle of one rank.
struct Handle(*mut rrb_handle);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from rrb_create or rrb_create_distributed and is destroyed once.
        unsafe { rrb_destroy(&raw mut self.0) };
    }
}

impl Handle {
    fn new(a: &Stencil, rows: &Range<usize>, comm: &rrbsolver_comm, options: &str) -> Result<Self> {
        let mut handle = Self(null_mut());
        let (lower, size) = ([0, rows.start as i64], [a.nx as i64, rows.len() as i64]);
        let text = CString::new(options).map_err(|_| anyhow!("options have no NUL"))?;
        let (nx, ny) = (a.nx as i64, a.ny as i64);
        // SAFETY: one box, a table, a pointer and text that outlive the calls.
        unsafe {
            checked(rrb_create_distributed(nx, ny, 1, &raw const lower, &raw const size, comm, &raw mut handle.0))?;
            checked(rrb_set_options(handle.0, text.as_ptr()))?;
        }
        Ok(handle)
    }

    fn real(&self, key: i32) -> Result<f64> {
        let mut value = 0.0;
        // SAFETY: a live handle and a number that outlives the call.
        checked(unsafe { rrb_get_real(self.0, key, &raw mut value) })?;
        Ok(value)
    }

    fn int(&self, key: i32) -> Result<i64> {
        let mut value = 0;
        // SAFETY: a live handle and a number that outlives the call.
        checked(unsafe { rrb_get_int(self.0, key, &raw mut value) })?;
        Ok(value)
    }
}

/// System, options and number of repeats for all ranks.
struct Task<'a> {
    a: &'a Stencil,
    b: &'a [f64],
    options: &'a str,
    repeats: usize,
}

/// Results of one rank: seconds of each factorization and solve; iterations; messages and bytes; checksum of x.
type RankResult = (Vec<[f64; 2]>, usize, [i64; 2], u64);

/// Returns the checksum of x, whose first value belongs to node `first`.
fn bits(x: &[f64], first: usize) -> u64 {
    let of = |(k, x): (usize, &f64)| x.to_bits() ^ ((first + k) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = x.iter().enumerate().map(of).map(|word| (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9));
    mixed.fold(0, u64::wrapping_add)
}

fn run_rank(task: &Task, rows: &Range<usize>, comm: &rrbsolver_comm, barrier: &Barrier) -> Result<RankResult> {
    let &Task { a, b, options, repeats } = task;
    let handle = Handle::new(a, rows, comm, options)?;
    let part = rows.start * a.nx..rows.end * a.nx;
    let of = |array: &[f64]| array[part.clone()].as_ptr();
    let mut x = vec![0.0; part.len()];
    let mut seconds = Vec::new();
    for repeat in 0..=repeats {
        barrier.wait();
        let start = Instant::now();
        // SAFETY: a live handle, and arrays of its box.
        checked(unsafe { rrb_factorize(handle.0, of(&a.center), of(&a.east), of(&a.north), null(), null()) })?;
        let factorize = start.elapsed().as_secs_f64();
        x.fill(0.0);
        barrier.wait();
        let start = Instant::now();
        // SAFETY: as above.
        checked(unsafe { rrb_solve(handle.0, of(b), x.as_mut_ptr()) })?;
        if repeat > 0 {
            seconds.push([factorize, start.elapsed().as_secs_f64()]);
        }
    }
    let iterations = handle.int(info::ITERATIONS)? as usize;
    let sent = [handle.int(info::MESSAGES_SENT)?, handle.int(info::BYTES_SENT)?];
    Ok((seconds, iterations, sent, bits(&x, part.start)))
}

fn row(scaling: Scaling, ranks: usize, task: &Task) -> Result<RanksRow> {
    let (nx, ny) = (task.a.nx, task.a.ny);
    let all = threads::create_ranks(ranks);
    let barrier = Barrier::new(ranks);
    let of_ranks: Vec<Result<RankResult>> = std::thread::scope(|scope| {
        let started: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(rank, table)| {
                let (table, rows) = (Sent(table.table()), ny * rank / ranks..ny * (rank + 1) / ranks);
                let barrier = &barrier;
                scope.spawn(move || run_rank(task, &rows, table.table(), barrier))
            })
            .collect();
        started.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a rank failed"))?).collect()
    });
    let of_ranks = of_ranks.into_iter().collect::<Result<Vec<_>>>().with_context(|| format!("{ranks} ranks"))?;
    let iterations = of_ranks[0].1;
    ensure!(of_ranks.iter().all(|seen| seen.1 == iterations), "ranks differ in their iterations");
    let slowest = |which: usize| -> Samples {
        let of = |k: usize| of_ranks.iter().map(|(seconds, ..)| seconds[k][which]).fold(0.0, f64::max);
        Samples::new((0..task.repeats).map(of).collect())
    };
    let most = |which: usize| of_ranks.iter().map(|seen| seen.2[which]).max().unwrap_or(0) as f64;
    Ok(RanksRow {
        scaling,
        nx,
        ny,
        ranks,
        iterations,
        factorize: slowest(0),
        solve: slowest(1),
        messages: most(0) / iterations.max(1) as f64,
        bytes: most(1) / iterations.max(1) as f64,
        bits: of_ranks.iter().fold(0, |sum, seen| sum.wrapping_add(seen.3)),
    })
}

/// Measures a grid on this number of devices, without counting messages.
fn device_row(scaling: Scaling, devices: usize, task: &Task) -> Result<RanksRow> {
    let &Task { a, b, options, repeats } = task;
    let list: Vec<String> = (0..devices).map(|device| device.to_string()).collect();
    let text = CString::new(format!("backend=cuda devices={} {options}", list.join("+")))?;
    let mut handle = Handle(null_mut());
    // SAFETY: a pointer and text that outlive the calls.
    unsafe {
        checked(rrb_create(a.nx as i64, a.ny as i64, &raw mut handle.0))?;
        checked(rrb_set_options(handle.0, text.as_ptr()))?;
    }
    let mut x = vec![0.0; b.len()];
    let (mut factorize, mut solve) = (Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        x.fill(0.0);
        let of = |array: &[f64]| array.as_ptr();
        // SAFETY: a live handle, and arrays of its grid.
        unsafe {
            checked(rrb_factorize(handle.0, of(&a.center), of(&a.east), of(&a.north), null(), null()))?;
            checked(rrb_solve(handle.0, of(b), x.as_mut_ptr()))?;
        }
        if repeat > 0 {
            factorize.push(handle.real(info::SECONDS_SETUP)?);
            solve.push(handle.real(info::SECONDS_SOLVE)? - handle.real(info::SECONDS_TRANSFER)?);
        }
    }
    Ok(RanksRow {
        scaling,
        nx: a.nx,
        ny: a.ny,
        ranks: devices,
        iterations: handle.int(info::ITERATIONS)? as usize,
        factorize: Samples::new(factorize),
        solve: Samples::new(solve),
        messages: 0.0,
        bytes: 0.0,
        bits: bits(&x, 0),
    })
}

/// Measures Poisson's equation on n x n points, or on as many per rank, for each number of ranks or devices. With
/// `varied`, the centers differ in their twelfth digit, so that all rows of the matrix differ. Solutions of a grid must
/// be bitwise identical for any number of ranks.
pub fn measure(
    sizes: &[usize],
    ranks: &[usize],
    (options, varied): (&str, bool),
    devices: bool,
    repeats: usize,
) -> Result<Ranks> {
    let options_of_one = if devices { options.to_owned() } else { format!("{options} threads=1") };
    let row = if devices { device_row } else { row };
    let mut rows: Vec<RanksRow> = Vec::new();
    for scaling in [Scaling::Strong, Scaling::Weak] {
        for &n in sizes {
            for &ranks in ranks {
                let ny = if scaling == Scaling::Weak { n * ranks } else { n };
                let mut a = poisson(n, ny);
                if varied {
                    let mut random = Random(11);
                    a.center.iter_mut().for_each(|center| *center *= 1.0 + 1e-12 * random.unit());
                }
                let b = random_rhs(n * ny, 7);
                let made =
                    row(scaling, ranks, &Task { a: &a, b: &b, options: &options_of_one, repeats: repeats.max(1) })?;
                let same_grid = rows.iter().find(|other| (other.nx, other.ny) == (made.nx, made.ny));
                ensure!(
                    same_grid.is_none_or(|other| other.bits == made.bits),
                    "{n} x {ny}: results on {ranks} ranks are not bitwise identical"
                );
                rows.push(made);
            }
        }
    }
    Ok(Ranks { options: options.to_owned(), varied, rows })
}
