//! Comparisons of device and host: the inspection of a matrix, sums over labelled cells, and the grids of multigrid.

use super::cell_grids::build_grids;
use super::multigrid::GridsAndInverse;
use super::state::Multigrid;
use super::*;
use crate::base::number::Real;
use crate::cuda::arrays::{MemoryRange, Pool};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch::{Address, CellLabels, Scalars, Sum};
use crate::deflation::regions::{NO_REGION, RegionKind};
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cell_grids::Hierarchy;
use crate::dpcg::survey::SurveyData;
use crate::stencil::cell_components::CellComponents;
use crate::stencil::components::ZERO_ROW_SUM;
use bytemuck::AnyBitPattern;
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

/// A matrix with the labels of its cells.
struct System {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
    labels: Vec<i32>,
}

impl System {
    /// Returns a two-phase problem. The bubbles of each octant have one label; cells in the liquid have none.
    fn of(bubble_set: &str, [nx, ny, nz]: [usize; 3], contrast: f64) -> Self {
        let problem = TwoPhase::new(bubble_set, [nx, ny, nz], contrast);
        let cells = Cells { nx, ny, nz };
        let octant = |c: usize| (0..3).fold(0, |o, d| 2 * o + i32::from(2 * cells.indices(c)[d] >= cells.size()[d]));
        let label = |(c, &air): (usize, &bool)| if air { 1000 * octant(c) } else { -1 };
        let labels = problem.air.iter().enumerate().map(label).collect();
        let forward = problem.forward.map(|c| c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect());
        Self { cells, center: problem.center, forward, labels }
    }

    /// Returns a matrix whose couplings are strong with probability `probability`, with random labels.
    fn random([nx, ny, nz]: [usize; 3], probability: f64, seed: u64) -> Self {
        let (cells, mut random) = (Cells { nx, ny, nz }, SplitMix(seed));
        let (n, size, strides) = (cells.count(), cells.size(), cells.strides());
        let mut center = vec![0.0; n];
        let forward = [0, 1, 2].map(|d| {
            let mut couplings = vec![0.0; n];
            for c in (0..n).filter(|&c| cells.indices(c)[d] + 1 < size[d]) {
                let coupling = if random.unit() < probability { 100.0 } else { 1.0 };
                couplings[c] = -coupling;
                center[c] += coupling;
                center[c + strides[d]] += coupling;
            }
            couplings
        });
        let labels = (0..n).map(|_| (4.0 * random.unit()) as i32 - 1).collect();
        Self { cells, center, forward, labels }
    }

    /// Removes the couplings of solid cells, whose centers remain positive, and the couplings between cells with
    /// different values of `tank_of`.
    fn with_cuts(mut self, is_solid: impl Fn([usize; 3]) -> bool, tank_of: impl Fn([usize; 3]) -> usize) -> Self {
        let (size, strides) = (self.cells.size(), self.cells.strides());
        for c in 0..self.cells.count() {
            let indices = self.cells.indices(c);
            for d in (0..3).filter(|&d| indices[d] + 1 < size[d]) {
                let neighbour = self.cells.indices(c + strides[d]);
                if is_solid(indices) || is_solid(neighbour) || tank_of(indices) != tank_of(neighbour) {
                    let coupling = std::mem::take(&mut self.forward[d][c]);
                    self.center[c] += coupling;
                    self.center[c + strides[d]] += coupling;
                }
            }
        }
        let has_couplings = |c: usize| {
            (0..3).any(|d| self.forward[d][c] != 0.0 || c >= strides[d] && self.forward[d][c - strides[d]] != 0.0)
        };
        let uncoupled_cells: Vec<usize> = (0..self.cells.count()).filter(|&c| !has_couplings(c)).collect();
        uncoupled_cells.into_iter().for_each(|c| self.center[c] = 1.0);
        self
    }

    /// Removes the couplings of random cells; a cell is chosen with probability `probability`.
    fn with_land(self, probability: f64, seed: u64) -> Self {
        let (cells, mut random) = (self.cells, SplitMix(seed));
        let is_land: Vec<bool> = (0..cells.count()).map(|_| random.unit() < probability).collect();
        self.with_cuts(|[i, j, k]| is_land[(k * cells.ny + j) * cells.nx + i], |_| 0)
    }

    /// Makes the row sums of the cells selected by `is_selected` positive.
    fn with_positive_row_sums(mut self, is_selected: impl Fn([usize; 3]) -> bool) -> Self {
        let cells = self.cells;
        (0..cells.count()).filter(|&c| is_selected(cells.indices(c))).for_each(|c| self.center[c] *= 1.01);
        self
    }

    /// Returns a matrix with random couplings. A fraction `zero_fraction` of them is zero, so that there are several
    /// components and uncoupled cells. Some rows in the first half have a positive row sum.
    fn with_zero_couplings([nx, ny, nz]: [usize; 3], zero_fraction: f64, seed: u64) -> Self {
        let mut system = Self::random([nx, ny, nz], 0.0, seed);
        let (mut random, n, strides) = (SplitMix(seed), system.cells.count(), system.cells.strides());
        system.center.fill(0.0);
        for (forward, stride) in system.forward.iter_mut().zip(strides) {
            for c in (0..n).filter(|&c| forward[c] != 0.0).collect::<Vec<_>>() {
                let coupling = if random.unit() < zero_fraction { 0.0 } else { 1.0 + random.unit() };
                forward[c] = -coupling;
                system.center[c] += coupling;
                system.center[c + stride] += coupling;
            }
        }
        for (c, center) in system.center.iter_mut().enumerate() {
            let has_row_sum = c < n / 2 && random.unit() < 0.05;
            *center += if has_row_sum || *center == 0.0 { 1.0 } else { 0.0 };
        }
        system
    }

    fn view(&self) -> CellView<'_> {
        let with_layout = |name, values| CellValues::new(name, values, self.cells, self.cells.nx, self.cells.plane());
        let [x, y, z] = &self.forward;
        let forward = [with_layout("east", x), with_layout("north", y), with_layout("top", z)];
        CellView { cells: self.cells, center: with_layout("center", &self.center), forward }
    }

    fn points(&self) -> SevenPoints<'_> {
        let [x, y, z] = &self.forward;
        SevenPoints { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }
}

/// Returns the regions that were found, together with the region of each cell.
fn fetch_regions(cuda: &mut Cuda, region_counts: Result<RegionCounts>) -> Result<Regions> {
    region_counts?;
    let (source, surveyor) = (cuda.source.as_ref().unwrap(), cuda.surveyor.as_ref());
    let Some(mut regions) = cuda.regions.take() else { return Ok(Regions::default()) };
    let _entered = cuda.session.device.clone().enter().unwrap();
    let (stream, guard_len) = (cuda.session.stream(), source.extents.plane());
    let mut region_numbers = vec![0_u16; source.extents.count() + 2 * guard_len];
    let memory = Memory::zeroed(stream.device(), stream, size_of_val(&*region_numbers), "deflation regions").unwrap();
    surveyor.unwrap().assign_cell_regions(stream, memory.address + 2 * guard_len as u64, NO_REGION).unwrap();
    stream.fetch(&mut region_numbers, memory.address).unwrap();
    stream.wait().unwrap();
    let padding_numbers = region_numbers
        .drain(..guard_len)
        .collect::<Vec<_>>()
        .into_iter()
        .chain(region_numbers.split_off(source.extents.count()));
    assert!(padding_numbers.into_iter().all(|r| r == NO_REGION));
    regions.region_of_cell = region_numbers;
    Ok(regions)
}

/// Compares the components, and the labels of the singular components.
fn check_components(cuda: &mut Cuda, extents: Cells, expected: &CellComponents, case_name: &str) {
    let components = &cuda.surveyor.as_ref().unwrap().components;
    let (list, expected_list) = (components.component_list(), expected.component_list());
    assert_eq!((list.size, list.is_singular), (expected_list.size, expected_list.is_singular), "{case_name}");
    let singular_numbers = expected_list.singular_numbers().unwrap();
    let expected_labels = |label_of: &dyn Fn(Option<usize>) -> u32| -> Vec<u32> {
        let runs = (0..extents.rows()).flat_map(|row| expected.runs(row));
        runs.flat_map(|(run, component)| std::iter::repeat_n(label_of(component), run.len())).collect()
    };
    let _entered = cuda.session.device.clone().enter().unwrap();
    let stream = cuda.session.stream();
    let fetch_labels = |address| {
        let mut values = vec![0_u32; extents.count()];
        stream.fetch(&mut values, address).unwrap();
        stream.wait().unwrap();
        values
    };
    if components.cell_labels() != 0 {
        assert!(
            fetch_labels(components.cell_labels()) == expected_labels(&|c| c.map_or(u32::MAX, |c| c as u32)),
            "{case_name}"
        );
    }
    let labelled = components.singular_cells(&mut Pool::default(), stream).unwrap();
    let count = expected_list.singular_count();
    assert_eq!(labelled.as_ref().map_or(0, Labelled::label_count), count, "{case_name}");
    let Some(CellLabels { label_of_cell: labels @ 1.., has_32_bit_labels, .. }) =
        labelled.as_ref().map(Labelled::cell_labels)
    else {
        return;
    };
    assert_eq!(has_32_bit_labels, 1);
    assert!(
        fetch_labels(labels) == expected_labels(&|c| c.and_then(|c| singular_numbers[c]).unwrap_or(count) as u32),
        "{case_name}"
    );
}

fn check_regions(found: Result<Regions>, expected: Result<Regions>, case_name: &str) {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!((found.count, found.region_count), (expected.count, expected.region_count), "{case_name}");
            assert_eq!(found.null_vector_of, expected.null_vector_of, "{case_name}");
            assert_eq!(found.surplus_vectors, expected.surplus_vectors, "{case_name}");
            assert!(found.region_of_cell == expected.region_of_cell, "{case_name}: the regions of cells");
        }
        (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{case_name}"),
    }
}

/// Inspects a matrix on host and device, and compares all kinds of regions.
fn compare_surveys(cuda: &mut Cuda, system: &System, case_name: &str) {
    let (a, view) = (system.points(), system.view());
    let (mut host_data, expected) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    let center_max = cuda.load(&view, true).unwrap();
    assert_eq!(center_max, system.center.iter().copied().fold(0.0, f64::max));
    let survey = cuda.survey(ZERO_ROW_SUM).unwrap();
    check_components(cuda, system.cells, &host_data.components, case_name);
    // Device and host add three quotients in the same order, but may round a quotient differently.
    assert!(
        (survey.neumann_row_sum - expected.neumann_row_sum).abs() <= 1e-15 * expected.neumann_row_sum,
        "{case_name}"
    );
    assert_eq!(Survey { neumann_row_sum: expected.neumann_row_sum, ..survey }, expected, "{case_name}");
    let boxes = [3, 2, 2];
    let size = system.cells.size();
    for kind in [RegionKind::Subdomain, RegionKind::LevelSet, RegionKind::LevelSetSubdomain] {
        for (labels, dilation) in [(None, false), (Some(&*system.labels), false), (Some(&*system.labels), true)] {
            for keep_all in [false, true] {
                let boxes = [0, 1, 2].map(|d: usize| boxes[d].min(size[d]));
                let choice = RegionChoice { kind, boxes, labels, dilation, keep_all };
                let case_name = format!("{case_name} {kind:?} {} {dilation} {keep_all}", labels.is_some());
                let region_counts = cuda.find_regions(&choice);
                let expected =
                    host_data.find_regions(&a, &choice).map(|_| host_data.regions.take().unwrap_or_default());
                check_regions(fetch_regions(cuda, region_counts), expected, &case_name);
            }
        }
    }
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_and_host_surveys_agree() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    for (bubble_set, size) in [
        ("9", [20, 21, 22]),
        ("8", [33, 5, 7]),
        ("drops", [24, 11, 13]),
        ("spray", [40, 9, 10]),
        ("r200", [24, 24, 24]),
        ("9;dir=top", [16, 15, 14]),
        ("surf;asp=4", [12, 13, 40]),
        ("surf;obs=box", [20, 16, 16]),
        ("9", [1, 12, 9]),
        ("1", [40, 1, 1]),
        ("1", [2, 2, 2]),
    ] {
        for contrast in [1e-3, 1.0] {
            compare_surveys(
                &mut cuda,
                &System::of(bubble_set, size, contrast),
                &format!("{bubble_set} {size:?} {contrast}"),
            );
        }
    }
    for (size, probability) in
        [([37, 11, 9], 0.25), ([5, 64, 3], 0.4), ([64, 8, 8], 0.1), ([33, 33, 1], 0.5), ([70, 9, 9], 0.9)]
    {
        for seed in 0..3 {
            compare_surveys(
                &mut cuda,
                &System::random(size, probability, seed),
                &format!("{size:?} {probability} {seed}"),
            );
        }
    }
}

/// Inspects matrices with hidden bubbles: a coarse grid has several points in a bubble, and the next coarser grid has
/// none.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_counts_hidden_bubbles() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    for (bubble_set, size) in [("r200;asp=4", [32, 32, 32]), ("r200;asp=4", [48, 24, 33]), ("27;asp=4", [16, 16, 16])] {
        let system = System::of(bubble_set, size, 1e-3);
        let (_, expected) = SurveyData::of(&system.points(), ZERO_ROW_SUM).unwrap();
        assert_eq!(expected.hidden_group_count > 0, bubble_set.starts_with("r200"), "{bubble_set} {size:?}");
        compare_surveys(&mut cuda, &system, &format!("{bubble_set} {size:?}"));
    }
}

/// Inspects matrices with components that are separated by walls, obstacles and land, and with cells without couplings.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_finds_components() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let system_of = |bubble_set: &str, size| System::of(bubble_set, size, 1e-3);
    let third_of = |size: usize, d: usize| move |indices: [usize; 3]| 3 * indices[d] / size;
    let nowhere = |_: [usize; 3]| false;
    let is_in_inner_box = |indices: [usize; 3]| indices.iter().all(|&i| (4..9).contains(&i));
    let is_in_shell = |indices: [usize; 3]| indices.iter().all(|&i| (3..10).contains(&i)) && !is_in_inner_box(indices);
    for (case_name, system) in [
        ("tanks along x", system_of("9", [30, 11, 12]).with_cuts(nowhere, third_of(30, 0))),
        ("tanks along y", system_of("9", [33, 12, 9]).with_cuts(nowhere, third_of(12, 1))),
        (
            "tanks along z, the second regular",
            system_of("27", [20, 13, 15])
                .with_cuts(nowhere, third_of(15, 2))
                .with_positive_row_sums(|indices| indices[2] == 7),
        ),
        ("a tank in another one", system_of("8", [20, 14, 13]).with_cuts(is_in_shell, |_| 0)),
        ("no tank in another one", system_of("8", [20, 14, 13])),
        (
            "the outer one is regular",
            system_of("8", [20, 14, 13])
                .with_cuts(is_in_shell, |_| 0)
                .with_positive_row_sums(|indices| indices == [19, 13, 12]),
        ),
        ("an obstacle", system_of("9", [20, 20, 20]).with_cuts(is_in_inner_box, |_| 0)),
        (
            "drops in air, and a tank of one row",
            system_of("drops", [40, 9, 10])
                .with_cuts(nowhere, |indices| usize::from(indices[1] == 8 && indices[2] == 9)),
        ),
        (
            "a row of its own in each plane",
            system_of("9", [33, 5, 7]).with_cuts(nowhere, |[_, j, k]| if j == 0 { k } else { 99 }),
        ),
        ("no couplings at all", system_of("9", [9, 8, 7]).with_cuts(|_| true, |_| 0)),
        (
            "one pair",
            system_of("1", [40, 9, 5])
                .with_cuts(|indices| indices[0] / 2 != 9 || indices[1] != 4 || indices[2] != 2, |_| 0),
        ),
        ("a plane", system_of("9", [1, 40, 30]).with_cuts(|indices| indices[1] == 13 || indices[2] == 9, |_| 0)),
        (
            "a line in pieces",
            system_of("9", [200, 1, 1]).with_cuts(|indices| indices[0] % 7 == 3, |indices| indices[0] / 33),
        ),
        ("all cells alone but a line", system_of("9", [6, 40, 1]).with_cuts(|indices| indices[0] != 3, |_| 0)),
        ("pairs in columns", system_of("spray", [1, 2, 64]).with_cuts(nowhere, |indices| indices[2])),
    ] {
        compare_surveys(&mut cuda, &system, case_name);
    }
    for (size, probability) in
        [([37, 11, 9], 0.6), ([5, 64, 3], 0.4), ([64, 8, 8], 0.75), ([33, 33, 1], 0.5), ([70, 9, 9], 0.3)]
    {
        for seed in 0..2 {
            let case_name = format!("land {size:?} {probability} {seed}");
            compare_surveys(&mut cuda, &System::random(size, 0.2, seed).with_land(probability, seed + 10), &case_name);
            let system = system_of("9", size)
                .with_land(probability, seed)
                .with_positive_row_sums(|indices| indices[0] % 5 == 2 && indices[1] % 4 == 1);
            compare_surveys(&mut cuda, &system, &format!("{case_name}, rows with sums"));
        }
    }
}

/// `load` accepts NaN couplings if its argument `checks_finite` is false. A NaN then joins no cells, neither on the
/// host nor on the device.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_accepts_nan_couplings() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut system = System::of("9", [20, 9, 7], 1e-3);
    let (cells, size) = (system.cells, system.cells.size());
    let is_inside = |c: usize| cells.indices(c)[c % 3] + 1 < size[c % 3];
    (0..cells.count()).filter(|&c| c % 20 < 12 && is_inside(c)).for_each(|c| system.forward[c % 3][c] = f64::NAN);
    cuda.load(&system.view(), false).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    let expected = CellComponents::find(&system.points()).unwrap();
    assert!(expected.count() > 1);
    check_components(&mut cuda, system.cells, &expected, "no numbers");
}

/// More components than region numbers are an error, unless most of the components have no label.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_rejects_too_many_components() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    // All components are regular, because an emulated device takes minutes to sort so many singular components.
    let pairs = System::random([2, 260, 260], 0.0, 1).with_cuts(|_| false, |indices| indices[1] + 260 * indices[2]);
    let mut system = pairs.with_positive_row_sums(|_| true);
    system.labels = (0..system.cells.count() as i32).map(|c| if c % 40_000 == 7 { c } else { -1 }).collect();
    let a = system.points();
    let (mut host_data, expected) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    assert_eq!(expected.component_count, 67_600);
    cuda.load(&system.view(), true).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    check_components(&mut cuda, system.cells, &host_data.components, "67,600 pairs");
    let labels = Some(&*system.labels);
    for (kind, labels) in
        [(RegionKind::Subdomain, None), (RegionKind::LevelSetSubdomain, labels), (RegionKind::LevelSet, labels)]
    {
        let choice = RegionChoice { kind, boxes: [2, 1, 1], labels, dilation: true, keep_all: false };
        let region_counts = cuda.find_regions(&choice);
        assert_eq!(region_counts.is_ok(), kind == RegionKind::LevelSet);
        let expected = host_data.find_regions(&a, &choice).map(|_| host_data.regions.take().unwrap_or_default());
        check_regions(fetch_regions(&mut cuda, region_counts), expected, &format!("{kind:?} of pairs"));
    }
}

/// The largest permitted number of distinct labels is accepted, and one label more is rejected.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_rejects_too_many_labels() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut system = System::random([64, 64, 17], 0.0, 1);
    let a = system.points();
    cuda.load(&system.view(), true).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    let (mut host_data, _) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    system.labels = (0..system.cells.count() as i32).map(|c| if c < 65_536 { i32::MAX - 7 * c } else { -1 }).collect();
    for last_labelled_cell in [65_535, 65_534] {
        system.labels[65_535] = if last_labelled_cell == 65_535 { 5 } else { -1 };
        let labels = Some(&*system.labels);
        let choice =
            RegionChoice { kind: RegionKind::LevelSet, boxes: [1; 3], labels, dilation: false, keep_all: false };
        let [region_counts, expected] = [cuda.find_regions(&choice), host_data.find_regions(&system.points(), &choice)];
        assert_eq!(region_counts, expected);
        assert_eq!(region_counts.is_err(), last_labelled_cell == 65_535);
        if last_labelled_cell < 65_535 {
            let regions = fetch_regions(&mut cuda, region_counts).unwrap();
            assert!(regions.region_of_cell == host_data.regions.take().unwrap().region_of_cell);
        }
    }
}

fn fetch_values<T: AnyBitPattern + Default>(stream: &Stream, count: usize, address: Address) -> Vec<T> {
    let mut values = vec![T::default(); count];
    stream.fetch(&mut values, address).unwrap();
    stream.wait().unwrap();
    values
}

/// Compares the grids of cell coarsening. The matrices on the device must be bitwise identical to those on the host,
/// with zeros around them, and the inverse must agree.
fn compare_cell_grids<T: Real + AnyBitPattern>(
    cuda: &mut Cuda,
    system: &System,
    max_coarsest_cells: usize,
    case_name: &str,
) {
    let expected = Hierarchy::<T>::new(&system.points(), max_coarsest_cells).unwrap();
    cuda.load(&system.view(), true).unwrap();
    let _entered = cuda.session.device.clone().enter().unwrap();
    let (stream, source) = (cuda.session.stream(), cuda.source.as_ref().unwrap());
    let scalars = Memory::zeroed(stream.device(), stream, size_of::<Scalars>(), "sums").unwrap();
    let (scale, is_single_precision) = (expected.divisor.recip(), size_of::<T>() == 4);
    let mut pool = Pool::default();
    let workspace = Memory::zeroed(stream.device(), stream, 16 * system.cells.count(), "two arrays").unwrap();
    pool.set_workspace(MemoryRange { address: workspace.address, bytes: workspace.bytes });
    let GridsAndInverse { grids, inverse } =
        build_grids(&mut pool, stream, source, (scalars.address, scale), is_single_precision, max_coarsest_cells)
            .unwrap();
    assert_eq!(grids.len(), expected.grids.len(), "{case_name}");
    for (grid, expected) in grids.iter().zip(&expected.grids) {
        assert_eq!((grid.extents, grid.coarsening_ratio), (expected.cells, expected.coarsening_ratio), "{case_name}");
        let (guard_len, expected_matrix) = (grid.extents.plane(), expected.matrix());
        let mut expected_values = vec![T::default(); guard_len];
        for values in [expected_matrix.center].into_iter().chain(expected_matrix.forward) {
            expected_values.extend(values);
            expected_values.extend(vec![T::default(); guard_len]);
        }
        let padding_address = grid.arrays.at(0) - (guard_len * size_of::<T>()) as u64;
        let values: Vec<T> = fetch_values(stream, expected_values.len(), padding_address);
        let first_difference = values
            .iter()
            .zip(&expected_values)
            .position(|(values, expected_values)| values.to_f64() != expected_values.to_f64());
        assert_eq!(first_difference, None, "{case_name}: {:?}", grid.extents);
    }
    if is_single_precision {
        // If centers are rounded, rounding errors decide which cell of a singular component is removed, so the inverses
        // differ.
        return;
    }
    let n = inverse.n();
    let inverse_entries: Vec<f64> = fetch_values(stream, n * n, inverse.matrix());
    let mut column = vec![0.0; n];
    let largest_entry = inverse_entries.iter().fold(0.0, |maximum: f64, v| maximum.max(v.abs()));
    for (cell, inverse_column) in inverse_entries.chunks(n).enumerate() {
        column.fill(0.0);
        column[cell] = 1.0;
        expected.coarsest_solver.solve(&mut column);
        let largest_error = inverse_column.iter().zip(&column).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // The bound is the rounding error times the condition number. The condition number is some thousand times the
        // ratio of the largest to the smallest coupling, which is 1e3.
        assert!(
            largest_error <= 1e-9 * largest_entry,
            "{case_name}: {largest_error:e} off in column {cell} of the inverse, {largest_entry:e}"
        );
    }
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_grids_match_host_grids() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut compare = |system: &System, max_coarsest_cells: usize, case_name: &str| {
        compare_cell_grids::<f64>(&mut cuda, system, max_coarsest_cells, case_name);
        compare_cell_grids::<f32>(&mut cuda, system, max_coarsest_cells, case_name);
    };
    for bubble_set in ["9", "9;asp=4", "9;dir=top", "9;obs=hole", "surf;obs=box", "drops"] {
        for size in [[17, 17, 17], [20, 9, 13], [1, 12, 9], [5, 1, 40], [3, 2, 5], [1, 1, 2]] {
            for max_coarsest_cells in [1, 1000] {
                let case_name = format!("{bubble_set} {size:?} {max_coarsest_cells}");
                compare(&System::of(bubble_set, size, 1e-3), max_coarsest_cells, &case_name);
            }
        }
    }
    for (size, zero_fraction) in [([17, 18, 5], 0.5), ([2, 17, 3], 0.3), ([33, 5, 7], 0.8), ([17, 1, 16], 0.2)] {
        for seed in 0..3 {
            compare(
                &System::with_zero_couplings(size, zero_fraction, seed),
                64,
                &format!("{size:?} {zero_fraction} {seed}"),
            );
        }
    }
}

/// Returns random labels 0 .. count in runs of at most `max_run_length` cells; `count` means no label.
fn random_labels(cells: usize, count: u32, max_run_length: f64, random: &mut SplitMix) -> Vec<u32> {
    let mut labels = Vec::new();
    while labels.len() < cells {
        let (label, run) =
            ((f64::from(count + 1) * random.unit()) as u32, 1 + (max_run_length * random.unit()) as usize);
        labels.extend(std::iter::repeat_n(label, run.min(cells - labels.len())));
    }
    labels
}

/// Compares sums by label. The summed values are integers, so the sums are exact in any order. `uses_32_bits`: whether
/// labels have 32 bits; otherwise, they have 16 bits.
fn compare_label_sums(
    cuda: &Cuda,
    size: [usize; 3],
    (count, max_run_length, uses_32_bits): (u32, f64, bool),
    random: &mut SplitMix,
) {
    let ([nx, ny, nz], case_name) = (size, format!("{size:?} {count} {max_run_length} {uses_32_bits}"));
    let cells = Cells { nx, ny, nz };
    let n = cells.count();
    let labels = if max_run_length == 0.0 { vec![0; n] } else { random_labels(n, count, max_run_length, random) };
    let v: Vec<f64> = (0..n).map(|_| (2000.0 * random.unit()).floor() - 1000.0).collect();
    let center: Vec<f64> = (0..n).map(|_| if random.unit() < 0.5 { 0.25 } else { 4.0 }).collect();
    let mut expected = vec![[0.0; 4]; count as usize];
    for c in (0..n).filter(|&c| labels[c] < count) {
        let [sum, magnitudes, inverses, cells] = &mut expected[labels[c] as usize];
        (*sum, *magnitudes) = (*sum + v[c], *magnitudes + v[c].abs());
        (*inverses, *cells) = (*inverses + 1.0 / center[c], *cells + 1.0);
    }
    let stream = cuda.session.stream();
    let sizes = [4 * n, 8 * n, 8 * n, 8 * expected.len()];
    let (_memory, [labels_address, v_address, center_address, g]) =
        Pool::default().allocate_lists(stream, sizes, "a test").unwrap();
    let short_labels: Vec<u16> = labels.iter().map(|&label| label as u16).collect();
    match uses_32_bits {
        true => stream.send(labels_address, &labels).unwrap(),
        false => stream.send(labels_address, &short_labels).unwrap(),
    }
    stream.send(v_address, &v).unwrap();
    stream.send(center_address, &center).unwrap();
    let labels_address = if max_run_length == 0.0 { 0 } else { labels_address };
    let labels = CellLabels { label_of_cell: labels_address, has_32_bit_labels: i32::from(uses_32_bits), count };
    let mut labelled = Labelled::new(&mut Pool::default(), stream, cells.count(), labels).unwrap();
    let mut sums = vec![f64::NAN; expected.len()];
    labelled.compute_sums(stream, v_address, g, Sum::default()).unwrap();
    stream.fetch(&mut sums, g).unwrap();
    stream.wait().unwrap();
    assert!(sums.iter().zip(&expected).all(|(sum, expected)| *sum == expected[0]), "{case_name}");
    let (worst_label, sum, magnitudes) = labelled.find_worst_label(stream, v_address).unwrap();
    assert_eq!([sum, magnitudes], expected[worst_label][..2], "{case_name}");
    let ratio_of = |sums: &[f64; 4]| sums[0].abs() / sums[1].max(f64::MIN_POSITIVE);
    assert!(expected.iter().all(|sums| ratio_of(sums) <= ratio_of(&expected[worst_label])), "{case_name}");
    // Means and their squares are rounded, but all terms are positive. A label may have no cells.
    let squares =
        expected.iter().filter(|sums| sums[3] > 0.0).map(|[sum, _, inverses, n]| (sum / n).powi(2) * inverses);
    let (square, computed_square) =
        (squares.sum::<f64>(), labelled.norm2_of_means(stream, v_address, center_address).unwrap());
    assert!((computed_square - square).abs() <= 1e-14 * square, "{case_name}: {computed_square} {square}");
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_sums_by_label_match_host_sums() {
    let cuda = Cuda::new(0, 2).unwrap();
    let _entered = cuda.session.device.clone().enter().unwrap();
    let mut random = SplitMix(3);
    for (size, count, max_run_length, uses_32_bits) in [
        ([40, 30, 7], 1, 0.0, false),
        ([5, 3, 1], 2, 3.0, false),
        ([40, 30, 7], 1, 3000.0, true),
        ([41, 29, 7], 5, 200.0, false),
        ([33, 32, 3], 20, 1.0, true),
        ([64, 40, 4], 655, 12.0, false),
        // In this case, almost all cells of a chunk have different labels.
        ([64, 17, 1], 3000, 1.0, true),
    ] {
        compare_label_sums(&cuda, size, (count, max_run_length, uses_32_bits), &mut random);
    }
}

/// The numbers of aggregates must be equal to those of an independent program (tests/golden/README.md).
#[test]
#[ignore = "needs a device, or an emulated one"]
fn aggregate_counts_match_the_golden_rows() {
    let table = include_str!("../../../tests/golden/aggregation.csv");
    let mut compared_rows = 0;
    for row in table.lines().map(|line| line.split(',').collect::<Vec<&str>>()) {
        if row[6] != "gpu3" || row[2] != "16" {
            continue;
        }
        let (bubble_set, contrast) = row[1]["set=".len()..].split_once(" con=").unwrap();
        let system = System::of(&bubble_set.replace(' ', ";"), [16; 3], contrast.parse().unwrap());
        // A new backend per system, so that no aggregates of the previous system are reused.
        let mut cuda = Cuda::new(0, 1).unwrap();
        cuda.load(&system.view(), true).unwrap();
        cuda.survey(ZERO_ROW_SUM).unwrap();
        let preconditioner =
            Preconditioner::Aggregation { pairing_passes: 3, is_single_precision: true, zero_row_sum: ZERO_ROW_SUM };
        let (coarse_solver, coarse_tolerance, uses_fused_passes) = (Solver::Inverse, 1e-6, true);
        cuda.factorize(&Setup { preconditioner, coarse_solver, coarse_tolerance, uses_fused_passes }).unwrap();
        let Some(Multigrid::Aggregated(aggregated)) = &cuda.state.as_ref().unwrap().multigrid else {
            panic!("there are no aggregates");
        };
        let levels = aggregated.levels();
        assert_eq!([levels[0].rows, levels[1].rows], [4096, row[11].parse::<u32>().unwrap()], "{row:?}");
        compared_rows += 1;
    }
    assert_eq!(compared_rows, 28);
}
