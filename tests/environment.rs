//! Interaction of the library with its process: environment variables, output, memory limits, fork, signals. Each test
//! runs its body in a child process, so that other tests do not interfere.

mod common;
#[path = "dpcg/environment.rs"]
mod of_dpcg;

use common::problems::{Stencil, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::Output;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines that the log callback of a test received.
#[derive(Default)]
struct Lines(Vec<(i32, String)>);

unsafe extern "C-unwind" fn listen(user: *mut c_void, level: i32, message: *const c_char) {
    // SAFETY: the tests pass `Lines` that outlive the library's use of them, and the library passes text.
    let (lines, text) = unsafe { (&mut *user.cast::<Lines>(), CStr::from_ptr(message)) };
    lines.0.push((level, text.to_str().expect("UTF-8").to_owned()));
}

fn listen_with(lines: &mut Lines) {
    assert_eq!(rrbsolver_set_log(Some(listen), user(lines)), status::OK);
}

/// The environment must not change the layout of arrays: a wrong leading dimension would read beyond them.
#[test]
fn the_environment_cannot_reshape_arrays() {
    let text = "leading_dimension=100000 memory=device max_iter=77";
    if child("the_environment_cannot_reshape_arrays", &[("RRBSOLVER_OPTIONS", text)]).is_some() {
        return;
    }
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let a = poisson(20, 20);
    let solver = Solver::of(&a, "");
    let said = |word: &str| lines.0.iter().any(|(_, line)| line.contains(word));
    assert!(said("leading_dimension") && said("memory"), "{:?}", lines.0);
    assert_eq!((solver.int(key::LEADING_DIMENSION), solver.int(key::MAX_ITER)), (0, 77));
    assert_eq!(solver.solve_from_zero(&random_rhs(400, 1)).1, status::OK);
}

/// Ignored couplings that point out of the grid are logged once per handle, but not without the input check.
#[test]
fn outward_couplings_are_logged_once() {
    if child("outward_couplings_are_logged_once", &[]).is_some() {
        return;
    }
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let mut a = poisson(30, 20);
    (0..20).for_each(|j| a.east[30 * j + 29] = -1.0);
    a.north[30 * 19 + 4] = -1.0;
    for (check, expected) in [(1, 1), (0, 0)] {
        lines.0.clear();
        for backend in ["cpu", "reference"] {
            let solver = Solver::new(30, 20, &format!("backend={backend} check_input={check}"));
            (0..3).for_each(|_| assert!(solver.factorize(&a).is_ok()));
            assert_eq!(solver.solve_from_zero(&random_rhs(600, 1)).1, status::OK);
        }
        let message = "rrb: east has 20 entries, north has 1 entry that point out of the grid; they are \
                       ignored: is the grid periodic?";
        assert_eq!(lines.0, vec![(0, message.to_owned()); 2 * expected]);
    }
    assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
}

/// `RRBSOLVER_OPTIONS` takes precedence over every set call. Invalid entries are logged and ignored.
#[test]
fn options_of_the_environment() {
    let text = "max_iter=3 levls=9 rel_tol=7, levels=2 method=block_jacobi stagger=1 broken";
    if child("options_of_the_environment", &[("RRBSOLVER_OPTIONS", text)]).is_some() {
        return;
    }
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let solver = Solver::try_new(40, 40).expect("bad entries fail no call");
    assert_eq!((solver.int(key::MAX_ITER), solver.int(key::LEVELS), solver.real(key::REL_TOL)), (3, 2, 1e-6));
    let said = |word: &str| lines.0.iter().any(|(_, line)| line.contains("RRBSOLVER_OPTIONS") && line.contains(word));
    assert!(said("levls") && said("did you mean 'levels'") && said("rel_tol") && said("broken"), "{:?}", lines.0);
    assert!(!said("method") && !said("stagger"), "keys of other families are skipped: {:?}", lines.0);
    solver.set_int(key::MAX_ITER, 50).unwrap();
    solver.options("max_iter=60 rel_tol=1e-9").unwrap();
    assert_eq!((solver.int(key::MAX_ITER), solver.real(key::REL_TOL)), (3, 1e-9), "the environment wins");
    // A wrong value is still an error.
    solver.set_int(key::MAX_ITER, -1).unwrap_err().expect(status::ARGUMENT, &["max_iter"]);
    let a = poisson(40, 40);
    solver.options("levels=4").unwrap();
    solver.factorize(&a).unwrap();
    assert_eq!(solver.int(key::INFO_LEVELS), 2);
    let b = random_rhs(1600, 1);
    let (_, result) = solver.solve_from_zero(&b);
    assert_eq!((result, solver.iterations()), (status::NOT_CONVERGED, 3));
    // The options also apply to programs that call rrb_solve_once.
    let (mut x, mut iterations) = (vec![0.0; 1600], 0);
    let null = std::ptr::null();
    // SAFETY: arrays of 40 x 40 values.
    let result = unsafe {
        rrb_solve_once(
            40,
            40,
            a.center.as_ptr(),
            a.east.as_ptr(),
            a.north.as_ptr(),
            null,
            null,
            b.as_ptr(),
            x.as_mut_ptr(),
            1e-12,
            500,
            &mut iterations,
        )
    };
    assert_eq!((result, iterations), (status::NOT_CONVERGED, 3));
    assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
}

/// The environment can enable logging for a program without log calls.
#[test]
fn the_environment_can_enable_the_log() {
    let test = "the_environment_can_enable_the_log";
    if let Some(output) = child(test, &[("RRBSOLVER_OPTIONS", "verbosity=1 log=stderr")]) {
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 2, "a line a solve: {said}");
        assert!(said.contains("40") && said.contains("iterations"), "{said}");
        assert_eq!(own_lines(&output), [""; 0]);
        return;
    }
    let solver = Solver::of(&poisson(40, 40), "");
    solver.solve_from_zero(&random_rhs(1600, 1));
    solver.solve_from_zero(&random_rhs(1600, 2));
}

/// threads = 0 uses RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK or OMP_NUM_THREADS, in this order; threads = n overrides
/// all.
#[test]
fn number_of_threads() {
    let test = "number_of_threads";
    let (library, slurm, openmp) = ("RRBSOLVER_NUM_THREADS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS");
    let cases: [&[(&str, &str)]; 6] = [
        &[(library, "3"), (slurm, "2"), (openmp, "1"), ("EXPECTED", "3")],
        &[(slurm, "2"), (openmp, "1"), ("EXPECTED", "2")],
        &[(openmp, "1"), ("EXPECTED", "1")],
        &[(openmp, "2,4"), ("EXPECTED", "2")],
        &[(library, "none"), (openmp, "2"), ("EXPECTED", "2")],
        &[("EXPECTED", "0")],
    ];
    if child(test, cases[0]).is_some() {
        cases[1..].iter().for_each(|variables| drop(child(test, variables)));
        return;
    }
    let a = poisson(200, 200);
    let expected: i64 = std::env::var("EXPECTED").unwrap().parse().unwrap();
    let used = Solver::of(&a, "backend=cpu").int(key::INFO_THREADS);
    // Without variables, the number of cores that the process may use.
    let expected = if expected == 0 { std::thread::available_parallelism().unwrap().get() as i64 } else { expected };
    assert_eq!(used, expected);
    assert_eq!(Solver::of(&a, "backend=cpu threads=5").int(key::INFO_THREADS), 5);
}

/// The loops of all instruction sets are bitwise identical. An unknown name selects the best instruction set.
#[test]
fn instruction_sets_agree() {
    let test = "instruction_sets_agree";
    if std::env::var(CHILD).is_err() {
        let said = ["portable", "avx2", "avx512", "unheard-of"].map(|isa| {
            let output = child(test, &[("RRBSOLVER_ISA", isa)]).expect("this is the parent");
            own_lines(&output)
        });
        assert_eq!(said[0].len(), 3 * (4 + formats().count()));
        said.iter().for_each(|lines| assert_eq!(lines, &said[0]));
        return;
    }
    for a in [random_m_matrix(133, 97, false, 1), random_m_matrix(133, 97, true, 1), neumann_const(133, 97)] {
        let mut all = ["", "fusion=off", "norm=preconditioned", "lumping=m2u"].map(str::to_owned).to_vec();
        all.extend(formats().map(|(precision, cycle)| format!("precision={precision} cycle={cycle} cycle_spacing=2")));
        for options in all {
            let run = run(&a, &random_rhs(a.len(), 1), &format!("backend=cpu threads=2 {options}"));
            let hash = run.x.iter().fold(0u64, |h, v| h.rotate_left(5).wrapping_mul(0x9e37_79b9) ^ v.to_bits());
            println!("{} {hash:x} {:x}", run.iterations, run.lambda_max.to_bits());
        }
    }
}

/// Unusable values of other variables are logged once per handle of each family, and ignored.
#[test]
fn ignored_values_are_logged() {
    let test = "ignored_values_are_logged";
    let cases: [&[(&str, &str)]; 2] = [
        &[("RRBSOLVER_ISA", "avx1024"), ("RRBSOLVER_NUM_THREADS", "many"), ("EXPECTED", "2")],
        &[("RRBSOLVER_ISA", "portable"), ("RRBSOLVER_NUM_THREADS", "2"), ("EXPECTED", "0")],
    ];
    if child(test, cases[0]).is_some() {
        drop(child(test, cases[1]));
        return;
    }
    let expected: usize = std::env::var("EXPECTED").unwrap().parse().unwrap();
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let solver = Solver::of(&poisson(20, 20), "max_iter=50");
    assert_eq!(lines.0.len(), expected, "{:?}", lines.0);
    let level = smoother::Level::cube(4);
    drop(smoother::Smoother::of(&smoother::stencil("poisson7"), [4; 3], "omega=0.9", &level));
    assert_eq!(lines.0.len(), 2 * expected, "{:?}", lines.0);
    if let [(0, set), (0, threads), ..] = &lines.0[..] {
        assert!(set.contains("RRBSOLVER_ISA: unknown instruction set 'avx1024'") && set.contains("portable"), "{set}");
        assert!(threads.contains("RRBSOLVER_NUM_THREADS") && threads.contains("'many'"), "{threads}");
    }
    assert_eq!(solver.solve_from_zero(&random_rhs(400, 1)).1, status::OK);
}

/// Values that are not UTF-8 are ignored with a warning. A call with such a text is an error, so that no log goes to a
/// similar path.
#[test]
fn values_that_are_not_utf8_are_logged() {
    if child("values_that_are_not_utf8_are_logged", &[]).is_some() {
        return;
    }
    let names = ["RRBSOLVER_OPTIONS", "RRBSOLVER_ISA", "RRBSOLVER_NUM_THREADS"];
    for name in names {
        // SAFETY: this process has no other thread that reads or writes the environment.
        unsafe { std::env::set_var(name, OsStr::from_bytes(b"rel_tol=1e-3 log=\xff")) };
    }
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let solver = Solver::try_new(20, 20).expect("bad values fail no call");
    assert_eq!(solver.real(key::REL_TOL), 1e-6);
    assert_eq!(lines.0.len(), names.len(), "{:?}", lines.0);
    for (name, (level, line)) in names.iter().zip(&lines.0) {
        assert!(*level == 0 && line.starts_with(&format!("{name} is not UTF-8 and is ignored")), "{line}");
    }
    let text = c"rel_tol=1e-3 log=\xff";
    // SAFETY: a live handle and a NUL-terminated string.
    let result = outcome(unsafe { rrb_set_options(solver.handle, text.as_ptr()) });
    result.unwrap_err().expect(status::ARGUMENT, &["text must be UTF-8", "rel_tol=1e-3"]);
    assert_eq!(solver.real(key::REL_TOL), 1e-6, "nothing was set");
    // A UTF-8 path is accepted, also in the environment.
    let file = std::env::temp_dir().join(format!("rrbsolver-log-é-{}", std::process::id()));
    // SAFETY: as above.
    unsafe { std::env::set_var(names[0], format!("verbosity=1 log={}", file.display())) };
    Solver::of(&poisson(20, 20), "").solve_from_zero(&random_rhs(400, 1));
    assert!(std::fs::read_to_string(&file).expect("the log is there").contains("iterations"));
    std::fs::remove_file(&file).expect("it is a file");
}

unsafe extern "C-unwind" fn panicking_monitor(_: *mut c_void, _: i64, _: f64) -> i32 {
    panic!("the monitor of a test gives up")
}

unsafe extern "C-unwind" fn panicking_log(_: *mut c_void, _: i32, _: *const c_char) {
    panic!("the log of a test gives up")
}

/// By default, the library prints nothing, neither for errors nor for panics inside its entry points.
#[test]
fn silence() {
    if let Some(output) = child("silence", &[]) {
        assert_eq!(own_lines(&output), [""; 0]);
        assert_eq!(stderr(&output), "");
        return;
    }
    let a = poisson(30, 30);
    let b = random_rhs(900, 1);
    for backend in ["reference", "cpu threads=3"] {
        let solver = Solver::of(&a, &format!("backend={backend} verbosity=2"));
        solver.solve_from_zero(&b);
        solver.options("nonsense=1").unwrap_err();
        solver.factorize(&Stencil::constant(30, 30, 1.0, -1.0, -1.0, None)).unwrap_err();
        solver.solve(&b, &mut vec![0.0; 900]).unwrap_err();
        solver.factorize(&a).unwrap();
        // SAFETY: a live handle.
        outcome(unsafe { rrb_set_monitor(solver.handle, Some(panicking_monitor), null_mut()) }).unwrap();
        solver.solve(&b, &mut vec![0.0; 900]).unwrap_err().expect(status::INTERNAL, &["gives up"]);
        // SAFETY: a live handle.
        outcome(unsafe { rrb_set_monitor(solver.handle, None, null_mut()) }).unwrap();
        assert_eq!(rrbsolver_set_log(Some(panicking_log), null_mut()), status::OK);
        assert_eq!(solver.solve_from_zero(&b).1, status::OK, "a failing log fails no solve");
        assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
    }
}

/// A panic of the host is printed as without the library.
#[test]
fn panics_of_the_host_are_its_own() {
    if let Some(output) = child("panics_of_the_host_are_its_own", &[]) {
        assert!(stderr(&output).contains("the host panics"), "{}", stderr(&output));
        return;
    }
    Solver::of(&poisson(30, 30), "backend=cpu threads=2").solve_from_zero(&random_rhs(900, 1));
    std::panic::catch_unwind(|| panic!("the host panics")).unwrap_err();
}

/// With verbosity 1, the log has one line per solve, with 2 also one line per iteration. The target is the callback,
/// stderr, or a file.
#[test]
fn log_lines() {
    let path = std::env::temp_dir().join(format!("rrbsolver log test {}", std::process::id()));
    let file = std::env::var("LOG_FILE").unwrap_or_else(|_| path.to_str().expect("UTF-8").replace(' ', "-"));
    if let Some(output) = child("log_lines", &[("LOG_FILE", &file)]) {
        let iterations = stderr(&output).lines().filter(|l| l.contains("iteration ")).count();
        assert!(iterations > 3, "log=stderr: {}", stderr(&output));
        assert_eq!(own_lines(&output), [""; 0]);
        std::fs::remove_file(&file).expect("the file of the log was made");
        return;
    }
    let a = poisson(30, 30);
    let b = random_rhs(900, 1);
    let mut lines = Lines::default();
    listen_with(&mut lines);
    let solver = Solver::of(&a, "");
    solver.solve_from_zero(&b);
    assert!(lines.0.is_empty(), "verbosity 0: {:?}", lines.0);
    solver.options("verbosity=1").unwrap();
    solver.solve_from_zero(&b);
    assert_eq!(lines.0.len(), 1, "{:?}", lines.0);
    let (level, line) = &lines.0[0];
    assert!(*level == 1 && line.contains(&format!("{} iterations", solver.iterations())), "{line}");
    // The line contains the choices of auto.
    assert!(line.contains("f64 v"), "{line}");
    lines.0.clear();
    solver.options("verbosity=2").unwrap();
    solver.solve_from_zero(&b);
    let per_iteration = lines.0.iter().filter(|(level, _)| *level == 2).count();
    assert_eq!((per_iteration, lines.0.len()), (solver.iterations() + 1, solver.iterations() + 2));

    // With another target, the callback receives no further lines.
    lines.0.clear();
    solver.options("log=stderr").unwrap();
    solver.solve_from_zero(&b);
    std::fs::write(&file, "what was there\n").unwrap();
    solver.options(&format!("log={file}")).unwrap();
    solver.solve_from_zero(&b);
    assert!(lines.0.is_empty());
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("what was there\n"), "lines are appended");
    assert_eq!(written.lines().count(), solver.iterations() + 3);
    let failure = solver.options("log=/nowhere/at/all/log.txt rel_tol=1e-3").unwrap_err();
    failure.expect(-50, &["/nowhere/at/all/log.txt"]);
    assert_eq!(solver.real(key::REL_TOL), 1e-6, "nothing was set");
    solver.options("log=callback").unwrap();
    solver.solve_from_zero(&b);
    assert!(!lines.0.is_empty());
    assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
}

/// A log function that solves with another handle, whose log line would call the function recursively.
struct Nested {
    solver: Solver,
    b: Vec<f64>,
    depth: usize,
    deepest: usize,
    calls: usize,
}

unsafe extern "C-unwind" fn solve_and_listen(given: *mut c_void, _: i32, _: *const c_char) {
    let nested = given.cast::<Nested>();
    // SAFETY: the test passes a `Nested` that outlives its use by the library; no reference exists during the solve.
    unsafe {
        (*nested).calls += 1;
        (*nested).depth += 1;
        (*nested).deepest = (*nested).deepest.max((*nested).depth);
        if (*nested).depth < 5 {
            let (handle, b) = ((*nested).solver.handle, (*nested).b.as_ptr());
            let mut x = vec![0.0; (*nested).b.len()];
            assert_eq!(rrb_solve(handle, b, x.as_mut_ptr()), status::OK);
            // This call must not wait for the end of the log function that makes it.
            assert_eq!(rrbsolver_set_log(Some(solve_and_listen), given), status::OK);
        }
        (*nested).depth -= 1;
    }
}

/// The log function is never called recursively on a thread.
#[test]
fn a_log_function_that_solves() {
    if child("a_log_function_that_solves", &[]).is_some() {
        return;
    }
    let (a, b) = (poisson(30, 30), random_rhs(900, 1));
    let solver = Solver::of(&a, "verbosity=1");
    let mut nested = Nested { solver: Solver::of(&a, "verbosity=2"), b: b.clone(), depth: 0, deepest: 0, calls: 0 };
    assert_eq!(rrbsolver_set_log(Some(solve_and_listen), user(&mut nested)), status::OK);
    for _ in 0..2 {
        assert_eq!(solver.solve_from_zero(&b).1, status::OK);
    }
    assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
    assert_eq!((nested.deepest, nested.calls), (1, 2));
    assert!(nested.solver.iterations() > 0, "it did solve");
}

/// Observations of the log functions of two threads.
#[derive(Default)]
struct Seen {
    removed: AtomicBool,
    calls: AtomicUsize,
    late: AtomicUsize,
}

unsafe extern "C-unwind" fn listen_slowly(user: *mut c_void, _: i32, _: *const c_char) {
    // SAFETY: the test passes a `Seen` that outlives the threads.
    let seen = unsafe { &*user.cast::<Seen>() };
    std::thread::sleep(Duration::from_micros(200));
    seen.calls.fetch_add(1, Ordering::SeqCst);
    seen.late.fetch_add(usize::from(seen.removed.load(Ordering::SeqCst)), Ordering::SeqCst);
}

/// After `rrbsolver_set_log` has returned, no thread is inside the previous function or enters it. This also holds in a
/// child that was forked meanwhile, where the call does not wait for threads of the parent.
#[test]
fn the_log_is_replaced_while_others_solve() {
    if child("the_log_is_replaced_while_others_solve", &[]).is_some() {
        return;
    }
    let (a, b) = (poisson(30, 30), random_rhs(900, 1));
    let (stop, mut seen) = (AtomicBool::new(false), Seen::default());
    let given = user(&mut seen);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let solver = Solver::of(&a, "verbosity=2 threads=1");
                while !stop.load(Ordering::SeqCst) {
                    solver.solve_from_zero(&b);
                }
            });
        }
        for round in 0..100 {
            seen.removed.store(false, Ordering::SeqCst);
            assert_eq!(rrbsolver_set_log(Some(listen_slowly), given), status::OK);
            std::thread::sleep(Duration::from_millis(1));
            if round % 10 == 0 {
                in_a_fork(|| rrbsolver_set_log(None, null_mut()) == status::OK);
            }
            assert_eq!(rrbsolver_set_log(None, null_mut()), status::OK);
            seen.removed.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(seen.calls.load(Ordering::SeqCst) > 100, "threads were heard");
    assert_eq!(seen.late.load(Ordering::SeqCst), 0);
}

/// Runs `body` in a forked process. An alarm ends the process if it hangs.
fn in_a_fork(body: impl FnOnce() -> bool) {
    // SAFETY: the child ends with _exit.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(60);
            libc::_exit(i32::from(!body()));
        }
    }
    let mut how = 0;
    // SAFETY: `how` outlives the call.
    assert_eq!(unsafe { libc::waitpid(process, &mut how, 0) }, process);
    assert_eq!((libc::WIFEXITED(how), libc::WEXITSTATUS(how)), (true, 0));
}

/// Stack size that suffices for any call in optimized code. In debug builds, all temporaries have separate stack slots.
#[cfg(not(debug_assertions))]
const STACK: usize = 64 * 1024;

/// Programs with many threads or coroutines use small stacks. 64 KB suffice for every call.
#[cfg(not(debug_assertions))]
#[test]
fn small_stacks() {
    if child("small_stacks", &[]).is_some() {
        return;
    }
    let on_small_stack = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread").join().expect("it ends well");
    };
    let mut places =
        ["reference", "cpu threads=1", "cpu threads=3"].map(|backend| format!("backend={backend}")).to_vec();
    places.push("backend=cpu threads=1 fusion=off lumping=m2u".to_owned());
    let matrices = [
        random_m_matrix(150, 140, false, 1),
        random_m_matrix(150, 140, true, 1),
        neumann_const(150, 140),
        random_m_matrix(7, 3, true, 1),
    ];
    for (place, a) in places.iter().flat_map(|place| matrices.iter().map(move |a| (place, a))) {
        for (precision, cycle) in formats() {
            let (a, options) = (a.clone(), format!("{place} precision={precision} cycle={cycle} rel_tol=1e-2"));
            on_small_stack(Box::new(move || {
                let b = random_rhs(a.len(), 1);
                let solver = Solver::of(&a, &options);
                solver.solve_from_zero(&b);
                solver.apply(&b);
                solver.multiply(&b);
                solver.factorize(&a).expect("again");
                solver.options("nonsense=1").unwrap_err();
                solver.options("levels=4").unwrap();
                solver.factorize(&a).expect("with other levels");
                solver.solve_from_zero(&b);
            }));
        }
    }
    for (backend, method, more) in ["reference", "cpu threads=1", "cpu threads=3"]
        .iter()
        .flat_map(|b| ["coloured_gauss_seidel", "block_jacobi", "chaotic_gauss_seidel"].map(|m| (b, m)))
        .flat_map(|(b, m)| ["", "block_solver=dense", "stagger=1"].map(|more| (b, m, more)))
    {
        let options = format!("backend={backend} method={method} {more}");
        on_small_stack(Box::new(move || {
            for name in ["poisson7", "fe27"] {
                let mut level = smoother::Level::cut_cube(24, 2);
                level.random(1);
                let smoother = smoother::Smoother::of(&smoother::stencil(name), [8; 3], &options, &level);
                smoother.apply(&mut level, 2).unwrap();
                smoother.exchange(&mut level);
                smoother.norm(&mut level);
            }
        }));
    }
}

/// Limits the address space of this process to `more` bytes beyond the present size; None restores the previous limit.
fn limit_memory(more: Option<u64>) {
    let pages: u64 = {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        limit.rlim_cur = more.map_or(limit.rlim_max, |more| pages * 4096 + more);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
    }
}

/// Exhausted memory at any point is reported as a status. The handle survives, and can factorize when memory is
/// available again.
#[test]
fn out_of_memory() {
    if child("out_of_memory", &[]).is_some() {
        return;
    }
    let n = 900;
    let a = random_m_matrix(n, n, true, 1);
    let b = random_rhs(n * n, 1);
    let bystander = Solver::of(&poisson(20, 20), "backend=cpu threads=2");
    for backend in ["backend=reference", "backend=cpu threads=2"] {
        let survivor = Solver::new(n, n, backend);
        let (mut refused, mut done) = (0, 0);
        for megabytes in (2..700).step_by(6) {
            let fresh = Solver::new(n, n, backend);
            limit_memory(Some(megabytes << 20));
            let results = [fresh.factorize(&a), survivor.factorize(&a)];
            limit_memory(None);
            for result in results {
                match result {
                    Ok(_) => done += 1,
                    Err(failure) => {
                        failure.expect(status::MEMORY, &["failed to "]);
                        refused += 1;
                    }
                }
            }
            if done > 2 {
                break;
            }
            let solved = bystander.solve_from_zero(&random_rhs(400, 1));
            assert_eq!(solved.1, status::OK);
        }
        assert!(refused > 3 && done > 0, "{backend}: {refused} refused, {done} done");
        survivor.factorize(&a).expect("memory is there again");
        assert_eq!(survivor.solve_from_zero(&b).1, status::OK);
    }
}

/// After a fork, a handle works or returns an error, but never hangs. A new handle works.
#[test]
fn fork() {
    if child("fork", &[]).is_some() {
        return;
    }
    // One thread, and a pool that sleeps in the parent and does not exist in the child.
    for (nx, ny, threads) in [(60, 60, 1), (130, 90, 3)] {
        let a = poisson(nx, ny);
        let b = random_rhs(nx * ny, 1);
        let solver = Solver::of(&a, "backend=cpu threads=3");
        assert_eq!(solver.int(key::INFO_THREADS), threads);
        fork_with(solver, &a, &b);
    }
}

fn fork_with(solver: Solver, a: &Stencil, b: &[f64]) {
    let (expected, _) = solver.solve_from_zero(b);
    in_a_fork(|| {
        let mut x = vec![0.0; b.len()];
        let known = match solver.solve(b, &mut x) {
            Ok(_) => x == expected,
            Err(failure) => failure.status == status::UNSUPPORTED && failure.message.contains("fork"),
        };
        let mut handle = solver.handle;
        // SAFETY: the child ends with _exit, so `solver` itself is not dropped there.
        let destroyed = unsafe { rrb_destroy(&mut handle) } == status::OK;
        let fresh = Solver::of(a, "backend=cpu threads=3");
        known && destroyed && fresh.solve_from_zero(b).0 == expected
    });
    assert_eq!(solver.solve_from_zero(b).0, expected, "the parent goes on");
}

/// The library installs no signal handler, and the floating-point mode of the caller is unchanged.
#[test]
fn signals_and_floating_point_mode() {
    if child("signals_and_floating_point_mode", &[]).is_some() {
        return;
    }
    let handlers = || -> Vec<usize> {
        (1..32)
            .map(|signal| {
                // SAFETY: a null action only reads into `old`, which outlives the call.
                unsafe {
                    let mut old: libc::sigaction = std::mem::zeroed();
                    libc::sigaction(signal, std::ptr::null(), &mut old);
                    old.sa_sigaction
                }
            })
            .collect()
    };
    let before = (handlers(), float_mode());
    for a in [poisson(200, 150), neumann_const(200, 150)] {
        for backend in ["reference", "cpu threads=3"] {
            Solver::of(&a, &format!("backend={backend}")).solve_from_zero(&random_rhs(30_000, 1));
        }
    }
    assert_eq!((handlers(), float_mode()), before);
}

/// Returns the control bits of the SSE unit: rounding, masks, flush to zero.
#[cfg(target_arch = "x86_64")]
fn float_mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: stmxcsr writes four bytes.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mode) };
    mode & !0x3f
}

/// Returns the control bits of the floating-point unit.
#[cfg(target_arch = "aarch64")]
fn float_mode() -> u64 {
    let mode: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) mode) };
    mode
}
