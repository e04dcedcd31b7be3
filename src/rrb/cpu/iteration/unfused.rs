//! Unfused steps of RRB-PCG on grids stored by colour (report 16-06, algorithm 1). Each thread executes them on its own
//! rows.
//!
//! The unsafe blocks rely on two rules. A step writes rows of its own thread only, and reads only arrays that no thread
//! writes in this step. A barrier separates a step from the next step that reads rows of other threads.

use crate::aggregation::KeptAggregates;
use crate::aggregation::cpu::CoarseMethod;
use crate::base::loops::{combine, dot, max_abs, subtract_from};
use crate::base::number::Real;
use crate::base::reduce;
use crate::krylov::cpu::means::Vector as _;
use crate::krylov::pcg::{
    Beta, MeansChange, OtherPreconditioner, PcgSteps, Properties, unfused_ascend, unfused_descend,
};
use crate::krylov::solve_steps::{Criterion, EliminatedVector, Inputs, Load, SolveSteps, Timing};
use crate::krylov::state::State;
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::Event;
use crate::rrb::cpu::aggregated::AGGREGATION_COST;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::{colours_of_row, load_natural_row, natural_rows, split_by_parity, store_natural_row};
use crate::rrb::cpu::iteration::thread::{BlackRowStep, ThreadState};
use crate::rrb::cpu::loops::{divide_by_center, scale_row, solve_by_center, subtract_product};
use crate::rrb::cpu::number::{F64Format, Format};
use crate::rrb::layout::Colour;
use crate::rrb::recursion::{Cycle, apply_section};
use std::sync::PoisonError;

/// Upper limit of the beta of flexible CG, as a multiple of the beta for a fixed M. If r consists of rounding errors
/// only, <z, q> is arbitrary. Without the limit, beta and p would then be arbitrary, too. On a closed basin with
/// coefficients over six decades, a reduction by 1e-12 takes 116 iterations with this limit and 359 without it.
const MAX_BETA: f64 = 2.0;

/// Evaluates `$body`, where `$v` denotes the arrays of the vector `$id` in their number type.
macro_rules! with_vector {
    ($thread:expr, $id:expr, |$v:ident| $body:expr) => {
        match $thread.vector($id) {
            TypedVector::Doubles($v) => $body,
            TypedVector::CgNumbers($v) => $body,
            TypedVector::SweepNumbers($v) => $body,
        }
    };
}

/// Arrays of a vector in one of several number types.
enum TypedVector<'a, F: Format> {
    Doubles(&'a FourColours),
    CgNumbers(&'a FourColours<F::Vector>),
    SweepNumbers(&'a FourColours<F::Real>),
}

impl<'a, F: Format> ThreadState<'a, F> {
    fn vector(&self, v: VectorId) -> TypedVector<'a, F> {
        let packed = self.packed;
        match v {
            VectorId::X => TypedVector::Doubles(&packed.x),
            VectorId::B => TypedVector::Doubles(&packed.b),
            VectorId::R => TypedVector::CgNumbers(&packed.r),
            VectorId::P => TypedVector::CgNumbers(&packed.p),
            VectorId::Q => TypedVector::CgNumbers(&packed.q),
            _ => TypedVector::SweepNumbers(self.z()),
        }
    }

    /// Returns the colours on which both vectors have values: all colours if both are x or b, otherwise the colours of
    /// the unknowns of CG.
    fn colours_of(&self, a: VectorId, b: VectorId) -> &'static [Colour] {
        let is_on_all_nodes = |v| matches!(v, VectorId::X | VectorId::B);
        if is_on_all_nodes(a) && is_on_all_nodes(b) { &Colour::ALL } else { self.packed.cg_colours() }
    }

    /// Returns the power of two c for which v is c times its stored values (see [`PackedSystem::direction_scales`]).
    fn stored_scale(&self, v: VectorId) -> f64 {
        match v {
            VectorId::P => self.packed.direction_scales().1,
            VectorId::Z => self.packed.storage_unit.recip(),
            _ => 1.0,
        }
    }

    /// Sets v = 0.
    fn clear(&mut self, v: VectorId) {
        let colours = self.colours_of(v, v);
        with_vector!(self, v, |v| {
            self.for_each_row(colours, |colour, row| {
                // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
                unsafe { v[colour].row_mut(row, 0).fill(Real::from_f64(0.0)) };
            });
            // This call is needed because the next step may read rows of other threads.
            self.refresh(v);
        });
    }
}

impl<F: Format> VectorSteps for ThreadState<'_, F> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        let (colours, value_scale) = (self.colours_of(a, b), self.stored_scale(a) * self.stored_scale(b));
        let product = with_vector!(self, a, |a| with_vector!(self, b, |b| self.sum_over(colours, |c, row| {
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            unsafe { dot(a[c].row(row, 0), b[c].row(row, 0)) }
        })));
        value_scale * product
    }

    /// Computes the combination in the number type of `target`. PCG passes at most one term.
    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let Some(&(factor, source)) = terms.first() else { return self.clear(target) };
        if source == VectorId::B {
            self.fetch_rhs(false);
        }
        let factor = factor * (self.stored_scale(source) / self.stored_scale(target));
        let colours = self.colours_of(target, source);
        with_vector!(self, target, |target| with_vector!(self, source, |source| self.for_each_row(
            colours,
            |colour, row| {
                // SAFETY: the rows belong to this thread; other threads read `target` only after a barrier.
                unsafe { combine(target[colour].row_mut(row, 0), scale, factor, source[colour].row(row, 0)) };
            }
        )));
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        let (colours, value_scale) = (self.colours_of(v, v), self.stored_scale(v));
        with_vector!(self, v, |v| value_scale
            * self.largest_over_rows(|row| {
                // SAFETY: the rows belong to this thread, and only this thread writes them.
                let row_largest = |&colour: &Colour| unsafe { max_abs(v[colour].row(row, 0)) };
                reduce::max_abs_of(colours.iter().map(row_largest))
            }))
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        if iterate == Iterate::Zero {
            self.combine(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
            return self.inner_product(VectorId::R, VectorId::R);
        }
        self.fetch_rhs(false);
        if F::CG_IS_SINGLE {
            return self.residual_from_a();
        }
        let packed = self.packed;
        self.refresh(&packed.x);
        // CG runs in double precision here, so x and r contain doubles.
        let (x, r_as_doubles) = (packed.x.of_type(), packed.r.of_type());
        self.sum_over(packed.cg_colours(), |colour, row| {
            // SAFETY: no thread writes x, b or the matrix in this step; the rows of r belong to this thread.
            unsafe {
                let b = packed.b[colour].row(row, 0);
                if let (true, Some(x)) = (packed.shape.uses_schur, &x) {
                    let r = packed.r[colour].row_mut(row, 0);
                    packed.schur.multiply_row(colour, row, x, r);
                    return subtract_from(r, b);
                }
                if let Some(r) = &r_as_doubles {
                    self.residual_of_row(colour, row, b, r[colour].row_mut(row, 0));
                }
                let r = packed.r[colour].row(row, 0);
                dot(r, r)
            }
        })
    }

    fn observe(&mut self, event: Event) -> bool {
        self.packed.observed.report(self.thread, self.observer.as_deref_mut(), event)
    }
}

impl<F: Format> PcgSteps for ThreadState<'_, F> {
    /// With aggregation, M is in general not linear, so CG is flexible (docs/theory/aggregation.md).
    fn properties(&self) -> Properties {
        let has_aggregation_cycle = self.packed.aggregation_cycle.get().is_some();
        Properties {
            eliminates_red: self.packed.shape.uses_schur,
            is_single_precision: F::CG_IS_SINGLE,
            contracts_quickly: has_aggregation_cycle,
            beta: if has_aggregation_cycle { Beta::Limited(MAX_BETA) } else { Beta::Fixed },
            ..Properties::default()
        }
    }

    fn precondition(&mut self) -> f64 {
        let (packed, thread) = (self.packed, self.thread);
        self.for_each_row(self.packed.cg_colours(), |colour, row| {
            // SAFETY: the rows belong to this thread; other threads read z only after the barriers of the sweeps.
            unsafe { combine(self.z()[colour].row_mut(row, 0), 0.0, 1.0, packed.r[colour].row(row, 0)) };
        });
        packed.singular.on_unknowns().change_means(thread, &self.rows(), self.z(), MeansChange::Subtract);
        let first_grid = self.first_grid();
        first_grid.refresh_down(thread, first_grid, packed.shape.is_fused && !packed.shape.uses_schur, self.z());
        match packed.aggregation_cycle.get() {
            // SAFETY: this thread has written its rows of z. No code uses z while `apply` runs, because all threads of
            // the team execute this call, which begins and ends with a barrier.
            Some(cycle) => unsafe { cycle.apply(&thread, self.coarse_method, packed.storage_unit, self.z()) },
            None => apply_section(&mut self.cycle_thread, 0, &packed.recursion()),
        }
        packed.singular.on_unknowns().change_means(thread, &self.rows(), self.z(), MeansChange::Subtract);
        self.inner_product(VectorId::R, VectorId::Z)
    }

    fn change_means(&mut self, v: VectorId, change: MeansChange) {
        let x_or_b = if v == VectorId::B { &self.packed.b } else { &self.packed.x };
        self.packed.singular.all_nodes.change_means(self.thread, &self.rows(), x_or_b, change);
        if v == VectorId::B {
            self.refresh(x_or_b);
        }
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let packed = self.packed;
        // SAFETY: no thread writes the centers.
        let center = |position, len| unsafe { packed.matrix.center.values(position, len) };
        packed.singular.on_unknowns().weighted_square_of_means(self.thread, &self.rows(), &packed.r, center)
    }

    fn multiply(&mut self) -> f64 {
        let packed = self.packed;
        self.refresh(&packed.p);
        // If CG runs in single precision, it runs on S1, and these conversions return `None`.
        let p_and_q_as_doubles = packed.p.of_type().zip(packed.q.of_type());
        self.for_each_row(packed.cg_colours(), |colour, row| {
            // SAFETY: no thread writes p in this step; the rows of q belong to this thread.
            unsafe {
                if packed.shape.uses_schur {
                    packed.schur.multiply_row(colour, row, &packed.p, packed.q[colour].row_mut(row, 0));
                } else if let Some((p, q)) = &p_and_q_as_doubles {
                    packed.matrix.multiply_row(colour, row, p, q[colour].row_mut(row, 0));
                }
            }
        });
        self.inner_product(VectorId::P, VectorId::Q)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if self.packed.fuses_iteration() { self.fused_descend(alpha) } else { unfused_descend(self, alpha) }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.packed.fuses_iteration() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        if self.packed.fuses_iteration() { self.fused_ascend(step) } else { unfused_ascend(self, step) }
    }

    fn change_preconditioner(&mut self, replacement: OtherPreconditioner) -> bool {
        match replacement {
            OtherPreconditioner::Cheaper(state) => self.switch_to_aggregation(state),
            OtherPreconditioner::Definite => self.fall_back_to_v_cycle(),
            OtherPreconditioner::Linear => {
                self.coarse_method = CoarseMethod::Chebyshev;
                self.packed.aggregation_cycle.get().is_some()
            }
            OtherPreconditioner::AfterBreakdown => false,
        }
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// Switches to aggregation if this is allowed and reduces the estimated remaining work. Returns whether M has been
    /// replaced. If the hierarchy cannot be built, returns `false`, and the current M remains.
    fn switch_to_aggregation(&mut self, state: &State) -> bool {
        let (packed, relative_cost) =
            (self.packed, if self.packed.fuses_iteration() { 1.0 } else { AGGREGATION_COST.unfused_iteration });
        let cycle = Cycle { kind: Some(packed.recursion().kind), ..packed.shape.cycle };
        let is_allowed = packed.aggregation_storage.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_allowed
            || !AGGREGATION_COST
                .is_switch_worthwhile(state, relative_cost * cycle.cost(packed.shape.grid, packed.shape.levels))
        {
            return false;
        }
        self.thread.barrier();
        if self.thread.index == 0 {
            let mut aggregation_storage = packed.aggregation_storage.lock().unwrap_or_else(PoisonError::into_inner);
            // If the hierarchy cannot be built, the solve continues with the current M.
            if let Some(aggregation_cycle) = aggregation_storage.take().and_then(|storage| {
                packed.build_aggregation_cycle(storage, KeptAggregates::default(), self.thread.threads).ok()
            }) {
                // The call cannot fail: `aggregation_cycle` is empty whenever `aggregation_storage` has a value.
                let _ = packed.aggregation_cycle.set(aggregation_cycle);
            }
        }
        self.thread.barrier();
        let has_switched = packed.aggregation_cycle.get().is_some();
        if let (true, Some(observer)) = (has_switched, self.observer.as_mut()) {
            state.report_preconditioner_change(&mut **observer);
        }
        has_switched
    }

    /// Switches to the V-cycle if the current cycle is recursive and was selected automatically. Returns whether the
    /// cycle has been replaced.
    fn fall_back_to_v_cycle(&mut self) -> bool {
        let switches = self.packed.has_chosen_recursion();
        self.thread.barrier();
        if switches && self.thread.index == 0 {
            self.packed.set_v_cycle();
            // After the breakdown, the padding may contain infinities. SAFETY: the other threads wait at the barrier
            // below.
            unsafe { self.packed.clear_sweep_vectors() };
        }
        self.thread.barrier();
        switches
    }

    /// Loads b = `scale` times the caller's input.
    pub(super) fn load_rhs(&mut self, scale: f64) {
        self.not_loaded_rhs = None;
        let nx = self.layout().grid.nx;
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: natural row j belongs to this thread, and so do the rows J in which it is stored.
            unsafe { store_natural_row(self.layout(), j, self.caller.input_row(j, nx), scale, &self.packed.b) };
        }
    }

    /// Computes |`scale` input - A x|^2 from the caller's input, without storing b.
    fn returned_residual_norm2(&mut self, scale: f64) -> f64 {
        self.refresh(&self.packed.x);
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
                split_by_parity((layout.shift_x, self.caller.input_row(j, nx)), even, odd);
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
        let packed = self.packed;
        self.refresh(&packed.x);
        let mut scratch = self.scratch();
        let r = &mut scratch[..self.layout().cx];
        self.sum_over(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes x or A in this step; the rows of b belong to this thread.
            let b = unsafe { packed.b[colour].row_mut(row, 0) };
            self.residual_of_row(colour, row, b, r);
            b.copy_from_slice(r);
            if matches!(colour, Colour::B1 | Colour::B2) {
                return 0.0;
            }
            // SAFETY: no thread writes A in this step.
            divide_by_center(r, b, unsafe { packed.matrix.center[colour].row(row, 0) });
            dot(r, b)
        })
    }

    /// Computes x_r = D_r^-1 (b_r - A_rb x_b). Returns max |x|, or NaN if any value is NaN.
    pub(super) fn substitute(&mut self) -> f64 {
        self.fetch_rhs(true);
        let packed = self.packed;
        self.refresh(&self.packed.x);
        self.largest_over_rows(|row| {
            for colour in [Colour::R1, Colour::R2] {
                // SAFETY: no thread writes black x or red b in this step; the red rows of x belong to this thread.
                unsafe {
                    let (b, center) = (packed.b[colour].row(row, 0), packed.matrix.center[colour].row(row, 0));
                    let a = packed.matrix.axis_couplings.couplings(colour, row);
                    solve_by_center(
                        packed.x[colour].row_mut(row, 0),
                        center,
                        b,
                        a,
                        packed.x.axis_neighbours(colour, row),
                    );
                }
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            max_abs(&Colour::ALL.map(|colour| unsafe { max_abs(packed.x[colour].row(row, 0)) }))
        })
    }
}

impl<F: Format> Timing for ThreadState<'_, F> {
    fn enable_grid_timing(&mut self) {
        self.cycle_thread.seconds = vec![[0.0; 2]; self.packed.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.cycle_thread.seconds
    }
}

impl<F: Format> SolveSteps for ThreadState<'_, F> {
    fn timing(&mut self) -> Option<&mut dyn Timing> {
        Some(self)
    }

    fn inspect(&mut self, has_guess: bool, _: Option<&Criterion>) -> Inputs {
        let nx = self.layout().grid.nx;
        let mut own_inputs = Inputs::uninspected();
        for j in natural_rows(self.layout(), &self.rows()) {
            let b = self.caller.input_row(j, nx);
            // SAFETY: natural row j belongs to this thread.
            let x = if has_guess { unsafe { self.caller.output_row(j, nx) } } else { &mut [] };
            own_inputs.inspect_row(self.caller.input_name, b, max_abs(b), j, true);
            own_inputs.inspect_row("x", x, max_abs(x), j, false);
        }
        self.packed.observed.merge_inputs(self.thread, &own_inputs, self.caller.input_name, |inputs| {
            if let Some(exchanges) = &self.packed.exchanges
                && exchanges.input_exchange.merge(inputs, self.caller.input_name).is_err()
            {
                inputs.rhs_max = f64::NAN;
            }
        })
    }

    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        let Some(has_guess) = load.guess() else {
            self.load_rhs(scale);
            return (0.0, None);
        };
        if matches!(load, Load::Start(_)) && self.packed.fuses_start_and_end() {
            return self.fused_begin(scale, has_guess);
        }
        let (packed, layout, nx) = (self.packed, self.layout(), self.layout().grid.nx);
        // The red part of x need not be cleared, because it is always written before it is read. There is one
        // exception: the means over singular components are computed from x on all nodes.
        let cleared_colours = if has_guess || packed.singular.is_empty() { packed.cg_colours() } else { &Colour::ALL };
        let caller = self.caller;
        self.not_loaded_rhs = None;
        let rhs_norm2 = self.sum_rows(|row| {
            for j in natural_rows(layout, &(row..row + 1)) {
                // SAFETY: natural row j belongs to this thread, and so do the rows J in which it is stored.
                unsafe {
                    store_natural_row(layout, j, caller.input_row(j, nx), scale, &packed.b);
                    if has_guess {
                        store_natural_row(layout, j, caller.output_row(j, nx), scale, &packed.x);
                    }
                }
            }
            if !has_guess {
                for &colour in cleared_colours {
                    // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
                    unsafe { packed.x[colour].row_mut(row, 0).fill(0.0) };
                }
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            Colour::ALL.iter().map(|&c| unsafe { dot(packed.b[c].row(row, 0), packed.b[c].row(row, 0)) }).sum()
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.packed.singular.all_nodes.find_worst_label(self.thread, &self.rows(), &self.packed.b)
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            return self.returned_residual_norm2(scale);
        }
        self.refresh(&self.packed.x);
        let mut scratch = self.scratch();
        let r = &mut scratch[..self.layout().cx];
        self.sum_over(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes b in this step.
            self.residual_of_row(colour, row, unsafe { self.packed.b[colour].row(row, 0) }, r);
            dot(r, r)
        })
    }

    fn reduce(&mut self, eliminated: EliminatedVector) -> f64 {
        if !self.packed.shape.uses_schur {
            return 0.0;
        }
        let packed = self.packed;
        let red_square = if eliminated == EliminatedVector::Residual { self.rhs_to_residual() } else { 0.0 };
        self.refresh(&self.packed.b);
        self.for_black_rows(&mut self.scratch(), |row_step| match row_step {
            // y_r = b_r / c_r.
            // SAFETY: no thread writes red b or A in this step.
            BlackRowStep::Red(colour, row, y) => unsafe {
                divide_by_center(y, packed.b[colour].row(row, 0), packed.matrix.center[colour].row(row, 0));
            },
            // SAFETY: no thread writes A in this step; the black rows of b belong to this thread.
            BlackRowStep::Black(colour, row, y) => unsafe {
                let a = packed.matrix.axis_couplings.couplings(colour, row);
                subtract_product::<F64Format>(packed.b[colour].row_mut(row, 0), a, y);
            },
        });
        red_square
    }

    fn back_substitute(&mut self, scale: Option<f64>) -> (f64, Option<f64>) {
        match scale {
            _ if !self.packed.shape.uses_schur => (self.max_abs(VectorId::X), None),
            Some(scale) if self.packed.fuses_start_and_end() => self.fused_complete(scale),
            _ => (self.substitute(), None),
        }
    }

    fn store(&mut self, scale: f64) {
        let nx = self.layout().grid.nx;
        let unscale = scale.recip();
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: natural row j belongs to this thread, and so do the rows J in which it is stored.
            let out = unsafe {
                let out = self.caller.output_row(j, nx);
                load_natural_row(self.layout(), j, &self.packed.x, out);
                out
            };
            scale_row(out, unscale);
        }
    }

    fn multiply_rhs(&mut self) {
        let packed = self.packed;
        self.refresh(&packed.b);
        self.for_each_row(&Colour::ALL, |colour, row| {
            // SAFETY: no thread writes b or A in this step; the rows of x belong to this thread.
            unsafe { packed.matrix.multiply_row(colour, row, &packed.b, packed.x[colour].row_mut(row, 0)) };
        });
    }
}
