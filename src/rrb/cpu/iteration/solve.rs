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
//! A natural row of b contains two colours. The values of r2 and b1 in row J are needed again after row J + 1 has been
//! loaded. r2 and b1 therefore have two buffer rows each, which are used alternately.

use crate::base::loops::{combine, dot, max_abs};
use crate::base::reduce::{Reduce, pairwise_sum};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::solve_steps::{EliminatedVector, SolveSteps};
use crate::rrb::cpu::conversion::{natural_rows, split_by_parity, store_natural_row};
use crate::rrb::cpu::iteration::thread::{BlackRowStep, NotLoadedRhs, ThreadState};
use crate::rrb::cpu::loops::{difference_with_product, divide_by_center, scale_row, solve_by_center, subtract_product};
use crate::rrb::cpu::neighbours::NeighbourRows;
use crate::rrb::cpu::number::{F64Format, Format};
use crate::rrb::cpu::packed::SCRATCH_BORDER;
use crate::rrb::layout::{Colour, Layout};
use std::ops::Range;

/// Rows of b by colour, in a pass over rows J.
struct RhsRows<'a> {
    caller: &'a CallerArrays<'a>,
    layout: &'a Layout,
    scale: f64,
    r1: &'a mut [f64],
    b2: &'a mut [f64],
    /// Two rows per colour, which are used alternately: entry J mod 2 contains row J.
    b1: [&'a mut [f64]; 2],
    r2: [&'a mut [f64]; 2],
}

impl<'a> RhsRows<'a> {
    /// Creates the rows in the scratch space, and also returns the rest of the scratch space.
    fn new(
        caller: &'a CallerArrays<'a>,
        layout: &'a Layout,
        scale: f64,
        scratch: &'a mut [f64],
    ) -> (Self, &'a mut [f64]) {
        let (own_scratch, remaining_scratch) = scratch.split_at_mut(6 * layout.cx);
        own_scratch.fill(0.0);
        let mut rows = own_scratch.chunks_exact_mut(layout.cx);
        let mut row = || rows.next().expect("room for six rows");
        let (r1, b2, b1, r2) = (row(), row(), [row(), row()], [row(), row()]);
        (Self { caller, layout, scale, r1, b2, b1, r2 }, remaining_scratch)
    }

    /// Loads the natural row that contains red row J: multiplies it by `scale`, and splits it into its two colours. If
    /// there is no such row in the grid, sets both colours to zero.
    fn load_row(&mut self, red: Colour, row: usize) {
        let Self { caller, layout, scale, r1, b2, b1, r2 } = self;
        let (j, even, odd) = match red {
            Colour::R1 => (2 * row + 1, &mut **r1, &mut **b2),
            _ => (2 * row, &mut *b1[row % 2], &mut *r2[row % 2]),
        };
        match j.checked_sub(layout.shift_y).filter(|&j| j < layout.grid.ny) {
            Some(j) => split_by_parity((layout.shift_x, caller.input_row(j, layout.grid.nx)), even, odd),
            None => [&mut *even, &mut *odd].into_iter().for_each(|row| row.fill(0.0)),
        }
        if *scale != 1.0 {
            scale_row(even, *scale);
            scale_row(odd, *scale);
        }
    }

    /// Returns row J of a colour. `load_row` must have been called for its natural row before.
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
struct FusedStart<'m, 'a, F: Format> {
    state: &'m ThreadState<'a, F>,
    /// Whether the caller's x contains an initial guess. Rows of x are loaded one by one; the first and the last row of
    /// a thread are loaded before the pass, because other threads read them. Without a guess, x = 0.
    has_guess: bool,
    rhs: RhsRows<'m>,
    out: &'m mut [f64],
    /// `squares[J mod 2][colour]` contains the sums of squares of b and of b - A x in row J of the colour.
    squares: [[[f64; 2]; 4]; 2],
    /// <r, r> of the current row.
    residual_square: f64,
    /// Partial sums of |b|^2, |b - A x|^2 and <r, r> per row.
    partials: Reduce<'a, 3>,
}

impl<F: Format> FusedStart<'_, '_, F> {
    /// Loads the natural row of b that contains red row J and, with a guess, the next row of x that is needed. Computes
    /// y_r = D_r^-1 (b - A x)_r in row J, and sums of squares.
    fn process_red(&mut self, colour: Colour, row: usize, y: &mut [f64]) {
        let (packed, Self { state, has_guess, rhs, out, squares, .. }) = (self.state.packed, self);
        let rows = state.rows();
        if *has_guess && colour == Colour::R1 && row >= rows.start && row + 2 < rows.end {
            state.load_guess(row + 1..row + 2, rhs.scale);
        }
        rhs.load_row(colour, row);
        let squares = &mut squares[row % 2];
        for loaded_colour in [colour, if colour == Colour::R1 { Colour::B2 } else { Colour::B1 }] {
            let b = rhs.row(loaded_colour, row);
            squares[loaded_colour as usize] = [dot(b, b); 2];
        }
        let b = rhs.row(colour, row);
        // SAFETY: no thread writes A in this stage.
        let center = unsafe { packed.matrix.center[colour].row(row, 0) };
        if *has_guess {
            state.residual_of_row(colour, row, b, out);
            squares[colour as usize][1] = dot(out, out);
            divide_by_center(y, out, center);
        } else {
            divide_by_center(y, b, center);
        }
    }

    /// Computes r = (b - A x)_b - A_br y_r in row J of a black colour. After both colours, stores the partial sums of
    /// row J.
    fn process_black(&mut self, colour: Colour, row: usize, y: NeighbourRows) {
        let (packed, Self { has_guess, rhs, out, squares, residual_square, partials, state }) =
            (self.state.packed, self);
        let squares = &mut squares[row % 2];
        let b = rhs.row(colour, row);
        // SAFETY: no thread writes A in this stage.
        let a = unsafe { packed.matrix.axis_couplings.couplings(colour, row) };
        if *has_guess {
            state.residual_of_row(colour, row, b, out);
            squares[colour as usize][1] = dot(out, out);
            subtract_product::<F64Format>(out, a, y);
        } else {
            difference_with_product::<F64Format>(out, b, a, y);
        }
        // SAFETY: the black rows belong to this thread, and no other thread reads them in this stage. The partial sums
        // of a row are stored once.
        unsafe {
            combine(packed.r[colour].row_mut(row, 0), 0.0, 1.0, out);
            let r = packed.r[colour].row(row, 0);
            if F::CG_IS_SINGLE && !*has_guess {
                packed.b[colour].row_mut(row, 0).copy_from_slice(out);
            }
            *residual_square = dot(r, r) + if colour == Colour::B1 { 0.0 } else { *residual_square };
            if colour == Colour::B2 {
                let [b, whole_square] = [0, 1].map(|index| squares.iter().map(|square| square[index]).sum());
                partials.store(row, [b, whole_square, *residual_square]);
            }
        }
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// Computes r = (b - A x)_b - A_br D_r^-1 (b - A x)_r. Returns |b|^2, |b - A x|^2 on the whole grid, and <r, r>.
    pub(super) fn fused_begin(&mut self, scale: f64, has_guess: bool) -> (f64, Option<[f64; 2]>) {
        let (packed, rows, partials) = (self.packed, self.rows(), self.begin_reduction());
        if has_guess {
            let last_row = rows.end.saturating_sub(1).max(rows.start);
            self.load_guess(rows.start..last_row.min(rows.start + 1), scale);
            self.load_guess(last_row..rows.end, scale);
        } else {
            self.for_each_row(packed.cg_colours(), |colour, row| {
                // SAFETY: the row belongs to this thread, and no other thread reads it in this stage.
                unsafe { packed.x[colour].row_mut(row, 0).fill(0.0) };
            });
        }
        self.not_loaded_rhs = Some(if F::CG_IS_SINGLE && !has_guess {
            NotLoadedRhs::RedPart(scale)
        } else {
            NotLoadedRhs::WholeRhs(scale)
        });
        if has_guess {
            self.refresh(&packed.x);
        }
        let mut scratch = self.scratch();
        let (red_buffers, remaining_scratch) = scratch.split_at_mut(4 * (self.layout().cx + 2 * SCRATCH_BORDER));
        let (rhs, remaining_scratch) = RhsRows::new(self.caller, self.layout(), scale, remaining_scratch);
        let out = &mut remaining_scratch[..self.layout().cx];
        let mut start = FusedStart {
            state: self,
            has_guess,
            rhs,
            out,
            squares: Default::default(),
            residual_square: 0.0,
            partials,
        };
        self.for_black_rows(red_buffers, |row_step| match row_step {
            BlackRowStep::Red(colour, row, y) => start.process_red(colour, row, y),
            BlackRowStep::Black(colour, row, y) => start.process_black(colour, row, y),
        });
        drop(scratch);
        let [b, whole_square, residual_square] = partials.sum(Some(self.thread));
        (b, Some([whole_square, residual_square]))
    }

    /// Loads the initial guess, x = `scale` times the caller's array, in the rows J = `rows`, which must belong to this
    /// thread.
    fn load_guess(&self, rows: Range<usize>, scale: f64) {
        let (layout, nx) = (self.layout(), self.layout().grid.nx);
        for j in natural_rows(layout, &rows) {
            // SAFETY: natural row j belongs to this thread, and so do the rows J in which it is stored. No other thread
            // reads these rows J meanwhile.
            unsafe { store_natural_row(layout, j, self.caller.output_row(j, nx), scale, &self.packed.x) };
        }
    }

    /// Loads b and computes the right-hand side of S1, unless this right-hand side is already stored. With
    /// `needs_reds`, the red part of b is also loaded.
    pub(super) fn fetch_rhs(&mut self, needs_reds: bool) {
        match self.not_loaded_rhs {
            Some(NotLoadedRhs::WholeRhs(scale)) => self.load_and_reduce(scale),
            Some(NotLoadedRhs::RedPart(scale)) if needs_reds => self.load_and_reduce(scale),
            _ => {}
        }
    }

    /// Loads b, and replaces its black part by the right-hand side of S1.
    fn load_and_reduce(&mut self, scale: f64) {
        self.load_rhs(scale);
        self.reduce(EliminatedVector::Rhs);
    }

    /// Computes x_r = D_r^-1 (b_r - A_rb x_b). Returns max |x|, or NaN if any value is NaN, and |b - A x|^2.
    pub(super) fn fused_complete(&mut self, scale: f64) -> (f64, Option<f64>) {
        let (packed, rows, layout, partials) = (self.packed, self.rows(), self.layout(), self.begin_reduction::<2>());
        let mut scratch = self.scratch();
        let (mut rhs, remaining_scratch) = RhsRows::new(self.caller, layout, scale, &mut scratch);
        let out = &mut remaining_scratch[..layout.cx];
        let solve_red_row = |rhs: &RhsRows, colour: Colour, row: usize| {
            // SAFETY: this code reads A and black x, which no thread writes in this stage. It writes a red row of this
            // thread, which other threads read only after a barrier.
            unsafe {
                let (center, a) =
                    (packed.matrix.center[colour].row(row, 0), packed.matrix.axis_couplings.couplings(colour, row));
                let x = packed.x[colour].row_mut(row, 0);
                solve_by_center(x, center, rhs.row(colour, row), a, packed.x.axis_neighbours(colour, row));
            }
        };
        self.refresh(&packed.x);
        // Rows that other threads read are computed first, so that these threads wait less.
        if let Some(last) = rows.clone().last() {
            rhs.load_row(Colour::R1, last);
            solve_red_row(&rhs, Colour::R1, last);
            rhs.load_row(Colour::R2, rows.start);
            solve_red_row(&rhs, Colour::R2, rows.start);
        }
        self.refresh(&packed.x);
        for row in rows.clone() {
            rhs.load_row(Colour::R1, row);
            if row + 1 < rows.end {
                solve_red_row(&rhs, Colour::R1, row);
                rhs.load_row(Colour::R2, row + 1);
                solve_red_row(&rhs, Colour::R2, row + 1);
            }
            let mut square = 0.0;
            for colour in Colour::ALL {
                self.residual_of_row(colour, row, rhs.row(colour, row), out);
                square += dot(out, out);
            }
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            let largest = max_abs(&Colour::ALL.map(|colour| unsafe { max_abs(packed.x[colour].row(row, 0)) }));
            // SAFETY: the row belongs to this thread, and its partial sums are stored once.
            unsafe { partials.store(row, [largest, square]) };
        }
        drop(scratch);
        let [largest, squares] = partials.partial_results(Some(self.thread));
        (max_abs(largest), Some(pairwise_sum(squares)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::number::Real;
    use crate::base::team::{Team, TeamThread};
    use crate::krylov::solve_steps::{Arrays, Load};
    use crate::krylov::vectors::{Iterate, VectorSteps};
    use crate::rrb::cpu::PackedSolver;
    use crate::rrb::cpu::factor::tests::{five_point_view, inspect_matrix, random, random_matrix, setup};
    use crate::rrb::cpu::number::{Bf16Format, F32Format, MixedFormat};
    use crate::rrb::cpu::packed::PackedSystem;
    use crate::rrb::cpu::system::PackedShape;
    use crate::rrb::storage::Storage;
    use crate::stencil::levels::Grid;

    /// Returns this thread's black r and all of x, as doubles.
    fn black_r_and_x<F: Format>(thread: &ThreadState<F>) -> (Vec<f64>, Vec<f64>) {
        let (packed, layout) = (thread.packed, thread.layout());
        let (mut r, mut x) = (Vec::new(), Vec::new());
        for row in thread.rows() {
            for colour in Colour::ALL.into_iter().filter(|&c| layout.rows(c).contains(&row)) {
                // SAFETY: the rows belong to this thread, and no thread writes them now.
                unsafe {
                    x.extend_from_slice(&packed.x[colour].row(row, 0)[layout.columns(colour)]);
                    if packed.cg_colours().contains(&colour) {
                        r.extend(packed.r[colour].row(row, 0)[layout.columns(colour)].iter().map(|r| r.to_f64()));
                    }
                }
            }
        }
        (r, x)
    }

    /// Compares the fused stages with the unfused steps. Every thread of a team calls this function.
    fn compare_with_unfused<F: Format>(thread: &mut ThreadState<F>, is_single: bool) {
        for (scale, has_guess) in [(1.0, false), (1.0, true), (0.25, true), (8.0, false)] {
            let fused = thread.fused_begin(scale, has_guess);
            let (r, x) = black_r_and_x(thread);
            let residual_again = thread.residual(Iterate::X);
            let (r_again, _) = black_r_and_x(thread);
            let rhs_norm2 = thread.load(scale, Load::System(has_guess)).0;
            let whole_square = if has_guess { thread.whole_residual_norm2(None) } else { rhs_norm2 };
            thread.reduce(EliminatedVector::Rhs);
            let norm2 = thread.residual(if has_guess { Iterate::X } else { Iterate::Zero });
            let (r_unfused, x_unfused) = black_r_and_x(thread);
            let [fused_whole_square, fused_norm2] = fused.1.unwrap();
            assert_eq!((fused.0, fused_whole_square), (rhs_norm2, whole_square));
            if has_guess {
                // Bound for a few roundings of numbers below 16 `scale`, and for one rounding to the number type of r.
                let rounding = if is_single { f64::from(f32::EPSILON) } else { 64.0 * f64::EPSILON };
                let error = r.iter().zip(&r_unfused).map(|(r, s)| (r - s).abs()).fold(0.0, f64::max);
                assert!(error <= 16.0 * scale * rounding, "{error:e}");
                assert_eq!(x, x_unfused);
            } else {
                assert_eq!(fused_norm2, norm2);
                assert_eq!(r, r_unfused);
            }
            // If the fused start has not stored the right-hand side of S1, `residual` has computed it.
            assert_eq!((residual_again, &r_again), (norm2, &r_unfused));
            // The red part of x still contains values of the previous system. The fused end must not read these values.
            let fused = thread.fused_complete(scale);
            let (_, x) = black_r_and_x(thread);
            thread.fused_begin(scale, has_guess);
            let largest = thread.substitute();
            assert_eq!(fused, (largest, Some(thread.whole_residual_norm2(Some(scale)))));
            assert_eq!(x, black_r_and_x(thread).1);
        }
    }

    fn compare_on_team<F: Format>(nx: usize, ny: usize, threads: usize, storage: Storage) {
        let grid = Grid { nx, ny };
        let matrix = random_matrix(grid, 3);
        let a = five_point_view(grid, &matrix);
        let setup = setup(storage, 1.0, if storage == Storage::F64 { 1.0 } else { 4.0 });
        let mut packed = PackedSystem::<F>::new(PackedShape::new(&a, &setup), None).unwrap();
        let mut team = Team::new(threads).unwrap();
        packed.factorize(&mut team, &a, &setup, &inspect_matrix(&a).components).unwrap();
        let packed = &packed;
        let mut seed = 5;
        let mut random_values = || -> Vec<f64> { (0..grid.nodes()).map(|_| random(&mut seed) - 0.3).collect() };
        let (input, mut output) = (random_values(), random_values());
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
        let compare_on_thread = |thread: TeamThread| {
            compare_with_unfused(&mut ThreadState::new(packed, thread, &caller, None), storage == Storage::Mixed)
        };
        team.run(compare_on_thread, compare_on_thread).unwrap();
    }

    #[test]
    fn fused_start_and_end_equal_unfused_steps() {
        for (nx, ny, threads) in
            [(5, 17, 1), (64, 65, 1), (1, 300, 1), (300, 1, 1), (33, 2, 1), (97, 101, 2), (128, 130, 3), (5000, 4, 2)]
        {
            compare_on_team::<F64Format>(nx, ny, threads, Storage::F64);
            compare_on_team::<F32Format>(nx, ny, threads, Storage::F32);
            compare_on_team::<Bf16Format>(nx, ny, threads, Storage::Bf16);
            compare_on_team::<MixedFormat>(nx, ny, threads, Storage::Mixed);
        }
    }
}
