//! Numbered vectors of a run, and the steps on them. Every member of a team runs the text of a method, and a step does
//! the member's rows. Members call the steps in the same order; scalars have the same bits on every member and for any
//! number of members.

/// A vector of a run, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorId(pub usize);

impl VectorId {
    /// The iterate.
    pub const X: Self = Self(0);
    /// The right-hand side.
    pub const B: Self = Self(1);
    /// r = b - A x.
    pub const R: Self = Self(2);
    /// The direction of PCG.
    pub const P: Self = Self::own(0);
    /// A p of PCG.
    pub const Q: Self = Self::own(1);
    /// M^-1 r of PCG.
    pub const Z: Self = Self::own(2);

    /// Vector `k` of a method's own, from 0.
    pub const fn own(k: usize) -> Self {
        Self(3 + k)
    }
}

/// The steps that every family has. Where CG runs on a smaller system, r, p, q and z are vectors of that; x and b are
/// those of the whole grid.
pub trait VectorSteps {
    /// <a, b>.
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64;
    /// to = to + factor from.
    fn add(&mut self, to: VectorId, factor: f64, from: VectorId);
    /// to = from + scale to; with scale = 0 what `to` held does not count, NaN included.
    fn renew(&mut self, to: VectorId, scale: f64, from: VectorId);
    /// to = from.
    fn copy(&mut self, from: VectorId, to: VectorId) {
        self.renew(to, 0.0, from);
    }
    /// v = 0.
    fn clear(&mut self, v: VectorId);
    /// max |v|, NaN if any value is.
    fn largest(&mut self, v: VectorId) -> f64;
    /// r = b - A x; returns <r, r>.
    fn residual(&mut self) -> f64;
    /// Tells the observer; `true` asks to stop.
    fn observe(&mut self, iteration: usize, relative_residual: f64) -> bool;
}

/// The steps of the methods for general matrices beside CG: products, M^-1 and combinations. No step reads a vector
/// that it writes, but for `combine`, whose `to` is both.
pub trait KrylovSteps: VectorSteps {
    /// Values of a vector, those of all members.
    fn rows(&self) -> usize;
    /// to = A from.
    fn product(&mut self, from: VectorId, to: VectorId);
    /// to = A' from.
    fn transposed_product(&mut self, from: VectorId, to: VectorId);
    /// to = M^-1 from.
    fn precondition_vector(&mut self, from: VectorId, to: VectorId);
    /// to = M^-T from.
    fn precondition_transposed(&mut self, from: VectorId, to: VectorId);
    /// The steps of a method that sweeps, where there is what it needs.
    fn sweeps(&mut self) -> Option<&mut dyn SweepSteps> {
        None
    }
    /// M is the identity: a method then takes `from` itself in place of M^-1 from.
    fn is_unpreconditioned(&self) -> bool;
    /// M is from here on the one that was made for after a breakdown.
    fn take_second(&mut self) {}
    /// products[k] = <a, with[k]>, in one pass.
    fn inners(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]);
    /// to = scale to + sum over k of factor_k v_k, in the order of the terms; with scale = 0 what `to` held does not
    /// count, NaN included.
    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]);
    /// The same, and <to, to> of the result.
    fn combine_norm2(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.combine(to, scale, terms);
        self.inner(to, to)
    }
    /// to[i] = 2 u - 1 with u = (next() >> 11) 2^-53 of SplitMix64, which is in state `seed` before the value of row 0:
    /// row i takes its number i, whoever does the row.
    fn fill_random(&mut self, to: VectorId, seed: u64);
}

/// Relaxation in place.
pub trait SweepSteps: KrylovSteps {
    /// One sweep on x (`sweep` counts from 0). r is spent.
    fn sweep(&mut self, sweep: usize);
}
