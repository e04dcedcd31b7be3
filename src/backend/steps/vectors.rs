//! Steps of the methods for general matrices beside CG (`VectorSteps`): products, M^-1 and combinations of numbered
//! vectors. A method is written once in these steps; every member of a team runs it, and a step does the member's rows.

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

    /// Vector `k` of a method's own, from 0.
    pub const fn own(k: usize) -> Self {
        Self(3 + k)
    }
}

/// The steps. Every member of a team calls them in the same order; scalars have the same bits on every member and for
/// any number of members. No step reads a vector that it writes, but for `combine`, whose `to` is both.
pub trait VectorSteps {
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
    /// r = b - A x; returns <r, r>.
    fn true_residual(&mut self) -> f64;
    /// <a, b>.
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let mut product = [0.0];
        self.inners(a, &[b], &mut product);
        product[0]
    }
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
    /// to = from.
    fn copy(&mut self, from: VectorId, to: VectorId) {
        self.combine(to, 0.0, &[(1.0, from)]);
    }
    /// to[i] = 2 u - 1 with u = (next() >> 11) 2^-53 of SplitMix64, which is in state `seed` before the value of row 0:
    /// row i takes its number i, whoever does the row.
    fn fill_random(&mut self, to: VectorId, seed: u64);
    /// Tells the observer; `true` asks to stop.
    fn tell(&mut self, iteration: usize, relative_residual: f64) -> bool;
}

/// Relaxation in place.
pub trait SweepSteps: VectorSteps {
    /// One sweep on x (`sweep` counts from 0). r is spent.
    fn sweep(&mut self, sweep: usize);
}
