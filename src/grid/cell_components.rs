//! Connected components of a 7-point matrix, which of them are singular with the constant vector as null space, and
//! the groups of cells that its strong couplings join.

use crate::error::{Result, collected, zeroed};
use crate::grid::cells::SevenPoints;
use crate::grid::components::ZERO_ROW_SUM;
use crate::grid::joined::Joined;
use crate::isa::for_each_isa;
use std::ops::Range;

/// Components of at least two cells. A row without couplings (a cell within an obstacle) belongs to none.
#[derive(Clone, Debug, Default)]
pub struct CellComponents {
    /// Cells of each component, and where those lie.
    pub joined: Joined,
    /// Whether |row sum| <= tolerance * center in all rows of a component.
    pub singular: Vec<bool>,
}

for_each_isa! {
    /// sum_i += couplings_i.
    fn add(sum: &mut [f64], couplings: &[f64]) {
        for (sum, coupling) in sum.iter_mut().zip(couplings) {
            *sum += coupling;
        }
    }
}

/// The part of a row of cells, j + ny k.
fn along(values: &[f64], nx: usize, row: usize) -> &[f64] {
    &values[row * nx..][..nx]
}

/// Sums of the matrix rows of the cells in row j + ny k.
pub fn row_sums(a: &SevenPoints, row: usize, sums: &mut [f64]) {
    let (nx, ny) = (a.cells.nx, a.cells.ny);
    let [east, north, top] = a.forward;
    sums.copy_from_slice(along(a.center, nx, row));
    add(sums, along(east, nx, row));
    add(&mut sums[1..], along(east, nx, row));
    add(sums, along(north, nx, row));
    if row % ny > 0 {
        add(sums, along(north, nx, row - 1));
    }
    add(sums, along(top, nx, row));
    if row >= ny {
        add(sums, along(top, nx, row - ny));
    }
}

impl CellComponents {
    /// Finds them. Row sums below `ZERO_ROW_SUM` of the center count as zero.
    pub fn find(a: &SevenPoints) -> Result<Self> {
        Self::find_within(a, ZERO_ROW_SUM)
    }

    /// The same with another tolerance.
    pub fn find_within(a: &SevenPoints, zero_row_sum: f64) -> Result<Self> {
        let joined = Joined::find(a, |_, coupling| coupling != 0.0)?;
        let mut singular: Vec<bool> = zeroed(joined.count(), "components")?;
        singular.fill(true);
        let mut sums = zeroed(a.cells.nx, "sums of a row")?;
        for row in 0..a.cells.ny * a.cells.nz {
            if joined.runs(row).all(|(_, component)| component.is_none_or(|c| !singular[c])) {
                continue;
            }
            row_sums(a, row, &mut sums);
            let center = &a.center[row * a.cells.nx..][..a.cells.nx];
            for (run, component) in joined.runs(row) {
                let Some(component) = component else { continue };
                singular[component] &= run.into_iter().all(|i| sums[i].abs() <= zero_row_sum * center[i]);
            }
        }
        Ok(Self { joined, singular })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.joined.count()
    }

    /// How many of them are singular.
    pub fn singular_count(&self) -> usize {
        self.singular.iter().filter(|&&singular| singular).count()
    }

    /// Numbers of the singular ones among all.
    pub fn singular_numbers(&self) -> Result<Vec<Option<usize>>> {
        let mut next = 0;
        let number = |&singular: &bool| {
            next += usize::from(singular);
            singular.then(|| next - 1)
        };
        collected(self.singular.iter().map(number), "components")
    }

    /// Columns and component of the runs of row j + ny k; `None`: rows without couplings.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        self.joined.runs(row)
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.joined.bytes() + self.singular.capacity()
    }
}

/// A coupling is strong when it is so many times that of the heavy phase.
const STRONG: f64 = 30.0;

/// Groups of cells that strong couplings join: bubbles, or the air around drops. The couplings of the heavy phase are
/// the smallest that there are in each direction, so that cells need not be cubes.
#[derive(Clone, Debug, Default)]
pub struct Strong {
    /// The groups.
    pub joined: Joined,
    /// The fewest cells that one of them extends over in any direction of the grid with more than one cell; 0: there
    /// is no group.
    pub thinnest: usize,
}

impl Strong {
    /// Finds them.
    pub fn find(a: &SevenPoints) -> Result<Self> {
        let heavy = a
            .forward
            .map(|couplings| couplings.iter().map(|c| c.abs()).filter(|&c| c > 0.0).fold(f64::INFINITY, f64::min));
        let joined = Joined::find(a, |d, coupling| coupling.abs() > STRONG * heavy[d])?;
        let thinnest = thinnest(a, &joined)?;
        Ok(Self { joined, thinnest })
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.joined.count()
    }
}

/// The shortest side of the boxes around the groups.
fn thinnest(a: &SevenPoints, joined: &Joined) -> Result<usize> {
    let mut first = zeroed(joined.count(), "extents of strong groups")?;
    first.fill([usize::MAX; 3]);
    let mut last = zeroed(joined.count(), "extents of strong groups")?;
    last.fill([0; 3]);
    for row in 0..a.cells.ny * a.cells.nz {
        let (j, k) = (row % a.cells.ny, row / a.cells.ny);
        for (run, group) in joined.runs(row) {
            let Some(group) = group else { continue };
            for (d, (low, high)) in [(run.start, run.end), (j, j + 1), (k, k + 1)].into_iter().enumerate() {
                first[group][d] = first[group][d].min(low);
                last[group][d] = last[group][d].max(high);
            }
        }
    }
    let size = a.cells.size();
    let sides = first.iter().zip(&last).flat_map(|(first, last)| (0..3).map(|d| (d, last[d] - first[d])));
    Ok(sides.filter(|&(d, _)| size[d] > 1).map(|(_, side)| side).min().unwrap_or(0))
}
