//! Truncated Neumann series preconditioner, for all families.

/// Steps of the series for A = L + D + U with strict lower and upper triangles L and U. The steps receive all vectors
/// as arguments, except r, which the implementation contains.
pub trait SeriesSteps {
    type Vector: Copy;
    /// Error type of a step.
    type Fault;
    /// Computes v = D^-1 r. `is_last`: whether no further step of the series follows.
    fn scale_residual(&mut self, v: Self::Vector, is_last: bool) -> Result<(), Self::Fault>;
    /// Computes `target` = D^-1 (r - L `source`).
    fn apply_lower(&mut self, source: Self::Vector, target: Self::Vector) -> Result<(), Self::Fault>;
    /// Computes `target` = v - D^-1 U `source`. `is_last`: whether no further step of the series follows.
    fn apply_upper(
        &mut self,
        v: Self::Vector,
        source: Self::Vector,
        target: Self::Vector,
        is_last: bool,
    ) -> Result<(), Self::Fault>;
}

/// Computes z = [sum over m <= order of (-D^-1 U)^m] D^-1 [sum over m <= order of (-L D^-1)^m] r.
///
/// The sums are the truncated Neumann series of the inverse triangular factors of SSOR with omega = 1 (van der Vorst,
/// SIAM J. Sci. Stat. Comput. 3, 1982). Order 0 is Jacobi. In exact arithmetic, a symmetric diagonal scaling of A does
/// not change the iterates.
///
/// `work_vectors` contains two work vectors.
///
/// Horner's rule:
///
/// - v = D^-1 r, then `order` times v = D^-1 (r - L v);
/// - z = v, then `order` times z = v - D^-1 U z.
pub fn apply_series<S: SeriesSteps>(
    s: &mut S,
    order: usize,
    work_vectors: [S::Vector; 2],
    z: S::Vector,
) -> Result<(), S::Fault> {
    if order == 0 {
        return s.scale_residual(z, true);
    }
    let [first_work, second_work] = work_vectors;
    let (mut v, mut spare) =
        if order.is_multiple_of(2) { (first_work, second_work) } else { (second_work, first_work) };
    s.scale_residual(v, false)?;
    for _ in 0..order {
        s.apply_lower(v, spare)?;
        std::mem::swap(&mut v, &mut spare);
    }
    // v is stored in `first_work`. The assignment of `target` and `next_target` makes the last step write z.
    let mut source = v;
    let (mut target, mut next_target) = if order.is_multiple_of(2) { (second_work, z) } else { (z, second_work) };
    for step in 1..=order {
        s.apply_upper(v, source, target, step == order)?;
        source = target;
        std::mem::swap(&mut target, &mut next_target);
    }
    Ok(())
}
