//! Matrices of the families that solve systems.

use crate::library::Family;
use rrbsolver_problems::Stencil;
use rrbsolver_problems::sparse::System;
use rrbsolver_problems::two_phase::TwoPhase;

/// A matrix in the form that a family accepts.
#[derive(Clone)]
pub enum Matrix {
    /// Matrix of `rrb_`.
    Plane(Stencil),
    /// Matrix of `dpcg_`.
    Box(TwoPhase),
    /// Matrix of `sparse_`.
    Rows(Rows),
}

/// A square matrix in CSR format, indices from 0.
#[derive(Clone)]
pub struct Rows {
    pub pointers: Vec<i64>,
    pub columns: Vec<i64>,
    pub values: Vec<f64>,
}

impl Rows {
    /// Sorts the entries by rows; entries of a row keep their order.
    pub fn new(system: &System) -> Self {
        let mut entries = system.entries.clone();
        entries.sort_by_key(|entry| entry.0);
        let mut pointers = vec![0; system.n + 1];
        entries.iter().for_each(|&(row, ..)| pointers[row + 1] += 1);
        for row in 0..system.n {
            pointers[row + 1] += pointers[row];
        }
        let columns = entries.iter().map(|&(_, column, _)| column as i64).collect();
        Self { pointers, columns, values: entries.iter().map(|entry| entry.2).collect() }
    }
}

impl Matrix {
    pub fn family(&self) -> Family {
        match self {
            Self::Plane(_) => Family::Rrb,
            Self::Box(_) => Family::Dpcg,
            Self::Rows(_) => Family::Sparse,
        }
    }

    /// Returns the array arguments of `factorize`; `sparse_` has none.
    pub fn arrays(&self) -> Vec<&[f64]> {
        match self {
            Self::Plane(a) => {
                let corners = a.corners.iter().flat_map(|(northeast, northwest)| [northeast, northwest]);
                [&a.center, &a.east, &a.north].into_iter().chain(corners).map(|v| &v[..]).collect()
            }
            Self::Box(a) => [&a.center].into_iter().chain(&a.forward).map(|v| &v[..]).collect(),
            Self::Rows(_) => Vec::new(),
        }
    }

    /// Returns the number of values in a row; matrices other than `Plane` have one row.
    pub fn row(&self) -> usize {
        match self {
            Self::Plane(a) => a.nx,
            Self::Box(a) => a.cells(),
            Self::Rows(a) => a.pointers.len() - 1,
        }
    }
}
