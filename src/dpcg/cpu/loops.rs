//! Loops over consecutive cells, compiled for several instruction sets. A coupling that leaves the box is zero, and the
//! guard value that it multiplies is finite. The loops therefore need no test for the boundary of the box.

use crate::base::isa::for_each_isa;
use crate::stencil::cells::CellCouplings;
use crate::stencil::residual::residual_of_row;

/// Values of consecutive cells, and of their neighbours to west, east, south, north, bottom and top.
#[derive(Clone, Copy)]
pub struct NeighbourValues<'a> {
    pub own_values: &'a [f64],
    pub neighbours: [&'a [f64]; 6],
}

/// Returns the first n values of each slice, so that the compiler can omit bounds checks in the loops.
#[inline(always)]
fn truncate_slices<const N: usize>(slices: [&[f64]; N], n: usize) -> [&[f64]; N] {
    slices.map(|values| &values[..n])
}

for_each_isa! {
    /// Computes q = A v.
    fn multiply(q: &mut [f64], a: CellCouplings, v: NeighbourValues) {
        let n = q.len();
        let [center, v_center] = truncate_slices([a.center, v.own_values], n);
        let [w, e, s, north, b, t] = truncate_slices(a.axis_couplings, n);
        let [vw, ve, vs, vn, vb, vt] = truncate_slices(v.neighbours, n);
        for i in 0..n {
            q[i] = center[i] * v_center[i]
                + ((w[i] * vw[i] + e[i] * ve[i])
                    + ((s[i] * vs[i] + north[i] * vn[i]) + (b[i] * vb[i] + t[i] * vt[i])));
        }
    }

    /// Computes r = b - A v from differences of v (see `residual_of_row`).
    fn residual(r: &mut [f64], b: &[f64], a: CellCouplings, v: NeighbourValues) {
        let n = r.len();
        let [rhs, center, v_center] = truncate_slices([b, a.center, v.own_values], n);
        let [w, e, s, north, b, t] = truncate_slices(a.axis_couplings, n);
        let [vw, ve, vs, vn, vb, vt] = truncate_slices(v.neighbours, n);
        for i in 0..n {
            r[i] = residual_of_row(
                rhs[i],
                center[i],
                v_center[i],
                [w[i], e[i], s[i], north[i], b[i], t[i]],
                [vw[i], ve[i], vs[i], vn[i], vb[i], vt[i]],
            );
        }
    }

    /// Computes u = D^-1 (r - T v), one step of Horner's rule for the Neumann series K r. `t` contains the couplings T
    /// to the preceding neighbours in x, y and z, and `v` contains the values at these neighbours.
    fn horner_step(u: &mut [f64], r: &[f64], center: &[f64], t: [&[f64]; 3], v: [&[f64]; 3]) {
        let n = u.len();
        let [r, center] = truncate_slices([r, center], n);
        let [x, y, z] = truncate_slices(t, n);
        let [vx, vy, vz] = truncate_slices(v, n);
        for i in 0..n {
            u[i] = (r[i] - (x[i] * vx[i] + y[i] * vy[i] + z[i] * vz[i])) / center[i];
        }
    }

    /// Computes u = v - D^-1 T w, one step of Horner's rule for K^T v. `t` contains the couplings T to the following
    /// neighbours in x, y and z, and `w` contains the values at these neighbours.
    fn transposed_horner_step(u: &mut [f64], v: &[f64], center: &[f64], t: [&[f64]; 3], w: [&[f64]; 3]) {
        let n = u.len();
        let [v, center] = truncate_slices([v, center], n);
        let [x, y, z] = truncate_slices(t, n);
        let [wx, wy, wz] = truncate_slices(w, n);
        for i in 0..n {
            u[i] = v[i] - (x[i] * wx[i] + y[i] * wy[i] + z[i] * wz[i]) / center[i];
        }
    }

    /// Computes u = D^-1 r.
    fn divide_by_center(u: &mut [f64], r: &[f64], center: &[f64]) {
        for ((u, r), center) in u.iter_mut().zip(r).zip(center) {
            *u = r / center;
        }
    }

    /// Computes x = x + alpha p and then p = z + beta p.
    fn update_x_and_p(x: &mut [f64], alpha: f64, p: &mut [f64], z: &[f64], beta: f64) {
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
