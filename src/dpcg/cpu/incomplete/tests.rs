use super::*;
use crate::base::reduce::max_abs;
use crate::base::shared::Shared;
use crate::base::team::Team;
use crate::dpcg::cpu::tests::{agrees_with_golden, count_iterations, runs_all_rows, view_system};
use crate::stencil::cells::Cells;
use rrbsolver_oracle::{System, incomplete as oracle};
use rrbsolver_problems::two_phase::TwoPhase;

/// Applies M^-1 to b twice with a team, and returns the second result.
fn apply_twice(factors: &Incomplete, a: &SevenPoints, threads: usize, b: &[f64]) -> Vec<f64> {
    let (r, z) = (Shared::zeroed(b.len()).unwrap(), Shared::zeroed(b.len()).unwrap());
    // SAFETY: no team runs yet.
    unsafe { r.slice_mut(0, b.len()) }.copy_from_slice(b);
    let apply_on_thread = |thread: TeamThread| {
        for application_index in 0..2 {
            thread.barrier();
            // SAFETY: only this call uses r and z.
            unsafe { factors.apply(thread, application_index, a, &r, &z) };
        }
    };
    Team::new(threads).unwrap().run(apply_on_thread, apply_on_thread).unwrap();
    // SAFETY: no team runs any more.
    unsafe { z.slice(0, b.len()) }.to_vec()
}

/// Returns the PCG iterations for a two-phase problem.
fn count_incomplete_iterations(problem: &TwoPhase, omega: f64) -> usize {
    let system = System::of(problem);
    let factors = Incomplete::factorize(&view_system(&system), omega).unwrap();
    count_iterations(problem, &mut |r, z| z.copy_from_slice(&apply_twice(&factors, &view_system(&system), 1, r)))
}

/// The result is bitwise identical for any number of threads.
#[test]
fn matches_the_oracle_for_any_number_of_threads() {
    for size in [[50, 27, 13], [1, 19, 11], [300, 1, 4], [7, 3, 1], [2, 2, 2], [17, 5, 40]] {
        let problem = TwoPhase::new("9;dir=top", size, 1e-3);
        let (system, b) = (System::of(&problem), problem.rhs("rand"));
        let incomplete = Incomplete::factorize(&view_system(&system), 0.97).unwrap();
        let single_thread_z = apply_twice(&incomplete, &view_system(&system), 1, &b);
        for threads in [2, 3, 7] {
            assert_eq!(
                apply_twice(&incomplete, &view_system(&system), threads, &b),
                single_thread_z,
                "{size:?}, {threads} threads"
            );
        }
        let mut expected = vec![0.0; b.len()];
        oracle::Incomplete::new(&system, 0.97).apply(&system, &b, &mut expected);
        let largest_difference =
            single_thread_z.iter().zip(&expected).map(|(z, expected)| (z - expected).abs()).fold(0.0, f64::max);
        // The bound is the rounding error times the condition number.
        assert!(largest_difference <= 1e-11 * max_abs(&expected), "{size:?}: {largest_difference:e}");
    }
}

/// Each entry contains the number of cells per direction, the set of bubbles, and the iteration counts of an
/// independent prototype with IC(0) and with RIC(0.97). The contrast is 1e-3, the right-hand side is `rand`, and there
/// is no deflation.
const GOLDEN_ROWS: [(usize, &str, usize, usize); 7] = [
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
    for (n, bubble_set, ic, ric) in &GOLDEN_ROWS[..if runs_all_rows() { GOLDEN_ROWS.len() } else { 1 }] {
        let problem = TwoPhase::new(bubble_set, [*n; 3], 1e-3);
        for (omega, golden) in [(0.0, *ic), (0.97, *ric)] {
            let count = count_incomplete_iterations(&problem, omega);
            assert!(
                agrees_with_golden(count, golden),
                "set {bubble_set}, {n}^3, omega {omega}: {count} instead of {golden}"
            );
        }
    }
}

/// With omega = 1, M e = A e for the vector e of ones. `apply` must therefore map A e to e.
#[test]
fn omega_1_preserves_row_sums() {
    let system = System::of(&TwoPhase::new("9;dir=top", [13, 9, 11], 1e-3));
    let r = system.multiply(&vec![1.0; system.count()]);
    let z = apply_twice(&Incomplete::factorize(&view_system(&system), 1.0).unwrap(), &view_system(&system), 1, &r);
    let error = z.iter().map(|z| (z - 1.0).abs()).fold(0.0, f64::max);
    // The bound is the rounding error times the condition number.
    assert!(error < 1e-9, "{error:e}");
}

/// On a line of cells there is no fill, so M = A.
#[test]
fn factors_are_exact_on_a_line_of_cells() {
    let lines = [Cells { nx: 17, ny: 1, nz: 1 }, Cells { nx: 1, ny: 17, nz: 1 }, Cells { nx: 1, ny: 1, nz: 17 }];
    for (d, cells) in lines.into_iter().enumerate() {
        let (zeros, center) = (vec![0.0; 17], vec![2.5; 17]);
        let coupling: Vec<f64> = (0..17).map(|i| if i < 16 { -1.0 } else { 0.0 }).collect();
        let forward = [0, 1, 2].map(|e| if e == d { &coupling[..] } else { &zeros[..] });
        let a = SevenPoints { cells, center: &center, forward };
        let x: Vec<f64> = (0..17).map(|i| f64::from(i * i % 7)).collect();
        let system = System { size: cells.size(), center: center.clone(), forward: forward.map(<[f64]>::to_vec) };
        let z = apply_twice(&Incomplete::factorize(&a, 0.5).unwrap(), &a, 1, &system.multiply(&x));
        assert!(x.iter().zip(&z).all(|(x, z)| (x - z).abs() < 1e-13), "{z:?}");
    }
}

#[test]
fn obstacles_and_an_open_top_are_factorized() {
    for (bubble_set, contrast) in [("surf;obs=box", 1e-3), ("9;dir=top", 1e-6), ("9;obs=hole", 1e-3), ("9;asp=4", 1e-6)]
    {
        let problem = TwoPhase::new(bubble_set, [20, 17, 23], contrast);
        for omega in [0.0, 0.97] {
            count_incomplete_iterations(&problem, omega);
        }
    }
}

/// In exact arithmetic, the last pivot is zero. The computed pivot must be rejected, whatever its rounding error is.
#[test]
fn omega_1_is_rejected_for_singular_matrices() {
    let bubble_sets = [("1", 1.0), ("1", 1e-3), ("9", 1e-6), ("27t", 1e-3), ("r200", 1e-6), ("surf;obs=box", 1e-3)];
    for (bubble_set, contrast) in bubble_sets {
        for size in [[16; 3], [33, 20, 27], [5, 1, 7], [2, 2, 2]] {
            let error =
                Incomplete::factorize(&view_system(&System::of(&TwoPhase::new(bubble_set, size, contrast))), 1.0).err();
            let error = error.unwrap_or_else(|| panic!("accepted: {bubble_set}, {size:?}"));
            assert_eq!(error.status(), RRB_ERR_MATRIX);
            assert!(error.to_string().contains("ric_omega below 1"), "{error}");
        }
    }
    let open_system = System::of(&TwoPhase::new("9;dir=top", [33, 20, 27], 1e-6));
    assert!(Incomplete::factorize(&view_system(&open_system), 1.0).is_ok(), "a regular matrix has pivots");
}
