//! The result of an inspection does not depend on the division of the rows among threads.

use super::*;
use crate::stencil::components::ZERO_ROW_SUM;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::GridArray;
use proptest::prelude::*;

pub const OPTIONS: InspectionOptions = InspectionOptions { checks_finite: true, zero_row_sum: ZERO_ROW_SUM };

/// Inspects the matrix as `threads` threads would, one after the other.
pub fn inspect(
    inspection: &mut Inspection,
    a: &StencilView,
    threads: usize,
    options: &InspectionOptions,
) -> Result<()> {
    let ny = a.grid.ny;
    inspection.start(threads)?;
    for thread in (0..threads).rev() {
        inspection.inspect(thread, a, ny * thread / threads..ny * (thread + 1) / threads, options);
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
fn random_number(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as f64 / f64::from(1u32 << 31)
}

impl Matrix {
    /// Creates a random matrix. `land`: fraction of the nodes without couplings. `missing` and `positive`: fractions of
    /// zero and of positive couplings between other nodes. `regular`: fraction of the rows with a nonzero row sum.
    fn random(grid: Grid, nine_points: bool, seed: u64, [land, missing, positive, regular]: [f64; 4]) -> Self {
        let (nx, ny) = (grid.nx, grid.ny);
        let ld = nx + seed as usize % 3;
        let mut seed = seed;
        let has_couplings: Vec<bool> = (0..nx * ny).map(|_| random_number(&mut seed) >= land).collect();
        let mut a = Self { grid, ld, nine_points, arrays: std::array::from_fn(|_| vec![f64::NAN; ny * ld]) };
        let mut sums = vec![0.0; nx * ny];
        for (array, di, dj) in [(1, 1, 0), (2, 0, 1), (3, 1, 1), (4, -1, 1)] {
            if array > 2 && !nine_points {
                continue;
            }
            for (j, i) in (0..ny - dj).flat_map(|j| (0..nx).map(move |i| (j, i))) {
                let Some(neighbour) = i.checked_add_signed(di).filter(|&neighbour| neighbour < nx) else { continue };
                let (k, l) = (j * nx + i, (j + dj) * nx + neighbour);
                // Couplings are multiples of 1/16, so that sums are exact in any order.
                let mut coupling = -(1.0 + (16.0 * random_number(&mut seed)).floor()) / 16.0;
                if random_number(&mut seed) < positive {
                    coupling = -coupling;
                }
                if !has_couplings[k] || !has_couplings[l] || random_number(&mut seed) < missing {
                    coupling = if random_number(&mut seed) < 0.5 { 0.0 } else { -0.0 };
                }
                a.arrays[array][j * ld + i] = coupling;
                sums[k] += coupling;
                sums[l] += coupling;
            }
        }
        for (j, i) in (0..ny).flat_map(|j| (0..nx).map(move |i| (j, i))) {
            let sum = sums[j * nx + i];
            let row_sum = if sum >= 0.0 || random_number(&mut seed) < regular { 1.0 } else { 0.0 };
            a.arrays[0][j * ld + i] = sum.abs() + row_sum;
        }
        a
    }

    fn view(&self) -> StencilView<'_> {
        let v = |name, k: usize| GridArray::new(name, &self.arrays[k], self.grid, self.ld);
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
struct NodewiseComponents {
    parent: Vec<usize>,
    /// Singular component of each node, counted from 0.
    singular: Vec<Option<usize>>,
    first_node: Vec<(usize, usize)>,
    size: Vec<usize>,
    count: usize,
}

impl NodewiseComponents {
    fn of(a: &StencilView, tolerance: f64) -> Self {
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let n = nx * ny;
        let (first_node, size) = (Vec::new(), Vec::new());
        let mut components = Self { parent: (0..n).collect(), singular: vec![None; n], first_node, size, count: 0 };
        for j in 0..ny {
            let couplings: [(&[f64], usize, usize); 4] = [
                (a.east_row(j), 0, 1),
                (a.north_row(j), 0, nx),
                (a.northeast_row(j), 0, nx + 1),
                (a.northwest_row(j), 1, nx),
            ];
            for (values, first_offset, second_offset) in couplings {
                for (i, _) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                    let (k, l) =
                        (components.root(j * nx + i + first_offset), components.root(j * nx + i + second_offset));
                    components.parent[k.max(l)] = k.min(l);
                }
            }
        }
        let root: Vec<usize> = (0..n).map(|k| components.root(k)).collect();
        let mut nodes = vec![0; n];
        let mut is_regular = vec![false; n];
        for j in 0..ny {
            let mut sum = a.center.row(j).to_vec();
            a.add_couplings(j, &mut sum);
            for (i, (s, c)) in sum.iter().zip(a.center.row(j)).enumerate() {
                nodes[root[j * nx + i]] += 1;
                is_regular[root[j * nx + i]] |= s.abs() > tolerance * c;
            }
        }
        for k in 0..n {
            if root[k] == k && nodes[k] > 1 {
                components.count += 1;
                if !is_regular[k] {
                    components.singular[k] = Some(components.size.len());
                    components.first_node.push((k % nx, k / nx));
                    components.size.push(nodes[k]);
                }
            }
            components.singular[k] = components.singular[root[k]];
        }
        components
    }

    fn root(&self, mut k: usize) -> usize {
        while self.parent[k] != k {
            k = self.parent[k];
        }
        k
    }
}

fn compare_with_nodewise(inspection: &Inspection, a: &StencilView) {
    let (components, expected) = (&inspection.components, NodewiseComponents::of(a, ZERO_ROW_SUM));
    assert_eq!(components.count, expected.count);
    assert_eq!(components.projected_count(), expected.size.len());
    assert_eq!((&components.first_node, &components.size), (&expected.first_node, &expected.size));
    let (nx, ny) = (a.grid.nx, a.grid.ny);
    for j in 0..ny {
        let mut singular = vec![None; nx];
        for (columns, component) in components.singular_runs(j) {
            singular[columns].fill(Some(component));
        }
        assert_eq!(singular, expected.singular[j * nx..][..nx]);
        assert!((0..nx).all(|i| components.singular_component_of(nx, i, j) == singular[i]));
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

fn fractions() -> impl Strategy<Value = [f64; 4]> {
    let fraction = |max: f64| prop_oneof![Just(0.0), Just(0.02 * max), 0.0..max];
    (fraction(0.9), fraction(1.0), fraction(0.5), fraction(1.0)).prop_map(|(a, b, c, d)| [a, b, c, d])
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![1..6_usize, 1..40_usize, 60..70_usize, 125..135_usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares with the reference, for any division of the rows among threads and after any previous matrix.
    #[test]
    fn nodes_and_runs_agree(nx in extent(), ny in extent(), nine_points: bool, seed: u64, fractions in fractions()) {
        let mut inspection = Inspection::default();
        for seed in [seed, seed.wrapping_add(1)] {
            let a = Matrix::random(Grid { nx, ny }, nine_points, seed, fractions);
            for threads in [1, 2, 7, 3, 5] {
                inspect(&mut inspection, &a.view(), threads, &OPTIONS).unwrap();
                compare_with_nodewise(&inspection, &a.view());
            }
        }
    }

    /// For any division of the rows among threads, the error is that of the first invalid node.
    #[test]
    fn first_invalid_entry_is_reported(
        nx in extent(), ny in 1..20_usize, nine_points: bool, seed: u64, invalid_count in 1..4_usize
    ) {
        let mut a = Matrix::random(Grid { nx, ny }, nine_points, seed, [0.1; 4]);
        let mut seed = seed;
        for _ in 0..invalid_count {
            let mut random_below = |n: usize| (random_number(&mut seed) * n as f64) as usize;
            let node = random_below(ny) * a.ld + random_below(nx);
            // Some positions are never read, because they are in unused arrays or columns. Positions in `center` are
            // always read.
            let value = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0][random_below(6)];
            let array = if value.is_finite() { 0 } else { random_below(5) };
            a.arrays[array][node] = value;
        }
        let a = a.view();
        let not_finite = (0..ny).find_map(|j| {
            a.entries(j).into_iter().find_map(|(name, start, values)| {
                let i = values.iter().position(|v| !v.is_finite())?;
                Some(Error::not_finite(name, values[i], Location::node(0, start + i, j)).to_string())
            })
        });
        let all_negative = (0..ny).all(|j| a.center.row(j).iter().all(|&c| c < 0.0));
        let not_positive = (0..ny).find_map(|j| {
            let i = a.center.row(j).iter().position(|&c| c <= 0.0 || c.is_nan())?;
            if all_negative {
                return all_negative_error(&a, 0..a.grid.ny).map(|e| e.to_string());
            }
            let reason = format!("center@ = {} is not positive", format_number(a.center.row(j)[i]));
            Some(Error::matrix(reason, 0, i, j).to_string())
        });
        for checks_finite in [true, false] {
            let expected = not_finite.clone().filter(|_| checks_finite).or_else(|| not_positive.clone());
            let options = InspectionOptions { checks_finite, ..OPTIONS };
            for threads in 1..8 {
                let mut inspection = Inspection::default();
                let error = inspect(&mut inspection, &a, threads, &options).err().map(|e| e.to_string());
                prop_assert_eq!(&error, &expected, "{} threads", threads);
                if expected.is_none() {
                    let positive = (0..ny)
                        .flat_map(|j| a.entries(j).into_iter().skip(1))
                        .map(|(_, _, values)| values.iter().filter(|&&v| v > 0.0).count());
                    prop_assert_eq!(inspection.findings.positive_couplings, positive.sum::<usize>());
                    // Without the check for finite entries, NaN counts as a coupling and as a nonzero row sum.
                    prop_assert_eq!(inspection.components.count, NodewiseComponents::of(&a, ZERO_ROW_SUM).count);
                }
            }
        }
    }
}

#[test]
fn a_second_matrix_allocates_no_memory() {
    let random_matrix = |seed| Matrix::random(Grid { nx: 70, ny: 50 }, true, seed, [0.3, 0.1, 0.1, 0.01]);
    let mut inspection = Inspection::default();
    inspect(&mut inspection, &random_matrix(1).view(), 3, &OPTIONS).unwrap();
    let bytes = inspection.bytes();
    inspect(&mut inspection, &random_matrix(1).view(), 3, &OPTIONS).unwrap();
    assert_eq!(inspection.bytes(), bytes);
}

#[test]
fn extremes_of_any_length_are_found() {
    for n in [0, 1, 7, 8, 9, 511, 512, 513, 1037] {
        let mut v: Vec<f64> = (0..n).map(|k| f64::from((k * 37) % 101) - 50.0).collect();
        let min = v.iter().copied().fold(f64::INFINITY, f64::min);
        let max = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(extremes(&v), Some(Extremes { min, max }));
        assert_eq!(extremes_of_numbers(&v), Extremes { min, max });
        for not_finite in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            if let Some(last) = v.last_mut() {
                *last = not_finite;
                assert_eq!(extremes(&v), None);
            }
        }
    }
    assert!(all_finite(&[f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -0.0]));
    assert!([5e-324, 1.0, f64::MAX, f64::INFINITY].into_iter().all(is_positive));
    assert!(![0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN, -f64::NAN].into_iter().any(is_positive));
}
