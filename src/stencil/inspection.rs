//! Inspection of the caller's matrix before the factorization, in one pass over its entries. It finds invalid entries,
//! positive couplings, the smallest and largest values, and the components. Threads may share the rows; the result does
//! not depend on the division.

use crate::base::isa::for_each_isa;
use crate::error::{
    Error, Place, RRB_ERR_MATRIX, RRB_ERR_MEMORY, RRB_ERR_NOT_FINITE, Result, collected, extend, push, reserve, reset,
    written,
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
    pub finite: bool,
    /// Row sums whose magnitude is at most this fraction of the center count as zero.
    pub zero_row_sum: f64,
}

/// Conditions for speculative processing, which assumes that the new matrix has the structure of the previous matrix.
/// Rows that satisfy these conditions may be processed before all rows have been inspected.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Row sums whose magnitude is at most this fraction of the center count as zero.
    pub zero_row_sum: f64,
    /// Upper limit of the centers, exclusive.
    pub center_below: f64,
}

impl Conditions {
    /// Returns the extremes of each array in row j. Returns `None` if an entry is not finite, or if a center is below
    /// `f64::MIN_POSITIVE` or not below `center_below`.
    fn valid_extremes(&self, a: &StencilView, j: usize) -> Option<[Extremes; 5]> {
        let mut found = [Extremes { min: f64::INFINITY, max: f64::NEG_INFINITY }; 5];
        for (found, (_, _, values)) in found.iter_mut().zip(a.entries(j)) {
            *found = extremes(values)?;
        }
        let center = found[0];
        (center.min >= f64::MIN_POSITIVE && center.max < self.center_below).then_some(found)
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

/// Inspects one matrix after another and reuses its memory. Call `start`, then for the rows of each thread `inspect`,
/// or `begin` and `inspect_row`, then `finish`.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Components of the last matrix.
    pub components: Components,
    /// Findings in the last matrix.
    pub findings: Findings,
    parts: Vec<Mutex<Part>>,
}

/// Result of one rank for its rows.
#[derive(Debug)]
pub struct RankResult {
    /// Kind of the first error: 1: an entry is not finite, 2: a center is not positive, 3: out of memory, 0: no error.
    kind: u8,
    /// Whether all centers of the rank's rows are negative.
    all_negative: bool,
    findings: Findings,
    runs: Runs,
    /// Pairs of coupled runs: a run of the previous rank's last row, and a run of this rank's first row. Both are
    /// numbered from 0 in their row.
    joins: Vec<(u32, u32)>,
}

const INSPECTION: &str = "the inspection of a matrix by ranks";

impl RankResult {
    /// Converts the result to numbers that can be sent to other ranks.
    pub fn to_words(&self) -> Result<Vec<f64>> {
        let Findings { positive_couplings, center_min, center_max, coupling_max } = self.findings;
        let flags = [f64::from(self.kind), f64::from(u8::from(self.all_negative)), self.joins.len() as f64];
        let findings = [positive_couplings as f64, center_min, center_max, coupling_max];
        let mut words = collected(flags.into_iter().chain(findings), INSPECTION)?;
        self.runs.to_words(&mut words)?;
        extend(&mut words, self.joins.iter().flat_map(|&(k, l)| [f64::from(k), f64::from(l)]), INSPECTION)?;
        Ok(words)
    }

    /// Converts the numbers of `to_words` back.
    pub fn from_words(words: &[f64]) -> Result<Self> {
        let findings = Findings {
            positive_couplings: words[3] as usize,
            center_min: words[4],
            center_max: words[5],
            coupling_max: words[6],
        };
        let mut rest = words[7..].iter().copied();
        let runs = Runs::from_words(&mut rest)?;
        let mut joins = Vec::new();
        for _ in 0..words[2] as usize {
            let mut number = || rest.next().unwrap_or(0.0) as u32;
            let pair = (number(), number());
            push(&mut joins, pair, INSPECTION)?;
        }
        Ok(Self { kind: words[0] as u8, all_negative: words[1] != 0.0, findings, runs, joins })
    }
}

/// Result of one thread for its rows.
#[derive(Debug, Default)]
struct Part {
    rows: Range<usize>,
    runs: Runs,
    findings: Findings,
    /// Workspace for the row sums of the nodes of one grid row.
    sum: Vec<f64>,
    not_finite: Option<Error>,
    not_positive: Option<Error>,
    no_memory: Option<Error>,
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unlocked(part: &mut Mutex<Part>) -> &mut Part {
    part.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Inspection {
    /// Prepares an inspection by at most `members` threads.
    pub fn start(&mut self, members: usize) -> Result<()> {
        let missing = members.saturating_sub(self.parts.len());
        reserve(&mut self.parts, missing, "the matrix inspection by threads")?;
        self.parts.resize_with(self.parts.len() + missing, Mutex::default);
        for part in self.parts.iter_mut().map(unlocked) {
            part.rows = 0..0;
            part.findings = Findings::default();
            (part.not_finite, part.not_positive, part.no_memory) = (None, None, None);
        }
        // The memory of the previous components is reused for the first part, unless the first part has more memory
        // already.
        let runs = self.components.take_runs();
        if let Some(first) = self.parts.first_mut().map(unlocked)
            && runs.bytes() > first.runs.bytes()
        {
            first.runs = runs;
        }
        Ok(())
    }

    /// Inspects the rows of one thread, each once, and stores errors for `finish`. The rows of thread m must precede
    /// those of thread m + 1.
    pub fn inspect(&self, member: usize, a: &StencilView, rows: Range<usize>, options: &InspectionOptions) {
        let mut part = lock(&self.parts[member]);
        part.no_memory = part.inspect(a, rows, options).err();
    }

    /// Begins an inspection row by row. The caller must then call `inspect_row` for each of these rows, in order.
    pub fn begin(&self, member: usize, a: &StencilView, rows: Range<usize>) {
        let mut part = lock(&self.parts[member]);
        part.no_memory = part.begin(a, rows).err();
    }

    /// Inspects row j, which must be the next row. Returns whether the row satisfies the conditions and its data could
    /// be stored.
    pub fn inspect_row(&self, member: usize, a: &StencilView, j: usize, wanted: &Conditions) -> bool {
        let mut part = lock(&self.parts[member]);
        let valid = wanted.valid_extremes(a, j).filter(|_| part.no_memory.is_none());
        let Some(found) = valid else { return false };
        part.no_memory = part.inspect_row_of_part(a, j, found, true, wanted.zero_row_sum).err();
        part.no_memory.is_none()
    }

    /// Combines the results of the threads. `project`: whether the constants on singular components are projected out.
    /// Returns an error for the first entry that is not finite, if the inspection checks for such entries, or else for
    /// the first center that is not positive or too small, or else if memory was exhausted. If all centers are
    /// negative, the error message says so.
    pub fn finish(&mut self, a: &StencilView, project: bool) -> Result<()> {
        let (_, result) = self.combine_parts(a);
        let runs = result.map_err(|error| {
            all_negative_error(a, 0..a.grid.ny).filter(|_| is_about_matrix(&error)).unwrap_or(error)
        })?;
        self.components.set(runs, project)
    }

    /// Combines the results of all ranks. This rank has the number `this`, and has inspected the rows `own` with the
    /// result `own_status`. `gather` sends the result of this rank to the others and returns the results of all ranks.
    /// All ranks return the same status; only the rank that found the error has its message.
    pub fn finish_with_ranks(
        &mut self,
        a: &StencilView,
        (this, own): (usize, Range<usize>),
        own_status: Result<()>,
        project: bool,
        gather: impl FnOnce(&RankResult) -> Result<Vec<RankResult>>,
    ) -> Result<()> {
        let joined_pairs =
            || if own.is_empty() || own.start == 0 { Ok(Vec::new()) } else { Runs::joined_pairs(a, own.start) };
        let (kind, result) = match own_status.and_then(|()| joined_pairs()) {
            Ok(joins) => {
                let (kind, runs) = self.combine_parts(a);
                (kind, runs.map(|runs| (runs, joins)))
            }
            Err(error) => (3, Err(error)),
        };
        // An error is gathered, too: without this rank, the others would wait.
        let ((runs, joins), error) = match result {
            Ok(found) => (found, None),
            Err(error) => (Default::default(), Some(error)),
        };
        let all_negative = if own.is_empty() { None } else { all_negative_error(a, own) };
        let mine = RankResult { kind, all_negative: all_negative.is_some(), findings: self.findings, runs, joins };
        let mut all = gather(&mine)?;
        if let Some((rank, first)) = all.iter().enumerate().filter(|(_, f)| f.kind > 0).min_by_key(|(_, f)| f.kind) {
            let nowhere_else = |found: &RankResult| found.all_negative || found.kind == 0 && found.runs.rows() == 0;
            let hint = all_negative.filter(|_| first.kind == 2 && all.iter().all(nowhere_else));
            let reported = hint.or(error).filter(|_| rank == this);
            let status = [RRB_ERR_NOT_FINITE, RRB_ERR_MATRIX, RRB_ERR_MEMORY][first.kind as usize - 1];
            return Err(reported.unwrap_or_else(|| Error::on_other_rank(rank, status)));
        }
        self.findings = Findings::default();
        let mut runs: Option<Runs> = None;
        for RankResult { findings, runs: other, joins, .. } in all.drain(..).filter(|found| found.runs.rows() > 0) {
            self.findings.merge(&findings);
            match &mut runs {
                None => runs = Some(other),
                Some(runs) => runs.append_joined(&other, &joins)?,
            }
        }
        self.components.set(runs.unwrap_or_default(), project)
    }

    /// Combines the findings and runs of all threads. Returns the first error with its kind (`RankResult::kind`), or
    /// the runs with kind 0.
    fn combine_parts(&mut self, a: &StencilView) -> (u8, Result<Runs>) {
        let parts = &mut self.parts;
        let errors: [fn(&mut Part) -> &mut Option<Error>; 3] =
            [|part| &mut part.not_finite, |part| &mut part.not_positive, |part| &mut part.no_memory];
        for (kind, error) in (1..).zip(errors) {
            if let Some(error) = parts.iter_mut().find_map(|part| error(unlocked(part)).take()) {
                return (kind, Err(error));
            }
        }
        self.findings = Findings::default();
        let mut runs: Option<Runs> = None;
        for part in parts.iter_mut().map(unlocked).filter(|part| !part.rows.is_empty()) {
            self.findings.merge(&part.findings);
            match &mut runs {
                None => runs = Some(std::mem::take(&mut part.runs)),
                Some(runs) => {
                    if let Err(error) = runs.append_rows(&part.runs, a, part.rows.start) {
                        return (3, Err(error));
                    }
                }
            }
        }
        (0, Ok(runs.unwrap_or_default()))
    }

    /// Stores the result of an inspection on a device: all nodes of `grid` are one component. `regular`: whether this
    /// component is regular; `project`: as in `finish`.
    pub fn set_whole(&mut self, grid: Grid, findings: Findings, regular: bool, project: bool) -> Result<()> {
        self.findings = findings;
        let mut runs = self.components.take_runs();
        runs.make_whole(grid.nx, grid.ny, regular)?;
        self.components.set(runs, project)
    }

    /// Stores the result of an inspection on a device: there are `components` components of two nodes or more, and all
    /// are regular. `project`: as in `finish`.
    pub fn set_regular(&mut self, findings: Findings, components: usize, project: bool) {
        self.findings = findings;
        self.components.set_regular(components, project);
    }

    /// Returns the memory use of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let of = |part: &Mutex<Part>| {
            let part = lock(part);
            part.runs.bytes() + 8 * part.sum.capacity()
        };
        self.components.bytes() + self.parts.iter().map(of).sum::<usize>()
    }
}

impl Part {
    fn begin(&mut self, a: &StencilView, rows: Range<usize>) -> Result<()> {
        self.rows = rows;
        self.runs.clear(a.grid.nx)?;
        reset(&mut self.sum, a.grid.nx, "a row of sums")
    }

    fn inspect(&mut self, a: &StencilView, rows: Range<usize>, options: &InspectionOptions) -> Result<()> {
        self.begin(a, rows.clone())?;
        for j in rows {
            let entries = a.entries(j).map(|(_, _, values)| values);
            let found = entries.map(extremes);
            let finite = found.iter().all(Option::is_some);
            if !finite && options.finite {
                self.not_finite = first_not_finite(a, j);
                return Ok(());
            }
            let found: [Extremes; 5] =
                std::array::from_fn(|k| found[k].unwrap_or_else(|| extremes_of_numbers(entries[k])));
            self.inspect_row_of_part(a, j, found, finite, options.zero_row_sum)?;
        }
        Ok(())
    }

    fn inspect_row_of_part(
        &mut self,
        a: &StencilView,
        j: usize,
        found: [Extremes; 5],
        finite: bool,
        zero_row_sum: f64,
    ) -> Result<()> {
        let entries = a.entries(j).map(|(_, _, values)| values);
        self.record_center(found[0], entries[0], finite, j);
        for (found, couplings) in found.iter().zip(entries).skip(1) {
            self.record_couplings(*found, couplings);
        }
        // If all couplings to the east are negative numbers, none of them is zero, and the row is one run.
        self.runs.push_plane_row(a, j, finite && found[1].max < 0.0)?;
        if j > self.rows.start {
            self.runs.unite_last_rows(a, j);
        }
        self.record_row_sums(a, j, zero_row_sum);
        Ok(())
    }

    fn record_center(&mut self, found: Extremes, center: &[f64], finite: bool, j: usize) {
        let f = &mut self.findings;
        f.center_min = f.center_min.min(found.min);
        f.center_max = f.center_max.max(found.max);
        if self.not_positive.is_none() && !(finite && found.min >= f64::MIN_POSITIVE) {
            self.not_positive = center.iter().position(|&c| !has_inverse(c)).map(|i| refused_center(center[i], i, j));
        }
    }

    fn record_couplings(&mut self, found: Extremes, couplings: &[f64]) {
        let f = &mut self.findings;
        f.coupling_max = f.coupling_max.max(found.max).max(-found.min);
        if found.max > 0.0 {
            f.positive_couplings += couplings.iter().filter(|&&a| is_positive(a)).count();
        }
    }

    /// Flags each component that has a nonzero row sum in row j as regular.
    fn record_row_sums(&mut self, a: &StencilView, j: usize, tolerance: f64) {
        let center = a.center.row(j);
        let sum = &mut self.sum;
        let mut summed = false;
        self.runs.mark_last_row(|columns| {
            if !std::mem::replace(&mut summed, true) {
                a.sum_row(j, sum);
            }
            any_beyond(&sum[columns.clone()], &center[columns], tolerance)
        });
    }
}

/// Returns the error for a center at node (i, j) that is not positive or too small to divide by.
pub fn refused_center(value: f64, i: usize, j: usize) -> Error {
    let reason = if is_positive(value) {
        format!("center@ = {value:e} is too small to divide by, less than {:e}", f64::MIN_POSITIVE)
    } else {
        format!("center@ = {} is not positive", written(value))
    };
    Error::matrix(reason, 0, i, j)
}

fn is_about_matrix(error: &Error) -> bool {
    matches!(error, Error::Matrix { .. })
}

/// Returns an error if all centers in `rows` (at least one row) are negative, and otherwise `None`.
pub fn all_negative_error(a: &StencilView, mut rows: Range<usize>) -> Option<Error> {
    let (first, negative) = (rows.start, |j: usize| a.center.row(j).iter().all(|c| *c < 0.0));
    rows.all(negative).then(|| Error::Matrix {
        reason: format!("center@ = {} is not positive", written(a.center.row(first)[0])),
        place: Some(Place::node(0, 0, first)),
        then: "; all centers are negative: does the array hold -A? If so, negate b too",
    })
}

/// Returns the error for the first entry of row j that is not finite. The arrays are searched one after the other.
fn first_not_finite(a: &StencilView, j: usize) -> Option<Error> {
    a.entries(j).into_iter().find_map(|(name, start, values)| {
        let i = values.iter().position(|v| !v.is_finite())?;
        Some(Error::not_finite(name, values[i], Place::node(0, start + i, j)))
    })
}

/// Smallest and largest value. Without values, the smallest is infinity and the largest is minus infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    min: f64,
    max: f64,
}

/// Number of values of a block. Each block is read twice and fits in the first-level cache.
const BLOCK: usize = 512;
/// Number of minima, and of maxima, that are computed independently. With 16, the widest vectors hide the latency of an
/// operation, and narrower vectors fit the registers.
const LANES: usize = 16;

for_each_isa! {
    /// Returns the smallest and the largest value, or `None` if a value is not finite. The test uses bit patterns,
    /// because comparisons ignore NaN.
    fn extremes(values: &[f64]) -> Option<Extremes> {
        let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        for near in values.chunks(BLOCK) {
            if !all_finite(near) {
                return None;
            }
            let groups = near.chunks_exact(LANES);
            let rest = groups.remainder();
            for v in groups {
                for l in 0..LANES {
                    min[l] = smaller(v[l], min[l]);
                    max[l] = larger(v[l], max[l]);
                }
            }
            for (l, &v) in rest.iter().enumerate() {
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
    const EXPONENT: u64 = f64::INFINITY.to_bits();
    const ONE: u64 = 1 << 52;
    values.iter().fold(0, |carry, v| carry | ((v.to_bits() & EXPONENT) + ONE)) >> 63 == 0
}

/// Returns whether v > 0. The bit patterns of positive numbers are those from 1 (the smallest number) to that of
/// infinity.
fn is_positive(v: f64) -> bool {
    v.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits()
}

/// Returns whether v is a positive normal number or infinity. The inverse of a smaller positive number overflows or is
/// inaccurate.
fn has_inverse(v: f64) -> bool {
    is_positive(v) && v.to_bits() >= f64::MIN_POSITIVE.to_bits()
}

/// Returns whether |sum| > tolerance * center for any node, or a sum is NaN. Compares bit patterns without the sign,
/// which have the order of the magnitudes; NaN is the largest.
fn any_beyond(sum: &[f64], center: &[f64], tolerance: f64) -> bool {
    sum.iter().zip(center).any(|(s, c)| s.abs().to_bits() > (tolerance * c).to_bits())
}

#[cfg(test)]
pub mod tests;
