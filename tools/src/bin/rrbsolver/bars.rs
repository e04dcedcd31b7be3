//! Draws named bars as SVG.

use std::fmt::Write as _;

use crate::pattern::escaped;

/// One bar.
pub struct Bar {
    pub name: String,
    /// Length; none draws only the note.
    pub value: Option<f64>,
    /// Text next to the bar.
    pub note: String,
    /// Whether the bar has the full colour; otherwise it is pale.
    pub good: bool,
}

/// Bars with a common scale.
pub struct Panel {
    pub title: String,
    pub bars: Vec<Bar>,
}

const LEFT: f64 = 210.0;
const WIDTH: f64 = 380.0;
const STEP: f64 = 22.0;

/// Draws panels below each other. Lengths are logarithmic, because times of methods often differ by orders of
/// magnitude.
pub fn draw(title: &str, panels: &[Panel]) -> String {
    let lines: usize = panels.iter().map(|panel| panel.bars.len() + 2).sum();
    let height = 60.0 + STEP * lines as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         fill=\"#2d323a\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"32\" font-size=\"20\">{}</text>\n",
        escaped(title)
    );
    let mut y = 60.0;
    for panel in panels {
        let values = || panel.bars.iter().filter_map(|bar| bar.value).filter(|v| *v > 0.0);
        let (least, most) = values().fold((f64::INFINITY, 0.0f64), |(l, m), v| (l.min(v), m.max(v)));
        // The shortest bar remains visible.
        let decades = (most / least).log10().max(1.0) * 1.15;
        let length = |v: f64| WIDTH * (1.0 - (most / v).log10() / decades).max(0.01);
        let _ = writeln!(svg, "<text x=\"20\" y=\"{:.1}\" font-size=\"15\">{}</text>", y + 15.0, escaped(&panel.title));
        y += STEP * 1.3;
        for bar in &panel.bars {
            let end = LEFT - 8.0;
            let _ = writeln!(
                svg,
                "<text x=\"{end}\" y=\"{:.1}\" font-size=\"13\" text-anchor=\"end\">{}</text>",
                y + 14.0,
                escaped(&bar.name)
            );
            let mut text = LEFT;
            if let Some(value) = bar.value.filter(|v| *v > 0.0) {
                let fill = if bar.good { "#1f5f99" } else { "#c9ced6" };
                let _ = writeln!(
                    svg,
                    "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>",
                    length(value),
                    0.8 * STEP
                );
                text += length(value) + 6.0;
            }
            let note = escaped(&bar.note);
            let _ = writeln!(svg, "<text x=\"{text:.1}\" y=\"{:.1}\" font-size=\"12\">{note}</text>", y + 14.0);
            y += STEP;
        }
        y += 0.7 * STEP;
    }
    svg.push_str("</svg>\n");
    svg
}
