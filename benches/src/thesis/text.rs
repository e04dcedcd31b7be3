//! Tables of the evaluation.

use super::{DEVICE, METHODS, ProductRow, SolveRow, Thesis};
use crate::record::table;
use crate::timing::{Samples, digits};

/// Returns the cells of a refused row.
fn refused(columns: usize) -> Vec<String> {
    std::iter::once("refused").chain(std::iter::repeat_n("-", columns - 1)).map(str::to_owned).collect()
}

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
        text + &self.break_even()
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

    /// Milliseconds of the setup and of a solve, and iterations, by method and place.
    fn of_solves(&self, system: &str) -> String {
        let cells = |method: &str, place: &String| {
            let is = |row: &&SolveRow| row.system == system && row.place == *place && row.method == method;
            let row = self.solves.iter().find(is);
            let on_device = place == DEVICE;
            let Some(row) = row.filter(|row| row.refused.is_none()) else {
                return refused(if on_device { 4 } else { 2 });
            };
            let end = if row.converged() { String::new() } else { format!(", {}", row.end) };
            let solve = format!("{} [{}]{end}", digits(1e3 * row.solve.median()), row.iterations);
            let mut cells = vec![digits(1e3 * row.factorize), solve];
            if on_device {
                let resident = row.resident.as_ref().map_or(f64::NAN, Samples::median);
                cells.extend([resident, row.transfer].map(|seconds| digits(1e3 * seconds)));
            }
            cells
        };
        let row = |&(method, _): &(&str, &str)| {
            let cells = self.places.iter().flat_map(|place| cells(method, place));
            [method.to_owned()].into_iter().chain(cells).collect()
        };
        let on_host = ["setup ms", "solve ms [iterations]"];
        let on_device = ["setup ms", "with transfers: solve ms [iterations]", "solve ms", "transfers ms"];
        self.by_place(&["method"], &on_host, &on_device, &METHODS.iter().map(row).collect::<Vec<_>>())
    }

    /// Milliseconds of a product, by format and place.
    fn of_products(&self, system: &str) -> String {
        let of = |place: &String| -> Vec<&ProductRow> {
            self.products.iter().filter(|row| row.system == system && row.place == *place).collect()
        };
        let row = |(k, first): (usize, &ProductRow)| {
            let cells = |place: &String| {
                let on_device = place == DEVICE;
                match of(place).get(k) {
                    Some(row) if row.refused.is_none() => {
                        let resident = row.resident.iter().map(Samples::median);
                        [row.product.median()].into_iter().chain(resident).map(|s| digits(1e3 * s)).collect()
                    }
                    _ => refused(if on_device { 2 } else { 1 }),
                }
            };
            let stored = if first.refused.is_some() { "-".to_owned() } else { first.stored.to_string() };
            [first.format.clone(), stored].into_iter().chain(self.places.iter().flat_map(cells)).collect()
        };
        let rows: Vec<Vec<String>> = of(&self.places[0]).into_iter().enumerate().map(row).collect();
        let on_device = ["with transfers: product ms", "product ms"];
        self.by_place(&["format", "stored values"], &["product ms"], &on_device, &rows)
    }

    /// Formats a table whose first columns are followed by those of each place.
    fn by_place(&self, first: &[&str], on_host: &[&str], on_device: &[&str], rows: &[Vec<String>]) -> String {
        let of = |place: &String| -> Vec<String> {
            let columns = if place == DEVICE { on_device } else { on_host };
            columns.iter().map(|column| format!("{place}, {column}")).collect()
        };
        let head: Vec<String> =
            first.iter().map(|name| (*name).to_owned()).chain(self.places.iter().flat_map(of)).collect();
        table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows)
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
}
