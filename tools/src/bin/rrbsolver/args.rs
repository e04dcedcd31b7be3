//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Solves linear systems from files, and reports properties of their matrices.
///
/// FILE is a matrix in MatrixMarket, Harwell-Boeing or Rutherford-Boeing format, plain or gzip-compressed, or a raw
/// stencil file (docs/guides/files-and-tool.md). Its first bytes determine the format, not its name.
#[derive(Parser)]
#[command(name = "rrbsolver", version, after_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "EXIT STATUS
  0  success; a solve converged
  1  not converged; doctor: a self-test failed
  2  error, with a message on standard error

ENVIRONMENT
  RRBSOLVER_OPTIONS      options that override --options
  RRBSOLVER_NUM_THREADS  number of threads, if option threads is 0
  RRBSOLVER_ISA          avx512, avx2 or portable: the instruction set to use

EXAMPLES
  rrbsolver info matrix.mtx.gz --svg pattern.svg
  rrbsolver solve matrix.mtx.gz --options \"rel_tol=1e-8\" --svg residual.svg --write x.mtx
  rrbsolver compare matrix.mtx.gz --svg bars.svg";

#[derive(Subcommand)]
pub enum Command {
    /// Shows size, structure, symmetry and dominance of a matrix, the choices of `auto`, and its sparsity pattern.
    Info(Info),
    /// Solves A x = b.
    ///
    /// General matrices are solved by sparse_, raw stencil files by rrb_ (2D) or dpcg_ (3D). Progress is shown only on
    /// a terminal.
    Solve(Solve),
    /// Compares all methods and all storage formats on one matrix.
    Compare(Compare),
    /// Writes a matrix in another file format.
    Convert(Convert),
    /// Reports what the library finds on this machine, and tests each backend.
    Doctor(Doctor),
}

#[derive(Args)]
pub struct Info {
    /// Matrix.
    pub file: PathBuf,
    /// SVG file for a plot of the sparsity pattern.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// JSON file for the properties.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Omit the pattern in the terminal.
    #[arg(long)]
    pub no_picture: bool,
}

#[derive(Args)]
pub struct Solve {
    /// Matrix.
    pub file: PathBuf,
    /// Right-hand side: a file with one column, or `ones`; default: the one in FILE, else ones.
    #[arg(long, value_name = "FILE|ones")]
    pub rhs: Option<PathBuf>,
    /// Options of the library as text, such as "solver=cg preconditioner=ic0 rel_tol=1e-8".
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub options: String,
    /// File for x, in MatrixMarket format.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// SVG file for a plot of the residuals.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// CSV file for iterations and relative residuals.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// JSON file for all results and the residuals.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Compare {
    /// Matrix.
    pub file: PathBuf,
    /// Right-hand side, as in `solve`.
    #[arg(long, value_name = "FILE|ones")]
    pub rhs: Option<PathBuf>,
    /// Options for all methods, such as "rel_tol=1e-8 max_iter=5000".
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub options: String,
    /// SVG file for a bar chart of the times.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// JSON file for the tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct Convert {
    /// Matrix to read.
    pub from: PathBuf,
    /// File to write; compressed if its name ends in .gz.
    pub to: PathBuf,
    /// Format to write; default: by the name of the file, .mtx, .hb or .rb.
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
    /// Skip the measurement of the memory bandwidth, which takes a few seconds.
    #[arg(long)]
    pub quick: bool,
}
