//! What the device finds in a matrix against what the host finds.

use super::*;
use crate::grid::components::ZERO_ROW_SUM;
use crate::grid::regions::{Kind, NONE, Regions};
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

/// A matrix with its labels.
struct System {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
    labels: Vec<i32>,
}

impl System {
    /// Bubbles in each octant have a label of their own; cells in a liquid none.
    fn of(set: &str, [nx, ny, nz]: [usize; 3], contrast: f64) -> Self {
        let problem = TwoPhase::new(set, [nx, ny, nz], contrast);
        let cells = Cells { nx, ny, nz };
        let octant = |c: usize| (0..3).fold(0, |o, d| 2 * o + i32::from(2 * cells.place(c)[d] >= cells.size()[d]));
        let label = |(c, &air): (usize, &bool)| if air { 1000 * octant(c) } else { -1 };
        let labels = problem.air.iter().enumerate().map(label).collect();
        let forward = problem.forward.map(|c| c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect());
        Self { cells, center: problem.center, forward, labels }
    }

    /// Every coupling is strong with this probability; labels anywhere.
    fn random([nx, ny, nz]: [usize; 3], part: f64, seed: u64) -> Self {
        let (cells, mut random) = (Cells { nx, ny, nz }, SplitMix(seed));
        let (n, size, steps) = (cells.count(), cells.size(), cells.steps());
        let mut center = vec![0.0; n];
        let forward = [0, 1, 2].map(|d| {
            let mut couplings = vec![0.0; n];
            for c in (0..n).filter(|&c| cells.place(c)[d] + 1 < size[d]) {
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

/// Regions that were found, with those of cells.
fn regions(cuda: &mut Cuda, found: Result<RegionCount>) -> Result<Regions> {
    found?;
    let (source, surveyor) = (cuda.source.as_ref().unwrap(), cuda.surveyor.as_ref());
    let Some(mut regions) = cuda.found.regions.take() else { return Ok(Regions::default()) };
    if cuda.is_surveyed {
        let _entered = cuda.session.device.clone().enter().unwrap();
        let (stream, guard) = (cuda.session.stream(), source.of.plane());
        let mut of = vec![0_u16; source.of.count() + 2 * guard];
        let memory = Memory::zeroed(stream.device(), stream, size_of_val(&*of), "deflation regions").unwrap();
        surveyor.unwrap().number_cells(stream, memory.address + 2 * guard as u64, NONE).unwrap();
        stream.fetch(&mut of, memory.address).unwrap();
        stream.wait().unwrap();
        let outside = of.drain(..guard).collect::<Vec<_>>().into_iter().chain(of.split_off(source.of.count()));
        assert!(outside.into_iter().all(|r| r == NONE));
        regions.of = of;
    }
    Ok(regions)
}

fn same(found: Result<Regions>, expected: Result<Regions>, what: &str) {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!((found.count, found.found), (expected.count, expected.found), "{what}");
            assert_eq!(found.null_vector, expected.null_vector, "{what}");
            assert_eq!(found.surplus, expected.surplus, "{what}");
            assert!(found.of == expected.of, "{what}: the regions of cells");
        }
        (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{what}"),
    }
}

/// Surveys a matrix on both sides, and finds all kinds of regions.
fn compare(cuda: &mut Cuda, system: &System, surveyed: bool, what: &str) {
    let (a, view) = (system.points(), system.view());
    let (mut host, expected) = Found::of(&a, ZERO_ROW_SUM).unwrap();
    let center_max = cuda.load(&view, true).unwrap();
    assert_eq!(center_max, system.center.iter().copied().fold(0.0, f64::max));
    let found = cuda.survey(ZERO_ROW_SUM).unwrap();
    assert_eq!(cuda.is_surveyed, surveyed, "{what}");
    // Three quotients, in one order and rounded once each.
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
                same(regions(cuda, found), expected, &what);
            }
        }
    }
}

#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_finds_what_the_host_finds() {
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
            let surveyed = !set.contains("obs");
            compare(&mut cuda, &System::of(set, size, contrast), surveyed, &format!("{set} {size:?} {contrast}"));
        }
    }
    for (size, part) in
        [([37, 11, 9], 0.25), ([5, 64, 3], 0.4), ([64, 8, 8], 0.1), ([33, 33, 1], 0.5), ([70, 9, 9], 0.9)]
    {
        for seed in 0..3 {
            compare(&mut cuda, &System::random(size, part, seed), true, &format!("{size:?} {part} {seed}"));
        }
    }
}

/// More labels than there are numbers for regions, and as many.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn a_device_counts_labels() {
    let mut cuda = Cuda::new(0, 2).unwrap();
    let mut system = System::random([64, 64, 17], 0.0, 1);
    let a = system.points();
    cuda.load(&system.view(), true).unwrap();
    cuda.survey(ZERO_ROW_SUM).unwrap();
    let (mut host, _) = Found::of(&a, ZERO_ROW_SUM).unwrap();
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
            assert!(found.of == host.regions.take().unwrap().of);
        }
    }
}
