//! One V-cycle of multigrid with cell coarsening (Alcouffe, Brandt, Dendy and Painter 1981). A coarse cell consists of
//! two fine cells in each direction that is coarsened. The interpolation P is constant on a coarse cell, and R = P^T. A
//! coarse coupling is the sum of the couplings across the common face, divided by the number of fine cells per coarse
//! cell in its direction. The smoother is red-black Gauss-Seidel.

use crate::dense::Dense;
use crate::{System, index};

/// A direction is coarsened if its strength times this factor is at least that of the strongest direction.
const WEAK: f64 = 3.0;

/// A row sum of at most this fraction of the center counts as zero.
const ZERO_ROW_SUM: f64 = 1e-12;

/// The grids, beginning with the caller's, and the solver of the last one.
pub struct CellCentred {
    grids: Vec<System>,
    /// Number of fine cells per coarse cell in each direction, for each grid but the last.
    ratio: Vec<[usize; 3]>,
    coarsest: Dense,
    sweeps: usize,
}

impl CellCentred {
    /// Computes the grids of a matrix. The last grid has at most `coarsest` cells.
    pub fn new(a: &System, sweeps: usize, coarsest: usize) -> Self {
        let mut row_sums: Vec<f64> = (0..a.count()).map(|c| row_sum(a, c)).collect();
        let (mut grids, mut ratios) = (vec![a.clone()], Vec::new());
        while let Some(fine) = grids.last().filter(|grid| grid.count() > coarsest) {
            let ratio = ratio_of(fine);
            let coarse = coarser(fine, ratio, &mut row_sums);
            grids.push(coarse);
            ratios.push(ratio);
        }
        let last = &grids[grids.len() - 1];
        let mut couplings = Vec::new();
        for (c, row_sum) in row_sums.iter_mut().enumerate() {
            couplings.extend(last.neighbours(c).iter().filter(|(_, q)| *q > c).map(|&(a, q)| (c, q, -a)));
            // A row without couplings keeps its center.
            if coupled(last, c) == 0.0 {
                *row_sum = last.center[c];
            }
        }
        let coarsest = Dense::new(&couplings, &row_sums, 1e-14, 0.0);
        Self { grids, ratio: ratios, coarsest, sweeps }
    }

    /// Computes z = M^-1 r.
    pub fn apply(&self, r: &[f64], z: &mut [f64]) {
        z.copy_from_slice(&self.cycle(0, r));
    }

    fn cycle(&self, l: usize, r: &[f64]) -> Vec<f64> {
        let a = &self.grids[l];
        let mut x = vec![0.0; r.len()];
        let Some(ratio) = self.ratio.get(l) else {
            x.copy_from_slice(r);
            self.coarsest.solve(&mut x);
            return x;
        };
        for _ in 0..self.sweeps {
            relax(a, 0, r, &mut x);
            relax(a, 1, r, &mut x);
        }
        let next = &self.grids[l + 1];
        let above = |c: usize| index(next.size, [0, 1, 2].map(|d| a.place(c)[d] / ratio[d]));
        let mut coarse = vec![0.0; next.count()];
        for (c, (r, ax)) in r.iter().zip(a.multiply(&x)).enumerate() {
            coarse[above(c)] += r - ax;
        }
        let e = self.cycle(l + 1, &coarse);
        x.iter_mut().enumerate().for_each(|(c, x)| *x += e[above(c)]);
        for _ in 0..self.sweeps {
            relax(a, 1, r, &mut x);
            relax(a, 0, r, &mut x);
        }
        x
    }
}

/// Returns the negative sum of the couplings of a cell.
fn coupled(a: &System, c: usize) -> f64 {
    -a.neighbours(c).iter().map(|(a, _)| a).sum::<f64>()
}

/// Returns the row sum of a cell; zero if it is rounding, or without couplings.
fn row_sum(a: &System, c: usize) -> f64 {
    let more = a.center[c] - coupled(a, c);
    let any = a.neighbours(c).iter().any(|(a, _)| *a != 0.0);
    if any && more > ZERO_ROW_SUM * a.center[c] { more } else { 0.0 }
}

fn ratio_of(a: &System) -> [usize; 3] {
    let strength = [0, 1, 2].map(|d| {
        let of = |c: usize| (a.neighbours(c)[2 * d].0 + a.neighbours(c)[2 * d + 1].0).abs() / a.center[c];
        (0..a.count()).map(of).sum::<f64>()
    });
    let strongest = (0..3).filter(|&d| a.size[d] > 1).map(|d| strength[d]).fold(f64::NEG_INFINITY, f64::max);
    [0, 1, 2].map(|d| if a.size[d] == 1 || WEAK * strength[d] < strongest { 1 } else { 2 })
}

/// Returns the next coarser grid. `row_sums` contains the row sums of the fine grid, and on return those of the coarse
/// grid.
fn coarser(fine: &System, ratio: [usize; 3], row_sums: &mut Vec<f64>) -> System {
    let size = [0, 1, 2].map(|d| fine.size[d].div_ceil(ratio[d]));
    let count = size.iter().product();
    let mut of = System { size, center: vec![0.0; count], forward: [(); 3].map(|()| vec![0.0; count]) };
    let mut sums = vec![0.0; count];
    for (c, row_sum) in row_sums.iter().enumerate() {
        let place = fine.place(c);
        let coarse = index(size, [0, 1, 2].map(|d| place[d] / ratio[d]));
        sums[coarse] += row_sum;
        for d in (0..3).filter(|&d| (place[d] + 1).is_multiple_of(ratio[d])) {
            of.forward[d][coarse] += fine.forward[d][c] / ratio[d] as f64;
        }
    }
    for (c, sum) in sums.iter_mut().enumerate() {
        let own = coupled(&of, c) + *sum;
        of.center[c] = if own > 0.0 { own } else { 1.0 };
        if of.neighbours(c).iter().all(|(a, _)| *a == 0.0) {
            *sum = 0.0;
        }
    }
    *row_sums = sums;
    of
}

/// Computes x = D^-1 (r - (A - D) x) in the cells of a colour: 0 red, 1 black.
fn relax(a: &System, colour: usize, r: &[f64], x: &mut [f64]) {
    for c in (0..r.len()).filter(|&c| a.place(c).iter().sum::<usize>() % 2 == colour) {
        x[c] = (r[c] - a.neighbours(c).iter().map(|(a, q)| a * x[*q]).sum::<f64>()) / a.center[c];
    }
}
