//! What the runs of all families on the CPU share: `caller`, the caller's arrays; `observed`, inspected inputs and stop
//! request.

pub mod caller;
pub mod observed;
