//! Aggregates on the device beside those of an independent program (tests/golden/README.md).

use super::super::{Cuda, Solver};
use crate::backend::cuda::launch::aggregation::Level;
use crate::backend::steps::cycle::{Cycle, Kind};
use crate::backend::steps::rrb::{Aggregation, Look, Lumping, RrbBackend, Setup};
use crate::backend::storage::Storage;
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::stencil::{StencilView, View};
use flate2::read::GzDecoder;
use rrbsolver_problems::hard::{self, System};
use std::io::Read;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// The levels of a system.
fn levels(cuda: &mut Cuda, System { a, .. }: &System) -> Vec<Level> {
    let grid = Grid { nx: a.nx, ny: a.ny };
    let [center, east, north] = [&a.center, &a.east, &a.north].map(|values| View::new("an array", values, grid, a.nx));
    let view = StencilView { grid, center, east, north, corners: None };
    let questions = Questions { finite: true, zero_row_sum: 1e-12 };
    let mut inspection = Inspection::default();
    cuda.examine(&view, &Look { questions, project: true, members: 1, block: 8 }, &mut inspection).unwrap();
    let setup = Setup {
        may_end: false,
        levels: 1,
        lumping: Lumping::Red,
        omega: 1.0,
        compensate: false,
        grids: 1,
        block: 8,
        zero_row_sum: 1e-12,
        fused: true,
        storage: Storage::F32,
        single: false,
        unit: 1.0,
        cycle: Cycle { kind: Some(Kind::V), spacing: 4, steps: 2, jumps: false },
        aggregation: Aggregation::Instead,
    };
    cuda.factorize(&view, &setup, &inspection.components).unwrap();
    let Solver::Packed(packed) = &cuda.solver else { panic!("not on the device") };
    packed.aggregated.as_ref().unwrap().engine.launched().levels().to_vec()
}

/// How many there are is exact: handshakes and hashes are those of the other program.
#[test]
#[ignore = "needs a device, or an emulated one"]
fn golden_aggregates() {
    let table = std::fs::read_to_string(golden("aggregation.csv")).unwrap();
    let mut cuda = Cuda::new(0, 1).unwrap();
    let mut compared = 0;
    for size in ["64x64", "100x77"] {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(golden(&format!("hard/{size}.gz"))).unwrap();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        for system in hard::read(&bytes).unwrap() {
            let rows = table.lines().map(|line| line.split(',').collect::<Vec<&str>>());
            let is_of = |row: &Vec<&str>| row[1] == system.name && format!("{}x{}", row[2], row[3]) == size;
            let row = rows.filter(is_of).find(|row| row[6] == "gpu").unwrap();
            let levels = levels(&mut cuda, &system);
            assert_eq!(levels[0].rows as usize, (system.a.nx * system.a.ny).div_ceil(2));
            assert_eq!(levels[1].rows, row[11].parse::<u32>().unwrap(), "{row:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 32);
}
