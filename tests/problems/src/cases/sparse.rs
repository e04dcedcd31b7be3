//! Random general matrices for the family `sparse_`, with options, right-hand sides and initial guesses. A case depends
//! only on the seed and its number.

use super::Random;
use crate::sparse::{Entry, five_points};
use crate::twice::scaled;

/// Kinds of matrices. Each must occur in at least 1 % of the cases.
#[rustfmt::skip]
pub const KINDS: &[&str] = &[
    "dominant, symmetric", "dominant, unsymmetric", "Laplacian", "convection", "symmetric indefinite", "saddle point",
    "random symmetric", "random unsymmetric", "triangular", "diagonal", "permuted", "singular", "nearly singular",
    "empty row or column", "1 x 1", "negative definite", "rectangular", "many rows",
];

/// Further features. Each must occur in at least 1 % of the cases.
#[rustfmt::skip]
pub const FEATURES: &[&str] = &[
    "A: scaled", "rows scaled", "rows and columns scaled", "explicit zeros", "duplicates", "created by coo",
    "created by csr", "created by csc", "other values", "b: random", "b: A times values", "b: point source",
    "b: zero", "b: scaled", "guess: zero", "guess: random", "guess: near the solution", "guess: far",
    "input not finite",
];

/// Creation function of the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `sparse_create_coo`
    Coo,
    /// `sparse_create_csr`
    Csr,
    /// `sparse_create_csc`
    Csc,
}

/// A matrix, its options, and how it is solved.
pub struct Case {
    /// Number of the case in the sequence.
    pub number: u64,
    /// Kind of the matrix.
    pub kind: &'static str,
    /// Features of the case.
    pub features: Vec<&'static str>,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Entries in the order of the creation call. Entries with equal indices are added.
    pub entries: Vec<Entry>,
    /// Values that replace those of `entries` before the second solve.
    pub other: Option<Vec<f64>>,
    /// Creation function.
    pub by: By,
    /// Right-hand side.
    pub b: Vec<f64>,
    /// Initial guess.
    pub guess: Vec<f64>,
    /// Vector of products with A (`cols` values).
    pub x: Vec<f64>,
    /// Whether the diagonally dominant matrix has entries, right-hand side and guess near 1: no call may fail.
    pub benign: bool,
    /// Option text without `threads`.
    pub options: String,
}

impl Case {
    /// Returns the value of an option of the text, or the default.
    pub fn option<'c>(&'c self, name: &str, default: &'c str) -> &'c str {
        let value = |word: &'c str| word.strip_prefix(name)?.strip_prefix('=');
        self.options.split(' ').find_map(value).unwrap_or(default)
    }

    /// Returns whether the case has this feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.contains(&feature)
    }
}

/// Creates case `number` of `seed`.
pub fn make(seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed, number);
    let r = &mut random;
    let kind = kind(r);
    let (rows, cols, mut entries) = matrix(r, kind);
    let mut features = Vec::new();
    let benign = kind.starts_with("dominant");
    let wild = if kind == "many rows" { 0.0 } else { 1.0 };
    if r.chance(15.0) {
        features.push("explicit zeros");
        let more: Vec<Entry> =
            (0..r.whole(1, rows + 2)).map(|_| (r.whole(0, rows - 1), r.whole(0, cols - 1), 0.0)).collect();
        entries.extend(more);
    }
    let a_scale = scale(r, 25.0 * wild, 500);
    if a_scale != 0 {
        features.push("A: scaled");
    }
    let scalings = scalings(r, wild, rows, cols, &mut features);
    for (i, j, value) in &mut entries {
        *value = scaled(*value, a_scale + scalings.0[*i] + scalings.1[*j]);
    }
    if r.chance(15.0) && !entries.is_empty() {
        features.push("duplicates");
        duplicate(r, &mut entries);
    }
    let by = r.among(&[(1.0, By::Coo), (1.0, By::Csr), (1.0, By::Csc)]);
    order(r, by, &mut entries);
    features.push(match by {
        By::Coo => "created by coo",
        By::Csr => "created by csr",
        By::Csc => "created by csc",
    });
    let other = r.chance(20.0).then(|| {
        features.push("other values");
        // Powers of two, so that a symmetric matrix stays symmetric.
        let factor = if r.chance(50.0) { 2.0 } else { 0.5 };
        let diagonal = r.among(&[(1.0, 1.0), (1.0, 1.5), (1.0, 3.0)]);
        entries.iter().map(|&(i, j, value)| factor * if i == j { diagonal * value } else { value }).collect()
    });
    let values: Vec<f64> = (0..cols).map(|_| r.sign()).collect();
    let mut b = rhs(r, &entries, rows, &values, a_scale, wild, &mut features);
    let mut guess = guess(r, &values, &mut features);
    let x: Vec<f64> = (0..cols).map(|_| r.sign() * if r.chance(10.0) { r.power(-20.0, 20.0) } else { 1.0 }).collect();
    if r.chance(2.0) {
        features.push("input not finite");
        let value = r.among(&[(1.0, f64::NAN), (1.0, f64::INFINITY), (1.0, f64::NEG_INFINITY)]);
        let array = if r.chance(50.0) { &mut b } else { &mut guess };
        let place = r.whole(0, array.len() - 1);
        array[place] = value;
    }
    let strange =
        ["A: scaled", "rows scaled", "rows and columns scaled", "b: scaled", "guess: far", "input not finite"];
    let benign = benign && !features.iter().any(|feature| strange.contains(feature));
    let options = options(r, kind);
    Case { number, kind, features, rows, cols, entries, other, by, b, guess, x, benign, options }
}

fn kind(r: &mut Random) -> &'static str {
    let weights: Vec<(f64, &'static str)> = KINDS
        .iter()
        .map(|&kind| match kind {
            "dominant, symmetric" | "dominant, unsymmetric" | "Laplacian" | "convection" => (12.0, kind),
            "singular" | "nearly singular" | "symmetric indefinite" => (8.0, kind),
            "many rows" => (1.5, kind),
            "1 x 1" | "empty row or column" => (2.0, kind),
            _ => (4.0, kind),
        })
        .collect();
    r.among(&weights)
}

/// Returns a random exponent with magnitude up to `most`, or 0.
fn scale(r: &mut Random, percent: f64, most: usize) -> i32 {
    if !r.chance(percent) {
        return 0;
    }
    let size = if r.chance(50.0) { r.whole(1, 66.min(most)) } else { r.whole(1, most) } as i32;
    if r.chance(50.0) { size } else { -size }
}

/// Returns exponents of two for rows and columns.
fn scalings(
    r: &mut Random,
    wild: f64,
    rows: usize,
    cols: usize,
    features: &mut Vec<&'static str>,
) -> (Vec<i32>, Vec<i32>) {
    let most = r.among(&[(1.0, 5), (1.0, 30), (1.0, 100), (1.0, 249)]);
    let of_rows: Vec<i32> = (0..rows).map(|_| r.whole(0, 2 * most) as i32 - most as i32).collect();
    if r.chance(8.0 * wild) {
        features.push("rows scaled");
        return (of_rows, vec![0; cols]);
    }
    if r.chance(8.0 * wild) && rows == cols {
        features.push("rows and columns scaled");
        return (of_rows.clone(), of_rows);
    }
    (vec![0; rows], vec![0; cols])
}

/// Replaces some entries by two halves.
fn duplicate(r: &mut Random, entries: &mut Vec<Entry>) {
    for k in 0..entries.len() {
        if r.chance(20.0) {
            let (i, j, value) = entries[k];
            entries[k].2 = 0.5 * value;
            entries.push((i, j, 0.5 * value));
        }
    }
}

/// Shuffles the entries and sorts them as the creation function requires.
fn order(r: &mut Random, by: By, entries: &mut [Entry]) {
    if r.chance(50.0) {
        for k in (1..entries.len()).rev() {
            entries.swap(k, r.whole(0, k));
        }
    }
    match by {
        By::Coo => {}
        By::Csr => entries.sort_by_key(|entry| entry.0),
        By::Csc => entries.sort_by_key(|entry| entry.1),
    }
}

fn matrix(r: &mut Random, kind: &str) -> (usize, usize, Vec<Entry>) {
    let sizes = [(50.0, r.whole(1, 8)), (40.0, r.whole(2, 40)), (10.0, r.whole(40, 150))];
    let n = r.among(&sizes);
    let square = |entries: Vec<Entry>| (n, n, entries);
    match kind {
        "dominant, symmetric" => square(dominant(r, n, true, 1.01)),
        "dominant, unsymmetric" => square(dominant(r, n, false, 1.01)),
        "Laplacian" => {
            let side = r.whole(1, 12);
            let shift = r.among(&[(1.0, 0.0), (1.0, 0.1), (1.0, 1e-6)]);
            (side * side, side * side, five_points(side, [4.0 + shift, -1.0, -1.0, -1.0, -1.0]).entries)
        }
        "convection" => {
            let (side, p, q) = (r.whole(1, 12), 2.0 * r.unit(), 2.0 * r.unit());
            let center = if r.chance(50.0) { 4.0 } else { 4.0 + 2.0 * (p + q) };
            (side * side, side * side, five_points(side, [center, p - 1.0, -1.0 - p, q - 1.0, -1.0 - q]).entries)
        }
        "symmetric indefinite" => {
            let mut entries = dominant(r, n, true, 1.2);
            for entry in entries.iter_mut().filter(|entry| entry.0 == entry.1) {
                entry.2 *= if r.chance(30.0) { -1.0 } else { 1.0 };
            }
            square(entries)
        }
        "saddle point" => square(saddle_point(r, n)),
        "random symmetric" => square(random(r, n, n, true)),
        "random unsymmetric" => square(random(r, n, n, false)),
        "triangular" => {
            let mut entries = random(r, n, n, false);
            let lower = r.chance(50.0);
            entries.retain(|&(i, j, _)| if lower { j < i } else { j > i });
            entries.extend((0..n).map(|i| (i, i, 0.5 + r.unit())));
            square(entries)
        }
        "diagonal" => square((0..n).map(|i| (i, i, r.sign() * r.power(-3.0, 3.0))).collect()),
        "permuted" => {
            // The diagonal entries of a dominant matrix become off-diagonal entries.
            let step = r.whole(0, n - 1);
            square(dominant(r, n, false, 1.5).into_iter().map(|(i, j, v)| (i, (j + step) % n, v)).collect())
        }
        "singular" => square(singular(r, n, 0.0)),
        "nearly singular" => {
            let part = r.power(-16.0, -3.0);
            square(singular(r, n, part))
        }
        "empty row or column" => {
            let (gone, row) = (r.whole(0, n - 1), r.chance(50.0));
            let mut entries = dominant(r, n, false, 1.5);
            entries.retain(|&(i, j, _)| if row { i != gone } else { j != gone });
            square(entries)
        }
        "1 x 1" => (1, 1, vec![(0, 0, r.sign())]),
        "negative definite" => square(dominant(r, n, true, 1.3).into_iter().map(|(i, j, v)| (i, j, -v)).collect()),
        "rectangular" => {
            let cols = r.whole(1, 60);
            (n, cols, random(r, n, cols, false))
        }
        _ => {
            // Enough rows for several threads.
            let side = r.whole(65, 70);
            let p = if r.chance(50.0) { 0.0 } else { 0.7 };
            (side * side, side * side, five_points(side, [4.1, p - 1.0, -1.0 - p, -1.0, -1.0]).entries)
        }
    }
}

/// Returns random entries, about three per row; each row of a square matrix may lack its diagonal entry.
fn random(r: &mut Random, rows: usize, cols: usize, symmetric: bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    for i in 0..rows {
        for _ in 0..r.whole(0, 5) {
            let (j, value) = (r.whole(0, cols - 1), r.sign());
            entries.push((i, j, value));
            if symmetric && i != j {
                entries.push((j, i, value));
            }
        }
    }
    summed(entries)
}

/// Adds the values of entries with equal indices.
fn summed(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|&(i, j, _)| (i, j));
    entries.dedup_by(|next, entry| {
        let same = (next.0, next.1) == (entry.0, entry.1);
        entry.2 += if same { next.2 } else { 0.0 };
        same
    });
    entries
}

/// Returns a matrix whose positive diagonal is `factor` times the sum of the other magnitudes of its row and column.
fn dominant(r: &mut Random, n: usize, symmetric: bool, factor: f64) -> Vec<Entry> {
    let mut entries = random(r, n, n, symmetric);
    let negative = r.chance(40.0);
    entries.retain(|&(i, j, _)| i != j);
    let mut sums = vec![0.0; n];
    for (i, j, value) in &mut entries {
        *value = if negative { -value.abs() } else { *value };
        sums[*i] += value.abs();
        sums[*j] += value.abs();
    }
    let part = if symmetric { 0.5 } else { 1.0 };
    entries.extend(sums.iter().enumerate().map(|(i, &sum)| (i, i, if sum > 0.0 { part * factor * sum } else { 1.0 })));
    entries
}

/// Returns [K B'; B 0] with a dominant symmetric K.
fn saddle_point(r: &mut Random, n: usize) -> Vec<Entry> {
    let first = n.div_ceil(2);
    let mut entries = dominant(r, first, true, 1.5);
    for i in first..n {
        for j in [i - first, r.whole(0, first - 1)] {
            let value = r.sign();
            entries.extend([(i, j, value), (j, i, value)]);
        }
    }
    entries
}

/// Returns a matrix with row sums of `part` times the diagonal; its values are multiples of 2^-30.
fn singular(r: &mut Random, n: usize, part: f64) -> Vec<Entry> {
    let symmetric = r.chance(60.0);
    let mut entries = random(r, n, n, symmetric);
    entries.retain(|&(i, j, _)| i != j);
    // A path couples all rows.
    entries.extend((1..n).flat_map(|i| [(i, i - 1, 0.5), (i - 1, i, 0.5)]));
    let mut entries = summed(entries);
    let mut sums = vec![0.0; n];
    for (i, _, value) in &mut entries {
        *value = -(value.abs() * f64::from(1 << 30)).round().max(1.0) / f64::from(1 << 30);
        sums[*i] -= *value;
    }
    entries.extend(sums.iter().enumerate().map(|(i, &sum)| (i, i, if n > 1 { sum * (1.0 + part) } else { 1.0 })));
    entries
}

fn rhs(
    r: &mut Random,
    entries: &[Entry],
    rows: usize,
    values: &[f64],
    a_scale: i32,
    wild: f64,
    features: &mut Vec<&'static str>,
) -> Vec<f64> {
    let kind =
        r.among(&[(45.0, "b: random"), (40.0, "b: A times values"), (10.0, "b: point source"), (5.0, "b: zero")]);
    let place = r.whole(0, rows - 1);
    let mut b: Vec<f64> = (0..rows)
        .map(|i| match kind {
            "b: random" => r.sign(),
            "b: point source" => f64::from(u8::from(i == place)),
            _ => 0.0,
        })
        .collect();
    if kind == "b: A times values" {
        entries.iter().for_each(|&(i, j, value)| b[i] += value * values[j]);
    } else {
        b.iter_mut().for_each(|b| *b = scaled(*b, a_scale));
    }
    features.push(kind);
    let b_scale = scale(r, 25.0 * wild, 400);
    if b_scale != 0 {
        features.push("b: scaled");
    }
    b.iter().map(|&b| scaled(b, b_scale)).map(|b| if b.is_finite() { b } else { 1.0 }).collect()
}

fn guess(r: &mut Random, values: &[f64], features: &mut Vec<&'static str>) -> Vec<f64> {
    let kind = r.among(&[
        (60.0, "guess: zero"),
        (20.0, "guess: random"),
        (10.0, "guess: near the solution"),
        (10.0, "guess: far"),
    ]);
    features.push(kind);
    let far = r.power(2.0, 160.0);
    let part = r.power(-16.0, -1.0);
    values
        .iter()
        .map(|value| match kind {
            "guess: zero" => 0.0,
            "guess: random" => r.sign(),
            "guess: far" => far * r.sign(),
            _ => value * (1.0 + part * r.sign()),
        })
        .collect()
}

/// Values of the option `solver`, in the order of their numbers.
pub const SOLVERS: [&str; 11] =
    ["auto", "jacobi", "gauss_seidel", "sor", "cg", "bicg", "minres", "bicgstab", "gmres", "idr", "steepest_descent"];
/// Preconditioners.
pub const PRECONDITIONERS: [&str; 9] = ["auto", "none", "jacobi", "neumann", "ic0", "amg", "ssor", "ilu0", "chebyshev"];
/// Storage formats.
pub const FORMATS: [&str; 12] =
    ["auto", "coo", "csr", "csc", "bsr", "dia", "ell", "sell", "jds", "tjds", "skyline", "diagonal"];
/// Orderings of sweeps.
pub const ORDERINGS: [&str; 4] = ["natural", "multicolour", "blocks", "symmetric"];

fn options(r: &mut Random, kind: &str) -> String {
    let pick = |r: &mut Random, names: &[&'static str]| names[r.whole(0, names.len() - 1)];
    let symmetric = ["symmetric", "Laplacian", "saddle", "diagonal", "definite", "1 x 1"];
    let symmetric = symmetric.iter().any(|word| kind.contains(word)) && !kind.contains("unsymmetric");
    // Most cases use a method and a preconditioner that accept the matrix.
    let any = r.chance(10.0);
    let solver = match r.chance(25.0) {
        true => "auto",
        false => loop {
            let solver = pick(r, &SOLVERS);
            if any || symmetric || !["cg", "steepest_descent", "minres"].contains(&solver) {
                break solver;
            }
        },
    };
    let sweeps = ["jacobi", "gauss_seidel", "sor"].contains(&solver);
    let preconditioner = match r.chance(25.0) {
        true => "auto",
        false if any => pick(r, &PRECONDITIONERS),
        false if sweeps => "none",
        false => match solver {
            "minres" => pick(r, &["none", "jacobi"]),
            "cg" | "steepest_descent" => pick(r, &PRECONDITIONERS),
            "auto" if symmetric => pick(r, &PRECONDITIONERS),
            _ if symmetric => pick(r, &["none", "jacobi", "neumann", "ic0", "ssor", "ilu0", "chebyshev"]),
            _ => pick(r, &["none", "jacobi", "neumann", "ssor", "ilu0", "chebyshev"]),
        },
    };
    let format = if r.chance(40.0) { "auto" } else { pick(r, &FORMATS) };
    let mut words = vec![format!("solver={solver} preconditioner={preconditioner} format={format}")];
    for (name, values) in [
        ("precision", &["f32", "f64"][..]),
        ("ordering", &ORDERINGS),
        ("sor_omega", &["0.5", "1", "1.7", "1.7", "2"]),
        ("blocks", &["1", "3", "100"]),
        ("block_size", &["1", "2", "3", "7"]),
        ("slice", &["1", "5", "16"]),
        ("sigma", &["1", "6", "1000"]),
        ("restart", &["1", "3", "10"]),
        ("shadow", &["1", "2", "8"]),
        ("shift", &["0", "0.1"]),
        ("degree", &["1", "2", "9"]),
        ("order", &["0", "1", "5"]),
        ("transpose", &["copy", "none"]),
        ("divergence_limit", &["1", "1e3", "1e200"]),
    ] {
        if r.chance(25.0) {
            words.push(format!("{name}={}", pick(r, values)));
        }
    }
    if r.chance(3.0) {
        words.push(format!("format_memory={}", r.whole(0, 2000)));
    }
    if r.chance(6.0) {
        words.push("check_input=0".to_owned());
    }
    if r.chance(10.0) {
        words.push(format!("abs_tol={:e}", r.power(-20.0, 2.0)));
    }
    let rel_tol = r.power(-15.0, -1.0);
    let reference = if r.chance(30.0) { "initial" } else { "rhs" };
    let limits = [(4.0, 0), (3.0, 1), (8.0, r.whole(2, 12)), (85.0, 300)];
    let max_iter = r.among(&limits);
    words.push(format!("rel_tol={rel_tol:e} reference={reference} max_iter={max_iter}"));
    words.join(" ")
}
