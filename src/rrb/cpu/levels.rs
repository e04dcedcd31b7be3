//! Grids of the preconditioner: their arrays, and the unfused sweeps of their two levels.
//!
//! For one level with eliminated nodes E and remaining nodes K, the sweeps compute (docs/theory/rrb.md,
//! preconditioner):
//!
//! ```text
//!     forward     y_E = D^-1 r_E,   r_K <- r_K - A_KE y_E
//!     backward    z_E = y_E - D^-1 A_EK z_K
//! ```

use super::loops::{divide_in_place, subtract_divided_product, subtract_product};
use super::neighbours::{AxisCouplings, CornerCouplings, DiagonalCouplings, NeighbourRows};
use super::number::Format;
use super::ranks::Halo;
use super::system::PackedShape;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::TeamThread;
use crate::error::{Result, zeroed};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{HalfStencilTarget, load_natural_row};
use crate::rrb::layout::{Colour, Layout};
use crate::stencil::levels::Embedding;
use std::ops::Range;

/// One grid stored by colour: its matrix in row-sum form, the factors of its two levels, and z.
pub struct PackedGrid<F: Format> {
    pub layout: Layout,
    pub embedding: Embedding,
    /// Rows J that belong to this rank; all rows if the grid is not distributed.
    pub own_rows: Range<usize>,
    /// Exchange of the halo rows, which belong to other ranks.
    pub halo: Option<Box<Halo>>,
    /// Whether several threads work on this grid.
    pub is_shared: bool,
    /// Row sums s. For an eliminated node, s~ / d, where s~ is its row sum after lumping and d its pivot.
    pub row_sums: FourColours,
    /// Whether red nodes are coupled with each other: `false` on the first grid of a 5-point matrix.
    pub couples_reds: bool,
    /// Couplings between r1 and r2, which the odd level lumps.
    pub red_diagonal: DiagonalCouplings,
    /// Couplings between b1 and b2. The odd level replaces them by the couplings of the skew stencil. With f32 and
    /// bf16, this array is absent on the first grid if CG runs on S1.
    pub black_diagonal: DiagonalCouplings,
    /// 1 / d of the eliminated nodes; b2 is not eliminated on this grid.
    pub inverse_pivots: FourColours,
    /// Whether this is the first grid, the grid of A. On this grid, arrays that only the factorization reads share
    /// memory with vectors.
    is_first: bool,
    pub factors: SweepFactors<F::Stored>,
    /// Right-hand side of this grid before the sweeps, solution after the sweeps.
    pub z: FourColours<F::Real>,
    /// Whether z shares memory with another vector.
    pub z_is_shared: bool,
    /// Matrix and vectors of the inner iterations, if the cycle recurses on this grid.
    pub recursion_grid: Option<RecursionGrid<F>>,
}

/// Matrix of a recursion grid in row-sum form, and the vectors of the inner iterations. The matrix is a copy, because
/// the elimination on this grid overwrites the original. The axis couplings are not overwritten, and are therefore
/// read from [`SweepFactors::axis_couplings`].
pub struct RecursionGrid<F: Format> {
    pub row_sums: FourColours<F::Stored>,
    pub corners: CornerCouplings<F::Stored>,
    /// Residual r, direction d, product q of the matrix and d, and solution u of the inner iterations.
    pub r: FourColours<F::Real>,
    pub d: FourColours<F::Real>,
    pub q: FourColours<F::Real>,
    pub u: FourColours<F::Real>,
}

/// Vectors whose memory the first grid uses: `z` during an iteration, the others during a factorization.
pub struct SharedVectors<'a, F: Format> {
    pub x: &'a FourColours,
    pub b: &'a FourColours,
    pub r: Option<FourColours>,
    pub p: Option<FourColours>,
    pub z: Option<FourColours<F::Real>>,
}

/// Factors that the sweeps read. In f64, `diagonal_couplings` and `stored_pivot` use the memory of
/// `PackedGrid::black_diagonal` and `PackedGrid::inverse_pivots`.
pub struct SweepFactors<T> {
    /// Couplings between red and black nodes. Absent if aggregation replaces the levels. Also absent on the first grid
    /// if CG runs on S1: the solve then reads the couplings of A.
    pub axis_couplings: AxisCouplings<T>,
    /// Couplings between b1 and b2 of the skew stencil.
    pub diagonal_couplings: DiagonalCouplings<T>,
    /// Stored pivots of r1, r2 and b1, the first argument of [`Format::inverse_pivot`].
    pub stored_pivot: FourColours<T>,
}

impl<T: Number> SweepFactors<T> {
    /// For row J of an eliminated colour, returns the stored pivots, and the couplings to the remaining nodes: from red
    /// to black nodes, or from b1 to b2.
    ///
    /// # Safety
    /// No thread may write the matrix meanwhile.
    pub unsafe fn pivots_and_couplings(&self, colour: Colour, row: usize) -> (&[T], NeighbourRows<'_, T>) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let couplings = match colour {
                Colour::B1 => self.diagonal_couplings.couplings(colour, row),
                _ => self.axis_couplings.couplings(colour, row),
            };
            (self.stored_pivot[colour].row(row, 0), couplings)
        }
    }
}

impl<F: Format> PackedGrid<F> {
    /// Allocates a grid. `vectors`: vectors whose memory the first grid shares; `None` on other grids. `recurses`:
    /// whether this is a recursion grid.
    pub fn new(
        layout: Layout,
        own_rows: Range<usize>,
        embedding: Embedding,
        shape: PackedShape,
        vectors: Option<SharedVectors<F>>,
        recurses: bool,
    ) -> Result<Self> {
        let is_first = vectors.is_some();
        let is_on_schur = is_first && shape.uses_schur;
        let couples_reds = !is_first || shape.has_nine_points;
        // With aggregation, there are no sweeps. The array `diagonal_couplings` is nevertheless needed if CG runs on
        // S1, because it contains the diagonal couplings of S1.
        let has_levels = !shape.uses_aggregation;
        let factors = SweepFactors {
            axis_couplings: AxisCouplings::zeroed(&layout, !is_on_schur && has_levels)?,
            diagonal_couplings: DiagonalCouplings::zeroed(&layout, is_on_schur || has_levels)?,
            stored_pivot: if has_levels {
                FourColours::zeroed_eliminated(&layout, !is_on_schur)?
            } else {
                FourColours::absent()?
            },
        };
        // On the first grid, arrays that only the factorization reads share the memory of the CG vectors.
        let diagonal_in = |vector: Option<&FourColours>, is_present: bool| match vector.filter(|_| is_present) {
            Some(v) => Ok(DiagonalCouplings { arrays: Colour::ALL.map(|colour| v[colour].clone()) }),
            None => DiagonalCouplings::zeroed(&layout, is_present),
        };
        let shared_vectors = vectors.as_ref();
        let red_diagonal = diagonal_in(shared_vectors.and_then(|v| v.r.as_ref()), couples_reds && has_levels)?;
        let black_diagonal = match factors.diagonal_couplings.of_type() {
            Some(sweep_couplings) => sweep_couplings,
            None => diagonal_in(shared_vectors.and_then(|v| v.p.as_ref()), !is_on_schur)?,
        };
        let row_sums =
            shared_vectors.map_or_else(|| FourColours::zeroed(&layout, true), |v| Ok(FourColours::clone(v.x)))?;
        let inverse_pivots = match (factors.stored_pivot.of_type(), shared_vectors) {
            (Some(pivot), Some(v)) if is_on_schur => FourColours { r1: v.b.r1.clone(), r2: v.b.r2.clone(), ..pivot },
            (Some(pivot), _) => pivot,
            (None, Some(v)) => FourColours::clone(v.b),
            (None, None) => FourColours::zeroed_eliminated(&layout, true)?,
        };
        let recursion_grid = if recurses { Some(RecursionGrid::new(&layout)?) } else { None };
        let z_is_shared = vectors.as_ref().is_some_and(|vectors| vectors.z.is_some());
        let z = vectors.and_then(|vectors| vectors.z).map_or_else(|| FourColours::zeroed(&layout, !is_on_schur), Ok)?;
        Ok(Self {
            factors,
            inverse_pivots,
            is_first,
            recursion_grid,
            embedding,
            own_rows,
            halo: None,
            is_shared: false,
            row_sums,
            couples_reds,
            red_diagonal,
            black_diagonal,
            z,
            z_is_shared,
            layout,
        })
    }

    /// Returns the arrays to which the matrix of this grid is written, with row sums instead of centers.
    pub fn matrix_target(&self, storage_unit: f64) -> HalfStencilTarget<'_, F> {
        HalfStencilTarget {
            layout: &self.layout,
            center: &self.row_sums,
            axis_couplings: &self.factors.axis_couplings,
            storage_unit,
            corners: Some((&self.red_diagonal, &self.black_diagonal)),
        }
    }

    /// Returns the factors of the sweeps if they have separate arrays (f32 and bf16).
    pub fn short_factors(&self) -> Option<&SweepFactors<F::Stored>> {
        F::IS_SHORT.then_some(&self.factors)
    }

    /// Returns the rows J that belong to this thread.
    pub fn rows(&self, thread: TeamThread) -> Range<usize> {
        let first_row = self.own_rows.start;
        match (self.is_shared, thread.index) {
            (true, _) => {
                let rows = thread.share(self.own_rows.len());
                first_row + rows.start..first_row + rows.end
            }
            (false, 0) => self.own_rows.clone(),
            (false, _) => first_row..first_row,
        }
    }

    /// Returns the rows of this thread and adjacent halo rows: up to `halo_rows` rows below if the thread owns the
    /// first row of this rank, and up to `halo_rows` rows above if it owns the last row of this rank.
    pub fn rows_with_halo(&self, thread: TeamThread, halo_rows: usize) -> Range<usize> {
        let rows = self.rows(thread);
        if self.halo.is_none() || rows.is_empty() {
            return rows;
        }
        let start = if rows.start == self.own_rows.start { rows.start.saturating_sub(halo_rows) } else { rows.start };
        start..if rows.end == self.own_rows.end { (rows.end + halo_rows).min(self.layout.cy) } else { rows.end }
    }

    /// Waits at a barrier if several threads work on this grid.
    pub fn barrier(&self, thread: TeamThread) {
        if self.is_shared {
            thread.barrier();
        }
    }

    /// Makes all rows of v readable, with halo and border. All threads call this function between a step that writes
    /// rows of v and a step that reads rows of other threads. v is a vector of this grid. v may also be a vector of the
    /// next grid, if the threads that work on this grid have written v.
    ///
    /// The border consists of `compute_block` columns on either side and the rows -1 and cy. It represents the values
    /// outside the grid, is initialized with zeros, and is never written. Without halo rows, a barrier is therefore
    /// sufficient. Instead of calling this function, fused stages wait for one row of a neighbour thread (see
    /// `sweeps::next_thread` and `sweeps::previous_thread`).
    pub fn refresh<R: Real + Number>(&self, thread: TeamThread, v: &FourColours<R>) {
        // SAFETY: no thread writes a border.
        debug_assert!(self.rows(thread).all(|row| Colour::ALL.iter().all(|&c| unsafe { v[c].border_is_clear(row) })));
        self.barrier(thread);
        if let Some(halo) = &self.halo {
            if thread.index == 0 {
                // SAFETY: the other threads wait at the barrier below.
                unsafe { halo.refresh(v) };
            }
            self.barrier(thread);
        }
    }

    /// Makes v readable for a downward sweep, after the threads of the finer grid `finer_grid` have written it. With
    /// `is_fused`, exchanges only those halo rows that a fused sweep reads.
    pub fn refresh_down<R: Real + Number>(
        &self,
        thread: TeamThread,
        finer_grid: &Self,
        is_fused: bool,
        v: &FourColours<R>,
    ) {
        finer_grid.barrier(thread);
        if let Some(halo) = &self.halo {
            if thread.index == 0 {
                // SAFETY: the other threads wait at the barrier below.
                unsafe { if is_fused { halo.refresh_down(v) } else { halo.refresh(v) } };
            }
            finer_grid.barrier(thread);
        }
    }

    /// Returns two flags: whether another rank owns the row before the rows of this thread, and whether another rank
    /// owns the row after them.
    pub fn borders_other_ranks(&self, thread: TeamThread) -> [bool; 2] {
        let (rows, own_rows) = (self.rows(thread), &self.own_rows);
        let [has_rank_below, has_rank_above] = self.halo.as_ref().map_or([false; 2], |halo| halo.has_neighbour_ranks);
        [has_rank_below && rows.start == own_rows.start, has_rank_above && rows.end == own_rows.end]
            .map(|borders| borders && !rows.is_empty())
    }

    pub fn bytes(&self) -> usize {
        let sweep_bytes = self.factors.axis_couplings.bytes()
            + self.factors.diagonal_couplings.bytes()
            + self.factors.stored_pivot.bytes();
        let if_short = |bytes: usize| if F::IS_SHORT { bytes } else { 0 };
        let factorization_bytes = self.row_sums.bytes()
            + self.red_diagonal.bytes()
            + if_short(self.black_diagonal.bytes() + self.inverse_pivots.bytes());
        sweep_bytes
            + if self.is_first { 0 } else { factorization_bytes }
            + if self.z_is_shared { 0 } else { self.z.bytes() }
            + self.recursion_grid.as_ref().map_or(0, RecursionGrid::bytes)
    }
}

impl<F: Format> RecursionGrid<F> {
    fn new(layout: &Layout) -> Result<Self> {
        let zero_vector = || FourColours::zeroed(layout, true);
        Ok(Self {
            row_sums: FourColours::zeroed(layout, true)?,
            corners: CornerCouplings::zeroed(layout, true)?,
            r: zero_vector()?,
            d: zero_vector()?,
            q: zero_vector()?,
            u: zero_vector()?,
        })
    }

    pub fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.d, &self.q, &self.u];
        self.row_sums.bytes() + self.corners.bytes() + vectors.iter().map(|v| v.bytes()).sum::<usize>()
    }
}

/// Row buffers of one thread, each with a border of zeros on the left and on the right.
pub struct RowBuffers<R> {
    pub values: Vec<R>,
    pub stride: usize,
    pub border_width: usize,
}

/// Number of buffer rows for a fused stage: two rows for each of three colours.
const BUFFER_ROWS: usize = 6;

impl<R: Real + Number> RowBuffers<R> {
    pub fn new(layout: &Layout) -> Result<Self> {
        let stride = layout.stride();
        Ok(Self {
            values: zeroed(BUFFER_ROWS * stride, "rows of a stage")?,
            stride,
            border_width: layout.compute_block,
        })
    }

    /// Returns n values of buffer row k, from column I = shift on.
    pub fn row(&self, k: usize, shift: isize, n: usize) -> &[R] {
        &self.values[(k * self.stride + self.border_width).wrapping_add_signed(shift)..][..n]
    }

    /// Returns n values of buffer row k for writing. Sets the value after the row to zero, because a wider grid may
    /// have used the buffer before.
    pub fn row_mut(&mut self, k: usize, n: usize) -> &mut [R] {
        let row = &mut self.values[k * self.stride + self.border_width..][..n + 1];
        row[n] = R::default();
        &mut row[..n]
    }
}

/// Eliminated colours and remaining colours of the odd level, and of the even level.
const COLOURS_OF_LEVELS: [(&[Colour], &[Colour]); 2] =
    [(&[Colour::R1, Colour::R2], &[Colour::B1, Colour::B2]), (&[Colour::B1], &[Colour::B2])];

impl<F: Format> PackedGrid<F> {
    /// For row J of a colour, returns the couplings between eliminated and remaining nodes of one level, and z at the
    /// neighbours with these couplings. The level is the odd one if `is_odd_level` is set, otherwise the even one.
    ///
    /// # Safety
    /// No thread may write these rows of z meanwhile.
    unsafe fn couplings_and_neighbours(
        &self,
        is_odd_level: bool,
        colour: Colour,
        row: usize,
    ) -> (NeighbourRows<'_, F::Stored>, NeighbourRows<'_, F::Real>) {
        let (factors, z) = (&self.factors, &self.z);
        // SAFETY: by the safety contract of this function.
        unsafe {
            if is_odd_level {
                (factors.axis_couplings.couplings(colour, row), z.axis_neighbours(colour, row))
            } else {
                (factors.diagonal_couplings.couplings(colour, row), z.diagonal_neighbours(colour, row))
            }
        }
    }

    /// Forward substitution for the odd or the even level: y_E = D^-1 r_E and r_K = r_K - A_KE y_E. The vector z
    /// contains r on entry and y on return.
    pub fn substitute_forward(&self, thread: TeamThread, is_odd_level: bool) {
        let (eliminated_colours, remaining_colours) = COLOURS_OF_LEVELS[usize::from(!is_odd_level)];
        for row in self.rows(thread) {
            for &colour in eliminated_colours {
                // SAFETY: the rows belong to this thread, and no other thread reads them in this step.
                unsafe {
                    let (pivot, a) = self.factors.pivots_and_couplings(colour, row);
                    divide_in_place::<F>(self.z[colour].row_mut(row, 0), pivot, a);
                }
            }
        }
        self.refresh(thread, &self.z);
        for row in self.rows(thread) {
            for &colour in remaining_colours {
                // SAFETY: this code reads rows of eliminated colours, which no thread writes now. It writes rows of
                // other colours, which belong to this thread.
                unsafe {
                    let (a, y) = self.couplings_and_neighbours(is_odd_level, colour, row);
                    subtract_product::<F>(self.z[colour].row_mut(row, 0), a, y);
                }
            }
        }
    }

    /// Backward substitution for the odd or the even level: z_E = y_E - D^-1 A_EK z_K.
    pub fn substitute_backward(&self, thread: TeamThread, is_odd_level: bool) {
        for row in self.rows(thread) {
            for &colour in COLOURS_OF_LEVELS[usize::from(!is_odd_level)].0 {
                // SAFETY: this code reads rows of remaining colours, which no thread writes now. It writes rows of
                // eliminated colours, which belong to this thread.
                unsafe {
                    let (a, z) = self.couplings_and_neighbours(is_odd_level, colour, row);
                    subtract_divided_product::<F>(
                        self.z[colour].row_mut(row, 0),
                        self.factors.stored_pivot[colour].row(row, 0),
                        a,
                        z,
                    );
                }
            }
        }
    }

    /// Copies z of the next grid to the kept nodes of this grid.
    pub fn copy_coarse_solution(&self, thread: TeamThread, coarse: &Self) {
        for row in self.rows(thread) {
            if self.layout.rows(Colour::B2).contains(&row) {
                // SAFETY: no thread writes the next grid now; the b2 rows belong to this thread.
                unsafe {
                    load_natural_row(
                        &coarse.layout,
                        row,
                        &coarse.z,
                        &mut self.z.b2.row_mut(row, 0)[..coarse.layout.grid.nx],
                    )
                };
            }
        }
    }
}
