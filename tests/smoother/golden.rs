//! Golden numbers of block relaxation (`tests/golden/smoother.csv`): one 64^3 patch, f = 0, ghosts 0, u random from
//! SplitMix64 with seed 42.

#[path = "../common/mod.rs"]
mod common;

use common::smoother::*;

#[test]
fn cpu() {
    check_golden("backend=cpu threads=2", |_| true);
}

#[test]
fn cpu_dense() {
    check_golden("backend=cpu threads=2 block_solver=dense", |r| r.block.iter().product::<i64>() <= 64);
}

#[test]
fn reference() {
    check_golden("backend=reference", |r| r.block == [2, 2, 2] || (r.block == [4, 4, 2] && r.stencil != "aniso7"));
    check_golden("backend=reference", |r| r.block == [8, 8, 8] && ["conv7", "fe27"].contains(&r.stencil.as_str()));
}

/// Returns the asymptotic convergence factor of a sweep, by power iteration from the lowest sine mode.
fn factor(options: &str, n: i64, block: [i64; 3]) -> f64 {
    let mut level = Level::cube(n);
    let wave = |i: i64| (std::f64::consts::PI * (i + 1) as f64 / (n + 1) as f64).sin();
    level.set(|[i, j, k]| wave(i) * wave(j) * wave(k), |_| 0.0);
    let smoother = Smoother::of(&stencil("poisson7"), block, options, &level);
    let mut before = f64::NAN;
    for _ in 0..20_000 {
        let start = smoother.norm(&mut level);
        smoother.apply(&mut level, 1).unwrap();
        let rho = smoother.norm(&mut level) / start;
        level.u[0].iter_mut().for_each(|u| *u /= rho);
        // The change of the ratio is smaller than its distance to the limit, by one minus the ratio of the two largest
        // factors.
        if (rho - before).abs() < 1e-12 {
            return rho;
        }
        before = rho;
    }
    panic!("{options} {block:?}: no limit");
}

/// A 7-point matrix of blocks is consistently ordered. The factor of red-black and of lexicographic block Gauss-Seidel
/// is therefore (1 - (1 - rho_J) / omega)^2, where rho_J is the factor of block Jacobi with omega.
#[test]
fn red_black_against_jacobi() {
    for (n, block) in [(24, [8, 8, 8]), (24, [4, 4, 4]), (16, [2, 2, 2]), (20, [8, 4, 2])] {
        let jacobi = factor("method=block_jacobi omega=0.8", n, block);
        let expected = (1.0 - (1.0 - jacobi) / 0.8).powi(2);
        for method in ["", "method=chaotic_gauss_seidel parallel=patch"] {
            let found = factor(method, n, block);
            assert!((found - expected).abs() < 1e-6, "{method} {block:?}: {found} {expected}");
        }
    }
}
