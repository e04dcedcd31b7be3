//! Block smoothers on a CUDA device: resident patches, block sizes, mixed sets, patches on the host (figure 6 of the
//! paper), and the kernel of the paper's appendix.

use crate::machine::cores;
use crate::smoother::{BLOCKS, Chart, Curve, Effort, Level, METHODS, Smoother, names};
use crate::solver::checked;
use crate::timing::Samples;
use anyhow::{Result, anyhow};
use cudarc::driver::sys;
use rrbsolver::abi::{smoother_apply, smoother_device_pointers, smoother_exchange, smoother_upload};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::Instant;

static APPENDIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/appendix.fatbin"));

/// Sweeps per measured call of resident patches, because the call itself costs about 10 us.
const SWEEPS: i32 = 30;

/// Sweeps per call of the patch form, which is slow.
const FEW: i32 = 3;

impl Smoother {
    /// Copies the patches of a level to the device. Returns their device addresses.
    fn upload(&self, level: &mut Level) -> Result<(Vec<*mut f64>, Vec<*mut f64>)> {
        let u: Vec<*mut f64> = level.u.iter_mut().map(|u| u.as_mut_ptr()).collect();
        let f: Vec<*const f64> = level.f.iter().map(|f| f.as_ptr()).collect();
        let mut on_device = (vec![null_mut(); u.len()], vec![null_mut(); u.len()]);
        // SAFETY: a live handle, arrays of its patches' sizes, and tables with one entry per patch.
        unsafe {
            checked(smoother_upload(self.0, u.as_ptr().cast(), f.as_ptr()))?;
            let tables = (on_device.0.as_mut_ptr(), on_device.1.as_mut_ptr());
            checked(smoother_device_pointers(self.0, tables.0, tables.1))?;
        }
        Ok(on_device)
    }

    /// Sweeps the resident patches.
    fn sweep(&self, sweeps: i32) -> Result<()> {
        // SAFETY: a live handle with resident patches.
        checked(unsafe { smoother_apply(self.0, null(), null(), sweeps) }).map(drop)
    }

    fn exchange_there(&self) -> Result<()> {
        // SAFETY: as above.
        checked(unsafe { smoother_exchange(self.0, null()) }).map(drop)
    }
}

/// Returns the median seconds of `work`, after one warm-up.
fn median(repeats: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let mut samples = Samples::default();
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        work()?;
        samples.push(start.elapsed().as_secs_f64());
    }
    Ok(samples.median())
}

/// Returns the rate of resident patches in 10^9 cell sweeps per second.
fn rate(level: &mut Level, block: [i64; 3], options: &str, repeats: usize) -> Result<f64> {
    let smoother = Smoother::new(block, &format!("backend=cuda {options}"), level)?;
    smoother.upload(level)?;
    let seconds = median(repeats, || smoother.sweep(SWEEPS))?;
    Ok(1e-9 * level.cells() * f64::from(SWEEPS) / seconds)
}

fn chart(name: &str, title: String, x: &str, y: &str, places: Vec<String>, curves: Vec<Curve>) -> Chart {
    let (name, x, y) = (name.to_owned(), x.to_owned(), y.to_owned());
    Chart { name, title, x, y, logarithmic: false, places, curves }
}

fn bars(values: &[f64]) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(place, v)| (place as f64, *v)).collect()
}

const RATE: &str = "G cell-sweeps a second";

/// Returns all figures of the device.
pub fn measure(effort: Effort) -> Result<Vec<Chart>> {
    let mut charts = forms(effort)?;
    charts.extend([sizes(effort)?, mixed(effort)?, transfers(effort)?]);
    charts.extend(orders(effort)?);
    Ok(charts)
}

/// Methods, the dense inverse, and the paper's form, for the same patches in one run.
fn forms(effort: Effort) -> Result<Vec<Chart>> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let cells = level.cells();
    let (mut places, mut values) = (Vec::new(), Vec::new());
    for method in METHODS.into_iter().chain(["chaotic_gauss_seidel parallel=patch"]) {
        places.push(method.replace("_gauss_seidel", "").replace(" parallel=patch", ", in order"));
        values.push(rate(&mut level, [8; 3], &format!("method={method}"), effort.repeats)?);
    }
    places.push("coloured, 0.85".to_owned());
    values.push(rate(&mut level, [8; 3], "omega=0.85", effort.repeats)?);
    places.push("coloured, dense".to_owned());
    values.push(rate(&mut level, [8; 3], "block_solver=dense", effort.repeats)?);
    let smoother = Smoother::new([8; 3], "backend=cuda", &level)?;
    let (u, f) = smoother.upload(&mut level)?;
    if let Some(appendix) = Appendix::new()? {
        let seconds = median(effort.repeats, || appendix.relax(&u, &f, 64, FEW))?;
        places.push("the paper's appendix".to_owned());
        values.push(1e-9 * cells * f64::from(FEW) / seconds);
    }
    let exchange = median(effort.repeats, || smoother.exchange_there())?;
    let (one, many) =
        (median(effort.repeats, || smoother.sweep(1))?, median(effort.repeats, || smoother.sweep(SWEEPS))?);
    let title = format!("{} patches of 64^3 on the device, blocks of 8^3", effort.patches);
    let curves = vec![Curve { name: "rate".to_owned(), points: bars(&values) }];
    let methods = chart("device_methods", title.clone(), "method", RATE, places, curves);
    let times = [one, many / f64::from(SWEEPS), exchange].map(|s| 1e6 * s);
    let places = ["one sweep".to_owned(), format!("{SWEEPS} sweeps, of each"), "exchange alone".to_owned()];
    let curves = vec![Curve { name: "time".to_owned(), points: bars(&times) }];
    let calls = chart("device_calls", format!("{title}: calls"), "call", "microseconds", places.to_vec(), curves);
    Ok(vec![methods, calls])
}

fn sizes(effort: Effort) -> Result<Chart> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let mut curves = Vec::new();
    for (name, options) in [
        ("coloured, transforms", ""),
        ("block Jacobi, transforms", "method=block_jacobi"),
        ("coloured, dense", "block_solver=dense"),
    ] {
        let rates = BLOCKS.map(|block| rate(&mut level, block, options, effort.repeats));
        let values = rates.into_iter().collect::<Result<Vec<f64>>>()?;
        curves.push(Curve { name: name.to_owned(), points: bars(&values) });
    }
    let title = format!("Block sizes, {} patches of 64^3 on the device", effort.patches);
    Ok(chart("device_blocks", title, "block", RATE, names(&BLOCKS), curves))
}

/// Table 2 of the paper, and many small patches.
fn mixed(effort: Effort) -> Result<Chart> {
    let count = (effort.patches * 5 / 4).next_multiple_of(5);
    let mixture: Vec<i64> = (0..count).map(|p| 64 + 8 * (p / (count / 5)) as i64).collect();
    let sets = [
        ("64^3", vec![64; count]),
        ("80^3", vec![80; count]),
        ("mixed", mixture),
        ("96^3", vec![96; count]),
        ("16^3", vec![16; 50 * count]),
        ("60^3, 61^3", (0..count as i64).map(|p| 60 + p % 2).collect()),
    ];
    let mut curves: Vec<Curve> = METHODS.iter().map(|&m| Curve { name: m.to_owned(), points: Vec::new() }).collect();
    for (place, (_, sides)) in sets.iter().enumerate() {
        let mut level = Level::cubes(sides);
        for (curve, method) in curves.iter_mut().zip(METHODS) {
            let value = rate(&mut level, [8; 3], &format!("method={method}"), effort.repeats)?;
            curve.points.push((place as f64, value));
        }
    }
    let title = format!("{count} patches of one size and of mixed sizes (table 2) on the device; 16^3: {}", 50 * count);
    Ok(chart("device_mixed", title, "patches", RATE, sets.iter().map(|s| s.0.to_owned()).collect(), curves))
}

/// Patches on the host: rates over the number of sweeps per call. Page-locked arrays are those from cuMemHostAlloc or
/// cudaMallocHost.
fn transfers(effort: Effort) -> Result<Chart> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let cells = level.cells();
    let counts = [1, 3, 10];
    let mut curves = Vec::new();
    for locked in [false, true] {
        let _guard = if locked { Some(Locked::new(&mut level)?) } else { None };
        for order in ORDERS {
            let smoother = Smoother::new([8; 3], &format!("backend=cuda transfer={order}"), &level)?;
            let mut points = Vec::new();
            for (place, sweeps) in counts.into_iter().enumerate() {
                let seconds = median(effort.repeats, || smoother.apply(&mut level, sweeps))?;
                points.push((place as f64, 1e-9 * cells * f64::from(sweeps) / seconds));
            }
            curves.push(Curve { name: format!("{order}, {}", memory(locked)), points });
        }
    }
    let title = format!("{} patches of 64^3 on the host, blocks of 8^3, over the sweeps of a call", effort.patches);
    Ok(chart("device_transfers", title, "sweeps", RATE, counts.map(|c| c.to_string()).to_vec(), curves))
}

const ORDERS: [&str; 2] = ["depth_first", "breadth_first"];

fn memory(locked: bool) -> &'static str {
    if locked { "page-locked" } else { "pageable" }
}

/// Figure 6: milliseconds for three chaotic sweeps of patches on the host over their number, small patches (a) and
/// large ones (b), compared with the cores of this machine.
fn orders(effort: Effort) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for (letter, side) in [('a', 16), ('b', 64)] {
        let mut curves: Vec<Curve> = Vec::new();
        let mut point = |name: String, at: (f64, f64)| match curves.iter_mut().find(|c| c.name == name) {
            Some(curve) => curve.points.push(at),
            None => curves.push(Curve { name, points: vec![at] }),
        };
        let mut counts = [1, 2, 4, 6, 8, 12].map(|eighths| (effort.patches * eighths / 8).max(1)).to_vec();
        counts.dedup();
        for count in counts {
            let mut level = Level::cubes(&vec![side; count]);
            let time = |level: &mut Level, options: &str| -> Result<(f64, f64)> {
                let smoother = Smoother::new([8; 3], &format!("method=chaotic_gauss_seidel {options}"), level)?;
                let seconds = median(effort.repeats, || smoother.apply(level, crate::smoother::SWEEPS))?;
                Ok((count as f64, 1e3 * seconds))
            };
            for locked in [false, true] {
                let _guard = if locked { Some(Locked::new(&mut level)?) } else { None };
                for order in ORDERS {
                    let at = time(&mut level, &format!("backend=cuda transfer={order}"))?;
                    point(format!("{order}, {}", memory(locked)), at);
                }
            }
            point(format!("{} cores", cores()), time(&mut level, "")?);
        }
        let title = format!("Three chaotic sweeps of patches of {side}^3 of the host, blocks of 8^3, and transfers");
        charts.push(chart(&format!("figure_6{letter}"), title, "patches", "ms", Vec::new(), curves));
    }
    Ok(charts)
}

fn driver(result: sys::CUresult, what: &str) -> Result<()> {
    if result == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(anyhow!("{what}: CUDA error {}", result as u32)) }
}

/// The primary context of the first device, which is current while this value exists.
struct Context;

impl Context {
    fn new() -> Result<Self> {
        let mut context = null_mut();
        // SAFETY: the library has initialized the driver; the pointer outlives the calls.
        unsafe {
            driver(sys::cuDevicePrimaryCtxRetain(&mut context, 0), "the device")?;
            driver(sys::cuCtxPushCurrent_v2(context), "the device")?;
        }
        Ok(Self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut context = null_mut();
        // SAFETY: reverts the calls in `new`.
        unsafe {
            let _ = sys::cuCtxPopCurrent_v2(&mut context);
            let _ = sys::cuDevicePrimaryCtxRelease_v2(0);
        }
    }
}

/// Page-locks the arrays of a level while this value exists.
struct Locked {
    arrays: Vec<*mut c_void>,
    _context: Context,
}

impl Locked {
    fn new(level: &mut Level) -> Result<Self> {
        let mut locked = Self { arrays: Vec::new(), _context: Context::new()? };
        for array in level.u.iter_mut().chain(&mut level.f) {
            let at: *mut c_void = array.as_mut_ptr().cast();
            // SAFETY: the array's own memory, which is not moved until the guard is dropped.
            driver(unsafe { sys::cuMemHostRegister_v2(at, size_of_val(&array[..]), 0) }, "page-locked memory")?;
            locked.arrays.push(at);
        }
        Ok(locked)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for &at in &self.arrays {
            // SAFETY: registered by `Locked`.
            let _ = unsafe { sys::cuMemHostUnregister(at) };
        }
    }
}

#[repr(C)]
struct Arguments {
    inverse: u64,
    u: u64,
    f: u64,
    omega: f64,
    entries: [f64; 7],
}

/// The kernel of the paper's appendix with the inverse of an 8^3 block.
struct Appendix {
    function: sys::CUfunction,
    inverse: u64,
    _context: Context,
}

impl Appendix {
    /// Loads the kernel; `None` if it was not built, or for an emulated device.
    fn new() -> Result<Option<Self>> {
        if APPENDIX.is_empty() {
            return Ok(None);
        }
        let context = Context::new()?;
        let (mut module, mut function, mut inverse) = (null_mut(), null_mut(), 0);
        let values = inverse_of_8();
        // SAFETY: a fatbin from nvcc, NUL-terminated names, and pointers that outlive the calls.
        unsafe {
            driver(sys::cuModuleLoadData(&mut module, APPENDIX.as_ptr().cast()), "the appendix' kernel")?;
            let found = sys::cuModuleGetFunction(&mut function, module, c"appendix_f64".as_ptr());
            if found == sys::CUresult::CUDA_ERROR_NOT_FOUND {
                return Ok(None);
            }
            driver(found, "the appendix' kernel")?;
            let bytes = size_of_val(&values[..]);
            driver(sys::cuMemAlloc_v2(&mut inverse, bytes), "device memory")?;
            driver(sys::cuMemcpyHtoD_v2(inverse, values.as_ptr().cast(), bytes), "a copy")?;
        }
        Ok(Some(Self { function, inverse, _context: context }))
    }

    /// Sweeps over cubes of side n.
    fn relax(&self, u: &[*mut f64], f: &[*mut f64], n: u32, sweeps: i32) -> Result<()> {
        for _ in 0..sweeps {
            for (u, f) in u.iter().zip(f) {
                let mut arguments = Arguments {
                    inverse: self.inverse,
                    u: *u as u64,
                    f: *f as u64,
                    omega: 1.0,
                    entries: crate::smoother::POISSON,
                };
                let mut pointers = [(&raw mut arguments).cast::<c_void>()];
                let (g, p) = (n / 8, pointers.as_mut_ptr());
                // SAFETY: the structure that the kernel takes, with device arrays of a patch of n^3 cells; the driver
                // copies it at once.
                let started =
                    unsafe { sys::cuLaunchKernel(self.function, g, g, g, 8, 8, 8, 4096, null_mut(), p, null_mut()) };
                driver(started, "the appendix' kernel")?;
            }
        }
        // SAFETY: a context is current.
        driver(unsafe { sys::cuCtxSynchronize() }, "the appendix' kernel")
    }
}

impl Drop for Appendix {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`.
        let _ = unsafe { sys::cuMemFree_v2(self.inverse) };
    }
}

/// Returns the inverse of the 8^3 block of the 7-point Laplacian from its eigenvectors; it is symmetric.
fn inverse_of_8() -> Vec<f64> {
    let angle = std::f64::consts::PI / 9.0;
    let s = |p: usize, q: usize| ((p + 1) as f64 * (q + 1) as f64 * angle).sin();
    let lambda = |p: usize| 2.0 - 2.0 * ((p + 1) as f64 * angle).cos();
    let mut inverse = Vec::with_capacity(512 * 512);
    for column in 0..512 {
        let mut v: Vec<f64> = (0..512)
            .map(|m| {
                let (p, q, r) = (m % 8, m / 8 % 8, m / 64);
                let weight = 8.0 / 729.0 / (lambda(p) + lambda(q) + lambda(r));
                weight * s(p, column % 8) * s(q, column / 8 % 8) * s(r, column / 64)
            })
            .collect();
        for stride in [1, 8, 64] {
            let line = |m: usize| m - m / stride % 8 * stride;
            v = (0..512).map(|m| (0..8).map(|q| s(m / stride % 8, q) * v[line(m) + q * stride]).sum()).collect();
        }
        inverse.extend(v);
    }
    inverse
}
