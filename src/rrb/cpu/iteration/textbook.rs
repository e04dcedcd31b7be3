//! Unfused steps of RRB-PCG on grids stored by colour (report 16-06, algorithm 1). Each thread executes them on its own
//! rows.
//!
//! The unsafe blocks rely on two rules. A step writes rows of its own thread only, and reads only arrays that no thread
//! writes in this step. A barrier separates a step from the next step that reads rows of other threads.

use crate::aggregation::KeptAggregates;
use crate::aggregation::cpu::CoarseMethod;
use crate::base::loops::{combine, dot, largest, subtract_from};
use crate::base::number::Real;
use crate::base::reduce::{self, max_abs};
use crate::krylov::cpu::means::Vector as _;
use crate::krylov::pcg::{Beta, Means, OtherPreconditioner, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::solve_steps::{Criterion, Eliminated, Inputs, Load, SolveSteps, Timing};
use crate::krylov::state::State;
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::Event;
use crate::rrb::cpu::aggregated::COST;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{collect, colours_of_row, natural_rows, split, spread};
use crate::rrb::cpu::iteration::thread::{BlackRowStep, ThreadState};
use crate::rrb::cpu::loops::{over_center, scale_row, solve_by_center, subtract};
use crate::rrb::cpu::number::{Double, Format};
use crate::rrb::layout::Colour;
use crate::rrb::recursion::{Cycle, apply_section};
use std::sync::PoisonError;

/// Upper limit of the beta of flexible CG, as a multiple of the beta for a fixed M. If r consists of rounding errors
/// only, <z, q> and therefore beta would be arbitrary, and so would p. On a closed basin with coefficients over six
/// decades, a reduction by 1e-12 takes 116 iterations with this limit and 359 without it.
const MAX_BETA: f64 = 2.0;

/// Evaluates `$body` for a vector, whose arrays are `$v` in the number type of the vector.
macro_rules! with_vector {
    ($thread:expr, $id:expr, |$v:ident| $body:expr) => {
        match $thread.vector($id) {
            Vector::Double($v) => $body,
            Vector::OfCg($v) => $body,
            Vector::OfSweeps($v) => $body,
        }
    };
}

/// Arrays of a vector in one of several number types.
enum Vector<'a, F: Format> {
    Double(&'a FourColours),
    OfCg(&'a FourColours<F::Vector>),
    OfSweeps(&'a FourColours<F::Real>),
}

impl<'a, F: Format> ThreadState<'a, F> {
    fn vector(&self, v: VectorId) -> Vector<'a, F> {
        let k = self.k;
        match v {
            VectorId::X => Vector::Double(&k.x),
            VectorId::B => Vector::Double(&k.b),
            VectorId::R => Vector::OfCg(&k.r),
            VectorId::P => Vector::OfCg(&k.p),
            VectorId::Q => Vector::OfCg(&k.q),
            _ => Vector::OfSweeps(self.z()),
        }
    }

    /// Returns the colours on which both vectors have values: all colours if both are x or b, otherwise the colours of
    /// the unknowns of CG.
    fn colours_of(&self, a: VectorId, b: VectorId) -> &'static [Colour] {
        let is_whole = |v| matches!(v, VectorId::X | VectorId::B);
        if is_whole(a) && is_whole(b) { &Colour::ALL } else { self.k.cg_colours() }
    }

    /// Returns the factor by which the stored values of v must be multiplied, a power of two (see [`Packed::scales`]).
    fn unit_of(&self, v: VectorId) -> f64 {
        match v {
            VectorId::P => self.k.scales().1,
            VectorId::Z => self.k.unit.recip(),
            _ => 1.0,
        }
    }

    /// Sets v = 0.
    fn clear(&mut self, v: VectorId) {
        let colours = self.colours_of(v, v);
        with_vector!(self, v, |v| {
            self.each_row(colours, |colour, row| {
                // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
                unsafe { v[colour].row_mut(row, 0).fill(Real::narrow(0.0)) };
            });
            // This call is needed because the next step may read rows of other threads.
            self.refresh(v);
        });
    }
}

impl<F: Format> VectorSteps for ThreadState<'_, F> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let (colours, unit) = (self.colours_of(a, b), self.unit_of(a) * self.unit_of(b));
        let product = with_vector!(self, a, |a| with_vector!(self, b, |b| self.sum(colours, |c, row| {
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            unsafe { dot(a[c].row(row, 0), b[c].row(row, 0)) }
        })));
        unit * product
    }

    /// Computes the combination in the number type of `to`. PCG passes at most one term.
    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let Some(&(factor, from)) = terms.first() else { return self.clear(to) };
        if from == VectorId::B {
            self.fetch_rhs(false);
        }
        let factor = factor * (self.unit_of(from) / self.unit_of(to));
        let colours = self.colours_of(to, from);
        with_vector!(self, to, |to| with_vector!(self, from, |from| self.each_row(colours, |colour, row| {
            // SAFETY: the rows belong to this thread; other threads read `to` only after a barrier.
            unsafe { combine(to[colour].row_mut(row, 0), scale, factor, from[colour].row(row, 0)) };
        })));
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        let (colours, unit) = (self.colours_of(v, v), self.unit_of(v));
        with_vector!(self, v, |v| unit
            * self.largest_of(|row| {
                // SAFETY: the rows belong to this thread, and only this thread writes them.
                let of = |&colour: &Colour| unsafe { largest(v[colour].row(row, 0)) };
                reduce::largest(colours.iter().map(of))
            }))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        if of == Iterate::Zero {
            self.combine(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
            return self.inner(VectorId::R, VectorId::R);
        }
        self.fetch_rhs(false);
        if F::SINGLE {
            return self.residual_from_a();
        }
        let k = self.k;
        self.refresh(&k.x);
        // If CG runs in double precision, both vectors contain doubles.
        let (x, doubles) = (k.x.of_type(), k.r.of_type());
        self.sum(k.cg_colours(), |colour, row| {
            // SAFETY: no thread writes x, b or the matrix in this step; the rows of r belong to this thread.
            unsafe {
                let b = k.b[colour].row(row, 0);
                if let (true, Some(x)) = (k.shape.schur, &x) {
                    let r = k.r[colour].row_mut(row, 0);
                    k.schur.row(colour, row, x, r);
                    return subtract_from(r, b);
                }
                if let Some(r) = &doubles {
                    self.residual_of_row(colour, row, b, r[colour].row_mut(row, 0));
                }
                let r = k.r[colour].row(row, 0);
                dot(r, r)
            }
        })
    }

    fn observe(&mut self, event: Event) -> bool {
        self.k.observed.report(self.me, self.observer.as_deref_mut(), event)
    }
}

impl<F: Format> PcgSteps for ThreadState<'_, F> {
    /// With aggregation, M is in general not linear, so CG is flexible (docs/theory/aggregation.md).
    fn properties(&self) -> Properties {
        let aggregated = self.k.aggregated.get().is_some();
        Properties {
            eliminates: self.k.shape.schur,
            single: F::SINGLE,
            contracts_quickly: aggregated,
            beta: if aggregated { Beta::Limited(MAX_BETA) } else { Beta::Fixed },
            ..Properties::default()
        }
    }

    fn precondition(&mut self) -> f64 {
        let (k, me) = (self.k, self.me);
        self.each_row(self.k.cg_colours(), |colour, row| {
            // SAFETY: the rows belong to this thread; other threads read z only after the barriers of the sweeps.
            unsafe { combine(self.z()[colour].row_mut(row, 0), 0.0, 1.0, k.r[colour].row(row, 0)) };
        });
        k.singular.system().change_means(me, &self.rows(), self.z(), Means::Subtract);
        let first = self.first();
        first.refresh_down(me, first, k.shape.fused && !k.shape.schur, self.z());
        match k.aggregated.get() {
            // SAFETY: this thread has written its rows of z. No code uses z while `apply` runs, because all threads of
            // the team execute this call, which begins and ends with a barrier.
            Some(aggregated) => unsafe { aggregated.apply(&me, self.coarse_method, k.unit, self.z()) },
            None => apply_section(&mut self.sections, 0, &k.recursion()),
        }
        k.singular.system().change_means(me, &self.rows(), self.z(), Means::Subtract);
        self.inner(VectorId::R, VectorId::Z)
    }

    fn means(&mut self, v: VectorId, to: Means) {
        let x_or_b = if v == VectorId::B { &self.k.b } else { &self.k.x };
        self.k.singular.whole.change_means(self.me, &self.rows(), x_or_b, to);
        if v == VectorId::B {
            self.refresh(x_or_b);
        }
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let k = self.k;
        // SAFETY: no thread writes the centers.
        let center = |position, len| unsafe { k.matrix.center.values(position, len) };
        k.singular.system().weighted_square_of_means(self.me, &self.rows(), &k.r, center)
    }

    fn multiply(&mut self) -> f64 {
        let k = self.k;
        self.refresh(&k.p);
        // If CG runs in single precision, it runs on S1, and these conversions return `None`.
        let doubles = k.p.of_type().zip(k.q.of_type());
        self.each_row(k.cg_colours(), |colour, row| {
            // SAFETY: no thread writes p in this step; the rows of q belong to this thread.
            unsafe {
                if k.shape.schur {
                    k.schur.row(colour, row, &k.p, k.q[colour].row_mut(row, 0));
                } else if let Some((p, q)) = &doubles {
                    k.matrix.row(colour, row, p, q[colour].row_mut(row, 0));
                }
            }
        });
        self.inner(VectorId::P, VectorId::Q)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if self.k.fused() { self.fused_descend(alpha) } else { unfused_descend(self, alpha) }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.k.fused() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        if self.k.fused() { self.fused_ascend(step) } else { unfused_ascend(self, step) }
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        match to {
            OtherPreconditioner::Cheaper(at) => self.aggregate(at),
            OtherPreconditioner::Definite => self.fall_back(),
            OtherPreconditioner::Linear => {
                self.coarse_method = CoarseMethod::Linear;
                self.k.aggregated.get().is_some()
            }
            OtherPreconditioner::Second => false,
        }
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// Switches to aggregation if this is allowed and reduces the estimated remaining work. Returns whether it has
    /// switched; it has not if the hierarchy cannot be built.
    fn aggregate(&mut self, at: &State) -> bool {
        let (k, own) = (self.k, if self.k.fused() { 1.0 } else { COST.unfused });
        let cycle = Cycle { kind: Some(k.recursion().kind), ..k.shape.cycle };
        let may = k.may_aggregate.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !may || !COST.is_worthwhile(at, own * cycle.cost(k.shape.grid, k.shape.levels)) {
            return false;
        }
        self.me.barrier();
        if self.me.index == 0 {
            let mut may = k.may_aggregate.lock().unwrap_or_else(PoisonError::into_inner);
            // If the hierarchy cannot be built, the solve continues with the current M.
            if let Some(made) =
                may.take().and_then(|storage| k.aggregate(storage, KeptAggregates::default(), self.me.threads).ok())
            {
                // The call cannot fail: `aggregated` is empty whenever `may_aggregate` has a value.
                let _ = k.aggregated.set(made);
            }
        }
        self.me.barrier();
        let changed = k.aggregated.get().is_some();
        if let (true, Some(observer)) = (changed, self.observer.as_mut()) {
            at.report_change(&mut **observer);
        }
        changed
    }

    /// Switches to the V-cycle if the current cycle is recursive and was selected automatically. Returns whether it has
    /// switched.
    fn fall_back(&mut self) -> bool {
        let changes = self.k.chose_recursion();
        self.me.barrier();
        if changes && self.me.index == 0 {
            self.k.set_plain_cycle();
            // After the breakdown, the padding may contain infinities. SAFETY: the other threads wait at the barrier
            // below.
            unsafe { self.k.clear_sweeps() };
        }
        self.me.barrier();
        changes
    }

    /// Loads b = `scale` times the caller's input.
    pub(super) fn load_rhs(&mut self, scale: f64) {
        self.not_loaded = None;
        let nx = self.layout().grid.nx;
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: natural row j and its rows J belong to this thread.
            unsafe { spread(self.layout(), j, self.caller.input(j, nx), scale, &self.k.b) };
        }
    }

    /// Computes |`scale` input - A x|^2 from the caller's input, without storing b.
    fn returned_residual_norm2(&mut self, scale: f64) -> f64 {
        self.refresh(&self.k.x);
        let (layout, nx) = (self.layout(), self.layout().grid.nx);
        let n = layout.cx;
        let mut scratch = self.scratch();
        scratch.fill(0.0);
        let (r, b) = scratch.split_at_mut(n);
        let (even, odd) = b.split_at_mut(n);
        let (even, odd) = (&mut even[..n], &mut odd[..n]);
        self.sum_rows(|row| {
            let mut squares = [0.0; 4];
            for j in natural_rows(layout, &(row..row + 1)) {
                split((layout.shift_x, self.caller.input(j, nx)), even, odd);
                let colours = colours_of_row(layout, j);
                for (colour, b) in [(colours.0, &mut *even), (colours.1, &mut *odd)] {
                    if scale != 1.0 {
                        scale_row(b, scale);
                    }
                    self.residual_of_row(colour, row, b, r);
                    squares[colour as usize] = dot(r, r);
                }
            }
            squares.iter().sum()
        })
    }

    /// Computes b = b - A x, and returns <b_r, D_r^-1 b_r> for the red nodes r.
    fn rhs_to_residual(&mut self) -> f64 {
        let k = self.k;
        self.refresh(&k.x);
        let mut scratch = self.scratch();
        let r = &mut scratch[..self.layout().cx];
        self.sum(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes x or A in this step; the rows of b belong to this thread.
            let b = unsafe { k.b[colour].row_mut(row, 0) };
            self.residual_of_row(colour, row, b, r);
            b.copy_from_slice(r);
            if matches!(colour, Colour::B1 | Colour::B2) {
                return 0.0;
            }
            // SAFETY: no thread writes A in this step.
            over_center(r, b, unsafe { k.matrix.center[colour].row(row, 0) });
            dot(r, b)
        })
    }

    /// Computes x_r = D_r^-1 (b_r - A_rb x_b). Returns max |x|, or NaN if any value is NaN.
    pub(super) fn substitute(&mut self) -> f64 {
        self.fetch_rhs(true);
        let k = self.k;
        self.refresh(&self.k.x);
        self.largest_of(|row| {
            for colour in [Colour::R1, Colour::R2] {
                // SAFETY: no thread writes black x or red b in this step; the red rows of x belong to this thread.
                unsafe {
                    let (b, center) = (k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
                    let a = k.matrix.straight.couplings(colour, row);
                    solve_by_center(k.x[colour].row_mut(row, 0), center, b, a, k.x.straight(colour, row));
                }
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            max_abs(&Colour::ALL.map(|colour| unsafe { largest(k.x[colour].row(row, 0)) }))
        })
    }
}

impl<F: Format> Timing for ThreadState<'_, F> {
    fn time_grids(&mut self) {
        self.sections.seconds = vec![[0.0; 2]; self.k.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.sections.seconds
    }
}

impl<F: Format> SolveSteps for ThreadState<'_, F> {
    fn timing(&mut self) -> Option<&mut dyn Timing> {
        Some(self)
    }

    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let nx = self.layout().grid.nx;
        let mut seen = Inputs::none();
        for j in natural_rows(self.layout(), &self.rows()) {
            let b = self.caller.input(j, nx);
            // SAFETY: natural row j belongs to this thread.
            let x = if guess { unsafe { self.caller.output(j, nx) } } else { &mut [] };
            seen.inspect_row(self.caller.input_name, b, largest(b), j, true);
            seen.inspect_row("x", x, largest(x), j, false);
        }
        self.k.observed.inputs(self.me, &seen, self.caller.input_name, |inputs| {
            if let Some(links) = &self.k.links
                && links.inputs.merge(inputs, self.caller.input_name).is_err()
            {
                inputs.rhs_max = f64::NAN;
            }
        })
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let Some(guess) = what.guess() else {
            self.load_rhs(scale);
            return (0.0, None);
        };
        if matches!(what, Load::Start(_)) && self.k.fuses_start_and_end() {
            return self.fused_begin(scale, guess);
        }
        let (k, layout, nx) = (self.k, self.layout(), self.layout().grid.nx);
        // Red x need not be cleared, because it is always written before it is read. The means over singular components
        // are an exception: they read x on all nodes.
        let cleared = if guess || k.singular.is_empty() { k.cg_colours() } else { &Colour::ALL };
        let caller = self.caller;
        self.not_loaded = None;
        let rhs_norm2 = self.sum_rows(|row| {
            for j in natural_rows(layout, &(row..row + 1)) {
                // SAFETY: natural row j and its rows J belong to this thread.
                unsafe {
                    spread(layout, j, caller.input(j, nx), scale, &k.b);
                    if guess {
                        spread(layout, j, caller.output(j, nx), scale, &k.x);
                    }
                }
            }
            if !guess {
                for &colour in cleared {
                    // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
                    unsafe { k.x[colour].row_mut(row, 0).fill(0.0) };
                }
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            Colour::ALL.iter().map(|&c| unsafe { dot(k.b[c].row(row, 0), k.b[c].row(row, 0)) }).sum()
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.k.singular.whole.worst(self.me, &self.rows(), &self.k.b)
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            return self.returned_residual_norm2(scale);
        }
        self.refresh(&self.k.x);
        let mut scratch = self.scratch();
        let r = &mut scratch[..self.layout().cx];
        self.sum(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes b in this step.
            self.residual_of_row(colour, row, unsafe { self.k.b[colour].row(row, 0) }, r);
            dot(r, r)
        })
    }

    fn reduce(&mut self, what: Eliminated) -> f64 {
        if !self.k.shape.schur {
            return 0.0;
        }
        let k = self.k;
        let on_red = if what == Eliminated::Residual { self.rhs_to_residual() } else { 0.0 };
        self.refresh(&self.k.b);
        self.over_black_rows(&mut self.scratch(), |step| match step {
            // y_r = b_r / c_r.
            // SAFETY: no thread writes red b or A in this step.
            BlackRowStep::Red(colour, row, y) => unsafe {
                over_center(y, k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
            },
            // SAFETY: no thread writes A in this step; the black rows of b belong to this thread.
            BlackRowStep::Black(colour, row, y) => unsafe {
                let a = k.matrix.straight.couplings(colour, row);
                subtract::<Double>(k.b[colour].row_mut(row, 0), a, y);
            },
        });
        on_red
    }

    fn back_substitute(&mut self, scale: Option<f64>) -> (f64, Option<f64>) {
        match scale {
            _ if !self.k.shape.schur => (self.largest(VectorId::X), None),
            Some(scale) if self.k.fuses_start_and_end() => self.fused_complete(scale),
            _ => (self.substitute(), None),
        }
    }

    fn store(&mut self, scale: f64) {
        let nx = self.layout().grid.nx;
        let unscale = scale.recip();
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: natural row j and its rows J belong to this thread.
            let out = unsafe {
                let out = self.caller.output(j, nx);
                collect(self.layout(), j, &self.k.x, out);
                out
            };
            scale_row(out, unscale);
        }
    }

    fn multiply_rhs(&mut self) {
        let k = self.k;
        self.refresh(&k.b);
        self.each_row(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes b or A in this step; the rows of x belong to this thread.
            unsafe { k.matrix.row(colour, row, &k.b, k.x[colour].row_mut(row, 0)) };
        });
    }
}
