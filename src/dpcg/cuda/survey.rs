//! Inspection of a matrix on the device (kernels/dpcg/survey.cuh), and the classes of cells from which deflation
//! regions are formed (kernels/dpcg/classes.cuh).

use super::components::Components;
use super::source::DeviceMatrix;
use crate::base::team::Team;
use crate::cuda::arrays::lists;
use crate::cuda::driver::{Memory, Pinned, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CellArray, CellClass, CellFindings, ClassArgs, MOST_CELL_BLOCKS, MOST_GROUPS, SurveyArgs,
};
use crate::deflation::regions::{Choice, Class, Kind, NO_REGION, Regions, check_box_counts, too_many_regions};
use crate::dpcg::backend::Setup;
use crate::dpcg::setup;
use crate::dpcg::survey::{Survey, coupling_ratio, needs_hidden_groups};
use crate::error::{Error, Result, collected, reset, zeroed};
use crate::stencil::cell_components::{CellComponents, coarse_grids};
use crate::stencil::cells::{Cells, SevenPoints, StoredMatrix};
use crate::stencil::coarsening::{COARSEST, SEMICOARSENING_RATIO, strong_directions};
use std::cell::OnceCell;
use std::mem::offset_of;

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "the inspection of the matrix";

/// Half the largest number of slots of the hash table of classes. Threads stop inserting classes when they read that
/// there are more than 65,535. At that time, each of at most 135,168 threads may be about to insert one more class.
/// Fewer than 2^18 classes are therefore inserted.
const HALF_SLOTS: usize = 1 << 17;

/// Number of values per group: the lowest index in each of three directions, and the bitwise complement of the highest
/// index in each.
const VALUES_PER_GROUP: usize = 6;

/// Memory and arguments of the inspection.
pub struct Surveyor {
    memory: Memory,
    arguments: SurveyArgs,
    classes: ClassArgs,
    findings: Pinned<CellFindings>,
    /// Components of the inspected matrix.
    pub components: Components,
    /// The caller's labels, if there are any.
    labels: Option<Memory>,
    /// For each group, the coarsest grid with points in the group, and the number of these points. Allocated when
    /// hidden groups are counted.
    coarsest_points: Option<Memory>,
    /// Host copy of the extents of the groups.
    group_extents: Vec<u32>,
    /// For each class that the last `find_regions` found, the number of its deflation vector, or [`NO_REGION`].
    vector_of_class: Vec<u16>,
}

impl Surveyor {
    /// Allocates the memory for inspections of the matrix that is stored in `source`.
    pub fn new(stream: &Stream, source: &DeviceMatrix) -> Result<Self> {
        let n = source.extents.count();
        // There are at most n classes, so the hash table has more slots than inserted classes, and is never full.
        let slots = (2 * n.min(HALF_SLOTS)).next_power_of_two();
        let most = n.min(usize::from(NO_REGION));
        let sizes = [
            4 * n,
            4 * n,
            4 * VALUES_PER_GROUP * MOST_GROUPS,
            8 * 3 * MOST_CELL_BLOCKS as usize,
            size_of::<CellFindings>(),
            16 * slots,
            4 * slots,
            4 * slots,
            size_of::<CellClass>() * most,
            size_of::<u16>() * most,
        ];
        let (
            memory,
            [component, group, extents, partial, findings, keys, class_cells, class_of_slot, classes, region_of_class],
        ) = lists(stream, sizes, WHAT)?;
        let m = source.m;
        let arguments = SurveyArgs {
            cells: source.cells,
            to: [m.center, m.east, m.north, m.top],
            component,
            group,
            extents,
            partial,
            findings,
            ..SurveyArgs::default()
        };
        let classes = ClassArgs {
            cells: source.cells,
            m,
            group,
            slots: slots as i32,
            guard: source.extents.plane() as i32,
            keys,
            first: keys + 8 * slots as u64,
            first_heavy: keys + 12 * slots as u64,
            class_cells,
            class_of_slot,
            // This memory contained the root of each cell's component. The roots are no longer needed when classes are
            // searched.
            slot_of: component,
            classes,
            region_of_class,
            findings,
            ..ClassArgs::default()
        };
        let findings = Pinned::new(stream.device(), CellFindings::none())?;
        let mut group_extents = Vec::new();
        reset(&mut group_extents, VALUES_PER_GROUP * MOST_GROUPS, WHAT)?;
        let components = Components::new(source, component);
        Ok(Self {
            memory,
            arguments,
            classes,
            findings,
            components,
            labels: None,
            coarsest_points: None,
            group_extents,
            vector_of_class: Vec::new(),
        })
    }

    /// Copies the arrays at `input`, center first, to the matrix for which this object was created. Returns the
    /// findings.
    pub fn copy_matrix(&mut self, stream: &Stream, input: [CellArray; 4]) -> Result<&CellFindings> {
        *self.findings = CellFindings::none();
        stream.send_prefix(self.arguments.findings, &self.findings, size_of::<CellFindings>())?;
        launch::copy_matrix(stream, &SurveyArgs { input, ..self.arguments })?;
        self.fetch_findings(stream)
    }

    /// Waits, and returns the findings.
    fn fetch_findings(&mut self, stream: &Stream) -> Result<&CellFindings> {
        stream.fetch_prefix(&mut self.findings, self.arguments.findings, size_of::<CellFindings>())?;
        stream.wait()?;
        Ok(&self.findings)
    }

    /// Inspects the matrix that `copy_matrix` has copied. Finds components, strong groups, coupling ratio, and the
    /// directions to coarsen.
    pub fn survey(&mut self, stream: &Stream, source: &DeviceMatrix, zero_row_sum: f64) -> Result<Survey> {
        let a = SurveyArgs { zero_row_sum, ..self.arguments };
        stream.fill(a.extents, u8::MAX, size_of_val(&*self.group_extents))?;
        launch::inspect_rows(stream, &a)?;
        launch::unite_cells(stream, &a)?;
        launch::replace_parents_by_roots(stream, &a)?;
        launch::group_extents(stream, &a)?;
        stream.fetch(&mut self.group_extents, a.extents)?;
        let &found = self.fetch_findings(stream)?;
        let singular = if found.components == 1 && found.alone == 0 {
            let singular = found.regular == 0;
            self.components.set_whole(singular)?;
            collected(singular.then_some(0), WHAT)?
        } else {
            self.components.number(stream, found.components as usize, zero_row_sum)?
        };
        let bits = |bits: [u64; 3]| bits.map(f64::from_bits);
        let (coarsened, strong) =
            (strong_directions(source.extents, found.strength, SEMICOARSENING_RATIO), found.groups as usize);
        let counts_hidden = needs_hidden_groups(source.extents, coarsened, strong);
        Ok(Survey {
            row_sum: f64::from_bits(found.row_sum),
            coarsened,
            coupling_ratio: coupling_ratio(bits(found.smallest), bits(found.largest)),
            components: found.components as usize,
            singular,
            strong,
            thinnest: self.thinnest(source, strong),
            hidden: if counts_hidden { self.count_hidden_groups(stream, source.extents)? } else { 0 },
        })
    }

    /// Returns the number of hidden groups. A group is hidden if a coarse grid has several points in it, and the next
    /// coarser grid has none.
    fn count_hidden_groups(&mut self, stream: &Stream, extents: Cells) -> Result<usize> {
        let bytes = 4 * extents.count();
        let coarsest_points = match self.coarsest_points.take() {
            Some(memory) => memory,
            None => Memory::zeroed(stream.device(), stream, bytes, WHAT)?,
        };
        let coarsest_points = self.coarsest_points.insert(coarsest_points).address;
        stream.fill(coarsest_points, 0, bytes)?;
        let grids = coarse_grids(extents, COARSEST) as i32;
        for step in 0..3 {
            launch::hidden_groups(stream, &SurveyArgs { coarsest_points, grids, step, ..self.arguments })?;
        }
        Ok(self.fetch_findings(stream)?.hidden as usize)
    }

    /// Returns the smallest extent of a strong group in cells, in directions with more than one cell. Returns 0 if
    /// there is no group, or if there are too many groups.
    fn thinnest(&self, source: &DeviceMatrix, groups: usize) -> usize {
        if groups > MOST_GROUPS {
            return 0;
        }
        let size = source.extents.size();
        let side = |of: &[u32], d: usize| (!of[3 + d] - of[d]) as usize + 1;
        let of_group = |of: &[u32]| (0..3).filter(|&d| size[d] > 1).map(|d| side(of, d)).min();
        self.group_extents.chunks(VALUES_PER_GROUP).take(groups).filter_map(of_group).min().unwrap_or(0)
    }

    /// Finds the deflation regions of the inspected matrix. [`Self::number_cells`] then computes the region of each
    /// cell.
    pub fn find_regions(&mut self, stream: &Stream, extents: Cells, choice: &Choice) -> Result<Regions> {
        check_box_counts(extents, choice)?;
        let level_set = choice.kind == Kind::LevelSet;
        let labelled = level_set && choice.labels.is_some();
        if self.components.list().count() > usize::from(NO_REGION) && !labelled {
            // Each component has at least one class, so there are too many classes. Also, the kernel cannot search
            // them: the upper 32 bits of a key are too few for so many components and boxes.
            return Err(too_many_regions(choice));
        }
        self.classes = ClassArgs {
            component: self.components.of_cells(),
            labels: self.send_labels(stream, choice.labels)?,
            boxes: if level_set { [1; 3] } else { choice.boxes.map(|n| n as i32) },
            by_phase: i32::from(choice.kind != Kind::Subdomain),
            labelled: i32::from(labelled),
            dilation: i32::from(choice.dilation),
            ..self.classes
        };
        let a = &self.classes;
        stream.fill(a.keys, u8::MAX, 16 * a.slots as usize)?;
        stream.fill(a.class_cells, 0, 4 * a.slots as usize)?;
        stream.fill(a.findings + offset_of!(CellFindings, classes) as u64, 0, size_of::<u64>())?;
        launch::classify_cells(stream, a)?;
        launch::gather_classes(stream, a)?;
        let from = a.classes;
        let count = self.fetch_findings(stream)?.classes as usize;
        if count > usize::from(NO_REGION) {
            return Err(too_many_regions(choice));
        }
        let mut found: Vec<CellClass> = zeroed(count, WHAT)?;
        stream.fetch(&mut found, from)?;
        stream.wait()?;
        self.number_classes(&found, level_set, choice.keep_all)
    }

    /// Assigns region numbers to the classes. The device returns the classes in any order.
    fn number_classes(&mut self, found: &[CellClass], level_set: bool, keep_all: bool) -> Result<Regions> {
        let mut order = collected(0..found.len(), WHAT)?;
        order.sort_unstable_by_key(|&k| found[k].first);
        let class = |&k: &usize| Class {
            component: found[k].component as usize,
            cells: found[k].cells as usize,
            is_heavy_phase: level_set && found[k].unlabelled != 0,
            first_heavy: (found[k].first_heavy != u32::MAX).then_some(found[k].first_heavy as usize),
        };
        let classes = collected(order.iter().map(class), WHAT)?;
        let (regions, vectors) = Regions::of_classes(&classes, self.components.list(), keep_all)?;
        reset(&mut self.vector_of_class, found.len(), WHAT)?;
        for (&k, vector) in order.iter().zip(vectors) {
            self.vector_of_class[k] = vector;
        }
        Ok(regions)
    }

    /// Copies the caller's labels to the device, and returns their address; 0 if there are none.
    fn send_labels(&mut self, stream: &Stream, labels: Option<&[i32]>) -> Result<Address> {
        let Some(labels) = labels else { return Ok(0) };
        let memory = match self.labels.take() {
            Some(memory) => memory,
            None => Memory::zeroed(stream.device(), stream, size_of_val(labels), "labels")?,
        };
        stream.send(memory.address, labels)?;
        stream.wait()?;
        Ok(self.labels.insert(memory).address)
    }

    /// Stores the region of each cell in 16 bits at `regions`. Cells in no region get the value `none`, and so do the
    /// entries of one plane before and one plane after the box.
    pub fn number_cells(&self, stream: &Stream, regions: Address, none: u16) -> Result<()> {
        let number = |&vector: &u16| if vector == NO_REGION { none } else { vector };
        stream.send(self.classes.region_of_class, &collected(self.vector_of_class.iter().map(number), WHAT)?)?;
        stream.wait()?;
        launch::number_cells(stream, &ClassArgs { regions, none: i32::from(none), ..self.classes })
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        let lists = [&self.labels, &self.coarsest_points].into_iter().flatten().map(|memory| memory.bytes);
        self.memory.bytes + self.components.bytes() + lists.sum::<usize>()
    }
}

/// Input of a factorization: the matrix and the results of its inspection.
pub struct FactorizationInput<'a> {
    pub source: &'a DeviceMatrix,
    /// The host copy of the matrix, which is created when it is needed.
    pub host_matrix: &'a OnceCell<StoredMatrix>,
    pub setup: &'a Setup,
    /// Components of the matrix and classes of its cells.
    pub surveyor: &'a Surveyor,
    /// Deflation regions; `None` without deflation.
    pub regions: Option<&'a Regions>,
}

impl<'a> FactorizationInput<'a> {
    /// Returns the matrix in host memory.
    pub fn on_host(&self, stream: &Stream) -> Result<SevenPoints<'a>> {
        on_host(self.host_matrix, self.source, stream)
    }

    /// Computes the components in host memory. They are equal to those that the device has found.
    pub fn components_on_host(&self, stream: &Stream, team: &mut Team) -> Result<CellComponents> {
        let components = &self.surveyor.components;
        if components.is_single_component() {
            return CellComponents::whole(self.source.extents, components.list().singular_count() == 1);
        }
        let (found, _) = setup::survey(team, &self.on_host(stream)?, components.zero_row_sum())?;
        Ok(found.components)
    }
}

/// Returns the host copy of the matrix, and creates it if necessary.
pub fn on_host<'k>(
    host_matrix: &'k OnceCell<StoredMatrix>,
    source: &DeviceMatrix,
    stream: &Stream,
) -> Result<SevenPoints<'k>> {
    if host_matrix.get().is_none() {
        let _ = host_matrix.set(source.copy_to_host(stream)?);
    }
    host_matrix
        .get()
        .map(StoredMatrix::matrix)
        .ok_or_else(|| Error::Internal("the host has no copy of the matrix".to_owned()))
}
