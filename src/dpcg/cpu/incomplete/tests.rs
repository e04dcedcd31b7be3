use super::*;
use crate::base::reduce::max_abs;
use crate::base::shared::Shared;
use crate::base::team::Team;
use crate::dpcg::cpu::tests::{agrees_with_golden, all_rows, iterations, view};
use crate::stencil::cells::Cells;
use rrbsolver_oracle::{System, incomplete as oracle};
use rrbsolver_problems::two_phase::TwoPhase;

/// Applies M^-1 to b twice with a team, and returns the second result.
fn applied(of: &Incomplete, a: &SevenPoints, members: usize, b: &[f64]) -> Vec<f64> {
    let (r, z) = (Shared::zeroed(b.len()).unwrap(), Shared::zeroed(b.len()).unwrap());
    // SAFETY: no team runs yet.
    unsafe { r.slice_mut(0, b.len()) }.copy_from_slice(b);
    let work = |me: Me| {
        for turn in 0..2 {
            me.barrier();
            // SAFETY: only this call uses r and z.
            unsafe { of.apply(me, turn, a, &r, &z) };
        }
    };
    Team::new(members).unwrap().run(work, work).unwrap();
    // SAFETY: no team runs any more.
    unsafe { z.slice(0, b.len()) }.to_vec()
}

/// Returns the PCG iterations for a two-phase problem.
fn count(problem: &TwoPhase, omega: f64) -> usize {
    let system = System::of(problem);
    let factors = Incomplete::factorize(&view(&system), omega).unwrap();
    iterations(problem, &mut |r, z| z.copy_from_slice(&applied(&factors, &view(&system), 1, r)))
}

/// The result is bitwise identical for any number of threads.
#[test]
fn matches_the_oracle_for_any_number_of_threads() {
    for size in [[50, 27, 13], [1, 19, 11], [300, 1, 4], [7, 3, 1], [2, 2, 2], [17, 5, 40]] {
        let problem = TwoPhase::new("9;dir=top", size, 1e-3);
        let (system, b) = (System::of(&problem), problem.rhs("rand"));
        let incomplete = Incomplete::factorize(&view(&system), 0.97).unwrap();
        let alone = applied(&incomplete, &view(&system), 1, &b);
        for members in [2, 3, 7] {
            assert_eq!(applied(&incomplete, &view(&system), members, &b), alone, "{size:?}, {members} members");
        }
        let mut expected = vec![0.0; b.len()];
        oracle::Incomplete::new(&system, 0.97).apply(&system, &b, &mut expected);
        let off = alone.iter().zip(&expected).map(|(z, expected)| (z - expected).abs()).fold(0.0, f64::max);
        // The bound is the rounding error times the condition number.
        assert!(off <= 1e-11 * max_abs(&expected), "{size:?}: {off:e}");
    }
}

/// Each entry contains the number of cells per direction, the set of bubbles, and the iteration counts of an
/// independent prototype with IC(0) and with RIC(0.97). The contrast is 1e-3, the right-hand side is `rand`, and there
/// is no deflation.
const GOLDEN: [(usize, &str, usize, usize); 7] = [
    (64, "1", 134, 77),
    (64, "8", 197, 102),
    (64, "9", 232, 118),
    (64, "27", 303, 160),
    (64, "9s", 329, 169),
    (64, "27t", 241, 150),
    (128, "9", 450, 242),
];

#[test]
fn iteration_counts_match_the_golden_rows() {
    for (n, set, ic, ric) in &GOLDEN[..if all_rows() { GOLDEN.len() } else { 1 }] {
        let problem = TwoPhase::new(set, [*n; 3], 1e-3);
        for (omega, golden) in [(0.0, *ic), (0.97, *ric)] {
            let count = count(&problem, omega);
            assert!(agrees_with_golden(count, golden), "set {set}, {n}^3, omega {omega}: {count} instead of {golden}");
        }
    }
}

/// With omega = 1, M e = A e for the vector e of ones. `apply` must therefore map A e to e.
#[test]
fn omega_1_preserves_row_sums() {
    let system = System::of(&TwoPhase::new("9;dir=top", [13, 9, 11], 1e-3));
    let r = system.multiply(&vec![1.0; system.count()]);
    let z = applied(&Incomplete::factorize(&view(&system), 1.0).unwrap(), &view(&system), 1, &r);
    let error = z.iter().map(|z| (z - 1.0).abs()).fold(0.0, f64::max);
    // The bound is the rounding error times the condition number.
    assert!(error < 1e-9, "{error:e}");
}

/// On a line of cells there is no fill, so M = A.
#[test]
fn on_a_line_of_cells_the_factors_are_exact() {
    let lines = [Cells { nx: 17, ny: 1, nz: 1 }, Cells { nx: 1, ny: 17, nz: 1 }, Cells { nx: 1, ny: 1, nz: 17 }];
    for (d, cells) in lines.into_iter().enumerate() {
        let (zero, center) = (vec![0.0; 17], vec![2.5; 17]);
        let coupling: Vec<f64> = (0..17).map(|i| if i < 16 { -1.0 } else { 0.0 }).collect();
        let forward = [0, 1, 2].map(|e| if e == d { &coupling[..] } else { &zero[..] });
        let a = SevenPoints { cells, center: &center, forward };
        let x: Vec<f64> = (0..17).map(|i| f64::from(i * i % 7)).collect();
        let system = System { size: cells.size(), center: center.clone(), forward: forward.map(<[f64]>::to_vec) };
        let z = applied(&Incomplete::factorize(&a, 0.5).unwrap(), &a, 1, &system.multiply(&x));
        assert!(x.iter().zip(&z).all(|(x, z)| (x - z).abs() < 1e-13), "{z:?}");
    }
}

#[test]
fn obstacles_and_an_open_top_are_factorized() {
    for (set, contrast) in [("surf;obs=box", 1e-3), ("9;dir=top", 1e-6), ("9;obs=hole", 1e-3), ("9;asp=4", 1e-6)] {
        let problem = TwoPhase::new(set, [20, 17, 23], contrast);
        for omega in [0.0, 0.97] {
            count(&problem, omega);
        }
    }
}

/// In exact arithmetic, the last pivot is zero. The computed pivot must be rejected, whatever its rounding error is.
#[test]
fn omega_1_is_rejected_for_singular_matrices() {
    let sets = [("1", 1.0), ("1", 1e-3), ("9", 1e-6), ("27t", 1e-3), ("r200", 1e-6), ("surf;obs=box", 1e-3)];
    for (set, contrast) in sets {
        for size in [[16; 3], [33, 20, 27], [5, 1, 7], [2, 2, 2]] {
            let error = Incomplete::factorize(&view(&System::of(&TwoPhase::new(set, size, contrast))), 1.0).err();
            let error = error.unwrap_or_else(|| panic!("accepted: {set}, {size:?}"));
            assert_eq!(error.status(), RRB_ERR_MATRIX);
            assert!(error.to_string().contains("ric_omega below 1"), "{error}");
        }
    }
    let open = System::of(&TwoPhase::new("9;dir=top", [33, 20, 27], 1e-6));
    assert!(Incomplete::factorize(&view(&open), 1.0).is_ok(), "a regular matrix has pivots");
}
