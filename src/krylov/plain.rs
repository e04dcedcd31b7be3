//! Steps of a solve as plain loops over vectors of the host, for all families. A family adds its matrix and its
//! preconditioner ([`System`]).

use crate::base::reduce::max_abs;
use crate::krylov::pcg::{Another, Means, PcgSteps, Properties};
use crate::krylov::solve_steps::{Arrays, Criterion, Eliminated, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use crate::stencil::cells::Cells;
use crate::stencil::means::Singular;
use std::mem::take;

/// A system with its vectors.
pub trait System {
    /// Size of the grid.
    fn cells(&self) -> Cells;
    /// Returns the index of node i of a row in the vectors.
    fn index(&self, i: usize, row: usize) -> usize;
    /// Returns the index of node k, counted in the order of sums, on the whole grid or on the system of CG. `None` if
    /// there are at most k nodes.
    fn place(&self, whole: bool, k: usize) -> Option<usize>;
    /// Vectors in the order of their numbers.
    fn vectors(&self) -> [&Vec<f64>; 6];
    fn vectors_mut(&mut self) -> [&mut Vec<f64>; 6];
    /// Sums over singular components.
    fn singular(&mut self) -> &mut Singular;
    /// Diagonal of A.
    fn center(&self) -> &[f64];
    /// See `PcgSteps::properties`.
    fn properties(&self) -> Properties;
    /// Computes r as `VectorSteps::residual` does.
    fn residual(&mut self, of: Iterate);
    /// Computes z = P M^-1 P r.
    fn precondition(&mut self);
    /// Switches to the V-cycle as `Another::Definite` does.
    fn fall_back(&mut self) -> bool {
        false
    }
    /// Computes q = A p.
    fn multiply(&mut self);
    /// Returns |b - A x|^2 on the whole grid.
    fn whole_residual_norm2(&mut self) -> f64;
    /// See `SolveSteps::reduce`.
    fn reduce(&mut self, _what: Eliminated) -> f64 {
        0.0
    }
    /// Completes x.
    fn back_substitute(&mut self);
    /// Computes x = A b on the whole grid.
    fn multiply_rhs(&mut self);
}

/// A run: the system and the caller's arrays.
pub struct Run<'a, 'b, K> {
    pub k: &'a mut K,
    pub arrays: Arrays<'b>,
    pub observer: &'a mut dyn Observer,
}

/// Returns whether the vector has values on the whole grid.
fn is_whole(v: VectorId) -> bool {
    matches!(v, VectorId::X | VectorId::B)
}

/// Returns scale to + factor from. With scale = 0, `to` is ignored, even NaN; with scale = factor = 0, also `from`.
fn linear(scale: f64, to: f64, factor: f64, from: f64) -> f64 {
    if scale != 0.0 {
        scale * to + factor * from
    } else if factor != 0.0 {
        factor * from
    } else {
        0.0
    }
}

impl<K: System> Run<'_, '_, K> {
    /// Iterates over the indices of all nodes of the grid or of the system.
    fn places(&self, whole: bool) -> impl Iterator<Item = usize> + Clone {
        (0..).map_while(move |k| self.k.place(whole, k))
    }

    fn vector(&self, v: VectorId) -> &Vec<f64> {
        self.k.vectors()[v.0]
    }

    fn vector_mut(&mut self, v: VectorId) -> &mut Vec<f64> {
        self.k.vectors_mut().into_iter().nth(v.0).expect("PCG has six vectors")
    }

    /// Iterates over the rows, each with the index of its first value in the caller's arrays.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + use<K> {
        let (cells, ld, plane) = (self.k.cells(), self.arrays.ld, self.arrays.plane);
        (0..cells.rows()).map(move |row| (row, row / cells.ny * plane + row % cells.ny * ld))
    }
}

impl<K: System> VectorSteps for Run<'_, '_, K> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let places = self.places(is_whole(a) && is_whole(b));
        let (a, b) = (self.vector(a), self.vector(b));
        places.map(|c| a[c] * b[c]).sum()
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let (factor, from) = terms.first().copied().unwrap_or((0.0, to));
        let mut values = take(self.vector_mut(to));
        let source = self.vector(from);
        for c in self.places(is_whole(to) && is_whole(from)) {
            // Without a term, the source is `to` itself, whose values have been taken.
            values[c] = linear(scale, values[c], factor, source.get(c).copied().unwrap_or(0.0));
        }
        *self.vector_mut(to) = values;
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        max_abs(self.vector(v))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        self.k.residual(of);
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.observer.see(event)
    }
}

impl<K: System> PcgSteps for Run<'_, '_, K> {
    fn properties(&self) -> Properties {
        self.k.properties()
    }

    fn precondition(&mut self) -> f64 {
        self.k.precondition();
        self.inner(VectorId::R, VectorId::Z)
    }

    fn multiply(&mut self) -> f64 {
        self.k.multiply();
        self.inner(VectorId::P, VectorId::Q)
    }

    fn means(&mut self, v: VectorId, to: Means) {
        let (mut singular, mut values) = (take(self.k.singular()), take(self.vector_mut(v)));
        match to {
            Means::Keep => singular.keep_means(self.places(true), &values),
            _ => singular.shift(self.places(true), &mut values, to == Means::Restore),
        }
        *self.k.singular() = singular;
        *self.vector_mut(v) = values;
    }

    fn square_of_means(&mut self) -> f64 {
        let mut singular = take(self.k.singular());
        let square = singular.square_of_means(self.places(false), self.vector(VectorId::R), self.k.center());
        *self.k.singular() = singular;
        square
    }

    fn change_preconditioner(&mut self, to: Another) -> bool {
        matches!(to, Another::Definite) && self.k.fall_back()
    }
}

impl<K: System> SolveSteps for Run<'_, '_, K> {
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let (mut inputs, nx) = (Inputs::none(), self.k.cells().nx);
        for (row, at) in self.rows() {
            let b = &self.arrays.input[at..][..nx];
            let x = if guess { &self.arrays.output[at..][..nx] } else { &[] };
            inputs.look_at_row(self.arrays.input_name, b, max_abs(b), row, true);
            inputs.look_at_row("x", x, max_abs(x), row, false);
        }
        inputs
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        for (row, at) in self.rows() {
            for i in 0..self.k.cells().nx {
                let (c, k) = (self.k.index(i, row), at + i);
                let [x, b, ..] = self.k.vectors_mut();
                b[c] = self.arrays.input[k] * scale;
                if let Some(guess) = what.guess() {
                    x[c] = if guess { self.arrays.output[k] * scale } else { 0.0 };
                }
            }
        }
        (self.inner(VectorId::B, VectorId::B), None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let mut singular = take(self.k.singular());
        let worst = singular.worst(self.places(true), self.vector(VectorId::B));
        *self.k.singular() = singular;
        worst
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        self.k.whole_residual_norm2()
    }

    fn reduce(&mut self, what: Eliminated) -> f64 {
        self.k.reduce(what)
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        self.k.back_substitute();
        (self.largest(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for (row, at) in self.rows() {
            for i in 0..self.k.cells().nx {
                self.arrays.output[at + i] = self.k.vectors()[VectorId::X.0][self.k.index(i, row)] / scale;
            }
        }
    }

    fn multiply_rhs(&mut self) {
        self.k.multiply_rhs();
    }
}
