//! Pictures of what the examples write, waves over the bathymetry (PNG) and convergence histories (SVG), and of what
//! the benchmark measures (SVG).

mod animation;
mod bench;
mod pixmap;
mod record;
mod vti;
mod waves;

use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use rrbsolver_plot::{convergence, fonts, write_whole};

/// Pictures of what the rrbsolver examples write and of what its benchmark measures.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    picture: Picture,
}

#[derive(Subcommand)]
enum Picture {
    /// Waves over the bathymetry, from .vti files with zeta and depth, as PNG; several files become an animated PNG.
    Waves(Waves),
    /// Relative residual against iteration, from CSV files of two columns, as SVG.
    Convergence(Convergence),
    /// The papers' figures, from records of rrbsolver-bench, as SVG.
    Bench(Bench),
    /// Portable pixmaps (P6) of the example bubbles, each as PNG beside it.
    Png(Png),
}

#[derive(Args)]
struct Png {
    /// Pixmaps; the picture of a.ppm is a.png.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Args)]
struct Bench {
    /// Records; those without a figure are passed over.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Folder of the pictures, made where it is not there.
    #[arg(short, long, default_value = ".")]
    output: PathBuf,
}

#[derive(Args)]
struct Waves {
    /// Wave fields: VTK image data with the cell arrays zeta and depth, and optionally draft, current_u, current_v.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Milliseconds between the pictures of an animation.
    #[arg(long, default_value_t = 100)]
    delay: u16,
    /// Picture to write.
    #[arg(short, long, default_value = "waves.png")]
    output: PathBuf,
    /// Width of the picture in pixels.
    #[arg(long, default_value_t = 1600, value_parser = clap::value_parser!(u32).range(400..=8000))]
    width: u32,
    /// Wave height at the ends of the colour scale, in metres; without: from the waves of the last file.
    #[arg(long)]
    range: Option<f64>,
    /// Part of the map to show: west,south,east,north in the coordinates of the file.
    #[arg(long, value_name = "W,S,E,N", value_parser = parse_window, allow_hyphen_values = true)]
    window: Option<[f64; 4]>,
    /// Line above the map; without: the time.
    #[arg(long)]
    title: Option<String>,
}

#[derive(Args)]
struct Convergence {
    /// Histories: a header line, then iteration and relative residual.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Picture to write.
    #[arg(short, long, default_value = "convergence.svg")]
    output: PathBuf,
    /// Line above the plot.
    #[arg(long, default_value = "Convergence in the first time step")]
    title: String,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    fonts::register();
    let result = match &cli.picture {
        Picture::Waves(options) => draw_waves(options),
        Picture::Convergence(options) => draw_convergence(options),
        Picture::Bench(options) => draw_bench(options),
        Picture::Png(options) => convert(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rrbsolver-plot: {message:#}");
            ExitCode::from(2)
        }
    }
}

fn parse_window(text: &str) -> Result<[f64; 4]> {
    let numbers: Result<Vec<f64>, std::num::ParseFloatError> =
        text.split(',').map(|word| word.trim().parse()).collect();
    numbers.ok().and_then(|n| n.try_into().ok()).context("four numbers west,south,east,north are needed")
}

fn draw_waves(options: &Waves) -> Result<()> {
    let last = vti::read(&options.files[options.files.len() - 1])?;
    let range = match options.range {
        Some(range) => range,
        None => waves::automatic_range(&last, options.window)?,
    };
    let style =
        waves::Style { width: options.width, range: Some(range), window: options.window, title: options.title.clone() };
    let png = if options.files.len() == 1 {
        waves::draw(&last, &style)?
    } else {
        let paint = |file: &PathBuf| waves::paint(&vti::read(file)?, &style);
        let pictures: Vec<waves::Picture> = options.files.iter().map(paint).collect::<Result<_>>()?;
        animation::encode(&pictures, options.delay)?
    };
    write_whole(&options.output, &png)
}

fn draw_convergence(options: &Convergence) -> Result<()> {
    let histories = options.files.iter().map(|file| convergence::read(file)).collect::<Result<Vec<_>, _>>()?;
    let svg = convergence::draw(&histories, &options.title)?;
    write_whole(&options.output, svg.as_bytes())
}

fn draw_bench(options: &Bench) -> Result<()> {
    std::fs::create_dir_all(&options.output).with_context(|| format!("cannot make {}", options.output.display()))?;
    for file in &options.files {
        for (name, svg) in bench::draw(&record::read(file)?)? {
            let path = options.output.join(format!("{name}.svg"));
            write_whole(&path, svg.as_bytes())?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn convert(options: &Png) -> Result<()> {
    for file in &options.files {
        let pixmap = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let png = pixmap::to_png(&pixmap).with_context(|| file.display().to_string())?;
        write_whole(&file.with_extension("png"), &png)?;
    }
    Ok(())
}
