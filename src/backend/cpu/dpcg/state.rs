//! A matrix with its preconditioner and its vectors, shared by the members of a team.

use super::field::Field;
use super::labelled::Labelled;
use super::pieces::Pieces;
use super::regions::Projection;
use super::whole::Whole;
use crate::backend::cpu::observed::Observed;
use crate::backend::steps::dpcg::Preconditioner;
use crate::error::Result;
use crate::grid::cells::Kept;
use crate::runtime::reduce::Noted;
use crate::runtime::shared::Shared;

/// What a solve works on.
pub struct Vectors {
    pub b: Field,
    pub x: Field,
    pub r: Field,
    pub p: Field,
    /// A p; scratch space of `precondition`.
    pub q: Field,
    pub z: Field,
    /// The other one, of a Neumann series.
    pub s: Option<Field>,
    /// Sums over pieces.
    pub noted: Noted,
}

impl Vectors {
    /// `series`: for a Neumann series, too.
    pub fn new(pieces: Pieces, series: bool) -> Result<Self> {
        let field = || Field::new(pieces.cells);
        Ok(Self {
            b: field()?,
            x: field()?,
            r: field()?,
            p: field()?,
            q: field()?,
            z: field()?,
            s: if series { Some(field()?) } else { None },
            noted: Noted::new(pieces.count(), 2)?,
        })
    }

    /// All of cells.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.b, &self.x, &self.r, &self.p, &self.q, &self.z].into_iter().chain(&self.s)
    }

    fn bytes(&self) -> usize {
        self.fields().map(Field::bytes).sum::<usize>() + 2 * self.noted.bytes()
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
    /// Where that is applied as a whole.
    pub whole: Option<Whole>,
    /// Cells by singular component.
    pub singular: Labelled,
    /// Means of x over these, to come back to.
    pub kept_means: Shared,
    pub deflation: Option<Projection>,
    pub observed: Observed,
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
            + self.whole.as_ref().map_or(0, Whole::bytes)
            + self.deflation.as_ref().map_or(0, Projection::bytes)
    }
}
