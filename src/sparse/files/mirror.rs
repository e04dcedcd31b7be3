//! From the entries of a file to its matrix. Of files that give one triangle the other is made.

use super::fault::{Fault, Parsed, at, status_at};
use crate::error::{Error, Place, Result, reserve};
use crate::runtime::workers::Workers;
use crate::sparse::assemble::{Assembled, Triplets};
use crate::sparse::index::Index;

/// How a file gives the triangle that it leaves out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symmetry {
    /// None is left out.
    General,
    Symmetric,
    /// With the other sign; the diagonal is 0.
    Skew,
}

/// For errors.
const TRIANGLE: &str = "entries of a triangle";

/// The matrix of these entries, of which `line_of` says where they are.
pub fn matrix<I: Index>(
    entries: &mut Triplets<I>,
    symmetry: Symmetry,
    [rows, cols]: [usize; 2],
    line_of: impl Fn(usize) -> usize,
    workers: &mut Workers,
) -> Parsed<Assembled<I>> {
    let given = entries.values.len();
    let place = |entries: &Triplets<I>, k: usize| (entries.rows[k].at(), entries.cols[k].at());
    if let Some(k) = complete(entries, symmetry)? {
        let (i, j) = place(entries, k);
        let (a, b) = (i.min(j) + 1, i.max(j) + 1);
        return Err(at(line_of(k), format!("({a}, {b}) and ({b}, {a}) both given")));
    }
    match entries.assembled(rows, cols, workers) {
        Ok(matrix) => Ok(matrix.without_slots()),
        // Values given at one place that add up to more than a double holds: as the file gives it, not as mirrored.
        Err(Error::At { status, place: wrong, .. }) => {
            let is_there = |&k: &usize| {
                let (i, j) = place(entries, k);
                wrong == Place::node(0, i, j) || symmetry != Symmetry::General && wrong == Place::node(0, j, i)
            };
            let sum: f64 = (0..given).filter(is_there).map(|k| entries.values[k]).sum();
            let last = (0..given).rev().find(is_there).unwrap_or(0);
            let (i, j) = place(entries, last);
            let sentence =
                format!("values given at ({}, {}) add up to {sum}; all entries must be finite", i + 1, j + 1);
            Err(status_at(status, line_of(last), sentence))
        }
        Err(error) => Err(Fault::Library(error)),
    }
}

/// Adds the mirror of each entry beside the diagonal. Entries of either triangle are taken; an entry, by its number,
/// whose mirror was given before it is the answer, and nothing is added then.
fn complete<I: Index>(entries: &mut Triplets<I>, symmetry: Symmetry) -> Result<Option<usize>> {
    if symmetry == Symmetry::General {
        return Ok(None);
    }
    let count = entries.values.len();
    let upper = |k: usize| entries.rows[k] < entries.cols[k];
    let mut beside = 0;
    let mut both = [false; 2];
    for k in (0..count).filter(|&k| entries.rows[k] != entries.cols[k]) {
        beside += 1;
        both[usize::from(upper(k))] = true;
    }
    if both == [true; 2]
        && let Some(twice) = given_twice(entries, beside)?
    {
        return Ok(Some(twice));
    }
    entries.reserve(beside)?;
    for k in 0..count {
        let (i, j, value) = (entries.rows[k].at(), entries.cols[k].at(), entries.values[k]);
        if i != j {
            entries.push(j, i, if symmetry == Symmetry::Skew { -value } else { value });
        }
    }
    Ok(None)
}

/// The first entry whose mirror was given before it.
fn given_twice<I: Index>(entries: &Triplets<I>, beside: usize) -> Result<Option<usize>> {
    let place = |k: usize| {
        let (i, j) = (entries.rows[k], entries.cols[k]);
        (i.max(j), i.min(j))
    };
    let mut order = Vec::new();
    reserve(&mut order, beside, TRIANGLE)?;
    order.extend((0..entries.values.len()).filter(|&k| entries.rows[k] != entries.cols[k]));
    // Numbers are distinct: this is stable.
    order.sort_unstable_by_key(|&k| (place(k), k));
    let of_one_place = order.chunk_by(|&a, &b| place(a) == place(b));
    let twice = of_one_place.filter_map(|all| all.iter().find(|&&k| entries.rows[k] != entries.rows[all[0]]));
    Ok(twice.min().copied())
}
