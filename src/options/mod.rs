//! Options and results: their table, the numbers of their choices, and the values of one handle. A leaf: knows no
//! solver.

mod choices;
mod table;
mod values;

pub use choices::*;
pub use table::*;
pub use values::Options;
