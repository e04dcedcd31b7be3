//! Tests of the regions of the golden systems, of regions from labels, and of regions in tanks that are separated by
//! walls.

use super::*;
use crate::error::RRB_ERR_ARGUMENT;
use rrbsolver_problems::two_phase::TwoPhase;

/// The arrays of a system. Entries that leave the grid are zero.
struct SystemArrays {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
}

impl SystemArrays {
    fn of(problem: TwoPhase) -> Self {
        let [nx, ny, nz] = problem.size;
        let forward = problem.forward.map(|c| c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect());
        Self { cells: Cells { nx, ny, nz }, center: problem.center, forward }
    }

    /// Returns a system with one liquid. `walls` contains indices in x: an impermeable wall is at the west side of each
    /// cell with such an index.
    fn of_tanks(size: [usize; 3], walls: &[usize]) -> Self {
        let mut a = Self::of(TwoPhase::new("8", size, 1.0));
        for c in 0..a.cells.count() {
            if walls.contains(&(a.cells.indices(c)[0] + 1)) {
                let coupling = std::mem::take(&mut a.forward[0][c]);
                a.center[c] += coupling;
                a.center[c + 1] += coupling;
            }
        }
        a
    }

    fn seven_points(&self) -> SevenPoints<'_> {
        let [x, y, z] = &self.forward;
        SevenPoints { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }

    fn regions(&self, choice: &RegionChoice) -> Result<Regions> {
        let a = self.seven_points();
        Regions::find(&a, &CellComponents::find(&a)?, &StrongGroups::find(&a)?, choice)
    }
}

fn subdomains(boxes: [usize; 3]) -> RegionChoice<'static> {
    RegionChoice { kind: RegionKind::Subdomain, boxes, labels: None, dilation: false, keep_all: false }
}

fn level_sets(labels: Option<&[i32]>) -> RegionChoice<'_> {
    RegionChoice { kind: RegionKind::LevelSet, boxes: [0; 3], labels, dilation: false, keep_all: false }
}

#[test]
fn region_counts_match_the_golden_rows() {
    // Expected numbers of vectors in the rows `LS` of golden/gmg.csv.
    let rows = [
        ("1", 64, 1),
        ("8", 64, 8),
        ("9", 32, 9),
        ("9", 64, 9),
        ("9s", 64, 9),
        ("27", 48, 27),
        ("27t", 64, 27),
        ("P3", 64, 9),
        ("dam", 64, 1),
        ("drops", 64, 1),
        ("film", 64, 8),
        ("r200", 64, 145),
        ("sheet", 64, 1),
        ("spray", 64, 286),
        ("surf", 64, 1),
        ("surf;asp=4", 64, 1),
        ("surf;obs=box", 64, 1),
        ("9;asp=4", 64, 9),
        ("9;dir=top", 64, 9),
        ("9;obs=hole", 64, 9),
        ("0", 64, 0),
    ];
    for (set, n, expected) in rows {
        for contrast in [1e-3, 1e-6] {
            let name = if set == "0" { "1" } else { set };
            let a = SystemArrays::of(TwoPhase::new(name, [n; 3], if set == "0" { 1.0 } else { contrast }));
            let regions = a.regions(&level_sets(None)).unwrap();
            assert_eq!(regions.count, expected, "{set} {contrast}");
            let max_region = regions.region_of_cell.iter().filter(|&&r| r != NO_REGION).map(|&r| usize::from(r)).max();
            assert_eq!(max_region.map_or(0, |max| max + 1), expected);
        }
    }
    let odd_extents = SystemArrays::of(TwoPhase::new("9", [50, 77, 63], 1e-3));
    assert_eq!(odd_extents.regions(&level_sets(None)).unwrap().count, 9);
    let strong_groups = StrongGroups::find(&odd_extents.seven_points()).unwrap();
    assert_eq!((strong_groups.count(), strong_groups.smallest_extent), (9, 9));
}

#[test]
fn one_vector_is_dropped_per_covered_singular_component() {
    let a = SystemArrays::of_tanks([12, 5, 4], &[4, 9]);
    let with_dropped = a.regions(&subdomains([2, 1, 1])).unwrap();
    // The tanks have 4, 5 and 3 columns. The first box ends at column 6, within the second tank.
    assert_eq!((with_dropped.region_count, with_dropped.count), (4, 1));
    let region_at = |i: usize| with_dropped.region_of_cell[i];
    assert_eq!(
        [0, 3, 4, 5, 6, 8, 9, 11].map(region_at),
        [NO_REGION, NO_REGION, NO_REGION, NO_REGION, 0, 0, NO_REGION, NO_REGION]
    );
    let with_all_vectors = a.regions(&RegionChoice { keep_all: true, ..subdomains([2, 1, 1]) }).unwrap();
    assert_eq!((with_all_vectors.region_count, with_all_vectors.count), (4, 4));
    assert_eq!(with_all_vectors.null_vector_of, [1, 2, 2, 3]);
    assert_eq!(with_all_vectors.surplus_vectors, [0, 1, 3]);
    // Cells without couplings are in no region. A component with a nonzero row sum keeps all vectors.
    let mut a = SystemArrays::of_tanks([6, 5, 4], &[1]);
    a.center[0] = 1.0;
    for d in 1..3 {
        let coupling = std::mem::take(&mut a.forward[d][0]);
        a.center[a.cells.strides()[d]] += coupling;
    }
    a.center[7] += 1e-6;
    let regions = a.regions(&subdomains([2, 1, 1])).unwrap();
    assert_eq!(regions.region_of_cell[0], NO_REGION);
    // The first column of cells is a singular component, and its vector is dropped. The other cells are divided into
    // two boxes.
    assert_eq!((regions.region_count, regions.count), (3, 2));
    assert_eq!([1, 3].map(|i| regions.region_of_cell[i]), [0, 1]);
}

#[test]
fn walls_split_labels_and_dilation_extends_them() {
    let a = SystemArrays::of_tanks([8, 3, 2], &[4]);
    // Label 7 occurs on both sides of the wall and label 2 once; label numbers may have gaps.
    let mut labels = vec![-1; a.cells.count()];
    (labels[2], labels[3], labels[4], labels[7]) = (7, 7, 7, 2);
    let choice = level_sets(Some(&labels));
    let regions = a.regions(&choice).unwrap();
    assert_eq!((regions.region_count, regions.count), (3, 3));
    assert_eq!(regions.region_of_cell[..8], [NO_REGION, NO_REGION, 0, 0, 1, NO_REGION, NO_REGION, 2]);
    assert!(regions.region_of_cell[8..].iter().all(|&r| r == NO_REGION));
    // With dilation, labels spread by one layer of cells, but not through the wall. A cell between two labels gets the
    // smaller one.
    labels[5] = 2;
    labels[6] = -1;
    labels[7] = 1;
    let choice = RegionChoice { dilation: true, ..level_sets(Some(&labels)) };
    let regions = a.regions(&choice).unwrap();
    assert_eq!(regions.region_of_cell[..8], [NO_REGION, 0, 0, 0, 1, 2, 3, 3]);
    assert_eq!(regions.region_of_cell[8..16], [NO_REGION, NO_REGION, 0, 0, 1, 2, NO_REGION, 3]);
    // All cells of both tanks have labels: one vector is dropped in each tank.
    let labels: Vec<i32> = (0..a.cells.count()).map(|c| i32::from(c % 8 > 1)).collect();
    let regions = a.regions(&level_sets(Some(&labels))).unwrap();
    assert_eq!((regions.region_count, regions.count), (3, 1));
}

#[test]
fn invalid_regions_are_rejected() {
    let a = SystemArrays::of_tanks([6, 5, 4], &[]);
    let message = |choice: &RegionChoice| a.regions(choice).unwrap_err().to_string();
    assert_eq!(message(&subdomains([7, 1, 1])), "subdomains_x must be from 1 to nx = 6: each box needs a cell, got 7");
    let many_cells = SystemArrays::of_tanks([64, 64, 17], &[]);
    // 65,536 distinct labels exceed the limit by one.
    let mut labels: Vec<i32> =
        (0..many_cells.cells.count() as i32).map(|c| if c < 65_536 { 10 * c } else { -1 }).collect();
    let error = many_cells.regions(&level_sets(Some(&labels))).unwrap_err();
    assert_eq!(error.status(), RRB_ERR_ARGUMENT);
    labels[5] = -1;
    assert_eq!(many_cells.regions(&level_sets(Some(&labels))).unwrap().count, 65_535);
    labels[6] = i32::MAX;
    assert_eq!(many_cells.regions(&level_sets(Some(&labels))).unwrap().count, 65_535);
    let error = many_cells.regions(&subdomains([64, 64, 17])).unwrap_err();
    assert!(error.to_string().starts_with("boxes produce more than 65535 deflation regions"), "{error}");
}

#[test]
fn one_phase_has_no_level_set_vector() {
    let a = SystemArrays::of_tanks([6, 5, 1], &[]);
    let regions = a.regions(&level_sets(None)).unwrap();
    assert_eq!((regions.region_count, regions.count), (1, 0));
}

#[test]
fn the_dropped_region_is_in_the_heavy_phase() {
    let problem = TwoPhase::new("drops", [9, 8, 7], 1e-3);
    let labels: Vec<i32> = problem.air.iter().map(|&air| i32::from(!air)).collect();
    assert!(problem.air[0] && labels.contains(&1));
    let a = SystemArrays::of(problem);
    let regions = a.regions(&level_sets(Some(&labels))).unwrap();
    assert_eq!((regions.region_count, regions.count), (2, 1));
    assert!(regions.region_of_cell.iter().zip(&labels).all(|(&region, &label)| (region == 0) == (label == 0)));
}
