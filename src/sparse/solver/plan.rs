//! Selection of the method and the preconditioner for a matrix. If a requested method or preconditioner cannot be used,
//! the error states why.

use crate::base::index::fits_u32;
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result};
use crate::options::limits::{AMG_ROWS, AMG_ROWS_ON_DEVICE, SPARSE_DEVICE_ENTRIES};
use crate::options::{Choice, Format, Options, Ordering, Precision, Preconditioner, Solver, Transpose, Triangle, opt};
use crate::sparse::backend::{Preconditioning, SweepParameters};
use crate::sparse::{Asymmetry, Inspection, MatrixSizes};

/// The method and its preconditioner M.
pub struct Plan {
    pub solver: Solver,
    pub preconditioner: Preconditioner,
    pub preconditioning: Preconditioning,
    /// Preconditioner to use if a pivot of M is invalid, or an entry of M overflows. `None` unless M is an incomplete
    /// factorization that was selected automatically.
    pub fallback_preconditioner: Option<Preconditioner>,
    /// Whether the matrix is symmetric.
    pub is_symmetric: bool,
    /// Precision in which the entries of M are stored. With `Precision::Single`, A and the vectors are also in f32.
    pub precision: Precision,
    /// Preconditioner of MINRES, the second method, which continues if CG breaks down. `None` unless CG was selected
    /// automatically.
    pub second_preconditioning: Option<Preconditioning>,
    /// Parameters of the sweeps; `None` unless the method is a relaxation method.
    pub sweep_parameters: Option<SweepParameters>,
    /// Whether M is considered positive definite: all diagonal entries of A are positive, and M is neither ilu0 nor
    /// chebyshev.
    pub is_definite: bool,
}

/// Selects the method and the preconditioner. Fails if a requested method or preconditioner is not applicable to this
/// matrix. If `on_device` is true, also fails if a device has no kernels for the requested method or preconditioner.
pub fn choose_plan(options: &Options, inspection: &Inspection, on_device: bool) -> Result<Plan> {
    check_nonempty(inspection.first_empty_row, inspection.first_empty_column)?;
    if options.is(opt::PRECISION, Precision::Single) {
        check_single_precision(inspection, on_device)?;
    }
    let requested_solver: Solver = options.choice(opt::SOLVER);
    let solver = match requested_solver {
        Solver::Auto if inspection.is_diagonal() => Solver::Jacobi,
        Solver::Auto if inspection.asymmetry.is_some() => Solver::Idr,
        Solver::Auto if inspection.first_nonpositive_diagonal.is_none() => Solver::Cg,
        Solver::Auto => Solver::Minres,
        requested => requested,
    };
    let solver_text = format!("solver={}", solver.name());
    if let (Solver::Cg | Solver::Minres | Solver::SteepestDescent, Some(asymmetry)) = (solver, inspection.asymmetry) {
        return Err(asymmetry_error(&solver_text, inspection, &asymmetry, "idr or bicgstab"));
    }
    if let (true, Some(row)) = (is_relaxation(solver), inspection.first_zero_diagonal) {
        return Err(zero_diagonal_error(
            row,
            &solver_text,
            if inspection.asymmetry.is_none() { "minres" } else { "idr" },
        ));
    }
    let requested_preconditioner: Preconditioner = options.choice(opt::PRECONDITIONER);
    check_combination(solver, requested_preconditioner)?;
    if on_device {
        check_kernels(solver, requested_preconditioner, options)?;
    }
    let preconditioner = match requested_preconditioner {
        Preconditioner::Auto => choose_preconditioner(solver, inspection, on_device),
        requested => requested,
    };
    check_preconditioner(preconditioner, solver, inspection)?;
    let is_incomplete_factorization = matches!(preconditioner, Preconditioner::Ic0 | Preconditioner::Ilu0);
    let has_second_method = requested_solver == Solver::Auto && solver == Solver::Cg;
    Ok(Plan {
        solver,
        preconditioner,
        preconditioning: preconditioning(preconditioner, solver, options)?,
        fallback_preconditioner: (is_incomplete_factorization && requested_preconditioner == Preconditioner::Auto)
            .then_some(match inspection.first_zero_diagonal {
                Some(_) => Preconditioner::None,
                None => Preconditioner::Jacobi,
            }),
        second_preconditioning: has_second_method
            .then_some(Preconditioning { absolute_diagonal: true, ..Preconditioning::of(Preconditioner::Jacobi) }),
        is_symmetric: inspection.asymmetry.is_none(),
        precision: choose_precision(preconditioner, options),
        sweep_parameters: sweep_parameters(solver, options)?,
        is_definite: inspection.first_nonpositive_diagonal.is_none()
            && !matches!(preconditioner, Preconditioner::Ilu0 | Preconditioner::Chebyshev),
    })
}

impl Plan {
    /// Replaces the preconditioner.
    pub fn set_preconditioner(&mut self, preconditioner: Preconditioner, options: &Options) -> Result<()> {
        self.preconditioner = preconditioner;
        self.preconditioning = preconditioning(preconditioner, self.solver, options)?;
        self.precision = choose_precision(preconditioner, options);
        Ok(())
    }
}

/// Smallest `rel_tol` of `precision=single`. The rounding errors of recurred residuals in f32 are about 1e-7 times the
/// largest residual. With `rel_tol` of at least 1e-5, few restarts from the residual in f64 suffice.
const MIN_SINGLE_REL_TOL: f64 = 1e-5;
/// With `precision=single`, the infinity norm of A must be in [1 / `MAX_SINGLE_NORM`, `MAX_SINGLE_NORM`]. The residual
/// r is scaled to entries near 1, so A p and M^-1 r then fit into the range of f32, about 1e-38 to 1e38.
const MAX_SINGLE_NORM: f64 = 1e30;

/// Fails if the matrix cannot be solved in f32.
fn check_single_precision(inspection: &Inspection, on_device: bool) -> Result<()> {
    if !on_device {
        let message = "precision=single is not implemented on the CPU; use backend=cuda, or precision=f32 or f64";
        return Err(Error::Unsupported(message.to_owned()));
    }
    let norm = inspection.infinity_norm;
    if (MAX_SINGLE_NORM.recip()..=MAX_SINGLE_NORM).contains(&norm) {
        return Ok(());
    }
    let reason = format!(
        "precision=single: the infinity norm of the matrix is {norm:e}, but must lie in [{:e}, {MAX_SINGLE_NORM:e}]; \
         scale the matrix, or use precision=f64",
        MAX_SINGLE_NORM.recip()
    );
    Err(Error::Matrix { reason, location: None, text_after: "" })
}

/// Fails if a solve in f32 cannot reach the tolerance.
pub fn check_tolerance(options: &Options) -> Result<()> {
    let rel_tol = options.real(opt::REL_TOL);
    if rel_tol >= MIN_SINGLE_REL_TOL {
        return Ok(());
    }
    let requirement =
        format!("be at least {MIN_SINGLE_REL_TOL:e} with precision=single; use precision=f64 for smaller values");
    Err(Error::range("rel_tol", format!("{rel_tol:e}"), requirement))
}

/// Returns the precision of the entries of M. A diagonal M is stored in f64, unless the vectors are in f32. With
/// `precision=auto`, the multigrid cycle is stored in f32.
fn choose_precision(preconditioner: Preconditioner, options: &Options) -> Precision {
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
        Solver::Sor => relaxation_factor(options, 1.25)?,
        _ => relaxation_factor(options, 1.0)?,
    };
    let block_count = match options.int(opt::BLOCKS) as usize {
        0 => DEFAULT_BLOCKS,
        requested => requested,
    };
    let ordering = options.choice(opt::ORDERING);
    Ok(Some(SweepParameters { is_jacobi: solver == Solver::Jacobi, omega, ordering, block_count }))
}

/// Returns the relaxation parameter; `default_omega` is the default of the method.
fn relaxation_factor(options: &Options, default_omega: f64) -> Result<f64> {
    match options.real(opt::SOR_OMEGA) {
        0.0 => Ok(default_omega),
        2.0 => Err(Error::range("sor_omega", 2, "lie in (0, 2), or be 0 for the default of the method")),
        omega => Ok(omega),
    }
}

/// Returns whether the method consists of relaxation sweeps.
pub fn is_relaxation(solver: Solver) -> bool {
    matches!(solver, Solver::Jacobi | Solver::GaussSeidel | Solver::Sor)
}

/// Fails if a row or column has only zeros, since A is then singular.
pub fn check_nonempty(first_empty_row: Option<usize>, first_empty_column: Option<usize>) -> Result<()> {
    let empty_line = first_empty_row.map(|row| ("row ", row)).or(first_empty_column.map(|column| ("column ", column)));
    let Some((line_kind, index)) = empty_line else { return Ok(()) };
    let message_end = " has only zero entries: the matrix is singular; remove its unknown, or put a 1 on the diagonal";
    Err(Error::at(RRB_ERR_MATRIX, line_kind, Location::entry(index), message_end))
}

/// Returns the error for an unsymmetric matrix. `choice_text` names the method or preconditioner that needs symmetry.
/// `alternative` names the one that the error message recommends instead.
fn asymmetry_error(choice_text: &str, inspection: &Inspection, asymmetry: &Asymmetry, alternative: &str) -> Error {
    let triangle_hint = match inspection.triangle() {
        Triangle::Both => String::new(),
        triangle => format!("pass both triangles of a symmetric matrix, not only the {} one, or ", triangle.name()),
    };
    let message_end = format!(
        " = {:e}, but the mirrored entry is {:e}; {triangle_hint}use {alternative}",
        asymmetry.value, asymmetry.mirrored_value
    );
    Error::at(
        RRB_ERR_MATRIX,
        format!("{choice_text} needs a symmetric matrix: a"),
        Location::node(0, asymmetry.i, asymmetry.j),
        message_end,
    )
}

/// Returns the error for a row with a zero or missing diagonal entry. `choice_text` names the method that divides by
/// this entry. `alternative` names the method that the error message recommends instead.
fn zero_diagonal_error(row: usize, choice_text: &str, alternative: &str) -> Error {
    let message_end =
        format!(" has a missing or zero diagonal entry, by which {choice_text} divides; use solver={alternative}");
    Error::at(RRB_ERR_MATRIX, "row ", Location::entry(row), message_end)
}

/// Returns an error if the method does not accept this preconditioner.
fn check_combination(solver: Solver, preconditioner: Preconditioner) -> Result<()> {
    let combination_text = |p: Preconditioner| format!("solver={} with preconditioner={}", solver.name(), p.name());
    match preconditioner {
        Preconditioner::Auto | Preconditioner::None => Ok(()),
        other if is_relaxation(solver) => {
            let message = "sweeps have no preconditioner; use preconditioner=none or auto";
            Err(Error::Unsupported(format!("{} is not supported: {message}", combination_text(other))))
        }
        Preconditioner::Jacobi => Ok(()),
        Preconditioner::Amg if matches!(solver, Solver::Cg | Solver::SteepestDescent) => Ok(()),
        Preconditioner::Amg => {
            let message = "its cycle is not linear and needs flexible cg; use preconditioner=auto";
            Err(Error::Unsupported(format!("{} is not supported: {message}", combination_text(preconditioner))))
        }
        other if solver == Solver::Minres => {
            let message = "minres needs a positive definite M; use none, or jacobi, which divides by |a_ii|";
            Err(Error::Unsupported(format!("{} is not supported: {message}", combination_text(other))))
        }
        _ => Ok(()),
    }
}

/// Returns the preconditioner that `auto` selects.
fn choose_preconditioner(solver: Solver, inspection: &Inspection, on_device: bool) -> Preconditioner {
    let min_amg_rows = if on_device { AMG_ROWS_ON_DEVICE } else { AMG_ROWS };
    match solver {
        Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => Preconditioner::None,
        Solver::Minres if inspection.first_zero_diagonal.is_some() => Preconditioner::None,
        Solver::Cg | Solver::SteepestDescent if inspection.first_nonpositive_diagonal.is_none() => {
            if inspection.rows >= min_amg_rows && inspection.is_mostly_negative() {
                Preconditioner::Amg
            } else {
                Preconditioner::Ic0
            }
        }
        Solver::Cg | Solver::SteepestDescent if inspection.first_zero_diagonal.is_some() => Preconditioner::None,
        Solver::Cg | Solver::SteepestDescent | Solver::Minres => Preconditioner::Jacobi,
        _ => Preconditioner::Ilu0,
    }
}

/// Returns whether `backend=auto` selects a device: the matrix is large, and a device has kernels for the options.
pub fn is_worth_a_device(options: &Options, sizes: &MatrixSizes) -> bool {
    use Format::{Auto, Bsr, Csr, Dia, Diagonal, Ell, Sell};
    let solver: Solver = options.choice(opt::SOLVER);
    let can_copy_transpose = options.choice::<Transpose>(opt::TRANSPOSE) != Transpose::None
        && (solver != Solver::Bicg || transpose_bytes(sizes) <= options.int(opt::FORMAT_MEMORY) as u128);
    sizes.nonzeros >= SPARSE_DEVICE_ENTRIES
        && fits_u32(sizes.rows, sizes.cols)
        && matches!(options.choice(opt::FORMAT), Auto | Csr | Sell | Dia | Bsr | Ell | Diagonal)
        && can_copy_transpose
        && check_kernels(solver, options.choice(opt::PRECONDITIONER), options).is_ok()
}

/// Returns the size of a copy of A^T in bytes.
pub fn transpose_bytes(sizes: &MatrixSizes) -> u128 {
    12 * sizes.nonzeros as u128 + 8 * (sizes.cols as u128 + 1)
}

/// Fails if the sweeps of `solver` or the triangular solves of `preconditioner` have no kernels on a device. Both have
/// kernels only with `ordering=multicolour`.
fn check_kernels(solver: Solver, preconditioner: Preconditioner, options: &Options) -> Result<()> {
    let ordering: Ordering = options.choice(opt::ORDERING);
    let kernel_error = |choice_text: String| {
        let reason = "has no kernel on a device; use ordering=multicolour";
        Err(Error::Unsupported(format!("{choice_text}: ordering={} {reason}", ordering.name())))
    };
    if matches!(solver, Solver::GaussSeidel | Solver::Sor) && ordering != Ordering::Multicolour {
        return kernel_error(format!("solver={}", solver.name()));
    }
    let is_triangular = matches!(preconditioner, Preconditioner::Ssor | Preconditioner::Ic0 | Preconditioner::Ilu0);
    if is_triangular && ordering != Ordering::Multicolour {
        return kernel_error(format!("preconditioner={}", preconditioner.name()));
    }
    Ok(())
}

/// Checks the requirements of a preconditioner on the matrix.
fn check_preconditioner(preconditioner: Preconditioner, solver: Solver, inspection: &Inspection) -> Result<()> {
    let choice_text = format!("preconditioner={}", preconditioner.name());
    // ilu0 is exempt from the checks below, because it permits zero diagonal entries. Its factorization reports a row
    // whose diagonal entry is missing.
    if matches!(preconditioner, Preconditioner::None | Preconditioner::Ilu0) {
        return Ok(());
    }
    if let (Preconditioner::Ic0, Some(asymmetry)) = (preconditioner, inspection.asymmetry) {
        return Err(asymmetry_error(&choice_text, inspection, &asymmetry, "ilu0"));
    }
    if let Some(row) = inspection.first_zero_diagonal {
        let message_end =
            format!(" has a missing or zero diagonal entry, by which {choice_text} divides; use preconditioner=none");
        let message_end = if matches!(solver, Solver::Cg | Solver::SteepestDescent) {
            format!("{message_end} and solver=minres")
        } else {
            message_end
        };
        return Err(Error::at(RRB_ERR_MATRIX, "row ", Location::entry(row), message_end));
    }
    Ok(())
}

/// Returns the preconditioner `kind` with the parameters that the options set, for the method `solver`.
pub fn preconditioning(kind: Preconditioner, solver: Solver, options: &Options) -> Result<Preconditioning> {
    let int_option = |key| options.int(key) as usize;
    Ok(Preconditioning {
        kind,
        absolute_diagonal: solver == Solver::Minres,
        omega: if kind == Preconditioner::Ssor { relaxation_factor(options, 1.0)? } else { 1.0 },
        shift: options.real(opt::SHIFT),
        series_order: int_option(opt::ORDER),
        degree: int_option(opt::DEGREE),
        is_multicolour: options.choice::<Ordering>(opt::ORDERING) == Ordering::Multicolour,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Family;

    /// `backend=auto` selects a device only for large matrices, and only if the device has kernels for the options.
    #[test]
    fn large_matrices_with_kernels_are_worth_a_device() {
        let large_sizes =
            MatrixSizes { rows: 1000, cols: 1000, nonzeros: SPARSE_DEVICE_ENTRIES, duplicate_count: 0, input_count: 0 };
        let is_worth = |text: &str, sizes: &MatrixSizes| {
            let mut options = Options::new(Family::Sparse);
            options.set_text(text).unwrap();
            is_worth_a_device(&options, sizes)
        };
        for text in ["", "solver=bicg", "solver=sor ordering=multicolour", "format=dia", "preconditioner=amg"] {
            assert!(is_worth(text, &large_sizes), "{text}");
            assert!(!is_worth(text, &MatrixSizes { nonzeros: SPARSE_DEVICE_ENTRIES - 1, ..large_sizes }), "{text}");
            assert!(!is_worth(text, &MatrixSizes { rows: 1 << 33, cols: 1 << 33, ..large_sizes }), "{text}");
        }
        let without_kernels =
            ["solver=sor", "preconditioner=ic0", "format=jds", "transpose=none", "solver=bicg format_memory=1000"];
        for text in without_kernels {
            assert!(!is_worth(text, &large_sizes), "{text}");
        }
    }
}
