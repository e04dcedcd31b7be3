//! Order of the rows in a smoother sweep. The rows are divided into groups, which are processed one after another. Rows
//! of a group may be processed in any order.

use crate::direct::couplings::{Couplings, NONE, WHAT};
use crate::error::{Result, collected, push, zeroed};
use std::iter::repeat_n;

/// Selects the order of the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// A sweep has the same result as a sweep in the order of the row numbers. This order is a reference for tests.
    /// Coupled rows are in different groups.
    #[cfg(test)]
    Natural,
    /// Multicolour order: coupled rows have different colours.
    Colours,
}

/// Rows in the order of a sweep.
pub struct Ordered {
    /// Row numbers in the order of the sweep, group by group.
    pub row: Vec<u32>,
    /// Position of each row in `row`.
    pub position: Vec<u32>,
    /// Group g consists of the positions `groups[g] .. groups[g + 1]`.
    pub groups: Vec<usize>,
}

impl Ordered {
    pub fn of(c: &Couplings, order: Order) -> Result<Self> {
        match order {
            #[cfg(test)]
            Order::Natural => Self::by_dependencies(c),
            Order::Colours => Self::by_colours(c),
        }
    }

    /// Orders the rows by N colours, which the caller has computed; `colours` contains the colour of each row, from 0.
    /// Rows of one colour must not be coupled, because sweeps ignore couplings within a group.
    pub fn coloured<const N: usize>(colours: impl Iterator<Item = u32>) -> Result<Self> {
        let colour = collected(colours, WHAT)?;
        let mut sizes = [0; N];
        colour.iter().for_each(|&of| sizes[of as usize] += 1);
        Self::by_groups(&colour, sizes)
    }

    /// Returns the rows in the order of their numbers, as one group. Use this order for a level on which no sweeps are
    /// executed.
    pub fn unswept(rows: usize) -> Result<Self> {
        let all = || collected(0..rows as u32, WHAT);
        Ok(Self { row: all()?, position: all()?, groups: collected([0, rows], WHAT)? })
    }

    /// Natural order: the group of a row is the first one after the groups of all coupled rows with lower numbers.
    #[cfg(test)]
    fn by_dependencies(c: &Couplings) -> Result<Self> {
        let mut group: Vec<u32> = zeroed(c.rows(), WHAT)?;
        let mut sizes = Vec::new();
        for i in 0..c.rows() {
            let of = c.row(i).filter(|&(j, _)| j < i).map(|(j, _)| group[j] + 1).max().unwrap_or(0);
            group[i] = of;
            if of as usize == sizes.len() {
                push(&mut sizes, 0, WHAT)?;
            }
            sizes[of as usize] += 1;
        }
        Self::by_groups(&group, sizes)
    }

    /// Greedy colouring in the order of the row numbers: each row gets the first colour that none of its coupled rows
    /// has.
    fn by_colours(c: &Couplings) -> Result<Self> {
        let mut colour: Vec<u32> = collected(repeat_n(NONE, c.rows()), WHAT)?;
        // For each colour, the last row found to be coupled to a row of this colour.
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
        Self::by_groups(&colour, sizes)
    }

    /// Sorts the rows by group, and by row number within a group.
    fn by_groups(group: &[u32], sizes: impl IntoIterator<Item = usize>) -> Result<Self> {
        let mut groups = collected([0].into_iter().chain(sizes), WHAT)?;
        crate::base::csr::lengths_to_pointers(&mut groups);
        let mut next = collected(groups.iter().copied(), WHAT)?;
        let (mut row, mut position): (Vec<u32>, Vec<u32>) = (zeroed(group.len(), WHAT)?, zeroed(group.len(), WHAT)?);
        for (i, &of) in group.iter().enumerate() {
            let at = &mut next[of as usize];
            (row[*at], position[i]) = (i as u32, *at as u32);
            *at += 1;
        }
        Ok(Self { row, position, groups })
    }
}
