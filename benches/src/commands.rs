//! Command lines of the measurements. A record stores the line that created it, and documentation pages contain the
//! lines that create their tables.

use crate::contest::{self, Contender, Effort};
use crate::device::{self, Device};
use crate::distributed;
use crate::hypre;
use crate::iccg::Pivots;
use crate::machine::{Machine, cores};
use crate::march;
use crate::overhead;
use crate::problem::Problem;
use crate::record::{Record, Study};
use crate::smoother::{self, Topic};
use crate::sparse;
use crate::stages;
use crate::stream;
use crate::suite::{self, Suite};
use crate::sweeps::{self, GridPlan};
use crate::thesis;
use crate::two_phase;
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Parser, Subcommand, ValueEnum};
use rrbsolver_problems::two_phase::RHS;
use std::path::{Path, PathBuf};

/// Name of the program in the lines that records store.
pub const PROGRAM: &str = "rrbsolver-bench";

/// The papers' preconditioner.
pub const THEIRS: &str = "precision=f64 cycle=v";

/// Command line of one measurement.
#[derive(Parser)]
#[command(name = PROGRAM)]
pub struct Line {
    /// The measurement.
    #[command(subcommand)]
    pub measurement: Measurement,
}

/// The measurements.
#[derive(Clone, Debug, Subcommand)]
pub enum Measurement {
    /// Memory bandwidth of the machine: copy and triad, one thread and all threads, from cache to memory.
    Stream(StreamArgs),
    /// Solves with several sets of options and with other solvers, in turn.
    Solve(SolveArgs),
    /// Time of each step of a solve, with its bytes, flops and share of the bandwidth.
    Stages(StagesArgs),
    /// Iterations, condition number and time over levels and sizes (figures 5.1, 5.2 and table 5.3 of the papers).
    Levels(LevelsArgs),
    /// Small grids: time of a solve outside its steps, with awake and with sleeping threads.
    Overhead(OverheadArgs),
    /// Block smoothers: the figures of the block-relaxation paper, and forms of the block product.
    Smoother(SmootherArgs),
    /// Average time of a solve in a run of time steps, over problems, sizes and solvers (the slides' table).
    March(MarchArgs),
    /// Time of the implementations S1, S2, S3 and, with a device, S4, over levels and r1/r2/b1/b2 grids (figures 5.3 to
    /// 5.6).
    Grids(GridsArgs),
    /// Pressure of two-phase flow in a box, by dpcg_ with several sets of options and by the in-house ICCG, in turn.
    TwoPhase(TwoPhaseArgs),
    /// General sparse systems: products in several formats, and solves by sparse_, in turn.
    Sparse(SparseArgs),
    /// General sparse systems by every method and in every format of sparse_: the evaluation of the thesis of 2008
    /// (figures 8.1 to 8.7).
    Thesis(ThesisArgs),
    /// Rates of copies between host and device: pageable and pinned host memory, both directions.
    Transfer(TransferArgs),
    /// One domain on many ranks, here threads: weak and strong scaling, messages and bytes.
    Distributed(DistributedArgs),
    /// Systems on which common preconditioners fail (docs/benchmarks/hard-suite.md), by several sets of options and
    /// other solvers, in turn.
    Suite(SuiteArgs),
}

/// Arguments of `suite`.
#[derive(Clone, Debug, Args)]
pub struct SuiteArgs {
    /// Nodes per row; the number of rows is equal.
    #[arg(short = 'n', long, default_value_t = 512)]
    size: usize,
    /// Seed of the random systems.
    #[arg(long, default_value_t = 7)]
    seed: u32,
    /// Bathymetry (.asc, .asc.gz) whose wave system is added; can be repeated.
    #[arg(long)]
    coast: Vec<String>,
    /// Bathymetry: shallower water is land [m].
    #[arg(long, default_value_t = 0.3)]
    least_depth: f64,
    /// Folder with existing systems (NAME.stencil); by default they are generated.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Generate the systems in this folder for other programs, without measuring.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Options of the solver as text; repeat to compare several sets in turn.
    #[arg(short, long, default_values = ["", "cycle=aggregation", "switch_memory=0"])]
    options: Vec<String>,
    /// Also measure every cycle separately: v, amli, k.
    #[arg(long)]
    all: bool,
    /// Options before those of every --options.
    #[arg(long, default_value = "threads=1")]
    common: String,
    /// In-house conjugate gradients, natural order, one thread.
    #[arg(short, long, value_enum, default_values = ["mic"])]
    baseline: Vec<Baseline>,
    /// hypre: CG with its multigrids PFMG and BoomerAMG on two processes, by drivers that mpicc compiles. Or
    /// NAME=PROGRAM ARGUMENTS: another program, as in `solve`; {} is replaced by the file of the system.
    #[arg(short, long)]
    peer: Vec<String>,
    /// Tolerance of the library and the baseline, 2-norm of b - A x relative to b.
    #[arg(long, default_value_t = 1e-6)]
    rel_tol: f64,
    /// Measured rounds.
    #[arg(short, long, default_value_t = 5)]
    repeats: usize,
    /// A solver that has used this many seconds is omitted from further rounds.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

/// Runs the suite. Generated files are in a temporary folder.
fn hard_suite(args: &SuiteArgs) -> Result<Suite> {
    let plan = suite::Plan { seed: args.seed, size: args.size, coasts: &args.coast, least_depth: args.least_depth };
    if let Some(folder) = &args.write {
        suite::make(&plan, folder)?;
        return Ok(Suite { systems: Vec::new() });
    }
    let made = std::env::temp_dir().join(format!("rrbsolver-suite-{}", std::process::id()));
    let held = hold_suite(args, &plan, &made);
    // No other program needs the folder, so a failed removal is ignored.
    let _ = std::fs::remove_dir_all(&made);
    held
}

fn hold_suite(args: &SuiteArgs, plan: &suite::Plan, made: &Path) -> Result<Suite> {
    let mut options = args.options.clone();
    if args.all {
        options.extend(["cycle=v", "cycle=amli", "cycle=k"].map(str::to_owned));
    }
    let mut contenders = contenders(&options, &args.common, args.rel_tol, &args.baseline);
    for peer in &args.peer {
        if peer == hypre::NAME {
            contenders.extend(hypre::contenders(args.rel_tol, &made.join("peers"))?);
        } else {
            contenders.push(Contender::program(peer)?);
        }
    }
    if args.folder.is_none() {
        suite::make(plan, made)?;
    }
    let effort = Effort { repeats: args.repeats, seconds: args.seconds, rel_tol: args.rel_tol };
    suite::hold(args.folder.as_deref().unwrap_or(made), &contenders, effort)
}

/// The system to solve.
#[derive(Clone, Debug, Args)]
pub struct ProblemArgs {
    /// A problem of the golden tables, variable_depth, or the path of an ESRI ASCII bathymetry (.asc, .asc.gz).
    problem: String,
    /// Nodes per row; also the number of rows by default.
    #[arg(short = 'n', long, default_value_t = 1023)]
    size: usize,
    /// Number of rows, if it differs.
    #[arg(long)]
    rows: Option<usize>,
    /// Bathymetry: shallower water is land [m].
    #[arg(long, default_value_t = 0.3)]
    least_depth: f64,
}

impl ProblemArgs {
    fn find(&self) -> Result<Problem> {
        Problem::find(&self.problem, self.size, self.rows, self.least_depth)
    }
}

/// Bandwidth ceilings of the run.
#[derive(Clone, Debug, Args)]
pub struct CeilingArgs {
    /// Do not measure the bandwidth of the machine.
    #[arg(long)]
    no_stream: bool,
    /// Total size of the arrays for the memory bandwidth, MB.
    #[arg(long, default_value_t = stream::FROM_MEMORY_MEGABYTES)]
    stream_megabytes: f64,
}

impl CeilingArgs {
    /// Measures the bandwidth from memory and for a working set of this many bytes, before and after `work`. On a
    /// device, measures the bandwidth of copies on the device.
    fn around<T>(
        &self,
        working_set: f64,
        device: Option<usize>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Bandwidths)> {
        if self.no_stream {
            return Ok((work()?, Vec::new()));
        }
        if let Some(ordinal) = device {
            let device = Device::new(ordinal)?;
            let before = device.bandwidth(self.stream_megabytes)?;
            let done = work()?;
            return Ok((done, stream::both(vec![before], &[device.bandwidth(self.stream_megabytes)?])));
        }
        let working_set = (working_set * 1e-6).round().max(1.0);
        let mut sizes = vec![self.stream_megabytes];
        if working_set < self.stream_megabytes {
            sizes.push(working_set);
        }
        let before = stream::measure(cores(), &sizes);
        let done = work()?;
        Ok((done, stream::both(before, &stream::measure(cores(), &sizes))))
    }
}

type Bandwidths = Vec<stream::Bandwidth>;

/// Bytes per unknown that a solve reads and writes: S1, five vectors and M, of the memory of the handle.
const WORKING_SET: f64 = 70.0;

/// Arguments of `stream`.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// Total sizes of the arrays, MB.
    #[arg(long, value_delimiter = ',', default_values_t = [1.5, 12.0, 48.0, 192.0, stream::FROM_MEMORY_MEGABYTES])]
    megabytes: Vec<f64>,
    /// Threads of the second half of the measurements.
    #[arg(long)]
    threads: Option<usize>,
}

/// The in-house solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Baseline {
    /// ICCG(0).
    Ic,
    /// MIC(0)-CG.
    Mic,
}

/// Arguments of `solve`.
#[derive(Clone, Debug, Args)]
pub struct SolveArgs {
    #[command(flatten)]
    problem: ProblemArgs,
    /// Options of the solver as text, such as "threads=1 precision=f64"; repeat to compare several sets in turn.
    #[arg(short, long, default_value = "")]
    options: Vec<String>,
    /// Options before those of every --options.
    #[arg(long, default_value = "")]
    common: String,
    /// In-house conjugate gradients, natural order, one thread.
    #[arg(short, long, value_enum)]
    baseline: Vec<Baseline>,
    /// NAME=PROGRAM ARGUMENTS: another program that solves the same system. Its last line with nine fields must be
    /// name,problem,n,threads,setup_s,solve_s,iterations,residual,megabytes.
    #[arg(short, long)]
    peer: Vec<String>,
    /// Tolerance of the library and the baseline, 2-norm of b - A x relative to b.
    #[arg(long, default_value_t = 1e-6)]
    rel_tol: f64,
    /// Measured rounds.
    #[arg(short, long, default_value_t = 10)]
    repeats: usize,
    /// A solver that has used this many seconds is omitted from further rounds.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    #[command(flatten)]
    ceiling: CeilingArgs,
}

/// Arguments of `stages`.
#[derive(Clone, Debug, Args)]
pub struct StagesArgs {
    #[command(flatten)]
    problem: ProblemArgs,
    /// Options of the solver as text.
    #[arg(short, long, default_value = "")]
    options: String,
    /// Measured solves.
    #[arg(short, long, default_value_t = 10)]
    repeats: usize,
    #[command(flatten)]
    ceiling: CeilingArgs,
}

/// Arguments of `levels`.
#[derive(Clone, Debug, Args)]
pub struct LevelsArgs {
    /// A problem of the golden tables.
    problem: String,
    /// Nodes per row.
    #[arg(short = 'n', long, value_delimiter = ',', default_values_t = [127, 255, 511, 1023])]
    sizes: Vec<usize>,
    /// Numbers of levels; default: 2, 4, ... up to the largest number of the grid.
    #[arg(short, long, value_delimiter = ',')]
    levels: Vec<usize>,
    /// Options of the solver as text, in addition to levels and the preconditioned norm.
    #[arg(short, long, default_value = THEIRS)]
    options: String,
    /// Measured solves.
    #[arg(short, long, default_value_t = 3)]
    repeats: usize,
}

/// Arguments of `overhead`.
#[derive(Clone, Debug, Args)]
pub struct OverheadArgs {
    /// A problem of the golden tables.
    problem: String,
    /// Nodes per row.
    #[arg(short = 'n', long, value_delimiter = ',', default_values_t = [63, 127])]
    sizes: Vec<usize>,
    /// Numbers of threads.
    #[arg(short, long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Options of the solver as text, in addition to threads.
    #[arg(short, long, default_value = "")]
    options: String,
    /// Measured rounds.
    #[arg(short, long, default_value_t = 300)]
    repeats: usize,
}

/// Arguments of `distributed`.
#[derive(Clone, Debug, Args)]
pub struct DistributedArgs {
    /// Points per row, and rows: of the whole grid, and in the weak scaling table of each rank.
    #[arg(short = 'n', long, value_delimiter = ',', default_values_t = [1023])]
    sizes: Vec<usize>,
    /// Numbers of ranks, with one thread each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    ranks: Vec<usize>,
    /// Devices of this host instead of ranks.
    #[arg(long)]
    devices: bool,
    /// All rows of the matrix differ.
    #[arg(long)]
    varied: bool,
    /// Options of the solver as text, in addition to threads or devices.
    #[arg(short, long, default_value = "")]
    options: String,
    /// Measured solves.
    #[arg(short, long, default_value_t = 7)]
    repeats: usize,
}

/// Arguments of `smoother`.
#[derive(Clone, Debug, Args)]
pub struct SmootherArgs {
    /// Topic of the measurement.
    topic: Topic,
    /// Number of patches where the paper has 64.
    #[arg(long, default_value_t = 64)]
    patches: usize,
    /// Measured calls.
    #[arg(short, long, default_value_t = 5)]
    repeats: usize,
}

/// Arguments of `march`.
#[derive(Clone, Debug, Args)]
pub struct MarchArgs {
    /// Problems of the golden tables, or paths of ESRI ASCII bathymetries (.asc, .asc.gz), which are refined or
    /// coarsened.
    #[arg(required = true)]
    problems: Vec<String>,
    /// Approximate numbers of nodes of the grids.
    #[arg(short, long, value_delimiter = ',', default_values_t = [100_000, 200_000, 500_000, 1_000_000, 1_500_000])]
    nodes: Vec<usize>,
    /// Options of the solver as text, such as "backend=cuda" or "threads=1"; repeat to measure several sets.
    #[arg(short, long, default_value = "")]
    options: Vec<String>,
    /// In-house conjugate gradients, natural order, one thread; speed-ups are relative to the last solver.
    #[arg(short, long, value_enum)]
    baseline: Vec<Baseline>,
    /// Tolerance, 2-norm of b - A x relative to b.
    #[arg(long, default_value_t = 1e-6)]
    rel_tol: f64,
    /// Measured steps.
    #[arg(short, long, default_value_t = 1000)]
    steps: usize,
    /// A solver ends on a grid after this many seconds of solves.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Bathymetry: shallower water is land [m].
    #[arg(long, default_value_t = 0.3)]
    least_depth: f64,
}

/// Arguments of `grids`.
#[derive(Clone, Debug, Args)]
pub struct GridsArgs {
    /// A problem of the golden tables.
    problem: String,
    /// Nodes per row.
    #[arg(short = 'n', long, default_value_t = 1023)]
    size: usize,
    /// Numbers of levels for all implementations.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 12, 16])]
    levels: Vec<usize>,
    /// Numbers of levels for the fused implementations.
    #[arg(long, value_delimiter = ',', default_values_t = [6, 8, 10, 12, 14, 16, 18])]
    fused_levels: Vec<usize>,
    /// Numbers of r1/r2/b1/b2 grids.
    #[arg(short, long, value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5])]
    grids: Vec<usize>,
    /// Options of the solver as text, in addition to levels, grids and the preconditioned norm.
    #[arg(short, long, default_value = THEIRS)]
    options: String,
    /// Measured solves.
    #[arg(short, long, default_value_t = 3)]
    repeats: usize,
}

/// Arguments of `sparse`.
#[derive(Clone, Debug, Args)]
pub struct SparseArgs {
    /// poisson3d_N, convdiff3d_N_upwind_pP, tetrahedra_N or another name of tests/problems/src/sparse.rs, or the path of
    /// a Matrix Market or Harwell-Boeing file, which may be compressed with gzip.
    #[arg(default_value = "poisson3d_100")]
    system: String,
    /// Formats whose products are measured.
    #[arg(short, long, value_delimiter = ',', default_value = "auto,csr,sell,dia")]
    formats: Vec<String>,
    /// Options of a solve as text, such as "solver=cg preconditioner=ic0"; repeat to compare several sets in turn.
    #[arg(short, long, default_value = "")]
    options: Vec<String>,
    /// Measured rounds.
    #[arg(short, long, default_value_t = 5)]
    repeats: usize,
    /// CUDA ordinal: this device computes the products, and the arrays of products and solves are in its memory. The
    /// options of the solves must select a device too, such as "backend=cuda".
    #[arg(long)]
    device: Option<usize>,
    /// Pass the matrices of the solves by columns, so that sparse_set_values permutes the values.
    #[arg(long)]
    by_columns: bool,
    /// Also write the system to this file: int64 rows and entries, int32 row pointers and columns, values.
    #[arg(short, long)]
    write: Option<PathBuf>,
    /// NAME=PROGRAM ARGUMENTS: another program; {} is replaced by the file of the system (see --write). It prints
    /// product,FORMAT,SECONDS for a product, and the nine fields of `solve --peer` for a solve.
    #[arg(short, long)]
    peer: Vec<String>,
    #[command(flatten)]
    ceiling: CeilingArgs,
}

/// Arguments of `thesis`.
#[derive(Clone, Debug, Args)]
pub struct ThesisArgs {
    /// Folder with bcsstm22, e05r0000, add32 and memplus (.mtx, .rsa, .rua or .rb, also with .gz).
    #[arg(long)]
    data: Option<PathBuf>,
    /// Elements per side of the cavity, which replaces e40r0000.
    #[arg(long, default_value_t = 40)]
    elements: usize,
    /// Numbers of entries of the circuits.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000])]
    entries: Vec<usize>,
    /// A solve ends after this many seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measured solves.
    #[arg(short, long, default_value_t = 3)]
    repeats: usize,
}

/// Arguments of `transfer`.
#[derive(Clone, Debug, Args)]
pub struct TransferArgs {
    /// Sizes of the arrays, MB.
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 16.0, 256.0])]
    megabytes: Vec<f64>,
    /// Number of the device.
    #[arg(long, default_value_t = 0)]
    device: usize,
}

/// Arguments of `two-phase`.
#[derive(Clone, Debug, Args)]
pub struct TwoPhaseArgs {
    /// A geometry of tests/golden/gmg.csv; default: nine bubbles of different sizes.
    #[arg(default_value = "P3")]
    set: String,
    /// Cells per side.
    #[arg(short = 'n', long, default_value_t = 128)]
    size: usize,
    /// Ratio of the density of the light phase to that of the heavy phase.
    #[arg(long, default_value_t = 1e-3)]
    contrast: f64,
    /// Right-hand side: jumps of surface tension, random numbers, or cosines.
    #[arg(long, value_parser = RHS, default_value = "csf")]
    rhs: String,
    /// Options of the solver as text, such as "threads=1 preconditioner=neumann"; repeat to compare several sets in
    /// turn.
    #[arg(short, long, default_value = "")]
    options: Vec<String>,
    /// In-house ICCG(0), natural order, one thread.
    #[arg(short, long)]
    baseline: bool,
    /// Tolerance, 2-norm of b - A x relative to b.
    #[arg(long, default_value_t = 1e-6)]
    rel_tol: f64,
    /// Measured rounds.
    #[arg(short, long, default_value_t = 10)]
    repeats: usize,
    /// A solver that has used this many seconds is measured at most once.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
}

/// Returns the library with each set of options, then the in-house solvers.
fn contenders(options: &[String], common: &str, rel_tol: f64, baseline: &[Baseline]) -> Vec<Contender> {
    let library = options.iter().map(|own| {
        let name = if own.is_empty() { "defaults" } else { own };
        Contender::Rrb(format!("rrbsolver, {name}"), format!("rel_tol={rel_tol:e} {common} {own}"))
    });
    let in_house = baseline.iter().map(|b| match b {
        Baseline::Ic => Contender::InHouse(Pivots::Incomplete),
        Baseline::Mic => Contender::InHouse(Pivots::Modified),
    });
    library.chain(in_house).collect()
}

/// Runs one measurement; `words` is its command line without the name of the program.
pub fn execute(words: &[String], measurement: &Measurement) -> Result<Record> {
    let (study, bandwidth) = match measurement {
        Measurement::Stream(args) => {
            (Study::Stream, stream::measure(args.threads.unwrap_or_else(cores), &args.megabytes))
        }
        Measurement::Solve(args) => {
            let problem = args.problem.find()?;
            let mut contenders = contenders(&args.options, &args.common, args.rel_tol, &args.baseline);
            for peer in &args.peer {
                contenders.push(Contender::program(peer)?);
            }
            let effort = Effort { repeats: args.repeats, seconds: args.seconds, rel_tol: args.rel_tol };
            let bytes = WORKING_SET * problem.unknowns() as f64;
            let (contest, bandwidth) =
                args.ceiling.around(bytes, None, || contest::hold(&problem, &contenders, effort))?;
            (Study::Solve(contest), bandwidth)
        }
        Measurement::Stages(args) => {
            let problem = args.problem.find()?;
            let bytes = WORKING_SET * problem.unknowns() as f64;
            let device = stages::device(&problem, &args.options)?;
            let (breakdown, bandwidth) =
                args.ceiling.around(bytes, device, || stages::measure(&problem, &args.options, args.repeats))?;
            (Study::Stages(breakdown), bandwidth)
        }
        Measurement::Levels(args) => (
            Study::Levels(sweeps::over_levels(&args.problem, &args.sizes, &args.levels, &args.options, args.repeats)?),
            Vec::new(),
        ),
        Measurement::Overhead(args) => (
            Study::Overhead(overhead::measure(&args.problem, &args.sizes, &args.threads, &args.options, args.repeats)?),
            Vec::new(),
        ),
        Measurement::Distributed(args) => (
            Study::Distributed(distributed::measure(
                &args.sizes,
                &args.ranks,
                (&args.options, args.varied),
                args.devices,
                args.repeats,
            )?),
            Vec::new(),
        ),
        Measurement::Smoother(args) => {
            let effort = smoother::Effort { patches: args.patches, repeats: args.repeats };
            (Study::Smoother(smoother::measure(args.topic, effort)?), Vec::new())
        }
        Measurement::March(args) => {
            let contenders = contenders(&args.options, "", args.rel_tol, &args.baseline);
            let plan = march::Plan {
                steps: args.steps,
                seconds: args.seconds,
                rel_tol: args.rel_tol,
                least_depth: args.least_depth,
            };
            (Study::March(march::measure(&args.problems, &args.nodes, &contenders, &plan)?), Vec::new())
        }
        Measurement::Grids(args) => {
            let plan = GridPlan {
                levels_all: args.levels.clone(),
                levels_fused: args.fused_levels.clone(),
                grids: args.grids.clone(),
                threads: cores(),
                device: device::count() > 0,
                repeats: args.repeats,
            };
            (Study::Grids(sweeps::over_grids(&args.problem, args.size, &args.options, &plan)?), Vec::new())
        }
        Measurement::Suite(args) => (Study::Suite(hard_suite(args)?), Vec::new()),
        Measurement::TwoPhase(args) => {
            let TwoPhaseArgs { set, size, contrast, rhs, options, baseline, rel_tol, repeats, seconds } = args.clone();
            let plan =
                two_phase::Plan { set, size: [size; 3], contrast, rhs, options, baseline, rel_tol, repeats, seconds };
            (Study::TwoPhase(two_phase::measure(&plan)?), Vec::new())
        }
        Measurement::Thesis(args) => {
            let ThesisArgs { data, elements, entries, seconds, repeats } = args.clone();
            (Study::Thesis(thesis::measure(&thesis::Plan { data, elements, entries, seconds, repeats })?), Vec::new())
        }
        Measurement::Transfer(args) => {
            let mut rates = Vec::new();
            if device::count() > 0 {
                let device = Device::new(args.device)?;
                for &megabytes in &args.megabytes {
                    rates.extend(device.transfers(megabytes)?);
                }
            }
            (Study::Transfer, rates)
        }
        Measurement::Sparse(args) => {
            let SparseArgs { system, formats, options, repeats, device, by_columns, write, peer, ceiling } =
                args.clone();
            let peers = peer.iter().map(|peer| contest::program(peer)).collect::<Result<_>>()?;
            let plan = sparse::Plan { name: system, formats, options, by_columns, repeats, device, write, peers };
            let (run, bandwidth) = ceiling.around(f64::INFINITY, device, || sparse::measure(&plan))?;
            (Study::Sparse(run), bandwidth)
        }
    };
    Ok(Record { command: join(words), machine: Machine::this(), bandwidth, study })
}

/// Runs the measurement of a command line.
pub fn execute_line(line: &str) -> Result<Record> {
    let words = split(line)?;
    let parsed = Line::try_parse_from(std::iter::once(PROGRAM).chain(words.iter().map(String::as_str)))
        .with_context(|| line.to_owned())?;
    execute(&words, &parsed.measurement)
}

/// Joins words to a line that a shell splits into the same words.
pub fn join(words: &[String]) -> String {
    let quote = |w: &String| {
        let plain = !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || "-_=.,/+:".contains(c));
        if plain { w.clone() } else { format!("\"{w}\"") }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Splits a line into words at blanks, except inside double quotes; the inverse of `join`.
pub fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quoted { Err(anyhow!("unclosed quote in {line}")) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_they_were_joined() {
        let words: Vec<String> =
            ["solve", "poisson_f", "--options", "threads=1 levels=12", "--options", ""].map(str::to_owned).to_vec();
        let line = join(&words);
        assert_eq!(line, "solve poisson_f --options \"threads=1 levels=12\" --options \"\"");
        assert_eq!(split(&line).unwrap(), words);
        assert!(split("a \"b").is_err());
    }
}
