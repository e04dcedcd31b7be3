//! Distribution of the rows of large grids among several devices. Memory is allocated in granules of 2 MB, each on one
//! device. A device reads rows in the granule of another device through the link between the devices, which takes about
//! 11 times longer (`REMOTE_ROW_COST`). The padding of rows and the number of rows per device are therefore chosen so
//! that the rows of each device begin as close to a granule boundary as possible.
//!
//! Part: one of the `PARTS` groups of consecutive rows of a divided grid. Each part has its own partial sums. A device
//! owns consecutive parts.

use crate::cuda::driver::{GRANULE_BYTES, Memory, Stream};
use crate::cuda::launch::{Geometry, MOST_BLOCKS, PART_ROWS, PARTS};
use crate::cuda::layout::{MemoryLayout, PlaneLayout};
use crate::error::Result;
use crate::rrb::layout::Layout;

/// Minimum number of tiles of a grid whose rows are distributed. On smaller grids, the distribution costs as much time
/// as it saves.
const MIN_DIVIDED_TILES: usize = 2 * MOST_BLOCKS as usize;

/// Parameters for the distribution of the rows of large grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Number of devices; 0 if grids are not divided into parts. With one device, large grids are divided, too, so that
    /// sums have the same order as on several devices.
    pub devices: usize,
    /// Minimum number of tiles of a grid that is distributed.
    min_tiles: usize,
    /// For tests: whether grids of any size are distributed over all devices, with padded rows.
    divides_all: bool,
    /// Whether values of two and four bytes may occur, in addition to values of eight bytes.
    pub has_short_values: bool,
}

/// Cost of a row in another device's memory, relative to a local row. On four H200s with an 8191 x 8191 grid, 16 such
/// rows take as long as 180 local rows.
const REMOTE_ROW_COST: f64 = 11.0;

/// Sizes of values in bytes, and the approximate fraction of the time that is spent on values of this size. In the
/// short formats, the vectors of CG have eight bytes per value, those of the sweeps four, and M four (f32) or two
/// (bf16).
const DOUBLE_SIZES: [(usize, f64); 1] = [(8, 1.0)];
const SHORT_SIZES: [(usize, f64); 3] = [(8, 0.3), (4, 0.4), (2, 0.3)];

/// Number of devices for which the parts of a grid are chosen. The parts must not depend on the actual number of
/// devices, because sums must have the same order for any number of devices.
const PLANNED_DEVICES: usize = 4;

/// Step between two candidates for the row padding, in values. Padding lengthens a row by at most 1/16.
const PADDING_STEP: usize = 16;
/// Limits the number of candidates for the row padding, and for the number of rows per part.
const MAX_CANDIDATES: usize = 32;

impl Division {
    /// A single device; grids are not divided.
    pub const NONE: Self = Self { devices: 0, min_tiles: 0, divides_all: false, has_short_values: false };

    /// Returns the division for a number of devices. `RRBSOLVER_CUDA_DIVIDE=all` in the environment distributes all
    /// grids, for tests.
    pub fn among(devices: usize) -> Self {
        let all = std::env::var_os("RRBSOLVER_CUDA_DIVIDE").is_some_and(|value| value == "all");
        Self { devices, min_tiles: if all { 0 } else { MIN_DIVIDED_TILES }, divides_all: all, has_short_values: true }
    }

    /// Returns the geometry of a grid as kernel argument, and the layout of its rows in memory.
    pub fn geometry(&self, layout: &Layout) -> (Geometry, PlaneLayout) {
        let mut g = geometry(layout);
        if self.devices > 0 && g.tiles_and_patches().0 >= self.min_tiles {
            self.divide(&mut g);
        }
        let rows = PlaneLayout::new(&g);
        g.plane = rows.plane as i64;
        (g, rows)
    }

    /// Allocates the memory of a layout whose addresses begin at 0.
    pub fn memory(&self, stream: &Stream, layout: &MemoryLayout, what: &'static str) -> Result<Memory> {
        if self.devices > 1 {
            Memory::divided(stream, layout.used, |granule| layout.owner(granule), what)
        } else {
            Memory::zeroed(stream.device(), stream, layout.used, what)
        }
    }

    /// Chooses the rows per part, the distance between rows in memory, and the number of devices that own rows. Some
    /// devices own no rows if the estimated time is lower with 2 or `PLANNED_DEVICES` devices than with all of them.
    fn divide(&self, g: &mut Geometry) {
        let given = *g;
        let pieces = (g.cy as usize).div_ceil(PART_ROWS * PARTS).max(1);
        let around = pieces - (pieces / 8).min(MAX_CANDIDATES / 2)..=pieces + (pieces / 8).min(MAX_CANDIDATES / 2);
        let strides = || {
            (0..=(given.stride as usize / (16 * PADDING_STEP)).min(MAX_CANDIDATES))
                .map(|n| given.stride + (n * PADDING_STEP) as i32)
        };
        let with =
            |part: usize, stride, sharers| Geometry { part_rows: (part * PART_ROWS) as i32, stride, sharers, ..given };
        let best = |all: &mut dyn Iterator<Item = Geometry>| {
            all.min_by(|one, other| self.time(one).total_cmp(&self.time(other))).unwrap_or(given)
        };
        let usual =
            &mut around.rev().flat_map(|part| strides().map(move |stride| with(part, stride, PLANNED_DEVICES as i32)));
        let part = best(usual).part_rows as usize / PART_ROWS;
        let fewer = [self.devices, PLANNED_DEVICES, 2].into_iter().filter(|sharers| *sharers <= self.devices);
        let all = fewer.flat_map(|sharers| strides().map(move |stride| (stride, sharers as i32)));
        *g = best(&mut all.map(|(stride, sharers)| with(part, stride, sharers)));
        if self.divides_all {
            (g.stride, g.sharers) = (g.stride + PADDING_STEP as i32, self.devices as i32);
        }
    }

    /// Returns the estimated time of the slowest device, in units of one local row.
    fn time(&self, g: &Geometry) -> f64 {
        let sharers = g.sharers as usize;
        let first = |device: usize| g.first_row(PARTS * device / sharers);
        let mut far = [0.0; PARTS + 1];
        for (size, weight) in if self.has_short_values { &SHORT_SIZES[..] } else { &DOUBLE_SIZES[..] } {
            let row = g.stride as usize * size;
            for device in 2..sharers {
                // Distance of this device's first row from the granule boundary before it. The rows of the second
                // device (number 1) begin at a granule boundary.
                let over = (first(device) - first(1)) * row % GRANULE_BYTES;
                let (loser, bytes) =
                    if over < GRANULE_BYTES / 2 { (device - 1, over) } else { (device, GRANULE_BYTES - over) };
                far[loser] += weight * bytes as f64 / row as f64;
            }
        }
        let of = |device: usize| {
            let rows = (first(device + 1) - first(device)) as f64;
            rows + REMOTE_ROW_COST * far[device].min(rows)
        };
        (0..sharers).map(of).fold(0.0, f64::max)
    }
}

/// Returns the geometry of a grid that is not divided. The caller sets the plane length.
fn geometry(layout: &Layout) -> Geometry {
    Geometry {
        nx: layout.grid.nx as i32,
        ny: layout.grid.ny as i32,
        cx: layout.cx as i32,
        cy: layout.cy as i32,
        shift_x: layout.shift_x as i32,
        shift_y: layout.shift_y as i32,
        stride: layout.stride() as i32,
        block: layout.block as i32,
        plane: 0,
        uniform: 0,
        part_rows: 0,
        sharers: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::levels::Grid;

    fn geometry_of(devices: usize, short: bool, nx: usize, ny: usize) -> Geometry {
        let division = Division { devices, min_tiles: 0, divides_all: false, has_short_values: short };
        division.geometry(&Layout::new(Grid { nx, ny }, 8)).0
    }

    /// For any grid, the parts are in ascending order and begin at multiples of the tile height. Part 4 begins in the
    /// middle of the grid. The parts do not depend on the number of devices.
    #[test]
    fn parts_cover_the_rows() {
        for (nx, ny) in
            [(1, 1), (65, 33), (39, 199), (70_000, 33), (65, 36_000), (4095, 16_380), (8191, 8191), (1000, 999)]
        {
            for short in [false, true] {
                let g = geometry_of(1, short, nx, ny);
                let parts = |g: &Geometry| [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|part| g.first_row(part));
                let first = parts(&g);
                assert!(first.is_sorted() && first[..PARTS].iter().all(|row| row % 16 == 0), "{nx} x {ny}: {first:?}");
                let middle = (g.cy as usize).div_ceil(16) / 2 * 16;
                assert_eq!((first[0], first[4], first[8]), (0, middle, g.cy as usize), "{nx} x {ny}");
                for devices in 2..=8 {
                    let several = geometry_of(devices, short, nx, ny);
                    assert_eq!(parts(&several), first, "{nx} x {ny} on {devices}");
                    assert!((2..=devices).contains(&(several.sharers as usize)), "{nx} x {ny} on {devices}");
                }
            }
        }
    }

    /// Each of four devices owns 1/4 of a large grid. The estimated time is at most 12 % above that without rows in
    /// another device's memory. On 2047 x 2047 nodes with short formats, granules contain so many rows that only two
    /// devices own rows.
    #[test]
    fn devices_own_mostly_local_rows() {
        for (nx, ny) in [(8191, 8191), (8191, 32_764), (4095, 16_380), (4095, 4095), (6000, 5000), (10_007, 9001)] {
            for short in [false, true] {
                let (g, division) = (
                    geometry_of(4, short, nx, ny),
                    Division { devices: 4, min_tiles: 0, divides_all: false, has_short_values: short },
                );
                let over = division.time(&g) / (0.25 * f64::from(g.cy));
                assert!(g.sharers == 4 && over < 1.12, "{nx} x {ny}, short {short}: {over}, {g:?}");
            }
        }
        assert_eq!([false, true].map(|short| geometry_of(4, short, 2047, 2047).sharers), [4, 2]);
    }

    /// In the actual layout, too, few rows of a device are in a granule of another device.
    #[test]
    fn few_owned_rows_are_remote() {
        for (nx, ny) in [(8191, 8191), (8191, 32_764), (4095, 16_380), (6000, 5000), (10_007, 9001)] {
            let division = Division { devices: 4, min_tiles: 0, divides_all: false, has_short_values: false };
            let (g, rows) = division.geometry(&Layout::new(Grid { nx, ny }, 8));
            let mut layout = MemoryLayout::new(0);
            layout.bytes(5000);
            let at = layout.planes(&rows, 2, 8).unwrap() as usize + 8 * rows.plane;
            let stride = g.stride as usize;
            for device in 0..4 {
                let own = g.first_row(2 * device)..g.first_row(2 * device + 2);
                let is_far = |row: &usize| layout.owner((at + 8 * stride * (1 + row)) / GRANULE_BYTES) != device;
                let (count, far) = (own.len(), own.filter(is_far).count());
                assert!(far <= 16 && 50 * far <= count, "{nx} x {ny}: {far} rows of {count} on {device}");
            }
        }
    }
}
