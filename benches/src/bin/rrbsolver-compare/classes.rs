//! Cases that both builds run: golden rows, random systems, sweeps of block smoothers.

use crate::blocks::Sweeps;
use crate::library::Build;
use crate::matrix::{Matrix, Rows};
use crate::record::Record;
use crate::systems::Task;
use crate::{Backend, BitsArgs};
use rrbsolver_problems::blocks::{BLOCKS, Level, awkward, records, stencil};
use rrbsolver_problems::golden::{self, Row};
use rrbsolver_problems::two_phase::TwoPhase;
use rrbsolver_problems::{by_name, cases, sparse};

/// Runs a case on both builds, OLD and NEW.
type Ask = Box<dyn Fn([&Build; 2]) -> [Record; 2] + Send + Sync>;

/// One case, which generates its problem and runs both builds.
pub struct Job {
    /// Description for messages.
    pub name: String,
    ask: Ask,
}

impl Job {
    fn system(name: String, make: impl Fn() -> Task + Send + Sync + 'static) -> Self {
        let ask = move |builds: [&Build; 2]| {
            let task = make();
            builds.map(|build| task.run(build))
        };
        Self { name, ask: Box::new(ask) }
    }

    fn sweeps(name: String, make: impl Fn() -> Sweeps + Send + Sync + 'static) -> Self {
        let ask = move |builds: [&Build; 2]| {
            let sweeps = make();
            builds.map(|build| sweeps.run(build))
        };
        Self { name, ask: Box::new(ask) }
    }

    /// Returns the results of both builds.
    pub fn run(&self, builds: [&Build; 2]) -> [Record; 2] {
        (self.ask)(builds)
    }
}

/// Cases of one kind.
pub struct Class {
    /// Description for messages.
    pub name: &'static str,
    /// Unit in which the cases are counted.
    pub unit: &'static str,
    /// The cases.
    pub jobs: Vec<Job>,
    /// Number of omitted cases.
    pub left_out: usize,
    /// Reason for omitting cases.
    pub why: String,
}

/// Returns all classes that the arguments allow.
pub fn all(args: &BitsArgs) -> Vec<Class> {
    let nodes = args.nodes.unwrap_or(match args.backend {
        Backend::Emulated => 4096,
        _ => 1_100_000,
    });
    let golden = |name, rows: Vec<Row>| golden_rows(name, rows, args.backend, nodes);
    let mut all = vec![
        golden("golden exact.csv", golden::exact()),
        golden("golden random.csv", golden::random()),
        golden("golden rounding.csv", golden::rounding()),
        short_formats(args.backend, nodes),
        golden_smoothers(args.backend, nodes),
        golden_cycles(args.backend, nodes),
        random_systems(args),
        boxes(args.backend),
        rows(args.backend),
        smoothers(args.backend),
    ];
    all.retain(|class| class.name.contains(&args.only));
    all
}

fn too_large(nodes: usize) -> String {
    format!("more than {nodes} nodes")
}

fn golden_rows(name: &'static str, mut jobs: Vec<Row>, backend: Backend, nodes: usize) -> Class {
    let all = jobs.len();
    jobs.retain(|row| row.nx * row.ny <= nodes);
    let job = |row: Row| {
        Job::system(row.name(), move || {
            let (a, b) = row.problem();
            Task::plain(Matrix::Plane(a), b, row.options(backend.name(), row.tol))
        })
    };
    let jobs: Vec<Job> = jobs.into_iter().map(job).collect();
    Class { name, unit: "rows", left_out: all - jobs.len(), jobs, why: too_large(nodes) }
}

fn short_formats(backend: Backend, nodes: usize) -> Class {
    let rows = golden::short();
    let all = rows.len();
    let job = |row: golden::Short| {
        let options = format!("backend={} threads=1 {} rel_tol={}", backend.name(), row.options, row.tol);
        Job::system(format!("{} {} {options}", row.problem, row.n), move || {
            let (a, b) = by_name(&row.problem, row.n, row.n);
            Task::plain(Matrix::Plane(a), b, options.clone())
        })
    };
    let jobs: Vec<Job> = rows.into_iter().filter(|row| row.n * row.n <= nodes).map(job).collect();
    Class { name: "golden short.csv", unit: "rows", left_out: all - jobs.len(), jobs, why: too_large(nodes) }
}

/// Returns the options of every smoother on this backend.
fn of_smoothers(backend: Backend) -> String {
    format!("backend={} threads=2", backend.name())
}

/// Returns whether results vary between runs: on a device, the order of chaotic sweeps does. On the CPU, one thread
/// processes a patch.
fn is_chaotic(backend: Backend, options: &str) -> bool {
    backend != Backend::Cpu && options.contains("chaotic")
}

fn golden_smoothers(backend: Backend, nodes: usize) -> Class {
    let rows = records();
    let all = rows.len();
    let wanted = |options: &str| 64 * 64 * 64 <= nodes && !is_chaotic(backend, options);
    let job = |row: rrbsolver_problems::blocks::Record| {
        let options = format!("{} {}", of_smoothers(backend), row.options());
        Job::sweeps(format!("{} {:?} {options}", row.stencil, row.block), move || Sweeps {
            stencil: stencil(&row.stencil),
            block: row.block,
            options: options.clone(),
            level: Level::golden(64, 1),
            calls: vec![1, 2],
        })
    };
    let jobs: Vec<Job> = rows.into_iter().filter(|row| wanted(&row.options())).map(job).collect();
    let why = if backend == Backend::Cpu { "" } else { ", or chaotic sweeps, whose order nothing fixes on a device" };
    let why = too_large(nodes) + why;
    Class { name: "golden smoother.csv", unit: "rows", left_out: all - jobs.len(), jobs, why }
}

/// The sweeps of each row on its finest grid, before and after the coarse grid correction. The cycle itself is not part
/// of the library.
fn golden_cycles(backend: Backend, nodes: usize) -> Class {
    let rows = golden::cycles();
    let all = 2 * rows.len();
    let mut jobs = Vec::new();
    for row in rows.into_iter().filter(|row| row.n.pow(3) as usize <= nodes) {
        for (sweeps, options) in row.sweeps.into_iter().zip(row.options) {
            let options = format!("{} {options}", of_smoothers(backend));
            let (name, block, n) = (row.stencil.clone(), row.block, row.n);
            jobs.push(Job::sweeps(format!("{}, {options}", row.name), move || Sweeps {
                stencil: stencil(&name),
                block,
                options: options.clone(),
                level: Level::golden(n, 1),
                calls: vec![sweeps, sweeps],
            }));
        }
    }
    Class { name: "golden vcycle.csv", unit: "smoothers", left_out: all - jobs.len(), jobs, why: too_large(nodes) }
}

fn random_systems(args: &BitsArgs) -> Class {
    let (seed, backend) = (args.seed, args.backend);
    let job = |number: u64| {
        Job::system(format!("case {number}"), move || {
            Task::random(cases::make(seed, number, backend.of_cases()), backend != Backend::Cpu)
        })
    };
    let jobs = (0..args.cases).map(job).collect();
    Class { name: "random systems", unit: "cases", jobs, left_out: 0, why: String::new() }
}

/// Options for each box of cells.
const OF_BOXES: [&str; 22] = [
    "",
    "threads=1",
    "threads=3 fusion=off",
    "rel_tol=1e-10",
    "norm=preconditioned reference=initial",
    "max_iter=5",
    "preconditioner=none deflation=none",
    "preconditioner=jacobi deflation=subdomain",
    "preconditioner=neumann",
    "preconditioner=neumann order=1 fusion=off deflation=none norm=preconditioned",
    "preconditioner=neumann order=3 deflation=subdomain coarse_solver=inverse",
    "preconditioner=ic0 deflation=subdomain coarse_solver=cholesky",
    "preconditioner=ric ric_omega=0.9 deflation=none threads=3",
    "preconditioner=multigrid coarsening=vertex",
    "preconditioner=multigrid coarsening=vertex sweeps=2 precision=f64 deflation=none",
    "preconditioner=multigrid coarsening=cell threads=3",
    "preconditioner=multigrid coarsening=cell precision=f64 deflation=levelset dilation=1",
    "preconditioner=multigrid fusion=off threads=1 norm=preconditioned",
    "preconditioner=amg",
    "preconditioner=amg precision=f64 threads=3 deflation=none",
    "deflation=levelset_subdomain coarse_solver=cg",
    "null_space=none preconditioner=neumann max_iter=50",
];

/// Two-phase systems on boxes of cells, some of them thin, with every preconditioner and deflation.
fn boxes(backend: Backend) -> Class {
    let small = backend == Backend::Emulated;
    let sizes: &[[usize; 3]] = match small {
        true => &[[6, 5, 4]],
        false => &[[1, 1, 1], [2, 3, 1], [17, 1, 9], [5, 64, 3], [16, 16, 16], [33, 20, 18], [40, 48, 36]],
    };
    let mut jobs = Vec::new();
    for set in ["0", "1", "9", "dam", "film", "spray"] {
        for &size in sizes {
            for more in OF_BOXES {
                let options = format!("backend={} threads=2 {more}", backend.name());
                jobs.push(Job::system(format!("{set} {size:?} {options}"), move || {
                    let a = TwoPhase::new(set, size, 1e-3);
                    Task::plain(Matrix::Box(a.clone()), a.rhs("rand"), options.clone())
                }));
            }
        }
    }
    Class { name: "boxes", unit: "cases", jobs, left_out: 0, why: String::new() }
}

/// Options for each general matrix.
const OF_ROWS: [&str; 24] = [
    "",
    "threads=1",
    "threads=3 rel_tol=1e-10",
    "max_iter=3 reference=initial",
    "solver=jacobi max_iter=50",
    "solver=gauss_seidel ordering=multicolour max_iter=50",
    "solver=sor ordering=symmetric max_iter=50",
    "solver=cg preconditioner=none",
    "solver=cg preconditioner=jacobi format=csc",
    "solver=cg preconditioner=ssor",
    "solver=cg preconditioner=ic0 format=sell",
    "solver=cg preconditioner=neumann format=bsr",
    "solver=cg preconditioner=chebyshev format=dia",
    "solver=cg preconditioner=amg threads=3",
    "solver=cg preconditioner=amg precision=f32",
    "solver=bicg preconditioner=jacobi",
    "solver=bicg preconditioner=ilu0 transpose=none format=ell",
    "solver=minres preconditioner=jacobi",
    "solver=bicgstab preconditioner=ilu0 format=jds",
    "solver=bicgstab preconditioner=none format=coo threads=3",
    "solver=gmres preconditioner=ilu0 restart=7",
    "solver=gmres preconditioner=none restart=3 max_iter=40",
    "solver=idr preconditioner=jacobi",
    "solver=idr preconditioner=ilu0 shadow=2 format=tjds",
];

/// General matrices with every method, preconditioner and several formats.
fn rows(backend: Backend) -> Class {
    let names = [
        "poisson2d_1",
        "poisson2d_17",
        "poisson2d_64",
        "poisson3d_20",
        "convdiff2d_40_p0.3_q0.1",
        "convdiff2d_64_upwind_p5_q1",
        "random_dominant_500_7",
        "random_dominant_symmetric_900_6",
        "blocks3_20",
    ];
    let mut jobs = Vec::new();
    for name in names.into_iter().filter(|_| backend == Backend::Cpu) {
        for more in OF_ROWS {
            let options = format!("threads=2 {more}");
            jobs.push(Job::system(format!("{name} {options}"), move || {
                let system = sparse::system(name).expect("a name that exists");
                let b = (0..system.n).map(|i| ((i * 7919) % 1000) as f64 * 1e-3 - 0.3).collect();
                Task::plain(Matrix::Rows(Rows::new(&system)), b, options.clone())
            }));
        }
    }
    let left_out = if backend == Backend::Cpu { 0 } else { names.len() * OF_ROWS.len() };
    Class { name: "rows", unit: "cases", jobs, left_out, why: "sparse_ is compared on the CPU".to_owned() }
}

/// Returns patches of several kinds; `small` is for emulated devices.
fn levels(small: bool) -> Vec<(&'static str, Level)> {
    let mut cut = Level::cut_cube(16, 2);
    cut.random(3);
    let mut odd = Level::new(&[([0; 3], [13, 9, 7]), ([13, 0, 0], [5, 9, 7]), ([0, 9, 0], [18, 1, 7])]);
    odd.random(4);
    let mut all = vec![("odd patches", odd)];
    if !small {
        all.extend([("awkward patches", awkward()), ("a cube in eight", cut)]);
    }
    all
}

const METHODS: [&str; 5] = [
    "method=block_jacobi",
    "method=coloured_gauss_seidel",
    "method=coloured_gauss_seidel reverse=1",
    "method=chaotic_gauss_seidel parallel=patch",
    "method=chaotic_gauss_seidel parallel=patch reverse=1",
];
const MORE: [&str; 6] = [
    "",
    "parallel=nested stagger=1",
    "parallel=block stagger=2 omega=0.85",
    "parallel=patch remainder=overlap",
    "block_solver=fast_diagonalization",
    "block_solver=dense",
];
/// Block sizes that are not in the paper.
const ODD_BLOCKS: [[i64; 3]; 3] = [[1, 1, 1], [3, 5, 7], [2, 1, 8]];

/// 7 and 27 points, every method with every block solver.
fn smoothers(backend: Backend) -> Class {
    let small = backend == Backend::Emulated;
    let stencils = ["poisson7", "aniso7", "conv7", "fe27", "mixed27"];
    let blocks: Vec<[i64; 3]> = BLOCKS.into_iter().chain(ODD_BLOCKS).collect();
    let blocks = if small { vec![[4, 4, 4], [3, 5, 7]] } else { blocks };
    let (mut jobs, mut left_out) = (Vec::new(), 0);
    for (patches, level) in levels(small) {
        for name in stencils {
            for &block in &blocks {
                for method in METHODS {
                    for more in MORE {
                        // The method is last, so that it overrides earlier ones: chaotic sweeps in a fixed order are
                        // those of parallel=patch.
                        let options = format!("{} {more} {method}", of_smoothers(backend));
                        // The dense inverses of large blocks of all shapes take almost a minute, so only one method
                        // uses them.
                        let dense = more.contains("dense") && block.iter().product::<i64>() > 64;
                        if is_chaotic(backend, &options) || (dense && method != METHODS[1]) {
                            left_out += 1;
                            continue;
                        }
                        let level = level.clone();
                        jobs.push(Job::sweeps(format!("{name} {block:?} {patches} {options}"), move || Sweeps {
                            stencil: stencil(name),
                            block,
                            options: options.clone(),
                            level: level.clone(),
                            calls: vec![3, 1],
                        }));
                    }
                }
            }
        }
    }
    let on_device =
        if backend == Backend::Cpu { "" } else { ", chaotic sweeps, whose order nothing fixes on a device" };
    let why = format!("dense inverses of large blocks by other than one method{on_device}");
    Class { name: "smoothers", unit: "cases", jobs, left_out, why }
}
