//! Any number of threads is bitwise identical, on large grids, in any layout, and on basins and land of all shapes. The
//! reference backend agrees up to rounding. Requirements on every backend for small grids are in conformance.rs.

#[path = "../common/mod.rs"]
mod common;

use common::problems::{
    Random, Stencil, aniso, fe_aniso, inclusions, neumann_const, nine_point, random_m_matrix, random_rhs, rot, rot7,
};
use common::{
    Run, Solver, assert_same_to_rounding, bits, count_is_right, key, max_abs, max_difference, norm2, padded,
    plain_problems, run, status,
};
use proptest::prelude::*;

const THREADS: [usize; 4] = [1, 2, 3, 7];

/// Checks that all results of two solves are bitwise identical.
#[track_caller]
fn assert_same_bits(a: &Run, b: &Run, what: &str) {
    assert_eq!(a.iterations, b.iterations, "{what}");
    assert!(bits(&a.history) == bits(&b.history), "histories differ: {what}");
    assert!(bits(&a.x) == bits(&b.x), "solutions differ by {:e}: {what}", max_difference(&a.x, &b.x));
    assert_eq!(
        (a.lambda_min.to_bits(), a.lambda_max.to_bits()),
        (b.lambda_min.to_bits(), b.lambda_max.to_bits()),
        "{what}"
    );
}

/// Extents of several thousand nodes, on which threads share up to three grids, and whose shares end at arbitrary rows.
/// On flat grids, some threads have no row.
const LARGE_EXTENTS: [(usize, usize); 10] = [
    (97, 101),
    (130, 131),
    (411, 277),
    (277, 411),
    (400, 640),
    (1030, 33),
    (33, 1030),
    (3, 9001),
    (9001, 3),
    (1, 20_000),
];

#[test]
fn teams_agree_on_large_grids() {
    // Every extent with the defaults, in double precision, and with one of the other options.
    let others = ["fusion=off", "norm=preconditioned grids=2", "compute_block=32 lumping=m2u max_iter=30"];
    for (k, (nx, ny)) in LARGE_EXTENTS.into_iter().enumerate() {
        for (name, a, b) in plain_problems(nx, ny) {
            for more in ["", "precision=f64", &format!("precision=f64 {}", others[k % 3])] {
                let options = |backend: &str| format!("backend={backend} levels=10 rel_tol=1e-8 {more}");
                let what = format!("{name} {nx}x{ny} {more}");
                let first = run(&a, &b, &options("cpu threads=1"));
                // The default format bf16 is compared in formats.rs, which bounds the rounding of its sweeps.
                if !more.is_empty() {
                    assert_same_to_rounding(&run(&a, &b, &options("reference")), &first, 1e-8, &what);
                }
                for threads in [2, 3, 5, 7] {
                    let other = run(&a, &b, &options(&format!("cpu threads={threads}")));
                    assert_same_bits(&first, &other, &format!("{what} threads={threads}"));
                }
            }
        }
    }
}

/// More threads than cores run in random order: results are bitwise identical every time.
#[test]
fn crowded_teams_agree() {
    let (nx, ny) = (301, 217);
    for a in [random_m_matrix(nx, ny, false, 1), random_m_matrix(nx, ny, true, 1), neumann_const(nx, ny)] {
        let b = random_rhs(a.len(), 1);
        let first = run(&a, &b, "backend=cpu threads=1");
        for threads in [4, 13, 40] {
            let solver = Solver::of(&a, &format!("backend=cpu threads={threads}"));
            for round in 0..6 {
                let (x, result) = solver.solve_from_zero(&b);
                assert!(result == status::OK && bits(&x) == bits(&first.x), "{threads} threads, round {round}");
                solver.factorize(&a).unwrap();
            }
        }
    }
}

/// Another number of r1/r2/b1/b2 grids or another padding is only a different layout of the same numbers.
#[test]
fn layout_does_not_matter() {
    for (nx, ny) in [(65, 64), (40, 75), (131, 33), (9, 70)] {
        for (name, a, b) in plain_problems(nx, ny) {
            let oracle = run(&a, &b, "backend=reference levels=8 rel_tol=1e-9");
            for grids in [0, 1, 2, 3, 4, 60] {
                for block in [8, 16, 32, 64] {
                    let layout = format!("backend=cpu levels=8 rel_tol=1e-9 grids={grids} compute_block={block}");
                    let one = run(&a, &b, &format!("{layout} threads=1"));
                    assert_same_to_rounding(&oracle, &one, 1e-9, &format!("{name} {nx}x{ny} {layout}"));
                    let three = run(&a, &b, &format!("{layout} threads=3"));
                    assert_same_bits(&one, &three, &format!("{name} {nx}x{ny} {layout}"));
                }
            }
        }
    }
}

/// From half a million nodes on, the first grid is set up in windows of its rows. With few levels, it is the only
/// packed grid.
#[test]
fn large_grids_of_few_levels() {
    let (nx, ny) = (1050, 501);
    let a = random_m_matrix(nx, ny, false, 3);
    let b = random_rhs(nx * ny, 4);
    for options in ["levels=2", "levels=3", "levels=6 grids=1", "levels=6 grids=2"] {
        let solver = |backend: &str, threads: usize| {
            Solver::of(&a, &format!("backend={backend} threads={threads} precision=f64 cycle=v {options}"))
        };
        let z = solver("cpu", 1).apply(&b);
        let error = max_difference(&solver("reference", 1).apply(&b), &z) / max_abs(&z);
        // As in `first_iterates` of conformance.rs: rounding times the condition number.
        assert!(error <= 1e-12, "{options}: {error:e}");
        assert!(bits(&solver("cpu", 3).apply(&b)) == bits(&z), "{options}");
    }
}

/// The last row of an array may end at its last node: memory behind it is neither read nor written.
#[test]
fn arrays_may_end_with_the_last_node() {
    let (nx, ny, ld) = (6, 5, 9);
    let a = random_m_matrix(nx, ny, true, 12);
    let b = random_rhs(nx * ny, 1);
    let short = |v: &[f64]| {
        let mut wide = padded(v, nx, ld, f64::NAN);
        wide.truncate((ny - 1) * ld + nx);
        wide.into_boxed_slice()
    };
    let solver = Solver::new(nx, ny, &format!("leading_dimension={ld}"));
    let (ne, nw) = a.corners.as_ref().expect("nine points");
    solver
        .factorize_arrays(&short(&a.center), &short(&a.east), &short(&a.north), Some((&short(ne), &short(nw))))
        .expect("factorize");
    let mut x = short(&vec![0.0; nx * ny]);
    assert_eq!(solver.solve(&short(&b), &mut x), Ok(status::OK));
}

/// Difficult coefficients: jumps of 1, 1e3 and 1e6, strong anisotropy, positive couplings. Both backends agree.
#[test]
fn hard_coefficients() {
    let n = 96;
    let m = n - 1;
    let cases: Vec<(String, Stencil)> = [1.0, 1e3, 1e6]
        .map(|c| (format!("inclusions {c}"), inclusions(n, c)))
        .into_iter()
        .chain([1e-3, 1e-6].map(|c| (format!("inclusions {c}"), inclusions(n, c))))
        .chain([0.1, 10.0].map(|r| (format!("hx/hy = {r}"), aniso(n, r))))
        .chain([2.0, 3.0, 5.0, 10.0].map(|r| (format!("elements {r}"), fe_aniso(m, m, r))))
        .chain(
            [(0.1, 15.0), (0.1, 45.0), (0.01, 15.0), (0.01, 75.0)]
                .map(|(e, t)| (format!("rot {e} {t}"), rot(m, m, e, t))),
        )
        .chain([(0.1, 15.0), (0.01, 15.0)].map(|(e, t)| (format!("rot7 {e} {t}"), rot7(m, m, e, t))))
        .chain([
            ("skew".to_owned(), nine_point(m, m, "skew_only+eps")),
            ("mass".to_owned(), nine_point(m, m, "fe_mass")),
        ])
        .collect();
    for (name, a) in cases {
        let b = random_rhs(a.len(), 9);
        let oracle = run(&a, &b, "backend=reference levels=40");
        let cpu = run(&a, &b, "backend=cpu threads=2 levels=40 switch_memory=0");
        assert_eq!(oracle.status, status::OK, "{name}");
        assert!(norm2(&a.residual(&b, &cpu.x)) <= 1.001e-6 * norm2(&b), "{name}");
        // Condition numbers up to a few hundred and up to 100 iterations: rounding grows to about 1e-6 of a residual.
        // Inclusions with conductivity 1e-6 have directions that the residual hardly contains. Rounding then grows to 1
        // % and more, which is one iteration where the residual stagnates (22 instead of 21 with V).
        let close = name == "inclusions 0.000001" && cpu.iterations.abs_diff(oracle.iterations) <= 1;
        assert!(
            close || count_is_right(&cpu.history, oracle.iterations, 1e-6),
            "{name}: {} and {}",
            oracle.iterations,
            cpu.iterations
        );
    }
}

/// Returns a bound of the rounding error of the mean of `count` values.
///
/// The two sums that are compared contribute 2^-53 per term. Each iteration contributes a sum, its product, and a
/// direction whose mean is zero up to rounding: together twice 2^-52 of the largest value.
fn mean_to_rounding(count: usize, iterations: usize, largest: f64) -> f64 {
    (count + 2 * iterations) as f64 * f64::EPSILON * largest
}

/// Returns the component label of every node, by flooding along nonzero couplings.
fn components(a: &Stencil) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); a.len()];
    for (p, q, v) in a.couplings() {
        if v != 0.0 {
            neighbours[p].push(q);
            neighbours[q].push(p);
        }
    }
    let mut label = vec![usize::MAX; a.len()];
    for start in 0..a.len() {
        if label[start] == usize::MAX {
            let mut stack = vec![start];
            label[start] = start;
            while let Some(p) = stack.pop() {
                for &q in &neighbours[p] {
                    if label[q] == usize::MAX {
                        label[q] = start;
                        stack.push(q);
                    }
                }
            }
        }
    }
    label
}

/// Creates a matrix on a wet mask: couplings between wet neighbours and zero row sums. Components that `open` selects
/// by their first node have a positive row sum at that node. Land has center 1.
fn wet(nx: usize, ny: usize, nine: bool, mask: &[bool], seed: u64, open: impl Fn(usize) -> bool) -> Stencil {
    let mut a = random_m_matrix(nx, ny, nine, seed);
    for p in (0..nx * ny).filter(|&p| !mask[p]) {
        a.decouple(p % nx, p / nx, 1.0);
    }
    let label = components(&a);
    let coupled: Vec<bool> = {
        let mut coupled = vec![false; a.len()];
        for (p, q, v) in a.couplings() {
            if v != 0.0 {
                coupled[p] = true;
                coupled[q] = true;
            }
        }
        coupled
    };
    a.set_row_sums(|p| {
        if !coupled[p] {
            1.0
        } else if label[p] == p && open(p) {
            0.5
        } else {
            0.0
        }
    });
    a
}

/// Solves on a wet mask and checks all promises about components.
fn check_wet(a: &Stencil, seed: u64, options: &str) {
    let n = a.len();
    let label = components(a);
    let mut size = vec![0usize; n];
    label.iter().for_each(|&l| size[l] += 1);
    let sums = {
        let mut sums = a.center.clone();
        for (p, q, v) in a.couplings() {
            sums[p] += v;
            sums[q] += v;
        }
        sums
    };
    let mut singular = vec![true; n];
    for p in 0..n {
        if sums[p].abs() > 1e-12 * a.center[p] {
            singular[label[p]] = false;
        }
    }
    let roots: Vec<usize> = (0..n).filter(|&p| label[p] == p && size[p] > 1).collect();
    let singular_roots: Vec<usize> = roots.iter().copied().filter(|&p| singular[p]).collect();

    let solver = Solver::of(a, &format!("{options} rel_tol=1e-9"));
    assert_eq!(solver.int(key::INFO_COMPONENTS) as usize, roots.len(), "{options}");
    assert_eq!(solver.int(key::INFO_SINGULAR_COMPONENTS) as usize, singular_roots.len(), "{options}");

    let b = random_rhs(n, seed);
    let mut projected = b.clone();
    let mut x = Random(seed + 1).vector(n);
    let mean_of =
        |v: &[f64], root: usize| (0..n).filter(|&p| label[p] == root).map(|p| v[p]).sum::<f64>() / size[root] as f64;
    let before: Vec<f64> = singular_roots.iter().map(|&root| mean_of(&x, root)).collect();
    for &root in &singular_roots {
        let mean = mean_of(&b, root);
        (0..n).filter(|&p| label[p] == root).for_each(|p| projected[p] -= mean);
    }
    assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{options}, history {:?}", solver.history());
    let residual = norm2(&a.residual(&projected, &x)) / norm2(&projected);
    // Rounding of b - A x, where |x| may be (length of a channel)^2 |b|.
    assert!(residual <= 1e-9 + 1e-15 * max_abs(&x) * n as f64, "{options}: {residual:e}");
    for (&root, &mean) in singular_roots.iter().zip(&before) {
        let shift = (mean_of(&x, root) - mean).abs();
        // The guess is below 1.
        let allowed = mean_to_rounding(size[root], solver.iterations(), max_abs(&x).max(1.0));
        assert!(shift <= allowed, "{options}: mean of component {root} moved by {shift:e}");
    }
    for p in (0..n).filter(|&p| size[label[p]] == 1) {
        let error = (x[p] - b[p] / a.center[p]).abs();
        // Land is solved in the first step; the other nodes change it within the tolerance.
        assert!(error <= 1e-9 * norm2(&b), "{options}: land {p} off by {error:e}");
    }
}

/// Three basins behind walls: closed, open, closed. Each is solved as if it were alone.
#[test]
fn disconnected_basins() {
    let (nx, ny) = (41, 23);
    let mask: Vec<bool> = (0..nx * ny).map(|p| ![10, 11, 27].contains(&(p % nx))).collect();
    for nine in [false, true] {
        let a = wet(nx, ny, nine, &mask, 5, |p| p == 12);
        for backend in ["reference", "cpu threads=1", "cpu threads=3"] {
            for levels in [0, 1, 2, 4, 40] {
                check_wet(&a, 3, &format!("backend={backend} levels={levels}"));
            }
        }
        let b = random_rhs(nx * ny, 4);
        let first = run(&a, &b, "backend=cpu threads=1");
        for threads in THREADS {
            assert_same_bits(&first, &run(&a, &b, &format!("backend=cpu threads={threads}")), "basins");
        }
    }
}

/// A comb of closed channels one cell wide, and a spiral: every level has nodes whose couplings are all lumped.
#[test]
fn narrow_channels_in_a_closed_basin() {
    let (nx, ny) = (37, 29);
    let comb = |i: usize, j: usize| j == 0 || i.is_multiple_of(2);
    let diagonal = |i: usize, j: usize| (i + j) % 3 != 1 || i == j;
    let spiral = {
        let mut wet = vec![false; nx * ny];
        let (mut left, mut right, mut low, mut high) = (0, nx - 1, 0, ny - 1);
        while left + 3 < right && low + 3 < high {
            (left..=right).for_each(|i| wet[low * nx + i] = true);
            (low..=high).for_each(|j| wet[j * nx + right] = true);
            (left..=right).for_each(|i| wet[high * nx + i] = true);
            (low + 2..=high).for_each(|j| wet[j * nx + left] = true);
            wet[(low + 2) * nx + left + 1] = true;
            (left, right, low, high) = (left + 2, right - 2, low + 2, high - 2);
        }
        wet
    };
    let masks = [
        (0..nx * ny).map(|p| comb(p % nx, p / nx)).collect::<Vec<bool>>(),
        (0..nx * ny).map(|p| diagonal(p % nx, p / nx)).collect(),
        spiral,
    ];
    for mask in &masks {
        for nine in [false, true] {
            for open in [false, true] {
                let a = wet(nx, ny, nine, mask, 8, |_| open);
                for backend in ["reference", "cpu"] {
                    for levels in [0, 2, 3, 40] {
                        check_wet(&a, 6, &format!("backend={backend} levels={levels} max_iter=4000"));
                    }
                }
            }
        }
    }
}

/// A guess that differs from the solution by constants on singular components counts as exact.
#[test]
fn shifted_guess_of_a_singular_system_is_exact() {
    let a = neumann_const(20, 14);
    let y = random_rhs(280, 1);
    let b = a.multiply(&y);
    for backend in ["reference", "cpu"] {
        let solver = Solver::of(&a, &format!("backend={backend}"));
        let mut x: Vec<f64> = y.iter().map(|v| v + 3.0).collect();
        let given = x.clone();
        assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
        assert_eq!(solver.iterations(), 0);
        assert!(max_difference(&x, &given) <= 1e-14, "one shift to and fro");
    }
}

proptest! {
    // Each case is a few solves with at most 30 x 30 nodes.
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random masks consist of many components of all shapes.
    #[test]
    fn random_masks(nx in 1usize..30, ny in 1usize..30, wet_share in 0.4f64..1.0, nine: bool, seed in 0u64..1000, levels in 0usize..12) {
        let mut random = Random(seed);
        let mask: Vec<bool> = (0..nx * ny).map(|_| random.unit() < wet_share).collect();
        let a = wet(nx, ny, nine, &mask, seed, |p| p % 3 == 0);
        for backend in ["reference", "cpu threads=1", "cpu threads=2"] {
            check_wet(&a, seed, &format!("backend={backend} levels={levels} max_iter=4000"));
        }
        let b = random_rhs(nx * ny, seed);
        let [one, many] = [1, 4].map(|threads| run(&a, &b, &format!("backend=cpu threads={threads} levels={levels}")));
        assert_same_bits(&one, &many, &format!("{nx}x{ny}"));
    }

    /// For any extents, levels, grids and threads, both storage schemes agree.
    #[test]
    fn backends_agree(nx in 1usize..80, ny in 1usize..80, nine: bool, seed in 0u64..1000, levels in 0usize..14, grids in 0usize..5, threads in 1usize..6) {
        let a = random_m_matrix(nx, ny, nine, seed);
        let b = random_rhs(nx * ny, seed);
        let oracle = run(&a, &b, &format!("backend=reference levels={levels} rel_tol=1e-9"));
        let one = run(&a, &b, &format!("backend=cpu threads=1 levels={levels} grids={grids} rel_tol=1e-9"));
        assert_same_to_rounding(&oracle, &one, 1e-9, &format!("{nx}x{ny}"));
        let many = run(&a, &b, &format!("backend=cpu threads={threads} levels={levels} grids={grids} rel_tol=1e-9"));
        assert_same_bits(&one, &many, &format!("{nx}x{ny} threads={threads}"));
    }

    /// r' M^-1 s = s' M^-1 r, and r' M^-1 r > 0.
    #[test]
    fn preconditioner_is_symmetric(nx in 1usize..40, ny in 1usize..40, nine: bool, both: bool, omega in 0.0f64..=1.0, levels in 1usize..12, seed in 0u64..1000) {
        let a = random_m_matrix(nx, ny, nine, seed);
        let lumping = if both { "m2" } else { "m1" };
        let solver = Solver::of(&a, &format!("lumping={lumping} relaxation={omega} levels={levels}"));
        let (r, s) = (random_rhs(nx * ny, seed), random_rhs(nx * ny, seed + 1));
        let (zr, zs) = (solver.apply(&r), solver.apply(&s));
        let (one, two) = (common::dot(&r, &zs), common::dot(&s, &zr));
        // Sums of nx * ny products of magnitude |r| |z|.
        prop_assert!((one - two).abs() <= 1e-13 * norm2(&r) * norm2(&zs).max(1.0), "{one} {two}");
        prop_assert!(common::dot(&r, &zr) > 0.0);
    }
}
