//! Truncated Neumann series preconditioner, for all families.

/// Steps of the series for A = L + D + U with strict lower and upper triangles L and U. The caller of [`series`] passes
/// all vectors except r.
pub trait SeriesSteps {
    type Vector: Copy;
    /// Error type of a step.
    type Fault;
    /// Computes v = D^-1 r. `last`: whether this is the last step.
    fn begin(&mut self, v: Self::Vector, last: bool) -> Result<(), Self::Fault>;
    /// Computes `to` = D^-1 (r - L `from`).
    fn lower(&mut self, from: Self::Vector, to: Self::Vector) -> Result<(), Self::Fault>;
    /// Computes `to` = v - D^-1 U `from`. `last`: whether this is the last step.
    fn upper(&mut self, v: Self::Vector, from: Self::Vector, to: Self::Vector, last: bool) -> Result<(), Self::Fault>;
}

/// Computes z = [sum over m <= order of (-D^-1 U)^m] D^-1 [sum over m <= order of (-L D^-1)^m] r.
///
/// The sums are the truncated Neumann series of the inverse triangular factors of SSOR with omega = 1 (van der Vorst,
/// SIAM J. Sci. Stat. Comput. 3, 1982). Order 0 is Jacobi. In exact arithmetic, a symmetric diagonal scaling of A does
/// not change the iterates.
///
/// `room` contains two work vectors.
///
/// Horner's rule: v = D^-1 r, then `order` times v = D^-1 (r - L v). After that z = v, then `order` times z = v - D^-1
/// U z.
pub fn series<S: SeriesSteps>(s: &mut S, order: usize, room: [S::Vector; 2], z: S::Vector) -> Result<(), S::Fault> {
    if order == 0 {
        return s.begin(z, true);
    }
    let [first, second] = room;
    let (mut v, mut other) = if order.is_multiple_of(2) { (first, second) } else { (second, first) };
    s.begin(v, false)?;
    for _ in 0..order {
        s.lower(v, other)?;
        std::mem::swap(&mut v, &mut other);
    }
    // v is stored in `first`. The assignment of `to` and `next` makes the last step write z.
    let mut from = v;
    let (mut to, mut next) = if order.is_multiple_of(2) { (second, z) } else { (z, second) };
    for term in 1..=order {
        s.upper(v, from, to, term == order)?;
        from = to;
        std::mem::swap(&mut to, &mut next);
    }
    Ok(())
}
