//! Fused stages that begin and end a solve on S1 of a regular system (report 16-06, equations 2.9 to 2.11). The results
//! equal those of the unfused steps, but each array is read and written only once:
//!
//! ```text
//!     begin       r = (b - A x)_b - A_br D_r^-1 (b - A x)_r
//!     complete    x_r = D_r^-1 (b_r - A_rb x_b),  |b - A x|^2
//! ```
//!
//! b is read from the caller's array and is usually not stored. There is one exception: with CG in single precision and
//! without a guess, the right-hand side of S1, b_S = b_b - A_br D_r^-1 b_r, is stored in the black part of b. The
//! memory traffic in words per black node is as follows, where w marks a write:
//!
//! ```text
//!     begin                  b 2, red center and couplings 5, black x w, r w, b_S w if stored
//!     begin with a guess     b 2, x 2, A 6, x w 2, r w
//!     complete               b 2, A 6, black x, red x w
//! ```
//!
//! A natural row of b contains two colours. The values of the colours r2 and b1 are needed again with a later row, so
//! two alternating buffer rows store them.

use crate::base::loops::{combine, dot, largest};
use crate::base::reduce::{Reduce, max_abs, pairwise};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::solve_steps::{Eliminated, SolveSteps};
use crate::rrb::cpu::conversion::{natural_rows, split, spread};
use crate::rrb::cpu::iteration::thread::{BlackRowStep, NotLoaded, ThreadState};
use crate::rrb::cpu::loops::{difference, over_center, scale_row, solve_by_center, subtract};
use crate::rrb::cpu::neighbours::Rows;
use crate::rrb::cpu::number::{Double, Format};
use crate::rrb::cpu::packed::BORDER;
use crate::rrb::layout::{Colour, Layout};
use std::ops::Range;

/// Rows of b by colour, in a pass over rows J.
struct Rhs<'a> {
    caller: &'a CallerArrays<'a>,
    layout: &'a Layout,
    scale: f64,
    r1: &'a mut [f64],
    b2: &'a mut [f64],
    /// Two rows per colour, which are used alternately: entry J mod 2 contains row J.
    b1: [&'a mut [f64]; 2],
    r2: [&'a mut [f64]; 2],
}

impl<'a> Rhs<'a> {
    /// Creates the rows in the scratch space, and also returns the rest of the scratch space.
    fn new(
        caller: &'a CallerArrays<'a>,
        layout: &'a Layout,
        scale: f64,
        scratch: &'a mut [f64],
    ) -> (Self, &'a mut [f64]) {
        let (mine, rest) = scratch.split_at_mut(6 * layout.cx);
        mine.fill(0.0);
        let mut rows = mine.chunks_exact_mut(layout.cx);
        let mut row = || rows.next().expect("room for six rows");
        let (r1, b2, b1, r2) = (row(), row(), [row(), row()], [row(), row()]);
        (Self { caller, layout, scale, r1, b2, b1, r2 }, rest)
    }

    /// Loads the natural row that contains red row J: multiplies it by `scale`, and splits it into its two colours. If
    /// there is no such row in the grid, sets both colours to zero.
    fn load(&mut self, red: Colour, row: usize) {
        let Self { caller, layout, scale, r1, b2, b1, r2 } = self;
        let (j, even, odd) = match red {
            Colour::R1 => (2 * row + 1, &mut **r1, &mut **b2),
            _ => (2 * row, &mut *b1[row % 2], &mut *r2[row % 2]),
        };
        match j.checked_sub(layout.shift_y).filter(|&j| j < layout.grid.ny) {
            Some(j) => split((layout.shift_x, caller.input(j, layout.grid.nx)), even, odd),
            None => [&mut *even, &mut *odd].into_iter().for_each(|row| row.fill(0.0)),
        }
        if *scale != 1.0 {
            scale_row(even, *scale);
            scale_row(odd, *scale);
        }
    }

    /// Returns row J of a colour. `load` must have been called for its natural row before.
    fn row(&self, colour: Colour, row: usize) -> &[f64] {
        match colour {
            Colour::R1 => self.r1,
            Colour::R2 => self.r2[row % 2],
            Colour::B1 => self.b1[row % 2],
            Colour::B2 => self.b2,
        }
    }
}

/// Computation of the residual of S1 from b and, with an initial guess, from x.
struct Start<'m, 'a, F: Format> {
    member: &'m ThreadState<'a, F>,
    /// Whether the caller's x contains an initial guess. Rows of x are loaded one by one; the first and the last row of
    /// a thread are loaded before the pass, because other threads read them. Without a guess, x = 0.
    guess: bool,
    rhs: Rhs<'m>,
    out: &'m mut [f64],
    /// Sums of squares of b and of b - A x in a row, by parity of J and by colour.
    squares: [[[f64; 2]; 4]; 2],
    /// <r, r> of the current row.
    residual: f64,
    /// Partial sums of |b|^2, |b - A x|^2 and <r, r> per row.
    partials: Reduce<'a, 3>,
}

impl<F: Format> Start<'_, '_, F> {
    /// Loads the natural row of b that contains red row J and, with a guess, the next row of x that is needed. Computes
    /// y_r = D_r^-1 (b - A x)_r in row J, and sums of squares.
    fn red(&mut self, colour: Colour, row: usize, y: &mut [f64]) {
        let (k, Self { member, guess, rhs, out, squares, .. }) = (self.member.k, self);
        let rows = member.rows();
        if *guess && colour == Colour::R1 && row >= rows.start && row + 2 < rows.end {
            member.load_guess(row + 1..row + 2, rhs.scale);
        }
        rhs.load(colour, row);
        let squares = &mut squares[row % 2];
        for taken in [colour, if colour == Colour::R1 { Colour::B2 } else { Colour::B1 }] {
            let b = rhs.row(taken, row);
            squares[taken as usize] = [dot(b, b); 2];
        }
        let b = rhs.row(colour, row);
        // SAFETY: no thread writes A in this stage.
        let center = unsafe { k.matrix.center[colour].row(row, 0) };
        if *guess {
            member.residual_of_row(colour, row, b, out);
            squares[colour as usize][1] = dot(out, out);
            over_center(y, out, center);
        } else {
            over_center(y, b, center);
        }
    }

    /// Computes r = (b - A x)_b - A_br y_r in row J of a black colour. After both colours, stores the partial sums of
    /// row J.
    fn black(&mut self, colour: Colour, row: usize, y: Rows) {
        let (k, Self { guess, rhs, out, squares, residual, partials, member }) = (self.member.k, self);
        let squares = &mut squares[row % 2];
        let b = rhs.row(colour, row);
        // SAFETY: no thread writes A in this stage.
        let a = unsafe { k.matrix.straight.couplings(colour, row) };
        if *guess {
            member.residual_of_row(colour, row, b, out);
            squares[colour as usize][1] = dot(out, out);
            subtract::<Double>(out, a, y);
        } else {
            difference::<Double>(out, b, a, y);
        }
        // SAFETY: the black rows belong to this thread, and no other thread reads them in this stage. The partial sums
        // of a row are stored once.
        unsafe {
            combine(k.r[colour].row_mut(row, 0), 0.0, 1.0, out);
            let r = k.r[colour].row(row, 0);
            if F::SINGLE && !*guess {
                k.b[colour].row_mut(row, 0).copy_from_slice(out);
            }
            *residual = dot(r, r) + if colour == Colour::B1 { 0.0 } else { *residual };
            if colour == Colour::B2 {
                let [b, whole] = [0, 1].map(|of| squares.iter().map(|square| square[of]).sum());
                partials.store(row, [b, whole, *residual]);
            }
        }
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// Computes r = (b - A x)_b - A_br D_r^-1 (b - A x)_r. Returns |b|^2, |b - A x|^2 on the whole grid, and <r, r>.
    pub(super) fn fused_begin(&mut self, scale: f64, guess: bool) -> (f64, Option<[f64; 2]>) {
        let (k, rows, partials) = (self.k, self.rows(), self.reduction());
        if guess {
            let last = rows.end.saturating_sub(1).max(rows.start);
            self.load_guess(rows.start..last.min(rows.start + 1), scale);
            self.load_guess(last..rows.end, scale);
        } else {
            self.each_row(k.cg_colours(), |colour, row| {
                // SAFETY: the row belongs to this thread, and no other thread reads it in this stage.
                unsafe { k.x[colour].row_mut(row, 0).fill(0.0) };
            });
        }
        self.not_loaded = Some(if F::SINGLE && !guess { NotLoaded::Reds(scale) } else { NotLoaded::Rhs(scale) });
        if guess {
            self.refresh(&k.x);
        }
        let mut scratch = self.scratch();
        let (reds, rest) = scratch.split_at_mut(4 * (self.layout().cx + 2 * BORDER));
        let (rhs, rest) = Rhs::new(self.caller, self.layout(), scale, rest);
        let out = &mut rest[..self.layout().cx];
        let mut start = Start { member: self, guess, rhs, out, squares: Default::default(), residual: 0.0, partials };
        self.over_black_rows(reds, |step| match step {
            BlackRowStep::Red(colour, row, y) => start.red(colour, row, y),
            BlackRowStep::Black(colour, row, y) => start.black(colour, row, y),
        });
        drop(scratch);
        let [b, whole, residual] = partials.sum(Some(self.me));
        (b, Some([whole, residual]))
    }

    /// Loads the initial guess, x = `scale` times the caller's array, in the rows J of this thread.
    fn load_guess(&self, rows: Range<usize>, scale: f64) {
        let (layout, nx) = (self.layout(), self.layout().grid.nx);
        for j in natural_rows(layout, &rows) {
            // SAFETY: natural row j and its rows J belong to this thread, and no other thread reads the rows J
            // meanwhile.
            unsafe { spread(layout, j, self.caller.output(j, nx), scale, &self.k.x) };
        }
    }

    /// Loads b and computes the right-hand side of S1, unless this right-hand side is already stored. With `reds`, the
    /// red part of b is also loaded.
    pub(super) fn fetch_rhs(&mut self, reds: bool) {
        match self.not_loaded {
            Some(NotLoaded::Rhs(scale)) => self.load_and_reduce(scale),
            Some(NotLoaded::Reds(scale)) if reds => self.load_and_reduce(scale),
            _ => {}
        }
    }

    /// Loads b, and replaces its black part by the right-hand side of S1.
    fn load_and_reduce(&mut self, scale: f64) {
        self.load_rhs(scale);
        self.reduce(Eliminated::Rhs);
    }

    /// Computes x_r = D_r^-1 (b_r - A_rb x_b). Returns max |x|, or NaN if any value is NaN, and |b - A x|^2.
    pub(super) fn fused_complete(&mut self, scale: f64) -> (f64, Option<f64>) {
        let (k, rows, layout, partials) = (self.k, self.rows(), self.layout(), self.reduction::<2>());
        let mut scratch = self.scratch();
        let (mut rhs, rest) = Rhs::new(self.caller, layout, scale, &mut scratch);
        let out = &mut rest[..layout.cx];
        let solve = |rhs: &Rhs, colour: Colour, row: usize| {
            // SAFETY: this code reads A and black x, which no thread writes in this stage. It writes a red row of this
            // thread, which other threads read only after a barrier.
            unsafe {
                let (center, a) = (k.matrix.center[colour].row(row, 0), k.matrix.straight.couplings(colour, row));
                let x = k.x[colour].row_mut(row, 0);
                solve_by_center(x, center, rhs.row(colour, row), a, k.x.straight(colour, row));
            }
        };
        self.refresh(&k.x);
        // Rows that other threads read are computed first, so that these threads wait less.
        if let Some(last) = rows.clone().last() {
            rhs.load(Colour::R1, last);
            solve(&rhs, Colour::R1, last);
            rhs.load(Colour::R2, rows.start);
            solve(&rhs, Colour::R2, rows.start);
        }
        self.refresh(&k.x);
        for row in rows.clone() {
            rhs.load(Colour::R1, row);
            if row + 1 < rows.end {
                solve(&rhs, Colour::R1, row);
                rhs.load(Colour::R2, row + 1);
                solve(&rhs, Colour::R2, row + 1);
            }
            let mut square = 0.0;
            for colour in Colour::ALL {
                self.residual_of_row(colour, row, rhs.row(colour, row), out);
                square += dot(out, out);
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            let largest = max_abs(&Colour::ALL.map(|colour| unsafe { largest(k.x[colour].row(row, 0)) }));
            // SAFETY: the row belongs to this thread, and its partial sums are stored once.
            unsafe { partials.store(row, [largest, square]) };
        }
        drop(scratch);
        let [largest, squares] = partials.all(Some(self.me));
        (max_abs(largest), Some(pairwise(squares)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::number::Real;
    use crate::base::team::{Me, Team};
    use crate::krylov::solve_steps::{Arrays, Load};
    use crate::krylov::vectors::{Iterate, VectorSteps};
    use crate::rrb::cpu::PackedSolver;
    use crate::rrb::cpu::factor::tests::{five_points, inspected, matrix, random, setup};
    use crate::rrb::cpu::number::{BrainFloat, Mixed, Single};
    use crate::rrb::cpu::packed::Packed;
    use crate::rrb::cpu::system::Shape;
    use crate::rrb::storage::Storage;
    use crate::stencil::levels::Grid;

    /// Returns this thread's black r and all of x, as doubles.
    fn black_r_and_x<F: Format>(member: &ThreadState<F>) -> (Vec<f64>, Vec<f64>) {
        let (k, layout) = (member.k, member.layout());
        let (mut r, mut x) = (Vec::new(), Vec::new());
        for row in member.rows() {
            for colour in Colour::ALL.into_iter().filter(|&c| layout.rows(c).contains(&row)) {
                // SAFETY: the rows belong to this thread, and no thread writes them now.
                unsafe {
                    x.extend_from_slice(&k.x[colour].row(row, 0)[layout.columns(colour)]);
                    if k.cg_colours().contains(&colour) {
                        r.extend(k.r[colour].row(row, 0)[layout.columns(colour)].iter().map(|r| r.wide()));
                    }
                }
            }
        }
        (r, x)
    }

    /// Compares the fused stages with the unfused steps. Every thread of a team calls this function.
    fn compare<F: Format>(member: &mut ThreadState<F>, single: bool) {
        for (scale, guess) in [(1.0, false), (1.0, true), (0.25, true), (8.0, false)] {
            let fused = member.fused_begin(scale, guess);
            let (r, x) = black_r_and_x(member);
            let again = member.residual(Iterate::X);
            let (r_again, _) = black_r_and_x(member);
            let rhs_norm2 = member.load(scale, Load::System(guess)).0;
            let whole = if guess { member.whole_residual_norm2(None) } else { rhs_norm2 };
            member.reduce(Eliminated::Rhs);
            let norm2 = member.residual(if guess { Iterate::X } else { Iterate::Zero });
            let (r_textbook, x_textbook) = black_r_and_x(member);
            let [fused_whole, fused_norm2] = fused.1.unwrap();
            assert_eq!((fused.0, fused_whole), (rhs_norm2, whole));
            if guess {
                // Bound for a few roundings of numbers below 16 `scale`, and for one rounding to the number type of r.
                let rounding = if single { f64::from(f32::EPSILON) } else { 64.0 * f64::EPSILON };
                let error = r.iter().zip(&r_textbook).map(|(r, s)| (r - s).abs()).fold(0.0, f64::max);
                assert!(error <= 16.0 * scale * rounding, "{error:e}");
                assert_eq!(x, x_textbook);
            } else {
                assert_eq!(fused_norm2, norm2);
                assert_eq!(r, r_textbook);
            }
            // If the fused start has not stored the right-hand side of S1, `residual` has computed it.
            assert_eq!((again, &r_again), (norm2, &r_textbook));
            // Red x still contains values of the previous system. The fused end must not read them.
            let fused = member.fused_complete(scale);
            let (_, x) = black_r_and_x(member);
            member.fused_begin(scale, guess);
            let largest = member.substitute();
            assert_eq!(fused, (largest, Some(member.whole_residual_norm2(Some(scale)))));
            assert_eq!(x, black_r_and_x(member).1);
        }
    }

    fn on_a_team<F: Format>(nx: usize, ny: usize, members: usize, storage: Storage) {
        let grid = Grid { nx, ny };
        let matrix = matrix(grid, 3);
        let a = five_points(grid, &matrix);
        let setup = setup(storage, 1.0, if storage == Storage::F64 { 1.0 } else { 4.0 });
        let mut k = Packed::<F>::new(Shape::new(&a, &setup), None).unwrap();
        let mut team = Team::new(members).unwrap();
        k.factorize(&mut team, &a, &setup, &inspected(&a).components).unwrap();
        let k = &k;
        let mut state = 5;
        let mut numbers = || -> Vec<f64> { (0..grid.nodes()).map(|_| random(&mut state) - 0.3).collect() };
        let (input, mut output) = (numbers(), numbers());
        let len = grid.nodes();
        let arrays = Arrays {
            input_name: "b",
            input: &input,
            ld: nx,
            plane: len,
            output: &mut output,
            device_input: 0,
            device_output: 0,
            len,
            first_row: 0,
        };
        let caller = CallerArrays::new(arrays, usize::MAX);
        let program = |me: Me| compare(&mut ThreadState::new(k, me, &caller, None), storage == Storage::Mixed);
        team.run(program, program).unwrap();
    }

    #[test]
    fn fused_start_and_end_equal_unfused_steps() {
        for (nx, ny, members) in
            [(5, 17, 1), (64, 65, 1), (1, 300, 1), (300, 1, 1), (33, 2, 1), (97, 101, 2), (128, 130, 3), (5000, 4, 2)]
        {
            on_a_team::<Double>(nx, ny, members, Storage::F64);
            on_a_team::<Single>(nx, ny, members, Storage::F32);
            on_a_team::<BrainFloat>(nx, ny, members, Storage::Bf16);
            on_a_team::<Mixed>(nx, ny, members, Storage::Mixed);
        }
    }
}
