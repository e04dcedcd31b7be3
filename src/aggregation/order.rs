//! Order of the rows in a smoother sweep. The rows are divided into groups, which are processed one after another. Rows
//! of a group may be processed in any order.

use crate::direct::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED};
use crate::error::{Result, collected, push, zeroed};
use std::iter::repeat_n;

/// Selects the order of the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SweepOrder {
    /// A sweep has the same result as a sweep in the order of the row numbers. This order is a reference for tests.
    /// Coupled rows are in different groups.
    #[cfg(test)]
    Natural,
    /// Multicolour order: coupled rows have different colours.
    Colours,
}

/// Rows in the order of a sweep.
pub struct OrderedRows {
    /// Row numbers in the order of the sweep, group by group.
    pub row: Vec<u32>,
    /// Position of each row in `row`.
    pub position: Vec<u32>,
    /// Group g consists of the positions `group_starts[g] .. group_starts[g + 1]`.
    pub group_starts: Vec<usize>,
}

impl OrderedRows {
    pub fn of(c: &Couplings, order: SweepOrder) -> Result<Self> {
        match order {
            #[cfg(test)]
            SweepOrder::Natural => Self::by_dependencies(c),
            SweepOrder::Colours => Self::by_greedy_colouring(c),
        }
    }

    /// Orders the rows by N colours, which the caller has computed; `colours` contains the colour of each row, from 0.
    /// Rows of one colour must not be coupled, because sweeps ignore couplings within a group.
    pub fn from_colours<const N: usize>(colours: impl Iterator<Item = u32>) -> Result<Self> {
        let colour_of_row = collected(colours, ALLOCATION_NAME)?;
        let mut sizes = [0; N];
        colour_of_row.iter().for_each(|&colour| sizes[colour as usize] += 1);
        Self::sorted_by_group(&colour_of_row, sizes)
    }

    /// Returns the rows in the order of their numbers, as one group. Use this order for a level on which no sweeps are
    /// executed.
    pub fn in_one_group(rows: usize) -> Result<Self> {
        let row_numbers = || collected(0..rows as u32, ALLOCATION_NAME);
        Ok(Self { row: row_numbers()?, position: row_numbers()?, group_starts: collected([0, rows], ALLOCATION_NAME)? })
    }

    /// Natural order: the group of a row is the first one after the groups of all coupled rows with lower numbers.
    #[cfg(test)]
    fn by_dependencies(c: &Couplings) -> Result<Self> {
        let mut group_of_row: Vec<u32> = zeroed(c.rows(), ALLOCATION_NAME)?;
        let mut sizes = Vec::new();
        for i in 0..c.rows() {
            let row_group = c.row(i).filter(|&(j, _)| j < i).map(|(j, _)| group_of_row[j] + 1).max().unwrap_or(0);
            group_of_row[i] = row_group;
            if row_group as usize == sizes.len() {
                push(&mut sizes, 0, ALLOCATION_NAME)?;
            }
            sizes[row_group as usize] += 1;
        }
        Self::sorted_by_group(&group_of_row, sizes)
    }

    /// Greedy colouring in the order of the row numbers: each row gets the first colour that none of its coupled rows
    /// has.
    fn by_greedy_colouring(c: &Couplings) -> Result<Self> {
        let mut colour_of_row: Vec<u32> = collected(repeat_n(UNASSIGNED, c.rows()), ALLOCATION_NAME)?;
        // For each colour, the last row found to be coupled to a row of this colour.
        let (mut last_coupled_row, mut sizes): (Vec<u32>, Vec<usize>) = (Vec::new(), Vec::new());
        for i in 0..c.rows() {
            for colour in c.row(i).map(|(j, _)| colour_of_row[j]).filter(|&colour| colour != UNASSIGNED) {
                last_coupled_row[colour as usize] = i as u32;
            }
            let free_colour = last_coupled_row.iter().position(|&row| row != i as u32);
            let colour = match free_colour {
                Some(colour) => colour,
                None => {
                    push(&mut last_coupled_row, UNASSIGNED, ALLOCATION_NAME)?;
                    push(&mut sizes, 0, ALLOCATION_NAME)?;
                    last_coupled_row.len() - 1
                }
            };
            colour_of_row[i] = colour as u32;
            sizes[colour] += 1;
        }
        Self::sorted_by_group(&colour_of_row, sizes)
    }

    /// Sorts the rows by group, and by row number within a group.
    fn sorted_by_group(group_of_row: &[u32], sizes: impl IntoIterator<Item = usize>) -> Result<Self> {
        let mut group_starts = collected([0].into_iter().chain(sizes), ALLOCATION_NAME)?;
        crate::base::csr::lengths_to_pointers(&mut group_starts);
        let mut next_positions = collected(group_starts.iter().copied(), ALLOCATION_NAME)?;
        let (mut row, mut position): (Vec<u32>, Vec<u32>) =
            (zeroed(group_of_row.len(), ALLOCATION_NAME)?, zeroed(group_of_row.len(), ALLOCATION_NAME)?);
        for (i, &row_group) in group_of_row.iter().enumerate() {
            let next_position = &mut next_positions[row_group as usize];
            (row[*next_position], position[i]) = (i as u32, *next_position as u32);
            *next_position += 1;
        }
        Ok(Self { row, position, group_starts })
    }
}
