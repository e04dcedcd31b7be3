//! Tables of the evaluation.

use super::{METHODS, ProductRow, SolveRow, Thesis};
use crate::record::table;
use crate::timing::{Samples, digits};

/// Formats a count with three digits: 138, 5.86k, 126k, 10.2M.
pub fn short(count: usize) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", digits(count as f64 * 1e-3)),
        _ => format!("{}M", digits(count as f64 * 1e-6)),
    }
}

impl Thesis {
    /// Formats the tables.
    pub fn text(&self) -> String {
        let mut text = self.of_systems();
        for name in &self.missing {
            text += &format!("\nNot measured: {name}.\n");
        }
        for system in &self.systems {
            text += &format!(
                "\n### {}\n\n{}\n{}",
                system.name,
                self.of_solves(&system.name),
                self.of_products(&system.name)
            );
            for (what, why) in self.refusals(&system.name) {
                text += &format!("\nRefused: {what}: {why}.\n");
            }
        }
        for place in &self.places[1..] {
            text += &self.break_even(place);
        }
        text
    }

    fn of_systems(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .systems
            .iter()
            .map(|s| {
                let density = 100.0 * (s.entries - s.zeros) as f64 / (s.rows as f64 * s.rows as f64);
                let counts = [s.rows, s.entries, s.zeros, s.longest, s.padded()].map(|count| count.to_string());
                [s.name.clone()].into_iter().chain(counts).chain([format!("{density:.2e}")]).collect()
            })
            .collect();
        table(&["system", "rows", "nonzeros", "of that zeros", "longest row", "padded", "density, %"], &rows)
    }

    /// Milliseconds of a solve and iterations, by method and place.
    fn of_solves(&self, system: &str) -> String {
        let cell = |method: &str, place: &str| {
            let is = |row: &&SolveRow| row.system == system && row.place == place && row.method == method;
            let Some(row) = self.solves.iter().find(is) else { return "-".to_owned() };
            if row.refused.is_some() {
                return "refused".to_owned();
            }
            let resident = row.resident.as_ref().map(Samples::median);
            let resident = resident.map_or(String::new(), |seconds| format!(", resident {}", digits(1e3 * seconds)));
            let end = if row.converged() { String::new() } else { format!(", {}", row.end) };
            format!("{} [{}]{resident}{end}", digits(1e3 * row.solve.median()), row.iterations)
        };
        let rows: Vec<Vec<String>> = METHODS
            .iter()
            .map(|(method, _)| {
                let cells = self.places.iter().map(|place| cell(method, place));
                [(*method).to_owned()].into_iter().chain(cells).collect()
            })
            .collect();
        let places = self.places.iter().map(|place| format!("{place}: solve ms [iterations]"));
        let head: Vec<String> = ["method".to_owned()].into_iter().chain(places).collect();
        table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    }

    /// Milliseconds of a product, by format and place.
    fn of_products(&self, system: &str) -> String {
        let of = |place: &String| -> Vec<&ProductRow> {
            self.products.iter().filter(|row| row.system == system && row.place == *place).collect()
        };
        let rows: Vec<Vec<String>> = of(&self.places[0])
            .into_iter()
            .enumerate()
            .map(|(k, first)| {
                let cell = |place: &String| match of(place).get(k) {
                    Some(row) if row.refused.is_none() => digits(1e3 * row.product.median()),
                    _ => "refused".to_owned(),
                };
                let stored = if first.refused.is_some() { "-".to_owned() } else { first.stored.to_string() };
                [first.format.clone(), stored].into_iter().chain(self.places.iter().map(cell)).collect()
            })
            .collect();
        let places = self.places.iter().map(|place| format!("{place}: product ms"));
        let head: Vec<String> = ["format", "stored values"].map(str::to_owned).into_iter().chain(places).collect();
        table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    }

    /// Returns what was refused, each reason once.
    fn refusals(&self, system: &str) -> Vec<(String, String)> {
        let solves = self.solves.iter().filter(|row| row.system == system);
        let products = self.products.iter().filter(|row| row.system == system);
        let of_solves = solves.filter_map(|row| Some((&row.method, &row.place, row.refused.as_ref()?)));
        let of_products = products.filter_map(|row| Some((&row.format, &row.place, row.refused.as_ref()?)));
        let mut all: Vec<(String, String)> = Vec::new();
        for (what, place, why) in of_solves.chain(of_products) {
            match all.iter_mut().find(|known| known.1 == *why) {
                Some(known) if known.0.split("; ").any(|name| name == what) => {}
                Some(known) => known.0 += &format!("; {what}"),
                None if place == &self.places[0] => all.push((what.clone(), why.clone())),
                None => all.push((format!("{what} ({place})"), why.clone())),
            }
        }
        all
    }

    /// States from which system on BiCG is faster at a place than on one thread.
    fn break_even(&self, place: &str) -> String {
        let ratio = |system: &str, of: &str| {
            let at = |place: &str| Some(self.solve(system, place, "bicg")?.solve.median());
            Some(at(&self.places[0])? / at(of)?)
        };
        let compared: Vec<(usize, f64)> =
            self.systems.iter().filter_map(|s| Some((s.entries, ratio(&s.name, place)?))).collect();
        // The first system from which on all are faster by more than the spread of repeated runs.
        let slower = compared.iter().rposition(|&(_, ratio)| ratio <= 1.05).map_or(0, |last| last + 1);
        match compared.get(slower) {
            Some((entries, _)) => format!("\nBreak-even size of BiCG, {place}: {} nonzeros.\n", short(*entries)),
            None => format!("\nBreak-even size of BiCG, {place}: above all systems on which it converged.\n"),
        }
    }
}
