//! Raw stencil files: a symmetric 5-point (2D) or 7-point (3D) matrix with its right-hand side, as described in
//! docs/guides/files-and-tool.md.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::library::Rows;

/// First bytes of a raw file.
const MAGIC: &[u8; 8] = b"STENCIL1";
/// Number of bytes before the arrays: the magic, six integers, and a name.
const HEAD: usize = 8 + 6 * 4 + 16;

/// A symmetric stencil on a box, x fastest, with the couplings to the next point in x, y and z.
pub struct Stencil {
    /// Number of points in x, y and z.
    pub n: [usize; 3],
    pub center: Vec<f64>,
    pub east: Vec<f64>,
    pub north: Vec<f64>,
    /// Empty in 2D.
    pub top: Vec<f64>,
    pub rhs: Vec<f64>,
}

/// Returns whether a file begins like a raw one. Unreadable files return false, and the library reports the error.
pub fn is_raw(path: &Path) -> bool {
    let mut first = [0; 8];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *MAGIC
}

impl Stencil {
    /// Returns whether the stencil is 3D.
    pub fn in_space(&self) -> bool {
        !self.top.is_empty()
    }

    /// Creates -Laplace u = 1 with u = 0 outside, on nx x ny x nz points; nz = 1 means 2D.
    pub fn poisson(n: [usize; 3]) -> Self {
        let points: usize = n.iter().product();
        let in_space = n[2] > 1;
        let inside = |axis: usize| {
            move |id: usize| {
                let before: usize = n[..axis].iter().product();
                if id / before % n[axis] + 1 < n[axis] { -1.0 } else { 0.0 }
            }
        };
        let couplings = |axis: usize| (0..points).map(inside(axis)).collect::<Vec<f64>>();
        Self {
            n,
            center: vec![if in_space { 6.0 } else { 4.0 }; points],
            east: couplings(0),
            north: couplings(1),
            top: if in_space { couplings(2) } else { Vec::new() },
            rhs: vec![1.0; points],
        }
    }

    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("{shown}: cannot be opened"))?;
        let length = file.metadata().with_context(|| format!("{shown}: has no length"))?.len();
        let mut file = BufReader::new(file);
        let mut head = [0; HEAD];
        if file.read_exact(&mut head).is_err() {
            bail!(
                "{shown}: {length} bytes, fewer than the {HEAD}-byte header of a raw stencil file; the file is \
                   truncated"
            );
        }
        let number = |k: usize| i32::from_le_bytes(head[8 + 4 * k..12 + 4 * k].try_into().unwrap_or_default());
        let (dimensions, extents) = (number(0), [number(1), number(2), number(3)]);
        ensure!([2, 3].contains(&dimensions), "{shown}: dimensions must be 2 or 3, got {dimensions}");
        let mut n = [0; 3];
        for (k, name) in ["nx", "ny", "nz"].into_iter().enumerate() {
            let most = if dimensions == 2 && k == 2 { 1 } else { i32::MAX };
            let range = if most == 1 { "be 1 in 2D".to_owned() } else { "be at least 1".to_owned() };
            ensure!((1..=most).contains(&extents[k]), "{shown}: {name} must {range}, got {}", extents[k]);
            n[k] = extents[k] as usize;
        }
        let arrays = if dimensions == 2 { 4 } else { 5 };
        let points = n.iter().map(|&n| n as u128).product::<u128>();
        let expected = HEAD as u128 + points * 8 * arrays;
        ensure!(
            expected == u128::from(length),
            "{shown}: {length} bytes, but {dimensions}D arrays of {} x {} x {} points need {expected}",
            n[0],
            n[1],
            n[2]
        );
        // The size of the file was checked.
        let points = points as usize;
        let mut array = |name: &str| values(&mut file, points).with_context(|| format!("{shown}: array {name}"));
        let (center, east, north) = (array("center")?, array("east")?, array("north")?);
        let top = if dimensions == 3 { array("top")? } else { Vec::new() };
        Ok(Self { n, center, east, north, top, rhs: array("b")? })
    }

    /// Returns the matrix in CSR format. Zero couplings, and those that point out of the box, are no entries.
    pub fn rows(&self) -> Rows {
        let (plane, all) = (self.n[0] * self.n[1], self.center.len());
        let mut rows = Rows { ptr: vec![0], cols: Vec::new(), values: Vec::new() };
        for id in 0..all {
            let at = [id % self.n[0], id / self.n[0] % self.n[1], id / plane];
            let mut put = |col: usize, value: f64| {
                if value != 0.0 || col == id {
                    rows.cols.push(col as i64);
                    rows.values.push(value);
                }
            };
            let steps = [(2, plane, &self.top), (1, self.n[0], &self.north), (0, 1, &self.east)];
            let inside = |axis: usize| axis < 2 || self.in_space();
            for (axis, step, coupling) in steps {
                if inside(axis) && at[axis] > 0 {
                    put(id - step, coupling[id - step]);
                }
            }
            put(id, self.center[id]);
            for (axis, step, coupling) in steps.into_iter().rev() {
                if inside(axis) && at[axis] + 1 < self.n[axis] {
                    put(id + step, coupling[id]);
                }
            }
            rows.ptr.push(rows.cols.len() as i64);
        }
        rows
    }
}

fn values(file: &mut impl Read, count: usize) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(count);
    let mut buffer = vec![0; 8 * 65536];
    while all.len() < count {
        let bytes = (8 * (count - all.len())).min(buffer.len());
        file.read_exact(&mut buffer[..bytes])?;
        let value = |eight: &[u8]| f64::from_le_bytes(eight.try_into().unwrap_or_default());
        all.extend(buffer[..bytes].chunks_exact(8).map(value));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 2 x 2 points; couplings out of the box (east of points 1 and 3, north of 2 and 3) are no
    /// entries.
    #[test]
    fn a_stencil_by_rows() {
        let stencil = Stencil {
            n: [2, 2, 1],
            center: vec![4.0, 5.0, 6.0, 7.0],
            east: vec![-1.0, 9.0, -2.0, 9.0],
            north: vec![-3.0, 0.0, 9.0, 9.0],
            top: Vec::new(),
            rhs: vec![0.0; 4],
        };
        let rows = stencil.rows();
        assert_eq!(rows.ptr, [0, 3, 5, 8, 10]);
        assert_eq!(rows.cols, [0, 1, 2, 0, 1, 0, 2, 3, 2, 3]);
        assert_eq!(rows.values, [4.0, -1.0, -3.0, -1.0, 5.0, -3.0, 6.0, -2.0, -2.0, 7.0]);
    }

    #[test]
    fn a_box_couples_to_its_next_plane() {
        let stencil = Stencil {
            n: [1, 1, 2],
            center: vec![2.0, 2.0],
            east: vec![0.0; 2],
            north: vec![0.0; 2],
            top: vec![-1.0, 5.0],
            rhs: vec![0.0; 2],
        };
        let rows = stencil.rows();
        assert_eq!((rows.cols, rows.values), (vec![0, 1, 0, 1], vec![2.0, -1.0, -1.0, 2.0]));
    }
}
