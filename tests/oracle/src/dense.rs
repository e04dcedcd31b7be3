//! Direct solver for coarsest grids, in row-sum form. If all couplings have the same sign, the elimination subtracts no
//! numbers.

/// The factor of a symmetric matrix.
pub struct Dense {
    /// For each row, the couplings to later rows after the elimination of all earlier rows.
    later: Vec<Vec<(usize, f64)>>,
    /// Inverse pivots. If the inverse pivot is 0, x is 0 in this row.
    inverse: Vec<f64>,
    /// Rows of singular components.
    singular: Vec<Vec<usize>>,
}

impl Dense {
    /// Factorizes a matrix with conductances c(p, q) = -a(p, q) and row sums. A pivot of at most `zero` times its
    /// diagonal is rounding. A component is singular if its row sums add up to at most `singular`.
    pub fn new(couplings: &[(usize, usize, f64)], row_sums: &[f64], zero: f64, singular: f64) -> Self {
        let n = row_sums.len();
        let (mut c, mut g) = (vec![vec![0.0; n]; n], row_sums.to_vec());
        for &(p, q, value) in couplings {
            (c[p][q], c[q][p]) = (value, value);
        }
        let diagonal: Vec<f64> = c.iter().zip(&g).map(|(row, g)| row.iter().sum::<f64>() + g).collect();
        let singular = components(&c).into_iter().filter(|rows| total(rows, row_sums) <= singular).collect();
        let (mut later, mut inverse) = (Vec::new(), Vec::new());
        for k in 0..n {
            let row: Vec<(usize, f64)> = (k + 1..n).map(|j| (j, c[k][j])).filter(|(_, c)| *c != 0.0).collect();
            let pivot = g[k] + row.iter().map(|(_, c)| c).sum::<f64>();
            let over = if pivot <= zero * diagonal[k] { 0.0 } else { 1.0 / pivot };
            for &(i, to_i) in &row {
                g[i] += to_i * over * g[k];
                row.iter().filter(|(j, _)| *j != i).for_each(|&(j, to_j)| c[i][j] += to_i * over * to_j);
            }
            later.push(row);
            inverse.push(over);
        }
        Self { later, inverse, singular }
    }

    /// Solves in place. On a singular component, the solution has mean zero.
    pub fn solve(&self, x: &mut [f64]) {
        self.remove_means(x);
        for (k, row) in self.later.iter().enumerate() {
            let share = x[k] * self.inverse[k];
            row.iter().for_each(|&(i, c)| x[i] += c * share);
        }
        for (k, row) in self.later.iter().enumerate().rev() {
            x[k] = (x[k] + row.iter().map(|&(j, c)| c * x[j]).sum::<f64>()) * self.inverse[k];
        }
        self.remove_means(x);
    }

    fn remove_means(&self, x: &mut [f64]) {
        for rows in &self.singular {
            let mean = total(rows, x) / rows.len() as f64;
            rows.iter().for_each(|&p| x[p] -= mean);
        }
    }
}

fn total(rows: &[usize], x: &[f64]) -> f64 {
    rows.iter().map(|&p| x[p]).sum()
}

/// Returns the rows of each connected component.
fn components(c: &[Vec<f64>]) -> Vec<Vec<usize>> {
    let (mut seen, mut components) = (vec![false; c.len()], Vec::new());
    for first in 0..c.len() {
        let (mut stack, mut rows) = (vec![first], Vec::new());
        while let Some(p) = stack.pop() {
            if !std::mem::replace(&mut seen[p], true) {
                rows.push(p);
                stack.extend((0..c.len()).filter(|&q| c[p][q] != 0.0));
            }
        }
        if !rows.is_empty() {
            components.push(rows);
        }
    }
    components
}
