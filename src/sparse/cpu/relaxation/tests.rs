//! Tests of sweeps by teams: results must be bitwise identical to sequential sweeps.

use super::*;
use crate::base::team::Team;

/// Rows of a matrix: (column, value) with ascending columns.
type Entries = Vec<Vec<(usize, f64)>>;

/// Pseudorandom values in [-1, 1): the upper bits of a linear congruential generator modulo 2^64.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn value(&mut self) -> f64 {
        self.bits() as f64 / (1_u64 << 30) as f64 - 1.0
    }
}

/// An unsymmetric, diagonally dominant matrix with about `off_diagonal` off-diagonal entries per row; every ninth is an
/// explicit zero.
fn random(n: usize, off_diagonal: usize) -> Entries {
    let mut draw = Draw(n as u64);
    let row = |i: usize| {
        let mut row = std::collections::BTreeMap::from([(i, off_diagonal as f64 + 1.5 + draw.value())]);
        for k in 0..off_diagonal {
            let (j, value) = (draw.bits() as usize % n, draw.value());
            row.entry(j).or_insert(if (i + k).is_multiple_of(9) { 0.0 } else { value });
        }
        row.into_iter().collect()
    };
    (0..n).map(row).collect()
}

/// An unsymmetric 5-point stencil on an n x n grid, x fastest.
fn grid(n: usize) -> Entries {
    let row = |p: usize| {
        let (i, j) = (p % n, p / n);
        let there = [j > 0, i > 0, true, i + 1 < n, j + 1 < n];
        let to = [p.wrapping_sub(n), p.wrapping_sub(1), p, p + 1, p + n];
        let entries = to.into_iter().zip([-1.05, -1.1, 4.2, -0.9, -0.95]);
        entries.zip(there).filter(|(_, there)| *there).map(|(entry, _)| entry).collect()
    };
    (0..n * n).map(row).collect()
}

/// Row 0 has entries in all columns, and column 0 has entries in all rows.
fn arrow(n: usize) -> Entries {
    let first = (0..n).map(|j| (j, if j == 0 { n as f64 } else { -0.5 })).collect();
    std::iter::once(first).chain((1..n).map(|i| vec![(0, 0.25), (i, 2.0)])).collect()
}

/// An upper bidiagonal matrix, whose levels result only from entries of A^T.
fn upper(n: usize) -> Entries {
    (0..n).map(|i| [(i, 3.0), (i + 1, -1.0)].into_iter().filter(|&(j, _)| j < n).collect()).collect()
}

fn csr<I: Index>(rows: &Entries, cols: usize) -> Csr<I> {
    let mut ptr = vec![0];
    rows.iter().for_each(|row| ptr.push(ptr.last().unwrap() + row.len()));
    let (col, val) = rows.iter().flatten().map(|&(j, a)| (I::of(j), a)).unzip();
    Csr { cols, ptr, col, val }
}

fn relax(row: &[(usize, f64)], i: usize, b: f64, omega: f64, own: f64, x: impl Fn(usize) -> f64) -> f64 {
    let (mut sum, mut diagonal) = (0.0, 0.0);
    for &(j, a) in row {
        if j == i {
            diagonal = a;
        } else {
            sum += a * x(j);
        }
    }
    omega * (b - sum) / diagonal + (1.0 - omega) * own
}

/// Returns the colour of each row, from lists of neighbours in the graph of A + A^T.
fn colours(rows: &Entries) -> Vec<usize> {
    let mut joined = vec![Vec::new(); rows.len()];
    for (i, row) in rows.iter().enumerate() {
        for &(j, _) in row.iter().filter(|entry| entry.0 != i) {
            joined[i].push(j);
            joined[j].push(i);
        }
    }
    let mut colour = vec![usize::MAX; rows.len()];
    for i in 0..rows.len() {
        let taken: std::collections::BTreeSet<usize> = joined[i].iter().map(|&j| colour[j]).collect();
        colour[i] = (0..).find(|c| !taken.contains(c)).unwrap();
    }
    colour
}

/// Computes a sequential sweep, as in the thesis of 2008, algorithms 1 and 2.
fn sweep(rows: &Entries, wanted: &SweepParameters, b: &[f64], x: &mut [f64]) {
    let (n, omega) = (rows.len(), wanted.omega);
    let old = x.to_vec();
    let mut in_place = |order: &mut dyn Iterator<Item = usize>| {
        for i in order {
            x[i] = relax(&rows[i], i, b[i], omega, x[i], |j| x[j]);
        }
    };
    match wanted.ordering {
        _ if wanted.simultaneous => {
            for i in 0..n {
                x[i] = relax(&rows[i], i, b[i], omega, old[i], |j| old[j]);
            }
        }
        Ordering::Natural => in_place(&mut (0..n)),
        Ordering::Symmetric => in_place(&mut (0..n).chain((0..n).rev())),
        Ordering::Multicolour => {
            let colour = colours(rows);
            for c in 0..n {
                in_place(&mut (0..n).filter(|&i| colour[i] == c));
                if !colour.contains(&(c + 1)) {
                    break;
                }
            }
        }
        Ordering::Blocks => {
            for q in 0..wanted.blocks {
                let block = n * q / wanted.blocks..n * (q + 1) / wanted.blocks;
                for i in block.clone() {
                    let new = |j: usize| if block.contains(&j) { x[j] } else { old[j] };
                    x[i] = relax(&rows[i], i, b[i], omega, x[i], new);
                }
            }
        }
    }
}

const SWEEPS: usize = 3;

/// Returns x after some sweeps of a team.
fn swept(relaxation: &Relaxation, members: usize, b: &[f64], guess: &[f64]) -> Vec<f64> {
    let n = b.len();
    let [x, rhs, old] = [0; 3].map(|_| Shared::zeroed(n).unwrap());
    // SAFETY: only this thread uses the vectors.
    unsafe {
        x.slice_mut(0, n).copy_from_slice(guess);
        rhs.slice_mut(0, n).copy_from_slice(b);
    }
    let work = |me: Me| (0..SWEEPS).for_each(|_| relaxation.sweep(&me, &x, &rhs, &old));
    Team::new(members).unwrap().run(work, work).unwrap();
    // SAFETY: the run of the team has ended.
    unsafe { x.slice(0, n) }.to_vec()
}

/// Returns all methods and orders, with fewer and with more blocks than rows.
fn all_wanted() -> Vec<SweepParameters> {
    let mut all = Vec::new();
    for omega in [1.0, 1.25, 0.7] {
        let mut add =
            |simultaneous, ordering, blocks| all.push(SweepParameters { simultaneous, omega, ordering, blocks });
        add(true, Ordering::Symmetric, 3);
        add(false, Ordering::Natural, 3);
        add(false, Ordering::Multicolour, 3);
        add(false, Ordering::Symmetric, 3);
        [1, 2, 3, 16, 1_000_003].into_iter().for_each(|blocks| add(false, Ordering::Blocks, blocks));
    }
    all
}

fn check_bits(name: &str, rows: &Entries) {
    let n = rows.len();
    let mut draw = Draw(7);
    let [b, guess] = [0; 2].map(|_| (0..n).map(|_| draw.value()).collect::<Vec<f64>>());
    let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for wanted in all_wanted() {
        let mut expected = guess.clone();
        (0..SWEEPS).for_each(|_| sweep(rows, &wanted, &b, &mut expected));
        let narrow = Relaxation::new(&csr::<u32>(rows, n), &wanted, 3).unwrap();
        let wide = Relaxation::new(&csr::<u64>(rows, n), &wanted, 3).unwrap();
        for members in [1, 2, 3, 7] {
            for relaxation in [&narrow, &wide] {
                let x = swept(relaxation, members, &b, &guess);
                assert_eq!(bits(&x), bits(&expected), "{name}, {n} rows, {wanted:?}, {members} members");
            }
        }
    }
}

#[test]
fn bits_are_those_of_a_sequential_sweep() {
    for n in [0, 1, 2, 3, 5, 17, 64, 65, 1000] {
        check_bits("random", &random(n, 4));
    }
    for n in [1, 2, 3, 5, 17] {
        check_bits("grid", &grid(n));
        check_bits("arrow", &arrow(n));
        check_bits("upper", &upper(n));
    }
}

/// In these matrices, levels and colours are large enough for several threads, there are more chunks than threads, and
/// the orders of the rows differ from the storage order.
#[test]
fn large_levels_have_the_bits_of_a_sequential_sweep() {
    let rows = random(30_000, 2);
    let relaxation = |ordering| {
        let wanted = SweepParameters { simultaneous: false, omega: 1.0, ordering, blocks: 1 };
        Relaxation::new(&csr::<u32>(&rows, rows.len()), &wanted, 3).unwrap()
    };
    // With at most 30 levels or colours, the average level is too large for thread 0 to process alone.
    assert!((1..=30).contains(&relaxation(Ordering::Natural).levels()));
    assert!((1..=30).contains(&relaxation(Ordering::Multicolour).colours()));
    check_bits("random", &rows);
    check_bits("grid", &grid(73));
}

#[test]
fn levels_and_colours_are_counted() {
    let of_team = |rows: &Entries, ordering, simultaneous, members| {
        let wanted = SweepParameters { simultaneous, omega: 1.0, ordering, blocks: 2 };
        let relaxation = Relaxation::new(&csr::<u32>(rows, rows.len()), &wanted, members).unwrap();
        (relaxation.levels(), relaxation.colours())
    };
    let counts = |rows: &Entries, ordering, simultaneous| of_team(rows, ordering, simultaneous, 3);
    for ordering in [Ordering::Natural, Ordering::Symmetric] {
        // A piece is a third of a grid line. It depends on the previous piece, and on the piece of the line below.
        assert_eq!(counts(&grid(9), ordering, false), (11, 0));
        // The pieces are single rows. In `upper`, each row depends on the previous row. In `arrow`, all rows depend on
        // the first row.
        assert_eq!(counts(&upper(33), ordering, false), (33, 0));
        assert_eq!(counts(&arrow(9), ordering, false), (2, 0));
        assert_eq!(of_team(&grid(9), ordering, false, 1), (1, 0));
    }
    assert_eq!(counts(&grid(9), Ordering::Multicolour, false), (0, 2));
    assert_eq!(counts(&upper(9), Ordering::Multicolour, false), (0, 2));
    assert_eq!(counts(&grid(9), Ordering::Blocks, false), (0, 0));
    assert_eq!(counts(&grid(9), Ordering::Multicolour, true), (0, 0));
}

/// Pointers have 8 bytes, columns 4, and values and diagonals 8. The order for three threads adds 4 bytes per row, the
/// starts and ends of 19 levels of one unit each, and one stage.
#[test]
fn bytes_equal_the_sizes_of_the_arrays() {
    let rows = grid(10);
    let bytes = |ordering| {
        let wanted = SweepParameters { simultaneous: false, omega: 1.0, ordering, blocks: 2 };
        Relaxation::new(&csr::<u32>(&rows, 100), &wanted, 3).unwrap().bytes()
    };
    assert_eq!(bytes(Ordering::Blocks), 101 * 8 + 360 * 12 + 100 * 8);
    assert_eq!(bytes(Ordering::Natural), 101 * 8 + 360 * 12 + 100 * 8 + 100 * 4 + 2 * 20 * 8 + 16);
}

#[test]
fn matrices_without_sweeps_are_rejected() {
    let wanted = SweepParameters { simultaneous: false, omega: 1.0, ordering: Ordering::Natural, blocks: 16 };
    let refused = |rows: &Entries, cols| Relaxation::new(&csr::<u32>(rows, cols), &wanted, 3).err().unwrap();
    let mut rows = grid(4);
    rows[11].retain(|entry| entry.0 != 11);
    rows[9].iter_mut().filter(|entry| entry.0 == 9).for_each(|entry| entry.1 = -0.0);
    let error = refused(&rows, 16);
    assert_eq!(error.status(), RRB_ERR_MATRIX);
    assert!(error.to_string().starts_with("row 9 has a missing or zero diagonal"), "{error}");
    rows[9] = vec![(9, 1.0)];
    assert!(refused(&rows, 16).to_string().starts_with("row 11 has a missing or zero diagonal"));
    assert!(matches!(refused(&grid(2), 5), Error::Dimension(_)));
}
