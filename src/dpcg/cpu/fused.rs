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
//! The product q = A p is computed one plane behind p, while the couplings are still in the cache. A thread computes q
//! piece by piece (`Pieces`: ranges of rows). Pieces that need p of another thread are computed after a barrier. P A p
//! and <p, P A p> are computed from t = E^-1 Z^T q:
//!
//! ```text
//! P A p = q - A Z t,   <p, P A p> = <p, q> - <Z^T q, t>.
//! ```
//!
//! Memory traffic: `descend` moves 64 bytes per cell (reads r, q and 4 matrix entries; writes r and v). `ascend` moves
//! 80 bytes per cell (reads v, p, x and 4 matrix entries; writes p, x and q). With another preconditioner, `descend`
//! computes only r = r - alpha P A p and <r, r>, which moves 24 bytes per cell.

use super::loops::{divide_by_center, horner_step, multiply, transposed_horner_step, update_x_and_p, weighted_square};
use super::state::Vectors;
use crate::base::loops::{combine, dot};
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cpu::steps::ThreadState;
use std::ops::Range;

/// Ring buffers of rows: one ring for each term v_k or z_k, except the final term. A ring contains the `ny` rows
/// processed most recently (one plane) and the current row. Each row is stored between two zeros.
struct RowRings<'a> {
    values: &'a mut [f64],
    nx: usize,
    ny: usize,
}

impl RowRings<'_> {
    /// Returns the index in `values` of the first cell of row `row` of a term.
    fn row_start(&self, term: usize, row: usize) -> usize {
        (term * (self.ny + 1) + row % (self.ny + 1)) * (self.nx + 2) + 1
    }

    /// Returns the rings of the terms before `term` for reading. Also returns a row for writing: `output_row` if it is
    /// given, otherwise row `row` of the ring of `term`.
    fn split_at_term<'s>(
        &'s mut self,
        term: usize,
        row: usize,
        output_row: Option<&'s mut [f64]>,
    ) -> (RowRings<'s>, &'s mut [f64]) {
        let (ring_start, row_start) = (term * (self.ny + 1) * (self.nx + 2), self.row_start(term, row));
        let (values, later_rings) = self.values.split_at_mut(ring_start);
        (
            RowRings { values, ..*self },
            output_row.unwrap_or_else(|| &mut later_rings[row_start - ring_start..][..self.nx]),
        )
    }

    /// Returns the values of a term at the west, south and bottom neighbours of the cells of a row. With `is_upper`,
    /// returns the values at the east, north and top neighbours.
    fn neighbour_rows(&self, term: usize, row: usize, is_upper: bool) -> [&[f64]; 3] {
        let (rows_per_ring, own_start) = (self.ny + 1, self.row_start(term, row));
        let adjacent_rows = if is_upper { [row + 1, row + self.ny] } else { [row + rows_per_ring - 1, row + 1] };
        let x_start = if is_upper { own_start + 1 } else { own_start - 1 };
        let [y_start, z_start] = adjacent_rows.map(|adjacent_row| self.row_start(term, adjacent_row));
        [x_start, y_start, z_start].map(|row_start| &self.values[row_start..][..self.nx])
    }
}

/// Returns the number of values of the rings of a thread, and of one row of workspace for z or P A p.
pub fn ring_value_count(order: usize, nx: usize, ny: usize) -> usize {
    order.max(1) * (ny + 1) * (nx + 2) + nx
}

impl ThreadState<'_> {
    /// Returns the order of the series (0 for Jacobi), or `None` for other preconditioners.
    pub(super) fn series_order(&self) -> Option<usize> {
        match self.state.preconditioner {
            Preconditioner::Jacobi => Some(0),
            Preconditioner::Neumann { order } => Some(order),
            _ => None,
        }
    }

    /// Returns the rings of this thread, and a row of workspace.
    #[expect(clippy::mut_from_ref, reason = "each thread has its own set")]
    fn row_rings(&self, order: usize) -> (RowRings<'_>, &mut [f64]) {
        let cells = self.state.pieces.cells;
        let len = ring_value_count(order, cells.nx, cells.ny);
        // SAFETY: the rings belong to this thread. `descend` and `ascend` each borrow them once, and the borrow ends
        // with the pass.
        let values = unsafe { self.state.row_rings.slice_mut(self.thread.index * len, len) };
        let (values, row) = values.split_at_mut(len - cells.nx);
        (RowRings { values, nx: cells.nx, ny: cells.ny }, row)
    }

    /// Returns the cells of a row.
    fn row_cells(&self, row: usize) -> Range<usize> {
        let nx = self.state.pieces.cells.nx;
        row * nx..(row + 1) * nx
    }

    /// Returns the rows of this thread.
    fn own_rows(&self) -> Range<usize> {
        let own_pieces = self.state.pieces.share(self.thread);
        if own_pieces.is_empty() {
            return 0..0;
        }
        self.state.pieces.rows(own_pieces.start).start..self.state.pieces.rows(own_pieces.end - 1).end
    }

    /// Computes r = r - alpha P A p for `rows`, with P A p = q - A Z t. P A p is stored in the row buffer
    /// `projected_q`. With aggregation, P A p also overwrites q, because the flexible beta needs P A p. Otherwise, q is
    /// not written.
    fn advance_residual_rows(&self, alpha: f64, rows: Range<usize>, projected_q: &mut [f64]) {
        let (state, Vectors { r, q, .. }) = (self.state, self.vectors());
        for row in rows {
            let cells = self.row_cells(row);
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            let (r, q) = unsafe { (r.slice_mut(&cells), q.slice_mut(&cells)) };
            let Some(deflation) = &state.deflation else {
                combine(r, 1.0, -alpha, q);
                continue;
            };
            projected_q.copy_from_slice(q);
            deflation.subtract_deflated(row, state.matrix.couplings(&cells), projected_q);
            combine(r, 1.0, -alpha, projected_q);
            if matches!(state.preconditioner, Preconditioner::Aggregation { .. }) {
                q.copy_from_slice(projected_q);
            }
        }
    }

    /// Executes `descend` for preconditioners without a series: computes r = r - alpha P A p and returns <r, r>.
    pub(super) fn fused_residual_update(&mut self, alpha: f64) -> f64 {
        let (state, r) = (self.state, &self.vectors().r);
        let (_, projected_q) = self.row_rings(0);
        let [residual_norm2] = self.sum_over_pieces(|piece| {
            self.advance_residual_rows(alpha, state.pieces.rows(piece), projected_q);
            // SAFETY: the cells belong to this thread.
            let r = unsafe { r.slice(&state.pieces.range(piece)) };
            [dot(r, r)]
        });
        self.residual_norm2 = residual_norm2;
        residual_norm2
    }

    /// Computes the term v_k, k = `term`, in a row. Stores this term in the vector z if `is_final_term` is set,
    /// otherwise in the rings.
    fn compute_lower_term(&self, row_rings: &mut RowRings, term: usize, row: usize, is_final_term: bool) {
        let (Vectors { r, z, .. }, cells) = (self.vectors(), self.row_cells(row));
        let a = self.state.matrix.couplings(&cells);
        let [w, _, s, _, b, _] = a.axis_couplings;
        // SAFETY: r was updated before a barrier or by this thread; z is written in cells of this thread.
        let (r, z) = unsafe { (r.slice(&cells), if is_final_term { Some(z.slice_mut(&cells)) } else { None }) };
        let (previous_rings, out) = row_rings.split_at_term(term, row, z);
        match term {
            0 => divide_by_center(out, r, a.center),
            _ => horner_step(out, r, a.center, [w, s, b], previous_rings.neighbour_rows(term - 1, row, false)),
        }
    }

    /// Executes `descend` with a series: computes r = r - alpha P A p, unless `alpha` is `None`, and stores v in the
    /// vector z. Returns <r, r>, and stores <r, M^-1 r> in `rho`.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>, order: usize) -> f64 {
        let own_rows = self.own_rows();
        let halo_rows = order * self.state.pieces.cells.ny;
        // The last `halo_rows` rows of this thread, which other threads read, are updated before the barrier.
        let first_shared_row = own_rows.end.saturating_sub(halo_rows).max(own_rows.start);
        let (mut row_rings, projected_q) = self.row_rings(order);
        if let Some(alpha) = alpha {
            self.advance_residual_rows(alpha, first_shared_row..own_rows.end, projected_q);
        }
        self.thread.barrier();
        for row in own_rows.start.saturating_sub(halo_rows)..own_rows.start {
            // v_k is needed in the last `order` - k planes before the first row of this thread. If the halo begins at
            // the first row of the grid (`reaches_grid_end`), no preceding rows are missing, so all terms are computed
            // in all rows of the halo.
            let plane_distance = (own_rows.start - row).div_ceil(self.state.pieces.cells.ny);
            let reaches_grid_end = own_rows.start <= halo_rows;
            (0..order).filter(|term| reaches_grid_end || plane_distance + term <= order).for_each(|term| {
                self.compute_lower_term(&mut row_rings, term, row, false);
            });
        }
        let (Vectors { r, z, .. }, pieces) = (self.vectors(), self.state.pieces);
        let [residual_norm2, rho] = self.sum_over_pieces(|piece| {
            let (mut residual_norm2, mut rho) = (0.0, 0.0);
            for row in pieces.rows(piece) {
                if let Some(alpha) = alpha.filter(|_| row < first_shared_row) {
                    self.advance_residual_rows(alpha, row..row + 1, projected_q);
                }
                (0..order).for_each(|term| self.compute_lower_term(&mut row_rings, term, row, false));
                self.compute_lower_term(&mut row_rings, order, row, true);
                let cells = self.row_cells(row);
                let center = self.state.matrix.couplings(&cells).center;
                // SAFETY: the cells belong to this thread.
                let (r, v) = unsafe { (r.slice(&cells), z.slice(&cells)) };
                residual_norm2 += dot(r, r);
                rho += weighted_square(v, center);
            }
            [residual_norm2, rho]
        });
        self.rho = rho;
        residual_norm2
    }

    /// Computes the term z_k, k = `term`, in a row. Stores this term in `output_row` if that is given, otherwise in the
    /// rings.
    fn compute_upper_term(&self, row_rings: &mut RowRings, term: usize, row: usize, output_row: Option<&mut [f64]>) {
        let cells = self.row_cells(row);
        let a = self.state.matrix.couplings(&cells);
        let [_, e, _, n, _, t] = a.axis_couplings;
        // SAFETY: no thread writes v, which is stored in the vector z, during `ascend`.
        let v = unsafe { self.vectors().z.slice(&cells) };
        let (previous_rings, out) = row_rings.split_at_term(term, row, output_row);
        match term {
            0 => out.copy_from_slice(v),
            _ => {
                transposed_horner_step(out, v, a.center, [e, n, t], previous_rings.neighbour_rows(term - 1, row, true))
            }
        }
    }

    /// Computes q = A p in a piece, and the contribution of this piece to Z^T q. Returns the contribution of this piece
    /// to <p, q>.
    fn multiply_piece(&self, piece: usize) -> f64 {
        let (state, Vectors { p, q, .. }) = (self.state, self.vectors());
        let cells = state.pieces.range(piece);
        // SAFETY: `fused_ascend` has updated p in these cells and their neighbours; q is written in cells of this
        // thread.
        let (q, p) = unsafe { (q.slice_mut(&cells), p.with_neighbours(&cells)) };
        multiply(q, state.matrix.couplings(&cells), p);
        if let Some(deflation) = &state.deflation {
            // SAFETY: the piece belongs to this thread, and is summed once per pass, without interruption.
            let mut region_sums = unsafe { deflation.begin_piece(self.thread, piece, true) };
            let rows = state.pieces.rows(piece).zip(q.chunks_exact(state.pieces.cells.nx));
            rows.for_each(|(row, q)| region_sums.add(row, q));
        }
        dot(p.own_values, q)
    }

    /// Executes `ascend`: computes z from v, and updates x, p and q, row by row in descending order. `alpha_and_beta`
    /// contains alpha and beta. `None` means the start of a solve: p = z, and x is unchanged. For preconditioners
    /// without a series, `order` is 0, and the vector z contains M^-1 r on entry. Returns <p, P A p>.
    pub(super) fn fused_ascend(&mut self, alpha_and_beta: Option<(f64, f64)>, order: usize) -> f64 {
        let (state, own_rows) = (self.state, self.own_rows());
        let (pieces, rows) = (state.pieces, state.pieces.cells.rows());
        let ny = pieces.cells.ny;
        let halo_rows = order * ny;
        let partials = self.begin_reduction::<1>();
        let (mut row_rings, z_row) = self.row_rings(order);
        let halo_end = (own_rows.end + halo_rows).min(rows);
        for row in (own_rows.end..halo_end).rev() {
            // z_k is needed in the first `order` - k planes after the rows of this thread. If the halo ends at the last
            // row of the grid, all terms are computed in all rows of the halo.
            let plane_distance = (row + 1 - own_rows.end).div_ceil(ny);
            let reaches_grid_end = own_rows.end + halo_rows >= rows;
            (0..order).filter(|term| reaches_grid_end || plane_distance + term <= order).for_each(|term| {
                self.compute_upper_term(&mut row_rings, term, row, None);
            });
        }
        let own_pieces = pieces.share(self.thread);
        // Returns whether this thread owns the piece, the plane of rows before it and the plane of rows after it.
        let is_piece_inside = |piece: usize| {
            let piece_rows = pieces.rows(piece);
            let first_needed_row = piece_rows.start.saturating_sub(ny);
            first_needed_row >= own_rows.start && (piece_rows.end + ny).min(rows) <= own_rows.end
        };
        let mut next_piece = own_pieces.end;
        let multiply_and_store = |piece: usize| {
            let energy = self.multiply_piece(piece);
            // SAFETY: the piece belongs to this thread.
            unsafe { partials.store(piece, [energy]) };
        };
        let Vectors { x, p, z, .. } = self.vectors();
        for row in own_rows.clone().rev() {
            let cells = self.row_cells(row);
            if order > 0 {
                (0..order).for_each(|term| self.compute_upper_term(&mut row_rings, term, row, None));
                self.compute_upper_term(&mut row_rings, order, row, Some(&mut *z_row));
            }
            // SAFETY: the cells belong to this thread; the other threads read p only after the barrier below.
            let (x, p, v) = unsafe { (x.slice_mut(&cells), p.slice_mut(&cells), z.slice(&cells)) };
            let z = if order > 0 { &*z_row } else { v };
            match alpha_and_beta {
                Some((alpha, beta)) => update_x_and_p(x, alpha, p, z, beta),
                None => p.copy_from_slice(z),
            }
            while next_piece > own_pieces.start && pieces.rows(next_piece - 1).start.saturating_sub(ny) >= row {
                next_piece -= 1;
                if is_piece_inside(next_piece) {
                    multiply_and_store(next_piece);
                }
            }
        }
        self.thread.barrier();
        own_pieces.filter(|&piece| !is_piece_inside(piece)).for_each(multiply_and_store);
        let [energy] = partials.sum(Some(self.thread));
        match &state.deflation {
            Some(deflation) => energy - self.solve_from_partial_sums(deflation),
            None => energy,
        }
    }
}
