//! What the formulas of a factorization make of row J.

use super::{InTurn, Levels};
use crate::backend::cpu::rrb::area::{Area, of_type};
use crate::backend::cpu::rrb::levels::Sweep;
use crate::backend::cpu::rrb::loops::subtract;
use crate::backend::cpu::rrb::loops_setup::{
    Elimination, Kept, Link, OfDropped, OfReds, StoredPivot, coarse_couplings, distant_couplings, exact_pivots, lose,
    pivots, round_couplings, row_sums, schur_centers, schur_row_sums, skew_couplings, store, store_same,
    without_positive,
};
use crate::backend::cpu::rrb::making::Making;
use crate::backend::cpu::rrb::neighbours::{Diagonal, EAST, NORTH, Rows, SOUTH, WEST};
use crate::backend::cpu::rrb::number::{Double, Format};
use crate::backend::cpu::rrb::spread::{Target, natural_rows};
use crate::backend::cpu::rrb::system::Schur;
use crate::backend::steps::rrb::{Pivot, PivotNode, Setup};
use crate::error::Result;
use crate::grid::layout::Colour;
use crate::grid::stencil::{HalfStencil, ring_index};

/// Columns of four rows that are worked on at a time, 8 kB.
const COLUMNS_NEAR: usize = 256;

impl<'a, F: Format> Levels<'a, F> {
    /// Couplings b1 to b2 as sweeps read them.
    fn diagonal(&self) -> &'a Diagonal<F::Stored> {
        of_type(self.black_diagonal).unwrap_or(&self.grid.sweep.diagonal)
    }

    /// Copies row J of A; where that is watched, what may be worked on. (In place of a row that may not be there are
    /// zeros, or another one.)
    ///
    /// # Safety
    /// The row must be this member's, and nobody may use what it is spread to.
    pub(super) unsafe fn spread(&self, row: usize, watch: Option<InTurn>) {
        let (m, a) = (&self.k.matrix, self.context.a);
        let (diagonal, straight) = self.exact.map_or((&m.center, &m.straight), |e| (&e.center, &e.straight));
        let corners = a.corners.map(|_| (&m.corners.red, &m.corners.black));
        let target = Target { layout: &self.grid.layout, diagonal, straight, corners, far: false };
        for j in natural_rows(&self.grid.layout, &(row..row + 1)) {
            if watch.is_some_and(|(watch, member)| !watch.admits(member, a, j)) {
                continue;
            }
            let rows = a.entries(j).map(|(_, start, values)| (start, values));
            // SAFETY: as the caller promised.
            unsafe { target.spread(j, rows) };
        }
    }

    /// Row J of M before the levels: row sums of A, where positive couplings that are moved to the diagonals stay,
    /// and couplings, with compensation without the positive ones; straight ones as they are stored.
    ///
    /// # Safety
    /// The row must be this member's, and A of row J - 1 and J there.
    pub(super) unsafe fn start(&self, row: usize) {
        let (m, grid, setup) = (&self.k.matrix, self.grid, self.setup);
        if self.exact.is_some() {
            // Row sums are taken where they are used.
            return;
        }
        let nine_points = self.k.shape.nine_points;
        for colour in Colour::ALL {
            // SAFETY: as the caller promised.
            unsafe {
                let (center, straight) = (m.center[colour].row(row, 0), m.straight.couplings(colour, row));
                let corners = nine_points.then(|| m.corners.couplings(colour, row));
                row_sums(self.excess[colour].row_mut(row, 0), center, straight, corners, setup.zero_row_sum);
            }
        }
        let copy = |sources: &[Area; 4], targets: &[Area; 4], rounds: bool| {
            for (source, target) in sources.iter().zip(targets) {
                // SAFETY: as the caller promised.
                let (source, target) = unsafe { (source.row(row, 0), target.row_mut(row, 0)) };
                if setup.compensate {
                    without_positive(target, source)
                } else {
                    target.copy_from_slice(source)
                }
                if rounds {
                    round_couplings::<F>(target, setup.unit);
                }
            }
        };
        let rounds = F::SHORT;
        copy(&m.straight.r1, &grid.straight.r1, rounds);
        copy(&m.straight.r2, &grid.straight.r2, rounds);
        if nine_points {
            copy(&m.corners.red.of, &grid.red_diagonal.of, false);
            copy(&m.corners.black.of, &grid.black_diagonal.of, false);
        } else {
            for area in &grid.black_diagonal.of {
                // A 5-point matrix couples no black nodes; what the last factorization left here is no input.
                // SAFETY: as the caller promised.
                unsafe { area.row_mut(row, 0).fill(0.0) };
            }
        }
    }

    /// Where the cycle recurses, row J of the matrix as it is before the levels change it, and straight couplings in
    /// the format of the sweeps.
    ///
    /// # Safety
    /// The row must be this member's and as the matrix was formed.
    unsafe fn keep(&self, row: usize) {
        let grid = self.grid;
        let keep = |source: &Area, target: &Area<F::Stored>| {
            // SAFETY: as the caller promised.
            unsafe { store::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.unit) };
        };
        let keep_all = |sources: &[Area; 4], targets: &[Area<F::Stored>; 4]| {
            sources.iter().zip(targets).for_each(|(source, target)| keep(source, target));
        };
        if let Some(inner) = &grid.recursion {
            for colour in Colour::ALL {
                keep(&grid.excess[colour], &inner.excess[colour]);
            }
            keep_all(&grid.red_diagonal.of, &inner.corners.red.of);
            keep_all(&grid.black_diagonal.of, &inner.corners.black.of);
        }
        if let Some(short) = grid.short().filter(|short| short.straight.bytes() > 0) {
            // Rounded already.
            let pairs = |s: &'a [Area; 4], t: &'a [Area<F::Stored>; 4]| s.iter().zip(t);
            let (to1, to2) = (&short.straight.r1, &short.straight.r2);
            for (source, target) in pairs(&grid.straight.r1, to1).chain(pairs(&grid.straight.r2, to2)) {
                // SAFETY: as the caller promised.
                unsafe { store_same::<F>(target.row_mut(row, 0), source.row(row, 0), self.setup.unit) };
            }
        }
    }

    /// The odd level: lumps and eliminates r1 and r2 of row J. With M2, what black nodes lose to lumping goes first.
    ///
    /// # Safety
    /// The row must be this member's, and the matrix of row J - 1 to J + 1 as it was formed.
    pub(super) unsafe fn reds(&self, row: usize, scratch: &mut [f64]) {
        let setup = self.setup;
        // SAFETY: as the caller promised; couplings at distance two over r2 of row J lie in row J - 1, which the
        // owner of row J writes.
        unsafe {
            self.keep(row);
            let eliminated = self.eliminate_reds(row, scratch);
            self.k.note(eliminated);

            let ([_, _, south, north], h) = (&self.straight.r1, &self.inverse.r1);
            let target = self.b1_distant.north.row_mut(row, 0);
            distant_couplings(target, south.row(row, 0), h.row(row, 0), north.row(row, 0));
            let ([_, _, south, north], h) = (&self.straight.r2, &self.inverse.r2);
            if let Some(below) = row.checked_sub(1) {
                let target = self.b2_distant.north.row_mut(below, 0);
                distant_couplings(target, south.row(row, 0), h.row(row, 0), north.row(row, 0));
            }

            let loss = (1.0 - setup.black_keeps()) * setup.lost();
            if loss > 0.0 && self.exact.is_none() {
                for colour in [Colour::B1, Colour::B2] {
                    let lumped = self.black_diagonal.couplings(colour, row);
                    lose(self.excess[colour].row_mut(row, 0), loss, lumped);
                }
            }
        }
    }

    /// # Safety
    /// As for `reds`.
    unsafe fn eliminate_reds(&self, row: usize, scratch: &mut [f64]) -> Result<()> {
        let grid = self.grid;
        let corners = grid.corners.then_some(&grid.red_diagonal);
        // Row 2J of the grid before row 2J + 1, so that the first refused node is named.
        for colour in [Colour::R2, Colour::R1] {
            // SAFETY: as the caller promised; the border is never written.
            unsafe {
                if let Some(matrix) = self.exact {
                    let (excess, inverse) = (self.excess[colour].row_mut(row, 0), self.inverse[colour].row_mut(row, 0));
                    let (center, a) = (matrix.center[colour].row(row, 0), self.straight.couplings(colour, row));
                    exact_pivots(inverse, excess, center, a, self.setup.zero_row_sum);
                    continue;
                }
                if !grid.layout.rows(colour).contains(&row) {
                    continue;
                }
                let kept = self.straight.couplings(colour, row);
                let lumped =
                    corners.map_or([self.inverse[colour].below(grid.layout.from, 0); 4], |d| d.couplings(colour, row));
                self.eliminate::<OfReds<F>>(colour, row, kept, lumped, scratch)?;
            }
        }
        Ok(())
    }

    /// Pivots of row J of an eliminated colour, into `inverse` and, as excess / d, into `excess`.
    ///
    /// # Safety
    /// The row must be this member's.
    unsafe fn eliminate<E: Elimination<Format = F>>(
        &self,
        colour: Colour,
        row: usize,
        kept: Rows<E::Kept>,
        lumped: Rows,
        scratch: &mut [f64],
    ) -> Result<()> {
        let grid = self.grid;
        let columns = grid.layout.columns(colour);
        // SAFETY: as the caller promised.
        let out = unsafe {
            PivotRow::<E> {
                excess: &mut self.excess[colour].row_mut(row, 0)[columns.clone()],
                inverse: &mut self.inverse[colour].row_mut(row, 0)[columns.clone()],
                stored: grid
                    .short()
                    .map_or(&mut [][..], |short| &mut short.pivot[colour].row_mut(row, 0)[columns.clone()]),
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

    /// Row J of the skew stencil on black nodes, what the odd level leaves, and of the diagonal of S1.
    ///
    /// # Safety
    /// The row must be this member's, and reds of row J - 1 to J + 1 done.
    pub(super) unsafe fn skew(&self, row: usize, scratch: &mut [f64]) {
        let (grid, setup, straight) = (self.grid, self.setup, self.straight);
        let n = grid.layout.cx;
        let ((r1, r2), (h1, h2)) = ((&straight.r1, &straight.r2), (&self.inverse.r1, &self.inverse.r2));
        // SAFETY: as the caller promised.
        unsafe {
            for (k, colour) in [Colour::B1, Colour::B2].into_iter().enumerate() {
                let (a, t) = (straight.couplings(colour, row), self.excess.straight(colour, row));
                let excess = self.excess[colour].row_mut(row, 0);
                if let Some(matrix) = self.exact {
                    let (center, kept) = (matrix.center[colour].row(row, 0), &self.k.schur.center[k]);
                    if F::SINGLE {
                        // In difference form: its row sum in place of the diagonal.
                        schur_row_sums(excess, center, a, t, setup.zero_row_sum);
                        Schur::<F>::keep(kept, row, 0, excess, self.k.unit.recip());
                        continue;
                    }
                    // S1 = D_b - A_br D_r^-1 A_rb (report, 2.9).
                    let h = self.inverse.straight(colour, row);
                    if matrix.has_windows() {
                        schur_centers(excess, &mut scratch[..n], center, a, t, h, setup.zero_row_sum);
                        Schur::<F>::keep(kept, row, 0, &scratch[..n], self.k.unit.recip());
                    } else {
                        let out = matrix.schur_center[k].row_mut(row, 0);
                        schur_centers(excess, out, center, a, t, h, setup.zero_row_sum);
                    }
                } else {
                    subtract::<Double>(excess, a, t);
                }
            }
            let link = |r: &'a [Area; 4], h: &'a Area, to: [usize; 3], row: usize, shift: isize| {
                [r[to[0]].row(row, shift), h.row(row, shift), r[to[1]].row(row, shift), r[to[2]].row(row, shift)]
            };
            let links = [
                link(r2, h2, [EAST, SOUTH, NORTH], row, -1),
                link(r2, h2, [WEST, SOUTH, NORTH], row, 0),
                [r1[NORTH].below(row, 0), h1.below(row, 0), r1[WEST].below(row, 0), r1[EAST].below(row, 0)],
                link(r1, h1, [SOUTH, WEST, EAST], row, 0),
            ];
            let short = grid.short();
            match short.filter(|_| self.exact.is_some_and(Making::has_windows)) {
                Some(short) => self.skew_past_caches(row, links, short, scratch),
                None => {
                    let [southwest, southeast, northwest, northeast] =
                        [0, 1, 2, 3].map(|k| self.black_diagonal.of[k].row_mut(row, 0));
                    let old = self.exact.is_none();
                    skew_couplings(southwest, southeast, northwest, northeast, setup.black_keeps(), old, links);
                    if let Some(short) = short {
                        for (source, target) in self.black_diagonal.of.iter().zip(&short.diagonal.of) {
                            store::<F>(target.row_mut(row, 0), source.row(row, 0), setup.unit);
                        }
                    }
                }
            }

            let target = self.b1_distant.east.row_mut(row, 0);
            distant_couplings(target, r2[WEST].row(row, 0), h2.row(row, 0), r2[EAST].row(row, 0));
            let target = self.b2_distant.east.row_mut(row, 0);
            distant_couplings(target, r1[WEST].row(row, 1), h1.row(row, 1), r1[EAST].row(row, 1));
        }
    }

    /// Diagonal couplings of row J of S1 to their array and, in a short format, to that of the level, a few columns at
    /// a time, which stay in the nearest cache in between.
    ///
    /// # Safety
    /// The row must be this member's.
    unsafe fn skew_past_caches(&self, row: usize, links: [Link; 4], short: &Sweep<F::Stored>, scratch: &mut [f64]) {
        let (n, keeps) = (self.grid.layout.cx, self.setup.black_keeps());
        for start in (0..n).step_by(COLUMNS_NEAR) {
            let columns = start..n.min(start + COLUMNS_NEAR);
            let mut parts = scratch.chunks_exact_mut(columns.len());
            let mut part = || parts.next().expect("room for four parts of a row");
            let (southwest, southeast, northwest, northeast) = (part(), part(), part(), part());
            let links = links.map(|link| link.map(|values| &values[columns.clone()]));
            skew_couplings(southwest, southeast, northwest, northeast, keeps, false, links);
            for (k, values) in [southwest, southeast, northwest, northeast].into_iter().enumerate() {
                // SAFETY: as the caller promised.
                unsafe {
                    let stored = &mut short.diagonal.of[k].row_mut(row, 0)[columns.clone()];
                    store::<F>(stored, values, self.setup.unit);
                    Schur::<F>::keep(&self.k.schur.diagonal.of[k], row, start, values, self.k.unit.recip());
                }
            }
        }
    }

    /// The even level: lumps and eliminates b1 of row J.
    ///
    /// # Safety
    /// The row must be this member's, its skew stencil formed, and reds of row J - 1 and J done.
    pub(super) unsafe fn dropped(&self, row: usize, scratch: &mut [f64]) {
        let grid = self.grid;
        if grid.layout.rows(Colour::B1).contains(&row) {
            // SAFETY: as the caller promised.
            unsafe {
                let kept = self.diagonal().couplings(Colour::B1, row);
                let lumped = self.b1_distant.couplings(row);
                self.k.note(self.eliminate::<OfDropped<F>>(Colour::B1, row, kept, lumped, scratch));
            }
        }
    }

    /// Row J of the next grid's half stencil: diagonal, east, north, northeast, northwest, nx values each.
    ///
    /// # Safety
    /// Both levels of row J and J + 1 must be done.
    pub(super) unsafe fn coarse_row<'s>(&self, row: usize, out: &'s mut [f64]) -> [&'s [f64]; 5] {
        let (grid, setup) = (self.grid, self.setup);
        let n = grid.layout.grid.coarse().nx;
        let keeps = setup.black_keeps();
        let (d, h) = (self.diagonal(), &self.inverse.b1);
        let mut parts = out.chunks_exact_mut(n);
        let mut part = || parts.next().expect("room for five rows");
        let (excess, east, north, northeast, northwest) = (part(), part(), part(), part(), part());
        // SAFETY: as the caller promised.
        unsafe {
            let [southwest, southeast, northwest_of, northeast_of] = &d.of;
            let distant = self.b2_distant.couplings(row);
            let t = &self.excess.b1;
            let of = Kept {
                handed: [t.longer_row(row), t.longer_row(row + 1)],
                inverse: [h.longer_row(row), h.longer_row(row + 1)],
                below: [northwest_of, northeast_of].map(|a| a.longer_row(row)),
                above: [southwest, southeast, northwest_of, northeast_of].map(|a| a.longer_row(row + 1)),
                distant: [distant[EAST], distant[NORTH]],
            };
            excess.copy_from_slice(&self.excess.b2.row(row, 0)[..n]);
            let loss = (1.0 - keeps) * setup.lost();
            if loss > 0.0 {
                lose(excess, loss, distant);
            }
            coarse_couplings::<F>(excess, east, north, northeast, northwest, of, keeps, setup.unit);
        }
        [excess, east, north, northeast, northwest]
    }

    /// Row J of the next grid's matrix, spread over its colours.
    ///
    /// # Safety
    /// As for `coarse_row`; nobody may use what row J is spread to.
    pub(super) unsafe fn coarse(&self, row: usize, scratch: &mut [f64]) {
        let Some(coarse) = self.k.grids.get(self.q + 1) else { return };
        if !self.grid.layout.rows(Colour::B2).contains(&row) {
            return;
        }
        let far = self.exact.is_some_and(Making::has_windows) && !coarse.follows();
        let target = Target { far, ..coarse.target() };
        // SAFETY: as the caller promised.
        unsafe { target.spread(row, self.coarse_row(row, scratch).map(|values| (0, values))) };
    }

    /// The next grid's matrix in natural storage, once the levels are complete.
    pub(super) fn form_natural(&self, coarse: &mut HalfStencil, scratch: &mut [f64]) {
        for row in self.grid.layout.rows(Colour::B2) {
            // SAFETY: the last barrier of `form` is passed, and nobody writes this grid after it.
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

/// Pivots of a row: excess in, excess / d out; 1 / d; and in short formats what is stored.
struct PivotRow<'a, E: Elimination> {
    excess: &'a mut [f64],
    inverse: &'a mut [f64],
    stored: &'a mut [StoredPivot<E>],
}

impl<E: Elimination> PivotRow<'_, E> {
    /// All at once; where any of them is doubtful, one by one. `node` looks one up.
    fn form(
        self,
        kept: Rows<E::Kept>,
        lumped: Rows,
        scratch: &mut [f64],
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        let handed = &mut scratch[..self.inverse.len()];
        let (lost, unit) = (setup.lost(), setup.unit);
        if pivots::<E>(self.inverse, handed, self.stored, self.excess, kept, lumped, lost, unit) {
            self.excess.copy_from_slice(handed);
            return Ok(());
        }
        self.form_one_by_one(kept, lumped, setup, node)
    }

    fn form_one_by_one(
        self,
        kept: Rows<E::Kept>,
        lumped: Rows,
        setup: &Setup,
        node: impl Fn(usize) -> PivotNode,
    ) -> Result<()> {
        for i in 0..self.inverse.len() {
            let kept = kept.map(|a| E::coupling(a[i], setup.unit));
            let lumped = (lumped[0][i] + lumped[1][i]) + (lumped[2][i] + lumped[3][i]);
            let center = Pivot::center(self.excess[i], kept, lumped);
            let pivot = Pivot::new(self.excess[i], kept, lumped, setup.lost());
            let pivot = pivot.checked(center, kept == [0.0; 4], setup, || node(i))?;
            self.inverse[i] = 1.0 / pivot.d;
            self.excess[i] = pivot.excess * self.inverse[i];
            if let Some(stored) = self.stored.get_mut(i) {
                *stored = E::Format::write(pivot.stored / setup.unit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::rrb::factor::tests::{random, setup};
    use crate::backend::cpu::rrb::number::{Brain, Single};
    use crate::backend::storage::Storage;

    /// Excess, four kept and four lumped couplings of n nodes. `awkward`: land, lone and floating nodes, pivots near
    /// nothing, too small, too large, not numbers.
    fn rows(n: usize, seed: u64, awkward: bool) -> [Vec<f64>; 9] {
        let mut state = seed * 0x9e37_79b9 + 1;
        let mut rows: [Vec<f64>; 9] = std::array::from_fn(|_| Vec::new());
        for i in 0..n {
            let case = if awkward { (random(&mut state) * 30.0) as usize } else { 30 };
            for (k, row) in rows.iter_mut().enumerate() {
                let v = random(&mut state);
                let magnitude = if k == 0 { 0.1 * v } else { -v };
                row.push(match (case, k) {
                    // Land; no kept couplings, with and without excess.
                    (1, _) => 0.0,
                    (2, 1..=4) => 0.0,
                    (3, 1..=4) => -0.0,
                    (3, 0) => 1e-9 * v,
                    // Lost in short formats.
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

    /// Both ways to the pivots of a row; `true`: the first one found no doubt.
    fn compare<E: Elimination>(rows: &[Vec<f64>; 9], kept: &[Vec<E::Kept>; 4], setup: &Setup, floating: bool) -> bool
    where
        StoredPivot<E>: PartialEq + std::fmt::Debug,
    {
        let n = rows[0].len();
        let lumped = [5, 6, 7, 8].map(|k| &rows[k][..]);
        let kept = kept.each_ref().map(|row| &row[..]);
        let node = |i: usize| PivotNode { level: 3, i, j: 5, center: 4.0, may_float: floating };
        let zeros = || vec![E::Format::write(0.0); if setup.storage == Storage::F64 { 0 } else { n }];
        let form = |at_once: bool| {
            let (mut excess, mut inverse, mut stored) = (rows[0].clone(), vec![0.0; n], zeros());
            let row = PivotRow::<E> { excess: &mut excess, inverse: &mut inverse, stored: &mut stored };
            let result = if at_once {
                row.form(kept, lumped, &mut vec![0.0; n], setup, node)
            } else {
                row.form_one_by_one(kept, lumped, setup, node)
            };
            result.map(|()| (bits(&excess), bits(&inverse), stored))
        };
        let one_by_one = form(false);
        assert_eq!(form(true), one_by_one);
        let (mut inverse, mut handed, mut stored) = (vec![0.0; n], vec![0.0; n], zeros());
        let (lost, unit) = (setup.lost(), setup.unit);
        let no_doubt = pivots::<E>(&mut inverse, &mut handed, &mut stored, &rows[0], kept, lumped, lost, unit);
        if no_doubt {
            assert_eq!(Ok((bits(&handed), bits(&inverse), stored)), one_by_one);
        }
        no_doubt
    }

    fn compare_formats(n: usize, seed: u64, awkward: bool, omega: f64) -> [bool; 6] {
        let rows = rows(n, seed, awkward);
        let wide = [1, 2, 3, 4].map(|k| rows[k].clone());
        let single = wide.each_ref().map(|row| row.iter().map(|v| Single::write(v / 0.5)).collect());
        let brain = wide.each_ref().map(|row| row.iter().map(|v| Brain::write(v / 0.25)).collect());
        let [f64, f32, bf16] = [(Storage::F64, 1.0), (Storage::F32, 0.5), (Storage::Bf16, 0.25)]
            .map(|(storage, unit)| setup(storage, omega, unit));
        let floating = seed.is_multiple_of(2);
        [
            compare::<OfReds<Double>>(&rows, &wide, &f64, floating),
            compare::<OfReds<Single>>(&rows, &wide, &f32, floating),
            compare::<OfReds<Brain>>(&rows, &wide, &bf16, floating),
            compare::<OfDropped<Double>>(&rows, &wide, &f64, floating),
            compare::<OfDropped<Single>>(&rows, &single, &f32, floating),
            compare::<OfDropped<Brain>>(&rows, &brain, &bf16, floating),
        ]
    }

    #[test]
    fn pivots_of_a_row_are_those_of_its_nodes() {
        for (n, seed) in [(0, 1), (1, 2), (7, 3), (64, 4), (129, 5), (1000, 6)] {
            for omega in [1.0, 0.95, 0.0] {
                assert_eq!(compare_formats(n, seed, false, omega), [true; 6]);
            }
        }
        let mut doubtful = 0;
        for seed in 0..600 {
            let n = 1 + seed as usize % 23;
            for omega in [1.0, 0.95, 0.0] {
                doubtful += compare_formats(n, seed, true, omega).iter().filter(|&&no_doubt| !no_doubt).count();
            }
        }
        // Many awkward rows are of either kind.
        assert!((1000..9800).contains(&doubtful), "{doubtful} of 10800 rows are doubtful");
    }
}
