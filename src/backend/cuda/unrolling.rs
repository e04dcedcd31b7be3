//! How many iterations the body of the recorded loop has. Going round takes time, and so do iterations of the body after the last
//! one, whose kernels find the loop over: solves lose nothing where the body has as many as they take. Recording takes as long
//! as many solves lose together, so that the body becomes another one once they have lost that much by the one there is.

use std::time::{Duration, Instant};

/// Going round; an iteration of a loop that is over. Measured on an H200 (docs/performance-gpu.md).
const ROUND: Duration = Duration::from_nanos(4500);
const IDLE: Duration = Duration::from_micros(15);
/// Iterations of a body at most.
const MOST: usize = 32;

pub struct Unrolling {
    /// Iterations of the body.
    pub body: usize,
    /// A body for the loop before.
    other: usize,
    /// What loops have lost by this body and not by that of the loop before each.
    lost: Duration,
    /// What another body is taken to cost: each twice the one before, lest loops that are never alike record again and again.
    cost: Duration,
}

impl Unrolling {
    /// Before anything is known.
    pub fn new(body: usize) -> Self {
        Self { body, other: body, lost: Duration::ZERO, cost: Duration::ZERO }
    }

    /// Of a body that stays.
    pub fn kept(body: usize) -> Self {
        Self { cost: Duration::MAX, ..Self::new(body) }
    }

    /// Recorded, from `start` on.
    pub fn recorded(&mut self, start: Instant) {
        self.cost = self.cost.max(start.elapsed());
        self.lost = Duration::ZERO;
    }

    /// After a loop of so many iterations: whether it is to be recorded anew.
    pub fn note(&mut self, iterations: usize) -> bool {
        let iterations = iterations.max(1);
        let other = iterations.div_ceil(iterations.div_ceil(MOST));
        self.lost = (self.lost + loss(self.body, iterations)).saturating_sub(loss(self.other, iterations));
        self.other = other;
        let due = other != self.body && self.lost > self.cost;
        if due {
            self.body = other;
            self.cost = self.cost.saturating_mul(2);
        }
        due
    }
}

fn loss(body: usize, iterations: usize) -> Duration {
    let rounds = iterations.div_ceil(body);
    (rounds - 1) as u32 * ROUND + (rounds * body - iterations) as u32 * IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_that_are_alike_get_their_body_once() {
        let mut unrolling = Unrolling { cost: Duration::from_millis(1), ..Unrolling::new(4) };
        // 30 iterations by fours: seven rounds more, and two idle iterations, 61.5 us each time.
        let due: Vec<usize> = (0..100).filter(|_| unrolling.note(30)).collect();
        assert_eq!((due.len(), unrolling.body), (1, 30));
        assert!((16..19).contains(&due[0]), "{due:?}");
    }

    #[test]
    fn solves_that_are_never_alike_keep_theirs() {
        let mut unrolling = Unrolling { cost: Duration::from_millis(1), ..Unrolling::new(2) };
        assert!((0..1000).all(|k| !unrolling.note([3, 12][k % 2])));
    }

    #[test]
    fn long_loops_are_cut_evenly() {
        let mut unrolling = Unrolling::new(4);
        let due = [100; 3].map(|iterations| unrolling.note(iterations));
        assert_eq!(due, [false, true, false]);
        assert_eq!(unrolling.body, 25);
    }
}
