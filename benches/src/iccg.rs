//! The baseline that the library replaces: conjugate gradients with IC(0) or MIC(0) in natural order, 5 points, one
//! thread, carefully optimized.
//!
//! M = (D + L) D^-1 (D + L^T), where L is the strictly lower triangle of A. The pivots D make diag(M) = diag(A) for
//! IC(0) (Meijerink, van der Vorst 1977), and the row sums of M equal to those of A for MIC(0) (Gustafsson 1978):
//!
//! ```text
//!     d_i = c_i - sum over j = west, south of  a_ij (a_ij + omega a_j') / d_j,     omega = 0 or 1,
//! ```
//!
//! where a_j' is the other coupling of j to a later node. Everything is scaled by S = D^-1/2, so that M = (I + L)(I +
//! L^T) and A = I + G + L + L^T with G = diag(c_i / d_i) - I. CG runs on (I + L)^-1 A (I + L^T)^-1. Its product with p
//! needs one backward and one forward sweep, and no product with A (Eisenstat 1981):
//!
//! ```text
//!     y = (I + L^T)^-1 p,    t = (I + L)^-1 (p + (G - I) y),    w = y + t;     x = x + alpha S y
//! ```
//!
//! An iteration has three passes, which together transfer 17 words per node. The backward pass computes p = r + beta p
//! and y: it reads r, p and two couplings, and writes p and y. The forward pass computes w and p'w: it reads p, y, G
//! and two couplings, and writes w. The third pass updates x and r and computes r'r: it reads x, y, r and w, and writes
//! x and r. In a sweep each node depends on the previous one. Therefore two rows are swept at the same time, the second
//! one node behind the first, so that two dependency chains overlap.

use crate::isa::{for_each_isa, multiply_add};
use anyhow::{Result, bail};
use rrbsolver_problems::Stencil;

/// Kind of pivots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pivots {
    /// IC(0).
    Incomplete,
    /// MIC(0).
    Modified,
}

/// The residual of the unscaled system needs an additional pass. It is therefore computed only in every fourth
/// iteration and in each of the first twelve.
const RESIDUAL_INTERVAL: usize = 4;
const FIRST_ITERATIONS: usize = 12;

/// A factorized matrix with its vectors.
pub struct Iccg {
    nx: usize,
    ny: usize,
    /// Diagonal of S.
    scale: Vec<f64>,
    /// Diagonal of G - I.
    diagonal: Vec<f64>,
    /// Scaled entries to (i + 1, j) and (i, j + 1); zero if they point out of the grid.
    east: Vec<f64>,
    north: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    y: Vec<f64>,
    w: Vec<f64>,
    rows: Vec<f64>,
}

/// Result of a solve.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Number of iterations.
    pub iterations: usize,
    /// Whether |b - A x| <= rel_tol |b| was reached.
    pub converged: bool,
}

impl Iccg {
    /// Computes the pivots and the scaled couplings of a 5-point matrix.
    pub fn factorize(a: &Stencil, pivots: Pivots) -> Result<Self> {
        if a.corners.is_some() {
            bail!("the in-house ICCG supports only 5-point matrices");
        }
        let (nx, ny) = (a.nx, a.ny);
        let omega = if pivots == Pivots::Modified { 1.0 } else { 0.0 };
        let east = |i: usize, p: usize| if i + 1 < nx { a.east[p] } else { 0.0 };
        let north = |j: usize, p: usize| if j + 1 < ny { a.north[p] } else { 0.0 };
        let mut pivot = vec![0.0; nx * ny];
        for j in 0..ny {
            for i in 0..nx {
                let p = j * nx + i;
                let mut d = a.center[p];
                if i > 0 {
                    let coupling = a.east[p - 1];
                    d -= coupling * (coupling + omega * north(j, p - 1)) / pivot[p - 1];
                }
                if j > 0 {
                    let coupling = a.north[p - nx];
                    d -= coupling * (coupling + omega * east(i, p - nx)) / pivot[p - nx];
                }
                if d <= 0.0 || d.is_nan() {
                    bail!("pivot {d:e} of the in-house ICCG at ({i}, {j})");
                }
                pivot[p] = d;
            }
        }
        let scale: Vec<f64> = pivot.iter().map(|d| d.sqrt().recip()).collect();
        let mut scaled_east = vec![0.0; nx * ny];
        let mut scaled_north = vec![0.0; nx * ny];
        let mut diagonal = vec![0.0; nx * ny];
        for j in 0..ny {
            for i in 0..nx {
                let p = j * nx + i;
                diagonal[p] = a.center[p] * scale[p] * scale[p] - 2.0;
                if i + 1 < nx {
                    scaled_east[p] = a.east[p] * scale[p] * scale[p + 1];
                }
                if j + 1 < ny {
                    scaled_north[p] = a.north[p] * scale[p] * scale[p + nx];
                }
            }
        }
        let vector = || vec![0.0; nx * ny];
        Ok(Self {
            nx,
            ny,
            scale,
            diagonal,
            east: scaled_east,
            north: scaled_north,
            r: vector(),
            p: vector(),
            y: vector(),
            w: vector(),
            rows: vec![0.0; 4 * nx],
        })
    }

    /// Solves A x = b from x = 0, until |b - A x| <= rel_tol |b|.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64], rel_tol: f64, max_iter: usize) -> End {
        x.fill(0.0);
        self.p.fill(0.0);
        // r = (I + L)^-1 S b
        for (r, (b, s)) in self.r.iter_mut().zip(b.iter().zip(&self.scale)) {
            *r = b * s;
        }
        let (nx, ny) = (self.nx, self.ny);
        for k in 0..nx * ny {
            if k % nx > 0 {
                self.r[k] -= self.east[k - 1] * self.r[k - 1];
            }
            if k >= nx {
                self.r[k] -= self.north[k - nx] * self.r[k - nx];
            }
        }
        let threshold = rel_tol * rel_tol * b.iter().map(|v| v * v).sum::<f64>();
        let mut rho: f64 = self.r.iter().map(|v| v * v).sum();
        let mut beta = 0.0;
        let mut iterations = 0;
        let mut converged = threshold == 0.0;
        while !converged && iterations < max_iter {
            let read: [&[f64]; 3] = [&self.r, &self.east, &self.north];
            backward(nx, ny, beta, read, [&mut self.p, &mut self.y, &mut self.rows]);
            let sigma = forward(
                nx,
                ny,
                [&self.p, &self.y, &self.diagonal, &self.east, &self.north],
                &mut self.w,
                &mut self.rows,
            );
            let alpha = rho / sigma;
            let rho_new = advance(alpha, x, &self.y, &mut self.r, &self.w);
            iterations += 1;
            beta = rho_new / rho;
            rho = rho_new;
            let look = iterations % RESIDUAL_INTERVAL == 0 || iterations < FIRST_ITERATIONS;
            converged = look && residual_norm2(nx, ny, &self.r, &self.east, &self.north, &self.scale) <= threshold;
        }
        for (x, s) in x.iter_mut().zip(&self.scale) {
            *x *= s;
        }
        End { iterations, converged }
    }
}

/// A row that follows another row in a sweep: right-hand side, couplings to that row, couplings along itself, and
/// solution.
type Follower<'a> = (&'a [f64], &'a [f64], &'a [f64], &'a mut [f64]);

/// Computes v_k = first_k - a_k v_(k+1) from the right for a row. With `second`, also for the row south of it, from
/// which `north` times the first row is subtracted.
#[inline(always)]
fn sweep_left<const FMA: bool>(n: usize, (first, east, y): (&[f64], &[f64], &mut [f64]), second: Option<Follower>) {
    let (first, east, y) = (&first[..n], &east[..n], &mut y[..n]);
    let mut c = 0.0;
    let Some((below, north, east_below, y_below)) = second else {
        for i in (0..n).rev() {
            c = multiply_add::<FMA>(-east[i], c, first[i]);
            y[i] = c;
        }
        return;
    };
    let (below, north, east_below, y_below) = (&below[..n], &north[..n], &east_below[..n], &mut y_below[..n]);
    let mut d = 0.0;
    c = multiply_add::<FMA>(-east[n - 1], c, first[n - 1]);
    y[n - 1] = c;
    for i in (0..n - 1).rev() {
        let waiting = multiply_add::<FMA>(-north[i + 1], c, below[i + 1]);
        d = multiply_add::<FMA>(-east_below[i + 1], d, waiting);
        y_below[i + 1] = d;
        c = multiply_add::<FMA>(-east[i], c, first[i]);
        y[i] = c;
    }
    let waiting = multiply_add::<FMA>(-north[0], c, below[0]);
    y_below[0] = multiply_add::<FMA>(-east_below[0], d, waiting);
}

/// Computes p = r + beta p and solves (I + L^T) y = p. `rows` is workspace for the right-hand sides of two rows.
#[inline(always)]
fn backward_text<const FMA: bool>(
    nx: usize,
    ny: usize,
    beta: f64,
    [r, east, north]: [&[f64]; 3],
    [p, y, rows]: [&mut [f64]; 3],
) {
    let direction = |j: usize, p: &mut [f64]| {
        let (r, p) = (&r[j * nx..][..nx], &mut p[j * nx..][..nx]);
        for i in 0..nx {
            p[i] = multiply_add::<FMA>(beta, p[i], r[i]);
        }
    };
    let mut j = ny;
    while j > 0 {
        j -= 1;
        direction(j, p);
        let pair = j > 0;
        if pair {
            direction(j - 1, p);
        }
        let first = &mut rows[..nx];
        if j + 1 < ny {
            let (p, a, above) = (&p[j * nx..][..nx], &north[j * nx..][..nx], &y[(j + 1) * nx..][..nx]);
            for i in 0..nx {
                first[i] = multiply_add::<FMA>(-a[i], above[i], p[i]);
            }
        } else {
            first.copy_from_slice(&p[j * nx..][..nx]);
        }
        let (y_below, y_here) = y[..(j + 1) * nx].split_at_mut(j * nx);
        if pair {
            let at = (j - 1) * nx;
            let second = (&p[at..][..nx], &north[at..][..nx], &east[at..][..nx], &mut y_below[at..][..nx]);
            sweep_left::<FMA>(nx, (first, &east[j * nx..], y_here), Some(second));
            j -= 1;
        } else {
            sweep_left::<FMA>(nx, (first, &east[j * nx..], y_here), None);
        }
    }
}

for_each_isa! {
    fn backward(nx: usize, ny: usize, beta: f64, read: [&[f64]; 3], written: [&mut [f64]; 3]) = backward_text
}

/// As `sweep_left`, from the left: `east` belongs to the previous node.
#[inline(always)]
fn sweep_right<const FMA: bool>(n: usize, (first, east, t): (&[f64], &[f64], &mut [f64]), second: Option<Follower>) {
    let (first, east, t) = (&first[..n], &east[..n], &mut t[..n]);
    let mut c = first[0];
    t[0] = c;
    let Some((above, north, east_above, t_above)) = second else {
        for i in 1..n {
            c = multiply_add::<FMA>(-east[i - 1], c, first[i]);
            t[i] = c;
        }
        return;
    };
    let (above, north, east_above, t_above) = (&above[..n], &north[..n], &east_above[..n], &mut t_above[..n]);
    // The first node has no predecessor, so its coupling to the left is zero.
    let (mut d, mut before) = (0.0, 0.0);
    for i in 1..n {
        let waiting = multiply_add::<FMA>(-north[i - 1], c, above[i - 1]);
        d = multiply_add::<FMA>(-before, d, waiting);
        t_above[i - 1] = d;
        before = east_above[i - 1];
        c = multiply_add::<FMA>(-east[i - 1], c, first[i]);
        t[i] = c;
    }
    let waiting = multiply_add::<FMA>(-north[n - 1], c, above[n - 1]);
    t_above[n - 1] = multiply_add::<FMA>(-before, d, waiting);
}

/// Solves (I + L) t = p + (G - I) y, and computes w = y + t. Returns p'w. `rows` is workspace for two right-hand sides
/// and two rows of t.
#[inline(always)]
fn forward_text<const FMA: bool>(
    nx: usize,
    ny: usize,
    [p, y, diagonal, east, north]: [&[f64]; 5],
    w: &mut [f64],
    rows: &mut [f64],
) -> f64 {
    let (sides, values) = rows.split_at_mut(2 * nx);
    let (first, second) = sides.split_at_mut(nx);
    let (t0, t1) = values.split_at_mut(nx);
    let row = |j: usize| j * nx..(j + 1) * nx;
    let mut sigma = 0.0;
    let mut j = 0;
    while j < ny {
        let (p0, y0, g0) = (&p[row(j)], &y[row(j)], &diagonal[row(j)]);
        for i in 0..nx {
            first[i] = multiply_add::<FMA>(g0[i], y0[i], p0[i]);
        }
        if j > 0 {
            // The last swept row is in t1, because rows are processed in pairs from the first on.
            let a = &north[row(j - 1)];
            for i in 0..nx {
                first[i] = multiply_add::<FMA>(-a[i], t1[i], first[i]);
            }
        }
        let pair = j + 1 < ny;
        if pair {
            let (p1, y1, g1) = (&p[row(j + 1)], &y[row(j + 1)], &diagonal[row(j + 1)]);
            for i in 0..nx {
                second[i] = multiply_add::<FMA>(g1[i], y1[i], p1[i]);
            }
            let above = (&second[..], &north[row(j)], &east[row(j + 1)], &mut t1[..]);
            sweep_right::<FMA>(nx, (first, &east[row(j)], t0), Some(above));
        } else {
            sweep_right::<FMA>(nx, (first, &east[row(j)], t0), None);
        }
        sigma += sum_and_dot::<FMA>(&mut w[row(j)], y0, t0, p0);
        if pair {
            let at = row(j + 1);
            sigma += sum_and_dot::<FMA>(&mut w[at.clone()], &y[at.clone()], t1, &p[at]);
        }
        j += 2;
    }
    sigma
}

for_each_isa! {
    fn forward(nx: usize, ny: usize, arrays: [&[f64]; 5], w: &mut [f64], rows: &mut [f64]) -> f64 = forward_text
}

/// Number of independent partial sums, so that additions do not wait for one another.
const LANES: usize = 16;

/// Computes w = y + t. Returns p'w.
#[inline(always)]
fn sum_and_dot<const FMA: bool>(w: &mut [f64], y: &[f64], t: &[f64], p: &[f64]) -> f64 {
    let n = w.len();
    let (y, t, p) = (&y[..n], &t[..n], &p[..n]);
    let mut sums = [0.0; LANES];
    let whole = n - n % LANES;
    for start in (0..whole).step_by(LANES) {
        for (k, sum) in sums.iter_mut().enumerate() {
            let i = start + k;
            w[i] = y[i] + t[i];
            *sum = multiply_add::<FMA>(p[i], w[i], *sum);
        }
    }
    for i in whole..n {
        w[i] = y[i] + t[i];
        sums[0] = multiply_add::<FMA>(p[i], w[i], sums[0]);
    }
    sums.iter().sum()
}

/// Computes x = x + alpha y and r = r - alpha w. Returns r'r.
#[inline(always)]
fn advance_text<const FMA: bool>(alpha: f64, x: &mut [f64], y: &[f64], r: &mut [f64], w: &[f64]) -> f64 {
    let n = x.len();
    let (y, r, w) = (&y[..n], &mut r[..n], &w[..n]);
    let mut sums = [0.0; LANES];
    let whole = n - n % LANES;
    for start in (0..whole).step_by(LANES) {
        for (k, sum) in sums.iter_mut().enumerate() {
            let i = start + k;
            x[i] = multiply_add::<FMA>(alpha, y[i], x[i]);
            r[i] = multiply_add::<FMA>(-alpha, w[i], r[i]);
            *sum = multiply_add::<FMA>(r[i], r[i], *sum);
        }
    }
    for i in whole..n {
        x[i] = multiply_add::<FMA>(alpha, y[i], x[i]);
        r[i] = multiply_add::<FMA>(-alpha, w[i], r[i]);
        sums[0] = multiply_add::<FMA>(r[i], r[i], sums[0]);
    }
    sums.iter().sum()
}

for_each_isa! {
    fn advance(alpha: f64, x: &mut [f64], y: &[f64], r: &mut [f64], w: &[f64]) -> f64 = advance_text
}

/// Computes |b - A x|^2 = |S^-1 (I + L) r|^2.
#[inline(always)]
fn residual_text<const FMA: bool>(nx: usize, ny: usize, r: &[f64], east: &[f64], north: &[f64], scale: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for j in 0..ny {
        let at = j * nx..(j + 1) * nx;
        let (own, s) = (&r[at.clone()], &scale[at.clone()]);
        let mut add = |i: usize, v: f64| {
            let v = v / s[i];
            sums[i % LANES] = multiply_add::<FMA>(v, v, sums[i % LANES]);
        };
        let west = &east[at];
        if j == 0 {
            add(0, own[0]);
            for i in 1..nx {
                add(i, multiply_add::<FMA>(west[i - 1], own[i - 1], own[i]));
            }
        } else {
            let (below, a) = (&r[(j - 1) * nx..][..nx], &north[(j - 1) * nx..][..nx]);
            add(0, multiply_add::<FMA>(a[0], below[0], own[0]));
            for i in 1..nx {
                let v = multiply_add::<FMA>(a[i], below[i], own[i]);
                add(i, multiply_add::<FMA>(west[i - 1], own[i - 1], v));
            }
        }
    }
    sums.iter().sum()
}

for_each_isa! {
    fn residual_norm2(nx: usize, ny: usize, r: &[f64], east: &[f64], north: &[f64], scale: &[f64]) -> f64
        = residual_text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrbsolver_problems::{find, random_m_matrix, random_rhs};

    fn iterations(problem: &str, nx: usize, ny: usize, pivots: Pivots) -> usize {
        let (a, b) = find(problem, nx, ny).unwrap();
        let mut x = vec![0.0; b.len()];
        let end = Iccg::factorize(&a, pivots).unwrap().solve(&b, &mut x, 1e-6, 10_000);
        assert!(end.converged);
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        // The recurred residual differs from the true one by rounding: 1e-16 times iterations and condition number.
        assert!(norm(&a.residual(&b, &x)) <= 1.001e-6 * norm(&b));
        end.iterations
    }

    /// Iteration counts equal those of an independent C program within 1 %.
    #[test]
    fn counts_are_those_of_another_iccg() {
        for (problem, nx, ny, incomplete, modified) in [
            ("poisson_f", 127, 127, 100, 44),
            ("poisson_f", 255, 255, 196, 68),
            ("poisson_f", 511, 511, 400, 100),
            ("variable_depth", 301, 251, 20, 11),
        ] {
            for (pivots, expected) in [(Pivots::Incomplete, incomplete), (Pivots::Modified, modified)] {
                let count = iterations(problem, nx, ny, pivots);
                let allowed = usize::div_ceil(expected, 100);
                assert!(count.abs_diff(expected) <= allowed, "{problem} {nx} {pivots:?}: {count}, not {expected}");
            }
        }
    }

    /// (D + L) D^-1 (D + L^T) has the diagonal of A, or its row sums. For a tridiagonal matrix, CG in exact arithmetic
    /// needs one iteration. Odd numbers of rows and columns, and single ones, are swept correctly.
    #[test]
    fn solves_awkward_grids() {
        for (nx, ny) in [(1, 1), (1, 7), (9, 1), (2, 2), (3, 5), (16, 17), (33, 4)] {
            for pivots in [Pivots::Incomplete, Pivots::Modified] {
                let a = random_m_matrix(nx, ny, false, 5);
                let b = random_rhs(nx * ny, 3);
                let mut x = vec![0.0; b.len()];
                let end = Iccg::factorize(&a, pivots).unwrap().solve(&b, &mut x, 1e-12, 500);
                assert!(end.converged);
                let largest = a.residual(&b, &x).iter().fold(0.0f64, |m, v| m.max(v.abs()));
                // Limit: the residual is at most 1e-12 |b|, and |b| <= sqrt(nx ny).
                assert!(largest <= 1e-11, "{nx} x {ny}: {largest}");
                if nx == 1 || ny == 1 {
                    assert!(end.iterations <= 2, "{nx} x {ny}: {} iterations", end.iterations);
                }
            }
        }
    }
}
