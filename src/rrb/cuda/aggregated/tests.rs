//! Compares aggregates on the device with those of an independent program (tests/golden/README.md), and the anisotropy
//! on the device with that on the host.

use super::super::{Cuda, Solver};
use crate::cuda::launch::aggregation::Level;
use crate::rrb::anisotropy::anisotropy;
use crate::rrb::backend::{Aggregation, InspectionSetup, Lumping, RrbBackend, Setup};
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::rrb::storage::Storage;
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::{GridArray, StencilView};
use flate2::read::GzDecoder;
use rrbsolver_problems::hard::{self, System};
use std::io::Read;
use std::path::PathBuf;

fn golden_path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// Factorizes a system with aggregation, and returns the levels of its multigrid cycle.
fn aggregation_levels(cuda: &mut Cuda, System { a, .. }: &System) -> Vec<Level> {
    let grid = Grid { nx: a.nx, ny: a.ny };
    let [center, east, north] =
        [&a.center, &a.east, &a.north].map(|values| GridArray::new("an array", values, grid, a.nx));
    let view = StencilView { grid, center, east, north, corners: None };
    let checks = InspectionOptions { checks_finite: true, zero_row_sum: 1e-12 };
    let mut inspection = Inspection::default();
    cuda.inspect_matrix(
        &view,
        &InspectionSetup { checks, projects_null_space: true, threads: 1, compute_block: 8, may_store_short: true },
        &mut inspection,
    )
    .unwrap();
    let setup = Setup {
        may_truncate: false,
        levels: 1,
        lumping: Lumping::Red,
        omega: 1.0,
        compensates_positive_couplings: false,
        grids: 1,
        compute_block: 8,
        zero_row_sum: 1e-12,
        fused: true,
        storage: Storage::F32,
        storage_unit: 1.0,
        cycle: Cycle { kind: Some(CycleKind::V), spacing: 4, steps: 2, allows_jumps: false },
        aggregation: Aggregation::FromStart,
    };
    cuda.factorize(&view, &setup, &inspection.components).unwrap();
    let Solver::Packed(packed) = &cuda.solver else { panic!("not on the device") };
    packed.aggregated.as_ref().unwrap().multigrid.launches().levels().to_vec()
}

/// The number of aggregates must agree exactly, because both programs use the same handshakes and hashes.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn aggregate_counts_match_golden_file() {
    let table = std::fs::read_to_string(golden_path("aggregation.csv")).unwrap();
    let mut compared = 0;
    for size in ["64x64", "100x77"] {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(golden_path(&format!("hard/{size}.gz"))).unwrap();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        for system in hard::read(&bytes).unwrap() {
            let rows = table.lines().map(|line| line.split(',').collect::<Vec<&str>>());
            let is_row_of_system = |row: &Vec<&str>| row[1] == system.name && format!("{}x{}", row[2], row[3]) == size;
            let golden_row = rows.filter(is_row_of_system).find(|golden_row| golden_row[6] == "gpu").unwrap();
            // A new backend per system, so that no aggregates of the previous system are reused.
            let aggregation_levels = aggregation_levels(&mut Cuda::new(0, 1).unwrap(), &system);
            assert_eq!(aggregation_levels[0].rows as usize, (system.a.nx * system.a.ny).div_ceil(2));
            assert_eq!(aggregation_levels[1].rows, golden_row[11].parse::<u32>().unwrap(), "{golden_row:?}");
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
    let mut random_state = 7_u64;
    let mut uniform_random = move || {
        random_state = random_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random_state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut cuda, mut anisotropic_count) = (Cuda::new(0, 1).unwrap(), 0);
    for (nx, ny) in [(34, 34), (35, 71), (64, 65), (97, 130), (33, 90)] {
        for nine_points in [false, true] {
            for (ratio, land_fraction) in [(1.0, 0.0), (300.0, 0.0), (0.02, 0.0), (50.0, 0.0003)] {
                let n = nx * ny;
                let mut draw_couplings =
                    |scale: f64| (0..n).map(|_| -scale * (0.5 + uniform_random())).collect::<Vec<f64>>();
                let (mut east, north) = (draw_couplings(ratio), draw_couplings(1.0));
                let (northeast, northwest) = (draw_couplings(0.2), draw_couplings(0.2));
                east.iter_mut()
                    .for_each(|coupling| *coupling = if uniform_random() < land_fraction { 0.0 } else { *coupling });
                let center = vec![2.0 * (ratio + 1.0) + if nine_points { 0.8 } else { 0.0 }; n];
                let grid = Grid { nx, ny };
                let view = |name, values| GridArray::new(name, values, grid, nx);
                let a = StencilView {
                    grid,
                    center: view("center", &center),
                    east: view("east", &east),
                    north: view("north", &north),
                    corners: nine_points.then(|| (view("northeast", &northeast), view("northwest", &northwest))),
                };
                let checks = InspectionOptions { checks_finite: true, zero_row_sum: 1e-12 };
                let inspection_setup = InspectionSetup {
                    checks,
                    projects_null_space: true,
                    threads: 1,
                    compute_block: 8,
                    may_store_short: true,
                };
                cuda.inspect_matrix(&a, &inspection_setup, &mut Inspection::default()).unwrap();
                let (on_device, on_host) = (cuda.anisotropy(&a, 1e-12), anisotropy(&a, 1e-12));
                // The order of summation differs.
                assert!((on_device - on_host).abs() <= 1e-10 * on_host, "{nx} x {ny} {ratio}: {on_device}, {on_host}");
                anisotropic_count += usize::from(on_host > 2.0);
            }
        }
    }
    assert!(anisotropic_count >= 16, "{anisotropic_count}");
}
