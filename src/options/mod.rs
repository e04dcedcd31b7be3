//! Options and results: their tables, the numbers of their choices, and the option values of a handle. This module
//! depends on no solver.

mod auto_rules;
mod choices;
mod range;
mod table;
mod values;

pub use auto_rules::{AutoRule, auto_rules, limits};
pub use choices::*;
pub use range::AllowedRange;
pub use table::*;
pub use values::Options;
