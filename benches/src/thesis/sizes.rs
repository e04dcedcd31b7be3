//! The size from which on a place is faster: circuits of several sizes, each from the arrays of the matrix to x.

use super::{COMMON, DEVICE, Place, Plan, SPEED_UP, Thesis, text};
use crate::record::table;
use crate::smoother::{Chart, Curve};
use crate::sparse::{Library, Rows};
use crate::timing::{Samples, digits};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Number of entries of the smallest and of the largest circuit. Each circuit has about sqrt(10) times as many entries
/// as the one before.
const SIZES: [usize; 2] = [1000, 1_000_000];

/// Times on a circuit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SizeRow {
    /// Number of entries.
    pub entries: usize,
    /// Number of entries if all rows had the length of the longest row.
    pub padded: usize,
    /// Seconds at each place: creation, setup, and a solve with arrays on the host.
    pub totals: Vec<Samples>,
}

/// Measures circuits up to the largest one of the plan. The first time is also measured if it is above a quarter of the
/// limit of a solve; otherwise it is the warm-up.
pub(super) fn measure(plan: &Plan, places: &[Place]) -> Result<Vec<SizeRow>> {
    let most = plan.entries.iter().copied().max().unwrap_or(0).min(SIZES[1]);
    let mut rows = Vec::new();
    for half_decade in 0.. {
        let requested = (SIZES[0] as f64 * 10.0_f64.powf(0.5 * f64::from(half_decade))).round() as usize;
        if requested > most {
            break;
        }
        let a = Rows::generate(&format!("circuit_{requested}"))?;
        let b = a.row_sums();
        let mut row = SizeRow { entries: a.val.len(), padded: b.len() * a.longest(), totals: Vec::new() };
        for place in places {
            let mut totals = Samples::default();
            for round in 0..=plan.repeats.max(1) {
                let mut x = vec![0.0; b.len()];
                let start = Instant::now();
                let library = Library::new(&a)?;
                library.set(&format!("{COMMON} {} solver={SPEED_UP}", place.options))?;
                library.factorize()?;
                let (status, _) = library.solve(b.as_ptr(), x.as_mut_ptr())?;
                let seconds = start.elapsed().as_secs_f64();
                ensure!(status == 0, "{SPEED_UP} does not converge on circuit_{requested}");
                let is_long = seconds > 0.25 * plan.seconds;
                if round > 0 || is_long {
                    totals.push(seconds);
                }
                if is_long {
                    break;
                }
            }
            row.totals.push(totals);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the size from which on a ratio is above 1, from ratios at ascending sizes: the first size if all are above
/// 1, and none if the last one is not. Between two sizes, the logarithm of the ratio is linear in that of the size.
fn crossing(ratios: &[(f64, f64)]) -> Option<f64> {
    let Some(k) = ratios.iter().rposition(|&(_, ratio)| ratio <= 1.0) else { return Some(ratios.first()?.0) };
    let ((from, low), &(to, high)) = (ratios[k], ratios.get(k + 1)?);
    Some(from * (to / from).powf(-low.ln() / (high.ln() - low.ln())))
}

impl Thesis {
    /// Formats the times, and the break-even size of each pair of places.
    pub(super) fn break_even(&self) -> String {
        let row = |row: &SizeRow| {
            let sizes = [row.entries, row.padded].map(|count| count.to_string());
            sizes.into_iter().chain(row.totals.iter().map(|t| digits(1e3 * t.median()))).collect()
        };
        let places = self.places.iter().map(|place| format!("{place}: ms"));
        let head: Vec<String> = ["nonzeros", "padded"].map(str::to_owned).into_iter().chain(places).collect();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut text =
            format!("\n### Break-even size\n\nCircuits by {SPEED_UP}, from the arrays of the matrix to x:\n\n");
        text += &table(&head, &self.sizes.iter().map(row).collect::<Vec<_>>());
        for (k, place) in self.places.iter().enumerate() {
            for (slower, other) in self.places[..k].iter().enumerate() {
                let ratio = |row: &SizeRow| (row.entries as f64, row.totals[slower].median() / row.totals[k].median());
                let ratios: Vec<(f64, f64)> = self.sizes.iter().map(ratio).collect();
                let size = match (crossing(&ratios), ratios.first()) {
                    (Some(size), Some(&(first, _))) if size > first => {
                        format!("{} nonzeros", text::short(size as usize))
                    }
                    (Some(_), _) => "below the smallest circuit".to_owned(),
                    (None, _) => "above the largest circuit".to_owned(),
                };
                text += &format!("\nBreak-even size, {place} relative to {other}: {size}.\n");
            }
        }
        text
    }

    /// The chart of the times.
    pub(super) fn over_sizes(&self) -> Chart {
        let curve = |(k, place): (usize, &String)| {
            let point = |(at, row): (usize, &SizeRow)| (at as f64, 1e3 * row.totals[k].median());
            let transfers = if place == DEVICE { ", with transfers" } else { "" };
            Curve { name: format!("{place}{transfers}"), points: self.sizes.iter().enumerate().map(point).collect() }
        };
        let size = |row: &SizeRow| format!("{} ({})", text::short(row.entries), text::short(row.padded));
        Chart {
            name: "thesis_break_even".to_owned(),
            title: format!("Circuits by {SPEED_UP}, with setup"),
            x: "nonzeros (padded)".to_owned(),
            y: "ms".to_owned(),
            logarithmic: true,
            places: self.sizes.iter().map(size).collect(),
            curves: self.places.iter().enumerate().map(curve).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_cross_between_two_sizes() {
        // Ratio = sqrt(size / 1000).
        let of = |sizes: &[f64]| sizes.iter().map(|&size| (size, (size / 1000.0).sqrt())).collect::<Vec<_>>();
        let at = crossing(&of(&[10.0, 100.0, 20_000.0])).unwrap();
        assert!((at - 1000.0).abs() < 1e-9, "{at}");
        assert_eq!(crossing(&of(&[2000.0, 3000.0])), Some(2000.0));
        assert_eq!(crossing(&of(&[10.0, 1000.0])), None);
        assert_eq!(crossing(&[]), None);
        // Only the last crossing counts: from there on, the ratio is above 1.
        assert_eq!(crossing(&[(1.0, 4.0), (10.0, 0.5), (1000.0, 2.0)]), Some(100.0));
    }
}
