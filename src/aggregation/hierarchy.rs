//! Hierarchy of coarse matrices of a symmetric matrix.

use super::aggregates::{Aggregates, AggregationRules, KAPPA, find_aggregates};
#[cfg(test)]
use crate::base::csr::Csr;
#[cfg(test)]
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::error::{Result, collected, push};

/// Coarsening continues only if a level has at most this fraction of the rows of the previous level.
const MAX_ROW_FRACTION: f64 = 0.9;
/// Largest number of rows of a coarsest system that is factorized. A larger coarsest system is solved approximately by
/// smoothing.
pub const MAX_FACTORIZED_ROWS: usize = 1500;

/// Coarsening stops at this number of rows or fewer.
pub const COARSEST_ROWS: usize = 128;

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
    pub reused_count: usize,
}

impl KeptAggregates {
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&*level.aggregate_of_row)).sum()
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
    /// Matrix of the coarsest level. It has more rows than requested only if a further aggregation would reduce the
    /// number of rows too little (`MAX_ROW_FRACTION`).
    pub coarsest: Couplings,
}

impl Hierarchy {
    /// Aggregates the rows of a symmetric matrix until at most `coarsest_rows` rows remain.
    #[cfg(test)]
    pub fn new<I: Index>(
        a: &Csr<I>,
        rules: &AggregationRules,
        coarsest_rows: usize,
        workers: &mut Workers,
    ) -> Result<Self> {
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        Self::of(couplings, scale, rules, coarsest_rows, workers)
    }

    /// Builds the hierarchy of a matrix that has been multiplied by `scale`.
    pub fn of(
        mut matrix: Couplings,
        scale: f64,
        rules: &AggregationRules,
        coarsest_rows: usize,
        workers: &mut Workers,
    ) -> Result<Self> {
        let mut rules = *rules;
        let mut levels = Vec::new();
        while matrix.rows() > coarsest_rows {
            let aggregates = find_aggregates(&matrix, &rules, workers)?;
            if aggregates.count as f64 > MAX_ROW_FRACTION * matrix.rows() as f64 {
                // There were too few pairs. If the matrix is too large to be factorized, aggregation is repeated with
                // twice the kappa, up to `MAX_KAPPA`.
                let weaker_rules = AggregationRules { kappa: 2.0 * rules.kappa, ..rules };
                if matrix.rows() <= MAX_FACTORIZED_ROWS || weaker_rules.kappa > MAX_KAPPA {
                    break;
                }
                rules = weaker_rules;
                continue;
            }
            let coarse_matrix = matrix.galerkin(&aggregates.aggregate_of_row, aggregates.count, workers)?;
            push(&mut levels, Level { matrix, aggregates }, ALLOCATION_NAME)?;
            matrix = coarse_matrix;
        }
        Ok(Self { scale, levels, coarsest: matrix, is_reused: false })
    }

    /// Builds the hierarchy with the aggregates of an earlier matrix if all of them are suitable, otherwise with new
    /// aggregates. The test is necessary: if a strong coupling inside an aggregate has disappeared, for example because
    /// a coastline has moved, the aggregate joins two uncoupled regions. An error that is a different constant in each
    /// region then converges slowly: the coarse correction adds the same value in both regions, and the smoother hardly
    /// changes constants.
    pub fn reusing_aggregates(
        mut matrix: Couplings,
        scale: f64,
        rules: &AggregationRules,
        (coarsest_rows, kept_aggregates): (usize, KeptAggregates),
        workers: &mut Workers,
    ) -> Result<Self> {
        let mut levels: Vec<Level> = Vec::new();
        for aggregates in kept_aggregates.levels {
            if !aggregates.are_suitable(&matrix, workers)? {
                let finest_matrix = levels.into_iter().next().map_or(matrix, |finest_level| finest_level.matrix);
                return Self::of(finest_matrix, scale, rules, coarsest_rows, workers);
            }
            let coarse_matrix = matrix.galerkin(&aggregates.aggregate_of_row, aggregates.count, workers)?;
            push(&mut levels, Level { matrix, aggregates }, ALLOCATION_NAME)?;
            matrix = coarse_matrix;
        }
        if levels.is_empty() {
            return Self::of(matrix, scale, rules, coarsest_rows, workers);
        }
        Ok(Self { scale, levels, coarsest: matrix, is_reused: true })
    }

    /// Returns the aggregates without the matrices.
    pub fn into_kept_aggregates(self) -> Result<KeptAggregates> {
        let reused_count =
            if self.is_reused { self.levels.iter().map(|level| level.aggregates.count).sum() } else { 0 };
        Ok(KeptAggregates {
            levels: collected(self.levels.into_iter().map(|level| level.aggregates), ALLOCATION_NAME)?,
            reused_count,
        })
    }

    /// Returns the matrices of all levels, from the finest to the coarsest.
    pub fn matrices(&self) -> impl Iterator<Item = &Couplings> {
        self.levels.iter().map(|level| &level.matrix).chain([&self.coarsest])
    }
}

/// If there are too few pairs, kappa is doubled repeatedly, but not beyond this value.
const MAX_KAPPA: f64 = 4.0 * KAPPA;
