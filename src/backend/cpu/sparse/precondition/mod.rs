//! Preconditioners of the methods for general matrices: z = M^-1 r and z = M^-T r by a team.
//!
//! Each may use those before it: `apply`, `jacobi`, `split` (the form of what follows), `incomplete` (ic0, ilu0),
//! `triangular` (a split, solved), `truncated` (the same by series), `chebyshev`.

mod apply;
mod chebyshev;
mod incomplete;
mod jacobi;
mod split;
mod triangular;
mod truncated;

pub use crate::backend::steps::sparse::Preconditioning as Wanted;
pub use apply::Purpose;

use crate::backend::cpu::sparse::levels::by_levels;
use crate::error::{Error, Result};
use crate::runtime::heap::{Counted, boxed};
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::{Me, Team};
use crate::sparse::{Csr, Index};
use apply::{Apply, WHAT};
use chebyshev::Chebyshev;
use incomplete::{Factors, ic0, ilu0};
use jacobi::Jacobi;
use split::Split;
use triangular::Solved;
use truncated::Truncated;

/// M^-1, and M^-T where that was asked for.
pub struct Preconditioner {
    own: Box<dyn Apply>,
    /// None: M is symmetric, or nobody asked.
    transposed: Option<Box<dyn Apply>>,
}

impl Preconditioner {
    /// to = M^-1 from, or M^-T from, as [`Apply::apply`] does.
    pub fn apply(&self, me: &Me, from: &Shared, to: &Shared, transposed: bool) {
        let other = self.transposed.as_deref().filter(|_| transposed);
        other.unwrap_or(&*self.own).apply(me, from, to);
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.own.bytes() + self.transposed.as_ref().map_or(0, |m| m.bytes())
    }
}

/// What was made.
#[derive(Default)]
pub struct Made {
    /// None: the identity.
    pub precondition: Option<Preconditioner>,
    /// Of ic0, and the row and pivot that made it necessary.
    pub shift: f64,
    pub pivot: Option<(usize, f64)>,
    /// Of triangular solves.
    pub levels: usize,
}

impl Made {
    fn of(own: impl Apply + 'static, transposed: Option<Box<dyn Apply>>) -> Result<Self> {
        Ok(Self { precondition: Some(Preconditioner { own: boxed(own, WHAT)?, transposed }), ..Self::default() })
    }
}

/// Makes M of a square matrix.
pub fn make<I: Index>(a: &Csr<I>, wanted: &Wanted, purpose: &Purpose, team: &mut Team) -> Result<Made> {
    if a.rows() != a.cols {
        let extents = format!("a preconditioner needs a square matrix, this one has {} rows and", a.rows());
        return Err(Error::Dimension(format!("{extents} {} columns", a.cols)));
    }
    if purpose.single {
        make_of::<I, f32>(a, wanted, purpose, team)
    } else {
        make_of::<I, f64>(a, wanted, purpose, team)
    }
}

/// The same with entries of M as V holds them.
fn make_of<I: Index, V: Real + Send + Sync + 'static>(
    a: &Csr<I>,
    wanted: &Wanted,
    purpose: &Purpose,
    team: &mut Team,
) -> Result<Made> {
    match *wanted {
        Wanted::None => Ok(Made::default()),
        Wanted::Jacobi => Made::of(Jacobi::new(a, |d| d)?, None),
        Wanted::AbsoluteJacobi => Made::of(Jacobi::new(a, f64::abs)?, None),
        Wanted::Ssor { omega } => {
            solved::<I, V>(a, purpose, purpose.symmetric, team, || Ok(Split::ssor(a, omega)?.into()))
        }
        Wanted::Ilu0 => solved::<I, V>(a, purpose, purpose.symmetric, team, || Ok(ilu0(a)?.into())),
        Wanted::Ic0 { shift } => solved::<I, V>(a, purpose, true, team, || ic0(a, shift)),
        Wanted::Neumann { order } => {
            let split = Split::ssor(a, 1.0)?;
            let make = |split| Truncated::<I, V>::new(split, order);
            let transposed = of_transposed(&split, purpose, purpose.symmetric, make)?;
            Made::of(make(split)?, transposed)
        }
        Wanted::Chebyshev { degree } => {
            let own = Chebyshev::<I, V>::new(a, degree, purpose.symmetric)?;
            let transposed: Option<Box<dyn Apply>> = match purpose.transposes && !purpose.symmetric {
                true => Some(boxed(own.transposed(a)?, WHAT)?),
                false => None,
            };
            Made::of(own, transposed)
        }
    }
}

/// M as two triangles that are solved.
fn solved<I: Index, V: Real + Send + Sync + 'static>(
    a: &Csr<I>,
    purpose: &Purpose,
    symmetric: bool,
    team: &mut Team,
    factors: impl Fn() -> Result<Factors<I>> + Sync,
) -> Result<Made> {
    let members = team.members();
    let (order, factors) = team.both(|| by_levels(a, members), factors)?;
    let (order, Factors { split, shift, pivot }) = (Counted::new(order?, WHAT)?, factors?);
    let transposed = of_transposed(&split, purpose, symmetric, |split| Solved::<I, V>::new(&order, split, &mut *team))?;
    let own = Solved::<I, V>::new(&order, split, team)?;
    let levels = own.levels();
    Ok(Made { levels, shift, pivot, ..Made::of(own, transposed)? })
}

/// What `make` makes of M', where that is another and asked for.
fn of_transposed<I: Index, M: Apply + 'static>(
    split: &Split<I>,
    purpose: &Purpose,
    symmetric: bool,
    make: impl FnOnce(Split<I>) -> Result<M>,
) -> Result<Option<Box<dyn Apply>>> {
    if !purpose.transposes || symmetric {
        return Ok(None);
    }
    Ok(Some(boxed(make(split.transposed()?)?, WHAT)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RRB_ERR_MATRIX;
    use crate::sparse::{AnyCsr, Entries, Indices, Matrix, Order};

    /// A matrix of `n` rows with the diagonal d(i), and a one below it, which no method here reads.
    fn matrix(n: usize, d: impl Fn(usize) -> f64) -> Box<dyn Matrix> {
        let below = |k: usize| (1..n as i64).map(move |i| i - k as i64);
        let rows: Vec<i64> = (0..n as i64).chain(below(0)).collect();
        let cols: Vec<i64> = (0..n as i64).chain(below(1)).collect();
        let values: Vec<f64> = (0..n).map(d).chain((1..n).map(|_| 1.0)).collect();
        let [first, second] = [&rows, &cols].map(|indices| Indices::Wide(indices));
        Entries { rows: n, cols: n, order: Order::Coordinates, first, second, base: 0 }.matrix(&values).unwrap()
    }

    const PURPOSE: Purpose = Purpose { transposes: true, symmetric: false, single: false };

    fn made(matrix: &dyn Matrix, wanted: Wanted) -> Result<Made> {
        let mut team = Team::new(1)?;
        match matrix.any() {
            AnyCsr::Narrow(a) => make(a, &wanted, &PURPOSE, &mut team),
            AnyCsr::Wide(a) => make(a, &wanted, &PURPOSE, &mut team),
        }
    }

    /// M^-1 r and M^-T r with r_i = i + 1.
    fn applied(made: &Made, n: usize, members: usize) -> [Vec<f64>; 2] {
        let (from, to) = (Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap());
        let other = Shared::zeroed(n).unwrap();
        // SAFETY: this thread alone has it.
        unsafe { from.slice_mut(0, n) }.iter_mut().enumerate().for_each(|(i, r)| *r = (i + 1) as f64);
        let m = made.precondition.as_ref().unwrap();
        let work = |me: Me| {
            m.apply(&me, &from, &to, false);
            m.apply(&me, &from, &other, true);
        };
        Team::new(members).unwrap().run(work, work).unwrap();
        // SAFETY: the members have ended.
        [&to, &other].map(|v| unsafe { v.slice(0, n) }.to_vec())
    }

    /// Rounded twice, 1 / d and the product: the same for any number of members, to the last bit.
    #[test]
    fn jacobi_divides_by_the_diagonal() {
        for n in [1, 2, 3, 5, 17, 64, 65, 5000] {
            let d = |i: usize| if i.is_multiple_of(3) { -3.0 } else { 7.0 + i as f64 };
            let a = matrix(n, d);
            for (wanted, sign) in [(Wanted::Jacobi, false), (Wanted::AbsoluteJacobi, true)] {
                let diagonal = |i: usize| if sign { d(i).abs() } else { d(i) };
                let expected: Vec<f64> = (0..n).map(|i| 1.0 / diagonal(i) * (i + 1) as f64).collect();
                let made = made(&*a, wanted).unwrap();
                for members in [1, 2, 3, 7] {
                    assert_eq!(applied(&made, n, members), [expected.clone(), expected.clone()], "{n} {members}");
                }
            }
        }
        assert!(made(&*matrix(3, |_| 0.0), Wanted::None).unwrap().precondition.is_none());
    }

    #[test]
    fn a_row_without_diagonal_is_named() {
        let a = matrix(9, |i| if i == 7 { 0.0 } else { 1.0 });
        let error = made(&*a, Wanted::Jacobi).err().unwrap();
        assert_eq!(error.status(), RRB_ERR_MATRIX);
        assert!(error.to_string().starts_with("row 7 has no diagonal"), "{error}");
    }
}
