//! One member of a run: the steps of PCG, the textbook ones, each over this member's pieces.
//!
//! A step writes cells of its own and reads arrays that no member writes in it; a barrier stands between a step and the
//! next that reads its neighbours' cells. That is what the unsafe blocks rest on.

use super::field::Field;
use super::loops::{add_scaled, direct, dot, largest, multiply, over_center, residual, triangle, triangle_of_scaled};
use super::regions::Projection;
use super::state::{State, Vectors};
use super::whole::Turns;
use crate::backend::cpu::caller::Caller;
use crate::backend::steps::dpcg::Preconditioner;
use crate::backend::steps::pcg::{Centered, PcgSteps};
use crate::backend::steps::series::{SeriesSteps, series};
use crate::backend::steps::vectors::{VectorId, VectorSteps};
use crate::report::{Event, Observer};
use crate::runtime::reduce::{Reduce, max_abs};
use crate::runtime::team::Me;
use std::cell::Cell;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// One member of a run.
pub struct Member<'a> {
    pub(super) k: &'a State,
    pub(super) me: Me<'a>,
    pub(super) caller: &'a Caller<'a>,
    /// On member 0.
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// Counts reductions.
    turn: Cell<usize>,
    /// <r, M^-1 r> of the last fused descend.
    pub(super) rho: f64,
    /// <r, r>, where M is applied as a whole.
    pub(super) norm2: f64,
    /// The last step, with which r became r - alpha q.
    alpha: f64,
    turns: Turns<'a>,
}

impl<'a> Member<'a> {
    pub fn new(k: &'a State, me: Me<'a>, caller: &'a Caller<'a>, observer: Option<&'a mut dyn Observer>) -> Self {
        Self { k, me, caller, observer, turn: Cell::new(0), rho: 0.0, norm2: 0.0, alpha: 0.0, turns: Turns::new(me) }
    }

    pub(super) fn vectors(&self) -> &'a Vectors {
        &self.k.vectors
    }

    fn vector(&self, id: VectorId) -> &'a Field {
        let Vectors { x, b, r, p, q, z, .. } = self.vectors();
        [x, b, r, p, q, z][id.0]
    }

    /// Calls `f` with the cells of each piece of this member.
    pub(super) fn each(&self, mut f: impl FnMut(Range<usize>)) {
        self.k.pieces.share(self.me).for_each(|piece| f(self.k.pieces.range(piece)));
    }

    /// The caller's rows of this member: rows and their cells.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (pieces, nx) = (self.k.pieces, self.k.pieces.cells.nx);
        let rows = pieces.share(self.me).flat_map(move |piece| pieces.rows(piece));
        rows.map(move |row| (row, row * nx..(row + 1) * nx))
    }

    pub(super) fn input(&self, row: usize) -> &'a [f64] {
        self.caller.input(row, self.k.pieces.cells.nx)
    }

    /// # Safety
    /// The row must be of this member's pieces.
    pub(super) unsafe fn output(&self, row: usize) -> &'a mut [f64] {
        // SAFETY: no other member uses this row, as the caller promised.
        unsafe { self.caller.output(row, self.k.pieces.cells.nx) }
    }

    /// Begins a reduction over the pieces.
    pub(super) fn reduction<const N: usize>(&self) -> Reduce<'a, N> {
        self.turn.set(self.turn.get() + 1);
        self.k.vectors.noted.reduce(self.turn.get(), self.k.pieces.count())
    }

    /// What `of` gives for the pieces, noted.
    fn note<const N: usize>(&self, mut of: impl FnMut(usize) -> [f64; N]) -> Reduce<'a, N> {
        let noted = self.reduction();
        for piece in self.k.pieces.share(self.me) {
            // SAFETY: a piece of this member.
            unsafe { noted.note(piece, of(piece)) };
        }
        noted
    }

    /// Sums of what `of` gives for all pieces.
    pub(super) fn sums<const N: usize>(&self, of: impl FnMut(usize) -> [f64; N]) -> [f64; N] {
        self.note(of).sum(Some(self.me))
    }

    /// Sum of `of` over all pieces.
    pub(super) fn sum(&self, mut of: impl FnMut(Range<usize>) -> f64) -> f64 {
        self.sums(|piece| [of(self.k.pieces.range(piece))])[0]
    }

    pub(super) fn dot(&self, a: &Field, b: &Field) -> f64 {
        // SAFETY: cells of this member, which only it writes.
        self.sum(|cells| unsafe { dot(a.range(&cells), b.range(&cells)) })
    }

    /// out = b - A x; returns its square.
    pub(super) fn residual_to(&self, out: &Field) -> f64 {
        let k = self.k;
        self.me.barrier();
        self.sum(|cells| {
            // SAFETY: reads x, b and the matrix, writes cells of this member.
            let out = unsafe {
                let out = out.range_mut(&cells);
                let v = &k.vectors;
                residual(out, v.b.range(&cells), k.matrix.couplings(&cells), v.x.around(&cells));
                out
            };
            dot(out, out)
        })
    }

    /// to = A v.
    pub(super) fn product(&self, to: &Field, v: &Field) {
        self.me.barrier();
        self.each(|cells| {
            // SAFETY: reads v and the matrix, writes cells of this member.
            unsafe { multiply(to.range_mut(&cells), self.k.matrix.couplings(&cells), v.around(&cells)) };
        });
    }

    /// t = E^-1 Z^T v.
    fn solve_coarse(&self, d: &Projection, v: &Field) {
        // SAFETY: cells of this member, which only it writes.
        d.restrict(self.me, |cells| unsafe { v.range(&cells) });
        self.solve_noted(d);
    }

    /// t = E^-1 g of the g = Z^T v that was noted; returns <g, t>.
    pub(super) fn solve_noted(&self, d: &Projection) -> f64 {
        let start = Instant::now();
        let g = d.solve(self.me);
        if self.me.index == 0 {
            self.k.coarse_nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        d.product(g)
    }

    /// v = P v, P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik, Erlangga 2009).
    pub(super) fn project(&self, v: &Field) {
        let Some(d) = &self.k.deflation else { return };
        self.solve_coarse(d, v);
        for (row, cells) in self.rows() {
            // SAFETY: cells of this member, which no other reads in this step.
            d.subtract(row, self.k.matrix.couplings(&cells), unsafe { v.range_mut(&cells) });
        }
    }

    /// x = x + Z E^-1 Z^T r: with r = b - A x^ that of PCG's x^, x solves A x = b as x^ solves P A x^ = P b.
    pub(super) fn add_deflated_part(&self, r: &Field) {
        let Some(d) = &self.k.deflation else { return };
        self.solve_coarse(d, r);
        for (row, cells) in self.rows() {
            // SAFETY: cells of this member, which no other reads in this step.
            d.prolong(row, unsafe { self.vectors().x.range_mut(&cells) });
        }
    }

    /// z = D^-1 r.
    fn jacobi(&self, z: &Field) {
        self.each(|cells| {
            let center = self.k.matrix.couplings(&cells).center;
            // SAFETY: cells of this member, which no other reads in this step.
            unsafe { over_center(z.range_mut(&cells), self.vectors().r.range(&cells), center) };
        });
    }

    /// z = M^-1 r, where M is applied as a whole. Returns <r, z>, where that is known.
    fn apply_whole(&mut self) -> Option<f64> {
        let whole = self.k.whole.as_ref()?;
        let (Vectors { r, z, .. }, a) = (self.vectors(), self.k.matrix.matrix());
        self.me.barrier();
        // SAFETY: in this step nobody writes r or uses z but this call.
        unsafe { whole.apply(&mut self.turns, self.me, &a, (r, z), self.norm2.sqrt()) }
    }
}

impl VectorSteps for Member<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let product = self.dot(self.vector(a), self.vector(b));
        if (a, b) == (VectorId::R, VectorId::R) {
            // For an M that is applied as a whole.
            self.norm2 = product;
        }
        product
    }

    fn add(&mut self, to: VectorId, factor: f64, from: VectorId) {
        let (to, from) = (self.vector(to), self.vector(from));
        // SAFETY: cells of this member; others read `to` only after a barrier.
        self.each(|cells| unsafe { add_scaled(to.range_mut(&cells), factor, from.range(&cells)) });
    }

    fn renew(&mut self, to: VectorId, scale: f64, from: VectorId) {
        let (to, from) = (self.vector(to), self.vector(from));
        self.each(|cells| {
            // SAFETY: cells of this member; others read `to` only after a barrier.
            let (to, from) = unsafe { (to.range_mut(&cells), from.range(&cells)) };
            if scale == 0.0 { to.copy_from_slice(from) } else { direct(to, from, scale) }
        });
    }

    fn clear(&mut self, v: VectorId) {
        let v = self.vector(v);
        // SAFETY: cells of this member, which nobody reads in this step.
        self.each(|cells| unsafe { v.range_mut(&cells) }.fill(0.0));
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        let v = self.vector(v);
        // SAFETY: cells of this member, which only it writes.
        let noted = self.note(|piece| [largest(unsafe { v.range(&self.k.pieces.range(piece)) })]);
        max_abs(noted.all(Some(self.me))[0])
    }

    fn residual(&mut self) -> f64 {
        let r = &self.vectors().r;
        self.norm2 = self.residual_to(r);
        if self.k.deflation.is_none() {
            return self.norm2;
        }
        self.project(r);
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, iteration: usize, relative_residual: f64) -> bool {
        self.k.observed.tell(self.me, self.observer.as_deref_mut(), iteration, relative_residual)
    }
}

impl PcgSteps for Member<'_> {
    fn residual_from_rhs(&mut self) -> f64 {
        let Vectors { b, r, .. } = self.vectors();
        // SAFETY: cells of this member, which no other reads in this step.
        self.each(|cells| unsafe { r.range_mut(&cells).copy_from_slice(b.range(&cells)) });
        self.project(r);
        self.inner(VectorId::R, VectorId::R)
    }

    fn precondition(&mut self) -> f64 {
        let Vectors { r, z, .. } = self.vectors();
        match self.k.preconditioner {
            // SAFETY: cells of this member, which no other reads in this step.
            Preconditioner::None => self.each(|cells| unsafe { z.range_mut(&cells).copy_from_slice(r.range(&cells)) }),
            Preconditioner::Jacobi => self.jacobi(z),
            Preconditioner::Neumann { order } => {
                let Vectors { q, s, .. } = self.vectors();
                // Order 0 needs none.
                let s = s.as_ref().unwrap_or(q);
                let Ok(()) = series(&mut Series(self), order, [q, s], z);
            }
            Preconditioner::Incomplete { .. }
            | Preconditioner::Multigrid { .. }
            | Preconditioner::Aggregation { .. } => {
                if let Some(rho) = self.apply_whole() {
                    return rho;
                }
            }
        }
        self.dot(r, z)
    }

    fn center_residual(&mut self) -> Centered {
        if self.k.singular.labels() == 0 {
            return Centered::default();
        }
        let removed = self.constant_square();
        if self.k.deflation.is_some() {
            return Centered { removed, norm2: None };
        }
        self.shift(&self.vectors().r, false);
        Centered { removed, norm2: Some(self.inner(VectorId::R, VectorId::R)) }
    }

    /// q = P A p.
    fn multiply(&mut self) -> f64 {
        let Vectors { p, q, .. } = self.vectors();
        self.product(q, p);
        self.project(q);
        self.dot(p, q)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        self.alpha = alpha.unwrap_or(0.0);
        match (self.order(), alpha) {
            (Some(order), _) if self.k.fused => self.fused_descend(alpha, order),
            (None, Some(alpha)) if self.k.fused => self.fused_update(alpha),
            _ => self.textbook_descend(alpha),
        }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.k.fused && self.order().is_some() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        if self.k.fused { self.fused_ascend(step, self.order().unwrap_or(0)) } else { self.textbook_ascend(step) }
    }

    /// With an M that is not linear <z, r - r_old> / <z_old, r_old>, where r - r_old = -alpha q: q is P A p of the last
    /// direction (Notay 2000).
    fn beta(&mut self, rho: f64, rho_old: f64) -> f64 {
        if !matches!(self.k.preconditioner, Preconditioner::Aggregation { .. }) {
            return rho / rho_old;
        }
        let Vectors { q, z, .. } = self.vectors();
        -self.alpha * self.dot(z, q) / rho_old
    }

    fn record(&mut self, alpha: f64, beta: f64) {
        if let Some(observer) = self.observer.as_mut() {
            observer.see(Event::Coefficients(alpha, beta));
        }
    }
}

/// The steps of a Neumann series; U is L^T. Each writes cells of the member alone.
struct Series<'a, 'b>(&'a Member<'b>);

impl<'a> SeriesSteps for Series<'a, '_> {
    type Vector = &'a Field;
    type Fault = Infallible;

    fn begin(&mut self, v: &'a Field, _: bool) -> Result<(), Infallible> {
        self.0.jacobi(v);
        Ok(())
    }

    fn lower(&mut self, from: &'a Field, to: &'a Field) -> Result<(), Infallible> {
        let member = self.0;
        member.me.barrier();
        member.each(|cells| {
            let a = member.k.matrix.couplings(&cells);
            let [w, _, s, _, b, _] = a.near;
            // SAFETY: nobody writes r or `from` until the next barrier; cells of `to` of this member.
            unsafe {
                let (to, r) = (to.range_mut(&cells), member.vectors().r.range(&cells));
                triangle(to, r, a.center, [w, s, b], from.before(&cells));
            }
        });
        Ok(())
    }

    fn upper(&mut self, v: &'a Field, from: &'a Field, to: &'a Field, _: bool) -> Result<(), Infallible> {
        let member = self.0;
        member.me.barrier();
        member.each(|cells| {
            let a = member.k.matrix.couplings(&cells);
            let [_, e, _, n, _, t] = a.near;
            // SAFETY: nobody writes v or `from` until the next barrier; cells of `to` of this member.
            unsafe {
                let (to, v) = (to.range_mut(&cells), v.range(&cells));
                triangle_of_scaled(to, v, a.center, [e, n, t], from.after(&cells));
            }
        });
        Ok(())
    }
}
