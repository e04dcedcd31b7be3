//! Tests `cycle=aggregation` on Poisson systems over bathymetries. The files (.asc, .asc.gz) are in tests/data, and
//! optionally in the folder that `RRBSOLVER_TEST_BATHYMETRIES` names.

use rrbsolver::options::info;
use rrbsolver_benches::bathymetry;
use rrbsolver_benches::solver::Solver;
use rrbsolver_problems::{Stencil, random_rhs};
use std::path::{Path, PathBuf};

/// Water shallower than this is land [m].
const LEAST_DEPTH: f64 = 0.3;

/// Returns the files of depths. Files of currents in the same folder are omitted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        let name = file.to_string_lossy();
        (name.ends_with(".asc") || name.ends_with(".asc.gz")) && !name.contains("_current_")
    });
    files.sort();
    files
}

/// Returns for each node the first node of its basin, the set of nodes that are connected by couplings.
fn basins(a: &Stencil) -> Vec<usize> {
    let mut first: Vec<usize> = (0..a.len()).collect();
    fn root(first: &mut [usize], mut p: usize) -> usize {
        while first[p] != p {
            first[p] = first[first[p]];
            p = first[p];
        }
        p
    }
    for (p, q, _) in a.couplings().into_iter().filter(|(_, _, value)| *value != 0.0) {
        let (p, q) = (root(&mut first, p), root(&mut first, q));
        first[p.max(q)] = p.min(q);
    }
    (0..a.len()).map(|p| root(&mut first, p)).collect()
}

/// Random right-hand side with mean zero in each basin, so that it is in the range of a singular A. It is 0 on land.
fn noise(a: &Stencil) -> Vec<f64> {
    let (mut b, of) = (random_rhs(a.len(), 5), basins(a));
    let (mut sum, mut count) = (vec![0.0; a.len()], vec![0.0; a.len()]);
    for (b, &basin) in b.iter().zip(&of) {
        sum[basin] += b;
        count[basin] += 1.0;
    }
    b.iter_mut().zip(&of).for_each(|(b, &basin)| *b -= sum[basin] / count[basin]);
    b
}

/// Systems with a small mass term and singular systems need at most 25 iterations to 1e-6. The results are bitwise
/// identical for any number of threads.
#[test]
fn aggregation_on_bathymetries() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let more = std::env::var_os("RRBSOLVER_TEST_BATHYMETRIES").map(PathBuf::from);
    let all: Vec<PathBuf> = [Some(stored), more].into_iter().flatten().flat_map(|folder| files(&folder)).collect();
    assert!(!all.is_empty());
    for file in all {
        let depths = bathymetry::read(&file).unwrap();
        for mass in [1e-6, 0.0] {
            let a = depths.poisson(LEAST_DEPTH, mass);
            let b = noise(&a);
            let solved = [1, 2, 3, 7].map(|threads| {
                let options = format!("backend=cpu cycle=aggregation threads={threads}");
                let mut solver = Solver::new(a.nx, a.ny, &options).unwrap();
                solver.factorize(&a).unwrap();
                let mut x = vec![0.0; a.len()];
                assert!(solver.solve(&b, &mut x).unwrap(), "{}, mass {mass:e}", file.display());
                (solver.int(info::ITERATIONS), x)
            });
            let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
            let (iterations, x) = &solved[0];
            println!("{}, mass {mass:e}: {iterations} iterations", file.display());
            assert!(*iterations <= 25, "{}, mass {mass:e}: {iterations}", file.display());
            assert!(norm(&a.residual(&b, x)) <= 1e-6 * norm(&b), "{}, mass {mass:e}", file.display());
            let same = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits());
            assert!(solved[1..].iter().all(|(_, other)| same(x, other)), "{}, mass {mass:e}", file.display());
        }
    }
}
