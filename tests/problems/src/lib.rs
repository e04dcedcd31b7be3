//! The test problems: matrices in the array form of the C interface, and right-hand sides.
//!
//! A square problem "with n" has (n - 1) x (n - 1) unknowns, h = 1/n, and node (i, j), i, j = 0.., is at ((i + 1) h, (j
//! + 1) h). Entries are not divided by h^2. Entries that point out of the grid are `OUTSIDE`.

pub mod blocks;
pub mod cases;
pub mod cavity;
pub mod circuit;
pub mod golden;
pub mod hard;
pub mod hard_suite;
pub mod mesh;
pub mod sparse;
pub mod system;
pub mod twice;
pub mod two_phase;

/// Value of entries that point out of the grid. The library must not read them; NaN would make such an error visible.
pub const OUTSIDE: f64 = f64::NAN;

/// A symmetric 5- or 9-point matrix: `a[j * nx + i]`, i fastest, no padding.
#[derive(Clone, Debug)]
pub struct Stencil {
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Diagonal entries.
    pub center: Vec<f64>,
    /// Entries between (i, j) and (i + 1, j).
    pub east: Vec<f64>,
    /// Entries between (i, j) and (i, j + 1).
    pub north: Vec<f64>,
    /// Entries between (i, j) and (i + 1, j + 1), and between (i, j) and (i - 1, j + 1).
    pub corners: Option<(Vec<f64>, Vec<f64>)>,
}

impl Stencil {
    /// Creates a zero matrix, with `OUTSIDE` in entries that point out of the grid.
    pub fn zeros(nx: usize, ny: usize, nine_point: bool) -> Stencil {
        let mut a = Stencil {
            nx,
            ny,
            center: vec![0.0; nx * ny],
            east: vec![0.0; nx * ny],
            north: vec![0.0; nx * ny],
            corners: nine_point.then(|| (vec![0.0; nx * ny], vec![0.0; nx * ny])),
        };
        for j in 0..ny {
            a.east[j * nx + nx - 1] = OUTSIDE;
        }
        for i in 0..nx {
            a.north[(ny - 1) * nx + i] = OUTSIDE;
        }
        if let Some((northeast, northwest)) = &mut a.corners {
            for j in 0..ny {
                northeast[j * nx + nx - 1] = OUTSIDE;
                northwest[j * nx] = OUTSIDE;
            }
            for i in 0..nx {
                northeast[(ny - 1) * nx + i] = OUTSIDE;
                northwest[(ny - 1) * nx + i] = OUTSIDE;
            }
        }
        a
    }

    /// Creates a constant stencil; `corners` = (northeast, northwest).
    pub fn constant(nx: usize, ny: usize, center: f64, east: f64, north: f64, corners: Option<(f64, f64)>) -> Stencil {
        let mut a = Stencil::zeros(nx, ny, corners.is_some());
        a.center.fill(center);
        let fill = |array: &mut [f64], value: f64| {
            array.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = value);
        };
        fill(&mut a.east, east);
        fill(&mut a.north, north);
        if let (Some((northeast, northwest)), Some((ne, nw))) = (&mut a.corners, corners) {
            fill(northeast, ne);
            fill(northwest, nw);
        }
        a
    }

    /// Returns the number of unknowns.
    #[expect(clippy::len_without_is_empty, reason = "a grid has nodes")]
    pub fn len(&self) -> usize {
        self.nx * self.ny
    }

    /// Returns every coupling inside the grid once, as (row, column, value).
    pub fn couplings(&self) -> Vec<(usize, usize, f64)> {
        let (nx, ny) = (self.nx, self.ny);
        let mut all = Vec::new();
        for j in 0..ny {
            for i in 0..nx {
                let p = j * nx + i;
                if i + 1 < nx {
                    all.push((p, p + 1, self.east[p]));
                }
                if j + 1 < ny {
                    all.push((p, p + nx, self.north[p]));
                    if let Some((northeast, northwest)) = &self.corners {
                        if i + 1 < nx {
                            all.push((p, p + nx + 1, northeast[p]));
                        }
                        if i > 0 {
                            all.push((p, p + nx - 1, northwest[p]));
                        }
                    }
                }
            }
        }
        all
    }

    /// Computes y = A x without optimization.
    pub fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let mut y: Vec<f64> = self.center.iter().zip(x).map(|(c, x)| c * x).collect();
        for (p, q, a) in self.couplings() {
            y[p] += a * x[q];
            y[q] += a * x[p];
        }
        y
    }

    /// Computes b - A x.
    pub fn residual(&self, b: &[f64], x: &[f64]) -> Vec<f64> {
        self.multiply(x).iter().zip(b).map(|(ax, b)| b - ax).collect()
    }

    /// Computes b - A x as in twice the working precision, and rounds the result. The rounding errors of products and
    /// sums are computed and added (Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005, algorithm 5.3).
    pub fn exact_residual(&self, b: &[f64], x: &[f64]) -> Vec<f64> {
        let mut rows: Vec<(f64, f64)> = b.iter().map(|&b| (b, 0.0)).collect();
        let mut subtract = |p: usize, a: f64, x: f64| {
            let (sum, errors) = rows[p];
            let product = -a * x;
            let total = sum + product;
            let added = total - sum;
            let lost = (sum - (total - added)) + (product - added);
            rows[p] = (total, errors + (lost + (-a).mul_add(x, -product)));
        };
        (0..self.len()).for_each(|p| subtract(p, self.center[p], x[p]));
        for (p, q, a) in self.couplings() {
            subtract(p, a, x[q]);
            subtract(q, a, x[p]);
        }
        rows.into_iter().map(|(sum, errors)| sum + errors).collect()
    }

    /// Sets the centers so that row p has the sum `row_sum(p)`.
    pub fn set_row_sums(&mut self, row_sum: impl Fn(usize) -> f64) {
        for p in 0..self.len() {
            self.center[p] = row_sum(p);
        }
        for (p, q, a) in self.couplings() {
            self.center[p] -= a;
            self.center[q] -= a;
        }
    }

    /// Multiplies every entry by `factor`.
    pub fn scale(&mut self, factor: f64) {
        let mut arrays = vec![&mut self.center, &mut self.east, &mut self.north];
        if let Some((northeast, northwest)) = &mut self.corners {
            arrays.push(northeast);
            arrays.push(northwest);
        }
        arrays.into_iter().flatten().for_each(|v| *v *= factor);
    }

    /// Makes (i, j) a land point: a row without couplings with this center.
    pub fn decouple(&mut self, i: usize, j: usize, center: f64) {
        let (nx, ny) = (self.nx, self.ny);
        let p = j * nx + i;
        self.center[p] = center;
        if i + 1 < nx {
            self.east[p] = 0.0;
        }
        if i > 0 {
            self.east[p - 1] = 0.0;
        }
        if j + 1 < ny {
            self.north[p] = 0.0;
        }
        if j > 0 {
            self.north[p - nx] = 0.0;
        }
        if let Some((northeast, northwest)) = &mut self.corners {
            if j + 1 < ny {
                if i + 1 < nx {
                    northeast[p] = 0.0;
                }
                if i > 0 {
                    northwest[p] = 0.0;
                }
            }
            if j > 0 {
                if i > 0 {
                    northeast[p - nx - 1] = 0.0;
                }
                if i + 1 < nx {
                    northwest[p - nx + 1] = 0.0;
                }
            }
        }
    }
}

/// Random generator of the tests (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random number in [low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns `count` random numbers in [-1, 1).
    pub fn vector(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.range(-1.0, 1.0)).collect()
    }
}

/// Returns a random right-hand side with entries in [-1, 1).
pub fn random_rhs(count: usize, seed: u64) -> Vec<f64> {
    Random(seed).vector(count)
}

/// Returns a reproducible number in [0, 1) by a hash, for coefficient fields.
pub fn u(a: u32, b: u32, s: u32) -> f64 {
    let mut h = a.wrapping_mul(73_856_093) ^ b.wrapping_mul(19_349_663) ^ s.wrapping_mul(83_492_791);
    h ^= h >> 13;
    h = h.wrapping_mul(0x5bd1_e995);
    h ^= h >> 15;
    h = h.wrapping_mul(0x27d4_eb2d);
    h ^= h >> 16;
    f64::from(h) / 4_294_967_296.0
}

/// The 5-point Laplacian 4/-1 with Dirichlet boundary conditions.
pub fn poisson(nx: usize, ny: usize) -> Stencil {
    Stencil::constant(nx, ny, 4.0, -1.0, -1.0, None)
}

/// The solution u = x (x - 1) y (y - 1) exp(xy) of the papers' test problem.
pub fn poisson_solution(n: usize) -> Vec<f64> {
    on_nodes(n, |x, y| x * (x - 1.0) * y * (y - 1.0) * (x * y).exp())
}

/// The right-hand side h^2 f, f = -Laplace(u), of `poisson_f` and of the constant 9-point problems.
pub fn poisson_f_rhs(n: usize) -> Vec<f64> {
    let h = 1.0 / n as f64;
    on_nodes(n, |x, y| {
        let (p, q) = (x * (x - 1.0), y * (y - 1.0));
        let uxx = q * (2.0 + 2.0 * y * (2.0 * x - 1.0) + y * y * p);
        let uyy = p * (2.0 + 2.0 * x * (2.0 * y - 1.0) + x * x * q);
        -h * h * (x * y).exp() * (uxx + uyy)
    })
}

/// The right-hand side exp(-200 rho^2) sin(40 (x - 1/2)) of the `_smooth` rows; rho is the distance from the center.
pub fn smooth_rhs(n: usize) -> Vec<f64> {
    on_nodes(n, |x, y| {
        let rho2 = (x - 0.5).powi(2) + (y - 0.5).powi(2);
        (-200.0 * rho2).exp() * (40.0 * (x - 0.5)).sin()
    })
}

fn on_nodes(n: usize, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let h = 1.0 / n as f64;
    let mut values = Vec::with_capacity((n - 1) * (n - 1));
    for j in 1..n {
        for i in 1..n {
            values.push(f(i as f64 * h, j as f64 * h));
        }
    }
    values
}

/// Cells stretched by hx/hy = r: west and east -1/r, south and north -r.
pub fn aniso(n: usize, r: f64) -> Stencil {
    Stencil::constant(n - 1, n - 1, 2.0 / r + 2.0 * r, -1.0 / r, -r, None)
}

fn harmonic(a: f64, b: f64) -> f64 {
    2.0 * a * b / (a + b)
}

fn arithmetic(a: f64, b: f64) -> f64 {
    0.5 * (a + b)
}

/// Discretizes -div(k grad u) with face values `mean(k, k)`. Outer faces use the k of the node (`dirichlet`) or are
/// closed.
fn conductances(nx: usize, ny: usize, k: &[f64], mean: fn(f64, f64) -> f64, dirichlet: bool, shift: f64) -> Stencil {
    let mut a = Stencil::zeros(nx, ny, false);
    for j in 0..ny {
        for i in 0..nx {
            let p = j * nx + i;
            if i + 1 < nx {
                a.east[p] = -mean(k[p], k[p + 1]);
            }
            if j + 1 < ny {
                a.north[p] = -mean(k[p], k[p + nx]);
            }
        }
    }
    a.set_row_sums(|p| {
        let (i, j) = (p % nx, p / nx);
        let outer = [i == 0, i + 1 == nx, j == 0, j + 1 == ny];
        let faces = if dirichlet { outer.iter().filter(|&&o| o).count() } else { 0 };
        faces as f64 * k[p] + shift
    });
    a
}

fn node_field(n: usize, k: impl Fn(usize, usize, f64, f64) -> f64) -> Vec<f64> {
    let h = 1.0 / n as f64;
    let mut values = Vec::with_capacity((n - 1) * (n - 1));
    for j in 0..n - 1 {
        for i in 0..n - 1 {
            values.push(k(i, j, (i + 1) as f64 * h, (j + 1) as f64 * h));
        }
    }
    values
}

fn dirichlet_harmonic(n: usize, k: &[f64]) -> Stencil {
    conductances(n - 1, n - 1, k, harmonic, true, 0.0)
}

/// k = contrast or 1 on an 8 x 8 checkerboard.
pub fn checker8(n: usize, contrast: f64) -> Stencil {
    let k = node_field(n, |_, _, x, y| {
        let square = (8.0 * x) as usize + (8.0 * y) as usize;
        if square % 2 == 1 { contrast } else { 1.0 }
    });
    dirichlet_harmonic(n, &k)
}

/// k = contrast or 1, alternating from node to node.
pub fn checkerfine(n: usize, contrast: f64) -> Stencil {
    let k = node_field(n, |i, j, _, _| if (i + j) % 2 == 0 { contrast } else { 1.0 });
    dirichlet_harmonic(n, &k)
}

/// Returns the length of (dx, dy). `f64::hypot` needs GLIBC_2.35, but the programs are built for 2.34.
fn distance(dx: f64, dy: f64) -> f64 {
    (dx * dx + dy * dy).sqrt()
}

/// Twelve discs of k = `inside` in a medium of k = 1.
pub fn inclusions(n: usize, inside: f64) -> Stencil {
    let k = node_field(n, |_, _, x, y| {
        let hit = (0..12).any(|q| {
            let radius = 0.03 + 0.07 * u(q, 3, 3);
            distance(x - u(q, 1, 3), y - u(q, 2, 3)) < radius
        });
        if hit { inside } else { 1.0 }
    });
    dirichlet_harmonic(n, &k)
}

/// k = contrast^u with independent random u in each node.
pub fn random_field(n: usize, contrast: f64) -> Stencil {
    let k = node_field(n, |i, j, _, _| contrast.powf(u(i as u32 + 1, j as u32 + 1, 9)));
    dirichlet_harmonic(n, &k)
}

/// k = 1 + 0.9 sin 7x cos 9y.
pub fn smooth_field(n: usize) -> Stencil {
    let k = node_field(n, |_, _, x, y| 1.0 + 0.9 * (7.0 * x).sin() * (9.0 * y).cos());
    dirichlet_harmonic(n, &k)
}

fn boussinesq_k(n: usize) -> Vec<f64> {
    node_field(n, |i, j, x, y| 1.0 + 0.9 * (7.0 * x).sin() * (9.0 * y).cos() + 0.05 * u(i as u32, j as u32, 4))
}

/// A screened Poisson operator with row sum m inside, as in the variational Boussinesq model.
pub fn boussinesq(n: usize, m: f64) -> Stencil {
    conductances(n - 1, n - 1, &boussinesq_k(n), arithmetic, true, m)
}

/// The operator of `boussinesq` with closed outer faces.
pub fn boussinesq_closed(n: usize, m: f64) -> Stencil {
    conductances(n - 1, n - 1, &boussinesq_k(n), arithmetic, false, m)
}

/// The Neumann problem with k = 1: singular, and the null space is the constants.
pub fn neumann_const(nx: usize, ny: usize) -> Stencil {
    conductances(nx, ny, &vec![1.0; nx * ny], arithmetic, false, 0.0)
}

/// The Neumann problem with k constant on 8 x 8 tiles, over three decades.
pub fn neumann_var(nx: usize, ny: usize) -> Stencil {
    let k: Vec<f64> = (0..nx * ny).map(|p| 10f64.powf(3.0 * u((p % nx / 8) as u32, (p / nx / 8) as u32, 4))).collect();
    conductances(nx, ny, &k, arithmetic, false, 0.0)
}

/// Subtracts the mean, so that b is orthogonal to constants.
pub fn without_mean(mut b: Vec<f64>) -> Vec<f64> {
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    b.iter_mut().for_each(|v| *v -= mean);
    b
}

/// Constant 9-point stencils: center, east, north, corners.
pub fn nine_point(nx: usize, ny: usize, name: &str) -> Stencil {
    let (c, e, n, corner) = match name {
        "fe_bilinear" => (8.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0),
        "mehrstellen" => (20.0 / 6.0, -4.0 / 6.0, -4.0 / 6.0, -1.0 / 6.0),
        "five_as_nine" => (4.0, -1.0, -1.0, 0.0),
        "skew_only+eps" => (4.04, -0.01, -0.01, -1.0),
        "fe_mass" => (16.0, 4.0, 4.0, 1.0),
        _ => panic!("no 9-point stencil is called {name}"),
    };
    Stencil::constant(nx, ny, c, e, n, Some((corner, corner)))
}

/// Bilinear elements on cells stretched by r. Couplings are positive for r > sqrt(2).
pub fn fe_aniso(nx: usize, ny: usize, r: f64) -> Stencil {
    let (a, b) = (1.0 / r, r);
    let corner = -(a + b) / 6.0;
    let (east, north) = ((-4.0 * a + 2.0 * b) / 6.0, (2.0 * a - 4.0 * b) / 6.0);
    Stencil::constant(nx, ny, 4.0 * (a + b) / 3.0, east, north, Some((corner, corner)))
}

fn rotated_tensor(eps: f64, degrees: f64) -> (f64, f64, f64) {
    let (s, c) = degrees.to_radians().sin_cos();
    (c * c + eps * s * s, s * s + eps * c * c, (1.0 - eps) * c * s)
}

/// Rotated anisotropy; the mixed derivative uses the four corners.
pub fn rot(nx: usize, ny: usize, eps: f64, degrees: f64) -> Stencil {
    let (kxx, kyy, kxy) = rotated_tensor(eps, degrees);
    let corners = Some((-0.5 * kxy, 0.5 * kxy));
    Stencil::constant(nx, ny, 2.0 * kxx + 2.0 * kyy, -kxx, -kyy, corners)
}

/// Rotated anisotropy; the mixed derivative uses one diagonal (7 points).
pub fn rot7(nx: usize, ny: usize, eps: f64, degrees: f64) -> Stencil {
    let (kxx, kyy, kxy) = rotated_tensor(eps, degrees);
    let center = 2.0 * (kxx + kyy - kxy);
    Stencil::constant(nx, ny, center, kxy - kxx, kxy - kyy, Some((-kxy, 0.0)))
}

/// Random symmetric M-matrix. About half its rows are strictly diagonally dominant, so it is definite.
pub fn random_m_matrix(nx: usize, ny: usize, nine_point: bool, seed: u64) -> Stencil {
    let mut random = Random(seed);
    let mut a = Stencil::zeros(nx, ny, nine_point);
    let mut fill = |array: &mut [f64]| {
        array.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = -random.range(0.1, 1.0));
    };
    fill(&mut a.east);
    fill(&mut a.north);
    if let Some((northeast, northwest)) = &mut a.corners {
        fill(northeast);
        fill(northwest);
    }
    let row_sums: Vec<f64> = (0..a.len()).map(|p| if p % 2 == 0 { random.range(0.1, 1.0) } else { 0.0 }).collect();
    a.set_row_sums(|p| row_sums[p]);
    a
}

/// `random_m_matrix` with its left half multiplied by `factor`, and a column of land that decouples the halves.
pub fn side_by_side(nx: usize, ny: usize, nine_point: bool, factor: f64) -> Stencil {
    let mut a = random_m_matrix(nx, ny, nine_point, 5);
    (0..ny).for_each(|j| a.decouple(nx / 2, j, 1.0));
    let arrays = [&mut a.center, &mut a.east, &mut a.north].into_iter();
    for array in arrays.chain(a.corners.iter_mut().flat_map(|(ne, nw)| [ne, nw])) {
        array.iter_mut().enumerate().filter(|(p, _)| p % nx < nx / 2).for_each(|(_, v)| *v *= factor);
    }
    a
}

/// The equation that a variational Boussinesq wave model solves in every time step for the vertical structure psi of
/// its flow (parabolic profile):
///
/// ```text
/// M psi - div(N grad psi) = -div(h D grad phi), M = 4/3 h, h D = 2/3 h^2, N = 8/15 h^3.
/// ```
///
/// The cells are squares of side `cell` [m] with closed outer edges; phi is the surface potential. `depth` [m] is given
/// at the nodes. Nodes with depth 0 or less are land; their rows are decoupled, with the center of a node of depth
/// `land_depth`. Faces use the mean depth, and are closed next to land. Equations are multiplied by cell^2.
pub fn waves(depth: &[f64], phi: &[f64], nx: usize, ny: usize, cell: f64, land_depth: f64) -> (Stencil, Vec<f64>) {
    assert!(depth.len() == nx * ny && phi.len() == nx * ny);
    let mut a = Stencil::zeros(nx, ny, false);
    let mut b = vec![0.0; nx * ny];
    let mut face = |p: usize, q: usize| {
        if depth[p] <= 0.0 || depth[q] <= 0.0 {
            return 0.0;
        }
        let h = arithmetic(depth[p], depth[q]);
        let flux = 2.0 / 3.0 * h * h * (phi[q] - phi[p]);
        b[p] -= flux;
        b[q] += flux;
        -8.0 / 15.0 * h * h * h
    };
    for j in 0..ny {
        for i in 0..nx {
            let p = j * nx + i;
            if i + 1 < nx {
                a.east[p] = face(p, p + 1);
            }
            if j + 1 < ny {
                a.north[p] = face(p, p + nx);
            }
        }
    }
    let h = |p: usize| if depth[p] > 0.0 { depth[p] } else { land_depth };
    a.set_row_sums(|p| cell * cell * 4.0 / 3.0 * h(p));
    (a, b)
}

/// `waves` on an artificial coast of 1200 m x 1000 m with nine islands, a dredged channel, sand waves and beaches. The
/// depth is 2.5 m to 25 m, so that N has three decades. The grid has nx nodes along the coast and 5 (nx - 1) / 6 + 1
/// across.
pub fn variable_depth(nx: usize) -> (Stencil, Vec<f64>) {
    let ny = variable_depth_rows(nx);
    let cell = 1200.0 / (nx - 1) as f64;
    let at = |f: fn(f64, f64) -> f64| -> Vec<f64> {
        (0..nx * ny).map(|p| f((p % nx) as f64 * cell, (p / nx) as f64 * cell)).collect()
    };
    waves(&at(coast_depth), &at(coast_potential), nx, ny, cell, 2.5)
}

/// Returns the number of nodes across the coast of `variable_depth`.
pub fn variable_depth_rows(nx: usize) -> usize {
    5 * (nx - 1) / 6 + 1
}

/// Returns the depth in metres; negative on land.
fn coast_depth(x: f64, y: f64) -> f64 {
    // x, y, mean radius and phase of an island; x, y, width and weight of a hill or hollow.
    const ISLANDS: [[f64; 4]; 9] = [
        [310.0, 260.0, 55.0, 0.3],
        [700.0, 190.0, 38.0, 1.1],
        [930.0, 420.0, 70.0, 2.0],
        [520.0, 560.0, 30.0, 0.7],
        [240.0, 720.0, 64.0, 2.9],
        [620.0, 840.0, 48.0, 1.9],
        [1010.0, 790.0, 36.0, 0.1],
        [430.0, 400.0, 14.0, 2.2],
        [810.0, 640.0, 9.0, 1.4],
    ];
    const RELIEF: [[f64; 4]; 12] = [
        [150.0, 150.0, 140.0, -0.5],
        [450.0, 120.0, 110.0, 0.45],
        [880.0, 130.0, 150.0, -0.35],
        [1080.0, 250.0, 120.0, 0.5],
        [600.0, 350.0, 130.0, 0.5],
        [120.0, 480.0, 120.0, 0.4],
        [380.0, 640.0, 90.0, -0.4],
        [760.0, 520.0, 120.0, 0.45],
        [1120.0, 600.0, 140.0, -0.45],
        [480.0, 860.0, 120.0, 0.4],
        [850.0, 900.0, 110.0, -0.3],
        [1150.0, 930.0, 100.0, 0.35],
    ];
    let shore = 60.0 + 35.0 * (x * 0.012).sin() + 14.0 * (x * 0.047 + 0.5).sin() + 5.0 * (x * 0.21).sin();
    let from_land = ISLANDS.iter().fold(y - shore, |nearest, &[x0, y0, radius, phase]| {
        let (u, v) = (x - x0, y - y0);
        let angle = v.atan2(u);
        let ragged = 1.0
            + 0.25 * (3.0 * angle + phase).sin()
            + 0.12 * (7.0 * angle + 2.0 * phase).sin()
            + 0.05 * (17.0 * angle).sin();
        nearest.min((u * u + v * v).sqrt() - radius * ragged)
    });
    if from_land < 0.0 {
        return -1.0;
    }
    let bell = |u: f64, v: f64| (-0.5 * (u * u + v * v)).exp();
    let relief: f64 = RELIEF.iter().map(|&[x0, y0, width, w]| w * bell((x - x0) / width, (y - y0) / width)).sum();
    let channel = 520.0 + 160.0 * (x * 0.0071).sin() + 50.0 * (x * 0.019 + 1.0).sin();
    let sand = 0.06 * (0.11 * x + 0.031 * y).sin() * (0.083 * y - 0.02 * x).sin();
    let level = 0.5 + relief + 0.6 * bell((y - channel) / 45.0, 0.0) + sand;
    // Limits the level to [0, 1], falling to 0 on beaches; the depth has a logarithmic scale.
    let level = 0.5 * (1.0 + (1.6 * (level - 0.5)).tanh()) * (1.0 - (-from_land / 40.0).exp());
    2.5 * 10f64.powf(level)
}

/// Surface potential: waves of three lengths and two bumps.
fn coast_potential(x: f64, y: f64) -> f64 {
    let bump = |x0: f64, y0: f64, width: f64| (-(distance(x - x0, y - y0) / width).powi(2)).exp();
    0.4 * (0.05 * x + 0.02 * y).sin()
        + 0.25 * (-0.11 * x + 0.16 * y + 1.0).sin()
        + 0.1 * (0.4 * x + 0.3 * y).sin()
        + 2.0 * bump(420.0, 470.0, 30.0)
        - 1.5 * bump(860.0, 300.0, 18.0)
}

/// Returns a problem of the golden table by its name, with its right-hand side.
pub fn by_name(name: &str, nx: usize, ny: usize) -> (Stencil, Vec<f64>) {
    find(name, nx, ny).unwrap_or_else(|complaint| panic!("{complaint}"))
}

/// Names that `find` accepts, for the help texts of programs.
pub const NAMES: &str = "poisson_f poisson_Au poisson_rand_even smooth checker8_C checkerfine_C inclHigh_C inclLow_C \
    random_C aniso_hx/hy=R boussinesq_m=M boussinesq_m=M_smooth boussinesq_neumannBC_m=M neumann_const neumann_var \
    fe_bilinear mehrstellen five_as_nine skew_only+eps fe_mass fe_aniso_r=R rot_eps=E_th=DEGREES \
    rot7_eps=E_th=DEGREES variable_depth";

/// Returns a problem by its name, or an error message.
pub fn find(name: &str, nx: usize, ny: usize) -> Result<(Stencil, Vec<f64>), String> {
    let n = nx + 1;
    // The golden table uses these shorter names at other sizes.
    let name = match name {
        "incl3" => "inclHigh_1000",
        "incl6" => "inclHigh_1000000",
        "check3" => "checker8_1000",
        "rand3" => "random_1000",
        other => other,
    };
    let unknown = || format!("no problem is called {name}; there are: {NAMES}");
    let parse = |text: &str| text.parse::<f64>().map_err(|_| unknown());
    let number = |prefix: &str| parse(name[prefix.len()..].split('_').next().unwrap_or_default());
    let random = || random_rhs(nx * ny, 1);
    let angles = |prefix: &str| -> Result<(f64, f64), String> {
        let (eps, theta) = name[prefix.len()..].split_once("_th=").ok_or_else(unknown)?;
        Ok((parse(eps)?, parse(theta)?))
    };
    let found = match name {
        "poisson_f" => (poisson(nx, ny), poisson_f_rhs(n)),
        "poisson_Au" => {
            let a = poisson(nx, ny);
            let b = a.multiply(&poisson_solution(n));
            (a, b)
        }
        "poisson_rand_even" => (poisson(nx, ny), random()),
        "fe_bilinear" | "mehrstellen" | "five_as_nine" | "skew_only+eps" => {
            (nine_point(nx, ny, name), poisson_f_rhs(n))
        }
        "fe_mass" => (nine_point(nx, ny, name), random()),
        "smooth" => (smooth_field(n), random()),
        "variable_depth" => variable_depth(nx),
        _ if name.starts_with("neumann_const") => (neumann_const(nx, ny), without_mean(random())),
        _ if name.starts_with("neumann_var") => (neumann_var(nx, ny), without_mean(random())),
        _ if name.starts_with("aniso_hx/hy=") => (aniso(n, number("aniso_hx/hy=")?), random()),
        _ if name.starts_with("checker8_") => (checker8(n, number("checker8_")?), random()),
        _ if name.starts_with("checkerfine_") => (checkerfine(n, number("checkerfine_")?), random()),
        _ if name.starts_with("inclHigh_") => (inclusions(n, number("inclHigh_")?), random()),
        _ if name.starts_with("inclLow_") => (inclusions(n, 1.0 / number("inclLow_")?), random()),
        _ if name.starts_with("random_") => (random_field(n, number("random_")?), random()),
        _ if name.starts_with("fe_aniso_r=") => (fe_aniso(nx, ny, number("fe_aniso_r=")?), random()),
        _ if name.starts_with("rot_eps=") => {
            let (eps, theta) = angles("rot_eps=")?;
            (rot(nx, ny, eps, theta), random())
        }
        _ if name.starts_with("rot7_eps=") => {
            let (eps, theta) = angles("rot7_eps=")?;
            (rot7(nx, ny, eps, theta), random())
        }
        _ if name.starts_with("boussinesq_neumannBC_m=") => {
            let b = if name.ends_with("_smooth") { smooth_rhs(n) } else { random() };
            (boussinesq_closed(n, number("boussinesq_neumannBC_m=")?), b)
        }
        _ if name.starts_with("boussinesq_m=") => {
            let b = if name.ends_with("_smooth") { smooth_rhs(n) } else { random() };
            (boussinesq(n, number("boussinesq_m=")?), b)
        }
        _ => return Err(unknown()),
    };
    if (found.0.nx, found.0.ny) != (nx, ny) {
        return Err(format!("{name} exists with {} x {} nodes, not {nx} x {ny}", found.0.nx, found.0.ny));
    }
    if found.1.len() != nx * ny {
        return Err(format!("the right-hand side of {name} needs a square grid, not {nx} x {ny}"));
    }
    Ok(found)
}
