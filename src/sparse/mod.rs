//! General sparse matrices: assembly, storage formats with their products, and files.

mod assemble;
mod checks;
mod choice;
mod files;
mod formats;
mod given;
mod import;
mod inspection;
mod matrix;
mod stored;

pub use checks::{check_finite, check_values};
pub use choice::Wanted;
pub use files::{Loaded, Vectors, load, parse as parse_matrix, save};
pub use formats::Kind;
pub use given::{Entries, Order};
pub use import::import;
pub use inspection::{Asymmetry, Inspection};
pub use matrix::{AnyCsr, Facts, Matrix};
pub use stored::{Arrays, By, ByParts, Given, Places, Size, Stored};

#[cfg(test)]
mod tests;
