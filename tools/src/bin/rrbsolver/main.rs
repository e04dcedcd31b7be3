//! `rrbsolver`: applies the library to files without programming. Described in docs/guides/files-and-tool.md.

/// Prints a line to the standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::write_out(format_args!("{}\n", format_args!($($words)*))) };
}
/// Prints to the standard output without a newline.
macro_rules! show {
    ($($words:tt)*) => { $crate::write_out(format_args!($($words)*)) };
}

mod args;
mod bars;
mod compare;
mod convert;
mod definite;
mod doctor;
mod facts;
mod ffi;
mod info;
mod input;
mod library;
mod pattern;
mod raw;
mod solve;

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use indicatif::ProgressBar;

use args::{Cli, Command};

/// Result of a command that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Success.
    Well,
    /// Not converged, or a self-test failed.
    Short,
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(End::Well) => ExitCode::SUCCESS,
        Ok(End::Short) => ExitCode::from(1),
        Err(message) => {
            eprintln!("rrbsolver: {message:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> Result<End> {
    ffi::load()?;
    library::show_warnings();
    match command {
        Command::Info(options) => info::run(options),
        Command::Solve(options) => solve::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Convert(options) => convert::run(options),
        Command::Doctor(options) => doctor::run(options),
    }
}

/// Shows the current activity and its elapsed time, on a terminal only.
pub fn spinner(doing: String) -> ProgressBar {
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(100));
    progress.set_message(doing);
    progress
}

/// Prints to the standard output. Ends the program if no process reads it any more, as after `| head`, or if the disk
/// is full.
pub fn write_out(words: Arguments<'_>) {
    if let Err(error) = std::io::stdout().write_fmt(words) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("rrbsolver: the standard output cannot be written: {error}");
        std::process::exit(2);
    }
}
