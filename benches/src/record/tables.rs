//! Tables for readers.

use crate::cost::Cost;
use crate::distributed::{Ranks, RanksRow, Scaling};
use crate::march::March;
use crate::overhead::{Overhead, REST};
use crate::smoother::Chart;
use crate::sparse::General;
use crate::stages::{Breakdown, LOOP, Stage};
use crate::sweeps::{GridRow, GridSweep, LevelSweep};
use crate::timing::{Samples, digits};
use crate::two_phase::Pressure;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Formats a figure as a table: one row per value of x.
pub fn chart(chart: &Chart) -> String {
    let mut xs: Vec<f64> = chart.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut head = vec![chart.x.as_str()];
    head.extend(chart.curves.iter().map(|c| c.name.as_str()));
    // Factors and small residuals need their digits.
    let number = |v: f64| if v < 1.0 { format!("{v:.5}") } else { digits(v) };
    let rows: Vec<Vec<String>> = xs
        .iter()
        .map(|&x| {
            let place = chart.places.get(x as usize).cloned().unwrap_or_else(|| x.to_string());
            let value =
                |c: &crate::smoother::Curve| c.points.iter().find(|p| p.0 == x).map_or("-".to_owned(), |p| number(p.1));
            std::iter::once(place).chain(chart.curves.iter().map(value)).collect()
        })
        .collect();
    format!("{} [{}]:\n\n{}", chart.title, chart.y, table(&head, &rows))
}

/// Formats one line per grid and solver.
pub fn march(run: &March) -> String {
    let head = [
        "problem",
        "grid",
        "solver",
        "steps",
        "average ms",
        "of that copies",
        "iterations (most)",
        "factorize ms",
        "residual",
    ];
    let rows: Vec<Vec<String>> = run
        .rows
        .iter()
        .map(|r| {
            vec![
                r.problem.clone(),
                format!("{} x {}", r.nx, r.ny),
                r.solver.clone(),
                r.steps.to_string(),
                digits(1e3 * r.mean),
                if r.transfer > 0.0 { digits(1e3 * r.transfer) } else { "-".to_owned() },
                format!("{:.1} ({})", r.iterations, r.most_iterations),
                digits(1e3 * r.factorize),
                format!("{:.1e}", r.residual),
            ]
        })
        .collect();
    let charts: Vec<String> = run.charts.iter().map(chart).collect();
    format!("{}\n{}", table(&head, &rows), charts.join("\n"))
}

/// Formats one line per solver.
pub fn pressure(run: &Pressure) -> String {
    let head = ["solver", "place", "vectors", "iterations", "residual", "factorize ms", "solve ms", "ms per iteration"];
    let rows: Vec<Vec<String>> = run
        .rows
        .iter()
        .map(|r| {
            vec![
                r.solver.clone(),
                r.device.map_or_else(|| format!("{} threads", r.threads), |ordinal| format!("device {ordinal}")),
                r.vectors.to_string(),
                if r.converged { r.iterations.to_string() } else { format!("{} (not converged)", r.iterations) },
                format!("{:.1e}", r.residual),
                r.factorize.milliseconds(),
                r.solve.milliseconds(),
                digits(1e3 * r.solve.median() / r.iterations.max(1) as f64),
            ]
        })
        .collect();
    let [nx, ny, nz] = run.size;
    let system = format!("{}, {nx} x {ny} x {nz}, contrast {:e}, right-hand side {}", run.set, run.contrast, run.rhs);
    format!("{system}:\n\n{}", table(&head, &rows))
}

/// Formats products and solves: one line per format, and one per solve. `copy`: bandwidth of copies on the device that
/// computed the products, if it was measured.
pub fn general(run: &General, copy: Option<f64>) -> String {
    let entries = run.entries as f64;
    let on_device = run.products.iter().any(|p| p.queued.is_some());
    let products: Vec<Vec<String>> = run
        .products
        .iter()
        .map(|p| {
            let seconds = p.product.median();
            let (bytes, queued) = (p.bytes.unwrap_or(f64::NAN), p.queued.as_ref().map_or(f64::NAN, Samples::median));
            let gigabytes = 1e-9 * bytes * entries;
            let mut row = vec![p.format.clone(), p.product.milliseconds()];
            row.extend([1e9 * seconds / entries, bytes, gigabytes / seconds].map(digits));
            if on_device {
                row.extend([1e3 * queued, 1e9 * queued / entries].map(digits));
                let share = copy.filter(|_| p.bytes.is_some()).map(|copy| 100.0 * gigabytes / queued / copy);
                row.push(share.map_or("-".to_owned(), |share| format!("{share:.0} %")));
            }
            row
        })
        .collect();
    let solves: Vec<Vec<String>> = run
        .solves
        .iter()
        .map(|s| {
            let total = s.factorize.median() + s.solve.median();
            vec![
                if s.options.is_empty() { "defaults".to_owned() } else { s.options.clone() },
                s.method.clone(),
                if s.converged { s.iterations.to_string() } else { format!("{} (not converged)", s.iterations) },
                format!("{:.1e}", s.residual),
                s.factorize.milliseconds(),
                s.solve.milliseconds(),
                digits(1e3 * total),
                s.set_values.milliseconds(),
                s.factorize_again.milliseconds(),
                s.create.milliseconds(),
            ]
        })
        .collect();
    let mut head = vec!["format", "product ms", "ns per entry", "bytes per entry", "GB/s"];
    if on_device {
        head.extend(["queued ms", "queued ns per entry", "of the copy rate"]);
    }
    let of_products = table(&head, &products);
    let head = [
        "solver",
        "method",
        "iterations",
        "residual",
        "factorize ms",
        "solve ms",
        "both ms",
        "set_values ms",
        "factorize again ms",
        "create ms",
    ];
    let system = format!("{}, {} rows, {} entries", run.name, run.rows, run.entries);
    format!("{system}:\n\n{of_products}\n{}", table(&head, &solves))
}

/// Formats a table whose columns are also aligned in plain text.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width =
        |k: usize| rows.iter().map(|r| r[k].chars().count()).chain([head[k].chars().count(), 3]).max().unwrap_or(3);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(c, w)| format!("{c}{}", " ".repeat(w - c.chars().count()))).collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let mut text = line(&head.iter().map(|&h| h.to_owned()).collect::<Vec<_>>());
    let _ = writeln!(text, "|-{}-|", rules.join("-|-"));
    rows.iter().for_each(|row| text += &line(row));
    text
}

/// Table 5.2 of the papers: time of the levels by grid. Fused stages of the first grid include work of CG.
pub fn by_grid(b: &Breakdown) -> String {
    let median = |way: usize| b.by_grid.iter().map(|g| g[way].median()).collect::<Vec<f64>>();
    let (down, up) = (median(0), median(1));
    let of = |seconds: &[f64], q: usize| {
        let total: f64 = seconds.iter().sum();
        [digits(1e3 * seconds[q]), digits(100.0 * seconds[q] / total)]
    };
    let (mut nx, mut ny) = (b.nx, b.ny);
    // Small grids of a device share a kernel with the coarsest system.
    let shared = (0..b.grids).find(|&q| down[q] == 0.0).unwrap_or(b.grids);
    let rows: Vec<Vec<String>> = (0..b.by_grid.len())
        .filter(|&q| q < shared || q == b.grids)
        .map(|q| {
            let name = if q == b.grids {
                let deeper = if b.model.levels > 2 * shared { "deeper levels and " } else { "" };
                format!("{deeper}coarsest system")
            } else {
                format!("{}: levels {} and {}", q + 1, 2 * q + 1, 2 * q + 2)
            };
            let name = [name, format!("{nx} x {ny}")];
            (nx, ny) = (nx.max(2) / 2, ny.max(2) / 2);
            name.into_iter().chain(of(&down, q)).chain(of(&up, q)).collect()
        })
        .collect();
    table(&["grid", "nodes", "down ms", "%", "up ms", "%"], &rows)
}

/// Returns the median seconds of all calls.
pub fn seconds(stages: &[&Stage]) -> f64 {
    stages.iter().map(|s| s.seconds.median()).sum()
}

/// Returns the cost of all calls per black node; none if one stage is not counted.
pub fn cost(stages: &[&Stage]) -> Option<Cost> {
    stages.iter().try_fold(Cost { words: 0.0, flops: 0.0 }, |sum, s| {
        let (calls, cost) = (s.calls as f64, s.cost?);
        Some(Cost { words: sum.words + calls * cost.words, flops: sum.flops + calls * cost.flops })
    })
}

/// Returns the seconds of a solve outside its steps, from each solve; none if a step is missing in some solve.
pub fn outside_steps(b: &Breakdown) -> Option<f64> {
    let solves = b.total.all().len();
    if solves == 0 || b.stages.iter().any(|s| s.seconds.all().len() != solves) {
        return None;
    }
    let steps = |k: usize| b.stages.iter().map(|s| s.seconds.all()[k]).sum::<f64>();
    Some(Samples::new(b.total.all().iter().enumerate().map(|(k, total)| total - steps(k)).collect()).median())
}

/// Returns the calls of the stages in one row. Calls at a start are added; alternating steps count once.
pub fn calls(stages: &[&Stage]) -> usize {
    let starts: usize = stages.iter().filter(|s| s.step.ends_with("_at_start")).map(|s| s.calls).sum();
    starts + stages.iter().filter(|s| !s.step.ends_with("_at_start")).map(|s| s.calls).max().unwrap_or(0)
}

/// Steps that read or write the caller's arrays.
pub const ARRAYS: &[&str] = &["inspect", "load", "load_rhs", "store"];

/// Rows of table 5.1 of the papers, and of the fused stages. The papers' two `dotp` per iteration are parts of the rows
/// matvec and solver here; the row dotp is r'r.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("memcpy: caller's arrays", ARRAYS),
    ("axpy: x, r, p", &["advance_solution", "advance_residual", "next_direction"]),
    ("dotp: r'r", &["residual_norm2"]),
    ("matvec: q = S1 p, p'q", &["multiply"]),
    ("solver: z = M^-1 r, r'z", &["precondition"]),
    ("descend: r, levels downwards, r'r", &["descend", "descend_at_start"]),
    ("ascend: levels upwards, x, p, q, p'q", &["ascend", "ascend_at_start"]),
    ("loop on the device: all iterations, and its end", &[LOOP]),
];

pub fn spread(ratio: &Samples) -> String {
    let all = ratio.all();
    if all.is_empty() {
        return "-".to_owned();
    }
    if all.iter().all(|&r| r == 1.0) {
        return "1".to_owned();
    }
    if all.len() < 2 {
        return digits(ratio.median());
    }
    format!("{} ({} .. {})", digits(ratio.median()), digits(ratio.least()), digits(ratio.most()))
}

pub fn levels(sweep: &LevelSweep) -> String {
    let rows: Vec<Vec<String>> = sweep
        .rows
        .iter()
        .map(|r| {
            vec![
                format!("{0} x {0}", r.n),
                r.levels.to_string(),
                r.iterations.to_string(),
                if r.kappa > 0.0 { digits(r.kappa) } else { "-".to_owned() },
                digits(r.bound),
                r.timed.setup.milliseconds(),
                r.timed.solve.milliseconds(),
                r.timed.copies.as_ref().map_or("-".to_owned(), Samples::milliseconds),
            ]
        })
        .collect();
    let mut head = vec!["nodes", "levels", "iterations", "kappa", "Notay's bound", "setup ms", "solve ms"];
    head.push(COPIES);
    let rows = only_where(&mut head, rows, sweep.rows.iter().any(|r| r.timed.copies.is_some()));
    format!("{}, {}:\n\n{}", sweep.problem, sweep.options, table(&head, &rows))
}

/// Figures 5.3 and 5.4 by levels and grids, with S1 at g = 0; figures 5.5 and 5.6 by levels, with one column per g.
pub fn grids(sweep: &GridSweep) -> String {
    let find = |implementation: &str, levels: usize, grids: usize| {
        sweep.rows.iter().find(|r| (r.implementation.as_str(), r.levels, r.grids) == (implementation, levels, grids))
    };
    let natural = |levels: usize| find("S1", levels, 0).map(|r| r.timed.solve.median());
    let ms = |samples: &Samples| digits(1e3 * samples.median());
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let different = |of: &dyn Fn(&GridRow) -> Option<usize>| -> Vec<usize> {
        sweep.rows.iter().filter_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
    };
    let iterations = |of: &dyn Fn(&GridRow) -> bool| -> String {
        let all: Vec<String> = different(&|r| of(r).then_some(r.iterations)).iter().map(usize::to_string).collect();
        all.join(", ")
    };
    let ran = |name: &&str| sweep.rows.iter().any(|r| r.implementation == *name);
    let compared: Vec<&str> = ["S1", "S2", "S3", "S3 fused", "S4", "S4 fused"].into_iter().filter(ran).collect();
    let threads: Vec<String> = compared
        .iter()
        .filter(|name| !name.starts_with("S4"))
        .filter_map(|name| sweep.rows.iter().find(|r| r.implementation == *name))
        .map(|r| format!("{} {}", r.implementation, r.threads))
        .collect();
    let repeats = sweep.rows.iter().map(|r| r.timed.solve.all().len()).max().unwrap_or(0);
    let widest = |of: fn(&GridRow) -> &Samples| {
        let spread = sweep.rows.iter().map(of).map(|s| s.most() / s.least()).fold(f64::NAN, f64::max);
        digits(spread)
    };
    let mut text =
        format!("{0}, {1} x {1}, {2}; threads: {3}. ", sweep.problem, sweep.n, sweep.options, threads.join(", "));
    let _ = writeln!(
        text,
        "Medians of {repeats}, ms; the most is up to {} (solve) and {} (setup) times the least.",
        widest(|r| &r.timed.solve),
        widest(|r| &r.timed.setup)
    );

    let levels_all = different(&|r| natural(r.levels).map(|_| r.levels));
    if !levels_all.is_empty() {
        // The implementations other than S1, which are compared with S1.
        let others: Vec<&str> = compared.iter().filter(|name| **name != "S1").copied().collect();
        let mut head: Vec<String> = ["levels", "g", "iterations"].map(str::to_owned).to_vec();
        head.extend(compared.iter().map(|name| format!("{name}, solve")));
        head.extend(others.iter().map(|name| format!("S1 / {name}")));
        head.extend(compared.iter().map(|name| format!("{name}, setup")));
        let mut rows = Vec::new();
        for &levels in &levels_all {
            for g in different(&|r| (r.levels == levels).then_some(r.grids)) {
                let at = |name: &&str| find(name, levels, g);
                let faster = |r: &GridRow| natural(levels).map(|s1| digits(s1 / r.timed.solve.median()));
                let mut row =
                    vec![levels.to_string(), g.to_string(), iterations(&|r| (r.levels, r.grids) == (levels, g))];
                row.extend(compared.iter().map(|name| or_none(at(name).map(|r| ms(&r.timed.solve)))));
                row.extend(others.iter().map(|name| or_none(at(name).and_then(faster))));
                row.extend(compared.iter().map(|name| or_none(at(name).map(|r| ms(&r.timed.setup)))));
                rows.push(row);
            }
        }
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let _ = write!(text, "\nFigures 5.3 and 5.4, implementations (S1: g = 0):\n\n{}", table(&head, &rows));
    }

    let levels_fused = different(&|r| r.implementation.ends_with(" fused").then_some(r.levels));
    for (title, value) in [
        ("Figure 5.5, setup, fused S3 with g grids", (|r| &r.timed.setup) as fn(&GridRow) -> &Samples),
        ("Figure 5.6, solve, fused S3 with g grids", |r| &r.timed.solve),
    ] {
        let grids = different(&|r| (r.implementation == "S3 fused").then_some(r.grids));
        let mut head: Vec<String> = ["levels", "iterations"].map(str::to_owned).to_vec();
        head.extend(grids.iter().map(|g| format!("g = {g}")));
        let device = compared.contains(&"S4 fused");
        head.extend(device.then(|| "S4".to_owned()));
        let rows: Vec<Vec<String>> = levels_fused
            .iter()
            .map(|&levels| {
                let mut row = vec![
                    levels.to_string(),
                    iterations(&|r| r.levels == levels && r.implementation.ends_with(" fused")),
                ];
                row.extend(grids.iter().map(|&g| or_none(find("S3 fused", levels, g).map(|r| ms(value(r))))));
                row.extend(device.then(|| or_none(find("S4 fused", levels, levels / 2).map(|r| ms(value(r))))));
                row
            })
            .collect();
        if !rows.is_empty() {
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let _ = write!(text, "\n{title}:\n\n{}", table(&head, &rows));
        }
    }
    let copies: Vec<f64> = sweep.rows.iter().filter_map(|r| Some(r.timed.copies.as_ref()?.median())).collect();
    if !copies.is_empty() {
        let _ = writeln!(text, "\n{COPIES} of a solve on the device: {}.", digits(1e3 * Samples::new(copies).median()));
    }
    text
}

/// On a device, setup and solve use arrays on the device. For arrays on the host, these copies are added to a solve.
pub const COPIES: &str = "copies of host arrays ms";

/// Drops the last column of a table if it has no information.
pub fn only_where(head: &mut Vec<&str>, mut rows: Vec<Vec<String>>, keep: bool) -> Vec<Vec<String>> {
    if !keep {
        head.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    rows
}

pub fn overhead_table(overhead: &Overhead) -> String {
    let us = |s: f64| digits(1e6 * s);
    let rows: Vec<Vec<String>> = overhead
        .rows
        .iter()
        .map(|r| {
            vec![
                format!("{0} x {0}", r.n),
                format!("{} of {}", r.in_use, r.threads),
                r.iterations.to_string(),
                us(r.solve.median()),
                us(r.beside.median()),
                us(r.nothing.median()),
                us(r.rested.median()),
                us(r.nothing_rested.median()),
            ]
        })
        .collect();
    let rest = REST.as_millis();
    let head = [
        "nodes",
        "threads",
        "iterations",
        "solve",
        "beside steps",
        "b = 0",
        &format!("solve after {rest} ms"),
        &format!("b = 0 after {rest} ms"),
    ];
    let options = if overhead.options.is_empty() { "defaults" } else { &overhead.options };
    format!("{}, {options}, microseconds:\n\n", overhead.problem) + &table(&head, &rows)
}

/// Efficiency is relative to the row with the fewest ranks of the same size.
pub fn ranks(run: &Ranks) -> String {
    let of = |row: &RanksRow| {
        let same = |other: &&RanksRow| (other.scaling, other.nx) == (row.scaling, row.nx);
        let first = run.rows.iter().find(same).unwrap_or(row);
        let time = |row: &RanksRow| row.solve.median() / row.iterations.max(1) as f64;
        let gain = time(first) / time(row);
        let scaling = match row.scaling {
            Scaling::Weak => format!("{:.0} %", 100.0 * gain),
            Scaling::Strong => format!("{gain:.2} x"),
        };
        vec![
            if row.scaling == Scaling::Weak { "weak" } else { "strong" }.to_owned(),
            format!("{} x {}", row.nx, row.ny),
            row.ranks.to_string(),
            row.iterations.to_string(),
            row.factorize.milliseconds(),
            row.solve.milliseconds(),
            scaling,
            format!("{:.1}", row.messages),
            digits(1e-3 * row.bytes),
        ]
    };
    let rows: Vec<Vec<String>> = run.rows.iter().map(of).collect();
    let head = [
        "",
        "points",
        "ranks",
        "iterations",
        "factorize, ms",
        "solve, ms",
        "per iteration",
        "messages per iteration",
        "kB per iteration",
    ];
    let options = if run.options.is_empty() { "defaults" } else { &run.options };
    let rows_differ = if run.varied { ", all rows differ" } else { "" };
    format!("Poisson{rows_differ}, {options}; one thread or device per rank; bitwise identical to one grid:\n\n")
        + &table(&head, &rows)
}
