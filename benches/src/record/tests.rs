use super::tables::COPIES;
use super::*;
use crate::cost::Model;
use crate::sweeps::{GridRow, Timed};
use crate::timing::Samples;

/// A stage: its calls, words and flops per call, and ms of two solves.
type Row<'a> = (&'a str, usize, Option<[f64; 2]>, [f64; 2]);

/// Creates a record with 2 black nodes.
fn record(device: Option<i32>, stages: &[Row], total: [f64; 2]) -> Record {
    let seconds = |ms: [f64; 2]| Samples::new(ms.map(|ms| 1e-3 * ms).to_vec());
    let stage = |&(step, calls, cost, ms): &Row| Stage {
        step: step.to_owned(),
        calls,
        seconds: seconds(ms),
        cost: cost.map(|[words, flops]| Cost { words, flops }),
    };
    let model =
        Model { precision: "f64".to_owned(), cycle: "v".to_owned(), spacing: 4, steps: 2, levels: 2, fused: true };
    let bandwidth = Bandwidth {
        kernel: if device.is_some() { DEVICE_COPY } else { "triad" }.to_owned(),
        threads: if device.is_some() { 0 } else { 1 },
        megabytes: 1200.0,
        median: 64e-6,
        best: 64e-6,
    };
    let breakdown = Breakdown {
        problem: "small".to_owned(),
        nx: 2,
        ny: 2,
        options: String::new(),
        model,
        threads: 1,
        device,
        transfer: if device.is_some() { seconds([1.0, 1.0]) } else { Samples::default() },
        grids: 1,
        iterations: 3,
        total: seconds(total),
        stages: stages.iter().map(stage).collect(),
        by_grid: Vec::new(),
    };
    let study = Study::Stages(breakdown);
    Record { command: String::new(), machine: Machine::this(), bandwidth: vec![bandwidth], study }
}

/// Returns the cells of the row that begins with `name`.
fn cells(text: &str, name: &str) -> Vec<String> {
    let row = text.lines().find(|l| l.starts_with(&format!("| {name}"))).unwrap_or_else(|| panic!("{name}: {text}"));
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn the_rest_has_bytes_and_flops() {
    let stages = [
        ("load", 1, Some([5.0, 6.0]), [1.0, 1.0]),
        ("descend", 2, Some([10.0, 20.0]), [2.0, 2.0]),
        ("reduce", 1, Some([8.0, 9.0]), [1.0, 1.0]),
        ("preconditioned_square", 4, Some([0.0, 0.0]), [0.0, 0.0]),
        ("back_substitute", 2, Some([4.0, 3.0]), [1.0, 1.0]),
    ];
    let text = record(None, &stages, [5.25, 5.25]).text();
    // 16 words and 15 flops per node, for 2 nodes: 256 bytes and 30 flops in 2 ms. 128 kB/s are 200 % of the ceiling,
    // 64 kB/s.
    let rest = cells(&text, "rest: reduce, preconditioned square, back substitute ");
    assert_eq!(rest[1..], ["", "2.00", "38.1", "0.000256", "0.000128", "200 %", "0.000015"], "{text}");
    // All stages: 5 + 20 + 16 words and 6 + 40 + 15 flops per node.
    assert_eq!(cells(&text, "total")[2..6], ["5.25", "100", "0.000656", "0.000125"], "{text}");
    assert!(!text.contains("not counted") && text.contains("Outside all steps: 0.250 ms."), "{text}");
    let row = |name| cells(&text, name)[2].parse::<f64>().unwrap();
    assert_eq!(row("memcpy") + row("descend") + row("rest"), 5.0);
}

#[test]
fn a_step_without_a_count_has_a_row_of_its_own() {
    let stages = [
        ("reduce", 1, Some([8.0, 9.0]), [1.0, 1.0]),
        ("project_rhs", 1, None, [2.0, 2.0]),
        ("back_substitute", 1, Some([8.0, 9.0]), [1.0, 1.0]),
    ];
    let text = record(None, &stages, [4.0, 4.0]).text();
    assert_eq!(cells(&text, "rest: reduce, back substitute ")[4], "0.000256");
    assert_eq!(cells(&text, "not counted: project rhs ")[2..], ["2.00", "50.0", "-", "-", "-", "-"]);
    assert_eq!(cells(&text, "total")[4..], ["-", "-", "-", "-"]);
}

/// Steps outside the loop of a device run together, and any of them may include the wait.
#[test]
fn a_device_has_its_own_total() {
    let stages = [
        ("inspect", 1, Some([4.0, 0.0]), [3.0, 3.0]),
        ("reduce", 1, Some([8.0, 9.0]), [0.0, 0.0]),
        (LOOP, 3, Some([25.0, 60.0]), [2.0, 2.0]),
        ("store", 1, Some([4.0, 2.0]), [1.0, 1.0]),
    ];
    let text = record(Some(0), &stages, [6.0, 6.0]).text();
    assert_eq!(cells(&text, "outside the loop")[2..5], ["3.00", "50.0", "0.000256"], "{text}");
    assert_eq!(cells(&text, "on the device")[2..7], ["5.00", "83.3", "0.00146", "0.000291", "455 %"], "{text}");
    assert_eq!(cells(&text, "transfers")[2], "1.00");
    assert_eq!(cells(&text, "total")[4], "-");
    assert!(!text.contains("memcpy") && !text.contains("rest"), "{text}");
}

#[test]
fn figures_of_grids_are_tables_by_levels_and_g() {
    let row = |implementation: &str, grids: usize, levels: usize, setup: f64, solve: f64| GridRow {
        implementation: implementation.to_owned(),
        grids,
        threads: 1 + usize::from(implementation.starts_with("S3")),
        levels,
        iterations: 5 + levels,
        timed: Timed {
            setup: Samples::new(vec![setup, setup]),
            solve: Samples::new(vec![0.5 * solve, solve, 1.5 * solve]),
            copies: implementation.starts_with("S4").then(|| Samples::new(vec![0.25])),
        },
    };
    let sweep = |rows: Vec<GridRow>| GridSweep { problem: "small".to_owned(), n: 31, options: "f64".to_owned(), rows };
    let on_cpu = || {
        vec![
            row("S1", 0, 8, 0.001, 0.012),
            row("S2", 1, 8, 0.002, 0.006),
            row("S3", 1, 8, 0.002, 0.004),
            row("S2", 2, 8, 0.002, 0.005),
            row("S3 fused", 1, 6, 0.007, 0.008),
            row("S3 fused", 1, 8, 0.009, 0.003),
        ]
    };
    let text = grids(&sweep(on_cpu()));
    assert!(text.contains("threads: S1 1, S2 1, S3 2, S3 fused 2. Medians of 3, ms; the most is up to 3.00"), "{text}");
    let rows = |text: &str, columns: usize| -> Vec<Vec<String>> {
        let cells = |l: &str| l.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect::<Vec<String>>();
        text.lines().filter(|l| l.starts_with('|')).map(cells).filter(|row| row.len() == columns).collect()
    };
    // The table has solve times of four implementations, three ratios to S1, and four setup times.
    let compared = rows(&text, 3 + 4 + 3 + 4);
    assert_eq!(compared.len(), 2 + 3, "{text}");
    assert_eq!(compared[2][..8], ["8", "0", "13", "12.0", "-", "-", "-", "-"]);
    assert_eq!(compared[3][..10], ["8", "1", "13", "-", "6.00", "4.00", "3.00", "2.00", "3.00", "4.00"]);
    assert_eq!(compared[3][10..], ["-", "2.00", "2.00", "9.00"]);
    // Setup times and then solve times of the fused implementation at all levels.
    let fused = rows(&text, 3);
    assert_eq!((&fused[0][2], &fused[2], &fused[3]), (&"g = 1".to_owned(), &cut("6 11 7.00"), &cut("8 13 9.00")));
    assert_eq!((&fused[6], &fused[7]), (&cut("6 11 8.00"), &cut("8 13 3.00")));
    assert!(!text.contains("S4") && !text.contains(COPIES));

    let mut with_device = on_cpu();
    with_device.extend([row("S4", 4, 8, 0.001, 0.002), row("S4 fused", 4, 8, 0.001, 0.001)]);
    let text = grids(&sweep(with_device));
    let compared = rows(&text, 3 + 6 + 5 + 6);
    assert_eq!(compared[5][..10].join(" "), "8 4 13 - - - - 2.00 1.00 -", "{text}");
    assert_eq!(rows(&text, 4)[3], cut("8 13 9.00 1.00"));
    assert!(text.contains(&format!("{COPIES} of a solve on the device: 250.")), "{text}");
}

fn cut(cells: &str) -> Vec<String> {
    cells.split(' ').map(str::to_owned).collect()
}
