//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Solves linear systems that lie in files, and tells what their matrices are like.
///
/// FILE is a matrix in MatrixMarket, Harwell-Boeing or Rutherford-Boeing format, in gz or not, or a raw stencil file
/// (docs/guides/files-and-tool.md). What a file is, its first bytes say, not its name.
#[derive(Parser)]
#[command(name = "rrbsolver", version, after_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "EXIT STATUS
  0  done, and converged
  1  not converged; of doctor: a self-test failed
  2  an error: one sentence on the standard error

ENVIRONMENT
  RRBSOLVER_OPTIONS      options that win over --options
  RRBSOLVER_NUM_THREADS  threads, where the option threads is 0
  RRBSOLVER_ISA          avx512, avx2 or portable: the instruction set to use

EXAMPLES
  rrbsolver info matrix.mtx.gz --svg pattern.svg
  rrbsolver solve matrix.mtx.gz --options \"rel_tol=1e-8\" --svg residual.svg --write x.mtx
  rrbsolver compare matrix.mtx.gz --svg bars.svg";

#[derive(Subcommand)]
pub enum Command {
    /// Size, structure, symmetry and dominance of a matrix, what `auto` takes, and a picture of its pattern.
    Info(Info),
    /// Solves A x = b.
    ///
    /// General matrices are solved by sparse_, raw stencil files by rrb_ (2D) or dpcg_ (3D). Progress is shown on a
    /// terminal alone.
    Solve(Solve),
    /// All methods and all storage formats side by side on one matrix.
    Compare(Compare),
    /// Writes a matrix in another file format.
    Convert(Convert),
    /// What the library finds on this machine, with a self-test of each backend.
    Doctor(Doctor),
}

#[derive(Args)]
pub struct Info {
    /// Matrix.
    pub file: PathBuf,
    /// Writes the picture of the pattern here.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Writes the facts here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No picture in the terminal.
    #[arg(long)]
    pub no_picture: bool,
}

#[derive(Args)]
pub struct Solve {
    /// Matrix.
    pub file: PathBuf,
    /// Right-hand side: a file with one column, or `ones`; without: that of FILE, or where it has none, ones.
    #[arg(long, value_name = "FILE|ones")]
    pub rhs: Option<PathBuf>,
    /// Options of the library as text, such as "solver=cg preconditioner=ic0 rel_tol=1e-8".
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub options: String,
    /// Writes x here, in MatrixMarket format.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Writes the plot of the residuals here.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Writes iterations and relative residuals here.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Writes all results here, with the residuals.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Compare {
    /// Matrix.
    pub file: PathBuf,
    /// Right-hand side, as of `solve`.
    #[arg(long, value_name = "FILE|ones")]
    pub rhs: Option<PathBuf>,
    /// Options for all methods, such as "rel_tol=1e-8 max_iter=5000".
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub options: String,
    /// Writes bars of the times here.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Writes the tables here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Convert {
    /// Matrix to read.
    pub from: PathBuf,
    /// File to write, in gz where its name ends with .gz.
    pub to: PathBuf,
    /// Format to write; without: by the name of the file, .mtx, .hb or .rb.
    #[arg(long, value_enum)]
    pub format: Option<FileKind>,
}

/// A file format that can be written.
#[derive(Clone, Copy, ValueEnum)]
pub enum FileKind {
    /// MatrixMarket
    Mtx,
    /// Harwell-Boeing
    Hb,
    /// Rutherford-Boeing
    Rb,
}

#[derive(Args)]
pub struct Doctor {
    /// Without the measurement of the memory's bandwidth, which takes a few seconds.
    #[arg(long)]
    pub quick: bool,
}
