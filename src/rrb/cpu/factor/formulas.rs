//! Formulas of the factorization for one row J (docs/theory/rrb.md, row-sum form; report 16-06, equations 2.3 to 2.6,
//! 2.9, 2.12 and 2.13).

use super::{GridFactorization, SpeculativeInspection};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::error::Result;
use crate::rrb::backend::{Pivot, PivotNode, Setup};
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::conversion::{HalfStencilTarget, natural_rows};
use crate::rrb::cpu::loops_setup::{
    KeptNodeInput, RedLink, compute_coarse_couplings, compute_distant_couplings, compute_exact_pivots, compute_pivots,
    compute_row_sums, compute_schur_centers, compute_schur_row_sums, compute_skew_couplings, lump_row_sums,
    remove_positive, store_exact, store_rounded, subtract_from_row_sums,
};
use crate::rrb::cpu::neighbours::{AxisCouplings, EAST, NORTH, NeighbourRows, SOUTH, WEST};
use crate::rrb::cpu::number::{F64Format, Format};
use crate::rrb::cpu::packed::SCRATCH_GAP;
use crate::rrb::layout::Colour;
use crate::stencil::matrix::{HalfStencil, ring_index};

impl<'a, F: Format> GridFactorization<'a, F> {
    /// Copies row J of A to the arrays by colour. With `speculation`, inspects the natural rows at the same time, and
    /// copies only those that pass the inspection.
    ///
    /// # Safety
    /// The row must belong to this thread, and no thread may use the entries that receive the row.
    pub(super) unsafe fn copy_row_of_a(&self, row: usize, speculation: Option<(&SpeculativeInspection, usize)>) {
        let (matrix, a) = (&self.packed.matrix, self.context.a);
        let corners = a.corners.map(|_| (&matrix.corners.red, &matrix.corners.black));
        let (layout, centers, axis_couplings) = (&self.grid.layout, &matrix.center, &matrix.axis_couplings);
        let target =
            HalfStencilTarget::<F64Format> { layout, center: centers, axis_couplings, storage_unit: 1.0, corners };
        for j in natural_rows(&self.grid.layout, &(row..row + 1)) {
            if speculation.is_some_and(|(speculation, thread)| !speculation.inspect_row_of_a(thread, a, j)) {
                continue;
            }
            let rows = a.entries(j).map(|(_, start, values)| (start, values));
            // SAFETY: by the safety contract of this function.
            unsafe { target.store_row(j, rows) };
        }
    }

    /// Computes row J of M before the first elimination: the row sums and the couplings of A. With compensation,
    /// positive couplings become zero; the row sums still include them (docs/theory/rrb.md, positive couplings).
    /// Straight couplings are rounded to the storage format.
    ///
    /// # Safety
    /// The row must belong to this thread, and rows J - 1 and J of A must be complete.
    pub(super) unsafe fn initialize_row(&self, row: usize, scratch: &mut [f64]) {
        let (matrix, grid, setup) = (&self.packed.matrix, self.grid, self.setup);
        if self.is_exact {
            // If the first elimination is exact, `process_reds` and `compute_skew` compute the row sums instead.
            return;
        }
        let nine_points = self.packed.shape.has_nine_points;
        for colour in Colour::ALL {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let (center, axis_couplings) =
                    (matrix.center[colour].row(row, 0), matrix.axis_couplings.couplings(colour, row));
                let corners = nine_points.then(|| matrix.corners.couplings(colour, row));
                compute_row_sums(
                    self.row_sums[colour].row_mut(row, 0),
                    center,
                    axis_couplings,
                    corners,
                    setup.zero_row_sum,
                );
            }
        }
        let copy_couplings = |source: &ColourArray, target: &mut [f64]| {
            // SAFETY: by the safety contract of this function.
            let source = unsafe { source.row(row, 0) };
            if setup.compensates_positive_couplings {
                remove_positive(target, source)
            } else {
                target.copy_from_slice(source)
            }
        };
        let (a, m_couplings) = (&matrix.axis_couplings, &grid.factors.axis_couplings);
        for (source, target) in a.r1.iter().chain(&a.r2).zip(m_couplings.r1.iter().chain(&m_couplings.r2)) {
            let values = &mut scratch[..grid.layout.cx];
            copy_couplings(source, values);
            // SAFETY: by the safety contract of this function.
            store_rounded::<F>(unsafe { target.row_mut(row, 0) }, values, setup.storage_unit);
        }
        if nine_points {
            let (a, red, black) = (&matrix.corners, &grid.red_diagonal.arrays, &grid.black_diagonal.arrays);
            for (source, target) in a.red.arrays.iter().chain(&a.black.arrays).zip(red.iter().chain(black)) {
                // SAFETY: by the safety contract of this function.
                copy_couplings(source, unsafe { target.row_mut(row, 0) });
            }
        } else {
            for array in &grid.black_diagonal.arrays {
                // A 5-point matrix does not couple black nodes with each other. The couplings of the previous
                // factorization are cleared. SAFETY: by the safety contract of this function.
                unsafe { array.row_mut(row, 0).fill(0.0) };
            }
        }
    }

    /// On a recursion grid, copies row J of the grid's matrix for the inner iterations. The copy contains row sums and
    /// diagonal couplings, rounded to the storage format.
    ///
    /// # Safety
    /// The row must belong to this thread, and no elimination on this grid may have changed it.
    unsafe fn store_recursion_row(&self, row: usize) {
        let grid = self.grid;
        let store_array = |source: &ColourArray, target: &ColourArray<F::Stored>| {
            // SAFETY: by the safety contract of this function.
            unsafe { store_rounded::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.storage_unit) };
        };
        let store_arrays = |sources: &[ColourArray; 4], targets: &[ColourArray<F::Stored>; 4]| {
            sources.iter().zip(targets).for_each(|(source, target)| store_array(source, target));
        };
        if let Some(inner) = &grid.recursion_grid {
            for colour in Colour::ALL {
                store_array(&self.row_sums[colour], &inner.row_sums[colour]);
            }
            store_arrays(&grid.red_diagonal.arrays, &inner.corners.red.arrays);
            store_arrays(&grid.black_diagonal.arrays, &inner.corners.black.arrays);
        }
    }

    /// Lumps and eliminates r1 and r2 of row J (odd level). With `lumping=m2`, also lumps the couplings between black
    /// nodes. On a recursion grid, first stores row J of the matrix for the inner iterations.
    ///
    /// # Safety
    /// The row must belong to this thread. `compute_skew` must not yet have changed rows J - 1 to J + 1 of the matrix.
    pub(super) unsafe fn process_reds(&self, row: usize, scratch: &mut [f64]) {
        let setup = self.setup;
        let grid = self.grid;
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.store_recursion_row(row);
            let result = self.compute_red_pivots(row, scratch);
            self.packed.store_error(result);

            let lumping_factor = (1.0 - setup.kept_fraction()) * setup.one_minus_omega();
            if lumping_factor > 0.0 && !self.is_exact {
                for colour in [Colour::B1, Colour::B2] {
                    let lumped_couplings = grid.black_diagonal.couplings(colour, row);
                    lump_row_sums(self.row_sums[colour].row_mut(row, 0), lumping_factor, lumped_couplings);
                }
            }
        }
    }

    /// Computes the pivots of r1 and r2 in row J.
    ///
    /// # Safety
    /// As for `process_reds`.
    unsafe fn compute_red_pivots(&self, row: usize, scratch: &mut [f64]) -> Result<()> {
        let grid = self.grid;
        let corners = grid.couples_reds.then_some(&grid.red_diagonal);
        // r2 is in grid row 2J and r1 in grid row 2J + 1. r2 is processed first, so that the error names the first
        // rejected node.
        for colour in [Colour::R2, Colour::R1] {
            // SAFETY: by the safety contract of this function. If there are no couplings between red nodes,
            // `lumped_couplings` is a border row of zeros, which no thread writes.
            unsafe {
                if self.is_exact {
                    let (row_sums, inverse_pivots) =
                        (self.row_sums[colour].row_mut(row, 0), self.inverse_pivots[colour].row_mut(row, 0));
                    let matrix = &self.packed.matrix;
                    let (center, a) = (matrix.center[colour].row(row, 0), matrix.axis_couplings.couplings(colour, row));
                    compute_exact_pivots(inverse_pivots, row_sums, center, a, self.setup.zero_row_sum);
                    continue;
                }
                if !grid.layout.rows(colour).contains(&row) {
                    continue;
                }
                let kept_couplings = grid.factors.axis_couplings.couplings(colour, row);
                let lumped_couplings = corners
                    .map_or([self.inverse_pivots[colour].row_below(grid.layout.first_row, 0); 4], |d| {
                        d.couplings(colour, row)
                    });
                self.compute_row_pivots(colour, row, kept_couplings, lumped_couplings, scratch)?;
            }
        }
        Ok(())
    }

    /// Computes the pivots d in row J of an eliminated colour. Stores 1 / d in `inverse_pivots`, (row sum after
    /// lumping) / d in `row_sums`, and for f32 and bf16 also the stored pivots. Returns an error for the first rejected
    /// pivot of the row.
    ///
    /// # Safety
    /// The row must belong to this thread.
    unsafe fn compute_row_pivots(
        &self,
        colour: Colour,
        row: usize,
        kept_couplings: NeighbourRows<F::Stored>,
        lumped_couplings: NeighbourRows,
        scratch: &mut [f64],
    ) -> Result<()> {
        let grid = self.grid;
        let columns = grid.layout.columns(colour);
        // SAFETY: by the safety contract of this function.
        let pivot_row = unsafe {
            PivotRow::<F> {
                row_sums: &mut self.row_sums[colour].row_mut(row, 0)[columns.clone()],
                inverse_pivots: &mut self.inverse_pivots[colour].row_mut(row, 0)[columns.clone()],
                stored_pivots: grid.short_factors().map_or(&mut [][..], |short_factors| {
                    &mut short_factors.stored_pivot[colour].row_mut(row, 0)[columns.clone()]
                }),
            }
        };
        let kept_couplings = kept_couplings.map(|a| &a[columns.clone()]);
        let lumped_couplings = lumped_couplings.map(|a| &a[columns.clone()]);
        pivot_row.compute(kept_couplings, lumped_couplings, scratch, self.setup, |k| {
            let level = 2 * self.q + 1 + usize::from(colour == Colour::B1);
            let (i, j) = grid.layout.node(colour, columns.start + k, row);
            self.context.node(level, grid.embedding.fine(i, j))
        })
    }

    /// Computes row J of the skew stencil, the matrix on the black nodes after the odd level. If CG runs on S1, also
    /// computes row J of S1.
    ///
    /// # Safety
    /// The row must belong to this thread, and `process_reds` must be complete for rows J - 1 to J + 1.
    pub(super) unsafe fn compute_skew(&self, row: usize, scratch: &mut [f64]) {
        let (grid, axis_couplings, storage_unit) =
            (self.grid, &self.grid.factors.axis_couplings, self.setup.storage_unit);
        // SAFETY: by the safety contract of this function.
        unsafe {
            if self.is_exact {
                self.compute_schur(row, scratch);
                return self.compute_schur_diagonal(row, scratch);
            }
            for colour in [Colour::B1, Colour::B2] {
                let (a, t) = (axis_couplings.couplings(colour, row), self.row_sums.axis_neighbours(colour, row));
                subtract_from_row_sums::<F>(self.row_sums[colour].row_mut(row, 0), a, t, storage_unit);
            }
            let [southwest, southeast, northwest, northeast] =
                [0, 1, 2, 3].map(|k| grid.black_diagonal.arrays[k].row_mut(row, 0));
            let (kept_fraction, links) = (self.setup.kept_fraction(), self.red_links(axis_couplings, row));
            compute_skew_couplings::<F>(
                southwest,
                southeast,
                northwest,
                northeast,
                false,
                kept_fraction,
                links,
                storage_unit,
            );
            if let Some(short_factors) = grid.short_factors() {
                for (source, target) in grid.black_diagonal.arrays.iter().zip(&short_factors.diagonal_couplings.arrays)
                {
                    store_rounded::<F>(target.row_mut(row, 0), source.row(row, 0), storage_unit);
                }
            }
        }
    }

    /// Returns the input for the elimination of the red neighbours of b1 in row J, in the order west, east, south,
    /// north (see [`RedLink`]).
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn red_links<'s, T: Number>(
        &'s self,
        axis_couplings: &'s AxisCouplings<T>,
        row: usize,
    ) -> [RedLink<'s, T>; 4] {
        let ((r1, r2), (h1, h2)) =
            ((&axis_couplings.r1, &axis_couplings.r2), (&self.inverse_pivots.r1, &self.inverse_pivots.r2));
        // SAFETY: by the safety contract of this function.
        unsafe {
            [
                (h2.row(row, -1), [EAST, SOUTH, NORTH].map(|direction| r2[direction].row(row, -1))),
                (h2.row(row, 0), [WEST, SOUTH, NORTH].map(|direction| r2[direction].row(row, 0))),
                (h1.row_below(row, 0), [NORTH, WEST, EAST].map(|direction| r1[direction].row_below(row, 0))),
                (h1.row(row, 0), [SOUTH, WEST, EAST].map(|direction| r1[direction].row(row, 0))),
            ]
        }
    }

    /// Computes row J of S1 = D_b - A_br D_r^-1 A_rb without its diagonal couplings, and the row sums of S1.
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn compute_schur(&self, row: usize, scratch: &mut [f64]) {
        let (grid, packed, zero_fraction) = (self.grid, self.packed, self.setup.zero_row_sum);
        let mut rows = scratch_rows(scratch, grid.layout.cx);
        let mut next_row = || rows.next().expect("room for three rows");
        let (center_row, east_row, north_row) = (next_row(), next_row(), next_row());
        let distant_couplings = [&packed.schur.b1_distant, &packed.schur.b2_distant];
        for (black_index, colour) in [Colour::B1, Colour::B2].into_iter().enumerate() {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let (out, east, north) = match &self.s1_in_place {
                    Some(s1) => {
                        let distant_couplings = [&s1.b1_distant, &s1.b2_distant][black_index];
                        (
                            s1.center[black_index].row_mut(row, 0),
                            distant_couplings.east.row_mut(row, 0),
                            distant_couplings.north.row_mut(row, 0),
                        )
                    }
                    None => (&mut *center_row, &mut *east_row, &mut *north_row),
                };
                let (a, t) =
                    (packed.matrix.axis_couplings.couplings(colour, row), self.row_sums.axis_neighbours(colour, row));
                let (coupling_pairs, h) = (
                    packed.matrix.axis_couplings.coupling_pairs(colour, row),
                    self.inverse_pivots.axis_neighbours(colour, row),
                );
                let (row_sums, center) =
                    (self.row_sums[colour].row_mut(row, 0), packed.matrix.center[colour].row(row, 0));
                compute_distant_couplings::<F64Format>(
                    east,
                    coupling_pairs[EAST][0],
                    h[EAST],
                    coupling_pairs[EAST][1],
                    1.0,
                );
                compute_distant_couplings::<F64Format>(
                    north,
                    coupling_pairs[NORTH][0],
                    h[NORTH],
                    coupling_pairs[NORTH][1],
                    1.0,
                );
                if self.s1_in_place.is_some() {
                    compute_schur_centers(row_sums, out, center, a, t, h, zero_fraction);
                    continue;
                }
                // Difference form: the row sum replaces the center.
                compute_schur_row_sums(row_sums, center, a, t, zero_fraction);
                self.store_schur_row(&packed.schur.center[black_index], row, row_sums);
                self.store_schur_row(&distant_couplings[black_index].east, row, east);
                self.store_schur_row(&distant_couplings[black_index].north, row, north);
            }
        }
    }

    /// Stores row J of an array of S1, divided by `storage_unit`, in the number type of CG.
    ///
    /// # Safety
    /// The row must belong to this thread.
    unsafe fn store_schur_row(&self, array: &ColourArray<F::Vector>, row: usize, values: &[f64]) {
        // SAFETY: by the safety contract of this function.
        store_exact::<F::CgFormat>(unsafe { array.row_mut(row, 0) }, values, self.packed.storage_unit);
    }

    /// Computes the couplings at distance two of row J of a black colour. Returns one row of `out` for each entry of
    /// `directions`.
    ///
    /// # Safety
    /// `process_reds` must be complete for rows J - 1 to J + 1.
    unsafe fn compute_distant<'s, const N: usize>(
        &self,
        colour: Colour,
        row: usize,
        directions: [usize; N],
        out: &'s mut [f64],
    ) -> [&'s [f64]; N] {
        let (a, m_couplings) = (&self.packed.matrix.axis_couplings, &self.grid.factors.axis_couplings);
        // SAFETY: by the safety contract of this function.
        unsafe {
            let h = self.inverse_pivots.axis_neighbours(colour, row);
            if self.is_exact {
                compute_distant_rows::<F64Format, N>(a.coupling_pairs(colour, row), h, 1.0, directions, out)
            } else {
                compute_distant_rows::<F, N>(
                    m_couplings.coupling_pairs(colour, row),
                    h,
                    self.setup.storage_unit,
                    directions,
                    out,
                )
            }
        }
    }

    /// Computes the diagonal couplings in row J of S1, which are also those of the skew stencil.
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn compute_schur_diagonal(&self, row: usize, scratch: &mut [f64]) {
        let kept_fraction = self.setup.kept_fraction();
        // SAFETY: by the safety contract of this function.
        unsafe {
            let mut rows = scratch_rows(scratch, self.grid.layout.cx);
            let rows = [0, 1, 2, 3].map(|k| match &self.s1_in_place {
                Some(s1) => s1.diagonal_couplings.arrays[k].row_mut(row, 0),
                None => rows.next().expect("room for four rows"),
            });
            // A 5-point matrix does not couple black nodes, so the couplings begin with zero.
            let [southwest, southeast, northwest, northeast] = rows;
            let links = self.red_links(&self.packed.matrix.axis_couplings, row);
            compute_skew_couplings::<F64Format>(
                southwest,
                southeast,
                northwest,
                northeast,
                true,
                kept_fraction,
                links,
                1.0,
            );
            for (k, values) in [southwest, southeast, northwest, northeast].into_iter().enumerate() {
                if let Some(short_factors) = self.grid.short_factors() {
                    store_rounded::<F>(
                        short_factors.diagonal_couplings.arrays[k].row_mut(row, 0),
                        values,
                        self.setup.storage_unit,
                    );
                }
                if self.s1_in_place.is_none() {
                    self.store_schur_row(&self.packed.schur.diagonal_couplings.arrays[k], row, values);
                }
            }
        }
    }

    /// Lumps and eliminates b1 of row J (even level).
    ///
    /// # Safety
    /// The row must belong to this thread. `compute_skew` must be complete for row J, and `process_reds` for rows J - 1
    /// and J.
    pub(super) unsafe fn process_b1(&self, row: usize, scratch: &mut [f64]) {
        let grid = self.grid;
        if grid.layout.rows(Colour::B1).contains(&row) {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let kept_couplings = grid.factors.diagonal_couplings.couplings(Colour::B1, row);
                let (distant_scratch, scratch) = scratch.split_at_mut(4 * (grid.layout.cx + SCRATCH_GAP));
                let lumped_couplings = match self.s1_in_place.as_ref().map(|s1| &s1.b1_distant) {
                    Some(s1_distant) => {
                        let [south] = self.compute_distant(Colour::B1, row, [SOUTH], distant_scratch);
                        [s1_distant.east.row(row, -1), s1_distant.east.row(row, 0), south, s1_distant.north.row(row, 0)]
                    }
                    None => self.compute_distant(Colour::B1, row, [WEST, EAST, SOUTH, NORTH], distant_scratch),
                };
                self.packed.store_error(self.compute_row_pivots(
                    Colour::B1,
                    row,
                    kept_couplings,
                    lumped_couplings,
                    scratch,
                ));
            }
        }
    }

    /// Computes row J of the half stencil of the next grid: row sum, east, north, northeast and northwest, with nx
    /// values each.
    ///
    /// # Safety
    /// Both levels must be complete for rows J and J + 1.
    pub(super) unsafe fn compute_coarse_row<'s>(&self, row: usize, out: &'s mut [f64]) -> [&'s [f64]; 5] {
        let (grid, setup) = (self.grid, self.setup);
        let n = grid.layout.grid.coarse().nx;
        let kept_fraction = setup.kept_fraction();
        let (diagonal, h) = (&grid.factors.diagonal_couplings, &self.inverse_pivots.b1);
        let (distant_scratch, out) = out.split_at_mut(4 * (grid.layout.cx + SCRATCH_GAP));
        let mut rows = scratch_rows(out, n);
        let mut next_row = || rows.next().expect("room for five rows");
        let (row_sums, east, north, northeast, northwest) =
            (next_row(), next_row(), next_row(), next_row(), next_row());
        // SAFETY: by the safety contract of this function.
        unsafe {
            let [southwest, southeast, northwest_couplings, northeast_couplings] = &diagonal.arrays;
            row_sums.copy_from_slice(&self.row_sums.b2.row(row, 0)[..n]);
            let lumping_factor = (1.0 - kept_fraction) * setup.one_minus_omega();
            if lumping_factor > 0.0 {
                lump_row_sums(
                    row_sums,
                    lumping_factor,
                    self.compute_distant(Colour::B2, row, [WEST, EAST, SOUTH, NORTH], distant_scratch),
                );
            }
            let t = &self.row_sums.b1;
            let input = KeptNodeInput {
                row_sum_over_pivot: [t.row_with_border(row), t.row_with_border(row + 1)],
                inverse_pivots: [h.row_with_border(row), h.row_with_border(row + 1)],
                couplings_below: [northwest_couplings, northeast_couplings].map(|a| a.row_with_border(row)),
                couplings_above: [southwest, southeast, northwest_couplings, northeast_couplings]
                    .map(|a| a.row_with_border(row + 1)),
                distant_couplings: match self.s1_in_place.as_ref().map(|s1| &s1.b2_distant) {
                    Some(s1_distant) => [s1_distant.east.row(row, 0), s1_distant.north.row(row, 0)],
                    None => self.compute_distant(Colour::B2, row, [EAST, NORTH], distant_scratch),
                },
            };
            compute_coarse_couplings::<F>(
                row_sums,
                east,
                north,
                northeast,
                northwest,
                input,
                kept_fraction,
                setup.storage_unit,
            );
        }
        [row_sums, east, north, northeast, northwest]
    }

    /// Computes row J of the next grid's matrix and writes it to the arrays by colour of the next grid.
    ///
    /// # Safety
    /// As for `compute_coarse_row`; no thread may use the entries that receive the row.
    pub(super) unsafe fn store_coarse_row(&self, row: usize, scratch: &mut [f64]) {
        let Some(coarse) = self.packed.grids.get(self.q + 1) else { return };
        if !self.grid.layout.rows(Colour::B2).contains(&row) {
            return;
        }
        // SAFETY: by the safety contract of this function.
        unsafe {
            coarse
                .matrix_target(self.setup.storage_unit)
                .store_row(row, self.compute_coarse_row(row, scratch).map(|values| (0, values)))
        };
    }

    /// Computes the next grid's matrix in natural storage. Both levels must be complete.
    pub(super) fn form_natural_matrix(&self, coarse: &mut HalfStencil, scratch: &mut [f64]) {
        for row in self.grid.layout.rows(Colour::B2) {
            // SAFETY: this thread has passed the last barrier of `apply_formulas`, and no thread writes this grid
            // afterwards.
            let rows = unsafe { self.compute_coarse_row(row, scratch) };
            let row_start = ring_index(coarse.nx, 0, row);
            let targets = [
                &mut coarse.diagonal,
                &mut coarse.east,
                &mut coarse.north,
                &mut coarse.northeast,
                &mut coarse.northwest,
            ];
            for (target, values) in targets.into_iter().zip(rows) {
                target[row_start..][..values.len()].copy_from_slice(values);
            }
        }
    }
}

/// Divides the scratch space into rows of `n` values.
fn scratch_rows(scratch: &mut [f64], n: usize) -> impl Iterator<Item = &mut [f64]> {
    scratch.chunks_exact_mut(n + SCRATCH_GAP).map(move |row| &mut row[..n])
}

/// For each of the `directions`, computes -(a h) b in a separate row of `out`. The couplings a and b are those of
/// `coupling_pairs`, and h is 1 / d.
fn compute_distant_rows<'s, F: Format, const N: usize>(
    coupling_pairs: [[&[F::Stored]; 2]; 4],
    h: NeighbourRows,
    storage_unit: f64,
    directions: [usize; N],
    out: &'s mut [f64],
) -> [&'s [f64]; N] {
    let mut rows = scratch_rows(out, h[0].len());
    directions.map(|k| {
        let row = rows.next().expect("room for as many rows");
        compute_distant_couplings::<F>(row, coupling_pairs[k][0], h[k], coupling_pairs[k][1], storage_unit);
        &*row
    })
}

/// Arrays for the pivots of a row. On entry, `row_sums` contains the row sums; on return, it contains (row sum after
/// lumping) / d. `inverse_pivots` receives 1 / d. `stored_pivots` receives the stored pivots of f32 and bf16; it is
/// empty in f64.
struct PivotRow<'a, F: Format> {
    row_sums: &'a mut [f64],
    inverse_pivots: &'a mut [f64],
    stored_pivots: &'a mut [F::Stored],
}

impl<F: Format> PivotRow<'_, F> {
    /// Computes all pivots in one vectorized loop. If a pivot needs further checks, computes the pivots one by one
    /// instead, and returns an error for the first rejected pivot. `node` returns the location of a node.
    fn compute(
        self,
        kept_couplings: NeighbourRows<F::Stored>,
        lumped_couplings: NeighbourRows,
        scratch: &mut [f64],
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        let row_sum_over_pivot = &mut scratch[..self.inverse_pivots.len()];
        let (one_minus_omega, storage_unit) = (setup.one_minus_omega(), setup.storage_unit);
        if compute_pivots::<F>(
            self.inverse_pivots,
            row_sum_over_pivot,
            self.stored_pivots,
            self.row_sums,
            kept_couplings,
            lumped_couplings,
            one_minus_omega,
            storage_unit,
        ) {
            self.row_sums.copy_from_slice(row_sum_over_pivot);
            return Ok(());
        }
        self.compute_one_by_one(kept_couplings, lumped_couplings, setup, node)
    }

    /// Computes the pivots one by one, with all checks.
    fn compute_one_by_one(
        self,
        kept_couplings: NeighbourRows<F::Stored>,
        lumped_couplings: NeighbourRows,
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        for i in 0..self.inverse_pivots.len() {
            let kept_couplings = kept_couplings.map(|a| F::read(a[i]).to_f64() * setup.storage_unit);
            let lumped_couplings =
                (lumped_couplings[0][i] + lumped_couplings[1][i]) + (lumped_couplings[2][i] + lumped_couplings[3][i]);
            let center = Pivot::center(self.row_sums[i], kept_couplings, lumped_couplings);
            let pivot = Pivot::new(self.row_sums[i], kept_couplings, lumped_couplings, setup.one_minus_omega());
            let pivot = pivot.accept_rounded(center, kept_couplings == [0.0; 4], setup, || node(i))?;
            self.inverse_pivots[i] = 1.0 / pivot.d;
            self.row_sums[i] = pivot.row_sum * self.inverse_pivots[i];
            if let Some(stored_pivot) = self.stored_pivots.get_mut(i) {
                *stored_pivot = F::write(pivot.stored_row_sum / setup.storage_unit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
