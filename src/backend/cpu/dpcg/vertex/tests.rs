use super::*;
use crate::backend::reference::dpcg::vertex::tests::System;
use crate::runtime::team::Team;
use rrbsolver_problems::two_phase::{SplitMix, TwoPhase};

/// Returns z = M^-1 r, computed by a team, followed by <r, z>.
fn applied<T: Real + Number>(of: &Vertex<T>, team: &mut Team, r: &[f64]) -> Vec<f64> {
    let z = Shared::<f64>::zeroed(r.len()).unwrap();
    let magnitude = max_abs(r);
    let apply = |me: Me| {
        // SAFETY: each thread requests its own cells.
        of.apply(me, r, magnitude, |cells| unsafe { z.slice_mut(cells.start, cells.len()) })
    };
    let product = team.run(|me| _ = apply(me), apply).unwrap();
    // SAFETY: the run has ended.
    let z = unsafe { z.slice(0, r.len()) }.to_vec();
    let expected: f64 = r.iter().zip(&z).map(|(r, z)| r * z).sum();
    // Rounding of a sum of positive and negative terms.
    assert!((product - expected).abs() <= 1e-9 * expected.abs(), "{product} {expected}");
    [z, vec![product]].concat()
}

fn made<T: Real + Number>(system: &System, team: &mut Team, sweeps: usize, bounds: Bounds) -> Vertex<T> {
    let of = Vertex::with(system.cells, sweeps, team.members(), bounds).unwrap();
    let setup = |me: Me| of.setup(me, &system.view());
    // The second setup must not depend on the first.
    for _ in 0..2 {
        team.run(|me| setup(me).unwrap(), setup).unwrap().unwrap();
    }
    of
}

fn random(n: usize) -> Vec<f64> {
    let mut random = SplitMix(11);
    (0..n).map(|_| 2.0 * random.unit() - 1.0).collect()
}

/// Returns the largest difference to the reference implementation, relative to the largest value.
fn difference<T: Real + Number>(system: &System, sweeps: usize, bounds: Bounds) -> f64 {
    let r = random(system.cells.count());
    let mut expected = vec![0.0; r.len()];
    reference::Vertex::<T>::with(&system.view(), sweeps, bounds).unwrap().cycle(&r, &mut expected);
    let mut found: Vec<Vec<f64>> = Vec::new();
    for members in [1, 2, 3, 7] {
        let mut team = Team::new(members).unwrap();
        let of = made::<T>(system, &mut team, sweeps, bounds);
        found.push(applied(&of, &mut team, &r));
        assert_eq!(applied(&of, &mut team, &r), found[0], "{members} members");
    }
    assert!(found.iter().all(|z| *z == found[0]));
    let largest = expected.iter().fold(0.0, |most: f64, z| most.max(z.abs()));
    let apart = expected.iter().zip(&found[0]).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, f64::max) / largest
}

#[test]
fn as_the_reference_on_awkward_sizes() {
    let sizes =
        [[1, 1, 1], [2, 2, 2], [1, 40, 30], [50, 1, 1], [1, 1, 7], [13, 11, 9], [16, 9, 33], [5, 64, 3], [37, 20, 18]];
    for size in sizes {
        for (sweeps, excess, coarsest) in [(1, 0.0, 1), (2, 0.0, 20), (1, 0.1, 8), (2, 0.1, 300)] {
            // `semi`: all directions are coarsened, however weak their couplings are.
            let system = System::random(size, 3, excess, |place, d| !(place[d] == 4 && d == 1));
            let bounds = Bounds { semi: 1e9, coarsest, ..Bounds::default() };
            let name = format!("{size:?}, V({sweeps},{sweeps}), excess {excess}");
            let (double, single) =
                (difference::<f64>(&system, sweeps, bounds), difference::<f32>(&system, sweeps, bounds));
            // Rounding times the condition number for conductances that differ by a factor of 1e6.
            assert!(double <= 1e-9, "{name}: {double:e}");
            assert!(single <= 1e-2, "{name}, single: {single:e}");
        }
    }
}

#[test]
fn as_the_reference_on_two_phases() {
    for (set, contrast) in [("9", 1e-3), ("9;dir=top", 1e-3), ("surf;obs=box", 1e-3), ("9;asp=4", 1e-3), ("dam", 1.0)] {
        let system = System::of(&TwoPhase::new(set, [34, 27, 30], contrast));
        for sweeps in [1, 2] {
            let bounds = Bounds { coarsest: 100, ..Bounds::default() };
            let double = difference::<f64>(&system, sweeps, bounds);
            let single = difference::<f32>(&system, sweeps, bounds);
            assert!(double <= 1e-10, "{set}: {double:e}");
            // Row sums of coarse matrices around obstacles are close to the limit `ZERO_ROW_SUM`.
            assert!(single <= 1e-2, "{set}, single: {single:e}");
        }
    }
}
