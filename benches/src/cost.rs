//! Memory traffic and arithmetic of the steps, counted by hand, for 5-point stencils and CG on S1, the Schur complement
//! on the black half of the nodes. The units are 8-byte words and flops per black node of the finest grid.
//!
//! An array that a loop over the grid reads or writes counts once per loop, even if neighbours are read again from
//! cache. Lines that a store fetches first do not count (as in STREAM). A number of M counts c words (1; f32 1/2, bf16
//! 1/4), and a value of the sweeps of M counts v words (1; f32 and bf16 1/2). A number of S1, r, p or q counts g words
//! (1; mixed 1/2). All other numbers count one word. The exact factor of the coarsest level is not counted.
//!
//! The table and the comments in the code list the arrays of a step: "r rw" is read and written, "q w" is only written,
//! and "z" is only read. "For the next" is the right-hand side of the next grid, and "from below" is the solution on
//! it. Coarse grid q has 2 / 4^q nodes per black node of the first grid.
//!
//! ```text
//! first grid           descend  r rw 2 g, q g, pivots and couplings 2.5 c, for the next v/2 (spacing 2: and kept v/2)
//!                      ascend   from below v/2, r g/2, M 2.5 c, p rw 2 g, x rw 2, S1 5 g (f64: 3, 2 are of M), q g
//! node of a coarse     descend  3.75 c, red v/2, b1 and b2 rw v, and for the next v/4: 1.75 v
//! grid, 2 / 4^q        ascend   3.75 c, from below v/4, b1 rw v/2, red rw v, kept v/4: 2 v
//! node of a recursion  right-hand side 2 v, each step: direction 2 v (later 3 v), solution 2 v (later 3 v), A 5 c
//! grid, a visit        and 2 v and r, z 4 v (AMLI: not in the last), products of K 4 v (later 6 v), result 2 v;
//!                      fused AMLI: the last step z rw, d, u 4 v; of the first recursion, a solve: <g, u> 2 v
//! ```
//!
//! A recursion grid and all coarser grids are swept `steps` times as often as the grids above.

use rrbsolver::layers::DEFAULT_SPACING;
use rrbsolver::options::{RESULTS, info, opt};
use serde::{Deserialize, Serialize};

/// Cost of one call, per black node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Memory traffic in 8-byte words.
    pub words: f64,
    /// Number of additions and multiplications.
    pub flops: f64,
}

/// The properties of the preconditioner that determine its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Precision in use: f64, f32, bf16 or mixed.
    pub precision: String,
    /// Cycle in use: v, amli or k.
    pub cycle: String,
    /// Number of levels between recursions.
    pub spacing: usize,
    /// Number of inner iterations.
    pub steps: usize,
    /// Number of levels (eliminations).
    pub levels: usize,
    /// Whether stages are fused; otherwise unfused steps.
    pub fused: bool,
}

/// Returns the name of a value of a result that is a choice.
pub fn choice(key: i32, value: i64) -> &'static str {
    let entry = RESULTS.iter().find(|r| r.key == key);
    entry.and_then(|r| r.choices.iter().find(|c| c.1 == value)).map_or("", |c| c.0)
}

/// Partial sums of the cost: words with numbers of M, with values of its sweeps, with vectors of CG and with f64, and
/// flops.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    matrix: f64,
    values: f64,
    vectors: f64,
    double: f64,
    flops: f64,
}

impl Count {
    fn add(&mut self, times: f64, matrix: f64, values: f64, flops: f64) {
        self.matrix += times * matrix;
        self.values += times * values;
        self.flops += times * flops;
    }
}

impl Model {
    /// Creates the model from the values of integer options and from the factorization's results `precision` and
    /// `cycle`.
    pub fn new(option: impl Fn(i32) -> i64, precision: i64, cycle: i64, levels: usize) -> Self {
        let spacing = option(opt::CYCLE_SPACING) as usize;
        Self {
            precision: choice(info::PRECISION, precision).to_owned(),
            cycle: choice(info::CYCLE, cycle).to_owned(),
            spacing: if spacing == 0 { DEFAULT_SPACING } else { spacing },
            steps: option(opt::CYCLE_STEPS) as usize,
            levels,
            fused: option(opt::FUSION) != 0,
        }
    }

    /// Returns the words per number of M, per value of its sweeps, and per value of CG; none for formats that are not
    /// counted.
    fn sizes(&self) -> Option<(f64, f64, f64)> {
        match self.precision.as_str() {
            "f64" => Some((1.0, 1.0, 1.0)),
            "f32" if self.fused => Some((0.5, 0.5, 1.0)),
            "bf16" if self.fused => Some((0.25, 0.5, 1.0)),
            "mixed" if self.fused => Some((0.25, 0.5, 0.5)),
            _ => None,
        }
    }

    /// Calls `of` with the nodes of every coarse grid per black node of the first grid, times its number of sweeps.
    /// Calls `at` with the nodes of every recursion grid, times its number of visits.
    fn coarse(&self, mut of: impl FnMut(f64), mut at: impl FnMut(f64)) {
        let recursive = self.cycle != "v" && self.steps > 1;
        let mut sweeps = 1.0;
        for q in (1..).take_while(|q| 2 * q < self.levels) {
            let nodes = 2.0 / 4f64.powi(q as i32);
            if recursive && (2 * q) % self.spacing == 0 {
                at(nodes * sweeps);
                sweeps *= self.steps as f64;
            }
            of(nodes * sweeps);
        }
    }

    /// Adds the inner iteration on a recursion grid, per node.
    fn add_iteration(&self, count: &mut Count, visits: f64) {
        count.add(visits, 0.0, 2.0, 0.0);
        for step in 0..self.steps {
            let later = f64::from(u8::from(step > 0));
            let last = step + 1 == self.steps;
            if last && self.fused && self.cycle == "amli" {
                count.add(visits, 0.0, 4.0, 4.0);
                return;
            }
            count.add(visits, 0.0, 4.0 + 2.0 * later, 1.0 + 3.0 * later);
            if self.cycle == "k" {
                count.add(visits, 0.0, 4.0 + 2.0 * later, 4.0 + 2.0 * later);
            }
            if self.cycle == "k" || !last {
                count.add(visits, 5.0, 2.0, 25.0);
            }
            if !last {
                count.add(visits, 0.0, 4.0, 2.0);
            }
        }
        count.add(visits, 0.0, 2.0, 0.0);
    }

    /// Returns the cost of one application on the levels below the first grid: downward, upward, and the inner
    /// iterations.
    fn below(&self, down: bool) -> Count {
        let mut count = Count::default();
        // Recursions run on the way down, because thread 0 reads the clock there.
        let mut iterations = Count::default();
        let mut first_recursion = None;
        let (matrix, values, flops) = match (self.fused, down) {
            (true, true) => (3.75, 1.75, 8.25),
            (true, false) => (3.75, 2.0, 6.75),
            (false, true) => (3.75, 4.25, 6.75),
            (false, false) => (3.75, 2.75, 6.75),
        };
        self.coarse(
            |nodes| count.add(nodes, matrix, values, flops),
            |visits| {
                first_recursion.get_or_insert(visits);
                self.add_iteration(&mut iterations, visits);
            },
        );
        if let Some(nodes) = first_recursion.filter(|_| self.fused) {
            iterations.add(nodes, 0.0, 2.0, 2.0);
        }
        if down {
            count.add(1.0, iterations.matrix, iterations.values, iterations.flops);
        }
        count
    }

    /// Returns the cost of one call of a step, by its name in the traits of steps; none if it is not counted.
    pub fn of_step(&self, step: &str) -> Option<Cost> {
        let (c, v, g) = self.sizes()?;
        let mut count = Count::default();
        match step {
            // r rw, q; x rw, p; p rw, z.
            "advance_residual" => (count.vectors, count.flops) = (3.0, 2.0),
            "advance_solution" => (count.double, count.vectors, count.flops) = (2.0, 1.0, 2.0),
            "next_direction" => (count.vectors, count.values, count.flops) = (2.0, 1.0, 2.0),
            "first_direction" => (count.vectors, count.values) = (1.0, 1.0),
            "residual_norm2" => (count.vectors, count.flops) = (1.0, 2.0),
            // S1 (center, two at distance two, two diagonal) 5, p, q w; p'q reads both again.
            "multiply" => (count.vectors, count.flops) = (7.0 + 2.0, 17.0 + 2.0),
            // From A instead of S1: center 2, couplings 4, x, b; r w, and read again.
            "residual" if self.precision == "mixed" => {
                (count.double, count.vectors, count.flops) = (6.0 + 2.0, 2.0, 21.0);
            }
            "residual" => (count.double, count.flops) = (5.0 + 3.0, 20.0),
            "residual_from_rhs" => (count.double, count.vectors, count.flops) = (1.0, 1.0, 2.0),
            // r to z; b1 divided by d, kept, for the next grid; back, b1; r'z.
            "precondition" => {
                (count.vectors, count.flops) = (1.0 + 1.0, 2.0);
                count.add(1.0, 0.5 + 2.0, 1.0 + (1.0 + 1.5 + 1.0) + 1.0, 0.5 + 4.0);
                count.add(1.0, 0.5 + 2.0, 1.0 + 1.5, 4.5);
                for down in [true, false] {
                    let below = self.below(down);
                    count.add(1.0, below.matrix, below.values, below.flops);
                }
            }
            // At a start, r is only read.
            "descend" | "descend_at_start" => {
                let step = step == "descend";
                count = self.below(true);
                count.vectors += if step { 3.0 } else { 1.0 };
                let kept = if self.cycle != "v" && self.spacing == 2 { 0.5 } else { 0.0 };
                count.add(1.0, 2.5, 0.5 + kept, if step { 2.0 } else { 0.0 } + 2.0 + 1.5 + 4.0);
            }
            // At a start, p is only written, and x is not touched.
            "ascend" | "ascend_at_start" => {
                let step = step == "ascend";
                count = self.below(false);
                count.vectors += 0.5 + 1.0 + if self.precision == "f64" { 3.0 } else { 5.0 };
                count.vectors += if step { 2.0 } else { 1.0 };
                count.double += if step { 2.0 } else { 0.0 };
                count.add(1.0, 2.5, 0.5, if step { 4.0 } else { 0.0 } + 4.5 + 17.0 + 2.0);
            }
            // An iteration of the loop on a device; the end of the loop is not counted.
            crate::stages::LOOP if self.fused => {
                let (down, up) = (self.of_step("descend")?, self.of_step("ascend")?);
                return Some(Cost { words: down.words + up.words, flops: down.flops + up.flops });
            }
            // On the whole grid: b and x; b r and w, from x = 0 black x w; x r, out w; x.
            "inspect" => count.double = 4.0,
            // From x = 0: b 2, red center, couplings 4, black x w; r w. In single precision b1 w.
            "begin" => {
                let kept = f64::from(u8::from(self.precision == "mixed"));
                (count.double, count.vectors, count.flops) = (2.0 + 5.0 + 1.0 + kept, 1.0, 15.0);
            }
            // b 2, center 2, couplings 4, black x, red x w.
            "complete" => (count.double, count.flops) = (2.0 + 6.0 + 2.0, 33.0),
            "load" => (count.double, count.flops) = (5.0, 6.0),
            "load_rhs" => (count.double, count.flops) = (4.0, 2.0),
            // center 2, couplings 4, x 2, b 2.
            "whole_residual_norm2" | "returned_residual_norm2" => (count.double, count.flops) = (10.0, 24.0),
            "store" => (count.double, count.flops) = (4.0, 2.0),
            "solution_max" => count.double = 2.0,
            "rhs_norm2" => (count.double, count.flops) = (2.0, 4.0),
            // b_r, 1/d, couplings 4, b_b rw.
            "reduce" => (count.double, count.flops) = (8.0, 9.0),
            // As `whole_residual_norm2`, b w, and 1/d of half of the nodes, which is computed; then as `reduce`.
            "reduce_residual" => (count.double, count.flops) = (12.0 + 8.0, 28.0 + 9.0),
            // b_r, 1/d, couplings 4, x_b, x_r w.
            "back_substitute" => (count.double, count.flops) = (8.0, 9.0),
            _ => return None,
        }
        let words = count.double + c * count.matrix + v * count.values + g * count.vectors;
        Some(Cost { words, flops: count.flops })
    }

    /// Returns the words of a whole solve from x = 0 until the tested 2-norm is confirmed by a recomputed residual.
    pub fn words_of_solve(&self, iterations: usize) -> Option<f64> {
        let around: &[&str] = if self.fused {
            &["inspect", "begin", "complete", "store"]
        } else {
            &["inspect", "load", "reduce", "residual_from_rhs", "back_substitute", "returned_residual_norm2", "store"]
        };
        let of = |step: &str| Some(self.of_step(step)?.words);
        let around: f64 = around.iter().map(|step| of(step)).sum::<Option<f64>>()?;
        let n = iterations as f64;
        if !self.fused {
            return Some(around + n * self.words_of_iteration()?);
        }
        // The last iteration ends on the way down, after x + alpha p.
        let start = of("descend_at_start")? + of("ascend_at_start")?;
        // In single precision, the residual is replaced once on the way to 1e-6, in addition to the recurrence; the
        // next upward sweep does not touch x.
        let replacement = of("advance_solution")? + of("residual")? + of("descend_at_start")? + of("advance_residual")?
            - of("descend")?
            + of("residual_norm2")?
            - 2.0;
        let around = around + if self.precision == "mixed" { replacement } else { 0.0 };
        Some(around + start + n * of("descend")? + (n - 1.0).max(0.0) * of("ascend")? + of("advance_solution")?)
    }

    /// Returns the words of one iteration.
    pub fn words_of_iteration(&self) -> Option<f64> {
        let steps: &[&str] = if self.fused {
            &["descend", "ascend"]
        } else {
            &["advance_residual", "residual_norm2", "precondition", "advance_solution", "next_direction", "multiply"]
        };
        steps.iter().map(|step| Some(self.of_step(step)?.words)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(precision: &str, cycle: &str, fused: bool) -> Model {
        let (precision, cycle) = (precision.to_owned(), cycle.to_owned());
        Model { precision, cycle, spacing: 4, steps: 2, levels: 64, fused }
    }

    #[test]
    fn sums_of_an_iteration() {
        let words = |precision, cycle, fused| model(precision, cycle, fused).words_of_iteration().unwrap();
        // 6 + 5.5 * 2/3, 11.5 + 5.75 * 2/3.
        assert!((words("f64", "v", true) - 25.0).abs() < 1e-9);
        // 3 axpy 9, r'r 1, matvec 9, solver 15 + 14.5 * 2/3.
        assert!((words("f64", "v", false) - (34.0 + 14.5 * 2.0 / 3.0)).abs() < 1e-9);
        // 3 + .875 and 11.375, and a coarse node (7.5 / 4 + 3.75 / 2) 2/3.
        assert!((words("bf16", "v", true) - (15.25 + 3.75 * 2.0 / 3.0)).abs() < 1e-9);
        // Sections 1, 2, ... are swept 2, 4, ... times: 1/2 + 5/16 (1 + 1/8 + ...) = 6/7 nodes instead of 2/3.
        // Recursion grids have 1/8 (1 + 1/8 + ...) = 1/7 nodes per visit, with 5 c + 16 v each. <g, u> adds 2 v for 1/8
        // of the nodes.
        let more = 3.75 * (6.0 / 7.0 - 2.0 / 3.0) + (1.25 + 8.0) / 7.0 + 1.0 / 8.0;
        assert!((words("bf16", "amli", true) - words("bf16", "v", true) - more).abs() < 1e-9);
        let more = words("f64", "amli", true) / words("f64", "v", true);
        assert!(more > 1.05 && more < 1.3, "{more}");
        assert!(words("f64", "k", true) > words("f64", "amli", true));
        assert_eq!(model("bf16", "v", false).words_of_iteration(), None);
        // Half of r 2.5, q 2, p 2, S1 5.
        assert!((words("bf16", "amli", true) - words("mixed", "amli", true) - 5.75).abs() < 1e-9);
        // 27 outside the loop; descend and ascend in every iteration, but two words less at the start and three in the
        // first direction. There is no upward sweep at the end, where x needs 3.
        let solve = model("f64", "v", true).words_of_solve(10).unwrap();
        assert!((solve - (27.0 + 10.0 * 25.0 + (29.0 / 3.0 - 2.0) - 3.0 + 3.0)).abs() < 1e-9, "{solve}");
        assert_eq!(model("f64", "v", true).of_step("no such step"), None);
    }

    /// Upper limits of the words of an iteration with `norm=true2`, for any number of levels: 30 in f64 and 20 in bf16;
    /// amli in f64 is at most 25 % above v.
    #[test]
    fn words_of_an_iteration_stay_below_the_limits() {
        for levels in [2, 8, 12, 64] {
            for (precision, cycle, most) in [
                ("f64", "v", 30.0),
                ("bf16", "v", 20.0),
                ("bf16", "amli", 20.0),
                ("mixed", "amli", 14.25),
                ("f64", "amli", 1.25 * 25.0),
            ] {
                let words = Model { levels, ..model(precision, cycle, true) }.words_of_iteration().unwrap();
                assert!(words <= most, "{precision} {cycle}, {levels} levels: {words}");
            }
        }
    }

    #[test]
    fn recursion_sweeps_coarse_grids_more_often() {
        let mut swept = Vec::new();
        let mut visited = Vec::new();
        let amli = Model { levels: 12, ..model("f64", "amli", true) };
        amli.coarse(|n| swept.push(n), |n| visited.push(n));
        let node = |q: i32| 2.0 / 4f64.powi(q);
        assert_eq!(swept, [node(1), 2.0 * node(2), 2.0 * node(3), 4.0 * node(4), 4.0 * node(5)]);
        assert_eq!(visited, [node(2), 2.0 * node(4)]);
    }
}
