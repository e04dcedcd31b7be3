//! Plain loops over natural storage, one thread: the papers' S1 and the oracle of every other backend.

pub mod rrb;
pub mod smoother;
