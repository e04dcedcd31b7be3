//! Compares two builds of the library, loaded side by side: to the bit, and in time.

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

/// Compares two builds of the library, loaded side by side: to the bit, and in time.
#[derive(Parser)]
#[command(name = "rrbsolver-compare", version, about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Golden rows, random systems, block smoothers: every status, sentence, count and bit. Status 1 if any differs.
    Bits(BitsArgs),
    /// Factorizations and solves in turns, and those of OLD against a copy of OLD: the noise.
    Time(TimeArgs),
}

/// Where the solver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The processor.
    Cpu,
    /// A device.
    Cuda,
    /// A device that is emulated (tests/emulator): small problems.
    Emulated,
}

impl Backend {
    /// As the library's option.
    fn name(self) -> &'static str {
        if self == Self::Cpu { "cpu" } else { "cuda" }
    }

    /// As the generator of random systems has it.
    fn of_cases(self) -> &'static str {
        if self == Self::Emulated { "emulated" } else { self.name() }
    }
}

#[derive(Args)]
struct BitsArgs {
    /// A shared library.
    old: String,
    /// Another build of it.
    new: String,
    /// Random systems.
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Another sequence of them.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the solver runs.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,
    /// Golden rows up to so many nodes or cells [default: 1100000; emulated: 4096].
    #[arg(long)]
    nodes: Option<usize>,
    /// Classes whose name holds this alone: golden, random, smoother, ...
    #[arg(long, default_value = "")]
    only: String,
    /// Options of every case, after its own.
    #[arg(long, default_value = "")]
    options: String,
    /// The same of NEW alone: whether an option changes anything.
    #[arg(long, default_value = "")]
    new_options: String,
}

#[derive(Args)]
struct TimeArgs {
    /// A shared library.
    old: String,
    /// Another build of it.
    new: String,
    /// Pairs of each row; one more to warm up.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Where the solver runs: cpu or cuda.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,
    /// Nodes a row [default: 2047; cuda: 316,1023,2047,4095].
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Threads of the solver.
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
        Err(sentence) => {
            eprintln!("rrbsolver-compare: {sentence:#}");
            ExitCode::from(2)
        }
    }
}
