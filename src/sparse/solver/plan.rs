//! Selection of the method and the preconditioner for a matrix. An error states why a requested choice cannot be used.

use crate::base::index::is_narrow;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result};
use crate::options::limits::{AMG_ROWS, AMG_ROWS_ON_DEVICE, SPARSE_DEVICE_ENTRIES};
use crate::options::{Choice, Format, Options, Ordering, Precision, Preconditioner, Solver, Transpose, Triangle, opt};
use crate::sparse::backend::{Preconditioning, SweepParameters};
use crate::sparse::{Asymmetry, Inspection, MatrixSizes};

/// The method and its preconditioner M.
pub struct Plan {
    pub solver: Solver,
    pub preconditioner: Preconditioner,
    pub preconditioning: Preconditioning,
    /// Preconditioner to use if the setup of M breaks down on a pivot. Set only if M was selected automatically.
    pub fallback: Option<Preconditioner>,
    /// Whether the matrix is symmetric.
    pub symmetric: bool,
    /// Precision in which the entries of M are stored.
    pub precision: Precision,
    /// Preconditioner of MINRES, which continues if CG breaks down. Set only if CG was selected automatically.
    pub second: Option<Preconditioning>,
    /// Parameters of the sweeps; `None` unless the method is a relaxation method.
    pub sweep_parameters: Option<SweepParameters>,
    /// Whether M is considered positive definite: all diagonal entries of A are positive, and M is neither ilu0 nor
    /// chebyshev.
    pub definite: bool,
}

/// Selects method and preconditioner. Fails if the requested ones are not applicable to this matrix, or have no kernels
/// on the device.
pub fn plan(options: &Options, seen: &Inspection, on_device: bool) -> Result<Plan> {
    check_filled(seen.empty_row, seen.empty_column)?;
    if options.is(opt::PRECISION, Precision::Single) {
        check_single(seen, on_device)?;
    }
    let asked: Solver = options.choice(opt::SOLVER);
    let solver = match asked {
        Solver::Auto if seen.is_diagonal() => Solver::Jacobi,
        Solver::Auto if seen.asymmetry.is_some() => Solver::Idr,
        Solver::Auto if seen.first_not_positive.is_none() => Solver::Cg,
        Solver::Auto => Solver::Minres,
        asked => asked,
    };
    let of_solver = format!("solver={}", solver.name());
    if let (Solver::Cg | Solver::Minres | Solver::SteepestDescent, Some(asymmetry)) = (solver, seen.asymmetry) {
        return Err(asymmetry_error(&of_solver, seen, &asymmetry, "idr or bicgstab"));
    }
    if let (true, Some(row)) = (is_relaxation(solver), seen.first_zero_diagonal) {
        return Err(no_diagonal_error(row, &of_solver, if seen.asymmetry.is_none() { "minres" } else { "idr" }));
    }
    let asked_m: Preconditioner = options.choice(opt::PRECONDITIONER);
    check_pair(solver, asked_m)?;
    if on_device {
        check_kernels(solver, asked_m, options)?;
    }
    let preconditioner = match asked_m {
        Preconditioner::Auto => choose_preconditioner(solver, seen, on_device),
        asked => asked,
    };
    check_preconditioner(preconditioner, solver, seen)?;
    let factors = matches!(preconditioner, Preconditioner::Ic0 | Preconditioner::Ilu0);
    let falls_back = asked == Solver::Auto && solver == Solver::Cg;
    Ok(Plan {
        solver,
        preconditioner,
        preconditioning: preconditioning(preconditioner, solver, options)?,
        fallback: (factors && asked_m == Preconditioner::Auto).then_some(match seen.first_zero_diagonal {
            Some(_) => Preconditioner::None,
            None => Preconditioner::Jacobi,
        }),
        second: falls_back.then_some(Preconditioning { absolute: true, ..Preconditioning::of(Preconditioner::Jacobi) }),
        symmetric: seen.asymmetry.is_none(),
        precision: precision(preconditioner, options),
        sweep_parameters: sweep_parameters(solver, options)?,
        definite: seen.first_not_positive.is_none()
            && !matches!(preconditioner, Preconditioner::Ilu0 | Preconditioner::Chebyshev),
    })
}

impl Plan {
    /// Replaces the preconditioner.
    pub fn set_preconditioner(&mut self, preconditioner: Preconditioner, options: &Options) -> Result<()> {
        self.preconditioner = preconditioner;
        self.preconditioning = preconditioning(preconditioner, self.solver, options)?;
        self.precision = precision(preconditioner, options);
        Ok(())
    }
}

/// Smallest `rel_tol` of `precision=single`. The rounding errors of recurred residuals in f32 are about 1e-7 of the
/// largest residual. From 1e-5 on, few restarts from the residual in f64 suffice.
const SINGLE_REL_TOL: f64 = 1e-5;
/// Largest magnitude, and reciprocal of the smallest, of the infinity norm of A with `precision=single`. The range of
/// f32, about 1e-38 to 1e38, then has room for the vectors A p and M^-1 r, where the entries of r are near 1.
const SINGLE_RANGE: f64 = 1e30;

/// Fails if the matrix cannot be solved in f32.
fn check_single(seen: &Inspection, on_device: bool) -> Result<()> {
    if !on_device {
        let message = "precision=single is not implemented on the CPU; use backend=cuda, or precision=f32 or f64";
        return Err(Error::Unsupported(message.to_owned()));
    }
    let norm = seen.infinity_norm;
    if (SINGLE_RANGE.recip()..=SINGLE_RANGE).contains(&norm) {
        return Ok(());
    }
    let reason = format!(
        "precision=single: the infinity norm of the matrix is {norm:e}, but must lie in [{:e}, {SINGLE_RANGE:e}]; \
         scale the matrix, or use precision=f64",
        SINGLE_RANGE.recip()
    );
    Err(Error::Matrix { reason, place: None, then: "" })
}

/// Fails if a solve in f32 cannot reach the tolerance.
pub fn check_tolerance(options: &Options) -> Result<()> {
    let rel_tol = options.real(opt::REL_TOL);
    if rel_tol >= SINGLE_REL_TOL {
        return Ok(());
    }
    let allowed = format!("be at least {SINGLE_REL_TOL:e} with precision=single; use precision=f64 for smaller values");
    Err(Error::range("rel_tol", format!("{rel_tol:e}"), allowed))
}

/// Returns the precision of the entries of M. A diagonal M is stored in f64, unless all vectors are in f32. The default
/// of the multigrid cycle is f32.
fn precision(preconditioner: Preconditioner, options: &Options) -> Precision {
    match (preconditioner, options.choice(opt::PRECISION)) {
        (_, Precision::Single) => Precision::Single,
        (Preconditioner::None | Preconditioner::Jacobi, _) => Precision::F64,
        (_, Precision::F32) | (Preconditioner::Amg, Precision::Auto) => Precision::F32,
        _ => Precision::F64,
    }
}

/// Default number of blocks of `ordering=blocks`.
const DEFAULT_BLOCKS: usize = 16;

/// Returns the parameters of the sweeps, or `None` if the method is not a relaxation method.
fn sweep_parameters(solver: Solver, options: &Options) -> Result<Option<SweepParameters>> {
    if !is_relaxation(solver) {
        return Ok(None);
    }
    let omega = match solver {
        Solver::GaussSeidel => 1.0,
        Solver::Sor => omega(options, 1.25)?,
        _ => omega(options, 1.0)?,
    };
    let blocks = match options.int(opt::BLOCKS) as usize {
        0 => DEFAULT_BLOCKS,
        asked => asked,
    };
    let ordering = options.choice(opt::ORDERING);
    Ok(Some(SweepParameters { simultaneous: solver == Solver::Jacobi, omega, ordering, blocks }))
}

/// Returns the relaxation parameter; `own` is the default of the method.
fn omega(options: &Options, own: f64) -> Result<f64> {
    match options.real(opt::SOR_OMEGA) {
        0.0 => Ok(own),
        2.0 => Err(Error::range("sor_omega", 2, "lie in (0, 2), or be 0 for the default of the method")),
        omega => Ok(omega),
    }
}

pub fn is_relaxation(solver: Solver) -> bool {
    matches!(solver, Solver::Jacobi | Solver::GaussSeidel | Solver::Sor)
}

/// Fails if a row or column has only zeros, since A is then singular.
pub fn check_filled(empty_row: Option<usize>, empty_column: Option<usize>) -> Result<()> {
    let empty = empty_row.map(|row| ("row ", row)).or(empty_column.map(|column| ("column ", column)));
    let Some((before, at)) = empty else { return Ok(()) };
    let after = " has only zero entries: the matrix is singular; remove its unknown, or put a 1 on the diagonal";
    Err(Error::at(RRB_ERR_MATRIX, before, Place::entry(at), after))
}

fn asymmetry_error(what: &str, seen: &Inspection, a: &Asymmetry, instead: &str) -> Error {
    let half = match seen.triangle() {
        Triangle::Both => String::new(),
        one => format!("pass both triangles of a symmetric matrix, not only the {} one, or ", one.name()),
    };
    let after = format!(" = {:e}, but the mirrored entry is {:e}; {half}use {instead}", a.value, a.mirrored);
    Error::at(RRB_ERR_MATRIX, format!("{what} needs a symmetric matrix: a"), Place::node(0, a.i, a.j), after)
}

fn no_diagonal_error(row: usize, what: &str, instead: &str) -> Error {
    let after = format!(" has a missing or zero diagonal entry, by which {what} divides; use solver={instead}");
    Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), after)
}

/// Returns an error if the method does not accept this preconditioner.
fn check_pair(solver: Solver, preconditioner: Preconditioner) -> Result<()> {
    let name = |p: Preconditioner| format!("solver={} with preconditioner={}", solver.name(), p.name());
    match preconditioner {
        Preconditioner::Auto | Preconditioner::None => Ok(()),
        other if is_relaxation(solver) => {
            let message = "sweeps have no preconditioner; use preconditioner=none or auto";
            Err(Error::Unsupported(format!("{} is not supported: {message}", name(other))))
        }
        Preconditioner::Jacobi => Ok(()),
        Preconditioner::Amg if matches!(solver, Solver::Cg | Solver::SteepestDescent) => Ok(()),
        Preconditioner::Amg => {
            let message = "its cycle is not linear and needs flexible cg; use preconditioner=auto";
            Err(Error::Unsupported(format!("{} is not supported: {message}", name(preconditioner))))
        }
        other if solver == Solver::Minres => {
            let message = "minres needs a positive definite M; use none, or jacobi, which divides by |a_ii|";
            Err(Error::Unsupported(format!("{} is not supported: {message}", name(other))))
        }
        _ => Ok(()),
    }
}

/// Returns the preconditioner that `auto` selects.
fn choose_preconditioner(solver: Solver, seen: &Inspection, on_device: bool) -> Preconditioner {
    let least_rows = if on_device { AMG_ROWS_ON_DEVICE } else { AMG_ROWS };
    match solver {
        Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => Preconditioner::None,
        Solver::Minres if seen.first_zero_diagonal.is_some() => Preconditioner::None,
        Solver::Cg | Solver::SteepestDescent if seen.first_not_positive.is_none() => {
            if seen.rows >= least_rows && seen.is_mostly_negative() { Preconditioner::Amg } else { Preconditioner::Ic0 }
        }
        Solver::Cg | Solver::SteepestDescent if seen.first_zero_diagonal.is_some() => Preconditioner::None,
        Solver::Cg | Solver::SteepestDescent | Solver::Minres => Preconditioner::Jacobi,
        _ => Preconditioner::Ilu0,
    }
}

/// Returns whether `backend=auto` selects a device for a matrix: a large one, for whose options a device has kernels.
pub fn is_worth_a_device(options: &Options, sizes: &MatrixSizes) -> bool {
    use Format::{Auto, Bsr, Csr, Dia, Diagonal, Ell, Sell};
    let solver: Solver = options.choice(opt::SOLVER);
    let copies_transpose = options.choice::<Transpose>(opt::TRANSPOSE) != Transpose::None
        && (solver != Solver::Bicg || bytes_of_transpose(sizes) <= options.int(opt::FORMAT_MEMORY) as u128);
    sizes.nonzeros >= SPARSE_DEVICE_ENTRIES
        && is_narrow(sizes.rows, sizes.cols)
        && matches!(options.choice(opt::FORMAT), Auto | Csr | Sell | Dia | Bsr | Ell | Diagonal)
        && copies_transpose
        && check_kernels(solver, options.choice(opt::PRECONDITIONER), options).is_ok()
}

/// Returns the bytes of a copy of A^T.
pub fn bytes_of_transpose(sizes: &MatrixSizes) -> u128 {
    12 * sizes.nonzeros as u128 + 8 * (sizes.cols as u128 + 1)
}

/// Fails if a device has no kernels for the order of the rows in sweeps or in triangular solves.
fn check_kernels(solver: Solver, preconditioner: Preconditioner, options: &Options) -> Result<()> {
    let ordering: Ordering = options.choice(opt::ORDERING);
    let refused = |what: String| {
        let sentence = "has no kernel on a device; use ordering=multicolour";
        Err(Error::Unsupported(format!("{what}: ordering={} {sentence}", ordering.name())))
    };
    if matches!(solver, Solver::GaussSeidel | Solver::Sor) && ordering != Ordering::Multicolour {
        return refused(format!("solver={}", solver.name()));
    }
    let factors = matches!(preconditioner, Preconditioner::Ssor | Preconditioner::Ic0 | Preconditioner::Ilu0);
    if factors && ordering != Ordering::Multicolour {
        return refused(format!("preconditioner={}", preconditioner.name()));
    }
    Ok(())
}

/// Checks the requirements of a preconditioner on the matrix.
fn check_preconditioner(preconditioner: Preconditioner, solver: Solver, seen: &Inspection) -> Result<()> {
    let what = format!("preconditioner={}", preconditioner.name());
    // ilu0 is exempt from the checks below, because it permits zero diagonal entries. It reports itself a row without a
    // diagonal entry.
    if matches!(preconditioner, Preconditioner::None | Preconditioner::Ilu0) {
        return Ok(());
    }
    if let (Preconditioner::Ic0, Some(asymmetry)) = (preconditioner, seen.asymmetry) {
        return Err(asymmetry_error(&what, seen, &asymmetry, "ilu0"));
    }
    if let Some(row) = seen.first_zero_diagonal {
        let after = format!(" has a missing or zero diagonal entry, by which {what} divides; use preconditioner=none");
        let after = if matches!(solver, Solver::Cg | Solver::SteepestDescent) {
            format!("{after} and solver=minres")
        } else {
            after
        };
        return Err(Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), after));
    }
    Ok(())
}

/// Returns the preconditioner `kind` of `solver` with its parameters from the options.
pub fn preconditioning(kind: Preconditioner, solver: Solver, options: &Options) -> Result<Preconditioning> {
    let count = |key| options.int(key) as usize;
    Ok(Preconditioning {
        kind,
        absolute: solver == Solver::Minres,
        omega: if kind == Preconditioner::Ssor { omega(options, 1.0)? } else { 1.0 },
        shift: options.real(opt::SHIFT),
        order: count(opt::ORDER),
        degree: count(opt::DEGREE),
        multicolour: options.choice::<Ordering>(opt::ORDERING) == Ordering::Multicolour,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Family;

    /// `backend=auto` selects a device only for large matrices, and only if the device can do what the options demand.
    #[test]
    fn large_matrices_with_kernels_are_worth_a_device() {
        let large = MatrixSizes { rows: 1000, cols: 1000, nonzeros: SPARSE_DEVICE_ENTRIES, duplicates: 0, given: 0 };
        let worth = |text: &str, sizes: &MatrixSizes| {
            let mut options = Options::new(Family::Sparse);
            options.set_text(text).unwrap();
            is_worth_a_device(&options, sizes)
        };
        for text in ["", "solver=bicg", "solver=sor ordering=multicolour", "format=dia", "preconditioner=amg"] {
            assert!(worth(text, &large), "{text}");
            assert!(!worth(text, &MatrixSizes { nonzeros: SPARSE_DEVICE_ENTRIES - 1, ..large }), "{text}");
            assert!(!worth(text, &MatrixSizes { rows: 1 << 33, cols: 1 << 33, ..large }), "{text}");
        }
        let without_kernels =
            ["solver=sor", "preconditioner=ic0", "format=jds", "transpose=none", "solver=bicg format_memory=1000"];
        for text in without_kernels {
            assert!(!worth(text, &large), "{text}");
        }
    }
}
