//! The steps of RRB-PCG on r1/r2/b1/b2 storage: the unfused textbook ones, each over this member's rows.
//!
//! A step writes rows of its own and reads arrays that no member writes in it; a barrier stands between a
//! step and the next that reads its neighbours' rows. That is what the unsafe blocks rest on.

use super::area::Four;
use super::cycle::Sections;
use super::ends::LeftOut;
use super::format::{Double, Format};
use super::kernels::{
    add_direction, add_scaled, begin, direct, dot, dot_mixed, five_point_residual, five_points, largest_in, narrow,
    nine_point_residual, nine_points, over_center, scale_row, schur_residual, solve_by_center, subtract, subtract_from,
    sum_by_center,
};
use super::neighbours::Rows;
use super::packed::{BORDER, Packed, PackedGrid};
use super::projection::Nodes;
use super::spread::{natural_rows, split};
use super::sweeps::{collect, colours_of_row, spread};
use crate::backend::steps::cycle::apply_section;
use crate::backend::steps::pcg::PcgSteps;
use crate::backend::steps::rrb::{Arrays, Begun, Inputs, RrbSteps};
use crate::grid::layout::{Colour, Layout};
use crate::grid::stencil::ring_index;
use crate::report::Observer;
use crate::runtime::number::Real;
use crate::runtime::reduce as sums;
use crate::runtime::reduce::max_abs;
use crate::runtime::shared::Number;
use crate::runtime::team::Me;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// The caller's arrays, shared by the members of a run: each writes the rows of its share.
pub struct Caller<'a> {
    input_name: &'static str,
    input: &'a [f64],
    output: *mut f64,
    output_len: usize,
    ld: usize,
    borrow: PhantomData<&'a mut [f64]>,
}

// SAFETY: rows of `output` are used by the owner of the row alone.
unsafe impl Sync for Caller<'_> {}

impl<'a> Caller<'a> {
    pub fn new(arrays: Arrays<'a>) -> Self {
        Self {
            input_name: arrays.input_name,
            input: arrays.input,
            output_len: arrays.output.len(),
            output: arrays.output.as_mut_ptr(),
            ld: arrays.ld,
            borrow: PhantomData,
        }
    }

    pub(super) fn input(&self, j: usize, nx: usize) -> &[f64] {
        &self.input[j * self.ld..][..nx]
    }

    /// # Safety
    /// Row j must be of the caller's share.
    #[expect(clippy::mut_from_ref, reason = "shared by members that use disjoint rows")]
    pub(super) unsafe fn output(&self, j: usize, nx: usize) -> &mut [f64] {
        assert!(j * self.ld + nx <= self.output_len);
        // SAFETY: inside the array, as just checked; no other member uses this row, as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.output.add(j * self.ld), nx) }
    }
}

/// One member of a run.
pub struct Member<'a, F: Format> {
    pub(super) k: &'a Packed<F>,
    pub(super) me: Me<'a>,
    pub(super) sections: Sections<'a, F>,
    pub(super) caller: &'a Caller<'a>,
    /// On member 0.
    observer: Option<&'a mut dyn Observer>,
    /// Counts sums, see `Packed::sum_over_rows`.
    pub(super) turn: usize,
    /// rho of the last fused descend.
    pub(super) rho: f64,
    pub(super) left_out: Option<LeftOut>,
}

/// What a pass over black rows makes of four red rows around each.
pub(super) trait ThroughReds {
    /// Makes red row J.
    fn red(&mut self, colour: Colour, row: usize, y: &mut [f64]);
    /// Takes the four around black row J. r1 of row J and r2 of row J + 1 were the last that were made.
    fn black(&mut self, colour: Colour, row: usize, y: Rows);
}

/// By two closures.
struct Both<R, B>(R, B);

impl<R: FnMut(Colour, usize, &mut [f64]), B: FnMut(Colour, usize, Rows)> ThroughReds for Both<R, B> {
    fn red(&mut self, colour: Colour, row: usize, y: &mut [f64]) {
        (self.0)(colour, row, y);
    }

    fn black(&mut self, colour: Colour, row: usize, y: Rows) {
        (self.1)(colour, row, y);
    }
}

impl<'a, F: Format> Member<'a, F> {
    pub fn new(k: &'a Packed<F>, me: Me<'a>, caller: &'a Caller<'a>, observer: Option<&'a mut dyn Observer>) -> Self {
        Self { k, me, sections: Sections::new(k, me), caller, observer, turn: 0, rho: 0.0, left_out: None }
    }

    fn first(&self) -> &'a PackedGrid<F> {
        &self.k.grids[0]
    }

    pub(super) fn rows(&self) -> std::ops::Range<usize> {
        self.first().rows(self.me)
    }

    pub(super) fn layout(&self) -> &'a Layout {
        &self.first().layout
    }

    pub(super) fn barrier(&self) {
        self.first().barrier(self.me);
    }

    /// Calls `f` with each of this member's rows of A or S1.
    fn each_row(&self, mut f: impl FnMut(Colour, usize)) {
        for row in self.rows() {
            for &colour in self.k.system() {
                f(colour, row);
            }
        }
    }

    fn dot<R: Real + Number>(&mut self, a: &Four<R>, b: &Four<R>, colours: &[Colour]) -> f64 {
        self.k.sum_over_rows(self.me, &mut self.turn, |row| {
            // SAFETY: rows of this member, which only it writes.
            colours.iter().map(|&c| unsafe { dot(a[c].row(row, 0), b[c].row(row, 0)) }).sum()
        })
    }

    /// Black rows of this member with four red rows around them, which stay in cache. `buffers`: room for these.
    pub(super) fn through_reds(&self, buffers: &mut [f64], pass: &mut impl ThroughReds) {
        let n = self.layout().cx;
        buffers.fill(0.0);
        let mut rows = buffers.chunks_exact_mut(n + 2 * BORDER);
        let mut row = || rows.next().expect("room for four rows");
        let (mut r1_below, mut r1, mut r2, mut r2_above) = (row(), row(), row(), row());
        let all = self.rows();
        match all.start.checked_sub(1) {
            Some(before) => pass.red(Colour::R1, before, &mut r1[BORDER..][..n]),
            None => r1.fill(0.0),
        }
        pass.red(Colour::R2, all.start, &mut r2_above[BORDER..][..n]);
        for row in all {
            std::mem::swap(&mut r1_below, &mut r1);
            std::mem::swap(&mut r2, &mut r2_above);
            pass.red(Colour::R1, row, &mut r1[BORDER..][..n]);
            pass.red(Colour::R2, row + 1, &mut r2_above[BORDER..][..n]);
            pass.black(Colour::B1, row, [&r2[BORDER - 1..], &r2[BORDER..], &r1_below[BORDER..], &r1[BORDER..]]);
            pass.black(Colour::B2, row, [&r1[BORDER..], &r1[BORDER + 1..], &r2[BORDER..], &r2_above[BORDER..]]);
        }
    }

    /// This member's rows of scratch space.
    pub(super) fn scratch(&self) -> MutexGuard<'a, Vec<f64>> {
        self.k.scratch[self.me.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// r = b1 - S1 x in double precision, from A: where CG has S1 in single precision.
    fn residual_from_a(&mut self) -> f64 {
        self.barrier();
        let k = self.k;
        self.through_reds(
            &mut self.scratch(),
            &mut Both(
                // SAFETY: nobody writes x or A in this step.
                |colour: Colour, row, y: &mut [f64]| unsafe {
                    let (center, a) = (k.matrix.center[colour].row(row, 0), k.matrix.straight.couplings(colour, row));
                    sum_by_center(y, center, a, k.x.straight(colour, row));
                },
                // SAFETY: as above, nor b; writes black rows of r of this member.
                |colour: Colour, row, y: Rows| unsafe {
                    let (b, center) = (k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
                    let a = k.matrix.straight.couplings(colour, row);
                    schur_residual(k.r[colour].row_mut(row, 0), b, center, k.x[colour].row(row, 0), a, y);
                },
            ),
        );
        self.residual_norm2()
    }

    /// `out` = row J of A times v.
    fn row_of_a(&self, colour: Colour, row: usize, v: &Four, out: &mut [f64]) {
        let m = &self.k.matrix;
        // SAFETY: nobody writes A or v in this step.
        unsafe {
            let (center, own) = (m.center[colour].row(row, 0), v[colour].row(row, 0));
            let (a, w) = (m.straight.couplings(colour, row), v.straight(colour, row));
            if self.k.shape.nine_points {
                nine_points(out, center, own, a, w, m.corners(colour, row), v.diagonal(colour, row));
            } else {
                five_points(out, center, own, a, w);
            }
        }
    }

    /// `out` = b - row J of A times x.
    pub(super) fn residual_of_row(&self, colour: Colour, row: usize, b: &[f64], out: &mut [f64]) {
        let (m, x) = (&self.k.matrix, &self.k.x);
        // SAFETY: nobody writes A or x in this step.
        unsafe {
            let (center, own) = (m.center[colour].row(row, 0), x[colour].row(row, 0));
            let (a, w) = (m.straight.couplings(colour, row), x.straight(colour, row));
            if self.k.shape.nine_points {
                let (e, u) = (m.corners(colour, row), x.diagonal(colour, row));
                nine_point_residual(out, b, center, own, a, w, e, u);
            } else {
                five_point_residual(out, b, center, own, a, w);
            }
        }
    }

    /// `out` = row J of the matrix that CG works on times v.
    fn row_of_system(&self, colour: Colour, row: usize, v: &Four<F::Vector>, out: &mut [F::Vector]) {
        let k = self.k;
        if k.shape.schur {
            // SAFETY: nobody writes S1 or v in this step.
            unsafe { k.schur_row(colour, row, v, out) };
        } else if let (Some(v), Some(out)) = (F::wide_four(v), F::wide_row(out)) {
            // CG in single precision is on S1 alone.
            self.row_of_a(colour, row, v, out);
        }
    }
}

/// v = scale z.
fn widen<R: Real>(v: &mut [f64], z: &[R], scale: f64) {
    for (v, z) in v.iter_mut().zip(z) {
        *v = scale * z.wide();
    }
}

/// r = v.
pub(super) fn convert<R: Real>(r: &mut [R], v: &[f64]) {
    for (r, v) in r.iter_mut().zip(v) {
        *r = R::narrow(*v);
    }
}

impl<F: Format> Packed<F> {
    /// The levels below the packed grids and the exact factor, on the kept values of the last grid; for member
    /// 0 alone. Returns <r, M^-1 r> of these levels. Natural levels are not divided by `unit`.
    pub fn solve_natural(&self) -> f64 {
        let last = self.grids.last().expect("at least one grid is packed");
        let mut natural = self.natural();
        let nx = last.layout.grid.coarse().nx;
        for row in last.layout.rows(Colour::B2) {
            let z = &mut natural.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: nobody writes z in this step.
            widen(z, unsafe { &last.z.b2.row(row, 0)[..nx] }, self.unit);
        }
        natural.apply();
        let mut rho = 0.0;
        for row in last.layout.rows(Colour::B2) {
            let z = &natural.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: only member 0 uses z in this step.
            let target = unsafe { &mut last.z.b2.row_mut(row, 0)[..nx] };
            rho += sums::dot(z, target);
            convert(target, z);
        }
        rho
    }
}

impl<F: Format> PcgSteps for Member<'_, F> {
    fn residual(&mut self) -> f64 {
        self.fetch_rhs(false);
        if F::SINGLE {
            return self.residual_from_a();
        }
        self.barrier();
        let mut turn = self.turn;
        let k = self.k;
        let sum = k.sum_over_rows(self.me, &mut turn, |row| {
            let mut square = 0.0;
            for &colour in k.system() {
                // SAFETY: reads x and b, writes rows of r of this member.
                let (b, r) = unsafe { (k.b[colour].row(row, 0), k.r[colour].row_mut(row, 0)) };
                match F::wide_row(r).filter(|_| !k.shape.schur) {
                    Some(r) => self.residual_of_row(colour, row, b, r),
                    None => {
                        self.row_of_system(colour, row, &k.x_in_cg, r);
                        subtract_from(r, b);
                    }
                }
                square += dot(r, r);
            }
            square
        });
        self.turn = turn;
        sum
    }

    fn residual_from_rhs(&mut self) -> f64 {
        self.fetch_rhs(false);
        let k = self.k;
        k.sum_over_rows(self.me, &mut self.turn, |row| {
            let mut square = 0.0;
            for &colour in k.system() {
                // SAFETY: rows of this member, which no other reads in this step.
                let (b, r) = unsafe { (k.b[colour].row(row, 0), k.r[colour].row_mut(row, 0)) };
                convert(r, b);
                square += dot(r, r);
            }
            square
        })
    }

    fn residual_norm2(&mut self) -> f64 {
        self.dot(&self.k.r, &self.k.r, self.k.system())
    }

    fn precondition(&mut self) -> f64 {
        let (k, me) = (self.k, self.me);
        self.each_row(|colour, row| {
            // SAFETY: rows of this member; others read z only after the barriers of the sweeps.
            unsafe { narrow::<F>(self.first().z[colour].row_mut(row, 0), k.r[colour].row(row, 0)) };
        });
        k.projection.shift(me, self.rows(), Nodes::System, &self.first().z, false);
        self.barrier();
        apply_section(&mut self.sections, 0, &k.recursion());
        k.projection.shift(me, self.rows(), Nodes::System, &self.first().z, false);
        let z = &self.first().z;
        let rho = k.sum_over_rows(me, &mut self.turn, |row| {
            // SAFETY: rows of this member, which only it writes.
            k.system().iter().map(|&c| unsafe { dot_mixed::<F>(k.r[c].row(row, 0), z[c].row(row, 0)) }).sum()
        });
        rho / k.unit
    }

    fn first_direction(&mut self) {
        let scale = self.k.scales().0;
        self.each_row(|colour, row| {
            // SAFETY: rows of this member; others read p only after the barrier of `multiply`.
            unsafe { begin::<F>(self.k.p[colour].row_mut(row, 0), self.first().z[colour].row(row, 0), scale) };
        });
    }

    fn next_direction(&mut self, beta: f64) {
        let scale = self.k.scales().0;
        self.each_row(|colour, row| {
            // SAFETY: as in `first_direction`.
            unsafe { direct::<F>(self.k.p[colour].row_mut(row, 0), self.first().z[colour].row(row, 0), beta, scale) };
        });
    }

    fn multiply(&mut self) -> f64 {
        self.barrier();
        self.each_row(|colour, row| {
            // SAFETY: reads p, writes rows of q of this member.
            let q = unsafe { self.k.q[colour].row_mut(row, 0) };
            self.row_of_system(colour, row, &self.k.p, q);
        });
        self.k.scales().1 * self.dot(&self.k.p, &self.k.q, self.k.system())
    }

    fn advance_solution(&mut self, alpha: f64) {
        let alpha = alpha * self.k.scales().1;
        self.each_row(|colour, row| {
            // SAFETY: rows of this member, which no other reads in this step.
            let (x, p) = unsafe { (self.k.x[colour].row_mut(row, 0), self.k.p[colour].row(row, 0)) };
            add_direction(x, alpha, p);
        });
    }

    fn advance_residual(&mut self, alpha: f64) {
        self.each_row(|colour, row| {
            // SAFETY: rows of this member, which no other reads in this step.
            let (r, q) = unsafe { (self.k.r[colour].row_mut(row, 0), self.k.q[colour].row(row, 0)) };
            add_scaled(r, -alpha, q);
        });
    }

    fn direction_norm2(&mut self, factor: f64) -> f64 {
        let k = self.k;
        k.sum_over_rows(self.me, &mut self.turn, |row| {
            let square = |p: f64| (factor * p) * (factor * p);
            // SAFETY: rows of this member, which only it writes.
            let of = |&c: &Colour| unsafe { k.p[c].row(row, 0).iter().map(|p| square(p.wide())).sum::<f64>() };
            k.system().iter().map(of).sum()
        })
    }

    fn replaces_residual(&self) -> bool {
        F::SINGLE
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if self.k.fused() {
            return self.fused_descend(alpha);
        }
        self.textbook_descend(alpha)
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.k.fused() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        if self.k.fused() {
            return self.fused_ascend(step);
        }
        self.textbook_ascend(step)
    }

    fn observe(&mut self, iteration: usize, relative_residual: f64) -> bool {
        let k = self.k;
        if let Some(observer) = self.observer.as_mut() {
            let stop = observer.iteration(iteration, relative_residual);
            k.stop.store(stop, Ordering::Release);
        }
        if !k.may_stop.load(Ordering::Acquire) {
            return false;
        }
        self.me.barrier();
        let stop = k.stop.load(Ordering::Acquire);
        self.me.barrier();
        stop
    }

    fn record(&mut self, alpha: f64, beta: f64) {
        if let Some(observer) = self.observer.as_mut() {
            observer.coefficients(alpha, beta);
        }
    }
}

impl<F: Format> RrbSteps for Member<'_, F> {
    fn fall_back(&mut self) -> bool {
        let changes = self.k.chose_recursion();
        self.me.barrier();
        if changes && self.me.index == 0 {
            self.k.set_plain_cycle();
            // What broke down may have left infinities in the padding.
            // SAFETY: the others wait between two barriers.
            unsafe { self.k.clear_sweeps() };
        }
        self.me.barrier();
        changes
    }

    fn time_grids(&mut self) {
        self.sections.seconds = vec![[0.0; 2]; self.k.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.sections.seconds
    }

    fn inspect(&mut self, guess: bool) -> Inputs {
        let nx = self.layout().grid.nx;
        let mut seen = Inputs::none();
        for j in natural_rows(self.layout(), &self.rows()) {
            let b = self.caller.input(j, nx);
            // SAFETY: row j is of this member's share.
            let x = if guess { unsafe { self.caller.output(j, nx) } } else { &mut [] };
            seen.look_at_row(self.caller.input_name, b, largest_in(b), j, true);
            seen.look_at_row("x", x, largest_in(x), j, false);
        }
        self.k.inputs.lock().unwrap_or_else(PoisonError::into_inner).merge(&seen, self.caller.input_name);
        self.me.barrier();
        *self.k.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&mut self, scale: f64, guess: bool) -> f64 {
        let (k, layout, nx) = (self.k, self.layout(), self.layout().grid.nx);
        // Red x is written before it is read, but for the means of singular components.
        let cleared = if guess || k.projection.is_empty() { k.system() } else { &Colour::ALL };
        let caller = self.caller;
        self.left_out = None;
        k.sum_over_rows(self.me, &mut self.turn, |row| {
            for j in natural_rows(layout, &(row..row + 1)) {
                // SAFETY: row j and its rows J are of this member's share.
                unsafe {
                    spread(layout, j, caller.input(j, nx), scale, &k.b);
                    if guess {
                        spread(layout, j, caller.output(j, nx), scale, &k.x);
                    }
                }
            }
            if !guess {
                for &colour in cleared {
                    // SAFETY: a row of this member, which nobody reads in this step.
                    unsafe { k.x[colour].row_mut(row, 0).fill(0.0) };
                }
            }
            // SAFETY: rows of this member, which only it writes.
            Colour::ALL.iter().map(|&c| unsafe { dot(k.b[c].row(row, 0), k.b[c].row(row, 0)) }).sum()
        })
    }

    fn eliminates(&self) -> bool {
        self.k.shape.schur
    }

    fn begin(&mut self, scale: f64, guess: bool) -> Begun {
        if self.k.fused() { self.fused_begin(scale, guess) } else { self.textbook_begin(scale, guess) }
    }

    fn complete(&mut self, scale: f64) -> (f64, f64) {
        if self.k.fused() { self.fused_complete(scale) } else { self.textbook_complete(scale) }
    }

    fn load_rhs(&mut self, scale: f64) {
        self.left_out = None;
        let nx = self.layout().grid.nx;
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: row j and its rows J are of this member's share.
            unsafe { spread(self.layout(), j, self.caller.input(j, nx), scale, &self.k.b) };
        }
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.k.projection.worst(self.me, self.rows(), &self.k.b)
    }

    fn project_rhs(&mut self) {
        self.k.projection.shift(self.me, self.rows(), Nodes::Whole, &self.k.b, false);
        self.barrier();
    }

    fn keep_means(&mut self) {
        self.k.projection.keep(self.me, self.rows(), &self.k.x);
    }

    fn rhs_norm2(&mut self) -> f64 {
        self.dot(&self.k.b, &self.k.b, &Colour::ALL)
    }

    fn whole_residual_norm2(&mut self) -> f64 {
        let mut turn = self.turn;
        let mut scratch = self.k.scratch[self.me.index].lock().unwrap_or_else(PoisonError::into_inner);
        let r = &mut scratch[..self.layout().cx];
        let sum = self.k.sum_over_rows(self.me, &mut turn, |row| {
            let mut square = 0.0;
            for colour in Colour::ALL {
                // SAFETY: nobody writes b in this step.
                self.residual_of_row(colour, row, unsafe { self.k.b[colour].row(row, 0) }, r);
                square += dot(r, r);
            }
            square
        });
        drop(scratch);
        self.turn = turn;
        sum
    }

    fn returned_residual_norm2(&mut self, scale: f64) -> f64 {
        let (k, layout, nx) = (self.k, self.layout(), self.layout().grid.nx);
        let n = layout.cx;
        let mut turn = self.turn;
        let mut scratch = k.scratch[self.me.index].lock().unwrap_or_else(PoisonError::into_inner);
        scratch.fill(0.0);
        let (r, b) = scratch.split_at_mut(n);
        let (even, odd) = b.split_at_mut(n);
        let (even, odd) = (&mut even[..n], &mut odd[..n]);
        let sum = k.sum_over_rows(self.me, &mut turn, |row| {
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
        });
        drop(scratch);
        self.turn = turn;
        sum
    }

    fn rhs_to_residual(&mut self) -> f64 {
        let mut turn = self.turn;
        let mut scratch = self.k.scratch[self.me.index].lock().unwrap_or_else(PoisonError::into_inner);
        let r = &mut scratch[..self.layout().cx];
        let k = self.k;
        let sum = k.sum_over_rows(self.me, &mut turn, |row| {
            let mut square = 0.0;
            for colour in Colour::ALL {
                // SAFETY: reads x and A, writes rows of b of this member.
                let b = unsafe { k.b[colour].row_mut(row, 0) };
                self.residual_of_row(colour, row, b, r);
                b.copy_from_slice(r);
                if matches!(colour, Colour::R1 | Colour::R2) {
                    // SAFETY: nobody writes A in this step.
                    over_center(r, b, unsafe { k.matrix.center[colour].row(row, 0) });
                    square += dot(r, b);
                }
            }
            square
        });
        drop(scratch);
        self.turn = turn;
        sum
    }

    fn constant_square(&mut self) -> f64 {
        let k = self.k;
        k.projection.constant_square(self.me, self.rows(), &k.r, &k.matrix.center)
    }

    fn reduce(&mut self) {
        if !self.k.shape.schur {
            return;
        }
        let k = self.k;
        self.barrier();
        self.through_reds(
            &mut self.scratch(),
            &mut Both(
                // y_r = b_r / d_r.
                // SAFETY: nobody writes red b or A in this step.
                |colour: Colour, row, y: &mut [f64]| unsafe {
                    over_center(y, k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
                },
                // SAFETY: writes black rows of this member.
                |colour: Colour, row, y: Rows| unsafe {
                    let a = k.matrix.straight.couplings(colour, row);
                    subtract::<Double>(k.b[colour].row_mut(row, 0), a, y);
                },
            ),
        );
    }

    fn take_z(&mut self) {
        let scale = self.k.unit.recip();
        self.each_row(|colour, row| {
            // SAFETY: rows of this member, which no other reads in this step.
            unsafe { widen(self.k.x[colour].row_mut(row, 0), self.first().z[colour].row(row, 0), scale) };
        });
    }

    fn back_substitute(&mut self) -> f64 {
        if !self.k.shape.schur {
            return self.solution_max();
        }
        self.fetch_rhs(true);
        let k = self.k;
        self.barrier();
        let largest = k.over_rows(self.me, &mut self.turn, |row| {
            for colour in [Colour::R1, Colour::R2] {
                // SAFETY: reads black x and red b, writes red rows of this member.
                unsafe {
                    let (b, center) = (k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
                    let a = k.matrix.straight.couplings(colour, row);
                    solve_by_center(k.x[colour].row_mut(row, 0), center, b, a, k.x.straight(colour, row));
                }
            }
            // SAFETY: rows of this member, which only it writes.
            max_abs(&Colour::ALL.map(|colour| unsafe { largest_in(k.x[colour].row(row, 0)) }))
        });
        max_abs(largest)
    }

    fn shift_means(&mut self, restore: bool) {
        self.barrier();
        self.k.projection.shift(self.me, self.rows(), Nodes::Whole, &self.k.x, restore);
    }

    fn clear_solution(&mut self) {
        for row in self.rows() {
            for colour in Colour::ALL {
                // SAFETY: a row of this member, which nobody reads in this step.
                unsafe { self.k.x[colour].row_mut(row, 0).fill(0.0) };
            }
        }
        // Others read these rows next.
        self.barrier();
    }

    fn solution_max(&mut self) -> f64 {
        let largest = self.k.over_rows(self.me, &mut self.turn, |row| {
            // SAFETY: rows of this member, which only it writes.
            max_abs(&Colour::ALL.map(|colour| unsafe { largest_in(self.k.x[colour].row(row, 0)) }))
        });
        max_abs(largest)
    }

    fn store(&mut self, scale: f64) {
        let nx = self.layout().grid.nx;
        let unscale = scale.recip();
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: row j and its rows J are of this member's share.
            let out = unsafe {
                let out = self.caller.output(j, nx);
                collect(self.layout(), j, &self.k.x, out);
                out
            };
            scale_row(out, unscale);
        }
    }

    fn multiply_rhs(&mut self) {
        for row in self.rows() {
            for colour in Colour::ALL {
                // SAFETY: reads b, writes rows of x of this member.
                let out = unsafe { self.k.x[colour].row_mut(row, 0) };
                self.row_of_a(colour, row, &self.k.b, out);
            }
        }
    }

    fn store_zero(&mut self) {
        let nx = self.layout().grid.nx;
        for j in natural_rows(self.layout(), &self.rows()) {
            // SAFETY: row j is of this member's share.
            unsafe { self.caller.output(j, nx) }.fill(0.0);
        }
    }
}
