//! Multigrid with vertex coarsening for symmetric 7-point matrices: every second cell is a coarse point, interpolation
//! depends on the operator (Dendy 1982), coarse grids are Galerkin products on 27 points. One V(1,1) or V(2,2) cycle
//! from zero is the preconditioner M^-1; it is linear, symmetric and positive.
//!
//! Smoothers: on the cells of the matrix red-black Gauss-Seidel, before the coarse grid in colours (0, 1), after it in
//! (1, 0), colour (i + j + k) % 2; on coarse grids Jacobi
//!
//! ```text
//! x = x + 0.8 (r - A x) / max(D, (D + sum |c|)/2),
//! ```
//!
//! which is convergent in the norm of A for entries of any sign: by Gershgorin the eigenvalues of D'^-1 A are at most
//! 2, D' the divisor. On the coarsest grid an exact factor. Cycle and coarse matrices are in numbers of type T,
//! products in f64.

mod coarsest;
pub mod stencil;
#[cfg(test)]
pub mod tests;
pub mod transfer;

use crate::error::{Result, collected, push, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;
use crate::runtime::reduce::max_abs;
use coarsest::Coarsest;
use stencil::{HIERARCHY, Stencil};
use transfer::{Coarsened, SEMI};

/// A grid of at most so many points is solved exactly.
pub const COARSEST: usize = 1000;

/// Damping of Jacobi.
pub const DAMPING: f64 = 0.8;

/// Bounds of the coarsening.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub semi: f64,
    pub coarsest: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { semi: SEMI, coarsest: COARSEST }
    }
}

/// A grid that is smoothed, and the way to the next one.
struct Level<T> {
    /// Its matrix.
    a: Stencil<T>,
    /// Red-black Gauss-Seidel; else Jacobi.
    coloured: bool,
    /// The diagonal of that.
    diagonal: Vec<T>,
    /// 1 / divisor of the smoother.
    inverse: Vec<T>,
    /// Directions in which the next grid is coarser.
    coarsened: Coarsened,
    /// Extents of the next grid.
    coarse: Cells,
    /// Interpolation from there, see `Weights`.
    weights: Vec<[T; 8]>,
    x: Vec<T>,
    r: Vec<T>,
    /// A x, then the residual.
    residual: Vec<T>,
}

impl<T: Real> Level<T> {
    /// The level of matrix a, and the matrix of the next one.
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

    /// Gauss-Seidel on the cells of a matrix that was multiplied by `scale`: divides by the diagonal. A cell without
    /// couplings is its own equation.
    fn colour(&mut self, a: &SevenPoints, scale: f64) {
        self.coloured = true;
        for (p, center) in a.center.iter().enumerate() {
            self.inverse[p] = T::narrow(1.0 / (scale * center));
            if self.diagonal[p].wide() == 0.0 {
                self.diagonal[p] = T::narrow(scale * center);
            }
        }
    }

    /// The sweeps before the coarse grid in colours (0, 1), or after it in (1, 0).
    fn smooth(&mut self, sweeps: usize, colours: [usize; 2]) {
        for _ in 0..sweeps {
            if self.coloured { colours.into_iter().for_each(|colour| self.relax_colour(colour)) } else { self.relax() }
        }
    }

    /// residual = r - A x.
    fn take_residual(&mut self) {
        self.a.multiply(&self.diagonal, &self.x, &mut self.residual);
        self.residual.iter_mut().zip(&self.r).for_each(|(residual, r)| *residual = *r - *residual);
    }

    /// A half-sweep of Gauss-Seidel: the rows of a colour.
    fn relax_colour(&mut self, colour: usize) {
        self.take_residual();
        for p in (0..self.x.len()).filter(|&p| self.a.cells.place(p).iter().sum::<usize>() % 2 == colour) {
            self.x[p] += self.residual[p] * self.inverse[p];
        }
    }

    /// A sweep of Jacobi.
    fn relax(&mut self) {
        self.take_residual();
        self.x.iter_mut().zip(&self.residual).zip(&self.inverse).for_each(|((x, r), inverse)| *x += *r * *inverse);
    }

    /// Calls `f` with every point, the coarse points that interpolate to it, and their weights.
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

/// Grids from one that is smoothed to the coarsest one.
pub struct Grids<T> {
    sweeps: usize,
    levels: Vec<Level<T>>,
    coarsest: Coarsest,
    /// Of the coarsest grid.
    x: Vec<f64>,
}

impl<T: Real> Grids<T> {
    /// All below matrix a, which is smoothed by Jacobi if it is not the coarsest one itself.
    pub fn new(a: Stencil<T>, sweeps: usize, bounds: Bounds) -> Result<Self> {
        Self::below(Vec::new(), a, sweeps, bounds)
    }

    fn below(mut levels: Vec<Level<T>>, mut a: Stencil<T>, sweeps: usize, bounds: Bounds) -> Result<Self> {
        while a.cells.count() > bounds.coarsest {
            let (level, coarser) = Level::new(a, bounds.semi)?;
            push(&mut levels, level, HIERARCHY)?;
            a = coarser;
        }
        Ok(Self { sweeps, levels, coarsest: Coarsest::new(&a)?, x: zeroed(a.cells.count(), HIERARCHY)? })
    }

    /// One V-cycle from zero: x is r, then about A^-1 r.
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

    /// One V-cycle from zero on grid l and below.
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

    /// Bytes.
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
    /// A power of two by which the matrix is multiplied: single precision has its range around one.
    scale: f64,
    grids: Grids<T>,
}

impl<T: Real> Vertex<T> {
    /// For a matrix; `sweeps` of the smoother before and after the coarse grid: 1 or 2.
    pub fn new(a: &SevenPoints, sweeps: usize) -> Result<Self> {
        Self::with(a, sweeps, Bounds::default())
    }

    /// The same within other bounds.
    pub fn with(a: &SevenPoints, sweeps: usize, bounds: Bounds) -> Result<Self> {
        let scale = inverse_power(max_abs(a.center));
        let (mut finest, next) = Level::new(Stencil::of(a, scale)?, bounds.semi)?;
        finest.colour(a, scale);
        Ok(Self { scale, grids: Grids::below(collected([finest], HIERARCHY)?, next, sweeps, bounds)? })
    }

    /// z = M^-1 r, a the matrix that it was made of.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        debug_assert_eq!(a.cells, self.grids.levels[0].a.cells);
        self.cycle(r, z);
    }

    /// z = M^-1 r.
    pub fn cycle(&mut self, r: &[f64], z: &mut [f64]) {
        let finest = &mut self.grids.levels[0];
        let scale = inverse_power(max_abs(r));
        finest.r.iter_mut().zip(r).for_each(|(of, r)| *of = T::narrow(scale * r));
        self.grids.cycle(0);
        let back = self.scale / scale;
        z.iter_mut().zip(&self.grids.levels[0].x).for_each(|(z, x)| *z = x.wide() * back);
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.grids.bytes()
    }
}

/// What Jacobi divides the residual by.
fn jacobi_divisor<T: Real>(a: &Stencil<T>, p: usize) -> f64 {
    let [sum, size] = a.sums(p);
    let diagonal = sum + a.excess[p];
    f64::max(diagonal, (diagonal + size) / 2.0) / DAMPING
}

/// The power of two that brings a magnitude into [1, 2); 1 for zero.
pub fn inverse_power(magnitude: f64) -> f64 {
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().floor()).exp2() } else { 1.0 }
}
