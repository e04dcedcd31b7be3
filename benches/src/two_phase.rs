//! Pressure systems of two-phase flow (tests/problems/src/two_phase.rs): `dpcg_` with several sets of options, on CPU
//! and device, and the in-house ICCG, in turn.

use crate::device::{Device, DeviceArray};
use crate::iccg_3d::Iccg;
use crate::solver::checked;
use crate::timing::Samples;
use anyhow::{Context as _, Result, anyhow, bail};
use rrbsolver::abi::{
    dpcg_create, dpcg_destroy, dpcg_factorize, dpcg_get_int, dpcg_handle, dpcg_set_options, dpcg_solve,
};
use rrbsolver::options::info;
use rrbsolver_problems::two_phase::{PARTS, SETS, TwoPhase};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::ptr::null_mut;
use std::time::Instant;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Geometry, as in the column `set` of tests/golden/gmg.csv.
    pub set: String,
    /// Number of cells in x, y and z.
    pub size: [usize; 3],
    /// Ratio of the density of the light phase to that of the heavy phase.
    pub contrast: f64,
    /// Name of the right-hand side.
    pub rhs: String,
    /// Sets of options, as text.
    pub options: Vec<String>,
    /// Whether the in-house ICCG is also measured.
    pub baseline: bool,
    /// Tolerance: 2-norm of b - A x relative to b.
    pub rel_tol: f64,
    /// Number of measured rounds.
    pub repeats: usize,
    /// A solver that has used this many seconds is measured at most once.
    pub seconds: f64,
}

/// Results of one solver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Options, or name of the solver.
    pub solver: String,
    /// Number of threads.
    pub threads: usize,
    /// CUDA ordinal; the arrays are then on the device.
    pub device: Option<usize>,
    /// Number of deflation vectors.
    pub vectors: usize,
    /// Number of iterations of a solve.
    pub iterations: usize,
    /// Whether the solver reports convergence.
    pub converged: bool,
    /// |b - A x| / |b|, recomputed.
    pub residual: f64,
    /// Seconds from the matrix to a ready solver, with memory already allocated.
    pub factorize: Samples,
    /// Seconds from b and x = 0 to x.
    pub solve: Samples,
}

/// Results of all solvers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pressure {
    /// Name of the geometry.
    pub set: String,
    /// Number of cells in x, y and z.
    pub size: [usize; 3],
    /// Ratio of the density of the light phase to that of the heavy phase.
    pub contrast: f64,
    /// Name of the right-hand side.
    pub rhs: String,
    /// Results in the order of the options, followed by the in-house solver.
    pub rows: Vec<Row>,
}

/// A handle, and the arrays of the system on a device.
struct Library<'a> {
    handle: *mut dpcg_handle,
    a: &'a TwoPhase,
    /// Arrays center, east, north, top, b and x on the device.
    resident: Option<[DeviceArray; 6]>,
}

impl Drop for Library<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from dpcg_create and is destroyed once.
        unsafe { dpcg_destroy(&mut self.handle) };
    }
}

impl<'a> Library<'a> {
    /// Creates a handle and factorizes once.
    fn new(a: &'a TwoPhase, b: &[f64], options: &str) -> Result<Self> {
        let text = CString::new(options).map_err(|_| anyhow!("options have no NUL"))?;
        let mut solver = Self { handle: null_mut(), a, resident: None };
        let [nx, ny, nz] = a.size.map(|n| n as i64);
        // SAFETY: `handle` is a valid pointer; the text is NUL-terminated.
        unsafe {
            checked(dpcg_create(nx, ny, nz, &mut solver.handle))?;
            checked(dpcg_set_options(solver.handle, text.as_ptr()))?;
        }
        solver.factorize()?;
        if let Ok(ordinal) = usize::try_from(solver.int(info::DEVICE)) {
            let device = Device::new(ordinal)?;
            let sent = |values: &[f64]| -> Result<DeviceArray> {
                let mut array = device.zeros(values.len())?;
                array.set(values)?;
                Ok(array)
            };
            let [east, north, top] = a.forward.each_ref().map(|f| sent(f));
            solver.resident = Some([sent(&a.center)?, east?, north?, top?, sent(b)?, device.zeros(b.len())?]);
        }
        Ok(solver)
    }

    fn factorize(&mut self) -> Result<()> {
        let [east, north, top] = self.a.forward.each_ref().map(Vec::as_ptr);
        let [center, east, north, top] = match &mut self.resident {
            Some([center, east, north, top, ..]) => [center, east, north, top].map(|a| a.pointer().cast_const()),
            None => [self.a.center.as_ptr(), east, north, top],
        };
        // SAFETY: a live handle, and arrays of its size, on the host or on its device.
        checked(unsafe { dpcg_factorize(self.handle, center, east, north, top) })?;
        Ok(())
    }

    /// Solves from x = 0. Returns whether the solve converged, and the seconds of the solve alone.
    fn solve(&mut self, b: &[f64], x: &mut [f64]) -> Result<(bool, f64)> {
        x.fill(0.0);
        let pointers = match &mut self.resident {
            Some([.., device_b, device_x]) => {
                device_x.clear()?;
                (device_b.pointer().cast_const(), device_x.pointer())
            }
            None => (b.as_ptr(), x.as_mut_ptr()),
        };
        let start = Instant::now();
        // SAFETY: a live handle, and arrays of its size, on the host or on its device.
        let status = checked(unsafe { dpcg_solve(self.handle, pointers.0, pointers.1) })?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some([.., device_x]) = &mut self.resident {
            device_x.get(x)?;
        }
        Ok((status == 0, seconds))
    }

    fn int(&self, key: i32) -> i64 {
        let mut value = 0;
        // SAFETY: a live handle and a valid int64_t.
        unsafe { dpcg_get_int(self.handle, key, &mut value) };
        value
    }
}

/// Runs one round of a contender; its times are added to the row if it is measured.
fn round(plan: &Plan, a: &TwoPhase, b: &[f64], row: &mut Row, options: Option<&String>, measured: bool) -> Result<()> {
    let mut x = vec![0.0; b.len()];
    let (factorize, solve);
    if let Some(options) = options {
        let text = format!("rel_tol={:e} max_iter=10000 {options}", plan.rel_tol);
        let mut library = Library::new(a, b, &text).with_context(|| options.to_owned())?;
        let start = Instant::now();
        library.factorize()?;
        factorize = start.elapsed().as_secs_f64();
        (row.converged, solve) = library.solve(b, &mut x)?;
        row.iterations = library.int(info::ITERATIONS) as usize;
        row.vectors = library.int(info::DEFLATION_VECTORS) as usize;
        row.threads = library.int(info::THREADS) as usize;
        row.device = usize::try_from(library.int(info::DEVICE)).ok();
    } else {
        let start = Instant::now();
        let mut iccg = Iccg::factorize(a);
        factorize = start.elapsed().as_secs_f64();
        let end = iccg.solve(b, &mut x, plan.rel_tol, 10_000);
        solve = start.elapsed().as_secs_f64() - factorize;
        (row.iterations, row.converged, row.threads) = (end.iterations, end.converged, 1);
    }
    row.residual = a.relative_residual(b, &x);
    if measured {
        row.factorize.push(factorize);
        row.solve.push(solve);
    }
    Ok(())
}

/// Measures in rounds in which all contenders run in turn; the first round is the warm-up.
pub fn measure(plan: &Plan) -> Result<Pressure> {
    if plan.size.contains(&0) {
        bail!("no such problem has {:?} cells", plan.size);
    }
    let mut parts = plan.set.split(';');
    if !SETS.contains(&parts.next().unwrap_or_default()) || parts.any(|part| !PARTS.contains(&part)) {
        bail!("unknown geometry {}; available: {}, with {}", plan.set, SETS.join(", "), PARTS.join(", "));
    }
    let a = TwoPhase::new(&plan.set, plan.size, plan.contrast);
    let b = a.rhs(&plan.rhs);
    let contenders: Vec<Option<&String>> = plan.options.iter().map(Some).chain(plan.baseline.then_some(None)).collect();
    let name = |options: &Option<&String>| match options {
        Some(text) if text.is_empty() => "defaults".to_owned(),
        Some(text) => (*text).clone(),
        None => "in-house ICCG(0)".to_owned(),
    };
    let mut rows: Vec<Row> = contenders.iter().map(|c| Row { solver: name(c), ..Row::default() }).collect();
    let mut used = vec![0.0; rows.len()];
    for repeat in 0..=plan.repeats {
        for ((row, contender), used) in rows.iter_mut().zip(&contenders).zip(&mut used) {
            let measured = repeat > 0 || plan.repeats == 0;
            if *used > plan.seconds && measured && !row.solve.all().is_empty() {
                continue;
            }
            let start = Instant::now();
            round(plan, &a, &b, row, *contender, measured)?;
            *used += start.elapsed().as_secs_f64();
        }
    }
    let Plan { set, size, contrast, rhs, .. } = plan.clone();
    Ok(Pressure { set, size, contrast, rhs, rows })
}
