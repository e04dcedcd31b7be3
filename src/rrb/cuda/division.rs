//! Distribution of the rows of large grids among several devices. Memory is allocated in granules of 2 MB, each on one
//! device. A device reads rows in the granule of another device through the link between the devices, which takes about
//! 11 times longer (`REMOTE_ROW_COST`). The padding of rows and the number of rows per device are therefore chosen so
//! that the rows of each device begin as close to a granule boundary as possible.
//!
//! Tile: the rectangle of indices (I, J) that a thread block of a sweep processes at a time (kernels/rrb/levels.cuh).
//!
//! Part: one of the `PARTS` groups of consecutive rows of a divided grid. Each part has its own partial sums. A device
//! owns consecutive parts.

use crate::cuda::driver::{GRANULE_BYTES, Memory, Stream};
use crate::cuda::launch::{Geometry, MAX_BLOCKS, PART_ROWS, PARTS};
use crate::cuda::layout::{MemoryLayout, PlaneLayout};
use crate::error::Result;
use crate::rrb::layout::Layout;

/// Minimum number of tiles that a grid must have so that its rows are distributed. On smaller grids, the distribution
/// costs as much time as it saves.
const MIN_DIVIDED_TILES: usize = 2 * MAX_BLOCKS as usize;

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

/// Sizes of values in bytes, each with the approximate fraction of the time of a solve for values of this size. With
/// f32 and bf16, the vectors of CG have eight bytes per value, the vectors of the sweeps four, and M four (f32) or two
/// (bf16).
const DOUBLE_SIZE_WEIGHTS: [(usize, f64); 1] = [(8, 1.0)];
const SHORT_SIZE_WEIGHTS: [(usize, f64); 3] = [(8, 0.3), (4, 0.4), (2, 0.3)];

/// Number of devices for which the parts of a grid are chosen. The parts must not depend on the actual number of
/// devices, because sums must have the same order for any number of devices.
const PLANNED_DEVICES: usize = 4;

/// Step between two candidates for the row padding, in values. Padding lengthens a row by at most 1/16.
const PADDING_STEP: usize = 16;
/// Limits the number of candidates for the row padding and, separately, for the number of rows per part.
const MAX_CANDIDATES: usize = 32;

impl Division {
    /// A single device; grids are not divided.
    pub const NONE: Self = Self { devices: 0, min_tiles: 0, divides_all: false, has_short_values: false };

    /// Returns the division for a number of devices. `RRBSOLVER_CUDA_DIVIDE=all` in the environment distributes all
    /// grids, for tests.
    pub fn for_devices(devices: usize) -> Self {
        let divides_all = std::env::var_os("RRBSOLVER_CUDA_DIVIDE").is_some_and(|value| value == "all");
        Self {
            devices,
            min_tiles: if divides_all { 0 } else { MIN_DIVIDED_TILES },
            divides_all,
            has_short_values: true,
        }
    }

    /// Returns the geometry of a grid as kernel argument, and the layout of its rows in memory.
    pub fn geometry(&self, layout: &Layout) -> (Geometry, PlaneLayout) {
        let mut g = geometry(layout);
        if self.devices > 0 && g.tiles_and_patches().0 >= self.min_tiles {
            self.divide(&mut g);
        }
        let plane_layout = PlaneLayout::new(&g);
        g.plane = plane_layout.plane as i64;
        (g, plane_layout)
    }

    /// Allocates the memory of a layout whose addresses begin at 0.
    pub fn allocate(&self, stream: &Stream, layout: &MemoryLayout, allocation_name: &'static str) -> Result<Memory> {
        if self.devices > 1 {
            Memory::divided(stream, layout.used_bytes, |granule| layout.owner(granule), allocation_name)
        } else {
            Memory::zeroed(stream.device(), stream, layout.used_bytes, allocation_name)
        }
    }

    /// Chooses the rows per part, the distance between rows in memory, and the number of devices that own rows. Some
    /// devices own no rows if the estimated time is lower with 2 or `PLANNED_DEVICES` devices than with all of them.
    fn divide(&self, g: &mut Geometry) {
        let undivided = *g;
        let tiles_per_part = (g.cy as usize).div_ceil(PART_ROWS * PARTS).max(1);
        let part_heights = tiles_per_part - (tiles_per_part / 8).min(MAX_CANDIDATES / 2)
            ..=tiles_per_part + (tiles_per_part / 8).min(MAX_CANDIDATES / 2);
        let strides = || {
            (0..=(undivided.stride as usize / (16 * PADDING_STEP)).min(MAX_CANDIDATES))
                .map(|n| undivided.stride + (n * PADDING_STEP) as i32)
        };
        let geometry_with = |part_height: usize, stride, sharers| Geometry {
            part_rows: (part_height * PART_ROWS) as i32,
            stride,
            sharers,
            ..undivided
        };
        let fastest = |candidates: &mut dyn Iterator<Item = Geometry>| {
            candidates.min_by(|a, b| self.estimated_time(a).total_cmp(&self.estimated_time(b))).unwrap_or(undivided)
        };
        let planned_geometries = &mut part_heights.rev().flat_map(|part_height| {
            strides().map(move |stride| geometry_with(part_height, stride, PLANNED_DEVICES as i32))
        });
        let part_height = fastest(planned_geometries).part_rows as usize / PART_ROWS;
        let device_counts = [self.devices, PLANNED_DEVICES, 2].into_iter().filter(|sharers| *sharers <= self.devices);
        let stride_choices = device_counts.flat_map(|sharers| strides().map(move |stride| (stride, sharers as i32)));
        *g = fastest(&mut stride_choices.map(|(stride, sharers)| geometry_with(part_height, stride, sharers)));
        if self.divides_all {
            (g.stride, g.sharers) = (g.stride + PADDING_STEP as i32, self.devices as i32);
        }
    }

    /// Returns the estimated time of the slowest device, in units of one local row.
    fn estimated_time(&self, g: &Geometry) -> f64 {
        let sharers = g.sharers as usize;
        let first_row_of = |device: usize| g.first_row(PARTS * device / sharers);
        let mut remote_rows = [0.0; PARTS + 1];
        for (size, weight) in if self.has_short_values { &SHORT_SIZE_WEIGHTS[..] } else { &DOUBLE_SIZE_WEIGHTS[..] } {
            let row_bytes = g.stride as usize * size;
            for device in 2..sharers {
                // Distance of this device's first row from the granule boundary before it. The rows of the second
                // device (number 1) begin at a granule boundary.
                let excess_bytes = (first_row_of(device) - first_row_of(1)) * row_bytes % GRANULE_BYTES;
                let (reading_device, remote_bytes) = if excess_bytes < GRANULE_BYTES / 2 {
                    (device - 1, excess_bytes)
                } else {
                    (device, GRANULE_BYTES - excess_bytes)
                };
                remote_rows[reading_device] += weight * remote_bytes as f64 / row_bytes as f64;
            }
        }
        let device_time = |device: usize| {
            let rows = (first_row_of(device + 1) - first_row_of(device)) as f64;
            rows + REMOTE_ROW_COST * remote_rows[device].min(rows)
        };
        (0..sharers).map(device_time).fold(0.0, f64::max)
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
        block: layout.compute_block as i32,
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

    fn geometry_of(devices: usize, has_short_values: bool, nx: usize, ny: usize) -> Geometry {
        let division = Division { devices, min_tiles: 0, divides_all: false, has_short_values };
        division.geometry(&Layout::new(Grid { nx, ny }, 8)).0
    }

    /// For any grid, the parts are in ascending order and begin at multiples of the tile height. Part 4 begins in the
    /// middle of the grid. The parts do not depend on the number of devices.
    #[test]
    fn parts_cover_the_rows() {
        for (nx, ny) in
            [(1, 1), (65, 33), (39, 199), (70_000, 33), (65, 36_000), (4095, 16_380), (8191, 8191), (1000, 999)]
        {
            for has_short_values in [false, true] {
                let g = geometry_of(1, has_short_values, nx, ny);
                let part_starts = |g: &Geometry| [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|part| g.first_row(part));
                let expected_starts = part_starts(&g);
                assert!(
                    expected_starts.is_sorted() && expected_starts[..PARTS].iter().all(|row| row % 16 == 0),
                    "{nx} x {ny}: {expected_starts:?}"
                );
                let middle_row = (g.cy as usize).div_ceil(16) / 2 * 16;
                assert_eq!(
                    (expected_starts[0], expected_starts[4], expected_starts[8]),
                    (0, middle_row, g.cy as usize),
                    "{nx} x {ny}"
                );
                for devices in 2..=8 {
                    let geometry = geometry_of(devices, has_short_values, nx, ny);
                    assert_eq!(part_starts(&geometry), expected_starts, "{nx} x {ny} on {devices}");
                    assert!((2..=devices).contains(&(geometry.sharers as usize)), "{nx} x {ny} on {devices}");
                }
            }
        }
    }

    /// Each of four devices owns 1/4 of a large grid. The estimated time is at most 12 % longer than if every device
    /// had only local rows. On 2047 x 2047 nodes with f32 or bf16, granules contain so many rows that only two devices
    /// own rows.
    #[test]
    fn devices_own_mostly_local_rows() {
        for (nx, ny) in [(8191, 8191), (8191, 32_764), (4095, 16_380), (4095, 4095), (6000, 5000), (10_007, 9001)] {
            for has_short_values in [false, true] {
                let (g, division) = (
                    geometry_of(4, has_short_values, nx, ny),
                    Division { devices: 4, min_tiles: 0, divides_all: false, has_short_values },
                );
                let relative_time = division.estimated_time(&g) / (0.25 * f64::from(g.cy));
                assert!(
                    g.sharers == 4 && relative_time < 1.12,
                    "{nx} x {ny}, short {has_short_values}: {relative_time}, {g:?}"
                );
            }
        }
        assert_eq!([false, true].map(|has_short_values| geometry_of(4, has_short_values, 2047, 2047).sharers), [4, 2]);
    }

    /// In the actual layout, too, few rows of a device are in a granule of another device.
    #[test]
    fn few_owned_rows_are_remote() {
        for (nx, ny) in [(8191, 8191), (8191, 32_764), (4095, 16_380), (6000, 5000), (10_007, 9001)] {
            let division = Division { devices: 4, min_tiles: 0, divides_all: false, has_short_values: false };
            let (g, plane_layout) = division.geometry(&Layout::new(Grid { nx, ny }, 8));
            let mut layout = MemoryLayout::new(0);
            layout.reserve_bytes(5000);
            let plane_address = layout.reserve_planes(&plane_layout, 2, 8).unwrap() as usize + 8 * plane_layout.plane;
            let stride = g.stride as usize;
            for device in 0..4 {
                let own_rows = g.first_row(2 * device)..g.first_row(2 * device + 2);
                let is_remote =
                    |row: &usize| layout.owner((plane_address + 8 * stride * (1 + row)) / GRANULE_BYTES) != device;
                let (count, remote_count) = (own_rows.len(), own_rows.filter(is_remote).count());
                assert!(
                    remote_count <= 16 && 50 * remote_count <= count,
                    "{nx} x {ny}: {remote_count} rows of {count} on {device}"
                );
            }
        }
    }
}
