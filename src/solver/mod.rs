//! The methods. Each method is written once, for all backends.

pub mod boxes;
pub mod dpcg;
pub mod krylov;
pub mod machine;
pub mod rrb;
pub mod smoother;
pub mod solve;
pub mod sparse;
