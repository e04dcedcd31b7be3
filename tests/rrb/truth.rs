//! Random systems: every status, residual and error message of `rrb_solve` is compared with a computation in twice the
//! working precision. tests/problems/src/cases.rs generates the systems, tests/rrb/judge.rs judges the results.
//!
//! | variable | meaning, default |
//! |---|---|
//! | `RRBSOLVER_TRUTH_CASES` | number of cases, 20000 |
//! | `RRBSOLVER_TRUTH_SEED` | seed of the sequence, 1 |
//! | `RRBSOLVER_TRUTH_BACKEND` | cpu, cuda, or emulated (cuda on small grids) |
//! | `RRBSOLVER_TRUTH_CASE` | number of a single case, which is described in full |
//! | `RRBSOLVER_TRUTH_SHOW` | number of failing cases that are shown, 20 |

#[path = "../common/mod.rs"]
mod common;
#[path = "judge.rs"]
mod judge;

use common::problems::Stencil;
use common::problems::cases::{self, BRANCHES, Case, JUNK, Restart};
use common::truth::{Cases, variable};
use common::{Failure, Solver, bits, key, outcome, padded, rrb_set_monitor, status, unpadded};
use judge::{Judge, Reported, SMALL_ROW_SUMS, Verdict};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

/// Smallest share of each branch: 200 of 20,000 cases.
const SHARE: f64 = 0.01;

/// Calls of the monitor, and the iteration at which it stops.
struct Watch {
    seen: Vec<f64>,
    in_order: bool,
    stop_at: Option<i64>,
    stopped: bool,
}

unsafe extern "C-unwind" fn watch(user: *mut c_void, iteration: i64, residual: f64) -> i32 {
    // SAFETY: the `Watch` that was passed to set_monitor outlives the solve.
    let watch = unsafe { &mut *user.cast::<Watch>() };
    watch.in_order &= iteration == watch.seen.len() as i64;
    watch.seen.push(residual);
    watch.stopped |= watch.stop_at.is_some_and(|at| iteration >= at);
    i32::from(watch.stopped)
}

fn factorize(solver: &Solver, a: &Stencil, ld: usize) -> Result<i32, Failure> {
    let wide = |v: &Vec<f64>| padded(v, a.nx, ld, JUNK);
    let corners = a.corners.as_ref().map(|(ne, nw)| (wide(ne), wide(nw)));
    let corners = corners.as_ref().map(|(ne, nw)| (&ne[..], &nw[..]));
    solver.factorize_arrays(&wide(&a.center), &wide(&a.east), &wide(&a.north), corners)
}

/// Solves the case from `x`, which holds the result of the call afterwards.
fn solve(solver: &Solver, case: &Case, x: &mut Vec<f64>, verdict: &mut Verdict) -> Result<i32, Failure> {
    let (nx, ld) = (case.a.nx, case.leading_dimension);
    let b = padded(&case.b, nx, ld, JUNK);
    let mut wide = padded(x, nx, ld, JUNK);
    let result = solver.solve(&b, &mut wide);
    *x = unpadded(&wide, nx, ld);
    if bits(&padded(x, nx, ld, JUNK)) != bits(&wide) {
        verdict.complain("padding of x written", 1.0, String::new());
    }
    result
}

/// Returns the guess of a solve that starts from the result of another solve.
fn start(solver: &Solver, case: &Case, verdict: &mut Verdict) -> Vec<f64> {
    let mut guess = case.guess.clone();
    if case.restart != Restart::No && !case.not_finite {
        let ended = solve(solver, case, &mut guess, verdict);
        if ended.is_ok() && case.restart == Restart::Near {
            guess.iter_mut().for_each(|x| *x *= 1.0 + 1e-8);
        }
    }
    guess
}

fn run(case: &Case, verdict: &mut Verdict) -> String {
    let (a, ld) = (&case.a, case.leading_dimension);
    let judge = Judge::new(case);
    let solver = Solver::new(a.nx, a.ny, &case.options);
    if let Some(earlier) = &case.earlier
        && factorize(&solver, earlier, ld).is_ok()
    {
        let _ = solve(&solver, case, &mut case.guess.clone(), verdict);
    }
    if let Err(failure) = factorize(&solver, a, ld) {
        judge.refused_matrix(&failure, verdict);
        return format!("factorize: {} {}", failure.status, kind(&failure.message));
    }
    if judge.must_be_unsupported() {
        let text = "null_space=constant, and a component is not singular, or what cycle=aggregation has not".to_owned();
        verdict.complain("accepted what is not offered", 1.0, text);
    }
    judge.counts(&solver, verdict);

    let guess = start(&solver, case, verdict);
    let mut seen = Watch { seen: Vec::new(), in_order: true, stop_at: case.stop_at, stopped: false };
    let user = std::ptr::from_mut(&mut seen).cast();
    // SAFETY: `seen` outlives the solves that follow.
    outcome(unsafe { rrb_set_monitor(solver.handle, Some(watch), user) }).expect("set_monitor");
    let cycle = solver.int(key::INFO_CYCLE);
    let mut x = guess.clone();
    let result = solve(&solver, case, &mut x, verdict);
    // SAFETY: a live handle.
    outcome(unsafe { rrb_set_monitor(solver.handle, None, null_mut()) }).expect("set_monitor");
    match result {
        Err(failure) => {
            judge.refused_solve(&failure, &guess, &x, verdict);
            format!("solve: {} {}", failure.status, kind(&failure.message))
        }
        Ok(status) => {
            let reported = Reported::of(&solver, status, cycle);
            check_watch(&solver, &seen, status, &reported, case.options.contains("backend=cuda"), verdict);
            judge.ended(&solver, &reported, &guess, &x, verdict);
            if variable("RRBSOLVER_TRUTH_CASE") == Some(case.number) {
                println!("{reported:?}\nhistory {:?}\nguess {:?}\nx {:?}", solver.history(), &guess, &x);
            }
            format!("solve: {status}, reason {}", reported.reason)
        }
    }
}

/// Checks that the monitor is called in order, receives the values of the history, and stops when it requests a stop.
fn check_watch(
    solver: &Solver,
    seen: &Watch,
    status: i32,
    reported: &Reported,
    on_device: bool,
    verdict: &mut Verdict,
) {
    if !seen.in_order {
        verdict.complain("monitor out of order", 1.0, format!("{} calls", seen.seen.len()));
    }
    let mut history = solver.history();
    if on_device && seen.stopped {
        // A device may have done more iterations before the stop of a monitor takes effect.
        history.truncate(seen.seen.len());
    }
    if reported.reason != judge::reason::ZERO_RHS && bits(&history) != bits(&seen.seen) {
        verdict.complain("history", 1.0, format!("history {history:?}, monitor {:?}", seen.seen));
    }
    if (status == status::STOPPED) && !seen.stopped {
        verdict.complain("stopped by nobody", 1.0, format!("{} calls", seen.seen.len()));
    }
}

/// Returns an error message without its numbers.
fn kind(message: &str) -> String {
    let words: Vec<&str> = message.split(' ').filter(|w| !w.contains(|c: char| c.is_ascii_digit())).collect();
    words.join(" ").chars().take(70).collect()
}

#[derive(Default)]
struct Summary {
    branches: BTreeMap<&'static str, usize>,
    endings: BTreeMap<String, usize>,
    notes: BTreeMap<String, usize>,
    /// For each class: the failing cases, each with its relative error.
    failures: BTreeMap<String, Vec<(u64, f64, String)>>,
    failing: BTreeMap<u64, String>,
}

fn describe(case: &Case) -> String {
    let judge = Judge::new(case);
    format!(
        "{} x {}: {}\n      {}\n      {}",
        case.a.nx,
        case.a.ny,
        case.options,
        case.branches.join(", "),
        judge.describe()
    )
}

fn add(summary: &mut Summary, case: &Case, ending: String, verdict: Verdict) {
    for &branch in &case.branches {
        *summary.branches.entry(branch).or_default() += 1;
    }
    *summary.endings.entry(ending).or_default() += 1;
    for note in verdict.notes {
        *summary.notes.entry(note).or_default() += 1;
    }
    if verdict.complaints.is_empty() {
        return;
    }
    let mut text = describe(case);
    for complaint in verdict.complaints {
        text += &format!("\n      {} ({:.3e}): {}", complaint.class, complaint.ratio, complaint.text);
        let of_class = summary.failures.entry(complaint.class).or_default();
        of_class.push((case.number, complaint.ratio, complaint.text));
    }
    summary.failing.insert(case.number, text);
}

impl Summary {
    fn print(&self, cases: u64) {
        println!("\n{cases} cases; branches:");
        for chunk in BRANCHES.chunks(3) {
            let cells = chunk.iter().map(|b| format!("{:32}{:6}  ", b, self.branches.get(b).copied().unwrap_or(0)));
            println!("  {}", cells.collect::<String>());
        }
        for (title, map) in [("endings", &self.endings), ("notes", &self.notes)] {
            println!("{title}:");
            map.iter().for_each(|(name, count)| println!("  {count:6}  {name}"));
        }
        println!("false reports, in {} cases:", self.failing.len());
        for (class, all) in &self.failures {
            let (number, worst, _) = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("one at least");
            let mut numbers: Vec<u64> = all.iter().map(|f| f.0).collect();
            numbers.sort_unstable();
            let first: Vec<String> = numbers.iter().take(6).map(u64::to_string).collect();
            println!("  {:6}  {class}: worst {worst:.3e} (case {number}); cases {}", all.len(), first.join(", "));
        }
        let show = variable("RRBSOLVER_TRUTH_SHOW").unwrap_or(20);
        for (number, text) in self.failing.iter().take(show) {
            println!("  case {number}, {text}");
        }
    }
}

#[test]
fn random_systems() {
    let all = Cases::of_environment(20_000);
    let (cases, alone) = (all.count, all.alone);
    let backend = std::env::var("RRBSOLVER_TRUTH_BACKEND").unwrap_or_else(|_| "cpu".to_owned());
    let summary = Mutex::new(Summary::default());
    all.each(|number| {
        let case = cases::make(all.seed, number, &backend);
        let mut verdict = Verdict::default();
        let ending = run(&case, &mut verdict);
        if alone.is_some() {
            let Case { a, b, .. } = &case;
            println!("{}\ncenter {:?}\neast {:?}\nnorth {:?}", describe(&case), a.center, a.east, a.north);
            println!("corners {:?}\nb {b:?}", a.corners);
        }
        add(&mut summary.lock().expect("no panic"), &case, ending, verdict);
    });
    let summary = summary.into_inner().expect("no panic");
    summary.print(if alone.is_some() { 1 } else { cases });
    if alone.is_none() && backend == "cpu" {
        let least = (SHARE * cases as f64) as usize;
        // A small number of cases need not cover all branches.
        let rare = |b: &&&str| cases >= 2000 && summary.branches.get(*b).copied().unwrap_or(0) < least;
        let missed: Vec<_> = BRANCHES.iter().filter(rare).collect();
        assert!(missed.is_empty(), "branches of fewer than {least} cases: {missed:?}");
        let found = summary.notes.get(SMALL_ROW_SUMS).copied().unwrap_or(0);
        assert!(cases < 2000 || found >= least, "{SMALL_ROW_SUMS}: {found} cases, least {least}");
    }
    let good: usize = summary.endings.iter().filter(|(e, _)| e.starts_with("solve: 0")).map(|(_, n)| n).sum();
    assert!(alone.is_some() || good as f64 > 0.6 * cases as f64, "{good} of {cases} cases converge");
    assert!(summary.failing.is_empty(), "{} cases have a false report", summary.failing.len());
}
