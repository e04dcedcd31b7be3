//! A system A x = b for the tests that judge results of the library. The system is scaled by powers of two, and a flood
//! fill finds its components. Residuals are computed in twice the working precision, with bounds of the rounding errors
//! in double precision.

use crate::Stencil;
use crate::twice::{Twice, exponent, scaled};

/// Label of a node without couplings, which belongs to no component.
pub const LONE: usize = usize::MAX;

/// A norm, and a bound of the rounding error of the library's value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Value of the norm.
    pub value: f64,
    /// Bound of the rounding error.
    pub error: f64,
}

/// Returns the labels and the number of connected components with at least two of `len` nodes.
pub fn flood(len: usize, couplings: &[(usize, usize, f64)]) -> (Vec<usize>, usize) {
    let mut neighbours = vec![Vec::new(); len];
    for &(p, q, value) in couplings {
        if value != 0.0 {
            neighbours[p].push(q);
            neighbours[q].push(p);
        }
    }
    let mut label = vec![LONE; len];
    let mut count = 0;
    for start in 0..len {
        if label[start] != LONE || neighbours[start].is_empty() {
            continue;
        }
        let mut waiting = vec![start];
        label[start] = count;
        while let Some(p) = waiting.pop() {
            for &q in &neighbours[p] {
                if label[q] == LONE {
                    label[q] = count;
                    waiting.push(q);
                }
            }
        }
        count += 1;
    }
    (label, count)
}

/// A / 2^`exponent`, so that the largest center is in [1, 4).
pub struct System {
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Whether the stencil has nine points.
    pub nine: bool,
    /// Diagonal entries.
    pub center: Vec<f64>,
    /// Row p is `entries[first[p]..first[p + 1]]`: (column, coupling), nonzero couplings only.
    entries: Vec<(usize, f64)>,
    first: Vec<usize>,
    /// Exponent of the scaling; even, so that the square root of A is also scaled exactly.
    pub exponent: i32,
    /// Component of each node, or `LONE`.
    pub label: Vec<usize>,
    /// Number of nodes of each component.
    pub size: Vec<usize>,
    /// Largest |row sum| / center of each component.
    pub relative_row_sum: Vec<f64>,
    /// Whether a row sum is negative.
    pub has_negative_row_sum: bool,
    /// center - sum of |couplings|; residuals from differences use it as the weight of x_i.
    spread: Vec<f64>,
    /// Number of positive couplings.
    pub positive_couplings: usize,
    /// For each component, whether constants are projected on it.
    pub singular: Vec<bool>,
}

impl System {
    /// Creates the system of a stencil; no component is projected.
    pub fn new(a: &Stencil) -> Self {
        Self { nx: a.nx, ny: a.ny, nine: a.corners.is_some(), ..Self::of(&a.center, &a.couplings()) }
    }

    /// Creates the system of a symmetric matrix from its diagonal and its couplings, each once. The nodes form one row.
    pub fn of(center: &[f64], couplings: &[(usize, usize, f64)]) -> Self {
        let len = center.len();
        let largest = center.iter().fold(0.0, |m: f64, &c| m.max(c));
        let exponent = exponent(largest) & !1;
        let mut rows = vec![Vec::new(); len];
        let mut positive_couplings = 0;
        for &(p, q, value) in couplings {
            if value != 0.0 {
                positive_couplings += usize::from(value > 0.0);
                let value = scaled(value, -exponent);
                rows[p].push((q, value));
                rows[q].push((p, value));
            }
        }
        let center: Vec<f64> = center.iter().map(|&c| scaled(c, -exponent)).collect();
        let (label, count) = flood(len, couplings);
        let mut system = System {
            nx: len,
            ny: 1,
            nine: false,
            exponent,
            size: vec![0; count],
            relative_row_sum: vec![0.0; count],
            has_negative_row_sum: false,
            spread: Vec::with_capacity(len),
            positive_couplings,
            singular: vec![false; count],
            first: vec![0],
            entries: Vec::new(),
            center,
            label,
        };
        for (p, row) in rows.into_iter().enumerate() {
            let of = |term: fn(f64) -> f64| -> f64 {
                let couplings: Twice = row.iter().map(|&(_, a)| Twice::from(term(a))).sum();
                (Twice::from(system.center[p]) + couplings).value()
            };
            let (sum, spread) = (of(|a| a), of(|a| -a.abs()));
            system.spread.push(spread);
            if system.label[p] != LONE {
                let k = system.label[p];
                system.size[k] += 1;
                system.relative_row_sum[k] = system.relative_row_sum[k].max(sum.abs() / system.center[p]);
                system.has_negative_row_sum |= sum < 0.0;
            }
            system.entries.extend(row);
            system.first.push(system.entries.len());
        }
        system
    }

    /// Projects constants on components whose |row sums| are at most `tolerance` times the center.
    pub fn project_within(&mut self, tolerance: f64) {
        self.singular = self.relative_row_sum.iter().map(|&sum| sum <= tolerance).collect();
    }

    /// Returns the number of unknowns.
    #[expect(clippy::len_without_is_empty, reason = "a grid has nodes")]
    pub fn len(&self) -> usize {
        self.center.len()
    }

    /// Returns (column, coupling) of a row.
    pub fn row(&self, p: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.entries[self.first[p]..self.first[p + 1]].iter().copied()
    }

    /// Returns whether the first elimination removes a node: i + j = ox + oy + 1 (mod 2), where ox = 1 if there are at
    /// least two columns, and oy likewise for rows.
    pub fn is_red(&self, p: usize) -> bool {
        let kept = usize::from(self.nx > 1) + usize::from(self.ny > 1);
        (p % self.nx + p / self.nx + kept) % 2 == 1
    }

    fn projected(&self, p: usize) -> Option<usize> {
        Some(self.label[p]).filter(|&k| k != LONE && self.singular[k])
    }

    /// Returns the means over the singular components.
    pub fn means(&self, v: &[Twice]) -> Vec<Twice> {
        let mut sums = vec![Twice::default(); self.size.len()];
        for (&k, &v) in self.label.iter().zip(v) {
            if k != LONE {
                sums[k] = sums[k] + v;
            }
        }
        let of = |k: usize| if self.singular[k] { sums[k] / self.size[k] as f64 } else { Twice::default() };
        (0..self.size.len()).map(of).collect()
    }

    /// Returns v minus its means over the singular components.
    pub fn without_means(&self, v: &[Twice]) -> Vec<Twice> {
        let means = self.means(v);
        let of = |p: usize| self.projected(p).map_or(v[p], |k| v[p] - means[k]);
        (0..v.len()).map(of).collect()
    }

    /// Returns v, which is zero on red nodes, minus its means over the black nodes of the singular components.
    pub fn without_means_of_black(&self, v: &[Twice]) -> Vec<Twice> {
        let black = |p: usize| self.projected(p).filter(|_| !self.is_red(p));
        let mut sums = vec![(Twice::default(), 0.0); self.size.len()];
        for (p, &v) in v.iter().enumerate() {
            if let Some(k) = black(p) {
                sums[k] = (sums[k].0 + v, sums[k].1 + 1.0);
            }
        }
        (0..v.len()).map(|p| black(p).map_or(v[p], |k| v[p] - sums[k].0 / sums[k].1)).collect()
    }

    /// Returns a bound of the rounding error of each entry of a projected b. The bound is the sum of one unit in the
    /// last place of the entry, one unit of its mean, and the error of the pairwise sum of the mean (log2 of 40,000 is
    /// 15).
    pub fn rounding_of_rhs(&self, b: &[Twice]) -> Vec<f64> {
        let mut sizes = vec![0.0; self.size.len()];
        for (&k, b) in self.label.iter().zip(b) {
            if k != LONE {
                sizes[k] += b.abs().value();
            }
        }
        let of = |p: usize| {
            let mean = self.projected(p).map_or(0.0, |k| sizes[k] / self.size[k] as f64);
            f64::EPSILON * (b[p].abs().value() + 16.0 * mean)
        };
        (0..b.len()).map(of).collect()
    }

    /// Computes b - A x.
    pub fn residual(&self, b: &[Twice], x: &[Twice]) -> Vec<Twice> {
        let of = |p: usize| self.row(p).fold(b[p] - x[p] * self.center[p], |r, (q, a)| r - x[q] * a);
        (0..self.len()).map(of).collect()
    }

    /// Returns a bound of the rounding error of each entry of a residual that is computed from differences in double
    /// precision.
    ///
    /// Every term passes through at most 12 operations: 8 couplings, a product, a difference and the final sums. Each
    /// operation has an error of half a unit in the last place, so 8 units of the sum of magnitudes are a bound.
    pub fn rounding_of_residual(&self, b: &[Twice], x: &[Twice]) -> Vec<f64> {
        let of = |p: usize| {
            let flow = self.row(p).map(|(q, a)| {
                let other = if a > 0.0 { -x[q] } else { x[q] };
                a.abs() * (other - x[p]).abs().value()
            });
            let sizes = b[p].abs().value() + (self.spread[p] * x[p].value()).abs() + flow.sum::<f64>();
            8.0 * f64::EPSILON * sizes
        };
        (0..self.len()).map(of).collect()
    }

    /// Returns a bound of the rounding error of b - (center x + sum of a x), as S1 computes its residual.
    pub fn rounding_of_products(&self, b: &[Twice], x: &[Twice]) -> Vec<f64> {
        let size = |v: Twice| v.abs().value();
        let of = |p: usize| {
            let products = self.center[p] * size(x[p]) + self.row(p).map(|(q, a)| a.abs() * size(x[q])).sum::<f64>();
            8.0 * f64::EPSILON * (size(b[p]) + products)
        };
        (0..self.len()).map(of).collect()
    }

    /// Returns the change of each residual by rounding x to a multiple of 2^-1074: `half_unit` times the sum of |a_ij|.
    pub fn rounding_of_small(&self, half_unit: f64) -> Vec<f64> {
        let of = |p: usize| half_unit * (self.center[p] + self.row(p).map(|(_, a)| a.abs()).sum::<f64>());
        (0..self.len()).map(of).collect()
    }

    /// Computes r_b - A_br D_r^-1 r_r on black nodes, zero on red nodes, and the bound of its rounding errors.
    pub fn reduced(&self, r: &[Twice], errors: &[f64]) -> (Vec<Twice>, Vec<f64>) {
        let of = |p: usize| {
            if self.is_red(p) {
                return (Twice::default(), 0.0);
            }
            let mut sum = (r[p], errors[p] + f64::EPSILON * r[p].abs().value());
            for (q, a) in self.row(p) {
                let part = (r[q] / self.center[q]) * a;
                let rounding = 8.0 * f64::EPSILON * part.abs().value();
                sum = (sum.0 - part, sum.1 + rounding + a.abs() * errors[q] / self.center[q]);
            }
            sum
        };
        (0..self.len()).map(of).unzip()
    }

    /// Computes sqrt(sum of m^2 / center) over singular components: the norm of means m, which P M^-1 P maps to zero.
    pub fn norm_of_means(&self, means: &[Twice]) -> f64 {
        let of = |p: usize| self.projected(p).map_or(0.0, |k| means[k].value().powi(2) / self.center[p]);
        (0..self.len()).map(of).sum::<f64>().sqrt()
    }
}

/// Computes ||v||_2 for |v| up to 2^400.
pub fn norm2(v: &[Twice]) -> f64 {
    let largest = v.iter().fold(0.0, |m: f64, v| m.max(v.abs().value()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let e = exponent(largest);
    let unit = scaled(1.0, -e.clamp(-1000, 1000));
    let square: Twice = v.iter().map(|&v| (v * unit).square()).sum();
    square.value().sqrt() / unit
}

/// Computes ||v||_2 of error bounds.
pub fn norm2_of_sizes(v: &[f64]) -> f64 {
    let all: Vec<Twice> = v.iter().map(|&v| Twice::from(v)).collect();
    norm2(&all)
}

/// Computes v * 2^exponent.
pub fn twice(v: &[f64], exponent: i32) -> Vec<Twice> {
    v.iter().map(|&v| Twice::from(scaled(v, exponent))).collect()
}
