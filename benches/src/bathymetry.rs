//! ESRI ASCII grids of depths, plain or compressed by gzip.

use rrbsolver_problems::{Stencil, waves};
use std::io::Read as _;
use std::path::Path;

/// Depths [m], positive down, rows from south to north.
pub struct Bathymetry {
    nx: usize,
    ny: usize,
    cell: f64,
    depth: Vec<f64>,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Bathymetry, String> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut text = String::new();
    let outcome = if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)
    } else {
        (&bytes[..]).read_to_string(&mut text)
    };
    outcome.map_err(|error| format!("cannot read {shown}: {error}"))?;
    parse(&text).map_err(|complaint| format!("{shown}: {complaint}"))
}

/// Lines of a key and a value, in any order and case, then rows from north to south.
fn parse(text: &str) -> Result<Bathymetry, String> {
    let (mut columns, mut rows, mut cell, mut no_data) = (None, None, None, -9999.0);
    let mut words = text.split_ascii_whitespace().peekable();
    while let Some(key) = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())) {
        let value: f64 = words.next().and_then(|w| w.parse().ok()).ok_or_else(|| format!("no number after {key}"))?;
        match key.to_ascii_lowercase().as_str() {
            "ncols" => columns = Some(value as usize),
            "nrows" => rows = Some(value as usize),
            "cellsize" => cell = Some(value),
            "nodata_value" => no_data = value,
            "xllcorner" | "yllcorner" | "xllcenter" | "yllcenter" => {}
            _ => return Err(format!("{key} is no key of an ESRI ASCII grid")),
        }
    }
    let (Some(nx), Some(ny), Some(cell)) = (columns, rows, cell) else {
        return Err("ncols, nrows and cellsize are needed".to_owned());
    };
    if nx < 2 || ny < 2 || cell <= 0.0 || nx.checked_mul(ny).is_none_or(|n| n > u32::MAX as usize) {
        return Err(format!("{nx} x {ny} cells of {cell} m are no grid"));
    }
    let mut depth = vec![0.0; nx * ny];
    for j in (0..ny).rev() {
        for value in &mut depth[j * nx..(j + 1) * nx] {
            let word = words.next().ok_or_else(|| format!("fewer than {nx} x {ny} depths"))?;
            let read: f64 = word.parse().map_err(|_| format!("{word} is no number"))?;
            *value = if read == no_data || !read.is_finite() { 0.0 } else { read };
        }
    }
    if words.next().is_some() {
        return Err(format!("more than {nx} x {ny} depths"));
    }
    Ok(Bathymetry { nx, ny, cell, depth })
}

impl Bathymetry {
    /// The wave model's system (`rrbsolver_problems::waves`) for two crossing waves, 25 and 11 cells long.
    pub fn waves(self, least_depth: f64) -> (Stencil, Vec<f64>) {
        let depth: Vec<f64> = self.depth.iter().map(|&h| if h >= least_depth { h } else { 0.0 }).collect();
        let turn = std::f64::consts::TAU;
        let phi: Vec<f64> = (0..depth.len())
            .map(|p| {
                let (x, y) = ((p % self.nx) as f64, (p / self.nx) as f64);
                (turn * (0.8 * x + 0.6 * y) / 25.0).sin() + 0.5 * (turn * (0.6 * x - 0.8 * y) / 11.0).sin()
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
    fn the_first_line_is_the_north() {
        let grid = parse(SMALL).unwrap();
        assert_eq!((grid.nx, grid.ny, grid.cell), (3, 2, 2.5));
        assert_eq!(grid.depth, [1.0, 0.0, 3.0, 4.0, 5.0, 6.0]);
        let (a, b) = grid.waves(2.0);
        // Wet: (2, 0) and the northern row. Land rows are decoupled.
        assert_eq!(a.east[..2], [0.0, 0.0]);
        assert!(a.north[2] < 0.0 && a.north[0] == 0.0 && a.east[3] < 0.0);
        assert_eq!((b[0], b[1]), (0.0, 0.0));
        // Closed edges: what leaves one node enters another, to rounding.
        assert!(b.iter().sum::<f64>().abs() < 1e-13 && b[2] != 0.0);
    }

    #[test]
    fn wrong_files_are_refused() {
        for (from, to) in
            [("4 5 6", "4 5"), ("4 5 6", "4 5 6 7"), ("nrows 2", "nrows two"), ("cellsize", "side"), ("5", "five")]
        {
            assert!(parse(&SMALL.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}
