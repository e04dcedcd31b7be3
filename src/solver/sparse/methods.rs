//! The methods beside cg as a solve runs them, each with what it needs beside vectors: one room a member.

use crate::backend::steps::vectors::KrylovSteps;
use crate::error::{Error, Result, push};
use crate::options::{Options, Solver, opt};
use crate::solver::krylov::{
    BICG_VECTORS, BICGSTAB_VECTORS, GmresRoom, IdrRoom, MINRES_VECTORS, PcgEnd, SWEEPS_VECTORS, Start, Test, bicg,
    bicgstab, gmres, gmres_vectors, idr, idr_vectors, minres, sweeps,
};
use crate::solver::solve::Method;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// For errors.
const WHAT: &str = "workspace of a method";

/// A Krylov method other than PCG, or relaxation.
pub enum Numbered {
    Sweeps,
    Bicg,
    /// Whether it has begun: it may come second.
    Minres(AtomicBool),
    Bicgstab,
    Gmres(Mutex<Vec<GmresRoom>>),
    Idr(Mutex<Vec<IdrRoom>>),
}

impl Numbered {
    /// None for cg, whose text is another; with a room for each of `members`.
    pub fn new(solver: Solver, options: &Options, members: usize) -> Result<Option<Self>> {
        let count = |key| options.int(key) as usize;
        Ok(Some(match solver {
            Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => Self::Sweeps,
            Solver::Bicg => Self::Bicg,
            Solver::Minres => Self::Minres(AtomicBool::new(false)),
            Solver::Bicgstab => Self::Bicgstab,
            Solver::Gmres => Self::Gmres(rooms(members, || GmresRoom::new(count(opt::RESTART)))?),
            Solver::Idr => Self::Idr(rooms(members, || IdrRoom::new(count(opt::SHADOW)))?),
            Solver::Cg | Solver::Auto => return Ok(None),
        }))
    }

    /// It has begun, where it keeps that in mind.
    pub fn has_begun(&self) -> bool {
        matches!(self, Self::Minres(begun) if begun.load(Ordering::Relaxed))
    }

    /// A solve is to come.
    pub fn forget(&self) {
        if let Self::Minres(begun) = self {
            begun.store(false, Ordering::Relaxed);
        }
    }
}

/// Vectors of a method beside x, b and r.
pub fn vectors(solver: Solver, options: &Options) -> usize {
    match solver {
        Solver::Bicg => BICG_VECTORS,
        Solver::Minres => MINRES_VECTORS,
        Solver::Bicgstab => BICGSTAB_VECTORS,
        Solver::Gmres => gmres_vectors(options.int(opt::RESTART) as usize),
        Solver::Idr => idr_vectors(options.int(opt::SHADOW) as usize),
        Solver::Jacobi | Solver::GaussSeidel | Solver::Sor => SWEEPS_VECTORS,
        Solver::Cg | Solver::Auto => 0,
    }
}

fn rooms<R>(members: usize, room: impl Fn() -> Result<R>) -> Result<Mutex<Vec<R>>> {
    let mut rooms = Vec::new();
    for _ in 0..members {
        push(&mut rooms, room()?, WHAT)?;
    }
    Ok(Mutex::new(rooms))
}

/// Works in a room of its own, and gives it back.
fn in_a_room<R>(rooms: &Mutex<Vec<R>>, work: impl FnOnce(&mut R) -> Result<PcgEnd>) -> Result<PcgEnd> {
    let lock = || rooms.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = lock().pop();
    let Some(mut room) = taken else {
        return Err(Error::Internal("a thread found no workspace of its method".to_owned()));
    };
    let end = work(&mut room);
    // As many as were there before: that takes no memory.
    lock().push(room);
    end
}

impl Method for Numbered {
    fn run(&self, s: &mut dyn KrylovSteps, test: &Test, start: Start) -> Result<PcgEnd> {
        match self {
            Self::Sweeps => match s.sweeps() {
                Some(s) => sweeps(s, test, start),
                None => Err(Error::Internal("a method that sweeps has no sweeps".to_owned())),
            },
            Self::Bicg => bicg(s, test, start),
            Self::Minres(begun) => {
                begun.store(true, Ordering::Relaxed);
                minres(s, test, start)
            }
            Self::Bicgstab => bicgstab(s, test, start),
            Self::Gmres(rooms) => in_a_room(rooms, |room| gmres(s, test, start, room)),
            Self::Idr(rooms) => in_a_room(rooms, |room| idr(s, test, start, room)),
        }
    }
}
