//! The sparsity pattern of a matrix, in a terminal and as SVG.

use std::fmt::Write as _;

use crate::library::Rows;

/// Numbers of entries in square cells.
pub struct Pattern {
    down: usize,
    across: usize,
    /// Number of entries of each cell, by rows.
    counts: Vec<u64>,
    /// Largest number of entries that a cell can hold.
    most: f64,
}

/// Bits of the dots of a braille character in Unicode: two across, four down.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

impl Pattern {
    /// Counts the entries in at most `cells` cells along the longer side.
    pub fn of(a: &Rows, cols: usize, cells: usize) -> Self {
        let rows = a.ptr.len() - 1;
        let longer = rows.max(cols).max(1);
        let side = |n: usize| (n as u128 * cells.min(longer) as u128).div_ceil(longer as u128).max(1) as usize;
        let (down, across) = (side(rows), side(cols));
        let cell = |at: usize, n: usize, cells: usize| (at as u128 * cells as u128 / n as u128) as usize;
        let mut counts = vec![0; down * across];
        for (i, bounds) in a.ptr.windows(2).enumerate() {
            let first = cell(i, rows, down) * across;
            for &j in &a.cols[bounds[0] as usize..bounds[1] as usize] {
                counts[first + cell(j as usize, cols, across)] += 1;
            }
        }
        let most = (rows as f64 / down as f64).ceil() * (cols as f64 / across as f64).ceil();
        Self { down, across, counts, most: most.max(1.0) }
    }

    /// Formats the pattern for a terminal, with braille characters and a frame.
    pub fn text(&self) -> String {
        let width = self.across.div_ceil(2);
        let mut text = format!("┌{}┐\n", "─".repeat(width));
        for top in (0..self.down).step_by(4) {
            text.push('│');
            for left in (0..self.across).step_by(2) {
                let mut sign = 0x2800;
                for (y, dots) in DOTS.iter().enumerate() {
                    for (x, dot) in dots.iter().enumerate() {
                        let (row, col) = (top + y, left + x);
                        let inside = row < self.down && col < self.across;
                        sign |= if inside && self.counts[row * self.across + col] > 0 { *dot } else { 0 };
                    }
                }
                text.push(char::from_u32(sign).unwrap_or(' '));
            }
            text.push_str("│\n");
        }
        let _ = writeln!(text, "└{}┘", "─".repeat(width));
        text
    }

    /// Draws cells with entries as SVG, darker with a larger share of nonzero positions.
    pub fn svg(&self, title: &str) -> String {
        const SIDE: f64 = 640.0;
        let step = SIDE / self.down.max(self.across) as f64;
        let (width, height) = (step * self.across as f64, step * self.down as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"20\" y=\"30\" font-size=\"18\" \
             fill=\"#2d323a\">{}</text>\n<rect x=\"20\" y=\"44\" width=\"{width:.3}\" height=\"{height:.3}\" \
             fill=\"none\" stroke=\"#2d323a\"/>\n<g fill=\"#1f5f99\">\n",
            width.max(420.0) + 40.0,
            height + 64.0,
            escaped(title)
        );
        for row in 0..self.down {
            let cells = &self.counts[row * self.across..(row + 1) * self.across];
            let mut col = 0;
            while col < self.across {
                // Consecutive cells of one shade form one rectangle.
                let shade = self.shade(cells[col]);
                let end = (col..self.across).find(|&k| self.shade(cells[k]) != shade).unwrap_or(self.across);
                if shade > 0 {
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{:.3}\" y=\"{:.3}\" width=\"{:.3}\" height=\"{step:.3}\" opacity=\"{}\"/>",
                        20.0 + step * col as f64,
                        44.0 + step * row as f64,
                        step * (end - col) as f64,
                        f64::from(shade) / 4.0
                    );
                }
                col = end;
            }
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }

    /// Returns the shade: 0 without entries, 4 from 25 % nonzero positions on.
    fn shade(&self, count: u64) -> u32 {
        let part = count as f64 / self.most;
        if count == 0 { 0 } else { 1 + [0.004, 0.03, 0.25].iter().filter(|&&bound| part >= bound).count() as u32 }
    }
}

/// Escapes a text for XML.
pub fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            // Other control characters are not allowed in XML.
            c if c.is_control() => "?".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagonal(n: i64) -> Rows {
        Rows { ptr: (0..=n).collect(), cols: (0..n).collect(), values: vec![1.0; n as usize] }
    }

    #[test]
    fn a_diagonal_matrix_is_drawn_on_the_diagonal() {
        let pattern = Pattern::of(&diagonal(4), 4, 80);
        assert_eq!(pattern.text(), "┌──┐\n│⠑⢄│\n└──┘\n");
        // A thousand rows in eight cells per side: all entries are on the diagonal.
        let coarse = Pattern::of(&diagonal(1000), 1000, 8);
        assert!((0..64).all(|k| (coarse.counts[k] == 125) == (k % 9 == 0)));
    }

    #[test]
    fn titles_are_escaped() {
        let svg = Pattern::of(&diagonal(3), 3, 240).svg("a<b> & \"c\"\u{1}");
        assert!(svg.contains("a&lt;b&gt; &amp; &quot;c&quot;?"));
        assert_eq!(svg.matches("opacity").count(), 3);
    }

    #[test]
    fn an_empty_matrix_has_no_cells() {
        let empty = Rows { ptr: vec![0], cols: Vec::new(), values: Vec::new() };
        assert_eq!(Pattern::of(&empty, 0, 80).svg("empty").matches("opacity").count(), 0);
    }
}
