//! Results that are bitwise identical for any number of threads, on large grids, with every format, cycle, layout and
//! variant. Several threads are used only on grids of 8192 nodes and more; each row checks the number of threads. All
//! other checks of this program therefore use one thread.

use crate::common;
use crate::device::Rows;
use common::problems::{Stencil, neumann_const, neumann_var, poisson, random_m_matrix, random_rhs};
use common::*;

/// Pairs of thread counts. Consecutive rows use them in turn.
const THREADS: [[usize; 2]; 2] = [[2, 7], [3, 5]];

/// Extents of several thousand nodes, on which threads share up to three grids, and whose shares end at arbitrary rows.
/// On flat grids, some threads have no row.
pub const LARGE_EXTENTS: [(usize, usize); 9] =
    [(97, 101), (130, 131), (411, 277), (277, 411), (400, 640), (1030, 33), (33, 1030), (3, 9001), (1, 20_000)];

/// Compares several threads with one thread.
#[derive(Default)]
struct Table {
    rows: Rows,
    count: usize,
}

impl Table {
    fn row(&mut self, name: &str, a: &Stencil, b: &[f64], options: &str) {
        let threads = THREADS[self.count % 2];
        self.count += 1;
        let what = format!("{name} {}x{} {options}", a.nx, a.ny);
        self.rows.row(&what, || {
            let of = |threads: usize| {
                let solver = Solver::of(a, &format!("backend=cpu {options} threads={threads}"));
                assert_eq!(solver.int(key::INFO_THREADS), threads as i64);
                solver
            };
            let one = Trace::of(&of(1), b).unwrap();
            threads.into_iter().for_each(|threads| one.assert_of(&of(threads), b, &format!("{threads} threads")));
        });
    }
}

/// Returns the plain problems and a closed basin.
fn problems(nx: usize, ny: usize) -> Vec<(&'static str, Stencil, Vec<f64>)> {
    let mut problems = plain_problems(nx, ny);
    problems.push(("closed", neumann_const(nx, ny), random_rhs(nx * ny, 2)));
    problems
}

/// Every extent with the defaults, and in double precision with one of the other options.
pub fn same_bits_on_large_grids() {
    let mut table = Table::default();
    let others = ["fusion=off", "norm=preconditioned grids=2", "compute_block=32 lumping=m2u max_iter=30"];
    for (k, (nx, ny)) in LARGE_EXTENTS.into_iter().enumerate() {
        for (name, a, b) in plain_problems(nx, ny) {
            for more in ["", &format!("precision=f64 {}", others[k % 3])] {
                table.row(name, &a, &b, &format!("levels=10 rel_tol=1e-8 {more}"));
            }
        }
    }
    table.rows.end();
}

/// Levels, fused and unfused, layouts, lumpings and norms. With one level, one thread is used.
pub fn same_bits_of_every_variant() {
    let mut table = Table::default();
    let mut variants = Vec::new();
    for levels in [0, 2, 3, 4, 40] {
        variants.extend(["on", "off"].map(|fusion| format!("levels={levels} fusion={fusion}")));
    }
    for grids in [0, 1, 2, 3, 60] {
        variants.extend([8, 64].map(|block| format!("levels=8 grids={grids} compute_block={block}")));
    }
    for lumping in ["m1m", "m1u", "m2m", "m2u", "m1 relaxation=0.7", "m2 relaxation=0.9"] {
        for norm in ["norm=true2", PAPERS_NORM, "norm=preconditioned reference=rhs"] {
            variants.push(format!("precision=f64 cycle=v lumping={lumping} {norm}"));
        }
    }
    for (nx, ny) in [(97, 101), (130, 67)] {
        for (name, a, b) in problems(nx, ny) {
            variants.iter().for_each(|options| table.row(name, &a, &b, &format!("{options} rel_tol=1e-9")));
        }
    }
    table.rows.end();
}

/// Every format with every cycle. Recursions are on grids that threads share (95 x 90 nodes), and on coarser grids that
/// only the first thread processes.
pub fn same_bits_of_every_format_and_cycle() {
    let mut table = Table::default();
    for (name, a, b) in problems(190, 181).into_iter().filter(|(name, ..)| *name != "laplacian") {
        for (precision, cycle) in formats() {
            for more in ["cycle_spacing=2", "fusion=off cycle_spacing=2 cycle_steps=3", "levels=9 cycle_spacing=4"] {
                table.row(name, &a, &b, &format!("precision={precision} cycle={cycle} {more}"));
            }
        }
    }
    for a in [random_m_matrix(301, 250, false, 3), neumann_var(257, 260)] {
        let b = a.multiply(&random_rhs(a.len(), 5));
        for precision in ["f32", "f64"] {
            table.row("levels", &a, &b, &format!("cycle=aggregation precision={precision}"));
        }
    }
    table.rows.end();
}

/// Many repetitions with more threads than cores, because a missing barrier shows only rarely. On the largest grid,
/// threads share the grid of the recursion (127^2 nodes).
pub fn same_bits_many_times() {
    let mut rows = Rows::default();
    let recursive = poisson(511, 511);
    let recursions = ["bf16 cycle=amli", "bf16 cycle=k", "f32 cycle=amli", "f64 cycle=k"];
    let mut cases: Vec<(&Stencil, String, [usize; 3])> = Vec::new();
    cases.extend(recursions.map(|of| (&recursive, format!("precision={of} cycle_spacing=4"), [2, 3, 7])));
    let crowded = [random_m_matrix(301, 217, false, 1), random_m_matrix(301, 217, true, 1), neumann_const(301, 217)];
    cases.extend(crowded.iter().map(|a| (a, String::new(), [4, 13, 40])));
    for (a, options, team) in cases {
        let b = random_rhs(a.len(), 2);
        rows.row(&options, || {
            let of = |threads: usize| Solver::of(a, &format!("backend=cpu {options} threads={threads}"));
            let one = Trace::of(&of(1), &b).unwrap();
            for threads in team {
                let many = of(threads);
                for round in 0..8 {
                    one.assert_of(&many, &b, &format!("{} nodes, {threads} threads, round {round}", a.len()));
                    if round % 3 == 2 {
                        many.factorize(a).unwrap();
                    }
                }
            }
        });
    }
    rows.end();
}
