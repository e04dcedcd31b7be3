//! Golden numbers of block relaxation (`tests/golden/smoother.csv`): one 64^3 patch, zero f, ghosts 0, u random from
//! SplitMix64 seeded 42.

mod common;

use common::smoother::*;
use std::collections::HashMap;

struct Record {
    stencil: String,
    method: String,
    block: [i64; 3],
    omega: f64,
    after: [f64; 2],
    factor: Option<f64>,
}

fn records() -> Vec<Record> {
    let text = include_str!("golden/smoother.csv");
    let number = |t: &str| t.parse::<f64>().expect("a number");
    let record = |line: &str| {
        let word: Vec<&str> = line.split(',').collect();
        let block: Vec<i64> = word[3].split('x').map(|b| b.parse().expect("a block")).collect();
        Record {
            stencil: word[0].to_owned(),
            method: word[2].to_owned(),
            block: [block[0], block[1], block[2]],
            omega: number(word[4]),
            after: [number(word[5]), number(word[6])],
            factor: (!word[7].is_empty()).then(|| number(word[7])),
        }
    };
    let all: Vec<Record> = text.lines().skip(1).map(record).collect();
    assert_eq!(all.len(), 105);
    all
}

fn options(method: &str, omega: f64) -> String {
    let method = match method {
        "bj" => "method=block_jacobi",
        "gs" => "method=chaotic_gauss_seidel parallel=patch",
        "rb" => "method=coloured_gauss_seidel",
        _ => panic!("{method}"),
    };
    format!("{method} omega={omega}")
}

/// Relative residuals after 1 and 3 sweeps within 1e-9: what the prototype's reordering of sums leaves open.
fn check(backend: &str, wanted: impl Fn(&Record) -> bool) {
    let mut checked = HashMap::new();
    for r in records().iter().filter(|r| wanted(r)) {
        let mut level = Level::golden(64, 1);
        let text = format!("{backend} {}", options(&r.method, r.omega));
        let smoother = Smoother::of(&stencil(&r.stencil), r.block, &text, &level);
        let start = smoother.norm(&mut level);
        for (sweeps, expected) in [(1, r.after[0]), (2, r.after[1])] {
            smoother.apply(&mut level, sweeps).unwrap();
            let relative = smoother.norm(&mut level) / start;
            let off = (relative / expected - 1.0).abs();
            assert!(off < 1e-9, "{} {:?} {}: {relative:e}, expected {expected:e}", r.stencil, r.block, r.method);
        }
        *checked.entry(r.method.clone()).or_insert(0) += 1;
    }
    assert!(!checked.is_empty());
}

#[test]
fn cpu() {
    check("backend=cpu threads=2", |_| true);
}

#[test]
fn cpu_dense() {
    check("backend=cpu threads=2 block_solver=dense", |r| r.block.iter().product::<i64>() <= 64);
}

#[test]
fn reference() {
    check("backend=reference", |r| r.block == [2, 2, 2] || (r.block == [4, 4, 2] && r.stencil != "aniso7"));
    check("backend=reference", |r| r.block == [8, 8, 8] && ["conv7", "fe27"].contains(&r.stencil.as_str()));
}
