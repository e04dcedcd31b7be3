//! Inspection of the caller's matrix before the factorization, in one pass over its entries. It finds invalid entries,
//! positive couplings, the smallest and largest values, and the components. Several threads may share the rows; the
//! result does not depend on which thread inspects which rows.

use crate::base::isa::for_each_isa;
use crate::error::{
    Error, Location, RRB_ERR_MATRIX, RRB_ERR_MEMORY, RRB_ERR_NOT_FINITE, Result, collected, extend, format_number,
    push, reserve, reset,
};
use crate::stencil::components::Components;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::runs::Runs;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parameters of an inspection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InspectionOptions {
    /// Whether entries that are not finite are errors.
    pub checks_finite: bool,
    /// Row sums whose magnitude is at most this fraction of the center count as zero.
    pub zero_row_sum: f64,
}

/// Conditions for speculative processing, which assumes that the new matrix has the structure of the previous matrix.
/// Rows that satisfy these conditions may be processed before all rows have been inspected.
#[derive(Clone, Copy, Debug)]
pub struct SpeculationConditions {
    /// Row sums whose magnitude is at most this fraction of the center count as zero.
    pub zero_row_sum: f64,
    /// Upper limit of the centers, exclusive.
    pub center_limit: f64,
}

impl SpeculationConditions {
    /// Returns the extremes of each array in row j. Returns `None` if an entry is not finite, or if a center is below
    /// `f64::MIN_POSITIVE` or not below `center_limit`.
    fn valid_extremes(&self, a: &StencilView, j: usize) -> Option<[Extremes; 5]> {
        let mut array_extremes = [Extremes { min: f64::INFINITY, max: f64::NEG_INFINITY }; 5];
        for (array_extremes, (_, _, values)) in array_extremes.iter_mut().zip(a.entries(j)) {
            *array_extremes = extremes(values)?;
        }
        let center = array_extremes[0];
        (center.min >= f64::MIN_POSITIVE && center.max < self.center_limit).then_some(array_extremes)
    }
}

/// Result of an inspection, except for the components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Findings {
    /// Number of couplings a_ij > 0; each pair counts once.
    pub positive_couplings: usize,
    /// Smallest center.
    pub center_min: f64,
    /// Largest center.
    pub center_max: f64,
    /// Largest |a_ij| of the couplings; 0 if there are none.
    pub coupling_max: f64,
}

impl Default for Findings {
    fn default() -> Self {
        Self { positive_couplings: 0, center_min: f64::INFINITY, center_max: 0.0, coupling_max: 0.0 }
    }
}

impl Findings {
    fn merge(&mut self, other: &Self) {
        self.positive_couplings += other.positive_couplings;
        self.center_min = self.center_min.min(other.center_min);
        self.center_max = self.center_max.max(other.center_max);
        self.coupling_max = self.coupling_max.max(other.coupling_max);
    }
}

/// Inspects one matrix after another and reuses its memory. An inspection consists of three steps:
///
/// 1. `start`;
/// 2. for the rows of each thread, either `inspect`, or `begin` followed by `inspect_row` for each row;
/// 3. `finish` or `finish_with_ranks`.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Components of the last matrix.
    pub components: Components,
    /// Findings in the last matrix.
    pub findings: Findings,
    thread_results: Vec<Mutex<ThreadResult>>,
}

/// Result of the inspection of the rows of one rank.
#[derive(Debug)]
pub struct RankResult {
    /// Kind of the first error: 1: an entry is not finite, 2: a center is not positive, 3: out of memory, 0: no error.
    error_kind: u8,
    /// Whether all centers of the rank's rows are negative.
    all_centers_negative: bool,
    findings: Findings,
    runs: Runs,
    /// Pairs of coupled runs: a run of the previous rank's last row, and a run of this rank's first row. Both are
    /// numbered from 0 in their row.
    coupled_runs: Vec<(u32, u32)>,
}

const ALLOCATION_NAME: &str = "the inspection of a matrix by ranks";

impl RankResult {
    /// Converts the result to numbers that can be sent to other ranks.
    pub fn to_words(&self) -> Result<Vec<f64>> {
        let Findings { positive_couplings, center_min, center_max, coupling_max } = self.findings;
        let flags = [
            f64::from(self.error_kind),
            f64::from(u8::from(self.all_centers_negative)),
            self.coupled_runs.len() as f64,
        ];
        let findings = [positive_couplings as f64, center_min, center_max, coupling_max];
        let mut words = collected(flags.into_iter().chain(findings), ALLOCATION_NAME)?;
        self.runs.to_words(&mut words)?;
        extend(&mut words, self.coupled_runs.iter().flat_map(|&(k, l)| [f64::from(k), f64::from(l)]), ALLOCATION_NAME)?;
        Ok(words)
    }

    /// Creates the result from the numbers that `to_words` has returned.
    pub fn from_words(words: &[f64]) -> Result<Self> {
        let findings = Findings {
            positive_couplings: words[3] as usize,
            center_min: words[4],
            center_max: words[5],
            coupling_max: words[6],
        };
        let mut remaining_words = words[7..].iter().copied();
        let runs = Runs::from_words(&mut remaining_words)?;
        let mut coupled_runs = Vec::new();
        for _ in 0..words[2] as usize {
            let mut next_number = || remaining_words.next().unwrap_or(0.0) as u32;
            let pair = (next_number(), next_number());
            push(&mut coupled_runs, pair, ALLOCATION_NAME)?;
        }
        Ok(Self { error_kind: words[0] as u8, all_centers_negative: words[1] != 0.0, findings, runs, coupled_runs })
    }
}

/// Result of the inspection of the rows of one thread.
#[derive(Debug, Default)]
struct ThreadResult {
    rows: Range<usize>,
    runs: Runs,
    findings: Findings,
    /// Workspace for the row sums of the nodes of one grid row.
    row_sums: Vec<f64>,
    not_finite_error: Option<Error>,
    not_positive_error: Option<Error>,
    memory_error: Option<Error>,
}

fn lock_result(result: &Mutex<ThreadResult>) -> MutexGuard<'_, ThreadResult> {
    result.lock().unwrap_or_else(PoisonError::into_inner)
}

fn result_mut(result: &mut Mutex<ThreadResult>) -> &mut ThreadResult {
    result.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Inspection {
    /// Prepares an inspection by at most `threads` threads.
    pub fn start(&mut self, threads: usize) -> Result<()> {
        let missing_count = threads.saturating_sub(self.thread_results.len());
        reserve(&mut self.thread_results, missing_count, "the matrix inspection by threads")?;
        self.thread_results.resize_with(self.thread_results.len() + missing_count, Mutex::default);
        for result in self.thread_results.iter_mut().map(result_mut) {
            result.rows = 0..0;
            result.findings = Findings::default();
            (result.not_finite_error, result.not_positive_error, result.memory_error) = (None, None, None);
        }
        // The memory of the previous components is reused for the runs of the first thread, unless these have more
        // memory already.
        let runs = self.components.take_runs();
        if let Some(first_result) = self.thread_results.first_mut().map(result_mut)
            && runs.bytes() > first_result.runs.bytes()
        {
            first_result.runs = runs;
        }
        Ok(())
    }

    /// Inspects the rows of one thread, each once, and stores errors for `finish`. The rows of thread m must precede
    /// those of thread m + 1.
    pub fn inspect(&self, thread: usize, a: &StencilView, rows: Range<usize>, options: &InspectionOptions) {
        let mut result = lock_result(&self.thread_results[thread]);
        result.memory_error = result.inspect(a, rows, options).err();
    }

    /// Begins an inspection row by row. The caller must then call `inspect_row` for each of these rows, in order.
    pub fn begin(&self, thread: usize, a: &StencilView, rows: Range<usize>) {
        let mut result = lock_result(&self.thread_results[thread]);
        result.memory_error = result.begin(a, rows).err();
    }

    /// Inspects row j, which must be the next row. Returns whether the row satisfies the conditions and its data could
    /// be stored.
    pub fn inspect_row(&self, thread: usize, a: &StencilView, j: usize, conditions: &SpeculationConditions) -> bool {
        let mut result = lock_result(&self.thread_results[thread]);
        let valid_extremes = conditions.valid_extremes(a, j).filter(|_| result.memory_error.is_none());
        let Some(array_extremes) = valid_extremes else { return false };
        result.memory_error = result.inspect_row_of_part(a, j, array_extremes, true, conditions.zero_row_sum).err();
        result.memory_error.is_none()
    }

    /// Combines the results of the threads. `projects_constants`: whether the constants on singular components are
    /// projected out. Returns the first of these errors: an entry that is not finite, if the inspection checks for such
    /// entries; a center that is not positive or too small; exhausted memory. If all centers are negative, the error
    /// message says so.
    pub fn finish(&mut self, a: &StencilView, projects_constants: bool) -> Result<()> {
        let (_, result) = self.combine_thread_results(a);
        let runs = result.map_err(|error| {
            all_negative_error(a, 0..a.grid.ny).filter(|_| is_about_matrix(&error)).unwrap_or(error)
        })?;
        self.components.set_runs(runs, projects_constants)
    }

    /// Combines the results of all ranks. This rank has the number `this_rank`, and has inspected the rows `own_rows`
    /// with the result `own_status`. `gather` sends the result of this rank to the others and returns the results of
    /// all ranks. All ranks return the same status. Only the rank that found the error returns its message.
    pub fn finish_with_ranks(
        &mut self,
        a: &StencilView,
        (this_rank, own_rows): (usize, Range<usize>),
        own_status: Result<()>,
        projects_constants: bool,
        gather: impl FnOnce(&RankResult) -> Result<Vec<RankResult>>,
    ) -> Result<()> {
        let find_coupled_runs = || {
            if own_rows.is_empty() || own_rows.start == 0 {
                Ok(Vec::new())
            } else {
                Runs::coupled_run_pairs(a, own_rows.start)
            }
        };
        let (error_kind, result) = match own_status.and_then(|()| find_coupled_runs()) {
            Ok(coupled_runs) => {
                let (error_kind, runs) = self.combine_thread_results(a);
                (error_kind, runs.map(|runs| (runs, coupled_runs)))
            }
            Err(error) => (3, Err(error)),
        };
        // An error is gathered, too: without this rank, the others would wait.
        let ((runs, coupled_runs), error) = match result {
            Ok(runs_and_pairs) => (runs_and_pairs, None),
            Err(error) => (Default::default(), Some(error)),
        };
        let negative_error = if own_rows.is_empty() { None } else { all_negative_error(a, own_rows) };
        let own_result = RankResult {
            error_kind,
            all_centers_negative: negative_error.is_some(),
            findings: self.findings,
            runs,
            coupled_runs,
        };
        let mut rank_results = gather(&own_result)?;
        if let Some((rank, first_error)) = rank_results
            .iter()
            .enumerate()
            .filter(|(_, result)| result.error_kind > 0)
            .min_by_key(|(_, result)| result.error_kind)
        {
            let is_negative_or_empty =
                |result: &RankResult| result.all_centers_negative || result.error_kind == 0 && result.runs.rows() == 0;
            let negative_hint =
                negative_error.filter(|_| first_error.error_kind == 2 && rank_results.iter().all(is_negative_or_empty));
            let own_error = negative_hint.or(error).filter(|_| rank == this_rank);
            let status = [RRB_ERR_NOT_FINITE, RRB_ERR_MATRIX, RRB_ERR_MEMORY][first_error.error_kind as usize - 1];
            return Err(own_error.unwrap_or_else(|| Error::on_other_rank(rank, status)));
        }
        self.findings = Findings::default();
        let mut runs: Option<Runs> = None;
        for RankResult { findings, runs: next_runs, coupled_runs, .. } in
            rank_results.drain(..).filter(|result| result.runs.rows() > 0)
        {
            self.findings.merge(&findings);
            match &mut runs {
                None => runs = Some(next_runs),
                Some(runs) => runs.append_joined(&next_runs, &coupled_runs)?,
            }
        }
        self.components.set_runs(runs.unwrap_or_default(), projects_constants)
    }

    /// Combines the findings and runs of all threads. Returns the first error with its kind (`RankResult::error_kind`),
    /// or the runs with kind 0.
    fn combine_thread_results(&mut self, a: &StencilView) -> (u8, Result<Runs>) {
        let thread_results = &mut self.thread_results;
        let error_fields: [fn(&mut ThreadResult) -> &mut Option<Error>; 3] = [
            |result| &mut result.not_finite_error,
            |result| &mut result.not_positive_error,
            |result| &mut result.memory_error,
        ];
        for (error_kind, error_field) in (1..).zip(error_fields) {
            if let Some(error) = thread_results.iter_mut().find_map(|result| error_field(result_mut(result)).take()) {
                return (error_kind, Err(error));
            }
        }
        self.findings = Findings::default();
        let mut runs: Option<Runs> = None;
        for result in thread_results.iter_mut().map(result_mut).filter(|result| !result.rows.is_empty()) {
            self.findings.merge(&result.findings);
            match &mut runs {
                None => runs = Some(std::mem::take(&mut result.runs)),
                Some(runs) => {
                    if let Err(error) = runs.append_rows(&result.runs, a, result.rows.start) {
                        return (3, Err(error));
                    }
                }
            }
        }
        (0, Ok(runs.unwrap_or_default()))
    }

    /// Stores the result of an inspection on a device: all nodes of `grid` are one component. `is_regular`: whether
    /// this component is regular; `projects_constants`: as in `finish`.
    pub fn set_one_component(
        &mut self,
        grid: Grid,
        findings: Findings,
        is_regular: bool,
        projects_constants: bool,
    ) -> Result<()> {
        self.findings = findings;
        let mut runs = self.components.take_runs();
        runs.make_one_component(grid.nx, grid.ny, is_regular)?;
        self.components.set_runs(runs, projects_constants)
    }

    /// Stores the result of an inspection on a device: there are `components` components of two nodes or more, and all
    /// are regular. `projects_constants`: as in `finish`.
    pub fn set_regular(&mut self, findings: Findings, components: usize, projects_constants: bool) {
        self.findings = findings;
        self.components.set_regular(components, projects_constants);
    }

    /// Returns the memory use of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let thread_bytes = |result: &Mutex<ThreadResult>| {
            let result = lock_result(result);
            result.runs.bytes() + 8 * result.row_sums.capacity()
        };
        self.components.bytes() + self.thread_results.iter().map(thread_bytes).sum::<usize>()
    }
}

impl ThreadResult {
    fn begin(&mut self, a: &StencilView, rows: Range<usize>) -> Result<()> {
        self.rows = rows;
        self.runs.clear(a.grid.nx)?;
        reset(&mut self.row_sums, a.grid.nx, "a row of sums")
    }

    fn inspect(&mut self, a: &StencilView, rows: Range<usize>, options: &InspectionOptions) -> Result<()> {
        self.begin(a, rows.clone())?;
        for j in rows {
            let entries = a.entries(j).map(|(_, _, values)| values);
            let array_extremes = entries.map(extremes);
            let is_finite = array_extremes.iter().all(Option::is_some);
            if !is_finite && options.checks_finite {
                self.not_finite_error = first_not_finite(a, j);
                return Ok(());
            }
            let array_extremes: [Extremes; 5] =
                std::array::from_fn(|k| array_extremes[k].unwrap_or_else(|| extremes_of_numbers(entries[k])));
            self.inspect_row_of_part(a, j, array_extremes, is_finite, options.zero_row_sum)?;
        }
        Ok(())
    }

    fn inspect_row_of_part(
        &mut self,
        a: &StencilView,
        j: usize,
        array_extremes: [Extremes; 5],
        is_finite: bool,
        zero_row_sum: f64,
    ) -> Result<()> {
        let entries = a.entries(j).map(|(_, _, values)| values);
        self.record_center(array_extremes[0], entries[0], is_finite, j);
        for (array_extremes, couplings) in array_extremes.iter().zip(entries).skip(1) {
            self.record_couplings(*array_extremes, couplings);
        }
        // If all couplings to the east are negative numbers, none of them is zero, and the row is one run.
        self.runs.push_plane_row(a, j, is_finite && array_extremes[1].max < 0.0)?;
        if j > self.rows.start {
            self.runs.unite_last_rows(a, j);
        }
        self.record_row_sums(a, j, zero_row_sum);
        Ok(())
    }

    fn record_center(&mut self, center_extremes: Extremes, center: &[f64], is_finite: bool, j: usize) {
        let findings = &mut self.findings;
        findings.center_min = findings.center_min.min(center_extremes.min);
        findings.center_max = findings.center_max.max(center_extremes.max);
        if self.not_positive_error.is_none() && !(is_finite && center_extremes.min >= f64::MIN_POSITIVE) {
            self.not_positive_error =
                center.iter().position(|&c| !has_finite_inverse(c)).map(|i| center_error(center[i], i, j));
        }
    }

    fn record_couplings(&mut self, coupling_extremes: Extremes, couplings: &[f64]) {
        let findings = &mut self.findings;
        findings.coupling_max = findings.coupling_max.max(coupling_extremes.max).max(-coupling_extremes.min);
        if coupling_extremes.max > 0.0 {
            findings.positive_couplings += couplings.iter().filter(|&&a| is_positive(a)).count();
        }
    }

    /// Flags each component that has a nonzero row sum in row j as regular.
    fn record_row_sums(&mut self, a: &StencilView, j: usize, tolerance: f64) {
        let center = a.center.row(j);
        let row_sums = &mut self.row_sums;
        let mut has_row_sums = false;
        self.runs.mark_last_row(|columns| {
            if !std::mem::replace(&mut has_row_sums, true) {
                a.sum_row(j, row_sums);
            }
            any_row_sum_beyond(&row_sums[columns.clone()], &center[columns], tolerance)
        });
    }
}

/// Returns the error for a center at node (i, j) that is not positive or too small to divide by.
pub fn center_error(value: f64, i: usize, j: usize) -> Error {
    let reason = if is_positive(value) {
        format!("center@ = {value:e} is too small to divide by, less than {:e}", f64::MIN_POSITIVE)
    } else {
        format!("center@ = {} is not positive", format_number(value))
    };
    Error::matrix(reason, 0, i, j)
}

fn is_about_matrix(error: &Error) -> bool {
    matches!(error, Error::Matrix { .. })
}

/// Returns an error if all centers in `rows` (at least one row) are negative, and otherwise `None`.
pub fn all_negative_error(a: &StencilView, mut rows: Range<usize>) -> Option<Error> {
    let (first_row, is_negative_row) = (rows.start, |j: usize| a.center.row(j).iter().all(|c| *c < 0.0));
    rows.all(is_negative_row).then(|| Error::Matrix {
        reason: format!("center@ = {} is not positive", format_number(a.center.row(first_row)[0])),
        location: Some(Location::node(0, 0, first_row)),
        text_after: "; all centers are negative: does the array hold -A? If so, negate b too",
    })
}

/// Returns the error for the first entry of row j that is not finite. The arrays are searched one after the other.
fn first_not_finite(a: &StencilView, j: usize) -> Option<Error> {
    a.entries(j).into_iter().find_map(|(name, start, values)| {
        let i = values.iter().position(|v| !v.is_finite())?;
        Some(Error::not_finite(name, values[i], Location::node(0, start + i, j)))
    })
}

/// Smallest and largest value. Without values, the smallest is infinity and the largest is minus infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    min: f64,
    max: f64,
}

/// Number of values of a block. Each block is read twice and fits in the first-level cache.
const BLOCK_VALUES: usize = 512;
/// Number of minima, and of maxima, that are computed independently. With 16, the widest vectors hide the latency of an
/// operation, and narrower vectors fit the registers.
const LANES: usize = 16;

for_each_isa! {
    /// Returns the smallest and the largest value, or `None` if a value is not finite. The test uses bit patterns,
    /// because comparisons ignore NaN.
    fn extremes(values: &[f64]) -> Option<Extremes> {
        let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        for block in values.chunks(BLOCK_VALUES) {
            if !all_finite(block) {
                return None;
            }
            let lane_groups = block.chunks_exact(LANES);
            let remainder = lane_groups.remainder();
            for v in lane_groups {
                for l in 0..LANES {
                    min[l] = smaller(v[l], min[l]);
                    max[l] = larger(v[l], max[l]);
                }
            }
            for (l, &v) in remainder.iter().enumerate() {
                min[l] = smaller(v, min[l]);
                max[l] = larger(v, max[l]);
            }
        }
        Some(Extremes {
            min: min.into_iter().fold(f64::INFINITY, smaller),
            max: max.into_iter().fold(f64::NEG_INFINITY, larger),
        })
    }
}

/// Minimum in one machine instruction; the arguments must not be NaN.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Maximum in one machine instruction; the arguments must not be NaN.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Computes the extremes of values that may be infinite or NaN. Ignores NaN.
fn extremes_of_numbers(values: &[f64]) -> Extremes {
    let numbers = || values.iter().copied().filter(|v| !v.is_nan());
    Extremes {
        min: numbers().min_by(f64::total_cmp).unwrap_or(f64::INFINITY),
        max: numbers().max_by(f64::total_cmp).unwrap_or(f64::NEG_INFINITY),
    }
}

/// Returns whether all values are finite. The test adds one to the exponent: if all its bits are set, the addition
/// carries into the sign bit.
#[inline(always)]
fn all_finite(values: &[f64]) -> bool {
    const EXPONENT_BITS: u64 = f64::INFINITY.to_bits();
    const EXPONENT_ONE: u64 = 1 << 52;
    values.iter().fold(0, |carry, v| carry | ((v.to_bits() & EXPONENT_BITS) + EXPONENT_ONE)) >> 63 == 0
}

/// Returns whether v > 0. The bit patterns of positive numbers are those from 1 (the smallest number) to that of
/// infinity.
fn is_positive(v: f64) -> bool {
    v.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits()
}

/// Returns whether v is a positive normal number or infinity. The inverse of a smaller positive number overflows or is
/// inaccurate.
fn has_finite_inverse(v: f64) -> bool {
    is_positive(v) && v.to_bits() >= f64::MIN_POSITIVE.to_bits()
}

/// Returns whether |sum| > tolerance * center for any node, or a sum is NaN. Compares bit patterns without the sign,
/// which have the order of the magnitudes; NaN is the largest.
fn any_row_sum_beyond(sum: &[f64], center: &[f64], tolerance: f64) -> bool {
    sum.iter().zip(center).any(|(s, c)| s.abs().to_bits() > (tolerance * c).to_bits())
}

#[cfg(test)]
pub mod tests;
