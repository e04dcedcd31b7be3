//! General sparse matrices: assembly, storage formats and their products, preconditioners, sweeps, and the solver of a
//! handle.

pub mod assemble;
pub mod backend;
mod checks;
mod choice;
mod colours;
pub mod cpu;
pub mod cuda;
pub mod entries;
mod formats;
mod given;
mod import;
mod incomplete;
mod inspection;
pub mod matrix;
mod preconditioning;
pub mod solver;
mod split;
mod stored;

pub use checks::{check_finite, check_values};
pub use choice::FormatRequest;
pub use colours::{by_level, colours};
pub use formats::Kind;
pub use given::{Entries, Order};
pub use import::import;
pub use incomplete::{Factors, factors, factors_in_order};
pub use inspection::{Asymmetry, Inspection};
pub use matrix::{AnyCsr, Matrix, MatrixSizes};
pub use preconditioning::{Interval, converted, inverse_diagonal, passes_of};
pub use split::{Part, Split};
pub use stored::{Arrays, ByParts, Division, IndexArray, InputArrays, Rows, Size, Stored, View};

#[cfg(test)]
mod tests;
