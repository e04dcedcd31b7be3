//! The system to solve: a problem by its name, or waves over a bathymetry file.

use crate::bathymetry;
use anyhow::{Result, bail};
use rrbsolver_problems::{self as problems, Stencil};
use std::path::Path;

/// A system A x = b.
pub struct Problem {
    /// Requested name.
    pub name: String,
    /// The matrix A.
    pub a: Stencil,
    /// The right-hand side b.
    pub b: Vec<f64>,
}

impl Problem {
    /// Finds a problem. `name` is one of `rrbsolver_problems::NAMES`, or the path of an ESRI ASCII grid of depths
    /// (.asc, .asc.gz), whose size is used. There, water shallower than `least_depth` [m] is land.
    pub fn find(name: &str, nx: usize, ny: Option<usize>, least_depth: f64) -> Result<Self> {
        if name.ends_with(".asc") || name.ends_with(".asc.gz") {
            let (a, b) = bathymetry::read(Path::new(name))?.waves(least_depth, 0.0);
            let stem = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
            let name = stem.split('.').next().unwrap_or_default().to_owned();
            return Ok(Self { name, a, b });
        }
        if let Some(systems) = name.strip_suffix(".stencil").map(|_| std::fs::read(name)).transpose()? {
            let mut systems = problems::hard::read(&systems).map_err(anyhow::Error::msg)?;
            let Some(problems::hard::System { name, a, b, .. }) = systems.pop() else { bail!("no system in {name}") };
            return Ok(Self { name, a, b });
        }
        if nx < 2 {
            bail!("no such problem has {nx} nodes per row");
        }
        let ny = ny.unwrap_or(if name == "variable_depth" { problems::variable_depth_rows(nx) } else { nx });
        let (a, b) = problems::find(name, nx, ny).map_err(anyhow::Error::msg)?;
        Ok(Self { name: name.to_owned(), a, b })
    }

    /// Returns the number of unknowns.
    pub fn unknowns(&self) -> usize {
        self.b.len()
    }

    /// Computes |b - A x| / |b|.
    pub fn relative_residual(&self, x: &[f64]) -> f64 {
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        norm(&self.a.residual(&self.b, x)) / norm(&self.b)
    }
}
