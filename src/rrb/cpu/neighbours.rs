//! Neighbours of the four colours r1, r2, b1 and b2 (report 16-06, section 3.2). The functions take row J of a colour,
//! which has the nodes (I, J) for 0 <= I < cx. They return the array rows with the couplings of these nodes, or the
//! array rows with the values at the neighbours of these nodes. Only this module contains these index rules:
//!
//! ```text
//!     r1(I,J): W b2(I-1,J)  E b2(I,J)    S b1(I,J)    N b1(I,J+1)   diagonals r2(I-1,J) .. r2(I,J+1)
//!     r2(I,J): W b1(I,J)    E b1(I+1,J)  S b2(I,J-1)  N b2(I,J)     diagonals r1(I,J-1) .. r1(I+1,J)
//!     b1(I,J): W r2(I-1,J)  E r2(I,J)    S r1(I,J-1)  N r1(I,J)     diagonals b2(I-1,J-1) .. b2(I,J)
//!     b2(I,J): W r1(I,J)    E r1(I+1,J)  S r2(I,J)    N r2(I,J+1)   diagonals b1(I,J) .. b1(I+1,J+1)
//! ```

use crate::base::shared::Number;
use crate::error::Result;
use crate::rrb::cpu::colour_array::{ColourArray, FourColours, four_arrays};
use crate::rrb::layout::{Colour, Layout};

/// Rows for four neighbours, in the order west, east, south, north or southwest, southeast, northwest, northeast.
pub type NeighbourRows<'a, T = f64> = [&'a [T]; 4];

/// Straight couplings, which join red and black nodes. The arrays contain the couplings of r1 and of r2 to the west,
/// east, south and north.
#[derive(Clone)]
pub struct AxisCouplings<T = f64> {
    pub r1: [ColourArray<T>; 4],
    pub r2: [ColourArray<T>; 4],
}

/// Diagonal couplings between two colours: r1 and r2, or b1 and b2. The arrays contain the couplings of r1 or of b1 to
/// the southwest, southeast, northwest and northeast.
#[derive(Clone)]
pub struct DiagonalCouplings<T = f64> {
    pub arrays: [ColourArray<T>; 4],
}

/// All diagonal couplings: between r1 and r2, and between b1 and b2.
#[derive(Clone)]
pub struct CornerCouplings<T = f64> {
    pub red: DiagonalCouplings<T>,
    pub black: DiagonalCouplings<T>,
}

/// Couplings at distance two between nodes of one colour, to the east and to the north.
#[derive(Clone)]
pub struct DistantCouplings<T = f64> {
    pub east: ColourArray<T>,
    pub north: ColourArray<T>,
}

/// Indices of axis neighbours in `NeighbourRows`.
pub const WEST: usize = 0;
pub const EAST: usize = 1;
pub const SOUTH: usize = 2;
pub const NORTH: usize = 3;
/// Indices of diagonal neighbours in `NeighbourRows`.
pub const SOUTHWEST: usize = 0;
pub const SOUTHEAST: usize = 1;
pub const NORTHWEST: usize = 2;
pub const NORTHEAST: usize = 3;

fn total_bytes<T: Number>(arrays: &[ColourArray<T>]) -> usize {
    arrays.iter().map(ColourArray::bytes).sum()
}

impl<T: Number> AxisCouplings<T> {
    /// Allocates zeros if `is_present`; otherwise returns absent arrays.
    pub fn zeroed(layout: &Layout, is_present: bool) -> Result<Self> {
        Self::of(|| ColourArray::zeroed_if(layout, is_present))
    }

    /// Calls `make_array` once per array, first for r1 and then for r2.
    pub fn of(mut make_array: impl FnMut() -> Result<ColourArray<T>>) -> Result<Self> {
        Ok(Self { r1: four_arrays(&mut make_array)?, r2: four_arrays(&mut make_array)? })
    }

    /// Returns the couplings of row J of a colour to its axis neighbours.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn couplings(&self, colour: Colour, row: usize) -> NeighbourRows<'_, T> {
        let (r1, r2) = (&self.r1, &self.r2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            match colour {
                Colour::R1 => [0, 1, 2, 3].map(|k| r1[k].row(row, 0)),
                Colour::R2 => [0, 1, 2, 3].map(|k| r2[k].row(row, 0)),
                Colour::B1 => {
                    [r2[EAST].row(row, -1), r2[WEST].row(row, 0), r1[NORTH].row_below(row, 0), r1[SOUTH].row(row, 0)]
                }
                Colour::B2 => {
                    [r1[EAST].row(row, 0), r1[WEST].row(row, 1), r2[NORTH].row(row, 0), r2[SOUTH].row(row + 1, 0)]
                }
            }
        }
    }

    /// For row J of a black colour, returns a pair (a, b) of couplings of each red neighbour, in the order west, east,
    /// south, north. For the red neighbours to the west and east, a is their coupling to the west and b their coupling
    /// to the east. For the red neighbours to the south and north, a is their coupling to the south and b their
    /// coupling to the north. The elimination of a red node couples the two black nodes at the other ends of a and b,
    /// which are at distance two.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn coupling_pairs(&self, colour: Colour, row: usize) -> [[&[T]; 2]; 4] {
        let (r1, r2) = (&self.r1, &self.r2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            match colour {
                Colour::B1 => [
                    [r2[WEST].row(row, -1), r2[EAST].row(row, -1)],
                    [r2[WEST].row(row, 0), r2[EAST].row(row, 0)],
                    [r1[SOUTH].row_below(row, 0), r1[NORTH].row_below(row, 0)],
                    [r1[SOUTH].row(row, 0), r1[NORTH].row(row, 0)],
                ],
                _ => [
                    [r1[WEST].row(row, 0), r1[EAST].row(row, 0)],
                    [r1[WEST].row(row, 1), r1[EAST].row(row, 1)],
                    [r2[SOUTH].row(row, 0), r2[NORTH].row(row, 0)],
                    [r2[SOUTH].row(row + 1, 0), r2[NORTH].row(row + 1, 0)],
                ],
            }
        }
    }

    pub fn bytes(&self) -> usize {
        total_bytes(&self.r1) + total_bytes(&self.r2)
    }
}

impl<T: Number> DiagonalCouplings<T> {
    /// Allocates zeros if `is_present`; otherwise returns absent arrays.
    pub fn zeroed(layout: &Layout, is_present: bool) -> Result<Self> {
        Ok(Self { arrays: four_arrays(|| ColourArray::zeroed_if(layout, is_present))? })
    }

    /// See [`ColourArray::of_type`].
    pub fn of_type<U: Number>(&self) -> Option<DiagonalCouplings<U>> {
        let [a, b, c, d] = &self.arrays;
        Some(DiagonalCouplings { arrays: [a.of_type()?, b.of_type()?, c.of_type()?, d.of_type()?] })
    }

    /// Returns the couplings of row J of a colour to its diagonal neighbours.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn couplings(&self, colour: Colour, row: usize) -> NeighbourRows<'_, T> {
        let arrays = &self.arrays;
        // SAFETY: by the safety contract of this function.
        unsafe {
            match colour {
                Colour::R1 | Colour::B1 => [0, 1, 2, 3].map(|k| arrays[k].row(row, 0)),
                Colour::R2 => [
                    arrays[NORTHEAST].row_below(row, 0),
                    arrays[NORTHWEST].row_below(row, 1),
                    arrays[SOUTHEAST].row(row, 0),
                    arrays[SOUTHWEST].row(row, 1),
                ],
                Colour::B2 => [
                    arrays[NORTHEAST].row(row, 0),
                    arrays[NORTHWEST].row(row, 1),
                    arrays[SOUTHEAST].row(row + 1, 0),
                    arrays[SOUTHWEST].row(row + 1, 1),
                ],
            }
        }
    }

    pub fn bytes(&self) -> usize {
        total_bytes(&self.arrays)
    }
}

impl<T: Number> CornerCouplings<T> {
    /// Allocates zeros if `is_present`; otherwise returns absent arrays.
    pub fn zeroed(layout: &Layout, is_present: bool) -> Result<Self> {
        Ok(Self {
            red: DiagonalCouplings::zeroed(layout, is_present)?,
            black: DiagonalCouplings::zeroed(layout, is_present)?,
        })
    }

    /// Returns the couplings of row J of a colour to its diagonal neighbours.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn couplings(&self, colour: Colour, row: usize) -> NeighbourRows<'_, T> {
        let diagonal = if matches!(colour, Colour::R1 | Colour::R2) { &self.red } else { &self.black };
        // SAFETY: by the safety contract of this function.
        unsafe { diagonal.couplings(colour, row) }
    }

    pub fn bytes(&self) -> usize {
        self.red.bytes() + self.black.bytes()
    }
}

impl<T: Number> DistantCouplings<T> {
    /// Allocates zeros if `is_present`; otherwise returns absent arrays.
    pub fn zeroed(layout: &Layout, is_present: bool) -> Result<Self> {
        Self::of(|| ColourArray::zeroed_if(layout, is_present))
    }

    /// Calls `make_array` twice: for the couplings to the east, then to the north.
    pub fn of(mut make_array: impl FnMut() -> Result<ColourArray<T>>) -> Result<Self> {
        Ok(Self { east: make_array()?, north: make_array()? })
    }

    /// See [`ColourArray::of_type`].
    pub fn of_type<U: Number>(&self) -> Option<DistantCouplings<U>> {
        Some(DistantCouplings { east: self.east.of_type()?, north: self.north.of_type()? })
    }

    /// Returns the couplings of row J to the nodes at distance two to the west, east, south and north.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn couplings(&self, row: usize) -> NeighbourRows<'_, T> {
        // SAFETY: by the safety contract of this function.
        unsafe { [self.east.row(row, -1), self.east.row(row, 0), self.north.row_below(row, 0), self.north.row(row, 0)] }
    }

    pub fn bytes(&self) -> usize {
        self.east.bytes() + self.north.bytes()
    }
}

impl<T: Number> FourColours<T> {
    /// Returns the values of the axis neighbours of row J of a colour.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn axis_neighbours(&self, colour: Colour, row: usize) -> NeighbourRows<'_, T> {
        // SAFETY: by the safety contract of this function.
        unsafe {
            match colour {
                Colour::R1 => [self.b2.row(row, -1), self.b2.row(row, 0), self.b1.row(row, 0), self.b1.row(row + 1, 0)],
                Colour::R2 => {
                    [self.b1.row(row, 0), self.b1.row(row, 1), self.b2.row_below(row, 0), self.b2.row(row, 0)]
                }
                Colour::B1 => {
                    [self.r2.row(row, -1), self.r2.row(row, 0), self.r1.row_below(row, 0), self.r1.row(row, 0)]
                }
                Colour::B2 => [self.r1.row(row, 0), self.r1.row(row, 1), self.r2.row(row, 0), self.r2.row(row + 1, 0)],
            }
        }
    }

    /// Returns the values of the diagonal neighbours of row J of a colour.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn diagonal_neighbours(&self, colour: Colour, row: usize) -> NeighbourRows<'_, T> {
        // SAFETY: by the safety contract of this function.
        unsafe {
            match colour {
                Colour::R1 => {
                    [self.r2.row(row, -1), self.r2.row(row, 0), self.r2.row(row + 1, -1), self.r2.row(row + 1, 0)]
                }
                Colour::R2 => {
                    [self.r1.row_below(row, 0), self.r1.row_below(row, 1), self.r1.row(row, 0), self.r1.row(row, 1)]
                }
                Colour::B1 => {
                    [self.b2.row_below(row, -1), self.b2.row_below(row, 0), self.b2.row(row, -1), self.b2.row(row, 0)]
                }
                Colour::B2 => {
                    [self.b1.row(row, 0), self.b1.row(row, 1), self.b1.row(row + 1, 0), self.b1.row(row + 1, 1)]
                }
            }
        }
    }
}

impl<T: Number> ColourArray<T> {
    /// Returns the values of this colour at distance two to the west, east, south and north of row J.
    ///
    /// # Safety
    /// No thread may write these rows while the slices are used.
    pub unsafe fn distant_neighbours(&self, row: usize) -> NeighbourRows<'_, T> {
        // SAFETY: by the safety contract of this function.
        unsafe { [self.row(row, -1), self.row(row, 1), self.row_below(row, 0), self.row(row + 1, 0)] }
    }
}
