//! Means over the components of a matrix that are singular: rounding leaves r some of them, which no coarse solve may
//! see.

use super::couplings::{Couplings, NONE, WHAT};
use crate::error::{Result, collected, push, zeroed};
use crate::runtime::number::Real;
use std::iter::repeat_n;

/// The singular components.
pub struct Means {
    /// Of each row; `NONE`: of a regular one.
    component: Vec<u32>,
    /// Rows of each.
    sizes: Vec<usize>,
    /// Room for sums.
    sums: Vec<f64>,
}

impl Means {
    /// Components in which no row has an excess; none: there are none.
    pub fn of(c: &Couplings) -> Result<Option<Self>> {
        let mut component: Vec<u32> = collected(repeat_n(NONE, c.rows()), WHAT)?;
        let (mut sizes, mut reached, mut seen) = (Vec::new(), Vec::new(), zeroed(c.rows(), WHAT)?);
        for start in 0..c.rows() {
            if seen[start] {
                continue;
            }
            reached.clear();
            seen[start] = true;
            push(&mut reached, start, WHAT)?;
            let (mut next, mut regular) = (0, false);
            while next < reached.len() {
                let i = reached[next];
                next += 1;
                regular |= c.excess[i] != 0.0;
                for (j, _) in c.row(i) {
                    if !std::mem::replace(&mut seen[j], true) {
                        push(&mut reached, j, WHAT)?;
                    }
                }
            }
            if !regular {
                reached.iter().for_each(|&i| component[i] = sizes.len() as u32);
                push(&mut sizes, reached.len(), WHAT)?;
            }
        }
        let sums = zeroed(sizes.len(), WHAT)?;
        Ok((!sizes.is_empty()).then_some(Self { component, sizes, sums }))
    }

    /// The same on aggregates, which lie within components.
    pub fn on_aggregates(&self, aggregate: &[u32]) -> Result<Self> {
        let count = aggregate.iter().filter(|&&k| k != NONE).max().map_or(0, |&k| k as usize + 1);
        let mut component: Vec<u32> = collected(repeat_n(NONE, count), WHAT)?;
        for (&k, &of) in aggregate.iter().zip(&self.component).filter(|(k, _)| **k != NONE) {
            component[k as usize] = of;
        }
        let mut sizes = zeroed(self.sizes.len(), WHAT)?;
        component.iter().filter(|&&of| of != NONE).for_each(|&of| sizes[of as usize] += 1);
        Ok(Self { component, sizes, sums: zeroed(self.sizes.len(), WHAT)? })
    }

    /// The same with the rows in another order.
    pub fn in_order(self, rows: &[u32]) -> Result<Self> {
        let component = collected(rows.iter().map(|&i| self.component[i as usize]), WHAT)?;
        Ok(Self { component, ..self })
    }

    /// r without them.
    pub fn remove<V: Real>(&mut self, r: &mut [V]) {
        let Self { component, sizes, sums } = self;
        let rows = || component.iter().enumerate().filter(|(_, of)| **of != NONE);
        sums.fill(0.0);
        rows().for_each(|(i, &of)| sums[of as usize] += r[i].wide());
        sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum /= (*size).max(1) as f64);
        rows().for_each(|(i, &of)| r[i] -= V::narrow(sums[of as usize]));
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.component) + size_of_val(&*self.sizes) + size_of_val(&*self.sums)
    }
}
