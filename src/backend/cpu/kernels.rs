//! Loops over one row, compiled for several instruction sets and chosen once for the process.
//!
//! Every loop does the same operations in the same order whatever the instruction set (no fused
//! multiply-add, sums in a fixed number of lanes), so that results do not depend on it.

use super::neighbours::Rows;
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
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        pub fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn text($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
                fn avx512($($argument: $type),*) $(-> $result)? { text($($argument),*) }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) $(-> $result)? { text($($argument),*) }
                match isa() {
                    // SAFETY: `isa` names only instruction sets that this machine was seen to have.
                    Isa::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { avx2($($argument),*) },
                    Isa::Portable => {}
                }
            }
            text($($argument),*)
        }
    )*};
}

/// Four rows cut to n values.
#[inline(always)]
fn cut(rows: Rows, n: usize) -> Rows {
    [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]]
}

/// a_0 v_0 + .. + a_3 v_3 at i.
#[inline(always)]
fn sum4(a: &Rows, v: &Rows, i: usize) -> f64 {
    (a[0][i] * v[0][i] + a[1][i] * v[1][i]) + (a[2][i] * v[2][i] + a[3][i] * v[3][i])
}

for_each_isa! {
    /// sum of a b.
    fn dot(a: &[f64], b: &[f64]) -> f64 {
        sums::dot(a, b)
    }

    /// out = h y; returns y' out.
    fn scale(out: &mut [f64], h: &[f64], y: &[f64]) -> f64 {
        let n = out.len();
        let (h, y) = (&h[..n], &y[..n]);
        for i in 0..n {
            out[i] = h[i] * y[i];
        }
        sums::dot(out, y)
    }

    /// v = v h.
    fn scale_in_place(v: &mut [f64], h: &[f64]) {
        for (v, h) in v.iter_mut().zip(h) {
            *v *= h;
        }
    }

    /// y = y - sum of a v.
    fn subtract(y: &mut [f64], a: Rows, v: Rows) {
        let n = y.len();
        let (a, v) = (cut(a, n), cut(v, n));
        for (i, y) in y.iter_mut().enumerate() {
            *y -= sum4(&a, &v, i);
        }
    }

    /// out = r - sum of a v.
    fn difference(out: &mut [f64], r: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (r, a, v) = (&r[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = r[i] - sum4(&a, &v, i);
        }
    }

    /// y = y - h (sum of a v).
    fn subtract_scaled(y: &mut [f64], h: &[f64], a: Rows, v: Rows) {
        let n = y.len();
        let (h, a, v) = (&h[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            y[i] -= h[i] * sum4(&a, &v, i);
        }
    }

    /// out = h (y - sum of a v).
    fn solve(out: &mut [f64], h: &[f64], y: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (h, y, a, v) = (&h[..n], &y[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = h[i] * (y[i] - sum4(&a, &v, i));
        }
    }

    /// y = h (y - sum of a v).
    fn solve_in_place(y: &mut [f64], h: &[f64], a: Rows, v: Rows) {
        let n = y.len();
        let (h, a, v) = (&h[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            y[i] = h[i] * (y[i] - sum4(&a, &v, i));
        }
    }

    /// out = c w + sum of a v.
    fn five_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows) {
        let n = out.len();
        let (c, w, a, v) = (&c[..n], &w[..n], cut(a, n), cut(v, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + sum4(&a, &v, i);
        }
    }

    /// out = c w + (sum of a v + sum of b u).
    fn nine_points(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows, b: Rows, u: Rows) {
        let n = out.len();
        let (c, w, a, v, b, u) = (&c[..n], &w[..n], cut(a, n), cut(v, n), cut(b, n), cut(u, n));
        for i in 0..n {
            out[i] = c[i] * w[i] + (sum4(&a, &v, i) + sum4(&b, &u, i));
        }
    }

    /// v = v + alpha w.
    fn add_scaled(v: &mut [f64], alpha: f64, w: &[f64]) {
        for (v, w) in v.iter_mut().zip(w) {
            *v += alpha * w;
        }
    }

    /// x = x + alpha p, p = z + beta p.
    fn advance(x: &mut [f64], p: &mut [f64], z: &[f64], alpha: f64, beta: f64) {
        let n = x.len();
        let (p, z) = (&mut p[..n], &z[..n]);
        for i in 0..n {
            x[i] += alpha * p[i];
            p[i] = z[i] + beta * p[i];
        }
    }

    /// even[k] = pairs[2 k], odd[k] = pairs[2 k + 1]; as many pairs as there are.
    fn deinterleave(pairs: &[f64], even: &mut [f64], odd: &mut [f64]) {
        let n = pairs.len() / 2;
        let (pairs, even, odd) = (&pairs[..2 * n], &mut even[..n], &mut odd[..n]);
        for k in 0..n {
            even[k] = pairs[2 * k];
            odd[k] = pairs[2 * k + 1];
        }
    }

    /// The reverse.
    fn interleave(even: &[f64], odd: &[f64], pairs: &mut [f64]) {
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
