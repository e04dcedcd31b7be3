//! Systems for which a residual or a status was once wrong, with the correct results. Residuals are recomputed in twice
//! the working precision (tests/problems/src/system.rs). tests/rrb/truth.rs searches for further systems at random.

use crate::common;
use common::problems::system::{System, norm2, norm2_of_sizes, twice as unit};
use common::problems::twice::{Twice, exponent, scaled};
use common::problems::{Stencil, random_m_matrix, random_rhs};
use common::{Failure, Solver, bits, key, last_error, max_abs, status};

/// `RRB_ERR_RANGE`: x would underflow.
const RANGE: i32 = -24;

/// Relative error that reported residuals may have in addition to rounding.
const REPORT_ERROR: f64 = 0.01;

/// SplitMix64, in [0, 1).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Creates couplings of -`weight()`, and centers with zero row sums up to rounding.
fn closed(nx: usize, ny: usize, nine: bool, mut weight: impl FnMut() -> f64) -> Stencil {
    let mut a = Stencil::zeros(nx, ny, nine);
    let corners = a.corners.iter_mut().flat_map(|(northeast, northwest)| [northeast, northwest]);
    for array in [&mut a.east, &mut a.north].into_iter().chain(corners) {
        array.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = -weight());
    }
    for (p, q, value) in a.couplings() {
        a.center[p] -= value;
        a.center[q] -= value;
    }
    a
}

/// Computes the exact ||Pb - A x||_2 / ||Pb||_2 and its rounding error.
fn relative_residual(a: &Stencil, b: &[f64], x: &[f64], zero_row_sum: f64) -> (f64, f64) {
    let mut s = System::new(a);
    s.project_within(zero_row_sum);
    let e = exponent(max_abs(b));
    let given = unit(b, -e);
    let (b, x) = (s.without_means(&given), unit(x, s.exponent - e));
    let rounding = s.rounding_of_residual(&b, &x).into_iter().zip(s.rounding_of_rhs(&given)).map(|(r, b)| r + b);
    let size = norm2(&b);
    (norm2(&s.residual(&b, &x)) / size, norm2_of_sizes(&rounding.collect::<Vec<_>>()) / size)
}

/// Computes the preconditioned norm of r = Pb - A x as it is reported, relative to its reference.
///
/// If CG runs on S1 (5 points), r1 = r_b - A_br D_r^-1 r_r and m is the mean of r1. The norm is the square root of
/// r_r'D_r^-1 r_r + r1'M1^-1 r1 + m^2 sum 1 / center. It is relative to b1 minus its mean. With 9 points, it is the
/// square root of r'M^-1 r + m^2 sum 1 / center, where m is the mean of r, relative to Pb.
fn relative_norm_of_m(solver: &Solver, a: &Stencil, b: &[f64], x: &[f64], zero_row_sum: f64) -> f64 {
    let mut s = System::new(a);
    s.project_within(zero_row_sum);
    let b = s.without_means(&unit(b, 0));
    let r = s.residual(&b, &unit(x, s.exponent));
    let norm = |v: &[Twice]| {
        let scale = norm2(v);
        let unit: Vec<f64> = v.iter().map(|v| v.value() / scale).collect();
        let square: f64 = unit.iter().zip(solver.apply(&unit)).map(|(v, z)| v * z).sum();
        // The matrix is not scaled here: A = 2^exponent times that of `System`.
        scale * scaled(square.max(0.0), s.exponent).sqrt()
    };
    if a.corners.is_some() {
        return norm(&r).hypot(s.norm_of_means(&s.means(&r))) / norm(&b);
    }
    let on_diagonal = |v: &dyn Fn(usize) -> Twice| {
        let squares = (0..s.len()).map(|p| v(p).square() / s.center[p]);
        squares.sum::<Twice>().value().sqrt()
    };
    let reduced = |v: &[Twice]| s.reduced(v, &vec![0.0; v.len()]).0;
    let r1 = reduced(&r);
    let projected = s.without_means_of_black(&r1);
    let red = on_diagonal(&|p| if s.is_red(p) { r[p] } else { Twice::default() });
    let constant = on_diagonal(&|p| r1[p] - projected[p]);
    norm(&projected).hypot(red).hypot(constant) / norm(&s.without_means_of_black(&reduced(&b)))
}

/// Solves a singular system from a constant guess, and checks that the reported residual is that of the returned x, and
/// that status 0 is true.
#[track_caller]
fn check_true2(a: &Stencil, b: &[f64], mean: f64, options: &str, zero_row_sum: f64, what: &str) {
    let solver = Solver::of(a, options);
    let mut x = vec![mean; b.len()];
    let ended = solver.solve(b, &mut x).unwrap_or_else(|f| panic!("{what}: {} {}", f.status, f.message));
    let (residual, rounding) = relative_residual(a, b, &x, zero_row_sum);
    let reported = solver.real(key::INFO_FINAL_RESIDUAL);
    let tolerance = solver.real(key::REL_TOL);
    assert!(
        ended != status::OK || residual <= tolerance * (1.0 + 1e-6) + rounding,
        "{what}: status 0, reported {reported:e}, true {residual:e}, rel_tol {tolerance:e}"
    );
    assert!(
        (reported - residual).abs() <= REPORT_ERROR * residual + rounding,
        "{what}: reported {reported:e}, true {residual:e}"
    );
}

/// One closed component with zero row sums except in the first row, a point source, and guesses with a mean. With nine
/// points, the reported residual was once that of x before its mean was restored.
#[test]
fn means_of_guesses_are_in_the_residual() {
    for nine in [true, false] {
        let mut b = vec![0.0; 16];
        b[3] = 1.0;
        for mean in [0.0, 1.0, 1e1, 1e2, 1e3] {
            for (relative_row_sum, limit, scale, options) in
                [(9e-7, 1e-6, 1.0, "null_space=constant rel_tol=1e-8"), (9e-13, 1e-12, 1e6, "rel_tol=1e-8")]
            {
                let mut a = closed(4, 4, nine, || 1.0);
                a.center[0] *= 1.0 + relative_row_sum;
                let what = format!("{options}, nine points {nine}, guess {:e}", scale * mean);
                check_true2(&a, &b, scale * mean, options, limit, &what);
            }
        }
    }
}

/// Guesses with a mean, with random couplings, sources, extents and tolerances.
#[test]
fn means_of_guesses_on_random_systems() {
    let mut r = Random(1);
    for trial in 0..2000 {
        let (nx, ny) = (2 + (6.0 * r.unit()) as usize, 2 + (12.0 * r.unit()) as usize);
        let constant = r.unit() < 0.5;
        let (part, limit, reach) = if constant { (9e-7, 1e-6, 3.0) } else { (9e-13, 1e-12, 9.0) };
        let mean = if r.unit() < 0.5 { 0.0 } else { 10f64.powf(reach * r.unit()) };
        let decades = 6.0 * r.unit();
        let nine = trial % 4 < 3;
        let mut a = closed(nx, ny, nine, || 10f64.powf(-decades * r.unit()));
        if trial % 2 == 0 {
            a.center[0] *= 1.0 + part;
        } else {
            a.center.iter_mut().for_each(|c| *c *= 1.0 + part * r.unit());
        }
        let kind = (3.0 * r.unit()) as usize;
        let b: Vec<f64> = (0..nx * ny)
            .map(|p| match kind {
                0 => r.unit() - 0.5,
                1 => f64::from(u8::from(p == 3)),
                _ => f64::from(u8::from(r.unit() < 0.1)),
            })
            .collect();
        let tolerance = 10f64.powf(-4.0 - 6.0 * r.unit());
        if max_abs(&b) == 0.0 {
            continue;
        }
        let null_space = if constant { "constant" } else { "auto" };
        let options = format!("null_space={null_space} cycle=v precision=f64 rel_tol={tolerance:e}");
        check_true2(&a, &b, mean, &options, limit, &format!("trial {trial}, {nx} x {ny}, {options}, guess {mean:e}"));
    }
}

/// In the preconditioned norm, P M^-1 P maps a constant residual to zero, which must not count as convergence.
#[test]
fn constants_in_the_norm_of_m() {
    for (part, means) in [(0.0, [0.0, 1e3, 1e6, 1e8]), (1e-15, [0.0, 1e3, 1e6, 1e8]), (9e-13, [0.0, 1e3, 1e6, 1e8])] {
        for mean in means {
            for norm in ["norm=true2", "norm=preconditioned"] {
                let mut r = Random(3);
                let mut a = closed(20, 20, false, || 10f64.powf(-3.0 * r.unit()));
                a.center.iter_mut().for_each(|c| *c *= 1.0 + part * (2.0 * r.unit() - 1.0));
                let b: Vec<f64> = (0..400).map(|_| 1e-3 * (r.unit() - 0.5)).collect();
                check_singular(&a, &b, mean, &format!("{norm} precision=f64 cycle=v"), 1e-12);
            }
        }
    }
}

/// One row sum within the tolerance but not zero: a guess with a mean then has a residual with a constant part.
#[test]
fn row_sums_within_the_tolerance() {
    let with_constant = [
        "null_space=constant precision=f64 cycle=v",
        "null_space=constant precision=f64 cycle=v norm=preconditioned",
        "null_space=constant",
        "null_space=constant norm=preconditioned backend=reference",
    ];
    let by_itself = ["null_space=auto", "null_space=auto norm=preconditioned"];
    for nine in [false, true] {
        let mut r = Random(1);
        let b: Vec<f64> = (0..256).map(|_| r.unit() - 0.5).collect();
        let with = with_constant.iter().map(|options| (options, 9e-7, 1e-6, 1e3));
        for (options, relative_row_sum, limit, mean) in
            with.chain(by_itself.iter().map(|options| (options, 9e-13, 1e-12, 1e9)))
        {
            let mut a = closed(16, 16, nine, || 1.0);
            a.center[0] *= 1.0 + relative_row_sum;
            check_singular(&a, &b, mean, options, limit);
        }
    }
}

/// Checks that status 0 is true in the requested norm.
#[track_caller]
fn check_singular(a: &Stencil, b: &[f64], mean: f64, options: &str, zero_row_sum: f64) {
    let nine = a.corners.is_some();
    let what = format!("{options}, nine points {nine}, guess {mean:e}");
    if !options.contains("preconditioned") {
        check_true2(a, b, mean, options, zero_row_sum, &what);
        return;
    }
    let solver = Solver::of(a, options);
    let mut x = vec![mean; b.len()];
    let ended = solver.solve(b, &mut x).unwrap_or_else(|f| panic!("{what}: {} {}", f.status, f.message));
    let truth = relative_norm_of_m(&solver, a, b, &x, zero_row_sum);
    let reported = solver.real(key::INFO_FINAL_RESIDUAL);
    let tolerance = solver.real(key::REL_TOL);
    // The rounding of the applications of M^-1 is below 1 %.
    assert!(
        ended != status::OK || truth <= (1.0 + REPORT_ERROR) * tolerance,
        "{what}: status 0, reported {reported:e}, true {truth:e}, rel_tol {tolerance:e}"
    );
    assert!((reported - truth).abs() <= REPORT_ERROR * truth, "{what}: reported {reported:e}, true {truth:e}");
}

const FORMATS: [&str; 8] = [
    "precision=f64 cycle=v",
    "precision=f64 cycle=v norm=preconditioned",
    "precision=f32 cycle=v",
    "precision=f32 norm=preconditioned",
    "precision=bf16 norm=preconditioned",
    "precision=mixed",
    "backend=reference",
    "backend=reference norm=preconditioned",
];

/// Solves A = `scale_a` (4.1, -1), b = `scale_b` (1, 2, 3, 1, ...) from x = 0.
fn solve_scaled(
    n: usize,
    scale_a: f64,
    scale_b: f64,
    options: &str,
) -> (Stencil, Vec<f64>, Vec<f64>, Result<i32, Failure>) {
    let a = Stencil::constant(n, n, 4.1 * scale_a, -scale_a, -scale_a, None);
    let b: Vec<f64> = (0..n * n).map(|p| scale_b * (1 + p % 3) as f64).collect();
    let mut x = vec![0.0; n * n];
    let ended = Solver::of(&a, options).solve(&b, &mut x);
    (a, b, x, ended)
}

/// If x = b / A is below 2.2e-308, the smallest normal number, no correct bits remain, and the call returns an error. x
/// is unchanged.
#[test]
fn solutions_that_vanish() {
    for n in [1, 2, 8, 64] {
        // max |x| is between 0.2 and 30 times b / A.
        for (a, b) in
            [(1e102, 1e-256), (1e155, 1e-155), (1e200, 1e-200), (1e10, 1e-310), (1e155, 1e-256), (1e200, 1e-155)]
        {
            for options in FORMATS {
                let (_, _, x, ended) = solve_scaled(n, a, b, options);
                let what = format!("{n} x {n}, A {a:e}, b {b:e}, {options}");
                let failure = ended.expect_err(&what);
                assert_eq!(failure.status, RANGE, "{what}: {}", failure.message);
                assert!(failure.message.contains("underflow"), "{what}: {}", failure.message);
                assert_eq!(last_error(), failure.message);
                assert_eq!(bits(&x), vec![0; n * n], "{what}");
            }
        }
    }
}

/// Solutions close to this limit but within the range are computed.
#[test]
fn solutions_that_are_small() {
    for n in [1, 2, 8, 64] {
        for (a, b) in
            [(1e102, 1e-155), (1e102, 1e-200), (1e10, 1e-256), (1e140, 1e-160), (1.0, 1e-306), (1e-100, 1e-310)]
        {
            for options in FORMATS {
                let (matrix, rhs, x, ended) = solve_scaled(n, a, b, options);
                let what = format!("{n} x {n}, A {a:e}, b {b:e}, {options}");
                assert_eq!(ended, Ok(status::OK), "{what}");
                let (residual, rounding) = relative_residual(&matrix, &rhs, &x, 1e-12);
                // The preconditioned norm is equivalent to the 2-norm up to the square root of two condition numbers:
                // that of the diagonal of A, which is 1 here, and that of M^-1 A. The product is below 100. An x of
                // 1e-306 is rounded to 1e-17 of its value.
                let allowed = if options.contains("preconditioned") { 1e-4 } else { 1e-6 * (1.0 + 1e-6) + rounding };
                assert!(residual <= allowed, "{what}: true {residual:e}");
                assert!(max_abs(&x) >= f64::MIN_POSITIVE, "{what}");
            }
        }
    }
}

/// The reported initial residual is that of the caller's matrix: it contains the row sums times the mean of the guess,
/// and no rounding of the row sums of S1.
#[test]
fn the_first_residual_in_the_norm_of_m() {
    let mut r = Random(5);
    // Nonzero on black nodes only, so that S1, on which the test operates, has the same norms.
    let b: Vec<f64> = (0..256).map(|p| if (p % 16 + p / 16) % 2 == 0 { r.unit() - 0.5 } else { 0.0 }).collect();
    for (relative_row_sum, mean) in [(9e-7, 1e9), (0.0, 1e18)] {
        let mut a = closed(16, 16, false, || 1.0);
        a.center[0] *= 1.0 + relative_row_sum;
        for backend in ["cpu", "reference"] {
            let options = format!("backend={backend} null_space=constant norm=preconditioned precision=f64");
            let solver = Solver::of(&a, &options);
            let mut x = vec![mean; 256];
            let residual = relative_norm_of_m(&solver, &a, &b, &x, 1e-6);
            solver.solve(&b, &mut x).expect("solve");
            let reported = solver.real(key::INFO_INITIAL_RESIDUAL);
            assert!(
                (reported / residual - 1.0).abs() <= REPORT_ERROR,
                "{options}, guess {mean:e}: reported {reported:e}, true {residual:e}"
            );
        }
    }
}

/// b in the null space, and row sums that are not exactly zero: a guess is kept if it satisfies the test and its mean
/// alone does not.
#[test]
fn guesses_for_constant_sources() {
    for nine in [false, true] {
        for backend in ["cpu", "reference"] {
            let mut a = closed(4, 4, nine, || 1.0);
            let center = a.center[0];
            a.center[0] *= 1.0 + 9e-7;
            // The residual of a mean of 1e9 on the first node, which the value of the guess halves.
            let left = 900.0 * center;
            let mut guess = vec![1e9; 16];
            guess[0] -= left / (2.0 * center);
            let b = vec![0.8 * left / 1e-6 / 4.0; 16];
            let solver = Solver::of(&a, &format!("backend={backend} null_space=constant rel_tol=1e-6"));
            let mut x = guess.clone();
            let what = format!("{backend}, nine points {nine}");
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{what}");
            assert_eq!(bits(&x), bits(&guess), "{what}");
            let reported = solver.real(key::INFO_FINAL_RESIDUAL);
            assert!(0.5e-6 < reported && reported <= 1e-6, "{what}: reported {reported:e}");
        }
    }
}

/// z = M^-1 r below the smallest normal number is also an error, and z is unchanged.
#[test]
fn applications_that_vanish() {
    for (scale_a, scale_r) in [(1e200, 1e-200), (1e155, 1e-155), (1e10, 1e-310)] {
        for backend in ["cpu", "reference"] {
            let a = Stencil::constant(8, 8, 4.1 * scale_a, -scale_a, -scale_a, None);
            let solver = Solver::of(&a, &format!("backend={backend} precision=f64"));
            let (r, mut z) = (vec![scale_r; 64], vec![7.0; 64]);
            // SAFETY: a live handle and arrays of its shape.
            let result = common::outcome(unsafe { common::rrb_apply(solver.handle, r.as_ptr(), z.as_mut_ptr()) });
            result.expect_err(backend).expect(RANGE, &["z would underflow: max abs(r) / max abs(diagonal of A)"]);
            assert_eq!(bits(&z), bits(&[7.0; 64]), "{backend}");
        }
    }
}

/// If centers differ by 1e300, one value of x may be subnormal while the largest is not: an error if its rounding alone
/// violates the test.
#[test]
fn small_values_beside_large_centers() {
    let mut a = Stencil::constant(2, 1, 1.0, 0.0, 0.0, None);
    a.center[0] = 1e300;
    for backend in ["cpu", "reference"] {
        let solver = Solver::of(&a, &format!("backend={backend} precision=f64"));
        for (b, fits) in [(1e-8, true), (3e-18, false), (1e-18, false), (1e-20, false)] {
            let b = [1.3 * b, b];
            let mut x = [0.0; 2];
            let ended = solver.solve(&b, &mut x);
            let what = format!("{backend}, b {b:?}");
            if fits {
                assert_eq!(ended, Ok(status::OK), "{what}");
                assert!(relative_residual(&a, &b, &x, 1e-12).0 <= 1e-6, "{what}");
            } else {
                assert_eq!(ended.expect_err(&what).status, RANGE, "{what}");
                assert_eq!(x, [0.0; 2], "{what}");
            }
        }
    }
}

/// Threads that continue before others have zeroed their rows of x would read values of the last solve. A solve without
/// iterations must report the residual of x = 0, whatever happened before. Without the barrier, one in five solves
/// fails.
#[test]
fn values_of_the_previous_solve_have_no_effect() {
    let a = random_m_matrix(260, 190, false, 1);
    let b = random_rhs(a.len(), 1);
    for threads in [3, 4] {
        let solver = Solver::of(&a, &format!("backend=cpu norm=preconditioned precision=f64 threads={threads}"));
        let mut reported = Vec::new();
        for round in 0..200 {
            solver.set_int(key::MAX_ITER, round % 2).expect("max_iter");
            solver.solve_from_zero(&b);
            if round % 2 == 0 {
                reported.push(solver.real(key::INFO_FINAL_RESIDUAL));
            }
        }
        assert!(reported.iter().all(|norm| *norm == reported[0]), "{threads} threads: {reported:?}");
    }
}
