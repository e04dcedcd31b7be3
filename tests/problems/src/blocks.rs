//! Constant 7- and 27-point stencils on 3D patches, and the golden rows of block relaxation.

/// Returns a stencil of `golden/smoother.csv` by its name.
pub fn stencil(name: &str) -> Vec<f64> {
    match name {
        "poisson7" => vec![6.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0],
        "aniso7" => vec![2.22, -1.0, -1.0, -0.1, -0.1, -0.01, -0.01],
        "anisoz7" => vec![2.22, -0.01, -0.01, -0.1, -0.1, -1.0, -1.0],
        "conv7" => vec![6.0, -1.5, -0.5, -1.25, -0.75, -1.0, -1.0],
        "fe27" => {
            let (k, m) = ([-1.0, 2.0, -1.0], [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0]);
            (0..27)
                .map(|p| (p % 3, p / 3 % 3, p / 9))
                .map(|(a, b, c)| k[a] * m[b] * m[c] + m[a] * k[b] * m[c] + m[a] * m[b] * k[c])
                .collect()
        }
        // The stencil has a mixed derivative, so no sine transform diagonalizes it.
        "mixed27" => {
            let mut s = stencil("fe27");
            for (p, v) in [(17, 0.05), (9, 0.05), (11, -0.05), (15, -0.05)] {
                s[p] += v;
            }
            s
        }
        _ => panic!("unknown stencil {name}"),
    }
}

/// Random generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "the name of the sequence's step")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a random number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Patches with their arrays.
#[derive(Clone)]
pub struct Level {
    /// First cell of each patch.
    pub lower: Vec<[i64; 3]>,
    /// Number of cells in x, y and z of each patch.
    pub size: Vec<[i64; 3]>,
    /// u of each patch, with one layer of ghost cells.
    pub u: Vec<Vec<f64>>,
    /// Right-hand side of each patch, without ghost cells.
    pub f: Vec<Vec<f64>>,
}

impl Level {
    /// Creates patches with zero u and f.
    pub fn new(patches: &[([i64; 3], [i64; 3])]) -> Level {
        let count = |s: &[i64; 3], ghosts: i64| s.iter().map(|n| (n + ghosts) as usize).product();
        Level {
            lower: patches.iter().map(|p| p.0).collect(),
            size: patches.iter().map(|p| p.1).collect(),
            u: patches.iter().map(|p| vec![0.0; count(&p.1, 2)]).collect(),
            f: patches.iter().map(|p| vec![0.0; count(&p.1, 0)]).collect(),
        }
    }

    /// Creates one patch of n^3 cells from (0, 0, 0).
    pub fn cube(n: i64) -> Level {
        Level::new(&[([0; 3], [n; 3])])
    }

    /// Creates n^3 cells in parts^3 patches.
    pub fn cut_cube(n: i64, parts: i64) -> Level {
        let side = n / parts;
        let corner = |q: i64| [q % parts * side, q / parts % parts * side, q / parts / parts * side];
        Level::new(&(0..parts.pow(3)).map(|q| (corner(q), [side; 3])).collect::<Vec<_>>())
    }

    /// Returns the number of cells of all patches.
    pub fn cells(&self) -> usize {
        self.f.iter().map(Vec::len).sum()
    }

    /// Sets u (except ghost cells) and f as functions of the global cell.
    pub fn set(&mut self, u: impl Fn([i64; 3]) -> f64, f: impl Fn([i64; 3]) -> f64) {
        for p in 0..self.u.len() {
            let ([nx, ny, nz], [x, y, z]) = (self.size[p], self.lower[p]);
            for k in 0..nz {
                for j in 0..ny {
                    for i in 0..nx {
                        let cell = [x + i, y + j, z + k];
                        self.u[p][(((k + 1) * (ny + 2) + j + 1) * (nx + 2) + i + 1) as usize] = u(cell);
                        self.f[p][((k * ny + j) * nx + i) as usize] = f(cell);
                    }
                }
            }
        }
    }

    /// Creates a cube whose u has random numbers in [0, 1) in cell order, as the golden rows require, and f = 0.
    pub fn golden(n: i64, parts: i64) -> Level {
        let mut random = Random(42);
        let values: Vec<f64> = (0..n * n * n).map(|_| random.uniform()).collect();
        let mut level = if parts == 1 { Level::cube(n) } else { Level::cut_cube(n, parts) };
        level.set(|[i, j, k]| values[((k * n + j) * n + i) as usize], |_| 0.0);
        level
    }

    /// Sets random u, including ghost cells, and random f.
    pub fn random(&mut self, seed: u64) {
        let mut random = Random(seed);
        for v in self.u.iter_mut().chain(&mut self.f).flatten() {
            *v = random.uniform() - 0.5;
        }
    }

    /// Returns u at a global cell.
    pub fn at(&self, cell: [i64; 3]) -> f64 {
        for p in 0..self.u.len() {
            let at: Vec<i64> = (0..3).map(|d| cell[d] - self.lower[p][d]).collect();
            if (0..3).all(|d| at[d] >= 0 && at[d] < self.size[p][d]) {
                let [nx, ny, _] = self.size[p];
                return self.u[p][(((at[2] + 1) * (ny + 2) + at[1] + 1) * (nx + 2) + at[0] + 1) as usize];
            }
        }
        panic!("no patch has {cell:?}");
    }

    /// Returns the table of the arrays u.
    pub fn u_table(&mut self) -> Vec<*mut f64> {
        self.u.iter_mut().map(|u| u.as_mut_ptr()).collect()
    }

    /// Returns the table of the arrays f.
    pub fn f_table(&self) -> Vec<*const f64> {
        self.f.iter().map(|f| f.as_ptr()).collect()
    }
}

/// Block sizes of the paper.
pub const BLOCKS: [[i64; 3]; 7] = [[2, 2, 2], [4, 2, 2], [4, 4, 2], [4, 4, 4], [8, 4, 4], [8, 8, 4], [8, 8, 8]];

/// Creates patches of irregular sizes and positions, some of them adjacent.
pub fn awkward() -> Level {
    let mut level = Level::new(&[
        ([-3, 2, 0], [9, 7, 5]),
        ([6, 2, 0], [11, 13, 3]),
        ([-3, 9, 0], [9, 1, 5]),
        ([40, 40, 40], [1, 1, 1]),
        ([100, -20, -31], [16, 17, 19]),
        ([-3, 2, 5], [20, 8, 17]),
    ]);
    level.random(7);
    level
}

/// A row of `golden/smoother.csv`, except rows of random order.
pub struct Record {
    /// Name of the stencil.
    pub stencil: String,
    /// Method: bj (block Jacobi), gs (block Gauss-Seidel) or rb (coloured block Gauss-Seidel).
    pub method: String,
    /// Cells of a block in x, y and z.
    pub block: [i64; 3],
    /// Relaxation factor omega.
    pub omega: f64,
    /// Relative residuals after 1 and 3 sweeps.
    pub after: [f64; 2],
}

/// Returns all rows.
pub fn records() -> Vec<Record> {
    let text = include_str!("../../golden/smoother.csv");
    let number = |t: &str| t.parse::<f64>().expect("a number");
    let record = |line: &str| {
        let word: Vec<&str> = line.split(',').collect();
        let block: Vec<i64> = word[3].split('x').map(|b| b.parse().expect("a block")).collect();
        Record {
            stencil: word[0].to_owned(),
            method: word[2].to_owned(),
            block: [block[0], block[1], block[2]],
            omega: number(word[4]),
            after: [number(word[5]), number(word[6])],
        }
    };
    let all: Vec<Record> = text.lines().skip(1).map(record).collect();
    assert_eq!(all.len(), 105);
    all
}

impl Record {
    /// Returns the library options for method and relaxation factor.
    pub fn options(&self) -> String {
        let method = match self.method.as_str() {
            "bj" => "method=block_jacobi",
            "gs" => "method=chaotic_gauss_seidel parallel=patch",
            "rb" => "method=coloured_gauss_seidel",
            other => panic!("{other}"),
        };
        format!("{method} omega={}", self.omega)
    }
}
