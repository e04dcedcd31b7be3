//! The methods other than cg, and the scalars that these methods need in addition to the vectors. Each thread has its
//! own workspace of scalars.

use crate::error::{Error, Result, push};
use crate::krylov::solve::Method;
use crate::krylov::vectors::KrylovSteps;
use crate::krylov::{
    BICG_VECTORS, BICGSTAB_VECTORS, GmresScalars, IdrScalars, MINRES_VECTORS, STEEPEST_DESCENT_VECTORS, SWEEPS_VECTORS,
    State, bicg, bicgstab, gmres, gmres_vectors, idr, idr_vectors, minres, steepest_descent, sweeps,
};
use crate::options::{Options, Solver, opt};
use crate::report::StopReason;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "workspace of a method";

/// A Krylov method other than PCG, or a relaxation method, with its workspaces.
pub enum MethodWorkspace {
    Sweeps,
    Bicg,
    /// MINRES. The flag states whether it has begun: as the second method of a solve, it begins only after a breakdown
    /// of the first method.
    Minres(AtomicBool),
    Bicgstab,
    SteepestDescent,
    Gmres(Mutex<Vec<GmresScalars>>),
    Idr(Mutex<Vec<IdrScalars>>),
}

impl MethodWorkspace {
    /// Allocates the workspaces of a method for `threads` threads. Returns `None` for cg, which is implemented
    /// separately.
    pub fn new(solver: Solver, options: &Options, threads: usize) -> Result<Option<Self>> {
        let int_option = |key| options.int(key) as usize;
        Ok(Some(match solver {
            Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => Self::Sweeps,
            Solver::Bicg => Self::Bicg,
            Solver::Minres => Self::Minres(AtomicBool::new(false)),
            Solver::Bicgstab => Self::Bicgstab,
            Solver::SteepestDescent => Self::SteepestDescent,
            Solver::Gmres => Self::Gmres(create_workspaces(threads, || GmresScalars::new(int_option(opt::RESTART)))?),
            Solver::Idr => Self::Idr(create_workspaces(threads, || IdrScalars::new(int_option(opt::SHADOW)))?),
            Solver::Cg | Solver::Auto => return Ok(None),
        }))
    }

    /// Returns whether the method has begun. Only MINRES records this; other methods return `false`.
    pub fn has_begun(&self) -> bool {
        matches!(self, Self::Minres(has_begun) if has_begun.load(Ordering::Relaxed))
    }

    /// Records that the method has not begun. Must be called before each solve.
    pub fn reset_has_begun(&self) {
        if let Self::Minres(has_begun) = self {
            has_begun.store(false, Ordering::Relaxed);
        }
    }
}

/// Returns the number of vectors of a method in addition to x, b and r.
pub fn work_vector_count(solver: Solver, options: &Options) -> usize {
    match solver {
        Solver::Bicg => BICG_VECTORS,
        Solver::Minres => MINRES_VECTORS,
        Solver::Bicgstab => BICGSTAB_VECTORS,
        Solver::SteepestDescent => STEEPEST_DESCENT_VECTORS,
        Solver::Gmres => gmres_vectors(options.int(opt::RESTART) as usize),
        Solver::Idr => idr_vectors(options.int(opt::SHADOW) as usize),
        Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => SWEEPS_VECTORS,
        Solver::Cg | Solver::Auto => 0,
    }
}

/// Creates a workspace for each of `threads` threads.
fn create_workspaces<R>(threads: usize, create: impl Fn() -> Result<R>) -> Result<Mutex<Vec<R>>> {
    let mut workspaces = Vec::new();
    for _ in 0..threads {
        push(&mut workspaces, create()?, ALLOCATION_NAME)?;
    }
    Ok(Mutex::new(workspaces))
}

/// Calls `run_method` with a workspace that no other thread uses, and then returns the workspace to `workspaces`.
fn with_workspace<R>(
    workspaces: &Mutex<Vec<R>>,
    run_method: impl FnOnce(&mut R) -> Result<StopReason>,
) -> Result<StopReason> {
    let lock = || workspaces.lock().unwrap_or_else(PoisonError::into_inner);
    let free_workspace = lock().pop();
    let Some(mut workspace) = free_workspace else {
        return Err(Error::Internal("a thread found no workspace of its method".to_owned()));
    };
    let reason = run_method(&mut workspace);
    // `workspaces` contained this workspace before, so `push` does not allocate.
    lock().push(workspace);
    reason
}

impl Method for MethodWorkspace {
    fn run(&self, steps: &mut dyn KrylovSteps, state: &mut State) -> Result<StopReason> {
        match self {
            Self::Sweeps => match steps.sweep_steps() {
                Some(steps) => sweeps(steps, state),
                None => Err(Error::Internal("a method that sweeps has no sweeps".to_owned())),
            },
            Self::Bicg => bicg(steps, state),
            Self::Minres(has_begun) => {
                has_begun.store(true, Ordering::Relaxed);
                minres(steps, state)
            }
            Self::Bicgstab => bicgstab(steps, state),
            Self::SteepestDescent => steepest_descent(steps, state),
            Self::Gmres(workspaces) => with_workspace(workspaces, |workspace| gmres(steps, state, workspace)),
            Self::Idr(workspaces) => with_workspace(workspaces, |workspace| idr(steps, state, workspace)),
        }
    }
}
