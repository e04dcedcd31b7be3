//! What must be known of the caller's matrix before it is factorized, from one reading of it: bad entries, signs,
//! largest and smallest values, components. Rows may be shared among members; the answer does not depend on how.

use super::components::{Components, Runs};
use super::stencil::StencilView;
use crate::error::{Error, Result, reset};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    /// Entries that are not finite are errors.
    pub finite: bool,
    /// Row sums within this part of the center count as zero.
    pub zero_row_sum: f64,
}

/// What was found, but for the components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Findings {
    /// Couplings a_ij > 0, each pair once.
    pub positive_couplings: usize,
    /// Smallest center.
    pub center_min: f64,
    /// Largest center.
    pub center_max: f64,
    /// Largest |a_ij| of the couplings; 0 without any.
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

/// Inspects one matrix after the other; memory is kept. Call `start`, then `look` for each member's rows, then
/// `finish`.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Of the last matrix.
    pub components: Components,
    /// Of the last matrix.
    pub findings: Findings,
    parts: Vec<Mutex<Part>>,
}

/// What one member finds.
#[derive(Debug, Default)]
struct Part {
    rows: Range<usize>,
    runs: Runs,
    findings: Findings,
    /// Sums of one row.
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
    /// Before a sweep by at most `members`.
    pub fn start(&mut self, members: usize) -> Result<()> {
        let missing = members.saturating_sub(self.parts.len());
        self.parts
            .try_reserve_exact(missing)
            .map_err(|_| Error::Memory(format!("no memory for the matrix inspection by {members} threads")))?;
        self.parts.resize_with(self.parts.len() + missing, Mutex::default);
        for part in &mut self.parts {
            unlocked(part).rows = 0..0;
        }
        // The components are those of the last matrix: their memory serves the first part.
        if let Some(first) = self.parts.first_mut() {
            unlocked(first).runs = self.components.take_runs();
        }
        Ok(())
    }

    /// Looks at the rows of a member, once each: those of member m come before those of member m + 1.
    pub fn look(&self, member: usize, a: &StencilView, rows: Range<usize>, questions: &Questions) {
        let mut part = lock(&self.parts[member]);
        part.no_memory = part.look(a, rows, questions).err();
    }

    /// Puts together what the members found; `project`: constants on singular components are to be projected
    /// out. The first entry that is not finite is an error, where asked for; else the first center that is not
    /// positive.
    pub fn finish(&mut self, a: &StencilView, project: bool) -> Result<()> {
        let parts = &mut self.parts;
        let errors: [fn(&mut Part) -> &mut Option<Error>; 3] =
            [|part| &mut part.not_finite, |part| &mut part.not_positive, |part| &mut part.no_memory];
        for error in errors {
            if let Some(error) = parts.iter_mut().find_map(|part| error(unlocked(part)).take()) {
                return Err(error);
            }
        }
        self.findings = Findings::default();
        let mut runs: Option<Runs> = None;
        for part in parts.iter_mut().map(unlocked).filter(|part| !part.rows.is_empty()) {
            self.findings.merge(&part.findings);
            match &mut runs {
                None => runs = Some(std::mem::take(&mut part.runs)),
                Some(runs) => runs.append(&part.runs, a, part.rows.start)?,
            }
        }
        self.components.set(runs.unwrap_or_default(), project)
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        let of = |part: &Mutex<Part>| {
            let part = lock(part);
            part.runs.bytes() + 8 * part.sum.capacity()
        };
        self.components.bytes() + self.parts.iter().map(of).sum::<usize>()
    }
}

impl Part {
    fn look(&mut self, a: &StencilView, rows: Range<usize>, questions: &Questions) -> Result<()> {
        self.rows = rows.clone();
        self.findings = Findings::default();
        (self.not_finite, self.not_positive) = (None, None);
        self.runs.clear(a.grid.nx)?;
        reset(&mut self.sum, a.grid.nx, "a row of sums")?;
        let below = rows.start.saturating_sub(1);
        let mut finite_below = a.entries(below).iter().all(|(_, _, values)| extremes(values).is_some());
        for j in rows.clone() {
            let entries = a.entries(j).map(|(_, _, values)| values);
            let found = entries.map(extremes);
            let finite = found.iter().all(Option::is_some);
            if !finite && questions.finite {
                self.not_finite = first_not_finite(a, j);
                return Ok(());
            }
            let found: [Extremes; 5] =
                std::array::from_fn(|k| found[k].unwrap_or_else(|| extremes_of_numbers(entries[k])));
            self.note_center(found[0], entries[0], finite, j);
            for (found, couplings) in found.iter().zip(entries).skip(1) {
                self.note_couplings(*found, couplings);
            }
            // Nothing but negative numbers: no coupling is missing.
            self.runs.push_row(entries[1], finite && found[1].max < 0.0)?;
            if j > rows.start {
                self.runs.unite_last_rows(a, j);
            }
            self.note_sums(a, j, questions.zero_row_sum, finite && finite_below);
            finite_below = finite;
        }
        Ok(())
    }

    fn note_center(&mut self, found: Extremes, center: &[f64], finite: bool, j: usize) {
        let f = &mut self.findings;
        f.center_min = f.center_min.min(found.min);
        f.center_max = f.center_max.max(found.max);
        if self.not_positive.is_none() && !(finite && found.min > 0.0) {
            self.not_positive = center.iter().position(|&c| !is_positive(c)).map(|i| {
                let reason = format!("center {:e} is not positive", center[i]);
                Error::Matrix { reason, level: 0, i, j }
            });
        }
    }

    fn note_couplings(&mut self, found: Extremes, couplings: &[f64]) {
        let f = &mut self.findings;
        f.coupling_max = f.coupling_max.max(found.max).max(-found.min);
        if found.max > 0.0 {
            f.positive_couplings += couplings.iter().filter(|&&a| is_positive(a)).count();
        }
    }

    /// Notes which runs of row j have a sum that is not zero; `finite`: no entry is NaN or infinite.
    fn note_sums(&mut self, a: &StencilView, j: usize, tolerance: f64, finite: bool) {
        let center = a.center.row(j);
        let sum = &mut self.sum;
        let mut summed = false;
        self.runs.mark_last_row(|columns| {
            if !std::mem::replace(&mut summed, true) {
                a.sum_row(j, sum);
            }
            let beyond = if finite { any_beyond } else { any_number_beyond };
            beyond(&sum[columns.clone()], &center[columns], tolerance)
        });
    }
}

/// The first entry of row j that is not finite, array by array.
fn first_not_finite(a: &StencilView, j: usize) -> Option<Error> {
    a.entries(j).into_iter().find_map(|(name, start, values)| {
        let i = values.iter().position(|v| !v.is_finite())?;
        Some(Error::NotFinite { name, value: values[i], i: start + i, j })
    })
}

/// Smallest and largest value; infinite, the smallest above the largest, where there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extremes {
    min: f64,
    max: f64,
}

/// Values that are looked at twice while they are in the nearest cache.
const NEAR: usize = 512;
/// Independent minima: enough for the latency of one.
const LANES: usize = 8;

/// None where a value is not finite. That is asked first and by bit patterns: a comparison with NaN would raise
/// the trap of a host that has set one.
fn extremes(values: &[f64]) -> Option<Extremes> {
    let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    for near in values.chunks(NEAR) {
        if !all_finite(near) {
            return None;
        }
        let lanes = near.chunks_exact(LANES);
        for (l, &v) in lanes.remainder().iter().enumerate() {
            (min[l], max[l]) = (smaller(v, min[l]), larger(v, max[l]));
        }
        for v in lanes {
            for l in 0..LANES {
                (min[l], max[l]) = (smaller(v[l], min[l]), larger(v[l], max[l]));
            }
        }
    }
    Some(Extremes {
        min: min.into_iter().fold(f64::INFINITY, smaller),
        max: max.into_iter().fold(f64::NEG_INFINITY, larger),
    })
}

/// One machine instruction, for numbers.
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// One machine instruction, for numbers.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The same where some values are infinite or NaN; those that are NaN are left out.
fn extremes_of_numbers(values: &[f64]) -> Extremes {
    let numbers = || values.iter().copied().filter(|v| !v.is_nan());
    Extremes {
        min: numbers().min_by(f64::total_cmp).unwrap_or(f64::INFINITY),
        max: numbers().max_by(f64::total_cmp).unwrap_or(f64::NEG_INFINITY),
    }
}

/// Exponents of all ones plus one carry into the sign.
fn all_finite(values: &[f64]) -> bool {
    const EXPONENT: u64 = f64::INFINITY.to_bits();
    const ONE: u64 = 1 << 52;
    values.iter().fold(0, |carry, v| carry | ((v.to_bits() & EXPONENT) + ONE)) >> 63 == 0
}

/// v > 0, by bit patterns: 1 is the smallest number and infinity the largest.
fn is_positive(v: f64) -> bool {
    v.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits()
}

/// Whether |sum| > tolerance * center anywhere.
fn any_beyond(sum: &[f64], center: &[f64], tolerance: f64) -> bool {
    let beyond = |(s, c): (&f64, &f64)| s.abs() > tolerance * c;
    let any = |(s, c): (&[f64], &[f64])| s.iter().zip(c).fold(false, |any, pair| any | beyond(pair));
    sum.chunks(NEAR).zip(center.chunks(NEAR)).any(any)
}

/// The same where some sums may be NaN, which are not. By bit patterns, whose order is that of magnitudes.
fn any_number_beyond(sum: &[f64], center: &[f64], tolerance: f64) -> bool {
    const INFINITY: u64 = f64::INFINITY.to_bits();
    let beyond = |s: f64, c: f64| s.to_bits() > (tolerance * c).to_bits() && s.to_bits() <= INFINITY;
    sum.iter().zip(center).any(|(s, c)| beyond(s.abs(), *c))
}
