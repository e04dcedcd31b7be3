//! Deflation regions: the cells on which a column of Z is one (Nicolaides 1987 for boxes; Tang and Vuik 2007 for level
//! sets).
//!
//! A component consists of the cells that nonzero couplings of the matrix A connect. A group consists of the cells that
//! strong couplings connect (`StrongGroups`). Cells in groups belong to the light phase, all others to the heavy phase.
//! The cells of a region are in one component.
//!
//! A deflation vector is one on its region and zero elsewhere. If some vectors add up to the constant vector on a
//! singular component, E = Z^T A Z is singular. Then one of these vectors is dropped. Its region contains cells of the
//! heavy phase, if the component has such cells. With level sets and without labels, the heavy phase of each component
//! counts as a region, whose vector is also dropped.
//!
//! If the caller requests all vectors, none is dropped. If E is then singular, it is shifted by c u u^T, where u is one
//! for the vectors that add up to the constant vector, and zero for the others. The projection is the same
//! (docs/theory/dpcg.md).

use crate::error::{Error, Result, collected, insert, push, reset, zeroed};
use crate::stencil::cell_components::{CellComponents, ComponentList, StrongGroups};
use crate::stencil::cells::{Cells, SevenPoints};
use std::collections::HashMap;

/// Region number of cells that are in no region.
pub const NO_REGION: u16 = u16::MAX;

const ALLOCATION_NAME: &str = "deflation regions";

/// Definition of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// The cells of a box.
    Subdomain,
    /// With labels, the cells with the same label. Without labels, the cells of a group joined by strong couplings.
    LevelSet,
    /// The cells of a box that have the same label or, without labels, are in the same group. The cells of a box
    /// without a label or group also form a region.
    LevelSetSubdomain,
}

/// Parameters of the regions.
#[derive(Clone, Copy, Debug)]
pub struct RegionChoice<'a> {
    /// Definition of a region.
    pub kind: RegionKind,
    /// Number of boxes in x, y and z: cell i of n in a direction with d boxes belongs to box floor(i d / n). Not used
    /// with `RegionKind::LevelSet`.
    pub boxes: [usize; 3],
    /// The caller's label of each cell, from 0 on; -1: none.
    pub labels: Option<&'a [i32]>,
    /// Whether a cell without label gets the label of a cell to which it is coupled. This is necessary if the couplings
    /// across an interface are as large as those within the light phase, for example if they are arithmetic means of
    /// the reciprocal densities on both sides.
    pub dilation: bool,
    /// Whether all vectors are kept, even if E is then singular.
    pub keep_all: bool,
}

/// Regions with one deflation vector each, numbered in the order of their first cells.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Region of each cell, or [`NO_REGION`].
    pub region_of_cell: Vec<u16>,
    /// Number of deflation vectors.
    pub count: usize,
    /// Number of regions, including those whose vectors are dropped.
    pub region_count: usize,
    /// For each deflation vector, the number (from 1) of the null vector of A to whose sum it belongs; 0: none. Filled
    /// only if all vectors are kept and some of them add up to a null vector.
    pub null_vector_of: Vec<u32>,
    /// For each null vector that is a sum of deflation vectors, the deflation vector that would be dropped if not all
    /// were kept. Filled only if all vectors are kept.
    pub surplus_vectors: Vec<u16>,
}

/// Numbers of vectors and regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Number of vectors.
    pub vector_count: usize,
    /// Number of regions, including those whose vectors are dropped.
    pub region_count: usize,
}

/// A set of cells that is a candidate for a region. `Regions::of_classes` decides which classes get a deflation vector.
pub struct RegionClass {
    /// Component that contains the cells of the class.
    pub component: usize,
    /// Number of cells of the class.
    pub cells: usize,
    /// Whether the class is the heavy phase of its component. Such classes exist only with level sets and without
    /// labels. They get a vector only if all vectors are kept.
    pub is_heavy_phase: bool,
    /// First cell of the class in the heavy phase, if there is one.
    pub first_heavy_cell: Option<usize>,
}

/// Properties of a cell. Together with its component, they determine its class.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CellProperties {
    /// Group of cells, joined by strong couplings, that contains the cell. Counted from 1; 0: none.
    group: u32,
    /// With labels, the label + 1; otherwise the group. It is 0 for a cell without label or group, and for all cells
    /// with `RegionKind::Subdomain`.
    phase: u32,
    /// Number of the box.
    box_number: u32,
}

/// Component, box and `CellProperties::phase` of the cells of a class.
type ClassKey = (u32, u32, u32);

impl Regions {
    /// Computes the regions of a matrix. Returns an error if a number of boxes is out of range, or if there are too
    /// many regions.
    pub fn find(
        a: &SevenPoints,
        components: &CellComponents,
        strong_groups: &StrongGroups,
        choice: &RegionChoice,
    ) -> Result<Self> {
        check_box_counts(a.cells, choice)?;
        let mut class_of_cell = zeroed(a.cells.count(), ALLOCATION_NAME)?;
        let classes = Self::classify(&mut class_of_cell, a, components, strong_groups, choice)?;
        let (regions, vector_of_class) = Self::of_classes(&classes, components.component_list(), choice.keep_all)?;
        if regions.count < classes.len() {
            class_of_cell.iter_mut().for_each(|class_of_cell| {
                *class_of_cell = vector_of_class.get(*class_of_cell as usize).copied().unwrap_or(NO_REGION)
            });
        }
        Ok(Self { region_of_cell: class_of_cell, ..regions })
    }

    /// Decides which classes get a vector. Classes must be in the order of their first cells. Returns the regions with
    /// an empty list `region_of_cell`, and the number of the vector of each class, or [`NO_REGION`] for a class without
    /// vector.
    pub fn of_classes(classes: &[RegionClass], components: ComponentList, keep_all: bool) -> Result<(Self, Vec<u16>)> {
        let surplus_class_of = find_surplus_classes(classes, components, keep_all)?;
        let mut vector_of_class: Vec<u16> = zeroed(classes.len(), ALLOCATION_NAME)?;
        let mut regions = Self { region_count: classes.len(), ..Self::default() };
        for (k, class) in classes.iter().enumerate() {
            let is_dropped = !keep_all && (class.is_heavy_phase || surplus_class_of[class.component] == Some(k as u16));
            vector_of_class[k] = if is_dropped { NO_REGION } else { regions.count as u16 };
            regions.count += usize::from(!is_dropped);
        }
        if keep_all {
            regions.store_null_vectors(classes, &surplus_class_of)?;
        }
        Ok((regions, vector_of_class))
    }

    /// Returns the numbers of vectors and regions, and the regions themselves (`None` if there is no vector).
    pub fn with_counts(self) -> (RegionCounts, Option<Self>) {
        let count = RegionCounts { vector_count: self.count, region_count: self.region_count };
        (count, Some(self).filter(|regions| regions.count > 0))
    }

    /// Stores the class of each cell in `class_of_cell`, and returns the classes.
    fn classify(
        class_of_cell: &mut [u16],
        a: &SevenPoints,
        components: &CellComponents,
        strong_groups: &StrongGroups,
        choice: &RegionChoice,
    ) -> Result<Vec<RegionClass>> {
        let Cells { nx, ny, nz } = a.cells;
        let boxes = Boxes::new(a.cells, choice)?;
        let mut class_numbers = HashMap::new();
        let mut classes = Vec::new();
        let mut properties: Vec<CellProperties> = zeroed(nx, ALLOCATION_NAME)?;
        // For each column i: the key and the class of the latest run of cells with equal properties that began at i.
        // The run that begins at i in the next row usually has the same key.
        let mut last_classes = zeroed(nx, ALLOCATION_NAME)?;
        last_classes.fill(((u32::MAX, 0, 0), NO_REGION));
        for row in 0..ny * nz {
            for (run, group) in strong_groups.groups.runs(row) {
                let group = group.map_or(0, |group| group as u32 + 1);
                properties[run].iter_mut().for_each(|cell| cell.group = group);
            }
            set_phases(a, choice, row, &mut properties);
            boxes.set_boxes(row, &mut properties);
            let class_of_cell = &mut class_of_cell[row * nx..][..nx];
            for (run, component) in components.runs(row) {
                let Some(component) = component else {
                    class_of_cell[run].fill(NO_REGION);
                    continue;
                };
                let mut first_column = run.start;
                // Consecutive cells with equal properties have the same class.
                for cells in properties[run].chunk_by(|a, b| a == b) {
                    let CellProperties { group, phase, box_number } = cells[0];
                    let key = (component as u32, box_number, phase);
                    if last_classes[first_column].0 != key {
                        last_classes[first_column] =
                            (key, find_or_add_class(key, choice, &mut class_numbers, &mut classes)?);
                    }
                    let class = last_classes[first_column].1;
                    class_of_cell[first_column..first_column + cells.len()].fill(class);
                    if class != NO_REGION {
                        let class: &mut RegionClass = &mut classes[class as usize];
                        class.cells += cells.len();
                        class.first_heavy_cell =
                            class.first_heavy_cell.or((group == 0).then_some(row * nx + first_column));
                    }
                    first_column += cells.len();
                }
            }
        }
        Ok(classes)
    }

    /// Stores which vectors add up to null vectors of A. Called only if all vectors are kept, so that classes and
    /// vectors have the same numbers. `surplus_class_of` is the surplus class of each component.
    fn store_null_vectors(&mut self, classes: &[RegionClass], surplus_class_of: &[Option<u16>]) -> Result<()> {
        let mut null_vector_number = Vec::new();
        for surplus_class in surplus_class_of {
            if let &Some(vector) = surplus_class {
                push(&mut self.surplus_vectors, vector, ALLOCATION_NAME)?;
            }
            push(
                &mut null_vector_number,
                if surplus_class.is_some() { self.surplus_vectors.len() as u32 } else { 0 },
                ALLOCATION_NAME,
            )?;
        }
        if !self.surplus_vectors.is_empty() {
            self.null_vector_of =
                collected(classes.iter().map(|class| null_vector_number[class.component]), ALLOCATION_NAME)?;
        }
        Ok(())
    }
}

/// Returns a surplus class for each singular component whose cells are all in classes with a vector, and `None` for all
/// other components. The vector of the surplus class is dropped unless all vectors are kept. The surplus class contains
/// the component's first cell of the heavy phase or, if it has no such cell, the component's first cell.
fn find_surplus_classes(
    classes: &[RegionClass],
    components: ComponentList,
    keep_all: bool,
) -> Result<Vec<Option<u16>>> {
    let mut covered_cells: Vec<usize> = zeroed(components.count(), ALLOCATION_NAME)?;
    let mut first_heavy_class: Vec<Option<(usize, u16)>> = zeroed(components.count(), ALLOCATION_NAME)?;
    let mut first_class: Vec<Option<u16>> = zeroed(components.count(), ALLOCATION_NAME)?;
    for (k, class) in classes.iter().enumerate() {
        let (k, c) = (k as u16, class.component);
        covered_cells[c] += if keep_all || !class.is_heavy_phase { class.cells } else { 0 };
        first_class[c] = first_class[c].or(Some(k));
        let heavy_candidate = class.first_heavy_cell.map(|cell| (cell, k));
        first_heavy_class[c] = first_heavy_class[c].into_iter().chain(heavy_candidate).min();
    }
    let surplus_class_of = |c: usize| {
        let is_covered = components.is_singular[c] && covered_cells[c] == components.size[c];
        if is_covered { first_heavy_class[c].map(|(_, k)| k).or(first_class[c]) } else { None }
    };
    collected((0..components.count()).map(surplus_class_of), ALLOCATION_NAME)
}

/// Returns the number of the class with this key, and adds the class if it is new. Returns [`NO_REGION`] for cells that
/// belong to no class.
fn find_or_add_class(
    key: ClassKey,
    choice: &RegionChoice,
    class_numbers: &mut HashMap<ClassKey, u16>,
    classes: &mut Vec<RegionClass>,
) -> Result<u16> {
    let is_unlabelled = choice.kind == RegionKind::LevelSet && key.2 == 0;
    if is_unlabelled && choice.labels.is_some() {
        return Ok(NO_REGION);
    }
    if let Some(&number) = class_numbers.get(&key) {
        return Ok(number);
    }
    if classes.len() == usize::from(NO_REGION) {
        return Err(too_many_regions(choice));
    }
    let number = classes.len() as u16;
    insert(class_numbers, key, number, ALLOCATION_NAME)?;
    push(
        classes,
        RegionClass { component: key.0 as usize, cells: 0, is_heavy_phase: is_unlabelled, first_heavy_cell: None },
        ALLOCATION_NAME,
    )?;
    Ok(number)
}

/// Sets the phases of the cells in a row.
fn set_phases(a: &SevenPoints, choice: &RegionChoice, row: usize, properties: &mut [CellProperties]) {
    match (choice.kind, choice.labels) {
        (RegionKind::Subdomain, _) => {}
        (_, None) => properties.iter_mut().for_each(|cell| cell.phase = cell.group),
        (_, Some(labels)) => {
            let first_cell = row * properties.len();
            for (i, cell) in properties.iter_mut().enumerate() {
                let mut label = labels[first_cell + i];
                if label < 0 && choice.dilation {
                    label = adjacent_label(a, labels, first_cell + i);
                }
                cell.phase = (label as u32).wrapping_add(1);
            }
        }
    }
}

/// Returns the smallest label of the cells that are coupled to a cell; -1 if none has a label.
fn adjacent_label(a: &SevenPoints, labels: &[i32], cell: usize) -> i32 {
    let mut smallest = u32::MAX;
    for (couplings, step) in a.forward.into_iter().zip(a.cells.strides()) {
        // Labels are compared as unsigned numbers, so that -1 is the largest.
        if couplings[cell] != 0.0 {
            smallest = smallest.min(labels[cell + step] as u32);
        }
        if cell >= step && couplings[cell - step] != 0.0 {
            smallest = smallest.min(labels[cell - step] as u32);
        }
    }
    smallest as i32
}

/// Division of the cells into boxes: `box_of[d][i]` is the number of the box, along direction d, that contains index i.
struct Boxes {
    ny: usize,
    box_counts: [usize; 3],
    box_of: [Vec<u32>; 3],
}

impl Boxes {
    fn new(cells: Cells, choice: &RegionChoice) -> Result<Self> {
        let box_counts = if choice.kind == RegionKind::LevelSet { [1; 3] } else { choice.boxes };
        let mut box_of_index = [const { Vec::new() }; 3];
        for ((box_of_index, n), d) in box_of_index.iter_mut().zip(cells.size()).zip(box_counts) {
            reset(box_of_index, n, ALLOCATION_NAME)?;
            for (i, box_of_index) in box_of_index.iter_mut().enumerate() {
                *box_of_index = (i * d / n) as u32;
            }
        }
        Ok(Self { ny: cells.ny, box_counts, box_of: box_of_index })
    }

    /// Sets the boxes of the cells in a row.
    fn set_boxes(&self, row: usize, properties: &mut [CellProperties]) {
        let [x, y, z] = &self.box_of;
        let (nx, ny) = (self.box_counts[0] as u32, self.box_counts[1] as u32);
        let first_box = (z[row / self.ny] * ny + y[row % self.ny]) * nx;
        for (cell, x) in properties.iter_mut().zip(x) {
            cell.box_number = first_box + x;
        }
    }
}

/// Returns an error if a number of boxes is out of range.
pub fn check_box_counts(cells: Cells, choice: &RegionChoice) -> Result<()> {
    if choice.kind != RegionKind::LevelSet {
        let names = [("subdomains_x", "nx"), ("subdomains_y", "ny"), ("subdomains_z", "nz")];
        for (((name, extent), n), d) in names.into_iter().zip(cells.size()).zip(choice.boxes) {
            if d == 0 || d > n {
                return Err(Error::range(name, d, format!("be from 1 to {extent} = {n}: each box needs a cell")));
            }
        }
        let boxes = choice.boxes.iter().try_fold(1_usize, |product, &d| product.checked_mul(d));
        if boxes.is_none_or(|boxes| boxes > usize::from(NO_REGION)) {
            return Err(too_many_regions(choice));
        }
    }
    Ok(())
}

/// Returns the error for more regions than the 16-bit region numbers allow.
pub fn too_many_regions(choice: &RegionChoice) -> Error {
    let (cause, advice) = match (choice.kind, choice.labels) {
        (RegionKind::Subdomain, _) => ("boxes", "use fewer subdomains, or deflation=none"),
        (RegionKind::LevelSet, Some(_)) => ("labels", "use fewer labels, or deflation=subdomain or none"),
        (RegionKind::LevelSet, None) => ("strong couplings", "set labels, or use deflation=subdomain or none"),
        (RegionKind::LevelSetSubdomain, Some(_)) => ("labels within boxes", "use fewer subdomains or labels"),
        (RegionKind::LevelSetSubdomain, None) => {
            ("strong couplings within boxes", "use fewer subdomains, or set labels")
        }
    };
    Error::Argument(format!(
        "{cause} produce more than {NO_REGION} deflation regions, counted per connected component of the matrix: \
         {advice}"
    ))
}

#[cfg(test)]
mod tests;
