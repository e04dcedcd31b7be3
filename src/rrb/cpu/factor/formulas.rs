//! Formulas of the factorization for one row J (docs/theory/rrb.md, row-sum form; report 16-06, equations 2.3 to 2.6,
//! 2.9, 2.12 and 2.13).

use super::{Levels, SpeculativeInspection};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::error::Result;
use crate::rrb::backend::{Pivot, PivotNode, Setup};
use crate::rrb::cpu::colour_array::ColourArray;
use crate::rrb::cpu::conversion::{Target, natural_rows};
use crate::rrb::cpu::loops_setup::{
    KeptNodeInput, Link, coarse_couplings, distant_couplings, exact_pivots, lump_row_sums, pivots, row_sums,
    schur_centers, schur_row_sums, skew_couplings, store, store_exact, subtract_couplings, without_positive,
};
use crate::rrb::cpu::neighbours::{EAST, NORTH, Rows, SOUTH, Straight, WEST};
use crate::rrb::cpu::number::{Double, Format};
use crate::rrb::cpu::packed::GAP;
use crate::rrb::layout::Colour;
use crate::stencil::matrix::{HalfStencil, ring_index};

impl<'a, F: Format> Levels<'a, F> {
    /// Copies row J of A to the arrays by colour. With `speculation`, inspects the natural rows at the same time, and
    /// copies only those that pass the inspection.
    ///
    /// # Safety
    /// The row must belong to this thread, and no thread may use the entries that receive the row.
    pub(super) unsafe fn spread(&self, row: usize, speculation: Option<(&SpeculativeInspection, usize)>) {
        let (m, a) = (&self.k.matrix, self.context.a);
        let corners = a.corners.map(|_| (&m.corners.red, &m.corners.black));
        let (layout, diagonal, straight) = (&self.grid.layout, &m.center, &m.straight);
        let target = Target::<Double> { layout, center: diagonal, straight, unit: 1.0, corners };
        for j in natural_rows(&self.grid.layout, &(row..row + 1)) {
            if speculation.is_some_and(|(speculation, thread)| !speculation.inspect_row_of_a(thread, a, j)) {
                continue;
            }
            let rows = a.entries(j).map(|(_, start, values)| (start, values));
            // SAFETY: by the safety contract of this function.
            unsafe { target.spread(j, rows) };
        }
    }

    /// Computes row J of M before the levels: the row sums of A and the couplings. With compensation, positive
    /// couplings become zero; the row sums still include them (docs/theory/rrb.md, positive couplings). Straight
    /// couplings are rounded to the storage format.
    ///
    /// # Safety
    /// The row must belong to this thread, and rows J - 1 and J of A must be complete.
    pub(super) unsafe fn initialize(&self, row: usize, scratch: &mut [f64]) {
        let (m, grid, setup) = (&self.k.matrix, self.grid, self.setup);
        if self.exact {
            // If the first elimination is exact, `process_reds` and `compute_skew` compute the row sums instead.
            return;
        }
        let nine_points = self.k.shape.nine_points;
        for colour in Colour::ALL {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let (center, straight) = (m.center[colour].row(row, 0), m.straight.couplings(colour, row));
                let corners = nine_points.then(|| m.corners.couplings(colour, row));
                row_sums(self.row_sums[colour].row_mut(row, 0), center, straight, corners, setup.zero_row_sum);
            }
        }
        let couplings = |source: &ColourArray, target: &mut [f64]| {
            // SAFETY: by the safety contract of this function.
            let source = unsafe { source.row(row, 0) };
            if setup.compensate { without_positive(target, source) } else { target.copy_from_slice(source) }
        };
        let (a, of_m) = (&m.straight, &grid.sweep.straight);
        for (source, target) in a.r1.iter().chain(&a.r2).zip(of_m.r1.iter().chain(&of_m.r2)) {
            let values = &mut scratch[..grid.layout.cx];
            couplings(source, values);
            // SAFETY: by the safety contract of this function.
            store::<F>(unsafe { target.row_mut(row, 0) }, values, setup.unit);
        }
        if nine_points {
            let (a, red, black) = (&m.corners, &grid.red_diagonal.of, &grid.black_diagonal.of);
            for (source, target) in a.red.of.iter().chain(&a.black.of).zip(red.iter().chain(black)) {
                // SAFETY: by the safety contract of this function.
                couplings(source, unsafe { target.row_mut(row, 0) });
            }
        } else {
            for area in &grid.black_diagonal.of {
                // A 5-point matrix couples no black nodes, so the values of the previous factorization are cleared.
                // SAFETY: by the safety contract of this function.
                unsafe { area.row_mut(row, 0).fill(0.0) };
            }
        }
    }

    /// Stores row J of the matrix of a recursion grid before the levels change it: row sums and diagonal couplings,
    /// rounded to the storage format.
    ///
    /// # Safety
    /// The row must belong to this thread and must not have been changed by the levels.
    unsafe fn store_unchanged(&self, row: usize) {
        let grid = self.grid;
        let store = |source: &ColourArray, target: &ColourArray<F::Stored>| {
            // SAFETY: by the safety contract of this function.
            unsafe { store::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.unit) };
        };
        let store_all = |sources: &[ColourArray; 4], targets: &[ColourArray<F::Stored>; 4]| {
            sources.iter().zip(targets).for_each(|(source, target)| store(source, target));
        };
        if let Some(inner) = &grid.recursion {
            for colour in Colour::ALL {
                store(&self.row_sums[colour], &inner.row_sums[colour]);
            }
            store_all(&grid.red_diagonal.of, &inner.corners.red.of);
            store_all(&grid.black_diagonal.of, &inner.corners.black.of);
        }
    }

    /// Lumps and eliminates r1 and r2 of row J (odd level). With M2, also lumps the couplings between black nodes. On a
    /// recursion grid, first stores the matrix of this row.
    ///
    /// # Safety
    /// The row must belong to this thread. The levels must not have changed rows J - 1 to J + 1 of the matrix.
    pub(super) unsafe fn process_reds(&self, row: usize, scratch: &mut [f64]) {
        let setup = self.setup;
        let grid = self.grid;
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.store_unchanged(row);
            let eliminated = self.eliminate_reds(row, scratch);
            self.k.store_error(eliminated);

            let loss = (1.0 - setup.kept_fraction()) * setup.one_minus_omega();
            if loss > 0.0 && !self.exact {
                for colour in [Colour::B1, Colour::B2] {
                    let lumped = grid.black_diagonal.couplings(colour, row);
                    lump_row_sums(self.row_sums[colour].row_mut(row, 0), loss, lumped);
                }
            }
        }
    }

    /// Computes the pivots of r1 and r2 in row J.
    ///
    /// # Safety
    /// As for `process_reds`.
    unsafe fn eliminate_reds(&self, row: usize, scratch: &mut [f64]) -> Result<()> {
        let grid = self.grid;
        let corners = grid.corners.then_some(&grid.red_diagonal);
        // Row 2J of the grid precedes row 2J + 1, so that the error names the first rejected node.
        for colour in [Colour::R2, Colour::R1] {
            // SAFETY: by the safety contract of this function. If there are no couplings between red nodes, `lumped` is
            // a border row of zeros, which no thread writes.
            unsafe {
                if self.exact {
                    let (row_sums, inverse) =
                        (self.row_sums[colour].row_mut(row, 0), self.inverse[colour].row_mut(row, 0));
                    let m = &self.k.matrix;
                    let (center, a) = (m.center[colour].row(row, 0), m.straight.couplings(colour, row));
                    exact_pivots(inverse, row_sums, center, a, self.setup.zero_row_sum);
                    continue;
                }
                if !grid.layout.rows(colour).contains(&row) {
                    continue;
                }
                let kept = grid.sweep.straight.couplings(colour, row);
                let lumped =
                    corners.map_or([self.inverse[colour].below(grid.layout.from, 0); 4], |d| d.couplings(colour, row));
                self.eliminate(colour, row, kept, lumped, scratch)?;
            }
        }
        Ok(())
    }

    /// Computes the pivots d in row J of an eliminated colour. Stores 1 / d in `inverse`, (row sum after lumping) / d
    /// in `row_sums`, and for f32 and bf16 also the stored pivots. Returns an error for the first rejected pivot of the
    /// row.
    ///
    /// # Safety
    /// The row must belong to this thread.
    unsafe fn eliminate(
        &self,
        colour: Colour,
        row: usize,
        kept: Rows<F::Stored>,
        lumped: Rows,
        scratch: &mut [f64],
    ) -> Result<()> {
        let grid = self.grid;
        let columns = grid.layout.columns(colour);
        // SAFETY: by the safety contract of this function.
        let out = unsafe {
            PivotRow::<F> {
                row_sums: &mut self.row_sums[colour].row_mut(row, 0)[columns.clone()],
                inverse: &mut self.inverse[colour].row_mut(row, 0)[columns.clone()],
                stored: grid
                    .short()
                    .map_or(&mut [][..], |short| &mut short.stored_pivot[colour].row_mut(row, 0)[columns.clone()]),
            }
        };
        let kept = kept.map(|a| &a[columns.clone()]);
        let lumped = lumped.map(|a| &a[columns.clone()]);
        out.form(kept, lumped, scratch, self.setup, |k| {
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
        let (grid, straight, unit) = (self.grid, &self.grid.sweep.straight, self.setup.unit);
        // SAFETY: by the safety contract of this function.
        unsafe {
            if self.exact {
                self.compute_schur(row, scratch);
                return self.schur_diagonal(row, scratch);
            }
            for colour in [Colour::B1, Colour::B2] {
                let (a, t) = (straight.couplings(colour, row), self.row_sums.straight(colour, row));
                subtract_couplings::<F>(self.row_sums[colour].row_mut(row, 0), a, t, unit);
            }
            let [southwest, southeast, northwest, northeast] =
                [0, 1, 2, 3].map(|k| grid.black_diagonal.of[k].row_mut(row, 0));
            let (kept_fraction, links) = (self.setup.kept_fraction(), self.links(straight, row));
            skew_couplings::<F>(southwest, southeast, northwest, northeast, false, kept_fraction, links, unit);
            if let Some(short) = grid.short() {
                for (source, target) in grid.black_diagonal.of.iter().zip(&short.diagonal.of) {
                    store::<F>(target.row_mut(row, 0), source.row(row, 0), unit);
                }
            }
        }
    }

    /// Returns the data by which b1 in row J is coupled through its red neighbours to the west, east, south and north
    /// (see [`Link`]).
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn links<'s, T: Number>(&'s self, straight: &'s Straight<T>, row: usize) -> [Link<'s, T>; 4] {
        let ((r1, r2), (h1, h2)) = ((&straight.r1, &straight.r2), (&self.inverse.r1, &self.inverse.r2));
        // SAFETY: by the safety contract of this function.
        unsafe {
            [
                (h2.row(row, -1), [EAST, SOUTH, NORTH].map(|to| r2[to].row(row, -1))),
                (h2.row(row, 0), [WEST, SOUTH, NORTH].map(|to| r2[to].row(row, 0))),
                (h1.below(row, 0), [NORTH, WEST, EAST].map(|to| r1[to].below(row, 0))),
                (h1.row(row, 0), [SOUTH, WEST, EAST].map(|to| r1[to].row(row, 0))),
            ]
        }
    }

    /// Computes row J of S1 = D_b - A_br D_r^-1 A_rb without its diagonal couplings, and the row sums of S1.
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn compute_schur(&self, row: usize, scratch: &mut [f64]) {
        let (grid, k, zero) = (self.grid, self.k, self.setup.zero_row_sum);
        let mut rows = scratch_rows(scratch, grid.layout.cx);
        let mut next = || rows.next().expect("room for three rows");
        let (first, second, third) = (next(), next(), next());
        let distant = [&k.schur.b1_distant, &k.schur.b2_distant];
        for (of, colour) in [Colour::B1, Colour::B2].into_iter().enumerate() {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let (out, east, north) = match &self.in_place {
                    Some(s1) => {
                        let distant = [&s1.b1_distant, &s1.b2_distant][of];
                        (s1.center[of].row_mut(row, 0), distant.east.row_mut(row, 0), distant.north.row_mut(row, 0))
                    }
                    None => (&mut *first, &mut *second, &mut *third),
                };
                let (a, t) = (k.matrix.straight.couplings(colour, row), self.row_sums.straight(colour, row));
                let (along, h) = (k.matrix.straight.along(colour, row), self.inverse.straight(colour, row));
                let (sums, center) = (self.row_sums[colour].row_mut(row, 0), k.matrix.center[colour].row(row, 0));
                distant_couplings::<Double>(east, along[EAST][0], h[EAST], along[EAST][1], 1.0);
                distant_couplings::<Double>(north, along[NORTH][0], h[NORTH], along[NORTH][1], 1.0);
                if self.in_place.is_some() {
                    schur_centers(sums, out, center, a, t, h, zero);
                    continue;
                }
                // Difference form: the row sum replaces the center.
                schur_row_sums(sums, center, a, t, zero);
                self.store_schur(&k.schur.center[of], row, sums);
                self.store_schur(&distant[of].east, row, east);
                self.store_schur(&distant[of].north, row, north);
            }
        }
    }

    /// Stores row J of an array of S1 in the number type of CG, divided by the unit.
    ///
    /// # Safety
    /// The row must belong to this thread.
    unsafe fn store_schur(&self, area: &ColourArray<F::Vector>, row: usize, values: &[f64]) {
        // SAFETY: by the safety contract of this function.
        store_exact::<F::CgFormat>(unsafe { area.row_mut(row, 0) }, values, self.k.unit);
    }

    /// Computes the couplings at distance two of row J of a black colour. Returns one row of `out` for each entry of
    /// `directions`.
    ///
    /// # Safety
    /// `process_reds` must be complete for rows J - 1 to J + 1.
    unsafe fn distant<'s, const N: usize>(
        &self,
        colour: Colour,
        row: usize,
        directions: [usize; N],
        out: &'s mut [f64],
    ) -> [&'s [f64]; N] {
        let (a, m) = (&self.k.matrix.straight, &self.grid.sweep.straight);
        // SAFETY: by the safety contract of this function.
        unsafe {
            let h = self.inverse.straight(colour, row);
            if self.exact {
                distant_rows::<Double, N>(a.along(colour, row), h, 1.0, directions, out)
            } else {
                distant_rows::<F, N>(m.along(colour, row), h, self.setup.unit, directions, out)
            }
        }
    }

    /// Computes the diagonal couplings in row J of S1, which are also those of the skew stencil.
    ///
    /// # Safety
    /// As for `compute_skew`.
    unsafe fn schur_diagonal(&self, row: usize, scratch: &mut [f64]) {
        let kept_fraction = self.setup.kept_fraction();
        // SAFETY: by the safety contract of this function.
        unsafe {
            let mut rows = scratch_rows(scratch, self.grid.layout.cx);
            let rows = [0, 1, 2, 3].map(|k| match &self.in_place {
                Some(s1) => s1.diagonal.of[k].row_mut(row, 0),
                None => rows.next().expect("room for four rows"),
            });
            // A 5-point matrix does not couple black nodes, so the couplings begin with zero.
            let [southwest, southeast, northwest, northeast] = rows;
            let links = self.links(&self.k.matrix.straight, row);
            skew_couplings::<Double>(southwest, southeast, northwest, northeast, true, kept_fraction, links, 1.0);
            for (k, values) in [southwest, southeast, northwest, northeast].into_iter().enumerate() {
                if let Some(short) = self.grid.short() {
                    store::<F>(short.diagonal.of[k].row_mut(row, 0), values, self.setup.unit);
                }
                if self.in_place.is_none() {
                    self.store_schur(&self.k.schur.diagonal.of[k], row, values);
                }
            }
        }
    }

    /// Lumps and eliminates b1 of row J (even level).
    ///
    /// # Safety
    /// The row must belong to this thread. `compute_skew` must be complete for row J, and `process_reds` for rows J - 1
    /// and J.
    pub(super) unsafe fn process_dropped(&self, row: usize, scratch: &mut [f64]) {
        let grid = self.grid;
        if grid.layout.rows(Colour::B1).contains(&row) {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let kept = grid.sweep.diagonal.couplings(Colour::B1, row);
                let (far, scratch) = scratch.split_at_mut(4 * (grid.layout.cx + GAP));
                let lumped = match self.in_place.as_ref().map(|s1| &s1.b1_distant) {
                    Some(of) => {
                        let [south] = self.distant(Colour::B1, row, [SOUTH], far);
                        [of.east.row(row, -1), of.east.row(row, 0), south, of.north.row(row, 0)]
                    }
                    None => self.distant(Colour::B1, row, [WEST, EAST, SOUTH, NORTH], far),
                };
                self.k.store_error(self.eliminate(Colour::B1, row, kept, lumped, scratch));
            }
        }
    }

    /// Computes row J of the half stencil of the next grid: row sum, east, north, northeast and northwest, with nx
    /// values each.
    ///
    /// # Safety
    /// Both levels must be complete for rows J and J + 1.
    pub(super) unsafe fn coarse_row<'s>(&self, row: usize, out: &'s mut [f64]) -> [&'s [f64]; 5] {
        let (grid, setup) = (self.grid, self.setup);
        let n = grid.layout.grid.coarse().nx;
        let kept_fraction = setup.kept_fraction();
        let (d, h) = (&grid.sweep.diagonal, &self.inverse.b1);
        let (far, out) = out.split_at_mut(4 * (grid.layout.cx + GAP));
        let mut parts = scratch_rows(out, n);
        let mut part = || parts.next().expect("room for five rows");
        let (row_sums, east, north, northeast, northwest) = (part(), part(), part(), part(), part());
        // SAFETY: by the safety contract of this function.
        unsafe {
            let [southwest, southeast, northwest_of, northeast_of] = &d.of;
            row_sums.copy_from_slice(&self.row_sums.b2.row(row, 0)[..n]);
            let loss = (1.0 - kept_fraction) * setup.one_minus_omega();
            if loss > 0.0 {
                lump_row_sums(row_sums, loss, self.distant(Colour::B2, row, [WEST, EAST, SOUTH, NORTH], far));
            }
            let t = &self.row_sums.b1;
            let of = KeptNodeInput {
                row_sum_over_pivot: [t.row_with_border(row), t.row_with_border(row + 1)],
                inverse: [h.row_with_border(row), h.row_with_border(row + 1)],
                below: [northwest_of, northeast_of].map(|a| a.row_with_border(row)),
                above: [southwest, southeast, northwest_of, northeast_of].map(|a| a.row_with_border(row + 1)),
                distant: match self.in_place.as_ref().map(|s1| &s1.b2_distant) {
                    Some(of) => [of.east.row(row, 0), of.north.row(row, 0)],
                    None => self.distant(Colour::B2, row, [EAST, NORTH], far),
                },
            };
            coarse_couplings::<F>(row_sums, east, north, northeast, northwest, of, kept_fraction, setup.unit);
        }
        [row_sums, east, north, northeast, northwest]
    }

    /// Computes row J of the next grid's matrix and writes it to the arrays by colour of the next grid.
    ///
    /// # Safety
    /// As for `coarse_row`; no thread may use the entries that receive the row.
    pub(super) unsafe fn compute_coarse(&self, row: usize, scratch: &mut [f64]) {
        let Some(coarse) = self.k.grids.get(self.q + 1) else { return };
        if !self.grid.layout.rows(Colour::B2).contains(&row) {
            return;
        }
        // SAFETY: by the safety contract of this function.
        unsafe { coarse.target(self.setup.unit).spread(row, self.coarse_row(row, scratch).map(|values| (0, values))) };
    }

    /// Computes the next grid's matrix in natural storage. Both levels must be complete.
    pub(super) fn form_natural(&self, coarse: &mut HalfStencil, scratch: &mut [f64]) {
        for row in self.grid.layout.rows(Colour::B2) {
            // SAFETY: this thread has passed the last barrier of `form`, and no thread writes this grid afterwards.
            let rows = unsafe { self.coarse_row(row, scratch) };
            let first = ring_index(coarse.nx, 0, row);
            let targets = [
                &mut coarse.diagonal,
                &mut coarse.east,
                &mut coarse.north,
                &mut coarse.northeast,
                &mut coarse.northwest,
            ];
            for (target, values) in targets.into_iter().zip(rows) {
                target[first..][..values.len()].copy_from_slice(values);
            }
        }
    }
}

/// Divides the scratch space into rows of `n` values.
fn scratch_rows(scratch: &mut [f64], n: usize) -> impl Iterator<Item = &mut [f64]> {
    scratch.chunks_exact_mut(n + GAP).map(move |row| &mut row[..n])
}

/// Computes -(a h) b for each of the `directions` in one row of `out`. The couplings a and b are those of `along`, and
/// h is 1 / d.
fn distant_rows<'s, F: Format, const N: usize>(
    coupling_pairs: [[&[F::Stored]; 2]; 4],
    h: Rows,
    unit: f64,
    directions: [usize; N],
    out: &'s mut [f64],
) -> [&'s [f64]; N] {
    let mut rows = scratch_rows(out, h[0].len());
    directions.map(|k| {
        let row = rows.next().expect("room for as many rows");
        distant_couplings::<F>(row, coupling_pairs[k][0], h[k], coupling_pairs[k][1], unit);
        &*row
    })
}

/// Arrays for the pivots of a row. On entry, `row_sums` contains the row sums; on return, it contains (row sum after
/// lumping) / d. `inverse` receives 1 / d. `stored` receives the stored pivots of f32 and bf16; it is empty in f64.
struct PivotRow<'a, F: Format> {
    row_sums: &'a mut [f64],
    inverse: &'a mut [f64],
    stored: &'a mut [F::Stored],
}

impl<F: Format> PivotRow<'_, F> {
    /// Computes all pivots in one vectorized loop. If a pivot needs further checks, computes the pivots one by one
    /// instead, and returns an error for the first rejected one. `node` returns the location of a node.
    fn form(
        self,
        kept: Rows<F::Stored>,
        lumped: Rows,
        scratch: &mut [f64],
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        let row_sum_over_pivot = &mut scratch[..self.inverse.len()];
        let (one_minus_omega, unit) = (setup.one_minus_omega(), setup.unit);
        if pivots::<F>(
            self.inverse,
            row_sum_over_pivot,
            self.stored,
            self.row_sums,
            kept,
            lumped,
            one_minus_omega,
            unit,
        ) {
            self.row_sums.copy_from_slice(row_sum_over_pivot);
            return Ok(());
        }
        self.form_one_by_one(kept, lumped, setup, node)
    }

    /// Computes the pivots one by one, with all checks.
    fn form_one_by_one(
        self,
        kept: Rows<F::Stored>,
        lumped: Rows,
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        for i in 0..self.inverse.len() {
            let kept = kept.map(|a| F::read(a[i]).wide() * setup.unit);
            let lumped = (lumped[0][i] + lumped[1][i]) + (lumped[2][i] + lumped[3][i]);
            let center = Pivot::center(self.row_sums[i], kept, lumped);
            let pivot = Pivot::new(self.row_sums[i], kept, lumped, setup.one_minus_omega());
            let pivot = pivot.checked(center, kept == [0.0; 4], setup, || node(i))?;
            self.inverse[i] = 1.0 / pivot.d;
            self.row_sums[i] = pivot.row_sum * self.inverse[i];
            if let Some(stored) = self.stored.get_mut(i) {
                *stored = F::write(pivot.stored / setup.unit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rrb::cpu::factor::tests::{random, setup};
    use crate::rrb::cpu::number::{BrainFloat, Single};
    use crate::rrb::storage::Storage;

    /// Returns row sums, four kept and four lumped couplings of n nodes. With `awkward`, some nodes have no couplings
    /// at all (land) or no kept couplings, or are last nodes of singular components; some pivots are nearly zero, too
    /// small, too large or NaN.
    fn rows(n: usize, seed: u64, awkward: bool) -> [Vec<f64>; 9] {
        let mut state = seed * 0x9e37_79b9 + 1;
        let mut rows: [Vec<f64>; 9] = std::array::from_fn(|_| Vec::new());
        for i in 0..n {
            let case = if awkward { (random(&mut state) * 30.0) as usize } else { 30 };
            for (k, row) in rows.iter_mut().enumerate() {
                let v = random(&mut state);
                let magnitude = if k == 0 { 0.1 * v } else { -v };
                row.push(match (case, k) {
                    // Case 1: nodes on land. Cases 2 and 3: nodes without kept couplings, with a usual and with a small
                    // row sum.
                    (1, _) => 0.0,
                    (2, 1..=4) => 0.0,
                    (3, 1..=4) => -0.0,
                    (3, 0) => 1e-9 * v,
                    // These values underflow in f32 and bf16.
                    (4, 1..=4) => 1e-45 * magnitude,
                    (4, 0) => 1e-42,
                    (4, _) => 0.0,
                    (5, 0) => -1e-17,
                    (6, 1..=4) => -magnitude,
                    (7, _) if i % 5 == 0 => 1e308 * magnitude,
                    (8, 0) if i % 7 == 0 => f64::NAN,
                    _ => magnitude,
                });
            }
        }
        rows
    }

    fn bits(row: &[f64]) -> Vec<u64> {
        row.iter().map(|v| v.to_bits()).collect()
    }

    /// Compares the vectorized computation of the pivots of a row with the computation one by one. Returns `true` if
    /// the loop accepted all pivots.
    fn compare<F: Format>(rows: &[Vec<f64>; 9], kept: &[Vec<F::Stored>; 4], setup: &Setup, floating: bool) -> bool
    where
        F::Stored: PartialEq + std::fmt::Debug,
    {
        let n = rows[0].len();
        let lumped = [5, 6, 7, 8].map(|k| &rows[k][..]);
        let kept = kept.each_ref().map(|row| &row[..]);
        let node = |i: usize| PivotNode { level: 3, i, j: 5, center: 4.0, may_replace_zero_pivot: floating };
        let zeros = || vec![F::write(0.0); if setup.storage == Storage::F64 { 0 } else { n }];
        let form = |at_once: bool| {
            let (mut row_sums, mut inverse, mut stored) = (rows[0].clone(), vec![0.0; n], zeros());
            let row = PivotRow::<F> { row_sums: &mut row_sums, inverse: &mut inverse, stored: &mut stored };
            let result = if at_once {
                row.form(kept, lumped, &mut vec![0.0; n], setup, node)
            } else {
                row.form_one_by_one(kept, lumped, setup, node)
            };
            result.map(|()| (bits(&row_sums), bits(&inverse), stored))
        };
        let one_by_one = form(false);
        assert_eq!(form(true), one_by_one);
        let (mut inverse, mut row_sum_over_pivot, mut stored) = (vec![0.0; n], vec![0.0; n], zeros());
        let (one_minus_omega, unit) = (setup.one_minus_omega(), setup.unit);
        let no_doubt = pivots::<F>(
            &mut inverse,
            &mut row_sum_over_pivot,
            &mut stored,
            &rows[0],
            kept,
            lumped,
            one_minus_omega,
            unit,
        );
        if no_doubt {
            assert_eq!(Ok((bits(&row_sum_over_pivot), bits(&inverse), stored)), one_by_one);
        }
        no_doubt
    }

    fn compare_formats(n: usize, seed: u64, awkward: bool, omega: f64) -> [bool; 3] {
        let rows = rows(n, seed, awkward);
        let wide = [1, 2, 3, 4].map(|k| rows[k].clone());
        let single = wide.each_ref().map(|row| row.iter().map(|v| Single::write(v / 0.5)).collect());
        let brain = wide.each_ref().map(|row| row.iter().map(|v| BrainFloat::write(v / 0.25)).collect());
        let [f64, f32, bf16] = [(Storage::F64, 1.0), (Storage::F32, 0.5), (Storage::Bf16, 0.25)]
            .map(|(storage, unit)| setup(storage, omega, unit));
        let floating = seed.is_multiple_of(2);
        [
            compare::<Double>(&rows, &wide, &f64, floating),
            compare::<Single>(&rows, &single, &f32, floating),
            compare::<BrainFloat>(&rows, &brain, &bf16, floating),
        ]
    }

    #[test]
    fn vectorized_pivots_equal_pivots_one_by_one() {
        for (n, seed) in [(0, 1), (1, 2), (7, 3), (64, 4), (129, 5), (1000, 6)] {
            for omega in [1.0, 0.95, 0.0] {
                assert_eq!(compare_formats(n, seed, false, omega), [true; 3]);
            }
        }
        let mut doubtful = 0;
        for seed in 0..600 {
            let n = 1 + seed as usize % 23;
            for omega in [1.0, 0.95, 0.0] {
                doubtful += compare_formats(n, seed, true, omega).iter().filter(|&&no_doubt| !no_doubt).count();
            }
        }
        // Both paths must be covered: in many of the awkward rows, the vectorized loop (`pivots`) accepts all pivots,
        // and in many others, the pivots are computed one by one.
        assert!((500..4900).contains(&doubtful), "{doubtful} of 5400 rows are doubtful");
    }
}
