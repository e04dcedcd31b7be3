//! `rrbsolver doctor`: reports what the library finds on this machine.

use std::fs;

use anyhow::{Result, ensure};
use rrbsolver::options::Format;
use rrbsolver_benches::machine::Machine;
use rrbsolver_benches::stream;

use crate::args::Doctor;
use crate::library::{Matrix, Plane, Space, System, device_count, relative_residual, version};
use crate::raw::Stencil;
use crate::{End, spinner};

/// Total size of the arrays in MB: far beyond most caches, at a cost of at most seconds.
const MEGABYTES: f64 = 400.0;
/// Tolerance of the self-tests; the recomputed residual must be below it.
const TOLERANCE: f64 = 1e-8;
/// Factor by which the recomputed residual may exceed the tolerance, because sums in another order round differently.
const ROUNDING: f64 = 1.0 + 1e-6;

pub fn run(options: &Doctor) -> Result<End> {
    let machine = Machine::this();
    say!("library       rrbsolver {}", version());
    say!("processor     {}, {} cores for this process", machine.processor, machine.cores);
    say!("instructions  {}", instructions(&machine.vectors));
    for name in ["RRBSOLVER_OPTIONS", "RRBSOLVER_NUM_THREADS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"] {
        if let Some(value) = std::env::var_os(name) {
            say!("environment   {name}={}", value.display());
        }
    }
    let threads = threads()?;
    say!("threads       {threads} with threads=0");
    if threads < machine.cores as i64 {
        say!("              fewer than the cores, limited by the environment");
    }
    if !options.quick {
        bandwidth(threads);
    }
    let devices = device_count();
    describe_devices(devices);
    let mut failed = false;
    for backend in ["reference", "cpu", "cuda"] {
        if backend == "cuda" && devices == 0 {
            say!("self-test     cuda: skipped, no device");
            continue;
        }
        for (family, stencil) in [("rrb_", Stencil::poisson([65, 49, 1])), ("dpcg_", Stencil::poisson([17, 13, 11]))] {
            match self_test(backend, stencil) {
                Ok(residual) => say!("self-test     {backend}, {family}: passed, residual {residual:.1e}"),
                Err(message) => {
                    failed = true;
                    say!("self-test     {backend}, {family}: FAILED: {message:#}");
                }
            }
        }
    }
    match products().and_then(|()| solves()) {
        Ok(residual) => {
            say!("self-test     cpu, sparse_: passed, products in all formats are exact, residual {residual:.1e}");
        }
        Err(message) => {
            failed = true;
            say!("self-test     cpu, sparse_: FAILED: {message:#}");
        }
    }
    if failed {
        say!("A self-test failed: use a backend that passed, and report this output.");
    }
    Ok(if failed { End::Short } else { End::Well })
}

/// Describes the instruction sets that the library's loops use.
fn instructions(widest: &str) -> String {
    match std::env::var("RRBSOLVER_ISA") {
        Ok(named) => format!("{widest} is available; RRBSOLVER_ISA={named} limits the instructions"),
        Err(_) => match widest {
            "portable" => "portable: this machine has neither AVX2 nor AVX-512; solves are slower".into(),
            _ => widest.to_owned(),
        },
    }
}

/// Returns the number of threads of a handle with the default options.
fn threads() -> Result<i64> {
    let mut solver = Plane::new(Stencil::poisson([256, 256, 1]))?;
    solver.set_options("backend=cpu")?;
    solver.factorize()?;
    Ok(solver.int(rrbsolver::options::info::THREADS).unwrap_or(1))
}

fn bandwidth(threads: i64) {
    let progress = spinner("measuring the memory bandwidth".to_owned());
    let measured = stream::measure(threads.max(1) as usize, &[MEGABYTES]);
    progress.finish_and_clear();
    for one in measured.iter().filter(|one| one.kernel == "triad") {
        let plural = if one.threads == 1 { "" } else { "s" };
        say!("bandwidth     {:.1} GB/s with {} thread{plural} (triad)", one.median, one.threads);
    }
}

/// Prints the devices and the driver, or advice if there are none.
fn describe_devices(devices: i32) {
    let driver = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let first = driver.as_deref().and_then(|text| text.lines().next());
    match first {
        Some(line) => say!("driver        {}", line.trim_start_matches("NVRM version:").trim()),
        None => say!("driver        no NVIDIA kernel driver is loaded"),
    }
    say!("devices       {devices}");
    for name in device_names() {
        say!("              {name}");
    }
    if devices == 0 {
        say!(
            "              {}",
            match first {
                None => "solves run on the CPU; a GPU needs NVIDIA driver 580 or newer (docs/guides/devices.md)",
                Some(_) =>
                    "a driver is loaded, but the library finds no device: it was built with RRBSOLVER_CUDA=off, \
                     CUDA_VISIBLE_DEVICES hides the devices, or the driver is older than 580 (docs/guides/devices.md)",
            }
        );
    }
}

/// Returns the names of the devices in the driver's files.
fn device_names() -> Vec<String> {
    let Ok(folders) = fs::read_dir("/proc/driver/nvidia/gpus") else { return Vec::new() };
    let name =
        |text: String| text.lines().find_map(|line| line.strip_prefix("Model:")).map(|model| model.trim().to_owned());
    let read = |folder: fs::DirEntry| fs::read_to_string(folder.path().join("information")).ok().and_then(name);
    let mut names: Vec<String> = folders.flatten().filter_map(read).collect();
    names.sort();
    names
}

/// Checks the row sums of a small Poisson matrix by products with ones: small integers, exact in any order of
/// summation.
fn products() -> Result<()> {
    let stencil = Stencil::poisson([9, 7, 5]);
    let rows = stencil.rows();
    let sum = |bounds: &[i64]| rows.values[bounds[0] as usize..bounds[1] as usize].iter().sum();
    let expected: Vec<f64> = rows.ptr.windows(2).map(sum).collect();
    let mut matrix = Matrix::from_rows(&rows)?;
    let (ones, mut y) = (vec![1.0; expected.len()], vec![0.0; expected.len()]);
    // The matrix has off-diagonal entries.
    for (format, _) in Format::NAMES.iter().filter(|(name, _)| *name != "diagonal") {
        matrix.set_options(&format!("format={format}"))?;
        matrix.multiply(&ones, &mut y)?;
        ensure!(y == expected, "a product by {format} is wrong");
    }
    Ok(())
}

/// Solves with a small Poisson matrix by sparse_. Returns the residual.
fn solves() -> Result<f64> {
    let mut stencil = Stencil::poisson([17, 13, 11]);
    let b = std::mem::take(&mut stencil.rhs);
    solved(&mut Matrix::from_rows(&stencil.rows())?, "", &b)
}

/// Solves a small Poisson problem. Returns the residual.
fn self_test(backend: &str, mut stencil: Stencil) -> Result<f64> {
    let b = std::mem::take(&mut stencil.rhs);
    let mut system: Box<dyn System> =
        if stencil.in_space() { Box::new(Space::new(stencil)?) } else { Box::new(Plane::new(stencil)?) };
    solved(&mut *system, &format!("backend={backend}"), &b)
}

/// Solves with these options. Returns the recomputed residual.
fn solved(system: &mut dyn System, options: &str, b: &[f64]) -> Result<f64> {
    system.set_options(&format!("{options} rel_tol={TOLERANCE:e}"))?;
    system.factorize()?;
    let mut x = vec![0.0; b.len()];
    let converged = system.solve(b, &mut x, &mut |_, _| {})?;
    let residual = relative_residual(system, b, &x)?;
    ensure!(converged, "not converged, residual {residual:.1e}");
    // A NaN also fails this check.
    ensure!(residual <= TOLERANCE * ROUNDING, "the residual is {residual:.1e}, not below {TOLERANCE:.0e}");
    Ok(residual)
}
