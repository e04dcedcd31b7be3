//! The order of the rows in a sweep: in groups one after another, rows of a group in any order.

use super::couplings::{Couplings, NONE, WHAT};
use crate::error::{Result, collected, push, zeroed};
use std::iter::repeat_n;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// As the rows lie, each a group of its own: what the others are compared with.
    #[cfg(test)]
    Natural,
    /// By colours: rows with a coupling have different ones.
    Colours,
}

/// The rows in order.
pub struct Ordered {
    /// Rows, group by group.
    pub row: Vec<u32>,
    /// Of each row its place among them.
    pub place: Vec<u32>,
    /// Where groups begin, and the end.
    pub groups: Vec<usize>,
}

impl Ordered {
    pub fn of(c: &Couplings, order: Order) -> Result<Self> {
        match order {
            #[cfg(test)]
            Order::Natural => Self::natural(c.rows()),
            Order::Colours => Self::by_colours(c),
        }
    }

    /// As the rows lie, each a group of its own.
    pub fn natural(rows: usize) -> Result<Self> {
        let all = || collected(0..rows as u32, WHAT);
        Ok(Self { row: all()?, place: all()?, groups: collected(0..=rows, WHAT)? })
    }

    /// Each row takes the first colour that none of its couplings has, in the order of the rows.
    fn by_colours(c: &Couplings) -> Result<Self> {
        let mut colour: Vec<u32> = collected(repeat_n(NONE, c.rows()), WHAT)?;
        // The last row that has a coupling of a colour.
        let (mut seen, mut sizes): (Vec<u32>, Vec<usize>) = (Vec::new(), Vec::new());
        for i in 0..c.rows() {
            for of in c.row(i).map(|(j, _)| colour[j]).filter(|&of| of != NONE) {
                seen[of as usize] = i as u32;
            }
            let free = seen.iter().position(|&row| row != i as u32);
            let of = match free {
                Some(of) => of,
                None => {
                    push(&mut seen, NONE, WHAT)?;
                    push(&mut sizes, 0, WHAT)?;
                    seen.len() - 1
                }
            };
            colour[i] = of as u32;
            sizes[of] += 1;
        }
        let mut groups = collected([0].into_iter().chain(sizes), WHAT)?;
        crate::sparse::accumulate(&mut groups);
        let mut next = collected(groups.iter().copied(), WHAT)?;
        let (mut row, mut place): (Vec<u32>, Vec<u32>) = (zeroed(c.rows(), WHAT)?, zeroed(c.rows(), WHAT)?);
        for (i, &of) in colour.iter().enumerate() {
            let at = &mut next[of as usize];
            (row[*at], place[i]) = (i as u32, *at as u32);
            *at += 1;
        }
        Ok(Self { row, place, groups })
    }
}
