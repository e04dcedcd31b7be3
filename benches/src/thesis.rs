//! The evaluation of the thesis of 2008 (chapter 8): systems from 138 to 1e7 entries by every method of `sparse_`, and
//! products in every format, on one thread, on all cores, and on a device if there is one.
//!
//! The figures are those of the thesis, with the following differences. A Stokes cavity of the same size replaces
//! e40r0000. The thesis measures Gauss-Seidel on e40r0000, which has zeros on its diagonal; the largest circuit
//! replaces it. The figures show the time of a solve in double precision without the setup. The tables also contain the
//! time of the setup.

mod sizes;
mod text;

use crate::device;
use crate::machine::cores;
use crate::smoother::{Chart, Curve};
use crate::sparse::{Arrays, Library, Limit, Rows, named};
use crate::timing::Samples;
use anyhow::Result;
use rrbsolver::options::{Format, StopReason, info};
use serde::{Deserialize, Serialize};
use sizes::SizeRow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Folder with the matrices of the thesis.
    pub data: Option<PathBuf>,
    /// Elements per side of the cavity.
    pub elements: usize,
    /// Numbers of entries of the circuits.
    pub entries: Vec<usize>,
    /// Limit of a solve, in seconds.
    pub seconds: f64,
    /// Number of measured solves.
    pub repeats: usize,
}

/// Size of a system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemRow {
    /// Name of the system.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of entries in the pattern.
    pub entries: usize,
    /// Number of entries with the value 0.
    pub zeros: usize,
    /// Number of entries of the longest row.
    pub longest: usize,
}

impl SystemRow {
    /// Returns the number of values that the thesis stores and counts: rows of equal length.
    pub fn padded(&self) -> usize {
        self.rows * self.longest
    }
}

/// Products in a format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProductRow {
    /// Name of the system.
    pub system: String,
    /// Name of the place.
    pub place: String,
    /// Name of the format.
    pub format: String,
    /// Reason why there is no product.
    pub refused: Option<String>,
    /// Number of stored values, with padding.
    pub stored: usize,
    /// Seconds of a product with arrays on the host; on a device with transfers.
    pub product: Samples,
    /// Seconds of a product with arrays on the device.
    pub resident: Option<Samples>,
}

/// Solves by a method.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SolveRow {
    /// Name of the system.
    pub system: String,
    /// Name of the place.
    pub place: String,
    /// Name of the method.
    pub method: String,
    /// Reason why there is no solve.
    pub refused: Option<String>,
    /// Reason why the solve ended.
    pub end: String,
    /// Number of iterations.
    pub iterations: usize,
    /// Reported |b - A x| / |b|.
    pub residual: f64,
    /// Seconds of the setup of a new handle, including the conversion to the storage format.
    pub factorize: f64,
    /// Seconds of a solve with arrays on the host; on a device with transfers.
    pub solve: Samples,
    /// Seconds of a solve with arrays on the device.
    pub resident: Option<Samples>,
    /// Seconds of the transfers of a solve.
    pub transfer: f64,
}

impl SolveRow {
    /// Returns whether the solve converged.
    pub fn converged(&self) -> bool {
        self.end == "converged"
    }
}

/// Results of the evaluation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thesis {
    /// Names of the places: one thread, all cores, the device.
    pub places: Vec<String>,
    /// The systems, by number of entries.
    pub systems: Vec<SystemRow>,
    /// Systems that were not found, and what to pass.
    pub missing: Vec<String>,
    /// Products.
    pub products: Vec<ProductRow>,
    /// Solves of A x = A (1, 1, ..) from x = 0 to 1e-6.
    pub solves: Vec<SolveRow>,
    /// Circuits of several sizes, ascending.
    pub sizes: Vec<SizeRow>,
    /// The figures.
    pub charts: Vec<Chart>,
}

/// Where a system is solved.
struct Place {
    name: String,
    options: String,
    on_device: bool,
}

/// Place of a product or solve on a device.
const DEVICE: &str = "device";

/// Methods: their names in the tables, and their options. All are without preconditioner except the last.
const METHODS: [(&str, &str); 15] = [
    ("jacobi", "solver=jacobi"),
    ("gauss_seidel", "solver=gauss_seidel"),
    ("gauss_seidel, multicolour", "solver=gauss_seidel ordering=multicolour"),
    ("gauss_seidel, blocks", "solver=gauss_seidel ordering=blocks"),
    ("gauss_seidel, symmetric", "solver=gauss_seidel ordering=symmetric"),
    ("sor", "solver=sor"),
    ("sor, multicolour", "solver=sor ordering=multicolour"),
    ("steepest_descent", "solver=steepest_descent"),
    ("cg", "solver=cg"),
    ("minres", "solver=minres"),
    ("bicg", "solver=bicg"),
    ("bicgstab", "solver=bicgstab"),
    ("gmres", "solver=gmres"),
    ("idr", "solver=idr"),
    (DEFAULTS, "preconditioner=auto"),
];
const DEFAULTS: &str = "defaults";

/// The method of figure 8.7. It has four times the limit of the others, so that the largest circuit is in the figure.
const SPEED_UP: &str = "bicg";

/// Options before those of a method and of a place. Formats that need more than 4 GB are refused.
const COMMON: &str = "solver=auto preconditioner=none ordering=natural format=auto rel_tol=1e-6 max_iter=100000 \
                      format_memory=4000000000";

/// Files of the thesis, and whether stored zeros are dropped, as the thesis' size of memplus requires.
const FILES: [(&str, bool); 5] =
    [("bcsstm22", false), ("e05r0000", false), ("add32", false), ("memplus", true), ("memplus", false)];

/// Endings of matrix files.
const ENDINGS: [&str; 8] = ["mtx", "mtx.gz", "rsa", "rsa.gz", "rua", "rua.gz", "rb", "rb.gz"];

/// Measures all systems.
pub fn measure(plan: &Plan) -> Result<Thesis> {
    let places = places();
    let mut run = Thesis {
        places: places.iter().map(|place| place.name.clone()).collect(),
        systems: Vec::new(),
        missing: Vec::new(),
        products: Vec::new(),
        solves: Vec::new(),
        sizes: Vec::new(),
        charts: Vec::new(),
    };
    for (name, drops) in FILES {
        match find(plan, name) {
            Some(path) => {
                let rows = Library::read(&path)?.rows()?;
                let without = if drops { ", stored zeros dropped" } else { "" };
                run.add(&format!("{name}{without}"), &if drops { without_zeros(&rows) } else { rows }, plan, &places)?;
            }
            None if drops => {}
            None => run.missing.push(format!("{name}: pass a folder with {name}.mtx (make paper DATA=folder)")),
        }
    }
    let generated = plan.entries.iter().map(|entries| format!("circuit_{entries}"));
    for name in [cavity(plan)].into_iter().chain(generated) {
        let rows = Rows::generate(&name)?;
        run.add(&name, &rows, plan, &places)?;
    }
    run.systems.sort_by_key(|system| system.entries);
    run.sizes = sizes::measure(plan, &places)?;
    run.charts = run.figures(plan);
    Ok(run)
}

/// Returns the name of the system that replaces e40r0000.
fn cavity(plan: &Plan) -> String {
    format!("cavity_{}", plan.elements)
}

/// The thesis' sequential program, all cores, and a device if the library finds one.
fn places() -> Vec<Place> {
    let host = |threads: usize| Place {
        name: format!("{threads} {}", if threads == 1 { "thread" } else { "threads" }),
        options: format!("backend=cpu threads={threads}"),
        on_device: false,
    };
    let mut places = vec![host(1)];
    if cores() > 1 {
        places.push(host(cores()));
    }
    if device::count() > 0 {
        places.push(Place { name: DEVICE.to_owned(), options: "backend=cuda device=0".to_owned(), on_device: true });
    }
    places
}

fn find(plan: &Plan, name: &str) -> Option<PathBuf> {
    let folder = plan.data.as_ref()?;
    ENDINGS.iter().map(|ending| folder.join(format!("{name}.{ending}"))).find(|path| path.exists())
}

fn without_zeros(a: &Rows) -> Rows {
    let mut kept = Rows { ptr: vec![0], col: Vec::new(), val: Vec::new() };
    for range in a.ptr.windows(2) {
        for k in (range[0] as usize..range[1] as usize).filter(|&k| a.val[k] != 0.0) {
            kept.col.push(a.col[k]);
            kept.val.push(a.val[k]);
        }
        kept.ptr.push(kept.val.len() as i32);
    }
    kept
}

impl Thesis {
    /// Measures products and solves of a system at all places.
    fn add(&mut self, name: &str, a: &Rows, plan: &Plan, places: &[Place]) -> Result<()> {
        self.systems.push(SystemRow {
            name: name.to_owned(),
            rows: a.ptr.len() - 1,
            entries: a.val.len(),
            zeros: a.val.iter().filter(|value| **value == 0.0).count(),
            longest: a.longest(),
        });
        let (library, b) = (Library::new(a)?, a.row_sums());
        for place in places {
            for &(format, _) in Format::NAMES {
                self.products.push(product(&library, name, place, format, plan));
            }
            for (method, options) in METHODS {
                self.solves.push(solves(a, name, place, (method, options), &b, plan));
            }
        }
        Ok(())
    }

    fn solve(&self, system: &str, place: &str, method: &str) -> Option<&SolveRow> {
        let is = |row: &&SolveRow| row.system == system && row.place == place && row.method == method;
        self.solves.iter().find(is).filter(|row| row.converged())
    }

    /// Milliseconds of a converged solve, over methods: one curve per place and system.
    fn over_methods(&self, figure: &str, title: &str, systems: &[&str], methods: &[&str]) -> Chart {
        let mut curves = Vec::new();
        for &system in systems {
            for place in &self.places {
                let prefix = if systems.len() > 1 { format!("{system}, ") } else { String::new() };
                let points = |of: &dyn Fn(&SolveRow) -> Option<f64>| -> Vec<(f64, f64)> {
                    let at =
                        |(k, method): (usize, &&str)| Some((k as f64, 1e3 * of(self.solve(system, place, method)?)?));
                    methods.iter().enumerate().filter_map(at).collect()
                };
                let with = if place == DEVICE { ", with transfers" } else { "" };
                let solve = points(&|row| Some(row.solve.median()));
                curves.push(Curve { name: format!("{prefix}{place}{with}"), points: solve });
                let resident = points(&|row| row.resident.as_ref().map(Samples::median));
                if !resident.is_empty() {
                    curves.push(Curve { name: format!("{prefix}{place}"), points: resident });
                }
            }
        }
        Chart {
            name: format!("thesis_figure_{figure}"),
            title: title.to_owned(),
            x: "method".to_owned(),
            y: "ms".to_owned(),
            logarithmic: true,
            places: methods.iter().map(|method| (*method).to_owned()).collect(),
            curves,
        }
    }

    /// The thesis' figures 8.1 to 8.7, and the break-even size.
    fn figures(&self, plan: &Plan) -> Vec<Chart> {
        let all: Vec<&str> = METHODS.iter().map(|method| method.0).filter(|name| !is_sweep_in_order(name)).collect();
        let sweeps: Vec<&str> = METHODS.iter().map(|method| method.0).filter(|name| is_sweep_in_order(name)).collect();
        let cavity = cavity(plan);
        let circuit = plan.entries.iter().max().map_or(String::new(), |entries| format!("circuit_{entries}"));
        let titled = |figure: &str, title: &str, systems: &[&str], methods: &[&str]| {
            let sizes: Vec<String> = systems.iter().filter_map(|name| self.size(name)).collect();
            self.over_methods(figure, &format!("{title}: {} nonzeros (padded)", sizes.join("; ")), systems, methods)
        };
        vec![
            titled("8_1", "BCSSTM22", &["bcsstm22"], &all),
            titled("8_2", "E05R0000", &["e05r0000"], &all),
            titled("8_3", "ADD32", &["add32"], &all),
            titled("8_4", &format!("{cavity} in place of E40R0000"), &[&cavity], &all),
            titled("8_5", "MEMPLUS", &["memplus, stored zeros dropped", "memplus"], &all),
            titled("8_6a", "Gauss-Seidel and SOR, ADD32", &["add32"], &sweeps),
            titled("8_6b", &format!("Gauss-Seidel and SOR, {circuit}"), &[&circuit], &sweeps),
            self.speed_up(),
            self.over_sizes(),
        ]
    }

    /// Returns the number of entries of a system, and the padded number in parentheses.
    fn size(&self, name: &str) -> Option<String> {
        let system = self.systems.iter().find(|system| system.name == name)?;
        Some(format!("{} ({})", text::short(system.entries), text::short(system.padded())))
    }

    /// Speed-up of BiCG relative to one thread, over the systems.
    fn speed_up(&self) -> Chart {
        let mut curves = Vec::new();
        for place in &self.places[1..] {
            let points = |of: &dyn Fn(&SolveRow) -> Option<f64>| -> Vec<(f64, f64)> {
                let at = |(k, system): (usize, &SystemRow)| {
                    let one = self.solve(&system.name, &self.places[0], SPEED_UP)?.solve.median();
                    Some((k as f64, one / of(self.solve(&system.name, place, SPEED_UP)?)?))
                };
                self.systems.iter().enumerate().filter_map(at).collect()
            };
            let with = if place == DEVICE { ", with transfers" } else { "" };
            curves.push(Curve { name: format!("{place}{with}"), points: points(&|row| Some(row.solve.median())) });
            let resident = points(&|row| row.resident.as_ref().map(Samples::median));
            if !resident.is_empty() {
                curves.push(Curve { name: place.clone(), points: resident });
            }
        }
        Chart {
            name: "thesis_figure_8_7".to_owned(),
            title: "Speed-up of BiCG relative to one thread".to_owned(),
            x: "nonzeros (padded)".to_owned(),
            y: "times".to_owned(),
            logarithmic: false,
            places: self.systems.iter().filter_map(|system| self.size(&system.name)).collect(),
            curves,
        }
    }
}

/// Returns whether the method is one of figure 8.6.
fn is_sweep_in_order(method: &str) -> bool {
    method.starts_with("gauss_seidel") || method.starts_with("sor")
}

/// Measures products for a twentieth of the limit, at least three.
fn product(library: &Library, system: &str, place: &Place, format: &str, plan: &Plan) -> ProductRow {
    let n = library.int(info::ROWS) as usize;
    let (mut product, mut resident) = (Samples::default(), None);
    let several = |device: Option<usize>| -> Result<Samples> {
        let (mut arrays, mut samples) = (Arrays::new(device, &vec![1.0; n])?, Samples::default());
        let (x, y) = arrays.cleared()?;
        // The first product converts the matrix.
        library.multiply_at(x, y)?;
        let start = Instant::now();
        while samples.all().len() < 3 || start.elapsed().as_secs_f64() < plan.seconds / 20.0 {
            samples.push(library.multiply_at(x, y)?);
        }
        Ok(samples)
    };
    let mut work = || -> Result<(String, usize)> {
        library.set(&format!("{COMMON} {} format={format}", place.options))?;
        product = several(None)?;
        resident = if place.on_device { Some(several(Some(0))?) } else { None };
        Ok((named(Format::NAMES, library.int(info::FORMAT)), library.int(info::STORED) as usize))
    };
    let done = work();
    let in_use = done.as_ref().ok().filter(|_| format == "auto").map(|(name, _)| format!("auto: {name}"));
    ProductRow {
        system: system.to_owned(),
        place: place.name.clone(),
        format: in_use.unwrap_or_else(|| format.to_owned()),
        stored: done.as_ref().map_or(0, |done| done.1),
        refused: done.err().map(|error| format!("{error:#}")),
        product,
        resident,
    }
}

/// Measures the setup of a new handle, and solves by a method until the repeats or the limit are reached. The handle is
/// new because a second setup of a handle reuses the storage format and the properties of the matrix. The time of the
/// first solve counts only if the solve takes more than a quarter of the limit or does not converge.
fn solves(a: &Rows, system: &str, place: &Place, (method, options): (&str, &str), b: &[f64], plan: &Plan) -> SolveRow {
    let mut row = SolveRow {
        system: system.to_owned(),
        place: place.name.clone(),
        method: method.to_owned(),
        refused: None,
        end: String::new(),
        iterations: 0,
        residual: f64::NAN,
        factorize: 0.0,
        solve: Samples::default(),
        resident: None,
        transfer: 0.0,
    };
    let work = |row: &mut SolveRow| -> Result<()> {
        let library = Library::new(a)?;
        library.set(&format!("{COMMON} {} {options}", place.options))?;
        row.factorize = library.factorize()?;
        let mut x = vec![0.0; b.len()];
        let most = if method == SPEED_UP { 4.0 * plan.seconds } else { plan.seconds };
        let limit = Limit(Instant::now() + Duration::from_secs_f64(most));
        library.limit(Some(&limit))?;
        let first = library.solve(b.as_ptr(), x.as_mut_ptr());
        library.limit(None)?;
        let (status, seconds) = first?;
        row.end = match (status, library.int(info::STOP_REASON)) {
            (0, _) => "converged".to_owned(),
            (_, reason) if reason == StopReason::Monitor as i64 => format!("stopped after {most} s"),
            (_, reason) => named(StopReason::NAMES, reason),
        };
        row.iterations = library.int(info::ITERATIONS) as usize;
        row.residual = library.real(info::FINAL_RESIDUAL);
        if status != 0 || seconds > 0.25 * plan.seconds {
            row.solve.push(seconds);
        }
        if status != 0 {
            return Ok(());
        }
        while row.solve.all().len() < plan.repeats.max(1) && row.solve.all().iter().sum::<f64>() < plan.seconds {
            x.fill(0.0);
            row.solve.push(library.solve(b.as_ptr(), x.as_mut_ptr())?.1);
        }
        row.transfer = library.real(info::SECONDS_TRANSFER);
        if place.on_device {
            let (mut arrays, mut samples) = (Arrays::new(Some(0), b)?, Samples::default());
            for _ in 0..plan.repeats.max(1) {
                let (b, x) = arrays.cleared()?;
                samples.push(library.solve(b, x)?.1);
            }
            row.resident = Some(samples);
        }
        Ok(())
    };
    row.refused = work(&mut row).err().map(|error| format!("{error:#}"));
    row
}
