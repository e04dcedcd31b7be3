//! Tests of the multithreaded projection against the formula, evaluated cell by cell.

use super::*;
use crate::base::team::Team;
use crate::deflation::Solver;
use crate::deflation::regions::{RegionChoice, RegionKind};
use crate::stencil::cell_components::StrongGroups;
use crate::stencil::cells::{CellValues, CellView, Cells, StoredMatrix};
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

fn stored_matrix(problem: &TwoPhase) -> StoredMatrix {
    let [nx, ny, nz] = problem.size;
    let cells = Cells { nx, ny, nz };
    let values = |name, data| CellValues::new(name, data, cells, nx, nx * ny);
    let [x, y, z] = &problem.forward;
    let a = CellView {
        cells,
        center: values("center", &problem.center),
        forward: [values("east", x), values("north", y), values("top", z)],
    };
    let mut stored = StoredMatrix::default();
    let mut rows = stored.rows_mut(a.cells).unwrap();
    (0..a.cells.rows()).for_each(|row| rows.copy_row(&a, row));
    stored
}

/// Returns the entries (column, value) of row c of A, including the diagonal.
fn entries_of_row(a: &SevenPoints, c: usize) -> Vec<(usize, f64)> {
    let mut entries = vec![(c, a.center[c])];
    for (couplings, step) in a.forward.into_iter().zip(a.cells.strides()) {
        if couplings[c] != 0.0 {
            entries.push((c + step, couplings[c]));
        }
        if c >= step && couplings[c - step] != 0.0 {
            entries.push((c - step, couplings[c - step]));
        }
    }
    entries
}

struct Case {
    matrix: StoredMatrix,
    components: CellComponents,
    regions: Regions,
}

impl Case {
    fn new(problem: &TwoPhase, kind: RegionKind, boxes: [usize; 3], keep_all: bool) -> Self {
        let matrix = stored_matrix(problem);
        let a = matrix.matrix();
        let (components, strong_groups) = (CellComponents::find(&a).unwrap(), StrongGroups::find(&a).unwrap());
        let choice = RegionChoice { kind, boxes, labels: None, dilation: false, keep_all };
        let regions = Regions::find(&a, &components, &strong_groups, &choice).unwrap();
        Self { matrix, components, regions }
    }

    fn coarse_matrix(&self, solver: Solver) -> CoarseMatrix {
        CoarseMatrix::new(&self.matrix.matrix(), &self.components, &self.regions, solver, 1e-12).unwrap()
    }

    /// Returns P v, v + Z t and <g, t>, computed by `threads` threads.
    fn project_by_team(&self, v: &[f64], solver: Solver, threads: usize) -> (Vec<f64>, Vec<f64>, f64) {
        let (a, nx) = (self.matrix.matrix(), self.matrix.cells().nx);
        let pieces = Pieces::new(a.cells);
        let coarse_matrix = self.coarse_matrix(solver);
        let projection = Projection::new(pieces, &a, &self.components, &self.regions, coarse_matrix, threads).unwrap();
        let outputs = [Shared::zeroed(v.len()).unwrap(), Shared::zeroed(v.len()).unwrap()];
        let project_rows = |thread: TeamThread| {
            projection.restrict(thread, |cells| &v[cells]);
            let g = projection.solve(thread);
            for row in pieces.share(thread).flat_map(|piece| pieces.rows(piece)) {
                let cells = row * nx..(row + 1) * nx;
                // SAFETY: the row belongs to this thread.
                let [p, x] = outputs.each_ref().map(|out| unsafe { out.slice_mut(cells.start, nx) });
                p.copy_from_slice(&v[cells.clone()]);
                x.copy_from_slice(&v[cells.clone()]);
                projection.subtract_deflated(row, self.matrix.couplings(&cells), p);
                projection.prolong(row, x);
            }
            projection.dot_with_t(g)
        };
        let mut team = Team::new(threads).unwrap();
        let product = team
            .run(
                |thread| {
                    project_rows(thread);
                },
                project_rows,
            )
            .unwrap();
        // SAFETY: the run has ended.
        let [p, x] = outputs.map(|out| unsafe { out.slice(0, v.len()) }.to_vec());
        (p, x, product)
    }

    /// Returns P v, v + Z t and <g, t>, computed by the formula.
    fn project_by_formula(&self, v: &[f64]) -> (Vec<f64>, Vec<f64>, f64) {
        let a = self.matrix.matrix();
        let coarse_matrix = self.coarse_matrix(Solver::Inverse);
        let region_of = |c: usize| usize::from(self.regions.region_of_cell[c]);
        let (mut g, mut t) = (vec![0.0; coarse_matrix.count()], vec![0.0; coarse_matrix.count()]);
        (0..v.len())
            .filter(|&c| region_of(c) < g.len())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|c| g[region_of(c)] += v[c]);
        coarse_matrix.solve(&g, &mut t, &mut coarse_matrix.scratch().unwrap());
        let zt = |c: usize| t.get(region_of(c)).copied().unwrap_or(0.0);
        let azt = |c: usize| entries_of_row(&a, c).into_iter().map(|(column, a)| a * zt(column)).sum::<f64>();
        let product = g.iter().zip(&t).map(|(g, t)| g * t).sum();
        ((0..v.len()).map(|c| v[c] - azt(c)).collect(), (0..v.len()).map(|c| v[c] + zt(c)).collect(), product)
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let problems = [
        ("9", [20, 20, 20], 1e-3),
        ("9", [50, 37, 23], 1e-3),
        ("surf;obs=box", [16, 16, 16], 1e-3),
        ("9;dir=top", [12, 14, 16], 1e-3),
        ("dam", [1, 30, 33], 1e-3),
        ("surf", [42, 33, 1], 1e-2),
        ("1", [2, 2, 2], 1e-3),
        ("r200", [32, 32, 32], 1e-3),
    ];
    for (name, size, contrast) in problems {
        let problem = TwoPhase::new(name, size, contrast);
        for kind in [RegionKind::Subdomain, RegionKind::LevelSet, RegionKind::LevelSetSubdomain] {
            let boxes = size.map(|n: usize| n.min(4));
            cases.extend([false, true].map(|keep_all| Case::new(&problem, kind, boxes, keep_all)));
        }
    }
    cases
}

/// Returns A v for a random v. The sum of A v over a region that fills a singular component is zero.
fn vector_in_range_of_a(a: &SevenPoints) -> Vec<f64> {
    let mut generator = SplitMix(3);
    let v: Vec<f64> = (0..a.cells.count()).map(|_| 2.0 * generator.unit() - 1.0).collect();
    (0..v.len()).map(|c| entries_of_row(a, c).into_iter().map(|(column, a)| a * v[column]).sum()).collect()
}

#[test]
fn projection_matches_the_formula_for_any_number_of_threads() {
    for case in cases() {
        let v = vector_in_range_of_a(&case.matrix.matrix());
        let expected = case.project_by_formula(&v);
        let max_norm = v.iter().fold(0.0_f64, |max, v| max.max(v.abs()));
        let one_thread = case.project_by_team(&v, Solver::Inverse, 1);
        let is_close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-11 * max_norm);
        let name = format!("{:?}, {} vectors", case.matrix.cells(), case.regions.count);
        assert!(is_close(&one_thread.0, &expected.0) && is_close(&one_thread.1, &expected.1), "{name}");
        assert!(
            (one_thread.2 - expected.2).abs() <= 1e-11 * expected.2.abs(),
            "{name}: {} {}",
            one_thread.2,
            expected.2
        );
        for threads in [2, 3, 7] {
            assert!(case.project_by_team(&v, Solver::Inverse, threads) == one_thread, "{name}, {threads} threads");
        }
        let with_cholesky = case.project_by_team(&v, Solver::Cholesky, 2);
        assert!(is_close(&with_cholesky.0, &one_thread.0), "{name}");
    }
}

#[test]
fn sums_are_independent_of_row_order() {
    let case = Case::new(&TwoPhase::new("9", [20, 21, 22], 1e-3), RegionKind::LevelSetSubdomain, [2; 3], false);
    let a = case.matrix.matrix();
    let pieces = Pieces::new(a.cells);
    let projection =
        Projection::new(pieces, &a, &case.components, &case.regions, case.coarse_matrix(Solver::Inverse), 1).unwrap();
    // The values are integers, so the order of summation does not matter.
    let v: Vec<f64> = (0..a.cells.count()).map(|c| f64::from(c as u32 % 19)).collect();
    let restrict_by = |is_upward: bool| {
        let restrict_rows = |thread: TeamThread| {
            for piece in 0..pieces.count() {
                // SAFETY: only this thread uses the projection, one piece after the other.
                let mut sums = unsafe { projection.begin_piece(thread, piece, is_upward) };
                let mut rows: Vec<usize> = pieces.rows(piece).collect();
                if !is_upward {
                    rows.reverse();
                }
                rows.into_iter().for_each(|row| sums.add(row, &v[row * 20..(row + 1) * 20]));
            }
            projection.solve(thread).to_vec()
        };
        Team::new(1).unwrap().run(|_| {}, restrict_rows).unwrap()
    };
    assert_eq!(restrict_by(true), restrict_by(false));
}
