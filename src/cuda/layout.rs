//! Layout of arrays in one device allocation, and the device that owns each granule (`GRANULE_BYTES` bytes) of an
//! allocation shared by several devices. A plane contains the values of one colour of a grid, or an array of the
//! caller.

use super::driver::GRANULE_BYTES;
use super::launch::{Address, Geometry, PARTS};
use crate::error::{Result, push};

/// Assigns consecutive addresses to arrays. With base 0, the layout only measures the size of the allocation.
pub struct MemoryLayout {
    pub base: Address,
    pub used_bytes: usize,
    /// Offsets in bytes at which the owner changes, in ascending order, each with the index of the device that owns the
    /// memory from there on.
    owners: Vec<(usize, usize)>,
}

/// Layout of the rows of a grid's planes.
#[derive(Clone, Copy, Debug)]
pub struct PlaneLayout {
    /// Values from one plane to the next.
    pub plane: usize,
    /// For each device after the first, the index in a plane of the first value that this device owns. Not used if one
    /// device owns all rows.
    starts: [usize; PARTS],
    /// Number of devices after the first that own rows.
    other_devices: usize,
}

/// Sizes in bytes of the stored number formats: bf16, f32, f64.
const VALUE_SIZES: [usize; 3] = [2, 4, 8];

/// Returns the padding in bytes before the first plane, so that the second device's first row begins at the start of a
/// granule. `start` is the index of the first value of this row in the plane, `size` the number of bytes per value, and
/// `used_bytes` the number of bytes before the padding.
fn padding_before(start: usize, size: usize, used_bytes: usize) -> usize {
    (used_bytes + start * size).next_multiple_of(GRANULE_BYTES) - (used_bytes + start * size)
}

impl PlaneLayout {
    /// Returns the layout of the planes of a grid, with a row of zeros before and after the rows.
    pub fn new(g: &Geometry) -> Self {
        let stride = g.stride as usize;
        let layout = Self { plane: (g.cy as usize + 2) * stride, starts: [0; PARTS], other_devices: 0 };
        if !g.is_divided() || g.sharers < 2 {
            return layout;
        }
        layout.divide(g.sharers as usize, |part| (1 + g.first_row(part)) * stride)
    }

    /// Returns the layout of an array in the caller's order, row by row and without padding.
    pub fn natural(g: &Geometry) -> Self {
        let (nx, ny) = (g.nx as usize, g.ny as usize);
        let layout = Self { plane: nx * ny, starts: [0; PARTS], other_devices: 0 };
        if !g.is_divided() || g.sharers < 2 {
            return layout;
        }
        layout
            .divide(g.sharers as usize, |part| nx * (2 * g.first_row(part)).saturating_sub(g.shift_y as usize).min(ny))
    }

    /// Divides the rows among the devices. `first_index(part)` is the index in a plane of the first value of a part
    /// (see `Geometry::first_row`).
    fn divide(mut self, devices: usize, first_index: impl Fn(usize) -> usize) -> Self {
        let len = self.plane;
        let layout = &mut self;
        layout.other_devices = devices - 1;
        for (start, device) in layout.starts.iter_mut().zip(1..devices) {
            *start = first_index(PARTS * device / devices);
        }
        // The plane length is a multiple of a granule in all formats. It is so long that no granule holds both rows and
        // the beginning of the next plane.
        let granule_values = GRANULE_BYTES / VALUE_SIZES[0];
        layout.plane = len.next_multiple_of(granule_values);
        let keeps_granules_apart = |plane: usize| {
            VALUE_SIZES.iter().all(|size| (plane - len) * size >= padding_before(layout.starts[0], *size, 0))
        };
        while !keeps_granules_apart(layout.plane) {
            layout.plane += granule_values;
        }
        self
    }
}

impl MemoryLayout {
    /// Returns an empty layout of the memory that begins at `base`; use 0 to measure the size.
    pub fn new(base: Address) -> Self {
        Self { base, used_bytes: 0, owners: Vec::new() }
    }

    /// Reserves memory for `count` values of 8 bytes. Returns its address, which is a multiple of 256 bytes from the
    /// base.
    pub fn reserve_doubles(&mut self, count: usize) -> Address {
        self.reserve_bytes(8 * count)
    }

    /// Reserves `bytes` bytes. Returns their address, which is a multiple of 256 bytes from the base.
    pub fn reserve_bytes(&mut self, bytes: usize) -> Address {
        let address = self.base + self.used_bytes as u64;
        self.used_bytes += bytes.next_multiple_of(256);
        address
    }

    /// Reserves memory for `count` planes of a grid with values of `size` bytes, and records which device owns which
    /// part. Returns the address of the first plane.
    pub fn reserve_planes(&mut self, plane_layout: &PlaneLayout, count: usize, size: usize) -> Result<Address> {
        if plane_layout.other_devices == 0 || count == 0 {
            return Ok(self.reserve_bytes(count * plane_layout.plane * size));
        }
        self.used_bytes += padding_before(plane_layout.starts[0], size, self.used_bytes);
        for plane in 0..count {
            let plane_start = self.used_bytes + plane * plane_layout.plane * size;
            for (device, start) in plane_layout.starts[..plane_layout.other_devices].iter().enumerate() {
                push(&mut self.owners, (plane_start + start * size, device + 1), "parts of planes")?;
            }
            // The granule in which the next plane begins has no rows of this plane, so it belongs to the first device.
            push(
                &mut self.owners,
                ((plane_start + plane_layout.plane * size) / GRANULE_BYTES * GRANULE_BYTES, 0),
                "parts of planes",
            )?;
        }
        let address = self.reserve_bytes(count * plane_layout.plane * size);
        self.used_bytes = self.used_bytes.next_multiple_of(GRANULE_BYTES);
        Ok(address)
    }

    /// Returns the index of the device that owns the middle of a granule.
    pub fn owner(&self, granule: usize) -> usize {
        let middle = granule * GRANULE_BYTES + GRANULE_BYTES / 2;
        let next_owner = self.owners.partition_point(|(first, _)| *first <= middle);
        if next_owner == 0 { 0 } else { self.owners[next_owner - 1].1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planes of 4094 x 2048 values on three and four devices, in each format. The rows next to the first boundary
    /// between two devices belong to the expected devices. At the other boundaries, this is tested for rows at a
    /// distance of 16, because a granule may contain rows of both devices.
    #[test]
    fn rows_are_on_granules_of_their_device() {
        let g = Geometry { cx: 4094, cy: 2048, stride: 4126, part_rows: 256, ..Geometry::default() };
        for (devices, size) in [3, 4].into_iter().flat_map(|devices| VALUE_SIZES.map(|size| (devices, size))) {
            let g = Geometry { sharers: devices as i32, ..g };
            let plane_layout = PlaneLayout::new(&g);
            let mut layout = MemoryLayout::new(0);
            layout.reserve_bytes(1000);
            let address = layout.reserve_planes(&plane_layout, 3, size).unwrap() as usize;
            for plane in 0..3 {
                let plane_start = address + plane * plane_layout.plane * size;
                let owner = |row: usize| layout.owner((plane_start + (1 + row) * 4126 * size) / GRANULE_BYTES);
                for device in 1..devices {
                    let row = g.first_row(PARTS * device / devices);
                    let boundary_rows = if device == 1 { [row - 1, row] } else { [row - 16, row + 16] };
                    assert_eq!(
                        boundary_rows.map(owner),
                        [device - 1, device],
                        "{devices} devices, {size} bytes, row {row}"
                    );
                }
                assert_eq!([0, 2047].map(owner), [0, devices - 1], "{devices} devices, {size} bytes");
            }
            let next_address = layout.reserve_bytes(10) as usize;
            assert_eq!(layout.owner(next_address / GRANULE_BYTES), 0, "{devices} devices, {size} bytes: what follows");
        }
    }

    /// In the caller's order, each of two devices owns exactly its half of the rows.
    #[test]
    fn caller_rows_are_divided_at_the_middle_row() {
        let g = Geometry { nx: 8191, ny: 8191, cx: 4096, cy: 4096, part_rows: 512, sharers: 2, ..Geometry::default() };
        let plane_layout = PlaneLayout::natural(&g);
        let mut layout = MemoryLayout::new(0);
        for _ in 0..2 {
            let address = layout.reserve_planes(&plane_layout, 1, 8).unwrap() as usize;
            let owner = |index: usize| layout.owner((address + index * 8) / GRANULE_BYTES);
            let half_count = 8191 * 4096;
            assert_eq!((owner(0), owner(half_count - 1), owner(half_count), owner(8191 * 8191 - 1)), (0, 0, 1, 1));
        }
    }
}
