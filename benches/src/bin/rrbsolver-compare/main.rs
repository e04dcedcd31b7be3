//! Compares two builds of the library, which are loaded next to each other: bitwise results, and times.

mod bits;
mod blocks;
mod classes;
mod library;
mod matrix;
mod record;
mod systems;
mod time;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::process::ExitCode;

/// Compares two builds of the library, which are loaded next to each other: bitwise results, and times.
#[derive(Parser)]
#[command(name = "rrbsolver-compare", version, about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Golden rows, random systems, block smoothers: every status, message, count and bit. Exit status 1 if any
    /// differs.
    Bits(BitsArgs),
    /// Factorizations and solves in turn. A copy of OLD is also compared with OLD, to measure the noise.
    Time(TimeArgs),
}

/// Backend that runs the solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The CPU.
    Cpu,
    /// A CUDA device.
    Cuda,
    /// An emulated device (tests/emulator), with small problems.
    Emulated,
}

impl Backend {
    /// Returns the value of the library's option `backend`.
    fn name(self) -> &'static str {
        if self == Self::Cpu { "cpu" } else { "cuda" }
    }

    /// Returns the name in the generator of random systems.
    fn of_cases(self) -> &'static str {
        if self == Self::Emulated { "emulated" } else { self.name() }
    }
}

#[derive(Args)]
struct BitsArgs {
    /// Shared library of the old build.
    old: String,
    /// Shared library of the new build.
    new: String,
    /// Number of random systems.
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Seed of the random systems.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Backend that runs the solver.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,
    /// Largest number of nodes or cells of golden rows [default: 1100000; emulated: 4096].
    #[arg(long)]
    nodes: Option<usize>,
    /// Only classes whose name contains this text: golden, random, smoother, ...
    #[arg(long, default_value = "")]
    only: String,
    /// Options that are appended to those of every case.
    #[arg(long, default_value = "")]
    options: String,
    /// Options that are appended for NEW only, to see whether they change anything.
    #[arg(long, default_value = "")]
    new_options: String,
}

#[derive(Args)]
struct TimeArgs {
    /// Shared library of the old build.
    old: String,
    /// Shared library of the new build.
    new: String,
    /// Measured pairs per row, after one warm-up.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Backend that runs the solver: cpu or cuda.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,
    /// Nodes per row [default: 2047; cuda: 316,1023,2047,4095].
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Number of threads of the solver.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let result = match &Cli::parse().task {
        Task::Bits(args) => bits::run(args),
        Task::Time(args) => time::run(args).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("rrbsolver-compare: {message:#}");
            ExitCode::from(2)
        }
    }
}
