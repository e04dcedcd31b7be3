//! Options and results: their table, the numbers of their choices, and the values of one handle. A leaf: knows no
//! solver.

mod auto_rules;
mod choices;
mod table;
mod values;

pub use auto_rules::{AutoRule, auto_rules, limits};
pub use choices::*;
pub use table::*;
pub use values::Options;
