//! What a run of the program leaves: JSON for programs, tables for people, both from the same record.

use crate::contest::Contest;
use crate::device::DEVICE_COPY;
use crate::machine::Machine;
use crate::march::March;
use crate::overhead::{Overhead, REST};
use crate::smoother::{Chart, SmootherStudy};
use crate::stages::{Breakdown, LOOP, Stage};
use crate::stream::{Bandwidth, ceiling};
use crate::sweeps::{GridSweep, LevelSweep};
use crate::timing::{Samples, digits};
use serde::{Deserialize, Serialize};
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
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut accounted = 0.0;
        // `apart`: seconds of copies between host and device, which have a row of their own.
        let mut row = |name: &str, stages: &[&Stage], apart: f64| {
            let seconds = stages.iter().map(|s| s.seconds.median()).sum::<f64>() - apart;
            accounted += seconds;
            let count = |of: fn(&crate::cost::Cost) -> f64| -> Option<f64> {
                stages.iter().map(|s| Some(s.calls as f64 * of(s.cost.as_ref()?))).sum()
            };
            let (words, flops) = (count(|c| c.words), count(|c| c.flops));
            let rate = words.map(|w| 8e-9 * w * black / seconds);
            let gigaflops = flops.filter(|&f| f > 0.0).map(|f| 1e-9 * f * black / seconds);
            rows.push(vec![
                name.to_owned(),
                calls(stages).to_string(),
                digits(1e3 * seconds),
                digits(100.0 * seconds / total),
                words.map_or("-".to_owned(), |w| digits(8e-6 * w * black)),
                rate.map_or("-".to_owned(), digits),
                rate.map_or("-".to_owned(), share),
                gigaflops.map_or("-".to_owned(), digits),
            ]);
        };
        let transfer = if b.device.is_some() { b.transfer.median() } else { 0.0 };
        let find =
            |names: &[&str]| -> Vec<&Stage> { b.stages.iter().filter(|s| names.contains(&s.step.as_str())).collect() };
        let mut named: Vec<&str> = Vec::new();
        // What a device's loop begins with was done before it, in one piece: those steps find it done.
        let ahead = b.stages.iter().any(|s| s.step == LOOP);
        for (name, steps) in GROUPS.iter().filter(|(_, steps)| !ahead || *steps == ARRAYS || *steps == [LOOP]) {
            let stages = find(steps);
            if !stages.is_empty() {
                row(name, &stages, if *steps == ARRAYS { transfer } else { 0.0 });
                named.extend(*steps);
            }
        }
        let others: Vec<&Stage> = b.stages.iter().filter(|s| !named.contains(&s.step.as_str())).collect();
        let rest: f64 = (total - accounted - transfer).max(0.0);
        let names: Vec<String> = others.iter().map(|s| s.step.replace('_', " ")).collect();
        rows.push(vec![
            match names.is_empty() {
                _ if ahead => "rest: what the loop begins with, in one piece, and the way back".to_owned(),
                true => "rest".to_owned(),
                false => format!("rest: {}", names.join(", ")),
            },
            String::new(),
            digits(1e3 * rest),
            digits(100.0 * rest / total),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
        ]);
        if b.device.is_some() {
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
        rows.push(vec![
            "total".to_owned(),
            String::new(),
            digits(1e3 * total),
            "100".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ]);
        let of = if b.device.is_some() { "of copy" } else { "of triad" };
        text += &table(&["stage", "calls", "ms", "%", "MB", "GB/s", of, "GFlop/s"], &rows);
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

/// Calls of stages in one row: those at a start count too, steps that come by turns once.
fn calls(stages: &[&Stage]) -> usize {
    let starts: usize = stages.iter().filter(|s| s.step.ends_with("_at_start")).map(|s| s.calls).sum();
    starts + stages.iter().filter(|s| !s.step.ends_with("_at_start")).map(|s| s.calls).max().unwrap_or(0)
}

/// Steps that go over the caller's arrays.
const ARRAYS: &[&str] = &["inspect", "load", "load_rhs", "store"];

/// Rows of the papers' table 5.1, and of the fused stages. The papers' two `dotp` of an iteration are part of matvec and
/// solver here; the one that stands alone is r'r.
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

fn grids(sweep: &GridSweep) -> String {
    let natural = |levels: usize| {
        sweep.rows.iter().find(|r| r.implementation == "S1" && r.levels == levels).map(|r| r.timed.solve.median())
    };
    let rows: Vec<Vec<String>> = sweep
        .rows
        .iter()
        .map(|r| {
            vec![
                format!("{}-{}", r.implementation, r.grids),
                r.threads.to_string(),
                r.levels.to_string(),
                r.iterations.to_string(),
                r.timed.setup.milliseconds(),
                r.timed.solve.milliseconds(),
                natural(r.levels).map_or("-".to_owned(), |s| digits(s / r.timed.solve.median())),
                r.timed.copies.as_ref().map_or("-".to_owned(), Samples::milliseconds),
            ]
        })
        .collect();
    let mut head = vec!["", "threads", "levels", "iterations", "setup ms", "solve ms", "times S1"];
    head.push(COPIES);
    let rows = only_where(&mut head, rows, sweep.rows.iter().any(|r| r.timed.copies.is_some()));
    format!("{0}, {1} x {1}, {2}:\n\n{3}", sweep.problem, sweep.n, sweep.options, table(&head, &rows))
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
