//! The factorization on r1/r2/b1/b2 grids: the formulas of `reference::levels`, colour by colour.
//!
//! Each member works on its rows J. A step writes rows of its own and reads arrays that no member writes in
//! it; a barrier ends the step. That is what the unsafe blocks rest on.

use super::area::{Area, Four};
use super::cycle::Sections;
use super::format::Format;
use super::kernels::deinterleave;
use super::neighbours::{
    Diagonal, EAST, NORTH, NORTHEAST, NORTHWEST, SOUTH, SOUTHEAST, SOUTHWEST, Straight, WEST, products, total,
};
use super::packed::{Packed, PackedGrid};
use super::team::Me;
use crate::backend::cycle::{self, Cycle, Kind};
use crate::backend::storage::Real;
use crate::backend::{Pivot, PivotContext, Setup};
use crate::error::{Error, Result};
use crate::grid::layout::{Colour, Layout};
use crate::grid::stencil::{HalfStencil, StencilView, ring_index};
use std::sync::PoisonError;

const ALL: [Colour; 4] = [Colour::R1, Colour::R2, Colour::B1, Colour::B2];

/// The arrays that one row of a natural half stencil is spread over.
struct Target<'a> {
    layout: &'a Layout,
    diagonal: &'a Four,
    straight: &'a Straight,
    /// r1 to r2, b1 to b2; absent with 5 points.
    corners: Option<(&'a Diagonal, &'a Diagonal)>,
}

/// Values of one row of a natural array, the first at column `start`.
pub type NaturalRow<'a, R = f64> = (usize, &'a [R]);

/// Even entries i' = shift + k go to `even`, odd ones to `odd`.
pub fn split<R: Real>((shift, values): NaturalRow<R>, even: &mut [R], odd: &mut [R]) {
    let mut k = 0;
    if shift % 2 == 1 && !values.is_empty() {
        odd[shift / 2] = values[0];
        k = 1;
    }
    let first = (shift + k) / 2;
    let values = &values[k..];
    deinterleave(values, &mut even[first..], &mut odd[first..]);
    if values.len() % 2 == 1 {
        even[first + values.len() / 2] = values[values.len() - 1];
    }
}

impl Target<'_> {
    /// Spreads row j: diagonal, east, north, northeast, northwest.
    ///
    /// # Safety
    /// No other member may use these arrays in this step but to spread other rows.
    unsafe fn spread(&self, j: usize, rows: [NaturalRow; 5]) {
        let row = (j + self.layout.shift_y) / 2;
        let odd_row = (j + self.layout.shift_y) % 2 == 1;
        let [diagonal, east, north, northeast, northwest] =
            rows.map(|(start, values)| (start + self.layout.shift_x, values));
        let (d, r1, r2) = (self.diagonal, &self.straight.r1, &self.straight.r2);
        // SAFETY: each row of each array gets values from one natural row alone, which one member spreads:
        // rows J of r1, b2 and row J + 1 of what r2 and b1 couple to the south from j' = 2J + 1, the others
        // from j' = 2J. The caller promised that nobody reads them meanwhile.
        unsafe {
            if odd_row {
                split(diagonal, d.r1.row_mut(row, 0), d.b2.row_mut(row, 0));
                split(east, r1[EAST].row_mut(row, 0), r1[WEST].row_mut(row, 1));
                split(north, r1[NORTH].row_mut(row, 0), r2[SOUTH].row_mut(row + 1, 0));
            } else {
                split(diagonal, d.b1.row_mut(row, 0), d.r2.row_mut(row, 0));
                split(east, r2[WEST].row_mut(row, 0), r2[EAST].row_mut(row, 0));
                split(north, r1[SOUTH].row_mut(row, 0), r2[NORTH].row_mut(row, 0));
            }
            let Some((red, black)) = self.corners else { return };
            let (red, black) = (&red.of, &black.of);
            if odd_row {
                split(northeast, red[NORTHEAST].row_mut(row, 0), black[SOUTHWEST].row_mut(row + 1, 1));
                split(northwest, red[NORTHWEST].row_mut(row, 0), black[SOUTHEAST].row_mut(row + 1, 0));
            } else {
                split(northeast, black[NORTHEAST].row_mut(row, 0), red[SOUTHWEST].row_mut(row, 1));
                split(northwest, black[NORTHWEST].row_mut(row, 0), red[SOUTHEAST].row_mut(row, 0));
            }
        }
    }
}

/// Rows j of the natural grid that lie in rows J of the arrays.
pub fn natural_rows(layout: &Layout, rows: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let of = |row: usize| (2 * row).saturating_sub(layout.shift_y).min(layout.grid.ny);
    of(rows.start)..of(rows.end)
}

impl<F: Format> Packed<F> {
    /// Copies A, eliminates level by level. All members see the same result.
    pub fn factorize_share(&self, me: Me, setup: &Setup, context: &PivotContext) -> Result<()> {
        self.copy_matrix(me, context.a);
        self.grids[0].barrier(me);
        self.start_excess(me, setup);
        if !self.shape.schur {
            self.start_couplings(me, setup);
        }
        if !self.shape.nine_points {
            self.grids[0].clear_black_diagonal(me);
        }
        self.grids[0].barrier(me);

        for (q, grid) in self.grids.iter().enumerate() {
            // The first elimination of a 5-point matrix is exact: couplings and centers are those of A.
            let exact = (q == 0 && self.shape.schur).then_some(&self.matrix);
            let straight = exact.map_or(&grid.straight, |m| &m.straight);
            grid.keep_for_recursion(me, setup);
            self.note(grid.eliminate_reds(me, 2 * q + 1, setup, context, straight, exact.map(|m| &m.center)));
            grid.barrier(me);
            grid.form_skew(me, setup, straight);
            grid.barrier(me);
            self.note(grid.eliminate_dropped(me, 2 * q + 2, setup, context));
            grid.barrier(me);
            if let Some(coarse) = self.grids.get(q + 1) {
                let mut scratch = self.scratch[me.index].lock().unwrap_or_else(PoisonError::into_inner);
                grid.form_coarse(me, setup, coarse, &mut scratch);
                grid.barrier(me);
            } else if me.index == 0 {
                let mut scratch = self.scratch[0].lock().unwrap_or_else(PoisonError::into_inner);
                let mut natural = self.natural();
                grid.form_natural(setup, natural.input(), &mut scratch);
                // Where finer grids recurse, they choose for all.
                let kind =
                    if self.sections.len() > 1 { setup.cycle.kind.or(Some(Kind::Amli)) } else { setup.cycle.kind };
                let below = Setup { cycle: Cycle { kind, ..setup.cycle }, ..*setup };
                self.note(natural.factorize(&below, context, None));
            }
        }
        if self.shape.schur {
            self.form_schur_center(me);
        }
        me.barrier();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        me.barrier();
        if me.index == 0 {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.prepare_cycle(me, setup);
        Ok(())
    }

    /// Bounds of the recursions, and the choice of the cycle.
    fn prepare_cycle(&self, me: Me, setup: &Setup) {
        let found = if self.sections.len() > 1 {
            cycle::prepare(&mut Sections::new(self, me), &setup.cycle)
        } else {
            *self.natural().recursion()
        };
        me.barrier();
        if me.index == 0 {
            self.natural().set_kind(found.kind);
            *self.recursion.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        me.barrier();
    }

    /// Keeps the failure of the lowest level, and there of the first node, whoever finds it.
    fn note(&self, result: Result<()>) {
        let Err(error) = result else { return };
        let order = |e: &Error| match e {
            Error::Matrix { level, i, j, .. } => (*level, *j, *i),
            _ => (0, 0, 0),
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|first| order(&error) < order(first)) {
            *failure = Some(error);
        }
    }

    fn copy_matrix(&self, me: Me, a: &StencilView) {
        let (m, grid) = (&self.matrix, &self.grids[0]);
        let corners = a.corners.map(|_| (&m.red_diagonal, &m.black_diagonal));
        let target = Target { layout: &grid.layout, diagonal: &m.center, straight: &m.straight, corners };
        for j in natural_rows(&grid.layout, &grid.rows(me)) {
            let rows = a.entries(j).map(|(_, start, values)| (start, values));
            // SAFETY: this step only spreads rows of A, each by the owner of its row.
            unsafe { target.spread(j, rows) };
        }
    }

    /// Row sums of A; positive couplings that are moved to the diagonals leave them as they are.
    fn start_excess(&self, me: Me, setup: &Setup) {
        let (m, grid) = (&self.matrix, &self.grids[0]);
        let n = grid.layout.cx;
        for row in grid.rows(me) {
            for colour in ALL {
                // SAFETY: reads A, which nobody writes now; writes a row of this member.
                unsafe {
                    let center = m.center[colour].row(row, 0);
                    let straight = total(n, m.straight.couplings(colour, row));
                    let target = grid.excess[colour].row_mut(row, 0);
                    if self.shape.nine_points {
                        let corners = total(n, m.corners(colour, row));
                        for (i, t) in target.iter_mut().enumerate() {
                            *t = setup.excess(center[i], straight(i) + corners(i));
                        }
                    } else {
                        for (i, t) in target.iter_mut().enumerate() {
                            *t = setup.excess(center[i], straight(i));
                        }
                    }
                }
            }
        }
    }

    /// M starts from the couplings of A, with compensation without its positive ones.
    fn start_couplings(&self, me: Me, setup: &Setup) {
        let (m, grid) = (&self.matrix, &self.grids[0]);
        let straight = m.straight.r1.iter().zip(&grid.straight.r1).chain(m.straight.r2.iter().zip(&grid.straight.r2));
        let red = m.red_diagonal.of.iter().zip(&grid.red_diagonal.of);
        let black = m.black_diagonal.of.iter().zip(&grid.black_diagonal.of);
        let corners = red.chain(black).filter(|_| self.shape.nine_points);
        for row in grid.rows(me) {
            for (source, target) in straight.clone().chain(corners.clone()) {
                // SAFETY: reads A, which nobody writes now; writes a row of this member.
                let (source, target) = unsafe { (source.row(row, 0), target.row_mut(row, 0)) };
                for (t, &s) in target.iter_mut().zip(source) {
                    *t = if setup.compensate { s.min(0.0) } else { s };
                }
            }
        }
    }

    /// S1 = D_b - A_br D_r^-1 A_rb (report, 2.9): its diagonal.
    fn form_schur_center(&self, me: Me) {
        let (m, grid) = (&self.matrix, &self.grids[0]);
        for row in grid.rows(me) {
            for (colour, target) in [(Colour::B1, &self.schur_center[0]), (Colour::B2, &self.schur_center[1])] {
                // SAFETY: reads A and the pivots, which nobody writes now; writes a row of this member.
                unsafe {
                    let center = m.center[colour].row(row, 0);
                    let (a, h) = (m.straight.couplings(colour, row), grid.inverse.straight(colour, row));
                    for (i, t) in target.row_mut(row, 0).iter_mut().enumerate() {
                        let term = |k: usize| a[k][i] * (a[k][i] * h[k][i]);
                        *t = center[i] - ((term(0) + term(1)) + (term(2) + term(3)));
                    }
                }
            }
        }
    }
}

impl<F: Format> PackedGrid<F> {
    /// Where the cycle recurses, the matrix as it is before the levels change it, and straight couplings in the
    /// format of the sweeps.
    fn keep_for_recursion(&self, me: Me, setup: &Setup) {
        let stored = |source: &Area, target: &Area<F::Stored>, row: usize| {
            // SAFETY: what the step before wrote is only read; writes a row of this member.
            let (source, target) = unsafe { (source.row(row, 0), target.row_mut(row, 0)) };
            for (t, s) in target.iter_mut().zip(source) {
                *t = F::write(s / setup.unit);
            }
        };
        for row in self.rows(me) {
            if let Some(inner) = &self.recursion {
                for colour in ALL {
                    stored(&self.excess[colour], &inner.excess[colour], row);
                }
                for k in 0..4 {
                    stored(&self.red_diagonal.of[k], &inner.red_diagonal.of[k], row);
                    stored(&self.black_diagonal.of[k], &inner.black_diagonal.of[k], row);
                }
            }
            if let Some(short) = F::short(&self.own).filter(|short| short.straight.bytes() > 0) {
                for k in 0..4 {
                    stored(&self.straight.r1[k], &short.straight.r1[k], row);
                    stored(&self.straight.r2[k], &short.straight.r2[k], row);
                }
            }
        }
    }

    /// Couplings of row J of a colour along the diagonals, as M has them.
    ///
    /// # Safety
    /// Nobody may write them meanwhile.
    unsafe fn skew<'a>(&'a self, colour: Colour, row: usize, setup: &Setup) -> impl Fn(usize) -> [f64; 4] + use<'a, F> {
        let unit = setup.unit;
        // SAFETY: as the caller promised.
        let rows = unsafe { F::sweep(self).diagonal.couplings(colour, row) };
        move |i| rows.map(|a| F::read(a[i]).wide() * unit)
    }

    /// A 5-point matrix couples no black nodes; what the last factorization left here is no input.
    fn clear_black_diagonal(&self, me: Me) {
        for row in self.rows(me) {
            for area in &self.black_diagonal.of {
                // SAFETY: a row of this member, which nobody reads in this step.
                unsafe { area.row_mut(row, 0).fill(0.0) };
            }
        }
    }

    /// Pivots of row J of an eliminated colour, into `inverse` and, as excess / d, into `excess`.
    #[expect(clippy::too_many_arguments, reason = "the row of a pivot with all that it depends on")]
    fn eliminate_row(
        &self,
        colour: Colour,
        row: usize,
        level: usize,
        kept: impl Fn(usize) -> [f64; 4],
        lumped: impl Fn(usize) -> f64,
        exact_center: Option<&Four>,
        setup: &Setup,
        context: &PivotContext,
    ) -> Result<()> {
        // SAFETY: rows of this member; nobody reads pivots of this colour in this step.
        let (excess, inverse) = unsafe { (self.excess[colour].row_mut(row, 0), self.inverse[colour].row_mut(row, 0)) };
        let columns = self.layout.columns(colour);
        // SAFETY: as above.
        let mut stored = F::short(&self.own).map(|short| unsafe { short.pivot[colour].row_mut(row, 0) });
        if let Some(center) = exact_center {
            // SAFETY: nobody writes A in this step.
            let center = unsafe { center[colour].row(row, 0) };
            for i in columns {
                inverse[i] = 1.0 / center[i];
                excess[i] *= inverse[i];
            }
            return Ok(());
        }
        for i in columns {
            let kept = kept(i);
            let lumped = lumped(i);
            let center = excess[i] - ((kept[0] + kept[1]) + (kept[2] + kept[3])) - lumped;
            let pivot = Pivot::new(excess[i], kept, lumped, setup.lost());
            let pivot = pivot.checked(center, kept == [0.0; 4], setup, || {
                let (i, j) = self.layout.node(colour, i, row);
                context.node(level, self.embedding.fine(i, j))
            })?;
            inverse[i] = 1.0 / pivot.d;
            excess[i] = pivot.excess * inverse[i];
            if let Some(stored) = &mut stored {
                stored[i] = F::write(pivot.stored / setup.unit);
            }
        }
        Ok(())
    }

    /// The odd level: lumps and eliminates r1 and r2. With M2, what black nodes lose to lumping goes first.
    fn eliminate_reds(
        &self,
        me: Me,
        level: usize,
        setup: &Setup,
        context: &PivotContext,
        straight: &Straight,
        exact_center: Option<&Four>,
    ) -> Result<()> {
        let n = self.layout.cx;
        let black_loss = (1.0 - setup.black_keeps()) * setup.lost();
        for row in self.rows(me) {
            for colour in [Colour::R1, Colour::R2] {
                if !self.layout.rows(colour).contains(&row) {
                    continue;
                }
                // SAFETY: couplings are only read in this step.
                let (kept, corners) = unsafe {
                    (straight.couplings(colour, row), self.present_corners().map(|d| d.couplings(colour, row)))
                };
                let kept = |i: usize| kept.map(|a| a[i]);
                match corners {
                    Some(corners) => {
                        self.eliminate_row(colour, row, level, kept, total(n, corners), exact_center, setup, context)?;
                    }
                    None => self.eliminate_row(colour, row, level, kept, |_| 0.0, exact_center, setup, context)?,
                }
            }
            if black_loss > 0.0 && exact_center.is_none() {
                for colour in [Colour::B1, Colour::B2] {
                    // SAFETY: couplings are only read in this step; writes a row of this member.
                    unsafe {
                        let lumped = total(n, self.black_diagonal.couplings(colour, row));
                        for (i, e) in self.excess[colour].row_mut(row, 0).iter_mut().enumerate() {
                            *e -= black_loss * lumped(i);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn present_corners(&self) -> Option<&Diagonal> {
        Some(&self.red_diagonal).filter(|d| d.bytes() > 0)
    }

    /// The skew stencil on black nodes: what the odd level leaves.
    fn form_skew(&self, me: Me, setup: &Setup, straight: &Straight) {
        let keeps = setup.black_keeps();
        for row in self.rows(me) {
            // SAFETY: reads straight couplings, pivots and handed-on excess of reds, which nobody writes in
            // this step; writes rows of black nodes of this member.
            unsafe {
                for colour in [Colour::B1, Colour::B2] {
                    let handed =
                        products(self.layout.cx, straight.couplings(colour, row), self.excess.straight(colour, row));
                    for (i, e) in self.excess[colour].row_mut(row, 0).iter_mut().enumerate() {
                        *e -= handed(i);
                    }
                }
                // Coupling of b1 through the red neighbours r and s: keeps * a - (a_r h_r) a_r' - (a_s h_s) a_s'.
                let (r1, r2) = (&straight.r1, &straight.r2);
                let (h1, h2) = (&self.inverse.r1, &self.inverse.r2);
                let through = |target: usize, [a, h, b]: [&[f64]; 3], [c, k, d]: [&[f64]; 3]| {
                    for (i, t) in self.black_diagonal.of[target].row_mut(row, 0).iter_mut().enumerate() {
                        *t = keeps * *t - (a[i] * h[i]) * b[i] - (c[i] * k[i]) * d[i];
                    }
                };
                let west = |to: usize| [r2[EAST].row(row, -1), h2.row(row, -1), r2[to].row(row, -1)];
                let east = |to: usize| [r2[WEST].row(row, 0), h2.row(row, 0), r2[to].row(row, 0)];
                let south = |to: usize| [r1[NORTH].below(row, 0), h1.below(row, 0), r1[to].below(row, 0)];
                let north = |to: usize| [r1[SOUTH].row(row, 0), h1.row(row, 0), r1[to].row(row, 0)];
                through(SOUTHWEST, west(SOUTH), south(WEST));
                through(SOUTHEAST, east(SOUTH), south(EAST));
                through(NORTHWEST, west(NORTH), north(WEST));
                through(NORTHEAST, east(NORTH), north(EAST));
                if let Some(short) = F::short(&self.own) {
                    for (source, target) in self.black_diagonal.of.iter().zip(&short.diagonal.of) {
                        for (t, s) in target.row_mut(row, 0).iter_mut().zip(source.row(row, 0)) {
                            *t = F::write(s / setup.unit);
                        }
                    }
                }

                let distant = |target: &Area, [a, h, b]: [&[f64]; 3]| {
                    for (i, t) in target.row_mut(row, 0).iter_mut().enumerate() {
                        *t = -(a[i] * h[i]) * b[i];
                    }
                };
                distant(&self.b1_distant.east, east(EAST));
                distant(&self.b1_distant.north, north(NORTH));
                distant(&self.b2_distant.east, [r1[WEST].row(row, 1), h1.row(row, 1), r1[EAST].row(row, 1)]);
                distant(
                    &self.b2_distant.north,
                    [r2[SOUTH].row(row + 1, 0), h2.row(row + 1, 0), r2[NORTH].row(row + 1, 0)],
                );
            }
        }
    }

    /// The even level: lumps and eliminates b1.
    fn eliminate_dropped(&self, me: Me, level: usize, setup: &Setup, context: &PivotContext) -> Result<()> {
        for row in self.rows(me) {
            if !self.layout.rows(Colour::B1).contains(&row) {
                continue;
            }
            // SAFETY: couplings are only read in this step.
            let (kept, distant) = unsafe { (self.skew(Colour::B1, row, setup), self.b1_distant.couplings(row)) };
            let lumped = total(self.layout.cx, distant);
            self.eliminate_row(Colour::B1, row, level, kept, lumped, None, setup, context)?;
        }
        Ok(())
    }

    /// Row J of the next grid's half stencil: diagonal, east, north, northeast, northwest, nx values each.
    fn coarse_row<'a>(&self, row: usize, setup: &Setup, out: &'a mut [f64]) -> [&'a [f64]; 5] {
        let n = self.layout.grid.coarse().nx;
        let keeps = setup.black_keeps();
        let black_loss = (1.0 - keeps) * setup.lost();
        let (d, h) = (&F::sweep(self).diagonal.of, &self.inverse.b1);
        let unit = setup.unit;
        let wide = |a: F::Stored| F::read(a).wide() * unit;
        let mut parts = out.chunks_exact_mut(n);
        let mut part = || parts.next().expect("room for five rows");
        let (diagonal, east, north, northeast, northwest) = (part(), part(), part(), part(), part());
        // SAFETY: reads what the steps before wrote; nobody writes to this grid in this step.
        unsafe {
            let excess = self.excess.b2.row(row, 0);
            let a = self.skew(Colour::B2, row, setup);
            let v = self.excess.diagonal(Colour::B2, row);
            let handed = |i: usize| {
                let a = a(i);
                (a[0] * v[0][i] + a[1] * v[1][i]) + (a[2] * v[2][i] + a[3] * v[3][i])
            };
            let lumped = total(n, self.b2_distant.couplings(row));
            let (far_east, far_north) = (self.b2_distant.east.row(row, 0), self.b2_distant.north.row(row, 0));
            // b1 to the northeast, southeast and northwest of b2(I, J).
            let ne = [SOUTHWEST, SOUTHEAST, NORTHWEST, NORTHEAST].map(|k| d[k].row(row + 1, 1));
            let h_ne = h.row(row + 1, 1);
            let (se_nw, se_ne, h_se) = (d[NORTHWEST].row(row, 1), d[NORTHEAST].row(row, 1), h.row(row, 1));
            let nw = [SOUTHWEST, SOUTHEAST, NORTHWEST, NORTHEAST].map(|k| d[k].row(row + 1, 0));
            let h_nw = h.row(row + 1, 0);
            for i in 0..n {
                diagonal[i] = excess[i] - black_loss * lumped(i) - handed(i);
                let (ne, nw) = (ne.map(|a| wide(a[i])), nw.map(|a| wide(a[i])));
                let through_ne = ne[SOUTHWEST] * h_ne[i];
                let through_nw = nw[SOUTHEAST] * h_nw[i];
                let through_se = wide(se_nw[i]) * h_se[i];
                let to_east = keeps * far_east[i] - through_ne * ne[SOUTHEAST] - through_se * wide(se_ne[i]);
                let to_north = keeps * far_north[i] - through_ne * ne[NORTHWEST] - through_nw * nw[NORTHEAST];
                east[i] = setup.kept(to_east);
                north[i] = setup.kept(to_north);
                northeast[i] = -through_ne * ne[NORTHEAST];
                northwest[i] = -through_nw * nw[NORTHWEST];
            }
        }
        [diagonal, east, north, northeast, northwest]
    }

    /// The next grid's matrix, spread over its colours.
    fn form_coarse(&self, me: Me, setup: &Setup, coarse: &Self, scratch: &mut [f64]) {
        let target = Target {
            layout: &coarse.layout,
            diagonal: &coarse.excess,
            straight: &coarse.straight,
            corners: Some((&coarse.red_diagonal, &coarse.black_diagonal)),
        };
        for row in self.rows(me) {
            if self.layout.rows(Colour::B2).contains(&row) {
                let rows = self.coarse_row(row, setup, scratch);
                // SAFETY: this step only spreads rows of the coarse matrix, each by one member.
                unsafe { target.spread(row, rows.map(|values| (0, values))) };
            }
        }
    }

    /// The next grid's matrix in natural storage.
    fn form_natural(&self, setup: &Setup, coarse: &mut HalfStencil, scratch: &mut [f64]) {
        for row in self.layout.rows(Colour::B2) {
            let rows = self.coarse_row(row, setup, scratch);
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
