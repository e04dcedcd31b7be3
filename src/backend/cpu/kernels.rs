//! Loops over one row, compiled for several instruction sets and chosen once for the process.
//!
//! Every loop does the same operations in the same order whatever the instruction set (no fused
//! multiply-add, sums in a fixed number of lanes), so that results do not depend on it.

use super::format::{Double, Format};
use super::neighbours::Rows;
use crate::backend::storage::Real;
use crate::backend::sums;
use std::sync::OnceLock;

/// An instruction set that rows are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the target has at least.
    Portable,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

/// The best one this machine has, or the one that `RRBSOLVER_ISA` names (avx512, avx2, portable) if the
/// machine has it.
pub fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(|| choose(std::env::var("RRBSOLVER_ISA").ok().as_deref()))
}

fn choose(wanted: Option<&str>) -> Isa {
    let best = best();
    match wanted {
        Some("portable") => Isa::Portable,
        Some("avx2") if best != Isa::Portable => Isa::Avx2,
        _ => best,
    }
}

#[cfg(target_arch = "x86_64")]
fn best() -> Isa {
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
    {
        Isa::Avx512
    } else if is_x86_feature_detected!("avx2") {
        Isa::Avx2
    } else {
        Isa::Portable
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best() -> Isa {
    Isa::Portable
}

/// Compiles a loop once for each instruction set, and a function that calls the chosen one.
macro_rules! for_each_isa {
    ($($(#[$doc:meta])* fn $name:ident $(<$f:ident: $bound:ident>)? ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name $(<$f: $bound>)? ($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn text $(<$f: $bound>)? ($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                #[allow(clippy::too_many_arguments)]
                fn avx512 $(<$f: $bound>)? ($($argument: $type),*) $(-> $result)? { text $(::<$f>)? ($($argument),*) }
                #[target_feature(enable = "avx2")]
                #[allow(clippy::too_many_arguments)]
                fn avx2 $(<$f: $bound>)? ($($argument: $type),*) $(-> $result)? { text $(::<$f>)? ($($argument),*) }
                match isa() {
                    // SAFETY: `isa` names only instruction sets that this machine was seen to have.
                    Isa::Avx512 => return unsafe { avx512 $(::<$f>)? ($($argument),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { avx2 $(::<$f>)? ($($argument),*) },
                    Isa::Portable => {}
                }
            }
            text $(::<$f>)? ($($argument),*)
        }
    )*};
}

/// Four rows cut to n values.
#[inline(always)]
fn cut<T>(rows: Rows<T>, n: usize) -> Rows<T> {
    [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]]
}

/// a_0 .. a_3 at i.
#[inline(always)]
fn read4<F: Format>(a: &Rows<F::Stored>, i: usize) -> [F::Real; 4] {
    [F::read(a[0][i]), F::read(a[1][i]), F::read(a[2][i]), F::read(a[3][i])]
}

/// a_0 v_0 + .. + a_3 v_3 at i.
#[inline(always)]
fn sum4<R: Real>(a: [R; 4], v: &Rows<R>, i: usize) -> R {
    (a[0] * v[0][i] + a[1] * v[1][i]) + (a[2] * v[2][i] + a[3] * v[3][i])
}

/// a_0 (v_0 - w) + .. + a_3 (v_3 - w) at i. (A closure would not be compiled for the instruction set.)
#[inline(always)]
fn differences4<R: Real>(a: [R; 4], v: &Rows<R>, w: R, i: usize) -> R {
    (a[0] * (v[0][i] - w) + a[1] * (v[1][i] - w)) + (a[2] * (v[2][i] - w) + a[3] * (v[3][i] - w))
}

for_each_isa! {
    /// sum of a b.
    fn dot<R: Real>(a: &[R], b: &[R]) -> f64 {
        sums::dot(a, b)
    }

    /// sum of a b, in the type of b.
    fn dot_mixed<R: Real>(a: &[f64], b: &[R]) -> f64 {
        sums::dot(a, b)
    }

    /// out = y / d; returns y' out.
    fn scale<F: Format>(out: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, y: &[F::Real]) -> f64 {
        let n = out.len();
        let (pivot, a, y) = (&pivot[..n], cut(a, n), &y[..n]);
        for i in 0..n {
            out[i] = y[i] * F::inverse(pivot[i], read4::<F>(&a, i));
        }
        sums::dot(out, y)
    }

    /// r = r - alpha q where there is a step; out = r / d; returns r' r and r' out.
    fn advance_and_scale<F: Format>(
        r: &mut [f64], step: Option<(f64, &[f64])>, out: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>
    ) -> (f64, f64) {
        let n = out.len();
        let (r, pivot, a) = (&mut r[..n], &pivot[..n], cut(a, n));
        if let Some((alpha, q)) = step {
            for (r, q) in r.iter_mut().zip(q) {
                *r -= alpha * q;
            }
        }
        for i in 0..n {
            out[i] = F::Real::narrow(r[i]) * F::inverse(pivot[i], read4::<F>(&a, i));
        }
        (sums::dot(r, r), sums::dot(r, out))
    }

    /// v = v / d.
    fn scale_in_place<F: Format>(v: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>) {
        let n = v.len();
        let (pivot, a) = (&pivot[..n], cut(a, n));
        for i in 0..n {
            v[i] = v[i] * F::inverse(pivot[i], read4::<F>(&a, i));
        }
    }

    /// y = y - sum of a v.
    fn subtract<F: Format>(y: &mut [F::Real], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (a, v) = (cut(a, n), cut(v, n));
        for i in 0..n {
            y[i] -= sum4(read4::<F>(&a, i), &v, i);
        }
    }

    /// out = r - sum of a v.
    fn difference<F: Format>(out: &mut [F::Real], r: &[f64], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = out.len();
        let (r, a, v) = (&r[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = F::Real::narrow(r[i]) - sum4(read4::<F>(&a, i), &v, i);
        }
    }

    /// y = y - (sum of a v) / d.
    fn subtract_scaled<F: Format>(y: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            y[i] -= F::inverse(pivot[i], a) * sum4(a, &v, i);
        }
    }

    /// out = (r - sum of a v) / d.
    fn solve<F: Format>(
        out: &mut [F::Real], pivot: &[F::Stored], r: &[f64], a: Rows<F::Stored>, v: Rows<F::Real>
    ) {
        let n = out.len();
        let (pivot, r, a, v) = (&pivot[..n], &r[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            out[i] = F::inverse(pivot[i], a) * (F::Real::narrow(r[i]) - sum4(a, &v, i));
        }
    }

    /// y = (y - sum of a v) / d.
    fn solve_in_place<F: Format>(y: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, v: Rows<F::Real>) {
        let n = y.len();
        let (pivot, a, v) = (&pivot[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            let a = read4::<F>(&a, i);
            y[i] = F::inverse(pivot[i], a) * (y[i] - sum4(a, &v, i));
        }
    }

    /// out = s w + (sum of a (v - w) + sum of b (u - w)).
    fn difference_form<F: Format>(
        out: &mut [F::Real], s: &[F::Stored], w: &[F::Real],
        a: Rows<F::Stored>, v: Rows<F::Real>, b: Rows<F::Stored>, u: Rows<F::Real>
    ) {
        let n = out.len();
        let (s, w, a, v, b, u) = (&s[..n], &w[..n], cut(a, n), cut(v, n), cut(b, n), cut(u, n));
        for i in 0..n {
            let near = differences4(read4::<F>(&a, i), &v, w[i], i);
            out[i] = F::read(s[i]) * w[i] + (near + differences4(read4::<F>(&b, i), &u, w[i], i));
        }
    }

    /// out = c w + sum of a v.
    fn five_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (c, w, a, v) = (&c[..n], &w[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + sum4(read4::<Double>(&a, i), &v, i);
        }
    }

    /// out = c w + (sum of a v + sum of b u).
    fn nine_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows, b: Rows, u: Rows) {
        let n = out.len();
        let (c, w, a, v, b, u) = (&c[..n], &w[..n], cut(a, n), cut(v, n), cut(b, n), cut(u, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + (sum4(read4::<Double>(&a, i), &v, i) + sum4(read4::<Double>(&b, i), &u, i));
        }
    }

    /// v = v + alpha w.
    fn add_scaled(v: &mut [f64], alpha: f64, w: &[f64]) {
        for (v, w) in v.iter_mut().zip(w) {
            *v += alpha * w;
        }
    }

    /// x = x + alpha p, p = scale z + beta p.
    fn advance<R: Real>(x: &mut [f64], p: &mut [f64], z: &[R], alpha: f64, beta: f64, scale: f64) {
        let n = x.len();
        let (p, z) = (&mut p[..n], &z[..n]);
        for i in 0..n {
            x[i] += alpha * p[i];
            p[i] = scale * z[i].wide() + beta * p[i];
        }
    }

    /// v = scale z + beta v.
    fn direct<R: Real>(v: &mut [f64], z: &[R], beta: f64, scale: f64) {
        for (v, z) in v.iter_mut().zip(z) {
            *v = scale * z.wide() + beta * *v;
        }
    }

    /// v = scale z.
    fn widen<R: Real>(v: &mut [f64], z: &[R], scale: f64) {
        for (v, z) in v.iter_mut().zip(z) {
            *v = scale * z.wide();
        }
    }

    /// z = v.
    fn narrow<R: Real>(z: &mut [R], v: &[f64]) {
        for (z, v) in z.iter_mut().zip(v) {
            *z = R::narrow(*v);
        }
    }

    /// d = z, or z + beta d.
    fn direct_inner<R: Real>(d: &mut [R], z: &[R], beta: Option<f64>) {
        let Some(beta) = beta.map(R::narrow) else { return d.copy_from_slice(z) };
        for (d, z) in d.iter_mut().zip(z) {
            *d = *z + beta * *d;
        }
    }

    /// u = alpha d (`first`) or u + alpha d.
    fn add_inner<R: Real>(u: &mut [R], d: &[R], alpha: f64, first: bool) {
        let alpha = R::narrow(alpha);
        if first {
            u.fill(R::default());
        }
        for (u, d) in u.iter_mut().zip(d) {
            *u += alpha * *d;
        }
    }

    /// r = r - alpha q, z = r.
    fn subtract_inner<R: Real>(r: &mut [R], z: &mut [R], q: &[R], alpha: f64) {
        let (n, alpha) = (r.len(), R::narrow(alpha));
        let (z, q) = (&mut z[..n], &q[..n]);
        for i in 0..n {
            r[i] -= alpha * q[i];
            z[i] = r[i];
        }
    }

    /// even[k] = pairs[2 k], odd[k] = pairs[2 k + 1]; as many pairs as there are.
    fn deinterleave<R: Real>(pairs: &[R], even: &mut [R], odd: &mut [R]) {
        let n = pairs.len() / 2;
        let (pairs, even, odd) = (&pairs[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = pairs[2 * k];
            odd[k] = pairs[2 * k + 1];
        }
    }

    /// The reverse.
    fn interleave<R: Real>(even: &[R], odd: &[R], pairs: &mut [R]) {
        let n = pairs.len() / 2;
        let (even, odd, pairs) = (&even[..n], &odd[..n], &mut pairs[..2 * n]);
        for k in 0..n {
            pairs[2 * k] = even[k];
            pairs[2 * k + 1] = odd[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_instruction_set_is_taken_if_it_is_there() {
        assert_eq!(choose(Some("portable")), Isa::Portable);
        assert_eq!(choose(None), best());
        assert_eq!(choose(Some("nonsense")), best());
        if best() == Isa::Avx512 {
            assert_eq!(choose(Some("avx2")), Isa::Avx2);
        }
    }

    #[test]
    fn interleaving_is_undone_by_deinterleaving() {
        for n in [0, 1, 2, 7, 64, 65] {
            let pairs: Vec<f64> = (0..2 * n).map(f64::from).collect();
            let (mut even, mut odd) = (vec![0.0; n as usize], vec![0.0; n as usize]);
            deinterleave(&pairs, &mut even, &mut odd);
            assert!(even.iter().all(|v| v % 2.0 == 0.0) && odd.iter().all(|v| v % 2.0 == 1.0));
            let mut back = vec![0.0; pairs.len()];
            interleave(&even, &odd, &mut back);
            assert_eq!(back, pairs);
        }
    }
}
