//! The levels of a matrix.

use super::aggregates::{Aggregates, KAPPA, Rules, aggregates};
use super::couplings::{Couplings, WHAT};
use crate::error::{Result, collected, push};
use crate::runtime::workers::Workers;
#[cfg(test)]
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
    pub aggregates: Aggregates,
}

/// The aggregates of all levels, for matrices to come.
#[derive(Default)]
pub struct Kept {
    levels: Vec<Aggregates>,
    /// How many there are, if they were kept from an earlier matrix themselves.
    pub again: usize,
}

impl Kept {
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&*level.of)).sum()
    }
}

/// All levels of a matrix.
pub struct Hierarchy {
    /// A power of two, times which A is held: its diagonal is at most 2, so that products of entries fit in any unit.
    pub scale: f64,
    pub levels: Vec<Level>,
    /// The aggregates are those of an earlier matrix.
    is_kept: bool,
    /// The matrix of the last one: small, or one that no aggregates make smaller.
    pub coarsest: Couplings,
}

impl Hierarchy {
    /// Aggregates the rows of a symmetric matrix until `coarsest` or fewer are left.
    #[cfg(test)]
    pub fn new<I: Index>(a: &Csr<I>, rules: &Rules, coarsest: usize, workers: &mut Workers) -> Result<Self> {
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        Self::of(couplings, scale, rules, coarsest, workers)
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
            push(&mut levels, Level { matrix, aggregates: made }, WHAT)?;
            matrix = coarse;
        }
        Ok(Self { scale, levels, coarsest: matrix, is_kept: false })
    }

    /// The same with the aggregates of an earlier matrix, if all suit; else with new ones. Aggregates of two basins,
    /// where a coast has moved, are what no smoothing sees.
    pub fn again(
        mut matrix: Couplings,
        scale: f64,
        rules: &Rules,
        (coarsest, kept): (usize, Kept),
        workers: &mut Workers,
    ) -> Result<Self> {
        let mut levels: Vec<Level> = Vec::new();
        for aggregates in kept.levels {
            if !aggregates.suit(&matrix, workers)? {
                let given = levels.into_iter().next().map_or(matrix, |first| first.matrix);
                return Self::of(given, scale, rules, coarsest, workers);
            }
            let coarse = matrix.galerkin(&aggregates.of, aggregates.count, workers)?;
            push(&mut levels, Level { matrix, aggregates }, WHAT)?;
            matrix = coarse;
        }
        if levels.is_empty() {
            return Self::of(matrix, scale, rules, coarsest, workers);
        }
        Ok(Self { scale, levels, coarsest: matrix, is_kept: true })
    }

    /// The aggregates, without the matrices.
    pub fn into_kept(self) -> Result<Kept> {
        let again = if self.is_kept { self.levels.iter().map(|level| level.aggregates.count).sum() } else { 0 };
        Ok(Kept { levels: collected(self.levels.into_iter().map(|level| level.aggregates), WHAT)?, again })
    }

    /// The matrices of all levels, from that which was given to the coarsest.
    pub fn matrices(&self) -> impl Iterator<Item = &Couplings> {
        self.levels.iter().map(|level| &level.matrix).chain([&self.coarsest])
    }
}

/// Bounds of mu that hierarchies begin with at most.
const MOST_KAPPA: f64 = KAPPA;
