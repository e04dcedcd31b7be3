//! Common functions for the tests of this backend.

use crate::stencil::cells::{Cells, SevenPoints};
use rrbsolver_oracle::{System, pcg::pcg};
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

/// Returns the matrix as the backend reads it.
pub fn view_system(system: &System) -> SevenPoints<'_> {
    let [nx, ny, nz] = system.size;
    let [x, y, z] = &system.forward;
    SevenPoints { cells: Cells { nx, ny, nz }, center: &system.center, forward: [x, y, z] }
}

/// Returns n random numbers between -1 and 1.
pub fn random_vector(n: usize, seed: u64) -> Vec<f64> {
    let mut generator = SplitMix(seed);
    (0..n).map(|_| 2.0 * generator.unit() - 1.0).collect()
}

/// Runs PCG from zero for the right-hand side `rand` until the recurred residual is at most 1e-6 |b|. Checks the true
/// residual, and returns the number of iterations. `precondition` computes z = M^-1 r.
pub fn count_iterations(problem: &TwoPhase, precondition: &mut dyn FnMut(&[f64], &mut [f64])) -> usize {
    let b = problem.rhs("rand");
    let (x, iterations) = pcg(&System::of(problem), precondition, None, &b, (1e-6, 2000));
    let relative_residual = problem.relative_residual(&b, &x);
    assert!(relative_residual <= 1.01e-6, "{relative_residual:e} after {iterations} iterations");
    iterations
}

/// Returns whether the environment variable requests the golden rows of all sizes.
pub fn runs_all_rows() -> bool {
    std::env::var_os("RRBSOLVER_ALL_ROWS").is_some()
}

/// Returns whether an iteration count agrees with its golden value: within 1 if the golden value is at most 100, and
/// within 1 % otherwise.
pub fn agrees_with_golden(count: usize, golden: usize) -> bool {
    count.abs_diff(golden) <= if golden <= 100 { 1 } else { golden / 100 }
}
