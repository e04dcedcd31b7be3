//! What a run of the program leaves: JSON for programs, tables for people, both from the same record.

use crate::contest::Contest;
use crate::cost::Cost;
use crate::device::DEVICE_COPY;
use crate::machine::Machine;
use crate::march::March;
use crate::overhead::{Overhead, REST};
use crate::smoother::{Chart, SmootherStudy};
use crate::stages::{Breakdown, LOOP, Stage};
use crate::stream::{Bandwidth, ceiling};
use crate::sweeps::{GridRow, GridSweep, LevelSweep};
use crate::timing::{Samples, digits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Arguments that give it again.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// Ceilings measured in the same run; empty where they were not asked for.
    pub bandwidth: Vec<Bandwidth>,
    /// What was measured.
    #[serde(flatten)]
    pub study: Study,
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "study", content = "result", rename_all = "snake_case")]
pub enum Study {
    /// Bandwidth alone.
    Stream,
    /// Solvers in turn.
    Solve(Contest),
    /// A solve, step by step.
    Stages(Breakdown),
    /// Levels.
    Levels(LevelSweep),
    /// Grids.
    Grids(GridSweep),
    /// Beside the steps.
    Overhead(Overhead),
    /// Block smoothers.
    Smoother(SmootherStudy),
    /// Time steps.
    March(March),
}

/// A figure as a table: a row for each place on the x axis.
fn chart(chart: &Chart) -> String {
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

/// A line for each grid and solver.
fn march(run: &March) -> String {
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

/// A table whose columns stand below one another in a terminal too.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
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

impl Record {
    /// From a file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is no record of rrbsolver-bench: {error}", path.display()))
    }

    /// To a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| format!("cannot write a record: {error}"))?;
        text.push('\n');
        let part = path.with_extension("part");
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// GB/s of the triad from memory with so many threads.
    fn ceiling(&self, threads: usize) -> Option<f64> {
        ceiling(&self.bandwidth, threads)
    }

    /// For people: Markdown that reads well as it stands.
    pub fn text(&self) -> String {
        let mut text = match &self.study {
            Study::Stream => String::new(),
            Study::Solve(contest) => self.contest(contest),
            Study::Stages(breakdown) => self.breakdown(breakdown),
            Study::Levels(sweep) => levels(sweep),
            Study::Grids(sweep) => grids(sweep),
            Study::Overhead(overhead) => beside_steps(overhead),
            Study::Smoother(study) => study.charts.iter().map(chart).collect::<Vec<_>>().join("\n"),
            Study::March(run) => march(run),
        };
        if matches!(self.study, Study::Stream) {
            text += &self.ceilings();
        } else if !self.bandwidth.is_empty() {
            text += &self.ceilings_in_a_line();
        }
        text
    }

    fn ceilings_in_a_line(&self) -> String {
        let parts: Vec<String> = self
            .bandwidth
            .iter()
            .map(|b| {
                let threads = match b.threads {
                    0 => String::new(),
                    1 => "1 thread, ".to_owned(),
                    several => format!("{several} threads, "),
                };
                format!("{} {} ({threads}{} MB)", b.kernel, digits(b.median), digits(b.megabytes))
            })
            .collect();
        format!("\nBandwidth in the same run, GB/s: {}.\n", parts.join(", "))
    }

    fn ceilings(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .bandwidth
            .iter()
            .map(|b| {
                vec![b.kernel.clone(), b.threads.to_string(), digits(b.megabytes), digits(b.median), digits(b.best)]
            })
            .collect();
        table(&["bandwidth", "threads", "MB", "GB/s, median", "best"], &rows)
    }

    fn share(&self, gigabytes_per_second: f64, threads: usize) -> String {
        self.ceiling(threads).map_or("-".to_owned(), |c| format!("{:.0} %", 100.0 * gigabytes_per_second / c))
    }

    /// The same of the copy on a device.
    fn share_of_copy(&self, gigabytes_per_second: f64) -> String {
        let copy = self.bandwidth.iter().find(|b| b.kernel == DEVICE_COPY);
        copy.map_or("-".to_owned(), |c| format!("{:.0} %", 100.0 * gigabytes_per_second / c.median))
    }

    fn contest(&self, contest: &Contest) -> String {
        let nodes = (contest.nx * contest.ny) as f64;
        let mut text = format!("{}, {} x {}:\n\n", contest.problem, contest.nx, contest.ny);
        let rows: Vec<Vec<String>> = contest
            .entries
            .iter()
            .map(|e| {
                vec![
                    e.name.clone(),
                    e.threads.to_string(),
                    if e.converged { e.iterations.to_string() } else { format!("{} (not converged)", e.iterations) },
                    format!("{:.1e}", e.residual),
                    e.setup.milliseconds(),
                    if e.renewal.all().is_empty() { "-".to_owned() } else { digits(1e3 * e.renewal.median()) },
                    e.solve.milliseconds(),
                    spread(&e.solve_ratio),
                    spread(&e.ratio),
                ]
            })
            .collect();
        let head =
            ["solver", "threads", "iterations", "residual", "setup ms", "again", "solve ms", "ratio", "with setup"];
        text += &table(&head, &rows);
        let library: Vec<Vec<String>> = contest
            .entries
            .iter()
            .filter_map(|e| {
                let r = e.rrb.as_ref()?;
                let kappa = if r.lambda_min > 0.0 { digits(r.lambda_max / r.lambda_min) } else { "-".to_owned() };
                let or_none = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
                let rate = r.words_of_solve.map(|w| 8e-9 * w * 0.5 * nodes / e.solve.median());
                Some(vec![
                    e.name.clone(),
                    r.model.levels.to_string(),
                    r.model.precision.clone(),
                    r.model.cycle.clone(),
                    kappa,
                    or_none(r.words.map(digits)),
                    or_none(rate.map(digits)),
                    rate.map_or("-".to_owned(), |r| self.share(r, e.threads)),
                    digits(r.bytes as f64 / nodes),
                ])
            })
            .collect();
        let head =
            ["in use", "levels", "precision", "cycle", "kappa", "words", "GB/s", "of triad", "bytes per unknown"];
        text.push('\n');
        text += &table(&head, &library);
        text
    }

    fn breakdown(&self, b: &Breakdown) -> String {
        let black = (b.nx * b.ny) as f64 / 2.0;
        let total = b.total.median();
        let place = b.device.map_or_else(|| format!("{} threads", b.threads), |ordinal| format!("device {ordinal}"));
        let mut text = format!(
            "{}, {} x {}, {} levels, {} grids, precision {}, cycle {}, {place}, {} iterations:\n\n",
            b.problem, b.nx, b.ny, b.model.levels, b.grids, b.model.precision, b.model.cycle, b.iterations
        );
        let share = |rate: f64| if b.device.is_some() { self.share_of_copy(rate) } else { self.share(rate, b.threads) };
        let line = |name: &str, calls: String, seconds: f64, cost: Option<Cost>| {
            let bytes = cost.map(|c| 8.0 * c.words * black);
            let rate = bytes.map(|bytes| 1e-9 * bytes / seconds);
            let gigaflops = cost.filter(|c| c.flops > 0.0).map(|c| 1e-9 * c.flops * black / seconds);
            vec![
                name.to_owned(),
                calls,
                digits(1e3 * seconds),
                digits(100.0 * seconds / total),
                bytes.map_or("-".to_owned(), |bytes| digits(1e-6 * bytes)),
                rate.map_or("-".to_owned(), digits),
                rate.map_or("-".to_owned(), share),
                gigaflops.map_or("-".to_owned(), digits),
            ]
        };
        let transfer = if b.device.is_some() { b.transfer.median() } else { 0.0 };
        let find =
            |names: &[&str]| -> Vec<&Stage> { b.stages.iter().filter(|s| names.contains(&s.step.as_str())).collect() };
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut named: Vec<&str> = Vec::new();
        // What a device's loop begins with was done before it, in one piece: those steps find it done.
        let ahead = b.stages.iter().any(|s| s.step == LOOP);
        for (name, steps) in GROUPS.iter().filter(|(_, steps)| !ahead || *steps == [LOOP]) {
            let stages = find(steps);
            if !stages.is_empty() {
                // Copies between host and device have a row of their own.
                let apart = if *steps == ARRAYS { transfer } else { 0.0 };
                rows.push(line(name, calls(&stages).to_string(), seconds(&stages) - apart, cost(&stages)));
                named.extend(*steps);
            }
        }
        let others = b.stages.iter().filter(|s| !named.contains(&s.step.as_str()));
        if ahead {
            let around: Vec<&Stage> = others.collect();
            let name = "around the loop: caller's arrays, what it begins with, in one piece, and the way back";
            rows.push(line(name, String::new(), seconds(&around) - transfer, cost(&around)));
        } else {
            // One step without a count leaves the others theirs.
            let (counted, uncounted): (Vec<&Stage>, Vec<&Stage>) = others.partition(|s| s.cost.is_some());
            for (kind, stages) in [("rest", counted), ("not counted", uncounted)] {
                if !stages.is_empty() {
                    let names: Vec<String> = stages.iter().map(|s| s.step.replace('_', " ")).collect();
                    let name = format!("{kind}: {}", names.join(", "));
                    rows.push(line(&name, String::new(), seconds(&stages), cost(&stages)));
                }
            }
        }
        let all = cost(&b.stages.iter().collect::<Vec<_>>());
        if b.device.is_some() {
            // Memory of the device has no part in the transfers.
            rows.push(line("on the device", String::new(), total - transfer, all));
            // b and x there, x back.
            let megabytes = 2.0 * 3.0 * 8e-6 * black;
            rows.push(vec![
                "transfers: b, x there, x back".to_owned(),
                "3".to_owned(),
                digits(1e3 * transfer),
                digits(100.0 * transfer / total),
                digits(megabytes),
                digits(1e-3 * megabytes / transfer),
                "-".to_owned(),
                "-".to_owned(),
            ]);
        }
        rows.push(line("total", String::new(), total, all.filter(|_| b.device.is_none())));
        let of = if b.device.is_some() { "of copy" } else { "of triad" };
        text += &table(&["stage", "calls", "ms", "%", "MB", "GB/s", of, "GFlop/s"], &rows);
        if let Some(beside) = beside(b) {
            text += &format!("\nBeside all steps: {} ms.\n", digits(1e3 * beside));
        }
        if b.device.is_some() {
            // kernels/rrb/uniform.cuh; `RRBSOLVER_CUDA_UNIFORM=off` has all of them read.
            text += "\nMB are those of a matrix whose rows all differ; rows that are the same are read once.\n";
        }
        if !b.by_grid.is_empty() {
            text += "\n";
            text += &by_grid(b);
        }
        text
    }
}

/// The papers' table 5.2: where the levels' time goes, by grid. Fused stages of the first grid do CG's work too.
fn by_grid(b: &Breakdown) -> String {
    let median = |way: usize| b.by_grid.iter().map(|g| g[way].median()).collect::<Vec<f64>>();
    let (down, up) = (median(0), median(1));
    let of = |seconds: &[f64], q: usize| {
        let total: f64 = seconds.iter().sum();
        [digits(1e3 * seconds[q]), digits(100.0 * seconds[q] / total)]
    };
    let (mut nx, mut ny) = (b.nx, b.ny);
    // Small grids of a device share a kernel with the remainder.
    let shared = (0..b.grids).find(|&q| down[q] == 0.0).unwrap_or(b.grids);
    let rows: Vec<Vec<String>> = (0..b.by_grid.len())
        .filter(|&q| q < shared || q == b.grids)
        .map(|q| {
            let name = if q == b.grids {
                let deeper = if b.model.levels > 2 * shared { "deeper levels and " } else { "" };
                format!("{deeper}remainder")
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

/// Of all calls.
fn seconds(stages: &[&Stage]) -> f64 {
    stages.iter().map(|s| s.seconds.median()).sum()
}

/// Of all calls, per black node; none where one stage is not counted.
fn cost(stages: &[&Stage]) -> Option<Cost> {
    stages.iter().try_fold(Cost { words: 0.0, flops: 0.0 }, |sum, s| {
        let (calls, cost) = (s.calls as f64, s.cost?);
        Some(Cost { words: sum.words + calls * cost.words, flops: sum.flops + calls * cost.flops })
    })
}

/// What a solve takes beside its steps [s], solve by solve; none where a step was not in all of them.
fn beside(b: &Breakdown) -> Option<f64> {
    let solves = b.total.all().len();
    if solves == 0 || b.stages.iter().any(|s| s.seconds.all().len() != solves) {
        return None;
    }
    let steps = |k: usize| b.stages.iter().map(|s| s.seconds.all()[k]).sum::<f64>();
    Some(Samples::new(b.total.all().iter().enumerate().map(|(k, total)| total - steps(k)).collect()).median())
}

/// Calls of stages in one row: those at a start count too, steps that come by turns once.
fn calls(stages: &[&Stage]) -> usize {
    let starts: usize = stages.iter().filter(|s| s.step.ends_with("_at_start")).map(|s| s.calls).sum();
    starts + stages.iter().filter(|s| !s.step.ends_with("_at_start")).map(|s| s.calls).max().unwrap_or(0)
}

/// Steps that go over the caller's arrays.
const ARRAYS: &[&str] = &["inspect", "load", "load_rhs", "store"];

/// Rows of the papers' table 5.1, and of the fused stages. The papers' two `dotp` of an iteration are part of matvec
/// and solver here; the one that stands alone is r'r.
const GROUPS: &[(&str, &[&str])] = &[
    ("memcpy: caller's arrays", ARRAYS),
    ("axpy: x, r, p", &["advance_solution", "advance_residual", "next_direction"]),
    ("dotp: r'r", &["residual_norm2"]),
    ("matvec: q = S1 p, p'q", &["multiply"]),
    ("solver: z = M^-1 r, r'z", &["precondition"]),
    ("descend: r, levels downwards, r'r", &["descend", "descend_at_start"]),
    ("ascend: levels upwards, x, p, q, p'q", &["ascend", "ascend_at_start"]),
    ("loop on the device: all iterations, and its end", &[LOOP]),
];

fn spread(ratio: &Samples) -> String {
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

fn levels(sweep: &LevelSweep) -> String {
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

/// Figures 5.3 and 5.4 by levels and grids, S1 at g = 0; figures 5.5 and 5.6 by levels, a column for each g.
fn grids(sweep: &GridSweep) -> String {
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
        // Whose time is told against S1's.
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

/// Setup and solve on a device have their arrays there; from the host and back, these come on top of a solve.
const COPIES: &str = "copies of host arrays ms";

/// The table without its last column, where that says nothing.
fn only_where(head: &mut Vec<&str>, mut rows: Vec<Vec<String>>, keep: bool) -> Vec<Vec<String>> {
    if !keep {
        head.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    rows
}

fn beside_steps(overhead: &Overhead) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Model;
    use crate::sweeps::Timed;

    /// A stage: its calls, words and flops of a call, and ms of two solves.
    type Row<'a> = (&'a str, usize, Option<[f64; 2]>, [f64; 2]);

    /// 2 black nodes.
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

    /// The cells of the row that begins so.
    fn cells(text: &str, name: &str) -> Vec<String> {
        let row =
            text.lines().find(|l| l.starts_with(&format!("| {name}"))).unwrap_or_else(|| panic!("{name}: {text}"));
        row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn what_is_left_over_has_bytes_and_flops_too() {
        let stages = [
            ("load", 1, Some([5.0, 6.0]), [1.0, 1.0]),
            ("descend", 2, Some([10.0, 20.0]), [2.0, 2.0]),
            ("reduce", 1, Some([8.0, 9.0]), [1.0, 1.0]),
            ("preconditioned_square", 4, Some([0.0, 0.0]), [0.0, 0.0]),
            ("back_substitute", 2, Some([4.0, 3.0]), [1.0, 1.0]),
        ];
        let text = record(None, &stages, [5.25, 5.25]).text();
        // 16 words of 2 nodes, 256 bytes in 2 ms; half of that in a ms is the ceiling, 64 kB/s. 15 flops of 2 nodes.
        let rest = cells(&text, "rest: reduce, preconditioned square, back substitute ");
        assert_eq!(rest[1..], ["", "2.00", "38.1", "0.000256", "0.000128", "200 %", "0.000015"], "{text}");
        // 5 + 20 + 16 words, 6 + 40 + 15 flops.
        assert_eq!(cells(&text, "total")[2..6], ["5.25", "100", "0.000656", "0.000125"], "{text}");
        assert!(!text.contains("not counted") && text.contains("Beside all steps: 0.250 ms."), "{text}");
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

    /// Steps beside the loop of a device are done in one piece, whichever of them waits for it.
    #[test]
    fn a_device_has_its_own_total() {
        let stages = [
            ("inspect", 1, Some([4.0, 0.0]), [3.0, 3.0]),
            ("reduce", 1, Some([8.0, 9.0]), [0.0, 0.0]),
            (LOOP, 3, Some([25.0, 60.0]), [2.0, 2.0]),
            ("store", 1, Some([4.0, 2.0]), [1.0, 1.0]),
        ];
        let text = record(Some(0), &stages, [6.0, 6.0]).text();
        assert_eq!(cells(&text, "around the loop")[2..5], ["3.00", "50.0", "0.000256"], "{text}");
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
        let sweep =
            |rows: Vec<GridRow>| GridSweep { problem: "small".to_owned(), n: 31, options: "f64".to_owned(), rows };
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
        assert!(
            text.contains("threads: S1 1, S2 1, S3 2, S3 fused 2. Medians of 3, ms; the most is up to 3.00"),
            "{text}"
        );
        let rows = |text: &str, columns: usize| -> Vec<Vec<String>> {
            let cells = |l: &str| l.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect::<Vec<String>>();
            text.lines().filter(|l| l.starts_with('|')).map(cells).filter(|row| row.len() == columns).collect()
        };
        // Of four implementations: solves, three of them against S1, setups.
        let compared = rows(&text, 3 + 4 + 3 + 4);
        assert_eq!(compared.len(), 2 + 3, "{text}");
        assert_eq!(compared[2][..8], ["8", "0", "13", "12.0", "-", "-", "-", "-"]);
        assert_eq!(compared[3][..10], ["8", "1", "13", "-", "6.00", "4.00", "3.00", "2.00", "3.00", "4.00"]);
        assert_eq!(compared[3][10..], ["-", "2.00", "2.00", "9.00"]);
        // Setup, then solve, of the fused one at all levels.
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
}
