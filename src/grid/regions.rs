//! Deflation regions: the cells on which each column of Z is one (Nicolaides 1987 for boxes; Tang and Vuik 2007 for
//! level sets).
//!
//! A vector is one on a region and zero elsewhere. On a component of the matrix that is singular the vectors must not
//! add up to the constant, or E = Z^T A Z is singular: one vector of the heavy phase is dropped there, or all are kept
//! and E is shifted by c 1 1^T, which makes the same projection.

use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, collected, insert, push, reset, zeroed};
use crate::grid::cell_components::{CellComponents, Strong};
use crate::grid::cells::{Cells, SevenPoints};
use std::collections::HashMap;

/// In no region.
pub const NONE: u16 = u16::MAX;

/// For errors.
const REGIONS: &str = "deflation regions";

/// What makes a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The cells of a box.
    Subdomain,
    /// The cells of a label, or of a group that strong couplings join.
    LevelSet,
    /// The cells of a box that are of the same label or group, or of none.
    LevelSetSubdomain,
}

/// Which regions are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// What makes a region.
    pub kind: Kind,
    /// Boxes in x, y and z: cell i of n in a direction with d boxes lies in box i d / n.
    pub boxes: [usize; 3],
    /// The caller's label of each cell, -1: none.
    pub labels: Option<&'a [i32]>,
    /// Labels spread to the cells beside theirs: where the coupling of the cells at a surface is that of the light
    /// phase, as with arithmetic means of 1/rho.
    pub dilation: bool,
    /// No vector is dropped.
    pub keep_all: bool,
}

/// Regions, a vector each, numbered in the order of their first cells.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Region of each cell, or [`NONE`].
    pub of: Vec<u16>,
    /// Vectors.
    pub count: usize,
    /// Regions before any was dropped.
    pub found: usize,
    /// Of each vector: the null vector of A, counted from 1, that it is a part of; 0: none. Empty where no vectors add
    /// up to a null vector.
    pub null_vector: Vec<u32>,
    /// Of each null vector that the vectors add up to: the vector that would be dropped.
    pub surplus: Vec<u16>,
}

/// A region before any is dropped.
struct Class {
    component: usize,
    cells: usize,
    /// All of the heavy phase, where that has no vector.
    heavy: bool,
}

/// Of a component: cells in regions that stay, and the region of its first cell of the heavy phase, or else of its
/// first cell.
#[derive(Clone, Copy, Default)]
struct Covered {
    cells: usize,
    heavy: Option<u16>,
    first: Option<u16>,
}

/// What the class of a cell is made of, beside its component.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Kinds {
    /// Group of strong couplings, counted from 1; 0: none.
    group: u32,
    /// Label + 1 or group; 0: none, or not asked for.
    phase: u32,
    /// Box.
    domain: u32,
}

/// Component, box, and label + 1 or group + 1.
type Key = (u32, u32, u32);

impl Regions {
    /// Finds the regions of a matrix.
    pub fn find(a: &SevenPoints, components: &CellComponents, strong: &Strong, choice: &Choice) -> Result<Self> {
        check(a.cells, choice)?;
        let mut covered: Vec<Covered> = zeroed(components.count(), REGIONS)?;
        let mut regions = Self { of: zeroed(a.cells.count(), REGIONS)?, ..Self::default() };
        let classes = regions.classify(a, components, strong, choice, &mut covered)?;
        regions.found = classes.len();
        for class in classes.iter().filter(|class| choice.keep_all || !class.heavy) {
            covered[class.component].cells += class.cells;
        }
        let surplus = |c: usize| {
            let whole = components.singular[c] && covered[c].cells == components.joined.size[c];
            if whole { covered[c].heavy.or(covered[c].first) } else { None }
        };
        regions.number(&classes, choice.keep_all, surplus)?;
        if choice.keep_all {
            regions.note_null_vectors(&classes, (0..components.count()).map(surplus))?;
        }
        Ok(regions)
    }

    /// Sets the class of each cell.
    fn classify(
        &mut self,
        a: &SevenPoints,
        components: &CellComponents,
        strong: &Strong,
        choice: &Choice,
        covered: &mut [Covered],
    ) -> Result<Vec<Class>> {
        let Cells { nx, ny, nz } = a.cells;
        let boxes = Boxes::new(a.cells, choice)?;
        let mut numbers = HashMap::new();
        let mut classes = Vec::new();
        let mut kinds: Vec<Kinds> = zeroed(nx, REGIONS)?;
        // What was found at a column last: mostly what comes again in the next row.
        let mut known = zeroed(nx, REGIONS)?;
        known.fill(((u32::MAX, 0, 0), NONE));
        for row in 0..ny * nz {
            for (run, group) in strong.joined.runs(row) {
                let group = group.map_or(0, |group| group as u32 + 1);
                kinds[run].iter_mut().for_each(|kinds| kinds.group = group);
            }
            phases(a, choice, row, &mut kinds);
            boxes.of_row(row, &mut kinds);
            let of = &mut self.of[row * nx..][..nx];
            for (run, component) in components.runs(row) {
                let Some(component) = component else {
                    of[run].fill(NONE);
                    continue;
                };
                let covered = &mut covered[component];
                let mut start = run.start;
                // Cells of one class together.
                for cells in kinds[run].chunk_by(|a, b| a == b) {
                    let Kinds { group, phase, domain } = cells[0];
                    let key = (component as u32, domain, phase);
                    if known[start].0 != key {
                        known[start] = (key, class_of(key, choice, &mut numbers, &mut classes)?);
                    }
                    let class = known[start].1;
                    of[start..start + cells.len()].fill(class);
                    start += cells.len();
                    if class == NONE {
                        continue;
                    }
                    classes[class as usize].cells += cells.len();
                    covered.first = covered.first.or(Some(class));
                    if group == 0 {
                        covered.heavy = covered.heavy.or(Some(class));
                    }
                }
            }
        }
        Ok(classes)
    }

    /// Numbers the vectors: of each component without its surplus one, unless all are kept.
    fn number(&mut self, classes: &[Class], keep_all: bool, surplus: impl Fn(usize) -> Option<u16>) -> Result<()> {
        if keep_all {
            self.count = classes.len();
            return Ok(());
        }
        let mut vector: Vec<u16> = zeroed(classes.len(), REGIONS)?;
        for (k, class) in classes.iter().enumerate() {
            let dropped = class.heavy || surplus(class.component) == Some(k as u16);
            vector[k] = if dropped { NONE } else { self.count as u16 };
            self.count += usize::from(!dropped);
        }
        if self.count < classes.len() {
            for of in &mut self.of {
                *of = vector.get(*of as usize).copied().unwrap_or(NONE);
            }
        }
        Ok(())
    }

    /// Which vectors add up to null vectors of A, by the surplus one of each component.
    fn note_null_vectors(&mut self, classes: &[Class], surplus: impl Iterator<Item = Option<u16>>) -> Result<()> {
        let mut number = Vec::new();
        for surplus in surplus {
            if let Some(vector) = surplus {
                push(&mut self.surplus, vector, REGIONS)?;
            }
            push(&mut number, if surplus.is_some() { self.surplus.len() as u32 } else { 0 }, REGIONS)?;
        }
        if !self.surplus.is_empty() {
            self.null_vector = collected(classes.iter().map(|class| number[class.component]), REGIONS)?;
        }
        Ok(())
    }
}

/// The number of a class, new or not; [`NONE`] for cells that have none.
fn class_of(key: Key, choice: &Choice, numbers: &mut HashMap<Key, u16>, classes: &mut Vec<Class>) -> Result<u16> {
    let unlabelled = choice.kind == Kind::LevelSet && key.2 == 0;
    if unlabelled && choice.labels.is_some() {
        return Ok(NONE);
    }
    if let Some(&number) = numbers.get(&key) {
        return Ok(number);
    }
    if classes.len() == usize::from(NONE) {
        return Err(too_many(choice));
    }
    let number = classes.len() as u16;
    insert(numbers, key, number, REGIONS)?;
    push(classes, Class { component: key.0 as usize, cells: 0, heavy: unlabelled }, REGIONS)?;
    Ok(number)
}

/// Sets the phases of the cells in a row.
fn phases(a: &SevenPoints, choice: &Choice, row: usize, kinds: &mut [Kinds]) {
    match (choice.kind, choice.labels) {
        (Kind::Subdomain, _) => {}
        (_, None) => kinds.iter_mut().for_each(|kinds| kinds.phase = kinds.group),
        (_, Some(labels)) => {
            let first = row * kinds.len();
            for (i, kinds) in kinds.iter_mut().enumerate() {
                let mut label = labels[first + i];
                if label < 0 && choice.dilation {
                    label = beside(a, labels, first + i);
                }
                kinds.phase = (label as u32).wrapping_add(1);
            }
        }
    }
}

/// The smallest label among the cells that a cell is coupled to, -1: none has one.
fn beside(a: &SevenPoints, labels: &[i32], cell: usize) -> i32 {
    let mut smallest = u32::MAX;
    for (couplings, step) in a.forward.into_iter().zip(a.cells.steps()) {
        // -1 is the largest as an unsigned number.
        if couplings[cell] != 0.0 {
            smallest = smallest.min(labels[cell + step] as u32);
        }
        if cell >= step && couplings[cell - step] != 0.0 {
            smallest = smallest.min(labels[cell - step] as u32);
        }
    }
    smallest as i32
}

/// Boxes of the cells in each direction.
struct Boxes {
    ny: usize,
    count: [usize; 3],
    of: [Vec<u32>; 3],
}

impl Boxes {
    fn new(cells: Cells, choice: &Choice) -> Result<Self> {
        let count = if choice.kind == Kind::LevelSet { [1; 3] } else { choice.boxes };
        let mut of = [const { Vec::new() }; 3];
        for ((of, n), d) in of.iter_mut().zip(cells.size()).zip(count) {
            reset(of, n, REGIONS)?;
            for (i, of) in of.iter_mut().enumerate() {
                *of = (i * d / n) as u32;
            }
        }
        Ok(Self { ny: cells.ny, count, of })
    }

    /// Sets the boxes of the cells in a row.
    fn of_row(&self, row: usize, kinds: &mut [Kinds]) {
        let [x, y, z] = &self.of;
        let (nx, ny) = (self.count[0] as u32, self.count[1] as u32);
        let first = (z[row / self.ny] * ny + y[row % self.ny]) * nx;
        for (kinds, x) in kinds.iter_mut().zip(x) {
            kinds.domain = first + x;
        }
    }
}

/// Refuses boxes and labels out of range.
fn check(cells: Cells, choice: &Choice) -> Result<()> {
    if choice.kind != Kind::LevelSet {
        let names = [("subdomains_x", "nx"), ("subdomains_y", "ny"), ("subdomains_z", "nz")];
        for (((name, extent), n), d) in names.into_iter().zip(cells.size()).zip(choice.boxes) {
            if d == 0 || d > n {
                return Err(Error::range(name, d, format!("be from 1 to {extent} = {n}: each box needs a cell")));
            }
        }
        let boxes = choice.boxes.iter().try_fold(1_usize, |all, &d| all.checked_mul(d));
        if boxes.is_none_or(|boxes| boxes > usize::from(NONE)) {
            return Err(too_many(choice));
        }
    }
    let low = choice.labels.and_then(|labels| labels.iter().position(|&label| label < -1).map(|at| (at, labels[at])));
    low.map_or(Ok(()), |(at, label)| {
        let before = format!("labels holds {label} at ");
        let [i, j, k] = cells.place(at);
        Err(Error::at(RRB_ERR_ARGUMENT, before, Place::point(i, j, k), "; a label is 0 or more, or -1 for no region"))
    })
}

fn too_many(choice: &Choice) -> Error {
    let advice = match (choice.kind, choice.labels) {
        (Kind::Subdomain, _) => "choose fewer subdomains",
        (Kind::LevelSet, Some(_)) => "a label across connected components of the matrix counts once in each",
        (Kind::LevelSet, None) => "give labels, or deflate by subdomains",
        (Kind::LevelSetSubdomain, _) => "choose fewer subdomains or labels",
    };
    let name = if choice.labels.is_some() { "distinct labels" } else { "deflation regions" };
    Error::range(name, "more", format!("number at most {NONE}: {advice}"))
}

#[cfg(test)]
mod tests;
