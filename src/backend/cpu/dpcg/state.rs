//! A matrix with its preconditioner and its vectors, shared by the members of a team.

use super::labelled::Labelled;
use super::loops::Around;
use super::pieces::Pieces;
use super::regions::Projection;
use super::vertex::Vertex;
use crate::backend::reference::dpcg::Applied;
use crate::backend::steps::dpcg::Preconditioner;
use crate::backend::steps::solve::Inputs;
use crate::error::Result;
use crate::grid::cells::{Cells, Kept, SevenPoints};
use crate::runtime::reduce::Noted;
use crate::runtime::shared::Shared;
use crate::runtime::team::{Me, Team};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Values of all cells, with as many zeros before and after them as a plane has cells.
pub struct Field {
    values: Shared,
    guard: usize,
    steps: [usize; 3],
}

impl Field {
    fn new(cells: Cells) -> Result<Self> {
        let guard = cells.plane();
        Ok(Self { values: Shared::zeroed(cells.count() + 2 * guard)?, guard, steps: cells.steps() })
    }

    /// Values of a range of cells.
    ///
    /// # Safety
    /// Nobody may write them while the slice is used.
    pub unsafe fn range(&self, range: &Range<usize>) -> &[f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.guard + range.start, range.len()) }
    }

    /// The same, to write.
    ///
    /// # Safety
    /// Nobody else may read or write them while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by members that write disjoint parts")]
    pub unsafe fn range_mut(&self, range: &Range<usize>) -> &mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.guard + range.start, range.len()) }
    }

    /// Values of a range of cells and of their neighbours.
    ///
    /// # Safety
    /// Nobody may write them while the slices are used.
    pub unsafe fn around(&self, range: &Range<usize>) -> Around<'_> {
        // SAFETY: as the caller promised.
        unsafe {
            let [w, s, b] = self.before(range);
            let [e, n, t] = self.after(range);
            Around { here: self.range(range), near: [w, e, s, n, b, t] }
        }
    }

    /// Of the neighbours to west, south and bottom.
    ///
    /// # Safety
    /// As for `around`.
    pub unsafe fn before(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: as the caller promised.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start - step, range.len()) })
    }

    /// Of the neighbours to east, north and top.
    ///
    /// # Safety
    /// As for `around`.
    pub unsafe fn after(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: as the caller promised.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start + step, range.len()) })
    }

    /// All zero again.
    ///
    /// # Safety
    /// Nobody may use the values meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: as the caller promised.
        unsafe { self.values.clear() };
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// What a solve works on.
pub struct Vectors {
    pub b: Field,
    pub x: Field,
    pub r: Field,
    pub p: Field,
    /// A p; scratch space of `precondition`.
    pub q: Field,
    pub z: Field,
    /// Scratch space of `precondition`.
    pub s: Field,
    /// Sums over pieces.
    pub noted: Noted,
}

impl Vectors {
    pub fn new(pieces: Pieces) -> Result<Self> {
        let field = || Field::new(pieces.cells);
        Ok(Self {
            b: field()?,
            x: field()?,
            r: field()?,
            p: field()?,
            q: field()?,
            z: field()?,
            s: field()?,
            noted: Noted::new(pieces.count(), 2)?,
        })
    }

    /// All of cells.
    pub fn fields(&self) -> [&Field; 7] {
        [&self.b, &self.x, &self.r, &self.p, &self.q, &self.z, &self.s]
    }

    fn bytes(&self) -> usize {
        self.fields().iter().map(|field| field.bytes()).sum::<usize>() + 2 * self.noted.bytes()
    }
}

/// Multigrid on every second cell, by the team.
pub enum Multigrid {
    Single(Vertex<f32>),
    Double(Vertex<f64>),
}

impl Multigrid {
    /// That of a matrix, where it is asked for; in the memory of `previous` where that fits.
    pub fn make(
        previous: Option<Self>,
        preconditioner: Preconditioner,
        a: &SevenPoints,
        team: &mut Team,
    ) -> Result<Option<Self>> {
        let Preconditioner::Multigrid { vertex: true, sweeps, single, .. } = preconditioner else { return Ok(None) };
        let (cells, members) = (a.cells, team.members());
        let made = match previous {
            Some(Self::Single(grids)) if single && grids.fits(cells, sweeps, members) => Self::Single(grids),
            Some(Self::Double(grids)) if !single && grids.fits(cells, sweeps, members) => Self::Double(grids),
            _ if single => Self::Single(Vertex::new(cells, sweeps, members)?),
            _ => Self::Double(Vertex::new(cells, sweeps, members)?),
        };
        let setup = |me: Me| match &made {
            Self::Single(grids) => grids.setup(me, a),
            Self::Double(grids) => grids.setup(me, a),
        };
        team.run(|me| drop(setup(me)), setup)??;
        Ok(Some(made))
    }

    /// z = M^-1 r; `magnitude`: a norm of r.
    pub fn apply<'z>(&self, me: Me, r: &[f64], magnitude: f64, z: impl Fn(Range<usize>) -> &'z mut [f64]) {
        match self {
            Self::Single(grids) => grids.apply(me, r, magnitude, z),
            Self::Double(grids) => grids.apply(me, r, magnitude, z),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Single(grids) => grids.bytes(),
            Self::Double(grids) => grids.bytes(),
        }
    }
}

/// A matrix with what was made of it.
pub struct State {
    pub pieces: Pieces,
    pub matrix: Kept,
    pub vectors: Vectors,
    pub preconditioner: Preconditioner,
    /// Stages are fused where they can be.
    pub fused: bool,
    /// Rows in work of the fused stages, a set per member.
    pub rings: Shared,
    /// One that is applied by the team.
    pub multigrid: Option<Multigrid>,
    /// One that is applied by one member.
    pub applied: Option<Mutex<Applied>>,
    /// Cells by singular component.
    pub singular: Labelled,
    /// Means of x over these, to come back to.
    pub kept_means: Shared,
    pub deflation: Option<Projection>,
    pub inputs: Mutex<Inputs>,
    pub may_stop: AtomicBool,
    pub stop: AtomicBool,
    /// Of the last run, nanoseconds of coarse solves.
    pub coarse_nanos: std::sync::atomic::AtomicU64,
}

impl State {
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
            + self.vectors.bytes()
            + self.singular.bytes()
            + self.rings.bytes()
            + self.multigrid.as_ref().map_or(0, Multigrid::bytes)
            + self.applied.as_ref().map_or(0, |a| a.lock().unwrap_or_else(PoisonError::into_inner).bytes())
            + self.deflation.as_ref().map_or(0, Projection::bytes)
    }
}
