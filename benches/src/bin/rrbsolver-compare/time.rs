//! Factorizations and solves of two builds in turns.

use crate::library::{Arrays, Build, Solver, arrays};
use crate::{Backend, TimeArgs};
use anyhow::{Context as _, Result, anyhow, bail};
use rrbsolver_benches::device::{Device, DeviceArray};
use rrbsolver_benches::timing::{Samples, digits};
use rrbsolver_problems::{Stencil, by_name, variable_depth, variable_depth_rows, waves};
use std::time::Instant;

/// A call that takes less is repeated until so many seconds have passed; its sample is the mean.
const SHORTEST: f64 = 0.1;
/// What is chosen, and the papers' method.
const METHODS: [(&str, &str); 2] = [("f64 v", "precision=f64 cycle=v"), ("default", "")];

/// A system and its options.
struct Problem {
    name: String,
    a: Stencil,
    b: Vec<f64>,
    options: String,
}

/// Where the arrays of a problem are.
enum Place {
    Host { x: Vec<f64> },
    Device { a: Vec<DeviceArray>, b: DeviceArray, x: DeviceArray },
}

/// Seconds of a factorization and of a solve.
type Sample = [f64; 2];

/// A line of the table: times of OLD, NEW, and the copy of OLD, pair by pair.
struct Row {
    name: String,
    seconds: [Vec<f64>; 3],
}

/// Prints the table.
pub fn run(args: &TimeArgs) -> Result<()> {
    if args.backend == Backend::Emulated {
        bail!("an emulated device has no times");
    }
    // What a host has set is for its own solves.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::remove_var("RRBSOLVER_OPTIONS") };
    let (old, new) = (Build::load(&args.old, "")?, Build::load(&args.new, "")?);
    let copy = std::env::temp_dir().join(format!("rrbsolver-compare-{}.so", std::process::id()));
    std::fs::copy(&args.old, &copy).with_context(|| format!("cannot copy {}", args.old))?;
    let control = Build::load(&copy.to_string_lossy(), "");
    // It stays in memory.
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

/// None on the processor, and where arrays cannot be put on the device.
fn device(backend: Backend) -> Option<Device> {
    if backend == Backend::Cpu {
        return None;
    }
    Device::new(0).inspect_err(|sentence| println!("{sentence}")).ok()
}

type Make = Box<dyn Fn() -> Problem>;

/// Made when their turn comes: they are large.
fn problems(args: &TimeArgs) -> Vec<Make> {
    let on_device = args.backend == Backend::Cuda;
    let sizes = match &args.sizes[..] {
        [] if on_device => &[316, 1023, 2047, 4095],
        [] => &[2047][..],
        sizes => sizes,
    };
    let mut all: Vec<Make> = Vec::new();
    for &n in sizes {
        for (method, text) in METHODS {
            let options = format!("backend={} threads={} {text}", args.backend.name(), args.threads);
            let poisson = options.clone();
            all.push(Box::new(move || {
                let (a, b) = by_name("poisson_f", n, n);
                Problem { name: format!("Poisson {n} x {n}, {method}"), a, b, options: poisson.clone() }
            }));
            // One size of rivers is enough.
            if on_device && n != *sizes.iter().filter(|&&n| n <= 2047).max().unwrap_or(&n) {
                continue;
            }
            all.push(Box::new(move || {
                let (water, (a, b)) = if on_device { ("river", river(n)) } else { ("coast", variable_depth(n)) };
                let name = format!("{water} {} x {}, {method}", a.nx, a.ny);
                Problem { name, a, b, options: options.clone() }
            }));
        }
    }
    all
}

/// Waves on a winding river with a side arm, on cells of 4 m; nine tenths are land.
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

impl Place {
    fn of(problem: &Problem, device: Option<&Device>) -> Result<Self> {
        let Some(device) = device else { return Ok(Self::Host { x: vec![0.0; problem.b.len()] }) };
        let put = |values: &[f64]| {
            let mut array = device.zeros(values.len())?;
            array.set(values)?;
            Ok::<_, anyhow::Error>(array)
        };
        let Stencil { center, east, north, corners, .. } = &problem.a;
        let corners = corners.iter().flat_map(|(ne, nw)| [ne, nw]);
        let a = [center, east, north].into_iter().chain(corners).map(|v| put(v)).collect::<Result<_, _>>()?;
        Ok(Self::Device { a, b: put(&problem.b)?, x: device.zeros(problem.b.len())? })
    }

    fn stencil(&mut self, problem: &Problem) -> Arrays {
        let mut pointers = arrays(&problem.a);
        if let Self::Device { a, .. } = self {
            pointers.iter_mut().zip(a).for_each(|(pointer, array)| *pointer = array.pointer().cast_const());
        }
        pointers
    }

    fn b_and_x(&mut self, problem: &Problem) -> Result<(*const f64, *mut f64)> {
        match self {
            Self::Host { x } => {
                x.fill(0.0);
                Ok((problem.b.as_ptr(), x.as_mut_ptr()))
            }
            Self::Device { b, x, .. } => {
                x.clear()?;
                Ok((b.pointer().cast_const(), x.pointer()))
            }
        }
    }
}

/// A new handle each time: where its memory happens to lie belongs to the noise.
fn sample(build: &Build, problem: &Problem, place: &mut Place) -> Result<Sample> {
    let checked = |status: i32| if status < 0 { Err(anyhow!(build.last_error())) } else { Ok(()) };
    let (mut solver, status) = Solver::new(build, problem.a.nx, problem.a.ny, problem.a.nx);
    checked(status)?;
    checked(solver.options(&problem.options))?;
    let a = place.stencil(problem);
    let factorization = mean(|| {
        let start = Instant::now();
        // SAFETY: `Place` has made arrays of the problem's size, which is the solver's.
        checked(unsafe { solver.factorize(a) })?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    let solve = mean(|| {
        let (b, x) = place.b_and_x(problem)?;
        let start = Instant::now();
        // SAFETY: as above.
        checked(unsafe { solver.solve_at(b, x) })?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    Ok([factorization, solve])
}

/// After one call to warm up.
fn mean(mut call: impl FnMut() -> Result<f64>) -> Result<f64> {
    call()?;
    let (mut calls, mut seconds) = (0, 0.0);
    while calls == 0 || seconds < SHORTEST {
        (calls, seconds) = (calls + 1, seconds + call()?);
    }
    Ok(seconds / f64::from(calls))
}

/// OLD NEW copy, copy NEW OLD, ...: what drifts falls on all alike. The first round is the warm-up.
fn measure(problem: &Problem, builds: [&Build; 3], device: Option<&Device>, pairs: u32) -> Result<[Row; 2]> {
    let mut place = Place::of(problem, device)?;
    let mut rows = ["factorize", "solve"]
        .map(|what| Row { name: format!("{}: {what}", problem.name), seconds: [vec![], vec![], vec![]] });
    for round in 0..=pairs {
        let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        for k in order {
            let sample = sample(builds[k], problem, &mut place).with_context(|| problem.name.clone())?;
            if round > 0 {
                rows.iter_mut().zip(sample).for_each(|(row, seconds)| row.seconds[k].push(seconds));
            }
        }
    }
    Ok(rows)
}

impl Row {
    /// Pair by pair.
    fn sum(rows: &[Row]) -> Row {
        let pairs = rows.first().map_or(0, |row| row.seconds[0].len());
        let of = |k: usize| (0..pairs).map(|p| rows.iter().map(|row| row.seconds[k][p]).sum()).collect();
        Row { name: "sum of all rows".to_owned(), seconds: [of(0), of(1), of(2)] }
    }

    /// "median (least .. most)" of the pairs' ratios to OLD.
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
