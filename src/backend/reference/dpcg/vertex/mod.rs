//! Multigrid with vertex coarsening for symmetric 7-point matrices: every second cell is a coarse point, interpolation
//! depends on the operator (Dendy 1982), coarse grids are Galerkin products on 27 points. One V(1,1) or V(2,2) cycle from zero
//! is the preconditioner M^-1; it is linear, symmetric and positive.
//!
//! Smoothers: on the cells of the matrix red-black Gauss-Seidel, before the coarse grid in colours (0, 1), after it in (1, 0),
//! colour (i + j + k) % 2; on coarse grids Jacobi
//!
//! ```text
//! x = x + 0.8 (r - A x) / max(D, (D + sum |c|)/2),
//! ```
//!
//! which is convergent in the norm of A for entries of any sign: by Gershgorin the eigenvalues of D'^-1 A are at most 2, D' the
//! divisor. On the coarsest grid an exact factor. Cycle and coarse matrices are in numbers of type T, products in f64.

mod coarsest;
pub mod stencil;
#[cfg(test)]
mod tests;
mod transfer;

use crate::error::{Result, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;
use crate::runtime::reduce::max_abs;
use coarsest::Coarsest;
use stencil::{HIERARCHY, Stencil};
use transfer::{Coarsened, SEMI, Weights};

/// A grid of at most so many points is solved exactly.
const COARSEST: usize = 1000;

/// Damping of Jacobi.
const DAMPING: f64 = 0.8;

/// The directions in which the first coarse grid of a matrix is coarser than its cells.
pub fn coarsened(a: &SevenPoints) -> Result<Coarsened> {
    Ok(transfer::directions(a.cells, transfer::strengths(&Stencil::<f64>::of(a, 1.0)?), SEMI))
}

/// Bounds of the coarsening.
#[derive(Clone, Copy)]
struct Bounds {
    semi: f64,
    coarsest: usize,
}

/// A grid that is smoothed, and the way to the next one.
pub struct Level<T> {
    /// Its matrix.
    pub a: Stencil<T>,
    /// The diagonal of that.
    pub diagonal: Vec<T>,
    /// 1 / divisor of the smoother.
    pub inverse: Vec<T>,
    /// Directions in which the next grid is coarser.
    pub coarsened: Coarsened,
    /// Extents of the next grid.
    pub coarse: Cells,
    /// Interpolation from there, see `Weights`.
    pub weights: Vec<[T; 8]>,
    x: Vec<T>,
    r: Vec<T>,
    /// A x, then the residual.
    residual: Vec<T>,
}

impl<T: Real> Level<T> {
    /// The level of matrix a, and the matrix of the next one.
    fn new(a: Stencil<T>, smoother: impl Fn(&Stencil<T>, usize) -> f64, semi: f64) -> Result<(Self, Stencil<T>)> {
        let n = a.cells.count();
        let coarsened = transfer::directions(a.cells, transfer::strengths(&a), semi);
        let coarse = transfer::coarse_cells(a.cells, coarsened);
        let exact = transfer::weights(&a, coarsened)?;
        let next = transfer::product(&a, &exact, coarsened)?;
        let inverted = |d: f64| if d > 0.0 { 1.0 / d } else { 0.0 };
        let mut level = Self {
            diagonal: rounded(&a.diagonal()?)?,
            inverse: zeroed(n, HIERARCHY)?,
            coarsened,
            coarse,
            weights: zeroed(n, HIERARCHY)?,
            x: zeroed(n, HIERARCHY)?,
            r: zeroed(n, HIERARCHY)?,
            residual: zeroed(n, HIERARCHY)?,
            a,
        };
        for p in 0..n {
            level.inverse[p] = T::narrow(inverted(smoother(&level.a, p)));
            level.weights[p] = exact[p].map(T::narrow);
        }
        Ok((level, next))
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

fn rounded<T: Real>(values: &[f64]) -> Result<Vec<T>> {
    crate::error::collected(values.iter().map(|&v| T::narrow(v)), HIERARCHY)
}

/// The preconditioner.
pub struct Vertex<T: Real> {
    sweeps: usize,
    /// A power of two by which the matrix is multiplied: single precision has its range around one.
    scale: f64,
    levels: Vec<Level<T>>,
    coarsest: Coarsest,
    /// Of the coarsest grid.
    x: Vec<f64>,
}

impl<T: Real> Vertex<T> {
    /// For a matrix; `sweeps` of the smoother before and after the coarse grid: 1 or 2.
    pub fn new(a: &SevenPoints, sweeps: usize) -> Result<Self> {
        Self::with(a, sweeps, Bounds { semi: SEMI, coarsest: COARSEST })
    }

    fn with(a: &SevenPoints, sweeps: usize, bounds: Bounds) -> Result<Self> {
        let scale = inverse_power(max_abs(a.center));
        let mut levels: Vec<Level<T>> = Vec::new();
        // Gauss-Seidel divides by the diagonal.
        let (mut finest, mut next) = Level::<T>::new(Stencil::of(a, scale)?, |_, p| scale * a.center[p], bounds.semi)?;
        // A cell without couplings is its own equation.
        for (diagonal, center) in finest.diagonal.iter_mut().zip(a.center).filter(|(d, _)| d.wide() == 0.0) {
            *diagonal = T::narrow(scale * center);
        }
        crate::error::push(&mut levels, finest, HIERARCHY)?;
        while next.cells.count() > bounds.coarsest {
            let (level, coarser) = Level::new(next, jacobi_divisor, bounds.semi)?;
            crate::error::push(&mut levels, level, HIERARCHY)?;
            next = coarser;
        }
        Ok(Self { sweeps, scale, levels, coarsest: Coarsest::new(&next)?, x: zeroed(next.cells.count(), HIERARCHY)? })
    }

    /// All grids but the coarsest one.
    pub fn levels(&self) -> &[Level<T>] {
        &self.levels
    }

    /// What the matrix is multiplied by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Of the coarsest grid, the inverse that `apply` stands for there.
    pub fn coarsest_inverse(&mut self) -> Result<Vec<f64>> {
        let n = self.x.len();
        let mut inverse = zeroed(n * n, HIERARCHY)?;
        // It is symmetric.
        for (k, row) in inverse.chunks_exact_mut(n).enumerate() {
            row[k] = 1.0;
            self.coarsest.solve(row);
        }
        Ok(inverse)
    }

    /// z = M^-1 r.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        debug_assert_eq!(a.cells, self.levels[0].a.cells);
        let scale = inverse_power(max_abs(r));
        self.levels[0].r.iter_mut().zip(r).for_each(|(of, r)| *of = T::narrow(scale * r));
        self.cycle(0);
        let back = self.scale / scale;
        z.iter_mut().zip(&self.levels[0].x).for_each(|(z, x)| *z = x.wide() * back);
    }

    /// One V-cycle from zero on grid l and below.
    fn cycle(&mut self, l: usize) {
        let (here, below) = self.levels.split_at_mut(l + 1);
        let level = &mut here[l];
        level.x.fill(T::default());
        smooth(level, l, self.sweeps, [0, 1]);
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
        smooth(level, l, self.sweeps, [1, 0]);
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

/// The sweeps before or after the coarse grid.
fn smooth<T: Real>(level: &mut Level<T>, l: usize, sweeps: usize, colours: [usize; 2]) {
    for _ in 0..sweeps {
        if l == 0 { colours.into_iter().for_each(|colour| level.relax_colour(colour)) } else { level.relax() }
    }
}

/// What Jacobi divides the residual by.
fn jacobi_divisor<T: Real>(a: &Stencil<T>, p: usize) -> f64 {
    let [sum, size] = a.sums(p);
    let diagonal = sum + a.excess[p];
    f64::max(diagonal, (diagonal + size) / 2.0) / DAMPING
}

/// The power of two that brings a magnitude into [1, 2); 1 for zero.
fn inverse_power(magnitude: f64) -> f64 {
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().floor()).exp2() } else { 1.0 }
}
