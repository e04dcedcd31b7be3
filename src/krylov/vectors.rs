//! Numbered vectors of a run, and the operations (steps) on these vectors. Every thread of the team runs the method; in
//! a step, each thread processes its own rows. All threads call the steps in the same order. Scalar results are bitwise
//! identical on all threads and for any number of threads.

use crate::report::Event;

/// Number of a vector of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorId(pub usize);

impl VectorId {
    /// The iterate.
    pub const X: Self = Self(0);
    /// The right-hand side.
    pub const B: Self = Self(1);
    /// r = b - A x.
    pub const R: Self = Self(2);
    /// Search direction p of PCG.
    pub const P: Self = Self::work(0);
    /// q = A p of PCG.
    pub const Q: Self = Self::work(1);
    /// z = M^-1 r of PCG.
    pub const Z: Self = Self::work(2);

    /// Returns the vector number of work vector `k` of a method, counted from 0.
    pub const fn work(k: usize) -> Self {
        Self(3 + k)
    }
}

/// Steps of all families. If CG runs on a reduced system, r, p, q and z are vectors of the reduced system; x and b are
/// vectors of the whole grid.
pub trait VectorSteps {
    /// Returns <a, b>.
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64;
    /// Computes `target` = `scale` `target` + sum_k factor_k v_k, in the order of the terms; no v_k is `target`. If
    /// `scale` is 0, the old values of `target` are ignored, even NaN.
    ///
    /// A backend with `KrylovSteps` must support all combinations. Other backends only support those that PCG uses:
    ///
    /// - target = 0
    /// - target = factor v
    /// - target = target + factor v
    /// - target = scale target + v
    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]);
    /// Returns max |v|, or NaN if any value is NaN.
    fn max_abs(&mut self, v: VectorId) -> f64;
    /// Computes r = b - A x; returns <r, r>. With `Iterate::Zero`, computes r = b without reading x.
    fn residual(&mut self, iterate: Iterate) -> f64;
    /// Reports an event to the observer. For an [`Event::Iteration`], returns whether the observer requests a stop. For
    /// all other events, the return value has no meaning.
    fn observe(&mut self, event: Event) -> bool;
}

/// The x for which `VectorSteps::residual` computes b - A x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterate {
    /// x = 0.
    Zero,
    /// The vector x.
    X,
}

/// Additional steps of the methods for general matrices: products, preconditioning and inner products. No step reads a
/// vector that it writes, except `combine` and `combine_norm2`, which read and write `target`.
pub trait KrylovSteps: VectorSteps {
    /// Returns the length of a vector, over all threads.
    fn rows(&self) -> usize;
    /// Computes `target` = A `source`.
    fn multiply_vector(&mut self, source: VectorId, target: VectorId);
    /// Computes `target` = A' `source`.
    fn multiply_transposed(&mut self, source: VectorId, target: VectorId);
    /// Computes `target` = M^-1 `source`.
    fn precondition_vector(&mut self, source: VectorId, target: VectorId);
    /// Computes `target` = M^-T `source`.
    fn precondition_transposed(&mut self, source: VectorId, target: VectorId);
    /// Returns the steps of relaxation methods, if the backend has the data for sweeps.
    fn sweep_steps(&mut self) -> Option<&mut dyn SweepSteps> {
        None
    }
    /// Returns whether M is the identity. A method then uses v itself instead of M^-1 v.
    fn is_unpreconditioned(&self) -> bool;
    /// Computes products[k] = <a, right_vectors[k]> in one pass.
    fn inner_products(&mut self, a: VectorId, right_vectors: &[VectorId], products: &mut [f64]);
    /// Computes `combine`, and returns <target, target> of the new `target`.
    fn combine_norm2(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.combine(target, scale, terms);
        self.inner_product(target, target)
    }
    /// Fills `target` with random numbers 2 u - 1, where u = (next() >> 11) 2^-53 of the generator SplitMix64. `seed`
    /// is the state of the generator before it computes the number for row 0. Row i receives number i, counted from 0,
    /// whichever thread processes the row.
    fn fill_random(&mut self, target: VectorId, seed: u64);
}

/// Steps of relaxation in place.
pub trait SweepSteps: KrylovSteps {
    /// Computes one sweep on x; `sweep` counts from 0. Overwrites r.
    fn sweep(&mut self, sweep: usize);
}
