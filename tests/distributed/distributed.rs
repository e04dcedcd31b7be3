//! One domain on many ranks: bitwise identity with one rank, errors on some ranks, and missing ranks.

#[path = "../common/mod.rs"]
mod common;
mod ranks;
mod sums;

use common::problems::{Stencil, neumann_var, poisson, random_m_matrix, random_rhs};
use common::{Solver, bits, key, status};
use ranks::{Box4, Late, Ranked, bricks, check_bits, check_bits_of_one, distributed, on_ranks, paste};
use std::time::{Duration, Instant};

#[test]
fn same_bits_for_any_boxes_of_any_ranks() {
    for (nx, ny) in [(301, 203), (37, 53), (1, 200), (130, 1), (64, 64)] {
        let a = random_m_matrix(nx, ny, false, 5);
        let b = random_rhs(a.len(), 7);
        check_bits(&format!("{nx} x {ny}"), &a, &b, "");
        check_bits_of_one(&format!("{nx} x {ny}"), &a, &b, "precision=f64 cycle=v");
    }
}

#[test]
fn same_bits_in_all_cycles_and_formats() {
    let a = random_m_matrix(211, 150, false, 3);
    let b = random_rhs(a.len(), 9);
    for cycle in ["v", "amli", "k", "aggregation"] {
        for precision in ["f64", "f32", "bf16", "mixed"] {
            if cycle == "aggregation" && ["bf16", "mixed"].contains(&precision) {
                continue;
            }
            let options = format!("cycle={cycle} precision={precision}");
            check_bits("formats", &a, &b, &format!("{options} fusion=off"));
            check_bits_of_one("formats", &a, &b, &options);
        }
    }
    let nine = random_m_matrix(150, 111, true, 3);
    check_bits("nine points", &nine, &random_rhs(nine.len(), 2), "");
    check_bits_of_one("nine points", &nine, &random_rhs(nine.len(), 2), "precision=f64 cycle=v");
    let turned = common::problems::rot(120, 111, 0.05, 30.0);
    check_bits_of_one("positive couplings", &turned, &random_rhs(turned.len(), 2), "precision=f64 cycle=v");
    let closed = neumann_var(150, 111);
    let b = closed.multiply(&random_rhs(closed.len(), 5));
    for options in ["precision=f64", "", "cycle=amli"] {
        check_bits("closed", &closed, &b, options);
    }
    check_bits("closed", &closed, &b, "fusion=off precision=f64 cycle=v");
}

/// Results do not depend on the order in which messages arrive.
#[test]
fn late_messages_change_no_bit() {
    let a = random_m_matrix(211, 150, false, 3);
    let b = random_rhs(a.len(), 9);
    let boxes = bricks(a.nx, a.ny, 1, 4);
    for options in ["", "cycle=amli precision=f64"] {
        let (expected, history, _) = distributed(&a, &b, options, &boxes);
        for seed in 0..6 {
            let parts = on_ranks(4, |rank, comm| {
                let late = Late::new(comm, 1000 * seed + rank as u64);
                let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], &late.table()).unwrap();
                ranked.solver.options(options).unwrap();
                ranked.factorize(&a).unwrap();
                let x = ranked.solve(&b, &vec![0.0; b.len()]).unwrap().1;
                (x, bits(&ranked.solver.history()))
            });
            let mut x = vec![0.0; a.len()];
            for (rank, (part, reported)) in parts.iter().enumerate() {
                paste(&mut x, a.nx, boxes[rank][0], &part[0]);
                assert!(*reported == history, "{options}, {seed}");
            }
            assert!(bits(&x) == bits(&expected), "{options}, {seed}");
        }
    }
}

/// Systems with very small and very large numbers, and a poor initial guess.
#[test]
fn scales_change_no_bit() {
    let mut a = random_m_matrix(130, 97, false, 8);
    let b = random_rhs(a.len(), 4);
    let boxes = [bricks(130, 97, 1, 1), bricks(130, 97, 2, 2), bricks(130, 97, 1, 3)];
    for (of_a, of_b) in [(1e-150, 1e-150), (1e150, 1e150), (1e-100, 1e100), (1e120, 1e-30)] {
        a.scale(of_a);
        let b: Vec<f64> = b.iter().map(|b| of_b * b).collect();
        let one = Solver::of(&a, "precision=f64").solve_from_zero(&b).0;
        for boxes in &boxes {
            let (x, ..) = distributed(&a, &b, "precision=f64", boxes);
            assert!(bits(&x) == bits(&one), "{of_a:e}, {of_b:e}");
        }
        a.scale(1.0 / of_a);
    }
    let guess: Vec<f64> = random_rhs(a.len(), 5).iter().map(|x| 1e6 * x).collect();
    let solver = Solver::of(&a, "precision=f64");
    let mut expected = guess.clone();
    solver.solve(&b, &mut expected).unwrap();
    for boxes in &boxes {
        let parts = on_ranks(boxes.len(), |rank, comm| {
            let ranked = Ranked::try_new(130, 97, &boxes[rank], comm).unwrap();
            ranked.solver.options("precision=f64").unwrap();
            ranked.factorize(&a).unwrap();
            ranked.solve(&b, &guess).unwrap().1
        });
        let mut x = vec![0.0; a.len()];
        parts.iter().enumerate().for_each(|(rank, part)| paste(&mut x, 130, boxes[rank][0], &part[0]));
        assert!(bits(&x) == bits(&expected));
    }
}

/// Lakes that are connected by channels: a nearly singular system, for which CG in single precision stagnates early.
fn lakes(nx: usize, ny: usize, mass: f64) -> Stencil {
    let wet = |i: usize, j: usize| {
        let (x, y) = (i as f64, j as f64);
        (0.31 * x + 2.0 * (0.07 * y).sin()).sin() * (0.27 * y + 2.0 * (0.05 * x).cos()).sin() > -0.3
    };
    let mut a = Stencil::zeros(nx, ny, false);
    for j in 0..ny {
        for i in 0..nx {
            let p = j * nx + i;
            if wet(i, j) {
                a.east[p] = if i + 1 < nx && wet(i + 1, j) { -1.0 } else { 0.0 };
                a.north[p] = if j + 1 < ny && wet(i, j + 1) { -1.0 } else { 0.0 };
            }
        }
    }
    a.set_row_sums(|_| mass);
    for p in (0..a.len()).filter(|p| !wet(p % nx, p / nx)) {
        a.center[p] = 1.0;
    }
    a
}

/// `auto` selects mixed. If it stagnates, the solve continues with bf16 from its last iterate, bitwise identical on any
/// ranks. The next matrix is factorized with bf16 at once.
#[test]
fn where_single_precision_stagnates() {
    let a = lakes(211, 150, 1e-6);
    let b = random_rhs(a.len(), 9);
    let alone = Solver::of(&a, "precision=mixed switch_memory=0 max_iter=3000");
    assert_eq!(alone.solve_from_zero(&b).1, status::NOT_CONVERGED);
    let stagnates = alone.iterations();
    check_bits("lakes", &a, &b, "");
    check_bits("lakes", &a, &b, "reference=initial norm=true2 rel_tol=1e-8 max_iter=2000");
    for boxes in [bricks(a.nx, a.ny, 1, 1), bricks(a.nx, a.ny, 1, 3)] {
        let seen = on_ranks(boxes.len(), |rank, comm| {
            let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
            let precision = || ranked.solver.int(key::INFO_PRECISION);
            let solved = |guess: &[f64]| (ranked.solve(&b, guess).unwrap().0, ranked.solver.iterations());
            let zero = vec![0.0; b.len()];
            ranked.factorize(&a).unwrap();
            let (before, first, after) = (precision(), solved(&zero), precision());
            let reported = ranked.solver.history();
            assert_eq!(reported.len(), first.1 + 1);
            assert!(reported[0] == 1.0 && reported[first.1] <= 1e-6, "{} to {}", reported[0], reported[first.1]);
            ranked.factorize(&a).unwrap();
            let again = (precision(), solved(&zero));
            // The iteration limit is reached after the switch to bf16: the limit counts all iterations.
            let few = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
            few.solver.options(&format!("max_iter={}", stagnates + 9)).unwrap();
            few.factorize(&a).unwrap();
            let few = (few.solve(&b, &zero).unwrap().0, few.solver.iterations());
            (before, first, after, again, few)
        });
        for (before, first, after, again, few) in seen {
            let (mixed, bf16) = (4, 3);
            assert_eq!((before, after, again.0), (mixed, bf16, bf16));
            assert!(first.0 == status::OK && first.1 > stagnates, "{first:?}");
            assert!(again.1.0 == status::OK && again.1.1 < first.1, "{again:?}");
            assert_eq!(few, (status::NOT_CONVERGED, stagnates + 9));
        }
    }
}

/// Stagnation in single precision as above, with an initial guess, the other norm and late messages. Further solves and
/// applications follow.
#[test]
fn solves_after_stagnation_in_single_precision() {
    let a = lakes(211, 150, 1e-6);
    let (b, other) = (random_rhs(a.len(), 9), random_rhs(a.len(), 4));
    let guess: Vec<f64> = random_rhs(a.len(), 5).iter().map(|x| 0.01 * x).collect();
    let sequence = |boxes: &[Vec<Box4>], options: &str, late: bool| {
        let parts = on_ranks(boxes.len(), |rank, comm| {
            let slow = Late::new(comm, 77 + rank as u64);
            let table = if late { slow.table() } else { *comm };
            let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], &table).unwrap();
            ranked.factorize(&a).unwrap();
            ranked.solver.options(options).unwrap();
            let precision = || ranked.solver.int(key::INFO_PRECISION);
            assert_eq!(precision(), 4, "{options}");
            let first = ranked.solve(&b, &guess).unwrap();
            assert_eq!((first.0, precision()), (status::OK, 3), "{options}");
            let reported = bits(&ranked.solver.history());
            assert_eq!(reported.len(), ranked.solver.iterations() + 1, "{options}");
            let second = ranked.solve(&other, &vec![0.0; b.len()]).unwrap();
            (reported, [first.1, second.1, ranked.apply(&b).unwrap().1, ranked.multiply(&b).unwrap().1])
        });
        let reported = parts[0].0.clone();
        assert!(parts.iter().all(|part| part.0 == reported), "{options}");
        let whole = |k: usize| {
            let mut x = vec![0.0; a.len()];
            for (rank, (_, parts)) in parts.iter().enumerate() {
                boxes[rank].iter().zip(&parts[k]).for_each(|(b, part)| paste(&mut x, a.nx, *b, part));
            }
            bits(&x)
        };
        (reported, [0, 1, 2, 3].map(whole))
    };
    for options in ["reference=initial", "norm=preconditioned rel_tol=1e-8", "max_iter=2000 rel_tol=1e-9"] {
        let one = sequence(&bricks(a.nx, a.ny, 1, 1), options, false);
        assert!(sequence(&bricks(a.nx, a.ny, 1, 2), options, true) == one, "{options}, late");
        assert!(sequence(&bricks(a.nx, a.ny, 2, 2), options, false) == one, "{options}");
    }
}

/// With a tolerance below the accuracy of double precision, a change of the format has no advantage, so the format must
/// not change.
#[test]
fn where_double_precision_stagnates() {
    let a = random_m_matrix(211, 150, false, 3);
    let b = random_rhs(a.len(), 9);
    for boxes in [bricks(a.nx, a.ny, 1, 1), bricks(a.nx, a.ny, 1, 2)] {
        let seen = on_ranks(boxes.len(), |rank, comm| {
            let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
            ranked.solver.options("rel_tol=1e-18").unwrap();
            let solved = || ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0;
            let precision = || ranked.solver.int(key::INFO_PRECISION);
            ranked.factorize(&a).unwrap();
            let first = (precision(), solved());
            let residual = ranked.solver.real(key::INFO_FINAL_RESIDUAL);
            common::expect_not_converged(ranked.solver.iterations() as i64, residual, "1e-18", common::STAGNATED);
            ranked.factorize(&a).unwrap();
            (first, precision(), solved(), precision())
        });
        for (first, again, status, after) in seen {
            assert_eq!((first, again, status, after), ((4, status::NOT_CONVERGED), 4, status::NOT_CONVERGED, 4));
        }
    }
}

/// Number and size of the messages of an iteration are those of docs/guides/mpi.md.
#[test]
fn messages_are_counted() {
    let (nx, ny) = (301, 203);
    let a = random_m_matrix(nx, ny, false, 5);
    let b = random_rhs(a.len(), 7);
    let boxes = bricks(nx, ny, 1, 2);
    let sent = |iterations: usize| {
        on_ranks(2, |rank, comm| {
            let ranked = Ranked::try_new(nx as i64, ny as i64, &boxes[rank], comm).unwrap();
            let options = format!("precision=f64 cycle=v compute_block=8 rel_tol=1e-14 max_iter={iterations}");
            ranked.solver.options(&options).unwrap();
            ranked.factorize(&a).unwrap();
            ranked.solve(&b, &vec![0.0; b.len()]).unwrap();
            assert_eq!(ranked.solver.iterations(), iterations);
            [1110, 1111].map(|key| ranked.solver.int(key))
        })
    };
    let (few, many) = (sent(4), sent(9));
    // Two grids are distributed, with 301 x 203 and 150 x 101 points. Half a row, padded to a multiple of eight, has
    // 152 and 80 values.
    let (first, second, rows) = (152, 80, [[50, 25], [52, 26]]);
    for rank in 0..2 {
        let [messages, bytes] = [0, 1].map(|k| (many[rank][k] - few[rank][k]) / 5);
        // The five messages transfer values of b1 of the first grid, values of the second grid, the grid of 75 x 50
        // points, rho with |r|^2, and sigma.
        assert_eq!(messages, 5, "rank {rank}");
        // A rank sends four rows of the second grid to the next rank, or three to the previous rank.
        let round = if rank == 0 { 4 } else { 3 };
        // Each rank computes half of the 50 rows of the third grid.
        let kept = 25;
        let [of_first, of_second] = rows[rank];
        let values = first + round * second + 75 * kept + (of_first + of_second + of_first) + of_first;
        assert_eq!(bytes, 8 * values, "rank {rank}");
    }
}

/// One handle with a sequence of matrices: regular, singular, with other options, and with other stencils.
#[test]
fn matrices_in_turn() {
    let (nx, ny) = (120, 97);
    let regular = random_m_matrix(nx, ny, false, 8);
    let closed = neumann_var(nx, ny);
    let nine = random_m_matrix(nx, ny, true, 3);
    let in_range = closed.multiply(&random_rhs(closed.len(), 5));
    let b = random_rhs(regular.len(), 4);
    let steps: [(&Stencil, &[f64], &str); 7] = [
        (&regular, &b, "precision=f64"),
        (&closed, &in_range, "precision=f64"),
        (&nine, &b, "precision=f64"),
        (&regular, &b, "precision=bf16"),
        (&regular, &b, "levels=2"),
        (&regular, &b, "levels=0 cycle=aggregation precision=f64"),
        (&regular, &b, "cycle=amli"),
    ];
    let run = |boxes: &[Vec<Box4>]| {
        let parts = on_ranks(boxes.len(), |rank, comm| {
            let ranked = Ranked::try_new(nx as i64, ny as i64, &boxes[rank], comm).unwrap();
            let one = |(a, b, options): &(&Stencil, &[f64], &str)| {
                ranked.solver.options(options).unwrap();
                ranked.factorize(a).unwrap();
                ranked.solve(b, &vec![0.0; b.len()]).unwrap().1
            };
            steps.iter().map(one).collect::<Vec<_>>()
        });
        let whole = |step: usize| {
            let mut x = vec![0.0; nx * ny];
            for (rank, parts) in parts.iter().enumerate() {
                boxes[rank].iter().zip(&parts[step]).for_each(|(b, part)| paste(&mut x, nx, *b, part));
            }
            bits(&x)
        };
        (0..steps.len()).map(whole).collect::<Vec<_>>()
    };
    let one = run(&bricks(nx, ny, 1, 1));
    for boxes in [bricks(nx, ny, 1, 3), bricks(nx, ny, 2, 2)] {
        for (k, (found, expected)) in run(&boxes).iter().zip(&one).enumerate() {
            assert!(found == expected, "{}", steps[k].2);
        }
    }
}

/// Points outside all boxes are land. They act as nodes without couplings, whose center does not affect the choice of
/// formats.
#[test]
fn points_in_no_box_are_land() {
    let (nx, ny) = (90, 70);
    let mut a = random_m_matrix(nx, ny, false, 4);
    let dry = |i: usize, j: usize| i >= 30 && j < 35;
    for j in 0..ny {
        for i in (0..nx).filter(|&i| dry(i, j)) {
            a.decouple(i, j, 1.0);
        }
    }
    let smallest = (0..a.len()).filter(|p| !dry(p % nx, p / nx)).map(|p| a.center[p]).fold(f64::INFINITY, f64::min);
    let mut whole = a.clone();
    let mut b = random_rhs(a.len(), 8);
    for p in (0..a.len()).filter(|p| dry(p % nx, p / nx)) {
        (whole.center[p], a.center[p], b[p]) = (smallest, f64::NAN, 0.0);
    }
    let plain = "fusion=off precision=f64 cycle=v";
    let solver = Solver::of(&whole, plain);
    let (x, _) = solver.solve_from_zero(&b);
    for boxes in [
        vec![vec![[0, 0, 30, 35]], vec![[0, 35, 90, 35]]],
        vec![vec![[0, 35, 90, 35], [0, 0, 30, 10]], vec![], vec![[0, 10, 30, 25]]],
    ] {
        let (found, history, _) = distributed(&a, &b, plain, &boxes);
        assert!(history == bits(&solver.history()) && bits(&found) == bits(&x));
    }
    // A coupling to land is an error on all ranks, with its location.
    let (mut wrong, boxes) = (a.clone(), [vec![[0, 0, 30, 35]], vec![[0, 35, 90, 35]]]);
    wrong.east[17 * nx + 29] = -1.0;
    let refusals = on_ranks(2, |rank, comm| {
        Ranked::try_new(nx as i64, ny as i64, &boxes[rank], comm).unwrap().factorize(&wrong).unwrap_err()
    });
    for refusal in refusals {
        refusal.expect(status::ARGUMENT, &["east is -1e0 at (29, 17)", "in no box"]);
    }
}

/// apply and multiply on many ranks are bitwise identical to one rank.
#[test]
fn apply_and_multiply_as_on_one() {
    let a = random_m_matrix(97, 65, false, 6);
    let v = random_rhs(a.len(), 3);
    let solver = Solver::of(&a, "");
    let expected = [bits(&solver.apply(&v)), bits(&solver.multiply(&v))];
    let boxes = bricks(97, 65, 2, 2);
    let parts = on_ranks(4, |rank, comm| {
        let ranked = Ranked::try_new(97, 65, &boxes[rank], comm).unwrap();
        ranked.factorize(&a).unwrap();
        [ranked.apply(&v).unwrap().1, ranked.multiply(&v).unwrap().1]
    });
    for (k, expected) in expected.iter().enumerate() {
        let mut whole = vec![0.0; a.len()];
        for (rank, part) in parts.iter().enumerate() {
            paste(&mut whole, 97, boxes[rank][0], &part[k][0]);
        }
        let whole = bits(&whole);
        let differ: Vec<usize> = (0..whole.len()).filter(|&p| whole[p] != expected[p]).collect();
        assert!(differ.is_empty(), "{k}: {} differ, the first at {}, {}", differ.len(), differ[0] % 97, differ[0] / 97);
    }
}

/// If one rank has an error, all ranks return the same status and can continue together.
#[test]
fn errors_are_returned_on_all_ranks() {
    let (nx, ny) = (40, 30);
    let (a, boxes) = (poisson(nx, ny), bricks(nx, ny, 1, 3));
    let b = random_rhs(a.len(), 4);
    let zero = vec![0.0; a.len()];
    let mut not_finite = b.clone();
    not_finite[25 * nx + 7] = f64::NAN;
    let mut negative = a.clone();
    negative.center[12 * nx + 3] = -1.0;
    let statuses = on_ranks(3, |rank, comm| {
        let mut seen = Vec::new();
        let ranked = Ranked::try_new(40, 30, &boxes[rank], comm).unwrap();
        let mut note = |result: Result<i32, common::Failure>| {
            seen.push(
                result.map_or_else(|failure| (failure.status, failure.message), |status| (status, String::new())),
            );
        };
        // The ranks solve before a factorization.
        note(ranked.solve(&b, &zero).map(|(status, _)| status));
        note(ranked.factorize(&negative));
        note(ranked.factorize(&a));
        note(ranked.solve(&not_finite, &zero).map(|(status, _)| status));
        // Different options on one rank.
        ranked.solver.set_real(key::REL_TOL, if rank == 1 { 1e-3 } else { 1e-6 }).unwrap();
        note(ranked.solve(&b, &zero).map(|(status, _)| status));
        ranked.solver.set_real(key::REL_TOL, 1e-6).unwrap();
        // A different function on one rank.
        note(if rank == 2 { ranked.apply(&b).map(|done| done.0) } else { ranked.solve(&b, &zero).map(|done| done.0) });
        // A stale factorization on one rank.
        if rank == 1 {
            ranked.solver.options("cycle=amli").unwrap();
        }
        note(ranked.solve(&b, &zero).map(|(status, _)| status));
        ranked.solver.options("cycle=auto").unwrap();
        note(ranked.factorize(&a));
        note(ranked.solve(&b, &zero).map(|(status, _)| status));
        seen
    });
    let of = |k: usize| statuses.iter().map(|seen| seen[k].clone()).collect::<Vec<_>>();
    let expected = [
        (status::STATE, "rrb_factorize must come"),
        (status::MATRIX, "center(3, 12) = -1 is not positive"),
        (status::OK, ""),
        (status::NOT_FINITE, "b holds NaN at (7, 25)"),
        (status::ARGUMENT, "options differ between ranks"),
        (status::STATE, "one calls rrb_solve, another calls rrb_apply"),
        (status::STATE, ""),
        (status::OK, ""),
        (status::OK, ""),
    ];
    for (k, (status, words)) in expected.into_iter().enumerate() {
        for (rank, (found, message)) in of(k).into_iter().enumerate() {
            assert!(found == status && message.contains(words), "call {k}, rank {rank}: {found}, {message}");
        }
    }
    let stale = "an option that acts at factorize has changed";
    assert!(of(6)[0].1.contains(&format!("rank 1: {stale}")) && of(6)[1].1.starts_with(stale), "{}", of(6)[0].1);
}

#[test]
fn boxes_that_cannot_be() {
    let tried = |boxes: &[Vec<Box4>], extents: &[(i64, i64)]| {
        on_ranks(boxes.len(), |rank, comm| {
            let (nx, ny) = extents[rank % extents.len()];
            Ranked::try_new(nx, ny, &boxes[rank], comm).err().expect("refused")
        })
    };
    for failure in tried(&[vec![[0, 0, 5, 5]], vec![[5, 0, 5, 5], [4, 3, 2, 2]]], &[(10, 5)]) {
        failure.expect(status::ARGUMENT, &["box 0 of rank 0 and box 1 of rank 1 must not overlap"]);
    }
    for failure in tried(&[vec![], vec![]], &[(10, 5)]) {
        failure.expect(status::ARGUMENT, &["no rank has a box"]);
    }
    for failure in tried(&[vec![[0, 0, 5, 5]], vec![[5, 0, 5, 5]]], &[(10, 5), (10, 6)]) {
        failure.expect(status::ARGUMENT, &["the same nx and ny", "rank 1 passed 10 x 6"]);
    }
    let outside = tried(&[vec![[0, 0, 5, 5]], vec![[5, 0, 6, 5]]], &[(10, 5)]);
    outside[0].expect(status::ARGUMENT, &["rank 1: box 0", "lie in [0, 10)"]);
    outside[1].expect(status::ARGUMENT, &["box 0", "lie in [0, 10)"]);
    // Invalid extents on one rank.
    let none = tried(&[vec![[0, 0, 5, 5]], vec![[5, 0, 5, 5]]], &[(10, 5), (0, 5)]);
    none[0].expect(status::DIMENSION, &["rank 1: nx must be"]);
    none[1].expect(status::DIMENSION, &["nx must be"]);
}

/// The recursion grid of 127 x 130 nodes has strips of 32 and 33 rows. Only a rank with 33 rows divides its strip among
/// threads.
#[test]
fn recursion_that_one_team_shares() {
    let a = random_m_matrix(511, 520, false, 5);
    let b = random_rhs(a.len(), 7);
    let of = |py| distributed(&a, &b, "comm_timeout=20", &bricks(511, 520, 1, py));
    let (one, two) = (of(1), of(2));
    assert!(bits(&one.0) == bits(&two.0) && one.1 == two.1 && one.2 == status::OK);
}

/// Calls on different handles with a common table are detected.
#[test]
fn calls_of_another_handle() {
    let (a, boxes) = (poisson(20, 20), bricks(20, 20, 1, 2));
    let b = random_rhs(a.len(), 4);
    let zero = vec![0.0; a.len()];
    on_ranks(2, |rank, comm| {
        let [first, second] = [0; 2].map(|_| {
            let ranked = Ranked::try_new(20, 20, &boxes[rank], comm).unwrap();
            ranked.factorize(&a).unwrap();
            ranked
        });
        let other = if rank == 0 { &first } else { &second };
        other.solve(&b, &zero).unwrap_err().expect(status::STATE, &["of another handle"]);
    });
}

/// If one rank rejects a matrix, the factorization of the other ranks is discarded too.
#[test]
fn a_refusal_after_the_factorization() {
    let (a, boxes) = (random_m_matrix(120, 90, false, 2), bricks(120, 90, 1, 2));
    let b = random_rhs(a.len(), 4);
    let mut outward = a.clone();
    *outward.north.last_mut().expect("a node") = -1.0;
    let seen = on_ranks(2, |rank, comm| {
        let ranked = Ranked::try_new(120, 90, &boxes[rank], comm).unwrap();
        ranked.solver.options("check_input=2 comm_timeout=10").unwrap();
        let refused = ranked.factorize(&outward).unwrap_err();
        ranked.factorize(&a).unwrap();
        (refused.status, ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0)
    });
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].1, status::OK);
}

/// A rank whose messages fail during a solve reports this at once. The other ranks time out, and x is unchanged.
#[test]
fn a_rank_that_fails_in_mid_solve() {
    let (a, boxes) = (random_m_matrix(150, 140, false, 2), bricks(150, 140, 1, 3));
    let b = random_rhs(a.len(), 4);
    for starts in [1, 2, 7, 20, 51] {
        on_ranks(3, |rank, comm| {
            let late = Late::new(comm, 5 + rank as u64);
            let ranked = Ranked::try_new(150, 140, &boxes[rank], &late.table()).unwrap();
            ranked.solver.options("comm_timeout=0.5 cycle=v").unwrap();
            ranked.factorize(&a).unwrap();
            if rank == 1 {
                late.fail_after(starts);
            }
            let start = Instant::now();
            let failure = ranked.solve(&b, &vec![0.25; b.len()]).unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(20));
            failure.expect(-60, &[if rank == 1 { "start of the communicator returned 7" } else { "has waited" }]);
            ranked.solve(&b, &vec![0.0; b.len()]).unwrap_err().expect(-60, &["destroy the handle"]);
        });
    }
}

/// A missing rank is detected after `comm_timeout`. Afterwards the handle can only be destroyed.
#[test]
fn a_missing_rank_is_missed_in_time() {
    let (a, boxes) = (poisson(20, 20), bricks(20, 20, 1, 3));
    let b = random_rhs(a.len(), 4);
    let zero = vec![0.0; a.len()];
    on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(20, 20, &boxes[rank], comm).unwrap();
        ranked.solver.options("comm_timeout=0.3").unwrap();
        ranked.factorize(&a).unwrap();
        if rank == 1 {
            return;
        }
        let start = Instant::now();
        let failure = ranked.solve(&b, &zero).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(20));
        failure.expect(-60, &["has waited", "comm_timeout"]);
        let again = Instant::now();
        ranked.solve(&b, &zero).unwrap_err().expect(-60, &["has waited", "destroy the handle"]);
        ranked.factorize(&a).unwrap_err().expect(-60, &["destroy the handle"]);
        assert!(again.elapsed() < Duration::from_millis(200));
    });
}

/// A monitor on one rank stops all ranks in the same iteration.
#[test]
fn one_monitor_stops_all() {
    unsafe extern "C-unwind" fn stop(_: *mut std::ffi::c_void, iteration: i64, _: f64) -> i32 {
        i32::from(iteration == 3)
    }
    let (a, boxes) = (random_m_matrix(120, 90, false, 2), bricks(120, 90, 3, 1));
    let b = random_rhs(a.len(), 4);
    let ended = on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(120, 90, &boxes[rank], comm).unwrap();
        ranked.solver.options("rel_tol=1e-12").unwrap();
        if rank == 2 {
            // SAFETY: a live handle and a function of the right signature.
            unsafe { common::rrb_set_monitor(ranked.solver.handle, Some(stop), std::ptr::null_mut()) };
        }
        ranked.factorize(&a).unwrap();
        (ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0, ranked.solver.iterations())
    });
    assert_eq!(ended, [(status::STOPPED, 3); 3]);
}

/// The functions without `_boxes` accept the arrays of a rank's only box.
#[test]
fn plain_functions_for_one_box() {
    let (nx, ny) = (40, 31);
    let a = random_m_matrix(nx, ny, false, 2);
    let b = random_rhs(a.len(), 4);
    let expected = bits(&Solver::of(&a, "").solve_from_zero(&b).0);
    let rows = [0..20, 20..20, 20..31];
    let parts = on_ranks(3, |rank, comm| {
        let rows = rows[rank].clone();
        let boxes: &[Box4] = &[[0, rows.start, nx, rows.len()]];
        let ranked = Ranked::try_new(nx as i64, ny as i64, if rows.is_empty() { &[] } else { boxes }, comm).unwrap();
        let part = |array: &[f64]| array[rows.start * nx..rows.end * nx].to_vec();
        ranked.solver.factorize_arrays(&part(&a.center), &part(&a.east), &part(&a.north), None).unwrap();
        let mut x = vec![0.0; rows.len() * nx];
        ranked.solver.solve(&part(&b), &mut x).unwrap();
        let [messages, bytes] = [1110, 1111].map(|key| ranked.solver.int(key));
        assert!(messages > 0 && bytes >= 0);
        x
    });
    assert_eq!(bits(&parts.concat()), expected);
    let two: &[Box4] = &[[0, 0, nx, 20], [0, 20, nx, 11]];
    on_ranks(1, |_, comm| {
        let ranked = Ranked::try_new(nx as i64, ny as i64, two, comm).unwrap();
        let failure = ranked.solver.factorize_arrays(&a.center, &a.east, &a.north, None).unwrap_err();
        failure.expect(status::STATE, &["2 boxes", "_boxes"]);
    });
}
