//! Grids of the preconditioner: their arrays, and the unfused sweeps of their two levels.
//!
//! For one level with eliminated nodes E and remaining nodes K, the sweeps compute (docs/theory/rrb.md,
//! preconditioner):
//!
//! ```text
//!     forward     y_E = D^-1 r_E,   r_K <- r_K - A_KE y_E
//!     backward    z_E = y_E - D^-1 A_EK z_K
//! ```

use super::loops::{scale_in_place, subtract, subtract_scaled};
use super::neighbours::{Corners, Diagonal, Rows, Straight};
use super::number::Format;
use super::ranks::Halo;
use super::system::Shape;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::Me;
use crate::error::{Result, zeroed};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{Target, collect};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Embedding;
use std::ops::Range;

/// One grid stored by colour: its matrix in row-sum form, the factors of its two levels, and z.
pub struct PackedGrid<F: Format> {
    pub layout: Layout,
    pub embedding: Embedding,
    /// Rows J that belong to this rank; all rows if the grid is not distributed.
    pub own: Range<usize>,
    /// Exchange of the halo rows, which belong to other ranks.
    pub halo: Option<Box<Halo>>,
    /// Whether several threads work on this grid.
    pub shared: bool,
    /// Row sums s; after the elimination of a node, s~ / d, where s~ is its row sum after lumping.
    pub excess: FourColours,
    /// Whether red nodes are coupled with each other: `false` on the first grid of a 5-point matrix.
    pub corners: bool,
    /// Couplings between r1 and r2, which the odd level lumps.
    pub red_diagonal: Diagonal,
    /// Couplings between b1 and b2. The odd level replaces them by the couplings of the skew stencil. With f32 and
    /// bf16, this array is absent on the first grid if CG runs on S1.
    pub black_diagonal: Diagonal,
    /// 1 / d of the eliminated nodes; b2 is not eliminated on this grid.
    pub inverse: FourColours,
    /// Whether this is the first grid, the grid of A. On this grid, arrays that only the factorization reads share
    /// memory with vectors.
    first: bool,
    pub sweep: Sweep<F::Stored>,
    /// Right-hand side of this grid before the sweeps, solution after the sweeps.
    pub z: FourColours<F::Real>,
    /// Whether z shares memory with another vector.
    pub z_is_shared: bool,
    /// Matrix and vectors of the inner iterations, if the cycle recurses on this grid.
    pub recursion: Option<RecursionGrid<F>>,
}

/// Matrix of a recursion grid before its levels change it, in row-sum form, and the vectors of the inner iterations.
/// The levels do not change the straight couplings, so these are read from [`Sweep::straight`].
pub struct RecursionGrid<F: Format> {
    pub excess: FourColours<F::Stored>,
    pub corners: Corners<F::Stored>,
    /// Residual r, direction d, product q of the matrix and d, and solution u of the inner iterations.
    pub r: FourColours<F::Real>,
    pub d: FourColours<F::Real>,
    pub q: FourColours<F::Real>,
    pub u: FourColours<F::Real>,
}

/// Vectors whose memory the first grid uses: `z` during an iteration, the others during a factorization.
pub struct Vectors<'a, F: Format> {
    pub x: &'a FourColours,
    pub b: &'a FourColours,
    pub r: Option<FourColours>,
    pub p: Option<FourColours>,
    pub z: Option<FourColours<F::Real>>,
}

/// Factors that the sweeps read. In f64, `diagonal` and `stored_pivot` use the memory of
/// `PackedGrid::black_diagonal` and `PackedGrid::inverse`.
pub struct Sweep<T> {
    /// Couplings between red and black nodes. Absent on the first grid if CG runs on S1, because the solve then reads
    /// the couplings of A, and if aggregation replaces the levels.
    pub straight: Straight<T>,
    /// Couplings between b1 and b2 of the skew stencil.
    pub diagonal: Diagonal<T>,
    /// Stored pivots of r1, r2 and b1, the first argument of [`Format::inverse`].
    pub stored_pivot: FourColours<T>,
}

impl<T: Number> Sweep<T> {
    /// Returns the pivots of row J of an eliminated colour and the couplings: from red nodes to black nodes, or from b1
    /// to b2.
    ///
    /// # Safety
    /// No thread may write the matrix meanwhile.
    pub unsafe fn eliminated(&self, colour: Colour, row: usize) -> (&[T], Rows<'_, T>) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let couplings = match colour {
                Colour::B1 => self.diagonal.couplings(colour, row),
                _ => self.straight.couplings(colour, row),
            };
            (self.stored_pivot[colour].row(row, 0), couplings)
        }
    }
}

impl<F: Format> PackedGrid<F> {
    /// Allocates a grid. `vectors`: memory that the first grid shares; `None` on other grids.
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
        // With aggregation, there are no sweeps. The array `diagonal` is nevertheless needed if CG runs on S1, because
        // it contains the diagonal couplings of S1.
        let levels = !shape.aggregates;
        let sweep = Sweep {
            straight: Straight::zeroed(&layout, !on_schur && levels)?,
            diagonal: Diagonal::zeroed(&layout, on_schur || levels)?,
            stored_pivot: if levels { FourColours::eliminated(&layout, !on_schur)? } else { FourColours::absent()? },
        };
        // On the first grid, arrays that only the factorization reads use the memory of vectors.
        let diagonal = |vector: Option<&FourColours>, present: bool| match vector.filter(|_| present) {
            Some(v) => Ok(Diagonal { of: Colour::ALL.map(|colour| v[colour].clone()) }),
            None => Diagonal::zeroed(&layout, present),
        };
        let shared = vectors.as_ref();
        let red_diagonal = diagonal(shared.and_then(|v| v.r.as_ref()), corners && levels)?;
        let black_diagonal = match sweep.diagonal.of_type() {
            Some(of_sweeps) => of_sweeps,
            None => diagonal(shared.and_then(|v| v.p.as_ref()), !on_schur)?,
        };
        let excess = shared.map_or_else(|| FourColours::zeroed(&layout, true), |v| Ok(FourColours::clone(v.x)))?;
        let inverse = match (sweep.stored_pivot.of_type(), shared) {
            (Some(pivot), Some(v)) if on_schur => FourColours { r1: v.b.r1.clone(), r2: v.b.r2.clone(), ..pivot },
            (Some(pivot), _) => pivot,
            (None, Some(v)) => FourColours::clone(v.b),
            (None, None) => FourColours::eliminated(&layout, true)?,
        };
        let recursion = if recurses { Some(RecursionGrid::new(&layout)?) } else { None };
        let z_is_shared = vectors.as_ref().is_some_and(|vectors| vectors.z.is_some());
        let z = vectors.and_then(|vectors| vectors.z).map_or_else(|| FourColours::zeroed(&layout, !on_schur), Ok)?;
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

    /// Returns the arrays to which the matrix of this grid is written, with row sums instead of centers.
    pub fn target(&self, unit: f64) -> Target<'_, F> {
        Target {
            layout: &self.layout,
            center: &self.excess,
            straight: &self.sweep.straight,
            unit,
            corners: Some((&self.red_diagonal, &self.black_diagonal)),
        }
    }

    /// Returns the factors of the sweeps if they have separate arrays (f32 and bf16).
    pub fn short(&self) -> Option<&Sweep<F::Stored>> {
        F::SHORT.then_some(&self.sweep)
    }

    /// Returns the rows J that belong to this thread.
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

    /// Returns the rows of this thread. If they are the first or the last rows of this rank, the range also contains
    /// `more` halo rows on this side.
    pub fn rows_and(&self, me: Me, more: usize) -> Range<usize> {
        let rows = self.rows(me);
        if self.halo.is_none() || rows.is_empty() {
            return rows;
        }
        let start = if rows.start == self.own.start { rows.start.saturating_sub(more) } else { rows.start };
        start..if rows.end == self.own.end { (rows.end + more).min(self.layout.cy) } else { rows.end }
    }

    /// Waits at a barrier if several threads work on this grid.
    pub fn barrier(&self, me: Me) {
        if self.shared {
            me.barrier();
        }
    }

    /// Makes all rows of v readable, with halo and border. All threads call this function between a step that writes
    /// rows of v and a step that reads rows of other threads. v is a vector of this grid, or of the next grid if
    /// threads of this grid have written it.
    ///
    /// The border consists of `block` columns on either side and the rows -1 and cy. It represents the values outside
    /// the grid, is initialized with zeros, and is never written. Without halo rows, a barrier is therefore sufficient.
    /// Instead of calling this function, fused stages wait for one row of a neighbour thread (see `sweeps::next_thread`
    /// and `sweeps::previous_thread`).
    pub fn refresh<R: Real + Number>(&self, me: Me, v: &FourColours<R>) {
        // SAFETY: no thread writes a border.
        debug_assert!(self.rows(me).all(|row| Colour::ALL.iter().all(|&c| unsafe { v[c].border_is_clear(row) })));
        self.barrier(me);
        if let Some(halo) = &self.halo {
            if me.index == 0 {
                // SAFETY: the other threads wait at the barrier below.
                unsafe { halo.refresh(v) };
            }
            self.barrier(me);
        }
    }

    /// Makes v readable for a downward sweep, after the threads of the finer grid `above` have written it. With
    /// `fused`, exchanges only those halo rows that a fused sweep reads.
    pub fn refresh_down<R: Real + Number>(&self, me: Me, above: &Self, fused: bool, v: &FourColours<R>) {
        above.barrier(me);
        if let Some(halo) = &self.halo {
            if me.index == 0 {
                // SAFETY: the other threads wait at the barrier below.
                unsafe { if fused { halo.refresh_down(v) } else { halo.refresh(v) } };
            }
            above.barrier(me);
        }
    }

    /// Returns whether rows of another rank precede the rows of this thread, and whether they follow.
    pub fn borders_other_ranks(&self, me: Me) -> [bool; 2] {
        let (rows, own) = (self.rows(me), &self.own);
        let [below, above] = self.halo.as_ref().map_or([false; 2], |halo| halo.sides);
        [below && rows.start == own.start, above && rows.end == own.end].map(|is| is && !rows.is_empty())
    }

    pub fn bytes(&self) -> usize {
        let sweep = self.sweep.straight.bytes() + self.sweep.diagonal.bytes() + self.sweep.stored_pivot.bytes();
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
        let vector = || FourColours::zeroed(layout, true);
        Ok(Self {
            excess: FourColours::zeroed(layout, true)?,
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

/// Row buffers of one thread, each with a border of zeros on the left and on the right.
pub struct Buffers<R> {
    pub values: Vec<R>,
    pub stride: usize,
    pub block: usize,
}

/// Number of buffer rows for a fused stage: two rows for each of three colours.
const BUFFER_ROWS: usize = 6;

impl<R: Real + Number> Buffers<R> {
    pub fn new(layout: &Layout) -> Result<Self> {
        let stride = layout.stride();
        Ok(Self { values: zeroed(BUFFER_ROWS * stride, "rows of a stage")?, stride, block: layout.block })
    }

    /// Returns n values of buffer row k, from column I = shift on.
    pub fn row(&self, k: usize, shift: isize, n: usize) -> &[R] {
        &self.values[(k * self.stride + self.block).wrapping_add_signed(shift)..][..n]
    }

    /// Returns n values of buffer row k for writing. Sets the value after the row to zero, because a wider grid may
    /// have used the buffer before.
    pub fn row_mut(&mut self, k: usize, n: usize) -> &mut [R] {
        let row = &mut self.values[k * self.stride + self.block..][..n + 1];
        row[n] = R::default();
        &mut row[..n]
    }
}

/// Eliminated colours and remaining colours of the odd level, and of the even level.
const LEVELS: [(&[Colour], &[Colour]); 2] =
    [(&[Colour::R1, Colour::R2], &[Colour::B1, Colour::B2]), (&[Colour::B1], &[Colour::B2])];

impl<F: Format> PackedGrid<F> {
    /// Returns two items for row J of a colour: its couplings between eliminated and remaining nodes of the odd or the
    /// even level, and z at the nodes to which they lead.
    ///
    /// # Safety
    /// No thread may write these rows of z meanwhile.
    unsafe fn couplings_and_neighbours(
        &self,
        odd: bool,
        colour: Colour,
        row: usize,
    ) -> (Rows<'_, F::Stored>, Rows<'_, F::Real>) {
        let (m, z) = (&self.sweep, &self.z);
        // SAFETY: by the safety contract of this function.
        unsafe {
            if odd {
                (m.straight.couplings(colour, row), z.straight(colour, row))
            } else {
                (m.diagonal.couplings(colour, row), z.diagonal(colour, row))
            }
        }
    }

    /// Forward substitution for the odd or the even level: y_E = D^-1 r_E and r_K = r_K - A_KE y_E. The vector z
    /// contains r on entry and y on return.
    pub fn forward(&self, me: Me, odd: bool) {
        let (eliminated, left) = LEVELS[usize::from(!odd)];
        for row in self.rows(me) {
            for &colour in eliminated {
                // SAFETY: the rows belong to this thread, and no other thread reads them in this step.
                unsafe {
                    let (pivot, a) = self.sweep.eliminated(colour, row);
                    scale_in_place::<F>(self.z[colour].row_mut(row, 0), pivot, a);
                }
            }
        }
        self.refresh(me, &self.z);
        for row in self.rows(me) {
            for &colour in left {
                // SAFETY: this code reads rows of eliminated colours, which no thread writes now. It writes rows of
                // other colours, which belong to this thread.
                unsafe {
                    let (a, y) = self.couplings_and_neighbours(odd, colour, row);
                    subtract::<F>(self.z[colour].row_mut(row, 0), a, y);
                }
            }
        }
    }

    /// Backward substitution for the odd or the even level: z_E = y_E - D^-1 A_EK z_K.
    pub fn backward(&self, me: Me, odd: bool) {
        for row in self.rows(me) {
            for &colour in LEVELS[usize::from(!odd)].0 {
                // SAFETY: this code reads rows of remaining colours, which no thread writes now. It writes rows of
                // eliminated colours, which belong to this thread.
                unsafe {
                    let (a, z) = self.couplings_and_neighbours(odd, colour, row);
                    subtract_scaled::<F>(
                        self.z[colour].row_mut(row, 0),
                        self.sweep.stored_pivot[colour].row(row, 0),
                        a,
                        z,
                    );
                }
            }
        }
    }

    /// Copies z of the next grid to the kept nodes of this grid.
    pub fn copy_to_kept(&self, me: Me, coarse: &Self) {
        for row in self.rows(me) {
            if self.layout.rows(Colour::B2).contains(&row) {
                // SAFETY: no thread writes the next grid now; the b2 rows belong to this thread.
                unsafe {
                    collect(&coarse.layout, row, &coarse.z, &mut self.z.b2.row_mut(row, 0)[..coarse.layout.grid.nx])
                };
            }
        }
    }
}
