//! Plain loops over natural storage, one thread: the papers' S1 and the oracle of every other backend.

pub mod band;
mod blocks;
pub mod levels;
mod rrb;

pub use blocks::ReferenceBlocks;
pub use rrb::Reference;
