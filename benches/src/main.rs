//! Measures rrbsolver on this machine; prints tables and writes JSON.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Parser, Subcommand};
use rrbsolver_benches::commands::{Measurement, PROGRAM, THEIRS, execute, execute_line};
use rrbsolver_benches::device;
use rrbsolver_benches::page::{Source, fill};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures rrbsolver on this machine; prints tables and writes JSON.
#[derive(Parser)]
#[command(name = PROGRAM, version, about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
    /// Also write the record to this file.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Task {
    #[command(flatten)]
    Measure(Measurement),
    /// Run all measurements of the papers' evaluation, and write the records to a folder.
    Paper(PaperArgs),
    /// Fill the tables of a documentation page, whose markers contain the commands.
    Page(PageArgs),
}

#[derive(Args)]
struct PaperArgs {
    /// Folder of the records.
    #[arg(short, long, default_value = "output/paper")]
    output: PathBuf,
    /// Nodes per side of the largest grid.
    #[arg(short = 'n', long, default_value_t = 2047)]
    size: usize,
    /// Quick check: one measured solve per measurement, and small arrays for the bandwidth.
    #[arg(long)]
    quick: bool,
    /// Folder with the matrices of the thesis: bcsstm22, e05r0000, add32 and memplus.
    #[arg(long)]
    data: Option<PathBuf>,
    /// ESRI ASCII bathymetry of the slides' table (record `march`); repeat for several, default: variable_depth.
    #[arg(long)]
    bathymetry: Vec<PathBuf>,
    /// Only the records with these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Args)]
struct PageArgs {
    /// The page.
    page: PathBuf,
    /// Folder of the records.
    #[arg(short, long, default_value = "output/performance")]
    records: PathBuf,
    /// Repeat the measurements of all tables, or of those whose names contain this text.
    #[arg(short, long, num_args = 0..=1, default_missing_value = "")]
    measure: Option<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.task {
        Task::Measure(measurement) => measure(measurement, cli.json.as_deref()),
        Task::Paper(args) => paper(args),
        Task::Page(args) => page(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{PROGRAM}: {message:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the words of the command line that describe the measurement.
fn words() -> Vec<String> {
    let mut words = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--json" => drop(arguments.next()),
            word if word.starts_with("--json=") => {}
            _ => words.push(word),
        }
    }
    words
}

fn measure(measurement: &Measurement, json: Option<&Path>) -> Result<()> {
    let record = execute(&words(), measurement)?;
    print!("{}", record.text());
    json.map_or(Ok(()), |path| record.write(path))
}

/// Stopping test, precision and cycle of the papers.
const PAPERS: &str = "norm=preconditioned reference=initial precision=f64 cycle=v levels=12";

fn paper(args: &PaperArgs) -> Result<()> {
    let n = args.size;
    make_folder(&args.output)?;
    // The papers' sizes, h^-1 = 64, 128, ... up to the requested one.
    let sizes: Vec<String> =
        (6..).map(|m| (1usize << m) - 1).take_while(|&s| s < n).chain([n]).map(|s| s.to_string()).collect();
    let from_127 = sizes[1.min(sizes.len() - 1)..].join(",");
    let sizes = sizes.join(",");
    let mut lines = vec![
        ("bandwidth", "stream".to_owned()),
        ("table_5_1", format!("stages poisson_f -n {n} --options \"backend=cpu fusion=off {PAPERS}\"")),
        ("stages", format!("stages poisson_f -n {n} --options \"backend=cpu {PAPERS}\"")),
        ("table_5_3", format!("levels poisson_f --sizes {sizes} --levels 12 --options \"backend=cpu {THEIRS}\"")),
        ("levels", format!("levels poisson_f --sizes {from_127} --options \"backend=cpu {THEIRS}\"")),
        ("grids", format!("grids poisson_f -n {n}")),
        ("figure_4", "smoother convergence".to_owned()),
        ("figure_5", "smoother threads --repeats 3".to_owned()),
        ("figure_7", "smoother parameters".to_owned()),
        ("figure_8", "smoother mixed".to_owned()),
        ("figure_9", "smoother blocks".to_owned()),
        ("figure_10", "smoother inversion".to_owned()),
        ("ghost_exchange", "smoother exchange".to_owned()),
        ("block_products", "smoother forms".to_owned()),
        ("solve", format!("solve poisson_f -n {n} --baseline mic --baseline ic --repeats 3")),
    ];
    lines.extend([("thesis", thesis(args)), ("transfer", "transfer".to_owned())]);
    lines.extend(slides(n, ""));
    let march = march(args);
    if device::count() > 0 {
        let there = format!("backend=cuda {PAPERS}");
        lines.extend(slides(n, "backend=cuda "));
        lines.extend([
            ("table_5_1_device", format!("stages poisson_f -n {n} --options \"fusion=off {there}\"")),
            ("stages_device", format!("stages poisson_f -n {n} --options \"{there}\"")),
            (
                "table_5_3_device",
                format!("levels poisson_f --sizes {sizes} --levels 12 --options \"backend=cuda {THEIRS}\""),
            ),
            ("levels_device", format!("levels poisson_f --sizes {from_127} --options \"backend=cuda {THEIRS}\"")),
            ("figure_6", "smoother device".to_owned()),
            ("march", format!("{march} --options \"backend=cuda\" {ON_CORES}")),
        ]);
    } else {
        println!("\nomitted: tables and figures of a device, because there is no CUDA device");
        lines.push(("march", format!("{march} {ON_CORES}")));
    }
    if let Some(unknown) = args.only.iter().find(|only| !lines.iter().any(|(name, _)| name == only)) {
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        bail!("--only {unknown}: unknown record; available: {}", names.join(", "));
    }
    lines.retain(|(name, _)| args.only.is_empty() || args.only.iter().any(|only| only == name));
    for (name, line) in lines {
        let line = if args.quick { quick(&line) } else { line };
        println!("\n## {name}\n\n    {PROGRAM} {line}\n");
        if line.starts_with("two-phase") {
            println!("{ASSUMED}\n");
        }
        let record = execute_line(&line)?;
        print!("{}", record.text());
        record.write(&args.output.join(format!("{name}.json")))?;
    }
    println!("\nrecords: {}", args.output.display());
    Ok(())
}

/// Solvers of the record `march`. Speed-ups are relative to the last one, which runs on one core as in the slides.
const ON_CORES: &str = "--options \"backend=cpu\" --options \"backend=cpu threads=1\"";

/// The slides' table of wave systems: 1e5 to 1.5e6 nodes of a Poisson problem and of two real bathymetries.
fn march(args: &PaperArgs) -> String {
    let mut problems: String = args.bathymetry.iter().map(|path| format!(" \"{}\"", path.display())).collect();
    if problems.is_empty() {
        problems = " variable_depth".to_owned();
    }
    let seconds = if args.size < 2047 { 0.5 } else { 3.0 };
    format!("march poisson_f{problems} --seconds {seconds}")
}

/// Parameters that the slides do not state, as assumed for all tables of `slides`.
const ASSUMED: &str = "The slides have nine bubbles in 128^3 cells, contrast 1e-3, to 1e-6. Assumed are: \
    radius 0.1; centres at\n(1/4, 3/4)^3 and (1/2)^3, which their numbers of vectors ask for; a random right-hand \
    side.";

/// The two tables of the slides (`ASSUMED`), and a table over orders of the Neumann series. `place` is empty for one
/// core, as in the slides, or a device, for which the slides have no ICCG. A quick run uses 64^3 cells.
fn slides(n: usize, place: &str) -> [(&'static str, String); 3] {
    let device = !place.is_empty();
    let cells = if n < 2047 { 64 } else { 128 };
    let line = |methods: &[String]| {
        let place = if device { place } else { "backend=cpu threads=1 " };
        let options: String = methods.iter().map(|m| format!(" --options \"{place}{m}\"")).collect();
        format!("two-phase 9 -n {cells} --rhs rand --repeats 3{options}")
    };
    let table = |boxes: usize| {
        let boxes = format!("subdomains_x={boxes} subdomains_y={boxes} subdomains_z={boxes}");
        let iccg = format!("preconditioner=ic0 deflation=subdomain {boxes}");
        let neumann = |kind: &str| format!("preconditioner=neumann order=2 deflation={kind} {boxes}");
        let neumann = [neumann("subdomain"), neumann("levelset_subdomain")];
        if device { line(&neumann) } else { line(&[&[iccg], &neumann[..]].concat()) }
    };
    let order = |order: usize| format!("preconditioner=neumann order={order} deflation=levelset_subdomain");
    let orders = line(&(0..=5).map(order).collect::<Vec<_>>());
    let names = if device {
        ["slides_64_device", "slides_512_device", "orders_device"]
    } else {
        ["slides_64", "slides_512", "orders"]
    };
    let [few, many, all] = names;
    [(few, table(4)), (many, table(8)), (all, orders)]
}

/// The evaluation of the thesis; with the circuit of 1e7 entries on large grids only.
fn thesis(args: &PaperArgs) -> String {
    let data = args.data.as_ref().map_or(String::new(), |folder| format!(" --data \"{}\"", folder.display()));
    let effort = if args.size < 2047 { "" } else { " --entries 1000000,10000000 --seconds 10" };
    format!("thesis{data}{effort}")
}

/// Returns the command line with the smallest effort.
fn quick(line: &str) -> String {
    match line.split(' ').next() {
        Some("stream") => format!("{line} --megabytes 3"),
        Some("solve") => format!("{} --repeats 1 --no-stream", line.replace(" --repeats 3", "")),
        Some("stages") => format!("{line} --repeats 1 --no-stream"),
        // The exact inverse of a larger coarsest system needs minutes on an emulated device, also in `march`.
        Some("levels") if !line.contains("--levels") => format!("{line} --repeats 1 --levels 4,6,8"),
        Some("smoother") => format!("{} --patches 2 --repeats 1", line.replace(" --repeats 3", "")),
        Some("two-phase") => format!("{} --repeats 0", line.replace(" -n 64", " -n 16").replace(" --repeats 3", "")),
        Some("thesis") => format!("{line} --repeats 1 --elements 3 --entries 3000 --seconds 0.1"),
        Some("transfer") => format!("{line} --megabytes 1"),
        Some("march") => format!("{line} --nodes 400,800 --steps 2"),
        _ => format!("{line} --repeats 1"),
    }
}

fn page(args: &PageArgs) -> Result<()> {
    make_folder(&args.records)?;
    let shown = args.page.display();
    let text = std::fs::read_to_string(&args.page).with_context(|| format!("cannot read {shown}"))?;
    let (filled, errors) = fill(&text, &Source { records: &args.records, measure: args.measure.as_deref() });
    std::fs::write(&args.page, filled).with_context(|| format!("cannot write {shown}"))?;
    if errors.is_empty() { Ok(()) } else { Err(anyhow!(errors.join("\n"))) }
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}
