//! The `cuda` backend compared with `reference` and `cpu`: iterates up to rounding, counts, statuses, and features that
//! only devices have. tests/emulator emulates a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;
#[path = "cuda_loops.rs"]
mod loops;

use common::problems::{
    Random, Stencil, aniso, by_name, inclusions, neumann_const, neumann_var, poisson, random_m_matrix, random_rhs,
    side_by_side, without_mean,
};
use common::{
    PAPERS, Solver, bits, child, devices, key, max_abs, max_difference, norm2, own_lines, padded, rrb_multiply,
    rrb_set_monitor, run, status, unpadded,
};
use loops::{
    from_a_guess, loops_of_several_lengths, loops_on_larger_grids, nothing_is_left_of_the_last_solve,
    one_solve_after_another, reported_residuals_are_true,
};
use std::f64::consts::PI;

/// Options without short formats and recursive cycles.
const PLAIN: &str = "precision=f64 cycle=v";

/// Coarsest systems from one line to the largest number of lines, along both sides, one of them singular.
fn coarsest_systems() {
    let squares = [(2, 2), (5, 6), (18, 10), (24, 15), (24, 16), (16, 24), (45, 70), (70, 45), (62, 62), (64, 62)];
    let strips = [(3, 9), (3, 1600), (1500, 5), (6, 130)];
    for (nx, ny) in squares.into_iter().chain(strips) {
        for a in [poisson(nx, ny), random_m_matrix(nx, ny, true, 7), neumann_const(nx, ny)] {
            let b = random_rhs(nx * ny, 7);
            let [oracle, device] =
                ["reference", "cuda"].map(|backend| Solver::of(&a, &format!("backend={backend} {PLAIN} levels=2")));
            let (z, w) = (oracle.apply(&b), device.apply(&b));
            // The bound is the rounding error times the condition number of the worst matrix, the closed one without
            // constants. It is 9e-13 for n = 70.
            let allowed = f64::EPSILON * 8.0 * (nx.max(ny) as f64 / PI).powi(2);
            assert!(max_difference(&z, &w) <= allowed * max_abs(&z), "{nx}x{ny}");
        }
    }
}

/// Errors of factorize on a device.
fn what_is_refused() {
    let solver = Solver::new(40, 40, "backend=cuda cycle=k");
    let failure = solver.factorize(&poisson(40, 40)).unwrap_err();
    assert_eq!(failure.status, status::UNSUPPORTED);
    assert!(failure.message.contains("cycle=k"), "{}", failure.message);
    // The inverse of a center overflows, on land or not.
    let mut a = poisson(40, 40);
    a.center[17] = 1e-310;
    for _ in 0..2 {
        let [cpu, device] = ["cpu", "cuda"]
            .map(|backend| Solver::new(40, 40, &format!("backend={backend}")).factorize(&a).unwrap_err());
        assert_eq!((cpu.status, &cpu.message), (status::MATRIX, &device.message));
        a.decouple(17, 0, 1e-310);
    }
}

/// Table 5.3 of the papers, as far as an emulated device can compute it in acceptable time.
fn table_5_3() {
    for (n, expected) in [(64, 13), (128, 16)] {
        let (a, b) = by_name("poisson_f", n - 1, n - 1);
        let run = run(&a, &b, &format!("backend=cuda {PLAIN} levels=12 {PAPERS}"));
        assert_eq!((run.status, run.iterations), (0, expected), "h^-1 = {n}: {:?}", run.history);
    }
}

/// Rows of all lengths on the small grids, some with land. Kernels that keep these grids in shared memory must not read
/// the padding, in several consecutive solves. (On 259 x 241 with recursion, values next to 64 x 60 were once read.)
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
                    // The tolerances are those for other pairs of backends.
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

/// If the couplings of a coarser grid are weak, the levels end there. If the couplings vanish, M equals the M of all
/// levels; if they are weak, it is nearly equal. For the next matrix, the number of levels is determined again.
fn levels_end_where_couplings_are_weak() {
    let plain = ["precision=f64 cycle=v", "precision=f64 cycle=v fusion=off", "precision=bf16 cycle=v", ""];
    for (nx, ny, nine_points, formats) in
        [(13, 3001, false, &plain[..1]), (130, 131, true, &plain[2..]), (259, 241, false, &plain[..])]
    {
        // In these matrices, the sum of the couplings of a node is at most 8, so `row_sum` determines how weak they
        // are.
        let heavy = |row_sum: f64| {
            let mut a = random_m_matrix(nx, ny, nine_points, 3);
            a.center.iter_mut().enumerate().for_each(|(k, c)| *c += row_sum * (1.0 + (k % 7) as f64));
            a
        };
        let b = random_rhs(nx * ny, 17);
        for formats in formats {
            let device = Solver::of(&poisson(nx, ny), &format!("backend=cuda {formats} rel_tol=1e-10"));
            let all = device.int(key::INFO_LEVELS);
            for (row_sum, weak) in [(1e5, 0.0), (2.0, 0.02)] {
                let a = heavy(row_sum);
                device.factorize(&a).unwrap();
                let levels = device.int(key::INFO_LEVELS);
                assert!(levels < all, "{levels} levels of {all} with {row_sum}");
                let what = format!("{nx}x{ny} {formats} row sum {row_sum:e} levels {levels}");
                let oracle = Solver::of(&a, &format!("backend=reference {formats} rel_tol=1e-10 levels={levels}"));
                let (z, w) = (oracle.apply(&b), device.apply(&b));
                let error = max_difference(&z, &w) / max_abs(&z);
                // Couplings of 1e-5 of the center are below 1e-20 after four levels. Weak couplings are up to 0.3, and
                // the error is the part of z that passes through them.
                // Without couplings, z is b divided by the centers, which are within a factor of seven: nine products
                // per row.
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

/// A matrix is factorized twice if estimates select V or if a short format loses a pivot. Both factorizations use its
/// own row sums.
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
    // Each level has nine products in single precision downwards and upwards: 6e-6 with six levels. Observed: 1.4e-7.
    let allowed = 2.0 * 9.0 * levels as f64 * 0.5 * f64::from(f32::EPSILON);
    assert!(error <= allowed.min(1e-5), "M^-1 differs by {error:e} with {levels} levels");

    // One half of the grid is scaled by 1e-45, and decoupled from the other half.
    let (nx, ny) = (160, 110);
    let b = random_rhs(nx * ny, 17);
    let apart = side_by_side(nx, ny, false, 1e-45);
    let device = Solver::of(&apart, "backend=cuda");
    assert_eq!(device.int(key::INFO_PRECISION), 1, "f64");
    let (x, result) = device.solve_from_zero(&b);
    assert_eq!(result, status::OK);
    assert!(norm2(&apart.residual(&b, &x)) <= 1.001e-6 * norm2(&b));
}

/// Two materials, one with a mass; land; and a corner in which no two rows of the matrix are equal.
fn patches(nx: usize, ny: usize) -> Stencil {
    let noise = random_rhs(nx * ny, 5);
    let mut a = poisson(nx, ny);
    for (k, noise) in noise.iter().enumerate() {
        let (i, j) = (k % nx, k / nx);
        a.center[k] += match (i, j) {
            (250.., 60..) => 1e-3 * noise.abs(),
            // These columns begin at the beginning of a tile.
            (192.., _) => 0.5,
            _ => 0.0,
        };
        if (200..240).contains(&i) && j < 20 {
            (a.east[k], a.north[k]) = (0.0, 0.0);
        }
    }
    a
}

/// If all rows of the matrix in a tile are equal, one row is read for the tile, which changes no bit of a solution. Two
/// processes, one of which reads all rows, print the same. A handle whose matrices alternate with and without such
/// tiles gives the results of new handles.
fn rows_that_are_the_same() {
    const TEST: &str = "rows_that_are_the_same";
    let reported = |rows| child(TEST, &[("RRBSOLVER_CUDA_UNIFORM", rows)]).map(|output| own_lines(&output));
    if let Some(read_once) = reported("all") {
        let read_all = reported("off").expect("another child");
        assert_eq!(read_once, read_all);
        assert_eq!(read_once.iter().filter(|line| line.contains(" iterations ")).count(), 15, "{read_once:?}");
        return;
    }
    // The test harness has begun a line.
    println!();
    let print = |solver: &Solver, x: &[f64], what: &str| {
        let mix = |h: u64, v: &u64| (h ^ v).wrapping_mul(0x100_0000_01b3).rotate_left(29);
        println!("{:016x} {} iterations {what}", bits(x).iter().fold(7, mix), solver.iterations());
    };
    // Tiles on the first grid have 64 x 16 nodes, and 16 nodes of their surroundings are read on each side. Two of the
    // cases have two grids; on the second grid, a tile covers twice as many nodes in each direction.
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
        // The second solve has an initial guess.
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

/// Arrays on the host are transferred unchanged: a few values and several full buffers, padded rows, one thread and
/// several threads, page-locked and pageable memory.
fn arrays_of_the_host() {
    use cudarc::driver::sys::{CUresult, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRetain};
    use cudarc::driver::sys::{cuMemFreeHost, cuMemHostAlloc};
    // The test uses products A x, because each value of the result shows which input value was transferred.
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
            // SAFETY: both arrays hold all rows.
            assert_eq!(unsafe { rrb_multiply(solver.handle, wide.as_ptr(), y.as_mut_ptr()) }, status::OK, "{what}");
            assert!(unpadded(&y, nx, ld) == expected, "{what}");
            let between = (0..y.len()).filter(|k| k % ld >= nx);
            assert!(between.into_iter().all(|k| y[k] == -1.0), "{what}: what lies between rows stays");
        }
        let bytes = 8 * wide.len();
        let (mut locked, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the library has initialized the driver; pointers outlive the calls, and arrays hold all rows.
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

/// A handle that changes its format and its values gives the results of a new handle, and allocates no memory if the
/// format is unchanged.
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

/// A monitor receives every iteration once, in order, across pauses of the loop, and can stop the solve.
fn every_iteration_is_watched() {
    unsafe extern "C-unwind" fn watch(user: *mut std::ffi::c_void, iteration: i64, residual: f64) -> i32 {
        // SAFETY: `user` is the pair below, which no other code uses meanwhile.
        let seen = unsafe { &mut *user.cast::<(Vec<(i64, f64)>, usize)>() };
        seen.0.push((iteration, residual));
        i32::from(seen.0.len() > seen.1)
    }
    let a = aniso(32, 316.0);
    let b = random_rhs(a.len(), 2);
    let solver = Solver::of(&a, "backend=cuda precision=bf16 cycle=v levels=8 rel_tol=1e-8");
    for stop_after in [usize::MAX, 4] {
        let mut seen: (Vec<(i64, f64)>, usize) = (Vec::new(), stop_after);
        // SAFETY: a live handle; `seen` outlives the solve, after which the monitor is removed.
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

/// Returns a path one node wide that winds inwards on nx x ny nodes; all other nodes are land.
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

/// Components and singular components agree with the CPU: coasts of all kinds, one matrix after another on a handle.
fn components_of_basins() {
    for (nx, ny) in [(1, 97), (97, 1), (17, 5), (64, 65), (66, 17), (300, 200)] {
        // An emulated device needs a second to factorize the largest grid.
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
            // With nine points one component, with five points only lone nodes.
            basins.push(("a chessboard".to_owned(), (0..nx * ny).map(|p| (p % nx + p / nx) % 2 == 0).collect()));
            basins.push(("walls".to_owned(), (0..nx * ny).map(|p| p % nx % 13 != 5 && p / nx % 33 != 31).collect()));
            let options = |backend: &str| format!("backend={backend} {PLAIN} levels=8 threads=1 rel_tol=1e-10");
            let [cpu, device] = ["cpu", "cuda"].map(|backend| Solver::new(nx, ny, &options(backend)));
            for (name, basin) in basins {
                // Zero row sums in no row, in all rows, and in half of them, where some basins are singular.
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
                            // 1e-10 |b| times a condition number of a few thousand.
                            assert!(max_difference(&x, &y) <= 1e-6 * max_abs(&x), "{what}");
                        }
                    }
                }
            }
        }
    }
}

/// Closed or nearly closed basins of high contrast. In the inverse of the coarsest system, the significant part is
/// small compared with the constant part.
fn closed_basins_of_high_contrast_in_short_formats() {
    for (n, contrast, row_sum) in [(32, 1e6, 0.0), (48, 1e6, 0.0), (65, 1e4, 0.0), (24, 1e6, 1e-3), (40, 1e6, 1e-3)] {
        let mut a = inclusions(n, contrast);
        a.set_row_sums(|p| if p == 5 { row_sum } else { 0.0 });
        let b = a.multiply(&random_rhs(a.len(), 3));
        for cycle in ["v", "amli"] {
            for precision in ["f32", "bf16"] {
                let what = format!("{n} x {n}, {contrast:e}, {row_sum:e}: precision={precision} cycle={cycle}");
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

/// Singular 9-point systems with guesses that are far too large: rounding of the guess causes restarts. Each restart
/// begins from the original b. Without this, for example with b1 of S1 instead, no solve on the device converges.
///
/// Whether a single solve converges within the restarts is decided by rounding: on the host and on an H200, 33 to 38 of
/// 40 such systems converge. A solve that converges has the right solution.
fn restarts_with_nine_points() {
    const SYSTEMS: u64 = 40;
    for far in [1e13, 1e16] {
        let mut converged = 0;
        for seed in 0..SYSTEMS {
            let mut a = random_m_matrix(9, 9, true, 3 + seed);
            a.set_row_sums(|_| 0.0);
            let solution = without_mean(random_rhs(a.len(), 100 + seed));
            let b = a.multiply(&solution);
            let mut x = without_mean(random_rhs(a.len(), 200 + seed).iter().map(|v| far * v).collect());
            let options = format!("backend=cuda {PLAIN} levels=2 threads=1 rel_tol=1e-10 max_iter=300");
            if Solver::of(&a, &options).solve(&b, &mut x).expect("a status") != status::OK {
                continue;
            }
            converged += 1;
            // The tolerance times a condition number of a hundred. The mean of x contains the rounding error of the
            // guess.
            let difference = max_difference(&without_mean(x), &solution) / max_abs(&solution);
            assert!(difference <= 1e-8, "{far:e}, seed {seed}: {difference:e}");
        }
        // Four standard deviations below the mean of a binomial distribution, if a solve converges with probability
        // 0.85.
        assert!(converged >= 25, "{far:e}: {converged} of {SYSTEMS} solves converge");
    }
}

device::device_tests! { devices();
    restarts_with_nine_points
    coarsest_systems
    what_is_refused
    table_5_3
    widths_of_small_grids
    levels_end_where_couplings_are_weak
    second_factorizations
    rows_that_are_the_same
    nothing_is_left_of_the_last_solve
    reported_residuals_are_true
    loops_of_several_lengths
    loops_on_larger_grids
    one_solve_after_another
    from_a_guess
    arrays_of_the_host
    formats_one_after_another
    mixed_is_bf16
    every_iteration_is_watched
    components_of_basins
    closed_basins_of_high_contrast_in_short_formats
}
