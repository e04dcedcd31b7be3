//! An iteration in two passes over memory: with a Neumann series (or Jacobi, its order 0) those are all, a
//! preconditioner that is applied as a whole stands between them.
//!
//! ```text
//! descend, rows upwards:    r = r - alpha P A p,  v = D^-1 K r,  <r, r>,  <r, M^-1 r> = <v, D v>
//! ascend, rows downwards:   z = K^T v,  x = x + alpha p,  p = z + beta p,  q = A p,  <p, q>,  Z^T q
//! ```
//!
//! Both triangles of the series need rows already passed alone: v_k = D^-1 (r - L v_k-1) those before a row, z_k = v -
//! D^-1 L^T z_k-1 those after it, of the plane beside it at most; they are kept in rings of rows. Where a member begins
//! it computes the rows of the others that it needs once again: the same numbers, whoever does them. q follows p by a
//! plane, while the couplings are in cache; pieces that need p of another member come after a barrier. With P A p = q -
//! A Z t, t = E^-1 Z^T q, <p, P A p> = <p, q> - <Z^T q, t>.
//!
//! Bytes a cell and iteration: 64 downwards (r, q, 4 couplings; r and v), 80 upwards (v, p, x, 4 couplings; p, x and
//! q). Where M is applied as a whole, descend is r = r - alpha P A p and <r, r>, 24 bytes, and z is there for ascend.

use super::loops::{add_scaled, advance, dot, multiply, triangle, triangle_of_scaled, weighted_square};
use super::member::Member;
use super::state::Vectors;
use crate::backend::steps::dpcg::Preconditioner;
use std::ops::Range;

/// Rows of cells that a triangle needs, one ring for each term of the series: the last plane and the row in work, each
/// row between two zeros.
struct Rings<'a> {
    values: &'a mut [f64],
    nx: usize,
    ny: usize,
}

impl Rings<'_> {
    /// Where row `row` of a term is, its first cell.
    fn at(&self, term: usize, row: usize) -> usize {
        (term * (self.ny + 1) + row % (self.ny + 1)) * (self.nx + 2) + 1
    }

    fn row_mut(&mut self, term: usize, row: usize) -> &mut [f64] {
        let at = self.at(term, row);
        &mut self.values[at..][..self.nx]
    }

    /// Of a term: the values to the west, south and bottom of a row, or (`after`) to the east, north and top.
    fn beside(&self, term: usize, row: usize, after: bool) -> [&[f64]; 3] {
        let (period, here) = (self.ny + 1, self.at(term, row));
        let others = if after { [row + 1, row + self.ny] } else { [row + period - 1, row + 1] };
        let along = if after { here + 1 } else { here - 1 };
        let [second, third] = others.map(|other| self.at(term, other));
        [along, second, third].map(|at| &self.values[at..][..self.nx])
    }
}

/// Values of the rings of a member, and of a row of z, or of P A p.
pub fn ring_values(order: usize, nx: usize, ny: usize) -> usize {
    order.max(1) * (ny + 1) * (nx + 2) + nx
}

impl Member<'_> {
    /// Terms of the series after the first; none where M is no series.
    pub(super) fn order(&self) -> Option<usize> {
        match self.k.preconditioner {
            Preconditioner::Jacobi => Some(0),
            Preconditioner::Neumann { order } => Some(order),
            _ => None,
        }
    }

    /// Its rings, and a row.
    #[expect(clippy::mut_from_ref, reason = "each thread has its own set")]
    fn rings(&self, order: usize) -> (Rings<'_>, &mut [f64]) {
        let cells = self.k.pieces.cells;
        let len = ring_values(order, cells.nx, cells.ny);
        // SAFETY: the rings of this member, which begins and ends its work with them within one stage.
        let values = unsafe { self.k.rings.slice_mut(self.me.index * len, len) };
        let (values, row) = values.split_at_mut(len - cells.nx);
        (Rings { values, nx: cells.nx, ny: cells.ny }, row)
    }

    /// Cells of a row.
    fn cells_of(&self, row: usize) -> Range<usize> {
        let nx = self.k.pieces.cells.nx;
        row * nx..(row + 1) * nx
    }

    /// Rows of this member.
    fn own_rows(&self) -> Range<usize> {
        let share = self.k.pieces.share(self.me);
        if share.is_empty() {
            return 0..0;
        }
        self.k.pieces.rows(share.start).start..self.k.pieces.rows(share.end - 1).end
    }

    /// r = r - alpha P A p in rows, P A p = q - A Z t. A row of that is in `projected`, so that q need not go to memory
    /// again; where beta asks for P A p, since M changes, q becomes that.
    fn advance_residual_rows(&self, alpha: f64, rows: Range<usize>, projected: &mut [f64]) {
        let (k, Vectors { r, q, .. }) = (self.k, self.vectors());
        for row in rows {
            let cells = self.cells_of(row);
            // SAFETY: cells of this member, which no other reads in this step.
            let (r, q) = unsafe { (r.range_mut(&cells), q.range_mut(&cells)) };
            let Some(d) = &k.deflation else {
                add_scaled(r, -alpha, q);
                continue;
            };
            projected.copy_from_slice(q);
            d.subtract(row, k.matrix.couplings(&cells), projected);
            add_scaled(r, -alpha, projected);
            if matches!(k.preconditioner, Preconditioner::Aggregation { .. }) {
                q.copy_from_slice(projected);
            }
        }
    }

    /// `descend` where M is applied as a whole.
    pub(super) fn fused_update(&mut self, alpha: f64) -> f64 {
        let (k, r) = (self.k, &self.vectors().r);
        let (_, projected) = self.rings(0);
        let [norm2] = self.sums(|piece| {
            self.advance_residual_rows(alpha, k.pieces.rows(piece), projected);
            // SAFETY: cells of this member.
            let r = unsafe { r.range(&k.pieces.range(piece)) };
            [dot(r, r)]
        });
        self.norm2 = norm2;
        norm2
    }

    /// v_term of a row, to the rings, or with `last` to z.
    fn lower_row(&self, rings: &mut Rings, term: usize, row: usize, last: bool) {
        let (Vectors { r, z, .. }, cells) = (self.vectors(), self.cells_of(row));
        let a = self.k.matrix.couplings(&cells);
        let [w, _, s, _, b, _] = a.near;
        // SAFETY: r was advanced before a barrier, or by this member; z is written in cells of this member.
        let (r, out) = unsafe { (r.range(&cells), if last { Some(z.range_mut(&cells)) } else { None }) };
        if term == 0 {
            let out = out.unwrap_or_else(|| rings.row_mut(0, row));
            return super::loops::over_center(out, r, a.center);
        }
        match out {
            Some(out) => triangle(out, r, a.center, [w, s, b], rings.beside(term - 1, row, false)),
            None => {
                let (before, after) = rings.values.split_at_mut(term * (rings.ny + 1) * (rings.nx + 2));
                let below = Rings { values: before, nx: rings.nx, ny: rings.ny };
                let mut above = Rings { values: after, nx: rings.nx, ny: rings.ny };
                triangle(above.row_mut(0, row), r, a.center, [w, s, b], below.beside(term - 1, row, false));
            }
        }
    }

    /// `descend`; <r, M^-1 r> is kept.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>, order: usize) -> f64 {
        let own = self.own_rows();
        let halo = order * self.k.pieces.cells.ny;
        // What others need is advanced first.
        let shared = own.end.saturating_sub(halo).max(own.start);
        let (mut rings, projected) = self.rings(order);
        if let Some(alpha) = alpha {
            self.advance_residual_rows(alpha, shared..own.end, projected);
        }
        self.me.barrier();
        for row in own.start.saturating_sub(halo)..own.start {
            // Of term m, only the last order - m planes before the first row are needed, and can be had.
            let planes = (own.start - row).div_ceil(self.k.pieces.cells.ny);
            let known = own.start <= halo;
            (0..order).filter(|term| known || planes + term <= order).for_each(|term| {
                self.lower_row(&mut rings, term, row, false);
            });
        }
        let (Vectors { r, z, .. }, pieces) = (self.vectors(), self.k.pieces);
        let [norm2, rho] = self.sums(|piece| {
            let (mut norm2, mut rho) = (0.0, 0.0);
            for row in pieces.rows(piece) {
                if let Some(alpha) = alpha.filter(|_| row < shared) {
                    self.advance_residual_rows(alpha, row..row + 1, projected);
                }
                (0..order).for_each(|term| self.lower_row(&mut rings, term, row, false));
                self.lower_row(&mut rings, order, row, true);
                let cells = self.cells_of(row);
                let center = self.k.matrix.couplings(&cells).center;
                // SAFETY: cells of this member.
                let (r, v) = unsafe { (r.range(&cells), z.range(&cells)) };
                norm2 += dot(r, r);
                rho += weighted_square(v, center);
            }
            [norm2, rho]
        });
        self.rho = rho;
        norm2
    }

    /// z_term of a row, to the rings; with `last` to `out`.
    fn upper_row(&self, rings: &mut Rings, term: usize, row: usize, last: Option<&mut [f64]>) {
        let cells = self.cells_of(row);
        let a = self.k.matrix.couplings(&cells);
        let [_, e, _, n, _, t] = a.near;
        // SAFETY: nobody writes v in this stage.
        let v = unsafe { self.vectors().z.range(&cells) };
        if term == 0 {
            return rings.row_mut(0, row).copy_from_slice(v);
        }
        match last {
            Some(out) => triangle_of_scaled(out, v, a.center, [e, n, t], rings.beside(term - 1, row, true)),
            None => {
                let (before, after) = rings.values.split_at_mut(term * (rings.ny + 1) * (rings.nx + 2));
                let below = Rings { values: before, nx: rings.nx, ny: rings.ny };
                let mut above = Rings { values: after, nx: rings.nx, ny: rings.ny };
                let out = above.row_mut(0, row);
                triangle_of_scaled(out, v, a.center, [e, n, t], below.beside(term - 1, row, true));
            }
        }
    }

    /// q = A p in a piece, Z^T q of it, and <p, q>.
    fn multiply_piece(&self, piece: usize) -> f64 {
        let (k, Vectors { p, q, .. }) = (self.k, self.vectors());
        let cells = k.pieces.range(piece);
        // SAFETY: p of these cells and those beside them is there, see `fused_ascend`; writes cells of this member.
        let (q, p) = unsafe { (q.range_mut(&cells), p.around(&cells)) };
        multiply(q, k.matrix.couplings(&cells), p);
        if let Some(d) = &k.deflation {
            // SAFETY: a piece of this member, done once in this stage.
            let mut sums = unsafe { d.begin(self.me, piece, true) };
            let rows = k.pieces.rows(piece).zip(q.chunks_exact(k.pieces.cells.nx));
            rows.for_each(|(row, q)| sums.add(row, q));
        }
        dot(p.here, q)
    }

    /// `ascend`.
    pub(super) fn fused_ascend(&mut self, step: Option<(f64, f64)>, order: usize) -> f64 {
        let (k, own) = (self.k, self.own_rows());
        let (pieces, rows) = (k.pieces, k.pieces.cells.rows());
        let ny = pieces.cells.ny;
        let halo = order * ny;
        let noted = self.reduction::<1>();
        let (mut rings, last) = self.rings(order);
        let end = (own.end + halo).min(rows);
        for row in (own.end..end).rev() {
            let planes = (row + 1 - own.end).div_ceil(ny);
            let known = own.end + halo >= rows;
            (0..order).filter(|term| known || planes + term <= order).for_each(|term| {
                self.upper_row(&mut rings, term, row, None);
            });
        }
        let share = pieces.share(self.me);
        // Whether p beside a piece is this member's own.
        let inside = |piece: usize| {
            let beside = pieces.rows(piece);
            let below = beside.start.saturating_sub(ny);
            below >= own.start && (beside.end + ny).min(rows) <= own.end
        };
        let mut next = share.end;
        let note = |piece: usize| {
            let energy = self.multiply_piece(piece);
            // SAFETY: a piece of this member.
            unsafe { noted.note(piece, [energy]) };
        };
        let Vectors { x, p, z, .. } = self.vectors();
        for row in own.clone().rev() {
            let cells = self.cells_of(row);
            if order > 0 {
                (0..order).for_each(|term| self.upper_row(&mut rings, term, row, None));
                self.upper_row(&mut rings, order, row, Some(&mut *last));
            }
            // SAFETY: cells of this member; others read p after the barrier below.
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
        let [energy] = noted.sum(Some(self.me));
        match &k.deflation {
            Some(d) => energy - self.solve_noted(d),
            None => energy,
        }
    }
}
