//! Conjugate gradients with IC(0) in the natural order of cells, one thread: the usual in-house solver for 7 points.
//! Meijerink and van der Vorst, Math. Comp. 31 (1977) 148-162.

use crate::iccg::End;
use rrbsolver_problems::two_phase::TwoPhase;

/// A pivot below this fraction of the diagonal entry is rounding error, as is the last pivot of a singular matrix. The
/// diagonal entry replaces it.
const SMALLEST_PIVOT: f64 = 1e-12;

/// M = (D + L) D^-1 (D + L^T), where L is the strictly lower triangle of A, and D makes diag(M) = diag(A).
pub struct Iccg<'a> {
    a: &'a TwoPhase,
    /// East, north and top couplings; zero if they point out of the grid.
    forward: [Vec<f64>; 3],
    step: [usize; 3],
    /// Inverse pivots 1 / D.
    inverse: Vec<f64>,
    vectors: [Vec<f64>; 4],
}

impl<'a> Iccg<'a> {
    /// Factorizes a matrix.
    pub fn factorize(a: &'a TwoPhase) -> Self {
        let [nx, ny, _] = a.size;
        let step = [1, nx, nx * ny];
        let forward = a.forward.each_ref().map(|f| f.iter().map(|&v| if v.is_nan() { 0.0 } else { v }).collect());
        let n = a.cells();
        let mut s = Self { a, forward, step, inverse: vec![0.0; n], vectors: [(); 4].map(|()| vec![0.0; n]) };
        for p in 0..n {
            let fill: f64 = (0..3).map(|d| if p < step[d] { 0.0 } else { s.fill(d, p - step[d]) }).sum();
            let left = a.center[p] - fill;
            s.inverse[p] = if left > SMALLEST_PIVOT * a.center[p] { left } else { a.center[p] }.recip();
        }
        s
    }

    /// Returns the part of a pivot that the forward coupling of cell q in direction d subtracts.
    fn fill(&self, d: usize, q: usize) -> f64 {
        self.forward[d][q] * self.forward[d][q] * self.inverse[q]
    }

    /// Returns sum_q a_pq v_q over the neighbours q before p.
    #[inline(always)]
    fn before(&self, p: usize, v: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (f, step) in self.forward.iter().zip(self.step) {
            if p >= step {
                sum += f[p - step] * v[p - step];
            }
        }
        sum
    }

    /// Returns sum_q a_pq v_q over the neighbours q after p.
    #[inline(always)]
    fn behind(&self, p: usize, v: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (f, step) in self.forward.iter().zip(self.step) {
            if p + step < v.len() {
                sum += f[p] * v[p + step];
            }
        }
        sum
    }

    /// Computes z = M^-1 r.
    fn precondition(&self, r: &[f64], z: &mut [f64]) {
        for p in 0..r.len() {
            z[p] = self.inverse[p] * (r[p] - self.before(p, z));
        }
        for p in (0..r.len()).rev() {
            z[p] -= self.inverse[p] * self.behind(p, z);
        }
    }

    /// Computes q = A p.
    fn multiply(&self, p: &[f64], q: &mut [f64]) {
        for (i, q) in q.iter_mut().enumerate() {
            *q = self.a.center[i] * p[i] + self.before(i, p) + self.behind(i, p);
        }
    }

    /// Solves A x = b from x = 0, until |r| <= rel_tol |b|.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64], rel_tol: f64, max_iter: usize) -> End {
        let [mut r, mut z, mut p, mut q] = std::mem::take(&mut self.vectors);
        x.fill(0.0);
        r.copy_from_slice(b);
        p.fill(0.0);
        let threshold = rel_tol * dot(b, b).sqrt();
        let (mut rho_old, mut iterations) = (1.0, 0);
        let mut converged = dot(&r, &r).sqrt() <= threshold;
        while !converged && iterations < max_iter {
            self.precondition(&r, &mut z);
            let rho = dot(&r, &z);
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + rho / rho_old * *p);
            self.multiply(&p, &mut q);
            let alpha = rho / dot(&p, &q);
            x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
            rho_old = rho;
            iterations += 1;
            converged = dot(&r, &r).sqrt() <= threshold;
        }
        self.vectors = [r, z, p, q];
        End { iterations, converged }
    }
}

fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}

/// The iteration count equals that of an independent prototype (tests/golden/dpcg.csv).
#[test]
fn counts_are_those_of_another_iccg() {
    let a = TwoPhase::new("9", [64; 3], 1e-3);
    let b = a.rhs("rand");
    let mut x = vec![0.0; b.len()];
    let end = Iccg::factorize(&a).solve(&b, &mut x, 1e-6, 1000);
    assert!(end.converged && end.iterations.abs_diff(232) <= 3, "{end:?}");
    assert!(a.relative_residual(&b, &x) <= 1.001e-6);
}
