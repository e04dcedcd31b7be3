//! Random stencils, patches and options of `smoother_`: each sweep is judged by the residuals inside the blocks. A
//! relaxed block must leave 1 - omega times the residual that it found. tests/problems/src/cases/smoother.rs generates
//! the cases. Each case runs with two numbers of threads, whose results must be bitwise identical.
//!
//! | variable | meaning, default |
//! |---|---|
//! | `RRBSOLVER_TRUTH_CASES` | number of cases, 2000 |
//! | `RRBSOLVER_TRUTH_SEED` | seed of the sequence, 1 |
//! | `RRBSOLVER_TRUTH_CASE` | number of a single case, which is described |

#[path = "../common/mod.rs"]
mod common;

use common::dense::Dense;
use common::problems::cases::smoother::{self, Case, KINDS};
use common::smoother::*;
use common::truth::Cases;
use common::{Failure, max_abs, norm2, status};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Returns (offset, entry) of the stencil.
fn offsets(stencil: &[f64]) -> Vec<([i64; 3], f64)> {
    const SEVEN: [[i64; 3]; 7] = [[0, 0, 0], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];
    let cube = |q: i64| [q % 3 - 1, q / 3 % 3 - 1, q / 9 - 1];
    let offset = |q: usize| if stencil.len() == 7 { SEVEN[q] } else { cube(q as i64) };
    stencil.iter().enumerate().map(|(q, &value)| (offset(q), value)).collect()
}

/// Cells of one patch: indices in arrays with and without ghost cells.
#[derive(Clone, Copy)]
struct Cells {
    lower: [i64; 3],
    size: [i64; 3],
}

impl Cells {
    fn of(level: &Level, p: usize) -> Cells {
        Cells { lower: level.lower[p], size: level.size[p] }
    }

    fn all(self) -> impl Iterator<Item = [i64; 3]> {
        let [nx, ny, nz] = self.size;
        (0..nx * ny * nz).map(move |c| [c % nx, c / nx % ny, c / nx / ny])
    }

    fn inside(self, cell: [i64; 3]) -> bool {
        (0..3).all(|d| (0..self.size[d]).contains(&cell[d]))
    }

    /// Returns the index in u.
    fn wide(self, [i, j, k]: [i64; 3]) -> usize {
        (((k + 1) * (self.size[1] + 2) + j + 1) * (self.size[0] + 2) + i + 1) as usize
    }

    /// Returns the index in f.
    fn narrow(self, [i, j, k]: [i64; 3]) -> usize {
        ((k * self.size[1] + j) * self.size[0] + i) as usize
    }
}

/// Division of the cells into blocks in one sweep.
struct Cut {
    block: [i64; 3],
    shift: [i64; 3],
}

impl Cut {
    /// Returns the cut of sweep `sweep`, counted from 1.
    fn of(case: &Case, sweep: i32) -> Cut {
        let shifted = case.stagger == 1 && sweep % 2 == 0 || case.stagger == 2 && sweep % 2 == 1;
        Cut { block: case.block, shift: case.block.map(|b| if shifted { -(b / 2) } else { 0 }) }
    }

    /// Returns the global block index of a cell of the patch.
    fn block_of(&self, cells: Cells, cell: [i64; 3]) -> [i64; 3] {
        [0, 1, 2].map(|d| (cells.lower[d] + cell[d] - self.shift[d]).div_euclid(self.block[d]))
    }

    /// Returns the position of a block in the order of the sweep. Blocks at equal positions do not depend on each
    /// other.
    fn position(&self, case: &Case, block: [i64; 3]) -> [i64; 3] {
        let [i, j, k] = block;
        let colour = match case.stencil.len() {
            7 => (i + j + k) & 1,
            _ => (i & 1) + 2 * (j & 1) + 4 * (k & 1),
        };
        let position = match case.method {
            "block_jacobi" => [0; 3],
            "coloured_gauss_seidel" => [colour, 0, 0],
            _ => [k, j, i],
        };
        if case.reverse { position.map(|p| -p) } else { position }
    }
}

/// Sum and sum of magnitudes of f - A v in a cell.
fn residual(entries: &[([i64; 3], f64)], f: f64, cell: [i64; 3], value: impl Fn([i64; 3]) -> f64) -> (f64, f64) {
    let mut sums = (f, f.abs());
    for &(offset, entry) in entries {
        let product = entry * value([0, 1, 2].map(|d| cell[d] + offset[d]));
        sums = (sums.0 - product, sums.1 + product.abs());
    }
    sums
}

/// Returns the limit of the rounding error of a relaxed block: the square of the condition number of a block in the
/// maximum norm, and the condition number of the transforms.
fn limit(case: &Case, fast: bool) -> f64 {
    let entries = offsets(&case.stencil);
    let center = entries.iter().find(|entry| entry.0 == [0; 3]).expect("a center").1.abs();
    let sum: f64 = entries.iter().map(|entry| entry.1.abs()).sum();
    let condition = if case.kind.ends_with("not dominant") {
        sum * norm_of_inverses(case, &entries)
    } else {
        // In a weakly dominant block of at most 8 cells per direction, the inverse is below 100 / center.
        sum * (1.0 / (2.0 * center - sum).max(1e-300)).min(100.0 / center)
    };
    let mut transforms = 1.0f64;
    if fast && case.stencil.len() == 7 {
        for d in 0..3 {
            let (low, high) = (case.stencil[1 + 2 * d], case.stencil[2 + 2 * d]);
            if low * high > 0.0 {
                let ratio = (low / high).max(high / low);
                transforms *= ratio.powf(0.5 * (case.block[d] - 1) as f64);
            }
        }
    }
    16.0 * f64::EPSILON * condition * (condition + transforms)
}

/// Returns the largest norm of the inverse of a block with at most 3 cells per direction.
fn norm_of_inverses(case: &Case, entries: &[([i64; 3], f64)]) -> f64 {
    let mut largest = 0.0f64;
    let shapes = Cells { lower: [0; 3], size: case.block };
    for shape in shapes.all().map(|cell| cell.map(|n| n + 1)) {
        let cells = Cells { lower: [0; 3], size: shape };
        let n = cells.all().count();
        let mut block = Dense { n, a: vec![0.0; n * n] };
        for cell in cells.all() {
            for &(offset, entry) in entries {
                let other = [0, 1, 2].map(|d| cell[d] + offset[d]);
                if cells.inside(other) {
                    block.a[cells.narrow(cell) * n + cells.narrow(other)] = entry;
                }
            }
        }
        let mut sums = vec![0.0; n];
        for j in 0..n {
            let mut unit = vec![0.0; n];
            unit[j] = 1.0;
            block.solve(&unit).iter().zip(&mut sums).for_each(|(value, sum)| *sum += value.abs());
        }
        largest = sums.iter().fold(largest, |m, &sum| if sum.is_nan() { f64::INFINITY } else { m.max(sum) });
    }
    largest
}

/// Judges one sweep, from `old` with refreshed ghost cells to `new`.
fn judge_sweep(case: &Case, sweep: i32, old: &Level, new: &Level, limit: f64) -> Result<(), String> {
    let (entries, cut) = (offsets(&case.stencil), Cut::of(case, sweep));
    let default = if case.method == "block_jacobi" { 0.8 } else { 1.0 };
    let omega = if case.omega == 0.0 { default } else { case.omega };
    for p in 0..old.u.len() {
        let cells = Cells::of(old, p);
        let (before, after) = (&old.u[p], &new.u[p]);
        // Largest sum of magnitudes and largest error per block.
        let mut blocks = BTreeMap::<[i64; 3], (f64, f64)>::new();
        for cell in cells.all() {
            let block = cut.block_of(cells, cell);
            let position = cut.position(case, block);
            let value = |other: [i64; 3], own: bool| {
                let of = cut.block_of(cells, other);
                let is_new = cells.inside(other) && if of == block { own } else { cut.position(case, of) < position };
                (if is_new { after } else { before })[cells.wide(other)]
            };
            let f = old.f[p][cells.narrow(cell)];
            let (found, size) = residual(&entries, f, cell, |other| value(other, false));
            let (left, more) = residual(&entries, f, cell, |other| value(other, true));
            let entry = blocks.entry(block).or_default();
            *entry = (entry.0.max(size).max(more), entry.1.max((left - (1.0 - omega) * found).abs()));
        }
        for (block, (size, error)) in blocks {
            if error.is_nan() || error > limit * size {
                return Err(format!(
                    "sweep {sweep}, patch {p}, block {block:?}: error {error:e}, limit {:e}",
                    limit * size
                ));
            }
        }
    }
    Ok(())
}

/// Judges the residual that the library computes for these u, whose ghost cells are refreshed.
fn judge_residual(case: &Case, smoother: &Smoother, level: &mut Level) -> Result<(), String> {
    let (r, norm) = (smoother.residual(level), smoother.norm(level));
    let entries = offsets(&case.stencil);
    let unit = r.iter().map(|r| max_abs(r)).fold(0.0, f64::max);
    for (p, r) in r.iter().enumerate() {
        let cells = Cells::of(level, p);
        for cell in cells.all() {
            let f = level.f[p][cells.narrow(cell)];
            let (value, size) = residual(&entries, f, cell, |other| level.u[p][cells.wide(other)]);
            let error = (r[cells.narrow(cell)] - value).abs();
            if error.is_nan() || error > 60.0 * f64::EPSILON * size {
                return Err(format!("residual of patch {p}, cell {cell:?} is off by {error:e}"));
            }
        }
    }
    let scaled: Vec<f64> = r.iter().flatten().map(|r| if unit > 0.0 { r / unit } else { 0.0 }).collect();
    let expected = unit * norm2(&scaled);
    if (norm - expected).abs() > 1e-12 * expected {
        return Err(format!("the norm is {norm:e}, not {expected:e}"));
    }
    Ok(())
}

/// Checks that each ghost cell at a face has the value from before the sweep.
fn judge_ghosts(old: &Level, new: &Level) -> Result<(), String> {
    for p in 0..old.u.len() {
        let cells = Cells::of(old, p);
        let wide = Cells { lower: [0; 3], size: cells.size.map(|n| n + 2) };
        for cell in wide.all().map(|cell| cell.map(|c| c - 1)) {
            let outside = (0..3).filter(|&d| !(0..cells.size[d]).contains(&cell[d])).count();
            let at = cells.wide(cell);
            if outside == 1 && old.u[p][at].to_bits() != new.u[p][at].to_bits() {
                return Err(format!("ghost cell {cell:?} of patch {p} has not the value that the sweep read"));
            }
        }
    }
    Ok(())
}

/// Creates the smoother of a case.
fn create(case: &Case, more: &str) -> Result<Smoother, Failure> {
    let smoother = Smoother::try_new(&case.stencil, case.block)?;
    smoother.options(&format!("{} {more}", case.options)).expect("options");
    smoother.patches(&case.level).map(|_| smoother)
}

/// Judges an error of set_patches or of apply.
fn refused(case: &Case, failure: &Failure) -> Result<Vec<String>, String> {
    let justified = match failure.status {
        status::MATRIX => case.kind.ends_with("not dominant"),
        status::UNSUPPORTED => case.block_solver == "fast_diagonalization" || case.overlap,
        status::NOT_FINITE => case.not_finite,
        _ => false,
    };
    match justified && !failure.message.is_empty() {
        true => Ok(vec![format!("error {}", failure.status)]),
        false => Err(format!("{failure:?}")),
    }
}

/// Runs a case. Returns the classes of its result.
fn run(case: &Case, number: u64) -> Result<Vec<String>, String> {
    let threads = [1 + number % 3, 1 + (number + 1) % 3];
    let form = format!("parallel={}", case.parallel);
    let smoother = match create(case, &format!("{form} threads={}", threads[0])) {
        Err(failure) => return refused(case, &failure),
        Ok(smoother) => smoother,
    };
    let mut old = case.level.clone();
    if let Err(failure) = smoother.apply(&mut old, 0) {
        if bits(&old) != bits(&case.level) {
            return Err(format!("u changed by {failure:?}"));
        }
        return refused(case, &failure);
    }
    if case.not_finite {
        return Err("f is not finite, and accepted".to_owned());
    }
    let fast = smoother.int(key::INFO_BLOCK_SOLVER) == FAST_DIAGONALIZATION;
    let limit = limit(case, fast);
    let sequential = case.method != "chaotic_gauss_seidel" || case.parallel == "patch";
    let judged = sequential && !case.overlap && limit < 1e-3;
    for sweep in 1..=case.sweeps {
        smoother.exchange(&mut old);
        let mut new = case.level.clone();
        smoother.apply(&mut new, sweep).map_err(|failure| format!("{failure:?}"))?;
        if sequential {
            judge_ghosts(&old, &new)?;
        }
        if judged {
            judge_sweep(case, sweep, &old, &new, limit)?;
        }
        old = new;
    }
    if sequential {
        let other =
            create(case, &format!("{form} threads={}", threads[1])).map_err(|failure| format!("{failure:?}"))?;
        let mut again = case.level.clone();
        other.apply(&mut again, case.sweeps).map_err(|failure| format!("{failure:?}"))?;
        if case.sweeps > 0 && bits(&again) != bits(&old) {
            return Err(format!("differs with threads={threads:?}"));
        }
    }
    smoother.exchange(&mut old);
    if old.u.iter().flatten().any(|u| !u.is_finite()) {
        return Err("u is not finite".to_owned());
    }
    judge_residual(case, &smoother, &mut old)?;
    if sequential {
        compare_with_reference(case, &old, limit)?;
    }
    let solver = if fast { "sine transforms" } else { "dense inverses" };
    let class = match (judged && case.sweeps > 0, case.overlap) {
        (true, _) => format!("judged: {}, {solver}", case.method),
        (_, true) => "overlapping blocks".to_owned(),
        _ => "residual only".to_owned(),
    };
    Ok(vec![class, "solved".to_owned(), if case.stagger > 0 { "staggered" } else { "not staggered" }.to_owned()])
}

/// Compares u after all sweeps with the reference backend.
fn compare_with_reference(case: &Case, found: &Level, limit: f64) -> Result<(), String> {
    let reference = create(case, &format!("backend=reference parallel={} block_solver=dense", case.parallel))
        .map_err(|failure| format!("reference: {failure:?}"))?;
    let mut expected = case.level.clone();
    reference.apply(&mut expected, case.sweeps).map_err(|failure| format!("reference: {failure:?}"))?;
    reference.exchange(&mut expected);
    let largest = expected.u.iter().map(|u| max_abs(u)).fold(0.0, f64::max);
    let error = difference(found, &expected);
    // Sweeps that diverge multiply errors.
    if limit < 1e-9 && error > 1e4 * limit * largest {
        return Err(format!("u differs from the reference by {error:e} of {largest:e}, limit {limit:e}"));
    }
    Ok(())
}

/// Classes of results, each with its smallest share of the cases.
const LEAST: [(&str, f64); 9] = [
    ("judged: coloured_gauss_seidel, sine transforms", 0.05),
    ("judged: coloured_gauss_seidel, dense inverses", 0.05),
    ("judged: block_jacobi, sine transforms", 0.03),
    ("judged: block_jacobi, dense inverses", 0.03),
    ("judged: chaotic_gauss_seidel, sine transforms", 0.01),
    ("judged: chaotic_gauss_seidel, dense inverses", 0.01),
    ("overlapping blocks", 0.02),
    ("staggered", 0.1),
    ("error -6", 0.02),
];

#[test]
fn random_stencils() {
    let all = Cases::of_environment(2000);
    let (cases, alone) = (all.count, all.alone);
    let results = Mutex::new((BTreeMap::<String, u64>::new(), BTreeMap::new()));
    all.each(|number| {
        let case = smoother::make(all.seed, number);
        let patches: Vec<_> = case.level.lower.iter().zip(&case.level.size).collect();
        let text = || {
            format!(
                "{}, {:?}, blocks {:?}, {patches:?}, {} sweeps: {} parallel={}",
                case.kind, case.stencil, case.block, case.sweeps, case.options, case.parallel
            )
        };
        if alone.is_some() {
            println!("{}", text());
        }
        let found = run(&case, number);
        let (counts, wrong) = &mut *results.lock().expect("no panic");
        *counts.entry(case.kind.to_owned()).or_default() += 1;
        match found {
            Ok(classes) => classes.into_iter().for_each(|class| *counts.entry(class).or_default() += 1),
            Err(what) => {
                wrong.insert(number, format!("case {number}: {what}\n      {}", text()));
            }
        }
    });
    let (counts, wrong) = results.into_inner().expect("no panic");
    let wrong: Vec<String> = wrong.into_values().collect();
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    let least = LEAST.into_iter().chain(KINDS.iter().map(|&kind| (kind, 0.02)));
    for (class, part) in least {
        let (found, least) = (counts.get(class).copied().unwrap_or(0), (part * cases as f64) as u64);
        assert!(cases < 500 || alone.is_some() || found >= least, "{found} cases of {class}, least {least}");
    }
}
