//! Checks the machine code of the row loops: packed arithmetic with the full width of the instruction set, no calls
//! inside loops, and no wider instructions in the portable forms. The code is read from this test program with
//! `objdump`, a part of binutils; without `objdump`, nothing is checked.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]

mod common;

use common::problems::poisson;
use common::{Solver, dpcg};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Modules with row loops, by the last two names of their paths, and their sources. `stencil/components.rs` is compiled
/// in the same way, but processes 64 bits at a time and needs no vector loops.
const SOURCES: [([&str; 2], &str); 5] = [
    (["cpu", "loops"], include_str!("../src/rrb/cpu/loops.rs")),
    (["cpu", "loops_setup"], include_str!("../src/rrb/cpu/loops_setup.rs")),
    (["base", "loops"], include_str!("../src/base/loops.rs")),
    (["direct", "envelope"], include_str!("../src/direct/envelope.rs")),
    (["stencil", "inspection"], include_str!("../src/stencil/inspection.rs")),
];

/// Loops of `for_each_isa` that only move numbers or inspect their bits.
const MOVES: [&str; 4] = ["deinterleave", "interleave", "max_abs", "narrow"];

/// Loops that combine double precision with the single precision of sweeps. Doubles determine the number of lanes, so
/// their single precision arithmetic has half the width.
const OF_TWO_WIDTHS: [&str; 4] = ["update_and_divide", "combine", "difference_with_product", "solve_eliminated"];

/// Loops of an iteration whose portable form is compiled as a separate function.
const OF_AN_ITERATION: [&str; 9] = [
    "advance_x_and_p",
    "update_and_divide",
    "difference_with_product",
    "multiply_difference_form",
    "dot",
    "multiply_nine_points",
    "solve_eliminated",
    "solve_eliminated_in_place",
    "subtract_product",
];

/// Returns the names of the functions in `for_each_isa! { .. }` of a source: lines that begin with four spaces and
/// `fn`.
fn names(source: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in source.lines() {
        match line {
            "for_each_isa! {" => inside = true,
            "}" => inside = false,
            _ => {}
        }
        if let Some(rest) = line.strip_prefix("    fn ").filter(|_| inside) {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            names.push(rest[..end].to_owned());
        }
    }
    names
}

struct Instruction<'a> {
    address: u64,
    operation: &'a str,
    operands: &'a str,
}

/// Parses a line of objdump: "  address:\toperation operands".
fn instruction(line: &str) -> Option<Instruction<'_>> {
    let (address, rest) = line.trim_start().split_once(":\t")?;
    let (operation, operands) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    Some(Instruction { address: u64::from_str_radix(address, 16).ok()?, operation, operands: operands.trim() })
}

/// Returns the identifiers of a mangled name (legacy or v0), each of which follows its length.
fn identifiers(symbol: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = symbol;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let (number, behind) = rest[start..].split_at(digits);
        let behind_mark = behind.strip_prefix('_').unwrap_or(behind);
        match number.parse::<usize>().ok().and_then(|n| behind_mark.get(..n)) {
            Some(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                found.push(name);
                rest = &behind_mark[name.len()..];
            }
            _ => rest = behind,
        }
    }
    found
}

/// Returns module, name and instruction set of a row loop.
fn kernel(symbol: &str) -> Option<(&str, &str, &str)> {
    let path = identifiers(symbol);
    let at = path.windows(2).position(|two| SOURCES.iter().any(|(module, _)| two == module))?;
    let set = path.get(at + 3).copied().filter(|set| ["portable", "avx2", "avx512"].contains(set))?;
    Some((path[at + 1], path.get(at + 2)?, set))
}

/// Number of floating-point operations by the form of their operands.
#[derive(Clone, Copy, Debug, Default)]
struct Arithmetic {
    packed: [usize; 3],
    scalar: usize,
    calls: usize,
}

const REGISTERS: [&str; 3] = ["%xmm", "%ymm", "%zmm"];

fn arithmetic(body: &[Instruction]) -> Arithmetic {
    let mut found = Arithmetic::default();
    for i in body {
        let operation = i.operation.strip_prefix('v').unwrap_or(i.operation);
        let is = ["add", "sub", "mul", "div", "max", "min", "fmadd", "fnmadd"].iter().any(|o| operation.starts_with(o));
        found.calls += usize::from(operation.starts_with("call"));
        match operation.get(operation.len().saturating_sub(2)..) {
            Some("pd" | "ps") if is => {
                let width = (0..3).rev().find(|&w| i.operands.contains(REGISTERS[w])).unwrap_or(0);
                found.packed[width] += 1;
            }
            Some("sd" | "ss") if is => found.scalar += 1,
            _ => {}
        }
    }
    found
}

/// Returns the innermost loops: from the target of a backward jump to the jump.
fn loops<'a>(body: &'a [Instruction<'a>]) -> Vec<&'a [Instruction<'a>]> {
    let place: BTreeMap<u64, usize> = body.iter().enumerate().map(|(k, i)| (i.address, k)).collect();
    let mut all = Vec::new();
    for (end, i) in body.iter().enumerate().filter(|(_, i)| i.operation.starts_with('j')) {
        let target = i.operands.split_whitespace().next().and_then(|t| u64::from_str_radix(t, 16).ok());
        if let Some(&start) = target.and_then(|t| place.get(&t)).filter(|&&start| start <= end) {
            all.push((start, end));
        }
    }
    let holds_another = |l: &(usize, usize)| all.iter().any(|o| o != l && l.0 <= o.0 && o.1 <= l.1);
    all.iter().filter(|l| !holds_another(l)).map(|l| &body[l.0..=l.1]).collect()
}

/// Returns a description of the defect of a function, or `None`. `half` accepts loops with half the register width.
fn fault(name: &str, set: &str, body: &[Instruction], half: bool) -> Option<String> {
    let width = ["portable", "avx2", "avx512"].iter().position(|s| *s == set)?;
    if let Some(i) = body.iter().find(|i| REGISTERS[width + 1..].iter().any(|wider| i.operands.contains(wider))) {
        return Some(format!("uses {} {}", i.operation, i.operands));
    }
    let loops = loops(body);
    let found: Vec<Arithmetic> = loops.iter().map(|body| arithmetic(body)).collect();
    // The portable forms of short loops are inlined into their callers, which also contain the calls of the other sets.
    if set == "portable" && !OF_AN_ITERATION.contains(&name) {
        return None;
    }
    if MOVES.contains(&name) {
        // Copies use memcpy; conversions of doubles write numbers of half the width.
        let wide = |i: &Instruction| REGISTERS[width.saturating_sub(1)..].iter().any(|r| i.operands.contains(r));
        let moves = loops.is_empty() || loops.iter().any(|body| body.iter().any(wide));
        return (!moves).then(|| format!("moves nothing by {}", REGISTERS[width]));
    }
    let least = if half { width.saturating_sub(1) } else { width };
    let as_wanted = |a: &Arithmetic| a.packed[least..=width].iter().sum::<usize>() > 0 && a.scalar == 0 && a.calls == 0;
    (!found.iter().any(as_wanted)).then(|| format!("has no loop in {}: {found:?}", REGISTERS[width]))
}

#[test]
fn row_loops_are_vectors() {
    // Ensures that the solvers are linked into this program.
    let a = poisson(20, 20);
    Solver::of(&a, "backend=cpu threads=1").solve_from_zero(&vec![1.0; a.len()]);
    dpcg::Solver::of(&dpcg::TwoPhase::new("9", [8; 3], 1e-3), "backend=cpu threads=1 coarse_solver=inverse");

    let program = std::env::current_exe().expect("the path of this program");
    let Ok(output) = Command::new("objdump").args(["-d", "--no-show-raw-insn", "-j", ".text"]).arg(program).output()
    else {
        eprintln!("no objdump here: the machine code is not checked");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("objdump writes text");

    let of =
        |([_, module], source): ([&'static str; 2], &str)| names(source).into_iter().map(move |name| (module, name));
    let wanted: Vec<(&str, String)> = SOURCES.into_iter().flat_map(of).collect();
    let found = SOURCES.map(|([_, module], _)| wanted.iter().filter(|w| w.0 == module).count());
    let all = OF_AN_ITERATION.iter().chain(&OF_TWO_WIDTHS).all(|name| wanted.contains(&("loops", (*name).to_owned())));
    assert!(all && found[1] >= 4 && found[2] >= 1, "{wanted:?}");
    let mut seen: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let (mut faults, mut full) = (Vec::new(), BTreeSet::new());
    for function in text.split("\n\n") {
        let mut lines = function.trim_start().lines();
        let symbol = lines.next().and_then(|l| l.split_once('<')).map_or("", |(_, symbol)| symbol);
        let is_wanted = |&(module, name, _): &(&str, &str, &str)| wanted.iter().any(|w| w.0 == module && w.1 == name);
        let Some((module, name, set)) = kernel(symbol).filter(is_wanted) else { continue };
        let body: Vec<Instruction> = lines.filter_map(instruction).collect();
        *seen.entry((module, name, set)).or_default() += 1;
        let half = OF_TWO_WIDTHS.contains(&name);
        if let Some(fault) = fault(name, set, &body, half) {
            faults.push(format!("{name}, {set}: {fault}"));
        }
        if half && fault(name, set, &body, false).is_none() {
            full.insert((name, set));
        }
    }
    for (module, name) in &wanted {
        for set in ["avx512", "avx2"] {
            if !seen.contains_key(&(*module, name, set)) {
                faults.push(format!("{name} is not there for {set}"));
            }
        }
    }
    // A form with the full width must exist for loops over doubles only.
    for (name, set) in OF_TWO_WIDTHS.into_iter().flat_map(|name| [(name, "avx512"), (name, "avx2")]) {
        if !full.contains(&(name, set)) {
            faults.push(format!("{name}, {set}: no form of it has the full width"));
        }
    }
    for name in OF_AN_ITERATION {
        if !seen.contains_key(&("loops", name, "portable")) {
            faults.push(format!("{name} is not there for all machines"));
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} functions:\n{}",
        faults.len(),
        seen.values().sum::<usize>(),
        faults.join("\n")
    );
}

#[test]
fn listings_are_understood() {
    assert_eq!(
        kernel("_ZN9rrbsolver3rrb3cpu5loops5scale6avx51217h8658edb200ffb4e0E>:"),
        Some(("loops", "scale", "avx512"))
    );
    assert_eq!(
        kernel("_ZN9rrbsolver3rrb3cpu5loops3dot8portable17h8658edb200ffb4e0E>:"),
        Some(("loops", "dot", "portable"))
    );
    // A function that only calls a row loop.
    assert_eq!(kernel("_ZN9rrbsolver3rrb3cpu5loops3dot17h8658edb200ffb4e0E>:"), None);
    assert_eq!(
        kernel("_RINvNvNtNtNtCs1_9rrbsolver3rrb3cpu5loops5scale4avx2NtNtB8_6format5BrainEBa_"),
        Some(("loops", "scale", "avx2"))
    );
    assert_eq!(
        kernel("_ZN9rrbsolver6direct8envelope7forward4avx217h8658edb200ffb4e0E>:"),
        Some(("envelope", "forward", "avx2"))
    );
    assert_eq!(kernel("_ZN9rrbsolver3rrb3cpu5fused6avx51217h8658edb200ffb4e0E>:"), None);
    let listing = "  10:\tvaddpd %zmm1,%zmm2,%zmm3\n  16:\tcall   40 <f>\n\
                   \x20 1b:\tvmulsd (%rax),%xmm0,%xmm0\n  20:\tjne    16 <g+0x6>\n  22:\tret";
    let body: Vec<Instruction> = listing.lines().filter_map(instruction).collect();
    let inner = loops(&body);
    assert_eq!(inner.len(), 1);
    let found = arithmetic(inner[0]);
    assert_eq!((found.packed, found.scalar, found.calls), ([0, 0, 0], 1, 1));
    assert_eq!(arithmetic(&body).packed, [0, 0, 1]);
    assert!(fault("dot", "avx512", &body, false).is_some_and(|f| f.starts_with("has no loop")));
    assert!(fault("dot", "avx2", &body, false).is_some_and(|f| f.starts_with("uses vaddpd")));
    let listing = "  10:\tvaddpd %ymm1,%ymm2,%ymm3\n  16:\tjne    10 <g>\n  18:\tret";
    let body: Vec<Instruction> = listing.lines().filter_map(instruction).collect();
    assert_eq!(fault("dot", "avx2", &body, false), None);
    assert!(fault("dot", "avx512", &body, false).is_some());
}
