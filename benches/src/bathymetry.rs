//! Reader of ESRI ASCII grids of depths, plain or gzip-compressed.

use anyhow::{Context as _, Result, anyhow, bail};
use rrbsolver_problems::{Stencil, waves};
use std::io::Read as _;
use std::path::Path;

/// Depths [m], positive downwards, rows from south to north.
pub struct Bathymetry {
    nx: usize,
    ny: usize,
    cell: f64,
    /// Cell size in the file [m], to which the wave lengths refer.
    file_cell: f64,
    depth: Vec<f64>,
}

/// Lengths of the two crossing waves, in cells of the file.
const WAVE_LENGTHS: [f64; 2] = [25.0, 11.0];

/// Reads a bathymetry file.
pub fn read(path: &Path) -> Result<Bathymetry> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let mut text = String::new();
    let outcome = if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)
    } else {
        (&bytes[..]).read_to_string(&mut text)
    };
    outcome.with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| format!("{shown}"))
}

/// Parses lines with a key and a value, in any order and case, and then rows from north to south.
fn parse(text: &str) -> Result<Bathymetry> {
    let (mut columns, mut rows, mut cell, mut no_data) = (None, None, None, -9999.0);
    let mut words = text.split_ascii_whitespace().peekable();
    while let Some(key) = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())) {
        let value: f64 = words.next().and_then(|w| w.parse().ok()).with_context(|| format!("{key} has no number"))?;
        match key.to_ascii_lowercase().as_str() {
            "ncols" => columns = Some(value as usize),
            "nrows" => rows = Some(value as usize),
            "cellsize" => cell = Some(value),
            "nodata_value" => no_data = value,
            "xllcorner" | "yllcorner" | "xllcenter" | "yllcenter" => {}
            _ => bail!("{key} is not a key of an ESRI ASCII grid"),
        }
    }
    let (Some(nx), Some(ny), Some(cell)) = (columns, rows, cell) else {
        bail!("ncols, nrows and cellsize are required");
    };
    if nx < 2 || ny < 2 || cell <= 0.0 || nx.checked_mul(ny).is_none_or(|n| n > u32::MAX as usize) {
        bail!("{nx} x {ny} cells of {cell} m do not form a grid");
    }
    let mut depth = vec![0.0; nx * ny];
    for j in (0..ny).rev() {
        for value in &mut depth[j * nx..(j + 1) * nx] {
            let word = words.next().with_context(|| format!("fewer than {nx} x {ny} depths"))?;
            let read: f64 = word.parse().map_err(|_| anyhow!("{word} is not a number"))?;
            *value = if read == no_data || !read.is_finite() { 0.0 } else { read };
        }
    }
    if words.next().is_some() {
        bail!("more than {nx} x {ny} depths");
    }
    Ok(Bathymetry { nx, ny, cell, file_cell: cell, depth })
}

impl Bathymetry {
    /// Interpolates the depths bilinearly to about `nodes` nodes over the same area.
    pub fn resized(&self, nodes: usize) -> Self {
        let factor = (nodes as f64 / (self.nx * self.ny) as f64).sqrt();
        let of = |n: usize| ((n as f64 * factor).round() as usize).max(2);
        let (nx, ny) = (of(self.nx), of(self.ny));
        // Position of a new node in the old grid: the preceding old node, and the distance to it in cells.
        let place = |k: usize, new: usize, old: usize| {
            let at = k as f64 * (old - 1) as f64 / (new - 1) as f64;
            let below = (at as usize).min(old - 2);
            (below, at - below as f64)
        };
        let mut depth = Vec::with_capacity(nx * ny);
        for j in 0..ny {
            let (row, v) = place(j, ny, self.ny);
            for i in 0..nx {
                let (column, u) = place(i, nx, self.nx);
                let h = |di: usize, dj: usize| self.depth[(row + dj) * self.nx + column + di];
                let (south, north) = ((1.0 - u) * h(0, 0) + u * h(1, 0), (1.0 - u) * h(0, 1) + u * h(1, 1));
                depth.push((1.0 - v) * south + v * north);
            }
        }
        let cell = self.cell * (self.nx - 1) as f64 / (nx - 1) as f64;
        Self { nx, ny, cell, file_cell: self.file_cell, depth }
    }

    /// Discretizes -div(h grad x) plus a mass term, without flow through coasts and edges of the grid. The coefficient
    /// h at a face is the harmonic mean of the depths. Entries are not divided by the square of the cell size. Nodes
    /// shallower than `least_depth` are land. Land nodes are decoupled from all others, as are wet nodes without wet
    /// neighbours if the mass is zero.
    pub fn poisson(&self, least_depth: f64, mass: f64) -> Stencil {
        let (nx, ny) = (self.nx, self.ny);
        let is_wet = |p: usize| self.depth[p] > 0.0 && self.depth[p] >= least_depth;
        let face = |p: usize, q: usize| {
            let (h, k) = (self.depth[p], self.depth[q]);
            if is_wet(p) && is_wet(q) { -2.0 * h * k / (h + k) } else { 0.0 }
        };
        let zeros = vec![0.0; nx * ny];
        let mut a = Stencil { nx, ny, center: vec![mass; nx * ny], east: zeros.clone(), north: zeros, corners: None };
        for p in 0..nx * ny {
            if p % nx + 1 < nx {
                a.east[p] = face(p, p + 1);
                a.center[p] -= a.east[p];
                a.center[p + 1] -= a.east[p];
            }
            if p / nx + 1 < ny {
                a.north[p] = face(p, p + nx);
                a.center[p] -= a.north[p];
                a.center[p + nx] -= a.north[p];
            }
        }
        a.center.iter_mut().filter(|center| **center == 0.0).for_each(|center| *center = 1.0);
        a
    }

    /// Creates the system of the wave model (`rrbsolver_problems::waves`) for two crossing waves at a phase.
    pub fn waves(&self, least_depth: f64, phase: f64) -> (Stencil, Vec<f64>) {
        let depth: Vec<f64> = self.depth.iter().map(|&h| if h >= least_depth { h } else { 0.0 }).collect();
        let turn = std::f64::consts::TAU * self.cell / self.file_cell;
        let [long, short] = WAVE_LENGTHS;
        let phi: Vec<f64> = (0..depth.len())
            .map(|p| {
                let (x, y) = ((p % self.nx) as f64, (p / self.nx) as f64);
                (turn * (0.8 * x + 0.6 * y) / long - phase).sin()
                    + 0.5 * (turn * (0.6 * x - 0.8 * y) / short - phase).sin()
            })
            .collect();
        waves(&depth, &phi, self.nx, self.ny, self.cell, least_depth.max(0.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "NCOLS 3\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 2.5\nNODATA_value -9999\n4 5 6\n1 -9999 3\n";

    #[test]
    fn the_first_line_is_the_northern_row() {
        let grid = parse(SMALL).unwrap();
        assert_eq!((grid.nx, grid.ny, grid.cell), (3, 2, 2.5));
        assert_eq!(grid.depth, [1.0, 0.0, 3.0, 4.0, 5.0, 6.0]);
        let (a, b) = grid.waves(2.0, 0.0);
        // Node (2, 0) and the northern row are wet. Land nodes are decoupled.
        assert_eq!(a.east[..2], [0.0, 0.0]);
        assert!(a.north[2] < 0.0 && a.north[0] == 0.0 && a.east[3] < 0.0);
        assert_eq!((b[0], b[1]), (0.0, 0.0));
        // Closed edges: the flow out of one node enters another, up to rounding.
        assert!(b.iter().sum::<f64>().abs() < 1e-13 && b[2] != 0.0);
    }

    #[test]
    fn no_diffusion_through_land() {
        let a = parse(SMALL).unwrap().poisson(2.0, 0.0);
        // Wet nodes are (2, 0) with 3 m, and the northern row with 4, 5 and 6 m.
        let (of_5, of_6, north) = (40.0 / 9.0, 60.0 / 11.0, 4.0);
        assert_eq!(a.east, [0.0, 0.0, 0.0, -of_5, -of_6, 0.0]);
        assert_eq!(a.north, [0.0, 0.0, -north, 0.0, 0.0, 0.0]);
        assert_eq!(a.center, [1.0, 1.0, north, of_5, of_5 + of_6, of_6 + north]);
    }

    #[test]
    fn resizing_preserves_the_depths() {
        let grid = parse(SMALL).unwrap();
        let same = grid.resized(6);
        assert_eq!((same.nx, same.ny, same.cell), (grid.nx, grid.ny, grid.cell));
        assert_eq!(same.depth, grid.depth);
        let fine = grid.resized(600);
        assert_eq!((fine.nx, fine.ny), (30, 20));
        // The corners are kept, and the width of the grid is unchanged.
        assert_eq!([fine.depth[0], fine.depth[29], fine.depth[570], fine.depth[599]], [1.0, 3.0, 4.0, 6.0]);
        assert!((fine.cell * 29.0 - grid.cell * 2.0).abs() < 1e-12);
    }

    #[test]
    fn invalid_files_cause_errors() {
        for (from, to) in
            [("4 5 6", "4 5"), ("4 5 6", "4 5 6 7"), ("nrows 2", "nrows two"), ("cellsize", "side"), ("5", "five")]
        {
            assert!(parse(&SMALL.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}
