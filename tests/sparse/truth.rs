//! Random general matrices: every status, residual and product of `sparse_` is compared with a computation in twice the
//! working precision. tests/problems/src/cases/sparse.rs generates the cases, tests/sparse/judge.rs judges the results.
//! Each case runs with two numbers of threads, whose results must be bitwise identical.
//!
//! | variable | meaning, default |
//! |---|---|
//! | `RRBSOLVER_TRUTH_CASES` | number of cases, 2000 |
//! | `RRBSOLVER_TRUTH_SEED` | seed of the sequence, 1 |
//! | `RRBSOLVER_TRUTH_CASE` | number of a single case, which is described in full |
//! | `RRBSOLVER_TRUTH_BACKEND` | cpu, cuda, or emulated (cuda without the cases of many rows) |
//! | `RRBSOLVER_TRUTH_SHOW` | number of failing cases that are shown, 20 |

#[path = "../common/mod.rs"]
mod common;
#[path = "judge.rs"]
mod judge;

use common::problems::cases::sparse::{self, By, Case, FEATURES, KINDS};
use common::problems::sparse::Entry;
use common::sparse::{Solver, key};
use common::truth::{Cases, variable};
use common::{Failure, bits, last_error, status};
use judge::{Event, Judge, NUMBERS, vector};
use std::collections::BTreeMap;
use std::sync::Mutex;

fn create(case: &Case, entries: &[Entry]) -> Solver {
    let values: Vec<f64> = entries.iter().map(|entry| entry.2).collect();
    let (rows, cols) = (case.rows as i64, case.cols as i64);
    let pointers = |lines: usize, line: fn(&Entry) -> usize| -> Vec<i64> {
        (0..=lines).map(|k| entries.iter().filter(|entry| line(entry) < k).count() as i64).collect()
    };
    let narrow = |of: fn(&Entry) -> usize| -> Vec<i32> { entries.iter().map(|entry| of(entry) as i32).collect() };
    match case.by {
        By::Coo => Solver::coo(rows, cols, &narrow(|entry| entry.0), &narrow(|entry| entry.1), &values, 0),
        By::Csr => {
            let pointers: Vec<i32> = pointers(case.rows, |entry| entry.0).iter().map(|&p| p as i32).collect();
            Solver::csr(rows, cols, &pointers, &narrow(|entry| entry.1), &values, 0)
        }
        By::Csc => {
            let of_rows: Vec<i64> = entries.iter().map(|entry| entry.0 as i64).collect();
            Solver::csc(rows, cols, &pointers(case.cols, |entry| entry.1), &of_rows, &values, 0)
        }
    }
    .expect("create")
}

fn event(call: &'static str, result: Result<Vec<f64>, Failure>) -> Event {
    match result {
        Ok(values) => Event { call, bits: bits(&values), ..Event::default() },
        Err(failure) => Event::failure(call, &failure, &[]),
    }
}

fn solve(solver: &Solver, case: &Case) -> Event {
    let mut x = case.guess.clone();
    match solver.solve(&case.b, &mut x) {
        Err(failure) => Event::failure("solve", &failure, &x),
        Ok(status) => Event {
            call: "solve",
            status,
            message: if status == status::OK { String::new() } else { last_error() },
            bits: bits(&x),
            numbers: NUMBERS.map(|key| solver.int(key)),
            residuals: [key::INITIAL_RESIDUAL, key::FINAL_RESIDUAL].map(|key| solver.real(key).to_bits()),
            history: solver.history_length(),
        },
    }
}

/// Computes products, factorizes, applies the preconditioner, and solves.
fn use_matrix(solver: &Solver, case: &Case, events: &mut Vec<Event>) {
    for (call, transposed) in [("multiply", false), ("multiply_transposed", true)] {
        events.push(event(call, solver.product(&vector(case, transposed), transposed)));
    }
    let factorized = solver.factorize().map(|_| Vec::new());
    let fits = factorized.is_ok();
    events.push(event("factorize", factorized));
    if fits {
        events.push(event("apply", solver.apply(&vector(case, false))));
        events.push(solve(solver, case));
    }
}

/// Returns the entries with the other values of the case.
fn replaced(case: &Case, other: &[f64]) -> Vec<Entry> {
    case.entries.iter().zip(other).map(|(&(i, j, _), &value)| (i, j, value)).collect()
}

/// Runs all calls of a case. Returns the events for the first values and for the other values, and whether the last
/// factorization reused aggregates.
fn run(case: &Case, threads: usize) -> Result<([Vec<Event>; 2], bool), String> {
    let solver = create(case, &case.entries);
    solver.options(&format!("{} threads={threads}", case.options)).expect("options");
    let mut events = [Vec::new(), Vec::new()];
    use_matrix(&solver, case, &mut events[0]);
    if let Some(other) = &case.other {
        solver.set_values(other).expect("set_values");
        let mut x = case.guess.clone();
        if case.rows == case.cols
            && solver.solve(&case.b, &mut x).map_err(|failure| failure.status) != Err(status::STATE)
        {
            return Err("a solve between set_values and factorize is not refused".to_owned());
        }
        use_matrix(&solver, case, &mut events[1]);
    }
    Ok((events, solver.int(key::AGGREGATES_KEPT) > 0))
}

/// Judges all events of a case. Returns the classes of the results.
fn judge(case: &Case) -> Result<Vec<String>, String> {
    let threads = [1 + case.number as usize % 3, 1 + (case.number as usize + 1) % 3];
    let (events, reuses_aggregates) = run(case, threads[0])?;
    let (again, _) = run(case, threads[1])?;
    for (event, again) in events.iter().flatten().zip(again.iter().flatten()) {
        if event != again {
            return Err(format!("differs with threads={threads:?}:\n{event:?}\n{again:?}"));
        }
    }
    let mut classes = Vec::new();
    judge_events(case, &case.entries, &events[0], &mut classes)?;
    if let Some(other) = &case.other {
        let entries = replaced(case, other);
        judge_events(case, &entries, &events[1], &mut classes)?;
        // A new handle with these values gives the same results, unless the first handle reused aggregates.
        let fresh = create(case, &entries);
        fresh.options(&format!("{} threads={}", case.options, threads[0])).expect("options");
        let mut expected = Vec::new();
        use_matrix(&fresh, case, &mut expected);
        if !reuses_aggregates && expected != events[1] {
            return Err(format!("set_values differs from a new handle:\n{:?}\n{expected:?}", events[1]));
        }
    }
    Ok(classes)
}

fn judge_events(case: &Case, entries: &[Entry], events: &[Event], classes: &mut Vec<String>) -> Result<(), String> {
    let judge = Judge::new(case, entries);
    for event in events {
        let judged = match event.call {
            "multiply" => judge.product(false, event),
            "multiply_transposed" => judge.product(true, event),
            "factorize" => judge.factorized(event),
            "apply" => judge.applied(event),
            _ => judge.solved(event, &case.guess).map(|class| classes.push(class)),
        };
        judged.map_err(|text| format!("{}: {text}", event.call))?;
        if event.status < 0 && event.call != "solve" {
            classes.push(format!("{}: {}", event.call, event.status));
        }
    }
    let solved = events.last().filter(|event| event.call == "solve" && event.status == status::OK);
    classes.extend(solved.map(|event| format!("converged: {}", sparse::SOLVERS[event.numbers[2] as usize])));
    classes.extend(solved.map(|event| format!("converged with preconditioner {}", event.numbers[3])));
    classes.extend(solved.map(|_| format!("converged with format {}", case.option("format", "auto"))));
    Ok(())
}

/// Formats that have no kernel on a device, and the formats that replace them in a case for a device.
const REPLACED: [(&str, &str); 5] =
    [("coo", "csr"), ("csc", "sell"), ("jds", "sell"), ("tjds", "bsr"), ("skyline", "dia")];

/// Replaces options of the case that have no kernel on a device, except in 5 % of the cases. A quarter of the cases
/// compute in single precision, most of them with a tolerance that this precision accepts.
fn move_to_device(case: &mut Case) {
    case.options += " backend=cuda";
    if case.number % 20 == 7 {
        return;
    }
    let single = case.number % 4 == 3;
    let kept = |word: &str| match word.split_once('=') {
        Some(("format", format)) => {
            let kernel = REPLACED.iter().find(|(host, _)| *host == format).map_or(format, |(_, device)| device);
            format!("format={kernel}")
        }
        Some(("ordering", _)) => String::new(),
        Some(("transpose", "none")) => "transpose=copy".to_owned(),
        Some(("precision", _)) if single => String::new(),
        Some(("rel_tol", value)) if single && case.number % 32 != 3 => {
            format!("rel_tol={:e}", value.parse::<f64>().expect("a number").max(1e-5))
        }
        _ => word.to_owned(),
    };
    let words: Vec<String> = case.options.split(' ').map(kept).filter(|word| !word.is_empty()).collect();
    case.options = words.join(" ") + " ordering=multicolour" + if single { " precision=single" } else { "" };
}

fn describe(case: &Case) -> String {
    let Case { rows, cols, kind, features, options, .. } = case;
    format!("{rows} x {cols}, {kind}: {}\n      {options}", features.join(", "))
}

#[derive(Default)]
struct Summary {
    counts: BTreeMap<String, u64>,
    wrong: BTreeMap<u64, String>,
}

/// Classes of results that must occur in at least one of a thousand cases.
fn results() -> Vec<String> {
    let mut classes: Vec<String> = sparse::SOLVERS[1..].iter().map(|solver| format!("converged: {solver}")).collect();
    classes.extend([1, 2, 3, 4, 7, 8, 9, 10].map(|m| format!("converged with preconditioner {m}")));
    classes.extend(sparse::FORMATS.map(|format| format!("converged with format {format}")));
    for reason in ["0, reason 1", "0, reason 2", "1, reason 4", "1, reason 6", "1, reason 8"] {
        classes.push(format!("solve: {reason}"));
    }
    for status in [status::NOT_FINITE, status::BREAKDOWN, status::ARGUMENT] {
        classes.push(format!("solve: {status}"));
    }
    for status in [status::MATRIX, status::UNSUPPORTED, status::ARGUMENT, status::DIMENSION] {
        classes.push(format!("factorize: {status}"));
    }
    classes.push("b is zero".to_owned());
    classes
}

#[test]
fn random_systems() {
    let backend: String = variable("RRBSOLVER_TRUTH_BACKEND").unwrap_or_else(|| "cpu".to_owned());
    assert!(["cpu", "cuda", "emulated"].contains(&&*backend), "RRBSOLVER_TRUTH_BACKEND={backend}");
    let all = Cases::of_environment(2000);
    let (cases, alone) = (all.count, all.alone);
    let summary = Mutex::new(Summary::default());
    all.each(|number| {
        let mut case = sparse::make(all.seed, number);
        if backend == "emulated" && case.kind == "many rows" {
            return;
        }
        if backend != "cpu" {
            move_to_device(&mut case);
        }
        if alone.is_some() {
            println!("{}\n{:?}\nb {:?}\nguess {:?}", describe(&case), case.entries, case.b, case.guess);
        }
        let judged = judge(&case);
        let mut summary = summary.lock().expect("no panic");
        let features = case.features.iter().chain([&case.kind]).map(|name| (*name).to_owned());
        let classes = features.chain(judged.clone().unwrap_or_default());
        classes.for_each(|class| *summary.counts.entry(class).or_default() += 1);
        if let Err(text) = judged {
            summary.wrong.insert(number, format!("case {number}: {}\n      {text}", describe(&case)));
        }
    });
    let Summary { counts, wrong } = summary.into_inner().expect("no panic");
    println!("{counts:#?}");
    let shown: Vec<&str> = wrong.values().take(variable("RRBSOLVER_TRUTH_SHOW").unwrap_or(20)).map(|w| &**w).collect();
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), shown.join("\n"));
    if alone.is_none() && cases >= 2000 && backend == "cpu" {
        let too_few = |class: &String, least: u64| counts.get(class).copied().unwrap_or(0) < least;
        let features = KINDS.iter().chain(FEATURES).map(|name| (*name).to_owned());
        let missed: Vec<String> = features.filter(|name| too_few(name, cases / 100)).collect();
        assert!(missed.is_empty(), "features of fewer than {} cases: {missed:?}", cases / 100);
        let missed: Vec<String> = results().into_iter().filter(|name| too_few(name, cases / 1000)).collect();
        assert!(missed.is_empty(), "results of fewer than {} cases: {missed:?}", cases / 1000);
    }
    let good: u64 = counts.iter().filter(|(name, _)| name.starts_with("solve: 0")).map(|(_, n)| n).sum();
    assert!(alone.is_some() || good > cases / 3, "{good} solves of {cases} cases converge");
}
