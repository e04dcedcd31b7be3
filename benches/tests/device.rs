//! Tests the measurements on a device with tiny grids.

mod common;
#[path = "../../tests/common/device.rs"]
mod device;

use common::{bench, folder, record};
use serde_json::Value;

/// With `fusion=off`, each step of PCG is measured; otherwise the loop on the device is one step. Both need the same
/// number of iterations, and copies have a row of their own.
fn stages_on_a_device() {
    let papers = "backend=cuda norm=preconditioned reference=initial levels=12 precision=f64 cycle=v";
    for (fusion, steps) in [("off", vec!["precondition", "multiply", "advance_solution"]), ("on", vec!["loop"])] {
        let name = format!("stages_device_{fusion}");
        let options = format!("{papers} fusion={fusion}");
        let (printed, value) =
            record(&name, &["stages", "poisson_f", "-n", "63", "--stream-megabytes", "1", "-r", "2", "-o", &options]);
        let result = &value["result"];
        // Table 5.3 of the papers.
        assert_eq!((&result["iterations"], &result["device"]), (&Value::from(13), &Value::from(0)));
        let stages = result["stages"].as_array().unwrap();
        for step in steps {
            let stage = stages.iter().find(|s| s["step"] == step).unwrap();
            // M^-1 r is also computed twice before the loop, for the norm and for the first direction, and possibly at
            // the end, for the norm of a restart.
            let calls = stage["calls"].as_u64().unwrap();
            assert!(if step == "precondition" { (15..=16).contains(&calls) } else { calls == 13 }, "{step}: {calls}");
            assert!(stage["cost"]["words"].as_f64().unwrap() > 0.0);
        }
        for k in 0..2 {
            let sum: f64 = stages.iter().filter_map(|s| s["seconds"][k].as_f64()).sum();
            assert!(sum > 0.0 && sum <= result["total"][k].as_f64().unwrap());
            assert!(result["transfer"][k].as_f64().unwrap() > 0.0);
        }
        assert!(value["bandwidth"][0]["kernel"] == "device copy" && printed.contains("of copy"), "{printed}");
        let rows: &[&str] = if fusion == "off" { &["axpy", "dotp", "matvec", "solver"] } else { &["loop"] };
        // Table 5.2.
        assert_eq!(result["by_grid"].as_array().unwrap().is_empty(), fusion == "on");
        assert_eq!(printed.contains("1: levels 1 and 2"), fusion == "off", "{printed}");
        assert!(rows.iter().chain(&["transfers"]).all(|row| printed.contains(&format!("| {row}"))), "{printed}");
    }
}

/// Measures tables 5.1 and 5.3, figures 5.3 to 5.6 and the table of the slides on the device.
fn the_papers_measurements_on_a_device() {
    let output = folder("paper_device");
    // Another test covers the measurements on the CPU.
    let only = "table_5_1_device,stages_device,table_5_3_device,levels_device,grids,march,orders_device";
    let run = bench(&["paper", "-n", "63", "--output", output.to_str().unwrap(), "--quick", "--only", only]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(output.join(format!("{name}.json"))).expect(name)).expect(name)
    };
    for name in ["table_5_1_device", "stages_device"] {
        assert_eq!(read(name)["result"]["device"], 0, "{name}");
    }
    let orders = read("orders_device");
    assert!(orders["result"]["rows"].as_array().unwrap().iter().all(|r| r["device"] == 0 && r["converged"] == true));
    let rows = |name: &str| read(name)["result"]["rows"].as_array().unwrap().clone();
    for name in ["table_5_3_device", "levels_device"] {
        assert!(rows(name).iter().all(|r| r["copies"].is_array()), "{name}");
    }
    assert_eq!(rows("table_5_3_device")[0]["iterations"], 13);
    let grids = rows("grids");
    let on_device: Vec<&Value> = grids.iter().filter(|r| r["copies"].is_array()).collect();
    assert!(on_device.iter().any(|r| r["implementation"] == "S4"));
    assert!(on_device.iter().any(|r| r["implementation"] == "S4 fused"));
    for row in on_device {
        let natural = grids.iter().find(|r| r["implementation"] == "S1" && r["levels"] == row["levels"]);
        assert!(natural.is_none_or(|r| r["iterations"] == row["iterations"]), "{row}");
    }
    assert!(rows("march").iter().any(|r| r["solver"].as_str().unwrap().ends_with("backend=cuda, resident")));
}

/// Every method and every format of the thesis with arrays on the host and on the device, or the reason of a refusal.
fn the_thesis_on_a_device() {
    let line = ["thesis", "--elements", "3", "--entries", "1000", "--seconds", "1", "-r", "1"];
    let (printed, value) = record("thesis_device", &line);
    let result = &value["result"];
    assert!(value["machine"]["device"].is_string() && printed.contains("; device: "), "{printed}");
    let of = |list: &str| -> Vec<Value> {
        result[list].as_array().unwrap().iter().filter(|row| row["place"] == "device").cloned().collect()
    };
    let (products, solves) = (of("products"), of("solves"));
    assert_eq!([products.len(), solves.len()], [2 * 12, 2 * 15]);
    for row in &products {
        assert!(row["refused"].is_string() != row["resident"].is_array(), "{row}");
    }
    for format in ["csr", "sell", "ell", "bsr"] {
        assert!(products.iter().any(|row| row["format"] == format && row["resident"].is_array()), "{format}");
    }
    let skyline = products.iter().find(|row| row["format"] == "skyline").unwrap();
    assert!(skyline["refused"].as_str().unwrap().contains("sell"), "{skyline}");
    for row in &solves {
        assert!((row["end"] == "converged") == row["resident"].is_array(), "{row}");
    }
    // The cavity has zeros on its diagonal.
    let on_circuit = |method: &str| {
        solves.iter().find(|row| row["method"] == method && row["system"] == "circuit_1000").unwrap().clone()
    };
    let natural = on_circuit("gauss_seidel");
    assert!(natural["refused"].as_str().unwrap().contains("ordering=multicolour"), "{natural}");
    for method in ["jacobi", "sor, multicolour", "bicg", "bicgstab", "gmres", "idr", "defaults"] {
        assert!(on_circuit(method)["refused"].is_null(), "{method}");
    }
    let converged: Vec<&Value> = solves.iter().filter(|row| row["end"] == "converged").collect();
    assert!(!converged.is_empty() && converged.iter().all(|row| row["transfer"].as_f64().unwrap() > 0.0), "{printed}");
    assert!(printed.contains("Break-even size, device relative to 1 thread: "), "{printed}");
    let curves = result["charts"].as_array().unwrap().iter().flat_map(|chart| chart["curves"].as_array().unwrap());
    assert!(curves.filter(|curve| curve["name"] == "device, with transfers").count() > 2);
}

/// Products alone and behind a copy, with those of another program.
fn products_on_a_device() {
    let line = ["sparse", "poisson3d_6", "--device", "0", "-f", "dia,csr", "-r", "1", "--stream-megabytes", "1"];
    let options = ["--options", "backend=cuda solver=cg preconditioner=none", "--peer", "other=echo product,csr,0.5"];
    let (printed, value) = record("products_device", &[&line[..], &options].concat());
    let products = value["result"]["products"].as_array().unwrap();
    for row in &products[..2] {
        assert_eq!([&row["product"], &row["queued"]].map(|times| times.as_array().unwrap().len()), [10, 10], "{row}");
    }
    assert_eq!(products[2]["queued"][0], 0.5);
    assert!(printed.contains("of the copy rate") && printed.contains("| other, csr | - "), "{printed}");
}

device::device_tests! { rrbsolver_benches::device::count() as i32;
    stages_on_a_device
    the_papers_measurements_on_a_device
    the_thesis_on_a_device
    products_on_a_device
}
