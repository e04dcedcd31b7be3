//! The result of an inspection does not depend on the division of the rows.

use super::*;
use crate::stencil::components::ZERO_ROW_SUM;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::View;
use proptest::prelude::*;

pub const OPTIONS: InspectionOptions = InspectionOptions { finite: true, zero_row_sum: ZERO_ROW_SUM };

/// Inspects the matrix as `members` threads would, one after the other.
pub fn inspect(
    inspection: &mut Inspection,
    a: &StencilView,
    members: usize,
    options: &InspectionOptions,
) -> Result<()> {
    let ny = a.grid.ny;
    inspection.start(members)?;
    for member in (0..members).rev() {
        inspection.inspect(member, a, ny * member / members..ny * (member + 1) / members, options);
    }
    inspection.finish(a, true)
}

/// A matrix with its arrays: center, east, north, northeast, northwest.
struct Matrix {
    grid: Grid,
    ld: usize,
    nine_points: bool,
    arrays: [Vec<f64>; 5],
}

/// Returns pseudo-random numbers in [0, 1).
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as f64 / f64::from(1u32 << 31)
}

impl Matrix {
    /// Creates a random matrix. `land`: fraction of the nodes without couplings. `missing` and `positive`: fractions of
    /// zero and of positive couplings between other nodes. `excess`: fraction of the rows with a nonzero row sum.
    fn new(grid: Grid, nine_points: bool, seed: u64, [land, missing, positive, excess]: [f64; 4]) -> Self {
        let (nx, ny) = (grid.nx, grid.ny);
        let ld = nx + seed as usize % 3;
        let mut seed = seed;
        let wet: Vec<bool> = (0..nx * ny).map(|_| random(&mut seed) >= land).collect();
        let mut a = Self { grid, ld, nine_points, arrays: std::array::from_fn(|_| vec![f64::NAN; ny * ld]) };
        let mut sum = vec![0.0; nx * ny];
        for (array, di, dj) in [(1, 1, 0), (2, 0, 1), (3, 1, 1), (4, -1, 1)] {
            if array > 2 && !nine_points {
                continue;
            }
            for (j, i) in (0..ny - dj).flat_map(|j| (0..nx).map(move |i| (j, i))) {
                let Some(to) = i.checked_add_signed(di).filter(|&to| to < nx) else { continue };
                let (k, l) = (j * nx + i, (j + dj) * nx + to);
                // Couplings are multiples of 1/16, so that sums are exact in any order.
                let mut coupling = -(1.0 + (16.0 * random(&mut seed)).floor()) / 16.0;
                if random(&mut seed) < positive {
                    coupling = -coupling;
                }
                if !wet[k] || !wet[l] || random(&mut seed) < missing {
                    coupling = if random(&mut seed) < 0.5 { 0.0 } else { -0.0 };
                }
                a.arrays[array][j * ld + i] = coupling;
                sum[k] += coupling;
                sum[l] += coupling;
            }
        }
        for (j, i) in (0..ny).flat_map(|j| (0..nx).map(move |i| (j, i))) {
            let sum = sum[j * nx + i];
            let excess = if sum >= 0.0 || random(&mut seed) < excess { 1.0 } else { 0.0 };
            a.arrays[0][j * ld + i] = sum.abs() + excess;
        }
        a
    }

    fn view(&self) -> StencilView<'_> {
        let v = |name, k: usize| View::new(name, &self.arrays[k], self.grid, self.ld);
        StencilView {
            grid: self.grid,
            center: v("center", 0),
            east: v("east", 1),
            north: v("north", 2),
            corners: self.nine_points.then(|| (v("northeast", 3), v("northwest", 4))),
        }
    }
}

/// Reference implementation: union-find over nodes, and a separate loop for each property.
struct Nodewise {
    parent: Vec<usize>,
    /// Singular component of each node, counted from 0.
    singular: Vec<Option<usize>>,
    first_node: Vec<(usize, usize)>,
    size: Vec<usize>,
    count: usize,
}

impl Nodewise {
    fn of(a: &StencilView, tolerance: f64) -> Self {
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let n = nx * ny;
        let (first_node, size) = (Vec::new(), Vec::new());
        let mut found = Self { parent: (0..n).collect(), singular: vec![None; n], first_node, size, count: 0 };
        for j in 0..ny {
            let couplings: [(&[f64], usize, usize); 4] = [
                (a.east_row(j), 0, 1),
                (a.north_row(j), 0, nx),
                (a.northeast_row(j), 0, nx + 1),
                (a.northwest_row(j), 1, nx),
            ];
            for (values, from, to) in couplings {
                for (i, _) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                    let (k, l) = (found.root(j * nx + i + from), found.root(j * nx + i + to));
                    found.parent[k.max(l)] = k.min(l);
                }
            }
        }
        let root: Vec<usize> = (0..n).map(|k| found.root(k)).collect();
        let mut nodes = vec![0; n];
        let mut regular = vec![false; n];
        for j in 0..ny {
            let mut sum = a.center.row(j).to_vec();
            a.add_couplings(j, &mut sum);
            for (i, (s, c)) in sum.iter().zip(a.center.row(j)).enumerate() {
                nodes[root[j * nx + i]] += 1;
                regular[root[j * nx + i]] |= s.abs() > tolerance * c;
            }
        }
        for k in 0..n {
            if root[k] == k && nodes[k] > 1 {
                found.count += 1;
                if !regular[k] {
                    found.singular[k] = Some(found.size.len());
                    found.first_node.push((k % nx, k / nx));
                    found.size.push(nodes[k]);
                }
            }
            found.singular[k] = found.singular[root[k]];
        }
        found
    }

    fn root(&self, mut k: usize) -> usize {
        while self.parent[k] != k {
            k = self.parent[k];
        }
        k
    }
}

fn compare(inspection: &Inspection, a: &StencilView) {
    let (found, expected) = (&inspection.components, Nodewise::of(a, ZERO_ROW_SUM));
    assert_eq!(found.count, expected.count);
    assert_eq!(found.singular(), expected.size.len());
    assert_eq!((&found.first_node, &found.size), (&expected.first_node, &expected.size));
    let (nx, ny) = (a.grid.nx, a.grid.ny);
    for j in 0..ny {
        let mut singular = vec![None; nx];
        for (columns, component) in found.singular_runs(j) {
            singular[columns].fill(Some(component));
        }
        assert_eq!(singular, expected.singular[j * nx..][..nx]);
        assert!((0..nx).all(|i| found.singular_of(nx, i, j) == singular[i]));
    }

    let entries = || (0..ny).flat_map(|j| a.entries(j).into_iter().enumerate());
    let couplings = || entries().filter(|(k, _)| *k > 0).flat_map(|(_, (_, _, values))| values);
    let centers = || (0..ny).flat_map(|j| a.center.row(j));
    assert_eq!(
        inspection.findings,
        Findings {
            positive_couplings: couplings().filter(|&&v| v > 0.0).count(),
            center_min: centers().fold(f64::INFINITY, |m, &c| c.min(m)),
            center_max: centers().fold(0.0, |m, &c| c.max(m)),
            coupling_max: couplings().fold(0.0, |m, v| v.abs().max(m)),
        }
    );
}

fn parts() -> impl Strategy<Value = [f64; 4]> {
    let part = |most: f64| prop_oneof![Just(0.0), Just(0.02 * most), 0.0..most];
    (part(0.9), part(1.0), part(0.5), part(1.0)).prop_map(|(a, b, c, d)| [a, b, c, d])
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![1..6_usize, 1..40_usize, 60..70_usize, 125..135_usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares with the reference, for any division of the rows among threads and after any previous matrix.
    #[test]
    fn nodes_and_runs_agree(nx in extent(), ny in extent(), nine_points: bool, seed: u64, parts in parts()) {
        let mut inspection = Inspection::default();
        for seed in [seed, seed.wrapping_add(1)] {
            let a = Matrix::new(Grid { nx, ny }, nine_points, seed, parts);
            for members in [1, 2, 7, 3, 5] {
                inspect(&mut inspection, &a.view(), members, &OPTIONS).unwrap();
                compare(&inspection, &a.view());
            }
        }
    }

    /// The error is that of the first invalid node, for any division of the rows.
    #[test]
    fn bad_entries(nx in extent(), ny in 1..20_usize, nine_points: bool, seed: u64, bad in 1..4_usize) {
        let mut a = Matrix::new(Grid { nx, ny }, nine_points, seed, [0.1; 4]);
        let mut seed = seed;
        for _ in 0..bad {
            let mut below = |n: usize| (random(&mut seed) * n as f64) as usize;
            let node = below(ny) * a.ld + below(nx);
            // Some positions are never read, because they are in unused arrays or columns. Positions in `center` are
            // always read.
            let value = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0][below(6)];
            let array = if value.is_finite() { 0 } else { below(5) };
            a.arrays[array][node] = value;
        }
        let a = a.view();
        let not_finite = (0..ny).find_map(|j| {
            a.entries(j).into_iter().find_map(|(name, start, values)| {
                let i = values.iter().position(|v| !v.is_finite())?;
                Some(Error::not_finite(name, values[i], Place::node(0, start + i, j)).to_string())
            })
        });
        let all_negative = (0..ny).all(|j| a.center.row(j).iter().all(|&c| c < 0.0));
        let not_positive = (0..ny).find_map(|j| {
            let i = a.center.row(j).iter().position(|&c| c <= 0.0 || c.is_nan())?;
            if all_negative {
                return all_negative_error(&a, 0..a.grid.ny).map(|e| e.to_string());
            }
            let reason = format!("center@ = {} is not positive", written(a.center.row(j)[i]));
            Some(Error::matrix(reason, 0, i, j).to_string())
        });
        for finite in [true, false] {
            let expected = not_finite.clone().filter(|_| finite).or_else(|| not_positive.clone());
            let asked = InspectionOptions { finite, ..OPTIONS };
            for members in 1..8 {
                let mut inspection = Inspection::default();
                let error = inspect(&mut inspection, &a, members, &asked).err().map(|e| e.to_string());
                prop_assert_eq!(&error, &expected, "{} members", members);
                if expected.is_none() {
                    let positive = (0..ny)
                        .flat_map(|j| a.entries(j).into_iter().skip(1))
                        .map(|(_, _, values)| values.iter().filter(|&&v| v > 0.0).count());
                    prop_assert_eq!(inspection.findings.positive_couplings, positive.sum::<usize>());
                    // Without the check for finite entries, NaN counts as a coupling and as a nonzero row sum.
                    prop_assert_eq!(inspection.components.count, Nodewise::of(&a, ZERO_ROW_SUM).count);
                }
            }
        }
    }
}

#[test]
fn a_second_matrix_allocates_no_memory() {
    let of = |seed| Matrix::new(Grid { nx: 70, ny: 50 }, true, seed, [0.3, 0.1, 0.1, 0.01]);
    let mut inspection = Inspection::default();
    inspect(&mut inspection, &of(1).view(), 3, &OPTIONS).unwrap();
    let bytes = inspection.bytes();
    inspect(&mut inspection, &of(1).view(), 3, &OPTIONS).unwrap();
    assert_eq!(inspection.bytes(), bytes);
}

#[test]
fn extremes_of_awkward_lengths() {
    for n in [0, 1, 7, 8, 9, 511, 512, 513, 1037] {
        let mut v: Vec<f64> = (0..n).map(|k| f64::from((k * 37) % 101) - 50.0).collect();
        let min = v.iter().copied().fold(f64::INFINITY, f64::min);
        let max = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(extremes(&v), Some(Extremes { min, max }));
        assert_eq!(extremes_of_numbers(&v), Extremes { min, max });
        for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            if let Some(last) = v.last_mut() {
                *last = bad;
                assert_eq!(extremes(&v), None);
            }
        }
    }
    assert!(all_finite(&[f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -0.0]));
    assert!([5e-324, 1.0, f64::MAX, f64::INFINITY].into_iter().all(is_positive));
    assert!(![0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN, -f64::NAN].into_iter().any(is_positive));
}
