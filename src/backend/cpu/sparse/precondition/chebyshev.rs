//! Chebyshev's polynomial in D^-1 A.

use super::apply::{Apply, WHAT};
use super::jacobi::inverse_diagonal;
use super::split::Part;
use crate::backend::cpu::sparse::chunks::Chunks;
use crate::error::{Result, push, reserve, zeroed};
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::runtime::workers::Workers;
use crate::sparse::{Csr, Index, Stored};
use crate::spectrum::lanczos_extremes;

/// The interval reaches down to this part of its upper end: a smoother that also lessens all but a few of the others.
const RATIO: f64 = 30.0;
/// Steps of Lanczos, whose largest value lies below the largest eigenvalue by less than this part.
const STEPS: usize = 10;
const MARGIN: f64 = 1.1;

/// M^-1 = p(D^-1 A) D^-1, with p the polynomial whose residual 1 - t p(t) is the scaled Chebyshev polynomial of
/// [hi / 30, hi]. Source: Saad, Iterative methods for sparse linear systems, 2nd ed. (2003), algorithm 12.1.
pub struct Chebyshev<I, V> {
    /// D^-1 A
    scaled: Part<I, V>,
    inverse: Vec<f64>,
    degree: usize,
    largest: f64,
    /// The last step, and D^-1 (r - A x).
    room: [Shared; 2],
}

impl<I: Index, V: Real> Chebyshev<I, V> {
    pub fn new(a: &Csr<I>, degree: usize, symmetric: bool) -> Result<Self> {
        let inverse = inverse_diagonal(a)?;
        let gershgorin = |i: usize| a.row(i).map(|(_, entry)| entry.abs()).sum::<f64>() * inverse[i].abs();
        let mut largest = (0..a.rows()).map(gershgorin).fold(0.0, f64::max);
        if symmetric && inverse.iter().all(|&d| d > 0.0) {
            largest = largest.min(MARGIN * largest_seen(a, &inverse)?.unwrap_or(f64::INFINITY));
        }
        Self::of(a, inverse, degree, largest)
    }

    fn of(a: &Csr<I>, inverse: Vec<f64>, degree: usize, largest: f64) -> Result<Self> {
        let scaled = Part::of(a, |_, _| true, |i, _, entry| inverse[i] * entry)?.kept()?;
        let room = [Shared::zeroed(a.rows())?, Shared::zeroed(a.rows())?];
        Ok(Self { scaled, inverse, degree, largest, room })
    }

    /// M^-T = p(D^-1 A') D^-1.
    pub fn transposed(&self, a: &Csr<I>) -> Result<Self> {
        let mut inverse = Vec::new();
        reserve(&mut inverse, self.inverse.len(), WHAT)?;
        inverse.extend_from_slice(&self.inverse);
        Self::of(&a.transposed(&mut Workers::alone())?, inverse, self.degree, self.largest)
    }
}

impl<I: Index, V: Real + Send + Sync> Apply for Chebyshev<I, V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let rows = self.inverse.len();
        let own = Chunks::new(rows).own(me);
        let (theta, delta) = (0.5 * self.largest * (1.0 + 1.0 / RATIO), 0.5 * self.largest * (1.0 - 1.0 / RATIO));
        let [step, left] = &self.room;
        // SAFETY: rows of this member, which no other uses but where `step` is read, between two barriers.
        let (from, x) = unsafe { (from.slice(own.start, own.len()), to.slice_mut(own.start, own.len())) };
        // SAFETY: as above.
        let left = unsafe { left.slice_mut(own.start, own.len()) };
        let mut rho = delta / theta;
        for k in 0..=self.degree {
            if k > 0 {
                me.barrier();
                // SAFETY: nobody writes it until the next barrier.
                let step = unsafe { step.slice(0, rows) };
                for (left, i) in left.iter_mut().zip(own.clone()) {
                    let entries = self.scaled.ptr[i]..self.scaled.ptr[i + 1];
                    let row = self.scaled.col[entries.clone()].iter().zip(&self.scaled.val[entries]);
                    *left -= row.fold(0.0, |sum, (j, a)| sum + a.wide() * step[j.at()]);
                }
                me.barrier();
            }
            // SAFETY: as above.
            let step = unsafe { step.slice_mut(own.start, own.len()) };
            if k == 0 {
                for (((left, step), x), (r, d)) in
                    left.iter_mut().zip(&mut *step).zip(&mut *x).zip(from.iter().zip(&self.inverse[own.clone()]))
                {
                    *left = d * r;
                    *step = *left / theta;
                    *x = *step;
                }
                continue;
            }
            let next = 1.0 / (2.0 * theta / delta - rho);
            for ((step, x), left) in step.iter_mut().zip(&mut *x).zip(&*left) {
                *step = next * rho * *step + 2.0 * next / delta * left;
                *x += *step;
            }
            rho = next;
        }
    }

    fn bytes(&self) -> usize {
        self.scaled.bytes() + size_of_val(&*self.inverse) + self.room.iter().map(Shared::bytes).sum::<usize>()
    }
}

/// The largest eigenvalue of D^-1 A that a few steps of CG from a fixed vector see, if they go that far.
fn largest_seen<I: Index>(a: &Csr<I>, inverse: &[f64]) -> Result<Option<f64>> {
    let rows = a.rows();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let [mut r, mut p, mut q] = [zeroed(rows, WHAT)?, zeroed(rows, WHAT)?, zeroed(rows, WHAT)?];
    // Signs and sizes of no pattern: the fractional parts of multiples of the golden ratio.
    r.iter_mut().enumerate().for_each(|(i, r)| *r = (i as f64 * 0.618_033_988_749_895).fract() - 0.5);
    let (mut coefficients, mut rho_old, mut beta) = (Vec::new(), 0.0, 0.0);
    for step in 0..STEPS {
        q.iter_mut().zip(&r).zip(inverse).for_each(|((z, r), d)| *z = d * r);
        let rho = dot(&r, &q);
        if step > 0 {
            beta = rho / rho_old;
        }
        p.iter_mut().zip(&q).for_each(|(p, z)| *p = z + beta * *p);
        a.multiply(&p, &mut q);
        let alpha = rho / dot(&p, &q);
        if !(alpha > 0.0 && alpha.is_finite() && (step == 0 || beta > 0.0)) {
            break;
        }
        push(&mut coefficients, (alpha, beta), WHAT)?;
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        rho_old = rho;
    }
    Ok(lanczos_extremes(&coefficients).map(|(_, largest)| largest))
}
