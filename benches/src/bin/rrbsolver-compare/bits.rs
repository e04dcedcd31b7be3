//! Runs every case on both builds and reports the differences.

use crate::classes::{self, Class};
use crate::library::Build;
use crate::record::{Difference, Kind, compare};
use crate::{Backend, BitsArgs};
use anyhow::{Context as _, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Number of concurrent cases on the CPU.
const THREADS: usize = 2;

/// Runs all cases. Returns whether nothing differs.
pub fn run(args: &BitsArgs) -> Result<bool> {
    // Options in the environment of the host are for its own solves.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::remove_var("RRBSOLVER_OPTIONS") };
    let old = Build::load(&args.old, &args.options)?;
    let new = Build::load(&args.new, &format!("{} {}", args.options, args.new_options))?;
    for (build, name) in [(&old, &args.old), (&new, &args.new)] {
        build.check(args.backend.name()).with_context(|| name.to_owned())?;
    }
    if old.is(&new) {
        println!("OLD and NEW are one library");
    }
    let start = Instant::now();
    let mut differing = Vec::new();
    let mut all = 0;
    for class in classes::all(args) {
        let found = run_class(&class, [&old, &new], if args.backend == Backend::Cpu { THREADS } else { 1 });
        println!("{}", line(&class, found.len()));
        all += class.jobs.len();
        differing.extend(found.into_iter().map(|(k, difference)| (class.name, class.jobs[k].name.clone(), difference)));
    }
    for (kind, title) in [
        (Kind::Counts, "Counts or statuses differ"),
        (Kind::Words, "Sentences differ"),
        (Kind::Bits, "Only bits differ"),
    ] {
        let of_kind: Vec<_> = differing.iter().filter(|(_, _, d)| d.kind == kind).collect();
        if !of_kind.is_empty() {
            println!("\n{title}, {} cases:", of_kind.len());
        }
        of_kind.iter().for_each(|(class, name, d)| println!("  {class}, {name}\n    {}", d.text));
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\n{} of {all} cases differ; {seconds:.0} s", differing.len());
    Ok(differing.is_empty())
}

fn line(class: &Class, differing: usize) -> String {
    let (all, unit) = (class.jobs.len(), class.unit);
    let mut text = match differing {
        0 => format!("{}: {all} {unit} equal", class.name),
        _ => format!("{}: {} of {all} {unit} equal, {differing} differ", class.name, all - differing),
    };
    if class.left_out > 0 {
        text += &format!("; {} left out ({})", class.left_out, class.why);
    }
    text
}

/// Returns the numbers of the differing cases, with their differences.
fn run_class(class: &Class, builds: [&Build; 2], threads: usize) -> Vec<(usize, Difference)> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((k, job)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, class.jobs.get(k)?)))
        {
            let [old, new] = job.run(builds);
            if let Some(difference) = compare(&old, &new) {
                found.lock().expect("no panic").push((k, difference));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().expect("no panic");
    found.sort_by_key(|&(k, _)| k);
    found
}
