//! Runs the program on tiny grids. Checks that records are JSON, and that iteration counts have the expected values.

mod common;

use common::{bench, folder, record};
use serde_json::Value;

#[test]
fn a_contest_has_counts_residuals_and_ratios() {
    // `echo` serves as the other program; it prints the line of nine fields.
    let (printed, value) = record(
        "solve",
        &[
            "solve",
            "poisson_f",
            "-n",
            "127",
            "--options",
            "threads=1 levels=12",
            "--options",
            "fusion=off levels=12",
            "--baseline",
            "ic",
            "--baseline",
            "mic",
            "--peer",
            "other=echo x,P,127,2,0.5,1.5,7,9e-7,3",
            "--repeats",
            "2",
            "--stream-megabytes",
            "3",
        ],
    );
    assert_eq!(value["command"].as_str().unwrap().split(' ').next(), Some("solve"));
    assert_eq!(value["study"], "solve");
    let entries = value["result"]["entries"].as_array().unwrap();
    let iterations: Vec<u64> = entries.iter().map(|e| e["iterations"].as_u64().unwrap()).collect();
    // An independent ICCG(0) needs 100 iterations; 1 percent may differ. Entry 4 is the other program.
    assert!(iterations[2].abs_diff(100) <= 1 && iterations[4] == 7, "{iterations:?}");
    assert_eq!(iterations[0], iterations[1]);
    for entry in entries {
        assert!(entry["residual"].as_f64().unwrap() <= 1.001e-6, "{entry}");
        assert_eq!(entry["solve"].as_array().unwrap().len(), 2);
        assert_eq!(entry["ratio"].as_array().unwrap().len(), 2);
        assert_eq!(entry["solve_ratio"].as_array().unwrap().len(), 2);
        assert!(entry["converged"].as_bool().unwrap());
    }
    assert_eq!(entries[0]["ratio"][0].as_f64(), Some(1.0));
    assert_eq!(entries[4]["solve"][0].as_f64(), Some(1.5));
    assert_eq!(entries[0]["rrb"]["model"]["precision"].as_str().map(str::is_empty), Some(false));
    let kernels: Vec<&str> =
        value["bandwidth"].as_array().unwrap().iter().map(|b| b["kernel"].as_str().unwrap()).collect();
    assert!(kernels.contains(&"triad") && kernels.contains(&"copy"));
    assert!(value["bandwidth"].as_array().unwrap().iter().all(|b| b["median"].as_f64().unwrap() > 0.0));
    assert!(printed.contains("| in-house MIC(0)-CG") && printed.contains("GB/s: copy"));
}

/// Solves a two-phase system with `dpcg_` and the in-house ICCG. An unknown geometry causes an error message.
#[test]
fn two_phases_have_counts_and_residuals() {
    let options =
        ["two-phase", "9", "-n", "20", "--rhs", "rand", "--baseline", "-r", "2", "-o", "", "-o", "deflation=none"];
    let (printed, value) = record("two_phase", &options);
    let rows = value["result"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row["residual"].as_f64().unwrap() <= 1.001e-6 && row["converged"] == true, "{row}");
        assert!(row["solve"].as_array().unwrap().len() == 2 && row["iterations"].as_u64() > Some(0), "{row}");
    }
    assert!(printed.contains("| in-house ICCG(0)") && printed.contains("20 x 20 x 20"), "{printed}");
}

/// Unfused steps: their number must match the iterations, and their times must not exceed the total time.
#[test]
fn stages_add_up() {
    let papers = "norm=preconditioned reference=initial levels=12 precision=f64 cycle=v";
    for (fusion, steps) in [("off", vec!["multiply", "advance_solution", "advance_residual"]), ("on", vec!["descend"])]
    {
        let (printed, value) = record(
            &format!("stages_{fusion}"),
            &["stages", "poisson_f", "-n", "255", "--no-stream", "-r", "2", "-o", &format!("{papers} fusion={fusion}")],
        );
        let result = &value["result"];
        // Table 5.3 of the papers.
        assert_eq!(result["iterations"], 19);
        assert_eq!(result["model"]["fused"], fusion == "on");
        let stages = result["stages"].as_array().unwrap();
        for step in steps {
            let stage = stages.iter().find(|s| s["step"] == step).unwrap();
            assert_eq!(stage["calls"], 19, "{step}");
            assert!(stage["cost"]["words"].as_f64().unwrap() > 0.0);
        }
        for k in 0..2 {
            let sum: f64 = stages.iter().filter_map(|s| s["seconds"][k].as_f64()).sum();
            assert!(sum > 0.0 && sum <= result["total"][k].as_f64().unwrap());
            // The grids take less time than all steps. The last entry is for the levels below the grids, whose time is
            // part of the downward pass only.
            let grids = result["by_grid"].as_array().unwrap();
            let of = |way: usize| grids.iter().map(|g| g[way][k].as_f64().unwrap()).collect::<Vec<_>>();
            assert!(
                of(0).iter().all(|&s| s > 0.0) && of(1).iter().rposition(|&s| s > 0.0) == Some(grids.len() - 2),
                "{grids:?}"
            );
            assert!(of(0).iter().chain(&of(1)).sum::<f64>() < sum);
        }
        let rows: &[&str] =
            if fusion == "off" { &["axpy", "dotp", "matvec", "solver"] } else { &["descend", "ascend"] };
        assert!(rows.iter().all(|row| printed.contains(&format!("| {row}"))), "{printed}");
        // All steps of a solve have counts, so MB, GB/s and flops of the rest and of the total are positive. Without a
        // measured ceiling, the share is "-".
        for row in ["| rest: ", "| total "] {
            let line = printed.lines().find(|l| l.starts_with(row)).expect(row);
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let of = |k: usize| cells[k].parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            assert!([2, 3, 4, 5, 7].iter().all(|&k| of(k) > 0.0) && cells[6] == "-", "{line}");
        }
        assert!(!printed.contains("not counted"), "{printed}");
    }
}

/// Iteration counts equal table 5.3 of the papers, and condition numbers equal those of the golden tests.
#[test]
fn a_level_sweep_has_the_papers_counts() {
    let (_, value) = record("levels", &["levels", "poisson_f", "--sizes", "63,127", "--levels", "12", "-r", "1"]);
    let rows = value["result"]["rows"].as_array().unwrap();
    let counts: Vec<u64> = rows.iter().map(|r| r["iterations"].as_u64().unwrap()).collect();
    assert_eq!(counts, [13, 16]);
    for (row, kappa) in rows.iter().zip([4.330, 6.590]) {
        // The tolerance of 2 percent is that of the golden tests.
        assert!((row["kappa"].as_f64().unwrap() / kappa - 1.0).abs() < 0.02, "{row}");
        assert!(row["bound"].as_f64() > row["kappa"].as_f64());
    }
}

#[test]
fn implementations_agree_on_the_count() {
    let (printed, value) = record(
        "grids",
        &["grids", "poisson_f", "-n", "127", "--levels", "8", "--fused-levels", "8", "-g", "1,2,9", "-r", "1"],
    );
    let rows = value["result"]["rows"].as_array().unwrap();
    // Rows: S1, and S2, S3 and fused S3 with one and two grids. With 8 levels, nine grids are impossible.
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|r| r["iterations"] == 13), "{rows:?}");
    assert!(["Figures 5.3 and 5.4", "Figure 5.5", "Figure 5.6"].iter().all(|name| printed.contains(name)), "{printed}");
}

/// The table has one row per size and number of threads, and all times are positive.
#[test]
fn overhead_has_a_row_per_size_and_threads() {
    let (printed, value) = record("overhead", &["overhead", "poisson_f", "-n", "15,127", "-t", "1,2", "-r", "3"]);
    let rows = value["result"]["rows"].as_array().unwrap();
    let in_use: Vec<u64> = rows.iter().map(|r| r["in_use"].as_u64().unwrap()).collect();
    assert_eq!(in_use, [1, 1, 1, 2]);
    for row in rows {
        for kind in ["solve", "beside", "nothing", "rested", "nothing_rested"] {
            let samples = row[kind].as_array().unwrap();
            assert!(samples.len() == 3 && samples.iter().all(|s| s.as_f64().unwrap() > 0.0), "{row}");
        }
    }
    assert!(printed.contains("| 127 x 127 | 2 of 2"), "{printed}");
}

#[test]
fn a_bathymetry_is_a_problem() {
    let path = folder("bathymetry").join("bay.asc");
    let row = |j: usize| (0..40).map(|i| format!("{}", 5.0 - ((i + j) % 7) as f64)).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = (0..30).map(row).collect();
    std::fs::write(&path, format!("ncols 40\nnrows 30\ncellsize 4\n{}\n", rows.join("\n"))).unwrap();
    let (_, value) = record("bathymetry", &["solve", path.to_str().unwrap(), "-r", "1", "--no-stream"]);
    assert_eq!((&value["result"]["nx"], &value["result"]["ny"]), (&Value::from(40), &Value::from(30)));
    assert!(value["result"]["entries"][0]["residual"].as_f64().unwrap() <= 1e-6);
}

#[test]
fn all_measurements_of_the_papers_write_records() {
    let output = folder("paper");
    let waters = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/ship_waves/data");
    let swan = format!("{waters}/swan_river/swan_river_8m.asc.gz");
    let coos = format!("{waters}/coos_bay/coos_bay_10m.asc.gz");
    let grids = ["--bathymetry", &swan, "--bathymetry", &coos];
    let run = bench(&[&["paper", "-n", "127", "--output", output.to_str().unwrap(), "--quick"], &grids[..]].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(output.join(format!("{name}.json"))).expect(name);
        serde_json::from_str(&text).expect(name)
    };
    for name in ["table_5_1", "stages", "table_5_3", "levels", "grids", "solve", "march", "thesis"] {
        let value = read(name);
        assert!(value["result"].is_object() && value["machine"]["cores"].as_u64() > Some(0), "{name}");
    }
    let waves = read("march");
    let rows = waves["result"]["rows"].as_array().unwrap();
    for problem in ["poisson_f", "swan_river_8m", "coos_bay_10m"] {
        assert!(rows.iter().any(|row| row["problem"] == problem), "{problem}: {rows:?}");
    }
    // The tables of the slides and of the orders 0 to 5 are measured on a small box.
    for (name, methods) in [("slides_64", 3), ("slides_512", 3), ("orders", 6)] {
        let value = read(name);
        let rows = value["result"]["rows"].as_array().expect(name);
        assert_eq!(rows.len(), methods, "{name}");
        for row in rows {
            assert!(
                row["residual"].as_f64().unwrap() <= 1.001e-6 && row["vectors"].as_u64() > Some(0),
                "{name}: {row}"
            );
        }
    }
}

/// The evaluation of the thesis: every method and every format, with the reasons of refusals. memplus is not in this
/// repository.
#[test]
fn the_thesis_has_every_method_and_format() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/sparse/data");
    let line = ["thesis", "--data", data, "--elements", "3", "--entries", "3000", "--seconds", "0.2", "-r", "2"];
    let (printed, value) = record("thesis", &line);
    let result = &value["result"];
    let systems = result["systems"].as_array().unwrap();
    let names: Vec<&str> = systems.iter().map(|system| system["name"].as_str().unwrap()).collect();
    // By number of entries.
    assert_eq!(names, ["bcsstm22", "cavity_3", "circuit_3000", "e05r0000", "add32"]);
    let places = result["places"].as_array().unwrap().len();
    let solves = result["solves"].as_array().unwrap();
    assert_eq!(solves.len(), 5 * places * 15);
    let products = result["products"].as_array().unwrap();
    assert_eq!(products.len(), 5 * places * 12);
    let of = |system: &str, method: &str| {
        solves.iter().find(|row| row["system"] == system && row["method"] == method).unwrap().clone()
    };
    // Golden counts (tests/golden/sparse.csv).
    assert_eq!(of("bcsstm22", "jacobi")["iterations"], 1);
    assert_eq!(of("bcsstm22", "gauss_seidel, multicolour")["iterations"], 1);
    assert!(of("circuit_3000", "cg")["refused"].as_str().unwrap().contains("needs a symmetric matrix"));
    let refused = of("e05r0000", "jacobi")["refused"].as_str().unwrap().to_owned();
    assert!(
        refused.starts_with("row 8 has a missing or zero diagonal entry") && printed.contains(&refused),
        "{printed}"
    );
    assert!(printed.contains("Not measured: memplus: pass a folder with memplus.mtx"), "{printed}");
    for row in solves.iter().filter(|row| row["end"] == "converged") {
        assert!(row["residual"].as_f64().unwrap() <= 1e-6 && !row["solve"].as_array().unwrap().is_empty(), "{row}");
        assert!(row["factorize"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(printed.matches("1 thread, setup ms").count(), systems.len(), "{printed}");
    let rows_of = |format: &str| products.iter().filter(|row| row["format"] == format).collect::<Vec<_>>();
    assert!(!rows_of("diagonal").is_empty() && !rows_of("dia").is_empty(), "{printed}");
    for row in rows_of("diagonal") {
        // All entries of bcsstm22 are on its diagonal.
        let refused = row["refused"].as_str();
        assert_eq!(refused.is_none(), row["system"] == "bcsstm22", "{row}");
        assert!(refused.is_none_or(|reason| printed.contains(reason)), "{printed}");
    }
    assert!(rows_of("dia").iter().all(|row| row["refused"].is_null()), "{printed}");
    let charts = result["charts"].as_array().unwrap();
    let figures: Vec<&str> = charts.iter().map(|chart| chart["name"].as_str().unwrap()).collect();
    let expected = ["8_1", "8_2", "8_3", "8_4", "8_5", "8_6a", "8_6b", "8_7"].map(|n| format!("thesis_figure_{n}"));
    assert_eq!(figures, [&expected[..], &["thesis_break_even".to_owned()]].concat());
    // One circuit of about 1000 entries, since the next one would be larger than that of the command line.
    let sizes = result["sizes"].as_array().unwrap();
    assert!(sizes.len() == 1 && sizes[0]["entries"].as_u64().unwrap().abs_diff(1000) < 20, "{sizes:?}");
    assert_eq!(sizes[0]["totals"].as_array().unwrap().len(), places);
    assert_eq!(printed.matches("Break-even size, ").count(), places * (places - 1) / 2, "{printed}");
}

/// Rows of another program follow those of the library.
#[test]
fn another_programs_products_are_compared() {
    let line = ["sparse", "stencil27_4", "-f", "csr", "-r", "1", "--no-stream", "--peer", "other=echo product,csr,0.5"];
    let (printed, value) = record("sparse_peer", &line);
    let result = &value["result"];
    // (3 n - 2)^3 entries.
    assert_eq!([&result["rows"], &result["entries"]], [64, 1000]);
    assert_eq!(result["products"][0]["format"], "csr");
    assert_eq!(result["products"][1]["format"], "other, csr");
    assert!(printed.contains("| other, csr | 500 "), "{printed}");
}

/// Without a device, one line states that there are no rates.
#[test]
fn transfer_rates_need_a_device() {
    let (printed, value) = record("transfer", &["transfer", "--megabytes", "1"]);
    let rates = value["bandwidth"].as_array().unwrap();
    if rates.is_empty() {
        assert_eq!(printed, "There is no CUDA device, so no transfer rates.\n");
        return;
    }
    let kernels: Vec<&str> = rates.iter().map(|rate| rate["kernel"].as_str().unwrap()).collect();
    assert_eq!(
        kernels,
        ["pageable host to device", "device to pageable host", "pinned host to device", "device to pinned host"]
    );
    assert!(rates.iter().all(|rate| rate["median"].as_f64().unwrap() > 0.0), "{printed}");
}

#[test]
fn errors_cause_messages() {
    for (arguments, words) in [
        (&["solve", "no_such_problem"][..], "no problem is called no_such_problem"),
        (&["solve", "poisson_f", "-n", "15", "--no-stream", "--options", "levels=none"], "levels"),
        (&["solve", "missing.asc"], "cannot read missing.asc"),
        (&["two-phase", "9;asp=5"], "unknown geometry 9;asp=5"),
        (&["solve", "poisson_f", "-n", "15", "--no-stream", "--peer", "other=false"], "nine fields"),
        (&["solve", "fe_mass", "-n", "15", "--baseline", "ic", "--no-stream"], "5-point"),
        (&["page", "no_such_page.md"], "cannot read no_such_page.md"),
    ] {
        let run = bench(arguments);
        let message = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && message.contains(words), "{arguments:?}: {message}");
    }
}

/// Systems come in the order of the suite, then the easy ones, then coasts; `--folder` reads the files of `--write`.
#[test]
fn a_suite_has_every_system() {
    let coast = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/swan_river.asc.gz");
    let files = folder("suite");
    let left = files.to_str().unwrap();
    let run = bench(&["suite", "-n", "40", "--coast", coast, "--write", left]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let (printed, value) = record("suite_of_files", &["suite", "--folder", left, "-r", "1", "--all"]);
    let systems = value["result"]["systems"].as_array().unwrap();
    let names: Vec<&str> = systems.iter().map(|system| system["problem"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 20, "{names:?}");
    assert_eq!((names[0], names[4], names[15]), ("poisson", "stretched", "neumann_logn"));
    assert_eq!(names[16..], ["P1", "P2", "discs", "swan_river"]);
    for system in systems {
        let entries = system["entries"].as_array().unwrap();
        // Solvers: default options, aggregation, only levels; v, amli, k; MIC(0).
        assert_eq!(entries.len(), 7, "{}", system["problem"]);
        for entry in &entries[..2] {
            assert!(entry["converged"].as_bool().unwrap(), "{}: {entry}", system["problem"]);
            assert!(entry["residual"].as_f64().unwrap() <= 1e-6 && entry["iterations"].as_u64() <= Some(100));
        }
    }
    assert!(printed.contains("| swan_river, 620 x 420 |") && printed.contains("| in-house MIC(0)-CG |"), "{printed}");
}

/// Runs the compiled hypre driver, or reports what is missing.
#[test]
fn hypre_runs_if_it_is_found() {
    let line = ["suite", "-n", "24", "--peer", "hypre", "-o", "", "-r", "1"];
    let path = folder("hypre").join("record.json");
    let run = bench(&[&line[..], &["--json", path.to_str().unwrap()]].concat());
    if !run.status.success() {
        let message = String::from_utf8_lossy(&run.stderr);
        assert!(message.contains("install libhypre-dev") && message.contains("HYPRE_DIR"), "{message}");
        return;
    }
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for system in value["result"]["systems"].as_array().unwrap() {
        let entries = system["entries"].as_array().unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names[2..], ["hypre PFMG-PCG", "hypre BoomerAMG-PCG"]);
        let multigrid = &entries[3];
        assert!(multigrid["converged"] == true && multigrid["threads"] == 2, "{}: {multigrid}", system["problem"]);
    }
}

#[test]
fn missing_hypre_causes_an_error() {
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_rrbsolver-bench"))
        .args(["suite", "-n", "24", "--peer", "hypre"])
        .env("PATH", "")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && message.contains("install libhypre-dev"), "{message}");
}
