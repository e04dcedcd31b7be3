//! A PCG iteration in two passes over memory. With Jacobi or a Neumann series of order N, the two passes are the whole
//! iteration. Other preconditioners run between the two passes. Let A = L + D + L^T with the diagonal D and the
//! strictly lower triangle L. The series is K = sum_{k=0..N} (-L D^-1)^k, and M^-1 = K^T D^-1 K. For Jacobi, N is 0.
//!
//! ```text
//! descend, rows upwards:    r = r - alpha P A p,  v = D^-1 K r,  <r, r>,  <r, M^-1 r> = <v, D v>
//! ascend, rows downwards:   z = K^T v,  x = x + alpha p,  p = z + beta p,  q = A p,  <p, q>,  Z^T q
//! ```
//!
//! The Neumann series needs no further passes over memory. Horner's rule computes the terms v_0 = D^-1 r and
//! v_k = D^-1 (r - L v_(k-1)) up to v_N = v, and then the terms z_0 = v and z_k = v - D^-1 L^T z_(k-1) up to z_N = z. A
//! row of v_k needs only this row and preceding rows of v_(k-1); a row of z_k needs only this row and following rows of
//! z_(k-1). These rows are at most one plane away and are stored in ring buffers. At the boundary of its range, a
//! thread recomputes those rows of other threads that it needs. The recomputed values are bitwise identical.
//!
//! The product q = A p is computed one plane behind p, while the couplings are still in the cache. Pieces that need p
//! of another thread are computed after a barrier. With t = E^-1 Z^T q,
//!
//! ```text
//! P A p = q - A Z t,   <p, P A p> = <p, q> - <Z^T q, t>.
//! ```
//!
//! Memory traffic: `descend` moves 64 bytes per cell (reads r, q and 4 matrix entries; writes r and v). `ascend` moves
//! 80 bytes per cell (reads v, p, x and 4 matrix entries; writes p, x and q). With another preconditioner, `descend`
//! computes only r = r - alpha P A p and <r, r>, which moves 24 bytes per cell.

use super::loops::{advance, horner_step, multiply, over_center, transposed_horner_step, weighted_square};
use super::state::Vectors;
use crate::base::loops::{combine, dot};
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cpu::steps::ThreadState;
use std::ops::Range;

/// Ring buffers of rows, one ring for each term but the final one. A ring contains the `ny` rows processed most
/// recently (one plane) and the current row. Each row is stored between two zeros.
struct Rings<'a> {
    values: &'a mut [f64],
    nx: usize,
    ny: usize,
}

impl Rings<'_> {
    /// Returns the index of the first cell of row `row` of a term.
    fn at(&self, term: usize, row: usize) -> usize {
        (term * (self.ny + 1) + row % (self.ny + 1)) * (self.nx + 2) + 1
    }

    /// Returns the rings of the terms before `term` for reading. Also returns a row for writing: `last` if it is given,
    /// otherwise row `row` of the ring of `term`.
    fn split<'s>(&'s mut self, term: usize, row: usize, last: Option<&'s mut [f64]>) -> (Rings<'s>, &'s mut [f64]) {
        let (start, at) = (term * (self.ny + 1) * (self.nx + 2), self.at(term, row));
        let (values, own) = self.values.split_at_mut(start);
        (Rings { values, ..*self }, last.unwrap_or_else(|| &mut own[at - start..][..self.nx]))
    }

    /// Returns the values of a term at the neighbours of a row to the west, south and bottom; with `after`, to the
    /// east, north and top.
    fn beside(&self, term: usize, row: usize, after: bool) -> [&[f64]; 3] {
        let (period, here) = (self.ny + 1, self.at(term, row));
        let others = if after { [row + 1, row + self.ny] } else { [row + period - 1, row + 1] };
        let along = if after { here + 1 } else { here - 1 };
        let [second, third] = others.map(|other| self.at(term, other));
        [along, second, third].map(|at| &self.values[at..][..self.nx])
    }
}

/// Returns the number of values of a thread's rings, including one row for z or P A p.
pub fn ring_values(order: usize, nx: usize, ny: usize) -> usize {
    order.max(1) * (ny + 1) * (nx + 2) + nx
}

impl ThreadState<'_> {
    /// Returns the order of the series (0 for Jacobi), or `None` for other preconditioners.
    pub(super) fn order(&self) -> Option<usize> {
        match self.state.preconditioner {
            Preconditioner::Jacobi => Some(0),
            Preconditioner::Neumann { order } => Some(order),
            _ => None,
        }
    }

    /// Returns the rings of this thread, and a row of workspace.
    #[expect(clippy::mut_from_ref, reason = "each thread has its own set")]
    fn rings(&self, order: usize) -> (Rings<'_>, &mut [f64]) {
        let cells = self.state.pieces.cells;
        let len = ring_values(order, cells.nx, cells.ny);
        // SAFETY: the rings belong to this thread. `descend` and `ascend` each borrow them once, and the borrow ends
        // with the pass.
        let values = unsafe { self.state.rings.slice_mut(self.me.index * len, len) };
        let (values, row) = values.split_at_mut(len - cells.nx);
        (Rings { values, nx: cells.nx, ny: cells.ny }, row)
    }

    /// Returns the cells of a row.
    fn cells_of(&self, row: usize) -> Range<usize> {
        let nx = self.state.pieces.cells.nx;
        row * nx..(row + 1) * nx
    }

    /// Returns the rows of this thread.
    fn own_rows(&self) -> Range<usize> {
        let share = self.state.pieces.share(self.me);
        if share.is_empty() {
            return 0..0;
        }
        self.state.pieces.rows(share.start).start..self.state.pieces.rows(share.end - 1).end
    }

    /// Computes r = r - alpha P A p for `rows`, with P A p = q - A Z t. P A p is stored in the row buffer `projected`,
    /// so q is not written to memory. With aggregation, however, q is overwritten by P A p, which the flexible beta
    /// needs.
    fn advance_residual_rows(&self, alpha: f64, rows: Range<usize>, projected: &mut [f64]) {
        let (k, Vectors { r, q, .. }) = (self.state, self.vectors());
        for row in rows {
            let cells = self.cells_of(row);
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            let (r, q) = unsafe { (r.range_mut(&cells), q.range_mut(&cells)) };
            let Some(d) = &k.deflation else {
                combine(r, 1.0, -alpha, q);
                continue;
            };
            projected.copy_from_slice(q);
            d.subtract_deflated(row, k.matrix.couplings(&cells), projected);
            combine(r, 1.0, -alpha, projected);
            if matches!(k.preconditioner, Preconditioner::Aggregation { .. }) {
                q.copy_from_slice(projected);
            }
        }
    }

    /// Executes `descend` for a preconditioner that is not fused (`State::unfused`): computes r = r - alpha P A p and
    /// returns <r, r>.
    pub(super) fn fused_update(&mut self, alpha: f64) -> f64 {
        let (k, r) = (self.state, &self.vectors().r);
        let (_, projected) = self.rings(0);
        let [norm2] = self.sums(|piece| {
            self.advance_residual_rows(alpha, k.pieces.rows(piece), projected);
            // SAFETY: the cells belong to this thread.
            let r = unsafe { r.range(&k.pieces.range(piece)) };
            [dot(r, r)]
        });
        self.norm2 = norm2;
        norm2
    }

    /// Computes the term v_k, k = `term`, in a row, and stores it in z if `last` is set, otherwise in the rings.
    fn lower_row(&self, rings: &mut Rings, term: usize, row: usize, last: bool) {
        let (Vectors { r, z, .. }, cells) = (self.vectors(), self.cells_of(row));
        let a = self.state.matrix.couplings(&cells);
        let [w, _, s, _, b, _] = a.near;
        // SAFETY: r was updated before a barrier or by this thread; z is written in cells of this thread.
        let (r, z) = unsafe { (r.range(&cells), if last { Some(z.range_mut(&cells)) } else { None }) };
        let (below, out) = rings.split(term, row, z);
        match term {
            0 => over_center(out, r, a.center),
            _ => horner_step(out, r, a.center, [w, s, b], below.beside(term - 1, row, false)),
        }
    }

    /// Executes `descend` with a series: updates r, unless `alpha` is `None`, and stores v in z. Returns <r, r>, and
    /// stores <r, M^-1 r> in `rho`.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>, order: usize) -> f64 {
        let own = self.own_rows();
        let halo = order * self.state.pieces.cells.ny;
        // The last `halo` rows of this thread, which other threads read, are updated before the barrier.
        let shared = own.end.saturating_sub(halo).max(own.start);
        let (mut rings, projected) = self.rings(order);
        if let Some(alpha) = alpha {
            self.advance_residual_rows(alpha, shared..own.end, projected);
        }
        self.me.barrier();
        for row in own.start.saturating_sub(halo)..own.start {
            // v_k is needed in the last `order` - k planes before the first row of this thread. If these rows reach
            // back to the first row of the grid (`reaches_grid_end`), no term lacks its preceding rows, so all terms
            // are computed.
            let planes = (own.start - row).div_ceil(self.state.pieces.cells.ny);
            let reaches_grid_end = own.start <= halo;
            (0..order).filter(|term| reaches_grid_end || planes + term <= order).for_each(|term| {
                self.lower_row(&mut rings, term, row, false);
            });
        }
        let (Vectors { r, z, .. }, pieces) = (self.vectors(), self.state.pieces);
        let [norm2, rho] = self.sums(|piece| {
            let (mut norm2, mut rho) = (0.0, 0.0);
            for row in pieces.rows(piece) {
                if let Some(alpha) = alpha.filter(|_| row < shared) {
                    self.advance_residual_rows(alpha, row..row + 1, projected);
                }
                (0..order).for_each(|term| self.lower_row(&mut rings, term, row, false));
                self.lower_row(&mut rings, order, row, true);
                let cells = self.cells_of(row);
                let center = self.state.matrix.couplings(&cells).center;
                // SAFETY: the cells belong to this thread.
                let (r, v) = unsafe { (r.range(&cells), z.range(&cells)) };
                norm2 += dot(r, r);
                rho += weighted_square(v, center);
            }
            [norm2, rho]
        });
        self.rho = rho;
        norm2
    }

    /// Computes the term z_k, k = `term`, in a row, and stores it in `last` if present, otherwise in the rings.
    fn upper_row(&self, rings: &mut Rings, term: usize, row: usize, last: Option<&mut [f64]>) {
        let cells = self.cells_of(row);
        let a = self.state.matrix.couplings(&cells);
        let [_, e, _, n, _, t] = a.near;
        // SAFETY: no thread writes v, which is stored in the vector z, during `ascend`.
        let v = unsafe { self.vectors().z.range(&cells) };
        let (below, out) = rings.split(term, row, last);
        match term {
            0 => out.copy_from_slice(v),
            _ => transposed_horner_step(out, v, a.center, [e, n, t], below.beside(term - 1, row, true)),
        }
    }

    /// Computes q = A p in a piece, and its contribution to Z^T q. Returns its contribution to <p, q>.
    fn multiply_piece(&self, piece: usize) -> f64 {
        let (k, Vectors { p, q, .. }) = (self.state, self.vectors());
        let cells = k.pieces.range(piece);
        // SAFETY: `fused_ascend` has updated p in these cells and their neighbours; q is written in cells of this
        // thread.
        let (q, p) = unsafe { (q.range_mut(&cells), p.around(&cells)) };
        multiply(q, k.matrix.couplings(&cells), p);
        if let Some(d) = &k.deflation {
            // SAFETY: the piece belongs to this thread, and is summed once per pass, without interruption.
            let mut sums = unsafe { d.begin_piece(self.me, piece, true) };
            let rows = k.pieces.rows(piece).zip(q.chunks_exact(k.pieces.cells.nx));
            rows.for_each(|(row, q)| sums.add(row, q));
        }
        dot(p.here, q)
    }

    /// Executes `ascend`: computes z from v, and updates x, p and q, row by row in descending order. `step` contains
    /// alpha and beta. At the start of a solve, it is `None`; then p = z, and x is unchanged. For preconditioners
    /// without a series, `order` is 0, and the vector z contains M^-1 r on entry. Returns <p, P A p>.
    pub(super) fn fused_ascend(&mut self, step: Option<(f64, f64)>, order: usize) -> f64 {
        let (k, own) = (self.state, self.own_rows());
        let (pieces, rows) = (k.pieces, k.pieces.cells.rows());
        let ny = pieces.cells.ny;
        let halo = order * ny;
        let partials = self.reduction::<1>();
        let (mut rings, last) = self.rings(order);
        let end = (own.end + halo).min(rows);
        for row in (own.end..end).rev() {
            // z_k is needed in the first `order` - k planes after the rows of this thread, or in all rows up to the
            // last row of the grid (see `fused_descend`).
            let planes = (row + 1 - own.end).div_ceil(ny);
            let reaches_grid_end = own.end + halo >= rows;
            (0..order).filter(|term| reaches_grid_end || planes + term <= order).for_each(|term| {
                self.upper_row(&mut rings, term, row, None);
            });
        }
        let share = pieces.share(self.me);
        // Returns whether this thread owns the piece, the plane of rows before it and the plane of rows after it.
        let inside = |piece: usize| {
            let beside = pieces.rows(piece);
            let below = beside.start.saturating_sub(ny);
            below >= own.start && (beside.end + ny).min(rows) <= own.end
        };
        let mut next = share.end;
        let note = |piece: usize| {
            let energy = self.multiply_piece(piece);
            // SAFETY: the piece belongs to this thread.
            unsafe { partials.store(piece, [energy]) };
        };
        let Vectors { x, p, z, .. } = self.vectors();
        for row in own.clone().rev() {
            let cells = self.cells_of(row);
            if order > 0 {
                (0..order).for_each(|term| self.upper_row(&mut rings, term, row, None));
                self.upper_row(&mut rings, order, row, Some(&mut *last));
            }
            // SAFETY: the cells belong to this thread; the other threads read p only after the barrier below.
            let (x, p, v) = unsafe { (x.range_mut(&cells), p.range_mut(&cells), z.range(&cells)) };
            let z = if order > 0 { &*last } else { v };
            match step {
                Some((alpha, beta)) => advance(x, alpha, p, z, beta),
                None => p.copy_from_slice(z),
            }
            while next > share.start && pieces.rows(next - 1).start.saturating_sub(ny) >= row {
                next -= 1;
                if inside(next) {
                    note(next);
                }
            }
        }
        self.me.barrier();
        share.filter(|&piece| !inside(piece)).for_each(note);
        let [energy] = partials.sum(Some(self.me));
        match &k.deflation {
            Some(d) => energy - self.solve_from_partial_sums(d),
            None => energy,
        }
    }
}
