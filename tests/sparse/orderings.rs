//! Preconditioners of matrices whose rows are ordered by colours.

use crate::common;

use common::sparse::*;
use common::status;
use rrbsolver_problems::sparse::system;

/// Multicolour preconditioners of A are those of the permuted matrix in natural order. Both systems are permuted copies
/// of each other, so the counts may differ by rounding only: by at most one iteration.
#[test]
fn multicolour_preconditioners_are_those_of_the_permuted_matrix() {
    for (name, solver, preconditioners, colours) in [
        ("poisson2d_64", "cg", &["ssor", "ic0", "ilu0"][..], 2),
        ("blocks3_24", "cg", &["ssor", "ic0"][..], 6),
        ("convdiff2d_50_p0.5_q0.25", "idr", &["ssor", "ilu0"][..], 2),
        ("random_dominant_2000_8", "idr", &["ssor", "ilu0"][..], 11),
    ] {
        let system = system(name).unwrap();
        let a = Entries { rows: system.n, cols: system.n, entries: system.entries };
        let rows = coloured(&a);
        let mut position = vec![0; a.rows];
        rows.iter().enumerate().for_each(|(k, &row)| position[row] = k);
        let permuted: Vec<_> = a.entries.iter().map(|&(i, j, value)| (position[i], position[j], value)).collect();
        let permuted = Entries::new(a.rows, a.rows, &permuted);
        for preconditioner in preconditioners {
            let text = format!("solver={solver} preconditioner={preconditioner} threads=3");
            let count = |a: &Entries, ordering: &str| {
                let solver = a.solver();
                solver.options(&format!("{text} ordering={ordering}")).unwrap();
                solver.factorize().unwrap();
                let b = solver.product(&vec![1.0; a.rows], false).unwrap();
                let mut x = vec![0.0; a.rows];
                assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{name} {text}");
                [key::ITERATIONS, key::COLOURS, key::SWEEP_LEVELS].map(|key| solver.int(key))
            };
            let [found, of_colours, levels] = count(&a, "multicolour");
            let [expected, none, _] = count(&permuted, "natural");
            assert!(found.abs_diff(expected) <= 1, "{name} {text}: {found} and {expected}");
            assert_eq!([of_colours, levels, none], [colours, colours, 0], "{name} {text}");
        }
    }
}

/// Returns the rows in the order of first-fit colours on the pattern of A + A'.
fn coloured(a: &Entries) -> Vec<usize> {
    let mut joined = vec![Vec::new(); a.rows];
    for &(i, j, _) in &a.entries {
        joined[i.max(j)].push(i.min(j));
    }
    let mut colour: Vec<usize> = Vec::new();
    for (i, joined) in joined.iter().enumerate() {
        let free = |c: &usize| joined.iter().all(|&j| j == i || colour[j] != *c);
        let found = (0..).find(free).unwrap();
        colour.push(found);
    }
    let mut rows: Vec<usize> = (0..a.rows).collect();
    rows.sort_by_key(|&i| colour[i]);
    rows
}
