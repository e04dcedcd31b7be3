//! Golden tables of `rrb_` (tests/golden/README.md): problems and options of their rows.

use crate::{Stencil, by_name};

/// Options for the stopping test of the papers: the preconditioned norm sqrt(r' M^-1 r) relative to its initial value.
pub const PAPERS_NORM: &str = "norm=preconditioned reference=initial";

/// Options for method and stopping test of the papers: double precision, V-cycle, preconditioned norm.
pub const PAPERS: &str = "precision=f64 cycle=v norm=preconditioned reference=initial";

/// One row of a table.
pub struct Row {
    /// Name of the problem.
    pub problem: String,
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Number of levels (red eliminations).
    pub levels: usize,
    /// Lumping, and whether positive couplings are compensated.
    pub variant: String,
    /// Relaxation factor omega.
    pub omega: f64,
    /// Relative tolerance in the preconditioned norm.
    pub tol: f64,
    /// Iterations of the prototype.
    pub iterations: usize,
    /// Condition number of M^-1 A.
    pub kappa: f64,
    /// Largest eigenvalue of M^-1 A.
    pub lambda_max: f64,
}

impl Row {
    /// Parses all rows of a table.
    fn read(text: &str) -> Vec<Row> {
        let row = |line: &str| {
            let f: Vec<&str> = line.split(',').collect();
            Row {
                problem: f[0].to_owned(),
                nx: f[1].parse().unwrap(),
                ny: f[2].parse().unwrap(),
                levels: f[3].parse().unwrap(),
                variant: f[4].to_owned(),
                omega: f[5].parse().unwrap(),
                tol: f[7].parse().unwrap(),
                iterations: f[8].parse().unwrap(),
                kappa: f[9].parse().unwrap(),
                lambda_max: f[11].parse().unwrap(),
            }
        };
        text.lines().skip(1).map(row).collect()
    }

    /// Returns matrix and right-hand side.
    pub fn problem(&self) -> (Stencil, Vec<f64>) {
        by_name(&self.problem, self.nx, self.ny)
    }

    /// Returns the options of the solve.
    pub fn options(&self, backend: &str, tol: f64) -> String {
        let lumping = &self.variant[..2].to_lowercase();
        let compensation = if self.variant.ends_with("/compensated") { "always" } else { "never" };
        format!(
            "backend={backend} threads=1 levels={} lumping={lumping} relaxation={} compensation={compensation} \
             rel_tol={tol} max_iter=4000 {PAPERS}",
            self.levels, self.omega
        )
    }

    /// Returns a description for messages.
    pub fn name(&self) -> String {
        let Row { problem, nx, ny, levels, variant, omega, tol, .. } = self;
        format!("{problem} {nx}x{ny} levels {levels} {variant} omega {omega} tol {tol}")
    }
}

/// Returns the rows with exact iteration counts.
pub fn exact() -> Vec<Row> {
    Row::read(include_str!("../../golden/exact.csv"))
}

/// Returns the rows whose counts belong to another right-hand side.
pub fn random() -> Vec<Row> {
    Row::read(include_str!("../../golden/random.csv"))
}

/// Returns the rows whose counts depend on rounding.
pub fn rounding() -> Vec<Row> {
    Row::read(include_str!("../../golden/rounding.csv"))
}

/// A row with short formats and recursive cycles. Rows that differ only in the tolerance are consecutive.
pub struct Short {
    /// Name of the problem.
    pub problem: String,
    /// Number of nodes in x and in y.
    pub n: usize,
    /// Options for preconditioner and norm.
    pub options: String,
    /// Relative tolerance in the preconditioned norm.
    pub tol: f64,
    /// Iterations of the prototype.
    pub iterations: usize,
}

/// Returns all rows.
pub fn short() -> Vec<Short> {
    let row = |line: &str| {
        let word: Vec<&str> = line.split(',').collect();
        let [levels, cycle, spacing, steps, precision] = word[2..7] else { panic!("nine columns") };
        Short {
            problem: word[0].to_owned(),
            n: word[1].parse().expect("a number"),
            options: format!(
                "{PAPERS_NORM} levels={levels} cycle={cycle} cycle_spacing={spacing} cycle_steps={steps} \
                 precision={precision}"
            ),
            tol: word[7].parse().expect("a number"),
            iterations: word[8].parse().expect("a number"),
        }
    };
    include_str!("../../golden/short.csv").lines().skip(1).map(row).collect()
}

/// A row of V-cycles with block smoothers.
pub struct Cycle {
    /// Description for messages.
    pub name: String,
    /// Name of the stencil.
    pub stencil: String,
    /// Number of cells in each direction of the finest grid.
    pub n: i64,
    /// Number of cells of a block in x, y and z.
    pub block: [i64; 3],
    /// Number of sweeps before and after the coarse grid correction.
    pub sweeps: [i32; 2],
    /// Options of the smoothers before and after the coarse grid correction.
    pub options: [String; 2],
}

/// Returns all rows.
pub fn cycles() -> Vec<Cycle> {
    let row = |line: &str| {
        let word: Vec<&str> = line.split(',').collect();
        let block: Vec<i64> = word[3].split('x').map(|b| b.parse().expect("a block")).collect();
        let method = if word[2] == "bj" { "method=block_jacobi" } else { "method=coloured_gauss_seidel" };
        let options = format!("{method} omega={} stagger={}", word[6], word[7]);
        Cycle {
            name: line.to_owned(),
            stencil: word[0].to_owned(),
            n: word[1].parse().expect("a number"),
            block: [block[0], block[1], block[2]],
            sweeps: [4, 5].map(|k| word[k].parse().expect("a number")),
            options: [options.clone(), format!("{options} reverse={}", word[8])],
        }
    };
    include_str!("../../golden/vcycle.csv").lines().skip(1).map(row).collect()
}
