//! Memory traffic and arithmetic of the steps, counted by hand, for 5 points where CG runs on S1 (half of the nodes: the
//! black ones), in 8-byte words and flops per black node.
//!
//! The rule: an array that a loop over the grid reads or writes counts once a loop, whatever its neighbours' reads find
//! in cache; lines that a store fetches first do not count (as in STREAM). Levels are counted as if there were no end of
//! them: a coarse grid has 1/4 of the nodes of the one before, all coarse ones together 2/3 of a node per black node.
//! The exact factor, which adds at most 1/2 + 1/2, is not counted.

use serde::{Deserialize, Serialize};

/// Of one call, per black node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// 8-byte words.
    pub words: f64,
    /// Additions and multiplications.
    pub flops: f64,
}

const fn cost(words: f64, flops: f64) -> Option<Cost> {
    Some(Cost { words, flops })
}

/// Nodes of all coarse grids per black node of the first.
const COARSE: f64 = 2.0 / 3.0;

/// One call of a step, by its name in the traits of `src/backend`.
pub fn of_step(step: &str) -> Option<Cost> {
    match step {
        // r rw, q; x rw, p; p rw, z.
        "advance_residual" | "advance_solution" | "next_direction" => cost(3.0, 2.0),
        "first_direction" => cost(2.0, 0.0),
        "residual_norm2" => cost(1.0, 2.0),
        // S1 (center, two at distance two, two diagonal) 5, p, q w; p'q reads both again.
        "multiply" => cost(7.0 + 2.0, 17.0 + 2.0),
        "residual" => cost(5.0 + 3.0, 18.0),
        // r to z 2; first grid: b1 over d 1.5, kept 3.5, handed on 1; back 1, b1 4; r'z 2.
        // A coarse node: red over d 1.5, black 3.5, half of b1 and kept above 2.5, handed on .5; back .5, b1 2, red 4.
        "precondition" => cost(
            2.0 + (1.5 + 3.5 + 1.0) + (1.0 + 4.0) + 2.0 + COARSE * 14.5,
            (0.5 + 4.0) + 4.5 + 2.0 + COARSE * (0.5 + 4.0 + 2.25 + 6.75),
        ),
        // As counted at the head of src/backend/cpu/fused.rs.
        "descend" => cost(6.0 + 3.5, 2.0 + 2.0 + 1.5 + 4.0 + COARSE * 8.25),
        "ascend" => cost(3.8 + 11.5, 4.5 + 2.0 + 2.0 + 17.0 + 2.0 + COARSE * 6.75),
        // On the whole grid: b and x; b r and w, x w; x r, out w; x.
        "inspect" => cost(4.0, 0.0),
        "load" => cost(6.0, 2.0),
        "store" => cost(4.0, 2.0),
        "solution_max" => cost(2.0, 0.0),
        "rhs_norm2" => cost(2.0, 4.0),
        // y_r = b_r / d 3; b_b rw 2, couplings 4, y_r 1.
        "reduce" => cost(10.0, 9.0),
        // b_r, 1/d, couplings 4, x_b, x_r w.
        "back_substitute" => cost(8.0, 9.0),
        _ => None,
    }
}

/// Words of one iteration: the fused stages, or the textbook's steps.
pub fn words_of_iteration(fused: bool) -> f64 {
    let steps: &[&str] = if fused {
        &["descend", "ascend"]
    } else {
        &["advance_residual", "residual_norm2", "precondition", "advance_solution", "next_direction", "multiply"]
    };
    steps.iter().filter_map(|step| of_step(step)).map(|c| c.words).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        assert!((words_of_iteration(true) - 24.8).abs() < 1e-9);
        // 43 and 2/3.
        assert!((words_of_iteration(false) - 43.667).abs() < 1e-3, "{}", words_of_iteration(false));
        assert_eq!(of_step("no such step"), None);
    }
}
