//! Records of rrbsolver-bench, read from JSON: the fields that a figure shows. `benches/src/record.rs` writes them.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The part of a record that a figure shows.
pub enum Study {
    /// Sweep over the levels.
    Levels(LevelSweep),
    /// Sweep over the r1/r2/b1/b2 grids.
    Grids(GridSweep),
    /// Figures of the block smoothers or of time steps.
    Charts(Vec<Chart>),
    /// The hard suite.
    Suite(Suite),
    /// A study without a figure.
    Other,
}

/// Studies whose result contains charts, and nothing else that is drawn.
#[derive(Deserialize)]
struct Charts {
    charts: Vec<Chart>,
}

/// The head of a record, which every record has.
#[derive(Deserialize)]
struct Head {
    study: String,
    #[serde(default)]
    result: serde_json::Value,
}

/// Reads the record in a file.
pub fn read(path: &Path) -> Result<Study> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not a record of rrbsolver-bench", path.display()))
}

/// Parses a record.
pub fn parse(text: &str) -> Result<Study> {
    let Head { study, result } = serde_json::from_str(text)?;
    Ok(match study.as_str() {
        "levels" => Study::Levels(serde_json::from_value(result)?),
        "grids" => Study::Grids(serde_json::from_value(result)?),
        "smoother" | "march" | "thesis" => Study::Charts(serde_json::from_value::<Charts>(result)?.charts),
        "suite" => Study::Suite(serde_json::from_value(result)?),
        _ => Study::Other,
    })
}

/// Times in seconds.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Returns the median; NaN for an empty list.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        match n {
            0 => f64::NAN,
            _ if n % 2 == 1 => sorted[n / 2],
            _ => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
        }
    }
}

#[derive(Deserialize)]
pub struct Timed {
    pub setup: Samples,
    pub solve: Samples,
    /// Present for solves on a device.
    pub copies: Option<Samples>,
}

#[derive(Deserialize)]
pub struct LevelRow {
    pub n: usize,
    pub levels: usize,
    pub iterations: usize,
    /// 0 if unknown.
    pub kappa: f64,
    pub bound: f64,
    #[serde(flatten)]
    pub timed: Timed,
}

#[derive(Deserialize)]
pub struct LevelSweep {
    pub problem: String,
    pub rows: Vec<LevelRow>,
}

#[derive(Deserialize)]
pub struct GridRow {
    /// S1 (natural storage), S2 (r1/r2/b1/b2 grids, one thread), S3 (threads), S4 (device), or a fused variant.
    pub implementation: String,
    /// Number of r1/r2/b1/b2 grids; 0 for S1.
    pub grids: usize,
    pub levels: usize,
    #[serde(flatten)]
    pub timed: Timed,
}

#[derive(Deserialize)]
pub struct GridSweep {
    pub problem: String,
    pub n: usize,
    pub rows: Vec<GridRow>,
}

#[derive(Deserialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
pub struct Chart {
    /// File name without extension.
    pub name: String,
    pub title: String,
    pub x: String,
    pub y: String,
    pub logarithmic: bool,
    /// Labels of the positions 0, 1, ... on the x axis; empty for a numeric axis.
    pub places: Vec<String>,
    pub curves: Vec<Curve>,
}

#[derive(Deserialize)]
pub struct Entry {
    pub name: String,
    pub setup: Samples,
    pub solve: Samples,
    pub iterations: usize,
    pub converged: bool,
}

#[derive(Deserialize)]
pub struct Contest {
    pub problem: String,
    pub nx: usize,
    pub ny: usize,
    pub entries: Vec<Entry>,
}

#[derive(Deserialize)]
pub struct Suite {
    pub systems: Vec<Contest>,
}
