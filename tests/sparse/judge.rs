//! Judges calls of `sparse_` by the exact properties of the matrix and by residuals in twice the working precision.

use crate::common::problems::cases::sparse::Case;
use crate::common::problems::sparse::Entry;
use crate::common::problems::twice::{Twice, exponent, scaled};
use crate::common::sparse::key;
use crate::common::{Failure, bits, max_abs, status};
use std::collections::BTreeMap;

/// Values of `RRB_INFO_STOP_REASON`.
pub mod reason {
    pub const CONVERGED: i64 = 1;
    pub const ZERO_RHS: i64 = 3;
    pub const MAX_ITER: i64 = 4;
    pub const STAGNATED: i64 = 6;
    pub const DIVERGED: i64 = 8;
}

/// Relative error of a norm that the library computes, in addition to the rounding of the residual.
const NORM_ERROR: f64 = 1e-11;

/// Status that a call returned, and what it wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub call: &'static str,
    pub status: i32,
    pub message: String,
    /// Bits of the output vector.
    pub bits: Vec<u64>,
    /// Stop reason, iterations, method and preconditioner.
    pub numbers: [i64; 4],
    /// Bits of the initial and of the final residual.
    pub residuals: [u64; 2],
    /// Number of values of the history.
    pub history: i64,
}

impl Event {
    pub fn failure(call: &'static str, failure: &Failure, out: &[f64]) -> Event {
        Event { call, status: failure.status, message: failure.message.clone(), bits: bits(out), ..Event::default() }
    }

    pub fn values(&self) -> Vec<f64> {
        self.bits.iter().map(|&bits| f64::from_bits(bits)).collect()
    }
}

/// value * 2^exponent.
#[derive(Clone, Copy, Debug, Default)]
struct Wide {
    value: f64,
    exponent: i32,
}

impl Wide {
    /// Returns the number in units of 2^unit.
    fn in_units(self, unit: i32) -> f64 {
        scaled(self.value, self.exponent - unit)
    }

    /// Returns log2 of the number.
    fn log2(self) -> f64 {
        self.value.log2() + f64::from(self.exponent)
    }
}

/// Returns the 2-norm.
fn norm(v: &[Wide]) -> Wide {
    let unit = v.iter().filter(|v| v.value != 0.0).map(|v| v.exponent).max().unwrap_or(0);
    let square: f64 = v.iter().map(|v| v.in_units(unit)).map(|v| v * v).sum();
    Wide { value: square.sqrt(), exponent: unit }
}

/// Products whose exponent is below that of the largest product by more than this are negligible.
const NEGLIGIBLE: i32 = -250;

/// Returns b - sum of a x, and |b| + sum of |a x|.
fn residual_of_row(b: f64, terms: impl Iterator<Item = (f64, f64)>) -> (Wide, Wide) {
    let mut products = vec![(b, 1.0)];
    products.extend(terms.map(|(a, x)| (-a, x)));
    products.retain(|&(a, x)| a != 0.0 && x != 0.0);
    let of = |&(a, x): &(f64, f64)| exponent(a.abs()) + exponent(x.abs());
    let Some(unit) = products.iter().map(of).max() else { return Default::default() };
    let (mut sum, mut size) = (Twice::default(), 0.0);
    for product in &products {
        let shift = of(product) - unit;
        if shift < NEGLIGIBLE {
            continue;
        }
        let mantissa = |v: f64| scaled(v, -exponent(v.abs()));
        let term = Twice::from(mantissa(product.0)) * mantissa(product.1) * scaled(1.0, shift);
        sum = sum + term;
        size += term.abs().value();
    }
    let wide = |value: f64| Wide { value, exponent: unit };
    (wide(sum.value()), wide(size))
}

/// The matrix with its exact properties.
pub struct Matrix {
    rows: Vec<Vec<(usize, f64)>>,
    columns: Vec<Vec<(usize, f64)>>,
    square: bool,
    empty: bool,
    zero_diagonal: bool,
    missing_diagonal: bool,
    positive_diagonal: bool,
    diagonal: bool,
    /// Whether all entries outside the diagonal are zero.
    diagonal_values: bool,
    /// Largest difference of mirrored entries, divided by the limit below which the library considers them equal.
    asymmetry: f64,
    /// Largest row sum of magnitudes, as log2.
    log2_sum: f64,
}

impl Matrix {
    pub fn new(rows: usize, cols: usize, entries: &[Entry]) -> Matrix {
        let mut sums = BTreeMap::<(usize, usize), f64>::new();
        entries.iter().for_each(|&(i, j, value)| *sums.entry((i, j)).or_default() += value);
        let (mut of_rows, mut of_columns) = (vec![Vec::new(); rows], vec![Vec::new(); cols]);
        for (&(i, j), &value) in &sums {
            of_rows[i].push((j, value));
            of_columns[j].push((i, value));
        }
        let at = |i: usize, j: usize| sums.get(&(i, j)).copied().unwrap_or(0.0);
        let empty = |line: &Vec<(usize, f64)>| line.iter().all(|entry| entry.1 == 0.0);
        let largest = |i: usize| of_rows[i].iter().fold(0.0, |m: f64, entry| m.max(entry.1.abs()));
        let n = rows.min(cols);
        let mut asymmetry = 0.0f64;
        for (&(i, j), &value) in sums.iter().filter(|((i, j), _)| *i < n && *j < n) {
            let (di, dj) = (at(i, i).abs(), at(j, j).abs());
            let limit = if di == 0.0 || dj == 0.0 { largest(i).min(largest(j)) } else { di.sqrt() * dj.sqrt() };
            let difference = (value - at(j, i)).abs();
            if difference > 0.0 {
                asymmetry = asymmetry.max(difference / limit / 1e-12);
            }
        }
        let sum = |row: &Vec<(usize, f64)>| residual_of_row(0.0, row.iter().map(|&(_, a)| (a, 1.0))).1.log2();
        Matrix {
            square: rows == cols,
            empty: of_rows.iter().chain(&of_columns).any(empty),
            zero_diagonal: (0..n).any(|i| at(i, i) == 0.0),
            missing_diagonal: (0..n).any(|i| !sums.contains_key(&(i, i))),
            positive_diagonal: (0..n).all(|i| at(i, i) > 0.0),
            diagonal: sums.keys().all(|(i, j)| i == j),
            diagonal_values: sums.iter().all(|((i, j), &value)| i == j || value == 0.0),
            asymmetry,
            log2_sum: of_rows.iter().map(sum).fold(f64::NEG_INFINITY, f64::max),
            rows: of_rows,
            columns: of_columns,
        }
    }

    /// Returns the residual, and a bound of the rounding error of a residual in double precision. `unit` is the
    /// exponent of the values of b: the library divides b and x by this power of two.
    fn residual(&self, b: &[f64], x: &[f64], unit: i32) -> (Wide, Wide) {
        let (mut r, mut errors) = (Vec::new(), Vec::new());
        for (row, &b) in self.rows.iter().zip(b) {
            let (value, size) = residual_of_row(b, row.iter().map(|&(j, a)| (a, x[j])));
            r.push(value);
            errors.push(Wide { value: (row.len() + 3) as f64 * f64::EPSILON * size.value, ..size });
            // Values of x below the smallest normal number have larger relative errors.
            let least = scaled(1.0, -1074 + unit.max(0));
            let sum = residual_of_row(0.0, row.iter().map(|&(_, a)| (a, least))).1;
            errors.push(sum);
        }
        (norm(&r), norm(&errors))
    }
}

/// A case and the matrix that is factorized.
pub struct Judge<'c> {
    pub case: &'c Case,
    pub a: Matrix,
}

impl<'c> Judge<'c> {
    pub fn new(case: &'c Case, entries: &[Entry]) -> Judge<'c> {
        Judge { case, a: Matrix::new(case.rows, case.cols, entries) }
    }

    /// Returns whether the magnitudes of entries, right-hand side or guess may cause overflow or underflow.
    fn wild(&self) -> bool {
        ["A: scaled", "rows scaled", "rows and columns scaled", "b: scaled", "guess: far", "input not finite"]
            .iter()
            .any(|feature| self.case.has(feature))
    }

    /// Judges y = A x, or y = A' x.
    pub fn product(&self, transposed: bool, event: &Event) -> Result<(), String> {
        let case = self.case;
        let lines = if transposed { &self.a.columns } else { &self.a.rows };
        let x = vector(case, transposed);
        if event.status != status::OK {
            let justified = match event.status {
                status::ARGUMENT => case.option("format", "auto") == "diagonal" && !self.a.diagonal,
                status::DIMENSION => case.option("format", "auto") == "skyline" && !self.a.square,
                status::MEMORY => case.options.contains("format_memory"),
                status::UNSUPPORTED => self.has_no_kernel(),
                _ => false,
            };
            return accept(justified && !event.message.is_empty(), || format!("{event:?}"));
        }
        for (i, (line, y)) in lines.iter().zip(event.values()).enumerate() {
            let terms = || line.iter().map(|&(j, a)| (a, x[j]));
            if residual_of_row(0.0, terms()).1.log2() > 1020.0 {
                continue;
            }
            let (r, size) = residual_of_row(y, terms());
            let error = (line.len() + 1) as f64 * f64::EPSILON * size.value;
            // Each product may underflow.
            let underflow = scaled(line.len() as f64, -1074 - size.exponent);
            if !y.is_finite() || r.value.abs() > error + underflow {
                return Err(format!("row {i} of the product is {y:e}, off by {:e} of {:e}", r.value, size.value));
            }
        }
        Ok(())
    }

    /// Returns method and preconditioner by the rules of `auto`.
    fn method(&self) -> (&str, &str) {
        let asked = self.case.option("solver", "auto");
        let solver = match asked {
            "auto" if self.a.diagonal_values => "jacobi",
            "auto" if self.a.asymmetry > 1.0 => "idr",
            "auto" if self.a.positive_diagonal => "cg",
            "auto" => "minres",
            asked => asked,
        };
        (solver, self.case.option("preconditioner", "auto"))
    }

    fn on_device(&self) -> bool {
        self.case.option("backend", "cpu") == "cuda"
    }

    /// Returns whether the format has no kernel on the device of the case.
    fn has_no_kernel(&self) -> bool {
        self.on_device() && ["coo", "csc", "jds", "tjds", "skyline"].contains(&self.case.option("format", "auto"))
    }

    /// Returns whether the device has no kernel for the order of the rows.
    fn has_no_order(&self) -> bool {
        let (solver, m) = self.method();
        let by_rows = ["gauss_seidel", "sor"].contains(&solver) || ["ssor", "ic0", "ilu0"].contains(&m);
        self.on_device() && by_rows && self.case.option("ordering", "natural") != "multicolour"
    }

    /// Returns the errors that factorize must return one of, and the other errors that it may return.
    fn errors_of_factorize(&self) -> (Vec<i32>, Vec<i32>) {
        let (case, a) = (self.case, &self.a);
        if !a.square {
            return (vec![status::DIMENSION], vec![]);
        }
        let (solver, m) = self.method();
        let sweeps = ["jacobi", "gauss_seidel", "sor"].contains(&solver);
        let single = ["f32", "single"].contains(&case.option("precision", "auto"));
        let divides = ["jacobi", "ssor", "ic0", "neumann", "chebyshev", "amg"].contains(&m);
        let needs_symmetry = ["cg", "steepest_descent", "minres"].contains(&solver) || m == "ic0";
        let unsupported = match m {
            "auto" | "none" => false,
            _ if sweeps => true,
            "jacobi" => false,
            "amg" => !["cg", "steepest_descent"].contains(&solver),
            _ => solver == "minres",
        };
        let transposes_in_place = case.options.contains("format_memory") || case.option("transpose", "auto") == "none";
        let omega_is_used = ["jacobi", "sor"].contains(&solver) || m == "ssor";
        let certain = [
            (a.empty, status::MATRIX),
            (needs_symmetry && a.asymmetry > 2.0, status::MATRIX),
            ((sweeps || divides) && a.zero_diagonal, status::MATRIX),
            (m == "ilu0" && a.missing_diagonal, status::MATRIX),
            (m == "ic0" && !a.positive_diagonal, status::MATRIX),
            (unsupported || self.has_no_kernel() || self.has_no_order(), status::UNSUPPORTED),
            (omega_is_used && case.option("sor_omega", "0") == "2", status::ARGUMENT),
            (case.option("format", "auto") == "diagonal" && !a.diagonal, status::ARGUMENT),
        ];
        let possible = [
            (needs_symmetry && a.asymmetry > 0.5, status::MATRIX),
            // A pivot may be zero by cancellation, or outside the range of doubles.
            (m == "ilu0" && !case.benign, status::MATRIX),
            (m == "ic0" && (case.options.contains("shift=0") && !case.benign || self.wild()), status::MATRIX),
            (single && !case.benign, status::MATRIX),
            (m == "amg" && self.wild(), status::MATRIX),
            (case.options.contains("format_memory"), status::MEMORY),
            // The infinity norm may be out of range.
            (case.option("precision", "auto") == "single" && self.wild(), status::MATRIX),
            // A device has no products with A' without a copy, except in the formats dia and diagonal.
            (self.on_device() && solver == "bicg" && transposes_in_place, status::UNSUPPORTED),
        ];
        let errors =
            |list: &[(bool, i32)]| -> Vec<i32> { list.iter().filter(|error| error.0).map(|error| error.1).collect() };
        (errors(&certain), errors(&possible))
    }

    pub fn factorized(&self, event: &Event) -> Result<(), String> {
        let (certain, possible) = self.errors_of_factorize();
        let justified = match event.status {
            status::OK => certain.is_empty(),
            other => (certain.contains(&other) || possible.contains(&other)) && !event.message.is_empty(),
        };
        accept(justified, || format!("{event:?}, but the judge expects one of {certain:?}, accepts {possible:?}"))
    }

    /// Judges z = M^-1 r.
    pub fn applied(&self, event: &Event) -> Result<(), String> {
        let sweeps = ["jacobi", "gauss_seidel", "sor"].contains(&self.method().0);
        let finite = event.values().iter().all(|z| z.is_finite());
        let justified = match event.status {
            status::OK => !sweeps && finite,
            status::UNSUPPORTED => sweeps,
            status::RANGE | status::NOT_FINITE | status::BREAKDOWN => !self.case.benign,
            _ => false,
        };
        accept(justified, || format!("{event:?}"))
    }

    /// Returns whether `solver=cg` and `solver=steepest_descent` must not break down.
    fn definite(&self) -> bool {
        let definite = ["dominant, symmetric", "Laplacian"].contains(&self.case.kind);
        definite && !["ilu0", "chebyshev"].contains(&self.method().1) && !self.wild()
    }

    /// Returns log2 of the ratio of max |guess| to its largest accepted value.
    fn log2_of_relative_guess(&self) -> f64 {
        let (b, x) = (max_abs(&self.case.b), max_abs(&self.case.guess));
        x.log2() + self.a.log2_sum - 1.0 - b.log2() - 150.0 * 10f64.log2()
    }

    /// Returns whether the tolerance is below the bound of `precision=single`.
    fn is_too_accurate(&self) -> bool {
        let rel_tol: f64 = self.case.option("rel_tol", "1e-6").parse().expect("a number");
        self.case.option("precision", "auto") == "single" && rel_tol < 1e-5
    }

    fn refused(&self, event: &Event, guess: &[f64]) -> Result<(), String> {
        if event.bits != bits(guess) {
            return Err(format!("x changed by an error: {event:?}"));
        }
        let case = self.case;
        let unchecked = case.option("check_input", "1") == "0";
        let not_finite = case.b.iter().chain(&case.guess).any(|v| !v.is_finite());
        let justified = match event.status {
            status::NOT_FINITE if not_finite && !unchecked => true,
            status::NOT_FINITE | status::RANGE => self.wild(),
            status::BREAKDOWN if not_finite => unchecked,
            status::BREAKDOWN => {
                let needs_definite = ["cg", "steepest_descent"].contains(&case.option("solver", "auto"));
                self.wild() || needs_definite && !self.definite()
            }
            status::ARGUMENT => self.log2_of_relative_guess() > -1.0 || self.is_too_accurate(),
            _ => false,
        };
        accept(justified && !event.message.is_empty(), || format!("{event:?}"))
    }

    /// Judges a solve that started from `guess`. Returns the class of the result.
    pub fn solved(&self, event: &Event, guess: &[f64]) -> Result<String, String> {
        let (case, x) = (self.case, event.values());
        if event.status < 0 {
            self.refused(event, guess)?;
            return Ok(format!("solve: {}", event.status));
        }
        accept(!self.is_too_accurate(), || format!("rel_tol is below 1e-5: {event:?}"))?;
        let [reason, iterations, ..] = event.numbers;
        let max_iter: i64 = case.option("max_iter", "1000").parse().expect("a number");
        let fits = match event.status {
            status::OK => (reason::CONVERGED..=reason::ZERO_RHS).contains(&reason),
            status::NOT_CONVERGED => match reason {
                reason::MAX_ITER => iterations == max_iter,
                other => [reason::STAGNATED, reason::DIVERGED].contains(&other),
            },
            _ => false,
        };
        if !fits || iterations > max_iter || x.iter().any(|x| !x.is_finite()) {
            return Err(format!("wrong reason, number of iterations or x: {event:?}"));
        }
        if case.b.iter().any(|b| !b.is_finite()) || case.guess.iter().any(|x| !x.is_finite()) && reason != 3 {
            return Err(format!("input is not finite: {event:?}"));
        }
        if max_abs(&case.b) == 0.0 {
            let zero = event.status == status::OK && x.iter().all(|x| *x == 0.0);
            return accept(zero, || format!("b is zero: {event:?}")).map(|()| "b is zero".to_owned());
        }
        if self.log2_of_relative_guess() > 1.0 {
            return Err(format!("the guess is too large: {event:?}"));
        }
        let plural = if iterations == 1 { "" } else { "s" };
        let words = format!("not converged: {iterations} iteration{plural}, ");
        if event.status == status::NOT_CONVERGED && !event.message.starts_with(&words) {
            return Err(format!("message: {event:?}"));
        }
        accept(event.history == iterations + 1, || format!("history of {} values: {event:?}", event.history))?;
        self.residuals(event, guess, &x)?;
        Ok(format!("solve: {}, reason {reason}", event.status))
    }

    /// Compares the residual with the tolerance and with the reported residuals.
    fn residuals(&self, event: &Event, guess: &[f64], x: &[f64]) -> Result<(), String> {
        let case = self.case;
        let wide: Vec<Wide> = case.b.iter().map(|&value| Wide { value, exponent: 0 }).collect();
        let largest = exponent(max_abs(&case.b));
        let of_b =
            norm(&wide.iter().map(|b| Wide { value: b.in_units(largest), exponent: largest }).collect::<Vec<_>>());
        let unit = of_b.exponent;
        let measure = |x: &[f64]| {
            let (r, error) = self.a.residual(&case.b, x, largest);
            (r.in_units(unit), error.in_units(unit))
        };
        let ((initial, of_initial), (last, of_last)) = (measure(guess), measure(x));
        let number = |name, default| case.option(name, default).parse::<f64>().expect("a number");
        let (reference, of_reference) =
            if case.option("reference", "rhs") == "initial" { (initial, of_initial) } else { (of_b.value, 0.0) };
        let abs_tol = scaled(number("abs_tol", "0"), -unit);
        let rel_tol = number("rel_tol", "1e-6");
        let most = (rel_tol * (reference + of_reference)).max(abs_tol) * (1.0 + NORM_ERROR);
        let least = (rel_tol * (reference - of_reference)).max(abs_tol) * (1.0 - NORM_ERROR);
        if event.status == status::OK && last > most + of_last {
            return Err(format!("converged, but residual {last:e}, allowed {most:e}, rounding {of_last:e}: {event:?}"));
        }
        if event.status == status::NOT_CONVERGED && last + of_last < least {
            return Err(format!("not converged, but residual {last:e}, allowed {least:e}: {event:?}"));
        }
        let best = [reason::STAGNATED, reason::DIVERGED].contains(&event.numbers[0]);
        if best && last - of_last > (initial + of_initial) * (1.0 + NORM_ERROR) {
            return Err(format!("x is worse than the guess, {last:e} against {initial:e}: {event:?}"));
        }
        for (name, reported, (norm, error)) in
            [("initial", event.residuals[0], (initial, of_initial)), ("final", event.residuals[1], (last, of_last))]
        {
            let reported = f64::from_bits(reported);
            let high = reported * (reference + of_reference) * (1.0 + NORM_ERROR) >= norm - error;
            let low = reported * (reference - of_reference) * (1.0 - NORM_ERROR) <= norm + error;
            if !high || !low {
                return Err(format!(
                    "{name} residual is reported as {reported:e}, true {:e}, rounding {:e}: {event:?}",
                    norm / reference,
                    error / reference
                ));
            }
        }
        Ok(())
    }
}

/// Returns the vector of products with A, or of products with A'.
pub fn vector(case: &Case, transposed: bool) -> Vec<f64> {
    if transposed { (0..case.rows).map(|i| case.x[i % case.cols]).collect() } else { case.x.clone() }
}

fn accept(justified: bool, text: impl Fn() -> String) -> Result<(), String> {
    if justified { Ok(()) } else { Err(text()) }
}

/// Keys of the numbers of an event (`Event::numbers`).
pub const NUMBERS: [i32; 4] = [key::STOP_REASON, key::ITERATIONS, key::INFO_SOLVER, key::PRECONDITIONER];
