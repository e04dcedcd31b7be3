//! Truncated Neumann series.

use crate::System;

/// Computes z = K^T D^-1 K r with K = sum over m = 0 .. order of (-L D^-1)^m (van der Vorst 1982), by Horner's rule.
/// Order 0 is Jacobi.
pub fn neumann(a: &System, order: usize, r: &[f64], z: &mut [f64]) {
    // u = r - L D^-1 u, `order` times from u = r. In descending order of cells, the preceding cells still have their
    // old values.
    let mut u = r.to_vec();
    for _ in 0..order {
        for c in (0..r.len()).rev() {
            let near = a.neighbours(c);
            u[c] = r[c] - [0, 2, 4].map(|k| near[k].0 * u[near[k].1] / a.center[near[k].1]).iter().sum::<f64>();
        }
    }
    // z = D^-1 u - D^-1 L^T z, `order` times from z = D^-1 u.
    u.iter_mut().zip(&a.center).for_each(|(u, center)| *u /= center);
    z.copy_from_slice(&u);
    for _ in 0..order {
        for (c, u) in u.iter().enumerate() {
            let near = a.neighbours(c);
            z[c] = u - [1, 3, 5].map(|k| near[k].0 * z[near[k].1]).iter().sum::<f64>() / a.center[c];
        }
    }
}
