//! Compares aggregates on the device with those of an independent program (tests/golden/README.md).

use super::super::{Cuda, Solver};
use crate::cuda::launch::aggregation::Level;
use crate::rrb::anisotropy::anisotropy;
use crate::rrb::backend::{Aggregation, InspectionSetup, Lumping, RrbBackend, Setup};
use crate::rrb::recursion::{Cycle, Kind};
use crate::rrb::storage::Storage;
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::{StencilView, View};
use flate2::read::GzDecoder;
use rrbsolver_problems::hard::{self, System};
use std::io::Read;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// Factorizes a system with aggregation, and returns the levels of its multigrid cycle.
fn levels(cuda: &mut Cuda, System { a, .. }: &System) -> Vec<Level> {
    let grid = Grid { nx: a.nx, ny: a.ny };
    let [center, east, north] = [&a.center, &a.east, &a.north].map(|values| View::new("an array", values, grid, a.nx));
    let view = StencilView { grid, center, east, north, corners: None };
    let checks = InspectionOptions { finite: true, zero_row_sum: 1e-12 };
    let mut inspection = Inspection::default();
    cuda.examine(
        &view,
        &InspectionSetup { checks, project: true, threads: 1, block: 8, may_store_short: true },
        &mut inspection,
    )
    .unwrap();
    let setup = Setup {
        may_truncate: false,
        levels: 1,
        lumping: Lumping::Red,
        omega: 1.0,
        compensate: false,
        grids: 1,
        block: 8,
        zero_row_sum: 1e-12,
        fused: true,
        storage: Storage::F32,
        unit: 1.0,
        cycle: Cycle { kind: Some(Kind::V), spacing: 4, steps: 2, allows_jumps: false },
        aggregation: Aggregation::FromStart,
    };
    cuda.factorize(&view, &setup, &inspection.components).unwrap();
    let Solver::Packed(packed) = &cuda.solver else { panic!("not on the device") };
    packed.aggregated.as_ref().unwrap().engine.launched().levels().to_vec()
}

/// The number of aggregates must agree exactly, because both programs use the same handshakes and hashes.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn golden_aggregates() {
    let table = std::fs::read_to_string(golden("aggregation.csv")).unwrap();
    let mut compared = 0;
    for size in ["64x64", "100x77"] {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(golden(&format!("hard/{size}.gz"))).unwrap();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        for system in hard::read(&bytes).unwrap() {
            let rows = table.lines().map(|line| line.split(',').collect::<Vec<&str>>());
            let is_of = |row: &Vec<&str>| row[1] == system.name && format!("{}x{}", row[2], row[3]) == size;
            let row = rows.filter(is_of).find(|row| row[6] == "gpu").unwrap();
            // A new backend per system, so that no aggregates of the previous system are reused.
            let levels = levels(&mut Cuda::new(0, 1).unwrap(), &system);
            assert_eq!(levels[0].rows as usize, (system.a.nx * system.a.ny).div_ceil(2));
            assert_eq!(levels[1].rows, row[11].parse::<u32>().unwrap(), "{row:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 32);
}

/// Device and host compute the same anisotropy of a matrix. The cases have 5 or 9 points, with and without land, and
/// both colours of node (0, 0).
#[test]
#[ignore = "needs a device, or an emulated one"]
fn device_and_host_compute_the_same_anisotropy() {
    let mut random = 7_u64;
    let mut unit = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut cuda, mut seen) = (Cuda::new(0, 1).unwrap(), 0);
    for (nx, ny) in [(34, 34), (35, 71), (64, 65), (97, 130), (33, 90)] {
        for nine_points in [false, true] {
            for (ratio, land) in [(1.0, 0.0), (300.0, 0.0), (0.02, 0.0), (50.0, 0.0003)] {
                let n = nx * ny;
                let mut draw = |most: f64| (0..n).map(|_| -most * (0.5 + unit())).collect::<Vec<f64>>();
                let (mut east, north) = (draw(ratio), draw(1.0));
                let (northeast, northwest) = (draw(0.2), draw(0.2));
                east.iter_mut().for_each(|a| *a = if unit() < land { 0.0 } else { *a });
                let center = vec![2.0 * (ratio + 1.0) + if nine_points { 0.8 } else { 0.0 }; n];
                let grid = Grid { nx, ny };
                let v = |name, values| View::new(name, values, grid, nx);
                let a = StencilView {
                    grid,
                    center: v("center", &center),
                    east: v("east", &east),
                    north: v("north", &north),
                    corners: nine_points.then(|| (v("northeast", &northeast), v("northwest", &northwest))),
                };
                let checks = InspectionOptions { finite: true, zero_row_sum: 1e-12 };
                let inspection_setup =
                    InspectionSetup { checks, project: true, threads: 1, block: 8, may_store_short: true };
                cuda.examine(&a, &inspection_setup, &mut Inspection::default()).unwrap();
                let (found, expected) = (cuda.anisotropy(&a, 1e-12), anisotropy(&a, 1e-12));
                // The order of summation differs.
                assert!((found - expected).abs() <= 1e-10 * expected, "{nx} x {ny} {ratio}: {found}, {expected}");
                seen += usize::from(expected > 2.0);
            }
        }
    }
    assert!(seen >= 16, "{seen}");
}
