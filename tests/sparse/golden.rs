//! Iteration counts of an independent prototype (tests/golden/README.md): each method with preconditioners that it
//! accepts, on matrices from files and generated ones. b = A times ones, x = 0, to 1e-6 of the norm of b.

#[path = "../common/mod.rs"]
mod common;
mod table;

use common::sparse::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use table::{Row, rows, solver};

/// Two threads of the test process the matrices.
#[test]
fn counts_are_those_of_the_table() {
    let mut by_matrix: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows() {
        by_matrix.entry(row.matrix.clone()).or_default().push(row);
    }
    assert_eq!(by_matrix.len(), 22);
    let waiting = Mutex::new(by_matrix.into_iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some((name, rows)) = next else { return };
                    for row in rows {
                        let solver = solver(&name);
                        let b = solver.product(&vec![1.0; solver.int(key::COLS) as usize], false).unwrap();
                        if let Some(what) = row.judge(&solver, &b, "") {
                            wrong.lock().unwrap().push(format!("{}\n    {what}", row.line));
                        }
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
