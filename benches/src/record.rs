//! The results of a run: JSON for programs and tables for readers, both from the same record.

mod tables;

use crate::contest::Contest;
use crate::cost::Cost;
use crate::device::DEVICE_COPY;
use crate::distributed::Ranks;
use crate::machine::Machine;
use crate::march::March;
use crate::overhead::Overhead;
use crate::smoother::SmootherStudy;
use crate::sparse::General;
use crate::stages::{Breakdown, LOOP, Stage};
use crate::stream::{Bandwidth, ceiling};
use crate::suite::Suite;
use crate::sweeps::{GridSweep, LevelSweep};
use crate::thesis::Thesis;
use crate::timing::digits;
use crate::two_phase::Pressure;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
pub(crate) use tables::table;
use tables::{
    ARRAYS, GROUPS, by_grid, calls, chart, cost, general, grids, levels, march, outside_steps, overhead_table,
    pressure, ranks, seconds, spread,
};

/// Record of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Command line that repeats the run.
    pub command: String,
    /// Machine of the run.
    pub machine: Machine,
    /// Ceilings measured in the same run; empty if not requested.
    pub bandwidth: Vec<Bandwidth>,
    /// Measured results.
    #[serde(flatten)]
    pub study: Study,
}

/// Measured results, by kind of measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "study", content = "result", rename_all = "snake_case")]
pub enum Study {
    /// Bandwidth only.
    Stream,
    /// Solvers in turn.
    Solve(Contest),
    /// Steps of a solve.
    Stages(Breakdown),
    /// Numbers of levels.
    Levels(LevelSweep),
    /// Numbers of r1/r2/b1/b2 grids.
    Grids(GridSweep),
    /// Time outside the steps.
    Overhead(Overhead),
    /// Block smoothers.
    Smoother(SmootherStudy),
    /// Time steps.
    March(March),
    /// Pressure systems in 3D.
    TwoPhase(Pressure),
    /// General sparse systems.
    Sparse(General),
    /// The evaluation of the thesis of 2008.
    Thesis(Thesis),
    /// Copies between host and device; the rates are bandwidths of the record.
    Transfer,
    /// One domain on many ranks.
    Distributed(Ranks),
    /// The hard suite.
    Suite(Suite),
}

impl Record {
    /// Reads a record from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a record of rrbsolver-bench", path.display()))
    }

    /// Writes the record to a file, completely or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).context("cannot write a record")?;
        text.push('\n');
        let part = path.with_extension("part");
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the triad bandwidth from memory with this number of threads, in GB/s.
    fn ceiling(&self, threads: usize) -> Option<f64> {
        ceiling(&self.bandwidth, threads)
    }

    /// Formats the record as Markdown, readable also as plain text.
    pub fn text(&self) -> String {
        let mut text = match &self.study {
            Study::Stream => String::new(),
            Study::Solve(contest) => self.contest(contest),
            Study::Stages(breakdown) => self.breakdown(breakdown),
            Study::Levels(sweep) => levels(sweep),
            Study::Grids(sweep) => grids(sweep),
            Study::Overhead(overhead) => overhead_table(overhead),
            Study::Smoother(study) => study.charts.iter().map(chart).collect::<Vec<_>>().join("\n"),
            Study::March(run) => march(run),
            Study::TwoPhase(run) => pressure(run),
            Study::Sparse(run) => general(run, self.copy()),
            Study::Thesis(run) => format!("{}\n{}", self.machine.text(), run.text()),
            Study::Transfer if self.bandwidth.is_empty() => {
                "There is no CUDA device, so no transfer rates.\n".to_owned()
            }
            Study::Transfer => self.machine.text() + "\n",
            Study::Distributed(run) => ranks(run),
            Study::Suite(suite) => suite.text(),
        };
        if matches!(self.study, Study::Stream | Study::Transfer if !self.bandwidth.is_empty()) {
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
        format!("\nIn the same run, the benchmark measured these bandwidths in GB/s: {}.\n", parts.join(", "))
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

    /// Returns the bandwidth of copies on a device in GB/s.
    fn copy(&self) -> Option<f64> {
        self.bandwidth.iter().find(|b| b.kernel == DEVICE_COPY).map(|b| b.median)
    }

    /// Formats a bandwidth as a share of the copy bandwidth of a device.
    fn share_of_copy(&self, gigabytes_per_second: f64) -> String {
        self.copy().map_or("-".to_owned(), |copy| format!("{:.0} %", 100.0 * gigabytes_per_second / copy))
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
        // The steps before a device's loop run together ahead of it, so their individual times are meaningless.
        let ahead = b.stages.iter().any(|s| s.step == LOOP);
        for (name, steps) in GROUPS.iter().filter(|(_, steps)| !ahead || *steps == [LOOP]) {
            let stages = find(steps);
            if !stages.is_empty() {
                // Copies between host and device are in a row of their own.
                let apart = if *steps == ARRAYS { transfer } else { 0.0 };
                rows.push(line(name, calls(&stages).to_string(), seconds(&stages) - apart, cost(&stages)));
                named.extend(*steps);
            }
        }
        let others = b.stages.iter().filter(|s| !named.contains(&s.step.as_str()));
        if ahead {
            let around: Vec<&Stage> = others.collect();
            let name = "outside the loop: copies of the caller's arrays and the initial residual";
            rows.push(line(name, String::new(), seconds(&around) - transfer, cost(&around)));
        } else {
            // A step without a count must not hide the counts of the others.
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
            // The transfers do not use memory bandwidth of the device.
            rows.push(line("on the device", String::new(), total - transfer, all));
            // b and x to the device, x back.
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
        if let Some(outside) = outside_steps(b) {
            text += &format!("\nOutside all steps: {} ms.\n", digits(1e3 * outside));
        }
        if b.device.is_some() {
            // See kernels/rrb/uniform.cuh. With `RRBSOLVER_CUDA_UNIFORM=off`, all rows are read.
            text += "\nMB are those of a matrix whose rows all differ; rows that are the same are read once.\n";
        }
        if !b.by_grid.is_empty() {
            text += "\n";
            text += &by_grid(b);
        }
        text
    }
}

#[cfg(test)]
mod tests;
