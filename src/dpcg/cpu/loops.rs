//! Loops over consecutive cells, compiled for several instruction sets. A coupling that leaves the box is zero, and the
//! guard value that it multiplies is finite. The loops therefore need no test for the boundary of the box.

use crate::base::isa::for_each_isa;
use crate::stencil::cells::Couplings;
use crate::stencil::residual::residual_of_row;

/// Values of consecutive cells, and of their neighbours to west, east, south, north, bottom and top.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub here: &'a [f64],
    pub near: [&'a [f64]; 6],
}

/// Returns the first n values of each slice, so that the compiler can omit bounds checks in the loops.
#[inline(always)]
fn cut<const N: usize>(of: [&[f64]; N], n: usize) -> [&[f64]; N] {
    of.map(|values| &values[..n])
}

for_each_isa! {
    /// Computes q = A v.
    fn multiply(q: &mut [f64], a: Couplings, v: Around) {
        let n = q.len();
        let [center, here] = cut([a.center, v.here], n);
        let [w, e, s, north, b, t] = cut(a.near, n);
        let [vw, ve, vs, vn, vb, vt] = cut(v.near, n);
        for i in 0..n {
            q[i] = center[i] * here[i]
                + ((w[i] * vw[i] + e[i] * ve[i])
                    + ((s[i] * vs[i] + north[i] * vn[i]) + (b[i] * vb[i] + t[i] * vt[i])));
        }
    }

    /// Computes r = b - A v from differences of v (see `residual_of_row`).
    fn residual(r: &mut [f64], b: &[f64], a: Couplings, v: Around) {
        let n = r.len();
        let [b_here, center, here] = cut([b, a.center, v.here], n);
        let [w, e, s, north, b, t] = cut(a.near, n);
        let [vw, ve, vs, vn, vb, vt] = cut(v.near, n);
        for i in 0..n {
            r[i] = residual_of_row(
                b_here[i],
                center[i],
                here[i],
                [w[i], e[i], s[i], north[i], b[i], t[i]],
                [vw[i], ve[i], vs[i], vn[i], vb[i], vt[i]],
            );
        }
    }

    /// Computes u = D^-1 (r - T v), one step of Horner's rule for the Neumann series K r. T contains the couplings to
    /// the preceding neighbours in x, y and z, and `v` the values of these neighbours.
    fn horner_step(u: &mut [f64], r: &[f64], center: &[f64], t: [&[f64]; 3], v: [&[f64]; 3]) {
        let n = u.len();
        let [r, center] = cut([r, center], n);
        let [x, y, z] = cut(t, n);
        let [vx, vy, vz] = cut(v, n);
        for i in 0..n {
            u[i] = (r[i] - (x[i] * vx[i] + y[i] * vy[i] + z[i] * vz[i])) / center[i];
        }
    }

    /// Computes u = v - D^-1 T w, one step of Horner's rule for K^T v. T contains the couplings to the following
    /// neighbours in x, y and z, and `w` the values of these neighbours.
    fn transposed_horner_step(u: &mut [f64], v: &[f64], center: &[f64], t: [&[f64]; 3], w: [&[f64]; 3]) {
        let n = u.len();
        let [v, center] = cut([v, center], n);
        let [x, y, z] = cut(t, n);
        let [wx, wy, wz] = cut(w, n);
        for i in 0..n {
            u[i] = v[i] - (x[i] * wx[i] + y[i] * wy[i] + z[i] * wz[i]) / center[i];
        }
    }

    /// Computes u = D^-1 r.
    fn over_center(u: &mut [f64], r: &[f64], center: &[f64]) {
        for ((u, r), center) in u.iter_mut().zip(r).zip(center) {
            *u = r / center;
        }
    }

    /// Computes x = x + alpha p and then p = z + beta p.
    fn advance(x: &mut [f64], alpha: f64, p: &mut [f64], z: &[f64], beta: f64) {
        for ((x, p), z) in x.iter_mut().zip(p).zip(z) {
            *x += alpha * *p;
            *p = z + beta * *p;
        }
    }

    /// Returns <v, D v>.
    fn weighted_square(v: &[f64], d: &[f64]) -> f64 {
        crate::base::reduce::weighted_square(v, d)
    }
}
