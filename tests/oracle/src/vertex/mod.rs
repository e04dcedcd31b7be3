//! One V-cycle of multigrid with vertex coarsening (Dendy 1982). The smoother on the finest grid is red-black
//! Gauss-Seidel, on coarse grids damped Jacobi x = x + 0.8 (r - A x) / max(D, (D + sum |c|)/2). The coarsest grid is
//! factorized exactly.

mod stencil;
mod transfer;

use crate::System;
use crate::dense::Dense;
use stencil::Stencil;
use transfer::{Coarsened, Weights};

/// Damping factor of Jacobi.
const DAMPING: f64 = 0.8;

/// Parameters of the coarsening.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// A direction is coarsened if its couplings are at least 1 / `semi` of the strongest.
    pub semi: f64,
    /// Largest number of points of the coarsest grid.
    pub coarsest: usize,
    /// A component of the coarsest grid is singular if its row sums add up to at most this value.
    pub singular: f64,
}

/// A grid with a smoother, and the interpolation from the next coarser grid.
struct Level {
    a: Stencil,
    /// Whether the smoother is red-black Gauss-Seidel; otherwise it is Jacobi.
    coloured: bool,
    diagonal: Vec<f64>,
    /// Divisor of the smoother. If it is infinite, the point is not smoothed.
    divisor: Vec<f64>,
    coarsened: Coarsened,
    weights: Vec<Weights>,
}

/// The preconditioner.
pub struct Vertex {
    sweeps: usize,
    levels: Vec<Level>,
    coarsest: Dense,
}

impl Vertex {
    /// Computes the preconditioner of a matrix, with at least one coarse grid. `sweeps`: smoothing steps before and
    /// after the coarse-grid correction.
    pub fn new(system: &System, sweeps: usize, bounds: Bounds) -> Self {
        let mut a = Stencil::of(system);
        let mut levels: Vec<Level> = Vec::new();
        while levels.is_empty() || a.row_sums.len() > bounds.coarsest {
            let coarsened = transfer::directions(&a, bounds.semi);
            let weights = transfer::weights(&a, coarsened);
            let next = transfer::product(&a, &weights, coarsened);
            let points = 0..a.row_sums.len();
            let mut diagonal: Vec<f64> = points.clone().map(|p| a.diagonal(p)).collect();
            let jacobi = |p: usize| f64::max(diagonal[p], (diagonal[p] + a.sums(p)[1]) / 2.0) / DAMPING;
            let mut divisor: Vec<f64> = points.map(jacobi).map(|d| if d > 0.0 { d } else { f64::INFINITY }).collect();
            if levels.is_empty() {
                divisor.clone_from(&system.center);
                // A cell without couplings is solved by its own equation.
                let empty = |d: &f64| *d == 0.0;
                diagonal.iter_mut().zip(&system.center).filter(|(d, _)| empty(d)).for_each(|(d, c)| *d = *c);
            }
            levels.push(Level { coloured: levels.is_empty(), a, diagonal, divisor, coarsened, weights });
            a = next;
        }
        let mut couplings = Vec::new();
        for p in 0..a.row_sums.len() {
            a.each(p, |_, q, c| couplings.push((p, q, c)));
        }
        Self { sweeps, levels, coarsest: Dense::new(&couplings, &a.row_sums, 1e-14, bounds.singular) }
    }

    /// Computes z = M^-1 r.
    pub fn apply(&self, r: &[f64], z: &mut [f64]) {
        z.copy_from_slice(&self.cycle(0, r.to_vec()));
    }

    fn cycle(&self, l: usize, r: Vec<f64>) -> Vec<f64> {
        let Some(level) = self.levels.get(l) else {
            let mut x = r;
            self.coarsest.solve(&mut x);
            return x;
        };
        let mut x = vec![0.0; r.len()];
        level.smooth(self.sweeps, [0, 1], &r, &mut x);
        let residual = level.residual(&r, &x);
        let mut coarse = vec![0.0; transfer::coarse_size(level.a.size, level.coarsened).iter().product()];
        level.each_weight(|p, coarse_p, weight| coarse[coarse_p] += weight * residual[p]);
        let e = self.cycle(l + 1, coarse);
        level.each_weight(|p, coarse, weight| x[p] += weight * e[coarse]);
        level.smooth(self.sweeps, [1, 0], &r, &mut x);
        x
    }
}

impl Level {
    fn each_weight(&self, f: impl FnMut(usize, usize, f64)) {
        transfer::each_weight(&self.weights, self.a.size, self.coarsened, f);
    }

    /// Executes the sweeps. The colours are (0, 1) before the coarse-grid correction and (1, 0) after it.
    fn smooth(&self, sweeps: usize, colours: [usize; 2], r: &[f64], x: &mut [f64]) {
        for colour in std::iter::repeat_n(colours, sweeps).flatten() {
            if !self.coloured && colour != colours[0] {
                continue;
            }
            let residual = self.residual(r, x);
            let red = |p: usize| crate::place(self.a.size, p).iter().sum::<usize>() % 2 == colour;
            for p in (0..r.len()).filter(|&p| !self.coloured || red(p)) {
                x[p] += residual[p] / self.divisor[p];
            }
        }
    }

    fn residual(&self, r: &[f64], x: &[f64]) -> Vec<f64> {
        let of = |p: usize| r[p] - (self.diagonal[p] * x[p] - self.a.gathered(p, x));
        (0..r.len()).map(of).collect()
    }
}
