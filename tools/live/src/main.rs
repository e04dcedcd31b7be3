//! `rrbsolver-live`: starts a simulator and shows its waves in a browser.

use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;
use rrbsolver_live::Server;

/// Starts a simulator and shows its waves at http://127.0.0.1:PORT/.
///
/// The simulator writes frames to its standard output and reads commands from its standard input:
/// examples/ship_waves does with --live.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Port of 127.0.0.1; 0 selects a free one.
    #[arg(long, default_value_t = 8765)]
    port: u16,
    /// The simulator and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    simulator: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rrbsolver-live: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let port = arguments.port;
    let listener = Server::listen(port)
        .with_context(|| format!("cannot listen on port {port} of 127.0.0.1: select another by --port"))?;
    let mut simulator = start(&arguments.simulator)?;
    let output = simulator.stdout.take().context("the simulator has no standard output")?;
    let input = simulator.stdin.take().context("the simulator has no standard input")?;
    let server = Server::start(listener, output, input)?;
    eprintln!("rrbsolver-live: open http://127.0.0.1:{}/", server.port());
    let read = server.wait();
    if read.is_err() {
        // A simulator that writes no frames would wait for ever for a reader of its output.
        simulator.kill().context("cannot end the simulator")?;
    }
    let status = simulator.wait().context("cannot wait for the simulator")?;
    read.context("the simulator's output")?;
    if !status.success() {
        bail!("the simulator ended with {status}");
    }
    Ok(())
}

fn start(simulator: &[String]) -> Result<Child> {
    Command::new(&simulator[0])
        .args(&simulator[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start \"{}\"", simulator[0]))
}
