//! Stokes flow in a driven cavity, a stand-in for the matrices e05r0000 to e40r0000 of the Matrix Market.

use crate::sparse::{Entry, System, summed};

/// Gauss points and weights on [-1, 1], exact for polynomials of degree 5.
const GAUSS: [(f64, f64); 3] =
    [(-0.774_596_669_241_483_4, 5.0 / 9.0), (0.0, 8.0 / 9.0), (0.774_596_669_241_483_4, 5.0 / 9.0)];

/// Values and derivatives of the quadratic Lagrange polynomials with the nodes -1, 0, 1.
fn quadratic(x: f64) -> ([f64; 3], [f64; 3]) {
    ([0.5 * x * (x - 1.0), 1.0 - x * x, 0.5 * x * (x + 1.0)], [x - 0.5, -2.0 * x, x + 0.5])
}

/// Stokes flow on m x m square elements with biquadratic velocities and discontinuous linear pressures (Q2-P1), which
/// are 1, xi and eta on the reference element. The matrix is symmetric and indefinite:
///
/// ```text
/// [ K  B' ]   K = integral of (grad v + grad v') : grad u,   B = - integral of q div u
/// [ B  0  ]
/// ```
///
/// Velocities on the boundary and the constant pressure of the first element are eliminated. There are
/// 2 (2 m - 1)^2 + 3 m^2 - 1 rows of up to 62 entries. Rows are numbered element by element. The pattern is that of the
/// elements; entries that cancel are kept.
#[must_use]
pub fn cavity(m: usize) -> System {
    let nodes = 2 * m + 1;
    let mut number = vec![None; nodes * nodes];
    let mut n = 0;
    let mut entries: Vec<Entry> = Vec::new();
    let element = element(1.0 / m as f64);
    for (row, column) in (0..m).flat_map(|row| (0..m).map(move |column| (row, column))) {
        // Rows of the element: both velocities of nine nodes, then three pressures.
        let mut rows = [None; 21];
        for k in 0..9 {
            let (i, j) = (2 * column + k % 3, 2 * row + k / 3);
            if i == 0 || j == 0 || i + 1 == nodes || j + 1 == nodes {
                continue;
            }
            let first = *number[j * nodes + i].get_or_insert_with(|| {
                n += 2;
                n - 2
            });
            (rows[2 * k], rows[2 * k + 1]) = (Some(first), Some(first + 1));
        }
        for (k, row_of) in rows[18..].iter_mut().enumerate() {
            if (row, column, k) != (0, 0, 0) {
                *row_of = Some(n);
                n += 1;
            }
        }
        for (r, of_row) in rows.iter().enumerate() {
            for (c, of_column) in rows.iter().enumerate() {
                if let (Some(i), Some(j), Some(value)) = (of_row, of_column, element[r][c]) {
                    entries.push((*i, *j, value));
                }
            }
        }
    }
    System { n, entries: summed(entries) }
}

/// Matrix of an element with sides h; `None` where the pattern has no entry.
fn element(h: f64) -> [[Option<f64>; 21]; 21] {
    let mut a = [[0.0; 21]; 21];
    for ((x, wx), (y, wy)) in GAUSS.iter().flat_map(|x| GAUSS.iter().map(move |y| (*x, *y))) {
        let ((fx, dx), (fy, dy)) = (quadratic(x), quadratic(y));
        let gradient = |k: usize| [dx[k % 3] * fy[k / 3], fx[k % 3] * dy[k / 3]];
        for (k, l) in (0..9).flat_map(|k| (0..9).map(move |l| (k, l))) {
            let (of_k, of_l) = (gradient(k), gradient(l));
            let laplace = of_k[0] * of_l[0] + of_k[1] * of_l[1];
            for (c, d) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                // The factors 2 / h of both gradients and h^2 / 4 of the area cancel.
                a[2 * k + c][2 * l + d] += wx * wy * (if c == d { laplace } else { 0.0 } + of_k[d] * of_l[c]);
            }
        }
        for (k, c, (p, q)) in (0..9)
            .flat_map(|k| (0..2).map(move |c| (k, c)))
            .flat_map(|(k, c)| [1.0, x, y].into_iter().enumerate().map(move |pressure| (k, c, pressure)))
        {
            let value = -wx * wy * q * gradient(k)[c] * 0.5 * h;
            a[18 + p][2 * k + c] += value;
            a[2 * k + c][18 + p] += value;
        }
    }
    let mut with_pattern = [[None; 21]; 21];
    for (r, c) in (0..21).flat_map(|r| (0..21).map(move |c| (r, c))).filter(|&(r, c)| r < 18 || c < 18) {
        with_pattern[r][c] = Some(a[r][c]);
    }
    with_pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(a: &System, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; a.n];
        a.entries.iter().for_each(|&(i, j, value)| y[i] += value * x[j]);
        y
    }

    /// The sizes of e05r0000 and e40r0000, and their longest row.
    #[test]
    fn sizes_are_those_of_the_collection() {
        assert_eq!(cavity(5).n, 236);
        let a = cavity(40);
        let mut lengths = vec![0; a.n];
        a.entries.iter().for_each(|&(i, ..)| lengths[i] += 1);
        assert_eq!((a.n, lengths.iter().max()), (17_281, Some(&62)));
    }

    /// Rounding only: sums of up to nine Gauss points with values around 1.
    #[test]
    fn the_matrix_is_symmetric_and_pressures_have_no_diagonal() {
        let a = cavity(4);
        let value = |i: usize, j: usize| a.entries.iter().find(|e| (e.0, e.1) == (i, j)).map(|e| e.2);
        for &(i, j, entry) in &a.entries {
            assert!((entry - value(j, i).unwrap()).abs() < 1e-13, "{i} {j}");
        }
        assert_eq!((0..a.n).filter(|&i| value(i, i).is_none()).count(), 3 * 16 - 1);
    }

    /// A velocity that vanishes on the boundary has no net outflow: the pressure that is 1 everywhere is in the null
    /// space of B'. With the eliminated constant pressure of the first element, the sum of the other columns is minus
    /// that column, which is zero outside the first element.
    #[test]
    fn constant_pressures_have_no_gradient() {
        let (m, a) = (3, cavity(3));
        // Constant pressures are the first of the three rows without diagonal of each element but the first.
        let has_diagonal: Vec<bool> = (0..a.n).map(|i| a.entries.iter().any(|e| (e.0, e.1) == (i, i))).collect();
        let pressures: Vec<usize> = (0..a.n).filter(|&i| !has_diagonal[i]).collect();
        assert_eq!(pressures.len(), 3 * m * m - 1);
        let mut x = vec![0.0; a.n];
        pressures[2..].iter().step_by(3).for_each(|&i| x[i] = 1.0);
        let y = product(&a, &x);
        // Velocities of the four interior nodes of the first element have the numbers 0 to 7.
        assert!(y[8..].iter().all(|y| y.abs() < 1e-14) && y[..8].iter().any(|y| y.abs() > 1e-3), "{y:?}");
    }
}
