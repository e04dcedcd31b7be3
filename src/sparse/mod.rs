//! General sparse matrices: assembly, storage formats and their products, preconditioners, sweeps, and the solver of a
//! handle.

pub mod assemble;
pub mod backend;
mod checks;
mod colours;
pub mod cpu;
pub mod cuda;
pub mod entries;
mod entry_arrays;
mod format_choice;
mod formats;
mod import;
mod incomplete;
mod inspection;
pub mod matrix;
mod preconditioning;
pub mod solver;
mod split;
mod stored;

pub use checks::{check_finite, check_values};
pub use colours::{colour_rows, sort_by_level};
pub use entry_arrays::{EntryArrays, EntryLayout};
pub use format_choice::FormatRequest;
pub use formats::FormatKind;
pub use import::import_matrix;
pub use incomplete::{Factors, compute_factors, compute_factors_in_order};
pub use inspection::{Asymmetry, Inspection};
pub use matrix::{AnyCsr, Matrix, MatrixSizes};
pub use preconditioning::{ChebyshevInterval, convert_values, inverse_diagonal, pairing_passes};
pub use split::{CsrPart, TriangularSplit};
pub use stored::{
    CsrSlices, FormatSize, FormatView, IndexArray, InputArrays, OutputArrays, Stored, ThreadDivision,
    TransposedRowProducts,
};

#[cfg(test)]
mod tests;
