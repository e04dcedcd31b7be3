//! The grids of the preconditioner: their arrays, and the sweeps of their two levels, unfused.

use super::area::Four;
use super::loops::{scale_in_place, subtract, subtract_scaled};
use super::neighbours::{Corners, Diagonal, Rows, Straight};
use super::number::Format;
use super::ranks::Halo;
use super::spread::{Target, collect};
use super::system::Shape;
use crate::error::{Result, zeroed};
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::Embedding;
use crate::runtime::number::Real;
use crate::runtime::shared::Number;
use crate::runtime::team::Me;
use std::ops::Range;

/// One r1/r2/b1/b2 grid: its matrix in excess form, what the two levels make of it, and z.
pub struct PackedGrid<F: Format> {
    pub layout: Layout,
    pub embedding: Embedding,
    /// Rows J that are this rank's: all, but where other ranks have some.
    pub own: Range<usize>,
    /// Those next to them, which other ranks have.
    pub halo: Option<Box<Halo>>,
    /// More than one member works on it.
    pub shared: bool,
    /// Row sums; at eliminated nodes afterwards row sum / d.
    pub excess: Four,
    /// Whether red nodes are coupled: not on the first grid of a 5-point matrix.
    pub corners: bool,
    /// r1 to r2, lumped away by the odd level.
    pub red_diagonal: Diagonal,
    /// b1 to b2; after the odd level those of the skew stencil. Absent on the first grid of S1 in short formats.
    pub black_diagonal: Diagonal,
    /// 1 / d; b2 is not eliminated here.
    pub inverse: Four,
    /// The first grid: arrays that only its factorization reads are vectors of the solve.
    first: bool,
    pub sweep: Sweep<F::Stored>,
    pub z: Four<F::Real>,
    /// In the memory of another vector.
    pub z_is_shared: bool,
    /// Where the cycle recurses.
    pub recursion: Option<RecursionGrid<F>>,
}

/// The matrix of a recursion grid before its levels change it, in excess form, and the vectors of the iteration.
pub struct RecursionGrid<F: Format> {
    pub excess: Four<F::Stored>,
    pub corners: Corners<F::Stored>,
    pub r: Four<F::Real>,
    pub d: Four<F::Real>,
    pub q: Four<F::Real>,
    pub u: Four<F::Real>,
}

/// Vectors whose memory the first grid uses: z in an iteration, the others in a factorization.
pub struct Vectors<'a, F: Format> {
    pub x: &'a Four,
    pub b: &'a Four,
    pub r: Option<Four>,
    pub p: Option<Four>,
    pub z: Option<Four<F::Real>>,
}

/// What sweeps read; in f64 the factorization's diagonal couplings and 1 / d are these arrays.
pub struct Sweep<T> {
    /// Red to black; absent on the first grid of S1, which uses those of A.
    pub straight: Straight<T>,
    /// b1 to b2, of the skew stencil.
    pub diagonal: Diagonal<T>,
    /// What [`Format::inverse`] takes, at r1, r2 and b1.
    pub pivot: Four<T>,
}

impl<T: Number> Sweep<T> {
    /// Pivots of row J of an eliminated colour, and couplings: of red nodes to black ones, of b1 to b2.
    ///
    /// # Safety
    /// Nobody may write the matrix meanwhile.
    pub unsafe fn eliminated(&self, colour: Colour, row: usize) -> (&[T], Rows<'_, T>) {
        // SAFETY: as the caller promised.
        unsafe {
            let couplings = match colour {
                Colour::B1 => self.diagonal.couplings(colour, row),
                _ => self.straight.couplings(colour, row),
            };
            (self.pivot[colour].row(row, 0), couplings)
        }
    }
}

impl<F: Format> PackedGrid<F> {
    /// `vectors`: for the first grid.
    pub fn new(
        layout: Layout,
        own: Range<usize>,
        embedding: Embedding,
        shape: Shape,
        vectors: Option<Vectors<F>>,
        recurses: bool,
    ) -> Result<Self> {
        let first = vectors.is_some();
        let on_schur = first && shape.schur;
        let corners = !first || shape.nine_points;
        // Aggregation has S1 here, where CG runs on that.
        let levels = !shape.aggregates;
        let sweep = Sweep {
            straight: Straight::zeroed(&layout, !on_schur && levels)?,
            diagonal: Diagonal::zeroed(&layout, on_schur || levels)?,
            pivot: if levels { Four::eliminated(&layout, !on_schur)? } else { Four::absent()? },
        };
        // Of the first grid, what only its factorization reads is stored in vectors.
        let diagonal = |vector: Option<&Four>, present: bool| match vector.filter(|_| present) {
            Some(v) => Ok(Diagonal { of: Colour::ALL.map(|colour| v[colour].clone()) }),
            None => Diagonal::zeroed(&layout, present),
        };
        let shared = vectors.as_ref();
        let red_diagonal = diagonal(shared.and_then(|v| v.r.as_ref()), corners && levels)?;
        let black_diagonal = match sweep.diagonal.of_type() {
            Some(of_sweeps) => of_sweeps,
            None => diagonal(shared.and_then(|v| v.p.as_ref()), !on_schur)?,
        };
        let excess = shared.map_or_else(|| Four::zeroed(&layout, true), |v| Ok(Four::clone(v.x)))?;
        let inverse = match (sweep.pivot.of_type(), shared) {
            (Some(pivot), Some(v)) if on_schur => Four { r1: v.b.r1.clone(), r2: v.b.r2.clone(), ..pivot },
            (Some(pivot), _) => pivot,
            (None, Some(v)) => Four::clone(v.b),
            (None, None) => Four::eliminated(&layout, true)?,
        };
        let recursion = if recurses { Some(RecursionGrid::new(&layout)?) } else { None };
        let z_is_shared = vectors.as_ref().is_some_and(|vectors| vectors.z.is_some());
        let z = vectors.and_then(|vectors| vectors.z).map_or_else(|| Four::zeroed(&layout, !on_schur), Ok)?;
        Ok(Self {
            sweep,
            inverse,
            first,
            recursion,
            embedding,
            own,
            halo: None,
            shared: false,
            excess,
            corners,
            red_diagonal,
            black_diagonal,
            z,
            z_is_shared,
            layout,
        })
    }

    /// Where its matrix is formed, row sums in place of centers.
    pub fn target(&self, unit: f64) -> Target<'_, F> {
        Target {
            layout: &self.layout,
            diagonal: &self.excess,
            straight: &self.sweep.straight,
            unit,
            corners: Some((&self.red_diagonal, &self.black_diagonal)),
        }
    }

    /// What sweeps read, where it has arrays of its own.
    pub fn short(&self) -> Option<&Sweep<F::Stored>> {
        F::SHORT.then_some(&self.sweep)
    }

    /// Rows J of the compute areas that are this member's.
    pub fn rows(&self, me: Me) -> Range<usize> {
        let first = self.own.start;
        match (self.shared, me.index) {
            (true, _) => {
                let rows = me.share(self.own.len());
                first + rows.start..first + rows.end
            }
            (false, 0) => self.own.clone(),
            (false, _) => first..first,
        }
    }

    /// The same with so many rows more where they end at another rank's.
    pub fn rows_and(&self, me: Me, more: usize) -> Range<usize> {
        let rows = self.rows(me);
        if self.halo.is_none() || rows.is_empty() {
            return rows;
        }
        let start = if rows.start == self.own.start { rows.start.saturating_sub(more) } else { rows.start };
        start..if rows.end == self.own.end { (rows.end + more).min(self.layout.cy) } else { rows.end }
    }

    /// A barrier, where more than one member works on this grid.
    pub fn barrier(&self, me: Me) {
        if self.shared {
            me.barrier();
        }
    }

    /// The hook for borders: all members call it between a step that writes rows of v (of this grid, or of the next
    /// one, which gets its values from this one) and a step that reads rows of others. Then all rows are as their
    /// owners left them, and the border around them (`block` columns on either side, rows -1 and cy) holds what lies
    /// beyond the edges. That is zero, from the start, and no step writes there, so that all that is to do is to wait,
    /// but where rows of other ranks come. Periodic edges would be copied here. (Fused stages wait for one row of a
    /// neighbour instead: `sweeps::{next, previous}`, which are none at the edges.)
    pub fn refresh<R: Real + Number>(&self, me: Me, v: &Four<R>) {
        // SAFETY: nobody writes a border.
        debug_assert!(self.rows(me).all(|row| Colour::ALL.iter().all(|&c| unsafe { v[c].border_is_clear(row) })));
        self.barrier(me);
        if let Some(halo) = &self.halo {
            if me.index == 0 {
                // SAFETY: the others wait.
                unsafe { halo.refresh(v) };
            }
            self.barrier(me);
        }
    }

    /// Before a sweep downwards from v, whose rows members of grid `above` have written, fused or not.
    pub fn refresh_down<R: Real + Number>(&self, me: Me, above: &Self, fused: bool, v: &Four<R>) {
        above.barrier(me);
        if let Some(halo) = &self.halo {
            if me.index == 0 {
                // SAFETY: the others wait.
                unsafe { if fused { halo.refresh_down(v) } else { halo.refresh(v) } };
            }
            above.barrier(me);
        }
    }

    /// Rows of another rank are next to those of this member, below or above.
    pub fn beside(&self, me: Me) -> [bool; 2] {
        let (rows, own) = (self.rows(me), &self.own);
        let [below, above] = self.halo.as_ref().map_or([false; 2], |halo| halo.sides);
        [below && rows.start == own.start, above && rows.end == own.end].map(|is| is && !rows.is_empty())
    }

    pub fn bytes(&self) -> usize {
        let sweep = self.sweep.straight.bytes() + self.sweep.diagonal.bytes() + self.sweep.pivot.bytes();
        let short = |bytes: usize| if F::SHORT { bytes } else { 0 };
        let factorization =
            self.excess.bytes() + self.red_diagonal.bytes() + short(self.black_diagonal.bytes() + self.inverse.bytes());
        sweep
            + if self.first { 0 } else { factorization }
            + if self.z_is_shared { 0 } else { self.z.bytes() }
            + self.recursion.as_ref().map_or(0, RecursionGrid::bytes)
    }
}

impl<F: Format> RecursionGrid<F> {
    fn new(layout: &Layout) -> Result<Self> {
        let vector = || Four::zeroed(layout, true);
        Ok(Self {
            excess: Four::zeroed(layout, true)?,
            corners: Corners::zeroed(layout, true)?,
            r: vector()?,
            d: vector()?,
            q: vector()?,
            u: vector()?,
        })
    }

    pub fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.d, &self.q, &self.u];
        self.excess.bytes() + self.corners.bytes() + vectors.iter().map(|v| v.bytes()).sum::<usize>()
    }
}

/// Rows of one member, with a border of zeros left and right.
pub struct Buffers<R> {
    pub values: Vec<R>,
    pub stride: usize,
    pub block: usize,
}

/// Rows a stage keeps: two of each of three colours.
const BUFFER_ROWS: usize = 6;

impl<R: Real + Number> Buffers<R> {
    pub fn new(layout: &Layout) -> Result<Self> {
        let stride = layout.stride();
        Ok(Self { values: zeroed(BUFFER_ROWS * stride, "rows of a stage")?, stride, block: layout.block })
    }

    /// Row k from I = shift on.
    pub fn row(&self, k: usize, shift: isize, n: usize) -> &[R] {
        &self.values[(k * self.stride + self.block).wrapping_add_signed(shift)..][..n]
    }

    /// Row k, to write; what stands behind its n values becomes zero, since grids of all sizes use it.
    pub fn row_mut(&mut self, k: usize, n: usize) -> &mut [R] {
        let row = &mut self.values[k * self.stride + self.block..][..n + 1];
        row[n] = R::default();
        &mut row[..n]
    }
}

/// Colours that a level eliminates, and those that are left: the odd level, and the even one.
const LEVELS: [(&[Colour], &[Colour]); 2] =
    [(&[Colour::R1, Colour::R2], &[Colour::B1, Colour::B2]), (&[Colour::B1], &[Colour::B2])];

impl<F: Format> PackedGrid<F> {
    /// Couplings of row J of a colour within a level, and values of z that they go with.
    ///
    /// # Safety
    /// Nobody may write these rows of z meanwhile.
    unsafe fn around(&self, odd: bool, colour: Colour, row: usize) -> (Rows<'_, F::Stored>, Rows<'_, F::Real>) {
        let (m, z) = (&self.sweep, &self.z);
        // SAFETY: as the caller promised.
        unsafe {
            if odd {
                (m.straight.couplings(colour, row), z.straight(colour, row))
            } else {
                (m.diagonal.couplings(colour, row), z.diagonal(colour, row))
            }
        }
    }

    /// Of eliminated nodes y = r / d, and of those that are left r -= A y.
    pub fn forward(&self, me: Me, odd: bool) {
        let (eliminated, left) = LEVELS[usize::from(!odd)];
        for row in self.rows(me) {
            for &colour in eliminated {
                // SAFETY: rows of this member, which no other reads in this step.
                unsafe {
                    let (pivot, a) = self.sweep.eliminated(colour, row);
                    scale_in_place::<F>(self.z[colour].row_mut(row, 0), pivot, a);
                }
            }
        }
        self.refresh(me, &self.z);
        for row in self.rows(me) {
            for &colour in left {
                // SAFETY: reads eliminated rows, writes others of this member.
                unsafe {
                    let (a, y) = self.around(odd, colour, row);
                    subtract::<F>(self.z[colour].row_mut(row, 0), a, y);
                }
            }
        }
    }

    /// Of eliminated nodes z = y - (A z of the others) / d.
    pub fn backward(&self, me: Me, odd: bool) {
        for row in self.rows(me) {
            for &colour in LEVELS[usize::from(!odd)].0 {
                // SAFETY: reads rows that are left, writes eliminated ones of this member.
                unsafe {
                    let (a, z) = self.around(odd, colour, row);
                    subtract_scaled::<F>(self.z[colour].row_mut(row, 0), self.sweep.pivot[colour].row(row, 0), a, z);
                }
            }
        }
    }

    /// Kept values of the next grid, back to this one.
    pub fn bring_up(&self, me: Me, coarse: &Self) {
        for row in self.rows(me) {
            if self.layout.rows(Colour::B2).contains(&row) {
                // SAFETY: reads the next grid, writes b2 rows of this member.
                unsafe {
                    collect(&coarse.layout, row, &coarse.z, &mut self.z.b2.row_mut(row, 0)[..coarse.layout.grid.nx])
                };
            }
        }
    }
}
