//! Where arrays go that share a piece of device memory.

use super::launch::Address;

/// Hands out addresses one after the other, from a base that is not known at first.
pub struct Plan {
    pub base: Address,
    pub used: usize,
}

impl Plan {
    /// Room for `count` values of eight bytes, on 256-byte lines.
    pub fn take(&mut self, count: usize) -> Address {
        self.bytes(8 * count)
    }

    pub fn bytes(&mut self, bytes: usize) -> Address {
        let address = self.base + self.used as u64;
        self.used += bytes.next_multiple_of(256);
        address
    }
}
