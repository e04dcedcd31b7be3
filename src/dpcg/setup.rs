//! Inspection of a matrix on a box of cells before its factorization, and assembly of the coarse matrix E for its
//! deflation regions. A thread team executes this work for the backend `cpu`, and also for `cuda` where the host does
//! this work. Each thread processes its own rows or blocks of rows. Results are bitwise identical for any number of
//! threads.

use crate::base::team::{Me, Team, share};
use crate::deflation::regions::Regions;
use crate::deflation::{BLOCKS, CoarseMatrix, Contribution, Solver, assemble_block};
use crate::dpcg::survey::{Survey, SurveyData, SurveyedRows};
use crate::error::{Result, extend, push, reserve};
use crate::stencil::cell_components::CellComponents;
use crate::stencil::cell_inspection::InspectedRows;
use crate::stencil::cells::{CellView, SevenPoints, StoredMatrix};
use crate::stencil::joined::JoiningCouplings;
use std::sync::{Mutex, PoisonError};

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "parts of a thread team";

/// Calls `make` on each thread, and returns the results in the order of the threads, or the first error in this order.
pub fn on_each_thread<T: Default + Send>(team: &mut Team, make: impl Fn(Me) -> Result<T> + Sync) -> Result<Vec<T>> {
    let mut made: Vec<Mutex<Result<T>>> = Vec::new();
    reserve(&mut made, team.members(), WHAT)?;
    made.resize_with(team.members(), || Mutex::new(Ok(T::default())));
    let work = |me: Me| *made[me.index].lock().unwrap_or_else(PoisonError::into_inner) = make(me);
    team.run(work, work)?;
    let mut all = Vec::new();
    reserve(&mut all, made.len(), WHAT)?;
    for part in made {
        all.push(part.into_inner().unwrap_or_else(PoisonError::into_inner)?);
    }
    Ok(all)
}

/// Copies a matrix to `kept` and inspects it, as `DpcgBackend::load` states. Returns the largest center.
pub fn load(team: &mut Team, kept: &mut StoredMatrix, a: &CellView, finite: bool) -> Result<f64> {
    let (rows, members) = (a.cells.rows(), team.members());
    let mut parts = Vec::new();
    let mut rest = kept.rows_mut(a.cells)?;
    for member in 0..members {
        let (own, others) = rest.split_at(share(rows, member, members).end);
        push(&mut parts, Mutex::new(own), WHAT)?;
        rest = others;
    }
    let seen = on_each_thread(team, |me| {
        let mut kept = parts[me.index].lock().unwrap_or_else(PoisonError::into_inner);
        Ok(InspectedRows::of(a, finite, me.share(rows), |row| kept.copy_row(a, row)))
    })?;
    InspectedRows::center_max(a, seen)
}

/// Determines the components and groups of a matrix, and the properties on which automatic choices depend.
pub fn survey(team: &mut Team, a: &SevenPoints, zero_row_sum: f64) -> Result<(SurveyData, Survey)> {
    let rows = a.cells.rows();
    let parts = on_each_thread(team, |me| SurveyedRows::of(a, zero_row_sum, me.share(rows)))?;
    let limits = SurveyedRows::limits(&parts);
    let strong = on_each_thread(team, |me| JoiningCouplings::of_rows(a, limits, me.share(rows)))?;
    SurveyData::of_parts(a.cells, &parts, &strong)
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
    let parts = on_each_thread(team, |me| {
        let mut entries = Vec::new();
        for block in me.share(BLOCKS) {
            assemble_block(a, components, regions, block, &mut entries)?;
        }
        Ok(entries)
    })?;
    let mut entries: Vec<Contribution> = Vec::new();
    for part in parts {
        extend(&mut entries, part, WHAT)?;
    }
    let mut coarse = CoarseMatrix::factorize(&mut entries, regions, solver, tolerance)?;
    if solver == Solver::Inverse {
        let columns = on_each_thread(team, |me| coarse.inverse_columns(me.index, me.members))?;
        coarse.invert(columns.iter().map(Vec::as_slice))?;
    }
    Ok(coarse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deflation::regions::{Choice, Kind};
    use crate::stencil::cells::Cells;
    use crate::stencil::components::ZERO_ROW_SUM;
    use crate::stencil::joined::CellGroups;
    use rrbsolver_problems::two_phase::TwoPhase;

    #[test]
    fn the_survey_does_not_depend_on_the_number_of_threads() {
        let zeros = |c: Vec<f64>| -> Vec<f64> { c.into_iter().map(|v| if v.is_nan() { 0.0 } else { v }).collect() };
        for (name, size) in [("9", [20, 21, 22]), ("surf;obs=box", [70, 9, 10]), ("9;dir=top", [12, 1, 30])] {
            let problem = TwoPhase::new(name, size, 1e-3);
            let forward = problem.forward.map(zeros);
            let [nx, ny, nz] = size;
            let [x, y, z] = &forward;
            let cells = Cells { nx, ny, nz };
            let a = SevenPoints { cells, center: &problem.center, forward: [x, y, z] };
            let runs = |joined: &CellGroups| -> Vec<_> { (0..cells.rows()).flat_map(|row| joined.runs(row)).collect() };
            let (SurveyData { components, strong, .. }, alone) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
            for members in [1, 2, 3, 7] {
                let team = &mut Team::new(members).unwrap();
                let (found, numbers) = survey(team, &a, ZERO_ROW_SUM).unwrap();
                assert_eq!(runs(&found.components.joined), runs(&components.joined), "{name}");
                assert_eq!(runs(&found.strong.joined), runs(&strong.joined), "{name}");
                assert_eq!(found.components.singular, components.singular);
                // The values must be bitwise identical.
                assert_eq!(numbers, alone, "{name}, {members} members");
                let boxes = size.map(|n| n.min(4));
                for keep_all in [false, true] {
                    let choice =
                        Choice { kind: Kind::LevelSetSubdomain, boxes, labels: None, dilation: false, keep_all };
                    let regions = Regions::find(&a, &components, &strong, &choice).unwrap();
                    let alone = CoarseMatrix::new(&a, &components, &regions, Solver::Inverse, 0.0).unwrap();
                    let shared = coarse_matrix(team, &a, &components, &regions, Solver::Inverse, 0.0).unwrap();
                    // The values must be bitwise identical.
                    assert_eq!(shared.inverse(), alone.inverse(), "{name}, {members} members");
                }
            }
        }
    }
}
