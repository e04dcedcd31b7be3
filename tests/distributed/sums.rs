//! Sums over ranks with one value per rank instead of one per row, and the iteration counts of golden rows.

use crate::common::problems::{self, golden, neumann_var, poisson, random_m_matrix, random_rhs};
use crate::common::{Solver, bits, count_is_right, key};
use crate::ranks::{Ranked, bricks, distributed, on_ranks};

/// Sums of one value per rank are bitwise identical for all boxes with the same number of ranks. The history differs
/// from the history with sums by rows only by rounding, and fewer bytes are sent.
#[test]
fn sums_by_ranks() {
    let regular = random_m_matrix(211, 150, false, 3);
    let nine = random_m_matrix(150, 111, true, 3);
    let closed = neumann_var(150, 111);
    let of_closed = closed.multiply(&random_rhs(closed.len(), 5));
    let of_regular = random_rhs(regular.len(), 9);
    let of_nine = random_rhs(nine.len(), 2);
    // Rounding errors of the vectors, which are some hundred times those of one sum.
    let (double, single) = (1e-13, 1e-5);
    for (name, a, b, options, rounded) in [
        ("f64", &regular, &of_regular, "precision=f64 cycle=v", double),
        ("default", &regular, &of_regular, "", single),
        ("k", &regular, &of_regular, "cycle=k precision=f64 fusion=off", double),
        ("recursion on a shared grid", &regular, &of_regular, "cycle=k cycle_spacing=2 precision=f64", double),
        ("nine points", &nine, &of_nine, "", single),
        ("closed", &closed, &of_closed, "precision=f64", double),
    ] {
        let by_ranks = format!("{options} reproducible=0");
        let (_, by_rows, _) = distributed(a, b, options, &bricks(a.nx, a.ny, 1, 3));
        for ranks in [2, 3, 4] {
            let (x, history, _) = distributed(a, b, &by_ranks, &bricks(a.nx, a.ny, 1, ranks));
            // The last rank has no box.
            let mut fewer_boxes = bricks(a.nx, a.ny, ranks - 1, 1);
            fewer_boxes.push(vec![]);
            for boxes in [bricks(a.nx, a.ny, ranks, 1), bricks(a.nx, a.ny, 1, ranks), fewer_boxes] {
                let (other, reported, _) = distributed(a, b, &by_ranks, &boxes);
                assert!(bits(&other) == bits(&x) && reported == history, "{name}, {ranks} ranks");
            }
            let counts = [history.len(), by_rows.len()];
            assert!(counts[0].abs_diff(counts[1]) <= 1, "{name}, {ranks} ranks: {counts:?}");
            for (k, (one, other)) in by_rows.iter().zip(&history).take(3).enumerate() {
                let (one, other) = (f64::from_bits(*one), f64::from_bits(*other));
                assert!((one - other).abs() <= rounded * one, "{name}, {ranks} ranks, {k}: {other:e} for {one:e}");
            }
        }
    }
}

/// Changes of the option between matrices of one handle, and a different value on one rank.
#[test]
fn sums_by_ranks_and_by_rows_in_turn() {
    let a = random_m_matrix(211, 150, false, 3);
    let b = random_rhs(a.len(), 9);
    let boxes = bricks(a.nx, a.ny, 1, 3);
    let seen = on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
        let solve = |reproducible: u8| {
            ranked.solver.options(&format!("precision=f64 reproducible={reproducible}")).unwrap();
            ranked.factorize(&a).unwrap();
            let (_, x) = ranked.solve(&b, &vec![0.0; b.len()]).unwrap();
            (x.concat().iter().map(|v| v.to_bits()).collect::<Vec<_>>(), ranked.solver.int(key::INFO_BYTES_SENT))
        };
        let runs = [1, 0, 1, 0].map(solve);
        ranked.solver.options(&format!("reproducible={}", u8::from(rank == 1))).unwrap();
        (runs, ranked.factorize(&a).unwrap_err())
    });
    for (rank, ([by_rows, by_ranks, again, as_well], failure)) in seen.iter().enumerate() {
        assert!(by_rows == again && by_ranks == as_well, "rank {rank}");
        assert!(by_rows.0 != by_ranks.0, "rank {rank}");
        assert!(by_ranks.1 < by_rows.1, "rank {rank}: {} bytes for {}", by_ranks.1, by_rows.1);
        failure.expect(-2, &["options differ between ranks"]);
    }
}

/// Golden rows with five and nine points.
#[test]
fn golden_counts() {
    let rows: Vec<_> = golden::exact().into_iter().filter(|row| row.nx <= 255 && row.iterations < 150).collect();
    assert!(rows.len() > 40);
    for row in rows {
        let (a, b) = row.problem();
        let (_, history, _) = distributed(&a, &b, &row.options("cpu", row.tol), &bricks(row.nx, row.nx, 1, 2));
        let history: Vec<f64> = history.into_iter().map(f64::from_bits).collect();
        let count = history.len() - 1;
        assert!(count_is_right(&history, row.iterations, row.tol), "{}: {count}", row.name());
    }
}

/// By default `rrb_create` may select aggregation, which distributed handles do not support. The counts are
/// nevertheless equal, except one whose residual is close to the tolerance.
#[test]
fn default_counts_are_those_of_one() {
    for (name, a) in [
        ("poisson", poisson(255, 255)),
        ("anisotropy", problems::aniso(200, 10.0)),
        ("checkerboard", problems::checker8(192, 1e3)),
        ("random field", problems::random_field(180, 1e2)),
        ("waves", problems::boussinesq(160, 1.0)),
        ("nine points", random_m_matrix(140, 150, true, 1)),
    ] {
        let b = random_rhs(a.len(), 3);
        let solver = Solver::of(&a, "");
        solver.solve_from_zero(&b);
        let (_, history, _) = distributed(&a, &b, "", &bricks(a.nx, a.ny, 1, 2));
        let (one, two) = (solver.iterations(), history.len() - 1);
        let history: Vec<f64> = history.into_iter().map(f64::from_bits).collect();
        assert!(count_is_right(&history, one, 1e-6), "{name}: {two} for {one}");
    }
}
