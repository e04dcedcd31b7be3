//! The truncated Neumann series, for every family that preconditions by it.

/// What the series is made of, for A = L + D + U with a strict lower triangle L and a strict upper one U. All vectors
/// of a step but r are ones that the caller of [`series`] named.
pub trait SeriesSteps {
    type Vector: Copy;
    /// How a step fails.
    type Fault;
    /// v = D^-1 r; `last`: no step follows.
    fn begin(&mut self, v: Self::Vector, last: bool) -> Result<(), Self::Fault>;
    /// to = D^-1 (r - L from).
    fn lower(&mut self, from: Self::Vector, to: Self::Vector) -> Result<(), Self::Fault>;
    /// to = v - D^-1 U from; `last`: no step follows.
    fn upper(&mut self, v: Self::Vector, from: Self::Vector, to: Self::Vector, last: bool) -> Result<(), Self::Fault>;
}

/// z = [sum over m <= order of (-D^-1 U)^m] D^-1 [sum over m <= order of (-L D^-1)^m] r: the Neumann series of the
/// inverse triangles of SSOR, omega = 1, cut off (van der Vorst, SIAM J. Sci. Stat. Comput. 3, 1982). Order 0 is
/// Jacobi. In exact arithmetic M is that of the symmetrically scaled matrix.
///
/// By Horner's rule: v = D^-1 (r - L v) from v = D^-1 r, then z = v - D^-1 U z from z = v, each `order` times.
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
    // v is in the first; in the end z is in z.
    let mut from = v;
    let (mut to, mut next) = if order.is_multiple_of(2) { (second, z) } else { (z, second) };
    for term in 1..=order {
        s.upper(v, from, to, term == order)?;
        from = to;
        std::mem::swap(&mut to, &mut next);
    }
    Ok(())
}
