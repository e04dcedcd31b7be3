//! Block smoothers: the figures of the block-relaxation paper (Rodriguez et al., figures 4, 5 and 7 to 10, table 2)
//! from runs on this machine, and a comparison of forms of the block product.

use crate::machine::cores;
use crate::solver::checked;
use crate::stream::{self, ceiling};
use crate::timing::Samples;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use rrbsolver::abi::{
    smoother_apply, smoother_create, smoother_destroy, smoother_exchange, smoother_get_real, smoother_handle,
    smoother_residual, smoother_set_options, smoother_set_patches,
};
use rrbsolver::options::info;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::time::Instant;

/// Topic of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topic {
    /// Figure 4: residual after three sweeps and asymptotic factor over block sizes, 64^3 cells.
    Convergence,
    /// Figure 5: speed-up over threads of the parallel forms.
    Threads,
    /// Coloured sweeps with 1, 2, 4, 8, ... threads and the triad with the same number of threads, in turn: rates,
    /// shares and efficiency.
    Cores,
    /// Figure 7: seconds for three sweeps over patch sizes, patch counts and block sizes.
    Parameters,
    /// Figure 8 and table 2: eighty patches of one size and of mixed sizes.
    Mixed,
    /// Figure 9: time over block sizes, sine transforms and dense inverses.
    Blocks,
    /// Figure 10: seconds to invert one block and the blocks of all shapes up to it.
    Inversion,
    /// Share of the ghost cell exchange in the time of a coloured sweep: as a separate exchange, and within the sweep.
    Exchange,
    /// CUDA device: methods and the kernel of the paper's appendix, block sizes, mixed sets; figure 6: patches on the
    /// host.
    Device,
    /// The block product by sine transforms, by batched matrix products, and by the paper's matrix-vector products.
    Forms,
}

/// One curve or column.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the curve.
    pub name: String,
    /// Value of x, and value of y.
    pub points: Vec<(f64, f64)>,
}

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chart {
    /// File name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// Whether the y axis is logarithmic.
    pub logarithmic: bool,
    /// Names of the positions 0, 1, ... on the x axis; if empty, x is numeric.
    pub places: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// Figures of one topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SmootherStudy {
    /// The figures.
    pub charts: Vec<Chart>,
}

/// Size of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of patches where the paper has 64 or 96.
    pub patches: usize,
    /// Number of measured calls, after one warm-up.
    pub repeats: usize,
}

/// Block sizes of the paper.
pub(crate) const BLOCKS: [[i64; 3]; 7] = [[2, 2, 2], [4, 2, 2], [4, 4, 2], [4, 4, 4], [8, 4, 4], [8, 8, 4], [8, 8, 8]];
/// Number of sweeps per call, as in the paper.
pub(crate) const SWEEPS: i32 = 3;
pub(crate) const POISSON: [f64; 7] = [6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];

pub(crate) fn names(blocks: &[[i64; 3]]) -> Vec<String> {
    blocks.iter().map(|[x, y, z]| format!("{x}x{y}x{z}")).collect()
}

/// Patches with their arrays.
pub(crate) struct Level {
    lower: Vec<[i64; 3]>,
    size: Vec<[i64; 3]>,
    pub(crate) u: Vec<Vec<f64>>,
    pub(crate) f: Vec<Vec<f64>>,
}

impl Level {
    /// Creates cubes with these sides, adjacent in groups of four by four. The threads that relax them write their
    /// memory first.
    pub(crate) fn cubes(sides: &[i64]) -> Self {
        let most = sides.iter().copied().max().unwrap_or(1);
        let zeros = |ghosts: i64| sides.iter().map(|&n| vec![0.0; (n + ghosts).pow(3) as usize]).collect();
        let (mut u, mut f): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (zeros(2), zeros(0));
        let share = sides.len().div_ceil(cores()).max(1);
        std::thread::scope(|scope| {
            for (part, (u, f)) in u.chunks_mut(share).zip(f.chunks_mut(share)).enumerate() {
                scope.spawn(move || {
                    f.iter_mut().for_each(|f| f.fill(0.5));
                    for (p, u) in (part * share..).zip(u) {
                        u.iter_mut().enumerate().for_each(|(i, u)| *u = ((i * 7919 + p) % 1000) as f64 * 1e-3);
                    }
                });
            }
        });
        let lower = (0..sides.len() as i64).map(|p| [p % 4 * most, p / 4 % 4 * most, p / 16 * most]).collect();
        Self { lower, size: sides.iter().map(|&n| [n; 3]).collect(), u, f }
    }

    /// Creates one cube of n^3 cells with random u, and zero f and ghosts.
    fn random(n: i64) -> Self {
        let mut level = Self::cubes(&[n]);
        let mut state = 42u64;
        level.set(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        });
        level
    }

    fn set(&mut self, mut value: impl FnMut([i64; 3]) -> f64) {
        let n = self.size[0][0];
        self.u[0].fill(0.0);
        self.f[0].fill(0.0);
        for k in 0..n {
            for j in 0..n {
                for i in 0..n {
                    self.u[0][(((k + 1) * (n + 2) + j + 1) * (n + 2) + i + 1) as usize] = value([i, j, k]);
                }
            }
        }
    }

    pub(crate) fn cells(&self) -> f64 {
        self.f.iter().map(|f| f.len() as f64).sum()
    }
}

/// A handle of the family `smoother_`.
pub(crate) struct Smoother(pub(crate) *mut smoother_handle);

impl Drop for Smoother {
    fn drop(&mut self) {
        // SAFETY: the handle came from smoother_create and is destroyed once.
        unsafe { smoother_destroy(&mut self.0) };
    }
}

impl Smoother {
    pub(crate) fn new([bx, by, bz]: [i64; 3], options: &str, level: &Level) -> Result<Self> {
        let text =
            CString::new(format!("check_input=0 backend=cpu {options}")).map_err(|_| anyhow!("options have no NUL"))?;
        let mut smoother = Self(null_mut());
        // SAFETY: seven values, a pointer, a NUL-terminated string, and lists of the length passed.
        unsafe {
            checked(smoother_create(7, POISSON.as_ptr(), bx, by, bz, &mut smoother.0))?;
            checked(smoother_set_options(smoother.0, text.as_ptr()))?;
            let (lower, size) = (level.lower.as_ptr(), level.size.as_ptr());
            checked(smoother_set_patches(smoother.0, level.lower.len() as i64, lower, size))?;
        }
        Ok(smoother)
    }

    pub(crate) fn apply(&self, level: &mut Level, sweeps: i32) -> Result<()> {
        let u: Vec<*mut f64> = level.u.iter_mut().map(|u| u.as_mut_ptr()).collect();
        let f: Vec<*const f64> = level.f.iter().map(|f| f.as_ptr()).collect();
        // SAFETY: a live handle, and arrays of its patches' sizes.
        checked(unsafe { smoother_apply(self.0, u.as_ptr(), f.as_ptr(), sweeps) }).map(drop)
    }

    fn exchange(&self, level: &mut Level) -> Result<()> {
        let u: Vec<*mut f64> = level.u.iter_mut().map(|u| u.as_mut_ptr()).collect();
        // SAFETY: as for apply.
        checked(unsafe { smoother_exchange(self.0, u.as_ptr()) }).map(drop)
    }

    fn norm(&self, level: &mut Level) -> Result<f64> {
        let u: Vec<*mut f64> = level.u.iter_mut().map(|u| u.as_mut_ptr()).collect();
        let f: Vec<*const f64> = level.f.iter().map(|f| f.as_ptr()).collect();
        let mut norm = f64::NAN;
        // SAFETY: as for apply; no residual arrays.
        checked(unsafe { smoother_residual(self.0, u.as_ptr(), f.as_ptr(), null(), &mut norm) })?;
        Ok(norm)
    }

    fn seconds_setup(&self) -> f64 {
        let mut value = 0.0;
        // SAFETY: a live handle and a valid double.
        unsafe { smoother_get_real(self.0, info::SECONDS_SETUP, &mut value) };
        value
    }
}

/// Returns the median seconds of a call with this number of sweeps, after one warm-up.
fn seconds(level: &mut Level, block: [i64; 3], options: &str, sweeps: i32, repeats: usize) -> Result<f64> {
    let smoother = Smoother::new(block, options, level)?;
    smoother.apply(level, sweeps)?;
    let mut samples = Samples::default();
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        smoother.apply(level, sweeps)?;
        samples.push(start.elapsed().as_secs_f64());
    }
    Ok(samples.median())
}

/// Measures a topic.
pub fn measure(topic: Topic, effort: Effort) -> Result<SmootherStudy> {
    let charts = match topic {
        Topic::Convergence => convergence()?,
        Topic::Threads => threads(effort)?,
        Topic::Cores => crate::smoother_cores::measure(effort)?,
        Topic::Parameters => vec![parameters(effort)?],
        Topic::Mixed => vec![mixed(effort)?],
        Topic::Blocks => vec![blocks(effort)?],
        Topic::Inversion => vec![inversion()?],
        Topic::Exchange => vec![exchange(effort)?],
        Topic::Device => crate::smoother_device::measure(effort)?,
        Topic::Forms => vec![forms(effort)?],
    };
    Ok(SmootherStudy { charts })
}

fn convergence() -> Result<Vec<Chart>> {
    const N: i64 = 64;
    // Number of sweeps after which the error of the slowest method is dominated by its slowest mode, so that the factor
    // is asymptotic.
    const MANY: i32 = 300;
    const WINDOW: i32 = 50;
    let methods = [
        ("block Jacobi, 0.8", "method=block_jacobi"),
        ("chaotic block Gauss-Seidel", "method=chaotic_gauss_seidel"),
        ("lexicographic block Gauss-Seidel", "method=chaotic_gauss_seidel parallel=patch"),
        ("coloured block Gauss-Seidel", "method=coloured_gauss_seidel"),
    ];
    let (mut residuals, mut factors) = (Vec::new(), Vec::new());
    for (name, options) in methods {
        let (mut after, mut factor) = (Vec::new(), Vec::new());
        for (place, block) in BLOCKS.into_iter().enumerate() {
            let mut level = Level::random(N);
            let smoother = Smoother::new(block, options, &level)?;
            let start = smoother.norm(&mut level)?;
            smoother.apply(&mut level, SWEEPS)?;
            after.push((place as f64, smoother.norm(&mut level)? / start));
            let noise = level.u[0].clone();
            let wave = |i: i64| (std::f64::consts::PI * (i + 1) as f64 / (N + 1) as f64).sin();
            level.set(|[i, j, k]| wave(i) * wave(j) * wave(k));
            level.u[0].iter_mut().zip(&noise).for_each(|(u, n)| *u += 0.01 * n);
            smoother.apply(&mut level, MANY - WINDOW)?;
            let before = smoother.norm(&mut level)?;
            smoother.apply(&mut level, WINDOW)?;
            let rate = (smoother.norm(&mut level)? / before).powf(1.0 / f64::from(WINDOW));
            factor.push((place as f64, 1.0 - rate));
        }
        residuals.push(Curve { name: name.to_owned(), points: after });
        factors.push(Curve { name: name.to_owned(), points: factor });
    }
    let chart = |name: &str, title: &str, y: &str, logarithmic, curves| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x: "block".to_owned(),
        y: y.to_owned(),
        logarithmic,
        places: names(&BLOCKS),
        curves,
    };
    let residual = "Residual after three sweeps, Poisson 64^3, random guess";
    let rate = "Asymptotic convergence, Poisson 64^3";
    Ok(vec![
        chart("figure_4a", residual, "relative residual", false, residuals),
        chart("figure_4b", rate, "1 - factor per sweep", true, factors),
    ])
}

pub(crate) fn thread_counts() -> Vec<usize> {
    let most = cores();
    (0..).map(|p| 1usize << p).take_while(|&t| t < most).chain([most]).collect()
}

fn threads(effort: Effort) -> Result<Vec<Chart>> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let bandwidth = stream::measure(cores(), &[stream::FROM_MEMORY_MEGABYTES]);
    let mut charts = Vec::new();
    for (method, letter) in [("block_jacobi", 'a'), ("chaotic_gauss_seidel", 'c'), ("coloured_gauss_seidel", 'e')] {
        for side in [4, 8] {
            let mut curves = ["patch", "block", "nested", "auto"]
                .map(|form| Curve { name: form.to_owned(), points: Vec::new() })
                .to_vec();
            let mut one = None;
            // The forms run in turn, because the load of the machine varies from minute to minute.
            for t in thread_counts() {
                for curve in &mut curves {
                    let options = format!("method={method} parallel={} threads={t}", curve.name);
                    let seconds = seconds(&mut level, [side; 3], &options, SWEEPS, effort.repeats)?;
                    let first: f64 = *one.get_or_insert(seconds);
                    curve.points.push((t as f64, first / seconds));
                }
            }
            if let (Some(one), Some(least)) = (one, ceiling(&bandwidth, 1)) {
                // The rate that the bandwidth alone allows, at 24 bytes per cell and sweep.
                let bytes = 24e-9 * level.cells() * f64::from(SWEEPS);
                let all = ceiling(&bandwidth, cores()).unwrap_or(least);
                let points = vec![(1.0, one * least / bytes), (cores() as f64, one * all / bytes)];
                curves.push(Curve { name: "bandwidth".to_owned(), points });
            }
            let letter = if side == 4 { letter } else { (letter as u8 + 1) as char };
            charts.push(Chart {
                name: format!("figure_5{letter}"),
                title: format!("{method}, blocks of {side}^3, {} patches of 64^3", effort.patches),
                x: "threads".to_owned(),
                y: "speed-up over one thread, patch-parallel".to_owned(),
                logarithmic: false,
                places: Vec::new(),
                curves,
            });
        }
    }
    Ok(charts)
}

pub(crate) const METHODS: [&str; 3] = ["block_jacobi", "chaotic_gauss_seidel", "coloured_gauss_seidel"];

fn parameters(effort: Effort) -> Result<Chart> {
    let few = effort.patches;
    let sets = [(64, few, 4), (64, few * 3 / 2, 4), (64, few, 8), (64, few * 3 / 2, 8), (96, few, 8)];
    let mut curves: Vec<Curve> = METHODS.iter().map(|&m| Curve { name: m.to_owned(), points: Vec::new() }).collect();
    for (place, (n, count, side)) in sets.into_iter().enumerate() {
        let mut level = Level::cubes(&vec![n; count]);
        for (curve, method) in curves.iter_mut().zip(METHODS) {
            let time = seconds(&mut level, [side; 3], &format!("method={method}"), SWEEPS, effort.repeats)?;
            curve.points.push((place as f64, time));
        }
    }
    Ok(Chart {
        name: "figure_7".to_owned(),
        title: "Seconds for three sweeps: patch size / patches / block".to_owned(),
        x: "parameter set".to_owned(),
        y: "seconds".to_owned(),
        logarithmic: false,
        places: sets.iter().map(|(n, count, side)| format!("{n}^3/{count}/{side}^3")).collect(),
        curves,
    })
}

fn mixed(effort: Effort) -> Result<Chart> {
    let count = (effort.patches * 5 / 4).next_multiple_of(5);
    let mixture: Vec<i64> = (0..count).map(|p| 64 + 8 * (p / (count / 5)) as i64).collect();
    let sets = [("64^3", vec![64; count]), ("80^3", vec![80; count]), ("mixed", mixture), ("96^3", vec![96; count])];
    let mut levels: Vec<Level> = sets.iter().map(|(_, sides)| Level::cubes(sides)).collect();
    let mut curves = Vec::new();
    for method in METHODS {
        let made: Result<Vec<Smoother>> =
            levels.iter().map(|level| Smoother::new([8; 3], &format!("method={method}"), level)).collect();
        let smoothers = made?;
        // The sets are measured in turn, because the load of the machine varies from minute to minute; the first round
        // is the warm-up.
        let mut samples = vec![Samples::default(); sets.len()];
        for round in 0..=effort.repeats.max(1) {
            for ((smoother, level), samples) in smoothers.iter().zip(&mut levels).zip(&mut samples) {
                let start = Instant::now();
                smoother.apply(level, SWEEPS)?;
                if round > 0 {
                    samples.push(1e9 * start.elapsed().as_secs_f64() / (level.cells() * f64::from(SWEEPS)));
                }
            }
        }
        let points = samples.iter().enumerate().map(|(place, s)| (place as f64, s.median())).collect();
        curves.push(Curve { name: method.to_owned(), points });
    }
    Ok(Chart {
        name: "figure_8".to_owned(),
        title: format!("{count} patches of one size and of mixed sizes (table 2), blocks of 8^3"),
        x: "patches".to_owned(),
        y: "ns per cell and sweep".to_owned(),
        logarithmic: false,
        places: sets.iter().map(|s| s.0.to_owned()).collect(),
        curves,
    })
}

fn blocks(effort: Effort) -> Result<Chart> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let cells = level.cells();
    let mut curves = Vec::new();
    for solver in ["fast_diagonalization", "dense"] {
        let mut points = Vec::new();
        for (place, block) in BLOCKS.into_iter().enumerate() {
            let time = seconds(&mut level, block, &format!("block_solver={solver}"), 1, effort.repeats)?;
            points.push((place as f64, 1e9 * time / cells));
        }
        curves.push(Curve { name: solver.to_owned(), points });
    }
    Ok(Chart {
        name: "figure_9".to_owned(),
        title: format!("Coloured Gauss-Seidel over block sizes, {} patches of 64^3", effort.patches),
        x: "block".to_owned(),
        y: "ns per cell and sweep".to_owned(),
        logarithmic: true,
        places: names(&BLOCKS),
        curves,
    })
}

fn inversion() -> Result<Chart> {
    let mut curves = Vec::new();
    // The first handle of a process searches for devices and starts threads.
    Smoother::new([2; 3], "", &Level { lower: vec![[0; 3]], size: vec![[2; 3]], u: Vec::new(), f: Vec::new() })?;
    for solver in ["dense", "fast_diagonalization"] {
        let (mut one, mut all) = (Vec::new(), Vec::new());
        for (place, block) in BLOCKS.into_iter().enumerate() {
            let alone = Level { lower: vec![[0; 3]], size: vec![block], u: Vec::new(), f: Vec::new() };
            let options = format!("block_solver={solver}");
            one.push((place as f64, Smoother::new(block, &options, &alone)?.seconds_setup()));
            let [x, y, z] = block;
            let shapes: Vec<[i64; 3]> = (0..x * y * z).map(|q| [q % x + 1, q / x % y + 1, q / x / y + 1]).collect();
            // One patch of each shape, each in a block of its own.
            let lower = (0..shapes.len() as i64).map(|q| [q * 2 * x, 0, 0]).collect();
            let every = Level { lower, size: shapes, u: Vec::new(), f: Vec::new() };
            all.push((place as f64, Smoother::new(block, &options, &every)?.seconds_setup()));
        }
        curves.push(Curve { name: format!("{solver}, one"), points: one });
        curves.push(Curve { name: format!("{solver}, all shapes"), points: all });
    }
    Ok(Chart {
        name: "figure_10".to_owned(),
        title: "Seconds to invert one block, and the blocks of all shapes up to it".to_owned(),
        x: "block".to_owned(),
        y: "seconds".to_owned(),
        logarithmic: true,
        places: names(&BLOCKS),
        curves,
    })
}

/// Compares adjacent patches with separated ones, which have no ghost cells to exchange.
fn exchange(effort: Effort) -> Result<Chart> {
    let sides = [16, 32, 64, 96];
    let (mut alone, mut passing) = (Vec::new(), Vec::new());
    for (place, side) in sides.into_iter().enumerate() {
        let mut level = Level::cubes(&vec![side; effort.patches]);
        let adjacent = Smoother::new([8; 3], "", &level)?;
        level.lower.iter_mut().flatten().for_each(|l| *l *= 2);
        let separated = Smoother::new([8; 3], "", &level)?;
        // The measurements alternate; the first round is the warm-up.
        let mut samples = [0; 3].map(|_| Samples::default());
        for round in 0..=effort.repeats.max(1) {
            for (what, samples) in samples.iter_mut().enumerate() {
                let start = Instant::now();
                match what {
                    0 => adjacent.exchange(&mut level)?,
                    1 => adjacent.apply(&mut level, SWEEPS)?,
                    _ => separated.apply(&mut level, SWEEPS)?,
                }
                if round > 0 {
                    samples.push(start.elapsed().as_secs_f64());
                }
            }
        }
        let [exchange, sweeps, without] = samples.map(|s| s.median());
        alone.push((place as f64, 100.0 * exchange * f64::from(SWEEPS) / (without + exchange * f64::from(SWEEPS))));
        // Noise may make a small difference negative.
        passing.push((place as f64, 100.0 * (1.0 - without / sweeps).max(0.0)));
    }
    let curve = |name: &str, points| Curve { name: name.to_owned(), points };
    Ok(Chart {
        name: "ghost_exchange".to_owned(),
        title: format!(
            "Ghost cells between {} patches: share of a coloured sweep, three sweeps per call",
            effort.patches
        ),
        x: "patches".to_owned(),
        y: "percent of the time".to_owned(),
        logarithmic: false,
        places: sides.iter().map(|n| format!("{n}^3")).collect(),
        curves: vec![curve("exchanged before each sweep", alone), curve("passed on within the sweep", passing)],
    })
}

fn forms(effort: Effort) -> Result<Chart> {
    let mut level = Level::cubes(&vec![64; effort.patches]);
    let cells = level.cells();
    let forms = [
        ("sine transforms", "block_solver=fast_diagonalization", effort.repeats),
        // These forms are slow and hardly affected by noise, so one call after one warm-up is measured.
        ("batched matrix products", "block_solver=dense", 1),
        ("matrix-vector products", "block_solver=dense method=chaotic_gauss_seidel parallel=patch", 1),
    ];
    let mut curves = Vec::new();
    for (name, options, repeats) in forms {
        let mut points = Vec::new();
        for t in thread_counts() {
            let time = seconds(&mut level, [8; 3], &format!("{options} threads={t}"), 1, repeats)?;
            points.push((t as f64, 1e9 * time / cells));
        }
        curves.push(Curve { name: name.to_owned(), points });
    }
    Ok(Chart {
        name: "block_products".to_owned(),
        title: format!("The product with the inverse of an 8^3 block, three ways, {} patches of 64^3", effort.patches),
        x: "threads".to_owned(),
        y: "ns per cell and sweep".to_owned(),
        logarithmic: true,
        places: Vec::new(),
        curves,
    })
}
