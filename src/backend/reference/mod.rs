//! Plain loops over natural storage, one thread: the papers' S1 and the oracle of every other backend.

pub mod dpcg;
pub mod rrb;
mod singular;
pub mod smoother;
