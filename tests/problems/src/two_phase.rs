//! 3D systems of two-phase flow: -div(1/rho grad p) on cubes of cells, 7 points, walls without flow.
//!
//! The unit cube has nx x ny x nz cells, x fastest. The centre of cell (i, j, k) is ((i + .5)/nx, (j + .5)/ny, (k +
//! .5)/nz). kappa = 1/rho is 1 in water and 1/contrast in air. A face has the harmonic mean 2 a b / (a + b) of its two
//! cells. Entries are not divided by h^2.

use crate::OUTSIDE;

/// A symmetric 7-point matrix, `a[(k * ny + j) * nx + i]` without padding, and its right-hand sides.
#[derive(Clone, Debug)]
pub struct TwoPhase {
    /// Number of cells in x, y and z.
    pub size: [usize; 3],
    /// Diagonal entries.
    pub center: Vec<f64>,
    /// Entries that couple a cell to (i + 1, j, k), (i, j + 1, k) and (i, j, k + 1); `OUTSIDE` if they point out of the
    /// grid.
    pub forward: [Vec<f64>; 3],
    /// Cells of the light phase.
    pub air: Vec<bool>,
    /// Cells inside an obstacle: rows without couplings, center 1.
    pub solid: Vec<bool>,
}

/// Names of geometries.
pub const SETS: [&str; 16] =
    ["0", "1", "8", "9", "27", "27t", "9s", "P3", "r200", "dam", "surf", "film", "sheet", "sheet2", "spray", "drops"];

/// Suffixes of a name, after a semicolon.
pub const PARTS: [&str; 4] = ["asp=4", "dir=top", "obs=hole", "obs=box"];

/// Names of right-hand sides.
pub const RHS: [&str; 3] = ["rand", "cos", "csf"];

/// A sphere: centre and radius.
type Sphere = ([f64; 3], f64);

/// Random generator (SplitMix64).
pub struct SplitMix(pub u64);

impl SplitMix {
    /// Returns the next random number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the next 64 random bits.
    #[allow(clippy::should_implement_trait)] // The sequence is infinite.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Returns the centres of a set of bubbles of radius 0.1.
fn bubbles(set: &str) -> Vec<[f64; 3]> {
    let corners = |at: &[f64]| -> Vec<[f64; 3]> {
        let mut all = Vec::new();
        for &z in at {
            for &y in at {
                all.extend(at.iter().map(|&x| [x, y, z]));
            }
        }
        all
    };
    let middle = [0.5; 3];
    match set {
        "0" => Vec::new(),
        "1" => vec![middle],
        "8" => corners(&[0.25, 0.75]),
        "9" => [corners(&[0.25, 0.75]), vec![middle]].concat(),
        "27" => corners(&[0.25, 0.5, 0.75]),
        "27t" => corners(&[1.0 / 6.0, 0.5, 5.0 / 6.0]),
        "9s" => {
            let s = 1.0 / 16.0;
            let shifted = corners(&[0.0, 1.0]).into_iter().map(|[i, j, k]| {
                let at = |c: f64, part: f64| 0.25 + 0.5 * c + s * (1.0 - 2.0 * c) / part;
                [at(i, 1.0), at(j, 2.0), at(k, 4.0)]
            });
            shifted.chain([middle]).collect()
        }
        _ => panic!("unknown set of bubbles '{set}'"),
    }
}

fn within(spheres: &[Sphere], at: [f64; 3]) -> bool {
    spheres.iter().any(|(centre, radius)| {
        let d = [0, 1, 2].map(|a| at[a] - centre[a]);
        d[0] * d[0] + d[1] * d[1] + d[2] * d[2] < radius * radius
    })
}

/// Returns 200 random bubbles, which may overlap.
fn random_spheres() -> Vec<Sphere> {
    let mut random = SplitMix(777);
    (0..200)
        .map(|_| {
            let [x, y, z, u] = [(); 4].map(|()| random.unit());
            ([x, y, z], 0.02 + 0.04 * u)
        })
        .collect()
}

/// The nine bubbles of the set P3.
const NINE: [Sphere; 9] = [
    ([0.26, 0.24, 0.25], 0.12),
    ([0.75, 0.26, 0.23], 0.11),
    ([0.24, 0.76, 0.27], 0.13),
    ([0.74, 0.75, 0.25], 0.10),
    ([0.5, 0.51, 0.49], 0.14),
    ([0.25, 0.27, 0.76], 0.11),
    ([0.77, 0.24, 0.74], 0.12),
    ([0.26, 0.74, 0.75], 0.10),
    ([0.73, 0.76, 0.77], 0.13),
];

/// Returns for each cell whether it is air.
fn phases(name: &str, size: [usize; 3]) -> Vec<bool> {
    use std::f64::consts::PI;
    let [nx, ny, nz] = size;
    let spheres: Vec<Sphere> = match name {
        "P3" => NINE.to_vec(),
        "r200" => random_spheres(),
        "dam" | "surf" | "film" | "sheet" | "sheet2" | "spray" | "drops" => Vec::new(),
        set => bubbles(set).into_iter().map(|centre| (centre, 0.1)).collect(),
    };
    let mut random = SplitMix(4242);
    let mut air = Vec::with_capacity(nx * ny * nz);
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                let at = [(i, nx), (j, ny), (k, nz)].map(|(i, n)| (i as f64 + 0.5) / n as f64);
                let [x, y, z] = at;
                let inside = |low: f64, high: f64| at.iter().all(|&c| low < c && c < high);
                air.push(match name {
                    "dam" => !(x < 0.4 && z < 0.6),
                    "surf" => z > 0.5 + 0.1 * (2.0 * PI * x).cos() * (4.0 * PI * y).cos(),
                    "film" => inside(0.15, 0.85) && i != nx / 2 && j != ny / 2 && k != nz / 2,
                    "sheet" => inside(0.1, 0.9) && (i == nx / 4 || i == nx / 2 + 1 || j == ny / 3),
                    "sheet2" => inside(0.1, 0.9) && (i == nx / 4 || i == nx / 4 + 1 || j == ny / 3),
                    "spray" => random.unit() < 0.02,
                    "drops" => random.unit() >= 0.02,
                    _ => within(&spheres, at),
                });
            }
        }
    }
    air
}

impl TwoPhase {
    /// Creates the system of a golden row; `name` is that of the column `set` (`9`, `27t`, `dam`, `9;asp=4`,
    /// `surf;obs=box`, `9;dir=top`, ...).
    #[must_use]
    pub fn new(name: &str, size: [usize; 3], contrast: f64) -> Self {
        let set = name.split(';').next().expect("a name");
        Self::of_air(phases(set, size), &name[set.len()..], size, contrast)
    }

    /// Creates the system with air in the given cells; `parts` is the suffix of a name.
    #[must_use]
    pub fn of_air(air: Vec<bool>, parts: &str, size: [usize; 3], contrast: f64) -> Self {
        let parts = parts.split(';').filter(|part| !part.is_empty());
        let cells = size[0] * size[1] * size[2];
        let mut a = Self {
            size,
            center: vec![0.0; cells],
            forward: [(); 3].map(|()| vec![OUTSIDE; cells]),
            air,
            solid: vec![false; cells],
        };
        let (mut scale, mut open_top, mut hole) = ([1.0; 3], false, false);
        for part in parts {
            match part {
                "asp=4" => scale = [0.25, 0.25, 4.0],
                "dir=top" => open_top = true,
                "obs=hole" => hole = true,
                "obs=box" => a.place_obstacles(),
                // These parts are parameters of the method, not of the problem.
                _ => assert!(part.starts_with("semi=") || part.starts_with("min="), "unknown part '{part}' of a name"),
            }
        }
        let kappa: Vec<f64> = a.air.iter().map(|&air| if air { 1.0 / contrast } else { 1.0 }).collect();
        let [nx, ny, nz] = size;
        let step = [1, nx, nx * ny];
        for c in 0..cells {
            let at = [c % nx, c / nx % ny, c / (nx * ny)];
            for d in 0..3 {
                if at[d] + 1 == size[d] {
                    continue;
                }
                let next = c + step[d];
                let shut = a.solid[c] || a.solid[next] || hole && d == 0 && at[0] == nx / 2 && !a.in_hole(at);
                let face = if shut { 0.0 } else { scale[d] * 2.0 * kappa[c] * kappa[next] / (kappa[c] + kappa[next]) };
                a.forward[d][c] = -face;
                a.center[c] += face;
                a.center[next] += face;
            }
            if open_top && at[2] + 1 == nz {
                a.center[c] += 2.0 * kappa[c] * scale[2];
            }
        }
        for c in 0..cells {
            if a.solid[c] {
                a.center[c] = 1.0;
            }
        }
        a
    }

    /// Adds two solid blocks.
    fn place_obstacles(&mut self) {
        let [nx, ny, nz] = self.size;
        for c in 0..self.solid.len() {
            let at = [(c % nx, nx), (c / nx % ny, ny), (c / (nx * ny), nz)];
            let [x, y, z] = at.map(|(i, n)| (i as f64 + 0.5) / n as f64);
            let between = |v: f64, low: f64, high: f64| low < v && v < high;
            self.solid[c] = between(x, 0.3, 0.45) && between(y, 0.2, 0.6) && z < 0.55
                || between(x, 0.6, 0.72) && between(z, 0.35, 0.5);
        }
    }

    /// Returns whether a wall at i = nx / 2 is open at this cell.
    fn in_hole(&self, at: [usize; 3]) -> bool {
        let near = |d: usize| ((at[d] as f64 + 0.5) / self.size[d] as f64 - 0.5).abs() < 0.1;
        near(1) && near(2)
    }

    /// Returns the number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.center.len()
    }

    /// Creates a right-hand side: `rand`, `cos`, or `csf` (P3 only). It is zero in obstacles and has mean zero
    /// elsewhere.
    #[must_use]
    pub fn rhs(&self, name: &str) -> Vec<f64> {
        let mut b = match name {
            "rand" => {
                let mut random = SplitMix(12345);
                (0..self.cells()).map(|_| 2.0 * random.unit() - 1.0).collect()
            }
            "cos" => self.cosines(),
            "csf" => self.surface_tension(),
            _ => panic!("unknown right-hand side '{name}'"),
        };
        let fluid = self.solid.iter().filter(|&&solid| !solid).count();
        let sum: f64 = b.iter().zip(&self.solid).filter(|(_, solid)| !**solid).map(|(b, _)| b).sum();
        let mean = sum / fluid as f64;
        for (b, &solid) in b.iter_mut().zip(&self.solid) {
            *b = if solid { 0.0 } else { *b - mean };
        }
        b
    }

    fn cosines(&self) -> Vec<f64> {
        use std::f64::consts::PI;
        let [nx, ny, nz] = self.size;
        let value = |c: usize| {
            let [x, y, z] =
                [(c % nx, nx), (c / nx % ny, ny), (c / (nx * ny), nz)].map(|(i, n)| (i as f64 + 0.5) / n as f64);
            (PI * x).cos() + (2.0 * PI * y).cos() * (PI * z).cos()
        };
        (0..self.cells()).map(value).collect()
    }

    /// Returns the divergence of a smooth velocity, with pressure jumps at surfaces.
    fn surface_tension(&self) -> Vec<f64> {
        use std::f64::consts::PI;
        let [nx, ny, _] = self.size;
        let step = [1, nx, nx * ny];
        let h = 1.0 / nx as f64;
        let mut b = vec![0.0; self.cells()];
        for c in 0..self.cells() {
            let at = [c % nx, c / nx % ny, c / (nx * ny)];
            let middle = at.map(|i| (i as f64 + 0.5) * h);
            for d in 0..3 {
                if at[d] + 1 == self.size[d] {
                    continue;
                }
                let next = c + step[d];
                let (x, y, z) = ((at[d] as f64 + 1.0) * h, middle[(d + 1) % 3], middle[(d + 2) % 3]);
                let smooth =
                    (PI * x).sin() * ((2.0 * PI * y).cos() + 0.5 * (PI * z).cos() * (3.0 * y + d as f64).sin()) * h;
                let of = |c: usize| f64::from(u8::from(self.air[c]));
                let flux = smooth - 0.02 * self.forward[d][c] * (of(next) - of(c));
                b[c] -= flux;
                b[next] += flux;
            }
        }
        b
    }

    /// Returns (cell, next cell, coupling) for all couplings within the box.
    #[must_use]
    pub fn couplings(&self) -> Vec<(usize, usize, f64)> {
        let [nx, ny, _] = self.size;
        let mut all = Vec::new();
        for (f, step) in self.forward.iter().zip([1, nx, nx * ny]) {
            all.extend(f.iter().enumerate().filter(|(_, a)| !a.is_nan()).map(|(c, &a)| (c, c + step, a)));
        }
        all
    }

    /// Computes ||b - A x||_2 / ||b||_2.
    #[must_use]
    pub fn relative_residual(&self, b: &[f64], x: &[f64]) -> f64 {
        let [nx, ny, _] = self.size;
        let mut r: Vec<f64> = (0..self.cells()).map(|c| b[c] - self.center[c] * x[c]).collect();
        for (d, step) in [1, nx, nx * ny].into_iter().enumerate() {
            for c in 0..self.cells() - step {
                let a = self.forward[d][c];
                if !a.is_nan() {
                    r[c] -= a * x[c + step];
                    r[c + step] -= a * x[c];
                }
            }
        }
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        norm(&r) / norm(b)
    }
}
