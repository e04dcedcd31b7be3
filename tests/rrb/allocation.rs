//! Memory: solves and sweeps allocate nothing on any thread, and ten thousand uses of a handle do not increase its
//! memory.
//!
//! The counters cover the whole process. This file is therefore one test without a harness, whose thread may still
//! allocate memory for its lists when the test has begun.

#[path = "../common/mod.rs"]
mod common;
#[path = "../dpcg/memory.rs"]
mod dpcg;
#[path = "../sparse/solves.rs"]
mod sparse;

use common::problems::{Stencil, aniso, neumann_const, poisson, random_m_matrix, random_rhs};
use common::smoother::{
    Level, Smoother, smoother_apply, smoother_exchange, smoother_residual, smoother_set_monitor, stencil,
};
use common::{
    PRECISIONS, Solver, formats, key, outcome, rrb_apply, rrb_multiply, rrb_set_monitor, rrb_solve, rrbsolver_set_log,
    status,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

/// Number of allocations, and bytes in use.
static CALLS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: all calls go to the system allocator; counting touches no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, SeqCst);
        LIVE.fetch_add(layout.size() as i64, SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, SeqCst);
        LIVE.fetch_add(layout.size() as i64, SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, SeqCst);
        LIVE.fetch_add(size as i64 - layout.size() as i64, SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts large blocks, which are mapped directly. Functions of the executable take precedence over those of the C
/// library, whose allocator does not call them by these names.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod pages {
    use super::{CALLS, LIVE, SeqCst, c_void};
    use std::ffi::c_int;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn mmap(
        start: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        CALLS.fetch_add(1, SeqCst);
        LIVE.fetch_add(bytes as i64, SeqCst);
        // SAFETY: guaranteed by the caller; -1, a failure, is `MAP_FAILED`.
        unsafe { libc::syscall(libc::SYS_mmap, start, bytes, protection, flags, file, offset) as *mut c_void }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize) -> c_int {
        LIVE.fetch_sub(bytes as i64, SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { libc::syscall(libc::SYS_munmap, start, bytes) as c_int }
    }
}

/// Returns the number of allocations during `work`.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.load(SeqCst);
    work();
    CALLS.load(SeqCst) - before
}

fn live() -> i64 {
    LIVE.load(SeqCst)
}

unsafe extern "C-unwind" fn monitor(_: *mut c_void, _: i64, _: f64) -> i32 {
    0
}

unsafe extern "C-unwind" fn listen(user: *mut c_void, _: i32, _: *const c_char) {
    // SAFETY: the test passes a counter that outlives the library's use of it.
    unsafe { &*user.cast::<AtomicU64>() }.fetch_add(1, SeqCst);
}

fn main() {
    // Tools such as cargo-nextest request the list of tests.
    if std::env::args().any(|argument| argument == "--list") {
        return println!("memory: test");
    }
    // The first call of a process allocates memory once, which must not be counted below.
    let a = random_m_matrix(8, 8, true, 1);
    Solver::of(&a, "backend=cpu threads=2").solve_from_zero(&random_rhs(64, 1));

    solving_allocates_nothing();
    ten_thousand_steps_allocate_nothing();
    refactorizing_a_coast_allocates_nothing();
    alternating_matrices_allocate_nothing();
    refactorizing_in_every_format_allocates_nothing();
    alternating_cycles_allocate_nothing();
    refactorizing_with_the_v_cycle_allocates_nothing();
    alternating_levels_and_aggregation_needs_no_more_memory();
    large_blocks_are_kept();
    smoothing_allocates_nothing();
    bytes_host_is_the_allocated_memory();
    dpcg::solving_allocates_nothing();
    dpcg::bytes_host_is_the_allocated_memory();
    sparse::solving_allocates_nothing();
    println!("test memory ... ok");
}

fn solving_allocates_nothing() {
    let lines = AtomicU64::new(0);
    // SAFETY: `lines` outlives its use: the callback is removed below.
    assert_eq!(rrbsolver_set_log(Some(listen), (&raw const lines).cast_mut().cast()), status::OK);
    // The first grid uses a single thread, and the second grid several threads.
    for (nx, ny) in [(70, 45), (130, 90)] {
        let problems: [(&str, Stencil); 3] = [
            ("five", random_m_matrix(nx, ny, false, 1)),
            ("nine", random_m_matrix(nx, ny, true, 1)),
            ("singular", neumann_const(nx, ny)),
        ];
        for (name, a) in &problems {
            solving_a_system_allocates_nothing(name, a);
        }
    }
    assert!(lines.load(SeqCst) > 100, "the log was listened to");
    assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
}

fn solving_a_system_allocates_nothing(name: &str, a: &Stencil) {
    let b = random_rhs(a.len(), 2);
    let mut x = vec![0.0; a.len()];
    for (backend, threads) in [("reference", 1), ("cpu threads=1", 1), ("cpu threads=2", 2), ("cpu threads=5", 5)] {
        for norm in ["norm=true2", "norm=preconditioned reference=initial"] {
            for extra in [
                "",
                "verbosity=2",
                "lumping=m2u fusion=off",
                "rel_tol=1e-14 max_iter=7",
                "precision=f64 cycle=amli cycle_spacing=2",
                "precision=f32 cycle=k cycle_spacing=2 fusion=off",
                "precision=f32 cycle=v",
                "precision=bf16 cycle=amli cycle_steps=3",
                "precision=bf16 cycle=k cycle_spacing=2",
                "precision=mixed",
            ] {
                let solver = Solver::of(a, &format!("backend={backend} {norm} {extra}"));
                let used_threads = if a.len() >= 8192 { threads } else { 1 };
                assert_eq!(solver.int(key::INFO_THREADS), used_threads, "{name} {backend}");
                let h = solver.handle;
                // SAFETY: a live handle.
                outcome(unsafe { rrb_set_monitor(h, Some(monitor), null_mut()) }).unwrap();
                // The first solve counts too.
                for round in 0..2 {
                    x.fill(0.5 * round as f64);
                    let (bp, xp) = (b.as_ptr(), x.as_mut_ptr());
                    let mut result = -1;
                    let taken = calls(|| {
                        // SAFETY: a live handle and arrays of its size.
                        result = unsafe { rrb_solve(h, bp, xp) };
                    });
                    assert!(result >= 0, "{name} {backend} {norm} {extra}");
                    assert_eq!(taken, 0, "rrb_solve took memory: {name} {backend} {norm} {extra} round {round}");
                    // SAFETY: as above.
                    let taken = calls(|| unsafe {
                        assert_eq!(rrb_apply(h, bp, xp), status::OK);
                        assert_eq!(rrb_multiply(h, bp, xp), status::OK);
                    });
                    assert_eq!(taken, 0, "rrb_apply or rrb_multiply took memory: {name} {backend}");
                }
            }
        }
    }
}

/// The time loop of a simulation: new coefficients and a solve in every step, on one small handle.
fn ten_thousand_steps_allocate_nothing() {
    for backend in ["reference", "cpu threads=1", "cpu threads=2"] {
        for nine_point in [false, true] {
            let matrices = [0, 1, 2].map(|seed| random_m_matrix(14, 11, nine_point, seed));
            let b = random_rhs(14 * 11, 3);
            let mut x = vec![0.0; 14 * 11];
            let solver = Solver::of(&matrices[0], &format!("backend={backend}"));
            solver.solve(&b, &mut x).unwrap();
            let (before, bytes) = (live(), solver.int(key::INFO_BYTES_HOST));
            let steps = if backend == "cpu threads=2" { 10_000 } else { 2_000 };
            let taken = calls(|| {
                for step in 0..steps {
                    solver.factorize(&matrices[step % 3]).unwrap();
                    assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
                }
            });
            assert_eq!(live(), before, "{backend}: memory grew over {steps} steps");
            assert_eq!(solver.int(key::INFO_BYTES_HOST), bytes);
            // The reference backend allocates and frees temporary lists.
            assert!(taken == 0 || backend == "reference", "{backend}: refactorizing took memory {taken} times");
        }
    }
    // Failures in the loop must not leak either; only the last error message remains.
    let good = random_m_matrix(14, 11, false, 1);
    let mut bad = good.clone();
    bad.center[20] = -1.0;
    let solver = Solver::of(&good, "backend=cpu threads=2");
    let mut sizes = Vec::with_capacity(2);
    for rounds in [10, 500] {
        for _ in 0..rounds {
            drop(solver.factorize(&bad).unwrap_err());
            solver.factorize(&good).unwrap();
        }
        sizes.push(live());
    }
    assert_eq!(sizes[0], sizes[1], "failing factorizations leak");
    // Creating and destroying handles must not leak.
    let before = live();
    for _ in 0..100 {
        Solver::of(&good, "backend=cpu threads=2").solve_from_zero(&random_rhs(14 * 11, 1));
    }
    // Thread bookkeeping of the standard library may add a small amount once.
    assert!(live() - before < 4096, "{} bytes stayed after 100 handles", live() - before);
}

/// Many pieces of land, with closed basins between them, on grids for one thread and for several threads.
fn refactorizing_a_coast_allocates_nothing() {
    for (nx, ny) in [(70, 45), (130, 90)] {
        let mut a = neumann_const(nx, ny);
        let land = |k: usize| k % 7 == 3 || k % 11 == 5;
        for k in (0..nx * ny).filter(|&k| land(k)) {
            a.decouple(k % nx, k / nx, 1.0);
        }
        a.set_row_sums(|k| if land(k) { 1.0 } else { 0.0 });
        for threads in [1, 2, 5] {
            let solver = Solver::of(&a, &format!("backend=cpu threads={threads}"));
            assert!(solver.int(key::INFO_SINGULAR_COMPONENTS) > 0);
            let bytes = solver.int(key::INFO_BYTES_HOST);
            let taken = calls(|| {
                for _ in 0..3 {
                    solver.factorize(&a).unwrap();
                }
            });
            assert_eq!(taken, 0, "refactorizing took memory: {nx} x {ny}, {threads} threads");
            assert_eq!(solver.int(key::INFO_BYTES_HOST), bytes);
        }
    }
}

/// Alternating closed and open basins, as behind a dam. The memory for singular systems is kept. If these have another
/// format or cycle, the memory of both is kept.
fn alternating_matrices_allocate_nothing() {
    for (nx, ny) in [(70, 45), (130, 90), (170, 130)] {
        let closed = neumann_const(nx, ny);
        let mut open = closed.clone();
        open.set_row_sums(|k| if k % 100 == 0 { 1.0 } else { 0.0 });
        let b = random_rhs(nx * ny, 3);
        let mut x = vec![0.0; nx * ny];
        for options in [
            "",
            "precision=f64",
            "precision=f32",
            "precision=f64 fusion=off",
            "precision=bf16 cycle=amli",
            "precision=mixed",
            "precision=mixed cycle=amli cycle_spacing=2",
        ] {
            for threads in [1, 3] {
                let solver = Solver::of(&closed, &format!("backend=cpu threads={threads} {options}"));
                solver.factorize(&open).unwrap();
                solver.factorize(&closed).unwrap();
                let bytes = solver.int(key::INFO_BYTES_HOST);
                let taken = calls(|| {
                    for a in [&open, &closed, &open, &closed] {
                        solver.factorize(a).unwrap();
                        assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
                    }
                });
                assert_eq!((taken, solver.int(key::INFO_BYTES_HOST)), (0, bytes), "{nx} x {ny} {options} {threads}");
            }
        }
    }
}

/// The new values also change the eigenvalue bounds of the recursions.
fn refactorizing_in_every_format_allocates_nothing() {
    // The grid is so large that estimates select the cycle.
    let (nx, ny) = (150, 110);
    let b = random_rhs(nx * ny, 3);
    for nine_point in [false, true] {
        let matrices = [0, 1, 2].map(|seed| random_m_matrix(nx, ny, nine_point, seed));
        for (precision, cycle) in formats().chain(PRECISIONS.map(|precision| (precision, "auto"))) {
            for threads in [1, 3] {
                let options = format!("threads={threads} precision={precision} cycle={cycle} cycle_spacing=2");
                let solver = Solver::of(&matrices[0], &format!("backend=cpu {options}"));
                let (mut x, bytes) = (vec![0.0; nx * ny], solver.int(key::INFO_BYTES_HOST));
                let taken = calls(|| {
                    for a in matrices.iter().rev() {
                        solver.factorize(a).unwrap();
                        assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
                    }
                });
                assert_eq!((taken, solver.int(key::INFO_BYTES_HOST)), (0, bytes), "{options}");
            }
        }
    }
}

/// The estimates select the V-cycle with the requested levels.
fn refactorizing_with_the_v_cycle_allocates_nothing() {
    let a = aniso(130, 10.0);
    for precision in PRECISIONS {
        let solver = Solver::of(&a, &format!("backend=cpu threads=1 precision={precision} levels=12"));
        assert_eq!(solver.int(key::INFO_CYCLE), 1, "v");
        let bytes = solver.int(key::INFO_BYTES_HOST);
        let taken = calls(|| assert_eq!(solver.factorize(&a), Ok(status::OK)));
        assert_eq!((taken, solver.int(key::INFO_BYTES_HOST)), (0, bytes), "{precision}");
    }
}

/// Matrices for which recursion pays alternate with others, with and without closed basins between them. Once `auto`
/// has switched to the V-cycle, which allocates memory that time, it keeps the V-cycle and its memory.
fn alternating_cycles_allocate_nothing() {
    let n = 130;
    let (mild, stretched, closed) = (poisson(n, n), aniso(n + 1, 10.0), neumann_const(n, n));
    for precision in PRECISIONS.into_iter().chain(["auto"]) {
        for threads in [1, 3] {
            for turns in [&[&mild, &stretched][..], &[&stretched, &mild], &[&mild, &closed, &stretched]] {
                let solver = Solver::of(turns[0], &format!("backend=cpu threads={threads} precision={precision}"));
                // There is a second round, because regular and closed matrices may end with different cycles.
                for a in turns[1..].iter().chain(turns) {
                    solver.factorize(a).unwrap();
                }
                let bytes = solver.int(key::INFO_BYTES_HOST);
                let taken = calls(|| {
                    for a in turns.iter().chain(turns) {
                        solver.factorize(a).unwrap();
                        // `auto` selects the cycle for closed matrices separately.
                        let cycle = if std::ptr::eq(*a, &raw const closed) { 2 } else { 1 };
                        assert_eq!(solver.int(key::INFO_CYCLE), cycle, "v, amli");
                    }
                });
                assert_eq!((taken, solver.int(key::INFO_BYTES_HOST)), (0, bytes), "{precision}, {threads} threads");
            }
        }
    }
}

/// Matrices for which levels are used alternate with others for which aggregation is used: the memory of the handle
/// does not grow.
fn alternating_levels_and_aggregation_needs_no_more_memory() {
    const ROUNDS: usize = 40;
    let (mild, strong) = (aniso(131, 10.0), aniso(131, 100.0));
    for threads in [1, 3] {
        let solver = Solver::of(&mild, &format!("backend=cpu threads={threads}"));
        let mut held = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            for (a, cycle) in [(&strong, 4), (&mild, 1)] {
                solver.factorize(a).unwrap();
                assert_eq!(solver.int(key::INFO_CYCLE), cycle);
            }
            held.push((solver.int(key::INFO_BYTES_HOST), live()));
        }
        assert!(held.iter().all(|of| of.0 == held[0].0), "{held:?}");
        // Successive arrays begin in different cache sets, so that equal arrays may differ by a page. The starts repeat
        // after eight rounds, and the largest value does not grow.
        let largest = |of: &[(i64, i64)]| of.iter().map(|of| of.1).max();
        assert!(largest(&held[ROUNDS / 2..]) <= largest(&held[..ROUNDS / 2]), "{held:?}");
    }
}

/// A grid whose arrays are mapped individually (1 MiB per colour).
fn large_blocks_are_kept() {
    let (nx, ny) = (800, 700);
    let matrices = [0, 1].map(|seed| random_m_matrix(nx, ny, false, seed));
    let b = random_rhs(nx * ny, 3);
    let mut x = vec![0.0; nx * ny];
    for options in ["precision=f64 cycle=v", "precision=bf16 cycle=amli", "precision=mixed"] {
        let solver = Solver::new(nx, ny, &format!("backend=cpu threads=2 {options}"));
        let before = live();
        solver.factorize(&matrices[0]).unwrap();
        let (held, said) = (live() - before, solver.int(key::INFO_BYTES_HOST));
        // The tolerance covers the rounding of about fifty arrays to whole pages, and the pages of the threads.
        assert!((said - held).abs() <= 500_000 + held / 50, "{options}: {said} said, {held} held");
        let taken = calls(|| {
            for a in matrices.iter().rev() {
                solver.factorize(a).unwrap();
                assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
            }
        });
        assert_eq!((taken, live() - before), (0, held), "{options}");
    }
}

fn smoothing_allocates_nothing() {
    // 27 patches with remainders next to blocks of 8, whose sizes are not multiples of each other.
    let sides = [11, 8, 19];
    let corner = |q: usize| sides[..q].iter().sum::<i64>();
    let patches: Vec<_> =
        (0..27).map(|p| [p % 3, p / 3 % 3, p / 9]).map(|q| (q.map(corner), q.map(|q| sides[q]))).collect();
    let mut level = Level::new(&patches);
    for (name, block_solver) in [("poisson7", "fast_diagonalization"), ("poisson7", "dense"), ("mixed27", "dense")] {
        for method in ["coloured_gauss_seidel", "block_jacobi", "chaotic_gauss_seidel"] {
            for parallel in ["patch", "block", "nested"] {
                for threads in [1, 3] {
                    let options = format!(
                        "backend=cpu threads={threads} method={method} parallel={parallel} block_solver={block_solver}"
                    );
                    let smoother = Smoother::of(&stencil(name), [8; 3], &options, &level);
                    // SAFETY: a live handle.
                    outcome(unsafe { smoother_set_monitor(smoother.handle, Some(monitor), null_mut()) }).unwrap();
                    level.random(1);
                    let (u, f) = (level.u_table(), level.f_table());
                    let (mut norm, mut results) = (0.0, [-1; 4]);
                    // The first call counts too.
                    let taken = calls(|| {
                        // SAFETY: a live handle, and arrays of its patches' sizes.
                        results = unsafe {
                            [
                                smoother_apply(smoother.handle, u.as_ptr(), f.as_ptr(), 3),
                                smoother_exchange(smoother.handle, u.as_ptr()),
                                smoother_residual(smoother.handle, u.as_ptr(), f.as_ptr(), null(), &mut norm),
                                smoother_apply(smoother.handle, u.as_ptr(), f.as_ptr(), 1),
                            ]
                        };
                    });
                    assert_eq!((results, taken), ([status::OK; 4], 0), "{name} {options}");
                }
            }
        }
    }
}

/// `bytes_host` is the memory of the handle, which is a small multiple of the matrix.
fn bytes_host_is_the_allocated_memory() {
    let (nx, ny) = (512, 511);
    // Values per node, with 10 % for the border: A has 3 (9 points: 5); b, x, r, p, q on half or all of the grid have 3
    // (5). Each grid of M has about 8 (10); the sum 1 + 1/4 + 1/16 + ... multiplies them by 4/3.
    for (nine_point, cpu_most) in [(false, 20.0), (true, 27.0)] {
        let a = random_m_matrix(nx, ny, nine_point, 1);
        // The reference backend stores every level on a whole grid.
        for (backend, most) in [("reference", 40.0), ("cpu threads=2", cpu_most)] {
            let before = live();
            let solver = Solver::of(&a, &format!("backend={backend}"));
            let held = live() - before;
            let said = solver.int(key::INFO_BYTES_HOST);
            // Options, history (max_iter 1000) and strings do not grow with the grid: below 100 kB.
            assert!((said - held).abs() <= 100_000 + held / 50, "{backend}: {said} said, {held} held");
            let words = held as f64 / (8 * nx * ny) as f64;
            assert!(words < most, "{backend}: {words} values a node");
        }
    }
}
