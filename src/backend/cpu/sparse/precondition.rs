//! Preconditioners of the methods for general matrices: z = M^-1 r and z = M^-T r by a team.

use super::chunks::Chunks;
pub use crate::backend::steps::sparse::Preconditioning as Wanted;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result, zeroed};
use crate::runtime::heap::boxed;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index};

/// For errors of memory.
pub const WHAT: &str = "a preconditioner";

/// M^-1. All members of a team call a step together. A barrier stands before it; from there until the step returns
/// nobody writes `from`, or uses `to` otherwise. On return the member's own rows ([`Chunks::own`]) of `to` are written;
/// a barrier stands before another member reads them.
pub trait Precondition: Send + Sync {
    /// to = M^-1 from.
    fn apply(&self, me: &Me, from: &Shared, to: &Shared);
    /// to = M^-T from.
    fn apply_transposed(&self, me: &Me, from: &Shared, to: &Shared);
    /// Bytes of all arrays.
    fn bytes(&self) -> usize;
}

/// What was made.
pub struct Made {
    /// None: the identity.
    pub precondition: Option<Box<dyn Precondition>>,
}

impl Made {
    fn of(precondition: impl Precondition + 'static) -> Result<Self> {
        Ok(Self { precondition: Some(boxed(precondition, WHAT)?) })
    }
}

/// Makes M of a square matrix.
pub fn make<I: Index + Send + Sync>(a: &Csr<I>, wanted: &Wanted) -> Result<Made> {
    if a.rows() != a.cols {
        let extents = format!("a preconditioner needs a square matrix, this one has {} rows and", a.rows());
        return Err(Error::Dimension(format!("{extents} {} columns", a.cols)));
    }
    match *wanted {
        Wanted::None => Ok(Made { precondition: None }),
        Wanted::Jacobi => Made::of(Jacobi::new(a, |d| d)?),
        Wanted::AbsoluteJacobi => Made::of(Jacobi::new(a, f64::abs)?),
    }
}

/// 1 / a_ii of all rows.
pub fn inverse_diagonal<I: Index>(a: &Csr<I>) -> Result<Vec<f64>> {
    let mut inverse = zeroed(a.rows(), WHAT)?;
    for (i, inverse) in inverse.iter_mut().enumerate() {
        match a.get(i, i) {
            Some(d) if d != 0.0 => *inverse = 1.0 / d,
            _ => return Err(no_diagonal(i)),
        }
    }
    Ok(inverse)
}

/// A row without an entry on the diagonal, or with a zero there.
pub fn no_diagonal(row: usize) -> Error {
    const TO_DO: &str = " has no diagonal, or a zero there; take preconditioner=none, or order the rows otherwise";
    Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), TO_DO)
}

/// M = D or |D|: symmetric.
struct Jacobi {
    inverse: Vec<f64>,
}

impl Jacobi {
    fn new<I: Index>(a: &Csr<I>, sign: impl Fn(f64) -> f64) -> Result<Self> {
        let mut inverse = inverse_diagonal(a)?;
        inverse.iter_mut().for_each(|d| *d = sign(*d));
        Ok(Self { inverse })
    }
}

impl Precondition for Jacobi {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let own = Chunks::new(self.inverse.len()).own(me);
        // SAFETY: nobody writes `from` meanwhile, and rows of `to` are this member's own (`Precondition`).
        let (from, to) = unsafe { (from.slice(own.start, own.len()), to.slice_mut(own.start, own.len())) };
        for ((to, from), inverse) in to.iter_mut().zip(from).zip(&self.inverse[own]) {
            *to = inverse * from;
        }
    }

    fn apply_transposed(&self, me: &Me, from: &Shared, to: &Shared) {
        self.apply(me, from, to);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::team::Team;
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

    fn made(matrix: &dyn Matrix, wanted: Wanted) -> Result<Made> {
        match matrix.any() {
            AnyCsr::Narrow(a) => make(a, &wanted),
            AnyCsr::Wide(a) => make(a, &wanted),
        }
    }

    /// M^-1 r and M^-T r with r_i = i + 1.
    fn applied(made: &Made, n: usize, members: usize) -> [Vec<f64>; 2] {
        let (from, to) = (Shared::zeroed(n).unwrap(), Shared::zeroed(n).unwrap());
        let other = Shared::zeroed(n).unwrap();
        // SAFETY: this thread alone has it.
        unsafe { from.slice_mut(0, n) }.iter_mut().enumerate().for_each(|(i, r)| *r = (i + 1) as f64);
        let m = made.precondition.as_deref().unwrap();
        let work = |me: Me| {
            m.apply(&me, &from, &to);
            m.apply_transposed(&me, &from, &other);
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
