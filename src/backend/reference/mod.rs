//! Reference backend: plain serial loops over natural storage. The other backends are tested against it.

mod plain;
pub mod rrb;
mod singular;
pub mod smoother;
