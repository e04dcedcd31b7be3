//! Tests of sweeps by teams: results must be bitwise identical to sequential sweeps.

use super::*;
use crate::base::team::Team;

/// Rows of a matrix: (column, value) with ascending columns.
type RowEntries = Vec<Vec<(usize, f64)>>;

/// Pseudorandom values in [-1, 1): the upper bits of a linear congruential generator modulo 2^64.
struct RandomValues(u64);

impl RandomValues {
    fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn next_value(&mut self) -> f64 {
        self.next_bits() as f64 / (1_u64 << 30) as f64 - 1.0
    }
}

/// An unsymmetric, diagonally dominant matrix with about `off_diagonal` off-diagonal entries per row. About every ninth
/// of these entries is an explicit zero.
fn random_rows(n: usize, off_diagonal: usize) -> RowEntries {
    let mut random_values = RandomValues(n as u64);
    let row = |i: usize| {
        let mut row = std::collections::BTreeMap::from([(i, off_diagonal as f64 + 1.5 + random_values.next_value())]);
        for k in 0..off_diagonal {
            let (j, value) = (random_values.next_bits() as usize % n, random_values.next_value());
            row.entry(j).or_insert(if (i + k).is_multiple_of(9) { 0.0 } else { value });
        }
        row.into_iter().collect()
    };
    (0..n).map(row).collect()
}

/// An unsymmetric 5-point stencil on an n x n grid, x fastest.
fn grid_rows(n: usize) -> RowEntries {
    let row = |p: usize| {
        let (i, j) = (p % n, p / n);
        let is_inside = [j > 0, i > 0, true, i + 1 < n, j + 1 < n];
        let columns = [p.wrapping_sub(n), p.wrapping_sub(1), p, p + 1, p + n];
        let entries = columns.into_iter().zip([-1.05, -1.1, 4.2, -0.9, -0.95]);
        entries.zip(is_inside).filter(|(_, is_inside)| *is_inside).map(|(entry, _)| entry).collect()
    };
    (0..n * n).map(row).collect()
}

/// An arrow matrix: entries in row 0, in column 0 and on the diagonal.
fn arrow_rows(n: usize) -> RowEntries {
    let first_row = (0..n).map(|j| (j, if j == 0 { n as f64 } else { -0.5 })).collect();
    std::iter::once(first_row).chain((1..n).map(|i| vec![(0, 0.25), (i, 2.0)])).collect()
}

/// An upper bidiagonal matrix, whose levels result only from entries of A^T.
fn upper_rows(n: usize) -> RowEntries {
    (0..n).map(|i| [(i, 3.0), (i + 1, -1.0)].into_iter().filter(|&(j, _)| j < n).collect()).collect()
}

fn csr<I: Index>(rows: &RowEntries, cols: usize) -> Csr<I> {
    let mut ptr = vec![0];
    rows.iter().for_each(|row| ptr.push(ptr.last().unwrap() + row.len()));
    let (col, val) = rows.iter().flatten().map(|&(j, a)| (I::of(j), a)).unzip();
    Csr { cols, ptr, col, val }
}

fn relax(row: &[(usize, f64)], i: usize, b_i: f64, omega: f64, x_i: f64, x: impl Fn(usize) -> f64) -> f64 {
    let (mut sum, mut diagonal) = (0.0, 0.0);
    for &(j, a) in row {
        if j == i {
            diagonal = a;
        } else {
            sum += a * x(j);
        }
    }
    omega * (b_i - sum) / diagonal + (1.0 - omega) * x_i
}

/// Returns the colour of each row, from lists of neighbours in the graph of A + A^T.
fn colour_rows(rows: &RowEntries) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); rows.len()];
    for (i, row) in rows.iter().enumerate() {
        for &(j, _) in row.iter().filter(|entry| entry.0 != i) {
            neighbours[i].push(j);
            neighbours[j].push(i);
        }
    }
    let mut colour = vec![usize::MAX; rows.len()];
    for i in 0..rows.len() {
        let neighbour_colours: std::collections::BTreeSet<usize> = neighbours[i].iter().map(|&j| colour[j]).collect();
        colour[i] = (0..).find(|c| !neighbour_colours.contains(c)).unwrap();
    }
    colour
}

/// Computes a sequential sweep, as in the thesis of 2008, algorithms 1 and 2.
fn sweep_sequentially(rows: &RowEntries, parameters: &SweepParameters, b: &[f64], x: &mut [f64]) {
    let (n, omega) = (rows.len(), parameters.omega);
    let old_x = x.to_vec();
    let mut relax_in_place = |order: &mut dyn Iterator<Item = usize>| {
        for i in order {
            x[i] = relax(&rows[i], i, b[i], omega, x[i], |j| x[j]);
        }
    };
    match parameters.ordering {
        _ if parameters.is_jacobi => {
            for i in 0..n {
                x[i] = relax(&rows[i], i, b[i], omega, old_x[i], |j| old_x[j]);
            }
        }
        Ordering::Natural => relax_in_place(&mut (0..n)),
        Ordering::Symmetric => relax_in_place(&mut (0..n).chain((0..n).rev())),
        Ordering::Multicolour => {
            let colour = colour_rows(rows);
            for c in 0..n {
                relax_in_place(&mut (0..n).filter(|&i| colour[i] == c));
                if !colour.contains(&(c + 1)) {
                    break;
                }
            }
        }
        Ordering::Blocks => {
            for q in 0..parameters.block_count {
                let block = n * q / parameters.block_count..n * (q + 1) / parameters.block_count;
                for i in block.clone() {
                    let current_value = |j: usize| if block.contains(&j) { x[j] } else { old_x[j] };
                    x[i] = relax(&rows[i], i, b[i], omega, x[i], current_value);
                }
            }
        }
    }
}

const SWEEP_COUNT: usize = 3;

/// Returns x after `SWEEP_COUNT` sweeps of a team.
fn sweep_with_team(relaxation: &Relaxation, threads: usize, b: &[f64], guess: &[f64]) -> Vec<f64> {
    let n = b.len();
    let [x, rhs, old_x] = [0; 3].map(|_| Shared::zeroed(n).unwrap());
    // SAFETY: only this thread uses the vectors.
    unsafe {
        x.slice_mut(0, n).copy_from_slice(guess);
        rhs.slice_mut(0, n).copy_from_slice(b);
    }
    let work = |thread: TeamThread| (0..SWEEP_COUNT).for_each(|_| relaxation.sweep(&thread, &x, &rhs, &old_x));
    Team::new(threads).unwrap().run(work, work).unwrap();
    // SAFETY: the run of the team has ended.
    unsafe { x.slice(0, n) }.to_vec()
}

/// Returns parameters for all methods and orders. The largest `block_count` exceeds the number of rows of all tests.
fn all_parameters() -> Vec<SweepParameters> {
    let mut parameters = Vec::new();
    for omega in [1.0, 1.25, 0.7] {
        let mut add = |is_jacobi, ordering, block_count| {
            parameters.push(SweepParameters { is_jacobi, omega, ordering, block_count })
        };
        add(true, Ordering::Symmetric, 3);
        add(false, Ordering::Natural, 3);
        add(false, Ordering::Multicolour, 3);
        add(false, Ordering::Symmetric, 3);
        [1, 2, 3, 16, 1_000_003].into_iter().for_each(|block_count| add(false, Ordering::Blocks, block_count));
    }
    parameters
}

fn check_bitwise_equality(name: &str, rows: &RowEntries) {
    let n = rows.len();
    let mut random_values = RandomValues(7);
    let [b, guess] = [0; 2].map(|_| (0..n).map(|_| random_values.next_value()).collect::<Vec<f64>>());
    let bits_of = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for parameters in all_parameters() {
        let mut expected = guess.clone();
        (0..SWEEP_COUNT).for_each(|_| sweep_sequentially(rows, &parameters, &b, &mut expected));
        let with_u32 = Relaxation::new(&csr::<u32>(rows, n), &parameters, 3).unwrap();
        let with_u64 = Relaxation::new(&csr::<u64>(rows, n), &parameters, 3).unwrap();
        for threads in [1, 2, 3, 7] {
            for relaxation in [&with_u32, &with_u64] {
                let x = sweep_with_team(relaxation, threads, &b, &guess);
                assert_eq!(bits_of(&x), bits_of(&expected), "{name}, {n} rows, {parameters:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn team_sweep_equals_sequential_sweep_bitwise() {
    for n in [0, 1, 2, 3, 5, 17, 64, 65, 1000] {
        check_bitwise_equality("random", &random_rows(n, 4));
    }
    for n in [1, 2, 3, 5, 17] {
        check_bitwise_equality("grid", &grid_rows(n));
        check_bitwise_equality("arrow", &arrow_rows(n));
        check_bitwise_equality("upper", &upper_rows(n));
    }
}

/// In these matrices, levels and colours are large enough for several threads, there are more chunks than threads, and
/// the orders of the rows differ from the storage order.
#[test]
fn large_levels_equal_sequential_sweep_bitwise() {
    let rows = random_rows(30_000, 2);
    let with_ordering = |ordering| {
        let parameters = SweepParameters { is_jacobi: false, omega: 1.0, ordering, block_count: 1 };
        Relaxation::new(&csr::<u32>(&rows, rows.len()), &parameters, 3).unwrap()
    };
    // With at most 30 levels or colours, the average level is too large for thread 0 to process alone.
    assert!((1..=30).contains(&with_ordering(Ordering::Natural).level_count()));
    assert!((1..=30).contains(&with_ordering(Ordering::Multicolour).colour_count()));
    check_bitwise_equality("random", &rows);
    check_bitwise_equality("grid", &grid_rows(73));
}

#[test]
fn levels_and_colours_are_counted() {
    let counts_for_team = |rows: &RowEntries, ordering, is_jacobi, threads| {
        let parameters = SweepParameters { is_jacobi, omega: 1.0, ordering, block_count: 2 };
        let relaxation = Relaxation::new(&csr::<u32>(rows, rows.len()), &parameters, threads).unwrap();
        (relaxation.level_count(), relaxation.colour_count())
    };
    let counts = |rows: &RowEntries, ordering, is_jacobi| counts_for_team(rows, ordering, is_jacobi, 3);
    for ordering in [Ordering::Natural, Ordering::Symmetric] {
        // A piece is a third of a grid line. Each piece depends on the previous piece, and on the piece below in the
        // previous line.
        assert_eq!(counts(&grid_rows(9), ordering, false), (11, 0));
        // In these matrices, the pieces are single rows. In `upper_rows`, each row depends on the previous row. In
        // `arrow_rows`, all rows depend on row 0.
        assert_eq!(counts(&upper_rows(33), ordering, false), (33, 0));
        assert_eq!(counts(&arrow_rows(9), ordering, false), (2, 0));
        assert_eq!(counts_for_team(&grid_rows(9), ordering, false, 1), (1, 0));
    }
    assert_eq!(counts(&grid_rows(9), Ordering::Multicolour, false), (0, 2));
    assert_eq!(counts(&upper_rows(9), Ordering::Multicolour, false), (0, 2));
    assert_eq!(counts(&grid_rows(9), Ordering::Blocks, false), (0, 0));
    assert_eq!(counts(&grid_rows(9), Ordering::Multicolour, true), (0, 0));
}

/// A row pointer has 8 bytes, a column index 4, and a value or diagonal entry 8. The order for three threads adds 4
/// bytes per row, the starts and ends of 19 levels of one unit each, and one stage.
#[test]
fn bytes_equal_the_sizes_of_the_arrays() {
    let rows = grid_rows(10);
    let bytes = |ordering| {
        let parameters = SweepParameters { is_jacobi: false, omega: 1.0, ordering, block_count: 2 };
        Relaxation::new(&csr::<u32>(&rows, 100), &parameters, 3).unwrap().bytes()
    };
    assert_eq!(bytes(Ordering::Blocks), 101 * 8 + 360 * 12 + 100 * 8);
    assert_eq!(bytes(Ordering::Natural), 101 * 8 + 360 * 12 + 100 * 8 + 100 * 4 + 2 * 20 * 8 + 16);
}

#[test]
fn matrices_without_sweeps_are_rejected() {
    let parameters = SweepParameters { is_jacobi: false, omega: 1.0, ordering: Ordering::Natural, block_count: 16 };
    let rejection = |rows: &RowEntries, cols| Relaxation::new(&csr::<u32>(rows, cols), &parameters, 3).err().unwrap();
    let mut rows = grid_rows(4);
    rows[11].retain(|entry| entry.0 != 11);
    rows[9].iter_mut().filter(|entry| entry.0 == 9).for_each(|entry| entry.1 = -0.0);
    let error = rejection(&rows, 16);
    assert_eq!(error.status(), RRB_ERR_MATRIX);
    assert!(error.to_string().starts_with("row 9 has a missing or zero diagonal"), "{error}");
    rows[9] = vec![(9, 1.0)];
    assert!(rejection(&rows, 16).to_string().starts_with("row 11 has a missing or zero diagonal"));
    assert!(matches!(rejection(&grid_rows(2), 5), Error::Dimension(_)));
}
