//! Hierarchy of coarse matrices of a symmetric matrix.

use super::aggregates::{Aggregates, KAPPA, Rules, find_aggregates};
#[cfg(test)]
use crate::base::csr::Csr;
#[cfg(test)]
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::direct::couplings::{Couplings, WHAT};
use crate::error::{Result, collected, push};

/// Coarsening continues only if a level has at most this fraction of the rows of the previous level.
const MAX_ROW_FRACTION: f64 = 0.9;
/// Largest number of rows of a coarsest system that is factorized. A larger coarsest system is solved approximately by
/// smoothing.
pub const MOST_FACTORIZED: usize = 1500;

/// Coarsening stops at this number of rows or fewer.
pub const COARSEST: usize = 128;

/// A level other than the coarsest one.
pub struct Level {
    pub matrix: Couplings,
    pub aggregates: Aggregates,
}

/// The aggregates of all levels, for reuse with later matrices.
#[derive(Default)]
pub struct KeptAggregates {
    levels: Vec<Aggregates>,
    /// Number of aggregates that were reused from an earlier matrix.
    pub reused: usize,
}

impl KeptAggregates {
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&*level.of_row)).sum()
    }
}

/// All levels of a matrix.
pub struct Hierarchy {
    /// Power of two by which A is multiplied. The diagonal of the product is at most 2, so that products of entries do
    /// not overflow.
    pub scale: f64,
    pub levels: Vec<Level>,
    /// Whether the aggregates are those of an earlier matrix.
    is_reused: bool,
    /// Matrix of the coarsest level. Either it is small, or another aggregation would not reduce it enough.
    pub coarsest: Couplings,
}

impl Hierarchy {
    /// Aggregates the rows of a symmetric matrix until at most `coarsest` rows remain.
    #[cfg(test)]
    pub fn new<I: Index>(a: &Csr<I>, rules: &Rules, coarsest: usize, workers: &mut Workers) -> Result<Self> {
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        Self::of(couplings, scale, rules, coarsest, workers)
    }

    /// Builds the hierarchy of a matrix that has been multiplied by `scale`.
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
            let made = find_aggregates(&matrix, &rules, workers)?;
            if made.count as f64 > MAX_ROW_FRACTION * matrix.rows() as f64 {
                // There were too few pairs. If the matrix is too large to be factorized, aggregation is repeated with a
                // larger kappa.
                let weaker = Rules { kappa: 2.0 * rules.kappa, ..rules };
                if matrix.rows() <= MOST_FACTORIZED || weaker.kappa > MAX_KAPPA {
                    break;
                }
                rules = weaker;
                continue;
            }
            let coarse = matrix.galerkin(&made.of_row, made.count, workers)?;
            push(&mut levels, Level { matrix, aggregates: made }, WHAT)?;
            matrix = coarse;
        }
        Ok(Self { scale, levels, coarsest: matrix, is_reused: false })
    }

    /// Builds the hierarchy with the aggregates of an earlier matrix if all of them are suitable, otherwise with new
    /// aggregates. The test is necessary: if a strong coupling inside an aggregate has disappeared, for example because
    /// a coastline has moved, the aggregate joins two uncoupled regions. An error that is a different constant in each
    /// region then converges slowly: the coarse correction adds the same value in both regions, and the smoother hardly
    /// changes constants.
    pub fn reusing(
        mut matrix: Couplings,
        scale: f64,
        rules: &Rules,
        (coarsest, kept): (usize, KeptAggregates),
        workers: &mut Workers,
    ) -> Result<Self> {
        let mut levels: Vec<Level> = Vec::new();
        for aggregates in kept.levels {
            if !aggregates.are_suitable(&matrix, workers)? {
                let given = levels.into_iter().next().map_or(matrix, |first| first.matrix);
                return Self::of(given, scale, rules, coarsest, workers);
            }
            let coarse = matrix.galerkin(&aggregates.of_row, aggregates.count, workers)?;
            push(&mut levels, Level { matrix, aggregates }, WHAT)?;
            matrix = coarse;
        }
        if levels.is_empty() {
            return Self::of(matrix, scale, rules, coarsest, workers);
        }
        Ok(Self { scale, levels, coarsest: matrix, is_reused: true })
    }

    /// Returns the aggregates without the matrices.
    pub fn into_kept(self) -> Result<KeptAggregates> {
        let reused = if self.is_reused { self.levels.iter().map(|level| level.aggregates.count).sum() } else { 0 };
        Ok(KeptAggregates { levels: collected(self.levels.into_iter().map(|level| level.aggregates), WHAT)?, reused })
    }

    /// Returns the matrices of all levels, from the finest to the coarsest.
    pub fn matrices(&self) -> impl Iterator<Item = &Couplings> {
        self.levels.iter().map(|level| &level.matrix).chain([&self.coarsest])
    }
}

/// If there are too few pairs, kappa is doubled repeatedly, but not beyond this value.
const MAX_KAPPA: f64 = 4.0 * KAPPA;
