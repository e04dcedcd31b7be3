//! Plain loops over natural storage, one thread: the papers' S1 and the oracle of every other backend.

pub mod band;
pub mod levels;
mod rrb;

pub use rrb::Reference;
