//! Inspection of a matrix on a box of cells before its factorization, and assembly of the coarse matrix E for its
//! deflation regions. A thread team executes these functions. The backend `cpu` calls all of them, and the backend
//! `cuda` calls some of them for work on the host. Each thread processes its own rows or blocks of rows. Results are
//! bitwise identical for any number of threads.

use crate::base::team::{Team, TeamThread, thread_share};
use crate::deflation::regions::Regions;
use crate::deflation::{BLOCK_COUNT, CoarseMatrix, Contribution, Solver, assemble_block};
use crate::dpcg::survey::{Survey, SurveyData, SurveyedRows};
use crate::error::{Result, extend, push, reserve};
use crate::stencil::cell_components::CellComponents;
use crate::stencil::cell_inspection::InspectedRows;
use crate::stencil::cells::{CellView, SevenPoints, StoredMatrix};
use crate::stencil::joined::JoiningCouplings;
use std::sync::{Mutex, PoisonError};

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "parts of a thread team";

/// Calls `compute` on each thread, and returns the results in the order of the threads, or the first error in this
/// order.
pub fn on_each_thread<T: Default + Send>(
    team: &mut Team,
    compute: impl Fn(TeamThread) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let mut thread_results: Vec<Mutex<Result<T>>> = Vec::new();
    reserve(&mut thread_results, team.threads(), ALLOCATION_NAME)?;
    thread_results.resize_with(team.threads(), || Mutex::new(Ok(T::default())));
    let compute_and_store = |thread: TeamThread| {
        *thread_results[thread.index].lock().unwrap_or_else(PoisonError::into_inner) = compute(thread)
    };
    team.run(compute_and_store, compute_and_store)?;
    let mut results = Vec::new();
    reserve(&mut results, thread_results.len(), ALLOCATION_NAME)?;
    for result in thread_results {
        results.push(result.into_inner().unwrap_or_else(PoisonError::into_inner)?);
    }
    Ok(results)
}

/// Copies the matrix `a` to `stored_matrix`, and inspects its entries as stated at `DpcgBackend::load`. Returns the
/// largest center.
pub fn load(team: &mut Team, stored_matrix: &mut StoredMatrix, a: &CellView, checks_finite: bool) -> Result<f64> {
    let (rows, threads) = (a.cells.rows(), team.threads());
    let mut rows_of_threads = Vec::new();
    let mut remaining_rows = stored_matrix.rows_mut(a.cells)?;
    for thread_index in 0..threads {
        let (own_rows, later_rows) = remaining_rows.split_at(thread_share(rows, thread_index, threads).end);
        push(&mut rows_of_threads, Mutex::new(own_rows), ALLOCATION_NAME)?;
        remaining_rows = later_rows;
    }
    let inspected_rows = on_each_thread(team, |thread| {
        let mut own_rows = rows_of_threads[thread.index].lock().unwrap_or_else(PoisonError::into_inner);
        Ok(InspectedRows::of(a, checks_finite, thread.share(rows), |row| own_rows.copy_row(a, row)))
    })?;
    InspectedRows::merge_center_max(a, inspected_rows)
}

/// Determines the components of a matrix, the groups of cells that strong couplings join, and the properties on which
/// automatic choices depend.
pub fn survey(team: &mut Team, a: &SevenPoints, zero_row_sum: f64) -> Result<(SurveyData, Survey)> {
    let rows = a.cells.rows();
    let row_surveys = on_each_thread(team, |thread| SurveyedRows::of(a, zero_row_sum, thread.share(rows)))?;
    let limits = SurveyedRows::strong_limits(&row_surveys);
    let joining_couplings = on_each_thread(team, |thread| JoiningCouplings::of_rows(a, limits, thread.share(rows)))?;
    SurveyData::from_row_surveys(a.cells, &row_surveys, &joining_couplings)
}

/// Assembles the coarse matrix E = Z^T A Z of the regions, and prepares `solver` for systems with E.
pub fn coarse_matrix(
    team: &mut Team,
    a: &SevenPoints,
    components: &CellComponents,
    regions: &Regions,
    solver: Solver,
    tolerance: f64,
) -> Result<CoarseMatrix> {
    let thread_entries = on_each_thread(team, |thread| {
        let mut own_entries = Vec::new();
        for block in thread.share(BLOCK_COUNT) {
            assemble_block(a, components, regions, block, &mut own_entries)?;
        }
        Ok(own_entries)
    })?;
    let mut entries: Vec<Contribution> = Vec::new();
    for own_entries in thread_entries {
        extend(&mut entries, own_entries, ALLOCATION_NAME)?;
    }
    let mut coarse_matrix = CoarseMatrix::factorize(&mut entries, regions, solver, tolerance)?;
    if solver == Solver::Inverse {
        let columns = on_each_thread(team, |thread| coarse_matrix.inverse_columns(thread.index, thread.threads))?;
        coarse_matrix.invert(columns.iter().map(Vec::as_slice))?;
    }
    Ok(coarse_matrix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deflation::regions::{RegionChoice, RegionKind};
    use crate::stencil::cells::Cells;
    use crate::stencil::components::ZERO_ROW_SUM;
    use crate::stencil::joined::CellGroups;
    use rrbsolver_problems::two_phase::TwoPhase;

    #[test]
    fn survey_is_independent_of_thread_count() {
        let replace_nan_by_zero =
            |c: Vec<f64>| -> Vec<f64> { c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect() };
        for (name, size) in [("9", [20, 21, 22]), ("surf;obs=box", [70, 9, 10]), ("9;dir=top", [12, 1, 30])] {
            let problem = TwoPhase::new(name, size, 1e-3);
            let forward = problem.forward.map(replace_nan_by_zero);
            let [nx, ny, nz] = size;
            let [x, y, z] = &forward;
            let cells = Cells { nx, ny, nz };
            let a = SevenPoints { cells, center: &problem.center, forward: [x, y, z] };
            let collect_runs = |cell_groups: &CellGroups| -> Vec<_> {
                (0..cells.rows()).flat_map(|row| cell_groups.runs(row)).collect()
            };
            let (SurveyData { components, strong_groups, .. }, expected_survey) =
                SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
            for threads in [1, 2, 3, 7] {
                let team = &mut Team::new(threads).unwrap();
                let (survey_data, team_survey) = survey(team, &a, ZERO_ROW_SUM).unwrap();
                assert_eq!(collect_runs(&survey_data.components.groups), collect_runs(&components.groups), "{name}");
                assert_eq!(
                    collect_runs(&survey_data.strong_groups.groups),
                    collect_runs(&strong_groups.groups),
                    "{name}"
                );
                assert_eq!(survey_data.components.is_singular, components.is_singular);
                // The values must be bitwise identical.
                assert_eq!(team_survey, expected_survey, "{name}, {threads} threads");
                let boxes = size.map(|n| n.min(4));
                for keep_all in [false, true] {
                    let choice = RegionChoice {
                        kind: RegionKind::LevelSetSubdomain,
                        boxes,
                        labels: None,
                        dilation: false,
                        keep_all,
                    };
                    let regions = Regions::find(&a, &components, &strong_groups, &choice).unwrap();
                    let expected_coarse = CoarseMatrix::new(&a, &components, &regions, Solver::Inverse, 0.0).unwrap();
                    let team_coarse = coarse_matrix(team, &a, &components, &regions, Solver::Inverse, 0.0).unwrap();
                    // The values must be bitwise identical.
                    assert_eq!(team_coarse.inverse(), expected_coarse.inverse(), "{name}, {threads} threads");
                }
            }
        }
    }
}
