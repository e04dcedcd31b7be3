//! Layout of arrays in one device allocation, and the device that owns each granule (`GRANULE_BYTES` bytes) of an
//! allocation shared by several devices. A plane contains the values of one colour of a grid, or an array of the
//! caller.

use super::driver::GRANULE_BYTES;
use super::launch::{Address, Geometry, PARTS};
use crate::error::{Result, push};

/// Assigns consecutive addresses to arrays. With base 0, the layout only measures the size of the allocation.
pub struct MemoryLayout {
    pub base: Address,
    pub used: usize,
    /// Offsets in bytes at which the owner changes, in ascending order, each with the index of the device that owns the
    /// memory from there on.
    owners: Vec<(usize, usize)>,
}

/// Layout of the rows of a grid's planes.
#[derive(Clone, Copy, Debug)]
pub struct PlaneLayout {
    /// Values from one plane to the next.
    pub plane: usize,
    /// For each device after the first, the index of its first value in a plane. Not used if one device owns all rows.
    starts: [usize; PARTS],
    /// Number of devices after the first that own rows.
    others: usize,
}

/// Sizes in bytes of the stored number formats: bf16, f32, f64.
const SIZES: [usize; 3] = [2, 4, 8];

/// Returns the padding in bytes before the first plane, so that the second device's first row begins at the start of a
/// granule. `start` is the index of the first value of this row in the plane, `size` the number of bytes per value, and
/// `used` the number of bytes before the padding.
fn padding_before(start: usize, size: usize, used: usize) -> usize {
    (used + start * size).next_multiple_of(GRANULE_BYTES) - (used + start * size)
}

impl PlaneLayout {
    /// Returns the layout of the planes of a grid, with a row of zeros before and after the rows.
    pub fn new(g: &Geometry) -> Self {
        let stride = g.stride as usize;
        let rows = Self { plane: (g.cy as usize + 2) * stride, starts: [0; PARTS], others: 0 };
        if !g.is_divided() || g.sharers < 2 {
            return rows;
        }
        rows.divide(g.sharers as usize, |part| (1 + g.first_row(part)) * stride)
    }

    /// Returns the layout of an array in the caller's order, row by row and without padding.
    pub fn natural(g: &Geometry) -> Self {
        let (nx, ny) = (g.nx as usize, g.ny as usize);
        let rows = Self { plane: nx * ny, starts: [0; PARTS], others: 0 };
        if !g.is_divided() || g.sharers < 2 {
            return rows;
        }
        rows.divide(g.sharers as usize, |part| nx * (2 * g.first_row(part)).saturating_sub(g.shift_y as usize).min(ny))
    }

    /// Divides the rows among the devices. `first(part)` is the index in a plane of the first value of a part (see
    /// `Geometry::first_row`).
    fn divide(mut self, devices: usize, first: impl Fn(usize) -> usize) -> Self {
        let len = self.plane;
        let rows = &mut self;
        rows.others = devices - 1;
        for (start, device) in rows.starts.iter_mut().zip(1..devices) {
            *start = first(PARTS * device / devices);
        }
        // The plane length is a multiple of a granule in all formats. It is so long that no granule holds both rows and
        // the beginning of the next plane.
        let most = GRANULE_BYTES / SIZES[0];
        rows.plane = len.next_multiple_of(most);
        let fits =
            |plane: usize| SIZES.iter().all(|size| (plane - len) * size >= padding_before(rows.starts[0], *size, 0));
        while !fits(rows.plane) {
            rows.plane += most;
        }
        self
    }
}

impl MemoryLayout {
    /// Returns an empty layout of the memory that begins at `base`; use 0 to measure the size.
    pub fn new(base: Address) -> Self {
        Self { base, used: 0, owners: Vec::new() }
    }

    /// Reserves memory for `count` values of 8 bytes. Returns its address, which is a multiple of 256 bytes from the
    /// base.
    pub fn doubles(&mut self, count: usize) -> Address {
        self.bytes(8 * count)
    }

    /// Reserves `bytes` bytes. Returns their address, which is a multiple of 256 bytes from the base.
    pub fn bytes(&mut self, bytes: usize) -> Address {
        let address = self.base + self.used as u64;
        self.used += bytes.next_multiple_of(256);
        address
    }

    /// Reserves memory for `count` planes of a grid with values of `size` bytes, and records which device owns which
    /// part. Returns the address of the first plane.
    pub fn planes(&mut self, rows: &PlaneLayout, count: usize, size: usize) -> Result<Address> {
        if rows.others == 0 || count == 0 {
            return Ok(self.bytes(count * rows.plane * size));
        }
        self.used += padding_before(rows.starts[0], size, self.used);
        for plane in 0..count {
            let first = self.used + plane * rows.plane * size;
            for (device, start) in rows.starts[..rows.others].iter().enumerate() {
                push(&mut self.owners, (first + start * size, device + 1), "parts of planes")?;
            }
            // The granule in which the next plane begins has no rows of this plane, so it belongs to the first device.
            push(
                &mut self.owners,
                ((first + rows.plane * size) / GRANULE_BYTES * GRANULE_BYTES, 0),
                "parts of planes",
            )?;
        }
        let address = self.bytes(count * rows.plane * size);
        self.used = self.used.next_multiple_of(GRANULE_BYTES);
        Ok(address)
    }

    /// Returns the index of the device that owns the middle of a granule.
    pub fn owner(&self, granule: usize) -> usize {
        let middle = granule * GRANULE_BYTES + GRANULE_BYTES / 2;
        let after = self.owners.partition_point(|(first, _)| *first <= middle);
        if after == 0 { 0 } else { self.owners[after - 1].1 }
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
        for (devices, size) in [3, 4].into_iter().flat_map(|devices| SIZES.map(|size| (devices, size))) {
            let g = Geometry { sharers: devices as i32, ..g };
            let rows = PlaneLayout::new(&g);
            let mut layout = MemoryLayout::new(0);
            layout.bytes(1000);
            let at = layout.planes(&rows, 3, size).unwrap() as usize;
            for plane in 0..3 {
                let first = at + plane * rows.plane * size;
                let owner = |row: usize| layout.owner((first + (1 + row) * 4126 * size) / GRANULE_BYTES);
                for device in 1..devices {
                    let row = g.first_row(PARTS * device / devices);
                    let around = if device == 1 { [row - 1, row] } else { [row - 16, row + 16] };
                    assert_eq!(around.map(owner), [device - 1, device], "{devices} devices, {size} bytes, row {row}");
                }
                assert_eq!([0, 2047].map(owner), [0, devices - 1], "{devices} devices, {size} bytes");
            }
            let after = layout.bytes(10) as usize;
            assert_eq!(layout.owner(after / GRANULE_BYTES), 0, "{devices} devices, {size} bytes: what follows");
        }
    }

    /// In the caller's order, each of two devices owns exactly its half of the rows.
    #[test]
    fn caller_rows_are_divided_at_the_middle_row() {
        let g = Geometry { nx: 8191, ny: 8191, cx: 4096, cy: 4096, part_rows: 512, sharers: 2, ..Geometry::default() };
        let rows = PlaneLayout::natural(&g);
        let mut layout = MemoryLayout::new(0);
        for _ in 0..2 {
            let at = layout.planes(&rows, 1, 8).unwrap() as usize;
            let owner = |index: usize| layout.owner((at + index * 8) / GRANULE_BYTES);
            let half = 8191 * 4096;
            assert_eq!((owner(0), owner(half - 1), owner(half), owner(8191 * 8191 - 1)), (0, 0, 1, 1));
        }
    }
}
