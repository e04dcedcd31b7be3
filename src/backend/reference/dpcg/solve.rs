//! Reference implementation of deflated PCG over natural storage, as plain loops.

use super::Applied;
use crate::backend::coarse::deflation::{CoarseMatrix, Scratch, Solver};
use crate::backend::reference::plain::{Run, System};
use crate::backend::reference::singular::Singular;
use crate::backend::residual::residual_of_row;
use crate::backend::steps::dpcg::{DpcgBackend, Preconditioner, Setup};
use crate::backend::steps::engine::Engine;
use crate::backend::steps::pcg::Properties;
use crate::backend::steps::solve::{Arrays, Program};
use crate::backend::steps::vectors::Iterate;
use crate::error::{Error, Result, collected, reset, zeroed};
use crate::grid::cell_components::{CellComponents, row_excess};
use crate::grid::cell_inspection::InspectedRows;
use crate::grid::cell_survey::{Found, Survey};
use crate::grid::cells::{CellView, Cells, Kept, SevenPoints};
use crate::grid::regions::{Choice, NONE, RegionCount, Regions};
use crate::report::{Observer, Outcome};
use std::time::Instant;

/// Backend `reference` of the family `dpcg_`.
#[derive(Default)]
pub struct Reference {
    matrix: Kept,
    /// Results of `survey` and `find_regions`, which the next `factorize` consumes.
    found: Found,
    state: Option<State>,
}

/// Data of a factorization, and vectors.
struct State {
    preconditioner: Preconditioner,
    applied: Option<Applied>,
    singular: Singular,
    deflation: Option<Deflation>,
    b: Vec<f64>,
    x: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    q: Vec<f64>,
    z: Vec<f64>,
    /// Workspace within a step.
    u: Vec<f64>,
    seconds_coarse: f64,
    seconds_of_e: f64,
}

struct Deflation {
    regions: Vec<u16>,
    /// Row sums, zero in singular components.
    excess: Vec<f64>,
    coarse: CoarseMatrix,
    scratch: Scratch,
    g: Vec<f64>,
    t: Vec<f64>,
}

/// Name of the allocation in error messages.
const VECTORS: &str = "the solver's vectors";

/// Labels the cells of singular components.
fn singular(components: &CellComponents, cells: Cells) -> Result<Singular> {
    let mut singular = Singular::default();
    let count = components.list().singular_count();
    let labels = singular.reset(count, cells.count())?;
    let number = components.list().singular_numbers()?;
    for row in 0..if count > 0 { cells.rows() } else { 0 } {
        for (columns, component) in components.runs(row) {
            if let Some(k) = component.and_then(|component| number[component]) {
                labels[row * cells.nx..][columns].fill(k as u32 + 1);
            }
        }
    }
    Ok(singular)
}

impl Deflation {
    /// Computes y = Z E^-1 Z^T v; returns the seconds of the solve with E.
    fn part_of(&mut self, v: &[f64], y: &mut [f64]) -> f64 {
        self.g.fill(0.0);
        for (&region, v) in self.regions.iter().zip(v) {
            if region != NONE {
                self.g[region as usize] += v;
            }
        }
        let started = Instant::now();
        self.coarse.solve(&self.g, &mut self.t, &mut self.scratch);
        let seconds = started.elapsed().as_secs_f64();
        for (&region, y) in self.regions.iter().zip(y) {
            *y = if region == NONE { 0.0 } else { self.t[region as usize] };
        }
        seconds
    }

    /// Computes v = v - A y for a y that is constant on regions. Within a region whose row sums are zero, v is
    /// unchanged to the last bit, for any contrast.
    fn subtract_product(&self, a: &SevenPoints, y: &[f64], v: &mut [f64]) {
        for (c, v) in v.iter_mut().enumerate() {
            let (couplings, cells) = neighbours(a, c);
            *v -= self.excess[c] * y[c] + (0..6).map(|k| couplings[k] * (y[cells[k]] - y[c])).sum::<f64>();
        }
    }
}

/// Returns the couplings and cell indices of the neighbours to west, east, south, north, bottom and top. Outside the
/// box: zero and the cell itself.
fn neighbours(a: &SevenPoints, c: usize) -> ([f64; 6], [usize; 6]) {
    let (at, size, steps) = (a.cells.place(c), a.cells.size(), a.cells.steps());
    let mut found = ([0.0; 6], [c; 6]);
    for d in 0..3 {
        if at[d] > 0 {
            (found.0[2 * d], found.1[2 * d]) = (a.forward[d][c - steps[d]], c - steps[d]);
        }
        if at[d] + 1 < size[d] {
            (found.0[2 * d + 1], found.1[2 * d + 1]) = (a.forward[d][c], c + steps[d]);
        }
    }
    found
}

/// Computes w = A v.
fn multiply(a: &SevenPoints, v: &[f64], w: &mut [f64]) {
    for (c, w) in w.iter_mut().enumerate() {
        let (couplings, cells) = neighbours(a, c);
        *w = a.center[c] * v[c] + (0..6).map(|k| couplings[k] * v[cells[k]]).sum::<f64>();
    }
}

/// Computes r = b - A x.
fn residual(a: &SevenPoints, b: &[f64], x: &[f64], r: &mut [f64]) {
    for (c, r) in r.iter_mut().enumerate() {
        let (couplings, cells) = neighbours(a, c);
        *r = residual_of_row(b[c], a.center[c], x[c], couplings, cells.map(|cell| x[cell]));
    }
}

impl State {
    fn new(a: &SevenPoints, setup: &Setup, components: &CellComponents, regions: Option<&Regions>) -> Result<Self> {
        let vector = || zeroed(a.cells.count(), VECTORS);
        let started = Instant::now();
        let deflation = match regions {
            None => None,
            Some(regions) => {
                let (solver, tolerance) = (setup.coarse_solver, setup.coarse_tolerance);
                let coarse = CoarseMatrix::new(a, components, regions, solver, tolerance)?;
                let (scratch, of) = (coarse.scratch()?, collected(regions.of.iter().copied(), VECTORS)?);
                let (g, t) = (zeroed(regions.count, VECTORS)?, zeroed(regions.count, VECTORS)?);
                let mut excess: Vec<f64> = vector()?;
                for (row, excess) in excess.chunks_exact_mut(a.cells.nx).enumerate() {
                    row_excess(a, components, row, excess);
                }
                Some(Deflation { regions: of, excess, coarse, scratch, g, t })
            }
        };
        let seconds_of_e = started.elapsed().as_secs_f64();
        Ok(Self {
            preconditioner: setup.preconditioner,
            applied: Applied::new(setup.preconditioner, a)?,
            singular: singular(components, a.cells)?,
            deflation,
            b: vector()?,
            x: vector()?,
            r: vector()?,
            p: vector()?,
            q: vector()?,
            z: vector()?,
            u: vector()?,
            seconds_coarse: 0.0,
            seconds_of_e,
        })
    }

    /// Computes v = P v with P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga 2009). Overwrites u.
    fn project(&mut self, a: &SevenPoints, of: fn(&mut Self) -> &mut Vec<f64>) {
        let Some(mut deflation) = self.deflation.take() else { return };
        let mut v = std::mem::take(of(self));
        self.seconds_coarse += deflation.part_of(&v, &mut self.u);
        deflation.subtract_product(a, &self.u, &mut v);
        *of(self) = v;
        self.deflation = Some(deflation);
    }

    /// Computes z = K^T D^-1 K r with K = sum over m = 0 .. order of (-L D^-1)^m (van der Vorst 1982), by Horner's
    /// rule.
    fn neumann(&mut self, a: &SevenPoints, order: usize) {
        let Self { r, z, u, .. } = self;
        // u = r - L D^-1 u, `order` times from u = r. In descending order of cells, the preceding cells still have
        // their old values.
        u.copy_from_slice(r);
        for _ in 0..order {
            for c in (0..r.len()).rev() {
                let (couplings, cells) = neighbours(a, c);
                let lower = [0, 2, 4].map(|k| couplings[k] * u[cells[k]] / a.center[cells[k]]);
                u[c] = r[c] - lower.iter().sum::<f64>();
            }
        }
        // z = D^-1 u - D^-1 L^T z, `order` times from z = D^-1 u.
        u.iter_mut().zip(a.center).for_each(|(u, center)| *u /= center);
        z.copy_from_slice(u);
        for _ in 0..order {
            for (c, u) in u.iter().enumerate() {
                let (couplings, cells) = neighbours(a, c);
                let upper: f64 = [1, 3, 5].map(|k| couplings[k] * z[cells[k]]).iter().sum();
                z[c] = u - upper / a.center[c];
            }
        }
    }
}

impl DpcgBackend for Reference {
    fn load(&mut self, a: &CellView, finite: bool) -> Result<f64> {
        self.state = None;
        let mut kept = self.matrix.rows_mut(a.cells)?;
        let seen = InspectedRows::of(a, finite, 0..a.cells.rows(), |row| kept.copy_row(a, row));
        InspectedRows::center_max(a, [seen])
    }

    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey> {
        let (found, survey) = Found::of(&self.matrix.matrix(), zero_row_sum)?;
        self.found = found;
        Ok(survey)
    }

    fn find_regions(&mut self, choice: &Choice) -> Result<RegionCount> {
        self.found.find_regions(&self.matrix.matrix(), choice)
    }

    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>> {
        let Found { components, regions, .. } = std::mem::take(&mut self.found);
        let state = self.state.insert(State::new(&self.matrix.matrix(), setup, &components, regions.as_ref())?);
        Ok(state.deflation.as_ref().map(|deflation| deflation.coarse.solver()))
    }

    fn seconds_of_e(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.seconds_of_e)
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let Some(s) = &mut self.state else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        s.seconds_coarse = 0.0;
        let result = program(&mut Run { k: &mut Deflated { a: self.matrix.matrix(), s }, arrays, observer });
        if Outcome::went_astray(&result) {
            for vector in [&mut s.b, &mut s.x, &mut s.r, &mut s.p, &mut s.q, &mut s.z, &mut s.u] {
                let len = vector.len();
                reset(vector, len, VECTORS)?;
            }
        }
        result
    }

    fn seconds_coarse(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |s| s.seconds_coarse)
    }
}

impl Engine for Reference {
    fn bytes(&self) -> [usize; 2] {
        let of_state = |s: &State| {
            let vectors = 7 * size_of::<f64>() * s.b.len() + s.singular.bytes();
            vectors + s.applied.as_ref().map_or(0, Applied::bytes)
        };
        [self.matrix.bytes() + self.state.as_ref().map_or(0, of_state), 0]
    }
}

/// The matrix, and the state of a factorization.
struct Deflated<'a> {
    a: SevenPoints<'a>,
    s: &'a mut State,
}

impl System for Deflated<'_> {
    fn cells(&self) -> Cells {
        self.a.cells
    }

    fn index(&self, i: usize, row: usize) -> usize {
        row * self.a.cells.nx + i
    }

    fn place(&self, _: bool, k: usize) -> Option<usize> {
        (k < self.a.cells.count()).then_some(k)
    }

    fn vectors(&self) -> [&Vec<f64>; 6] {
        let State { x, b, r, p, q, z, .. } = &*self.s;
        [x, b, r, p, q, z]
    }

    fn vectors_mut(&mut self) -> [&mut Vec<f64>; 6] {
        let State { x, b, r, p, q, z, .. } = &mut *self.s;
        [x, b, r, p, q, z]
    }

    fn singular(&mut self) -> &mut Singular {
        &mut self.s.singular
    }

    fn center(&self) -> &[f64] {
        self.a.center
    }

    fn properties(&self) -> Properties {
        let deflates = self.s.deflation.is_some();
        Properties { deflates, centers: !deflates, ..Properties::default() }
    }

    fn residual(&mut self, of: Iterate) {
        let s = &mut *self.s;
        match of {
            Iterate::Zero => s.r.copy_from_slice(&s.b),
            Iterate::X => residual(&self.a, &s.b, &s.x, &mut s.r),
        }
        s.project(&self.a, |s| &mut s.r);
    }

    fn precondition(&mut self) {
        let (s, a) = (&mut *self.s, &self.a);
        match s.preconditioner {
            Preconditioner::None => s.z.copy_from_slice(&s.r),
            Preconditioner::Jacobi => s.neumann(a, 0),
            Preconditioner::Neumann { order } => s.neumann(a, order),
            Preconditioner::Incomplete { .. }
            | Preconditioner::Multigrid { .. }
            | Preconditioner::Aggregation { .. } => {
                if let Some(applied) = &mut s.applied {
                    applied.apply(a, &s.r, &mut s.z);
                }
            }
        }
    }

    /// Computes q = P A p.
    fn multiply(&mut self) {
        multiply(&self.a, &self.s.p, &mut self.s.q);
        self.s.project(&self.a, |s| &mut s.q);
    }

    fn whole_residual_norm2(&mut self) -> f64 {
        let s = &mut *self.s;
        residual(&self.a, &s.b, &s.x, &mut s.z);
        s.z.iter().map(|r| r * r).sum()
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^).
    fn back_substitute(&mut self) {
        let s = &mut *self.s;
        if let Some(deflation) = &mut s.deflation {
            residual(&self.a, &s.b, &s.x, &mut s.q);
            s.seconds_coarse += deflation.part_of(&s.q, &mut s.z);
            s.x.iter_mut().zip(&s.z).for_each(|(x, z)| *x += z);
        }
    }

    fn multiply_rhs(&mut self) {
        multiply(&self.a, &self.s.b, &mut self.s.x);
    }
}
