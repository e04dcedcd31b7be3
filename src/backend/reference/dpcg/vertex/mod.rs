//! Multigrid with vertex coarsening for symmetric 7-point matrices (Dendy 1982). Every second cell is a coarse point,
//! the interpolation depends on the operator, and coarse matrices are Galerkin products with 27 points. The
//! preconditioner M^-1 is one V(1,1) or V(2,2) cycle from zero. It is linear, symmetric and positive definite.
//!
//! The smoother on the finest grid is red-black Gauss-Seidel with the colour (i + j + k) % 2. Before the coarse-grid
//! correction, colour 0 is updated first; after the correction, colour 0 is updated last. The smoother on coarse grids
//! is damped Jacobi
//!
//! ```text
//! x = x + 0.8 (r - A x) / max(D, (D + sum |c|)/2),
//! ```
//!
//! which converges in the norm of A for entries of any sign. By Gershgorin's theorem, the eigenvalues of D'^-1 A are at
//! most 2, where D' = max(D, (D + sum |c|)/2). The coarsest grid is factorized exactly. The cycle and the coarse
//! matrices use the type T, Galerkin products use f64.

pub mod stencil;
#[cfg(test)]
pub mod tests;
pub mod transfer;

use crate::backend::aggregation::Means;
use crate::backend::coarse::direct::{Direct, box_order};
use crate::error::{Result, collected, push, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;
use crate::runtime::reduce::max_abs;
use stencil::{HIERARCHY, Stencil};
use transfer::{Coarsened, SEMI};

/// Largest number of points of the coarsest grid, which is solved exactly.
pub const COARSEST: usize = 1000;

/// Damping factor of Jacobi.
pub const DAMPING: f64 = 0.8;

/// Parameters of the coarsening: limit of semicoarsening, and largest size of the coarsest grid.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub semi: f64,
    pub coarsest: usize,
    /// Row sums that add up to at most this make a component of the coarsest grid singular.
    pub singular: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { semi: SEMI, coarsest: COARSEST, singular: 0.0 }
    }
}

/// A grid with a smoother, and the interpolation from the next coarser grid.
struct Level<T> {
    /// Its matrix.
    a: Stencil<T>,
    /// Whether the smoother is red-black Gauss-Seidel; otherwise it is Jacobi.
    coloured: bool,
    /// Diagonal of the matrix.
    diagonal: Vec<T>,
    /// Reciprocal divisor of the smoother.
    inverse: Vec<T>,
    /// Directions in which the next grid is coarser.
    coarsened: Coarsened,
    /// Extents of the next coarser grid.
    coarse: Cells,
    /// Interpolation from the next coarser grid, see `Weights`.
    weights: Vec<[T; 8]>,
    x: Vec<T>,
    r: Vec<T>,
    /// Workspace for A x, then the residual.
    residual: Vec<T>,
}

impl<T: Real> Level<T> {
    /// Returns the level of matrix a, and the matrix of the next coarser level.
    fn new(a: Stencil<T>, semi: f64) -> Result<(Self, Stencil<T>)> {
        let n = a.cells.count();
        let coarsened = transfer::directions(a.cells, transfer::strengths(&a), semi);
        let coarse = transfer::coarse_cells(a.cells, coarsened);
        let exact = transfer::weights(&a, coarsened)?;
        let next = transfer::product(&a, &exact, coarsened)?;
        let mut level = Self {
            coloured: false,
            diagonal: collected(a.diagonal()?.iter().map(|&d| T::narrow(d)), HIERARCHY)?,
            inverse: zeroed(n, HIERARCHY)?,
            coarsened,
            coarse,
            weights: collected(exact.iter().map(|weights| weights.map(T::narrow)), HIERARCHY)?,
            x: zeroed(n, HIERARCHY)?,
            r: zeroed(n, HIERARCHY)?,
            residual: zeroed(n, HIERARCHY)?,
            a,
        };
        for p in 0..n {
            let divisor = jacobi_divisor(&level.a, p);
            level.inverse[p] = T::narrow(if divisor > 0.0 { 1.0 / divisor } else { 0.0 });
        }
        Ok((level, next))
    }

    /// Selects Gauss-Seidel for the finest grid, whose matrix is `scale` times `a`: divides by the diagonal. A cell
    /// without couplings is solved by its own equation.
    fn colour(&mut self, a: &SevenPoints, scale: f64) {
        self.coloured = true;
        for (p, center) in a.center.iter().enumerate() {
            self.inverse[p] = T::narrow(1.0 / (scale * center));
            if self.diagonal[p].wide() == 0.0 {
                self.diagonal[p] = T::narrow(scale * center);
            }
        }
    }

    /// Executes the sweeps. The colours are (0, 1) before the coarse-grid correction and (1, 0) after it.
    fn smooth(&mut self, sweeps: usize, colours: [usize; 2]) {
        for _ in 0..sweeps {
            if self.coloured { colours.into_iter().for_each(|colour| self.relax_colour(colour)) } else { self.relax() }
        }
    }

    /// Computes residual = r - A x.
    fn take_residual(&mut self) {
        self.a.multiply(&self.diagonal, &self.x, &mut self.residual);
        self.residual.iter_mut().zip(&self.r).for_each(|(residual, r)| *residual = *r - *residual);
    }

    /// Executes a half-sweep of Gauss-Seidel for the rows of a colour.
    fn relax_colour(&mut self, colour: usize) {
        self.take_residual();
        for p in (0..self.x.len()).filter(|&p| self.a.cells.place(p).iter().sum::<usize>() % 2 == colour) {
            self.x[p] += self.residual[p] * self.inverse[p];
        }
    }

    /// Executes a Jacobi step.
    fn relax(&mut self) {
        self.take_residual();
        self.x.iter_mut().zip(&self.residual).zip(&self.inverse).for_each(|((x, r), inverse)| *x += *r * *inverse);
    }

    /// Calls `f(p, coarse, weight)` for each point and each coarse point that interpolates to it.
    fn each_weight(&self, mut f: impl FnMut(usize, usize, T)) {
        let [sx, sy, sz] = self.coarse.steps();
        for (p, weights) in self.weights.iter().enumerate() {
            let [i, j, k] = transfer::below(self.a.cells.place(p), self.coarsened);
            for (t, &weight) in weights.iter().enumerate().filter(|(_, w)| w.wide() != 0.0) {
                f(p, (i + (t & 1)) * sx + (j + (t >> 1 & 1)) * sy + (k + (t >> 2)) * sz, weight);
            }
        }
    }
}

/// Grids from a smoothed grid to the coarsest grid.
pub struct Grids<T> {
    sweeps: usize,
    levels: Vec<Level<T>>,
    coarsest: Direct,
    /// Right-hand side and solution on the coarsest grid.
    x: Vec<f64>,
}

impl<T: Real> Grids<T> {
    /// Computes the grids below matrix a. Its smoother is Jacobi, unless it is the coarsest grid.
    pub fn new(a: Stencil<T>, sweeps: usize, bounds: Bounds) -> Result<Self> {
        Self::below(Vec::new(), a, sweeps, bounds)
    }

    fn below(mut levels: Vec<Level<T>>, mut a: Stencil<T>, sweeps: usize, bounds: Bounds) -> Result<Self> {
        while a.cells.count() > bounds.coarsest {
            let (level, coarser) = Level::new(a, bounds.semi)?;
            push(&mut levels, level, HIERARCHY)?;
            a = coarser;
        }
        let coarsest = coarsest(&a, bounds.singular)?;
        Ok(Self { sweeps, levels, coarsest, x: zeroed(a.cells.count(), HIERARCHY)? })
    }

    /// Executes one V-cycle from zero: x contains r on entry, and an approximation of A^-1 r on return.
    pub fn solve(&mut self, x: &mut [T]) {
        match self.levels.first_mut() {
            Some(first) => {
                first.r.copy_from_slice(x);
                self.cycle(0);
                x.copy_from_slice(&self.levels[0].x);
            }
            None => {
                self.x.iter_mut().zip(&*x).for_each(|(of, x)| *of = x.wide());
                self.coarsest.solve(&mut self.x);
                x.iter_mut().zip(&self.x).for_each(|(x, of)| *x = T::narrow(*of));
            }
        }
    }

    /// Executes one V-cycle from zero on grid l and all coarser grids.
    fn cycle(&mut self, l: usize) {
        let (here, below) = self.levels.split_at_mut(l + 1);
        let level = &mut here[l];
        level.x.fill(T::default());
        level.smooth(self.sweeps, [0, 1]);
        level.take_residual();
        match below.first_mut() {
            Some(next) => {
                next.r.fill(T::default());
                level.each_weight(|p, coarse, weight| next.r[coarse] += weight * level.residual[p]);
            }
            None => {
                self.x.fill(0.0);
                level.each_weight(|p, coarse, weight| self.x[coarse] += (weight * level.residual[p]).wide());
            }
        }
        if l + 1 < self.levels.len() {
            self.cycle(l + 1)
        } else {
            self.coarsest.solve(&mut self.x)
        }
        let (here, below) = self.levels.split_at_mut(l + 1);
        let level = &mut here[l];
        let mut x = std::mem::take(&mut level.x);
        match below.first() {
            Some(next) => level.each_weight(|p, coarse, weight| x[p] += weight * next.x[coarse]),
            None => level.each_weight(|p, coarse, weight| x[p] += weight * T::narrow(self.x[coarse])),
        }
        level.x = x;
        level.smooth(self.sweeps, [1, 0]);
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let of = |level: &Level<T>| {
            let n = level.x.len();
            level.a.bytes() + n * 5 * size_of::<T>() + n * size_of::<[T; 8]>()
        };
        self.levels.iter().map(of).sum::<usize>() + self.coarsest.bytes() + 8 * self.x.len()
    }
}

/// The preconditioner.
pub struct Vertex<T: Real> {
    /// Power of two by which the matrix is multiplied, so that its largest diagonal entry is in [1, 2).
    scale: f64,
    grids: Grids<T>,
}

impl<T: Real> Vertex<T> {
    /// Computes the preconditioner of a matrix. `sweeps` (1 or 2): smoothing steps before and after the coarse-grid
    /// correction.
    pub fn new(a: &SevenPoints, sweeps: usize) -> Result<Self> {
        Self::with(a, sweeps, Bounds::default())
    }

    /// Computes the preconditioner with other parameters of the coarsening.
    pub fn with(a: &SevenPoints, sweeps: usize, bounds: Bounds) -> Result<Self> {
        let scale = inverse_power(max_abs(a.center));
        let (mut finest, next) = Level::new(Stencil::of(a, scale)?, bounds.semi)?;
        finest.colour(a, scale);
        Ok(Self { scale, grids: Grids::below(collected([finest], HIERARCHY)?, next, sweeps, bounds)? })
    }

    /// Computes z = M^-1 r; `a` is the matrix of the setup.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        debug_assert_eq!(a.cells, self.grids.levels[0].a.cells);
        self.cycle(r, z);
    }

    /// Computes z = M^-1 r.
    pub fn cycle(&mut self, r: &[f64], z: &mut [f64]) {
        let finest = &mut self.grids.levels[0];
        let scale = inverse_power(max_abs(r));
        finest.r.iter_mut().zip(r).for_each(|(of, r)| *of = T::narrow(scale * r));
        self.grids.cycle(0);
        let back = self.scale / scale;
        z.iter_mut().zip(&self.grids.levels[0].x).for_each(|(z, x)| *z = x.wide() * back);
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.grids.bytes()
    }
}

/// Factorizes the matrix of the coarsest grid. A pivot that is at most a small fraction of its diagonal is rounding;
/// its point has the value zero in every solution.
fn coarsest<T: Real>(a: &Stencil<T>, singular: f64) -> Result<Direct> {
    const ZERO_PIVOT: f64 = 1e-14;
    let c = a.couplings()?;
    let means = Means::of(&c, |_, _| singular)?;
    Direct::of(&c, box_order(a.cells)?, means, |p, d| Ok(if d <= ZERO_PIVOT * c.diagonal[p] { 0.0 } else { 1.0 / d }))
}

/// Returns the divisor of the damped Jacobi smoother in row p.
fn jacobi_divisor<T: Real>(a: &Stencil<T>, p: usize) -> f64 {
    let [sum, size] = a.sums(p);
    let diagonal = sum + a.excess[p];
    f64::max(diagonal, (diagonal + size) / 2.0) / DAMPING
}

/// Returns the power of two that scales a magnitude into [1, 2), or 1 for zero.
pub fn inverse_power(magnitude: f64) -> f64 {
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().floor()).exp2() } else { 1.0 }
}
