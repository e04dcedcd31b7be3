//! Factorizations and solves of two builds in turn.

use crate::blocks::Sweeps;
use crate::library::{Build, Solver};
use crate::matrix::{Matrix, Rows};
use crate::{Backend, TimeArgs};
use anyhow::{Context as _, Result, anyhow, bail};
use rrbsolver_benches::device::{Device, DeviceArray};
use rrbsolver_benches::timing::{Samples, digits};
use rrbsolver_problems::blocks::{Level, stencil};
use rrbsolver_problems::two_phase::TwoPhase;
use rrbsolver_problems::{Stencil, by_name, hard_suite, sparse, variable_depth, variable_depth_rows, waves};
use std::time::Instant;

/// Shortest measured time in seconds. Shorter calls are repeated, and the sample is their mean.
const SHORTEST: f64 = 0.1;
/// The method of the papers, and the default.
const METHODS: [(&str, &str); 2] = [("f64 v", "precision=f64 cycle=v"), ("default", "")];

/// A problem that is measured.
struct Problem {
    name: String,
    options: String,
    work: Work,
}

enum Work {
    System { a: Matrix, b: Vec<f64> },
    Smoother(Box<Sweeps>),
}

impl Work {
    fn plane((a, b): (Stencil, Vec<f64>)) -> Self {
        Self::System { a: Matrix::Plane(a), b }
    }

    /// Names of the two timed parts.
    fn parts(&self) -> [&'static str; 2] {
        match self {
            Self::System { .. } => ["factorize", "solve"],
            Self::Smoother(_) => ["set_patches", "apply"],
        }
    }
}

/// Memory space of the arrays of a system.
enum Place<'p> {
    Host { a: &'p Matrix, b: &'p [f64], x: Vec<f64> },
    Device { a: Vec<DeviceArray>, b: DeviceArray, x: DeviceArray },
}

/// Seconds of the two parts of a problem.
type Sample = [f64; 2];

/// Measures a build once.
type Sampler<'p> = dyn FnMut(&Build) -> Result<Sample> + 'p;

/// A line of the table: times of OLD, NEW, and the copy of OLD, pair by pair.
struct Row {
    name: String,
    seconds: [Vec<f64>; 3],
}

/// Measures all problems and prints the table.
pub fn run(args: &TimeArgs) -> Result<()> {
    if args.backend == Backend::Emulated {
        bail!("an emulated device has no times");
    }
    // Options in the environment of the host are for its own solves.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::remove_var("RRBSOLVER_OPTIONS") };
    let (old, new) = (Build::load(&args.old, "")?, Build::load(&args.new, "")?);
    let copy = std::env::temp_dir().join(format!("rrbsolver-compare-{}.so", std::process::id()));
    std::fs::copy(&args.old, &copy).with_context(|| format!("cannot copy {}", args.old))?;
    let control = Build::load(&copy.to_string_lossy(), "");
    // The copy remains in memory.
    let _ = std::fs::remove_file(&copy);
    let builds = [&old, &new, &control?];
    let device = device(args.backend);
    let arrays = if device.is_some() { "arrays on the device" } else { "arrays on the host" };
    println!("{} pairs; {arrays}; ratios: median (least .. most)", args.pairs);
    println!("{:44} {:>10}  {:26} OLD/OLD, the noise", "", "OLD [ms]", "NEW/OLD");
    let mut rows = Vec::new();
    for make in problems(args) {
        let problem = make();
        let measured = measure(&problem, builds, device.as_ref(), args.pairs)?;
        measured.iter().for_each(|row| println!("{}", row.line()));
        rows.extend(measured);
    }
    println!("{}", Row::sum(&rows).line());
    Ok(())
}

/// Returns the device; none on the CPU, or if arrays cannot be allocated on the device.
fn device(backend: Backend) -> Option<Device> {
    if backend == Backend::Cpu {
        return None;
    }
    Device::new(0).inspect_err(|message| println!("{message}")).ok()
}

type Make = Box<dyn Fn() -> Problem>;

/// Returns the problems. Each is generated when it is measured, because they are large.
fn problems(args: &TimeArgs) -> Vec<Make> {
    let on_device = args.backend == Backend::Cuda;
    let sizes = match &args.sizes[..] {
        [] if on_device => &[316, 1023, 2047, 4095],
        [] => &[2047][..],
        sizes => sizes,
    };
    let options = format!("backend={} threads={}", args.backend.name(), args.threads);
    let mut all: Vec<Make> = Vec::new();
    let mut add = |name: String, more: &str, work: Box<dyn Fn() -> Work>| {
        let options = format!("{options} {more}");
        all.push(Box::new(move || Problem { name: name.clone(), options: options.clone(), work: work() }));
    };
    for (method, text) in METHODS {
        for &n in sizes {
            add(
                format!("Poisson {n} x {n}, {method}"),
                text,
                Box::new(move || Work::plane(by_name("poisson_f", n, n))),
            );
        }
        add(format!("coast 1201 x 1001, {method}"), text, Box::new(|| Work::plane(variable_depth(1201))));
        if on_device {
            add(format!("river 2047, {method}"), text, Box::new(|| Work::plane(river(2047))));
        }
    }
    for system in hard_suite::systems(1, 512, 512) {
        let name = format!("hard suite, {}", system.name);
        add(name, "", Box::new(move || Work::plane((system.a.clone(), system.b.clone()))));
    }
    add(
        "two-phase P3, 128 x 128 x 128".to_owned(),
        "",
        Box::new(|| {
            let a = TwoPhase::new("P3", [128; 3], 1e-3);
            Work::System { b: a.rhs("csf"), a: Matrix::Box(a) }
        }),
    );
    let own = options.clone();
    add(
        "block smoother, 8 x 8 x 8".to_owned(),
        "",
        Box::new(move || {
            let (stencil, level, options) = (stencil("poisson7"), Level::golden(128, 4), own.clone());
            Work::Smoother(Box::new(Sweeps { stencil, block: [8; 3], options, level, calls: vec![3] }))
        }),
    );
    if !on_device {
        add(
            "sparse Poisson, 100 x 100 x 100".to_owned(),
            "",
            Box::new(|| {
                let system = sparse::system("poisson3d_100").expect("a name that exists");
                Work::System { a: Matrix::Rows(Rows::new(&system)), b: vec![1.0; system.n] }
            }),
        );
    }
    all
}

/// Waves on a winding river with a side arm, on cells of 4 m; 90 % of the nodes are land.
fn river(nx: usize) -> (Stencil, Vec<f64>) {
    const CELL: f64 = 4.0;
    let ny = variable_depth_rows(nx);
    let (length, width) = (nx as f64, ny as f64);
    let at = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        (0..nx * ny).map(|p| f((p % nx) as f64 / length, (p / nx) as f64 / width)).collect()
    };
    let bed = |away: f64, half: f64, deepest: f64| deepest * (1.0 - (away / half).powi(2));
    let depth = |x: f64, y: f64| {
        let middle = 0.5 + 0.28 * (9.0 * x).sin() + 0.05 * (31.0 * x).sin();
        let arm = 0.2 + 0.1 * (17.0 * x).sin();
        bed(y - middle, 0.035 + 0.01 * (23.0 * x).sin(), 12.0).max(bed(y - arm, 0.012, 4.0)).max(0.0)
    };
    let potential = |x: f64, y: f64| (0.25 * length * x).sin() + 0.5 * (0.4 * width * y + 0.1 * length * x).sin();
    waves(&at(&depth), &at(&potential), nx, ny, CELL, 2.5)
}

impl<'p> Place<'p> {
    fn of(a: &'p Matrix, b: &'p [f64], device: Option<&Device>) -> Result<Self> {
        let Some(device) = device else { return Ok(Self::Host { a, b, x: vec![0.0; b.len()] }) };
        let put = |values: &[f64]| {
            let mut array = device.zeros(values.len())?;
            array.set(values)?;
            Ok::<_, anyhow::Error>(array)
        };
        let arrays = a.arrays().into_iter().map(put).collect::<Result<_, _>>()?;
        Ok(Self::Device { a: arrays, b: put(b)?, x: device.zeros(b.len())? })
    }

    fn matrix(&mut self) -> Vec<*const f64> {
        match self {
            Self::Host { a, .. } => a.arrays().into_iter().map(<[f64]>::as_ptr).collect(),
            Self::Device { a, .. } => a.iter_mut().map(|array| array.pointer().cast_const()).collect(),
        }
    }

    fn b_and_x(&mut self) -> Result<(*const f64, *mut f64)> {
        match self {
            Self::Host { b, x, .. } => {
                x.fill(0.0);
                Ok((b.as_ptr(), x.as_mut_ptr()))
            }
            Self::Device { b, x, .. } => {
                x.clear()?;
                Ok((b.pointer().cast_const(), x.pointer()))
            }
        }
    }
}

fn checked(build: &Build, status: i32) -> Result<()> {
    if status < 0 { Err(anyhow!(build.last_error())) } else { Ok(()) }
}

/// Measures a system with a new handle each time, so that the noise includes the placement of its memory.
fn sample_system(build: &Build, options: &str, a: &Matrix, place: &mut Place) -> Result<Sample> {
    let (mut solver, status) = Solver::new(build, a, a.row());
    checked(build, status)?;
    checked(build, solver.options(options))?;
    let matrix = place.matrix();
    let factorization = mean(|| {
        let start = Instant::now();
        // SAFETY: `Place` holds arrays of the size of the matrix and thus of the solver.
        checked(build, unsafe { solver.factorize_at(&matrix) })?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    let solve = mean(|| {
        let (b, x) = place.b_and_x()?;
        let start = Instant::now();
        // SAFETY: as above.
        checked(build, unsafe { solver.solve_at(b, x) })?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    Ok([factorization, solve])
}

/// Times a block smoother, whose arrays are on the host.
fn sample_smoother(build: &Build, sweeps: &Sweeps, level: &mut Level) -> Result<Sample> {
    let (mut smoother, status) = sweeps.create(build);
    checked(build, status)?;
    let patches = mean(|| {
        let start = Instant::now();
        checked(build, smoother.set_patches(level))?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    let apply = mean(|| {
        let start = Instant::now();
        checked(build, smoother.apply(level, sweeps.calls[0]).0)?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    Ok([patches, apply])
}

/// Returns the mean seconds of a call, after one warm-up call.
fn mean(mut call: impl FnMut() -> Result<f64>) -> Result<f64> {
    call()?;
    let (mut calls, mut seconds) = (0, 0.0);
    while calls == 0 || seconds < SHORTEST {
        (calls, seconds) = (calls + 1, seconds + call()?);
    }
    Ok(seconds / f64::from(calls))
}

/// Measures in the order OLD NEW copy, copy NEW OLD, ..., so that drift affects all builds equally. The first round is
/// the warm-up.
fn measure(problem: &Problem, builds: [&Build; 3], device: Option<&Device>, pairs: u32) -> Result<[Row; 2]> {
    let Problem { name, options, work } = problem;
    let mut sample: Box<Sampler> = match work {
        Work::System { a, b } => {
            let mut place = Place::of(a, b, device)?;
            Box::new(move |build| sample_system(build, options, a, &mut place))
        }
        Work::Smoother(sweeps) => {
            let mut level = sweeps.level.clone();
            Box::new(move |build| sample_smoother(build, sweeps, &mut level))
        }
    };
    let mut rows = work.parts().map(|part| Row { name: format!("{name}: {part}"), seconds: [vec![], vec![], vec![]] });
    for round in 0..=pairs {
        let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        for k in order {
            let sample = sample(builds[k]).with_context(|| name.clone())?;
            if round > 0 {
                rows.iter_mut().zip(sample).for_each(|(row, seconds)| row.seconds[k].push(seconds));
            }
        }
    }
    Ok(rows)
}

impl Row {
    /// Returns the sum of all rows, pair by pair.
    fn sum(rows: &[Row]) -> Row {
        let pairs = rows.first().map_or(0, |row| row.seconds[0].len());
        let of = |k: usize| (0..pairs).map(|p| rows.iter().map(|row| row.seconds[k][p]).sum()).collect();
        Row { name: "sum of all rows".to_owned(), seconds: [of(0), of(1), of(2)] }
    }

    /// Formats the ratios of the pairs to OLD as "median (smallest .. largest)".
    fn ratio(&self, k: usize) -> String {
        let ratios = self.seconds[k].iter().zip(&self.seconds[0]).map(|(new, old)| new / old).collect();
        let ratios = Samples::new(ratios);
        format!("{:.3} ({:.3} .. {:.3})", ratios.median(), ratios.least(), ratios.most())
    }

    fn line(&self) -> String {
        let old = digits(1e3 * Samples::new(self.seconds[0].clone()).median());
        format!("{:44} {old:>10}  {:26} {}", self.name, self.ratio(1), self.ratio(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_pairs() {
        let row = |name: &str, seconds| Row { name: name.to_owned(), seconds };
        let rows = [
            row("a", [vec![1.0, 2.0, 4.0], vec![2.0, 2.0, 2.0], vec![1.0, 2.0, 4.0]]),
            row("b", [vec![1.0, 1.0, 1.0], vec![1.0, 1.0, 3.0], vec![1.0, 1.0, 1.0]]),
        ];
        assert_eq!(rows[0].ratio(1), "1.000 (0.500 .. 2.000)");
        assert_eq!(Row::sum(&rows).ratio(1), "1.000 (1.000 .. 1.500)");
        assert_eq!(Row::sum(&rows).ratio(2), "1.000 (1.000 .. 1.000)");
    }

    #[test]
    fn a_river_is_mostly_land() {
        let (a, b) = river(400);
        let water = (0..a.len()).filter(|&p| a.east[p] != 0.0 || a.north[p] != 0.0).count() as f64 / a.len() as f64;
        assert!((0.05..0.2).contains(&water), "{water}");
        assert!(b.iter().any(|&b| b != 0.0) && b.iter().all(|b| b.is_finite()));
    }
}
