//! E = Z^T A Z on a device, and its inverse.

use crate::common::dpcg::Solver;
use crate::common::{max_abs, max_difference, status};
use crate::device::Rows;
use rrbsolver::options::info;
use rrbsolver_problems::two_phase::TwoPhase;

/// E with more vectors than one step of its inversion processes, on several singular or regular components. One E is so
/// ill-conditioned that a product with its inverse would lose too many digits.
pub fn coarse_matrices_as_the_reference() {
    const INVERSE: i64 = 1;
    const CHOLESKY: i64 = 2;
    let of = |name: &str| TwoPhase::new(name, [15, 14, 13], 1e-3);
    // A wall without a hole, and behind it a matrix with positive row sums.
    let wall = |row_sum: f64| {
        let mut a = of("9");
        for c in (0..a.cells()).filter(|c| c % 15 == 7) {
            let coupling = std::mem::take(&mut a.forward[0][c]);
            a.center[c] += coupling;
            a.center[c + 1] += coupling;
        }
        (0..a.cells()).filter(|c| c % 15 > 7).for_each(|c| a.center[c] += row_sum);
        a
    };
    let mut hardly = of("9");
    hardly.center[0] *= 1.0 + 2e-12;
    let mut hardly_behind = wall(0.0);
    hardly_behind.center[14] *= 1.0 + 2e-12;
    let mut rows = Rows::default();
    for (name, a, solver) in [
        ("one component", of("9"), INVERSE),
        ("obstacles", of("surf;obs=box"), INVERSE),
        ("no singular component", of("9;dir=top"), INVERSE),
        ("two components", wall(0.0), INVERSE),
        ("one of two is singular", wall(1e-3), INVERSE),
        ("hardly any row sum", hardly, CHOLESKY),
        ("hardly any row sum of one of two components", hardly_behind, CHOLESKY),
    ] {
        for options in ["keep_all=0", "keep_all=1", "keep_all=1 deflation=levelset_subdomain"] {
            rows.row(&format!("{name}, {options}"), || {
                let text = format!("deflation=subdomain subdomains_x=5 subdomains_y=6 subdomains_z=4 {options}");
                let [reference, cuda] = ["reference", "cuda"]
                    .map(|backend| Solver::of(&a, &format!("backend={backend} preconditioner=jacobi {text}")));
                assert_eq!(cuda.int(info::DEFLATION_VECTORS), reference.int(info::DEFLATION_VECTORS));
                assert_eq!(cuda.int(info::COARSE_SOLVER), solver);
                // r has a nonzero mean: otherwise z would be the rounding error of its sum, divided by a row sum of
                // 2e-12.
                let r: Vec<f64> = a.rhs("rand").iter().map(|v| v + 1.0).collect();
                let (z, expected) = (cuda.apply(&r), reference.apply(&r));
                let off = max_difference(&z, &expected) / max_abs(&expected);
                // Rounding times the condition number of E, with and without a row sum of 2e-12.
                assert!(off <= if solver == CHOLESKY { 1e-3 } else { 1e-9 }, "{off:e} off");
            });
        }
    }
    rows.end();
}

/// Ponds in a row, each with a null vector. Ponds of one region have E = 0; others have two regions.
pub fn many_null_vectors() {
    const INVERSE: i64 = 1;
    let mut a = TwoPhase::new("9", [16, 6, 4], 1.0);
    let [nx, ..] = a.size;
    a.center.fill(0.0);
    a.forward.iter_mut().for_each(|couplings| couplings.fill(0.0));
    for c in (0..a.cells()).filter(|c| c % nx % 4 < 3) {
        a.forward[0][c] = -1.0;
        a.center[c] += 1.0;
        a.center[c + 1] += 1.0;
    }
    for boxes in [1, 8] {
        let options = format!("deflation=subdomain keep_all=1 subdomains_x={boxes} subdomains_y=1 subdomains_z=1");
        let [reference, cuda] = ["reference", "cuda"]
            .map(|backend| Solver::of(&a, &format!("backend={backend} preconditioner=jacobi {options}")));
        let vectors = if boxes == 1 { 96 } else { 192 };
        assert_eq!([&cuda, &reference].map(|solver| solver.int(info::DEFLATION_VECTORS)), [vectors; 2]);
        assert_eq!(cuda.int(info::COARSE_SOLVER), INVERSE);
        let r = a.rhs("rand");
        let (z, expected) = (cuda.apply(&r), reference.apply(&r));
        let off = max_difference(&z, &expected) / max_abs(&expected);
        // Only rounding errors remain, because E of a pond is [1 -1; -1 1].
        assert!(off <= 1e-13, "{boxes}: {off:e} off");
    }
}

/// E has more vectors than the CPU inverts. They are in one component, singular or regular, or in two components, also
/// with shifts.
pub fn many_vectors() {
    const INVERSE: i64 = 1;
    const CHOLESKY: i64 = 2;
    let options = "deflation=subdomain subdomains_x=11 subdomains_y=10 subdomains_z=12 preconditioner=jacobi";
    let mut rows = Rows::default();
    for name in ["9", "9;dir=top", "surf;obs=box"] {
        for keep_all in [0, 1] {
            rows.row(&format!("{name}, keep_all={keep_all}"), || {
                let a = TwoPhase::new(name, [33, 40, 36], 1e-3);
                let [cpu, cuda] = ["cpu", "cuda"]
                    .map(|backend| Solver::of(&a, &format!("backend={backend} keep_all={keep_all} {options}")));
                let solvers = [&cpu, &cuda].map(|solver| solver.int(info::COARSE_SOLVER));
                assert_eq!(solvers, [CHOLESKY, INVERSE]);
                assert_eq!(cuda.int(info::DEFLATION_VECTORS), cpu.int(info::DEFLATION_VECTORS));
                let r: Vec<f64> = a.rhs("rand").iter().map(|v| v + 1.0).collect();
                let (z, expected) = (cuda.apply(&r), cpu.apply(&r));
                let off = max_difference(&z, &expected) / max_abs(&expected);
                // Rounding times the condition number of E.
                assert!(off <= 1e-9, "{off:e} off");
            });
        }
    }
    rows.end();
}

/// A vector that covers a whole singular component has E = 0. Rounding errors of u^T A p must not return through it at
/// any scale of A, so it is not deflated.
pub fn lone_vectors() {
    for scale in [1.0, 2f64.powi(100)] {
        let mut a = TwoPhase::new("9", [12, 10, 8], 1e-3);
        let b = a.rhs("rand");
        a.center.iter_mut().chain(a.forward.iter_mut().flatten()).for_each(|v| *v *= scale);
        let one = "deflation=subdomain subdomains_x=1 subdomains_y=1 subdomains_z=1 keep_all=1";
        let [with, without] = [one, "deflation=none"].map(|deflation| {
            let solver = Solver::of(&a, &format!("backend=cuda preconditioner=jacobi rel_tol=1e-9 {deflation}"));
            let mut x = vec![0.0; b.len()];
            assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{deflation}, times {scale:e}");
            (solver.int(info::DEFLATION_VECTORS), solver.int(info::ITERATIONS))
        });
        assert_eq!([with.0, without.0], [1, 0]);
        // Rounding may change the count by one.
        assert!((with.1 - without.1).abs() <= 1, "{with:?}, {without:?}");
    }
}
