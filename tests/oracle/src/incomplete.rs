//! Incomplete Cholesky factorizations without fill: IC(0) (Meijerink and van der Vorst 1977) and RIC(omega) (Gustafsson
//! 1978), M = (D + L) D^-1 (D + L^T).

use crate::System;

/// The pivots.
pub struct Incomplete {
    /// 1 / d.
    inverse: Vec<f64>,
}

impl Incomplete {
    /// Computes d(c) = a(c, c) - sum over m of a(m, c) (a(m, c) + omega sum over o of a(m, o)) / d(m), where m are the
    /// preceding neighbours of c, and o the other cells that follow m.
    pub fn new(a: &System, omega: f64) -> Self {
        let mut inverse: Vec<f64> = Vec::new();
        for c in 0..a.count() {
            let near = a.neighbours(c);
            let share = |(coupling, m): (f64, usize)| {
                let ahead: f64 = a.forward.iter().map(|forward| forward[m]).sum();
                coupling * (coupling + omega * (ahead - coupling)) * inverse[m]
            };
            let before = [0, 2, 4].map(|k| near[k]).into_iter().filter(|&(_, m)| m != c);
            let d = a.center[c] - before.map(share).sum::<f64>();
            inverse.push(1.0 / d);
        }
        Self { inverse }
    }

    /// Computes z = M^-1 r by (D + L) y = r and (D + L^T) z = D y.
    pub fn apply(&self, a: &System, r: &[f64], z: &mut [f64]) {
        for c in 0..r.len() {
            let near = a.neighbours(c);
            let before = [0, 2, 4].map(|k| if near[k].1 == c { 0.0 } else { near[k].0 * z[near[k].1] });
            z[c] = (r[c] - before.iter().sum::<f64>()) * self.inverse[c];
        }
        for c in (0..r.len()).rev() {
            let near = a.neighbours(c);
            let after = [1, 3, 5].map(|k| if near[k].1 == c { 0.0 } else { near[k].0 * z[near[k].1] });
            z[c] -= after.iter().sum::<f64>() * self.inverse[c];
        }
    }
}
