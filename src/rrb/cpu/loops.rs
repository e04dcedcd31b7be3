//! Loops over one row of a solve, compiled for several instruction sets (`base::isa`). In the formulas, sums run over
//! the four axis or diagonal neighbours of a node, v and u are values at these neighbours, d is the pivot and c the
//! center.

use super::neighbours::NeighbourRows;
use super::number::Format;
use crate::base::isa::for_each_isa;
use crate::base::number::{Real, cast};
use crate::base::reduce as sums;
use crate::stencil::residual::residual_of_row;

/// Returns the first n values of each of four rows.
#[inline(always)]
pub fn truncate_rows<T>(rows: NeighbourRows<T>, n: usize) -> NeighbourRows<T> {
    [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]]
}

/// Returns the stored numbers a_0, .., a_3 at i, converted to the type of the sweeps.
#[inline(always)]
fn load4<F: Format>(a: &NeighbourRows<F::Stored>, i: usize) -> [F::Real; 4] {
    [F::read(a[0][i]), F::read(a[1][i]), F::read(a[2][i]), F::read(a[3][i])]
}

/// Returns the numbers a_0, .., a_3 at i without conversion.
#[inline(always)]
fn get4<R: Real>(a: &NeighbourRows<R>, i: usize) -> [R; 4] {
    [a[0][i], a[1][i], a[2][i], a[3][i]]
}

/// Returns a_0 v_0 + .. + a_3 v_3 at i.
#[inline(always)]
pub fn dot4<R: Real>(a: [R; 4], v: &NeighbourRows<R>, i: usize) -> R {
    (a[0] * v[0][i] + a[1] * v[1][i]) + (a[2] * v[2][i] + a[3] * v[3][i])
}

/// Returns a_0 (v_0 - w) + .. + a_3 (v_3 - w) at i. A closure instead of this function would not be compiled for the
/// instruction set.
#[inline(always)]
fn differences4<R: Real>(a: [R; 4], v: &NeighbourRows<R>, w: R, i: usize) -> R {
    (a[0] * (v[0][i] - w) + a[1] * (v[1][i] - w)) + (a[2] * (v[2][i] - w) + a[3] * (v[3][i] - w))
}

/// Returns 1 / c, or 1 in padding, where c = 0. There, 1 / c would be infinite, and its product with zero would be NaN.
#[inline(always)]
pub fn safe_inverse(center: f64) -> f64 {
    1.0 / (center + f64::from(u8::from(center <= 0.0)))
}

for_each_isa! {
    /// Computes out = y / d, and returns <y, out>. `pivot` and the couplings `a` define d (see
    /// `Format::inverse_pivot`).
    fn divide_by_pivots<F: Format>(
        out: &mut [F::Real], pivot: &[F::Stored], a: NeighbourRows<F::Stored>, y: &[F::Real]
    ) -> f64 {
        let n = out.len();
        let (pivot, a, y) = (&pivot[..n], truncate_rows(a, n), &y[..n]);
        for i in 0..n {
            out[i] = y[i] * F::inverse_pivot(pivot[i], load4::<F>(&a, i));
        }
        sums::dot(out, y)
    }

    /// With `step` = (alpha, q), first computes r = r - alpha q. Then computes out = r / d, and returns <r, r> and
    /// <r, out>.
    fn update_and_divide<F: Format>(
        r: &mut [F::Vector], step: Option<(f64, &[F::Vector])>, out: &mut [F::Real], pivot: &[F::Stored],
        a: NeighbourRows<F::Stored>
    ) -> (f64, f64) {
        let n = out.len();
        let (r, pivot, a) = (&mut r[..n], &pivot[..n], truncate_rows(a, n));
        if let Some((alpha, q)) = step {
            let alpha = F::Vector::from_f64(alpha);
            for (r, q) in r.iter_mut().zip(q) {
                *r -= alpha * *q;
            }
        }
        for i in 0..n {
            out[i] = cast::<F::Vector, F::Real>(r[i]) * F::inverse_pivot(pivot[i], load4::<F>(&a, i));
        }
        (sums::dot(r, r), sums::dot(r, out))
    }

    /// Computes v = v / d.
    fn divide_in_place<F: Format>(v: &mut [F::Real], pivot: &[F::Stored], a: NeighbourRows<F::Stored>) {
        let n = v.len();
        let (pivot, a) = (&pivot[..n], truncate_rows(a, n));
        for i in 0..n {
            v[i] = v[i] * F::inverse_pivot(pivot[i], load4::<F>(&a, i));
        }
    }

    /// Computes y = y - sum a v.
    fn subtract_product<F: Format>(y: &mut [F::Real], a: NeighbourRows<F::Stored>, v: NeighbourRows<F::Real>) {
        let n = y.len();
        let (a, v) = (truncate_rows(a, n), truncate_rows(v, n));
        for (i, y) in y.iter_mut().enumerate() {
            *y -= dot4(load4::<F>(&a, i), &v, i);
        }
    }

    /// Computes out = r - sum a v.
    fn difference_with_product<F: Format>(
        out: &mut [F::Real], r: &[F::Vector], a: NeighbourRows<F::Stored>, v: NeighbourRows<F::Real>
    ) {
        let n = out.len();
        let (r, a, v) = (&r[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            out[i] = cast::<F::Vector, F::Real>(r[i]) - dot4(load4::<F>(&a, i), &v, i);
        }
    }

    /// Computes y = y - (sum a v) / d.
    fn subtract_divided_product<F: Format>(
        y: &mut [F::Real], pivot: &[F::Stored], a: NeighbourRows<F::Stored>, v: NeighbourRows<F::Real>
    ) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            let a = load4::<F>(&a, i);
            y[i] -= F::inverse_pivot(pivot[i], a) * dot4(a, &v, i);
        }
    }

    /// Computes out = (r - sum a v) / d.
    fn solve_eliminated<F: Format>(
        out: &mut [F::Real], pivot: &[F::Stored], r: &[F::Vector], a: NeighbourRows<F::Stored>,
        v: NeighbourRows<F::Real>
    ) {
        let n = out.len();
        let (pivot, r, a, v) = (&pivot[..n], &r[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            let a = load4::<F>(&a, i);
            out[i] = F::inverse_pivot(pivot[i], a) * (cast::<F::Vector, F::Real>(r[i]) - dot4(a, &v, i));
        }
    }

    /// Computes y = (y - sum a v) / d.
    fn solve_eliminated_in_place<F: Format>(
        y: &mut [F::Real], pivot: &[F::Stored], a: NeighbourRows<F::Stored>, v: NeighbourRows<F::Real>
    ) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            let a = load4::<F>(&a, i);
            y[i] = F::inverse_pivot(pivot[i], a) * (y[i] - dot4(a, &v, i));
        }
    }

    /// Computes out = s w + (sum a (v - w) + sum b (u - w)): a row of a matrix in difference form with row sums s,
    /// times the vector with the values w, v and u.
    fn multiply_difference_form<F: Format>(
        out: &mut [F::Real], s: &[F::Stored], w: &[F::Real],
        a: NeighbourRows<F::Stored>, v: NeighbourRows<F::Real>, b: NeighbourRows<F::Stored>, u: NeighbourRows<F::Real>
    ) {
        let n = out.len();
        let (s, w, a, v, b, u) =
            (&s[..n], &w[..n], truncate_rows(a, n), truncate_rows(v, n), truncate_rows(b, n), truncate_rows(u, n));
        for i in 0..n {
            let axis_sum = differences4(load4::<F>(&a, i), &v, w[i], i);
            out[i] = F::read(s[i]) * w[i] + (axis_sum + differences4(load4::<F>(&b, i), &u, w[i], i));
        }
    }

    /// Computes out = c w + sum a v.
    fn multiply_five_points(out: &mut [f64], c: &[f64], w: &[f64], a: NeighbourRows, v: NeighbourRows) {
        let n = out.len();
        let (c, w, a, v) = (&c[..n], &w[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + dot4(get4(&a, i), &v, i);
        }
    }

    /// Computes out = (sum a v) / c. In padding, where c = 0, out = sum a v.
    fn divide_sum_by_center(out: &mut [f64], c: &[f64], a: NeighbourRows, v: NeighbourRows) {
        let n = out.len();
        let (c, a, v) = (&c[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            out[i] = safe_inverse(c[i]) * dot4(get4(&a, i), &v, i);
        }
    }

    /// Computes r = b - (c w - sum a y), with y = D_r^-1 A_rb x_b on the red neighbours: a row of b - S1 x.
    fn schur_residual<R: Real>(r: &mut [R], b: &[f64], c: &[f64], w: &[f64], a: NeighbourRows, y: NeighbourRows) {
        let n = r.len();
        let (b, c, w, a, y) = (&b[..n], &c[..n], &w[..n], truncate_rows(a, n), truncate_rows(y, n));
        for i in 0..n {
            r[i] = R::from_f64(b[i] - (c[i] * w[i] - dot4(get4(&a, i), &y, i)));
        }
    }

    /// Computes out = c w + (sum a v + sum b u).
    fn multiply_nine_points<R: Real>(
        out: &mut [R], c: &[R], w: &[R], a: NeighbourRows<R>, v: NeighbourRows<R>, b: NeighbourRows<R>,
        u: NeighbourRows<R>
    ) {
        let n = out.len();
        let (c, w, a, v, b, u) =
            (&c[..n], &w[..n], truncate_rows(a, n), truncate_rows(v, n), truncate_rows(b, n), truncate_rows(u, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + (dot4(get4(&a, i), &v, i) + dot4(get4(&b, i), &u, i));
        }
    }

    /// Computes out = b - (c w + sum a v) by the formula of `residual_of_row`.
    fn five_point_residual(out: &mut [f64], b: &[f64], c: &[f64], w: &[f64], a: NeighbourRows, v: NeighbourRows) {
        let n = out.len();
        let (b, c, w, a, v) = (&b[..n], &c[..n], &w[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            out[i] = residual_of_row(b[i], c[i], w[i], get4(&a, i), get4(&v, i));
        }
    }

    /// Computes out = b - (c w + sum a v + sum e u) by the formula of `residual_of_row`.
    fn nine_point_residual(
        out: &mut [f64], b: &[f64], c: &[f64], w: &[f64], a: NeighbourRows, v: NeighbourRows, e: NeighbourRows,
        u: NeighbourRows
    ) {
        let n = out.len();
        let (b, c, w, a, v) = (&b[..n], &c[..n], &w[..n], truncate_rows(a, n), truncate_rows(v, n));
        let (e, u) = (truncate_rows(e, n), truncate_rows(u, n));
        for i in 0..n {
            let (a, v) = (get4(&a, i), get4(&v, i));
            let (e, u) = (get4(&e, i), get4(&u, i));
            let couplings = [a[0], a[1], a[2], a[3], e[0], e[1], e[2], e[3]];
            let neighbour_values = [v[0], v[1], v[2], v[3], u[0], u[1], u[2], u[3]];
            out[i] = residual_of_row(b[i], c[i], w[i], couplings, neighbour_values);
        }
    }

    /// Computes out = b / c. In padding, where c = 0, out = b.
    fn divide_by_center(out: &mut [f64], b: &[f64], c: &[f64]) {
        let n = out.len();
        let (b, c) = (&b[..n], &c[..n]);
        for i in 0..n {
            out[i] = b[i] * safe_inverse(c[i]);
        }
    }

    /// Computes out = (b - sum a v) / c. In padding, where c = 0, out = b - sum a v.
    fn solve_by_center(out: &mut [f64], c: &[f64], b: &[f64], a: NeighbourRows, v: NeighbourRows) {
        let n = out.len();
        let (c, b, a, v) = (&c[..n], &b[..n], truncate_rows(a, n), truncate_rows(v, n));
        for i in 0..n {
            out[i] = safe_inverse(c[i]) * (b[i] - dot4(get4(&a, i), &v, i));
        }
    }

    /// Computes v = scale v.
    fn scale_row<R: Real>(v: &mut [R], scale: f64) {
        let scale = R::from_f64(scale);
        for v in v {
            *v = *v * scale;
        }
    }

    /// Computes x = x + alpha p and p = scale z + beta p.
    // This function is not inlined: otherwise, inlining depends on the rest of the crate, and tests/machine_code.rs
    // inspects this function.
    #[inline(never)]
    fn advance_x_and_p<F: Format>(
        x: &mut [f64], p: &mut [F::Vector], z: &[F::Real], alpha: f64, beta: f64, scale: f64
    ) {
        let (beta, scale) = (F::Vector::from_f64(beta), F::Vector::from_f64(scale));
        let n = x.len();
        let (p, z) = (&mut p[..n], &z[..n]);
        for i in 0..n {
            x[i] += alpha * p[i].to_f64();
            p[i] = scale * cast::<F::Real, F::Vector>(z[i]) + beta * p[i];
        }
    }

    /// Computes d = z + beta d, or d = z without `beta`.
    fn update_inner_direction<R: Real>(d: &mut [R], z: &[R], beta: Option<f64>) {
        let Some(beta) = beta.map(R::from_f64) else { return d.copy_from_slice(z) };
        for (d, z) in d.iter_mut().zip(z) {
            *d = *z + beta * *d;
        }
    }

    /// Computes u = u + alpha d, or u = alpha d with `is_first`.
    fn advance_inner_solution<R: Real>(u: &mut [R], d: &[R], alpha: f64, is_first: bool) {
        let alpha = R::from_f64(alpha);
        if is_first {
            u.fill(R::default());
        }
        for (u, d) in u.iter_mut().zip(d) {
            *u += alpha * *d;
        }
    }

    /// Computes r = r - alpha q and z = r.
    fn update_inner_residual<R: Real>(r: &mut [R], z: &mut [R], q: &[R], alpha: f64) {
        let alpha = R::from_f64(alpha);
        for ((r, z), q) in r.iter_mut().zip(z).zip(q) {
            *r -= alpha * *q;
            *z = *r;
        }
    }

    /// Computes z = u + alpha (z + beta d).
    fn finish_inner_solution<R: Real>(z: &mut [R], d: &[R], u: &[R], alpha: f64, beta: f64) {
        let (alpha, beta) = (R::from_f64(alpha), R::from_f64(beta));
        for ((z, d), u) in z.iter_mut().zip(d).zip(u) {
            *z = *u + alpha * (*z + beta * *d);
        }
    }
}
