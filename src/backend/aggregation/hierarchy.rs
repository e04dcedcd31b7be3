//! The levels of a matrix.

use super::aggregates::{KAPPA, Rules, aggregates};
use super::couplings::{Couplings, WHAT};
use crate::error::{Result, push};
use crate::runtime::number::power_of_two_below;
use crate::runtime::workers::Workers;
use crate::sparse::{Csr, Index};

/// A level at most this part of the one before is worth its cycle.
const WORTH: f64 = 0.9;
/// Unknowns whose inverse is not made.
pub const MOST_INVERTED: usize = 1500;

/// Rows that are factorized, not aggregated.
pub const COARSEST: usize = 128;

/// A level but the coarsest.
pub struct Level {
    pub matrix: Couplings,
    /// The aggregate of each row, `NONE` where the smoother alone does it.
    pub aggregate: Vec<u32>,
}

/// All levels of a matrix.
pub struct Hierarchy {
    /// A power of two, times which A is held: its diagonal is at most 2, so that products of entries fit in any unit.
    pub scale: f64,
    pub levels: Vec<Level>,
    /// The matrix of the last one: small, or one that no aggregates make smaller.
    pub coarsest: Couplings,
}

impl Hierarchy {
    /// Aggregates the rows of a symmetric matrix until `coarsest` or fewer are left.
    pub fn new<I: Index>(a: &Csr<I>, rules: &Rules, coarsest: usize, workers: &mut Workers) -> Result<Self> {
        let largest = (0..a.rows()).filter_map(|i| a.get(i, i)).fold(0.0, |most: f64, d| most.max(d.abs()));
        let scale = power_of_two_below(largest).recip();
        Self::of(Couplings::of(a, scale, workers)?, scale, rules, coarsest, workers)
    }

    /// The same of couplings that are `scale` times those of the matrix.
    pub fn of(
        mut matrix: Couplings,
        scale: f64,
        rules: &Rules,
        coarsest: usize,
        workers: &mut Workers,
    ) -> Result<Self> {
        let mut rules = *rules;
        let mut levels = Vec::new();
        while matrix.rows() > coarsest {
            let made = aggregates(&matrix, &rules, workers)?;
            if made.count as f64 > WORTH * matrix.rows() as f64 {
                // Too few pairs: once more with a weaker bound where the rest cannot be inverted.
                let weaker = Rules { kappa: 2.0 * rules.kappa, ..rules };
                if matrix.rows() <= MOST_INVERTED || weaker.kappa > 4.0 * MOST_KAPPA {
                    break;
                }
                rules = weaker;
                continue;
            }
            let coarse = matrix.galerkin(&made.of, made.count, workers)?;
            push(&mut levels, Level { matrix, aggregate: made.of }, WHAT)?;
            matrix = coarse;
        }
        Ok(Self { scale, levels, coarsest: matrix })
    }

    /// The matrices of all levels, from that which was given to the coarsest.
    pub fn matrices(&self) -> impl Iterator<Item = &Couplings> {
        self.levels.iter().map(|level| &level.matrix).chain([&self.coarsest])
    }
}

/// Bounds of mu that hierarchies begin with at most.
const MOST_KAPPA: f64 = KAPPA;
