//! Comparisons of device and host: the inspection of a matrix, sums over labelled cells, and the grids of multigrid.

use super::cell_grids::make;
use super::multigrid::GridsAndInverse;
use super::state::Multigrid;
use super::*;
use crate::base::number::Real;
use crate::cuda::arrays::{MemoryRange, Pool};
use crate::cuda::driver::Stream;
use crate::cuda::labelled::Labelled;
use crate::cuda::launch::{Address, CellLabels, Scalars, Sum};
use crate::deflation::regions::{Kind, NO_REGION};
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
    fn of(set: &str, [nx, ny, nz]: [usize; 3], contrast: f64) -> Self {
        let problem = TwoPhase::new(set, [nx, ny, nz], contrast);
        let cells = Cells { nx, ny, nz };
        let octant = |c: usize| (0..3).fold(0, |o, d| 2 * o + i32::from(2 * cells.indices(c)[d] >= cells.size()[d]));
        let label = |(c, &air): (usize, &bool)| if air { 1000 * octant(c) } else { -1 };
        let labels = problem.air.iter().enumerate().map(label).collect();
        let forward = problem.forward.map(|c| c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect());
        Self { cells, center: problem.center, forward, labels }
    }

    /// Returns a matrix whose couplings are strong with probability `part`, with random labels.
    fn random([nx, ny, nz]: [usize; 3], part: f64, seed: u64) -> Self {
        let (cells, mut random) = (Cells { nx, ny, nz }, SplitMix(seed));
        let (n, size, steps) = (cells.count(), cells.size(), cells.strides());
        let mut center = vec![0.0; n];
        let forward = [0, 1, 2].map(|d| {
            let mut couplings = vec![0.0; n];
            for c in (0..n).filter(|&c| cells.indices(c)[d] + 1 < size[d]) {
                let coupling = if random.unit() < part { 100.0 } else { 1.0 };
                couplings[c] = -coupling;
                center[c] += coupling;
                center[c + steps[d]] += coupling;
            }
            couplings
        });
        let labels = (0..n).map(|_| (4.0 * random.unit()) as i32 - 1).collect();
        Self { cells, center, forward, labels }
    }

    /// Removes the couplings of solid cells, whose centers remain positive, and the couplings between cells with
    /// different values of `side`.
    fn cut(mut self, solid: impl Fn([usize; 3]) -> bool, side: impl Fn([usize; 3]) -> usize) -> Self {
        let (size, steps) = (self.cells.size(), self.cells.strides());
        for c in 0..self.cells.count() {
            let at = self.cells.indices(c);
            for d in (0..3).filter(|&d| at[d] + 1 < size[d]) {
                let next = self.cells.indices(c + steps[d]);
                if solid(at) || solid(next) || side(at) != side(next) {
                    let coupling = std::mem::take(&mut self.forward[d][c]);
                    self.center[c] += coupling;
                    self.center[c + steps[d]] += coupling;
                }
            }
        }
        let couplings = |c: usize| {
            (0..3).any(|d| self.forward[d][c] != 0.0 || c >= steps[d] && self.forward[d][c - steps[d]] != 0.0)
        };
        let alone: Vec<usize> = (0..self.cells.count()).filter(|&c| !couplings(c)).collect();
        alone.into_iter().for_each(|c| self.center[c] = 1.0);
        self
    }

    /// Removes the couplings of random cells; a cell is chosen with probability `part`.
    fn with_land(self, part: f64, seed: u64) -> Self {
        let (cells, mut random) = (self.cells, SplitMix(seed));
        let land: Vec<bool> = (0..cells.count()).map(|_| random.unit() < part).collect();
        self.cut(|[i, j, k]| land[(k * cells.ny + j) * cells.nx + i], |_| 0)
    }

    /// Makes the row sums of the cells selected by `of` positive.
    fn with_positive_row_sums(mut self, of: impl Fn([usize; 3]) -> bool) -> Self {
        let cells = self.cells;
        (0..cells.count()).filter(|&c| of(cells.indices(c))).for_each(|c| self.center[c] *= 1.01);
        self
    }

    /// Returns a matrix with random couplings. A fraction `part` of them is zero, so that there are several components
    /// and uncoupled cells. Some rows in the first half have a positive row sum.
    fn with_zero_couplings([nx, ny, nz]: [usize; 3], part: f64, seed: u64) -> Self {
        let mut system = Self::random([nx, ny, nz], 0.0, seed);
        let (mut random, n, steps) = (SplitMix(seed), system.cells.count(), system.cells.strides());
        system.center.fill(0.0);
        for (forward, step) in system.forward.iter_mut().zip(steps) {
            for c in (0..n).filter(|&c| forward[c] != 0.0).collect::<Vec<_>>() {
                let coupling = if random.unit() < part { 0.0 } else { 1.0 + random.unit() };
                forward[c] = -coupling;
                system.center[c] += coupling;
                system.center[c + step] += coupling;
            }
        }
        for (c, center) in system.center.iter_mut().enumerate() {
            let more = c < n / 2 && random.unit() < 0.05;
            *center += if more || *center == 0.0 { 1.0 } else { 0.0 };
        }
        system
    }

    fn view(&self) -> CellView<'_> {
        let of = |name, values| Values::new(name, values, self.cells, self.cells.nx, self.cells.plane());
        let [x, y, z] = &self.forward;
        let forward = [of("east", x), of("north", y), of("top", z)];
        CellView { cells: self.cells, center: of("center", &self.center), forward }
    }

    fn points(&self) -> SevenPoints<'_> {
        let [x, y, z] = &self.forward;
        SevenPoints { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }
}

/// Returns the regions that were found, together with the region of each cell.
fn regions(cuda: &mut Cuda, found: Result<RegionCounts>) -> Result<Regions> {
    found?;
    let (source, surveyor) = (cuda.source.as_ref().unwrap(), cuda.surveyor.as_ref());
    let Some(mut regions) = cuda.regions.take() else { return Ok(Regions::default()) };
    let _entered = cuda.session.device.clone().enter().unwrap();
    let (stream, guard) = (cuda.session.stream(), source.extents.plane());
    let mut numbers = vec![0_u16; source.extents.count() + 2 * guard];
    let memory = Memory::zeroed(stream.device(), stream, size_of_val(&*numbers), "deflation regions").unwrap();
    surveyor.unwrap().number_cells(stream, memory.address + 2 * guard as u64, NO_REGION).unwrap();
    stream.fetch(&mut numbers, memory.address).unwrap();
    stream.wait().unwrap();
    let outside =
        numbers.drain(..guard).collect::<Vec<_>>().into_iter().chain(numbers.split_off(source.extents.count()));
    assert!(outside.into_iter().all(|r| r == NO_REGION));
    regions.of_cell = numbers;
    Ok(regions)
}

/// Compares the components, and the labels of the singular ones.
fn check_components(cuda: &mut Cuda, of_box: Cells, expected: &CellComponents, what: &str) {
    let found = &cuda.surveyor.as_ref().unwrap().components;
    let (list, expected_list) = (found.list(), expected.list());
    assert_eq!((list.size, list.singular), (expected_list.size, expected_list.singular), "{what}");
    let numbers = expected_list.singular_numbers().unwrap();
    let of_cells = |of: &dyn Fn(Option<usize>) -> u32| -> Vec<u32> {
        let runs = (0..of_box.rows()).flat_map(|row| expected.runs(row));
        runs.flat_map(|(run, component)| std::iter::repeat_n(of(component), run.len())).collect()
    };
    let _entered = cuda.session.device.clone().enter().unwrap();
    let stream = cuda.session.stream();
    let read = |from| {
        let mut values = vec![0_u32; of_box.count()];
        stream.fetch(&mut values, from).unwrap();
        stream.wait().unwrap();
        values
    };
    if found.of_cells() != 0 {
        assert!(read(found.of_cells()) == of_cells(&|c| c.map_or(u32::MAX, |c| c as u32)), "{what}");
    }
    let labelled = found.singular_cells(&mut Pool::default(), stream).unwrap();
    let count = expected_list.singular_count();
    assert_eq!(labelled.as_ref().map_or(0, Labelled::labels), count, "{what}");
    let Some(CellLabels { of: labels @ 1.., wide, .. }) = labelled.as_ref().map(Labelled::of_cells) else { return };
    assert_eq!(wide, 1);
    assert!(read(labels) == of_cells(&|c| c.and_then(|c| numbers[c]).unwrap_or(count) as u32), "{what}");
}

fn check_regions(found: Result<Regions>, expected: Result<Regions>, what: &str) {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!((found.count, found.found), (expected.count, expected.found), "{what}");
            assert_eq!(found.null_vector_of, expected.null_vector_of, "{what}");
            assert_eq!(found.surplus, expected.surplus, "{what}");
            assert!(found.of_cell == expected.of_cell, "{what}: the regions of cells");
        }
        (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{what}"),
    }
}

/// Inspects a matrix on host and device, and compares all kinds of regions.
fn compare_surveys(cuda: &mut Cuda, system: &System, what: &str) {
    let (a, view) = (system.points(), system.view());
    let (mut host, expected) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    let center_max = cuda.load(&view, true).unwrap();
    assert_eq!(center_max, system.center.iter().copied().fold(0.0, f64::max));
    let found = cuda.survey(ZERO_ROW_SUM).unwrap();
    check_components(cuda, system.cells, &host.components, what);
    // Device and host add three quotients in the same order, but may round a quotient differently.
    assert!((found.row_sum - expected.row_sum).abs() <= 1e-15 * expected.row_sum, "{what}");
    assert_eq!(Survey { row_sum: expected.row_sum, ..found }, expected, "{what}");
    let boxes = [3, 2, 2];
    let size = system.cells.size();
    for kind in [Kind::Subdomain, Kind::LevelSet, Kind::LevelSetSubdomain] {
        for (labels, dilation) in [(None, false), (Some(&*system.labels), false), (Some(&*system.labels), true)] {
            for keep_all in [false, true] {
                let boxes = [0, 1, 2].map(|d: usize| boxes[d].min(size[d]));
                let choice = Choice { kind, boxes, labels, dilation, keep_all };
                let what = format!("{what} {kind:?} {} {dilation} {keep_all}", labels.is_some());
                let found = cuda.find_regions(&choice);
                let expected = host.find_regions(&a, &choice).map(|_| host.regions.take().unwrap_or_default());
                check_regions(regions(cuda, found), expected, &what);
            }
        }
    }
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_and_host_surveys_agree() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    for (set, size) in [
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
            compare_surveys(&mut cuda, &System::of(set, size, contrast), &format!("{set} {size:?} {contrast}"));
        }
    }
    for (size, part) in
        [([37, 11, 9], 0.25), ([5, 64, 3], 0.4), ([64, 8, 8], 0.1), ([33, 33, 1], 0.5), ([70, 9, 9], 0.9)]
    {
        for seed in 0..3 {
            compare_surveys(&mut cuda, &System::random(size, part, seed), &format!("{size:?} {part} {seed}"));
        }
    }
}

/// Inspects matrices with hidden bubbles: a coarse grid has several points in a bubble, and the next coarser grid has
/// none.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_counts_hidden_bubbles() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    for (set, size) in [("r200;asp=4", [32, 32, 32]), ("r200;asp=4", [48, 24, 33]), ("27;asp=4", [16, 16, 16])] {
        let system = System::of(set, size, 1e-3);
        let (_, expected) = SurveyData::of(&system.points(), ZERO_ROW_SUM).unwrap();
        assert_eq!(expected.hidden > 0, set.starts_with("r200"), "{set} {size:?}");
        compare_surveys(&mut cuda, &system, &format!("{set} {size:?}"));
    }
}

/// Inspects matrices with components that are separated by walls, obstacles and land, and with cells without couplings.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_finds_components() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let of = |set: &str, size| System::of(set, size, 1e-3);
    let thirds = |size: usize, d: usize| move |at: [usize; 3]| 3 * at[d] / size;
    let anywhere = |_: [usize; 3]| false;
    let box_of = |at: [usize; 3]| at.iter().all(|&i| (4..9).contains(&i));
    let shell = |at: [usize; 3]| at.iter().all(|&i| (3..10).contains(&i)) && !box_of(at);
    for (what, system) in [
        ("tanks along x", of("9", [30, 11, 12]).cut(anywhere, thirds(30, 0))),
        ("tanks along y", of("9", [33, 12, 9]).cut(anywhere, thirds(12, 1))),
        (
            "tanks along z, the second regular",
            of("27", [20, 13, 15]).cut(anywhere, thirds(15, 2)).with_positive_row_sums(|at| at[2] == 7),
        ),
        ("a tank in another one", of("8", [20, 14, 13]).cut(shell, |_| 0)),
        ("no tank in another one", of("8", [20, 14, 13])),
        (
            "the outer one is regular",
            of("8", [20, 14, 13]).cut(shell, |_| 0).with_positive_row_sums(|at| at == [19, 13, 12]),
        ),
        ("an obstacle", of("9", [20, 20, 20]).cut(box_of, |_| 0)),
        (
            "drops in air, and a tank of one row",
            of("drops", [40, 9, 10]).cut(anywhere, |at| usize::from(at[1] == 8 && at[2] == 9)),
        ),
        ("a row of its own in each plane", of("9", [33, 5, 7]).cut(anywhere, |[_, j, k]| if j == 0 { k } else { 99 })),
        ("no couplings at all", of("9", [9, 8, 7]).cut(|_| true, |_| 0)),
        ("one pair", of("1", [40, 9, 5]).cut(|at| at[0] / 2 != 9 || at[1] != 4 || at[2] != 2, |_| 0)),
        ("a plane", of("9", [1, 40, 30]).cut(|at| at[1] == 13 || at[2] == 9, |_| 0)),
        ("a line in pieces", of("9", [200, 1, 1]).cut(|at| at[0] % 7 == 3, |at| at[0] / 33)),
        ("all cells alone but a line", of("9", [6, 40, 1]).cut(|at| at[0] != 3, |_| 0)),
        ("pairs in columns", of("spray", [1, 2, 64]).cut(anywhere, |at| at[2])),
    ] {
        compare_surveys(&mut cuda, &system, what);
    }
    for (size, part) in
        [([37, 11, 9], 0.6), ([5, 64, 3], 0.4), ([64, 8, 8], 0.75), ([33, 33, 1], 0.5), ([70, 9, 9], 0.3)]
    {
        for seed in 0..2 {
            let what = format!("land {size:?} {part} {seed}");
            compare_surveys(&mut cuda, &System::random(size, 0.2, seed).with_land(part, seed + 10), &what);
            let system =
                of("9", size).with_land(part, seed).with_positive_row_sums(|at| at[0] % 5 == 2 && at[1] % 4 == 1);
            compare_surveys(&mut cuda, &system, &format!("{what}, rows with sums"));
        }
    }
}

/// `load` accepts NaN couplings if its argument `finite` is false. A NaN then joins no cells, neither on the host nor
/// on the device.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_accepts_nan_couplings() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut system = System::of("9", [20, 9, 7], 1e-3);
    let (cells, size) = (system.cells, system.cells.size());
    let inside = |c: usize| cells.indices(c)[c % 3] + 1 < size[c % 3];
    (0..cells.count()).filter(|&c| c % 20 < 12 && inside(c)).for_each(|c| system.forward[c % 3][c] = f64::NAN);
    cuda.load(&system.view(), false).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    let expected = CellComponents::find(&system.points()).unwrap();
    assert!(expected.count() > 1);
    check_components(&mut cuda, system.cells, &expected, "no numbers");
}

/// More components than region numbers are an error, unless most of the components have no label.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_counts_components() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    // All components are regular, because an emulated device takes minutes to sort so many singular components.
    let pairs = System::random([2, 260, 260], 0.0, 1).cut(|_| false, |at| at[1] + 260 * at[2]);
    let mut system = pairs.with_positive_row_sums(|_| true);
    system.labels = (0..system.cells.count() as i32).map(|c| if c % 40_000 == 7 { c } else { -1 }).collect();
    let a = system.points();
    let (mut host, expected) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    assert_eq!(expected.components, 67_600);
    cuda.load(&system.view(), true).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    check_components(&mut cuda, system.cells, &host.components, "67,600 pairs");
    let labels = Some(&*system.labels);
    for (kind, labels) in [(Kind::Subdomain, None), (Kind::LevelSetSubdomain, labels), (Kind::LevelSet, labels)] {
        let choice = Choice { kind, boxes: [2, 1, 1], labels, dilation: true, keep_all: false };
        let found = cuda.find_regions(&choice);
        assert_eq!(found.is_ok(), kind == Kind::LevelSet);
        let expected = host.find_regions(&a, &choice).map(|_| host.regions.take().unwrap_or_default());
        check_regions(regions(&mut cuda, found), expected, &format!("{kind:?} of pairs"));
    }
}

/// Accepts the largest permitted number of labels, and rejects one label more.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_counts_labels() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut system = System::random([64, 64, 17], 0.0, 1);
    let a = system.points();
    cuda.load(&system.view(), true).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    let (mut host, _) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
    system.labels = (0..system.cells.count() as i32).map(|c| if c < 65_536 { i32::MAX - 7 * c } else { -1 }).collect();
    for last in [65_535, 65_534] {
        system.labels[65_535] = if last == 65_535 { 5 } else { -1 };
        let labels = Some(&*system.labels);
        let choice = Choice { kind: Kind::LevelSet, boxes: [1; 3], labels, dilation: false, keep_all: false };
        let [found, expected] = [cuda.find_regions(&choice), host.find_regions(&system.points(), &choice)];
        assert_eq!(found, expected);
        assert_eq!(found.is_err(), last == 65_535);
        if last < 65_535 {
            let found = regions(&mut cuda, found).unwrap();
            assert!(found.of_cell == host.regions.take().unwrap().of_cell);
        }
    }
}

fn fetched<T: AnyBitPattern + Default>(stream: &Stream, count: usize, from: Address) -> Vec<T> {
    let mut values = vec![T::default(); count];
    stream.fetch(&mut values, from).unwrap();
    stream.wait().unwrap();
    values
}

/// Compares the grids of cell coarsening. The matrices on the device must be bitwise identical to those on the host,
/// with zeros around them, and the inverse must agree.
fn compare_grids<T: Real + AnyBitPattern>(cuda: &mut Cuda, system: &System, coarsest: usize, what: &str) {
    let expected = Hierarchy::<T>::new(&system.points(), coarsest).unwrap();
    cuda.load(&system.view(), true).unwrap();
    let _entered = cuda.session.device.clone().enter().unwrap();
    let (stream, source) = (cuda.session.stream(), cuda.source.as_ref().unwrap());
    let scalars = Memory::zeroed(stream.device(), stream, size_of::<Scalars>(), "sums").unwrap();
    let (scale, single) = (expected.unit.recip(), size_of::<T>() == 4);
    let mut pool = Pool::default();
    let room = Memory::zeroed(stream.device(), stream, 16 * system.cells.count(), "two arrays").unwrap();
    pool.set_workspace(MemoryRange { at: room.address, bytes: room.bytes });
    let GridsAndInverse { grids, inverse } =
        make(&mut pool, stream, source, (scalars.address, scale), single, coarsest).unwrap();
    assert_eq!(grids.len(), expected.grids.len(), "{what}");
    for (grid, expected) in grids.iter().zip(&expected.grids) {
        assert_eq!((grid.extents, grid.ratio), (expected.cells, expected.ratio), "{what}");
        let (guard, points) = (grid.extents.plane(), expected.points());
        let mut wanted = vec![T::default(); guard];
        for values in [points.center].into_iter().chain(points.forward) {
            wanted.extend(values);
            wanted.extend(vec![T::default(); guard]);
        }
        let begin = grid.arrays.at(0) - (guard * size_of::<T>()) as u64;
        let found: Vec<T> = fetched(stream, wanted.len(), begin);
        let differ = found.iter().zip(&wanted).position(|(found, wanted)| found.wide() != wanted.wide());
        assert_eq!(differ, None, "{what}: {:?}", grid.extents);
    }
    if single {
        // If centers are rounded, rounding errors decide which cell of a singular component is removed, so the inverses
        // differ.
        return;
    }
    let n = inverse.n();
    let found: Vec<f64> = fetched(stream, n * n, inverse.matrix());
    let mut column = vec![0.0; n];
    let largest = found.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    for (cell, found) in found.chunks(n).enumerate() {
        column.fill(0.0);
        column[cell] = 1.0;
        expected.coarsest.solve(&mut column);
        let off = found.iter().zip(&column).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // The bound is the rounding error times the condition number, which is some thousands times the ratio 1e3 of
        // the largest to the smallest coupling.
        assert!(off <= 1e-9 * largest, "{what}: {off:e} off in column {cell} of the inverse, {largest:e}");
    }
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_grids_match_host_grids() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut compare = |system: &System, coarsest: usize, what: &str| {
        compare_grids::<f64>(&mut cuda, system, coarsest, what);
        compare_grids::<f32>(&mut cuda, system, coarsest, what);
    };
    for set in ["9", "9;asp=4", "9;dir=top", "9;obs=hole", "surf;obs=box", "drops"] {
        for size in [[17, 17, 17], [20, 9, 13], [1, 12, 9], [5, 1, 40], [3, 2, 5], [1, 1, 2]] {
            for coarsest in [1, 1000] {
                let what = format!("{set} {size:?} {coarsest}");
                compare(&System::of(set, size, 1e-3), coarsest, &what);
            }
        }
    }
    for (size, part) in [([17, 18, 5], 0.5), ([2, 17, 3], 0.3), ([33, 5, 7], 0.8), ([17, 1, 16], 0.2)] {
        for seed in 0..3 {
            compare(&System::with_zero_couplings(size, part, seed), 64, &format!("{size:?} {part} {seed}"));
        }
    }
}

/// Returns random labels 0 .. count in runs of at most `longest` cells; `count` means no label.
fn random_labels(cells: usize, count: u32, longest: f64, random: &mut SplitMix) -> Vec<u32> {
    let mut labels = Vec::new();
    while labels.len() < cells {
        let (label, run) = ((f64::from(count + 1) * random.unit()) as u32, 1 + (longest * random.unit()) as usize);
        labels.extend(std::iter::repeat_n(label, run.min(cells - labels.len())));
    }
    labels
}

/// Compares sums by label. The summed values are integers, so the sums are exact in any order. `wide`: whether labels
/// have 32 bits.
fn compare_sums(cuda: &Cuda, size: [usize; 3], (count, longest, wide): (u32, f64, bool), random: &mut SplitMix) {
    let ([nx, ny, nz], what) = (size, format!("{size:?} {count} {longest} {wide}"));
    let cells = Cells { nx, ny, nz };
    let n = cells.count();
    let labels = if longest == 0.0 { vec![0; n] } else { random_labels(n, count, longest, random) };
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
    let (_memory, [of, v_at, center_at, g]) = Pool::default().lists(stream, sizes, "a test").unwrap();
    let short: Vec<u16> = labels.iter().map(|&label| label as u16).collect();
    match wide {
        true => stream.send(of, &labels).unwrap(),
        false => stream.send(of, &short).unwrap(),
    }
    stream.send(v_at, &v).unwrap();
    stream.send(center_at, &center).unwrap();
    let of = if longest == 0.0 { 0 } else { of };
    let labels = CellLabels { of, wide: i32::from(wide), count };
    let mut labelled = Labelled::new(&mut Pool::default(), stream, cells.count(), labels).unwrap();
    let mut sums = vec![f64::NAN; expected.len()];
    labelled.sums(stream, v_at, g, Sum::default()).unwrap();
    stream.fetch(&mut sums, g).unwrap();
    stream.wait().unwrap();
    assert!(sums.iter().zip(&expected).all(|(sum, expected)| *sum == expected[0]), "{what}");
    let (worst, sum, magnitudes) = labelled.worst(stream, v_at).unwrap();
    assert_eq!([sum, magnitudes], expected[worst][..2], "{what}");
    let ratio = |of: &[f64; 4]| of[0].abs() / of[1].max(f64::MIN_POSITIVE);
    assert!(expected.iter().all(|of| ratio(of) <= ratio(&expected[worst])), "{what}");
    // Means and their squares are rounded, but all terms are positive. A label may have no cells.
    let squares = expected.iter().filter(|of| of[3] > 0.0).map(|[sum, _, inverses, n]| (sum / n).powi(2) * inverses);
    let (square, found) = (squares.sum::<f64>(), labelled.constant_square(stream, v_at, center_at).unwrap());
    assert!((found - square).abs() <= 1e-14 * square, "{what}: {found} {square}");
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_adds_by_label() {
    let cuda = Cuda::new(0, 2).unwrap();
    let _entered = cuda.session.device.clone().enter().unwrap();
    let mut random = SplitMix(3);
    for (size, count, longest, wide) in [
        ([40, 30, 7], 1, 0.0, false),
        ([5, 3, 1], 2, 3.0, false),
        ([40, 30, 7], 1, 3000.0, true),
        ([41, 29, 7], 5, 200.0, false),
        ([33, 32, 3], 20, 1.0, true),
        ([64, 40, 4], 655, 12.0, false),
        // In this case, almost all cells of a chunk have different labels.
        ([64, 17, 1], 3000, 1.0, true),
    ] {
        compare_sums(&cuda, size, (count, longest, wide), &mut random);
    }
}

/// The numbers of aggregates must be equal to those of an independent program (tests/golden/README.md).
#[test]
#[ignore = "needs a device, or an emulated one"]
fn golden_aggregates_of_cells() {
    let table = include_str!("../../../tests/golden/aggregation.csv");
    let mut compared = 0;
    for row in table.lines().map(|line| line.split(',').collect::<Vec<&str>>()) {
        if row[6] != "gpu3" || row[2] != "16" {
            continue;
        }
        let (set, contrast) = row[1]["set=".len()..].split_once(" con=").unwrap();
        let system = System::of(&set.replace(' ', ";"), [16; 3], contrast.parse().unwrap());
        // A new backend per system, so that no aggregates of the previous system are reused.
        let mut cuda = Cuda::new(0, 1).unwrap();
        cuda.load(&system.view(), true).unwrap();
        cuda.survey(ZERO_ROW_SUM).unwrap();
        let preconditioner = Preconditioner::Aggregation { passes: 3, single: true, zero_row_sum: ZERO_ROW_SUM };
        let (coarse_solver, coarse_tolerance, fused) = (Solver::Inverse, 1e-6, true);
        cuda.factorize(&Setup { preconditioner, coarse_solver, coarse_tolerance, fused }).unwrap();
        let Some(Multigrid::Aggregated(aggregated)) = &cuda.state.as_ref().unwrap().multigrid else {
            panic!("there are no aggregates");
        };
        let levels = aggregated.levels();
        assert_eq!([levels[0].rows, levels[1].rows], [4096, row[11].parse::<u32>().unwrap()], "{row:?}");
        compared += 1;
    }
    assert_eq!(compared, 28);
}
