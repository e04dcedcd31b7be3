//! Plain loops in double precision for deflated PCG on boxes of cells. The tests compare the library with them. Nothing
//! here depends on the library.

pub mod cell;
pub mod dense;
pub mod incomplete;
pub mod pcg;
pub mod series;
pub mod vertex;

use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

/// A symmetric 7-point matrix on a box of cells, x fastest. Entries that leave the box are zero.
#[derive(Clone)]
pub struct System {
    /// Number of cells in each direction.
    pub size: [usize; 3],
    /// Diagonal.
    pub center: Vec<f64>,
    /// Entries between a cell and the next cell in each direction.
    pub forward: [Vec<f64>; 3],
}

impl System {
    /// Returns the matrix of a two-phase problem.
    pub fn of(problem: &TwoPhase) -> Self {
        let inward = |v: &Vec<f64>| v.iter().map(|v| if v.is_nan() { 0.0 } else { *v }).collect();
        let forward = [0, 1, 2].map(|d| inward(&problem.forward[d]));
        Self { size: problem.size, center: problem.center.clone(), forward }
    }

    /// Creates random conductances over six orders of magnitude on the faces for which `open(place, d)` is true.
    /// `row_sum` is the row sum of every row.
    pub fn random(size: [usize; 3], seed: u64, row_sum: f64, open: impl Fn([usize; 3], usize) -> bool) -> Self {
        let count = size.iter().product();
        let mut random = SplitMix(seed);
        let mut of = Self { size, center: vec![row_sum; count], forward: [(); 3].map(|()| vec![0.0; count]) };
        for p in 0..count {
            let place = of.place(p);
            for (d, step) in of.steps().into_iter().enumerate() {
                let c = 10.0_f64.powf(6.0 * random.unit() - 3.0);
                if place[d] + 1 < size[d] && open(place, d) {
                    of.forward[d][p] = -c;
                    of.center[p] += c;
                    of.center[p + step] += c;
                }
            }
        }
        // Cells without open faces and with row sum 0 are obstacles.
        of.center.iter_mut().filter(|c| **c == 0.0).for_each(|c| *c = 1.0);
        of
    }

    /// Returns the number of cells.
    pub fn count(&self) -> usize {
        self.center.len()
    }

    /// Returns the distance from a cell to the next cell in each direction.
    pub fn steps(&self) -> [usize; 3] {
        steps(self.size)
    }

    /// Returns the indices (i, j, k) of a cell.
    pub fn place(&self, cell: usize) -> [usize; 3] {
        place(self.size, cell)
    }

    /// Returns the entries to the neighbours of a cell and their indices: west, east, south, north, bottom, top.
    /// Outside the box: zero and the cell itself.
    pub fn neighbours(&self, cell: usize) -> [(f64, usize); 6] {
        let (at, steps) = (self.place(cell), self.steps());
        let mut found = [(0.0, cell); 6];
        for d in 0..3 {
            if at[d] > 0 {
                found[2 * d] = (self.forward[d][cell - steps[d]], cell - steps[d]);
            }
            if at[d] + 1 < self.size[d] {
                found[2 * d + 1] = (self.forward[d][cell], cell + steps[d]);
            }
        }
        found
    }

    /// Returns A x.
    pub fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let row = |c: usize| self.neighbours(c).iter().fold(self.center[c] * x[c], |sum, (a, q)| sum + a * x[*q]);
        (0..x.len()).map(row).collect()
    }
}

/// Returns the distance from a point to the next point in each direction.
pub fn steps([nx, ny, _]: [usize; 3]) -> [usize; 3] {
    [1, nx, nx * ny]
}

/// Returns the indices (i, j, k) of a point.
pub fn place([nx, ny, _]: [usize; 3], point: usize) -> [usize; 3] {
    [point % nx, point / nx % ny, point / (nx * ny)]
}

/// Returns the index of a point.
pub fn index(size: [usize; 3], [i, j, k]: [usize; 3]) -> usize {
    (k * size[1] + j) * size[0] + i
}

/// Returns <a, b>, summed pairwise.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() <= 64 {
        return a.iter().zip(b).map(|(a, b)| a * b).sum();
    }
    let half = a.len() / 2;
    dot(&a[..half], &b[..half]) + dot(&a[half..], &b[half..])
}
