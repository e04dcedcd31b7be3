//! Inspection of a matrix on the device (kernels/dpcg/survey.cuh), and the classes of cells from which deflation
//! regions are formed (kernels/dpcg/classes.cuh).

use super::components::Components;
use super::source::DeviceMatrix;
use crate::base::team::Team;
use crate::cuda::arrays::allocate_lists;
use crate::cuda::driver::{Memory, Pinned, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CellArray, CellClass, CellFindings, ClassArgs, MAX_CELL_BLOCKS, MAX_GROUPS, SurveyArgs,
};
use crate::deflation::regions::{
    NO_REGION, RegionChoice, RegionClass, RegionKind, Regions, check_box_counts, too_many_regions,
};
use crate::dpcg::backend::Setup;
use crate::dpcg::setup;
use crate::dpcg::survey::{Survey, coupling_ratio, needs_hidden_groups};
use crate::error::{Error, Result, collected, reset, zeroed};
use crate::stencil::cell_components::{CellComponents, coarse_grid_count};
use crate::stencil::cells::{Cells, SevenPoints, StoredMatrix};
use crate::stencil::coarsening::{MAX_COARSEST_CELLS, SEMICOARSENING_RATIO, strong_directions};
use std::cell::OnceCell;
use std::mem::offset_of;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "the inspection of the matrix";

/// Half of the maximum number of slots of the hash table of classes. Threads stop inserting classes when they read that
/// there are more than 65,535 classes. At that time, each of at most 135,168 threads may be about to insert one more
/// class. Fewer than 2^18 classes are therefore inserted.
const HALF_MAX_SLOTS: usize = 1 << 17;

/// Number of values that describe the extents of a group: the lowest cell index in each of three directions, and the
/// bitwise complement of the highest cell index in each direction.
const VALUES_PER_GROUP: usize = 6;

/// Memory of the inspection, and arguments of its kernels.
pub struct Surveyor {
    memory: Memory,
    survey_args: SurveyArgs,
    class_args: ClassArgs,
    findings: Pinned<CellFindings>,
    /// Components of the inspected matrix.
    pub components: Components,
    /// The caller's labels, if there are any.
    labels: Option<Memory>,
    /// One value per cell. The value at the first cell of a group encodes the coarsest grid with points in the group,
    /// and whether these are several points. The memory is allocated when hidden groups are first counted.
    coarsest_points: Option<Memory>,
    /// Host copy of the extents of the groups.
    group_extents: Vec<u32>,
    /// For each class that the last `find_regions` found: the number of its deflation vector, or [`NO_REGION`] if the
    /// class has no deflation vector.
    vector_of_class: Vec<u16>,
}

impl Surveyor {
    /// Allocates the memory for inspections of the matrix that is stored in `source`.
    pub fn new(stream: &Stream, source: &DeviceMatrix) -> Result<Self> {
        let n = source.extents.count();
        // At most n classes, and fewer than 2^18 classes (see `HALF_MAX_SLOTS`), are inserted into the hash table. The
        // table therefore has more slots than inserted classes, and is never full.
        let slots = (2 * n.min(HALF_MAX_SLOTS)).next_power_of_two();
        let max_classes = n.min(usize::from(NO_REGION));
        let sizes = [
            4 * n,
            4 * n,
            4 * VALUES_PER_GROUP * MAX_GROUPS,
            8 * 3 * MAX_CELL_BLOCKS as usize,
            size_of::<CellFindings>(),
            16 * slots,
            4 * slots,
            4 * slots,
            size_of::<CellClass>() * max_classes,
            size_of::<u16>() * max_classes,
        ];
        let (
            memory,
            [
                component_parent,
                group_parent,
                extents,
                partial,
                findings,
                keys,
                class_cell_count,
                class_of_slot,
                classes,
                region_of_class,
            ],
        ) = allocate_lists(stream, sizes, ALLOCATION_NAME)?;
        let m = source.m;
        let survey_args = SurveyArgs {
            cells: source.cells,
            copies: [m.center, m.east, m.north, m.top],
            component_parent,
            group_parent,
            extents,
            partial,
            findings,
            ..SurveyArgs::default()
        };
        let class_args = ClassArgs {
            cells: source.cells,
            m,
            group: group_parent,
            slot_count: slots as i32,
            guard_cells: source.extents.plane() as i32,
            keys,
            first_cell: keys + 8 * slots as u64,
            first_heavy_cell: keys + 12 * slots as u64,
            class_cell_count,
            class_of_slot,
            // During the inspection, this memory contains the root of each cell's component. The roots are no longer
            // needed when the classes are determined.
            slot_of_cell: component_parent,
            classes,
            region_of_class,
            findings,
            ..ClassArgs::default()
        };
        let findings = Pinned::new(stream.device(), CellFindings::none())?;
        let mut group_extents = Vec::new();
        reset(&mut group_extents, VALUES_PER_GROUP * MAX_GROUPS, ALLOCATION_NAME)?;
        let components = Components::new(source, component_parent);
        Ok(Self {
            memory,
            survey_args,
            class_args,
            findings,
            components,
            labels: None,
            coarsest_points: None,
            group_extents,
            vector_of_class: Vec::new(),
        })
    }

    /// Copies the arrays at `input`, center first, to the matrix for which this object was created, and inspects them.
    /// Returns the result of the inspection.
    pub fn copy_matrix(&mut self, stream: &Stream, input: [CellArray; 4]) -> Result<&CellFindings> {
        *self.findings = CellFindings::none();
        stream.send_prefix(self.survey_args.findings, &self.findings, size_of::<CellFindings>())?;
        launch::copy_matrix(stream, &SurveyArgs { input, ..self.survey_args })?;
        self.fetch_findings(stream)
    }

    /// Waits for the stream, and returns the results of the inspection.
    fn fetch_findings(&mut self, stream: &Stream) -> Result<&CellFindings> {
        stream.fetch_prefix(&mut self.findings, self.survey_args.findings, size_of::<CellFindings>())?;
        stream.wait()?;
        Ok(&self.findings)
    }

    /// Inspects the matrix that `copy_matrix` has copied. Finds components, strong groups, coupling ratio, and the
    /// directions to coarsen.
    pub fn survey(&mut self, stream: &Stream, source: &DeviceMatrix, zero_row_sum: f64) -> Result<Survey> {
        let args = SurveyArgs { zero_row_sum, ..self.survey_args };
        stream.fill(args.extents, u8::MAX, size_of_val(&*self.group_extents))?;
        launch::inspect_rows(stream, &args)?;
        launch::unite_cells(stream, &args)?;
        launch::replace_parents_by_roots(stream, &args)?;
        launch::group_extents(stream, &args)?;
        stream.fetch(&mut self.group_extents, args.extents)?;
        let &findings = self.fetch_findings(stream)?;
        let singular_first_cells = if findings.component_count == 1 && findings.uncoupled_cells == 0 {
            let is_singular = findings.regular_cells == 0;
            self.components.set_single_component(is_singular)?;
            collected(is_singular.then_some(0), ALLOCATION_NAME)?
        } else {
            self.components.number_components(stream, findings.component_count as usize, zero_row_sum)?
        };
        let from_bits = |bits: [u64; 3]| bits.map(f64::from_bits);
        let (coarsened_directions, strong_group_count) =
            (strong_directions(source.extents, findings.strength, SEMICOARSENING_RATIO), findings.group_count as usize);
        let counts_hidden_groups = needs_hidden_groups(source.extents, coarsened_directions, strong_group_count);
        Ok(Survey {
            neumann_row_sum: f64::from_bits(findings.neumann_row_sum),
            coarsened_directions,
            coupling_ratio: coupling_ratio(from_bits(findings.smallest), from_bits(findings.largest)),
            component_count: findings.component_count as usize,
            singular_first_cells,
            strong_group_count,
            thinnest_group: self.thinnest_group(source, strong_group_count),
            hidden_group_count: if counts_hidden_groups {
                self.count_hidden_groups(stream, source.extents)?
            } else {
                0
            },
        })
    }

    /// Returns the number of hidden groups. A group is hidden if a coarse grid has several points in it, and the next
    /// coarser grid has none.
    fn count_hidden_groups(&mut self, stream: &Stream, extents: Cells) -> Result<usize> {
        let points_bytes = 4 * extents.count();
        let coarsest_points = match self.coarsest_points.take() {
            Some(memory) => memory,
            None => Memory::zeroed(stream.device(), stream, points_bytes, ALLOCATION_NAME)?,
        };
        let coarsest_points = self.coarsest_points.insert(coarsest_points).address;
        stream.fill(coarsest_points, 0, points_bytes)?;
        let coarse_grid_count = coarse_grid_count(extents, MAX_COARSEST_CELLS) as i32;
        for hidden_step in 0..3 {
            launch::hidden_groups(
                stream,
                &SurveyArgs { coarsest_points, coarse_grid_count, hidden_step, ..self.survey_args },
            )?;
        }
        Ok(self.fetch_findings(stream)?.hidden_groups as usize)
    }

    /// Returns the smallest extent of a strong group, in cells. Directions in which the grid has a single cell do not
    /// count. Returns 0 if there is no group, or if there are more than `MAX_GROUPS` groups.
    fn thinnest_group(&self, source: &DeviceMatrix, group_count: usize) -> usize {
        if group_count > MAX_GROUPS {
            return 0;
        }
        let size = source.extents.size();
        let extent = |group_extents: &[u32], d: usize| (!group_extents[3 + d] - group_extents[d]) as usize + 1;
        let smallest_extent =
            |group_extents: &[u32]| (0..3).filter(|&d| size[d] > 1).map(|d| extent(group_extents, d)).min();
        self.group_extents.chunks(VALUES_PER_GROUP).take(group_count).filter_map(smallest_extent).min().unwrap_or(0)
    }

    /// Determines the deflation regions of the inspected matrix. [`Self::assign_cell_regions`] then computes the region
    /// of each cell.
    pub fn find_regions(&mut self, stream: &Stream, extents: Cells, choice: &RegionChoice) -> Result<Regions> {
        check_box_counts(extents, choice)?;
        let is_level_set = choice.kind == RegionKind::LevelSet;
        let uses_labels = is_level_set && choice.labels.is_some();
        if self.components.component_list().count() > usize::from(NO_REGION) && !uses_labels {
            // Each component has at least one class, so there are too many classes. The error is returned before
            // `classify_cells` runs: with several boxes (`Subdomain`, `LevelSetSubdomain`), the number of a pair of
            // component and box could exceed the upper 32 bits of a key.
            return Err(too_many_regions(choice));
        }
        self.class_args = ClassArgs {
            component: self.components.cell_labels(),
            labels: self.send_labels(stream, choice.labels)?,
            boxes: if is_level_set { [1; 3] } else { choice.boxes.map(|n| n as i32) },
            distinguishes_phases: i32::from(choice.kind != RegionKind::Subdomain),
            requires_label: i32::from(uses_labels),
            dilation: i32::from(choice.dilation),
            ..self.class_args
        };
        let args = &self.class_args;
        stream.fill(args.keys, u8::MAX, 16 * args.slot_count as usize)?;
        stream.fill(args.class_cell_count, 0, 4 * args.slot_count as usize)?;
        stream.fill(args.findings + offset_of!(CellFindings, class_count) as u64, 0, size_of::<u64>())?;
        launch::classify_cells(stream, args)?;
        launch::gather_classes(stream, args)?;
        let classes_address = args.classes;
        let class_count = self.fetch_findings(stream)?.class_count as usize;
        if class_count > usize::from(NO_REGION) {
            return Err(too_many_regions(choice));
        }
        let mut device_classes: Vec<CellClass> = zeroed(class_count, ALLOCATION_NAME)?;
        stream.fetch(&mut device_classes, classes_address)?;
        stream.wait()?;
        self.assign_class_regions(&device_classes, is_level_set, choice.keep_all)
    }

    /// Assigns region numbers to the classes. The device returns the classes in an order that may differ from run to
    /// run, so the classes are first sorted by their first cells.
    fn assign_class_regions(
        &mut self,
        device_classes: &[CellClass],
        is_level_set: bool,
        keep_all: bool,
    ) -> Result<Regions> {
        let mut class_order = collected(0..device_classes.len(), ALLOCATION_NAME)?;
        class_order.sort_unstable_by_key(|&class_index| device_classes[class_index].first_cell);
        let to_class = |&class_index: &usize| RegionClass {
            component: device_classes[class_index].component as usize,
            cells: device_classes[class_index].cell_count as usize,
            is_heavy_phase: is_level_set && device_classes[class_index].is_unlabelled != 0,
            first_heavy_cell: (device_classes[class_index].first_heavy_cell != u32::MAX)
                .then_some(device_classes[class_index].first_heavy_cell as usize),
        };
        let classes = collected(class_order.iter().map(to_class), ALLOCATION_NAME)?;
        let (regions, vectors) = Regions::of_classes(&classes, self.components.component_list(), keep_all)?;
        reset(&mut self.vector_of_class, device_classes.len(), ALLOCATION_NAME)?;
        for (&class_index, vector) in class_order.iter().zip(vectors) {
            self.vector_of_class[class_index] = vector;
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

    /// Stores the region of each cell in 16 bits at `regions`. Cells in no region get the value `no_region`. The
    /// entries in one plane before the first cell and in one plane after the last cell also get this value.
    pub fn assign_cell_regions(&self, stream: &Stream, regions: Address, no_region: u16) -> Result<()> {
        let region_number = |&vector: &u16| if vector == NO_REGION { no_region } else { vector };
        stream.send(
            self.class_args.region_of_class,
            &collected(self.vector_of_class.iter().map(region_number), ALLOCATION_NAME)?,
        )?;
        stream.wait()?;
        launch::number_cells(stream, &ClassArgs { regions, no_region: i32::from(no_region), ..self.class_args })
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        let optional_bytes = [&self.labels, &self.coarsest_points].into_iter().flatten().map(|memory| memory.bytes);
        self.memory.bytes + self.components.bytes() + optional_bytes.sum::<usize>()
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
    pub fn matrix_on_host(&self, stream: &Stream) -> Result<SevenPoints<'a>> {
        copy_matrix_to_host(self.host_matrix, self.source, stream)
    }

    /// Computes the components in host memory. These components are equal to those that the device has found.
    pub fn components_on_host(&self, stream: &Stream, team: &mut Team) -> Result<CellComponents> {
        let components = &self.surveyor.components;
        if components.is_single_component() {
            return CellComponents::one_component(
                self.source.extents,
                components.component_list().singular_count() == 1,
            );
        }
        let (survey_data, _) = setup::survey(team, &self.matrix_on_host(stream)?, components.zero_row_sum())?;
        Ok(survey_data.components)
    }
}

/// Returns the host copy of the matrix, and creates it if necessary.
pub fn copy_matrix_to_host<'k>(
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
