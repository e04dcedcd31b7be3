//! The `cuda` backend against `reference` and `cpu`: iterates to rounding, counts, statuses, and what only a device
//! has. tests/emulator makes a device of the host.

mod common;
#[path = "common/device.rs"]
mod device;

use common::problems::{
    Random, Stencil, aniso, by_name, checker8, fe_aniso, inclusions, neumann_const, neumann_var, nine_point, poisson,
    random_m_matrix, random_rhs, rot, side_by_side,
};
use common::{
    EXTENTS, PAPERS, Run, Solver, bits, check_eliminated_sources, child, count_is_right, devices, exact_norm, key,
    max_abs, max_difference, norm2, own_lines, padded, rrb_multiply, rrb_set_monitor, run, status, unpadded,
};
use std::f64::consts::PI;

/// Without short formats and recursive cycles.
const PLAIN: &str = "precision=f64 cycle=v";

/// Same counts, and iterates that differ by rounding, which CG amplifies a little from iteration to iteration: 1e-8 of
/// each residual above 1e-9 (as between the other backends).
#[track_caller]
fn assert_same_to_rounding(a: &Run, b: &Run, rel_tol: f64, what: &str) {
    assert_eq!(a.status, b.status, "{what}");
    assert!(
        count_is_right(&b.history, a.iterations, rel_tol),
        "{} and {} iterations: {what}\n{:?}\n{:?}",
        a.iterations,
        b.iterations,
        a.history,
        b.history
    );
    assert_eq!(b.history.len(), b.iterations + 1, "{what}");
    for (k, (ra, rb)) in a.history.iter().zip(&b.history).enumerate() {
        assert!((ra - rb).abs() <= 1e-8 * ra + 1e-17 / rel_tol, "iteration {k}: {ra:e} and {rb:e}: {what}");
    }
}

fn problems_of(nx: usize, ny: usize) -> Vec<(&'static str, Stencil, Vec<f64>)> {
    let b = random_rhs(nx * ny, 17);
    vec![
        ("five points", random_m_matrix(nx, ny, false, 3), b.clone()),
        ("nine points", random_m_matrix(nx, ny, true, 3), b.clone()),
        ("laplacian", poisson(nx, ny), b),
    ]
}

fn awkward_extents() {
    for (nx, ny) in EXTENTS.into_iter().chain([(67, 66)]) {
        for (name, a, b) in problems_of(nx, ny) {
            for levels in [0, 1, 2, 3, 4, 40] {
                let what = format!("{name} {nx}x{ny} levels={levels}");
                let first = run(&a, &b, &format!("backend=cuda {PLAIN} levels={levels} rel_tol=1e-9"));
                let levels = first.levels;
                // levels=0 is another number on a device; 0 done stays 0.
                let levels = if levels == 0 { 0 } else { levels };
                if levels == 0 && nx * ny > 1 {
                    continue;
                }
                let oracle = run(&a, &b, &format!("backend=reference {PLAIN} levels={levels} rel_tol=1e-9"));
                assert_same_to_rounding(&oracle, &first, 1e-9, &what);
                let residual = norm2(&a.residual(&b, &first.x)) / norm2(&b);
                // The reported residual is that of x, up to the rounding of b - A x.
                assert!(residual <= 1e-9 * (1.0 + 1e-3), "{residual:e}: {what}");
            }
        }
    }
}

/// The first iterates themselves, before CG has amplified anything; preconditioner and matrix too.
fn first_iterates_and_operators() {
    for (nx, ny) in [(5, 5), (17, 17), (64, 65), (1, 65), (97, 101)] {
        for (name, a, b) in problems_of(nx, ny) {
            for more in ["", "fusion=off", "lumping=m2u", "lumping=m2m relaxation=0.5", "relaxation=0.7"] {
                let options =
                    |backend: &str| format!("backend={backend} {PLAIN} levels=6 rel_tol=1e-15 max_iter=3 {more}");
                let what = format!("{name} {nx}x{ny} {more}");
                let (oracle, cuda) = (run(&a, &b, &options("reference")), run(&a, &b, &options("cuda")));
                let error = max_difference(&oracle.x, &cuda.x) / max_abs(&oracle.x);
                // Rounding, 2^-52, times the condition, of A here and of M below: 4 / pi^2 (101 + 1)^2 = 4200 for the
                // Laplacian. Seen: 3e-15 here and 5e-16 there.
                assert!(error <= 1e-12, "{error:e} after 3: {what}");
                let [reference, device] = ["reference", "cuda"].map(|backend| Solver::of(&a, &options(backend)));
                let (z, w) = (reference.apply(&b), device.apply(&b));
                assert!(max_difference(&z, &w) <= 1e-12 * max_abs(&z), "M^-1: {what}");
                let (y, v) = (reference.multiply(&b), device.multiply(&b));
                // Two sums of nine products each, and the couplings of a row are at most its center: below 1e-14 of y.
                let allowed = 9.0 * f64::EPSILON * 2.0 * max_abs(&a.center) * max_abs(&b);
                assert!(max_difference(&y, &v) <= allowed, "A: {what}");
            }
        }
    }
}

/// Variants of the method, norms, references, remainders of all kinds, singular and compensated systems.
fn variants() {
    let b = |a: &Stencil| random_rhs(a.len(), 5);
    let problems: Vec<(&str, Stencil)> = vec![
        ("poisson", poisson(61, 70)),
        ("anisotropic", aniso(50, 10.0)),
        ("inclusions", inclusions(64, 1e3)),
        ("nine points", nine_point(33, 40, "fe_bilinear")),
        ("elements", fe_aniso(40, 33, 5.0)),
        ("rotated", rot(40, 40, 0.1, 15.0)),
        ("neumann", neumann_const(65, 50)),
        ("variable neumann", neumann_var(48, 64)),
    ];
    for (name, a) in &problems {
        let b = b(a);
        for more in [
            "levels=6",
            "levels=2",
            "levels=3",
            "levels=5",
            "levels=6 norm=preconditioned",
            "levels=6 fusion=off",
            "levels=8 lumping=m2u max_iter=20",
            "levels=6 reference=initial norm=preconditioned",
            "levels=6 max_iter=3",
        ] {
            let options = |backend: &str| format!("backend={backend} {PLAIN} rel_tol=1e-6 {more}");
            let (oracle, cuda) = (run(a, &b, &options("reference")), run(a, &b, &options("cuda")));
            let what = format!("{name} {more}");
            assert_same_to_rounding(&oracle, &cuda, 1e-6, &what);
            let close = |u: f64, v: f64| (u - v).abs() <= 1e-6 * u.abs();
            assert!(
                close(oracle.lambda_max, cuda.lambda_max) && close(oracle.lambda_min, cuda.lambda_min),
                "{} {} and {} {}: {what}",
                oracle.lambda_min,
                oracle.lambda_max,
                cuda.lambda_min,
                cuda.lambda_max
            );
        }
    }
}

/// Remainders of one line to as many as there can be, along either side, one of them singular.
fn remainders() {
    let squares = [(2, 2), (5, 6), (18, 10), (24, 15), (24, 16), (16, 24), (45, 70), (70, 45), (62, 62), (64, 62)];
    let strips = [(3, 9), (3, 1600), (1500, 5), (6, 130)];
    for (nx, ny) in squares.into_iter().chain(strips) {
        for a in [poisson(nx, ny), random_m_matrix(nx, ny, true, 7), neumann_const(nx, ny)] {
            let b = random_rhs(nx * ny, 7);
            let [oracle, device] =
                ["reference", "cuda"].map(|backend| Solver::of(&a, &format!("backend={backend} {PLAIN} levels=2")));
            let (z, w) = (oracle.apply(&b), device.apply(&b));
            // Rounding times the condition of the worst of them, the closed one without its constants; 9e-13 where n is
            // 70.
            let allowed = f64::EPSILON * 8.0 * (nx.max(ny) as f64 / PI).powi(2);
            assert!(max_difference(&z, &w) <= allowed * max_abs(&z), "{nx}x{ny}");
        }
    }
}

/// What a device refuses.
fn what_is_refused() {
    let solver = Solver::new(40, 40, "backend=cuda cycle=k");
    let failure = solver.factorize(&poisson(40, 40)).unwrap_err();
    assert_eq!(failure.status, status::UNSUPPORTED);
    assert!(failure.sentence.contains("cycle=k"), "{}", failure.sentence);
    // A center without an inverse, on land or not.
    let mut a = poisson(40, 40);
    a.center[17] = 1e-310;
    for _ in 0..2 {
        let [cpu, device] = ["cpu", "cuda"]
            .map(|backend| Solver::new(40, 40, &format!("backend={backend}")).factorize(&a).unwrap_err());
        assert_eq!((cpu.status, &cpu.sentence), (status::MATRIX, &device.sentence));
        a.decouple(17, 0, 1e-310);
    }
}

/// Papers' table 5.3, as far as an emulated device has the patience.
fn table_5_3() {
    for (n, expected) in [(64, 13), (128, 16)] {
        let (a, b) = by_name("poisson_f", n - 1, n - 1);
        let run = run(&a, &b, &format!("backend=cuda {PLAIN} levels=12 {PAPERS}"));
        assert_eq!((run.status, run.iterations), (0, expected), "h^-1 = {n}: {:?}", run.history);
    }
}

/// The same bits from run to run, from handle to handle, and after another matrix was in the handle.
fn same_bits() {
    let matrices = [
        ("five points", random_m_matrix(90, 77, false, 1)),
        ("nine points", random_m_matrix(61, 50, true, 1)),
        ("closed", neumann_const(40, 41)),
        ("recursive", poisson(200, 170)),
    ];
    for (name, a) in matrices {
        let b = random_rhs(a.len(), 1);
        let first = run(&a, &b, "backend=cuda");
        let solver = Solver::of(&a, "backend=cuda");
        for time in 0..3 {
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!(result, status::OK, "{name}, solve {time}");
            let others = x.iter().zip(&first.x).filter(|(v, w)| v.to_bits() != w.to_bits()).count();
            let (far, count) = (max_difference(&x, &first.x) / max_abs(&x), solver.int(key::INFO_ITERATIONS));
            assert!(
                others == 0 && count == first.iterations as i64,
                "{name}, solve {time}: {others} of {} values are others, by {far:e} at most; {count} iterations and {}",
                a.len(),
                first.iterations
            );
            let mut other = a.clone();
            other.scale(4.0);
            solver.factorize(&other).unwrap();
            solver.solve_from_zero(&b);
            let bytes = solver.int(key::INFO_BYTES_DEVICE);
            solver.factorize(&a).unwrap();
            assert_eq!(solver.int(key::INFO_BYTES_DEVICE), bytes, "{name}, solve {time}: no memory is taken again");
        }
    }
}

/// What formats and cycles are tried on: all kinds of matrices, small grids, padded rows, and where most of it is one
/// kernel and where it is not.
fn formats_and_cycles() -> Vec<(&'static str, Stencil, &'static str)> {
    let mut land = random_m_matrix(97, 101, false, 5);
    for p in (0..97 * 101).filter(|p| p % 7 == 3 || (p / 3) % 11 == 0) {
        land.decouple(p % 97, p / 97, 1.0);
    }
    vec![
        ("five points", random_m_matrix(17, 17, false, 3), "cycle_spacing=2"),
        ("nine points", random_m_matrix(65, 40, true, 3), "cycle_spacing=2"),
        ("lines", poisson(1, 200), "cycle_spacing=2"),
        ("laplacian", poisson(255, 200), "levels=8"),
        ("inclusions", inclusions(127, 1e3), "cycle_spacing=2 levels=8 cycle_steps=3"),
        ("elements", fe_aniso(90, 63, 5.0), "levels=6"),
        ("five points", random_m_matrix(130, 150, false, 4), "cycle_spacing=4 levels=10"),
        ("land", land, "cycle_spacing=2 compute_block=32"),
        ("closed", neumann_var(70, 90), "cycle_spacing=2"),
        ("three", poisson(3, 3), ""),
        ("one", poisson(1, 1), ""),
    ]
}

/// Short formats and recursive cycles against the reference: the preconditioner to the rounding of its sweeps (bounds
/// of Chebyshev are estimates, which differ by the rounding of theirs: 1e-3, as between the other backends), and
/// counts.
fn formats_and_recursive_cycles() {
    for (name, a, more) in formats_and_cycles() {
        let b = random_rhs(a.len(), 17);
        for precision in ["f64", "f32", "bf16"] {
            for cycle in ["v", "amli"] {
                let options = |backend: &str, levels: usize| {
                    let levels = if levels > 0 { format!("levels={levels}") } else { String::new() };
                    format!("backend={backend} precision={precision} cycle={cycle} rel_tol=1e-8 {more} {levels}")
                };
                let what = format!("{name} {}x{} {more} {precision} {cycle}", a.nx, a.ny);
                let device = run(&a, &b, &options("cuda", 0));
                let oracle = Solver::of(&a, &options("reference", device.levels));
                let (device_m, unit) =
                    (Solver::of(&a, &options("cuda", device.levels)), if precision == "f64" { 1e-14 } else { 6e-6 });
                assert_eq!(device_m.int(key::INFO_CYCLE), oracle.int(key::INFO_CYCLE), "{what}");
                assert_eq!(device_m.int(key::INFO_PRECISION), oracle.int(key::INFO_PRECISION), "{what}");
                let (z, w) = (oracle.apply(&b), device_m.apply(&b));
                let error = max_difference(&z, &w) / max_abs(&z);
                let allowed = if cycle == "amli" { 1e-3 } else { unit * if name == "closed" { 100.0 } else { 1.0 } };
                assert!(error <= allowed, "{what}: M^-1 differs by {error:e}");
                let other = run(&a, &b, &options("reference", device.levels));
                assert_eq!((device.status, other.status), (status::OK, status::OK), "{what}");
                let apart = device.iterations.abs_diff(other.iterations);
                let allowed = if name == "closed" && precision != "f64" { other.iterations.div_ceil(6) } else { 1 };
                assert!(apart <= allowed, "{what}: {} and {} iterations", device.iterations, other.iterations);
                let difference = max_difference(&device.x, &other.x) / max_abs(&other.x);
                eprintln!("{what}: {} {} M {error:.1e} x {difference:.1e}", device.iterations, other.iterations);
            }
        }
    }
}

/// Rows of all lengths on the small grids, some with land: what pads them is not read where a kernel keeps these grids
/// in shared memory, several solves in a row (259 x 241, recursive, once took what lies beside 64 x 60 for values).
fn widths_of_small_grids() {
    for (nx, ny) in [(259, 241), (265, 130), (131, 250), (328, 305), (147, 190)] {
        let mut land = random_m_matrix(nx, ny, false, 7);
        for p in (0..nx * ny).filter(|p| (p / 5) % 13 == 0 || p % 97 < 9) {
            land.decouple(p % nx, p / nx, 1.0);
        }
        for (name, a) in [("laplacian", poisson(nx, ny)), ("land", land)] {
            let b = random_rhs(a.len(), 17);
            for formats in ["precision=f64 cycle=v", "precision=f64 cycle=amli", "precision=bf16 cycle=amli"] {
                let what = format!("{name} {nx}x{ny} {formats}");
                let device = Solver::of(&a, &format!("backend=cuda {formats} rel_tol=1e-8"));
                let levels = device.int(key::INFO_LEVELS);
                let other = run(&a, &b, &format!("backend=cpu {formats} rel_tol=1e-8 levels={levels}"));
                for time in 0..3 {
                    let (x, result) = device.solve_from_zero(&b);
                    let count = device.int(key::INFO_ITERATIONS) as usize;
                    assert_eq!(result, status::OK, "{what}, solve {time}: {count} iterations");
                    // As between the other backends.
                    assert!(
                        count.abs_diff(other.iterations) <= 1,
                        "{what}, solve {time}: {count} and {}",
                        other.iterations
                    );
                    let residual = norm2(&a.residual(&b, &x)) / norm2(&b);
                    // The reported residual is that of x, up to the rounding of b - A x.
                    assert!(residual <= 1e-8 * (1.0 + 1e-3), "{what}, solve {time}: {residual:e}");
                }
            }
        }
    }
}

/// Where couplings of what a grid leaves are weak, M ends there: with ones that vanish M is that of as many levels,
/// else nearly, and the next matrix decides for itself.
fn levels_end_where_couplings_are_weak() {
    let plain = ["precision=f64 cycle=v", "precision=f64 cycle=v fusion=off", "precision=bf16 cycle=v", ""];
    for (nx, ny, nine_points, formats) in
        [(13, 3001, false, &plain[..1]), (130, 131, true, &plain[2..]), (259, 241, false, &plain[..])]
    {
        // Sums of couplings are at most 8 there.
        let heavy = |excess: f64| {
            let mut a = random_m_matrix(nx, ny, nine_points, 3);
            a.center.iter_mut().enumerate().for_each(|(k, c)| *c += excess * (1.0 + (k % 7) as f64));
            a
        };
        let b = random_rhs(nx * ny, 17);
        for formats in formats {
            let device = Solver::of(&poisson(nx, ny), &format!("backend=cuda {formats} rel_tol=1e-10"));
            let all = device.int(key::INFO_LEVELS);
            for (excess, weak) in [(1e5, 0.0), (2.0, 0.02)] {
                let a = heavy(excess);
                device.factorize(&a).unwrap();
                let levels = device.int(key::INFO_LEVELS);
                assert!(levels < all, "{levels} levels of {all} with {excess}");
                let what = format!("{nx}x{ny} {formats} excess {excess:e} levels {levels}");
                let oracle = Solver::of(&a, &format!("backend=reference {formats} rel_tol=1e-10 levels={levels}"));
                let (z, w) = (oracle.apply(&b), device.apply(&b));
                let error = max_difference(&z, &w) / max_abs(&z);
                // Couplings of 1e-5 of the center are below 1e-20 after four levels. Weak ones are up to 0.3, and count
                // here by what of z comes through them.
                // Without any, z is b over the centers, which are within a factor of seven: nine products of a row.
                let unit = if formats.contains("f64") { f64::EPSILON } else { f64::from(f32::EPSILON) };
                let rounding = 9.0 * 7.0 * unit;
                assert!(error <= f64::max(weak, rounding), "{what}: M^-1 differs by {error:e}");
                let (x, result) = device.solve_from_zero(&b);
                assert_eq!((result, oracle.solve_from_zero(&b).1), (status::OK, status::OK), "{what}");
                let apart = device.iterations().abs_diff(oracle.iterations());
                assert!(apart <= 1, "{what}: {} and {} iterations", device.iterations(), oracle.iterations());
                let residual = norm2(&a.residual(&b, &x)) / norm2(&b);
                // The reported residual is that of x, up to the rounding of b - A x.
                assert!(residual <= 1e-10 * (1.0 + 1e-3), "{residual:e}: {what}");
            }
            device.factorize(&poisson(nx, ny)).unwrap();
            assert_eq!(device.int(key::INFO_LEVELS), all, "{formats}: the weak couplings are gone");
        }
    }
}

/// A matrix is factorized twice where estimates say that V is best, or where a short format loses a pivot: from its own
/// row sums either time.
fn second_factorizations() {
    let (nx, ny) = (255, 255);
    let b = random_rhs(nx * ny, 17);
    let (mut a, _) = by_name("random_1e3", nx, ny);
    a.center.iter_mut().for_each(|c| *c *= 1.001);
    let device = Solver::of(&a, "backend=cuda rel_tol=1e-10");
    assert_eq!((device.int(key::INFO_CYCLE), device.int(key::INFO_PRECISION)), (1, 3), "bf16 and v");
    let levels = device.int(key::INFO_LEVELS);
    let oracle = Solver::of(&a, &format!("backend=reference precision=bf16 cycle=v levels={levels}"));
    let (z, w) = (oracle.apply(&b), device.apply(&b));
    let error = max_difference(&z, &w) / max_abs(&z);
    // Down and up each level nine products in single precision: 6e-6 with six levels. Seen: 1.4e-7.
    let allowed = 2.0 * 9.0 * levels as f64 * 0.5 * f64::from(f32::EPSILON);
    assert!(error <= allowed.min(1e-5), "M^-1 differs by {error:e} with {levels} levels");

    // Half of the grid 45 decades below the other, apart from it.
    let (nx, ny) = (160, 110);
    let b = random_rhs(nx * ny, 17);
    let apart = side_by_side(nx, ny, false, 1e-45);
    let device = Solver::of(&apart, "backend=cuda");
    assert_eq!(device.int(key::INFO_PRECISION), 1, "f64");
    let (x, result) = device.solve_from_zero(&b);
    assert_eq!(result, status::OK);
    assert!(norm2(&apart.residual(&b, &x)) <= 1.001e-6 * norm2(&b));
}

/// Two materials, one with a mass; land; a corner without two rows that are the same.
fn patches(nx: usize, ny: usize) -> Stencil {
    let noise = random_rhs(nx * ny, 5);
    let mut a = poisson(nx, ny);
    for (k, noise) in noise.iter().enumerate() {
        let (i, j) = (k % nx, k / nx);
        a.center[k] += match (i, j) {
            (250.., 60..) => 1e-3 * noise.abs(),
            // From where a tile begins.
            (192.., _) => 0.5,
            _ => 0.0,
        };
        if (200..240).contains(&i) && j < 20 {
            (a.east[k], a.north[k]) = (0.0, 0.0);
        }
    }
    a
}

/// Where rows of the matrix are the same one is read for all of a tile, which changes no bit of a solution: two
/// processes, one of which reads all rows, print the same. A handle that is given matrices with and without such tiles,
/// in turns, solves as new ones do.
fn rows_that_are_the_same() {
    const TEST: &str = "rows_that_are_the_same";
    let told = |rows| child(TEST, &[("RRBSOLVER_CUDA_UNIFORM", rows)]).map(|output| own_lines(&output));
    if let Some(read_once) = told("all") {
        let read_all = told("off").expect("another child");
        assert_eq!(read_once, read_all);
        assert_eq!(read_once.iter().filter(|line| line.contains(" iterations ")).count(), 15, "{read_once:?}");
        return;
    }
    // Its harness has begun a line.
    println!();
    let print = |solver: &Solver, x: &[f64], what: &str| {
        let mix = |h: u64, v: &u64| (h ^ v).wrapping_mul(0x100_0000_01b3).rotate_left(29);
        println!("{:016x} {} iterations {what}", bits(x).iter().fold(7, mix), solver.iterations());
    };
    // Tiles are 64 x 16 nodes, with 16 around them; on the second grid, as here in two cases, twice that.
    let (small, large) = ((300, 90), (330, 170));
    let corners = Some((vec![-0.25; 300 * 90], vec![-0.25; 300 * 90]));
    let mut nine_points = Stencil { corners, ..poisson(300, 90) };
    nine_points.center.iter_mut().for_each(|center| *center += 1.0);
    let varied = random_m_matrix(300, 90, false, 3);
    let of = |(nx, ny)| (poisson(nx, ny), patches(nx, ny));
    let ((laplacian, coast), (large_laplacian, large_coast)) = (of(small), of(large));
    let cases = [
        ("precision=f64 cycle=v norm=preconditioned", &coast),
        ("precision=f64 cycle=v fusion=off", &large_laplacian),
        ("precision=f64 cycle=v lumping=m2 fusion=off", &large_coast),
        ("precision=f64 cycle=v", &nine_points),
        ("precision=f32 cycle=v", &coast),
        ("precision=bf16 cycle=v fusion=off", &coast),
        ("precision=bf16 cycle=v", &varied),
    ];
    for (options, a) in cases {
        let b = random_rhs(a.len(), 17);
        let solver = Solver::of(a, &format!("backend=cuda levels=8 rel_tol=1e-9 max_iter=3 {options}"));
        print(&solver, &solver.solve_from_zero(&b).0, options);
        // From a guess.
        if options.contains("f64") {
            let mut x = b.clone();
            solver.solve(&b, &mut x).unwrap();
            print(&solver, &x, options);
        }
    }
    let b = random_rhs(varied.len(), 17);
    let options = "backend=cuda precision=f64 cycle=v levels=8 max_iter=3";
    let old = Solver::of(&laplacian, options);
    for a in [&varied, &laplacian, &coast, &varied] {
        old.factorize(a).unwrap();
        let found = old.solve_from_zero(&b);
        assert!(found == Solver::of(a, options).solve_from_zero(&b));
        print(&old, &found.0, "again");
    }
}

/// What one solve leaves on the device does not reach the next: not a test that was met, nor numbers that were none.
fn nothing_is_left_of_the_last_solve() {
    // Fused stages, then plain ones in the same arrays.
    let (nx, ny) = (259, 241);
    let b = random_rhs(nx * ny, 17);
    let (regular, singular) = (random_m_matrix(nx, ny, false, 3), neumann_const(nx, ny));
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    let compatible: Vec<f64> = b.iter().map(|v| v - mean).collect();
    let options = "backend=cuda precision=f64 cycle=v levels=6 rel_tol=1e-4";
    let device = Solver::of(&regular, options);
    assert_eq!(device.solve_from_zero(&b).1, status::OK);
    device.factorize(&singular).unwrap();
    let (x, result) = device.solve_from_zero(&compatible);
    assert_eq!(result, status::OK);
    let other = Solver::of(&singular, options);
    assert_eq!(other.solve_from_zero(&compatible), (x, status::OK));

    // Tiles that stick out of the nodes on both sides.
    let (nx, ny) = (131, 67);
    let (a, b, guess) = (random_m_matrix(nx, ny, false, 3), random_rhs(nx * ny, 17), random_rhs(nx * ny, 5));
    let device = Solver::of(&a, "backend=cuda rel_tol=1e-8");
    let from = |x: &[f64]| {
        let mut x = x.to_vec();
        device.solve(&b, &mut x).map(|status| (status, x))
    };
    let first = from(&guess).unwrap();
    assert_eq!(first.0, status::OK);
    for _ in 0..2 {
        from(&vec![f64::NAN; nx * ny]).unwrap_err().expect(status::NOT_FINITE, &["x"]);
        assert_eq!(from(&guess).unwrap(), first);
    }
}

/// A handle launches the one of its recorded loops that suits the last solves, whose body has more or fewer iterations:
/// the bits are those of a new handle, whose first solve has another. x is advanced beside the small grids where the
/// first is too large for one kernel: wrong or left out, it would miss the test.
fn loops_of_lengths(nx: usize, ny: usize, mass: f64, options: &str) {
    let mut a = poisson(nx, ny);
    a.center.iter_mut().for_each(|center| *center += mass);
    let b = random_rhs(a.len(), 7);
    let old = Solver::of(&a, &format!("backend=cuda {options}"));
    let mut counts = Vec::new();
    for rel_tol in ["1e-2", "1e-8", "1e-8", "1e-8", "1e-8", "1e-3"] {
        let tolerance = format!("rel_tol={rel_tol}");
        old.options(&tolerance).unwrap();
        let found = old.solve_from_zero(&b);
        let new = Solver::of(&a, &format!("backend=cuda {options} {tolerance}"));
        assert!(found == new.solve_from_zero(&b) && found.1 == status::OK, "{nx}x{ny} {options} {tolerance}");
        assert_eq!(old.iterations(), new.iterations(), "{nx}x{ny} {options} {tolerance}");
        counts.push(old.iterations());
        // The test is told to be met by |b - A x| made anew: here once more, by others, up to its rounding.
        let residual = norm2(&a.residual(&b, &found.0)) / norm2(&b);
        assert!(residual <= rel_tol.parse::<f64>().unwrap() * (1.0 + 1e-3), "{residual:e}: {options} {tolerance}");
    }
    // Fewer than the longest body, and more than the shortest: else nothing was tried.
    assert!(counts[0] < 7 && counts[1] > counts[0] && counts[1] > 2, "{nx}x{ny} {options}: {counts:?}");
}

/// x takes its steps two at a time, but for the last: whatever ends the loop, and after however many iterations, it has
/// all of them. Compared with the plain steps, which take them one by one: the same iterates but for rounding.
fn x_has_all_steps(nx: usize, ny: usize, levels: usize) {
    let a = poisson(nx, ny);
    let b = random_rhs(a.len(), 9);
    for norm in ["true2", "preconditioned"] {
        let [fused, plain] = ["on", "off"].map(|fusion| {
            let shape = format!("precision=f64 cycle=v levels={levels} norm={norm} fusion={fusion}");
            Solver::of(&a, &format!("backend=cuda {shape} rel_tol=1e-15 max_iter=9"))
        });
        plain.solve_from_zero(&b);
        let history = plain.history();
        let compare = |k: usize, end: &str, status: i32| {
            let [(x, found), (expected, on_plain)] = [&fused, &plain].map(|solver| {
                solver.options(end).unwrap();
                solver.solve_from_zero(&b)
            });
            assert_eq!((found, on_plain), (status, status), "{nx}x{ny} {norm} {k} {end}");
            assert_eq!((fused.iterations(), plain.iterations()), (k, k), "{nx}x{ny} {norm} {k} {end}");
            let largest = expected.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            let off = x.iter().zip(&expected).fold(0.0_f64, |m, (v, w)| m.max((v - w).abs()));
            // Nine iterations of rounding; a step of x is 1e-3 of it and more.
            assert!(off <= 1e-10 * largest, "{nx}x{ny} {norm} {k} {end}: {off:e} of {largest:e}");
        };
        for k in 1..=8 {
            compare(k, &format!("rel_tol=1e-15 max_iter={k}"), status::NOT_CONVERGED);
            // Where the residual falls below all before.
            let before = history[..k].iter().copied().fold(f64::INFINITY, f64::min);
            if history[k] < before {
                compare(k, &format!("rel_tol={:e} max_iter=50", (before * history[k]).sqrt()), status::OK);
            }
        }
    }
}

/// What is told is the tested norm of the x that came back, after success, where the last iteration is cut, and after a
/// restart (a guess 1e14 times too large leaves rounding that the recurred residual knows nothing of): the better of
/// two iterates.
fn what_is_told_is_true() {
    let mut misses = 0;
    let far = random_m_matrix(33, 29, false, 5);
    // The last tolerance may be below the rounding of x.
    let cases = [(far, 1e-6), (inclusions(48, 1e6), 1e-8), (checker8(34, 1e3), 1e-14)];
    for (a, rel_tol) in cases {
        let b = random_rhs(a.len(), 2);
        for (precision, cycle) in [("f64", "v"), ("bf16", "amli"), ("bf16", "v")] {
            for norm in ["true2", "preconditioned"] {
                let options = format!("precision={precision} cycle={cycle} levels=8 norm={norm} rel_tol={rel_tol:e}");
                let solver = Solver::of(&a, &format!("backend=cuda {options}"));
                for size in [0.0, 1.0, 1e14] {
                    let guess: Vec<f64> = random_rhs(a.len(), 3).iter().map(|v| size * v).collect();
                    let check = |max_iter: usize| {
                        solver.options(&format!("max_iter={max_iter}")).unwrap();
                        let mut x = guess.clone();
                        let status = solver.solve(&b, &mut x).unwrap();
                        let told = solver.real(key::INFO_FINAL_RESIDUAL);
                        let (exact, rounding) = exact_norm(&solver, &a, &b, &x, norm == "preconditioned");
                        let what = format!("{options} guess {size:e} max_iter={max_iter}: told {told:e}, is {exact:e}");
                        assert!((told - exact).abs() <= rounding, "{what}");
                        assert_eq!(status == status::OK, told <= rel_tol, "{what}");
                        (status, solver.history(), told)
                    };
                    let (status, history, _) = check(2000);
                    assert!(status == status::OK || rel_tol < 1e-12, "{options} guess {size:e}");
                    let last = history.len() - 1;
                    let met = history.iter().position(|&residual| residual <= rel_tol).unwrap_or(last);
                    misses += usize::from(met < last);
                    check(1);
                    let missed = check(met).2;
                    assert!((met + 1..last.min(met + 4)).all(|cut| check(cut).2 <= missed), "{options} guess {size:e}");
                }
            }
        }
    }
    assert!(misses > 2, "{misses} restarts: nothing was tried");
}

/// On an emulated device, which takes eight tiles for one kernel.
fn loops_of_several_lengths() {
    x_has_all_steps(150, 131, 6);
    loops_of_lengths(150, 131, 0.0, "precision=f64 cycle=v levels=6");
    // M ends early.
    loops_of_lengths(150, 131, 1.0, "precision=f64");
}

/// On one that takes more than a hundred.
fn loops_on_larger_grids() {
    x_has_all_steps(420, 350, 8);
    loops_of_lengths(420, 350, 0.0, "precision=f64 cycle=v levels=8");
    loops_of_lengths(420, 350, 0.0, "precision=bf16 cycle=amli levels=8");
    loops_of_lengths(420, 350, 1.0, "");
}

/// A handle expects of a solve what it saw in the last one (kernels/rrb/ends.cuh): whatever it was, the bits are those
/// of a new handle, and errors those of any backend.
fn one_solve_after_another() {
    solves_after_another("precision=f64 cycle=v levels=4");
    solves_after_another("precision=bf16 cycle=v levels=4");
}

fn solves_after_another(options: &str) {
    let (nx, ny) = (37, 42);
    let a = random_m_matrix(nx, ny, false, 11);
    let b = random_rhs(a.len(), 11);
    let times = |v: &[f64], factor: f64| v.iter().map(|v| factor * v).collect::<Vec<_>>();
    let with = |v: &[f64], at: usize, value: f64| {
        let mut v = v.to_vec();
        v[at] = value;
        v
    };
    let zero = vec![0.0; a.len()];
    let guess = random_rhs(a.len(), 12);
    let (first, last) = (5, a.len() - 1);
    let cases = [
        ("plain", b.clone(), zero.clone(), ""),
        ("again", b.clone(), zero.clone(), ""),
        ("twice as large", times(&b, 2.5), zero.clone(), ""),
        ("as large again", b.clone(), zero.clone(), ""),
        ("a guess", b.clone(), guess.clone(), ""),
        ("a guess again", times(&b, 1.1), guess.clone(), ""),
        ("no guess", times(&b, 1.1), zero.clone(), ""),
        ("large", times(&b, 1e250), zero.clone(), ""),
        ("small", times(&b, 1e-250), zero.clone(), ""),
        ("small after it", times(&b, 1e-250), times(&guess, 1e-250), ""),
        ("NaN in b", with(&b, last, f64::NAN), zero.clone(), ""),
        ("after NaN", b.clone(), zero.clone(), ""),
        ("infinity in x", b.clone(), with(&zero, first, f64::INFINITY), ""),
        ("both", with(&b, first, f64::NAN), with(&guess, first, f64::NAN), ""),
        ("unchecked", with(&b, first, f64::NAN), zero.clone(), "check_input=0"),
        ("zero", zero.clone(), guess.clone(), ""),
        ("far", b.clone(), times(&guess, 1e200), ""),
        ("after it", b.clone(), guess.clone(), ""),
        ("far in single precision", b.clone(), times(&guess, 1e30), ""),
        ("in the papers' norm too", b.clone(), times(&guess, 1e30), "norm=preconditioned"),
        ("for a few iterations", b.clone(), times(&guess, 1e30), "norm=preconditioned abs_tol=1e-30 max_iter=3"),
        ("no iterations", b.clone(), guess.clone(), "max_iter=0"),
        ("few", b.clone(), guess.clone(), "max_iter=4"),
        ("none needed", b.clone(), guess.clone(), "rel_tol=0.99"),
        ("absolute", b.clone(), zero.clone(), "abs_tol=1e-3 rel_tol=1e-16"),
        ("too much", b.clone(), zero.clone(), "rel_tol=1e-17 max_iter=300"),
        ("the papers' norm", b.clone(), guess.clone(), "norm=preconditioned"),
        ("and from zero", b.clone(), zero.clone(), "norm=preconditioned"),
        ("initial", b.clone(), guess, "reference=initial"),
    ];
    let old = Solver::of(&a, &format!("backend=cuda {options}"));
    for (name, b, x, more) in cases {
        let solve = |solver: &Solver| {
            let usual = "rel_tol=1e-9 max_iter=100 norm=true2 reference=rhs abs_tol=0 check_input=1";
            solver.options(&format!("{usual} {more}")).unwrap();
            let mut x = x.clone();
            let outcome = solver.solve(&b, &mut x).map_err(|f| (f.status, f.sentence));
            (x.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), outcome, solver.history())
        };
        let [new, oracle] =
            ["cuda", "reference"].map(|backend| Solver::of(&a, &format!("backend={backend} {options}")));
        let (expected, found, on_host) = (solve(&new), solve(&old), solve(&oracle));
        let bits = |h: &[f64]| h.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        // As it was not expected, and as it was: then the loop begins before the host has seen the start.
        for found in [&found, &solve(&old)] {
            assert!(expected.0 == found.0 && expected.1 == found.1, "{name}: {:?} {:?}", expected.1, found.1);
            assert_eq!(bits(&expected.2), bits(&found.2), "{name}");
        }
        assert_eq!(found.1, on_host.1, "{name}");
        assert!(found.2.len().abs_diff(on_host.2.len()) <= 1, "{name}");
        if found.1.is_err() {
            assert!(found.0 == on_host.0, "{name}: the output stays as it was");
        }
    }
}

/// Solves from a guess against those of the CPU from the same one: what is told of it, first iterates, counts; the
/// first time, with the guess unexpected, and the next. What the guess has on the eliminated half of the points changes
/// nothing, however large.
fn from_a_guess() {
    for (nx, ny) in [(1, 64), (64, 1), (5, 5), (17, 17), (64, 65), (131, 67)] {
        let mut land = random_m_matrix(nx, ny, false, 6);
        (0..nx * ny).filter(|p| p % 7 == 3 || (p / 3) % 11 == 0).for_each(|p| land.decouple(p % nx, p / nx, 1.0));
        for (name, a) in [("all water", random_m_matrix(nx, ny, false, 5)), ("land", land)] {
            let (b, guess) = (random_rhs(nx * ny, 7), random_rhs(nx * ny, 8));
            let from = |solver: &Solver, guess: &[f64]| {
                let mut x = guess.to_vec();
                let status = solver.solve(&b, &mut x).unwrap();
                (x, status, solver.history())
            };
            // First iterates to the rounding of what the sweeps compute in, and to that of estimated bounds.
            for (format, allowed) in [
                ("precision=f64 cycle=v", 1e-12),
                ("precision=bf16 cycle=v", 2e-5),
                ("precision=bf16 cycle=amli cycle_spacing=2", 1e-3),
            ] {
                // An emulated device takes seconds for some of these.
                let (large, short) = (nx * ny > 1000, !format.contains("f64"));
                if large && (name != "land" || short && (nx > 64 || format != "precision=bf16 cycle=v")) {
                    continue;
                }
                let what = format!("{name} {nx}x{ny} {format}");
                let tolerance = 1e-9;
                let options = |backend: &str, levels: i64| {
                    format!("backend={backend} {format} levels={levels} threads=1 rel_tol={tolerance:e}")
                };
                let device = Solver::of(&a, &options("cuda", 6));
                let levels = device.int(key::INFO_LEVELS);
                let host = Solver::of(&a, &options("cpu", levels));
                assert_eq!(device.int(key::INFO_PRECISION), host.int(key::INFO_PRECISION), "{what}");
                device.solve_from_zero(&b);
                let expected = from(&host, &guess);
                for turn in 0..2 {
                    let found = from(&device, &guess);
                    assert_eq!((found.1, expected.1), (status::OK, status::OK), "{what}");
                    let [initial, of_host] = [&device, &host].map(|solver| solver.real(key::INFO_INITIAL_RESIDUAL));
                    assert!((initial - of_host).abs() <= 1e-12 * of_host, "{what} {turn}: {initial:e} {of_host:e}");
                    if format.contains("f64") {
                        assert!(count_is_right(&found.2, expected.2.len() - 1, tolerance), "{what}: {:?}", found.2);
                    } else {
                        // On hard problems sweeps in single precision make counts a matter of chance
                        // (tests/formats.rs).
                        let most = 1 + expected.2.len() / 10;
                        assert!(found.2.len().abs_diff(expected.2.len()) <= most, "{what}: {:?}", found.2);
                    }
                    // The residual of either, times a condition of some thousands.
                    assert!(max_difference(&found.0, &expected.0) <= 1e-5 * max_abs(&expected.0), "{what}");
                }
                let first = [&device, &host].map(|solver| {
                    solver.options("max_iter=2 rel_tol=1e-15").unwrap();
                    let (x, ..) = from(solver, &guess);
                    solver.options(&format!("max_iter=1000 rel_tol={tolerance:e}")).unwrap();
                    x
                });
                let error = max_difference(&first[0], &first[1]) / max_abs(&first[1]);
                assert!(error <= allowed, "{error:e} after 2: {what}");
                let expected = from(&device, &guess);
                let same = [0, 1].map(|colour| {
                    let mut other = guess.clone();
                    (0..other.len()).filter(|p| (p % nx + p / nx) % 2 == colour).for_each(|p| other[p] *= 1e9);
                    let found = from(&device, &other);
                    found.0 == expected.0 && found.2[1..] == expected.2[1..]
                });
                assert!(same[0] || same[1] || levels == 0, "{what}: values of the guess that are not needed count");
            }
        }
    }
}

/// Arrays of the host come and go as they are: a few values and several buffers full, rows that lie apart, with one
/// thread and with many, page-locked or not.
fn arrays_of_the_host() {
    use cudarc::driver::sys::{CUresult, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRetain};
    use cudarc::driver::sys::{cuMemFreeHost, cuMemHostAlloc};
    // A x leaves the least to compute; each value shows where it comes from.
    for (nx, ny, ld, threads) in [
        (5, 4, 5, 1),
        (300, 217, 300, 1),
        (300, 217, 311, 2),
        (1, 70_001, 3, 2),
        (66_000, 2, 66_001, 5),
        (520, 521, 520, 3),
        (520, 521, 527, 16),
    ] {
        let what = format!("{nx}x{ny} {ld} {threads}");
        let a = poisson(nx, ny);
        let x: Vec<f64> = (0..a.len()).map(|k| k as f64).collect();
        let expected = a.multiply(&x);
        let solver = Solver::new(nx, ny, &format!("backend=cuda precision=f64 cycle=v threads={threads} max_iter=1"));
        solver.set_int(key::LEADING_DIMENSION, ld as i64).unwrap();
        let [center, east, north] = [&a.center, &a.east, &a.north].map(|v| padded(v, nx, ld, f64::NAN));
        solver.factorize_arrays(&center, &east, &north, None).unwrap();
        let wide = padded(&x, nx, ld, f64::NAN);
        for _ in 0..2 {
            let mut y = vec![-1.0; wide.len()];
            // SAFETY: both hold all rows.
            assert_eq!(unsafe { rrb_multiply(solver.handle, wide.as_ptr(), y.as_mut_ptr()) }, status::OK, "{what}");
            assert!(unpadded(&y, nx, ld) == expected, "{what}");
            let between = (0..y.len()).filter(|k| k % ld >= nx);
            assert!(between.into_iter().all(|k| y[k] == -1.0), "{what}: what lies between rows stays");
        }
        let bytes = 8 * wide.len();
        let (mut locked, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the driver was started by the library; pointers outlive the calls, and arrays hold all rows.
        unsafe {
            assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), CUresult::CUDA_SUCCESS);
            assert_eq!(cuCtxPushCurrent_v2(context), CUresult::CUDA_SUCCESS);
            assert_eq!(cuMemHostAlloc(&mut locked, bytes, 0), CUresult::CUDA_SUCCESS);
            let y: *mut f64 = locked.cast();
            for k in 0..wide.len() {
                y.add(k).write(-1.0);
            }
            assert_eq!(rrb_multiply(solver.handle, wide.as_ptr(), y), status::OK, "{what}");
            let found = std::slice::from_raw_parts(y, wide.len());
            assert!(unpadded(found, nx, ld) == expected, "{what}");
            assert!((0..wide.len()).filter(|k| k % ld >= nx).all(|k| found[k] == -1.0), "{what}");
            assert_eq!(cuMemFreeHost(locked), CUresult::CUDA_SUCCESS);
            assert_eq!(cuCtxPopCurrent_v2(&mut context), CUresult::CUDA_SUCCESS);
        }
    }
}

/// The handle goes from format to format, and gets new values: what it gives is what a new handle gives, without new
/// memory where the format stays.
fn formats_one_after_another() {
    let a = random_m_matrix(90, 77, false, 1);
    let mut other = a.clone();
    other.center.iter_mut().for_each(|c| *c *= 1.25);
    let b = random_rhs(a.len(), 1);
    let solver = Solver::new(a.nx, a.ny, "backend=cuda levels=6 rel_tol=1e-9");
    for precision in ["bf16", "f32", "bf16", "f64", "bf16"] {
        solver.options(&format!("precision={precision}")).unwrap();
        let mut bytes = None;
        for matrix in [&a, &other, &a] {
            solver.factorize(matrix).unwrap();
            let of_this = solver.int(key::INFO_BYTES_DEVICE);
            let (x, _) = solver.solve_from_zero(&b);
            let new = run(matrix, &b, &format!("backend=cuda levels=6 rel_tol=1e-9 precision={precision}"));
            assert!(bits(&x) == bits(&new.x), "{precision}");
            assert_eq!(solver.history(), new.history, "{precision}");
            assert!(bytes.is_none_or(|bytes| bytes == of_this), "{precision}: no memory is taken again");
            bytes = Some(solver.int(key::INFO_BYTES_DEVICE));
        }
    }
}

/// CG is in double precision on a device.
fn mixed_is_bf16() {
    for a in [random_m_matrix(50, 40, false, 5), neumann_var(50, 40), random_m_matrix(50, 40, true, 5)] {
        let of = |precision: &str| {
            let solver = Solver::of(&a, &format!("backend=cuda precision={precision} levels=6"));
            let b = a.multiply(&random_rhs(a.len(), 3));
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!((solver.int(key::INFO_PRECISION), result), (3, status::OK));
            bits(&x)
        };
        assert!(of("mixed") == of("bf16"));
    }
}

/// A monitor sees every iteration once, in order, over pauses of the loop, and ends the solve.
fn every_iteration_is_watched() {
    unsafe extern "C-unwind" fn watch(user: *mut std::ffi::c_void, iteration: i64, residual: f64) -> i32 {
        // SAFETY: `user` is the pair below, which nobody else uses meanwhile.
        let seen = unsafe { &mut *user.cast::<(Vec<(i64, f64)>, usize)>() };
        seen.0.push((iteration, residual));
        i32::from(seen.0.len() > seen.1)
    }
    let a = aniso(32, 316.0);
    let b = random_rhs(a.len(), 2);
    let solver = Solver::of(&a, "backend=cuda precision=bf16 cycle=v levels=8 rel_tol=1e-8");
    for stop_after in [usize::MAX, 4] {
        let mut seen: (Vec<(i64, f64)>, usize) = (Vec::new(), stop_after);
        // SAFETY: a live handle; `seen` outlives the solve, after which the monitor is taken off.
        unsafe { assert_eq!(rrb_set_monitor(solver.handle, Some(watch), (&raw mut seen).cast()), status::OK) };
        let (x, result) = solver.solve_from_zero(&b);
        // SAFETY: a live handle.
        unsafe { assert_eq!(rrb_set_monitor(solver.handle, None, std::ptr::null_mut()), status::OK) };
        let history = solver.history();
        let expected: Vec<_> = history.iter().enumerate().map(|(k, r)| (k as i64, *r)).collect();
        assert_eq!(history.len(), solver.iterations() + 1);
        // The loop pauses every 32 iterations.
        if stop_after == usize::MAX {
            assert!(history.len() > 33, "{} iterations: there was no pause", history.len() - 1);
            assert_eq!((result, &seen.0), (status::OK, &expected));
        } else {
            assert_eq!((result, history.len()), (status::STOPPED, 33));
            assert_eq!(&seen.0[..], &expected[..seen.0.len()]);
            let residual = norm2(&a.residual(&b, &x)) / norm2(&b);
            let last = history[history.len() - 1];
            assert!((residual - last).abs() <= 1e-3 * last, "{residual:e} {last:e}");
        }
    }
}

/// A path of that many rows and columns, one node wide, that winds inwards; all else is land.
fn spiral(nx: usize, ny: usize) -> Vec<bool> {
    let mut water = vec![false; nx * ny];
    let (mut i, mut j, mut direction) = (0, 0, (1, 0));
    let at = |i: isize, j: isize| {
        (i >= 0 && j >= 0 && i < nx as isize && j < ny as isize).then(|| j as usize * nx + i as usize)
    };
    water[0] = true;
    let mut turns = 0;
    while turns < 2 {
        let (next, after) = (at(i + direction.0, j + direction.1), at(i + 2 * direction.0, j + 2 * direction.1));
        match next {
            Some(p) if !after.is_some_and(|q| water[q]) => {
                water[p] = true;
                (i, j) = (i + direction.0, j + direction.1);
                turns = 0;
            }
            _ => {
                direction = (-direction.1, direction.0);
                turns += 1;
            }
        }
    }
    water
}

/// Components and singular ones, as the CPU finds them: coasts of all kinds, one matrix after another in a handle.
fn components_of_basins() {
    for (nx, ny) in [(1, 97), (97, 1), (17, 5), (64, 65), (66, 17), (300, 200)] {
        // An emulated device takes a second to factorize the largest.
        let small = nx * ny <= 2000;
        for nine_points in [false, true] {
            let mut random = Random(7);
            let mut basins: Vec<(String, Vec<bool>)> = [0.02, 0.2, 0.4, 0.6, 0.9, 1.0]
                [usize::from(!small)..6 - usize::from(!small)]
                .iter()
                .step_by(if small { 1 } else { 2 })
                .map(|&land| (format!("{land} of land"), (0..nx * ny).map(|_| random.unit() >= land).collect()))
                .collect();
            basins.push(("a spiral".to_owned(), spiral(nx, ny)));
            // With nine points one water, with five none.
            basins.push(("a chessboard".to_owned(), (0..nx * ny).map(|p| (p % nx + p / nx) % 2 == 0).collect()));
            basins.push(("walls".to_owned(), (0..nx * ny).map(|p| p % nx % 13 != 5 && p / nx % 33 != 31).collect()));
            let options = |backend: &str| format!("backend={backend} {PLAIN} levels=8 threads=1 rel_tol=1e-10");
            let [cpu, device] = ["cpu", "cuda"].map(|backend| Solver::new(nx, ny, &options(backend)));
            for (name, basin) in basins {
                // Sums of zero in no row, in all, in half of them: then some basins are singular, and which is known.
                for zero_sums in [0, nx * ny, nx * (ny / 2)] {
                    if !small && zero_sums > 0 && name != "walls" {
                        continue;
                    }
                    let what = format!("{nx}x{ny}, nine points: {nine_points}, {name}, {zero_sums} sums of zero");
                    let mut a = random_m_matrix(nx, ny, nine_points, 3);
                    (0..a.len()).filter(|&p| !basin[p]).for_each(|p| a.decouple(p % nx, p / nx, 1.0));
                    let mut coupled = vec![false; a.len()];
                    for (p, q, _) in a.couplings().into_iter().filter(|&(_, _, coupling)| coupling != 0.0) {
                        (coupled[p], coupled[q]) = (true, true);
                    }
                    a.set_row_sums(|p| if p < zero_sums && coupled[p] { 0.0 } else { 1.0 });
                    let found = [&cpu, &device].map(|solver| {
                        solver.factorize(&a).unwrap();
                        [key::INFO_COMPONENTS, key::INFO_SINGULAR_COMPONENTS].map(|key| solver.int(key))
                    });
                    assert_eq!(found[0], found[1], "{what}");
                    assert!(zero_sums > 0 || found[0][1] == 0, "{what}");
                    if small {
                        let b = random_rhs(a.len(), 4);
                        let (z, w) = (cpu.apply(&b), device.apply(&b));
                        assert!(max_difference(&z, &w) <= 1e-10 * max_abs(&z), "M^-1: {what}");
                        if name == "walls" {
                            let ((x, solved), (y, solved_too)) = (cpu.solve_from_zero(&b), device.solve_from_zero(&b));
                            assert_eq!(solved, solved_too, "{what}");
                            // 1e-10 of |b|, times a condition of some thousands.
                            assert!(max_difference(&x, &y) <= 1e-6 * max_abs(&x), "{what}");
                        }
                    }
                }
            }
        }
    }
}

/// What elimination takes whole is solved, with the loop begun ahead of the host or not.
fn sources_that_are_eliminated() {
    check_eliminated_sources("backend=cuda");
}

/// Basins of high contrast, closed or nearly: what counts of the remainder's inverse is small beside the constant that
/// is in it.
fn closed_basins_of_high_contrast_in_short_formats() {
    for (n, contrast, excess) in [(32, 1e6, 0.0), (48, 1e6, 0.0), (65, 1e4, 0.0), (24, 1e6, 1e-3), (40, 1e6, 1e-3)] {
        let mut a = inclusions(n, contrast);
        a.set_row_sums(|p| if p == 5 { excess } else { 0.0 });
        let b = a.multiply(&random_rhs(a.len(), 3));
        for cycle in ["v", "amli"] {
            for precision in ["f32", "bf16"] {
                let what = format!("{n} x {n}, {contrast:e}, {excess:e}: precision={precision} cycle={cycle}");
                let device = run(&a, &b, &format!("backend=cuda precision={precision} cycle={cycle}"));
                let levels = device.levels;
                let host = run(&a, &b, &format!("backend=cpu precision=f64 cycle={cycle} levels={levels}"));
                assert_eq!((device.status, host.status), (status::OK, status::OK), "{what}");
                let (count, expected) = (device.iterations, host.iterations);
                assert!(count <= expected + 2, "{what}: {count}, in double precision {expected}");
            }
        }
    }
}

device::device_tests! { devices();
    awkward_extents
    first_iterates_and_operators
    variants
    remainders
    what_is_refused
    table_5_3
    same_bits
    formats_and_recursive_cycles
    widths_of_small_grids
    levels_end_where_couplings_are_weak
    second_factorizations
    rows_that_are_the_same
    nothing_is_left_of_the_last_solve
    what_is_told_is_true
    loops_of_several_lengths
    loops_on_larger_grids
    one_solve_after_another
    from_a_guess
    arrays_of_the_host
    formats_one_after_another
    mixed_is_bf16
    every_iteration_is_watched
    components_of_basins
    sources_that_are_eliminated
    closed_basins_of_high_contrast_in_short_formats
}
